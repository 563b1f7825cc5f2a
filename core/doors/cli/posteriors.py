"""Arms with their cost, prior and judgement, their versions, and the posterior of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or
from core.doors.terminal import mean_words, say, say_table, time_words
from core.doors.verbs import verb
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.records.arm_summary import ArmVersions
    from core.records.judgement import JudgedPosterior, Judgement


@command(examples=["arms --type tool", "arms --format tsv | cut -f 1", "arms --since 0 --format nl"])
def arms(line: typer.Context, filters: Fields, format_name: Format = None) -> None:
    from core import explained
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result: list[queries.JudgedArm] = verb("arms").call(context, judged=judged, **filters)
    rows = [
        (
            one.arm,
            "unknown" if one.token_cost is None else f"{one.token_cost:,}",
            f"{one.prior.alpha:g}, {one.prior.beta:g}",
            f"{one.pulls:,}",
            effective_cell(one.effective_pulls),
            explained.loads(one.loaded_sessions, one.typed_sessions),
            judgement_cell(judged.get(one.arm)),
        )
        for one in result
    ]
    heads = ("arm", "tokens", "prior", "pulls", "effective", "skill use", "judgement")
    rows_or(line, format_name, result, lambda: say_arms(heads, rows, judged, numbers=(1, 3, 4)))


@command(examples=["versions tool:web:search"])
def versions(line: typer.Context, values: Fields) -> None:
    from core import explained

    result: ArmVersions = verb("versions").call(context_of(line), **values)
    rows = [
        (
            one.version,
            time_words(one.first_ms),
            time_words(one.last_ms),
            f"{one.runs:,}",
            f"{one.referenced:,}",
            f"{one.named:,}",
            f"{one.pulls:,}",
            mean_words(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
        )
        for one in result.versions
    ]
    heads = (
        "version",
        "first run",
        "last run",
        "in full",
        "used",
        "by name",
        "pulls",
        "mean",
        "95% interval, exact",
    )

    def words() -> None:
        say(explained.versions(result))
        if rows:
            say_table(heads, rows, numbers=(3, 4, 5, 6, 7))

    answer(line, result, words)


def say_arms(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    judged: Mapping[str, Judgement],
    *,
    numbers: Collection[int],
) -> None:
    """Print a table of arms, with a warning below if some inventories were inferred from calls."""
    from core import explained

    say_table(heads, rows, numbers=numbers)
    n_called = sum(one.called_only for one in judged.values())
    if n_called:
        say(f"{number_of(n_called, 'arm')} with an inferred inventory. {explained.ONLY_CALLED}")


def effective_cell(pulls: float | None) -> str:
    """Return effective pulls as the text of a table's cell: a dash where they are unknown."""
    return "-" if pulls is None else f"{round(pulls):,}"


def judgement_cell(judged: Judgement | None) -> str:
    """Return the judgement of an arm as the text of a table's cell; None: it is no longer listed."""
    from core import explained

    if judged is None:
        return "no longer listed"
    return explained.judgement(judged, since=time_words(judged.since_ms))


@command(
    examples=[
        "posteriors",
        "posteriors --type skill --type file",
        "posteriors --format csv > beliefs.csv",
        "posteriors --since 0 --format nl",
    ],
    words=verb("posteriors").words,
    takes="arms",
)
def posteriors(line: typer.Context, filters: Fields, format_name: Format = None) -> None:
    from core import explained
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result: list[JudgedPosterior] = verb("posteriors").call(context, judged=judged, **filters)
    rows = [
        (
            one.arm,
            mean_words(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            effective_cell(one.effective_pulls),
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
            explained.chance_of(one),
            judgement_cell(judged.get(one.arm)),
        )
        for one in sorted(result, key=lambda one: (-one.mean, one.arm))
    ]
    heads = (
        "arm",
        "mean",
        "95% interval, exact",
        "pulls",
        "effective",
        "in runs",
        "confidence",
        "chance",
        "judgement",
    )
    rows_or(line, format_name, result, lambda: say_arms(heads, rows, judged, numbers=(1, 2, 3, 4, 5, 7)))
