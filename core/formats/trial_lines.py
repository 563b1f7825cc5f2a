"""Lines of a trial: a header, then one line for each cell, as the script of a plan and `learner.trial` write them.

The header is ``{"armscope_trial": 1, "plan": 3, "arm": "skill:own:pdf", "harness": "claude"}``. Every other line is
a cell with the members of `Cell`, such as ``{"task": "t1", "repeat": 1, "side": "with", "grade": 1}``. Lines are
appended while the trial runs, so a file may end in half a line, which is noted and left out. A repeated header is
passed over. The first line of a cell counts, and one with other content is noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

import msgspec
from msgspec.structs import replace

from core.errors import UnreadableSource
from core.formats.entries import Rejected
from core.formats.reading import Head, Reading
from core.records.counts import number_of
from core.records.limits import Label, shown
from core.records.trial import MOST_CELLS, Cell, CellKey, TrialResults, TrialSide, TrialTask

NAME: Final = "armscope-trial"
MARK: Final = "armscope_trial"
VERSION: Final = 1
_SHOWN_DIGITS: Final = 8
_LINE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CELL: Final = msgspec.json.Decoder(Cell)


class TrialHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    r"""The first line of a file of cells. ``armscope_trial`` is the version of its form.

    ``plan`` is the number of the plan, None = without one. ``arm`` is the arm of the trial, '' where cells name their
    own. ``rescored`` names sides whose grades were made again.

    >>> line_of(TrialHeader(armscope_trial=VERSION, plan=3, arm="skill:own:pdf"))
    b'{"armscope_trial":1,"plan":3,"arm":"skill:own:pdf"}\n'
    """

    armscope_trial: int
    plan: int | None = None
    arm: Label = ""
    harness: Label = ""
    alone: bool = False
    rescored: tuple[TrialSide, ...] = ()


def line_of(line: TrialHeader | Cell) -> bytes:
    """Return the line of a header or a cell."""
    return msgspec.json.encode(line) + b"\n"


def claims(head: Head) -> bool:
    """Return whether a file begins with a header."""
    return MARK in head.keys


@dataclass
class Collected:
    """Cells of one source, each once, in their order, with the notes about what was left out."""

    file: str
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    tasks: dict[str, TrialTask] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    n_other: int = 0
    rejected: list[Rejected] = field(default_factory=list)

    def add(self, cell: Cell) -> None:
        """Add a cell; of two with one name the first stays."""
        known = self.cells.setdefault(cell.key, cell)
        self.n_other += known != cell
        if len(self.cells) > MOST_CELLS:
            raise UnreadableSource(
                f"Results must have at most {MOST_CELLS:,} cells, got more ({self.file}).",
                next_step="Check what made them. Else split them, one trial a file.",
            )

    def task(self, name: str, digest: str, cluster: str) -> str:
        """Add a task and return its name. A known name with another digest is another task, with the digest in it."""
        known = self.tasks.setdefault(name, TrialTask(name=name, digest=digest, cluster=cluster))
        if digest in {known.digest, ""} or not known.digest:
            return name
        other = f"{name} ({digest[:_SHOWN_DIGITS]})"
        if other not in self.tasks:
            self.tasks[other] = TrialTask(name=other, digest=digest, cluster=cluster)
            self.notes.append(f"{shown(name)} has another digest, too. This one is the task {shown(other)}.")
        return other

    def results(self, source: str, header: TrialHeader, about: str = "") -> TrialResults:
        """Return the results; raise `UnreadableSource` where there are none.

        The digests of a harness are not those of a plan, so they are in the names of tasks alone.
        """
        if not self.cells:
            why = f" The first record left out: {self.rejected[0].reason}" if self.rejected else ""
            raise UnreadableSource(
                f"Results must hold a cell, got none ({self.file}).{why}",
                next_step="Run the trial first, or name another file.",
            )
        return TrialResults(
            source=source,
            cells=tuple(self.cells.values()),
            tasks=tuple(replace(one, digest="") for one in self.tasks.values()),
            arm=header.arm,
            about=about,
            plan=header.plan,
            harness=header.harness,
            alone=header.alone,
            rescored=header.rescored,
            notes=(*self.notes, *self._left_out()),
        )

    def _left_out(self) -> Iterator[str]:
        if self.rejected:
            first = self.rejected[0]
            n_records = number_of(len(self.rejected), "record")
            where = f"number {first.line or 1} of {PurePath(first.file).name}"
            yield f"{n_records} left out. The first is {where}: {first.reason}"
        if self.n_other:
            cells = number_of(self.n_other, "cell")
            yield f"{cells} came again with other content. The first of each counts."


_HEADER: Final = msgspec.json.Decoder(TrialHeader)


def results_in(reading: Reading) -> TrialResults:
    """Return the results of a file of lines; raise `UnreadableSource` for two trials in one file."""
    collected, header = Collected(reading.file), None
    for number, _, line in reading.records(_decoded):
        if isinstance(line, Rejected):
            collected.rejected.append(line)
        elif isinstance(line, Cell):
            collected.add(line)
        elif header is None:
            header = _checked(line, reading.file)
        elif line != header:
            raise UnreadableSource(
                f"A file of a trial must have one header, got another in line {number:,} ({reading.file}).",
                next_step="Write each trial into a file of its own.",
            )
    if header is None:
        raise UnreadableSource(
            f"A file of a trial must begin with its header, but: {collected.rejected[0].reason} ({reading.file}).",
            next_step="Read it again once it is complete, or with the version of armscope that wrote it.",
        )
    return collected.results(NAME, header)


def _decoded(raw: bytes) -> TrialHeader | Cell:
    return _HEADER.decode(raw) if MARK in _LINE.decode(raw) else _CELL.decode(raw)


def _checked(header: TrialHeader, file: str) -> TrialHeader:
    if header.armscope_trial != VERSION:
        raise UnreadableSource(
            f"{MARK} must be {VERSION}, got {shown(header.armscope_trial)} ({file}).",
            next_step="Read the file with the version of armscope that wrote it, or a later one.",
        )
    return header
