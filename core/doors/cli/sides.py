"""Sides: two models, channels, spans or runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import answer, command, context_of, say_compacted
from core.doors.cli.program.spelling import words as described
from core.doors.terminal import mean_words, say, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.arm import MICRO
from core.records.limits import shown
from core.records.model_kinds import price_words
from core.records.run_query import RunSide

if TYPE_CHECKING:
    from core.records.sides import ComparedSides, SideArm, SideRuns

_PICO = 10**12
FILTERS = tuple(one.encode_name for one in msgspec.structs.fields(RunSide))


@command(
    examples=["compare --a model=large --b model=small", "compare --a to=2026-01-30 --b from=2026-01-31"],
    takes="compare_sides",
)
def compare(
    line: typer.Context,
    a: Annotated[
        list[str] | None,
        typer.Option("--a", metavar="FILTER=VALUE", help=described("compare_sides", "a")),
    ] = None,
    b: Annotated[
        list[str] | None,
        typer.Option("--b", metavar="FILTER=VALUE", help=described("compare_sides", "b")),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=10_000, help=described("compare_sides", "limit")),
    ] = 50,
) -> None:
    operation = verb("compare_sides")
    request = operation.decode({"a": _side(a or ()), "b": _side(b or ()), "limit": limit})
    context = context_of(line)
    result: ComparedSides = operation.call(context, request)

    def show() -> None:
        _say(result)
        say_compacted(context)

    answer(line, result, show)


def _side(filters: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the filters of a side; a filter that comes again has several values."""
    side: dict[str, list[str]] = {}
    for one in filters:
        name, sign, value = one.partition("=")
        if not sign or name not in FILTERS:
            raise InvalidInput(
                f"A side must be FILTER=VALUE with one of {', '.join(FILTERS)}, got {shown(one)}.",
                next_step="For example: armscope compare --a model=large --b model=small",
            )
        side.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in side.items()}


def _say(result: ComparedSides) -> None:
    sides = (result.a, result.b)
    rows: list[tuple[str, ...]] = [
        ("runs", *(f"{one.n_runs:,}" for one in sides)),
        ("failed", *map(_failed, sides)),
        ("tokens a run", *(f"{one.tokens / one.n_tokens:,.0f}" if one.n_tokens else "-" for one in sides)),
        (
            "cost a run",
            *(f"${one.cost_pico / _PICO / one.n_costs:.4f}" if one.n_costs else "-" for one in sides),
        ),
    ]
    say_table(("", "a", "b"), rows, numbers=(1, 2))
    if missing := price_words(result.unpriced_models, result.price_offers):
        say(missing)
    one = result.failures
    if one.value is not None:
        limits = (
            "too few for an interval"
            if one.limits is None
            else f"95% interval {one.limits[0]:+.1f} to {one.limits[1]:+.1f}"
        )
        say(f"Failures of b less a: {one.value:+.1f} points, {limits}.")
    say("")
    heads = ("arm", "mean a", "mean b", "in a", "in b", "shift a: alpha, beta", "shift b: alpha, beta")
    arms = [
        (
            arm.arm,
            mean_words(arm.a.mean),
            mean_words(arm.b.mean),
            f"{arm.a.n_in:,}",
            f"{arm.b.n_in:,}",
            _shift(arm.a),
            _shift(arm.b),
        )
        for arm in result.arms
    ]
    say_table(heads, arms, numbers=(1, 2, 3, 4))
    if result.n_arms > len(arms):
        say(
            f"These are the {len(arms):,} largest differences of {result.n_arms:,} arms. Raise --limit for more."
        )


def _failed(one: SideRuns) -> str:
    return "-" if one.failed.value is None else f"{one.n_failed:,} ({100 * one.failed.value:.1f}%)"


def _shift(side: SideArm) -> str:
    parts = [f"{one.source} {_amount(one.alpha_micro)}, {_amount(one.beta_micro)}" for one in side.shifts]
    return "; ".join(parts) or "-"


def _amount(micro: int) -> str:
    """Return millionths as an exact decimal.

    >>> _amount(1_500_000), _amount(-1)
    ('+1.5', '-0.000001')
    """
    whole, rest = divmod(abs(micro), MICRO)
    return f"{'-' if micro < 0 else '+'}{whole}{f'.{rest:06}'.rstrip('0') if rest else ''}"
