"""Resets: arms started again."""

from __future__ import annotations

from collections.abc import Callable

from core.flows.reset import reset
from core.records.arm import ArmType
from core.records.reset import Target
from dashboard import wording
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading


def send_reset(
    *,
    arms: tuple[str, ...],
    types: tuple[ArmType, ...],
    target: Target,
    reason: str | None,
    after: Callable[[], None],
) -> None:
    """Reset the arms; ``after`` empties the form once the reset stands."""

    def act() -> Flash:
        answer = reset(reading().context, arms=arms, types=types, target=target, reason=reason)
        after()
        done = f"{wording.things(answer.reset_count, 'arm')} reset. Nothing is lost: undo is below."
        return Flash(text=done, act=answer.id)

    tried("Nothing was reset.", act)
