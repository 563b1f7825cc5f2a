"""Training exports (rewarded pairs, samples, preference pairs; items and bytes) against outputs of KAIROS."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.formats.kairos import (
    TrainingRow,
    preference_jsonl,
    read_rewarded,
    read_trace,
    reward_jsonl,
    sft_jsonl,
    trace_jsonl,
)
from core.records.javascript import stringify
from tests.conformance import kairos, rules
from tests.conformance.vectors import Case, Deviation, Vector, compare, each_of, exactly, load

Json = dict[str, Any]
_FLAGS: Final = ("exportable_for_sft", "exportable_for_preference")


def _rows(vector: Vector) -> list[TrainingRow]:
    return [read_trace(stringify(pair).encode()) for pair in vector.input["pairs"]]


def _rewarded(vector: Vector) -> list[int]:
    return [place for place, pair in enumerate(vector.input["pairs"]) if pair.get("reward")]


def _flat(found: Mapping[int, Json]) -> Json:
    """Parts of items by name, those of the reward one by one: ``3.reward.score`` is of the fourth pair's."""
    return {name: part for place, item in found.items() for name, part in _parts(str(place), item)}


def _parts(name: str, item: Json) -> Iterator[tuple[str, Any]]:
    for member, value in item.items():
        if member in {"metadata", "reward"}:
            yield from _parts(f"{name}.{member}", value)
        else:
            yield f"{name}.{member}", value


def _pair(case: Case) -> Json:
    place = int(case.name.partition(".")[0])
    pair: Json = case.vector.input["pairs"][place]
    return pair


def _is_not_what_follows(case: Case) -> bool:
    """A member that can be computed from the others, such as the label, and is another in the recorded row."""
    _, is_reward, member = case.name.rpartition("reward.")
    reward = _pair(case).get("reward")
    if not is_reward or not reward or member not in kairos.consequences(reward):
        return False
    return not exactly(case.theirs, kairos.consequences(reward)[member])


_BY_CONSEQUENCE: Final = Deviation(
    rules.RECOMPUTED, "The row's record does not say it, or says otherwise.", _is_not_what_follows
)


@each_of(load("kairos_exports", "buildRewardJsonlItems"))
def test_rewarded_pairs_are_kairos_items(vector: Vector) -> None:
    ours = map(json.loads, reward_jsonl(_rows(vector)))
    places = _rewarded(vector)
    compare(
        vector,
        _flat(dict(zip(places, ours, strict=True))),
        _flat(dict(zip(places, kairos.written(vector.output), strict=True))),
        (_BY_CONSEQUENCE,),
        exactly,
    )


def _line_follows(case: Case) -> bool:
    """The pair's reward says everything that follows from it, and nothing else."""
    theirs = json.loads(case.theirs)["reward"]
    reward = _pair(case)["reward"]
    return all(exactly(theirs[name], value) for name, value in kairos.consequences(reward).items())


@each_of(load("kairos_exports", "stringifyLines"))
def test_lines_are_javascripts_to_the_byte(vector: Vector) -> None:
    texts = vector.output.split("\n") if vector.output else []
    ours = {str(place): line.decode() for place, line in _numbered(vector)}
    theirs = {str(place): text for place, text in zip(_rewarded(vector), texts, strict=True)}
    deviation = Deviation(
        rules.RECOMPUTED,
        "The line's record does not say what follows from it, or says otherwise.",
        lambda case: not _line_follows(case),
    )
    compare(vector, ours, theirs, (deviation,))
    told = {place: kairos.told(text, _pair(Case(vector, place, text))) for place, text in theirs.items()}
    assert ours == told  # with what follows put into their line, ours is the same bytes


def _numbered(vector: Vector) -> Iterator[tuple[int, bytes]]:
    return zip(_rewarded(vector), reward_jsonl(_rows(vector)), strict=True)


def _believed(reward: Json | None, flag: str) -> bool:
    """What KAIROS takes a reward for: what it says of itself, else what follows."""
    if not reward:
        return False
    return reward[flag] is True if flag in reward else kairos.flags(reward)[flag]


def _follows(reward: Json | None, flag: str) -> bool:
    return bool(reward) and reward is not None and kairos.flags(reward)[flag]


_FINE_TUNED: Final = (
    Deviation(
        rules.RECOMPUTED,
        "A flag in the record is not asked.",
        lambda case: (
            case.vector.input["includeReward"]
            and _believed(_pair(case).get("reward"), _FLAGS[0])
            != _follows(_pair(case).get("reward"), _FLAGS[0])
        ),
    ),
    Deviation(
        rules.GATE,
        "The pair is not good enough.",
        lambda case: (
            not case.vector.input["includeReward"] and not _follows(_pair(case).get("reward"), _FLAGS[0])
        ),
    ),
    Deviation(
        rules.GATE,
        "The row was asked for without its reward.",
        lambda case: not case.vector.input["includeReward"] and ".reward." in case.name,
    ),
    _BY_CONSEQUENCE,
)


@each_of(load("kairos_exports", "buildSftJsonlItems"))
def test_samples_to_fine_tune_on_are_kairos_items(vector: Vector) -> None:
    pairs, is_rewarded = vector.input["pairs"], vector.input["includeReward"]
    rewards = [(place, pair.get("reward")) for place, pair in enumerate(pairs)]
    theirs = [place for place, reward in rewards if not is_rewarded or _believed(reward, _FLAGS[0])]
    ours = [place for place, reward in rewards if _follows(reward, _FLAGS[0])]
    lines = map(json.loads, sft_jsonl(_rows(vector), include_reward=is_rewarded))
    compare(
        vector,
        _flat(dict(zip(ours, lines, strict=True))),
        _flat(dict(zip(theirs, kairos.written(vector.output), strict=True))),
        _FINE_TUNED,
        exactly,
    )


def _chosen(vector: Vector, *, is_believed: bool, is_cased: bool) -> list[Json]:
    """The items by rules of KAIROS or of ours."""
    pairs = vector.input["pairs"]
    places = kairos.preferred(
        pairs,
        lambda reward: (_believed if is_believed else _follows)(dict(reward), _FLAGS[1]),
        lambda uri: kairos.layer_alone(uri) if is_cased else kairos.layer_alone(uri).lower(),
    )
    return [
        {
            "prompt": stringify(pairs[chosen]["instruction"]),
            "chosen": stringify(pairs[chosen]["response"]),
            "rejected": stringify(pairs[rejected]["response"]),
            "metadata": {
                "adapter_uri": pairs[chosen]["adapter_uri"],
                "layer_uri": kairos.layer_alone(pairs[chosen]["layer_uri"]),
                "layer_index": pairs[chosen]["layer_index"],
            },
        }
        for chosen, rejected in places
    ]


def _chosen_by(case: Case) -> str | None:
    """The rule by which we choose otherwise; None = we don't."""
    theirs, recomputed, ours = (
        _chosen(case.vector, is_believed=is_believed, is_cased=is_cased)
        for is_believed, is_cased in ((True, True), (False, True), (False, False))
    )
    if theirs == ours:
        return None
    return rules.CASELESS if theirs == recomputed else rules.RECOMPUTED


_PREFERRED: Final = (
    Deviation(
        rules.RECOMPUTED,
        "A flag in a record is not asked, and another pair is the best, or none.",
        lambda case: _chosen_by(case) == rules.RECOMPUTED,
    ),
    Deviation(
        rules.CASELESS, "A layer was named in two ways.", lambda case: _chosen_by(case) == rules.CASELESS
    ),
)


@each_of(load("kairos_exports", "buildPreferenceJsonlItems"))
def test_preferences_by_layer_are_kairos_items(vector: Vector) -> None:
    ours = [json.loads(line) for line in preference_jsonl(_rows(vector), pairing="layer")]
    compare(vector, {"items": ours}, {"items": vector.output}, _PREFERRED, exactly)
    assert ours == _chosen(vector, is_believed=False, is_cased=False)
    assert vector.output == _chosen(vector, is_believed=True, is_cased=True)


@each_of(load("kairos_exports"))
def test_what_is_written_is_read_back(vector: Vector) -> None:
    rows = _rows(vector)
    assert [read_trace(line) for line in trace_jsonl(rows)] == rows
    lines = list(reward_jsonl(rows))
    assert list(reward_jsonl(map(read_rewarded, lines))) == lines


@each_of(load("kairos_exports"))
def test_a_trace_is_the_pair(vector: Vector) -> None:
    ours = [json.loads(line) for line in trace_jsonl(_rows(vector))]
    for place, (our, their) in enumerate(zip(ours, vector.input["pairs"], strict=True)):
        reward = their.get("reward")
        follows = {} if not reward else {"reward": {**reward, **kairos.consequences(reward)}}
        named = {
            "id": f"{their['execution_id']}:{their['layer_index']}"
        }  # some vectors call a pair otherwise
        assert our == {**their, **follows, **named}, place
