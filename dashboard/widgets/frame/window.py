"""Window: its width, the display modes of the address and the switch, icon and logo, and looks as one style sheet.

The style sheet has what Streamlit's theme has no option for. Should a selector lose its target in a later Streamlit,
the page stays usable: colours fall back to the theme's.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import Final, Literal

import streamlit as st

from dashboard.configuration import PACKAGE
from dashboard.figures.theme import Tokens
from dashboard.sentences.transcript import STEPS
from dashboard.widgets.address import COMPACT
from dashboard.widgets.keys import JUDGE_BAR, JUDGE_EFFECT, JUDGE_SIDE, SLIDE, TURN
from dashboard.widgets.parts import COPIED, HELPING, RIGHT

WIDTH_COOKIE: Final = "armscope-width"
NARROW_PX: Final = 700
_NARROW: Final = "armscope narrow"

FRAME: Final = "frame"
_PICTURES: Final = PACKAGE / "brand"
_HEADER: Final = "3.75rem"
"""Height of Streamlit's own header, with the navigation."""
_MOST_COLUMNS: Final = 7
"""Most columns of a small table."""
_PRESSED: Final = (
    f":is([data-testid=stHeader], .st-key-{FRAME}, .st-key-{TURN}, .stButton, .stDownloadButton, .stPopover, "
    ".stPageLink, .stButtonGroup, .stToast, .armscope-csv, .stExpander:not(:has(details[open])))"
)
_SLIDE: Final = (
    *(
        f"@media (min-width: {width}px) and (min-height: {height}px) {{ :root {{ --grown: {grown}; }} }}"
        for width, height, grown in (
            (0, 0, 1),
            (1_000, 600, 1.1),
            (1_000, 740, 1.35),
            (1_000, 860, 1.6),
            (1_600, 1_040, 2.1),
            (2_400, 1_300, 2.6),
        )
    ),
    "html { font-size: calc(15px * var(--grown)); }",
    f"[data-testid=stHeader], .st-key-{FRAME}, [class*=st-key-turn-Page] {{ display: none; }}",
    "[data-testid=stMainBlockContainer] { padding: 5vh 6vw 5rem; }",
    # Its chart is drawn small, and enlarged with its text.
    f".st-key-{SLIDE} [data-testid=stElementContainer]:has(.js-plotly-plot) "
    "{ width: calc(100% / var(--grown)) !important; overflow: visible; }",
    f".st-key-{SLIDE} .js-plotly-plot {{ overflow: visible !important; }}",
    f".st-key-{SLIDE} .plot-container {{ zoom: var(--grown); }}",
    f".st-key-{TURN} {{ position: fixed; inset: auto 0 0; width: auto; padding: 1vh 6vw; }}",
)
"""A slide fills the window, and its type grows with it."""


def compact() -> bool:
    """Return whether charts are drawn narrow: by the switch, else by the width of the window."""
    if COMPACT in st.session_state:
        return bool(st.session_state[COMPACT])
    return st.query_params[COMPACT].lower() == "true" if COMPACT in st.query_params else is_narrow()


def is_narrow() -> bool:
    """Return whether the window is as narrow as a phone's: by the width in a cookie, else by the browser's headers.

    Cookie and headers came with the connection, so they are read once in a session.
    """
    if _NARROW not in st.session_state:
        width, headers = str(st.context.cookies.get(WIDTH_COOKIE)), st.context.headers
        is_phone = headers.get("Sec-Ch-Ua-Mobile") == "?1" or "Mobile" in (headers.get("User-Agent") or "")
        st.session_state[_NARROW] = int(width) < NARROW_PX if width.isdecimal() else is_phone
    return bool(st.session_state[_NARROW])


@cache
def picture(name: Literal["icon", "logo-light", "logo-dark"]) -> str:
    """Return one of our pictures as a data address, read once; by file name, Streamlit reads it again in every rerun.

    >>> picture("icon")[:26]
    'data:image/svg+xml;base64,'
    """
    return f"data:image/svg+xml;base64,{b64encode((_PICTURES / f'{name}.svg').read_bytes()).decode('ascii')}"


def style(look: Tokens, *, is_slide: bool) -> None:
    """Style the page: selected labels and tabs in accent text (the fill is too dark in dark mode); a slide fills it.

    Key hints and labels of disabled fields, which Streamlit fades, keep a readable contrast. The keyboard's focus is
    visible everywhere, also in Streamlit's navigation. The note in a section's head is no heading. A head alone is as
    high as one with a button. The frame stays visible while the page scrolls, so that its popovers open in view.
    """
    rules = (
        # The font's own distance between words is narrow in bold, and whole pixels make it narrower.
        "html { text-rendering: geometricPrecision; } :is(h2, h3, b, strong) { word-spacing: 0.06em; }",
        'button[data-variant="segmented_control"][aria-checked="true"] p '
        f"{{ color: {look.accent_text}; font-weight: 600; }}",
        f'button[role="tab"][aria-selected="true"] p {{ color: {look.accent_text}; }}',
        f"label[data-testid=stWidgetLabel][disabled] p {{ color: {look.muted}; }}",
        "button kbd[aria-label] { opacity: 1; }",
        f".st-key-{COPIED} [data-testid=stCode] > div "
        "{ opacity: 1; visibility: visible; pointer-events: auto; }",
        # It promises that Ctrl + Enter applies a long text. It sends a reward, and nothing else.
        "[data-testid=stTextArea] [data-testid=InputInstructions] { display: none; }",
        f":is(a, button):focus-visible {{ outline: 2px solid {look.accent_text} !important; outline-offset: 1px; }}",
        f"@media (min-width: 701px) {{ :has(> .st-key-{FRAME}) {{ position: sticky; top: {_HEADER}; z-index: 9; "
        f"background: {look.page}; }} }}",
        f"@media (max-width: 700px) {{ .st-key-{FRAME} > :first-child {{ flex: 1 1 0 !important; min-width: 0; }} "
        f".st-key-{FRAME} > :not(:first-child) {{ flex: 0 0 auto !important; width: auto; }} "
        f".st-key-{FRAME} [data-testid=stPopoverButton] {{ justify-content: flex-start; }} "
        f".st-key-{FRAME} [data-testid=stPopoverButton] p "
        "{ overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } }",
        # Streamlit puts lines without a menu before the menus.
        "[data-testid=stTopNav] > :has(> * > * > [href*='/help']) { order: 99 !important; }",
        # The browser presses it after a pause.
        f".st-key-{JUDGE_EFFECT} {{ display: none; }}",
        # In a narrow window the buttons of a judgement stay in view below its evidence. Keys have no hints.
        "@media (max-width: 700px) { button kbd[aria-label] { display: none; } "
        f".st-key-{JUDGE_BAR} {{ position: fixed; inset: auto 0 0 0; z-index: 9; padding: 0.5rem 1rem; "
        f"background: {look.page}; border-top: 1px solid {look.grid}; }} "
        f"[data-testid=stMainBlockContainer]:has(.st-key-{JUDGE_BAR}) {{ padding-bottom: 14rem; }} }}",
        # In a wide one the whole judgement does, beside them.
        f"@media (min-width: 701px) {{ [data-testid=stColumn]:has(> * > .st-key-{JUDGE_SIDE}) {{ position: sticky; "
        "top: 7rem; align-self: flex-start; max-height: calc(100vh - 7.5rem); overflow-y: auto; } }",
        *_steps(look),
        # Streamlit marks links to the present page, as in a menu.
        f".st-key-{HELPING} [data-testid=stPageLink] a {{ background: transparent; margin-left: -0.5rem; }} "
        f".st-key-{HELPING} [data-testid=stPageLink] a * {{ font-weight: 400; color: {look.accent_text}; }}",
        f".st-key-{HELPING} [data-testid=stMarkdown] a {{ text-decoration: underline; }} "
        f".st-key-{HELPING} button p {{ font-weight: 600; color: {look.accent_text}; }}",
        f".st-key-{HELPING} pre code {{ white-space: pre-wrap !important; overflow-wrap: anywhere; }}",
        f"@media (max-width: 700px) {{ .st-key-{HELPING} :is(td, th) {{ padding: 0.25rem; font-size: 0.8125rem; }} "
        f".st-key-{HELPING} code {{ overflow-wrap: anywhere; white-space: normal; }} }}",
        f".st-key-{HELPING} h2[id] {{ scroll-margin-top: 8rem; }}",
        # Colour belongs to the key phrases of a title.
        "[data-testid=stHeading] h1 a { color: inherit; text-decoration: underline; "
        "text-decoration-thickness: 1px; text-underline-offset: 0.15em; }",
        "[data-testid=stHeading] h2 { padding-block: calc((2.5rem - 1lh) / 2); }",
        "[data-heading-text] span[style] { font-weight: 400; }",
        # As Streamlit's buttons on its big tables: seen where the pointer or the focus is.
        "[data-testid=stTable] { position: relative; } "
        ".armscope-csv { position: absolute; right: 0; top: 0.125rem; z-index: 1; padding: 0.125rem 0.5rem; "
        f"font-size: 0.8125rem; border-radius: 6px; border: 1px solid {look.border}; background: {look.page}; "
        f"color: {look.muted}; cursor: pointer; opacity: 0; }} "
        "[data-testid=stTable]:hover > .armscope-csv, .armscope-csv:focus-visible { opacity: 1; }",
        # Without a pointer Streamlit always shows the buttons above a big table: they need a line of their own.
        "@media (hover: none) { [data-testid=stElementContainer]:has([data-testid=stDataFrame]) "
        "{ margin-top: 1.75rem; } }",
        "@media (hover: none) { .armscope-csv { position: static; margin: 0.25rem 0 0 auto; display: block; "
        "opacity: 1; } }",
        *(
            f"[class*='-{RIGHT}{index}-'] [data-testid=stTable] :is(td, th):nth-child({index}) "
            "{ text-align: right !important; }"
            for index in range(1, _MOST_COLUMNS + 1)
        ),
        # On paper there is nothing to press.
        f"@media print {{ html {{ print-color-adjust: exact; }} {_PRESSED} {{ display: none !important; }} }}",
        *(_SLIDE if is_slide else ()),
    )
    st.html(f"<style>{' '.join(rules)}</style>")


def _steps(look: Tokens) -> tuple[str, ...]:
    """Return the rules of a conversation: a list of steps, where a call is a line that unfolds."""
    code = "font-family: 'Source Code', monospace; font-size: 0.8125rem"
    rules = (
        "{ list-style: none; margin: 0 !important; padding: 0 !important; }",
        f"> li {{ border-left: 3px solid {look.guide}; padding-left: 0.75rem; margin: 0 0 0.75rem; "
        "overflow-wrap: anywhere; font-size: 1rem; }",
        f"> li.user {{ border-color: {look.accent_text}; }}",
        "> li.call:has(+ .call) { margin-bottom: 0; }",
        ":is(.head, summary) { display: flex; gap: 0.5rem; align-items: baseline; padding: 0.125rem 0; "
        "font-size: 0.8125rem; white-space: nowrap; }",
        f":is(summary, small, .when, blockquote) {{ color: {look.muted}; }}",
        ".when { margin-left: auto; }",
        "summary { cursor: pointer; }",
        f"summary > b {{ color: {look.text}; }}",
        f"summary::before {{ content: '+'; width: 0.625rem; flex: none; {code}; }}",
        "[open] > summary::before { content: '−'; }",
        f".gist {{ {code}; overflow: hidden; text-overflow: ellipsis; min-width: 0; }}",
        ":is(p, ul, ol, table, pre, blockquote) { margin: 0 0 0.5rem; }",
        f"pre {{ {code}; white-space: pre-wrap; padding: 0.5rem 0.75rem; border-radius: 6px; "
        f"background: {look.surface}; }}",
        f"code {{ {code}; color: inherit; background: {look.surface}; padding: 0 0.25rem; }}",
        f":is(th, td) {{ padding: 0.125rem 0.5rem; border: 1px solid {look.table_border}; }}",
        "mark { border-radius: 3px; padding: 0 3px; }",
    )
    return tuple(f"ol.{STEPS} {rule}" for rule in rules)
