"""Chat: ``/learning status | reward ARM [0..1] | reset [SCOPE]``, typed by a person, answered with a text.

What an arm is called need not be its id, but where more than one may be meant nothing is guessed: the answer names
them. A reset says what it would do, and is done when its code comes back from the same sender within five minutes, if
nothing was recorded meanwhile.

A command comes from whoever asks themselves, or through a *bridge*: an actor that may say who sent it. Then both must
be allowed what is done, it is done in the sender's name, and a sender whom nobody knows gets no answer.
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

from core.doors.exchange import Answer, Call, json_answer
from core.doors.http.routes import Handler, Route
from core.doors.service import Service
from core.errors import ArmscopeError, Denied, InvalidInput, StoreError, Unidentified
from core.flows import queries
from core.flows.bridges import members_behind
from core.flows.context import Context
from core.flows.names import arm_ids
from core.flows.reset import ResetScope, reset
from core.flows.reward import reward
from core.formats.openclaw_status import status_text
from core.formats.strict import json_body
from core.permissions import Action, authorise
from core.records.actor import Actor
from core.records.arm import ARM_TYPES, ArmType
from core.records.javascript import WHITE_SPACE, number, trimmed

CONFIRM_S: Final = 300
"""A confirmation holds so long."""
MAX_COMMAND_CHARS: Final = 2_000

Who = Callable[[str, str], Actor | None]
"""(channel, sender) → the member who it is; None = nobody knows."""

_ACTIONS: Final = "reset, reward, status"
_USAGE: Final = "Usage: /learning reward <arm_id_or_label> [0..1]"
_REASON: Final = "user feedback via /learning reward"
_WHITE: Final = re.compile(rf"[{WHITE_SPACE}]")
_COMMAND: Final = re.compile(rf"/learning(?:[{WHITE_SPACE}]+([^\n\r\u2028\u2029]*))?", re.IGNORECASE)
_LOOKS_LIKE_A_NUMBER: Final = re.compile(r"[+-]?[.,]?\d[\d.,]*(?:e[+-]?\d+)?%?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)")
_NO_CODE: Final = (
    "That confirmation doesn't hold: it is older than 5 minutes, or somebody else's, "
    "or something was recorded meanwhile."
)
_OUTCOMES: Final = {0.0: "rejected", 1.0: "accepted"}
_SHOWN: Final = 5
_SHOWN_CHARS: Final = 80
_CODE_CHARS: Final = 8


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command as it was typed; ``channel`` and ``sender`` say by whom, which only a bridge may."""

    text: str
    channel: str | None = None
    sender: str | None = None


class _Asker(NamedTuple):
    """Who wants it: in whose name it is done, all who must be allowed it, and what a confirmation is bound to."""

    context: Context
    actors: tuple[Actor, ...]
    name: str

    def permit(self, action: Action) -> None:
        for actor in self.actors:
            authorise(actor, action, self.context.learner)


def chat(service: Service, actor: Actor, message: Message, *, who: Who | None = None) -> str | None:
    """What is answered to a message; None = nothing: it is no command of ours, or from nobody that is known.

    ``who`` knows the members behind senders, where the actor is a bridge. Raises `Denied` where the actor or the
    sender may not do it, and for a sender who is named by anybody but a bridge, and `InvalidInput` for a bridge that
    names none; whatever else is wrong is said in the answer.
    """
    found = _COMMAND.fullmatch(trimmed(message.text[: MAX_COMMAND_CHARS + 1]))
    asker = _asker(service, actor, message, who)
    if found is None or asker is None:
        return None
    named, _, rest = trimmed(_WHITE.sub(" ", found[1] or "")).partition(" ")
    answer = _ANSWERS.get(named.lower() or "status")
    if answer is None:
        return f"Unknown learning action: {named[:_SHOWN_CHARS]}. Use: {_ACTIONS}"
    if len(message.text) > MAX_COMMAND_CHARS:
        return f"A command has at most {MAX_COMMAND_CHARS:,} characters. Nothing was done."
    try:
        return answer(asker, trimmed(rest))
    except StoreError:
        failed = _FAILED.get(named.lower(), "Learning status unavailable")
        return f"{failed.format(_named(trimmed(rest)))} — gateway or qortex not reachable."
    except (Denied, Unidentified):
        raise
    except ArmscopeError as problem:
        return f"{problem.problem} Nothing was done."


def _asker(service: Service, actor: Actor, message: Message, who: Who | None) -> _Asker | None:
    if who is None:
        if message.channel is not None or message.sender is not None:
            raise Denied(
                "Only a token that is marked as a bridge may say who sent a message.",
                next_step="Leave channel and sender out, or ask an operator for a bridge's token.",
            )
        return _Asker(service.context(actor), (actor,), f"{actor.token}/{actor.name}")
    if not message.channel or not message.sender:
        raise InvalidInput(
            "A bridge must name channel and sender, got a message without.", next_step="Add who sent it."
        )
    member = who(message.channel, message.sender)
    if member is None:
        return None
    learner = service.context(actor).learner
    if not member.roles(learner):
        return None
    name = "\0".join((str(actor.token), message.channel, message.sender))
    return _Asker(service.context(member, learner), (actor, member), name)


# Status


def _status(asker: _Asker, _rest: str) -> str:
    asker.permit("read")
    context = asker.context
    return status_text(
        queries.openclaw_summary(context),
        queries.openclaw_config(context),
        queries.openclaw_posteriors(context),
    )


# Reward


def _reward(asker: _Asker, rest: str) -> str:
    asker.permit("reward")
    if not rest:
        return _USAGE
    named, value = _split(rest, arm_ids(asker.context))
    given = reward(asker.context, named, value, reason=_REASON)
    outcome = _OUTCOMES.get(given.reward, "partial")
    return f"Recorded {outcome} (reward={number(given.reward)}) for {given.arm}"


def _split(rest: str, listed: Sequence[str]) -> tuple[str, float]:
    """The arm and the number that are meant; a number at the end is one, unless an arm is called just so."""
    name, last = _parts(rest)
    if not last or _called(rest, listed):
        return _meant(rest, listed), 1.0
    if not _NUMBER.fullmatch(last) or not 0 <= float(last) <= 1:
        raise InvalidInput(
            f"A reward must be a number from 0 to 1, like 0.5, got {last[:_SHOWN_CHARS]!r}.",
            next_step="Send it again with one.",
        )
    return _meant(name, listed), float(last)


def _parts(rest: str) -> tuple[str, str]:
    """What comes before what looks like a number at the end, and that; all of it and "" where nothing does.

    >>> _parts("bash 0.5"), _parts("read me"), _parts("1")
    (('bash', '0.5'), ('read me', ''), ('1', ''))
    """
    name, _, last = rest.rpartition(" ")
    is_number = name and _LOOKS_LIKE_A_NUMBER.fullmatch(last)
    return (trimmed(name), last) if is_number else (rest, "")


def _named(rest: str) -> str:
    """What may be an arm's name, where no arms can be read."""
    name, last = _parts(rest)
    is_number = _NUMBER.fullmatch(last) is not None and 0 <= float(last) <= 1
    return (name if is_number else rest)[:_SHOWN_CHARS]


def _meant(said: str, listed: Sequence[str]) -> str:
    """The one arm that may be meant: by its id, else by its label, else by a part of its id, in any case.

    An id is handed on as it is: what there is like it is said with the refusal.
    """
    if ":" in said:
        return said
    found = _called(said, listed) or [key for key in listed if said.casefold() in key.casefold()]
    if len(found) == 1:
        return found[0]
    shown = said[:_SHOWN_CHARS]
    if found:
        more = f" or {len(found) - _SHOWN} others" if len(found) > _SHOWN else ""
        problem = f"{shown!r} may mean {', '.join(found[:_SHOWN])}{more}."
    else:
        problem = f"No arm is called {shown!r}.{_near(said, listed)}"
    raise InvalidInput(problem, next_step="Name the one you mean.")


def _called(said: str, listed: Sequence[str]) -> list[str]:
    if said in listed:
        return [said]
    return [key for key in listed if _label(key).casefold() == said.casefold()]


def _label(key: str) -> str:
    """What people call an arm: its name; a skill that has only a main part goes by its category.

    >>> _label("tool:exec:Bash"), _label("skill:coding:main")
    ('Bash', 'coding')
    """
    kind, category, name = key.split(":", 2)
    return category if kind == "skill" and name == "main" else name


def _near(said: str, listed: Sequence[str]) -> str:
    labels = {_label(key).casefold(): key for key in listed}
    near = [labels[label] for label in get_close_matches(said.casefold(), labels, _SHOWN)]
    return f" Did you mean {', '.join(near)}?" if near else ""


# Reset


def _reset(asker: _Asker, rest: str) -> str:
    asker.permit("reset")
    said, code = _confirmation(rest)
    context = asker.context
    scope = _scope(said, arm_ids(context))
    moment = queries.revision(context).moment
    found = queries.preview_reset(context, arms=scope.arms, types=scope.types)
    if not found.columns.keys:
        return f"There is no arm to reset ({scope.words}). Nothing was reset."
    bound = _Bound(asker.name, (moment.origin, moment.revision, moment.token), found.columns.keys)
    now_s = context.clock() // 1000
    if code is not None and bound.holds(code, now_s):
        done = reset(
            context, arms=scope.arms, types=scope.types, reason="/learning reset", seen=moment.revision
        )
        return (
            f'Reset {done.reset_count} arm(s) for learner "{done.learner}". All posteriors back to Beta(1,1).'
        )
    again = "" if code is None else f"{_NO_CODE}\n"
    which = f"{said} " if said else ""
    return (
        f'{again}This would reset {len(found.columns):,} arm(s) ({scope.words}) of learner "{context.learner}" to '
        f"Beta(1,1), with {found.columns.n_pulls:,} pulls. Nothing is deleted, and it can be undone.\n"
        f"To do it, send within 5 minutes: /learning reset {which}confirm {bound.code(now_s)}"
    )


def _confirmation(rest: str) -> tuple[str, str | None]:
    """Scope and code.

    >>> _confirmation("tools confirm ABC"), _confirmation("confirm ABC"), _confirmation("tools")
    (('tools', 'ABC'), ('', 'ABC'), ('tools', None))
    """
    said, confirm, code = f" {rest}".rpartition(" confirm ")
    return (trimmed(said), trimmed(code)) if confirm else (rest, None)


class _Bound(NamedTuple):
    """What a confirmation is good for: ``moment`` is whose, which revision, by which write."""

    sender: str
    moment: tuple[str, int, int]
    arms: tuple[str, ...]

    def code(self, at_s: int) -> str:
        """What confirms it, made at a time; it is no secret's proof, since rights are asked again."""
        said = msgspec.json.encode((self.sender, *self.moment, self.arms, at_s))
        digest = hmac.new(self.moment[0].encode(), said, sha256).digest()
        return b32encode(digest).decode()[:_CODE_CHARS]

    def holds(self, code: str, now_s: int) -> bool:
        """Whether a code was made for this within the last five minutes."""
        given = code.upper().encode()
        return any(
            hmac.compare_digest(self.code(at_s).encode(), given)
            for at_s in range(now_s, now_s - CONFIRM_S, -1)
        )


def _scope(said: str, listed: Sequence[str]) -> ResetScope:
    """All arms, those of a type, or one."""
    word = said.lower()
    if word in {"", "all"}:
        return ResetScope()
    types: dict[str, ArmType] = {name: name for name in ARM_TYPES}
    plural: dict[str, ArmType] = {ResetScope(types=(name,)).words: name for name in ARM_TYPES}
    if word in types | plural and not _called(said, listed):
        return ResetScope(types=((types | plural)[word],))
    return ResetScope(arms=(_meant(said, listed),))


_ANSWERS: Final[dict[str, Callable[[_Asker, str], str]]] = {
    "status": _status,
    "reward": _reward,
    "reset": _reset,
}
_FAILED: Final = {
    "reward": 'Reward failed for "{}"',
    "reset": "Reset failed",
}


# Over HTTP

Bridges = Callable[[Service, Actor], Who | None]
"""Who knows the members behind an actor's senders; None: the actor is no bridge."""


def handler(bridges: Bridges) -> Handler:
    """``{text, channel?, sender?}`` → ``{reply}``, None where nothing is to be said."""

    def handle(service: Service, actor: Actor, call: Call) -> Answer:
        try:
            message = msgspec.convert(json_body(call.body), Message)
        except msgspec.ValidationError as problem:
            raise InvalidInput(
                f"A message must be an object with text, of a bridge also with channel and sender: {problem}.",
                next_step='Send it like {"text": "/learning status"}.',
            ) from problem
        return json_answer(200, {"reply": chat(service, actor, message, who=bridges(service, actor))})

    return handle


def routes(bridges: Bridges) -> tuple[Route, ...]:
    """The route of the chat."""
    return (Route(("POST",), "/api/v1/chat", "read", handler(bridges)),)


ROUTES: Final = routes(lambda service, actor: members_behind(service.store, actor))
