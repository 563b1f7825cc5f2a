"""Rewards: building blocks for the author of an environment: what happened → one checked payment.

One for each pattern a reward may have. Payments are from 0 to 1, with penalties from -1 to 1; amounts are added as
the decimals that were written, so that 0.1 and 0.2 are 0.3.
"""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import Final

from core.errors import InvalidInput
from core.maths.episodes import added
from core.records.limits import flag, number

Case = tuple[float, bool]
"""An amount, and whether what it is for happened."""

_NOTHING: Final = 0.0


def sparse(correct: bool | None = None) -> float:
    """Pay at the end alone: 1 where the answer is correct, and nothing before there is one (None).

    Raises `InvalidInput` for what is neither.

    References
    ----------
    OpenReward Standard, "Rewards", pattern 1.

    Examples
    --------
    >>> task, command, answer = {"answer": "4"}, "ls", "4"
    >>> sparse(), sparse(answer == task["answer"])
    (0.0, 1.0)
    """
    return _NOTHING if correct is None else binary(correct)


def dense(*cases: Case) -> float:
    """Pay every meaningful action: the sum of the amounts of what happened, at most 1.

    Raises `InvalidInput` for an amount outside 0 to 1, and where they could come to more than 1 together.

    References
    ----------
    OpenReward Standard, "Rewards", pattern 2.

    Examples
    --------
    >>> output = "answer.txt notes.txt"
    >>> dense((0.2, "answer.txt" in output), (0.1, len(output) > 0))
    0.3
    """
    checked = _checked(cases)
    together = float(added([amount for amount, _ in checked]) or 0)
    if together > 1:
        raise InvalidInput(
            f"The amounts of a dense reward must come to at most 1 together, got {together!r}.",
            next_step="Pay less for each, so that success at the end stays worth more than the way to it.",
        )
    return float(added([amount for amount, happened in checked if happened]) or 0)


def shaped(*milestones: Case) -> float:
    """Pay by how near the goal is: the amount of the last of the milestones reached one after the other.

    Raises `InvalidInput` for an amount outside 0 to 1, and for one that is not above the one before it.

    References
    ----------
    OpenReward Standard, "Rewards", pattern 3.

    Examples
    --------
    >>> state = {"viewed_problem": True, "attempted_calculation": True, "last_guess": 40}
    >>> error = abs(state["last_guess"] - 42)
    >>> shaped(
    ...     (0.1, state["viewed_problem"]), (0.3, state["attempted_calculation"]), (0.7, error < 5), (0.9, error < 1)
    ... )
    0.7
    """
    checked = _checked(milestones)
    for (before, _), (amount, _) in pairwise(checked):
        if amount <= before:
            raise InvalidInput(
                f"Each milestone must pay more than the one before it, got {amount!r} after {before!r}.",
                next_step="Name them in the order in which they are reached.",
            )
    reached = [amount for amount, _ in takewhile(lambda one: one[1], checked)]
    return reached[-1] if reached else _NOTHING


def penalty(*cases: Case, reward: float = 0.0) -> float:
    """Take away for what must not be done: the largest amount of what happened, off what else was earned.

    ``reward`` is what else was earned, from 0 to 1. What is paid is from -1 to 1.

    Raises `InvalidInput` for an amount or a reward outside 0 to 1.

    References
    ----------
    OpenReward Standard, "Rewards", pattern 4.

    Examples
    --------
    >>> dangerous = ("rm -rf", "dd if=/dev/zero")
    >>> command, step_count = "rm -rf /", 3
    >>> penalty((1.0, any(one in command for one in dangerous)), (0.1, step_count > 20))
    -1.0
    >>> penalty((1.0, False), (0.1, False))
    0.0
    """
    earned = number("A reward", reward, lowest=0, highest=1)
    worst = max((amount for amount, happened in _checked(cases) if happened), default=_NOTHING)
    return float(added([earned, -worst]) or 0)


def binary(correct: bool) -> float:
    """Pay 1 or 0: right or wrong.

    Raises `InvalidInput` for what is neither.

    References
    ----------
    OpenReward Standard, "Rewards", pattern 5.

    Examples
    --------
    >>> task = {"answer": "4"}
    >>> binary("4" == task["answer"]), binary("5" == task["answer"])
    (1.0, 0.0)
    """
    flag("correct", correct)
    return float(correct)


def continuous(error: float, max_error: float) -> float:
    """Pay by quality: 1 without error, less in proportion to it, 0 from ``max_error`` on.

    Raises `InvalidInput` for an error below 0, and a largest one that is not above 0.

    References
    ----------
    OpenReward Standard, "Rewards", pattern 6.

    Examples
    --------
    >>> correct_answer, submitted_answer = 42, 67
    >>> continuous(abs(correct_answer - submitted_answer), max_error=100), continuous(0, 100), continuous(500, 100)
    (0.75, 1.0, 0.0)
    """
    amount = number("The error", error, lowest=0)
    most = number("The largest error", max_error, lowest=0)
    if not most:
        raise InvalidInput(
            f"The largest error must be above 0, got {max_error!r}.",
            next_step="Say from which error on an answer is worth nothing.",
        )
    return max(0.0, 1.0 - amount / most)


def _checked(cases: tuple[Case, ...]) -> list[Case]:
    checked = []
    for amount, happened in cases:
        flag("Whether it happened", happened)
        checked.append((number("An amount", amount, lowest=0, highest=1), happened))
    return checked
