"""People: members and their roles, tokens of programs, senders of chats, the audit trail, alerts and webhooks."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from core.doors.cli.program.app import (
    Fields,
    Format,
    answer,
    command,
    context_of,
    done,
    global_options,
    group,
    reads,
    rows_or,
    writes,
)
from core.doors.cli.program.spelling import words
from core.doors.documents import audit_rows
from core.doors.terminal import say, say_table
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.explained import people
from core.records.actor import SCOPES
from core.records.audit import AuditFilter, DenialPage
from core.records.member import check_scopes
from core.records.times import iso

if TYPE_CHECKING:
    from core.doors.alerting import CheckResult
    from core.records.alert import AlertsView, SendResult, WebhookRow
    from core.records.audit import AuditPage
    from core.records.member import MemberAnswer, NewToken, SenderRow, TokenRow

_IN = typer.Option("--in", metavar="LEARNER", help="In this learner only; else in every one.")
_INS = typer.Option(
    "--in", metavar="LEARNER", help="In this learner only; may be repeated. Else in every one."
)
MEMBERS = group("member", words="List who may sign in, or add, change, sign out or remove a member.")
TOKENS = group("token", words="List the tokens of programs, or create or revoke one.")
REVOKED = "{name} ({id}) is revoked."
SHOWN_ONCE = "It is shown this once: {name} ({id}), {use}, until {until}."
Name = Annotated[str, typer.Argument(help=words("add_member", "name"))]
InLearner = Annotated[str | None, _IN]
_MARK: Final = re.compile(r"[0-9]{1,7}$|[0-9]+:[0-9a-f]")
"""Start of a position in the audit; other values of ``--since`` are times."""
CHANNELS = group("channel", words="List who is who in a chat, or add or remove a sender.")
SENDER_ADDED = "{member} is {sender} in {channel} (take it back: {back})."
SENDER_REMOVED = "{member} is {sender} in {channel} no more (take it back: {back})."
ALERTS = group("alert", words="List alerts and webhooks, or add, test, remove a webhook.")
NO_WEBHOOK = "No webhook receives alerts, so nothing is checked. Add one: armscope alert add URL"
WEBHOOK_ADDED = "{id} receives alerts {about}. Try it: armscope alert test {id}"
WEBHOOK_REMOVED = "{id} receives no more alerts. To restore it, run alert add with its URL."
WebhookId = Annotated[str, typer.Argument(metavar="ID", help=words("remove_webhook", "webhook"))]


reads("list", inside=MEMBERS, takes="members", examples=["member", "member list --json"])(people.MEMBERS)


@command(
    "add",
    inside=MEMBERS,
    words="Let a person sign in, or invite one.",
    takes="add_member",
    options={"issuer": typer.Option("--issuer", metavar="URL"), "email": "ADDRESS"},
    examples=[
        "member add kim --issuer https://id.example.com --subject u-17 --role operator",
        "member add jo --issuer https://id.example.com --email jo@example.com --role reviewer --in support",
    ],
)
def add_member(
    line: typer.Context,
    *,
    values: Fields,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="ID", help=words("add_member", "subject"))
    ] = None,
    learner_name: InLearner = None,
) -> None:
    """With --subject a person is let in at once; with --email alone they are invited for 7 days."""
    context = context_of(line, create=True, whole=True)
    values["learner"] = learner_name
    if subject is not None:
        _say_member(line, Verbs.add_member.call(context, subject=subject, **values))
    elif values["email"]:
        _say_member(line, Verbs.invite_member.call(context, **values))
    else:
        raise typer.BadParameter("add takes --issuer, and --subject or --email")


@command("role", inside=MEMBERS, takes="set_role", examples=["member role jo operator --in support"])
def set_role(
    line: typer.Context,
    name: Name,
    role: Annotated[
        Literal["viewer", "reviewer", "operator", "none"],
        typer.Argument(metavar="ROLE", help="viewer, reviewer or operator; none removes the role."),
    ],
    learner_name: InLearner = None,
) -> None:
    new_role = None if role == "none" else role
    context = context_of(line, whole=True)
    _say_member(line, Verbs.set_role.call(context, member=name, role=new_role, learner=learner_name))


def _say_member(line: typer.Context, answered: MemberAnswer) -> None:
    done(line, answered, lambda: say(*_member_words(answered)))


@writes("remove", inside=MEMBERS, takes="remove_member", examples=["member remove jo"])
@writes("signout", inside=MEMBERS, takes="sign_out_member", examples=["member signout jo"])
def _member_words(answered: MemberAnswer) -> list[str]:
    one = answered.member
    state = "is no member" if one.removed_ms is not None else people.roles(one)
    lines = [f"{one.name} ({one.id}): {state}."]
    if one.invited_until_ms is not None:
        lines.append(f"Invited until {iso(one.invited_until_ms)}, by {one.email} at {one.issuer}.")
    return [*lines, *(f"Revoked: {token}." for token in answered.revoked)]


reads("list", inside=TOKENS, takes="tokens", examples=["token", "token list"])(people.TOKENS)


@command(
    "create",
    inside=TOKENS,
    takes="create_token",
    examples=[
        "token create ci --scope ingest --in support",
        "token create export --scope read --scope operate --days 30",
    ],
    options={"days": "N"},
    omit=("scopes", "learners"),
)
def create_token(
    line: typer.Context,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help=f"{', '.join(SCOPES)}; may be repeated."),
    ] = None,
    learner_names: Annotated[list[str] | None, _INS] = None,
    *,
    values: Fields,
) -> None:
    """The secret is shown once, and stored nowhere."""
    created: NewToken = Verbs.create_token.call(
        context_of(line, create=True, whole=True),
        scopes=check_scopes(scope or ()),
        learners=learner_names or None,
        **values,
    )
    one = created.token
    words = SHOWN_ONCE.format(name=one.name, id=one.id, use=people.token_use(one), until=iso(one.expires_ms))
    answer(line, created, lambda: say(created.secret, words))


@writes("revoke", inside=TOKENS, takes="revoke_token", examples=["token revoke ci"])
def _revoked(one: TokenRow) -> str:
    return REVOKED.format(name=one.name, id=one.id)


@command(
    examples=[
        "audit",
        "audit --installation",
        "audit --by mara --action reset --since 2026-01-31",
        "audit --since 0 --limit 1000 --format csv",
        "audit --denials",
        "audit --all --format csv > audit.csv",
    ],
    words="List who did what at a learner, to members and to tokens, or what was refused.",
    options={"before": "N"},
    omit=("wanted",),
)
def audit(
    line: typer.Context,
    denials: Annotated[bool, typer.Option("--denials", help="What was refused, added up by minute.")] = False,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="By one actor.")] = None,
    action: Annotated[str | None, typer.Option("--action", metavar="NAME", help="Of one kind.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME|MARK",
            help="From this time on (ISO 8601, UTC); or after 0, an entry's mark, or a head, oldest first.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Before this time (ISO 8601, UTC).")
    ] = None,
    whole: Annotated[bool, typer.Option("--all", help="All entries, without a limit.")] = False,
    format_name: Format = None,
    *,
    values: Fields,
) -> None:
    installation, before, limit = (values[name] for name in ("installation", "before", "limit"))
    mark = since if since is not None and _MARK.match(since) and not denials else None
    audit_filter = AuditFilter(
        actor=by,
        action=action,
        since_ms=None if mark is not None else _utc_ms("--since", since),
        until_ms=_utc_ms("--until", until),
    )
    context = context_of(line, whole=installation or denials)
    page: AuditPage | DenialPage
    at_most = None if whole else limit
    if denials:
        page = Verbs.denials.call(context, wanted=audit_filter, limit=at_most)
    else:
        page = Verbs.audit.call(
            context, installation=installation, wanted=audit_filter, before=before, since=mark, limit=at_most
        )
    if format_name is not None:
        rows_or(line, format_name, audit_rows(page), lambda: None)
    else:
        again = f"{global_options(line).again()} audit{' --installation' if installation else ''}"
        answer(line, page, lambda: _say_page(page, again, is_onward=mark is not None))


def _say_page(page: AuditPage | DenialPage, again: str, *, is_onward: bool) -> None:
    if isinstance(page, DenialPage):
        say_table(people.DENIALS, page.denials)
        return
    say_table(people.AUDIT, page.entries)
    if page.next is not None:
        more = f"Later ones: {again} --since {page.entries[-1].mark}"
        say(more if is_onward else f"Earlier ones: {again} --before {page.next}")


def _utc_ms(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    from core.formats.strict import utc_ms_of

    at_ms, _ = utc_ms_of(text)
    if at_ms is None or at_ms < 0:
        raise InvalidInput(
            f"{option} must be a time such as 2026-01-31 or 2026-01-31T08:00:00Z, got {text[:60]!r}.",
            next_step="Write it in ISO 8601.",
        )
    return at_ms


@reads("list", inside=CHANNELS, takes="senders", examples=["channel", "channel list"])
def _say_senders(rows: tuple[SenderRow, ...]) -> None:
    """A bridge is a token made with --bridge. It gets no answer for a sender who is no member."""
    say_table(people.SENDERS, rows)


@command("add", inside=CHANNELS, takes="add_sender", examples=["channel add slack U017 kim"])
def add_sender(
    line: typer.Context,
    channel: Annotated[str, typer.Argument(help=words("add_sender", "channel"))],
    sender: Annotated[str, typer.Argument(help=words("add_sender", "sender"))],
    member: Annotated[str, typer.Argument(help=words("add_sender", "member"))],
) -> None:
    context = context_of(line, whole=True)
    row: SenderRow = Verbs.add_sender.call(context, member=member, channel=channel, sender=sender)
    back = shlex.join(["armscope", "channel", "remove", channel, sender])
    text = SENDER_ADDED.format(member=row.member, sender=sender, channel=channel, back=back)
    done(line, row, lambda: say(text))


@writes("remove", inside=CHANNELS, takes="remove_sender", examples=["channel remove slack U017"])
def _sender_removed(row: SenderRow) -> str:
    back = shlex.join(["armscope", "channel", "add", row.channel, row.sender, row.member])
    return SENDER_REMOVED.format(member=row.member, sender=row.sender, channel=row.channel, back=back)


@command("test", inside=ALERTS, words="Send a test message to a webhook.", examples=["alert test webhook-1"])
def test_webhook(line: typer.Context, webhook: WebhookId) -> None:
    from core.doors.alerting import send_test

    result = send_test(context_of(line, whole=True), webhook)
    answer(line, result, lambda: say(_result_words(result)))
    if not result.ok:
        raise typer.Exit(1)


@command(
    "look", inside=ALERTS, words="Check all learners now, and send what is due.", examples=["alert look"]
)
def check_now(line: typer.Context) -> None:
    from core.doors.alerting import look_and_send

    looked = look_and_send(context_of(line, whole=True))
    done(line, looked, lambda: say(*_look_words(looked)))


def _result_words(one: SendResult) -> str:
    return f"{one.webhook} {'took' if one.ok else 'did not take'} {one.message}: {one.result}."


def _look_words(both: CheckResult) -> list[str]:
    lines = [
        f"Raised: {', '.join(both.raised) or 'nothing'}; cleared: {', '.join(both.cleared) or 'nothing'}."
    ]
    return lines + [_result_words(one) for one in both.sent]


@reads("list", inside=ALERTS, takes="alerts", examples=["alert", "alert list --limit 10"])
def _say_view(view: AlertsView) -> None:
    if not view.webhooks:
        say(NO_WEBHOOK)
    else:
        say_table(people.WEBHOOKS, view.webhooks)
    if view.alerts:
        say_table(people.ALERTS, view.alerts)


@command(
    "add",
    inside=ALERTS,
    takes="add_webhook",
    examples=[
        "alert add https://hooks.example/armscope",
        "alert add http://127.0.0.1:9000/ --private --in support --pages https://armscope.example",
    ],
    options={"url": "URL", "pages": "URL", "secret_from": "VARIABLE"},
)
def add_webhook(
    line: typer.Context,
    values: Fields,
    about: Annotated[
        str | None, typer.Option("--in", metavar="LEARNER", help=words("add_webhook", "learner"))
    ] = None,
) -> None:
    """`serve` and `api` check every minute. They sign requests with the secret in ARMSCOPE_WEBHOOK_SECRET."""
    row: WebhookRow = Verbs.add_webhook.call(
        context_of(line, create=True, whole=True), learner=about, **values
    )
    where = "of every learner" if row.learner is None else f"of {row.learner}"
    done(line, row, lambda: say(WEBHOOK_ADDED.format(id=row.id, about=where)))


@writes(
    "remove",
    inside=ALERTS,
    takes="remove_webhook",
    examples=["alert remove webhook-1"],
    options={"webhook": "ID"},
)
def _webhook_removed(one: WebhookRow) -> str:
    return WEBHOOK_REMOVED.format(id=one.id)
