"""How tokens are drawn. Names and defaults are those of the reference implementation."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

_SEED_MASK = (1 << 64) - 1
_INT32_MAX = (1 << 31) - 1

# Names of later versions, each with the value that means that it is not asked for.
_LATER = {
    "prompt_logprobs": False,
    "top_logprobs": 0,
    "so_args": None,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "logit_bias": None,
    "n": 1,
    "allowed_token_ids": None,
    "deadline_ms": None,
    "priority": 0,
    "lora_id": None,
    "cache_salt": None,
}


def _number(name: str, value: Any, low: float, high: float, excludes_low: bool = False) -> float:
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value > high or value < low or (excludes_low and value == low):
        bracket = "(" if excludes_low else "["
        raise ValueError(f"{name}: {value!r}, expected a number in {bracket}{low}, {high}]")
    return float(value)


def _integer(name: str, value: Any, low: int, high: int) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        raise ValueError(f"{name}: {value!r}, expected an integer in [{low}, {high}]")
    return int(value)


def _ids(name: str, value: Optional[Iterable[Any]], low: int) -> list[int]:
    if value is None:
        return []
    return [_integer(f"{name}[{i}]", item, low, _INT32_MAX) for i, item in enumerate(value)]


class SamplingParams:
    """temperature 0 takes the likeliest token; top_k -1 or 0 is off; max_tokens 0 gives an empty answer.

    seq_seed: the same seed gives the same answer; None draws anew each time.
    first_n_token_no_eos: the end is not drawn within so many tokens.
    golden_token_ids: forced output, -1 leaves a place free.
    stop: texts that end the answer and are no part of it. stop_token_ids: tokens that do.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        ignore_eos: bool = False,
        max_tokens: int = 16,
        logprobs: bool = False,
        prompt_logprobs: bool = False,
        top_logprobs: int = 0,
        first_n_token_no_eos: int = 0,
        eos_id: int = 0,
        so_args: Optional[dict] = None,
        golden_token_ids: Optional[Sequence[int]] = None,
        seq_seed: Optional[int] = None,
        stop: Union[str, Sequence[str], None] = None,
        stop_token_ids: Optional[Sequence[int]] = None,
        **later: Any,
    ) -> None:
        self.temperature = _number("temperature", temperature, 0.0, 1e6)
        self.top_p = _number("top_p", top_p, 0.0, 1.0, excludes_low=True)
        self.top_k = _integer("top_k", top_k, -1, _INT32_MAX)
        self.ignore_eos = bool(ignore_eos)
        self.max_tokens = _integer("max_tokens", max_tokens, 0, _INT32_MAX)
        self.logprobs = bool(logprobs)
        self.first_n_token_no_eos = _integer("first_n_token_no_eos", first_n_token_no_eos, 0, _INT32_MAX)
        self.golden_token_ids = _ids("golden_token_ids", golden_token_ids, -1)
        self.seq_seed = None if seq_seed is None else _integer("seq_seed", seq_seed, -(1 << 64), 1 << 64) & _SEED_MASK
        self.stop = [stop] if isinstance(stop, str) else list(stop or [])
        for i, text in enumerate(self.stop):
            if not isinstance(text, str) or not text:
                raise ValueError(f"stop[{i}]: {text!r}, expected a text of at least one character")
        self.stop_token_ids = _ids("stop_token_ids", stop_token_ids, 0)
        if eos_id != 0:
            warnings.warn("eos_id has no effect: the model says which token ends an answer", stacklevel=2)
        self._refuse_later({"prompt_logprobs": prompt_logprobs, "top_logprobs": top_logprobs, "so_args": so_args, **later})

    @staticmethod
    def _refuse_later(values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name not in _LATER:
                raise TypeError(f"SamplingParams has no argument {name!r}")
            if value is not None and value != _LATER[name]:
                raise ValueError(f"{name}: {value!r} is not supported in this version, expected {_LATER[name]!r}")

    def __repr__(self) -> str:
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
