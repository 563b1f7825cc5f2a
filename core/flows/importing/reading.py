"""Reading of sources: judged runs one by one, and the other lines; nothing is written.

Lines are grouped into segments. A segment ends with a reset, and holds the runs before it and the lines between them.
The lines of a segment are written after all its runs, because they refer to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from core.errors import NotApplicable, UnreadableSource
from core.flows.context import Context
from core.flows.importing.comparing import StatedBeliefs
from core.flows.importing.counts import ImportCounts
from core.flows.importing.launched import LaunchedRuns
from core.flows.importing.ledger import settings_after
from core.flows.importing.lines import LineQueue, QueuedLine
from core.flows.learn import judge, judged_line
from core.formats import Entry, Opened, Outside, Rejected, Remark, RolloutEvents, Skipped, Source, Stated
from core.formats.armscope import NAME as OWN_FORMAT
from core.records.episode import Episode
from core.records.evaluation_lines import ExecutionLine, without_texts
from core.records.judged import Judged
from core.records.learner import LearnerSettings, Mode
from core.records.ledger_lines import ContentLine, LearnerLine, ResetLine, RunLine
from core.records.limits import shown
from core.records.rollout_event import RolloutEvent, without_text
from core.records.run import Phase, Run
from core.store.offers import reported_sessions
from core.store.rollouts import held_rollouts
from core.store.staging import Spoiled

ReadingProgress = Callable[[Opened, Source, int], None]
"""Callback with all sources, the source being read, and its bytes read so far."""

_Judging = tuple[Mode, tuple[str, ...], Phase]
"""Settings that affect the verdict of a run."""


class ReadRun(NamedTuple):
    """A judged run, its file and its segment."""

    file: str
    segment: int
    judged: Judged


class SourceReading:
    """One pass over some files for a learner, by its present settings."""

    def __init__(self, context: Context, opened: Opened, phase: Phase | None) -> None:
        self.counts = ImportCounts()
        self.lines = LineQueue()
        self.n_segments = 1
        self._context = context
        self._opened = opened
        self._phase = phase
        self._comparison = StatedBeliefs()
        self._comparisons: list[StatedBeliefs] = []
        with context.store.reading(context.learner) as snapshot:
            self._settings, self._origin = snapshot.settings, snapshot.origin
            self._observed_sessions = reported_sessions(snapshot)
            self._held_rollouts = held_rollouts(snapshot)
        self.held: list[RolloutEvent] = []
        self._are_written = False
        self._launched = LaunchedRuns(context)
        self._judged_by: dict[bool, _Judging] = {}

    def runs(self, progress: ReadingProgress | None) -> Iterator[ReadRun]:
        """Yield every run. All other entries before a run are noted when it is yielded."""
        for one in self._opened.skipped:
            self.counts.ignore(one)
        for source in self._opened.sources:
            self.counts.file = source.file
            self._begin_comparison()
            follow = None if progress is None else partial(progress, self._opened, source)
            try:
                for entry in source.entries(follow):
                    judged = self._judged(entry)
                    if judged is None:
                        self._refuse_own_view(source, entry)
                        self._note(entry)
                    else:
                        self._comparison.fold(judged)
                        self.counts.units.add(judged.run.unit)
                        yield ReadRun(source.file, self.n_segments - 1, judged)
            except UnreadableSource as problem:
                self.counts.reject(None, problem.problem)

    def check(self, settings: LearnerSettings, *, are_written: bool) -> None:
        """Raise `Spoiled` if the runs were judged by other settings than these.

        ``are_written`` selects the runs after the settings line of the files instead of those before it.
        """
        by = self._judged_by.get(are_written)
        if by is not None and by != self._judging(settings):
            raise Spoiled

    def compare(self, settings: LearnerSettings, counts: ImportCounts) -> None:
        """Count the stated beliefs that the runs do not lead to."""
        self._begin_comparison()
        for comparison in self._comparisons:
            for difference in comparison.differences(settings):
                counts.differ(difference)

    def _judged(self, entry: Entry) -> Judged | None:
        if isinstance(entry, Run):
            self._judged_by.setdefault(self._are_written, self._judging(self._settings))
            judged = judge(self._launched.chosen(entry), self._settings, self._phase)
            if judged.verdict.observed and entry.session in self._observed_sessions:
                raise self._already_observed(entry.session)
            return judged
        return judged_line(entry) if isinstance(entry, RunLine) else None

    def _already_observed(self, session: str) -> NotApplicable:
        return NotApplicable(
            f"Session {shown(session)} was observed through a door while it went on; its transcript "
            f"({self.counts.file}) would observe it a second time.",
            next_step="Import it with --phase passive: usage and times are read, and nothing is observed again. "
            "Nothing was recorded.",
        )

    def _judging(self, settings: LearnerSettings) -> _Judging:
        return settings.mode, settings.meta_tools, settings.phase if self._phase is None else self._phase

    def _note(self, entry: Entry) -> None:
        if isinstance(entry, Rejected):
            self.counts.reject(entry.line, entry.reason)
        elif isinstance(entry, Outside):
            self.counts.counts["outside"] += entry.n_replies
            self.counts.no_user_text |= entry.no_user_text
        elif isinstance(entry, Stated):
            self._comparison.state(entry)
        elif isinstance(entry, Remark):
            self.counts.remarks.append(entry.text)
        elif isinstance(entry, Skipped):
            self.counts.ignore(entry)
        elif isinstance(entry, RolloutEvents):
            self._hold(entry)
        elif not isinstance(entry, Run | RunLine):
            self._note_line(entry)

    def _hold(self, rollout: RolloutEvents) -> None:
        """Hold the events of a rollout that has not started, or that has held events already."""
        if rollout.has_started and rollout.rollout not in self._held_rollouts:
            return
        keeps = self._settings.keep_texts
        self._held_rollouts.add(rollout.rollout)
        self.held += [one if keeps else without_text(one) for one in rollout.events]
        self.counts.n_held += len(rollout.events)

    def _note_line(self, line: ContentLine) -> None:
        segment = self.n_segments - 1
        if isinstance(line, ExecutionLine) and not self._settings.keep_texts:
            line = without_texts(
                line
            )  # lines may wait in a file, and texts that are not stored must not reach it
        elif isinstance(line, Episode) and not self._settings.keep_texts:
            line = line.without_texts()
        self.lines.add(QueuedLine(self.counts.file, segment, line))
        if isinstance(line, ResetLine):
            self.n_segments += 1
        elif (
            isinstance(line, LearnerLine) and line.settings is not None and not (segment or self._are_written)
        ):
            self._settings = settings_after(self._context, line)
            self._are_written = True

    def _begin_comparison(self) -> None:
        if self._comparison.has_stated:
            self._comparisons.append(self._comparison)
        self._comparison = StatedBeliefs()

    def _refuse_own_view(self, source: Source, entry: Entry) -> None:
        """Refuse this learner's own export for other programs: it renames runs, so they would count twice."""
        if not isinstance(entry, LearnerLine) or source.format == OWN_FORMAT:
            return
        if self._origin and entry.origin == self._origin:
            raise UnreadableSource(
                f"An export for other programs can't go back into the learner it is from ({source.file}).",
                next_step="Use armscope export --format jsonl, which is loss-free and counts nothing twice.",
            )
