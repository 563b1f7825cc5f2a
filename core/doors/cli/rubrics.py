"""Rubrics: versions that people judge by: listed and defined."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from core.doors.cli.program.app import answer, command, context_of, written
from core.doors.terminal import say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.rubric import MOST_LEVELS, Rubric

if TYPE_CHECKING:
    from core.records.review import RubricAnswer, RubricRow


@command(
    examples=["rubric list", 'rubric add v2 --title "Answers"', "rubric add v3 --file rubric.json"],
    words="List the versions of the rubric that people judge by, or define one.",
)
def rubric(
    line: typer.Context,
    action: Annotated[Literal["list", "add"], typer.Argument(help="list, or add VERSION.")] = "list",
    version: Annotated[str | None, typer.Argument(help="What it is called.")] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="What it is about.")] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="JSON with title, criteria and levels."),
    ] = None,
) -> None:
    if action == "list":
        rows: tuple[RubricRow, ...] = verb("rubrics").call(context_of(line))
        answer(line, rows, lambda: _say_rubrics(rows))
        return
    if version is None:
        raise typer.BadParameter("add takes a version, for example: rubric add v2 --title Answers")
    context = context_of(line)
    made: RubricAnswer = verb("add_rubric").call(context, rubric=_rubric(version, title, file))
    written(line, context, made, f"Rubric {made.version} is defined.", act=made.id)


def _rubric(version: str, title: str, file: Path | None) -> Rubric:
    said: object = {} if file is None else _said(file)
    named = {"version": version, **({"title": title} if title else {})}
    try:
        return msgspec.convert({**said, **named} if isinstance(said, dict) else said, Rubric)
    except msgspec.ValidationError as problem:
        raise InvalidInput(
            f"A rubric must be an object with title, criteria and 2 to {MOST_LEVELS} levels, got one of which this "
            f"is wrong: {problem}.",
            next_step='A level is written {"words": "Right", "outcome": "success", "score": 1}.',
        ) from problem


def _said(file: Path) -> object:
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
    say_table(("rubric", "version", "title", "levels", "judged by it"), table, numbers=(4,))
