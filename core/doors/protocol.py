"""Protocol: the operations of a learner, the same for a database file and for a server.

`LearnerProtocol` has one method per operation, with its parameters and its answer. `Learner` and `Client` differ in
how a verb is called and how a file is moved.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name
from time import monotonic
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from core.doors.attempts import Attempts, Offers, OnError, Request, RunOutcome
from core.doors.running import RunUnderWay
from core.doors.verbs import verb
from core.errors import ArmscopeError, Conflict, InvalidArm, InvalidBatch, InvalidInput, NotFound
from core.frames import RowList, RowTuple
from core.records.agreement import AgreementReport
from core.records.answers import (
    BackupAnswer,
    CompactAnswer,
    EpisodeMarked,
    EraseAnswer,
    ExportAnswer,
    RecordAnswer,
    RepairAnswer,
    ResetAnswer,
    ScaleAnswer,
    SettingAnswer,
    StepAnswer,
    UndoAnswer,
)
from core.records.arm import Arm, ArmType, check_key, skill_name, token_cost_of
from core.records.arm_summary import ArmVersions, JudgedArm
from core.records.audit import AuditEntry
from core.records.batch import BatchAnswer, BatchLine, RunRewardAnswer, RunRewardRule
from core.records.bill import Spent, heaviest, merged
from core.records.browser import BrowserAnswer, BrowserRow
from core.records.candidate import tool_candidate
from core.records.environment import EnvironmentDesign, EnvironmentSummary, ModelComparison
from core.records.episode import EpisodeOptions, ScaleOptions, StepOptions
from core.records.episode_credit import CreditAnswer, CreditRule
from core.records.episode_page import EpisodeOutcome, EpisodeView
from core.records.evaluation import EvaluationAnswer, EvaluationOutcome, JudgingOptions
from core.records.evaluation_page import ANY_EVALUATION, Evaluation, EvaluationFilter
from core.records.import_answer import ImportAnswer
from core.records.inventory import CarriedAnswer
from core.records.judgement import JudgedPosterior, Judgement
from core.records.learner import LearnerSettings
from core.records.limits import listed, shown
from core.records.note import NoteAnswer
from core.records.observation import Observation, RewardAnswer, RewardOutcome, value_of
from core.records.parameters import Compared, ExportFormat
from core.records.reset import Target
from core.records.run import Call, Inventory, Phase, Run, Status, Unit, Usage, beyond, received
from core.records.run_page import RunRow, RunsOfSession, SessionRow
from core.records.run_query import (
    ALL_RUNS,
    ArmQuery,
    ChangeQuery,
    Dates,
    RewardQuery,
    RunQuery,
    RunSide,
    SessionQuery,
)
from core.records.run_story import RunStory
from core.records.search import SearchAnswer, SearchKind
from core.records.selection import Selection
from core.records.sides import ComparedSides
from core.records.status import Status as LearnerStatus
from core.records.training import Pairing, TrainingAnswer, TrainingFormat, TrainingOptions
from core.records.verification import Verification
from core.records.view import EVERYTHING, View

if TYPE_CHECKING:
    from core.maths.statistics.savings import Savings

_T = TypeVar("_T")


class RunOptions(TypedDict, total=False):
    """Options of a request: the token budget of its prompt, and its session, model and channel."""

    budget_tokens: int | None
    k: int | None
    uid: str | None
    named: Iterable[object] | None
    session: str | None
    model: str | None
    channel: str | None
    keep: bool
    on_error: OnError
    select_s: float | None
    record_s: float | None


class RecordOptions(TypedDict, total=False):
    """Options of a recorded run; `LearnerProtocol.record` explains them."""

    selection: Selection | None
    arms: Iterable[object] | None
    named: Iterable[object] | None
    loaded: Iterable[str]
    calls: Iterable[Call | str]
    texts: Iterable[str]
    usage: Usage | None
    status: Status
    ended_at: datetime | None
    duration_ms: int | None
    session: str | None
    model: str | None
    channel: str | None
    prompt: str | None
    keep: bool


class ImportOptions(TypedDict):
    """Options of an import; `LearnerProtocol.import_files` explains them."""

    format: str | None
    unit: Unit | None
    tools_file: Path | None
    phase: Phase | None
    max_inflated_bytes: int | None
    max_rejected: int | None
    each_event: bool
    replace: bool
    preview: bool


class TrainingRequest(TrainingOptions):
    """All options of a training export."""

    format: TrainingFormat
    pairing: Pairing
    include_reward: bool
    with_secrets: bool


class LearnerProtocol(Protocol):
    """One learner: it selects, records, rewards, resets, undoes and reports. Safe to share between threads."""

    _name: str
    _offers: Offers
    _attempts: Attempts
    _is_closed: bool

    @property
    def name(self) -> str:
        """The name of the learner."""
        return self._name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        not_sent(self)

    def __repr__(self) -> str:
        facts = ("closed",) if self._is_closed else self._counts()
        return f"<{type(self).__name__} {', '.join((self._name, *facts, self._location()))}>"

    def close(self) -> None:
        """Close the database or the connections; every later call raises `Closed`."""
        if not self._is_closed:
            self._attempts.close()
        self._is_closed = True
        self._attempts.release(self._release)

    # Calls

    @abstractmethod
    def _release(self) -> None: ...

    @abstractmethod
    def _location(self) -> str:
        """Return where its data are, without a secret."""

    def _counts(self) -> tuple[str, ...]:
        """Return numbers of runs and arms in words, where they are known at once."""
        return ()

    def _list(self, name: str, record: type[_T], /, **arguments: object) -> RowList[_T]:
        kind: Any = list[record]  # type: ignore[valid-type]  # a type made of an argument
        return RowList(self._call(name, kind, **arguments), record)

    def _tuple(self, name: str, record: type[_T], /, **arguments: object) -> RowTuple[_T]:
        kind: Any = tuple[record, ...]  # type: ignore[valid-type]  # likewise
        return RowTuple(self._call(name, kind, **arguments), record)

    @abstractmethod
    def _call(self, name: str, kind: type[_T], /, **arguments: object) -> _T:
        """Call a verb and return its answer, a record of this kind."""

    @abstractmethod
    def _send(self, body: bytes) -> RecordAnswer:
        """Record a run by the bytes of its request."""

    @abstractmethod
    def _now_ms(self) -> int:
        """Return the time in UTC milliseconds."""

    @abstractmethod
    def _entropy(self) -> int:
        """Return a seed."""

    def _within(self, connect_s: float, answer_s: float) -> AbstractContextManager[object]:  # noqa: ARG002
        """Limit the requests of this thread to these times."""
        return nullcontext()

    @abstractmethod
    def _import(self, paths: Sequence[Path], options: ImportOptions) -> ImportAnswer: ...

    @abstractmethod
    def _export(self, file: Path, format: ExportFormat) -> ExportAnswer: ...

    @abstractmethod
    def _train(self, file: Path, request: TrainingRequest, *, manifest: bool) -> TrainingAnswer: ...

    @abstractmethod
    def _backup(self, file: Path) -> BackupAnswer: ...

    # Agents

    @overload
    def run(self, arms: str, /) -> RunStory: ...  # type: ignore[overload-overlap]  # text is no list of arms

    @overload
    def run(self, arms: None = None, /, **options: Unpack[RunOptions]) -> RunUnderWay[str]: ...

    @overload
    def run(self, arms: Iterable[_T], /, **options: Unpack[RunOptions]) -> RunUnderWay[_T]: ...

    def run(
        self, arms: Iterable[_T] | str | None = None, /, **options: Unpack[RunOptions]
    ) -> RunUnderWay[_T] | RunUnderWay[str] | RunStory:
        """Answer one request: select arms when its ``with`` block begins, and record the run when it ends.

        Offered are arms, ids, and tools as an SDK defines them (`tool_candidate`); None = all known arms.
        An exception inside is recorded as a failed run and propagates. The default ``uid`` is a new one. ``named``
        are arms that are in the prompt by name only, see `record`.

        A database or server that is away neither raises nor keeps the request waiting. Beyond ``select_s`` the arms
        are those that fit, in random order after the seeds; beyond ``record_s`` the run is sent later. ``on_error``
        ``raise`` raises instead.

        With a uid instead of arms it returns the story of that run, as `why` does.

        >>> import tempfile
        >>> from core import open_learner
        >>> search = {"type": "function", "function": {"name": "search", "description": "Search the web"}}
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     with learner.run([search, "skill:review:main"], budget_tokens=8_000, uid="r1") as run:
        ...         assert run.tools == [search, "skill:review:main"]
        ...         run.called("search")
        ...         run.used(input=900, output=120)
        ...     run.answer.outcome, learner.run("r1").facts.tokens
        ('observed', 1020)
        """
        if isinstance(arms, str):
            return self.why(run_uid(arms))
        offers = None if arms is None else listed("arms", arms)
        for name in options.keys() - RunOptions.__annotations__.keys():
            raise TypeError(f"run() got an unexpected keyword argument {name!r}")
        uid = options.get("uid")
        by_name = _named_arms(options.get("named"))
        request = Request.of(
            str(uuid.uuid4()) if uid is None else uid, options, self._attempts.limits, by_name
        )
        named = {arm.key: arm for arm in by_name}
        began_s = 0.0

        def begin(offered: Sequence[Any] | None) -> Selection:
            nonlocal began_s
            selection = self._attempts.select(
                None if offered is None else [arm_of(arm) for arm in offered], request
            )
            for key in named.keys() & set(selection.excluded):
                problem = f"An arm must be in the prompt by name or left out, got both for {key!r}."
                ignore("learner.run", InvalidInput(problem, next_step="Name it in one of the two."))
                del named[key]
            began_s = monotonic()
            return selection

        def ignore(where: str, problem: Exception) -> None:
            self._attempts.ignore(request, where, problem)

        def end(run: RunUnderWay[Any], status: Status) -> tuple[RecordAnswer | None, RunOutcome]:
            recorded: RecordOptions = {
                "selection": run.selection,
                "named": list(named.values()),
                "loaded": tuple(run.loads),
                "calls": run.calls,
                "texts": run.texts,
                "usage": run.usage,
                "status": status,
                "duration_ms": round(1000 * (monotonic() - began_s)),
                "session": options.get("session"),
                "model": options.get("model"),
                "channel": options.get("channel"),
                "prompt": run.prompt,
                "keep": options.get("keep", True),
            }
            messages = run.talk.messages if recorded["keep"] and self._attempts.may_keep_texts else ()
            return self._attempts.record(
                lambda: replace(
                    _billed(_run_of(self._offers, run.uid, recorded, run.shown_arms), run.spent),
                    messages=messages,
                ),
                request,
                run.later,
            )

        return RunUnderWay[Any](
            offers, uid=request.uid, begin=begin, end=end, named=named.keys(), ignore=ignore
        )

    def select(
        self,
        arms: Iterable[object] | None = None,
        *,
        session: str | None = None,
        budget_tokens: int | None = None,
        k: int | None = None,
    ) -> Selection:
        """Choose the arms of the next prompt among the offered ones (None = all known arms).

        With the setting ``sticky`` at ``session`` a selection holds: later requests of the same ``session`` get the
        same arms in the same order, until the session was idle. `record` then takes the same session.

        Offered are arms, ids, and tools as an SDK defines them (`tool_candidate`). `Selection.keep` returns those
        that are in.
        """
        offered = None if arms is None else [arm_of(arm) for arm in listed("arms", arms)]
        selection = self._call(
            "select", Selection, arms=offered, session=session, budget_tokens=budget_tokens, k=k
        )
        self._offers.add(selection, offered or ())
        return selection

    @overload
    def record(
        self, uid: str, *, wait: Literal[True] = True, **options: Unpack[RecordOptions]
    ) -> RecordAnswer: ...

    @overload
    def record(self, uid: str, *, wait: Literal[False], **options: Unpack[RecordOptions]) -> None: ...

    def record(self, uid: str, *, wait: bool = True, **options: Unpack[RecordOptions]) -> RecordAnswer | None:
        """Record one request, with the ``selection`` that it ran with or the ``arms`` in its prompt.

        The content, label and prior of offered arms are remembered from the latest selections of this object. A
        program that selects in one process and records in another passes these ``arms`` with the ``selection``.
        Otherwise the run's texts cannot be searched for the content of a memory.
        ``named`` are arms that were in the prompt by name only, such as deferred tools and listed skills: others than
        the ``arms``, or of those that the ``selection`` includes. They have counts of their own, and nothing is
        learned of them. One is found by a call of its name, or as one of the ids ``loaded``.
        ``calls`` are the called tools and ``texts`` the agent's texts: the detectors read them. ``prompt`` is the
        request. It and the last of the ``texts`` are stored for judging and training, up to 100,000 characters each,
        with the setting ``keep_texts`` and unless ``keep`` is False.
        ``ended_at`` is an aware time; by default the run ends when it is first recorded. A repeat with the same
        ``uid`` changes nothing; with other content it raises `Conflict`.

        ``wait`` False returns at once. The run is recorded within a second, or at the end of the process: a process
        that is killed before loses it. Errors are logged, and a run that can't be recorded waits in the spool.
        """
        run = _run_of(self._offers, uid, options)
        if not wait:
            self._attempts.later(run)
            return None
        try:
            return self._call("record", RecordAnswer, run=run, ended_now=run.ended_at_ms is None)
        except Conflict as problem:
            raise Conflict(
                problem.problem,
                next_step="Give every request a uid of its own, for example str(uuid.uuid4()); learner.run(…) does.",
            ) from None

    def record_runs(self, runs: Iterable[Run]) -> RowList[RecordAnswer]:
        """Record many runs; `InvalidBatch` names those that cannot be recorded, and the others are."""
        return self._list("record_runs", RecordAnswer, runs=list(runs))

    def record_step(self, episode: str, **options: Unpack[StepOptions]) -> StepAnswer:
        """Record one answer of an environment, on disk when this returns.

        ``reward`` None is no reward, which is not 0. The first step names its ``environment``. A step with a
        ``number``, from 0 on, counts once.
        """
        return self._call("record_step", StepAnswer, episode=episode, **options)

    def mark_incomplete(self, episode: str, **options: Unpack[EpisodeOptions]) -> EpisodeMarked:
        """Mark an episode as incomplete: some of its answers could not be recorded."""
        return self._call("mark_incomplete", EpisodeMarked, episode=episode, **options)

    # Environments

    def declare(self, environment: str, **options: Unpack[ScaleOptions]) -> ScaleAnswer:
        """Declare the reward scale of an environment; options that are left out keep their active value."""
        return self._call("declare", ScaleAnswer, environment=environment, **options)

    def episodes(
        self,
        *,
        environment: str | None = None,
        split: str | None = None,
        task: str | None = None,
        model: str | None = None,
        outcome: EpisodeOutcome | None = None,
    ) -> RowTuple[EnvironmentSummary]:
        """Return environments with the rewards and successes of their episodes."""
        return self._tuple(
            "episodes",
            EnvironmentSummary,
            environment=environment,
            split=split,
            task=task,
            model=model,
            outcome=outcome,
        )

    def episode(self, uid: str) -> EpisodeView:
        """Return one episode, step by step; its ``total`` is None where nothing was paid."""
        return self._call("episode", EpisodeView, uid=uid)

    def lint(self, environment: str | None = None) -> RowTuple[EnvironmentDesign]:
        """Return how environments pay, and the steps that show a problem."""
        return self._tuple("lint", EnvironmentDesign, environment=environment)

    def compare(
        self, environment: str, *models: str, compared: Compared = "reward", paired: bool = True
    ) -> ModelComparison:
        """Compare models (default: all) on the tasks of an environment that two of them attempted.

        Without ``paired`` it compares all episodes; a difference may then be that of their tasks.
        """
        return self._call(
            "compare",
            ModelComparison,
            environment=environment,
            models=models,
            compared=compared,
            paired=paired,
        )

    def credit_episode(self, uid: str, rule: CreditRule) -> CreditAnswer:
        """Credit the result of an episode to arms of its runs; `undo` reverts it, and another credit supersedes it.

        ``equal``: all arms in the prompts of its runs share it; ``referenced``: the referenced arms share it;
        ``step``: the tools of the paid steps share it, by payment; ``off``: no arm gets credit.
        """
        return self._call("credit_episode", CreditAnswer, uid=uid, rule=rule)

    # Files

    def import_files(
        self,
        *paths: str | Path,
        format: str | None = None,
        unit: Unit | None = None,
        tools_file: str | Path | None = None,
        phase: Phase | None = None,
        max_inflated_bytes: int | None = None,
        max_rejected: int | None = None,
        each_event: bool = False,
        replace: bool = False,
        preview: bool = False,
    ) -> ImportAnswer:
        """Import transcripts, recognised by their content, as one act; a repeat changes nothing.

        A packed file may hold ``max_inflated_bytes`` (default 4 GiB). A file is read past up to ``max_rejected``
        rejected lines in a row (default 100,000; 10,000 before its first good one). ``each_event`` counts every
        rollout event, also where several repeat the reward of one message. ``replace`` takes records whose ids are
        known with other content. ``preview`` answers and writes nothing.
        """
        return self._import(
            [Path(path) for path in paths],
            {
                "format": format,
                "unit": unit,
                "tools_file": None if tools_file is None else Path(tools_file),
                "phase": phase,
                "max_inflated_bytes": max_inflated_bytes,
                "max_rejected": max_rejected,
                "each_event": each_event,
                "replace": replace,
                "preview": preview,
            },
        )

    def export(self, file: str | Path, format: ExportFormat = "jsonl") -> ExportAnswer:
        """Write all data into a new file, as armscope's own lines or in a shape for other programs."""
        return self._export(Path(file), format)

    def export_training(
        self,
        file: str | Path,
        format: TrainingFormat,
        *,
        pairing: Pairing = "prompt",
        manifest: bool = True,
        include_reward: bool = True,
        with_secrets: bool = False,
        **filters: Unpack[TrainingOptions],
    ) -> TrainingAnswer:
        """Write evaluations into a new file to train on, and ``FILE.manifest.json`` next to it.

        Only rows that the active thresholds admit are written; see `core.flows.training.export_training`.
        """
        request: TrainingRequest = {
            **filters,
            "format": format,
            "pairing": pairing,
            "include_reward": include_reward,
            "with_secrets": with_secrets,
        }
        return self._train(Path(file), request, manifest=manifest)

    def backup(self, file: str | Path) -> BackupAnswer:
        """Copy the full database into a new file, while it is in use."""
        return self._backup(Path(file))

    # People

    def reward(
        self,
        arm: str,
        value: float | UnsetType | None = UNSET,
        *,
        outcome: RewardOutcome | None = None,
        reason: str | None = None,
        run: str | None = None,
        correct: bool = False,
        key: str | None = None,
        create: bool = False,
    ) -> RewardAnswer:
        """Give a lagged reward from 0 to 1; with ``run`` and ``correct`` it replaces the automatic one.

        Neither a value nor an outcome means accepted. None is refused: an answer without a score is no success.
        """
        return self._call(
            "reward",
            RewardAnswer,
            arm=arm,
            value=value_of(value, outcome or UNSET),
            outcome=outcome,
            reason=reason,
            run=run,
            correct=correct,
            key=key,
            create=create,
        )

    def reward_batch(
        self, rewards: Iterable[BatchLine | Mapping[str, object]], *, key: str | None = None
    ) -> BatchAnswer:
        """Give many lagged rewards as one act: all of them or none, and one id undoes all of it.

        A line has an ``arm``, a ``value`` from 0 to 1 or an ``outcome``, and optionally ``run``, ``reason`` and
        ``kind``. Without a kind it corrects the arm where its run observed it, and is feedback else. Raises
        `InvalidBatch`, whose ``lines`` have the error of each bad line, by number from 1 on.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read", "tool:web:search"], calls=["Read"])
        ...     batch = learner.reward_batch([{"arm": "tool:fs:Read", "outcome": "partial", "run": "r1"}])
        ...     batch.id, batch.rewards[0].kind, learner.undo(batch.id).id
        ('rewards-1', 'correction', 'undos-1')
        """
        request = verb("reward_batch").decode({"rewards": list(rewards), "key": key})
        lines: Sequence[BatchLine] = getattr(request, "rewards")  # noqa: B009 - a field of a derived record
        return self._call("reward_batch", BatchAnswer, rewards=lines, key=key)

    def reward_run(
        self,
        run: str,
        value: float | UnsetType | None = UNSET,
        *,
        rule: RunRewardRule = "referenced",
        outcome: RewardOutcome | None = None,
        reason: str | None = None,
        correct: bool = False,
        key: str | None = None,
    ) -> RunRewardAnswer:
        """Give the arms that a run referenced the same reward from 0 to 1, as one act with one undo.

        Each gets one observation beside its automatic one; ``correct`` replaces that. ``rule`` "step" is for the
        tools that the run called, "equal" for every arm in its prompt. The default outcome is accepted. If no arm
        matches, nothing is recorded, and ``why`` has the reason.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read", "tool:web:search"], calls=["Read"])
        ...     [(one.arm, one.mean) for one in learner.reward_run("r1", 0.5, reason="half an answer").rewards]
        [('tool:fs:Read', 0.75)]
        """
        return self._call(
            "reward_run",
            RunRewardAnswer,
            run=run,
            value=value_of(value, outcome or UNSET),
            rule=rule,
            outcome=outcome,
            reason=reason,
            correct=correct,
            key=key,
        )

    def evaluate(
        self, subject: str, outcome: EvaluationOutcome, **options: Unpack[JudgingOptions]
    ) -> EvaluationAnswer:
        """Judge a layer (``kairos://layer/{uuid}``), an execution, a run, or one ``arm`` of a run.

        ``score`` is from 0 to 1 (of a failure: the grader's certainty); a success without one counts as 1. A second
        evaluation of a subject by the same rater, model and rubric supersedes the first, which stays readable.
        ``create`` creates an unknown layer or execution.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:web:search"], calls=["search"])
        ...     answer = learner.evaluate("r1", "success", score=0.9, rubric="v2", rater="mara")
        ...     answer.label, answer.exportable_for_sft, [one.id for one in learner.evaluations()]
        ('gold', True, ['evaluation-1'])
        """
        return self._call("evaluate", EvaluationAnswer, subject=subject, outcome=outcome, **options)

    def note(self, arm: str, text: str, *, key: str | None = None) -> NoteAnswer:
        """Write a note about an arm; it moves no number, and a repeat under the same ``key`` counts once."""
        return self._call("note", NoteAnswer, arm=arm, text=text, key=key)

    def erase(
        self,
        *,
        run: str | None = None,
        session: str | None = None,
        execution: str | None = None,
        episode: str | None = None,
        act: str | None = None,
        rater: str | None = None,
    ) -> EraseAnswer:
        """Erase the texts of a run, session, execution, episode or act, or a person's name, for good.

        Numbers stay. No undo and no import brings the texts back. The answer names what it cannot reach, such as
        earlier backups.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read"], calls=["Read"])
        ...     _ = learner.reward("tool:fs:Read", 0.5, run="r1", reason="half an answer")
        ...     erased = learner.erase(run="r1")
        ...     erased.places, learner.ledger()[0].reward, learner.ledger()[0].reason
        ({'audit.detail': 1, 'observation.reason': 1}, 0.5, None)
        """
        n_waiting = self._attempts.spool.erase(run=run, session=session)
        try:
            answer = self._call(
                "erase",
                EraseAnswer,
                run=run,
                session=session,
                execution=execution,
                episode=episode,
                act=act,
                rater=rater,
            )
        except NotFound:
            if not n_waiting:
                raise
            answer = EraseAnswer(of="session" if run is None else "run", texts=0, places={}, not_reached=())
        return answer.with_spool(n_waiting, str(self._attempts.spool.folder))

    def compact(self, *, keep_days: int | None = None, shrink: bool = False) -> CompactAnswer:
        """Delete the rows of runs that ended more than ``keep_days`` days ago, for good, and keep their sums.

        Without ``keep_days`` the setting ``keep_runs_days`` decides. Runs with feedback stay whole. No undo brings
        the rows back. With ``shrink`` the file gets smaller, and writers wait meanwhile.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read"], calls=["Read"])
        ...     compacted = learner.compact(keep_days=365)
        ...     compacted.runs, compacted.left
        (0, 0)
        """
        return self._call("compact", CompactAnswer, keep_days=keep_days, shrink=shrink)

    def reset(
        self,
        *,
        arms: Sequence[str] | None = None,
        types: Sequence[ArmType] | None = None,
        target: Target = "uniform",
        reason: str | None = None,
        key: str | None = None,
    ) -> ResetAnswer:
        """Reset arms to their start (no scope = all); nothing is deleted, and a repeat under ``key`` counts once.

        An empty scope, such as the result of an empty search, raises `InvalidInput`.
        """
        scope = {
            name: listed(name, named)
            for name, named in (("arms", arms), ("types", types))
            if named is not None
        }
        for name, named in scope.items():
            if not named:
                raise InvalidInput(
                    f"{name} must name at least one, got none; nothing was reset.",
                    next_step=f"Leave {name} out to reset every arm.",
                )
        return self._call("reset", ResetAnswer, **scope, target=target, reason=reason, key=key)

    def repair(
        self,
        *,
        arms: Sequence[str],
        since: str,
        until: str | None = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> RepairAnswer:
        """Take back every automatic observation of arms in a span; a repeat under ``key`` counts once.

        Times are ISO 8601 in UTC. Observations by people, graders and episode credits are kept.
        """
        return self._call(
            "repair",
            RepairAnswer,
            arms=listed("arms", arms),
            since=since,
            until=until,
            reason=reason,
            key=key,
        )

    def confirm_browser(self, browser: str) -> BrowserAnswer:
        """Confirm the name of a browser, so that it counts as a rater of its own."""
        return self._call("confirm_browser", BrowserAnswer, browser=browser)

    def undo(self, act_id: str | None) -> UndoAnswer:
        """Undo an act by its id, for example a reward, reset, import or setting."""
        return self._call("undo", UndoAnswer, act_id=act_id)

    def redo(self, act_id: str | None) -> UndoAnswer:
        """Redo an undone act."""
        return self._call("redo", UndoAnswer, act_id=act_id)

    def change(self, name: str, value: object) -> SettingAnswer:
        """Change a setting."""
        return self._call("change", SettingAnswer, name=name, value=value)

    # Reports

    @property
    def settings(self) -> LearnerSettings:
        """The active settings."""
        return self._call("settings", LearnerSettings)

    def posteriors(self, view: View = EVERYTHING, **query: Unpack[ArmQuery]) -> RowList[JudgedPosterior]:
        """Return every arm with its posterior and its judgement, sorted by id; with ``since`` the changed ones."""
        known = _known(ArmQuery, query, "posteriors")
        return self._list("posteriors", JudgedPosterior, view=view, **known)

    def judgements(self, view: View = EVERYTHING) -> dict[str, Judgement]:
        """Return the judgement of every arm, by id; it simulates for about a second where there are many arms."""
        return self._call("judgements", dict[str, Judgement], view=view)

    def arms(self, **query: Unpack[ArmQuery]) -> RowList[JudgedArm]:
        """Return every arm with its cost, prior, pulls and judgement, by id; with ``since`` the changed ones."""
        return self._list("arms", JudgedArm, **_known(ArmQuery, query, "arms"))

    def versions(self, arm: str) -> ArmVersions:
        """Return the versions of an arm's definition, with the runs and the belief of each.

        >>> import tempfile
        >>> from core import Arm, open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     for uid, version in (("r1", "a"), ("r2", "a"), ("r3", "b")):
        ...         _ = learner.record(uid, arms=[Arm(key="tool:fs:Read", version=version)], calls=["Read"])
        ...     [(one.version, one.runs) for one in learner.versions("tool:fs:Read").versions]
        [('a', 2), ('b', 1)]
        """
        return self._call("versions", ArmVersions, arm=arm)

    def runs(self, limit: int = 50, **query: Unpack[RunQuery]) -> RowTuple[RunRow]:
        """Return the latest runs that pass the filters, newest first.

        The filters are those of the page of runs. ``class_`` and ``from_`` are ``class`` and ``from``, which Python
        keeps for itself. Several values of one filter are a list.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read"], calls=["Read"], model="large")
        ...     _ = learner.record("r2", arms=["tool:fs:Read"], calls=["Read"], model="small", status="error")
        ...     [run.uid for run in learner.runs(model="small", status=["error", "aborted"])]
        ['r2']
        """
        return self._tuple("runs", RunRow, limit=limit, **_known(RunQuery, query, "runs"))

    def sessions(self, limit: int = 50, **query: Unpack[SessionQuery]) -> RowTuple[SessionRow]:
        """Return the sessions with runs that pass the filters, the latest first."""
        return self._tuple("sessions", SessionRow, limit=limit, **_known(SessionQuery, query, "sessions"))

    def session(self, name: str, *, limit: int = 200, texts: bool = False) -> RunsOfSession:
        """Return a session with its runs in order; raises `NotFound`.

        ``texts`` includes the kept messages of the runs whose texts the caller may read.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/sessions.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read"], calls=["Read"], session="chat-1")
        ...     [(one.session, one.n_runs) for one in learner.sessions()], learner.session("chat-1").arms
        ([('chat-1', 1)], (('tool:fs:Read', 1, 1),))
        """
        return self._call("session", RunsOfSession, name=name, limit=limit, texts=texts)

    def compare_sides(
        self, a: RunSide = ALL_RUNS, b: RunSide = ALL_RUNS, *, limit: int = 50
    ) -> ComparedSides:
        """Return two sets of runs side by side: failures, bill, and each arm's belief, selection and shift by source.

        >>> import tempfile
        >>> from core import RunSide, open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:fs:Read"], calls=["Read"], model="large")
        ...     _ = learner.record("r2", arms=["tool:fs:Read"], calls=["other"], model="small")
        ...     both = learner.compare_sides(RunSide(model="large"), RunSide(model="small"))
        ...     [(one.arm, one.a.alpha_micro, one.b.beta_micro) for one in both.arms]
        [('tool:fs:Read', 1000000, 1000000)]
        """
        return self._call("compare_sides", ComparedSides, a=a, b=b, limit=limit)

    def why(self, uid: str) -> RunStory:
        """Return why each arm was in a run's prompt or left out, and the rewards; raises `UnknownRun`."""
        return self._call("run", RunStory, name=uid)

    def evaluations(
        self, wanted: EvaluationFilter = ANY_EVALUATION, limit: int = 50, **query: Unpack[Dates]
    ) -> RowTuple[Evaluation]:
        """Return the latest evaluations, newest first, each with its grade by the active thresholds."""
        known = _known(Dates, query, "evaluations")
        return self._tuple("evaluations", Evaluation, wanted=wanted, limit=limit, **known)

    def browsers(self) -> RowTuple[BrowserRow]:
        """Return the browsers that judge under a name of their own, without sign-in."""
        return self._tuple("browsers", BrowserRow)

    def agreement(self, wanted: EvaluationFilter = ANY_EVALUATION) -> AgreementReport:
        """Return how far graders agree on outcome, label and score: Krippendorff's alpha with intervals."""
        return self._call("agreement", AgreementReport, wanted=wanted)

    def search(self, words: str, *, kinds: Sequence[SearchKind] = (), limit: int = 10) -> SearchAnswer:
        """Return arms, runs, sessions, episodes, environments, queues and notes in which all words occur.

        Words are literal, in any case, and parts of names suffice. Texts are searched only for who may read them.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     _ = learner.record("r1", arms=["tool:web:search_pages"], session="chat-3004")
        ...     [(hit.kind, hit.id) for hit in learner.search("CHAT-30").hits]
        [('run', 'r1'), ('session', 'chat-3004')]
        """
        return self._call("search", SearchAnswer, words=words, kinds=kinds, limit=limit)

    def carried(self, *, limit: int = 1) -> CarriedAnswer:
        """Return what agents carry and what their sessions used, by machine, as its latest import read it."""
        return self._call("carried", CarriedAnswer, limit=limit)

    def acts(self, limit: int = 50, **query: Unpack[ChangeQuery]) -> RowTuple[AuditEntry]:
        """Return the latest changes and their actors, newest first."""
        return self._tuple("acts", AuditEntry, limit=limit, **_known(ChangeQuery, query, "acts"))

    def ledger(
        self, limit: int = 20, *, actor: str | None = None, **query: Unpack[RewardQuery]
    ) -> RowTuple[Observation]:
        """Return the latest rewards and imported priors, newest first, undone ones too."""
        known = _known(RewardQuery, query, "ledger")
        return self._tuple("ledger", Observation, limit=limit, actor=actor, **known)

    def savings(self, view: View = EVERYTHING) -> Savings:
        """Return the comparison of baseline with selected runs, within a view."""
        kind: type[Savings] = resolve_name("core.maths.statistics.savings:Savings")  # it has arrays of NumPy
        return self._call("savings", kind, view=view)

    def status(self) -> LearnerStatus:
        """Return the numbers of runs, arms, pulls and tokens, and the savings."""
        return replace(self._call("status", LearnerStatus), spool=self._attempts.counts())

    def verify(self, *, head: str | None = None) -> Verification:
        """Recompute every cache from the recorded facts, and compare; ``head`` is one that was noted before."""
        return self._call("verify", Verification, head=head)


def _known(options: type, query: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return keyword arguments; raise `TypeError` for an unknown one, with those that are known."""
    for unknown in query.keys() - options.__annotations__.keys():
        raise TypeError(f"{name}() takes {', '.join(options.__annotations__)}, got {unknown!r}")
    return query


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str: ...


def not_sent(learner: Named) -> NoReturn:
    """Refuse to send a learner to another process: its connections and threads are of this one."""
    raise InvalidInput(
        f"Another process must open its own learner, got the {type(learner).__name__} {learner.name!r} of this one.",
        next_step="Open it there, with open_learner(PATH) or Client(URL).",
    )


def run_uid(uid: str) -> str:
    """Return the uid of a run; refuse an arm's id, which `LearnerProtocol.run` takes in a list only."""
    try:
        check_key(uid)
    except InvalidArm:
        return uid
    raise InvalidInput(
        f"arms must be a list, got the text {shown(uid)}.",
        next_step="Put it into a list: learner.run([it]). For the story of a run use learner.why(uid).",
    )


def _named_arms(named: Iterable[object] | None) -> tuple[Arm, ...]:
    return tuple(named_arm_of(arm) for arm in listed("named", named or ()))


def arm_of(arm: object) -> Arm:
    """Return an offered arm: an arm, an id, or a tool as an SDK defines it."""
    if isinstance(arm, Arm):
        return arm
    return Arm(key=arm) if isinstance(arm, str) else tool_candidate(arm)


def named_arm_of(arm: object) -> Arm:
    """Return an arm that is in a prompt by name: it costs its name, unless it is an `Arm` with a cost of its own.

    >>> named_arm_of({"name": "search", "description": "Search the web"}).token_cost
    2
    """
    if isinstance(arm, Arm):
        return arm
    known = arm_of(arm)
    name = skill_name(known.key) if known.type == "skill" else known.name
    return replace(known, token_cost=token_cost_of(name))


def _run_of(
    offers: Offers, uid: str, options: RecordOptions, shown_arms: Mapping[str, Arm] | None = None
) -> Run:
    for name in options.keys() - RecordOptions.__annotations__.keys():
        raise TypeError(f"record() got an unexpected keyword argument {name!r}")
    selection, ended_at, keep = options.get("selection"), options.get("ended_at"), options.get("keep", True)
    named = _named_arms(options.get("named"))
    calls: list[Call | str] = listed("calls", options.get("calls", ()))
    run = Run(
        uid=uid,
        inventory=_inventory(offers, selection, options.get("arms"), named),
        loaded=tuple(listed("loaded", options.get("loaded", ()))),
        excluded=() if selection is None else selection.excluded,
        selection=selection,
        run_class="imported" if selection is None else selection.run_class,
        calls=tuple(call if isinstance(call, Call) else Call(name=call) for call in calls),
        texts=tuple(listed("texts", options.get("texts", ()))),
        usage=options.get("usage"),
        status=options.get("status", "completed"),
        ended_at_ms=None if ended_at is None else _utc_ms(ended_at),
        duration_ms=options.get("duration_ms"),
        session=options.get("session"),
        model=options.get("model"),
        channel=options.get("channel"),
        prompt=options.get("prompt") if keep else None,
        reply=None if keep else "",
    )
    return received(run, shown_arms)


def _billed(run: Run, rows: Sequence[Spent]) -> Run:
    """Return a run with the tokens of each model; the one that used most is its model if it names none.

    A provider answers with a version of the model, such as ``large-2026-01-31``. It counts as the run's ``large``.
    """
    label = run.model
    own = [
        replace(row, model=label) if label and row.model and row.model.startswith(label) else row
        for row in rows
    ]
    model = label or heaviest(own)
    return replace(run, model=model, bill=beyond(run.usage, merged(own), model)) if own else run


def recorded(
    answers: Sequence[RecordAnswer | ArmscopeError], bad: Mapping[int, ArmscopeError]
) -> list[RecordAnswer]:
    """Return the answers of a batch of runs; raises `InvalidBatch` for bad ones, by number."""
    if bad:
        raise InvalidBatch(
            f"{len(bad):,} of {len(answers):,} runs could not be recorded; the others are.",
            next_step="Correct them and send them again; lines has the error of each.",
            lines=dict(bad),
        )
    return [one for one in answers if isinstance(one, RecordAnswer)]


def _inventory(
    offers: Offers, selection: Selection | None, arms: Iterable[object] | None, named: tuple[Arm, ...]
) -> Inventory:
    offered = [arm_of(arm) for arm in listed("arms", arms or ())]
    if selection is not None:
        _check_offered(selection, offered)
        by_name = {arm.key for arm in named}
        included = offers.included(selection, offered)
        in_full = tuple(arm for arm in included if arm.key not in by_name)
        return Inventory(kind="declared", arms=in_full, named=named)
    if arms is None and not named:
        raise InvalidInput(
            "A run must come with its selection or its arms, got neither.",
            next_step="Pass selection=learner.select(…), or arms=[…] where something else chose.",
        )
    return Inventory(kind="declared", arms=tuple(offered), named=named)


def _check_offered(selection: Selection, arms: Sequence[Arm]) -> None:
    decided = {one.arm for one in selection.decisions}
    for arm in arms:
        if arm.key not in decided:
            raise InvalidInput(
                f"arms must be of those that the selection decided on, got {arm.key!r}.",
                next_step="Offer it to select, or record the run without the selection.",
            )


def _utc_ms(time: datetime) -> int:
    if time.tzinfo is None:
        raise InvalidInput(
            f"ended_at must be an aware time, got {time.isoformat()} without a zone.",
            next_step="Use datetime.now(UTC).",
        )
    return round(time.timestamp() * 1000)
