"""Lines of our own loss-free export: what a learner holds besides runs, and runs with what was decided.

Their order is the order of learning. ``revision`` is the counter of the learner they were written by: it
groups what was recorded together and never orders anything in another learner.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec

from core.errors import InvalidInput
from core.records.arm import MICRO, Prior, check_key
from core.records.episode import Episode, ScaleLine
from core.records.episode_credit import CreditLine
from core.records.evaluation_lines import ChoiceLine, EvaluationLine, ExecutionLine, LayerLine, RubricLine
from core.records.evidence import Reference
from core.records.learner import LearnerSettings
from core.records.limits import MAX_COUNT, Count, Label, Millis, Tokens
from core.records.line_checks import check_id, check_kept, check_number
from core.records.note import check_text
from core.records.observation import Kind, check_reason, check_request_key, check_reward
from core.records.queue_lines import AsideLine, QueueLine
from core.records.reset import Target
from core.records.run import Phase, Run
from core.records.verdict import Outcome

LINES_VERSION: Final = 1
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
"""64 bits in hexadecimal: as a number, readers that know only floats would round them."""
Pseudocount = Annotated[float, msgspec.Meta(gt=0, le=MAX_COUNT)]


class LearnerLine(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="learner"
):
    """First line: whose data these are. ``origin`` identifies the database and learner they came from; ``texts``
    False: what people wrote, and excerpts, are left out of what follows; ``hidden``: so are this many evaluations,
    that who asked for it was not to see yet.
    """

    armscope: Literal[1]
    name: str
    origin: str | None = None
    settings: LearnerSettings | None = None
    texts: bool | msgspec.UnsetType = msgspec.UNSET
    hidden: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_kept(name=self.name, origin=self.origin)


class ArmLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="arm",
):
    """A declared or seen arm. ``prior`` None = the learner's prior for its type."""

    key: str
    label: str | None = None
    token_cost: Tokens | None = None
    prior: Prior | None = None

    def __post_init__(self) -> None:
        check_key(self.key)
        if self.token_cost is not None and self.token_cost < 0:
            raise InvalidInput(
                f"token_cost must be 0 or more, got {self.token_cost} (arm {self.key!r}).",
                next_step="Leave it out when the cost is unknown.",
            )
        check_kept(label=self.label)


class RewardContext(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False
):
    """What every exported observation says of itself."""

    lagged: bool = True
    reason: str | None = None
    by: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        check_kept(by=self.by, run=self.run)


class RewardReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the request under a key asked and was answered with, so that it gets the same answer elsewhere.

    ``asked`` digests what the caller said, times left out; ``run`` is the run as the caller named it. The rest is
    where the posterior stood after it, and whether the reward was finer than a millionth.
    """

    asked: Digest
    alpha: Pseudocount
    beta: Pseudocount
    mean: Annotated[float, msgspec.Meta(ge=0, le=1)]
    pulls: Count
    run: Label | None = None
    rounded: bool = False


class RewardLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="reward",
):
    """A row of the ledger.

    ``observation`` says what kind. All but ``carried`` have a ``reward``; a carried belief has its sums and
    pulls instead. ``key`` is the caller's idempotency key and ``reply`` what it was answered with; without one it
    stands for the request that says what the line says. ``id`` is what `undo` took where it was written.

    >>> RewardLine(id="o1", arm="tool:fs:Read", observation="feedback", reward=0.0).context.lagged
    True
    """

    id: str
    arm: str
    observation: Kind
    reward: float | None = None
    weight_micro: int = MICRO
    success_micro: int | None = None
    failure_micro: int | None = None
    pulls: int | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    key: str | None = None
    reply: RewardReply | None = None
    undone: bool = False
    context: RewardContext = RewardContext()

    def __post_init__(self) -> None:
        check_key(self.arm)
        check_id(self.id)
        check_request_key(self.key)
        check_reason(self.context.reason)
        check_number("weight_micro", self.weight_micro, lowest=1)
        self._check_asked()
        if self.observation == "carried":
            self._check_carried()
        elif self.reward is None:
            raise InvalidInput(
                f"A reward line must have a reward, got none (id {self.id!r}).",
                next_step="Give a number from 0 to 1; only carried beliefs go without.",
            )
        else:
            check_reward(self.reward)

    def _check_asked(self) -> None:
        if self.key is None:
            if self.reply is not None:
                raise InvalidInput(
                    f"A reply must come with the key it was given to, got none (id {self.id!r}).",
                    next_step="Give the key, or leave the reply out.",
                )
        elif self.observation not in {"feedback", "correction"}:
            raise InvalidInput(
                f"A key must come with feedback or a correction, got {self.observation} (id {self.id!r}).",
                next_step="Leave it out: the id alone tells the line from others.",
            )

    def _check_carried(self) -> None:
        for name in ("success_micro", "failure_micro", "pulls"):
            value = getattr(self, name)
            if value is None:
                raise InvalidInput(
                    f"A carried belief must have {name}, got none (id {self.id!r}).",
                    next_step="Give success_micro, failure_micro and pulls.",
                )
            check_number(name, value)


class ResetLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="reset",
):
    """A boundary between epochs: the arms it was for, where they restart and why."""

    id: str
    arms: tuple[str, ...]
    target: Target = "uniform"
    reason: str | None = None
    scope: str | None = None
    by: str | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    undone: bool = False

    def __post_init__(self) -> None:
        check_id(self.id)
        check_reason(self.reason)
        check_kept(scope=self.scope, by=self.by)
        for key in self.arms:
            check_key(key)


class NoteLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="note",
):
    """What somebody wrote about an arm; ``text`` None = it was left out, or erased.

    >>> NoteLine(id="n1", arm="tool:fs:Read", text="slow on Mondays").undone
    False
    """

    id: str
    arm: str
    text: str | None
    by: str | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    key: str | None = None
    undone: bool = False

    def __post_init__(self) -> None:
        check_key(self.arm)
        if self.text is not None:
            check_text(self.text)
        check_kept(by=self.by)
        check_id(self.id)
        check_request_key(self.key)


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was recorded, with the verdict that stood and the evidence that was kept.

    Its calls are not kept, their number is; ``run.referenced`` names what was recognised, so that nothing has
    to be detected or judged again.
    """

    run: Run
    outcome: Outcome
    phase: Phase = "active"
    references: tuple[Reference, ...] = ()
    n_calls: Count = 0
    n_real_calls: Count = 0
    revision: Count | None = None

    def __post_init__(self) -> None:
        check_number("n_calls", self.n_calls)
        check_number("n_real_calls", self.n_real_calls)


def digest_text(digest: int) -> str:
    """A signed 64-bit digest as lines tell it.

    >>> digest_text(-1), digest_of("000000000000000a")
    ('ffffffffffffffff', 10)
    """
    return digest.to_bytes(8, "big", signed=True).hex()


def digest_of(text: str) -> int:
    """The digest that a line tells."""
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


def carried_prefix(arm: str) -> str:
    """How the ids of all beliefs begin that are carried for an arm; what follows tells their content.

    >>> carried_prefix("tool:fs:Read")
    'carried/1a572997d764b854/'
    """
    return f"carried/{hashlib.sha256(arm.encode()).hexdigest()[:16]}/"


FactLine = (
    RewardLine
    | ResetLine
    | NoteLine
    | RubricLine
    | EvaluationLine
    | ChoiceLine
    | QueueLine
    | AsideLine
    | ScaleLine
    | CreditLine
)
"""Lines of what people did, one for each kind of fact that goes from one learner to another; each has an ``id`` and
says whether it is ``undone``.
"""
SaidLine = LearnerLine | ArmLine | LayerLine | ExecutionLine | Episode | FactLine
"""What a file says besides runs."""
LedgerLine = SaidLine | RunLine
PlacedLine = tuple[int, LedgerLine]
"""A line and the revision that it is told at."""
