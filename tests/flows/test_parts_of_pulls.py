"""Observations of weight below 1 add their weight to the pulls: what counts pulls takes the whole part of the sum."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import BAND_FLOORS, BANDS, MICRO, Posterior
from core.records.observation import Amount
from core.records.run_query import View
from core.records.times import iso
from tests.waiting import memory_folder
from tests.worlds import HOUR_MS, START_MS, context_at, lines_file, run_line
from tests.worlds.lively import THIRDS, part_line

ARM = "tool:other:a"


def import_weights(
    context: Context, folder: Path, weights: Sequence[int], arm: str = ARM, name: str = "part"
) -> None:
    """Let an import tell observations of these weights."""
    lines = [part_line(f"{name} {place}", arm, weight) for place, weight in enumerate(weights)]
    import_files(context, [lines_file(folder / f"{name}.jsonl", *lines)])


def of(context: Context, arm: str = ARM) -> Posterior:
    (found,) = [one for one in queries.posteriors(context) if one.arm == arm]
    return found


@settings(max_examples=40, deadline=None)
@given(weights=st.lists(st.integers(1, MICRO) | st.sampled_from(THIRDS), min_size=1, max_size=60))
def test_pulls_are_the_whole_part_of_all_weights(weights: list[int]) -> None:
    with TemporaryDirectory(dir=memory_folder()) as place:
        context = context_at(Path(place) / "a.db")
        import_weights(context, Path(place), weights)
        found, whole = of(context), sum(weights) // MICRO
        assert found.pulls == whole
        assert found.pulls_exact == (sum(weights) / MICRO if sum(weights) % MICRO else None)
        assert found.confidence == BANDS[sum(whole >= floor for floor in BAND_FLOORS) - 1]
        amounts = [Amount.of(0.75, weight) for weight in weights]
        assert found.alpha == (3 * MICRO + sum(one.success_micro for one in amounts)) / MICRO
        assert found.beta == (MICRO + sum(one.failure_micro for one in amounts)) / MICRO
        assert queries.status(context).pulls == whole
        assert queries.unread(context).n_unread == 0
        assert queries.verify(context).clean
        context.store.close()


def test_a_part_alone_lists_its_arm_and_is_its_newest_observation(context: Context, tmp_path: Path) -> None:
    import_weights(context, tmp_path, [1])
    newer = part_line("newer", ARM, 2, at_ms=START_MS + HOUR_MS)
    act = import_files(context, [lines_file(tmp_path / "newer.jsonl", newer)])
    found = of(context)
    assert (found.pulls, found.pulls_exact, found.last_updated) == (0, 0.000003, iso(START_MS + HOUR_MS))
    assert act.id is not None
    assert queries.preview_undo(context, act.id).n_moved == 1
    assert of(replace(context)).inclusions == 0


def test_a_minimum_of_pulls_is_reached_by_whole_ones(context: Context, tmp_path: Path) -> None:
    change(context, "baseline_rate", 0.0)
    import_weights(context, tmp_path, [*THIRDS] * 4 + [999_999], name="nearly")
    assert [one.reason for one in select(context).decisions] == ["under_explored"]
    import_weights(context, tmp_path, [1], name="rest")
    assert [one.reason for one in select(context).decisions] == ["draw"]


def test_a_correction_adds_no_part_whatever_its_weight(context: Context, tmp_path: Path) -> None:
    light = part_line("light", ARM, 400_000, run="r", observation="correction")
    import_files(context, [lines_file(tmp_path / "run.jsonl", run_line("r"), light)])
    found = of(context)
    assert (found.pulls, found.pulls_exact) == (1, None)
    assert (found.alpha, found.beta) == (3.3, 1.1)
    assert queries.unread(context).n_unread == 0
    assert queries.verify(context).clean


def test_an_arms_past_and_its_days_count_them_too(context: Context, tmp_path: Path) -> None:
    days = [part_line(f"day {day}", ARM, 400_000, at_ms=START_MS + 24 * HOUR_MS * day) for day in range(5)]
    import_files(context, [lines_file(tmp_path / "days.jsonl", *days)])
    path = queries.arm_path(context, ARM).path
    assert path.pulls[:5].tolist() == [0, 0, 1, 1, 2]
    then = queries.posteriors(context, View(until_ms=START_MS + (24 * 2 + 1) * HOUR_MS))
    assert [(one.pulls, one.pulls_exact) for one in then] == [(1, 1.2)]
    assert [one.last_updated is None for one in then] == [False]


def test_other_programs_are_told_whole_pulls_and_each_weight(context: Context, tmp_path: Path) -> None:
    import_weights(context, tmp_path, [700_000, 700_000])
    export_file(context, tmp_path / "export.json", format="json")
    found = json.loads((tmp_path / "export.json").read_text())
    assert (found["metrics"]["total_pulls"], found["metrics"]["accuracy"]) == (1, 0.75)
    assert [one["pulls"] for one in found["posteriors"]] == [1]
    assert [(one["pulls"], one["weight"]) for one in found["observations"]] == [(0, 0.7), (0, 0.7)]
