"""A repair takes back what a detector got wrong in a span, and nothing else, however the facts come and go."""

from __future__ import annotations

import json
from pathlib import Path

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, repair, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.records.answers import RepairAnswer
from core.records.times import iso
from tests.worlds import HOUR_MS, START_MS, context_at, lines_file, run_line
from tests.worlds.history import beliefs_by_arm
from tests.worlds.lively import part_line

A, B, C = (f"tool:other:{name}" for name in "abc")
BREAK_MS = START_MS + 10 * HOUR_MS
SINCE = iso(BREAK_MS) or ""


def file_of(folder: Path, name: str, *lines: dict[str, object]) -> Path:
    return lines_file(folder / f"{name}.jsonl", *lines)


def broken(folder: Path) -> Context:
    """Twenty runs, one an hour; from the tenth on a detector no longer sees arm b."""
    context = context_at(folder / "broken.db")
    runs = [
        run_line(f"r{hour}", "ab" if hour < 10 else "a", ended_at_ms=START_MS + hour * HOUR_MS, rank=1)
        for hour in range(20)
    ]
    import_files(context, [file_of(folder, "runs", *runs)])
    return context


def counts(context: Context, arm: str = B) -> tuple[float, float, int, int]:
    believed = beliefs_by_arm(context)[arm]
    return believed[0], believed[1], believed[2], believed[4]


def mended(context: Context, **fields: str) -> RepairAnswer:
    return repair(context, arms=[B], since=SINCE, **fields)


def test_only_the_arms_and_the_span_are_taken_back_and_an_undo_returns_them(tmp_path: Path) -> None:
    context = broken(tmp_path)
    before = beliefs_by_arm(context)
    assert counts(context) == (13, 11, 20, 20)
    preview = queries.preview_repair(context, [B], SINCE)
    assert beliefs_by_arm(context) == before, "a preview writes nothing"
    answer = mended(context, reason="a new version of the detector")
    assert (answer.observation_count, answer.referenced, answer.arm_ids) == (10, 0, (B,))
    assert counts(context) == (13, 1, 10, 20), "the prompts were as they were"
    assert {arm: beliefs_by_arm(context)[arm] for arm in (A, C)} == {arm: before[arm] for arm in (A, C)}
    (one,) = preview.arms
    assert (one.n, one.n_earlier, one.after.alpha, one.after.beta, one.after.pulls) == (10, 0, 13, 1, 10)
    (listed,) = queries.repairs(context)
    assert (listed.n_observations, listed.n_changed, listed.arms, listed.undone) == (10, 0, (B,), False)
    undo(context, answer.id)
    assert beliefs_by_arm(context) == before
    redo(context, answer.id)
    assert counts(context) == (13, 1, 10, 20)
    assert queries.verify(context).clean


def test_the_same_outcome_stays_taken_back_and_another_one_counts(tmp_path: Path) -> None:
    context = broken(tmp_path)
    answer = mended(context)
    again = [
        run_line("r10", "a", ended_at_ms=BREAK_MS, rank=2),
        run_line("r11", "ab", ended_at_ms=BREAK_MS, rank=2),
    ]
    imported = import_files(context, [file_of(tmp_path, "again", *again)])
    assert counts(context) == (14, 1, 11, 20)
    (note,) = imported.notes
    assert answer.id in note
    assert queries.repairs(context)[0].n_changed == 1
    undo(context, str(imported.id))
    assert counts(context) == (13, 1, 10, 20)
    assert queries.verify(context).clean


def test_reports_of_agents_are_automatic_too(tmp_path: Path) -> None:
    context = broken(tmp_path)
    report = part_line("x", B, 1_000_000, observation="reported", reward=0.0, at_ms=BREAK_MS + 1)
    import_files(context, [file_of(tmp_path, "report", report)])
    assert counts(context)[1] == 12
    answer = mended(context)
    assert answer.observation_count == 11
    assert counts(context)[:3] == (13, 1, 10)
    export_file(context, tmp_path / "lines.jsonl")
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "lines.jsonl"])
    undo(other, "repair-1")
    undo(context, answer.id)
    assert counts(context)[:3] == counts(other)[:3] == (13, 12, 21)
    assert queries.verify(context).clean
    assert queries.verify(other).clean


def test_an_export_carries_repairs_and_other_shapes_leave_out_what_they_took(tmp_path: Path) -> None:
    context = broken(tmp_path)
    mended(context, reason="broken")
    export_file(context, tmp_path / "lines.jsonl")
    other = context_at(tmp_path / "other.db")
    answer = import_files(other, [tmp_path / "lines.jsonl"])
    assert answer.ledger_by == {"repair": 1}
    assert beliefs_by_arm(other) == beliefs_by_arm(context)
    (here,), (there,) = queries.repairs(context), queries.repairs(other)
    assert (here.n_observations, here.arms, here.reason) == (there.n_observations, there.arms, there.reason)
    assert import_files(other, [tmp_path / "lines.jsonl"]).id is None, "known"
    export_file(context, tmp_path / "claw.json", "json")
    observations = json.loads((tmp_path / "claw.json").read_text())["observations"]
    assert sum(B in one.values() for one in observations) == 10


def test_the_reason_goes_with_its_author_and_a_stripped_export(tmp_path: Path) -> None:
    context = broken(tmp_path)
    mended(context, reason="mara broke it")
    assert erase(context, rater="mara").places
    (one,) = queries.repairs(context)
    assert "mara" not in f"{one.reason} {one.actor}"
    assert queries.verify(context).clean
