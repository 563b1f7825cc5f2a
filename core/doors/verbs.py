"""Verbs: the operations on a learner, by name, in one table that every door reads.

A row holds the action that the caller needs, the flow and an example. The flow's name, signature and docstring
define the name, the parameters and the words of the verb. Operations on the file itself (doctor, restore, upgrade)
and operations that need a dashboard are commands and no verbs.

>>> verb("note").action, verb("note").words
('reward', 'Write a note about an arm; it moves no number.')
>>> verb("note").decode({"arm": "tool:fs:Read", "text": "slow"})
NoteInput(arm='tool:fs:Read', text='slow', key=None)
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import MethodType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import UNSET

from core.doors.flow_parameters import answer_of, parameters_of, words_of
from core.doors.terminal import json_form
from core.errors import ArmscopeError, InvalidInput
from core.names import homes_in
from core.records.actor import Action
from core.records.misfits import misfit
from core.records.observation import value_of

if TYPE_CHECKING:
    from core.flows.alerts import alerts
    from core.flows.audit import audit, denials
    from core.flows.batch import reward_batch, reward_run
    from core.flows.bundle import export_bundle
    from core.flows.compact import compact
    from core.flows.context import Context
    from core.flows.corrections import note, redo, repair, reset, undo
    from core.flows.credit import credit_episode
    from core.flows.episode import declare, mark_incomplete, preview_declare, record_step
    from core.flows.erase import erase
    from core.flows.evaluate import evaluate
    from core.flows.experiments import (
        experiment_result,
        experiments,
        plan_experiment,
        share_experiment,
        start_experiment,
        stop_experiment,
    )
    from core.flows.export import export_file
    from core.flows.importing.files import import_files
    from core.flows.inventory import carried
    from core.flows.learn import record, reward
    from core.flows.learners import create_learner, learners
    from core.flows.maintenance import backup
    from core.flows.members import (
        add_member,
        add_sender,
        invite_member,
        members,
        remove_member,
        remove_sender,
        senders,
        set_role,
        sign_out_member,
    )
    from core.flows.outcome import outcome, outcomes
    from core.flows.queries.arm import arm_versions
    from core.flows.queries.environments import compare, lint
    from core.flows.queries.episodes import episode, episode_list, episodes
    from core.flows.queries.evaluations import agreement, evaluations
    from core.flows.queries.judgement import judged_arms, judged_posteriors, judgements
    from core.flows.queries.ledger import changes, rewards
    from core.flows.queries.run import run
    from core.flows.queries.runs import runs, session, sessions
    from core.flows.queries.savings import savings
    from core.flows.queries.search import search
    from core.flows.queries.sides import compare_sides
    from core.flows.queries.status import status
    from core.flows.queries.verify import verify
    from core.flows.queues import add_queue, add_rubric, browsers, confirm_browser, queues, rubrics
    from core.flows.review import next_item
    from core.flows.rollouts import rollouts
    from core.flows.select import select
    from core.flows.settings import accept_price, change, in_force
    from core.flows.tokens import create_token, revoke_token, tokens
    from core.flows.traces import traces
    from core.flows.training import export_training
    from core.flows.trials.plan import plan_trial, read_trial, trial_result, trials
    from core.flows.webhooks import add_webhook, remove_webhook
    from core.frames import RowList, RowTuple
else:  # a flow is imported when it is called: until then its name is its address
    _FLOWS = homes_in(Path(__file__).read_text(encoding="utf-8"))
    globals().update(
        {
            name: f"{module}:{flow}"
            for name, (module, flow) in _FLOWS.items()
            if module.startswith("core.flows.")
        }
    )

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
_ACTS: Final = frozenset({"credit", "erase", "evaluate", "queue", "reset", "reward", "settings", "undo_own"})
"""Actions whose answers are documents with their learner."""
_INPUTS: Final[Mapping[str, str]] = {
    "credit_episode": "CreditInput",
    "export_training": "TrainingInput",
    "preview_declare": "DeclareInput",
    "redo": "UndoInput",
}
"""Names of inputs in published schemas that do not follow from the verb's name."""

SCORED: Final = frozenset(("reward", "reward_run"))

RECORDS: Final = "records/"
"""Beginning of the routes of verbs that are read."""
PAGING: Final = ("limit", "cursor", "direction")
_IN_MS: Final = ("since_ms", "until_ms")
"""Fields of filters that a query has days for."""


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a verb's flow that a caller elsewhere can pass."""


class Learning:
    """A learner whose methods call verbs."""

    @classmethod
    @abstractmethod
    def _method(cls, operation: Verb[..., Any]) -> Callable[..., Any]:
        """Return the method that calls a verb."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the learner."""

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to another process: the connections and threads are of this one."""
        raise InvalidInput(
            f"Another process must open its own learner, got the {type(self).__name__} {self.name!r} of this one.",
            next_step="Open it there, with open_learner(PATH) or Client(URL).",
        )


class Blocking(Learning):
    """A learner whose methods return the answers."""


class Awaited(Learning):
    """A learner whose methods are awaited."""


class Verb(msgspec.Struct, Generic[_P, _R], frozen=True, eq=False):
    """One row of the table, and the method of learners that calls it.

    ``flow`` is a function. At run time it is its ``address``, ``module:function``: the function is imported when the
    verb is called, so that a command line starts fast. So is the function ``document`` of `core.doors`; without one,
    the answer of an act gets its learner. ``whole``: the verb concerns the full database and needs no learner.
    ``example`` is a valid request. ``route`` is its path below a learner over HTTP, with the first parameter in
    braces. A path below ``records`` is for reading. "" means that no server offers the verb.
    """

    action: Action
    flow: Callable[Concatenate[Context, _P], _R]
    example: Mapping[str, object] = {}
    document: str = ""
    whole: bool = False
    route: str = ""
    name: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidInput(
                f"The action of a verb must be one of {', '.join(ACTIONS)}, got {self.action!r}.",
                next_step="Choose the action that a caller of the verb needs; core/records/actor.py lists them.",
            )
        if not self.document:
            is_act = self.action in _ACTS and not self.whole
            msgspec.structs.force_setattr(self, "document", "documents:act" if is_act else "verbs:unchanged")
        msgspec.structs.force_setattr(self, "address", self.flow)

    def __set_name__(self, table: type, name: str) -> None:
        msgspec.structs.force_setattr(self, "name", outside(name))

    @overload
    def __get__(
        self: Verb[_P, list[_T]], learner: Awaited, kind: type
    ) -> Callable[_P, Coroutine[Any, Any, RowList[_T]]]: ...

    @overload
    def __get__(
        self: Verb[_P, tuple[_T, ...]], learner: Awaited, kind: type
    ) -> Callable[_P, Coroutine[Any, Any, RowTuple[_T]]]: ...

    @overload
    def __get__(self, learner: Awaited, kind: type) -> Callable[_P, Coroutine[Any, Any, _R]]: ...

    @overload
    def __get__(self: Verb[_P, list[_T]], learner: Blocking, kind: type) -> Callable[_P, RowList[_T]]: ...

    @overload
    def __get__(
        self: Verb[_P, tuple[_T, ...]], learner: Blocking, kind: type
    ) -> Callable[_P, RowTuple[_T]]: ...

    @overload
    def __get__(self, learner: Blocking, kind: type) -> Callable[_P, _R]: ...

    @overload
    def __get__(self, learner: object, kind: type) -> Self: ...

    def __get__(self, learner: object, kind: type) -> Any:
        """Return the method of a learner, or of its class; the table has the verb itself."""
        if not issubclass(kind, Learning):
            return self
        method = kind._method(self)
        return method if learner is None else MethodType(method, learner)

    @property
    def words(self) -> str:
        """The first line of its flow's docstring."""
        return words_of(self.address).partition("\n")[0]

    @property
    def is_act(self) -> bool:
        """True if the answer names an act and its learner."""
        return self.document.endswith(":act")

    @property
    def input(self) -> type[Input]:
        """The record of its parameters, derived from the signature of its flow."""
        return _input_of(self.name, self.address)

    @property
    def answer(self) -> type[_R]:
        """The return type of its flow."""
        return cast("type[_R]", answer_of(self.address))

    @property
    def function(self) -> Callable[Concatenate[Context, _P], _R]:
        return cast("Callable[Concatenate[Context, _P], _R]", resolve_name(self.address))

    @property
    def bound(self) -> dict[str, str]:
        """The parameter that its route has in the path, if any, and its name there."""
        names = re.findall(r"{(\w+)}", self.route)
        return dict(zip(parameters_of(self.address), names, strict=False))

    @property
    def fields(self) -> dict[str, dict[str, Any]]:
        """The JSON schemas of its fields, by name."""
        _, components = msgspec.json.schema_components([self.input])
        fields: dict[str, dict[str, Any]] = components[self.input.__name__]["properties"]
        return fields

    def decode(self, document: object, *, strict: bool = True) -> Input:
        """Convert a request to the verb's input; raises `InvalidInput` for an invalid one.

        A request that is not ``strict`` has every value as text, as a query has.
        """
        try:
            request: Input = msgspec.convert(document, self.input, dec_hook=_path, strict=strict)
        except msgspec.ValidationError as problem:
            own = problem.__cause__
            if isinstance(own, ArmscopeError):  # the message of an own record is complete
                raise own from problem
            fields = ", ".join(self.input.__struct_encode_fields__) or "none"
            raise InvalidInput(
                f"The request of {self.name} must have fields of these names ({fields}) and their types: "
                f"{misfit(problem, document)}{allowed_at(self.input, str(problem))}.",
                next_step=f"Send it like {msgspec.json.encode(self.example).decode()}; nothing was done.",
            ) from problem
        if self.name in SCORED and isinstance(document, Mapping) and None in document.values():
            value_of(document.get("value", UNSET), document.get("outcome", UNSET))
        return request

    def filtered(self, filters: Mapping[str, object], *, strict: bool = True) -> Input:
        """Convert the filters of a list to the verb's input; those of its record ``wanted`` are beside the others.

        >>> verb("evaluations").filtered({"since": "0", "rater": "mara"}).wanted.rater
        'mara'
        """
        _, names = query_fields(self.input)
        record = {name: value for name, value in filters.items() if name in names}
        fields = {name: value for name, value in filters.items() if name not in names}
        return self.decode({**fields, "wanted": record} if record else fields, strict=strict)

    def call(self, context: Context, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the flow.

        Raises `Denied` where the role of the actor does not include the verb's action, and the errors of the flow.
        """
        if not self.whole:  # a flow of the full database decides itself: it lists the readable learners
            context.permit(self.action)
        return self.function(context, *args, **kwargs)

    def respond(self, context: Context, request: Input, /, **arguments: object) -> _R:
        """Call the flow as `call` does, with the fields of a request and with further arguments."""
        if not self.whole:
            context.permit(self.action)
        function: Callable[..., _R] = self.function
        return function(
            context, **{name: getattr(request, name) for name in request.__struct_fields__}, **arguments
        )

    def plain(self, context: Context, answer: object) -> object:
        """Return an answer as JSON-serialisable values."""
        return msgspec.to_builtins(
            resolve_name(f"core.doors.{self.document}")(context, answer), enc_hook=json_form
        )

    @property
    def answered(self) -> Any:  # noqa: ANN401 - a type
        """The type of its JSON document: as its document function states, else the answer of its flow."""
        function = resolve_name(f"core.doors.{self.document}")
        returned = SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
        stated = get_type_hints(returned, function.__globals__, include_extras=True)["return"]
        if stated is not object:
            return stated
        answer: Any = self.answer
        return _with_learner(answer) if self.is_act else answer


def unchanged(context: Context, answer: object) -> object:  # noqa: ARG001 - all documents have one signature
    """Return the answer as it is."""
    return answer


@cache
def _input_of(name: str, flow: str) -> type[Input]:
    camel = "".join(part.capitalize() for part in name.split("_"))
    fields = tuple((field, *one) for field, one in parameters_of(flow).items())
    return _input(_INPUTS.get(name, f"{camel}Input"), fields)


@cache
def _input(name: str, fields: tuple[tuple[str, Any, Any], ...]) -> type[Input]:
    """Return the record with this name and these fields; verbs with equal ones share it."""
    kind: type[Any] = msgspec.defstruct(
        name,
        [(field, _json_type(kind), default) for field, kind, default in fields],
        bases=(Input,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        rename=outside,
    )
    return kind


def outside(name: str) -> str:
    """Return a parameter's name outside Python, where no name needs an underscore at its end.

    >>> outside("class_"), outside("limit")
    ('class', 'limit')
    """
    return name.rstrip("_")


def query_fields(kind: type[Input]) -> tuple[list[str], list[str]]:
    """Return the names that a list's query takes of a verb's input, and of the filter ``wanted`` in it."""
    types = {one.encode_name: one.type for one in msgspec.structs.fields(kind)}
    record = next((one for one in get_args(types.get("wanted")) if isinstance(one, type)), None)
    filters = [] if record is None else [one.encode_name for one in msgspec.structs.fields(record)]
    return (
        [name for name in types if name not in {*PAGING, "wanted", "view"}],
        [name for name in filters if name not in _IN_MS],
    )


def grouped(fields: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Return fields by name; a name that comes again has a list.

    >>> grouped([("model", "large"), ("class", "baseline"), ("class", "selected")])
    {'model': 'large', 'class': ['baseline', 'selected']}
    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name: several[0] if len(several) == 1 else several for name, several in values.items()}


def allowed_at(kind: type[Input], problem: str) -> str:
    """Return the allowed values of the field that a problem names; "" where any text is."""
    match = re.search(r"`\$\.(\w+)", problem)
    types = {one.encode_name: one.type for one in msgspec.structs.fields(kind)}
    values = _literals(types.get(match[1])) if match and "enum value" in problem else {}
    return f"; allowed are {', '.join(values)}" if values else ""


def _literals(kind: object) -> dict[str, None]:
    if get_origin(kind) is Literal:
        return dict.fromkeys(map(str, get_args(kind)))
    return {value: None for part in get_args(kind) for value in _literals(part)}


@cache
def _with_learner(kind: Any) -> Any:  # noqa: ANN401 - a type
    """Return the record of an act's answer with its learner, by a name of its own."""
    name, more = f"{kind.__name__.removesuffix('Answer')}Act", {"__doc__": kind.__doc__}
    fields = [] if "learner" in kind.__struct_fields__ else [("learner", str)]
    return msgspec.defstruct(name, fields, bases=(kind,), namespace=more, frozen=True, kw_only=True)


def _json_type(kind: Any) -> Any:  # noqa: ANN401 - a type with its description
    inner, *words = get_args(kind)
    return Annotated[Any, *words] if inner is object else kind


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `str`, got `{type(value).__name__}`")


class Methods:
    """Verbs whose method of a learner is their flow, without its context."""

    learners = Verb("read", learners, route="records/learners", whole=True)
    create_learner = Verb(
        "settings", create_learner, example={"name": "support"}, document="documents:one", whole=True
    )
    posteriors = Verb(
        "read", judged_posteriors, route="records/posteriors", example={"view": {"types": ["tool"]}}
    )
    arms = Verb("read", judged_arms, route="records/arms")
    versions = Verb(
        "read", arm_versions, route="records/arms/{arm}/versions", example={"arm": "tool:web:search"}
    )
    compare_sides = Verb(
        "read",
        compare_sides,
        route="records/compare_sides",
        example={"a": {"model": "large"}, "b": {"model": "small"}},
    )
    runs = Verb(
        "read",
        runs,
        route="records/runs",
        example={"model": "gpt-4.1", "class": ["baseline", "selected"], "limit": 10},
        document="documents:runs",
    )
    sessions = Verb(
        "read",
        sessions,
        route="records/sessions",
        example={"model": "gpt-4.1", "limit": 10},
        document="documents:sessions",
    )
    session = Verb(
        "read",
        session,
        route="records/sessions/{session}",
        example={"name": "chat-3004"},
        document="documents:session",
    )
    rollouts = Verb("read", rollouts, route="records/rollouts")
    traces = Verb("read", traces, route="records/traces")
    record_step = Verb(
        "ingest",
        record_step,
        route="steps",
        example={
            "episode": "sums/2",
            "environment": "sums",
            "name": "submit",
            "reward": 1.0,
            "finished": True,
        },
    )
    mark_incomplete = Verb(
        "ingest", mark_incomplete, route="episodes:incomplete", example={"episode": "sums/1"}
    )
    episodes = Verb("read", episodes, route="records/episodes", example={"environment": "sums"})
    episode_list = Verb("read", episode_list, example={"wanted": {"environment": "sums"}, "limit": 20})
    lint = Verb("read", lint, route="records/lint", example={"environment": "sums"})
    episode = Verb("read", episode, route="records/episodes/{episode}", example={"uid": "sums/1"})
    declare = Verb(
        "settings",
        declare,
        route="scales",
        example={"environment": "sums", "lo": 0, "hi": 2, "threshold": 1.5},
    )
    credit_episode = Verb(
        "credit", credit_episode, route="credits", example={"uid": "sums/1", "rule": "equal"}
    )
    preview_declare = Verb(
        "read", preview_declare, example={"environment": "sums", "lo": 0, "hi": 2, "threshold": 1.5}
    )
    export_bundle = Verb("read", export_bundle, example={"target": "handover.zip"})
    accept_price = Verb(
        "settings", accept_price, route="settings:accept-price", example={"model": "large-20260401"}
    )
    change = Verb(
        "settings", change, route="settings/{setting}", example={"name": "baseline_rate", "value": 0.1}
    )
    reward = Verb(
        "reward",
        reward,
        route="rewards",
        example={"arm": "tool:web:search", "outcome": "partial", "reason": "half an answer"},
    )
    reward_run = Verb("reward", reward_run, route="rewards", example={"run": "request-1", "value": 0.5})
    evaluate = Verb(
        "evaluate",
        evaluate,
        route="evaluations",
        example={"subject": "request-1", "outcome": "success", "score": 0.9, "rubric": "v2"},
    )
    evaluations = Verb(
        "read",
        evaluations,
        route="records/evaluations",
        example={"wanted": {"outcome": "success"}, "limit": 10},
        document="documents:evaluations",
    )
    agreement = Verb(
        "read",
        agreement,
        route="records/agreement",
        example={"wanted": {"rubric": "v2"}},
        document="documents:agreement",
    )
    carried = Verb("read", carried, route="records/carried", example={"limit": 1})
    search = Verb("read", search, route="records/search", example={"words": "request-1", "limit": 5})
    outcome = Verb(
        "ingest",
        outcome,
        route="runs/{uid}/outcome",
        example={"run": "request-1", "value": 1.0},
        document="documents:act",
    )
    plan_trial = Verb(
        "ingest",
        plan_trial,
        route="trials",
        example={"arm": "tool:web:search", "tasks": [{"name": "sums"}, {"name": "dates"}], "smallest": 10.0},
        document="documents:act",
    )
    read_trial = Verb(
        "ingest",
        read_trial,
        route="trials/results",
        example={
            "results": {
                "source": "armscope-trial",
                "arm": "tool:web:search",
                "cells": [
                    {"task": "sums", "repeat": 1, "side": "with", "grade": 1.0},
                    {"task": "sums", "repeat": 1, "side": "without", "grade": 0.0},
                ],
            }
        },
        document="documents:act",
    )
    trials = Verb("read", trials, route="records/trials")
    trial_result = Verb("read", trial_result, route="records/trials/{trial}", example={"trial": "trial-1"})
    plan_experiment = Verb(
        "read", plan_experiment, route="records/experiment-plans/{arm}", example={"arm": "tool:web:search"}
    )
    start_experiment = Verb(
        "settings",
        start_experiment,
        route="experiments",
        example={"arm": "tool:web:search", "metric": "tokens", "preview": True},
    )
    share_experiment = Verb(
        "settings",
        share_experiment,
        route="experiments/{experiment}/share",
        example={"experiment": "experiment-1", "share": 0.2},
    )
    stop_experiment = Verb(
        "settings",
        stop_experiment,
        route="experiments/{experiment}/stop",
        example={"experiment": "experiment-1", "decision": "keep"},
    )
    experiments = Verb("read", experiments, route="records/experiments")
    experiment_result = Verb(
        "read",
        experiment_result,
        route="records/experiments/{experiment}",
        example={"experiment": "experiment-1"},
    )
    note = Verb("reward", note, route="notes", example={"arm": "tool:web:search", "text": "slow on Mondays"})
    repair = Verb(
        "reset",
        repair,
        route="repairs",
        example={"arms": ["tool:web:search"], "since": "2026-01-31T08:00:00Z", "reason": "detector repaired"},
    )
    queues = Verb("read", queues)
    add_queue = Verb("queue", add_queue, example={"name": "Week 13", "asks": {"source": "filter"}})
    next_item = Verb("judge", next_item, example={"queue": "queue-1"})
    rubrics = Verb("read", rubrics)
    add_rubric = Verb("queue", add_rubric, example={"rubric": {"version": "v2", "title": "Answers"}})
    browsers = Verb("read", browsers, route="records/browsers")
    confirm_browser = Verb("queue", confirm_browser, route="browsers", example={"browser": "kim 3f2a91"})
    undo = Verb("undo_own", undo, route="undo", example={"act_id": "reward-1"})
    redo = Verb("undo_own", redo, route="redo", example={"act_id": "reward-2"})
    compact = Verb("erase", compact, route="compactions", example={"keep_days": 365})
    verify = Verb("read", verify, route="records/verify", document="documents:verification", whole=True)
    members = Verb("members", members, whole=True)
    add_member = Verb(
        "members",
        add_member,
        example={"issuer": "https://id.example.com", "subject": "u-17", "name": "kim", "role": "operator"},
        whole=True,
    )
    invite_member = Verb(
        "members",
        invite_member,
        example={"issuer": "https://id.example.com", "email": "jo@example.com", "role": "reviewer"},
        whole=True,
    )
    set_role = Verb("members", set_role, example={"member": "ann", "role": "reviewer"}, whole=True)
    sign_out_member = Verb("members", sign_out_member, example={"member": "ann"}, whole=True)
    senders = Verb("members", senders, whole=True)
    add_sender = Verb(
        "members", add_sender, example={"member": "ann", "channel": "slack", "sender": "U018"}, whole=True
    )
    remove_sender = Verb("members", remove_sender, example={"channel": "slack", "sender": "U017"}, whole=True)
    remove_member = Verb("members", remove_member, example={"member": "ann"}, whole=True)
    tokens = Verb("members", tokens, whole=True)
    create_token = Verb(
        "members",
        create_token,
        example={"name": "ci-support", "scopes": ["ingest"], "learners": ["default"]},
        whole=True,
    )
    revoke_token = Verb("members", revoke_token, example={"token": "old"}, whole=True)
    alerts = Verb("alerts", alerts, whole=True)
    add_webhook = Verb(
        "alerts",
        add_webhook,
        example={"url": "https://hooks.example/armscope", "learner": "default"},
        whole=True,
    )
    remove_webhook = Verb("alerts", remove_webhook, example={"webhook": "webhook-1"}, whole=True)
    audit = Verb("members", audit, example={"wanted": {"action": "reward"}, "limit": 10}, whole=True)
    denials = Verb("members", denials, whole=True)
    judgements = Verb("read", judgements, route="records/judgements", example={"view": {"types": ["tool"]}})
    savings = Verb("read", savings, route="records/savings", document="story:savings")
    ledger = Verb("read", rewards, route="records/ledger", example={"limit": 10})
    acts = Verb("read", changes, route="records/acts", example={"limit": 10})


class Verbs(Methods):
    """All verbs. For those below, `LearnerProtocol` has a method that takes what is handy in Python."""

    status = Verb("read", status, route="records/status")
    run = Verb(
        "read", run, route="records/runs/{uid}", example={"name": "request-1"}, document="story:document"
    )
    import_ = Verb("ingest", import_files, example={"paths": ["runs.jsonl"]}, document="documents:act")
    record = Verb(
        "ingest",
        record,
        route="runs",
        example={
            "run": {
                "uid": "request-2",
                "inventory": {"kind": "declared", "arms": [{"key": "tool:web:search", "token_cost": 120}]},
                "calls": [{"name": "search"}],
            },
            "ended_now": True,
        },
    )
    compare = Verb(
        "read",
        compare,
        route="records/environments/{environment}/models",
        example={"environment": "sums", "models": ["large", "small"]},
    )
    export = Verb("read", export_file, example={"target": "all.jsonl"})
    export_training = Verb(
        "export_training", export_training, example={"target": "samples.jsonl", "format": "sft_jsonl"}
    )
    select = Verb("select", select, route="select", example={"budget_tokens": 8000})
    settings = Verb("read", in_force, route="records/settings")
    reward_batch = Verb(
        "reward",
        reward_batch,
        route="rewards:together",
        example={
            "rewards": [
                {"arm": "tool:web:search", "value": 0.5, "run": "request-1"},
                {"arm": "tool:fs:Read", "outcome": "rejected", "reason": "wrong file"},
            ]
        },
    )
    outcomes = Verb(
        "ingest",
        outcomes,
        route="runs:outcomes",
        example={"rows": [{"run": "request-1", "value": 0.5}]},
        document="documents:act",
    )
    reset = Verb(
        "reset",
        reset,
        route="resets",
        example={"types": ["tool"], "target": "prior", "reason": "detector repaired"},
    )
    erase = Verb("erase", erase, route="erasures", example={"run": "request-1"})
    backup = Verb("settings", backup, example={"target": "copy.db"}, whole=True)


REPORTS: Final = (Methods.judgements, Methods.savings, Methods.ledger, Methods.acts)
"""Verbs that only clients have: no command and no document for people is made of them."""
_ALL: Final = tuple(one for kind in (Methods, Verbs) for one in vars(kind).values() if isinstance(one, Verb))
VERBS: Final = tuple(one for one in _ALL if one not in REPORTS)
_BY_NAME: Final = {one.name: one for one in _ALL}


def find_verb(name: str) -> Verb[..., Any] | None:
    """Return the verb of that name, or None."""
    return _BY_NAME.get(name)


def verb(name: str) -> Verb[..., Any]:
    """Return the verb of that name; raises `InvalidInput` for an unknown one."""
    match = find_verb(name)
    if match is None:
        raise InvalidInput(
            f"A verb must be one of {', '.join(_BY_NAME)}, got {name[:60]!r}.",
            next_step="Call one of those; nothing was done.",
        )
    return match
