"""What an error says to do next can be done by who asked: over HTTP there are no options and few commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from core.doors.http.refusals import worded
from core.doors.http.serving import ROUTES
from core.flows.context import Context
from tests.conftest import ROOT
from tests.doors.http.asking import Asking
from tests.language import nodes_of, sources

AT = "/api/v1/learners/default"
OURS = ("armscope api", "armscope import")
"""Commands whose options may be named: of whoever runs the server."""
OPTION = re.compile(r"(?<![\w-])--[a-z]")
OTHERS = ("doors/cli/", "doors/mcp/", "doors/http/address.py", "core/installed/")
"""What is stated at a terminal, in a protocol without addresses, and before there is a server."""
ROUTED = {
    "run",
    "arms",
    "runs",
    "posteriors",
    "select",
    "reward",
    "note",
    "reset",
    "undo",
    "export",
    "verify",
}


def next_steps() -> Iterator[tuple[str, str]]:
    """Every text that an error of the core says to do next; what is filled in as NAME."""
    for path in sources("core"):
        if any(door in path.as_posix() for door in OTHERS):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.keyword) and node.arg in {"next_step", "hint"}:
                yield f"{path.relative_to(ROOT)}:{node.value.lineno}", _text(node.value)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "NAME" for part in node.values)
    return ""


def test_no_next_step_over_http_is_an_option_or_a_command_that_is_a_route() -> None:
    told = [(place, worded(text)) for place, text in next_steps() if text]
    assert len(told) > 200
    wrong = []
    for place, text in told:
        rest = re.sub(rf"({'|'.join(OURS)}) --[a-z-]+", "", text)
        if OPTION.search(rest) or set(re.findall(r"armscope ([a-z]+)", rest)) & ROUTED:
            wrong.append((place, text))
    assert wrong == []


def test_paths_that_are_named_are_there() -> None:
    paths = {re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), route.path) for route in ROUTES}
    named = {
        path.partition("?")[0]
        for _, text in next_steps()
        for path in re.findall(r"(?:GET|POST|PUT) (/\S+?)(?=[.,;:)]?(?:\s|$))", worded(text))
    }
    assert {re.sub(r"/(settings|runs)/\w+$", r"/\1/SETTING", path) for path in named} <= paths | {
        "/api/v1/learners/NAME/runs/SETTING"
    }
    assert len(named) > 3


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("rewards", {"arm": "tool:x:none", "value": 1}, '"create": true'),
        ("rewards", {"arm": "tool:x:none", "value": 1}, "GET /api/v1/learners/NAME/arms"),
        ("undo", {"act_id": "reward-99"}, "/api/v1/learners/NAME"),
        ("evaluations", {"subject": "none", "outcome": "success"}, "GET /api/v1/learners/NAME/runs"),
    ],
)
def test_an_error_says_what_to_send(
    path: str, body: dict[str, object], says: str, context: Context, asking: Asking
) -> None:
    found = asking.post(f"{AT}/{path}", body)
    assert found.status in {400, 404}
    assert says in found.document["next"]
    (line,) = asking.send_lines(f"{AT}/rewards:batch", [{"arm": "tool:x:none", "value": 1}]).lines
    assert "--" not in line["next"]
