"""The rules by which the tables may be spread over many servers by learner, checked without any.

A server of many can keep a key only within a learner, and asks one server alone only where a statement names its
learner by number. So every key holds ``learner_id``, and so does every statement, but those that are about all.
"""

from __future__ import annotations

import re

import pytest
from sqlalchemy import ForeignKeyConstraint, PrimaryKeyConstraint, Table, UniqueConstraint

from core.store.engine import dialect
from core.store.tables import metadata
from tests.store.said import Said

KEYS_WITHOUT = {
    "learner_name(name)": "names are unique among all learners: a small table that every server has whole",
    "learner(name)": "the same, said again where it is one server's",
}
"""Keys that do not hold the learner, each with its reason."""

ABOUT_ALL = {
    "core/store/transaction.py:number_of": "a learner is looked up by its name, once in a process",
    "core/store/transaction.py:Transaction._make": "a learner is made: the number is given by the insert",
    "core/store/transaction.py:has_others": "whether there is another, before the default one is meant by guessing",
    "core/store/transaction.py:unknown_learner": "the error names those there are",
    "core/store/staging.py:sweep": "what is left of an import that died, whoever's it was",
    "core/store/reads/log.py:_moments": "the list of learners, where one server has them all",
    "core/store/reads/log.py:numbered": "the list of learners, from the small table of their names",
    "core/store/reads/runs.py:n_runs": "how large a backup is",
    "core/store/reads/runs.py:n_compacted": "how many compacted runs a backup has",
    "core/store/reads/runs.py:n_runs_beyond": "two databases are compared before one takes the other's place",
    "core/store/reads/runs.py:n_acts_beyond": "the same of their acts",
    "core/store/fleet.py:_moments_of": "learners at a glance: a list of numbers",
    "core/store/fleet.py:_glances_of.<locals>.by_learner": "the same",
    "core/store/fleet.py:_glances_of": "the same",
    "core/store/links.py:build": "the learners whose chains an upgrade has not finished",
    "core/store/text_index.py:_with_texts": "the learners whose texts an upgrade or a copy indexes",
    "core/store/store.py:Store.write.<locals>.act": "whether the schema is that of this process, from one row",
    "core/store/store.py:Store.stage.<locals>.act": "the same",
    "core/store/store.py:Store._begun": "the same",
    "core/store/store.py:Store._look_over": "the same",
    "core/store/check.py:_unnamed": "whether each learner has its name",
    "core/store/check.py:_hidden": "learners that no list shows",
    "core/store/reads/log.py:heads": "the heads of all learners beside a backup",
    "core/store/store.py:copy_rows": "a whole database is copied, table by table",
    **dict.fromkeys(
        (
            *(f"core/store/reads/training.py:{one}" for one in ("_of_pairs", "_of_executions", "_of_runs")),
            *(f"core/store/reads/reviewable.py:{one}" for one in ("_judged", "_judged_executions")),
            *(f"core/store/reads/evaluations.py:{one}" for one in ("evaluation_columns", "evaluation_page")),
            "core/store/reads/evaluations.py:evaluated_names",
            "core/store/review.py:board_of",
            "core/store/reads/reviewable.py:judged_last",
            "core/store/reads/evaluations.py:_rated",
        ),
        "the browser of a judgement, of the learner of its row, which the statement names",
    ),
}
"""What is asked of all learners, by who asks it, each with its reason."""
LOOKS_AFTER = ("core/store/damage.py:", "core/store/schema.py:", "core/store/views.py:")
"""Whoever looks after one file, page by page: another engine has its own."""

_BOUND = re.compile(r"\blearner_id = \?")
_INSERT = re.compile(r"INSERT INTO \w+ \((learner_id\b)?")


def bound(sql: str) -> bool:
    """Whether a statement goes to one learner: whoever writes rows says whose, whoever asks for some whose, too."""
    into = _INSERT.match(sql)
    if into is not None and " SELECT " not in sql:
        return into[1] is not None
    branches = [
        branch
        for query in queries_of(sql)
        for branch in re.split(r"\bUNION(?: ALL)?\b", query)
        if "FROM" in branch or query == sql
    ]
    return all(_BOUND.search(branch) for branch in branches) and (into is None or into[1] is not None)


def queries_of(sql: str) -> list[str]:
    """A statement and the queries inside it, each with what is inside it: of none another server may have to know.

    >>> queries_of("SELECT (SELECT max(a) FROM b WHERE c IN (1)) FROM d")
    ['SELECT (SELECT max(a) FROM b WHERE c IN (1)) FROM d', 'SELECT max(a) FROM b WHERE c IN (1)']
    """
    found = [sql]
    for begin in re.finditer(r"\((?=SELECT\b)", sql):
        depth, end = 1, begin.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        found.append(sql[begin.end() : end - 1])
    return found


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_every_key_holds_the_learner(table: Table) -> None:
    keys = [
        one
        for one in table.constraints
        if isinstance(one, PrimaryKeyConstraint | UniqueConstraint | ForeignKeyConstraint)
    ]
    assert keys
    columns = [
        *([*one.columns.keys()] for one in keys),
        *([*index.columns.keys()] for index in table.indexes),
    ]
    without = {f"{table.name}({', '.join(key)})" for key in columns if key[0] != "learner_id"}
    assert without <= KEYS_WITHOUT.keys()


def test_every_exception_among_the_keys_is_there() -> None:
    there = {
        f"{table.name}({', '.join(one.columns.keys())})"
        for table in metadata.sorted_tables
        for one in table.constraints
        if isinstance(one, UniqueConstraint)
    }
    assert KEYS_WITHOUT.keys() <= there


@pytest.mark.of_file  # what is stated to a file is said to a server, too, and more
def test_every_statement_is_bound_to_one_learner_but_those_that_are_named(said: Said) -> None:
    speak = dialect.speaker(dialect.POSTGRESQL)
    free = {by: sql for sql, one in said.statements.items() if not bound(speak(sql)) for by in one.by}
    unnamed = {by: sql for by, sql in free.items() if by not in ABOUT_ALL and not by.startswith(LOOKS_AFTER)}
    assert unnamed == {}, "bind it to its learner, or name it with its reason"
    assert ABOUT_ALL.keys() <= free.keys(), "these are bound to one learner by now"
    assert len(ABOUT_ALL) < len(said.statements) / 20


@pytest.mark.of_file  # what is stated to a file is said to a server, too, and more
def test_a_learner_is_written_by_its_number(said: Said) -> None:
    """Of an act every statement goes where the learner is; its row above all, which every act begins with."""
    updates = [sql for sql in said.statements if re.match(r"(UPDATE|DELETE FROM) ", sql)]
    assert any(sql.startswith("UPDATE learner ") for sql in updates)
    assert [sql for sql in updates if not _BOUND.search(sql)] == []


@pytest.mark.parametrize(
    ("sql", "goes_to_one"),
    [
        ("SELECT 1 FROM run WHERE learner_id = ?", True),
        ("SELECT 1 FROM run r WHERE r.learner_id = ? AND r.uid = ?", True),
        ("SELECT 1 FROM run r JOIN learner l ON l.learner_id = r.learner_id", False),
        ("SELECT 1 FROM run WHERE learner_id = ? UNION ALL SELECT 1 FROM arm WHERE key = ?", False),
        ("UPDATE learner SET revision = revision + 1 WHERE name = ?", False),
        (
            "SELECT (SELECT 1 FROM arm a WHERE a.learner_id = r.learner_id) FROM run r WHERE r.learner_id = ?",
            False,
        ),
        ("SELECT (SELECT 1 FROM arm a WHERE a.learner_id = ?1) FROM run r WHERE r.learner_id = ?1", True),
        ("INSERT INTO arm (learner_id, key) VALUES (?, ?)", True),
        ("INSERT INTO arm (arm_no, key) VALUES (?, ?)", False),
        ("INSERT INTO arm (learner_id, key) SELECT learner_id, key FROM staged_arm", False),
    ],
)
def test_what_goes_to_every_server_is_found(sql: str, *, goes_to_one: bool) -> None:
    assert bound(sql) is goes_to_one
