"""A program of a user, for a file or a server: ``python -m tests.doors.program PLACE``."""

from __future__ import annotations

import sys
from typing import assert_type

from core import (
    AsyncLearnerProtocol,
    Client,
    JudgedArm,
    JudgedPosterior,
    LearnerProtocol,
    NoteAnswer,
    QueueRow,
    RowList,
    RowTuple,
    RunRow,
    open_learner,
)
from core.doors.verbs import Verbs
from core.flows.context import Context


def mean_after_a_reward(learner: LearnerProtocol, arm: str) -> float:
    with learner.run([arm]) as run:
        run.called("search")
    given = learner.reward(arm, 0.5, run=run.uid)
    assert learner.undo(given.id).undone == given.id
    rows: list[JudgedPosterior] = learner.posteriors()
    assert learner.runs()[:1].to_pandas()["uid"].tolist() == [run.uid]
    assert learner.why(run.uid).facts.uid == run.uid
    assert learner.savings().overall.baseline.n_runs >= 0
    assert learner.ledger()[0].arm == arm
    return rows[0].mean


async def typed(learner: LearnerProtocol, awaited: AsyncLearnerProtocol, context: Context) -> None:
    """Let the type checker see each method with its types: an unneeded ignore is an error, too."""
    assert_type(learner.note("tool:web:search", "slow"), NoteAnswer)
    assert_type(learner.runs(3, model="large"), RowTuple[RunRow])
    assert_type(learner.queues(), RowTuple[QueueRow])
    assert_type(await awaited.note("tool:web:search", text="slow"), NoteAnswer)
    assert_type(await awaited.arms(type="tool"), RowList[JudgedArm])
    assert_type(Verbs.queues.call(context), tuple[QueueRow, ...])
    learner.note("tool:web:search")  # type: ignore[call-arg]
    learner.note("tool:web:search", 3)  # type: ignore[arg-type]
    learner.runs(modle="large")  # type: ignore[call-arg]
    await awaited.set_role("ann", "king")  # type: ignore[arg-type]
    await awaited.evaluate("r1", "fine")  # type: ignore[arg-type]
    Verbs.note.call(context, arm="tool:web:search")  # type: ignore[call-arg]
    rows: list[RunRow] = Verbs.queues.call(context)  # type: ignore[assignment]
    assert rows == []


def main(place: str) -> None:
    opened = Client(place) if place.startswith("http") else open_learner(place)
    with opened as learner:
        sys.stdout.write(f"{mean_after_a_reward(learner, 'tool:web:search')}\n")


if __name__ == "__main__":
    main(sys.argv[1])
