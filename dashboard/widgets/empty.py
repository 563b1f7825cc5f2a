"""Empty pages: what is missing, the exact command, and a button where there is one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import streamlit as st

from core.settings import DEFAULT_LEARNER, default_database
from dashboard import pages, wording
from dashboard.pages import Page
from dashboard.reading import reading
from dashboard.sentences import Sentence
from dashboard.widgets.navigation import link
from dashboard.widgets.words import muted, section, sentence, small_table
from dashboard.wording import Markdown, Words

_NAME_CHARS: Final = 60


def empty(
    parts: Sentence,
    why: Markdown,
    *,
    rows: Mapping[str, Sequence[object]],
    to_do: Markdown,
    shell: str | None,
    elsewhere: tuple[Page, Markdown] | None = None,
) -> None:
    """Show an empty page: its sentence, on the left the requirements, on the right the one next step.

    ``elsewhere`` is another page for the step, with the words of its link.
    """
    sentence(parts, reading().tokens)
    muted(why)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left:
        section("What is here")
        small_table(rows, alt="What is needed and what is there")
    with right:
        section("What to do")
        with st.container(border=True):
            st.markdown(to_do)
            if shell is not None:
                st.code(shell, language=None, wrap_lines=True)
            if elsewhere is not None:
                link(*elsewhere)


def not_named(
    thing: Markdown,
    name: str,
    *,
    unnamed: Markdown,
    unknown: Markdown,
    needed: Markdown,
    to_do: Markdown,
    listed_by: str,
) -> None:
    """Show that the address names no thing of the page, or an unknown one; the command ``listed_by`` lists them."""
    empty(
        (f"There is no such {thing}." if name else f"No {thing} was chosen.",),
        unknown if name else unnamed,
        rows={
            "needed": [needed],
            "now": ["another name" if name else "none"],
            "which is": [":yellow[:material/warning:] missing"],
        },
        to_do=to_do,
        shell=command(listed_by),
    )


def quoted(name: str) -> Markdown:
    """Return a name of the address in quotes, cut to one line."""
    return f"“{wording.literal(wording.cut_middle(wording.plain(name), _NAME_CHARS))}”"


def no_arms(page_needs: Markdown) -> None:
    """Draw the empty state of every page that needs arms: nothing was recorded yet."""
    frame = reading().frame
    filtered = frame.n_arms > 0
    empty(
        ("No arm passes the filters.",) if filtered else ("Nothing is recorded yet.",),
        f"{page_needs} appears here as soon as there is one arm in view."
        if filtered
        else f"{page_needs} appears here as soon as runs are recorded.",
        rows={
            "needed": ["runs", "arms"],
            "now": [str(frame.n_runs), str(frame.n_arms)],
            "which is": [_verdict(frame.n_runs), _verdict(frame.n_arms)],
        },
        to_do="**Widen the filters** in the row above."
        if filtered
        else "**Import your agent's transcripts**; the format is recognised. Or look at a made-up world first: "
        "`armscope demo`.",
        shell=None if filtered else command("import ~/.claude/projects"),
        elsewhere=None
        if filtered or not reading().may("ingest")
        else (pages.DATA, Words("Drop files here instead")),
    )


def command(rest: str) -> str:
    """Return the command line for the data in view, as every empty page shows it."""
    frame = reading().frame
    before = (
        "" if Path(frame.database) == default_database() else f"--database {shlex.quote(frame.database)} "
    )
    if frame.learner != DEFAULT_LEARNER:
        before += f"--learner {shlex.quote(frame.learner)} "
    return f"armscope {before}{rest}"


def _verdict(number: int) -> str:
    return "✓ fine" if number else ":yellow[:material/warning:] none yet"
