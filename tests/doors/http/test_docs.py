"""``/docs``: the OpenAPI document as a page of our own, for who may read the document."""

from __future__ import annotations

import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any, Final, cast

import pytest

from core.doors.http import api
from core.doors.http.app import Api, BelowPath
from core.doors.http.guard import Listener
from core.flows.context import Context
from core.records.actor import Actor, Grant
from core.settings import BASE_PATH
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import Asked
from tests.doors.http.test_served import served

BROWSER: Final = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HOSTILE: Final = "<img src=x onerror=alert(1)>\"'`&</style><script>{{ 7 * 7 }}{% raw %}"


class Parsed(HTMLParser):
    """A page: its tags, the names of its attributes, ids, links, style and text."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.style = self.text = ""
        self._in_style = False
        self.feed(body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        self.tags.add(tag)
        for name, value in attrs:
            self.names.add(name)
            (self.ids if name == "id" else self.links if name == "href" else []).append(value or "")

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.style, self._in_style = data, False
        else:
            self.text += data


def test_the_page_has_every_operation_and_schema_and_asks_for_nothing(asking: Asking) -> None:
    found = asking.get("/docs")
    page = Parsed(found.body)
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    for path, methods in api.openapi()["paths"].items():
        for operation in methods.values():
            assert operation["operationId"] in page.ids
            assert path in page.text
    assert {f"schema-{name}" for name in api.openapi()["components"]["schemas"]} <= {*page.ids}
    assert len({*page.ids}) == len(page.ids)
    inside = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert inside <= {*page.ids}
    assert {link for link in page.links if not link.startswith("#")} == {"/api/v1/openapi.json"}
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "object", "form", "input", "base"})
    assert page.names <= {
        *("aria-label", "charset", "class", "content", "href", "id", "lang", "name", "open", "scope")
    }
    digest = b64encode(sha256(page.style.encode()).digest()).decode()
    policy = dict(part.split(" ", 1) for part in found.headers["content-security-policy"].split("; "))
    assert policy.pop("style-src") == f"'sha256-{digest}'"
    assert {*policy.values()} == {"'none'"}
    assert asking.get("/api/v1").document == {"docs": "/docs", "openapi": "/api/v1/openapi.json"}
    assert asking.get("/api/v1/").status == 200


def hostile(value: Any, name: str = "") -> Any:  # noqa: ANN401 - any JSON
    """A document whose texts, names of fields, values and examples are hostile."""
    if isinstance(value, list):
        return [hostile(one, name) for one in value]
    if isinstance(value, dict) and name in {"properties", "example"}:
        return {
            f"{key}{HOSTILE}": hostile(one, "example" if name == "example" else "")
            for key, one in value.items()
        }
    if isinstance(value, dict):
        return {key: hostile(one, key) for key, one in value.items()}
    return (
        HOSTILE if isinstance(value, str) and name in {"description", "summary", "example", "enum"} else value
    )


def test_no_text_becomes_a_part_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Parsed(api._page(200, "").body)
    document = hostile(api.openapi())
    monkeypatch.setattr(api, "_document", lambda _server: document)
    page = Parsed(api._page.__wrapped__(200, "").body)
    assert (page.tags, page.names, page.ids, page.links) == (plain.tags, plain.names, plain.ids, plain.links)
    assert page.text.count(HOSTILE[:9]) > 500
    refused = Parsed(api._page.__wrapped__(401, "", (("error", HOSTILE), ("next", HOSTILE))).body)
    assert refused.tags <= plain.tags
    assert refused.text.count(HOSTILE) == 2


def test_who_may_not_read_the_document_gets_no_page(ask_as: Asked) -> None:
    reader = Actor(name="token:r", role=None, grants=(Grant(role="read"),), token=3)
    sender = Actor(name="token:s", role=None, grants=(Grant(role="ingest"),), token=4)
    asking = ask_as(Listener(), r=reader, s=sender)
    for path in ("/docs", "/api/v1", "/api/v1/openapi.json"):
        assert asking.get(path).status == 401, path
        assert asking.get(path, authorization="Bearer s").status == 403, path
        assert asking.get(path, authorization="Bearer r").status == 200, path
    assert asking.get("/docs").document["code"] == "unidentified"
    shown = asking.ask("GET", "/docs", headers={**BROWSER, "authorization": "Bearer s"})
    page = Parsed(shown.body)
    assert (shown.status, shown.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert "Ask an operator" in page.text
    assert "curl" in page.text
    assert page.ids == []
    unknown = asking.ask("GET", "/docs", headers=BROWSER)
    assert (unknown.status, unknown.headers["www-authenticate"]) == (401, "Bearer")
    assert "style-src 'sha256-" in unknown.headers["content-security-policy"]


def test_links_are_below_the_base_path(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE_PATH, "/tools/armscope")
    below = Asking(app=cast("Api", BelowPath(asking.app, "/tools/armscope")))
    page = Parsed(below.get("/tools/armscope/docs").body)
    assert "/tools/armscope/api/v1/openapi.json" in page.links
    assert "$SERVER/tools/armscope/api/v1/learners/default/select" in page.text
    assert below.get("/tools/armscope/api/v1").document["docs"] == "/tools/armscope/docs"
    below.close()


def commands() -> Iterator[str]:
    """The commands of the page that read, and some that write."""
    page = Parsed(api._page(200, "").body)
    for command in re.findall(r'curl [^$]*\$TOKEN" .*?"\$SERVER/[^"]*"', page.text, re.DOTALL):
        if "--data" not in command or re.search("/(select|runs|rewards|notes|settings/|runs:batch)", command):
            yield command


def test_commands_of_the_page_work(context: Context) -> None:
    lines = [re.sub("^curl", "curl -s -o /dev/null -w '%{http_code}\\n'", one) for one in commands()]
    with served(context) as url:
        done = subprocess.run(
            ["bash", "-c", "\n".join(one.replace('-H "Authorization: Bearer $TOKEN"', "") for one in lines)],
            env={"SERVER": url, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert len(lines) > 40
    assert {*done.stdout.split()} == {"200", "207"}
