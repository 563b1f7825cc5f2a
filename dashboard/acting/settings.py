"""Settings: changes put in force together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.flows.settings import change_all
from core.records.learner import LearnerSettings
from dashboard import wording
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading


def send_settings(changes: Mapping[str, object], *, seen: LearnerSettings, after: Callable[[], None]) -> None:
    """Put changes in force unless somebody else changed the same meanwhile; ``after`` ends the drafts."""

    def act() -> Flash:
        answers = [one for one in change_all(reading().context, changes, seen=seen) if one.id is not None]
        after()
        things = wording.things(len(answers), "setting")
        act_id = answers[0].id if len(answers) == 1 else None
        return Flash(text=f"{things} changed. In force from now on; undo is below.", act=act_id)

    tried("Nothing was changed.", act)
