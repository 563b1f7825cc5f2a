"""Arm: its judgement in a few words, for a cell of a table or a line of the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, assert_never

from core.records.arm_summary import ArmVersions, SkillUse
from core.records.counts import number_of
from core.records.judgement import (
    ENOUGH_PULLS,
    ENOUGH_SESSIONS,
    JudgedPosterior,
    Judgement,
    LimitInForce,
    RecentMean,
)

ONLY_CALLED: Final = "Only called tools are known, so the mean is too high."
"""Warning about a mean of arms whose inventory was inferred from calls."""

NOT_USED: Final = (
    "A run without a reference has three causes that the record can't distinguish: "
    "the arm was not needed, not found or not tried."
)
EFFECT: Final = "What it does for the result is not known."
"""Until a trial or an experiment measures an effect."""

JOINED: Final = "fell on the day {} joined, by it or not"
NOT_WEIGHED: Final = "its cost can't be weighed yet"
"""Instead of a break-even: no recent run offered the arm, or its cost is unknown."""

PICKED: Final = "picked at any use, as nothing limits it"
_REWARDS: Final = frozenset({"person", "grader", "credit"})
"""Sources of observations that are no use of an arm by a run."""

_LIMITS: Final = 3
"""Limits of requests that are shown one by one."""

NOT_OFFERED: Final = "not in the last 25 runs"
"""Instead of a chance of inclusion: none of the latest runs had the arm among its candidates."""
EXCLUDED: Final = "excluded by a setting"
"""Instead of a chance of inclusion, a break-even or a reason: the setting ``excluded_arms`` names the arm."""


def judgement(one: Judgement, *, since: str) -> str:
    """Return the judgement of an arm and its reason. ``since`` is its time, as the client writes times."""
    words = _judged(one, since=since)
    return f"{words}; {EXCLUDED}" if is_excluded(one) else words


def is_excluded(one: Judgement | JudgedPosterior) -> bool:
    """Return whether a setting excludes the arm from the next prompts."""
    return one.no_break_even == "excluded"


def _judged(one: Judgement, *, since: str) -> str:  # noqa: PLR0911, PLR0912 - one a name
    if one.n_named and not one.inclusions:
        return f"only {by_name(one.n_named, one.n_loaded)}"
    match one.name:
        case "poisoned" | "rival" | "drifting" | "rising":
            return _changed(one, since)
        case "stale":
            return f"stale: not observed since {since}"
        case "never_referenced":
            return f"never referenced in {number_of(one.n_observed, 'run')}"
        case "section":
            return "section" if is_excluded(one) else "section, always in"
        case "seed":
            return "seed, always in"
        case "called_only":
            calls = f"called in {one.n_referenced:,} of {number_of(one.n_observed, 'run')}"
            return f"{calls}, last {since}; only called tools are known"
        case "too_early":
            return f"too early: {number_of(one.missing_pulls, missing_noun(one))}"
        case "few_sessions":
            return f"too few sessions: {one.n_sessions:,} of {ENOUGH_SESSIONS}"
        case "worth":
            return f"earns its place: {_break_even(one)}"
        case "not_worth":
            return f"does not earn its place: {_break_even(one)}"
        case "open" if one.break_even is None:
            return f"undecided: {used_in(one)}{_unweighed(one)}"
        case "open":
            return f"undecided: {_break_even(one)}, within its interval"
        case "unopposed":
            return picked(one)
        case "used_often" | "used_seldom":
            return f"{used_in(one)}{_unweighed(one)}"
        case _:
            assert_never(one.name)


def by_name(n_named: int, n_loaded: int) -> str:
    """Return how often an arm was in a prompt by name, and found there.

    >>> by_name(25, 0), by_name(1, 1)
    ('by name in 25 runs, found in none', 'by name in 1 run, found in 1')
    """
    return f"by name in {number_of(n_named, 'run')}, found in {f'{n_loaded:,}' if n_loaded else 'none'}"


def loads(loaded: int, typed: int) -> str:
    """Return in how many sessions a skill was loaded or typed; "" for none.

    >>> loads(3, 1), loads(0, 0)
    ('loaded in 3 sessions, typed in 1 session', '')
    """
    parts = (("loaded", loaded), ("typed", typed))
    return ", ".join(f"{what} in {number_of(n, 'session')}" for what, n in parts if n)


def skill_use(use: SkillUse) -> str:
    """Return the sentences about the evidence of a skill's use."""
    known = loads(use.loaded_sessions, use.typed_sessions)
    sentences = [f"{known[0].upper()}{known[1:]}."] if known else []
    if use.by_text:
        sentences.append("Recognised by its name in the text, where the source names no loads.")
    if use.spellings:
        sentences.append(f"Other spelling: {', '.join(use.spellings)}.")
    return " ".join(sentences)


def versions(answer: ArmVersions) -> str:
    """Return how many versions of an arm's definition are on record, and how many runs have none.

    >>> versions(ArmVersions(arm="tool:fs:Read", versions=(), without=2))
    'No version of its definition is on record. 2 runs have none.'
    """
    n = len(answer.versions)
    head = {0: "No version of its definition is", 1: "1 version of its definition is"}.get(
        n, f"{n:,} versions of its definition are"
    )
    rest = f" {number_of(answer.without, 'run')} have none." if answer.without else ""
    return f"{head} on record.{rest}"


def missing_noun(one: Judgement) -> str:
    """Return the noun of missing pulls: effective ones if there are enough as such."""
    return "more effective pull" if one.pulls >= ENOUGH_PULLS and one.effective_pulls else "more pull"


def used_in(one: Judgement) -> str:
    """Return the share of runs that use an arm, as its interval bounds it; never more precise than one of 100."""
    if one.judged_by is None:
        return "used in an unknown share of runs"
    least, most = math.floor(100 * one.judged_by.lower), math.ceil(100 * one.judged_by.upper)
    match one.name:
        case "used_often":
            return f"used in at least {least} of 100 runs"
        case "used_seldom":
            return f"used in at most {most} of 100 runs"
        case _:
            return f"used in {least} to {most} of 100 runs"


def _unweighed(one: Judgement) -> str:
    """Return why the arm has no break-even; "" for an excluded one, which is named as such anyway."""
    return "" if is_excluded(one) else f"; {picked(one) if one.no_break_even == 'always_in' else NOT_WEIGHED}"


def measured(one: Judgement | JudgedPosterior) -> str:
    """Return what the mean of an arm is the share of: use, use or reward, or presence for a section."""
    if one.arm.startswith("section:"):
        return "in the prompt"
    is_rewarded = any(part.n and part.source in _REWARDS for part in one.sources)
    return "used or rewarded" if is_rewarded else "used"


def picked(one: Judgement | JudgedPosterior) -> str:
    """Return how an arm without a break-even is picked: always, or in more than half of the prompts."""
    return PICKED if one.chance is None or one.chance == 1 else "picked in most prompts, at any use"


def limits_words(limits: Sequence[LimitInForce]) -> str:
    """Return the limits of the latest selections, each with its share if there are several.

    >>> one, two = (LimitInForce(budget_tokens=420, k=k, share=share) for k, share in ((0, 0.8), (4, 0.2)))
    >>> limits_words([one]), limits_words([one, two]), limits_words([])
    ('420 tokens', '420 tokens (80%), 420 tokens and 4 arms (20%)', 'none')
    """
    shown = [f"{_limit_words(one)} ({one.share:.0%})" for one in limits[:_LIMITS]]
    if len(limits) > _LIMITS:
        shown.append(f"others ({sum(one.share for one in limits[_LIMITS:]):.0%})")
    return ", ".join(shown) if len(limits) > 1 else _limit_words(limits[0]) if limits else "none"


def _limit_words(one: LimitInForce) -> str:
    parts = [number_of(n, of) for n, of in ((one.budget_tokens, "token"), (one.k, "arm")) if n]
    return " and ".join(parts) or "none"


def chance_of(one: Judgement | JudgedPosterior) -> str:
    """Return the chance of inclusion of an arm with its standard error, or why it has none."""
    return EXCLUDED if is_excluded(one) else chance_words(one.chance, one.chance_error)


def chance_words(share: float | None, error: float | None = None) -> str:
    """Return a simulated chance of inclusion in whole per cent, with its standard error in points.

    It is never rounded to certainty. A certain chance has no error. None and NaN: the arm was not offered.
    >>> chance_words(0.43, 0.0093), chance_words(0.999, 0.001), chance_words(1.0, 0.0), chance_words(None)
    ('43% ± 0.9', 'over 99% ± 0.1', '100%', 'not in the last 25 runs')
    """
    if share is None or math.isnan(share):
        return NOT_OFFERED
    words = "under 1%" if 0 < share < 0.005 else "over 99%" if 0.995 < share < 1 else f"{share:.0%}"
    return words + (f" ± {100 * error:.1f}" if error else "")


def _changed(one: Judgement, since: str) -> str:
    recent = one.recent
    if recent is None:
        return one.name
    before = f"{of_hundred(recent.mean_before)} before"
    match one.name:
        case "poisoned":
            return f"looks poisoned: {_counted(recent)} since {since}, {before}"
        case "rival":
            return (
                f"gave way to {_named(one.others)}: {of_hundred(recent.mean)} of 100 since {since}, {before}"
            )
        case "drifting" if one.others:
            return f"{JOINED.format(_named(one.others))}: {of_hundred(recent.mean)} of 100 since {since}, {before}"
        case "drifting" if recent.mean == 0:
            return f"fell to nothing: {_counted(recent)} since {since}, {before}"
        case _:
            return f"{one.name}: {of_hundred(recent.mean)} of 100 since {since}, {before}"


def of_hundred(mean: float) -> str:
    """Return a mean as a number of 100, never exactly 0 or 100.
    >>> of_hundred(0.584), of_hundred(0.002), of_hundred(0.998)
    ('58', 'fewer than 1', 'more than 99')
    """
    number = round(mean * 100)
    return "fewer than 1" if number < 1 else "more than 99" if number > 99 else str(number)


def _counted(recent: RecentMean) -> str:
    """Return the number of references and of observations.

    >>> from core.records.judgement import RecentMean
    >>> _counted(RecentMean(since_ms=0, mean=0.0, n=31, mean_before=0.6, n_before=90))
    '0 of 31'
    """
    return f"{round(recent.mean * recent.n):,} of {recent.n:,}"


def _named(arms: tuple[str, ...]) -> str:
    names = [arm.split(":", 2)[2] for arm in arms[:2]]
    more = f" and {len(arms) - 2:,} more" if len(arms) > 2 else ""
    return " and ".join(names) + more if not more else ", ".join(names) + more


def _break_even(one: Judgement) -> str:
    if one.break_even is None:
        return "left out at its cost, however often it is used"
    return f"needs {of_hundred(one.break_even)} of 100 runs"
