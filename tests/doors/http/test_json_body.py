"""Only JSON that every reader reads alike comes in, and a refusal never repeats what was sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.formats.strict import MAX_BODY_BYTES, MAX_DEPTH, json_body

_TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)

BROKEN = {
    "empty": b"",
    "blank": b" \n",
    "cut": b'{"a": "b',
    "two documents": b"{} {}",
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "a float that is none": b'{"a": 1e999}',
    "twice": b'{"a": {"b": 1, "b": 2}}',
    "a surrogate": b'{"a": "\\ud800"}',
    "a surrogate in a key": b'{"\\udfff": 1}',
    "a surrogate as bytes": b'{"a": "\xed\xa0\x80"}',
    "no UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a raw control character": b'{"a": "\x00"}',
    "65 bits": b'{"a": 9223372036854775808}',
    "5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "very deep": b"[" * 10_000,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "large": b'"' + b"x" * MAX_BODY_BYTES + b'"',
    "a comment": b"{} // no",
    "single quotes": b"{'a': 1}",
}


@given(_TREES)
def test_what_is_json_is_read_as_it_is(tree: object) -> None:
    assert json_body(json.dumps(tree).encode()) == tree
    assert json_body(json.dumps(tree, ensure_ascii=False).encode()) == tree


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_is_refused_in_our_own_words(what: str) -> None:
    with pytest.raises(InvalidInput, match=r"^The body must be JSON, got one that ") as refusal:
        json_body(BROKEN[what])
    assert len(str(refusal.value)) < 200


def test_the_deepest_that_is_allowed_is_read() -> None:
    assert json_body(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
