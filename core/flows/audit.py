"""Audit: who did what, of a learner or of the installation, and what was refused; for operators of all learners."""

from __future__ import annotations

from core.flows.context import Context
from core.flows.queries.blind import hidden_from
from core.records.audit import AuditFilter, AuditPage, Denial, DenialPage
from core.records.limits import whole
from core.store.denials import denials as stored_denials
from core.store.reads import audit_page

MOST: int = 1_000
"""Entries on a page at most."""


def audit(
    context: Context,
    *,
    installation: bool = False,
    wanted: AuditFilter = AuditFilter(),  # noqa: B008 - frozen
    before: int | None = None,
    limit: int | None = 50,
) -> AuditPage:
    """What was done at the learner, or (``installation``) to members and tokens: newest first, ``limit`` 1 to 1,000,
    or (None) all of it.

    ``before`` is ``next`` of the page before.
    """
    limit = None if limit is None else whole("limit", limit, MOST, lowest=1)
    with context.governing() if installation else context.reading("members") as snapshot:
        hidden = () if installation else hidden_from(context, snapshot)
        return audit_page(snapshot, wanted, before=before, limit=limit, hidden=hidden)


def denials(
    context: Context,
    *,
    wanted: AuditFilter = AuditFilter(),  # noqa: B008 - frozen
    after: Denial | None = None,
    limit: int | None = 50,
) -> DenialPage:
    """What was refused, added up by minute: newest first, ``limit`` 1 to 1,000, or (None) all of it; ``after`` is
    ``next`` of the page before.
    """
    limit = None if limit is None else whole("limit", limit, MOST, lowest=1)
    with context.governing() as snapshot:
        found = stored_denials(snapshot, wanted, after=after, limit=None if limit is None else limit + 1)
    is_more = limit is not None and len(found) > limit
    return DenialPage(denials=found[:limit], next=found[:limit][-1] if is_more else None)
