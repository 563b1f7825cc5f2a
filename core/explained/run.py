"""Run: its outcome and the decision about each arm, their reasons, and what would have flipped them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from core.explained.arm import EXCLUDED
from core.explained.prices import PART_WORDS
from core.records.achieved import SOLVED, OutcomeSource
from core.records.arm import arm_type
from core.records.bill import Spent
from core.records.counts import number_of
from core.records.currency import PICO, money_words
from core.records.evidence import Where
from core.records.model_kinds import offer_words, price_words
from core.records.observation import Observation
from core.records.selection import Reason, Selection

if TYPE_CHECKING:
    from core.flows.queries import ArmFlip, RunArm, RunStory

_BY: Final[dict[OutcomeSource, str]] = {
    "program": "its program states",
    "environment": "its environment paid",
    "person": "people judged",
    "grader": "a model judged",
    "thumb": "rewards of the full run say",
}
NONE: Final = "–"
NOT_RECORDED: Final = "What else was in the prompt is not recorded."
_NAMED: Final = 10
"""Tools outside the prompt that a sentence names; it says how many more there are."""

_WHERE: Final[dict[Where, str]] = {
    "call": "called",
    "typed": "typed by a person",
    "metadata": "in a call's arguments",
    "text": "in the answer",
    "given": "as its source says",
    "always": "always counts",
}
_STATUS: Final = {"aborted": "was aborted", "error": "failed"}
_OF_SIDE: Final = "nothing: its session has this side in an experiment"
_FIXED: Final[Mapping[Reason, str]] = {
    "excluded": "nothing: a setting excluded it",
    "assigned": _OF_SIDE,
    "held_out": _OF_SIDE,
}
"""Reasons that no change of the record's values would have flipped."""

BLIND: Final = (
    "Its arms and its side are hidden until you judge or skip the item of the experiment that you have open."
)


def verdict(story: RunStory) -> str:
    """Return the guard's decision about a run, and its reason.

    Without a real tool call nothing is learned. With one, an arm in the prompt gets 1 if it was referenced, else 0.
    """
    facts = story.facts
    calls = _calls(facts.n_calls, facts.n_real_calls)
    if story.is_blind:
        return f"Recorded with {calls}. {BLIND}"
    if facts.outcome == "empty":
        return "An empty prompt: nothing answered it, so it counts as no run and nothing was learned."
    if facts.run_class == "trial":
        return f"A run of a trial: recorded with {calls}, and nothing was learned from it."
    if facts.outcome == "passive":
        return f"Passive phase: recorded with {calls}, and nothing was learned from it."
    if facts.outcome == "observed":
        n_in, n_used = story.n_in, story.n_referenced
        after = (
            "" if facts.status == "completed" else f" That it {_STATUS[facts.status]} later doesn't matter."
        )
        rest = "" if n_used == n_in else f", the other {n_in - n_used:,} got 0"
        used = f"{n_used:,} of {n_in:,} were referenced and got 1{rest}.{after}{_by_name(story)}"
        judged = f", so every arm in the prompt was judged. {used}"
        if facts.inventory == "inferred":
            judged = f". {called(story)}{after}"
        return f"Observed: {calls}{judged}{_taken_back(story)}"
    why = {
        "conversational": "a run without one is conversation",
        "aborted": "it was aborted before one",
        "error": "it failed before one",
    }
    return f"Nothing was learned: {calls}, and {why[facts.outcome]}. No arm was rewarded or penalised."


def called(story: RunStory) -> str:
    """Return what a run whose prompt is known by calls alone called, with its rewards."""
    others = story.n_in - story.n_referenced
    rest = f" {number_of(others, 'arm')} known by calls of other runs got 0." * bool(others)
    return f"Called: {number_of(story.n_referenced, 'tool')}, rewarded with 1.{rest} {NOT_RECORDED}"


def achieved(story: RunStory) -> str:
    """Return what a run achieved, by whom, and whether it is solved."""
    value, source = story.facts.achieved, story.facts.achieved_by
    if value is None or source is None:
        return "What it achieved is not known."
    solved = "solved" if value > SOLVED else "not solved"
    return f"It achieved {value:.4g} of 1, as {_BY[source]}: {solved}."


def _taken_back(story: RunStory) -> str:
    if not story.repairs:
        return ""
    n = sum(arm.taken_back_by is not None for arm in story.arms)
    return f" {' and '.join(story.repairs).capitalize()} took back {n:,} of these rewards."


def _by_name(story: RunStory) -> str:
    if not story.n_named:
        return ""
    arms, were = number_of(story.n_named, "arm"), "was" if story.n_named == 1 else "were"
    n_loaded = f"{story.n_loaded:,}" if story.n_loaded else "none"
    return f" {arms} {were} there by name, and {n_loaded} of them found: nothing was learned of those."


def bill(story: RunStory) -> str | None:
    """Return what a run cost, who used which tokens, and what has no price; None if the token counts say it all."""
    facts = story.facts
    if not facts.bill or (facts.cost_pico is None and len(facts.bill) == 1 and not facts.unpriced):
        return None
    if facts.cost_pico is None:
        # Models come before parts of models, such as "search of n".
        models = sorted(facts.unpriced, key=lambda name: " of " in name)
        cost = f"unknown, because {models[0] if models else 'a model'} has no price"
        missing = [*offer_words(models[:1], facts.price_offers), price_words(models[1:], facts.price_offers)]
    else:
        bound, assumed = "at least " * facts.at_least, ", estimated" * facts.estimated
        cost = f"{bound}{money_words(facts.cost_pico / PICO, facts.currency)}{assumed}"
        missing = [price_words(facts.unpriced, facts.price_offers)]
    used = (_used(row, facts.model) for row in facts.bill)
    return " ".join((f"Cost: {cost}.", *used, *filter(None, missing)))


def _used(row: Spent, model: str | None) -> str:
    who = "The agent" if row.owner == "agent" else "Its sub-agents"
    counts = {name: getattr(row, part) for part, name in PART_WORDS.items() if getattr(row, part)}
    split = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    used = [f"{number_of(row.tokens, 'token')} ({split})"] if split else []
    if row.total:
        used.append(f"at least {number_of(row.total, 'token')} of an unknown split")
    if row.searches:
        used.append(f"{row.searches:,} web search{'' if row.searches == 1 else 'es'}")
    if row.unread:
        used.append(f"{number_of(row.unread, 'spend')} that armscope does not understand")
    by = row.model or (model if row.tokens else None) or "an unknown model"
    how = [*row.tiers, *([f"region {row.region}"] if row.region else [])]
    how += [f"requests above {row.context:,} tokens"] if row.context else []
    apart = f" ({', '.join(how)})" if how else ""
    return f"{who} used {' and '.join(used)} with {by}{apart}."


def _calls(n_calls: int, n_real: int) -> str:
    if n_real:
        other = f" (of {n_calls:,})" if n_calls > n_real else ""
        return f"{number_of(n_real, 'real tool call')}{other}"
    return "no real tool call" if not n_calls else f"no real tool call, only {n_calls:,} of meta tools"


def side(story: RunStory) -> str | None:
    """Return the side of the run's session in an experiment; None without one."""
    one = story.assigned
    return None if one is None else f"In {story.experiment} its session is on the side {one.side} {one.arm}."


def not_offered(story: RunStory) -> str | None:
    """Return the called tools without an arm in the prompt, in a sentence; None if there are none."""
    missing = story.facts.not_offered
    if not missing:
        return None
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return f"Called without an arm in the prompt: {', '.join(missing[:_NAMED])}{more}."


class Decided(Protocol):
    """Decision about one arm in one run."""

    @property
    def reason(self) -> Reason | None: ...
    @property
    def token_cost(self) -> int | None: ...
    @property
    def budget_left(self) -> int | None: ...


def why(arm: Decided) -> str:
    """Return why an arm was in or out, in a few words."""
    if arm.reason is None:
        return NONE
    if arm.reason == "budget":
        left = NONE if arm.budget_left is None else f"{arm.budget_left:,}"
        return f"budget: {left} left"
    return {
        "seed": "seed",
        "under_explored": "under-explored",
        "draw": "draw",
        "baseline": "baseline",
        "passive": "passive phase",
        "assigned": "an experiment has it in",
        "k": "enough arms were in",
        "excluded": EXCLUDED,
        "held_out": "an experiment has it out",
    }[arm.reason]


def flip(arm: RunArm, story: RunStory) -> str:
    """Return the changes that would each have flipped the decision about an arm, all else being equal.

    The packer computes them from the recorded order. Draws are rounded so that the written number is enough.
    """
    if arm.reason is None or story.selection is None:
        return NONE
    if arm.reason in _FIXED:
        return _FIXED[arm.reason]
    if arm.flip is None:
        return "unknown: the record doesn't replay"
    if arm.reason in {"budget", "k"}:
        return _into_prompt(arm, arm.flip, story.selection)
    if arm.reason == "draw":
        return _out_of_prompt(arm, arm.flip, story)
    return {
        "seed": "nothing: a seed is always in",
        "under_explored": "more pulls, so that a draw decides",
        "baseline": "another random order, or a selected run",
        "passive": "nothing: in the passive phase all are in",
    }[arm.reason]


def _into_prompt(arm: RunArm, flip: ArmFlip, chosen: Selection) -> str:
    ways = []
    if flip.draw is not None and arm.draw is not None:
        ways.append(f"a draw of at least {_draws(flip.draw, arm.draw, up=True)}")
    elif flip.rank is not None and not arm.by_draw:
        order = "the order of pulls" if chosen.run_class == "selected" else "the random order"
        ways.append(f"rank {flip.rank:,} or before in {order}")
    if flip.budget is not None:
        ways.append(f"{_tokens(flip.budget - chosen.budget_tokens)} more")
    elif flip.more_than_budget is not None:
        ways.append(f"over {_tokens(flip.more_than_budget - chosen.budget_tokens)} more")
    if flip.cost is not None:
        ways.append(f"a cost of at most {flip.cost:,}")
    if flip.k is not None:
        ways.append(f"room for {flip.k:,} arms")
    words = f"in with {', or '.join(ways)}" if ways else "nothing about this arm alone"
    # "no draw": even the highest draw would have left the arm out.
    return f"no draw; {words}" if arm.by_draw and flip.draw is None else words


def _out_of_prompt(arm: RunArm, flip: ArmFlip, story: RunStory) -> str:
    if flip.draw is not None and arm.draw is not None:
        return f"left out with a draw of at most {_draws(flip.draw, arm.draw, up=False)}"
    if story.k is None:
        return "unknown: the limit on arms in force is not recorded"
    return "no draw would have left it out"


def _draws(needed: float, own: float, *, up: bool) -> str:
    """Return a needed draw, rounded so that it is enough and differs from the arm's own draw.
    >>> _draws(0.7331, 0.5118, up=True), _draws(0.51205, 0.51204, up=True), _draws(0.4128, 0.5, up=False)
    ('0.734', '0.51205', '0.412')
    """
    for digits in range(3, 17):
        scale = 10**digits
        rounded = (math.ceil(needed * scale) if up else math.floor(needed * scale)) / scale
        is_enough = 0 <= rounded <= 1 and (rounded >= needed if up else rounded <= needed)
        is_close = abs(rounded - needed) <= abs(needed - own)
        if is_enough and is_close and f"{rounded:.{digits}f}" != f"{own:.{digits}f}":
            return f"{rounded:.{digits}f}"
    return repr(needed)


def state(arm: RunArm) -> str:
    """Return how an arm was in the prompt."""
    return {"in full": "in", "by name": "by name", "out": "out"}[arm.state]


def evidence(arm: RunArm, story: RunStory) -> str:
    """Return how an arm was recognised, or that it was not."""
    if not arm.in_prompt:
        return NONE
    if arm.loaded:
        return "found by name"
    if arm.referenced:
        return NONE if arm.where is None else recognised(arm.arm, arm.where, n_calls=0)
    return recognised(arm.arm, None, n_calls=story.facts.n_calls)


def recognised(key: str, where: Where | None, *, n_calls: int) -> str:
    """Return how an arm in the prompt was recognised; ``where`` None: it was not, in so many calls."""
    if where is not None:
        return "loaded" if where == "call" and arm_type(key) == "skill" else _WHERE[where]
    in_calls = f" in {number_of(n_calls, 'call')}" if n_calls else ""
    return {
        "tool": f"not called{in_calls}",
        "skill": "not named",
        "file": "not named",
        "memory": "not quoted",
        "section": "not referenced",
    }[arm_type(key)]


def observed(arm: RunArm) -> str:
    """Return the rewards of an arm that count in this run: the automatic one or its correction, then feedback."""
    corrections = [row for row in arm.by_hand if row.kind == "correction" and row.counts]
    feedback = [row for row in reversed(arm.by_hand) if row.kind != "correction" and row.counts]
    parts = []
    if corrections:
        was = "" if arm.reward is None else f", was {_reward(arm.reward)}"
        parts.append(f"◆ {_reward(corrections[0].reward)} corrected by hand ({corrections[0].id}{was})")
    elif arm.taken_back_by is not None:
        parts.append(f"not judged: {arm.taken_back_by} took back {_reward(arm.reward or 0.0)}")
    elif arm.reward is not None:
        parts.append(f"{'●' if arm.reward == 1 else '×'} {_reward(arm.reward)}")
    parts += [f"◆ {_reward(row.reward)} by hand ({row.id})" for row in feedback]
    return "; ".join(parts) if parts else NONE


def recorded(arm: RunArm, story: RunStory) -> str:
    """Return the automatic reward of an arm in a run with its reason, and its correction."""
    corrections = [row for row in arm.by_hand if row.kind == "correction" and row.counts]
    if not arm.in_prompt:
        return "by name" if arm.state == "by name" else "left out"
    words = "not judged" if arm.reward is None else f"automatic {_reward(arm.reward)}, {evidence(arm, story)}"
    if arm.taken_back_by is not None:
        words = f"not judged, {arm.taken_back_by} took back the {words}"
    return f"{words}; corrected to {_reward(corrections[0].reward)}" if corrections else words


def ledger_row(row: Observation) -> str:
    """Return one reward by hand of an arm in this run, and whether it counts."""
    state = "undone" if row.undone else "" if row.counts else replaced(row) or "doesn't count"
    reason = f": {row.reason}" if row.reason else ""
    return (
        f"{row.id} by {row.actor}, {row.kind} {_reward(row.reward)}{f' ({state})' if state else ''}{reason}"
    )


def replaced(row: Observation) -> str | None:
    """Return what replaced a correction, and the effect of its undo; None if nothing did.
    >>> from core.records.observation import Replacement
    >>> row = Observation(id="reward-1", row_no=1, arm="tool:fs:Read", kind="correction", reward=1.0, weight=1.0,
    ...     run="a", run_no=1, reason=None, actor="Jon", at_ms=0, epoch=1, undone=False, counts=False,
    ...     replaced_by=Replacement(id="reward-2", reward=0.5, actor="Priya", at_ms=1))
    >>> replaced(row)
    'replaced by 0.5 of Priya (reward-2); its undo moves nothing while that is active'
    """
    later = row.replaced_by
    if later is None:
        return None
    by = f"{_reward(later.reward)} of {later.actor} ({later.id})"
    return f"replaced by {by}; its undo moves nothing while that is active"


def not_decided(story: RunStory) -> str | None:
    """Return why a run has no decisions; None if it has some."""
    if story.selection is not None or story.is_blind:
        return None
    facts = story.facts
    if facts.outcome == "empty":
        return "Nothing answered this prompt; no arm was put to the test."
    if facts.run_class == "fallback":
        return "The selector was unavailable for this run, so nothing was decided: it went ahead with what it had."
    if facts.run_class == "trial":
        return "This run is of a trial: it teaches nothing and counts in no figure."
    if facts.run_class == "imported":
        known = (
            NOT_RECORDED
            if facts.inventory == "inferred"
            else f"What was in the prompt is known ({facts.inventory}), why it was is not."
        )
        return f"This run was imported, and its source records no decisions. {known}"
    return f"No decisions were recorded with this {facts.run_class} run: what was in the prompt is known, why is not."


def sources(story: RunStory) -> str | None:
    """Return which version of a run is shown, or which import was undone; None if there is one version."""
    versions = story.sources
    if not story.facts.standing:
        undone = [f"import-{one.import_no}" for one in versions if one.undone]
        return f"This run counts nowhere: {' and '.join(undone) or 'its import'} was undone. Redo it to have it back."
    if len(versions) < 2:
        return None
    names = [
        ("recorded directly" if not one.import_no else f"import-{one.import_no}")
        + (" (undone)" if one.undone else "")
        for one in versions
    ]
    return f"Imported {len(versions)} times ({', '.join(names)}); the latest active version is shown."


def _reward(value: float) -> str:
    return f"{value:.1f}" if round(value, 1) == value else f"{value:g}"


def _tokens(tokens: int | None) -> str:
    return "an unknown number of tokens" if tokens is None else number_of(tokens, "token")
