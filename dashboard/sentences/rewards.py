"""Rewards of environments: how much, how often, of which pattern, and what may be wrong with it, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, get_args

from core.demo import World
from core.explained.episodes import ENVIRONMENTS
from core.explained.table import Table, text
from core.flows.queries import EnvironmentStory, EnvironmentSummary, ModelComparison, ModelPair, SuccessRate
from core.records.answers import ScaleAnswer
from core.records.episode import Finding, FindingKind, Pattern, Scale
from core.records.episode_page import EpisodeOutcome
from core.records.estimate import Estimate, Missing
from dashboard import wording
from dashboard.figures.theme import Severity
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.episode import threshold
from dashboard.wording import Markdown, Words

PATTERN_WORDS: Final[dict[Pattern, str]] = {name: name for name in get_args(Pattern)} | {
    "penalty": "penalising"
}
PATTERN_MEANS: Final[dict[Pattern, str]] = {
    "sparse": "only the last step pays",
    "dense": "most steps pay",
    "shaped": "payments rise towards the goal",
    "penalty": "some actions are charged for",
    "binary": "the last payment has two values",
    "continuous": "the last payment is graded",
}
_FINDINGS: Final[dict[FindingKind, tuple[str, Severity]]] = {
    "delayed": ("Pays only at the end", "notice"),
    "sparsity": ("Hardly ever pays", "warning"),
    "hacking": ("Looks hacked", "critical"),
    "scaling": ("Steps outweigh the end", "warning"),
    "ambiguity": ("Unequal outcomes pay alike", "warning"),
    "inconsistent": ("Inconsistent scales", "warning"),
    "proxy": ("Pays for length", "warning"),
    "length": ("Goes with length", "notice"),
    "constant": ("Always the same", "notice"),
    "per_step": ("Pays for each step", "notice"),
    "unrelated": ("Pays without success", "warning"),
    "decided_by_tool": ("One tool decides", "warning"),
    "narrow": ("Grades hardly differ", "warning"),
    "gives_up": ("Ends at the first cost", "warning"),
    "retried": ("Repeated until paid", "notice"),
    "out_of_scale": ("Out of scale", "warning"),
    "paid_after_finished": ("Paid after the end", "notice"),
}
FINDING_WORDS: Final = {kind: words for kind, (words, _) in _FINDINGS.items()}
FINDING_SEVERITY: Final = {kind: severity for kind, (_, severity) in _FINDINGS.items()}
_COUNTED: Final[frozenset[FindingKind]] = frozenset({"out_of_scale", "paid_after_finished"})
_TESTED: Final[frozenset[FindingKind]] = frozenset({"inconsistent", "proxy", "length", "decided_by_tool"})
"""Findings whose cases are counted, and findings of a statistical test; samples are drawn for all others."""
PATTERN_CERTAINTY: Final = Words(
    "Certainty: the share of random samples of these episodes that show the pattern."
)
_UNDECIDED: Final = 3
"""Pairs of models without a difference that are named one by one."""
_GRAVITY: Final[tuple[Severity, ...]] = ("critical", "warning", "notice", "info")
OUTCOME_WORDS: Final[dict[EpisodeOutcome, str]] = {
    "success": "success",
    "no_success": "no success",
    "unpaid": "nothing paid",
    "broken": "broken",
    "unfinished": "unfinished",
}
_WHY: Final[dict[Missing, str]] = {
    "few_runs": "too few for a figure",
    "few_for_interval": "too few for an interval",
    "few_sessions": "too few tasks for an interval",
    "wide_spread": "too skewed for an interval at this number",
    "no_variation": "all alike: no interval",
    "no_common_task": "nothing to compare",
    "tasks_in_order": "time and task can't be separated",
}


def episodes(summaries: Sequence[EnvironmentSummary], *, filtered: bool) -> Sentence:
    """Return success and reward of one environment, or the number of several."""
    if not summaries:
        return composed(Phrase("No episode"), " passes the filters.")
    if len(summaries) == 1:
        return _of_one(summaries[0], filtered=filtered)
    total = sum(one.n for one in summaries)
    n_flagged = sum(needs_a_look(one) for one in summaries)
    flagged = (
        Phrase(f"{wording.number_word(n_flagged)} of them pay{'s' if n_flagged == 1 else ''}")
        if n_flagged
        else "none of them pays"
    )
    which = f"{wording.things(total, 'episode')} of {wording.number_word(len(summaries))} environments"
    passing = " pass the filters" if filtered else " are here"
    return composed(Phrase(which), f"{passing}; ", flagged, " in a way that needs a look.")


def came_to(summaries: Sequence[EnvironmentSummary]) -> Words:
    """Return what the episodes of several environments came to, in numbers that add up to all of them."""
    rated = [(one.success, one.n - one.without_reward - one.broken) for one in summaries]
    known = [(round(rate.rate * n), n) for rate, n in rated if rate is not None]
    won, n_known = sum(one for one, _ in known), sum(n for _, n in known)
    n_unpaid, n_broken = sum(one.without_reward for one in summaries), sum(one.broken for one in summaries)
    numbers = {
        "success": won,
        "no success": n_known - won,
        "unpaid": n_unpaid,
        "broken": n_broken,
        "unknown, off the usual scale": sum(n for _, n in rated) - n_known,
    }
    came = [f"{wording.count(n)} {name}" for name, n in numbers.items() if n or "off" not in name]
    n_unfinished = sum(one.n - one.n_finished for one in summaries)
    among = f" {wording.count(n_unfinished)} of them are unfinished." if n_unfinished else ""
    return f"They came to: {'; '.join(came)}.{among} Each environment pays on a scale of its own."


def needs_a_look(one: EnvironmentSummary) -> bool:
    """Return whether a finding is more than a notice."""
    return any(FINDING_SEVERITY[kind] != "notice" for kind in one.findings)


def by_gravity(kinds: Iterable[FindingKind]) -> list[FindingKind]:
    """Return kinds of findings, the gravest first.

    >>> by_gravity(["ambiguity", "delayed", "hacking"])
    ['hacking', 'ambiguity', 'delayed']
    """
    return sorted(kinds, key=lambda kind: _GRAVITY.index(FINDING_SEVERITY[kind]))


def environment(story: EnvironmentStory) -> Sentence:
    """Return a critical finding of an environment with its rate of success, else what `episodes` has of one."""
    one, critical = story.summary, critical_finding(story)
    if critical is None:
        return _of_one(one, filtered=False)
    rate = "" if one.success is None else f" {wording.percent(one.success.rate, 0)} of all succeed."
    return composed(Phrase(f"{wording.literal(critical.seen)}"), rate)


def critical_finding(story: EnvironmentStory) -> Finding | None:
    """Return the first critical finding of an environment."""
    return next(
        (one for one in story.design.findings if FINDING_SEVERITY[one.kind] == "critical"),
        None,
    )


def certainty(share: float) -> Words:
    """Return a certainty, which is 100% only without any doubt.

    >>> certainty(0.972), certainty(0.9999), certainty(1.0)
    ('97%', 'over 99%', '100%')
    """
    return Words("over 99%" if 0.99 < share < 1 else wording.percent(share, 0))


def certainty_words(finding: Finding) -> Words:
    """Return how sure a finding is, and the meaning of the share.

    >>> certainty_words(Finding(kind="out_of_scale", certainty=1.0, seen="…", steps=(), advice="…"))
    'certain: each case is counted'
    """
    if finding.kind in _COUNTED:
        return Words("certain: each case is counted")
    share = certainty(finding.certainty)
    if finding.kind in _TESTED:
        return f"certainty {share} that it is more than chance"
    return f"certainty {share}"


def finding_of_episode(story: EnvironmentStory, uid: str) -> Markdown | None:
    """Return the critical finding that names an episode, in a line."""
    finding = critical_finding(story)
    if finding is None or uid not in {named for named, _ in finding.steps}:
        return None
    return f"This episode is one of them: {wording.literal(finding.seen)}"


def contest(comparison: ModelComparison) -> list[Markdown]:
    """Return a sentence for each two models with an interval; many pairs without a difference are counted."""
    undecided = [pair for pair in comparison.pairs if _includes_zero(pair)]
    is_many = len(undecided) > _UNDECIDED
    shown = [pair for pair in comparison.pairs if not (is_many and _includes_zero(pair))]
    lines = [line for line in (better(pair, comparison) for pair in shown) if line is not None]
    if comparison.stopped:
        lines.insert(0, wording.literal(comparison.first_attempts))
    if is_many:
        of = wording.things(len(comparison.pairs), "pair")
        lines.append(f"No difference is shown in {wording.count(len(undecided))} of {of}.")
    return lines


def _includes_zero(pair: ModelPair) -> bool:
    low, high = pair.difference.lower, pair.difference.upper
    return low is not None and high is not None and low <= 0 <= high


def better(pair: ModelPair, comparison: ModelComparison) -> Markdown | None:
    """Return which of two models is better, with its interval, as Markdown; None without an interval.

    Where the interval includes 0, the sentence says that no difference is shown.
    """
    value, low, high = pair.difference.value, pair.difference.lower, pair.difference.upper
    if value is None or low is None or high is None:
        return None
    tasks = "the same tasks" if comparison.paired else "their own tasks"
    is_rate = comparison.compared == "success"
    if _includes_zero(pair):
        between = wording.percent_interval(100 * low, 100 * high, 0) if is_rate else _amounts(low, high)
        one, other = wording.literal(pair.one), wording.literal(pair.other)
        return (
            f"No difference is shown between **{one}** and **{other}** on {tasks} (95% interval {between})."
        )
    first, second = (pair.one, pair.other) if value > 0 else (pair.other, pair.one)
    least, most = sorted((abs(low), abs(high)))
    if is_rate:
        does = f"succeeds in {wording.percent(abs(value), 0)} more of {tasks} than"
        between = wording.percent_interval(100 * least, 100 * most, 0)
    else:
        does = f"earns {abs(value):,.3f} more on {tasks} than"
        least, most = wording.outwards(least, most, 3)
        between = f"{least:,.3f}–{most:,.3f}"
    test = "" if pair.apart else " The test of all pairs at once does not show it."
    return (
        f"**{wording.literal(first)}** {does} **{wording.literal(second)}** (95% interval {between}).{test}"
    )


def _of_one(one: EnvironmentSummary, *, filtered: bool) -> Sentence:
    episodes_ = wording.things(one.n, "episode")
    such = f"{episodes_} that pass{'es' if one.n == 1 else ''} the filters" if filtered else episodes_
    name = wording.short(one.environment)
    if not one.n:
        return composed(
            f"No episode of {name} is here.",
        )
    pattern = (
        f"; the reward of {name} is {pattern_words(one.pattern)}."
        if one.pattern
        else f"; they are of {name}."
    )
    if one.average.value is None and one.n == one.broken:
        return composed(
            Phrase("Every episode is broken"), f" of {such} of {name}: there is no rate of success."
        )
    if one.average.value is None and one.n == one.without_reward + one.broken:
        return composed(Phrase("Nothing was paid"), f" in {such} of {name}: there is no rate of success.")
    if one.success is None:
        off = f"{wording.count(one.n_off_scale)} of {wording.things(one.n, 'reward')}"
        are = "is" if one.n_off_scale == 1 else "are"
        passing = Words(" that pass the filters" if filtered else "")
        return composed(
            f"{off}{passing} {are} ",
            Phrase(f"outside {_ends(one.scale)}"),
            f". Set the scale of {name} to see success rates.",
        )
    rate = wording.percent(one.success.rate, 0)
    limits = share_limits(one.success)
    between = f" ({limits}, 95% interval)" if limits else f" ({why(one.success.missing)})"
    succeed = "succeeds" if one.n == 1 else "succeed"
    return composed(f"Of {such} ", Phrase(f"{rate} {succeed}"), f"{between}{pattern}")


def _ends(scale: Scale) -> Words:
    """Return the ends of a scale.

    >>> _ends(Scale(lo=0.0, hi=1.0))
    '0–1'
    """
    if scale.lo < 0:
        return wording.signed_minus(Words(f"{scale.lo:g} to {scale.hi:g}"))
    return Words(f"{scale.lo:g}–{scale.hi:g}")


def pattern_words(patterns: Sequence[Pattern]) -> Words:
    """Return patterns as in a sentence.

    >>> pattern_words(["sparse", "binary"])
    'sparse and binary'
    """
    return wording.listed([PATTERN_WORDS[name] for name in patterns])


def share_limits(rate: SuccessRate | None) -> Words:
    """Return the limits of a rate in per cent, rounded outwards; empty without an interval."""
    if rate is None or rate.lower is None or rate.upper is None:
        return Words("")
    return wording.percent_interval(rate.lower * 100, rate.upper * 100, 0)


def amount_limits(estimate: Estimate) -> Words:
    """Return the limits of an average reward, rounded outwards; empty without an interval."""
    if estimate.lower is None or estimate.upper is None:
        return Words("")
    return _amounts(estimate.lower, estimate.upper)


def _amounts(lower: float, upper: float) -> Words:
    low, high = wording.outwards(lower, upper, 3)
    return wording.signed_minus(f"{low:,.3f} to {high:,.3f}")


def average(estimate: Estimate) -> Words:
    """Return an average reward.

    >>> average(Estimate(value=0.6714285, lower=None, upper=None))
    '0.671'
    """
    return wording.MISSING if estimate.value is None else wording.signed_minus(f"{estimate.value:,.3f}")


def why(missing: Missing | None) -> Words:
    """Return why there is no interval."""
    return Words(_WHY.get(missing, "no interval") if missing is not None else "no interval")


def averages_line(one: EnvironmentSummary) -> Words:
    """Return average, rate and what was left out of them, on one line."""
    paid = one.n - one.without_reward - one.broken
    parts = []
    if one.average.value is not None:
        limits = amount_limits(one.average)
        between = f", 95% interval {limits}" if limits else f" ({why(one.average.missing)})"
        base = "total" if one.scale.base == "total" else "final reward"
        parts.append(
            f"Average {base} {average(one.average)}{between}, of {wording.count(paid)} with a reward"
        )
    if one.without_reward:
        parts.append(f"{wording.count(one.without_reward)} unpaid and left out")
    if one.broken:
        parts.append(f"{wording.count(one.broken)} broken and left out")
    if one.n > one.n_finished:
        parts.append(f"{wording.count(one.n - one.n_finished)} unfinished, counted as they are")
    if one.n_tasks is not None:
        parts.append(f"intervals by {wording.things(one.n_tasks, 'task')}")
    return f"{'; '.join(parts)}."


def scale_words(scale: Scale, *, declared: bool) -> Words:
    """Return the scale in force, as plain text.

    >>> scale_words(Scale(), declared=False)
    '0 to 1 (usual)'
    """
    ends = wording.signed_minus(f"{scale.lo:g} to {scale.hi:g}")
    return ends if declared else f"{ends} (usual)"


def environments_table(planted: Mapping[str, World] = MappingProxyType({})) -> Table[EnvironmentSummary]:
    """Return the table of environments on a page; a demo's with ``planted`` truth on request."""
    shown = ENVIRONMENTS.plus(
        state=text("state", _state, width=96),
        planted=text(
            "planted",
            lambda one: planted_words(planted[one.environment]) if one.environment in planted else "",
            width=230,
        ),
        findings=text(
            "found",
            lambda one: ", ".join(FINDING_WORDS[kind].lower() for kind in by_gravity(one.findings)) or "none",
            width=176,
        ),
        models=text("models", lambda one: ", ".join(one.models), width=130),
    ).but(
        success=_rate,
        success_interval=lambda one: share_limits(one.success),
        average=lambda one: "none paid" if one.average.value is None else average(one.average),
        average_interval=lambda one: amount_limits(one.average),
        pattern=lambda one: pattern_words(one.pattern) or "unknown",
        scale=lambda one: _ends(one.scale),
    )
    first = ("state", "environment", "planted", "n", "success", "success_interval")
    names = (*first, "average", "average_interval", "pattern", "findings", "scale", "models")
    return shown.only(*(name for name in names if planted or name != "planted"))


def gravity(one: EnvironmentSummary) -> int:
    """Return the order of an environment by its gravest finding, 0 first."""
    return min((_GRAVITY.index(FINDING_SEVERITY[kind]) for kind in one.findings), default=len(_GRAVITY))


def _state(one: EnvironmentSummary) -> str:
    if any(FINDING_SEVERITY[kind] == "critical" for kind in one.findings):
        return "✕ critical"
    if needs_a_look(one):
        return "△ warning"
    return "○ notice" if one.findings else "✓ fine"


def _rate(one: EnvironmentSummary) -> str:
    if one.success is not None:
        return wording.percent(one.success.rate, 0)
    return "unknown" if one.n_off_scale else "none paid"


def planted_words(world: World) -> Words:
    """Return the planted truth of a demo's environment."""
    pays = [pattern_words([name for name in PATTERN_WORDS if name in world.patterns])]
    wrong = "nothing wrong" if world.wrong is None else FINDING_WORDS[world.wrong].lower()
    return ", ".join([*filter(None, pays), wrong])


def pattern_note(story: EnvironmentStory) -> Words:
    """Return the number of episodes behind pattern and findings."""
    looked = story.design.looked_at
    return Words(
        f"estimated from the newest {wording.count(looked)} of any model and task"
        if looked < story.summary.n
        else ""
    )


def keeps_threshold(answer: ScaleAnswer) -> bool:
    """Return whether a scale has other ends than the one in force, and the same threshold."""
    new, old = answer.scale, answer.before
    return new.threshold == old.threshold and (new.lo, new.hi) != (old.lo, old.hi)


def scale_effect(answer: ScaleAnswer, *, is_known: bool) -> Words:
    """Return the effect of declaring a scale, as Markdown; ``is_known``: successes are known so far."""
    if answer.scale == answer.before:
        return Words("This is the scale in force: nothing would change.")
    before = f"{threshold(answer.before)} on {_ends(answer.before)}"
    n_before = f"{wording.count(answer.successes_before)} of {wording.count(answer.episodes)}"
    now = f"instead of {n_before} by {before}." if is_known else f"now. By {before} success is unknown."
    return (
        f"Success would be {threshold(answer.scale)} on {_ends(answer.scale)}: **{wording.count(answer.successes)} "
        f"of {wording.things(answer.episodes, 'episode')}** "
        f"{now}"
    )
