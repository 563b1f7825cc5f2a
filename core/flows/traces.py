"""Traces: spans from OpenTelemetry's exporters, recorded as runs.

Spans are on disk before they are processed. A trace becomes a run as soon as its root span is there. Later spans
extend the run, like a longer copy of a transcript. A trace without a root becomes a run one hour after its last span,
and is listed as such.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.flows.context import Context, settle_learners
from core.flows.learn import judge
from core.formats.otlp import RequestSpans, run_or_reason, unpacked
from core.records.counts import number_of
from core.records.rollout import Settled, SpansTaken, TraceRow, TraceState
from core.records.run import Run
from core.records.times import HOUR_MS, iso
from core.store.offers import reported_sessions
from core.store.runs import add_runs
from core.store.traces import (
    MAX_SPANS,
    TRACES,
    Packed,
    StoredTrace,
    due_traces,
    forget_old,
    has_old,
    keep_spans,
    known_ranks,
    listed_traces,
    note_settled,
    spans_of,
)
from core.store.transaction import Facts, Transaction

SILENT_MS: Final = HOUR_MS
"""Time after the last span until a trace without a root becomes a run."""
_AT_ONCE: Final = 50
"""Maximum number of traces in one write."""
_LISTED: Final = 1_000


class _TraceRun(NamedTuple):
    """A trace with its run, or with the reason why it has none."""

    trace: StoredTrace
    n_spans: int
    run: Run | None
    problem: str


def take_spans(context: Context, batch: RequestSpans) -> SpansTaken:
    """Store spans, and record the traces with a root as runs; all is on disk when this returns.

    A repeat changes nothing. Raises `StoreBusy` if too many spans are waiting.
    """
    by_trace: dict[str, list[Packed]] = defaultdict(list)
    for one in batch.spans:
        by_trace[one.trace].append(Packed(one.id, one.packed(), not one.parent, one.session or ""))
    context.permit("ingest", create=True)
    n_beyond = 0
    if by_trace:
        n_beyond = context.write("ingest", lambda txn: keep_spans(txn, by_trace), create=True)
    settled = settle_traces(context)
    reasons = Counter(batch.refused)
    if n_beyond:
        reasons[f"A trace must have at most {MAX_SPANS:,} spans."] += n_beyond
    words = [f"{reason} ({number_of(n, 'span')})" for reason, n in sorted(reasons.items())]
    words += [f"No run can be made of a trace: {reason}" for reason in settled.unread]
    if settled.rootless:
        words.append(f"{number_of(settled.rootless, 'trace')} without a root became runs after an hour.")
    return SpansTaken(
        kept=len(batch.spans) - n_beyond,
        refused=reasons.total(),
        runs=settled.runs,
        words=" ".join(words),
    )


def settle_traces(context: Context) -> Settled:
    """Record every due trace as a run, and delete abandoned ones."""
    context.permit("ingest")
    n_runs, n_rootless, unread = 0, 0, dict[str, None]()
    while True:
        with context.store.reading(context.learner) as snapshot:
            due = due_traces(snapshot, context.clock(), SILENT_MS, _AT_ONCE)
            results = list(_runs_of(snapshot, due))
            is_old = has_old(snapshot, context.clock())
        if not results:
            if is_old:
                context.write("ingest", forget_old)
            return Settled(runs=n_runs, rootless=n_rootless, unread=tuple(unread))
        n_runs += context.write("ingest", lambda txn, results=results: _record(txn, results))  # type: ignore[misc]
        n_rootless += sum(one.run is not None and not one.trace.is_rooted for one in results)
        unread |= dict.fromkeys(one.problem for one in results if one.problem)


def _runs_of(facts: Facts, due: Sequence[StoredTrace]) -> Iterator[_TraceRun]:
    for trace in due:
        spans = [unpacked(content) for content in spans_of(facts, trace.uid)]
        keeps = facts.settings.keep_texts
        run = run_or_reason(spans, keeps_texts=keeps) if spans else "Its spans are gone."
        if isinstance(run, str):
            yield _TraceRun(trace, trace.n_spans, None, run)
        else:
            yield _TraceRun(trace, trace.n_spans, None if run.empty else run, "")


def _record(txn: Transaction, results: Sequence[_TraceRun]) -> int:
    """Record runs, and return how many are new or longer. A run no longer than the stored one is left out."""
    runs = [one.run for one in results if one.run is not None]
    ranks, passive = known_ranks(txn, [run.uid for run in runs]), reported_sessions(txn)
    batch = [
        judge(run, txn.settings, "passive" if run.session in passive else None)
        for run in runs
        if run.rank > ranks.get(run.uid, -1)
    ]
    add_runs(txn, batch)
    note_settled(txn, [(one.trace.uid, one.n_spans, one.problem) for one in results])
    return len(batch)


def settle_all_traces(context: Context) -> None:
    """Settle the traces of every learner. Learners with a store error are settled next time."""
    settle_learners(context, settle_traces)


def traces(context: Context) -> list[TraceRow]:
    """List traces that wait for their root span, became runs without it, or cannot be read.

    The latest come first.
    """
    with context.reading() as snapshot:
        return [_row(one) for one in listed_traces(snapshot, _LISTED)]


def _row(one: StoredTrace) -> TraceRow:
    is_recorded = one.n_settled > 0 and not one.problem
    state: TraceState = (
        "unread" if one.problem else "rootless" if is_recorded and not one.is_rooted else "waiting"
    )
    return TraceRow(
        trace=one.uid,
        session=one.session or None,
        state=state,
        spans=one.n_spans,
        last_at=iso(one.last_ms) or "",
        run=TRACES + one.uid if is_recorded else None,
        said=one.problem or None,
    )
