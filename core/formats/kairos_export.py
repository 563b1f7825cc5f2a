"""KAIROS's ``export`` call: bytes in → what is asked for, content → the bytes of the answer.

Of its formats those to train on are exported here; skills and documents are KAIROS's own, and are refused.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from core.errors import InvalidEvaluation
from core.formats.kairos import ROOT, value_of
from core.records.layer import LayerUri, parse_uri
from core.records.limits import shown

EXPORTED: Final = ("trace_jsonl", "reward_jsonl", "sft_jsonl", "preference_jsonl")
MAX_ADAPTERS: Final = 256
_NEXT: Final = "Correct what is named and send it again; nothing was exported."
_ALLOWED: Final = {
    "uri": "must be kairos://layer/{uuid} (with ?execution_id={uuid} or without) or kairos://adapter/{uuid or name}",
    "adapters": "must be at most 256 names or URIs of adapters",
    "all_adapters": "must be true or false",
    "format": f"must be one of {', '.join(EXPORTED)}",
    "delivery": "must be inline_base64, or left out for plain text",
    "include_reward": "must be true or false",
}


class ExportCall(msgspec.Struct, frozen=True, kw_only=True):
    """An ``export`` call that asks for training rows; ``uri`` as it was sent, "" = none."""

    uri: str
    format: str
    include_reward: bool
    is_base64: bool
    layer: LayerUri | None
    adapters: tuple[str, ...]


def read_export(body: bytes) -> ExportCall:
    """The ``export`` call in a body of JSON. Raises `InvalidEvaluation` whose ``fields`` name all that is wrong.

    >>> read_export(b'{"all_adapters": true, "format": "sft_jsonl"}').include_reward
    True
    >>> read_export(b'{"all_adapters": true}')
    Traceback (most recent call last):
    core.errors.InvalidEvaluation: format must be one of trace_jsonl, reward_jsonl, sft_jsonl, preference_jsonl, got \
'skill_zip'. Correct what is named and send it again; nothing was exported.
    """
    value = value_of(body, "An export must be asked for by", _NEXT)
    if not isinstance(value, Mapping):
        raise InvalidEvaluation(
            f"An export must be asked for by an object, got {shown(value)}.", next_step=_NEXT, fields=(ROOT,)
        )
    request = {"format": "skill_zip", "include_reward": True, "all_adapters": False, "adapters": [], **value}
    wrong = [name for name in _ALLOWED if not _is_right(name, request)]
    if wrong:
        problems = ", ".join(f"{name} {_ALLOWED[name]}, got {shown(request.get(name))}" for name in wrong)
        raise InvalidEvaluation(f"{problems}.", next_step=_NEXT, fields=tuple(sorted(wrong)))
    return _call(request)


def _call(request: Mapping[str, object]) -> ExportCall:
    uri, names = str(request.get("uri", "")), request["adapters"]
    parsed = parse_uri(uri) if uri else None
    adapters = [str(name) for name in names] if isinstance(names, list) else []
    if parsed is not None and not isinstance(parsed, LayerUri):
        adapters.append(parsed.id)
    if parsed is None and not adapters and not request["all_adapters"]:
        raise InvalidEvaluation(
            "An export must name a layer or adapters, or ask for all adapters, got neither.",
            next_step=_NEXT,
            fields=("uri",),
        )
    return ExportCall(
        uri=uri,
        format=str(request["format"]),
        include_reward=bool(request["include_reward"]),
        is_base64="delivery" in request,
        layer=parsed if isinstance(parsed, LayerUri) else None,
        adapters=tuple(_named(name) for name in adapters),
    )


def _named(adapter: str) -> str:
    return adapter if adapter.lower().startswith("kairos:") else f"kairos://adapter/{adapter}"


def _is_right(name: str, request: Mapping[str, object]) -> bool:
    if name not in request:
        return True
    value = request[name]
    if name == "uri":
        return isinstance(value, str) and _is_exportable(value)
    if name == "adapters":
        return (
            isinstance(value, list)
            and len(value) <= MAX_ADAPTERS
            and all(isinstance(one, str) and one for one in value)
        )
    if name == "format":
        return isinstance(value, str) and value in EXPORTED
    if name == "delivery":
        return value == "inline_base64"
    return isinstance(value, bool)


def _is_exportable(uri: str) -> bool:
    try:
        parsed = parse_uri(uri)
    except InvalidEvaluation:
        return False
    return isinstance(parsed, LayerUri) or parsed.kind == "adapter"


class _Answer(msgspec.Struct, omit_defaults=True, gc=False):
    uri: str
    format: str
    content_type: str
    content: str
    item_count: int
    bundle_sha256: str
    content_encoding: str | msgspec.UnsetType = msgspec.UNSET


def export_output(call: ExportCall, content: bytes, n_items: int) -> bytes:
    """The answer: lines as a text, or in base64 where that was asked for; ``bundle_sha256`` is that of the lines.

    >>> call = read_export(b'{"all_adapters": true, "format": "sft_jsonl"}')
    >>> export_output(call, b"", 0).decode()[:50]
    '{"uri":"kairos://adapter/all","format":"sft_jsonl"'
    """
    content_out = base64.b64encode(content) if call.is_base64 else content
    return msgspec.json.encode(
        _Answer(
            call.uri or (call.adapters[0] if call.adapters else "kairos://adapter/all"),
            call.format,
            "application/jsonl",
            content_out.decode(),
            n_items,
            sha256(content).hexdigest(),
            "base64" if call.is_base64 else msgspec.UNSET,
        )
    )
