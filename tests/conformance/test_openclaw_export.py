"""The learning export, JSON and CSV, and the text of ``learning status``, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec

from core.formats.openclaw_learning import ArmState, Config, Summary, status_text
from core.formats.openclaw_shape import Metrics, Stored, as_json, posteriors_as_csv
from tests.conformance.vectors import Vector, compare, each_of, load


@each_of(load("openclaw_export"))
def test_an_export_reads_as_openclaws(vector: Vector) -> None:
    compare(vector, {"text": _exported(**vector.input)}, {"text": vector.output}, ())


def _exported(format: str, posteriors: dict[str, dict[str, Any]], metrics: dict[str, Any]) -> str:
    rows = [
        Stored(
            arm_id=arm,
            alpha=state["alpha"],
            beta=state["beta"],
            mean=state["mean"],
            pulls=state["pulls"],
            last_updated=state["last_updated"],
        )
        for arm, state in posteriors.items()
    ]
    if format == "csv":
        return "".join(posteriors_as_csv(rows)).removesuffix("\n")
    return "".join(as_json(Metrics(**metrics), rows))


@each_of(load("openclaw_status"))
def test_a_status_reads_as_openclaws(vector: Vector) -> None:
    text = status_text(
        msgspec.convert(vector.input["summary"], Summary),
        msgspec.convert(vector.input["config"], Config),
        msgspec.convert(vector.input["posteriors"], list[ArmState]),
    )
    compare(vector, {"text": text}, {"text": vector.output}, ())
