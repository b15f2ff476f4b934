#!/usr/bin/env python3
"""Writes tests/data/gguf/blocks.safetensors: blocks of every quantised GGUF type and what the package `gguf` reads from
them. Needs the PyPI packages gguf and numpy. Run from the repository's root; the same versions give the same bytes."""

import json
import struct
import warnings

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

PATH = "tests/data/gguf/blocks.safetensors"
SEED = 20260
# Type -> byte offsets of its f16 scales within a block (MXFP4 has one power-of-two code instead).
TYPES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "MXFP4": [],
}
# Zero, minus zero, one, smallest and largest subnormal, minus that, smallest normal, largest, infinities, NaN, quiet and not.
EDGE_HALVES = [0x0000, 0x8000, 0x3C00, 0x0001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7D01]
EDGE_POWERS = [0, 1, 2, 3, 126, 127, 128, 253, 254, 255]
F16_SAMPLES = 2048


def edge_blocks(name, random):
    """Blocks whose scales are the edges, each with every other in turn; the rest is random."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    if name == "MXFP4":
        blocks = random.integers(0, 256, (len(EDGE_POWERS), size), dtype=np.uint8)
        blocks[:, 0] = EDGE_POWERS
        return blocks
    blocks = random.integers(0, 256, (len(EDGE_HALVES), size), dtype=np.uint8)
    for shift, at in enumerate(TYPES[name]):
        halves = np.roll(np.array(EDGE_HALVES, dtype="<u2"), shift * 5)
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(-1, 2)
    return blocks


def plain_blocks(name, random, count):
    """Random codes under scales of the size that models have."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in TYPES[name]:
        scales = random.normal(0, 0.02, count).astype("<f2")
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks


def all_code_blocks(name):
    """Every byte value as a code, under a scale of one."""
    values, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = 2 if values == 256 else 16
    blocks = np.resize(np.arange(256, dtype=np.uint8), count * size).reshape(count, size).copy()
    for at in TYPES[name]:
        blocks[:, at : at + 2] = [0x00, 0x3C]
    if name == "MXFP4":
        blocks[:, 0] = 127
    return blocks


def halves():
    """Halves over the whole range, and the edges."""
    spread = (np.arange(F16_SAMPLES, dtype=np.uint32) * 32 + np.arange(F16_SAMPLES, dtype=np.uint32) % 32).astype("<u2")
    return np.concatenate([np.array(EDGE_HALVES, dtype="<u2"), spread])


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        kind = {"uint8": "U8", "uint16": "U16", "float32": "F32"}[array.dtype.name]
        bytes_ = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    random = np.random.default_rng(SEED)
    tensors = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow is among what is wanted
        for name in TYPES:
            kind = GGMLQuantizationType[name]
            plain_count = 4 if GGML_QUANT_SIZES[kind][0] == 256 else 32
            parts = [edge_blocks(name, random), plain_blocks(name, random, plain_count), all_code_blocks(name)]
            blocks = np.concatenate(parts)
            tensors[f"{name.lower()}.blocks"] = blocks
            tensors[f"{name.lower()}.values"] = dequantize(blocks, kind)
        tensors["f16.blocks"] = halves()
        tensors["f16.values"] = dequantize(halves(), GGMLQuantizationType.F16)
    write_safetensors(PATH, tensors)


if __name__ == "__main__":
    main()
