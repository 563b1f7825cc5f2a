"""Episodes: totals of their steps (total, running sum, discounted return, final reward, length, success). Pure.

Sums are sums of the decimals as written, the shortest ones that are read back as the same number: ten times 0.1 is 1,
and nine times 0.1 is not above 0.9, in spite of binary rounding. None is not zero: it adds nothing, and where nothing
was paid there is no total. A refused step adds nothing either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import lru_cache
from typing import Final

from msgspec.structs import replace as with_fields

from core.records.episode import Episode, Scale, Step

_EXACT: Final = Context(prec=800)
"""Digits between the largest double and the smallest, and 10^15 of them added up."""
_SQUARED: Final = Context(prec=1_600)
_NEAR: Final = Context(prec=60)
"""Powers of a discount have digits without end; a double shows 17."""


@dataclass(frozen=True, kw_only=True)
class EpisodeTotals:
    """Totals of the steps of an episode.

    ``n_steps`` counts those that were not refused, ``n_paid`` those of them with a reward, 0 included. ``total`` and
    ``final`` are None where none was paid, at all and by the last step. A broken episode has neither.
    """

    n_steps: int
    n_paid: int
    n_refused: int
    finished: bool
    total: Decimal | None
    final: Decimal | None
    broken: bool = False

    def base(self, scale: Scale) -> Decimal | None:
        """Return the amount that decides success."""
        return scale.reached(self.total, self.final)

    def succeeded(self, scale: Scale) -> bool:
        """Return whether the amount is strictly above the threshold; without any reward it is not."""
        reached = scale.reached(self.total, self.final)
        return reached is not None and reached > written(scale.threshold)


@lru_cache(maxsize=1_024)
def written(reward: float) -> Decimal:
    """Return the shortest decimal that reads back as this number, which is the one a person wrote.

    >>> written(0.1), written(1e-7), written(1)
    (Decimal('0.1'), Decimal('1E-7'), Decimal('1.0'))
    """
    return Decimal(repr(float(reward)))


def decimal_text(value: Decimal) -> str:
    """Return a decimal in plain digits, one text for each value.

    >>> decimal_text(Decimal("1.10")), decimal_text(Decimal("1E+2")), decimal_text(Decimal("-0.0"))
    ('1.1', '100', '0')
    """
    if not value:
        return "0"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def added(rewards: Iterable[float | None]) -> Decimal | None:
    """Return the sum of what was paid; None where nothing was."""
    return next(reversed(running(rewards)), None)


def running(rewards: Iterable[float | None]) -> list[Decimal | None]:
    """Return the sum paid up to each step, itself included; None before the first payment.

    >>> running([None, 0.5, None, 0.25])
    [None, Decimal('0.5'), Decimal('0.5'), Decimal('0.75')]
    """
    sums: list[Decimal | None] = []
    so_far: Decimal | None = None
    for reward in rewards:
        if reward is not None:
            so_far = written(reward) if so_far is None else _EXACT.add(so_far, written(reward))
        sums.append(so_far)
    return sums


def discounted(rewards: Sequence[float | None], gamma: float) -> float | None:
    """Return the discounted return, the sum of gamma^t r_t over the steps t from 0 on; None where nothing was paid.

    A step without a reward takes its time and adds nothing. Computed from the end (Horner), with 60 digits. With a
    gamma of 1 it is the exact total.

    Parameters
    ----------
    rewards
        Shape (n,), the steps that were not refused; None = none.
    gamma
        0 to 1.

    References
    ----------
    R. S. Sutton and A. G. Barto, Reinforcement Learning, 2nd edition, equation 3.8.

    Examples
    --------
    >>> discounted([1.0, None, 1.0], 0.5), discounted([0.1] * 10, 1.0), discounted([None], 0.9)
    (1.25, 1.0, None)
    """
    total = added(rewards)
    if total is None or gamma == 1:
        return None if total is None else float(total)
    factor, result = written(gamma), Decimal(0)
    for reward in reversed(rewards):
        result = _NEAR.multiply(result, factor)
        if reward is not None:
            result = _NEAR.add(result, written(reward))
    return float(result)


def closed(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps in their order, with all that come after the end marked as refused.

    >>> [one.refused for one in closed([Step(number=0, finished=True), Step(number=1, reward=1.0)])]
    [False, True]
    """
    is_over = False
    for step in steps:
        yield with_fields(step, refused=True) if is_over and not step.refused else step
        is_over |= step.finished and not step.refused


NOTHING: Final = EpisodeTotals(n_steps=0, n_paid=0, n_refused=0, finished=False, total=None, final=None)
"""Totals of an episode without steps."""


def after(totals: EpisodeTotals, step: Step) -> EpisodeTotals:
    """Return the totals of an episode with one more step, which is refused after the end.

    >>> after(NOTHING, Step(number=0, reward=0.5)).total
    Decimal('0.5')
    """
    if step.refused or totals.finished:
        return replace(totals, n_refused=totals.n_refused + 1)
    paid = None if step.reward is None else written(step.reward)
    total = totals.total
    if paid is not None:
        total = paid if total is None else _EXACT.add(total, paid)
    return EpisodeTotals(
        n_steps=totals.n_steps + 1,
        n_paid=totals.n_paid + (paid is not None),
        n_refused=totals.n_refused,
        finished=step.finished,
        total=total,
        final=paid,
    )


def totals_of(steps: Sequence[Step], *, broken: bool = False) -> EpisodeTotals:
    """Return the totals of some steps.

    >>> steps = [Step(number=0, reward=0.1), Step(number=1), Step(number=2, reward=1.0, finished=True)]
    >>> result = totals_of(steps)
    >>> result.total, result.final, result.n_steps, result.n_paid, result.succeeded(Scale())
    (Decimal('1.1'), Decimal('1.0'), 3, 2, True)
    """
    n_steps = n_paid = n_refused = 0
    finished, total, final = False, None, None
    for step in steps:
        if step.refused or finished:
            n_refused += 1
            continue
        n_steps, finished = n_steps + 1, step.finished
        final = None if step.reward is None else written(step.reward)
        if final is not None:
            n_paid += 1
            total = final if total is None else _EXACT.add(total, final)
    return EpisodeTotals(
        n_steps=n_steps,
        n_paid=n_paid,
        n_refused=n_refused,
        finished=finished,
        total=None if broken else total,
        final=None if broken else final,
        broken=broken,
    )


@dataclass(frozen=True, kw_only=True)
class EpisodeSums:
    """Sums of episodes by the amount that decides success, exact; ``n_paid`` counts those with such a reward.

    They form a group: what was added can be taken away again, in any order.

    >>> one = sums_of(totals_of([Step(number=0, reward=0.5, finished=True)]), Scale())
    >>> both = one.plus(one)
    >>> both.n, both.reward_sum, both.reward_squares, both.minus(one) == one
    (2, Decimal('1.0'), Decimal('0.50'), True)
    """

    n: int = 0
    n_paid: int = 0
    n_finished: int = 0
    successes: int = 0
    reward_sum: Decimal = Decimal(0)
    reward_squares: Decimal = Decimal(0)

    def plus(self, other: EpisodeSums) -> EpisodeSums:
        """Return the sums of both."""
        return self._with(other, 1)

    def minus(self, other: EpisodeSums) -> EpisodeSums:
        """Return the sums without the others."""
        return self._with(other, -1)

    def _with(self, other: EpisodeSums, sign: int) -> EpisodeSums:
        add = _SQUARED.add if sign > 0 else _SQUARED.subtract  # a sign alone would round to the usual digits
        return EpisodeSums(
            n=self.n + sign * other.n,
            n_paid=self.n_paid + sign * other.n_paid,
            n_finished=self.n_finished + sign * other.n_finished,
            successes=self.successes + sign * other.successes,
            reward_sum=add(self.reward_sum, other.reward_sum),
            reward_squares=add(self.reward_squares, other.reward_squares),
        )


def sums_of(totals: EpisodeTotals, scale: Scale) -> EpisodeSums:
    """Return the sums of one episode, to be added to others of its environment."""
    reached = totals.base(scale)
    return EpisodeSums(
        n=1,
        n_paid=int(reached is not None),
        n_finished=int(totals.finished),
        successes=int(totals.succeeded(scale)),
        reward_sum=Decimal(0) if reached is None else reached,
        reward_squares=Decimal(0) if reached is None else _SQUARED.multiply(reached, reached),
    )


# States of one episode


def is_later(known: Episode, other: Episode) -> bool | None:
    """Return whether another state of an episode is later than the known one; None where nothing orders them.

    In this order count: the ranks that the source gives, growth, an error that is gone, the number of rewards and
    parts, and the time of the last one. Of other calls only the time of an outcome counts.

    >>> steps = (Step(number=0), Step(number=1))
    >>> one, grown = (Episode(uid="e", environment="v", steps=steps[:n]) for n in (1, 2))
    >>> is_later(one, grown), is_later(grown, one), is_later(one, one)
    (True, False, None)
    """
    if known.rank and other.rank and known.rank != other.rank:
        return other.rank > known.rank
    before, after = _calls(known), _calls(other)
    both = min(len(before), len(after))
    if len(before) != len(after) and before[:both] == after[:both]:
        return len(after) > len(before)
    are_alike = [(one.kind, one.name) for one in before] == [(one.kind, one.name) for one in after]
    has_outcome = other.steps[-1:] and other.steps[-1].kind == "outcome"
    for order in (_wholeness, _n_paid, _latest) if are_alike else (_latest,) if has_outcome else ():
        of_known, of_other = order(known), order(other)
        if of_known is not None and of_other is not None and of_known != of_other:
            return of_other > of_known
    return None


def _calls(line: Episode) -> list[Step]:
    """Return the steps before the outcome, without texts and keyed digests."""
    n = len(line.steps) - (1 if line.steps and line.steps[-1].kind == "outcome" else 0)
    return [with_fields(step, args_digest=None, meta_digest=None) for step in line.without_texts().steps[:n]]


def _wholeness(line: Episode) -> int:
    return not (line.broken or line.incomplete)


def _n_paid(line: Episode) -> int:
    return sum(step.reward is not None for step in line.steps) + len(line.parts)


def _latest(line: Episode) -> int | None:
    times = [line.at_ms, *(step.at_ms for step in line.steps)]
    return max((at_ms for at_ms in times if at_ms is not None), default=None)
