"""Protocol: the operations of a learner, the same for a database file and for a server.

`LearnerProtocol` has one method for each verb. `Methods` has those that follow from the signature of a flow. Those
below take what is handy in Python. `Learner` and `Client` differ in how a verb is called and how a file is moved.
"""

from __future__ import annotations

import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cache
from pathlib import Path
from secrets import randbits
from types import TracebackType
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    overload,
)

from msgspec import UNSET
from msgspec.structs import replace

from core.doors.attempts import Attempts, Limits, Offers, OnError, Request, RunOutcome
from core.doors.flow_parameters import signature_of, words_of
from core.doors.running import RunUnderWay, TrialRun, arm_of, missing_runs
from core.doors.verbs import SCORED, Blocking, Methods, Verb, Verbs, verb
from core.errors import ArmscopeError, Conflict, InvalidArm, InvalidBatch, InvalidInput, NotFound
from core.frames import RowList, RowTuple
from core.records.achieved import OutcomeOrder, OutcomesAnswer
from core.records.answers import (
    BackupAnswer,
    EraseAnswer,
    ExportAnswer,
    RecordAnswer,
    ResetAnswer,
)
from core.records.arm import Arm, ArmType, check_key, skill_name, token_cost_of
from core.records.batch import BatchAnswer, BatchLine
from core.records.bill import Spent, heaviest, merged
from core.records.corrections import Target
from core.records.environment import ModelComparison
from core.records.import_answer import ImportAnswer
from core.records.learner import LearnerSettings
from core.records.limits import listed, shown
from core.records.observation import value_of
from core.records.parameters import Compared, ExportFormat
from core.records.run import Call, Inventory, Phase, Run, Status, Unit, Usage, beyond, received
from core.records.run_story import RunStory
from core.records.selection import Selection
from core.records.status import Status as LearnerStatus
from core.records.training import Pairing, TrainingAnswer, TrainingFormat, TrainingOptions
from core.records.trial import TrialPlan, TrialPlanned, TrialResults, TrialTask
from core.spool import Spool

_P = ParamSpec("_P")
_T = TypeVar("_T")
_TABLES: Final[Mapping[object, Any]] = {list: RowList, tuple: RowTuple}


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
    achieved: float | None


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


class LearnerProtocol(Methods, Blocking):
    """One learner: it selects, records, rewards, resets, undoes and reports. Safe to share between threads."""

    def __init__(self, name: str, limits: Limits, spool: Spool) -> None:
        self._name = name
        self._offers = Offers()
        self._is_closed = False
        self._attempts = Attempts(self, limits, spool)

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

    @classmethod
    def _method(cls, operation: Verb[..., Any]) -> Callable[..., Any]:
        return _method_of(operation.name)

    @abstractmethod
    def _call(self, operation: Verb[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a verb and return its answer."""

    @abstractmethod
    def _record_runs(self, runs: Sequence[Run]) -> list[RecordAnswer]:
        """Record many runs."""

    @abstractmethod
    def _send(self, body: bytes) -> RecordAnswer:
        """Record a run by the bytes of its request."""

    def _now_ms(self) -> int:
        """Return the time in UTC milliseconds."""
        return time.time_ns() // 1_000_000

    def _entropy(self) -> int:
        """Return a seed."""
        return randbits(64)

    def _within(self, connect_s: float, answer_s: float) -> AbstractContextManager[object]:  # noqa: ARG002
        """Limit the requests of this thread to these times."""
        return nullcontext()

    @abstractmethod
    def _import(self, paths: Sequence[Path], options: ImportOptions) -> ImportAnswer: ...

    def _export(self, file: Path, format: ExportFormat) -> ExportAnswer:
        return self._call(Verbs.export, target=file, format=format)

    def _train(self, file: Path, request: TrainingRequest, *, manifest: bool) -> TrainingAnswer:
        return self._call(Verbs.export_training, target=file, manifest=manifest, **request)

    def _backup(self, file: Path) -> BackupAnswer:
        return self._call(Verbs.backup, target=file)

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
            began_s = time.monotonic()
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
                "duration_ms": round(1000 * (time.monotonic() - began_s)),
                "session": options.get("session"),
                "model": options.get("model"),
                "channel": options.get("channel"),
                "prompt": run.prompt,
                "keep": options.get("keep", True),
                "achieved": run.stated,
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
        selection = self._call(Verbs.select, arms=offered, session=session, budget_tokens=budget_tokens, k=k)
        self._offers.add(selection, offered or ())
        self._attempts.add_side(session, selection)
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
        with the setting ``keep_texts`` and unless ``keep`` is False. ``achieved`` is the outcome from 0 to 1; a later
        one is stated with `outcome`.
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
            return self._call(Verbs.record, run=run, ended_now=run.ended_at_ms is None)
        except Conflict as problem:
            raise Conflict(
                problem.problem,
                next_step="Give every request a uid of its own, for example str(uuid.uuid4()); learner.run(…) does.",
            ) from None

    def record_runs(self, runs: Iterable[Run]) -> RowList[RecordAnswer]:
        """Record many runs; `InvalidBatch` names those that cannot be recorded, and the others are."""
        return RowList(self._record_runs(list(runs)), RecordAnswer)

    # Trials

    def trial(
        self,
        arm: str,
        *,
        tasks: Mapping[str, _T] | Sequence[_T],
        repeats: int = 3,
        smallest: float = 15.0,
        model: str = "",
        again: bool = False,
    ) -> Iterator[TrialRun[_T]]:
        """Plan a trial, or go on with one, and return its runs: iterate over them and state what each achieved.

        ``tasks`` are names, or anything by its name. Each block is stored when it is whole, and the loop goes on with
        the blocks that are missing. A block that an exception or ``break`` leaves has used one of three attempts.
        A trial goes on if arm, tasks, repeats, smallest effect and model are the same. ``again`` plans a new one.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     for run in learner.trial("tool:web:search", tasks=["easy", "hard"]):
        ...         run.achieved(run.task == "easy" or run.hidden is None)
        ...     [(row.trial, row.n_cells) for row in learner.trials()]
        [('trial-1', 12)]
        """
        named = tasks if isinstance(tasks, Mapping) else {str(one): one for one in tasks}
        names = [TrialTask(name=name) for name in named]

        def planned(*, preview: bool) -> TrialPlanned:
            return self._call(
                Verbs.plan_trial,
                arm=arm,
                tasks=names,
                repeats=repeats,
                smallest=smallest,
                model=model,
                harness="python",
                preview=preview,
            )

        known = None if again else self._known_trial(planned(preview=True).plan)
        if known is None:
            new = planned(preview=False)
            known = str(new.id), new.plan, frozenset[str](), {}
        trial, plan, done, tried = known

        def read(results: TrialResults) -> None:
            self._call(Verbs.read_trial, results=results, plan=trial)

        return missing_runs(plan, named, done, tried, read=read, now_ms=self._now_ms)

    def _known_trial(
        self, wish: TrialPlan
    ) -> tuple[str, TrialPlan, frozenset[str], Mapping[str, int]] | None:
        """Return the latest trial of a plan like this, with the tasks whose blocks it has, and its attempts."""
        for row in self._call(Verbs.trials, arm=wish.arms[0]):
            story = self._call(Verbs.trial_result, trial=row.trial)
            plan = story.plan
            if (
                plan is not None
                and {*plan.tasks} == {*wish.tasks}
                and replace(plan, tasks=wish.tasks, seed=wish.seed) == wish
            ):
                tasks = frozenset(task.task for one in row.verdicts for task in one.figures.tasks)
                return row.trial, plan, tasks, story.tried
        return None

    # Environments

    def compare(
        self, environment: str, *models: str, compared: Compared = "reward", paired: bool = True
    ) -> ModelComparison:
        """Compare models (default: all) on the tasks of an environment that two of them attempted.

        Without ``paired`` it compares all episodes; a difference may then be that of their tasks.
        """
        return self._call(
            Verbs.compare,
            environment=environment,
            models=models,
            compared=compared,
            paired=paired,
        )

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
        return self._call(Verbs.reward_batch, rewards=lines, key=key)

    def outcomes(
        self,
        rows: Iterable[OutcomeOrder | Mapping[str, object]],
        *,
        preview: bool = False,
        key: str | None = None,
    ) -> OutcomesAnswer:
        """State what many runs achieved as one act: all of them or none, and one id undoes all of it.

        A row has a ``run`` and a ``value`` from 0 to 1. Raises `InvalidBatch`, whose ``lines`` have the error of each
        bad row, by number from 1 on.
        """
        request = verb("outcomes").decode({"rows": list(rows), "key": key})
        orders: Sequence[OutcomeOrder] = getattr(request, "rows")  # noqa: B009 - a field of a derived record
        return self._call(Verbs.outcomes, rows=orders, preview=preview, key=key)

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
                Verbs.erase,
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
        scope: dict[str, Any] = {
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
        return self._call(Verbs.reset, **scope, target=target, reason=reason, key=key)

    # Reports

    @property
    def settings(self) -> LearnerSettings:
        """The active settings."""
        return self._call(Verbs.settings)

    def why(self, uid: str) -> RunStory:
        """Return why each arm was in a run's prompt or left out, and the rewards; raises `UnknownRun`."""
        return self._call(Verbs.run, name=uid)

    def status(self) -> LearnerStatus:
        """Return the numbers of runs, arms, pulls and tokens, and the savings."""
        return replace(self._call(Verbs.status), spool=self._attempts.counts())


@cache
def _method_of(name: str) -> Callable[..., Any]:
    """Return the method of a verb: its signature and words are those of the flow, and lists are tables."""
    operation = verb(name)
    answer = operation.answer
    table, record = _TABLES.get(get_origin(answer)), next(iter(get_args(answer)), None)
    kind = answer if table is None else table[record]
    signature = signature_of(operation.address).replace(return_annotation=kind)

    _, *names = signature.parameters

    def method(learner: LearnerProtocol, /, *args: object, **kwargs: object) -> object:
        try:
            _, *bound = signature.bind(learner, *args, **kwargs).arguments.items()
        except TypeError as problem:
            raise TypeError(f"{name}() takes {', '.join(names)}: {problem}") from None
        arguments = dict(bound)
        if name in SCORED:  # an explicit None is no score, and its absence is one
            arguments["value"] = value_of(arguments.get("value", UNSET), arguments.get("outcome") or UNSET)
        result = learner._call(operation, **arguments)
        return result if table is None else table(result, record)

    method.__name__, method.__doc__ = name, words_of(operation.address)
    method.__qualname__ = f"{LearnerProtocol.__name__}.{name}"
    method.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    method.__annotations__ |= {"self": LearnerProtocol, "return": kind}
    method.__signature__ = signature  # type: ignore[attr-defined]  # as `inspect` reads it
    return method


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
        achieved=options.get("achieved"),
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
        decided = {one.arm for one in selection.decisions}
        for arm in offered:
            if arm.key not in decided:
                raise InvalidInput(
                    f"arms must be of those that the selection decided on, got {arm.key!r}.",
                    next_step="Offer it to select, or record the run without the selection.",
                )
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


def _utc_ms(time: datetime) -> int:
    if time.tzinfo is None:
        raise InvalidInput(
            f"ended_at must be an aware time, got {time.isoformat()} without a zone.",
            next_step="Use datetime.now(UTC).",
        )
    return round(time.timestamp() * 1000)
