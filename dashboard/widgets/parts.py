"""Parts of every page: sentences, section heads, panels that fail alone, links that keep filters, empty pages."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st
from streamlit.cursor import LockedCursor
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import Page as StreamlitPage

from core.errors import ArmscopeError, Denied
from core.flows.context import Context
from core.records.arm import ArmType
from core.records.status import Compacted
from core.settings import DEFAULT_LEARNER, default_database
from dashboard import actions, pages, wording
from dashboard.configuration import PACKAGE
from dashboard.figures.theme import LIGHT, Severity, Tokens
from dashboard.pages import HELP, OVERVIEW, PAGES, Page
from dashboard.reading import reading
from dashboard.sentences import Phrase, Sentence
from dashboard.widgets import address
from dashboard.widgets.fields import lazy_popover
from dashboard.wording import Markdown, Words

COPIED: Final = "copied"
"""Key of what holds a code that is there to be copied: its button is seen without a pointer over it."""
HELPING: Final = "helping"
"""Key of the container with links from the page Help to itself."""
RIGHT: Final = "right"
"""Begins the word that names a column, from 1, of numbers written as text."""
log = logging.getLogger(__name__)
_FOLDER: Final = PACKAGE / "app_pages"
_PAGES: Final = "armscope pages"
_NAME_CHARS: Final = 60
_ICONS: Final[dict[Severity, str]] = {
    "critical": "error",
    "warning": "warning",
    "notice": "info",
    "info": "check_circle",
}


def sentence(parts: Sentence, look: Tokens) -> None:
    """Draw the page's title, its key phrases in accent text."""
    body = "".join(coloured(part.text, look) if isinstance(part, Phrase) else part for part in parts)
    st.title(body, anchor=False)


def coloured(text: Markdown, look: Tokens) -> Markdown:
    """Return Markdown in accent text; the text is Markdown already."""
    return f':color[{text}]{{foreground="{look.accent_text}"}}'


def muted(text: Markdown) -> None:
    """Draw one muted line under a sentence or picture; the text is Markdown already."""
    st.markdown(gray(text))


def compacted(deleted: Compacted | None, unpriced: str = "") -> None:
    """Name the models without a price and the runs that `compact` deleted, on pages that list or compare runs."""
    for words in (unpriced, "" if deleted is None else deleted.words):
        if words:
            muted(wording.literal(words))


def gray(text: Markdown) -> Markdown:
    """Return Markdown in muted text; the text is Markdown already."""
    return f":gray[{text}]"


def paragraphs(*texts: Markdown) -> None:
    """Draw several paragraphs of Markdown as one element: each element costs every rerun."""
    st.markdown("\n\n".join(texts))


def small(text: Markdown) -> Markdown:
    """Return Markdown for notes, times and second lines."""
    return f":small[:gray[{text}]]"


def chip(kind: ArmType) -> Words:
    """Return an arm's type as Markdown.

    >>> chip("tool")
    ':blue-badge[tool]'
    """
    return wording.chip(kind, LIGHT.types[kind].streamlit)


def chipped(arm: str) -> Markdown:
    """Return an arm's type and short name as Markdown."""
    return f"{chip(wording.type_of(arm))} {wording.literal(wording.short_name(arm))}"


def sign(severity: Severity) -> Markdown:
    """Return the icon of a severity in its colour, as Markdown."""
    return f':color[:material/{_ICONS[severity]}:]{{foreground="{reading().tokens.severities[severity]}"}}'


def both_ends(*, wrap: bool = True) -> DeltaGenerator:
    """Return a row of two: the first at its left end, the second at its right.

    Without ``wrap`` the second stays in the row, and a stretched first breaks its lines beside it.
    """
    return st.container(
        horizontal=True,
        horizontal_alignment="distribute",
        vertical_alignment="center",
        gap="small",
        wrap=wrap,
    )


def section(
    title: Markdown,
    note: Markdown = Words(""),
    *,
    table: Mapping[str, Sequence[object]] | None = None,
    key: str = "",
) -> None:
    """Draw a section head with its note on the same line and, at the right, its figure as a table."""
    head = f"{title} {small(note)}" if note else title
    if table is None:
        st.header(head, anchor=False)
        return
    with both_ends():
        st.header(head, anchor=False, width="content")
        behind = lazy_popover("Table", key=f"table {key}")
        if behind is not None:
            with behind:
                as_table(table, alt=f"{title}, as a table")


def as_table(table: Mapping[str, Sequence[object]] | pa.Table, *, alt: str) -> None:
    """Draw a figure's table: text cells only, so nothing in it is read as Markdown."""
    rows = table if isinstance(table, pa.Table) else to_arrow(table)
    st.dataframe(rows, hide_index=True, height="content" if rows.num_rows <= 12 else 420, alt=alt)


def small_table(rows: Mapping[str, Sequence[object]] | pa.Table, *, alt: str) -> None:
    """Draw a small table of our own words; foreign text in it has passed `wording.literal`.

    ``rows`` may be what `to_arrow` made of them: turning them costs more than sending them again.
    """
    table = rows if isinstance(rows, pa.Table) else to_arrow(rows)
    whole = {
        index: column.to_pylist()
        for index, column in enumerate(table.columns)
        if pa.types.is_integer(column.type)
    }
    if not any(number is not None and abs(number) >= 1_000 for cells in whole.values() for number in cells):
        _small_table(table, alt)
        return
    # Streamlit writes no commas, and going through pandas for them costs ten times the table. So they are text,
    # which the style sheet moves to the right: the container's key names the columns.
    for index, cells in whole.items():
        table = table.set_column(index, table.column_names[index], pa.array(map(wording.count, cells)))
    with st.container(key=f"table {' '.join(f'{RIGHT}{index + 1}' for index in whole)} {alt}"):
        _small_table(table, alt)


def _small_table(table: pa.Table, alt: str) -> None:
    cells = {  # a cell such as "> 0.99" is no quotation
        name: pc.replace_substring_regex(column, "^>", r"\\>") if pa.types.is_string(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    st.table(pa.table(cells), border="horizontal", hide_index=True, alt=alt)


def literal_cells(table: Mapping[str, Sequence[object]]) -> dict[str, list[object]]:
    """Return a table whose plain texts, such as amounts of money, are escaped for Markdown."""
    return {
        head: [wording.literal(cell) if isinstance(cell, str) else cell for cell in cells]
        for head, cells in table.items()
    }


def to_arrow(table: Mapping[str, Sequence[object]]) -> pa.Table:
    """Return a table as it travels to the browser; a pandas frame on the way there costs ten times as much."""
    return pa.table({head: _column(list(cells)) for head, cells in table.items()})


def _column(cells: list[object]) -> pa.Array:
    """Return cells of one kind as they are, of several kinds as text."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([str(cell) for cell in cells])


@contextmanager
def panel(name: Markdown, *, still: Words = Words("the rest of the page still works")) -> Iterator[None]:
    """Draw inside; a failure shows ``name``, the error and ``still`` (the parts that work) instead."""
    # A container, and no `st.empty()` that it then fills: when the server's messages are sent between the two, the
    # browser takes the panel out of the page and makes another, and the focus in a table or field of it is gone.
    container = st.container(gap="small")
    try:
        with container:
            yield
    except ArmscopeError as problem:
        _take_out(container)
        _line(name, f"{wording.literal(str(problem))}", still)
    except Exception:
        log.exception("panel %s failed", name)
        _take_out(container)
        _line(name, "The log of the server has the details.", still)


def _take_out(container: DeltaGenerator) -> None:
    """Empty a container with its content."""
    within = container._cursor
    if within is None:  # a script without a page
        return
    *around, index = within.parent_path
    cursor = LockedCursor(root_container=within.root_container, parent_path=tuple(around), index=index)
    DeltaGenerator(root_container=within.root_container, cursor=cursor, parent=container._parent).empty()


def _line(name: Markdown, why: Markdown, still: Words) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f":red[:material/error:] **{name} could not be shown.** {why} :gray[{still.capitalize()}.]"
        )
        st.space("stretch")
        st.button("Retry", type="tertiary", icon=":material/refresh:", key=f"retry {name}")


def shown_to(context: Context, *, n_learners: int) -> dict[str, list[StreamlitPage]]:
    """Return the navigation by group.

    The address of a page that the visitor may not see shows the reason. A page about several learners is in no menu
    of a person with one.
    """
    has_many = n_learners > 1 or context.may("members")
    shown: dict[str, list[StreamlitPage]] = {}
    for page in PAGES:
        if context.may(page.needs):
            shown.setdefault(page.group, []).append(page_of(page, has_many))
        else:
            shown.setdefault("", []).append(_closed(context, page))
    return shown


def every() -> list[StreamlitPage]:
    """Return all pages, for where none can be shown: the address of any is none the less one of ours."""
    return [page_of(page) for page in PAGES]


def page_of(page: Page, has_many: bool = True) -> StreamlitPage:
    """Return the same object for navigation and links; made once in a session, as it looks for its file."""
    pages: dict[tuple[str, bool], StreamlitPage] = st.session_state.setdefault(_PAGES, {})
    is_hidden = page.is_hidden or (page.is_of_many and not has_many)
    if (page.name, is_hidden) not in pages:
        pages[page.name, is_hidden] = st.Page(
            _FOLDER / f"{page.name}.py",
            title=page.title,
            url_path=page.name,
            default=page == OVERVIEW,
            visibility="hidden" if is_hidden else "visible",
        )
    return pages[page.name, is_hidden]


def _closed(context: Context, page: Page) -> StreamlitPage:
    """Return a page for others: it is in no menu, and shows who may open it."""

    def show_reason() -> None:
        st.title(f"{page.title} is not open to you.", anchor=False)
        try:
            context.permit(page.needs)
        except Denied as problem:
            actions.note_refusal(problem)
            st.markdown(f":gray[{wording.literal(str(problem))}]")
        link(OVERVIEW, "Overview")

    return st.Page(show_reason, title=page.title, url_path=page.name, visibility="hidden")


def go(page: Page, **more: str | Sequence[str]) -> NoReturn:
    """Go to a page at once; ``more`` is its address, to which the frame adds the filters.

    What a widget is bound to can't be given along, and the filters' widgets put themselves there again.
    """
    st.switch_page(page_of(page), query_params=more)


def link(page: Page, words: Markdown, **more: str | Sequence[str]) -> None:
    """Draw a link with an arrow that takes the filters along; ``more`` adds to the address."""
    st.page_link(
        page_of(page),
        label=words,
        icon=":material/arrow_forward:",
        icon_position="right",
        query_params={**address.lasting_values(), **more},
    )


def link_by_icon(page: Page, words: Markdown, icon: str) -> None:
    """Draw a link of an icon alone, which takes the filters along; ``words`` name it to who hovers or listens."""
    st.page_link(
        page_of(page), label="", icon=icon, help=words, query_params=address.lasting_values(), width="content"
    )


def how_it_is_computed(topic: str, part: str) -> None:
    """Draw a link to the paragraph of the guide that explains the numbers beside it."""
    link(HELP, "How it is computed", **{address.HELP_TOPIC: topic, address.HELP_PART: part})


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
    return f"“{wording.short(name, _NAME_CHARS)}”"


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
