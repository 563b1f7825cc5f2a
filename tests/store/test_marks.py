"""Every column of every table is damaged in turn: verify finds it, or a mark says that nothing contradicts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import core
from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record, reward
from core.store.covered import ENCODING, ENCODINGS
from core.store.tables import NUMBERED, metadata
from core.store.text_index import NAME
from tests.store.damaging import (
    Place,
    change_for_good,
    changed_and_checked,
    contradicted,
    draw_value,
    outcomes,
    rows_of,
    staged,
    tried,
    worlds,
)
from tests.store.marks import MARKS
from tests.worlds import a_run

pytestmark = pytest.mark.of_file

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
    "a learner that no list shows any more": "UPDATE learner SET revision = 0 WHERE learner_id = 1",
    "the time of the installation": "UPDATE learner SET created_at_ms = 5 WHERE learner_id = 0",
    "the first source of a run": (
        "UPDATE run SET import_no = 0 WHERE import_no <> 0 AND EXISTS (SELECT 1 FROM provenance p"
        " WHERE p.learner_id = run.learner_id AND p.kind = 'run' AND p.no = run.run_no)"
    ),
    "the layer that people named": (
        "UPDATE provenance SET no = no + 7 WHERE kind = 'layer' AND import_no = 0 AND said IS NULL"
    ),
    "the import that named a layer": (
        "UPDATE provenance SET import_no = 5 WHERE kind = 'layer' AND import_no = 4 AND said IS NULL"
    ),
    "when a layer was named": "UPDATE provenance SET revision = revision - 1 WHERE said IS NULL AND kind = 'layer'",
    "the steps of a recorded episode": (
        "UPDATE provenance SET rank = rank - 1 WHERE kind = 'episode' AND import_no = 0"
    ),
    "who judged, of an inactive observation": (
        "UPDATE observation SET actor = 'Eve' WHERE evaluation_no <> 0 AND standing = 0"
    ),
    "the reward of an inactive observation": (
        "UPDATE observation SET success_micro = failure_micro, failure_micro = success_micro"
        " WHERE evaluation_no <> 0 AND standing = 0"
    ),
    "who credited, of what is not in force": (
        "UPDATE observation SET actor = 'Eve' WHERE episode_credit_no <> 0 AND standing = 0"
    ),
    "a weight of a credit that is not in force": (
        "UPDATE observation SET success_micro = success_micro * 2, failure_micro = failure_micro * 2"
        " WHERE episode_credit_no <> 0 AND standing = 0 AND observation_no = (SELECT min(observation_no)"
        " FROM observation WHERE episode_credit_no <> 0 AND standing = 0)"
    ),
    "the number of an import in progress": (
        "UPDATE learner SET next_import_no = staged_import_no WHERE staged_import_no > 0"
    ),
    "what an import in progress keeps back": (
        "UPDATE learner SET revision = staged_revision WHERE staged_import_no > 0"
    ),
}

STAGED = (
    *("run", "outcome", "evidence", "decision", "spent", "spent_apart", "defined", "history"),
    *("staged_arm", "staged_day", "staged_hour", "staged_provenance", "staged_usage"),
)


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


def test_each_table_is_covered_or_derived_or_named_on_the_page() -> None:
    """`Marks` says of each column whether a change of it is found."""
    page = (Path(core.__file__).parent / "guide/promises.md").read_text(encoding="utf-8")
    rows = page.split("| why they are left out |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", rows))
    identity = {"learner_id", *(f"{name}_no" for name in NUMBERED)}
    found = {name for name, marks in MARKS.items() if {*marks.contradicted.split()} - identity}
    assert named == {*metadata.tables, NAME} - {*ENCODINGS[ENCODING]} - found


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
    assert (told.clean, told.replayed, told.not_replayed) == (True, 38, 2)


def test_draws_of_another_numpy_are_not_replayed(
    contexts: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numpy.__version__", "0.1")
    told = queries.verify(contexts[0])
    assert (told.clean, told.replayed, told.not_replayed) == (True, 0, 40)


@pytest.mark.parametrize("name", ["r", "1", "#1"])
def test_a_run_may_be_named_by_its_number(context: Context, name: str) -> None:
    record(context, a_run("r"))
    reward(context, "tool:other:a", 0.5, run=name, reason="half")
    assert queries.verify(context).differences == ()


@pytest.mark.parametrize("n", [250, pytest.param(10_000, marks=pytest.mark.long)])
def test_each_drawn_change_is_found_or_is_of_no_settled_act(contexts: list[Context], n: int) -> None:
    dice, missed, n_found = Random(37), [], 0
    for _ in range(n):
        context, place = draw_value(contexts, dice)
        result = tried(context, place, dice)
        n_found += result.is_found is True
        if result.is_found is False and result.excuse is None:
            missed.append((place, result.value))
    assert missed == []
    assert n_found > n * 2 // 5, "the draws change little"


def _after(folder: Path, at: int | None, dice: Random) -> tuple[bool, object]:
    """Damage a staged value and let the import settle; whether that or verify fails, and the runs and arms."""
    context, steps = staged(folder)
    with context.reading() as snapshot:
        revision = snapshot.revision
    if at is not None:
        places = [
            Place(table, column, tuple(row[one.name] for one in table.primary_key.columns), row[column.name])
            for table in map(metadata.tables.__getitem__, STAGED)
            for row in rows_of(context, table)
            for column in table.columns
            if row["learner_id"] == 1
            and (table.name != "run" or row["revision"] > revision)
            and f"{table.name}.{column.name}" != "run.changed"
        ]
        change_for_good(context, dice.choice(places), dice)
    try:
        for _ in steps:
            pass
        is_clean = queries.verify(context).clean
    except (ArmscopeError, LookupError):
        is_clean = False
    rows = [
        rows_of(context, metadata.tables[name])
        for name in ("run", "outcome", "arm", "posterior", "usage_day")
    ]
    context.store.close()
    return not is_clean, rows


def test_what_changes_while_an_import_is_staged_is_found_once_it_settles(tmp_path: Path) -> None:
    found, plain = _after(tmp_path / "plain", None, Random(1))
    assert not found
    n_found = 0
    for number in range(25):
        found, rows = _after(tmp_path / str(number), number, Random(number))
        n_found += found
        assert found or rows == plain, number
    assert n_found > 10


@pytest.mark.parametrize("what", LOST)
def test_what_vanishes_or_changes_is_found(contexts: list[Context], what: str) -> None:
    found = [
        one for one in (changed_and_checked(context, LOST[what]) for context in contexts) if one is not None
    ]
    assert found, "the worlds hold nothing that this would change"
    assert all(found)
