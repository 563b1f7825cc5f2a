"""Tools that an agent can call: one table of their actions, arguments and handlers.

Every tool returns one object, as structured content and as one block of text. An error is one block, in the words of
the tool's protocol, and no failure of MCP. Schemas of qortex and KAIROS are as their own servers list them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import msgspec
import orjson

from core.doors import qortex
from core.doors.qortex import TOOLS
from core.doors.service import Service
from core.doors.verbs import Verb, Verbs, query_fields, verb
from core.errors import ArmscopeError, Denied, InvalidEvaluation, InvalidInput
from core.flows.context import Context
from core.flows.kairos import export_call, reward_call
from core.formats.kairos import refusal
from core.formats.kairos_export import MAX_ADAPTERS
from core.records.actor import Action, Actor, Grant, Scope, may
from core.records.limits import one_of, shown
from core.records.run_query import side_words
from core.records.times import iso

Schema = dict[str, Any]
OBJECT: Final[Schema] = {"type": "object", "additionalProperties": True}
_STRING: Final[Schema] = {"type": "string"}
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_UUID: Final = "[0-9a-f-]{36}"
_SLUG: Final = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"

_LEARNER: Final[Schema] = {"learner": _STRING}

REWARD: Final[Schema] = {
    "$schema": _DRAFT,
    "type": "object",
    "properties": {
        "uri": _STRING | {"pattern": rf"^kairos:\/\/layer\/{_UUID}(?:\?execution_id={_UUID})?$"},
        "outcome": _STRING | {"enum": ["success", "failure"]},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "feedback": _STRING | {"minLength": 1},
        "rater": _STRING,
        "rubric_version": _STRING,
        "llm_model_id": _STRING,
    },
    "required": ["uri", "outcome"],
    "additionalProperties": False,
}
_URIS: Final = (
    rf"^kairos:\/\/adapter\/({_UUID}|{_SLUG})$",
    rf"^kairos:\/\/layer\/({_UUID})(?:\?execution_id=({_UUID}))?$",
    rf"^kairos:\/\/artifact\/({_UUID}|{_SLUG})$",
)
EXPORT: Final[Schema] = {
    "$schema": _DRAFT,
    "type": "object",
    "properties": {
        "uri": {"anyOf": [_STRING | {"pattern": pattern} for pattern in _URIS]},
        "adapters": {"maxItems": MAX_ADAPTERS, "type": "array", "items": _STRING | {"minLength": 1}},
        "all_adapters": {"type": "boolean"},
        "space_name": _STRING,
        "format": {
            "default": "skill_zip",
            "type": "string",
            "enum": [
                "markdown",
                "trace_jsonl",
                "reward_jsonl",
                "sft_jsonl",
                "preference_jsonl",
                "source",
                "skill_tree",
                "skill_zip",
            ],
        },
        "delivery": {"type": "string", "enum": ["download_ref", "inline_base64"]},
        "include_reward": {"default": True, "type": "boolean"},
    },
}

LISTS: Final[Mapping[str, str]] = {
    "arms": "arms",
    "posteriors": "posteriors",
    "runs": "runs",
    "sessions": "sessions",
    "ledger": "ledger",
    "acts": "acts",
    "evaluations": "evaluations",
    "episodes": "episode_list",
    "environments": "episodes",
}
"""Verbs of the lists that the tool rows reads, by the names of their routes."""

_OF_SESSION: Final = Verbs.session.fields

Arguments = Mapping[str, Any]
Document = dict[str, Any]
Call = Callable[[Service, Actor, Arguments], Document]
ALLOWABLE: Final = ("reset", "repair", "export", "experiment")
"""Tools that an agent may call only if the server is started with ``--allow``."""
_MOST_CARRIED: Final = 500
Effect = Literal["reads", "adds", "corrects"]
"""What a call does to the data: nothing, a new row, or a change of what earlier rows mean."""
_EXAMPLES: Final[Mapping[str, Document]] = {
    "reward": {
        "uri": "kairos://layer/aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
        "outcome": "success",
        "score": 0.9,
        "rater": "mara",
        "rubric_version": "v1",
    },
    "export": {"all_adapters": True, "format": "reward_jsonl"},
}
_MAX_RETRIES: Final = 3
OUTPUT: Final = OBJECT


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}], "default": None}


def _integer(default: int) -> Schema:
    return {"default": default, "type": "integer"}


_CONTEXT: Final = _maybe({"additionalProperties": True, "type": "object"})
_ARMS: Final = _maybe({"items": _STRING, "type": "array"})
_QORTEX: Final[Mapping[str, Schema]] = {
    "select": _LEARNER
    | {
        "candidates": {"items": {"additionalProperties": True, "type": "object"}, "type": "array"},
        "context": _CONTEXT,
        "k": _integer(1),
        "token_budget": _integer(0),
        "min_pulls": _integer(0),
        "seed_arms": _ARMS,
        "seed_boost": _maybe({"type": "number"}),
    },
    "observe": _LEARNER
    | {
        "arm_id": _STRING,
        "outcome": {"default": "", "type": "string"},
        "reward": {"default": 0.0, "type": "number"},
        "context": _CONTEXT,
    },
    "posteriors": _LEARNER | {"context": _CONTEXT, "arm_ids": _ARMS},
    "metrics": _LEARNER | {"window": _maybe({"type": "integer"})},
    "session_start": _LEARNER | {"session_name": _STRING},
    "session_end": {"session_id": _STRING},
    "reset": _LEARNER | {"arm_ids": _ARMS, "context": _CONTEXT},
}


def qortex_schema(name: str) -> Schema:
    """Return the schema of one of qortex's tools."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": _QORTEX[name],
        "required": TOOLS[name].required,
    }


def _own(required: tuple[str, ...], **properties: Schema) -> Schema:
    learner = _STRING | {"description": "The learner; left out, the one that this server is for."}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, "learner": learner},
        "required": list(required),
    }


WHY: Final = _own(
    ("run",), run=_STRING | {"description": "The run's uid or number, as the tool runs lists it."}
)


CARRIED: Final = _own(
    (), limit=_integer(50) | {"minimum": 1, "maximum": 500, "description": "Number of items."}
)


RUNS: Final = _own(
    (),
    **Verbs.runs.fields
    | {
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1_000,
            "default": 10,
            "description": "How many.",
        }
    },
)
SEARCH: Final = _own(("words",), **Verbs.search.fields)
VERSIONS: Final = _own(("arm",), **Verbs.versions.fields)


def filters_of(name: str) -> list[str]:
    """Return the names of the filters of a list."""
    return list(chain.from_iterable(query_fields(verb(LISTS[name]).input)))


ROWS: Final = _own(
    ("list",),
    list=_STRING | {"enum": list(LISTS)},
    filters={
        "type": "object",
        "description": "; ".join(f"{name}: {', '.join(filters_of(name))}" for name in LISTS),
    },
    limit=_integer(10) | {"minimum": 1, "maximum": 1_000, "description": "How many."},
)
SESSION: Final = _own(
    ("session",),
    session=_OF_SESSION["name"],
    limit=_OF_SESSION["limit"] | {"default": 50},
    texts=_OF_SESSION["texts"],
)
SIDES: Final = _own(
    (),
    **Verbs.compare_sides.fields
    | {
        side: {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"description": words} for name, words in side_words().items()},
        }
        for side in ("a", "b")
    },
)
OUTCOME: Final = _own(("run", "value"), **Verbs.outcome.fields)
TRIAL_PLAN: Final = _own(("arm", "tasks"), **Verbs.plan_trial.fields)
TRIAL_READ: Final = _own(("results",), **Verbs.read_trial.fields)
EXPERIMENT_PLAN: Final = _own(("arm",), **Verbs.plan_experiment.fields)
EXPERIMENT_START: Final = _own(("arm",), **Verbs.start_experiment.fields)
EXPERIMENT_STOP: Final = _own(("experiment",), **Verbs.stop_experiment.fields)
EXPERIMENTS: Final = _own((), **Verbs.experiments.fields)
REPAIR: Final = _own(("arms", "since"), **Verbs.repair.fields)
UNDO: Final = _own(("id",), id=_STRING | {"description": "The act's id, such as evaluation-7."})


def _plainly(tool: AgentTool, problem: ArmscopeError) -> Document:  # noqa: ARG001 - as every refusal
    return problem.as_answer()


class AgentTool(NamedTuple):
    """Tool with its action, effect, arguments and handler; ``allowed_as`` is its name in `ALLOWABLE`, if any."""

    name: str
    action: Action
    effect: Effect
    words: str
    schema: Schema
    call: Call
    refuse: Callable[[AgentTool, ArmscopeError], Document] = _plainly
    allowed_as: str | None = None


class ToolResult(NamedTuple):
    """Result of a call: JSON in UTF-8, and the object behind it (None: an error)."""

    text: bytes
    document: Document | None


def callable_by(actor: Actor, allowed: frozenset[str] | None = None) -> list[AgentTool]:
    """Return the tools that an actor may call in at least one learner; ``allowed`` is as in `call`."""
    return [tool for tool in _TABLE if _is_callable(tool, actor, allowed)]


def _is_callable(tool: AgentTool, actor: Actor, allowed: frozenset[str] | None) -> bool:
    if tool.allowed_as is not None and allowed is not None:
        return tool.allowed_as in allowed
    learners = {None, *(grant.learner for grant in actor.grants)}
    return any(may(actor, tool.action, learner) for learner in learners)


def call(
    service: Service, actor: Actor, name: str, arguments: Arguments, allowed: frozenset[str] | None = None
) -> ToolResult:
    """Call a tool by its name.

    ``allowed`` are the tools of `ALLOWABLE` that an actor without a role for them may call; None: only the actor's
    roles count. Raises `KeyError` for an unknown tool.
    """
    tool = BY_NAME[name]
    try:
        document = tool.call(service, _acting(tool, actor, allowed), _checked(tool, arguments))
    except ArmscopeError as problem:
        return ToolResult(orjson.dumps(tool.refuse(tool, problem)), None)
    return ToolResult(orjson.dumps(document), document)


def _acting(tool: AgentTool, actor: Actor, allowed: frozenset[str] | None) -> Actor:
    """Return the actor of a call, with the tool's scope if ``allowed`` names the tool: `texts` for an export."""
    if tool.allowed_as is None or allowed is None:
        return actor
    if tool.allowed_as not in allowed:
        raise Denied(
            f"{tool.name} is not among what this server lets {actor.name} do.",
            next_step=f"Start the server with --allow {tool.allowed_as}.",
        )
    scope: Scope = "texts" if tool.allowed_as == "export" else "operate"
    return msgspec.structs.replace(actor, grants=(*actor.grants, Grant(role=scope)))


def _checked(tool: AgentTool, arguments: Arguments) -> Arguments:
    """Return the arguments; raise for a name that the tool does not take. Its handler checks the values."""
    if tool.schema.get("additionalProperties") is False:
        unknown = sorted(arguments.keys() - tool.schema["properties"].keys())
        if unknown:
            names = ", ".join(tool.schema["properties"])
            problem = f"{tool.name} takes {names}, got {', '.join(map(shown, unknown))} too."
            next_step = "Leave out what it does not take; nothing was done."
            if tool.refuse is _kairos_refusal:
                raise InvalidEvaluation(problem, next_step=next_step, fields=tuple(unknown))
            raise InvalidInput(problem, next_step=next_step)
    return arguments


# qortex's


def _qortex(name: str, effect: Effect, words: str) -> AgentTool:
    def run(service: Service, actor: Actor, arguments: Arguments) -> Document:
        return qortex.call(service, actor, name, arguments)

    return AgentTool(
        name=f"qortex_learning_{name}",
        action=qortex.TOOLS[name].action,
        effect=effect,
        words=words,
        schema=qortex_schema(name),
        call=run,
        allowed_as="reset" if name == "reset" else None,
    )


# KAIROS's


def _kairos_refusal(tool: AgentTool, problem: ArmscopeError) -> Document:
    """Return an error in KAIROS's words: invalid input with its members and an example, others by code."""
    refused = refusal(problem)
    if refused.status != 400:
        return {"error": refused.code, "message": refused.message}
    fields = problem.fields if isinstance(problem, InvalidEvaluation) else ()
    return {
        "error": "INVALID_TOOL_INPUT",
        "tool": tool.name,
        "message": problem.problem,
        "next_action": problem.next_step,
        "invalid_fields": list(fields or ("uri",)),
        "example": _EXAMPLES[tool.name],
        "must_obey": True,
        "retry_count": 0,
        "max_retries": _MAX_RETRIES,
    }


def _kairos(flow: Callable[[Context, bytes], bytes]) -> Call:
    def run(service: Service, actor: Actor, arguments: Arguments) -> Document:
        body = json.dumps(arguments).encode()  # integers may have any size, which orjson does not write
        answer: Document = orjson.loads(flow(service.context(actor), body))
        return answer

    return run


# Ours


def _learner_of(arguments: Arguments) -> str | None:
    named = arguments.get("learner")
    if named is not None and not isinstance(named, str):
        raise InvalidInput(f"learner must be a name, got {shown(named)}.", next_step="Send a text.")
    return named


def _verb(operation: Verb[..., Any], usual: Mapping[str, Any] = {}, **fields: str) -> Call:
    """Return a handler that calls a verb; a list is answered under the verb's name.

    ``usual`` are arguments that may be left out, ``fields`` those for which the tool has another name.
    """

    def run(service: Service, actor: Actor, arguments: Arguments) -> Document:
        context = service.context(actor, _learner_of(arguments)).of_own_door()
        complete = {**usual, **arguments}
        request = {fields.get(name, name): one for name, one in complete.items() if name != "learner"}
        answer = operation.plain(context, operation.respond(context, operation.decode(request)))
        return answer if isinstance(answer, dict) else {operation.name: answer}

    return run


_undone: Final = _verb(Verbs.undo, id="act_id")


def _rows(service: Service, actor: Actor, arguments: Arguments) -> Document:
    """Return rows of a list. With ``since``, ``next`` is the mark of the last one, from which the list goes on."""
    name, filters = arguments.get("list"), arguments.get("filters", {})
    one_of("list", name, tuple(LISTS))
    names, limit = filters_of(str(name)), _limit(arguments, 10, 1_000)
    if not isinstance(filters, dict) or filters.keys() - names:
        raise InvalidInput(
            f"The filters of {name} must be an object with fields of {', '.join(names)}, got {shown(filters)}.",
            next_step="Leave the others out.",
        )
    operation, context = verb(LISTS[str(name)]), service.context(actor, _learner_of(arguments)).of_own_door()
    paged = {"limit": limit} if "limit" in operation.input.__struct_fields__ else {}
    answer: Any = operation.plain(
        context, operation.respond(context, operation.filtered({**filters, **paged}))
    )
    rows = (answer["rows"] if isinstance(answer, dict) else answer)[:limit]
    since = filters.get("since")
    return {"rows": rows, "next": rows[-1]["mark"] if rows and since is not None else since}


def _limit(arguments: Arguments, default: int, most: int) -> int:
    limit = arguments.get("limit", default)
    if type(limit) is not int or not 1 <= limit <= most:
        raise InvalidInput(
            f"limit must be a whole number from 1 to {most:,}, got {shown(limit)}.",
            next_step="Use for example 10, or leave it out.",
        )
    return limit


def _undo(service: Service, actor: Actor, arguments: Arguments) -> Document:
    """Undo an act of the agent itself, with the rights of a reviewer and no others."""
    context = service.context(actor, _learner_of(arguments))
    context.permit("undo_own")
    own = replace(service, learner=context.learner)
    return _undone(own, Actor(name=actor.name, role="review", token=actor.token), arguments)


def _carried(service: Service, actor: Actor, arguments: Arguments) -> Document:
    operation, context = Verbs.carried, service.context(actor, _learner_of(arguments))
    answer = operation.call(context)
    if not answer.machines:
        return {
            "sentence": None,
            "next": "Import sessions where the agents run: armscope import ~/.claude/projects",
        }
    limit = _limit(arguments, 50, _MOST_CARRIED)
    (latest,) = answer.machines
    unused = [one for one in latest.inventory.items if one.use is not None and not one.use.uses]
    return {
        "sentence": latest.inventory.sentence,
        "notes": list(latest.inventory.notes),
        "read_at": iso(latest.at_ms),
        "not_used": [msgspec.to_builtins(one) for one in unused[:limit]],
        "left_out": max(len(unused) - limit, 0),
    }


def _reads(name: str, words: str, schema: Schema, run: Call) -> AgentTool:
    return AgentTool(name, "read", "reads", words, schema, run)


_TABLE: Final = (
    _qortex(
        "select",
        "adds",
        "Choose which of some candidates go into the next prompt: by what was learned of each, under a token budget. "
        "Report afterwards, with qortex_learning_observe, what came of each that was selected.",
    ),
    _qortex(
        "observe",
        "adds",
        "Report what came of one arm that was selected: a reward from 0 (not used) to 1, or an outcome: "
        "accepted, partial, rejected. A number counts before an outcome; 0 is a reward.",
    ),
    _qortex("posteriors", "reads", "What is believed of each arm: alpha, beta, mean, pulls."),
    _qortex("metrics", "reads", "How many pulls and how much reward a learner has gathered."),
    _qortex("session_start", "adds", "Say that a session begins; the answer has the id to end it by."),
    _qortex("session_end", "adds", "Say that a session ended."),
    _qortex(
        "reset",
        "corrects",
        "Start arms again at Beta(1, 1): those named, or all. Nothing is deleted, and a person can take it back.",
    ),
    AgentTool(
        "reward",
        "evaluate",
        "adds",
        "Judge one layer of an adapter, or one execution of it: success or failure, with a score from 0 to 1 (of a "
        "failure: how sure that is). Name who judges and by which rubric, or it is not trained on.",
        REWARD,
        _kairos(reward_call),
        _kairos_refusal,
    ),
    AgentTool(
        "export",
        "export_training",
        "reads",
        "What was judged, as JSON lines to train on: trace_jsonl, reward_jsonl, sft_jsonl or preference_jsonl.",
        EXPORT,
        _kairos(export_call),
        _kairos_refusal,
        allowed_as="export",
    ),
    AgentTool(
        "outcome",
        "ingest",
        "adds",
        "State what a run achieved, from 0 to 1: 1 is solved, 0 is not. The latest statement of a run is in force. "
        "Arms learn nothing from it.",
        OUTCOME,
        _verb(Verbs.outcome),
    ),
    AgentTool(
        "trial_plan",
        "ingest",
        "adds",
        "Plan a trial of an arm: the same tasks with and without it. The answer has the tasks that a verdict needs, "
        "and the price. A person runs the trial.",
        TRIAL_PLAN,
        _verb(Verbs.plan_trial),
    ),
    AgentTool(
        "trial_read",
        "ingest",
        "adds",
        "Read the results of a trial, a cell for each run, and get the verdict: helps, harms, no difference, open. "
        "Arms learn nothing from it.",
        TRIAL_READ,
        _verb(Verbs.read_trial),
    ),
    _reads(
        "experiment_plan",
        "What an experiment on an arm would take: the sessions that a verdict needs, days at the present pace, and "
        "what prevents a start. An experiment puts the arm in or out of whole sessions by chance.",
        EXPERIMENT_PLAN,
        _verb(Verbs.plan_experiment),
    ),
    _reads(
        "experiments",
        "The experiments with their verdicts: whether offering the arm helps, harms, or makes no difference.",
        EXPERIMENTS,
        _verb(Verbs.experiments),
    ),
    AgentTool(
        "experiment_start",
        "settings",
        "adds",
        "Start an experiment on an arm: new sessions get it or lack it by chance until the experiment ends.",
        EXPERIMENT_START,
        _verb(Verbs.start_experiment),
        allowed_as="experiment",
    ),
    AgentTool(
        "experiment_stop",
        "settings",
        "corrects",
        "Stop an experiment, and end it, keep its arm, or exclude its arm. A person can take it back.",
        EXPERIMENT_STOP,
        _verb(Verbs.stop_experiment),
        allowed_as="experiment",
    ),
    _reads(
        "why_in_prompt",
        "Why each arm was in one run's prompt or left out, and what was observed of it. Use this when a person "
        "asks why a tool was missing; the tool runs lists runs.",
        WHY,
        _verb(Verbs.run, run="name"),
    ),
    _reads(
        "runs",
        "The latest runs that pass the filters, newest first, with their uids.",
        RUNS,
        _verb(Verbs.runs, {"limit": 10}),
    ),
    _reads(
        "search",
        "Arms, runs, sessions, episodes, environments, queues and notes in whose names all words occur. Use this to "
        "find the run of a session, or an arm by a part of its id.",
        SEARCH,
        _verb(Verbs.search),
    ),
    _reads(
        "rows",
        "Rows of any list with its filters. With since (0, a row's mark or a head) only rows that changed, oldest "
        "change first: send next as since to go on, until no row comes.",
        ROWS,
        _rows,
    ),
    AgentTool(
        "repair",
        "reset",
        "corrects",
        "Take back every automatic observation of named arms in a span of time, such as those of a broken detector. "
        "Observations by people and graders are kept. Nothing is deleted, and a person can take it back.",
        REPAIR,
        _verb(Verbs.repair),
        allowed_as="repair",
    ),
    _reads(
        "versions",
        "The versions of an arm's definition, such as a tool's description: when each was in use, its runs, and the "
        "belief that they alone come to. They show whether use changed with the text.",
        VERSIONS,
        _verb(Verbs.versions),
    ),
    _reads(
        "session",
        "One session: its runs in order, and the arms in their prompts, the most used first. Kept messages come only "
        "with texts, and only to callers who may read them. The tool rows lists sessions.",
        SESSION,
        _verb(Verbs.session, {"limit": 50}, session="name"),
    ),
    _reads(
        "compare_sides",
        "Two models, channels, spans or runs side by side: failures, tokens, and each arm's belief and shift by "
        "source. Use this to see what changed since a day: a ends before it, b begins then.",
        SIDES,
        _verb(Verbs.compare_sides),
    ),
    _reads(
        "carried",
        "What the agents of the user's machine carry in each session and never used: skills, tools and servers with "
        "their tokens, and what is proposed. Not used does not mean of no use; only a person takes an item out.",
        CARRIED,
        _carried,
    ),
    AgentTool(
        "undo",
        "undo_own",
        "corrects",
        "Undo an act that you recorded yourself, by the id in its answer. Nothing is deleted: undoing the undo makes "
        "the act active again. Acts of others are not yours to undo.",
        UNDO,
        _undo,
    ),
)
BY_NAME: Final[Mapping[str, AgentTool]] = {tool.name: tool for tool in _TABLE}
"""Every tool, in the order of the list."""
