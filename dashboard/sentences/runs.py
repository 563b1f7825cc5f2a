"""Sentences about the runs on the page, about one run with its facts in a line, and of the pages of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from core import explained
from core.flows.queries import RunArm, RunStory, RunsView
from core.records.currency import PICO
from core.records.run_page import RunRow, SessionRow
from core.records.selection import LEFT_OUT
from core.records.times import MINUTE_MS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_CLASS_WORDS: Final = {
    "baseline": "a baseline run",
    "selected": "a selected run",
    "passive": "a run of the passive phase",
    "fallback": "a run without the selector",
    "imported": "an imported run",
    "trial": "a run of a trial",
}


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
    arms = Phrase(wording.things(round(n_arms), "arm"))
    parts: list[str | Phrase] = [_which(len(rows), newest=newest, narrowed=narrowed), arms]
    were = "was" if round(n_arms) == 1 else "were"
    parts.append(f" {were} in on average; " if len(rows) > 1 else f" {were} in; ")
    if not silent:
        return composed(
            *parts, "something was learned in every run." if len(rows) > 1 else "something was learned."
        )
    n_silent = "it" if len(rows) == 1 else wording.things(len(silent), "run")
    return composed(*parts, Phrase(n_silent), f" {_why(silent)}, so nothing was learned.")


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
    """Return the number of runs that an interrupted search looked at, else an advice to widen the filters."""
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


def run(story: RunStory) -> Sentence:
    """Return the kind of run, the number of included arms, and how many of them were used."""
    facts = story.facts
    name = f"Run {wording.count(facts.run_no)} was "
    if facts.outcome == "empty":
        return composed(name, Phrase("an empty prompt"), ": nothing answered it.")
    if story.is_blind:
        return composed(name, Phrase("assigned by an experiment"), ", and it is open for you to judge.")
    n_all, n_in = len(story.arms), story.n_in
    kind = _CLASS_WORDS[facts.run_class]
    if facts.inventory == "inferred":
        tools = f"{wording.things(story.n_referenced, 'tool')} {'was' if story.n_referenced == 1 else 'were'} called"
        return composed(name, f"{kind}: ", Phrase(tools), f". {explained.NOT_RECORDED}")
    arms = (
        f"{wording.count(n_in)} of {wording.things(n_all, 'arm')}"
        if n_all > n_in
        else wording.things(n_in, "arm")
    )
    parts: list[Markdown | Phrase] = [
        *composed(name, f"{kind}: ", Phrase(arms), f" {'were' if n_all != 1 else 'was'} in")
    ]
    if facts.outcome == "observed" and facts.run_class != "trial":
        used = (
            "none of them was used"
            if not story.n_referenced
            else f"{wording.count(story.n_referenced)} were used"
        )
        return composed(*parts, ", ", Phrase(used) if story.n_referenced else used, ".")
    return composed(*parts, ", and ", Phrase("nothing was learned"), " from it.")


def run_facts(story: RunStory, *, year_of_ms: int | None) -> Markdown:
    """Return time, session, model, provider, channel, class, status, unit and source on one line."""
    facts = story.facts
    parts = [
        f"{wording.minute(facts.at_ms, year_of_ms=year_of_ms)} UTC"
        if facts.at_ms is not None
        else "time unknown"
    ]
    if facts.naive_time:
        parts[0] += " (its source names no zone)"
    foreign = {
        "session": facts.session,
        "model": facts.model,
        "provider": facts.provider,
        "channel": facts.channel,
    }
    parts += [f"{name} {wording.short(value)}" for name, value in foreign.items() if value is not None]
    parts += [f"class {facts.run_class}", f"status {facts.status}", f"one {facts.unit}"]
    source = (
        "recorded directly"
        if not facts.import_no
        else f"import-{facts.import_no}, {wording.literal(str(facts.format))}"
    )
    return " · ".join([*parts, source])


def run_tokens(story: RunStory) -> Markdown:
    """Return the parts of the tokens, as far as the source names them."""
    facts = story.facts
    if facts.tokens is None:
        return Words("unknown: the source names none")
    parts = {
        "input": facts.input_tokens,
        "output": facts.output_tokens,
        "cache read": facts.cache_read_tokens,
        "cache write": facts.cache_write_tokens,
    }
    named = [f"{name} {wording.count(value)}" for name, value in parts.items() if value]
    return Markdown(", ".join(named) if named else "a total only")


def selection_note(story: RunStory) -> Markdown:
    """Return budget, its use, the seed of the random numbers, and whether the selector repeats the recorded order."""
    chosen = story.selection
    if chosen is None:
        return wording.things(len(story.arms), "arm")
    used = wording.count(chosen.tokens)
    budget = (
        f"budget {wording.count(chosen.budget_tokens)} tokens, {used} used"
        if chosen.budget_tokens
        else f"no budget, {used} tokens used"
    )
    coin = f"baseline with probability {chosen.baseline_prob:g}, seed {wording.literal(str(chosen.seed))}"
    held_ms = None if chosen.held_since_ms is msgspec.UNSET else chosen.held_since_ms
    flags = [
        words
        for is_so, words in (
            (chosen.over_budget, "the seed arms alone exceed the budget"),
            (chosen.truncated, "truncated: a baseline run that left arms out"),
            (held_ms is not None, f"held since {wording.minute(held_ms)}: its session shares the draw"),
            (story.replays is False and held_ms is None, "the record does not replay"),
        )
        if is_so
    ]
    return "; ".join([budget, coin, *flags])


def is_too_low(arm: RunArm) -> bool:
    """Return whether the limit on arms left an arm out that a higher draw would have put in."""
    return arm.reason == "k" and arm.flip is not None and arm.flip.draw is not None


def decided(arm: RunArm) -> str:
    """Return why an arm was in or out, with its draw, rank and tokens."""
    draw = wording.draw(arm.draw, arm.reason)
    parts = [f"draw {draw}" if arm.reason == "draw" else explained.why(arm)]
    if is_too_low(arm):
        parts = [f"draw {draw} too low"]
    elif draw != wording.MISSING and arm.reason in {"budget", "k"}:
        parts.append(f"draw {draw}")
    if arm.rank is not None:
        parts.append(f"rank {wording.count(arm.rank)}")
    if arm.token_cost is not None:
        parts.append(wording.things(arm.token_cost, "token"))
    return ", ".join(parts)


def left_out(arm: RunArm) -> str:
    """Return why an arm stayed out, in a few words."""
    if is_too_low(arm):
        return "draw too low"
    return "over the token budget" if arm.reason == "budget" else explained.why(arm)


def stayed_out(story: RunStory) -> Markdown | None:
    """Return how many arms stayed out, by reason, and what would have flipped the next in order; None without any."""
    out = [arm for arm in story.arms if arm.state == "out" and arm.reason in LEFT_OUT]
    if not out:
        return None
    reasons = Counter(map(left_out, out)).most_common()
    why = wording.literal(", ".join(f"{words} ({wording.count(n)})" for words, n in reasons))
    first = out[0]
    name, cause = wording.short(wording.short_name(first.arm)), wording.literal(decided(first))
    flip = wording.literal(explained.flip(first, story))
    out_words = f"**{wording.things(len(out), 'arm')} stayed out**: {why}."
    return f"{out_words} The first in order, **{name}**: {cause}; {flip}."


def run_differs(story: RunStory) -> Markdown | None:
    """Return how the prompt differed from the selection, or None."""
    if not story.differs:
        return None
    names = [wording.literal(wording.short_name(key)) for key in story.differs[:3]]
    more = len(story.differs) - len(names)
    rest = f" and {wording.count(more)} more" if more else ""
    return f"The prompt differs from the selection in {', '.join(names)}{rest}: what was in is what counts."


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
    """Return the session's number of runs, of observed ones, and of those that did not finish."""
    name = wording.short(row.session, 60)
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
            one = f"{noun} {wording.short(name)}"
            parts.append(one if number == 1 else wording.things(number, noun))
    parts.append(f"{wording.count(row.tokens)} tokens of {wording.things(row.n_tokens, 'run')}")
    if row.n_costs:
        parts.append(f"{wording.literal(session_cost(row))} by the prices of its runs' time")
    return Words(" · ").join(parts)


def session_cost(row: SessionRow) -> str:
    """Return the cost of a session as plain text, "–" where no run has one.

    >>> session_cost(SessionRow("s", 1, None, None, 0, 0, 0, 0, 0, 0, None, 0, None, 0))
    '–'
    """
    return wording.money(row.cost_pico / PICO, row.currency) if row.n_costs else wording.MISSING
