"""Learning from runs: detect evidence, decide the verdict, write observations. `importing` does this for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from core.detect import detect
from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.outcome import state_with_run
from core.maths.guard import guard
from core.maths.observe import observe
from core.records.answers import RecordAnswer
from core.records.evidence import Evidence, Reference, Verdict
from core.records.judged import INCLUDED, NAMED, Judged
from core.records.learner import LearnerSettings
from core.records.ledger_lines import RunLine
from core.records.run import Phase, Run
from core.store.offers import use_hold
from core.store.reads import run_of_uid
from core.store.runs import add_runs
from core.store.transaction import Transaction

_IS_FULL: Final = bytes(flag & INCLUDED and not flag & NAMED for flag in range(256))


def judge(run: Run, settings: LearnerSettings, phase: Phase | None = None) -> Judged:
    """Return a run with its evidence, verdict and flags by the learner's settings."""
    evidence = detect(run, settings.mode, settings.meta_tools)
    verdict = guard(run, evidence, settings.phase if phase is None else phase)
    return Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))


def judged_line(line: RunLine) -> Judged:
    """Return a run with the verdict that its line stores."""
    run = line.run
    used = set(run.referenced or ())
    evidence = Evidence(
        referenced=tuple(arm.key in used for arm in run.inventory.offered),
        references=line.references,
        n_calls=line.n_calls,
        n_real_calls=line.n_real_calls,
        not_offered=run.not_offered,
    )
    verdict = Verdict(outcome=line.outcome)
    return Judged(run=run, evidence=evidence, verdict=verdict, flags=observe(run, evidence, verdict))


def record(
    context: Context,
    run: Annotated[Run, Meta(description="The run.")],
    *,
    ended_now: Annotated[
        bool, Meta(description="The run ended when it was first sent, or at its own time.")
    ] = False,
    references: Annotated[
        Sequence[Reference], Meta(description="Excerpts around what the run refers to, from its client.")
    ] = (),
) -> RecordAnswer:
    """Record one run; a repeat changes nothing.

    The run is on disk when this returns. With ``ended_now`` the run ends at the time of the first request, so a
    retry need not know it. If that request never came, it ends at its own time; the answer has the delay.
    ``references`` belong to a run that names its referenced arms, because its client has searched its texts. Raises
    `Conflict` for a uid that is recorded with other content.
    """
    _check_references(run, references)

    def work(txn: Transaction) -> RecordAnswer:
        answer = _record(txn, [_timed(txn, run) if ended_now else run], references)[0]
        if not ended_now or run.ended_at_ms is None:
            return answer
        return replace(answer, late_ms=max(txn.now_ms - run.ended_at_ms, 0))

    return context.write("ingest", work, create=True)


def record_all(
    context: Context, runs: Sequence[Run], *, ended_now: Collection[str] = ()
) -> list[RecordAnswer]:
    """Record many runs in one transaction, all or none.

    Runs of ``ended_now``, by uid, ended at their first request, see `record`.
    """
    stored_runs = tuple(runs)  # the write may run again

    def work(txn: Transaction) -> list[RecordAnswer]:
        return _record(txn, [_timed(txn, run) if run.uid in ended_now else run for run in stored_runs])

    return context.write("ingest", work, create=True)


def _timed(txn: Transaction, run: Run) -> Run:
    known = run_of_uid(txn, run.uid)
    first = run.ended_at_ms if known is None or known.at_ms is None else known.at_ms
    return replace(run, ended_at_ms=txn.now_ms if first is None else first)


def _check_references(run: Run, references: Sequence[Reference]) -> None:
    referenced = set(run.referenced or ())
    for one in references:
        if one.arm not in referenced:
            raise InvalidInput(
                f"A reference must be to an arm in the run's referenced, got {one.arm!r} (run {run.uid!r}).",
                next_step="Name the arm there, or leave the reference out.",
            )


def _record(
    txn: Transaction, runs: Sequence[Run], references: Sequence[Reference] = ()
) -> list[RecordAnswer]:
    batch = [judge(run, txn.settings) for run in runs]
    if references:  # of the only run
        batch = [replace(one, evidence=replace(one.evidence, references=tuple(references))) for one in batch]
    statuses = add_runs(txn, batch)
    for judged, how in zip(batch, statuses, strict=True):
        if judged.run.achieved is not None:
            state_with_run(
                txn, judged.run.uid, judged.run.achieved, is_new=how == "new", has_grown=how == "updated"
            )
    held = {run.session for run in runs if run.selection and run.selection.held_since_ms is not msgspec.UNSET}
    for session in sorted(filter(None, held)):
        use_hold(txn, session)
    return [
        RecordAnswer(
            uid=judged.run.uid,
            outcome=judged.verdict.outcome,
            told=how if how != "other" else "duplicate",
            observed=sum(judged.flags.translate(_IS_FULL)) if judged.verdict.observed else 0,
            not_offered=_most_called(judged) if judged.evidence.not_offered else (),
        )
        for judged, how in zip(batch, statuses, strict=True)
    ]


def _most_called(judged: Judged) -> tuple[str, ...]:
    n_calls = Counter(call.name for call in judged.run.calls)
    return tuple(sorted(judged.evidence.not_offered, key=lambda tool: -n_calls[tool]))
