"""Detection and guard in mode ``openclaw``: arm by arm, and from a run to observations."""

from __future__ import annotations

from typing import Any, Final

import pytest

from core.detect import detect
from core.errors import InvalidArm
from core.maths.observe import guard, observe, outcome_arms, reward_of_flag
from core.records.arm import Arm
from core.records.observation import OUTCOME_REWARDS
from core.records.run import Call, Inventory, Phase, Run
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, compare, each_of, load

_CONTEXT: Final = "context"

DEVIATIONS: Final = (
    Deviation(
        rules.ONE_POSTERIOR,
        "An automatic observation carries no context of its own: its run knows phase, model and session.",
        lambda case: case.name == _CONTEXT,
    ),
    Deviation(
        rules.NO_ARM,
        "Such an id gets no arm, so nothing is observed of it.",
        lambda case: not is_arm_id(case.name),
    ),
)


@each_of(load("openclaw_observe"))
def test_a_run_is_observed_where_openclaw_observes_it(vector: Vector) -> None:
    compare(vector, _observed(vector.input), _told(vector.output["observations"]), DEVIATIONS)


def _told(observations: list[dict[str, Any]]) -> dict[str, Any]:
    told = {made["arm_id"]: made["reward"] for made in observations}
    assert all(OUTCOME_REWARDS[made["outcome"]] == made["reward"] for made in observations)
    has_context = bool(observations) and "context" in observations[0]
    return {_CONTEXT: observations[0]["context"], **told} if has_context else told


def _observed(given: dict[str, Any]) -> dict[str, Any]:
    included = dict.fromkeys(key for key in given.get("selectedArms") or () if is_arm_id(key))
    excluded = dict.fromkeys(key for key in given.get("excludedArms") or () if is_arm_id(key))
    run = Run(
        uid="r",
        inventory=Inventory(kind="declared", arms=tuple(Arm(key=key) for key in included)),
        excluded=tuple(key for key in excluded if key not in included),
        calls=tuple(
            Call(name=made["toolName"], metadata=made.get("meta") or "")
            for made in given.get("toolMetas") or ()
        ),
        texts=tuple(given.get("assistantTexts") or ()),
        run_class="baseline" if given.get("isBaseline") else "selected",
    )
    evidence = detect(run, "openclaw")
    verdict = guard(run, evidence, _phase(given.get("config") or {}))
    rewards = map(reward_of_flag, observe(run, evidence, verdict))
    seen = zip(outcome_arms(run), rewards, strict=True)
    return {key: reward for key, reward in seen if reward is not None}


def _phase(config: dict[str, Any]) -> Phase:
    """OpenClaw observes where its configuration says ``active``; a learner of ours has a phase of its own."""
    return "active" if config.get("phase") == "active" else "passive"


@pytest.mark.parametrize("config", [{}, {"phase": None}, {"phase": "off"}, None, {"phase": "passive"}])
def test_a_configuration_without_a_phase_is_passive(config: dict[str, Any] | None) -> None:
    asked = {"selectedArms": ["tool:fs:Read"], "toolMetas": [{"toolName": "Read"}], "config": config}
    assert _observed(asked) == {}
    assert _observed({**asked, "config": {"phase": "active"}}) == {"tool:fs:Read": 1}
    del asked["config"]
    assert _observed(asked) == {}


def _is_no_arm(case: Case) -> bool:
    given = case.vector.input
    return given["armType"] != "memory" and not is_arm_id(given["armId"])


_FALLBACKS: Final = (
    Deviation(rules.NO_ARM, "Such an id is refused before anything is looked for.", _is_no_arm),
)


@each_of(load("openclaw_reference"))
def test_an_arm_is_recognised_where_openclaw_recognises_it(vector: Vector) -> None:
    compare(vector, {"referenced": _referenced(vector.input)}, {"referenced": vector.output}, _FALLBACKS)


def _referenced(given: dict[str, Any]) -> object:
    try:
        arm = _arm(given)
    except InvalidArm:
        return ABSENT
    calls = tuple(Call(name=made["toolName"], metadata=made.get("meta") or "") for made in given["toolMetas"])
    inventory = Inventory(kind="declared", arms=(arm,))
    run = Run(uid="r", inventory=inventory, calls=calls, texts=tuple(given["assistantTexts"]))
    return detect(run, "openclaw").referenced[0]


def _arm(given: dict[str, Any]) -> Arm:
    """A memory's label is its content here, no matter what its id makes of it."""
    if given["armType"] == "memory":
        return Arm(key="memory:notes:one", content=given["armLabel"])
    return Arm(key=given["armId"])
