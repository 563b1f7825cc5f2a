"""Answer: what an import came to; the parts of one that goes on add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from core.records.verdict import SKIP_REASONS, SkipReason

_T = TypeVar("_T")
SHOWN: Final = 100
"""Rejected lines, and likewise differences, that an answer lists; it counts them all."""


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    line: int | None
    reason: str


class BeliefDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A belief that a file states, and what its own traces come to from this learner's prior."""

    arm: str
    stated_alpha: float
    stated_beta: float
    stated_pulls: int
    alpha: float
    beta: float
    pulls: int


class ImportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an import came to.

    ``runs`` = read and not empty = ``observed`` + ``skipped`` (``skipped_by`` reason); of them ``duplicates``
    were known and ``updated`` known and shorter. ``outside``: replies that belong to no turn; ``not_offered``:
    calls of tools that were not in the prompt, once a run and tool; ``ledger``: rewards, carried beliefs, resets
    and notes about arms that were read and not rejected, of them ``ledger_duplicates`` were known;
    ``differences``: beliefs a file states that its own runs don't lead to; ``notes``: what was done with it
    that one might not expect.
    """

    id: str
    format: str
    unit: str
    files: int
    runs: int
    observed: int
    skipped: int
    empty: int
    outside: int
    duplicates: int
    updated: int
    not_offered: int
    rejected: tuple[RejectedLine, ...]
    rejected_count: int
    skipped_by: dict[SkipReason, int] = {}
    ledger: int = 0
    ledger_duplicates: int = 0
    ignored: tuple[RejectedLine, ...] = ()
    differences: tuple[BeliefDifference, ...] = ()
    differences_count: int = 0
    notes: tuple[str, ...] = ()
    hint: str | None = None

    def after(self, earlier: ImportAnswer) -> ImportAnswer:
        """Both as one answer: what an import that went on has told so far, of which this is the latest part.

        Counts add up, so a file or run that was read again counts again (the runs among ``duplicates`` or
        ``updated``). Lines, files and beliefs that were listed before are the same ones and count once; beyond
        the first hundred, which are all that is kept of them, they can't be told apart and count again.
        """
        rejected = _new(earlier.rejected, self.rejected)
        differences = _new(earlier.differences, self.differences)
        totals = {name: getattr(earlier, name) + getattr(self, name) for name in _COUNTS}
        skipped_by = Counter(earlier.skipped_by) + Counter(self.skipped_by)
        return msgspec.structs.replace(
            self,
            **totals,
            format=_names(earlier.format, self.format),
            unit=_names(earlier.unit, self.unit),
            skipped_by={reason: skipped_by[reason] for reason in SKIP_REASONS if skipped_by[reason]},
            rejected=(*earlier.rejected, *rejected)[:SHOWN],
            rejected_count=earlier.rejected_count + self.rejected_count - len(self.rejected) + len(rejected),
            ignored=(*earlier.ignored, *_new(earlier.ignored, self.ignored)),
            differences=(*earlier.differences, *differences)[:SHOWN],
            differences_count=earlier.differences_count
            + self.differences_count
            - len(self.differences)
            + len(differences),
            notes=(*earlier.notes, *_new(earlier.notes, self.notes)),
            hint=earlier.hint if self.hint is None else self.hint,
        )


_COUNTS: Final = (
    "files",
    "runs",
    "observed",
    "skipped",
    "empty",
    "outside",
    "duplicates",
    "updated",
    "not_offered",
    "ledger",
    "ledger_duplicates",
)


def _new(earlier: Sequence[_T], later: Sequence[_T]) -> list[_T]:
    """Those of ``later`` that are no repeats. Equal ones in one list are two, one in each is met again.

    >>> _new("aab", "abbc")
    ['b', 'c']
    """
    known = Counter(earlier)
    found = []
    for one in later:
        if known[one]:
            known[one] -= 1
        else:
            found.append(one)
    return found


def _names(earlier: str, later: str) -> str:
    """
    >>> _names("armscope", "claude-code, armscope"), _names("", "turn")
    ('armscope, claude-code', 'turn')
    """
    return ", ".join(sorted({*earlier.split(", "), *later.split(", ")} - {""}))
