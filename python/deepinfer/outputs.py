"""What the engine gives back. All of it owns its values: it stays good whatever runs afterwards."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Optional


class RequestError(str):
    """Why a request failed: a text for a person, with a code for a program.

    code: invalid_argument, unsupported, unavailable, out_of_memory, not_found, invalid_file or internal.
    """

    code: str

    def __new__(cls, code: str, message: str) -> "RequestError":
        self = super().__new__(cls, message)
        self.code = code
        return self

    def __reduce__(self) -> tuple:
        return (RequestError, (self.code, str(self)))

    @property
    def message(self) -> str:
        return str(self)


class GeneratedText(str):
    """The text of an answer, with what belongs to it. A prompt that failed has an empty text and an error.

    logprobs, top_logprobs and prompt_logprobs are empty unless the parameters ask for them. samples: all answers to the
    prompt, this one first, when more than one was asked for.
    """

    error: Optional[RequestError]
    finish_reason: str
    token_ids: list[int]
    logprobs: list[float]
    top_logprobs: list[list[tuple[int, float]]]
    prompt_logprobs: list[float]
    prompt_token_ids: list[int]
    cached_tokens: int
    samples: list["GeneratedText"]

    def __new__(cls, text: str, **values: Any) -> "GeneratedText":
        self = super().__new__(cls, text)
        self.error = values.get("error")
        self.finish_reason = values.get("finish_reason", "stop")
        self.token_ids = values.get("token_ids", [])
        self.logprobs = values.get("logprobs", [])
        self.top_logprobs = values.get("top_logprobs", [])
        self.prompt_logprobs = values.get("prompt_logprobs", [])
        self.prompt_token_ids = values.get("prompt_token_ids", [])
        self.cached_tokens = values.get("cached_tokens", 0)
        self.samples = [self]
        return self


@dataclass
class RequestOutput:
    """One token of one request, or the end of one that has no token more: token_id is -1 then.

    The last record of a request (of each of its samples) has finished, a finish_reason and, if it failed, an error.
    token_logprobs: natural logarithm of the token's probability. nextn_logprobs 1.0, sum_smaller_probs -1.0: none.
    draft_tok, accept_tok: drafts that were verified in this step and how many of them were accepted, with its last token.
    prompt_logprobs: of the prompt's tokens from the second on, with the first record.
    """

    request_id: Any
    prompt_len: int
    token_id: int = -1
    finish_reason: str = ""
    finished: bool = False
    max_num_batched_tokens: int = 0
    token_logprobs: float = 0.0
    nextn_logprobs: float = 1.0
    sum_smaller_probs: float = -1.0
    top_logprobs: list[float] = field(default_factory=list)
    top_token_ids: list[int] = field(default_factory=list)
    num_output_tokens: int = 0
    prompt_logprobs: list[float] = field(default_factory=list)
    draft_tok: list[int] = field(default_factory=list)
    accept_tok: int = 0
    confidence_score: list[float] = field(default_factory=list)
    error: Optional[RequestError] = None
    cached_tokens: int = 0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    text_delta: str = ""
    sample_index: int = 0
    prompt_index: int = 0

    @staticmethod
    def clone(other: "RequestOutput") -> "RequestOutput":
        return copy.deepcopy(other)
