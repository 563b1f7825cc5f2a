"""Browsers: those that judge without sign-in, and the confirmation of the name of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of, group, written
from core.doors.cli.program.spelling import words
from core.doors.terminal import say_table
from core.doors.verbs import verb
from core.records.counts import number_of
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.browser import BrowserAnswer, BrowserRow

BROWSERS = group("browser", words="List the browsers that judge without sign-in, or confirm the name of one.")
CONFIRMED = "{browser} counts as the rater {name} ({id}): {judged} so far."


@command("list", inside=BROWSERS, takes="browsers", examples=["browser", "browser list --json"])
def list_browsers(line: typer.Context) -> None:
    rows: tuple[BrowserRow, ...] = verb("browsers").call(context_of(line))
    answer(line, rows, lambda: _say(rows))


@command("confirm", inside=BROWSERS, takes="confirm_browser", examples=['browser confirm "kim 3f2a91"'])
def confirm(
    line: typer.Context, browser: Annotated[str, typer.Argument(help=words("confirm_browser", "browser"))]
) -> None:
    context = context_of(line)
    result: BrowserAnswer = verb("confirm_browser").call(context, browser=browser)
    judged = number_of(result.n_judged, "judgement")
    text = CONFIRMED.format(browser=result.browser, name=result.name, id=result.id, judged=judged)
    written(line, context, result, text, act=result.id)


def _say(rows: tuple[BrowserRow, ...]) -> None:
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
    say_table(("browser", "counts as", "confirmed by", "judgements", "latest"), table, numbers=(3,))
