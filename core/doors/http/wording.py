"""Wording: what errors say of the command line → the same over HTTP: fields and paths in the place of options and
commands.

Flows tell everybody the next step as people at a terminal take it. This one table says what that is for a program
that asks over HTTP. What only whoever runs the server can do stays theirs, as a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from core.errors import ArmscopeError

_AT: Final = "/api/v1/learners/NAME"
_LISTS: Final = "arms|runs|posteriors|evaluations|settings|status|traces|agreement"
_TABLE: Final[tuple[tuple[str, str], ...]] = (
    # Learners are named by paths.
    (r"start the server with --learner NAME", "start the server with armscope api --learner NAME"),
    (r"--learner (?!NAME\b)(\S+?)(?=[.,;)]?(?:\s|$))", r"/api/v1/learners/\1"),
    (r"--learner(?: NAME)?", "the path /api/v1/learners/NAME"),
    # Commands that are routes.
    (r"armscope settings set (\w+) '(.+?)'", rf'PUT {_AT}/settings/\1 {{"value": \2}}'),
    (r"armscope settings set", f"PUT {_AT}/settings/SETTING"),
    (
        r"armscope export (?:FILE )?--format (?:sft|preference|reward|trace)_(?:jsonl|csv)",
        f"POST {_AT}/training",
    ),
    (r"armscope export(?: FILE)?(?: --format (\w+))?", f"GET {_AT}/export"),
    (r"the command armscope import FILE", "the command armscope import FILE at the server"),
    (r"import it where it is: armscope import FILE", "import it at the server: armscope import FILE"),
    (r"armscope import(?: FILES?)?", f"POST {_AT}/imports"),
    (r"armscope run (\S+)", rf"GET {_AT}/runs/\1"),
    (r"armscope learners", "GET /api/v1/learners"),
    (r"armscope verify", "GET /api/v1/verify"),
    (r"armscope backup(?: FILE)?", "GET /api/v1/backup"),
    (r"armscope audit", f"GET {_AT}/audit"),
    (r"armscope episodes compare --unpaired", f"GET {_AT}/environments/ENVIRONMENT/models?paired=false"),
    (rf"armscope ({_LISTS})\b", rf"GET {_AT}/\1"),
    (r"armscope (select|undo)\b", rf"POST {_AT}/\1"),
    (r"armscope (reward|note|reset)\b", rf"POST {_AT}/\1s"),
    (r"armscope evaluate\b", f"POST {_AT}/evaluations"),
    (r"armscope erase\b", f"POST {_AT}/erasures"),
    # Options that are fields of a body, or of an import's address.
    (r"--create", '"create": true'),
    (r"--private", '"private": true'),
    (r"--(unit|phase|format) (\S+?)(?=[.,;:)]?(?:\s|$))", r"?\1=\2"),
    (r"--(unit|phase|format)", r"?\1="),
    (r"--tools", "?tools_bytes="),
    (r"--yes", "the request itself"),
    # Options of whoever runs the server.
    (r"(armscope upgrade) --database \S+?(?=[.,;)]|\s|$)", r"\1 at the server"),
    (r"--max(-rejected)?", r"armscope import --max\1 at the server"),
    (r"--database(?: \S+?)?(?=[.,;)]|\s|$)", "armscope api --database FILE at the server"),
)
_WAYS: Final = re.compile("|".join(f"(?P<way{number}>{said})" for number, (said, _) in enumerate(_TABLE)))


def worded(text: str) -> str:
    """What a sentence says to who asks over HTTP.

    >>> worded("Use an id that armscope arms lists, or --create to make one on purpose.")
    'Use an id that GET /api/v1/learners/NAME/arms lists, or "create": true to make one on purpose.'
    >>> worded("Name one, for example: --learner support")
    'Name one, for example: /api/v1/learners/support'
    >>> worded("Import it with --phase passive: usage and times are read.")
    'Import it with ?phase=passive: usage and times are read.'
    """
    return _WAYS.sub(_way, text)


def _way(found: re.Match[str]) -> str:
    said, way = _TABLE[int((found.lastgroup or "").removeprefix("way"))]
    return re.sub(said, way, found[0])


def http_error(problem: ArmscopeError) -> dict[str, Any]:
    """An error in the one shape of every door, and in the words of this one."""
    return _reworded(problem.as_answer())


def _reworded(told: Mapping[str, Any]) -> dict[str, Any]:
    """The same of each line of a batch. Only what comes next is ours; what is wrong may quote what was sent."""
    return {
        name: worded(value)
        if name == "next"
        else [_reworded(line) for line in value]
        if name == "lines"
        else value
        for name, value in told.items()
    }
