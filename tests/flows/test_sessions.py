"""Sessions of pi and OpenClaw keep the laws of importing, their reports included."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from core.flows import queries
from core.flows.corrections import undo
from core.flows.importing import import_files
from tests.flows.test_import_laws import Growing, check, known_to
from tests.formats.builders import put
from tests.formats.test_pi_session import Session, call, report
from tests.worlds import context_at


def stages(content: bytes) -> tuple[bytes, ...]:
    """A session at a quarter, a half, in the middle of its last line, and whole."""
    session = content.splitlines(keepends=True)
    cut = [b"".join(session[: len(session) * part // 4]) for part in (1, 2)]
    return (*cut, content[: -len(session[-1]) // 2], content)


def test_made_up_sessions(tmp_path: Path) -> None:
    session = Session().prompt().reply(call("read")).result().reply(call("bash"), stop="error")
    session.prompt().reply(stop="aborted").prompt().reply(call("edit"))
    check(Growing("pi", tuple(session.bytes(n) for n in range(1, len(session.made) + 1))), tmp_path)


@pytest.mark.parametrize("name", ["pi-session", "openclaw-session"])
def test_real_sessions(shared_data: Path, name: str, tmp_path: Path) -> None:
    for number, path in enumerate(sorted((shared_data / name).glob("*.jsonl.gz"))):
        check(Growing(f"{name}-{number}", stages(gzip.decompress(path.read_bytes()))), tmp_path)


def test_a_session_grows_with_its_report(tmp_path: Path) -> None:
    """import(A), import(A + report), import(A + B + report) = each of them alone; and undone in any order."""
    session = Session().prompt().reply(call("read")).prompt().reply(call("message"))
    made = [(session.bytes(3), None), (session.bytes(3), report()), (session.bytes(), report(durationMs=9))]
    steps = context_at(tmp_path / "steps.db")
    direct, acts = [], []
    for number, (content, told) in enumerate(made):
        folder = tmp_path / str(number)
        folder.mkdir()
        put(folder, content, "s.jsonl")
        if told is not None:
            put(folder, told, "s.openclaw.txt")
        alone = context_at(tmp_path / f"{number}.db")
        import_files(alone, [folder])
        direct.append(known_to(alone))
        acts.append(import_files(steps, [folder]).id)
        assert known_to(steps) == direct[-1]
    import_files(steps, [tmp_path / "0"])
    assert known_to(steps) == direct[2]
    undo(steps, acts[2])
    assert known_to(steps) == direct[1]


@pytest.mark.parametrize("name", ["pi-session", "openclaw-session"])
def test_posteriors_equal_what_was_computed(shared_data: Path, tmp_path: Path, name: str) -> None:
    wanted = json.loads((shared_data / "EXPECTED" / f"{name}.prompt.json").read_bytes())
    context = context_at(tmp_path / "a.db")
    answer = import_files(context, [shared_data / name])
    assert (answer.runs, answer.observed, answer.skipped, answer.empty, answer.not_offered) == (
        wanted["runs"],
        wanted["observed"],
        wanted["skipped_conversational"],
        wanted["empty_dropped"],
        0,
    )
    assert (answer.format, answer.unit, answer.rejected_count, answer.ignored) == (
        "pi-session",
        "prompt",
        0,
        (),
    )
    stored = {
        one.arm: [one.alpha, one.beta, one.pulls, one.inclusions]
        for one in queries.posteriors(context)
        if one.type == "tool"
    }
    assert stored == {
        arm["arm"]: [arm["alpha"], arm["beta"], arm["included"], arm["offered_runs"]]
        for arm in wanted["arms"].values()
    }
    assert queries.verify(context).clean
