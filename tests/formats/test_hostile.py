"""Files from strangers: broken, foreign, enormous, or made to hurt."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import UnreadableSource
from core.formats import FORMATS, Limits, open_sources, recognise
from core.formats.strict import Flaw, check, depth
from tests.formats.builders import (
    Session,
    lines,
    put,
    read,
    rejected,
    reply,
    runs,
    text,
    tool,
    trajectory,
    user,
)

GOOD = json.dumps({"messages": [user("a"), reply("b")]}).encode()


def with_extra(value: bytes) -> bytes:
    """A record with ``value`` in a field that no reader asks for."""
    return GOOD[:-1] + b', "extra": ' + value + b"}"


BAD_LINES = {
    "cut off": (GOOD[:30], "cut off"),
    "no JSON": (b"hello {", "not valid JSON"),
    "not a number": (with_extra(b"NaN"), "NaN, which is not a JSON number (byte"),
    "infinite": (with_extra(b"-Infinity"), "Infinity, which is not a JSON number (byte"),
    "lone surrogate": (with_extra(b'"\\ud800"'), "surrogate"),
    "lone low surrogate": (with_extra(b'"\\uDC00x"'), "surrogate"),
    "surrogate in UTF-8": (with_extra(b'"\xed\xa0\x80"'), "not UTF-8 (byte"),
    "no UTF-8": (with_extra(b'"\xff"'), "not UTF-8 (byte"),
    "NUL": (with_extra(b'"\x00"'), "not valid JSON"),
    "NUL bytes": (b"\x00" * 20, "not valid JSON"),
    "too deep": (with_extra(b"[" * 70 + b"]" * 70), "deeper than 64"),
    "bomb": (with_extra(b"[" * 100_000 + b"]" * 100_000), "deeper than 64"),
    "open bomb": (with_extra(b'{"a":' * 100_000), "deeper than 64"),
    "beyond floats": (with_extra(b"1e999"), "out of range"),
    "another shape": (b'{"messages": "none"}', "another shape"),
    "no messages": (b'{"messages": null}', "another shape"),
    "trailing": (GOOD + b" x", "not valid JSON"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_rejected_with_place_and_reason_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    bad, reason = BAD_LINES[name]
    entries = read(put(tmp_path, GOOD + b"\n" + bad + b"\n\n" + GOOD + b"\n"))
    assert len(runs(entries)) == 2
    (line,) = rejected(entries)
    assert line.line == 2
    assert reason in line.reason


def test_pairs_of_surrogates_and_brackets_in_strings_are_fine(tmp_path: Path) -> None:
    fine = [
        with_extra(value) for value in (b'"\\ud83d\\ude00"', b'"' + b"[" * 100 + b'\\"{"', b"123456789e300")
    ]
    entries = read(put(tmp_path, b"\n".join(fine)))
    assert (len(runs(entries)), rejected(entries)) == (3, [])


@given(
    st.recursive(
        st.text('[]{}"\\', max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('"[\\'), inner),
    )
)
def test_depth_counts_brackets_outside_strings(value: object) -> None:
    def plain(one: object) -> int:
        if isinstance(one, dict):
            return 1 + max(map(plain, one.values()), default=0)
        if isinstance(one, list):
            return 1 + max(map(plain, one), default=0)
        return 0

    raw = json.dumps(value).encode()
    assert depth(raw) == plain(value)
    for one in (raw, raw.ljust(9_000)):  # the brackets of a long text are counted in another way
        check(one, max_depth=plain(value))
        if plain(value) > 1:
            with pytest.raises(Flaw, match="deeper"):
                check(one, max_depth=plain(value) - 1)


@given(st.binary(max_size=200))
@example(b"{}")
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = put(tmp_path_factory.getbasetemp(), content, "any")
    for name in (None, *FORMATS):
        with contextlib.suppress(UnreadableSource):
            assert not runs(read(path, format=name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got an empty one"),
        (b" \n\t\n", "got an empty one"),
        (b"\xef\xbb\xbf", "got an empty one"),
        ("hi".encode("utf-16"), "got UTF-16"),
        (b"a,b\n1,2\n", "none of them"),
        (b'{"a": 1}\n', "none of them"),
        (b'{"messages": [{"type": "user"}]}', "none of them"),
        (b"[1, 2]", "none of them"),
        (b"[", "none of them"),
        (b"[[[]]]", "none of them"),
        (gzip.compress(b"", mtime=0), "got an empty one"),
        (b"\x1f\x8b", "in the middle of its compressed data"),
    ],
)
def test_a_foreign_file_is_refused_and_in_a_folder_left_out(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = put(tmp_path, content)
    with pytest.raises(UnreadableSource, match=message):
        open_sources([path])
    opened = open_sources([tmp_path])
    assert opened.sources == ()
    assert message in opened.skipped[0].reason


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="No such file"):
        open_sources([tmp_path / "none"])
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in open_sources([tmp_path]).skipped[0].reason, (
        "met in a folder, it is not waited for"
    )
    with pytest.raises(UnreadableSource, match="must be readable"):
        open_sources([Path("x" * 5000)])
    with pytest.raises(UnreadableSource, match="null byte"):
        open_sources([Path("a\0b")])


def test_a_file_that_vanishes_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD)
    (source,) = open_sources([path]).sources
    path.unlink()
    with pytest.raises(UnreadableSource, match="No such file"):
        list(source.entries())


# --- size -------------------------------------------------------------------------------------------------


def test_a_line_beyond_the_limit_is_passed_over(tmp_path: Path) -> None:
    long = with_extra(b'"' + b"x" * (3 << 20) + b'"')
    entries = read(
        put(tmp_path, GOOD + b"\n" + long + b"\n" + GOOD + b"\n" + long), limits=Limits(line_bytes=1 << 20)
    )
    assert len(runs(entries)) == 2
    assert [(line.line, line.reason) for line in rejected(entries)] == [
        (2, "The line is longer than 1 MiB."),
        (4, "The line is longer than 1 MiB."),
    ]


def test_a_first_line_longer_than_the_head_is_recognised(tmp_path: Path) -> None:
    huge = tool("t", "x" * (300 << 10))
    path = put(tmp_path, lines([{"tools": [huge], "messages": [user("a"), reply("b")]}]))
    assert recognise(path) == "openai-chat"


def test_a_document_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, json.dumps([trajectory([reply("a" * 3000)])]).encode())
    with pytest.raises(UnreadableSource, match="must be at most"):
        read(path, limits=Limits(document_bytes=2000))


# --- damage -----------------------------------------------------------------------------------------------


def test_a_broken_document_is_refused_as_a_whole(tmp_path: Path) -> None:
    content = json.dumps([trajectory([reply("a")]), trajectory([reply("b")])]).encode()
    with pytest.raises(UnreadableSource, match="must be whole, but this one is cut off"):
        read(put(tmp_path, content[:-9]))
    with pytest.raises(UnreadableSource, match="must be complete"):
        read(put(tmp_path, gzip.compress(content)[:-9]))


@pytest.mark.parametrize("name", ["tau2", "inspect-ai"])
def test_a_file_read_as_another_format_is_told_by_its_own(tmp_path: Path, name: str) -> None:
    content = Session().prompt("hi").reply(text("a")).bytes()
    with pytest.raises(
        UnreadableSource, match="of the format that is named for it, but this one is claude-code"
    ) as told:
        read(put(tmp_path, content), format=name)
    assert told.value.next_step == "Leave --format out and it is recognised."


def test_a_record_of_another_shape_in_a_document_is_rejected_alone(tmp_path: Path) -> None:
    entries = read(put(tmp_path, json.dumps([trajectory([reply("a")]), 7, {"traj": 8}]).encode()))
    assert len(runs(entries)) == 1
    assert [line.line for line in rejected(entries)] == [2, 3]


def test_a_truncated_gzip_gives_its_whole_lines_and_one_rejection(tmp_path: Path) -> None:
    noise = [{"messages": [user(os.urandom(3000).hex()), reply("b")]} for _ in range(200)]
    packed = gzip.compress(lines(noise))
    entries = read(put(tmp_path, packed[: len(packed) // 2]))
    assert 50 < len(runs(entries)) < 200
    assert "middle of its compressed data" in rejected(entries)[-1].reason


def test_damaged_compressed_data_is_told(tmp_path: Path) -> None:
    noise = [{"messages": [user(os.urandom(3000).hex()), reply("b")]} for _ in range(200)]
    packed = bytearray(gzip.compress(lines(noise)))
    packed[-6] ^= 1  # the checksum
    entries = read(put(tmp_path, bytes(packed)))
    assert len(runs(entries)) > 100
    assert "damaged compressed data" in rejected(entries)[-1].reason
    with pytest.raises(UnreadableSource, match="damaged compressed data"):
        read(put(tmp_path, bytes(packed[:10]) + b"\xff" * 100))


def test_compressed_files_may_have_members_and_padding(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD + b"\n") + gzip.compress(GOOD + b"\n") + b"\0" * 600_000
    entries = read(put(tmp_path, packed))
    assert (len(runs(entries)), rejected(entries)) == (2, [])
    bad = read(put(tmp_path, packed + b"tail"))
    assert len(rejected(bad)) == 1


# --- forms of text ----------------------------------------------------------------------------------------


def test_byte_order_marks_carriage_returns_and_blank_lines(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n \n" + GOOD.replace(b'"b"', b'"c"') + b"\r\n"
    entries = read(put(tmp_path, content))
    assert ([run.texts for run in runs(entries)], rejected(entries)) == ([("b",), ("c",)], [])


def test_one_record_may_spread_over_lines(tmp_path: Path) -> None:
    path = put(tmp_path, json.dumps(json.loads(GOOD), indent=2).encode())
    assert [run.texts for run in runs(read(path))] == [("b",)]


def test_the_name_of_a_file_plays_no_part(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a")).bytes()
    assert recognise(put(tmp_path, gzip.compress(session), "x.json")) == "claude-code"
    assert recognise(put(tmp_path, lines([trajectory([reply("a")])]), "x.gz")) == "tau-bench"
    assert recognise(put(tmp_path, json.dumps([tool("a")], indent=1).encode(), "x.jsonl")) == "tools"
    assert recognise(put(tmp_path, b"{}", "x.jsonl")) is None


# --- folders ----------------------------------------------------------------------------------------------


def test_folders_are_walked_in_order_and_nothing_is_lost_in_silence(tmp_path: Path) -> None:
    for name in ("b/two.jsonl", "a.jsonl", "b/one.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(tmp_path, GOOD, name)
    put(tmp_path, b"notes", "notes.txt")
    put(tmp_path, GOOD, ".hidden")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    opened = open_sources([tmp_path, tmp_path / "a.jsonl"])
    shown = [Path(source.file).relative_to(tmp_path).as_posix() for source in opened.sources]
    assert shown == ["a.jsonl", "b/one.jsonl", "b/two.jsonl"]
    assert {Path(one.file).name for one in opened.skipped} == {"notes.txt", ".hidden", "loop"}
    assert opened.size_bytes == 3 * len(GOOD)


def test_a_tools_file_is_reported_in_a_folder_and_refused_by_name(tmp_path: Path) -> None:
    path = put(tmp_path, lines([[tool("a")]]))
    assert "lists tools" in open_sources([tmp_path]).skipped[0].reason
    with pytest.raises(UnreadableSource, match="Name it with --tools"):
        open_sources([path])


def test_progress_counts_bytes_on_disk_up_to_the_end(tmp_path: Path) -> None:
    for content in (lines([json.loads(GOOD)] * 500), gzip.compress(lines([json.loads(GOOD)] * 500))):
        seen: list[int] = []
        (source,) = open_sources([put(tmp_path, content)]).sources
        assert len(runs(source.entries(seen.append))) == 500
        assert seen == sorted(seen)
        assert seen[-1] == source.size_bytes == len(content)


def test_raw_deflate_is_not_gzip(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource):
        open_sources([put(tmp_path, zlib.compress(GOOD))])
    assert io.BytesIO(gzip.compress(GOOD)).read(2) == b"\x1f\x8b"
