"""Keeping: is what is kept right, and a copy of it."""

from __future__ import annotations

from pathlib import Path

from core.errors import InvalidInput
from core.flows import maintenance, queries
from dashboard import wording
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading


def verify() -> None:
    """Recompute every cache from the facts, and say what came of it."""

    def act() -> Flash:
        found = queries.verify(reading().context)
        learners = wording.things(len(found.learners), "learner")
        if found.clean:
            return Flash(text=f"Everything equals the sum of what was recorded ({learners}).")
        differences = wording.things(found.n_differences, "difference")
        return Flash(
            text=f"{differences} between what is kept and what was recorded. `armscope verify` lists them.",
            failed=True,
        )

    tried("Nothing was verified.", act)


def back_up(file: str) -> None:
    """Copy the whole database into a new file."""

    def act() -> Flash:
        made = maintenance.backup(reading().context, _path(file))
        size = wording.size(made.size_bytes)
        return Flash(
            text=f"{size} written to {wording.literal(made.file)}, as of revision {made.revision:,}."
        )

    tried("No backup was made.", act)


def _path(file: str) -> Path:
    """A path as somebody typed it; the folder that the server runs in is nobody's business."""
    try:
        path = Path(file).expanduser()
    except RuntimeError:  # ~nobody: there is no such home
        path = Path()
    if file.isprintable() and path.is_absolute():
        return path
    raise InvalidInput(
        f"A backup's file must be a path on this machine, from its root on, got {file[:80]!r}.",
        next_step="Write it in full; the folder of the data is proposed.",
    )
