from collections.abc import Callable, Sequence

version: str

class Options:
    model: str
    tokenizer: str
    load_format: str
    backend: str
    activations: str
    kv_quant: str
    act_quant: str
    log_level: str
    threads: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_memory: int
    weights_memory: int
    seed: int
    def __init__(self) -> None: ...

class Request:
    text: str | None
    token_ids: Sequence[int]
    images: Sequence[bytes]
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    stop_token_ids: Sequence[int]
    golden_token_ids: Sequence[int]
    stop: Sequence[str]
    def __init__(self) -> None: ...

class Outcome:
    @property
    def prompt_token_ids(self) -> list[int]: ...
    @property
    def token_ids(self) -> list[int]: ...
    @property
    def logprobs(self) -> list[float]: ...
    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def error(self) -> str | None: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def queue_ms(self) -> float: ...
    @property
    def prefill_ms(self) -> float: ...
    @property
    def first_token_ms(self) -> float: ...
    @property
    def total_ms(self) -> float: ...

class Session:
    def __init__(self, options: Options) -> None: ...
    def generate(
        self,
        requests: Sequence[Request],
        on_event: Callable[[int, int | None, float, str, bool], None] | None = None,
    ) -> list[Outcome]: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str: ...
    def close(self) -> None: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_num_batched_tokens(self) -> int: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def bos_token_id(self) -> int | None: ...
    @property
    def eos_token_id(self) -> int | None: ...
    @property
    def pad_token_id(self) -> int | None: ...
