"""Covered: the columns that the chain covers, rows as facts, and what a statement changes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Column, Float

from core.records.layer import adapter_uri, layer_uid
from core.store.tables import ACTS, metadata

Row = tuple[Any, ...]
DESCRIPTION: Final = "said"
"""The column of what a source describes."""
ENCODING: Final = 2
"""The encoding of new links."""
_FIRST: Final = {
    "learner": "name origin created_at_ms sticky digest_key",
    "arm": "arm_no key type declared prior_alpha_micro prior_beta_micro",
    "run": "run_no uid import_no revision rank trace digest",
    "provenance": f"kind no import_no revision rank trace digest {DESCRIPTION}",
    "observation": (
        "observation_no uid kind arm_no run_no success_micro failure_micro pulls actor reason at_ms"
        " import_no revision evaluation_no episode_credit_no"
    ),
    "whole_reward": "observation_no",
    "achieved": "achieved_no uid run value actor at_ms import_no revision",
    "trial": "trial_no uid form plan content actor at_ms import_no revision",
    "experiment": "experiment_no uid form start_no content actor at_ms import_no revision",
    "assignment": (
        "assignment_no uid experiment_no session run side chance_micro n_fitting actor at_ms import_no revision"
    ),
    "adapter": "adapter_no uri name version",
    "layer": "layer_no uid",
    "execution": "execution_no uid adapter_no run_no session at_ms",
    "training_pair": "execution_no layer_no layer_index digest instruction response",
    "rubric": "rubric_no uid version content actor at_ms import_no revision",
    "evaluation": (
        "evaluation_no uid layer_no execution_no run_no arm_no rater model rubric blank outcome score"
        " feedback claimed_by mover supersedes actor at_ms import_no revision"
    ),
    "credit": "evaluation_no arm_no weight_micro",
    "judged_in": "evaluation_no browser named person",
    "browser": "browser_no uid browser named actor at_ms import_no revision",
    "choice": (
        "choice_no uid layer_no first_no second_no chosen rater rubric feedback actor at_ms import_no"
        " revision"
    ),
    "review_queue": (
        "review_queue_no uid name asks n_reviewers blind rubric control_micro due_ms actor at_ms import_no"
        " revision"
    ),
    "review_item": ("review_queue_no item_no layer_no execution_no run_no arm_no why control assigned_to"),
    "review_aside": "review_aside_no uid queue item_no reason final actor at_ms import_no revision",
    "environment": "environment_no name",
    "scale": (
        "scale_no uid environment_no step_lo step_hi lo hi threshold base gamma actor at_ms import_no"
        " revision"
    ),
    "episode": "episode_no uid format environment_no split task variant model at_ms",
    "step": (
        "episode_no step_no kind name reward finished refused at_ms n_chars_in n_chars_out args_digest"
        " meta_digest note extra"
    ),
    "step_text": "episode_no step_no digest asked answered",
    "episode_part": "episode_no name value kind",
    "episode_run": "episode_no run_no",
    "episode_credit": "episode_credit_no uid episode rule reward actor at_ms import_no revision",
    "erased": "digest at_ms",
    "note": "note_no uid arm_no text actor at_ms import_no revision",
    "reply": "kind no key payload answer",
    "reset": "reset_no uid target scope actor reason n_arms at_ms import_no revision",
    "reset_arm": "reset_no arm_no",
    "repair": ("repair_no uid since_ms until_ms actor reason n_arms n_observations at_ms import_no revision"),
    "retraction": "run_no arm_no observation_no repair_no referenced",
    "setting": "setting_no name value before actor at_ms revision",
    "import": "import_no actor summary at_ms revision",
    "undo": "undo_no kind no actor at_ms revision",
    "audit": "audit_no actor action act detail at_ms revision",
    "member": ("member_no issuer subject email name invited_until_ms not_before_ms removed_ms by at_ms"),
    "member_role": "member_no learner role",
    "token": ("token_no digest name scopes learners member_no by at_ms expires_ms revoked_ms is_bridge"),
    "webhook": "webhook_no url learner pages secret_from private by at_ms removed_ms",
    "bridge_sender": "channel sender member_no by at_ms",
    "mended": "link_no revision at_ms explained difference",
    "compaction": "compaction_no revision at_ms until_ms first_ms last_ms n_runs digest sums",
    "compacted": "uid_high uid_low compaction_no trace",
    "compacted_import": "import_no compaction_no n_runs",
}
ENCODINGS: Final[Mapping[int, Mapping[str, str]]] = {
    1: _FIRST,
    2: {**_FIRST, "run_text": "run_no trace messages"},
}
"""Columns of each table that a link covers, by encoding. A new column needs a new encoding; an old one never changes.
A new table changes no link, and a later encoding no digest of a table with the same columns.

A run's digest is that of its content, and a transcript's that of its text. A run with several sources has one fact
per source.
"""
_INSERT: Final = re.compile(r'INSERT INTO "?(\w+)"? \(([^)]*)\)\s+VALUES \(([^)]*)\)\s*(.*)', re.DOTALL)
_UPDATE: Final = re.compile(r'UPDATE "?(\w+)"? SET (.*?) WHERE (.*)', re.DOTALL)
_DELETE: Final = re.compile(r'DELETE FROM "?(\w+)"? WHERE (.*)', re.DOTALL)
_TABLE: Final = re.compile(r'(?:INSERT INTO|UPDATE|DELETE FROM) "?(\w+)"?')
_ASSIGNED: Final = re.compile(r"(?:^|, )(\w+) = ")
BY_KEY: Final = re.compile(r"learner_id = \?((?: AND \w+ = \?)*)")
APART: Final = frozenset(("run",))
"""Tables whose facts `core.store.runs` and `core.store.provenance` add."""
_FOLLOWS: Final = (
    ("provenance", "kind = 'run'", None),
    ("provenance", "kind = 'episode' AND no = ? AND import_no = 0", frozenset(("rank", "digest"))),
    ("observation", "evaluation_no <> 0", None),
)
"""Tables, parts of conditions, and columns (None: all) whose changes follow from other facts."""
_ARMS: Final = ("prior", "cost", "label")
"""Kinds of sources about arms, next to those named like their table."""
Columns = tuple[tuple[int | None, Any], ...]
"""The position of each column in the values of a statement, or None and its constant."""
TOGETHER: Final = frozenset(("observation", "undo", "audit"))
"""Tables whose rows of one revision have one digest, if no import added them."""
IMPORT_AT: Final = ENCODINGS[ENCODING]["observation"].split().index("import_no")


@cache
def encoding_of(table: str) -> int:
    """Return the encoding in which a table got the columns that it has now."""
    columns = ENCODINGS[ENCODING].get(table)
    return min(number for number, tables in ENCODINGS.items() if tables.get(table) == columns)


@cache
def columns_of(table: str) -> tuple[str, ...]:
    """Return the columns of a table that the chain covers; none where it covers none."""
    return tuple(ENCODINGS[ENCODING].get(table, "").split())


@cache
def key_of(table: str) -> tuple[str, ...]:
    """Return the columns of a table's key, without the learner's."""
    names = [column.name for column in metadata.tables[table].primary_key.columns]
    return tuple(name for name in names if name != "learner_id")


@cache
def default_of(table: str, name: str) -> str | int | None:
    """Return the value of a column that an INSERT leaves out."""
    column: Column[Any] = metadata.tables[table].columns[name]
    if column.server_default is None:
        return None
    written = str(getattr(column.server_default, "arg", ""))
    return written[1:-1] if written.startswith("'") else int(written)


@cache
def place_of(table: str, name: str) -> int:
    return columns_of(table).index(name)


def _replaced(row: Row, table: str, **values: object) -> Row:
    changed: list[Any] = list(row)
    for name, value in values.items():
        changed[place_of(table, name)] = value
    return tuple(changed)


def without_amounts(row: Row) -> Row:
    """Leave out the amounts of what follows from an evaluation or credit: they are recomputed."""
    return _replaced(row, "observation", success_micro=0, failure_micro=0, pulls=0, actor="", at_ms=0)


def _provenance(row: Row, _: str) -> Row | None:
    """Leave out sources of runs (facts of table run), those that only name, and the growth of recorded episodes."""
    kind, import_no, description = row[0], row[2], row[-1]
    if kind == "run" or (description is None and kind in {"layer", "execution"}):
        return None
    if kind == "episode" and import_no == 0:
        return _replaced(row, "provenance", rank=0, digest=0)
    return row


def _arm(row: Row, _: str) -> Row:
    """Keep of the origin only whether the arm was made on purpose: imports have the rest."""
    return _replaced(row, "arm", declared=row[place_of("arm", "declared")] & 1)


def _learner(row: Row, _: str) -> Row | None:
    """A learner is a fact once it has its identity."""
    return row if row[place_of("learner", "origin")] else None


def _adapter(row: Row, learner: str) -> Row | None:
    """Leave out the learner as an adapter: it follows from the name."""
    return None if row[1:] == (adapter_uri(learner), learner, None) else row


def _layer(row: Row, learner: str) -> Row | None:
    """Leave out the layer of the learner as an adapter."""
    return None if row[1] == layer_uid(adapter_uri(learner)) else row


def _transcript(row: Row, _: str) -> Row:
    """Return a transcript with the digest of its text, which `MESSAGES_DIGEST` has already."""
    run_no, trace, messages = row
    return row if type(messages) is bytes else (run_no, trace, sha256(messages.encode()).digest())


FACT_OF_ROW: Final[Mapping[str, Callable[[Row, str], Row | None]]] = {
    "provenance": _provenance,
    "arm": _arm,
    "learner": _learner,
    "adapter": _adapter,
    "layer": _layer,
    "run_text": _transcript,
}


@cache
def floats_of(table: str) -> tuple[int, ...]:
    columns = metadata.tables[table].columns
    return tuple(at for at, name in enumerate(columns_of(table)) if isinstance(columns[name].type, Float))


@cache
def differs(table: str) -> bool:
    """Return whether facts of a table may differ from its rows."""
    return table in FACT_OF_ROW or table == "observation" or bool(floats_of(table))


def has_joint_digest(table: str, fact: Row) -> bool:
    """Return whether a fact has its digest together with others of its revision: none of an import has."""
    return table in TOGETHER and (table != "observation" or fact[IMPORT_AT] == 0)


class Change(NamedTuple):
    """Change by a statement: its table and condition; for an INSERT its covered columns and those of the key."""

    kind: Literal["insert", "update", "delete"]
    table: str
    condition: str = ""
    n_assigned: int = 0
    columns: Columns = ()
    key: Columns = ()
    upsert: str = ""

    def select(self) -> str:
        return f"{selected(self.table)} WHERE {self.condition}"


def selected(table: str) -> str:
    """Return the SELECT of the covered columns of a table."""
    return f'SELECT {", ".join(columns_of(table))} FROM "{table}"'


@lru_cache(maxsize=1_024)
def change_of(sql: str) -> Change | None:
    """Return what a statement changes, or None without a covered column.

    Raises `ValueError` for a form that can't be followed, so that a test finds it.
    """
    named = _TABLE.match(sql)
    table = "" if named is None else named[1]
    covered = columns_of(table)
    if not covered or table in APART:
        return None
    if match := _INSERT.fullmatch(sql):
        return _insert(table, match[2].split(", "), match[3].split(", "), match[4])
    if match := _UPDATE.fullmatch(sql):
        assigned = {*_ASSIGNED.findall(match[2])}
        if _follows(table, match[3], assigned) or not assigned & {*covered}:
            return None
        if assigned & {*key_of(table)}:
            raise ValueError(f"The chain can't follow a key that changes: {sql}")
        return Change("update", table, match[3], match[2].count("?"))
    if match := _DELETE.fullmatch(sql):
        return None if _follows(table, match[2], set()) else Change("delete", table, match[2])
    raise ValueError(f"The chain can't follow this statement: {sql}")


def _follows(table: str, condition: str, assigned: set[str]) -> bool:
    """Return whether all that a statement changes follows from other facts."""
    return any(
        table == of and part in condition and (columns is None or assigned <= columns)
        for of, part, columns in _FOLLOWS
    )


def _insert(table: str, names: Sequence[str], values: Sequence[str], upsert: str) -> Change | None:
    if len(names) != len(values):
        raise ValueError(f"The chain can't follow values of {table}: {values}")
    positions: dict[str, tuple[int | None, Any]] = {}
    at = 0
    for name, value in zip(names, values, strict=True):
        positions[name] = (at, None) if value == "?" else (None, _constant(value))
        at += value == "?"
    if table == "provenance" and positions["kind"] == (None, "run"):
        return None
    return Change(
        "insert",
        table,
        columns=tuple(positions.get(name, (None, default_of(table, name))) for name in columns_of(table)),
        key=tuple(positions[name] for name in key_of(table)),
        upsert=upsert,
    )


@lru_cache(maxsize=256)
def covered_among(table: str, columns: tuple[str, ...]) -> Columns:
    """Return the position of each covered column among the columns of a statement, or its default."""
    return tuple(
        (columns.index(name), None) if name in columns else (None, default_of(table, name))
        for name in columns_of(table)
    )


def _constant(literal: str) -> str | int:
    return literal[1:-1] if literal.startswith("'") else int(literal)


@lru_cache(maxsize=256)
def counter_of(table: str, kind: object = None) -> str:
    """Return the counter of the numbers in a table's keys; a table with kinds has one for each."""
    if has_kinds(table):
        named = ACTS.get(str(kind), str(kind))
        return "arm" if named in _ARMS else named
    return next((name.removesuffix("_no") for name in key_of(table)[:1] if name.endswith("_no")), "")


@lru_cache(maxsize=256)
def has_kinds(table: str) -> bool:
    return key_of(table)[:1] == ("kind",)


@lru_cache(maxsize=256)
def changes_any(upsert: str) -> bool:
    """Return whether an upsert may change an existing row even if its new values are no fact."""
    return " DO UPDATE" in upsert and ".said IS NULL" not in upsert
