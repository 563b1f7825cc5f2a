"""Sequences of KAIROS's reward calls, held against what KAIROS answered and stored; whoever answers them is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.records.evaluation import Quality
from tests.conformance import kairos, rules
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, compare, exactly

Json = dict[str, Any]
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_COUNTS: Final = {
    "retrievals": "retrievalCount",
    "successes": "successCount",
    "failures": "failureCount",
    "bonus": "qualityBonus",
}
_LATEST: Final = {"last_rater": "lastRater", "usage_context": "usageContext"}


@dataclass(frozen=True)
class Rewarded:
    """What one reward call came to: the answer, what is kept of the execution's reward (None = no execution), the
    quality of the layer and of its adapter's head after it, and the layer's points and word (None = it is not known
    but by its id).
    """

    answer: Json
    record: Json | None
    quality: Quality
    head: Quality
    step: Json | None


Caller = Callable[[Json | None, Sequence[Json]], list[Rewarded]]
"""Takes what is known of the layer (None = nothing), and the calls in their order."""


def hold(vector: Vector, call: Caller) -> None:
    """Hold a sequence against KAIROS's: answers, what is stored of them, what they add up to."""
    calls = vector.input["calls"]
    point = vector.input["point"]
    ours = call(None if point is None else point["payload"], calls)
    compare(vector, _ours(ours), _theirs(vector.output, len(calls)), DEVIATIONS, exactly)
    expected = kairos.qualities(calls, is_revised=True, is_remembered=True)
    assert exactly([_quality(found.quality) for found in ours], expected)


def _ours(found: Sequence[Rewarded]) -> Json:
    told: Json = {}
    for place, each in enumerate(found):
        (row,) = each.answer["results"]
        told |= _named(f"{place}.row", _timeless(row))
        told |= _named(f"{place}.answer", {**each.answer, "results": 1})
        told |= _named(f"{place}.record", {} if each.record is None else _timeless(each.record))
        told |= _named(f"{place}.quality", _quality(each.quality))
        told |= _named(f"{place}.head", _quality(each.head))
        told |= _named(f"{place}.step", each.step or {})
    return told


def _theirs(output: Json, n_calls: int) -> Json:
    told: Json = {}
    records = iter(output["set_reward"])
    own = _added_up(output, "updateQualityMetrics")
    head = _added_up(output, "propagateRewardToAdapterHead")
    steps = [made["update"] for made in output["store_calls"] if made["call"] == "updateQualityMetadata"]
    for place in range(n_calls):
        answer = output["outputs"][place]
        (row,) = answer["results"]
        told |= _named(f"{place}.row", row)
        told |= _named(f"{place}.answer", {**answer, "results": 1})
        told |= _named(
            f"{place}.record", kairos.written(next(records)["reward"]) if "?" in row["uri"] else {}
        )
        told |= _named(f"{place}.quality", own[place])
        told |= _named(f"{place}.head", head[place])
        told |= _named(f"{place}.step", steps[place] if steps else {})
    assert next(records, None) is None
    return told


def _added_up(output: Json, call: str) -> list[Json]:
    """Their updates after each other: counts and bonus grow, the rest is the latest."""
    state: Json = dict.fromkeys(_COUNTS, 0)
    states = []
    for made in output["store_calls"]:
        if made["call"] == call:
            update = made["update"]
            state = {name: state[name] + update[theirs] for name, theirs in _COUNTS.items()}
            state |= {name: update[theirs] for name, theirs in _LATEST.items()}
            states.append(state)
    return states


def _quality(quality: Quality) -> Json:
    return {name: getattr(quality, name) for name in (*_COUNTS, *_LATEST)}


def _named(prefix: str, members: Mapping[str, Any]) -> Json:
    return {f"{prefix}.{name}": value for name, value in members.items()}


def _timeless(row: Json) -> Json:
    assert _ISO.fullmatch(row["rated_at"])
    return {**row, "rated_at": "<ts>"}


def _part(case: Case) -> tuple[int, str, str]:
    place, part, member = case.name.split(".")
    return int(place), part, member


def _parts_by(case: Case) -> str | None:
    """The rule by which this member of a quality is another with us; None = it is the same, or none of a quality."""
    place, part, member = _part(case)
    if part not in {"quality", "head"}:
        return None
    theirs, revised, ours = (
        kairos.qualities(case.vector.input["calls"], is_revised=is_revised, is_remembered=is_remembered)[
            place
        ]
        for is_revised, is_remembered in ((False, False), (True, False), (True, True))
    )
    if exactly(theirs[member], ours[member]):
        return None
    return rules.HISTORY_KEPT if exactly(theirs[member], revised[member]) else rules.REVISION


def _is_score_not_given(case: Case) -> bool:
    place, part, member = _part(case)
    is_score = (part, member) == ("record", "score")
    return is_score and "score" not in case.vector.input["calls"][place] and case.theirs is not ABSENT


DEVIATIONS: Final = (
    Deviation(
        rules.REVISION,
        "The same was judged of this execution by the same before.",
        lambda case: _parts_by(case) == rules.REVISION,
    ),
    Deviation(
        rules.HISTORY_KEPT,
        "The layer was rated before, and a later success earns by that.",
        lambda case: _parts_by(case) == rules.HISTORY_KEPT,
    ),
    Deviation(rules.AS_GIVEN, "The call had no score.", _is_score_not_given),
)
