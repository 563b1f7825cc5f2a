"""Many rewards: a table that is pasted or dropped, what each of its lines would do, one act and one way back."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from core.errors import ArmscopeError
from core.explained.table import Field, Table, text
from core.flows.queries import BatchPreview, LineEffect
from core.formats.reward_table import MAX_TABLE_BYTES, RewardTable, read_table, table_text
from core.records.batch import MAX_BATCH, BatchLine
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.sentences import acts as sentences
from dashboard.widgets.fields import choice
from dashboard.widgets.keys import SEND, SEND_HERE
from dashboard.widgets.parts import as_table, both_ends, command, gray, muted, section, small, small_table
from dashboard.widgets.results import offered_undo, result, way_back
from dashboard.widgets.rewards.form import NEXT_STEP, REWARD_HERE
from dashboard.widgets.tables import (
    ALL_AT_ONCE,
    ROW_PX,
    by_head,
    columns,
    config_of,
    frame_of,
    height,
    lazy_table,
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
    frame = frame_of(table, lines)
    draw = lazy_table if len(lines) > ALL_AT_ONCE else st.dataframe
    draw(
        frame,
        hide_index=True,
        placeholder=wording.MISSING,
        row_height=ROW_PX,
        height=height(len(lines), at_most_px=_TALL_PX),
        **columns(frame.column_names, config_of(table), by_head(table, _PHONE)),
        key="table of rewards",
        alt="Each line of the table, and what it would do",
    )


def _mean(line: LineEffect, preview: BatchPreview, n_lines: int, shown: set[str]) -> str:
    """Return the mean of the line's arm before and after all its lines, at the first of them alone."""
    if not line.in_present_epoch:
        return "stays: reset since"
    if line.arm in shown:
        return "as above"
    shown.add(line.arm)
    before, after = wording.means(*preview.arms[line.arm].mean)
    return f"{before} → {after}{f', all {n_lines} lines' if n_lines > 1 else ''}"
