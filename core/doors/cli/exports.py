"""Exports: everything of a learner goes into a file; and imports of transcripts, with their progress and report."""

from __future__ import annotations

import platform
import re
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from core.doors.cli.program.app import (
    Fields,
    command,
    context_of,
    done,
    following,
    global_options,
    has_terminal,
    written_words,
)
from core.doors.cli.program.spelling import words
from core.doors.documents import act as act_document
from core.doors.terminal import Bar, counted, say, say_error, say_json_line, say_on_stderr, say_table
from core.doors.verbs import Verb, Verbs
from core.errors import InvalidInput, UnreadableSource
from core.explained import machine
from core.records.counts import number_of
from core.records.parameters import ExportFormat
from core.records.status import left_out_words
from core.records.training import TrainingAnswer, TrainingFormat, TrainingOptions, TrainingQuery

if TYPE_CHECKING:
    from core.errors import ArmscopeError
    from core.flows.bundle import BundleAnswer, Manifest
    from core.flows.context import Context
    from core.flows.importing import ImportAnswer
    from core.flows.importing.spread import SpreadAnswer
    from core.flows.inventory import OwnInventory
    from core.flows.watch import AgentSessions
    from core.formats import Opened, Source
    from core.records.answers import ExportAnswer

_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LISTED: Final = 10
"""Lines, tools and reasons that the words name of each kind; they say how many more there are."""
WAITING = "Another long import is under way; this one goes on when that has ended."


@command(
    examples=[
        "export all.jsonl",
        "export handover.zip --manifest",
        "export beliefs.csv --format csv",
        "export all.parquet --format parquet",
        "export - | gzip > all.jsonl.gz",
        "export samples.jsonl --format sft_jsonl --manifest",
        "export pairs.jsonl --format preference_jsonl --pairing layer",
    ],
    words=Verbs.export.words,
    takes="export_training",
    omit=("target", "format", "manifest", "include_reward", *TrainingOptions.__annotations__),
)
def export(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file, or - for standard output.")],
    format_name: Annotated[
        Literal[ExportFormat, TrainingFormat],
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
    *,
    values: Fields,
) -> None:
    """Only jsonl, armscope's own format, is loss-free; parquet, json and csv are views of it for other programs.

    The other formats are to train on. sft_jsonl and preference_jsonl hold what passes the thresholds in force.
    reward_jsonl and reward_csv hold all that was judged; trace_jsonl holds all requests and responses.
    """
    from core.flows.export import export_into

    context = context_of(line)
    # Comparisons narrow the type, a test of membership does not.
    if format_name != "jsonl" and format_name != "json" and format_name != "csv" and format_name != "parquet":  # noqa: PLR1714
        _export_training(line, context, file, with_manifest, {"format": format_name, **values})
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
    operation: Verb[..., Any] = Verbs.export_bundle if with_manifest else Verbs.export
    tell = _say_package if with_manifest else _say_export
    with following(line) as bar:
        result = operation.call(context, target=file, format=format_name, progress=counted(bar, "runs"))
    done(line, result, lambda: tell(result))


def _export_training(
    line: typer.Context,
    context: Context,
    file: Path,
    with_manifest: bool,
    values: Fields,
) -> None:
    from core.flows.training import training_into

    if str(file) == "-":
        if global_options(line).as_json or with_manifest:
            raise InvalidInput(
                "Standard output can hold the rows alone, got --json or --manifest beside them.",
                next_step="Name a file, for example samples.jsonl.",
            )
        training_into(context, sys.stdout.buffer, "-", TrainingQuery(**values))
        return
    result = Verbs.export_training.call(context, target=file, manifest=with_manifest, **values)
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
    say_table(machine.PACKED, manifest.files)


def _left_out(result: ExportAnswer | Manifest) -> str:
    words = ""
    if not result.texts:
        words += " Texts (notes, reasons, feedback, excerpts) are left out, so it is not loss-free."
    if result.hidden:
        words += (
            f" {number_of(result.hidden, 'evaluation')} by others left out, so it is not loss-free: what they are of "
            "is open to you in a blind queue. Judge it or skip it, and export again."
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


@command(
    "import",
    examples=[
        "import ~/.claude/projects",
        "import runs.jsonl --tools tools.json --unit turn",
        "import ~/.claude/projects --watch --every 10",
        "import - --format claude-code < session.jsonl",
        "import exports --learner-from '*/{learner}/*.jsonl' --workers 2",
    ],
    options={
        "format": "NAME",
        "tools_file": typer.Option("--tools", metavar="FILE"),
    },
)
def import_(
    line: typer.Context,
    values: Fields,
    max_size: Annotated[
        str | None,
        typer.Option("--max", metavar="SIZE", help="How much a packed file may hold, like 8G (default: 4G)."),
    ] = None,
    max_rejected: Annotated[
        int | None,
        typer.Option(
            "--max-rejected",
            metavar="N",
            min=1,
            help="Rejected lines in a row that end a file (default: 100,000; 10,000 before a good one).",
        ),
    ] = None,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files, folders and archives with transcripts, or - for standard input; default: sessions of the "
            "usual agents, after asking."
        ),
    ] = None,
    watched: Annotated[
        bool, typer.Option("--watch", help="Go on and import what grows, until Ctrl+C; all of it is one act.")
    ] = False,
    every_s: Annotated[
        float,
        typer.Option(
            "--every", metavar="S", min=0.1, max=86_400, help="With --watch: seconds between two looks."
        ),
    ] = 2.0,
    learner_from: Annotated[
        str | None,
        typer.Option(
            "--learner-from",
            metavar="PATTERN",
            help="Import each file of folders into the learner that its path names, like '*/{learner}/*.jsonl'.",
        ),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show the answer, and write nothing.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=64,
            help="With --learner-from: so many processes (default: 1).",
        ),
    ] = None,
) -> None:
    """In a PATTERN, * is any characters of a part of the path, and ** is any number of folders."""
    from core.formats import Limits

    values["limits"] = Limits.of(
        inflated_bytes=None if max_size is None else _size_of(max_size), rejected_lines=max_rejected
    )
    if learner_from is None and workers is not None:
        raise typer.BadParameter("--workers goes with --learner-from, which says whose each file is")
    if preview and (watched or learner_from is not None):
        raise typer.BadParameter("--preview goes without --watch and --learner-from")
    if watched and values["replace"]:
        raise typer.BadParameter("--replace goes without --watch: it takes a file once")
    if learner_from is not None:
        if watched or not paths:
            raise typer.BadParameter("--learner-from takes folders, and goes without --watch")
        _import_spread(line, paths, learner_from, workers or 1, values)
        return
    paths = paths or _session_folders(as_json=global_options(line).as_json, preview=preview)
    context = context_of(line, create=True)
    if watched:
        from core.flows.watch import watch

        del values["each_event"], values["replace"]
        news = watch(context, paths, partial(time.sleep, every_s), **values)
        _say_watched(line, context, paths, news)
        return
    with following(line) as bar:
        result: ImportAnswer = Verbs.import_.call(
            context.for_rehearsal() if preview else context,
            paths=paths,
            **values,
            progress=None if bar is None else _Following(bar),
            waiting=partial(say_on_stderr, WAITING),
        )
    carried = () if preview else _carried_words(_keep_machine(context, result.id, paths))
    done(line, act_document(context, result), lambda: _say_import(line, context, result, carried, preview))


def _import_spread(
    line: typer.Context, folders: Sequence[Path], pattern: str, workers: int, values: Fields
) -> None:
    from core.flows.importing.spread import LearnerImport, SpreadOptions, import_spread

    if global_options(line).learner is not None:
        raise typer.BadParameter("--learner-from says whose each file is; leave --learner out")
    context = context_of(line, create=True, whole=True)
    with following(line) as bar:

        def follow(one: LearnerImport, n_done: int, n_all: int) -> None:
            if bar is not None:
                bar.show(n_done, n_all, lambda: f"{n_done:,} of {n_all:,} learners", at=one.learner)

        answer = import_spread(
            context, folders, pattern, workers=workers, options=SpreadOptions(**values), progress=follow
        )
    done(line, answer, lambda: _say_spread(answer))
    if any(one.answer is None for one in answer.learners):
        raise typer.Exit(1)


def _say_spread(spread: SpreadAnswer) -> None:
    say_table(machine.IMPORTS, spread.learners)
    for one in spread.learners:
        for problem in one.problems[:_LISTED]:
            say(f"  {one.learner}: {problem}")
    if spread.left_out_count:
        say(f"  {number_of(spread.left_out_count, 'file')} left out:")
        for file in spread.left_out[:_LISTED]:
            say(f"    {file.file}: {file.reason}")
        if spread.left_out_count > _LISTED:
            say(f"    … and {spread.left_out_count - _LISTED:,} more; --json lists the first hundred")


def _size_of(words: str) -> int:
    """Bytes of a size as people write it.

    >>> _size_of("8G"), _size_of("512 MiB"), _size_of("1000")
    (8589934592, 536870912, 1000)
    """
    match = _SIZE.fullmatch(words)
    if match is None or not int(match[1]):
        raise typer.BadParameter(f"--max must be a size like 8G or 512M, got {words[:60]!a}")
    return int(match[1]) * _UNITS[match[2].lower()]


def _session_folders(*, as_json: bool, preview: bool) -> list[Path]:
    """Folders where the usual agents keep sessions, once the person has agreed; else the list and exit code 2."""
    from core.flows.watch import discover_sessions

    sessions = discover_sessions(Path.home())
    folders = list(dict.fromkeys(Path(one.folder) for one in sessions))
    if not as_json and sessions:
        say_table(machine.SESSIONS, sessions)
    if as_json or not sessions or not has_terminal():
        say_error(_nothing_named(sessions, folders, preview=preview), as_json=as_json)
        raise typer.Exit(2)
    if not preview:
        typer.confirm("Import all of it?", abort=True)
    return folders


def _nothing_named(
    sessions: Sequence[AgentSessions], folders: Sequence[Path], *, preview: bool
) -> dict[str, object]:
    from core.flows.watch import AGENT_FOLDERS

    if not sessions:
        places = ", ".join(f"~/{folder}" for _, folder in AGENT_FOLDERS)
        error = f"Nothing was named to import, and there are no sessions where the usual agents keep them ({places})."
        command = "Name files or folders that hold agent transcripts; armscope help import lists the formats."
    else:
        error = f"Nothing was named to import; sessions were found in {number_of(len(folders), 'folder')}."
        words = ["armscope", "import", *(["--preview"] if preview else []), *map(str, folders)]
        command = f"{'Look at' if preview else 'Import'} them with: {shlex.join(words)}"
    document: dict[str, object] = {"ok": False, "error": error, "code": "usage", "next": command}
    return {**document, "found": [msgspec.to_builtins(one) for one in sessions]} if sessions else document


def _say_watched(
    line: typer.Context,
    context: Context,
    named: Sequence[Path],
    answers: Iterable[ImportAnswer | UnreadableSource],
) -> None:
    """Say what watching brings until it is stopped; with ``--json`` one document a line."""
    from core.flows.watch import has_news

    options = global_options(line)
    as_json, is_talkative = options.as_json, not (options.as_json or options.quiet)
    act: str | None = None
    if is_talkative:
        say(f"Watching {', '.join(map(str, named))} for learner {context.learner}; stop with Ctrl+C.")

    def report(problem: ArmscopeError) -> None:
        if as_json:
            say_json_line(problem.as_answer())
        else:
            say_error(problem, as_json=False)

    try:
        for one in answers:
            if isinstance(one, UnreadableSource):
                report(one)
                continue
            act = one.id or act
            if as_json:
                say_json_line(act_document(context, one))
            elif is_talkative and has_news(one):
                say(_news(one))
            has_runs = one.runs > one.duplicates
            own = _keep_machine(context, one.id, named, only_if_due=True) if has_runs else None
            if own is not None and own.inventory is not None and is_talkative:
                say(own.inventory.sentence)
            if own is not None and own.problem is not None:
                report(own.problem)
    except KeyboardInterrupt:
        if is_talkative:
            say("Stopped watching.", *(() if act is None else written_words(line, context, act)))


def _news(one: ImportAnswer) -> str:
    """Return the new facts of an import on one line; the import must be an act."""
    ledger = f", {one.other_facts}{_known_of(one)}" if one.n_other_facts > one.n_other_known else ""
    return f"{one.id}: {number_of(one.new_runs, 'new run')}, {one.updated:,} updated{ledger}"


def _known_of(one: ImportAnswer) -> str:
    return f", {one.n_other_known:,} of them known already" if one.n_other_known else ""


def _say_import(
    line: typer.Context,
    context: Context,
    result: ImportAnswer,
    carried: Sequence[str],
    preview: bool = False,
) -> None:
    source = f"from {number_of(result.files, 'file')} ({result.format})"
    words = f"{result.other_facts}{_known_of(result)}" if result.n_other_facts else ""
    head = "Preview" if preview else result.id or "Nothing new"
    if words and not result.runs:
        say(f"{head}: {words} {source}.")
    else:
        unit = f" ({result.unit})" if result.unit else ""
        say(
            f"{head}: {number_of(result.runs, 'run')}{unit} {source}: "
            f"{result.observed:,} observed, {result.skipped:,} skipped{_reasons(result)}."
        )
        if words:
            say(f"  {words}")
    counts = {
        ("run", "known already"): result.duplicates,
        ("run", "updated"): result.updated,
        ("episode", "updated"): result.episodes_updated,
        ("empty prompt", ""): result.empty,
        ("answer", "outside any turn"): result.outside,
        ("call", "of tools that were not offered"): result.not_offered,
        ("line", "rejected"): result.rejected_count,
    }
    for (noun, rest), count in counts.items():
        if count:
            say(f"  {number_of(count, noun)} {rest}".rstrip())
    _say_not_offered(result)
    _say_rejected(result)
    for more in filter(None, (result.taken_back, result.left_out_words)):
        say(f"  {more}")
    _say_unread(result)
    _say_differences(result)
    for note in result.notes:
        say(f"  {note}")
    if result.hint:
        say(result.hint)
    if preview:
        say("Nothing was written.")
        return
    say(
        *written_words(line, context, result.id)
        if result.id is not None
        else ("Nothing in it was new, so there is no act to undo.",)
    )
    say(*carried)


def _keep_machine(
    context: Context, act: str | None, paths: Sequence[Path], *, only_if_due: bool = False
) -> OwnInventory | None:
    from core.flows.inventory import keep_own_inventory

    return keep_own_inventory(
        context, Path.home(), paths, machine=platform.node(), act=act, only_if_due=only_if_due
    )


def _carried_words(own: OwnInventory | None) -> list[str]:
    """Return the answer of a machine in words; none for sessions of another machine."""
    if own is None:
        return []
    if own.inventory is None:
        return [str(own.problem)]
    is_proposed = any(one.proposal is not None for one in own.inventory.items)
    out = "prune" if is_proposed else "prune --out NAME"
    words = [
        own.inventory.sentence,
        f"See: armscope inventory. Take out: armscope {out}. Put back: armscope prune --undo",
    ]
    if own.problem is not None:
        words.append(f"The dashboard does not show this answer. {own.problem.problem}")
    return words


def _say_not_offered(result: ImportAnswer) -> None:
    """Write the called tools without an arm, so that a wrong name is noticed early."""
    if result.not_offered_calls:
        named = [f"{one.tool} ({one.runs:,})" for one in result.not_offered_calls[:_LISTED]]
        more = ", …" if len(result.not_offered_calls) > _LISTED else ""
        say(f"    called without being offered, in so many runs: {', '.join(named)}{more}")


def _say_rejected(result: ImportAnswer) -> None:
    for line in result.rejected[:_LISTED]:
        say(f"    {line.file}{'' if line.line is None else f', line {line.line}'}: {line.reason}")
    if result.rejected_count > _LISTED:
        say(f"    … and {result.rejected_count - _LISTED:,} more; --json lists the first hundred")


def _say_unread(result: ImportAnswer) -> None:
    for one in result.unread[:_LISTED]:
        if one.files == 1:
            say(f"  not read: {one.first}: {one.reason}")
        else:
            ending = one.ending or "without an ending"
            say(f"  not read: {one.files:,} files, {ending}: {one.reason} The first: {one.first}")
    for next_step in dict.fromkeys(one.next_step for one in result.unread[:_LISTED]):
        say(f"    {next_step}")
    if len(result.unread) > _LISTED:
        rest = sum(one.files for one in result.unread[_LISTED:])
        say(f"  not read: {rest:,} more files for other reasons; --json lists them")


def _reasons(result: ImportAnswer) -> str:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in result.skipped_by.items())
    return f" ({reasons})" if reasons else ""


def _say_differences(result: ImportAnswer) -> None:
    if not result.differences_count:
        return
    say(f"  {result.differences_count:,} posteriors in the file differ from what its own runs come to:")
    for one in result.differences[:_LISTED]:
        say(
            f"    {one.arm}: Beta({one.stated_alpha:g}, {one.stated_beta:g}) after {one.stated_pulls:,} pulls there, "
            f"Beta({one.alpha:g}, {one.beta:g}) after {one.pulls:,} from the runs"
        )


class _Following:
    """Progress of an import, on one bar over the bytes of all its files."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._source: Source | None = None
        self._n_files = 0
        self._before_bytes = 0
        self._total_bytes = 0

    def __call__(self, opened: Opened, source: Source, n_bytes: int) -> None:
        if source is not self._source:
            if self._source is None:
                self._total_bytes = opened.size_bytes
            else:
                self._before_bytes += self._source.size_bytes
            self._source = source
            self._n_files += 1
        read_bytes = self._before_bytes + n_bytes

        def words() -> str:
            return (
                f"{self._n_files:,} of {len(opened.sources):,} files, "
                f"{machine.megabytes(read_bytes)} of {machine.megabytes(self._total_bytes)} MB"
            )

        self._bar.show(read_bytes, self._total_bytes, words, at=source.path.name)
