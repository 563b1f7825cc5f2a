"""People: who may come in and as what, the tokens of programs, and who did what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program.app import Fields, Format, answer, asked, command, context_of, done, rows_or
from core.doors.cli.program.spelling import words
from core.doors.documents import audit_rows
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.records.actor import SCOPES, PersonRole
from core.records.audit import AuditFilter, DenialPage
from core.records.times import iso
from core.records.token import DEFAULT_DAYS, check_scopes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.records.audit import AuditPage
    from core.records.member import MemberAnswer, MemberRow
    from core.records.token import TokenMade, TokenRow

_IN = typer.Option("--in", metavar="LEARNER", help="In this learner only; else in every one.")
_INS = typer.Option(
    "--in", metavar="LEARNER", help="In this learner only; may be repeated. Else in every one."
)


@command(
    examples=[
        "member list",
        "member add kim --issuer https://id.example.com --subject u-17 --role operator",
        "member add jo --issuer https://id.example.com --email jo@example.com --role reviewer --in support",
        "member role jo operator --in support",
        "member remove jo",
    ],
    words="List who may sign in, let a person in, say what they are, sign them out, or let them in no longer.",
)
def member(
    line: typer.Context,
    action: Annotated[
        Literal["list", "add", "role", "remove", "signout"],
        typer.Argument(help="list, add NAME, role NAME ROLE, remove NAME, or signout NAME."),
    ] = "list",
    name: Annotated[str | None, typer.Argument(help=words("add_member", "name"))] = None,
    new_role: Annotated[
        Literal["viewer", "reviewer", "operator", "none"] | None,
        typer.Argument(metavar="ROLE", help="viewer, reviewer, operator, or none: nothing there."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option("--issuer", metavar="URL", help=words("add_member", "issuer"))
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="ID", help=words("add_member", "subject"))
    ] = None,
    email: Annotated[
        str | None,
        typer.Option("--email", metavar="ADDRESS", help="Invite whoever first comes with it, verified."),
    ] = None,
    role: Annotated[PersonRole, typer.Option("--role", help=words("add_member", "role"))] = "viewer",
    place: Annotated[str | None, _IN] = None,
) -> None:
    """With --subject a person is let in at once; with --email alone they are invited for 7 days."""
    context = context_of(line, create=action == "add", whole=True)
    if action == "list":
        rows: tuple[MemberRow, ...] = verb("members").call(context)
        answer(line, rows, lambda: _say_members(rows))
        return
    if name is None:
        raise typer.BadParameter(f"{action} takes a name, for example: member {action} kim")
    given: Fields
    if action == "add":
        if issuer is None or (subject is None and email is None):
            raise typer.BadParameter("add takes --issuer, and --subject or --email")
        if subject is None:
            assert email is not None  # noqa: S101 - one of the two was given
            asked_for = "invite_member"
            given = {"issuer": issuer, "email": email, "name": name, "role": role, "learner": place}
        else:
            asked_for = "add_member"
            given = {
                "issuer": issuer,
                "subject": subject,
                "name": name,
                "role": role,
                "learner": place,
                "email": email or "",
            }
    elif action == "role":
        if new_role is None:
            raise typer.BadParameter("role takes a name and a role, for example: member role kim reviewer")
        asked_for = "set_role"
        given = {"member": name, "role": None if new_role == "none" else new_role, "learner": place}
    else:
        asked_for = "remove_member" if action == "remove" else "sign_out_member"
        given = {"member": name}
    made: MemberAnswer = verb(asked_for).call(context, **given)
    done(line, made, lambda: say(*_of_member(made)))


def _of_member(made: MemberAnswer) -> list[str]:
    one = made.member
    state = "is no member" if one.removed_ms is not None else _roles(one)
    said = [f"{one.name} ({one.id}): {state}."]
    if one.invited_until_ms is not None:
        said.append(f"Invited until {iso(one.invited_until_ms)}, by {one.email} at {one.issuer}.")
    return [*said, *(f"Revoked: {token}." for token in made.revoked)]


def _roles(one: MemberRow) -> str:
    said = [f"{grant.role} in {grant.learner or 'every learner'}" for grant in one.roles]
    return ", ".join(said) or "no role"


def _say_members(rows: Sequence[MemberRow]) -> None:
    table = [
        (
            one.id,
            one.name,
            _roles(one),
            _state(one),
            one.email,
            one.issuer,
            one.subject or "",
        )
        for one in rows
    ]
    say_table(("member", "name", "role", "state", "e-mail", "issuer", "subject"), table)


def _state(one: MemberRow) -> str:
    if one.removed_ms is not None:
        return f"removed {iso(one.removed_ms)}"
    return "in" if one.invited_until_ms is None else f"invited until {iso(one.invited_until_ms)}"


@command(
    examples=[
        "token create ci --scope ingest --in support",
        "token create export --scope read --scope operate --days 30",
        "token list",
        "token revoke ci",
    ],
    words="Make a token for a program, list tokens, or end one.",
)
def token(
    line: typer.Context,
    action: Annotated[
        Literal["create", "list", "revoke"], typer.Argument(help="create NAME, list, or revoke NAME.")
    ] = "list",
    name: Annotated[str | None, typer.Argument(help=words("create_token", "name"))] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help=f"{', '.join(SCOPES)}; may be repeated."),
    ] = None,
    place: Annotated[list[str] | None, _INS] = None,
    days: Annotated[
        int, typer.Option("--days", metavar="N", help=words("create_token", "days"))
    ] = DEFAULT_DAYS,
    bridge: Annotated[bool, typer.Option("--bridge", help=words("create_token", "bridge"))] = False,
) -> None:
    """The secret is shown once, and stored nowhere."""
    context = context_of(line, create=action == "create", whole=True)
    if action == "list":
        rows: tuple[TokenRow, ...] = verb("tokens").call(context)
        answer(line, rows, lambda: _say_tokens(rows))
        return
    if name is None:
        raise typer.BadParameter(f"{action} takes a name, for example: token {action} ci")
    if action == "revoke":
        ended: TokenRow = verb("revoke_token").call(context, token=name)
        done(line, ended, lambda: say(f"{ended.name} ({ended.id}) is revoked."))
        return
    made: TokenMade = verb("create_token").call(
        context,
        name=name,
        scopes=check_scopes(scope or ()),
        learners=place or None,
        days=days,
        bridge=bridge,
    )
    answer(line, made, lambda: say(*_of_token(made)))


def _of_token(made: TokenMade) -> list[str]:
    one = made.token
    return [
        made.secret,
        f"It is shown this once: {one.name} ({one.id}), {_for(one)}, until {iso(one.expires_ms)}.",
    ]


def _for(one: TokenRow) -> str:
    where = "every learner" if one.learners is None else ", ".join(one.learners)
    return f"{', '.join(one.scopes)} in {where}{', a bridge' if one.is_bridge else ''}"


def _say_tokens(rows: Sequence[TokenRow]) -> None:
    table = [
        (
            one.id,
            one.name,
            _for(one),
            one.by,
            iso(one.used_hour_ms) or "never",
            iso(one.expires_ms) or "",
            iso(one.revoked_ms) or "",
        )
        for one in rows
    ]
    say_table(("token", "name", "for", "by", "last used", "ends", "revoked"), table)


@command(
    examples=[
        "audit",
        "audit --installation",
        "audit --by mara --action reset --since 2026-01-31",
        "audit --denials",
        "audit --all --format csv > audit.csv",
    ],
    words="Who did what: at a learner, or to members and tokens; or what was refused.",
)
def audit(
    line: typer.Context,
    installation: Annotated[
        bool, typer.Option("--installation", help=words("audit", "installation"))
    ] = False,
    denials: Annotated[bool, typer.Option("--denials", help="What was refused, added up by minute.")] = False,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="By one actor.")] = None,
    action: Annotated[str | None, typer.Option("--action", metavar="NAME", help="Of one kind.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From this time on (ISO 8601, UTC).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Before this time (ISO 8601, UTC).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help=words("audit", "limit"))] = 50,
    before: Annotated[
        int | None, typer.Option("--before", metavar="N", help=words("audit", "before"))
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="All of it, whatever --limit says.")] = False,
    format_name: Format = None,
) -> None:
    wanted = AuditFilter(
        actor=by, action=action, since_ms=_moment("--since", since), until_ms=_moment("--until", until)
    )
    context = context_of(line, whole=installation or denials)
    page: AuditPage | DenialPage
    at_most = None if whole else limit
    if denials:
        page = verb("denials").call(context, wanted=wanted, limit=at_most)
    else:
        page = verb("audit").call(
            context, installation=installation, wanted=wanted, before=before, limit=at_most
        )
    if format_name is not None:
        rows_or(line, format_name, audit_rows(page), lambda: None)
    else:
        answer(line, page, lambda: _say_page(page, f"{asked(line).again()} audit"))


def _say_page(page: AuditPage | DenialPage, again: str) -> None:
    if isinstance(page, DenialPage):
        _say_denials(page)
    else:
        _say_audit(page, f"{again} --before {page.next}")


def _moment(option: str, told: str | None) -> int | None:
    if told is None:
        return None
    from core.formats.moments import moment

    at_ms, _ = moment(told)
    if at_ms is None or at_ms < 0:
        raise InvalidInput(
            f"{option} must be a time such as 2026-01-31 or 2026-01-31T08:00:00Z, got {told[:60]!r}.",
            next_step="Write it in ISO 8601.",
        )
    return at_ms


def _say_audit(page: AuditPage, more: str) -> None:
    table = [
        (
            iso(one.at_ms) or "",
            one.actor,
            one.action,
            one.act or "",
            ", ".join(_said(one.detail)),
        )
        for one in page.entries
    ]
    say_table(("time", "who", "did", "id", "what"), table)
    if page.next is not None:
        say(f"Earlier ones: {more}")


def _said(detail: Mapping[str, object]) -> Iterator[str]:
    """What is said of an act; of a role, also that it is none."""
    for name, value in detail.items():
        if name == "role" or value not in {None, ""}:
            yield f"{name} {'none' if value is None else value}"


def _say_denials(page: DenialPage) -> None:
    table = [
        (iso(one.at_ms) or "", one.actor or "(nobody knows who)", one.action, f"{one.n:,}")
        for one in page.denials
    ]
    say_table(("minute", "who", "refused", "times"), table, numbers=(3,))
