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

__all__ = ["Answer", "decode", "decode_stream", "encode"]

Event = tuple[Optional[str], Union[dict[str, Any], str]]  # name, data


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
) -> list[Event]:
    """The same as the events of a stream: pairs of name (None in chat) and data; chat ends with "[DONE]"."""
    output = _input(request, token_ids, text, finish_reason, id, created)
    events: list[Event] = []
    for block in _recipe(tokenizer).decode(output, dialect, True).split("\n\n"):
        if block:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            events.append(_event(lines.get("event", ""), lines["data"]))
    return events


class Answer:
    """An answer while a model writes it: ids in, events out, as soon as they are certain.

    id, created: of the answer; None: new ones.
    """

    def __init__(
        self,
        request: Mapping[str, Any],
        dialect: str = "chat",
        *,
        id: Optional[str] = None,
        created: Optional[int] = None,
        tokenizer: Optional[str] = None,
    ) -> None:
        self._answer = _recipe(tokenizer).answer(json.dumps({"request": request, "id": id, "created": created}), dialect)

    @property
    def is_over(self) -> bool:
        """The answer has ended: by finish(), by a stop string, or by the last call that the request allows."""
        return self._answer.is_over

    def push(self, token_ids: Sequence[int]) -> list[Event]:
        """The events of what the model wrote next. Once the answer is over there are none."""
        return [_event(name, data) for name, data in self._answer.push(token_ids)]

    def finish(self, finish_reason: str = "stop") -> list[Event]:
        """The last events. finish_reason: how the output ended, "stop" (with or without the end token) or "length"."""
        return [_event(name, data) for name, data in self._answer.finish(finish_reason)]

    def body(self) -> dict[str, Any]:
        """The whole answer, once it is over."""
        return json.loads(self._answer.body())


def _event(name: str, data: str) -> Event:
    return (name or None, data if data == "[DONE]" else json.loads(data))


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
