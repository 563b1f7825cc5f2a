"""Reads: rows → records and arrays. Never a row leaves this file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from core.columns import UNKNOWN, ArmColumns, Ints, UsageColumns
from core.records.arm import ARM_TYPES, MICRO, ArmType, arm_type
from core.records.audit import AuditEntry
from core.records.judged import INCLUDED, OBSERVED, REFERENCED
from core.records.observation import Observation
from core.records.reset import Reset
from core.store.engine import Link, Row
from core.store.tally import HOUR_MS, joined
from core.store.transaction import Snapshot, Transaction, base_of

DAY_HOURS: Final = 24


class Totals(NamedTuple):
    """Counts of a learner's standing runs; ``skipped`` by reason."""

    runs: int
    observed: int
    skipped: dict[str, int]
    empty: int
    tokens: int
    first_at_ms: int | None
    last_at_ms: int | None


class RunRow(NamedTuple):
    """One run for a list or a picker."""

    run_no: int
    uid: str
    at_ms: int | None
    model: str | None
    channel: str | None
    run_class: str
    status: str
    outcome: str
    tokens: int | None
    n_arms: int
    n_referenced: int


class FoundRun(NamedTuple):
    """What a reward that names a run needs of it."""

    run_no: int
    uid: str
    revision: int
    standing: bool


def learners(link: Link) -> tuple[str, ...]:
    """Names of all learners, sorted."""
    return tuple(name for (name,) in link.rows("SELECT name FROM learner ORDER BY name"))


# Arms

_ARMS: Final = (
    "SELECT a.key, a.prior_alpha_micro, a.prior_beta_micro, coalesce(a.token_cost, -1), p.base_alpha_micro,"
    " p.base_beta_micro, p.success_micro, p.failure_micro, p.pulls, p.inclusions, p.epoch, p.last_at_ms"
    " FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
    " WHERE a.learner_id = ? AND (a.declared > 0 OR p.seen > 0) ORDER BY a.key"
)


def arm_columns(facts: Snapshot | Transaction, *, types: Sequence[ArmType] = ()) -> ArmColumns:
    """Every arm that is declared or that something stands for, in its present epoch."""
    rows = facts.link.rows(_ARMS, [facts.learner_id])
    return _columns(facts, [row for row in rows if not types or arm_type(row[0]) in types])


def arm_columns_until(snapshot: Snapshot, until_ms: int, *, types: Sequence[ArmType] = ()) -> ArmColumns:
    """The same as of a time, by full hours: what had happened by then, in the epoch that stood then.

    What has no time counts; it can't be said to have come later.
    """
    hours = {(arm_no, epoch): row for arm_no, epoch, *row in _sums_until(snapshot, until_ms)}
    boundaries, targets = _boundaries_until(snapshot, until_ms)
    rows = []
    for key, arm_no, alpha, beta, cost, declared in snapshot.link.rows(
        "SELECT key, arm_no, prior_alpha_micro, prior_beta_micro, coalesce(token_cost, -1), declared"
        " FROM arm WHERE learner_id = ? ORDER BY key",
        [snapshot.learner_id],
    ):
        epoch = boundaries.get(arm_no, 0)
        seen = any((arm_no, other) in hours for other in {epoch, 0, *targets})
        if (types and arm_type(key) not in types) or not (declared or seen):
            continue
        base = base_of(snapshot.settings, key, alpha, beta, targets.get(epoch))
        inclusions, pulls, success, failure, last_hour = hours.get((arm_no, epoch), (0, 0, 0, 0, UNKNOWN))
        last = UNKNOWN if last_hour is None or last_hour < 0 else (last_hour + 1) * HOUR_MS - 1
        amounts = (base.alpha_micro, base.beta_micro, success, failure, pulls, inclusions, epoch, last)
        rows.append((key, alpha, beta, cost, *amounts))
    return _columns(snapshot, rows)


def arm_counts(snapshot: Snapshot) -> dict[ArmType, int]:
    """How many arms of each type are listed."""
    rows = snapshot.link.rows(
        "SELECT a.type, count(*) FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        " WHERE a.learner_id = ? AND (a.declared > 0 OR p.seen > 0) GROUP BY a.type",
        [snapshot.learner_id],
    )
    counts: dict[ArmType, int] = dict(rows)
    return {name: counts[name] for name in ARM_TYPES if name in counts}


def _sums_until(snapshot: Snapshot, until_ms: int) -> list[Row]:
    return snapshot.link.rows(
        "SELECT arm_no, epoch, sum(inclusions), sum(pulls), sum(success_micro), sum(failure_micro),"
        " max(CASE WHEN pulls > 0 THEN hour END) FROM arm_hour"
        " WHERE learner_id = ? AND hour < ? GROUP BY arm_no, epoch",
        [snapshot.learner_id, until_ms // HOUR_MS],
    )


def _boundaries_until(snapshot: Snapshot, until_ms: int) -> tuple[dict[int, int], dict[int, str]]:
    """The latest standing reset of each arm before a time, and every reset's target."""
    rows = snapshot.link.rows(
        "SELECT a.arm_no, r.revision, r.target FROM reset r JOIN reset_arm a"
        " ON a.learner_id = r.learner_id AND a.reset_no = r.reset_no"
        " WHERE r.learner_id = ? AND r.undone = 0 AND r.standing = 1 AND r.at_ms < ? ORDER BY r.revision",
        [snapshot.learner_id, until_ms],
    )
    return {arm_no: revision for arm_no, revision, _ in rows}, {
        revision: target for _, revision, target in rows
    }


def _columns(facts: Snapshot | Transaction, rows: Sequence[Row]) -> ArmColumns:
    keys = tuple(row[0] for row in rows)
    types = tuple(arm_type(key) for key in keys)
    priors = [facts.settings.priors.of(of) for of in types]
    numbers = [_ints([row[place] for row in rows]) for place in range(3, 12)]
    cost, base_alpha, base_beta, success, failure, pulls, inclusions, epoch, last = numbers
    return ArmColumns(
        keys=keys,
        types=types,
        prior_alpha_micro=_ints(
            [prior.alpha_micro if row[1] is None else row[1] for row, prior in zip(rows, priors, strict=True)]
        ),
        prior_beta_micro=_ints(
            [prior.beta_micro if row[2] is None else row[2] for row, prior in zip(rows, priors, strict=True)]
        ),
        base_alpha_micro=base_alpha,
        base_beta_micro=base_beta,
        success_micro=success,
        failure_micro=failure,
        pulls=pulls,
        inclusions=inclusions,
        token_cost=cost,
        epoch=epoch,
        last_at_ms=last,
    )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def near_keys(facts: Snapshot | Transaction, key: str, limit: int = 3) -> list[str]:
    """Listed ids that a mistyped one may have meant."""
    keys = [row[0] for row in facts.link.rows(_ARMS, [facts.learner_id])]
    name = key.rsplit(":", 1)[-1].lower()
    named = sorted(known for known in keys if known.rsplit(":", 1)[-1].lower() == name)
    close = difflib.get_close_matches(key, keys, n=limit, cutoff=0.6)
    return list(dict.fromkeys([*named, *close]))[:limit]


# Usage

_USAGE: Final = (
    "SELECT hour, class, model, channel, status, outcome, bucket, n, tokens, tokens_squared_high,"
    " tokens_squared_low, n_timed, duration_ms, duration_squared_high, duration_squared_low, n_prob, prob_micro"
    " FROM usage_hour WHERE learner_id = ? AND outcome <> 'empty'"
)


def usage_columns(snapshot: Snapshot) -> UsageColumns:
    """All standing runs added up by hour and kind."""
    rows = snapshot.link.rows(
        f"{_USAGE} ORDER BY hour, class, model, channel, status, outcome, bucket", [snapshot.learner_id]
    )
    by_place: list[tuple[object, ...]] = list(zip(*rows, strict=True)) or [()] * 17
    ints = {place: _ints(by_place[place]) for place in (0, 6, 7, 8, 11, 12, 15, 16)}  # type: ignore[arg-type]
    texts = [tuple(str(value) for value in by_place[place]) for place in range(1, 6)]
    return UsageColumns(
        hour=ints[0],
        run_class=texts[0],
        model=texts[1],
        channel=texts[2],
        status=texts[3],
        outcome=texts[4],
        bucket=ints[6],
        n=ints[7],
        tokens=ints[8],
        tokens_squared=np.array([joined(row[9], row[10]) for row in rows], dtype=np.float64),
        n_timed=ints[11],
        duration_ms=ints[12],
        duration_squared=np.array([joined(row[13], row[14]) for row in rows], dtype=np.float64),
        baseline_prob=ints[16] / MICRO,
        n_prob=ints[15],
    )


def totals(snapshot: Snapshot) -> Totals:
    """Counts for ``status`` and the frame."""
    rows = snapshot.link.rows(
        "SELECT outcome, sum(n), sum(tokens) FROM usage_hour WHERE learner_id = ? GROUP BY outcome",
        [snapshot.learner_id],
    )
    counts = {outcome: n for outcome, n, _ in rows}
    empty = counts.pop("empty", 0)
    first, last = _span(snapshot)
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


def _span(snapshot: Snapshot) -> tuple[int | None, int | None]:
    """When the first and the last standing run ended."""
    times = []
    for order in ("ASC", "DESC"):
        row = snapshot.link.row(
            "SELECT at_ms FROM run WHERE learner_id = ? AND at_ms IS NOT NULL AND standing = 1"
            f" AND outcome <> 'empty' ORDER BY at_ms {order} LIMIT 1",
            [snapshot.learner_id],
        )
        times.append(row[0] if row else None)
    return times[0], times[1]


def strata(snapshot: Snapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Models and channels that runs had, sorted; unknown ones are left out."""
    rows = snapshot.link.rows(
        "SELECT DISTINCT model, channel FROM usage_hour WHERE learner_id = ?", [snapshot.learner_id]
    )
    models = sorted({model for model, _ in rows if model})
    return tuple(models), tuple(sorted({channel for _, channel in rows if channel}))


def pulls_by_day(snapshot: Snapshot) -> tuple[Ints, Ints]:
    """Days since 1970 that saw pulls (all epochs), and how many."""
    rows = snapshot.link.rows(
        "SELECT hour / 24, sum(pulls) FROM arm_hour WHERE learner_id = ? AND hour >= 0 GROUP BY 1"
        " HAVING sum(pulls) > 0 ORDER BY 1",
        [snapshot.learner_id],
    )
    return _ints([day for day, _ in rows]), _ints([pulls for _, pulls in rows])


def inclusions_since(snapshot: Snapshot, since_ms: int) -> dict[str, int]:
    """How often each arm was in a prompt from the hour of a time on."""
    return dict(
        snapshot.link.rows(
            "SELECT a.key, sum(h.inclusions) FROM arm_hour h"
            " JOIN arm a ON a.learner_id = h.learner_id AND a.arm_no = h.arm_no"
            " WHERE h.learner_id = ? AND h.hour >= ? GROUP BY h.arm_no",
            [snapshot.learner_id, since_ms // HOUR_MS],
        )
    )


# Runs


def find_run(facts: Snapshot | Transaction, name: str) -> FoundRun | None:
    """A run by its uid, or by its number where no uid says so."""
    sql = "SELECT run_no, uid, revision, standing FROM run WHERE learner_id = ? AND {} = ? AND outcome <> 'empty'"
    row = facts.link.row(sql.replace("{}", "uid"), [facts.learner_id, name])
    digits = name.removeprefix("#").replace(",", "")
    if row is None and digits.isascii() and digits.isdigit() and len(digits) < 18:
        row = facts.link.row(sql.replace("{}", "run_no"), [facts.learner_id, int(digits)])
    return None if row is None else FoundRun(row[0], row[1], row[2], bool(row[3]))


def outcome_of(facts: Snapshot | Transaction, run_no: int, arm_no: int) -> int | None:
    """Flags of an arm in a run, None where it had no part in it."""
    row = facts.link.row(
        "SELECT flags FROM outcome WHERE learner_id = ? AND run_no = ? AND arm_no = ?",
        [facts.learner_id, run_no, arm_no],
    )
    return None if row is None else int(row[0])


def run_rows(snapshot: Snapshot, *, limit: int = 50, before: int | None = None) -> tuple[RunRow, ...]:
    """The latest standing runs by number, newest first; ``before`` pages on."""
    rows = snapshot.link.rows(
        "SELECT r.run_no, r.uid, r.at_ms, r.model, r.channel, r.class, r.status, r.outcome, r.tokens,"
        f" count(o.arm_no), coalesce(sum(o.flags & {REFERENCED} <> 0), 0) FROM ("
        "   SELECT * FROM run WHERE learner_id = ? AND standing = 1 AND outcome <> 'empty' AND run_no < ?"
        "   ORDER BY run_no DESC LIMIT ?) r"
        " LEFT JOIN outcome o ON o.learner_id = r.learner_id AND o.run_no = r.run_no"
        f" AND o.flags & {INCLUDED} <> 0 GROUP BY r.run_no ORDER BY r.run_no DESC",
        [snapshot.learner_id, before or 1 << 62, limit],
    )
    return tuple(RunRow._make(row) for row in rows)


# Ledger

_OBSERVATIONS: Final = (
    "SELECT b.observation_no, a.key, b.kind, b.success_micro, b.failure_micro, r.uid, b.run_no, b.reason,"
    " b.actor, b.at_ms, b.undone, b.standing, b.revision, b.arm_no, r.revision, r.standing, o.flags,"
    " (SELECT max(c.observation_no) FROM observation c WHERE c.learner_id = b.learner_id AND c.run_no = b.run_no"
    "   AND b.run_no > 0 AND c.arm_no = b.arm_no AND c.kind = 'correction' AND c.undone = 0 AND c.standing = 1)"
    " FROM observation b JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no"
    " LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0"
    " LEFT JOIN outcome o ON o.learner_id = b.learner_id AND o.run_no = b.run_no AND o.arm_no = b.arm_no"
    " WHERE b.learner_id = ?"
)


def observations(
    facts: Snapshot | Transaction, *, limit: int, actor: str | None = None, arm: str | None = None
) -> tuple[Observation, ...]:
    """The latest ledger rows, newest first, each with what it moves the mean at present."""
    sql, values = _OBSERVATIONS, [facts.learner_id]
    for column, value in (("b.actor", actor), ("a.key", arm)):
        if value is not None:
            sql += f" AND {column} = ?"
            values.append(value)
    rows = facts.link.rows(f"{sql} ORDER BY b.observation_no DESC LIMIT ?", [*values, limit])
    facts.epochs.load(row[13] for row in rows)
    posteriors = _posteriors(facts, [row[13] for row in rows])
    return tuple(_observation(facts, row, posteriors[row[13]]) for row in rows)


def _posteriors(facts: Snapshot | Transaction, arm_nos: Sequence[int]) -> dict[int, Row]:
    """Successes and failures with the base, and the epoch, of some arms."""
    rows = facts.link.rows_in(
        "SELECT arm_no, base_alpha_micro + success_micro, base_beta_micro + failure_micro, epoch FROM posterior"
        " WHERE learner_id = ? AND arm_no IN ({})",
        [facts.learner_id],
        sorted(set(arm_nos)),
    )
    return {row[0]: row[1:] for row in rows}


def _observation(facts: Snapshot | Transaction, row: Row, posterior: Row) -> Observation:
    number, key, kind, success, failure, uid, run_no, reason, actor, at_ms, undone, standing = row[:12]
    revision, arm_no, run_revision, run_standing, flags, latest = row[12:]
    epoch = facts.epochs.of(arm_no, revision if run_revision is None else run_revision)
    about = run_no == 0 or (bool(run_standing) and flags is not None and bool(flags & INCLUDED))
    if kind == "correction":
        about = about and latest == number and bool((flags or 0) & OBSERVED)
    counts = bool(standing) and not undone and about
    weight = success + failure
    return Observation(
        id=f"reward-{number}",
        arm=key,
        kind=kind,
        reward=success / weight if weight else 0.0,
        weight=weight / MICRO,
        run=uid,
        run_no=run_no or None,
        reason=reason or None,
        actor=actor,
        at_ms=at_ms,
        epoch=epoch,
        undone=bool(undone),
        counts=counts,
        mean_moved=_moved(kind, success, failure, flags, posterior)
        if counts and epoch == posterior[2]
        else 0.0,
    )


def _moved(kind: str, success: int, failure: int, flags: int | None, posterior: Row) -> float:
    """Mean now less the mean without this observation (a correction gives way to the automatic one)."""
    alpha, beta, _ = posterior
    automatic = 0
    if kind == "correction":
        automatic = MICRO if (flags or 0) & REFERENCED else 0
        success, failure = success - automatic, failure - (MICRO - automatic)
    return float(alpha / (alpha + beta) - (alpha - success) / (alpha + beta - success - failure))


def resets(snapshot: Snapshot) -> tuple[Reset, ...]:
    """All resets, newest first."""
    rows = snapshot.link.rows(
        "SELECT reset_no, revision, at_ms, actor, target, scope, reason, n_arms, undone, standing FROM reset"
        " WHERE learner_id = ? ORDER BY reset_no DESC",
        [snapshot.learner_id],
    )
    return tuple(
        Reset(
            id=f"reset-{number}",
            revision=revision,
            at_ms=at_ms,
            actor=actor,
            target=target,
            scope=scope,
            reason=reason or None,
            n_arms=n_arms,
            undone=bool(undone) or not standing,
        )
        for number, revision, at_ms, actor, target, scope, reason, n_arms, undone, standing in rows
    )


def audit_entries(snapshot: Snapshot, limit: int) -> tuple[AuditEntry, ...]:
    """The latest changes, newest first, each with whether it is undone by now."""
    rows = snapshot.link.rows(
        "SELECT at_ms, actor, action, act, detail, revision FROM audit WHERE learner_id = ?"
        " ORDER BY audit_no DESC LIMIT ?",
        [snapshot.learner_id, limit],
    )
    return tuple(
        AuditEntry(
            at_ms=at_ms,
            actor=actor,
            action=action,
            act=act,
            detail=msgspec.json.decode(detail),
            revision=revision,
            undone=_is_undone(snapshot, act),
        )
        for at_ms, actor, action, act, detail, revision in rows
    )


def _is_undone(snapshot: Snapshot, act: str | None) -> bool:
    if act is None:
        return False
    kind, _, number = act.partition("-")
    table = "observation" if kind == "reward" else kind
    row = snapshot.link.row(
        f'SELECT undone FROM "{table}" WHERE learner_id = ? AND {table}_no = ?',
        [snapshot.learner_id, int(number)],
    )
    return bool(row and row[0])


def numbered_runs(snapshot: Snapshot, chunk: int) -> Iterator[list[int]]:
    """Numbers of all runs, in chunks."""
    last = 0
    while True:
        rows = snapshot.link.rows(
            "SELECT run_no FROM run WHERE learner_id = ? AND run_no > ? ORDER BY run_no LIMIT ?",
            [snapshot.learner_id, last, chunk],
        )
        if not rows:
            return
        last = rows[-1][0]
        yield [run_no for (run_no,) in rows]


def arm_row(facts: Snapshot | Transaction, arm_no: int) -> tuple[int, int, int] | None:
    """Alpha and beta in millionths, prior included, and pulls of a listed arm; None where it is hidden."""
    row = facts.link.row(
        "SELECT p.base_alpha_micro + p.success_micro, p.base_beta_micro + p.failure_micro, p.pulls"
        " FROM posterior p JOIN arm a ON a.learner_id = p.learner_id AND a.arm_no = p.arm_no"
        " WHERE p.learner_id = ? AND p.arm_no = ? AND (a.declared > 0 OR p.seen > 0)",
        [facts.learner_id, arm_no],
    )
    return None if row is None else (row[0], row[1], row[2])


def hidden_arm_nos(facts: Snapshot | Transaction, types: Sequence[ArmType]) -> set[int]:
    """Numbers of arms that are known but not listed: the imports that brought them are undone."""
    rows = facts.link.rows(
        "SELECT a.arm_no, a.type FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        " WHERE a.learner_id = ? AND a.declared = 0 AND p.seen = 0",
        [facts.learner_id],
    )
    return {arm_no for arm_no, of in rows if not types or of in types}


def listed_arm(facts: Snapshot | Transaction, key: str) -> int | None:
    """The number of an arm that is listed, None for any other."""
    row = facts.link.row(
        "SELECT a.arm_no FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        " WHERE a.learner_id = ? AND a.key = ? AND (a.declared > 0 OR p.seen > 0)",
        [facts.learner_id, key],
    )
    return None if row is None else int(row[0])


def standing_correction(facts: Snapshot | Transaction, run_no: int, arm_no: int) -> tuple[int, int] | None:
    """Success and failure of the correction that counts for an arm in a run."""
    row = facts.link.row(
        "SELECT success_micro, failure_micro FROM observation WHERE learner_id = ? AND run_no = ? AND arm_no = ?"
        " AND kind = 'correction' AND undone = 0 AND standing = 1 ORDER BY observation_no DESC LIMIT 1",
        [facts.learner_id, run_no, arm_no],
    )
    return None if row is None else (row[0], row[1])
