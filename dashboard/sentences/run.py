"""Sentences about one run, and its facts in a line."""

from __future__ import annotations

from typing import Final

import msgspec

from core.flows.queries import RunStory
from dashboard import wording
from dashboard.sentences.phrase import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_CLASS_WORDS: Final = {
    "baseline": "a baseline run",
    "selected": "a selected run",
    "passive": "a run of the passive phase",
    "fallback": "a run without the selector",
    "imported": "an imported run",
}


def run(story: RunStory) -> Sentence:
    """Return the kind of run, the number of included arms, and how many of them were used."""
    facts = story.facts
    name = f"Run {wording.count(facts.run_no)} was "
    if facts.outcome == "empty":
        return composed(name, Phrase("an empty prompt"), ": nothing answered it.")
    n_all, n_in = len(story.arms), story.n_in
    kind = _CLASS_WORDS[facts.run_class]
    arms = (
        f"{wording.count(n_in)} of {wording.things(n_all, 'arm')}"
        if n_all > n_in
        else wording.things(n_in, "arm")
    )
    parts: list[Markdown | Phrase] = [
        *composed(name, f"{kind}: ", Phrase(arms), f" {'were' if n_all != 1 else 'was'} in")
    ]
    if facts.outcome == "observed":
        used = (
            "none of them was used"
            if not story.n_referenced
            else f"{wording.count(story.n_referenced)} were used"
        )
        return composed(*parts, ", ", Phrase(used) if story.n_referenced else used, ".")
    return composed(*parts, ", and ", Phrase("nothing was learned"), " from it.")


def run_facts(story: RunStory, *, year_of_ms: int | None) -> Markdown:
    """Return time, model, channel and actor on one line; foreign text is escaped."""
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
    parts += [
        f"{name} {wording.literal(wording.cut_middle(wording.plain(value), 40))}"
        for name, value in foreign.items()
        if value is not None
    ]
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
    """Return budget, its use, seed, and whether the record replays."""
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
            (chosen.over_budget, "the seeds alone exceed the budget"),
            (chosen.truncated, "truncated: a baseline run that left arms out"),
            (held_ms is not None, f"held since {wording.minute(held_ms)}: its session shares the draw"),
            (story.replays is False and held_ms is None, "the record does not replay"),
        )
        if is_so
    ]
    return "; ".join([budget, coin, *flags])


def run_differs(story: RunStory) -> Markdown | None:
    """Return how the prompt differed from the selection, or None."""
    if not story.differs:
        return None
    names = [wording.literal(wording.short_name(key)) for key in story.differs[:3]]
    more = len(story.differs) - len(names)
    rest = f" and {wording.count(more)} more" if more else ""
    return f"The prompt differs from the selection in {', '.join(names)}{rest}: what was in is what counts."
