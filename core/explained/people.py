"""Tables of people: members, tokens of programs, senders of chats, the audit trail, refusals, alerts and webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from core.explained.table import Table, count, text, time
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.alert import AlertRow, WebhookRow
    from core.records.audit import AuditEntry, Denial
    from core.records.member import MemberRow, SenderRow, TokenRow

DENIALS: Final[Table[Denial]] = Table(
    at=time("minute", lambda one: one.at_ms, width=140),
    actor=text("who", lambda one: one.actor, "unknown", width=260),
    action=text("refused", lambda one: one.action.replace("_", " "), width=240),
    n=count("times", lambda one: one.n, width=90),
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
    raised=time("since", lambda one: one.raised_ms, width=140),
    kind=text("what", lambda one: one.kind, width=300),
    object=text("object", lambda one: one.object),
    count=count("how much", lambda one: one.count, width=160),
    learner=text("learner", lambda one: one.learner, "the installation", width=160),
    state=text(
        "state",
        lambda one: "active" if one.cleared_ms is None else f"cleared {iso(one.cleared_ms)}",
        width=230,
    ),
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
    name=text("name", lambda one: one.name, width=160),
    known=text("e-mail or subject", lambda one: one.email or one.subject, width=220),
    roles=text("roles", roles, width=260),
    state=text("state", _state, width=170),
    at=time("since", lambda one: one.at_ms, width=130),
    by=text("by", lambda one: one.by, width=100),
    issuer=text("issuer", lambda one: one.issuer),
)


def _scopes(one: TokenRow) -> str:
    return ", ".join([*one.scopes, *(["a bridge"] if one.is_bridge else [])])


def where(learners: Sequence[str] | None) -> str:
    """Return the learners of a token."""
    return "every learner" if learners is None else ", ".join(learners)


def token_use(one: TokenRow) -> str:
    """Return the scopes of a token and its learners."""
    return f"{_scopes(one)} in {where(one.learners)}"


TOKENS: Final[Table[TokenRow]] = Table(
    id=text("token", lambda one: one.id, width=80),
    name=text("name", lambda one: one.name, width=160),
    scopes=text("scopes", _scopes, width=170),
    learners=text("learners", lambda one: where(one.learners), width=170),
    expires=time("ends", lambda one: one.expires_ms, width=130),
    used=time("last used", lambda one: one.used_hour_ms, "never", width=110),
    by=text("by", lambda one: one.by, width=100),
    state=text(
        "state", lambda one: "" if one.revoked_ms is None else f"revoked {iso(one.revoked_ms)}", width=130
    ),
)


def _details(detail: Mapping[str, object]) -> Iterator[str]:
    """Yield the details of an act that have a value; a role also without one."""
    for name, value in detail.items():
        if name == "role" or value not in {None, ""}:
            yield f"{name} {'none' if value is None else value}"


AUDIT: Final[Table[AuditEntry]] = Table(
    at=time("when", lambda one: one.at_ms, width=112),
    actor=text("who", lambda one: one.actor, "unknown", width=120),
    action=text("what", lambda one: one.action, width=440),
    act=text("act", lambda one: one.act, width=108),
    detail=text("noted", lambda one: ", ".join(_details(one.detail)), width=260),
    state=text(
        "state", lambda one: "" if one.act is None else "undone" if one.undone else "active", width=72
    ),
)
