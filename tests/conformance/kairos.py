"""What KAIROS's rules come to, said again from the rules and not by asking the code under test."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_BLANK: Final = re.compile("[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*")


def is_said(text: str | None) -> bool:
    """Whether there is more in a text than JavaScript's white space."""
    return text is not None and _BLANK.fullmatch(text) is None


def score_of(reward: Mapping[str, Any]) -> float:
    """The score that counts: clamped, and by the outcome where none was given."""
    score = reward.get("score")
    if score is None:
        return 1.0 if reward["outcome"] == "success" else 0.0
    return sorted((0.0, score, 1.0))[1] if math.isfinite(score) else 0.0


def flags(reward: Mapping[str, Any]) -> dict[str, bool]:
    """What a stored reward may be exported for, no matter what it says of that itself."""
    is_known = is_said(reward.get("rubric_version")) and (
        is_said(reward.get("rater")) or is_said(reward.get("llm_model_id"))
    )
    score = score_of(reward)
    return {
        "exportable_for_sft": is_known and reward["outcome"] == "success" and score >= 0.65,
        "exportable_for_preference": is_known and score >= 0.7,
    }


def consequences(reward: Mapping[str, Any]) -> dict[str, Any]:
    """All that follows from what was said in a reward."""
    score, is_success = score_of(reward), reward["outcome"] == "success"
    signed = score if is_success else 0.0 - score  # in JSON there is one zero
    shared = [
        *(["missing_rubric_version"] if not is_said(reward.get("rubric_version")) else []),
        *(
            ["missing_evaluator_identity"]
            if not is_said(reward.get("rater")) and not is_said(reward.get("llm_model_id"))
            else []
        ),
    ]
    return {
        "signed_score": signed,
        "quality_bonus": signed,
        "grader_kind": "model"
        if reward.get("llm_model_id")
        else "human"
        if reward.get("rater")
        else "unknown",
        "evaluation_label": label_of(score) if is_success else "rejected",
        **flags(reward),
        "sft_blockers": [
            *shared,
            *(["outcome_not_success"] if not is_success else []),
            *(["score_below_sft_threshold"] if score < 0.65 else []),
        ],
        "preference_blockers": [*shared, *(["score_below_preference_threshold"] if score < 0.7 else [])],
    }


def label_of(score: float) -> str:
    """A success's label."""
    return ("bronze", "silver", "gold")[(score >= 0.65) + (score >= 0.85)]


def written(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """A value as it comes back from JSON: it has one zero."""
    if isinstance(value, dict):
        return {name: written(held) for name, held in value.items()}
    if isinstance(value, list):
        return [written(held) for held in value]
    return 0 if isinstance(value, float) and value == 0 else value


def told(line: str, pair: Mapping[str, Any]) -> str:
    """A line of KAIROS's ``reward_jsonl`` with all that follows from the pair's reward in its place."""
    theirs = json.loads(line)["reward"]
    for name, value in consequences(pair["reward"]).items():
        if theirs[name] != value:
            said = json.dumps(_whole(value), separators=(",", ":"))
            line, n_places = re.subn(rf'"{name}":("\w*"|\[[^]]*\]|[^,]*)', f'"{name}":{said}', line)
            assert n_places == 1
    return line


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value == int(value) else value


def preferred(
    pairs: Sequence[Mapping[str, Any]],
    is_eligible: Callable[[Mapping[str, Any]], bool],
    layer_of: Callable[[str], str],
) -> list[tuple[int, int]]:
    """Which pairs are chosen and rejected, by their places: of a layer's eligible ones the highest stated scores."""
    groups: dict[tuple[str, int], dict[str, list[int]]] = {}
    for place, pair in enumerate(pairs):
        outcomes = groups.setdefault((layer_of(pair["layer_uri"]), pair["layer_index"]), {})
        if pair.get("reward") and is_eligible(pair["reward"]):
            outcomes.setdefault(pair["reward"]["outcome"], []).append(place)
    best = [
        tuple(
            max(
                outcomes.get(word, []), key=lambda place: pairs[place]["reward"].get("score") or 0, default=-1
            )
            for word in ("success", "failure")
        )
        for outcomes in groups.values()
    ]
    return [(chosen, rejected) for chosen, rejected in best if chosen >= 0 and rejected >= 0]


def qualities(
    calls: Sequence[Mapping[str, Any]], *, is_revised: bool, is_remembered: bool
) -> list[dict[str, Any]]:
    """A layer's quality after each of several reward calls about it.

    ``is_revised``: a repeat about one execution takes the earlier one's place; ``is_remembered``: earlier attempts
    count for the bonus of later ones.
    """
    return [_quality(_standing(calls[: n + 1], is_revised), is_remembered) for n in range(len(calls))]


def _standing(calls: Sequence[Mapping[str, Any]], is_revised: bool) -> list[Mapping[str, Any]]:
    found: dict[object, Mapping[str, Any]] = {}
    for place, call in enumerate(calls):
        who = tuple(call.get(name) or "" for name in ("rater", "llm_model_id", "rubric_version"))
        key = (call["uri"].lower(), who) if is_revised and "?" in call["uri"] else place
        found.pop(key, None)
        found[key] = call
    return list(found.values())


def _quality(calls: Sequence[Mapping[str, Any]], is_remembered: bool) -> dict[str, Any]:
    total, attempts = 0.0, dict[str, list[int]]()
    name = ""
    for call in calls:
        name = (call["llm_model_id"] if "llm_model_id" in call else call.get("rater")) or "reward"
        if not is_remembered:
            attempts.clear()
        attempts.setdefault(name, []).append(call["outcome"] == "success")
        signed = consequences(call)["signed_score"]
        earned = _earned(attempts, name) if call["outcome"] == "success" else 0
        total += (1 if call["outcome"] == "success" else -0.2) + earned + signed
    n_successes = sum(call["outcome"] == "success" for call in calls)
    return {
        "retrievals": len(calls),
        "successes": n_successes,
        "failures": len(calls) - n_successes,
        "bonus": total,
        "last_rater": name,
        "usage_context": calls[-1].get("feedback", f"{calls[-1]['outcome']} reward"),
    }


def _earned(attempts: Mapping[str, list[int]], name: str) -> int:
    """What a success just counted earns for its implementation."""
    rates = {each: sum(found) / len(found) for each, found in attempts.items()}
    mine, n = rates.pop(name), len(attempts[name])
    others = sum(rates.values()) / len(rates) if rates else 1.0
    comparative = min(10.0, (mine - others) * 20) if others < 0.5 and mine > others else 0.0
    every = [found for several in attempts.values() for found in several]
    rarity = min(3.0, max(1.0, 1 / max(0.1, sum(every) / len(every))))
    spread = 1.96 * math.sqrt(mine * (1 - mine) / n + 1.96**2 / (4 * n * n))
    wilson = 0.5 + max(0.0, (mine + 1.96**2 / (2 * n) - spread) / (1 + 1.96**2 / n))
    return min(25, math.floor((5 + comparative) * wilson * rarity + 0.5))


def layer_alone(uri: str) -> str:
    """A layer's URI without its execution; any other as it is."""
    found = re.fullmatch(
        r"\s*kairos://layer/([0-9a-f-]{36})(\?execution_id=[0-9a-f-]{36})?\s*", uri, re.IGNORECASE
    )
    older = re.fullmatch(r"kairos://mem/([0-9a-fA-F-]{36})([/?].*)?", uri, re.DOTALL)
    match = found or older
    return uri if match is None else f"kairos://layer/{match[1]}"
