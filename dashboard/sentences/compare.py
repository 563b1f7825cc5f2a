"""Sentences of the page that compares two sets of runs."""

from __future__ import annotations

from typing import Final

from core.maths.statistics.savings import Savings
from core.records.currency import PICO
from core.records.estimate import Estimate
from core.records.sides import ComparedSides, SideRuns
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.achieved import percent_words
from dashboard.sentences.gain import missing, no_figure
from dashboard.wording import Markdown, Words

SHIFT_HELP: Final = Words(
    "What observations added to alpha and beta; exactly and by source behind “Shift by source”"
)


def compared(both: ComparedSides, names: tuple[Markdown, Markdown]) -> Sentence:
    """Return the conclusion on failures, or that none can be drawn; of two runs, which failed and what they took."""
    if both.a.n_runs == both.b.n_runs == 1:
        return _compared_runs(both, names)
    shares = [one.failed.value for one in (both.a, both.b)]
    limits = both.failures.limits
    if shares[0] is None or shares[1] is None or both.failures.value is None:
        counts = [wording.count(one.n_runs) for one in (both.a, both.b)]
        return composed("There are ", Phrase("too few runs to compare"), f": {counts[0]} and {counts[1]}.")
    rates = [wording.percent(share) for share in shares if share is not None]
    if limits is not None and (limits[0] > 0 or limits[1] < 0):
        more, rate, less = (names[1], *rates[::-1]) if limits[0] > 0 else (names[0], *rates)
        return composed(wording.capital(more), " ", Phrase("fails more often"), f": {rate} against {less}.")
    return composed(
        Phrase("No difference of failures is shown"),
        f": {rates[0]} of A ({names[0]}) and {rates[1]} of B ({names[1]}) failed.",
    )


def _compared_runs(both: ComparedSides, names: tuple[Markdown, Markdown]) -> Sentence:
    failed = [bool(one.n_failed) for one in (both.a, both.b)]
    took: Markdown = f"Tokens: {_tokens(both.a)} in {names[0]}, {_tokens(both.b)} in {names[1]}."
    if failed[0] == failed[1]:
        return composed(Phrase("Both runs failed" if failed[0] else "Neither run failed"), ". ", took)
    which = names[0] if failed[0] else names[1]
    return composed(Phrase("One run failed"), f": {which}. ", took)


def compared_line(both: ComparedSides) -> Markdown:
    """Return the difference with its interval, and the numbers of runs; of two runs, how many arms only one had."""
    if both.a.n_runs == both.b.n_runs == 1:
        alone = sum(bool(one.a.n_in) != bool(one.b.n_in) for one in both.arms)
        were = Words("was" if alone == 1 else "were")
        return f"{wording.things(alone, 'arm')} shown here {were} in the prompt of one run alone."
    n: Markdown = f"A has {wording.things(both.a.n_runs, 'run')}, B {wording.count(both.b.n_runs)}."
    limits = both.failures.limits
    if limits is None:
        few = Words("sessions" if both.failures.missing == "few_sessions" else "runs")
        return f"{n} There are too few {few} for an interval of the difference."
    return (
        f"B minus A: {wording.change(both.failures.value or 0.0, 1)} points, "
        f"95% interval {wording.change(limits[0], 1)} to {wording.change(limits[1], 1)}, by session. {n}"
    )


def side_rows(both: ComparedSides) -> list[tuple[Markdown, Markdown, Markdown]]:
    """Return rows of the table of both sides: the head, and the cell of each."""
    heads = map(Words, ("runs", "sessions", "observed", "failed", "tokens a run", "cost a run"))
    sides = (_side_cells(one, both.currency) for one in (both.a, both.b))
    return [(head, a, b) for head, a, b in zip(heads, *sides, strict=True)]


def _side_cells(one: SideRuns, currency: str) -> tuple[Markdown, ...]:
    cost: Markdown = wording.MISSING
    if one.n_costs:
        mean = wording.literal(wording.money(one.cost_pico / PICO / one.n_costs, currency))
        cost = _of_known(mean, one.n_costs, one.n_runs)
    return (
        wording.count(one.n_runs),
        wording.count(one.n_sessions),
        wording.count(one.n_observed),
        _failed(one),
        _of_known(_tokens(one), one.n_tokens, one.n_runs) if one.n_tokens else wording.MISSING,
        cost,
    )


def _tokens(one: SideRuns) -> Words:
    """Return the mean tokens of the runs that know theirs."""
    return wording.count(round(one.tokens / one.n_tokens)) if one.n_tokens else Words("unknown")


def _failed(one: SideRuns) -> Words:
    if one.failed.value is None:
        return wording.MISSING
    share: Words = f"{wording.count(one.n_failed)}, {wording.percent(one.failed.value)}"
    if one.failed.limits is None:
        return share
    limits = wording.percent_interval(100 * one.failed.limits[0], 100 * one.failed.limits[1])
    return f"{share} ({limits})"


def _of_known(value: Markdown, n: int, n_runs: int) -> Markdown:
    return value if n == n_runs else f"{value}, known of {wording.count(n)}"


def side_savings(a: Savings | None, b: Savings | None) -> list[tuple[Words, Words, Words]]:
    """Return rows of what choosing arms saved on each side, in tokens and, where a side knows it, in money."""
    rows = [(Words("tokens saved"), _saved(a), _saved(b))]
    if any(one is not None and one.money is not None and one.money.is_known for one in (a, b)):
        rows.append((Words("cost saved"), _money_saved(a), _money_saved(b)))
    return rows


def _saved(one: Savings | None) -> Words:
    if one is None:
        return Words("a single run has no baseline")
    if one.overall.shown.value is None:
        return no_figure(one.overall)
    return _percent(one.overall.shown, missing(one.overall))


def _money_saved(one: Savings | None) -> Words:
    if one is None or one.money is None or not one.money.is_known:
        return wording.MISSING
    words = _percent(one.money.shown, Words("no interval yet"))
    return f"{words}, estimated" if one.money.is_estimated else words


def _percent(estimate: Estimate, no_limits: Words) -> Words:
    words = percent_words(estimate)
    return words if estimate.value is None or estimate.limits is not None else f"{words}; {no_limits}"


def arms_bound(both: ComparedSides, start: int, n_shown: int) -> Words:
    """Return the order of the arms, and which of them are shown."""
    if n_shown == both.n_arms:
        return Words("largest difference of means first, then of selection")
    shown: Words = f"{wording.count(start + 1)} to {wording.count(start + n_shown)}"
    return f"{shown} of {wording.things(both.n_arms, 'arm')}, largest difference of means first"
