"""Compressed files and archives are read, or refused by name; shapes that hold the same records are read alike."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sqlite3
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.formats import Entry, Limits, open_sources, recognise
from core.records.run import Run
from tests.formats.agents import AGENTS, made_up
from tests.formats.builders import (
    Session,
    lines,
    put,
    read,
    rejected,
    runs,
    text,
    use,
    zipped_by_zstandard,
)
from tests.formats.test_pi_session import Session as PiSession
from tests.formats.test_pi_session import call, report

CLAUDE = made_up("claude-code")
WANTED = {"a.jsonl": CLAUDE[0], "deep/er/b.jsonl": CLAUDE[1], "c.jsonl.gz": gzip.compress(CLAUDE[3])}


def tarred(files: Mapping[str, bytes], **kinds: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
        for name, kind in kinds.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            made.addfile(entry)
    return packed.getvalue()


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return packed.getvalue()


def opened(path: Path, **limits: int) -> tuple[list[Entry], list[tuple[str, str]]]:
    """What a file yields, and what was left out of it."""
    with open_sources([path], limits=Limits(**limits)) as found:
        entries = [entry for source in found.sources for entry in source.entries()]
    return entries, [(Path(one.file).name, one.reason) for one in found.skipped]


def apart(folder: Path, files: Mapping[str, bytes]) -> list[Run]:
    return [
        run for name, content in files.items() for run in runs(read(put(folder, content, Path(name).name)))
    ]


PACKERS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "tar": tarred,
    "tar.gz": lambda files: gzip.compress(tarred(files)),
    "tar.bz2": lambda files: bz2.compress(tarred(files)),
    "tar.xz": lambda files: lzma.compress(tarred(files)),
    "zip": zipped,
    "zip, stored": lambda files: zipped(files, zipfile.ZIP_STORED),
    "zip, Zstandard": zipped_by_zstandard,
}


@pytest.mark.parametrize("packer", PACKERS)
def test_an_archive_is_read_like_a_folder(tmp_path: Path, packer: str) -> None:
    junk = {
        "notes.md": b"# words",
        "data.bin": b"\x00\x01",
        ".hidden/x.jsonl": CLAUDE[2],
        "__MACOSX/._a.jsonl": b"\0",
    }
    path = put(tmp_path, PACKERS[packer]({**WANTED, **junk}), "two.tar.gz")
    entries, skipped = opened(path)
    assert {run.uid: run for run in runs(entries)} == {run.uid: run for run in apart(tmp_path, WANTED)}
    assert sorted(name for name, _ in skipped) == ["._a.jsonl", "data.bin", "notes.md", "x.jsonl"]
    assert {reason.split(",")[0] for _, reason in skipped} == {
        "A hidden file or folder is not read.",
        "A file to import must be text",
        "A file to import must be of one of the known formats",
    }
    assert recognise(path) == "archive"


def test_files_of_an_archive_are_called_by_it_and_by_their_name(tmp_path: Path) -> None:
    path = put(tmp_path, tarred({"x" * 300 + "/a.jsonl": CLAUDE[0], "b\n.jsonl": CLAUDE[1]}), "all.tar")
    with open_sources([path]) as found:
        first, second = [source.file for source in found.sources]
        folders = {source.path.parent for source in found.sources}
    assert first.startswith(f"{path}/xxx")
    assert second == f"{path}/b .jsonl"
    assert not any(folder.exists() for folder in folders), "what was unpacked is gone"


@pytest.mark.parametrize("packer", ["tar", "zip"])
def test_a_report_in_an_archive_belongs_to_the_session_beside_it(tmp_path: Path, packer: str) -> None:
    session = PiSession().prompt().reply(call("read"))
    files = {"in/s.openclaw.txt": report(), "in/s.jsonl": session.bytes(), "else/s.jsonl": CLAUDE[0]}
    entries, skipped = opened(put(tmp_path, PACKERS[packer](files), "a"))
    assert {run.inventory.kind for run in runs(entries)} == {"declared", "inferred"}
    assert skipped == []
    entries, skipped = opened(
        put(tmp_path, PACKERS[packer]({"a.jsonl": CLAUDE[0], "s.openclaw.txt": report()}), "b")
    )
    assert (len(runs(entries)), [reason[:40] for _, reason in skipped]) == (
        3,
        ["OpenClaw's report of a session makes no "],
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (zipped({}), "a zip of another kind"),
        (zipped({"a.md": b"words"}), "holds none .* known formats"),
        (zipped({"a.zip": zipped(WANTED)}), "archive inside an archive is not opened"),
        (tarred({"a.tar": tarred(WANTED)}), "archive inside an archive is not opened"),
        (gzip.compress(zipped(WANTED)), "compressed once more"),
        (tarred(WANTED)[:2_000], "ends in the middle"),
        (gzip.compress(tarred(WANTED))[:-40], "ends in the middle"),
        (zipped(WANTED, zipfile.ZIP_LZMA), "compressed or encrypted in a way"),
        (zipped_by_zstandard(WANTED, spoilt=True), "damaged compressed data"),
        (b"\x28\xb5\x2f\xfd" + bytes(50), "this one is zstd"),
        (b"\x04\x22\x4d\x18" + bytes(50), "this one is lz4"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(50), "this one is 7-Zip"),
        (b"Rar!\x1a\x07\x01" + bytes(50), "this one is RAR"),
        (b"070701" + b"0" * 100 + CLAUDE[0], "a cpio archive"),
        (b"!<arch>\nx" + CLAUDE[0], "an ar archive"),
        (b"PK\x05\x06" + bytes(18), "a zip of another kind"),
        (gzip.compress(b"\x28\xb5\x2f\xfd" + bytes(50), mtime=0), "this one is zstd"),
        (b"\x00" * 600 + CLAUDE[0], "begins with binary data"),
        (b"\x7fELF\x02\x01" + CLAUDE[0], "begins with binary data"),
    ],
)
def test_what_is_packed_in_another_way_is_refused_by_name(tmp_path: Path, content: bytes, why: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(UnreadableSource, match=why):
        open_sources([path])
    if "known formats" not in why:
        for name in ("claude-code", "pi-session", "openai-chat"):
            with pytest.raises(UnreadableSource, match=why):
                open_sources([path], format=name)


def test_an_archive_among_other_files_is_left_out_and_said(tmp_path: Path) -> None:
    put(tmp_path, CLAUDE[0], "a.jsonl")
    put(tmp_path, tarred(WANTED), "b.tar")
    found = open_sources([tmp_path])
    assert len(found.sources) == 1
    assert [one.reason for one in found.skipped] == ["An archive that lies among other files is not opened."]


def test_links_devices_and_paths_of_a_tar_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    content = tarred(
        {"../../out.jsonl": CLAUDE[0], "/etc/out.jsonl": CLAUDE[1]},
        link=tarfile.SYMTYPE,
        hard=tarfile.LNKTYPE,
        device=tarfile.CHRTYPE,
        fifo=tarfile.FIFOTYPE,
        folder=tarfile.DIRTYPE,
    )
    entries, skipped = opened(put(folder, content, "a.tar"))
    assert len(runs(entries)) == 4
    assert skipped == []
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "a.tar"]


def test_an_extended_header_of_any_length_takes_no_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 40 << 20
    content = header.tobuf() + b" " * (40 << 20) + tarred(WANTED)
    path = put(tmp_path, content, "a.tar")
    tracemalloc.start()
    try:
        entries, _ = opened(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(runs(entries)) == 6
    assert peak < 10 << 20


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    wanted = runs(read(put(tmp_path, CLAUDE[0])))
    middle = CLAUDE[0].index(b"\n", 400) + 1
    for content in (
        pack(CLAUDE[0]),
        pack(CLAUDE[0][:middle]) + pack(CLAUDE[0][middle:]),
        gzip.compress(pack(CLAUDE[0])),
        pack(gzip.compress(CLAUDE[0])),
        pack(pack(CLAUDE[0])),
    ):
        assert runs(read(put(tmp_path, content))) == wanted
    with pytest.raises(UnreadableSource, match="compressed 2 times over, got more"):
        read(put(tmp_path, pack(gzip.compress(pack(CLAUDE[0])))))
    noise = [{"type": "user", "uuid": "u", "sessionId": "s", "x": os.urandom(3000).hex()} for _ in range(200)]
    first, second = pack(CLAUDE[0]), pack(lines(noise))
    cut = read(put(tmp_path, first + second[: len(second) // 2]))
    assert "in the middle of its compressed data" in rejected(cut)[-1].reason
    damaged = read(put(tmp_path, first + second[:9] + b"\xff" * 300))
    assert "compressed data" in rejected(damaged)[-1].reason
    for entries in (cut, damaged):
        assert {run.uid for run in runs(entries)} >= {run.uid for run in wanted}


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_refused_however_it_is_packed(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    bomb = CLAUDE[0] + b" " * (1 << 20)
    many = {f"{number}.jsonl": bomb for number in range(3)}
    for content in (
        pack(bomb),
        gzip.compress(pack(bomb)),
        pack(gzip.compress(b"") * 60_000),
        pack(tarred(many)),
        zipped(many),
    ):
        with pytest.raises(UnreadableSource, match=r"at most 1 MiB, got more .*--max"):
            opened(put(tmp_path, content), inflated_bytes=1 << 20)


# --- one record where another is expected -----------------------------------------------------------------


def as_array(content: bytes) -> bytes:
    return b"[" + b",\n".join(content.splitlines()) + b"]"


def printed(content: bytes) -> bytes:
    return b"\n".join(json.dumps(json.loads(line), indent=2).encode() for line in content.splitlines())


def with_cr(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r")


def glued(content: bytes) -> bytes:
    """Two records on every line but the last."""
    told = content.splitlines()
    return b"\n".join(b"".join(told[place : place + 2]) for place in range(0, len(told), 2)) + b"\n"


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("shape", [as_array, printed, with_cr, glued])
def test_sessions_in_other_shapes_are_read_alike(
    tmp_path: Path, agent: str, shape: Callable[[bytes], bytes]
) -> None:
    for content in made_up(agent):
        found = read(put(tmp_path, shape(content)))
        assert rejected(found) == []
        assert runs(found) == runs(read(put(tmp_path, content)))


@pytest.mark.parametrize("shape", [as_array, printed, with_cr, glued])
def test_records_in_other_shapes_are_read_alike(tmp_path: Path, shape: Callable[[bytes], bytes]) -> None:
    chats = lines(
        [
            {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": str(n)}]}
            for n in range(5)
        ]
    )
    ours = lines([{"kind": "run", "uid": f"r{n}", "arms": ["tool:a:b"], "calls": ["b"]} for n in range(5)])
    for content in (chats, ours):
        found = read(put(tmp_path, shape(content)))
        assert rejected(found) == []
        assert runs(found) == runs(read(put(tmp_path, content)))


def test_of_two_records_on_a_line_a_cut_one_costs_itself(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(text("a")).prompt("two").reply(use("Read", "t1"), id="m2")
    told = session.bytes().splitlines()
    entries = read(put(tmp_path, told[0] + told[1] + b"\n" + told[2] + told[3][:-9] + b"\n"))
    assert [run.empty for run in runs(entries)] == [False, True]
    (line,) = rejected(entries)
    assert (line.line, line.reason) == (2, "It is cut off in the middle.")


def test_what_follows_a_record_and_is_none_costs_the_line(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(text("a"))
    told = session.bytes().splitlines()
    entries = read(put(tmp_path, told[0] + b"\n" + told[1] + b" and more\n"))
    assert [run.empty for run in runs(entries)] == [True]
    assert "trailing characters" in rejected(entries)[0].reason


def test_a_line_of_many_small_values_costs_little(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(text("a"))
    content = session.bytes() + b"{}" * 400_000 + b"\n"
    tracemalloc.start()
    try:
        entries = read(put(tmp_path, content), limits=Limits(rejected_lines=50))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(runs(entries)) == 1
    assert peak < 200 << 20


# --- bounded work -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("junk", [b"{}\n", b"{\n", b"\n", b"\x00\n"])
@pytest.mark.parametrize(
    "format_name", ["claude-code", "pi-session", "openai-chat", "armscope", "gemini-cli"]
)
def test_a_file_is_given_up_after_so_many_lines_that_say_nothing(
    tmp_path: Path, junk: bytes, format_name: str
) -> None:
    good = {
        "claude-code": CLAUDE[0],
        "pi-session": made_up("pi-session")[0],
        "openai-chat": lines([{"messages": [{"role": "assistant", "content": "a"}]}]),
        "armscope": lines([{"kind": "run", "uid": "r", "arms": ["tool:a:b"]}]),
        "gemini-cli": made_up("gemini-cli")[0],
    }[format_name]
    wanted = runs(read(put(tmp_path, good)))
    limits = Limits(rejected_lines=300, first_rejected=20)
    read_up_to = runs(read(put(tmp_path, good * 2)))
    entries = read(put(tmp_path, good + junk * 299 + good + junk * 5_000 + good), limits=limits)
    assert {run.uid for run in runs(entries)} == {run.uid for run in read_up_to}
    *_, last = rejected(entries)
    assert last.line is None or junk == b"\n"
    assert ("300 lines in a row" in last.reason) or ("300 blank lines in a row" in last.reason)
    assert len(rejected(entries)) <= 299 + 301
    if junk.strip(b"\n\0"):
        early = read(put(tmp_path, junk * 25 + good), limits=limits, format=format_name)
        assert runs(early) == []
        assert [one.line for one in rejected(early)] == [*range(1, 21), None]
        assert "20 lines in a row" in rejected(early)[-1].reason
        more = read(put(tmp_path, junk * 25 + good), limits=Limits.of(rejected_lines=26), format=format_name)
        assert {run.uid for run in runs(more)} == {run.uid for run in wanted}


def test_databases_are_no_binary_data(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as driver:
        driver.execute("CREATE TABLE x (y)")
    driver.close()
    with pytest.raises(UnreadableSource, match="none of them"):
        open_sources([tmp_path / "a.db"])
