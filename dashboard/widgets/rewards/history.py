"""The last rewards, one's own or everyone's, each with its way back (or forth)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from core import explained
from core.records.observation import Observation
from dashboard import actions, queries, wording
from dashboard.queries import Batch
from dashboard.reading import reading
from dashboard.widgets.fields import choice
from dashboard.widgets.results import offered_undo, result
from dashboard.widgets.tables import ACT_PX, act_table, type_cells

SHOWN: Final = 20
_READ: Final = 400
"""Rewards that are read: those of one act are one line."""
WHOSE: Final = "rewards_of"
Whose = Literal["mine", "everyone"]
_WHOSE: Final[tuple[Whose, ...]] = ("mine", "everyone")
_TABLE: Final = "last rewards"
_WIDTHS: Final = {
    "when, UTC": 116,
    "by": 80,
    "arm": 210,
    "reward": 84,
    "run": 70,
    "kind": 96,
    "why": 180,
    "mean moved": 104,
}
_PHONE: Final = {"act": ACT_PX, "type": 48, "arm": 98, "reward": 62, "mean moved": 86}


def whose() -> Whose:
    """One's own rewards, or everyone's; who may undo others' sees them at first."""
    return choice(
        "Whose rewards",
        {one: one.capitalize() for one in _WHOSE},
        "everyone" if reading().may("undo") else "mine",
        key=WHOSE,
    )


@dataclass(frozen=True)
class _Act:
    """One line: a reward, or the rewards of one act (as far as they were read)."""

    rewards: tuple[Observation, ...]
    batch: Batch | None

    @property
    def first(self) -> Observation:
        """The newest active reward, if any; its undo applies to all."""
        return next((one for one in self.rewards if not one.undone), self.rewards[0])

    @property
    def id(self) -> str:
        return self.first.id if self.batch is None else self.batch.id


def _acts(listed: Sequence[Observation]) -> list[_Act]:
    """Return rewards by act, newest first; a batch is one line, and each arm's ledger lists its own."""
    known = queries.batches()
    together: dict[str, list[Observation]] = {}
    for one in listed:
        together.setdefault(known[one.id].id if one.id in known else one.id, []).append(one)
    acts = [_Act(tuple(rewards), known.get(rewards[0].id)) for rewards in together.values()]
    return acts[:SHOWN]


def table(chosen: Whose) -> None:
    """Show time, actor, arm, reward, kind, reason, change of the mean, and Undo or Redo."""
    acts = _acts(queries.rewards(_READ, everyone=chosen == "everyone"))
    if not acts:
        st.markdown(":gray[None yet. The first one you send appears here, with its undo.]")
        return
    newest = acts[0].first.at_ms
    backs = [offered_undo(act.first) or "" for act in acts]
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.minute(act.first.at_ms, year_of_ms=newest) for act in acts],
        "by": [wording.plain(act.first.actor) for act in acts],
        "type": [[] if act.batch is not None else type_cells([act.first.arm])[0] for act in acts],
        "arm": [_arm(act) for act in acts],
        "reward": [_same([wording.reward(one.reward) for one in act.rewards]) for act in acts],
        "run": [_same([_run(one) for one in act.rewards]) for act in acts],
        "kind": [_same([_kind(one) for one in act.rewards], otherwise="both") for act in acts],
        "why": [wording.plain(_same([_why(one) for one in act.rewards])) for act in acts],
        "mean moved": [wording.MISSING if act.batch is not None else _moved(act.first) for act in acts],
        **({"act": backs} if any(backs) else {}),
    }
    if chosen == "mine":
        del cells["by"]
    act_table(cells, _WIDTHS, key=_TABLE, alt="Last rewards", phone=_PHONE, on_click=_taking_back(acts))
    result(_TABLE)


def _taking_back(acts: Sequence[_Act]) -> Callable[[int], None]:
    """Return the effect of a click on a row's undo: a batch is undone as one."""

    def clicked(row: int) -> None:
        if row < len(acts) and offered_undo(acts[row].first) is not None:
            actions.take_back(acts[row].id, again=acts[row].first.undone, at=_TABLE)

    return clicked


def _arm(act: _Act) -> str:
    if act.batch is None:
        return wording.plain(wording.full_name(act.first.arm))
    or_more = " or more" if act.batch.or_more else ""
    return f"{wording.count(act.batch.n_rewards)}{or_more} rewards as one act"


def _run(one: Observation) -> str:
    return wording.MISSING if one.run_no is None else wording.count(one.run_no)


def _same(cells: Sequence[str], *, otherwise: str = wording.MISSING) -> str:
    """Return the common value, or that the values differ."""
    return cells[0] if len(set(cells)) == 1 else otherwise


def _kind(one: Observation) -> str:
    return "undone" if one.undone else "replaced" if one.replaced_by is not None else one.kind


def _why(one: Observation) -> str:
    """Return the reason; of a correction that gave way, by what it was replaced and what its undo would do."""
    parts = [part for part in (explained.replaced(one), one.reason) if part]
    return "; ".join(parts) or wording.MISSING


def _moved(one: Observation) -> str:
    if one.mean_moved is None:
        return "0" if not one.counts else wording.MISSING
    return wording.small_change(one.mean_moved)
