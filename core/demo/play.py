"""Play: the world's thirty days in order of time, through the same flows that all users call.

Runs are recorded in segments of two hours: each selection uses the beliefs at the start of its segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Final

import msgspec
import numpy as np

from core.demo.agent import DemoRun, Request, answer, later_requests, requests
from core.demo.environments import DESK, RECORDED_MS, SMALLEST, TASKS, paid_for, recordings, trial_results
from core.demo.people import (
    AGENT,
    JON,
    STORY,
    TRIALS,
    Act,
    Evaluate,
    Judge,
    brought,
    later_judgements,
)
from core.demo.reviewing import review
from core.demo.world import (
    END_MS,
    LEARNER,
    MODELS,
    N_RUNS,
    OUTAGE_MS,
    START_MS,
    Planted,
    planted,
    prob_solved,
    seed_of,
)
from core.errors import NotApplicable
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.episode import record_step
from core.flows.evaluate import evaluate_all
from core.flows.learn import record_all, reward
from core.flows.queries import DEMO_ORIGIN, revision
from core.flows.select import select
from core.flows.trials.plan import plan_trial, read_trial
from core.records.alike import alike
from core.records.evaluation import EvaluationOrder
from core.records.limits import whole
from core.records.run import Run
from core.records.selection import Selection
from core.records.times import HOUR_MS
from core.store.store import Store

_SEGMENT_MS: Final = 2 * HOUR_MS
_PAID_EVERY: Final = 20
"""One in so many observed runs closes a ticket of the support desk, which pays for it."""

_MOST_MORE: Final = 100_000
"""Runs that a demo plays on at once."""

Progress = Callable[[int, int], None]
"""Called with the runs made so far and the runs to come to."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """A played world, with the planned savings without noise at one mix of models and channels; 0 without any."""

    runs: int
    saved_percent: float


def play(store: Store, *, seed: int, n_runs: int = N_RUNS, progress: Progress | None = None) -> Played:
    """Live through the world of a seed in an empty store."""
    player = _Player(store, seed)
    pending = requests(n_runs, player.rng)
    next_index = 0
    with store.hurrying():
        for begin, end in pairwise(_edges()):
            player.act_until(begin)
            first = next_index
            while next_index < n_runs and pending[next_index].at_ms < end:
                next_index += 1
            player.answer(pending[first:next_index])
            if progress is not None:
                progress(next_index, n_runs)
        player.act_until(END_MS)
        player.try_out()
    return Played(runs=next_index, saved_percent=player.plan.saved_percent)


def play_on(context: Context, n_runs: int, *, progress: Progress | None = None) -> None:
    """Let the world of a demo go on after its last run, without its people.

    Seed and time of the last run decide all of it. Raises `NotApplicable` for a learner that is no demo.
    """
    whole("The number of runs", n_runs, _MOST_MORE, lowest=1)
    context.permit("ingest")
    now = revision(context)
    seed = seed_of(now.snapshot_key.origin)
    if seed is None:
        raise NotApplicable(
            f"Only a demo can play on, got learner {context.learner!r}.", next_step="Make one: armscope demo"
        )
    since_ms = max(now.last_at_ms or END_MS, END_MS)
    player = _Player(context.store, seed, learner=context.learner, since_ms=since_ms)
    n_played = 0
    with context.store.hurrying():
        pending = later_requests(n_runs, player.rng, since_ms)
        for _, batch in groupby(pending, lambda request: request.at_ms // _SEGMENT_MS):
            n_played += player.answer(list(batch))
            if progress is not None:
                progress(n_played, n_runs)


def _edges() -> list[int]:
    """Return the bounds of the segments: every two hours, and at each act of the story."""
    regular = range(START_MS, END_MS, _SEGMENT_MS)
    return sorted({*regular, *(act.at_ms for act in STORY), *OUTAGE_MS, END_MS})


class _Player:
    """The world under way: what is known, what people still have to do, what was seen last."""

    def __init__(
        self, store: Store, seed: int, *, learner: str = LEARNER, since_ms: int | None = None
    ) -> None:
        """``since_ms``: the world goes on after this time, on other dice and without a story."""
        streams = ([seed, stream, *([] if since_ms is None else [since_ms])] for stream in range(7))
        generators = [np.random.Generator(np.random.PCG64(stream)) for stream in streams]
        self.rng, selecting, _, reviewing, self._paying, self._solving, self._trying = generators
        self.plan = _Plan()
        self._arms = planted(seed)
        self._now_ms = START_MS
        self._entropy = lambda: int(reviewing.integers(1 << 63))
        self._context = Context(
            store=store,
            learner=learner,
            actor=AGENT,
            clock=lambda: self._now_ms,
            entropy=lambda: int(selecting.integers(1 << 63)),
            identity=lambda: f"{DEMO_ORIGIN}{seed}",
        )
        story: list[Act] = []
        if since_ms is None:
            recorded = brought("environments.jsonl", recordings(seed))
            story = [*STORY, *review(seed), Act(at_ms=RECORDED_MS, actor=JON, does=recorded)]
        self._due = [(act.at_ms, stream, act) for stream, act in enumerate(story)]
        heapq.heapify(self._due)
        self._n_acts = len(self._due)
        self._latest: dict[tuple[str, bool], str] = {}
        self._done: dict[str, str] = {}
        self._n_observed = 0

    def answer(self, batch: Sequence[Request]) -> int:
        """Answer a batch of requests, record the runs, see who will judge them, and return their number."""
        if not batch:
            return 0
        runs = [self._run_of(request) for request in batch]
        self._now_ms = batch[-1].at_ms
        answers = record_all(self._context, [one.run for one in runs])
        observed = [
            one for one, recorded in zip(runs, answers, strict=True) if recorded.outcome == "observed"
        ]
        for one in runs:
            self.plan.add(one)
        for one in observed:
            self._note(one)
            self._n_observed += 1
            if self._n_observed % _PAID_EVERY == 0:
                self._pay(one.run)
        for act in later_judgements(observed, self.rng):
            self._n_acts += 1
            heapq.heappush(self._due, (act.at_ms, self._n_acts, act))
        return len(runs)

    def act_until(self, at_ms: int) -> None:
        while self._due and self._due[0][0] <= at_ms:
            act = heapq.heappop(self._due)[2]
            self._now_ms = act.at_ms
            self._do(replace(self._context, actor=act.actor, entropy=self._entropy), act)

    def try_out(self) -> None:
        """Plan the trials and read their results, which change nothing in the runs of the world."""
        dice = self._trying
        for person, arm, lift in TRIALS:
            context = replace(self._context, actor=person, entropy=lambda: int(dice.integers(1 << 63)))
            planned = plan_trial(
                context, arm, TASKS, smallest=SMALLEST, model=MODELS[0].name, grader="desk tests"
            )
            read_trial(context, trial_results(dice, planned.plan, lift), plan=planned.id)

    def _run_of(self, request: Request) -> DemoRun:
        offered = [
            arm
            for arm in self._arms
            if arm.is_offered(request.at_ms, to_health_check=request.is_health_check, problem=request.problem)
        ]
        one = answer(request, offered, self._selection(request, offered), self.rng)
        return replace(one, run=msgspec.structs.replace(one.run, achieved=self._achieved(one.run, offered)))

    def _achieved(self, run: Run, offered: Sequence[Planted]) -> float:
        """Return whether the ticket stays closed, as the agent's program states it."""
        included = {arm.key for arm in run.inventory.arms}
        prob = prob_solved(offered, included, run.ended_at_ms or START_MS)
        return float(self._solving.random() < prob and run.status == "completed")

    def _selection(self, request: Request, offered: Sequence[Planted]) -> Selection | None:
        if OUTAGE_MS[0] <= request.at_ms < OUTAGE_MS[1]:
            return None
        self._now_ms = request.at_ms
        return select(self._context, [arm.arm for arm in offered], session=request.session)

    def _note(self, run: DemoRun) -> None:
        """Remember the latest observed run that was, or was not, seen to use each arm."""
        for arm in run.run.inventory.arms:
            self._latest[arm.key, arm.key in run.used] = run.run.uid

    def _pay(self, run: Run) -> None:
        for step in paid_for((call.name for call in run.calls), self._paying):
            record_step(
                self._context,
                f"{DESK.name}/{run.uid}",
                environment=DESK.name,
                name=step.name,
                reward=step.reward,
                finished=step.finished,
                model=run.model,
                run=run.uid,
            )

    def _do(self, context: Context, act: Act) -> None:
        what = act.does
        if isinstance(what, Judge):
            self._judge(context, what)
        elif isinstance(what, Evaluate):
            self._evaluate(context, what)
        elif isinstance(what, str):
            undo(context, self._done[what])
        else:
            what(context)

    def _judge(self, context: Context, judged: Judge) -> None:
        """Reward; what the written story says of an arm no run has shown yet in a small world is left out."""
        run = judged.run
        if judged.was_used is not None:
            run = self._latest.get((judged.arm, judged.was_used))
            if run is None:
                return
        answer = reward(
            context, judged.arm, outcome=judged.outcome, reason=judged.reason, run=run, correct=judged.correct
        )
        if judged.name is not None:
            self._done[judged.name] = answer.id

    def _evaluate(self, context: Context, judged: Evaluate) -> None:
        """All of it as one act of sending; of runs, what this world has shown."""
        orders = [*judged.orders]
        for one in judged.in_runs:
            run = self._latest.get((one.arm, one.was_used))
            if run is not None:
                arm, rater = None if one.is_whole else one.arm, context.actor.name
                orders.append(
                    alike(EvaluationOrder, one, run=run, arm=arm, rater=rater, rubric=judged.rubric)
                )
        answers = evaluate_all(context, orders)
        if judged.name is not None:
            self._done[judged.name] = answers[-1].id


@dataclass
class _Plan:
    """Expected tokens of the runs that can be compared, by model and channel."""

    sums: dict[tuple[str | None, str | None], dict[str, list[float]]] = field(default_factory=dict)

    def add(self, demo_run: DemoRun) -> None:
        run = demo_run.run
        if run.selection is not None and run.selection.experiment is not msgspec.UNSET:
            return
        if run.run_class in {"baseline", "selected"} and run.status == "completed" and run.usage is not None:
            by_class = self.sums.setdefault((run.model, run.channel), {"baseline": [], "selected": []})
            by_class[run.run_class].append(demo_run.expected_tokens)

    @property
    def saved_percent(self) -> float:
        means = {"baseline": 0.0, "selected": 0.0}
        for by_class in self.sums.values():
            if all(by_class.values()):
                n_runs = sum(map(len, by_class.values()))
                for name, tokens in by_class.items():
                    means[name] += n_runs * sum(tokens) / len(tokens)
        if not means["baseline"]:
            return 0.0
        return 100 * (1 - means["selected"] / means["baseline"])
