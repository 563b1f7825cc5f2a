"""Tools: what an agent can call, by name: one table of who may, what it takes, and what does it.

Every tool answers one object, as structured content and as one block of text; what is refused is said in one block,
in the words of those whose tool it is, and is no failure of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from core.doors import qortex
from core.doors.desk import Desk
from core.doors.mcp.schemas import EXPORT, OBJECT, REWARD, RUNS, UNDO, WHY, Schema, qortex_schema
from core.doors.verbs import verb
from core.errors import ArmscopeError, Denied, InvalidEvaluation, InvalidInput
from core.flows.kairos import export_call, reward_call
from core.formats.kairos import refusal
from core.permissions import Action
from core.records.actor import Actor, Grant
from core.records.limits import shown

Given = Mapping[str, Any]
Document = dict[str, Any]
ALLOWABLE: Final = ("reset", "export")
"""Tools that are left out of what an agent may, unless whoever starts the server allows them."""


class Tool(NamedTuple):
    """``action`` is what the caller must be allowed; ``allowed_as`` names it among `ALLOWABLE`, None: it isn't."""

    name: str
    action: Action
    words: str
    schema: Schema
    call: Callable[[Desk, Actor, Given], Document]
    refuse: Callable[[Tool, ArmscopeError], Document]
    allowed_as: str | None = None


class Told(NamedTuple):
    """What a call came to: JSON in UTF-8, and the object it says (None: it was refused)."""

    text: bytes
    document: Document | None


def call(desk: Desk, actor: Actor, name: str, given: Given, allowed: frozenset[str] | None = None) -> Told:
    """Call a tool by its name.

    ``allowed`` are those of `ALLOWABLE` that may be called by an actor who has no role for it; None: only what the
    actor's roles say counts. Raises `KeyError` where there is no such tool.
    """
    tool = BY_NAME[name]
    try:
        document = tool.call(desk, _acting(tool, actor, allowed), _checked(tool, given))
    except ArmscopeError as problem:
        return Told(orjson.dumps(tool.refuse(tool, problem)), None)
    return Told(orjson.dumps(document), document)


def _acting(tool: Tool, actor: Actor, allowed: frozenset[str] | None) -> Actor:
    """Who acts: whoever is allowed one tool more is that in this call only."""
    if tool.allowed_as is None or allowed is None:
        return actor
    if tool.allowed_as not in allowed:
        raise Denied(
            f"{tool.name} is not among what this server lets {actor.name} do.",
            next_step=f"Whoever starts the server allows it: --allow {tool.allowed_as}.",
        )
    return msgspec.structs.replace(actor, grants=(*actor.grants, Grant(role="operate")))


def _checked(tool: Tool, given: Given) -> Given:
    """The arguments, if the tool takes all of them; what each must be, its call decides."""
    if tool.schema.get("additionalProperties") is False:
        unknown = sorted(given.keys() - tool.schema["properties"].keys())
        if unknown:
            names = ", ".join(tool.schema["properties"])
            raise InvalidEvaluation(
                f"{tool.name} takes {names}, got {', '.join(map(shown, unknown))} too.",
                next_step="Leave out what it does not take; nothing was done.",
                fields=tuple(unknown),
            )
    return given


# qortex's


def _qortex(name: str, words: str) -> Tool:
    def run(desk: Desk, actor: Actor, given: Given) -> Document:
        return qortex.call(desk, actor, name, given)

    return Tool(
        name=f"qortex_learning_{name}",
        action=qortex.TOOLS[name].action,
        words=words,
        schema=qortex_schema(name),
        call=run,
        refuse=_plainly,
        allowed_as="reset" if name == "reset" else None,
    )


def _plainly(tool: Tool, problem: ArmscopeError) -> Document:  # noqa: ARG001 - as every refusal
    return problem.as_answer()


# KAIROS's

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


def _kairos_refusal(tool: Tool, problem: ArmscopeError) -> Document:
    """In KAIROS's words: input that is wrong is told with its members and an example, anything else by its code."""
    said = refusal(problem)
    if said.status != 400:
        return {"error": said.code, "message": said.message}
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


def _reward(desk: Desk, actor: Actor, given: Given) -> Document:
    return _loaded(reward_call(desk.context(actor), orjson.dumps(given)))


def _export(desk: Desk, actor: Actor, given: Given) -> Document:
    return _loaded(export_call(desk.context(actor), orjson.dumps(given)))


def _loaded(answer: bytes) -> Document:
    found: Document = orjson.loads(answer)
    return found


# Ours


def _learner_of(given: Given) -> str | None:
    named = given.get("learner")
    if named is not None and not isinstance(named, str):
        raise InvalidInput(f"learner must be a name, got {shown(named)}.", next_step="Send a text.")
    return named


def _verb(name: str, fields: Mapping[str, str]) -> Callable[[Desk, Actor, Given], object]:
    """What a verb answers; ``fields`` are what its fields are called here."""

    def run(desk: Desk, actor: Actor, given: Given) -> object:
        asked, context = verb(name), desk.context(actor, _learner_of(given))
        sent = {field: given[ours] for ours, field in fields.items() if ours in given}
        return asked.plain(context, asked.call(context, asked.decode(sent)))

    return run


def _object(run: Callable[[Desk, Actor, Given], object]) -> Callable[[Desk, Actor, Given], Document]:
    def told(desk: Desk, actor: Actor, given: Given) -> Document:
        found = run(desk, actor, given)
        assert isinstance(found, dict)  # noqa: S101 - what these verbs answer
        return found

    return told


_ten_runs: Final = _verb("runs", {"limit": "limit"})
_undone: Final = _object(_verb("undo", {"id": "act_id"}))


def _runs(desk: Desk, actor: Actor, given: Given) -> Document:
    return {"runs": _ten_runs(desk, actor, {"limit": 10, **given})}


def _undo(desk: Desk, actor: Actor, given: Given) -> Document:
    """An agent takes back its own acts, whatever else it may."""
    context = desk.context(actor, _learner_of(given))
    context.permit("undo_own")
    own = replace(desk, learner=context.learner)
    return _undone(own, Actor(name=actor.name, role="review", token=actor.token), given)


_TABLE: Final = (
    _qortex(
        "select",
        "Choose which of some candidates go into the next prompt: by what was learned of each, under a token budget. "
        "Report afterwards, with qortex_learning_observe, what came of each that was selected.",
    ),
    _qortex(
        "observe",
        "Report what came of one arm that was selected: a reward from 0 (not used, useless) to 1, or an outcome: "
        "accepted, partial, rejected. A number counts before an outcome; 0 is a reward.",
    ),
    _qortex("posteriors", "What is believed of each arm: alpha, beta, mean, pulls."),
    _qortex("metrics", "How many pulls and how much reward a learner has gathered."),
    _qortex("session_start", "Say that a session begins; the answer has the id to end it by."),
    _qortex("session_end", "Say that a session ended."),
    _qortex(
        "reset",
        "Start arms again at Beta(1, 1): those named, or all. Nothing is deleted, and a person can take it back.",
    ),
    Tool(
        "reward",
        "evaluate",
        "Judge one layer of an adapter, or one execution of it: success or failure, with a score from 0 to 1 (of a "
        "failure: how sure that is). Name who judges and by which rubric, or it is not trained on.",
        REWARD,
        _reward,
        _kairos_refusal,
    ),
    Tool(
        "export",
        "export_training",
        "What was judged, as JSON lines to train on: trace_jsonl, reward_jsonl, sft_jsonl or preference_jsonl.",
        EXPORT,
        _export,
        _kairos_refusal,
        allowed_as="export",
    ),
    Tool(
        "why_in_prompt",
        "read",
        "Why each arm was in one run's prompt or left out, and what was seen of it. Ask this when somebody wonders "
        "why a tool was missing; the tool runs lists runs.",
        WHY,
        _object(_verb("run", {"run": "name"})),
        _plainly,
    ),
    Tool("runs", "read", "The latest runs, newest first, with their uids.", RUNS, _runs, _plainly),
    Tool(
        "undo",
        "undo_own",
        "Take back something that you recorded yourself, by the id that its answer had. Nothing is deleted: undoing "
        "the undo lets it stand again. What others recorded is theirs.",
        UNDO,
        _undo,
        _plainly,
    ),
)
BY_NAME: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TABLE}
"""Every tool, in the order in which they are listed."""
OUTPUT: Final = OBJECT
