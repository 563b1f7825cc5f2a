"""What comes through a pipe is read like a file, and called by what it is."""

from __future__ import annotations

import gzip
import os
import subprocess
import threading
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.flows import queries
from core.flows.importing import import_files
from core.formats import Limits
from tests.engine import address_of
from tests.flows.test_import_laws import known_to
from tests.formats.agents import made_up
from tests.formats.builders import put
from tests.formats.test_packed import tarred
from tests.terminal import warm
from tests.worlds import context_at

CONTENT = b"".join(made_up("claude-code"))


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
