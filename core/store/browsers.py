"""Browsers without sign-in: who judged in them, and the names that an operator confirmed.

A judgement counts as one of the machine's user, and as one of the browser's own name once an operator has confirmed
it. Both are read when they are asked for, so a confirmation and its undo hold for earlier judgements too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.records.actor import Actor
from core.records.browser import BrowserRow, NamedBrowser, holding_browser
from core.store.engine.dialect import ACTIVE
from core.store.transaction import Byline, Facts, Transaction

_OF: Final = " FROM judged_in j WHERE j.learner_id = e.learner_id AND j.evaluation_no = e.evaluation_no"
_IS_CONFIRMED: Final = (
    "EXISTS (SELECT 1 FROM browser b WHERE b.learner_id = j.learner_id AND b.browser = j.browser"
    f" AND b.named = j.named AND b.{ACTIVE} AND b.undone = 0)"
)
RATER: Final = f"coalesce((SELECT CASE WHEN {_IS_CONFIRMED} THEN j.named ELSE j.person END{_OF}), e.rater)"
"""The rater of an ``evaluation e``, as it counts now."""
UNCONFIRMED: Final = f"(SELECT j.named || ' ' || j.browser{_OF} AND NOT {_IS_CONFIRMED})"
"""The name and id of the browser of an ``evaluation e``; NULL: confirmed, or there is none."""


def note_browsers(txn: Transaction, browsers: Sequence[tuple[int, NamedBrowser]]) -> None:
    """Record the browsers of new evaluations, by number."""
    values = [value for number, one in browsers for value in (number, *one)]
    txn.connection.insert("judged_in", ("evaluation_no", *NamedBrowser._fields), txn.learner_id, values)


def confirmation_of(facts: Facts, browser: str, named: str) -> int | None:
    """Return the number of the active confirmation of a browser's name."""
    return facts.scalar(
        int,
        f"SELECT browser_no FROM browser WHERE learner_id = ? AND browser = ? AND named = ? AND {ACTIVE}"
        " AND undone = 0 ORDER BY browser_no LIMIT 1",
        [browser, named],
    )


def raters_behind(facts: Facts, rater: str) -> tuple[str, ...]:
    """Return the names under which judgements of a rater may be stored, the own one first."""
    rows = facts.rows(
        "SELECT DISTINCT named, person FROM judged_in WHERE learner_id = ? AND (named = ? OR person = ?)"
        " ORDER BY named, person",
        [rater, rater],
    )
    return tuple(dict.fromkeys((rater, *(name for row in rows for name in row))))


def other_browsers(txn: Transaction, evaluations: Sequence[int]) -> tuple[str, ...]:
    """Return the named browsers, other than the actor's, in which some evaluations were made."""
    rows = txn.rows_in(
        "SELECT DISTINCT browser, named, person FROM judged_in WHERE learner_id = ? AND evaluation_no IN ({})",
        evaluations,
    )
    return tuple(sorted({NamedBrowser(*row).label for row in rows} - {txn.actor.browser}))


def browser_rows(facts: Facts) -> tuple[BrowserRow, ...]:
    """Return every named browser, those that wait for an operator first, then by name."""
    counted: dict[NamedBrowser, tuple[int, int | None]] = {
        NamedBrowser(*key): (int(n), last_ms)
        for *key, n, last_ms in facts.rows(
            "SELECT j.browser, j.named, j.person, sum(e.counts), max(e.at_ms) FROM judged_in j JOIN evaluation e"
            " ON e.learner_id = j.learner_id AND e.evaluation_no = j.evaluation_no"
            " WHERE j.learner_id = ? GROUP BY j.browser, j.named, j.person"
        )
    }
    for holder in facts.column("SELECT DISTINCT actor FROM review_hold WHERE learner_id = ?"):
        one = holding_browser(holder)
        if one is not None:
            counted.setdefault(one, (0, None))
    confirmed: dict[tuple[str, str], tuple[int, str, int]] = {
        (browser, named): (number, actor, at_ms)
        for number, browser, named, actor, at_ms in facts.rows(
            f"SELECT browser_no, browser, named, actor, at_ms FROM browser WHERE learner_id = ? AND {ACTIVE}"
            " AND undone = 0 ORDER BY browser_no DESC"
        )
    }
    persons = {(one.browser, one.named) for one in counted}
    alone = {NamedBrowser(*key, ""): (0, None) for key in confirmed.keys() - persons}
    rows = [
        _row(one, n, last_ms, confirmed.get((one.browser, one.named)))
        for one, (n, last_ms) in (counted | alone).items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.id is not None, row.name.casefold(), row.browser)))


def _row(one: NamedBrowser, n: int, last_ms: int | None, known: tuple[int, str, int] | None) -> BrowserRow:
    number, by, at_ms = known or (0, None, None)
    return BrowserRow(
        browser=one.label,
        name=one.named,
        person=one.person,
        id=f"browser-{number}" if number else None,
        by=by,
        at_ms=at_ms,
        n_judged=n,
        last_ms=last_ms,
    )


def add_browser(txn: Transaction, browser: str, named: str, byline: Byline) -> int:
    """Append a confirmation; return its number."""
    number = txn.append_fact("browser", byline, browser=browser, named=named)
    settle_browsers(txn, [number])
    return number


def settle_browsers(txn: Transaction, numbers: Sequence[int]) -> None:
    """Mark the evaluations of these browsers as changed, as their rater may be another; move the held items."""
    txn.connection.many(
        "UPDATE evaluation SET changed = ? WHERE learner_id = ? AND evaluation_no IN (SELECT j.evaluation_no"
        " FROM judged_in j JOIN browser b ON b.learner_id = j.learner_id AND b.browser = j.browser"
        " AND b.named = j.named WHERE j.learner_id = ? AND b.browser_no = ?)",
        [(txn.revision, txn.learner_id, txn.learner_id, number) for number in numbers],
    )
    rows = txn.rows_in(
        "SELECT DISTINCT browser, named FROM browser WHERE learner_id = ? AND browser_no IN ({})", numbers
    )
    for browser, named in rows:
        _keep_holds(txn, browser, named)


def _keep_holds(txn: Transaction, browser: str, named: str) -> None:
    """Give the review items that a browser holds to its confirmed name; release them without a confirmation."""
    own = Actor(name=named, browser=NamedBrowser(browser, named, named).label, person=named).holder
    if confirmation_of(txn, browser, named) is None:
        txn.run("DELETE FROM review_hold WHERE learner_id = ? AND actor = ?", [own])
        return
    holders = txn.column("SELECT DISTINCT actor FROM review_hold WHERE learner_id = ?")
    txn.connection.many(
        "UPDATE review_hold SET actor = ? WHERE learner_id = ? AND actor = ?",
        [
            (own, txn.learner_id, holder)
            for holder in holders
            if (one := holding_browser(holder)) is not None and (one.browser, one.named) == (browser, named)
        ],
    )
