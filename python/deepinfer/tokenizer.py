"""The model's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from . import _deepinfer


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
