"""so_args of SamplingParams: what an answer must look like."""

from __future__ import annotations

import json
import numbers
from dataclasses import dataclass, field
from typing import Any, Optional

KINDS = ("json", "json_object", "regex", "ebnf", "choice", "structural_tag")
_KEYS = ("schema_type", "schema", "trigger_token_ids", "bound_token_id")
# Keys of the reference that it refuses too.
_REFUSED = ("serialized", "bound_token_ids")


@dataclass(frozen=True)
class StructuredOutput:
    """The constraint begins behind trigger_token_ids, or at once when there are none. After bound_token_id the trigger is
    forced."""

    kind: str
    text: str = ""
    choices: list[str] = field(default_factory=list)
    trigger_token_ids: list[int] = field(default_factory=list)
    bound_token_id: Optional[int] = None


def _token(name: str, value: Any) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not 0 <= int(value) < 1 << 31:
        raise ValueError(f"{name}: {value!r}, expected a token id")
    return int(value)


def parse_so_args(so_args: Any) -> StructuredOutput:
    """Keys: schema_type, one of KINDS; schema, a text, for json and structural_tag also an object, for choice a list of
    texts; trigger_token_ids; bound_token_id, which needs a trigger."""
    if not isinstance(so_args, dict):
        raise ValueError(f"so_args: {so_args!r}, expected a dict with {', '.join(_KEYS)}")
    for key, value in so_args.items():
        if key in _REFUSED and not value:
            continue
        if key not in _KEYS:
            raise ValueError(f"so_args[{key!r}]: unknown key, expected one of {', '.join(_KEYS)}")
    kind = so_args.get("schema_type")
    if kind not in KINDS:
        raise ValueError(f"so_args['schema_type']: {kind!r}, expected one of {', '.join(KINDS)}")
    text, choices = _schema(kind, so_args.get("schema"))
    triggers = so_args.get("trigger_token_ids")
    if triggers is not None and not isinstance(triggers, (list, tuple)):
        raise ValueError(f"so_args['trigger_token_ids']: {triggers!r}, expected a list of token ids")
    trigger_ids = [_token(f"so_args['trigger_token_ids'][{i}]", value) for i, value in enumerate(triggers or [])]
    bound = so_args.get("bound_token_id")
    if bound is not None:
        bound = _token("so_args['bound_token_id']", bound)
        if not trigger_ids:
            raise ValueError(f"so_args['bound_token_id']: {bound} without trigger_token_ids, expected both")
    return StructuredOutput(kind, text, choices, trigger_ids, bound)


def _schema(kind: str, schema: Any) -> tuple[str, list[str]]:
    if kind == "json_object":
        if schema is not None:
            raise ValueError(f"so_args['schema']: {schema!r} with schema_type json_object, expected none")
        return "", []
    if kind == "choice":
        if not isinstance(schema, (list, tuple)) or not schema or not all(isinstance(item, str) for item in schema):
            raise ValueError(f"so_args['schema']: {schema!r}, expected a list of at least one text")
        return "", list(schema)
    if kind in ("json", "structural_tag") and isinstance(schema, (dict, bool)):
        return json.dumps(schema), []
    if not isinstance(schema, str):
        wanted = "a text or an object" if kind in ("json", "structural_tag") else "a text"
        raise ValueError(f"so_args['schema']: {schema!r}, expected {wanted}")
    return schema, []
