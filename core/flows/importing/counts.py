"""Counts and reasons of an import so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from core.formats import Skipped, Source
from core.records.answers import Recorded
from core.records.import_answer import (
    SHOWN,
    BeliefDifference,
    ImportAnswer,
    RejectedLine,
    most_called,
    unread_of,
)
from core.records.judged import Judged
from core.records.verdict import SKIP_REASONS
from core.store.episodes import Imported

_MOST_NAMES: Final = 10_000
"""Maximum number of counted tool names outside the prompt: they are foreign text."""


@dataclass
class ImportCounts:
    """Counts and listed entries; ``file`` is the file being read."""

    file: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    units: set[str] = field(default_factory=set)
    not_offered: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    rejected: list[RejectedLine] = field(default_factory=list)
    ignored: list[RejectedLine] = field(default_factory=list)
    next_steps: dict[str, str] = field(default_factory=dict)
    differences: list[BeliefDifference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    n_named: int = 0
    n_held: int = 0
    n_in_another_unit: int = 0
    no_user_text: bool = False

    def copy(self) -> ImportCounts:
        """Return a copy to count on. A part is counted into it, and it replaces this one once the part is on disk."""
        return replace(
            self,
            counts=self.counts.copy(),
            units=self.units.copy(),
            not_offered=self.not_offered.copy(),
            by_kind=self.by_kind.copy(),
            rejected=self.rejected.copy(),
            ignored=self.ignored.copy(),
            next_steps=self.next_steps.copy(),
            differences=self.differences.copy(),
            remarks=self.remarks.copy(),
            heads=self.heads.copy(),
        )

    def run(self, judged: Judged, status: Recorded) -> None:
        """Count a run by its verdict, and whether it was new, known or updated."""
        outcome = judged.verdict.outcome
        self.counts["skipped"] += outcome in SKIP_REASONS
        self.counts[outcome] += 1
        if outcome != "empty":
            self.counts[status] += 1
            missing = judged.run.not_offered or judged.evidence.not_offered
            if missing:
                self._count_missing(missing)

    def recount(self, differences: Mapping[Recorded, int]) -> None:
        """Correct how many runs were new, known or updated. A staged import knows this only at its activation."""
        for status, difference in differences.items():
            self.counts[status] += difference

    def _count_missing(self, tools: Sequence[str]) -> None:
        self.counts["not_offered"] += len(tools)
        is_full = len(self.not_offered) >= _MOST_NAMES
        self.not_offered.update(tool for tool in tools if not is_full or tool in self.not_offered)

    def line(self, kind: str, *, is_new: bool) -> None:
        """Count a ledger line by its kind."""
        self.counts["ledger"] += 1
        self.by_kind[kind] += 1
        self.counts["ledger_duplicate"] += not is_new

    def episode(self, status: Imported) -> None:
        """Count an episode, and whether it was new, known or updated."""
        self.counts["episodes"] += 1
        self.counts[f"episode_{status}"] += 1

    def reject(self, line: int | None, reason: str, file: str | None = None) -> None:
        """Count a rejected line of a file (None: the one being read). The first hundred are listed."""
        self.counts["rejected"] += 1
        if len(self.rejected) < SHOWN:
            named = self.file if file is None else file
            self.rejected.append(RejectedLine(file=named, line=line, reason=reason))

    def differ(self, difference: BeliefDifference) -> None:
        """Count a stated belief that the runs do not lead to. The first hundred are listed."""
        self.counts["differences"] += 1
        if len(self.differences) < SHOWN:
            self.differences.append(difference)

    def ignore(self, file: Skipped) -> None:
        """Add a file that was not read."""
        self.ignored.append(RejectedLine(file=file.file, line=None, reason=file.reason))
        self.next_steps[file.reason] = file.next_step

    def _not_grown(self) -> list[str]:
        n = self.counts["not_grown"]
        return [
            f"{n:,} known runs have other content here. Compact has deleted them, so they stay as they were."
        ][:n]

    def answer(self, number: int | None, sources: Sequence[Source]) -> ImportAnswer:
        """Return the answer of the import with this number; None = nothing was new."""
        counts = self.counts
        return ImportAnswer(
            id=None if number is None else f"import-{number}",
            format=", ".join(sorted({source.format for source in sources})),
            unit=", ".join(sorted(self.units)),
            files=len(sources),
            runs=counts["observed"] + counts["skipped"],
            observed=counts["observed"],
            skipped=counts["skipped"],
            skipped_by={reason: counts[reason] for reason in SKIP_REASONS if counts[reason]},
            empty=counts["empty"],
            outside=counts["outside"],
            duplicates=counts["duplicate"],
            updated=counts["updated"],
            not_offered=counts["not_offered"],
            rejected=tuple(self.rejected),
            rejected_count=counts["rejected"],
            ledger=counts["ledger"],
            ledger_duplicates=counts["ledger_duplicate"],
            ledger_by=dict(sorted(self.by_kind.items())),
            episodes=counts["episodes"],
            episode_duplicates=counts["episode_duplicate"],
            episodes_updated=counts["episode_updated"],
            not_offered_calls=most_called(self.not_offered),
            ignored=tuple(self.ignored),
            unread=unread_of(self.ignored, self.next_steps),
            differences=tuple(self.differences),
            differences_count=counts["differences"],
            notes=(*self.remarks, *self._not_grown()),
            heads=tuple(self.heads),
            hint="Some records have no user text and so no turns: read them with --unit episode."
            if self.no_user_text
            else None,
        )
