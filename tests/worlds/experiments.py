"""Experiments of tests: starts and stops as facts, runs that follow their sides, and the rows that they wrote."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from core.flows.context import Context
from core.flows.select import select
from core.records.arm import Arm
from core.records.experiment import ExperimentAct, ExperimentLine, ExperimentPlan
from core.records.run import Call, Run, Usage
from core.records.times import DAY_MS
from core.records.trial import TrialSide
from core.store.experiments import add_experiment
from tests.worlds import START_MS, chosen_among

KEY: Final = "5e" * 32
ARM: Final = "tool:other:assigned"
OTHER: Final = "tool:other:usual"
OFFERED: Final = (Arm(key=ARM, token_cost=10), Arm(key=OTHER, token_cost=20))


class AssignedRow(NamedTuple):
    """A stored assignment; ``session`` '' = of a run."""

    session: str
    run: str
    side: TrialSide
    experiment_no: int
    at_ms: int


def start_experiment(
    context: Context,
    arm: str,
    *,
    share: float = 0.5,
    secret: str = KEY,
    ends_ms: int = START_MS + 3_650 * DAY_MS,
) -> int:
    """Start an experiment on an arm, and return its number."""
    plan = ExperimentPlan(arm=arm, metric="tokens", ends_ms=ends_ms, n_planned=100, share=share)
    line = ExperimentLine(id="own", form="start", plan=plan)
    return context.write("settings", lambda txn: add_experiment(txn, line, txn.own, secret=secret))


def stop_experiment(context: Context, number: int, *, share: float | None = None) -> None:
    """Stop an experiment, or change its share."""
    with context.store.reading(context.learner) as snapshot:
        of = f"{snapshot.origin}/experiment-{number}"
    form = "stop" if share is None else "share"
    line = ExperimentLine(id="own", form=form, of=of, act=ExperimentAct(share=share))  # type: ignore[arg-type]
    context.write("settings", lambda txn: add_experiment(txn, line, txn.own))


def assigned_rows(context: Context) -> list[AssignedRow]:
    """Return the stored assignments."""
    with context.store.reading(context.learner) as snapshot:
        rows = snapshot.rows(
            "SELECT session, run, side, experiment_no, at_ms FROM assignment WHERE learner_id = ?"
            " ORDER BY assignment_no"
        )
    return [AssignedRow(*row) for row in rows]


def sides_of(context: Context) -> dict[str, TrialSide]:
    """Return the side of each session, or run without one; every one has one row."""
    rows = assigned_rows(context)
    sides = {row.session or row.run: row.side for row in rows}
    assert len(sides) == len(rows)
    return sides


def assigned_run(
    context: Context,
    uid: str,
    session: str | None,
    **fields: Any,  # noqa: ANN401 - fields of a run
) -> Run:
    """Return a run of a session, with what is selected in it now."""
    usual = {"usage": Usage(input=90, output=10), "duration_ms": 1_500, "calls": (Call(name="usual"),)}
    chosen = select(context, OFFERED, session=session)
    return chosen_among(uid, chosen, OFFERED, session=session, **usual | fields)
