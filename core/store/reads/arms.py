"""Arms: rows → columns of every listed arm, now or as of a time.

Recent sums of every arm, by day, in its present epoch.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from core.columns import UNKNOWN, ArmColumns, ArmDays, ArmHours, Ints, RecentDays, ints
from core.records.arm import ARM_TYPES, MICRO, ArmType, skill_name
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, ARMS_BY_KEY
from core.store.reads.log import Position
from core.store.rollup import SUM_OF_ARM
from core.store.tables import LISTED
from core.store.transaction import Facts, Snapshot, base_of

_ARMS: Final = (
    "SELECT a.key, a.type, a.prior_alpha_micro, a.prior_beta_micro, coalesce(a.token_cost, -1), p.base_alpha_micro,"
    " p.base_beta_micro, p.success_micro, p.failure_micro, p.pulls, p.part_micro, p.inclusions, p.epoch,"
    " p.last_at_ms, p.n_named, p.n_loaded FROM arm a"
    " JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
    " WHERE a.learner_id = ? AND {which} ORDER BY a.key"
)
_UNLISTED: Final = f"NOT {LISTED}"

_ROW: Final = (
    "SELECT {}, p.base_alpha_micro + p.success_micro, p.base_beta_micro + p.failure_micro,"
    f" p.pulls + p.part_micro / {MICRO} FROM arm a {{}} JOIN posterior p"
    f" ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no WHERE a.learner_id = ? AND {LISTED} AND "
)
_ROWS: Final = f"{_ROW.format('a.arm_no', '')}a.arm_no IN ({{}})"
ROWS_BY_KEY: Final = f"{_ROW.format('a.key, a.arm_no', ARMS_BY_KEY)}a.key IN ({{}})"

_DAYS: Final = (  # arms first: the days of each are one seek
    "SELECT d.arm_no, d.epoch, d.day, d.success_micro, d.failure_micro"
    " FROM posterior p CROSS JOIN arm_day d WHERE d.learner_id = p.learner_id AND d.arm_no = p.arm_no"
    " AND d.epoch = p.epoch AND d.{days} AND p.learner_id = ?"
    f" AND p.pulls + p.part_micro / {MICRO} >= ?"
)
_UNTIL: Final = (
    "SELECT arm_no, epoch, hour / ?, sum(success_micro), sum(failure_micro)"
    " FROM arm_hour WHERE learner_id = ? AND {hours} GROUP BY 1, 2, 3"
)
_HISTORY: Final = (
    "SELECT arm_no, epoch, day, success_micro, failure_micro FROM arm_day"
    " WHERE learner_id = ? AND day >= ? AND arm_no IN ({})"
)


def arm_columns(facts: Facts, *, types: Sequence[ArmType] = (), listed: bool = True) -> ArmColumns:
    """Return every arm that is declared or has active facts, in its present epoch; not ``listed``: the others."""
    which = (LISTED if listed else _UNLISTED) + _of(types)
    columns = facts.connection.columns(_ARMS.replace("{which}", which), [facts.learner_id, *types])
    return _columns(facts, columns)


def arm_changes(
    snapshot: Snapshot, after: Position | None, *, types: Sequence[ArmType] = ()
) -> dict[str, Position]:
    """Return the last change of listed arms by id; or those beyond ``after``, unlisted ones too, oldest first."""
    where = "(p.changed > ? OR (p.changed = ? AND a.arm_no > ?))"
    rows = snapshot.rows(
        "SELECT a.key, p.changed, a.arm_no FROM arm a"
        " JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        f" WHERE a.learner_id = ? AND {LISTED if after is None else where}{_of(types)} ORDER BY p.changed, a.arm_no",
        [*(() if after is None else (after.revision, *after)), *types],
    )
    return {key: Position(changed, arm_no) for key, changed, arm_no in rows}


def _of(types: Sequence[ArmType]) -> str:
    return f" AND a.type IN ({','.join('?' * len(types))})" if types else ""


def arm_columns_until(snapshot: Snapshot, until_ms: int, *, types: Sequence[ArmType] = ()) -> ArmColumns:
    """Return the arms as they were at a time, rounded down to the hour. Facts without a time count.

    Each arm is in its epoch of that time. An arm is listed if it has facts in an epoch that is not undone.
    """
    sums = snapshot.rows(
        f"SELECT arm_no, epoch, {SUM_OF_ARM}, max(CASE WHEN pulls + part_micro > 0 THEN hour END) FROM arm_hour"
        " WHERE learner_id = ? AND hour < ? GROUP BY arm_no, epoch",
        [until_ms // HOUR_MS],
    )
    hours = {(arm_no, epoch): row for arm_no, epoch, *row in sums}
    boundaries, targets = _boundaries_until(snapshot, until_ms)
    rows = []
    for key, of, arm_no, alpha, beta, cost, declared in snapshot.rows(
        "SELECT key, type, arm_no, prior_alpha_micro, prior_beta_micro, coalesce(token_cost, -1), declared"
        " FROM arm WHERE learner_id = ? ORDER BY key"
    ):
        epoch = boundaries.get(arm_no, 0)
        is_listed = any((arm_no, other) in hours for other in {epoch, 0, *targets})
        if (types and of not in types) or not (declared or is_listed):
            continue
        base = base_of(snapshot.settings, key, alpha, beta, targets.get(epoch))
        inclusions, pulls, part, success, failure, named, loaded, last_hour = hours.get(
            (arm_no, epoch), (0, 0, 0, 0, 0, 0, 0, UNKNOWN)
        )
        last = UNKNOWN if last_hour is None or last_hour < 0 else (last_hour + 1) * HOUR_MS - 1
        amounts = (base.alpha_micro, base.beta_micro, success, failure, pulls, part, inclusions, epoch, last)
        rows.append((key, of, alpha, beta, cost, *amounts, named, loaded))
    return _columns(snapshot, list(zip(*rows, strict=True)) or [()] * 16)


def arm_path(snapshot: Snapshot, arm: int | str) -> ArmDays:
    """Return one arm, by number or id, day by day in every epoch; empty for an unknown arm."""
    arm_no = arm_number(snapshot, arm) if isinstance(arm, str) else arm
    names = ("epoch", "day", "inclusions", "pulls", "part_micro", "success_micro", "failure_micro")
    rows = snapshot.rows(
        f"SELECT {', '.join(names)} FROM arm_day WHERE learner_id = ? AND arm_no = ? ORDER BY epoch, day",
        [arm_no],
    )
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return ArmDays(**dict(zip(names, map(ints, columns), strict=True)))


def arm_number(facts: Facts, key: str) -> int | None:
    """Return the number of an arm, hidden ones included; None if unknown."""
    return facts.scalar(int, "SELECT arm_no FROM arm WHERE learner_id = ? AND key = ?", [key])


def arm_counts(snapshot: Snapshot) -> dict[ArmType, int]:
    """Return the number of listed arms by type."""
    rows = snapshot.rows(
        "SELECT a.type, count(*) FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        f" WHERE a.learner_id = ? AND {LISTED} GROUP BY a.type"
    )
    counts: dict[ArmType, int] = dict(rows)
    return {name: counts[name] for name in ARM_TYPES if name in counts}


def _boundaries_until(snapshot: Snapshot, until_ms: int) -> tuple[dict[int, int], dict[int, str]]:
    """Return the latest active reset of each arm before a time, and every reset's target."""
    rows = snapshot.rows(
        "SELECT a.arm_no, r.revision, r.target FROM reset r JOIN reset_arm a"
        " ON a.learner_id = r.learner_id AND a.reset_no = r.reset_no"
        f" WHERE r.learner_id = ? AND r.undone = 0 AND r.{ACTIVE} AND r.at_ms < ? ORDER BY r.revision",
        [until_ms],
    )
    return {arm_no: revision for arm_no, revision, _ in rows}, {
        revision: target for _, revision, target in rows
    }


def _columns(facts: Facts, columns: Sequence[Sequence[Any]]) -> ArmColumns:
    """Columns in the order of ``_ARMS``."""
    keys, types, own_alpha, own_beta, *numbers = columns
    cost, base_alpha, base_beta, success, failure, pulls, part, inclusions, epoch, last, named, loaded = map(
        ints, numbers
    )
    priors = {of: facts.settings.priors.of(of) for of in set(types)}
    return ArmColumns(
        keys=tuple(keys),
        types=tuple(types),
        prior_alpha_micro=ints(
            [priors[of].alpha_micro if own is None else own for of, own in zip(types, own_alpha, strict=True)]
        ),
        prior_beta_micro=ints(
            [priors[of].beta_micro if own is None else own for of, own in zip(types, own_beta, strict=True)]
        ),
        base_alpha_micro=base_alpha,
        base_beta_micro=base_beta,
        success_micro=success,
        failure_micro=failure,
        pulls=pulls + part // MICRO,
        part_micro=part % MICRO,
        inclusions=inclusions,
        token_cost=cost,
        epoch=epoch,
        last_at_ms=last,
        n_named=named,
        n_loaded=loaded,
    )


def sessions_of_loads(snapshot: Snapshot, arm_no: int | None = None) -> dict[str, dict[str, int]]:
    """Return by skill and kind of load ("call", "typed") the number of sessions; a run without one is its own."""
    one = "" if arm_no is None else " AND e.arm_no = ?"
    rows = snapshot.rows(
        "SELECT a.key, e.place, count(DISTINCT coalesce('s' || r.session, 'r' || r.uid)) FROM evidence e"
        " JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no"
        " JOIN arm a ON a.learner_id = e.learner_id AND a.arm_no = e.arm_no"
        f" WHERE e.learner_id = ? AND e.place IN ('call', 'typed') AND r.{ACTIVE}{one} GROUP BY a.key, e.place",
        ([] if arm_no is None else [arm_no]),
    )
    sessions: dict[str, dict[str, int]] = {}
    for key, place, n in rows:
        sessions.setdefault(key, {})[place] = n
    return sessions


def is_known_by_text(snapshot: Snapshot, arm_no: int) -> bool:
    """Return whether the arm was recognised by its name in a text or in the arguments of a call."""
    return snapshot.has_row(
        "SELECT 1 FROM evidence WHERE learner_id = ? AND arm_no = ? AND place IN ('text', 'metadata') LIMIT 1",
        [arm_no],
    )


def skills_named_alike(snapshot: Snapshot, key: str) -> tuple[str, ...]:
    """Return the other skills with the same short name: what follows the last colon of the name."""
    short = skill_name(key).rpartition(":")[2]
    keys = snapshot.column("SELECT key FROM arm WHERE learner_id = ? AND type = 'skill' ORDER BY key")
    return tuple(one for one in keys if one != key and skill_name(one).rpartition(":")[2] == short)


def places_by_number(snapshot: Snapshot, columns: ArmColumns) -> Ints:
    """Place of each arm number in the columns, -1 for those that are not in them."""
    keys, numbers = snapshot.connection.columns(
        "SELECT key, arm_no FROM arm WHERE learner_id = ?", [snapshot.learner_id]
    )
    at = np.full(max(numbers, default=0) + 1, UNKNOWN)
    at[numbers] = [columns.places.get(key, UNKNOWN) for key in keys]
    return at


def near_keys(facts: Facts, key: str, limit: int = 3) -> list[str]:
    """Listed ids that a mistyped one may have meant."""
    keys = facts.connection.columns(_ARMS.replace("{which}", LISTED), [facts.learner_id])[0]
    name = key.rsplit(":", 1)[-1].lower()
    named = sorted(known for known in keys if known.rsplit(":", 1)[-1].lower() == name)
    close = difflib.get_close_matches(key, keys, n=limit, cutoff=0.6)
    return list(dict.fromkeys([*named, *close]))[:limit]


class ArmRow(NamedTuple):
    """A listed arm's posterior: alpha and beta in millionths, prior included, and pulls."""

    alpha: int
    beta: int
    pulls: int


def arm_row(facts: Facts, arm_no: int) -> ArmRow | None:
    """Return an arm's posterior; None where it is hidden."""
    return arm_rows(facts, [arm_no]).get(arm_no)


def arm_rows(facts: Facts, arm_nos: Collection[int]) -> dict[int, ArmRow]:
    """Return the posteriors of listed arms, by number."""
    rows = facts.rows_in(_ROWS, sorted(arm_nos))
    return {number: ArmRow._make(rest) for number, *rest in rows}


def hidden_arm_nos(facts: Facts, types: Sequence[ArmType]) -> set[int]:
    """Numbers of arms that are known but not listed: the imports that brought them are undone."""
    rows = facts.rows(
        "SELECT a.arm_no, a.type FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        f" WHERE a.learner_id = ? AND NOT {LISTED}"
    )
    return {arm_no for arm_no, of in rows if not types or of in types}


def listed_arm(facts: Facts, key: str) -> int | None:
    """The number of an arm that is listed, None for any other."""
    return listed_arms(facts, [key]).get(key)


def listed_arms(facts: Facts, keys: Collection[str]) -> dict[str, int]:
    """Numbers of those of some arms that are listed."""
    rows = facts.rows_in(
        f"SELECT a.key, a.arm_no FROM arm a {ARMS_BY_KEY}"
        " JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        f" WHERE a.learner_id = ? AND {LISTED} AND a.key IN ({{}})",
        sorted(keys),
    )
    return dict(rows)


def recent_days(
    snapshot: Snapshot,
    columns: ArmColumns,
    *,
    since_day: int,
    until_ms: int | None = None,
    min_pulls: int = 1,
) -> RecentDays:
    """Days from ``since_day`` on, and what has no time, of arms with at least ``min_pulls`` in their epoch.

    ``columns`` are of the same moment; as of a time (by full hours) the hours are added up instead of the days.
    """
    queries = (
        _now(snapshot, since_day, min_pulls)
        if until_ms is None
        else _as_of(snapshot, since_day, until_ms // HOUR_MS)
    )
    parts, at = snapshot.together(
        lambda: snapshot.together(*queries), lambda: places_by_number(snapshot, columns)
    )
    arm_no, epoch, day, *amounts = (ints(first + second) for first, second in zip(*parts, strict=True))
    index = at[arm_no] if len(arm_no) else arm_no
    is_known = index != UNKNOWN
    is_known[is_known] = columns.epoch[index[is_known]] == epoch[is_known]
    success, failure = (amount[is_known] for amount in amounts)
    return RecentDays(
        arm=index[is_known],
        day=day[is_known],
        success_micro=success,
        failure_micro=failure,
    )


def history_days(
    snapshot: Snapshot, columns: ArmColumns, places: Ints, at: Ints, *, since_day: int
) -> RecentDays:
    """Return the days of a few arms from one on; ``at`` maps arm numbers to columns."""
    numbers = np.flatnonzero(np.isin(at, places)).tolist() if len(places) else []
    rows = snapshot.connection.rows_in(_HISTORY, [snapshot.learner_id, since_day], numbers)
    arm_no, epoch, day, success, failure = map(ints, zip(*rows, strict=True) if rows else [()] * 5)
    arm = at[arm_no] if len(arm_no) else arm_no
    now = columns.epoch[arm] == epoch
    return RecentDays(arm=arm[now], day=day[now], success_micro=success[now], failure_micro=failure[now])


def arm_hours(
    snapshot: Snapshot,
    columns: ArmColumns,
    places: Ints,
    *,
    since_ms: int,
    until_ms: int,
    at: Ints | None = None,
) -> ArmHours:
    """Return the hours of arms between two times, in the epochs of the columns; ``at`` maps numbers to these."""
    at = places_by_number(snapshot, columns) if at is None else at
    numbers = np.flatnonzero(np.isin(at, places)).tolist() if len(places) else []
    hours = range(since_ms // HOUR_MS, -(-until_ms // HOUR_MS))
    rows = _hours_of(snapshot, numbers, hours) if numbers else []
    hour, arm_no, epoch, success, failure = map(ints, zip(*rows, strict=True) if rows else [()] * 5)
    index = at[arm_no] if len(arm_no) else arm_no
    order = np.argsort(hour, kind="stable")
    order = order[columns.epoch[index[order]] == epoch[order]]
    return ArmHours(
        arm=index[order], hour=hour[order], success_micro=success[order], failure_micro=failure[order]
    )


def _hours_of(snapshot: Snapshot, numbers: Sequence[int], hours: Sequence[int]) -> list[Row]:
    return snapshot.connection.rows_in(
        "SELECT hour, arm_no, epoch, success_micro, failure_micro FROM arm_hour WHERE learner_id = ?"
        f" AND arm_no IN ({','.join('?' * len(numbers))}) AND hour IN ({{}})",
        [snapshot.learner_id, *numbers],
        hours,
    )


def _now(snapshot: Snapshot, since_day: int, min_pulls: int) -> list[Callable[[], list[list[int]]]]:
    return [
        partial(
            snapshot.connection.columns,
            _DAYS.replace("{days}", days),
            [bound, snapshot.learner_id, min_pulls],
        )
        for days, bound in (("day >= ?", since_day), ("day = ?", UNKNOWN))
    ]


def _as_of(snapshot: Snapshot, since_day: int, until_hour: int) -> list[Callable[[], list[list[int]]]]:
    learner = snapshot.learner_id
    dated = [DAY_HOURS, learner, since_day * DAY_HOURS, until_hour]
    return [
        partial(snapshot.connection.columns, _UNTIL.replace("{hours}", "hour >= ? AND hour < ?"), dated),
        # -1 divided by 24 is 0 in SQL: an hour that stays one is an unknown one
        partial(snapshot.connection.columns, _UNTIL.replace("{hours}", "hour = ?"), [1, learner, UNKNOWN]),
    ]
