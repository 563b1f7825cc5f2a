"""Files and folders, imported as one act."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal, Unpack

import msgspec
from msgspec import Meta

from core.errors import StoreBusy, UnreadableSource
from core.flows.context import Context
from core.flows.importing.reading import ReadingProgress, ReadRun, SourceReading, assign_sessions
from core.flows.importing.writing import AtOnce, InParts, OnWait, fits_one_transaction, staged_import
from core.flows.rollouts import hold_events
from core.formats import Limits, Opened, open_sources, refuse_address
from core.formats.claude_code import NAME as CLAUDE_CODE
from core.formats.strict import without_full_collections
from core.records.counts import number_of
from core.records.import_answer import SHOWN, ImportAnswer
from core.records.limits import shown
from core.records.parameters import TakingOptions
from core.records.run import Phase, Unit
from core.store.arms import by_keys
from core.store.imports import begin_import, finish_import, reopen_import
from core.store.repairs import changed_outcomes
from core.store.staging import Spoiled
from core.store.transaction import Detail, Transaction

ImportSteps = Generator[None, None, ImportAnswer]
"""Import that pauses after each part. Other writers do not wait while it is paused."""


class _NothingNew(Exception):
    """All rows are known already. It is raised inside the transaction, which it ends without a write."""

    def __init__(self, answer: ImportAnswer) -> None:
        super().__init__()
        self.answer = answer


def import_files(
    context: Context,
    paths: Annotated[Sequence[Path], Meta(description="Files, folders and archives with transcripts.")],
    *,
    format: Annotated[str | None, Meta(description="Format name, instead of detection.")] = None,
    unit: Annotated[Unit | None, Meta(description="What counts as a run.")] = None,
    tools_file: Annotated[
        Path | None, Meta(description="Offered tools, where the runs do not list them.")
    ] = None,
    phase: Annotated[
        Literal["passive", "active"] | None, Meta(description="Phase of the learner for this import.")
    ] = None,
    limits: Limits | None = None,
    continuing: str | None = None,
    names: Mapping[Path, str] | None = None,
    progress: ReadingProgress | None = None,
    waiting: OnWait | None = None,
    **options: Unpack[TakingOptions],
) -> ImportAnswer:
    """Import agent transcripts; a repeat changes nothing.

    The import is one act, all of it or nothing, and `undo` reverts it. Files are read before anything is written.
    A long import is written in parts, which become active together with the last one. Writes made during the
    import are ordered before it. One import at a time writes in parts; ``waiting`` is called while another does.

    ``continuing`` names an earlier import that this one extends under the same id, unless it was undone. The
    answer covers the rows read now; the stored import covers all of its parts. ``names`` maps paths to the names
    of files. In a rehearsal the whole import is one transaction, which is rolled back; writers wait meanwhile.

    A later state of a record takes the place of an earlier one. Where nothing orders two records of one id, the first
    stays in force and the answer names the other, which ``replace`` takes. Rejected lines are listed and never fatal.
    Raises `UnreadableSource` where no file can be read.
    """
    _check_there(paths)
    with open_sources(
        paths,
        format=format,
        unit=unit,
        tools_file=tools_file,
        limits=limits,
        names=names,
        each_event=options.get("each_event", False),
        keeps_texts=context.keeps_texts(),
    ) as opened:
        steps = import_in_steps(
            context,
            opened,
            phase=phase,
            continuing=continuing,
            progress=progress,
            waiting=waiting,
            replace=options.get("replace", False),
        )
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: ImportAnswer = end.value
                return answer


def import_in_steps(
    context: Context,
    opened: Opened,
    *,
    phase: Phase | None = None,
    progress: ReadingProgress | None = None,
    continuing: str | None = None,
    waiting: OnWait | None = None,
    replace: bool = False,
) -> ImportSteps:
    """Import opened files part by part, like `import_files`."""
    if not opened.sources:
        raise _nothing_to_read(opened.skipped[0].reason if opened.skipped else None)
    context.permit("ingest", create=True)
    if any(source.format == CLAUDE_CODE for source in opened.sources):
        assign_sessions(context)
    while True:
        reading = SourceReading(context, opened, phase, replaces=replace)
        try:
            if context.is_rehearsal:
                return _rehearsed(context, opened, reading, progress, continuing)
            answer = yield from _import(
                context, opened, reading, progress=progress, continuing=continuing, waiting=waiting
            )
        except _NothingNew as end:
            answer = end.answer
            if context.is_rehearsal:
                return answer
        except Spoiled:  # a concurrent write changed the basis of the rows: read the files again
            continue
        return _with_held_events(context, reading, answer)


def _rehearsed(
    context: Context,
    opened: Opened,
    reading: SourceReading,
    progress: ReadingProgress | None,
    continuing: str | None,
) -> ImportAnswer:
    with ExitStack() as stack:
        stack.enter_context(without_full_collections())
        stack.callback(reading.lines.close)
        writer = AtOnce(list(reading.runs(progress)))
        answer = context.rehearse(
            "ingest", lambda txn: _act(txn, reading, writer, opened, continuing), create=True
        )
    return msgspec.structs.replace(answer, id=None)


def _with_held_events(context: Context, reading: SourceReading, answer: ImportAnswer) -> ImportAnswer:
    """Hold events whose rollouts start in other files, and return the answer with notes about them."""
    if not reading.held:
        return answer
    try:
        taken = hold_events(context, reading.held)
    except StoreBusy as problem:  # the import itself is active
        return msgspec.structs.replace(answer, notes=(*answer.notes, problem.problem))
    notes = [
        *(f"Rollout {shown(uid)} has not started. Its events are held for a week." for uid in taken.waiting),
        *(f"Episode {shown(uid)} now includes events that were held." for uid in taken.episodes),
        *(f"A held event was left out. {one.error}" for one in taken.refused),
    ]
    return msgspec.structs.replace(answer, notes=(*answer.notes, *notes[:SHOWN]))


def _import(
    context: Context,
    opened: Opened,
    reading: SourceReading,
    *,
    progress: ReadingProgress | None,
    continuing: str | None,
    waiting: OnWait | None,
) -> ImportSteps:
    since = context.pace.clock()
    first: list[ReadRun] = []
    parts: InParts | None = None
    with ExitStack() as stack:
        stack.enter_context(without_full_collections())
        stack.callback(reading.lines.close)
        for run in reading.runs(progress):
            if parts is None:
                first.append(run)
                if fits_one_transaction(context.pace, len(first), since):
                    continue
                parts = stack.enter_context(staged_import(context, reading, continuing, waiting))
                for one in first:
                    if parts.take(one):
                        yield
            elif parts.take(run):
                yield
        if parts is not None:
            parts.write()
            yield
        writer = AtOnce(first) if parts is None else parts
        answer = context.write(
            "ingest", lambda txn: _act(txn, reading, writer, opened, continuing), create=True
        )
        if parts is not None:
            context.store.settle()
        return answer


def _act(
    txn: Transaction, reading: SourceReading, writer: AtOnce | InParts, opened: Opened, continuing: str | None
) -> ImportAnswer:
    writer.begin(txn)
    txn.replaces = reading.replaces
    known = None if continuing is None else reopen_import(txn, continuing)
    number = begin_import(txn, writer.import_no) if known is None else known.number
    counts, sources = reading.counts.copy(), opened.sources
    before = changed_outcomes(txn)
    has_news = writer.finish(txn, reading, counts, number)
    counts.remarks += [
        f"{number_of(n - before.get(repair_no, 0), 'observation')} of repair-{repair_no} counted again: the runs "
        "came with another outcome."
        for repair_no, n in sorted(changed_outcomes(txn).items())
        if n > before.get(repair_no, 0)
    ]
    answer = msgspec.structs.replace(counts.answer(number, sources), only_named=by_keys(txn, txn.only_named))
    # Episodes have no unit. Where another unit has the source, the import is refused, and its known episodes add
    # no content.
    n_episodes = answer.episodes - (answer.episode_duplicates if counts.n_in_another_unit else 0)
    if not (answer.runs or answer.ledger or n_episodes or counts.n_named or counts.n_held):
        if answer.rejected or not answer.empty:
            raise _nothing_in(answer)
        has_news = False  # a prompt without an answer yet is no fact
    if not has_news:
        raise _NothingNew(counts.answer(None if known is None else number, sources))
    if known is None:
        so_far = answer
        detail: Detail = {"runs": answer.runs, "format": answer.format, "files": answer.files}
        txn.audit("import", f"import-{number}", detail)
    else:
        so_far = answer.after(msgspec.json.decode(known.summary, type=ImportAnswer))
    finish_import(txn, number, msgspec.json.encode(so_far).decode())
    return answer


def _check_there(paths: Sequence[Path]) -> None:
    """Refuse paths of which none exists; - is the standard input."""
    for path in paths:
        refuse_address(str(path))
    if paths and not any(str(path) == "-" or os.path.lexists(path) for path in paths):
        raise UnreadableSource(
            f"The files to import must exist, got {paths[0]}: there is no file or folder of that name.",
            next_step="Correct the path. To list the sessions on this machine: armscope import",
        )


def _nothing_to_read(reason: str | None) -> UnreadableSource:
    return UnreadableSource(
        f"There is nothing to import there{'' if reason is None else f': {reason}'}",
        next_step="Name files or folders that hold agent transcripts; armscope help import lists the formats.",
    )


def _nothing_in(answer: ImportAnswer) -> UnreadableSource:
    if answer.rejected:
        first = answer.rejected[0]
        where = first.file if first.line is None else f"{first.file}, line {first.line:,}"
        message = (
            f"Nothing could be read; {answer.rejected_count:,} rejected. The first ({where}): {first.reason}"
        )
    elif answer.ignored:
        first = answer.ignored[0]
        message = f"There is nothing to import there: {first.reason} ({first.file})"
    else:
        message = f"Nothing could be read: no run was found in {answer.files:,} files ({answer.format})."
    return UnreadableSource(message, next_step=answer.hint or "Check the file; nothing was recorded.")
