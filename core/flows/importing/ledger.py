"""Ledger lines of our own format (settings, arms, rewards, resets, notes), written to the store.

Counts and reasons of an import so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from core.errors import ArmscopeError, UnreadableSource
from core.flows.context import Context
from core.formats import Skipped, Source
from core.formats.chat import BY_CONTENT
from core.records.answers import Imported, Recorded
from core.records.arm import Arm
from core.records.counts import number_of
from core.records.episode import Episode
from core.records.episode_credit import CreditLine
from core.records.evaluation_lines import ExecutionLine, LayerLine
from core.records.evidence import SKIP_REASONS, Judged
from core.records.import_answer import (
    SHOWN,
    BeliefDifference,
    ImportAnswer,
    RejectedLine,
    most_called,
    unread_of,
)
from core.records.learner import LearnerSettings
from core.records.ledger_lines import ArmLine, ContentLine, FactLine, LearnerLine, ResetLine, RewardLine
from core.store.arms import attribute_arms, is_described, recompute_arms
from core.store.episodes import tell_episodes
from core.store.facts import EXCHANGED
from core.store.imports import begin_import
from core.store.lines import take_line
from core.store.settings import import_setting
from core.store.subjects import describe_execution, describe_layer
from core.store.transaction import BY_IMPORT, Transaction

_MOST_NAMES: Final = 10_000
"""Maximum number of counted tool names outside the prompt: they are foreign text."""

_EPISODES: Final = 500
_STEPS: Final = 20_000
"""Maximum number of steps in one batch of episodes: larger batches only need memory."""


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
    left_out: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    n_named: int = 0
    n_held: int = 0
    n_in_another_unit: int = 0
    no_user_text: bool = False

    def copy(self) -> ImportCounts:
        """Return a copy to count on. A part is counted into it, and it replaces this one once the part is on disk."""
        return replace(self, **{name: copy(value) for name, value in vars(self).items()})

    def run(self, judged: Judged, status: Imported) -> None:
        """Count a run by its verdict, and whether it was new, known, updated or left out."""
        outcome = judged.verdict.outcome
        self.counts["skipped"] += outcome in SKIP_REASONS
        self.counts[outcome] += 1
        if outcome != "empty":
            self.counts[status] += 1
            self._leave_out(judged.run.uid, status)
            is_unsure = status in {"duplicate", "updated"} and judged.run.ended_at_ms is None
            self.counts["unsure"] += is_unsure and BY_CONTENT.search(judged.run.uid) is not None
            missing = judged.run.not_offered or judged.evidence.not_offered
            if missing:
                self.counts["not_offered"] += len(missing)
                is_full = len(self.not_offered) >= _MOST_NAMES
                self.not_offered.update(tool for tool in missing if not is_full or tool in self.not_offered)

    def recount(self, differences: Mapping[Recorded, int]) -> None:
        """Correct how many runs were new, known or updated. A staged import knows this only at its activation."""
        for status, difference in differences.items():
            self.counts[status] += difference

    def line(self, kind: str, *, is_new: bool) -> None:
        """Count a ledger line by its kind."""
        self.counts["ledger"] += 1
        self.by_kind[kind] += 1
        self.counts["ledger_duplicate"] += not is_new

    def episode(self, uid: str, status: Imported) -> None:
        """Count an episode, and whether it was new, known, updated or left out."""
        self.counts["episodes"] += 1
        self.counts[f"episode_{status}"] += 1
        self._leave_out(uid, status)

    def _leave_out(self, uid: str, status: Imported) -> None:
        """Name a record that is here with other content. The first hundred are listed."""
        if status == "other" and len(self.left_out) < SHOWN:
            self.left_out.append(uid)

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

    def _notes(self) -> Iterator[str]:
        """Yield each remark once, with the number of times, and what is to say about runs."""
        for text, n in Counter(self.remarks).items():
            yield text if n == 1 else f"{text} ({n:,} times)"
        if n := self.counts["unsure"]:
            yield f"{number_of(n, 'run')} known by content, without times: each may be another one."
        if n := self.counts["shared"]:
            yield f"{number_of(n, 'run')} kept apart from another one of the same id."
        if n := self.counts["not_grown"]:
            yield f"{n:,} known runs have other content here. Compact has deleted them, so they stay as they were."
        if n := self.counts["before_reset"]:
            ended = f"{number_of(n, 'run')} ended"
            yield f"{ended} before a reset of its arms, and counts after it: the order of recording decides."

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
            left_out_runs=counts["other"],
            left_out_episodes=counts["episode_other"],
            left_out_names=tuple(self.left_out),
            not_offered_calls=most_called(self.not_offered),
            ignored=tuple(self.ignored),
            unread=unread_of(self.ignored, self.next_steps),
            differences=tuple(self.differences),
            differences_count=counts["differences"],
            notes=tuple(self._notes()),
            heads=tuple(self.heads),
            hint="Some records have no user text and so no turns: read them with --unit episode."
            if self.no_user_text
            else None,
        )


def settings_after(context: Context, line: LearnerLine) -> LearnerSettings:
    """Return the settings that a learner line would bring into force now."""

    def work(txn: Transaction) -> LearnerSettings:
        LedgerWriter(txn, begin_import(txn), ImportCounts()).write(line)
        return txn.settings

    return context.rehearse("ingest", work, create=True)


def _kind_of(line: FactLine) -> str:
    """Return the name of a line's kind in the answer."""
    if isinstance(line, RewardLine) and line.observation == "carried":
        return "carried belief"
    return EXCHANGED[type(line)].name


class LedgerWriter:
    """Writer of the lines of one import. A line with an error is rejected with its reason."""

    def __init__(self, txn: Transaction, import_no: int, counts: ImportCounts) -> None:
        self._txn = txn
        self._import_no = import_no
        self._counts = counts
        self._is_after_reset = False
        self._has_settings = False
        self._described: dict[str, Arm] = {}
        self._episodes: list[Episode] = []
        self._n_steps = 0

    def write(self, line: ContentLine) -> None:
        """Write a line. The runs it refers to are in the store already."""
        if isinstance(line, Episode):
            self._queue_episode(line)
            return
        if isinstance(line, CreditLine):
            self._write_episodes()
        self._is_after_reset |= isinstance(line, ResetLine)
        try:
            if isinstance(line, LearnerLine):
                self._note_head(line)
                self._write_settings(line)
            elif isinstance(line, ArmLine):
                self._write_arm(line)
            elif isinstance(line, LayerLine):
                describe_layer(self._txn, line, self._import_no)
                self._counts.n_named += 1
            elif isinstance(line, ExecutionLine):
                keeps = self._txn.settings.keep_texts
                describe_execution(self._txn, line, self._import_no, keep_texts=keeps)
                self._counts.n_named += 1
            else:
                self._counts.line(
                    _kind_of(line),
                    is_new=not line.id.startswith(f"{self._txn.origin}/")
                    and take_line(self._txn, line, self._import_no),
                )
        except ArmscopeError as problem:
            self._counts.reject(None, problem.problem)

    def finish(self) -> None:
        """Write the last episodes, and the labels and costs of arm lines again, which later runs have overwritten."""
        self._write_episodes()
        arms = list(self._described.values())
        if self._txn.has_news or self._counts.counts["new"] or not is_described(self._txn, arms):
            self._txn.ensure_arms(arms, import_no=self._import_no)

    def _queue_episode(self, line: Episode) -> None:
        """Queue an episode. Episodes are written in batches, because only credits depend on them."""
        self._episodes.append(line)
        self._n_steps += len(line.steps)
        if self._n_steps >= _STEPS or len(self._episodes) >= _EPISODES:
            self._write_episodes()

    def _write_episodes(self) -> None:
        statuses = tell_episodes(self._txn, self._episodes, import_no=self._import_no)
        for line, status in zip(self._episodes, statuses, strict=True):
            self._counts.episode(line.uid, status)
        self._episodes, self._n_steps = [], 0

    def _note_head(self, line: LearnerLine) -> None:
        """Name the head of another learner's chain in the import's answer, which the import's own link covers."""
        if (
            line.head is not msgspec.UNSET
            and line.origin != self._txn.origin
            and len(self._counts.heads) < SHOWN
        ):
            self._counts.heads.append(line.head)

    def _write_settings(self, line: LearnerLine) -> None:
        """Copy the settings of the exported learner to a learner that the import creates."""
        if line.settings is None or self._has_settings:
            return
        if self._is_after_reset:
            raise UnreadableSource(
                "A learner line must come before every reset, got one after it; its settings were left out.",
                next_step="Put it first.",
            )
        self._has_settings = True
        for name in line.settings.__struct_fields__:
            import_setting(self._txn, name, getattr(line.settings, name))

    def _write_arm(self, line: ArmLine) -> None:
        arm = Arm(key=line.key, label=line.label, token_cost=line.token_cost)
        numbers = list(self._txn.number_arms([arm], declared=BY_IMPORT).values())
        earlier = self._described.get(arm.key, arm)
        self._described[arm.key] = Arm(
            key=arm.key,
            label=earlier.label if arm.label is None else arm.label,
            token_cost=earlier.token_cost if arm.token_cost is None else arm.token_cost,
        )
        attribute_arms(self._txn, numbers, self._import_no, line.prior)
        recompute_arms(self._txn, numbers)
        self._counts.n_named += 1
