"""Detection in mode ``openclaw``, arm by arm."""

from __future__ import annotations

from typing import Any, Final

from core.detect import detect
from core.errors import InvalidArm
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id
from tests.conformance.vectors import ABSENT, Case, Deviation, Vector, compare, each_of, load


def _is_no_arm(case: Case) -> bool:
    given = case.vector.input
    return given["armType"] != "memory" and not is_arm_id(given["armId"])


DEVIATIONS: Final = (
    Deviation(rules.NO_ARM, "Such an id is refused before anything is looked for.", _is_no_arm),
)


@each_of(load("openclaw_reference"))
def test_an_arm_is_recognised_where_openclaw_recognises_it(vector: Vector) -> None:
    compare(vector, {"referenced": _referenced(vector.input)}, {"referenced": vector.output}, DEVIATIONS)


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
