"""Reading of sources: judged runs one by one, and the other lines; nothing is written.

Lines are grouped into segments. A segment ends with a reset, and holds the runs before it and the lines between them.
The lines of a segment are written after all its runs, because they refer to them.

Other lines than runs are queued until they are written. The first stay decoded, because validating an episode with
its steps is expensive. Many of them wait in a temporary file, and are validated again.

Beliefs that a file states are compared with the result of its own runs and this learner's priors. Runs of a session
that armscope started get its selection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, Final, NamedTuple

import msgspec

from core.errors import InvalidInput, NotApplicable, UnreadableSource
from core.flows.context import Context
from core.flows.importing.ledger import ImportCounts, settings_after
from core.flows.learn import judge, judged_line
from core.flows.select import stop_harmful
from core.formats import Entry, Opened, Outside, Rejected, Remark, RolloutEvents, Skipped, Source, Stated
from core.formats.armscope import NAME as OWN_FORMAT
from core.formats.atif import NAME as ATIF
from core.formats.atif import left_out
from core.formats.claude_code import NAME as CLAUDE_CODE
from core.installed.launch import LaunchFolder
from core.maths.observe import outcome_arms, reward_of_flag
from core.records.achieved import stated_line
from core.records.arm import MICRO, Arm, arm_type
from core.records.counts import number_of
from core.records.episode import Episode
from core.records.evaluation_lines import ExecutionLine, without_texts
from core.records.evidence import Judged
from core.records.import_answer import BeliefDifference
from core.records.learner import LearnerSettings, Mode
from core.records.ledger_lines import ContentLine, LearnerLine, ResetLine, RunLine
from core.records.limits import shown
from core.records.rollout import RolloutEvent, without_text
from core.records.run import Inventory, Phase, Run
from core.records.selection import Selection
from core.store.experiments import assign_started, assigned_side
from core.store.imports import RecordedSession, recorded_sessions, runs_of_session
from core.store.offers import reported_sessions
from core.store.rollouts import held_rollouts
from core.store.staging import Spoiled
from core.store.transaction import Transaction

_AS_READ_BYTES: Final = 16 << 20
"""Maximum encoded size of the decoded lines. As records they take about three times as much memory."""
_IN_MEMORY_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 4

_ENCODER: Final = msgspec.msgpack.Encoder()

SLACK_MS: Final = 2_000
"""Some file systems round the time of a change."""
_NAMED: Final = 3
_SAME: Final = 1e-6
"""Maximum difference in pseudo-counts of two equal beliefs: exports round."""

ReadingProgress = Callable[[Opened, Source, int], None]
"""Callback with all sources, the source being read, and its bytes read so far."""

_Judging = tuple[Mode, tuple[str, ...], Phase]
"""Settings that affect the verdict of a run."""


class QueuedLine(msgspec.Struct, frozen=True, array_like=True):
    """A line, its file and its segment."""

    file: str
    segment: int
    line: ContentLine


_DECODER: Final = msgspec.msgpack.Decoder(QueuedLine)


class LineQueue:
    """Queue of lines in their order. All lines are added first, then read, more than once if an act is retried."""

    def __init__(self, *, as_read_bytes: int = _AS_READ_BYTES) -> None:
        self._spool = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, prefix="armscope-")  # noqa: SIM115 - until `of`
        self._first: list[QueuedLine] = []
        self._room = as_read_bytes
        self._rest: Iterator[QueuedLine] = iter(())
        self._next: QueuedLine | None = None

    def add(self, line: QueuedLine) -> None:
        """Add a line. Segments must not decrease."""
        encoded = _ENCODER.encode(line)
        self._room -= len(encoded)
        if self._room >= 0:
            self._first.append(line)
            return
        try:
            self._spool.write(len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)
        except OSError as problem:
            raise InvalidInput(
                f"The lines of a file must fit into the folder for temporary files, got: {problem.strerror}.",
                next_step="Make room there, or name another folder in TMPDIR; nothing was recorded.",
            ) from problem

    def rewind(self) -> None:
        """Go back to the first line, once all are added."""
        self._rest = self._all()
        self._next = next(self._rest, None)

    def of(self, segment: int) -> Iterator[QueuedLine]:
        """Yield the lines of a segment. The segments before it must have been read."""
        while self._next is not None and self._next.segment == segment:
            yield self._next
            self._next = next(self._rest, None)

    def close(self) -> None:
        """Delete the lines."""
        self._first, self._rest = [], iter(())
        self._spool.close()

    def _all(self) -> Iterator[QueuedLine]:
        yield from self._first
        self._spool.seek(0)
        while length := self._spool.read(_LENGTH_BYTES):
            yield _DECODER.decode(self._spool.read(int.from_bytes(length, "big")))


class LaunchedRuns:
    """Reader of the selections that were in force in the sessions of a learner."""

    def __init__(self, context: Context) -> None:
        self._folder = None if context.launches is None else LaunchFolder(context.launches, context.learner)
        self._context = context
        self._sessions = frozenset() if self._folder is None else self._folder.sessions()
        self._selections: dict[str, Selection | None] = {}
        self._sided: dict[tuple[str, str], Selection] = {}
        self._inventories: dict[tuple[int, int], tuple[Inventory, Inventory]] = {}

    def chosen(self, run: Run) -> Run:
        """Return a run with the selection of its session, if armscope started it."""
        if self._folder is None or run.format != CLAUDE_CODE or run.session not in self._sessions:
            return run
        document = self._folder.chosen_at(run.session or "", run.ended_at_ms) or {}
        selection = selection_of(document, self._selections)
        if selection is None:
            return run
        selection = self._with_side(run.session or "", str(document.get("id")), selection)
        inventory = self._inventory(run.inventory, selection)
        in_full, by_name = ({arm.key for arm in arms} for arms in (inventory.arms, inventory.named))
        return msgspec.structs.replace(
            run,
            inventory=inventory,
            loaded=tuple(key for key in run.loaded if key in by_name),
            run_class=selection.run_class,
            selection=selection,
            excluded=tuple(key for key in selection.excluded if key not in in_full),
        )

    def _with_side(self, session: str, identity: str, selection: Selection) -> Selection:
        """Return the selection with the side of its session, which may have got another one's on the way.

        A session that no start assigned may have the side of the process in which it began.
        """
        if (session, identity) not in self._sided:
            with self._context.store.reading(self._context.learner) as snapshot:
                _, own = assigned_side(snapshot, session, "") or ("", msgspec.UNSET)
            if own is msgspec.UNSET and selection.experiment is not msgspec.UNSET:
                own = msgspec.structs.replace(selection.experiment, in_force=False)
            if own != selection.experiment:
                selection = msgspec.structs.replace(selection, experiment=own)
            self._sided[session, identity] = selection
        return self._sided[session, identity]

    def _inventory(self, inventory: Inventory, selection: Selection) -> Inventory:
        """Return a run's inventory with the skills that the selection put in by name; a session's runs share it."""
        key = (id(inventory), id(selection))
        if key not in self._inventories:
            present, out = {arm.key for arm in inventory.offered}, frozenset(selection.excluded)
            added = (
                Arm(key=one.arm, token_cost=one.token_cost)
                for one in selection.decisions
                if one.included and one.arm not in present
            )
            named = (*(arm for arm in inventory.named if arm.key not in out), *added)
            whole = msgspec.structs.replace(inventory, named=named)
            self._inventories[key] = (inventory, whole)  # the first keeps its id taken
        return self._inventories[key][1]


def selection_of(document: Mapping[str, Any], known: dict[str, Selection | None]) -> Selection | None:
    """Return the selection of a start; None for a document that was changed. ``known`` remembers it."""
    identity = str(document.get("id"))
    if identity not in known:
        try:
            known[identity] = Selection.from_json(msgspec.json.encode(document.get("selection")))
        except InvalidInput:
            known[identity] = None
    return known[identity]


def assign_sessions(context: Context) -> None:
    """Assign the sessions that a start on this machine gave a side, with or without a transcript."""
    context.permit("ingest")
    if context.launches is None or context.is_rehearsal:
        return
    launches = LaunchFolder(context.launches, context.learner)
    with context.store.reading(context.learner) as snapshot:
        sessions = [
            (one.session, one.at_ms, chosen.experiment)
            for one in launches.started_since((launches.imported_ms or 0) - SLACK_MS)
            if snapshot.has_experiments and (chosen := selection_of(one.document, {})) is not None
            if chosen.experiment is not msgspec.UNSET and assigned_side(snapshot, one.session, "") is None
        ]

    def work(txn: Transaction) -> None:
        assign_started(txn, sessions)
        stop_harmful(txn)

    if sessions:
        context.write("ingest", work)


class StatedBeliefs:
    """Beliefs that one file states, and the counts of its runs for the same arms."""

    def __init__(self) -> None:
        self._stated: dict[str, Stated] = {}
        self._folded: Counter[tuple[str, bool]] = Counter()

    @property
    def has_stated(self) -> bool:
        """True if the file states a belief."""
        return bool(self._stated)

    def state(self, belief: Stated) -> None:
        """Add a stated belief. Beliefs come before the runs."""
        self._stated[belief.arm] = belief

    def fold(self, judged: Judged) -> None:
        """Count a run for the arms with a stated belief."""
        if not self._stated:
            return
        for arm, flag in zip(outcome_arms(judged.run), judged.flags, strict=True):
            reward = reward_of_flag(flag)
            if reward is not None and arm in self._stated:
                self._folded[arm, reward > 0] += 1

    def differences(self, settings: LearnerSettings) -> Iterator[BeliefDifference]:
        """Yield stated beliefs that differ from the result of the runs."""
        for stated in self._stated.values():
            difference = self._difference(stated, settings)
            if difference is not None:
                yield difference

    def _difference(self, stated: Stated, settings: LearnerSettings) -> BeliefDifference | None:
        prior = settings.priors.of(arm_type(stated.arm))
        used, unused = self._folded[stated.arm, True], self._folded[stated.arm, False]
        alpha = prior.alpha_micro / MICRO + used
        beta = prior.beta_micro / MICRO + unused
        is_same = abs(alpha - stated.alpha) <= _SAME and abs(beta - stated.beta) <= _SAME
        if is_same and stated.pulls == used + unused:
            return None
        return BeliefDifference(
            arm=stated.arm,
            stated_alpha=stated.alpha,
            stated_beta=stated.beta,
            stated_pulls=stated.pulls,
            alpha=alpha,
            beta=beta,
            pulls=used + unused,
        )


class ReadRun(NamedTuple):
    """A judged run, its file and its segment."""

    file: str
    segment: int
    judged: Judged


class SharedSessions:
    """Sessions of several programs. A trajectory with as many calls is the same work, and the session counts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._here: dict[str, dict[str, RecordedSession]] = {}
        self._uids: dict[str, list[str]] = {}
        self._left_out: dict[str, tuple[str, ...]] = {}

    def add(self, run: Run, n_calls: int, *, keeps_uid: bool) -> None:
        """Add a run of this import."""
        if run.session is None or run.empty:
            return
        formats = self._here.setdefault(run.session, {})
        known = formats.get(run.format) or RecordedSession(run.session, run.format, 0, 0)
        formats[run.format] = RecordedSession(
            run.session, run.format, known.n_runs + 1, known.n_calls + n_calls
        )
        if keeps_uid and run.format != ATIF:
            self._uids.setdefault(run.session, []).append(run.uid)

    def leaves_out(self, run: Run, n_calls: int) -> bool:
        """Return whether a trajectory's run is that of the agent's own session, which is here."""
        if run.format != ATIF or run.session is None or run.unit != "episode" or not n_calls:
            return False
        here = self._here.get(run.session, {}).values()
        if any(one.format != ATIF and one.n_calls == n_calls for one in here):
            self._left_out[run.uid] = tuple(self._uids.get(run.session, ()))
            return True
        with self._context.store.reading(self._context.learner) as snapshot:
            for one in recorded_sessions(snapshot, [run.session]):
                if one.format != ATIF and one.n_calls == n_calls:
                    self._left_out[run.uid] = tuple(runs_of_session(snapshot, run.session, one.format))
                    return True
        return False

    def linked(self, episode: Episode) -> Episode:
        """Return an episode with the runs that count for those that were left out."""
        if self._left_out.keys().isdisjoint(episode.runs):
            return episode
        own = [uid for run in episode.runs for uid in self._left_out.get(run, (run,))]
        return msgspec.structs.replace(episode, runs=tuple(dict.fromkeys(own)))

    def remark(self) -> str | None:
        """Return how many runs of this import may be known from another format, too; None for none."""
        formats = {session: set(own) for session, own in self._here.items()}
        with self._context.store.reading(self._context.learner) as snapshot:
            for one in recorded_sessions(snapshot, list(formats)):
                formats[one.session].add(one.format)
        shared = [session for session, own in formats.items() if len(own) > 1]
        if not shared:
            return None
        n_runs = sum(one.n_runs for session in shared for one in self._here[session].values())
        names = sorted({format for session in shared for format in formats[session]})
        return (
            f"{number_of(n_runs, 'run')} may count twice: {', '.join(names)} have runs of the same "
            f"{'session' if len(shared) == 1 else 'sessions'} ({', '.join(map(shown, shared[:_NAMED]))})."
        )


class SourceReading:
    """One pass over some files for a learner, by its present settings."""

    def __init__(
        self, context: Context, opened: Opened, phase: Phase | None, *, replaces: bool = False
    ) -> None:
        self.counts = ImportCounts()
        self.lines = LineQueue()
        self.n_segments = 1
        self._context = context
        self._opened = opened
        self._phase = phase
        self.replaces = replaces
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
        self._shared = SharedSessions(context)

    def runs(self, progress: ReadingProgress | None) -> Iterator[ReadRun]:
        """Yield every run. All other entries before a run are noted when it is yielded."""
        for one in self._opened.skipped:
            self.counts.ignore(one)
        has_trajectories = any(source.format == ATIF for source in self._opened.sources)
        for source in sorted(self._opened.sources, key=lambda one: one.format == ATIF):  # after own sessions
            self.counts.file = source.file
            self._begin_comparison()
            follow = None if progress is None else partial(progress, self._opened, source)
            try:
                for entry in source.entries(follow):
                    judged = self._judged(entry)
                    if judged is None:
                        self._refuse_own_view(source, entry)
                        self._note(self._shared.linked(entry) if isinstance(entry, Episode) else entry)
                    elif self._shared.leaves_out(judged.run, judged.evidence.n_calls):
                        self.counts.ignore(left_out(source.file))
                    else:
                        self._shared.add(judged.run, judged.evidence.n_calls, keeps_uid=has_trajectories)
                        self._comparison.fold(judged)
                        self.counts.units.add(judged.run.unit)
                        if judged.run.achieved is not None:
                            self._note_line(stated_line(judged.run.uid, judged.run.achieved))
                        yield ReadRun(source.file, self.n_segments - 1, judged)
            except UnreadableSource as problem:
                self.counts.reject(None, str(problem))
        if (remark := self._shared.remark()) is not None:
            self.counts.remarks.append(remark)

    def check(self, settings: LearnerSettings, *, are_written: bool) -> None:
        """Raise `Spoiled` if the runs before a settings line, or after it (``are_written``), had other settings."""
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
