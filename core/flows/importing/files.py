"""Files: files and folders → runs, ledger lines and remarks → the store, as one act."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from core.errors import UnreadableSource
from core.flows.desk import Desk
from core.flows.importing.answer import ImportAnswer
from core.flows.importing.comparing import Comparison
from core.flows.importing.runs import RunBatches
from core.flows.importing.tally import Tally
from core.flows.importing.told_lines import ToldLines
from core.flows.learn import judge, judged_line
from core.formats import (
    Entry,
    Limits,
    Opened,
    Outside,
    Rejected,
    Remark,
    Skipped,
    Source,
    Stated,
    open_sources,
)
from core.formats.armscope import NAME as OWN_FORMAT
from core.records.judged import Judged
from core.records.ledger_lines import LearnerLine, RunLine
from core.records.run import Phase, Run, Unit
from core.store.imports import begin_import, finish_import, reopen_import
from core.store.transaction import Detail, Transaction

Progress = Callable[[Opened, Source, int], None]
"""Called with all that is to be read, the file being read and its bytes read so far."""


class _NothingNew(Exception):
    """All that was read is known already."""

    def __init__(self, answer: ImportAnswer) -> None:
        super().__init__()
        self.answer = answer


def import_files(
    desk: Desk,
    paths: Iterable[Path],
    *,
    format: str | None = None,
    unit: Unit | None = None,
    tools_file: Path | None = None,
    phase: Phase | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    continuing: str | None = None,
    names: Mapping[Path, str] | None = None,
) -> ImportAnswer:
    """Read files and folders into the learner, in one transaction and as one act that `undo` takes back.

    ``continuing`` names an import that this one goes on with, under its id; one that was undone is not taken
    up again. The answer is of what was read now, while the import is remembered by all it told so far.
    ``names`` says what files are called where that isn't their path.

    Importing again changes nothing, and what changes nothing makes no act; a longer copy of a source updates its
    runs. Lines that can't be read are listed and never fatal. Raises `UnreadableSource` where nothing could be
    read at all.
    """
    with open_sources(
        paths, format=format, unit=unit, tools_file=tools_file, limits=limits, names=names
    ) as opened:
        if not opened.sources:
            raise _nothing_to_read(opened.skipped[0].reason if opened.skipped else None)
        try:
            with desk.writing("ingest", create=True) as txn:
                return _import(txn, opened, phase, progress, continuing)
        except _NothingNew as end:
            return end.answer


def _import(
    txn: Transaction, opened: Opened, phase: Phase | None, progress: Progress | None, continuing: str | None
) -> ImportAnswer:
    known = None if continuing is None else reopen_import(txn, continuing)
    number = begin_import(txn) if known is None else known.number
    reader = _Reader(txn, number, phase)
    for one in opened.skipped:
        reader.tally.ignore(one)
    for source in opened.sources:
        reader.read(source, None if progress is None else partial(progress, opened, source))
    reader.finish()
    tally, sources = reader.tally, opened.sources
    answer = tally.answer(number, sources)
    if not (answer.runs or answer.ledger or answer.empty or tally.n_arms):
        raise _nothing_in(answer)
    if not txn.has_news:
        raise _NothingNew(tally.answer(None if known is None else number, sources))
    if known is None:
        so_far = answer
        told: Detail = {"runs": answer.runs, "format": answer.format, "files": answer.files}
        txn.audit("import", f"import-{number}", told)
    else:
        so_far = answer.after(msgspec.json.decode(known.summary, type=ImportAnswer))
    finish_import(txn, number, msgspec.json.encode(so_far).decode())
    return answer


class _Reader:
    """One import under way: hands on what the files hold, each to who knows what to do with it."""

    def __init__(self, txn: Transaction, number: int, phase: Phase | None) -> None:
        self.tally = Tally()
        self._txn = txn
        self._phase = phase
        self._runs = RunBatches(txn, number, self.tally)
        self._lines = ToldLines(txn, number, self.tally)
        self._comparison = Comparison()

    def read(self, source: Source, progress: Callable[[int], None] | None) -> None:
        """Take all that a file holds."""
        self.tally.file = source.file
        self._comparison = Comparison()
        entries = source.entries(progress)
        try:
            for entry in entries:
                self._refuse_own_view(source, entry)
                self._take(entry)
        except UnreadableSource as problem:
            self.tally.reject(None, problem.problem)
        self._runs.flush()
        for difference in self._comparison.differences(self._txn.settings):
            self.tally.differ(difference)

    def finish(self) -> None:
        """What is to be said once all files were read."""
        self._lines.finish()

    def _refuse_own_view(self, source: Source, entry: Entry) -> None:
        """What this learner wrote for other programs names its runs anew, so they would count twice."""
        if not isinstance(entry, LearnerLine) or source.format == OWN_FORMAT:
            return
        if self._txn.origin and entry.origin == self._txn.origin:
            raise UnreadableSource(
                f"An export for other programs can't go back into the learner it is from ({source.file}).",
                next_step="Use armscope export --format jsonl, which is loss-free and counts nothing twice.",
            )

    def _take(self, entry: Entry) -> None:
        if isinstance(entry, Run):
            self._take_run(judge(entry, self._txn.settings, self._phase))
        elif isinstance(entry, RunLine):
            self._take_run(judged_line(entry))
        elif isinstance(entry, Rejected):
            self.tally.reject(entry.line, entry.reason)
        elif isinstance(entry, Outside):
            self.tally.counts["outside"] += entry.n_replies
            self.tally.no_user_text |= entry.no_user_text
        elif isinstance(entry, Stated):
            self._comparison.state(entry)
        elif isinstance(entry, Remark):
            self.tally.remarks.append(entry.text)
        elif isinstance(entry, Skipped):
            self.tally.ignore(entry)
        else:
            self._runs.flush()
            self._lines.take(entry)

    def _take_run(self, judged: Judged) -> None:
        self._comparison.fold(judged)
        self._runs.add(judged)


def _nothing_to_read(reason: str | None) -> UnreadableSource:
    return UnreadableSource(
        f"There is nothing to import there{'' if reason is None else f': {reason}'}",
        next_step="Name files or folders that hold agent transcripts; the README lists the formats.",
    )


def _nothing_in(answer: ImportAnswer) -> UnreadableSource:
    if answer.rejected:
        first = answer.rejected[0]
        where = first.file if first.line is None else f"{first.file}, line {first.line:,}"
        said = (
            f"Nothing could be read; {answer.rejected_count:,} rejected. The first ({where}): {first.reason}"
        )
    elif answer.ignored:
        first = answer.ignored[0]
        said = f"There is nothing to import there: {first.reason} ({first.file})"
    else:
        said = f"Nothing could be read: no run was found in {answer.files:,} files ({answer.format})."
    return UnreadableSource(said, next_step=answer.hint or "Check the file; nothing was recorded.")
