#!/usr/bin/env python3
"""Writes the initial inputs for fuzzing safetensors, npz and JSON: small files with every feature, and invalid files.
Needs only the standard library, so that the files can be made anywhere."""
import io
import json
import pathlib
import struct
import zipfile

HERE = pathlib.Path(__file__).resolve().parent / "corpus"


def put(folder, name, data):
    path = HERE / folder
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(data)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(descr, fortran, shape, data, version=1):
    text = ("{'descr': %r, 'fortran_order': %s, 'shape': %s, }\n" % (descr, fortran, shape)).encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def archive(entries, method, force_zip64=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in entries:
            with file.open(zipfile.ZipInfo(name), "w", force_zip64=force_zip64) as stream:
                stream.write(data)
    return out.getvalue()


def main():
    every = {"__metadata__": {"format": "pt"}}
    data = b""
    for dtype, size in [("F64", 8), ("I64", 8), ("F32", 4), ("I32", 4), ("F16", 2), ("BF16", 2), ("U8", 1), ("BOOL", 1)]:
        every[dtype.lower()] = entry(dtype, [2, 1], len(data), len(data) + 2 * size)
        data += b"\1" * 2 * size
    put("safetensors", "every_dtype", safetensors(every, data))
    put("safetensors", "empty", safetensors({}))
    put("safetensors", "scalar_and_none", safetensors({"s": entry("F32", [], 0, 4), "n": entry("U8", [0, 3], 4, 4)}, b"\0" * 4))
    put("safetensors", "misaligned", safetensors({"u": entry("U8", [1], 0, 1), "f": entry("F32", [1], 1, 5)}, b"\0" * 5))
    put("safetensors", "overlap", safetensors({"a": entry("U8", [3], 0, 3), "b": entry("U8", [3], 1, 4)}, b"\0" * 4))
    put("safetensors", "hole", safetensors({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)}, b"\0" * 3))
    put("safetensors", "oversized_header", struct.pack("<Q", 1 << 62) + b"{}")
    put("safetensors", "overflow", safetensors({"a": entry("F64", [1 << 61], 0, 0)}))
    put("safetensors", "unknown_dtype", safetensors({"a": entry("F33", [1], 0, 1)}, b"\0"))
    widened = {"__metadata__": None}
    wide = b""
    for dtype, size in [("U64", 8), ("U32", 4), ("U16", 2), ("I16", 2), ("I8", 1), ("F8_E4M3", 1), ("F8_E5M2", 1)]:
        widened[dtype.lower()] = dict(entry(dtype, [3], len(wide), len(wide) + 3 * size), note=[])
        wide += b"\x7f\1\2" * size
    put("safetensors", "widened", safetensors(widened, wide))
    put("safetensors", "beyond_i64", safetensors({"u": entry("U64", [1], 0, 8)}, b"\xff" * 8))
    put("safetensors", "duplicate", safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'))
    put("safetensors", "truncated", safetensors(every, data)[:-3])
    put("safetensors", "bad_bool", safetensors({"b": entry("BOOL", [1], 0, 1)}, b"\7"))

    floats = npy("<f4", False, "(2, 2)", struct.pack("<4f", 1, 2, 3, 4))
    columns = npy("<f4", True, "(2, 3)", struct.pack("<6f", 1, 2, 3, 4, 5, 6))
    big = npy(">i2", False, "(2,)", struct.pack(">2h", -3, 4), version=2)
    arrays = [("a.npy", floats), ("b.npy", columns), ("c/d.npy", big)]
    put("npz", "array.npy", floats)
    put("npz", "columns.npy", columns)
    put("npz", "big_endian.npy", big)
    put("npz", "objects.npy", npy("|O", False, "(1,)", b"\x80\x04."))
    put("npz", "stored.npz", archive(arrays, zipfile.ZIP_STORED))
    put("npz", "deflated.npz", archive(arrays, zipfile.ZIP_DEFLATED))
    put("npz", "zip64.npz", archive(arrays, zipfile.ZIP_DEFLATED, force_zip64=True))
    put("npz", "none.npz", archive([], zipfile.ZIP_STORED))
    put("npz", "truncated.npz", archive(arrays, zipfile.ZIP_STORED)[:-10])
    damaged = bytearray(archive(arrays, zipfile.ZIP_DEFLATED))
    damaged[60] ^= 0xFF
    put("npz", "damaged.npz", bytes(damaged))

    texts = {
        "values": '{"s":"\\"\\\\\\u00e9\\ud83d\\ude00","n":[0,-1.5e+3,true,false,null],"o":{}}',
        "index": '{"metadata":{"total_size":8},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}',
        "outside": '{"weight_map":{"a":"../../etc/passwd"}}',
        "deep": "[" * 100,
        "duplicate": '{"a":1,"\\u0061":2}',
        "surrogate": '"\\ud800"',
        "number": "[1,2.5,-0,1e9,01]",
    }
    for name, text in texts.items():
        put("json", name, text.encode())
    put("json", "utf8", b'"\xc3\xa9\xed\xa0\x80"')
    more()


def more():
    """Writes inputs of the targets for indices, names, checkpoints and the files of runs."""
    index = {"metadata": {"total_size": 8}, "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors"}}
    put("index", "two", json.dumps(index).encode())
    put("index", "outside", b'{"weight_map":{"a":"../m"}}')
    put("index", "no_map", b'{"metadata":{}}')
    put("index", "deep", b'{"weight_map":{"a":' + b"[" * 200)
    for name, lines in {"stars": "*a*a*a*b\nx$1\n" + "a" * 200, "sets": "h.[0-9][!a-c]*.?\n$1$2$$$&\nh.1d.weight.w",
                        "open": "[a\n\n[a", "plain": "a.b\nc\na.b", "long": "*\n$1$01$99\n" + "n" * 3000}.items():
        put("names", name, lines.encode())
    metadata = {"format": "volta.checkpoint", "version": "1", "volta": "0", "timed_choices": "{}",
                "part.model": "2 tensors", "number.epoch": "3", "text.note": "x", "part.generator": "1 tensors"}
    header = {"__metadata__": metadata, "generator.state": entry("I64", [2], 0, 16),
              "model.weight": entry("F32", [1, 2], 16, 24), "model.bias": entry("F32", [1], 24, 28)}
    put("checkpoint", "linear", safetensors(header, bytes(28)))
    put("checkpoint", "deep_choices", safetensors({**header, "__metadata__": {**metadata, "timed_choices": "{\"a\":" + "[" * 99}}, bytes(28)))
    put("checkpoint", "number", safetensors({**header, "__metadata__": {**metadata, "number.epoch": "1e999x"}}, bytes(28)))
    put("checkpoint", "none", safetensors({}))
    settings = {"recipe": "char-gpt", "device": "cpu", "settings": {"layers": "2", "width": "64", "lr": "0.001"}}
    put("run", "config", b"\0" + json.dumps(settings).encode())
    put("run", "config_layers", b"\0" + json.dumps({**settings, "settings": {"layers": "4294967296"}}).encode())
    put("run", "config_deep", b"\0" + b'{"recipe":' + b"[" * 1000)
    put("run", "metrics", b'\1{"step":1,"loss":0.5}\n{"step":2,"loss":null}\n{"step":3')
    put("run", "metrics_deep", b'\1{"step":1,"a":' + b"[" * 1000 + b"]" * 1000 + b"}\n")


if __name__ == "__main__":
    main()
