"""Judging: evaluations and the agreement of graders, queues of items, rubrics, and browsers without sign-in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, group, rows_or, written
from core.doors.cli.program.spelling import Options, arm_ids
from core.doors.documents import evaluations as evaluations_document
from core.doors.terminal import say, say_cells
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.records.counts import number_of
from core.records.evaluation import Blocker, EvaluationOutcome, GraderKind, Label
from core.records.evaluation_page import EvaluationFilter, Grader
from core.records.misfits import misfit
from core.records.observation import epoch_words
from core.records.review import STATE_WORDS, About, Order, QueueAsks, Source
from core.records.rubric import MOST_LEVELS, Rubric
from core.records.times import iso
from core.records.view import RunFilter

if TYPE_CHECKING:
    from core.flows import queries
    from core.maths.statistics.agreement import Agreement, NoAgreement
    from core.records.browser import BrowserRow
    from core.records.evaluation_page import Evaluation
    from core.records.review import NextItem, QueueRow, ReviewItem, RubricRow

_WHY: dict[NoAgreement, str] = {
    "no_pairs": "nothing was judged by two",
    "no_variation": "undefined: all say the same",
    "few_items": "",
}
_ASKS = QueueAsks()
QUEUES = group("queue", words="List review queues, add one, or take the next item of one.")
QUEUE_ADDED = "{name}: {items:,} items to judge ({id})."
NOTHING_LEFT = "Nothing is left for you."
RUBRICS = group("rubric", words="List the versions of the rubric, or add one.")
RUBRIC_ADDED = "Rubric {version} is defined."
BROWSERS = group("browser", words="List the browsers that judge without sign-in, or confirm the name of one.")
CONFIRMED = "{browser} counts as the rater {name} ({id}): {judged} so far."


class EvaluationOptions(Options, frozen=True, kw_only=True):
    """Options that filter evaluations by their grader and their subject."""

    rater: Annotated[
        str | None, typer.Option("--rater", metavar="NAME", help="By this person or model grader.")
    ] = None
    kind: Annotated[GraderKind | None, typer.Option("--kind", help="By people, by model graders.")] = None
    rubric: Annotated[
        str | None, typer.Option("--rubric", metavar="VERSION", help="By this version of a rubric.")
    ] = None
    layer: Annotated[
        str | None, typer.Option("--layer", metavar="URI", help="Of this layer: uid or URI.")
    ] = None
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Of this run: uid or number.")] = None
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="ARM", help="Of this arm.", autocompletion=arm_ids)
    ] = None


@command(
    examples=[
        "evaluate request-1 success --score 0.9 --rubric v2",
        "evaluate kairos://layer/11111111-2222-4333-8444-555555555555 failure --model judge-1 --create",
    ],
    options={
        **{"subject": "SUBJECT", "feedback": "TEXT", "rater": "NAME", "model": "NAME"},
        **{"rubric": "VERSION", "arm": "ARM"},
    },
)
def evaluate(line: typer.Context, values: Fields) -> None:
    context = context_of(line)
    result = Verbs.evaluate.call(context, **values)
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
    written(line, context, result, " ".join(part for part in parts if part), act=result.id)


@command(
    examples=["evaluations --limit 10", "evaluations --blocker missing_rubric_version --format csv"],
    omit=("wanted",),
)
def evaluations(
    line: typer.Context,
    options: EvaluationOptions,
    *,
    outcome: Annotated[EvaluationOutcome | None, typer.Option("--outcome", help="With this outcome.")] = None,
    label: Annotated[Label | None, typer.Option("--label", help="With this label.")] = None,
    blocker: Annotated[
        Blocker | None, typer.Option("--blocker", help="Not in training for this reason.")
    ] = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Also those that were superseded or taken back.")
    ] = False,
    values: Fields,
    format_name: Format = None,
) -> None:
    context = context_of(line)
    evaluation_filter = EvaluationFilter(
        outcome=outcome,
        label=label,
        blocker=blocker,
        counting=not all_of_them,
        **msgspec.structs.asdict(options),
    )
    page = Verbs.evaluations.call(context, wanted=evaluation_filter, **values)
    heads = ("evaluation", "of", "outcome", "score", "label", "grader", "rubric", "ready for", "state")
    rows = [
        (
            one.id.rpartition("-")[2],
            one.subject.uri,
            one.outcome,
            "none" if one.score is None else f"{one.score:g}",
            one.label,
            _grader_name(one.grader),
            one.rubric or "none",
            _ready(one),
            one.state,
        )
        for one in page
    ]
    document = evaluations_document(context, page)
    rows_or(line, format_name, document, lambda: say_cells(heads, rows, numbers=(0, 3)))


def _ready(one: Evaluation) -> str:
    uses = [
        name
        for name, blockers in (("sft", one.sft_blockers), ("preference", one.preference_blockers))
        if not blockers
    ]
    return ", ".join(uses) or "nothing"


def _grader_name(grader: Grader) -> str:
    if grader.kind == "unknown":
        return "not named"
    return f"{grader.name} (model)" if grader.kind == "model" else grader.name


@command(examples=["agreement", "agreement --rubric v2 --json"])
def agreement(line: typer.Context, options: EvaluationOptions) -> None:
    """Reliable is an interval from .800 on, tentative from .667 on (Krippendorff); 1 is perfect, 0 is chance."""
    one, context = Verbs.agreement, context_of(line)
    evaluation_filter = EvaluationFilter(**msgspec.structs.asdict(options))
    report = one.call(context, wanted=evaluation_filter)
    answer(line, one.plain(context, report), lambda: _say_agreement(report))


def _say_agreement(report: queries.AgreementReport) -> None:
    say(
        f"{report.n:,} evaluations; "
        f"{report.n_items:,} items were judged by two or more of {report.n_graders:,} graders."
    )
    heads = ("on", "alpha", "95% interval", "in words", "same answer")
    parts = (("outcome", report.outcome), ("label", report.label), ("score", report.score))
    say("")
    say_cells(heads, [(name, *_cells(part)) for name, part in parts], numbers=(1, 4))
    if report.graders:
        say("", "Each grader beside all others, by outcome:")
        rows = [
            (
                _grader_name(one.grader),
                *_cells(one.agreement),
                "unknown" if one.weight is None else f"{one.weight:.2f}",
            )
            for one in report.graders
        ]
        say_cells(("grader", *heads[1:], "weight"), rows, numbers=(1, 4, 5))


def _cells(one: Agreement) -> tuple[str, str, str, str]:
    interval = (
        "too few items" if one.lower is None or one.upper is None else f"{one.lower:.2f} to {one.upper:.2f}"
    )
    raw = "none" if one.raw is None else f"{one.raw:.0%}"
    if one.alpha is None:
        return "none", "none", _WHY[one.missing or "no_pairs"], raw
    return f"{one.alpha:.2f}", interval, one.word or "too few to say", raw


class QueueOptions(Options, frozen=True, kw_only=True):
    """Options of a new queue: its items and its reviewers."""

    source: Annotated[Source, typer.Option("--source", help="Where its items come from.")] = _ASKS.source
    about: Annotated[About, typer.Option("--about", help="What an item is.")] = _ASKS.about
    order: Annotated[Order, typer.Option("--order", help="Which comes first.")] = "oldest"
    arm: Annotated[str | None, typer.Option("--arm", metavar="ARM", help="Of runs that had it.")] = None
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="Picked by hand; may be repeated.")
    ] = None
    below: Annotated[float, typer.Option("--below", help="The highest reward or score that is low.")] = (
        _ASKS.below
    )
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many items at most.")] = _ASKS.limit
    hold_minutes: Annotated[
        int,
        typer.Option(
            "--hold-minutes", metavar="N", help="How long an item is held for its reviewer, 1 to 1,440."
        ),
    ] = _ASKS.hold_minutes

    def asks(self) -> QueueAsks:
        """Return the query for the queue's items."""
        picked = tuple(self.run or ())
        return QueueAsks(
            source="runs" if picked else self.source,
            about=self.about,
            order=self.order,
            wanted=RunFilter(arm=self.arm),
            runs=picked,
            below=self.below,
            limit=self.limit,
            hold_minutes=self.hold_minutes,
        )


@command("list", inside=QUEUES, takes="queues", examples=["queue", "queue list --json"])
def list_queues(line: typer.Context) -> None:
    rows = Verbs.queues.call(context_of(line))
    answer(line, rows, lambda: _say_queues(rows))


@command(
    "add",
    inside=QUEUES,
    takes="add_queue",
    examples=[
        'queue add "Week 13" --limit 30 --rubric v2',
        "queue add Doubtful --source disagree --order disagreement --reviewers 2 --blind",
    ],
    options={
        "n_reviewers": typer.Option("--reviewers", metavar="N"),
        **{"rubric": "VERSION", "due_days": "N"},
    },
    omit=("asks", "token"),
)
def add_queue(line: typer.Context, values: Fields, options: QueueOptions) -> None:
    context = context_of(line)
    queue = Verbs.add_queue.call(context, asks=options.asks(), **values)
    text = QUEUE_ADDED.format(name=queue.name, items=queue.n_items, id=queue.id)
    written(line, context, queue, text, act=queue.id)


@command("next", inside=QUEUES, takes="next_item", examples=['queue next "Week 13"'])
def next_item(line: typer.Context, values: Fields) -> None:
    item = Verbs.next_item.call(context_of(line), **values)
    answer(line, item, lambda: _say_next(item))


def _say_queues(rows: tuple[QueueRow, ...]) -> None:
    table = [
        (
            one.progress.queue,
            one.progress.name,
            f"{one.progress.done:,} of {one.progress.total:,}",
            f"{one.progress.open:,}",
            f"{one.progress.set_aside:,}",
            f"{one.progress.held_by_others:,}",
            f"{one.progress.left_for_me:,}",
            one.rubric or "none",
            "overdue" if one.overdue else iso(one.due_ms) or "no date",
        )
        for one in rows
    ]
    heads = ("queue", "name", "done", "open", "skipped", "held", "left for you", "rubric", "due")
    say_cells(heads, table, numbers=(2, 3, 4, 5, 6))


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
    levels = [
        (f"{number}", level.words, level.outcome, f"{level.score:g}")
        for number, level in enumerate(item.levels, 1)
    ]
    say("")
    say_cells(("level", "words", "outcome", "score"), levels, numbers=(0, 3))


@command("list", inside=RUBRICS, takes="rubrics", examples=["rubric", "rubric list"])
def list_rubrics(line: typer.Context) -> None:
    rows = Verbs.rubrics.call(context_of(line))
    answer(line, rows, lambda: _say_rubrics(rows))


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
    row = Verbs.add_rubric.call(context, rubric=_rubric(version, title, file))
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


def _say_rubrics(rows: tuple[RubricRow, ...]) -> None:
    table = [
        (
            one.id,
            one.rubric.version,
            one.rubric.title,
            ", ".join(f"{number} {level.words}" for number, level in enumerate(one.rubric.levels, 1)),
            f"{one.n_judged:,}",
        )
        for one in rows
    ]
    say_cells(("rubric", "version", "title", "levels", "judged by it"), table, numbers=(4,))


@command("list", inside=BROWSERS, takes="browsers", examples=["browser", "browser list --json"])
def list_browsers(line: typer.Context) -> None:
    rows = Verbs.browsers.call(context_of(line))
    answer(line, rows, lambda: _say_browsers(rows))


@command("confirm", inside=BROWSERS, takes="confirm_browser", examples=['browser confirm "kim 3f2a91"'])
def confirm(line: typer.Context, values: Fields) -> None:
    context = context_of(line)
    result = Verbs.confirm_browser.call(context, **values)
    judged = number_of(result.n_judged, "judgement")
    text = CONFIRMED.format(browser=result.browser, name=result.name, id=result.id, judged=judged)
    written(line, context, result, text, act=result.id)


def _say_browsers(rows: tuple[BrowserRow, ...]) -> None:
    table = [
        (
            one.browser,
            one.name if one.id else f"{one.person}, not signed in",
            "" if one.id is None else f"{one.by} ({one.id})",
            f"{one.n_judged:,}",
            iso(one.last_ms) or "",
        )
        for one in rows
    ]
    say_cells(("browser", "counts as", "confirmed by", "judgements", "latest"), table, numbers=(3,))
