"""Damage to sessions with reports, to exports and to databases: read in part or refused, never a crash."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UnreadableSource
from core.formats import Entry
from core.records.run import Run
from tests.formats.builders import put, read
from tests.formats.test_openclaw_export import arm, posterior, trace
from tests.formats.test_pi_session import USAGE, Session, call, report

SESSION = (
    Session().prompt("look").reply(call("read", path="é"), usage=USAGE).result().prompt("go").reply(call("x"))
)
TRACES = [trace(arm("tool:fs:read", referenced=True), arm("skill:a:main"), id=f"t{n}") for n in range(3)]
EXPORT = json.dumps({"metrics": {}, "traces": TRACES, "posteriors": [posterior()]}, indent=1).encode()
N_DAMAGED = 150


def damaged(content: bytes, dice: Random) -> bytes:
    """Cut off, with bits flipped, or with a piece left out or doubled."""
    made = bytearray(content)
    start = dice.randrange(len(made))
    kind = dice.randrange(4)
    if kind == 0:
        return bytes(made[:start])
    if kind == 1:
        return bytes(made[:start] + made[start + dice.randrange(1, 300) :])
    if kind == 2:
        return bytes(made[:start] + made[max(start - 200, 0) :])
    for _ in range(dice.choice((1, 3, 30))):
        made[dice.randrange(len(made))] ^= 1 << dice.randrange(8)
    return bytes(made)


def tried(path: Path, format_name: str) -> list[Entry]:
    with contextlib.suppress(UnreadableSource):
        return read(path, format=format_name)
    return []


def test_damaged_sessions_and_reports(tmp_path: Path) -> None:
    dice = Random(1)
    found = 0
    for _ in range(N_DAMAGED):
        put(tmp_path, damaged(report(aborted=True), dice), "s.openclaw.txt")
        entries = tried(put(tmp_path, damaged(SESSION.bytes(), dice), "s.jsonl"), "pi-session")
        uids = [entry.uid for entry in entries if isinstance(entry, Run)]
        assert len(uids) == len(set(uids))
        found += len(uids)
    assert found > N_DAMAGED


def test_damaged_exports(tmp_path: Path) -> None:
    dice = Random(2)
    found = sum(
        bool(tried(put(tmp_path, damaged(EXPORT, dice)), "openclaw-export")) for _ in range(N_DAMAGED)
    )
    assert found > N_DAMAGED // 4


@pytest.mark.parametrize("format_name", ["pi-session", "openclaw-export", "qortex-db"])
@given(content=st.binary(max_size=200) | st.binary(max_size=80).map(lambda rest: b"SQLite format 3\0" + rest))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, format_name: str, content: bytes
) -> None:
    path = put(tmp_path_factory.getbasetemp(), content, f"any-{format_name}")
    assert not [entry for entry in tried(path, format_name) if isinstance(entry, Run)]
