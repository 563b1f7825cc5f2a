"""HTML of a report: one self-contained document that opens without a network.

Its policy allows the two scripts inside it by their hashes and nothing else: no connection, no foreign image, no
frame. Foreign text reaches it as text only.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import Final

from markdown_it import MarkdownIt

from core.records.times import instant
from dashboard import wording
from dashboard.figures import offline
from dashboard.figures.theme import LIGHT
from dashboard.report.document import Card, Figure, Report, Section, Table
from dashboard.report.facts import Query
from dashboard.sentences import Phrase, Sentence

_LONG_CHARS: Final = 24
"""Cells longer than this may break over lines."""
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False})

_STYLE: Final = f"""
body {{ font: 15px/1.5 "Source Sans 3", "Source Sans Pro", system-ui, sans-serif; color: {LIGHT.text};
  max-width: 1130px; margin: 2rem auto 4rem; padding: 0 1rem; }}
h1 {{ font-size: 1.7rem; font-weight: 400; line-height: 1.3; margin: .5rem 0; }}
h2 {{ font-size: 1.25rem; font-weight: 600; margin: 2.5rem 0 .25rem; }}
h3 {{ font-size: 1.0625rem; font-weight: 600; margin: 1.5rem 0 .25rem; }}
p {{ margin: .4rem 0; }} .lead {{ font-size: 1.25rem; }} .key {{ color: {LIGHT.accent_text}; }}
.muted, small, figcaption, sup {{ color: {LIGHT.muted}; font-size: .8125rem; }}
a {{ color: {LIGHT.accent_text}; text-decoration: none; }} figure {{ margin: 0; }} figure, pre {{ overflow-x: auto; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: .5rem; margin: 1rem 0; }}
.cards div {{ border: 1px solid {LIGHT.border}; border-radius: 6px; padding: .6rem .9rem; }}
.cards b {{ display: block; font-size: 1.6rem; font-weight: 600; line-height: 1.3; }}
table {{ border-collapse: collapse; width: 100%; font-size: .875rem; }}
th, td {{ border-bottom: 1px solid {LIGHT.table_border}; padding: .3rem .6rem; text-align: left;
  white-space: nowrap; }}
th {{ color: {LIGHT.muted}; font-weight: 400; background: {LIGHT.table_header}; }}
td.long {{ white-space: normal; overflow-wrap: anywhere; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
summary {{ color: {LIGHT.muted}; cursor: pointer; font-size: .8125rem; margin: .25rem 0; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .875rem; }}
dt {{ color: {LIGHT.muted}; }} dd {{ margin: 0; overflow-wrap: anywhere; }}
@media print {{ details {{ display: none; }} section, figure {{ break-inside: avoid; }} }}
"""


def rendered(report: Report) -> bytes:
    """Return the document, ready to be written to a file."""
    library = offline.library()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
        f"script-src {_hash(library)} {_hash(offline.SHOW)}"
    )
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>armscope: {escape(_words(report.title))}</title><style>{_STYLE}</style></head><body>",
        f"<main><h1>{_sentence(report.title)}</h1><p>{_line(report.subtitle)}</p>{_about(report.about)}",
        *_numbered(report.sections),
        _questions(report.questions, report.opening),
        f"</main><script>{library}</script><script>{offline.SHOW}</script></body></html>\n",
    ]
    return "".join(parts).encode("utf-8", "replace")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


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
        _figure(figure, f"figure-{n_before + index}", source) for index, figure in enumerate(section.figures)
    )
    whole = (
        ""
        if section.table is None
        else f"<details open><summary>Table</summary>{_table(section.table)}</details>"
    )
    return (
        f"<section><h2>{escape(section.title)}{source}</h2>{lead}{_cards(section.cards, source)}{lines}"
        f"{_folded(section.folded)}{figures}{whole}</section>"
    )


def _folded(lines: Iterable[str]) -> str:
    inner = "".join(f"<p>{_line(line)}</p>" for line in lines)
    return f"<details><summary>How it is computed</summary>{inner}</details>" if inner else ""


def _cards(cards: Iterable[Card], source: str) -> str:
    shown = "".join(
        f"<div><small>{escape(card.label)}{source}</small><b>{escape(card.value)}</b>"
        f"<small>{escape(card.change or '')}</small></div>"
        for card in cards
    )
    return f'<div class="cards">{shown}</div>' if shown else ""


def _figure(figure: Figure, name: str, source: str) -> str:
    chart = figure.chart
    note = f" <small>{escape(figure.note)}</small>" if figure.note else ""
    return (
        f"<h3>{escape(figure.title)}{note}{source}</h3>"
        f'<figure><div data-figure="{name}" role="img" aria-label="{escape(chart.alt)}"></div>'
        f"<figcaption>{escape(chart.alt)}</figcaption></figure>"
        f"<details><summary>{escape(figure.title)}, as a table</summary>{_table(chart.table)}</details>"
        f'<script type="application/json" id="{name}">{offline.as_json(chart)}</script>'
    )


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table)
    body = "".join(f"<tr>{''.join(map(_cell, cells))}</tr>" for cells in zip(*table.values(), strict=True))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


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


def _questions(questions: Iterable[Query], opening: str) -> str:
    rows = "".join(
        f'<tr id="query-{query.number}"><td class="number">{query.number}</td><td>{escape(query.question)}</td>'
        f'<td class="long"><code>{escape(query.expression)}</code></td><td><code>{escape(query.command)}</code></td>'
        f"<td>{instant(query.queried_at_ms):%Y-%m-%d %H:%M:%S}</td></tr>"
        for query in questions
    )
    return (
        "<section><h2>Where the numbers come from</h2><p>The number in brackets beside a figure names its "
        "question. All of them were answered from the same revision; until something is written, Python answers "
        "them again, where <code>file</code> is the path of the database:</p>"
        f"<pre><code>{escape(opening)}</code></pre><table><thead><tr><th>no.</th><th>question"
        f"</th><th>in Python</th><th>at the command line</th><th>when, UTC</th></tr></thead><tbody>{rows}</tbody>"
        "</table></section>"
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
