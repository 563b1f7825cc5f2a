"""Asking: an ASGI application called in this process; each answer is checked against the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message

from tests.doors.http.conforming import check


@dataclass(frozen=True)
class Answered:
    """What came back; names of headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass(kw_only=True)
class Asking:
    """Whoever asks: always with these headers."""

    app: ASGIApp
    headers: Mapping[str, str] = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def close(self) -> None:
        self.loop.close()

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, headers=_named(headers))

    def items(self, path: str, limit: int, query: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
        """All items of a list, asked for page by page."""
        items: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.get(f"{path}?{urlencode({**query, 'limit': limit, **cursor}, doseq=True)}")
            assert page.status == 200, page.document
            items += page.document["items"]
            if page.document["next"] is None:
                return items
            assert len(page.document["items"]) == limit
            cursor = {"cursor": page.document["next"]}

    def post(self, path: str, document: object, **headers: str) -> Answered:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask("POST", path, [body], {"content-type": "application/json", **_named(headers)})

    def send_lines(self, path: str, lines: Iterable[object], **headers: str) -> Answered:
        body = b"".join(
            (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
        )
        return self.ask("POST", path, [body], {"content-type": "application/x-ndjson", **_named(headers)})

    def ask(
        self,
        method: str,
        path: str,
        pieces: Sequence[bytes | None] = (b"",),
        headers: Mapping[str, str] | None = None,
    ) -> Answered:
        """One request; None among the pieces: the connection ends there."""
        return self.loop.run_until_complete(self._ask(method, path, pieces, headers or {}))

    async def _ask(
        self, method: str, path: str, pieces: Sequence[bytes | None], headers: Mapping[str, str]
    ) -> Answered:
        place, _, query = path.partition("?")
        sent = {"host": "localhost", **self.headers, **headers}
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": method,
            "scheme": "http",
            "path": place,
            "raw_path": quote(place, safe="/%:{}@").encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        }
        waiting = iter(pieces)
        told: list[Message] = []
        at = 0

        async def receive() -> Message:
            nonlocal at
            assert at < len(pieces), "whoever asks for more than there is waits for nothing"
            piece = next(waiting)
            at += 1
            if piece is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": at < len(pieces)}

        async def send(message: Message) -> None:
            told.append(message)

        await self.app(scope, receive, send)
        if not told:
            return Answered(0, {}, b"")
        answered = Answered(
            told[0]["status"],
            {name.decode(): value.decode() for name, value in told[0]["headers"]},
            b"".join(message.get("body", b"") for message in told[1:]),
        )
        check(method, path, answered.status, answered.headers, answered.body)
        return answered


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
