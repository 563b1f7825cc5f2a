"""qortex databases: an SQLite file whose table ``arm_states`` holds a belief for every context and arm.

The beliefs are carried (`core.formats.carried`). There is one posterior per arm here and context is metadata,
so what an arm gathered in several contexts is added up, which a note says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from core.errors import InvalidInput, UnreadableSource
from core.formats.carried import Belief, carried, micro_above_one
from core.formats.entries import Entry, Progress, Rejected, Remark
from core.formats.reading import Format, Head, Reading
from core.formats.sqlite_file import MAGIC, opened
from core.formats.strict import UNDECODABLE, Flaw, reason, utc_ms_of
from core.records.alike import alike

NAME: Final = "qortex-db"

_TABLE: Final = "arm_states"
_STATES: Final = "SELECT arm_id, alpha, beta, pulls, last_updated FROM arm_states"
_MAX_CELL_BYTES: Final = 64 << 10
_MAX_ID_BYTES: Final = 4096  # of more than any id may have; the rest is not kept
_MAX_PULLS: Final = 10**15


def _claims(head: Head) -> bool:
    return head.start.startswith(MAGIC) and _TABLE.encode() in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    arms = _arms(reading)
    for arm_id, gathered in sorted(arms.items()):
        yield from _entries_of(reading, arm_id, gathered)
    n_merged = sum(gathered.n_contexts > 1 for gathered in arms.values())
    if n_merged:
        yield Remark(
            file=reading.file,
            text=f"{n_merged:,} arms had beliefs in several contexts, which were added up: there is one "
            "posterior per arm here.",
        )
    if progress is not None:
        progress(reading.path.stat().st_size)


@dataclass
class _Gathered:
    """Sums of an arm over all contexts, in whole millionths, so that order does not matter."""

    n_contexts: int = 0
    success_micro: int = 0
    failure_micro: int = 0
    pulls: int = 0
    at_ms: int | None = None
    problem: str | None = None

    def add(self, alpha: object, beta: object, pulls: object, last_updated: object) -> None:
        self.n_contexts += 1
        try:
            # Each context began at 1; the arm as a whole did so once.
            self.success_micro += micro_above_one("alpha", alpha)
            self.failure_micro += micro_above_one("beta", beta)
            self.pulls += _count(pulls)
        except InvalidInput as problem:
            self.problem = problem.problem
        # A number could be seconds or milliseconds, so only texts are times.
        text = last_updated.decode(errors="replace") if isinstance(last_updated, bytes) else None
        at_ms, _ = utc_ms_of(text)
        if at_ms is not None:
            self.at_ms = max(at_ms, self.at_ms or 0)


def _arms(reading: Reading) -> dict[bytes, _Gathered]:
    arms: dict[bytes, _Gathered] = {}
    with opened(reading, "qortex", [[_TABLE]], _MAX_CELL_BYTES) as (database, _):
        for arm_id, *state in database.execute(_STATES):
            name = arm_id[:_MAX_ID_BYTES] if isinstance(arm_id, bytes) else b""
            arms.setdefault(name, _Gathered()).add(*state)
            if len(arms) > reading.limits.sessions:
                raise UnreadableSource(
                    f"A qortex database must have at most {reading.limits.sessions:,} arms, got more "
                    f"({reading.file}).",
                    next_step="Check what made it.",
                )
    return arms


def _entries_of(reading: Reading, arm_id: bytes, gathered: _Gathered) -> Iterator[Entry]:
    """The belief in an arm, or why there is none: a sum of some of its contexts would be no belief."""
    try:
        if gathered.problem is not None:
            raise Flaw(gathered.problem)
        yield from carried(alike(Belief, gathered, arm=arm_id.decode()), "a qortex database")
    except UNDECODABLE as problem:
        name = repr(arm_id[:60].decode(errors="replace"))
        yield Rejected(file=reading.file, line=None, reason=f"Arm {name}: {reason(problem, arm_id)}")


def _count(value: object) -> int:
    if isinstance(value, int) and 0 <= value <= _MAX_PULLS:
        return value
    raise InvalidInput("pulls must be a whole number from 0.", next_step="Correct it in the database.")


FORMAT: Final = Format(name=NAME, units=(), claims=_claims, read=_read, takes_tools=False)
