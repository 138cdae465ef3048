"""Golden runs of transformer layers: MultiheadAttention with its options, encoder layers, an encoder and a
GPT-2 of two layers that are trained for ten steps, positional encodings.

Not calls of single operations: tests/nn/transformer_golden_test.cpp and tests/nn/gpt2_test.cpp know the names.
Of a case there are `<case>/in/<input>`, `<case>/param/<key>`, `<case>/out`, `<case>/g`, `<case>/grad/<input or
key>`, and of training `<case>/losses`, `<case>/after/<key>`; `gpt2/out_bf16` is what PyTorch gives in bf16. AdamW's
eps is large: biases of keys have a gradient of 0 but for rounding, which a small one would turn into steps of full
length.
"""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

import golden
from golden import Family, integers

BATCH, QUERIES, KEYS, SIZE, HEADS = 2, 5, 7, 8, 2
NONE = float("-inf")


def numbers(*arguments, **options):
    """Numbers that halves represent exactly, so that runs in halves start from the same values."""
    return golden.numbers(*arguments, **options).bfloat16().float()


def fill(module):
    """Sets parameters to fixed values of their usual size. Weights of norms are around 1."""
    with torch.no_grad():
        for i, (key, p) in enumerate(module.named_parameters()):
            if "norm" in key and key.endswith("weight"):
                p.copy_(numbers(p.shape, 0.7, 1.3, salt=100 + i))
            else:
                p.copy_(numbers(p.shape, -0.5, 0.5, salt=100 + i))
    return module


def keep(family, name, module, inputs, call):
    """Runs call(**inputs) and stores inputs, parameters, result and gradients."""
    family.counts[name] = 1
    leaves = {}
    for key, value in inputs.items():
        family.tensors[f"{name}/in/{key}"] = value
        leaves[key] = value.clone().requires_grad_(value.is_floating_point() and not key.endswith("mask"))
    for key, p in module.named_parameters():
        family.tensors[f"{name}/param/{key}"] = p.detach().clone()
    out = call(**leaves)
    if isinstance(out, tuple):
        out, weights = out
        if weights is not None:
            family.tensors[f"{name}/weights"] = weights
    g = numbers(out.shape, -1, 1, salt=len(family.counts))
    family.tensors[f"{name}/out"], family.tensors[f"{name}/g"] = out, g
    module.zero_grad()
    out.backward(g)
    for key, leaf in leaves.items():
        if leaf.grad is not None:
            family.tensors[f"{name}/grad/{key}"] = leaf.grad
    for key, p in module.named_parameters():
        family.tensors[f"{name}/grad/{key}"] = p.grad.clone()


def train(family, name, module, loss_of):
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.1, eps=1e-3)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    family.tensors[f"{name}/losses"] = torch.tensor(losses)
    for key, p in module.named_parameters():
        family.tensors[f"{name}/after/{key}"] = p.detach().clone()


def attention(family, name, layout="lbe", length=None, masks=(), causal=False, weights=None, kdim=None,
              vdim=None, **options):
    """`layout` has the axes of the inputs: "ble" is batch first, "le" has no batch. `length` is the number of keys if
    the keys are not the queries."""
    batch = BATCH if "b" in layout else None
    shape = lambda n, e: tuple({"l": n, "b": batch, "e": e}[axis] for axis in layout)
    keys = length or QUERIES
    module = fill(nn.MultiheadAttention(SIZE, HEADS, batch_first=layout == "ble", kdim=kdim, vdim=vdim, **options))
    inputs = {"query": numbers(shape(QUERIES, SIZE), -1, 1, salt=1)}
    if length:
        inputs["key"] = numbers(shape(keys, kdim or SIZE), -1, 1, salt=2)
        inputs["value"] = numbers(shape(keys, vdim or SIZE), -1, 1, salt=3)
    hidden = torch.zeros(QUERIES, keys, dtype=torch.bool)
    hidden[1, 2:4], hidden[3, :3], hidden[4, 1] = True, True, True
    known = {
        "bool": ("attn_mask", hidden),
        "added": ("attn_mask", numbers((QUERIES, keys), -1, 1, salt=4).masked_fill(hidden, NONE)),
        "heads": ("attn_mask", numbers(((batch or 1) * HEADS, QUERIES, keys), -1, 1, salt=5) > 0.6),
        "padding": ("key_padding_mask", torch.arange(keys) >= torch.tensor([[keys], [keys - 2]])
                    if batch else torch.arange(keys) >= keys - 2),
    }
    inputs.update(known[mask] for mask in masks)

    def call(query, key=None, value=None, attn_mask=None, key_padding_mask=None):
        if causal:
            above = torch.ones(QUERIES, QUERIES, dtype=torch.bool).triu(1)
            attn_mask = above if attn_mask is None else attn_mask.masked_fill(above, NONE)
        if key_padding_mask is not None and attn_mask is not None and attn_mask.is_floating_point():
            key_padding_mask = torch.zeros(key_padding_mask.shape).masked_fill(key_padding_mask, NONE)
        return module(query, query if key is None else key, query if value is None else value,
                      attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                      need_weights=weights is not None, average_attn_weights=weights == "mean")

    keep(family, name, module, inputs, call)


def encoder_layer(family, name, masks=False, **options):
    module = fill(nn.TransformerEncoderLayer(SIZE, HEADS, dim_feedforward=12, dropout=0.0, **options))
    first = options.get("batch_first", False)
    inputs = {"x": numbers((BATCH, QUERIES, SIZE) if first else (QUERIES, BATCH, SIZE), -1, 1, salt=11)}
    if masks:
        inputs["key_padding_mask"] = torch.arange(QUERIES) >= torch.tensor([[QUERIES], [QUERIES - 2]])

    def call(x, key_padding_mask=None):
        above = torch.ones(QUERIES, QUERIES, dtype=torch.bool).triu(1) if masks else None
        return module(x, src_mask=above, src_key_padding_mask=key_padding_mask)

    keep(family, name, module, inputs, call)


def encoder(family, name):
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, dim_feedforward=12, dropout=0.0, norm_first=True,
                                       activation="gelu", batch_first=True)
    module = fill(nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(SIZE), enable_nested_tensor=False))
    x, target = numbers((BATCH, QUERIES, SIZE), -1, 1, salt=12), numbers((BATCH, QUERIES, SIZE), -1, 1, salt=13)
    keep(family, name, module, {"x": x}, lambda x: module(x))
    family.tensors[f"{name}/target"] = target
    train(family, name, module, lambda: F.mse_loss(module(x), target))


class Conv1D(nn.Module):
    """Hugging Face's Conv1D: a linear layer whose weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2(nn.Module):
    """GPT2LMHeadModel's parameters and computation."""

    def __init__(self, vocab, positions, size, layers, heads):
        super().__init__()
        self.heads = heads
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, size), "wpe": nn.Embedding(positions, size),
            "h": nn.ModuleList([nn.ModuleDict({
                "ln_1": nn.LayerNorm(size),
                "attn": nn.ModuleDict({"c_attn": Conv1D(size, 3 * size), "c_proj": Conv1D(size, size)}),
                "ln_2": nn.LayerNorm(size),
                "mlp": nn.ModuleDict({"c_fc": Conv1D(size, 4 * size), "c_proj": Conv1D(4 * size, size)}),
            }) for _ in range(layers)]),
            "ln_f": nn.LayerNorm(size),
        })
        self.lm_head = nn.Linear(size, vocab, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def attention(self, layer, x):
        batch, length, size = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in layer["c_attn"](x).split(size, dim=2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(size // self.heads)
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, NONE).softmax(-1) @ v
        return layer["c_proj"](mixed.transpose(1, 2).reshape(batch, length, size))

    def forward(self, ids):
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for layer in t["h"]:
            x = x + self.attention(layer["attn"], layer["ln_1"](x))
            hidden = F.gelu(layer["mlp"]["c_fc"](layer["ln_2"](x)), approximate="tanh")
            x = x + layer["mlp"]["c_proj"](hidden)
        return self.lm_head(t["ln_f"](x))


def gpt2(family, name):
    module = Gpt2(vocab=37, positions=16, size=16, layers=2, heads=2)
    with torch.no_grad():
        for i, (key, p) in enumerate(module.named_parameters()):
            low, high = (0.7, 1.3) if "ln_" in key and key.endswith("weight") else (-0.3, 0.3)
            p.copy_(numbers(p.shape, low, high, salt=200 + i))
    ids = integers((2, 12), 0, 36)
    loss_of = lambda: F.cross_entropy(module(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    family.counts[name] = 1
    family.tensors[f"{name}/in/ids"] = ids
    for key, p in module.named_parameters():
        family.tensors[f"{name}/param/{key}"] = p.detach().clone()
    family.tensors[f"{name}/out"] = module(ids)
    family.tensors[f"{name}/out_bf16"] = copy.deepcopy(module).bfloat16()(ids).float()
    loss_of().backward()
    for key, p in module.named_parameters():
        family.tensors[f"{name}/grad/{key}"] = p.grad.clone()
    train(family, name, module, loss_of)


def positions(family):
    length, dim = 9, 10
    t = torch.arange(length).float()[:, None]
    frequencies = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    family.tensors["sinusoidal/out"] = torch.stack([torch.sin(t * frequencies), torch.cos(t * frequencies)],
                                                   -1).flatten(1)
    family.counts["sinusoidal"] = 1
    x = numbers((2, 3, length, dim), -1, 1, salt=21)
    family.tensors["rotary/in/x"] = x
    # Neighbouring elements are the parts of complex numbers, which are multiplied.
    turn = torch.polar(torch.ones(length, dim // 2), (t + 4) * frequencies)
    pairs = torch.view_as_complex(x.unflatten(-1, (dim // 2, 2)))
    family.tensors["rotary/interleaved"] = torch.view_as_real(pairs * turn).flatten(-2)
    # The form of Llama: halves are exchanged, and one has its sign changed.
    angles = torch.cat([(t + 4) * frequencies] * 2, -1)
    swapped = torch.cat([-x[..., dim // 2:], x[..., :dim // 2]], -1)
    family.tensors["rotary/halves"] = x * angles.cos() + swapped * angles.sin()
    family.counts["rotary"] = 2


def cases():
    family = Family()
    attention(family, "mha_self")
    attention(family, "mha_batch_first", layout="ble")
    attention(family, "mha_cross", length=KEYS)
    attention(family, "mha_sizes", length=KEYS, kdim=6, vdim=10, layout="ble")
    attention(family, "mha_no_bias", length=KEYS, bias=False)
    attention(family, "mha_unbatched", layout="le", length=KEYS, masks=["padding"])
    attention(family, "mha_bool", masks=["bool"])
    attention(family, "mha_added", length=KEYS, masks=["added"], layout="ble")
    attention(family, "mha_heads", masks=["heads"], layout="ble")
    attention(family, "mha_padding", length=KEYS, masks=["padding"], layout="ble")
    attention(family, "mha_padding_bool", length=KEYS, masks=["bool", "padding"])
    attention(family, "mha_padding_added", length=KEYS, masks=["added", "padding"], layout="ble")
    attention(family, "mha_causal", causal=True, layout="ble")
    attention(family, "mha_causal_padding", causal=True, masks=["padding"], layout="ble")
    attention(family, "mha_weights", length=KEYS, masks=["bool", "padding"], weights="mean")
    attention(family, "mha_weights_heads", masks=["added"], weights="each", layout="ble")
    encoder_layer(family, "layer_post")
    encoder_layer(family, "layer_pre", norm_first=True, activation="gelu", batch_first=True)
    encoder_layer(family, "layer_no_bias", bias=False, batch_first=True)
    encoder_layer(family, "layer_masked", masks=True, norm_first=True, batch_first=True)
    encoder(family, "encoder")
    gpt2(family, "gpt2")
    positions(family)
    return family
