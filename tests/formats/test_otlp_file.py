"""OTLP in files: the same runs as through the door, over lines and files, in any order."""

from __future__ import annotations

import gzip
import json
from itertools import permutations
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.flows.context import Context
from core.flows.importing import import_files
from core.formats import Limits, recognise
from core.formats.otlp import read_spans, run_or_reason
from tests.formats.builders import lines, names, put, read, rejected, runs
from tests.formats.test_otlp import TRACE, as_json, called, reply, request, span

OTHER = "1af7651916cd43dd8448eb211c80319d"
SPANS = [span(1), reply(2, 1), called(3, 1, "search"), called(4, 1, "read")]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_gives_the_run_that_the_same_bytes_give_through_the_door(
    tmp_path: Path, indent: int | None, packed: bool
) -> None:
    content = json.dumps(request(*SPANS), indent=indent).encode()
    path = put(tmp_path, gzip.compress(content) if packed else content)
    assert recognise(path) == "otlp"
    assert runs(read(path)) == [run_or_reason(read_spans(content, "json").spans)]


def test_a_trace_may_lie_on_many_lines_and_in_many_files_in_any_order(tmp_path: Path) -> None:
    (wanted,) = runs(read(put(tmp_path, as_json(*SPANS))))
    for number, order in enumerate(permutations(SPANS)):
        assert runs(read(put(tmp_path, lines([request(one) for one in (*order, *order)])))) == [wanted]
        folder = tmp_path / str(number)
        folder.mkdir()
        for place, one in enumerate(order):
            put(folder, as_json(one), f"{place}.jsonl")
        assert runs(read(folder)) == [wanted]
        assert runs(read(*sorted(folder.iterdir()), folder / "0.jsonl")) == [wanted]


def test_a_trace_without_a_model_or_a_tool_is_refused_and_counted(tmp_path: Path) -> None:
    plain = [span(1, trace=OTHER), span(2, 1, trace=OTHER, http__method="GET")]
    entries = read(put(tmp_path, lines([request(*SPANS), request(*plain)])))
    assert ([names(run) for run in runs(entries)], [OTHER in one.reason for one in rejected(entries)]) == (
        [["search", "read"]],
        [True],
    )


def test_bad_lines_and_bad_spans_are_named_with_their_line(tmp_path: Path) -> None:
    bad = {**SPANS[0], "traceId": "xyz"}
    content = lines([request(*SPANS), {"resourceSpans": 7}, request(bad)]) + b"{\n"
    entries = read(put(tmp_path, content))
    assert ([one.line for one in rejected(entries)], len(runs(entries))) == ([2, 3, 4], 1)


def test_spans_beyond_the_limit_are_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="must fit into"):
        read(put(tmp_path, as_json(*SPANS)), limits=Limits(document_bytes=300, line_bytes=1 << 20))


def test_again_changes_nothing_and_a_later_span_updates(context: Context, tmp_path: Path) -> None:
    part, whole = put(tmp_path, as_json(*SPANS[:3]), "part"), put(tmp_path, as_json(*SPANS), "whole")
    assert import_files(context, [part]).runs == 1
    assert (import_files(context, [whole]).updated, import_files(context, [whole]).id) == (1, None)
    assert TRACE in runs(read(whole))[0].uid
