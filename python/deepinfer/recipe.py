"""What the service does around a model, without a model: requests become prompts, outputs become answers.

    from deepinfer import recipe

    prompt = recipe.encode({"messages": [{"role": "user", "content": "Hi"}]}, "chat", tokenizer="models/v41-mini")
    answer = recipe.decode(request, "chat", text="...</think>Hello", tokenizer="models/v41-mini")
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _deepinfer

__all__ = ["decode", "decode_stream", "encode"]


def encode(request: Mapping[str, Any], dialect: str = "chat", *, tokenizer: Optional[str] = None) -> dict[str, Any]:
    """What the model is given for a request: prompt, token_ids, special_ranges, images, is_thinking, answer_start, may_call_tools
    and must_call_tools.

    dialect: "chat", "responses" or "messages". tokenizer: directory with tokenizer.json; None: the one of DEEPINFER_HF_MODEL_DIR.
    ValueError names the field of the request that is wrong.
    """
    return json.loads(_recipe(tokenizer).encode(json.dumps(request), dialect))


def decode(
    request: Mapping[str, Any],
    dialect: str = "chat",
    *,
    token_ids: Optional[Sequence[int]] = None,
    text: Optional[str] = None,
    finish_reason: str = "stop",
    id: Optional[str] = None,
    created: Optional[int] = None,
    tokenizer: Optional[str] = None,
) -> dict[str, Any]:
    """The body that answers a request with an output of the model, given as token_ids or as text.

    finish_reason: how the output ended, "stop", "length" or "content_filter". id, created: of the answer; None: new ones.
    """
    output = _input(request, token_ids, text, finish_reason, id, created)
    return json.loads(_recipe(tokenizer).decode(output, dialect, False))


def decode_stream(
    request: Mapping[str, Any],
    dialect: str = "chat",
    *,
    token_ids: Optional[Sequence[int]] = None,
    text: Optional[str] = None,
    finish_reason: str = "stop",
    id: Optional[str] = None,
    created: Optional[int] = None,
    tokenizer: Optional[str] = None,
) -> list[tuple[Optional[str], Union[dict[str, Any], str]]]:
    """The same as the events of a stream: pairs of name (None in chat) and data; chat ends with "[DONE]"."""
    output = _input(request, token_ids, text, finish_reason, id, created)
    events: list[tuple[Optional[str], Union[dict[str, Any], str]]] = []
    for block in _recipe(tokenizer).decode(output, dialect, True).split("\n\n"):
        if block:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            data = lines["data"]
            events.append((lines.get("event"), data if data == "[DONE]" else json.loads(data)))
    return events


def _input(
    request: Mapping[str, Any],
    token_ids: Optional[Sequence[int]],
    text: Optional[str],
    finish_reason: str,
    id: Optional[str],
    created: Optional[int],
) -> str:
    ids = None if token_ids is None else [int(i) for i in token_ids]
    return json.dumps(
        {"request": request, "token_ids": ids, "text": text, "finish_reason": finish_reason, "id": id, "created": created}
    )


def _recipe(tokenizer: Optional[str]) -> _deepinfer.Recipe:
    directory = tokenizer or os.environ.get("DEEPINFER_HF_MODEL_DIR")
    if not directory:
        raise ValueError("no tokenizer, expected tokenizer=DIRECTORY or DEEPINFER_HF_MODEL_DIR")
    return _open(str(directory))


@functools.lru_cache(maxsize=8)
def _open(directory: str) -> _deepinfer.Recipe:
    return _deepinfer.Recipe(directory)
