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

_MOST_NAMED: Final = 3


def compared(both: ComparedSides, names: tuple[Markdown, Markdown]) -> Sentence:
    """Return the arms that differ, then failures; of two runs, which failed and what they took."""
    if both.a.n_runs == both.b.n_runs == 1:
        return _compared_runs(both, names)
    arms, failures = _different(both), _failures(both, names)
    if arms or failures:
        return composed(*arms, *failures)
    if both.failures.value is None:
        counts = [wording.count(one.n_runs) for one in (both.a, both.b)]
        return composed("There are ", Phrase("too few runs to compare"), f": {counts[0]} and {counts[1]}.")
    of = wording.things(both.n_compared, "compared arm")
    return composed(Phrase("No difference is shown"), f", neither in failures nor in the use of {of}.")


def _different(both: ComparedSides) -> Sentence:
    """Return the arms that are used differently, those with the most evidence by name; nothing without one."""
    n = both.n_different
    if not n:
        return ()
    named = [
        wording.literal(wording.short_name(one.arm)) for one in both.arms[: n if n <= _MOST_NAMED else 2]
    ]
    rest: list[Markdown] = [f"{wording.count(n - len(named))} more"] if n > len(named) else []
    are = Words("arm is" if n == 1 else "arms are")
    return composed(
        Phrase(f"{wording.count(n)} {are} used differently"), f": {wording.listed([*named, *rest])}. "
    )


def _failures(both: ComparedSides, names: tuple[Markdown, Markdown]) -> Sentence:
    """Return which side fails more often; nothing where no difference is shown."""
    limits = both.failures.limits
    if limits is None or limits[0] <= 0 <= limits[1]:
        return ()
    rates = [wording.percent(one.failed.value or 0.0) for one in (both.a, both.b)]
    more, rate, less = (names[1], *rates[::-1]) if limits[0] > 0 else (names[0], *rates)
    return composed(wording.capital(more), " ", Phrase("fails more often"), f": {rate} against {less}.")


def _compared_runs(both: ComparedSides, names: tuple[Markdown, Markdown]) -> Sentence:
    failed = [bool(one.n_failed) for one in (both.a, both.b)]
    took: Markdown = f"Tokens: {_tokens(both.a)} in {names[0]}, {_tokens(both.b)} in {names[1]}."
    if failed[0] == failed[1]:
        return composed(Phrase("Both runs failed" if failed[0] else "Neither run failed"), ". ", took)
    which = names[0] if failed[0] else names[1]
    return composed(Phrase("One run failed"), f": {which}. ", took)


def compared_line(both: ComparedSides) -> Markdown:
    """Return the difference of failures with its interval; of two runs, how many arms only one had."""
    if both.a.n_runs == both.b.n_runs == 1:
        alone = sum(bool(one.a.n_in) != bool(one.b.n_in) for one in both.arms)
        were = Words("was" if alone == 1 else "were")
        return f"{wording.things(alone, 'arm')} shown here {were} in the prompt of one run alone."
    limits = both.failures.limits
    if limits is None:
        few = Words("sessions" if both.failures.missing == "few_sessions" else "runs")
        return f"There are too few {few} for an interval of the difference in failures."
    return (
        f"Failures of B less A: {wording.change(both.failures.value or 0.0, 1)} points, "
        f"95% interval {wording.change(limits[0], 1)} to {wording.change(limits[1], 1)}."
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


def savings_apart(a: Savings | None, b: Savings | None) -> Words:
    """Return whether a difference of the savings of two sides is shown; empty where a single run has none."""
    if a is None or b is None:
        return Words("")
    words = apart(Words("Tokens saved"), a.overall.shown, b.overall.shown)
    if a.money is None or b.money is None or not (a.money.is_known and b.money.is_known):
        return words
    return f"{words} {apart(Words('Cost saved'), a.money.shown, b.money.shown)}"


def apart(saved: Words, a: Estimate, b: Estimate) -> Words:
    """Return whether two intervals of a saving are apart, and which side saves more."""
    if a.limits is None or b.limits is None:
        return f"{saved}: a side has no interval, so no difference can be named."
    if a.limits[0] <= b.limits[1] and b.limits[0] <= a.limits[1]:
        return f"{saved}: the intervals overlap, so no difference is shown."
    return f"{saved}: the intervals are apart, {'A' if a.limits[0] > b.limits[1] else 'B'} saves more."


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


def rest_of(both: ComparedSides, n_pictured: int) -> Words:
    """Return the head of the arms that are not pictured."""
    parts = [
        f"{wording.count(both.n_different - n_pictured)} more used differently",
        f"{wording.things(both.n_compared - both.n_different, 'arm')}: no difference shown",
        f"{wording.count(both.n_arms - both.n_compared)} without observations on a side",
    ]
    return Words(", ".join(one for one in parts if not one.startswith("0 ")))
