"""Export of a learner as lines of our own format in the order of learning; it is loss-free.

An import into an empty database gives the same posteriors, runs, rewards, resets and epochs. A caller without
permission for texts gets the same file without them, and its first line states that. It also states how many
evaluations are left out because a blind queue hides them from the caller. Undone imports are left out. Undone rewards
and resets are included and marked.

Parquet holds the same lines as one table. JSON and CSV have the shape of OpenClaw's export and hold the active rows.
CSV is two tables: posteriors in the named file, observations in a second one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import IO, Annotated

import msgspec
from msgspec import Meta

from core.flows.context import Context
from core.flows.new_file import new_file, observations_file
from core.flows.progress import ProgressCallback, Steps
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
from core.formats.parquet import write_parquet
from core.records.answers import ExportAnswer
from core.records.arm import MICRO
from core.records.ledger_lines import LearnerLine, LedgerLine, RewardLine, RunLine, line_without_texts
from core.records.parameters import ChosenExportFormat, ExportFormat
from core.records.times import iso
from core.store.compacted import all_compacted
from core.store.episodes import episode_lines
from core.store.ledger import all_reward_lines
from core.store.lines import arm_lines, fact_lines, run_lines
from core.store.reads import arm_columns, totals
from core.store.repairs import retracted_arms
from core.store.subjects import execution_lines, layer_lines
from core.store.transaction import Snapshot


def export_file(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    format: ChosenExportFormat = "jsonl",
    *,
    progress: ProgressCallback | None = None,
) -> ExportAnswer:
    """Write all data of a learner into a new file.

    With ``csv`` the observations go into a second new file, ``NAME.observations.csv``. ``progress`` counts runs.
    Raises `InvalidInput` for an existing file.
    """
    context.permit("read")
    if format == "csv":
        return _export_tables(context, target, progress)
    with new_file(target) as file, context.reading_for_export() as snapshot:
        return write_into(snapshot, file.write, str(target), format, progress)


def _export_tables(context: Context, target: Path, progress: ProgressCallback | None) -> ExportAnswer:
    second_target = observations_file(target)
    with (
        new_file(target) as file,
        new_file(second_target) as second,
        context.reading_for_export() as snapshot,
    ):
        view = OpenClawView(snapshot, progress)
        for line in posteriors_as_csv(view.posteriors):
            file.write(line.encode())
        for line in observations_as_csv(view.observations()):
            second.write(line.encode())
        return msgspec.structs.replace(view.answer(str(target), "csv"), observations_file=str(second_target))


def export_into(context: Context, file: IO[bytes], name: str, format: ExportFormat = "jsonl") -> ExportAnswer:
    """Write one snapshot of a learner into an open file; for ``csv`` only the table of posteriors."""
    with context.reading_for_export() as snapshot:
        return write_into(snapshot, file.write, name, format)


def write_into(
    snapshot: Snapshot,
    write_bytes: Callable[[bytes], object],
    name: str,
    format: ExportFormat,
    progress: ProgressCallback | None = None,
) -> ExportAnswer:
    """Write an open snapshot, like `export_into`."""
    if format == "json" or format == "csv":  # noqa: PLR1714 - narrows the type
        view = OpenClawView(snapshot, progress, n_passes=2)
        for piece in view.json() if format == "json" else posteriors_as_csv(view.posteriors):
            write_bytes(piece.encode())
        return view.answer(name, format)
    counts: Counter[str] = Counter()
    counted = _counted(lines(snapshot, progress), counts)
    if format == "parquet":
        write_parquet(counted, write_bytes)
    else:
        for line in write(counted):
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
        head=snapshot.head,
        texts=snapshot.shows_texts,
        hidden=len(snapshot.hidden),
        format=format,
        compacted=_n_compacted(snapshot),
    )


def _n_compacted(snapshot: Snapshot) -> int:
    deleted = all_compacted(snapshot)
    return 0 if deleted is None else deleted.runs


def lines(snapshot: Snapshot, progress: ProgressCallback | None = None) -> Iterator[LedgerLine]:
    """Yield learner, arms, then runs, rewards, resets and notes by revision (a reward never before its run).

    Texts are left out if the caller may not read them.
    """
    rows = _lines(snapshot, progress)
    return rows if snapshot.shows_texts else map(line_without_texts, rows)


def _lines(snapshot: Snapshot, progress: ProgressCallback | None) -> Iterator[LedgerLine]:
    yield LearnerLine(
        armscope=1,
        name=snapshot.name,
        origin=snapshot.origin or None,
        head=snapshot.head or msgspec.UNSET,
        settings=snapshot.settings,
        hidden=len(snapshot.hidden) or msgspec.UNSET,
    )
    yield from arm_lines(snapshot)
    yield from layer_lines(snapshot)
    runs = _steps(snapshot, progress).each(run_lines(snapshot))
    streams = [runs, execution_lines(snapshot), episode_lines(snapshot), *fact_lines(snapshot)]
    for _, line in heapq.merge(*streams, key=itemgetter(0)):
        yield line


def _steps(snapshot: Snapshot, progress: ProgressCallback | None, n_passes: int = 1) -> Steps:
    """Return steps for the runs, one per pass."""
    known = totals(snapshot)
    return Steps(n_passes * (known.runs + known.empty), progress)


def _counted(lines: Iterable[LedgerLine], counts: Counter[str]) -> Iterator[LedgerLine]:
    for line in lines:
        counts[type(line).__name__] += 1
        yield line


class OpenClawView:
    """One snapshot of a learner in the shape of OpenClaw's export, without undone rows."""

    def __init__(
        self, snapshot: Snapshot, progress: ProgressCallback | None = None, *, n_passes: int = 1
    ) -> None:
        self._snapshot = snapshot
        self._steps = _steps(snapshot, progress, n_passes)
        self._counts: Counter[str] = Counter()
        self.posteriors = list(_posteriors(snapshot))

    def json(self) -> Iterator[str]:
        more: dict[str, object] = {
            "traces": self._traces(),
            "observations": self.observations(),
            # Prevents this learner from importing its own runs again under other names.
            "writtenBy": {"armscope": 1, "learner": self._snapshot.name, "origin": self._snapshot.origin},
        }
        yield from as_json(metrics_of(self._snapshot), self.posteriors, more)
        yield "\n"

    def observations(self) -> Iterator[Observed]:
        """Yield automatic observations and those of the ledger, by revision."""
        corrected = self._corrected()
        streams = (self._steps.each(run_lines(self._snapshot)), all_reward_lines(self._snapshot))
        for _, row in heapq.merge(*streams, key=itemgetter(0)):
            line = row if self._snapshot.shows_texts else line_without_texts(row)
            if isinstance(line, RunLine):
                observed: Iterable[Observed] = automatic(line, corrected.get(line.run.uid, frozenset()))
            else:
                observed = (lagged(line),) if isinstance(line, RewardLine) and not line.undone else ()
            for one in observed:
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
            head=self._snapshot.head,
            texts=self._snapshot.shows_texts,
            hidden=len(self._snapshot.hidden),
            format=format,
            observations=self._counts["observations"],
            compacted=_n_compacted(self._snapshot),
        )

    def _traces(self) -> Iterator[object]:
        for _, line in self._steps.each(run_lines(self._snapshot)):
            if isinstance(line, RunLine) and line.outcome != "empty":
                self._counts["runs"] += 1
                yield trace_of(line.run)

    def _corrected(self) -> dict[str, frozenset[str]]:
        """Return the arms of each run with an active correction, or whose observation a repair takes back."""
        arms = retracted_arms(self._snapshot)
        for _, line in all_reward_lines(self._snapshot):
            if isinstance(line, RewardLine) and line.observation == "correction" and not line.undone:
                run = line.context.run or ""
                arms[run] = arms.get(run, frozenset()) | {line.arm}
        return arms


def metrics_of(snapshot: Snapshot) -> Metrics:
    """Return the totals of a learner, as OpenClaw and qortex compute them."""
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
