"""Wording of errors over HTTP: fields and paths instead of options and commands.

Flows state the next step as a command. This table translates it for programs that use HTTP. Steps that only the
operator of the server can take stay commands.
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
    # Options of the operator who runs the server.
    (r"(armscope upgrade) --database \S+?(?=[.,;)]|\s|$)", r"\1 at the server"),
    (r"--max(-rejected)?", r"armscope import --max\1 at the server"),
    (r"--database(?: \S+?)?(?=[.,;)]|\s|$)", "armscope api --database FILE at the server"),
)
_PATTERN: Final = re.compile(
    "|".join(f"(?P<way{number}>{pattern})" for number, (pattern, _) in enumerate(_TABLE))
)


def worded(text: str) -> str:
    """Return a sentence in the words of HTTP.

    >>> worded("Use an id that armscope arms lists, or --create to make one on purpose.")
    'Use an id that GET /api/v1/learners/NAME/arms lists, or "create": true to make one on purpose.'
    >>> worded("Name one, for example: --learner support")
    'Name one, for example: /api/v1/learners/support'
    >>> worded("Import it with --phase passive: usage and times are read.")
    'Import it with ?phase=passive: usage and times are read.'
    """
    return _PATTERN.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    pattern, replacement = _TABLE[int((match.lastgroup or "").removeprefix("way"))]
    return re.sub(pattern, replacement, match[0])


def http_error(problem: ArmscopeError) -> dict[str, Any]:
    """Return an error in the one shape of every door, in the words of HTTP."""
    return _reworded(problem.as_answer())


def _reworded(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Reword the next steps, also of the lines of a batch; the problem may quote the request, so it stays."""
    return {
        name: worded(value)
        if name == "next"
        else [_reworded(line) for line in value]
        if name == "lines"
        else value
        for name, value in answer.items()
    }
