"""Inference engine for DeepSeek-V4.1 models.

    from deepinfer import LLM, SamplingParams

    llm = LLM("models/v41-mini")
    print(llm.generate("Once upon a time", SamplingParams(temperature=0.7, max_tokens=60))[0])
"""

from __future__ import annotations

import importlib.metadata as _metadata
import warnings as _warnings

from . import recipe
from ._deepinfer import version as __version__
from .engine_args import EngineArgs
from .llm import LLM, RequestStream
from .llm_engine import LLMEngine, RequestHandle
from .outputs import GeneratedText, RequestError, RequestOutput
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer

__all__ = [
    "LLM",
    "EngineArgs",
    "GeneratedText",
    "LLMEngine",
    "RequestError",
    "RequestHandle",
    "RequestOutput",
    "RequestStream",
    "SamplingParams",
    "Tokenizer",
    "__version__",
    "recipe",
]


def _warn_of_reference_package() -> None:
    # The wheel deepinfer-cpp and the reference's wheel deepinfer install the same import name.
    try:
        reference = _metadata.version("deepinfer")
    except _metadata.PackageNotFoundError:
        return
    _warnings.warn(
        f"the reference package deepinfer {reference} is installed beside deepinfer-cpp {__version__}; both own the import "
        "name deepinfer and this is deepinfer-cpp: uninstall one of them",
        RuntimeWarning,
        stacklevel=3,
    )


_warn_of_reference_package()
