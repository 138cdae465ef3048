"""The single operations of bench/ops.cpp in PyTorch: eager and under torch.compile.

  python3 torch_ops.py [--device cpu|cuda] [--filter TEXT] [--variant eager|compile|all] [--json FILE]
"""
import torch
from torch.nn import functional

from torch_rows import EAGER, MILLION, Row, copy_row, matmul_row, normals, run, short_count


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


def column_sum_row(n):
    return Row(f"column sum {n}x{n}", normals(1, n, n), lambda x: x.sum(0), bytes=4 * (n * n + n))


def transpose_row(n):
    return Row(f"transpose {n}x{n}", normals(1, n, n), lambda x: x.t().contiguous(),
               bytes=8 * n * n)


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
           lambda y, x: y + x, rotate=False, updates=True)


def gpu_rows():
    shapes = ((8192, 8192), (8192, 1024), (1024, 50257))
    return [copy_row(100 * MILLION), add_row(100 * MILLION), add_row(10 * MILLION),
            chain_row(100 * MILLION), chain_row(10 * MILLION), chain_row(MILLION),
            chain_row(MILLION, rotate=False), sum_row(100 * MILLION), sum_row(10 * MILLION),
            *(softmax_row(*shape) for shape in shapes),
            *(layer_norm_row(*shape) for shape in shapes),
            *(plain_layer_norm_row(*shape) for shape in shapes),
            column_sum_row(8192), transpose_row(8192),
            *(matmul_row("f32", n) for n in (1024, 4096, 8192)), matmul_row("tf32", 4096),
            *(matmul_row("bf16", n) for n in (4096, 8192)), TINY,
            upload_row(256, pinned=False), upload_row(1024, pinned=True), download_row(256)]


def cpu_rows():
    return [copy_row(100 * MILLION), add_row(100 * MILLION), add_row(10 * MILLION),
            chain_row(10 * MILLION), chain_row(MILLION), chain_row(MILLION, rotate=False),
            sum_row(100 * MILLION), sum_row(10 * MILLION), softmax_row(4096, 1024),
            softmax_row(65536, 10), layer_norm_row(4096, 1024), column_sum_row(4096),
            transpose_row(4096), *(matmul_row("f32", n) for n in (256, 1024, 2048, 4096)),
            *(matmul_row("bf16", n) for n in (256, 1024, 2048, 4096)), TINY]


if __name__ == "__main__":
    run("ops", __doc__.splitlines()[0], gpu_rows, cpu_rows)
