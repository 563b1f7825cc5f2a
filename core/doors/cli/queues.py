"""Queues: lists of items to judge, and the next item of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.doors.cli.program.app import answer, command, context_of, group, written
from core.doors.cli.program.spelling import Options, words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.review import STATE_WORDS, About, Order, QueueAsks, Source, controls_of
from core.records.times import iso
from core.records.view import RunFilter

if TYPE_CHECKING:
    from core.records.review import NextItem, QueueAnswer, QueueRow, ReviewItem

_ASKS = QueueAsks()
_KNOWN_SHARE: Final = 0.1
"""Share of control items in a queue that has known answers and no ``--repeats``."""
QUEUES = group("queue", words="List review queues, add one, or take the next item of one.")
ADDED = "{name}: {items:,} items to judge{checks} ({id})."
CHECKS = ", and {n:,} with a known answer"
NOTHING_LEFT = "Nothing is left for you."


class QueueOptions(Options, frozen=True, kw_only=True):
    """Options of a new queue: its items, its reviewers and its known answers."""

    source: Annotated[Source, typer.Option("--source", help="Where its items come from.")] = _ASKS.source
    about: Annotated[About, typer.Option("--about", help="What an item is.")] = _ASKS.about
    order: Annotated[
        Order, typer.Option("--order", help="Which comes first; information: what a label could change most.")
    ] = _ASKS.order
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
    reviewers: Annotated[
        int, typer.Option("--reviewers", metavar="N", help=words("add_queue", "n_reviewers"))
    ] = 1
    blind: Annotated[bool, typer.Option("--blind", help=words("add_queue", "blind"))] = False
    rubric: Annotated[str, typer.Option("--rubric", metavar="VERSION", help=words("add_queue", "rubric"))] = (
        ""
    )
    due_days: Annotated[int, typer.Option("--due-days", metavar="N", help=words("add_queue", "due_days"))] = 7
    control: Annotated[
        list[str] | None,
        typer.Option(
            "--control",
            metavar="'RUN, [ARM,] OUTCOME'",
            help="An item whose answer is known; may be repeated.",
        ),
    ] = None
    controls: Annotated[
        Path | None, typer.Option("--controls", metavar="FILE", help="Known answers from a file, one a line.")
    ] = None
    repeats: Annotated[
        float | None,
        typer.Option(
            "--repeats",
            metavar="SHARE",
            help="Share of items that repeat a known answer or one's own; default: 0.1 with known answers, else 0.",
        ),
    ] = None

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
    rows: tuple[QueueRow, ...] = verb("queues").call(context_of(line))
    answer(line, rows, lambda: _say_queues(rows))


@command(
    "add",
    inside=QUEUES,
    takes="add_queue",
    examples=[
        'queue add "Week 13" --limit 30 --rubric v2',
        "queue add Doubtful --source disagree --order disagreement --reviewers 2 --blind",
        'queue add Checked --control "request-1, failure" --repeats 0.2',
    ],
)
def add_queue(
    line: typer.Context,
    name: Annotated[str, typer.Argument(help=words("add_queue", "name"))],
    options: QueueOptions,
) -> None:
    known = controls_of(
        "\n".join([*(options.control or ()), "" if options.controls is None else _lines(options.controls)])
    )
    default_share = _KNOWN_SHARE if known else 0.0
    context = context_of(line)
    queue: QueueAnswer = verb("add_queue").call(
        context,
        name=name,
        asks=options.asks(),
        n_reviewers=options.reviewers,
        blind=options.blind,
        rubric=options.rubric,
        controls=tuple(known),
        control_share=default_share if options.repeats is None else options.repeats,
        due_days=options.due_days,
    )
    checks = CHECKS.format(n=queue.n_controls) if queue.n_controls else ""
    text = ADDED.format(name=queue.name, items=queue.n_items, checks=checks, id=queue.id)
    written(line, context, queue, text, act=queue.id)


@command("next", inside=QUEUES, takes="next_item", examples=['queue next "Week 13"'])
def next_item(
    line: typer.Context, queue: Annotated[str, typer.Argument(help=words("next_item", "queue"))]
) -> None:
    item: NextItem = verb("next_item").call(context_of(line), queue=queue)
    answer(line, item, lambda: _say_next(item))


def _lines(file: Path) -> str:
    """Return the text of a file of known answers."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(
            f"Known answers must be a file of text, got {file}: {problem}.",
            next_step="Write one a line, like: request-1, failure",
        ) from problem


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
    heads = ("queue", "name", "done", "open", "set aside", "held", "left for you", "rubric", "due")
    say_table(heads, table, numbers=(2, 3, 4, 5, 6))


def _say_next(one: NextItem) -> None:
    progress = one.progress
    held = f", {progress.held_by_others:,} held by others" if progress.held_by_others else ""
    say(f"{progress.name}: {progress.done:,} of {progress.total:,} done{held}.")
    if one.item is None:
        skipped = f" You passed over {progress.skipped_by_me:,}." if progress.skipped_by_me else ""
        say(f"{NOTHING_LEFT}{skipped}")
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
    say_table(("level", "words", "outcome", "score"), levels, numbers=(0, 3))
