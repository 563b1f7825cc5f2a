"""Notes: one written."""

from __future__ import annotations

from collections.abc import Callable

from core.flows.note import note
from dashboard import wording
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading


def send_note(arm: str, text: str, key: str, after: Callable[[], None]) -> None:
    """Write a note as it was typed; ``key`` belongs to the form, so that sending it twice writes it once."""

    def act() -> Flash:
        answer = note(reading().context, arm, text, key=key)
        after()
        return Flash(text=f"Noted about {wording.literal(wording.short_name(arm))}.", act=answer.id)

    tried("The note was not written.", act)
