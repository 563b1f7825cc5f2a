"""Words of savings: verdicts, figures and the facts that a terminal, a print and a notebook show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from core.records.estimate import Estimate
from core.records.model_kinds import price_words
from core.records.saving import Loss, Outcomes, SavingsVerdict
from core.records.status import Money

VERDICTS: Final[Mapping[str, str]] = {
    "proven": "proven: it saves tokens, however often one looks",
    "not_proven": "not proven",
    "costs_more": "proven: it costs more tokens, however often one looks",
    "mixed": "ordinary runs and runaway runs go different ways",
    "no_interval": "nothing is proven: no interval yet",
    "no_figure": "no savings can be claimed",
}
SHORT_VERDICTS: Final[Mapping[SavingsVerdict, str]] = {
    "proven": "proven",
    "not_proven": "not proven",
    "costs_more": "costs more, proven",
    "mixed": "mixed",
    "no_interval": "no interval yet",
    "no_figure": "no figure",
}
_MONEY: Final[Mapping[tuple[str, bool], str]] = {
    **{(name, estimated): "not shown" for name in VERDICTS for estimated in (False, True)},
    ("not_proven", True): "not shown: bills are estimated",
    ("proven", False): "proven: it saves money, however often one looks",
    ("costs_more", False): "no: it costs more, proven however often one looks",
    ("costs_more", True): "no: it costs more, by estimated bills (not proven)",
}
NEW_POLICY: Final = (
    "It begins a policy: the headline of savings begins again. An undo returns to the present one."
)
LEFT_OUT: Final = "are of assigned sessions of experiments, and are left out"
OUTCOME_WORDS: Final[Mapping[str, str]] = {
    "as_much": "as much",
    "less": "less, proven",
    "open": "open",
    "unknown": "unknown",
}
REASONS: Final[Mapping[str, str]] = {
    "interval_holds_zero": "the cautious estimate includes 0",
    "few_for_proof": "a proof takes 30 runs in each group",
    "few_sessions": "a proof takes 30 sessions in each group",
    "no_coin": "baseline runs were not drawn at random",
    "declared_coin": "the random draw is declared by its source, not made here",
    "unbalanced": "the groups don't look randomly drawn",
    "share_off": "the share of baseline runs is off",
    "lost_suspected": "the share of baseline runs leaves room for lost runs that make all of it",
    "lost_differ": "one group lost runs more often",
    "lost_open": "too many selections have no run",
    "unknown_open": "runs with unknown tokens could undo it",
    "follow_ups_differ": "sessions that begin with selected runs go on more often",
    "sessions_open": "sessions as a whole don't prove it",
    "early_policy": "too early for the present policy",
    "means_disagree": "the plain mean does not agree",
    "unknown_differ": "one group has unknown tokens more often",
    "estimated": "bills are estimated",
    "at_least": "some bills are lower bounds",
    "cache": "it depends on the cache",
    "runaways_cost": "ordinary runs and runaway runs go different ways",
    "runaways_spare": "ordinary runs and runaway runs go different ways",
    "few_runs": "a group has too few runs",
    "cannot": "the runs give no figure",
}


def savings_facts(
    money: Money | None,
    *,
    verdict: SavingsVerdict,
    reason: str,
    outcome: Outcomes,
    figure_shown: str,
    runs_compared: str,
    losses: Sequence[Loss] = (),
) -> list[tuple[str, str]]:
    """Return savings in short: money where it is known, the claim, the figure, the outcomes, and the runs behind it.

    A proven loss of outcome leads.
    """
    why = REASONS.get(reason, "")
    claim = f"{VERDICTS[verdict]}{f' ({why})' if why else ''}; {_second_fact(outcome)}"
    outcomes = [("outcomes", outcome_words(outcome))]
    leads = outcome.word == "less"
    return [
        *(outcomes if leads else []),
        *_money_rows(money, outcome),
        ("may be claimed", claim),
        ("savings", figure_shown),
        *([] if leads else outcomes),
        *(("costs more", f"{part_of(one)}: {loss_words(one)}") for one in losses),
        ("compared", runs_compared),
    ]


def assigned_words(n_runs: int, share: float) -> str:
    """Return the share of runs that savings leave out as those of experiments; "" without any.

    >>> assigned_words(40, 0.125)
    '12.5% of the runs (40) are of assigned sessions of experiments, and are left out'
    """
    return f"{100 * share:.1f}% of the runs ({n_runs:,}) {LEFT_OUT}" if n_runs else ""


def outcome_words(outcome: Outcomes) -> str:
    """Return what selected runs achieve beside baseline runs: the second fact of the headline."""
    baseline, selected = outcome.means
    if baseline is None or selected is None:
        return "nothing is known of what the runs achieved; record(..., achieved=1) states it"
    of = of_runs(outcome)
    shares = f"{100 * baseline:.1f}% of baseline and {100 * selected:.1f}% of selected runs{of}"
    if outcome.difference.lower is None:
        return f"{OUTCOME_WORDS[outcome.word]}, {shares}"
    most = math.ceil(10 * max(-outcome.difference.lower, 0.0)) / 10
    return f"{OUTCOME_WORDS[outcome.word]}, {shares}, at most {most:.1f} points less"


def of_runs(outcome: Outcomes) -> Literal["", " of a random sample", " of judged runs"]:
    """Return the runs that outcomes are known of, where these are not all; else ""."""
    if any(outcome.sampled):
        return " of a random sample"
    return " of judged runs" if outcome.of_judged else ""


def part_of(loss: Loss) -> str:
    """Return the runs that a proven loss is of."""
    return "the last 28 days" if loss.part == "days" else f"{loss.part} {loss.name or 'unknown'}"


def loss_words(loss: Loss) -> str:
    """Return a proven loss, and the least of it that holds however often one looks.

    >>> loss_words(Loss(part="model", name="b", saved_percent=Estimate(value=-34.9, lower=-49.0, upper=-12.18)))
    '34.9% more tokens, at least 12.1%'
    """
    least = math.floor(10 * -(loss.saved_percent.upper or 0.0)) / 10
    return f"{-(loss.saved_percent.value or 0.0):.1f}% more tokens, at least {least:.1f}%"


def _second_fact(outcome: Outcomes) -> str:
    return f"outcomes: {OUTCOME_WORDS[outcome.word]}"


def _money_rows(money: Money | None, outcome: Outcomes) -> list[tuple[str, str]]:
    """Return whether selecting saves money, and the figure; nothing without a price."""
    if money is None:
        return []
    lower, upper = money.interval or (None, None)
    shown = Estimate(value=money.savings_percent, lower=lower, upper=upper)
    by = ", by estimated bills" if money.estimated else ""
    n_baseline, n_selected = money.compared_runs
    runs = (
        f"{n_baseline:,} baseline and {n_selected:,} selected bills; {money.unbilled_runs:,} runs without one"
    )
    missing = price_words(
        [name or "runs without a model" for name in money.unpriced_models], money.price_offers
    )
    return [
        ("saves money", f"{_MONEY[money.verdict, money.estimated]}; {_second_fact(outcome)}"),
        ("money saved", f"{figure(shown, capped=money.headline == 'capped', what='money')}{by}"),
        ("bills", runs),
        *([("prices", missing)] if missing else []),
    ]


def figure(saved: Estimate, *, capped: bool = False, what: str = "tokens") -> str:
    """Return a share of the tokens or the money with its interval, rounded outwards; no figure without one."""
    if saved.value is None or saved.lower is None or saved.upper is None:
        return "too early to name a figure"
    how = ", each run counted up to a cap" if capped else ""
    low, high = (f"{math.floor(10 * saved.lower) / 10:.1f}", f"{math.ceil(10 * saved.upper) / 10:.1f}")
    limits = f"{low}–{high}%" if saved.lower >= 0 else f"{low}% to {high}%"
    return f"{saved.value:.1f}% of the {what}, 95% interval {limits}{how}"


def compared(groups: tuple[int, int], n_uncompared: int) -> str:
    """Return the runs behind the figures, and how many are not."""
    rest = f"; {n_uncompared:,} have no counterpart" if n_uncompared else ""
    return f"{groups[0]:,} baseline and {groups[1]:,} selected runs{rest}"
