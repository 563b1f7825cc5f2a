"""Offers: candidates → a selection that is remembered → what a client reports of it, arm by arm → a run.

For clients that select first and then tell what came of each arm, without naming a run. The first report of an arm
that was offered makes the run of that offer, the others add to it: so it is corrected, compared and drawn like any
other. A report that no offer waits for is a row of the ledger of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from core.errors import UnknownLearner
from core.flows.context import Context
from core.flows.requests import unknown_arm
from core.flows.select import offered, with_guidance
from core.flows.settings import put
from core.observe import observe
from core.policy import select as select_arms
from core.records.arm import MICRO, Arm, Prior, check_key
from core.records.evidence import Evidence
from core.records.judged import Judged
from core.records.learner import LearnerSettings
from core.records.observation import Amount
from core.records.offer import ArmState, Asked, Offer, Report, Reported, SessionSeen, States
from core.records.run import OFFERED, Inventory, Run
from core.records.selection import Selection
from core.records.times import HOUR_MS, iso
from core.records.verdict import Verdict
from core.store.ledger import Entry, add_observations
from core.store.offers import (
    Waiting,
    add_offer,
    begin_session,
    close_offers,
    end_session,
    keep_told,
    may_grow,
    observe_later,
    session_named,
    waiting_offer,
)
from core.store.reads import FoundRun, arm_columns, arm_row, learners, outcome_of, run_of_uid
from core.store.runs import add_runs
from core.store.transaction import DECLARED, Detail, Facts, Transaction

WAITS_MS: Final = HOUR_MS
"""How long an offer waits to be told about."""

Fresh = Mapping[str, object]
"""Settings that a learner begins with which is made by being asked."""


def offer(
    context: Context,
    arms: Sequence[Arm],
    asked: Asked = Asked(),  # noqa: B008 - frozen
    *,
    session: str | None = None,
    fresh: Fresh = {},  # noqa: B006 - nobody changes it
) -> Offer:
    """Choose among ``arms`` and remember what was offered; on disk when this returns, and the arms are known then.

    Nothing on offer: nothing is chosen, and nothing remembered.
    """
    context.permit("select", create=True)
    if not arms:
        return Offer(number=None, selection=None)
    seed = context.entropy()

    def work(txn: Transaction) -> Offer:
        _begin(txn, fresh)
        txn.ensure_arms(_boosted(txn, arms, asked), declared=DECLARED)
        settings = _overridden(txn.settings, asked)
        columns = offered(arm_columns(txn), arms, settings)
        chosen = with_guidance(select_arms(columns, settings, seed=seed, revision=txn.revision))
        close_offers(txn, txn.now_ms - WAITS_MS)
        return Offer(
            number=add_offer(txn, chosen, session=txn.erased.session(session) or ""), selection=chosen
        )

    return context.write("select", work, create=True)


def _begin(txn: Transaction, fresh: Fresh) -> None:
    """Give a learner that this makes the settings it is to begin with."""
    if txn.created:
        txn.audit("create", None, {"learner": txn.name})
        for name, value in fresh.items():
            put(txn, name, value)


def _boosted(txn: Transaction, arms: Sequence[Arm], asked: Asked) -> list[Arm]:
    """The arms, those with a prior of their own that this call makes seeds of."""
    if asked.seed_boost is None:
        return list(arms)
    seeds = asked.seed_arms or tuple(arm.key for arm in arms)
    fresh = set(seeds) - txn.arm_nos(seeds).keys()
    prior = Prior(alpha_micro=max(1, round(asked.seed_boost * MICRO)), beta_micro=MICRO)
    return [msgspec.structs.replace(arm, prior=prior) if arm.key in fresh else arm for arm in arms]


def _overridden(settings: LearnerSettings, asked: Asked) -> LearnerSettings:
    changes = {name: getattr(asked, name) for name in ("k", "budget_tokens", "min_pulls", "seed_arms")}
    return msgspec.structs.replace(
        settings, **{name: value for name, value in changes.items() if value is not None}
    )


# What comes of it


def report(
    context: Context,
    said: Report,
    *,
    fresh: Fresh = {},  # noqa: B006 - nobody changes it
) -> Reported:
    """Record what a client says of an arm; on disk when this returns. An arm nobody knows is made.

    It belongs to the latest offer younger than an hour that holds the arm unobserved, and makes its run where there
    is none yet: 0 or 1 is what the run was observed to be, anything between a row of the ledger about it. Without
    such an offer it is a row about no run; so is what is said afterwards by a person, and of a run that was begun
    before the arm was reset.

    Raises
    ------
    InvalidArm
        An id that is none.
    InvalidReward
        A reward outside 0 to 1.
    """
    check_key(said.arm)

    def work(txn: Transaction) -> Reported:
        _begin(txn, fresh)
        arm_no = txn.ensure_arms([Arm(key=said.arm)], declared=DECLARED)[said.arm]
        waiting = None if said.is_lagged else _waiting(txn, arm_no, said.session)
        run, act = _told(txn, said, arm_no, waiting)
        return _reported(txn, said, arm_no, run, act)

    return context.write("ingest", work, create=True)


def _waiting(txn: Transaction, arm_no: int, session: str | None) -> Waiting | None:
    return waiting_offer(txn, arm_no, after_ms=txn.now_ms - WAITS_MS, session=txn.erased.session(session))


def _told(
    txn: Transaction, said: Report, arm_no: int, waiting: Waiting | None
) -> tuple[str | None, str | None]:
    """Put what was said where it belongs; the run it is about, and the act that it became."""
    if waiting is None:
        return None, _add_row(txn, said, arm_no)
    is_plain = said.reward in {0.0, 1.0}
    run_no, is_new = waiting.run_no, not waiting.run_no
    if is_new:
        run_no = _make_run(txn, waiting, said if is_plain else None)
    keep_told(txn, waiting, arm_no, run_no)
    uid = _uid(txn, waiting.offer_no)
    if is_plain and (is_new or may_grow(txn, run_no)):
        if not is_new:
            observe_later(txn, run_no, arm_no, referenced=said.reward == 1)
        return uid, None
    return uid, _add_row(txn, said, arm_no, run_of_uid(txn, uid))


def _make_run(txn: Transaction, waiting: Waiting, first: Report | None) -> int:
    """The run of an offer of which nothing was observed so far, but for one arm; its number."""
    chosen = Selection.from_json(waiting.choice)
    arms = tuple(
        Arm(key=one.arm, token_cost=one.token_cost or None) for one in chosen.decisions if one.included
    )
    used = first is not None and first.reward == 1
    known = None if first is None else first.arm
    run = Run(
        uid=_uid(txn, waiting.offer_no),
        format=OFFERED,
        session=waiting.session or None,
        ended_at_ms=txn.now_ms,
        run_class=chosen.run_class,
        inventory=Inventory(kind="declared", arms=arms),
        excluded=chosen.excluded,
        unobserved=tuple(arm.key for arm in arms if arm.key != known),
        selection=chosen,
    )
    evidence = Evidence(referenced=tuple(used and arm.key == known for arm in arms))
    verdict = Verdict(outcome="passive" if chosen.run_class == "passive" else "observed")
    add_runs(
        txn, [Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))]
    )
    found = run_of_uid(txn, run.uid)
    assert found is not None  # noqa: S101 - it was just added
    return found.run_no


def _uid(txn: Transaction, offer_no: int) -> str:
    """What the run of an offer is called, in this learner and in those that read its export."""
    whose = hashlib.blake2b(txn.origin.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"offer-{offer_no}-{whose}"


def _add_row(txn: Transaction, said: Report, arm_no: int, run: FoundRun | None = None) -> str:
    amount = Amount.of(said.reward)
    flags = None if run is None or not run.standing else outcome_of(txn, run.run_no, arm_no)
    entry = Entry(
        kind="reported",
        arm_no=arm_no,
        run_no=0 if run is None else run.run_no,
        run_revision=0 if run is None else run.revision,
        flags=flags or 0,
        success_micro=amount.success_micro,
        failure_micro=amount.failure_micro,
        reason=said.reason or "",
        actor=txn.actor.name,
        at_ms=txn.now_ms,
    )
    act = f"reward-{add_observations(txn, [entry]).numbers[0]}"
    detail: Detail = {
        "arm": said.arm,
        "kind": "reported",
        "reward": amount.success_micro / MICRO,
        "run": None if run is None else run.uid,
        "reason": said.reason,
        "lagged": said.is_lagged,
    }
    txn.audit("reward", act, detail)
    return act


def _reported(txn: Transaction, said: Report, arm_no: int, run: str | None, act: str | None) -> Reported:
    row = arm_row(txn, arm_no)
    if row is None:
        raise unknown_arm(txn, said.arm)
    alpha, beta, pulls = row
    return Reported(
        arm=said.arm,
        run=run,
        id=act,
        alpha=alpha / MICRO,
        beta=beta / MICRO,
        mean=alpha / (alpha + beta),
        pulls=pulls,
    )


# What is known


def arm_states(context: Context, arms: Sequence[str] | None = None) -> States:
    """Arms (None = all) of which something is known beyond the prior of their type, by id. A learner nobody has
    heard of has none; asking makes no learner.
    """
    context.permit("read")
    try:
        with context.reading() as snapshot:
            columns, settings = arm_columns(snapshot), snapshot.settings
    except UnknownLearner:
        return States(arms=(), baseline_rate=LearnerSettings().baseline_rate)
    wanted = None if arms is None else set(arms)
    found = []
    for place, key in enumerate(columns.keys):
        prior = settings.priors.of(columns.types[place])
        alpha = int(columns.base_alpha_micro[place] + columns.success_micro[place])
        beta = int(columns.base_beta_micro[place] + columns.failure_micro[place])
        is_moved = (alpha, beta) != (prior.alpha_micro, prior.beta_micro)
        is_known = is_moved or columns.pulls[place] > 0 or columns.epoch[place] > 0
        if is_known and (wanted is None or key in wanted):
            found.append(
                ArmState(
                    arm=key,
                    alpha=alpha / MICRO,
                    beta=beta / MICRO,
                    mean=alpha / (alpha + beta),
                    pulls=int(columns.pulls[place]),
                    total_reward=int(columns.success_micro[place]) / MICRO,
                    last_updated=iso(int(columns.last_at_ms[place])),
                )
            )
    return States(arms=tuple(found), baseline_rate=settings.baseline_rate)


# Sessions of clients


def start_session(context: Context, name: str, *, fresh: Fresh = {}) -> SessionSeen:  # noqa: B006
    """Remember that a client begins a session, under an id that it ends it by."""
    uid = context.identity()

    def work(txn: Transaction) -> SessionSeen:
        _begin(txn, fresh)
        begin_session(txn, uid, txn.erased.session(name) or "")
        return _seen(txn, uid)

    return context.write("ingest", work, create=True)


def finish_session(context: Context, uid: str) -> SessionSeen | None:
    """Remember that a session ended, in whichever learner it began, of those where who asks may say so; again changes
    nothing. None: there is no session by that id.
    """
    for place in _places(context):
        with place.store.reading(place.learner) as snapshot:
            known = session_named(snapshot, uid)
            if known is not None and known.ended_ms is not None:
                return _seen(snapshot, uid)
        if known is not None:
            return place.write("ingest", lambda txn: _ended(txn, uid))
    return None


def _places(context: Context) -> list[Context]:
    """The context in every learner where who asks may ingest; raises `Denied` where that can be none."""
    with context.store.reading(context.learner) as snapshot:
        found = [context.of(name) for name in learners(snapshot)]
    allowed = [place for place in found if place.may("ingest")]
    if not allowed:
        context.permit("ingest")
    return allowed


def _ended(txn: Transaction, uid: str) -> SessionSeen:
    known = session_named(txn, uid)
    if known is not None and known.ended_ms is None:
        end_session(txn, known.number)
    return _seen(txn, uid)


def _seen(facts: Facts, uid: str) -> SessionSeen:
    known = session_named(facts, uid)
    assert known is not None  # noqa: S101 - it was found before
    return SessionSeen(
        uid=uid,
        learner=facts.name,
        name=known.name,
        started_at=iso(known.started_ms) or "",
        ended_at=iso(known.ended_ms),
    )
