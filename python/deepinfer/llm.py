"""Offline generation: many prompts in, as many results out, in the same order; or one record a token as they come."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

from . import _deepinfer
from .engine_args import EngineArgs, open_session
from .outputs import GeneratedText, RequestOutput
from .requests import Record, Recorder, error_of, images_of, make_request
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer

Prompts = Union[str, Sequence[str], None]
Params = Union[SamplingParams, Sequence[SamplingParams], None]
Media = Union[dict, Sequence[Optional[dict]], None]


class LLM:
    """A model in this process.

    model: directory with config.json, *.safetensors and tokenizer.json. decode_sequence: generate() gives texts; False: one
    list of RequestOutput for each prompt. Other arguments: those of EngineArgs.

    Requests are numbered from 0 in the order in which they are handed over; abort() takes these numbers. Methods may be called
    from several threads: generate() calls wait for each other, streams share the steps.
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
        gpu_memory_utilization: Union[float, int] = 0.9,
        decode_sequence: bool = True,
        **engine_arguments: Any,
    ) -> None:
        for name in engine_arguments:
            if name not in EngineArgs.__dataclass_fields__:
                raise TypeError(f"LLM has no argument {name!r}")
        arguments = EngineArgs(
            model=model, tokenizer=tokenizer, trust_remote_code=trust_remote_code, expert_parallel_size=expert_parallel_size,
            revision=revision, tokenizer_revision=tokenizer_revision, seed=seed, gpu_memory_utilization=gpu_memory_utilization,
            **{"disable_log_stats": True, "stop_preempted_request": False, **engine_arguments},
        )
        self._decode_sequence = decode_sequence
        self._session = open_session(arguments)
        self._recorder = Recorder(self._session)
        # A stream that nobody holds any more aborts its requests.
        self._streams: weakref.WeakValueDictionary[int, RequestStream] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()  # guards _streams and what waits in them; held while a stream steps

    def generate(
        self,
        prompts: Prompts = None,
        sampling_params: Params = None,
        prompt_token_ids: Optional[Sequence[Sequence[int]]] = None,
        use_tqdm: bool = True,
        multi_modal_data: Media = None,
    ) -> Union[list[GeneratedText], list[list[RequestOutput]]]:
        """Results have the length and the order of the input. A prompt that cannot run has an error; the others run."""
        items = _items_of(prompts, sampling_params, prompt_token_ids, multi_modal_data)
        if not self._decode_sequence:
            return self._generate_records(items, use_tqdm)
        requests = [item.request() for item in items]
        with _ProgressBar(len(requests), use_tqdm) as bar:

            def on_event(index: int, sample: int, token_id: Optional[int], logprob: Optional[float], text: str, is_finished: bool) -> None:
                bar.count(token_id is not None, is_finished and sample == 0)

            results = self._session.generate(requests, on_event)
        return [self._text_of(result, item) for result, item in zip(results, items)]

    def stream(
        self,
        prompts: Prompts = None,
        sampling_params: Params = None,
        prompt_token_ids: Optional[Sequence[Sequence[int]]] = None,
        multi_modal_data: Media = None,
    ) -> "RequestStream":
        """Records of all prompts as they come, one a token; prompt_index says of which prompt, request_id what abort() takes.

        Closing the stream, or leaving its with-block, aborts what has not ended.
        """
        return RequestStream(self, _items_of(prompts, sampling_params, prompt_token_ids, multi_modal_data))

    def abort(self, request_id: Union[int, Iterable[int]]) -> None:
        """Ends requests in whatever state they are; their last record says abort. Unknown and ended ones are ignored."""
        for number in [request_id] if isinstance(request_id, int) else request_id:
            self._session.abort(int(number))

    def next_request_id(self) -> int:
        """The number of the request that is handed over next."""
        return self._session.next_id()

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._session)

    def stats(self) -> dict[str, Any]:
        """What the engine has done since it was made."""
        return self._session.stats()

    def close(self) -> None:
        """Frees the model. Further calls raise ValueError."""
        self._session.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _generate_records(self, items: list["_Item"], use_tqdm: bool) -> list[list[RequestOutput]]:
        records: list[list[RequestOutput]] = [[] for _ in items]
        with _ProgressBar(len(items), use_tqdm) as bar, RequestStream(self, items) as stream:
            for record in stream:
                records[record.prompt_index].append(record)
                bar.count(record.token_id >= 0, record.finished and record.sample_index == 0)
        return records

    def _text_of(self, result: _deepinfer.Result, item: "_Item") -> GeneratedText:
        first = self._one_text(result, item)
        first.samples += [self._one_text(other, item) for other in result.other_samples]
        return first

    def _one_text(self, result: _deepinfer.Result, item: "_Item") -> GeneratedText:
        error = error_of(result.error)
        reason = self._recorder.reason(result.finish_reason, error, len(result.prompt_token_ids), bool(item.media),
                                       item.params.so_args is not None)
        return GeneratedText(
            "" if error is not None else result.text,
            error=error,
            finish_reason=reason,
            token_ids=result.token_ids,
            logprobs=result.logprobs if item.params.logprobs else [],
            top_logprobs=result.top_logprobs,
            prompt_logprobs=result.prompt_logprobs,
            prompt_token_ids=result.prompt_token_ids,
            cached_tokens=result.usage.cached_tokens,
        )


class RequestStream:
    """An iterator of RequestOutput over requests of one LLM."""

    def __init__(self, llm: LLM, items: list["_Item"]) -> None:
        self._llm = llm
        self._ready: deque[RequestOutput] = deque()
        self._open: dict[int, Record] = {}
        self.request_ids: list[int] = []
        with llm._lock:
            for index, item in enumerate(items):
                self._submit(index, item)

    def __iter__(self) -> "RequestStream":
        return self

    def __next__(self) -> RequestOutput:
        while True:
            with self._llm._lock:
                if self._ready:
                    return self._ready.popleft()
                if not self._open:
                    raise StopIteration
                for output in self._llm._session.step():
                    owner = self._llm._streams.get(output.request_id)
                    if owner is not None:
                        owner._take(output)

    def close(self) -> None:
        """Aborts what has not ended. No record comes any more."""
        with self._llm._lock:
            self._ready.clear()
            for number in self._open:
                self._llm._streams.pop(number, None)
                try:
                    self._llm._session.abort(number)
                except ValueError:
                    pass  # the model is closed, and with it every request
            self._open.clear()

    def __del__(self) -> None:
        # Without the lock: the collector may run inside any call.
        for number in list(getattr(self, "_open", ())):
            try:
                self._llm._session.abort(number)
            except ValueError:
                return  # the model is closed

    def __enter__(self) -> "RequestStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, index: int, item: "_Item") -> None:
        request = item.request()
        # The reference gives every record its log-probability, asked for or not.
        sampling = request.sampling
        sampling.logprobs = True
        request.sampling = sampling
        submitted = self._llm._session.submit(request)
        record = Record(request_id=submitted.id, prompt_index=index, prompt_len=len(submitted.prompt_token_ids),
                        has_images=bool(item.media), has_grammar=item.params.so_args is not None, queue_ms_before=0.0,
                        open_samples=item.params.n, token_counts=[0] * item.params.n)
        self.request_ids.append(submitted.id)
        error = error_of(submitted.error)
        if error is not None:
            self._ready.append(self._llm._recorder.failed(record, error))
            return
        self._open[submitted.id] = record
        self._llm._streams[submitted.id] = self

    def _take(self, output: _deepinfer.Output) -> None:
        record = self._open[output.request_id]
        self._ready.extend(self._llm._recorder.records(record, output))
        if record.open_samples == 0:
            del self._open[output.request_id]
            self._llm._streams.pop(output.request_id, None)


class _Item:
    """One prompt of a call."""

    def __init__(self, value: Any, params: SamplingParams, media: Optional[dict]) -> None:
        self.value = value
        self.params = params
        self.media = media

    def request(self) -> _deepinfer.Request:
        return make_request(self.value, self.params, images_of(self.media))


def _per_prompt(name: str, value: Any, count: int, is_one: bool) -> list:
    """One value for all prompts, or a list with one for each."""
    if value is None or is_one:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise ValueError(f"{name}: {len(values)} values for {count} prompts, expected one for each")
    return values


def _items_of(prompts: Any, sampling_params: Any, prompt_token_ids: Any, multi_modal_data: Any) -> list[_Item]:
    if (prompts is None) == (prompt_token_ids is None):
        raise ValueError("expected either prompts or prompt_token_ids")
    if prompts is not None:
        inputs = [prompts] if isinstance(prompts, str) else list(prompts)
    else:
        inputs = list(prompt_token_ids)
    params = _per_prompt("sampling_params", sampling_params, len(inputs), isinstance(sampling_params, SamplingParams))
    media = _per_prompt("multi_modal_data", multi_modal_data, len(inputs), isinstance(multi_modal_data, dict))
    return [_Item(value, param or SamplingParams(), data) for value, param, data in zip(inputs, params, media)]


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
