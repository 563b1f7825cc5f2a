"""Many rewards: a table that is pasted or dropped, its preview, one act and one way back; and the last rewards."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from core import explained
from core.errors import ArmscopeError
from core.explained.table import Field, Table, text
from core.flows.queries import BatchPreview, LineEffect
from core.formats.reward_table import MAX_TABLE_BYTES, RewardTable, read_table, table_text
from core.records.batch import MAX_BATCH, BatchLine
from core.records.observation import Observation
from dashboard import actions, queries, wording
from dashboard.queries import Batch
from dashboard.reading import reading
from dashboard.sentences import acts as sentences
from dashboard.widgets.fields import choice
from dashboard.widgets.keys import SEND, SEND_HERE
from dashboard.widgets.parts import as_table, both_ends, command, gray, muted, section, small, small_table
from dashboard.widgets.results import offered_undo, result, way_back
from dashboard.widgets.rewards.form import NEXT_STEP, REWARD_HERE
from dashboard.widgets.tables import (
    ACT_PX,
    ALL_AT_ONCE,
    act_table,
    by_head,
    config_of,
    csv_button,
    frame_of,
    shown_table,
    type_cells,
)

HOW: Final = "rewards_as"
How = Literal["one", "table"]
_HOWS: Final[Mapping[How, str]] = {"one": "One", "table": "A table"}
_TEXT: Final = "rewards pasted"
_PASTED: Final = "rewards pasted, kept"
_ROUND: Final = "rewards dropped"
_KEY: Final = "rewards table key"
_SUBMITTED: Final = "rewards table sent"
_TABLE: Final = "rewards table"
_TALL_PX: Final = 560
_BAD_IN_FULL: Final = 12
_EXAMPLE: Final = """arm, value or outcome, run, reason
tool:web:search, 0.5, request-1, half an answer
skill:code-review:main, rejected"""

_PHONE: Final = {"line": 44, "type": 40, "arm": 110, "reward": 62, "mean": 130}

# The last rewards
SHOWN: Final = 20
_LAST_READ: Final = 400
"""Rewards that are read: those of one act are one line."""
WHOSE: Final = "rewards_of"
Whose = Literal["mine", "everyone"]
_WHOSE: Final[tuple[Whose, ...]] = ("mine", "everyone")
_LAST: Final = "last rewards"
_LAST_WIDTHS: Final = {
    "when, UTC": 116,
    "by": 80,
    "arm": 210,
    "reward": 84,
    "run": 70,
    "kind": 96,
    "why": 180,
    "mean moved": 104,
}
_LAST_PHONE: Final = {"act": ACT_PX, "type": 48, "arm": 98, "reward": 62, "mean moved": 86}


@dataclass(frozen=True, kw_only=True)
class Pasted:
    """A pasted or dropped table, or the reason why it is none; both None without input."""

    table: RewardTable | None = None
    problem: ArmscopeError | None = None


@dataclass(frozen=True, kw_only=True)
class _Submitted:
    """A table that was sent: its act, the last of its rewards, and the effect it was shown to have."""

    act: str
    last: str
    preview: BatchPreview


def chosen() -> How:
    """Return the choice before its field is drawn."""
    known: How = st.session_state.get(HOW) or (
        "table" if st.query_params.get(HOW) == _HOWS["table"] else "one"
    )
    return known


def how() -> How:
    """Return one reward, or a table of them."""
    return choice("One reward or many", _HOWS, "one", key=HOW)


# What is given


def fields() -> tuple[Pasted, BatchPreview | None]:
    """Show the field for a table, its preview, and the button."""
    section("Give many rewards", f"up to {wording.count(MAX_BATCH)}, as one act")
    with st.container(border=True):
        pasted = _pasted()
        preview = None if pasted.table is None else queries.preview_batch(pasted.table.lines)
        _send(pasted, preview)
        _how_to()
    return pasted, preview


def _how_to() -> None:
    st.markdown(
        small(
            "The arm, a number from 0 to 1 or accepted, partial or rejected; then, where there are any, the run and "
            "the reason. With a run, an arm that it observed is corrected; any other line is feedback. In a terminal:"
        )
    )
    st.code(command("reward --file FILE"), language=None, wrap_lines=True)


def _pasted() -> Pasted:
    if _TEXT not in st.session_state:
        st.session_state[_TEXT] = st.session_state.get(_PASTED, "")
    dropped_key = f"{_ROUND} {st.session_state.get(_ROUND, 0)}"
    with st.container(key=REWARD_HERE):
        text = st.text_area(
            "Paste a table, a reward on each line",
            key=_TEXT,
            height=190,
            placeholder=_EXAMPLE,
            on_change=_changed,
            disabled=st.session_state.get(dropped_key) is not None,
        )
    file = st.file_uploader(
        "Or drop a CSV file or JSON lines",
        key=dropped_key,
        on_change=_changed,
        max_upload_size=MAX_TABLE_BYTES >> 20,
    )
    try:
        if file is not None:
            return Pasted(table=read_table(table_text(file.getvalue())))
        return Pasted(table=read_table(text)) if text.strip() else Pasted()
    except ArmscopeError as problem:
        return Pasted(problem=problem)


def _changed() -> None:
    """Another table: it is sent under a key of its own, and what the last one did is history."""
    st.session_state[_PASTED] = st.session_state.get(_TEXT, "")
    st.session_state[_KEY] = uuid.uuid4().hex
    st.session_state.pop(_SUBMITTED, None)


def _send(pasted: Pasted, preview: BatchPreview | None) -> None:
    table = pasted.table
    n_bad = 0 if table is None or preview is None else len({**table.bad, **preview.bad})
    n_lines = 0 if table is None else table.n_lines
    key = str(st.session_state.setdefault(_KEY, uuid.uuid4().hex))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=SEND_HERE):
        st.button(
            f"Send {wording.things(n_lines, 'reward')}" if n_lines else "Send",
            type="primary",
            shortcut=SEND,
            key=f"send table {key}",
            disabled=table is None or n_bad > 0 or not reading().may("reward"),
            on_click=None if table is None or preview is None else _tried,
            args=() if table is None or preview is None else (table.lines, preview, key),
        )
        st.button(
            "Clear",
            type="tertiary",
            key="clear table",
            disabled=not n_lines and pasted.problem is None,
            on_click=_clear,
        )
    result(_TABLE, onward=NEXT_STEP)
    if pasted.problem is not None:
        st.markdown(f":red[:material/error: Nothing can be sent. {wording.literal(str(pasted.problem))}]")
    if n_bad:
        st.markdown(
            f":red[:material/error: {wording.things(n_bad, 'line')} can’t be recorded.] "
            "Nothing is sent while one is bad."
        )


def _clear() -> None:
    _changed()
    st.session_state[_TEXT] = st.session_state[_PASTED] = ""
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1


def _tried(lines: Sequence[BatchLine], preview: BatchPreview, key: str) -> None:
    """Send the table as it was drawn, unless it was sent: then this is a second click on one that is gone."""
    if key != st.session_state.get(_KEY):
        return

    def after(act: str, last: str) -> None:
        _clear()
        st.session_state[_SUBMITTED] = _Submitted(act=act, last=last, preview=preview)

    actions.send_batch(lines, key, after, at=_TABLE)


# What it would do


def effect(pasted: Pasted, preview: BatchPreview | None) -> None:
    """Draw each line with what it would do or what is wrong with it; after sending, what it did and the way back."""
    done: _Submitted | None = st.session_state.get(_SUBMITTED)
    if pasted.table is not None and preview is not None:
        section("What it would change", "nothing is sent yet")
        bad = {**preview.bad, **pasted.table.bad}
        if bad:
            _bad(bad)
        st.markdown(sentences.batch(preview) if preview.lines else gray("No line can be recorded yet."))
        if preview.lines:
            _table(preview)
    elif done is not None and pasted.problem is None:
        _what_it_changed(done)
    else:
        section("What it would change", "nothing is sent yet")
        muted(
            "Paste a table to see the effect of each line."
            if pasted.problem is None
            else "Correct the table to see the effect of each line."
        )


def _what_it_changed(done: _Submitted) -> None:
    reward = next((one for one in queries.rewards(everyone=False) if one.id == done.last), None)
    is_undone = reward is not None and reward.undone
    with both_ends():
        state = "undone: its effect is gone" if is_undone else "sent"
        st.header(f"What it changed {small(state)}", anchor=False, width="content")
        back = None if reward is None else offered_undo(reward)
        way_back(back and f"{back} all", done.act, again=is_undone, beside_result=True)
    st.markdown(f"{sentences.batch(done.preview)} {small(f'armscope undo {wording.literal(done.act)}')}")
    _table(done.preview)


def _bad(bad: Mapping[int, ArmscopeError]) -> None:
    """Draw lines that can't be recorded, by number; the first in full, and all in a table."""
    first = sorted(bad)[:_BAD_IN_FULL]
    small_table(
        {
            "line": [wording.count(number) for number in first],
            "what is wrong": [wording.literal(bad[number].problem) for number in first],
        },
        alt="Lines that can't be recorded, and why",
    )
    if len(bad) > len(first):
        cells: dict[str, list[str]] = {
            "line": [wording.count(number) for number in sorted(bad)],
            "what is wrong": [wording.plain(bad[number].problem) for number in sorted(bad)],
        }
        with st.popover(f"All {wording.things(len(bad), 'bad line')}", type="tertiary"):
            as_table(cells, alt="Every line that can't be recorded, and why")


def _table(preview: BatchPreview) -> None:
    """Draw the lines of each arm, under what all of them together do to its mean; every cell is text."""
    first = {line.arm: at for at, line in reversed([*enumerate(preview.lines)])}
    lines = sorted(preview.lines, key=lambda line: first[line.arm])
    counts = Counter(line.arm for line in lines if line.in_present_epoch)
    shown: set[str] = set()
    table: Table[LineEffect] = Table(
        line=text("line", lambda one: wording.count(one.line), width=48),
        arm=Field("arm", lambda one: one.arm, "arm", width=132),
        reward=text("reward", lambda one: wording.reward(one.reward), width=66),
        run=text("run", lambda one: one.run, width=78),
        kind=text("counts as", lambda one: one.kind, width=84),
        mean=text(
            "mean of the arm",
            lambda one: _mean(one, preview, counts[one.arm], shown),
            width=180,
            explained="Now, and after all its lines.",
        ),
    )
    frame, is_long = frame_of(table, lines), len(lines) > ALL_AT_ONCE
    shown_table(
        frame,
        config_of(table),
        by_head(table, _PHONE),
        key="table of rewards",
        alt="Each line of the table, and what it would do",
        at_most_px=_TALL_PX,
        lazy=True if is_long else None,
    )
    if is_long:
        csv_button(lambda: frame, key="table of rewards")


def _mean(line: LineEffect, preview: BatchPreview, n_lines: int, shown: set[str]) -> str:
    """Return the mean of the line's arm before and after all its lines, at the first of them alone."""
    if not line.in_present_epoch:
        return "stays: reset since"
    if line.arm in shown:
        return "as above"
    shown.add(line.arm)
    before, after = wording.means(*preview.arms[line.arm].mean)
    return f"{before} → {after}{f', all {n_lines} lines' if n_lines > 1 else ''}"


# The last rewards


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


def last_rewards(chosen: Whose) -> None:
    """Show time, actor, arm, reward, kind, reason, change of the mean, and Undo or Redo."""
    acts = _acts(queries.rewards(_LAST_READ, everyone=chosen == "everyone"))
    if not acts:
        st.markdown(":gray[None yet. The first one you send appears here, with its undo.]")
        return
    newest = acts[0].first.at_ms
    backs = [offered_undo(act.first) or "" for act in acts]
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.minute(act.first.at_ms, year_of_ms=newest) for act in acts],
        "by": [wording.plain(act.first.actor) for act in acts],
        "type": [[] if act.batch is not None else type_cells([act.first.arm])[0] for act in acts],
        "arm": [_arm_of(act) for act in acts],
        "reward": [_same([wording.reward(one.reward) for one in act.rewards]) for act in acts],
        "run": [_same([wording.count(one.run_no) for one in act.rewards]) for act in acts],
        "kind": [_same([_kind(one) for one in act.rewards], otherwise="both") for act in acts],
        "why": [wording.plain(_same([_why(one) for one in act.rewards])) for act in acts],
        "mean moved": [wording.MISSING if act.batch is not None else _moved(act.first) for act in acts],
        **({"act": backs} if any(backs) else {}),
    }
    if chosen == "mine":
        del cells["by"]
    act_table(
        cells, _LAST_WIDTHS, key=_LAST, alt="Last rewards", phone=_LAST_PHONE, on_click=_taking_back(acts)
    )
    result(_LAST)


def _taking_back(acts: Sequence[_Act]) -> Callable[[int], None]:
    """Return the effect of a click on a row's undo: a batch is undone as one."""

    def clicked(row: int) -> None:
        if row < len(acts) and offered_undo(acts[row].first) is not None:
            actions.take_back(acts[row].id, again=acts[row].first.undone, at=_LAST)

    return clicked


def _arm_of(act: _Act) -> str:
    if act.batch is None:
        return wording.plain(wording.full_name(act.first.arm))
    or_more = " or more" if act.batch.or_more else ""
    return f"{wording.count(act.batch.n_rewards)}{or_more} rewards as one act"


def _same(cells: Sequence[str], *, otherwise: str = wording.MISSING) -> str:
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
