"""Puts results of volta_steps and the peers side by side, as Markdown, with Volta's ratio to the fastest.

  python3 compare.py volta.json torch.json jax.json > results/DATE-DEVICE.md
"""
import json
import sys

NAMES = {"xor": "XOR 2-8-1, batch 4", "mlp": "MLP 784-1024-1024-10, batch 128",
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


def times_table(runs):
    times = {}  # column -> workload -> milliseconds
    for run in runs:
        for result in run["results"]:
            own = run["framework"] == "volta"
            column = "Volta" if own else f"{run['framework']} {result['variant']}"
            if "median_ms" in result:
                times.setdefault(column, {})[result["workload"]] = result["median_ms"]
    columns = sorted(times, key=lambda column: column == "Volta")
    rows = [["one step, ms", *columns, "Volta / fastest peer"]]
    for workload, name in NAMES.items():
        if not any(workload in column for column in times.values()):
            continue
        cells = [times[column].get(workload) for column in columns]
        own = times.get("Volta", {}).get(workload)
        peers = [cell for column, cell in zip(columns, cells) if column != "Volta" and cell]
        ratio = f"{own / min(peers):.2f}" if own and peers else "–"
        rows.append([name, *(f"{cell:.4f}" if cell else "–" for cell in cells), ratio])
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


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    runs = read(sys.argv[1:])
    machines = sorted({f"{run['device_name']}, {run['threads']} CPU threads" for run in runs})
    print("Whole training steps (zero_grad, forward, backward, Adam), medians. " + "; ".join(machines) + ".\n")
    print(times_table(runs))
    counts = counts_table(runs)
    if counts:
        print("\n" + counts)
    print("\nFrom:\n")
    for run in runs:
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        products = "tf32" if run["tf32"] else "f32"
        print(f"- `{run['command']}` — {run['date']}, {run['device']}, {products} products, {versions}")
    failures = [(run["framework"], result) for run in runs for result in run["results"] if "error" in result]
    for framework, result in failures:
        print(f"- {framework} {result['variant']}, {result['workload']}: failed: {result['error']}")


if __name__ == "__main__":
    main()
