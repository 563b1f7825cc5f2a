"""The sign-in page for visitors without a session; plain HTML, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from dashboard.configuration import PACKAGE
from dashboard.figures.theme import THEMES, ThemeName
from dashboard.sentences.sign_in import SignInMessage

_PAGE: Final = Template((PACKAGE / "sign_in.html").read_text("utf-8"))


def sign_in_page(message: SignInMessage, links: Sequence[tuple[str, str]]) -> bytes:
    """Return the page with its words and links; the first link is the one to use.

    >>> page = sign_in_page(SignInMessage("Hello <you>.", "Sign in."), [("Sign in", "/sign-in/default")])
    >>> b"Hello &lt;you&gt;." in page, b'href="/sign-in/default"' in page
    (True, True)
    """
    buttons = [
        f'<a{" class=first" if index == 0 else ""} href="{escape(address)}">{escape(words)}</a>'
        for index, (words, address) in enumerate(links)
    ]
    lines = "\n".join(f"<code>{escape(line)}</code>" for line in message.lines)
    fold = f"<details><summary>You run this server?</summary><p>{escape(message.fold)}</p>{lines}</details>"
    return _PAGE.substitute(
        title=escape(message.title),
        text=escape(message.text),
        lines=fold if message.fold else lines,
        links="\n".join(buttons),
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
