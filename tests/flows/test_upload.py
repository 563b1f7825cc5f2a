"""Files that arrive as bytes: named, never trusted as paths, gone afterwards."""

from __future__ import annotations

import gzip
import tempfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import InvalidInput, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.importing import import_files
from core.flows.upload import ReceivedFile, import_uploaded
from tests.formats.builders import lines
from tests.worlds import context_at

ROOM = 10_000_000
RUN = {"kind": "run", "uid": "r", "arms": ["tool:fs:Read"], "calls": ["Read"]}


def dropped(name: str, content: bytes) -> ReceivedFile:
    return ReceivedFile(name=name, size_bytes=len(content), content=BytesIO(content))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_it_is_the_same_import_whatever_the_name(context: Context, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN]))
    import_files(context, [tmp_path / "runs.jsonl"])
    again = import_uploaded(context, [dropped("other", gzip.compress(lines([RUN])))], at_most_bytes=ROOM)
    assert (again.runs, again.duplicates) == (1, 1)
    assert list(folder.iterdir()) == []


def test_several_are_one_act_and_the_unreadable_are_named(context: Context, folder: Path) -> None:
    files = [dropped("same.jsonl", lines([RUN | {"uid": f"r{number}"}])) for number in range(3)]
    answer = import_uploaded(context, [*files, dropped("notes.txt", b"milk")], at_most_bytes=ROOM)
    assert (answer.runs, answer.files) == (3, 3)
    assert [one.file for one in answer.ignored] == ["notes.txt"]
    undo(context, answer.id)
    assert queries.frame(context).n_runs == 0


def test_a_report_finds_its_session_by_name(context: Context, folder: Path) -> None:
    answer = import_uploaded(
        context,
        [
            dropped("s.jsonl", lines([RUN])),
            dropped("s.openclaw.txt", b"{\n}\n"),
            dropped("t.jsonl", lines([RUN])),
        ],
        at_most_bytes=ROOM,
    )
    assert answer.files == 2, "a report beside its session is one source with it"


@pytest.mark.parametrize("content", [b"", b"milk", b'{"kind": "run"}\n'])
def test_nothing_is_recorded_and_nothing_stays(context: Context, folder: Path, content: bytes) -> None:
    with pytest.raises(UnreadableSource) as problem:
        import_uploaded(context, [dropped("bad.jsonl", content)], at_most_bytes=ROOM)
    assert str(folder) not in str(problem.value)
    assert list(folder.iterdir()) == []
    assert queries.imports(context) == ()


def test_too_much_is_refused_before_it_is_read(context: Context, folder: Path) -> None:
    content = BytesIO(lines([RUN]))
    with pytest.raises(InvalidInput, match="MB together or less"):
        import_uploaded(
            context, [ReceivedFile(name="a", size_bytes=ROOM + 1, content=content)], at_most_bytes=ROOM
        )
    assert content.tell() == 0
    with pytest.raises(InvalidInput):
        import_uploaded(context, [], at_most_bytes=ROOM)


@given(name=st.text(max_size=300))
@example(name="s3:/bucket/runs.jsonl")
def test_any_name_is_only_told(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    context = context_at(tmp_path_factory.mktemp("names") / "a.db")
    answer = import_uploaded(context, [dropped(name, lines([RUN]) + b"{broken\n")], at_most_bytes=ROOM)
    assert (answer.runs, answer.rejected_count) == (1, 1)
    told = answer.rejected[0].file
    assert told.isprintable()
    assert "armscope-" not in told or "armscope-" in name
    assert len(told) <= 200
    (past,) = queries.imports(context)
    assert past.answer == answer


@pytest.mark.parametrize(
    "name", ["../../up.jsonl", "/etc/passwd", "a/b/c", "..", ".", "", "con\0nul", "x" * 5_000, "\ud800.jsonl"]
)
def test_hostile_names_lead_nowhere(context: Context, tmp_path: Path, folder: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert import_uploaded(context, [dropped(name, lines([RUN]))], at_most_bytes=ROOM).runs == 1
    assert [
        path for path in sorted(tmp_path.rglob("*")) if path not in before and "a.db" not in path.name
    ] == []


def test_tools_come_as_a_file_too(context: Context, folder: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
    tools = b'[{"type": "function", "function": {"name": "look_up", "parameters": {}}}]'
    answer = import_uploaded(
        context,
        [dropped("chat.jsonl", lines([chat]))],
        tools=dropped("tools.json", tools),
        at_most_bytes=ROOM,
    )
    assert answer.runs == 1
    assert [one.arm for one in queries.posteriors(context)] == ["tool:other:look_up"]
    with pytest.raises(UnreadableSource, match=r"\(mine\.json\)"):
        import_uploaded(
            context,
            [dropped("chat.jsonl", lines([chat]))],
            tools=dropped("mine.json", b"milk"),
            at_most_bytes=ROOM,
        )
