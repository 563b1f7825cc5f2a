"""Sentences about inclusion: an arm's chance of being in the next prompt, and its break-even."""

from __future__ import annotations

from collections.abc import Sequence

from core.explained import EXCLUDED, chance_words, is_excluded, limits_words, of_hundred, picked
from core.flows.queries import Inclusion
from core.maths.statistics.inclusion import Chance
from core.records.judgement import Judgement
from dashboard import wording
from dashboard.sentences.judgement import interval
from dashboard.sentences.savings import assigned_words
from dashboard.wording import Words


def worth(
    one: Judgement, token_cost: int | None, *, inclusion: Inclusion, year_of_ms: int | None = None
) -> Words:
    """Return the break-even of an arm at its cost, as Markdown."""
    cost = "unknown cost" if token_cost is None else wording.things(token_cost, "token")
    error = f" (standard error {error_words(one.chance_error)})" if one.chance_error else ""
    chance = f" Its chance of inclusion is **{chance_words(one.chance)}**{error}."
    if one.no_break_even == "not_offered":
        return f"**Not in {_runs(inclusion)}**, so it has no chance of inclusion and no break-even yet."
    if is_excluded(one):
        return Words(f"**{wording.capital(Words(EXCLUDED))}**: it is in no prompt.")
    if one.no_break_even == "unknown_cost":
        return f"Its cost is unknown, so **its use can’t be weighed** under a budget.{chance}"
    if one.no_break_even == "always_in":
        return f"At its {cost} it is **{picked(one)}**.{chance}"
    if one.no_break_even == "never_in" or one.break_even is None:
        return f"At its {cost} **no use** puts it into half of the next prompts.{chance}"
    return (
        f"Its break-even is use in **{of_hundred(one.break_even)} of 100 runs**, at its {cost}. "
        f"{_mean_words(one, year_of_ms)}{chance}"
    )


def error_words(chance_error: float | None) -> Words:
    """Return the standard error of a simulated chance of inclusion.

    >>> error_words(0.0093), error_words(None)
    ('0.9 points', 'none')
    """
    return f"{100 * chance_error:.1f} points" if chance_error else Words("none")


def _mean_words(one: Judgement, year_of_ms: int | None) -> Words:
    if one.name == "section":
        return Words("It is always counted as used, so its mean says nothing.")
    words = f"Its mean is {wording.mean(one.mean)} ({interval(one)})"
    if one.recent is None:
        return f"{words}."
    since = wording.since(one.recent.since_ms, year_of_ms=year_of_ms)
    return f"{words}, over all its time; at {wording.mean(one.recent.mean)} since {since}."


def worth_note(chance: Chance, inclusion: Inclusion) -> Words:
    """Among whose candidates, and how break-even was found."""
    limits = f" Limits of their prompts: {limits_words(chance.limits)}." if chance.limits else ""
    offered = f"{_offered(chance, inclusion)}{limits}{assigned_words(*inclusion.assigned)}"
    if chance.break_even_mean is None:
        return Words(offered)
    return Words(
        f"{offered} Break-even: the mean at which the arm is picked in half of "
        f"{wording.count(inclusion.n_simulations)} simulated selections."
    )


def _offered(chance: Chance, inclusion: Inclusion) -> Words:
    """Return how many of the runs behind the candidates, of its program if there are several, offered an arm."""
    n_offering = chance.n_offering
    if inclusion.of == "none":
        return Words("There is no run yet, so every arm counts as a candidate.")
    if inclusion.n_runs == 1:
        return f"{wording.capital(_runs(inclusion))} {'offered it' if n_offering else 'did not offer it'}."
    if inclusion.n_programs > 1 and n_offering:
        own = "that armscope chose for in its program" if inclusion.of == "chosen" else "of its program"
        runs = f"the latest {wording.things(chance.n_runs, 'run')} {own}"
        return f"{wording.count(n_offering)} of {runs} offered it."
    return f"{wording.count(n_offering) if n_offering else 'None'} of {_runs(inclusion)} offered it."


def _runs(inclusion: Inclusion) -> Words:
    """Return the runs whose candidates represent those of the next one."""
    if inclusion.n_programs > 1:
        chosen = " that armscope chose for" if inclusion.of == "chosen" else ""
        return Words(f"the latest runs{chosen} of {wording.count(inclusion.n_programs)} programs, 25 each")
    runs = "the latest run" if inclusion.n_runs == 1 else f"the latest {wording.count(inclusion.n_runs)} runs"
    return Words(f"{runs} that armscope chose for" if inclusion.of == "chosen" else runs)


def chances_note(inclusion: Inclusion, arms: Sequence[str]) -> Words:
    """Return the candidates behind these chances, and the reason for each missing one."""
    if inclusion.of == "none":
        return Words(
            "Chance of inclusion: simulated with every arm as a candidate, since there is no run yet."
        )
    limits = [f"{limits_words(one)}" for one in inclusion.limits]
    words = (
        f"Chance of inclusion: how likely the arm is picked, simulated on {_runs(inclusion)}."
        f"{' Limits of their prompts: ' if limits else ''}{'; '.join(limits)}{'.' if limits else ''}"
        f"{assigned_words(*inclusion.assigned)}"
    )
    n_excluded = sum(inclusion.arms[arm].no_break_even == "excluded" for arm in arms)
    n_missing = sum(inclusion.arms[arm].no_break_even == "not_offered" for arm in arms)
    parts = {EXCLUDED: n_excluded, "not offered in these runs": n_missing}
    why = [f"{reason} ({wording.things(n, 'arm')})" for reason, n in parts.items() if n]
    return Words(f"{words} No bar: {', '.join(why)}.") if why else words
