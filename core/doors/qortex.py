"""qortex's protocol, apart from its transport: arguments to flows, and answers in qortex's shape.

Presence is read from the arguments: a reward of 0 is a reward, a missing one is none. Numbers have four decimals in
answers only. A learner that a client creates begins as qortex's do: every prior Beta(1, 1), no seeds, no minimum of
pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from core.doors.service import Service
from core.errors import InvalidInput, NotApplicable, UnknownLearner
from core.flows.context import Context, arm_ids
from core.flows.corrections import reset
from core.flows.offers import arm_states, finish_session, offer, report, start_session
from core.records.actor import Action, Actor
from core.records.arm import ARM_TYPES, MICRO, Arm, check_key
from core.records.limits import shown
from core.records.misfits import misfit
from core.records.observation import OUTCOME_REWARDS, RewardOutcome
from core.records.offer import ArmState, Report, SelectionOptions
from core.settings import DEFAULT_LEARNER

Arguments = Mapping[str, Any]
"""Arguments from JSON."""
Document = dict[str, Any]

_UNIFORM: Final = {"alpha_micro": MICRO, "beta_micro": MICRO}
FRESH: Final[Mapping[str, object]] = {
    "priors": dict.fromkeys(ARM_TYPES, _UNIFORM),
    "seed_arms": (),
    "min_pulls": 0,
}
"""Settings of a learner that a client of qortex creates."""
_DECIMALS: Final = 4
_SESSION: Final = "session_key"
_LAGGED: Final = "lagged"


class QortexCall(NamedTuple):
    """Call of the protocol: its action, the record of its arguments, and its handler."""

    action: Action
    arguments: type[msgspec.Struct]
    answer: Callable[[Service, Actor, Any], Document]

    @property
    def required(self) -> list[str]:
        return [one.name for one in msgspec.structs.fields(self.arguments) if one.required]


class _Candidate(msgspec.Struct):
    id: str
    metadata: dict[str, Any] = {}
    token_cost: int = 0


class _Select(msgspec.Struct):
    learner: str
    candidates: list[_Candidate]
    context: dict[str, Any] | None = None
    k: int = 1
    token_budget: int | None = None
    min_pulls: int | None = None
    seed_arms: tuple[str, ...] | None = None
    seed_boost: float | None = None
    session_key: str | None = None


class _Observe(msgspec.Struct):
    learner: str
    arm_id: str
    outcome: str = ""
    reward: float | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, Any] | None = None
    session_key: str | None = None


class _Posteriors(msgspec.Struct):
    learner: str
    context: dict[str, Any] | None = None
    arm_ids: tuple[str, ...] | None = None


class _Metrics(msgspec.Struct):
    learner: str
    window: int | None = None


class _Reset(msgspec.Struct, forbid_unknown_fields=True):
    learner: str
    arm_ids: tuple[str, ...] | None = None
    context: dict[str, Any] | None = None


class _Start(msgspec.Struct):
    learner: str
    session_name: str


class _End(msgspec.Struct):
    session_id: str


def call(service: Service, actor: Actor, name: str, arguments: object) -> Document:
    """Return the answer to a call; raises `InvalidInput` for missing or invalid arguments, and `Denied`."""
    tool = TOOLS[name]
    if not isinstance(arguments, Mapping):
        raise InvalidInput(
            "The arguments must be one object, got something else.",
            next_step=f"{_names(tool.required)}; nothing was done.",
        )
    if any(one not in arguments or (one == "learner" and not arguments[one]) for one in tool.required):
        raise InvalidInput(_names(tool.required), next_step="Send them; nothing was done.")
    try:
        request = msgspec.convert(arguments, tool.arguments)
    except msgspec.ValidationError as problem:
        raise InvalidInput(
            f"An argument must have the type in the schema: {misfit(problem, arguments)}.",
            next_step="Send it as the schema has it; nothing was done.",
        ) from None
    return tool.answer(service, actor, request)


def _names(required: Sequence[str]) -> str:
    """
    >>> _names(("learner", "arm_id")), _names(("session_id",))
    ("'learner' and 'arm_id' are required", "'session_id' is required")
    """
    quoted = [f"'{name}'" for name in required]
    return f"{' and '.join(quoted)} {'is' if len(quoted) == 1 else 'are'} required"


def _select(service: Service, actor: Actor, request: _Select) -> Document:
    options = SelectionOptions(
        k=request.k,
        budget_tokens=request.token_budget,
        min_pulls=request.min_pulls,
        seed_arms=request.seed_arms,
        seed_boost=request.seed_boost,
    )
    on_offer = {one.id: one for one in request.candidates}
    # qortex sends a missing cost as 0.
    arms = [Arm(key=one.id, token_cost=one.token_cost or None) for one in on_offer.values()]
    session = _session(request.session_key, request.context)
    chosen = offer(
        service.context(actor, request.learner), arms, options, session=session, fresh=FRESH
    ).selection
    # Its client names the excluded arms in a text, and an arm that an experiment has out must not be there.
    shown_arms = set() if chosen is None else {*chosen.included, *chosen.nameable}
    decisions = [] if chosen is None else [one for one in chosen.decisions if one.arm in shown_arms]

    def entries(*, included: bool) -> list[Document]:
        chosen_here = (on_offer[one.arm] for one in decisions if one.included is included)
        return [{"id": one.id, "metadata": one.metadata, "token_cost": one.token_cost} for one in chosen_here]

    return {
        "selected_arms": entries(included=True),
        "excluded_arms": entries(included=False),
        "is_baseline": chosen is not None and chosen.run_class == "baseline",
        "scores": {one.arm: _short(one.draw) for one in decisions if one.draw is not None},
        "token_budget": request.token_budget or 0,
        "used_tokens": sum(on_offer[one.arm].token_cost for one in decisions if one.included),
    }


def _observe(service: Service, actor: Actor, request: _Observe) -> Document:
    value = None if request.reward is msgspec.UNSET else request.reward
    state = report(
        service.context(actor, request.learner),
        Report(
            arm=request.arm_id,
            value=value,
            outcome=None if value is not None else _outcome(request.outcome),
            reason=_reason(request.context),
            session=_session(request.session_key, request.context),
            is_lagged=(request.context or {}).get(_LAGGED) is True,
        ),
        fresh=FRESH,
    )
    return {
        "arm_id": state.arm,
        "alpha": _short(state.alpha),
        "beta": _short(state.beta),
        "mean": _short(state.mean),
        "pulls": state.pulls,
    }


def _outcome(text: str) -> RewardOutcome | None:
    if not text:
        return None
    for known in OUTCOME_REWARDS:
        if text == known:
            return known
    raise InvalidInput(
        f"An outcome must be one of {', '.join(OUTCOME_REWARDS)}, got {shown(text)}.",
        next_step="Send one of those, or a reward from 0 to 1, which counts before it.",
    )


def _session(named: str | None, context: Arguments | None) -> str | None:
    session = (context or {}).get(_SESSION) if named is None else named
    return session if isinstance(session, str) and session else None


def _reason(context: Arguments | None) -> str | None:
    if not context:
        return None
    reason = context.get("reason")
    if isinstance(reason, str):
        return reason
    rest = {name: held for name, held in context.items() if name not in {_LAGGED, _SESSION, "reason"}}
    return msgspec.json.encode(rest).decode() if rest else None


def _posteriors(service: Service, actor: Actor, request: _Posteriors) -> Document:
    context = service.context(actor, request.learner)
    states = arm_states(context, request.arm_ids).arms
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


def _metrics(service: Service, actor: Actor, request: _Metrics) -> Document:
    context = service.context(actor, request.learner)
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


def _reset(service: Service, actor: Actor, request: _Reset) -> Document:
    """Reset arms; the answer has the fields of qortex and those that OpenClaw reads. Unknown arms are skipped."""
    for key in request.arm_ids or ():
        check_key(key)
    context = service.context(actor, request.learner)
    context.permit("reset")
    known = _reset_known(context, request.arm_ids)
    done = known or ()
    warning = {"warning": f"There is no learner {shown(context.learner)}; nothing was reset."}
    return {
        "learner": context.learner,
        "reset_count": len(done),
        "arm_ids": list(done),
        "deleted": len(done),
        "status": "reset",
        **(warning if known is None else {}),
    }


def _reset_known(context: Context, named: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the arms that were reset; None without such a learner."""
    try:
        if named is None:
            return reset(context).arm_ids
        known = set(arm_ids(context)).intersection(named)
        return reset(context, arms=sorted(known)).arm_ids if known else ()
    except UnknownLearner:
        return None
    except NotApplicable:
        return ()


def _start(service: Service, actor: Actor, request: _Start) -> Document:
    begun = start_session(service.context(actor, request.learner), request.session_name, fresh=FRESH)
    return {"session_id": begun.uid, "learner": begun.learner}


def _end(service: Service, actor: Actor, request: _End) -> Document:
    """End a session by its id alone, in the learner of the session."""
    uid = request.session_id
    own = [grant.learner for grant in actor.grants if grant.learner is not None]
    ended = finish_session(service.context(actor, next(iter(own), service.learner or DEFAULT_LEARNER)), uid)
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


def _short(number: float) -> float:
    return round(number, _DECIMALS)


TOOLS: Final[Mapping[str, QortexCall]] = {
    "select": QortexCall("select", _Select, _select),
    "observe": QortexCall("ingest", _Observe, _observe),
    "posteriors": QortexCall("read", _Posteriors, _posteriors),
    "metrics": QortexCall("read", _Metrics, _metrics),
    "session_start": QortexCall("ingest", _Start, _start),
    "session_end": QortexCall("ingest", _End, _end),
    "reset": QortexCall("reset", _Reset, _reset),
}
"""Calls by name."""
