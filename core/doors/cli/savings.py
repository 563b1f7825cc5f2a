"""Savings: what selecting saves against baseline runs, and what is proven of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.documents import savings as savings_document
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import verb
from core.records.estimate import Estimate
from core.records.view import View

if TYPE_CHECKING:
    from core.records.status import Money
    from core.statistics.savings import Comparison, Savings

VERDICTS: Final[Mapping[str, str]] = {
    "proven": "proven: it saves tokens, however often one looks",
    "not_proven": "not proven",
    "costs_more": "proven: it costs more tokens, however often one looks",
    "mixed": "ordinary runs and runaway runs go different ways",
    "no_interval": "nothing is proven: no interval yet",
    "no_figure": "no savings can be claimed",
}
_MONEY: Final[Mapping[tuple[str, bool], str]] = {
    **{(name, estimated): "not shown" for name in VERDICTS for estimated in (False, True)},
    ("not_proven", True): "not shown: bills are estimated",
    ("proven", False): "proven: it saves money, however often one looks",
    ("costs_more", False): "no: it costs more, proven however often one looks",
    ("costs_more", True): "no: it costs more, by estimated bills (not proven)",
}
_REASONS: Final[Mapping[str, str]] = {
    "interval_holds_zero": "the interval includes 0",
    "few_for_proof": "a proof takes 30 runs in each group",
    "few_sessions": "a proof takes 30 sessions in each group",
    "no_coin": "no coin decided which runs were baseline runs",
    "declared_coin": "the coin is as declared by its source, not drawn here",
    "unbalanced": "the classes don't look drawn by the coin",
    "unfinished_differ": "one group ends early more often",
    "unknown_differ": "one group has unknown tokens more often",
    "few_runs": "a group has too few runs",
    "cannot": "the runs give no figure",
}


@command(examples=["savings", "savings --model gpt-4.1 --json"])
def savings(
    line: typer.Context,
    model: Annotated[
        list[str] | None, typer.Option("--model", metavar="M", help="Only this model; repeatable.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", metavar="C", help="Only this channel; repeatable.")
    ] = None,
) -> None:
    context = context_of(line)
    view = View(models=tuple(model or ()), channels=tuple(channel or ()))
    result: Savings = verb("savings").call(context, view=view)
    answer(line, savings_document(context, result), lambda: _say(result))


def _say(result: Savings) -> None:
    from core.flows.queries.savings import money_of

    overall = result.overall
    reason = _REASONS.get(overall.reason, "")
    say_facts(
        [
            *money_rows(money_of(result.money)),
            ("may be claimed", f"{VERDICTS[overall.verdict]}{f' ({reason})' if reason else ''}"),
            ("savings", figure(overall.shown, capped=not overall.is_narrow)),
            ("compared", compared(overall.n_compared, overall.n_uncompared)),
            ("left out", f"{result.left_out.total:,} runs"),
            *_proof(result),
        ]
    )
    say("", "How it is computed (more: armscope help savings):")
    say_facts(
        [
            ("mean run", figure(overall.saved_percent)),
            ("typical run", figure(overall.typical_percent)),
            ("counted up to a cap", figure(overall.capped_percent)),
            ("the source's formula", _plain(overall)),
        ]
    )
    rows = [
        (one.model or "unknown", *(f"{n:,}" for n in one.n_compared), figure(one.shown), one.verdict)
        for one in result.by_model
    ]
    if len(rows) > 1:
        say("")
        say_table(("model", "baseline", "selected", "savings", "verdict"), rows, numbers=(1, 2))


def _proof(result: Savings) -> list[tuple[str, str]]:
    """Return how many more sessions or runs a proof takes, where none is made."""
    need = result.proof
    if need is None or need.n_sessions is None or need.n_runs is None:
        return []
    kind = "baseline sessions" if result.overall.in_sessions else "baseline runs"
    amount = f"about {need.n_sessions:,} more {kind}, {need.n_runs:,} runs in all"
    return [(f"proof of {need.saving_percent:.0f}%", f"{amount}, at the spread so far")]


def money_rows(money: Money | None) -> list[tuple[str, str]]:
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
    return [
        ("saves money", f"{_MONEY[money.verdict, money.estimated]}"),
        ("money saved", f"{figure(shown, capped=money.headline == 'capped', what='money')}{by}"),
        ("bills", runs),
    ]


def figure(saved: Estimate, *, capped: bool = False, what: str = "tokens") -> str:
    """Return a share of the tokens or the money with its interval, rounded outwards; no figure without one."""
    if saved.value is None or saved.lower is None or saved.upper is None:
        return "too early to name a figure"
    how = ", each run counted up to a cap" if capped else ""
    limits = f"{math.floor(10 * saved.lower) / 10:.1f}% to {math.ceil(10 * saved.upper) / 10:.1f}%"
    return f"{saved.value:.1f}% of the {what}, 95% interval for one look {limits}{how}"


def compared(groups: tuple[int, int], n_uncompared: int) -> str:
    """Return the runs behind the figures, and how many are not."""
    rest = f"; {n_uncompared:,} have no counterpart" if n_uncompared else ""
    return f"{groups[0]:,} baseline and {groups[1]:,} selected runs{rest}"


def _plain(overall: Comparison) -> str:
    """Return the formula of the sources over all runs: (baseline mean - selected mean) / baseline mean."""
    means = overall.baseline.mean_tokens, overall.selected.mean_tokens
    if overall.plain_percent is None or None in means:
        return "no figure"
    return f"{overall.plain_percent:.1f}% ({means[0]:,.0f} and {means[1]:,.0f} tokens a run)"
