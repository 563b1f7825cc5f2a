"""Browsers that judge where people do not sign in: which there are, and the confirmation of a browser's name.

Until an operator confirms the name, its judgements count as those of the machine's user.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import NotFound
from core.flows.context import Context, listed
from core.records.actor import Actor
from core.records.browser import BrowserAnswer, BrowserRow, check_browser_name, named_browser
from core.store.browsers import add_browser, browser_rows, confirmation_of
from core.store.transaction import Transaction


def browsers(context: Context) -> tuple[BrowserRow, ...]:
    """List the browsers that judge under a name of their own, without sign-in.

    Those come first whose name no operator has confirmed.
    """
    with context.reading() as snapshot:
        return browser_rows(snapshot)


def confirm_browser(
    context: Context, browser: Annotated[str, Meta(description="Its name and its id, as a list shows them.")]
) -> BrowserAnswer:
    """Confirm the name of a browser, so that it counts as a rater of its own.

    This holds for its earlier judgements too. The confirmation is on disk when this returns, and `undo` reverts it:
    the judgements then count as those of the machine's user again. A repeat returns the active one. Raises `NotFound`
    for a browser that neither judged nor holds an item under that name.
    """

    def work(txn: Transaction) -> BrowserAnswer:
        rows = {row.browser: row for row in browser_rows(txn)}
        row = rows.get(browser)
        if row is None:
            known = f"there are {listed(list(rows))}" if rows else "there is none"
            raise NotFound(
                f"A browser must have judged or hold an item under its own name, got {browser[:60]!r}; {known}.",
                next_step="Let it name itself on the page Review, or list those there are.",
            )
        named = check_browser_name(row.name)
        number = confirmation_of(txn, browser_id := browser.rpartition(" ")[2], named)
        if number is None:
            number = add_browser(txn, browser_id, named, txn.own)
            txn.audit("browser", f"browser-{number}", {"browser": browser, "person": row.person})
        return BrowserAnswer(id=f"browser-{number}", browser=browser, name=named, n_judged=row.n_judged)

    return context.write("queue", work)


def actor_of_browser(context: Context, actor: Actor) -> Actor:
    """Return the actor under the browser's name, if an operator confirmed it."""
    one = named_browser(actor)
    if one is None:
        return actor
    with context.reading() as snapshot:
        if confirmation_of(snapshot, one.browser, one.named) is None:
            return actor
    return msgspec.structs.replace(actor, name=one.named, person=one.person)
