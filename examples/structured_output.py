#!/usr/bin/env python3
"""Answers that must follow a JSON schema, a regular expression or a grammar.

    python examples/structured_output.py                      # the embedded model
    python examples/structured_output.py --model path/to/dir
"""

import argparse
import json
import os
import pathlib

from deepinfer import LLM, SamplingParams

EMBEDDED_MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "v41-mini"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "city": {"type": "string", "maxLength": 20},
    },
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
TASKS = [
    ("<｜User｜>Extract name, age, city as JSON: Anna is a 34 year old baker from Rome.<｜Assistant｜></think>",
     {"schema_type": "json", "schema": SCHEMA}),
    ("<｜User｜>When is the meeting? Answer as HH:MM.<｜Assistant｜></think>",
     {"schema_type": "regex", "schema": "([01][0-9]|2[0-3]):[0-5][0-9]"}),
    ("<｜User｜>Is sleep important?<｜Assistant｜></think>", {"schema_type": "choice", "schema": ["yes", "no"]}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("DEEPINFER_HF_MODEL_DIR", str(EMBEDDED_MODEL)))
    arguments = parser.parse_args()
    with LLM(arguments.model) as llm:
        params = [SamplingParams(temperature=0.0, max_tokens=80, so_args=so_args) for _, so_args in TASKS]
        answers = llm.generate([prompt for prompt, _ in TASKS], params)
    for (prompt, so_args), answer in zip(TASKS, answers):
        print(f"--- {prompt}\n{answer}")
        if so_args["schema_type"] == "json":
            print("parsed:", json.loads(answer))


if __name__ == "__main__":
    main()
