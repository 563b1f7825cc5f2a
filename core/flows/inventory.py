"""Inventories of machines: an import of a machine's own sessions stores one, and the pages show it anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from core.errors import ArmscopeError, UnreadableSource
from core.flows.context import Context
from core.flows.queues import missed_arms
from core.installed.answer import is_own, machine_inventory, spared
from core.records.arm import arm_type, skill_name
from core.records.inventory import CarriedAnswer, MachineInventory, SkillEdit, StoredInventory
from core.records.times import HOUR_MS
from core.store.imports import MachineRow, keep_machine, machine_rows, own_machine
from core.store.transaction import Snapshot, Transaction

_INVENTORY = msgspec.json.Decoder(MachineInventory)


class OwnInventory(NamedTuple):
    """Inventory of this machine; None where it could not be read. ``problem`` is why it is not stored."""

    inventory: MachineInventory | None
    problem: ArmscopeError | None = None


def keep_own_inventory(
    context: Context,
    home: Path,
    paths: Sequence[Path],
    *,
    machine: str,
    act: str | None = None,
    only_if_due: bool = False,
) -> OwnInventory | None:
    """Read what the agents below a home folder carry, and keep it; return None for sessions of another machine.

    The import is done by then, so a failure is returned and not raised. ``paths`` are the files of the import,
    ``act`` is its id, None where it had no news. With ``only_if_due`` also return None where the stored inventory is
    less than an hour old.
    """
    context.permit("ingest")
    if not any(is_own(path, home) for path in paths) or (
        only_if_due and not is_inventory_due(context, machine)
    ):
        return None
    try:
        inventory = machine_inventory(home, context.clock())
    except Exception as problem:  # files of other programs may have any fault
        return OwnInventory(
            None,
            UnreadableSource(
                f"The skills and tools on this machine could not be read: {type(problem).__name__}.",
                next_step="The import is complete. To see the cause, run armscope inventory.",
            ),
        )
    try:
        keep_inventory(context, inventory, machine=machine, act=act)
    except ArmscopeError as problem:
        return OwnInventory(inventory, problem)
    return OwnInventory(inventory)


def keep_inventory(
    context: Context, inventory: MachineInventory, *, machine: str, act: str | None = None
) -> None:
    """Keep a machine's inventory without paths in place of an earlier one; undoing ``act``, its import, hides it."""
    name = _stored_name(machine)
    number = 0 if act is None else int(act.removeprefix("import-"))

    def work(txn: Transaction) -> None:
        row = own_machine(txn, name)
        earlier = None if row is None else _read(row)
        whole = inventory.after(earlier, 0 if row is None else row.at_ms, txn.now_ms)
        keep_machine(txn, name, number, msgspec.json.encode(whole.without_paths).decode())

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


def skill_edits(snapshot: Snapshot, arm: str) -> tuple[SkillEdit, ...]:
    """Return the versions of a skill's text by time; none where machines or agents disagree about it."""
    if arm_type(arm) != "skill":
        return ()
    name, histories = skill_name(arm), set()
    for row in machine_rows(snapshot):
        by_agent: dict[str, list[SkillEdit]] = {}
        for edit in getattr(_read(row), "edits", ()):
            if edit.name == name:
                by_agent.setdefault(edit.agent, []).append(replace(edit, agent=""))
        histories |= {tuple(edits) for edits in by_agent.values()}
    return histories.pop() if len(histories) == 1 else ()


def _read(row: MachineRow) -> MachineInventory | None:
    """Return a stored inventory; None where another version stored it, until the next import replaces it."""
    try:
        return _INVENTORY.decode(row.content)
    except msgspec.ValidationError:
        return None


def _stored_name(machine: str) -> str:
    return blake2b(machine.encode(errors="replace"), digest_size=4).hexdigest()


def carried(
    context: Context,
    *,
    limit: Annotated[int, Meta(description="Number of machines, the latest first.", ge=1, le=100)] = 1,
) -> CarriedAnswer:
    """List what agents carry and what their sessions used, by machine, as its latest import read it.

    Nothing is proposed for arms that are missed often.
    """
    missed = missed_arms(context)
    with context.reading() as snapshot:
        rows = machine_rows(snapshot)
    stored = []
    for row in rows:
        read = _read(row)
        if read is None:
            continue
        act = f"import-{row.import_no}" if row.import_no else None
        stored.append(
            StoredInventory(
                machine=row.name, by=row.actor, at_ms=row.at_ms, act=act, inventory=spared(read, missed)
            )
        )
    return CarriedAnswer(machines=tuple(stored[:limit]))
