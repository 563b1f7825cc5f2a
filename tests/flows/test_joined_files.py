"""A file of several sessions comes to what its parts come to: alone, after them, before them, and undone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from core.flows import queries
from core.flows.corrections import redo, undo
from core.flows.importing import import_files
from core.formats import sessions
from tests.flows.test_import_laws import Growing, Seen, check, known_to
from tests.formats.agents import AGENTS, NAMED, made_up
from tests.formats.builders import put
from tests.formats.test_pi_session import Session, call, report
from tests.formats.test_pi_session import Session as PiSession
from tests.worlds import context_at


def ended(part: bytes) -> bytes:
    return part if part.endswith(b"\n") else part + b"\n"


def interleaved(parts: Sequence[bytes], random: Random) -> bytes:
    """Sessions written into one another, each in its own order."""
    waiting = [ended(part).splitlines(keepends=True) for part in parts]
    whose = [place for place, one in enumerate(waiting) for _ in one]
    random.shuffle(whose)
    return b"".join(waiting[place].pop(0) for place in whose)


class Joined:
    """Sessions apart and together, and what a learner says of them."""

    def __init__(self, folder: Path, parts: Sequence[bytes]) -> None:
        self.folder = folder
        self.parts = [put(folder, part, f"part-{place}.jsonl") for place, part in enumerate(parts)]
        self._n_contexts = 0
        self.nothing = self.after()
        self.whole = self.after(*self.parts)

    def after(self, *files: Path) -> Seen:
        self._n_contexts += 1
        context = context_at(self.folder / f"{self._n_contexts}.db")
        for file in files:
            import_files(context, [file])
        found = known_to(context)
        context.store.close()
        return found

    def check(self, content: bytes) -> None:
        """The law, of one joined file."""
        joined = put(self.folder, content, "joined")
        assert self.after(joined) == self.whole, "alone"
        assert self.after(joined, *self.parts) == self.whole, "before its parts"
        half = len(self.parts) // 2
        self._n_contexts += 1
        context = context_at(self.folder / f"{self._n_contexts}.db")
        for part in self.parts[:half]:
            import_files(context, [part])
        before = known_to(context)
        answer = import_files(context, [joined])
        assert answer.updated == 0, "nothing grows by standing beside others"
        assert known_to(context) == self.whole, "after some of its parts"
        again = import_files(context, list(self.parts))
        assert (again.id, again.updated) == (None, 0)
        undo(context, answer.id)
        assert known_to(context) == before
        redo(context, answer.id)
        assert known_to(context) == self.whole
        context.store.close()


@pytest.mark.parametrize("agent", AGENTS)
def test_sessions_one_behind_the_other(tmp_path: Path, agent: str) -> None:
    parts = made_up(agent)
    joined = Joined(tmp_path, parts)
    for order in (parts, parts[::-1], [*parts, *parts]):
        joined.check(b"\n".join(order))


@pytest.mark.parametrize("agent", NAMED)
@pytest.mark.parametrize("seed", range(2))
def test_sessions_written_into_one_another(tmp_path: Path, agent: str, seed: int) -> None:
    parts = made_up(agent)
    Joined(tmp_path, parts).check(interleaved(parts, Random(seed)))


@pytest.mark.parametrize("indent", [None, 2])
def test_documents_one_behind_the_other(tmp_path: Path, indent: int | None) -> None:
    parts = []
    for part in made_up("gemini-cli"):
        head, *told = [json.loads(line) for line in part.splitlines()]
        document = {**head, "messages": [one for one in told if "type" in one]}
        parts.append(json.dumps(document, indent=indent).encode())
    joined = Joined(tmp_path, parts)
    joined.check(b"\n".join(parts))
    joined.check(b"[" + b", ".join(parts[::-1]) + b"]")


@pytest.mark.parametrize("agent", ["claude-code", "pi-session"])
def test_many_sessions_are_let_go_as_they_end(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_LINES_HELD", 5)
    parts = made_up(agent)
    joined = Joined(tmp_path, parts)
    joined.check(b"\n".join(parts))
    if agent in NAMED:
        joined.check(interleaved(parts, Random(3)))


@pytest.mark.parametrize("name", ["claude-code", "pi-session", "openclaw-session", "gemini-cli"])
def test_real_sessions(shared_data: Path, tmp_path: Path, name: str) -> None:
    files = sorted(path for path in (shared_data / name).glob("*.gz") if ".openclaw." not in path.name)
    parts = [gzip.decompress(path.read_bytes()) for path in files]
    joined = Joined(tmp_path, parts)
    joined.check(b"\n".join(parts))
    if name == "claude-code":
        joined.check(interleaved(parts, Random(1)))


def test_a_joined_file_takes_nothing_from_sessions_with_their_reports(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    parts = made_up("pi-session")
    for place, part in enumerate(parts):
        put(folder, part, f"{place}.jsonl")
        put(folder, report(durationMs=place), f"{place}.openclaw.txt")
    joined = put(tmp_path, b"".join(parts), "joined.jsonl")
    apart, before, after = (context_at(tmp_path / f"{name}.db") for name in ("apart", "before", "after"))
    import_files(apart, [folder])
    import_files(after, [folder])
    assert import_files(after, [joined]).id is None
    import_files(before, [joined])
    import_files(before, [folder])
    assert known_to(after) == known_to(before) == known_to(apart)


def test_a_report_beside_several_sessions_is_of_none_of_them(tmp_path: Path) -> None:
    parts = [PiSession().prompt().reply(call("read")).bytes(), *made_up("pi-session")[:1]]
    alone, with_report = tmp_path / "alone", tmp_path / "with"
    for folder in (alone, with_report):
        folder.mkdir()
        put(folder, b"".join(parts), "s.jsonl")
    put(with_report, report(), "s.openclaw.txt")
    contexts = [context_at(tmp_path / f"{place}.db") for place in range(2)]
    import_files(contexts[0], [alone])
    answer = import_files(contexts[1], [with_report])
    assert known_to(contexts[0]) == known_to(contexts[1])
    assert "several sessions" in answer.ignored[0].reason


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
def test_real_sessions_of_agents(shared_data: Path, name: str, tmp_path: Path) -> None:
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
