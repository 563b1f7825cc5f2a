"""Play: the world's thirty days in order of time, through the same flows that all users call.

Runs are recorded in segments of two hours: each selection uses the beliefs at the start of its segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from core.demo.agent import DemoRun, Request, answer, requests
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
    PROB_SOLVED,
    START_MS,
    Planted,
    planted,
)
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.episode import record_step
from core.flows.evaluate import evaluate_all
from core.flows.learn import record_all, reward
from core.flows.queries import DEMO_ORIGIN
from core.flows.select import select
from core.flows.trials.plan import plan_trial, read_trial
from core.records.alike import alike
from core.records.evaluation import EvaluationOrder
from core.records.run import Run
from core.records.selection import Selection
from core.records.times import HOUR_MS
from core.store.store import Store

_SEGMENT_MS: Final = 2 * HOUR_MS
_PAID_EVERY: Final = 20
"""One in so many observed runs closes a ticket of the support desk, which pays for it."""

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
        player.try_out(np.random.Generator(np.random.PCG64([seed, 6])))
    return Played(runs=next_index, saved_percent=player.plan.saved_percent)


def _edges() -> list[int]:
    """Return the bounds of the segments: every two hours, and at each act of the story."""
    regular = range(START_MS, END_MS, _SEGMENT_MS)
    return sorted({*regular, *(act.at_ms for act in STORY), *OUTAGE_MS, END_MS})


class _Player:
    """The world under way: what is known, what people still have to do, what was seen last."""

    def __init__(self, store: Store, seed: int) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.plan = _Plan()
        self._arms = planted(seed)
        self._now_ms = START_MS
        selecting, reviewing = (np.random.Generator(np.random.PCG64([seed, stream])) for stream in (1, 3))
        self._entropy = lambda: int(reviewing.integers(1 << 63))
        self._context = Context(
            store=store,
            learner=LEARNER,
            actor=AGENT,
            clock=lambda: self._now_ms,
            entropy=lambda: int(selecting.integers(1 << 63)),
            identity=lambda: f"{DEMO_ORIGIN}{seed}",
        )
        recorded = brought("environments.jsonl", recordings(seed))
        story = [*STORY, *review(seed), Act(at_ms=RECORDED_MS, actor=JON, does=recorded)]
        self._due = [(act.at_ms, stream, act) for stream, act in enumerate(story)]
        heapq.heapify(self._due)
        self._n_acts = len(self._due)
        self._paying = np.random.Generator(np.random.PCG64([seed, 4]))
        self._solving = np.random.Generator(np.random.PCG64([seed, 5]))
        self._latest: dict[tuple[str, bool], str] = {}
        self._done: dict[str, str] = {}
        self._n_observed = 0

    def answer(self, batch: Sequence[Request]) -> None:
        """Answer a stretch of requests, record the runs, and see who will judge them."""
        if not batch:
            return
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

    def act_until(self, at_ms: int) -> None:
        while self._due and self._due[0][0] <= at_ms:
            act = heapq.heappop(self._due)[2]
            self._now_ms = act.at_ms
            self._do(replace(self._context, actor=act.actor, entropy=self._entropy), act)

    def try_out(self, dice: np.random.Generator) -> None:
        """Plan the trials and read their results, which change nothing in the runs of the world."""
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
            if arm.is_offered(request.at_ms, to_health_check=request.is_health_check)
        ]
        one = answer(request, offered, self._selection(request, offered), self.rng)
        return replace(one, run=msgspec.structs.replace(one.run, achieved=self._achieved(one.run)))

    def _achieved(self, run: Run) -> float:
        """Return whether the ticket stays closed, as the agent's program states it; the prompt plays no part."""
        return float(self._solving.random() < PROB_SOLVED and run.status == "completed")

    def _selection(self, request: Request, offered: Sequence[Planted]) -> Selection | None:
        if OUTAGE_MS[0] <= request.at_ms < OUTAGE_MS[1]:
            return None
        return select(self._context, [arm.arm for arm in offered])

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
