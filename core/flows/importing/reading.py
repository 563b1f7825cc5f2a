"""Reading: sources → judged runs, one after the other, and what else they tell; nothing is written.

What is told falls into stretches: the runs up to a reset that is told, the lines beside them, and the reset that ends
it. The lines of a stretch are told after all its runs, so that they find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from core.errors import NotApplicable, UnreadableSource
from core.flows.context import Context
from core.flows.importing.comparing import Comparison
from core.flows.importing.counts import Counts
from core.flows.importing.ledger import settings_after
from core.flows.importing.lines import Line, Lines
from core.flows.learn import judge, judged_line
from core.formats import Entry, Opened, Outside, Rejected, Remark, RolloutEvents, Skipped, Source, Stated
from core.formats.armscope import NAME as OWN_FORMAT
from core.records.episode import Episode
from core.records.evaluation_lines import ExecutionLine, without_texts
from core.records.judged import Judged
from core.records.learner import LearnerSettings, Mode
from core.records.ledger_lines import LearnerLine, ResetLine, RunLine, SaidLine
from core.records.limits import shown
from core.records.rollout_event import Sent, without_text
from core.records.run import Phase, Run
from core.store.offers import told_sessions
from core.store.rollouts import held_rollouts
from core.store.staging import Spoiled

Progress = Callable[[Opened, Source, int], None]
"""Called with all that is to be read, the file being read and its bytes read so far."""

_Judging = tuple[Mode, tuple[str, ...], Phase]
"""What of the settings a run is judged by."""


class ReadRun(NamedTuple):
    """A run as it was judged, the file it is from and its stretch."""

    file: str
    stretch: int
    judged: Judged


class Reading:
    """One reading of some files for a learner, by the settings of this moment."""

    def __init__(self, context: Context, opened: Opened, phase: Phase | None) -> None:
        self.counts = Counts()
        self.lines = Lines()
        self.n_stretches = 1
        self._context = context
        self._opened = opened
        self._phase = phase
        self._comparison = Comparison()
        self._comparisons: list[Comparison] = []
        with context.store.reading(context.learner) as snapshot:
            self._settings, self._origin = snapshot.settings, snapshot.origin
            self._told_of = told_sessions(snapshot)
            self._held_of = held_rollouts(snapshot)
        self.held: list[Sent] = []
        self._are_written = False
        self._judged_by: dict[bool, _Judging] = {}

    def runs(self, progress: Progress | None) -> Iterator[ReadRun]:
        """Every run; what else there is has been noted when the next comes, or none."""
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
                        yield ReadRun(source.file, self.n_stretches - 1, judged)
            except UnreadableSource as problem:
                self.counts.reject(None, problem.problem)

    def check(self, settings: LearnerSettings, *, are_written: bool) -> None:
        """Raise `Spoiled` where runs were judged by other settings: those before, or after, the files told some."""
        by = self._judged_by.get(are_written)
        if by is not None and by != self._judging(settings):
            raise Spoiled

    def compare(self, settings: LearnerSettings, counts: Counts) -> None:
        """Count which beliefs that files state are not what their runs lead to."""
        self._begin_comparison()
        for comparison in self._comparisons:
            for difference in comparison.differences(settings):
                counts.differ(difference)

    def _judged(self, entry: Entry) -> Judged | None:
        if isinstance(entry, Run):
            self._judged_by.setdefault(self._are_written, self._judging(self._settings))
            judged = judge(entry, self._settings, self._phase)
            if judged.verdict.observed and entry.session in self._told_of:
                raise self._told_already(entry.session)
            return judged
        return judged_line(entry) if isinstance(entry, RunLine) else None

    def _told_already(self, session: str) -> NotApplicable:
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

    def _hold(self, found: RolloutEvents) -> None:
        """Of a rollout that has not started, or of which something is held, all events may be wanted."""
        if found.has_started and found.rollout not in self._held_of:
            return
        keeps = self._settings.keep_texts
        self._held_of.add(found.rollout)
        self.held += [one if keeps else without_text(one) for one in found.events]
        self.counts.n_held += len(found.events)

    def _note_line(self, line: SaidLine) -> None:
        stretch = self.n_stretches - 1
        if isinstance(line, ExecutionLine) and not self._settings.keep_texts:
            line = without_texts(line)  # many lines wait in a file, and what is not kept touches no disk
        elif isinstance(line, Episode) and not self._settings.keep_texts:
            line = line.without_texts()
        self.lines.add(Line(self.counts.file, stretch, line))
        if isinstance(line, ResetLine):
            self.n_stretches += 1
        elif (
            isinstance(line, LearnerLine) and line.settings is not None and not (stretch or self._are_written)
        ):
            self._settings = settings_after(self._context, line)
            self._are_written = True

    def _begin_comparison(self) -> None:
        if self._comparison.has_stated:
            self._comparisons.append(self._comparison)
        self._comparison = Comparison()

    def _refuse_own_view(self, source: Source, entry: Entry) -> None:
        """What this learner wrote for other programs names its runs anew, so they would count twice."""
        if not isinstance(entry, LearnerLine) or source.format == OWN_FORMAT:
            return
        if self._origin and entry.origin == self._origin:
            raise UnreadableSource(
                f"An export for other programs can't go back into the learner it is from ({source.file}).",
                next_step="Use armscope export --format jsonl, which is loss-free and counts nothing twice.",
            )
