"""Batch preview: the effect of many rewards, and the lines that are invalid; nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.errors import ArmscopeError
from core.flows.batch import check_lines
from core.flows.context import Context
from core.flows.queries.previews import effects_of
from core.flows.reward import OrderFacts
from core.records.batch import BatchLine, RewardKind
from core.records.reward import RewardOrder


@dataclass(frozen=True, kw_only=True)
class LineEffect:
    """Effect of one line. ``in_present_epoch`` False: the line would join an epoch that a reset has ended."""

    line: int
    arm: str
    kind: RewardKind
    reward: float
    run: str | None
    in_present_epoch: bool


@dataclass(frozen=True, kw_only=True)
class ArmMove:
    """One arm's mean (0 to 1) and pulls, before and after all its lines."""

    arm: str
    mean: tuple[float, float]
    pulls: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class BatchPreview:
    """Preview of a batch. ``lines`` are valid, ``bad`` holds the errors of the others by line number.

    ``arms`` show the effect of the valid lines.
    """

    lines: tuple[LineEffect, ...]
    bad: Mapping[int, ArmscopeError]
    arms: Mapping[str, ArmMove]

    @property
    def n_corrections(self) -> int:
        return sum(line.kind == "correction" for line in self.lines)


def preview_batch(context: Context, rewards: Sequence[BatchLine]) -> BatchPreview:
    """Return the effect of `reward_batch`. Bad lines are reported and not raised; nothing is recorded."""
    with context.reading() as snapshot:
        checked = check_lines(snapshot, rewards)
        effects = effects_of(snapshot, list(checked.orders.values()), checked.known)
    lines: list[LineEffect] = []
    moved: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (number, order), effect in zip(checked.orders.items(), effects, strict=True):
        *amounts, is_present = effect
        lines.append(_line(number, order, is_present=is_present))
        sums = moved[order.arm]
        for index, amount in enumerate(amounts):
            sums[index] += amount if is_present else 0
    arms = {arm: _arm(arm, checked.known, sums) for arm, sums in moved.items()}
    return BatchPreview(lines=tuple(lines), bad=checked.bad, arms=arms)


def _line(number: int, order: RewardOrder, *, is_present: bool) -> LineEffect:
    return LineEffect(
        line=number,
        arm=order.arm,
        kind="correction" if order.correct else "feedback",
        reward=order.reward,
        run=order.run,
        in_present_epoch=is_present,
    )


def _arm(arm: str, known: OrderFacts, sums: Sequence[int]) -> ArmMove:
    alpha, beta, pulls = known.rows[known.arm_nos[arm]]
    success, failure, more = sums
    after = (alpha + success) / (alpha + success + beta + failure)
    return ArmMove(arm=arm, mean=(alpha / (alpha + beta), after), pulls=(pulls, pulls + more))
