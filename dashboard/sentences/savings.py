"""Sentences and tables about savings: what can be claimed, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.maths.statistics.savings import Comparison, Estimate, Missing, MoneySaved, Savings, TotalSaved
from core.records import savings_words
from core.records.currency import mean_decimals
from core.records.saving import Outcomes, WeekSaved
from dashboard import wording
from dashboard.sentences.achieved import cache_line, outcome_row, points, tenths
from dashboard.sentences.money import unbilled
from dashboard.wording import Markdown, Words

_SHARE_APART: Final = 0.001
_TINY: Final = 0.0005

_NO_PLAN: Final[dict[Missing, str]] = {
    "few_runs": "no run with known tokens says how far they lie apart",
    "rate_is_zero": "the baseline rate leaves one group empty",
    "no_coin": "no run was drawn by armscope's own coin, so no number of these runs proves anything",
    "unknown_usage": "runs of one group don't state their tokens; record them with run.used(input=900, output=120)",
    "unbalanced": "the groups don't look randomly drawn, and more of these runs don't change that",
}

_INCOMPARABLE: Final = "a group has too few runs or sessions of their model, channel and baseline rate"

_Row = tuple[str, str, str, str, str]

_NO_INTERVAL: Final = (wording.MISSING, wording.MISSING)


def groups(saved: Comparison) -> Words:
    """Return the baseline and selected runs behind the figures."""
    n_baseline, n_selected = saved.n_compared
    baseline = wording.things(n_baseline, "baseline run")
    return f"{baseline}{truncated(saved)} and {wording.things(n_selected, 'selected run')}"


def truncated(saved: Comparison) -> Words:
    """Return the number of truncated baseline runs, in brackets; empty without any."""
    n = saved.baseline.n_truncated
    return Words(f" ({wording.count(n)} incomplete)" if n else "")


def limits(estimate: Estimate) -> Words:
    """Return the interval of an estimate in per cent, or that there is none."""
    if estimate.limits is None:
        return Words("no interval yet")
    return f"{interval_name(estimate)} {wording.percent_interval(*estimate.limits)}"


def interval_name(estimate: Estimate) -> Words:
    """Return the interval's name with its own probability, since the baseline share has a wider one."""
    return f"{wording.percent(estimate.prob, 0)} interval"


def path_note(saved: Savings, weeks: Sequence[WeekSaved] = ()) -> Words:
    """Return the definition of the savings over time, beside their heading."""
    each = Words("; circles: each week by itself" if weeks else "")
    if saved.overall.is_narrow:
        return f"cumulative, band: 95% interval{each}"
    return f"cumulative; runs lie too far apart for a 95% interval{each}"


def money_line(saved: Savings) -> Markdown:
    """Return tokens and money that all selected runs saved, with their intervals, in Markdown."""
    start = "Under the present policy" if saved.policies[1:] else "In all"
    words = _total_words(
        f"{start}, selected runs saved",
        saved.tokens,
        lambda amount: f"{wording.count(amount)} tokens",
        wording.count_interval,
    )
    if saved.money is None:
        return f"{words} No price is set for any of these models, so no money is named."
    currency = saved.money.currency
    words += " " + _total_words(
        "At the prices set that is",
        saved.money.total,
        lambda amount: wording.literal(wording.money(amount, currency)),
        lambda low, high: wording.literal(wording.money_interval(low, high, currency)),
    )
    cache = cache_line(saved.money) if saved.money.is_known else Markdown("")
    return f"{words} {unbilled(saved.money)} {cache}".strip()


def _total_words(
    start: Markdown,
    total: TotalSaved,
    words: Callable[[float], Markdown],
    limits_: Callable[[float, float], Markdown],
) -> Markdown:
    """Return one total with its interval, over how many runs, and how many are not in it."""
    saved = total.saved
    if saved.value is None:
        return f"{start} an amount that cannot be computed."
    span: Markdown = Words(
        "no interval, since runs lie too far apart" if saved.missing == "wide_spread" else "no interval yet"
    )
    if saved.lower is not None and saved.upper is not None:
        span = f"{interval_name(saved)} {limits_(saved.lower, saved.upper)}"
    runs = wording.things(total.n_runs, "run")
    left = f", {wording.count(total.n_uncounted)} not counted" if total.n_uncounted else ""
    return f"{start} {words(saved.value)} ({span}; {runs}{left})."


def savings_numbers(saved: Savings) -> Words:
    """Return the numbers under the sentence: the runs compared, and how many were left out."""
    counted = Words("" if saved.overall.is_narrow else ", each counted up to a cap")
    n_left = saved.left_out.total
    left = (
        f"{wording.things(n_left, 'run')} {'is' if n_left == 1 else 'are'} left out."
        if n_left
        else "None is left out."
    )
    assigned = assigned_words(saved.assigned_runs, saved.assigned_share)
    return f"{wording.capital(groups(saved.overall))} were compared{counted}. {left}{assigned}"


def assigned_words(n_runs: int, share: float) -> Words:
    """Return the sentence about runs that are left out as those of experiments, with a space before it; "" = none."""
    count = f"{wording.percent(share)} of the runs ({wording.count(n_runs)})"
    return Words(f" {count} {savings_words.LEFT_OUT}." if n_runs else "")


def source_formula(overall: Comparison) -> Words:
    """Return the figure by the source's formula, which takes the averages as the runs came."""
    means, plain = (overall.baseline.mean_tokens, overall.selected.mean_tokens), overall.plain_percent
    if means[0] is None or means[1] is None or plain is None:
        return Words("The source's formula gives no figure yet.")
    less = f"{wording.percent(abs(plain) / 100)} {'less' if plain >= 0 else 'more'}"
    return (
        f"**Unadjusted** {less}: {wording.count(means[0])} tokens per baseline run, {wording.count(means[1])} per "
        "selected run, as the runs came (the source's formula, without an interval). The headline compares both "
        "groups at the same mix of models, channels and baseline rates."
    )


def unfinished_words(saved: Savings) -> Markdown:
    """Return the figure over runs that ended normally under its name; before it, shares of other runs that differ."""
    lower, upper = saved.overall.unfinished_difference.limits or (0.0, 0.0)
    groups_ = (saved.overall.selected, saved.overall.baseline)
    shares = [wording.percent(one.unfinished_rate) for one in groups_]
    line = (
        ""
        if lower <= 0 <= upper
        else f"**Runs end early in other shares**: {shares[0]} of selected and {shares[1]} of baseline runs did not "
        f"end normally, difference {points(saved.overall.unfinished_difference)[1]}. "
    )
    well = saved.ended_well.shown
    if well.value is None:
        return Markdown(line)
    figure = f"{wording.percent(well.value / 100)} of tokens ({limits(well)})"
    return f"{line}**Over runs that ended normally alone** the savings are {figure}."


def need_words(saved: Savings) -> Words:
    """Return how many more baseline runs an interval of ± 5 points needs, and in how many runs, as Markdown."""
    need = saved.need
    target = f"± {need.target_points:g} points"
    if need.n_more is None:
        why = {
            "rate_is_zero": "the baseline rate is 0, so none will come",
            "few_for_interval": "each group needs 10 runs before that can be computed",
            "few_sessions": "some strata need more runs or sessions before that can be computed",
            "no_variation": "all runs of a group are alike so far",
            "unreachable": "more baseline runs alone cannot reach it",
        }.get(need.missing or "", "there is no interval yet")
        return f"**Baseline runs until tokens saved are known to {target}: unknown**; {why}."
    now = "" if need.half_width_points is None else f" It is ± {need.half_width_points:.1f} now."
    if need.n_more == 0:
        return f"**The interval of tokens saved is within {target}.**{now}"
    runs = f"{wording.things(need.n_more, 'more baseline run')}"
    all_runs = wording.count(need.n_more / need.baseline_rate)
    rate = wording.percent(need.baseline_rate, 0)
    about = f"about {all_runs} runs in all at a rate of {rate}, if runs stay as they are"
    return f"**{runs} until tokens saved are known to {target}**, {about}.{now}"


def proof_words(saved: Savings) -> Words:
    """Return how many more sessions or runs a proof takes, as Markdown; empty where a claim is made."""
    need = saved.proof
    if need is None:
        return Words("")
    if need.n_sessions is None or need.n_runs is None:
        return f"**How much a proof takes is unknown**: {_NO_PLAN[need.missing or 'few_runs']}."
    figure = f"a saving of {wording.percent(need.saving_percent / 100)}"
    if need.n_sessions == 0:
        return f"**There are enough runs to prove {figure}.**"
    more = more_for_proof(saved)
    in_all = wording.count(float(f"{need.n_runs:.2g}"))
    spread = "at the spread measured so far (power 0.8)"
    return f"**About {more}** would prove {figure}, {in_all} runs in all, {spread}."


def more_for_proof(saved: Savings) -> Words:
    """Return how many more baseline sessions or runs a proof takes, to two digits; empty where none or unknown."""
    need = saved.proof
    if need is None or not need.n_sessions:
        return Words("")
    kind = "more baseline session" if saved.overall.in_sessions else "more baseline run"
    return wording.things(round(float(f"{need.n_sessions:.2g}")), kind)


def share_words(saved: Savings, *, configured: float, n_arms: int) -> Words:
    """Return observed against configured baseline share, its test, and the recommended rate, in Markdown."""
    share = saved.share
    advice = ""
    if saved.recommended_rate is not None:
        rate = wording.percent(saved.recommended_rate, 0)
        advice = f" Recommended for {wording.things(n_arms, 'arm')}: {rate}."
    if share.observed.value is None:
        return f"**Baseline share unknown**, configured {wording.percent(configured, 0)}.{advice}"
    observed = wording.percent(share.observed.value)
    span = ""
    if share.observed.lower is not None and share.observed.upper is not None:
        limits_ = wording.percent_interval(share.observed.lower * 100, share.observed.upper * 100)
        span = f" ({interval_name(share.observed)} {limits_})"
    set_ = f"configured {wording.percent(configured, 0)}"
    if share.expected is not None and abs(share.expected - configured) >= _SHARE_APART:
        set_ = f"configured {wording.percent(share.expected)} on average and {wording.percent(configured, 0)} now"
    chance = ""
    if share.prob_as_far is not None and share.observed.lower is not None:
        chance = ", **more than chance explains**" if share.off else ", within normal chance"
    return f"**Baseline share {observed}**, {set_}{span}{chance}.{advice}"


def share_test(saved: Savings) -> Words:
    """Return the expected share and the outcome of its test, as Markdown."""
    share = saved.share
    if share.prob_as_far is None:
        return Words("No run has a stored probability, so the random draw cannot be checked.")
    expected = f"{share.n_expected:,.1f}"
    counts = (
        f"{wording.things(share.n_baseline, 'baseline run')} of {wording.count(share.n_runs)} decided ones; their "
        f"stored probabilities add up to {expected}."
    )
    if share.observed.lower is None:
        return f"{counts} Too few to check the random draw."
    chance = wording.percent(share.prob_as_far, 1) if share.prob_as_far >= _TINY else "under 0.1%"
    return f"{counts} A share so far off has a chance of {chance} (exact binomial test)."


def amount_limits(estimate: Estimate) -> Words | None:
    """Return an estimate's interval for the small line of a figure."""
    return None if estimate.limits is None else wording.count_interval(*estimate.limits)


def left_out(saved: Savings) -> list[tuple[Words, int, str]]:
    """Return the runs that take no part: their kind, how many, and why."""
    out = saved.left_out
    return [
        (Words("passive"), out.passive, "all arms were in; nothing was chosen"),
        (Words("fallback"), out.fallback, "the selector could not be reached"),
        (Words("imported"), out.imported, "armscope did not choose them"),
        (Words("unknown-usage"), out.unknown_usage, "no tokens known, which is not 0"),
        (Words("incomparable"), out.uncompared, _INCOMPARABLE),
    ]


def left_out_table(saved: Savings) -> dict[str, list[object]]:
    """Return the left-out runs with reasons, and the rest."""
    rows = left_out(saved)
    used = sum(saved.overall.n_compared)
    return {
        "runs": [*[name.replace("-", " ").capitalize() for name, _, _ in rows], "Compared"],
        "number": [*[number for _, number, _ in rows], used],
        "why": [*[why for _, _, why in rows], "baseline or selected, tokens known"],
    }


def comparison_table(saved: Savings, shown: Callable[[str], str] = str) -> dict[str, list[object]]:
    """Return both groups side by side, and their differences with intervals; ``shown`` escapes amounts of money."""
    overall, columns = saved.overall, saved.overall.columns
    base, chosen = overall.baseline, overall.selected
    duration = overall.duration_saved_ms
    tokens = columns.tokens if overall.is_narrow else (base.capped_tokens, chosen.capped_tokens)
    rows = [
        *_cost_rows(saved.money, shown),
        outcome_row(saved.outcome),
        _row("tokens per run", tokens, wording.count, _fewer(overall.shown)),
        _row(
            "duration, s",
            columns.duration_ms,
            _seconds,
            (
                _turned(duration, lambda value: wording.change(value / 1000, 1)),
                _turned_limits(duration, lambda low, high: tenths(low / 1000, high / 1000)),
            ),
        ),
        _row("error rate", columns.error_rate, wording.percent, points(overall.error_difference)),
        _row(
            "did not end normally",
            columns.unfinished_rate,
            wording.percent,
            points(overall.unfinished_difference),
        ),
    ]
    return _columns(rows)


def cost_card(money: MoneySaved | None) -> list[tuple[Words, str, str | None, Words]]:
    """Return the card of the cost of a run: what is saved, and both means; none without bills."""
    if money is None or not money.is_known or money.baseline_mean is None or money.selected_mean is None:
        return []
    decimals = mean_decimals(money.total.saved.value or 0.0, money.total.n_runs)
    saved, baseline = (
        wording.money(amount, money.currency, decimals)
        for amount in (money.baseline_mean - money.selected_mean, money.baseline_mean)
    )
    about = Words(
        "Mean cost of baseline runs minus selected runs, at the same mix; below: of a baseline run."
    )
    return [(Words("Cost saved per run"), saved, f"of {baseline}", about)]


def success_card(outcome: Outcomes) -> tuple[Words, str, str | None, Words]:
    """Return the card of what runs achieve: the mean of selected runs, and that of baseline runs."""
    baseline, selected = outcome.means
    help_text = Words(
        "Mean outcome of runs from 0 to 1, by session; the table has the interval of the difference."
    )
    if baseline is None or selected is None:
        return Words("Success"), "unknown", None, help_text
    below = f"{wording.percent(baseline)} in baseline runs"
    return Words("Success"), wording.percent(selected), below, help_text


def _cost_rows(money: MoneySaved | None, shown: Callable[[str], str]) -> list[_Row]:
    """Return the cost of a run where bills are known, with the decimals that its total needs."""
    if money is None or not money.is_known:
        return []
    decimals = mean_decimals(money.total.saved.value or 0.0, money.total.n_runs)

    def words(amount: float | None) -> str:
        return wording.MISSING if amount is None else shown(wording.money(amount, money.currency, decimals))

    counted = "cost per run" if money.headline == "plain" else "cost per run, mean"
    estimate = money.shown if money.headline == "plain" else money.mean_percent
    return [_row(counted, (money.baseline_mean, money.selected_mean), words, _fewer(estimate))]


def counting_table(saved: Savings) -> dict[str, list[object]]:
    """Return the tokens of both groups, counted in each way, and the runs above the common cap."""
    overall = saved.overall
    base, chosen = overall.baseline, overall.selected
    means = overall.columns.tokens
    typical = (base.typical_tokens, chosen.typical_tokens)
    capped = (base.capped_tokens, chosen.capped_tokens)
    shares, above = (base.share_above, chosen.share_above), (base.tokens_above, chosen.tokens_above)
    return _columns(
        [
            _row("tokens, mean run", means, wording.count, _fewer(overall.saved_percent)),
            _row("tokens, typical run", typical, wording.count, _fewer(overall.typical_percent)),
            _row("tokens, counted up to a cap", capped, wording.count, _fewer(overall.capped_percent)),
            _row("runs above the common cap", shares, wording.percent, _NO_INTERVAL),
            _row("tokens above the common cap, per run", above, wording.count, _NO_INTERVAL),
        ]
    )


def _columns(rows: Sequence[_Row]) -> dict[str, list[object]]:
    names = ("what", "baseline", "selected", "difference", "95% interval")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def _row(
    name: str,
    groups: tuple[float | None, float | None],
    words: Callable[[float | None], str],
    difference: tuple[str, str],
) -> _Row:
    return (name, words(groups[0]), words(groups[1]), *difference)


def _fewer(saved: Estimate) -> tuple[str, str]:
    """Return savings in per cent as a change of tokens, and its interval."""
    return (
        _turned(saved, lambda value: wording.change(value, 1, "%")),
        _turned_limits(saved, wording.percent_interval),
    )


def counting_note(saved: Savings) -> Words:
    """Return the three ways of counting, as Markdown."""
    only = "" if saved.overall.is_narrow else ", which these do not"
    return (
        "The **mean run** is the plain average, which a few runaway runs can carry; it has an interval only where "
        f"runs lie close together{only}. The **typical run** is the geometric mean. The **cap** of each group is its "
        "own 95th percentile of runs, each divided by the typical run of its model and channel. So a saving of 25% "
        "in all runs stays 25%. Runs above a **common cap**, the percentile of both groups together, are in the "
        "table below."
    )


def _seconds(value_ms: float | None) -> str:
    return wording.MISSING if value_ms is None else f"{value_ms / 1000:,.1f}"


def _turned(saved: Estimate, words: Callable[[float], str]) -> str:
    """Return the savings as a change: selected minus baseline."""
    return wording.MISSING if saved.value is None else words(-saved.value)


def _turned_limits(saved: Estimate, words: Callable[[float, float], str]) -> str:
    return wording.MISSING if saved.limits is None else words(-saved.limits[1], -saved.limits[0])
