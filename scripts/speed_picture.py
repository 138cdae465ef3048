#!/usr/bin/env python3
"""Draws docs/pictures/speed.svg: Volta's time divided by the fastest peer's, one bar per measurement.

    scripts/speed_picture.py            writes the picture
    scripts/speed_picture.py --print    prints the figures as a Markdown table instead
    scripts/speed_picture.py --check    fails if the picture, or the table in docs/comparison.md, is out of date

Every figure comes from the JSON files in bench/results. Volta and its peers were measured one after the other on the
same machine.
"""
import json
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PICTURE = ROOT / "docs" / "pictures" / "speed.svg"
PAGE = ROOT / "docs" / "comparison.md"

GPU_STEPS = ("h200-2026-11-15/steps_cuda_tf32.json", ["h200-2026-11-15/steps_torch.json", "h200-2026-11-15/steps_jax.json"])
GPU_OPS = ("h200-2026-11-15-ops/ops_cuda.json", ["h200-2026-11-15-ops/ops_torch.json"])


def cpu_steps(name):
    folder = "cpu-2026-11-15"
    return (f"{folder}/steps_cpu_{name}.json", [f"{folder}/steps_torch_{name}.json", f"{folder}/steps_jax_{name}.json"])


# The heading and the short name of a section, then its rows: label, files, and the name of the workload in them.
SECTIONS = [
    ("Training step on an H200, tf32 products: best of 5 PyTorch variants and JAX", "training step on an H200", [
        ("XOR 2-8-1, batch 4", GPU_STEPS, "xor"),
        ("MLP 784-1024-1024-10, batch 128", GPU_STEPS, "mlp"),
        ("the same MLP, batch 4096", GPU_STEPS, "mlp4096"),
    ]),
    ("Single operation on an H200: best of PyTorch eager and compiled", "H200", [
        ("8 fused elementwise ops, 1M elements", GPU_OPS, "chain 1M"),
        ("8 fused elementwise ops, 100M elements", GPU_OPS, "chain 100M"),
        ("sum, 100M elements", GPU_OPS, "sum 100M"),
        ("softmax, 8192 x 1024", GPU_OPS, "softmax 8192x1024"),
        ("layer norm, 8192 x 8192", GPU_OPS, "layer norm 8192x8192"),
        ("matmul bf16, 8192", GPU_OPS, "matmul bf16 8192"),
    ]),
    ("Training step on two CPU cores: best of 3 PyTorch variants and JAX", "training step on two CPU cores", [
        ("XOR 2-8-1, batch 4", cpu_steps("xor"), "xor"),
        ("MLP 784-1024-1024-10, batch 128", cpu_steps("mlp"), "mlp"),
    ]),
]

STYLE = """
  .card { fill: #ffffff; stroke: #d5dbe1; }
  .fast { fill: #4f8a5f; }
  .slow { fill: #c07a35; }
  .peer { stroke: #51616f; stroke-width: 1.6; stroke-dasharray: 5 4; }
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2a33; font-size: 14px; }
  .title { font-size: 17px; font-weight: 600; }
  .section { font-weight: 600; }
  .note, .peername { font-size: 12.5px; fill: #45525d; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161c22; stroke: #39434d; }
    .fast { fill: #6fae80; }
    .slow { fill: #d99a58; }
    .peer { stroke: #a9b7c4; }
    text { fill: #e8edf2; }
    .note, .peername { fill: #b4c0cb; }
  }
"""


def medians(file, workload):
    """The medians of a workload in a result file: {variant: milliseconds}."""
    rows = json.loads((RESULTS / file).read_text())["results"]
    return {row["variant"]: row["median_ms"] for row in rows if row["workload"] == workload and "median_ms" in row}


def measure(files, workload):
    """Volta's milliseconds, the fastest peer's, and that peer's name."""
    volta_file, peer_files = files
    (volta,) = medians(volta_file, workload).values()
    peers = []
    for file in peer_files:
        framework = {"torch": "PyTorch", "jax": "JAX"}[json.loads((RESULTS / file).read_text())["framework"]]
        peers += [(time, f"{framework} {variant}") for variant, time in medians(file, workload).items()]
    return volta, *min(peers)


def duration(milliseconds):
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1000:.3g} µs"


def draw():
    left, unit, right = 320, 230, 1000  # start of the bars, length of a ratio of 1, width of the picture
    y = 34
    body = ['<text class="title" x="24" y="34">Volta’s time divided by the fastest peer’s (shorter is faster)</text>']
    for heading, _, rows in SECTIONS:
        y += 34
        body.append(f'<text class="section" x="24" y="{y}">{escape(heading)}</text>')
        top = y + 8
        for label, files, workload in rows:
            y += 26
            volta, peer, name = measure(files, workload)
            ratio = volta / peer
            length = ratio * unit
            kind = "fast" if ratio <= 1 else "slow"
            after = left + max(length, unit) + 12
            body += [
                f'<text x="{left - 12}" y="{y}" text-anchor="end">{escape(label)}</text>',
                f'<rect class="{kind}" x="{left}" y="{y - 13}" width="{length:.1f}" height="17" rx="2"/>',
                f'<text x="{after:.1f}" y="{y}">{ratio:.2f}</text>',
                f'<text class="peername" x="{left + unit * 1.26 + 56:.0f}" y="{y}">'
                f"{duration(volta)} against {duration(peer)}, {escape(name)}</text>",
            ]
        body.append(f'<line class="peer" x1="{left + unit}" y1="{top}" x2="{left + unit}" y2="{y + 10}"/>')
    y += 34
    body.append(f'<text class="note" x="24" y="{y}">Dashed line: the fastest peer. PyTorch 2.11 and JAX, medians, measured in '
                "November 2026. All measurements are in bench/results.</text>")
    height = y + 22
    title = "Volta’s time divided by the fastest peer’s time, per measurement"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {height}" width="{right}" height="{height}" '
        'role="img" aria-labelledby="t">',
        f'<title id="t">{title}</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="1" y="1" width="{right - 2}" height="{height - 2}" rx="10"/>',
        *body,
        "</svg>",
        "",
    ])


def table():
    lines = ["| measurement | Volta | fastest peer | ratio | Volta's file in `bench/results` |", "| --- | --- | --- | --- | --- |"]
    for _, place, rows in SECTIONS:
        for label, files, workload in rows:
            volta, peer, name = measure(files, workload)
            lines.append(f"| {label} ({place}) | {duration(volta)} | {duration(peer)}, {name} | {volta / peer:.2f} | `{files[0]}` |")
    return "\n".join(lines)


def check():
    """A sentence that names the file that is out of date; empty if every file is up to date."""
    if PICTURE.read_text() != draw():
        return f"{PICTURE.relative_to(ROOT)} is out of date; run scripts/speed_picture.py"
    if table() not in PAGE.read_text():
        return f"the table in {PAGE.relative_to(ROOT)} is out of date; paste the output of scripts/speed_picture.py --print"
    return ""


if __name__ == "__main__":
    if "--print" in sys.argv[1:]:
        print(table())
    elif "--check" in sys.argv[1:]:
        sys.exit(check() or 0)
    else:
        PICTURE.write_text(draw())
