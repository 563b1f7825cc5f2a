"""Sentences about what choosing arms saves, and about failures; several pages share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.maths.statistics.overview import Severity
from core.maths.statistics.savings import (
    Comparison,
    Estimate,
    MoneySaved,
    Savings,
    SavingsVerdict,
)
from core.maths.statistics.savings.sums import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, MIN_FOR_PROOF
from core.maths.statistics.savings.verdict import CLAIMS
from core.records.savings_words import REASONS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.achieved import at_most, contradicted, too_early, with_success
from dashboard.wording import Markdown, Words

_BARELY: Final = 2.0
"""Multiple of the baseline's failure rate that hidden failures may reach while "no difference" is shown."""
_FEW_POINTS: Final = 1.0
"""Hidden failures, in points, that never hinder it."""

SOURCE: Final = (
    "All other intervals are for one look. (I. Waudby-Smith and others, Annals of Statistics 52, 2024, "
    "doi 10.1214/24-AOS2408)"
)


def headline(saved: Savings) -> Sentence:
    """Return what choosing arms saves and what the runs achieve, each with its own word; never more than is known."""
    if (early := too_early(saved)) is not None:
        return early
    sentence = contradicted(saving(saved.overall, saved.money), saved)
    return sentence if saved.overall.shown.lower is None else with_success(sentence, saved.outcome)


def saving(overall: Comparison, money: MoneySaved | None) -> Sentence:
    """Return what choosing arms saves, in money where bills are known, or what is missing to name it.

    Tokens follow where their verdict differs.
    """
    if money is None or not money.is_known:
        return _of_tokens(overall)
    why = REASONS["estimated"] if money.is_estimated else REASONS.get(money.reason, "")
    in_money = _claimed(money.shown, money.verdict, why, saved="of the cost", more="more money")
    is_alike = money.verdict == overall.verdict and (money.shown.value or 0) * (overall.shown.value or 0) > 0
    if is_alike or overall.shown.lower is None:
        return in_money
    return composed(*in_money, " ", *_of_tokens(overall))


def _of_tokens(overall: Comparison) -> Sentence:
    if overall.shown.value is None:
        return composed(f"{no_figure(overall)}, so ", Phrase("no saving can be named"), ".")
    if overall.shown.lower is None:
        return composed("Too early to name a saving: ", Phrase(missing(overall)), ".")
    if overall.verdict == "mixed":
        return composed(*apart(overall), ".")
    return _claimed(overall.shown, overall.verdict, withheld(overall), saved="of tokens", more="more tokens")


def _claimed(
    estimate: Estimate, verdict: SavingsVerdict, why: Words, *, saved: Words, more: Words
) -> Sentence:
    """Return a saving, or a loss, with its interval and what is proven of it."""
    value = estimate.value or 0.0
    what = Phrase(f"{wording.percent(abs(value) / 100)} {saved if value >= 0 else more}")
    if verdict in {"proven", "costs_more"} and not why:
        verb = "saves" if value >= 0 else "costs"
        return composed(f"Choosing arms {verb} ", what, f" ({_between(estimate)}), proven.")
    verb = "saved" if value >= 0 else "cost"
    because = f", since {why}" if why else ""
    return composed(
        f"So far choosing arms {verb} ",
        what,
        f" ({_between(estimate)}); ",
        Phrase("not proven"),
        f"{because}.",
    )


def _between(estimate: Estimate) -> Words:
    """Return the interval in the direction of the words: of a loss where there is one."""
    low, high = estimate.lower or 0.0, estimate.upper or 0.0
    if (estimate.value or 0.0) < 0:
        return f"{wording.percent_interval(-high, -low)} more"
    return wording.percent_interval(low, high)


def no_figure(overall: Comparison) -> Words:  # noqa: PLR0911 - one per reason
    """Return why no share of tokens saved can be computed."""
    n_baseline, n_selected = overall.baseline.n_runs, overall.selected.n_runs
    if n_baseline == 0 and n_selected == 0:
        return Words("No run was chosen by armscope yet")
    if n_baseline == 0:
        return Words("No baseline runs yet")
    if n_selected == 0:
        return Words("No selected runs yet")
    fewest = min(overall.baseline.n_known, overall.selected.n_known)
    if not overall.baseline.n_known + overall.selected.n_known:
        return f"None of {wording.things(n_baseline + n_selected, 'run')} says its tokens"
    if fewest < MIN_FOR_FIGURE:
        return f"Only {wording.things(fewest, 'run')} with known tokens in one group"
    if overall.saved_percent.missing == "zero_mean":
        return Words("One group used no tokens at all")
    return Words("The two groups share no model, channel and baseline rate")


def missing(overall: Comparison) -> Words:
    """Return what an interval of the saving still needs."""
    n_baseline, n_selected = (max(MIN_FOR_INTERVAL - n, 0) for n in overall.n_compared)
    kinds = [wording.things(n_baseline, "more baseline run")] if n_baseline else []
    kinds += [wording.things(n_selected, "more selected run")] if n_selected else []
    if kinds:
        return f"{wording.listed(kinds)} {'is' if n_baseline + n_selected == 1 else 'are'} needed"
    if overall.reason == "few_sessions":
        return f"more {'sessions' if overall.in_sessions else 'runs'} of each model and channel are needed"
    return Words("the runs are all alike so far")


def pending(overall: Comparison, *, rate: float) -> Markdown:
    """Return how many runs were compared, and how long the missing baseline runs take."""
    n_baseline, n_selected = overall.n_compared
    groups = f"{wording.things(n_baseline, 'baseline run')} and {wording.things(n_selected, 'selected run')}"
    if blocked := blocks(overall):
        return f"So far {groups} were compared. {blocked}"
    words = f"So far {groups} were compared; an interval takes {MIN_FOR_INTERVAL} of each."
    missing_runs = max(MIN_FOR_INTERVAL - n_baseline, 0)
    if not missing_runs:
        return words
    if not rate:
        return f"{words} The baseline rate is 0, so no baseline run will come."
    about = wording.things(round(missing_runs / rate), "more run")
    return f"{words} At a baseline rate of {wording.percent(rate, 0)} that takes about {about}."


def takes(rate: float) -> Words:
    """Return the runs of each group that an interval and a proof take, and all runs that come with them.

    >>> takes(0.1).partition(".")[0]
    'An interval takes 10 runs of each: about 100 runs at a baseline rate of 10%'
    """
    share, at = min(rate, 1 - rate), f"a baseline rate of {wording.percent(rate, 0)}"
    come = (
        f"about {wording.things(round(MIN_FOR_INTERVAL / share), 'run')} at {at}"
        if share
        else f"never at {at}"
    )
    proof = f"A proof takes {MIN_FOR_PROOF} of each or more, by how far their tokens differ."
    return f"An interval takes {MIN_FOR_INTERVAL} runs of each: {come}. {proof}"


def blocks(overall: Comparison) -> Markdown:
    """Return what more runs alone don't repair, with the next step; empty where nothing blocks a forecast."""
    n_baseline, n_selected = overall.baseline.n_runs, overall.selected.n_runs
    if n_baseline + n_selected == 0:
        return Words("No run was drawn by armscope. Let your agent ask armscope what goes into its prompt.")
    n_unknown = n_baseline + n_selected - overall.baseline.n_known - overall.selected.n_known
    if 2 * n_unknown > n_baseline + n_selected:
        runs = wording.things(n_baseline + n_selected, "run")
        return Markdown(
            f"The tokens of {wording.count(n_unknown)} of {runs} are unknown. Record them with a line in the run: "
            "`run.used(input=900, output=120)`."
        )
    if overall.reason in {"no_coin", "declared_coin", "unbalanced"}:
        return Markdown(f"More runs alone prove nothing, since {REASONS[overall.reason]}.")
    return Markdown("")


def apart(saved: Comparison) -> Sentence:
    """Return ordinary runs and runaway runs that go different ways, without a stop."""
    ordinary, whole = saved.capped_percent.value or 0.0, saved.saved_percent.value or 0.0
    less = f"{wording.percent(abs(ordinary) / 100)} {'fewer' if ordinary >= 0 else 'more'} tokens"
    in_all = f"{wording.percent(abs(whole) / 100)} {'fewer' if whole >= 0 else 'more'}"
    runaways = "cost more" if saved.reason == "runaways_cost" else "cost less"
    return composed(
        "With chosen arms ordinary runs use ",
        Phrase(less),
        f", but runaway runs {runaways}: in all ",
        Phrase(in_all),
    )


def withheld(saved: Comparison) -> Words:
    """Return why nothing is proven; empty where a claim is made."""
    return Words(REASONS.get(saved.reason, ""))


@dataclass(frozen=True)
class Guardrail:
    """Guardrail of the choice of arms: its state, and the figures behind it; "" = none."""

    severity: Severity
    claim: Words
    figures: Markdown = Words("")

    @property
    def words(self) -> Markdown:
        """The state in bold, with the figures."""
        return Markdown(f"**{self.claim}** {self.figures}".strip())


def failures(saved: Comparison) -> Guardrail:
    """Return whether selected runs fail more often than baseline runs, or whether too few runs tell."""
    of_baseline, of_selected = saved.columns.error_rate
    difference = saved.error_difference
    both = (saved.baseline, saved.selected)
    n_runs = sum(one.n_runs for one in both)
    if n_runs and not sum(one.n_errors for one in both):
        most = (
            Words("") if difference.upper is None else f"{wording.capital(at_most(difference.upper))} more."
        )
        return Guardrail("info", f"Failures: none in {wording.things(n_runs, 'run')}.", most)
    others = "" if of_baseline is None else f", {wording.percent(of_baseline)} of the others"
    rates = f"{wording.percent(of_selected)} of runs with chosen arms failed{others}"
    if of_baseline is None or difference.lower is None or difference.upper is None:
        return Guardrail("notice", Words("Failures: too few runs to compare."), f"{rates}.")
    if difference.lower > 0:
        return Guardrail("critical", Words("More failures."), f"{rates}.")
    if difference.upper < 0:
        return Guardrail("info", Words("Fewer failures."), f"{rates}.")
    if difference.upper <= max(_BARELY * 100 * of_baseline, _FEW_POINTS):
        figures = f"{rates}: {at_most(difference.upper)} more."
        return Guardrail("info", Words("Failures: no difference shown."), figures)
    n_more = (saved.runs_to_tell_errors or 0) - saved.selected.n_runs - saved.baseline.n_runs
    needed = f" About {_about(n_more)} more runs are needed." if n_more > 0 else ""
    return Guardrail("notice", Words("Failures: too few runs to compare."), f"{rates}.{needed}")


def _about(number: int) -> Words:
    """Return a number of runs, to two digits.

    >>> _about(2606), _about(87)
    ('2,600', '87')
    """
    return wording.count(float(f"{number:.2g}"))


def proof(saved: Comparison) -> Words:
    """Return the basis of the verdict, as Markdown, with its source; empty where no claim was possible."""
    always = saved.always_percent
    if always.lower is None or always.upper is None:
        return Words("")
    limits = wording.percent_interval(always.lower, always.upper)
    how = f"It counts runs up to a cap and holds however often one looks. {SOURCE}"
    if saved.verdict == "mixed":
        side = "above" if always.lower > 0 else "below"
        above = [wording.count(one.tokens_above or 0.0) for one in (saved.selected, saved.baseline)]
        return (
            f"**Nothing is proven of all runs**: the cautious estimate ({limits}) is {side} zero, but tokens above "
            f"the common cap go the other way, {above[0]} per selected run against {above[1]} per baseline run. {how}"
        )
    if saved.verdict in CLAIMS:
        side = "above" if always.lower > 0 else "below"
        return f"**Proven**: even the cautious estimate ({limits}) is {side} zero. {how}"
    return f"**Not proven**: a proof takes a cautious estimate above zero; it is {limits} now. {how}"


def method(saved: Comparison) -> Words:
    """Return the method of the intervals, and the number of sessions."""
    sessions = (
        f"{wording.count(saved.n_sessions[0])} baseline and {wording.count(saved.n_sessions[1])} selected sessions "
        "(a run without one counts as one)"
    )
    return (
        f"Intervals allow for runs of one session being alike: they go by {sessions}, within models, channels and "
        "baseline rates. Limits are found on logarithms, since token counts are skewed: Welch's for ratios, Zou and "
        "Donner's for differences."
    )
