"""Arm: what the page of one arm asks the flows."""

from __future__ import annotations

from core.flows import queries
from core.records.note import Note
from core.records.run_page import Cursor
from core.records.view import View
from dashboard.loading.reading import asked, reading


def as_of() -> queries.Belief:
    """Every arm as of the end of the span, whatever the types chosen."""
    here = reading()
    view = View(until_ms=here.view.until_ms)
    return asked("belief", view, lambda: queries.belief(here.context, view))


def arm_path(arm: str) -> queries.ArmPath:
    """How the belief in an arm got where it is at the end of the span."""
    here = reading()
    until_ms = here.view.until_ms
    return asked(
        ("arm path", arm), View(until_ms=until_ms), lambda: queries.arm_path(here.context, arm, until_ms)
    )


def arm_ledger(arm: str, after: queries.LedgerPlace) -> queries.ArmLedger:
    """A page of an arm's observations."""
    here = reading()
    return asked(("arm ledger", arm, after), None, lambda: queries.arm_ledger(here.context, arm, after=after))


def arm_runs(arm: str, cursor: Cursor | None) -> queries.ArmRuns:
    """A page of the runs that an arm was in or left out of."""
    here = reading()
    return asked(("arm runs", arm, cursor), None, lambda: queries.arm_runs(here.context, arm, cursor=cursor))


def arm_notes(arm: str) -> tuple[Note, ...]:
    """What people wrote about an arm, newest first."""
    here = reading()
    return asked(("arm notes", arm), None, lambda: queries.notes(here.context, arm))


def near_arms(wanted: str) -> tuple[str, ...]:
    """Ids that a mistyped one may have meant."""
    here = reading()
    return asked(("near arms", wanted), None, lambda: queries.near_arms(here.context, wanted))
