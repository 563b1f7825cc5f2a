"""Story of a run: why each arm was in the prompt or left out, as a document; and the document of savings."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.maths.statistics.savings.whole import Savings, SavingsFacts
from core.records.alike import alike
from core.records.evidence import ArmState, Where
from core.records.observation import Observation
from core.records.run_story import RunFacts
from core.records.saving import SpanSaved
from core.records.selection import Reason, Selection
from core.records.status import Money
from core.records.times import Moment, iso


class StorySelection(msgspec.Struct, frozen=True, kw_only=True):
    """The selection behind a run; ``held_since`` is absent where its draw was its own."""

    seed: str
    budget_tokens: int
    baseline_prob: float
    settings_hash: str
    held_since: Moment | msgspec.UnsetType | None = msgspec.UNSET


class StoryArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm of a run, with why it was in or out, and what would have flipped that.

    ``loaded``: the run had it by name, and found it; from there on it was in full. ``taken_back_by``: the repair that
    takes the reward back.
    """

    arm: str
    in_prompt: bool
    state: ArmState
    loaded: bool
    reason: Reason | None
    why: str
    rank: int | None
    draw: float | None
    token_cost: int | None
    budget_left: int | None
    chance: float | None
    referenced: bool
    where: Where | None
    excerpt: str | None
    reward: float | None
    taken_back_by: str | None
    by_hand: tuple[Observation, ...]
    flip: str


class StoryDocument(RunFacts, frozen=True, kw_only=True):
    """A run's facts and arms, with the words of its page."""

    ended_at: Moment | None
    verdict: str
    selection: StorySelection | None
    replays: bool | None
    arms: tuple[StoryArm, ...]
    guidance: str | None
    older: str | None
    newer: str | None


@dataclass(frozen=True, kw_only=True)
class SavingsDocument(SavingsFacts):
    """Baseline against selected runs: in all, by model and channel, and the runs left out."""

    money: Money | None
    money_months: tuple[SpanSaved, ...]


def savings(context: Context, answer: Savings) -> SavingsDocument:  # noqa: ARG001
    """Return baseline against selected runs."""
    money = answer.money
    return alike(
        SavingsDocument,
        answer,
        money=None if money is None else money.record,
        money_months=() if money is None else money.months,
    )


def document(context: Context, answer: queries.RunStory) -> StoryDocument:  # noqa: ARG001
    """Return a run's story with the words of its page."""
    return alike(
        StoryDocument,
        answer,
        **msgspec.structs.asdict(answer.facts),
        ended_at=iso(answer.facts.at_ms),
        verdict=explained.verdict(answer),
        selection=None if answer.selection is None else _selection(answer.selection),
        arms=tuple(
            alike(StoryArm, arm, why=explained.why(arm), flip=explained.flip(arm, answer))
            for arm in answer.arms
        ),
    )


def _selection(chosen: Selection) -> StorySelection:
    since = chosen.held_since_ms
    return alike(StorySelection, chosen, held_since=since if since is msgspec.UNSET else iso(since))
