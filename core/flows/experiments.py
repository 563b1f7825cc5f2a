"""Experiments: plan, start, change, stop and read them.

An experiment puts an arm in or out of whole sessions by chance, so that its sessions show whether offering it helps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace as in_time
from typing import Annotated, Final, TypeVar, Unpack

import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from core.columns import Floats
from core.errors import NotApplicable
from core.flows.context import Context, unknown_arm, utc_now_ms
from core.flows.launch import discard_prepared
from core.flows.queries.frame import DEMO_ORIGIN
from core.flows.settings import put
from core.maths.packing import counted_cost
from core.maths.statistics.experiments import cap_of, effects_so_far, figures, sessions_needed
from core.records.achieved import OUTCOME_SOURCES, OutcomeSource
from core.records.alike import alike
from core.records.estimate import Estimate
from core.records.experiment import (
    IN_POINTS,
    METRICS,
    MOST_DAYS,
    MOST_PLANNED,
    MOST_RUNNING,
    Decision,
    ExperimentAct,
    ExperimentChanged,
    ExperimentForm,
    ExperimentLine,
    ExperimentOptions,
    ExperimentPlan,
    ExperimentPlanned,
    ExperimentRow,
    ExperimentStarted,
    ExperimentState,
    SessionMetric,
)
from core.records.limits import one_of
from core.records.parameters import ArmKey, ExperimentName, Preview, completed
from core.records.times import DAY_MS
from core.store.experiments import StartedExperiment, add_experiment, n_open, named_experiment, started
from core.store.reads import arm_columns, arm_number, candidates, last_run_ms
from core.store.reads.arm_story import version_counts
from core.store.reads.experiments import PastSessions, experiment_sessions, first_end_ms, past_sessions
from core.store.transaction import Facts, Snapshot, Transaction

_Answer = TypeVar("_Answer", ExperimentStarted, ExperimentChanged)
_OWN: Final = "own"
"""Placeholder for the id of a line: a stored fact of this learner has none."""
_WORD, _WORDS = (1 << 64) - 1, 4
"""Mask and number of the 64-bit words of a key."""
_MOST_OF_ONE: Final = 0.05
"""Largest share of all runs that one session id can plausibly have."""
_MANY_RUNS: Final = 100
"""Fewest recorded runs with which that share is checked."""
_TIMES_PLANNED: Final = 2
_OF_PAST: Final[dict[SessionMetric, str]] = {
    "success": "success",
    "failures": "failures",
    "tokens": "tokens",
    "money": "money_pico",
    "duration": "duration_ms",
}

_OF_SEED: Final = "it is a seed, which is in every prompt."
_NO_ROOM: Final = "the seeds and it exceed the limits of recent selections."
_STEPS: Final = {
    "the learner is in the passive phase, and everything goes in.": "Set phase to active.",
    "a setting excludes it.": "Take it out of excluded_arms.",
    _OF_SEED: "State that it is a seed, or take it out of seed_arms.",
    "an experiment on it is running.": "Stop that experiment first, or wait until it ends.",
    f"{MOST_RUNNING} experiments are running.": "Stop one of them first, or wait until one ends.",
    _NO_ROOM: "Allow more tokens or arms, or take a seed out of seed_arms.",
}
"""Reasons that prevent a start, with their next steps: first those of `_reasons`, in its order."""


def plan_experiment(context: Context, arm: ArmKey, **options: Unpack[ExperimentOptions]) -> ExperimentPlanned:
    """Return what an experiment on an arm would take: sessions, days and baseline runs, or a trial instead.

    The answer has the reasons that would prevent a start. Raises `UnknownArm`.
    """
    context, wish = _in_demo_time(context), _wish(arm, options)
    with context.reading() as snapshot:
        return _planned(snapshot, wish, context.clock())[0]


def start_experiment(
    context: Context,
    arm: ArmKey,
    *,
    seed: Annotated[
        bool, Meta(description="The arm is a seed, and sessions may lack it all the same.")
    ] = False,
    preview: Preview = False,
    **options: Unpack[ExperimentOptions],
) -> ExperimentStarted:
    """Start an experiment: a coin for each new session puts the arm in or out.

    It ends after twice its planned days, at most 60. `undo` ends it and keeps its rows. Raises `UnknownArm`, and
    `NotApplicable` where it can't start.
    """
    context, wish = _in_demo_time(context), _wish(arm, options)
    secret = "".join(f"{context.entropy() & _WORD:016x}" for _ in range(_WORDS))

    context.permit("settings")
    with context.reading() as snapshot:
        planned, plan = _planned(snapshot, wish, context.clock())
    _refuse(arm, planned.refused, seed=seed)

    def work(txn: Transaction) -> ExperimentStarted:
        _refuse(arm, _reasons(txn, arm, txn.now_ms), seed=seed)  # can have changed since the plan
        line = ExperimentLine(id=_OWN, form="start", plan=plan)
        act = f"experiment-{add_experiment(txn, line, txn.own, secret=secret)}"
        txn.audit("experiment", act, {"form": "start", "arm": arm})
        return ExperimentStarted(id=act, planned=planned, plan=plan)

    return _acted(context, work, preview=preview)


def _refuse(arm: str, reasons: Sequence[str], *, seed: bool) -> None:
    """Raise `NotApplicable` for the first reason. With ``seed``, being a seed is no reason."""
    for reason in reasons:
        if not (seed and reason == _OF_SEED):
            raise NotApplicable(
                f"No experiment on {arm} can start: {reason}",
                next_step=_STEPS.get(reason, "Give each session an id of its own."),
            )


def _in_demo_time(context: Context) -> Context:
    """Return a context whose clock, in a demo, reads the time of its last run: only playing on moves it."""
    if context.clock is not utc_now_ms:
        return context
    with context.store.reading(context.learner) as snapshot:
        last_ms = last_run_ms(snapshot) if snapshot.origin.startswith(DEMO_ORIGIN) else None
    return context if last_ms is None else in_time(context, clock=lambda: last_ms)


def _wish(arm: str, options: ExperimentOptions) -> ExperimentPlan:
    """Return the checked options as a plan, with placeholders for its size and end."""
    values = completed(ExperimentOptions, options)
    one_of("metric", values["metric"], METRICS)
    if values["source"] is not None:
        one_of("source", values["source"], OUTCOME_SOURCES)
    return ExperimentPlan(arm=arm, ends_ms=0, n_planned=1, **values)


# Planning


def _planned(
    snapshot: Snapshot, wish: ExperimentPlan, now_ms: int
) -> tuple[ExperimentPlanned, ExperimentPlan]:
    if arm_number(snapshot, wish.arm) is None:
        raise unknown_arm(snapshot, wish.arm)
    source, past = _past(snapshot, wish, now_ms)
    values: dict[SessionMetric, Floats] = {name: getattr(past, column) for name, column in _OF_PAST.items()}
    needed = sessions_needed(wish.metric, wish.smallest, wish.share, past=values[wish.metric])
    a_day = len(past) / past.days if past.days and len(past) else None
    days = None if needed is None or a_day is None else needed / a_day
    takes_long = needed is None or (days is not None and days > MOST_DAYS)
    most_sessions = MOST_PLANNED if a_day is None else a_day * MOST_DAYS
    runs = (needed or 0) * past.n_runs / max(len(past), 1)
    planned = alike(
        ExperimentPlanned,
        wish,
        n_needed=needed,
        used_share=float(past.used.mean()) if len(past) else None,
        sessions_a_day=a_day,
        days=days,
        n_baseline=round(runs * snapshot.settings.baseline_rate),
        n_past=int(np.isfinite(values[wish.metric]).sum()),
        past_days=past.days,
        proposes_trial=takes_long,
        feasible=_feasible(wish, values[wish.metric], most_sessions) if takes_long else None,
        refused=tuple(_refusals(snapshot, wish.arm, past, now_ms)),
    )
    most = MOST_DAYS if days is None else min(MOST_DAYS, max(_TIMES_PLANNED * days, 1.0))
    plan = replace(
        wish,
        ends_ms=now_ms + round(most * DAY_MS),
        n_planned=needed or MOST_PLANNED,
        source=source if wish.metric == "success" else None,
        cap={name: cap for name, one in values.items() if name not in IN_POINTS and (cap := cap_of(one))},
        digest=_digest(snapshot, wish.arm),
        is_seed=wish.arm in snapshot.settings.always_in,
    )
    return planned, plan


def _feasible(wish: ExperimentPlan, past: Floats, n_sessions: float) -> float | None:
    """Return the least larger effect, in whole points or per cent, that so many sessions show; None = none."""

    def is_enough(smallest: int) -> bool:
        return (sessions_needed(wish.metric, smallest, wish.share, past=past) or math.inf) <= n_sessions

    larger = range(int(wish.smallest) + 1, 101)
    index = bisect_left(larger, x=True, key=is_enough)
    return float(larger[index]) if index < len(larger) else None


def _past(snapshot: Snapshot, wish: ExperimentPlan, now_ms: int) -> tuple[OutcomeSource | None, PastSessions]:
    """Return the first source with a known outcome, else the first one, and the recent sessions measured by it."""
    sources = (wish.source,) if wish.source or wish.metric != "success" else snapshot.settings.outcome_from
    pasts = [
        (
            source,
            past_sessions(snapshot, wish.arm, hours=wish.hours, days=wish.days, source=source, now_ms=now_ms),
        )
        for source in sources
    ]
    return next((pair for pair in pasts if np.isfinite(pair[1].success).any()), pasts[0])


def _digest(facts: Facts, arm: str) -> str:
    """Return the digest of an arm's text as the latest run had it; '' = unknown."""
    arm_no = arm_number(facts, arm)
    counts = [] if arm_no is None else version_counts(facts, arm_no)
    return max(counts, key=lambda one: (one.last_ms or 0, one.version)).version if counts else ""


def _refusals(snapshot: Snapshot, arm: str, past: PastSessions, now_ms: int) -> Sequence[str]:
    """Return the reasons that prevent a start, from the present state and from recent runs."""
    reasons = _reasons(snapshot, arm, now_ms)
    if past.n_runs >= _MANY_RUNS and past.largest_share > _MOST_OF_ONE:
        reasons.append(f"one session id has {past.largest_share:.0%} of all runs, so it names no session.")
    if _exceeds_limits(snapshot, arm):
        reasons.append(_NO_ROOM)
    return reasons


def _reasons(facts: Facts, arm: str, now_ms: int) -> list[str]:
    """Return the reasons that prevent a start, from the present state alone."""
    settings = facts.settings
    running = [one for one in started(facts) if one.assigns(now_ms)]
    holds = (
        settings.phase == "passive",
        arm in settings.excluded_arms,
        arm in settings.always_in,
        any(one.plan.arm == arm for one in running),
        len(running) >= MOST_RUNNING,
    )
    return [reason for reason, one in zip(_STEPS, holds, strict=False) if one]


def _exceeds_limits(snapshot: Snapshot, arm: str) -> bool:
    """Return whether the seeds and the arm exceed the limits in force of the latest selections."""
    columns = arm_columns(snapshot)
    if arm not in columns.places:
        return False
    fixed = snapshot.settings.always_in | {arm}
    places = [columns.places[one] for one in fixed if one in columns.places]
    tokens = int(counted_cost(columns.token_cost[places]).sum())
    own = candidates(snapshot, columns).limits
    limits = [one.over(snapshot.settings) for one in own] or [snapshot.settings]
    return any(0 < one.budget_tokens < tokens or 0 < one.k < len(places) for one in limits)


# Later acts


def share_experiment(
    context: Context,
    experiment: ExperimentName,
    share: Annotated[float, Meta(description="Chance of the side with the arm, .05 to .95.")],
    *,
    preview: Preview = False,
) -> ExperimentChanged:
    """Change the chance of the side with the arm, for new sessions.

    Raises `UnknownAct`, and `NotApplicable` for one that assigns no new session.
    """

    def work(txn: Transaction) -> ExperimentChanged:
        one = _running(txn, experiment)
        return _write(txn, one, "share", ExperimentAct(share=share))

    return _acted(context, work, preview=preview)


def stop_experiment(
    context: Context,
    experiment: ExperimentName,
    *,
    decision: Annotated[
        Decision, Meta(description="end: assign no more; keep: and keep the arm; exclude: and exclude it.")
    ] = "end",
    preview: Preview = False,
) -> ExperimentChanged:
    """Stop an experiment: no new session is assigned, and assigned ones keep their side until their time is over.

    *exclude* also removes the arm from their prompts, and they are "not followed". `undo` reverts it. Raises
    `UnknownAct`, and `NotApplicable` where nothing would change.
    """
    one_of("decision", decision, ("end", "keep", "exclude"))

    def work(txn: Transaction) -> ExperimentChanged:
        one = named_experiment(txn, experiment)
        if decision == "exclude":
            if one.assigns(txn.now_ms):
                _write(txn, one, "stop", ExperimentAct(decision="end"))
            return _exclude(txn, one)
        if decision == "keep" and one.plan.arm in txn.settings.excluded_arms:
            raise NotApplicable(
                f"{one.plan.arm} is excluded, so it can't be kept.", next_step="Undo its exclusion first."
            )
        if one.stop is not None and decision in {"end", one.latest.decision}:
            raise NotApplicable(
                f"{one.fact.id} has stopped.", next_step="Keep or exclude its arm, or start another one."
            )
        if not one.fact.secret:
            raise NotApplicable(
                f"{one.fact.id} came from another learner, and can only be read.",
                next_step="Stop it in the learner that started it.",
            )
        return _write(txn, one, "stop", ExperimentAct(decision=decision))

    return _acted(context, work, preview=preview)


def _exclude(txn: Transaction, one: StartedExperiment) -> ExperimentChanged:
    out = txn.settings.excluded_arms
    seeds = tuple(arm for arm in txn.settings.seed_arms if arm != one.plan.arm)
    if one.plan.arm in out:
        raise NotApplicable(
            f"{one.plan.arm} is excluded already.", next_step="Undo its exclusion, or leave it so."
        )
    if seeds != txn.settings.seed_arms:
        put(txn, "seed_arms", list(seeds))
    answer = put(txn, "excluded_arms", [*out, one.plan.arm])
    still_open = n_open(txn, one, txn.now_ms)
    return ExperimentChanged(id=answer.id, experiment=one.fact.id, n_open=still_open, excluded=True)


def _acted(context: Context, work: Callable[[Transaction], _Answer], *, preview: bool) -> _Answer:
    context = _in_demo_time(context)
    if preview:
        return replace(context.rehearse("settings", work), id=None)
    answer = context.write("settings", work)
    discard_prepared(context)
    return answer


def _write(
    txn: Transaction, one: StartedExperiment, form: ExperimentForm, act: ExperimentAct
) -> ExperimentChanged:
    line = ExperimentLine(id=_OWN, form=form, act=act, of=one.fact.line_id)
    name = f"experiment-{add_experiment(txn, line, txn.own)}"
    detail = {"share": act.share, "decision": act.decision, "harms": act.harms}
    txn.audit("experiment", name, {"form": form, "arm": one.plan.arm, "of": one.fact.id, **detail})
    return ExperimentChanged(id=name, experiment=one.fact.id, n_open=n_open(txn, one, txn.now_ms))


def stop_if_harmful(txn: Transaction, experiment_no: int) -> None:
    """Stop a running experiment if its metric or its failures prove harm."""
    one = next((one for one in started(txn) if one.fact.number == experiment_no), None)
    if one is None or not one.assigns(txn.now_ms):
        return
    sessions, n_late = experiment_sessions(txn, experiment_no, one.plan, txn.now_ms)
    metric = figures(sessions, one.plan, n_late=n_late).harmed
    if metric is not None:
        _write(txn, one, "stop", ExperimentAct(decision="end", harms=metric))


# Results


def experiments(
    context: Context, *, arm: Annotated[str | None, Meta(description="Only experiments on this arm.")] = None
) -> tuple[ExperimentRow, ...]:
    """List the experiments with their verdicts, newest first."""
    context = _in_demo_time(context)
    with context.reading() as snapshot:
        known = [one for one in started(snapshot) if arm is None or one.plan.arm == arm]
        return tuple(_row(snapshot, one, context.clock()) for one in reversed(known))


def experiment_result(context: Context, experiment: ExperimentName) -> ExperimentRow:
    """Return one experiment: its plan, its sessions, and what they show. Raises `UnknownAct`."""
    context = _in_demo_time(context)
    with context.reading() as snapshot:
        return _row(snapshot, named_experiment(snapshot, experiment), context.clock())


def experiment_path(context: Context, experiment: ExperimentName) -> tuple[tuple[int, Estimate], ...]:
    """Return the effect on the measure of an experiment after the first sessions that count, 24 times at most.

    Each is a number of sessions with its effect. Raises `UnknownAct`.
    """
    context = _in_demo_time(context)
    with context.reading() as snapshot:
        one = named_experiment(snapshot, experiment)
        sessions, _ = experiment_sessions(snapshot, one.fact.number, one.plan, context.clock())
    return effects_so_far(sessions, one.plan)


def _row(snapshot: Snapshot, one: StartedExperiment, now_ms: int) -> ExperimentRow:
    sessions, n_late = experiment_sessions(snapshot, one.fact.number, one.plan, now_ms)
    shown, first_ms, stop = figures(sessions, one.plan, n_late=n_late), None, one.stop
    if shown.pending == shown.assigned:
        first_ms = first_end_ms(snapshot, one.fact.number, one.plan)
    if first_ms is not None and one.plan.metric == "success" and sessions.known[0] != 1:
        first_ms += one.plan.days * DAY_MS
    decided = [act.content for act in one.acts if isinstance(act.content, ExperimentAct)]
    return ExperimentRow(
        experiment=one.fact.id,
        nth=sum(
            other.plan.arm == one.plan.arm and other.fact.number <= one.fact.number
            for other in started(snapshot)
        ),
        plan=one.plan,
        state=_state(one, now_ms),
        at_ms=one.fact.at_ms,
        share=one.share,
        figures=shown,
        stopped_ms=None if stop is None else stop.at_ms,
        harms=next((act.harms for act in decided if act.harms is not None), None),
        decision=next((act.decision for act in reversed(decided) if act.decision is not None), None),
        actor=one.fact.actor,
        acts=tuple(act.id for act in one.acts),
        n_open=n_open(snapshot, one, now_ms),
        counts_ms=first_ms,
        is_excluded=one.plan.arm in snapshot.settings.left_out,
    )


def _state(one: StartedExperiment, now_ms: int) -> ExperimentState:
    if one.fact.undone:
        return "undone"
    if not one.fact.secret:
        return "read_only"
    if one.stop is not None:
        return "stopped"
    return "running" if one.assigns(now_ms) else "ended"


def _running(txn: Transaction, name: str) -> StartedExperiment:
    one = named_experiment(txn, name)
    if not one.assigns(txn.now_ms):
        raise NotApplicable(
            f"{one.fact.id} assigns no new session: it is {_state(one, txn.now_ms).replace('_', ' ')}.",
            next_step="Start another experiment on the arm.",
        )
    return one
