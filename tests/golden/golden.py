"""Code shared by the scripts of golden files: cases of operations run by PyTorch, and the safetensors format.

A case is a call: inputs (each possibly a view), attributes, the result, and the gradients
of the inputs for a given gradient of the result. A file holds the tensors `<case>/in0`, ...,
`<case>/out`, `<case>/g` and `<case>/grad0`, ..., where a case is `<operation>/<number>`; its metadata
say per case, as JSON, the attributes and the views, where there are any.
"""
import json
import struct
import zlib

import numpy as np
import torch

DTYPES = {
    torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
    torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL",
}


def to_bytes(t):
    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return t.numpy().tobytes()


def write(path, tensors, metadata):
    header, offset, parts = {"__metadata__": metadata}, 0, []
    for name, t in tensors.items():
        data = to_bytes(t)
        header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read(path):
    with open(path, "rb") as source:
        data = source.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    dtypes = {name: dtype for dtype, name in DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = dtypes[entry["dtype"]]
        raw = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]) or bytearray(1),
                               dtype=torch.uint8)[:end - begin]
        tensors[name] = raw.clone().view(dtype).reshape(entry["shape"])
    return tensors, metadata


def viewed(base, view):
    """A view of a stored tensor: "t" exchanges the last two axes, "slice" leaves out the first and last column,
    "channels_last" moves the last axis to the second position."""
    if view == "channels_last":
        return base.movedim(-1, 1)
    if view == "t":
        return base.transpose(-1, -2)
    if view == "slice":
        return base.narrow(1, 1, base.shape[1] - 2)
    return base


class Family:
    """The cases of one golden file."""

    def __init__(self):
        self.tensors, self.metadata, self.counts = {}, {}, {}

    def case(self, op, function, inputs, attributes=None, views=None):
        """Runs `function(*inputs, **attributes)` and keeps the call. Floating-point inputs get
        gradients if the result is floating-point and has a history. Halves are computed in f32 and
        rounded once."""
        number = self.counts.get(op, 0)
        self.counts[op] = number + 1
        name = f"{op}/{number}"
        attributes, views = attributes or {}, views or {}
        run = lambda bases: function(*[viewed(t, views.get(i)) for i, t in enumerate(bases)],
                                     **attributes)
        dtype = run(inputs).dtype
        wide = lambda t: t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
        bases = [wide(t.clone()).requires_grad_(t.is_floating_point()) for t in inputs]
        result = run(bases)
        for i, t in enumerate(inputs):
            self.tensors[f"{name}/in{i}"] = t
        self.tensors[f"{name}/out"] = result.to(dtype)
        if result.requires_grad:
            g = numbers(result.shape, 0.5, 1.5, dtype, salt=number)
            leaves = [i for i, base in enumerate(bases) if base.requires_grad]
            grads = torch.autograd.grad(result, [bases[i] for i in leaves], wide(g),
                                        allow_unused=True)
            self.tensors[f"{name}/g"] = g
            for i, grad in zip(leaves, grads):
                if grad is not None:
                    self.tensors[f"{name}/grad{i}"] = grad.to(inputs[i].dtype)
        notes = {key: note for key, note in (("attributes", attributes), ("views", views)) if note}
        if notes:
            self.metadata[name] = json.dumps(notes, separators=(",", ":"))


def numbers(shape, low, high, dtype=torch.float32, salt=0):
    """Fixed irregular numbers in [low, high)."""
    count = int(np.prod(shape, dtype=np.int64))
    seed = zlib.crc32(f"{tuple(shape)} {low} {high} {salt}".encode())
    values = np.random.RandomState(seed).uniform(low, high, count)
    return torch.tensor(values, dtype=torch.float64).reshape(tuple(shape)).to(dtype)


def integers(shape, low, high, dtype=torch.int64, salt=0):
    """Fixed integers in [low, high]."""
    count = int(np.prod(shape, dtype=np.int64))
    values = np.random.RandomState(zlib.crc32(f"{shape} {low} {salt}".encode()))
    return torch.tensor(values.randint(low, high + 1, count)).reshape(tuple(shape)).to(dtype)
