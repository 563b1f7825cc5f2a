"""Exports: everything of a learner goes into a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program import asked, command, context_of, done, following
from core.doors.progress import counted
from core.doors.terminal import say, say_table
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
        typer.Option(
            "--format", help="jsonl: our own lines; json, csv: OpenClaw's shape, for other programs."
        ),
    ] = "jsonl",
    with_manifest: Annotated[
        bool,
        typer.Option("--manifest", help="One zip: the export, and whose, when, how much, hashes, settings."),
    ] = False,
) -> None:
    """Write everything into a new file.

    As lines of armscope's own format it is loss-free; json and csv are views of it for other programs.
    """
    from core.flows.bundle import export_bundle
    from core.flows.export import export_file, export_into

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
    with following(line) as bar:
        follow = counted(bar, "runs")
        if with_manifest:
            packed = export_bundle(context, file, format_name, progress=follow)
        else:
            found = export_file(context, file, format_name, progress=follow)
    if with_manifest:
        done(line, packed, lambda: _say_package(packed))
    else:
        done(line, found, lambda: say(_export_words(found)))


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


def _export_words(found: ExportAnswer) -> str:
    if found.format == "jsonl":
        held = f"{number_of(found.runs, 'run')}, {number_of(found.rewards, 'reward')}"
        return f"{held} and {number_of(found.resets, 'reset')} written to {found.file}."
    tables = found.file if found.observations_file is None else f"{found.file} and {found.observations_file}"
    return f"{found.arms:,} posteriors and {found.observations:,} observations written to {tables}."
