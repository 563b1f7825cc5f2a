"""Exports: everything of a learner goes into a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program.app import command, context_of, done, following, global_options
from core.doors.cli.program.spelling import words
from core.doors.progress import counted
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.counts import number_of
from core.records.status import left_out_words
from core.records.training import Pairing, TrainingAnswer, TrainingFormat, TrainingQuery

if TYPE_CHECKING:
    from core.flows.bundle import BundleAnswer, Manifest
    from core.flows.context import Context
    from core.records.answers import ExportAnswer


@command(
    examples=[
        "export all.jsonl",
        "export handover.zip --manifest",
        "export beliefs.csv --format csv",
        "export all.parquet --format parquet",
        "export - | gzip > all.jsonl.gz",
        "export samples.jsonl --format sft_jsonl --manifest",
        "export pairs.jsonl --format preference_jsonl --pairing layer",
    ]
)
def export(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file, or - for standard output.")],
    format_name: Annotated[
        Literal[
            "jsonl",
            "json",
            "csv",
            "parquet",
            "reward_jsonl",
            "sft_jsonl",
            "preference_jsonl",
            "trace_jsonl",
            "reward_csv",
        ],
        typer.Option("--format", help=f"{words('export', 'format')} The others: to train on."),
    ] = "jsonl",
    with_manifest: Annotated[
        bool,
        typer.Option(
            "--manifest",
            help="One zip: the export, and whose, when, how much, hashes, settings; to train on: FILE.manifest.json "
            "beside it.",
        ),
    ] = False,
    pairing: Annotated[
        Literal["prompt", "layer"], typer.Option(help=words("export_training", "pairing"))
    ] = "prompt",
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help=words("export_training", "with_secrets"))
    ] = False,
) -> None:
    """Only jsonl, armscope's own format, is loss-free; parquet, json and csv are views of it for other programs.

    The other formats are to train on. sft_jsonl and preference_jsonl hold what passes the thresholds in force.
    reward_jsonl and reward_csv hold all that was judged; trace_jsonl holds all requests and responses.
    """
    from core.flows.export import export_into

    context = context_of(line)
    # Comparisons narrow the type, a test of membership does not.
    if format_name != "jsonl" and format_name != "json" and format_name != "csv" and format_name != "parquet":  # noqa: PLR1714
        _export_training(line, context, file, format_name, pairing, with_manifest, with_secrets)
        return
    if str(file) == "-":
        if global_options(line).as_json:
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
    one_verb = verb("export_bundle" if with_manifest else "export")
    tell = _say_package if with_manifest else _say_export
    with following(line) as bar:
        result = one_verb.call(context, target=file, format=format_name, progress=counted(bar, "runs"))
    done(line, result, lambda: tell(result))


def _export_training(
    line: typer.Context,
    context: Context,
    file: Path,
    format_name: TrainingFormat,
    pairing: Pairing,
    with_manifest: bool,
    with_secrets: bool,
) -> None:
    from core.flows.training import training_into

    if str(file) == "-":
        if global_options(line).as_json or with_manifest:
            raise InvalidInput(
                "Standard output can hold the rows alone, got --json or --manifest beside them.",
                next_step="Name a file, for example samples.jsonl.",
            )
        query = TrainingQuery(format=format_name, pairing=pairing, with_secrets=with_secrets)
        training_into(context, sys.stdout.buffer, "-", query)
        return
    result = verb("export_training").call(
        context,
        target=file,
        format=format_name,
        pairing=pairing,
        manifest=with_manifest,
        with_secrets=with_secrets,
    )
    done(line, result, lambda: _say_training(result))


def _say_training(result: TrainingAnswer) -> None:
    manifest = result.manifest
    say(
        f"{number_of(result.rows, 'row')} of {number_of(manifest.evaluations, 'evaluation')} "
        f"written to {result.file}: "
        f"{manifest.split.train:,} to train on, {manifest.split.test:,} to test with."
    )
    left_out = {
        name.replace("_", " "): count
        for name in manifest.left_out.__struct_fields__
        if (count := getattr(manifest.left_out, name))
    }
    if left_out:
        say(f"Left out: {', '.join(f'{count:,} {name}' for name, count in left_out.items())}.")
    if manifest.suspicions_count:
        held = "written" if manifest.query.with_secrets else "held back; --with-secrets writes them"
        say(f"{number_of(manifest.suspicions_count, 'row')} seem to hold a secret ({held}).")
    if result.manifest_file is not None:
        say(f"What is in it: {result.manifest_file}.")


def _say_package(packed: BundleAnswer) -> None:
    manifest = packed.manifest
    say(
        f"{packed.file}: {manifest.learner} at revision {manifest.revision:,}, {number_of(manifest.runs, 'run')}, "
        f"{number_of(manifest.arms, 'arm')}, {number_of(manifest.rewards, 'reward')}, "
        f"{number_of(manifest.resets, 'reset')}.{_left_out(manifest)}"
    )
    say_table(
        ("file", "bytes", "SHA-256"),
        [(one.name, f"{one.size_bytes:,}", one.sha256) for one in manifest.files],
    )


def _left_out(result: ExportAnswer | Manifest) -> str:
    """Return the note on an export from which texts, evaluations or compacted runs are left out."""
    words = ""
    if not result.texts:
        words += " Texts (notes, reasons, feedback, excerpts) are left out, so it is not loss-free."
    if result.hidden:
        words += (
            f" {number_of(result.hidden, 'evaluation')} by others left out, so it is not loss-free: what they are of "
            "is open to you in a blind queue. Judge it or pass it over, and export again."
        )
    return words + (f" {left_out_words(result.compacted)}" if result.compacted else "")


def _say_export(result: ExportAnswer) -> None:
    if result.format in {"jsonl", "parquet"}:
        held = f"{number_of(result.runs, 'run')}, {number_of(result.rewards, 'reward')}"
        say(f"{held} and {number_of(result.resets, 'reset')} written to {result.file}.{_left_out(result)}")
        say(*(() if result.head is None else (f"Head of its chain: {result.head}",)))
        return
    tables = (
        result.file if result.observations_file is None else f"{result.file} and {result.observations_file}"
    )
    counts = f"{result.arms:,} posteriors and {result.observations:,} observations"
    say(f"{counts} written to {tables}.{_left_out(result)}")
