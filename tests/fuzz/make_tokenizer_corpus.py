#!/usr/bin/env python3
"""Writes the initial inputs for fuzzing tokenizers: small valid and invalid vocabularies, and texts. Needs only the
standard library."""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent / "corpus" / "tokenizer"
FILE, PAIR, CONFIG, TEXT = b"\0", b"\1", b"\2", b"\3"


def put(name, data):
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / name).write_bytes(data)


def characters():
    """The character that stands for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    found, extra = [], 0
    for byte in range(256):
        if byte in plain:
            found.append(chr(byte))
        else:
            found.append(chr(0x100 + extra))
            extra += 1
    return found


def main():
    vocab = {character: i for i, character in enumerate(characters())}
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    vocab["<|endoftext|>"] = len(vocab)
    text = json.dumps(vocab, ensure_ascii=False).encode()
    lines = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)
    put("pair", PAIR + text + b"\0" + lines.encode())
    put("pair_bad_merge", PAIR + text + b"\0a b c\n")
    put("pair_unknown_merge", PAIR + text + b"\0q z\n")
    put("pair_small", PAIR + b'{"a":0}\0')
    whole = {
        "added_tokens": [{"id": vocab["<|endoftext|>"], "content": "<|endoftext|>", "special": True}],
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True},
        "model": {"type": "BPE", "dropout": None, "vocab": vocab, "merges": merges},
    }
    put("whole", FILE + json.dumps(whole, ensure_ascii=False).encode())
    whole["model"]["merges"] = [" ".join(pair) for pair in merges]
    put("whole_older", FILE + json.dumps(whole, ensure_ascii=False).encode())
    whole["normalizer"] = {"type": "NFC"}
    put("whole_normalizer", FILE + json.dumps(whole, ensure_ascii=False).encode())
    put("whole_truncated", FILE + json.dumps(whole, ensure_ascii=False).encode()[:900])
    put("config", CONFIG + json.dumps({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_inner": None,
                                       "attn_pdrop": 0.1, "activation_function": "gelu_new"}).encode())
    put("config_bad", CONFIG + b'{"n_embd": -1, "attn_pdrop": 1e999}')
    put("text", TEXT + "the thé 漢字 😀 it's we'll 12  \n\n x<|endoftext|>".encode())
    put("text_invalid", TEXT + b"\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80 \xe2\x82")


if __name__ == "__main__":
    main()
