"""Run story: one run with its arms, its selection and its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from core.records.achieved import OutcomeSource
from core.records.bill import Spent
from core.records.currency import DOLLAR
from core.records.evidence import ArmState, Outcome, Where
from core.records.experiment import Assigned
from core.records.observation import Observation
from core.records.run import InventoryKind, Phase, RunClass, Status, Unit
from core.records.selection import Reason, Selection


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Stored facts of one run; None = unknown. ``import_no`` 0 = recorded directly.

    ``bill`` has the tokens by owner and model. ``cost_pico`` is their cost in 10⁻¹² of ``currency``, by the prices of
    the run's time. It is ``estimated`` where a price or a split is assumed, ``at_least`` where a spend has no
    price or no split. ``unpriced`` names models and parts without a price, ``price_offers`` the priced models that
    fit them. ``achieved`` is its outcome from 0 to 1, from the source ``achieved_by``.
    """

    run_no: int
    uid: str
    import_no: int
    revision: int
    standing: bool
    format: str
    unit: Unit
    session: str | None
    at_ms: int | None
    naive_time: bool
    provider: str | None
    model: str | None
    channel: str | None
    run_class: RunClass
    phase: Phase
    status: Status
    outcome: Outcome
    tokens: int | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    duration_ms: int | None
    prompt_chars: int | None
    n_calls: int
    n_real_calls: int
    reward: float | None
    inventory: InventoryKind
    not_offered: tuple[str, ...]
    bill: tuple[Spent, ...] = ()
    cost_pico: int | None = None
    estimated: bool = False
    at_least: bool = False
    unpriced: tuple[str, ...] = ()
    price_offers: dict[str, str] = {}
    currency: str = DOLLAR
    achieved: float | None = None
    achieved_by: OutcomeSource | None = None


class RunSource(NamedTuple):
    """One source of a run. ``import_no`` 0: recorded directly; ``is_active``: its version is active; ``undone``: its
    import was undone.
    """

    import_no: int
    at_ms: int | None
    is_active: bool
    undone: bool


@dataclass(frozen=True, kw_only=True)
class ArmFlip:
    """Smallest single changes that would flip the decision on one arm; None = none of this kind, or unknown.

    Of a left-out arm: the least budget that includes it (``more_than_budget``: it is larger than this one), the
    highest cost, the last rank, the least draw, the least number of arms. Of an arm that a draw included: the first
    rank and the highest draw that leave it out.
    """

    budget: int | None = None
    more_than_budget: int | None = None
    cost: int | None = None
    rank: int | None = None
    draw: float | None = None
    k: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunArm:
    """One arm of a run. ``in_prompt``: in full. ``loaded``: the run had it by name, and found it.

    ``reason`` to ``chance`` are None without a decision. ``reward`` is the automatic one, None where nothing was
    learned. ``taken_back_by`` is the repair that takes it back. ``where`` and ``excerpt`` are the evidence of a
    reference.
    """

    arm: str
    in_prompt: bool
    state: ArmState
    loaded: bool
    reason: Reason | None
    rank: int | None
    draw: float | None
    token_cost: int | None
    budget_left: int | None
    chance: float | None
    by_draw: bool
    flip: ArmFlip | None
    referenced: bool
    where: Where | None
    excerpt: str | None
    reward: float | None
    by_hand: tuple[Observation, ...]
    taken_back_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunStory:
    """All facts, arms and sources of one run.

    ``selection`` None: no decisions were recorded. ``replays``: the packer repeats the recorded order; ``k`` is its
    limit on arms (0 = unlimited, None = unknown). ``differs``: arms in the prompt that were not selected, or the
    reverse. ``episodes``: uids of the episodes with the run. ``assigned`` is the side of its session in the
    ``experiment`` of this id; None = none. ``is_blind``: an item of an experiment is open to the caller, so neither
    arms nor side are shown.
    """

    facts: RunFacts
    arms: tuple[RunArm, ...]
    selection: Selection | None
    replays: bool | None
    k: int | None
    differs: tuple[str, ...]
    guidance: str | None
    sources: tuple[RunSource, ...]
    episodes: tuple[str, ...]
    older: str | None
    newer: str | None
    experiment: str = ""
    assigned: Assigned | None = None
    is_blind: bool = False

    @cached_property
    def n_in(self) -> int:
        """Number of arms that were in full when the run began."""
        return sum(arm.in_prompt and not arm.loaded for arm in self.arms)

    @cached_property
    def n_referenced(self) -> int:
        """Number of those that it referenced."""
        return sum(arm.referenced and not arm.loaded for arm in self.arms)

    @cached_property
    def n_named(self) -> int:
        """Number of arms that were there by name when the run began."""
        return sum(arm.loaded or arm.state == "by name" for arm in self.arms)

    @cached_property
    def n_loaded(self) -> int:
        """Number of those that it found."""
        return sum(arm.loaded for arm in self.arms)

    @cached_property
    def repairs(self) -> tuple[str, ...]:
        """Repairs that take back what the run observed, in the order of arms."""
        return tuple(dict.fromkeys(arm.taken_back_by for arm in self.arms if arm.taken_back_by))

    @cached_property
    def quoted(self) -> tuple[RunArm, ...]:
        """Arms whose reference has an excerpt."""
        return tuple(arm for arm in self.arms if arm.excerpt is not None)

    @cached_property
    def by_hand(self) -> tuple[tuple[str, Observation], ...]:
        """People's observations of arms in this run, by arm."""
        return tuple((arm.arm, row) for arm in self.arms for row in arm.by_hand)
