"""Run page: some runs of a list, newest first, and where the list goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from core.records.achieved import Achieved, OutcomeSource
from core.records.currency import DOLLAR
from core.records.evidence import Outcome
from core.records.run import RunClass, Status
from core.records.transcript import Message

Direction = Literal["older", "newer"]
RowState = Literal["active", "undone", "gone"]
"""A row counts; an undo took it back; it no longer passes the filters of the list."""


class RunRow(NamedTuple):
    """One run for a list or a picker.

    ``revision`` changed it last: recorded, extended, corrected, undone or erased it. ``erased``: its texts are
    gone for good. ``mark`` is the position of that change, from which a list with ``since`` goes on. ``achieved`` is
    its outcome from 0 to 1, from the source ``achieved_by``.
    """

    run_no: int
    uid: str
    at_ms: int | None
    model: str | None
    channel: str | None
    run_class: RunClass
    status: Status
    outcome: Outcome
    tokens: int | None
    n_arms: int
    n_referenced: int
    duration_ms: int | None
    n_calls: int
    session: str | None = None
    revision: int = 0
    state: RowState = "active"
    erased: bool = False
    mark: str | None = None
    achieved: float | None = None
    achieved_by: OutcomeSource | None = None

    @property
    def outcome_shown(self) -> Achieved | None:
        """Its outcome with the source; None where unknown."""
        if self.achieved is None or self.achieved_by is None:
            return None
        return Achieved(self.achieved, self.achieved_by)


class Cursor(NamedTuple):
    """The place of a run in the order of time; ``at_ms`` None = unknown, which comes last."""

    at_ms: int | None
    run_no: int


class RunPage(NamedTuple):
    """Runs newest first. ``onward`` is where the next page in this direction starts, None at the end.
    ``cut_short``: looking stopped after ``n_looked_at`` runs, before the page was full.
    """

    rows: tuple[RunRow, ...]
    onward: Cursor | None
    n_looked_at: int
    cut_short: bool


class SessionRow(NamedTuple):
    """A session: its active runs in a view, the first and last end, and their outcomes.

    ``tokens`` and ``cost_pico`` (10⁻¹² of ``currency``) are sums over the ``n_tokens`` and ``n_costs`` runs that have
    them.
    """

    session: str
    n_runs: int
    first_ms: int | None
    last_ms: int | None
    n_observed: int
    n_unfinished: int
    tokens: int
    n_tokens: int
    cost_pico: int
    n_costs: int
    channel: str | None
    n_channels: int
    model: str | None
    n_models: int
    currency: str = DOLLAR


class SessionCursor(NamedTuple):
    """The place of a session in a list, the latest first; ``last_ms`` None = unknown, which comes last."""

    last_ms: int | None
    session: str


class SessionPage(NamedTuple):
    """Sessions, the latest first. ``onward`` is where the next page starts, None at the end."""

    rows: tuple[SessionRow, ...]
    onward: SessionCursor | None


@dataclass(frozen=True, kw_only=True)
class RunsOfSession:
    """A session with its first runs in order, and their arms: id, prompts with it, runs that referenced it.

    ``transcripts`` are the kept messages by a run's uid, of the runs whose texts the caller may read; None where they
    were not asked for.
    """

    row: SessionRow
    rows: tuple[RunRow, ...]
    arms: tuple[tuple[str, int, int], ...]
    transcripts: Mapping[str, tuple[Message, ...]] | None = None
