"""The theme in `.streamlit/config.toml` and the tokens of the charts are one table."""

from __future__ import annotations

import itertools

import pytest

from dashboard.configuration import flatten, options
from dashboard.figures.theme import THEMES, ThemeName, Tokens

PALETTES = ("chartCategoricalColors", "chartSequentialColors", "chartDivergingColors")

LEAST = {
    "light": {"text": 6.0, "chip": 5.8, "band": 4.6, "button": 8.6, "mark": 3.7, "guide": 3.1, "rest": 1.7},
    "dark": {"text": 6.8, "chip": 7.0, "band": 4.6, "button": 4.55, "mark": 5.5, "guide": 3.9, "rest": 2.2},
}


@pytest.mark.parametrize("name", list(THEMES))
def test_colours_are_the_tokens(name: ThemeName) -> None:
    look, set_ = THEMES[name], options()
    expected = {
        "backgroundColor": look.page,
        "secondaryBackgroundColor": look.surface,
        "textColor": look.text,
        "borderColor": look.border,
        "dataframeBorderColor": look.table_border,
        "dataframeHeaderBackgroundColor": look.table_header,
        "primaryColor": look.fill,
        "linkColor": look.accent_text,
        "redColor": look.red,
        "redBackgroundColor": look.red_ground,
        "grayColor": look.gray,
        "grayTextColor": look.markdown_muted,
        "grayBackgroundColor": look.gray_ground,
    }
    for tokens in look.types.values():
        expected |= {
            f"{tokens.streamlit}Color": tokens.mark,
            f"{tokens.streamlit}TextColor": tokens.text,
            f"{tokens.streamlit}BackgroundColor": tokens.chip,
        }
    for option, colour in expected.items():
        assert set_[f"theme.{name}.{option}"] == colour, option


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("name", list(THEMES))
def test_palettes_have_exactly_ten_colours(name: ThemeName, palette: str) -> None:
    colours = options()[f"theme.{name}.{palette}"]
    assert isinstance(colours, list)
    assert len(colours) == len(set(colours)) == 10


@pytest.mark.parametrize("name", list(THEMES))
def test_the_categorical_palette_begins_with_the_types(name: ThemeName) -> None:
    colours = options()[f"theme.{name}.chartCategoricalColors"]
    assert isinstance(colours, list)
    assert colours[:5] == [tokens.mark for tokens in THEMES[name].types.values()]


def test_the_server_is_local_and_silent() -> None:
    set_ = options()
    assert set_["server.address"] == "127.0.0.1"
    assert set_["browser.gatherUsageStats"] is False
    assert set_["runner.magicEnabled"] is False
    assert set_["client.toolbarMode"] == "viewer"


def test_flattening_keeps_false_and_zero() -> None:
    assert flatten({"a": {"b": False, "c": {"d": 0}}}) == {"a.b": False, "a.c.d": 0}


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio by WCAG 2."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _pairs(look: Tokens) -> list[tuple[str, str, str]]:
    """(kind, foreground, ground) of everything that has to be told apart."""
    texts: list[str] = [
        look.text,
        look.muted,
        look.markdown_muted,
        look.accent_text,
        *look.severities.values(),
    ]
    texts += [tokens.text for tokens in look.types.values()]
    marks: list[str] = [tokens.mark for tokens in look.types.values()]
    marks += [look.chart_accent, look.runs["selected"], look.runs["baseline"], look.runs["fallback"]]
    return [
        *[("text", text, ground) for text in texts for ground in (look.page, look.surface)],
        *[("chip", tokens.text, tokens.chip) for tokens in look.types.values()],
        *[("band", text, ground) for text, ground in zip(look.band_text, look.bands, strict=True)],
        ("button", "#FFFFFF", look.fill),
        *[("mark", mark, look.page) for mark in marks],
        *[("guide", guide, look.page) for guide in (look.guide, look.runs["passive"], look.ghost)],
        ("rest", look.other_arms, look.page),
    ]


@pytest.mark.parametrize("name", list(THEMES))
def test_contrast_reaches_what_was_measured(name: ThemeName) -> None:
    for kind, fore, ground in _pairs(THEMES[name]):
        assert contrast(fore, ground) >= LEAST[name][kind], (kind, fore, ground)


@pytest.mark.parametrize("name", list(THEMES))
def test_neighbouring_bands_differ(name: ThemeName) -> None:
    bands = THEMES[name].bands
    for one, other in itertools.pairwise(bands):
        assert 1.2 <= contrast(one, other) <= 2.3


def test_every_type_has_a_shape_of_its_own() -> None:
    for look in THEMES.values():
        assert len({tokens.symbol for tokens in look.types.values()}) == len(look.types)
        assert len({tokens.glyph for tokens in look.types.values()}) == len(look.types)
