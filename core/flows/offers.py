"""Offers: selections for clients that select first and report each arm later, without naming a run.

The first report of an offered arm creates the run of that offer, and later reports add to it. It is corrected and
compared like any other run. A report without an open offer is a ledger row of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from core.errors import UnknownLearner
from core.flows.context import Context, unknown_arm
from core.flows.select import offered, overridden, session_side, stop_harmful, with_guidance
from core.flows.settings import put
from core.maths.observe import observe
from core.maths.policy import select as select_arms
from core.records.arm import MICRO, Arm, Prior, check_key
from core.records.evidence import Evidence, Judged, Verdict
from core.records.learner import LearnerSettings
from core.records.observation import Amount
from core.records.offer import ArmState, Offer, Report, Reported, SelectionOptions, SessionView, States
from core.records.run import OFFERED, Inventory, Run
from core.records.selection import Selection
from core.records.times import HOUR_MS, iso
from core.store.experiments import assign
from core.store.ledger import Entry, add_observations
from core.store.offers import (
    Waiting,
    add_offer,
    begin_session,
    close_offers,
    end_session,
    may_grow,
    observe_later,
    remember_report,
    session_named,
    waiting_offer,
)
from core.store.reads import RunMatch, arm_columns, arm_row, learners, outcome_of, run_of_uid
from core.store.runs import add_runs
from core.store.transaction import DECLARED, Detail, Facts, Transaction

WAITS_MS: Final = HOUR_MS
"""Time that an offer waits for reports."""

Fresh = Mapping[str, object]
"""Initial settings of a learner that a request creates."""


def offer(
    context: Context,
    arms: Sequence[Arm],
    options: SelectionOptions = SelectionOptions(),  # noqa: B008 - frozen
    *,
    session: str | None = None,
    fresh: Fresh = {},  # noqa: B006 - never changed
) -> Offer:
    """Select among ``arms`` and store the offer. It is on disk when this returns, and the arms exist then.

    Without arms, nothing is selected or stored.
    """
    context.permit("select", create=True)
    if not arms:
        return Offer(number=None, selection=None)
    seed = context.entropy()

    def work(txn: Transaction) -> Offer:
        _begin(txn, fresh)
        txn.ensure_arms(_boosted(txn, arms, options), declared=DECLARED)
        own = {name: getattr(options, name) for name in ("k", "budget_tokens", "min_pulls", "seed_arms")}
        settings = overridden(txn.settings, **own)
        columns = offered(arm_columns(txn), arms, settings)
        sided = session_side(txn, session, columns.keys, seed=seed, now_ms=txn.now_ms)
        assigned = None if sided is None else sided.assigned
        chosen = with_guidance(
            select_arms(columns, settings, seed=seed, revision=txn.revision, assigned=assigned)
        )
        if session and sided is not None and sided.is_new:
            assign(txn, sided, session=session)  # without a session its run is assigned
            stop_harmful(txn)
        close_offers(txn, WAITS_MS)
        return Offer(
            number=add_offer(txn, chosen, session=txn.erased.session(session) or ""), selection=chosen
        )

    return context.write("select", work, create=True)


def _begin(txn: Transaction, fresh: Fresh) -> None:
    """Set the initial settings of a new learner."""
    if txn.created:
        txn.audit("create", None, {"learner": txn.name})
        for name, value in fresh.items():
            put(txn, name, value)


def _boosted(txn: Transaction, arms: Sequence[Arm], options: SelectionOptions) -> list[Arm]:
    """Return the arms. New seed arms of this call get a prior of their own."""
    if options.seed_boost is None:
        return list(arms)
    seeds = options.seed_arms or tuple(arm.key for arm in arms)
    fresh = set(seeds) - txn.arm_nos(seeds).keys()
    prior = Prior(alpha_micro=max(1, round(options.seed_boost * MICRO)), beta_micro=MICRO)
    return [msgspec.structs.replace(arm, prior=prior) if arm.key in fresh else arm for arm in arms]


# Reports


def report(
    context: Context,
    result: Report,
    *,
    fresh: Fresh = {},  # noqa: B006 - never changed
) -> Reported:
    """Record a client's result for an arm; it is on disk when this returns. An unknown arm is created.

    The report belongs to the latest offer of the past hour that holds the arm unobserved, and creates its run if
    there is none. 0 or 1 is observed in the run; a value between them is a ledger row about it. Without such an offer
    it is a row without a run. The same holds for a later report by a person, and for an arm that was reset after the
    run. Raises `InvalidArm` for an invalid id, and `InvalidReward` outside 0 to 1.
    """
    check_key(result.arm)

    def work(txn: Transaction) -> Reported:
        _begin(txn, fresh)
        arm_no = txn.ensure_arms([Arm(key=result.arm)], declared=DECLARED)[result.arm]
        waiting = None if result.is_lagged else _waiting(txn, arm_no, result.session)
        run, act = _write_result(txn, result, arm_no, waiting)
        row = arm_row(txn, arm_no)
        if row is None:
            raise unknown_arm(txn, result.arm)
        alpha, beta, pulls = row
        return Reported(
            arm=result.arm,
            run=run,
            id=act,
            alpha=alpha / MICRO,
            beta=beta / MICRO,
            mean=alpha / (alpha + beta),
            pulls=pulls,
        )

    return context.write("ingest", work, create=True)


def _waiting(txn: Transaction, arm_no: int, session: str | None) -> Waiting | None:
    return waiting_offer(txn, arm_no, waits_ms=WAITS_MS, session=txn.erased.session(session))


def _write_result(
    txn: Transaction, result: Report, arm_no: int, waiting: Waiting | None
) -> tuple[str | None, str | None]:
    """Write the report to its run or the ledger. Return the run's uid and the id of the act."""
    if waiting is None:
        return None, _add_row(txn, result, arm_no)
    is_plain = result.reward in {0.0, 1.0}
    run_no, is_new = waiting.run_no, not waiting.run_no
    if is_new:
        run_no = _create_run(txn, waiting, result if is_plain else None)
    remember_report(txn, waiting, arm_no, run_no)
    uid = _uid(txn, waiting.offer_no)
    if is_plain and (is_new or may_grow(txn, run_no)):
        if not is_new:
            observe_later(txn, run_no, arm_no, referenced=result.reward == 1)
        return uid, None
    return uid, _add_row(txn, result, arm_no, run_of_uid(txn, uid))


def _create_run(txn: Transaction, waiting: Waiting, first: Report | None) -> int:
    """Create the run of an offer with at most one observed arm, and return its number."""
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
    row = run_of_uid(txn, run.uid)
    assert row is not None  # noqa: S101 - it was just added
    return row.run_no


def _uid(txn: Transaction, offer_no: int) -> str:
    """Return the uid of the run of an offer, unique also in learners that read its export."""
    whose = hashlib.blake2b(txn.origin.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"offer-{offer_no}-{whose}"


def _add_row(txn: Transaction, result: Report, arm_no: int, run: RunMatch | None = None) -> str:
    amount = Amount.of(result.reward)
    flags = None if run is None or not run.is_active else outcome_of(txn, run.run_no, arm_no)
    entry = Entry(
        kind="reported",
        arm_no=arm_no,
        run_no=0 if run is None else run.run_no,
        run_revision=0 if run is None else run.revision,
        flags=flags or 0,
        success_micro=amount.success_micro,
        failure_micro=amount.failure_micro,
        reason=result.reason or "",
        actor=txn.actor.name,
        at_ms=txn.now_ms,
    )
    act = f"reward-{add_observations(txn, [entry]).numbers[0]}"
    detail: Detail = {
        "arm": result.arm,
        "kind": "reported",
        "reward": amount.success_micro / MICRO,
        "run": None if run is None else run.uid,
        "reason": result.reason,
        "lagged": result.is_lagged,
    }
    txn.audit("reward", act, detail)
    return act


# States


def arm_states(context: Context, arms: Sequence[str] | None = None) -> States:
    """Return the arms (None = all) whose state differs from the prior of their type, by id.

    An unknown learner has none, and is not created.
    """
    context.permit("read")
    try:
        with context.reading() as snapshot:
            columns, settings = arm_columns(snapshot), snapshot.settings
    except UnknownLearner:
        return States(arms=(), baseline_rate=LearnerSettings().baseline_rate)
    requested = None if arms is None else set(arms)
    states = []
    for index, key in enumerate(columns.keys):
        prior = settings.priors.of(columns.types[index])
        alpha = int(columns.base_alpha_micro[index] + columns.success_micro[index])
        beta = int(columns.base_beta_micro[index] + columns.failure_micro[index])
        is_moved = (alpha, beta) != (prior.alpha_micro, prior.beta_micro)
        is_known = is_moved or columns.pulls[index] > 0 or columns.epoch[index] > 0
        if is_known and (requested is None or key in requested):
            states.append(
                ArmState(
                    arm=key,
                    alpha=alpha / MICRO,
                    beta=beta / MICRO,
                    mean=alpha / (alpha + beta),
                    pulls=int(columns.pulls[index]),
                    total_reward=int(columns.success_micro[index]) / MICRO,
                    last_updated=iso(int(columns.last_at_ms[index])),
                )
            )
    return States(arms=tuple(states), baseline_rate=settings.baseline_rate)


# Sessions of clients


def start_session(context: Context, name: str, *, fresh: Fresh = {}) -> SessionView:  # noqa: B006
    """Record the start of a client's session, and return its id."""
    uid = context.identity()

    def work(txn: Transaction) -> SessionView:
        _begin(txn, fresh)
        begin_session(txn, uid, txn.erased.session(name) or "")
        return _session_view(txn, uid)

    return context.write("ingest", work, create=True)


def finish_session(context: Context, uid: str) -> SessionView | None:
    """Record the end of a session in the learner where it began; a repeat changes nothing.

    Only learners where the actor may ingest are searched. None: there is no session with that id.
    """
    for candidate in _contexts(context):
        with candidate.store.reading(candidate.learner) as snapshot:
            known = session_named(snapshot, uid)
            if known is not None and known.ended_ms is not None:
                return _session_view(snapshot, uid)
        if known is not None:
            return candidate.write("ingest", lambda txn: _ended(txn, uid))
    return None


def _contexts(context: Context) -> list[Context]:
    """Return the context of every learner where the actor may ingest; raise `Denied` if there is none."""
    with context.store.reading(context.learner) as snapshot:
        contexts = [context.of(name) for name in learners(snapshot)]
    allowed = [one for one in contexts if one.may("ingest")]
    if not allowed:
        context.permit("ingest")
    return allowed


def _ended(txn: Transaction, uid: str) -> SessionView:
    known = session_named(txn, uid)
    if known is not None and known.ended_ms is None:
        end_session(txn, known.number)
    return _session_view(txn, uid)


def _session_view(facts: Facts, uid: str) -> SessionView:
    known = session_named(facts, uid)
    assert known is not None  # noqa: S101 - it was found before
    return SessionView(
        uid=uid,
        learner=facts.name,
        name=known.name,
        started_at=iso(known.started_ms) or "",
        ended_at=iso(known.ended_ms),
    )
