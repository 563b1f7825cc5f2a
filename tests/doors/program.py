"""A program of a user, for a file or a server: ``python -m tests.doors.program PLACE``."""

from __future__ import annotations

import sys

from core import Client, LearnerProtocol, open_learner


def mean_after_a_reward(learner: LearnerProtocol, arm: str) -> float:
    with learner.run([arm]) as run:
        run.called("search")
    given = learner.reward(arm, 0.5, run=run.uid)
    assert learner.undo(given.id).undone == given.id
    rows = learner.posteriors()
    assert learner.why(run.uid).facts.uid == run.uid
    assert learner.savings().overall.baseline.n_runs >= 0
    assert learner.ledger()[0].arm == arm
    return rows[0].mean


if sys.argv[1].startswith("http"):
    with Client(sys.argv[1]) as client:
        sys.stdout.write(f"{mean_after_a_reward(client, 'tool:web:search')}\n")
else:
    with open_learner(sys.argv[1]) as learner:
        sys.stdout.write(f"{mean_after_a_reward(learner, 'tool:web:search')}\n")
