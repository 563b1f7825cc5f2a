"""Line: the program itself: options before the command, exit codes, the one shape of answers and errors.

Exit codes: 0 done, 1 failed (also: verify found differences), 2 the command line was wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import msgspec
import typer

from core.doors.terminal import say_error, say_json
from core.errors import ArmscopeError
from core.flows.desk import Desk, open_desk
from core.records.arm import ARM_TYPES, ArmType
from core.settings import Settings

app = typer.Typer(
    name="armscope",
    help="The desk for Thompson-sampled prompt components: what the learner believes, why, and how to put it right.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What the options before the command said."""

    database: str | None
    learner: str | None

    def settings(self) -> Settings:
        return Settings.from_environment(database=self.database, learner=self.learner)


@app.callback()
def _before(
    context: typer.Context,
    database: Annotated[
        str | None,
        typer.Option(
            "--database", help="File or sqlite:/// URL [ARMSCOPE_DATABASE]; default: the user's data folder."
        ),
    ] = None,
    learner: Annotated[
        str | None, typer.Option("--learner", help="Whose data [ARMSCOPE_LEARNER]; default: default.")
    ] = None,
) -> None:
    context.obj = Where(database=database, learner=learner)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code; every error has the one shape."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        code = app(args=given, standalone_mode=False, prog_name="armscope")
    except ArmscopeError as problem:
        say_error(problem, as_json=as_json)
        sys.exit(1)
    except typer.Abort:
        say_error(_aborted(), as_json=as_json)
        sys.exit(1)
    except typer.TyperException as problem:
        _usage(problem, as_json=as_json)
    except BrokenPipeError:  # the reader of our output has gone; there is nobody to tell
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        say_error(_aborted(), as_json=as_json)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(problem: typer.TyperException, *, as_json: bool) -> NoReturn:
    message = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    if not message:  # the program alone: its help has been written
        sys.exit(getattr(problem, "exit_code", 2))
    answer = {
        "ok": False,
        "error": message,
        "code": "usage",
        "next": "Run the command with --help to see what it takes; nothing was changed.",
    }
    say_error(answer, as_json=as_json)
    sys.exit(getattr(problem, "exit_code", 2))


def _aborted() -> dict[str, object]:
    return {
        "ok": False,
        "error": "Stopped before anything was done.",
        "code": "aborted",
        "next": "Run it again when you are ready.",
    }


def desk_of(context: typer.Context) -> Desk:
    """The desk that the options before the command name."""
    where = context.obj
    if not isinstance(where, Where):
        raise TypeError("a command runs below the callback that says where the data are")
    desk = open_desk(where.settings())
    context.call_on_close(desk.store.close)  # under the lock; at the interpreter's end nobody would hold it
    return desk


def answer(value: object, *, as_json: bool, words: Callable[[], None]) -> None:
    """Give an answer in the form that was asked for."""
    if as_json:
        say_json(value)
    else:
        words()


def types_of(names: Sequence[str]) -> tuple[ArmType, ...]:
    """Types that repeated options name; an unknown one is a wrong command line."""
    found = tuple(known for known in ARM_TYPES if known in names)
    unknown = [name for name in names if name not in ARM_TYPES]
    if unknown:
        raise typer.BadParameter(f"--type must be one of {', '.join(ARM_TYPES)}, got {unknown[0]!a}")
    return found
