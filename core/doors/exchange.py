"""Exchange: what is asked and answered over HTTP, apart from any server.

A door for a client that exists is a function from a `Desk`, an actor and a `Call` to an `Answer`: it parses, calls
one flow, and formats. The server decides before who the actor is, and that the call may come in at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

JSON = "application/json"


class Call(NamedTuple):
    """A request: ``path`` as it was sent, without its query; names of ``headers`` in small letters.

    ``path_values`` is what stood where its route has ``{name}``; ``pieces`` a body that is too long to be held, as it
    arrives.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    path_values: Mapping[str, str] = {}
    pieces: Iterator[bytes] = iter(())


class Answer(NamedTuple):
    """What is sent back: the body, or ``pieces`` one after the other where it is too long to be held."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    pieces: Iterator[bytes] | None = None


def json_answer(status: int, document: Any, **headers: str) -> Answer:  # noqa: ANN401 - anything JSON knows
    """A document as an answer; underscores of the headers' names are hyphens.

    >>> json_answer(405, {"ok": False}, allow="GET").headers
    {'content-type': 'application/json', 'allow': 'GET'}
    """
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, orjson.dumps(document), {"content-type": JSON} | told)
