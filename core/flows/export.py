"""Export: everything a learner holds as lines of our own format, in the order of learning; loss-free.

Read into an empty database it gives the same posteriors, runs, rewards, resets and epochs. Imports that are
undone are left out; rewards and resets that are undone go along, marked.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import IO

import msgspec

from core.errors import InvalidInput
from core.flows.desk import Desk
from core.formats.armscope import write
from core.permissions import authorise
from core.records.ledger_lines import LearnerLine, LedgerLine
from core.store.telling import told_arms, told_resets, told_rewards, told_runs
from core.store.transaction import Snapshot


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    lines: int
    arms: int
    runs: int
    rewards: int
    resets: int
    revision: int


def export_file(desk: Desk, target: Path) -> ExportAnswer:
    """Write a learner's lines into a new file. Raises `InvalidInput` for a name that is taken."""
    authorise(desk.actor, "read")
    try:
        with target.open("xb") as file, _whole_or_gone(file, target):
            return export_into(desk, file, str(target))
    except FileExistsError as problem:
        raise InvalidInput(
            f"The export's file must not exist yet, got {target}.",
            next_step="Choose another name; nothing was overwritten.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(
            f"The export can't be written to {target}: {problem.strerror or problem}.",
            next_step="Choose a folder you can write to.",
        ) from problem


@contextmanager
def _whole_or_gone(file: IO[bytes], target: Path) -> Iterator[None]:
    """A file that could not be finished is no export; one that could is on disk."""
    try:
        yield
        file.flush()
        os.fsync(file.fileno())
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def export_into(desk: Desk, file: IO[bytes], name: str) -> ExportAnswer:
    """Write a learner's lines into an open file, all of one moment."""
    counts: Counter[str] = Counter()
    with desk.reading() as snapshot:
        for line in write(_counted(lines(snapshot), counts)):
            file.write(line)
        return ExportAnswer(
            file=name,
            lines=counts.total(),
            arms=counts["ArmLine"],
            runs=counts["RunLine"],
            rewards=counts["RewardLine"],
            resets=counts["ResetLine"],
            revision=snapshot.revision,
        )


def lines(snapshot: Snapshot) -> Iterator[LedgerLine]:
    """Learner, arms, then runs, rewards and resets by revision (a reward never before its run)."""
    yield LearnerLine(
        armscope=1, name=snapshot.name, origin=snapshot.origin or None, settings=snapshot.settings
    )
    yield from told_arms(snapshot)
    streams = (told_runs(snapshot), told_rewards(snapshot), told_resets(snapshot))
    for _, line in heapq.merge(*streams, key=itemgetter(0)):
        yield line


def _counted(lines: Iterable[LedgerLine], counts: Counter[str]) -> Iterator[LedgerLine]:
    for line in lines:
        counts[type(line).__name__] += 1
        yield line
