"""Episode page: which episodes are asked for, some of a list, newest first, and where the list goes on."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from core.records.episode import Base, EpisodeStatus
from core.records.limits import one_of, text
from core.records.run_page import RowState

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
