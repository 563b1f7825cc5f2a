"""Export: everything a learner holds as lines of our own format, in the order of learning; loss-free.

Read into an empty database it gives the same posteriors, runs, rewards, resets and epochs. For who may not read texts
it is the same file with texts left out, which its first line says. There it also says how many evaluations by others
are left out because whoever asks has what they are of open in a blind queue. Imports that are undone are left out;
rewards and resets that are undone go along, marked.

For other programs: JSON and CSV in the shape of OpenClaw's export, of what stands at present. CSV is two tables:
the posteriors in the file that was named, the observations beside it.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import IO, Annotated

import msgspec
from msgspec import Meta

from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.steps import Progress, Steps
from core.formats.armscope import write
from core.formats.openclaw_shape import (
    Metrics,
    Observed,
    Stored,
    as_json,
    automatic,
    lagged,
    observations_as_csv,
    posteriors_as_csv,
    trace_of,
)
from core.records.answers import ExportAnswer
from core.records.arm import MICRO
from core.records.ledger_lines import LearnerLine, LedgerLine, RewardLine, RunLine
from core.records.line_texts import line_without_texts
from core.records.parameters import ExportFormat
from core.records.times import iso
from core.store.episodes import episode_lines
from core.store.export_rows import arm_lines, run_lines
from core.store.files import opener, sync_names
from core.store.ledger import all_reward_lines
from core.store.lines import fact_lines
from core.store.reads import arm_columns, totals
from core.store.subjects import execution_lines, layer_lines
from core.store.transaction import Snapshot


def export_file(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    format: Annotated[
        ExportFormat,
        Meta(description="jsonl: armscope's own lines; json, csv: OpenClaw's shape, for other programs."),
    ] = "jsonl",
    *,
    progress: Progress | None = None,
) -> ExportAnswer:
    """Write all data of a learner into a new file.

    With ``csv`` the observations go into a second new file, ``NAME.observations.csv``. ``progress`` counts runs.
    Raises `InvalidInput` for an existing file.
    """
    context.permit("read")
    if format == "csv":
        return _export_tables(context, target, progress)
    with new_file(target) as file, context.taking_out() as snapshot:
        return write_into(snapshot, file.write, str(target), format, progress)


def _export_tables(context: Context, target: Path, progress: Progress | None) -> ExportAnswer:
    beside = target.with_name(f"{target.name.removesuffix('.csv')}.observations.csv")
    with new_file(target) as file, new_file(beside) as second, context.taking_out() as snapshot:
        view = View(snapshot, progress)
        for line in posteriors_as_csv(view.posteriors):
            file.write(line.encode())
        for line in observations_as_csv(view.observations()):
            second.write(line.encode())
        return msgspec.structs.replace(view.answer(str(target), "csv"), observations_file=str(beside))


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """A file that must not exist yet, and that is there afterwards only if it is whole and on disk."""
    try:
        with open(target, "xb", opener=opener) as file, _whole_or_gone(file, target):
            yield file
    except FileExistsError as problem:
        raise InvalidInput(
            f"The export's file must not exist yet, got {target}.",
            next_step="Choose another name; nothing was overwritten.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(
            f"The export can't be written to {target}: {problem.strerror or problem}.",
            next_step="Choose a folder you can write to.",
        ) from problem


@contextmanager
def _whole_or_gone(file: IO[bytes], target: Path) -> Iterator[None]:
    """A file that could not be finished is no export; one that could is on disk."""
    try:
        yield
        file.flush()
        os.fsync(file.fileno())
        sync_names(target.parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def export_into(context: Context, file: IO[bytes], name: str, format: ExportFormat = "jsonl") -> ExportAnswer:
    """Write a learner into an open file, all of one moment; of the two tables of ``csv`` the posteriors only."""
    with context.taking_out() as snapshot:
        return write_into(snapshot, file.write, name, format)


def write_into(
    snapshot: Snapshot,
    write_bytes: Callable[[bytes], object],
    name: str,
    format: ExportFormat,
    progress: Progress | None = None,
) -> ExportAnswer:
    """The same of a snapshot that is open."""
    if format != "jsonl":
        view = View(snapshot, progress, n_passes=2)
        for piece in view.json() if format == "json" else posteriors_as_csv(view.posteriors):
            write_bytes(piece.encode())
        return view.answer(name, format)
    counts: Counter[str] = Counter()
    for line in write(_counted(lines(snapshot, progress), counts)):
        write_bytes(line)
    return ExportAnswer(
        file=name,
        lines=counts.total(),
        arms=counts["ArmLine"],
        runs=counts["RunLine"],
        rewards=counts["RewardLine"],
        resets=counts["ResetLine"],
        notes=counts["NoteLine"],
        episodes=counts["Episode"],
        revision=snapshot.revision,
        texts=snapshot.shows_texts,
        hidden=len(snapshot.hidden),
    )


def lines(snapshot: Snapshot, progress: Progress | None = None) -> Iterator[LedgerLine]:
    """Learner, arms, then runs, rewards, resets and notes by revision (a reward never before its run); without texts
    where who asks may not read them.
    """
    told = _lines(snapshot, progress)
    return told if snapshot.shows_texts else map(line_without_texts, told)


def _lines(snapshot: Snapshot, progress: Progress | None) -> Iterator[LedgerLine]:
    yield LearnerLine(
        armscope=1,
        name=snapshot.name,
        origin=snapshot.origin or None,
        settings=snapshot.settings,
        hidden=len(snapshot.hidden) or msgspec.UNSET,
    )
    yield from arm_lines(snapshot)
    yield from layer_lines(snapshot)
    runs = _steps(snapshot, progress).each(run_lines(snapshot))
    streams = [runs, execution_lines(snapshot), episode_lines(snapshot), *fact_lines(snapshot)]
    for _, line in heapq.merge(*streams, key=itemgetter(0)):
        yield line


def _steps(snapshot: Snapshot, progress: Progress | None, n_passes: int = 1) -> Steps:
    """A step for each run, as often as they are read."""
    known = totals(snapshot)
    return Steps(n_passes * (known.runs + known.empty), progress)


def _counted(lines: Iterable[LedgerLine], counts: Counter[str]) -> Iterator[LedgerLine]:
    for line in lines:
        counts[type(line).__name__] += 1
        yield line


class View:
    """A learner at one moment as OpenClaw's export shows it; what is undone is not in it."""

    def __init__(self, snapshot: Snapshot, progress: Progress | None = None, *, n_passes: int = 1) -> None:
        self._snapshot = snapshot
        self._steps = _steps(snapshot, progress, n_passes)
        self._counts: Counter[str] = Counter()
        self.posteriors = list(_posteriors(snapshot))

    def json(self) -> Iterator[str]:
        more: dict[str, object] = {
            "traces": self._traces(),
            "observations": self.observations(),
            # So that this very learner doesn't count its own runs again under other names.
            "writtenBy": {"armscope": 1, "learner": self._snapshot.name, "origin": self._snapshot.origin},
        }
        yield from as_json(metrics_of(self._snapshot), self.posteriors, more)
        yield "\n"

    def observations(self) -> Iterator[Observed]:
        """Automatic ones and the ledger's, by revision."""
        corrected = self._corrected()
        streams = (self._steps.each(run_lines(self._snapshot)), all_reward_lines(self._snapshot))
        for _, told in heapq.merge(*streams, key=itemgetter(0)):
            line = told if self._snapshot.shows_texts else line_without_texts(told)
            if isinstance(line, RunLine):
                found: Iterable[Observed] = automatic(line, corrected.get(line.run.uid, frozenset()))
            else:
                found = (lagged(line),) if isinstance(line, RewardLine) and not line.undone else ()
            for one in found:
                self._counts["observations"] += 1
                self._counts["rewards"] += one.context.lagged
                yield one

    def answer(self, name: str, format: ExportFormat) -> ExportAnswer:
        return ExportAnswer(
            file=name,
            lines=0,
            arms=len(self.posteriors),
            runs=self._counts["runs"],
            rewards=self._counts["rewards"],
            resets=0,
            revision=self._snapshot.revision,
            texts=self._snapshot.shows_texts,
            hidden=len(self._snapshot.hidden),
            format=format,
            observations=self._counts["observations"],
        )

    def _traces(self) -> Iterator[object]:
        for _, line in self._steps.each(run_lines(self._snapshot)):
            if isinstance(line, RunLine) and line.outcome != "empty":
                self._counts["runs"] += 1
                yield trace_of(line.run)

    def _corrected(self) -> dict[str, frozenset[str]]:
        """Arms of each run whose automatic observation a standing correction replaces."""
        found: dict[str, frozenset[str]] = {}
        for _, line in all_reward_lines(self._snapshot):
            if isinstance(line, RewardLine) and line.observation == "correction" and not line.undone:
                run = line.context.run or ""
                found[run] = found.get(run, frozenset()) | {line.arm}
        return found


def metrics_of(snapshot: Snapshot) -> Metrics:
    """A learner as a whole, as OpenClaw and qortex sum it up."""
    columns = arm_columns(snapshot)
    pulls_micro, reward_micro = int(columns.pulls_micro.sum()), int(columns.success_micro.sum())
    return Metrics(
        learner=snapshot.name,
        total_pulls=columns.n_pulls,
        total_reward=reward_micro / MICRO,
        accuracy=reward_micro / pulls_micro if pulls_micro else 0.0,
        arm_count=len(columns),
        explore_ratio=snapshot.settings.baseline_rate,
    )


def _posteriors(snapshot: Snapshot) -> Iterator[Stored]:
    columns = arm_columns(snapshot)
    numbers = (columns.alpha, columns.beta, columns.pulls, columns.last_at_ms)
    for key, alpha, beta, pulls, last_at_ms in zip(
        columns.keys, *[one.tolist() for one in numbers], strict=True
    ):
        yield Stored(
            arm_id=key,
            alpha=alpha,
            beta=beta,
            mean=alpha / (alpha + beta),
            pulls=pulls,
            last_updated=iso(last_at_ms) or "",
        )
