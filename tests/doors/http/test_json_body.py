"""Requests: only JSON that every reader reads alike, the learner that is meant, and no refusal that repeats them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import open_learner
from core.doors.exchange import HttpCall
from core.doors.http.openclaw import PREFIX, handle
from core.doors.service import OPENCLAW, Service
from core.errors import InvalidInput
from core.formats.strict import MAX_BODY_BYTES, MAX_DEPTH, json_body
from core.records.actor import Actor, Grant
from core.records.arm import Arm
from tests.doors.examples import ARM
from tests.worlds import context_at

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


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        ((), "default"),
        (("a",), "a"),
        (("a", "default"), "default"),
        (("a", "openclaw"), "openclaw"),
        (("a", "default", "openclaw"), "openclaw"),
        (("a", "b"), None),
    ],
)
def test_the_learner_of_openclaw_is_found_per_request(
    there: tuple[str, ...], meant: str | None, tmp_path: Path
) -> None:
    """The server starts on an empty file. Learners come later."""
    path = tmp_path / "a.db"
    context = context_at(path)
    service = Service(store=context.store)
    operator = Actor(name="mara", role="operator")
    assert service.context(operator, preferred=OPENCLAW).learner == "default"
    for name in there:
        with open_learner(path, name) as learner:
            learner.record("r1", arms=[Arm(key=ARM)], calls=[])
    asked = HttpCall(method="GET", path=f"{PREFIX}/posteriors", headers={}, query={}, body=b"")
    if meant is None:
        with pytest.raises(InvalidInput, match="'a', 'b'"):
            handle(service, operator, asked)
        return
    assert service.context(operator, preferred=OPENCLAW).learner == meant
    answer = handle(service, operator, asked)
    assert (answer.status, len(json.loads(answer.body))) == (200, len(there) > 0)
    one = Actor(name="bot", role=None, grants=(Grant(role="read", learner="a"),))
    if "a" in there:
        assert service.context(one, preferred=OPENCLAW).learner == "a", "its only one"
