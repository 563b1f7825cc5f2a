"""Filters of evaluations: who judged, by what, with what result, of what; all of it in the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import streamlit as st

from core.records.evaluation import BLOCKERS, EVALUATION_OUTCOMES, GRADER_KINDS, LABELS, Blocker
from core.records.evaluation_page import EvaluationFilter
from core.records.limits import MAX_LABEL_CHARS
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.sentences.judging import BLOCKER_WORDS, KIND_WORDS, NO_RUBRIC, UNNAMED
from dashboard.widgets.evaluation_table import to_newest
from dashboard.widgets.picker import one_arm
from dashboard.widgets.popover import in_use, lazy_popover
from dashboard.wording import Markdown

RATER: Final = "judged_by"
KIND: Final = "judged_by_kind"
RUBRIC: Final = "rubric"
OUTCOME: Final = "judged_as"
LABEL: Final = "label"
BLOCKER: Final = "blocker"
LAYER: Final = "of_layer"
RUN: Final = "of_run"
ARM: Final = "judged_arm"
PAST: Final = "past"
_NAMES: Final = (RATER, KIND, RUBRIC, OUTCOME, LABEL, BLOCKER, LAYER, RUN, ARM, PAST)
_LAST: Final = "evaluation filter as it was"

_T = TypeVar("_T", bound=str)


def evaluation_filter() -> EvaluationFilter:
    """Return one popover; its label says what is filtered. The span of time is the frame's."""
    behind = lazy_popover(
        _label(),
        icon=":material/filter_list:",
        key="evaluation filter popover",
        used=in_use(*_NAMES),
    )
    view = reading().view
    default = EvaluationFilter(since_ms=view.since_ms, until_ms=view.until_ms)
    if behind is not None:
        with behind:
            default = _requested(default)
    if st.session_state.setdefault(_LAST, default) != default:
        st.session_state[_LAST] = default
        to_newest("evaluations")
    return default


def _requested(default: EvaluationFilter) -> EvaluationFilter:
    graders, rubrics = queries.evaluated_names()
    names = sorted({one.name for one in graders})
    chosen = EvaluationFilter(
        rater=_one("Rater or model", names, RATER, {"": UNNAMED}),
        kind=_one("Kind", GRADER_KINDS, KIND, dict(KIND_WORDS)),
        rubric=_one("Rubric", rubrics, RUBRIC, {"": NO_RUBRIC}),
        outcome=_one("Outcome", EVALUATION_OUTCOMES, OUTCOME, {}),
        label=_one("Label", LABELS, LABEL, {}),
        blocker=_one("Not in training because", BLOCKERS, BLOCKER, dict(BLOCKER_WORDS)),
        layer=_text("Layer", LAYER, "uid or kairos://layer/…"),
        run=_text("Run", RUN, "uid or number"),
        arm=one_arm(queries.everything().columns, key=ARM),
        counting=not st.toggle("Also superseded and undone ones", key=PAST, bind="query-params"),
        since_ms=default.since_ms,
        until_ms=default.until_ms,
    )
    st.markdown(":small[:gray[The span of time is chosen in the row above.]]")
    return chosen


def _one(
    label: Markdown, options: Sequence[_T], key: str, words: dict[_T, str] | dict[str, str]
) -> _T | None:
    labels: dict[str, str] = {str(name): word for name, word in words.items()}
    return st.selectbox(
        label,
        list(options),
        index=None,
        format_func=lambda name: labels.get(name, wording.plain(name)),
        key=key,
        bind="query-params",
        placeholder="All",
    )


def _text(label: Markdown, key: str, placeholder: str) -> str | None:
    """Return the typed text; a link brings it in the address."""
    typed = st.text_input(
        label, key=key, bind="query-params", placeholder=placeholder, max_chars=MAX_LABEL_CHARS
    )
    return (typed or "").strip() or None


def show_blocked(blocker: Blocker) -> None:
    """Have the page show what a blocker holds back; for a button, whose click comes before the page."""
    st.session_state[BLOCKER] = blocker


def narrowed(chosen: EvaluationFilter) -> bool:
    """Return whether a filter other than the default is active."""
    return chosen != EvaluationFilter(counting=chosen.counting)


def _label() -> Markdown:
    """Return the active filters in the button's words."""
    chosen = []
    for key in (RATER, KIND, RUBRIC, OUTCOME, LABEL, BLOCKER, LAYER, RUN, ARM):
        value = st.session_state.get(key)
        if isinstance(value, str) and value:
            chosen.append(wording.literal(wording.cut_middle(wording.plain(value.replace("_", " ")))))
    return Markdown(wording.listed(chosen) if chosen else "All evaluations")
