"""Inspect logs: samples, what was offered, grades, and zips from strangers."""

from __future__ import annotations

import gzip
import io
import json
import struct
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.detect import detect
from core.errors import UnreadableSource
from core.formats import Limits, Remark, open_sources, recognise
from tests.formats.builders import (
    Json,
    lines,
    names,
    offered,
    put,
    read,
    rejected,
    runs,
    tool,
    zipped_by_zstandard,
)

EVAL: Json = {"eval_id": "e1", "run_id": "r1", "task_id": "t1", "model": "maker/m-1"}
HEADER: Json = {"version": 2, "status": "success", "eval": EVAL}

WORDS = {
    "Yes": 1.0,
    "true": 1.0,
    "NO": 0.0,
    "false": 0.0,
    "10": 10.0,
    "-0.5": -0.5,
    "1e400": None,
    "nan": None,
}
"""Grades in words and numbers in text, as Inspect's own metrics count them."""


def called(name: str) -> Json:
    return {"id": "c", "function": name, "arguments": {"url": "x"}, "type": "function"}


def model_event(*tools: str, **fields: object) -> Json:
    listed = [{"name": name, "description": "d", "parameters": {"type": "object"}} for name in tools]
    return {"event": "model", "timestamp": "2025-05-12T20:27:56.5-04:00", "tools": listed, **fields}


def sample(id: int | str = 1, **fields: object) -> Json:
    return {
        "id": id,
        "epoch": 1,
        "uuid": f"u{id}",
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": [{"type": "text", "text": "look"}]},
            {"role": "assistant", "content": "", "tool_calls": [called("go"), called("click")]},
            {"role": "tool", "content": "page", "function": "go"},
            {
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "C"}],
            },
        ],
        "events": [
            model_event("go", "click", "back"),
            {"event": "info", "timestamp": "2025-05-12T20:27:58-04:00"},
        ],
        "scores": {"includes": {"value": "C"}},
        "model_usage": {
            "maker/m-1": {
                "input_tokens": 9,
                "output_tokens": 2,
                "total_tokens": 11,
                "input_tokens_cache_read": 4,
            },
            "maker/grader": {"input_tokens": 1, "output_tokens": 1},
        },
        "total_time": 18.5174,
        **fields,
    }


def log(*samples: object) -> bytes:
    return json.dumps({**HEADER, "samples": samples}, indent=2).encode()


def zipped(entries: Mapping[str, object], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return packed.getvalue()


def archive(*samples: Json, **more: object) -> bytes:
    entries = {f"samples/{one['id']}_epoch_1.json": one for one in samples}
    return zipped({"header.json": HEADER, **entries, **more})


def test_a_sample_is_an_episode(tmp_path: Path) -> None:
    path = put(tmp_path, log(sample()))
    assert recognise(path) == "inspect-ai"
    (run,) = runs(read(path))
    assert (run.uid, run.unit, run.session, run.model) == (
        "inspect-ai/episode/u1",
        "episode",
        "e1",
        "maker/m-1",
    )
    assert names(run) == ["go", "click"]
    assert (offered(run), run.inventory.kind) == (["go", "click", "back"], "declared")
    assert all(arm.token_cost for arm in run.inventory.arms)
    assert run.usage is not None
    assert (run.usage.input, run.usage.output, run.usage.cache_read, run.tokens) == (10, 3, 4, 13)
    assert (run.duration_ms, run.reward, run.status, run.texts) == (18517, 1.0, "completed", ("C",))
    assert (run.ended_at_ms, run.naive_time) == (1747096078000, False)


def test_a_zip_says_the_same_as_a_document(tmp_path: Path) -> None:
    samples = [sample(n) for n in ("a", "b", "c")]
    document = runs(read(put(tmp_path, log(*samples))))
    path = put(tmp_path, archive(*samples, **{"summaries.json": [], "_journal/start.json": {}}), "zip")
    assert recognise(path) == "inspect-ai"
    assert [run.uid for run in runs(read(path))] == [run.uid for run in document]
    assert [offered(run) for run in runs(read(path))] == [offered(run) for run in document]
    unfinished = zipped(
        {"_journal/start.json": {"version": 2, "eval": EVAL}, "samples/1_epoch_1.json": sample()}
    )
    assert len(runs(read(put(tmp_path, unfinished, "unfinished")))) == 1


def by_zstandard(*samples: Json, spoilt: bool = False) -> bytes:
    entries = {"header.json": HEADER} | {f"samples/{n}.json": one for n, one in enumerate(samples)}
    return zipped_by_zstandard(
        {name: json.dumps(one).encode() for name, one in entries.items()}, spoilt=spoilt
    )


def test_a_zip_by_zstandard_is_read_checked_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [sample(n) for n in ("a", "b", "c")]
    path = put(tmp_path, by_zstandard(*samples), "zstandard")
    assert runs(read(path)) == runs(read(put(tmp_path, archive(*samples))))
    with pytest.raises(UnreadableSource, match="may hold at most"):
        read(path, limits=Limits(inflated_bytes=1_000))
    cut = path.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe")
    for content in (by_zstandard(sample(), spoilt=True), cut):
        with pytest.raises(UnreadableSource, match="has damaged compressed data"):
            read(put(tmp_path, content))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnreadableSource, match="needs the package pyarrow"):
        read(path)


@pytest.mark.parametrize(
    ("scores", "reward"),
    [
        ({"a": {"value": "C"}}, 1.0),
        ({"a": {"value": "P"}}, 0.5),
        ({"a": {"value": "I"}}, 0.0),
        ({"a": {"value": 0}}, 0.0),
        ({"a": {"value": 0.25}}, 0.25),
        ({"a": {"value": True}}, 1.0),
        ({"a": {"value": "excellent"}}, None),
        *(({"a": {"value": word}}, number) for word, number in WORDS.items()),
        ({"a": {"value": {"x": 1}}}, None),
        ({"a": {"value": "C"}, "b": {"value": "C"}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_grade_of_one_scorer_is_the_reward(
    tmp_path: Path, scores: Json | None, reward: float | None
) -> None:
    found = read(put(tmp_path, log(sample(scores=scores))))
    assert runs(found)[0].reward == reward
    divided = [one for one in found if isinstance(one, Remark)]
    assert bool(divided) == ("{'x'" in str(scores) or len(scores or ()) > 1)


def test_how_a_sample_ended(tmp_path: Path) -> None:
    ends: list[Json] = [
        {},
        {"error": {"message": "x"}},
        {"limit": {"type": "token", "limit": 9}},
        {"limit": {"type": "operator", "limit": 1}},
        {"error": None, "limit": None},
    ]
    found = runs(read(put(tmp_path, log(*[sample(n, **end) for n, end in enumerate(ends)]))))
    assert [run.status for run in found] == ["completed", "error", "error", "aborted", "completed"]


def test_requests_that_offer_different_tools_are_taken_together(tmp_path: Path) -> None:
    events = [model_event("go"), model_event(), model_event("back", "go")]
    first, second = runs(
        read(put(tmp_path, log(sample(1, events=events), sample(2, events=[model_event()]))))
    )
    assert offered(first) == ["go", "back"]
    assert (offered(second), second.inventory.kind) == ([], "declared")
    assert detect(second).not_offered == ("go", "click")


def test_logs_without_events_take_supplied_tools_or_their_calls(tmp_path: Path) -> None:
    path = put(tmp_path, log(sample(1, events=[]), sample(2, events=None)))
    assert [(offered(run), run.inventory.kind) for run in runs(read(path))] == [
        (["click", "go"], "inferred")
    ] * 2
    tools_file = put(tmp_path, lines([[tool("back")]]), "tools")
    assert [offered(run) for run in runs(read(path, tools_file=tools_file))] == [["back"]] * 2


def test_samples_without_ids_replies_or_texts_of_their_own_are_read(tmp_path: Path) -> None:
    old = [{key: value for key, value in sample(n).items() if key != "uuid"} for n in (1, "two")]
    found = runs(read(put(tmp_path, log(*old))))
    assert [run.uid for run in found] == ["inspect-ai/episode/e1/1/1", "inspect-ai/episode/e1/two/1"]
    reply = {"role": "assistant", "content": "attachment://a1"}
    apart = sample(messages=[reply, {**reply, "content": [{"type": "text", "text": "attachment://gone"}]}])
    (run,) = runs(read(put(tmp_path, log({**apart, "attachments": {"a1": "a long text"}}))))
    assert run.texts == ("a long text", "attachment://gone")
    (run,) = runs(read(put(tmp_path, log(sample(messages=[{"role": "user", "content": "x"}])))))
    assert run.empty
    for content in (json.dumps({**HEADER, "samples": None}).encode(), lines([HEADER]), archive()):
        assert read(put(tmp_path, content)) == []


# --- hostile files ----------------------------------------------------------------------------------------

BAD: list[object] = [
    7,
    {"id": 1},
    sample(1, messages=[{"role": "assistant", "tool_calls": [called("n" * 600)]}]),
    sample(1, events=[model_event("bad\nname")]),
    sample(1, total_time=-1),
    sample(1, metadata=json.loads("[" * 70 + "]" * 70)),
    sample(1, model_usage={"m": {"input_tokens": 10**12}, "n": {"input_tokens": 10**12}}),
]


def test_bad_samples_are_rejected_alone(tmp_path: Path) -> None:
    entries = read(put(tmp_path, log(*BAD, sample("good"))))
    assert [run.source for run in runs(entries)] == ["ugood"]
    assert [one.line for one in rejected(entries)] == list(range(1, len(BAD) + 1))
    entries = read(
        put(
            tmp_path,
            zipped({"header.json": HEADER} | {f"samples/{n}.json": one for n, one in enumerate(BAD)}),
        )
    )
    assert (len(rejected(entries)), runs(entries)) == (len(BAD), [])
    as_lone = archive(**{"samples/0.json": b'{"id": "\\ud800", "messages": []}', "samples/1.json": b"\xff"})
    assert len(rejected(read(put(tmp_path, as_lone)))) == 2


@pytest.mark.parametrize(
    "content",
    [
        log(sample())[:-9],
        log(sample()).replace(b"18.5174", b"None"),
        log(sample()).replace(b'"eval": {', b'"eval": 7, "x": {'),
        log(sample()).replace(b'"samples": [', b'"samples": 7, "x": ['),
        log(sample()).replace(b'"version": 2', b'"version": ' + b"[" * 90_000),
    ],
)
def test_a_document_that_is_not_whole_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnreadableSource, match="must be whole"):
        read(put(tmp_path, content), format="inspect-ai")


def test_zips_that_are_no_logs_are_refused(tmp_path: Path) -> None:
    for content, why in (
        (b"PK\x03\x04", "A zip must be whole"),
        (zipped({"a.json": {}}), "holds none .* none of them"),
        (archive()[:-30], "A zip must be whole"),
        (gzip.compress(archive()), "compressed once more"),
    ):
        path = put(tmp_path, content)
        with pytest.raises(UnreadableSource, match=why):
            open_sources([path])
        with pytest.raises(UnreadableSource):
            read(path, format="inspect-ai")
    with pytest.raises(UnreadableSource, match="must say what was evaluated"):
        read(put(tmp_path, zipped({"header.json": b"\xff"})))
    with pytest.raises(UnreadableSource, match="must be whole"):
        read(put(tmp_path, zipped({"header.json": b"{"})))


def test_names_in_a_zip_are_never_paths(tmp_path: Path) -> None:
    hostile = [
        "samples/../../escaped.json",
        "samples//etc/x.json",
        "/samples/abs.json",
        "samples/a\\..\\b.json",
    ]
    content = zipped({"header.json": HEADER} | {name: sample(n) for n, name in enumerate(hostile)})
    (tmp_path / "in").mkdir()
    entries = read(put(tmp_path / "in", content))
    assert len(runs(entries)) == 3
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "data"]


def test_a_zip_bomb_is_bounded_by_what_it_becomes(tmp_path: Path) -> None:
    bomb = b'{"id": "' + b" " * (6 << 20) + b'"}'
    content = archive(sample(), **{f"samples/x{n}.json": bomb for n in range(4)})
    assert len(content) < 100_000
    entries = read(put(tmp_path, content), limits=Limits(document_bytes=1 << 20))
    assert (len(runs(entries)), len(rejected(entries))) == (1, 4)
    assert "larger than 1 MiB" in rejected(entries)[0].reason
    with pytest.raises(UnreadableSource, match="--max"):
        read(put(tmp_path, content), limits=Limits(inflated_bytes=13 << 20))


def test_a_directory_as_large_as_a_bomb_is_not_read(tmp_path: Path) -> None:
    content = bytearray(archive(sample()))
    end = content.rindex(b"PK\x05\x06")
    size, offset = struct.unpack_from("<LL", content, end + 12)
    padding = 16 << 20
    content[offset:offset] = bytes(padding)
    struct.pack_into("<LL", content, end + padding + 12, size + padding, offset)
    with pytest.raises(UnreadableSource, match="directory is larger"):
        read(put(tmp_path, bytes(content)), format="inspect-ai")


def test_entries_that_are_damaged_locked_or_packed_oddly_are_rejected_alone(tmp_path: Path) -> None:
    whole = archive(sample(1), sample(2))
    damaged = bytearray(whole)
    at = damaged.index(b"samples/1_epoch_1.json") + 40
    damaged[at : at + 8] = b"\xff" * 8
    locked = bytearray(whole)
    entry = locked.rindex(b"PK\x01\x02", 0, locked.rindex(b"samples/1_epoch_1.json"))
    locked[entry + 8] |= 1
    odd = zipped({"samples/1.json": sample(1)}, zipfile.ZIP_LZMA)
    for content, n_runs, reason in ((damaged, 1, "damaged"), (locked, 1, "encrypted")):
        entries = read(put(tmp_path, bytes(content)))
        assert (len(runs(entries)), len(rejected(entries))) == (n_runs, 1)
        assert reason in rejected(entries)[0].reason
    with pytest.raises(UnreadableSource, match="must say what was evaluated"):
        read(put(tmp_path, odd), format="inspect-ai")


def test_of_entries_with_one_name_the_last_holds(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("header.json", json.dumps(HEADER))
        made.writestr("samples/1.json", json.dumps(sample("early")))
        with pytest.warns(UserWarning, match="Duplicate name"):
            made.writestr("samples/1.json", json.dumps(sample("late")))
    assert [run.source for run in runs(read(put(tmp_path, packed.getvalue())))] == ["ulate"]


def test_progress_of_a_zip_ends_at_its_size(tmp_path: Path) -> None:
    seen: list[int] = []
    (source,) = open_sources([put(tmp_path, archive(*[sample(n) for n in range(5)]))]).sources
    assert len(runs(source.entries(seen.append))) == 5
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= source.size_bytes
