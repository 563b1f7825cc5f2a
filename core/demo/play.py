"""Play: the world's thirty days in order of time, through the same flows that all users call.

Runs are recorded in segments of two hours: each selection uses the beliefs at the start of its segment.

Raters review the workflow's answers; two people read them, one doesn't. A program grades first. The people need two
versions of the rubric: by the first a reply is right or wrong, the second adds a reply that could be sent and should
be better. Arms are judged after the last run, so no selection depends on it: with or without evaluations the thirty
days are the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice, pairwise
from typing import Final, Literal

import msgspec
import numpy as np

from core.demo.agent import DemoRun, Request, answer, later_requests, requests
from core.demo.answers import DRAFT, HEAD, LAYERS, N_ANSWERS, SORT, UNKNOWN_LAYER, Answer, answers
from core.demo.environments import DESK, RECORDED_MS, SMALLEST, TASKS, paid_for, recordings, trial_results
from core.demo.people import (
    AGENT,
    JON,
    MARA,
    PRIYA,
    STORY,
    TRIALS,
    Act,
    Evaluate,
    InRun,
    Judge,
    brought,
    later_judgements,
)
from core.demo.world import (
    END_MS,
    LEARNER,
    MODELS,
    N_RUNS,
    OUTAGE_MS,
    START_MS,
    Planted,
    at,
    planted,
    prob_solved,
    seed_of,
)
from core.errors import NotApplicable
from core.flows.choose import choose
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.episode import record_step
from core.flows.evaluate import evaluate_all
from core.flows.learn import record_all, reward
from core.flows.queries import DEMO_ORIGIN, revision
from core.flows.queues import add_queue, add_rubric
from core.flows.select import select
from core.flows.settings import change
from core.flows.trials.plan import plan_trial, read_trial
from core.records.actor import Actor
from core.records.alike import alike
from core.records.evaluation import EvaluationOrder
from core.records.evaluation_lines import LayerLine
from core.records.limits import whole
from core.records.review import LEVELS, Criterion, Level, QueueAsks, Rubric
from core.records.run import Run
from core.records.selection import Selection
from core.records.times import HOUR_MS, MINUTE_MS
from core.store.store import Store

GRADER: Final = Actor(name="grader", role="reviewer")
MODEL: Final = "judge-2026-08"
FIRST_RUBRIC: Final = Rubric(
    version="support-1",
    title="Can this reply be sent?",
    criteria=(
        Criterion(
            name="True",
            words="What it says of order, invoice or contract is so.",
            example="It names the amount that the order says.",
        ),
        Criterion(name="Helps", words="The customer need not ask again."),
    ),
)
SECOND_RUBRIC: Final = Rubric(
    version="support-2",
    title="Can this reply be sent, and would you?",
    criteria=(
        *FIRST_RUBRIC.criteria,
        Criterion(
            name="Harmless",
            words="It does nothing that can't be taken back.",
            example="Deleting a customer's data at once does.",
        ),
    ),
    levels=(
        Level(words="Does harm", outcome="failure", score=1.0, example="A second factor is switched off."),
        Level(words="Wrong", outcome="failure", score=0.75),
        Level(words="Could be sent, should be better", outcome="success", score=0.6),
        Level(words="Right", outcome="success", score=0.8),
        Level(words="Right, and well said", outcome="success", score=1.0),
    ),
)
N_OPEN: Final = 30
OPEN: Final = partial(
    add_queue,
    name="Replies without a review",
    asks=QueueAsks(source="unjudged", about="layer", order="oldest", limit=N_OPEN),
    n_reviewers=2,
    rubric=SECOND_RUBRIC.version,
    due_days=None,  # whenever the demo is looked at, it would be overdue
)
"""Queue that is left for visitors of the demo."""

_DOUBTED: Final = "looked again, too late in the evening"
_CARELESS: Final = JON
_PROB_ERROR: Final = {MARA.name: 0.03, PRIYA.name: 0.04, GRADER.name: 0.05}
_SUCCESS_SCORES: Final = (0.58, 0.99)
_FAILURE_SCORES: Final = (0.62, 0.99)
_A_SITTING: Final = 10
_N_REVISED: Final = 4
_N_COMPARED: Final = 8
_PROB_REMARK: Final = 0.35
_GOOD: Final = ("Clear and complete.", "I would send it as it is.", "Says what happens next, and when.")
_BAD: Final = (
    "Not what was asked.",
    "This is not so, see the order.",
    "The customer will have to write again.",
)
_OFFHAND: Final = ("ok", "no", "meh")

_LAST_MINUTE: Final = at(20, 9, 39)
_IN_RUNS: Final = (
    Act(at_ms=_LAST_MINUTE, actor=JON, does=partial(change, name="evaluation_credit", value="referenced")),
    Act(
        at_ms=_LAST_MINUTE + 10_000,
        actor=PRIYA,
        does=Evaluate(
            rubric=SECOND_RUBRIC.version,
            in_runs=(
                InRun(arm="tool:fs:Read", outcome="success", score=1.0, feedback="Read before it wrote."),
                InRun(arm="tool:exec:Bash", outcome="success", score=0.8),
                InRun(arm="tool:fs:Grep", outcome="success", score=1.0),
                InRun(arm="skill:code-review:main", outcome="success", score=0.8),
                InRun(arm="memory:fact:prod-db-is-read-only", outcome="success", score=1.0),
            ),
        ),
    ),
    Act(
        at_ms=_LAST_MINUTE + 25_000,
        actor=MARA,
        does=Evaluate(
            rubric=SECOND_RUBRIC.version,
            in_runs=(
                InRun(arm="tool:fs:Read", outcome="success", score=0.8),
                InRun(arm="tool:exec:Bash", outcome="success", score=1.0),
                InRun(
                    arm="tool:other:screenshot_page",
                    was_used=False,
                    outcome="failure",
                    score=0.75,
                    feedback="Offered, and not needed.",
                ),
                InRun(arm="tool:fs:Edit", is_whole=True, outcome="success", score=0.8),
            ),
        ),
    ),
)

_SEGMENT_MS: Final = 2 * HOUR_MS
_PAID_EVERY: Final = 20
"""One in so many observed runs closes a ticket of the support desk, which pays for it."""
_MOST_MORE: Final = 100_000
"""Runs that a demo plays on at once."""
Progress = Callable[[int, int], None]
"""Called with the runs made so far and the runs to come to."""


def review(seed: int) -> list[Act]:
    """All that is done about the workflow's answers, drawn on dice of its own."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    replies = answers(seed, rng)
    third = len(replies) // 3
    first, second, still_open = replies[:third], replies[third : 2 * third], replies[2 * third :]
    return [
        Act(at_ms=at(10, 10), actor=JON, does=partial(change, name="keep_texts", value=True)),
        Act(at_ms=at(10, 10, 5), actor=AGENT, does=_file(replies)),
        *_judged(first, HEAD, MARA, at(10, 14, 20), None, rng),
        Act(at_ms=at(11, 9, 30), actor=MARA, does=partial(add_rubric, rubric=FIRST_RUBRIC)),
        Act(at_ms=at(11, 10), actor=GRADER, does=_graded(first, FIRST_RUBRIC, rng)),
        *_judged(first, SORT, PRIYA, at(11, 13, 5), FIRST_RUBRIC, rng),
        *_judged(first, DRAFT, MARA, at(11, 14, 10), FIRST_RUBRIC, rng),
        *_judged(first, DRAFT, PRIYA, at(12, 9, 15), FIRST_RUBRIC, rng),
        *_judged(first, DRAFT, JON, at(12, 11, 58), FIRST_RUBRIC, rng),
        *_looked_again(first, rng),
        Act(at_ms=at(16, 9, 10), actor=MARA, does=partial(add_rubric, rubric=SECOND_RUBRIC)),
        Act(at_ms=at(16, 10), actor=GRADER, does=_graded((*second, *still_open[::3]), SECOND_RUBRIC, rng)),
        *_judged(second, DRAFT, PRIYA, at(16, 13, 30), SECOND_RUBRIC, rng),
        *_judged(second, DRAFT, MARA, at(17, 9, 5), SECOND_RUBRIC, rng),
        *_judged(second, DRAFT, JON, at(17, 16, 50), SECOND_RUBRIC, rng),
        *_compared(second),
        Act(at_ms=at(19, 16, 15), actor=MARA, does=OPEN),
        *_IN_RUNS,
    ]


def _file(replies: Sequence[Answer]) -> Callable[[Context], object]:
    lines = (*LAYERS, *(one.line for one in replies))
    content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return brought("support-answers.jsonl", content)


def _graded(replies: Sequence[Answer], rubric: Rubric, rng: np.random.Generator) -> Evaluate:
    """Grade drafts by a program, some before it names itself, and a layer without a description."""
    orders = [_grade(one, rubric, rng) for one in replies]
    orders += [
        EvaluationOrder(layer=HEAD.uid, outcome="success", score=0.75),
        EvaluationOrder(layer=UNKNOWN_LAYER, outcome="success", model=MODEL, create=True),
    ]
    return Evaluate(orders=tuple(orders))


def _grade(one: Answer, rubric: Rubric, rng: np.random.Generator) -> EvaluationOrder:
    is_success = one.is_right != bool(rng.random() < _PROB_ERROR[GRADER.name])
    return EvaluationOrder(
        layer=DRAFT.uid,
        execution=one.uid,
        outcome="success" if is_success else "failure",
        score=round(float(rng.uniform(*(_SUCCESS_SCORES if is_success else _FAILURE_SCORES))), 2),
        model=MODEL,
        rubric=rubric.version,
    )


def _judged(  # noqa: PLR0917 - one line per argument of `review`
    replies: Sequence[Answer],
    layer: LayerLine,
    rater: Actor,
    begun_ms: int,
    rubric: Rubric | None,
    rng: np.random.Generator,
) -> list[Act]:
    """A rater judges what a layer answered, ten at a sitting; the careless one takes a minute for them."""
    acts = []
    for sitting, index in enumerate(range(0, len(replies), _A_SITTING)):
        orders = [_judgement(one, layer, rater, rubric, rng) for one in replies[index : index + _A_SITTING]]
        lag_ms = sitting * (1 if rater is _CARELESS else 22) * MINUTE_MS
        acts.append(Act(at_ms=begun_ms + lag_ms, actor=rater, does=Evaluate(orders=tuple(orders))))
    return acts


def _judgement(
    one: Answer, layer: LayerLine, rater: Actor, rubric: Rubric | None, rng: np.random.Generator
) -> EvaluationOrder:
    """By a level of the rubric, or (no rubric) of the usual ones."""
    levels = LEVELS if rubric is None else rubric.levels
    remarks = _OFFHAND
    if rater is not _CARELESS:
        is_success = (one.is_right or layer is SORT) != bool(rng.random() < _PROB_ERROR[rater.name])
        levels = tuple(level for level in levels if (level.outcome == "success") == is_success)
        remarks = _GOOD if is_success else _BAD
    level = levels[int(rng.integers(len(levels)))]
    return EvaluationOrder(
        layer=layer.uid,
        execution=one.uid,
        outcome=level.outcome,
        score=level.score,
        feedback=remarks[int(rng.integers(len(remarks)))] if rng.random() < _PROB_REMARK else None,
        rater=rater.name,
        rubric=None if rubric is None else rubric.version,
    )


def _looked_again(replies: Sequence[Answer], rng: np.random.Generator) -> list[Act]:
    """A rater revises some, and late in the evening one more, which is taken back in the morning."""
    again = [
        msgspec.structs.replace(
            _judgement(one, DRAFT, PRIYA, FIRST_RUBRIC, rng), feedback="On second thoughts."
        )
        for one in replies[: _N_REVISED + 1]
    ]
    doubted = msgspec.structs.replace(again.pop(), outcome="failure", score=1.0, feedback="No.")
    return [
        Act(at_ms=at(12, 17, 5), actor=PRIYA, does=Evaluate(orders=tuple(again))),
        Act(at_ms=at(12, 22, 48), actor=PRIYA, does=Evaluate(orders=(doubted,), name=_DOUBTED)),
        Act(at_ms=at(13, 8, 31), actor=PRIYA, does=_DOUBTED),
    ]


def _compared(replies: Sequence[Answer]) -> list[Act]:
    """The two answers to some tickets side by side, by two people in turn."""
    pairs = zip(replies[::N_ANSWERS], replies[1::N_ANSWERS], strict=True)
    return [
        Act(
            at_ms=at(18, 10, 5 + 2 * index),
            actor=PRIYA if index % 2 else MARA,
            does=partial(
                choose,
                layer=DRAFT.uid,
                first=one.uid,
                second=other.uid,
                chosen=_better(one, other),
                rubric=SECOND_RUBRIC.version,
            ),
        )
        for index, (one, other) in enumerate(islice(pairs, _N_COMPARED))
    ]


def _better(one: Answer, other: Answer) -> Literal["first", "second", "equal"]:
    """The right one; two of a kind are equal."""
    if one.is_right == other.is_right:
        return "equal"
    return "first" if one.is_right else "second"


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
            for arm in one.run.inventory.arms:
                self._latest[arm.key, arm.key in one.used] = one.run.uid
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
            orders = [*what.orders]
            for one in what.in_runs:
                run = self._latest.get((one.arm, one.was_used))
                if run is not None:
                    arm, rater = None if one.is_whole else one.arm, context.actor.name
                    orders.append(
                        alike(EvaluationOrder, one, run=run, arm=arm, rater=rater, rubric=what.rubric)
                    )
            answers = evaluate_all(context, orders)
            if what.name is not None:
                self._done[what.name] = answers[-1].id
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
