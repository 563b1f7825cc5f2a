"""Subjects of a review: runs, arms in runs, executions and their layers, with their evaluations.

Pairs of answers to one instruction are for comparison by a reviewer. Beside them are active rubrics with their uses,
and a person's latest judgements with a model grader's of the same subject.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from core.errors import InvalidInput
from core.records.evaluation import Subject
from core.records.evidence import INCLUDED, NAMED, REFERENCED
from core.records.review import NEEDED, ItemText, MyJudgement, QueueAsks, Rubric, RubricRow, Suggestion
from core.records.run_page import Direction
from core.records.run_query import RunFilter, View
from core.store.browsers import RATER
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_RUN, EVALUATIONS_BY_KEY, EVALUATIONS_BY_RUN
from core.store.queues import Placed
from core.store.reads.arms import arm_number
from core.store.reads.run_pages import run_numbers
from core.store.reads.runs import find_run, missing_run
from core.store.transaction import Facts, Snapshot

LOOKED_AT_MOST: Final = 20_000
"""Runs or executions that are looked at for one queue."""
_CHUNK: Final = 500
_MOST_TEXTS: Final = 20
_EVER: Final = 1 << 62

_RATED: Final = f"CASE WHEN e.model = '' THEN {RATER} END AS person, e.outcome, e.score"
_SUMS: Final = (  # who is named by nothing is one person
    "count(*), count(DISTINCT person),"
    " sum(CASE WHEN outcome = 'success' THEN 1 ELSE 0 END),"
    " sum(CASE WHEN outcome = 'success' THEN coalesce(score, 1.0) ELSE 0.0 END)"
)

_COUNTED: Final = 1_000
_LEFT: Final = (
    " FROM training_pair a JOIN training_pair b ON b.learner_id = a.learner_id AND b.digest = a.digest"
    " AND b.digest <> '' AND b.layer_no = a.layer_no AND b.execution_no > a.execution_no"
    f" JOIN execution x ON x.learner_id = a.learner_id AND x.execution_no = a.execution_no AND x.{ACTIVE}"
    f" JOIN execution y ON y.learner_id = b.learner_id AND y.execution_no = b.execution_no AND y.{ACTIVE}"
    " LEFT JOIN run r ON r.learner_id = x.learner_id AND r.run_no = x.run_no"
    " LEFT JOIN run s ON s.learner_id = y.learner_id AND s.run_no = y.run_no"
    " WHERE a.learner_id = ?1 AND a.digest <> '' AND (? = 0 OR a.layer_no = ?)"
    " AND coalesce(r.standing, 1) = 1 AND coalesce(s.standing, 1) = 1"
    " AND a.response IS NOT NULL AND b.response IS NOT NULL AND a.response <> b.response"
    " AND NOT EXISTS (SELECT 1 FROM choice c WHERE c.learner_id = ?1 AND c.layer_no = a.layer_no"
    f" AND c.rater = ? AND c.{ACTIVE} AND c.undone = 0 AND ((c.first_no = a.execution_no AND c.second_no ="
    " b.execution_no) OR (c.first_no = b.execution_no AND c.second_no = a.execution_no)))"
)


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A subject of review, by its numbers (0 = none).

    ``score`` is the mean of its judgements, where a failure counts 0, or its reward if that is lower. It is from 0 to
    1, None without either. ``n_people`` have judged it. ``minority`` is the share of its judgements, models included,
    that differ from most, from 0 to a half. ``was_used``: its run used the arm.
    """

    layer_no: int
    execution_no: int
    run_no: int
    arm_no: int
    at_ms: int | None
    score: float | None = None
    n_people: int = 0
    n_judged: int = 0
    minority: float = 0.0
    was_used: bool = False

    @property
    def about(self) -> Placed:
        """The numbers together; there are many candidates, of which few become items."""
        return Placed(self.layer_no, self.execution_no, self.run_no, self.arm_no)


class _Judged(NamedTuple):
    """Judgements of one subject; ``worth`` is the sum of the scores of successes."""

    n: int
    n_people: int
    n_successes: int
    worth: float


def reviewable(snapshot: Snapshot, asks: QueueAsks) -> Iterator[Candidate]:
    """Return the subjects that a queue asks for: oldest or newest first, or runs as they are named.

    The caller applies every source but ``runs``, and the order. Raises `UnknownRun` for a named run that does not
    exist.
    """
    if asks.about in {"execution", "layer"}:
        yield from _executed(snapshot, asks)
        return
    runs = _runs(snapshot, asks)
    while times := dict(islice(runs, _CHUNK)):
        yield from _of_runs(snapshot, times) if asks.about == "run" else _of_arms(snapshot, times, asks)


def _runs(snapshot: Snapshot, asks: QueueAsks) -> Iterator[tuple[int, int | None]]:
    if asks.source != "runs":
        direction: Direction = "newer" if asks.order == "oldest" else "older"
        at_most = _EVER if asks.order == "random" else LOOKED_AT_MOST
        return run_numbers(snapshot, asks.wanted, asks.view, direction, at_most=at_most)
    return iter(dict(_named(snapshot, name) for name in asks.runs).items())


def session_keys(snapshot: Snapshot, run_nos: Sequence[int]) -> dict[int, int | str]:
    """Return what the sessions of runs are known by: their names, or without one the keys that a coin gave them."""
    rows = snapshot.rows_in(
        "SELECT run_no, session, session_key FROM run WHERE learner_id = ? AND run_no IN ({})", run_nos
    )
    return {run_no: name or key for run_no, name, key in rows if name or (key is not None and key >= 0)}


def _named(snapshot: Snapshot, name: str) -> tuple[int, int | None]:
    run = find_run(snapshot, name)
    if run is None or not run.is_active:
        raise missing_run(snapshot, name)
    return run.run_no, run.at_ms


def _of_runs(snapshot: Snapshot, times: Mapping[int, int | None]) -> Iterator[Candidate]:
    judged = _judged(snapshot, list(times))
    rewards = _rewards(snapshot, list(times))
    for run_no, at_ms in times.items():
        yield _candidate((0, 0, run_no, 0), at_ms, judged.get((run_no, 0)), rewards.get(run_no))


def _of_arms(snapshot: Snapshot, times: Mapping[int, int | None], asks: QueueAsks) -> Iterator[Candidate]:
    """Return the arms that runs referenced; for a filter by arm that one, referenced or not.

    A queue of unused arms also has them where they were there by name.
    """
    run_nos = list(times)
    judged, rewards = _judged(snapshot, run_nos), _manual_rewards(snapshot, run_nos)
    only = None if asks.wanted.arm is None else arm_number(snapshot, asks.wanted.arm)
    if asks.source == "unused" and only is None:
        raise InvalidInput(
            "The source unused must come with an arm, got none.",
            next_step="Name the arm whose missed use you ask for.",
        )
    there = INCLUDED | NAMED if asks.source == "unused" else INCLUDED
    rows = sorted(_references_in(snapshot, run_nos, there, REFERENCED if only is None else there))
    references = {run_no: list(of_run) for run_no, of_run in groupby(rows, itemgetter(0))}
    for run_no, at_ms in times.items():
        for _, arm_no, flags in references.get(run_no, ()):
            if only is None or only == arm_no:
                of, was_used = (run_no, arm_no), bool(flags & REFERENCED)
                yield _candidate((0, 0, *of), at_ms, judged.get(of), rewards.get(of), was_used=was_used)


def _references_in(snapshot: Snapshot, run_nos: Sequence[int], there: int, part: int) -> list[Row]:
    return snapshot.rows_in(
        f"SELECT run_no, arm_no, flags FROM outcome WHERE learner_id = ? AND flags & {there} <> 0"
        f" AND flags & {part} <> 0 AND run_no IN ({{}})",
        run_nos,
    )


def _executed(snapshot: Snapshot, asks: QueueAsks) -> Iterator[Candidate]:
    """Return active executions, or layers in them; of certain runs where the runs are chosen."""
    of_runs = None
    if asks.source == "runs" or (asks.wanted, asks.view) != (RunFilter(), View()):
        of_runs = dict(_runs(snapshot, asks))
    way, unknown = ("ASC", _EVER) if asks.order == "oldest" else ("DESC", -1)
    layer, pairs, within = "0", "", ""
    if asks.about == "layer":
        layer, within = "p.layer_no", ", p.layer_no"
        pairs = " JOIN training_pair p ON p.learner_id = x.learner_id AND p.execution_no = x.execution_no"
    rows = snapshot.each(
        f"SELECT {layer}, x.execution_no, x.run_no, coalesce(x.at_ms, r.at_ms) FROM execution x{pairs}"
        " LEFT JOIN run r ON r.learner_id = x.learner_id AND r.run_no = x.run_no"
        f" WHERE x.learner_id = ? AND x.{ACTIVE} AND coalesce(r.standing, 1) = 1"
        f" ORDER BY coalesce(x.at_ms, r.at_ms, {unknown}) {way}, x.execution_no {way}{within}"
    )
    matches = [row for row in islice(rows, LOOKED_AT_MOST) if of_runs is None or row[2] in of_runs]
    judged = _judged_executions(snapshot)
    rewards = _rewards(snapshot, sorted({row[2] for row in matches} - {0}))
    for layer_no, execution_no, run_no, at_ms in matches:
        reward = rewards.get(run_no)
        summed = judged.get((layer_no, execution_no))
        yield _candidate((layer_no, execution_no, run_no, 0), at_ms, summed, reward)


def _candidate(
    about: tuple[int, int, int, int],
    at_ms: int | None,
    judged: _Judged | None,
    reward: float | None,
    *,
    was_used: bool = False,
) -> Candidate:
    if judged is None:
        return Candidate(*about, at_ms, reward, was_used=was_used)
    n, n_people, n_successes, worth = judged
    score = worth / n if reward is None else min(worth / n, reward)
    return Candidate(*about, at_ms, score, n_people, n, min(n_successes, n - n_successes) / n, was_used)


def _judged(snapshot: Snapshot, run_nos: Sequence[int]) -> dict[tuple[int, int], _Judged]:
    """Return the counted judgements of runs (arm 0) and of arms in them, without those of missed use."""
    rows = snapshot.rows_in(
        f"SELECT run_no, arm_no, {_SUMS} FROM"
        f" (SELECT e.run_no, e.arm_no, {_RATED} FROM evaluation e {EVALUATIONS_BY_RUN} WHERE e.learner_id = ?"
        " AND e.counts = 1 AND e.layer_no = 0 AND e.execution_no = 0 AND e.run_no <> 0"
        f" AND e.rubric <> '{NEEDED.version}' AND e.run_no IN ({{}})) rated GROUP BY run_no, arm_no",
        run_nos,
    )
    return {(one, other): _Judged(*rest) for one, other, *rest in rows}


def _judged_executions(snapshot: Snapshot) -> dict[tuple[int, int], _Judged]:
    rows = snapshot.each(
        f"SELECT layer_no, execution_no, {_SUMS} FROM (SELECT e.layer_no, e.execution_no, {_RATED} FROM evaluation e"
        " WHERE e.learner_id = ? AND e.counts = 1 AND e.execution_no <> 0 AND e.arm_no = 0) rated"
        " GROUP BY layer_no, execution_no"
    )
    return {(one, other): _Judged(*rest) for one, other, *rest in rows}


def _rewards(snapshot: Snapshot, run_nos: Sequence[int]) -> dict[int, float]:
    """The reward that runs came with."""
    return dict(
        snapshot.rows_in(
            "SELECT run_no, reward FROM run WHERE learner_id = ? AND reward IS NOT NULL AND run_no IN ({})",
            run_nos,
        )
    )


def _manual_rewards(snapshot: Snapshot, run_nos: Sequence[int]) -> dict[tuple[int, int], float]:
    """The last reward by hand of an arm in a run."""
    rows = snapshot.rows_in(
        f"SELECT observation_no, run_no, arm_no, success_micro, failure_micro FROM observation {BY_RUN}"
        f" WHERE learner_id = ? AND run_no <> 0 AND undone = 0 AND {ACTIVE}"
        " AND kind IN ('feedback', 'correction') AND run_no IN ({})",
        run_nos,
    )
    return {
        (run_no, arm_no): success / (success + failure)
        for _, run_no, arm_no, success, failure in sorted(rows)
        if success + failure
    }


class NamedItem(NamedTuple):
    """The subject of an item, by names."""

    subject: Subject
    at_ms: int | None


def named_item(facts: Facts, about: Placed) -> NamedItem:
    """The names of what an item is about, and when it happened."""
    names: list[Row | None] = [
        facts.row(f"SELECT {column} FROM {table} WHERE learner_id = ? AND {table}_no = ?", [number])
        for table, column, number in (
            ("layer", "uid", about.layer_no),
            ("execution", "uid, at_ms", about.execution_no),
            ("run", "uid, at_ms", about.run_no),
            ("arm", "key", about.arm_no),
        )
    ]
    layer, execution, run, arm = (row[0] if row else "" for row in names)
    times = [row[1] for row in names[1:3] if row is not None and row[1] is not None]
    return NamedItem(Subject(layer=layer, execution=execution, run=run, arm=arm), times[0] if times else None)


def texts_of(facts: Facts, about: Placed) -> tuple[ItemText, ...]:
    """Return stored instructions and responses of the layer, of the execution, or of the run's own."""
    chosen, value = ("x.execution_no = ?", about.execution_no)
    if not about.execution_no:
        chosen, value = ("x.run_no = ? AND x.run_no <> 0", about.run_no)
    rows = facts.rows(
        "SELECT l.uid, p.layer_index, p.instruction, p.response FROM execution x"
        " JOIN training_pair p ON p.learner_id = x.learner_id AND p.execution_no = x.execution_no"
        " JOIN layer l ON l.learner_id = p.learner_id AND l.layer_no = p.layer_no"
        f" WHERE x.learner_id = ? AND {chosen} AND x.{ACTIVE} AND (? = 0 OR p.layer_no = ?)"
        " AND (p.instruction IS NOT NULL OR p.response IS NOT NULL)"
        f" ORDER BY x.execution_no, p.layer_index, p.layer_no LIMIT {_MOST_TEXTS}",
        [value, about.layer_no, about.layer_no],
    )
    return tuple(
        ItemText(layer=layer, index=index, instruction=instruction, response=response)
        for layer, index, instruction, response in rows
    )


def rubric_rows(facts: Facts) -> tuple[RubricRow, ...]:
    """Return every active version, newest first."""
    used: dict[str, int] = dict(
        facts.rows(
            "SELECT rubric, count(*) FROM evaluation WHERE learner_id = ? AND counts = 1 GROUP BY rubric"
        )
    )
    rows = facts.rows(
        f"SELECT rubric_no, version, content, actor, at_ms FROM rubric WHERE learner_id = ? AND {ACTIVE}"
        " AND undone = 0 ORDER BY rubric_no DESC"
    )
    return tuple(
        RubricRow(
            id=f"rubric-{number}",
            rubric=msgspec.json.decode(content, type=Rubric),
            by=actor,
            at_ms=at_ms,
            n_judged=used.get(version, 0),
        )
        for number, version, content, actor, at_ms in rows
    )


class Answer(NamedTuple):
    """The answer to an instruction in one execution; ``digest`` identifies the instruction, '' = not stored."""

    layer: str
    execution: str
    digest: str
    instruction: str | None
    response: str | None


class Left(NamedTuple):
    """Number of remaining pairs, 1,000 at most, and the oldest (None without any)."""

    n: int
    oldest: tuple[Answer, ...]


def pairs_left(facts: Facts, rater: str, layer_no: int) -> Left:
    """Return pairs of different answers that the rater has not compared yet, of a layer (0 = of any)."""
    values = [facts.learner_id, layer_no, layer_no, rater]
    counted = facts.connection.row(
        f"SELECT count(*) FROM (SELECT a.execution_no{_LEFT} LIMIT {_COUNTED}) AS found", values
    )
    row = facts.connection.row(
        f"SELECT a.layer_no, a.execution_no, b.execution_no{_LEFT}"
        " ORDER BY a.execution_no, b.execution_no, a.layer_no LIMIT 1",
        values,
    )
    if row is None or counted is None:
        return Left(0, ())
    return Left(counted[0], tuple(_numbered(facts, row[0], number) for number in row[1:]))


def _numbered(facts: Facts, layer_no: int, execution_no: int) -> Answer:
    row = facts.row(
        "SELECT l.uid, x.uid, p.digest, p.instruction, p.response FROM training_pair p"
        " JOIN layer l ON l.learner_id = p.learner_id AND l.layer_no = p.layer_no"
        " JOIN execution x ON x.learner_id = p.learner_id AND x.execution_no = p.execution_no"
        " WHERE p.learner_id = ? AND p.layer_no = ? AND p.execution_no = ?",
        [layer_no, execution_no],
    )
    assert row is not None  # noqa: S101 - it was just found
    return Answer(*row)


def answer_in(facts: Facts, layer: str, execution: str) -> Answer | None:
    """Return a layer's answer in an execution, by their uids; None without an active one."""
    row = facts.row(
        "SELECT p.layer_no, p.execution_no FROM layer l"
        " JOIN training_pair p ON p.learner_id = l.learner_id AND p.layer_no = l.layer_no"
        " JOIN execution x ON x.learner_id = p.learner_id AND x.execution_no = p.execution_no"
        f" WHERE l.learner_id = ? AND l.uid = ? AND x.uid = ? AND x.{ACTIVE}",
        [layer, execution],
    )
    return None if row is None else _numbered(facts, row[0], row[1])


def judged_last(facts: Facts, rater: str, *, limit: int) -> tuple[MyJudgement, ...]:
    """The latest evaluations of one person, newest first, those that are undone too."""
    rows = facts.rows(
        "SELECT e.evaluation_no, e.layer_no, e.execution_no, e.run_no, e.arm_no, l.uid, x.uid, r.uid, a.key,"
        " e.outcome, e.score, e.rubric, e.at_ms, e.undone FROM evaluation e"
        " LEFT JOIN layer l ON l.learner_id = e.learner_id AND l.layer_no = e.layer_no"
        " LEFT JOIN execution x ON x.learner_id = e.learner_id AND x.execution_no = e.execution_no"
        " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no"
        " LEFT JOIN arm a ON a.learner_id = e.learner_id AND a.arm_no = e.arm_no"
        f" WHERE e.learner_id = ? AND {RATER} = ? AND e.model = '' AND e.{ACTIVE}"
        " ORDER BY e.evaluation_no DESC LIMIT ?",
        [rater, limit],
    )
    judgements = []
    for number, *rest in rows:
        about, (layer, execution, run, arm), (outcome, score, rubric, at_ms, undone) = (
            Placed(*rest[:4]),
            rest[4:8],
            rest[8:],
        )
        queue_no, item_no = _item_of(facts, about, rubric)
        subject = Subject(layer=layer or "", execution=execution or "", run=run or "", arm=arm or "")
        judgements.append(
            MyJudgement(
                id=f"evaluation-{number}",
                queue=f"queue-{queue_no}" if queue_no else None,
                item=item_no or None,
                uri=subject.uri,
                outcome=outcome,
                score=score,
                rubric=rubric or None,
                at_ms=at_ms,
                undone=bool(undone),
            )
        )
    return tuple(judgements)


def _item_of(facts: Facts, about: Placed, rubric: str) -> tuple[int, int]:
    """Return the newest active queue of this rubric with the subject as an item, and its number there; 0 = none."""
    queue_no, item_no = facts.row(
        "SELECT i.review_queue_no, i.item_no FROM review_item i JOIN review_queue q"
        " ON q.learner_id = i.learner_id AND q.review_queue_no = i.review_queue_no"
        " WHERE i.learner_id = ? AND i.execution_no = ? AND i.run_no = ? AND i.arm_no = ? AND i.layer_no = ?"
        f" AND q.{ACTIVE} AND q.undone = 0 AND q.rubric = ? ORDER BY i.review_queue_no DESC, i.item_no LIMIT 1",
        [about.execution_no, about.run_no, about.arm_no, about.layer_no, rubric],
    ) or (0, 0)
    return queue_no, item_no


def suggestion_of(facts: Facts, about: Placed, outcome: str, score: float | None) -> Suggestion | None:
    """The latest judgement of a model grader that counts, beside one's own of the same subject."""
    whose, number = ("execution_no", about.execution_no) if about.execution_no else ("run_no", about.run_no)
    row = facts.row(
        f"SELECT model, outcome, score FROM evaluation {EVALUATIONS_BY_KEY} WHERE learner_id = ? AND layer_no = ?"
        f" AND execution_no = ? AND arm_no = ? AND {whose} = ? AND counts = 1"
        " AND (execution_no <> 0 OR run_no <> 0) AND model <> '' ORDER BY evaluation_no DESC LIMIT 1",
        [about.layer_no, about.execution_no, about.arm_no, number],
    )
    if row is None:
        return None
    model, its_outcome, its_score = row
    theirs, own = _signed(its_outcome, its_score), _signed(outcome, score)
    return Suggestion(
        model=model,
        outcome=its_outcome,
        score=its_score,
        agrees=its_outcome == outcome,
        difference=None if theirs is None or own is None else theirs - own,
    )


def _signed(outcome: str, score: float | None) -> float | None:
    """A score as that of an outcome: below 0 for a failure, whose score says how sure the grader is.

    >>> _signed("failure", 0.7), _signed("success", None)
    (-0.7, None)
    """
    if score is None:
        return None
    return score if outcome == "success" else -score
