"""Sessions of experiments with the measures of their runs, and recent sessions that a plan needs.

A session counts for some hours from its assignment on, with outcomes that become known within some days more. Runs
that ended before it count too, because a session can be assigned after it began. Later runs are late: they change
nothing. Nothing depends on numbers or on the order of runs, so an import into another learner gives the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from core.columns import UNKNOWN, Bools, ExperimentSessions, Floats, Ints, ints
from core.detect.mentions import spellings
from core.maths.achieved import stated
from core.records.achieved import OutcomeSource
from core.records.arm import MICRO, Arm
from core.records.bill import AT_LEAST
from core.records.evidence import INCLUDED, NAMED, REFERENCED
from core.records.experiment import ExperimentPlan
from core.records.observation import digest
from core.records.review import QueueAsks
from core.records.times import DAY_MS, HOUR_MS
from core.store.chain import held_links
from core.store.engine.dialect import ACTIVE, ASSIGNMENTS_BY_EXPERIMENT, BY_NAME, BY_TIME, RUNS_BY_UID
from core.store.queues import active_queues
from core.store.reads.achieved import compared_outcomes, outcomes_there_are
from core.store.reads.arms import arm_number
from core.store.transaction import Facts

PAST_RUNS: Final = 10_000
PAST_DAYS: Final = 60
"""Latest runs that a plan reads, of so many days."""
_LOTS: Final = (1 << 53) - 1
_names: Final = msgspec.json.Decoder(list[str]).decode
_NEVER_OUT: Final = INCLUDED | NAMED | REFERENCED
_COLUMNS: Final = (
    "r.run_no, coalesce(r.at_ms, 0), CASE r.status WHEN 'error' THEN 1 ELSE 0 END,"
    f" coalesce(r.tokens, {UNKNOWN}), CASE r.bill_marks & {AT_LEAST} WHEN 0 THEN coalesce(r.bill_pico, {UNKNOWN})"
    f" ELSE {UNKNOWN} END, coalesce(r.duration_ms, {UNKNOWN}), coalesce(o.flags, {UNKNOWN}), r.reward"
)
_COUNTED: Final = f" AND r.{ACTIVE} AND r.outcome <> 'empty' AND r.revision <= ?"
_OF_ARM: Final = " LEFT JOIN outcome o ON o.learner_id = ?1 AND o.run_no = r.run_no AND o.arm_no = ?"
_ASSIGNED: Final = (
    "SELECT assignment_no, uid, CASE side WHEN 'with' THEN 1 ELSE 0 END, chance_micro, at_ms FROM assignment"
    f" {ASSIGNMENTS_BY_EXPERIMENT} WHERE learner_id = ? AND experiment_no = ? AND undone = 0 AND {ACTIVE}"
    " AND revision <= ? ORDER BY revision, assignment_no"
)
_RUNS: Final = tuple(
    f"SELECT a.assignment_no, r.class, r.choice, r.not_offered, r.revision, {_COLUMNS} FROM assignment a"
    f" {ASSIGNMENTS_BY_EXPERIMENT} CROSS JOIN run r {path}{_OF_ARM} WHERE r.learner_id = ?1"
    f" AND a.learner_id = ?1 AND a.experiment_no = ? AND a.undone = 0 AND a.{ACTIVE} AND {joined}{_COUNTED}"
    for path, joined in (
        (BY_NAME, "a.session <> '' AND r.session = a.session"),
        (RUNS_BY_UID, "a.run <> '' AND r.uid = a.run"),
    )
)
_PAST: Final = (
    f"SELECT coalesce(r.session, ''), {_COLUMNS} FROM run r {BY_TIME}{_OF_ARM} WHERE r.learner_id = ?1"
    f" AND r.at_ms >= ? AND r.at_ms <= ?{_COUNTED} ORDER BY r.at_ms DESC, r.run_no DESC LIMIT ?"
)


class _CountedRuns(NamedTuple):
    """Columns of runs, each with the index of its ``session``.

    An unknown end is 0, so it is never late. Unknown amounts are -1, and so are the flags where the arm was not
    on offer.
    """

    session: Ints
    number: Ints
    ended_ms: Ints
    failed: Ints
    tokens: Ints
    pico: Ints
    duration_ms: Ints
    flags: Ints
    stated: Ints

    @classmethod
    def of(cls, sessions: Sequence[int], columns: Sequence[Sequence[Any]]) -> _CountedRuns:
        """Return the columns of a query, whose last one is the stated reward."""
        *amounts, rewards = columns
        return cls._make(map(ints, (sessions, *amounts, [stated(one) for one in rewards])))

    def where(self, mask: Bools) -> _CountedRuns:
        return _CountedRuns(*(column[mask] for column in self))

    @property
    def began_ms(self) -> Ints:
        return self.ended_ms - np.maximum(self.duration_ms, 0)


class _Side(msgspec.Struct, frozen=True):
    experiment: str
    side: str


class _CarriedSide(msgspec.Struct, frozen=True):
    """The side that the selection of a run carries."""

    experiment: _Side | None = None


_choice: Final = msgspec.json.Decoder(_CarriedSide).decode


@dataclass(frozen=True, kw_only=True)
class PastSessions:
    """Recent sessions that offered an arm, as an experiment would count them.

    The columns are those of `ExperimentSessions`. ``used``: the arm was referenced. ``days`` is the time that the
    runs cover. ``largest_share`` is the largest share of runs with one session id. ``n_runs`` is the number counted.
    """

    used: Bools
    success: Floats
    known: Floats
    failures: Floats
    tokens: Floats
    money_pico: Floats
    duration_ms: Floats
    days: float
    largest_share: float
    n_runs: int

    def __len__(self) -> int:
        return len(self.used)


def experiment_sessions(
    facts: Facts, experiment_no: int, plan: ExperimentPlan, now_ms: int
) -> tuple[ExperimentSessions, int]:
    """Return the assigned sessions of an experiment, and the number of runs that came too late.

    A run came too late if it ended after the time of its session, or became known when no outcome counts any more.
    A run follows its side if its selection took the side from the assignment, and the arm was in or out accordingly.
    An imported run needs no selection.
    """
    numbers, ids, with_arm, chance, ends = _assigned(facts, experiment_no, plan)
    runs, (run_class, choice, not_offered, revision) = _runs_of(facts, experiment_no, plan.arm, numbers)
    line_id, latest = _line_id(facts, experiment_no), ends + plan.days * DAY_MS
    is_by_side = _took(line_id, with_arm[runs.session], run_class, choice)
    is_out = (np.maximum(runs.flags, 0) & _NEVER_OUT == 0) & ~_called(plan.arm, not_offered)
    is_in = np.maximum(runs.flags, 0) & (INCLUDED | NAMED) != 0
    is_followed = is_by_side & np.where(with_arm[runs.session], is_in, is_out)
    in_time = runs.ended_ms <= ends[runs.session]
    if line_id.startswith(f"{facts.origin}/"):  # another learner knew its own runs earlier
        in_time &= _known_ms(facts, ints(revision), now_ms) <= latest[runs.session]
    measures = _measured(facts, runs.where(in_time), ends, with_arm, source=plan.source, days=plan.days)
    has_run, is_over = ~np.isnan(measures["known"]), now_ms > latest
    sample_odds, in_sample = _sampled(facts, line_id, ids, with_arm, ends, days=plan.days)
    sessions = ExperimentSessions(
        with_arm=with_arm,
        chance=chance,
        has_ended=now_ms > ends,
        is_settled=(now_ms > ends) & (is_over | (measures["known"] == 1)),
        has_run=has_run,
        followed=~_any(runs.session[in_time & ~is_followed], len(ends)),
        in_sample=in_sample,
        sample_odds=sample_odds,
        **measures,
    )
    return sessions, int((~in_time).sum())


def _assigned(
    facts: Facts, experiment_no: int, plan: ExperimentPlan
) -> tuple[list[int], list[str], Bools, Floats, Ints]:
    """Return the assigned sessions in order: numbers, ids of lines, sides, chances, and when their time is over."""
    columns = facts.connection.columns(_ASSIGNED, [facts.learner_id, experiment_no, facts.revision])
    numbers, uids, *rest = columns
    side, chance_micro, at_ms = map(ints, rest)
    ids = [uid or f"{facts.origin}/assignment-{number}" for number, uid in zip(numbers, uids, strict=True)]
    return numbers, ids, side == 1, chance_micro / MICRO, at_ms + plan.hours * HOUR_MS


def first_end_ms(facts: Facts, experiment_no: int, plan: ExperimentPlan) -> int | None:
    """Return when the time of the first assigned session is over; None = none is assigned."""
    *_, ends = _assigned(facts, experiment_no, plan)
    return int(ends[0]) if len(ends) else None


def _runs_of(
    facts: Facts, experiment_no: int, arm: str, numbers: Sequence[int]
) -> tuple[_CountedRuns, list[list[Any]]]:
    """Return the runs of assigned sessions, with their classes, selections, called names not on offer, revisions."""
    values = [facts.learner_id, arm_number(facts, arm), experiment_no, facts.revision]
    both = [facts.connection.columns(sql, values) for sql in _RUNS]
    number, *columns = (list(chain(*one)) for one in zip(*both, strict=True))
    place = {one: index for index, one in enumerate(numbers)}
    return _CountedRuns.of([place[one] for one in number], columns[4:]), columns[:4]


def _known_ms(facts: Facts, revisions: Ints, now_ms: int) -> Ints:
    """Return when runs of these revisions became known: the time of the first link at or after each; else now.

    Revisions without a link only add up, so the links from the least revision on are among the last ones.
    """
    row = facts.row("SELECT chain_held, next_link_no FROM learner WHERE learner_id = ?")
    held, next_no = row or (None, 1)
    first = int(revisions.min(initial=facts.revision)) - facts.revision + next_no - 1
    sql = "SELECT revision, at_ms FROM link WHERE learner_id = ? AND link_no >= ? ORDER BY link_no"
    links = [*facts.rows(sql, [first]), *((one.revision, one.at_ms) for one in held_links(held))]
    known, at_ms = np.array([*links, (facts.revision + 1, now_ms)], dtype=np.int64).T
    return np.asarray(at_ms[np.searchsorted(known, revisions)])


def _sampled(
    facts: Facts, experiment: str, ids: Sequence[str], with_arm: Bools, ends: Ints, *, days: int
) -> tuple[Floats, Bools]:
    """Return the chance of the side with the arm to be drawn over that of the other, and which sessions were drawn.

    The first queue after a session's time can draw it, as long as an outcome can still count. NaN = no queue could.
    """
    odds, in_sample = np.full(len(ends), np.nan), np.zeros(len(ends), dtype=np.bool_)
    queues = [one for one in active_queues(facts) if one.asks.experiment == experiment]
    for queue in sorted(queues, key=lambda one: (one.at_ms, one.uid)):
        is_open = np.isnan(odds) & _can_be_judged(ends, days, queue.at_ms)
        ours, theirs = queue.asks.chances or (1, 1)
        odds[is_open] = ours / theirs
        lots = [lot(queue.asks, ids[index]) for index in np.flatnonzero(is_open).tolist()]
        in_sample[is_open] = lots < np.where(with_arm[is_open], ours, theirs)
    return odds, in_sample


def _can_be_judged(ends: Ints, days: int, now_ms: int) -> Bools:
    return np.asarray((ends < now_ms) & (now_ms <= ends + days * DAY_MS))


def lot(asks: QueueAsks, assignment: str) -> float:
    """Return the number in [0, 1) of an assigned session in a queue. The queue draws it if it is below the chance."""
    return (digest((asks.seed, assignment)) & _LOTS) / (_LOTS + 1)


def runs_to_judge(
    facts: Facts, experiment_no: int, plan: ExperimentPlan, now_ms: int
) -> Iterator[tuple[str, bool, int]]:
    """Yield the runs whose outcome can count, of sessions that no queue could draw yet.

    Each has the id of the assignment, whether its side is that with the arm, and its number.
    """
    numbers, ids, with_arm, _, ends = _assigned(facts, experiment_no, plan)
    runs, _ = _runs_of(facts, experiment_no, plan.arm, numbers)
    odds, _ = _sampled(facts, _line_id(facts, experiment_no), ids, with_arm, ends, days=plan.days)
    is_open = np.isnan(odds) & _can_be_judged(ends, plan.days, now_ms)
    counted = runs.where(is_open[runs.session] & (runs.ended_ms <= ends[runs.session]))
    rows = zip(counted.session.tolist(), counted.number.tolist(), strict=True)
    return ((ids[session], bool(with_arm[session]), number) for session, number in rows)


def _line_id(facts: Facts, experiment_no: int) -> str:
    sql = "SELECT uid FROM experiment WHERE learner_id = ? AND experiment_no = ?"
    return facts.scalar(str, sql, [experiment_no]) or f"{facts.origin}/experiment-{experiment_no}"


def _took(experiment: str, with_arm: Bools, run_class: Sequence[str], choices: Sequence[str | None]) -> Bools:
    """Return whether each run's selection took its side from the assignment; an imported one may have none."""
    sides = {True: _Side(experiment, "with"), False: _Side(experiment, "without")}
    carried = (None if one is None else _choice(one).experiment for one in choices)
    rows = zip(carried, with_arm.tolist(), run_class, strict=True)
    return _flags(one == sides[side] or (one is None and name == "imported") for one, side, name in rows)


def _called(arm: str, not_offered: Sequence[str | None]) -> Bools:
    """Return whether each run called the arm although it was not offered."""
    known = Arm(key=arm)
    calls = {known.name, *spellings(known)} if known.type == "tool" else set()
    return _flags(one is not None and not calls.isdisjoint(_names(one)) for one in not_offered)


def past_sessions(
    facts: Facts, arm: str, *, hours: int, days: int, source: OutcomeSource | None, now_ms: int
) -> PastSessions:
    """Return sessions of the last `PAST_DAYS` that offered an arm, among the latest `PAST_RUNS` runs.

    ``hours``, ``days`` and ``source`` are as in an experiment's plan. A session begins with its first run that
    offered the arm.
    """
    values = [facts.learner_id, arm_number(facts, arm), now_ms - PAST_DAYS * DAY_MS, now_ms]
    values += [facts.revision, PAST_RUNS]
    names, *columns = (one[::-1] for one in facts.connection.columns(_PAST, values))
    units = dict.fromkeys(name or number for name, number in zip(names, columns[0], strict=True))
    place = {unit: index for index, unit in enumerate(units)}
    runs = _CountedRuns.of([place[name or no] for name, no in zip(names, columns[0], strict=True)], columns)
    first_ms = int(runs.began_ms.min(initial=now_ms))
    begins = np.full(len(place), np.iinfo(np.int64).max)
    has_arm = runs.flags != UNKNOWN
    np.minimum.at(begins, runs.session[has_arm], runs.began_ms[has_arm])
    offers = _any(runs.session[has_arm], len(place))
    ends = np.where(offers, begins + hours * HOUR_MS * offers, 0)
    counted = runs.where(offers[runs.session] & (runs.ended_ms <= ends[runs.session]))
    used = _any(counted.session[(counted.flags > 0) & (counted.flags & REFERENCED != 0)], len(place))
    measures = _measured(facts, counted, ends, offers, source=source, days=days)
    return PastSessions(
        used=used[offers],
        days=min((now_ms - first_ms) / DAY_MS, PAST_DAYS),
        n_runs=len(counted.session),
        largest_share=max(Counter(filter(None, names)).values(), default=0) / max(len(names), 1),
        **{name: column[offers] for name, column in measures.items()},
    )


def _measured(
    facts: Facts, runs: _CountedRuns, ends: Ints, with_arm: Bools, *, source: OutcomeSource | None, days: int
) -> dict[str, Floats]:
    """Return the measures of sessions from their runs, with outcomes known some days after their ends."""
    session, none = runs.session, np.zeros(len(runs.session), dtype=np.bool_)
    (filled, _), latest = outcomes_there_are(facts), ends[session] + days * DAY_MS
    outcomes, _ = compared_outcomes(
        facts,
        runs.number.tolist(),
        runs.stated,
        with_arm[session],
        ~none,
        in_sample=none,
        filled=filled,
        order=None if source is None else (source,),
        until=dict(zip(runs.number.tolist(), latest.tolist(), strict=True)),
    )
    by_value = np.lexsort((outcomes, session))  # the sum is the same in any order of rows
    n = len(ends)
    n_runs, n_known = np.bincount(session, minlength=n), np.bincount(session, ~np.isnan(outcomes), n)
    total = np.bincount(session[by_value], np.nan_to_num(outcomes)[by_value], n)
    return {
        "success": _share(total, n_known),
        "known": _share(n_known, n_runs),
        "failures": _share(np.bincount(session, runs.failed, n), n_runs),
        "tokens": _total(session, runs.tokens, n_runs),
        "money_pico": _total(session, runs.pico, n_runs),
        "duration_ms": _total(session, runs.duration_ms, n_runs),
    }


def _share(part: Floats | Ints, whole: Floats | Ints) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0))


def _total(session: Ints, amounts: Ints, n_runs: Ints) -> Floats:
    """Return the exact totals of sessions; NaN where an amount is unknown, or there is no run."""
    exact = np.zeros(len(n_runs), dtype=np.int64)
    np.add.at(exact, session, amounts)
    totals = exact.astype(np.float64)
    totals[(n_runs == 0) | _any(session[amounts == UNKNOWN], len(n_runs))] = np.nan
    return totals


def _any(sessions: Ints, n: int) -> Bools:
    """Return whether each of ``n`` sessions is among ``sessions``."""
    return np.bincount(sessions, minlength=n) > 0


def _flags(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, dtype=np.bool_)
