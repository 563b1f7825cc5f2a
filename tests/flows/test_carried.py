"""What a file believes without runs is carried, once; what it states beside its runs is compared."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from core.errors import UnreadableSource
from core.flows import look
from core.flows.desk import Desk
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.undo import redo, undo
from tests.flows.test_import_laws import seen
from tests.flows.world import desk_at, run_of
from tests.formats.builders import put
from tests.formats.test_openclaw_export import arm, posterior, trace
from tests.formats.test_qortex_db import database, state


def belief_of(desk: Desk, key: str) -> tuple[float, float, int]:
    (found,) = [one for one in look.posteriors(desk) if one.arm == key]
    return found.alpha, found.beta, found.pulls


def export(folder: Path, name: str = "export", **parts: object) -> Path:
    return put(folder, json.dumps(parts).encode(), name)


def test_a_qortex_database_is_carried_from_beta_1_1(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    rows = [state(), state(context="other", alpha=1.5, beta=1.0, pulls=1), state("skill:go:main", pulls=0)]
    answer = import_files(desk, [database(tmp_path, rows)])
    assert (answer.format, answer.runs, answer.ledger, answer.rejected_count) == ("qortex-db", 0, 2, 0)
    assert len(answer.notes) == 1
    assert belief_of(desk, "tool:fs:Read") == (4.0, 2.0, 4)
    assert belief_of(desk, "skill:go:main") == (3.5, 2.0, 0)
    assert look.verify(desk).clean
    (found, _) = look.rewards(desk)
    assert (found.kind, found.reason) == ("carried", "Carried from a qortex database.")


def test_carried_twice_is_once_whatever_the_file_is_called(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    import_files(desk, [database(tmp_path, [state()])])
    before = seen(desk)
    import_files(desk, [database(tmp_path, [state()], name="copy.sqlite")])
    import_files(desk, [export(tmp_path, posteriors=[posterior("tool:fs:Read", beta=2.0)])])
    assert seen(desk) == before


def test_a_later_state_is_refused_until_the_earlier_is_undone(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    first = import_files(desk, [database(tmp_path, [state()])])
    later = database(tmp_path, [state(alpha=9.5, pulls=9), state("tool:fs:Write")], name="later.db")
    answer = import_files(desk, [later])
    assert answer.rejected_count == 1
    assert "both would count twice" in answer.rejected[0].reason
    assert belief_of(desk, "tool:fs:Read") == (3.5, 2.0, 3)
    assert belief_of(desk, "tool:fs:Write") == (3.5, 2.0, 3)
    undo(desk, first.id)
    import_files(desk, [later])
    assert belief_of(desk, "tool:fs:Read") == (9.5, 2.0, 9)


def test_undone_it_was_never_imported_its_prior_included(tmp_path: Path) -> None:
    desk, other = desk_at(tmp_path / "a.db"), desk_at(tmp_path / "b.db")
    for one in (desk, other):
        record(one, run_of("r1"))
    before = seen(desk)
    answer = import_files(desk, [database(tmp_path, [state(), state("tool:other:a")])])
    assert seen(desk) != before
    undo(desk, answer.id)
    assert seen(desk) == before == seen(other)
    for one in (desk, other):  # an arm that comes later has its type's prior
        record(one, run_of("r2", arms=("x",), calls=("x",)))
        record(one, run_of("r3", inventory=None, arms=("a",)))
    assert seen(desk) == seen(other)
    redo(desk, answer.id)
    assert belief_of(desk, "tool:fs:Read") == (3.5, 2.0, 3)


def test_carried_beliefs_survive_our_own_export(tmp_path: Path) -> None:
    desk, other = desk_at(tmp_path / "a.db"), desk_at(tmp_path / "b.db")
    import_files(desk, [database(tmp_path, [state(), state("file:workspace:A.md", beta=1.7142857142857144)])])
    export_file(desk, tmp_path / "out.jsonl")
    import_files(other, [tmp_path / "out.jsonl"])
    assert look.posteriors(other) == look.posteriors(desk)
    import_files(other, [tmp_path / "learner.db"])
    assert look.posteriors(other) == look.posteriors(desk)


def test_a_database_with_nothing_to_carry_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="alpha of a carried belief"):
        import_files(desk_at(tmp_path / "a.db"), [database(tmp_path, [state(alpha=0.5)])])


def test_traces_are_learnt_by_their_class_and_posteriors_only_compared(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
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
    answer = import_files(desk, [export(tmp_path, traces=traces, posteriors=stated)])
    assert (answer.runs, answer.observed, answer.ledger) == (3, 2, 0)
    assert belief_of(desk, "tool:fs:read") == (5.0, 1.0, 2)
    assert belief_of(desk, "skill:pdf:main") == (3.0, 2.0, 1)
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
    status = look.status(desk)
    assert (status.baseline.baseline_runs, status.baseline.selected_runs) == (1, 2)
    again = import_files(desk, [tmp_path / "export"])
    assert (again.duplicates, again.differences) == (3, answer.differences)
    assert not [one for one in look.posteriors(desk) if one.arm == "memory:m:x"]


def test_what_one_file_states_is_not_held_against_another(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    one = export(tmp_path, "one", traces=[trace(arm("tool:fs:read", referenced=True), id="t1")])
    stated = [posterior("tool:fs:read", alpha=4.0, beta=1.0, pulls=1)]
    told = trace(arm("tool:fs:read", referenced=True), id="t2")
    two = export(tmp_path, "two", traces=[told], posteriors=stated)
    assert import_files(desk, [two, one]).differences == ()


def test_an_openclaw_export_without_traces_is_carried(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    metrics = {"learner": "openclaw"}
    answer = import_files(desk, [export(tmp_path, metrics=metrics, posteriors=[posterior("tool:fs:read")])])
    assert (answer.runs, answer.ledger) == (0, 1)
    assert belief_of(desk, "tool:fs:read") == (3.5, 1.0, 3)
    undo(desk, answer.id)
    assert look.posteriors(desk) == []


def test_a_carried_prior_stands_and_falls_with_its_import(tmp_path: Path) -> None:
    """Whatever else is told of the arm meanwhile, and in which order."""
    desk, other = desk_at(tmp_path / "a.db"), desk_at(tmp_path / "b.db")
    carried = database(tmp_path, [state("tool:other:a"), state("tool:other:b")])
    record(desk, run_of("r1"))
    answer = import_files(desk, [carried])
    assert belief_of(desk, "tool:other:a") == (4.5, 2.0, 4)  # Beta(1, 1) became its prior
    record(desk, run_of("r2"))
    undo(desk, answer.id)
    for uid in ("r1", "r2"):
        record(other, run_of(uid))
    assert [msgspec.structs.replace(one, last_updated=None) for one in look.posteriors(desk)] == [
        msgspec.structs.replace(one, last_updated=None) for one in look.posteriors(other)
    ]
    redo(desk, answer.id)
    import_files(other, [carried])
    assert look.verify(desk).clean
    assert [(one.arm, one.alpha, one.beta, one.prior) for one in look.posteriors(desk)] == [
        (one.arm, one.alpha, one.beta, one.prior) for one in look.posteriors(other)
    ]
