#!/usr/bin/env python3
"""Writes the golden files: the results of PyTorch for the operations of each family.

    make_golden.py [family...]           writes <family>.safetensors beside this script
    make_golden.py --check [family...]   compares with the files there, to 1e-6

A family is a module beside this script with a function `cases()` that returns a golden.Family.
Needs torch and numpy.
"""
import importlib
import pathlib
import sys

import torch

import golden

FAMILIES = ["amp", "attention", "convolution", "elementwise", "indexing", "layers", "losses",
            "models", "movement", "network", "normalization", "optim", "pooling", "product",
            "promotion", "recurrent", "reduce", "transformer"]
HERE = pathlib.Path(__file__).parent


def difference(made, stored):
    if made.dtype != stored.dtype or made.shape != stored.shape:
        return f"{made.dtype} {list(made.shape)}, stored {stored.dtype} {list(stored.shape)}"
    a, b = made.detach().double(), stored.double()
    if not torch.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True):
        return f"{a.flatten()[:4].tolist()}..., stored {b.flatten()[:4].tolist()}..."
    return ""


def check(name, family):
    tensors, metadata = golden.read(HERE / f"{name}.safetensors")
    problems = []
    if metadata != family.metadata or tensors.keys() != family.tensors.keys():
        problems.append("the cases differ")
    for key in tensors.keys() & family.tensors.keys():
        if what := difference(family.tensors[key], tensors[key]):
            problems.append(f"{key}: {what}")
    for problem in problems:
        print(f"{name}: {problem}")
    return not problems


def main(arguments):
    torch.set_num_threads(1)
    names = [a for a in arguments if not a.startswith("--")] or FAMILIES
    good = True
    for name in names:
        family = importlib.import_module(name).cases()
        if "--check" in arguments:
            good &= check(name, family)
        else:
            golden.write(HERE / f"{name}.safetensors", family.tensors, family.metadata)
        print(f"{name}: {sum(family.counts.values())} cases of {len(family.counts)} operations")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
