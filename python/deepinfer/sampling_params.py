"""How tokens are drawn. Names and defaults are those of the reference implementation."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from .structured_output import parse_so_args

_SEED_MASK = (1 << 64) - 1
_INT32_MAX = (1 << 31) - 1
_TOP_LOGPROBS_MAX = 1000
_SAMPLES_MAX = 128

# Names of other engines, with what to use instead.
_REFUSED = {
    "best_of": "it has no meaning beside n; use n and choose among the answers",
    "lora_id": "adapters are not supported in this version",
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


def _biases(value: Optional[Mapping[Any, Any]]) -> dict[int, float]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"logit_bias: {value!r}, expected a mapping of token ids to numbers")
    return {_integer("logit_bias: token id", int(key), 0, _INT32_MAX): _number(f"logit_bias[{key}]", bias, -100.0, 100.0)
            for key, bias in value.items()}


def _stops(value: Union[str, Sequence[str], None]) -> list[str]:
    stops = [value] if isinstance(value, str) else list(value or [])
    for i, text in enumerate(stops):
        if not isinstance(text, str) or not text:
            raise ValueError(f"stop[{i}]: {text!r}, expected a text of at least one character")
    return stops


class SamplingParams:
    """temperature 0 takes the likeliest token; top_k -1 or 0 is off; max_tokens 0 gives an empty answer.

    seq_seed: the same seed gives the same answer; None draws anew each time.
    first_n_token_no_eos, or min_tokens: the end is not drawn within so many tokens.
    golden_token_ids: forced output, -1 leaves a place free.
    stop: texts that end the answer and are no part of it. stop_token_ids: tokens that do.
    logprobs: of the answer's tokens; top_logprobs: so many likeliest tokens beside each; prompt_logprobs: of the prompt's tokens.
    logprobs_mode: raw, the model's own, or processed, what was drawn from.
    n: so many answers to the prompt. priority: higher goes first. deadline_ms: what is not done then fails.
    cache_salt: prefixes are shared only among requests of one salt.
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
        *,
        stop: Union[str, Sequence[str], None] = None,
        stop_token_ids: Optional[Sequence[int]] = None,
        min_tokens: int = 0,
        min_p: float = 0.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        logit_bias: Optional[Mapping[int, float]] = None,
        n: int = 1,
        allowed_token_ids: Optional[Sequence[int]] = None,
        logprobs_mode: str = "raw",
        deadline_ms: Optional[float] = None,
        priority: int = 0,
        cache_salt: Optional[str] = None,
        **refused: Any,
    ) -> None:
        self.temperature = _number("temperature", temperature, 0.0, 1e6)
        self.top_p = _number("top_p", top_p, 0.0, 1.0, excludes_low=True)
        self.top_k = _integer("top_k", top_k, -1, _INT32_MAX)
        self.ignore_eos = bool(ignore_eos)
        self.max_tokens = _integer("max_tokens", max_tokens, 0, _INT32_MAX)
        self.top_logprobs = _integer("top_logprobs", top_logprobs, 0, _TOP_LOGPROBS_MAX)
        self.logprobs = bool(logprobs) or self.top_logprobs > 0
        self.prompt_logprobs = bool(prompt_logprobs)
        self.first_n_token_no_eos = max(_integer("first_n_token_no_eos", first_n_token_no_eos, 0, _INT32_MAX),
                                        _integer("min_tokens", min_tokens, 0, _INT32_MAX))
        self.golden_token_ids = _ids("golden_token_ids", golden_token_ids, -1)
        self.seq_seed = None if seq_seed is None else _integer("seq_seed", seq_seed, -(1 << 64), 1 << 64) & _SEED_MASK
        self.stop = _stops(stop)
        self.stop_token_ids = _ids("stop_token_ids", stop_token_ids, 0)
        self.min_p = _number("min_p", min_p, 0.0, 1.0)
        self.presence_penalty = _number("presence_penalty", presence_penalty, -2.0, 2.0)
        self.frequency_penalty = _number("frequency_penalty", frequency_penalty, -2.0, 2.0)
        self.repetition_penalty = _number("repetition_penalty", repetition_penalty, 0.0, 10.0, excludes_low=True)
        self.logit_bias = _biases(logit_bias)
        self.n = _integer("n", n, 1, _SAMPLES_MAX)
        self.allowed_token_ids = _ids("allowed_token_ids", allowed_token_ids, 0)
        if logprobs_mode not in ("raw", "processed"):
            raise ValueError(f"logprobs_mode: {logprobs_mode!r}, expected raw or processed")
        self.logprobs_mode = logprobs_mode
        self.deadline_ms = None if deadline_ms is None else _number("deadline_ms", deadline_ms, 0.0, 1e12, excludes_low=True)
        self.priority = _integer("priority", priority, -_INT32_MAX, _INT32_MAX)
        if cache_salt is not None and not isinstance(cache_salt, str):
            raise ValueError(f"cache_salt: {cache_salt!r}, expected a text")
        self.cache_salt = cache_salt
        if eos_id != 0:
            warnings.warn("eos_id has no effect: the model says which token ends an answer", stacklevel=2)
        self.so_args = so_args
        if so_args is not None:
            parse_so_args(so_args)
        self._refuse(refused)

    @staticmethod
    def _refuse(values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name not in _REFUSED:
                raise TypeError(f"SamplingParams has no argument {name!r}")
            if value is not None:
                raise ValueError(f"{name}: {value!r} is refused: {_REFUSED[name]}")

    def __repr__(self) -> str:
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
