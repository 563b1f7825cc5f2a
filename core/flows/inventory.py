"""Inventories of machines: stored with the import of a machine's own sessions, and read where the pages are."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from core.flows.context import Context
from core.records.inventory import CarriedAnswer, MachineInventory, StoredInventory
from core.records.times import HOUR_MS
from core.store.imports import keep_machine, machine_rows
from core.store.transaction import Transaction

_INVENTORY = msgspec.json.Decoder(MachineInventory)


def keep_inventory(
    context: Context, inventory: MachineInventory, *, machine: str, act: str | None = None
) -> None:
    """Keep what the agents of a machine carry, without its paths; a later one takes its place.

    Args:
        context: The learner of the import.
        inventory: What was read on the machine.
        machine: The machine's name, of which only a digest is stored.
        act: The import; None where it had no news. While it is undone, the inventory is not shown.
    """
    content = msgspec.json.encode(inventory.without_paths).decode()
    name = _stored_name(machine)
    number = 0 if act is None else int(act.removeprefix("import-"))

    def work(txn: Transaction) -> None:
        keep_machine(txn, name, number, content)

    context.write("ingest", work, create=True)


def is_inventory_due(context: Context, machine: str) -> bool:
    """Return whether the inventory of a machine is missing or older than an hour.

    To read an inventory takes seconds, and imports that run by themselves may follow each other within minutes.
    """
    context.permit("ingest")
    name = _stored_name(machine)
    with context.store.reading(context.learner) as snapshot:
        rows = machine_rows(snapshot)
    return all(row.name != name or context.clock() - row.at_ms >= HOUR_MS for row in rows)


def _stored_name(machine: str) -> str:
    return blake2b(machine.encode(errors="replace"), digest_size=4).hexdigest()


def carried(
    context: Context,
    *,
    limit: Annotated[int, Meta(description="Number of machines, the latest first.", ge=1, le=100)] = 1,
) -> CarriedAnswer:
    """List what agents carry and what their sessions used, by machine, as its latest import read it."""
    with context.reading() as snapshot:
        rows = machine_rows(snapshot)
    stored = []
    for row in rows:
        try:
            read = _INVENTORY.decode(row.content)
        except msgspec.ValidationError:  # another version stored it; the next import replaces it
            continue
        act = f"import-{row.import_no}" if row.import_no else None
        stored.append(
            StoredInventory(machine=row.name, by=row.actor, at_ms=row.at_ms, act=act, inventory=read)
        )
    return CarriedAnswer(machines=tuple(stored[:limit]))
