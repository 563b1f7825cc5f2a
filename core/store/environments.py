"""Environments: names, declared scales as acts, and sums of episodes by day.

`environment_day` is a cache of active episodes by the scale in force. A changed episode is subtracted as it was and
added as it is; a new scale recounts its environment. `environment_task` is a cache without scales: the number of
episodes with equal task, model, end and reward, which is all that averages and their intervals need.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from core.columns import UNKNOWN
from core.maths.episodes import EpisodeSums, EpisodeTotals, decimal_text, sums_of
from core.records.episode import Scale, ScaleLine
from core.records.ledger_lines import PlacedLine
from core.store.caches import mark_runs_of
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE
from core.store.transaction import Byline, Facts, Snapshot, Transaction

DAY_MS: Final = 86_400_000
_NAMED: Final = ("environment_no", "name")
_SCALE_COLUMNS: Final = "step_lo, step_hi, lo, hi, threshold, base, gamma"
_DAY: Final = "environment_no, day, split, variant, model"
_SUMS: Final = "n, n_paid, n_finished, successes, reward_sum, reward_squares"
_DAY_COLUMNS: Final = f"{_DAY}, {_SUMS}".split(", ")
_RENEWED: Final = f"ON CONFLICT (learner_id, {_DAY}) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in _SUMS.split(", ")
)
_USUAL: Final = Scale()
_COUNTED: Final = (
    "environment_no, at_ms, split, variant, model, task, n_steps, n_paid, finished, total_text, final_text"
)
_ALIKE: Final = ("split", "task", "variant", "model", "finished", "total_text", "final_text")
_ALIKE_COLUMNS: Final = ("environment_no", "digest", *_ALIKE, "n")
_COUNT_ON: Final = (
    "ON CONFLICT (learner_id, environment_no, digest) DO UPDATE SET n = environment_task.n + excluded.n"
)
_ENCODER: Final = msgspec.json.Encoder()
BROKEN: Final = 2
"""Value of ``finished`` for an episode that an error ended. Its reward counts in no average."""
Kind = tuple[int, str | None, str | None, str | None, str | None, int, str | None, str | None]
"""Key of equal episodes: environment, split, task, variant, model, whether they finished, total and final."""
DayKey = tuple[int, int, str, str, str]
"""Environment, day, split, variant and model; "" and -1 where one is unknown."""

_SCALES: Final = (
    f"SELECT environment_no, revision, scale_no, {_SCALE_COLUMNS} FROM scale"
    f" WHERE learner_id = ? AND {ACTIVE} AND undone = 0"
)


def environment_nos(txn: Transaction, names: Collection[str]) -> dict[str, int]:
    """Numbers of environments, made if need be."""
    sorted_names = sorted({*names})
    known: dict[str, int] = dict(
        txn.rows_in(
            "SELECT name, environment_no FROM environment WHERE learner_id = ? AND name IN ({})", sorted_names
        )
    )
    missing = [name for name in sorted_names if name not in known]
    if missing:
        numbers = range(first := txn.number("environment", len(missing)), first + len(missing))
        added = dict(zip(missing, numbers, strict=True))
        rows = ((number, name) for name, number in added.items())
        txn.connection.insert("environment", _NAMED, txn.learner_id, chain.from_iterable(rows))
        known |= added
    return known


# Scales


def add_scale(txn: Transaction, environment: str, scale: Scale, byline: Byline) -> int:
    """Append a declaration and return its number. `recount` puts it in force."""
    environment_no = environment_nos(txn, [environment])[environment]
    return txn.append_fact("scale", byline, environment_no=environment_no, **asdict(scale))


def recount(txn: Transaction, numbers: Sequence[int]) -> None:
    """Recount the environments whose declarations changed their state."""
    rows = txn.distinct_in(
        "SELECT DISTINCT environment_no FROM scale WHERE learner_id = ? AND scale_no IN ({})", numbers
    )
    for number in sorted(rows):
        txn.run("DELETE FROM environment_day WHERE learner_id = ? AND environment_no = ?", [number])
        _write(txn, _counted_of(txn, number).days)
    mark_runs_of(
        txn,
        "SELECT DISTINCT l.run_no FROM scale s JOIN episode e ON e.learner_id = s.learner_id"
        " AND e.environment_no = s.environment_no JOIN episode_run l ON l.learner_id = e.learner_id"
        " AND l.episode_no = e.episode_no WHERE s.learner_id = ? AND s.scale_no IN ({})",
        numbers,
    )


def scales_of(facts: Facts, numbers: Collection[int]) -> Mapping[int, Scale]:
    """Return the scales in force of environments, by number: the latest active declaration, or the default."""
    sorted_numbers = sorted({*numbers})
    sql = f"{_SCALES} AND environment_no IN ({{}})"
    return _latest(facts.rows_in(sql, sorted_numbers))


def _latest(rows: Iterable[Row]) -> Mapping[int, Scale]:
    latest: dict[int, Scale] = defaultdict(lambda: _USUAL)
    for environment_no, *values in sorted(rows):
        latest[environment_no] = _scale(values[2:])
    return latest


def _scale(values: Sequence[float | str]) -> Scale:
    return Scale(**dict(zip(_SCALE_COLUMNS.split(", "), values, strict=True)))  # type: ignore[arg-type]  # as `add_scale` wrote it


def scale_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone declarations as lines."""
    joined = "JOIN environment e ON e.learner_id = t.learner_id AND e.environment_no = t.environment_no"
    for _, one in snapshot.acts("scale", *_SCALE_COLUMNS.split(", "), joined=joined, environment="e.name"):
        scale = _scale([one.pop(column) for column in _SCALE_COLUMNS.split(", ")])
        yield one["revision"], ScaleLine(scale=scale, **one)


# Days


class Counted:
    """Episodes added up: by day, and how many are alike."""

    def __init__(self) -> None:
        self.days: dict[DayKey, EpisodeSums] = defaultdict(EpisodeSums)
        self.kinds: Counter[Kind] = Counter()

    def add(self, head: Row, came_to: Stored, totals: EpisodeTotals, scale: Scale) -> None:
        """Count an episode; ``head`` is its environment, time, split, variant, model and task."""
        environment_no, at_ms, split, variant, model, task = head
        day = UNKNOWN if at_ms is None else at_ms // DAY_MS
        key = (environment_no, day, split or "", variant or "", model or "")
        self.days[key] = self.days[key].plus(sums_of(totals, scale))
        self.kinds[environment_no, split, task, variant, model, *came_to[2:]] += 1


class Changes:
    """Cache deltas: subtract the old episodes, add the new."""

    def __init__(self) -> None:
        self._sums: dict[DayKey, EpisodeSums] = defaultdict(EpisodeSums)
        self._kinds: Counter[Kind] = Counter()

    def take(self, counted: Counted) -> None:
        """Take episodes away."""
        for key, sums in counted.days.items():
            self._sums[key] = self._sums[key].minus(sums)
        self._kinds.subtract(counted.kinds)

    def add(self, counted: Counted) -> None:
        """Add episodes."""
        for key, sums in counted.days.items():
            self._sums[key] = self._sums[key].plus(sums)
        self._kinds.update(counted.kinds)

    def write(self, txn: Transaction) -> None:
        """Put them into the store; what no episode is of any more goes."""
        changed = {key: sums for key, sums in sorted(self._sums.items()) if sums != EpisodeSums()}
        stored = _stored(txn, {key[0] for key in changed}, {key[1] for key in changed})
        updated = {key: stored.get(key, EpisodeSums()).plus(sums) for key, sums in changed.items()}
        gone = [(txn.learner_id, *key) for key, sums in updated.items() if not sums.n]
        if gone:
            txn.connection.many(
                f"DELETE FROM environment_day WHERE learner_id = ? AND ({_DAY}) = (?, ?, ?, ?, ?)", gone
            )
        _write(txn, updated)
        rows = [(kind[0], _digest(kind), *kind[1:], n) for kind, n in self._kinds.items() if n]
        txn.connection.insert(
            "environment_task", _ALIKE_COLUMNS, txn.learner_id, chain.from_iterable(rows), upsert=_COUNT_ON
        )
        fewer = [(txn.learner_id, number, digest) for number, digest, *_, n in rows if n < 0]
        if fewer:
            txn.connection.many(
                "DELETE FROM environment_task WHERE learner_id = ? AND environment_no = ? AND digest = ? AND n = 0",
                fewer,
            )


def _digest(kind: Kind) -> str:
    return blake2b(_ENCODER.encode(kind[1:]), digest_size=16).hexdigest()


def stored_kinds(facts: Facts) -> dict[tuple[int, str], Row]:
    """Return the stored numbers of equal episodes, by environment and digest."""
    rows = facts.rows(f"SELECT {', '.join(_ALIKE_COLUMNS)} FROM environment_task WHERE learner_id = ?")
    return {(number, digest): tuple(rest) for number, digest, *rest in rows}


def _write(txn: Transaction, updated: Mapping[DayKey, EpisodeSums]) -> None:
    rows = ((*key, *_stored_sums(sums)) for key, sums in sorted(updated.items()) if sums.n)
    txn.connection.insert(
        "environment_day", _DAY_COLUMNS, txn.learner_id, chain.from_iterable(rows), upsert=_RENEWED
    )


def _stored_sums(sums: EpisodeSums) -> tuple[int, int, int, int, str, str]:
    counts = sums.n, sums.n_paid, sums.n_finished, sums.successes
    return *counts, decimal_text(sums.reward_sum), decimal_text(sums.reward_squares)


def _read(row: Row) -> tuple[DayKey, EpisodeSums]:
    key, (n, n_paid, n_finished, successes, reward_sum, squares) = row[:5], row[5:]
    return key, EpisodeSums(
        n=n,
        n_paid=n_paid,
        n_finished=n_finished,
        successes=successes,
        reward_sum=Decimal(reward_sum),
        reward_squares=Decimal(squares),
    )


def _stored(facts: Facts, environments: Collection[int], days: Collection[int]) -> dict[DayKey, EpisodeSums]:
    return dict(
        _read(row)
        for environment_no in sorted(environments)
        for row in facts.connection.rows_in(
            f"SELECT {_DAY}, {_SUMS} FROM environment_day WHERE learner_id = ? AND environment_no = ?"
            " AND day IN ({})",
            [facts.learner_id, environment_no],
            sorted(days),
        )
    )


def stored_days(facts: Facts) -> dict[DayKey, EpisodeSums]:
    """Return the days as they are stored."""
    return dict(
        _read(row) for row in facts.rows(f"SELECT {_DAY}, {_SUMS} FROM environment_day WHERE learner_id = ?")
    )


def counted_anew(facts: Facts) -> tuple[dict[DayKey, EpisodeSums], dict[tuple[int, str], Row]]:
    """Recount every day, and the numbers of equal episodes, from the active ones."""
    days: dict[DayKey, EpisodeSums] = {}
    kinds: dict[tuple[int, str], Row] = {}
    for number in facts.column("SELECT environment_no FROM environment WHERE learner_id = ?"):
        counted = _counted_of(facts, number)
        days |= counted.days
        kinds |= {(kind[0], _digest(kind)): (*kind[1:], n) for kind, n in counted.kinds.items()}
    return days, kinds


def _counted_of(facts: Facts, environment_no: int, scales: Mapping[int, Scale] | None = None) -> Counted:
    return _counted(
        facts.each(
            f"SELECT {_COUNTED} FROM episode WHERE learner_id = ? AND environment_no = ? AND {ACTIVE}",
            [environment_no],
        ),
        scales_of(facts, [environment_no]) if scales is None else scales,
    )


def counted_episodes(facts: Facts, numbers: Sequence[int]) -> Counted:
    """Return the sums of the active ones of these episodes."""
    rows = facts.rows_in(
        f"SELECT {_COUNTED} FROM episode WHERE learner_id = ? AND {ACTIVE} AND episode_no IN ({{}})", numbers
    )
    return _counted(rows, scales_of(facts, {number for number, *_ in rows}))


def _counted(rows: Iterable[Row], scales: Mapping[int, Scale]) -> Counted:
    counted = Counted()
    for row in rows:
        stored = Stored(*row[6:])
        counted.add(row[:6], stored, stored.totals, scales[row[0]])
    return counted


def count_on(
    txn: Transaction, head: Row, before: tuple[Stored, EpisodeTotals], now: tuple[Stored, EpisodeTotals]
) -> None:
    """Count an active episode that grew; ``head`` is its environment, time, split, variant, model, task."""
    scale = scales_of(txn, [head[0]])[head[0]]
    was, then = Counted(), Counted()
    was.add(head, *before, scale)
    then.add(head, *now, scale)
    changes = Changes()
    changes.take(was)
    changes.add(then)
    changes.write(txn)


class Stored(NamedTuple):
    """The sums of an episode in its row. ``finished`` is 0, 1, or 2 for a broken episode."""

    n_steps: int
    n_paid: int
    finished: int
    total_text: str | None
    final_text: str | None

    @classmethod
    def of(cls, totals: EpisodeTotals) -> Stored:
        texts = [None if one is None else decimal_text(one) for one in (totals.total, totals.final)]
        return cls(totals.n_steps, totals.n_paid, BROKEN if totals.broken else int(totals.finished), *texts)

    @property
    def totals(self) -> EpisodeTotals:
        """The same, without how many steps were refused."""
        total, final = (None if one is None else Decimal(one) for one in (self.total_text, self.final_text))
        return EpisodeTotals(
            n_steps=self.n_steps,
            n_paid=self.n_paid,
            n_refused=0,
            finished=bool(self.finished),
            total=total,
            final=final,
            broken=self.finished == BROKEN,
        )


# What they came to


def declared_scales(facts: Facts) -> Mapping[int, Scale]:
    """Return the declared scales in force, by the number of their environment."""
    return _latest(facts.rows(_SCALES))


def environment_no_of(facts: Facts, name: str) -> int | None:
    """Return the number of a known environment."""
    return facts.scalar(
        int, "SELECT environment_no FROM environment WHERE learner_id = ? AND name = ?", [name]
    )


def sums_of_environment(facts: Facts, environment_no: int) -> EpisodeSums:
    """Return the sums of an environment's episodes."""
    sums = EpisodeSums()
    for row in facts.rows(
        f"SELECT {_DAY}, {_SUMS} FROM environment_day WHERE learner_id = ? AND environment_no = ?",
        [environment_no],
    ):
        sums = sums.plus(_read(row)[1])
    return sums


def sums_by(facts: Facts, environment_no: int, scale: Scale) -> EpisodeSums:
    """Return the sums of an environment's episodes on a scale."""
    total = EpisodeSums()
    for sums in _counted_of(facts, environment_no, {environment_no: scale}).days.values():
        total = total.plus(sums)
    return total


class TaskPaid(NamedTuple):
    """An episode of a task: its total, and the characters that the agent sent, None = unknown."""

    split: str | None
    variant: str | None
    task: str
    total: float | None
    n_chars: int | None


def variants_of(facts: Facts, environment_no: int) -> list[str]:
    """Variants of an environment that episodes name, sorted."""
    return facts.column(
        f"SELECT DISTINCT variant FROM episode WHERE learner_id = ? AND environment_no = ? AND {ACTIVE}"
        " AND variant IS NOT NULL ORDER BY variant",
        [environment_no],
    )


def paid_by_task(facts: Facts, environment_no: int) -> Iterator[tuple[str | None, TaskPaid]]:
    """The model of each episode whose task has a name, and what it came to."""
    for model, *row in facts.each(
        "SELECT e.model, e.split, e.variant, e.task, e.total, (SELECT sum(s.n_chars_in) FROM step s"
        " WHERE s.learner_id = ?1 AND s.episode_no = e.episode_no) FROM episode e"
        f" WHERE e.learner_id = ?1 AND e.environment_no = ? AND e.{ACTIVE} AND e.task IS NOT NULL",
        [environment_no],
    ):
        yield model, TaskPaid(*row)
