"""Chat commands ``/learning status | reward ARM [0..1] | reset [SCOPE]``, typed by a person, answered with a text.

An arm may be named by its label. If the name matches several arms, the answer lists them and nothing is done. A reset
answers with a preview and a code. The same sender confirms it with the code within 5 minutes, if nothing was recorded
since.

A command comes from the caller, or through a *bridge*: an actor that may name the sender. Then both need the right,
the act is done in the sender's name, and an unknown sender gets no answer.
"""

from __future__ import annotations

import hmac
import re
from base64 import b32encode
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from core.doors.exchange import HttpAnswer, HttpCall, json_answer
from core.doors.http.routes import Route
from core.doors.service import OPENCLAW, Service
from core.errors import ArmscopeError, Denied, InvalidInput, StoreError, Unidentified
from core.flows import queries
from core.flows.context import Context, arm_ids
from core.flows.corrections import ResetScope, reset
from core.flows.learn import reward
from core.flows.members import members_behind
from core.formats.openclaw_learning import status_text
from core.formats.strict import json_body
from core.records.actor import Action, Actor, authorise
from core.records.arm import ARM_TYPES, ArmType
from core.records.javascript import WHITE_SPACE, number, trimmed
from core.records.misfits import misfit

CONFIRM_S: Final = 300
"""Seconds in which a confirmation is valid."""
MAX_COMMAND_CHARS: Final = 2_000

MemberOf = Callable[[str, str], Actor | None]
"""(channel, sender) → the member behind them; None = unknown."""

_USAGE: Final = "Usage: /learning reward <arm_id_or_label> [0..1]"
_WHITE: Final = re.compile(rf"[{WHITE_SPACE}]")
_COMMAND: Final = re.compile(rf"/learning(?:[{WHITE_SPACE}]+([^\n\r\u2028\u2029]*))?", re.IGNORECASE)
_LOOKS_LIKE_A_NUMBER: Final = re.compile(r"[+-]?[.,]?\d[\d.,]*(?:e[+-]?\d+)?%?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)")
_NO_CODE: Final = (
    "That confirmation is invalid: it is older than 5 minutes, from another sender, "
    "or something was recorded since."
)
_OUTCOMES: Final = {0.0: "rejected", 1.0: "accepted"}
_SHOWN: Final = 5
_SHOWN_CHARS: Final = 80

_FAILED: Final = {
    "reward": 'Reward failed for "{}"',
    "reset": "Reset failed",
}

Bridges = Callable[[Service, Actor], MemberOf | None]
"""Members behind an actor's senders; None: the actor is no bridge."""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Command as it was typed; only a bridge may name its ``channel`` and ``sender``."""

    text: str
    channel: str | None = None
    sender: str | None = None


class _Requester(NamedTuple):
    """Requester of a command: the context of the act, the actors that need the right, the name in confirmations."""

    context: Context
    actors: tuple[Actor, ...]
    name: str

    def permit(self, action: Action) -> None:
        for actor in self.actors:
            authorise(actor, action, self.context.learner)


def chat(
    service: Service, actor: Actor, message: ChatMessage, *, member_of: MemberOf | None = None
) -> str | None:
    """Return the answer to a message; None for other text, and for an unknown sender.

    ``member_of`` finds the members behind senders, if the actor is a bridge. Raises `Denied` if the actor or the
    sender lacks the right, and for a sender named by another actor than a bridge. Raises `InvalidInput` for a bridge
    that names no sender. The answer states every other error.
    """
    command = _COMMAND.fullmatch(trimmed(message.text[: MAX_COMMAND_CHARS + 1]))
    requester = _requester(service, actor, message, member_of)
    if command is None or requester is None:
        return None
    name, _, rest = trimmed(_WHITE.sub(" ", command[1] or "")).partition(" ")
    answer = _ANSWERS.get(name.lower() or "status")
    if answer is None:
        return f"Unknown learning action: {name[:_SHOWN_CHARS]}. Use: {', '.join(sorted(_ANSWERS))}"
    if len(message.text) > MAX_COMMAND_CHARS:
        return f"A command has at most {MAX_COMMAND_CHARS:,} characters. Nothing was done."
    try:
        return answer(requester, trimmed(rest))
    except StoreError:
        failed = _FAILED.get(name.lower(), "Learning status unavailable")
        return f"{failed.format(_arm_text(trimmed(rest)))} — gateway or qortex not reachable."
    except (Denied, Unidentified):
        raise
    except ArmscopeError as problem:
        return f"{problem.problem} Nothing was done."


def _requester(
    service: Service, actor: Actor, message: ChatMessage, member_of: MemberOf | None
) -> _Requester | None:
    if member_of is None:
        if message.channel is not None or message.sender is not None:
            raise Denied(
                "Only a token that is marked as a bridge may name the sender of a message.",
                next_step="Leave channel and sender out, or ask an operator for a bridge's token.",
            )
        return _Requester(service.context(actor, preferred=OPENCLAW), (actor,), f"{actor.token}/{actor.name}")
    if not message.channel or not message.sender:
        raise InvalidInput(
            "A bridge must name channel and sender, got a message without.", next_step="Add the sender."
        )
    member = member_of(message.channel, message.sender)
    if member is None:
        return None
    learner = service.context(actor, preferred=OPENCLAW).learner
    if not member.roles(learner):
        return None
    name = "\0".join((str(actor.token), message.channel, message.sender))
    return _Requester(service.context(member, learner), (actor, member), name)


# Status


def _status(requester: _Requester, _rest: str) -> str:
    requester.permit("read")
    context = requester.context
    return status_text(
        queries.openclaw_summary(context),
        queries.openclaw_config(context),
        queries.openclaw_posteriors(context),
    )


# Reward


def _reward(requester: _Requester, rest: str) -> str:
    requester.permit("reward")
    if not rest:
        return _USAGE
    arm, value = _split(rest, arm_ids(requester.context))
    answer = reward(requester.context, arm, value, reason="user feedback via /learning reward")
    outcome = _OUTCOMES.get(answer.reward, "partial")
    return f"Recorded {outcome} (reward={number(answer.reward)}) for {answer.arm}"


def _split(rest: str, listed: Sequence[str]) -> tuple[str, float]:
    """Return the arm and the reward; a number at the end is the reward, unless it is part of an arm's name."""
    name, last = _parts(rest)
    if not last or _matching(rest, listed):
        return _arm_of(rest, listed), 1.0
    if not _NUMBER.fullmatch(last) or not 0 <= float(last) <= 1:
        raise InvalidInput(
            f"A reward must be a number from 0 to 1, like 0.5, got {last[:_SHOWN_CHARS]!r}.",
            next_step="Send it again with one.",
        )
    return _arm_of(name, listed), float(last)


def _parts(rest: str) -> tuple[str, str]:
    """Split off a number at the end; return the text and "" if there is none."""
    name, _, last = rest.rpartition(" ")
    is_number = name and _LOOKS_LIKE_A_NUMBER.fullmatch(last)
    return (trimmed(name), last) if is_number else (rest, "")


def _arm_text(rest: str) -> str:
    """Return the text that names an arm, when no arms can be read."""
    name, last = _parts(rest)
    is_number = _NUMBER.fullmatch(last) is not None and 0 <= float(last) <= 1
    return (name if is_number else rest)[:_SHOWN_CHARS]


def _arm_of(text: str, listed: Sequence[str]) -> str:
    """Return the only arm with this id, label or part of an id; an id as it is: the flow lists near ones."""
    if ":" in text:
        return text
    matches = _matching(text, listed) or [key for key in listed if text.casefold() in key.casefold()]
    if len(matches) == 1:
        return matches[0]
    shown = text[:_SHOWN_CHARS]
    if matches:
        more = f" or {len(matches) - _SHOWN} others" if len(matches) > _SHOWN else ""
        problem = f"{shown!r} may mean {', '.join(matches[:_SHOWN])}{more}."
    else:
        problem = f"No arm is called {shown!r}.{_near(text, listed)}"
    raise InvalidInput(problem, next_step="Name one of them.")


def _matching(text: str, listed: Sequence[str]) -> list[str]:
    if text in listed:
        return [text]
    return [key for key in listed if _label(key).casefold() == text.casefold()]


def _label(key: str) -> str:
    """Return the label of an arm: its name, or the category of a skill with only a main part.

    >>> _label("tool:exec:Bash"), _label("skill:coding:main")
    ('Bash', 'coding')
    """
    kind, category, name = key.split(":", 2)
    return category if kind == "skill" and name == "main" else name


def _near(text: str, listed: Sequence[str]) -> str:
    labels = {_label(key).casefold(): key for key in listed}
    near = [labels[label] for label in get_close_matches(text.casefold(), labels, _SHOWN)]
    return f" Did you mean {', '.join(near)}?" if near else ""


# Reset


def _reset(requester: _Requester, rest: str) -> str:
    requester.permit("reset")
    scope_text, code = _confirmation(rest)
    context = requester.context
    scope = _scope(scope_text, arm_ids(context))
    state = queries.revision(context).snapshot_key
    preview = queries.preview_reset(context, arms=scope.arms, types=scope.types)
    if not preview.columns.keys:
        return f"There is no arm to reset ({scope.words}). Nothing was reset."
    bound = _Bound(requester.name, (state.origin, state.revision, state.token), preview.columns.keys)
    now_s = context.clock() // 1000
    if code is not None and bound.holds(code, now_s):
        done = reset(
            context, arms=scope.arms, types=scope.types, reason="/learning reset", seen=state.revision
        )
        return (
            f'Reset {done.reset_count} arm(s) for learner "{done.learner}". All posteriors back to Beta(1,1).'
        )
    again = "" if code is None else f"{_NO_CODE}\n"
    which = f"{scope_text} " if scope_text else ""
    return (
        f'{again}This would reset {len(preview.columns):,} arm(s) ({scope.words}) of learner "{context.learner}" to '
        f"Beta(1,1), with {preview.columns.n_pulls:,} pulls. Nothing is deleted, and it can be undone.\n"
        f"To do it, send within 5 minutes: /learning reset {which}confirm {bound.code(now_s)}"
    )


def _confirmation(rest: str) -> tuple[str, str | None]:
    scope, confirm, code = f" {rest}".rpartition(" confirm ")
    return (trimmed(scope), trimmed(code)) if confirm else (rest, None)


class _Bound(NamedTuple):
    """Reset that a confirmation is valid for; ``state`` is the learner's origin, revision and token."""

    sender: str
    state: tuple[str, int, int]
    arms: tuple[str, ...]

    def code(self, at_s: int) -> str:
        """Return the code at a time; it proves no identity, because the right is checked again."""
        content = msgspec.json.encode((self.sender, *self.state, self.arms, at_s))
        digest = hmac.new(self.state[0].encode(), content, sha256).digest()
        return b32encode(digest).decode()[:8]

    def holds(self, code: str, now_s: int) -> bool:
        """Return whether a code was created for this reset within the last 5 minutes."""
        received = code.upper().encode()
        return any(
            hmac.compare_digest(self.code(at_s).encode(), received)
            for at_s in range(now_s, now_s - CONFIRM_S, -1)
        )


def _scope(text: str, listed: Sequence[str]) -> ResetScope:
    word = text.lower()
    if word in {"", "all"}:
        return ResetScope()
    types: dict[str, ArmType] = {name: name for name in ARM_TYPES}
    plural: dict[str, ArmType] = {ResetScope(types=(name,)).words: name for name in ARM_TYPES}
    if word in types | plural and not _matching(text, listed):
        return ResetScope(types=((types | plural)[word],))
    return ResetScope(arms=(_arm_of(text, listed),))


_ANSWERS: Final[dict[str, Callable[[_Requester, str], str]]] = {
    "status": _status,
    "reward": _reward,
    "reset": _reset,
}


# Over HTTP


def routes(bridges: Bridges) -> tuple[Route, ...]:
    """Return the route that answers ``{text, channel?, sender?}`` with ``{reply}``, null without an answer."""

    def handle(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
        try:
            message = msgspec.convert(json_body(call.body), ChatMessage)
        except msgspec.ValidationError as problem:
            raise InvalidInput(
                "A message must be an object with text, of a bridge also with channel and sender: "
                f"{misfit(problem)}.",
                next_step='Send it like {"text": "/learning status"}.',
            ) from problem
        return json_answer(200, {"reply": chat(service, actor, message, member_of=bridges(service, actor))})

    return (Route(("POST",), "/api/v1/chat", "read", handle),)


ROUTES: Final = routes(lambda service, actor: members_behind(service.store, actor))
