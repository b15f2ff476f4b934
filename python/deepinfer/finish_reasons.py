"""How a request ended, in the words of the reference implementation."""

from __future__ import annotations

from .outputs import RequestError

PROMPT_TOO_LONG = "prompt_length_exceeded"
NO_ROOM = "insufficient_system_resource"
GRAMMAR_FAILED = "xgrammar runtime errors or timeout"
IMAGE_FAILED = "ve_error"
ERROR = "error"

# What the engine calls the end of a request that did not fail.
_ENDS = {"stop": "stop", "length": "length", "abort": "abort"}
# What failed requests are called by their error's code. Other codes have no word there: the reference raises or drops the request.
_CODES = {"unavailable": NO_ROOM, "out_of_memory": NO_ROOM}

TOKENS_PER_BLOCK = 128


class FinishReasons:
    """The words for one engine."""

    def __init__(self, max_model_len: int, block_count: int) -> None:
        self._prompt_max = min(max_model_len, block_count * TOKENS_PER_BLOCK)

    def name(self, reason: str, error: "RequestError | None", prompt_len: int, has_images: bool, has_grammar: bool) -> str:
        if reason in _ENDS:
            return _ENDS[reason]
        if error is None:
            return ""
        if prompt_len > self._prompt_max:
            return PROMPT_TOO_LONG
        if has_images and error.startswith("image "):
            return IMAGE_FAILED
        if error.code in _CODES:
            return _CODES[error.code]
        if has_grammar and any(word in error for word in ("grammar", "schema", "regex")):
            return GRAMMAR_FAILED
        return ERROR
