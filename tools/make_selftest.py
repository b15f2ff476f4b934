#!/usr/bin/env python3
"""Writes selftest.json of a model directory from the goldens that lie beside the model: what `serve` compares at its start.

    tools/make_selftest.py models/v41-mini

The goldens are those of an independent implementation (goldens.json: prompts and greedy tokens; goldens.safetensors: logits of the
last rows of each prompt), with caches in their formats. Their greedy tokens are taken as far as no other token comes near, and
the log-probability of the first one, which is all that the logits of a prompt say.
"""

import argparse
import json
import math
import struct
from pathlib import Path

FORMATS = "cachequant"  # the default of the engine


def last_row(path, name):
    """The last row of a float32 tensor of a safetensors file."""
    data = path.read_bytes()
    header_bytes = struct.unpack_from("<Q", data)[0]
    entry = json.loads(data[8 : 8 + header_bytes])[name]
    vocabulary = entry["shape"][1]
    end = 8 + header_bytes + entry["data_offsets"][1]
    return struct.unpack_from(f"<{vocabulary}f", data, end - 4 * vocabulary)


def logprob_of(row, token):
    top = max(row)
    return row[token] - top - math.log(sum(math.exp(value - top) for value in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompt", type=int, default=1, help="which prompt of goldens.json (default: one whose tokens are far apart)")
    parser.add_argument("--tokens", type=int, default=24, help="of the answer")
    parser.add_argument("--tolerance", type=float, default=0.02, help="of the log-probability: what the goldens' logits are held to")
    given = parser.parse_args()
    prompt = json.loads((given.model / "goldens.json").read_text())["prompts"][given.prompt]
    tokens = prompt[FORMATS]["greedy"][: given.tokens]
    if prompt[FORMATS]["min_top2_gap"] < 2 * given.tolerance:
        parser.error(f"prompt {given.prompt}: another token comes near, expected a prompt with a larger min_top2_gap")
    row = last_row(given.model / "goldens.safetensors", f"logits.{given.prompt}.{FORMATS}")
    selftest = {
        "prompt_token_ids": prompt["ids"],
        "token_ids": tokens,
        "logprobs": [round(logprob_of(row, tokens[0]), 6)],
        "tolerance": given.tolerance,
    }
    (given.model / "selftest.json").write_text(json.dumps(selftest) + "\n")


if __name__ == "__main__":
    main()
