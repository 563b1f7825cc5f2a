"""Experiments: planted worlds in which an effect is easily misjudged; how often a claim is false at any look.

A world consists of assigned sessions and their runs. It is looked at 60 times, at equal intervals. A claim is false
if it was made at any look and is not true of the sessions so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from core.columns import Bools, ExperimentSessions, Floats, Ints
from core.flows import queries
from core.flows.context import Context
from core.flows.experiments import experiment_result, share_experiment, start_experiment
from core.flows.learn import record_all
from core.flows.outcome import outcomes
from core.flows.select import select
from core.flows.settings import change
from core.maths.statistics.experiments import cap_of, figures, measure, sessions_needed, words
from core.maths.statistics.trials.verdict import ERROR, HARMS, HELPS, NO_DIFFERENCE, WORDS
from core.records.achieved import OutcomeOrder, OutcomeSource
from core.records.arm import MICRO, Arm
from core.records.experiment import METRICS, ExperimentFigures, ExperimentPlan, SessionMetric
from core.records.run import Inventory, Run, Usage
from core.records.selection import Selection
from core.records.times import DAY_MS
from core.records.trial import TrialWord
from core.store.experiments import is_with, started
from tests.bench.harness import Row, Scale, hits_of, pairs
from tests.flows.test_experiments import Clock
from tests.worlds import START_MS, chosen_among, context_at
from tests.worlds.experiments import ARM, OFFERED
from tests.worlds.experiments import start_experiment as begin_experiment

_LOOKS: Final = 60
_N_LIVED: Final = 20
_LIVED_SESSIONS: Final = 50
_LIVED_DAYS: Final = (0.5, 1.0, 2.0, 6.0, 30.0)
"""Worlds of each kind that an agent lives through, their sessions, and the days on which they are looked at."""
_N_SELECTED: Final = 30
_BUDGET: Final = 1_000
_IN_A_ROW: Final = 10
"""Arms of a timed selection, its tokens, and selections in a row."""
_TICKS_A_DAY: Final = 4
"""How often runs and outcomes come in."""
_FALSE_GOAL: Final = 7.0
"""Per cent of worlds: 28 of 400."""
_MISSED_GOAL: Final = 5.0
_POWER_GOAL: Final = 20.0
_COUNTS_DAYS, _KNOWN_DAYS = 1.0, 7.0
"""Days in which a session counts, and then days in which an outcome can become known."""
_N_PAST: Final = 300
_OTHERS: Final = 4
"""Metrics that share an error."""

_TOTALS: Final[frozenset[SessionMetric]] = frozenset({"tokens", "money", "duration"})

Dice = np.random.Generator
Rates = Callable[[Floats], tuple[Floats, Floats]]
"""Success with the arm and without it, by time from 0 to 1."""
Known = Callable[[Bools, Bools], Floats]
"""Chance that an outcome becomes known, by whether the run solved and had the arm."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of sessions. ``known_at`` is the day on which the outcome becomes known, infinite where it never does."""

    session: Ints
    solved: Bools
    known_at: Floats
    failed: Bools
    tokens: Floats


@dataclass(frozen=True, kw_only=True)
class World:
    """A planted experiment: its sessions, assigned ``at`` a day, and their runs.

    ``truth`` is the effect on each session: a difference of success, or a logarithm of a ratio of tokens. ``rises``
    are other metrics that rise with the arm; the rest have no effect.
    """

    at: Floats
    with_arm: Bools
    chance: Floats
    runs: Runs
    truth: Floats
    rises: frozenset[SessionMetric]

    @cached_property
    def ends_at(self) -> Floats:
        """The day on which the time of a session is over."""
        return self.at + _COUNTS_DAYS

    @cached_property
    def settles_at(self) -> Floats:
        """The day from which all outcomes of a session are known or too late; without a run, the last such day."""
        has_run = np.bincount(self.runs.session, minlength=len(self.at)) > 0
        latest = np.where(has_run, self.ends_at, self.ends_at + _KNOWN_DAYS)
        last = self.ends_at[self.runs.session] + _KNOWN_DAYS
        np.maximum.at(latest, self.runs.session, np.minimum(self.runs.known_at, last))
        return latest

    def sessions(self, day: float = np.inf) -> ExperimentSessions:
        """Return the assigned sessions as they are on a day."""
        runs, n = self.runs, len(self.at)
        is_known = runs.known_at <= np.minimum(self.ends_at[runs.session] + _KNOWN_DAYS, day)
        n_runs, n_known, n_solved, n_failed, tokens = (
            np.bincount(runs.session, weight, n).astype(np.float64)
            for weight in (None, is_known, runs.solved & is_known, runs.failed, runs.tokens)
        )
        with np.errstate(invalid="ignore"):
            known, success, failures = n_known / n_runs, n_solved / n_known, n_failed / n_runs
        return ExperimentSessions(
            with_arm=self.with_arm,
            chance=self.chance,
            has_ended=self.ends_at <= day,
            is_settled=self.settles_at <= day,
            has_run=n_runs > 0,
            followed=n_runs > 0,
            success=success,
            known=known,
            failures=failures,
            tokens=tokens,
            money_pico=tokens * 3e6,
            duration_ms=tokens * 40,
        ).where(self.at <= day)


def _even(effect: float = 0.0, base: float = 0.5) -> Rates:
    return lambda time: (np.full(len(time), base + effect), np.full(len(time), base))


_NO_EFFECT: Final = _even()


def _moving(time: Floats) -> tuple[Floats, Floats]:
    """Return a success that rises, and an effect that changes its sign."""
    base = 0.2 + 0.6 * time
    return base - 0.12 + 0.24 * time, base


def _rising(time: Floats) -> tuple[Floats, Floats]:
    """Return a success that rises together with the share of the arm, and no effect."""
    return 0.2 + 0.6 * time, 0.2 + 0.6 * time


def _all_known(solved: Bools, with_arm: Bools) -> Floats:
    return np.ones(len(solved))


def _four_in_ten(solved: Bools, with_arm: Bools) -> Floats:
    """Return chances that reveal more successes with the arm, and more failures without."""
    return np.where(solved == with_arm, 0.55, 0.25)


def _chances(n: int, shares: tuple[float, float]) -> Floats:
    return np.where(np.arange(n) / n < 0.5, *shares)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of worlds. ``n`` None = the planned size, where ``due`` is the verdict that most must get.

    ``shares`` are the chances in the first and in the second half. ``alike`` is the correlation of runs of a session.
    ``more_runs`` is the mean number of runs beyond the first, with and without. ``late_days`` is the mean delay of
    outcomes, of failures with the arm and of others. ``lost`` is the chance that a session has no run, and what a
    failing one with the arm adds. ``spread`` is that of the logarithm of tokens. ``runaways`` is the share of
    sessions with 50 times the tokens. ``unmetered`` is the share of runs with the arm, the costliest, without tokens.
    """

    rates: Rates = _NO_EFFECT
    metric: SessionMetric = "success"
    smallest: float = 10.0
    n: int | None = None
    due: TrialWord | None = None
    shares: tuple[float, float] = (0.5, 0.5)
    alike: float = 0.0
    more_runs: tuple[float, float] = (0.0, 0.0)
    known: Known = _all_known
    late_days: tuple[float, float] = (0.5, 0.5)
    lost: tuple[float, float] = (0.0, 0.0)
    spread: float = 1.2
    runaways: float = 0.0
    unmetered: float = 0.0
    log_ratio: float = 0.0
    has_cap: bool = True
    a_day: float = 100.0
    rises: frozenset[SessionMetric] = frozenset()

    @cached_property
    def plan(self) -> ExperimentPlan:
        """The plan, from earlier sessions without the arm."""
        past = self._world(np.random.default_rng(59), _N_PAST, (0.0, 0.0)).sessions()
        values = past.tokens if self.metric == "tokens" else past.success
        totals: dict[SessionMetric, Floats] = {
            "tokens": past.tokens,
            "money": past.money_pico,
            "duration": past.duration_ms,
        }
        return ExperimentPlan(
            arm="skill:own:pdf",
            metric=self.metric,
            source="program" if self.metric == "success" else None,
            ends_ms=1,
            n_planned=sessions_needed(self.metric, self.smallest, self.shares[0], past=values) or 1,
            smallest=self.smallest,
            share=self.shares[0],
            cap={name: cap_of(total) or 0.0 for name, total in totals.items()} if self.has_cap else {},
        )

    def world(self, dice: Dice) -> World:
        """Return a planted world."""
        return self._world(dice, self.n or self.plan.n_planned, self.shares)

    def _world(self, dice: Dice, n: int, shares: tuple[float, float]) -> World:
        chance = np.where(np.arange(n) / n < 0.5, *shares)
        return self.of_sides(dice, dice.random(n) < chance, chance)

    def of_sides(self, dice: Dice, with_arm: Bools, chance: Floats) -> World:
        """Return a planted world of sessions that have their sides."""
        n = len(with_arm)
        ours, theirs = self.rates(np.arange(n) / n)
        rate = np.where(with_arm, ours, theirs)
        if self.alike:
            both = 1 / self.alike - 1
            rate = dice.beta(both * rate, both * (1 - rate))
        session = np.repeat(np.arange(n), 1 + dice.poisson(np.where(with_arm, *self.more_runs)))
        had_arm, solved = with_arm[session], dice.random(len(session)) < rate[session]
        is_known = dice.random(len(session)) < self.known(solved, had_arm)
        fails = with_arm & (np.bincount(session, solved, n) == 0)
        has_run = (dice.random(n) >= self.lost[0] + self.lost[1] * fails)[session]
        at = np.cumsum(dice.exponential(1 / self.a_day, n))
        known_at = at[session] + dice.exponential(np.where(had_arm & ~solved, *self.late_days))
        size = dice.normal(9.0, self.spread, n) + np.where(with_arm, self.log_ratio, 0.0)
        tokens = np.exp(size) * np.where(dice.random(n) < self.runaways, 50.0, 1.0)
        of_runs = tokens[session] * dice.uniform(0.5, 1.5, len(session))
        if self.unmetered:
            of_runs[had_arm & (of_runs > np.quantile(of_runs, 1 - self.unmetered))] = np.nan
        return World(
            at=at,
            with_arm=with_arm,
            chance=chance,
            runs=Runs(
                session=session[has_run],
                solved=solved[has_run],
                known_at=np.where(is_known, known_at, np.inf)[has_run],
                failed=dice.random(int(has_run.sum())) < 0.05,
                tokens=of_runs[has_run],
            ),
            truth=ours - theirs if self.metric == "success" else np.full(n, self.log_ratio),
            rises=self.rises,
        )


KINDS: Final = {
    "help": Kind(rates=_even(0.1), due="helps"),
    "harm": Kind(rates=_even(-0.1), due="harms"),
    "nothing": Kind(due="no_difference"),
    "help, one of ten with": Kind(rates=_even(0.1), shares=(0.1, 0.1), due="helps"),
    # The arm helps by 12 points in 60 % of sessions. Without it, a rival does 80 % of the same work.
    "a rival": Kind(rates=lambda time: (_even(0.072)(time)[0], _even(0.0576)(time)[0])),
    "sessions alike": Kind(alike=0.3, more_runs=(9.0, 3.0), n=1_200, rises=_TOTALS),
    "known for 40 %": Kind(known=_four_in_ten, n=1_800),
    "failures unknown": Kind(known=lambda solved, with_arm: np.where(with_arm & ~solved, 0.91, 1.0), n=1_800),
    "failures lost": Kind(lost=(0.1, 0.2), n=1_800),
    "failures known later": Kind(late_days=(2.0, 0.2), n=1_800),
    "beliefs that move": Kind(rates=_moving, n=3_000),
    # The arm helps by 5 points, and takes the room of one that helps by 10 in 80 % of sessions.
    "a tight budget": Kind(rates=_even(0.05 - 0.08, 0.6)),
    "heavy tails": Kind(
        metric="tokens", smallest=25.0, spread=1.7, runaways=0.003, has_cap=False, more_runs=(2.0, 2.0)
    ),
    "heavy tails, less": Kind(
        metric="tokens", smallest=25.0, spread=1.7, log_ratio=float(np.log(0.75)), due="helps"
    ),
    "costliest unknown": Kind(metric="tokens", unmetered=0.04, n=3_000),
    "offered in 10 %": Kind(n=300, a_day=10.0, rates=_even(0.0, 0.3), more_runs=(1.0, 1.0)),
    "rare success": Kind(rates=_even(0.0, 0.02), smallest=2.0),
    "shares of .1, then .5": Kind(rates=_rising, shares=(0.1, 0.5), n=3_000),
}
"""The kinds. Clean ones have the planned size and a verdict that is due."""


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """False claims of a world at any look, whether its interval ever missed, and its last verdict."""

    false: frozenset[str]
    is_missed: bool
    last: TrialWord


def claims_of(world: World, plan: ExperimentPlan) -> Claimed:
    """Return the claims of a world at 60 looks. Each look reads the sessions counted by then, which never change."""
    sessions = world.sessions()
    looks = np.linspace(0, float(world.settles_at.max()), _LOOKS + 1)[1:]
    of, verdict = measure(sessions, plan, plan.metric), words(sessions, plan)

    def looked(values: Bools | Ints | Floats, over_at: Floats) -> Bools | Ints | Floats:
        n = np.searchsorted(np.maximum.accumulate(over_at), looks, side="right")
        return values[n[n > 0] - 1]

    over_at = world.settles_at if plan.metric == "success" else world.ends_at
    weight = world.chance * (1 - world.chance)
    mean = np.cumsum(weight * world.truth) / np.cumsum(weight)
    is_better = mean if plan.metric == "success" else -mean
    ends = (-plan.smallest / 100, plan.smallest / 100)
    least, most = ends if plan.metric == "success" else np.log1p(ends)
    is_false = {
        HELPS: is_better <= 0,
        HARMS: is_better >= 0,
        NO_DIFFERENCE: (mean <= least + 1e-9) | (mean >= most - 1e-9),
    }
    false = {
        str(WORDS[word]) for word, isnt in is_false.items() if looked((verdict == word) & isnt, over_at).any()
    }
    for metric in METRICS:
        if metric == plan.metric or (metric in _TOTALS and plan.metric == "tokens"):
            continue
        other = measure(sessions, plan, metric)
        moves = {1: False, -1: True} if metric in world.rises else {1: True, -1: True}
        over_at = world.settles_at if metric == "success" else world.ends_at
        for side in (1, -1):
            if moves[side] and looked(other.is_beyond(side, 0.0, ERROR / _OTHERS), over_at).any():
                false.add("others")
    truth = mean if plan.metric == "success" else float(mean[0])
    over_at = world.settles_at if plan.metric == "success" else world.ends_at
    is_missed = any(looked(of.is_beyond(side, truth), over_at).any() for side in (1, -1))
    return Claimed(false=frozenset(false), is_missed=is_missed, last=WORDS[verdict[-1]])


# Worlds that an agent lives through


def lived_looks(
    kind: Kind, dice: Dice, folder: Path, n: int = _LIVED_SESSIONS
) -> Iterator[tuple[ExperimentFigures, ExperimentFigures]]:
    """Live through a world by selections, runs and outcomes; yield its figures at looks, by doors and by hand."""
    clock, chosen = Clock(), list[Selection]()
    context = replace(context_at(folder / "world.db"), clock=clock)
    change(context, "prices", {"small": 3.0})
    record_all(context, _runs(kind.of_sides(dice, np.zeros(n, dtype=np.bool_), np.full(n, 0.5))))
    source: OutcomeSource | None = "program" if kind.metric == "success" else None
    plan = start_experiment(
        context, ARM, metric=kind.metric, smallest=kind.smallest, share=kind.shares[0], source=source
    ).plan
    world, begin_ms = _with_sides(kind, dice, context, n), clock.now_ms
    for day in np.arange(1, _LIVED_DAYS[-1] * _TICKS_A_DAY + 1) / _TICKS_A_DAY:
        for session in range(len(chosen), int((world.at <= day).sum())):
            clock.now_ms = begin_ms + round(world.at[session] * DAY_MS)
            if session and world.chance[session] != world.chance[session - 1]:
                share_experiment(context, "1", share=float(world.chance[session]))
            chosen.append(select(context, OFFERED, session=f"s{session}"))
        clock.now_ms = begin_ms + round(day * DAY_MS)
        record_all(context, _runs(world, chosen, begin_ms, after=day - 1 / _TICKS_A_DAY))
        known = np.flatnonzero(world.runs.known_at == day).tolist()
        if known:
            outcomes(
                context, [OutcomeOrder(run=f"r{one}", value=float(world.runs.solved[one])) for one in known]
            )
        if day in _LIVED_DAYS:
            assigned = np.array([bool(one.experiment) for one in chosen])
            yield experiment_result(context, "1").figures, figures(world.sessions(day).where(assigned), plan)
    assert queries.verify(context).clean
    context.store.close()


def _with_sides(kind: Kind, dice: Dice, context: Context, n: int) -> World:
    """Return a world whose sides are those of the key, and whose outcomes become known at a tick."""
    with context.reading() as snapshot:
        (start,) = started(snapshot)
    chance = _chances(n, kind.shares)
    sides = [is_with(start.hashed(f"s{one}"), round(MICRO * share)) for one, share in enumerate(chance)]
    world = kind.of_sides(dice, np.array(sides), chance)
    known_at = np.ceil(world.runs.known_at * _TICKS_A_DAY) / _TICKS_A_DAY
    return replace(world, runs=replace(world.runs, known_at=known_at, tokens=np.rint(world.runs.tokens)))


def _runs(
    world: World, chosen: Sequence[Selection] | None = None, begin_ms: int = START_MS, after: float = -np.inf
) -> list[Run]:
    """Return the runs of sessions that were selected after a day; without selections, runs of earlier sessions."""
    runs = world.runs
    at_ms = np.rint(world.at * DAY_MS).astype(np.int64) + begin_ms
    built = []
    for number, session in enumerate(runs.session.tolist()):
        is_known = bool(np.isfinite(runs.tokens[number]))
        tokens = int(runs.tokens[number]) if is_known else 0
        fields: dict[str, Any] = {
            "ended_at_ms": int(at_ms[session]),
            "model": "small",
            "status": "error" if runs.failed[number] else "completed",
            "usage": Usage(input=tokens, output=0) if is_known else None,
            "duration_ms": 40 * tokens if is_known else None,
        }
        if chosen is None:
            solved = float(runs.solved[number])
            offered = Inventory(kind="declared", arms=OFFERED)
            built.append(Run(uid=f"past {number}", inventory=offered, achieved=solved, **fields))
        elif session < len(chosen) and world.at[session] > after:
            uid = f"r{number}"
            built.append(chosen_among(uid, chosen[session], OFFERED, session=f"s{session}", **fields))
    return built


def is_alike(kind: Kind, dice: Dice, folder: Path, n: int = _LIVED_SESSIONS) -> bool:
    """Return whether the figures of a world are the same by doors and by hand, at each look."""
    folder.mkdir(exist_ok=True)
    looks = [(_parts(ours), _parts(theirs)) for ours, theirs in lived_looks(kind, dice, folder, n)]
    return len(looks) == len(_LIVED_DAYS) and all(
        ours[0] == theirs[0] and np.allclose(ours[1], theirs[1], rtol=1e-9, equal_nan=True)
        for ours, theirs in looks
    )


def _parts(shown: ExperimentFigures) -> tuple[tuple[object, ...], Floats]:
    """Return the words and counts of figures, and their numbers."""
    measures = (shown.metric, *shown.others)
    words_of = (shown.word, shown.why, *(one.word for one in measures), shown.is_bounded)
    counts = (shown.assigned, shown.pending, shown.without_run, shown.unknown, *(one.n for one in measures))
    ends = [(one.effect.value, one.effect.lower, one.effect.upper, *one.means) for one in measures]
    return (*words_of, *counts), np.array(ends, dtype=np.float64)


def assigned_selections(scale: Scale, folder: Path) -> list[Row]:
    """Selections under a budget with three experiments, beside those without one; no row is written."""
    arms = tuple(Arm(key=f"tool:other:t{number}", token_cost=50) for number in range(_N_SELECTED))
    plain, tested = (context_at(folder / f"{name}.db") for name in ("plain", "tested"))
    for context in (plain, tested):
        offered = Inventory(kind="declared", arms=arms)
        record_all(context, [Run(uid=f"r{one}", inventory=offered) for one in range(10)])
        change(context, "baseline_rate", 0.0)  # a baseline selection draws less
        change(context, "budget_tokens", _BUDGET)  # some arms are left out on both sides
    for arm in arms[:3]:
        begin_experiment(tested, arm.key)
    rows = []
    for name, session in (("without a session", None), ("of an assigned session", "s")):
        for context in (plain, tested):
            select(context, arms, session=session)

        def in_a_row(context: Context, _number: int, *, session: str | None = session) -> None:
            for _ in range(_IN_A_ROW):
                select(context, arms, session=session)

        timed = pairs(partial(in_a_row, plain), partial(in_a_row, tested), scale.n_durable_pairs)
        rows.append(timed.row(f"selection {name}, three experiments", "without experiments", 1.05))
    return rows


def misjudged_sessions(scale: Scale, folder: Path) -> list[Row]:
    """Share of planted experiments with a false claim, without their verdict, and of intervals that miss."""
    n_worlds = scale.n_planted
    rows: list[Row] = []
    for place, (name, kind) in enumerate(KINDS.items()):
        dice = (np.random.default_rng([59, place, seed]) for seed in range(n_worlds))
        rows += _rows(name, kind, [claims_of(kind.world(one), kind.plan) for one in dice])
        lived = [
            is_alike(kind, np.random.default_rng([60, place, seed]), folder / f"{place} {seed}")
            for seed in range(_N_LIVED if n_worlds > 100 else 1)
        ]
        n_unlike = lived.count(False)
        rows.append(
            hits_of(
                "planted experiments",
                f"other figures at doors: {name}",
                n_unlike,
                len(lived),
                goal=0,
                note="lived through",
            )
        )
    return rows


def _rows(name: str, kind: Kind, results: Sequence[Claimed]) -> list[Row]:
    n_worlds, ends = len(results), [one.last for one in results]
    n_false = {claim: sum(claim in one.false for one in results) for claim in (*WORDS[:3], "others")}

    def row(title: str, hits: int, goal: float, note: str) -> Row:
        return hits_of("planted experiments", f"{title}: {name}", hits, n_worlds, goal=goal, note=note)

    notes = ", ".join(f"{claim} {n}" for claim, n in n_false.items())
    last = ", ".join(f"{word} {ends.count(word)}" for word in WORDS)
    rows = [
        row("most false claims", max(n_false.values()), _FALSE_GOAL, notes),
        row("truth missed", sum(one.is_missed for one in results), _MISSED_GOAL, "at any look"),
    ]
    if kind.due is not None:
        rows.append(
            row(
                "without its verdict",
                n_worlds - ends.count(kind.due),
                _POWER_GOAL,
                f"{kind.plan.n_planned:,} sessions; {last}",
            )
        )
    else:
        rows[0] = row("most false claims", max(n_false.values()), _FALSE_GOAL, f"{notes}; last: {last}")
    return rows
