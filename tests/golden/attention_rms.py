"""Prints the errors of PyTorch's attention in halves that tests/ops/attention_precision_test.cpp names:
the root of the mean square of the difference from f64, as a share of the values' own, of the
gradients of q, k and v, by PyTorch's math path and by its flash path (its default on the CPU)."""
import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, SIZE = 4, 64


def drawn(seed, count):
    """Sums of four uniform numbers, with mean 0 and variance 1, as the test draws them."""
    total = np.zeros(count)
    index = np.arange(count, dtype=np.uint64)
    for k in range(4):
        x = index * np.uint64(4) + np.uint64((k + seed * 0x9E3779B97F4A7C15) % 2**64)
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        total += (x >> np.uint64(32)).astype(np.float64) * 2.0**-32
    return (total - 2) * 1.7320508075688772


def gradients(inputs, causal, backend):
    q, k, v = (t.clone().requires_grad_() for t in inputs[:3])
    with sdpa_kernel(backend):
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    y.backward(inputs[3])
    return [t.grad.double() for t in (q, k, v)]


def rms(x):
    return float(x.pow(2).mean().sqrt())


def main():
    for dtype in (torch.float16, torch.bfloat16):
        for causal in (False, True):
            for length in (16, 64, 128, 512):
                shape = (1, HEADS, length, SIZE)
                inputs = [torch.from_numpy(drawn(seed, HEADS * length * SIZE)).reshape(shape).to(dtype)
                          for seed in (1, 2, 3, 4)]
                expected = gradients([t.double() for t in inputs], causal, SDPBackend.MATH)
                row = [str(dtype)[6:], "causal" if causal else "full", str(length)]
                for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
                    actual = gradients(inputs, causal, backend)
                    row += ["%.3e" % (rms(a - e) / rms(e)) for a, e in zip(actual, expected)]
                print(*row)


if __name__ == "__main__":
    main()
