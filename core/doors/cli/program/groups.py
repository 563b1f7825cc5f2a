"""Groups: the sections of the program's help, and commands with sub-commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperGroup

from core.doors.terminal import say
from core.errors import NoDatabase

if TYPE_CHECKING:
    import typer

SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Start": ("demo", "import", "with", "hook", "serve", "help"),
    "See": (
        *(
            "status",
            "inventory",
            "savings",
            "posteriors",
            "arms",
            "versions",
            "runs",
            "run",
            "sessions",
            "session",
        ),
        *("ledger", "compare", "episodes", "search", "report"),
    ),
    "Correct": ("outcome", "reward", "note", "repair", "reset", "undo", "settings", "prune"),
    "Judge": ("evaluate", "evaluations", "agreement", "trial", "experiment", "queue", "rubric", "browser"),
    "Select and exchange": ("select", "export", "api", "mcp", "mcp-proxy", "chat", "rollouts", "traces"),
    "People and alerts": ("member", "token", "channel", "audit", "alert"),
    "Operate": (
        *("learners", "config", "verify", "doctor", "backup", "restore", "copy", "upgrade"),
        *("erase", "compact", "spool"),
    ),
}
"""Commands by section of the help. A command that is in none comes last, below `OTHER`."""
MEANT: Final[Mapping[str, str]] = {
    "acts": "audit",
    "act": "audit",
    "history": "audit",
    "log": "audit",
    "rewards": "ledger",
    "cost": "savings",
    "costs": "savings",
    "tokens": "savings",
    "beliefs": "posteriors",
    "tools": "arms",
    "skills": "inventory",
    "carried": "inventory",
    "check": "verify",
    "start": "demo",
    "sides": "compare",
    "delete": "erase",
    "retention": "compact",
}
"""Natural words, and the command that each of them means."""
OTHER: Final = "Other"
DEFAULT: Final = "list"
"""Sub-command that a group runs when the command line names none."""
_HELP: Final = frozenset({"-h", "--help"})
_ALONE: Final = "armscope alone"
"""Where a command line keeps whether it is a group's name and nothing more."""


class Program(TyperGroup):
    """The program, whose help lists commands by section."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer does not export its context
        return [name for _, names in sections(super().list_commands(ctx)) for name in names]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - not exported by Typer either
        """Return the command of a line. A natural word fails; its error names the command that it means."""
        meant = MEANT.get(args[0]) if args and args[0] not in self.commands else None
        if meant is not None and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - not exported by Typer either
        for title, rows in _rows(self, ctx, formatter.width):
            with formatter.section(title):
                formatter.write_dl(rows)


class CommandGroup(TyperGroup):
    """A command with sub-commands; without a name `DEFAULT` runs, or before there is a database its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - not exported by Typer
        """Parse the words behind the group's name, with the sub-command first."""
        if not ctx.resilient_parsing and not _HELP.intersection(args[:1]):
            ctx.meta[_ALONE] = not args
            args = self._ordered(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - not exported by Typer
        try:
            return super().invoke(ctx)
        except NoDatabase as problem:
            if not ctx.meta.get(_ALONE) or ctx.obj.as_json:
                raise
            say(*ctx.get_help().splitlines(), "", str(problem))

    def _ordered(self, args: list[str]) -> list[str]:
        """Return the words with the sub-command before the options; `DEFAULT` where none is named."""
        n_values = {
            option: 0 if getattr(one, "is_flag", False) else one.nargs
            for command in self.commands.values()
            for one in command.params
            for option in (*one.opts, *one.secondary_opts)
        }
        index = 0
        while index < len(args) and args[index].startswith("-"):
            index += 1 if "=" in args[index] else 1 + n_values.get(args[index], 0)
        if index < len(args) and args[index] in self.commands:
            return [args[index], *args[:index], *args[index + 1 :]]
        return args if args and index == 0 else [DEFAULT, *args]


def sections(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each section with those of the commands that belong to it."""
    for title, members in SECTIONS.items():
        if present := [name for name in members if name in names]:
            yield title, present
    known = {name for members in SECTIONS.values() for name in members}
    if others := [name for name in names if name not in known]:
        yield OTHER, others


def overview(line: typer.Context) -> Iterator[str]:
    """Yield the lines of the short help: each command with its first words, by section."""
    yield "armscope learns which prompt components earn their tokens. Try it: armscope demo"
    program: Any = line.command
    for title, rows in _rows(program, line, 100):
        yield ""
        yield f"{title}:"
        yield from (f"  {name:<12} {words}".rstrip() for name, words in rows)
    yield ""
    yield "Details: armscope COMMAND --help. Guide: armscope help TOPIC. All options: armscope --help"


def _rows(program: TyperGroup, ctx: Any, width: int) -> Iterator[tuple[str, list[tuple[str, str]]]]:  # noqa: ANN401
    commands = {name: program.get_command(ctx, name) for name in program.list_commands(ctx)}
    for title, names in sections(list(commands)):
        present = ((name, commands[name]) for name in names)
        yield title, [(name, one.get_short_help_str(width - 18)) for name, one in present if one is not None]
