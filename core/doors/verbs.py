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
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from core.doors.signatures import parameters_of, summary_of
from core.doors.terminal import json_form
from core.errors import ArmscopeError, InvalidInput
from core.records.actor import Action
from core.records.misfits import misfit
from core.records.observation import value_of

if TYPE_CHECKING:
    from core.flows.context import Context

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
_INPUTS: Final[Mapping[str, str]] = {
    "credit_episode": "CreditInput",
    "export_training": "TrainingInput",
    "preview_declare": "DeclareInput",
    "redo": "UndoInput",
}
"""Names of inputs in published schemas that do not follow from the verb's name."""


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a verb's flow that a caller elsewhere can pass."""


class Verb(msgspec.Struct, frozen=True):
    """One row of the table.

    Its name is that of its flow's function, unless the row has another one. ``flow`` and ``document`` name functions
    as ``module:function``. They are imported when the verb is called, so that a command line starts fast. ``whole``:
    the verb concerns the full database and needs no learner. ``example`` is a valid request.
    """

    action: Action
    flow: str
    name: str = ""
    example: Mapping[str, object] = {}
    document: str = "core.doors.verbs:unchanged"
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            msgspec.structs.force_setattr(self, "name", self.flow.partition(":")[2])
        if self.action not in ACTIONS:
            raise InvalidInput(
                f"The action of verb {self.name!r} must be one of {', '.join(ACTIONS)}, got {self.action!r}.",
                next_step="Choose the action that a caller of the verb needs; core/records/actor.py lists them.",
            )

    @property
    def words(self) -> str:
        """The first line of its flow's docstring."""
        return summary_of(self.flow)

    @property
    def input(self) -> type[Input]:
        """The record of its parameters, derived from the signature of its flow."""
        return _input_of(self.name, self.flow)

    @property
    def answer(self) -> object:
        """The return type of its flow."""
        return get_type_hints(self.function)["return"]

    @property
    def function(self) -> Callable[..., Any]:
        """Return the flow of the verb."""
        function: Callable[..., Any] = resolve_name(self.flow)
        return function

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
        if self.name in _SCORED and isinstance(document, Mapping) and None in document.values():
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

    def call(self, context: Context, request: Input | None = None, /, **arguments: object) -> Any:  # noqa: ANN401
        """Call the flow with the fields of a request and with further arguments, such as ``progress``.

        Raises `Denied` where the role of the actor does not include the verb's action, and the errors of the flow.
        """
        if not self.whole:  # a flow of the full database decides itself: it lists the readable learners
            context.permit(self.action)
        fields = () if request is None else request.__struct_fields__
        return self.function(context, **{name: getattr(request, name) for name in fields}, **arguments)

    def plain(self, context: Context, answer: object) -> object:
        """Return an answer as JSON-serialisable values."""
        return msgspec.to_builtins(resolve_name(self.document)(context, answer), enc_hook=json_form)

    @property
    def answered(self) -> Any:  # noqa: ANN401 - a type
        """The type of its JSON document: as its document function states, else the answer of its flow."""
        function = resolve_name(self.document)
        returned = SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
        stated = get_type_hints(returned, function.__globals__, include_extras=True)["return"]
        if stated is not object:
            return stated
        return _with_learner(self.answer) if self.document.endswith(":act") else self.answer


def unchanged(context: Context, answer: object) -> object:  # noqa: ARG001 - all documents have one signature
    """Return the answer as it is."""
    return answer


_SCORED: Final = frozenset(("reward", "reward_run"))


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


PAGING: Final = ("limit", "cursor", "direction")
_IN_MS: Final = ("since_ms", "until_ms")
"""Fields of filters that a query has days for."""


def query_fields(kind: type[Input]) -> tuple[list[str], list[str]]:
    """Return the names that a list's query takes of a verb's input, and of the filter ``wanted`` in it."""
    types = {one.encode_name: one.type for one in msgspec.structs.fields(kind)}
    record = next((one for one in get_args(types.get("wanted")) if isinstance(one, type)), None)
    filters = [] if record is None else [one.encode_name for one in msgspec.structs.fields(record)]
    return (
        [name for name in types if name not in {*PAGING, "wanted", "view"}],
        [name for name in filters if name not in _IN_MS],
    )


def allowed_at(kind: type[Input], problem: str) -> str:
    """Return the allowed values of the field that a problem names; "" where any text is."""
    match = re.search(r"`\$\.(\w+)", problem)
    types = {one.encode_name: one.type for one in msgspec.structs.fields(kind)}
    values = _literals(types.get(match[1])) if match and "enum value" in problem else {}
    return f"; allowed are {', '.join(values)}" if values else ""


def _literals(kind: object) -> dict[str, None]:
    """Return the values of every `Literal` in a type, in order."""
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


VERBS: Final = (
    Verb("read", "core.flows.queries.status:status"),
    Verb("read", "core.flows.learners:learners", whole=True),
    Verb(
        "settings",
        "core.flows.learners:create_learner",
        example={"name": "support"},
        document="core.doors.documents:one",
        whole=True,
    ),
    Verb(
        "read",
        "core.flows.queries.judgement:judged_posteriors",
        name="posteriors",
        example={"view": {"types": ["tool"]}},
    ),
    Verb("read", "core.flows.queries.judgement:judged_arms", name="arms"),
    Verb("read", "core.flows.queries.arm:arm_versions", name="versions", example={"arm": "tool:web:search"}),
    Verb(
        "read",
        "core.flows.queries.sides:compare_sides",
        example={"a": {"model": "large"}, "b": {"model": "small"}},
    ),
    Verb(
        "read",
        "core.flows.queries.runs:runs",
        example={"model": "gpt-4.1", "class": ["baseline", "selected"], "limit": 10},
        document="core.doors.documents:runs",
    ),
    Verb(
        "read",
        "core.flows.queries.run:run",
        example={"name": "request-1"},
        document="core.doors.story:document",
    ),
    Verb(
        "read",
        "core.flows.queries.runs:sessions",
        example={"model": "gpt-4.1", "limit": 10},
        document="core.doors.documents:sessions",
    ),
    Verb(
        "read",
        "core.flows.queries.runs:session",
        example={"name": "chat-3004"},
        document="core.doors.documents:session",
    ),
    Verb("read", "core.flows.rollouts:rollouts"),
    Verb("read", "core.flows.traces:traces"),
    Verb(
        "ingest",
        "core.flows.importing.files:import_files",
        name="import",
        example={"paths": ["runs.jsonl"]},
        document="core.doors.documents:act",
    ),
    Verb(
        "ingest",
        "core.flows.learn:record",
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
        "ingest",
        "core.flows.episode:record_step",
        example={
            "episode": "sums/2",
            "environment": "sums",
            "name": "submit",
            "reward": 1.0,
            "finished": True,
        },
    ),
    Verb("ingest", "core.flows.episode:mark_incomplete", example={"episode": "sums/1"}),
    Verb("read", "core.flows.queries.episodes:episodes", example={"environment": "sums"}),
    Verb(
        "read",
        "core.flows.queries.episodes:episode_list",
        example={"wanted": {"environment": "sums"}, "limit": 20},
    ),
    Verb("read", "core.flows.queries.environments:lint", example={"environment": "sums"}),
    Verb(
        "read",
        "core.flows.queries.environments:compare",
        example={"environment": "sums", "models": ["large", "small"]},
    ),
    Verb("read", "core.flows.queries.episodes:episode", example={"uid": "sums/1"}),
    Verb(
        "settings",
        "core.flows.episode:declare",
        example={"environment": "sums", "lo": 0, "hi": 2, "threshold": 1.5},
        document="core.doors.documents:act",
    ),
    Verb(
        "credit",
        "core.flows.credit:credit_episode",
        example={"uid": "sums/1", "rule": "equal"},
        document="core.doors.documents:act",
    ),
    Verb(
        "read",
        "core.flows.episode:preview_declare",
        example={"environment": "sums", "lo": 0, "hi": 2, "threshold": 1.5},
    ),
    Verb("read", "core.flows.export:export_file", name="export", example={"target": "all.jsonl"}),
    Verb("read", "core.flows.bundle:export_bundle", example={"target": "handover.zip"}),
    Verb(
        "export_training",
        "core.flows.training:export_training",
        example={"target": "samples.jsonl", "format": "sft_jsonl"},
    ),
    Verb("select", "core.flows.select:select", example={"budget_tokens": 8000}),
    Verb("read", "core.flows.settings:in_force", name="settings"),
    Verb(
        "settings",
        "core.flows.settings:accept_price",
        example={"model": "large-20260401"},
        document="core.doors.documents:act",
    ),
    Verb(
        "settings",
        "core.flows.settings:change",
        example={"name": "baseline_rate", "value": 0.1},
        document="core.doors.documents:act",
    ),
    Verb(
        "reward",
        "core.flows.reward:reward",
        example={"arm": "tool:web:search", "outcome": "partial", "reason": "half an answer"},
        document="core.doors.documents:act",
    ),
    Verb(
        "reward",
        "core.flows.batch:reward_batch",
        example={
            "rewards": [
                {"arm": "tool:web:search", "value": 0.5, "run": "request-1"},
                {"arm": "tool:fs:Read", "outcome": "rejected", "reason": "wrong file"},
            ]
        },
        document="core.doors.documents:act",
    ),
    Verb(
        "reward",
        "core.flows.batch:reward_run",
        example={"run": "request-1", "value": 0.5},
        document="core.doors.documents:act",
    ),
    Verb(
        "evaluate",
        "core.flows.evaluate:evaluate",
        example={"subject": "request-1", "outcome": "success", "score": 0.9, "rubric": "v2"},
        document="core.doors.documents:act",
    ),
    Verb(
        "read",
        "core.flows.queries.evaluations:evaluations",
        example={"wanted": {"outcome": "success"}, "limit": 10},
        document="core.doors.documents:evaluations",
    ),
    Verb(
        "read",
        "core.flows.queries.evaluations:agreement",
        example={"wanted": {"rubric": "v2"}},
        document="core.doors.documents:agreement",
    ),
    Verb("read", "core.flows.inventory:carried", example={"limit": 1}),
    Verb("read", "core.flows.queries.search:search", example={"words": "request-1", "limit": 5}),
    Verb(
        "reward",
        "core.flows.note:note",
        example={"arm": "tool:web:search", "text": "slow on Mondays"},
        document="core.doors.documents:act",
    ),
    Verb(
        "reset",
        "core.flows.reset:reset",
        example={"types": ["tool"], "target": "prior", "reason": "detector repaired"},
        document="core.doors.documents:act",
    ),
    Verb(
        "reset",
        "core.flows.repair:repair",
        example={"arms": ["tool:web:search"], "since": "2026-01-31T08:00:00Z", "reason": "detector repaired"},
        document="core.doors.documents:act",
    ),
    Verb("read", "core.flows.queues:queues"),
    Verb(
        "queue",
        "core.flows.queues:add_queue",
        example={"name": "Week 13", "asks": {"source": "filter"}},
        document="core.doors.documents:act",
    ),
    Verb("judge", "core.flows.review:next_item", example={"queue": "queue-1"}),
    Verb("read", "core.flows.rubrics:rubrics"),
    Verb(
        "queue",
        "core.flows.rubrics:add_rubric",
        example={"rubric": {"version": "v2", "title": "Answers"}},
        document="core.doors.documents:act",
    ),
    Verb("read", "core.flows.browsers:browsers"),
    Verb(
        "queue",
        "core.flows.browsers:confirm_browser",
        example={"browser": "kim 3f2a91"},
        document="core.doors.documents:act",
    ),
    Verb(
        "undo_own",
        "core.flows.undo:undo",
        example={"act_id": "reward-1"},
        document="core.doors.documents:act",
    ),
    Verb(
        "undo_own",
        "core.flows.undo:redo",
        example={"act_id": "reward-2"},
        document="core.doors.documents:act",
    ),
    Verb(
        "erase", "core.flows.erase:erase", example={"run": "request-1"}, document="core.doors.documents:act"
    ),
    Verb(
        "erase", "core.flows.compact:compact", example={"keep_days": 365}, document="core.doors.documents:act"
    ),
    Verb(
        "read", "core.flows.queries.verify:verify", document="core.doors.documents:verification", whole=True
    ),
    Verb("settings", "core.flows.maintenance:backup", example={"target": "copy.db"}, whole=True),
    Verb("members", "core.flows.members:members", whole=True),
    Verb(
        "members",
        "core.flows.members:add_member",
        example={"issuer": "https://id.example.com", "subject": "u-17", "name": "kim", "role": "operator"},
        whole=True,
    ),
    Verb(
        "members",
        "core.flows.members:invite_member",
        example={"issuer": "https://id.example.com", "email": "jo@example.com", "role": "reviewer"},
        whole=True,
    ),
    Verb("members", "core.flows.members:set_role", example={"member": "ann", "role": "reviewer"}, whole=True),
    Verb("members", "core.flows.members:sign_out_member", example={"member": "ann"}, whole=True),
    Verb("members", "core.flows.members:senders", whole=True),
    Verb(
        "members",
        "core.flows.members:add_sender",
        example={"member": "ann", "channel": "slack", "sender": "U018"},
        whole=True,
    ),
    Verb(
        "members",
        "core.flows.members:remove_sender",
        example={"channel": "slack", "sender": "U017"},
        whole=True,
    ),
    Verb("members", "core.flows.members:remove_member", example={"member": "ann"}, whole=True),
    Verb("members", "core.flows.tokens:tokens", whole=True),
    Verb(
        "members",
        "core.flows.tokens:create_token",
        example={"name": "ci-support", "scopes": ["ingest"], "learners": ["default"]},
        whole=True,
    ),
    Verb("members", "core.flows.tokens:revoke_token", example={"token": "old"}, whole=True),
    Verb("alerts", "core.flows.alerts:alerts", whole=True),
    Verb(
        "alerts",
        "core.flows.webhooks:add_webhook",
        example={"url": "https://hooks.example/armscope", "learner": "default"},
        whole=True,
    ),
    Verb("alerts", "core.flows.webhooks:remove_webhook", example={"webhook": "webhook-1"}, whole=True),
    Verb(
        "members", "core.flows.audit:audit", example={"wanted": {"action": "reward"}, "limit": 10}, whole=True
    ),
    Verb("members", "core.flows.audit:denials", whole=True),
)

REPORTS: Final = (
    Verb("read", "core.flows.queries.judgement:judgements", example={"view": {"types": ["tool"]}}),
    Verb("read", "core.flows.queries.savings:savings", document="core.doors.story:savings"),
    Verb("read", "core.flows.queries.ledger:rewards", name="ledger", example={"limit": 10}),
    Verb("read", "core.flows.queries.ledger:changes", name="acts", example={"limit": 10}),
)
"""Verbs that only clients have: no command and no document for people is made of them."""
_BY_NAME: Final = {one.name: one for one in (*VERBS, *REPORTS)}


def find_verb(name: str) -> Verb | None:
    """Return the verb of that name, or None."""
    return _BY_NAME.get(name)


def verb(name: str) -> Verb:
    """Return the verb of that name; raises `InvalidInput` for an unknown one."""
    match = find_verb(name)
    if match is None:
        raise InvalidInput(
            f"A verb must be one of {', '.join(_BY_NAME)}, got {name[:60]!r}.",
            next_step="Call one of those; nothing was done.",
        )
    return match
