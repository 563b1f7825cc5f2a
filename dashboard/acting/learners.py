"""Learners: a new one."""

from __future__ import annotations

from collections.abc import Callable

from core.flows.learners import create_learner
from dashboard import wording
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading


def new_learner(name: str, after: Callable[[str], None]) -> None:
    """Make a learner; ``after`` gets its name and goes there."""

    def act() -> Flash:
        made = create_learner(reading().context, name)
        after(made.name)
        return Flash(text=f"{wording.literal(made.name)} is new and empty.")

    tried("No learner was made.", act)
