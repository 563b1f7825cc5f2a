"""Episode view: one episode with its steps, its credit and its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from core.records.episode import EpisodeStatus, Part, Scale, StepKind, StepNote
from core.records.episode_credit import CreditRule, CreditShare
from core.records.times import Moment


@dataclass(frozen=True, kw_only=True)
class StepView:
    """A step, the payments up to it (None: none yet), and whether its reward is off the declared scale.

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
