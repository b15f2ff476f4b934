#!/usr/bin/env python3
"""Makes the small random checkpoints and goldens of tests/data/transformer: `make_transformer_goldens.py [--check]`.

The forward pass below is a transcription of the published definitions in float64, apart from all C++ code. --check compares it with the
models of the package `transformers` (with `torch`), where these are installed, and writes nothing.
"""

import argparse
import json
import pathlib
import struct

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "transformer"
TOKENS = 141  # one block of 128 and a part of the next
ROW_STEP = 4  # logits are kept of every fourth row, and of the last

COMMON = {
    "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2,
    "rms_norm_eps": 1e-5, "rope_theta": 500.0,
}

FAMILIES = {
    "llama": COMMON | {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "attention_bias": False,
        "mlp_bias": False, "eos_token_id": [2, 3], "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64},
    },
    "qwen2": COMMON | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "float16", "tie_word_embeddings": True,
        "use_sliding_window": False, "num_key_value_heads": 1,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
    "qwen3": COMMON | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "float32", "tie_word_embeddings": True,
        "attention_bias": False, "head_dim": 12, "use_sliding_window": False,
    },
    "qwen3moe": COMMON | {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16", "tie_word_embeddings": False,
        "attention_bias": True, "head_dim": 10, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1], "use_sliding_window": False,
    },
}


def round_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return bits.astype(np.uint16)


def stored(x, dtype):
    """The bytes of a file, and the values that they stand for."""
    if dtype == "bfloat16":
        bits = round_bf16(x)
        return "BF16", bits.tobytes(), (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    name, kind = ("F16", np.float16) if dtype == "float16" else ("F32", np.float32)
    values = x.astype(kind)
    return name, values.tobytes(), values.astype(np.float64)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def shapes(c):
    d, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    dim = c.get("head_dim", d // heads)
    kind = c["model_type"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d), "unit"
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (d,), "one"
        for part, rows in (("q", heads * dim), ("k", kv * dim), ("v", kv * dim)):
            yield layer + f"self_attn.{part}_proj.weight", (rows, d), "linear"
            if kind == "qwen2" or c.get("attention_bias"):
                yield layer + f"self_attn.{part}_proj.bias", (rows,), "bias"
        yield layer + "self_attn.o_proj.weight", (d, heads * dim), "linear"
        if c.get("attention_bias"):
            yield layer + "self_attn.o_proj.bias", (d,), "bias"
        if kind.startswith("qwen3"):
            yield layer + "self_attn.q_norm.weight", (dim,), "one"
            yield layer + "self_attn.k_norm.weight", (dim,), "one"
        yield layer + "post_attention_layernorm.weight", (d,), "one"
        has_experts = "num_experts" in c and i not in c["mlp_only_layers"]
        if has_experts:
            yield layer + "mlp.gate.weight", (c["num_experts"], d), "linear"
        width = c["moe_intermediate_size"] if has_experts else c["intermediate_size"]
        for prefix in [f"mlp.experts.{e}." for e in range(c["num_experts"])] if has_experts else ["mlp."]:
            yield layer + prefix + "gate_proj.weight", (width, d), "linear"
            yield layer + prefix + "up_proj.weight", (width, d), "linear"
            yield layer + prefix + "down_proj.weight", (d, width), "linear"
    yield "model.norm.weight", (d,), "one"
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], d), "linear"


def make_weights(c, seed):
    random = np.random.default_rng(seed)
    file, values = {}, {}
    for name, shape, kind in shapes(c):
        x = random.standard_normal(shape)
        x = {"unit": x, "one": 1 + 0.1 * x, "bias": 0.3 * x, "linear": 1.5 * x / np.sqrt(shape[-1])}[kind]
        dtype, raw, values[name] = stored(x, c["torch_dtype"])
        file[name] = (dtype, shape, raw)
    return file, values


def rms(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def frequencies(c, dim):
    f = c["rope_theta"] ** -(np.arange(0, dim, 2) / dim)
    scaling = c.get("rope_scaling") or {"rope_type": "default"}
    if scaling["rope_type"] == "linear":
        return f / scaling["factor"]
    if scaling["rope_type"] == "llama3":
        original = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        wave = 2 * np.pi / f
        smooth = (original / wave - low) / (high - low)
        mixed = (1 - smooth) * f / scaling["factor"] + smooth * f
        return np.where(wave < original / high, f, np.where(wave > original / low, f / scaling["factor"], mixed))
    return f


def turned(x, angles):
    """x [tokens, heads, dim]; pairs are (i, i + dim / 2)."""
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def gated(w, prefix, x):
    gate = x @ w[prefix + "gate_proj.weight"].T
    return (gate / (1 + np.exp(-gate)) * (x @ w[prefix + "up_proj.weight"].T)) @ w[prefix + "down_proj.weight"].T


def mixture(c, w, prefix, x):
    scores = softmax(x @ w[prefix + "gate.weight"].T)
    out = np.zeros_like(x)
    for t, row in enumerate(scores):
        chosen = np.argsort(-row, kind="stable")[: c["num_experts_per_tok"]]
        shares = row[chosen] / row[chosen].sum() if c["norm_topk_prob"] else row[chosen]
        for expert, share in zip(chosen, shares):
            out[t] += share * gated(w, f"{prefix}experts.{expert}.", x[t : t + 1])[0]
    return out


def forward(c, w, ids):
    d, heads, kv, eps = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    dim, n = c.get("head_dim", d // heads), len(ids)
    angles = np.arange(n)[:, None] * frequencies(c, dim)[None]
    hidden = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        x = rms(hidden, w[layer + "input_layernorm.weight"], eps)
        q, k, v = ((x @ w[layer + f"self_attn.{p}_proj.weight"].T + w.get(layer + f"self_attn.{p}_proj.bias", 0)).reshape(n, -1, dim)
                   for p in "qkv")
        if layer + "self_attn.q_norm.weight" in w:
            q = rms(q, w[layer + "self_attn.q_norm.weight"], eps)
            k = rms(k, w[layer + "self_attn.k_norm.weight"], eps)
        q, k = turned(q, angles), turned(k, angles)
        k, v = (np.repeat(x, heads // kv, axis=1) for x in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(dim)
        scores = np.where(np.tril(np.ones((n, n), bool))[None], scores, -np.inf)
        context = np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(n, -1)
        hidden = hidden + context @ w[layer + "self_attn.o_proj.weight"].T + w.get(layer + "self_attn.o_proj.bias", 0)
        x = rms(hidden, w[layer + "post_attention_layernorm.weight"], eps)
        has_experts = layer + "mlp.gate.weight" in w
        hidden = hidden + (mixture(c, w, layer + "mlp.", x) if has_experts else gated(w, layer + "mlp.", x))
    head = w["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
    return rms(hidden, w["model.norm.weight"], eps) @ head.T


def check(name, c, w, ids, logits):
    import torch
    import transformers

    directory = ROOT / name
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager",
                                                              experts_implementation="eager")
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0].numpy()
    print(f"{name}: transformers {transformers.__version__} differs by {np.abs(theirs - logits).max():.3g}, "
          f"largest logit {np.abs(logits).max():.3g}")
    # Its rope angles and norms are float32.
    assert np.abs(theirs - logits).max() < 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the package transformers, write nothing")
    arguments = parser.parse_args()
    for seed, (name, c) in enumerate(FAMILIES.items(), 1):
        file, w = make_weights(c, seed)
        ids = [c["bos_token_id"]] + [int(x) for x in np.random.default_rng(100 + seed).integers(4, c["vocab_size"], TOKENS - 1)]
        logits = forward(c, w, ids)
        if arguments.check:
            check(name, c, w, ids, logits)
            continue
        directory = ROOT / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        write_safetensors(directory / "model.safetensors", file)
        rows = sorted({*range(0, TOKENS, ROW_STEP), TOKENS - 1})
        kept = logits[rows].astype(np.float32)
        write_safetensors(directory / "golden.safetensors", {
            "ids": ("I32", (TOKENS,), np.array(ids, np.int32).tobytes()),
            "rows": ("I32", (len(rows),), np.array(rows, np.int32).tobytes()),
            "logits": ("F32", kept.shape, kept.tobytes()),
        })


if __name__ == "__main__":
    main()
