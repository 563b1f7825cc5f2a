"""Sentences about judgements of arms: titles and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from core import explained
from core.records.judgement import (
    ALARMS,
    ENOUGH_SESSIONS,
    JUDGEMENTS,
    Judgement,
    JudgementName,
    RecentMean,
    SourceSum,
)
from core.records.observation import Source
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_FEW: Final = 12
"""So many arms are spoken of one by one, more are counted."""

_TOOL_CALLED: Final = "runs with a tool call"
"""The base of every share: other runs teach nothing."""

_CLAUSES: Final = 3
_NAMES: Final = 3

KINDS: Final[Mapping[str, tuple[JudgementName, ...]]] = {
    "look": tuple(ALARMS),
    "worth": ("worth",),
    "not_worth": ("not_worth",),
    "used_often": ("used_often",),
    "used_seldom": ("used_seldom",),
    "early": ("too_early", "few_sessions"),
    "open": ("open",),
    "always": ("seed", "section", "unopposed"),
    "called": ("called_only",),
}
"""Judgements that titles count together, and tables filter together."""
_OF_ONE_AND_MANY: Final[Mapping[JudgementName, tuple[str, str]]] = {
    "poisoned": ("looks poisoned", "look poisoned"),
    "rival": ("gave way to another", "gave way to others"),
    "drifting": ("is drifting", "are drifting"),
    "rising": ("is used more", "are used more"),
    "stale": ("is stale", "are stale"),
    "never_referenced": ("was never referenced", "were never referenced"),
    "section": ("is a section, always in", "are sections, always in"),
    "seed": ("is a seed, always in", "are seeds, always in"),
    "called_only": ("is known by its calls only", "are known by their calls only"),
    "too_early": ("is too little known to judge", "are too little known to judge"),
    "few_sessions": ("has too few sessions to judge", "have too few sessions to judge"),
    "worth": ("earns its place", "earn their place"),
    "not_worth": ("does not earn its place", "do not earn their place"),
    "open": ("is undecided", "are undecided"),
    "unopposed": ("is picked at any use", "are picked at any use"),
    "used_often": ("is used in most runs", "are used in most runs"),
    "used_seldom": ("is used in few runs", "are used in few runs"),
}

_GAVE: Final[Mapping[Source, tuple[str, str]]] = {
    "detector": ("report", " of its agent"),
    "person": ("reward", " by hand"),
    "grader": ("evaluation", ""),
    "credit": ("credit", " of episodes"),
    "carried": ("carried belief", ""),
}
"""Noun and origin of observations beside those of runs."""


def judgement(one: Judgement, *, year_of_ms: int | None = None) -> str:
    """Return an arm's judgement and its basis as plain text for a cell."""
    return wording.plain(explained.judgement(one, since=_since(one, year_of_ms)))


def fitting(one: Judgement, chars: int, *, year_of_ms: int | None = None) -> str:
    """Return it for a narrow cell: its first clause if the whole is too long, and that the arm is excluded."""
    words = judgement(one, year_of_ms=year_of_ms)
    if len(words) <= chars:
        return words
    short = explained.EXCLUDED if explained.is_excluded(one) else words.split("; ")[0].split(", ")[0]
    return wording.cut_middle(short, chars)


def _since(one: Judgement, year_of_ms: int | None) -> Words:
    return Words("" if one.since_ms is None else wording.since(one.since_ms, year_of_ms=year_of_ms))


# One arm


def arm(one: Judgement, *, token_cost: int | None = None, year_of_ms: int | None = None) -> Sentence:
    """Return what runs showed of the arm, what people and graders gave, the belief, and the consequence."""
    inside = f"; in {wording.things(one.inclusions, 'prompt')}."
    if one.name == "section":
        return composed(Phrase("Always counted as used"), " when it is in; its use is not measured", inside)
    if one.pulls == 0 and not any(part.n for part in one.sources):
        share = Phrase(f"{explained.of_hundred(one.mean)} of 100")
        return composed("No observation yet: ", share, " runs is its prior, not a finding", inside)
    since = _since(one, year_of_ms)
    runs = _referenced(one) if one.change is None else _changed(one.change, since)
    belief = (f" Believed {explained.measured(one)}: ", Phrase(wording.mean(one.mean)), ".")
    verdict = _too_early(one) if one.name == "too_early" else _verdict(one, token_cost, since)
    return composed(*runs, inside, _beside(one), *belief, " " if verdict else "", *verdict)


def _referenced(one: Judgement) -> Sentence:
    """Return the runs that referenced the arm, of those that observed it."""
    if not one.n_observed:
        return composed(
            Phrase("Observed in no run"),
        )
    if not one.n_referenced:
        return composed(Phrase("Not used once"), f" in {wording.count(one.n_observed)} {_TOOL_CALLED}")
    share = f"{wording.count(one.n_referenced)} of {wording.count(one.n_observed)}"
    return composed("Used in ", Phrase(share), f" {_TOOL_CALLED}")


def _beside(one: Judgement) -> Markdown:
    """Return what people, graders, episodes and agents gave; "" = nothing."""
    gave = [part for part in one.sources if part.n > 0 and part.source in _GAVE]
    parts = [_part(part) for part in gave if part.source != "detector" or not one.n_observed]
    return Markdown(f" {wording.capital('; '.join(parts))}." if parts else "")


def _part(part: SourceSum) -> Words:
    """Return the number and the mean of one source.

    >>> _part(SourceSum(source="person", n=40, alpha_micro=40_000_000, beta_micro=0))
    '40 accepts by hand, mean 1.0'
    """
    noun, origin = _GAVE[part.source]
    if part.source == "person":
        noun = Words(
            "reward"
            if part.alpha_micro and part.beta_micro
            else "accept"
            if part.alpha_micro
            else "rejection"
        )
    return f"{wording.things(part.n, noun)}{origin}, mean {round(part.mean or 0.0, 2)}"


def _too_early(one: Judgement) -> Sentence:
    """Return how many pulls are missing until there are enough, or until they outweigh the prior."""
    so_far = f" to judge it: {pulls(one)} so far, "
    noun = explained.missing_noun(one)
    is_plain = noun == "more pull"
    missing = Phrase(
        f"{wording.count(one.missing_pulls)} more" if is_plain else wording.things(one.missing_pulls, noun)
    )
    weight = wording.things(round(one.prior_weight), "pull")
    return composed(Phrase("Too early"), so_far, missing, f" needed. Its prior weighs {weight}.")


def _changed(recent: RecentMean, since: Markdown) -> Sentence:
    """Return the recent figure, then the one before."""
    before = f"since {since} (before: {explained.of_hundred(recent.mean_before)} of 100)"
    if recent.mean == 0:
        return composed(Phrase("Not used once"), f" in {wording.things(recent.n, 'run')} {before}")
    share = Phrase(f"{explained.of_hundred(recent.mean)} of 100")
    return composed("Used in ", share, f" runs {before}")


def _verdict(one: Judgement, token_cost: int | None, since: Markdown) -> Sentence:  # noqa: PLR0911 - one a name
    """Return the consequence for its place in the prompt."""
    match one.name:
        case "poisoned":
            many = f"{wording.count(len(one.others))} more"
            beside = (
                f", as with {_name(one.others[0]) if len(one.others) == 1 else many}" if one.others else ""
            )
            return composed(Phrase("Looks like a detector fault"), f"{beside}.")
        case "rival":
            names = wording.listed([_name(key) for key in one.others[:_NAMES]])
            return composed(f"Where {names} is in the prompt, it ", Phrase("gives way"), ".")
        case "drifting" if one.others:
            names = wording.listed([_name(key) for key in one.others[:_NAMES]])
            return composed("It ", Phrase("fell"), f" on the day {names} joined, by it or by another change.")
        case "drifting":
            fell = one.recent is not None and one.recent.mean == 0
            return composed("It ", Phrase("fell to nothing" if fell else "is drifting"), ".")
        case "rising":
            return composed("It ", Phrase("is used more"), " than before.")
        case "stale":
            return composed("It ", Phrase("is stale"), f": not observed since {since}, but still in prompts.")
        case "seed":
            return composed("It is ", Phrase("a seed"), ", always in by rule.")
        case "never_referenced" | "section" | "too_early":
            return composed()
        case "called_only":
            return composed(
                Phrase("Only called tools are known"), f": its mean is too high. Last use: {since}."
            )
        case "few_sessions":
            sessions = f"{wording.things(one.n_sessions, 'session')}, {ENOUGH_SESSIONS} are needed"
            return composed(Phrase("Too few sessions"), f" to judge it: {sessions}.")
        case "worth" | "not_worth" | "open" | "unopposed" | "used_often" | "used_seldom":
            return _worth(one, token_cost)
        case _:
            assert_never(one.name)


def _worth(one: Judgement, token_cost: int | None) -> Sentence:
    """Return the position of its interval against its break-even."""
    if one.name == "unopposed":
        return composed("It is ", Phrase(explained.picked(one)), ".")
    if one.break_even is None and one.name != "not_worth":
        why = explained.picked(one) if one.no_break_even == "always_in" else explained.NOT_WEIGHED
        end = f", and {explained.EXCLUDED}" if explained.is_excluded(one) else f": {why}"
        return composed("It is ", Phrase(explained.used_in(one)), f"{end}.")
    cost = "" if token_cost is None else f" its {wording.things(token_cost, 'token')}"
    if one.break_even is None:
        return composed(
            "It ",
            Phrase("does not earn its place"),
            f": it is left out at{cost or ' its cost'}, however often it is used.",
        )
    even = f"Its break-even is use in {explained.of_hundred(one.break_even)} of 100 runs, at{cost or ' its cost'}"
    between = f"its interval is {interval(one)}"
    if one.name not in {"worth", "not_worth"}:
        return composed("Its place ", Phrase("is undecided"), f". {even}; {between}.")
    earns = Phrase("earns its place" if one.name == "worth" else "does not earn its place")
    return composed("It ", earns, f". {even}; {between}.")


def interval(one: Judgement) -> Words:
    """Return the interval that an arm is judged by: of its effective pulls, where they are known."""
    by = one.judged_by or one.interval
    return wording.interval(by.lower, by.upper)


def pulls(one: Judgement) -> Markdown:
    """Return the whole pulls of an arm, and beside them the exact sum and the effective ones where they differ."""
    parts = [] if one.pulls_exact is None else [f"exactly {f'{one.pulls_exact:,.6f}'.rstrip('0')}"]
    if one.effective_pulls is not None and round(one.effective_pulls) < one.pulls:
        parts.append(f"{wording.count(round(one.effective_pulls))} effective")
    whole = wording.things(one.pulls, "pull")
    return Markdown(f"{whole} ({', '.join(parts)})" if parts else whole)


# Many arms


def posteriors(judged: Sequence[Judgement], links: Mapping[str, Markdown] = MappingProxyType({})) -> Sentence:
    """Return the judgements of these arms: each of a few, counts of many.

    Each count leads to the address of its kind in ``links``.
    """
    groups = {name: [one for one in judged if one.name == name] for name in JUDGEMENTS}
    if len(judged) <= _FEW:
        return _one_by_one({name: members for name, members in groups.items() if members}, len(judged))
    return _counted(groups, len(judged), links)


def only_called(judged: Sequence[Judgement]) -> tuple[Words, ...]:
    """Return a warning if some of these arms have inventories inferred from calls."""
    n_called = sum(one.called_only for one in judged)
    return (f"{wording.things(n_called, 'arm')}: {explained.ONLY_CALLED}",) if n_called else ()


def _one_by_one(groups: Mapping[JudgementName, Sequence[Judgement]], n_arms: int) -> Sentence:
    shown = list(groups.items())[:_CLAUSES]
    parts: list[str | Phrase] = []
    for name, members in shown:
        verb = _OF_ONE_AND_MANY[name][len(members) > 1]
        many = f"{wording.count(len(members))} of {wording.count(n_arms)}"
        names = [_name(one.arm) for one in members] if len(members) <= _NAMES else []
        who = wording.listed(names) if names else many
        parts += ["; " if parts else "", Phrase(who)]
        parts.append(f" {verb}")
    rest = n_arms - sum(len(members) for _, members in shown)
    more = f"; the table covers {wording.count(rest)} more" if rest else ""
    return composed(*parts, f"{more}.")


def _counted(
    groups: Mapping[JudgementName, Sequence[Judgement]],
    n_arms: int,
    links: Mapping[str, Markdown],
) -> Sentence:
    """Return how many earn their place, need attention, are not known yet, and are included by rule."""
    less = (
        ("does not", "do not") if groups["worth"] else ("does not earn its place", "do not earn their place")
    )
    clauses = [
        ("worth", "earns its place", "earn their place"),
        ("not_worth", *less),
        ("look", "arm changed or went unused", "arms changed or went unused"),
        ("used_often", *_OF_ONE_AND_MANY["used_often"]),
        ("used_seldom", *_OF_ONE_AND_MANY["used_seldom"]),
        ("early", "is too early to judge", "are too early to judge"),
        ("open", *_OF_ONE_AND_MANY["open"]),
        ("always", "is always in", "are always in (seeds, sections)"),
        ("called", *_OF_ONE_AND_MANY["called_only"]),
    ]
    parts: list[str | Phrase] = [f"Of {wording.things(n_arms, 'arm')} "]
    for kind, one, more in clauses:
        number = sum(len(groups[name]) for name in KINDS[kind])
        if number and len(parts) <= 2 * (_CLAUSES - 1) + 1:
            words = f"{wording.count(number)} {one if number == 1 else more}"
            linked: Markdown = f"[{words}]({links[kind]})" if kind in links else words
            is_key = len(parts) == 1 or kind == "look"
            parts += ["" if len(parts) == 1 else ", ", Phrase(linked) if is_key else linked]
    return composed(*parts, ".")


def _name(key: str) -> Markdown:
    return wording.literal(wording.last_name(key))
