"""Document of a report: its sections in the words and pictures of the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.explained import EXCLUDED, chance_words, is_excluded
from core.explained.arms import posteriors
from core.maths.statistics.overview import Attention
from core.records.times import instant
from dashboard import wording
from dashboard.figures.arms import ArmRow, alarmed, notable, ordered, rows, table
from dashboard.figures.bands import bands_by_type
from dashboard.figures.chart import Chart
from dashboard.figures.densities import densities, sample
from dashboard.figures.distributions import distributions
from dashboard.figures.saving import saved_share, saving
from dashboard.figures.savings_time import savings_time
from dashboard.figures.strata import strata
from dashboard.figures.theme import LIGHT, numbered
from dashboard.figures.worth import Worth, worth, worths
from dashboard.report.facts import Facts, Query, opening
from dashboard.sentences import Sentence, achieved
from dashboard.sentences import changes as changes_sentences
from dashboard.sentences import confidence as confidence_sentences
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import inclusion as inclusion_sentences
from dashboard.sentences import judgement as judgement_sentences
from dashboard.sentences import money as money_sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from dashboard.sentences.evidence import WHY

MAX_ARMS: Final = 1_000
"""More rows than this make a file that no browser likes; the command for all of them is named instead."""

Table = Mapping[str, Sequence[object]]

LOOK: Final = numbered(LIGHT)[0]
"""Colours by number: the style sheet gives their values in light and dark."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure with its words and its table, for a page and for a phone."""

    title: str
    note: str
    chart: Chart
    narrow: Chart


def _figure(title: str, draw: Callable[[bool], Chart], note: str = "") -> Figure:
    return Figure(title=title, note=note, chart=draw(False), narrow=draw(True))


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the report; every number in it comes from ``query``. Texts are Markdown, escaped.

    ``folded`` lines explain how the numbers are computed.
    """

    title: str
    query: Query
    sentence: Sentence = ()
    lines: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A frozen report."""

    title: Sentence
    lines: tuple[str, ...]
    first: Section | None
    about: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    opening: str
    questions: tuple[Query, ...]


def report(facts: Facts) -> Report:
    """Return the report of a learner that has arms; without any, it says so and no more."""
    overview = facts.overview
    known = overview.n_arms > 0
    return Report(
        title=overview_sentences.overview(overview, facts.savings, _arms(facts))
        if known
        else ("Nothing is known yet: no run has been recorded.",),
        lines=_lines(facts) if known else (),
        first=_first(facts) if known else None,
        about=_about(facts),
        sections=_sections(facts) if known else (),
        opening=opening(facts.frame.learner),
        questions=tuple(facts.questions.values()),
    )


def _arms(facts: Facts) -> tuple[Worth, ...]:
    return worths(facts.belief.columns, facts.judgements, facts.frame.settings.excluded_arms)


def _lines(facts: Facts) -> tuple[str, ...]:
    """Return the lines under the title: failures, the month, what to do next, and what its words mean."""
    overview = facts.overview
    selects = not overview_sentences.is_imported(overview)
    month = filter(None, [money_sentences.month(facts.savings, facts.created_at_ms)])
    first = next(iter(overview.attention), None)
    step = f"{_claim(facts, first).claim}. {WHY[first.kind]}" if first else "nothing needs a decision."
    return (
        *((gain_sentences.failures(overview.savings).words, *month) if selects else ()),
        f"**What to do next:** {step}",
        f"{overview_sentences.MEANT} {overview_sentences.PROVEN}",
    )


def _first(facts: Facts) -> Section:
    """Return the picture of the saving, and the month's bill; without an interval what is missing."""
    overview = facts.overview
    shown = saved_share(overview.savings, overview.money)
    rate = facts.frame.settings.baseline_rate
    bill = money_sentences.months_table(facts.savings)
    return Section(
        title="The month's bill",
        query=facts.questions["savings"],
        lines=() if shown is not None else (gain_sentences.pending(overview.savings, rate=rate),),
        figures=(
            *(
                ()
                if shown is None
                else (_figure("The saving", lambda narrow: saving(shown, LOOK, compact=narrow)),)
            ),
            _figure("Tokens and use", lambda narrow: worth(_arms(facts), LOOK, compact=narrow)),
        ),
        table=bill if len(bill["month, UTC"]) > 1 else None,
    )


def _sections(facts: Facts) -> tuple[Section, ...]:
    return (
        Section(
            title="Needs attention",
            query=facts.questions["overview"],
            lines=_claims(facts) or ("Nothing needs a look.",),
        ),
        _savings(facts),
        *_beside_savings(facts),
        _beliefs(facts),
        _confidence(facts),
        _changes(facts),
    )


def _about(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return learner, time and filters; the file's location is private."""
    frame, view = facts.frame, facts.view
    filters = [*view.models, *view.channels, *view.types]
    return (
        ("Learner", wording.plain(frame.learner)),
        ("Data", f"{_day(view.since_ms or frame.first_at_ms)} to {_day(view.until_ms or frame.last_at_ms)}"),
        ("Filters", wording.plain(", ".join(filters)) or "none"),
        ("Revision", f"{wording.count(frame.revision)} of {wording.plain(frame.origin) or 'a new learner'}"),
        ("Head of the chain", wording.plain(frame.head or "none")),
        ("Frozen", f"{_day(facts.created_at_ms)}; all times are UTC"),
    )


def _day(at_ms: int | None) -> str:
    return wording.MISSING if at_ms is None else f"{instant(at_ms):%d %b %Y, %H:%M}"


def _claim(facts: Facts, item: Attention) -> overview_sentences.Claim:
    least = facts.frame.settings.min_pulls
    return overview_sentences.attention(
        overview_sentences.unnamed(item), facts.savings, min_pulls=least, year_of_ms=facts.frame.last_at_ms
    )


def _claims(facts: Facts) -> tuple[str, ...]:
    claims = [_claim(facts, item) for item in facts.overview.attention]
    return tuple(f"**{claim.claim}**: {claim.evidence}" for claim in claims)


def _savings(facts: Facts) -> Section:
    saved = facts.savings
    query, title = facts.questions["savings"], "Savings"
    if saved.overall.saved_percent.value is None:
        assigned = sentences.assigned_words(saved.assigned_runs, saved.assigned_share)
        return Section(
            title=title,
            query=query,
            sentence=gain_sentences.headline(saved),
            lines=(assigned.strip(),) if assigned else (),
        )
    rate, n_arms = facts.frame.settings.baseline_rate, facts.frame.n_arms
    return Section(
        title=title,
        query=query,
        sentence=gain_sentences.headline(saved),
        lines=(
            sentences.savings_numbers(saved),
            sentences.share_words(saved, configured=rate, n_arms=n_arms),
            gain_sentences.failures(saved.overall).words,
            achieved.lost_line(saved),
            *filter(None, (achieved.next_step(saved), achieved.sessions_line(saved))),
        ),
        folded=(
            *filter(None, (gain_sentences.proof(saved.overall), sentences.unfinished_words(saved))),
            sentences.counting_note(saved),
            sentences.source_formula(saved.overall),
            gain_sentences.method(saved.overall),
        ),
        figures=(
            _figure(
                "Savings, counted in three ways",
                lambda narrow: strata(saved, LOOK, compact=narrow),
                "95% intervals for one look; dotted line: mean run",
            ),
            _figure(
                "Tokens per run",
                lambda narrow: distributions(saved, LOOK, compact=narrow),
                "every run with known tokens, smoothed, equal heights",
            ),
            _figure(
                "Savings over time",
                lambda narrow: savings_time(saved.over_time, LOOK, weeks=saved.weeks, compact=narrow),
                sentences.path_note(saved, saved.weeks),
            ),
        ),
    )


def _beside_savings(facts: Facts) -> list[Section]:
    saved, query = facts.savings, facts.questions["savings"]
    currency = "" if saved.money is None else saved.money.currency
    if saved.overall.saved_percent.value is None:
        return []
    tables = {
        "Baseline against selected": sentences.comparison_table(saved),
        "Cost per solved task": None
        if saved.solved is None
        else achieved.solved_table(saved.solved, currency),
        "Tokens saved by week": achieved.weeks_table(saved.weeks) if saved.weeks else None,
        "Policies before": achieved.policies_table(saved.policies) if saved.policies[1:] else None,
    }
    return [Section(title=title, query=query, table=table) for title, table in tables.items() if table]


def _beliefs(facts: Facts) -> Section:
    columns, summary = facts.belief.columns, facts.belief.summary
    places = ordered(columns, summary, notable(columns, summary, alarmed(facts.judgements)), "mean")
    chosen = rows(columns, summary, places)
    rest = np.ones(len(columns), dtype=np.bool_)
    rest[places] = False
    others = sample(list(zip(summary.alpha[rest], summary.beta[rest], strict=True)))
    everyone = ordered(columns, summary, np.arange(len(columns), dtype=np.int64), "mean")
    listed = rows(columns, summary, everyone[:MAX_ARMS])
    n_more = len(columns) - len(listed)
    more = f" {wording.count(n_more)} more: armscope posteriors." if n_more else ""
    return Section(
        title="Posteriors",
        query=facts.questions["belief"],
        sentence=judgement_sentences.posteriors(list(facts.judgements.values())),
        lines=(
            f"{wording.things(len(columns), 'arm')}, exact equal-tailed 95% intervals of Beta posteriors.{more}",
            *judgement_sentences.only_called(list(facts.judgements.values())),
        ),
        figures=(
            _figure(
                "Density of 1 arm"
                if len(chosen) == 1
                else f"Densities of {len(chosen)} arms: those that changed or went unused, then the most used",
                lambda narrow: densities(chosen, others, LOOK, compact=narrow, n_others=int(rest.sum())),
            ),
        ),
        table=_with_judgements(listed, facts),
    )


def _with_judgements(listed: Sequence[ArmRow], facts: Facts) -> Table:
    judged = [facts.judgements[row.key] for row in listed]
    year_of_ms, fields = facts.frame.last_at_ms, posteriors({}).fields
    return {
        **table(listed),
        fields["effective"].head: [wording.count(one.effective_pulls) for one in judged],
        fields["judgement"].head: [
            judgement_sentences.judgement(one, year_of_ms=year_of_ms) for one in judged
        ],
        fields["chance"].head: [EXCLUDED if is_excluded(one) else chance_words(one.chance) for one in judged],
        "its standard error": [inclusion_sentences.error_words(one.chance_error) for one in judged],
    }


def _confidence(facts: Facts) -> Section:
    known = facts.confidence
    return Section(
        title="Confidence",
        query=facts.questions["confidence"],
        sentence=confidence_sentences.confidence(known),
        table=bands_by_type(known.by_type, LOOK).table,
    )


def _changes(facts: Facts) -> Section:
    currency = facts.frame.settings.currency
    lines = tuple(
        f"{_day(entry.at_ms)} · {changes_sentences.change(entry, currency)}"
        for entry in facts.changes
        if entry.action != "browser"  # it has a person's name
    )
    return Section(
        title="What changed",
        query=facts.questions["changes"],
        lines=lines or ("Nothing was changed by hand yet.",),
    )
