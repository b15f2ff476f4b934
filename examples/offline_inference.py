#!/usr/bin/env python3
"""Continues a few prompts in one batch.

    python examples/offline_inference.py                      # the embedded model
    python examples/offline_inference.py --model path/to/dir --prompt "Long ago"
"""

import argparse
import os
import pathlib

from deepinfer import LLM, SamplingParams

EMBEDDED_MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "v41-mini"
PROMPTS = [
    "Once upon a time, there was a little dog named Max.",
    "<｜User｜>Why is sleep important?<｜Assistant｜></think>",
    "<｜User｜>Extract name, age, city as JSON: Anna is a 34 year old baker from Rome.<｜Assistant｜></think>",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("DEEPINFER_HF_MODEL_DIR", str(EMBEDDED_MODEL)))
    parser.add_argument("--prompt", action="append", help="may be repeated")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()

    params = SamplingParams(
        temperature=arguments.temperature, top_p=0.9, max_tokens=arguments.max_tokens, seq_seed=arguments.seed
    )
    with LLM(arguments.model) as llm:
        prompts = arguments.prompt or PROMPTS
        for prompt, answer in zip(prompts, llm.generate(prompts, params)):
            print(f"--- {prompt}")
            print(f"error: {answer.error}" if answer.error else answer)


if __name__ == "__main__":
    main()
