"""Sentences about members: roles, and the effect of a change."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from core.records.actor import Grant
from core.records.member import MemberAnswer, MemberRow, TokenRow
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words, short

EVERY_LEARNER = "Every learner"


def people(rows: Sequence[MemberRow], now_ms: int) -> Sentence:
    """Return how many members there are, and how many operators."""
    members = [one for one in rows if is_in(one)]
    invited = [one for one in rows if is_invited(one, now_ms)]
    if not members and not invited:
        return composed(
            "No member yet; every user of this machine is the operator.",
        )
    n_govern = sum(map(governs, members))
    govern = "none of them" if n_govern == 0 else wording.number_word(n_govern)
    more = f"; {wording.number_word(len(invited))} more {'is' if len(invited) == 1 else 'are'} invited"
    if not members:
        return composed(
            Phrase(wording.things(len(invited), "person", "people")),
            " invited; no one has signed in yet.",
        )
    return composed(
        Phrase(wording.things(len(members), "person", "people")),
        f" may sign in, {govern} as operator of all learners{more if invited else ''}.",
    )


def is_in(one: MemberRow) -> bool:
    """Return whether they are a member who has signed in."""
    return one.removed_ms is None and one.subject is not None


def is_invited(one: MemberRow, now_ms: int) -> bool:
    """Return whether their invitation is still open."""
    return one.removed_ms is None and one.subject is None and now_ms < (one.invited_until_ms or 0)


def is_there(one: MemberRow, now_ms: int) -> bool:
    """Return whether they are a member or invited."""
    return is_in(one) or is_invited(one, now_ms)


def governs(one: MemberRow) -> bool:
    """Return whether they are an operator of all learners who can sign in."""
    return is_in(one) and Grant(role="operator") in one.roles


def roles(grants: Collection[Grant]) -> str:
    """Return roles as plain text.

    >>> roles([Grant(role="operator"), Grant(role="viewer", learner="support")])
    'operator everywhere, viewer in support'
    """
    return ", ".join(_grant(one) for one in grants) or "no role"


def _grant(one: Grant) -> str:
    where = "everywhere" if one.learner is None else f"in {wording.plain(one.learner)}"
    return f"{one.role} {where}"


def state(one: MemberRow, rows: Sequence[MemberRow], now_ms: int) -> str:
    """Return their state as plain text; the last operator is marked."""
    if one.removed_ms is not None:
        return f"removed {wording.day(one.removed_ms, year_of_ms=now_ms)}"
    if one.subject is None:
        until = wording.day(one.invited_until_ms, year_of_ms=now_ms)
        return f"invited until {until}" if is_invited(one, now_ms) else "invitation is over"
    is_last = [one] == [other for other in rows if governs(other)]
    return "may sign in, the last operator" if is_last else "may sign in"


def effects(was: MemberRow | None, now: MemberRow) -> list[Markdown]:
    """Return the effects on a member, as Markdown: a paragraph for each change."""
    who = f"**{short(now.name)}**"
    if now.removed_ms is not None:
        return [
            f"{who} can no longer sign in, from the next request on. All their sessions end.",
            Words("Their acts stay, under their name. One click adds them again."),
        ]
    parts: list[Markdown] = []
    if was is None or was.removed_ms is not None or was.invited_until_ms != now.invited_until_ms:
        parts.append(_let_in(who, now))
    before = () if was is None or was.removed_ms is not None else was.roles
    if tuple(before) != now.roles:
        change = f"{short(roles(before))} → " if before else ""
        parts.append(f"Roles: {change}**{wording.literal(roles(now.roles))}**.")
    return parts


def _let_in(who: Markdown, now: MemberRow) -> Markdown:
    issuer = short(now.issuer)
    if now.subject is None:
        until = wording.minute(now.invited_until_ms)
        return (
            f"The first person to sign in at {issuer} with the verified address {short(now.email)} is {who}: once, "
            f"and until {until} UTC. armscope sends no invitation; send it yourself."
        )
    return f"The person that {issuer} knows as {short(now.subject)} may sign in at once, and acts as {who}."


def sessions_end(who: str) -> Markdown:
    """Return the effect of ending a person's sessions, as Markdown."""
    return (
        f"Every session of **{short(who)}** ends with the next request, also one whose cookie was copied. They may "
        "sign in again."
    )


def ended_tokens(answer: MemberAnswer, tokens: Sequence[TokenRow]) -> Markdown:
    """Return the tokens that would end with a change, by name and number, in Markdown."""
    names = {one.id: one.name for one in tokens}
    return wording.listed(
        [f"{short(names.get(one, one))} ({wording.literal(one)})" for one in answer.revoked]
    )


def done(was: MemberRow | None, answer: MemberAnswer) -> Markdown:
    """Return the change of a member, as Markdown."""
    now = answer.member
    who = f"**{short(now.name)}**"
    ended = f" {wording.things(len(answer.revoked), 'token')} of theirs ended." if answer.revoked else ""
    if now.removed_ms is not None:
        return f"{who} was removed.{ended}"
    if now.subject is None and (was is None or was.invited_until_ms != now.invited_until_ms):
        return f"{who} is invited as {wording.literal(roles(now.roles))}."
    return f"{who} is {wording.literal(roles(now.roles))}.{ended}"
