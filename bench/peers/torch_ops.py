"""The single operations of bench/ops.cpp in PyTorch: eager and under torch.compile.

  python3 torch_ops.py [--device cpu|cuda] [--filter TEXT] [--variant eager|compile|all] [--json FILE]
"""
import argparse
import dataclasses
import math
import os
from typing import Callable

import torch
from torch.nn import functional

from measuring import OpsReport, cpu_name, measure_op, use_processor_time

EAGER, COMPILE = VARIANTS = ("eager", "compile")
ROTATED_BYTES = 256e6  # walked through before a buffer is seen again: more than any cache holds
MILLION = 1_000_000


@dataclasses.dataclass
class Row:
    """`make` gives one set of inputs, `apply` the result of one; bytes and operations as in ops.cpp."""
    name: str
    make: Callable
    apply: Callable
    bytes: float = 0
    operations: float = 0
    rotate: bool = True
    tf32: bool = False
    variants: tuple = VARIANTS


def normals(count, *shape):
    return lambda device: [torch.randn(*shape, device=device) for _ in range(count)]


def short_count(n):
    return f"{n // MILLION}M" if n % MILLION == 0 else str(n)


def copy_row(n):
    return Row(f"copy {short_count(n)}", normals(1, n), torch.clone, bytes=8 * n)


def add_row(n):
    return Row(f"add {short_count(n)}", normals(2, n), lambda x, y: x + y, bytes=12 * n)


def chain(x, y):
    return torch.tanh(x * y + 0.5) * torch.sigmoid(x) + y * y - x


def chain_row(n, rotate=True):
    name = f"chain {short_count(n)}" + ("" if rotate else " cached")
    return Row(name, normals(2, n), chain, bytes=12 * n, rotate=rotate)


def sum_row(n):
    return Row(f"sum {short_count(n)}", normals(1, n), lambda x: x.sum(), bytes=4 * n)


def softmax_row(rows, columns):
    return Row(f"softmax {rows}x{columns}", normals(1, rows, columns),
               lambda x: torch.softmax(x, 1), bytes=8 * rows * columns)


def layer_norm_row(rows, columns):
    def make(device):
        return [torch.randn(rows, columns, device=device), torch.randn(columns, device=device),
                torch.randn(columns, device=device)]
    return Row(f"layer norm {rows}x{columns}", make,
               lambda x, weight, bias: functional.layer_norm(x, (columns,), weight, bias),
               bytes=8 * (rows * columns + columns))


def plain_layer_norm_row(rows, columns):
    return Row(f"plain layer norm {rows}x{columns}", normals(1, rows, columns),
               lambda x: functional.layer_norm(x, (columns,)), bytes=8 * rows * columns)


def batch_norm_row(n, channels, side):
    def make(device):
        images = [torch.randn(n, channels, side, side, device=device) for _ in range(2)]
        inputs = images + [torch.ones(channels, device=device) for _ in range(4)]
        for leaf in (0, 2, 3):
            inputs[leaf].requires_grad_()
        return inputs

    def both_ways(x, g, weight, bias, mean, variance):
        for leaf in (x, weight, bias):
            leaf.grad = None
        y = functional.relu(functional.batch_norm(x, mean, variance, weight, bias, training=True))
        y.backward(g)
        return y.detach()
    return Row(f"batch norm + relu, both ways {n}x{channels}x{side}x{side}", make, both_ways,
               bytes=32 * n * channels * side * side, variants=(EAGER,))


def column_sum_row(n):
    return Row(f"column sum {n}x{n}", normals(1, n, n), lambda x: x.sum(0), bytes=4 * (n * n + n))


def transpose_row(n):
    return Row(f"transpose {n}x{n}", normals(1, n, n), lambda x: x.t().contiguous(),
               bytes=8 * n * n)


def matmul_row(kind, n):
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32

    def make(device):
        return [torch.randn(n, n, device=device).to(dtype) for _ in range(2)]
    return Row(f"matmul {kind} {n}", make, torch.matmul, operations=2 * n**3, rotate=False,
               tf32=kind == "tf32")


def upload_row(mebibytes, pinned):
    n = mebibytes << 18

    def make(_):
        values = torch.randn(n)
        return [values.pin_memory() if pinned else values]
    return Row(f"upload {mebibytes} MiB" + (" pinned" if pinned else ""), make,
               lambda x: x.to("cuda", non_blocking=pinned), bytes=4 * n, rotate=False,
               variants=(EAGER,))


def download_row(mebibytes):
    n = mebibytes << 18
    return Row(f"download {mebibytes} MiB", normals(1, n), lambda x: x.cpu(), bytes=4 * n,
               rotate=False, variants=(EAGER,))


TINY = Row("y = y + x, 16", lambda device: [torch.randn(16, device=device),
                                            torch.full((16,), 1e-3, device=device)],
           lambda y, x: y + x, rotate=False)


def gpu_rows():
    shapes = ((8192, 8192), (8192, 1024), (1024, 50257))
    return [copy_row(100 * MILLION), add_row(100 * MILLION), add_row(10 * MILLION),
            chain_row(100 * MILLION), chain_row(10 * MILLION), chain_row(MILLION),
            chain_row(MILLION, rotate=False), sum_row(100 * MILLION), sum_row(10 * MILLION),
            *(softmax_row(*shape) for shape in shapes),
            *(layer_norm_row(*shape) for shape in shapes),
            *(plain_layer_norm_row(*shape) for shape in shapes),
            batch_norm_row(256, 64, 32), column_sum_row(8192), transpose_row(8192),
            *(matmul_row("f32", n) for n in (1024, 4096, 8192)), matmul_row("tf32", 4096),
            *(matmul_row("bf16", n) for n in (4096, 8192)), TINY,
            upload_row(256, pinned=False), upload_row(1024, pinned=True), download_row(256)]


def cpu_rows():
    return [copy_row(100 * MILLION), add_row(100 * MILLION), add_row(10 * MILLION),
            chain_row(10 * MILLION), chain_row(MILLION), chain_row(MILLION, rotate=False),
            sum_row(100 * MILLION), sum_row(10 * MILLION), softmax_row(4096, 1024),
            softmax_row(65536, 10), layer_norm_row(4096, 1024), column_sum_row(4096),
            transpose_row(4096), batch_norm_row(64, 64, 32),
            *(matmul_row("f32", n) for n in (256, 1024, 2048, 4096)),
            matmul_row("bf16", 1024), TINY]


def make_step(row, variant, device):
    apply = torch.compile(row.apply, dynamic=False) if variant == COMPILE else row.apply
    if row is TINY:
        state = row.make(device)

        def tiny_step():
            state[0] = apply(state[0], state[1])
        return tiny_step
    count = max(1, math.ceil(ROTATED_BYTES / row.bytes)) if row.rotate else 1
    sets = [row.make(device) for _ in range(count)]
    results = [None] * count
    turn = 0

    def step():
        nonlocal turn
        results[turn] = None  # its memory is there for the new result, as in Volta
        results[turn] = apply(*sets[turn])
        turn = turn + 1 if turn + 1 < count else 0
    return step


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--filter", default="", help="only rows whose name contains the text")
    parser.add_argument("--variant", choices=(*VARIANTS, "all"), default="all")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: all)")
    parser.add_argument("--processor-time", action="store_true",
                        help="processor time instead of wall-clock time; needs --threads 1")
    parser.add_argument("--json", default="", help="file to write")
    options = parser.parse_args()
    options.threads = options.threads or len(os.sched_getaffinity(0))
    if options.processor_time:
        if options.threads != 1 or options.device != "cpu":
            parser.error("--processor-time needs one thread of the CPU")
        use_processor_time()
    options.variants = VARIANTS if options.variant == "all" else (options.variant,)
    return options


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    on_gpu = options.device == "cuda"
    versions = {"torch": torch.__version__}
    if on_gpu:
        versions["cuda"] = torch.version.cuda
    report = OpsReport("torch", versions, torch.cuda.get_device_name() if on_gpu else cpu_name(),
                       options)
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    for row in gpu_rows() if on_gpu else cpu_rows():
        if options.filter not in row.name:
            continue
        torch.set_float32_matmul_precision("high" if row.tf32 else "highest")
        for variant in options.variants:
            if variant not in row.variants:
                continue
            torch._dynamo.reset()
            try:
                with torch.no_grad():
                    result = measure_op(make_step(row, variant, options.device), synchronize)
            except Exception as error:  # one that cannot run here must not hide the others
                report.failed(row.name, variant, error)
            else:
                report.add(row, variant, result)
            if on_gpu:
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
