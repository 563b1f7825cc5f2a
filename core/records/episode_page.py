"""Filter of episodes, a page of their list with the place where it goes on, and a view of one episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from core.records.episode import Base, EpisodeStatus, Part, Scale, StepKind, StepNote
from core.records.episode_credit import CreditRule, CreditShare
from core.records.limits import one_of, text
from core.records.run_page import RowState
from core.records.times import Moment

EpisodeOutcome = Literal["success", "no_success", "unpaid", "broken", "unfinished"]
"""Above the threshold; paid and not above it; without a reward; ended by an error; not at its end."""
EPISODE_OUTCOMES: Final[tuple[EpisodeOutcome, ...]] = get_args(EpisodeOutcome)


class EpisodeFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter of episodes; None = any. Raises `InvalidInput` for an unknown outcome.

    >>> EpisodeFilter(model="gpt-4.1").task is None
    True
    """

    environment: Annotated[str | None, Meta(description="Only episodes of this environment.")] = None
    split: Annotated[str | None, Meta(description="Only episodes of this split.")] = None
    task: Annotated[str | None, Meta(description="Only attempts at this task.")] = None
    model: Annotated[str | None, Meta(description="Only episodes of this model.")] = None
    outcome: Annotated[EpisodeOutcome | None, Meta(description="Only episodes with this outcome.")] = None

    def __post_init__(self) -> None:
        for name in ("environment", "split", "task", "model"):
            value = getattr(self, name)
            if value is not None:
                force_setattr(self, name, text(f"The {name}", value, 10_000))
        if self.outcome is not None:
            one_of("The outcome", self.outcome, EPISODE_OUTCOMES)


ANY_EPISODE: Final = EpisodeFilter()


class EpisodeCursor(NamedTuple):
    """The place of an episode in the order of time; ``at_ms`` None = unknown, which comes last."""

    at_ms: int | None
    episode_no: int


class EpisodeRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One episode of a list.

    ``success`` None = it can't be decided, or the reward is off the default scale. ``running`` is the sum of rewards
    up to each step, None for an episode with too many steps. Lists with ``since`` have ``state``, the
    ``revision`` of the last change, and its position as ``mark``.
    """

    place: EpisodeCursor
    uid: str
    environment: str
    task: str | None
    model: str | None
    split: str | None
    status: EpisodeStatus
    n_steps: int
    total: float | None
    final: float | None
    base: Base
    success: bool | None
    running: tuple[float | None, ...] | None
    state: RowState = "active"
    revision: int = 0
    mark: str | None = None


class EpisodePage(msgspec.Struct, frozen=True, kw_only=True):
    """Episodes newest first. ``onward`` is where the next page in this direction starts, None at the end."""

    rows: tuple[EpisodeRow, ...]
    onward: EpisodeCursor | None


@dataclass(frozen=True, kw_only=True)
class StepView:
    """A step, the payments up to it (None: none yet), and whether its reward is off the declared scale.

    ``same_as`` is the number of the first earlier step with the same name and arguments.
    ``asked`` and ``answered`` are its texts where they are stored and the actor may read texts.
    """

    number: int
    kind: StepKind
    name: str
    reward: float | None
    running: float | None
    finished: bool
    refused: bool
    note: StepNote | None
    out_of_scale: bool
    at: Moment | None
    n_chars_in: int | None
    n_chars_out: int | None
    extra: tuple[str, ...]
    asked: str | None
    answered: str | None
    same_as: int | None


@dataclass(frozen=True, kw_only=True)
class CreditView:
    """The active credit of an episode, and the share of each arm.

    ``fits``: the rule still has the same result. It has another one after more steps, another run or another scale.
    """

    id: str
    rule: CreditRule
    reward: float | None
    shares: tuple[CreditShare, ...]
    by: str
    at: Moment | None
    fits: bool


@dataclass(frozen=True, kw_only=True)
class EpisodeView:
    """An episode with its steps.

    ``normalised`` is the success base on the scale, None outside it or without one. ``success`` is None without a
    success base, and off the usual scale where no scale was declared.
    """

    uid: str
    environment: str
    split: str | None
    task: str | None
    variant: str | None
    model: str | None
    at: Moment | None
    status: EpisodeStatus
    n_steps: int
    n_paid: int
    total: float | None
    final: float | None
    discounted: float | None
    normalised: float | None
    success: bool | None
    scale: Scale
    declared: bool
    steps: tuple[StepView, ...]
    parts: tuple[Part, ...]
    runs: tuple[str, ...]
    credit: CreditView | None
    older: str | None
    newer: str | None
