"""Judging: evaluations and the agreement of graders, queues of items, rubrics, and browsers without sign-in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import Fields, command, context_of, group, reads, writes, written
from core.doors.terminal import say, say_table
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.explained import judging
from core.records.counts import number_of
from core.records.misfits import misfit
from core.records.observation import epoch_words
from core.records.review import MOST_LEVELS, STATE_WORDS, About, Order, QueueAsks, Rubric, Source
from core.records.run_query import RunFilter
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows import queries
    from core.records.browser import BrowserAnswer
    from core.records.evaluation import EvaluationAnswer
    from core.records.review import NextItem, QueueAnswer, ReviewItem, RubricAnswer

_ASKS = QueueAsks()
QUEUES = group("queue", words="List review queues, add one, or take the next item of one.")
QUEUE_ADDED = "{name}: {items:,} items to judge ({id})."
NOTHING_LEFT = "Nothing is left for you."
RUBRICS = group("rubric", words="List the versions of the rubric, or add one.")
RUBRIC_ADDED = "Rubric {version} is defined."
BROWSERS = group("browser", words="List the browsers that judge without sign-in, or confirm the name of one.")
CONFIRMED = "{browser} counts as the rater {name} ({id}): {judged} so far."


_ALL = "Leave out superseded and undone ones, or list them, too."
_FILTERS = {"rater": "NAME", "rubric": "VERSION", "layer": "URI", "run": "ID", "arm": "ARM"}


@writes(
    "evaluate",
    examples=[
        "evaluate request-1 success --score 0.9 --rubric v2",
        "evaluate kairos://layer/11111111-2222-4333-8444-555555555555 failure --model judge-1 --create",
    ],
    options={
        **{"subject": "SUBJECT", "feedback": "TEXT", "rater": "NAME", "model": "NAME"},
        **{"rubric": "VERSION", "arm": "ARM"},
    },
)
def _evaluated(result: EvaluationAnswer) -> str:
    ready = [
        use
        for use, is_ready in (
            ("fine-tuning", result.exportable_for_sft),
            ("preference pairs", result.exportable_for_preference),
        )
        if is_ready
    ]
    blocked = sorted({*result.sft_blockers, *result.preference_blockers})
    parts = [
        f"{result.uri} judged a {result.outcome}: {result.label}, signed score {result.signed_score + 0:g}.",
        f"Ready for {' and '.join(ready)}." if ready else "Ready for no training export.",
        f"Blocked by {', '.join(blocked)}." if blocked else "",
        f"It takes the place of {result.supersedes}." if result.supersedes else "",
        f"It moves {result.arms:,} arm{'' if result.arms == 1 else 's'}." if result.arms else "",
        epoch_words(result.counted_in),
        *result.warnings,
    ]
    return " ".join(part for part in parts if part)


reads(
    "evaluations",
    with_format=True,
    examples=["evaluations --limit 10", "evaluations --blocker missing_rubric_version --format csv"],
    options={**_FILTERS, "counting": typer.Option("--counting/--all", help=_ALL)},
)(judging.EVALUATIONS)


@reads(
    "agreement",
    examples=["agreement", "agreement --rubric v2 --json"],
    options=_FILTERS,
    omit=("outcome", "label", "blocker", "counting"),
)
def _say_agreement(report: queries.AgreementReport) -> None:
    """Reliable is an interval from .800 on, tentative from .667 on (Krippendorff); 1 is perfect, 0 is chance."""
    say(
        f"{report.n:,} evaluations; "
        f"{report.n_items:,} items were judged by two or more of {report.n_graders:,} graders."
    )
    say("")
    say_table(
        judging.AGREEMENTS, (("outcome", report.outcome), ("label", report.label), ("score", report.score))
    )
    if report.graders:
        say("", "Each grader beside all others, by outcome:")
        say_table(judging.GRADERS, report.graders)


reads("list", inside=QUEUES, takes="queues", examples=["queue", "queue list --json"], omit=("undone",))(
    judging.QUEUES
)


@command(
    "add",
    inside=QUEUES,
    takes="add_queue",
    examples=[
        'queue add "Week 13" --limit 30 --rubric v2',
        "queue add Doubtful --source disagree --order disagreement --reviewers 2 --blind",
        "queue add Sample --experiment experiment-1 --limit 60",
    ],
    options={
        "n_reviewers": typer.Option("--reviewers", metavar="N"),
        **{"rubric": "VERSION", "due_days": "N"},
    },
    omit=("asks", "token"),
)
def add_queue(
    line: typer.Context,
    *,
    values: Fields,
    source: Annotated[Source, typer.Option("--source", help="Where its items come from.")] = _ASKS.source,
    about: Annotated[About, typer.Option("--about", help="What an item is.")] = _ASKS.about,
    order: Annotated[Order, typer.Option("--order", help="Which comes first.")] = "oldest",
    arm: Annotated[str | None, typer.Option("--arm", metavar="ARM", help="Of runs that had it.")] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="Picked by hand; may be repeated.")
    ] = None,
    below: Annotated[float, typer.Option("--below", help="The highest reward or score that is low.")] = (
        _ASKS.below
    ),
    experiment: Annotated[
        str, typer.Option("--experiment", metavar="ID", help="Draw a random sample of its sessions, by side.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many items at most.")] = _ASKS.limit,
    hold_minutes: Annotated[
        int,
        typer.Option(
            "--hold-minutes", metavar="N", help="How long an item is held for its reviewer, 1 to 1,440."
        ),
    ] = _ASKS.hold_minutes,
) -> None:
    context = context_of(line)
    asks = QueueAsks(
        source="runs" if run else "experiment" if experiment else source,
        about=about,
        order=order,
        wanted=RunFilter(arm=arm),
        runs=tuple(run or ()),
        experiment=experiment,
        below=below,
        limit=limit,
        hold_minutes=hold_minutes,
    )
    queue: QueueAnswer = Verbs.add_queue.call(context, asks=asks, **values)
    text = QUEUE_ADDED.format(name=queue.name, items=queue.n_items, id=queue.id)
    written(line, context, queue, text, act=queue.id)


@reads("next", inside=QUEUES, takes="next_item", examples=['queue next "Week 13"'])
def _say_next(one: NextItem) -> None:
    progress = one.progress
    held = f", {progress.held_by_others:,} held by others" if progress.held_by_others else ""
    say(f"{progress.name}: {progress.done:,} of {progress.total:,} done{held}.")
    if one.item is None:
        off = f" You put off {progress.skipped_by_me:,}." if progress.skipped_by_me else ""
        say(f"{NOTHING_LEFT}{off}")
        return
    _say_item(one.item)


def _say_item(item: ReviewItem) -> None:
    say(f"Item {item.item}: {item.uri}, {STATE_WORDS[item.state]}: {item.why}.")
    say(f"Reserved for you until {iso(item.hold_until_ms)}.")
    for text in item.texts:
        say("", f"Asked: {text.instruction or 'not kept'}", f"Answered: {text.response or 'not kept'}")
    say("")
    say_table(judging.LEVELS, enumerate(item.levels, 1))


reads("list", inside=RUBRICS, takes="rubrics", examples=["rubric", "rubric list"])(judging.RUBRICS)


@command(
    "add",
    inside=RUBRICS,
    takes="add_rubric",
    examples=['rubric add v2 --title "Answers"', "rubric add v3 --file rubric.json"],
)
def add_rubric(
    line: typer.Context,
    version: Annotated[str, typer.Argument(help="Name of the version.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="What it is about.")] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="JSON with title, criteria and levels."),
    ] = None,
) -> None:
    context = context_of(line)
    row: RubricAnswer = Verbs.add_rubric.call(context, rubric=_rubric(version, title, file))
    written(line, context, row, RUBRIC_ADDED.format(version=row.version), act=row.id)


def _rubric(version: str, title: str, file: Path | None) -> Rubric:
    document: object = {} if file is None else _document(file)
    named = {"version": version, **({"title": title} if title else {})}
    try:
        return msgspec.convert({**document, **named} if isinstance(document, dict) else document, Rubric)
    except msgspec.ValidationError as problem:
        raise InvalidInput(
            f"A rubric must be an object with title, criteria and 2 to {MOST_LEVELS} levels, got one of which this "
            f"is wrong: {misfit(problem)}.",
            next_step='A level is written {"words": "Right", "outcome": "success", "score": 1}.',
        ) from problem


def _document(file: Path) -> object:
    try:
        return msgspec.json.decode(file.read_bytes())
    except OSError as problem:
        raise InvalidInput(
            f"{file} can't be read: {problem.strerror or problem}.", next_step="Name a file with the rubric."
        ) from problem
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(
            f"{file} must hold JSON, got text that is none: {problem}.",
            next_step='Write it like {"title": "Answers", "criteria": [{"name": "Correct"}]}.',
        ) from problem


reads("list", inside=BROWSERS, takes="browsers", examples=["browser", "browser list --json"])(
    judging.BROWSERS
)


@writes("confirm", inside=BROWSERS, takes="confirm_browser", examples=['browser confirm "kim 3f2a91"'])
def _confirmed(result: BrowserAnswer) -> str:
    judged = number_of(result.n_judged, "judgement")
    return CONFIRMED.format(browser=result.browser, name=result.name, id=result.id, judged=judged)
