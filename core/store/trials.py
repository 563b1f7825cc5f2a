"""Trials: plans, and results that were read, as facts; and the runs of their sessions.

A reading holds all cells of its source. So a file that grew is another reading of the same trial, and an undo gives
the earlier state back. Runs whose session a plan or reading names are of the trial (`core.store.provenance`): they
teach nothing and count nowhere while that fact is active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from core.records.ledger_lines import PlacedLine
from core.records.trial import PREFIX_CHARS, TrialLine, TrialPlan, TrialResults, session_prefix
from core.store.caches import shifting
from core.store.engine.dialect import ACTIVE, PRESENT
from core.store.provenance import runs_of_trials
from core.store.staging import spoil
from core.store.transaction import Byline, Facts, Snapshot, Transaction

_RUNS: Final = (
    "SELECT r.run_no FROM trial_session s JOIN run r ON r.learner_id = s.learner_id AND r.session = s.session"
    f" WHERE s.learner_id = ? AND s.trial_no = ? AND r.revision <= ? AND r.{PRESENT}",
    "SELECT r.run_no FROM trial_session s JOIN run r ON r.learner_id = s.learner_id"
    f" AND r.session >= substr(s.session, 1, {PREFIX_CHARS})"
    f" AND r.session < substr(s.session, 1, {PREFIX_CHARS - 1}) || '.'"
    " WHERE s.learner_id = ? AND s.trial_no = ? AND s.session LIKE '%-*'"
    f" AND r.revision <= ? AND r.{PRESENT}",
)
"""Runs of a fact's sessions: by their names, and by how the ids of a plan begin (a dot follows the hyphen)."""
_PRICED: Final = 1_000
"""Latest runs whose mean is the price of a run."""


class TrialFact(NamedTuple):
    """A plan or reading as stored. ``line_id`` names it in lines, ``plan`` the plan of a reading ("" = none)."""

    number: int
    line_id: str
    plan: str
    content: TrialPlan | TrialResults
    actor: str
    at_ms: int

    @property
    def id(self) -> str:
        """Return the id that `undo` takes."""
        return f"trial-{self.number}"


def add_trial(txn: Transaction, line: TrialLine, byline: Byline) -> int:
    """Append a plan or reading, and return its number; runs of its sessions are of the trial from now on."""
    spoil(txn)
    content = line.plan or _renamed(line.results, txn.erased.session)
    number = txn.append_fact(
        "trial",
        byline,
        form="reading" if line.plan is None else "plan",
        plan=line.of,
        content=msgspec.json.encode(content).decode(),
    )
    values = [value for session in sorted(_sessions(content)) for value in (session, number)]
    txn.connection.insert("trial_session", ("session", "trial_no"), txn.learner_id, values)
    with _settling(txn, [number]):
        return number


def _sessions(content: TrialPlan | TrialResults) -> set[str]:
    """Return the names of sessions that a fact names; one that ends with * is how they begin."""
    if isinstance(content, TrialPlan):
        return {f"{session_prefix(content)}*"}
    return {one.session for one in content.cells if one.session}


def _renamed(results: TrialResults | None, name_of: Callable[[str], str | None]) -> TrialResults:
    assert results is not None  # noqa: S101 - a line has a plan or results
    cells = [replace(one, session=name_of(one.session) or one.session) for one in results.cells]
    return replace(results, cells=tuple(cells))


# Runs


@contextmanager
def moving_trial(txn: Transaction, number: int, since: int) -> Iterator[None]:  # noqa: ARG001 - in any epoch
    """Update the caches around a change of a plan's or reading's state."""
    spoil(txn)
    with _settling(txn, [number]):
        yield


@contextmanager
def _settling(txn: Transaction, numbers: Sequence[int]) -> Iterator[None]:
    """Give the runs of some facts the state that follows from their trials after a change."""
    run_nos = trial_runs(txn, numbers)
    with shifting(txn, run_nos):
        yield
        of_trial = runs_of_trials(txn, run_nos)
        rows = [(2 if run_no in of_trial else 1, txn.learner_id, run_no) for run_no in run_nos]
        txn.connection.amend("run", {"standing": "?"}, ("run_no",), rows)


def settle_new_trials(txn: Transaction) -> None:
    """Settle the runs of the trials that this write added: an import may bring a trial before its runs."""
    last = txn.number("trial", 0)
    with _settling(txn, range(last - txn.n_numbered("trial"), last)):
        pass


def trial_runs(facts: Facts, numbers: Sequence[int]) -> list[int]:
    """Return the active runs of the sessions of some plans and readings."""
    run_nos = {
        run_no
        for number in numbers
        for sql in _RUNS
        for run_no in facts.column(sql, [number, facts.revision])
    }
    return sorted(run_nos)


# Reading


def trial_facts(facts: Facts) -> list[TrialFact]:
    """Return the active plans and readings, in the order of their revisions."""
    return [
        TrialFact(number, _line_id(facts, number, uid), plan, _decoded(form, content), actor, at_ms)
        for number, uid, form, plan, content, actor, at_ms in facts.rows(
            "SELECT trial_no, uid, form, plan, content, actor, at_ms FROM trial"
            f" WHERE learner_id = ? AND undone = 0 AND {ACTIVE} AND revision <= ? ORDER BY revision, trial_no",
            [facts.revision],
        )
    ]


def undone_trials(facts: Facts) -> dict[str, int]:
    """Return the numbers of undone plans and readings, by the ids of their lines."""
    rows = facts.rows(
        f"SELECT trial_no, uid FROM trial WHERE learner_id = ? AND NOT (undone = 0 AND {ACTIVE}) AND revision <= ?",
        [facts.revision],
    )
    return {_line_id(facts, number, uid): number for number, uid in rows}


def _line_id(facts: Facts, number: int, uid: str) -> str:
    return uid or f"{facts.origin}/trial-{number}"


def _decoded(form: str, content: str) -> TrialPlan | TrialResults:
    if form == "plan":
        return msgspec.json.decode(content, type=TrialPlan)
    return msgspec.json.decode(content, type=TrialResults)


def attempts_of(facts: Facts, environment: str, model: str) -> list[tuple[int, str, str | None]]:
    """Return environment, task and reward of active episodes with a task; '' = of any environment, or any model."""
    return facts.rows(
        "SELECT e.environment_no, e.task, e.total_text FROM episode e"
        " JOIN environment n ON n.learner_id = e.learner_id AND n.environment_no = e.environment_no"
        f" WHERE e.learner_id = ? AND e.{ACTIVE} AND e.task IS NOT NULL"
        " AND (? = '' OR n.name = ?) AND (? = '' OR e.model = ?)",
        [environment, environment, model, model],
    )


def cost_of_runs(facts: Facts, model: str) -> tuple[int, float | None, float | None]:
    """Return the number of the latest runs of a model ('' = of any), and their mean bill and tokens."""
    ((n, pico, tokens),) = facts.rows(
        "SELECT count(*), avg(bill_pico), avg(tokens) FROM (SELECT bill_pico, tokens FROM run WHERE learner_id = ?"
        f" AND {PRESENT} AND outcome <> 'empty' AND (? = '' OR model = ?) AND revision <= ?"
        " ORDER BY run_no DESC LIMIT ?) AS latest",
        [model, model, facts.revision, _PRICED],
    )
    return n, *(None if one is None else float(one) for one in (pico, tokens))


def model_days(facts: Facts) -> dict[str, tuple[int, int]]:
    """Return the first and last day of each model's runs."""
    rows = facts.rows(
        "SELECT model, min(day), max(day) FROM usage_day WHERE learner_id = ? AND n > 0 AND day >= 0"
        " AND model <> '' GROUP BY model"
    )
    return {model: (first, last) for model, first, last in rows}


# Lines


def trial_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone plans and readings as lines, after all runs."""
    for _, one in snapshot.acts("trial", "form", "content", of="t.plan"):
        content = _decoded(one.pop("form"), one.pop("content"))
        plan, results = (content, None) if isinstance(content, TrialPlan) else (None, content)
        yield snapshot.revision, TrialLine(plan=plan, results=results, **one)


# Erasing


def rename_sessions_of_trials(txn: Transaction, sessions: Mapping[str, str]) -> None:
    """Replace names of sessions in readings by numbers; runs of a plan stay its runs under their number."""
    numbers: set[int] = set()
    for name, other in sessions.items():
        beginning = f"{name[:PREFIX_CHARS]}*"
        for number, session in txn.rows(
            "SELECT trial_no, session FROM trial_session WHERE learner_id = ? AND session IN (?, ?)",
            [name, beginning],
        ):
            txn.add_row("trial_session", session=other, trial_no=number)
            if session == name:
                numbers.add(number)
        txn.run("DELETE FROM trial_session WHERE learner_id = ? AND session = ?", [name])
    for number, content in txn.rows_in(
        "SELECT trial_no, content FROM trial WHERE learner_id = ? AND trial_no IN ({})", sorted(numbers)
    ):
        results = _renamed(msgspec.json.decode(content, type=TrialResults), sessions.get)
        txn.set_row("trial", "trial_no = ?", [number], content=msgspec.json.encode(results).decode())


# Checking


def missing_sessions(facts: Facts) -> Iterator[tuple[int, str]]:
    """Yield the sessions that a plan or reading names and that are not stored as its own."""
    stored = {
        (number, session)
        for session, number in facts.each("SELECT session, trial_no FROM trial_session WHERE learner_id = ?")
    }
    for number, form, content in facts.rows("SELECT trial_no, form, content FROM trial WHERE learner_id = ?"):
        named = {(number, session) for session in _sessions(_decoded(form, content))}
        yield from sorted(named - stored)
