"""The story of one arm: the starts of its epochs, other changes, and its part in runs.

The evidence of some arms is what runs observed of them by day, before and after a time, with examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.records.corrections import Target
from core.records.evidence import INCLUDED, NAMED, OBSERVATION, REFERENCED
from core.records.times import DAY_MS, HOUR_MS
from core.store.engine.dialect import ACTIVE, BY_RUN
from core.store.transaction import Facts, Snapshot, base_of

_VERSIONS: Final = (
    "SELECT d.version, o.flags, count(*), min(r.at_ms), max(r.at_ms) FROM definition d"
    " JOIN defined s ON s.learner_id = d.learner_id AND s.set_key = d.set_key"
    " JOIN run r ON r.learner_id = s.learner_id AND r.run_no = s.run_no"
    " JOIN outcome o ON o.learner_id = s.learner_id AND o.run_no = s.run_no AND o.arm_no = d.arm_no"
    f" WHERE d.learner_id = ? AND d.arm_no = ? AND r.{ACTIVE} AND r.revision <= ? GROUP BY d.version, o.flags"
)

_OF_ARMS: Final = (  # runs first, then the arms in each: the order of the tables says so
    " FROM run r CROSS JOIN outcome o JOIN posterior p ON p.learner_id = o.learner_id AND p.arm_no = o.arm_no"
    " WHERE r.learner_id = ? AND r.at_ms >= 0 AND r.revision <= ? AND r.revision > p.epoch"
    f" AND r.{ACTIVE} AND o.learner_id = r.learner_id AND o.run_no = r.run_no AND o.arm_no IN ({{}})"
)
_OBSERVED: Final = f"o.flags & {OBSERVATION} <> 0"
_USED: Final = f"{_OBSERVED} AND o.flags & {REFERENCED} <> 0"
_KEY: Final = "o.arm_no, o.day, o.is_after, o.model, o.channel, o.format, o.import_no"
_GROUPS: Final = (
    f"SELECT {_KEY}, count(*) FILTER (WHERE {_OBSERVED}), count(*) FILTER (WHERE {_USED})"
    f" FROM (SELECT o.arm_no, o.flags, r.format, r.import_no, r.at_ms / {DAY_MS} AS day,"
    " CASE WHEN r.at_ms >= ? THEN 1 ELSE 0 END AS is_after, coalesce(r.model, '') AS model,"
    f" coalesce(r.channel, '') AS channel{_OF_ARMS}) o GROUP BY {_KEY}"
)
_EXAMPLE: Final = f"SELECT r.run_no, r.at_ms, r.model, r.channel, r.session, o.arm_no, o.flags{_OF_ARMS}"
_AFTER: Final = f"{_EXAMPLE} AND r.at_ms >= ? AND {_OBSERVED} ORDER BY r.at_ms, r.run_no, o.arm_no LIMIT ?"
_BEFORE: Final = (
    f"{_EXAMPLE} AND r.at_ms < ? AND {_USED} ORDER BY r.at_ms DESC, r.run_no DESC, o.arm_no LIMIT ?"
)


class ArmReset(NamedTuple):
    """A reset of one arm, with what its belief starts from; undone ones draw no boundary."""

    number: int
    revision: int
    at_ms: int
    target: Target
    actor: str
    reason: str | None
    undone: bool
    alpha_micro: int
    beta_micro: int


class ArmPart(NamedTuple):
    """One arm's part in one run. ``reason`` to ``budget_left`` are None where nothing was decided, ``place`` and
    ``excerpt`` where nothing was kept of a reference; ``token_cost`` -1 = unknown.
    """

    run_no: int
    revision: int
    n_calls: int
    flags: int
    token_cost: int
    reason: str | None
    rank: int | None
    draw: float | None
    decided_cost: int | None
    budget_left: int | None
    place: str | None
    excerpt: str | None
    corrected: bool


def arm_start(snapshot: Snapshot, arm_no: int) -> tuple[int, int]:
    """Alpha and beta in millionths that an arm started from before any reset: its own prior, or its type's."""
    key, alpha, beta = _arm(snapshot, arm_no)
    prior = base_of(snapshot.settings, key, alpha, beta, None)
    return prior.alpha_micro, prior.beta_micro


def arm_resets(snapshot: Snapshot, arm_no: int) -> tuple[ArmReset, ...]:
    """Resets that concern an arm, in the order of learning; those of imports that are undone are left out."""
    key, alpha, beta = _arm(snapshot, arm_no)
    resets = []
    for number, revision, at_ms, target, actor, reason, undone in snapshot.rows(
        "SELECT r.reset_no, r.revision, r.at_ms, r.target, r.actor, r.reason, r.undone FROM reset r"
        " JOIN reset_arm a ON a.learner_id = r.learner_id AND a.reset_no = r.reset_no"
        f" WHERE r.learner_id = ? AND a.arm_no = ? AND r.{ACTIVE} ORDER BY r.revision, r.reset_no",
        [arm_no],
    ):
        base = base_of(snapshot.settings, key, alpha, beta, target)
        resets.append(
            ArmReset(
                number,
                revision,
                at_ms,
                target,
                actor,
                (reason or None) if snapshot.shows_words else None,
                bool(undone),
                base.alpha_micro,
                base.beta_micro,
            )
        )
    return tuple(resets)


class VersionCount(NamedTuple):
    """Number of runs that had one version of an arm with the same flags, and the times of the first and last."""

    version: str
    flags: int
    runs: int
    first_ms: int | None
    last_ms: int | None


def version_counts(facts: Facts, arm_no: int) -> list[VersionCount]:
    """Return the runs of each version of an arm's definition."""
    rows = facts.rows(_VERSIONS, [arm_no, facts.revision])
    return [VersionCount(*row) for row in rows]


def unversioned_counts(
    snapshot: Snapshot, arm_no: int, versions: Sequence[tuple[str, int]]
) -> list[VersionCount]:
    """Return runs without a definition on record by version: each with its first UTC millisecond, latest first."""
    cases = " ".join("WHEN r.at_ms >= ? THEN ?" for _ in versions)
    rows = snapshot.connection.rows(
        f"SELECT CASE {cases} END AS n, o.flags, count(*), min(r.at_ms), max(r.at_ms) FROM outcome o"
        " JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
        " LEFT JOIN defined s ON s.learner_id = o.learner_id AND s.run_no = o.run_no"
        " LEFT JOIN definition d ON d.learner_id = s.learner_id AND d.set_key = s.set_key AND d.arm_no = o.arm_no"
        f" WHERE o.learner_id = ? AND o.arm_no = ? AND r.{ACTIVE} AND r.revision <= ? AND r.at_ms >= ?"
        f" AND (o.flags & {INCLUDED | NAMED}) <> 0 AND d.set_key IS NULL GROUP BY n, o.flags",
        [
            *(value for at, (_, since_ms) in enumerate(versions) for value in (since_ms, at)),
            snapshot.learner_id,
            arm_no,
            snapshot.revision,
            versions[-1][1],
        ],
    )
    return [VersionCount(versions[int(at)][0], *rest) for at, *rest in rows]


def n_in_prompts(snapshot: Snapshot, arm_no: int) -> int:
    """Return the number of runs that had an arm in full or by name, in every epoch."""
    return snapshot.count_of(
        "SELECT coalesce(sum(inclusions + n_named - n_loaded), 0) FROM arm_day"
        " WHERE learner_id = ? AND arm_no = ?",
        [arm_no],
    )


def first_of_models(snapshot: Snapshot) -> tuple[tuple[str, int], ...]:
    """Return each model with the hour of its first run as UTC milliseconds, in the order they appeared."""
    rows = snapshot.rows(
        "SELECT model, min(hour) FROM usage_hour WHERE learner_id = ? AND hour >= 0 AND model <> ''"
        " AND n > 0 GROUP BY model ORDER BY min(hour), model"
    )
    return tuple((model, hour * HOUR_MS) for model, hour in rows)


def last_run_ms(snapshot: Snapshot) -> int | None:
    """The hour of the newest run with a time, as UTC milliseconds."""
    row = snapshot.row("SELECT max(hour) FROM usage_hour WHERE learner_id = ? AND hour >= 0 AND n > 0")
    return None if row is None or row[0] is None else int(row[0]) * HOUR_MS


def parts_of_arm(snapshot: Snapshot, arm_no: int, run_nos: Sequence[int]) -> dict[int, ArmPart]:
    """One arm's part in each of these runs that it had one in, by the run's number."""
    rows = snapshot.connection.rows_in(
        "SELECT o.run_no, r.revision, r.n_calls, o.flags, o.token_cost, d.reason, d.rank, d.draw, d.token_cost,"
        " d.budget_left, e.place, e.excerpt, EXISTS (SELECT 1 FROM observation b"
        f"   {BY_RUN} WHERE b.learner_id = ?1 AND b.run_no = o.run_no AND b.run_no <> 0"
        f"   AND b.arm_no = o.arm_no AND b.kind = 'correction' AND b.undone = 0 AND b.{ACTIVE})"
        " FROM outcome o JOIN run r ON r.learner_id = o.learner_id AND r.run_no = o.run_no"
        " LEFT JOIN decision d ON d.learner_id = o.learner_id AND d.run_no = o.run_no AND d.arm_no = o.arm_no"
        " LEFT JOIN evidence e ON e.learner_id = o.learner_id AND e.run_no = o.run_no AND e.arm_no = o.arm_no"
        " WHERE o.learner_id = ?1 AND o.arm_no = ? AND o.run_no IN ({})",
        [snapshot.learner_id, arm_no],
        run_nos,
    )
    return {
        row[0]: ArmPart._make((*row[:11], row[11] if snapshot.shows_texts else None, bool(row[12])))
        for row in rows
    }


def _arm(snapshot: Snapshot, arm_no: int) -> tuple[str, int | None, int | None]:
    key, alpha, beta = snapshot.rows(
        "SELECT key, prior_alpha_micro, prior_beta_micro FROM arm WHERE learner_id = ? AND arm_no = ?",
        [arm_no],
    )[0]
    return key, alpha, beta


class Group(NamedTuple):
    """Runs of one arm, day, side (before or after a time), model, channel, format and import.

    ``n_observed`` and ``n_used`` include observations that a repair took back.
    """

    arm_no: int
    day: int
    is_after: int
    model: str
    channel: str
    format: str
    import_no: int
    n_observed: int
    n_used: int


class ExampleRun(NamedTuple):
    """A run that observed one of the arms."""

    run_no: int
    at_ms: int
    model: str | None
    channel: str | None
    session: str | None
    arm_no: int
    flags: int

    @property
    def is_used(self) -> bool:
        return self.flags & REFERENCED != 0


def groups_of(snapshot: Snapshot, arm_nos: Sequence[int], since_ms: int) -> list[Group]:
    """Return the runs of arms in their present epochs, in groups."""
    head = [since_ms, snapshot.learner_id, snapshot.revision]
    rows = snapshot.connection.rows_in(_GROUPS, head, sorted(arm_nos))
    return [Group._make(row) for row in sorted(rows)]


def example_runs(snapshot: Snapshot, arm_nos: Sequence[int], since_ms: int, limit: int) -> list[ExampleRun]:
    """Return the last runs before a time that used an arm, and the first ones from then on, in order of time."""
    head, tail = [snapshot.learner_id, snapshot.revision], [since_ms, limit]
    rows = [
        *snapshot.connection.rows_in(_BEFORE, head, sorted(arm_nos), tail),
        *snapshot.connection.rows_in(_AFTER, head, sorted(arm_nos), tail),
    ]
    shown = (row for row in rows if row[0] not in snapshot.blind)
    return sorted(map(ExampleRun._make, shown), key=lambda one: (one.at_ms, one.run_no, one.arm_no))
