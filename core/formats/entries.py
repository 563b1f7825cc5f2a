"""Entries of a file: runs, ledger lines, and everything else with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Self

from core.records.ledger_lines import LedgerLine
from core.records.rollout import RolloutEvent, Started
from core.records.run import Run, Unit

MIB: Final = 1 << 20

Progress = Callable[[int], None]
"""Called with the bytes read of a file so far, as it lies on disk (compressed, if it is)."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits per file; files come from strangers and models.

    Reading stops after ``rejected_lines`` rejected or blank lines in a row, or after ``first_rejected`` rejected ones
    before the first good line. A record larger than ``whole_bytes`` is read with its long texts cut. ``elements`` are
    the objects, lists and commas of what is decoded at one time. A database has at most ``rows`` in all tables, of at
    most ``sessions``, each of at most ``session_rows`` in one table. ``parts`` are those of
    the sessions that are read at one time. A part takes about 256 bytes of memory: a line is 1, a call 3, a run 10,
    and a long text more.
    """

    line_bytes: int = 16 * MIB
    document_bytes: int = 256 * MIB
    whole_bytes: int = 64 * MIB
    inflated_bytes: int = 4096 * MIB
    depth: int = 64
    elements: int = 3_000_000
    rows: int = 20_000_000
    sessions: int = 500_000
    session_rows: int = 1_000_000
    parts: int = 1_500_000
    rejected_lines: int = 100_000
    first_rejected: int = 10_000

    @classmethod
    def of(cls, *, inflated_bytes: int | None = None, rejected_lines: int | None = None) -> Self:
        """The usual ones but for what a person allows: so many rejected lines from the first line on."""
        usual = cls() if inflated_bytes is None else cls(inflated_bytes=inflated_bytes)
        if rejected_lines is None:
            return usual
        return replace(usual, rejected_lines=rejected_lines, first_rejected=rejected_lines)


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A line, or a record of an array, that was left out; ``line`` counts from 1, None = the whole file."""

    file: str
    line: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Replies before any user spoke; ``no_user_text``: none ever speaks, so only by episode is there a run."""

    file: str
    line: int
    n_replies: int
    n_calls: int
    no_user_text: bool


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A file that is not read, because of what it is: why, and what can be done about it."""

    file: str
    reason: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A belief that a file states beside the runs it should follow from: compared with them, never taken."""

    file: str
    arm: str
    alpha: float
    beta: float
    pulls: int


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A note for the person about the reading of a file."""

    file: str
    text: str


class RolloutEvents(NamedTuple):
    """All events of a rollout in one file, its start first; without it they wait for that, which another may have."""

    events: tuple[RolloutEvent, ...]

    @property
    def rollout(self) -> str:
        """Id of their rollout."""
        return self.events[0].rollout

    @property
    def has_started(self) -> bool:
        """True if its start is among them."""
        return isinstance(self.events[0], Started)


Entry = Run | LedgerLine | Rejected | Outside | Stated | Remark | Skipped | RolloutEvents


@dataclass(frozen=True, kw_only=True)
class Source:
    """One recognised file, not read yet; ``unit`` None = each run names its own. ``file`` is shown, no identity."""

    file: str
    format: str
    unit: Unit | None
    size_bytes: int
    path: Path = field(repr=False)
    read: Callable[[Progress | None], Iterator[Entry]] = field(repr=False, compare=False)

    def entries(self, progress: Progress | None = None) -> Iterator[Entry]:
        """Yield everything in the file, lazily, from its start; raises `UnreadableSource`, also for disk errors."""
        return self.read(progress)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The recognised files of some paths, and what else a folder held; its ``with`` deletes what was unpacked."""

    sources: tuple[Source, ...]
    skipped: tuple[Skipped, ...] = ()
    close: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources)
