"""The training steps of bench/steps.cpp in JAX: forward, gradient and Adam in one jitted function.

  python3 jax_steps.py [--device cpu|cuda] [--workload xor|mlp|mlp4096|all] [--json FILE]
"""
import functools
import os

from measuring import BATCH, Report, cpu_name, measure, parse_options

OPTIONS = parse_options(__doc__.splitlines()[0], ("cpu", "cuda"), ("jit",))
os.environ.setdefault("JAX_PLATFORMS", OPTIONS.device)  # before JAX is imported
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:OPTIONS.threads])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

LR, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8


def init(key, sizes):
    """PyTorch's initialisation: weight [out, in] and bias uniform within 1 / sqrt(in)."""
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        key, for_weight, for_bias = jax.random.split(key, 3)
        bound = inputs ** -0.5
        layers.append((jax.random.uniform(for_weight, (outputs, inputs), minval=-bound, maxval=bound),
                       jax.random.uniform(for_bias, (outputs,), minval=-bound, maxval=bound)))
    return layers


def forward(layers, x):
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight.T + bias)
    weight, bias = layers[-1]
    return x @ weight.T + bias


def mse(layers, x, y):
    return jnp.mean((forward(layers, x) - y) ** 2)


def cross_entropy(layers, x, y):
    log_probabilities = jax.nn.log_softmax(forward(layers, x))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, y[:, None], axis=1))


def make(workload):
    key = jax.random.key(0)
    if workload == "xor":
        x = jnp.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        y = jnp.array([[0.0], [1.0], [1.0], [0.0]])
        return init(key, (2, 8, 1)), x, y, mse
    x = jax.random.normal(jax.random.key(1), (BATCH[workload], 784))
    y = jax.random.randint(jax.random.key(2), (BATCH[workload],), 0, 10)
    return init(key, (784, 1024, 1024, 10)), x, y, cross_entropy


def adam(loss, state, x, y):
    layers, first, second, count = state
    value, gradients = jax.value_and_grad(loss)(layers, x, y)
    count = count + 1
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradients)
    correction1 = -jnp.expm1(count * jnp.log(BETA1))
    correction2 = -jnp.expm1(count * jnp.log(BETA2))
    layers = jax.tree.map(
        lambda p, m, v: p - LR * (m / correction1) / (jnp.sqrt(v / correction2) + EPS),
        layers, first, second)
    return (layers, first, second, count), value


def main():
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if OPTIONS.tf32 else "highest")
    device = jax.devices()[0]
    name = device.device_kind if OPTIONS.device == "cuda" else cpu_name()
    report = Report("jax", {"jax": jax.__version__}, name, OPTIONS)
    for workload in OPTIONS.workloads:
        layers, x, y, loss = make(workload)
        zeros = functools.partial(jax.tree.map, jnp.zeros_like)
        state = (layers, zeros(layers), zeros(layers), jnp.zeros(()))
        compiled = jax.jit(functools.partial(adam, loss), donate_argnums=0)
        held = {"state": state}

        def step():
            held["state"], held["loss"] = compiled(held["state"], x, y)

        def synchronize():
            jax.block_until_ready(held)

        result = measure(step, synchronize, OPTIONS.steps)
        result["loss_after"] = float(held["loss"])
        report.add(workload, "jit", result)


if __name__ == "__main__":
    main()
