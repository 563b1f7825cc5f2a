"""Results → sentences: what a page says first, and what stands beside its pictures.

A sentence is a tuple of parts; a `Phrase` is one of its one or two key phrases, which the page colours. Every
part is Markdown already: foreign text has passed `wording.literal`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from core.columns import ArmColumns
from core.records.audit import AuditEntry
from core.records.learner import LearnerSettings
from core.records.posterior import BANDS, Band
from core.statistics.confidence import Confidence
from core.statistics.overview import Attention, KeyFigure, Overview
from core.statistics.savings import Comparison, Estimate, Savings
from dashboard import wording
from dashboard.figures.arms import ArmRow

ENOUGH_PULLS: Final = 20
NEXT_SHOWN: Final = 9
_SHARE_APART: Final = 0.001
EARNS: Final = 0.5
"""An arm earns its place where its whole interval lies above this, and rarely helps where it lies below."""


@dataclass(frozen=True)
class Phrase:
    """A key phrase of a sentence."""

    text: str


Sentence = tuple[str | Phrase, ...]


class Belief(Protocol):
    """One arm's belief before or after an act, as a preview hands it out."""

    @property
    def mean(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def pulls(self) -> int: ...
    @property
    def band(self) -> Band: ...
    @property
    def rank(self) -> int: ...
    @property
    def chance(self) -> float | None: ...


# Overview


def overview(seen: Overview) -> Sentence:
    """What the agent gains, and how much needs a look."""
    runs = f"After {wording.things(seen.n_runs, 'run')} "
    return (runs, *_gain(seen.savings, seen), " ", needs(len(seen.attention)))


def _gain(saved: Comparison, seen: Overview) -> Sentence:
    value = saved.saved_percent.value
    if value is None:
        known = wording.things(seen.n_arms_in_use, "arm")
        return ("the learner knows ", Phrase(known), "; savings cannot be claimed yet.")
    share = wording.percent(abs(value) / 100, 0)
    if saved.verdict == "proven":
        return (
            "the agent uses ",
            Phrase(f"{share} fewer tokens"),
            f" than with everything in its prompt, {_errors(saved)}.",
        )
    if saved.verdict == "costs_more":
        return (
            "the agent uses ",
            Phrase(f"{share} more tokens"),
            " than with everything in its prompt.",
        )
    direction = "fewer" if value >= 0 else "more"
    return (f"the agent uses {share} {direction} tokens, ", Phrase("which is not proven yet"), ".")


def _errors(saved: Comparison) -> str:
    difference = saved.error_difference
    if difference.lower is None or difference.upper is None:
        return "and nothing is known of its errors"
    if difference.lower > 0:
        return "but fails more often"
    if difference.upper < 0:
        return "and fails less often"
    if difference.value is not None and difference.value <= 0:
        return "and fails no more often"
    return "with no proven difference in failures"


def needs(n_things: int) -> str:
    """How many things need a look.

    >>> needs(5), needs(1), needs(0)
    ('Five things need a look.', 'One thing needs a look.', 'Nothing needs a look.')
    """
    if n_things == 0:
        return "Nothing needs a look."
    word = wording.capital(wording.number_word(n_things))
    return f"{word} thing{'s' if n_things > 1 else ''} need{'s' if n_things == 1 else ''} a look."


def savings_line(saved: Comparison) -> str:
    """The numbers under the overview's sentence."""
    groups = (
        f"{wording.count(saved.baseline.n_known)} baseline and "
        f"{wording.count(saved.selected.n_known)} selected runs"
    )
    if saved.saved_percent.value is None:
        return f"Savings need at least 2 runs with known tokens in each group; so far {groups}."
    share = wording.percent(saved.saved_percent.value / 100)
    line = f"Savings {share}, {limits(saved.saved_percent)}, from {groups}."
    return f"{line} {error_line(saved)}".strip()


def error_line(saved: Comparison) -> str:
    """Error rates of both groups with the interval of their difference."""
    of_selected, of_baseline = saved.selected.error_rate, saved.baseline.error_rate
    if of_selected is None or of_baseline is None:
        return ""
    line = f"Error rate {wording.percent(of_selected)} against {wording.percent(of_baseline)}"
    difference = saved.error_difference
    if difference.lower is None or difference.upper is None:
        return f"{line}."
    low, high = wording.outwards(difference.lower, difference.upper, 1)
    return wording.signed_minus(f"{line}, difference {low:.1f} to {high:.1f} points.")


def limits(estimate: Estimate) -> str:
    """The interval of an estimate in per cent, or that there is none."""
    if estimate.lower is None or estimate.upper is None:
        return "no interval yet"
    return f"{_named(estimate)} {wording.percent_interval(estimate.lower, estimate.upper)}"


def _named(estimate: Estimate) -> str:
    """What the interval is called: its own probability, since the baseline share keeps a wider one."""
    return f"{wording.percent(estimate.prob, 0)} interval"


@dataclass(frozen=True)
class Claim:
    """One row of the attention list: a bold claim, its evidence, and the words of the way there."""

    claim: str
    evidence: str
    way: str


def attention(item: Attention, saved: Savings, *, min_pulls: int) -> Claim:  # noqa: PLR0911 - one per kind
    """An attention row in words; one sentence per kind."""
    arms = wording.things(item.count, "arm")
    overall = saved.overall
    match item.kind:
        case "costs_more":
            return Claim("Selecting costs more", f"savings {limits(overall.saved_percent)}", "See savings")
        case "savings_not_proven":
            n_baseline, n_selected = overall.baseline.n_known, overall.selected.n_known
            groups = f"{wording.count(n_baseline)} baseline, {wording.count(n_selected)} selected runs"
            return Claim(
                "Savings are not proven", f"{limits(overall.saved_percent)}; {groups}", "See savings"
            )
        case "no_baseline_runs":
            return Claim(
                "No baseline runs yet", "savings need runs with everything in the prompt", "See savings"
            )
        case "baseline_share_off":
            return Claim(*_share_claim(saved), "See savings")
        case "stale_arms":
            verb = "is" if item.count == 1 else "are"
            return Claim(
                f"{arms} {verb} stale", "no observation for 14 days, still in the prompt", "Show arms"
            )
        case "under_explored":
            has = "has" if item.count == 1 else "have"
            return Claim(
                f"{arms} {has} fewer than {min_pulls} pulls", _first_names(item.arms), "See confidence"
            )
        case "unknown_usage":
            runs = wording.things(item.count, "run")
            return Claim(f"{runs} without known tokens", "left out of the savings", "See savings")
        case "passive":
            return Claim(
                "The learner is passive", "runs are recorded, nothing is learnt from them", "See confidence"
            )
        case _:
            assert_never(item.kind)


def _share_claim(saved: Savings) -> tuple[str, str]:
    observed, expected = saved.share.observed, saved.share.expected
    share = wording.MISSING if observed.value is None else wording.percent(observed.value)
    said = "" if expected is None else f"configured {wording.percent(expected)}"
    if observed.lower is not None and observed.upper is not None:
        said += f"; {_named(observed)} {wording.percent_interval(observed.lower * 100, observed.upper * 100)}"
    return f"Baseline share is {share}", said


def _first_names(keys: Sequence[str], at_most: int = 3) -> str:
    names = [wording.literal(wording.short_name(key)) for key in keys[:at_most]]
    more = len(keys) - at_most
    return wording.listed(names) if more <= 0 else f"{', '.join(names)} and {wording.count(more)} more"


def figure_words(figure: KeyFigure, n_arms: int) -> tuple[str, str, str | None]:
    """Label, value and change of a key figure; a change that is not known is left out."""
    value, change = figure.value, figure.change
    match figure.name:
        case "runs" | "pulls":
            new = None if figure.last_week is None else wording.change(figure.last_week)
            return figure.name.capitalize(), _whole(value), new
        case "arms_in_use":
            shown = wording.MISSING if value is None else f"{wording.count(value)} of {wording.count(n_arms)}"
            return "Arms in use", shown, None if change is None else wording.change(change)
        case "tokens_per_selected_run":
            relative = None
            if change is not None and figure.week_before:
                relative = wording.change(change / figure.week_before * 100, 1, "%")
            return "Tokens per selected run", _whole(value), relative
        case "saved_percent":
            shown = wording.MISSING if value is None else wording.percent(value / 100)
            return "Savings", shown, None if change is None else wording.change(change, 1, " pt")


def _whole(value: float | None) -> str:
    return wording.MISSING if value is None else wording.count(value)


def bands(counts: Sequence[int], min_pulls: int) -> str:
    """How many arms are well known and how many are hardly known, in Markdown."""
    total, known, few = sum(counts), sum(counts[3:]), sum(counts[:2])
    tail = (
        "" if min_pulls != 5 else " and are always tried first" if few != 1 else " and is always tried first"
    )
    fewer = f"**{wording.count(few)} {'has' if few == 1 else 'have'} fewer than 5**{tail}."
    return (
        f"**{wording.count(known)} of {wording.count(total)} arms** have at least {ENOUGH_PULLS} pulls. "
        f"{fewer if few else '**None** has fewer than 5.'}"
    )


def change(entry: AuditEntry) -> str:
    """One entry of the change log in Markdown."""
    said = _deed(entry)
    return f"{said}; undone" if entry.undone else said


def _deed(entry: AuditEntry) -> str:  # noqa: PLR0911 - one per action
    detail = entry.detail
    match entry.action:
        case "reward":
            return f"rewarded {_arm_of(detail)} {_reward_of(detail)} by hand"
        case "reset":
            number = _int_of(detail, "arms")
            arms = "arms" if number is None else wording.things(number, "arm")
            return f"reset {arms}; undo possible"
        case "undo":
            return f"took back a {wording.literal(str(detail.get('kind', 'change')))}"
        case "import":
            number = _int_of(detail, "runs", "n_runs")
            return "imported runs" if number is None else f"imported {wording.things(number, 'run')}"
        case "setting":
            return _setting_of(detail)
        case "create":
            return f"created {_arm_of(detail)}"
        case _:
            return wording.literal(entry.action)


def _arm_of(detail: dict[str, str | int | float | bool | None]) -> str:
    arm = detail.get("arm")
    return "an arm" if not isinstance(arm, str) else f"**{wording.literal(wording.short_name(arm))}**"


def _reward_of(detail: dict[str, str | int | float | bool | None]) -> str:
    value = detail.get("reward")
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def _int_of(detail: dict[str, str | int | float | bool | None], *names: str) -> int | None:
    for name in names:
        value = detail.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _setting_of(detail: dict[str, str | int | float | bool | None]) -> str:
    name = wording.literal(str(detail.get("name", "a setting")).replace("_", " "))
    before, after = detail.get("before"), detail.get("value")
    if before is None or after is None:
        return f"changed {name}"
    return f"changed {name} {wording.literal(str(before))} → {wording.literal(str(after))}"


# Posteriors


def posteriors(arms: Sequence[ArmRow]) -> Sentence:
    """Which of the chosen arms earn their place, which hardly help, and how many are open."""
    useful = [row for row in arms if row.lower > EARNS]
    useless = [row for row in arms if row.upper < EARNS]
    n_open = len(arms) - len(useful) - len(useless)
    parts: list[str | Phrase] = []
    if useful:
        parts += [*_names(sorted(useful, key=lambda row: -row.mean)[:2]), _earn(useful)]
    if useless:
        worst = min(useless, key=lambda row: row.mean)
        hardly = "almost never helps" if worst.mean < 0.2 else "rarely helps"
        parts += ["; " if parts else "", Phrase(_name(worst)), f" {hardly}"]
    counted = f"{wording.number_word(n_open)} of {wording.number_word(len(arms))}"
    if not parts:
        return ("Nothing is settled yet: ", Phrase(counted), f" {'is' if n_open == 1 else 'are'} still open.")
    return (*parts, f"; {counted} {'is' if n_open == 1 else 'are'} still open." if n_open else ".")


def _names(arms: Sequence[ArmRow]) -> list[str | Phrase]:
    parts: list[str | Phrase] = []
    for at, row in enumerate(arms):
        parts += [" and " if at else "", Phrase(_name(row))]
    return parts


def _name(row: ArmRow) -> str:
    return wording.literal(wording.last_name(row.key))


def _earn(useful: Sequence[ArmRow]) -> str:
    return " earns its place" if len(useful) == 1 else " earn their place"


# Confidence


def confidence(known: Confidence) -> Sentence:
    """How many arms are well known, and which go first."""
    well, few = sum(known.counts[3:]), len(known.under_explored)
    first = Phrase(f"{wording.count(well)} of {wording.count(known.n_arms)}")
    start: Sentence = (first, f" arms have at least {ENOUGH_PULLS} pulls.")
    if few == 0:
        return (*start, " None has fewer than ", f"{wording.number_word(known.min_pulls)}.")
    number = wording.capital(wording.number_word(few))
    verb = "has" if few == 1 else "have"
    goes = "goes" if few == 1 else "go"
    least = wording.number_word(known.min_pulls)
    return (
        *start,
        " ",
        Phrase(number),
        f" {verb} fewer than {least} and {goes} first in the next selected runs.",
    )


def wider(known: Confidence) -> str:
    """How many observed arms are wider than the documented width of their band, in Markdown."""
    n_observed = sum(known.counts[1:])
    n_wider = int((known.wider & (known.pulls > 0)).sum())
    return (
        f"Observations that nobody reads: **0**. {wording.count(n_wider)} of "
        f"{wording.count(n_observed)} observed arms are wider than their band suggests."
    )


def next_band_note(known: Confidence) -> str:
    """How many arms are on their way, where the table shows fewer."""
    n_open = len(known.next_in_line)
    return f"the nearest {NEXT_SHOWN} of {wording.count(n_open)}" if n_open > NEXT_SHOWN else ""


def to_reach(known: Confidence, place: int) -> str:
    """What an arm needs for its next band."""
    needed = int(known.pulls_to_next[place])
    band = BANDS[int(known.band[place]) + 1]
    return f"{wording.count(needed)} more → {wording.BAND_WORDS[band]}"


# Savings


def savings(saved: Savings) -> Sentence:
    """What selecting saves, or why nothing can be claimed."""
    overall = saved.overall
    value = overall.saved_percent.value
    if value is None:
        return (*_why_not(saved), " so ", Phrase("no savings can be claimed"), ".")
    verb = "saves" if value >= 0 else "costs"
    more = "of the tokens per run" if value >= 0 else "more tokens per run"
    amount = Phrase(f"{wording.percent(abs(value) / 100)} {more}")
    low, high = overall.saved_percent.lower, overall.saved_percent.upper
    if low is None or high is None:
        return (f"Selecting {verb} ", amount, "; there are too few runs for an interval.")
    if overall.verdict == "not_proven":
        between = Phrase(wording.percent_interval(low, high))
        return (f"Selecting {verb} ", amount, ", which is not proven; the 95% interval is ", between, ".")
    if value < 0:
        low, high = -high, -low
    return (
        f"Selecting {verb} ",
        amount,
        "; the 95% interval is ",
        Phrase(wording.percent_interval(low, high)),
        ".",
    )


def _why_not(saved: Savings) -> Sentence:
    baseline, selected = saved.overall.baseline, saved.overall.selected
    if baseline.n_runs == 0 and selected.n_runs == 0:
        return ("No run was chosen by armscope yet,",)
    if baseline.n_runs == 0:
        return ("No baseline runs yet,",)
    if selected.n_runs == 0:
        return ("No selected runs yet,",)
    fewest = min(baseline.n_known, selected.n_known)
    if fewest < 2:
        return (f"Only {wording.things(fewest, 'run')} with known tokens in one group,",)
    return ("The two groups share no model and channel,",)


def savings_numbers(saved: Savings) -> str:
    """The numbers under the sentence: both means, both counts, what was left out."""
    overall, out = saved.overall, saved.left_out
    means = (overall.baseline.mean_tokens, overall.selected.mean_tokens)
    line = ""
    if means[0] is not None and means[1] is not None:
        line = (
            f"{wording.count(means[0])} tokens with everything in, "
            f"{wording.count(means[1])} with the selection. "
        )
    groups = (
        f"{wording.count(overall.baseline.n_known)} baseline and "
        f"{wording.count(overall.selected.n_known)} selected runs; "
    )
    parts = [
        (out.passive, "passive"),
        (out.fallback, "fallback"),
        (out.imported, "imported"),
        (out.not_completed, "unfinished"),
        (out.uncompared, "incomparable"),
    ]
    named = [f"{wording.count(number)} {name}" for number, name in parts if number]
    left = f"{wording.listed(named)} runs are left out" if named else "none is left out"
    unknown = wording.things(out.unknown_usage, "run") if out.unknown_usage else "no run"
    return f"{line}{groups}{left}, {unknown} had unknown usage."


def share_words(saved: Savings, *, configured: float, n_arms: int) -> str:
    """Observed against configured baseline share, and the recommended rate, in Markdown."""
    share = saved.share
    advice = ""
    if saved.recommended_rate is not None:
        rate = wording.percent(saved.recommended_rate, 0)
        advice = f" Recommended for {wording.things(n_arms, 'arm')}: {rate}."
    if share.observed.value is None:
        return f"**Baseline share unknown**, configured {wording.percent(configured, 0)}.{advice}"
    observed = wording.percent(share.observed.value)
    span = ""
    if share.observed.lower is not None and share.observed.upper is not None:
        limits_ = wording.percent_interval(share.observed.lower * 100, share.observed.upper * 100)
        span = f" ({_named(share.observed)} {limits_})"
    set_ = f"configured {wording.percent(configured, 0)}"
    if share.expected is not None and abs(share.expected - configured) >= _SHARE_APART:
        set_ = f"configured {wording.percent(share.expected)} on average and {wording.percent(configured, 0)} now"
    return f"**Baseline share {observed}**, {set_}{span}.{advice}"


def amount_limits(estimate: Estimate, *, negative: bool = False, percent: bool = False) -> str | None:
    """An estimate's interval for the small line of a figure; ``negative`` turns savings into changes."""
    low, high = estimate.lower, estimate.upper
    if low is None or high is None:
        return None
    if negative:
        low, high = -high, -low
    if percent:
        return wording.percent_interval(low, high)
    return f"{wording.count(math.floor(low))} to {wording.count(math.ceil(high))}"


# Rewards and reset


def effect(before_mean: float, after_mean: float, ranks: tuple[int, int]) -> str:
    """What sending a reward would do.

    >>> effect(0.52, 0.50, (21, 23))
    'This would move the mean from 0.52 to 0.50 and the rank from 21 to 23. Nothing is sent yet.'
    """
    before, after = wording.means(before_mean, after_mean)
    moved = f"move the mean from {before} to {after}" if before != after else f"leave the mean at {after}"
    rank = f"leave the rank at {wording.count(ranks[1])}"
    if ranks[0] != ranks[1]:
        rank = f"the rank from {wording.count(ranks[0])} to {wording.count(ranks[1])}"
        rank = rank if before != after else f"move {rank}"
    return f"This would {moved} and {rank}. Nothing is sent yet."


def scope_words(columns: ArmColumns) -> str:
    """The arms of a reset in words: 14 tools, 45 arms."""
    kinds = set(columns.types)
    if len(kinds) == 1:
        kind = next(iter(kinds))
        return wording.things(len(columns), kind, wording.TYPE_PLURALS[kind])
    return wording.things(len(columns), "arm")


def reset(columns: ArmColumns, *, uniform: bool) -> Sentence:
    """What a reset would do, and that it can be undone."""
    target = (
        "to Beta(1, 1)" if uniform else "to their own priors" if len(columns) != 1 else "to its own prior"
    )
    pulls = int(columns.pulls.sum())
    whose = "Its" if len(columns) == 1 else "Their"
    stay = f"{whose} {wording.things(pulls, 'pull')} stay{'s' if pulls == 1 else ''} readable"
    return ("Reset ", Phrase(scope_words(columns)), f" {target}. {stay}, and you can undo it.")


def consequence(columns: ArmColumns, settings: LearnerSettings) -> str:
    """What follows from a reset for the next runs, in Markdown.

    An arm under the minimum of pulls goes before every drawn arm, so each of these is in the next selected
    runs until it has that many; seed arms are in anyway.
    """
    seeds = set(settings.seed_arms)
    n_tried = sum(1 for key in columns.keys if key not in seeds)
    if settings.phase == "passive":
        return "**Nothing is selected while the learner is passive**; the arms stay at their new start."
    if n_tried == 0:
        return "**These are seed arms**: they stay in every prompt and begin to learn again."
    arms = "this arm" if len(columns) == 1 else "these arms"
    pulls = wording.number_word(settings.min_pulls)
    each = "until it has" if len(columns) == 1 else "until each has"
    return (
        f"**The next selected runs will explore {arms} first**, {each} {pulls} pulls; what they cost goes "
        "into the prompt meanwhile."
    )


def effect_table(before: Belief, after: Belief, *, n_arms: int) -> dict[str, list[str]]:
    """Before, after and change of one arm, as the small table of the reward form says it, in Markdown."""
    widths = (before.upper - before.lower, after.upper - after.lower)
    rows = [
        ("mean", *wording.means(before.mean, after.mean), wording.small_change(after.mean - before.mean)),
        (
            "95% interval",
            wording.interval(before.lower, before.upper),
            wording.interval(after.lower, after.upper),
            f"width {wording.small_change(widths[1] - widths[0])}",
        ),
        (
            "confidence",
            f"{wording.band(before.band)}, {wording.things(before.pulls, 'pull')}",
            f"{wording.band(after.band)}, {wording.things(after.pulls, 'pull')}",
            _pulls_change(after.pulls - before.pulls),
        ),
        (
            f"rank among {wording.count(n_arms)}",
            wording.count(before.rank),
            wording.count(after.rank),
            _places(after.rank - before.rank),
        ),
    ]
    if before.chance is not None and after.chance is not None:
        points = wording.change((after.chance - before.chance) * 100)
        chances = wording.percent(before.chance, 0), wording.percent(after.chance, 0)
        rows.append(("chance of inclusion", *chances, f"{points} points"))
    return {
        " ": [row[0] for row in rows],
        "before": [row[1] for row in rows],
        "after": [row[2] if row[1] == row[2] else f"**{row[2]}**" for row in rows],
        "change": [row[3] for row in rows],
    }


def _pulls_change(delta: int) -> str:
    return "none" if delta == 0 else f"{wording.change(delta)} pull{'' if abs(delta) == 1 else 's'}"


def _places(delta: int) -> str:
    """A change of rank; down is a larger number.

    >>> _places(2), _places(-1), _places(0)
    ('2 places down', '1 place up', 'none')
    """
    if delta == 0:
        return "none"
    return f"{wording.things(abs(delta), 'place')} {'down' if delta > 0 else 'up'}"
