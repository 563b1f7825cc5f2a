"""People and programs: members with their roles per learner, bridges that may name senders, and tokens.

They belong to learner 0, which holds the facts about the installation. Only the digest of the secret of a token is
stored.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from core.records.actor import Actor, Grant, Role, Scope
from core.records.member import MemberRow, SenderRow, TokenRow, token_actor
from core.records.times import HOUR_MS
from core.store.engine import Row
from core.store.mapped import FLAG, Mapped, StoredAs, none_is, numbered
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

_GIVE: Final = (
    insert_into("member_role", "learner_id", "member_no", "learner", "role")
    + " ON CONFLICT (learner_id, member_no, learner) DO UPDATE SET role = excluded.role"
)

_SELECT: Final = (
    "SELECT member_no, name, issuer, subject, email, by, at_ms, invited_until_ms, removed_ms, not_before_ms"
    " FROM member WHERE learner_id = ?"
)
_decode_scopes: Final = msgspec.json.Decoder(tuple[Scope, ...]).decode
_decode_learners: Final = msgspec.json.Decoder[tuple[str, ...] | None](tuple[str, ...] | None).decode
_TOKENS: Final = Mapped(
    TokenRow,
    "token",
    id=numbered("token"),
    scopes=StoredAs(read=_decode_scopes),
    learners=StoredAs(read=_decode_learners),
    used_hour_ms=StoredAs("used_hour", lambda hour: None if hour < 0 else hour * HOUR_MS),
    revoked_ms=none_is(0),
    is_bridge=FLAG,
)

_SENDERS: Final = Mapped(
    SenderRow,
    "bridge_sender",
    "bridge_sender t JOIN member m ON m.learner_id = t.learner_id AND m.member_no = t.member_no",
    member=StoredAs("m.name"),
)


class MemberMatch(NamedTuple):
    """A member, and the time from which their sessions are valid."""

    member_no: int
    member: MemberRow
    not_before_ms: int


def add_member(
    txn: Transaction, *, issuer: str, subject: str, email: str, name: str, invited_until_ms: int = 0
) -> int:
    """Add a member without a role, and return their number."""
    return txn.add_numbered(
        "member",
        issuer=issuer,
        subject=subject,
        email=email,
        name=name,
        invited_until_ms=invited_until_ms,
        not_before_ms=0,
        removed_ms=0,
        by=txn.actor.name,
        at_ms=txn.now_ms,
    )


def give_role(txn: Transaction, member_no: int, learner: str | None, role: Role | None) -> None:
    """Set a member's role in a learner (None: in every one); role None removes it."""
    if role is None:
        txn.run(
            "DELETE FROM member_role WHERE learner_id = ? AND member_no = ? AND learner = ?",
            [member_no, learner or ""],
        )
    else:
        txn.run(_GIVE, [member_no, learner or "", role])


def clear_roles(txn: Transaction, member_no: int) -> None:
    """A member is nothing anywhere from now on."""
    txn.run("DELETE FROM member_role WHERE learner_id = ? AND member_no = ?", [member_no])


def settle_member(
    txn: Transaction, member_no: int, *, subject: str, email: str, invited_until_ms: int
) -> None:
    """Set a member as present, or invited until a time (0 = not), from any earlier state."""
    now = {"subject": subject, "email": email, "invited_until_ms": invited_until_ms}
    txn.set_row("member", "member_no = ?", [member_no], **now, removed_ms=0)


def mark_removed(txn: Transaction, member_no: int) -> None:
    """Remove a member, and end their invitation."""
    txn.set_row("member", "member_no = ?", [member_no], removed_ms=max(txn.now_ms, 1), invited_until_ms=0)


def end_sessions(txn: Transaction, member_no: int, *, issued_ms: int = 0) -> None:
    """End every session that began before now, and the one with ``issued_ms``, whose clock may be ahead of ours."""
    since_ms = max(txn.now_ms, issued_ms + 1)
    txn.set_row(
        "member", "member_no = ? AND not_before_ms < ?", [member_no, since_ms], not_before_ms=since_ms
    )


def member_rows(facts: Facts) -> tuple[MemberRow, ...]:
    """Return all members, also removed ones, by number."""
    return tuple(one.member for one in _members_of(facts, facts.rows(f"{_SELECT} ORDER BY member_no")))


def member_by_subject(facts: Facts, issuer: str, subject: str) -> MemberMatch | None:
    """The member whom an identity provider knows by this subject, also one who was removed."""
    return _one(facts, "issuer = ? AND subject = ? AND subject <> ''", [issuer, subject])


def member_by_name(facts: Facts, name: str) -> MemberMatch | None:
    """The member who acts by a name, or did."""
    return _one(facts, "name = ?", [name])


def member_by_number(facts: Facts, member_no: int) -> MemberMatch | None:
    """The member of a number."""
    return _one(facts, "member_no = ?", [member_no])


def invitation(facts: Facts, issuer: str, email: str) -> MemberMatch | None:
    """Return the latest invitation of an e-mail address that was not accepted: open, expired or removed."""
    return _one(facts, "issuer = ? AND email = ? AND subject = ''", [issuer, email])


def n_operators(facts: Facts) -> int:
    """Return how many members can sign in and are operators of all learners."""
    return facts.count_of(
        "SELECT count(*) FROM member m JOIN member_role r"
        " ON r.learner_id = m.learner_id AND r.member_no = m.member_no"
        " WHERE m.learner_id = ? AND m.removed_ms = 0 AND m.subject <> '' AND r.learner = '' AND r.role = 'operator'"
    )


def _one(facts: Facts, where: str, values: list[Any]) -> MemberMatch | None:
    rows = facts.rows(f"{_SELECT} AND {where} ORDER BY member_no DESC LIMIT 1", values)
    return next(iter(_members_of(facts, rows)), None)


def _members_of(facts: Facts, rows: Sequence[Row]) -> list[MemberMatch]:
    """Return members by hand: the mapper would take 1.5 times as long, and sessions ask for one at each request."""
    roles: dict[int, list[Grant]] = defaultdict(list)
    for number, learner, role in facts.rows_in(
        "SELECT member_no, learner, role FROM member_role WHERE learner_id = ? AND member_no IN ({})"
        " ORDER BY member_no, learner",
        [number for number, *_ in rows],
    ):
        roles[number].append(Grant(role=role, learner=learner or None))
    return [
        MemberMatch(
            number,
            MemberRow(
                id=f"member-{number}",
                name=name,
                issuer=issuer,
                subject=subject or None,
                email=email,
                roles=tuple(roles[number]),
                by=by,
                at_ms=at_ms,
                invited_until_ms=invited_until_ms or None,
                removed_ms=removed_ms or None,
            ),
            not_before_ms,
        )
        for number, name, issuer, subject, email, by, at_ms, invited_until_ms, removed_ms, not_before_ms in rows
    ]


def is_bridge(facts: Facts, token_no: int) -> bool:
    """Return whether a token is a bridge."""
    return facts.count_of("SELECT is_bridge FROM token WHERE learner_id = ? AND token_no = ?", [token_no]) > 0


def add_sender(txn: Transaction, channel: str, sender: str, member_no: int) -> None:
    """Let a member speak as this sender."""
    txn.add_row(
        "bridge_sender",
        channel=channel,
        sender=sender,
        member_no=member_no,
        by=txn.actor.name,
        at_ms=txn.now_ms,
    )


def remove_sender(txn: Transaction, channel: str, sender: str) -> None:
    """Remove a sender."""
    txn.run(
        "DELETE FROM bridge_sender WHERE learner_id = ? AND channel = ? AND sender = ?", [channel, sender]
    )


def forget_senders(txn: Transaction, member_no: int) -> None:
    """A member is no sender any more, in no channel."""
    txn.run("DELETE FROM bridge_sender WHERE learner_id = ? AND member_no = ?", [member_no])


def member_of_sender(facts: Facts, channel: str, sender: str) -> MemberMatch | None:
    """The member who speaks as a sender."""
    row = facts.row(
        "SELECT member_no FROM bridge_sender WHERE learner_id = ? AND channel = ? AND sender = ?",
        [channel, sender],
    )
    return None if row is None else member_by_number(facts, row[0])


def sender_rows(facts: Facts) -> tuple[SenderRow, ...]:
    """Return every sender, by channel."""
    return _SENDERS.rows(facts, "ORDER BY t.channel, t.sender")


class TokenMatch(NamedTuple):
    """A valid token: who acts by it, and the hour of its last use."""

    actor: Actor
    used_hour: int


def add_token(
    txn: Transaction,
    digest: str,
    name: str,
    *,
    scopes: Sequence[Scope],
    learners: Sequence[str] | None,
    expires_ms: int,
    is_bridge: bool = False,
) -> int:
    """Add a token; return its number. A bridge may name the sender of what it sends."""
    return txn.add_numbered(
        "token",
        digest=digest,
        name=name,
        scopes=msgspec.json.encode(scopes).decode(),
        learners=msgspec.json.encode(learners).decode(),
        member_no=txn.actor.member,
        by=txn.actor.name,
        at_ms=txn.now_ms,
        expires_ms=expires_ms,
        used_hour=-1,
        revoked_ms=0,
        is_bridge=int(is_bridge),
    )


def token_by_digest(facts: Facts, digest: str, now_ms: int) -> TokenMatch | None:
    """The token of a secret with this digest, if it holds: neither revoked nor expired."""
    row = facts.row(
        "SELECT token_no, name, scopes, learners, used_hour, expires_ms, revoked_ms, digest FROM token"
        " WHERE learner_id = ? AND digest = ?",
        [digest],
    )
    if row is None:
        return None
    number, name, scopes, learners, used_hour, expires_ms, revoked_ms, stored = row
    if not hmac.compare_digest(stored, digest) or revoked_ms or now_ms >= expires_ms:
        return None
    return TokenMatch(
        token_actor(number, name, _decode_scopes(scopes), _decode_learners(learners)), used_hour
    )


def token_rows(facts: Facts) -> tuple[TokenRow, ...]:
    """Return all tokens, also ended ones, newest first."""
    return _TOKENS.rows(facts, "ORDER BY token_no DESC")


def token_row(facts: Facts, name: str) -> TokenRow | None:
    """The token of an id (``token-3``) or, if none has it, of a name."""
    return _TOKENS.row(
        facts, "AND (token_no = ? OR name = ?) ORDER BY name = ? LIMIT 1", [_number(name), name, name]
    )


def tokens_of_member(facts: Facts, member_no: int) -> tuple[TokenRow, ...]:
    """Return a member's tokens that are not revoked. Expired ones are included."""
    return _TOKENS.rows(facts, "AND member_no = ? AND revoked_ms = 0 ORDER BY token_no", [member_no])


def revoke_token(txn: Transaction, token_id: str) -> None:
    """Revoke a token for good."""
    txn.set_row(
        "token", "token_no = ? AND revoked_ms = 0", [_number(token_id)], revoked_ms=max(txn.now_ms, 1)
    )


def note_use(txn: Transaction, token_no: int, hour: int) -> None:
    """Note the hour of a use, if it is later than the stored one, or that comes from a clock that ran ahead."""
    where = "token_no = ? AND NOT used_hour BETWEEN ? AND ?"
    txn.set_row("token", where, [token_no, hour, hour + 1], used_hour=hour)


def _number(token_id: str) -> int:
    """
    >>> _number("token-12"), _number("ci")
    (12, -1)
    """
    digits = token_id.removeprefix("token-")
    return (
        int(digits)
        if digits != token_id and digits.isascii() and digits.isdigit() and len(digits) < 19
        else -1
    )
