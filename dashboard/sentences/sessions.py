"""Sentences of the pages of sessions."""

from __future__ import annotations

from collections.abc import Sequence

from core.records.run_page import SessionRow
from core.records.times import MINUTE_MS
from dashboard import wording
from dashboard.sentences.phrase import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_PICO = 1e12


def sessions(rows: Sequence[SessionRow], *, at_most: int) -> Sentence:
    """Return how many sessions are listed, and with how many runs."""
    if not rows:
        return composed("No run in this view ", Phrase("names a session"), ".")
    n_runs = sum(row.n_runs for row in rows)
    listed = wording.things(len(rows), "session")
    first = f"The latest {listed}" if len(rows) == at_most else listed
    have = "has" if len(rows) == 1 else "have"
    return composed(Phrase(first), f" {have} {wording.things(n_runs, 'run')}.")


def session(row: SessionRow) -> Sentence:
    """Return the session's number of runs, how long they took, and their outcomes."""
    name = wording.literal(wording.cut_middle(wording.plain(row.session), 60))
    runs = Phrase(wording.things(row.n_runs, "run"))
    learned = f"{wording.count(row.n_observed)} {'was' if row.n_observed == 1 else 'were'} observed"
    ended = f", {wording.count(row.n_unfinished)} did not finish" if row.n_unfinished else ""
    return composed("Session ", name, " has ", runs, f": {learned}{ended}.")


def session_facts(row: SessionRow, *, year_of_ms: int | None) -> Markdown:
    """Return times, model, channel, tokens and cost on one line."""
    parts: list[Markdown] = [Words("times unknown")]
    if row.first_ms is not None and row.last_ms is not None:
        minutes = wording.things(round((row.last_ms - row.first_ms) / MINUTE_MS), "minute")
        parts = [f"{wording.minute(row.first_ms, year_of_ms=year_of_ms)} UTC, over {minutes}"]
    for noun, name, number in (("model", row.model, row.n_models), ("channel", row.channel, row.n_channels)):
        if name is not None:
            one = f"{noun} {wording.literal(wording.cut_middle(wording.plain(name), 40))}"
            parts.append(one if number == 1 else wording.things(number, noun))
    parts.append(f"{wording.count(row.tokens)} tokens of {wording.things(row.n_tokens, 'run')}")
    if row.n_costs:
        parts.append(f"{session_cost(row)} by the prices of its runs' time")
    return Words(" · ").join(parts)


def session_cost(row: SessionRow) -> Words:
    """Return the cost of a session, "–" where no run has one.

    >>> session_cost(SessionRow("s", 1, None, None, 0, 0, 0, 0, 0, 0, None, 0, None, 0))
    '–'
    """
    return wording.money(row.cost_pico / _PICO) if row.n_costs else wording.MISSING
