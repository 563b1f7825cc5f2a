"""Inventory: what the agents of this machine carry and used; prune: edits of their settings, and their undo."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from core.doors.cli.program.app import Fields, answer, command, context_of, global_options, has_terminal
from core.doors.terminal import say, say_table
from core.doors.verbs import Verbs
from core.errors import ArmscopeError, InvalidInput, UnknownAct
from core.explained import machine, trials
from core.explained.table import time_words
from core.records.arm import ESTIMATE_ERROR
from core.records.counts import number_of
from core.settings import edits_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.installed.prune import PruneAnswer, Way, Wish
    from core.installed.settings_file import Record
    from core.records.inventory import CarriedAnswer, MachineInventory
    from core.records.trial import TrialRow

_KIND: Final = "prune"


@command(
    takes="carried",
    words="Read what agents on this machine carry, and count what their sessions used.",
    examples=["inventory", "inventory --all", "inventory --stored", "--json inventory"],
)
def inventory(
    line: typer.Context,
    whole: Annotated[bool, typer.Option("--all", help="List used items, too.")] = False,
    home: Annotated[
        Path | None, typer.Option("--home", metavar="FOLDER", help="Another home folder than the user's.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Read what the latest imports stored, not this machine.")
    ] = False,
    *,
    values: Fields,
) -> None:
    """Nothing is started, fetched or written. A cost is about a quarter of the characters.

    An item that no session used may still be of use: the table has the number of sessions that had it on offer.
    """
    if stored:
        if home is not None:
            raise typer.BadParameter("--home names a folder of this machine, which --stored does not read")
        read: CarriedAnswer = Verbs.carried.call(context_of(line), **values)
        answer(line, read, lambda: _say_stored(read, whole=whole))
        return
    result = _own(line, home_folder(home), time.time_ns() // 1_000_000)
    answer(line, result, lambda: _say(result, whole=whole, prune=_again(line, "prune", home)))


def _own(line: typer.Context, home: Path, now_ms: int) -> MachineInventory:
    """Return what agents below a home folder carry, without a proposal for arms that a database knows as missed."""
    from core.flows.queues import missed_arms
    from core.installed.answer import machine_inventory, spared

    inventory = machine_inventory(home, now_ms)
    with suppress(ArmscopeError):  # there need be no database
        return spared(inventory, missed_arms(context_of(line)))
    return inventory


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


def _again(line: typer.Context, name: str, home: Path | None, wishes: Sequence[Wish] = ()) -> str:
    """Return a command with all that the user gave, to be copied."""
    named = [word for one in wishes for word in (f"--{one.state.replace(' ', '-')}", one.name)]
    words = [name, *named, *(() if home is None else ("--home", str(home)))]
    return f"{global_options(line).again()} {shlex.join(words)}"


def _say(result: MachineInventory, *, whole: bool, prune: str = "armscope prune") -> None:
    say(result.sentence)
    if result.oldest_ms is not None:
        say(f"The oldest session on record began {time_words(result.oldest_ms)} UTC.")
    rows = [one for one in result.items if whole or one.use is None or not one.use.uses]
    if rows:
        say_table(machine.CARRIED, rows)
    if any(one.proposal is not None for one in result.items):
        say(f"Take out what is proposed: {prune}", "Put it back: armscope prune --undo")
    say(*result.notes, *result.unread, f"Tokens are about a quarter of the characters. {ESTIMATE_ERROR}")


# Prune


class PruneUndo(msgspec.Struct, frozen=True, kw_only=True):
    """Edits that are taken back; ``left`` are keys that others changed since, ``others`` their further changes."""

    number: int
    files: tuple[tuple[str, tuple[str, ...]], ...]
    left: tuple[str, ...]
    others: tuple[str, ...]
    is_done: bool


@command(
    examples=[
        "prune",
        "prune --yes",
        "prune --user-only pdf --out old-notes --yes",
        "prune --undo --yes",
        "prune --ways",
    ]
)
def prune(
    line: typer.Context,
    by_name: Annotated[
        list[str] | None,
        typer.Option("--by-name", metavar="NAME", help="List this skill by its name alone; repeatable."),
    ] = None,
    user_only: Annotated[
        list[str] | None,
        typer.Option("--user-only", metavar="NAME", help="Let only the user call this skill; repeatable."),
    ] = None,
    out: Annotated[
        list[str] | None,
        typer.Option(
            "--out", metavar="NAME", help="Take out this skill, plugin, server or tool; repeatable."
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Put back what the last prune took out.")] = False,
    number: Annotated[
        int | None, typer.Option("--number", metavar="N", help="With --undo: that prune, not the last.")
    ] = None,
    ways: Annotated[bool, typer.Option("--ways", help="List what can be switched, by agent.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Make the edit; don't ask.")] = False,
    home: Annotated[
        Path | None, typer.Option("--home", metavar="FOLDER", help="Another home folder than the user's.")
    ] = None,
) -> None:
    """Show the edits of the agents' settings that `armscope inventory` proposes, and make them.

    With names, only these are edited. A file is edited only if it did not change since the preview. Comments and all
    other keys stay as they are. Files that an administrator manages, and those that Git tracks, are not edited.
    """
    from core.installed import prune as pruning

    wishes = [
        *(pruning.Wish(name, "by name") for name in by_name or ()),
        *(pruning.Wish(name, "user only") for name in user_only or ()),
        *(pruning.Wish(name, "out") for name in out or ()),
    ]
    if ways:
        rows = [one._asdict() for one in pruning.WAYS]
        answer(line, rows, lambda: _say_ways(pruning.WAYS))
    elif undo:
        if wishes:
            raise typer.BadParameter("--undo takes back whole edits; leave the names out")
        _undo(line, number, yes=yes)
    elif number is not None:
        raise typer.BadParameter("--number goes with --undo")
    else:
        again, see = _again(line, "prune", home, wishes), _again(line, "inventory", home)
        _prune(line, home_folder(home), wishes, yes=yes, again=again, see=see)


def _prune(
    line: typer.Context, home: Path, wishes: Sequence[Wish], *, yes: bool, again: str, see: str
) -> None:
    from core.installed.prune import pruned
    from core.installed.settings_file import make, records

    now_ms = time.time_ns() // 1_000_000
    inventory = _own(line, home, now_ms)
    result = pruned(home, inventory, wishes, now_ms, records(edits_folder()))
    verdicts = _verdicts(line, inventory, {one.name for one in result.answer.items})
    shown = msgspec.structs.replace(result.answer, verdicts=verdicts)
    if not yes and (not result.plans or not _has_person(line)):
        answer(line, shown, lambda: _say_edits(shown, again, see=see))
        return
    if not yes:
        _say_edits(shown, see=see)
        typer.confirm("Make these edits?", abort=True)
    if result.plans:
        record = make(result.plans, _KIND, edits_folder(), now_ms)
        shown = msgspec.structs.replace(shown, number=record.number)
    answer(line, shown, lambda: _say_edits(shown, see=see) if yes else _say_number(shown))


def _verdicts(line: typer.Context, inventory: MachineInventory, names: set[str]) -> tuple[str, ...]:
    """Return the verdicts in force of trials on the items of these names; none without a database."""
    from core.installed.answer import is_arm
    from core.installed.prune import names_of

    items = [one.item for one in inventory.items if names & names_of(one.item)]
    rows: Sequence[TrialRow] = ()
    with suppress(ArmscopeError):
        rows = Verbs.trials.call(context_of(line))
    keys = [arm for row in rows for arm in row.arms if any(is_arm(item, arm) for item in items)]
    return tuple(trials.verdict(one) for one in trials.in_force(rows) if one.arm in keys)


def _has_person(line: typer.Context) -> bool:
    return has_terminal() and not global_options(line).as_json


def _undo(line: typer.Context, number: int | None, *, yes: bool) -> None:
    from core.installed.settings_file import records, take_back, undone

    record = _record(records(edits_folder()), number)
    plans = [plan for change in record.changes if (plan := undone(change)) is not None]
    result = PruneUndo(
        number=record.number,
        files=tuple((str(plan.path), plan.shown) for plan in plans),
        left=tuple(f"{plan.path}: {one}" for plan in plans for one in plan.left),
        others=tuple(f"{plan.path}: {one}" for plan in plans for one in plan.others),
        is_done=yes,
    )
    if not yes and not _has_person(line):
        answer(line, result, lambda: _say_undo(result))
        return
    if not yes:
        _say_undo(result, closing="")
        typer.confirm("Take these edits back?", abort=True)
    take_back(record, plans, edits_folder(), time.time_ns() // 1_000_000)
    result = msgspec.structs.replace(result, is_done=True)
    answer(line, result, lambda: _say_undo(result) if yes else say(f"Prune {record.number} was taken back."))


def _record(records: Iterable[Record], number: int | None) -> Record:
    own = [one for one in records if one.kind == _KIND]
    if number is None:
        chosen = [one for one in own if one.undone_ms is None]
    else:
        chosen = [one for one in own if one.number == number]
    if chosen:
        return chosen[-1]
    problem = "There is no prune to undo." if number is None else f"There is no prune {number}."
    numbers = ", ".join(str(one.number) for one in own) or "none"
    raise UnknownAct(problem, next_step=f"Prunes on record: {numbers}.")


# Words


def _say_edits(shown: PruneAnswer, again: str = "", *, see: str) -> None:
    """Write the edits, and the commands that make them or explain why there are none."""
    if not shown.files:
        say("Nothing to edit." if shown.items else f"No edit is proposed. See why: {see}")
    for file in shown.files:
        say(f"{file.path}{' (new)' if file.is_new else ''}", *(f"  {text}" for text in file.lines))
    for one in shown.items:
        if one.sessions:
            last = "" if one.last_ms is None else f", last {time_words(one.last_ms)} UTC"
            say(f"{one.name} was used in {one.sessions:,} of {number_of(one.offered, 'session')}{last}.")
    if shown.items:
        _say_saving(shown)
    if shown.only_out:
        say("These were not used either. They go out with --out NAME:")
        say_table(machine.EDITS, shown.only_out)
    if shown.fixed:
        say("These can't be switched, and are not counted:")
        say_table(machine.FIXED, shown.fixed)
    say(*(f"By a trial, {one}" for one in shown.verdicts), *(f"Not edited: {one}" for one in shown.refused))
    if shown.number is not None:
        _say_number(shown)
    elif shown.files and again:
        say(f"Nothing was written. Make the edits: {again} --yes")


def _say_saving(shown: PruneAnswer) -> None:
    unknown = [one.saves is None for one in shown.items]
    head = f"Without {number_of(len(unknown), 'item')}, a session"
    if all(unknown):
        say(f"{head} carries less. By how much is unknown: no file gives the size.")
        return
    if shown.saves or not shown.saves_in:
        say(f"{head} carries about {number_of(shown.saves or 0, 'token')} less.")
    for folder, tokens in shown.saves_in.items():
        if tokens:
            say(f"{head} in {folder} carries about {number_of(tokens + (shown.saves or 0), 'token')} less.")
    if any(unknown):
        say(f"No file gives the size of {number_of(sum(unknown), 'item')}, so this saving is a lower bound.")


def _say_number(shown: PruneAnswer) -> None:
    say(f"Written as prune {shown.number}. Put back: armscope prune --undo --yes")


def _say_undo(
    result: PruneUndo, closing: str = "Nothing was written. Take the edits back: add --yes"
) -> None:
    for path, lines in result.files:
        say(path, *(f"  {text}" for text in lines))
    if not result.files:
        say("The files have none of its edits.")
    if result.left:
        say("Left as they are, because they changed since the edit:", *(f"  {one}" for one in result.left))
    if result.others:
        say("Kept, changed since the edit:", *(f"  {one}" for one in result.others))
    if result.is_done:
        say(f"Prune {result.number} was taken back.")
    elif closing:
        say(closing)


def _say_ways(ways: Sequence[Way]) -> None:
    for one in ways:
        states = ", ".join(one.states) or "not at all"
        say(f"{one.agent}, {one.what}: {states}")
        if one.setting:
            say(f"  {one.setting}, by {one.grain}", f'  "{one.sentence}"', f"  {one.address}")
