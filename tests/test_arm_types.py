"""Every arm type has what the recipe for one asks for: a prior, detectors, words, a glyph and colours."""

from __future__ import annotations

import pytest

from core import explained
from core.detect import detect
from core.records.arm import ARM_TYPES, Arm, ArmType
from core.records.learner import Mode, Priors
from core.records.run import Call, Inventory, Run
from dashboard import wording
from dashboard.figures.theme import DARK, LIGHT

each = pytest.mark.parametrize("kind", ARM_TYPES)


@each
@pytest.mark.parametrize("mode", ["standard", "openclaw"])
def test_it_is_looked_for_in_both_modes(kind: ArmType, mode: Mode) -> None:
    arm = Arm(key=f"{kind}:some:what was never said", content="nobody ever quoted it")
    run = Run(
        uid="r",
        inventory=Inventory(kind="declared", arms=(arm,)),
        status="completed",
        calls=(Call(name="Read"),),
        texts=("An answer.",),
    )
    assert detect(run, mode).n_real_calls == 1


@each
def test_it_has_a_prior_words_and_colours(kind: ArmType) -> None:
    assert Priors().of(kind).mean > 0
    assert explained.recognised(f"{kind}:some:arm", None, n_calls=1).startswith("not ")
    assert wording.TYPE_PLURALS[kind] not in ARM_TYPES
    for look in (LIGHT, DARK):
        marks = [look.types[other].mark for other in ARM_TYPES]
        assert marks.count(look.types[kind].mark) == 1
    glyphs = [LIGHT.types[other].glyph for other in ARM_TYPES]
    assert glyphs.count(LIGHT.types[kind].glyph) == 1
