"""The command line: parse, call one flow, format. ``serve`` and ``demo`` are added by the dashboard's launcher.

One file per group of commands; a command is known once its file is imported, in the order of ``--help``.
"""

from core.doors.cli import showing, explaining, bringing, taking, choosing, changing, keeping  # isort: skip - the order of --help
from core.doors.cli.line import Json, Where, answer, app, desk_of, main

__all__ = [
    "Json",
    "Where",
    "answer",
    "app",
    "bringing",
    "changing",
    "choosing",
    "desk_of",
    "explaining",
    "keeping",
    "main",
    "showing",
    "taking",
]
