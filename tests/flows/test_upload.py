"""Files that arrive as bytes or through a pipe: read like files, named, never trusted as paths, gone afterwards."""

from __future__ import annotations

import gzip
import os
import subprocess
import tempfile
import threading
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
from core.formats import Limits
from tests.engine import address_of
from tests.flows.test_import_laws import known_to
from tests.formats.agents import made_up
from tests.formats.builders import lines, put
from tests.formats.test_packed import tarred
from tests.terminal import warm
from tests.worlds import context_at

ROOM = 10_000_000
RUN = {"kind": "run", "uid": "r", "arms": ["tool:fs:Read"], "calls": ["Read"]}
CONTENT = b"".join(made_up("claude-code"))


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


def armscope(folder: Path, *arguments: str, content: bytes) -> subprocess.CompletedProcess[bytes]:
    program = [*warm(), "--database", address_of(folder / "a.db")]
    return subprocess.run([*program, *arguments], cwd=folder, input=content, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("-", CONTENT),
        ("-", tarred({"a.jsonl": CONTENT})),
        ("/dev/stdin", gzip.compress(CONTENT, mtime=0)),
    ],
    ids=["text", "tar", "gzip"],
)
def test_standard_input_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    done = armscope(tmp_path, "import", name, content=content)
    assert (done.returncode, done.stderr) == (0, b""), done
    assert b"8 runs (prompt) from 1 file (claude-code)" in done.stdout
    wanted = context_at(tmp_path / "b.db")
    import_files(wanted, [put(tmp_path, CONTENT)])
    found = context_at(tmp_path / "a.db")
    assert known_to(found) == known_to(wanted)
    if content is CONTENT:
        broken = armscope(tmp_path, "import", name, content=b"\n".join([CONTENT, b"{broken"]) + b"\n")
        assert b"standard input, line" in broken.stdout


def test_an_export_goes_through_a_pipe(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    import_files(context, [put(tmp_path, CONTENT)])
    wanted = queries.posteriors(context)
    context.store.close()
    exported = armscope(tmp_path, "export", "-", content=b"").stdout
    there = tmp_path / "there"
    there.mkdir()
    done = armscope(there, "import", "-", content=exported)
    assert done.returncode == 0, done
    assert [(one.arm, one.alpha, one.beta) for one in queries.posteriors(context_at(there / "a.db"))] == [
        (one.arm, one.alpha, one.beta) for one in wanted
    ]


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(CONTENT,))
    writer.start()
    answer = import_files(context_at(tmp_path / "a.db"), [pipe])
    writer.join()
    assert answer.runs == 8


@pytest.mark.parametrize(
    ("device", "why"), [("/dev/zero", "begins with other binary data"), ("/dev/null", "got an empty one")]
)
def test_what_never_ends_or_holds_nothing_is_refused(tmp_path: Path, device: str, why: str) -> None:
    with pytest.raises(UnreadableSource, match=why):
        import_files(context_at(tmp_path / "a.db"), [Path(device)])


def test_a_pipe_has_a_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as target:
            try:
                for _ in range(100):
                    target.write(b" " * 100_000 + b"\n")
            except BrokenPipeError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(UnreadableSource, match=r"at most 1 MiB, got more .*--max"):
        import_files(context_at(tmp_path / "a.db"), [pipe], limits=Limits(inflated_bytes=1 << 20))
    writer.join()


@pytest.mark.parametrize("address", ["https://example.org/x.jsonl", "s3://bucket/x", "HTTP://example.org"])
def test_addresses_are_not_read(tmp_path: Path, address: str) -> None:
    with pytest.raises(UnreadableSource) as refused:
        import_files(context_at(tmp_path / "a.db"), [Path(address)])
    assert address in refused.value.problem
    assert "addresses are not read" in refused.value.problem
    assert refused.value.next_step == "Download it first, then import the file."
