"""Frames: every record is a row, no value is lost on the way to Arrow, and no name is more than text in HTML."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin, get_type_hints

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Client, RowList, RowTuple, open_learner
from core.frames import columns_of, html_table
from core.records.answers import RecordAnswer
from core.records.arm_summary import JudgedArm
from core.records.audit import AuditEntry
from core.records.environment import EnvironmentDesign, EnvironmentSummary
from core.records.evaluation_page import Evaluation
from core.records.judgement import JudgedPosterior
from core.records.learner import LearnerSummary
from core.records.limits import LAST_MS
from core.records.observation import Observation
from core.records.run import History
from core.records.run_page import RunRow
from core.records.times import iso

RECORDS: tuple[type, ...] = (
    AuditEntry,
    EnvironmentDesign,
    EnvironmentSummary,
    Evaluation,
    History,
    JudgedArm,
    JudgedPosterior,
    LearnerSummary,
    Observation,
    RecordAnswer,
    RunRow,
)
"""The records of all lists that methods return, and one with bytes."""
ISO_TIMES = {"last_run", "last_updated", "since"}
DURATIONS = {"duration_ms", "late_ms"}

SCALARS: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    type(None): st.none(),
}

CHECKED: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("certainty", "gamma", "threshold"), st.floats(0, 1)),
    **dict.fromkeys(("step_lo", "lo"), st.floats(-9, -1)),
    **dict.fromkeys(("step_hi", "hi"), st.floats(0, 9)),
}
"""Fields that their records check."""

ROWS = [
    RunRow(n, f"r{n}", n, None, None, "selected", "completed", "observed", n, 1, 0, None, 0) for n in range(5)
]

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table><h1>",
    "&lt;b&gt;",
    "$\\alpha$",
    "\x1b[31mred\x00",
    "\u202egnirts",
    "a" * 5_000,
]

FRAME = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}


# Values of any record, and records of any table, by the types of their fields


def hints_of(record: type) -> dict[str, Any]:
    names = getattr(record, "__struct_fields__", None) or getattr(record, "_fields", None)
    hints = get_type_hints(record)
    return {name: hints[name] for name in names or record.__dataclass_fields__}  # type: ignore[attr-defined]


def options_of(hint: object) -> list[Any]:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in {Union, UnionType}:
        return [part for one in get_args(hint) for part in options_of(one)]
    return [hint]


def is_record(hint: object) -> TypeGuard[type]:
    return isinstance(hint, type) and hasattr(hint, "__annotations__") and hint is not datetime


def values(name: str, hint: object) -> st.SearchStrategy[Any]:
    return st.one_of([_values(name, one) for one in options_of(hint)])


def _values(name: str, hint: object) -> st.SearchStrategy[Any]:
    if hint in SCALARS:
        is_iso = hint is str and name in ISO_TIMES
        is_time = hint is int and name.endswith("_ms") and name not in DURATIONS
        at_ms = st.integers(0, LAST_MS)
        return at_ms.map(iso) if is_iso else at_ms if is_time else CHECKED.get(name, SCALARS[hint])
    if is_record(hint):
        return records(hint)
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(inner)
    if get_origin(hint) is dict:
        in_json = values(name, inner[1]).filter(lambda one: one not in {math.inf, -math.inf})
        return st.dictionaries(st.text(max_size=3), in_json, max_size=3)
    if Ellipsis in inner:
        return st.lists(values(name, inner[0]), max_size=3).map(tuple)
    return st.tuples(*[values(name, one) for one in inner])


def records(record: type) -> st.SearchStrategy[Any]:
    return st.builds(record, **{name: values(name, hint) for name, hint in hints_of(record).items()})


def record_of(record: type, row: Mapping[str, Any], before: str = "") -> object:
    """Return the record that a row of a table is of."""
    fields: dict[str, Any] = {}
    for name, hint in hints_of(record).items():
        options = options_of(hint)
        inner = next((one for one in options if is_record(one)), None)
        if inner is None:
            fields[name] = value_of(name, options, row, before)
            continue
        cells = [value for key, value in row.items() if key.startswith(f"{before}{name}_")]
        is_none = type(None) in options and all(one is None for one in cells)
        fields[name] = None if is_none else record_of(inner, row, f"{before}{name}_")
    return record(**fields)


def value_of(name: str, options: list[Any], row: Mapping[str, Any], before: str) -> object:
    is_time = name.endswith("_ms") and name not in DURATIONS
    value = row[f"{before}{name.removesuffix('_ms') if is_time else name}"]
    if isinstance(value, datetime):
        at_ms = round(value.timestamp() * 1000)
        return at_ms if is_time else iso(at_ms)
    return None if value is None else plain_of(options[0], value)


def plain_of(hint: object, value: object) -> object:
    if isinstance(value, list):
        item = get_args(hint)[0]
        return tuple(record_of(item, one) if is_record(item) else plain_of(item, one) for one in value)
    if isinstance(value, str) and get_origin(hint) in {dict, tuple}:
        kind: Any = hint
        return msgspec.json.decode(value, type=kind)
    if isinstance(value, str) and hint is bytes:
        return b64decode(value, validate=True)
    return value


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
@settings(max_examples=12)
@given(data=st.data())
def test_records_come_back_from_arrow_as_they_were(record: type, data: st.DataObject) -> None:
    rows = data.draw(st.lists(records(record), max_size=4))
    table = RowTuple(rows, record).to_arrow()
    assert table.schema.names == [column.name for column in columns_of(record)]
    assert [record_of(record, row) for row in table.to_pylist()] == rows


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
@settings(max_examples=12)
@given(data=st.data())
def test_a_data_frame_has_the_same_columns_and_types_for_any_rows(record: type, data: st.DataObject) -> None:
    rows = data.draw(st.lists(records(record), min_size=1, max_size=4))
    frame, arrow = RowList(rows).to_pandas(), RowList(rows).to_arrow().to_pylist()
    assert len(frame) == len(rows)
    assert frame.dtypes.to_dict() == RowList([], record).to_pandas().dtypes.to_dict()
    for column in columns_of(record):
        if column.kind in {"integer", "text", "boolean", "time"}:
            cells = [None if pd.isna(one) else one for one in frame[column.name].tolist()]
            assert cells == [row[column.name] for row in arrow], column.name


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
def test_columns_have_names_of_their_own(record: type) -> None:
    names = [column.name for column in columns_of(record)]
    assert len(set(names)) == len(names)
    assert {name for name in names if name.endswith("_ms")} <= DURATIONS


def test_types_of_columns() -> None:
    rows = [
        RunRow(1, "a", 0, "m", None, "selected", "completed", "observed", 2**53 + 1, 1, 0, None, 0),
        RunRow(2, "b", None, None, None, "selected", "completed", "observed", None, 1, 0, 5, 0),
    ]
    frame = RowTuple(rows).to_pandas()
    assert frame["tokens"].tolist() == [2**53 + 1, pd.NA]
    assert frame["at"].tolist() == [pd.Timestamp(0, tz="UTC"), pd.NaT]
    assert [str(frame[name].dtype) for name in ("run_no", "tokens", "at", "model")] == [
        "int64",
        "Int64",
        "datetime64[ms, UTC]",
        "string",
    ]
    assert frame.groupby("run_class")["tokens"].sum().tolist() == [2**53 + 1]


class Inner(NamedTuple):
    c: int
    at: str | None


class Outer(NamedTuple):
    b_c: str
    b: Inner


def test_a_name_that_is_taken_becomes_longer() -> None:
    row = Outer("text", Inner(1, "2026-01-06T13:32:06.680Z"))
    assert RowList([row]).to_arrow().to_pylist() == [
        {"b_c": "text", "b__c": 1, "b_at": datetime(2026, 1, 6, 13, 32, 6, 680_000, UTC)}
    ]


# Lists


@pytest.mark.parametrize("kind", [RowList, RowTuple])
def test_a_list_stays_a_list(kind: type[RowList[RunRow]] | type[RowTuple[RunRow]]) -> None:
    rows, plain = kind(ROWS, RunRow), (list if kind is RowList else tuple)(ROWS)
    assert rows == plain
    assert isinstance(rows, list | tuple)
    assert msgspec.json.encode(rows) == msgspec.json.encode(plain)
    assert repr(rows) == repr(plain)
    assert rows[1] == ROWS[1]
    for same in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows), rows[:]):
        assert type(same) is kind
        assert same == rows
        assert same.to_pandas().equals(rows.to_pandas())
    assert rows[9:].to_pandas().columns.tolist() == rows.to_pandas().columns.tolist()
    assert kind().to_pandas().shape == kind().to_arrow().shape == (0, 0)
    with pytest.raises(IndexError):
        rows[9]


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_missing_package_is_named_with_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    make = RowList(ROWS).to_pandas if package == "pandas" else RowList(ROWS).to_arrow
    with pytest.raises(ImportError, match=rf"package {package}, .*armscope-core\[frames\]"):
        make()


# HTML


class Tags(HTMLParser):
    """Tags with their attributes, and the texts between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= set(attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.sampled_from(HOSTILE) | st.text(min_size=1))
def test_names_are_nothing_but_text(name: str) -> None:
    row = AuditEntry(at_ms=0, actor=name, action="note", act=None, detail={name: name}, revision=1)
    html = Tags(RowList([row])._repr_html_())
    assert html.tags == FRAME
    assert {key for key, _ in html.attributes} == {"class", "style"}
    assert all(text.isprintable() for text in html.texts)
    if name.isprintable() and len(name) < 50:
        assert name in html.texts
    assert Tags(html_table([name], [[name]], name)).tags == FRAME


def test_a_table_has_no_colours_of_its_own_and_an_end() -> None:
    many = RowList(ROWS * 2_000)
    html = many._repr_html_()
    assert len(html) < 8_000
    caption = "10,000 rows, the first 20 shown"
    assert caption in Tags(html).texts
    assert "color" not in html
    assert "background" not in html
    assert "5 rows" in Tags(RowList(ROWS)._repr_html_()).texts


# Learners and savings


def test_a_learner_and_a_client_have_short_reprs(tmp_path: Path) -> None:
    with open_learner(tmp_path / "runs.db") as learner:
        for n in range(2):
            learner.record(f"r{n}", arms=["tool:fs:Read", "tool:web:search"], calls=["Read"])
        well = "<Learner default, 2 runs, 2 arms, runs.db>"
        assert repr(learner) == well
        (tmp_path / "runs.db").rename(tmp_path / "away.db")
        (tmp_path / "runs.db").write_bytes(b"another file, which is no database")
        assert repr(learner) == "<Learner default, runs.db>"
    assert repr(learner) == "<Learner default, closed, runs.db>"
    with Client("http://mara:secret@127.0.0.1:9/base", "arms_token", learner="support") as client:
        assert repr(client) == "<Client support, http://127.0.0.1:9/base>"


def test_savings_are_readable(tmp_path: Path) -> None:
    with open_learner(tmp_path / "runs.db") as learner:
        saved = learner.savings()
        lines = str(saved).splitlines()
        assert [line.split("  ")[0] for line in lines] == [
            "may be claimed",
            "savings",
            "compared",
            "left out",
        ]
        assert {"td", "caption"} <= Tags(saved._repr_html_()).tags
        assert saved.facts[2][1] in Tags(saved._repr_html_()).texts
