"""What generate() gives back."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Optional


class GeneratedText(str):
    """The text of an answer, with what belongs to it. A prompt that failed has an empty text and an error."""

    error: Optional[str]
    finish_reason: str
    token_ids: list[int]
    logprobs: list[float]
    prompt_token_ids: list[int]

    def __new__(
        cls,
        text: str,
        *,
        error: Optional[str] = None,
        finish_reason: str = "stop",
        token_ids: Optional[list[int]] = None,
        logprobs: Optional[list[float]] = None,
        prompt_token_ids: Optional[list[int]] = None,
    ) -> "GeneratedText":
        self = super().__new__(cls, text)
        self.error = error
        self.finish_reason = finish_reason
        self.token_ids = token_ids or []
        self.logprobs = logprobs or []
        self.prompt_token_ids = prompt_token_ids or []
        return self


@dataclass
class RequestOutput:
    """One token of one request, or the error that ended it. Owns its values: it stays good after further steps."""

    request_id: int
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
    draft_tok: int = 0
    accept_tok: int = 0
    confidence_score: float = 0.0
    error: Optional[str] = None
    cached_tokens: int = 0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    text_delta: str = ""

    @staticmethod
    def clone(other: "RequestOutput") -> "RequestOutput":
        return copy.deepcopy(other)
