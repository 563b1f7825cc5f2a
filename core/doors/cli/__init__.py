"""The command line: parse, call one flow, format. ``serve`` and ``demo`` are added by the dashboard's launcher.

One file per group of commands; a command is known once its file is imported, in the order of ``--help``.
"""

from core.doors.cli import showing, explaining, bringing, taking, choosing, changing, keeping  # isort: skip - the order of --help
from core.doors.cli.line import Asked, answer, app, asked, command, context_of, done, following, main

__all__ = [
    "Asked",
    "answer",
    "app",
    "asked",
    "bringing",
    "changing",
    "choosing",
    "command",
    "context_of",
    "done",
    "explaining",
    "following",
    "keeping",
    "main",
    "showing",
    "taking",
]
