"""qortex's protocol, apart from what carries it: arguments as they were sent → the flows → qortex's answers.

Presence is read from the arguments themselves: a reward of 0 is a reward, one that wasn't sent is none. Numbers have
four decimals in answers, and nowhere else. A learner that is made by being asked begins as qortex's do: every prior
Beta(1, 1), no seeds, no minimum of pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from core.doors.desk import Desk
from core.errors import InvalidInput, NotApplicable, UnknownLearner
from core.flows.context import Context
from core.flows.names import arm_ids
from core.flows.offers import arm_states, finish_session, offer, report, start_session
from core.flows.reset import reset
from core.permissions import Action
from core.records.actor import Actor
from core.records.arm import ARM_TYPES, MICRO, Arm, check_key
from core.records.limits import shown
from core.records.observation import OUTCOME_REWARDS, RewardOutcome
from core.records.offer import ArmState, Asked, Report
from core.records.selection import Decision
from core.settings import DEFAULT_LEARNER

Given = Mapping[str, Any]
"""Arguments, as JSON had them."""
Document = dict[str, Any]
_T = TypeVar("_T")

_UNIFORM: Final = {"alpha_micro": MICRO, "beta_micro": MICRO}
FRESH: Final[Mapping[str, object]] = {
    "priors": dict.fromkeys(ARM_TYPES, _UNIFORM),
    "seed_arms": (),
    "min_pulls": 0,
}
"""The settings that a learner begins with which qortex's clients make."""
_DECIMALS: Final = 4
_SESSION: Final = "session_key"
_LAGGED: Final = "lagged"


class Tool(NamedTuple):
    """One call of the protocol: what the caller must be allowed, what must be there, and who answers."""

    action: Action
    required: tuple[str, ...]
    answer: Callable[[Desk, Actor, Given], Document]


class _Candidate(msgspec.Struct):
    id: str
    metadata: dict[str, Any] = {}
    token_cost: int = 0


class _Select(msgspec.Struct):
    candidates: list[_Candidate]
    learner: str | None = None
    context: dict[str, Any] | None = None
    k: int = 1
    token_budget: int | None = None
    min_pulls: int | None = None
    seed_arms: tuple[str, ...] | None = None
    seed_boost: float | None = None
    session_key: str | None = None


class _Observe(msgspec.Struct):
    arm_id: str
    learner: str | None = None
    outcome: str = ""
    reward: float | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, Any] | None = None
    session_key: str | None = None


class _Posteriors(msgspec.Struct):
    learner: str | None = None
    context: dict[str, Any] | None = None
    arm_ids: tuple[str, ...] | None = None


class _Metrics(msgspec.Struct):
    learner: str | None = None
    window: int | None = None


class _Reset(msgspec.Struct):
    learner: str | None = None
    arm_ids: tuple[str, ...] | None = None
    context: dict[str, Any] | None = None


class _Start(msgspec.Struct):
    session_name: str
    learner: str | None = None


class _End(msgspec.Struct):
    session_id: str


def call(desk: Desk, actor: Actor, name: str, given: object) -> Document:
    """What a call comes to.

    Raises
    ------
    InvalidInput
        Something that must be there isn't, or is of another kind; nothing was done.
    Denied
        Who asks may not.
    """
    tool = TOOLS[name]
    if not isinstance(given, Mapping):
        raise InvalidInput(
            "What is asked must be one object, got something else.",
            next_step=f"{_names(tool.required)}; nothing was done.",
        )
    if any(one not in given for one in tool.required if one != "learner"):
        raise InvalidInput(_names(tool.required), next_step="Send them; nothing was done.")
    return tool.answer(desk, actor, given)


def _names(required: tuple[str, ...]) -> str:
    """
    >>> _names(("learner", "arm_id")), _names(("session_id",))
    ("'learner' and 'arm_id' are required", "'session_id' is required")
    """
    quoted = [f"'{name}'" for name in required]
    return f"{' and '.join(quoted)} {'is' if len(quoted) == 1 else 'are'} required"


def _read(given: Given, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(
            f"An argument is of another kind than it must be: {problem}.",
            next_step="Send it as the schema has it; nothing was done.",
        ) from None


def _select(desk: Desk, actor: Actor, given: Given) -> Document:
    said = _read(given, _Select)
    asked = Asked(
        k=said.k,
        budget_tokens=said.token_budget,
        min_pulls=said.min_pulls,
        seed_arms=said.seed_arms,
        seed_boost=said.seed_boost,
    )
    on_offer = {one.id: one for one in said.candidates}
    # A cost of 0 is qortex's for one that nobody gave.
    arms = [Arm(key=one.id, token_cost=one.token_cost or None) for one in on_offer.values()]
    session = _session(said.session_key, said.context)
    chosen = offer(desk.context(actor, said.learner), arms, asked, session=session, fresh=FRESH).selection
    decisions = () if chosen is None else chosen.decisions

    def told(*, included: bool) -> list[Document]:
        return [_entry(on_offer[one.arm]) for one in decisions if one.included is included]

    return {
        "selected_arms": told(included=True),
        "excluded_arms": told(included=False),
        "is_baseline": chosen is not None and chosen.run_class == "baseline",
        "scores": _scores(decisions),
        "token_budget": said.token_budget or 0,
        "used_tokens": sum(on_offer[one.arm].token_cost for one in decisions if one.included),
    }


def _entry(one: _Candidate) -> Document:
    return {"id": one.id, "metadata": one.metadata, "token_cost": one.token_cost}


def _scores(decisions: tuple[Decision, ...]) -> dict[str, float]:
    return {one.arm: _short(one.draw) for one in decisions if one.draw is not None}


def _observe(desk: Desk, actor: Actor, given: Given) -> Document:
    said = _read(given, _Observe)
    value = None if said.reward is msgspec.UNSET else said.reward
    found = report(
        desk.context(actor, said.learner),
        Report(
            arm=said.arm_id,
            value=value,
            outcome=None if value is not None else _outcome(said.outcome),
            reason=_reason(said.context),
            session=_session(said.session_key, said.context),
            is_lagged=(said.context or {}).get(_LAGGED) is True,
        ),
        fresh=FRESH,
    )
    return {
        "arm_id": found.arm,
        "alpha": _short(found.alpha),
        "beta": _short(found.beta),
        "mean": _short(found.mean),
        "pulls": found.pulls,
    }


def _outcome(said: str) -> RewardOutcome | None:
    """The outcome that a word stands for; "" is none."""
    if not said:
        return None
    for known in OUTCOME_REWARDS:
        if said == known:
            return known
    raise InvalidInput(
        f"An outcome must be one of {', '.join(OUTCOME_REWARDS)}, got {shown(said)}.",
        next_step="Send one of those, or a reward from 0 to 1, which counts before it.",
    )


def _session(named: str | None, context: Given | None) -> str | None:
    """The session that a call is about: named beside the rest, or in its context."""
    told = (context or {}).get(_SESSION) if named is None else named
    return told if isinstance(told, str) and told else None


def _reason(context: Given | None) -> str | None:
    """What stays with the fact of a context: its reason, or else all of it."""
    if not context:
        return None
    reason = context.get("reason")
    if isinstance(reason, str):
        return reason
    rest = {name: held for name, held in context.items() if name not in {_LAGGED, _SESSION, "reason"}}
    return msgspec.json.encode(rest).decode() if rest else None


def _posteriors(desk: Desk, actor: Actor, given: Given) -> Document:
    said = _read(given, _Posteriors)
    context = desk.context(actor, said.learner)
    states = arm_states(context, said.arm_ids).arms
    return {"learner": context.learner, "posteriors": {state.arm: _state(state) for state in states}}


def _state(state: ArmState) -> Document:
    return {
        "alpha": _short(state.alpha),
        "beta": _short(state.beta),
        "pulls": state.pulls,
        "total_reward": _short(state.total_reward),
        "last_updated": state.last_updated or "",
        "mean": _short(state.mean),
    }


def _metrics(desk: Desk, actor: Actor, given: Given) -> Document:
    context = desk.context(actor, _read(given, _Metrics).learner)
    known = arm_states(context)
    pulls = sum(state.pulls for state in known.arms)
    total = sum(state.total_reward for state in known.arms)
    return {
        "learner": context.learner,
        "total_pulls": pulls,
        "total_reward": total,
        "accuracy": _short(total / max(pulls, 1)),
        "arm_count": len(known.arms),
        "explore_ratio": known.baseline_rate,
    }


def _reset(desk: Desk, actor: Actor, given: Given) -> Document:
    """Both shapes: qortex's own, and what OpenClaw reads of it. Arms that nobody knows have nothing to reset."""
    said = _read(given, _Reset)
    for key in said.arm_ids or ():
        check_key(key)
    context = desk.context(actor, said.learner)
    context.permit("reset")
    done = _reset_known(context, said.arm_ids)
    return {
        "learner": context.learner,
        "reset_count": len(done),
        "arm_ids": list(done),
        "deleted": len(done),
        "status": "reset",
    }


def _reset_known(context: Context, named: tuple[str, ...] | None) -> tuple[str, ...]:
    try:
        if named is None:
            return reset(context).arm_ids
        known = set(arm_ids(context)).intersection(named)
        return reset(context, arms=sorted(known)).arm_ids if known else ()
    except (UnknownLearner, NotApplicable):
        return ()


def _start(desk: Desk, actor: Actor, given: Given) -> Document:
    said = _read(given, _Start)
    begun = start_session(desk.context(actor, said.learner), said.session_name, fresh=FRESH)
    return {"session_id": begun.uid, "learner": begun.learner}


def _end(desk: Desk, actor: Actor, given: Given) -> Document:
    """Sessions are told by their ids alone, whatever learner they began in."""
    uid = _read(given, _End).session_id
    ended = finish_session(_anywhere(desk, actor), uid)
    if ended is None:
        return {"error": f"Session {uid[:80]} not found in any learner"}
    return {
        "session_id": uid,
        "learner": ended.learner,
        "selected_arms": [],
        "outcomes": {},
        "started_at": ended.started_at,
        "ended_at": ended.ended_at or "",
    }


def _anywhere(desk: Desk, actor: Actor) -> Context:
    """A context somewhere that the actor has to do with."""
    own = [grant.learner for grant in actor.grants if grant.learner is not None]
    return desk.context(actor, next(iter(own), desk.learner or DEFAULT_LEARNER))


def _short(number: float) -> float:
    return round(number, _DECIMALS)


TOOLS: Final[Mapping[str, Tool]] = {
    "select": Tool("select", ("learner", "candidates"), _select),
    "observe": Tool("ingest", ("learner", "arm_id"), _observe),
    "posteriors": Tool("read", ("learner",), _posteriors),
    "metrics": Tool("read", ("learner",), _metrics),
    "session_start": Tool("ingest", ("learner", "session_name"), _start),
    "session_end": Tool("ingest", ("session_id",), _end),
    "reset": Tool("reset", ("learner",), _reset),
}
"""What can be called, by name."""
