"""What a file believes without runs is carried, once; what it states beside its runs is compared."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from core.errors import UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from tests.flows.test_import_laws import known_to
from tests.formats.builders import put
from tests.formats.test_openclaw_export import arm, posterior, trace
from tests.formats.test_qortex_db import database, state
from tests.worlds import a_run, context_at


def belief_of(context: Context, key: str) -> tuple[float, float, int]:
    (found,) = [one for one in queries.posteriors(context) if one.arm == key]
    return found.alpha, found.beta, found.pulls


def export(folder: Path, name: str = "export", **parts: object) -> Path:
    return put(folder, json.dumps(parts).encode(), name)


def test_a_qortex_database_is_carried_from_beta_1_1(context: Context, tmp_path: Path) -> None:
    rows = [state(), state(context="other", alpha=1.5, beta=1.0, pulls=1), state("skill:go:main", pulls=0)]
    answer = import_files(context, [database(tmp_path, rows)])
    assert (answer.format, answer.runs, answer.ledger, answer.rejected_count) == ("qortex-db", 0, 2, 0)
    assert len(answer.notes) == 1
    assert belief_of(context, "tool:fs:Read") == (4.0, 2.0, 4)
    assert belief_of(context, "skill:go:main") == (3.5, 2.0, 0)
    assert queries.verify(context).clean
    (found, _) = queries.rewards(context)
    assert (found.kind, found.reason) == ("carried", "Carried from a qortex database.")


def test_carried_twice_is_once_whatever_the_file_is_called(context: Context, tmp_path: Path) -> None:
    import_files(context, [database(tmp_path, [state()])])
    before = known_to(context)
    import_files(context, [database(tmp_path, [state()], name="copy.sqlite")])
    import_files(context, [export(tmp_path, posteriors=[posterior("tool:fs:Read", beta=2.0)])])
    assert known_to(context) == before


def test_a_later_state_is_refused_until_the_earlier_is_undone(context: Context, tmp_path: Path) -> None:
    first = import_files(context, [database(tmp_path, [state()])])
    later = database(tmp_path, [state(alpha=9.5, pulls=9), state("tool:fs:Write")], name="later.db")
    answer = import_files(context, [later])
    assert answer.rejected_count == 1
    assert "both would count twice" in answer.rejected[0].reason
    assert belief_of(context, "tool:fs:Read") == (3.5, 2.0, 3)
    assert belief_of(context, "tool:fs:Write") == (3.5, 2.0, 3)
    undo(context, first.id)
    import_files(context, [later])
    assert belief_of(context, "tool:fs:Read") == (9.5, 2.0, 9)


def test_undone_it_was_never_imported_its_prior_included(tmp_path: Path) -> None:
    context, other = context_at(tmp_path / "a.db"), context_at(tmp_path / "b.db")
    for one in (context, other):
        record(one, a_run("r1"))
    before = known_to(context)
    answer = import_files(context, [database(tmp_path, [state(), state("tool:other:a")])])
    assert known_to(context) != before
    undo(context, answer.id)
    assert known_to(context) == before == known_to(other)
    for one in (context, other):  # an arm that comes later has its type's prior
        record(one, a_run("r2", arms=("x",), calls=("x",)))
        record(one, a_run("r3", inventory=None, arms=("a",)))
    assert known_to(context) == known_to(other)
    redo(context, answer.id)
    assert belief_of(context, "tool:fs:Read") == (3.5, 2.0, 3)


def test_carried_beliefs_survive_our_own_export(tmp_path: Path) -> None:
    context, other = context_at(tmp_path / "a.db"), context_at(tmp_path / "b.db")
    import_files(
        context, [database(tmp_path, [state(), state("file:workspace:A.md", beta=1.7142857142857144)])]
    )
    export_file(context, tmp_path / "out.jsonl")
    import_files(other, [tmp_path / "out.jsonl"])
    assert queries.posteriors(other) == queries.posteriors(context)
    import_files(other, [tmp_path / "learner.db"])
    assert queries.posteriors(other) == queries.posteriors(context)


def test_a_database_with_nothing_to_carry_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="alpha of a carried belief"):
        import_files(context_at(tmp_path / "a.db"), [database(tmp_path, [state(alpha=0.5)])])


def test_traces_are_learnt_by_their_class_and_posteriors_only_compared(
    context: Context, tmp_path: Path
) -> None:
    read, skill = arm("tool:fs:read", referenced=True), arm("skill:pdf:main")
    traces = [
        trace(read, skill, id="t1", isBaseline=True),
        trace(read, arm("skill:pdf:main", included=False), id="t2"),
        trace(arm("tool:fs:read"), skill, id="t3"),
    ]
    stated = [
        posterior("tool:fs:read", alpha=5.0, beta=1.0, pulls=2),
        posterior("skill:pdf:main", alpha=3.0, beta=3.5, pulls=1),
        posterior("memory:m:x", alpha=3.0, beta=1.0, pulls=0),
    ]
    answer = import_files(context, [export(tmp_path, traces=traces, posteriors=stated)])
    assert (answer.runs, answer.observed, answer.ledger) == (3, 2, 0)
    assert belief_of(context, "tool:fs:read") == (5.0, 1.0, 2)
    assert belief_of(context, "skill:pdf:main") == (3.0, 2.0, 1)
    assert answer.differences_count == 1
    (found,) = answer.differences
    assert msgspec.structs.asdict(found) == {
        "arm": "skill:pdf:main",
        "stated_alpha": 3.0,
        "stated_beta": 3.5,
        "stated_pulls": 1,
        "alpha": 3.0,
        "beta": 2.0,
        "pulls": 1,
    }
    status = queries.status(context)
    assert (status.baseline.baseline_runs, status.baseline.selected_runs) == (1, 2)
    again = import_files(context, [tmp_path / "export"])
    assert (again.duplicates, again.differences) == (3, answer.differences)
    assert not [one for one in queries.posteriors(context) if one.arm == "memory:m:x"]


def test_what_one_file_states_is_not_held_against_another(context: Context, tmp_path: Path) -> None:
    one = export(tmp_path, "one", traces=[trace(arm("tool:fs:read", referenced=True), id="t1")])
    stated = [posterior("tool:fs:read", alpha=4.0, beta=1.0, pulls=1)]
    told = trace(arm("tool:fs:read", referenced=True), id="t2")
    two = export(tmp_path, "two", traces=[told], posteriors=stated)
    assert import_files(context, [two, one]).differences == ()


def test_an_openclaw_export_without_traces_is_carried(context: Context, tmp_path: Path) -> None:
    metrics = {"learner": "openclaw"}
    answer = import_files(
        context, [export(tmp_path, metrics=metrics, posteriors=[posterior("tool:fs:read")])]
    )
    assert (answer.runs, answer.ledger) == (0, 1)
    assert belief_of(context, "tool:fs:read") == (3.5, 1.0, 3)
    undo(context, answer.id)
    assert queries.posteriors(context) == []


def test_a_carried_prior_stands_and_falls_with_its_import(tmp_path: Path) -> None:
    """Whatever else is told of the arm meanwhile, and in which order."""
    context, other = context_at(tmp_path / "a.db"), context_at(tmp_path / "b.db")
    carried = database(tmp_path, [state("tool:other:a"), state("tool:other:b")])
    record(context, a_run("r1"))
    answer = import_files(context, [carried])
    assert belief_of(context, "tool:other:a") == (4.5, 2.0, 4)  # Beta(1, 1) became its prior
    record(context, a_run("r2"))
    undo(context, answer.id)
    for uid in ("r1", "r2"):
        record(other, a_run(uid))
    assert [msgspec.structs.replace(one, last_updated=None) for one in queries.posteriors(context)] == [
        msgspec.structs.replace(one, last_updated=None) for one in queries.posteriors(other)
    ]
    redo(context, answer.id)
    import_files(other, [carried])
    assert queries.verify(context).clean
    assert [(one.arm, one.alpha, one.beta, one.prior) for one in queries.posteriors(context)] == [
        (one.arm, one.alpha, one.beta, one.prior) for one in queries.posteriors(other)
    ]
