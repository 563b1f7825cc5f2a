"""HTML of a report: one self-contained document that opens without a network.

It has no script, and its policy forbids any: no connection, no image, no frame. Figures are SVG inside it. Foreign
text reaches it as text only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from markdown_it import MarkdownIt

from core.records.times import instant
from dashboard import wording
from dashboard.figures.chart import Chart
from dashboard.figures.svg import svg
from dashboard.figures.theme import DARK, LIGHT, Tokens, channels, numbered
from dashboard.report.document import LOOK, Figure, Report, Section, Table
from dashboard.report.facts import Query
from dashboard.sentences import Phrase, Sentence

_FEW_COLUMNS: Final = 6
_LONG_CHARS: Final = 24
"""Cells longer than this may break over lines."""
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False})

_FOLD: Final = "<details><summary><h3>"
_PAGE_PX: Final = 848
_PHONE_PX: Final = 368
"""Widths that a figure is drawn for; the style sheet shows one of the two."""


def _values(look: Tokens) -> str:
    """Return the colours of a theme as CSS variables."""
    return " ".join(f"--{at}: {channels(colour)};" for at, colour in enumerate(numbered(look)[1]))


def _by_variable(markup: str, before: str = "") -> str:
    """Return CSS or SVG with a variable for each number of `LOOK`; ``before`` is a look-behind of its place."""
    markup = re.sub(rf"{before}#f0([0-9a-f]{{4}})\b", lambda one: f"rgb(var(--{int(one[1], 16)}))", markup)
    return re.sub(rf"{before}rgba\(240,0,(\d+),", r"rgba(var(--\1),", markup)


_RULES: Final = f"""
:root {{ color-scheme: light dark; {_values(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_values(DARK)} }} }}
body, svg text {{ font-family: "Source Sans 3", "Source Sans Pro", "Helvetica Neue", Helvetica, Arial,
  "DejaVu Sans Condensed", sans-serif; }}
body {{ font-size: 15px; line-height: 1.5; color: {LOOK.text}; background: {LOOK.page};
  max-width: {_PAGE_PX}px; margin: 1.5rem auto 4rem; padding: 0 1rem; }}
h1 {{ font-size: 1.7rem; font-weight: 400; line-height: 1.3; margin: .5rem 0 1rem; }}
h2 {{ font-size: 1.25rem; font-weight: 600; margin: 2.5rem 0 .25rem; }}
h3, h4 {{ font-size: 1.0625rem; font-weight: 600; margin: 1.5rem 0 .25rem; }}
summary h3 {{ display: inline; color: {LOOK.text}; }} section {{ margin: .75rem 0; }}
p {{ margin: .4rem 0; }} .lead {{ font-size: 1.25rem; }} .key {{ color: {LOOK.accent_text}; }}
.muted, small, sup {{ color: {LOOK.muted}; font-size: .8125rem; font-weight: 400; }}
sup {{ line-height: 0; font-size: .6875rem; }}
a {{ color: {LOOK.accent_text}; text-decoration: none; }}
figure {{ margin: .5rem 0; }} .wide, .table, pre {{ overflow-x: auto; }}
svg {{ display: block; max-width: 100%; height: auto; overflow: visible; }} svg.phone {{ display: none; }}
table {{ border-collapse: collapse; width: 100%; font-size: .875rem; }}
th, td {{ border-bottom: 1px solid {LOOK.table_border}; padding: .3rem .6rem; text-align: left;
  white-space: nowrap; vertical-align: top; }}
th {{ color: {LOOK.muted}; font-weight: 400; background: {LOOK.table_header}; }}
td.long {{ white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
section > details > .wide {{ margin: 1rem calc((100% - min(100vw - 3rem, 1130px)) / 2); }}
summary {{ color: {LOOK.muted}; cursor: pointer; font-size: .8125rem; margin: .25rem 0; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .875rem; }}
dt {{ color: {LOOK.muted}; }} dd {{ margin: 0; overflow-wrap: anywhere; }}
@media screen and (max-width: 699px) {{
  h1 {{ font-size: 1.4rem; }} section > details > .wide {{ margin: 1rem 0; }} svg.page {{ display: none; }}
  svg.phone {{ display: block; }} .first th, .first td {{ white-space: normal; padding: .3rem .4rem .3rem 0; }}
  .first td.long {{ min-width: 0; }}
}}
@page {{ margin: 15mm; }}
@media print {{
  body {{ margin: 0 auto; padding: 0; font-size: 10.5pt; }} .first {{ break-after: page; }}
  h2, h3, h4, summary, .lead {{ break-after: avoid; }} figure, tr, p {{ break-inside: avoid; }}
  details::details-content {{ content-visibility: visible; height: auto; }} details > .wide {{ margin: 1rem 0; }}
  .wide, .table, pre {{ overflow: visible; }} pre {{ white-space: pre-wrap; }}
  section table {{ font-size: 7.5pt; }} th, td {{ padding: .15rem .3rem; white-space: normal; }}
  td.long {{ min-width: 0; }}
}}
"""

_STYLE: Final = _by_variable(_RULES)


def rendered(report: Report) -> bytes:
    """Return the document, ready to be written to a file."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    about = dict(report.about)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>armscope: {escape(_words(report.title))}</title><style>{_STYLE}</style></head><body><main>",
        f'<div class="first"><p class="muted">{escape(about["Learner"])} · {escape(about["Data"])}</p>',
        f"<h1>{_sentence(report.title)}</h1>",
        *(f"<p>{_line(line)}</p>" for line in report.lines),
        _first(report.first),
        "</div><h2>Annex</h2>",
        *_numbered(report.sections),
        _questions(report),
        "</main></body></html>\n",
    ]
    return "".join(parts).encode("utf-8", "replace")


def _first(section: Section | None) -> str:
    if section is None:
        return ""
    source = _reference(section.query)
    lines = "".join(f"<p>{_line(line)}</p>" for line in section.lines)
    pictures = "".join(_picture(figure, f"first-{at}") for at, figure in enumerate(section.figures))
    bill = "" if section.table is None else f"<h2>{escape(section.title)}{source}</h2>{_table(section.table)}"
    return f"{lines}{pictures}{bill}"


def _numbered(sections: Iterable[Section]) -> Iterable[str]:
    n_figures = 0
    for section in sections:
        yield _section(section, n_figures)
        n_figures += len(section.figures)


def _section(section: Section, n_before: int) -> str:
    source = _reference(section.query)
    lead = f'<p class="lead">{_sentence(section.sentence)}</p>' if section.sentence else ""
    lines = "".join(f"<p>{_line(line)}</p>" for line in section.lines)
    figures = "".join(
        _figure(figure, section.title, f"figure-{n_before + index}", source)
        for index, figure in enumerate(section.figures)
    )
    whole = "" if section.table is None else _table(section.table)
    return (
        f"<section>{_FOLD}{escape(section.title)}{source}</h3></summary>{lead}{lines}"
        f"{_folded(section.folded)}{figures}{whole}</details></section>"
    )


def _folded(lines: Iterable[str]) -> str:
    inner = "".join(f"<p>{_line(line)}</p>" for line in lines)
    return f"<details><summary>How it is computed</summary>{inner}</details>" if inner else ""


def _figure(figure: Figure, above: str, name: str, source: str) -> str:
    """Return a figure under its title, unless the section ``above`` has the same."""
    note = f" <small>{escape(figure.note)}</small>" if figure.note else ""
    head = f"<h4>{escape(figure.title)}{note}{source}</h4>"
    if figure.title == above:
        head = f"<p>{note}</p>" if note else ""
    return (
        f'{head}{_picture(figure, name)}<details class="figure"><summary>{escape(figure.title)}, as a table'
        f"</summary>{_table(figure.chart.table)}</details>"
    )


def _picture(figure: Figure, name: str) -> str:
    """Return the figure twice, for a page and for a phone."""
    devices = (("page", figure.chart, _PAGE_PX), ("phone", figure.narrow, _PHONE_PX))
    return f"<figure>{''.join(_figure_svg(figure.title, name, *one) for one in devices)}</figure>"


def _figure_svg(title: str, name: str, device: str, chart: Chart, width: int) -> str:
    markup = svg(chart, name=f"{name}-{device}", title=title, width=width)
    return _by_variable(markup.replace("<svg ", f'<svg class="{device}" ', 1), '(?<==")')


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table)
    body = "".join(f"<tr>{''.join(map(_cell, cells))}</tr>" for cells in zip(*table.values(), strict=True))
    width = "wide" if len(table) > _FEW_COLUMNS else "table"
    return f'<div class="{width}"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    if isinstance(value, (int, float)):
        return f'<td class="number">{escape(wording.signed_minus(f"{value:,}"))}</td>'
    text = str(value)
    kind = ' class="long"' if len(text) > _LONG_CHARS else ""
    return f"<td{kind}>{escape(text)}</td>"


def _about(pairs: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in pairs)}</dl>"


def _reference(query: Query) -> str:
    return f' <sup><a href="#query-{query.number}">[{query.number}]</a></sup>'


def _questions(report: Report) -> str:
    rows = "".join(
        f'<tr id="query-{query.number}"><td class="number">{query.number}</td><td class="long">'
        f'{escape(query.question)}</td><td class="long"><code>{escape(query.expression)}</code></td>'
        f"<td><code>{escape(query.command)}</code></td>"
        f"<td>{instant(query.queried_at_ms):%Y-%m-%d %H:%M:%S}</td></tr>"
        for query in report.questions
    )
    return (
        f"<section>{_FOLD}Where the numbers come from</h3></summary>{_about(report.about)}<p>The number in "
        "brackets beside a figure names its question. All of them were answered from the same revision; until "
        "something is written, Python answers them again, where <code>file</code> is the path of the database:</p>"
        f'<pre><code>{escape(report.opening)}</code></pre><div class="wide"><table><thead><tr><th>no.</th>'
        "<th>question</th><th>in Python</th><th>at the command line</th><th>when, UTC</th></tr></thead><tbody>"
        f"{rows}</tbody></table></div></details></section>"
    )


def _sentence(parts: Sentence) -> str:
    return "".join(
        f'<span class="key">{_line(part.text)}</span>' if isinstance(part, Phrase) else _line(part)
        for part in parts
    )


def _line(markdown: str) -> str:
    """Return Markdown of one line as HTML, with the spaces at its ends that join it to its neighbours."""
    inner = _MARKDOWN.renderInline(markdown)
    return f"{' ' * markdown[:1].isspace()}{inner.strip()}{' ' * markdown[-1:].isspace()}"


def _words(parts: Sentence) -> str:
    return "".join(part.text if isinstance(part, Phrase) else part for part in parts)
