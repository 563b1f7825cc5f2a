"""Widgets of the evaluations page: filters, the habits and agreement of raters, blockers of training, and layers."""

from __future__ import annotations

from typing import Final

import streamlit as st
from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

from core.flows.queries import AgreementReport, BiasWatch
from core.records.evaluation import BLOCKERS, EVALUATION_OUTCOMES, GRADER_KINDS, LABELS
from core.records.evaluation_page import EvaluationFilter
from dashboard import queries, wording
from dashboard.figures.agreement import agreement
from dashboard.figures.spreads import MOST_ROWS, SpreadRow, spreads
from dashboard.reading import reading
from dashboard.sentences import judging
from dashboard.sentences.judging import BLOCKER_WORDS, KIND_WORDS, NO_RUBRIC, UNNAMED
from dashboard.widgets.charts import pictured
from dashboard.widgets.fields import filters, lazy_popover, one_arm, one_of, typed
from dashboard.widgets.parts import (
    as_table,
    both_ends,
    command,
    empty,
    literal_cells,
    muted,
    paragraphs,
    section,
    small_table,
)
from dashboard.widgets.tables import config_of, frame_of, shown_table
from dashboard.wording import Markdown, Words

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

# Raters, blockers and layers
_HOW: Final = (
    "**Krippendorff’s alpha** is 1 where all say the same and 0 where they agree no more than by chance. Below 0 "
    "they contradict each other. It allows for things that only some have judged. A failure’s score counts below 0."
    "\n\n**The words** go by the 95% bootstrap interval, so that few judgements never sound sure. The agreement is "
    "reliable if all of the interval is at 0.80 or more, and tentative from 0.67 on. It is low if all of the "
    "interval is below 0.67. It is possibly by chance if that interval also contains 0, and worse than chance if all "
    "of it is below 0. Else it is too uncertain to judge, until two have judged more of the same items."
    "\n\n**A weight** is what the agreement with the others suggests that a judgement should weigh: none where it "
    "may be chance, unknown (–) where too little is shared to say."
)
_LAYER_PHONE: Final = {"layer": 130, "quality": 76, "judged": 62, "success": 70}


def evaluation_filter() -> EvaluationFilter:
    """Draw the popover of filters, and return the filter. The frame sets the span of time."""
    view = reading().view
    unset = EvaluationFilter(since_ms=view.since_ms, until_ms=view.until_ms)
    return filters(
        _label(), _NAMES, unset, lambda: _requested(unset), key="evaluation filter", places=("evaluations",)
    )


def _requested(unset: EvaluationFilter) -> EvaluationFilter:
    graders, rubrics = queries.evaluated_names()
    names = sorted({one.name for one in graders})
    chosen = EvaluationFilter(
        rater=one_of("Rater or model", names, RATER, {"": UNNAMED}),
        kind=one_of("Kind", GRADER_KINDS, KIND, KIND_WORDS),
        rubric=one_of("Rubric", rubrics, RUBRIC, {"": NO_RUBRIC}),
        outcome=one_of("Outcome", EVALUATION_OUTCOMES, OUTCOME),
        label=one_of("Label", LABELS, LABEL),
        blocker=one_of("Not in training because", BLOCKERS, BLOCKER, BLOCKER_WORDS),
        layer=typed("Layer", LAYER, "uid or kairos://layer/…"),
        run=typed("Run", RUN, "uid or number"),
        arm=one_arm(queries.everything().columns, key=ARM),
        counting=not st.toggle("Also superseded and undone ones", key=PAST, bind="query-params"),
        since_ms=unset.since_ms,
        until_ms=unset.until_ms,
    )
    st.markdown(":small[:gray[The span of time is chosen in the row above.]]")
    return chosen


def _label() -> Markdown:
    chosen = []
    for key in (RATER, KIND, RUBRIC, OUTCOME, LABEL, BLOCKER, LAYER, RUN, ARM):
        value = st.session_state.get(key)
        if isinstance(value, str) and value:
            chosen.append(wording.short(value.replace("_", " "), wording.NAME_CHARS))
    return Markdown(wording.listed(chosen) if chosen else "All evaluations")


def nothing_judged() -> None:
    """Show the page of runs without evaluations: the ways to get some."""
    empty(
        ("Nothing was judged yet.",),
        "Evaluations of runs, arms and layers by people and models appear here, with their agreement.",
        rows={
            "needed": ["something to judge: a run, an arm in a run, a layer", "an evaluation"],
            "now": [wording.things(reading().frame.n_runs, "run"), "none"],
            "which is": ["✓ fine", ":yellow[:material/warning:] none yet"],
        },
        to_do="**Judge a run** by its uid or number; a second rater makes agreement known. A model grader sends its "
        "judgements by the same command, from Python, or in an import.",
        shell=command("evaluate RUN success --score 0.9 --rubric v1"),
    )


def how_far(report: AgreementReport) -> None:
    """Draw agreement on outcome, label and score."""
    pictured(("agreement", report), "Do they agree?", "alpha with 95% interval", agreement, report)
    note = judging.agreement_note(report)
    if note:
        muted(note)
    behind = lazy_popover("What alpha says", key="alpha says")
    if behind is not None:
        behind.markdown(_HOW)


def by_rater(watch: BiasWatch, report: AgreementReport) -> None:
    """Show the spread of each rater's scores, and outlier raters."""
    rows = [SpreadRow(name=judging.grader_name(one.grader), spread=one.spread) for one in watch.by_grader]
    note = judging.shown_of(min(len(rows), MOST_ROWS), len(rows)) or "dots: scores by tenths; diamond: mean"
    pictured(("by rater", watch), "Who judges, and how", note, spreads, rows, of="raters")
    if watch.parting:
        paragraphs(*(judging.parting(one) for one in watch.parting))
    else:
        muted(judging.no_outliers(report))


def by_rubric(watch: BiasWatch) -> None:
    """Show the spread of scores by version of the rubric."""
    rows = [SpreadRow(name=judging.rubric_name(one.rubric), spread=one.spread) for one in watch.by_rubric]
    note = judging.shown_of(min(len(rows), MOST_ROWS), len(rows))
    pictured(("by rubric", watch), "By rubric version", note, spreads, rows, of="versions")


def blockers(watch: BiasWatch) -> None:
    """Show the blockers of training, each with a link to its rows."""
    section("What blocks training")
    st.markdown(judging.ready(watch))
    rows = st.container(gap=None)
    for name, (n, alone) in judging.blockers(watch).items():
        rows.button(
            f"**{wording.count(n)}** {BLOCKER_WORDS[name]}",
            key=f"show {name}",
            type="tertiary",
            icon=":material/arrow_forward:",
            icon_position="right",
            help=f"{wording.count(alone)} by nothing else",
            on_click=st.session_state.update,
            args=({BLOCKER: name},),
        )


def beside(report: AgreementReport) -> None:
    """Draw each grader beside all others, and each two of them behind a button."""
    with both_ends():
        first = judging.shown_of(len(report.graders), report.n_graders)
        of_first = Words(f"; {first} raters" if first else "")
        section("Each beside the others", f"on the outcome{of_first}")
        if report.pairs:
            behind = lazy_popover("Each two", key="each two")
            if behind is not None:
                with behind:
                    as_table(judging.each_two(report), alt="Agreement of each two raters")
    small_table(literal_cells(judging.beside_rest(report)), alt="Each rater beside all others")


def layers_fold() -> ExpanderContainer:
    """Draw the fold of the layers and return it; its content is drawn only while it is open."""
    view = queries.layers()
    label = (
        f"Layers: {wording.count(view.n_judged)} judged, {wording.count(view.n_bare)} without a description"
    )
    return st.expander(label, icon=":material/layers:", key="layers fold", on_change="rerun")


def layers() -> None:
    """Draw layers by quality with their heads."""
    view = queries.layers()
    section("Layers by quality", judging.shown_of(len(view.judged), view.n_judged) or "the best first")
    if not view.judged:
        muted("No layer was judged yet. Runs and arms have no quality of this kind: their beliefs say it.")
        return
    frame = frame_of(judging.LAYERS, view.judged, year_of_ms=reading().frame.last_at_ms)
    alt = f"{wording.things(len(view.judged), 'layer')} by quality"
    shown_table(frame, config_of(judging.LAYERS), _LAYER_PHONE, key="layers", alt=alt, hidden="")


def bare_layers() -> None:
    """Show layers of which only the name is known."""
    view = queries.layers()
    section("Layers without a description", judging.shown_of(len(view.bare), view.n_bare))
    if not view.bare:
        muted("None: every layer has a description.")
        return
    muted("They were judged by name alone. Import what they are.")
    as_table(
        {
            "layer": [wording.plain(one.uid) for one in view.bare],
            "judged": [one.n_judged for one in view.bare],
        },
        alt="Layers of which only the name is known",
    )
