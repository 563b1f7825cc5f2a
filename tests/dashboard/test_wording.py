"""Words: what may never be written, no matter what the number or the string."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records.arm import ARM_TYPES
from dashboard import wording
from tests.dashboard.worlds import HOSTILE

PROBABILITY = st.floats(0, 1)
KEYS = st.builds(
    lambda kind, category, name: f"{kind}:{category}:{name}",
    st.sampled_from(ARM_TYPES),
    st.text(string.ascii_letters, min_size=1, max_size=20),
    st.text(min_size=1, max_size=480).filter(str.isprintable),
)


def finished(markdown: str) -> str:
    """What a Markdown reader makes of escaped text."""
    bare = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown)  # backslashes before ASCII punctuation
    return bare.replace("&lt;", "<").replace("&amp;", "&").replace("\u2068", "").replace("\u2069", "")


@given(st.text())
def test_no_mark_reaches_markdown_unescaped(text: str) -> None:
    said = wording.literal(text)
    bare = re.sub(r"\\[!-/:-@\[-`{-~]|&lt;|&amp;", "", said)
    is_id = re.fullmatch(r"[^\W_]+(-[^\W_]+)+", bare.strip("\u2068\u2069"))  # reward-1: no Markdown
    assert is_id or not set(bare) & set(string.punctuation)


@given(st.text())
def test_codes_that_streamlit_replaces_after_markdown_are_broken_up(text: str) -> None:
    shown = finished(wording.literal(text))
    assert not re.search(r":[\w+-]+:|:material/|https?://|www\.|->|<-|--|\w@\w", shown)


@given(st.text())
def test_literal_text_reads_the_same(text: str) -> None:
    shown = finished(wording.literal(text))
    assert shown.replace("\u2060", "") == " ".join(wording.plain(text).replace("\u2060", "").split())


@given(st.text())
def test_nothing_reaches_plotly_that_it_reads(text: str) -> None:
    said = wording.plot_literal(text)
    assert not set("<>{}$") & set(said)
    assert all(entity.startswith(("&amp;", "&lt;", "&gt;", "&#")) for entity in re.findall(r"&\S{0,4}", said))


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_names_stay_short(key: str) -> None:
    assert 1 <= len(wording.short_name(key)) <= wording.NAME_CHARS
    assert 1 <= len(wording.last_name(key)) <= wording.NAME_CHARS


@given(KEYS)
def test_a_cut_name_keeps_its_beginning_and_end(key: str) -> None:
    name, short = wording.plain(wording.full_name(key)), wording.short_name(key)
    assert len(short) <= wording.NAME_CHARS
    if short != name:
        front, _, end = short.partition("…")
        assert name.startswith(front)
        assert name.endswith(end)


@given(PROBABILITY, st.integers(1, 4))
def test_a_mean_is_never_zero_or_one(value: float, decimals: int) -> None:
    said = wording.mean(value, decimals)
    if said[0] in "<>":  # such as <0.01 or >0.99
        return
    assert 0 < float(said) < 1
    assert abs(float(said) - value) <= 0.5 * 10**-decimals + 1e-12


@given(PROBABILITY, PROBABILITY)
def test_an_interval_is_rounded_outwards(one: float, other: float) -> None:
    lower, upper = sorted((one, other))
    low, high = (float(part) for part in wording.interval(lower, upper).split("–"))
    assert low <= lower + 1e-9
    assert high >= upper - 1e-9
    assert high - low <= upper - lower + 0.02 + 1e-9


@given(st.floats(-1e6, 1e6))
def test_minus_is_a_minus(value: float) -> None:
    for said in (wording.change(value, 2), wording.percent(value), wording.count(value)):
        assert "-" not in said
        assert not re.fullmatch(r"[−+]0(\.0+)?%?", said)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_means_that_differ_look_different(one: float, other: float) -> None:
    before, after = abs(one), abs(other)
    if abs(before - after) > 1e-3 and 0.01 < before < 0.99 and 0.01 < after < 0.99:
        said = wording.means(before, after)
        assert said[0] != said[1]


def test_right_to_left_letters_are_isolated() -> None:
    for write in (wording.literal, wording.plot_literal):
        said = write("\u202egnp.exe\u05d0\u05d1")
        assert said.startswith("\u2068")
        assert said.endswith("\u2069")
        assert "\u202e" not in said
