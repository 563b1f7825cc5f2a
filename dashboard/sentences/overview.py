"""Sentences of the overview: its first sentence, claims and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from core.maths.statistics.overview import ArmEvidence, Attention, Overview
from core.maths.statistics.savings import Savings
from core.records.evaluation_page import Grader
from core.records.judgement import ENOUGH_PULLS, Judgement
from core.records.savings_words import loss_words, part_of
from dashboard import wording
from dashboard.figures.theme import StateMark
from dashboard.figures.worth import Worth
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.sentences.gain import failures, headline, no_figure
from dashboard.sentences.judging import parting_claim
from dashboard.sentences.money import month
from dashboard.sentences.savings import groups, interval_name, limits, more_for_proof
from dashboard.wording import Markdown, Words

MEANT: Final = Words(
    "Arms are the tools, skills, files and memories in the prompt. Baseline runs get as many as fit."
)
PROVEN: Final = Words("Proven: even the cautious estimate is above zero.")
_MOST_CALLED: Final = 3


def overview(
    summary: Overview, saved: Savings, rows: Sequence[Worth] = (), *, n_harmful: int = 0
) -> Sentence:
    """Return the first sentence, which the data choose, and how much needs attention."""
    need = needs(len(summary.attention), n_harmful=n_harmful)
    return composed(*_first(summary, saved, rows), " ", need)


def titles(summary: Overview, saved: Savings, rows: Sequence[Worth], n_harmful: int) -> tuple[Sentence, ...]:
    """Return the sentences of the three slides; ``n_harmful`` arms harm by a trial."""
    claim, rest = may_go(rows)
    cost = _first(summary, saved, rows) if is_imported(summary) else composed(Phrase(claim), rest)
    return headline(saved), cost, (needs(len(summary.attention), Words("decision"), n_harmful),)


def unnamed(item: Attention) -> Attention:
    """Return a finding without the names of persons, for readers who do not work with them."""
    rater, person = Grader(kind="human", name="One rater"), "one person"
    parting = None if item.parting is None else replace(item.parting, grader=rater)
    return replace(
        item, parting=parting, manual=None if item.manual is None else replace(item.manual, actor=person)
    )


def is_imported(summary: Overview) -> bool:
    """Return whether no run was chosen by armscope."""
    return summary.savings.baseline.n_runs + summary.savings.selected.n_runs == 0


def may_go(rows: Sequence[Worth]) -> tuple[Words, Words]:
    """Return how many arms may go out of prompts that armscope chooses, and what they cost."""
    going = [row for row in rows if row.may_go]
    if not going:
        return Words("No arm is used too seldom for its tokens." if rows else ""), Words("")
    known = [row.tokens for row in going if row.tokens is not None]
    earn = "do not earn their place" if len(going) > 1 else "does not earn its place"
    cost = f": {wording.things(sum(known), 'token')} of each full prompt" if known else ""
    chances = [row.chance for row in going if row.chance is not None]
    out = " armscope already leaves them out of most prompts." * (sum(chances) < len(chances) / 2)
    return f"{wording.things(len(going), 'arm')} {earn}", f"{cost}.{out}"


def most_wasted(rows: Sequence[Worth]) -> Markdown:
    """Return the arm that may go out and wasted most tokens, with its runs; empty without one."""
    going = [row for row in rows if row.may_go]
    if not going:
        return Words("")
    worst = max(going, key=lambda row: (row.tokens is not None, row.wasted))
    tokens = "" if worst.tokens is None else f"{wording.things(worst.tokens, 'token')}, "
    used = f"{tokens}used in {wording.count(worst.n[0])} of {wording.things(worst.n[1], 'run')} with it."
    return f"The most wasteful: {wording.literal(wording.short_name(worst.key))}, {Words(used)}"


def by_calls(judged: Mapping[str, Judgement]) -> Markdown:
    """Return the arms that most observed runs called, of those that are known by calls alone; empty without one."""
    called = sorted((one for one in judged.values() if one.called_only), key=lambda one: -one.n_referenced)
    names = [
        f"{wording.literal(wording.short_name(one.arm))} in {wording.things(one.n_referenced, 'observed run')}"
        for one in called[:_MOST_CALLED]
    ]
    return f"Called most: {wording.listed(names)}." if names else Words("")


def pictured(rows: Sequence[Worth], n_arms: int) -> Words:
    """Return why arms are not in the picture of an import; empty where all are."""
    n_left = n_arms - len(rows)
    if not n_left:
        return Words("")
    unknown = " Name the tools of a source with `--tools FILE` for their tokens." * any(
        row.tokens is None for row in rows
    )
    are = "is" if n_left == 1 else "are"
    why = "known by calls alone, never observed, or excluded"
    return Words(f"{wording.things(n_left, 'arm')} {are} not shown: {why}.{unknown}")


@dataclass(frozen=True)
class State:
    """One of the three states: what it is of, its mark, its word, and a line that explains it."""

    of: Words
    mark: StateMark
    word: Words
    note: Markdown


def states(
    summary: Overview, saved: Savings, now_ms: int, *, n_harmful: int = 0
) -> tuple[State, State, State]:
    """Return the states of cost, outcome and health; ``n_harmful`` arms harm by a trial."""
    return _cost(saved, now_ms), _outcome(saved), _health(summary, n_harmful)


def _cost(saved: Savings, now_ms: int) -> State:
    is_money = saved.money is not None and saved.money.is_known
    shown, verdict = (
        (saved.money.shown, saved.money.verdict)
        if saved.money is not None and is_money
        else (saved.overall.shown, saved.overall.verdict)
    )
    name = Words("Cost" if is_money else "Tokens")
    if shown.lower is None:
        return State(name, "open", Words("open"), Words(f"{no_figure(saved.overall)}."))
    marks: dict[str, tuple[StateMark, Words]] = {
        "proven": ("good", Words("less, proven")),
        "costs_more": ("bad", Words("more, proven")),
    }
    mark, word = marks.get(verdict, ("open", Words("open")))
    return State(name, mark, word, month(saved, now_ms, latest=True))


def _outcome(saved: Savings) -> State:
    outcome, failed = saved.outcome, failures(saved.overall)
    marks: dict[str, tuple[StateMark, Words]] = {
        "as_much": ("good", Words("as much")),
        "less": ("bad", Words("less, proven")),
        "unknown": ("open", Words("unknown")),
    }
    mark, word = marks.get(outcome.word, ("open", Words("open")))
    if failed.severity == "critical":
        mark, word = "bad", Words("more failures")
    return State(Words("Outcome"), mark, word, failed.claim)


def _health(summary: Overview, n_harmful: int) -> State:
    severities = [one.severity for one in summary.attention]
    n_critical, n_warnings = severities.count("critical"), severities.count("warning")
    counted = ((n_critical, "critical finding"), (n_harmful, "harmful arm"))
    if grave := " and ".join(wording.things(n, one) for n, one in counted if n):
        return State(Words("Health"), "bad", Words("repair it"), Words(f"{grave}."))
    if n_warnings:
        return State(
            Words("Health"), "open", Words("take a look"), Words(f"{wording.things(n_warnings, 'warning')}.")
        )
    return State(Words("Health"), "good", Words("nothing wrong"), Words(""))


def _first(summary: Overview, saved: Savings, rows: Sequence[Worth]) -> Sentence:
    if not is_imported(summary):
        return headline(saved)
    going, runs = [row for row in rows if row.may_go], wording.things(summary.n_runs, "run")
    if not rows:
        none = Phrase("the use of no arm can be measured")
        return composed(f"In {runs} ", none, ": calls alone do not show what prompts carried.")
    if not going:
        return composed(f"After {runs} ", *_learned(summary))
    known = [row.tokens for row in going if row.tokens is not None]
    arms = Phrase(f"{wording.count(len(going))} of {wording.things(summary.n_arms, 'arm')}")
    are = "are" if len(going) > 1 else "is"
    least = min(going, key=lambda row: row.uses)
    cost = f"{wording.things(sum(known), 'token')} where all are in the prompt"
    name = wording.literal(wording.short_name(least.key))
    rest = cost if known else f"{name} in {wording.count(least.uses)} of 100 runs"
    return composed(f"In {runs} ", arms, f" {are} carried and hardly used: {rest}.")


def _learned(summary: Overview) -> Sentence:
    """Return how many arms are well known, where nothing was chosen."""
    total, known = sum(summary.bands), sum(summary.bands[3:])
    if known == 0:
        arms = Phrase(wording.things(total, "arm"))
        return composed("the learner knows ", arms, ", none of them well; armscope chose no run yet.")
    has = "has" if total == 1 else "have"
    arms = Phrase(f"{wording.count(known)} of {wording.things(total, 'arm')}")
    return composed(arms, f" {has} at least {ENOUGH_PULLS} pulls; armscope chose no run yet.")


def needs(n_things: int, what: Words = Words("look"), n_harmful: int = 0) -> Words:
    """Return how many findings, and how many arms that harm, need attention."""
    if n_things + n_harmful == 0:
        return f"Nothing needs a {what}."
    counted = ((n_things, "finding"), (n_harmful, "harmful arm"))
    things = [f"{wording.number_word(n)} {one}{'s' if n > 1 else ''}" for n, one in counted if n]
    verb = "needs" if n_things + n_harmful == 1 else "need"
    return f"{wording.capital(' and '.join(things))} {verb} a {what}."


@dataclass(frozen=True)
class Claim:
    """One row of the attention list: a bold claim, and its evidence."""

    claim: Markdown
    evidence: Markdown


def attention(  # noqa: PLR0911, PLR0912 - one per kind
    item: Attention, saved: Savings, *, min_pulls: int, year_of_ms: int | None = None
) -> Claim:
    """Return an attention row in words; one sentence per kind. Times leave out the year of ``year_of_ms``."""
    arms = wording.things(item.count, "arm")
    overall = saved.overall
    match item.kind:
        case "costs_more":
            if saved.money is not None and saved.money.verdict == "costs_more":
                by = ", by estimated bills" if saved.money.is_estimated else ""
                return Claim("Selecting costs more money", f"savings {limits(saved.money.shown)}{by}")
            return Claim("Selecting costs more", f"savings {limits(overall.shown)}")
        case "part_costs_more":
            parts = [wording.literal(wording.plain(part_of(one))) for one in saved.losses[:3]]
            words = wording.literal(loss_words(saved.losses[0]))
            first = words if len(parts) == 1 else f"{parts[0]}: {words}"
            return Claim(f"Selecting costs more for {wording.listed(parts)}", first)
        case "savings_not_proven":
            more = more_for_proof(saved)
            plan = f"; a proof takes about {more}" if more else ""
            return Claim("Savings are not proven", f"{limits(overall.shown)}; {groups(overall)}{plan}")
        case "no_baseline_runs":
            return Claim(
                "No baseline runs yet",
                f"savings need runs with {wording.BASELINE} in the prompt",
            )
        case "baseline_share_off":
            return Claim(*_share_claim(saved))
        case "poisoned" | "drifting" | "rival" | "rising" | "never_referenced":
            return changed(item, year_of_ms)
        case "fell_together" | "new_model" | "mix_changed":
            return Claim(*_common(item, year_of_ms))
        case "feed_silent":
            return Claim(*_stopped(item, year_of_ms))
        case "silent":
            return Claim(
                f"No run for {wording.things(item.count, 'day')}",
                f"the newest ended {wording.minute(item.since_ms)}; do data still arrive?",
            )
        case "rejected_lines":
            lines = wording.things(item.count, "line")
            was = "was" if item.count == 1 else "were"
            return Claim(f"{lines} {was} rejected", "by active imports; each has its reason")
        case "raters_part":
            return Claim(*_parting(item))
        case "rewards_apart" | "reward_burst":
            return Claim(*_manual(item, year_of_ms))
        case "queue_overdue":
            return Claim(*_overdue(item, year_of_ms))
        case "experiment_harms":
            at = wording.minute(item.since_ms, year_of_ms=year_of_ms)
            how = f"its experiment stopped by itself, {at}: keep or exclude the arm"
            return Claim(f"Proven harm of offering {_first_names(item.arms)}", how)
        case "reward_hacked" | "success_fell":
            return Claim(*_paid(item))
        case "stale_arms":
            verb = "is" if item.count == 1 else "are"
            why = "no observation for 14 days, still in the prompt"
            return Claim(f"{arms} {verb} stale", why)
        case "under_explored":
            has = "has" if item.count == 1 else "have"
            return Claim(f"{arms} {has} fewer than {min_pulls} pulls", _first_names(item.arms))
        case "unknown_usage":
            runs = wording.things(item.count, "run")
            return Claim(f"{runs} without known tokens", "left out of the savings")
        case "uncompared":
            why = "no baseline run has their model, channel and baseline rate"
            return Claim(f"{wording.things(item.count, 'run')} can't be compared", why)
        case "passive":
            since = (
                ""
                if item.since_ms is None
                else f" since {wording.minute(item.since_ms, year_of_ms=year_of_ms)}"
            )
            return Claim(f"The learner is passive{since}", "runs are recorded, nothing is learnt")
        case _:
            assert_never(item.kind)


def _common(item: Attention, year_of_ms: int | None) -> tuple[Markdown, Markdown]:
    """Return what several arms' changes have in common, and how far they moved."""
    cause, evidence = item.cause, item.evidence
    arms = wording.things(item.count, "arm")
    if cause is None or evidence is None or evidence.mean_before is None:
        return f"{arms} changed", Words("")
    day = wording.day(cause.since_ms, year_of_ms=year_of_ms)
    n_fell = sum(shift.fell for shift in cause.shifts)
    n_rose = item.count - n_fell
    parts = [f"{wording.count(n)} {verb}" for n, verb in ((n_fell, "fell"), (n_rose, "rose")) if n]
    moved = " and ".join(parts)
    names = _first_names(item.arms)
    if cause.kind == "fell_together":
        mean = f"mean {wording.mean(evidence.mean)} since, {wording.mean(evidence.mean_before)} before"
        verb = "fell" if not n_rose else "are used more" if not n_fell else "changed"
        how = moved if n_rose and n_fell else mean
        likely = "the work, the agent or a detector changed" if n_fell else "one cause is likely"
        return f"{arms} {verb} on one day, {day}", f"{likely}; {how}: {names}"
    name = wording.short(cause.name or "unknown")
    if cause.kind == "new_model":
        share = wording.percent(cause.after, 0)
        return f"Model {name} is new since {day}", f"{share} of the runs; of {arms}, {moved}: {names}"
    shares = f"{wording.percent(cause.before, 0)} → {wording.percent(cause.after, 0)}"
    within = f"{arms} moved with it, but not within a channel or model: {names}"
    return f"The mix changed: {cause.of or 'channel'} {name} {shares} of the runs", f"since {day}; {within}"


def _stopped(item: Attention, year_of_ms: int | None) -> tuple[Markdown, Markdown]:
    words = [f"{feed.kind} {wording.short(feed.name)}" for feed in item.feeds]
    first = item.feeds[0]
    unit = "import" if first.kind in {"source", "importer"} else "run"
    due = wording.things(max(round(first.expected), 1), unit)
    since = wording.day(first.since_ms, year_of_ms=year_of_ms)
    were = "was" if round(first.expected) <= 1 else "were"
    claim = f"No {unit} of {wording.listed(words[:3])} for {wording.things(item.count, 'day')}"
    return claim, f"{due} {were} expected since {since}; others still arrive"


def _overdue(item: Attention, year_of_ms: int | None) -> tuple[Markdown, Markdown]:
    left = wording.things(item.count, "item")
    since = wording.minute(item.since_ms, year_of_ms=year_of_ms)
    name = "" if not item.overdue else wording.short(item.overdue[0].name)
    waits = "waits" if item.count == 1 else "wait"
    return Words("A review queue is overdue"), f"{left} {waits} to be judged, due since {since}: {name}"


def _paid(item: Attention) -> tuple[Markdown, Markdown]:
    finding = item.paid
    if finding is None:
        return Words("An environment needs a look"), Words("")
    name = wording.short(finding.environment)
    if finding.before is None or finding.after is None:
        return f"The reward of {name} looks hacked", wording.literal(finding.evidence)
    fell = f"from {wording.percent(finding.before, 0)} of the first episodes to {wording.percent(finding.after, 0)}"
    return f"Success in {name} fell", f"{fell} of the last, of {wording.things(finding.n, 'episode')}"


def _parting(item: Attention) -> tuple[Markdown, Markdown]:
    if item.parting is None:
        return f"{wording.capital(wording.number_word(item.count))} raters part from the others", Words("")
    return parting_claim(item.parting, item.count)


def _manual(item: Attention, year_of_ms: int | None) -> tuple[Markdown, Markdown]:
    one = item.manual
    if one is None:
        return Words("Manual rewards need a look"), Words("")
    who, arm = wording.short(one.actor), wording.literal(wording.short_name(one.arms[0]))
    moved = f"moved {arm} from {' to '.join(wording.means(one.before, one.after))}"
    more = f"; {wording.things(len(one.arms) - 1, 'more arm')}" if len(one.arms) > 1 else ""
    rewards = wording.things(one.n, "reward")
    if item.kind == "reward_burst":
        within = wording.things(one.minutes, "minute")
        since = wording.minute(one.since_ms, year_of_ms=year_of_ms)
        return (
            f"{rewards} within {within} by {who} {moved}",
            f"mean {wording.mean(one.mean)}, from {since} on{more}",
        )
    by_runs = "" if one.detector is None else f"; runs referenced it with {wording.mean(one.detector)}"
    return (
        f"The rewards of {who} part from the detector",
        f"mean {wording.mean(one.mean)} in {rewards} of {arm}{by_runs}; they {moved}{more}",
    )


def changed(item: Attention, year_of_ms: int | None) -> Claim:
    """Return arms that changed, fell together, or were never referenced, each with its observations."""
    evidence = item.evidence
    arms = wording.things(item.count, "arm")
    if evidence is None:
        are = "is" if item.count == 1 else "are"
        what = {"rival": "gave way to new ones", "rising": f"{are} used more"}.get(item.kind, "fell fast")
        return Claim(f"{arms} {what}", _first_names(item.arms))
    if item.kind == "poisoned" and evidence.type is not None:
        many = wording.things(item.count, evidence.type, wording.TYPE_PLURALS[evidence.type])
        return Claim(f"{many} look poisoned", _zeros(evidence, year_of_ms))
    if item.kind != "never_referenced":
        return Claim(*_shifted(item, evidence, year_of_ms))
    was = "was" if item.count == 1 else "were"
    cost = "" if evidence.token_cost is None else f"; {wording.count(evidence.token_cost)} tokens a prompt"
    zeros = f"{_all_of(evidence.n)} were 0{cost}"
    return Claim(f"{arms} {was} never referenced", zeros)


def _zeros(evidence: ArmEvidence, year_of_ms: int | None) -> Words:
    """Return the observations since then; counted as 0 only where nothing was earned."""
    since = (
        ""
        if evidence.since_ms is None
        else f" since {wording.since(evidence.since_ms, year_of_ms=year_of_ms)}"
    )
    if evidence.reward == 0:
        return f"{_all_of(evidence.n)}{since} were 0"
    before = "" if evidence.mean_before is None else f", {wording.mean(evidence.mean_before)} before"
    return f"{wording.things(evidence.n, 'observation')}{since} have a mean of {wording.mean(evidence.mean)}{before}"


def _all_of(n: int) -> Words:
    return f"{wording.count(n)} of {wording.things(n, 'observation')}"


def _shifted(item: Attention, arm: ArmEvidence, year_of_ms: int | None) -> tuple[Markdown, Markdown]:
    name = wording.literal(wording.short_name(item.arms[0]))
    since = "" if arm.since_ms is None else f" since {wording.since(arm.since_ms, year_of_ms=year_of_ms)}"
    evidence = f"mean {wording.mean(arm.mean)} in {wording.things(arm.n, 'observation')}{since}"
    if arm.mean_before is not None:
        evidence += f", {wording.mean(arm.mean_before)} in {wording.count(arm.n_before)} before"
    if item.kind == "rival":
        return f"{name} is used less where {_first_names(arm.rivals)} is in", evidence
    if arm.joined:
        news = _first_names(arm.joined)
        why = "it took the work, or something else changed that day"
        return f"{name} fell on the day {news} joined", f"{why}; {evidence}"
    if item.kind == "rising":
        return f"{name} is used more", evidence
    return f"{name} {'fell to nothing' if arm.reward == 0 else 'is drifting'}", evidence


def _share_claim(saved: Savings) -> tuple[Words, Words]:
    observed, expected = saved.share.observed, saved.share.expected
    words = Words("" if expected is None else f"configured {wording.percent(expected)}")
    if observed.lower is not None and observed.upper is not None:
        words += f"; {interval_name(observed)} {wording.percent_interval(observed.lower * 100, observed.upper * 100)}"
    return f"Baseline share is {wording.percent(observed.value)}", words


def _first_names(keys: Sequence[str], at_most: int = 3) -> Markdown:
    names = [wording.literal(wording.short_name(key)) for key in keys[:at_most]]
    more = len(keys) - at_most
    return Markdown(
        wording.listed(names) if more <= 0 else f"{', '.join(names)} and {wording.count(more)} more"
    )
