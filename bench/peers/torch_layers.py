"""The layers of bench/layers.cpp in PyTorch: eager and under torch.compile, convolutions also with cuDNN's
algorithms timed.

  python3 torch_layers.py [--device cpu|cuda] [--filter TEXT] [--variant eager|compile|all] [--json FILE]
"""
import torch
from torch.nn import functional

from torch_rows import (CUDNN_ATTENTION, CUDNN_BENCHMARK, MILLION, VARIANTS, Row, copy_row,
                        layer_product_row, matmul_row, run)

BATCH, TOKENS, HEADS, HEAD_SIZE = 16, 1024, 12, 64


def leaf(*shape, device, dtype=torch.bfloat16):
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


def products_group(gradients):
    return "GPT-2's products" + (" with gradients" if gradients else "")


def linear_row(name, fan_in, fan_out, gradients, bias=True, gelu=False):
    def make(device):
        inputs = [leaf(BATCH, TOKENS, fan_in, device=device), leaf(fan_out, fan_in, device=device)]
        if bias:
            inputs.append(leaf(fan_out, device=device))
        if gradients:
            inputs.append(torch.randn(BATCH, TOKENS, fan_out, device=device).bfloat16())
        return inputs

    def apply(x, weight, bias=None):
        sums = functional.linear(x, weight, bias)
        return functional.gelu(sums, approximate="tanh") if gelu else sums
    return Row(f"gpt2 {name} {fan_in}->{fan_out}" + (", gradients" if gradients else ""), make, apply,
               operations=(3 if gradients else 1) * 2 * BATCH * TOKENS * fan_in * fan_out,
               rotate=False, backward=gradients, group=products_group(gradients))


def scores_row(gradients):
    def make(device):
        inputs = [leaf(BATCH, HEADS, TOKENS, HEAD_SIZE, device=device) for _ in range(2)]
        if gradients:
            inputs.append(torch.randn(BATCH, HEADS, TOKENS, TOKENS, device=device).bfloat16())
        return inputs
    return Row("gpt2 q k^T 192x1024x64" + (", gradients" if gradients else ""), make,
               lambda q, k: torch.matmul(q, k.transpose(-2, -1)),
               operations=(3 if gradients else 1) * 2 * BATCH * HEADS * TOKENS**2 * HEAD_SIZE,
               rotate=False, backward=gradients, group=products_group(gradients))


def gpt2_rows():
    rows = []
    for gradients in (False, True):
        rows += [linear_row("qkv", 768, 2304, gradients), linear_row("proj", 768, 768, gradients),
                 linear_row("fc + gelu", 768, 3072, gradients, gelu=True),
                 linear_row("fc2", 3072, 768, gradients),
                 linear_row("logits", 768, 50304, gradients, bias=False), scores_row(gradients)]
    return rows


def conv_row(kind, batch, c_in, c_out, size, kernel, stride, group, to_input=True,
             variants=VARIANTS):
    """A convolution in channels-last layout, as in Volta's row."""
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1

    def make(device):
        def images(*shape):
            return torch.randn(*shape, device=device).to(dtype, memory_format=torch.channels_last)
        return [images(batch, c_in, size, size).requires_grad_(to_input),
                images(c_out, c_in, kernel, kernel).requires_grad_(),
                images(batch, c_out, out, out)]

    def apply(x, weight):
        return functional.conv2d(x, weight, stride=stride, padding=padding)
    return Row(f"conv {kind} {c_in}->{c_out} {kernel}x{kernel}/{stride} at {size}, batch {batch}",
               make, apply,
               operations=(3 if to_input else 2) * 2 * batch * c_out * out**2 * c_in * kernel**2,
               rotate=False, tf32=kind == "tf32", backward=True, group=group,
               variants=variants)


def resnet_rows(kind):
    def row(c_in, c_out, size, kernel, stride):
        return conv_row(kind, 256, c_in, c_out, size, kernel, stride,
                        f"ResNet-18's convolutions, {kind}", to_input=c_in > 3,
                        variants=(*VARIANTS, CUDNN_BENCHMARK))
    rows = [row(3, 64, 32, 3, 1), row(64, 64, 32, 3, 1)]
    for channels, size in ((128, 32), (256, 16), (512, 8)):
        rows += [row(channels // 2, channels, size, 3, 2), row(channels // 2, channels, size, 1, 2),
                 row(channels, channels, size // 2, 3, 1)]
    return rows


def attention_row(deterministic):
    def make(device):
        shape = (BATCH, HEADS, TOKENS, HEAD_SIZE)
        return [*(leaf(*shape, device=device) for _ in range(3)),
                torch.randn(*shape, device=device).bfloat16()]

    def apply(q, k, v):
        torch.use_deterministic_algorithms(deterministic)
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return Row("attention bf16 16x12x1024x64 causal" + (", deterministic" if deterministic else ""),
               make, apply,
               operations=7 * 2 * BATCH * HEADS * TOKENS**2 * HEAD_SIZE // 2, rotate=False,
               backward=True, variants=(*VARIANTS, CUDNN_ATTENTION))


def batch_norm_row(kind, batch, channels_last):
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    order = torch.channels_last if channels_last else torch.contiguous_format
    channels, size = 64, 32

    def make(device):
        def images():
            return torch.randn(batch, channels, size, size, device=device).to(
                dtype, memory_format=order)
        return [images().requires_grad_(),
                *(leaf(channels, device=device, dtype=torch.float32) for _ in range(2)),
                torch.zeros(channels, device=device), torch.ones(channels, device=device), images()]

    def apply(x, weight, bias, mean, variance):
        return functional.relu(functional.batch_norm(x, mean, variance, weight, bias, training=True))
    return Row(f"batch norm + relu {kind} {batch}x64x32x32" + (", channels last" if channels_last else ""),
               make, apply, bytes=8 * batch * channels * size**2 * dtype.itemsize, backward=True)


def gpu_rows():
    return [copy_row(100 * MILLION),
            *(matmul_row(kind, n) for kind in ("f32", "tf32", "bf16")
              for n in (1024, 2048, 4096, 8192)),
            *gpt2_rows(), *resnet_rows("tf32"), *resnet_rows("bf16"),
            *(attention_row(deterministic) for deterministic in (True, False)),
            *(batch_norm_row(kind, 256, last) for kind in ("f32", "bf16") for last in (True, False))]


def layer_rows(kind, batch, fan_in, fan_out, group):
    options = {"kind": kind, "group": f"{group}, {kind}"}
    return [layer_product_row(batch, fan_in, fan_out, transpose_b=True, **options),
            layer_product_row(batch, fan_out, fan_in, **options),
            layer_product_row(fan_out, batch, fan_in, transpose_a=True, **options)]


def mnist_rows(kind, batch):
    group = f"MNIST CNN's convolutions, {kind}, batch {batch}"
    return [conv_row(kind, batch, 1, 32, 28, 3, 1, group, to_input=False),
            conv_row(kind, batch, 32, 64, 14, 3, 1, group)]


def cpu_rows():
    rows = [*mnist_rows("f32", 64), *mnist_rows("f32", 128), *mnist_rows("bf16", 64)]
    for kind in ("f32", "bf16"):
        rows += [*layer_rows(kind, 64, 256, 1024, "LSTM's products"),
                 *layer_rows(kind, 64, 512, 2048, "LSTM's products"),
                 *layer_rows(kind, 1024, 768, 2304, "GPT-2's products"),
                 *layer_rows(kind, 1024, 768, 768, "GPT-2's products"),
                 *layer_rows(kind, 1024, 768, 3072, "GPT-2's products"),
                 *layer_rows(kind, 1024, 3072, 768, "GPT-2's products")]
    return [*rows, *layer_rows("f32", 1024, 384, 1152, "GPT's products"),
            *layer_rows("f32", 1024, 384, 1536, "GPT's products"),
            *layer_rows("f32", 1024, 1536, 384, "GPT's products"),
            *(batch_norm_row("f32", 64, last) for last in (True, False))]


if __name__ == "__main__":
    run("layers", __doc__.splitlines()[0], gpu_rows, cpu_rows)
