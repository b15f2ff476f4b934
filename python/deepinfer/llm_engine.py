"""The engine step by step, for callers with a loop of their own."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _deepinfer
from .engine_args import EngineArgs, open_session
from .outputs import RequestError, RequestOutput
from .requests import Record, Recorder, error_of, images_of, make_request
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer

_ARRIVAL_SECONDS_MAX = 86_400.0


@dataclass
class RequestHandle:
    """A request of an LLMEngine, from add_request() to its last record."""

    request_id: Hashable
    user_id: Hashable
    prompt_token_ids: list[int]
    sampling_params: SamplingParams
    extra: Any = None
    error: Optional[RequestError] = None
    finish_reason: str = ""
    finished: bool = False
    enqueued: bool = False
    num_output_tokens: int = 0
    _request: Optional[_deepinfer.Request] = field(default=None, repr=False)
    _record: Optional[Record] = field(default=None, repr=False)
    _number: int = field(default=-1, repr=False)

    def __len__(self) -> int:
        """Tokens of the prompt and of the answer so far."""
        return len(self.prompt_token_ids) + self.num_output_tokens

    def __bool__(self) -> bool:
        return True  # a handle, however long


class LLMEngine:
    """step() runs one batch and returns a RequestOutput for each token that came out of it.

    Every request that add_request() took ends with exactly one record that is finished (one for each of its samples). The records
    own their values.
    """

    def __init__(self, engine_args: EngineArgs) -> None:
        self.engine_args = engine_args
        self._session = open_session(engine_args)
        self._recorder = Recorder(self._session)
        self._handles: dict[Hashable, RequestHandle] = {}  # unfinished requests
        self._by_number: dict[int, RequestHandle] = {}  # those of them that are in the engine
        self._failed: list[RequestOutput] = []  # for the next step

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> "LLMEngine":
        return cls(engine_args)

    def add_request(
        self,
        user_id: Hashable,
        request_id: Hashable,
        sampling_params: Optional[SamplingParams],
        prompt_token_ids: Sequence[int],
        multi_modal_data: Optional[dict] = None,
        arrival_time: Optional[float] = None,
        extra: Any = None,
        enqueue: bool = True,
        chunk_checkpoints: Optional[Iterable[int]] = None,
    ) -> RequestHandle:
        """Never None. A request that cannot run has handle.error and a finished record in the next step; one whose request_id is in use
        has handle.error only, as the records of that id belong to the other.

        arrival_time: seconds since the epoch, where the time in the queue and the deadline begin. extra: kept in the handle.
        enqueue False: the request waits for enqueue_request().
        """
        params = sampling_params if sampling_params is not None else SamplingParams()
        # As the native half takes them: what no id can be becomes -1 and is refused there by its place.
        ids = [int(i) if -1 <= int(i) < 1 << 31 else -1 for i in prompt_token_ids]
        handle = RequestHandle(request_id=request_id, user_id=user_id, prompt_token_ids=ids, sampling_params=params, extra=extra)
        if request_id in self._handles:
            handle.error = RequestError("invalid_argument", f"request_id {request_id!r} is in use, expected one of no unfinished request")
            handle.finished = True
            return handle
        late_ms = _milliseconds_since(arrival_time)
        handle._record = Record(request_id=request_id, prompt_index=0, prompt_len=len(ids), has_images=bool(multi_modal_data),
                                has_grammar=params.so_args is not None, queue_ms_before=late_ms, open_samples=params.n,
                                token_counts=[0] * params.n)
        self._handles[request_id] = handle
        try:
            if chunk_checkpoints is not None and list(chunk_checkpoints):
                raise ValueError("chunk_checkpoints are not supported, expected None: states are kept where the prefix cache wants them")
            request = make_request(ids, params, images_of(multi_modal_data))
        except (ValueError, OSError) as error:
            self._fail(handle, RequestError("invalid_argument", str(error)))
            return handle
        request.user = str(user_id)
        sampling = request.sampling
        sampling.logprobs = True  # as in the reference, asked for or not
        request.sampling = sampling
        if request.deadline_ms is not None:
            request.deadline_ms = max(request.deadline_ms - late_ms, 1e-3)
        handle._request = request
        if enqueue:
            self.enqueue_request(request_id)
        return handle

    def enqueue_request(self, request_id: Hashable) -> None:
        """Hands a request over that was added with enqueue=False. Once is enough."""
        handle = self._handles.get(request_id)
        if handle is None:
            raise ValueError(f"request_id {request_id!r} is unknown, expected one of an unfinished request")
        request, handle._request = handle._request, None
        if request is None:
            return
        submitted = self._session.submit(request)
        error = error_of(submitted.error)
        if error is not None:
            self._fail(handle, error)
            return
        assert handle._record is not None
        handle.prompt_token_ids = submitted.prompt_token_ids
        handle._record.prompt_len = len(submitted.prompt_token_ids)
        handle._number = submitted.id
        handle.enqueued = True
        self._by_number[submitted.id] = handle

    def abort_request(self, request_id: Union[Hashable, Iterable[Hashable]]) -> tuple[int, int]:
        """Ends requests in whatever state they are. How many were unfinished, and the sum of their lengths. Their last records
        come with the next steps and say abort; unknown and ended requests are ignored."""
        is_one = isinstance(request_id, (str, bytes)) or (isinstance(request_id, tuple) and request_id in self._handles)
        is_many = isinstance(request_id, Iterable) and not is_one
        ids: list[Hashable] = list(request_id) if is_many else [request_id]  # type: ignore[arg-type, list-item]
        count = tokens = 0
        for one in dict.fromkeys(ids):
            handle = self._handles.get(one)
            if handle is None or handle.finished:
                continue
            count += 1
            tokens += len(handle)
            if handle.enqueued:
                self._session.abort(handle._number)
            else:
                self._end_unseen(handle)
        return count, tokens

    def step(self) -> list[RequestOutput]:
        """Runs one batch. What it returns may be nothing, also while requests are unfinished."""
        records, self._failed = self._failed, []
        if self._session.has_unfinished():
            records += self._records_of(self._session.step())
        return self._told(records)

    def flush_inflight_reqs(self) -> list[RequestOutput]:
        """Ends the step that runs ahead and returns its records: afterwards nothing runs until the next step()."""
        records, self._failed = self._failed, []
        return self._told(records + self._records_of(self._session.flush()))

    def has_unfinished_requests(self) -> bool:
        """Of the whole data-parallel group, which is this process."""
        return self.has_unfinished_requests_local()

    def has_unfinished_requests_local(self) -> bool:
        return bool(self._handles)

    def get_num_unfinished_requests(self) -> int:
        return len(self._handles)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._session)

    def stats(self) -> dict[str, Any]:
        """What the engine has done since it was made."""
        return self._session.stats()

    def close(self) -> None:
        """Frees the model; unfinished requests end without a record. Further calls raise ValueError."""
        self._session.close()
        self._handles.clear()
        self._by_number.clear()

    def __enter__(self) -> "LLMEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _records_of(self, outputs: list[_deepinfer.Output]) -> list[RequestOutput]:
        records = []
        for output in outputs:
            handle = self._by_number[output.request_id]
            assert handle._record is not None
            records += self._recorder.records(handle._record, output)
            handle.num_output_tokens = sum(handle._record.token_counts)
            if handle._record.open_samples == 0:
                del self._by_number[output.request_id]
        return records

    def _told(self, records: list[RequestOutput]) -> list[RequestOutput]:
        """The caller is about to see these records: requests that end with them are over."""
        for record in records:
            handle = self._handles.get(record.request_id) if record.finished else None
            if handle is not None and handle._record is not None and handle._record.open_samples == 0:
                del self._handles[record.request_id]
                handle.finished = True
                handle.finish_reason = record.finish_reason
                handle.error = record.error
        return records

    def _fail(self, handle: RequestHandle, error: RequestError) -> None:
        assert handle._record is not None
        handle.error = error
        self._failed.append(self._recorder.failed(handle._record, error))

    def _end_unseen(self, handle: RequestHandle) -> None:
        """The end of a request that the engine never saw."""
        assert handle._record is not None
        if handle._record.open_samples == 0:
            return  # its record waits already
        handle._request = None
        handle._record.open_samples = 0
        record = handle._record.blank(0, self._session.max_num_batched_tokens)
        record.finished = True
        record.finish_reason = "abort"
        self._failed.append(record)


def _milliseconds_since(arrival_time: Optional[float]) -> float:
    if arrival_time is None:
        return 0.0
    seconds = time.time() - arrival_time
    if not -_ARRIVAL_SECONDS_MAX < seconds < _ARRIVAL_SECONDS_MAX:
        raise ValueError(f"arrival_time: {arrival_time!r}, expected seconds since the epoch, of the last day")
    return max(seconds, 0.0) * 1000.0
