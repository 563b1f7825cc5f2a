"""Run explanation: why each arm was in the prompt or left out, its evidence, and what would have flipped it."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import UNKNOWN
from core.flows.context import Context
from core.guidance import guidance
from core.maths.observe import reward_of_flag
from core.maths.policy import settings_hash
from core.maths.statistics.flip import NO_RANK, Flips, flips, recorded
from core.records.arm import ARM_TYPES, arm_type
from core.records.evidence import INCLUDED, REFERENCED, STATES, Reference, Where, state_of, was_loaded
from core.records.observation import Observation
from core.records.run_page import Cursor, Direction
from core.records.run_query import RunFilter, View
from core.records.run_story import ArmFlip, RunArm, RunStory
from core.records.selection import FIXED_OUT, LEFT_OUT, Decision, Selection
from core.records.transcript import Transcript
from core.store.episodes import episodes_of_run
from core.store.experiments import assigned_side
from core.store.reads import missing_run, observations
from core.store.reads.run_pages import run_page
from core.store.reads.run_story import Part, RecordedRun, recorded_run, run_cursor, run_sources
from core.store.review import is_open_item
from core.store.settings import folded_settings
from core.store.texts import read_transcript
from core.store.transaction import Snapshot

_LEDGER_ROWS: Final = 1_000


def run(context: Context, name: Annotated[str, Meta(description="The run's uid or number.")]) -> RunStory:
    """Explain why each arm was in a run's prompt or left out.

    Runs of an undone import and unanswered prompts have an explanation, too. Raises `UnknownRun`.
    """
    with context.reading() as snapshot:
        position = run_cursor(snapshot, name)
        if position is None:
            raise missing_run(snapshot, name)
        _open_texts(context, snapshot, position.run_no)
        return _story(context, snapshot, position)


def transcript(
    context: Context, name: Annotated[str, Meta(description="The run's uid or number.")]
) -> Transcript:
    """Return the transcript of a run, where one is kept and the caller may read it."""
    with context.reading() as snapshot:
        position = run_cursor(snapshot, name)
        if position is None:
            return Transcript(may_read=snapshot.shows_texts)
        _open_texts(context, snapshot, position.run_no)
        messages = read_transcript(snapshot, position.run_no) if snapshot.shows_texts else None
        return Transcript(messages=messages, may_read=snapshot.shows_texts)


def _open_texts(context: Context, snapshot: Snapshot, run_no: int) -> None:
    """Let a reviewer read the texts of a run that is to be judged."""
    if not snapshot.shows_texts and context.may("judge"):
        snapshot.shows_texts = is_open_item(snapshot, context.actor.name, run_no)


def _story(context: Context, snapshot: Snapshot, position: Cursor) -> RunStory:
    (row, k), by_hand, (sources, episodes), older, newer = snapshot.together(
        lambda: _recorded(snapshot, position.run_no),
        lambda: _by_hand(snapshot, position.run_no, context.hidden_from(snapshot)),
        lambda: snapshot.together(
            lambda: run_sources(snapshot, position.run_no), lambda: episodes_of_run(snapshot, position.run_no)
        ),
        lambda: _neighbour(snapshot, position, "older"),
        lambda: _neighbour(snapshot, position, "newer"),
    )
    is_blind = position.run_no in snapshot.blind
    if is_blind:
        facts = msgspec.structs.replace(row.facts, not_offered=())
        row = row._replace(facts=facts, parts=(), references=(), selection=None)
    chosen = row.selection
    packing = None if chosen is None else recorded(chosen, k=k)
    flip_values = None if packing is None else flips(packing)
    rows = _ArmRows(
        parts={part.arm: part for part in row.parts},
        references={one.arm: one for one in row.references},
        by_hand=by_hand,
        repairs=row.repairs,
    )
    arms = _arms(rows, chosen, flip_values)
    reasoned = [arm for arm in arms if arm.reason is not None]
    experiment, assigned = "", None
    if not is_blind and (
        chosen is None or chosen.experiment
    ):  # a selection of an assigned session has its side
        experiment, assigned = assigned_side(snapshot, row.facts.session, row.facts.uid) or ("", None)
    return RunStory(
        facts=row.facts,
        arms=arms,
        selection=chosen,
        replays=None if packing is None else packing.replays,
        k=None if packing is None else packing.k,
        differs=tuple(arm.arm for arm in reasoned if (arm.state != "out") == (arm.reason in LEFT_OUT)),
        guidance=None if chosen is None else guidance(chosen.nameable),
        sources=sources,
        episodes=episodes,
        older=older,
        newer=newer,
        experiment=experiment,
        assigned=assigned,
        is_blind=is_blind,
    )


def _recorded(snapshot: Snapshot, run_no: int) -> tuple[RecordedRun, int | None]:
    """Return the recorded rows of a run, and the limit on arms of its selection."""
    row = recorded_run(snapshot, run_no)
    return row, None if row.selection is None else _limit_in_force(snapshot, row.selection)


def _neighbour(snapshot: Snapshot, here: Cursor, direction: Direction) -> str | None:
    """Return the uid of the run before or after in time."""
    page = run_page(snapshot, RunFilter(), View(), cursor=here, direction=direction, limit=1)
    return page.rows[0].uid if page.rows else None


def _limit_in_force(snapshot: Snapshot, chosen: Selection) -> int | None:
    """Return the limit on arms of a selection: that of the settings with the stored hash, or None.

    The present settings and those of its revision are tried, with the selection's own budget. A call may have had a
    limit of its own, which is not recorded.
    """
    for settings in (snapshot.settings, folded_settings(snapshot, until_revision=chosen.revision)):
        for k in (settings.k, 0):
            tried = msgspec.structs.replace(settings, budget_tokens=chosen.budget_tokens, k=k)
            if settings_hash(tried) == chosen.settings_hash:
                return k
    return None


class _ArmRows(NamedTuple):
    """Recorded rows of the arms of a run, by id."""

    parts: dict[str, Part]
    references: dict[str, Reference]
    by_hand: dict[str, list[Observation]]
    repairs: dict[str, int]


def _arms(rows: _ArmRows, chosen: Selection | None, flip_values: Flips | None) -> tuple[RunArm, ...]:
    """Return every arm of the run: by rank if there was a selection, else by type and id, those in full first."""
    decided = () if chosen is None else chosen.decisions
    packed = [row for row in decided if row.reason not in FIXED_OUT]  # each with a flip
    first_sampled = next((at for at, row in enumerate(packed) if row.reason == "draw"), len(packed))
    ranked = [
        _arm(row.arm, rows, row, flip=_flip(row, at, flip_values), is_sampled=at >= first_sampled)
        for at, row in enumerate(packed)
    ]
    ranked += [_arm(row.arm, rows, row) for row in decided if row.reason in FIXED_OUT]
    known = {row.arm for row in decided}
    others = [_arm(key, rows) for key in rows.parts if key not in known]
    return (*ranked, *sorted(others, key=_by_part))


def _by_hand(snapshot: Snapshot, run_no: int, hidden: frozenset[int]) -> dict[str, list[Observation]]:
    """Return the manual observations of the run by arm."""
    entries: dict[str, list[Observation]] = {}
    for row in observations(snapshot, limit=_LEDGER_ROWS, run_no=run_no, hidden=hidden):
        entries.setdefault(row.arm, []).append(row)
    return entries


def _by_part(arm: RunArm) -> tuple[int, int, str]:
    return STATES.index(arm.state), ARM_TYPES.index(arm_type(arm.arm)), arm.arm


def _arm(
    key: str,
    rows: _ArmRows,
    decision: Decision | None = None,
    *,
    flip: ArmFlip | None = None,
    is_sampled: bool = False,
) -> RunArm:
    _, flag, cost = rows.parts.get(key, Part(key, 0, None))
    referenced = bool(flag & REFERENCED)
    reference = rows.references.get(key, Reference(arm=key, where=implied_where(key))) if referenced else None
    return RunArm(
        arm=key,
        in_prompt=bool(flag & INCLUDED),
        state=state_of(flag),
        loaded=was_loaded(flag),
        reason=None if decision is None else decision.reason,
        rank=None if decision is None else decision.rank,
        draw=None if decision is None else decision.draw,
        token_cost=cost if decision is None else decision.token_cost,
        budget_left=None if decision is None else decision.budget_left,
        chance=None if decision is None or decision.chance is msgspec.UNSET else decision.chance,
        by_draw=is_sampled,
        flip=flip,
        referenced=referenced,
        where=None if reference is None else reference.where,
        excerpt=None if reference is None else reference.excerpt,
        reward=reward_of_flag(flag),
        by_hand=tuple(rows.by_hand.get(key, ())),
        taken_back_by=f"repair-{rows.repairs[key]}" if key in rows.repairs else None,
    )


def implied_where(key: str) -> Where:
    """Return the location of a reference whose row does not store one."""
    places: dict[str, Where] = {"tool": "call", "section": "always"}
    return places.get(arm_type(key), "given")


def _flip(decision: Decision, at: int, flip_values: Flips | None) -> ArmFlip | None:
    if flip_values is None:
        return None
    rank = None if flip_values.rank[at] == NO_RANK else int(flip_values.rank[at])
    draw = None if np.isnan(flip_values.draw[at]) else float(flip_values.draw[at])
    if decision.included:
        return ArmFlip(rank=rank, draw=draw)
    budget, cost, k = int(flip_values.budget[at]), int(flip_values.cost[at]), int(flip_values.k[at])
    return ArmFlip(
        rank=rank,
        draw=draw,
        budget=None if budget == UNKNOWN else budget,
        more_than_budget=flip_values.budget_tried if budget == UNKNOWN else None,
        cost=None if cost == UNKNOWN else cost,
        k=k or None,
    )
