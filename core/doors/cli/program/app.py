"""App: the program itself: the options every command takes, exit codes, the one shape of answers and errors.

Exit codes: 0 done, 1 failed (also: verify found differences), 2 the command line was wrong, 3 a trial has a verdict
that its command was to fail on.
"""

from __future__ import annotations

import inspect
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, wraps
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    Required,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

import msgspec
import typer
from typer.main import get_command

from core.doors.cli.program.groups import CommandGroup, Program, overview
from core.doors.cli.program.spelling import (
    ParameterInfo,
    complete_bash,
    learner_names,
    request_of,
    spelled,
)
from core.doors.documents import act as act_document
from core.doors.terminal import (
    Bar,
    progress_bar,
    say,
    say_error,
    say_json,
    say_rows,
    say_table,
    take_any_encoding,
)
from core.doors.verbs import find_verb, verb
from core.errors import ArmscopeError
from core.explained.table import Table
from core.settings import LogFormat, LogLevel, Settings, database_at
from core.version import __version__

if TYPE_CHECKING:
    from core.flows.context import Context

app = typer.Typer(
    name="armscope",
    help="Learn which prompt components earn their tokens: see what the learner believes, why, and correct it.",
    epilog="Examples of a command: armscope COMMAND --help. Topics of the guide: armscope help.",
    cls=Program,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="FILE",
        help="File, sqlite:/// or postgresql:// URL [ARMSCOPE_DATABASE]; default: the user's data folder.",
    ),
]
ReadDatabase = Annotated[
    str | None,
    typer.Option(
        "--read-database",
        metavar="URL",
        help="A standby of the server, which pages are read from [ARMSCOPE_READ_DATABASE].",
    ),
]

BasePath = Annotated[
    str | None,
    typer.Option(
        "--base-path",
        metavar="PATH",
        help="The path below which a proxy serves it [ARMSCOPE_BASE_PATH].",
    ),
]

Learner = Annotated[
    str | None,
    typer.Option(
        "--learner",
        metavar="NAME",
        help="Whose data [ARMSCOPE_LEARNER]; default: default, or the only one there is.",
        autocompletion=learner_names,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress and no summary; errors are still printed."),
]

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
RowFormat = Literal["csv", "tsv", "nl"]
Format = Annotated[
    RowFormat | None, typer.Option("--format", help="A row a line, for programs; nl: one JSON object a line.")
]

_NEGATIVE: Final = re.compile(r"-[\d.]+")
"""Argument that is read as an option although it is a number."""
_CONTEXT: Final = "armscope context"
"""Where a command line keeps the context that was opened for it."""
_ABORTED: Final = {
    "ok": False,
    "error": "Stopped before anything was done.",
    "code": "aborted",
    "next": "Run it again when you are ready.",
}
_STOPPED: Final = {
    **_ABORTED,
    "error": "Stopped; something was stored before.",
    "next": "What changed, and the way back: armscope status, armscope undo.",
}

Fields: TypeAlias = dict[str, Any]
"""Fields of a verb's input, by name. `command` makes an option of each."""
Function = TypeVar("Function", bound=Callable[..., None])
Answer = TypeVar("Answer")
Show = TypeVar("Show", bound=Callable[..., None] | Table[Any])
Words = TypeVar("Words", bound=Callable[..., str | Sequence[str]])


def by_variable(
    option: str,
    words: str,
    *,
    metavar: str | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
) -> ParameterInfo:
    """Return an option whose value may come from the variable of its name, such as ARMSCOPE_PORT."""
    variable = f"ARMSCOPE_{option.removeprefix('--').replace('-', '_').upper()}"
    info: ParameterInfo = typer.Option(
        option, metavar=metavar, envvar=variable, help=words, min=at_least, max=at_most
    )
    return info


Port = Annotated[int, by_variable("--port", "0 = any free one.", metavar="N", at_least=0, at_most=65_535)]
LogForm = Annotated[LogFormat, by_variable("--log-format", "Form of the log's lines.")]
LogFrom = Annotated[LogLevel, by_variable("--log-level", "Least level of the log's lines.")]


class GlobalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Values of the common options, which may come before the command or after it."""

    database: str | None = None
    learner: str | None = None
    as_json: bool = False
    quiet: bool = False

    def and_then(self, later: GlobalOptions) -> GlobalOptions:
        """Return the options with those after the command in preference."""
        return GlobalOptions(
            database=self.database if later.database is None else later.database,
            learner=self.learner if later.learner is None else later.learner,
            as_json=self.as_json or later.as_json,
            quiet=self.quiet or later.quiet,
        )

    def again(self) -> str:
        """The command with the same data named, to be copied."""
        database = None if self.database is None else str(database_at(self.database))
        named = (("--database", database), ("--learner", self.learner))
        return shlex.join(
            ["armscope", *[word for name, value in named if value is not None for word in (name, value)]]
        )

    def settings(self, *, read_database: str | None = "") -> Settings:
        return Settings.from_environment(
            database=self.database, read_database=read_database, learner=self.learner
        )


def _print_version(requested: bool) -> None:
    if requested:
        say(f"armscope {__version__}")
        raise typer.Exit


@app.callback()
def _before(
    line: typer.Context,
    database: Database = None,
    learner: Learner = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Say which version this is.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    line.obj = GlobalOptions(database=database, learner=learner, as_json=as_json, quiet=quiet)
    if line.invoked_subcommand is None:
        say(*overview(line))


def _everywhere(
    *, database: Database = None, learner: Learner = None, as_json: AsJson = False, quiet: Quiet = False
) -> GlobalOptions:
    """The options that every command takes, after its own."""
    return GlobalOptions(database=database, learner=learner, as_json=as_json, quiet=quiet)


_EVERYWHERE: Final = inspect.signature(_everywhere, eval_str=True).parameters


def command(
    name: str | None = None,
    *,
    examples: Sequence[str],
    words: str | None = None,
    takes: str | None = None,
    options: Mapping[str, ParameterInfo | str] | None = None,
    omit: Collection[str] = (),
    inside: typer.Typer = app,
) -> Callable[[Function], Function]:
    """Register a function as a command, with the common options and with examples in its help.

    The help begins with ``words`` or the words of the verb ``takes`` (default: the verb of the command's name). The
    docstring follows. A parameter of type `Fields` becomes one option per field of that verb that has no parameter
    of its own and is not in ``omit``. ``options``
    adds shell details: a parameter, or its metavar. `reads` and `writes` register a verb without a function.
    """

    def registered(function: Function) -> Function:
        named = name or function.__name__
        match = find_verb(takes or named)
        first, *every = inspect.signature(function, eval_str=True).parameters.values()
        own = [one for one in every if one.name not in omit]
        explicit = {one.name for one in own} | _EVERYWHERE.keys() | {*omit}
        parts = {
            one.name: list(spelled(verb(takes or named).input, options or {}, explicit))
            for one in own
            if one.annotation is Fields
        }

        @wraps(function)
        def run(line: typer.Context, **values: Any) -> None:  # noqa: ANN401 - each command's own options
            later = _everywhere(**{name: values.pop(name) for name in _EVERYWHERE})
            line.obj = global_options(line).and_then(later)
            for key, fields in parts.items():
                grouped = {one.name: values.pop(one.name) for one in fields}
                values[key] = request_of(verb(takes or named).input, grouped)
            with _to_its_end(line):
                function(line, **values)

        spread = [part for one in own for part in parts.get(one.name, [one])]
        # Keyword-only, so that only the help depends on the order.
        named_only = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in spread]
        whole = inspect.Signature([first, *named_only, *_EVERYWHERE.values()], return_annotation=None)
        run.__signature__ = whole  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in whole.parameters.values()}
        heads = [words or (None if match is None else match.words), inspect.getdoc(function)]
        run.__doc__ = "\n\n".join(head for head in heads if head)
        shown = "\n".join(f"  armscope {example}" for example in examples)
        return cast("Function", inside.command(named, epilog=f"\b\nExamples:\n{shown}")(run))

    return registered


class Spelling(TypedDict, total=False):
    """Further arguments of `command`."""

    examples: Required[Sequence[str]]
    words: str
    takes: str
    options: Mapping[str, ParameterInfo | str]
    omit: Collection[str]
    inside: typer.Typer


def reads(
    name: str,
    *,
    with_format: bool = False,
    with_left_out: bool = False,
    empty: str = "",
    **spelling: Unpack[Spelling],
) -> Callable[[Show], Show]:
    """Register a command that calls a verb. The decorated function or table shows its answer.

    ``with_format`` offers rows for programs. ``with_left_out`` ends with `say_left_out`. ``empty`` is for no rows.
    """
    one = verb(spelling.get("takes", name))
    if not with_format:
        spelling["omit"] = (*spelling.get("omit", ()), "format_name")

    def registered(show: Show) -> Show:
        def run(line: typer.Context, values: Fields, format_name: Format = None) -> None:
            context = context_of(line, whole=one.whole)
            result = one.call(context, **values)

            def words() -> None:
                if empty and not result:
                    say(empty)
                elif isinstance(show, Table):
                    say_table(show, result)
                else:
                    show(result)
                if with_left_out:
                    say_left_out(context)

            rows_or(line, format_name, cast("Sequence[object]", one.plain(context, result)), words)

        run.__doc__ = None if isinstance(show, Table) else show.__doc__
        command(name, **spelling)(run)
        return show

    return registered


class Asking(NamedTuple):
    """Question before an act: its name, the outcome that an error denies, and the function that shows its effect."""

    act: str
    outcome: str
    preview: Callable[[Context, Fields], None]


def writes(
    name: str,
    *,
    create: bool = False,
    way: str = "Take it back",
    asks: Asking | None = None,
    **spelling: Unpack[Spelling],
) -> Callable[[Words], Words]:
    """Register a command that calls a verb. The decorated function returns the words of its answer.

    ``create`` makes a missing database. A command that ``asks`` has the option ``--yes``.
    """
    one = verb(spelling.get("takes", name))
    if asks is None:
        spelling["omit"] = (*spelling.get("omit", ()), "yes")

    def registered(words: Words) -> Words:
        def run(line: typer.Context, values: Fields, yes: Yes = False) -> None:
            context = context_of(line, create=create, whole=one.whole)
            if asks is not None and not yes:
                confirm(asks, context, values)
            result = one.call(context, **values)
            text = words(result)
            lines = [text] if isinstance(text, str) else [*text]
            if getattr(result, "id", "") is None:  # nothing was recorded
                answer(line, one.plain(context, result), lambda: say(*lines))
                return
            if one.is_act:
                lines += written_words(line, context, getattr(result, "id", None), way)
            done(line, one.plain(context, result), lambda: say(*lines))

        run.__doc__ = words.__doc__
        command(name, **spelling)(run)
        return words

    return registered


def confirm(asks: Asking, context: Context, values: Fields) -> None:
    """Show the effect of an act, and ask for it."""
    check_terminal(asks.act, asks.outcome)
    asks.preview(context, values)
    typer.confirm("Go on?", abort=True)


def group(name: str, *, words: str) -> typer.Typer:
    """Add a command with sub-commands to the program; without one it runs its sub-command ``list``."""
    inner = typer.Typer(
        help=words,
        cls=CommandGroup,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_typer(inner, name=name)
    return inner


@contextmanager
def _to_its_end(line: typer.Context) -> Iterator[None]:
    """Run a command to its end: convert its failure, and let nothing interrupt the closing of the database."""
    try:
        yield
    except KeyboardInterrupt:
        _ignore_interrupts()
        context: Context | None = line.meta.get(_CONTEXT)
        has_written = context is not None and context.store.database.has_written
        raise _Stopped(has_written=has_written) from None
    except Exception as problem:
        context = line.meta.get(_CONTEXT)
        cause = None if context is None else context.store.damage_behind(problem, context.learner)
        if cause is None:
            raise
        raise cause from problem
    finally:
        _ignore_interrupts()


class _Stopped(Exception):
    """Ctrl+C."""

    def __init__(self, *, has_written: bool) -> None:
        self.has_written = has_written


def _ignore_interrupts() -> None:
    """Ignore Ctrl+C while the database closes; `main` restores the handler."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code; every error has the one shape."""
    heard = signal.getsignal(signal.SIGINT)
    take_any_encoding()
    complete_bash(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in words[: words.index("--")] if "--" in words else "--json" in words
    try:
        code = _program(len(app.registered_commands))(args=words, standalone_mode=False, prog_name="armscope")
    except ArmscopeError as problem:
        say_error(problem, as_json=as_json)
        sys.exit(1)
    except typer.Abort:
        say_error(_ABORTED, as_json=as_json)
        sys.exit(1)
    except typer.TyperException as problem:
        _usage(problem, words, as_json=as_json)
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        sys.exit(1)
    except (KeyboardInterrupt, _Stopped) as problem:
        _ignore_interrupts()
        say_error(_STOPPED if getattr(problem, "has_written", False) else _ABORTED, as_json=as_json)
        sys.exit(130)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, heard)
    sys.exit(code if isinstance(code, int) else 0)


@cache
def _program(_n_commands: int) -> Callable[..., object]:
    """Return the program that Typer builds. Building is slow, so it is cached by the number of commands."""
    return get_command(app)


def _usage(problem: typer.TyperException, words: Sequence[str], *, as_json: bool) -> NoReturn:
    message = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    message = " ".join(message.split())  # Typer writes choices on lines of their own
    if not message:  # the program alone: its help has been written
        sys.exit(getattr(problem, "exit_code", 2))
    where = getattr(getattr(problem, "ctx", None), "command_path", "armscope")
    negative = next(filter(_NEGATIVE.fullmatch, words), None)
    if negative is not None and message.startswith("No such option"):
        message = f"A value of {where} can't be negative, got {negative}."
    further = f"Run {where} --help to see what it takes; nothing was changed."
    if where.endswith(" with") and message.startswith("No such option"):
        further = f"Write options of the agent behind --, such as: {where} claude -- --model opus"
    say_error({"ok": False, "error": message, "code": "usage", "next": further}, as_json=as_json)
    sys.exit(getattr(problem, "exit_code", 2))


def global_options(line: typer.Context) -> GlobalOptions:
    """Return the values of the common options."""
    options = line.obj
    if not isinstance(options, GlobalOptions):
        raise TypeError("a command runs below the callback that says where the data are")
    return options


def context_of(
    line: typer.Context, *, create: bool = False, whole: bool = False, read_database: str | None = ""
) -> Context:
    """Open the context that the options name.

    ``create`` makes a missing database. ``whole``: the command needs no particular learner, or all.
    ``read_database`` None: the standby that the environment names.
    """
    from core.flows.context import open_context

    settings = global_options(line).settings(read_database=read_database)
    context = line.meta[_CONTEXT] = open_context(settings, create=create, whole=whole)
    line.call_on_close(context.store.close)  # at the interpreter's end it would lack the lock
    return context


def answer(line: typer.Context, value: object, words: Callable[[], None]) -> None:
    """Write an answer in the requested form."""
    if global_options(line).as_json:
        say_json(value)
    else:
        words()


def rows_or(
    line: typer.Context, form: RowFormat | None, rows: Sequence[object], words: Callable[[], None]
) -> None:
    """Write rows in the requested form for programs, or as any answer."""
    if form is None:
        answer(line, rows, words)
        return
    if global_options(line).as_json:
        raise typer.BadParameter("--format and --json are two forms of one answer; leave one of them out")
    say_rows(rows, form)


def say_left_out(context: Context) -> None:
    """Name the models without a price and the runs that `compact` deleted, below words about the others."""
    from core.flows.queries import frame

    here = frame(context)
    for words in (here.unpriced, None if here.compacted is None else here.compacted.words):
        if words:
            say("", words)


def has_terminal() -> bool:
    """Return whether there is a terminal to ask on."""
    return sys.stdin.isatty()


def check_terminal(act: str, outcome: str) -> None:
    """Refuse an act that asks first where there is no terminal to ask on, and say what was not done."""
    if not has_terminal():
        raise typer.BadParameter(f"{act} without a terminal to ask on needs --yes; nothing was {outcome}")


def done(line: typer.Context, value: object, words: Callable[[], None]) -> None:
    """Report a finished command, unless the caller asked for quiet."""
    if global_options(line).as_json or not global_options(line).quiet:
        answer(line, value, words)


def written(
    line: typer.Context,
    context: Context,
    value: object,
    words: str,
    *,
    act: str | None,
    way: str = "Take it back",
) -> None:
    """Report a stored act, its learner, and how to undo it."""
    done(line, act_document(context, value), lambda: say(words, *written_words(line, context, act, way)))


def written_words(
    line: typer.Context, context: Context, act: str | None, way: str = "Take it back"
) -> list[str]:
    """Return the last lines about an act: its learner and how to undo it."""
    whose = f"Written to learner {context.learner}."
    return [whose if act is None else f"{whose} {way} with: {global_options(line).again()} undo {act}"]


class _MaybeAct(Protocol):
    @property
    def id(self) -> str | None: ...


def recorded(line: typer.Context, context: Context, result: _MaybeAct, lines: Iterable[str]) -> None:
    """Report an act in some lines, with the way to undo it; one without an id is a preview."""
    is_preview = result.id is None
    ways = ["Nothing was recorded."] if is_preview else written_words(line, context, result.id)
    (answer if is_preview else done)(line, act_document(context, result), lambda: say(*lines, *ways))


def following(line: typer.Context) -> AbstractContextManager[Bar | None]:
    """Return a progress bar, unless the answer is JSON or quiet."""
    return progress_bar(enabled=not (global_options(line).as_json or global_options(line).quiet))
