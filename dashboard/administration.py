"""Queries and actions of the pages People, Tokens and Audit, which concern the installation.

None is cached by revision, because a learner's revision says nothing about members and tokens. They are few, and
an index finds a page of the audit. The caller shows errors next to their object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, assert_never

import msgspec

from core.doors.documents import audit_rows
from core.doors.terminal import json_document, row_lines
from core.flows import audit as audits
from core.flows import members as people
from core.flows import tokens as token_flows
from core.records.actor import PersonRole
from core.records.audit import AuditFilter, AuditPage, Denial, DenialPage
from core.records.member import MemberAnswer, MemberRow
from dashboard.reading import reading, still, uncached

PAGE: int = 50
"""Rows of an audit on a page."""

Doing = Literal["let in", "role", "remove", "sign out"]
Which = Literal["acts", "installation", "refused"]
"""Lists of the audit: acts in the learner, acts in the installation, and refusals."""

members: Final = uncached(people.members)

tokens: Final = uncached(token_flows.tokens)
make_token: Final = uncached(token_flows.create_token)
revoke_token: Final = uncached(token_flows.revoke_token)


# Members


@dataclass(frozen=True, kw_only=True)
class Change:
    """A form's change of one person: a ``member`` by id, or a new one by ``issuer`` and ``subject`` or ``email``.

    The role is in one learner, or in all (None); ``role`` None removes it there.
    """

    doing: Doing
    member: str = ""
    name: str = ""
    issuer: str = ""
    subject: str = ""
    email: str = ""
    role: PersonRole | None = "viewer"
    learner: str | None = None


def take_back(was: MemberRow | None, now: MemberRow) -> MemberAnswer:
    """Restore a member to ``was``, the state before a change; None removes a new member.

    ``now`` is the state after the change.
    """
    context = reading().context
    if was is None:
        return people.remove_member(context, now.id)
    return people.restore_member(context, was, current=now)


def change_member(change: Change, *, rehearses: bool = False) -> MemberAnswer:
    """Change a member; a rehearsal returns the effects, or raises the errors, without writing."""
    here = reading().context
    context = here.for_rehearsal() if rehearses else here
    match change.doing:
        case "let in" if change.subject:
            return people.add_member(
                context,
                change.issuer,
                change.subject,
                change.name,
                role=change.role or "viewer",
                learner=change.learner,
            )
        case "let in":
            return people.invite_member(
                context,
                change.issuer,
                change.email,
                name=change.name or None,
                role=change.role or "viewer",
                learner=change.learner,
            )
        case "role":
            return people.set_role(context, change.member, change.role, learner=change.learner)
        case "remove":
            return people.remove_member(context, change.member)
        case "sign out":
            return people.sign_out_member(context, change.member)
        case _:
            assert_never(change.doing)


# The audit


def acts(audit_filter: AuditFilter, *, installation: bool, before: int | None) -> AuditPage:
    """Return a page of what was done, at the learner or to the installation."""
    return audits.audit(
        reading().context, installation=installation, wanted=audit_filter, before=before, limit=PAGE
    )


def refused(audit_filter: AuditFilter, after: Denial | None) -> DenialPage:
    """Return a page of what was refused."""
    return audits.denials(reading().context, wanted=audit_filter, after=after, limit=PAGE)


def whole_audit(which: Which, audit_filter: AuditFilter, form: Literal["csv", "json"]) -> Callable[[], bytes]:
    """Return a function that writes all filtered rows to a file, as ``armscope audit --all`` does."""
    here = reading()

    def content() -> bytes:
        context = still(here).context  # who asks for it may have lost their role since the page was drawn
        page: AuditPage | DenialPage
        if which == "refused":
            page = audits.denials(context, wanted=audit_filter, limit=None)
        else:
            page = audits.audit(
                context, installation=which == "installation", wanted=audit_filter, limit=None
            )
        if form == "json":
            return json_document(page)
        return "".join(row_lines(audit_rows(page), "csv")).encode()

    return content


def cursor_of(denial: Denial) -> str:
    """Return the start of a page of refusals, as its address has it."""
    return msgspec.json.encode([denial.at_ms, denial.actor, denial.action]).decode()


def read_cursor(text: str) -> Denial | None:
    """Return the same, read; None for what is no such place."""
    try:
        at_ms, actor, action = msgspec.json.decode(text, type=tuple[int, str, str])
    except msgspec.DecodeError:
        return None
    return Denial(at_ms=at_ms, actor=actor, action=action, n=0) if 0 <= at_ms < 1 << 53 else None
