"""Denials: counted by actor, action and minute; a flood is a row, whoever it comes from; the audit, page by page."""

from __future__ import annotations

from core.flows.audit import audit, denials
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.identity import note_denied
from core.flows.learn import reward
from core.records.actor import Actor
from core.records.audit import AuditEntry, AuditFilter, Denial
from core.records.times import MINUTE_MS
from tests.engine import named
from tests.worlds import START_MS, context_at

MINUTE = START_MS // MINUTE_MS * MINUTE_MS
JO = Actor(name="jo", role="viewer")


def test_a_flood_is_one_row_a_minute_with_its_count(context: Context) -> None:
    for number in range(3_000):
        note_denied(context.store, JO, "reset", MINUTE + number * 40)
    note_denied(context.store, None, "sign in", MINUTE + MINUTE_MS)
    note_denied(context.store, JO, "reward", MINUTE + MINUTE_MS)
    found = denials(context).denials
    assert [(one.at_ms - MINUTE, one.actor, one.action) for one in found] == [
        (MINUTE_MS, "", "sign in"),
        (MINUTE_MS, "jo", "reset"),
        (MINUTE_MS, "jo", "reward"),
        (0, "jo", "reset"),
    ]
    assert sum(one.n for one in found if one.action == "reset") == 3_000
    with context.store.database.reading() as reading:
        assert reading.row("SELECT count(*) FROM denial") == (4,)


def test_the_first_is_on_disk_at_once_and_the_rest_when_the_store_is_closed(context: Context) -> None:
    note_denied(context.store, JO, "reset", MINUTE)
    assert denials(context).denials == (Denial(at_ms=MINUTE, actor="jo", action="reset", n=1),)
    for _ in range(9):
        note_denied(context.store, JO, "reset", MINUTE + 1)
    context.store.close()
    again = context_at(named(context.store))
    assert [one.n for one in denials(again).denials] == [10]


def test_denials_are_read_page_by_page_and_by_what_is_wanted(context: Context) -> None:
    for minute in range(3):
        for action in ("reset", "reward"):
            note_denied(context.store, JO, action, MINUTE + minute * MINUTE_MS)
    whole = denials(context).denials
    paged: list[Denial] = []
    after = None
    while True:
        page = denials(context, after=after, limit=2)
        paged += page.denials
        after = page.next
        if after is None:
            break
    assert tuple(paged) == whole
    assert len(denials(context, wanted=AuditFilter(action="reset")).denials) == 3
    assert denials(context, wanted=AuditFilter(actor="")).denials == ()
    since = AuditFilter(since_ms=MINUTE + 2 * MINUTE_MS)
    assert len(denials(context, wanted=since).denials) == 2
    until = AuditFilter(until_ms=MINUTE + 2 * MINUTE_MS)
    assert denials(context, wanted=since).denials + denials(context, wanted=until).denials == whole
    assert denials(context, limit=None) == denials(context, limit=1_000)


def test_the_audit_is_read_page_by_page_and_by_what_is_wanted(context: Context) -> None:
    for number in range(5):
        reward(context, "tool:web:search", 0.5, reason=f"{number}", create=True)
    undo(context, "reward-3")
    whole = audit(context).entries
    assert [one.action for one in whole] == ["undo", *["reward"] * 5]
    assert [one.act for one in whole if one.undone] == ["reward-3"]
    paged: list[AuditEntry] = []
    before = None
    while True:
        page = audit(context, before=before, limit=4)
        paged += page.entries
        before = page.next
        if before is None:
            break
    assert tuple(paged) == whole
    assert len(audit(context, wanted=AuditFilter(action="reward")).entries) == 5
    assert audit(context, wanted=AuditFilter(actor="nobody")).entries == ()
    since = AuditFilter(since_ms=whole[1].at_ms)
    assert audit(context, wanted=since).entries == whole[:2]
    until = AuditFilter(until_ms=whole[1].at_ms)
    assert audit(context, wanted=until).entries == whole[2:]
    assert audit(context, limit=None) == audit(context, limit=1_000)
