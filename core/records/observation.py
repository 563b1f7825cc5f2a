"""An observation: one reward for one arm from one source, the order of a reward by hand, and its answer.

Automatic observations are stored with their run. All others are rows of the ledger: feedback and corrections by
people, evaluations, episode credit, reports of clients, carried beliefs.

Five types describe a reward on its way: the input of the verb, `RewardOrder`, `Amount` (millionths), the `Entry` of
the ledger, and `RewardAnswer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from hashlib import blake2b
from typing import Final, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from core.errors import InvalidInput, InvalidReward, NotApplicable
from core.records.arm import MICRO, check_key
from core.records.limits import shown, storable

Kind = Literal["feedback", "correction", "evaluation", "episode", "reported", "carried"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Source = Literal["prior", "detector", "person", "grader", "credit", "carried"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
"""Sources of a belief: its prior, and those of its observations.

The detector's are the automatic ones of runs and the reports of agents, a person's the feedback and corrections by
hand, a grader's the evaluations by reviewers and models.
"""
SOURCE_OF: Final[Mapping[Kind, Source]] = {
    "feedback": "person",
    "correction": "person",
    "evaluation": "grader",
    "episode": "credit",
    "reported": "detector",
    "carried": "carried",
}
"""Source of a ledger row by its kind."""
RewardOutcome = Literal["accepted", "partial", "rejected"]
OUTCOME_REWARDS: Final[dict[RewardOutcome, float]] = {"accepted": 1.0, "partial": 0.5, "rejected": 0.0}
MAX_REQUEST_KEY_CHARS: Final = 200
MAX_REASON_CHARS: Final = 2_000
_DIGITS: Final = 6


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """The successes and failures of one observation in millionths, and whether they were rounded."""

    success_micro: int
    failure_micro: int
    rounded: bool = False

    @classmethod
    def of(cls, reward: float, weight_micro: int = MICRO) -> Amount:
        """``success = round_half_even(w * r)``, ``failure = w - success``, exactly as decimals.

        The decimal that a person wrote is what is rounded, not the binary number nearest to it.
        Raises `InvalidReward` outside 0..1, for NaN and for infinities.

        >>> Amount.of(0.0000005).success_micro, Amount.of(0.0000015).success_micro
        (0, 2)
        """
        return cls.of_checked(check_reward(reward), weight_micro)

    @classmethod
    def of_checked(cls, reward: float, weight_micro: int = MICRO) -> Amount:
        """Return the amount of a reward that is known to be from 0 to 1."""
        millionths = round(reward * MICRO)
        if weight_micro == MICRO and millionths / MICRO == reward:
            # A float has one shortest decimal, so six places that give it are it. Decimals take twice as long.
            return cls(success_micro=millionths, failure_micro=MICRO - millionths)
        exact = Decimal(repr(float(reward))) * weight_micro
        success = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
        return cls(success_micro=success, failure_micro=weight_micro - success, rounded=exact != success)


def plain_reward(success_micro: int, weight_micro: int) -> float:
    """Return the reward behind an amount, with as few decimals as possible; 0 without a weight.

    A weight below 1 has fewer millionths, so the ratio may differ slightly from the reward that was sent.
    """
    if not weight_micro:
        return 0.0
    ratio = success_micro / weight_micro
    if weight_micro >= MICRO:
        return ratio
    shorter = (round(ratio, digits) for digits in range(1, _DIGITS + 1))
    return next(
        (one for one in shorter if Amount.of(one, weight_micro).success_micro == success_micro), ratio
    )


def whole_pulls(kind: Kind, weight_micro: int) -> int:
    """Return the pulls of an observation: 1, or 0 where its weight (millionths) is below 1 and `part_micro` applies.

    A correction has 1 at any weight, that of the observation it replaces. A carried belief states its own.
    """
    return int(kind == "correction" or weight_micro >= MICRO)


def part_micro(kind: Kind, pulls: int, weight_micro: int) -> int:
    """Part of a pull, in millionths, that an observation adds: its weight, where that is below 1.

    >>> part_micro("evaluation", 0, 333_333), part_micro("feedback", 1, 1_000_000), part_micro("carried", 0, 5)
    (333333, 0, 0)
    """
    return 0 if pulls or kind == "carried" else weight_micro


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """The correction that counts in the place of an earlier one."""

    id: str
    reward: float
    actor: str
    at_ms: int


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger row as it is read; ``at_ms`` is the time of submission in UTC milliseconds.

    ``id`` is the act that `undo` takes; an evaluation may have made several rows. ``row_no`` is the row's own number.
    ``counts`` is False while it is undone, superseded by the later correction ``replaced_by``, or its run is
    inactive. ``revision`` changed it last, and ``mark`` is the position of that change, from which a list with
    ``since`` goes on. ``epoch`` and ``mean_moved`` are of the time of reading. Undoing a superseded row moves
    nothing. It counts again once all later ones are undone.
    """

    id: str
    arm: str
    kind: Kind
    reward: float
    weight: float
    run: str | None
    run_no: int | None
    reason: str | None
    actor: str
    at_ms: int
    epoch: int
    undone: bool
    counts: bool
    row_no: int
    mean_moved: float | None = None
    replaced_by: Replacement | None = None
    revision: int = 0
    mark: str | None = None


def check_reward(reward: object) -> float:
    """Return ``reward`` if it is a number from 0 to 1."""
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        raise InvalidReward(
            f"A reward must be a number from 0 to 1, got {reward!r}.",
            next_step="Send 0, 1 or a number between them.",
        )
    if not 0 <= reward <= 1:  # neither is NaN
        raise InvalidReward(
            f"A reward must be within 0 to 1, got {shown(reward)}.",
            next_step="Send 0, 1 or a number between them.",
        )
    return abs(float(reward))  # a negative zero is a zero


def reward_of(value: float | None, outcome: RewardOutcome | None) -> float:
    """An explicit number wins over the outcome; neither means accepted.

    >>> reward_of(0.0, "accepted"), reward_of(None, "partial"), reward_of(None, None)
    (0.0, 0.5, 1.0)
    """
    if value is not None:
        return check_reward(value)
    return OUTCOME_REWARDS["accepted" if outcome is None else outcome]


def value_of(value: float | UnsetType | None, outcome: object) -> float | None:
    """Return the number of a reward, None without one. Each may be unset. Raises `InvalidReward` where all is None.

    >>> value_of(0.0, UNSET), value_of(UNSET, UNSET), value_of(None, "partial")
    (0.0, None, None)
    """
    present = [one for one in (value, outcome) if one is not UNSET]
    is_unknown = bool(present) and all(
        one is None for one in present
    )  # an answer without a score is no success
    number = None if value is UNSET else value
    return check_reward(None) if is_unknown else number


def check_reason(reason: str | None) -> str | None:
    """Return the reason if it has at most 2,000 characters; None = none was given.

    >>> check_reason("half an answer")
    'half an answer'
    """
    if reason is not None and len(reason) > MAX_REASON_CHARS:
        raise InvalidInput(
            f"A reason must have at most {MAX_REASON_CHARS:,} characters, got {len(reason):,}.",
            next_step="Shorten it or leave it out.",
        )
    return None if reason is None else storable("A reason", reason)


def check_request_key(key: str | None) -> str | None:
    """Return the idempotency key if it has 1 to 200 characters; None = none was given.

    >>> check_request_key("order-7")
    'order-7'
    """
    if key is not None and not 1 <= len(key) <= MAX_REQUEST_KEY_CHARS:
        raise InvalidInput(
            f"An idempotency key must have 1 to {MAX_REQUEST_KEY_CHARS} characters, got {len(key):,}.",
            next_step="Use a short unique text such as a UUID, or leave it out.",
        )
    return None if key is None else storable("An idempotency key", key)


def digest(request: object) -> int:
    """Return a signed 64-bit digest of a request: its identity under an idempotency key.

    >>> digest(("note", "tool:fs:Read", "slow")) == digest(["note", "tool:fs:Read", "slow"])
    True
    """
    return int.from_bytes(blake2b(msgspec.json.encode(request), digest_size=8).digest(), "big", signed=True)


class CountedIn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Observations of one act in one epoch; ``epoch`` and ``present`` as in `RewardAnswer`."""

    epoch: int
    observations: int
    present: bool


def counted_in(epochs: Iterable[tuple[int, bool]]) -> tuple[CountedIn, ...]:
    """Return the observations by epoch; each is given by its epoch, and whether that is the present one."""
    return tuple(
        CountedIn(epoch=epoch, observations=n, present=present)
        for (epoch, present), n in sorted(Counter(epochs).items())
    )


def epoch_words(counted: Iterable[CountedIn]) -> str:
    """Return sentences about observations in other epochs than the first and present one; "" for none.

    >>> epoch_words(counted_in([(0, False), (0, False), (4, True), (0, True)]))
    '2 count in epoch 0, which a reset has ended, without effect on the present belief. 1 counts in epoch 4.'
    """
    return " ".join(
        f"{'1 counts' if one.observations == 1 else f'{one.observations:,} count'} in epoch {one.epoch}"
        f"{'' if one.present else ', which a reset has ended, without effect on the present belief'}."
        for one in counted
        if one.epoch or not one.present
    )


class RewardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded reward, and the arm's posterior after it. ``rounded``: the reward was finer than a millionth.

    ``epoch`` is the revision of the reset that began its epoch, 0 the first. ``present``: that is the arm's present
    epoch. Otherwise the posterior is unchanged.
    """

    id: str
    arm: str
    kind: Literal["feedback", "correction"]
    reward: float
    run: str | None
    lagged: bool
    alpha: float
    beta: float
    mean: float
    pulls: int
    rounded: bool = False
    epoch: int = 0
    present: bool = True

    @property
    def effect(self) -> str:
        """The epoch of the reward, unless it is the first and present one, and its effect on the belief, in words."""
        if not self.present:
            return f"it counts in epoch {self.epoch}, which a reset has ended, so its mean stays"
        return f"{f'it counts in epoch {self.epoch}; ' if self.epoch else ''}its mean is now"


class RewardOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One manual reward as a caller sends it; checked when made, and nowhere later.

    ``value`` wins over ``outcome``; the default is accepted. ``correct`` replaces the automatic observation of the
    arm in ``run``; else the reward is one more observation, in that run's epoch. ``seen`` is the newest reward by
    hand about the arm in that run that the caller has read ("" = none): a newer one is a conflict. ``rule``
    chose the arm in a reward of a whole run. None: the caller named the arm, or every arm of the run has the reward.

    >>> RewardOrder(arm="tool:fs:Read", outcome="rejected").reward
    0.0
    """

    arm: str
    value: float | None = None
    outcome: RewardOutcome | None = None
    reason: str | None = None
    run: str | None = None
    correct: bool = False
    key: str | None = None
    create: bool = False
    seen: str | msgspec.UnsetType = msgspec.UNSET
    rule: str | None = None

    def __post_init__(self) -> None:
        check_key(self.arm)
        if self.outcome is not None and self.outcome not in OUTCOME_REWARDS:
            raise InvalidReward(
                f"An outcome must be one of {', '.join(OUTCOME_REWARDS)}, got {str(self.outcome)[:40]!r}.",
                next_step="Correct it, or send a number from 0 to 1; nothing was recorded.",
            )
        if self.value is not None:
            check_reward(self.value)
        if self.reason is not None:
            check_reason(self.reason)
        if self.key is not None:
            check_request_key(self.key)
        if self.correct and self.run is None:
            raise InvalidInput(
                "A correction must name the run it corrects, got none.",
                next_step="Add the run, or send it as feedback.",
            )

    @property
    def reward(self) -> float:
        """The reward from 0 to 1."""
        return OUTCOME_REWARDS[self.outcome or "accepted"] if self.value is None else abs(float(self.value))

    def payload(self) -> int:
        """Return a digest of the order without its key and ``seen``; 1 and 1.0 have the same."""
        fields = msgspec.structs.asdict(self) | {"key": None}
        del fields["seen"]
        if self.rule is None:  # the digest of requests from before there were rules
            del fields["rule"]
        return digest(fields if self.value is None else fields | {"value": self.reward})


def not_in_prompt(arm: str, run_no: int) -> NotApplicable:
    """Return the error for a reward of an arm that names a run without that arm."""
    return NotApplicable(
        f"{arm} was not in the prompt of run {run_no}, so that run says nothing about it.",
        next_step="Leave the run out to reward the arm by itself.",
    )
