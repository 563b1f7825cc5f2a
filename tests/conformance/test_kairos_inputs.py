"""What a KAIROS URI names, and what a reward call may hold."""

from __future__ import annotations

from typing import Any, Final

from core.errors import InvalidEvaluation
from core.formats.kairos import RewardInput, read_reward, reward_input
from core.records.javascript import stringify
from core.records.layer import LayerUri, NamedUri, parse_uri
from tests.conformance import kairos
from tests.conformance.vectors import ABSENT, Vector, compare, each_of, exactly, load

_URIS: Final = ("parseKairosUri", "parseKairosUriOrThrow")


@each_of([case for name in _URIS for case in load("kairos_inputs", name)])
def test_a_uri_names_what_it_names_to_kairos(vector: Vector) -> None:
    theirs = {} if vector.output is ABSENT else vector.output
    compare(vector, _named(vector.input), theirs, (), exactly)


def _named(value: object) -> dict[str, str]:
    """Nothing, where it is refused."""
    if not isinstance(value, str):
        return {}
    try:
        return _members(parse_uri(value))
    except InvalidEvaluation:
        return {}


def _members(found: LayerUri | NamedUri) -> dict[str, str]:
    if isinstance(found, NamedUri):
        return {"kind": found.kind, "id": found.id, "idKind": found.id_kind, "raw": found.raw}
    execution = {} if found.execution is None else {"executionId": found.execution}
    return {"kind": "layer", "id": found.uid, **execution, "raw": found.raw}


@each_of(load("kairos_inputs", "rewardInputSchema"))
def test_a_reward_call_is_checked_as_kairos_checks_it(vector: Vector) -> None:
    compare(vector, _checked(vector.input), vector.output, (), exactly)


def _checked(value: object) -> dict[str, Any]:
    try:
        given = reward_input(value)
    except InvalidEvaluation as error:
        return {"ok": False, "invalid_fields": error.fields}
    return {"ok": True, "data": _sent(given)}


def _sent(given: RewardInput) -> dict[str, Any]:
    optional = ("score", "feedback", "rater", "rubric_version", "llm_model_id")
    held = {name: getattr(given, name) for name in optional if getattr(given, name) is not None}
    return {"uri": given.layer.raw, "outcome": given.outcome, **held}


@each_of(load("kairos_inputs", "rewardInputSchema"))
def test_a_body_is_read_as_its_value_is(vector: Vector) -> None:
    body = b"" if vector.input is ABSENT else stringify(vector.input).encode()
    try:
        ours: dict[str, Any] = {"ok": True, "data": _sent(read_reward(body))}
    except InvalidEvaluation as error:
        ours = {"ok": False, "invalid_fields": error.fields}
    compare(vector, ours, kairos.written(vector.output), (), exactly)
