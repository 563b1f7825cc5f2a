"""A browser that gave itself a name, where people do not sign in; an operator may confirm the name."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from core.errors import InvalidInput
from core.records.actor import IN_BROWSER, NOT_SIGNED_IN, Actor
from core.records.member import check_member_name

MAX_BROWSER_CHARS: Final = 40


class NamedBrowser(NamedTuple):
    """A browser with the name that it gave itself, and the user of the machine."""

    browser: str
    named: str
    person: str

    @property
    def label(self) -> str:
        """The name and the browser's id, as pages and commands show them."""
        return f"{self.named} {self.browser}"


class BrowserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that judged or holds an item under a name of its own.

    ``browser`` is its name and its id. ``person`` is the machine's user, who counts as the rater until an operator
    confirms ``name``. ``id`` is the act of the confirmation, None without one. ``n_judged`` counts its counted
    judgements, ``last_ms`` is the time of the latest.
    """

    browser: str
    name: str
    person: str
    id: str | None
    by: str | None
    at_ms: int | None
    n_judged: int
    last_ms: int | None


class BrowserAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A confirmed name; ``id`` is what undo takes. ``n_judged`` judgements count as those of ``name``."""

    id: str
    browser: str
    name: str
    n_judged: int


def check_browser_name(name: str) -> str:
    """Return a browser's name that acts can carry.

    >>> check_browser_name("Kim")
    'Kim'
    """
    if IN_BROWSER in name:
        raise InvalidInput(
            f"The name of a browser must not contain {IN_BROWSER!r}, got {name[:60]!r}.",
            next_step="Let the browser take another name.",
        )
    return check_member_name(name)


def named_browser(actor: Actor) -> NamedBrowser | None:
    """Return the actor's browser; None without one, or if it gave itself no name.

    >>> named_browser(Actor(name="mara", browser="kim 3f2a"))
    NamedBrowser(browser='3f2a', named='kim', person='mara')
    >>> named_browser(Actor(name="mara", browser="3f2a")), named_browser(Actor(name="mara"))
    (None, None)
    """
    named, _, browser = actor.browser.rpartition(" ")
    return NamedBrowser(browser, named, actor.person or actor.name) if named else None


def holding_browser(holder: str) -> NamedBrowser | None:
    """Return the browser that a holder's name is of, if no operator had confirmed it.

    >>> holding_browser("mara · kim 3f2a, not signed in")
    NamedBrowser(browser='3f2a', named='kim', person='mara')
    >>> holding_browser("mara") is holding_browser("mara · a browser 3f2a, not signed in") is None
    True
    """
    person, separator, label = holder.removesuffix(NOT_SIGNED_IN).partition(IN_BROWSER)
    named, _, browser = label.rpartition(" ")
    is_one = separator and named not in {"", "a browser"} and holder.endswith(NOT_SIGNED_IN)
    return NamedBrowser(browser, named, person) if is_one else None
