"""JavaScript's ways of counting and writing, against Python's where the two agree."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.records.javascript import (
    first_units,
    json_units,
    number,
    quoted,
    rewritten,
    stringify,
    trimmed,
    units,
)
from core.records.limits import LAST_MS
from core.records.times import instant, iso

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)

PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(ANY_TEXT)
def test_units_are_those_of_utf_16(text: str) -> None:
    assert units(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2


@given(st.text(max_size=20), st.integers(0, 45))
def test_the_first_units_are_a_prefix_of_the_encoding(text: str, n_units: int) -> None:
    encoded = text.encode("utf-16-le")
    assert first_units(text, n_units).encode("utf-16-le", "surrogatepass") == encoded[: 2 * n_units]


@given(ANY_TEXT, st.integers(0, 45))
def test_a_cut_is_never_longer_than_asked(text: str, n_units: int) -> None:
    assert units(first_units(text, n_units)) == min(units(text), n_units)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (100.0, "100"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (1.25e22, "1.25e+22"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (5e-324, "5e-324"),
        (2**53 + 1, "9007199254740992"),
        (10**400, "null"),
        (math.nan, "null"),
        (-0.0, "0"),
    ],
)
def test_a_number_is_written_as_javascript_writes_it(value: float, written: str) -> None:
    assert number(value) == written


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_is_the_number(value: float) -> None:
    assert float(number(value)) == value


@given(PLAIN_JSON)
def test_json_is_as_long_as_javascript_makes_it(value: object) -> None:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json_units(value) == units(written)


def test_a_lone_surrogate_is_written_out() -> None:
    assert json_units("\ud83c") == len('"\\ud83c"')


@given(ANY_TEXT)
def test_a_quoted_text_is_read_back(text: str) -> None:
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert json.loads(quoted(text)) == whole
    quoted(text).encode()  # halves of pairs are escaped


@given(ANY_JSON)
def test_what_is_rewritten_is_as_stringify_writes_it(value: object) -> None:
    written = rewritten(json.dumps(value))
    assert written == stringify(json.loads(json.dumps(value)))
    assert rewritten(written) == written
    assert json.loads(written, parse_int=float) == value  # digits beyond a double's are zeros


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ('{"b": 1, "2": 2, "1": 3, "01": 4, "-1": 5}', '{"1":3,"2":2,"b":1,"01":4,"-1":5}'),
        ('{"4294967295": 1, "4294967294": 2}', '{"4294967294":2,"4294967295":1}'),
        ('{"a": 1, "a": 2}', '{"a":2}'),
        ("[1.0, -0.0, -0, 1e2, 1e21, 1e-7, 0.1e1]", "[1,0,0,100,1e+21,1e-7,1]"),
        ("12345678901234567890", "12345678901234567000"),
        ('"\\u00e9\\u2028\\/\\u007f\\u001F\\b"', '"é\u2028/\x7f\\u001f\\b"'),
        ('"\\ud83c\\udfaf"', '"🎯"'),
    ],
)
def test_json_is_rewritten_as_javascript_would(raw: str, written: str) -> None:
    assert rewritten(raw) == written


@pytest.mark.parametrize("raw", ["", "{", '"\\ud83c"', "1e400", "NaN", "[1,]"])
def test_what_is_no_json_is_not_rewritten(raw: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        rewritten(raw)


@pytest.mark.parametrize("char", [chr(point) for point in range(0x3100) if chr(point).isspace()])
def test_white_space_is_javascripts(char: str) -> None:
    only_pythons = {"\x1c", "\x1d", "\x1e", "\x1f", "\x85"}
    assert (trimmed(f"{char}a{char}") == "a") == (char not in only_pythons)


def test_a_byte_order_mark_is_white_space_and_a_joiner_is_not() -> None:
    assert trimmed("\ufeffa\ufeff") == "a"
    assert trimmed("\u200ba\u180e") == "\u200ba\u180e"


@given(st.integers(0, LAST_MS))
@example(12_240_200_811_769)
@example(LAST_MS)
def test_no_millisecond_is_lost(at_ms: int) -> None:
    written = iso(at_ms)
    assert written is not None
    assert (datetime.fromisoformat(written) - instant(0)) / timedelta(milliseconds=1) == at_ms
    assert instant(at_ms) - instant(0) == timedelta(milliseconds=at_ms)
