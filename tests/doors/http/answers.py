"""Examples of the OpenAPI document, answered by a real world: ``python -m tests.doors.http.answers --write``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from core.doors.exchange import JSON
from core.doors.http.api import openapi
from core.doors.http.app import Api
from core.doors.http.routes import NDJSON
from core.doors.http.schemas import EXAMPLES
from core.doors.http.serving import ROUTES
from tests.doors.examples import example_world
from tests.doors.http.asking import Answered, Asking
from tests.doors.http.conforming import resolved
from tests.doors.http.conftest import LOCAL, at_desk
from tests.formats.test_otlp import as_json, span
from tests.worlds.events import PLAYED

_LINES: Final = 3
_FOLDER: Final = "/srv/armscope"


class Example(NamedTuple):
    """A request as the document shows it."""

    id: str
    method: str
    path: str
    body: bytes
    media: str
    answers: tuple[str, ...]
    """Media types of its answer."""


def examples() -> Iterator[Example]:
    """The example of each operation, those that read first."""
    every = [
        (method.upper(), path, found)
        for path, methods in openapi()["paths"].items()
        for method, found in methods.items()
    ]
    for method, path, found in sorted(every, key=lambda one: one[0]):
        filled = path
        for parameter in map(resolved, found["parameters"]):
            if parameter["in"] == "path":
                filled = filled.replace(f"{{{parameter['name']}}}", quote(parameter["example"], safe=""))
        media, content = next(iter(found.get("requestBody", {}).get("content", {"": {}}).items()))
        body = content.get("example", "")
        sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        answered = next(one for status, one in found["responses"].items() if status.startswith("2"))
        yield Example(found["operationId"], method, filled, sent, media, tuple(answered["content"]))


def asked(asking: Asking, one: Example) -> Answered:
    """The answer to an example."""
    return asking.ask(one.method, one.path, [one.body], {"content-type": one.media} if one.media else {})


@contextmanager
def small_world(folder: Path) -> Iterator[Asking]:
    """Who asks a world in which every list has something."""
    context = example_world(folder)
    asking = Asking(app=Api(at_desk(context), ROUTES, listener=LOCAL))
    asking.post("/v1/traces", as_json(span(2, parent=1)))
    asking.post("/v1/rollouts", {"events": PLAYED[:2]})
    yield asking
    asking.close()
    context.store.close()


def main() -> None:
    """Print the examples again, or write them."""
    found: dict[str, object] = {}
    for one in examples():
        with TemporaryDirectory() as name, small_world(Path(name)) as asking:
            answered = asked(asking, one)
            assert answered.status in {200, 207}, (one, answered)
            body = answered.body.replace(name.encode(), _FOLDER.encode())
        if one.answers[0] == JSON and one.id != "get_openapi":
            found[one.id] = _short(json.loads(body))
        elif one.answers[0] == NDJSON:
            found[one.id] = "\n".join(body.decode().splitlines()[:_LINES])
    text = json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False)
    if sys.argv[1:] == ["--write"]:
        EXAMPLES.write_text(f"{text}\n", encoding="utf-8")
    else:
        sys.stdout.write(f"{text}\n")


def _short(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """A value with one record of each list, and two rows of each table."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list):
        kind = type(value[0]) if value else None
        return [_short(one) for one in value[: 1 if kind is dict else 2 if kind is list else None]]
    return value


if __name__ == "__main__":
    main()
