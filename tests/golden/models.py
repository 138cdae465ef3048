"""Golden runs of whole models: logits, loss, every gradient, and the parameters after ten steps.

Weights and inputs are numbers from a hash of their names, the same in tests/nn/models_golden_test.cpp, so that
the file does not contain them. Everything is computed in f64. For a tensor with more than SAMPLE elements the
file holds the norm, the largest element, and SAMPLE evenly spaced elements.
"""
import math
import zlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from golden import Family

SAMPLE, STEPS = 256, 10


def drawn(name, shape, bound):
    """Uniform in [-bound, bound], from a hash of the name and the position."""
    count = math.prod(shape)
    x = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B9) + np.uint64(zlib.crc32(name.encode()))
    x &= np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    values = (x >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1
    return torch.from_numpy(np.float32(values * bound).astype(np.float64).reshape(shape))


def integers(name, shape, below):
    return torch.floor((drawn(name, shape, 1.0) + 1) / 2 * below).clamp(0, below - 1).long()


def start(model):
    """Sets weights of the usual size in PyTorch. Weights of norms are near one."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.copy_(drawn(name, p.shape, math.sqrt(3.0 / math.prod(p.shape[1:]))))
            elif name.endswith("weight"):
                p.copy_(1 + drawn(name, p.shape, 0.2))
            else:
                p.copy_(drawn(name, p.shape, 0.1))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(self.conv1(x).relu(), 2)
        x = functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False),
                                            nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (self.downsample(x) if self.downsample else x)).relu()


class ResNet18(nn.Module):
    """The ResNet-18 of torchvision, written out so that torchvision is not needed."""
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class CharLSTM(nn.Module):
    def __init__(self, vocab, embedding, hidden):
        super().__init__()
        self.encoder = nn.Embedding(vocab, embedding)
        self.lstm = nn.LSTM(embedding, hidden, 2, batch_first=True)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, ids):
        return self.decoder(self.lstm(self.encoder(ids))[0])


class GPTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # The layer has no bias: a value added to all keys has no effect, so that Adam would follow rounding errors.
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.c_fc, self.c_proj2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(width, 2)
        q, k, v = (t.view(n, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, length, width))
        return x + self.c_proj2(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocab, context, width, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(GPTBlock(width, heads) for _ in range(2))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def stored(family, key, t):
    t = t.detach().flatten()
    if t.numel() > SAMPLE:
        family.tensors[key + "/norm"] = t.norm().reshape(1)
        family.tensors[key + "/largest"] = t.abs().max().reshape(1)
        t = t[torch.arange(SAMPLE) * t.numel() // SAMPLE]
    family.tensors[key] = t.clone()


def case(family, name, model, x, y, optimizer):
    model = model.double().train()
    start(model)
    optimizer = optimizer(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(x)
        loss = functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        loss.backward()
        family.tensors[f"{name}/loss{step}"] = loss.detach().reshape(1)
        if step == 0:
            stored(family, f"{name}/logits", logits)
            for key, p in model.named_parameters():
                stored(family, f"{name}/grad/{key}", p.grad)
        optimizer.step()
    for key, value in model.state_dict().items():
        if value.dtype == torch.float64:
            stored(family, f"{name}/after/{key}", value)
    model.eval()
    with torch.no_grad():
        stored(family, f"{name}/eval", model(x))
    family.counts[name] = 1


def cases():
    family = Family()
    case(family, "lenet", LeNet(), drawn("lenet.x", (8, 1, 28, 28), 1.0), integers("lenet.y", (8,), 10),
         lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
    case(family, "resnet18", ResNet18(10), drawn("resnet18.x", (8, 3, 64, 64), 1.0),
         integers("resnet18.y", (8,), 10), lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9, weight_decay=1e-2))
    case(family, "lstm", CharLSTM(65, 32, 48), integers("lstm.x", (4, 20), 65), integers("lstm.y", (4, 20), 65),
         lambda p: torch.optim.AdamW(p, lr=3e-3))
    case(family, "gpt", GPT(65, 32, 64, 4), integers("gpt.x", (4, 24), 65), integers("gpt.y", (4, 24), 65),
         lambda p: torch.optim.AdamW(p, lr=1e-3))
    return family
