"""Page of savings: baseline against selected runs, with intervals, or the reason why there is no claim yet."""

from __future__ import annotations

import streamlit as st

from core.maths.statistics.savings import Savings
from dashboard import queries, wording
from dashboard.figures.distributions import distributions
from dashboard.figures.strata import strata
from dashboard.reading import reading
from dashboard.sentences import achieved
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import savings as sentences
from dashboard.widgets import savings
from dashboard.widgets.charts import pictured, table_once
from dashboard.widgets.parts import how_it_is_computed, muted, panel, paragraphs, section, sentence


def page() -> None:
    here = reading()
    saved = queries.savings()
    if saved.overall.saved_percent.value is None and not saved.policies[1:]:
        savings.what_is_missing(saved)
        return
    sentence(gain_sentences.headline(saved), here.tokens)
    muted(sentences.savings_numbers(saved))
    if step := achieved.next_step(saved):
        paragraphs(step)
    st.space("xsmall")
    with panel("Savings in figures"):
        savings.row(saved)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left, panel("Savings over time"):
        savings.over_time(saved)
        muted(sentences.money_line(saved))
    with right, panel("By month"):
        savings.by_month(saved)
    st.space("small")
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Baseline against selected"):
        section("Baseline against selected", "difference: selected minus baseline, at the same mix")
        table_once(
            "groups compared",
            lambda: sentences.comparison_table(saved, wording.literal),
            alt="Tokens, duration and errors of both groups",
        )
    with right, panel("What was left out"):
        section("What was left out, and why")
        alt = "Runs that take no part in the comparison, and why"
        table_once("runs left out", lambda: sentences.left_out_table(saved), alt=alt)
    if len(saved.by_model) > 1 or len(saved.by_channel) > 1:
        with panel("By model and channel"):
            savings.by_part(saved)
    with panel("Baseline share"):
        n_arms, rate = here.frame.n_arms, here.frame.settings.baseline_rate
        paragraphs(
            sentences.share_words(saved, configured=rate, n_arms=n_arms),
            achieved.lost_line(saved),
            sentences.proof_words(saved),
            sentences.need_words(saved),
        )
    if saved.policies[1:]:
        with panel("Policies before"):
            section("Policies before", "an act on settings that select, or another limit, begins a policy")
            alt = "Earlier policies and what they saved"
            table_once("policies before", lambda: achieved.policies_table(saved.policies), alt=alt)
    with panel("How it is computed"), st.expander("How it is computed", icon=":material/functions:"):
        _fold(saved)


def _fold(saved: Savings) -> None:
    note = "unadjusted: every run with known tokens as it came, smoothed, equal heights"
    pictured("tokens", "Tokens per run", note, distributions, saved)
    of_runs = (
        gain_sentences.proof(saved.overall),
        achieved.loops_line(saved),
        sentences.unfinished_words(saved),
    )
    for line in filter(None, (achieved.sessions_line(saved), achieved.checks_line(saved), *of_runs)):
        muted(line)
    note = "95% intervals for one look; dotted line: mean run"
    pictured("strata", "Savings, counted in three ways", note, strata, saved)
    alt = "Tokens of both groups, counted in three ways"
    table_once("ways of counting", lambda: sentences.counting_table(saved), alt=alt)
    muted(sentences.counting_note(saved))
    muted(sentences.source_formula(saved.overall))
    muted(sentences.share_test(saved))
    muted(gain_sentences.method(saved.overall))
    how_it_is_computed("savings", "proven")


page()
