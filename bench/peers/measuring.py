"""Code shared by the scripts of the peers: options, the measurements of bench/measuring.h and their JSON."""
import argparse
import datetime
import json
import os
import platform
import shlex
import statistics
import sys
import time

WORKLOADS = ("xor", "mlp", "mlp4096")
BATCH = {"mlp": 128, "mlp4096": 4096}
WARMUP, BLOCKS, FEWEST_BLOCKS, BLOCK_SECONDS = 20, 25, 5, 0.02


clock = time.perf_counter


def use_processor_time():
    """Measures processor time with one thread, like bench/measuring.h, on a CPU that other processes use as well."""
    global clock
    clock = time.process_time


def parse_options(description, devices, variants):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", choices=devices, default=devices[0])
    parser.add_argument("--workload", choices=(*WORKLOADS, "all"), default="all")
    parser.add_argument("--variant", choices=(*variants, "all"), default="all")
    parser.add_argument("--steps", type=int, default=0,
                        help="steps to measure in all; without it, enough for half a second")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: all)")
    parser.add_argument("--tf32", action=argparse.BooleanOptionalAction, default=None,
                        help="tf32 matrix products (default: on a GPU)")
    parser.add_argument("--json", default="", help="file to write")
    options = parser.parse_args()
    if options.tf32 is None:
        options.tf32 = options.device != "cpu"
    options.threads = options.threads or len(os.sched_getaffinity(0))
    options.workloads = WORKLOADS if options.workload == "all" else (options.workload,)
    options.variants = variants if options.variant == "all" else (options.variant,)
    return options


def measure(step, synchronize, steps=0):
    """Medians of whole steps, in blocks with one synchronisation at the end of each."""
    start = clock()
    step()
    synchronize()
    first = clock() - start
    for _ in range(WARMUP):
        step()
    synchronize()
    start = clock()
    for _ in range(WARMUP):
        step()
    synchronize()
    estimate = (clock() - start) / WARMUP
    block = max(1, steps // BLOCKS if steps else int(BLOCK_SECONDS / estimate))
    return {**time_blocks(step, synchronize, BLOCKS, block), "first_step_ms": first * 1e3}


def measure_op(step, synchronize):
    """Medians of single evaluations, back to back, with the warm-up of bench/rows.h."""
    for _ in range(3):
        start = clock()
        steps = 0
        while steps < 2 or (steps < 64 and clock() - start < 0.2):
            step()
            steps += 1
        synchronize()
        estimate = (clock() - start) / steps
    blocks = min(max(int(BLOCKS * BLOCK_SECONDS / estimate), FEWEST_BLOCKS), BLOCKS)
    return time_blocks(step, synchronize, blocks, max(1, int(BLOCK_SECONDS / estimate)))


def time_blocks(step, synchronize, blocks, block):
    times = []
    for _ in range(blocks):
        start = clock()
        for _ in range(block):
            step()
        synchronize()
        times.append((clock() - start) / block * 1e3)
    return {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times),
            "steps": block * blocks, "blocks": blocks}


class Report:
    """Prints each result as it arrives and writes all results so far, so that an interrupted run keeps them."""

    kind = "steps"

    def __init__(self, framework, versions, device_name, options):
        self.path = options.json
        tf32 = getattr(options, "tf32", False)
        self.content = {
            "bench": self.kind, "framework": framework,
            "versions": {**versions, "python": platform.python_version()},
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
            "device": options.device, "device_name": device_name, "threads": options.threads,
            "clock": "wall" if clock is time.perf_counter else "processor",
            "tf32": tf32, "results": []}
        shown = ", ".join(f"{name} {version}" for name, version in self.content["versions"].items())
        print(f"{shown} on {options.device} ({device_name}), {options.threads} CPU threads"
              f"{'' if clock is time.perf_counter else ', processor time'}"
              f"{', tf32 products' if tf32 else ''}")
        self.print_header()

    def print_header(self):
        print(f"{'workload':<8} {'variant':<24} {'median ms':>10} {'min ms':>10} {'loss':>9}")

    def add(self, workload, variant, result):
        self.content["results"].append({"workload": workload, "variant": variant, **result})
        print(f"{workload:<8} {variant:<24} {result['median_ms']:10.4f} {result['min_ms']:10.4f} "
              f"{result['loss_after']:9.6f}", flush=True)
        self.write()

    def failed(self, workload, variant, error):
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        self.content["results"].append({"workload": workload, "variant": variant, "error": reason})
        print(f"{workload:<8} {variant:<24} failed: {reason}", flush=True)
        self.write()

    def write(self):
        if self.path:
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump(self.content, file, indent=2)
                file.write("\n")


class RowsReport(Report):
    """The report of rows of single operations or layers."""

    def __init__(self, kind, *arguments):
        self.kind = kind
        super().__init__(*arguments)

    def print_header(self):
        print(f"{'row':<50} {'variant':<22} {'median us':>12} {'min us':>12} {'rate':>16}")

    def add(self, row, variant, result):
        seconds = result["median_ms"] * 1e-3
        result = {**result, "bytes": row.bytes, "operations": row.operations}
        if row.group:
            result["group"] = row.group
        rate = ""
        if row.bytes:
            result["gb_per_s"] = row.bytes / seconds * 1e-9
            rate = f"{result['gb_per_s']:.1f} GB/s"
        elif row.operations:
            result["tflop_per_s"] = row.operations / seconds * 1e-12
            rate = f"{result['tflop_per_s']:.3f} TFLOP/s"
        self.content["results"].append({"workload": row.name, "variant": variant, **result})
        print(f"{row.name:<50} {variant:<22} {result['median_ms'] * 1e3:12.2f} "
              f"{result['min_ms'] * 1e3:12.2f} {rate:>16}", flush=True)
        self.write()


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
