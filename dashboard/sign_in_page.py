"""The sign-in page for visitors without a session; plain HTML, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from dashboard.configuration import PACKAGE
from dashboard.figures.theme import THEMES, ThemeName
from dashboard.sentences.sign_in import Told

_PAGE: Final = Template((PACKAGE / "sign_in.html").read_text("utf-8"))


def sign_in_page(told: Told, links: Sequence[tuple[str, str]]) -> bytes:
    """Return the page with its words and links; the first link is the one to use.

    >>> page = sign_in_page(Told("Hello <you>.", "Sign in."), [("Sign in", "/sign-in/default")])
    >>> b"Hello &lt;you&gt;." in page, b'href="/sign-in/default"' in page
    (True, True)
    """
    drawn = [
        f'<a{" class=first" if place == 0 else ""} href="{escape(address)}">{escape(words)}</a>'
        for place, (words, address) in enumerate(links)
    ]
    return _PAGE.substitute(
        title=escape(told.title),
        text=escape(told.text),
        lines="\n".join(f"<code>{escape(line)}</code>" for line in told.lines),
        links="\n".join(drawn),
        light=_colours("light"),
        dark=_colours("dark"),
    ).encode()


def _colours(name: ThemeName) -> str:
    look = THEMES[name]
    named = {
        "page": look.page,
        "surface": look.surface,
        "text": look.text,
        "muted": look.markdown_muted,
        "border": look.border,
        "fill": look.fill,
    }
    return " ".join(f"--{part}: {colour};" for part, colour in named.items())
