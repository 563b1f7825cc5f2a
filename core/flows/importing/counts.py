"""Counts: what an import has come to so far, in counts and reasons."""

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
from core.store.episodes import Told

_NAMES_KEPT: Final = 10_000
"""Names of tools outside the prompt are foreign text: of so many the frequency is known."""


@dataclass
class Counts:
    """Counts, and what is listed beside them; ``file`` is the one being read."""

    file: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    units: set[str] = field(default_factory=set)
    not_offered: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    rejected: list[RejectedLine] = field(default_factory=list)
    ignored: list[RejectedLine] = field(default_factory=list)
    next_steps: dict[str, str] = field(default_factory=dict)
    differences: list[BeliefDifference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    n_named: int = 0
    n_held: int = 0
    n_in_another_unit: int = 0
    no_user_text: bool = False

    def copy(self) -> Counts:
        """The same, to be counted on: telling a part counts into a copy, which is kept once the part is on disk."""
        return replace(
            self,
            counts=self.counts.copy(),
            units=self.units.copy(),
            not_offered=self.not_offered.copy(),
            told=self.told.copy(),
            rejected=self.rejected.copy(),
            ignored=self.ignored.copy(),
            next_steps=self.next_steps.copy(),
            differences=self.differences.copy(),
            remarks=self.remarks.copy(),
        )

    def run(self, judged: Judged, told: Recorded) -> None:
        """Count a run that was added, by its verdict and by how it was known."""
        outcome = judged.verdict.outcome
        self.counts["skipped"] += outcome in SKIP_REASONS
        self.counts[outcome] += 1
        if outcome != "empty":
            self.counts[told] += 1
            missing = judged.run.not_offered or judged.evidence.not_offered
            if missing:
                self._count_missing(missing)

    def recount(self, differences: Mapping[Recorded, int]) -> None:
        """Correct by how runs were known: it shows only when an import that was told in parts is made to stand."""
        for told, difference in differences.items():
            self.counts[told] += difference

    def _count_missing(self, tools: Sequence[str]) -> None:
        self.counts["not_offered"] += len(tools)
        is_full = len(self.not_offered) >= _NAMES_KEPT
        self.not_offered.update(tool for tool in tools if not is_full or tool in self.not_offered)

    def fact(self, kind: str, *, is_new: bool) -> None:
        """Count what somebody did that was read, by what it is called."""
        self.counts["ledger"] += 1
        self.told[kind] += 1
        self.counts["ledger_duplicate"] += not is_new

    def episode(self, told: Told) -> None:
        """Count an episode by how it was known."""
        self.counts["episodes"] += 1
        self.counts[f"episode_{told}"] += 1

    def reject(self, line: int | None, reason: str, file: str | None = None) -> None:
        """Count a line of a file, None = the one being read, that was left out; the first hundred are listed."""
        self.counts["rejected"] += 1
        if len(self.rejected) < SHOWN:
            named = self.file if file is None else file
            self.rejected.append(RejectedLine(file=named, line=line, reason=reason))

    def differ(self, found: BeliefDifference) -> None:
        """Count a belief that the file's runs don't lead to; the first hundred are listed."""
        self.counts["differences"] += 1
        if len(self.differences) < SHOWN:
            self.differences.append(found)

    def ignore(self, file: Skipped) -> None:
        """Note a file that was not read."""
        self.ignored.append(RejectedLine(file=file.file, line=None, reason=file.reason))
        self.next_steps[file.reason] = file.next_step

    def answer(self, number: int | None, sources: Sequence[Source]) -> ImportAnswer:
        """All of it, as the answer of the import of this number; None = there was nothing new."""
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
            ledger_by=dict(sorted(self.told.items())),
            episodes=counts["episodes"],
            episode_duplicates=counts["episode_duplicate"],
            episodes_updated=counts["episode_updated"],
            not_offered_calls=most_called(self.not_offered),
            ignored=tuple(self.ignored),
            unread=unread_of(self.ignored, self.next_steps),
            differences=tuple(self.differences),
            differences_count=counts["differences"],
            notes=tuple(self.remarks),
            hint="Some records have no user text and so no turns: read them with --unit episode."
            if self.no_user_text
            else None,
        )
