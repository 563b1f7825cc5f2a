"""Arm ids, candidates with their costs, what a selection is asked for and made into, the guidance text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

from core.errors import InvalidArm
from core.guidance import guidance
from core.maths.packing import fill
from core.records.arm import Arm, skill_name
from core.records.candidate import file_candidate, skill_candidate, tool_candidate
from core.records.javascript import units
from core.records.learner import SEEDS, LearnerSettings
from core.records.run import Inventory, Run
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id, is_no_character
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, compare, each_of, load

CANDIDATES: Final = (
    Deviation(
        rules.NO_ARM,
        "A tool or file without a name is refused as a candidate.",
        lambda case: isinstance(case.theirs, Mapping) and not is_arm_id(case.theirs["id"]),
    ),
    Deviation(
        rules.ARM_ID,
        "The category of a skill whose name holds a colon ends at that colon.",
        lambda case: case.name.startswith("category") and ":" in case.theirs["category"],
    ),
)

_FALLBACK: Final = ("error", "unavailable")

SELECTION: Final = (
    *CANDIDATES,
    Deviation(
        rules.NO_BUDGET,
        "OpenClaw asks for 8,000 tokens where no budget is set.",
        lambda case: case.name == "token_budget" and "tokenBudget" not in _config(case.vector.input),
    ),
    Deviation(
        rules.EXPLORED,
        "OpenClaw asks for no exploration unless told to.",
        lambda case: case.name == "min_pulls" and "minPulls" not in _config(case.vector.input),
    ),
    Deviation(
        rules.OWN_PRIOR,
        "There is no boost for seeds: an arm's own prior says how good it is thought to be.",
        lambda case: case.name == "seed_boost",
    ),
    Deviation(
        rules.CLASSES,
        "OpenClaw marks runs of an outage as baseline, which is what they are compared against.",
        lambda case: case.name == "is_baseline" and case.vector.input["backend"] in _FALLBACK,
    ),
)

_NAMED_UNITS: Final = 64
_NAMED: Final = 40
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BEFORE: Final = "Note: The following tools are currently unavailable: "
_AFTER: Final = ". If the user requests a capability"

GUIDANCE: Final = (
    Deviation(
        rules.GUIDANCE,
        "OpenClaw cuts a name after 64 UTF-16 units; ours keeps it whole to 80 characters, then both its ends.",
        lambda case: any(units(name) > _NAMED_UNITS for name in _tools(case)),
    ),
    Deviation(
        rules.NO_ARM,
        "OpenClaw strips control characters from a name; with us no id holds one, and text shows them escaped.",
        lambda case: any(map(is_no_character, "".join(_tools(case)))),
    ),
    Deviation(
        rules.GUIDANCE,
        "OpenClaw names every tool; ours 40, and how many more there are.",
        lambda case: len(_tools(case)) > _NAMED,
    ),
)

# Ids


@each_of(load("openclaw_arms", "buildArmId"))
def test_an_id_is_put_together_of_its_parts(vector: Vector) -> None:
    given = vector.input
    built = _arm(lambda: Arm(key=f"{given['type']}:{given['category']}:{given['id']}"))
    deviations = [
        Deviation(
            rules.NO_ARM, "Each of the three parts must be there.", lambda case: not is_arm_id(case.theirs)
        )
    ]
    compare(vector, {"id": built.key if built else ABSENT}, {"id": vector.output}, deviations)


@each_of(load("openclaw_arms", "parseArmId"))
def test_an_id_is_taken_apart(vector: Vector) -> None:
    arm = _arm(lambda: Arm(key=vector.input))
    parts = {"type": arm.type, "category": arm.category, "id": arm.name} if arm else None
    deviations = [
        Deviation(
            rules.NO_ARM,
            "A name must be there and hold no control character.",
            lambda case: case.theirs is not None and not is_arm_id(case.vector.input),
        )
    ]
    compare(vector, {"parts": parts}, {"parts": vector.output}, deviations)


# Candidates


@each_of(load("openclaw_arms", "buildCandidates"))
def test_candidates_have_openclaws_ids_and_costs(vector: Vector) -> None:
    compare(vector, _numbered(_candidates(vector.input)), _numbered(vector.output), CANDIDATES)


def _candidates(given: Mapping[str, Any]) -> list[object]:
    return [ABSENT if arm is None else _as_candidate(arm) for arm in _arms(given)]


def _arms(given: Mapping[str, Any]) -> list[Arm | None]:
    """Tools, then skills, then files; None where ours refuses one."""
    tools = [_arm(partial(tool_candidate, tool)) for tool in given.get("tools") or ()]
    skills = [
        _arm(partial(skill_candidate, one["name"], one["promptChars"]))
        for one in given.get("skillEntries") or ()
    ]
    files = [
        _arm(partial(file_candidate, one["path"], one["content"])) for one in given.get("contextFiles") or ()
    ]
    return [*tools, *skills, *files]


def _as_candidate(arm: Arm) -> dict[str, object]:
    kind = {"type": arm.type, "category": arm.category, "label": _label(arm)}
    return {"id": arm.key, "metadata": kind, "token_cost": arm.token_cost}


def _label(arm: Arm) -> str:
    return skill_name(arm.key) if arm.type == "skill" else arm.name


def _numbered(candidates: Iterable[object]) -> dict[str, object]:
    """Each candidate apart from its category, and its category with the id it stands in."""
    parts: dict[str, object] = {}
    for number, candidate in enumerate(candidates):
        parts[f"candidate {number}"] = parts[f"category {number}"] = ABSENT
        if isinstance(candidate, Mapping):
            kind, key = candidate["metadata"], candidate["id"]
            shown = {"type": kind["type"], "label": kind["label"], "token_cost": candidate["token_cost"]}
            parts[f"candidate {number}"] = {"id": key, **shown}
            parts[f"category {number}"] = {"id": key, "category": kind["category"]}
    return parts


def _arm(make: Callable[[], Arm]) -> Arm | None:
    try:
        return make()
    except InvalidArm:
        return None


# Selection: OpenClaw asks a backend, and we are one. What it asks for is what our settings must be able to say;
# what it makes of the answer is what our ids must lead to.


@each_of(load("openclaw_arms", "selectViaQortex"))
def test_a_selection_is_asked_for_and_read_as_openclaw_does(vector: Vector) -> None:
    given, told = vector.input, vector.output
    theirs = {**_asked(told["backend_calls"]), **_chosen(told, is_fallback=given["backend"] in _FALLBACK)}
    asked = _would_ask(given) if told["backend_calls"] else {}
    compare(vector, {**asked, **_would_choose(given)}, theirs, SELECTION)


def _config(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is set; null is not."""
    return {name: value for name, value in (given.get("config") or {}).items() if value is not None}


def _asked(calls: list[dict[str, Any]]) -> dict[str, object]:
    if not calls:
        return {}
    asked = calls[0]["args"]
    shown = {name: asked[name] for name in ("k", "token_budget", "min_pulls", "seed_boost") if name in asked}
    return {**_numbered(asked["candidates"]), **shown, "seed_arms": set(asked.get("seed_arms", ()))}


def _would_ask(given: Mapping[str, Any]) -> dict[str, object]:
    config = _config(given)
    names = {"tokenBudget": "budget_tokens", "minPulls": "min_pulls"}
    chosen = {ours: config[theirs] for theirs, ours in names.items() if theirs in config}
    seeds = tuple(config.get("seedArms", SEEDS["openclaw"]))
    settings = LearnerSettings(mode="openclaw", seed_arms=seeds, **chosen)
    return {
        **_numbered(_candidates(given)),
        "k": settings.k,
        "token_budget": settings.budget_tokens,
        "min_pulls": settings.min_pulls,
        "seed_arms": set(settings.seed_arms),
    }


def _chosen(told: Mapping[str, Any], *, is_fallback: bool) -> dict[str, object]:
    """What went in; names that are empty are no arms of ours (see `rules.NO_ARM`)."""
    selection = told["selection"]
    parts: dict[str, object] = {"is_baseline": selection["isBaseline"]}
    for kind in ("selected_tools", "selected_skills", "selected_files"):
        parts[kind] = [name for name in told[kind] if name]
    if is_fallback:
        parts["included"] = [key for key in selection["selectedArms"] if is_arm_id(key)]
    return parts


def _would_choose(given: Mapping[str, Any]) -> dict[str, object]:
    offered = [arm for arm in _arms(given) if arm is not None]
    if given["backend"] in _FALLBACK:
        kept = _in_order(offered, _config(given).get("tokenBudget", 0))
        run = Run(uid="r", inventory=Inventory(kind="declared", arms=kept), run_class="fallback")
        keys, is_baseline = {arm.key for arm in run.inventory.arms}, run.run_class == "baseline"
        extra: dict[str, object] = {"included": [arm.key for arm in offered if arm.key in keys]}
    else:
        answer = given["backend_response"]
        keys = {one if isinstance(one, str) else one["id"] for one in answer["selected_arms"]}
        is_baseline, extra = answer["is_baseline"], {}
    names = {
        f"selected_{kind}s": [_label(arm) for arm in offered if arm.type == kind and arm.key in keys]
        for kind in ("tool", "skill", "file")
    }
    return {"is_baseline": is_baseline, **names, **extra}


def _in_order(offered: Sequence[Arm], budget_tokens: int) -> tuple[Arm, ...]:
    """Without a selector: what fits, as offered, by the packer that selections use."""
    costs = np.array([arm.token_cost or 0 for arm in offered], dtype=np.int64)
    packed = fill(costs, 0, budget_tokens, 0)
    kept = [arm for arm, is_in in zip(offered, packed, strict=True) if is_in]
    return tuple({arm.key: arm for arm in kept}.values())


# Guidance: the names, and that there is no text without one; not the sentence.


@each_of(load("openclaw_arms", "buildExcludedToolsGuidance"))
def test_guidance_names_the_excluded_tools_or_is_none(vector: Vector) -> None:
    ours = guidance(_excluded(vector))
    compare(vector, {"names": _our_names(ours)}, {"names": _their_names(vector.output)}, GUIDANCE)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, None),
        ({"excludedArms": None}, None),
        ({"excludedArms": ["tool:x"]}, None),
        ({"excludedArms": ["tool", "", "tool::x", "tool:web:", ":::"]}, None),
        ({"excludedArms": ["tool:x", "tool:web:search"]}, "search"),
        ({"excludedArms": ['tool:a:say, "hi". If the user']}, 'say, "hi". If the user'),
        ({"excludedArms": ["tool:a:é\u2028\\n"]}, "é\u2028\\n"),
        ({"excludedArms": ["tool:a:x\ny"]}, "x\\ny"),
        ({"excludedArms": ["tool:a:x\x7f"]}, "x\\u007f"),
    ],
)
def test_guidance_takes_whatever_openclaws_does(given: dict[str, Any], names: str | None) -> None:
    vector = Vector(id="made", function="buildExcludedToolsGuidance", input=given, output=None, error=None)
    assert _our_names(guidance(_excluded(vector))) == names
    told = "".join(_tools(Case(vector, "names", None)))
    is_covered = any(one.covers(Case(vector, "names", None)) for one in GUIDANCE)
    assert is_covered is any(map(is_no_character, told))


def _excluded(vector: Vector) -> Sequence[str]:
    return vector.input.get("excludedArms") or ()


def _tools(case: Case) -> list[str]:
    parts = [key.split(":", 2) for key in _excluded(case.vector)]
    return [part[2] for part in parts if len(part) == 3 and part[0] == "tool" and part[1]]


def _their_names(text: str | None) -> str | None:
    return None if text is None else text.removeprefix(_BEFORE).rsplit(_AFTER, 1)[0]


def _our_names(text: str | None) -> str | None:
    """As OpenClaw lists them: without quotes; what has no place in a text stays escaped."""
    if text is None:
        return None
    listed = next(line for line in text.split("\n") if line.startswith("Left out: "))
    return ", ".join(map(_unquoted, _QUOTED.findall(listed)))


def _unquoted(quoted: str) -> str:
    name = json.loads(quoted)
    assert isinstance(name, str)
    return quoted[1:-1] if any(map(is_no_character, name)) else name
