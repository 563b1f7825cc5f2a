"""A program of a user, for a file or a server: ``python -m tests.doors.program PLACE``."""

from __future__ import annotations

import sys

from core import Client, JudgedPosterior, LearnerProtocol, open_learner


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


def main(place: str) -> None:
    opened = Client(place) if place.startswith("http") else open_learner(place)
    with opened as learner:
        sys.stdout.write(f"{mean_after_a_reward(learner, 'tool:web:search')}\n")


if __name__ == "__main__":
    main(sys.argv[1])
