"""Verbs: what can be asked of a learner, by name: the one table that every door reads.

A verb is a name, the action that whoever asks must be allowed, the flow that does it, the fields that it is asked
with, and what it does in one line. A door decodes what it was sent into the verb's ``input`` and calls it. What is
done to the file beneath a context (doctor, restore, upgrade) and what needs a dashboard are commands and no verbs.

>>> verb("note").action, verb("note").words
('reward', 'Write a note about an arm; it moves no number.')
>>> verb("note").decode({"arm": "tool:fs:Read", "text": "slow"})
NoteInput(arm='tool:fs:Read', text='slow', key=None)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, InvalidInput
from core.permissions import Action
from core.records.actor import PersonRole, Scope
from core.records.alert import PAGES_AT, SECRET_FROM
from core.records.arm import Arm, ArmType
from core.records.audit import AuditFilter, Denial
from core.records.batch import BatchLine
from core.records.episode import Base, StepNote
from core.records.episode_credit import CreditRule
from core.records.episode_page import EpisodeCursor, EpisodeFilter, EpisodeOutcome
from core.records.evaluation import EvaluationOutcome
from core.records.evaluation_page import EvaluationFilter
from core.records.observation import RewardOutcome
from core.records.reset import Target
from core.records.review import Control, QueueAsks
from core.records.rubric import Rubric
from core.records.run import Run, Unit
from core.records.run_page import Direction
from core.records.token import DEFAULT_DAYS, MAX_DAYS
from core.records.training import Pairing, TrainingFormat
from core.records.view import View

if TYPE_CHECKING:
    from core.flows.context import Context

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a verb is asked with: the arguments of its flow that a caller elsewhere can give."""


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    ``flow`` and ``document`` name functions as ``module:function``: they are imported when the verb is called, since
    a command line must start without what it does not need. ``whole``: it is about all of the database, and no
    learner in particular need be named. ``example`` is what a caller might send.
    """

    name: str
    action: Action
    flow: str
    input: type[Input] = Input
    words: str
    example: Mapping[str, object] = {}
    document: str = "core.doors.documents:plain"
    whole: bool = False

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidInput(
                f"The action of verb {self.name!r} must be one of {', '.join(ACTIONS)}, got {self.action!r}.",
                next_step="Choose the one that whoever may call the verb is allowed; core/permissions.py has them.",
            )

    @property
    def answer(self) -> object:
        """The type of what its flow answers."""
        return get_type_hints(self.function)["return"]

    @property
    def function(self) -> Callable[..., Any]:
        """Its flow."""
        found: Callable[..., Any] = resolve_name(self.flow)
        return found

    def decode(self, document: object) -> Input:
        """What a program sent, as its input; raises `InvalidInput` for what it can't be."""
        try:
            return msgspec.convert(document, self.input, dec_hook=_path)
        except msgspec.ValidationError as problem:
            own = problem.__cause__
            if isinstance(own, ArmscopeError):  # what our own records say needs no words around it
                raise own from problem
            fields = ", ".join(self.input.__struct_fields__) or "none"
            raise InvalidInput(
                f"What {self.name} is asked with must be an object with its fields ({fields}), got one of which "
                f"this is wrong: {problem}.",
                next_step=f"Send it like {msgspec.json.encode(self.example).decode()}; nothing was done.",
            ) from problem

    def call(self, context: Context, given: Input, **inner: object) -> Any:  # noqa: ANN401 - what its flow answers
        """Do it at a context; ``inner`` are arguments that only this process can give, such as ``progress``.

        Raises `Denied` where the role of whoever asks does not include the verb's action, and what the flow raises.
        """
        if not self.whole:  # the flow decides: who may read one learner sees that one in the list
            context.permit(self.action)
        outer = {name: getattr(given, name) for name in self.input.__struct_fields__}
        return self.function(context, **outer, **inner)

    def plain(self, context: Context, answer: object) -> object:
        """What programs are told of an answer, as JSON knows it."""
        return resolve_name(self.document)(context, answer)


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `str`, got `{type(value).__name__}`")


# What they are asked with


class PosteriorsInput(Input, frozen=True, kw_only=True):
    view: View = View()


class RunsInput(Input, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many, newest first.")] = 50


class RunInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="The run's uid or number.")]


class CreateLearnerInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Make one of this name, empty.")]


class RecordInput(Input, frozen=True, kw_only=True):
    run: Run
    ended_now: bool = False


class ImportInput(Input, frozen=True, kw_only=True):
    paths: Annotated[Sequence[Path], Meta(description="Files, folders and archives with transcripts.")]
    format: Annotated[str | None, Meta(description="Instead of recognising it.")] = None
    unit: Annotated[Unit | None, Meta(description="What counts as a run.")] = None
    tools_file: Annotated[
        Path | None, Meta(description="The tools that were offered, where the runs don't say.")
    ] = None
    # In the order of the help: Python keeps one object for unions that are equal, whichever was made first.
    phase: Annotated[Literal["passive", "active"] | None, Meta(description="For this import.")] = None
    each_event: Annotated[
        bool,
        Meta(description="Count every rollout event, also where several repeat the reward of one message."),
    ] = False


class EpisodesInput(Input, frozen=True, kw_only=True):
    environment: Annotated[str | None, Meta(description="Only this environment.")] = None
    split: Annotated[str | None, Meta(description="Only episodes of this split.")] = None
    task: Annotated[str | None, Meta(description="Only attempts at this task.")] = None
    model: Annotated[str | None, Meta(description="Only episodes of this model.")] = None
    outcome: Annotated[EpisodeOutcome | None, Meta(description="Only episodes that came to this.")] = None
    with_design: Annotated[
        bool, Meta(description="Tell patterns and findings, too, for which steps are read.")
    ] = True


class EpisodeListInput(Input, frozen=True, kw_only=True):
    wanted: Annotated[EpisodeFilter, Meta(description="Only these.")] = EpisodeFilter()
    cursor: Annotated[EpisodeCursor | None, Meta(description="Those beyond this place.")] = None
    direction: Annotated[Direction, Meta(description="On which side of it.")] = "older"
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many.")] = 50


class LintInput(Input, frozen=True, kw_only=True):
    environment: Annotated[str | None, Meta(description="Only this environment.")] = None


class CompareInput(Input, frozen=True, kw_only=True):
    environment: Annotated[str, Meta(description="The environment.")]
    models: Annotated[Sequence[str], Meta(description="These; all there are where none is named.")] = ()
    compared: Annotated[Literal["reward", "success"], Meta(description="What they are compared by.")] = (
        "reward"
    )
    paired: Annotated[
        bool, Meta(description="On the tasks that both attempted; false: all episodes, whatever their tasks.")
    ] = True


class EpisodeInput(Input, frozen=True, kw_only=True):
    uid: Annotated[str, Meta(description="The episode's uid.")]


class DeclareInput(Input, frozen=True, kw_only=True):
    environment: Annotated[str, Meta(description="The environment.")]
    lo: Annotated[float | None, Meta(description="The lowest total, or final reward.")] = None
    hi: Annotated[float | None, Meta(description="The highest.")] = None
    step_lo: Annotated[float | None, Meta(description="The lowest payment of a step.")] = None
    step_hi: Annotated[float | None, Meta(description="The highest.")] = None
    threshold: Annotated[float | None, Meta(description="What is above it is a success.")] = None
    base: Annotated[Base | None, Meta(description="What success goes by.")] = None
    gamma: Annotated[float | None, Meta(description="By how much a later step counts less.")] = None


class CreditInput(Input, frozen=True, kw_only=True):
    uid: Annotated[str, Meta(description="The episode's uid.")]
    rule: Annotated[CreditRule, Meta(description="Who shares what it was worth.")]


class MarkIncompleteInput(Input, frozen=True, kw_only=True):
    episode: Annotated[str, Meta(description="The episode's uid.")]
    environment: Annotated[str | None, Meta(description="What pays; needed with the first step.")] = None
    task: Annotated[str | None, Meta(description="Which of its tasks it is.")] = None
    split: Annotated[str | None, Meta(description="Which part of its tasks that is of.")] = None
    variant: Annotated[str | None, Meta(description="Which variant of the environment.")] = None
    model: Annotated[str | None, Meta(description="Which model acts.")] = None
    format: Annotated[str, Meta(description="By which protocol the environment answers.")] = "armscope"


class RecordStepInput(MarkIncompleteInput, frozen=True, kw_only=True):
    number: Annotated[int | None, Meta(description="From 0 on: sent again it counts once.")] = None
    name: Annotated[str, Meta(description="The tool that was called.")] = ""
    reward: Annotated[float | None, Meta(description="What was paid; none is not 0.")] = None
    finished: Annotated[bool, Meta(description="It ended the episode.")] = False
    run: Annotated[str | None, Meta(description="The uid of the run in which it was called.")] = None
    refused: Annotated[bool, Meta(description="Nothing was done, for the episode had ended.")] = False
    note: Annotated[StepNote | None, Meta(description="Why there is no reward.")] = None
    n_chars_in: Annotated[int | None, Meta(description="Characters that were sent.")] = None
    n_chars_out: Annotated[int | None, Meta(description="Characters that were answered.")] = None
    extra: Annotated[Sequence[str], Meta(description="Members of the answer that nobody knows.")] = ()
    args_digest: Annotated[str | None, Meta(description="Tells equal arguments: 32 hexadecimal digits.")] = (
        None
    )
    meta_digest: Annotated[str | None, Meta(description="Tells equal metadata: 32 hexadecimal digits.")] = (
        None
    )
    asked: Annotated[str | None, Meta(description="What was sent, where texts are kept.")] = None
    answered: Annotated[str | None, Meta(description="What was answered, where texts are kept.")] = None


class ExportInput(Input, frozen=True, kw_only=True):
    target: Annotated[Path, Meta(description="A new file.")]
    format: Annotated[
        Literal["jsonl", "json", "csv"],
        Meta(description="jsonl: our own lines; json, csv: OpenClaw's shape, for other programs."),
    ] = "jsonl"


class TrainingInput(Input, frozen=True, kw_only=True):
    target: Annotated[Path, Meta(description="A new file.")]
    format: Annotated[TrainingFormat, Meta(description="What becomes a row.")]
    pairing: Annotated[
        Pairing, Meta(description="What a chosen and a rejected answer have in common: prompt or layer.")
    ] = "prompt"
    manifest: Annotated[bool, Meta(description="Write FILE.manifest.json beside it.")] = True
    include_reward: Annotated[bool, Meta(description="Say in each row what was judged.")] = True
    with_secrets: Annotated[bool, Meta(description="Write rows that seem to hold a secret, too.")] = False
    adapters: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
    raters: tuple[str, ...] = ()
    rubrics: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None


class SelectInput(Input, frozen=True, kw_only=True):
    arms: Annotated[Sequence[Arm] | None, Meta(description="Arms on offer; none: all known arms.")] = None
    budget_tokens: Annotated[int | None, Meta(description="Tokens; 0 = unlimited.")] = None
    k: Annotated[int | None, Meta(description="Arms at most; 0 = unlimited.")] = None


class ChangeInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Which setting.")]
    value: Annotated[Any, Meta(description="Its value.")]


class RewardOptions(Input, frozen=True, kw_only=True):
    value: Annotated[float | None, Meta(description="0 to 1; wins over the outcome.")] = None
    outcome: Annotated[RewardOutcome | None, Meta(description="1, 0.5 or 0.")] = None
    reason: Annotated[str | None, Meta(description="Why.")] = None
    run: Annotated[str | None, Meta(description="The run it is about: uid or number.")] = None
    correct: Annotated[bool, Meta(description="Replace that run's automatic reward.")] = False
    key: Annotated[str | None, Meta(description="Idempotency key: the same act sent again counts once.")] = (
        None
    )
    create: Annotated[bool, Meta(description="Make the arm if there is none.")] = False
    seen: str | msgspec.UnsetType = msgspec.UNSET


class RewardInput(RewardOptions, frozen=True, kw_only=True):
    arm: Annotated[str, Meta(description="The arm's id, type:category:name.")]


class RewardBatchInput(Input, frozen=True, kw_only=True):
    rewards: Annotated[Sequence[BatchLine], Meta(description="One for each line, up to 10,000.")]
    key: Annotated[
        str | None, Meta(description="Idempotency key: the same batch sent again counts once.")
    ] = None


class RewardRunInput(Input, frozen=True, kw_only=True):
    run: Annotated[str, Meta(description="The run whose arms are meant: uid or number.")]
    value: Annotated[float | None, Meta(description="0 to 1; wins over the outcome.")] = None
    outcome: Annotated[RewardOutcome | None, Meta(description="1, 0.5 or 0.")] = None
    reason: Annotated[str | None, Meta(description="Why.")] = None
    key: Annotated[str | None, Meta(description="Idempotency key: the same act sent again counts once.")] = (
        None
    )


class EvaluateInput(Input, frozen=True, kw_only=True):
    subject: Annotated[
        str,
        Meta(
            description="kairos://layer/UUID (?execution_id=UUID), the uid or number of a run, or an execution's uid."
        ),
    ]
    outcome: Annotated[EvaluationOutcome, Meta(description="What it came to.")]
    score: Annotated[float | None, Meta(description="0 to 1; of a failure, how sure that is.")] = None
    feedback: Annotated[str | None, Meta(description="A remark, 1 to 5,000 characters.")] = None
    rater: Annotated[str | None, Meta(description="Who judged; without a model, whoever asks.")] = None
    model: Annotated[str | None, Meta(description="With which model.")] = None
    rubric: Annotated[str | None, Meta(description="By which version of a rubric.")] = None
    arm: Annotated[str | None, Meta(description="The arm's id, where one arm of the run is judged.")] = None
    key: Annotated[str | None, Meta(description="Idempotency key: the same act sent again counts once.")] = (
        None
    )
    create: Annotated[bool, Meta(description="Make a layer or execution that nobody has named before.")] = (
        False
    )


class EvaluationsInput(Input, frozen=True, kw_only=True):
    wanted: EvaluationFilter = EvaluationFilter()
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many, the latest first.")] = 50


class AgreementInput(Input, frozen=True, kw_only=True):
    wanted: EvaluationFilter = EvaluationFilter()


class NoteInput(Input, frozen=True, kw_only=True):
    arm: Annotated[str, Meta(description="The arm's id, type:category:name.")]
    text: Annotated[str, Meta(description="What to keep about it, up to 2,000 characters.")]
    key: Annotated[str | None, Meta(description="Idempotency key: the same act sent again counts once.")] = (
        None
    )


class ResetInput(Input, frozen=True, kw_only=True):
    arms: Annotated[Sequence[str], Meta(description="These arms.")] = ()
    types: Annotated[Sequence[ArmType], Meta(description="All arms of these types.")] = ()
    target: Annotated[Target, Meta(description="Beta(1, 1), or each own prior.")] = "uniform"
    reason: Annotated[str | None, Meta(description="Why.")] = None
    seen: Annotated[int | None, Meta(description="The revision it was looked at; a later one refuses.")] = (
        None
    )
    key: Annotated[str | None, Meta(description="Sent again under it, it is done once.")] = None


class QueuesInput(Input, frozen=True, kw_only=True):
    undone: Annotated[bool, Meta(description="Those too that were taken back.")] = False


class AddQueueInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="What it is called.")]
    asks: Annotated[QueueAsks | None, Meta(description="Where its items come from.")] = None
    n_reviewers: Annotated[int, Meta(description="How many people judge each item.")] = 1
    blind: Annotated[
        bool, Meta(description="Nobody sees what others made of an item that is open to them.")
    ] = False
    rubric: Annotated[str, Meta(description="The version of the rubric that is judged by.")] = ""
    controls: Annotated[Sequence[Control], Meta(description="Items whose right answer is known.")] = ()
    control_share: Annotated[
        float,
        Meta(description="How often one of those, or an own judgement again, is given instead; 0 to 1."),
    ] = 0.0
    due_days: Annotated[int | None, Meta(description="Days after which it is overdue.")] = 7
    token: Annotated[str | None, Meta(description="What counting it answered.")] = None


class NextItemInput(Input, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(description="The queue's id or name.")]


class AddRubricInput(Input, frozen=True, kw_only=True):
    rubric: Annotated[Rubric, Meta(description="Its version, title, criteria and levels.")]


class UndoInput(Input, frozen=True, kw_only=True):
    act_id: Annotated[
        str | None,
        Meta(description="Its id, like reward-12, rewards-12 (all of its batch), reset-3, import-1, note-1."),
    ]


class VerifyInput(Input, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(description="Differences to list.")] = 100


class BackupInput(Input, frozen=True, kw_only=True):
    target: Annotated[Path, Meta(description="A new file.")]


class EraseInput(Input, frozen=True, kw_only=True):
    run: Annotated[str | None, Meta(description="A run, by uid or number.")] = None
    session: Annotated[str | None, Meta(description="All runs of a session, by its name.")] = None
    execution: Annotated[str | None, Meta(description="An execution, by uid.")] = None
    episode: Annotated[str | None, Meta(description="An episode, by uid.")] = None
    rater: Annotated[str | None, Meta(description="A person's name, which becomes a number.")] = None


# The table, in the order of the command line's help


class AddMemberInput(Input, frozen=True, kw_only=True):
    issuer: Annotated[str, Meta(description="The identity provider's own name, as its tokens say it (iss).")]
    subject: Annotated[str, Meta(description="What it knows the person by (sub).")]
    name: Annotated[str, Meta(description="What they act by: nobody else ever did.")]
    role: Annotated[PersonRole, Meta(description="What they are.")] = "viewer"
    learner: Annotated[str | None, Meta(description="In this learner only.")] = None
    email: str = ""


class InviteMemberInput(Input, frozen=True, kw_only=True):
    issuer: Annotated[str, Meta(description="The identity provider's own name, as its tokens say it (iss).")]
    email: Annotated[str, Meta(description="The address that it has verified.")]
    name: Annotated[str | None, Meta(description="What they act by; else the address.")] = None
    role: Annotated[PersonRole, Meta(description="What they are.")] = "viewer"
    learner: Annotated[str | None, Meta(description="In this learner only.")] = None


class SetRoleInput(Input, frozen=True, kw_only=True):
    member: Annotated[str, Meta(description="Their id or name.")]
    role: Annotated[PersonRole | None, Meta(description="What they are from now on; null: nothing there.")]
    learner: Annotated[str | None, Meta(description="In this learner only.")] = None


class MemberInput(Input, frozen=True, kw_only=True):
    member: Annotated[str, Meta(description="Their id or name.")]


class CreateTokenInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="The program that will use it.")]
    scopes: Annotated[Sequence[Scope], Meta(description="What it is for.")]
    learners: Annotated[Sequence[str] | None, Meta(description="In these learners only.")] = None
    days: Annotated[int, Meta(ge=1, le=MAX_DAYS, description="After how many days it ends.")] = DEFAULT_DAYS
    bridge: Annotated[bool, Meta(description="It brings messages of a chat, and says who sent them.")] = False


class RevokeTokenInput(Input, frozen=True, kw_only=True):
    token: Annotated[str, Meta(description="Its id or name.")]


class AlertsInput(Input, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1_000, description="How many, newest first.")] = 50


class AddWebhookInput(Input, frozen=True, kw_only=True):
    url: Annotated[str, Meta(description="Where to send, by https.")]
    learner: Annotated[str | None, Meta(description="Of this learner only; else of every one.")] = None
    pages: Annotated[str, Meta(description="Where its readers find the pages.")] = PAGES_AT
    secret_from: Annotated[str, Meta(description="The variable that holds its secret.")] = SECRET_FROM
    private: Annotated[bool, Meta(description="Allow http, and addresses of this network.")] = False


class RemoveWebhookInput(Input, frozen=True, kw_only=True):
    webhook: Annotated[str, Meta(description="Its id or URL.")]


class RemoveSenderInput(Input, frozen=True, kw_only=True):
    channel: Annotated[str, Meta(description="The chat, as the bridge names it.")]
    sender: Annotated[str, Meta(description="Whom the bridge names in it.")]


class AddSenderInput(RemoveSenderInput, frozen=True, kw_only=True):
    member: Annotated[str, Meta(description="The member who that is, by name.")]


class AuditInput(Input, frozen=True, kw_only=True):
    installation: Annotated[bool, Meta(description="What was done to members and tokens.")] = False
    wanted: AuditFilter = AuditFilter()
    before: Annotated[int | None, Meta(description="Where the page before says the next begins.")] = None
    limit: Annotated[int | None, Meta(description="How many (1 to 1,000), newest first; null: all.")] = 50


class DenialsInput(Input, frozen=True, kw_only=True):
    wanted: AuditFilter = AuditFilter()
    after: Annotated[Denial | None, Meta(description="The last of the page before.")] = None
    limit: Annotated[int | None, Meta(description="How many (1 to 1,000), newest first; null: all.")] = 50


VERBS: Final = (
    Verb(
        name="status",
        action="read",
        flow="core.flows.queries:status",
        words="Where the data are, and what they hold.",
    ),
    Verb(
        name="learners",
        action="read",
        flow="core.flows.learners:learners",
        words="Every learner of the database.",
        whole=True,
    ),
    Verb(
        name="create_learner",
        action="settings",
        flow="core.flows.learners:create_learner",
        input=CreateLearnerInput,
        words="Make a learner, empty.",
        example={"name": "support"},
        document="core.doors.documents:one",
        whole=True,
    ),
    Verb(
        name="posteriors",
        action="read",
        flow="core.flows.queries:judged_posteriors",
        input=PosteriorsInput,
        words="What is believed of every arm, and what is to be said of it.",
        example={"view": {"types": ["tool"]}},
    ),
    Verb(
        name="arms",
        action="read",
        flow="core.flows.queries:judged_arms",
        words="Every arm with its cost and prior, and what is to be said of it.",
    ),
    Verb(
        name="runs",
        action="read",
        flow="core.flows.queries:runs",
        input=RunsInput,
        words="The latest runs.",
        example={"limit": 10},
        document="core.doors.documents:runs",
    ),
    Verb(
        name="run",
        action="read",
        flow="core.flows.queries:run",
        input=RunInput,
        words="Why each arm was in a run's prompt or left out.",
        example={"name": "request-1"},
        document="core.doors.story:document",
    ),
    Verb(
        name="rollouts",
        action="read",
        flow="core.flows.rollouts:rollouts",
        words="Rollouts that were sent and are no episode: those that wait for their start, or can't be one.",
    ),
    Verb(
        name="traces",
        action="read",
        flow="core.flows.traces:traces",
        words="Traces that wait for their root span, became runs without it, or can't be read.",
    ),
    Verb(
        name="import",
        action="ingest",
        flow="core.flows.importing:import_files",
        input=ImportInput,
        words="Read agent transcripts; again changes nothing.",
        example={"paths": ["runs.jsonl"]},
        document="core.doors.documents:act",
    ),
    Verb(
        name="record",
        action="ingest",
        flow="core.flows.learn:record",
        input=RecordInput,
        words="Record one run; again changes nothing.",
        example={
            "run": {
                "uid": "request-2",
                "inventory": {"kind": "declared", "arms": [{"key": "tool:web:search", "token_cost": 120}]},
                "calls": [{"name": "search"}],
            },
            "ended_now": True,
        },
    ),
    Verb(
        name="record_step",
        action="ingest",
        flow="core.flows.episode:record_step",
        input=RecordStepInput,
        words="Record one answer of an environment, and what it paid.",
        example={
            "episode": "sums/2",
            "environment": "sums",
            "name": "submit",
            "reward": 1.0,
            "finished": True,
        },
    ),
    Verb(
        name="mark_incomplete",
        action="ingest",
        flow="core.flows.episode:mark_incomplete",
        input=MarkIncompleteInput,
        words="Say of an episode that not everything that was answered could be recorded.",
        example={"episode": "sums/1"},
    ),
    Verb(
        name="episodes",
        action="read",
        flow="core.flows.queries:episodes",
        input=EpisodesInput,
        words="Environments, with what their episodes were paid and how many succeeded.",
        example={"environment": "sums"},
    ),
    Verb(
        name="episode_list",
        action="read",
        flow="core.flows.queries:episode_list",
        input=EpisodeListInput,
        words="Single episodes, newest first.",
        example={"wanted": {"environment": "sums"}, "limit": 20},
    ),
    Verb(
        name="lint",
        action="read",
        flow="core.flows.queries:lint",
        input=LintInput,
        words="How environments pay, and what may be wrong with it, with the steps that show it.",
        example={"environment": "sums"},
    ),
    Verb(
        name="compare",
        action="read",
        flow="core.flows.queries:compare",
        input=CompareInput,
        words="Models on the tasks of an environment that two of them attempted.",
        example={"environment": "sums", "models": ["large", "small"]},
    ),
    Verb(
        name="episode",
        action="read",
        flow="core.flows.queries:episode",
        input=EpisodeInput,
        words="One episode, step by step.",
        example={"uid": "sums/1"},
    ),
    Verb(
        name="declare",
        action="settings",
        flow="core.flows.episode:declare",
        input=DeclareInput,
        words="Declare on what scale an environment pays.",
        example={"environment": "sums", "lo": 0, "hi": 2, "threshold": 1.5},
        document="core.doors.documents:act",
    ),
    Verb(
        name="credit_episode",
        action="credit",
        flow="core.flows.credit:credit_episode",
        input=CreditInput,
        words="Credit what an episode was worth to arms of its runs.",
        example={"uid": "sums/1", "rule": "equal"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="preview_declare",
        action="read",
        flow="core.flows.episode:preview_declare",
        input=DeclareInput,
        words="What would be a success on another scale; nothing is declared.",
        example={"environment": "sums", "lo": 0, "hi": 2, "threshold": 1.5},
    ),
    Verb(
        name="export",
        action="read",
        flow="core.flows.export:export_file",
        input=ExportInput,
        words="Write everything into a new file.",
        example={"target": "all.jsonl"},
    ),
    Verb(
        name="export_bundle",
        action="read",
        flow="core.flows.bundle:export_bundle",
        input=ExportInput,
        words="Write everything into a new zip: the export, and whose, when, how much, hashes, settings.",
        example={"target": "handover.zip"},
    ),
    Verb(
        name="export_training",
        action="export_training",
        flow="core.flows.training:export_training",
        input=TrainingInput,
        words="Write what was judged into a new file to train on, and a manifest beside it.",
        example={"target": "samples.jsonl", "format": "sft_jsonl"},
    ),
    Verb(
        name="select",
        action="select",
        flow="core.flows.select:select",
        input=SelectInput,
        words="Choose the arms of the next prompt.",
        example={"budget_tokens": 8000},
    ),
    Verb(
        name="settings",
        action="read",
        flow="core.flows.settings:in_force",
        words="The settings in force.",
    ),
    Verb(
        name="change",
        action="settings",
        flow="core.flows.settings:change",
        input=ChangeInput,
        words="Put a setting in force.",
        example={"name": "baseline_rate", "value": 0.1},
        document="core.doors.documents:act",
    ),
    Verb(
        name="reward",
        action="reward",
        flow="core.flows.reward:reward",
        input=RewardInput,
        words="Give a lagged reward by hand.",
        example={"arm": "tool:web:search", "outcome": "partial", "reason": "half an answer"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="reward_batch",
        action="reward",
        flow="core.flows.batch:reward_batch",
        input=RewardBatchInput,
        words="Give many rewards as one act: all of them or none.",
        example={
            "rewards": [
                {"arm": "tool:web:search", "value": 0.5, "run": "request-1"},
                {"arm": "tool:fs:Read", "outcome": "rejected", "reason": "wrong file"},
            ]
        },
        document="core.doors.documents:act",
    ),
    Verb(
        name="reward_run",
        action="reward",
        flow="core.flows.batch:reward_run",
        input=RewardRunInput,
        words="Give every arm of a run's prompt the same reward, as one act.",
        example={"run": "request-1", "value": 0.5},
        document="core.doors.documents:act",
    ),
    Verb(
        name="evaluate",
        action="evaluate",
        flow="core.flows.evaluate:evaluate",
        input=EvaluateInput,
        words="Judge a layer, an execution, a run, or an arm in a run.",
        example={"subject": "request-1", "outcome": "success", "score": 0.9, "rubric": "v2"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="evaluations",
        action="read",
        flow="core.flows.queries:evaluations",
        input=EvaluationsInput,
        words="The latest evaluations, with their grades and what blocks their export.",
        example={"wanted": {"outcome": "success"}, "limit": 10},
        document="core.doors.documents:evaluations",
    ),
    Verb(
        name="agreement",
        action="read",
        flow="core.flows.queries:agreement",
        input=AgreementInput,
        words="How far those who judge agree, with intervals in words.",
        example={"wanted": {"rubric": "v2"}},
        document="core.doors.documents:agreement",
    ),
    Verb(
        name="note",
        action="reward",
        flow="core.flows.note:note",
        input=NoteInput,
        words="Write a note about an arm; it moves no number.",
        example={"arm": "tool:web:search", "text": "slow on Mondays"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="reset",
        action="reset",
        flow="core.flows.reset:reset",
        input=ResetInput,
        words="Start arms again; nothing is deleted.",
        example={"types": ["tool"], "target": "prior", "reason": "detector repaired"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="queues",
        action="read",
        flow="core.flows.queues:queues",
        input=QueuesInput,
        words="Queues of what is to be judged, and how far they are.",
    ),
    Verb(
        name="add_queue",
        action="queue",
        flow="core.flows.queues:add_queue",
        input=AddQueueInput,
        words="Make a queue of what is to be judged.",
        example={"name": "Week 13", "asks": {"source": "filter"}},
        document="core.doors.documents:act",
    ),
    Verb(
        name="next_item",
        action="judge",
        flow="core.flows.review:next_item",
        input=NextItemInput,
        words="Be given the next item of a queue, and hold it for ten minutes.",
        example={"queue": "queue-1"},
    ),
    Verb(
        name="rubrics",
        action="read",
        flow="core.flows.rubrics:rubrics",
        words="Versions of the rubric that people judge by, with their levels.",
    ),
    Verb(
        name="add_rubric",
        action="queue",
        flow="core.flows.rubrics:add_rubric",
        input=AddRubricInput,
        words="Define a version of the rubric; it never changes.",
        example={"rubric": {"version": "v2", "title": "Answers"}},
        document="core.doors.documents:act",
    ),
    Verb(
        name="undo",
        action="undo_own",
        flow="core.flows.undo:undo",
        input=UndoInput,
        words="Take a reward, reset, import, setting, note or undo back.",
        example={"act_id": "reward-1"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="redo",
        action="undo_own",
        flow="core.flows.undo:redo",
        input=UndoInput,
        words="Let an undone act stand again.",
        example={"act_id": "reward-2"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="erase",
        action="erase",
        flow="core.flows.erase:erase",
        input=EraseInput,
        words="Erase what was said about a run, session, execution or episode, or a person's name, for good.",
        example={"run": "request-1"},
        document="core.doors.documents:act",
    ),
    Verb(
        name="verify",
        action="read",
        flow="core.flows.queries:verify",
        input=VerifyInput,
        words="Recompute every cache from the recorded facts, and compare.",
        document="core.doors.documents:verification",
        whole=True,
    ),
    Verb(
        name="backup",
        action="settings",
        flow="core.flows.maintenance:backup",
        input=BackupInput,
        words="Copy the database as it is at this moment, while it is in use.",
        example={"target": "copy.db"},
        whole=True,
    ),
    Verb(
        name="members",
        action="members",
        flow="core.flows.members:members",
        words="Who may sign in and as what, who is invited, and who was removed.",
        whole=True,
    ),
    Verb(
        name="add_member",
        action="members",
        flow="core.flows.members:add_member",
        input=AddMemberInput,
        words="Let a person in, by issuer and subject.",
        example={"issuer": "https://id.example.com", "subject": "u-17", "name": "kim", "role": "operator"},
        whole=True,
    ),
    Verb(
        name="invite_member",
        action="members",
        flow="core.flows.members:invite_member",
        input=InviteMemberInput,
        words="Let in whoever first signs in with a verified address, within 7 days.",
        example={"issuer": "https://id.example.com", "email": "jo@example.com", "role": "reviewer"},
        whole=True,
    ),
    Verb(
        name="set_role",
        action="members",
        flow="core.flows.members:set_role",
        input=SetRoleInput,
        words="Say what a member is, in a learner or in every one.",
        example={"member": "ann", "role": "reviewer"},
        whole=True,
    ),
    Verb(
        name="sign_out_member",
        action="members",
        flow="core.flows.members:sign_out_member",
        input=MemberInput,
        words="End every session of a member.",
        example={"member": "ann"},
        whole=True,
    ),
    Verb(
        name="senders",
        action="members",
        flow="core.flows.bridges:senders",
        words="Which member speaks in a chat as whom.",
        whole=True,
    ),
    Verb(
        name="add_sender",
        action="members",
        flow="core.flows.bridges:add_sender",
        input=AddSenderInput,
        words="Say which member is whom in a chat, for tokens that are bridges.",
        example={"member": "ann", "channel": "slack", "sender": "U018"},
        whole=True,
    ),
    Verb(
        name="remove_sender",
        action="members",
        flow="core.flows.bridges:remove_sender",
        input=RemoveSenderInput,
        words="Let nobody be that any more.",
        example={"channel": "slack", "sender": "U017"},
        whole=True,
    ),
    Verb(
        name="remove_member",
        action="members",
        flow="core.flows.members:remove_member",
        input=MemberInput,
        words="Let a member in no longer, and revoke the tokens they made.",
        example={"member": "ann"},
        whole=True,
    ),
    Verb(
        name="tokens",
        action="members",
        flow="core.flows.tokens:tokens",
        words="Every token there ever was, without its secret.",
        whole=True,
    ),
    Verb(
        name="create_token",
        action="members",
        flow="core.flows.tokens:create_token",
        input=CreateTokenInput,
        words="Make a token for a program; its secret is told this once.",
        example={"name": "ci-support", "scopes": ["ingest"], "learners": ["default"]},
        whole=True,
    ),
    Verb(
        name="revoke_token",
        action="members",
        flow="core.flows.tokens:revoke_token",
        input=RevokeTokenInput,
        words="End a token at once, and for good.",
        example={"token": "old"},
        whole=True,
    ),
    Verb(
        name="alerts",
        action="alerts",
        flow="core.flows.alerts:alerts",
        input=AlertsInput,
        words="Who is told when something is wrong, and what was.",
        whole=True,
    ),
    Verb(
        name="add_webhook",
        action="alerts",
        flow="core.flows.webhooks:add_webhook",
        input=AddWebhookInput,
        words="Tell an address when something is wrong.",
        example={"url": "https://hooks.example/armscope", "learner": "default"},
        whole=True,
    ),
    Verb(
        name="remove_webhook",
        action="alerts",
        flow="core.flows.webhooks:remove_webhook",
        input=RemoveWebhookInput,
        words="Tell an address nothing any more.",
        example={"webhook": "webhook-1"},
        whole=True,
    ),
    Verb(
        name="audit",
        action="members",
        flow="core.flows.audit:audit",
        input=AuditInput,
        words="Who did what, at a learner or to members and tokens.",
        example={"wanted": {"action": "reward"}, "limit": 10},
        whole=True,
    ),
    Verb(
        name="denials",
        action="members",
        flow="core.flows.audit:denials",
        input=DenialsInput,
        words="What was refused to whom, added up by minute.",
        whole=True,
    ),
)

_BY_NAME: Final = {one.name: one for one in VERBS}


def find_verb(name: str) -> Verb | None:
    """The verb of that name, None where there is none."""
    return _BY_NAME.get(name)


def verb(name: str) -> Verb:
    """The verb of that name; raises `InvalidInput` where there is none."""
    found = find_verb(name)
    if found is None:
        raise InvalidInput(
            f"A verb must be one of {', '.join(_BY_NAME)}, got {name[:60]!r}.",
            next_step="Call one of those; nothing was done.",
        )
    return found
