"""Tables of people: members, tokens of programs, senders of chats, the audit trail, refusals, alerts and webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from core.explained.table import Table, count, text, time
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.alert import AlertRow, WebhookRow
    from core.records.audit import AuditEntry, Denial
    from core.records.member import MemberRow, SenderRow
    from core.records.token import TokenRow

UNKNOWN_ACTOR: Final = "(unknown)"

DENIALS: Final[Table[Denial]] = Table(
    at=time("minute", lambda one: one.at_ms),
    actor=text("who", lambda one: one.actor, UNKNOWN_ACTOR),
    action=text("refused", lambda one: one.action),
    n=count("times", lambda one: one.n),
)
SENDERS: Final[Table[SenderRow]] = Table(
    channel=text("channel", lambda one: one.channel),
    sender=text("sender", lambda one: one.sender),
    member=text("member", lambda one: one.member),
    by=text("by", lambda one: one.by),
    at=time("since", lambda one: one.at_ms),
)
WEBHOOKS: Final[Table[WebhookRow]] = Table(
    id=text("webhook", lambda one: one.id),
    url=text("URL", lambda one: one.url),
    learner=text("about", lambda one: one.learner, "everything"),
    last=time("last tried", lambda one: one.last_ms, "never"),
    result=text("result", lambda one: one.last_result),
    waiting=count("waiting", lambda one: one.n_waiting),
    abandoned=count("given up", lambda one: one.n_given_up),
)
ALERTS: Final[Table[AlertRow]] = Table(
    id=text("alert", lambda one: one.id),
    kind=text("kind", lambda one: one.kind),
    learner=text("learner", lambda one: one.learner),
    object=text("object", lambda one: one.object),
    count=count("count", lambda one: one.count),
    raised=time("raised", lambda one: one.raised_ms),
    cleared=time("cleared", lambda one: one.cleared_ms),
)


def roles(member: MemberRow) -> str:
    """Return the roles of a member, each with its learner."""
    return ", ".join(f"{one.role} in {one.learner or 'every learner'}" for one in member.roles) or "no role"


def _state(one: MemberRow) -> str:
    if one.removed_ms is not None:
        return f"removed {iso(one.removed_ms)}"
    return "in" if one.invited_until_ms is None else f"invited until {iso(one.invited_until_ms)}"


MEMBERS: Final[Table[MemberRow]] = Table(
    id=text("member", lambda one: one.id),
    name=text("name", lambda one: one.name),
    roles=text("role", roles),
    state=text("state", _state),
    email=text("e-mail", lambda one: one.email),
    issuer=text("issuer", lambda one: one.issuer),
    subject=text("subject", lambda one: one.subject),
)


def token_use(one: TokenRow) -> str:
    """Return the scopes of a token and its learners."""
    where = "every learner" if one.learners is None else ", ".join(one.learners)
    return f"{', '.join(one.scopes)} in {where}{', a bridge' if one.is_bridge else ''}"


TOKENS: Final[Table[TokenRow]] = Table(
    id=text("token", lambda one: one.id),
    name=text("name", lambda one: one.name),
    use=text("for", token_use),
    by=text("by", lambda one: one.by),
    used=time("last used", lambda one: one.used_hour_ms, "never"),
    expires=time("ends", lambda one: one.expires_ms),
    revoked=time("revoked", lambda one: one.revoked_ms),
)


def details(detail: Mapping[str, object]) -> Iterator[str]:
    """Yield the details of an act that have a value; a role also without one."""
    for name, value in detail.items():
        if name == "role" or value not in {None, ""}:
            yield f"{name} {'none' if value is None else value}"


AUDIT: Final[Table[AuditEntry]] = Table(
    at=time("time", lambda one: one.at_ms),
    actor=text("who", lambda one: one.actor),
    action=text("did", lambda one: one.action),
    act=text("id", lambda one: one.act),
    detail=text("what", lambda one: ", ".join(details(one.detail))),
)
