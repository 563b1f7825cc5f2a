"""Ledger: the latest rewards, with what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import Fields, Format, command, context_of, rows_or
from core.doors.cli.program.completion import arm_ids
from core.doors.terminal import say_table
from core.doors.verbs import verb
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.records.observation import Observation


@command(
    examples=["ledger --arm tool:web:search", "ledger --class selected --from 2026-01-26 --format csv"],
    options={
        "limit": typer.Option("--limit", metavar="N"),
        "arm": typer.Option("--arm", metavar="ARM", autocompletion=arm_ids),
        "run": typer.Option("--run", metavar="ID"),
        "since": typer.Option("--since", metavar="MARK"),
        "from_": typer.Option("--from", metavar="TIME"),
        "to": typer.Option("--to", metavar="TIME"),
    },
)
def ledger(line: typer.Context, given: Fields, format_name: Format = None) -> None:
    rows: Sequence[Observation] = verb("ledger").call(context_of(line), **given)
    heads = ("reward of", "arm", "kind", "value", "run", "by", "at", "state")
    cells = [
        (
            one.id,
            one.arm,
            one.kind,
            f"{one.reward:g}",
            one.run or "none",
            one.actor,
            iso(one.at_ms) or "unknown",
            "undone" if one.undone else "counts" if one.counts else "superseded or inactive",
        )
        for one in rows
    ]
    rows_or(line, format_name, rows, lambda: say_table(heads, cells, numbers=(3,)))
