"""Episode view: one episode with its steps, its credit and its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.records.episode import Part, Scale, StepKind, StepNote
from core.records.episode_credit import CreditRule, CreditShare


@dataclass(frozen=True, kw_only=True)
class StepView:
    """A step, what had been paid up to it (None: nothing yet), and whether its reward is off the declared scale; what
    it was ``asked`` and ``answered`` where that is kept, and for who may read texts.
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
    at: str | None
    n_chars_in: int | None
    n_chars_out: int | None
    extra: tuple[str, ...]
    asked: str | None
    answered: str | None


@dataclass(frozen=True, kw_only=True)
class CreditView:
    """The credit in force of an episode, and what each arm gets of it. ``fits``: the same rule would say the same
    now; it would not where the episode went on since, a run came or went, or another scale was declared.
    """

    id: str
    rule: CreditRule
    reward: float | None
    shares: tuple[CreditShare, ...]
    by: str
    at: str | None
    fits: bool


@dataclass(frozen=True, kw_only=True)
class EpisodeView:
    """An episode: ``normalised`` is where what success goes by lies on the scale, None outside it, or without one;
    ``success`` None = nothing to go by, or off the usual scale where none was declared.
    """

    uid: str
    environment: str
    split: str | None
    task: str | None
    variant: str | None
    model: str | None
    at: str | None
    status: Literal["finished", "unfinished", "incomplete"]
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
