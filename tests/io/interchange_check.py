#!/usr/bin/env python3
"""Exchanges files between Volta and the libraries that define their formats: safetensors, PyTorch, NumPy, TensorBoard.

    interchange_check.py path/to/volta_tests

Has the test program write files, reads them with those libraries, writes others with them, and has the test program
read those. Exits with 77, which CTest takes for "skipped", where one of the libraries is not installed."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import safetensors
    import torch
    from safetensors.torch import load_file, save_file
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "bool": torch.bool,
}


def counted(name):
    start = 0 if name in ("u8", "bool") else -2
    return torch.arange(start, start + 6).to(DTYPES[name]).reshape(2, 3)


def run(program, name, folder):
    environment = dict(os.environ, VOLTA_TEST_INTERCHANGE=str(folder))
    subprocess.run([program, f"--gtest_filter=Interchange.{name}", "--gtest_brief=1"], env=environment, check=True)


def check_tensors(tensors):
    for name in DTYPES:
        got = tensors[f"layer.{name}"]
        assert got.dtype == DTYPES[name] and torch.equal(got, counted(name)), name
    assert tensors["café"].shape == () and tensors["none"].shape == (0, 4)


def check_written(folder):
    check_tensors(load_file(folder / "volta.safetensors"))
    check_tensors(load_file(folder / "volta_checked.safetensors"))
    with safetensors.safe_open(folder / "volta.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert torch.equal(file.get_slice("layer.f32")[1], counted("f32")[1])
    index = json.loads((folder / "volta_sharded.safetensors.index.json").read_text())
    gathered = {}
    for file in set(index["weight_map"].values()):
        gathered |= load_file(folder / file)
    assert set(gathered) == set(index["weight_map"])
    assert index["metadata"]["total_size"] == sum(t.numel() * t.element_size() for t in gathered.values())
    check_tensors(gathered)

    model = torch.nn.Sequential()
    model.add_module("fc1", torch.nn.Linear(3, 4))
    model.add_module("fc2", torch.nn.Linear(4, 2))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    values = load_file(folder / "model_io.safetensors")
    assert torch.allclose(model(values["x"]), values["y"], atol=1e-5)
    save_file(model.state_dict(), folder / "torch_model.safetensors")
    x = torch.randn(5, 3)
    save_file({"x": x, "y": model(x).detach()}, folder / "torch_io.safetensors")

    for name in ("volta_stored.npz", "volta_deflated.npz"):
        with np.load(folder / name) as arrays:
            for dtype in DTYPES:
                if dtype != "bf16":
                    assert np.array_equal(arrays[f"layer.{dtype}"], counted(dtype).numpy()), (name, dtype)
            assert arrays["café"].shape == () and arrays["none"].shape == (0, 4)
    assert np.array_equal(np.load(folder / "volta.npy"), counted("f64").numpy())


def write_others(folder):
    tensors = {f"layer.{name}": counted(name) for name in DTYPES}
    save_file(tensors, folder / "torch.safetensors")
    sharded = folder / "sharded"
    sharded.mkdir()
    weight_map = {}
    for i, (name, tensor) in enumerate(tensors.items()):
        file = f"model-{i + 1:05}-of-{len(tensors):05}.safetensors"
        save_file({name: tensor}, sharded / file, {"format": "pt"})
        weight_map[name] = file
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    arrays = {name: tensor.numpy() for name, tensor in tensors.items() if tensor.dtype != torch.bfloat16}
    np.savez(folder / "numpy_stored.npz", **arrays)
    np.savez_compressed(folder / "numpy_deflated.npz", **arrays)
    np.savez(folder / "numpy_fortran.npz", **{k: np.asfortranarray(v) for k, v in arrays.items()})
    np.savez(folder / "numpy_big_endian.npz", **{k: v.astype(v.dtype.newbyteorder(">")) for k, v in arrays.items()})


def check_events(folder):
    def read(run):
        events = EventAccumulator(str(run), size_guidance={"histograms": 0, "images": 0, "tensors": 0})
        events.Reload()
        return events

    events = read(folder / "run")
    tags = events.Tags()
    assert tags["scalars"] == ["loss"] and tags["histograms"] == ["weights"] and tags["images"] == ["image"], tags
    assert tags["tensors"] == ["notes/text_summary"], tags
    assert [(s.step, s.value) for s in events.Scalars("loss")] == [(i, np.float32(1 / (i + 1))) for i in range(5)]
    histogram = events.Histograms("weights")[0].histogram_value
    assert histogram.num == 1000 and histogram.min == -1 and histogram.max == 1 and sum(histogram.bucket) == 1000
    image = events.Images("image")[0]
    assert (image.width, image.height) == (10, 8)
    try:
        import io

        from PIL import Image

        pixels = np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))
        expected = (np.linspace(0, 1, 240, dtype=np.float32).reshape(3, 8, 10) * 255).astype(np.uint8)
        assert np.abs(pixels.astype(int) - expected.transpose(1, 2, 0)).max() <= 1
    except ImportError:
        pass
    text = events.Tensors("notes/text_summary")[0].tensor_proto.string_val[0]
    assert text.decode() == "café **bold**"
    for name, sign in (("a", 1), ("b", -1)):
        curve = read(folder / "run" / f"both_{name}").Scalars("both")
        assert [s.value for s in curve] == [sign * i for i in range(5)]


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(program, "WritesForOthers", folder)
        check_written(folder)
        check_events(folder)
        write_others(folder)
        run(program, "ReadsFromOthers", folder)
    print(f"agrees with safetensors {safetensors.__version__}, torch {torch.__version__}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
