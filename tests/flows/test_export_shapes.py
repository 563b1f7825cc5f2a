"""A learner as JSON and CSV for other programs: OpenClaw's shape, the lagged mark, no formulas."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.export import export_file, export_into
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.formats.openclaw_shape import Observed, observations_as_csv
from core.records.cells import defused
from core.records.ledger_lines import RewardContext
from tests.formats.test_qortex_db import database, state
from tests.worlds import a_run, context_at


@pytest.fixture
def context(context: Context, tmp_path: Path) -> Iterator[Context]:
    """Three runs, a feedback, a correction, an undone reward and a carried belief."""
    record(context, a_run("r1", run_class="baseline", model="m"))
    record(context, a_run("r2", calls=(), status="error", tokens=None, at_ms=None))
    record(context, a_run("r3", run_class="selected", calls=("b",)))
    reward(context, "tool:other:a", 0.25, reason="=cmd|' /C calc'!A0")
    reward(context, "tool:other:c", 1.0, run="r3", correct=True, reason="it helped")
    undo(context, reward(context, "tool:other:b", 0.0).id)
    import_files(context, [database(tmp_path, [state("skill:go:main")], name="q.db")])
    yield context
    context.store.close()


def exported(context: Context, folder: Path) -> dict[str, Any]:
    export_file(context, folder / "out.json", "json")
    found: dict[str, Any] = json.loads((folder / "out.json").read_bytes())
    return found


def test_json_has_openclaws_metrics_posteriors_and_traces(context: Context, tmp_path: Path) -> None:
    found = exported(context, tmp_path)
    assert list(found) == ["metrics", "posteriors", "traces", "observations", "writtenBy"]
    beliefs = {one.arm: one for one in queries.posteriors(context)}
    assert {one["armId"] for one in found["posteriors"]} == set(beliefs)
    for one in found["posteriors"]:
        belief = beliefs[one["armId"]]
        assert (one["alpha"], one["beta"], one["pulls"]) == (belief.alpha, belief.beta, belief.pulls)
        assert one["mean"] == pytest.approx(belief.mean)
        assert one["lastUpdated"] == (belief.last_updated or "")
    assert found["metrics"]["total_pulls"] == sum(one.pulls for one in beliefs.values())
    assert found["metrics"]["arm_count"] == len(beliefs)
    assert found["metrics"]["accuracy"] == pytest.approx(
        found["metrics"]["total_reward"] / found["metrics"]["total_pulls"]
    )
    first, second, third = found["traces"]
    assert (first["traceId"], first["isBaseline"], first["model"]) == ("r1", True, "m")
    assert first["arms"][0] == {
        "armId": "tool:other:a",
        "included": True,
        "referenced": True,
        "tokenCost": None,
    }
    assert first["usage"]["total"] == 100
    assert (second["usage"], second["timestamp"], second["error"], second["isBaseline"]) == (
        None,
        None,
        "error",
        None,
    )
    assert third["isBaseline"] is False


def test_observations_say_whether_they_are_lagged_and_come_to_the_posteriors(
    context: Context, tmp_path: Path
) -> None:
    observations = exported(context, tmp_path)["observations"]
    assert all(set(one["context"]) == {"lagged", "reason", "by", "run"} for one in observations)
    assert Counter(one["kind"] for one in observations) == {
        "automatic": 5,
        "correction": 1,
        "feedback": 1,
        "carried": 1,
    }
    assert {one["context"]["lagged"] for one in observations if one["kind"] == "automatic"} == {False}
    assert all(one["context"]["lagged"] for one in observations if one["kind"] != "automatic")
    (correction,) = [one for one in observations if one["kind"] == "correction"]
    assert correction["context"] == {"lagged": True, "reason": "it helped", "by": "mara", "run": "r3"}
    for one in queries.posteriors(context):
        own = [seen for seen in observations if seen["armId"] == one.arm]
        assert one.alpha == pytest.approx(one.prior.alpha + sum(s["reward"] * s["weight"] for s in own))
        assert one.beta == pytest.approx(one.prior.beta + sum((1 - s["reward"]) * s["weight"] for s in own))
        assert one.pulls == sum(seen["pulls"] for seen in own)


def test_json_can_be_read_by_another_learner_and_not_by_its_own(context: Context, tmp_path: Path) -> None:
    exported(context, tmp_path)
    with pytest.raises(UnreadableSource, match="can't go back into the learner it is from"):
        import_files(context, [tmp_path / "out.json"])
    other = context_at(tmp_path / "b.db")
    answer = import_files(other, [tmp_path / "out.json"])
    assert (answer.runs, answer.observed) == (3, 2)
    assert {one.arm for one in answer.differences} == {"tool:other:a", "tool:other:c", "skill:go:main"}
    assert queries.status(other).baseline.baseline_runs == 1


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_is_two_tables(context: Context, tmp_path: Path) -> None:
    answer = export_file(context, tmp_path / "out.csv", "csv")
    assert answer.observations_file == str(tmp_path / "out.observations.csv")
    posteriors = rows((tmp_path / "out.csv").read_text(encoding="utf-8"))
    observations = rows((tmp_path / "out.observations.csv").read_text(encoding="utf-8"))
    assert [one["armId"] for one in posteriors] == sorted(one.arm for one in queries.posteriors(context))
    assert len(observations) == answer.observations == 8
    assert Counter(one["lagged"] for one in observations) == {"false": 5, "true": 3}
    (feedback,) = [one for one in observations if one["kind"] == "feedback"]
    assert (feedback["reward"], feedback["by"], feedback["run"]) == ("0.25", "mara", "")
    assert feedback["reason"] == "'=cmd|' /C calc'!A0"


def test_an_export_writes_over_nothing_and_leaves_no_half(context: Context, tmp_path: Path) -> None:
    (tmp_path / "out.observations.csv").write_text("mine")
    with pytest.raises(InvalidInput, match="must not exist yet"):
        export_file(context, tmp_path / "out.csv", "csv")
    assert not (tmp_path / "out.csv").exists()
    assert (tmp_path / "out.observations.csv").read_text() == "mine"
    with pytest.raises(InvalidInput, match="must not exist yet"):
        export_file(context, tmp_path / "out.observations.csv")
    assert (tmp_path / "out.observations.csv").read_text() == "mine"
    with pytest.raises(InvalidInput, match="can't be written"):
        export_file(context, tmp_path / "no" / "such" / "folder")


def test_standard_output_takes_the_posteriors(context: Context) -> None:
    written = io.BytesIO()
    export_into(context, written, "-", "csv")
    assert len(rows(written.getvalue().decode())) == len(queries.posteriors(context))


def test_an_empty_learner_has_empty_lists(tmp_path: Path) -> None:
    found = exported(context_at(tmp_path / "e.db"), tmp_path)
    assert (found["posteriors"], found["traces"], found["observations"]) == ([], [], [])
    assert found["metrics"]["accuracy"] == 0


# --- cells ------------------------------------------------------------------------------------------------


@given(st.text())
def test_no_text_is_taken_for_a_formula(text: str) -> None:
    cell = defused(text)
    assert cell in {text, f"'{text}"}
    if cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        float(cell)  # a plain number may stand


@pytest.mark.parametrize(
    "text", ["=1", "+A1", "-A1", "@x", "\tx", "\r=1", "-1+1", "- 1", "-0.5-", "-.5", "+", "-∞"]
)
def test_formulas_are_defused(text: str) -> None:
    assert defused(text) == f"'{text}"


@given(st.lists(st.tuples(st.text(), st.one_of(st.none(), st.text()), st.floats(0, 1))))
def test_cells_come_back_as_they_were(made: list[tuple[str, str | None, float]]) -> None:
    observations = [
        Observed(
            arm_id=arm,
            kind="feedback",
            reward=value,
            weight=1.0,
            pulls=1,
            timestamp=0,
            context=RewardContext(reason=reason),
        )
        for arm, reason, value in made
    ]
    found = rows("".join(observations_as_csv(observations)))
    assert [(one["armId"], one["reason"], float(one["reward"])) for one in found] == [
        (defused(arm), defused(reason), value) for arm, reason, value in made
    ]
