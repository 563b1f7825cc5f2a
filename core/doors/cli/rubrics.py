"""Rubrics: the versions by which people judge, and a new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import answer, command, context_of, group, written
from core.doors.terminal import say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.misfits import misfit
from core.records.rubric import MOST_LEVELS, Rubric

if TYPE_CHECKING:
    from core.records.review import RubricAnswer, RubricRow


RUBRICS = group("rubric", words="List the versions of the rubric, or add one.")
ADDED = "Rubric {version} is defined."


@command("list", inside=RUBRICS, takes="rubrics", examples=["rubric", "rubric list"])
def list_rubrics(line: typer.Context) -> None:
    rows: tuple[RubricRow, ...] = verb("rubrics").call(context_of(line))
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
    row: RubricAnswer = verb("add_rubric").call(context, rubric=_rubric(version, title, file))
    written(line, context, row, ADDED.format(version=row.version), act=row.id)


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
    say_table(("rubric", "version", "title", "levels", "judged by it"), table, numbers=(4,))
