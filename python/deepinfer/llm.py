"""Offline generation: many prompts in, as many results out, in the same order."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _deepinfer
from .outputs import GeneratedText, RequestOutput
from .sampling_params import SamplingParams

# Arguments that go to the engine as they are, with their types.
_ENGINE_ARGUMENTS: dict[str, type] = {
    "load_format": str,
    "backend": str,
    "activations": str,
    "kv_quant": str,
    "act_quant": str,
    "log_level": str,
    "threads": int,
    "max_model_len": int,
    "max_num_seqs": int,
    "max_num_batched_tokens": int,
    "kv_memory": int,
    "weights_memory": int,
}
_CHOICES = {
    "load_format": ("auto", "dummy"),
    "backend": ("auto", "cpu", "ref"),
    "activations": ("f32", "bf16"),
    "kv_quant": ("reference", "off"),
    "act_quant": ("none", "fp8"),
    "log_level": ("debug", "info", "warning", "error"),
}
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
# Accepted for programs written for the reference: they have no effect here.
_WITHOUT_EFFECT = {
    "served_model_name",
    "disable_log_stats",
    "stop_preempted_request",
    "chunked_prefill",
    "offline_inference",
    "ignore_len",
    "lookahead_tokens",
}


def _check_accelerator() -> None:
    name = os.environ.get("DEEPINFER_ACCELERATOR", "auto")
    if name not in ("", "auto", "cpu"):
        raise ValueError(f"DEEPINFER_ACCELERATOR: {name!r} is not supported by this build, expected auto or cpu")


def _engine_options(model: str, arguments: dict[str, Any]) -> _deepinfer.Options:
    options = _deepinfer.Options()
    options.model = os.fspath(model)
    options.log_level = "warning"
    for name, value in arguments.items():
        if name in _ONE_MACHINE:
            if value not in _ONE_MACHINE[name]:
                raise ValueError(f"{name}: {value!r} is not supported in this version, expected one of {_ONE_MACHINE[name]}")
        elif name in _ENGINE_ARGUMENTS:
            if value is None:
                continue
            if name in _CHOICES and value not in _CHOICES[name]:
                raise ValueError(f"{name}: {value!r}, expected one of {_CHOICES[name]}")
            if _ENGINE_ARGUMENTS[name] is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise ValueError(f"{name}: {value!r}, expected an integer from 0")
            setattr(options, name, value)
        elif name not in _WITHOUT_EFFECT:
            raise TypeError(f"LLM has no argument {name!r}")
    return options


class Tokenizer:
    """The model's tokenizer. Special tokens that a text spells become those tokens."""

    def __init__(self, session: _deepinfer.Session) -> None:
        self._session = session

    def encode(self, text: str) -> list[int]:
        return self._session.encode(text)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return self._session.decode([int(i) for i in ids], skip_special_tokens)

    @property
    def vocab_size(self) -> int:
        return self._session.vocab_size

    @property
    def bos_token_id(self) -> Optional[int]:
        return self._session.bos_token_id

    @property
    def eos_token_id(self) -> Optional[int]:
        return self._session.eos_token_id

    @property
    def pad_token_id(self) -> Optional[int]:
        return self._session.pad_token_id


class LLM:
    """A model in this process.

    model: directory with config.json, *.safetensors and tokenizer.json. decode_sequence: generate() gives texts; False: one
    list of RequestOutput for each prompt. Other arguments: backend, threads, max_model_len, max_num_seqs,
    max_num_batched_tokens, kv_memory, weights_memory, load_format, activations, kv_quant, act_quant, log_level.
    """

    def __init__(
        self,
        model: str,
        tokenizer: Optional[str] = None,
        trust_remote_code: bool = False,
        expert_parallel_size: int = 1,
        revision: Optional[str] = None,
        tokenizer_revision: Optional[str] = None,
        seed: int = 0,
        gpu_memory_utilization: float = 0.9,
        decode_sequence: bool = True,
        **engine_arguments: Any,
    ) -> None:
        _check_accelerator()
        for name, value in (("revision", revision), ("tokenizer_revision", tokenizer_revision)):
            if value is not None:
                raise ValueError(f"{name}: {value!r} is not supported in this version, models are local directories")
        if trust_remote_code:
            warnings.warn("trust_remote_code has no effect: code of a model is never run", stacklevel=2)
        if not 0.0 < gpu_memory_utilization <= 1.0:
            raise ValueError(f"gpu_memory_utilization: {gpu_memory_utilization!r}, expected a number in (0, 1]")
        options = _engine_options(model, {"expert_parallel_size": expert_parallel_size, **engine_arguments})
        if tokenizer is not None:
            options.tokenizer = os.fspath(tokenizer)
        options.seed = int(seed) & ((1 << 64) - 1)
        self._decode_sequence = decode_sequence
        self._session = _deepinfer.Session(options)

    def generate(
        self,
        prompts: Union[str, Sequence[str], None] = None,
        sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
        prompt_token_ids: Optional[Sequence[Sequence[int]]] = None,
        use_tqdm: bool = True,
        multi_modal_data: Union[dict, Sequence[Optional[dict]], None] = None,
    ) -> Union[list[GeneratedText], list[list[RequestOutput]]]:
        """Results have the length and the order of the input. A prompt that cannot run has an error; the others run."""
        requests = _make_requests(prompts, sampling_params, prompt_token_ids, multi_modal_data)
        records: list[list[RequestOutput]] = [[] for _ in requests]
        with _ProgressBar(len(requests), use_tqdm) as bar:

            def on_event(index: int, token_id: Optional[int], logprob: float, text: str, is_finished: bool) -> None:
                if token_id is not None and not self._decode_sequence:
                    number = len(records[index]) + 1
                    records[index].append(
                        RequestOutput(request_id=index, prompt_len=0, token_id=token_id, token_logprobs=logprob,
                                      num_output_tokens=number, text_delta=text)
                    )
                elif is_finished and not self._decode_sequence and records[index]:
                    records[index][-1].text_delta += text
                bar.count(token_id is not None, is_finished)

            outcomes = self._session.generate(requests, on_event)
        if self._decode_sequence:
            return [_text_of(outcome) for outcome in outcomes]
        return [self._finished(index, records[index], outcome) for index, outcome in enumerate(outcomes)]

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._session)

    def close(self) -> None:
        """Frees the model. Further calls raise ValueError."""
        self._session.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _finished(self, index: int, records: list[RequestOutput], outcome: _deepinfer.Outcome) -> list[RequestOutput]:
        if not records:  # an error, or an answer without tokens
            records = [RequestOutput(request_id=index, prompt_len=0)]
        rows = self._session.max_num_batched_tokens
        for record in records:
            record.prompt_len = len(outcome.prompt_token_ids)
            record.max_num_batched_tokens = rows
            record.cached_tokens = outcome.cached_tokens
            record.queue_ms = outcome.queue_ms
            record.prefill_ms = outcome.prefill_ms
        last = records[-1]
        last.finished = True
        last.finish_reason = outcome.finish_reason
        last.error = outcome.error
        return records


def _text_of(outcome: _deepinfer.Outcome) -> GeneratedText:
    return GeneratedText(
        "" if outcome.error is not None else outcome.text,
        error=outcome.error,
        finish_reason=outcome.finish_reason,
        token_ids=outcome.token_ids,
        logprobs=outcome.logprobs,
        prompt_token_ids=outcome.prompt_token_ids,
    )


def _per_prompt(name: str, value: Any, count: int, is_one: bool) -> list:
    """One value for all prompts, or a list with one for each."""
    if value is None or is_one:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise ValueError(f"{name}: {len(values)} values for {count} prompts, expected one for each")
    return values


def _images_of(data: Optional[dict]) -> list[bytes]:
    if not data:
        return []
    unknown = set(data) - {"image_bytes", "image_sizes"}
    if unknown:
        raise ValueError(f"multi_modal_data: unknown key {sorted(unknown)[0]!r}, expected image_bytes and image_sizes")
    images = [bytes(image) for image in data.get("image_bytes") or []]
    sizes = list(data.get("image_sizes") or [])
    if sizes and len(sizes) != len(images):
        raise ValueError(f"multi_modal_data: {len(sizes)} image_sizes for {len(images)} image_bytes, expected one for each")
    return images


def _make_requests(prompts: Any, sampling_params: Any, prompt_token_ids: Any, multi_modal_data: Any) -> list[_deepinfer.Request]:
    if (prompts is None) == (prompt_token_ids is None):
        raise ValueError("expected either prompts or prompt_token_ids")
    if prompts is not None:
        inputs = [prompts] if isinstance(prompts, str) else list(prompts)
    else:
        inputs = list(prompt_token_ids)
    params = _per_prompt("sampling_params", sampling_params, len(inputs), isinstance(sampling_params, SamplingParams))
    media = _per_prompt("multi_modal_data", multi_modal_data, len(inputs), isinstance(multi_modal_data, dict))
    return [_make_request(value, param or SamplingParams(), _images_of(data)) for value, param, data in zip(inputs, params, media)]


def _make_request(value: Any, params: SamplingParams, images: list[bytes]) -> _deepinfer.Request:
    request = _deepinfer.Request()
    if isinstance(value, str):
        request.text = value
    else:
        # What no id can be is given on as -1, so that this prompt has the error and the others run.
        request.token_ids = [int(i) if -1 <= int(i) < 1 << 31 else -1 for i in value]
    request.images = images
    request.temperature = params.temperature
    request.top_p = params.top_p
    request.top_k = params.top_k
    request.seed = params.seq_seed
    request.max_tokens = params.max_tokens
    request.min_tokens = params.first_n_token_no_eos
    request.ignore_eos = params.ignore_eos
    request.stop_token_ids = params.stop_token_ids
    request.golden_token_ids = params.golden_token_ids
    request.stop = params.stop
    return request


class _ProgressBar:
    """tqdm's bar where it is installed and wanted, else nothing."""

    def __init__(self, total: int, is_wanted: bool) -> None:
        self._bar: Any = None
        self._tokens = 0
        if is_wanted and total > 0:
            try:
                from tqdm import tqdm  # type: ignore[import-untyped]
            except ImportError:
                return
            self._bar = tqdm(total=total, desc="prompts", file=sys.stderr, dynamic_ncols=True)

    def count(self, is_token: bool, is_finished: bool) -> None:
        self._tokens += is_token
        if self._bar is not None and is_finished:
            seconds = self._bar.format_dict["elapsed"] or 1e-9
            self._bar.set_postfix_str(f"{self._tokens / seconds:.1f} tokens/s", refresh=False)
            self._bar.update(1)

    def __enter__(self) -> "_ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
