"""Showing: what is there: status, posteriors, arms, runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.doors.cli.line import Format, answer, command, context_of, done, rows_or, types_of
from core.doors.terminal import said_mean, said_time, say, say_facts, say_table
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows import queries
    from core.records.judgement import Judgement


@command(examples=["status", "--database demo.db status --json"])
def status(ctx: typer.Context) -> None:
    """Where the data are, and what they hold."""
    from core.flows import queries

    found = queries.status(context_of(ctx))
    answer(ctx, found, lambda: _say_status(found))


def _say_status(found: queries.Status) -> None:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in found.skipped.items() if count) or "none"
    baseline = found.baseline
    truncated = f" ({baseline.truncated_runs:,} truncated)" if baseline.truncated_runs else ""
    rows = [
        ("database", found.database),
        ("learner", f"{found.learner} ({found.phase}, detection {found.mode}, revision {found.revision:,})"),
        ("runs", f"{found.runs:,} ({found.observed:,} observed; skipped: {skipped}; {found.empty:,} empty)"),
        ("arms", f"{found.arms:,} with {found.pulls:,} pulls{_need_a_look(found)}"),
        ("tokens", f"{found.tokens:,}"),
        ("first and last run", f"{found.first_run or 'unknown'} to {found.last_run or 'unknown'}"),
        ("baseline, selected", f"{baseline.baseline_runs:,}{truncated} and {baseline.selected_runs:,} runs"),
        ("savings", _saved(baseline.savings_percent, baseline.interval)),
        ("counted up to a cap", _saved(baseline.capped_savings_percent, baseline.capped_interval)),
        ("of a typical run", _saved(baseline.typical_savings_percent, baseline.typical_interval)),
        ("may be said", _VERDICTS[baseline.verdict]),
    ]
    say_facts(rows)
    if found.open_to_others:
        files = shlex.join(found.open_to_others)
        say("", f"Other users of this machine can read it. To end that: chmod go= {files}")
    if not found.runs:
        say("", "Nothing is recorded yet. Next: armscope import <files or folders>, or armscope demo.")


_VERDICTS: Final[Mapping[str, str]] = {
    "proven": "proven: it saves tokens, however often one looks",
    "not_proven": "not proven",
    "costs_more": "proven: it costs more tokens, however often one looks",
    "mixed": "ordinary runs and runaway runs go different ways",
    "no_interval": "nothing is proven: no interval yet",
    "no_figure": "no savings can be claimed",
}


def _saved(percent: float | None, interval: tuple[float, float] | None) -> str:
    if percent is None:
        return "no figure"
    if interval is None:
        return f"{percent:.1f}% of the tokens, no interval"
    return f"{percent:.1f}% of the tokens, 95% interval for one look {interval[0]:.1f}% to {interval[1]:.1f}%"


def _need_a_look(found: queries.Status) -> str:
    """Arms that something is to be said about, after their number."""
    said = [f"{count:,} {name.replace('_', ' ')}" for name, count in found.need_a_look.items()]
    return f"; to look at: {', '.join(said)}" if said else ""


@command(examples=["learners", "learners --create support"])
def learners(
    ctx: typer.Context,
    create: Annotated[
        str | None, typer.Option("--create", metavar="NAME", help="Make one of this name, empty.")
    ] = None,
) -> None:
    """Every learner of the database, or a new one."""
    from core.flows.learners import create_learner
    from core.flows.learners import learners as learners_of

    context = context_of(ctx, create=create is not None, whole=True)
    found = learners_of(context) if create is None else [create_learner(context, create)]
    rows = [
        (one.name, one.phase, f"{one.runs:,}", f"{one.arms:,}", one.last_run or "none dated") for one in found
    ]
    heads = ("learner", "phase", "runs", "arms", "last run")
    tell = answer if create is None else done
    tell(ctx, found, lambda: say_table(heads, rows, numbers=(2, 3)))


@command(
    examples=["posteriors", "posteriors --type skill --type file", "posteriors --format csv > beliefs.csv"]
)
def posteriors(
    ctx: typer.Context,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only arms of this type; repeatable.")
    ] = None,
    format_name: Format = None,
) -> None:
    """What is believed of every arm, and what is to be said of it."""
    from core import explained
    from core.flows import queries

    types = types_of(arm_type or [])
    context = context_of(ctx)
    judged = queries.judgements(context)
    found = [
        one for one in queries.judged_posteriors(context, judged=judged) if not types or one.type in types
    ]
    rows = [
        (
            one.arm,
            said_mean(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
            explained.chance_words(one.chance, one.chance_error),
            _said(judged[one.arm]),
        )
        for one in sorted(found, key=lambda one: (-one.mean, one.arm))
    ]
    heads = ("arm", "mean", "95% interval, exact", "pulls", "in runs", "confidence", "chance", "judgement")
    rows_or(ctx, format_name, found, lambda: say_table(heads, rows, numbers=(1, 2, 3, 4, 6)))


@command(examples=["arms", "arms --format tsv | cut -f 1"])
def arms(ctx: typer.Context, format_name: Format = None) -> None:
    """Every arm with its cost and prior, and what is to be said of it."""
    from core.flows import queries

    context = context_of(ctx)
    judged = queries.judgements(context)
    found = queries.judged_arms(context, judged=judged)
    rows = [
        (
            one.arm,
            "unknown" if one.token_cost is None else f"{one.token_cost:,}",
            f"{one.prior.alpha:g}, {one.prior.beta:g}",
            f"{one.pulls:,}",
            _said(judged[one.arm]),
        )
        for one in found
    ]
    heads = ("arm", "tokens", "prior", "pulls", "judgement")
    rows_or(ctx, format_name, found, lambda: say_table(heads, rows, numbers=(1, 3)))


def _said(judged: Judgement) -> str:
    """What an arm is judged to be, in a table's cell."""
    from core import explained

    return explained.judgement(judged, since=said_time(judged.since_ms))


@command(examples=["runs --limit 10", "runs --limit 1000 --format nl"])
def runs(
    ctx: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="How many, newest first.")
    ] = 50,
    format_name: Format = None,
) -> None:
    """The latest runs."""
    from core.flows import queries

    found = [
        {
            "run": one.run_no,
            "uid": one.uid,
            "ended_at": iso(one.at_ms),
            "model": one.model,
            "channel": one.channel,
            "class": one.run_class,
            "status": one.status,
            "outcome": one.outcome,
            "tokens": one.tokens,
            "arms": one.n_arms,
            "referenced": one.n_referenced,
        }
        for one in queries.runs(context_of(ctx), limit)
    ]
    heads = ("run", "ended", "class", "outcome", "arms", "referenced", "tokens", "uid")
    rows = [
        (
            f"{one['run']}",
            f"{one['ended_at'] or 'unknown'}",
            f"{one['class']}",
            f"{one['outcome']}",
            f"{one['arms']}",
            f"{one['referenced']}",
            "unknown" if one["tokens"] is None else f"{one['tokens']:,}",
            f"{one['uid']}",
        )
        for one in found
    ]
    rows_or(ctx, format_name, found, lambda: say_table(heads, rows, numbers=(0, 4, 5, 6)))
