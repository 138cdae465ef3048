"""Puts results of volta_steps, volta_ops, volta_layers, volta_changing and the peers side by side, as Markdown,
with Volta's ratio to the fastest.

  python3 compare.py volta.json torch.json jax.json > results/DATE-DEVICE.md
"""
import json
import sys

NAMES = {"xor": "XOR 2-8-1, batch 4", "deep": "16 layers of 8, batch 4",
         "mlp": "MLP 784-1024-1024-10, batch 128",
         "mlp4096": "same, batch 4096"}


def read(paths):
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    return runs


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in rows]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def measured(runs):
    """(column, result) of everything measured; Volta's columns name the device if there are several."""
    devices = {(run["device"], run["tf32"]) for run in runs if run["framework"] == "volta"}
    for run in runs:
        own = "Volta"
        if len(devices) > 1:
            own += f" {run['device']}" + (", tf32" if run["tf32"] else "")
        for result in run["results"]:
            if "median_ms" in result:
                yield own if run["framework"] == "volta" else \
                    f"{run['framework']} {result['variant']}", result


def columns_of(runs):
    """column -> workload -> result, Volta's columns last; and which columns are Volta's."""
    columns = {}
    for column, result in measured(runs):
        columns.setdefault(column, {})[result["workload"]] = result
    names = sorted(columns, key=lambda name: name.startswith("Volta"))
    return {name: columns[name] for name in names}, [n for n in names if n.startswith("Volta")]


def ratio_cells(columns, own, workload):
    """Volta's times divided by the fastest peer's time, one cell for each of Volta's columns."""
    peers = [results[workload]["median_ms"] for name, results in columns.items()
             if name not in own and workload in results]
    return [f"{columns[name][workload]['median_ms'] / min(peers):.2f}"
            if peers and workload in columns[name] else "–" for name in own]


def times_table(runs):
    columns, own = columns_of(runs)
    rows = [["one step, ms", *columns, *(f"{name} / fastest peer" for name in own)]]
    for workload, name in NAMES.items():
        cells = [results.get(workload) for results in columns.values()]
        if any(cells):
            rows.append([name, *(f"{cell['median_ms']:.4f}" if cell else "–" for cell in cells),
                         *ratio_cells(columns, own, workload)])
    return table(rows)


def counts_table(runs):
    fields = [("launches", "kernels a step"), ("library_calls", "library calls"), ("nodes", "nodes"),
              ("record_us", "recording, µs"), ("ns_per_node", "ns a node"), ("host_us", "host, µs"),
              ("plans_built", "plans built"), ("compilations", "compilations"),
              ("allocations", "allocations"), ("transfers", "transfers"),
              ("first_step_ms", "first step, ms")]
    rows = [["Volta, measured steps", *(label for _, label in fields)]]
    for run in runs:
        if run["framework"] == "volta":
            for result in run["results"]:
                rows.append([NAMES[result["workload"]], *(f"{result[key]:.4g}" for key, _ in fields)])
    return table(rows) if len(rows) > 1 else ""


def rate(result):
    if result.get("bytes"):
        return f"{result['gb_per_s']:,.{0 if result['gb_per_s'] >= 100 else 1}f} GB/s"
    if result.get("operations"):
        return f"{result['tflop_per_s']:.{1 if result['tflop_per_s'] >= 10 else 3}f} TFLOP/s"
    return f"{result['median_ms'] * 1e3:.2f} µs"


def time_and_rate(result):
    ms = result["median_ms"]
    return f"{ms:.3f} ms, {rate(result)}" if ms >= 1 else f"{ms * 1e3:.1f} µs, {rate(result)}"


def rows_table(columns, own, cell):
    """One line per measured row. `cell` formats a result."""
    limits = [name for name in own if any("limit" in r for r in columns[name].values())]
    rows = [["operation", *columns, *(f"{name}'s time / fastest peer's" for name in own),
             *(f"{name} of {own[0]}" for name in own[1:]),
             *(f"{name} of the limit" for name in limits),
             *(f"{name}: kernels, library calls" for name in own)]]
    for workload in dict.fromkeys(name for results in columns.values() for name in results):
        cells = [results.get(workload) for results in columns.values()]
        bounded = [columns[name].get(workload, {}) for name in limits]
        first = columns[own[0]].get(workload) if own else None
        others = [columns[name].get(workload) for name in own[1:]]
        counts = [columns[name].get(workload) for name in own]
        rows.append([workload, *(cell(result) if result else "–" for result in cells),
                     *ratio_cells(columns, own, workload),
                     *(f"{first['median_ms'] / other['median_ms'] * 100:.0f}%"
                       if first and other else "–" for other in others),
                     *(f"{b['of_limit'] * 100:.0f}% of {b['limit']}" if "limit" in b else "–"
                       for b in bounded),
                     *(f"{c['launches']:.4g}, {c['library_calls']:.4g}" if c else "–" for c in counts)])
    return table(rows)


def ops_table(runs):
    return rows_table(*columns_of(runs), rate)


def sum_of(results):
    """The sum of several results: the time of evaluating each row once."""
    added = {key: sum(result[key] for result in results)
             for key in ("median_ms", "operations", "launches", "library_calls")
             if all(key in result for result in results)}
    if added["operations"]:
        added["tflop_per_s"] = added["operations"] / added["median_ms"] * 1e-9
    if all("limit" in result for result in results):
        added["limit"] = results[0]["limit"]
        added["of_limit"] = sum(result["limit_ms"] for result in results) / added["median_ms"]
    return added


def with_sums(columns):
    """The columns with the sum of each group after its last row, if a column has all rows of the group."""
    groups, order = {}, []
    for results in columns.values():
        for workload, result in results.items():
            if workload not in order:
                order.append(workload)
            if "group" in result:
                groups.setdefault(result["group"], {})[workload] = None
    lines = []
    for workload in order:
        lines.append((workload, [workload]))
        for group, members in groups.items():
            if workload == max(members, key=order.index):
                lines.append((f"**sum of {len(members)}: {group}**", list(members)))
    return {name: {line: results[line] if line in results else sum_of([results[m] for m in members])
                   for line, members in lines if all(m in results for m in members)}
            for name, results in columns.items()}


def layers_table(runs):
    columns, own = columns_of(runs)
    return rows_table(with_sums(columns), own, time_and_rate)


def first_step_table(runs):
    rows = [["first step of a process", "device", "cache", "step, ms", "with start and data, ms",
             "compiled", "loaded"]]
    for run in runs:
        for result in run["results"]:
            rows.append([NAMES[result["workload"]], run["device"], result["variant"],
                         f"{result['first_step_ms']:.0f}",
                         f"{result['first_step_ms'] + result['ready_ms']:.0f}",
                         str(result["compilations"]), str(result["kernels_loaded"])])
    return table(rows)


def changing_table(runs):
    columns, own = columns_of(runs)
    kinds = (("known_ms", "known"), ("median_ms", "new"), ("first_ms", "first"))
    rows = [["sizes that change, ms", *(f"{name}: {kind}" for name in columns for _, kind in kinds),
             *(f"{name}: plans, kernels" for name in own), *(f"{name} / fastest peer, new" for name in own)]]
    for workload in dict.fromkeys(name for results in columns.values() for name in results):
        cells = [results.get(workload) for results in columns.values()]
        counts = [columns[name].get(workload) for name in own]
        rows.append([workload, *(f"{cell[key]:.4g}" if cell else "–" for cell in cells for key, _ in kinds),
                     *(f"{c['plans_built']}, {c['compilations']}" if c else "–" for c in counts),
                     *ratio_cells(columns, own, workload)])
    return table(rows)


SECTIONS = {
    "steps": ("Whole training steps (zero_grad, forward, backward, Adam), medians.",
              (times_table, counts_table)),
    "ops": ("Single operations, back to back, medians; GB/s count each byte that must move once.",
            (ops_table,)),
    "layers": ("Layers, forward and backward unless they say otherwise, back to back, medians; sums "
               "take each row of a group once.", (layers_table,)),
    "changing": ("Steps at a size seen before, at a new size, and the first one; medians. The plans and kernels "
                 "built are those of the new sizes.", (changing_table,)),
    "first_step": ("The first step of a process, caches empty and then filled.", (first_step_table,)),
}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    runs = read(sys.argv[1:])
    machines = sorted({f"{run['device_name']}, {run['threads']} CPU threads" for run in runs})
    print("; ".join(machines) + ".")
    for kind, (title, tables) in SECTIONS.items():
        of_kind = [run for run in runs if run.get("bench", "steps") == kind]
        if of_kind:
            print("\n" + title)
            for text in filter(None, (make(of_kind) for make in tables)):
                print("\n" + text)
    print("\nFrom:\n")
    for run in runs:
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        products = {True: ", tf32 products", False: ", f32 products"}[run["tf32"]]
        if run.get("bench") in ("ops", "layers"):
            products = ""  # each row states its own precision
        clock = ", processor time" if run.get("clock") == "processor" else ""
        print(f"- `{run['command']}` — {run['date']}, {run['device']}{products}{clock}, {versions}")
    failures = [(run["framework"], result) for run in runs for result in run["results"] if "error" in result]
    for framework, result in failures:
        print(f"- {framework} {result['variant']}, {result['workload']}: failed: {result['error']}")


if __name__ == "__main__":
    main()
