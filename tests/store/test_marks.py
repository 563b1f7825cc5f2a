"""Every column of every table is damaged in turn: verify finds it, or a mark says that nothing contradicts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record
from core.flows.reward import reward
from core.store.tables import metadata
from tests.flows.world import context_at, run_of
from tests.store.damaging import changed_and_checked, contradicted, outcomes, worlds
from tests.store.marks import MARKS

pytestmark = pytest.mark.of_file


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Context]]:
    made = worlds(tmp_path_factory.mktemp("worlds"))
    yield made
    for one in made:
        one.store.close()


def test_every_column_has_a_mark() -> None:
    there = {table.name: {column.name for column in table.columns} for table in metadata.sorted_tables}
    marked = {name: {*marks.contradicted.split(), *marks.plain.split()} for name, marks in MARKS.items()}
    assert marked == there, "a new column is contradicted by something else, or a plain fact"


def test_a_change_is_found_or_nothing_contradicts_it(contexts: list[Context]) -> None:
    wrong: dict[str, list[bool | None]] = {}
    for table in metadata.sorted_tables:
        found = outcomes(contexts, table, most=1)
        assert all(found.values()), f"the worlds have no row of {table.name}"
        marks = MARKS[table.name]
        wrong |= {
            f"{table.name}.{name}": tried
            for name, tried in found.items()
            if contradicted(tried) != (name in marks.contradicted.split())
        }
    assert wrong == {}


def test_draws_are_replayed(contexts: list[Context]) -> None:
    told = queries.verify(contexts[0])
    assert (told.clean, told.replayed, told.not_replayed) == (True, 27, 2)


def test_draws_of_another_numpy_are_not_replayed(
    contexts: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numpy.__version__", "0.1")
    told = queries.verify(contexts[0])
    assert (told.clean, told.replayed, told.not_replayed) == (True, 0, 29)


@pytest.mark.parametrize("name", ["r", "1", "#1"])
def test_a_run_may_be_named_by_its_number(tmp_path: Path, name: str) -> None:
    context = context_at(tmp_path / "a.db")
    record(context, run_of("r"))
    reward(context, "tool:other:a", 0.5, run=name, reason="half")
    assert queries.verify(context).differences == ()


LOST = {
    "the numbers that episodes are sorted by": "UPDATE episode SET total = total + 1, final = final + 1",
    "the arm of an evaluation": "UPDATE evaluation SET arm_no = 3 - arm_no WHERE arm_no <> 0",
    "the reward of a credit": "UPDATE episode_credit SET reward = 0.9",
    "a draw": "UPDATE decision SET draw = draw / 2 WHERE draw IS NOT NULL",
    "all notes": "DELETE FROM note",
    "all scales": "DELETE FROM scale",
    "the last undo": "DELETE FROM undo WHERE undo_no = (SELECT max(undo_no) FROM undo)",
    "an entry of the log": "DELETE FROM audit WHERE audit_no = 2",
    "an import that brought nothing else": "DELETE FROM import WHERE import_no = 1",
    "a run's version": "UPDATE run SET n_calls = n_calls + 1",
    "the digest of an inactive version": "UPDATE version SET digest = digest + 1",
}


@pytest.mark.parametrize("what", LOST)
def test_what_vanishes_or_changes_is_found(contexts: list[Context], what: str) -> None:
    found = [
        one for one in (changed_and_checked(context, LOST[what]) for context in contexts) if one is not None
    ]
    assert found, "the worlds hold nothing that this would change"
    assert all(found)
