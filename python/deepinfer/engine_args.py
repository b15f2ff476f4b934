"""The arguments of an engine, with the names of the reference implementation and our own."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields
from typing import Any, Optional, Union

from . import _deepinfer

_SEED_MASK = (1 << 64) - 1


class _Default(int):
    """A default that is shown and leaves the choice to the environment and the machine; the same number said by a caller is kept."""


# The reference's arguments that change nothing on one machine, with the values that this version can honour.
_ONE_MACHINE: dict[str, tuple] = {
    "data_parallel_size": (0, 1),
    "context_parallel_size": (1,),
    "expert_parallel_size": (1,),
    "engram_parallel_size": (0, 1),
    "engine_rank": (0,),
    "engine_group_rank": (0,),
    "tokens_per_block": (-1, 128),
    "engine_type": ("NORMAL",),
}
# Accepted for programs written for the reference, with the reason why nothing follows from them.
_WITHOUT_EFFECT = {
    "trust_remote_code": "code of a model is never run",
    "ignore_len": "the reference does not use it either",
    "lookahead_tokens": "drafts need no room set aside",
}
# Ours that are named differently elsewhere.
_SETTING_NAMES = {"async_scheduling": "async", "stop_preempted_request": "stop_preempted"}
_NOT_SETTINGS = {
    "revision", "tokenizer_revision", "served_model_name", "gpu_memory_utilization", "disable_log_stats", "offline_inference",
    *_ONE_MACHINE, *_WITHOUT_EFFECT,
}
_SWITCHES = {name.replace("-", "_") for name, is_switch in _deepinfer.settings if is_switch}


@dataclass
class EngineArgs:
    """What an engine is made from. None, and the default of max_num_seqs: as the environment says, else as the machine gives.

    model: directory with config.json, *.safetensors and tokenizer.json. kv_memory, weights_memory: bytes, or texts such as "512MiB".
    docs/python.md says what each argument does; docs/environment.md which variables stand behind them.
    """

    model: Optional[str] = None
    tokenizer: Optional[str] = None
    revision: Optional[str] = None
    tokenizer_revision: Optional[str] = None
    trust_remote_code: bool = False
    served_model_name: str = "deepinfer-model"
    load_format: str = "auto"
    seed: int = 0
    max_model_len: Optional[int] = None
    data_parallel_size: int = 0
    context_parallel_size: int = 1
    expert_parallel_size: int = 1
    engram_parallel_size: int = 0
    engine_rank: int = 0
    engine_group_rank: int = 0
    gpu_memory_utilization: Union[float, int] = 0.9
    max_num_batched_tokens: Optional[int] = None
    max_num_seqs: int = _Default(256)
    disable_log_stats: bool = False
    stop_preempted_request: bool = False
    engine_type: str = "NORMAL"
    chunked_prefill: bool = True
    ignore_len: int = 128 * 2**20
    tokens_per_block: int = -1
    lookahead_tokens: int = 0
    offline_inference: bool = False
    # Not of the reference.
    backend: Optional[str] = None
    threads: Optional[int] = None
    activations: Optional[str] = None
    kv_quant: Optional[str] = None
    act_quant: Optional[str] = None
    replay: Optional[str] = None
    replay_keep: Optional[int] = None
    kv_memory: Union[int, str, None] = None
    weights_memory: Union[int, str, None] = None
    gpu_memory: Union[int, str, None] = None
    batch_invariant: Optional[bool] = None
    async_scheduling: Optional[bool] = None
    prefix_cache: Optional[bool] = None
    mixed_steps: Optional[bool] = None
    drafts: Optional[int] = None
    draft_schedule: Optional[str] = None
    confidence_temperature: Union[str, float, list[float], None] = None
    verify_mode: Optional[str] = None
    scheduling_policy: Optional[str] = None
    passed_max: Optional[int] = None
    step_ms_max: Optional[float] = None
    queue_max: Optional[int] = None
    first_token_ms_max: Optional[float] = None
    banned_token_ids: Union[str, list[int], None] = None
    top_k_max: Optional[int] = None
    grammar_timeout_s: Optional[float] = None
    grammar_cache_memory: Union[int, str, None] = None
    grammar_threads: Optional[int] = None
    log_interval_steps: Optional[int] = None
    log_level: Optional[str] = None

    def check(self) -> None:
        """Raises ValueError for what this version cannot do, warns of what has no effect."""
        for name in ("revision", "tokenizer_revision"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: {getattr(self, name)!r} is not supported in this version, models are local directories")
        for name, values in _ONE_MACHINE.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name}: {getattr(self, name)!r} is not supported in this version, expected one of {values}")
        defaults = {entry.name: entry.default for entry in fields(self)}
        for name, reason in _WITHOUT_EFFECT.items():
            if getattr(self, name) != defaults[name]:
                warnings.warn(f"{name} has no effect: {reason}", stacklevel=4)
        share = self.gpu_memory_utilization
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not share > 0:
            raise ValueError(f"gpu_memory_utilization: {share!r}, expected a number in (0, 1], or bytes")
        if share != defaults["gpu_memory_utilization"]:
            warnings.warn("gpu_memory_utilization has no effect: no cuda backend in this build, kv_memory bounds the cache", stacklevel=4)
        if not isinstance(self.served_model_name, str) or not self.served_model_name:
            raise ValueError(f"served_model_name: {self.served_model_name!r}, expected a name")

    def settings(self) -> list[tuple[str, str]]:
        """What the caller says, as names and values of the native half."""
        pairs = []
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name in _NOT_SETTINGS or value is None or isinstance(value, _Default):
                continue
            pairs.append((_SETTING_NAMES.get(entry.name, entry.name), _text_of(entry.name, value)))
        return pairs

    def defaults(self) -> list[tuple[str, str]]:
        """What holds where neither the caller nor the environment says anything."""
        if self.disable_log_stats:
            return [("log-level", "warning")]
        return [("log-level", "info"), ("log-interval-steps", "100")]


def _text_of(name: str, value: Any) -> str:
    if _SETTING_NAMES.get(name, name) in _SWITCHES:
        if value not in (True, False):
            raise ValueError(f"{name}: {value!r}, expected True or False")
        return "true" if value else "false"
    if isinstance(value, bool):
        raise ValueError(f"{name}: {value!r}, expected another value than a bool")
    if name == "seed":
        return str(int(value) & _SEED_MASK)
    if isinstance(value, (list, tuple)):
        return ",".join(_text_of(name, one) for one in value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return repr(value) if isinstance(value, float) else str(value)


def open_session(arguments: EngineArgs) -> _deepinfer.Session:
    arguments.check()
    session = _deepinfer.Session(arguments.settings(), arguments.defaults())
    for warning in session.warnings:
        warnings.warn(warning, RuntimeWarning, stacklevel=4)
    return session
