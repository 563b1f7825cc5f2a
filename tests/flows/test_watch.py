"""Finding sessions where agents keep them, and importing what grows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.importing import ImportAnswer, import_files
from core.flows.watch import discover_sessions, has_news, watch
from tests.flows.test_import_laws import known_to
from tests.formats import builders
from tests.formats.builders import lines
from tests.formats.test_pi_session import Session, call, report
from tests.worlds import context_at

Step = Callable[[], object]
CLAUDE = builders.Session().prompt("go").reply(builders.use("Read", "t1"))
RUN = {"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"]}
NOTE = {"kind": "note", "id": "n1", "arm": "tool:other:a", "text": "slow"}
PI = Session().prompt().reply(call("read")).prompt().reply(call("bash"))


class Stopped(Exception):
    """The person has pressed Ctrl+C."""


def pausing(steps: Iterable[Step]) -> Callable[[], None]:
    """A pause in which the next thing happens; after the last one watching ends."""
    left = iter(steps)

    def pause() -> None:
        step = next(left, None)
        if step is None:
            raise Stopped
        step()

    return pause


def answers_of(found: Iterator[ImportAnswer | UnreadableSource]) -> list[ImportAnswer | UnreadableSource]:
    answers = []
    with contextlib.suppress(Stopped):
        for answer in found:
            answers.append(answer)
    return answers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder of sessions."""
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


def nothing() -> None:
    """A pause in which nothing changes."""


# --- finding ----------------------------------------------------------------------------------------------


def test_sessions_are_found_where_the_usual_agents_keep_them(tmp_path: Path) -> None:
    places = (".claude/projects/-home-a", ".openclaw/agents/main/sessions", ".openclaw/agents/two/sessions")
    for number, place in enumerate((*places, ".pi/agent/sessions/x", ".gemini/tmp/y/chats")):
        (tmp_path / place).mkdir(parents=True)
        builders.put(tmp_path / place, CLAUDE.bytes() if number == 0 else PI.bytes(), "s.jsonl")
    builders.put(tmp_path / ".openclaw/agents/main/sessions", b"{}", "sessions.json")
    builders.put(tmp_path / ".openclaw/agents/main/sessions", report(), "s.openclaw.txt")
    found = discover_sessions(tmp_path)
    assert [(one.agent, one.format, one.files) for one in found] == [
        ("Claude Code", "claude-code", 1),
        ("OpenClaw", "pi-session", 1),
        ("OpenClaw", "pi-session", 1),
        ("pi", "pi-session", 1),
        ("Gemini CLI", "pi-session", 1),
    ]
    assert found[0].size_bytes == len(CLAUDE.bytes())
    assert found[1].folder == str(tmp_path / ".openclaw/agents/main/sessions")
    assert all(one.newest_ms > 0 for one in found)


def test_an_empty_home_has_none(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "projects").write_text("a file")
    assert discover_sessions(tmp_path) == []


# --- watching ---------------------------------------------------------------------------------------------


def test_what_grows_is_imported_as_one_act(folder: Path, tmp_path: Path) -> None:
    context, direct = context_at(tmp_path / "a.db"), context_at(tmp_path / "b.db")
    before = known_to(context)
    whole = PI.bytes()
    steps: list[Step] = [
        lambda: builders.put(folder, PI.bytes(3), "s.jsonl"),
        nothing,
        lambda: builders.put(folder, whole[:-30], "s.jsonl"),
        lambda: builders.put(folder, whole, "s.jsonl"),
        lambda: builders.put(folder, CLAUDE.bytes(), "other.jsonl"),
    ]
    answers = answers_of(watch(context, [folder], pausing(steps)))
    assert all(isinstance(answer, ImportAnswer) for answer in answers)
    found = [answer for answer in answers if isinstance(answer, ImportAnswer)]
    assert {answer.id for answer in found} == {"import-1"}
    assert [(answer.runs, answer.duplicates, answer.updated) for answer in found] == [
        (1, 0, 0),
        (1, 1, 0),  # a prompt that nothing answered yet
        (2, 0, 2),  # a tool more was called, which both may have had
        (1, 0, 0),
    ]
    import_files(direct, [folder])
    assert known_to(context) == known_to(direct)
    undo(context, "import-1")
    assert known_to(context) == before


def test_a_report_that_comes_later_is_joined(context: Context, tmp_path: Path) -> None:
    path = builders.put(tmp_path, PI.bytes(), "s.jsonl")
    steps: list[Step] = [lambda: builders.put(tmp_path, report(), "s.openclaw.txt")]
    first, second = answers_of(watch(context, [path.parent], pausing(steps)))
    assert isinstance(first, ImportAnswer)
    assert isinstance(second, ImportAnswer)
    assert (first.updated, second.updated, second.id) == (0, 2, first.id)
    assert {one.type for one in queries.posteriors(context) if one.inclusions} == {"tool", "skill", "file"}


def test_what_was_undone_in_the_meantime_stays_undone(context: Context, folder: Path) -> None:
    builders.put(folder, PI.bytes(), "s.jsonl")
    steps: list[Step] = [
        lambda: undo(context, "import-1"),
        lambda: builders.put(folder, CLAUDE.bytes(), "other.jsonl"),
    ]
    answers = answers_of(watch(context, [folder], pausing(steps)))
    assert [answer.id for answer in answers if isinstance(answer, ImportAnswer)] == ["import-1", "import-2"]
    assert queries.status(context).runs == 1
    assert queries.verify(context).clean


def test_foreign_and_broken_files_hold_nothing_back(context: Context, folder: Path) -> None:
    builders.put(folder, b"notes", "notes.txt")
    builders.put(folder, b"", "empty.jsonl")
    builders.put(folder, b"SQLite format 3\0 arm_states", "broken.db")
    builders.put(folder, PI.bytes(), "s.jsonl")
    numbers = count()
    steps: list[Step] = [lambda: builders.put(folder, b"n" * next(numbers), "notes.txt"), nothing]
    answers = answers_of(watch(context, [folder], pausing(steps)))
    assert queries.status(context).runs == 2
    assert len(answers) == 1


def test_nothing_new_is_no_news(context: Context, tmp_path: Path) -> None:
    path = builders.put(tmp_path, PI.bytes(), "s.jsonl")
    news, none = answers_of(watch(context, [path], pausing([lambda: path.write_bytes(PI.bytes() + b"\n")])))
    assert isinstance(news, ImportAnswer)
    assert isinstance(none, ImportAnswer)
    assert (has_news(news), has_news(none)) == (True, False)


def test_repeated_ledger_lines_are_no_news(context: Context, tmp_path: Path) -> None:
    path = builders.put(tmp_path, lines([RUN, NOTE]), "own.jsonl")
    steps: list[Step] = [
        lambda: path.write_bytes(lines([RUN, NOTE]) + b"\n"),
        lambda: path.write_bytes(lines([RUN, NOTE, {**NOTE, "id": "n2"}])),
    ]
    answers = answers_of(watch(context, [path], pausing(steps)))
    found = [answer for answer in answers if isinstance(answer, ImportAnswer)]
    assert [(one.ledger, one.ledger_duplicates) for one in found] == [(1, 0), (1, 1), (2, 1)]
    assert [has_news(one) for one in found] == [True, False, True]


def test_a_watch_is_remembered_by_all_it_told_and_as_one_change(context: Context, folder: Path) -> None:
    path = builders.put(folder, lines([RUN, NOTE]) + b"{\n", "own.jsonl")
    steps: list[Step] = [
        lambda: builders.put(folder, PI.bytes(), "s.jsonl"),
        lambda: path.write_bytes(lines([RUN, NOTE]) + b"{\n\n"),
    ]
    answers = answers_of(watch(context, [folder], pausing(steps)))
    parts = [answer for answer in answers if isinstance(answer, ImportAnswer)]
    assert [(part.runs, part.duplicates, part.id) for part in parts] == [
        (1, 0, "import-1"),
        (2, 0, "import-1"),
        (1, 1, "import-1"),
    ]
    (past,) = queries.imports(context)
    assert (past.id, past.answer.format, past.answer.unit) == ("import-1", "armscope, pi-session", "prompt")
    assert (past.answer.files, past.answer.runs, past.answer.duplicates) == (2, 3, 0), (
        "nothing new is no part"
    )
    assert (past.answer.ledger, past.answer.ledger_duplicates) == (1, 0)
    assert [line.line for line in past.answer.rejected] == [3]
    assert past.answer.rejected_count == 1
    assert [one.count for one in queries.overview(context).attention if one.kind == "rejected_lines"] == [1]
    assert [(entry.action, entry.act) for entry in queries.changes(context)] == [("import", "import-1")]


def test_answers_of_one_import_add_up(folder: Path, tmp_path: Path) -> None:
    builders.put(folder, lines([RUN]) + b"{\n" * 150, "many.jsonl")
    first = import_files(context_at(tmp_path / "a.db"), [folder])
    builders.put(folder, lines([{**RUN, "calls": []}]) + b"{\n" * 2, "few.jsonl")
    second = import_files(context_at(tmp_path / "b.db"), [folder / "few.jsonl"])
    both = second.after(first)
    assert (both.runs, both.observed, both.skipped_by) == (2, 1, {"conversational": 1})
    assert (len(both.rejected), both.rejected_count) == (100, 152)
    assert both.after(first).rejected_count == 202, "fifty of them are kept nowhere"
