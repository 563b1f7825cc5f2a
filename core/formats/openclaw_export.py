"""OpenClaw's learning export: one JSON object with ``traces`` and ``posteriors``.

A trace is a run that keeps its own ``referenced`` flags; it was observed if a real tool was referenced. With
traces, ``posteriors`` are only compared with the result of the traces. Without traces, each posterior becomes a
prior and one ledger row (`core.formats.carried`). Our own export in this shape names its learner in ``writtenBy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from core.formats import pi_session
from core.formats.carried import Belief, carried, micro_above_one
from core.formats.entries import Entry, Progress, Rejected, Stated
from core.formats.prompts import counts_of, summed
from core.formats.reading import Format, Head, Reading
from core.formats.strict import UNDECODABLE, Flaw, digest_of, millis, plain, utc_ms_of
from core.formats.unknown import Unknown
from core.records.alike import alike
from core.records.arm import Arm, check_key
from core.records.bill import Spent, merged
from core.records.ledger_lines import LearnerLine
from core.records.limits import Count, Label, Tokens
from core.records.run import Inventory, Run, RunClass, Status, Usage, rows_of_usage

NAME: Final = "openclaw-export"

_CLASSES: Final[dict[bool | None, RunClass]] = {True: "baseline", False: "selected", None: "imported"}
_MARKS: Final = (b'"armId"', b'"isBaseline"')
_NO_ERRORS: Final = frozenset((b"", b"null", b"false", b'""'))

_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")


class _Writer(msgspec.Struct):
    learner: Label
    origin: Label


class _Document(msgspec.Struct, rename="camel"):
    written_by: _Writer | None = None
    traces: list[msgspec.Raw] | None = None
    posteriors: list[msgspec.Raw] | None = None


class _TracedArm(msgspec.Struct, rename="camel"):
    arm_id: str
    included: bool
    referenced: bool = False
    token_cost: Tokens | None = None


class _Usage(pi_session.Usage, rename="camel"):
    total: Tokens | None = None


class _Trace(msgspec.Struct, rename="camel"):
    arms: list[_TracedArm]
    trace_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    timestamp: str | int | float | None = None
    provider: Label | None = None
    model: Label | None = None
    channel: Label | None = None
    is_baseline: bool | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
    duration_ms: Count | float | None = None
    system_prompt_chars: Count | None = None
    aborted: bool | None = None
    error: msgspec.Raw = msgspec.Raw(b"")


class _Posterior(msgspec.Struct, rename="camel"):
    arm_id: str
    alpha: float
    beta: float
    pulls: Count
    last_updated: str | int | float | None = None


_USAGE: Final = msgspec.json.Decoder(_Usage | None)
_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_TRACE: Final = msgspec.json.Decoder(_Trace)
_POSTERIOR: Final = msgspec.json.Decoder(_Posterior)


def _claims(head: Head) -> bool:
    """Other exports have ``traces`` too; only these speak of arms."""
    if not {"traces", "posteriors"} & head.keys:
        return False
    return {"metrics", "posteriors"} <= head.keys or any(mark in head.start for mark in _MARKS)


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    whole = replace(reading, shape="object")
    parts = whole.document("traces", progress)
    n_traces, unknown = 0, Unknown()
    for _, _, document in whole.records(_DOCUMENT.decode, pieces=parts.parts()):
        if isinstance(document, Rejected):
            yield document
        else:
            yield from _entries(reading, document, n_traces, unknown)
            n_traces += len(document.traces or ()) if parts.is_large else 0
    yield from unknown.remarks(reading.file)


def _entries(reading: Reading, document: _Document, n_before: int, unknown: Unknown) -> Iterator[Entry]:
    """Yield what a document holds; a part of one repeats what does not belong to its traces."""
    traces, posteriors = document.traces or (), document.posteriors or ()
    if document.written_by is not None and not n_before:
        yield LearnerLine(armscope=1, name=document.written_by.learner, origin=document.written_by.origin)
    yield from _beliefs(reading, () if n_before else posteriors, is_compared=bool(traces))
    for number, raw in enumerate(traces, start=n_before + 1):
        try:
            yield _run(bytes(raw), unknown)
        except UNDECODABLE as error:
            yield _rejected(reading, "Trace", number, error, bytes(raw))


def _rejected(reading: Reading, what: str, number: int, error: BaseException, raw: bytes) -> Rejected:
    refused = reading.rejected(number, error, raw)
    return replace(refused, line=None, reason=f"{what} {number}: {refused.reason}")


# --- posteriors -------------------------------------------------------------------------------------------


def _beliefs(reading: Reading, raws: Sequence[msgspec.Raw], *, is_compared: bool) -> Iterator[Entry]:
    ids: set[str] = set()
    for number, raw in enumerate(raws, start=1):
        try:
            posterior = _once(_POSTERIOR.decode(bytes(raw)), ids)
            if is_compared:
                yield alike(Stated, posterior, file=reading.file, arm=posterior.arm_id)
            else:
                belief = Belief(
                    arm=posterior.arm_id,
                    success_micro=micro_above_one("alpha", posterior.alpha),
                    failure_micro=micro_above_one("beta", posterior.beta),
                    pulls=posterior.pulls,
                    at_ms=utc_ms_of(posterior.last_updated)[0],
                )
                yield from carried(belief, "an OpenClaw export")
        except UNDECODABLE as error:
            yield _rejected(reading, "Posterior", number, error, bytes(raw))


def _once(posterior: _Posterior, ids: set[str]) -> _Posterior:
    if check_key(posterior.arm_id) in ids:
        raise Flaw("names an arm that has one already")
    ids.add(posterior.arm_id)
    return posterior


# --- traces -----------------------------------------------------------------------------------------------


def _run(raw: bytes, unknown: Unknown) -> Run:
    trace = _TRACE.decode(raw)
    arms = _merged(trace.arms)
    identity = (
        plain(trace.trace_id) or plain(trace.run_id) or digest_of(_CANONICAL.encode(msgspec.json.decode(raw)))
    )
    ended_at_ms, is_naive = utc_ms_of(trace.timestamp)
    used, names = counts_of(_USAGE, trace.usage)
    usage = _usage(used)
    return Run(
        uid=f"{NAME}/prompt/{identity}",
        inventory=Inventory(
            kind="declared",
            arms=tuple([Arm(key=arm.arm_id, token_cost=arm.token_cost) for arm in arms if arm.included]),
        ),
        format=NAME,
        unit="prompt",
        source=identity,
        session=plain(trace.session_id),
        ended_at_ms=ended_at_ms,
        naive_time=is_naive,
        provider=trace.provider,
        model=trace.model,
        channel=trace.channel,
        run_class=_CLASSES[trace.is_baseline],
        status=_status(trace),
        usage=usage,
        bill=merged((*rows_of_usage(usage), Spent(unread=unknown.spend(names)))) if names else (),
        duration_ms=None if trace.duration_ms is None else millis(trace.duration_ms),
        prompt_chars=trace.system_prompt_chars,
        excluded=tuple([arm.arm_id for arm in arms if not arm.included]),
        referenced=tuple([arm.arm_id for arm in arms if arm.included and arm.referenced]),
    )


def _merged(arms: list[_TracedArm]) -> list[_TracedArm]:
    """Each arm once: two files of one name are one arm, in if either is, used if either was."""
    merged: dict[str, _TracedArm] = {}
    for arm in arms:
        known = merged.setdefault(arm.arm_id, arm)
        if known is not arm:
            known.included |= arm.included
            known.referenced |= arm.referenced
    return list(merged.values())


def _status(trace: _Trace) -> Status:
    if trace.aborted:
        return "aborted"
    return "completed" if bytes(trace.error) in _NO_ERRORS else "error"


def _usage(reported: _Usage | None) -> Usage | None:
    if reported is None:
        return None
    return summed([(*reported.parts[:4], reported.total or reported.total_tokens or 0)])


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read, takes_tools=False)
