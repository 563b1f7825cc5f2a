"""Bringing in: import, with its progress and its report."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from core.doors.cli.line import Json, answer, app, desk_of
from core.doors.terminal import literal, say, say_error, say_json_line, say_table
from core.errors import UnreadableSource
from core.flows.find import USUAL, Found, find_sessions
from core.flows.importing import ImportAnswer, import_files
from core.flows.watch import tells_news, watch
from core.formats import Source
from core.records.times import iso


@app.command("import")
def import_(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files and folders with transcripts; none: what the usual agents keep here, after asking."
        ),
    ] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="Instead of recognising it.")] = None,
    unit: Annotated[
        Literal["prompt", "turn", "episode"] | None, typer.Option("--unit", help="What counts as a run.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", help="The tools that were offered, where the runs don't say.")
    ] = None,
    phase: Annotated[
        Literal["passive", "active"] | None, typer.Option("--phase", help="For this import.")
    ] = None,
    watched: Annotated[
        bool, typer.Option("--watch", help="Go on and import what grows, until Ctrl+C; all of it is one act.")
    ] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.1, max=86_400, help="With --watch: seconds between two looks.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Read agent transcripts; again changes nothing."""
    named = paths or _found_sessions(as_json=as_json)
    desk = desk_of(context)
    if watched:
        told = watch(
            desk,
            named,
            partial(time.sleep, every_s),
            format=format_name,
            unit=unit,
            tools_file=tools,
            phase=phase,
        )
        _say_watched(told, as_json=as_json)
        return
    with _progress(quiet=as_json) as follow:
        found = import_files(
            desk,
            named,
            format=format_name,
            unit=unit,
            tools_file=tools,
            phase=phase,
            progress=follow,
        )
    answer(found, as_json=as_json, words=lambda: _say_import(found))


def _found_sessions(*, as_json: bool) -> list[Path]:
    """Folders where the usual agents keep sessions, once the person has agreed; else the list and exit code 2."""
    found = find_sessions(Path.home())
    folders = list(dict.fromkeys(Path(one.folder) for one in found))
    if not as_json and found:
        _say_found(found)
    if as_json or not found or not sys.stdin.isatty():
        say_error(_nothing_named(found, folders), as_json=as_json)
        raise typer.Exit(2)
    typer.confirm("Import all of it?", abort=True)
    return folders


def _say_found(found: Sequence[Found]) -> None:
    heads = ("agent", "format", "files", "size", "newest", "folder")
    rows = [
        (
            one.agent,
            one.format,
            f"{one.files:,}",
            decimal(one.size_bytes),
            (iso(one.newest_ms) or "unknown")[:16].replace("T", " "),
            one.folder,
        )
        for one in found
    ]
    say_table(heads, rows, numbers=(2, 3))


def _nothing_named(found: Sequence[Found], folders: Sequence[Path]) -> dict[str, object]:
    if not found:
        places = ", ".join(f"~/{place}" for _, place in USUAL)
        error = f"Nothing was named to import, and there are no sessions where the usual agents keep them ({places})."
        command = "Name files or folders that hold agent transcripts; the README lists the formats."
    else:
        error = f"Nothing was named to import; sessions were found in {len(folders):,} folders."
        command = f"Import them with: armscope import {shlex.join(map(str, folders))}"
    told: dict[str, object] = {"ok": False, "error": error, "code": "usage", "next": command}
    return {**told, "found": [msgspec.to_builtins(one) for one in found]} if found else told


def _say_watched(told: Iterable[ImportAnswer | UnreadableSource], *, as_json: bool) -> None:
    """Say what watching brings until it is stopped; with ``--json`` one document a line."""
    act: str | None = None
    try:
        for one in told:
            act = act if isinstance(one, UnreadableSource) else one.id
            if as_json:
                say_json_line(one.as_answer() if isinstance(one, UnreadableSource) else one)
            elif isinstance(one, UnreadableSource):
                say_error(one, as_json=False)
            elif tells_news(one):
                say(_news(one))
    except KeyboardInterrupt:
        if not as_json:
            say(
                "Stopped watching."
                if act is None
                else f"Stopped watching. Take it back with: armscope undo {act}"
            )


def _news(one: ImportAnswer) -> str:
    """What was not known before, on one line."""
    n_told = one.ledger - one.ledger_duplicates
    ledger = f", {n_told:,} rewards, carried beliefs, resets and notes" if n_told else ""
    return f"{one.id}: {one.runs - one.duplicates - one.updated:,} new runs, {one.updated:,} grown{ledger}"


def _say_import(found: ImportAnswer) -> None:
    say(
        f"{found.id}: {found.runs:,} runs ({found.unit}) from {found.files:,} files ({found.format}): "
        f"{found.observed:,} observed, {found.skipped:,} skipped{_reasons(found)}."
    )
    counts = {
        "known already": found.duplicates,
        "grown": found.updated,
        "empty prompts": found.empty,
        "replies outside any turn": found.outside,
        "calls of tools that were not offered": found.not_offered,
        "rewards, carried beliefs, resets and notes": found.ledger,
        "of them known already": found.ledger_duplicates,
        "lines rejected": found.rejected_count,
    }
    for what, count in counts.items():
        if count:
            say(f"  {count:,} {what}")
    for line in found.rejected[:10]:
        say(f"    {line.file}{'' if line.line is None else f', line {line.line}'}: {line.reason}")
    for file in found.ignored[:10]:
        say(f"  not read: {file.file}: {file.reason}")
    _say_differences(found)
    for note in found.notes:
        say(f"  {note}")
    if found.hint:
        say(found.hint)
    say(f"Take it back with: armscope undo {found.id}")


def _reasons(found: ImportAnswer) -> str:
    said = ", ".join(f"{count:,} {reason}" for reason, count in found.skipped_by.items())
    return f" ({said})" if said else ""


def _say_differences(found: ImportAnswer) -> None:
    if not found.differences_count:
        return
    say(f"  {found.differences_count:,} posteriors in the file differ from what its own runs come to:")
    for one in found.differences[:10]:
        say(
            f"    {one.arm}: Beta({one.stated_alpha:g}, {one.stated_beta:g}) after {one.stated_pulls:,} pulls there, "
            f"Beta({one.alpha:g}, {one.beta:g}) after {one.pulls:,} from the runs"
        )


class _Following:
    """A progress bar over the files of an import, on a terminal only."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._tasks: dict[str, Any] = {}

    def __call__(self, source: Source, n_bytes: int) -> None:
        if self._bar is None:
            return
        if source.file not in self._tasks:
            self._tasks[source.file] = self._bar.add_task(
                literal(Path(source.file).name[:40]).plain, total=source.size_bytes
            )
        self._bar.update(self._tasks[source.file], completed=n_bytes)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[_Following]:
    """A bar for each file being read, on a terminal and nowhere else."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield _Following(None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Following(bar)
