"""Showing: what is there: status, posteriors, arms, runs."""

from __future__ import annotations

from typing import Annotated

import typer

from core.doors.cli.line import Json, answer, app, desk_of, types_of
from core.doors.terminal import said_mean, say, say_table
from core.flows import look
from core.flows.learners import create_learner
from core.flows.learners import learners as learners_of
from core.records.times import iso


@app.command()
def status(context: typer.Context, as_json: Json = False) -> None:
    """Where the data are, and what they hold."""
    found = look.status(desk_of(context))
    answer(found, as_json=as_json, words=lambda: _say_status(found))


def _say_status(found: look.Status) -> None:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in found.skipped.items() if count) or "none"
    saved = found.baseline.savings_percent
    interval = found.baseline.interval
    rows = [
        ("database", found.database),
        ("learner", f"{found.learner} ({found.phase}, detection {found.mode}, revision {found.revision:,})"),
        ("runs", f"{found.runs:,} ({found.observed:,} observed; skipped: {skipped}; {found.empty:,} empty)"),
        ("arms", f"{found.arms:,} with {found.pulls:,} pulls"),
        ("tokens", f"{found.tokens:,}"),
        ("first and last run", f"{found.first_run or 'unknown'} to {found.last_run or 'unknown'}"),
        ("baseline, selected", f"{found.baseline.baseline_runs:,} and {found.baseline.selected_runs:,} runs"),
        ("savings", "no figure" if saved is None else f"{saved:.1f}% of the tokens"),
    ]
    if interval is not None:
        rows[-1] = ("savings", f"{saved:.1f}%, 95% interval {interval[0]:.1f}% to {interval[1]:.1f}%")
    say_table(("", ""), rows)
    if not found.runs:
        say("", "Nothing is recorded yet. Next: armscope import <files or folders>, or armscope demo.")


@app.command()
def learners(
    context: typer.Context,
    create: Annotated[str | None, typer.Option("--create", help="Make one of this name, empty.")] = None,
    as_json: Json = False,
) -> None:
    """Every learner of the database, or a new one."""
    desk = desk_of(context)
    found = learners_of(desk) if create is None else [create_learner(desk, create)]
    rows = [
        (one.name, one.phase, f"{one.runs:,}", f"{one.arms:,}", one.last_run or "none dated") for one in found
    ]
    heads = ("learner", "phase", "runs", "arms", "last run")
    answer(found, as_json=as_json, words=lambda: say_table(heads, rows, numbers=(2, 3)))


@app.command()
def posteriors(
    context: typer.Context,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", help="Only arms of this type; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What is believed of every arm."""
    types = types_of(arm_type or [])
    found = [one for one in look.posteriors(desk_of(context)) if not types or one.type in types]
    rows = [
        (
            one.arm,
            said_mean(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
        )
        for one in sorted(found, key=lambda one: (-one.mean, one.arm))
    ]
    heads = ("arm", "mean", "95% interval, exact", "pulls", "in runs", "confidence")
    answer(found, as_json=as_json, words=lambda: say_table(heads, rows, numbers=(1, 2, 3, 4)))


@app.command()
def arms(context: typer.Context, as_json: Json = False) -> None:
    """Every arm with its cost and prior."""
    columns = look.belief(desk_of(context)).columns
    found = [
        {
            "arm": key,
            "type": columns.types[place],
            "token_cost": None if columns.token_cost[place] < 0 else int(columns.token_cost[place]),
            "prior": {
                "alpha": int(columns.prior_alpha_micro[place]) / 1e6,
                "beta": int(columns.prior_beta_micro[place]) / 1e6,
            },
            "pulls": int(columns.pulls[place]),
            "inclusions": int(columns.inclusions[place]),
        }
        for place, key in enumerate(columns.keys)
    ]
    rows = [
        (
            str(one["arm"]),
            "unknown" if one["token_cost"] is None else f"{one['token_cost']:,}",
            f"{columns.prior_alpha_micro[place] / 1e6:g}, {columns.prior_beta_micro[place] / 1e6:g}",
            f"{one['pulls']:,}",
        )
        for place, one in enumerate(found)
    ]
    answer(
        found,
        as_json=as_json,
        words=lambda: say_table(("arm", "tokens", "prior", "pulls"), rows, numbers=(1, 3)),
    )


@app.command()
def runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many, newest first.")] = 50,
    as_json: Json = False,
) -> None:
    """The latest runs."""
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
        for one in look.runs(desk_of(context), limit)
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
    answer(found, as_json=as_json, words=lambda: say_table(heads, rows, numbers=(0, 4, 5, 6)))
