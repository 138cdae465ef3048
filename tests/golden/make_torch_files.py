#!/usr/bin/env python3
"""Writes tests/golden/torch_files/: checkpoints as torch.save writes them, and in expected.safetensors what is in
them, tensor by tensor, as "<file>/<name>". Also the inputs that fuzzing of them begins with (tests/fuzz/corpus/torch).
Needs torch."""
import pathlib
import pickle
import shutil
import zipfile

import torch

import golden

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "torch_files"
CORPUS = HERE.parent / "fuzz" / "corpus" / "torch"
EXPECTED = {}
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}


def save(name, value, tensors=None, **options):
    torch.save(value, FOLDER / f"{name}.pt", **options)
    for key, tensor in (value if tensors is None else tensors).items():
        EXPECTED[f"{name}/{key}"] = tensor.detach().clone().contiguous()


class Net(torch.nn.Module):
    """A module with every kind of state dict entry: weights, a tied weight, buffers, a scalar."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.norm = torch.nn.BatchNorm2d(2)
        self.embed = torch.nn.Embedding(4, 3)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x, ids):
        return self.head(self.embed(ids)).sum() + self.norm(self.conv(x)).square().sum()


def every_dtype(values):
    return {name: (values > 0 if dtype == torch.bool else values.abs() if dtype == torch.uint8 else values).to(dtype)
            for name, dtype in DTYPES.items()}


def views():
    x = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    halves = torch.arange(12, dtype=torch.float32).to(torch.bfloat16)
    return {"whole": x, "transposed": x.transpose(0, 2), "permuted": x.permute(1, 2, 0), "row": x[1], "column": x[:, 1],
            "part": x[1:, 1:3, ::2], "element": x[2, 3, 4], "expanded": x[:, :1, :1].expand(3, 4, 6),
            "repeated": torch.tensor(2.5).expand(2, 3), "windows": x.flatten()[:10].unfold(0, 4, 2),
            "overlapping": x.flatten().as_strided((3, 3), (1, 1)), "channels_last": x[None].contiguous(
                memory_format=torch.channels_last), "halves": halves[3:9], "odd_bytes": torch.arange(9).to(torch.uint8)[1:4],
            "flags": (torch.arange(8) % 3 == 0)[1::2], "diagonal": torch.arange(16, dtype=torch.int64).reshape(4, 4).diagonal(),
            "none": torch.zeros(0, 3), "none_of_some": x[:0], "one_by_one": x[:1, :1, :1]}


def old_formats():
    """Writes files in the format before PyTorch 1.6, and a file that has both readable and unreadable tensors. Their
    values are in torch_file_test.cpp."""
    x = torch.arange(12.).reshape(3, 4)
    legacy = {"model": {"x": x, "turned": x.t(), "row": x[1], "half": torch.arange(3).to(torch.bfloat16),
                        "flags": torch.tensor([True, False]), "bytes": torch.arange(5, dtype=torch.uint8),
                        "chars": torch.tensor([-128, 127], dtype=torch.int8), "none": torch.zeros(0, 2)},
              "epoch": 3, "names": ["a"], "history": [torch.tensor(0.5), torch.tensor(7)],
              "p": torch.nn.Parameter(torch.ones(2)), "z": torch.ones(1, dtype=torch.complex64)}
    torch.save(legacy, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    mixed = {"w": torch.arange(4.), "i8": torch.tensor([-128, 0, 127], dtype=torch.int8),
             "i8_turned": torch.arange(6, dtype=torch.int8).reshape(2, 3).t(),
             "i16": torch.tensor([-32768, 32767], dtype=torch.int16), "u16": torch.tensor([65535]).to(torch.uint16),
             "u32": torch.tensor([4294967295]).to(torch.uint32), "f8": torch.tensor([1.5, -448.]).to(torch.float8_e4m3fn),
             "z": torch.ones(2, dtype=torch.complex64), "sparse": torch.eye(2).to_sparse(), "last": torch.ones(1)}
    torch.save(mixed, FOLDER / "mixed.pt")
    for name in ("legacy", "mixed"):
        shutil.copy(FOLDER / f"{name}.pt", CORPUS / f"{name}.pt")


def main():
    FOLDER.mkdir(exist_ok=True)
    CORPUS.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    values = torch.tensor([[-1.5, 0, 2], [100, -7, 3.25]])
    for protocol in (2, 3, 4, 5):
        save(f"dtypes_protocol{protocol}", every_dtype(values), pickle_protocol=protocol)
    save("views", views())

    net = Net()
    save("state_dict", net.state_dict())
    save("parameter", {"p": net.head.weight, "q": net.conv.bias})
    with_attribute = torch.nn.Parameter(torch.ones(2))
    with_attribute.scale = 3
    tagged = torch.arange(3.)
    tagged.note = "x"
    save("attributes", {"parameter": with_attribute, "tensor": tagged})
    save("scalar", {"s": torch.tensor(4.5, dtype=torch.float64), "i": torch.tensor(-(1 << 40))})
    save("bare_tensor", torch.arange(4), {"tensor": torch.arange(4)})
    save("empty", {})

    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    net(torch.randn(2, 1, 5, 5), torch.tensor([1, 3])).backward()
    adam.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(adam, [3, 5])
    history = [torch.tensor(0.5), (torch.tensor(0.25), [torch.tensor([1, 2])])]
    checkpoint = {"model": net.state_dict(), "optimizer": adam.state_dict(), "scheduler": schedule.state_dict(), "epoch": 3,
                  "loss": 0.75, "name": "näme", "history": history, "best": None, "done": False, "big": 1 << 70,
                  "negative": -(1 << 40), "shape": torch.Size([2, 3]), "dtype": torch.bfloat16,
                  "device": torch.device("cpu"), "raw": b"\0\1", "seen": {1, 2}, "z": 1 + 2j, ("a", 1): "no tensor",
                  "storage": torch.ones(2).untyped_storage()}
    tensors = {f"model.{k}": v for k, v in net.state_dict().items()}
    tensors |= {f"optimizer.state.{i}.{k}": v for i, s in adam.state_dict()["state"].items() for k, v in s.items()}
    tensors |= {"history.0": history[0], "history.1.0": history[1][0], "history.1.1.0": history[1][1][0]}
    for protocol in (2, 5):
        save(f"checkpoint_protocol{protocol}", checkpoint, tensors, pickle_protocol=protocol)

    old_formats()

    # Files that Volta rejects.
    save("module", net, {})
    save("old_format", {"x": torch.ones(2)}, {}, _use_new_zipfile_serialization=False)
    odd = {"int8": torch.int8, "int16": torch.int16, "uint16": torch.uint16, "complex64": torch.complex64,
           "float8_e4m3fn": torch.float8_e4m3fn}
    for name, dtype in odd.items():
        save(f"dtype_{name}", {"x": torch.ones(2).to(dtype)}, {})
    save("sparse", {"x": torch.eye(2).to_sparse()}, {})
    save("negated", {"x": torch._neg_view(torch.ones(2))}, {})
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), FOLDER / "script.pt")

    golden.write(FOLDER / "expected.safetensors", EXPECTED, {})

    for name in ("dtypes_protocol2", "dtypes_protocol5", "views", "state_dict", "checkpoint_protocol5", "attributes",
                 "scalar", "module", "old_format", "sparse"):
        shutil.copy(FOLDER / f"{name}.pt", CORPUS / f"{name}.pt")
    for name in ("state_dict", "checkpoint_protocol2", "checkpoint_protocol5"):
        with zipfile.ZipFile(FOLDER / f"{name}.pt") as archive:
            (CORPUS / f"{name}.pkl").write_bytes(archive.read(f"{name}/data.pkl"))
    within = []
    within.append((within, {1: within}))
    (CORPUS / "within_itself.pkl").write_bytes(pickle.dumps(within, 2))
    deflated = CORPUS / "deflated.pt"
    with zipfile.ZipFile(FOLDER / "views.pt") as archive, zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in archive.namelist():
            packed.writestr(zipfile.ZipInfo(name), archive.read(name), zipfile.ZIP_DEFLATED)
    shutil.copy(deflated, FOLDER / "deflated.pt")


if __name__ == "__main__":
    main()
