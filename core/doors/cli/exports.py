"""Exports: everything of a learner goes into a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program.app import asked, command, context_of, done, following
from core.doors.cli.program.spelling import words
from core.doors.progress import counted
from core.doors.terminal import say, say_table
from core.doors.verbs import ExportInput, verb
from core.errors import InvalidInput
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.flows.bundle import BundleAnswer
    from core.flows.export import ExportAnswer


@command(
    examples=[
        "export all.jsonl",
        "export handover.zip --manifest",
        "export beliefs.csv --format csv",
        "export - | gzip > all.jsonl.gz",
    ]
)
def export(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file, or - for standard output.")],
    format_name: Annotated[
        Literal["jsonl", "json", "csv"],
        typer.Option("--format", help=words(ExportInput, "format")),
    ] = "jsonl",
    with_manifest: Annotated[
        bool,
        typer.Option("--manifest", help="One zip: the export, and whose, when, how much, hashes, settings."),
    ] = False,
) -> None:
    """As lines of armscope's own format it is loss-free; json and csv are views of it for other programs."""
    from core.flows.export import export_into

    context = context_of(line)
    if str(file) == "-":
        if asked(line).as_json:
            raise InvalidInput(
                "Standard output can hold the lines or the JSON answer, got both (- and --json).",
                next_step="Name a file, or leave --json out.",
            )
        if with_manifest:
            raise InvalidInput(
                "A zip with a manifest must be a file, got - (standard output).",
                next_step="Name a file, for example export.zip.",
            )
        export_into(context, sys.stdout.buffer, "-", format_name)
        return
    asked_for = verb("export_bundle" if with_manifest else "export")
    tell = _say_package if with_manifest else _say_export
    with following(line) as bar:
        given = ExportInput(target=file, format=format_name)
        found = asked_for.call(context, given, progress=counted(bar, "runs"))
    done(line, found, lambda: tell(found))


def _say_package(packed: BundleAnswer) -> None:
    manifest = packed.manifest
    say(
        f"{packed.file}: {manifest.learner} at revision {manifest.revision:,}, {number_of(manifest.runs, 'run')}, "
        f"{number_of(manifest.arms, 'arm')}, {number_of(manifest.rewards, 'reward')}, "
        f"{number_of(manifest.resets, 'reset')}."
    )
    say_table(
        ("file", "bytes", "SHA-256"),
        [(one.name, f"{one.size_bytes:,}", one.sha256) for one in manifest.files],
    )


def _say_export(found: ExportAnswer) -> None:
    if found.format == "jsonl":
        held = f"{number_of(found.runs, 'run')}, {number_of(found.rewards, 'reward')}"
        say(f"{held} and {number_of(found.resets, 'reset')} written to {found.file}.")
        return
    tables = found.file if found.observations_file is None else f"{found.file} and {found.observations_file}"
    say(f"{found.arms:,} posteriors and {found.observations:,} observations written to {tables}.")
