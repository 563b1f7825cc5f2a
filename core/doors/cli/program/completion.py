"""Completion: arms and learners of the database that a command line names, for a shell.

Only plain words are offered. An id may come from a stranger, and a shell would run special characters in it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stdout, suppress
from io import StringIO
from typing import TYPE_CHECKING, Final

import typer

from core.errors import ArmscopeError
from core.settings import Settings, set_variables, variable

if TYPE_CHECKING:
    from core.flows.context import Context

_VARIABLE: Final = "_ARMSCOPE_COMPLETE"
_PLAIN: Final = re.compile(r"[\w./:@%+,=-]+", re.ASCII)
_MOST: Final = 200


def arm_ids(line: typer.Context, incomplete: str) -> list[str]:
    """Return arm ids that begin with the incomplete word."""
    from core.flows.names import arm_ids as ids

    return _candidates(line, incomplete, ids)


def learner_names(line: typer.Context, incomplete: str) -> list[str]:
    """Return learner names that begin with the incomplete word."""
    from core.flows.names import learner_names as names

    return _candidates(line, incomplete, names)


def _candidates(line: typer.Context, incomplete: str, find: Callable[[Context], Sequence[str]]) -> list[str]:
    """Return completions; no database is created and errors give no completion."""
    from core.flows.context import open_context

    parameters = dict(line.find_root().params)
    parameters |= {name: value for name, value in line.params.items() if value is not None}
    try:
        settings = Settings.from_environment(
            database=parameters.get("database"), learner=parameters.get("learner")
        )
        context = open_context(settings, create=False, whole=True)
        with closing(context.store):
            names = find(context)
    except ArmscopeError:
        return []
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)][:_MOST]


def complete_bash(app: typer.Typer) -> None:
    """Answer bash, which cuts words at colons: an arm's id comes in pieces, and its last piece is what it puts in."""
    if variable(_VARIABLE) != "complete_bash":
        return
    pieces = (variable("COMP_WORDS") or "").split("\n")
    head = ""
    if len(pieces) > 1:
        words, head = joined(pieces, int(variable("COMP_CWORD") or 0))
        set_variables({"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)})
    with redirect_stdout(StringIO()) as output, suppress(SystemExit):
        app(args=[], prog_name="armscope")
    sys.stdout.write("".join(f"{line.removeprefix(head)}\n" for line in output.getvalue().splitlines()))
    sys.exit(0)


def joined(pieces: Sequence[str], index: int) -> tuple[list[str], str]:
    """Words up to the one under the cursor, as they were typed, and what of that one lies before what bash replaces.

    >>> joined(["armscope", "reward", "tool", ":", "fs", ":", "Re"], 6)
    (['armscope', 'reward', 'tool:fs:Re'], 'tool:fs:')
    >>> joined(["armscope", "reward", "tool", ":"], 3)
    (['armscope', 'reward', 'tool:'], 'tool:')
    """
    words, head = list[str](), ""
    for piece in pieces[: index + 1]:
        if len(words) > 1 and piece and (piece.startswith(":") or words[-1].endswith(":")):
            head = words[-1] + (piece if piece.startswith(":") else "")
            words[-1] += piece
        else:
            head = ""
            words.append(piece)
    return words, head
