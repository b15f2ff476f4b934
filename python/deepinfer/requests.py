"""From what a caller says to what the native half takes, and its answers to records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

from . import _deepinfer
from .finish_reasons import FinishReasons
from .outputs import RequestError, RequestOutput
from .sampling_params import SamplingParams
from .structured_output import parse_so_args


def _image_bytes(number: int, image: Any) -> bytes:
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, (str, os.PathLike)):
        path = os.fspath(image)
        if "://" in str(path):
            raise ValueError(f"multi_modal_data: image_bytes[{number}] is an address, expected bytes or the path of a file; nothing is fetched")
        with open(path, "rb") as file:
            return file.read()
    if hasattr(image, "__array_interface__"):
        return _png_of(number, image)
    raise TypeError(f"multi_modal_data: image_bytes[{number}] is a {type(image).__name__}, expected bytes, a path or an array of pixels")


def _png_of(number: int, pixels: Any) -> bytes:
    """A PNG of an array of pixels, uint8 [height, width, 3]."""
    import struct
    import zlib

    shape, kind = tuple(pixels.shape), pixels.__array_interface__["typestr"]
    if len(shape) != 3 or shape[2] != 3 or 0 in shape or kind not in ("|u1", "<u1", ">u1"):
        raise ValueError(f"multi_modal_data: image_bytes[{number}] has the shape {shape} and type {kind}, expected uint8 [height, width, 3]")
    height, width = shape[:2]
    lines = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines, 1)) + part(b"IEND", b"")


def images_of(data: Optional[dict]) -> list[bytes]:
    """The encoded images of multi_modal_data: bytes, paths of files, or arrays of pixels."""
    if not data:
        return []
    unknown = set(data) - {"image_bytes", "image_sizes"}
    if unknown:
        raise ValueError(f"multi_modal_data: unknown key {sorted(unknown)[0]!r}, expected image_bytes and image_sizes")
    images = [_image_bytes(i, image) for i, image in enumerate(data.get("image_bytes") or [])]
    sizes = list(data.get("image_sizes") or [])
    if sizes and len(sizes) != len(images):
        raise ValueError(f"multi_modal_data: {len(sizes)} image_sizes for {len(images)} image_bytes, expected one for each")
    return images


def make_request(value: Any, params: SamplingParams, images: Iterable[bytes]) -> _deepinfer.Request:
    """value: a text, or token ids."""
    request = _deepinfer.Request()
    if isinstance(value, str):
        request.set_text(value)
    else:
        # What no id can be is given on as -1, so that this prompt has the error and the others run.
        request.set_token_ids([int(i) if -1 <= int(i) < 1 << 31 else -1 for i in value])
    for image in images:
        request.add_image(image)
    request.sampling = native_sampling(params)
    request.stop = params.stop
    request.priority = params.priority
    request.deadline_ms = params.deadline_ms
    request.cache_salt = params.cache_salt or ""
    if params.so_args is not None:
        constraint = parse_so_args(params.so_args)
        request.set_grammar(constraint.kind, constraint.text, constraint.choices, constraint.trigger_token_ids,
                            constraint.bound_token_id)
    return request


def native_sampling(params: SamplingParams) -> _deepinfer.Sampling:
    sampling = _deepinfer.Sampling()
    sampling.temperature = params.temperature
    sampling.top_p = params.top_p
    sampling.top_k = params.top_k
    sampling.min_p = params.min_p
    sampling.repetition_penalty = params.repetition_penalty
    sampling.presence_penalty = params.presence_penalty
    sampling.frequency_penalty = params.frequency_penalty
    sampling.logit_bias = sorted(params.logit_bias.items())
    sampling.allowed_token_ids = params.allowed_token_ids
    sampling.seed = params.seq_seed
    sampling.max_tokens = params.max_tokens
    sampling.min_tokens = params.first_n_token_no_eos
    sampling.ignore_eos = params.ignore_eos
    sampling.stop_token_ids = params.stop_token_ids
    sampling.golden_token_ids = params.golden_token_ids
    sampling.logprobs = params.logprobs
    sampling.top_logprobs = params.top_logprobs
    sampling.has_processed_logprobs = params.logprobs_mode == "processed"
    sampling.prompt_logprobs = params.prompt_logprobs
    sampling.n = params.n
    return sampling


def error_of(pair: Optional[tuple[str, str]]) -> Optional[RequestError]:
    return None if pair is None else RequestError(*pair)


@dataclass
class Record:
    """What the records of one request have in common."""

    request_id: Any
    prompt_index: int
    prompt_len: int
    has_images: bool
    has_grammar: bool
    queue_ms_before: float  # between the arrival that the caller names and the engine's
    open_samples: int
    token_counts: list[int]  # of each sample

    def blank(self, sample_index: int, rows: int) -> RequestOutput:
        return RequestOutput(request_id=self.request_id, prompt_len=self.prompt_len, max_num_batched_tokens=rows,
                             sample_index=sample_index, prompt_index=self.prompt_index,
                             num_output_tokens=self.token_counts[sample_index])


class Recorder:
    """Makes records, one for each token."""

    def __init__(self, session: _deepinfer.Session) -> None:
        self._reasons = FinishReasons(session.max_model_len, session.kv_block_count)
        self._rows = session.max_num_batched_tokens

    def records(self, record: Record, output: _deepinfer.Output) -> list[RequestOutput]:
        index = output.sample_index
        records = []
        for token in output.tokens:
            record.token_counts[index] += 1
            one = record.blank(index, self._rows)
            one.token_id = token.token_id
            one.token_logprobs = token.logprob if token.logprob is not None else 0.0
            one.top_token_ids = [pair[0] for pair in token.top_logprobs]
            one.top_logprobs = [pair[1] for pair in token.top_logprobs]
            one.text_delta = token.text
            records.append(one)
        if not records and output.finish_reason:
            records.append(record.blank(index, self._rows))
        for one in records:
            one.cached_tokens = output.usage.cached_tokens
            one.queue_ms = output.timing.queue_ms + record.queue_ms_before
            one.prefill_ms = output.timing.prefill_ms
        if records:
            records[0].prompt_logprobs = output.prompt_logprobs
            last = records[-1]
            last.text_delta += output.rest
            last.draft_tok = output.draft_token_ids
            last.accept_tok = output.accepted_drafts
            if output.finish_reason:
                record.open_samples -= 1
                self._finish(record, last, output.finish_reason, error_of(output.error))
        return records

    def failed(self, record: Record, error: RequestError) -> RequestOutput:
        """The one record of a request that never came to the engine."""
        record.open_samples = 0
        one = record.blank(0, self._rows)
        self._finish(record, one, "error", error)
        return one

    def reason(self, reason: str, error: Optional[RequestError], prompt_len: int, has_images: bool, has_grammar: bool) -> str:
        return self._reasons.name(reason, error, prompt_len, has_images, has_grammar)

    def _finish(self, record: Record, last: RequestOutput, reason: str, error: Optional[RequestError]) -> None:
        last.finished = True
        last.error = error
        last.finish_reason = self.reason(reason, error, record.prompt_len, record.has_images, record.has_grammar)
