"""The Python door: a learner as an object, each verb a method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload

from core.doors.answering import Answering, RunOptions, arm_of
from core.doors.running import RunUnderWay
from core.doors.verbs import verb
from core.errors import Closed, InvalidInput
from core.flows import learn, maintenance, queries
from core.flows.batch import reward_run
from core.flows.context import Context, open_context
from core.flows.credit import credit_episode
from core.flows.episode import declare, mark_incomplete, record_step
from core.flows.erase import erase
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import ImportAnswer, import_files
from core.flows.learners import LearnerSummary
from core.flows.learners import learners as learners_of
from core.flows.note import note
from core.flows.reset import reset
from core.flows.restore import RestoreAnswer
from core.flows.restore import restore as restore_backup
from core.flows.reward import reward
from core.flows.select import select
from core.flows.settings import change, in_force
from core.flows.training import export_training
from core.flows.undo import redo, undo
from core.formats import Limits
from core.records.answers import (
    BackupAnswer,
    EpisodeMarked,
    EraseAnswer,
    ExportAnswer,
    RecordAnswer,
    ResetAnswer,
    ScaleAnswer,
    SettingAnswer,
    StepAnswer,
    UndoAnswer,
)
from core.records.arm import ArmType
from core.records.batch import BatchAnswer, BatchLine
from core.records.episode import EpisodeOptions, ScaleOptions, StepOptions
from core.records.episode_credit import CreditAnswer, CreditRule
from core.records.episode_page import EpisodeOutcome
from core.records.evaluation import EvaluationOutcome
from core.records.evaluation_page import Evaluation, EvaluationFilter
from core.records.judgement import Judgement
from core.records.judging import EvaluationAnswer, JudgingOptions
from core.records.learner import LearnerSettings
from core.records.note import NoteAnswer
from core.records.observation import Observation, RewardOutcome
from core.records.parameters import ExportFormat
from core.records.posterior import Posterior
from core.records.reset import Target
from core.records.reward import RewardAnswer
from core.records.run import Phase, Run, Unit
from core.records.run_page import RunRow
from core.records.selection import Selection
from core.records.training import Pairing, TrainingAnswer, TrainingFormat, TrainingOptions
from core.records.view import View
from core.settings import DEFAULT_LEARNER, Settings
from core.statistics.savings import Savings

_T = TypeVar("_T")


def open_learner(
    database: str | Path | None = None,
    name: str = DEFAULT_LEARNER,
    *,
    clock: Callable[[], int] | None = None,
    entropy: Callable[[], int] | None = None,
) -> Learner:
    """Open a learner in a database file (None = the default one). The file is made here where there is none, the
    learner when it is first written to.

    ``clock`` gives UTC milliseconds and ``entropy`` a seed for each selection; leave them out for the
    machine's own. Raises a `StoreError` where the file can't be used.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open_learner(folder.name + "/runs.db") as learner:
    ...     chosen = learner.select(["tool:fs:Read", "tool:web:search"])
    ...     told = learner.record("run-1", selection=chosen, calls=["Read"])
    ...     given = learner.reward("tool:web:search", 0.5, reason="half an answer")
    ...     taken = learner.undo(given.id)
    ...     [(arm.arm, arm.alpha, arm.beta) for arm in learner.posteriors()]
    [('tool:fs:Read', 4.0, 1.0), ('tool:web:search', 3.0, 2.0)]
    >>> folder.cleanup()
    """
    settings = Settings.from_environment(database=None if database is None else str(database), learner=name)
    context = open_context(settings)
    return Learner(
        replace(
            context,
            clock=context.clock if clock is None else clock,
            entropy=context.entropy if entropy is None else entropy,
        )
    )


def learners(database: str | Path | None = None) -> list[LearnerSummary]:
    """Every learner of a database file (None = the default one), by name; raises `NoDatabase` where there is none."""
    settings = Settings.from_environment(database=None if database is None else str(database))
    context = open_context(settings, create=False, whole=True)
    with closing(context.store):
        return learners_of(context)


def restore(file: str | Path, database: str | Path | None = None) -> RestoreAnswer:
    """Put a backup into the place of a database (None = the default one), in use or not, and keep what it replaces.

    Learners that are open go on with what was restored. Raises `StoreDamaged`, `InvalidInput` or `SchemaMismatch`
    for what is no sound backup; then nothing was changed.
    """
    settings = Settings.from_environment(database=None if database is None else str(database))
    return restore_backup(settings.database, Path(file))


class Learner(Answering):
    """One learner: select, record, reward, reset, undo, look. Safe to share between threads.

    Once closed it refuses everything with `Closed`.
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._is_closed = False

    @property
    def context(self) -> Context:
        """Where its verbs happen."""
        if self._is_closed:
            raise Closed(
                f"Learner {self._context.learner!r} is closed; nothing was done.",
                next_step="Open it again with open_learner, or do this inside its with block.",
            )
        return self._context

    @property
    def name(self) -> str:
        """Which learner it is."""
        return self._context.learner

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; closed means closed."""
        self._is_closed = True
        self._context.store.close()

    @overload
    def run(self, arms: str, /) -> queries.RunStory: ...  # type: ignore[overload-overlap]  # text is no list of arms

    @overload
    def run(self, arms: None = None, /, **options: Unpack[RunOptions]) -> RunUnderWay[str]: ...

    @overload
    def run(self, arms: Iterable[_T], /, **options: Unpack[RunOptions]) -> RunUnderWay[_T]: ...

    def run(
        self, arms: Iterable[_T] | str | None = None, /, **options: Unpack[RunOptions]
    ) -> RunUnderWay[_T] | RunUnderWay[str] | queries.RunStory:
        """Answer one request: chooses when its ``with`` block begins, and records when it ends.

        Offered are arms, ids, and tools as the SDK at hand defines them (`tool_candidate`); None = all that are
        known. An exception inside is recorded as a run that failed, and goes on. A ``uid`` is made where none is
        given. Given one uid instead, it answers with that run's story, as `why` does.

        >>> import tempfile
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
            return self.why(arms)
        return self._under_way(arms, options)

    def select(
        self,
        arms: Iterable[object] | None = None,
        *,
        budget_tokens: int | None = None,
        k: int | None = None,
    ) -> Selection:
        """Choose the arms of the next prompt among those offered (None = all that are known).

        Offered are arms, ids, and tools as the SDK at hand defines them (`tool_candidate`); `Selection.keep` hands
        back those that are in.
        """
        offered = None if arms is None else [arm_of(arm) for arm in arms]
        return self._offered(select(self.context, offered, budget_tokens=budget_tokens, k=k), offered)

    def _recorded(self, run: Run, *, ended_now: bool) -> RecordAnswer:
        return learn.record(self.context, run, ended_now=ended_now)

    def _now_ms(self) -> int:
        return self.context.clock()

    def record_runs(self, runs: Sequence[Run]) -> list[RecordAnswer]:
        """Record many runs in one transaction."""
        return learn.record_all(self.context, runs)

    def record_step(self, episode: str, **said: Unpack[StepOptions]) -> StepAnswer:
        """Record one answer of an environment, on disk when this returns; ``reward`` None is none, which is not 0.

        The first step names its ``environment``; ``number``, from 0 on, lets a step be sent again and count once.
        """
        return record_step(self.context, episode, **said)

    def mark_incomplete(self, episode: str, **said: Unpack[EpisodeOptions]) -> EpisodeMarked:
        """Say of an episode that not everything that its environment answered could be written."""
        return mark_incomplete(self.context, episode, **said)

    def declare(self, environment: str, **said: Unpack[ScaleOptions]) -> ScaleAnswer:
        """Declare on what scale an environment pays; what is left out stays as it is in force."""
        return declare(self.context, environment, **said)

    def episodes(
        self,
        *,
        environment: str | None = None,
        split: str | None = None,
        task: str | None = None,
        model: str | None = None,
        outcome: EpisodeOutcome | None = None,
    ) -> tuple[queries.EnvironmentSeen, ...]:
        """Environments, with what their episodes were paid and how many succeeded."""
        return queries.episodes(
            self.context, environment=environment, split=split, task=task, model=model, outcome=outcome
        )

    def episode(self, uid: str) -> queries.EpisodeSeen:
        """One episode, step by step; its ``total`` is None where nothing was paid."""
        return queries.episode(self.context, uid)

    def lint(self, environment: str | None = None) -> tuple[queries.DesignSeen, ...]:
        """How environments pay, and what may be wrong with it, with the steps that show it."""
        return queries.lint(self.context, environment=environment)

    def compare(
        self, environment: str, *models: str, compared: queries.Compared = "reward", paired: bool = True
    ) -> queries.Comparison:
        """Models (all there are where none is named) on the tasks of an environment that two of them attempted.

        Not ``paired``: by all their episodes, where a difference may be that of their tasks.
        """
        return queries.compare(self.context, environment, models=models, compared=compared, paired=paired)

    def credit_episode(self, uid: str, rule: CreditRule) -> CreditAnswer:
        """Credit what an episode was worth to arms of its runs; `undo` takes it back, another takes its place.

        ``equal``: to all arms in the prompts of its runs alike; ``referenced``: to those that were referenced;
        ``step``: to the tools that paid steps called, by what each was paid; ``off``: to nobody.
        """
        return credit_episode(self.context, uid, rule)

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
    ) -> ImportAnswer:
        """Read transcripts, recognised by their content; again changes nothing.

        A packed file may hold ``max_inflated_bytes`` (default 4 GiB); a file is read on up to ``max_rejected``
        rejected lines in a row (default 100,000; 10,000 before its first good one). ``each_event`` counts every
        rollout event, also where several repeat the reward of one message.
        """
        return import_files(
            self.context,
            [Path(path) for path in paths],
            format=format,
            unit=unit,
            tools_file=None if tools_file is None else Path(tools_file),
            phase=phase,
            limits=Limits.of(inflated_bytes=max_inflated_bytes, rejected_lines=max_rejected),
            each_event=each_event,
        )

    def export(self, file: str | Path, format: ExportFormat = "jsonl") -> ExportAnswer:
        """Write everything as lines of our own format, or a view of it for other programs."""
        return export_file(self.context, Path(file), format)

    def export_training(
        self,
        file: str | Path,
        format: TrainingFormat,
        *,
        pairing: Pairing = "prompt",
        manifest: bool = True,
        include_reward: bool = True,
        with_secrets: bool = False,
        **only: Unpack[TrainingOptions],
    ) -> TrainingAnswer:
        """Write what was judged into a new file to train on, and ``FILE.manifest.json`` beside it: only rows that may
        be trained on by the thresholds in force, see `core.flows.training.export_training`.
        """
        return export_training(
            self.context,
            Path(file),
            format,
            pairing=pairing,
            manifest=manifest,
            include_reward=include_reward,
            with_secrets=with_secrets,
            **only,
        )

    def backup(self, file: str | Path) -> BackupAnswer:
        """Copy the whole database as it is at this moment into a new file, while it is in use."""
        return maintenance.backup(self.context, Path(file))

    def reward(
        self,
        arm: str,
        value: float | None = None,
        *,
        outcome: RewardOutcome | None = None,
        reason: str | None = None,
        run: str | None = None,
        correct: bool = False,
        key: str | None = None,
        create: bool = False,
    ) -> RewardAnswer:
        """Give a lagged reward from 0 to 1; with ``run`` and ``correct`` it replaces the automatic one."""
        return reward(
            self.context,
            arm,
            value,
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
        """Give many lagged rewards as one act: all of them or none, and one id takes all of it back.

        A line has an ``arm``, a ``value`` from 0 to 1 or an ``outcome``, and if need be ``run``, ``reason`` and
        ``kind``; without a kind it corrects what its run observed of the arm, else it is feedback. Raises
        `InvalidBatch`, whose ``lines`` say of each bad line, by number from 1 on, what is wrong.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     told = learner.record("r1", arms=["tool:fs:Read", "tool:web:search"], calls=["Read"])
        ...     given = learner.reward_batch([{"arm": "tool:fs:Read", "outcome": "partial", "run": "r1"}])
        ...     taken = learner.undo(given.id)
        ...     given.id, given.rewards[0].kind, taken.id
        ('rewards-1', 'correction', 'undos-1')
        """
        given = {"rewards": list(rewards), "key": key}
        found: BatchAnswer = verb("reward_batch").call(self.context, verb("reward_batch").decode(given))
        return found

    def reward_run(
        self,
        run: str,
        value: float | None = None,
        *,
        outcome: RewardOutcome | None = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> BatchAnswer:
        """Give every arm that was in a run's prompt the same reward from 0 to 1, as one act with one undo.

        What the run observed is corrected, the other arms get feedback; neither value nor outcome means accepted.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     told = learner.record("r1", arms=["tool:fs:Read", "tool:web:search"], calls=["Read"])
        ...     given = learner.reward_run("r1", 0.5, reason="half an answer")
        ...     [(one.arm, one.mean) for one in given.rewards]
        [('tool:fs:Read', 0.7), ('tool:web:search', 0.7)]
        """
        return reward_run(self.context, run, value, outcome=outcome, reason=reason, key=key)

    def evaluate(
        self,
        subject: str,
        outcome: EvaluationOutcome,
        **said: Unpack[JudgingOptions],
    ) -> EvaluationAnswer:
        """Judge a layer (``kairos://layer/{uuid}``), an execution, a run, or one ``arm`` of a run.

        ``score`` is from 0 to 1 (of a failure: how sure that is); left out, a success counts as 1. The same subject
        judged again by the same rater, model and rubric takes the place of the earlier judgement, which stays
        readable. ``create`` makes a layer or execution that nobody has named before.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     told = learner.record("r1", arms=["tool:web:search"], calls=["search"])
        ...     given = learner.evaluate("r1", "success", score=0.9, rubric="v2", rater="mara")
        ...     given.label, given.exportable_for_sft, [one.id for one in learner.evaluations()]
        ('gold', True, ['evaluation-1'])
        """
        return evaluate(self.context, subject, outcome, **said)

    def note(self, arm: str, text: str, *, key: str | None = None) -> NoteAnswer:
        """Write a note about an arm; it moves no number, and the same ``key`` again writes it once."""
        return note(self.context, arm, text, key=key)

    def erase(
        self,
        *,
        run: str | None = None,
        session: str | None = None,
        execution: str | None = None,
        episode: str | None = None,
        rater: str | None = None,
    ) -> EraseAnswer:
        """Erase what was said about a run, a session, an execution or an episode, or a person's name, for good.

        Every number stays. It can't be undone, and no import brings back what was erased; the answer names what it
        can't reach, such as backups made before.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     told = learner.record("r1", arms=["tool:fs:Read"], calls=["Read"])
        ...     given = learner.reward("tool:fs:Read", 0.5, run="r1", reason="Mara said so")
        ...     erased = learner.erase(run="r1")
        ...     erased.places, learner.ledger()[0].reward, learner.ledger()[0].reason
        ({'audit.detail': 1, 'observation.reason': 1}, 0.5, None)
        """
        return erase(
            self.context, run=run, session=session, execution=execution, episode=episode, rater=rater
        )

    def reset(
        self,
        *,
        arms: Sequence[str] | None = None,
        types: Sequence[ArmType] | None = None,
        target: Target = "uniform",
        reason: str | None = None,
        key: str | None = None,
    ) -> ResetAnswer:
        """Start arms again (no scope = all); nothing is deleted. The same ``key`` again resets nothing more.

        An empty scope, which a search that found nothing gives, is refused with `InvalidInput`.
        """
        for name, scope in (("arms", arms), ("types", types)):
            if scope is not None and not scope:
                raise InvalidInput(
                    f"{name} must name at least one, got none; nothing was reset.",
                    next_step=f"Leave {name} out to start every arm again.",
                )
        return reset(self.context, arms=arms or (), types=types or (), target=target, reason=reason, key=key)

    def undo(self, act_id: str | None) -> UndoAnswer:
        """Take a reward, reset, import, setting, note or undo back."""
        return undo(self.context, act_id)

    def redo(self, act_id: str | None) -> UndoAnswer:
        """Let an undone act stand again."""
        return redo(self.context, act_id)

    def change(self, name: str, value: object) -> SettingAnswer:
        """Put a setting in force."""
        return change(self.context, name, value)

    @property
    def settings(self) -> LearnerSettings:
        """Settings in force."""
        return in_force(self.context)

    def posteriors(self) -> list[Posterior]:
        """What is believed of every arm, sorted by id."""
        return queries.posteriors(self.context)

    def judgements(self, view: View = View()) -> dict[str, Judgement]:  # noqa: B008 - frozen
        """What is to be said of every arm, by id, as every page and command says it; simulates for about a second."""
        return queries.judgements(self.context, view)

    def arms(self) -> list[queries.ArmSummary]:
        """Every arm with what it costs, its prior and what was seen of it, sorted by id."""
        return queries.arms(self.context)

    def runs(self, limit: int = 50) -> tuple[RunRow, ...]:
        """The latest runs, newest first."""
        return queries.runs(self.context, limit)

    def evaluations(
        self,
        wanted: EvaluationFilter = EvaluationFilter(),  # noqa: B008 - frozen
        limit: int = 50,
    ) -> tuple[Evaluation, ...]:
        """The latest evaluations, the latest first, each with its grade by the thresholds in force."""
        return queries.evaluations(self.context, wanted, limit=limit)

    def agreement(
        self,
        wanted: EvaluationFilter = EvaluationFilter(),  # noqa: B008 - frozen
    ) -> queries.AgreementReport:
        """How far those who judge agree on outcome, label and score: Krippendorff's alpha with intervals."""
        return queries.agreement(self.context, wanted)

    def why(self, uid: str) -> queries.RunStory:
        """Why each arm was in a run's prompt or left out, and what came of it; raises `UnknownRun`."""
        return queries.run(self.context, uid)

    def savings(self, view: View = View()) -> Savings:  # noqa: B008 - frozen
        """Baseline against selected runs, as far as the view keeps them."""
        return queries.savings(self.context, view)

    def ledger(self, limit: int = 20) -> tuple[Observation, ...]:
        """The latest rewards and carried beliefs, newest first, those that are undone too."""
        return queries.rewards(self.context, limit=limit)

    def status(self) -> queries.Status:
        """Runs, arms, pulls, tokens, savings."""
        return queries.status(self.context)

    def verify(self) -> queries.Verification:
        """Whether every cache equals the fold of the recorded facts."""
        return queries.verify(self.context)
