"""Hooks: Claude Code starts with a selection, and its sessions are imported when they end.

`core.doors.launch.run_at_once` answers the usual forms of `with` and `hook run` before this module is loaded.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import typer

from core.doors.cli.program.app import answer, command, context_of, done, global_options, group
from core.doors.launch import AGENT, DataOptions, hook_command, run_hook, start
from core.doors.terminal import say, say_table
from core.errors import InvalidInput, NotApplicable
from core.explained.table import Table, minute, text
from core.settings import Server, claude_folder, database_at, hooks_folder

if TYPE_CHECKING:
    from core.installed.settings_file import Record

Agent = Annotated[str, typer.Argument(metavar="claude-code", help="The agent.")]

_KIND: Final = "hook"

HOOKS = group("hook", words="List the hooks in an agent's settings, install or remove them, or run one.")


class InstalledHook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook in the settings of an agent; ``kept`` are changes of others since it was installed, which stay."""

    file: str
    command: str | None
    at_ms: int
    shown: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


INSTALLED: Final[Table[InstalledHook]] = Table(
    file=text("file", lambda one: one.file),
    since=minute("since", lambda one: one.at_ms),
    command=text("command", lambda one: one.command),
)


@command(
    "with",
    words="Start Claude Code with the skills that the learner chose for this session.",
    examples=["with claude", "with claude -- --resume", "with claude -- -p 'Summarise the changes'"],
)
def with_(
    line: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="claude", help="The agent.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Its own arguments.")
    ] = None,
) -> None:
    """Arguments, streams, signals and the exit code are the agent's own; no file of the user changes.

    A selection is prepared after the session before, so a start reads no database. Where none is prepared, the agent
    starts as it is.
    """
    if agent != AGENT:
        raise InvalidInput(
            f"The agent must be {AGENT}, got {agent[:80]!r}.",
            next_step="Start other agents without armscope, and import their sessions.",
        )
    start(arguments or (), _options(line))


@command(
    "install",
    words="Install the hook that imports each session of Claude Code when it ends.",
    inside=HOOKS,
    examples=["hook install claude-code", "hook install claude-code --learner mara"],
)
def install(line: typer.Context, agent: Agent) -> None:
    """It is added to the user's settings; all else in them stays as it is.

    Sessions that change from now on are imported. Import earlier ones with armscope import.
    """
    from core.flows.launch import begin_imports, prepare
    from core.installed.json_text import Edit
    from core.installed.launch import hooks
    from core.installed.settings_file import make, planned

    _check_agent(agent)
    options = _options(line)
    _refuse_password(options)
    context, config = context_of(line, create=True), claude_folder()
    path, words = config / "settings.json", hook_command(options)
    known = next(_installed(str(path)), None)
    if known is not None and known.words != words:
        raise NotApplicable(
            f"The hook is installed already, as: {known.words}",
            next_step="Remove it first: armscope hook remove claude-code",
        )
    edits = [
        Edit(action="add", keys=("hooks", event), value=entry)
        for event, entries in hooks(words).items()
        for entry in entries
    ]
    plan = planned(path, edits)
    now_ms = time.time_ns() // 1_000_000
    if plan is not None:
        make([plan], f"{_KIND} {words}", hooks_folder(), now_ms)
    begin_imports(context)
    prepare(context, config, Path.cwd())
    shown = () if plan is None else plan.shown
    result = InstalledHook(file=str(path), command=words, at_ms=now_ms, shown=shown)
    head = f"The hook is in {path}." if plan is not None else f"The hook was in {path} already."
    done(line, result, lambda: say(head, *shown, "Take it out: armscope hook remove claude-code"))


@command(
    "remove",
    words="Remove the hook from the settings of Claude Code.",
    inside=HOOKS,
    examples=["hook remove claude-code"],
)
def remove(line: typer.Context, agent: Agent) -> None:
    """What armscope added goes, byte by byte. Changes that others made since stay and are listed."""
    from core.installed.settings_file import take_back, undone

    _check_agent(agent)
    path, now_ms = claude_folder() / "settings.json", time.time_ns() // 1_000_000
    known = next(_installed(str(path)), None)
    if known is None:
        raise NotApplicable(f"No hook of armscope is in {path}.", next_step="See: armscope hook list")
    plans = [plan for change in known.record.changes if (plan := undone(change)) is not None]
    take_back(known.record, plans, hooks_folder(), now_ms)
    kept = tuple(one for plan in plans for one in (*plan.left, *plan.others))
    shown = tuple(one for plan in plans for one in plan.shown)
    result = InstalledHook(file=str(path), command=None, at_ms=now_ms, shown=shown, kept=kept)
    done(line, result, lambda: say(f"The hook is out of {path}.", *shown, *(f"Kept: {one}" for one in kept)))


@command("list", words="List the hooks in the settings of agents.", inside=HOOKS, examples=["hook list"])
def list_hooks(line: typer.Context) -> None:
    """A hook imports the sessions of its agent when they end."""
    rows = [
        InstalledHook(file=path, command=one.words, at_ms=one.record.at_ms)
        for one in _installed()
        for path in [one.record.changes[0].path]
    ]
    empty = "No hook is installed. Install one: armscope hook install claude-code"
    answer(line, rows, lambda: say_table(INSTALLED, rows) if rows else say(empty))


@command(
    "run",
    words="Answer a hook of Claude Code, whose JSON is on standard input.",
    inside=HOOKS,
    examples=["hook run < event.json"],
)
def run(
    line: typer.Context,
    launch: Annotated[
        Path | None, typer.Option("--launch", metavar="FILE", help="The session that armscope started.")
    ] = None,
) -> None:
    """It ends at once, with 0. The import goes on in a process of its own."""
    run_hook(sys.stdin.buffer.read(), _options(line), launch)


@command(
    "import",
    words="Import the sessions of Claude Code that changed since the last time.",
    inside=HOOKS,
    examples=["hook import", "hook import --transcript session.jsonl"],
)
def import_changed(
    line: typer.Context,
    transcript: Annotated[
        list[Path] | None,
        typer.Option("--transcript", metavar="FILE", help="A session that ended; may be repeated."),
    ] = None,
    prepare_in: Annotated[
        Path | None,
        typer.Option("--prepare", metavar="FOLDER", help="Then prepare the next sessions of this folder."),
    ] = None,
) -> None:
    """Hooks start it. Each session is an act of its own; a session that is known changes nothing."""
    from core.flows.inventory import keep_own_inventory
    from core.flows.launch import import_ended, prepare

    context, config = context_of(line), claude_folder()
    answers = import_ended(context, config, transcript or ())
    if prepare_in is not None:
        prepare(context, config, prepare_in)
    acts = [one for one in answers if one.id is not None]
    if acts:
        keep_own_inventory(
            context, Path.home(), [config], machine=platform.node(), act=acts[-1].id, only_if_due=True
        )
    done(line, answers, lambda: say(f"{len(answers):,} sessions read, {len(acts):,} with new runs."))


class _Known(NamedTuple):
    """A record of a hook that was not removed, and the command in it."""

    record: Record
    words: str


def _installed(path: str | None = None) -> Iterator[_Known]:
    """Yield the hooks that are installed, the newest first; ``path`` filters by the settings file."""
    from core.installed.settings_file import records

    for one in reversed(records(hooks_folder())):
        kind, _, words = one.kind.partition(" ")
        if kind == _KIND and one.undone_ms is None and path in {None, one.changes[0].path}:
            yield _Known(one, words)


def _check_agent(agent: str) -> None:
    if agent != "claude-code":
        raise InvalidInput(
            f"The agent must be claude-code, got {agent[:80]!r}.",
            next_step="Import sessions of other agents with armscope import --watch.",
        )


def _refuse_password(options: DataOptions) -> None:
    """Refuse an address with a password, which would lie in the settings file."""
    place = None if options.database is None else database_at(options.database)
    if isinstance(place, Server) and place.url != str(place):
        raise InvalidInput(
            "A hook's database must be an address without password or options, because the settings file has it.",
            next_step="Set ARMSCOPE_DATABASE where Claude Code starts, or keep the password in ~/.pgpass.",
        )


def _options(line: typer.Context) -> DataOptions:
    named = global_options(line)
    return DataOptions(named.database, named.learner)
