"""Selection: the arms of the next prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.files import read_file
from core.records.arm import Arm

if TYPE_CHECKING:
    from core.records.selection import Selection


@command(examples=["select --budget 8000", "select --arms arms.json --k 12 --json"])
def select(
    line: typer.Context,
    arms: Annotated[
        Path | None,
        typer.Option(
            "--arms", metavar="FILE", help="JSON list of ids or {key, token_cost}; default: all known arms."
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", min=0, help=words("select", "budget_tokens"))
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="NAME", help=words("select", "session"))
    ] = None,
    k: Annotated[int | None, typer.Option("--k", metavar="N", min=0, help=words("select", "k"))] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="To draw the same again.")
    ] = None,
) -> None:
    """Each arm has its draw, rank, reason and cost. Nothing is stored, unless a selection holds in its session."""
    context = context_of(line)
    if seed is not None:
        context = replace(context, entropy=lambda: seed)
    values = {
        "arms": None if arms is None else _read_arms(arms),
        "session": session,
        "budget_tokens": budget,
        "k": k,
    }
    result: Selection = verb("select").call(context, **values)
    rows = [
        (
            "in" if one.included else "out",
            one.arm,
            one.reason.replace("_", " "),
            f"{one.rank}",
            "" if one.draw is None else f"{one.draw:.3f}",
            f"{one.token_cost:,}",
        )
        for one in result.decisions
    ]

    def tell() -> None:
        say_table(("", "arm", "why", "rank", "draw", "tokens"), rows, numbers=(3, 4, 5))
        say("", f"A {result.run_class} run with {result.tokens:,} tokens of arms; seed {result.seed}.")
        if result.guidance:
            say(*result.guidance.splitlines())

    answer(line, result, tell)


def _read_arms(file: Path) -> list[Arm]:
    try:
        listed = msgspec.json.decode(read_file(file, "--arms"), type=list[str | Arm])
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise InvalidInput(
            f"--arms must name a JSON file with a list of ids or of objects with key and token_cost, "
            f"got {file}: {problem}.",
            next_step='Write it like ["tool:fs:Read", {"key": "tool:web:search", "token_cost": 120}].',
        ) from problem
    return [arm if isinstance(arm, Arm) else Arm(key=arm) for arm in listed]
