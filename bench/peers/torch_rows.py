"""Code shared by torch_ops.py and torch_layers.py: rows, their variants, options, the run. It follows bench/rows.h."""
import argparse
import contextlib
import dataclasses
import math
import os
from typing import Callable

import torch
from torch.nn import attention

from measuring import RowsReport, cpu_name, measure_op, use_processor_time

EAGER, COMPILE = VARIANTS = ("eager", "compile")
CUDNN_BENCHMARK = "eager, cudnn.benchmark"  # times cuDNN's algorithms and uses the fastest
CUDNN_ATTENTION = "eager, cuDNN attention"  # instead of the kernel that PyTorch would choose
ROTATED_BYTES = 256e6  # read before a buffer is used again: more than any cache holds
MILLION = 1_000_000


@dataclasses.dataclass
class Row:
    """`make` creates one set of inputs, `apply` computes the value of a set. Bytes and operations are those of
    Volta's rows. With `backward` the last input of a set is the gradient of the value, and the gradients of the
    other inputs that require one are computed too."""
    name: str
    make: Callable
    apply: Callable
    bytes: float = 0
    operations: float = 0
    rotate: bool = True
    tf32: bool = False
    backward: bool = False
    group: str = ""
    variants: tuple = VARIANTS
    updates: bool = False  # the value replaces the first input


def normals(count, *shape):
    return lambda device: [torch.randn(*shape, device=device) for _ in range(count)]


def short_count(n):
    return f"{n // MILLION}M" if n % MILLION == 0 else str(n)


def copy_row(n):
    return Row(f"copy {short_count(n)}", normals(1, n), torch.clone, bytes=8 * n)


def matmul_row(kind, n):
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32

    def make(device):
        return [torch.randn(n, n, device=device).to(dtype) for _ in range(2)]
    return Row(f"matmul {kind} {n}", make, torch.matmul, operations=2 * n**3, rotate=False,
               tf32=kind == "tf32")


def layer_product_row(m, k, n, transpose_a=False, transpose_b=False, kind="f32", group=""):
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32

    def make(device):
        return [torch.randn((k, m) if transpose_a else (m, k), device=device).to(dtype),
                torch.randn((n, k) if transpose_b else (k, n), device=device).to(dtype)]

    def apply(a, b):
        return torch.matmul(a.t() if transpose_a else a, b.t() if transpose_b else b)
    name = f"matmul {kind} {m} x {k} x {n}" + (", a^T" if transpose_a else "") + \
        (", b^T" if transpose_b else "")
    return Row(name, make, apply, operations=2 * m * k * n, rotate=False, group=group)


def with_gradients(apply):
    """Computes the value and the gradients of the sources that require one, given the gradient of the value."""
    def evaluate(*inputs):
        *sources, g = inputs
        value = apply(*sources)
        return value, torch.autograd.grad(value, [x for x in sources if x.requires_grad], g)
    return evaluate


def make_step(row, variant, device):
    apply = torch.compile(row.apply, dynamic=False) if variant == COMPILE else row.apply
    if row.backward:
        apply = with_gradients(apply)
    if row.updates:
        state = row.make(device)

        def update():
            state[0] = apply(*state)
        return update
    count = max(1, math.ceil(ROTATED_BYTES / row.bytes)) if row.rotate else 1
    sets = [row.make(device) for _ in range(count)]
    results = [None] * count
    turn = 0

    def step():
        nonlocal turn
        results[turn] = None  # frees its memory for the new result, as in Volta
        results[turn] = apply(*sets[turn])
        turn = turn + 1 if turn + 1 < count else 0
    return step


def measure_row(row, variant, device, synchronize):
    torch.set_float32_matmul_precision("high" if row.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = row.tf32
    torch.backends.cudnn.benchmark = variant == CUDNN_BENCHMARK
    torch._dynamo.reset()
    with torch.set_grad_enabled(row.backward), contextlib.ExitStack() as chosen:
        if variant == CUDNN_ATTENTION:
            chosen.enter_context(attention.sdpa_kernel(attention.SDPBackend.CUDNN_ATTENTION))
        return measure_op(make_step(row, variant, device), synchronize)


def parse_options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--filter", default="", help="only rows whose name contains the text")
    parser.add_argument("--variant", choices=("eager", "compile", "all"), default="all",
                        help="eager: all of its variants")
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
    return options


def run(kind, description, gpu_rows, cpu_rows):
    """Runs a whole script. `kind` is the kind that its JSON names."""
    options = parse_options(description)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    on_gpu = options.device == "cuda"
    versions = {"torch": torch.__version__}
    if on_gpu:
        versions |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    report = RowsReport(kind, "torch", versions,
                        torch.cuda.get_device_name() if on_gpu else cpu_name(), options)
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    for row in gpu_rows() if on_gpu else cpu_rows():
        if options.filter not in row.name:
            continue
        for variant in row.variants:
            if options.variant != "all" and not variant.startswith(options.variant):
                continue
            try:
                result = measure_row(row, variant, options.device, synchronize)
            except Exception as error:  # a row that cannot run here must not hide the others
                report.failed(row.name, variant, error)
            else:
                report.add(row, variant, result)
            if on_gpu:
                torch.cuda.empty_cache()
