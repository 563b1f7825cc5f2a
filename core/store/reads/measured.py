"""Counts for a monitor: sums of rollups, new selections, and active rewards that no reader includes."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from core.records.arm import MICRO
from core.records.judged import INCLUDED, OBSERVATION
from core.store.engine.dialect import ACTIVE, BY_RUN
from core.store.tables import LISTED
from core.store.transaction import Snapshot
from core.store.version import Choice

MOST_CHOSEN: Final = 10_000
_NEWEST: Final = "AND at_ms >= 0 ORDER BY at_ms DESC LIMIT 1"
_LAST_RUN: Final = f"SELECT at_ms FROM run WHERE learner_id = ? AND revision <= ? AND {ACTIVE} {_NEWEST}"
_LAST_IMPORT: Final = (
    f"SELECT at_ms FROM import WHERE learner_id = ? AND revision <= ? AND undone = 0 {_NEWEST}"
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
        _last_ms(snapshot, _LAST_RUN),
        _last_ms(snapshot, _LAST_IMPORT),
    )


def _last_ms(snapshot: Snapshot, sql: str) -> int | None:
    return snapshot.scalar(int, sql, [snapshot.revision])


def last_run_no(snapshot: Snapshot) -> int:
    """The newest number of a run; 0 where there is none."""
    return snapshot.count_of("SELECT max(run_no) FROM run WHERE learner_id = ?")


def budgets_used(snapshot: Snapshot, after_no: int) -> tuple[int, list[int]]:
    """Tokens that were in the prompt of each run that was chosen within a budget, from a number on.

    At most 10,000 runs are looked at: the number of the last of them is there, too. An arm of unknown cost counts
    for nothing, as it did when it was chosen.
    """
    rows = snapshot.rows(
        "SELECT run_no, choice FROM run WHERE learner_id = ? AND run_no > ? AND revision <= ? AND standing > 0"
        " ORDER BY run_no LIMIT ?",
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


Reader = Literal["present", "earlier", "replaced", "no_arm", "no_run", "no_observation"]
"""Reader of an active reward: the arm's posterior, or an earlier epoch. Otherwise the reason for none: a later
correction replaced it, its arm isn't listed, its run is inactive or left the arm out, or its corrected observation is
missing.
"""


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


REWARDS_READ: Final = (
    "SELECT coalesce(a.key, 'arm ' || b.arm_no), CASE\n"
    f" WHEN p.arm_no IS NULL OR NOT {LISTED} THEN 'no_arm'\n"
    f" WHEN b.run_no > 0 AND (coalesce(r.standing, 0) = 0 OR coalesce(o.flags, 0) & {INCLUDED} = 0) THEN 'no_run'\n"
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
