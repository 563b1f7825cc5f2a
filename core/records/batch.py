"""A batch: many rewards as one act, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, InvalidBatch, InvalidInput, StoreError
from core.records.observation import (
    MAX_REQUEST_KEY_CHARS,
    RewardAnswer,
    RewardOutcome,
    check_request_key,
    counted_in,
    epoch_words,
)

MAX_BATCH: Final = 10_000
"""Rewards in one act."""
_MAX_KEY_CHARS: Final = MAX_REQUEST_KEY_CHARS - len(f"/{MAX_BATCH}")

_SHOWN: Final = 10
"""Bad lines that a message names; the answer for programs has all of them."""

RewardKind = Literal["feedback", "correction"]
RunRewardRule = Literal["referenced", "equal", "step"]
RUN_REWARD_RULES: Final[tuple[RunRewardRule, ...]] = get_args(RunRewardRule)
"""Rules that choose the arms of a run that share its reward, the default first."""

_Order = TypeVar("_Order")
_Answer = TypeVar("_Answer")


class BatchLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reward of a batch, checked when it is made.

    One of ``value`` (0 to 1, wins) and ``outcome`` is required. ``kind`` None = a correction where the run observed
    the arm, else feedback. ``seen`` is the newest manual reward of the arm in that run that the caller knows ("" =
    none). ``line`` is the line number in the file, 0 = the position in the batch.
    """

    arm: Annotated[str, Meta(description="The arm's id, type:category:name.")]
    value: float | None = None
    outcome: RewardOutcome | None = None
    run: str | None = None
    reason: str | None = None
    kind: RewardKind | None = None
    seen: str | msgspec.UnsetType = msgspec.UNSET
    line: int = 0


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a batch: ``id`` undoes all of it; each reward has its own id, too, in the order of the lines."""

    id: str
    count: int
    rewards: tuple[RewardAnswer, ...]


class RunRewardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a reward of a run. ``id`` undoes all of it.

    No arm has a reward by the rule: ``id`` is None, ``count`` 0, and ``why`` is the reason.
    """

    id: str | None
    rule: RunRewardRule
    count: int
    rewards: tuple[RewardAnswer, ...] = ()
    why: str | None = None


def past_effect(rewards: Sequence[RewardAnswer]) -> str:
    """Return sentences about the epochs in which rewards count; "" for first and present ones."""
    return epoch_words(counted_in((one.epoch, one.present) for one in rewards))


def refused(bad: Mapping[int, ArmscopeError], n_lines: int) -> InvalidBatch:
    """Return the error for a batch with invalid lines, by number; the message names the first ten.

    >>> refused({7: InvalidInput("An id must be short.", next_step="Shorten it.")}, 30).problem
    "1 of 30 lines can't be recorded: line 7: An id must be short."
    """
    shown = [f"line {number}: {bad[number].problem.rstrip('.')}" for number in sorted(bad)]
    more = [f"and {len(shown) - _SHOWN:,} more"] if len(shown) > _SHOWN else []
    return InvalidBatch(
        f"{len(bad):,} of {n_lines:,} lines can't be recorded: {'; '.join([*shown[:_SHOWN], *more])}.",
        next_step="Correct them and send all of it again; nothing was recorded.",
        lines=bad,
    )


def check_size(n_lines: int) -> None:
    """Refuse a batch that is empty or too long.

    >>> check_size(10_000)
    """
    if not 1 <= n_lines <= MAX_BATCH:
        raise InvalidInput(
            f"A batch must have 1 to {MAX_BATCH:,} rewards, got {n_lines:,}.",
            next_step="Send some rewards." if n_lines == 0 else "Send it in parts; nothing was recorded.",
        )


def check_batch_key(key: str | None) -> str | None:
    """Return the key of a batch if it is short enough for the keys of its lines; None = no key.

    >>> check_batch_key("table-7")
    'table-7'
    """
    if key is not None and len(key) > _MAX_KEY_CHARS:
        raise InvalidInput(
            f"The idempotency key of a batch must have 1 to {_MAX_KEY_CHARS} characters, got {len(key):,}.",
            next_step="Use a short unique text such as a UUID, or leave it out.",
        )
    return check_request_key(key)


def key_of_line(key: str | None, position: int) -> str | None:
    """Return the key of the reward at a position of the batch, from 1.

    >>> key_of_line("table-7", 3), key_of_line(None, 3)
    ('table-7/3', None)
    """
    return None if key is None else f"{key}/{position}"


def answers_of(
    orders: Sequence[_Order],
    act: Callable[[Sequence[_Order]], Sequence[_Answer]],
    broken: StoreError | None = None,
) -> list[_Answer | ArmscopeError]:
    """Return the answer or the error of each order. All are done at once; after an error, each half on its own.

    After a `StoreError` (``broken``: an earlier one) no further order is tried.

    >>> answers_of([4, 2], lambda orders: [8 // one for one in orders])
    [2, 4]
    """
    if not orders:
        return []
    if broken is not None:
        return [broken] * len(orders)
    try:
        return list(act(orders))
    except ArmscopeError as problem:
        if isinstance(problem, StoreError) or len(orders) == 1:
            return [problem] * len(orders)
    middle = len(orders) // 2
    first = answers_of(orders[:middle], act)
    failed = next((one for one in first if isinstance(one, StoreError)), None)
    return [*first, *answers_of(orders[middle:], act, failed)]
