"""The text of ``learning status``, to the letter."""

from __future__ import annotations

import msgspec

from core.formats.openclaw_learning import ArmState, Config, Summary, status_text
from tests.conformance.vectors import Vector, compare, each_of, load


@each_of(load("openclaw_status"))
def test_a_status_reads_as_openclaws(vector: Vector) -> None:
    text = status_text(
        msgspec.convert(vector.input["summary"], Summary),
        msgspec.convert(vector.input["config"], Config),
        msgspec.convert(vector.input["posteriors"], list[ArmState]),
    )
    compare(vector, {"text": text}, {"text": vector.output}, ())
