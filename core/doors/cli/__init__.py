"""The command line: parse, call one flow, format. ``serve`` and ``demo`` are added by the dashboard's launcher.

One file per group of commands; a command is known once its file is imported, in the order of ``--help``.
"""

# The order of --help.
# isort: off
from core.doors.cli import (
    status,
    learners,
    posteriors,
    arms,
    runs,
    imports,
    exports,
    selection,
    settings,
    rewards,
    notes,
    resets,
    undo,
    maintenance,
)

# isort: on
from core.doors.cli.program import Asked, answer, app, asked, command, context_of, done, following, main

__all__ = [
    "Asked",
    "answer",
    "app",
    "arms",
    "asked",
    "command",
    "context_of",
    "done",
    "exports",
    "following",
    "imports",
    "learners",
    "main",
    "maintenance",
    "notes",
    "posteriors",
    "resets",
    "rewards",
    "runs",
    "selection",
    "settings",
    "status",
    "undo",
]
