"""Rewards: a form sent."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import ArmscopeError
from core.flows.reward import reward
from dashboard import wording
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading


@dataclass(frozen=True, kw_only=True)
class RewardForm:
    """One filled-in form; ``key`` belongs to the form, not to the click, so sending it twice counts once.

    ``seen`` is the newest reward by hand about this arm in this run that it showed, "" = none.
    """

    arm: str
    value: float
    reason: str | None = None
    run: str | None = None
    correct: bool = False
    seen: str = ""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


def send_reward(
    form: RewardForm, after: Callable[[str], None], *, told: Callable[[ArmscopeError], bool]
) -> None:
    """Send the form as it was drawn; ``after`` gets the id of the act and empties it once the reward stands."""

    def act() -> Flash:
        answer = reward(
            reading().context,
            form.arm,
            form.value,
            run=form.run,
            reason=form.reason,
            correct=form.correct,
            key=form.key,
            seen=form.seen,
        )
        after(answer.id)
        name = wording.literal(wording.short_name(form.arm))
        rounded = " The reward was rounded to millionths." if answer.rounded else ""
        return Flash(
            text=f"{name} rewarded {form.value:g}; its mean is now {wording.mean(answer.mean)}.{rounded}",
            act=answer.id,
        )

    tried("The reward was not sent.", act, told=told)
