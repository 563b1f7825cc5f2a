"""Sentences about review: progress, holds, and the effect of a judgement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from core.explained.table import Table, text, time
from core.flows.queries import EvaluationPreview
from core.records.actor import Actor
from core.records.evaluation import Blocker, Crediting, EvaluationOutcome, Grade, Thresholds
from core.records.observation import epoch_words
from core.records.review import (
    NEEDED,
    STATE_WORDS,
    Level,
    MissedUse,
    MyJudgement,
    Progress,
    QueueRow,
    ReviewItem,
    Source,
    StoredOrder,
    SubmitAnswer,
)
from core.records.run_query import RunFilter
from core.records.times import instant
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

SOURCE_WORDS: Final[Mapping[Source, str]] = {
    "unjudged": "not judged by a person",
    "low": "low score",
    "disagree": "raters disagree",
    "filter": "all that passes the filters",
    "runs": "runs picked by hand",
    "unused": "runs that had an arm without a use",
    "experiment": "a random sample of an experiment",
}
ORDER_WORDS: Final[Mapping[StoredOrder, str]] = {
    "oldest": "oldest first",
    "lowest": "lowest first",
    "disagreement": "most disagreement first",
    "random": "a random sample",
    "information": "next by what a label could change",
}
SAY_BETTER: Final = Words("Say better when to use it")
NO_RUBRIC: Final = Words("No rubric: these are the default levels, and their judgements train no model.")
_HOLDERS: Final = 3
_HOLDER_CHARS: Final = 60
_MINUTE_S: Final = 60
_LINE_CHARS: Final = 80
_SAME: Final = 1e-9


def review(known: Progress, actor: Actor) -> Sentence:
    """Return the caller's progress in all of a queue, and what others hold.

    Judgements of a browser without a confirmed name are not its own: they have the name under which they count.
    """
    if known.total and known.done + known.set_aside == known.total:
        return composed("All ", Phrase(wording.things(known.total, "item")), " of this queue are done.")
    by = "you" if _is_own(actor) else wording.short(actor.name)
    start: Sentence = composed(
        Phrase(f"{wording.count(known.judged_by_me)} of {wording.count(known.total)}"), f" by {by}"
    )
    if known.held_by_others:
        start = composed(*start, f", {wording.count(known.held_by_others)} held by others")
    if not known.left_for_me:
        off = f" but {wording.things(known.skipped_by_me, 'item')} you put off"
        return composed(*start, f", nothing is left for you{off if known.skipped_by_me else ''}.")
    return composed(*start, ".")


def _is_own(actor: Actor) -> bool:
    return bool(actor.person) or not actor.browser


def whose(actor: Actor, name: str) -> Markdown:
    """Return under whose name the judgements of a browser count; "" for a signed-in person and a confirmed name."""
    if _is_own(actor):
        return Words("")
    which = f"the name {wording.literal(name)}" if name else "a name of this browser"
    count = f"its judgements count as {wording.short(actor.name)}’s, with those of others like it"
    return f"Until an operator confirms {which} (Queues), {count}."


def left_over(known: Progress, actor: Actor) -> Markdown:
    """Return why open items of a queue are not for the caller, and what ends it."""
    n, waits = wording.things(known.open, "item"), "waits" if known.open == 1 else "wait"
    more = (
        "" if _is_own(actor) else " Another browser becomes one once an operator confirms its name (Queues)."
    )
    return f"{n} {waits} for another rater.{more}"


def queues(rows: Sequence[QueueRow]) -> Sentence:
    """Return how many queues are active, and how much of them is done."""
    if not rows:
        return composed("No queue is active.")
    total = sum(row.progress.total for row in rows)
    done = sum(row.progress.done + row.progress.set_aside for row in rows)
    active = wording.things(len(rows), "queue")
    are = "is" if len(rows) == 1 else "are"
    share = Phrase(f"{wording.count(done)} of {wording.things(total, 'item')}")
    return composed(f"{active} {are} active: ", share, " done.")


def missed_use(one: MissedUse) -> Markdown:
    """Return the missed use of an arm, its interval and sample, and the advice where it is missed often."""
    interval = Words("too few for an interval")
    if one.rate.limits is not None:
        low, high = (100 * limit for limit in one.rate.limits)
        interval = f"{wording.percent_interval(low, high, 0)}, the exact 95% interval by Clopper and Pearson"
    judged = f"{wording.count(one.n_judged)} of {wording.count(one.n_items)} judged in {wording.literal(one.queue)}"
    rate = f"Missed use: {wording.percent(one.rate.value, 0)} of the sessions that needed it"
    advice = f" **{SAY_BETTER}.**" if one.is_frequent else Words("")
    return f"{rate} ({interval}; one run a session, {judged}).{advice}"


def queue_note(known: Progress, row: QueueRow, *, year_of_ms: int | None) -> Markdown:
    """Return a queue in a line: everyone's progress, the caller's time for the rest, and who holds what. Markdown."""
    done = known.done + known.set_aside
    after = f"{row.n_reviewers} people’s judgements" if row.n_reviewers > 1 else "one judgement"
    parts: list[Markdown] = []
    if known.total:
        parts.append(f"Queue: {wording.count(done)} of {wording.count(known.total)} done, each after {after}")
    if known.seconds_each is not None and known.left_for_me:
        minutes = max(round(known.seconds_each * known.left_for_me / _MINUTE_S), 1)
        parts.append(f"about {wording.things(minutes, 'minute')} left")
    parts.append(wording.capital(ORDER_WORDS[row.asks.order]))
    parts += [Words("blind: others’ judgements are hidden while you judge")] if row.blind else []
    if row.overdue:
        parts.append(f":red[overdue since {wording.minute(row.due_ms, year_of_ms=year_of_ms)}]")
    counted = {"left for you": known.left_for_me, "skipped": known.set_aside}
    counted |= {"assigned to you": known.assigned_to_me, "put off by you": known.skipped_by_me}
    parts += [f"{wording.count(n)} {words}" for words, n in counted.items() if n]
    parts.append(held(known))
    return " · ".join(part for part in parts if part)


def held(known: Progress) -> Markdown:
    """Return who holds which item, and until when."""
    if not known.held_by_others:
        return Words("")
    who = [
        f"{wording.short(one.actor, _HOLDER_CHARS)}: item {one.item} until {clock(one.until_ms)}"
        for one in known.holders[:_HOLDERS]
    ]
    more = len(known.holders) - len(who)
    return f"{', '.join(who)}{f', {wording.count(more)} more' if more > 0 else ''}"


def clock(at_ms: int) -> Words:
    """Return an hour of today.

    >>> clock(600_000)
    '00:10 UTC'
    """
    return f"{instant(at_ms):%H:%M} UTC"


def judges(item: ReviewItem, credit: Crediting) -> Markdown:
    """Return what is judged, and whether that moves a belief; ``credit`` is that of a run as a whole. Markdown."""
    subject, moves = item.subject, Words("no belief")
    if subject.arm:
        moves = moves if item.rubric_version == NEEDED.version else Words("its belief")
        name = wording.short(wording.short_name(subject.arm))
        return f"You judge **{name}** in this run. This moves {moves}."
    if subject.run and credit != "none":
        moves = f"the beliefs of the arms {'used' if credit == 'referenced' else 'in its prompt'}"
    what = "this answer" if subject.layer or subject.execution else "the run as a whole"
    return f"You judge **{what}**. This moves {moves}."


def item_note(item: ReviewItem) -> Markdown:
    """Return why the reviewer has this item, and its progress. Markdown."""
    parts = [f"Item {item.item}", wording.literal(wording.plain(item.why)), STATE_WORDS[item.state]]
    if item.n_judged is not None and item.n_reviewers > 1:
        parts.append(f"{item.n_judged} of {item.n_reviewers} have judged it")
    if item.assigned_to is not None:
        parts.append(Words("assigned to you"))
    return " · ".join(part for part in parts if part)


def level_words(index: int, level: Level, *, with_key: bool) -> Markdown:
    """Return a level in a button: its key where there is a keyboard, and its words. Its score is never a mark.

    >>> level_words(4, Level(words="Right", outcome="success", score=1.0), with_key=True)
    '4 Right'
    """
    words = wording.literal(wording.plain(level.words))
    return f"{index} {words}" if with_key else words


def judged(outcome: EvaluationOutcome, score: float | None) -> Words:
    """Return an outcome with its score. That of a failure is how sure it is, so it can't be read as a mark.

    >>> judged("failure", 0.7), judged("success", 0.8), judged("success", None)
    ('failure, 70% sure', 'success 0.8', 'success')
    """
    if score is None:
        return Words(outcome)
    return f"failure, {100 * score:g}% sure" if outcome == "failure" else f"success {score:g}"


def grade_lines(grade: Grade, score: float, thresholds: Thresholds) -> tuple[Markdown, Markdown]:
    """Return the permitted uses of a judgement, or its blockers; Markdown, a line each."""
    eligible = f"eligible, label {grade.label}"
    return (
        _use("Fine-tuning", grade.sft_blockers, eligible, score, thresholds),
        _use(
            "Preference pairs",
            grade.preference_blockers,
            "eligible" if grade.label != "rejected" else "eligible as the rejected half",
            score,
            thresholds,
        ),
    )


def _use(
    what: Words, blockers: tuple[Blocker, ...], eligible: Words, score: float, thresholds: Thresholds
) -> Words:
    if not blockers:
        return f":green[:material/check_circle:] **{what}:** {eligible}"
    words = ", ".join(_blocker(one, score, thresholds) for one in blockers)
    return f":yellow[:material/warning:] **{what}:** blocked, {words}"


def _blocker(one: Blocker, score: float, thresholds: Thresholds) -> Words:
    return {
        "missing_rubric_version": "this queue has no rubric",
        "missing_evaluator_identity": "no evaluator is named",
        "outcome_not_success": "it is no success",
        "score_below_sft_threshold": f"score {score:g} is below {thresholds.sft:g}",
        "score_below_preference_threshold": f"score {score:g} is below {thresholds.preference:g}",
    }[one]


def moves(preview: EvaluationPreview | None) -> Markdown:
    """Return the effect of a judgement on arms; Markdown."""
    if preview is None or not preview.n_moved:
        return Words("It moves no arm.")
    first = preview.effects[0]
    before, after = wording.means(first.before.mean, first.after.mean)
    name = wording.literal(wording.short_name(first.arm))
    rank = (
        ""
        if first.before.rank == first.after.rank
        else f" and the rank from {wording.count(first.before.rank)} to {wording.count(first.after.rank)}"
    )
    more = (
        f" {wording.things(preview.n_moved - 1, 'more arm', 'more arms')} move too."
        if preview.n_moved > 1
        else ""
    )
    return f"It would move the mean of {name} from {before} to {after}{rank}.{more}"


def meanwhile(item: ReviewItem) -> Markdown:
    """Return who judged an item since it was opened, and whether it still needs this judgement; never their verdict.

    Markdown.
    """
    *others, last = [wording.short(name) for name in item.meanwhile]
    names = f"{', '.join(others)} and {last}" if others else last
    is_needed = item.n_judged is not None and item.n_judged < item.n_reviewers
    rest = (
        "it still needs yours" if is_needed else "it needs no more, and you will be asked before yours counts"
    )
    return f"{names} {'have' if others else 'has'} judged this meanwhile: {rest}."


def result_lines(item: ReviewItem, answer: SubmitAnswer, *, ran_out: bool) -> list[Markdown]:
    """Return the recorded judgement, and others' of the same item; Markdown, the first line is the judgement's.

    ``ran_out``: the hold had ended when it was typed or sent.
    """
    mine = answer.evaluation
    level = level_of(item.levels, mine.outcome, mine.score)
    words = (
        judged(mine.outcome, mine.score)
        if level is None
        else wording.literal(wording.plain(item.levels[level - 1].words))
    )
    lines: list[Markdown] = [f"**Item {item.item}** judged: {words}, {mine.label}."]
    if late := epoch_words(mine.counted_in):
        lines.append(wording.literal(late))
    if ran_out:
        lines.append(
            Words("Your hold had run out; the item was still free, so it was recorded all the same.")
        )
    if answer.replaced:
        lines.append(replaced(answer.replaced))
    lines += [
        f"{wording.literal(wording.plain(one.rater))} judged it {judged(one.outcome, one.score)} meanwhile."
        for one in answer.meanwhile
    ]
    suggestion = answer.suggestion
    if suggestion is not None:
        by = wording.short(suggestion.model)
        same = "as you do" if suggestion.agrees else "other than you"
        apart = f", {abs(suggestion.difference):.2g} apart" if suggestion.difference else ""
        scale = " on the scale from −1 to 1" if apart and not suggestion.agrees else ""
        lines.append(
            f"The model grader {by} says {judged(suggestion.outcome, suggestion.score)}, {same}{apart}{scale}."
        )
    return lines


def replaced(browsers: Sequence[str]) -> Markdown:
    """Return that judgements replaced those of other browsers, and how these come back."""
    names = wording.listed([wording.literal(wording.plain(one)) for one in browsers])
    return (
        f"This replaced the judgement of {names}: browsers without a confirmed name are one rater. "
        "Undo brings it back."
    )


def level_of(levels: Sequence[Level], outcome: EvaluationOutcome, score: float | None) -> int | None:
    """Return the number of the level with this outcome and score."""
    for index, level in enumerate(levels, 1):
        if level.outcome == outcome and score is not None and abs(level.score - score) < _SAME:
            return index
    return None


def due(row: QueueRow) -> str:
    """Return when a queue should be complete."""
    if row.due_ms is None:
        return wording.MISSING
    return f"{wording.minute(row.due_ms)}{', overdue' if row.overdue else ''}"


def about(uri: str, layers: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the judged object as short plain text. ``layers`` are the known names of layers by their uid."""
    kind, _, rest = uri.partition(":")
    if kind == "run":
        run, _, arm = rest.partition("#")
        return wording.plain(f"{arm} in run {run}" if arm else f"run {run}")
    if kind == "kairos":
        uid = rest.rpartition("layer/")[2].partition("?")[0]
        return wording.plain(layers.get(uid) or f"layer {uid[:8]}…")
    return wording.plain(f"{kind} {rest[:8]}…")


def last_table(layers: Mapping[str, str]) -> Table[MyJudgement]:
    """Return the table of one's own latest judgements; ``layers`` as `about` takes them."""
    return Table(
        at=time("when", lambda one: one.at_ms, width=116),
        queue=text("queue", lambda one: None if one.queue is None else f"{one.queue}, {one.item}", width=110),
        about=text("about", lambda one: about(one.uri, layers), width=300),
        judgement=text("judgement", lambda one: judged(one.outcome, one.score), width=110),
    )


def filtered_runs(run_filter: RunFilter) -> Markdown:
    """Return the runs that a filter selects, as Markdown."""
    part = {"in": " in the prompt", "named": " by name", "out": " left out", None: ""}[run_filter.part]
    arm = [f"{wording.literal(wording.short_name(run_filter.arm))}{part}"] if run_filter.arm else []
    return Markdown(
        ", ".join(
            [*arm, *run_filter.outcomes, *run_filter.classes, *run_filter.statuses, *run_filter.achieved]
        )
        or "any"
    )


class Part(NamedTuple):
    """A part of an instruction or a response; ``is_raw``: it is a value for a program, not a person's words."""

    name: str
    words: str
    is_raw: bool = False


def readable(text: str) -> list[Part]:
    """Return the parts of an instruction or a response, people's words first, without empty ones.

    What is no JSON object is one part.

    >>> [part.words for part in readable('{"activation_query": "Why?", "n": 2}')], readable("plain")
    (['Why?', '2'], [Part(name='', words='plain', is_raw=False)])
    """
    try:
        document = json.loads(text)
    except ValueError:
        return [Part("", text)]
    if isinstance(document, str):
        return [Part("", document)]
    if not isinstance(document, dict) or not document:
        return [Part("", _indented(document))]
    named = [
        (str(name).replace("_", " "), part)
        for name, part in document.items()
        if part not in ({}, [], None, "")
    ]
    plain = [Part(name, part) for name, part in named if isinstance(part, str)]
    raw = [Part(name, _indented(part), is_raw=True) for name, part in named if not isinstance(part, str)]
    return [*reversed(plain), *raw]


def _indented(document: object) -> str:
    """On one line where it fits there."""
    line = json.dumps(document, ensure_ascii=False)
    return line if len(line) <= _LINE_CHARS else json.dumps(document, ensure_ascii=False, indent=2)
