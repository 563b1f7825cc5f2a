"""Experiments of tests: starts and stops as facts, runs that follow their sides, their rows, and the law of sides."""

from __future__ import annotations

import hmac
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from core.flows import queries
from core.flows.context import Context
from core.flows.select import select
from core.records.arm import Arm
from core.records.experiment import Assigned, ExperimentAct, ExperimentForm, ExperimentLine, ExperimentPlan
from core.records.run import Call, Run, Usage
from core.records.selection import Selection
from core.records.times import DAY_MS
from core.records.trial import TrialSide
from core.store.experiments import add_experiment
from tests.worlds import START_MS, chosen_among

KEY: Final = "5e" * 32
ARM: Final = "tool:other:assigned"
OTHER: Final = "tool:other:usual"
OFFERED: Final = (Arm(key=ARM, token_cost=10), Arm(key=OTHER, token_cost=20))
SIDES: Final[tuple[TrialSide, TrialSide]] = ("with", "without")


class AssignedRow(NamedTuple):
    """A stored assignment; ``session`` '' = of a run."""

    session: str
    run: str
    side: TrialSide
    at_ms: int


def start_experiment(
    context: Context, arm: str, *, ends_ms: int = START_MS + 3_650 * DAY_MS, judged: bool = False
) -> int:
    """Start an experiment on an arm, and return its number; of one whose outcomes come from people if ``judged``."""
    plan = ExperimentPlan(arm=arm, metric="tokens", ends_ms=ends_ms, n_planned=100)
    if judged:
        plan = replace(plan, metric="success", source="person")
    line = ExperimentLine(id="own", form="start", plan=plan)
    return context.write("settings", lambda txn: add_experiment(txn, line, txn.own, secret=KEY))


def stop_experiment(context: Context, number: int, *, share: float | None = None) -> None:
    """Stop an experiment, or change its share."""
    with context.store.reading(context.learner) as snapshot:
        of = f"{snapshot.origin}/experiment-{number}"
    form: ExperimentForm = "stop" if share is None else "share"
    line = ExperimentLine(id="own", form=form, of=of, act=ExperimentAct(share=share))
    context.write("settings", lambda txn: add_experiment(txn, line, txn.own))


def by_coin(unit: str) -> TrialSide:
    """Return the side of a unit at equal chances, as the key has it."""
    return SIDES[hmac.digest(bytes.fromhex(KEY), unit.encode(), "sha256")[0] >> 7]


def carried(chosen: Selection | None) -> Assigned | None:
    return None if chosen is None else chosen.experiment or None


def assigned_rows(context: Context) -> list[AssignedRow]:
    sql = "SELECT session, run, side, at_ms FROM assignment WHERE learner_id = ? ORDER BY assignment_no"
    with context.store.reading(context.learner) as snapshot:
        return [AssignedRow(*row) for row in snapshot.rows(sql)]


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


def check_sides(context: Context) -> dict[str, TrialSide]:
    """Return the sides: no session's runs have two, each selection replays, and the store is as it says."""
    verified, sides = queries.verify(context), sides_of(context)
    assert verified.clean, verified.differences
    for row in queries.runs(context, limit=1_000):
        story = queries.run(context, row.uid)
        assert story.replays is not False
        assigned = carried(story.selection)
        if assigned is not None and assigned.in_force:
            assert assigned.side == sides[row.session or row.uid]
    return sides
