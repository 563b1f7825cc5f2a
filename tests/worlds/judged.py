"""A world that was judged, by people, a model and no one, by several rubrics; and what each stated, as records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.evaluate import evaluate_all
from core.flows.learn import record_all
from core.maths.evaluate import grade
from core.records.evaluation import EvaluationOrder, Grade, Thresholds
from tests.worlds import a_run, context_at

ARM: Final = "tool:other:a"
LAYERS: Final = tuple(f"{digit * 8}-1111-4222-8333-000000000001" for digit in "ab")
EXECUTION: Final = "00000dd0-1111-4222-8333-000001ab4530"
_GRADERS: Final = (("mara", None), ("kim", None), ("kim", "judge-1"), (" ", None), (None, None))
_RUBRICS: Final = ("v1", "v2", None, " \u3000", "")
_SCORES: Final = (None, 0.0, 0.3, 0.65, 0.6499999, 0.7, 0.84999999, 0.85, 1.0)


@dataclass(kw_only=True)
class Told:
    """One evaluation as it was asked for, and whether it counts, was superseded or is undone."""

    number: int
    order: EvaluationOrder
    state: str = "counts"

    @property
    def grader(self) -> str:
        return (self.order.model or self.order.rater) or ""

    def graded(self, thresholds: Thresholds) -> Grade:
        one = self.order
        return grade(
            one.outcome,
            one.score,
            rater=one.rater,
            model=one.model,
            rubric=one.rubric,
            thresholds=thresholds,
        )


@dataclass(kw_only=True)
class World:
    """A context and all that was told in it."""

    context: Context
    told: list[Told] = field(default_factory=list)

    def tell(self, orders: Sequence[EvaluationOrder]) -> None:
        """Have evaluations recorded, and note which of them count."""
        for order, answer in zip(orders, evaluate_all(self.context, orders), strict=True):
            new = Told(number=int(answer.id.rpartition("-")[2]), order=order)
            for one in self.told:
                if one.state == "counts" and _key(one.order) is not None and _key(one.order) == _key(order):
                    one.state = "superseded"
            self.told.append(new)

    def take_back(self, one: Told) -> None:
        """Undo it; an earlier one of its key counts again."""
        undo(self.context, f"evaluation-{one.number}")
        stood = one.state == "counts"
        one.state = "undone"
        if stood and _key(one.order) is not None:
            earlier = [
                other
                for other in self.told
                if other.state == "superseded" and _key(other.order) == _key(one.order)
            ]
            if earlier:
                earlier[-1].state = "counts"

    def those(self, fits: Callable[[Told], bool]) -> list[str]:
        """Ids of those that fit, the latest first."""
        return [f"evaluation-{one.number}" for one in reversed(self.told) if fits(one)]


def _key(order: EvaluationOrder) -> tuple[object, ...] | None:
    """By what a later one takes the place of an earlier one; None of a layer as such."""
    if order.execution is None and order.run is None:
        return None
    names = (order.rater or "", order.model or "", order.rubric or "")
    return (order.layer, order.execution, order.run, order.arm, *names)


def judged_world(folder: Path, *, n: int = 120, seed: int = 1) -> World:
    """Some twenty runs, two layers and an execution, judged ``n`` times; every ninth of them is taken back."""
    rng = random.Random(seed)
    context = context_at(folder / "judged.db")
    record_all(context, [a_run(f"r{number}") for number in range(20)])
    world = World(context=context)
    subjects: list[dict[str, str]] = [
        *({"run": f"r{number}"} for number in range(6)),
        *({"run": f"r{number}", "arm": ARM} for number in range(6)),
        *({"layer": uid} for uid in LAYERS),
        *({"layer": uid, "execution": EXECUTION} for uid in LAYERS),
    ]
    orders = []
    for _ in range(n):
        rater, model = rng.choice(_GRADERS)
        orders.append(
            EvaluationOrder(
                **rng.choice(subjects),
                outcome=rng.choice(("success", "success", "failure")),
                score=rng.choice(_SCORES),
                rater=rater,
                model=model,
                rubric=rng.choice(_RUBRICS),
                feedback=f"so said {rater}",
                create=True,
            )
        )
    for order in orders:
        world.tell([order])
    for one in world.told[::9]:
        world.take_back(one)
    return world
