"""Repairs: take back the automatic observations of some arms in a span, after asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import check_terminal, command, context_of, written
from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import words
from core.doors.terminal import say
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.records.answers import RepairAnswer


@command(
    examples=[
        'repair --arm tool:fs:Read --since 2026-01-31T08:00 --reason "detector repaired"',
        "repair --arm tool:fs:Read --since 2026-01-31 --until 2026-02-02 --yes",
    ]
)
def repair(
    line: typer.Context,
    arm: Annotated[
        list[str],
        typer.Option("--arm", metavar="ID", help="This arm; repeatable.", autocompletion=arm_ids),
    ],
    since: Annotated[str, typer.Option("--since", metavar="TIME", help=words("repair", "since"))],
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help=words("repair", "until"))
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help=words("repair", "reason"))
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help=words("repair", "key"))] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Observations by people and graders are kept, and undo reverts it."""
    context = context_of(line)
    if not yes:
        _confirm(context, arm, since, until)
    result: RepairAnswer = verb("repair").call(
        context, arms=arm, since=since, until=until, reason=reason, key=key
    )
    text = f"{result.observation_count:,} observations of {len(result.arm_ids):,} arms taken back."
    written(line, context, result, text, act=result.id)


def _confirm(context: Context, arms: Sequence[str], since: str, until: str | None) -> None:
    from core.flows import queries

    check_terminal("a repair", "taken back")
    preview = queries.preview_repair(context, arms, since, until)
    say(f"Take back {preview.n:,} automatic observations:")
    for one in preview.arms:
        say(
            f"  {one.arm}: {one.n:,}, mean {one.now.mean:.2f} to {one.after.mean:.2f}, "
            f"pulls {one.now.pulls:,} to {one.after.pulls:,}"
        )
    typer.confirm("Go on?", abort=True)
