"""Run: why each arm was in its prompt or left out, what was seen of it, and what would have flipped it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import UNKNOWN
from core.errors import UnknownRun
from core.flows.context import Context
from core.flows.queries.blind import hidden_from
from core.guidance import guidance
from core.observe import reward_of_flag
from core.policy import settings_hash
from core.records.arm import ARM_TYPES, arm_type
from core.records.evidence import Reference, Where
from core.records.judged import INCLUDED, REFERENCED
from core.records.observation import Observation
from core.records.run_page import Cursor, Direction
from core.records.run_story import ArmFlip, RunArm, RunStory
from core.records.selection import LEFT_OUT, Decision, Selection
from core.records.view import RunFilter, View
from core.statistics.flip import NO_RANK, Flips, flips, recorded
from core.store.episodes import episodes_of_run
from core.store.reads import observations
from core.store.reads.run_pages import run_page
from core.store.reads.run_story import Part, RecordedRun, recorded_run, run_place, tellings
from core.store.settings import folded_settings
from core.store.transaction import Snapshot

_LEDGER_ROWS: Final = 1_000


def run(context: Context, name: Annotated[str, Meta(description="The run's uid or number.")]) -> RunStory:
    """Explain why each arm was in a run's prompt or left out.

    Runs of an undone import and unanswered prompts have an explanation, too. Raises `UnknownRun`.
    """
    with context.reading() as snapshot:
        place = run_place(snapshot, name)
        if place is None:
            raise UnknownRun(
                f"There is no run {name[:80]!r} in learner {context.learner!r}.",
                next_step="Use a uid or number that armscope runs lists.",
            )
        return _story(context, snapshot, place)


def _story(context: Context, snapshot: Snapshot, place: Cursor) -> RunStory:
    (told, k), by_hand, (sources, episodes), older, newer = snapshot.together(
        lambda: _recorded(snapshot, place.run_no),
        lambda: _by_hand(snapshot, place.run_no, hidden_from(context, snapshot)),
        lambda: snapshot.together(
            lambda: tellings(snapshot, place.run_no), lambda: episodes_of_run(snapshot, place.run_no)
        ),
        lambda: _beside(snapshot, place, "older"),
        lambda: _beside(snapshot, place, "newer"),
    )
    chosen = told.selection
    made = None if chosen is None else recorded(chosen, k=k)
    found = None if made is None else flips(made)
    arms = _arms(_seen(told, by_hand), chosen, found)
    return RunStory(
        facts=told.facts,
        arms=arms,
        selection=chosen,
        replays=None if made is None else made.replays,
        k=None if made is None else made.k,
        differs=_differing(arms),
        guidance=None if chosen is None else guidance(chosen.excluded),
        tellings=sources,
        episodes=episodes,
        older=older,
        newer=newer,
    )


def _recorded(snapshot: Snapshot, run_no: int) -> tuple[RecordedRun, int | None]:
    """All that is recorded of it, and the limit on arms it was selected under."""
    told = recorded_run(snapshot, run_no)
    return told, None if told.selection is None else _limit_in_force(snapshot, told.selection)


def _beside(snapshot: Snapshot, here: Cursor, direction: Direction) -> str | None:
    """The run before or after in time."""
    page = run_page(snapshot, RunFilter(), View(), cursor=here, direction=direction, limit=1)
    return page.rows[0].uid if page.rows else None


def _limit_in_force(snapshot: Snapshot, chosen: Selection) -> int | None:
    """The limit on arms a selection was made under: that of the settings whose hash it keeps, if they are found.

    Looked for among the present settings and those of its revision, with the budget it was given; a call may
    have had a limit of its own, which no log holds.
    """
    for settings in (snapshot.settings, folded_settings(snapshot, until_revision=chosen.revision)):
        for k in (settings.k, 0):
            tried = msgspec.structs.replace(settings, budget_tokens=chosen.budget_tokens, k=k)
            if settings_hash(tried) == chosen.settings_hash:
                return k
    return None


class _Seen(NamedTuple):
    """What is recorded of the arms of a run, by id."""

    parts: dict[str, Part]
    references: dict[str, Reference]
    by_hand: dict[str, list[Observation]]


def _arms(seen: _Seen, chosen: Selection | None, found: Flips | None) -> tuple[RunArm, ...]:
    """Every arm that had a part: by rank where there was a selection, else by type and id, those in first."""
    decided = () if chosen is None else chosen.decisions
    first_drawn = next((at for at, row in enumerate(decided) if row.reason == "draw"), len(decided))
    ranked = [
        _arm(row.arm, seen, row, flip=_flip(row, at, found), is_drawn=at >= first_drawn)
        for at, row in enumerate(decided)
    ]
    known = {row.arm for row in decided}
    others = [_arm(key, seen) for key in seen.parts if key not in known]
    return (*ranked, *sorted(others, key=_by_part))


def _by_hand(snapshot: Snapshot, run_no: int, hidden: frozenset[int]) -> dict[str, list[Observation]]:
    """What people said of its arms, by arm."""
    found: dict[str, list[Observation]] = {}
    for row in observations(snapshot, limit=_LEDGER_ROWS, run_no=run_no, hidden=hidden):
        found.setdefault(row.arm, []).append(row)
    return found


def _seen(told: RecordedRun, by_hand: dict[str, list[Observation]]) -> _Seen:
    return _Seen(
        parts={part.arm: part for part in told.parts},
        references={one.arm: one for one in told.references},
        by_hand=by_hand,
    )


def _by_part(arm: RunArm) -> tuple[bool, int, str]:
    return not arm.in_prompt, ARM_TYPES.index(arm_type(arm.arm)), arm.arm


def _arm(
    key: str,
    seen: _Seen,
    decision: Decision | None = None,
    *,
    flip: ArmFlip | None = None,
    is_drawn: bool = False,
) -> RunArm:
    _, flag, cost = seen.parts.get(key, Part(key, 0, None))
    referenced = bool(flag & REFERENCED)
    kept = seen.references.get(key, Reference(arm=key, where=usual_place(key))) if referenced else None
    return RunArm(
        arm=key,
        in_prompt=bool(flag & INCLUDED),
        reason=None if decision is None else decision.reason,
        rank=None if decision is None else decision.rank,
        draw=None if decision is None else decision.draw,
        token_cost=cost if decision is None else decision.token_cost,
        budget_left=None if decision is None else decision.budget_left,
        is_drawn=is_drawn,
        flip=flip,
        referenced=referenced,
        where=None if kept is None else kept.where,
        excerpt=None if kept is None else kept.excerpt,
        reward=reward_of_flag(flag),
        by_hand=tuple(seen.by_hand.get(key, ())),
    )


def usual_place(key: str) -> Where:
    """Where a reference was seen that needs no row of its own."""
    places: dict[str, Where] = {"tool": "call", "section": "always"}
    return places.get(arm_type(key), "given")


def _flip(decision: Decision, at: int, found: Flips | None) -> ArmFlip | None:
    if found is None:
        return None
    rank = None if found.rank[at] == NO_RANK else int(found.rank[at])
    draw = None if np.isnan(found.draw[at]) else float(found.draw[at])
    if decision.included:
        return ArmFlip(rank=rank, draw=draw)
    budget, cost, k = int(found.budget[at]), int(found.cost[at]), int(found.k[at])
    return ArmFlip(
        rank=rank,
        draw=draw,
        budget=None if budget == UNKNOWN else budget,
        more_than_budget=found.budget_tried if budget == UNKNOWN else None,
        cost=None if cost == UNKNOWN else cost,
        k=k or None,
    )


def _differing(arms: Sequence[RunArm]) -> tuple[str, ...]:
    return tuple(
        arm.arm for arm in arms if arm.reason is not None and arm.in_prompt == (arm.reason in LEFT_OUT)
    )
