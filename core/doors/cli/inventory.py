"""Inventory: what the agents of this machine carry, and what their sessions used."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table, time_words
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.arm import ESTIMATE_ERROR

if TYPE_CHECKING:
    from core.records.inventory import CarriedAnswer, CarriedItem, MachineInventory


@command(examples=["inventory", "inventory --all", "inventory --stored", "--json inventory"])
def inventory(
    line: typer.Context,
    whole: Annotated[bool, typer.Option("--all", help="List used items, too.")] = False,
    home: Annotated[
        Path | None, typer.Option("--home", metavar="FOLDER", help="Another home folder than the user's.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Read what the latest imports stored, not this machine.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=100, help=words("carried", "limit"))
    ] = 1,
) -> None:
    """Read what agents on this machine carry, and count what their sessions used.

    Nothing is started, fetched or written. A cost is about a quarter of the characters. An item that no session used
    may still be of use: the table has the number of sessions that had it on offer.
    """
    if stored:
        if home is not None:
            raise typer.BadParameter("--home names a folder of this machine, which --stored does not read")
        read: CarriedAnswer = verb("carried").call(context_of(line), limit=limit)
        answer(line, read, lambda: _say_stored(read, whole=whole))
        return
    from core.installed.answer import machine_inventory

    result = machine_inventory(home_folder(home), time.time_ns() // 1_000_000)
    answer(line, result, lambda: _say(result, whole=whole))


def home_folder(named: Path | None) -> Path:
    """Return the home folder to read: the named one, else the user's."""
    home = (named or Path.home()).absolute()
    if not home.is_dir():
        raise InvalidInput(
            f"The home folder must be a folder, got {home}.", next_step="Correct the path behind --home."
        )
    return home


def _say_stored(read: CarriedAnswer, *, whole: bool) -> None:
    for one in read.machines:
        say(f"Read {time_words(one.at_ms)} UTC on a machine of {one.by}.")
        _say(one.inventory, whole=whole)
    if not read.machines:
        say(
            "No import of a machine's own sessions is stored.",
            "Import them with: armscope import ~/.claude/projects",
        )


def _say(result: MachineInventory, *, whole: bool) -> None:
    say(result.sentence)
    if result.oldest_ms is not None:
        say(f"The oldest session on record began {time_words(result.oldest_ms)} UTC.")
    rows = [_row(one) for one in result.items if whole or one.use is None or not one.use.uses]
    heads = ("agent", "kind", "name", "state", "tokens", "on offer", "used", "last use", "changed", "why")
    if rows:
        say_table(heads, rows, numbers=(4, 5, 6))
    if any(one.proposal is not None for one in result.items):
        say("Take out what is proposed: armscope prune. Put it back: armscope prune --undo")
    say(*result.notes, *result.unread, f"Tokens are about a quarter of the characters. {ESTIMATE_ERROR}")


def _row(one: CarriedItem) -> tuple[str, ...]:
    item, use = one.item, one.use
    return (
        item.agent,
        item.kind,
        item.name,
        item.state,
        "unknown" if item.carried is None else f"{item.carried:,}",
        "unknown" if use is None else f"{use.offered:,}",
        "unknown" if use is None else f"{use.uses:,}",
        "unknown" if use is None else "never" if use.last_ms is None else time_words(use.last_ms),
        time_words(item.changed_ms or None),
        one.why if one.proposal is None else f"propose {one.proposal}: {one.why}",
    )
