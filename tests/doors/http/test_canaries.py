"""Planted words: a secret is in nothing that is kept or told, a text in nothing for whom may not read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
import urllib3

from core import open_learner
from core.doors.http.api import ROUTES
from core.flows.members import add_member
from core.flows.settings import change
from core.flows.tokens import create_token, revoke_token
from core.records.member import NewToken
from core.records.parameters import EXPORT_FORMATS
from core.records.run_query import View
from dashboard.report import gather, rendered, report
from tests.bench.servers import free_port
from tests.doors.http.slow import server
from tests.worlds import context_at

ARM: Final = "tool:web:canaryarm"
TEXTS: Final = (
    "canaryasked",
    "canaryanswered",
    "canaryfeedback",
    "canaryreason",
    "canarynote",
    "canarymatched",
)
PERSON: Final = ("canary@example.com", "canarysubject")
AT: Final = "/api/v1/learners/agents"

_ACTS: Final = (
    (
        "runs",
        {
            **{
                "kind": "run",
                "uid": "r1",
                "session": "s1",
                "arms": [ARM, "skill:canary:main"],
                "calls": ["canaryarm"],
            },
            **{"prompt": "canaryasked", "reply": "canaryanswered with the canary skill: canarymatched"},
        },
    ),
    ("rewards", {"arm": ARM, "value": 0.5, "reason": "canaryreason"}),
    ("notes", {"arm": ARM, "text": "canarynote"}),
    ("evaluations", {"subject": "r1", "outcome": "success", "feedback": "canaryfeedback"}),
)


class Asker:
    """Whoever asks a server, and all that was ever answered."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.heard: list[bytes] = []

    def ask(self, method: str, path: str, sent: object = None, token: str | None = None) -> bytes:
        body = sent if isinstance(sent, bytes) else None if sent is None else json.dumps(sent).encode()
        headers = {"Content-Type": "application/json"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        found = urllib3.request(
            method, self.place + path, body=body, headers=headers, retries=False, timeout=60
        )
        self.heard.append(found.data)
        return found.data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("canaries")


@pytest.fixture(scope="module")
def made(folder: Path) -> list[NewToken]:
    """Tokens of one who reads, one who ingests, and one who was let go; and a member."""
    context = context_at(folder / "a.db", learner="agents")
    change(context, "keep_texts", True)
    add_member(context, "https://id.example.com", PERSON[1], PERSON[0], role="viewer", learner="agents")
    tokens = [
        create_token(context, "board", ("read",)),
        create_token(context, "bot", ("ingest", "review")),
        create_token(context, "gone", ("operate",)),
    ]
    revoke_token(context, tokens[2].token.id)
    context.store.close()
    return tokens


@pytest.fixture(scope="module")
def asked(folder: Path, made: list[NewToken]) -> tuple[list[bytes], list[bytes]]:
    """What everybody was answered, and apart from that what a reader of figures was."""
    port = free_port()
    board, bot, _ = (one.secret for one in made)
    with server(folder, port):
        everybody, reader = (Asker(f"http://127.0.0.1:{port}") for _ in range(2))
        for path, sent in _ACTS:
            assert b'"error"' not in everybody.ask(
                "POST", f"{AT}/{path}", sent, bot if path == "runs" else None
            )
        for secret in (
            *(one.secret for one in made),
            f"{bot[:-1]}x",
        ):  # sent where it should be, and where not
            everybody.ask("GET", f"{AT}/status", token=secret)
            everybody.ask("POST", f"{AT}/resets", {}, secret)
            everybody.ask("POST", f"{AT}/runs", b'{"uid": ', secret)
            everybody.ask("GET", f"/api/v1/nothing/{secret}", token=secret)
            everybody.ask("POST", f"{AT}/notes?token={secret}", {"arm": ARM, "text": 1}, secret)
            everybody.ask("POST", f"{AT}/runs:batch", b"", secret)
        for path in _looked_at():
            reader.ask("GET", path, token=board)
    return everybody.heard, reader.heard


def _looked_at() -> list[str]:
    """Every address that only looks, and those of the other doors."""
    places = {
        "name": "agents",
        "uid": "r1",
        "arm": ARM,
        "environment": "sums",
        "episode": "sums%2F1",
        "session": "s1",
        "trial": "trial-1",
        "experiment": "experiment-1",
    }
    own = [route.path.format(**places) for route in ROUTES if route.methods == ("GET",)]
    exports = [f"{AT}/export?format={form}" for form in EXPORT_FORMATS]
    openclaw = [
        f"/__openclaw__/api/learning/{name}"
        for name in (
            "dashboard",
            "summary",
            "config",
            "posteriors",
            "traces",
            "timeseries?metric=tokens&window=1d",
        )
    ]
    own.append(f"{AT}/sessions/s1?texts=true")
    return [*own, *exports, *openclaw, "/v1/learning/agents/posteriors", "/v1/learning/agents/metrics"]


def test_a_reader_of_figures_meets_arms_and_no_text(asked: tuple[list[bytes], list[bytes]]) -> None:
    heard = b"\n".join(asked[1])
    assert ARM.encode() in heard, "what belongs there is there"
    assert [word for word in (*TEXTS, *PERSON) if word.encode() in heard] == []


def test_what_was_planted_is_there_for_whom_it_is_for(
    folder: Path, asked: tuple[list[bytes], list[bytes]]
) -> None:
    """Else the others of these tests would hold of anything."""
    with open_learner(folder / "a.db", "agents") as learner:
        learner.export(folder / "whole.jsonl")
    whole = (folder / "whole.jsonl").read_text(encoding="utf-8")
    assert [word for word in TEXTS if word not in whole] == []
    assert [word for word in PERSON if word in whole] == [], "members are in no export of a learner"


def test_a_secret_is_in_nothing_that_is_kept_or_told(
    folder: Path, made: list[NewToken], asked: tuple[list[bytes], list[bytes]]
) -> None:
    """Neither in the database, whose pages, exports, backups and reports can't show it then, nor in log or answer."""
    with open_learner(folder / "a.db", "agents") as learner:
        learner.backup(folder / "backup.db")
    context = context_at(folder / "a.db", learner="agents")
    document = rendered(report(gather(context, View())))
    context.store.close()
    kept = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert {"a.db", "backup.db", "api.log"} <= kept.keys()
    kept["report"] = document
    kept |= {f"answer {number}": answer for number, answer in enumerate(asked[0] + asked[1])}
    for one in made:
        for spelt in (one.secret, quote(one.secret), one.secret.removeprefix("arms_")[:20]):
            assert [name for name, held in kept.items() if spelt.encode() in held] == []
    log = kept["api.log"].decode()
    assert [word for word in (ARM, *TEXTS, *PERSON) if word in log] == []
    drawn = kept["report"].decode()
    assert "canaryarm" in drawn
    assert [word for word in (*TEXTS, *PERSON) if word in drawn] == []
