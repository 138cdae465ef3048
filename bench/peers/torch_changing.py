"""The rows of bench/changing.cpp in PyTorch: eager, and torch.compile(dynamic=True).

  python3 torch_changing.py [--device cpu|cuda] [--variant eager|compile] [--steps N] [--filter TEXT]
                            [--threads N] [--json FILE]

Milliseconds of a size seen before, of a size that is new, and of the first step. torch.compile compiles the forward
pass and, through AOT autograd, the backward pass; optimizers stay eager, as in torch_steps.py.
"""
import argparse
import os
import random
import statistics

import torch
import torch._dynamo.utils
from torch import nn
from torch.nn import functional

import measuring
from measuring import Report, cpu_name

EAGER, COMPILE = VARIANTS = ("eager", "compile, dynamic")


class ChangingReport(Report):
    kind = "changing"

    def print_header(self):
        print(f"{'row':<38} {'variant':<18} {'known, ms':>10} {'new, ms':>10} {'first, ms':>10} {'compiled':>9}")

    def add(self, workload, variant, result):
        self.content["results"].append({"workload": workload, "variant": variant, **result})
        print(f"{workload:<38} {variant:<18} {result['known_ms']:10.3f} {result['median_ms']:10.3f} "
              f"{result['first_ms']:10.2f} {result['compilations']:9}", flush=True)
        self.write()


class Row:
    """What a row needs of the options: its device, a compiler, and a clock that waits."""

    def __init__(self, options, variant):
        self.device = options.device
        self.steps = options.steps
        self.compiles = variant == COMPILE
        self.synchronize = torch.cuda.synchronize if options.device == "cuda" else lambda: None

    def compiled(self, function):
        return torch.compile(function, dynamic=True) if self.compiles else function

    def fresh_state(self):
        torch._dynamo.reset()

    def milliseconds(self, step, size):
        start = measuring.clock()
        step(size)
        self.synchronize()
        return (measuring.clock() - start) * 1e3

    def training(self, model, loss):
        """A training step with Adam; `loss` makes its inputs and gives the compiled function's result."""
        model.to(self.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(size):
            optimizer.zero_grad(set_to_none=True)
            loss(size).backward()
            optimizer.step()
        return step

    def classifier(self, model, make):
        objective = self.compiled(lambda x, y: functional.cross_entropy(model(x), y))

        def loss(size):
            x = make(size)
            return objective(x, torch.randint(0, 10, (x.shape[0],), device=self.device))
        return self.training(model, loss)


def compilations():
    """Graphs that dynamo has compiled so far."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


# ---- Steps, as in bench/changing_steps.h.

def mlp(row):
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return row.classifier(model, lambda batch: torch.rand(batch, 784, device=row.device))


def cnn(row):
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(576, 10))
    return row.classifier(model, lambda batch: torch.rand(batch, 1, 28, 28, device=row.device))


class ImageNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        return self.head(self.features(images).mean((2, 3)))


def image_cnn(row):
    return row.classifier(
        ImageNetwork(), lambda size: torch.rand(8, 3, size, size + size // 3, device=row.device))


class Block(nn.Module):
    """volta::nn::TransformerBlock: pre-norm, causal attention, an MLP four times as wide with GELU (erf)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.into(self.norm1(x)).chunk(3, dim=-1))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


def transformer(row, layers, width=64, batch=2, in_bf16=False):
    words = 96
    model = nn.Sequential(nn.Embedding(words, width), *(Block(width, 4) for _ in range(layers)),
                          nn.Linear(width, words))

    def loss(ids):
        with torch.autocast(row.device, dtype=torch.bfloat16, enabled=in_bf16):
            return functional.cross_entropy(model(ids).reshape(-1, words), ids.reshape(-1))
    objective = row.compiled(loss)
    return row.training(
        model, lambda length: objective(torch.randint(0, words, (batch, length), device=row.device)))


def lstm(row):
    model = nn.LSTM(64, 64, num_layers=2)
    objective = row.compiled(lambda x: model(x)[0].square().mean())
    return row.training(model, lambda length: objective(torch.rand(length, 4, 64, device=row.device)))


def attention(row):
    keys, query = torch.rand(512, 64, device=row.device), torch.rand(1, 64, device=row.device)

    def over(seen):
        return torch.softmax(query @ seen.T, 1) @ seen
    apply = row.compiled(over)

    @torch.no_grad()
    def step(length):
        apply(keys[:length])
    return step


def beam_search(row):
    width, words, most = 64, 96, 16
    embedding, head = nn.Embedding(words, width).to(row.device), nn.Linear(width, words).to(row.device)

    def extend(text, scores, beams):
        every = torch.log_softmax(head(embedding(text).mean(1)), 1) + scores.unsqueeze(1)
        scores, best = torch.topk(every.reshape(-1), beams)
        source, word = best // words, best % words
        return torch.cat([text[source], word.unsqueeze(1)], 1), scores
    apply = row.compiled(extend)

    @torch.no_grad()
    def step(seed):
        draw = random.Random(seed)
        scores = torch.zeros(1, device=row.device)
        text = torch.zeros(1, 1, dtype=torch.int64, device=row.device)
        beams = most
        while beams > 0:
            text, scores = apply(text, scores, beams)
            beams -= draw.randrange(3)
    return step


class TreeNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.join, self.head = nn.Linear(64, 32), nn.Linear(32, 10)


def random_tree(row):
    model = TreeNetwork()
    join = row.compiled(lambda pair: torch.tanh(model.join(pair)))

    def loss(seed):
        draw = random.Random(seed)
        leaves = 6 + draw.randrange(10)
        parts = list(torch.rand(leaves, 32, device=row.device).split(1))
        while len(parts) > 1:
            at = draw.randrange(len(parts) - 1)
            parts[at:at + 2] = [join(torch.cat(parts[at:at + 2], 1))]
        return functional.cross_entropy(model.head(parts[0]), torch.randint(0, 10, (1,), device=row.device))
    return row.training(model, loss)


# ---- Measuring, as in bench/changing.cpp.

def result_of(known, fresh, first, compiled):
    return {"known_ms": statistics.median(known), "median_ms": statistics.median(fresh),
            "first_ms": statistics.median(first), "steps": len(fresh), "compilations": compiled}


def measure_range(row, least, most, apart, make):
    row.fresh_state()
    step = make(row)
    sizes = list(range(least, most + 1, apart))
    random.Random(1).shuffle(sizes)
    first = row.milliseconds(step, sizes.pop())
    warm = min(len(sizes) // 3, 24)
    for size in sizes[:warm]:
        step(size)
    known, fresh = [], []
    before = compilations()
    for size in sizes[warm:warm + row.steps]:
        fresh.append(row.milliseconds(step, size))
        step(size)
        step(size)
        known.append(row.milliseconds(step, size))
    return result_of(known, fresh, [first], compilations() - before)


def measure_last_batch(row):
    known, fresh, first = [], [], []
    compiled = 0
    for last in (37, 5, 61, 18, 50):
        row.fresh_state()
        step = mlp(row)
        first.append(row.milliseconds(step, 64))
        for _ in range(5):
            step(64)
        before = compilations()
        fresh.append(row.milliseconds(step, last))
        compiled += compilations() - before
        step(64)
        step(last)
        known.append(row.milliseconds(step, last))
    return result_of(known, fresh, first, compiled)


def measure_first(row, layers):
    known, first = [], []
    compiled = 0
    for _ in range(3):
        row.fresh_state()
        step = transformer(row, layers)
        before = compilations()
        first.append(row.milliseconds(step, 64))
        compiled += compilations() - before
        for _ in range(4):
            step(64)
        known.append(row.milliseconds(step, 64))
    return result_of(known, first, first, compiled)


def measure_reads(row, count):
    x = torch.rand(count, device=row.device)

    def read_all(_):
        return sum(x[i].item() for i in range(count))
    first = row.milliseconds(lambda _: x[0].item(), 0)
    fresh = row.milliseconds(read_all, 0) / count
    known = row.milliseconds(read_all, 0) / count
    return {"known_ms": known, "median_ms": fresh, "first_ms": first, "steps": count, "compilations": 0}


def rows(on_gpu):
    """Name and measurement of every row, in the order of bench/changing.cpp."""
    def over(name, least, most, apart, make):
        return name, lambda row: measure_range(row, least, most, apart, make)

    yield over("MLP, batches of 1 to 64", 1, 64, 1, mlp)
    yield "MLP, last batch of an epoch", measure_last_batch
    yield over("CNN, batches of 1 to 64", 1, 64, 1, cnn)
    yield over("CNN, images of 20 to 84", 20, 84, 1, image_cnn)
    for layers in (2, 6, 12):
        yield over(f"transformer of {layers}, lengths 20 to 120", 20, 120, 1,
                   lambda row, layers=layers: transformer(row, layers))
    for layers, width in ((2, 128), (4, 256)) if on_gpu else ():
        yield over(f"GPT of {layers} x {width}, batch 32, bf16, 20 to 200", 20, 200, 1,
                   lambda row, layers=layers, width=width: transformer(row, layers, width, 32, True))
    yield over("attention over 2 to 512 keys", 2, 512, 1, attention)
    yield over("beam search, 16 beams to 1", 1, 60, 1, beam_search)
    yield over("tree of random shape", 1, 60, 1, random_tree)
    yield over("LSTM 2 x 64, lengths 100 to 800", 100, 800, 50, lstm)
    for layers in (2, 6, 12, 24):
        yield f"transformer of {layers}, first step", lambda row, layers=layers: measure_first(row, layers)
    yield "x[i].item() for 5,000 i", lambda row: measure_reads(row, 5000)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--variant", choices=("eager", "compile", "all"), default="all")
    parser.add_argument("--steps", type=int, default=30, help="new sizes to measure in a row")
    parser.add_argument("--filter", default="", help="only rows whose name contains the text")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: all)")
    parser.add_argument("--json", default="", help="file to write")
    options = parser.parse_args()
    options.threads = options.threads or len(os.sched_getaffinity(0))
    options.variants = {"eager": (EAGER,), "compile": (COMPILE,), "all": VARIANTS}[options.variant]
    return options


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("highest")
    on_gpu = options.device == "cuda"
    versions = {"torch": torch.__version__}
    if on_gpu:
        versions["cuda"] = torch.version.cuda
    report = ChangingReport("torch", versions, torch.cuda.get_device_name() if on_gpu else cpu_name(), options)
    for name, measure in rows(on_gpu):
        if options.filter not in name:
            continue
        for variant in options.variants:
            torch.manual_seed(1)
            try:
                result = measure(Row(options, variant))
            except Exception as error:  # one variant that cannot run here must not hide the others
                report.failed(name, variant, error)
            else:
                report.add(name, variant, result)


if __name__ == "__main__":
    main()
