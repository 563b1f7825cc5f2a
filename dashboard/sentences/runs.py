"""Sentences about the runs on the page, and how far the search went."""

from __future__ import annotations

from collections.abc import Sequence

from core.flows.queries import RunsView
from core.records.run_page import RunRow
from dashboard import wording
from dashboard.sentences.phrase import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words


def runs(view: RunsView, *, newest: bool, narrowed: bool) -> Sentence:
    """Return the mean number of included arms and the number of runs without learning; or that no run matches."""
    rows = view.page.rows
    if not rows:
        if view.page.cut_short:
            return composed(
                "None of the ",
                Phrase(f"{wording.count(view.page.n_looked_at)} runs"),
                " looked at passes the filters.",
            )
        return composed(Phrase("No run"), " passes the filters." if narrowed else " lies in this span.")
    n_arms = sum(row.n_arms for row in rows) / len(rows)
    silent = [row for row in rows if row.outcome != "observed"]
    parts: list[str | Phrase] = [_which(len(rows), newest=newest, narrowed=narrowed), Phrase(_arms(n_arms))]
    were = "was" if round(n_arms) == 1 else "were"
    parts.append(f" {were} in on average; " if len(rows) > 1 else f" {were} in; ")
    if not silent:
        return composed(
            *parts, "something was learned in every run." if len(rows) > 1 else "something was learned."
        )
    n_silent = "it" if len(rows) == 1 else wording.things(len(silent), "run")
    return composed(*parts, Phrase(n_silent), f" {_why(silent)}, so nothing was learned.")


def _arms(n_arms: float) -> Words:
    return wording.things(round(n_arms), "arm")


def _which(n_runs: int, *, newest: bool, narrowed: bool) -> Words:
    runs_ = "run" if n_runs == 1 else f"{wording.count(n_runs)} runs"
    if newest and not narrowed:
        return f"In the last {runs_} "
    such = " that pass the filters" if n_runs > 1 else " that passes the filters"
    which = "last" if newest else ""
    return f"In the {which} {runs_}{such if narrowed else ' shown'} ".replace("  ", " ")


def _why(silent: Sequence[RunRow]) -> Words:
    """Return the reasons why runs taught nothing, as far as they hold for all."""
    reasons = {row.outcome for row in silent}
    if reasons == {"passive"}:
        return Words("were in the passive phase")
    if "passive" in reasons:
        return Words("had no tool call or were in the passive phase")
    return Words("had no tool call")


def runs_counted(view: RunsView, *, newest: bool, narrowed: bool, year_of_ms: int | None) -> Markdown:
    """Return how many runs match, and which are shown."""
    rows, page = view.page.rows, view.page
    if not rows:
        return _looked(view, year_of_ms)
    total = "" if view.n_runs is None else f" of {wording.things(view.n_runs, 'run')}"
    if narrowed and total:
        total += " that passes the filters" if view.n_runs == 1 else " that pass the filters"
    which = "the newest " if newest else ""
    words = f"Shown: {which}{wording.count(len(rows))}{total}, {_span(rows, year_of_ms)}."
    return Markdown(f"{words} {_looked(view, year_of_ms)}" if page.cut_short else words)


def _span(rows: Sequence[RunRow], year_of_ms: int | None) -> Words:
    """From when to when the runs shown ended; those without a time come last."""
    timed = [row.at_ms for row in rows if row.at_ms is not None]
    if not timed:
        return Words("without a time")
    first, last = (wording.minute(at_ms, year_of_ms=year_of_ms) for at_ms in (timed[-1], timed[0]))
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def _looked(view: RunsView, year_of_ms: int | None) -> Words:
    """Return how far the search went for rare matches; a click continues it."""
    page = view.page
    if page.cut_short:
        at = page.onward
        back = (
            ""
            if at is None or at.at_ms is None
            else f", back to {wording.minute(at.at_ms, year_of_ms=year_of_ms)} UTC"
        )
        return f"{wording.count(page.n_looked_at)} runs were looked at{back}; there may be more further on."
    return Words("Widen the filters, or the time span in the row above.")


def runs_rest(view: RunsView, by: str) -> Words:
    """Return how many arms of these runs are not shown."""
    n_shown, n_rest = len(view.cells.keys), view.cells.n_rest
    if not n_rest:
        return f"{wording.things(n_shown, 'arm')}, grouped by type"
    which = "most often in" if by == "most in" else "last used"
    return f"the {wording.count(n_shown)} arms {which}; {wording.things(n_rest, 'other arm')} had a part too"
