"""Sessions that an experiment assigned: its start, and runs that follow its sides."""

from __future__ import annotations

from typing import Any

from core.flows.context import Context
from core.flows.select import select
from core.records.arm import Arm
from core.records.experiment import ExperimentLine, ExperimentPlan
from core.records.run import Call, Run, Usage
from core.store.experiments import add_experiment
from tests.worlds import START_MS, chosen_among

DAY_MS = 86_400_000
ARM = "tool:other:assigned"
OTHER = "tool:other:usual"
OFFERED = (Arm(key=ARM, token_cost=10), Arm(key=OTHER, token_cost=20))
PLAN = ExperimentPlan(
    arm=ARM, metric="success", source="program", ends_ms=START_MS + 60 * DAY_MS, n_planned=100
)
SECRET = "0123456789abcdef" * 4


def start(context: Context, plan: ExperimentPlan = PLAN, secret: str = SECRET) -> int:
    """Start an experiment, and return its number."""
    line = ExperimentLine(id="own", form="start", plan=plan)
    return context.write("settings", lambda txn: add_experiment(txn, line, txn.own, secret=secret))


def assigned_run(
    context: Context,
    uid: str,
    session: str | None,
    *,
    calls: tuple[str, ...] = ("usual",),
    **fields: Any,  # noqa: ANN401 - fields of a run
) -> Run:
    """Return a run of a session whose side the experiment gave, or gives now."""
    usual = {"usage": Usage(input=90, output=10), "duration_ms": 1_500, "session": session}
    chosen = select(context, OFFERED, session=session)
    return chosen_among(
        uid, chosen, OFFERED, calls=tuple(Call(name=name) for name in calls), **{**usual, **fields}
    )
