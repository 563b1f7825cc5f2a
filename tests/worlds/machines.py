"""What state machines of a learner share: a database in memory's folder, and how they are run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.waiting import memory_folder
from tests.worlds import context_at


class LearnerMachine(RuleBasedStateMachine):
    """Rules that act on a learner with a database of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=memory_folder())
        self.place = Path(self.folder.name)
        self.context = context_at(self.place / "machine.db")


def run_machine(
    machine: type[LearnerMachine], n_examples: int, n_steps: int, *, derandomize: bool = False
) -> None:
    """Run a machine with so many examples of so many steps; none is too slow or too large."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            derandomize=derandomize,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
