"""Every arm of a run, with why, evidence and what would have flipped it.

Cells are text cells, which Streamlit shows as they are. A click on one opens its arm.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core import explained
from core.flows.queries import RunArm, RunStory
from dashboard import wording
from dashboard.reading import cached_figure
from dashboard.widgets.opening import clicked_row, fresh, open_arm
from dashboard.widgets.tables import ALL_AT_ONCE, ROW_PX, columns, draw, height, type_cells, type_column

_TALL_PX: Final = 640
_PHONE: Final = {"type": 48, "arm": 152, "prompt": 58, "observed": 70}


def table(story: RunStory) -> None:
    """Draw every arm of a run; a click opens the arm."""
    n_arms = len(story.arms)
    frame = cached_figure(("decisions", story.facts.run_no), lambda: _decisions(story))
    is_long = n_arms > ALL_AT_ONCE  # then rows are sent as one scrolls, which can't be combined with clicks
    more: dict[str, Any] = (
        {"lazy": True} if is_long else {"on_select": "rerun", "selection_mode": "single-cell"}
    )
    clicked = st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height=height(n_arms, at_most_px=_TALL_PX),
        **columns(frame.column_names, _config(story), _PHONE),
        key=fresh("decisions"),
        **more,
        alt=f"Every arm of run {story.facts.run_no}: {story.n_in} in, {n_arms - story.n_in} out, and why",
    )
    index = None if is_long else clicked_row(clicked, rest="type", key=fresh("decisions"))
    if index is not None and index < n_arms:
        open_arm(story.arms[index].arm)


def _config(story: RunStory) -> dict[str, Any]:
    text = st.column_config.TextColumn
    return {
        "type": type_column(),
        "arm": text("arm", width=200 if story.by_hand or story.repairs else 226),
        "prompt": text("prompt", width=58),
        "why": text("why", width=230),
        "evidence": text("evidence", width=122),
        "observed": text("observed", width=210 if story.by_hand or story.repairs else 66),
        "what would have flipped it": text(
            "what would have flipped it", width=250 if story.by_hand or story.repairs else 356
        ),
    }


def _why(arm: RunArm) -> str:
    """Return the reason with draw, rank and tokens."""
    drawn = draw(arm.draw, arm.reason)
    reason = explained.why(arm)
    by_draw = arm.reason == "draw"
    parts = [f"draw {drawn}" if by_draw else reason]
    if not by_draw and drawn != wording.MISSING and arm.reason in {"budget", "k"}:
        parts.append(f"draw {drawn}")
    if arm.rank is not None:
        parts.append(f"rank {wording.count(arm.rank)}")
    if arm.token_cost is not None:
        parts.append(wording.things(arm.token_cost, "token"))
    return ", ".join(parts)


def _decisions(story: RunStory) -> pa.Table:
    arms = story.arms
    kinds = pa.array(type_cells([arm.arm for arm in arms]), type=pa.list_(pa.string()))
    cells: dict[str, object] = {
        "type": kinds,
        "arm": [wording.short_name(arm.arm) for arm in arms],
        "prompt": [wording.state(arm.state) for arm in arms],
    }
    if story.selection is not None:
        cells |= {
            "why": [_why(arm) for arm in arms],
        }
    cells |= {
        "evidence": [explained.evidence(arm, story) for arm in arms],
        "observed": [explained.observed(arm) for arm in arms],
    }
    if story.selection is not None:
        cells["what would have flipped it"] = [explained.flip(arm, story) for arm in arms]
    return pa.table(cells)
