"""Usage: rollups as columns and counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import msgspec

from core.columns import ASSIGNED, UNKNOWN, Ints, MixDays, UsageColumns, ints
from core.records.arm import MICRO
from core.records.evidence import INCLUDED, OBSERVATION
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.compacted import compacted_ends
from core.store.engine.dialect import ACTIVE, BY_RUN
from core.store.rollup import USAGE_SUMS, joined
from core.store.tables import LISTED
from core.store.transaction import Facts, Snapshot
from core.store.version import Choice

MOST_CHOSEN: Final = 10_000
_NEWEST: Final = "AND at_ms >= 0 ORDER BY at_ms DESC LIMIT 1"
_LAST_RUN: Final = f"SELECT at_ms FROM run WHERE learner_id = ? AND revision <= ? AND {ACTIVE} {_NEWEST}"
_LAST_IMPORT: Final = (
    f"SELECT at_ms FROM import WHERE learner_id = ? AND revision <= ? AND undone = 0 {_NEWEST}"
)

_KIND: Final = "class, model, channel, status, outcome, prob_micro, bucket"
_USAGE: Final = (
    f"SELECT {{place}}, {_KIND}, {', '.join(USAGE_SUMS)} FROM usage_{{place}}"
    " WHERE learner_id = ? AND outcome <> 'empty' AND {place} >= ? AND {place} < ?"
    f" ORDER BY {{place}}, {_KIND}"
)
_EVER: Final = 1 << 40
"""An hour that never comes."""

MODELS_READ: Final = 20_000
"""No rollup keeps the models of sub-agents: so many runs are read for them, the newest."""
_MODELS: Final = (
    "SELECT DISTINCT model FROM usage_day WHERE learner_id = ?1 AND tokens > 0 AND model <> ''{kind}"
    + "".join(
        f" UNION SELECT DISTINCT model FROM {table} WHERE learner_id = ?1 AND model <> ''"
        f" AND run_no > (SELECT coalesce(max(run_no), 0) - {MODELS_READ} FROM run WHERE learner_id = ?1){{run}}"
        for table in ("spent", "spent_apart")
    )
)

_UNASSIGNED: Final = {
    "kind": f" AND prob_micro <> {ASSIGNED}",
    "run": f" AND run_no NOT IN (SELECT run_no FROM run WHERE learner_id = ?1 AND session_key = {ASSIGNED})",
}

_MIX: Final = (
    "SELECT {unit}, model, channel, sum(n) FROM {table} WHERE learner_id = ? AND outcome <> 'empty'"
    " AND {at} >= ? AND {at} < ? GROUP BY 1, 2, 3 HAVING sum(n) > 0"
)

"""No rollup keeps calls: so many runs are read for their mean, the newest."""

Reader = Literal["present", "earlier", "replaced", "no_arm", "no_run", "no_observation"]
"""Reader of an active reward: the arm's posterior, or an earlier epoch. Otherwise the reason for none: a later
correction replaced it, its arm isn't listed, its run is inactive or left the arm out, or its corrected observation is
missing.
"""

REWARDS_READ: Final = (
    "SELECT coalesce(a.key, 'arm ' || b.arm_no), CASE\n"
    f" WHEN p.arm_no IS NULL OR NOT {LISTED} THEN 'no_arm'\n"
    f" WHEN b.run_no > 0 AND (coalesce(r.standing, 0) <> 1 OR coalesce(o.flags, 0) & {INCLUDED} = 0) THEN 'no_run'\n"
    " WHEN b.kind = 'correction' AND EXISTS (SELECT 1 FROM observation c"
    f" {BY_RUN} WHERE c.learner_id = ?1 AND c.run_no = b.run_no AND c.run_no <> 0"
    " AND c.arm_no = b.arm_no AND c.kind = 'correction'"
    f" AND c.undone = 0 AND c.{ACTIVE} AND c.observation_no > b.observation_no) THEN 'replaced'\n"
    f" WHEN b.kind = 'correction' AND coalesce(o.flags, 0) & {OBSERVATION} = 0 THEN 'no_observation'\n"
    " WHEN coalesce(r.revision, b.revision) > p.epoch THEN 'present' ELSE 'earlier' END AS reader,\n"
    f" count(*), sum(CASE WHEN b.pulls > 0 OR b.kind = 'carried' THEN b.pulls * {MICRO}"
    " ELSE b.success_micro + b.failure_micro END)\n"
    "FROM observation b\n"
    "LEFT JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no\n"
    "LEFT JOIN posterior p ON p.learner_id = b.learner_id AND p.arm_no = b.arm_no\n"
    "LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0\n"
    "LEFT JOIN outcome o ON o.learner_id = b.learner_id AND o.run_no = b.run_no AND o.arm_no = b.arm_no\n"
    f"WHERE b.learner_id = ?1 AND b.{ACTIVE} AND b.undone = 0\n"
    "GROUP BY b.arm_no, a.key, reader ORDER BY 1, 2"
)
"""An epoch is the revision of the reset that began it, so a fact of a later revision is in the present one."""

_PULLS: Final = (
    f"SELECT {LISTED}, sum(p.pulls) + sum(p.part_micro) / {MICRO} FROM posterior p"
    " JOIN arm a ON a.learner_id = p.learner_id AND a.arm_no = p.arm_no WHERE p.learner_id = ? GROUP BY 1"
)


class Totals(NamedTuple):
    """Counts of a learner's active runs; ``skipped`` by reason."""

    runs: int
    observed: int
    skipped: dict[str, int]
    empty: int
    tokens: int
    first_at_ms: int | None
    last_at_ms: int | None


def usage_columns(
    snapshot: Snapshot, *, since_ms: int | None = None, until_ms: int | None = None
) -> UsageColumns:
    """Return sums of active runs by day and kind; by hour in the newest day and where a span cuts a day.

    A span includes full hours. With ``since_ms``, runs of unknown time are left out.
    """
    parts = _parts(snapshot, since_ms, until_ms)
    columns = [list(chain.from_iterable(column)) for column in zip(*parts, strict=True)]
    sums = {name: ints(columns[index]) for index, name in enumerate(USAGE_SUMS, 8)}
    return UsageColumns(
        hour=ints(columns[0]),
        run_class=tuple(columns[1]),
        model=tuple(columns[2]),
        channel=tuple(columns[3]),
        status=tuple(columns[4]),
        outcome=tuple(columns[5]),
        prob_micro=ints(columns[6]),
        bucket=ints(columns[7]),
        n=sums["n"],
        n_truncated=sums["n_truncated"],
        tokens=sums["tokens"],
        tokens_squared=joined(sums["tokens_squared_high"], sums["tokens_squared_low"]),
        log=sums["log_micro"] / MICRO,
        log_squared=sums["log_squared_micro"] / MICRO,
        n_timed=sums["n_timed"],
        duration_ms=sums["duration_ms"],
        duration_squared=joined(sums["duration_squared_high"], sums["duration_squared_low"]),
    )


def _parts(snapshot: Snapshot, since_ms: int | None, until_ms: int | None) -> list[list[list[Any]]]:
    """Columns of the hours before the first whole day, of the whole days, and of the hours after the last."""
    since = UNKNOWN if since_ms is None else since_ms // HOUR_MS
    until = _EVER if until_ms is None else until_ms // HOUR_MS
    first = UNKNOWN if since_ms is None else -(-since // DAY_HOURS)
    row = snapshot.row("SELECT day FROM usage_day WHERE learner_id = ? ORDER BY day DESC LIMIT 1")
    newest = UNKNOWN if row is None else int(row[0])
    last = max(min(newest, until // DAY_HOURS), first)

    def read(unit: Literal["hour", "day"], start: int, end: int) -> list[list[Any]]:
        return snapshot.connection.columns(_USAGE.replace("{place}", unit), [snapshot.learner_id, start, end])

    queries: list[Callable[[], list[list[Any]]]] = [
        partial(read, "day", first, last),
        partial(read, "hour", last * DAY_HOURS, until),
    ]
    if since_ms is not None:
        queries.append(partial(read, "hour", since, min(first * DAY_HOURS, until)))
    days, after, *before = snapshot.together(*queries)
    days[0] = [day if day == UNKNOWN else day * DAY_HOURS for day in days[0]]
    return [*before, days, after]


class UsageSeries(NamedTuple):
    """Runs by hour or day (since 1970 UTC, ascending): all, those with known usage, and the tokens of these."""

    at: Ints
    runs: Ints
    known: Ints
    tokens: Ints


def usage_series(snapshot: Snapshot, unit: Literal["hour", "day"], since: int) -> UsageSeries:
    """Return active runs from an hour or day on (from 0 on, none without a time)."""
    return UsageSeries(
        *map(
            ints,
            snapshot.connection.columns(
                f"SELECT {unit}, sum(n), sum(CASE WHEN bucket >= 0 THEN n ELSE 0 END), sum(tokens)"
                f" FROM usage_{unit} WHERE learner_id = ? AND outcome <> 'empty' AND {unit} >= ? GROUP BY {unit}"
                f" HAVING sum(n) > 0 ORDER BY {unit}",
                [snapshot.learner_id, since],
            ),
        )
    )


def pulls_series(snapshot: Snapshot, unit: Literal["hour", "day"], since: int) -> tuple[Ints, Ints]:
    """Hours or days since 1970 UTC, from one on and ascending, with pulls in any epoch, and these in millionths."""
    at, pulls_micro = snapshot.connection.columns(
        f"SELECT {unit}, sum(pulls) * {MICRO} + sum(part_micro) FROM arm_{unit}"
        f" WHERE learner_id = ? AND {unit} >= ? GROUP BY {unit}"
        f" HAVING sum(pulls) + sum(part_micro) <> 0 ORDER BY {unit}",
        [snapshot.learner_id, since],
    )
    return ints(at), ints(pulls_micro)


def totals(snapshot: Facts) -> Totals:
    """Counts for ``status`` and the frame."""
    rows, first, last = snapshot.together(
        lambda: snapshot.rows(
            "SELECT outcome, sum(n), sum(tokens) FROM usage_day WHERE learner_id = ? GROUP BY outcome"
        ),
        lambda: _end_of(snapshot, "ASC"),
        lambda: last_run_ms(snapshot),
    )
    counts = {outcome: n for outcome, n, _ in rows}
    empty = counts.pop("empty", 0)
    return Totals(
        runs=sum(counts.values()),
        observed=counts.pop("observed", 0),
        skipped={
            reason: counts.get(reason, 0) for reason in ("conversational", "aborted", "error", "passive")
        },
        empty=empty,
        tokens=sum(tokens for outcome, _, tokens in rows if outcome != "empty"),
        first_at_ms=first,
        last_at_ms=last,
    )


def last_run_ms(snapshot: Facts) -> int | None:
    """Return the end of the last active run."""
    return _end_of(snapshot, "DESC")


def _end_of(snapshot: Facts, order: Literal["ASC", "DESC"]) -> int | None:
    """Return the first, or last, time of an active run; the rollup has its hour, so inactive runs cost nothing."""
    hour = (
        "(SELECT hour FROM usage_hour WHERE learner_id = ? AND hour >= 0 AND outcome <> 'empty' AND n > 0"
        f" ORDER BY hour {order} LIMIT 1)"
    )
    row = snapshot.connection.row(
        f"SELECT at_ms FROM run WHERE learner_id = ? AND at_ms >= {hour} * {HOUR_MS}"
        f" AND at_ms < ({hour} + 1) * {HOUR_MS} AND revision <= ?"
        f" AND {ACTIVE} AND outcome <> 'empty' ORDER BY at_ms {order} LIMIT 1",
        [*[snapshot.learner_id] * 3, snapshot.revision],
    )
    ends = compacted_ends(snapshot) if row is None else (int(row[0]), *compacted_ends(snapshot))
    return (min if order == "ASC" else max)(ends, default=None)


def strata(snapshot: Snapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Models and channels that runs had, sorted; unknown ones are left out."""
    rows = snapshot.rows("SELECT DISTINCT model, channel FROM usage_day WHERE learner_id = ?")
    models = sorted({model for model, _ in rows if model})
    return tuple(models), tuple(sorted({channel for _, channel in rows if channel}))


def unpriced_models(snapshot: Snapshot, *, unassigned: bool = False) -> tuple[str, ...]:
    """Return models that spent tokens and have no price, sorted; nothing while no model has one.

    ``unassigned``: of sessions that no experiment assigned.
    """
    prices = snapshot.settings.prices
    if not prices:
        return ()
    unless = _UNASSIGNED if unassigned and snapshot.has_experiments else {"kind": "", "run": ""}
    return tuple(sorted(model for model in snapshot.column(_MODELS.format(**unless)) if model not in prices))


def assigned_runs(snapshot: Snapshot) -> tuple[int, float]:
    """Return the number of runs of sessions that an experiment assigned, and their share of all."""
    sql = f"SELECT sum(n), sum(CASE WHEN prob_micro = {ASSIGNED} THEN n ELSE 0 END) FROM usage_day"
    rows = (
        snapshot.rows(f"{sql} WHERE learner_id = ? AND outcome <> 'empty'")
        if snapshot.has_experiments
        else []
    )
    ((n_runs, n_assigned),) = rows or [(0, 0)]
    return int(n_assigned or 0), float(n_assigned / n_runs) if n_assigned else 0.0


def mix_days(snapshot: Snapshot, since_day: int, until_ms: int | None = None) -> MixDays:
    """Return active runs by day, model and channel, from a day on; up to a time by full hours."""
    if until_ms is None:
        sql, ends = _MIX.format(unit="day", table="usage_day", at="day"), [since_day, _EVER]
    else:
        sql = _MIX.format(unit=f"hour / {DAY_HOURS}", table="usage_hour", at="hour")
        ends = [since_day * DAY_HOURS, until_ms // HOUR_MS]
    day, model, channel, n = snapshot.connection.columns(sql, [snapshot.learner_id, *ends])
    return MixDays(day=ints(day), model=tuple(model), channel=tuple(channel), n=ints(n))


def inclusions_between(snapshot: Snapshot, since_ms: int, until_ms: int) -> dict[str, int]:
    """Return how often each arm was in a prompt, from the hour of one time to the hour of another (exclusive)."""
    return dict(
        snapshot.rows(
            "SELECT a.key, h.inclusions FROM (SELECT arm_no, sum(inclusions) AS inclusions FROM arm_hour"
            " WHERE learner_id = ? AND hour >= ? AND hour < ? GROUP BY arm_no) AS h"
            " JOIN arm a ON a.learner_id = ? AND a.arm_no = h.arm_no",
            [since_ms // HOUR_MS, until_ms // HOUR_MS, snapshot.learner_id],
        )
    )


class Counted(NamedTuple):
    """Active runs by class, the sums of all observations in all epochs, and the times of the last run and import."""

    runs: dict[str, int]
    success: float
    failure: float
    last_run_ms: int | None = None
    last_import_ms: int | None = None


def counted(snapshot: Snapshot) -> Counted:
    """Return the counts of a learner, from the days of its rollups."""
    runs = snapshot.rows(
        "SELECT class, sum(n) FROM usage_day WHERE learner_id = ? GROUP BY class ORDER BY class"
    )
    row = snapshot.row("SELECT sum(success_micro), sum(failure_micro) FROM arm_day WHERE learner_id = ?")
    success, failure = row or (0, 0)
    return Counted(
        {name: int(n) for name, n in runs},
        float(success or 0) / MICRO,
        float(failure or 0) / MICRO,
        snapshot.scalar(int, _LAST_RUN, [snapshot.revision]),
        snapshot.scalar(int, _LAST_IMPORT, [snapshot.revision]),
    )


def last_run_no(snapshot: Snapshot) -> int:
    """The newest number of a run; 0 where there is none."""
    return snapshot.count_of("SELECT max(run_no) FROM run WHERE learner_id = ?")


def budgets_used(snapshot: Snapshot, after_no: int) -> tuple[int, list[int]]:
    """Tokens that were in the prompt of each run that was chosen within a budget, from a number on.

    At most 10,000 runs are looked at: the number of the last of them is there, too. An arm of unknown cost counts
    for nothing, as it did when it was chosen.
    """
    rows = snapshot.rows(
        "SELECT run_no, choice FROM run WHERE learner_id = ? AND run_no > ? AND revision <= ?"
        f" AND {ACTIVE} ORDER BY run_no LIMIT ?",
        [after_no, snapshot.revision, MOST_CHOSEN],
    )
    within = [no for no, choice in rows if choice and msgspec.json.decode(choice, type=Choice).budget_tokens]
    used = snapshot.rows_in(
        "SELECT run_no, sum(CASE WHEN token_cost > 0 THEN token_cost ELSE 0 END) FROM outcome"
        f" WHERE learner_id = ? AND flags & {INCLUDED} <> 0 AND run_no IN ({{}}) GROUP BY run_no",
        within,
    )
    costs: dict[int, int] = dict(used)
    return (rows[-1][0] if rows else after_no), [int(costs.get(no, 0)) for no in within]


class RewardsRead(NamedTuple):
    """Active rewards of one arm with one reader, and their pulls in millionths."""

    arm: str
    reader: Reader
    n: int
    pulls_micro: int


class PullsHeld(NamedTuple):
    """Pulls in the posteriors: of listed arms, of arms that aren't listed, and how many arms hold too few."""

    listed: int
    hidden: int
    short: tuple[tuple[str, int], ...]
    """Arms whose present rewards alone bring more pulls than their posterior holds, and how many more, rounded up."""


def rewards_read(snapshot: Snapshot) -> tuple[RewardsRead, ...]:
    """Return active rewards by arm and by reader."""
    return tuple(RewardsRead(*row) for row in snapshot.rows(REWARDS_READ))


def pulls_held(snapshot: Snapshot, present_micro: dict[str, int]) -> PullsHeld:
    """Pulls in the posteriors, beside the pulls that each arm's present rewards alone bring."""
    whole = {bool(listed): pulls for listed, pulls in snapshot.rows(_PULLS)}
    rows = snapshot.rows_in(
        f"SELECT a.key, p.pulls * {MICRO} + p.part_micro FROM arm a JOIN posterior p ON p.learner_id = a.learner_id"
        " AND p.arm_no = a.arm_no WHERE a.learner_id = ? AND a.key IN ({})",
        sorted(present_micro),
    )
    short = [
        (key, -((held - present_micro[key]) // MICRO)) for key, held in rows if present_micro[key] > held
    ]
    return PullsHeld(listed=whole.get(True, 0), hidden=whole.get(False, 0), short=tuple(sorted(short)))
