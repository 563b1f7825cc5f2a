"""Run parts: the part of arms in a few runs, and manual rewards there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.columns import Ints
from core.records.arm import ArmType
from core.records.judged import INCLUDED, REFERENCED
from core.store.engine.words import ACTIVE, BY_RUN
from core.store.reads.arrays import ints
from core.store.transaction import Snapshot


class ArmsInRuns(NamedTuple):
    """Arms that had a part in some runs. ``n_in`` counts prompts they were in, ``last_used`` is the place of
    the last run that referenced them (-1: none did).
    """

    arm_nos: Ints
    keys: tuple[str, ...]
    types: tuple[ArmType, ...]
    n_in: Ints
    n_used: Ints
    last_used: Ints

    def at(self, places: Ints) -> ArmsInRuns:
        """Some of them, in this order."""
        return ArmsInRuns(
            arm_nos=self.arm_nos[places],
            keys=tuple(self.keys[index] for index in places.tolist()),
            types=tuple(self.types[index] for index in places.tolist()),
            n_in=self.n_in[places],
            n_used=self.n_used[places],
            last_used=self.last_used[places],
        )


class Parts(NamedTuple):
    """Flags of some arms in some runs, aligned: which run (place), which arm (number), what part."""

    run: Ints
    arm_no: Ints
    flags: Ints


class ManualRewards(NamedTuple):
    """Counted manual rewards in some runs, the latest last; ``reward_micro`` of each."""

    run: Ints
    arm_no: Ints
    reward_micro: Ints


def arms_in_runs(snapshot: Snapshot, run_nos: Sequence[int]) -> ArmsInRuns:
    """Every arm with a part in these runs (a few dozen), sorted by id; places count from the first of them."""
    rows = snapshot.connection.rows(
        f"WITH wanted (place, run_no) AS ({_values(run_nos)}), part AS ("
        f" SELECT o.arm_no, count(*) FILTER (WHERE o.flags & {INCLUDED} <> 0) AS n_in,"
        f" count(*) FILTER (WHERE o.flags & {REFERENCED} <> 0) AS n_used,"
        f" max(CASE WHEN o.flags & {REFERENCED} <> 0 THEN w.place ELSE -1 END) AS last_used"
        " FROM wanted w CROSS JOIN outcome o WHERE o.learner_id = ? AND o.run_no = w.run_no GROUP BY o.arm_no)"
        " SELECT a.arm_no, a.key, a.type, p.n_in, p.n_used, p.last_used FROM part p"
        " CROSS JOIN arm a WHERE a.learner_id = ? AND a.arm_no = p.arm_no ORDER BY a.key",
        [*_numbered(run_nos), snapshot.learner_id, snapshot.learner_id],
    )
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return ArmsInRuns(
        arm_nos=ints(columns[0]),
        keys=tuple(columns[1]),
        types=tuple(columns[2]),
        n_in=ints(columns[3]),
        n_used=ints(columns[4]),
        last_used=ints(columns[5]),
    )


def parts(snapshot: Snapshot, run_nos: Sequence[int], arm_nos: Sequence[int]) -> Parts:
    """Return the part of these arms in these runs; pairs without one are missing."""
    rows = snapshot.connection.rows_in(
        f"WITH wanted (place, run_no) AS ({_values(run_nos)})"
        " SELECT w.place, o.arm_no, o.flags FROM wanted w CROSS JOIN outcome o"
        " WHERE o.learner_id = ? AND o.run_no = w.run_no AND o.arm_no IN ({})",
        [*_numbered(run_nos), snapshot.learner_id],
        arm_nos,
    )
    columns = list(zip(*rows, strict=True)) or [()] * 3
    return Parts(ints(columns[0]), ints(columns[1]), ints(columns[2]))


def manual_rewards(snapshot: Snapshot, run_nos: Sequence[int]) -> ManualRewards:
    """Return active feedback and corrections about these runs."""
    rows = snapshot.connection.rows(
        f"WITH wanted (place, run_no) AS ({_values(run_nos)})"
        f" SELECT w.place, b.arm_no, b.success_micro FROM wanted w CROSS JOIN observation b {BY_RUN}"
        f" WHERE b.learner_id = ? AND b.run_no = w.run_no AND b.run_no <> 0 AND b.undone = 0 AND b.{ACTIVE}"
        " AND b.kind IN ('feedback', 'correction') ORDER BY b.observation_no",
        [*_numbered(run_nos), snapshot.learner_id],
    )
    columns = list(zip(*rows, strict=True)) or [()] * 3
    return ManualRewards(ints(columns[0]), ints(columns[1]), ints(columns[2]))


def _values(run_nos: Sequence[int]) -> str:
    return f"VALUES {','.join(['(?, ?)'] * len(run_nos))}" if run_nos else "SELECT 0, 0 WHERE 1 = 0"


def _numbered(run_nos: Sequence[int]) -> list[int]:
    return [value for pair in enumerate(run_nos) for value in pair]
