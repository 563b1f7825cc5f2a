"""Traces: spans that OpenTelemetry's exporters send → runs.

What was sent is on disk before anything is made of it. A trace is a run as soon as its root span is there; spans that
come later let the run grow, as a longer copy of a transcript does. One without a root waits for an hour after its
last span, is made a run then, and is listed as such.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.errors import StoreError
from core.flows.context import Context
from core.flows.learn import judge
from core.formats.otlp import Sent, TracedSpan, told_by, unpacked
from core.permissions import authorise
from core.records.counts import number_of
from core.records.run import Run
from core.records.times import HOUR_MS, iso
from core.records.trace import Settled, SpansTaken, TraceRow, TraceState
from core.store.offers import told_sessions
from core.store.reads import learners
from core.store.runs import add_runs
from core.store.traces import (
    MAX_SPANS,
    TRACES,
    KeptTrace,
    Packed,
    due_traces,
    forget_old,
    has_old,
    keep_spans,
    known_ranks,
    listed_traces,
    note_told,
    spans_of,
)
from core.store.transaction import Facts, Transaction

SILENT_MS: Final = HOUR_MS
"""After so long without a span a trace is told as it is."""
_AT_ONCE: Final = 50
"""Traces that are told in one write."""
_LISTED: Final = 1_000


class _Telling(NamedTuple):
    """A trace with the run that it tells, or why it tells none."""

    trace: KeptTrace
    n_spans: int
    run: Run | None
    said: str


def take_spans(context: Context, sent: Sent) -> SpansTaken:
    """Keep spans, and tell the traces whose roots are there as runs; all of it is on disk when this returns.

    Sent again, or told twice, they change nothing. Raises `StoreBusy` where too much waits already.
    """
    by_trace: dict[str, list[Packed]] = defaultdict(list)
    for one in sent.spans:
        by_trace[one.trace].append(_packed(one))
    context.permit("ingest", create=True)
    n_beyond = 0
    if by_trace:
        n_beyond = context.write("ingest", lambda txn: keep_spans(txn, by_trace), create=True)
    settled = settle_traces(context)
    reasons = Counter(sent.refused)
    if n_beyond:
        reasons[f"A trace must have at most {MAX_SPANS:,} spans."] += n_beyond
    words = [f"{reason} ({number_of(n, 'span')})" for reason, n in sorted(reasons.items())]
    words += [f"No run can be made of a trace: {reason}" for reason in settled.unread]
    if settled.rootless:
        words.append(f"{number_of(settled.rootless, 'trace')} without a root became runs after an hour.")
    return SpansTaken(
        kept=len(sent.spans) - n_beyond,
        refused=reasons.total(),
        runs=settled.runs,
        words=" ".join(words),
    )


def _packed(one: TracedSpan) -> Packed:
    return Packed(one.id, one.packed(), not one.parent, one.session or "")


def settle_traces(context: Context) -> Settled:
    """Tell every trace as a run that is to be told by now, and forget what nobody adds to any more."""
    context.permit("ingest")
    n_runs, n_rootless, unread = 0, 0, dict[str, None]()
    while True:
        with context.store.reading(context.learner) as snapshot:
            due = due_traces(snapshot, context.clock() - SILENT_MS, _AT_ONCE)
            told = list(_told(snapshot, due))
            is_old = has_old(snapshot, context.clock())
        if not told:
            if is_old:
                context.write("ingest", forget_old)
            return Settled(runs=n_runs, rootless=n_rootless, unread=tuple(unread))
        n_runs += context.write("ingest", lambda txn, told=told: _record(txn, told))  # type: ignore[misc]
        n_rootless += sum(one.run is not None and not one.trace.is_rooted for one in told)
        unread |= dict.fromkeys(one.said for one in told if one.said)


def _told(facts: Facts, due: Sequence[KeptTrace]) -> Iterator[_Telling]:
    for trace in due:
        spans = [unpacked(content) for content in spans_of(facts, trace.uid)]
        told = told_by(spans) if spans else "Its spans are gone."
        if isinstance(told, str):
            yield _Telling(trace, trace.n_spans, None, told)
        else:
            yield _Telling(trace, trace.n_spans, None if told.empty else told, "")


def _record(txn: Transaction, told: Sequence[_Telling]) -> int:
    """Tell runs; how many are new or went on. A telling that is no longer than what is known tells nothing."""
    runs = [one.run for one in told if one.run is not None]
    ranks, passive = known_ranks(txn, [run.uid for run in runs]), told_sessions(txn)
    batch = [
        judge(run, txn.settings, "passive" if run.session in passive else None)
        for run in runs
        if run.rank > ranks.get(run.uid, -1)
    ]
    add_runs(txn, batch)
    note_told(txn, [(one.trace.uid, one.n_spans, one.said) for one in told])
    return len(batch)


def settle_everywhere(context: Context) -> None:
    """The same for every learner; what can't be done now is done the next time."""
    authorise(context.actor, "ingest", None)
    with context.store.reading(context.learner) as snapshot:
        names = learners(snapshot)
    for name in names:
        try:
            settle_traces(context.of(name))
        except StoreError:
            continue


def traces(context: Context) -> list[TraceRow]:
    """List traces that wait for their root span, became runs without it, or cannot be read.

    The latest come first.
    """
    with context.reading() as snapshot:
        return [_row(one) for one in listed_traces(snapshot, _LISTED)]


def _row(one: KeptTrace) -> TraceRow:
    is_told = one.n_told > 0 and not one.said
    state: TraceState = "unread" if one.said else "rootless" if is_told and not one.is_rooted else "waiting"
    return TraceRow(
        trace=one.uid,
        session=one.session or None,
        state=state,
        spans=one.n_spans,
        last_at=iso(one.last_ms) or "",
        run=TRACES + one.uid if is_told else None,
        said=one.said or None,
    )
