"""Queues: what is to be judged: listed, made, and the next item of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from core.doors.cli.program.app import answer, command, context_of, written
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.review import STATE_WORDS, About, Order, QueueAsks, Source, controls_of
from core.records.times import iso
from core.records.view import RunFilter

if TYPE_CHECKING:
    from core.records.review import Given, QueueAnswer, QueueRow, ReviewItem

_ASKS = QueueAsks()
_KNOWN_SHARE: Final = 0.1
"""How often a known answer is given where nobody says."""


@command(
    examples=[
        "queue list",
        'queue add "Week 13" --limit 30 --rubric v2',
        "queue add Doubtful --source disagree --order disagreement --reviewers 2 --blind",
        'queue add Checked --control "request-1, failure" --repeats 0.2',
        'queue next "Week 13"',
    ],
    words="List queues of what is to be judged, make one, or be given the next item of one.",
)
def queue(
    line: typer.Context,
    action: Annotated[
        Literal["list", "add", "next"], typer.Argument(help="list, add NAME, or next QUEUE.")
    ] = "list",
    name: Annotated[str | None, typer.Argument(help=words("next_item", "queue"))] = None,
    source: Annotated[Source, typer.Option("--source", help="Where its items come from.")] = _ASKS.source,
    about: Annotated[About, typer.Option("--about", help="What an item is.")] = _ASKS.about,
    order: Annotated[
        Order, typer.Option("--order", help="Which comes first; information: what a label could change most.")
    ] = _ASKS.order,
    arm: Annotated[str | None, typer.Option("--arm", metavar="ARM", help="Of runs that had it.")] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="Picked by hand; may be repeated.")
    ] = None,
    below: Annotated[
        float, typer.Option("--below", help="The highest reward or score that is low.")
    ] = _ASKS.below,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many items at most.")] = _ASKS.limit,
    reviewers: Annotated[
        int, typer.Option("--reviewers", metavar="N", help=words("add_queue", "n_reviewers"))
    ] = 1,
    blind: Annotated[bool, typer.Option("--blind", help=words("add_queue", "blind"))] = False,
    rubric: Annotated[
        str, typer.Option("--rubric", metavar="VERSION", help=words("add_queue", "rubric"))
    ] = "",
    due_days: Annotated[
        int, typer.Option("--due-days", metavar="N", help=words("add_queue", "due_days"))
    ] = 7,
    control: Annotated[
        list[str] | None,
        typer.Option(
            "--control",
            metavar="'RUN, [ARM,] OUTCOME'",
            help="An item whose answer is known; may be repeated.",
        ),
    ] = None,
    controls: Annotated[
        Path | None, typer.Option("--controls", metavar="FILE", help="The same from a file, one a line.")
    ] = None,
    repeats: Annotated[
        float | None,
        typer.Option(
            "--repeats",
            metavar="SHARE",
            help="How often a known answer, or one's own judgement again, is asked for instead of the next item;"
            " default: 0.1 where answers are known, else 0.",
        ),
    ] = None,
) -> None:
    if action == "list":
        rows: tuple[QueueRow, ...] = verb("queues").call(context_of(line))
        answer(line, rows, lambda: _say_queues(rows))
        return
    if name is None:
        raise typer.BadParameter(f'{action} takes a name, for example: queue {action} "Week 13"')
    context = context_of(line)
    if action == "next":
        given: Given = verb("next_item").call(context, queue=name)
        answer(line, given, lambda: _say_given(given))
        return
    picked = tuple(run or ())
    asks = QueueAsks(
        source="runs" if picked else source,
        about=about,
        order=order,
        wanted=RunFilter(arm=arm),
        runs=picked,
        below=below,
        limit=limit,
    )
    known = controls_of("\n".join([*(control or ()), "" if controls is None else _lines(controls)]))
    share = repeats if repeats is not None else _KNOWN_SHARE if known else 0.0
    made: QueueAnswer = verb("add_queue").call(
        context,
        name=name,
        asks=asks,
        n_reviewers=reviewers,
        blind=blind,
        rubric=rubric,
        controls=tuple(known),
        control_share=share,
        due_days=due_days,
    )
    checks = f", {made.n_controls:,} of a known answer beside them" if made.n_controls else ""
    written(
        line, context, made, f"{made.name}: {made.n_items:,} items to judge{checks} ({made.id}).", act=made.id
    )


def _lines(file: Path) -> str:
    """What a file of known answers says."""
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
            "overdue" if one.overdue else iso(one.due_ms) or "at no time",
        )
        for one in rows
    ]
    heads = ("queue", "name", "done", "open", "set aside", "held", "left for you", "rubric", "due")
    say_table(heads, table, numbers=(2, 3, 4, 5, 6))


def _say_given(given: Given) -> None:
    known = given.progress
    held = f", {known.held_by_others:,} held by others" if known.held_by_others else ""
    say(f"{known.name}: {known.done:,} of {known.total:,} done{held}.")
    if given.item is None:
        skipped = f" You passed over {known.skipped_by_me:,}." if known.skipped_by_me else ""
        say(f"Nothing is left for you.{skipped}")
        return
    _say_item(given.item)


def _say_item(item: ReviewItem) -> None:
    say(f"Item {item.item}: {item.uri}, {STATE_WORDS[item.state]}: {item.why}.")
    say(f"It is yours until {iso(item.hold_until_ms)}.")
    for text in item.texts:
        say("", f"Asked: {text.instruction or 'not kept'}", f"Answered: {text.response or 'not kept'}")
    levels = [
        (f"{number}", level.words, level.outcome, f"{level.score:g}")
        for number, level in enumerate(item.levels, 1)
    ]
    say("")
    say_table(("level", "words", "outcome", "score"), levels, numbers=(0, 3))
