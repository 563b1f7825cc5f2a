"""Tally: what an import has come to so far, in counts and reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.flows.importing.answer import SHOWN, BeliefDifference, ImportAnswer, RejectedLine
from core.formats import Source
from core.records.judged import Judged
from core.records.verdict import SKIP_REASONS
from core.store.runs import Told


@dataclass
class Tally:
    """Counts, and what is listed beside them; ``file`` is the one being read."""

    file: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    units: set[str] = field(default_factory=set)
    rejected: list[RejectedLine] = field(default_factory=list)
    differences: list[BeliefDifference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    n_arms: int = 0
    no_user_text: bool = False

    def run(self, judged: Judged, told: Told) -> None:
        """Count a run that was added, by its verdict and by how it was known."""
        outcome = judged.verdict.outcome
        self.counts["skipped"] += outcome in SKIP_REASONS
        self.counts[outcome] += 1
        if outcome != "empty":
            self.counts[told] += 1
            self.counts["not_offered"] += len(judged.run.not_offered or judged.evidence.not_offered)

    def fact(self, *, is_new: bool) -> None:
        """Count a row of the ledger, a reset or a note that was read."""
        self.counts["ledger"] += 1
        self.counts["ledger_duplicate"] += not is_new

    def reject(self, line: int | None, reason: str) -> None:
        """Count a line of the file that was left out; the first hundred are listed."""
        self.counts["rejected"] += 1
        if len(self.rejected) < SHOWN:
            self.rejected.append(RejectedLine(file=self.file, line=line, reason=reason))

    def differ(self, found: BeliefDifference) -> None:
        """Count a belief that the file's runs don't lead to; the first hundred are listed."""
        self.counts["differences"] += 1
        if len(self.differences) < SHOWN:
            self.differences.append(found)

    def answer(
        self, number: int, sources: Sequence[Source], ignored: tuple[RejectedLine, ...]
    ) -> ImportAnswer:
        """All of it, as the answer of the import of this number."""
        counts = self.counts
        return ImportAnswer(
            id=f"import-{number}",
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
            ignored=ignored,
            differences=tuple(self.differences),
            differences_count=counts["differences"],
            notes=tuple(self.remarks),
            hint="Some records have no user text and so no turns: read them with --unit episode."
            if self.no_user_text
            else None,
        )
