"""Audit log of a learner or of the installation, and denied requests."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.flows.context import Context
from core.records.audit import AuditFilter, AuditPage, Denial, DenialPage
from core.records.limits import whole
from core.records.run_query import Since
from core.store.denials import denials as stored_denials
from core.store.reads import audit_page
from core.store.reads.log import after_of

MOST: int = 1_000
"""Maximum number of entries on a page."""


def audit(
    context: Context,
    *,
    installation: Annotated[bool, Meta(description="Changes of members and tokens.")] = False,
    wanted: Annotated[AuditFilter, Meta(description="Only entries that pass this filter.")] = AuditFilter(),  # noqa: B008 - frozen
    before: Annotated[int | None, Meta(description="Cursor: next of the page before.")] = None,
    since: Annotated[
        Since, Meta(description="Only entries after it, oldest first: 0, an entry's mark, or a head.")
    ] = None,
    limit: Annotated[
        int | None, Meta(description="Maximum number (1 to 1,000), newest first; null: all.")
    ] = 50,
) -> AuditPage:
    """List the audit log of a learner, or of members and tokens."""
    limit = None if limit is None else whole("limit", limit, MOST, lowest=1)
    with context.reading_admin() if installation else context.reading("members") as snapshot:
        hidden = () if installation else context.hidden_from(snapshot)
        after = after_of(snapshot, since, hidden)
        return audit_page(snapshot, wanted, before=before, limit=limit, hidden=hidden, after=after)


def denials(
    context: Context,
    *,
    wanted: Annotated[AuditFilter, Meta(description="Only denials that pass this filter.")] = AuditFilter(),  # noqa: B008 - frozen
    after: Annotated[Denial | None, Meta(description="The last row of the page before.")] = None,
    limit: Annotated[
        int | None, Meta(description="Maximum number (1 to 1,000), newest first; null: all.")
    ] = 50,
) -> DenialPage:
    """List denied requests, added up by minute."""
    limit = None if limit is None else whole("limit", limit, MOST, lowest=1)
    with context.reading_admin() as snapshot:
        rows = stored_denials(snapshot, wanted, after=after, limit=None if limit is None else limit + 1)
    is_more = limit is not None and len(rows) > limit
    return DenialPage(denials=rows[:limit], next=rows[:limit][-1] if is_more else None)
