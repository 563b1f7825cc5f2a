"""Rehearsals: what they show is what the act does, and they leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.errors import Conflict, Denied, InvalidSetting, UnknownAct
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.flows.settings import change, change_all
from core.records.actor import Actor
from core.records.learner import LearnerSettings
from core.store import reads
from tests.formats.builders import lines
from tests.worlds import HOUR_MS, START_MS, a_run, context_at

A = "tool:other:a"
PRIOR = {"tool": {"alpha_micro": 2_000_000, "beta_micro": 7_000_000}}


@pytest.fixture
def context(context: Context, tmp_path: Path) -> Context:
    """One act of every kind."""
    record_all(context, [a_run(f"r{number}") for number in range(4)])
    runs = [
        {"kind": "run", "uid": f"i{number}", "arms": [A, "skill:new:main"], "calls": ["a"]}
        for number in range(3)
    ]
    (tmp_path / "runs.jsonl").write_bytes(lines(runs))
    import_files(context, [tmp_path / "runs.jsonl"])
    reward(context, A, 0.25)
    reset(context, arms=["tool:other:b"])
    change(context, "priors", PRIOR)
    return context


def state(context: Context) -> object:
    return (
        queries.revision(context),
        queries.posteriors(context),
        queries.changes(context),
        queries.frame(context).settings,
    )


@pytest.mark.parametrize("act", ["import-1", "reward-1", "reset-1", "setting-1"])
def test_an_undo_does_what_its_rehearsal_showed(context: Context, act: str) -> None:
    before = state(context)
    shown = queries.preview_undo(context, act)
    assert state(context) == before
    assert queries.verify(context).clean
    known = {one.arm: one for one in queries.posteriors(context)}
    undo(context, act)
    later = {one.arm: one for one in queries.posteriors(context)}
    assert shown.n_arms == (len(known), len(later))
    assert shown.n_pulls == tuple(sum(one.pulls for one in arms.values()) for arms in (known, later))
    assert shown.n_runs[1] == queries.revision(context).n_runs
    for arm in shown.moved:
        assert arm.pulls[1] == (later[arm.key].pulls if arm.key in later else None)
        assert arm.mean[1] == (later[arm.key].mean if arm.key in later else None)
    moved = [
        key
        for key in known.keys() | later.keys()
        if key not in known
        or key not in later
        or (known[key].mean, known[key].pulls) != (later[key].mean, later[key].pulls)
    ]
    assert shown.n_moved == len(moved)
    again = queries.preview_undo(context, act, again=True)
    redo(context, act)
    assert again.n_pulls[1] == shown.n_pulls[0]
    assert queries.posteriors(context) == list(known.values())


def test_a_rehearsal_asks_who_may(context: Context) -> None:
    jo = Context(store=context.store, actor=Actor(name="jo", role="reviewer"))
    with pytest.raises(Denied):
        queries.preview_undo(jo, "reward-1")
    with pytest.raises(Denied):
        queries.preview_settings(jo, {"k": 3})
    with pytest.raises(UnknownAct):
        queries.preview_undo(context, "import-9")


@pytest.mark.parametrize(
    "changes",
    [
        {"budget_tokens": 100, "k": 2},
        {"phase": "passive"},
        {"priors": PRIOR | {"skill": PRIOR["tool"]}},
        {"mode": "openclaw"},
    ],
)
def test_settings_do_what_their_rehearsal_showed(context: Context, changes: dict[str, object]) -> None:
    before = state(context)
    shown = queries.preview_settings(context, changes)
    assert state(context) == before
    change_all(context, changes, seen=queries.frame(context).settings)
    assert queries.frame(context).settings == shown.after
    assert queries.belief(context).summary.mean.tolist() == shown.summary_after.mean.tolist()
    assert queries.inclusion(context).chances == dict(
        zip(shown.columns.keys, shown.chance_after.tolist(), strict=True)
    )
    with context.reading() as snapshot:
        offered = reads.candidates(snapshot, shown.columns).n_offering(len(shown.columns)) / 7
    assert shown.n_arms[1] == pytest.approx(float(shown.chance_after @ offered))


def test_all_or_nothing(context: Context) -> None:
    before = state(context)
    with pytest.raises(InvalidSetting):
        change_all(context, {"k": 3, "baseline_rate": 2})
    assert state(context) == before
    with pytest.raises(InvalidSetting):
        queries.preview_settings(context, {"k": 3, "nonsense": 2})


def test_what_was_not_seen_is_not_overwritten(context: Context) -> None:
    seen = queries.frame(context).settings
    change(context, "k", 7)
    with pytest.raises(Conflict, match="another user"):
        change_all(context, {"k": 3}, seen=seen)
    assert change_all(context, {"min_pulls": 0}, seen=seen)[0].before == 5, "another setting may be changed"
    assert queries.frame(context).settings.k == 7
    assert queries.frame(context).settings != LearnerSettings()


def test_settings_of_an_undone_import_are_shown_as_undone(tmp_path: Path) -> None:
    context = context_at(tmp_path / "b.db")
    line = {"armscope": 1, "kind": "learner", "name": "x", "settings": {"k": 4}}
    run = {"kind": "run", "uid": "x", "arms": [A], "calls": ["a"]}
    (tmp_path / "out.jsonl").write_bytes(lines([line, run]))
    import_files(context, [tmp_path / "out.jsonl"])
    assert [(one.name, one.value, one.undone) for one in queries.setting_changes(context)] == [
        ("k", 4, False)
    ]
    assert queries.preview_undo(context, "import-1").settings == ("k",)
    undo(context, "import-1")
    assert [one.undone for one in queries.setting_changes(context)] == [True]


def test_an_arm_that_was_not_offered_lately_has_no_chance_anywhere(tmp_path: Path) -> None:
    """One question, one answer: the table, the arm's page and every preview say the same of every arm."""
    context = context_at(tmp_path / "a.db")
    record(context, a_run("old", "abcz", run_class="selected", at_ms=START_MS - HOUR_MS))
    recent = [
        a_run(f"r{number}", "abc" if number % 5 else "abcd", run_class="selected") for number in range(25)
    ]
    record_all(context, recent)
    change_all(context, {"k": 2, "seed_arms": (), "min_pulls": 0})
    z = "tool:other:z"
    seen = queries.inclusion(context)
    assert (seen.n_runs, seen.of) == (25, "chosen")
    assert set(seen.chances) == {f"tool:other:{name}" for name in "abcd"}
    assert queries.inclusion(context).chances == seen.chances
    assert (seen.arms[z].chance, seen.arms[z].no_break_even) == (None, "not_offered")
    assert seen.arms["tool:other:d"].n_offering == 5

    given = queries.preview_reward(context, z, 1.0)
    assert (given.before.chance, given.after.chance_error) == (None, None)
    assert queries.preview_reward(context, A, 1.0).before.chance == seen.chances[A]
    fresh = queries.preview_reset(context, types=["tool"])
    settings = queries.preview_settings(context, {"k": 3})
    errors = {key: one.standard_error for key, one in seen.arms.items() if one.standard_error is not None}
    for columns, chance, error in (
        (fresh.columns, fresh.chance_now, fresh.error_now),
        (settings.columns, settings.chance_before, settings.error_before),
    ):
        for told, here in ((chance, seen.chances), (error, errors)):
            shown = zip(columns.keys, told.tolist(), strict=True)
            assert {key: share for key, share in shown if not np.isnan(share)} == here
    assert np.isnan(fresh.chance_after[-1])
    baseline = (20 * 3 + 5 * 4) / 25  # everything offered goes in: k does not hold it back
    expected = pytest.approx(0.1 * baseline + 0.9 * 2, abs=0.02)
    assert settings.n_arms[0] == expected, "whatever was offered long ago"
    assert settings.n_tokens[0] == 0
