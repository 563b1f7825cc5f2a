"""Alerts: who is told when something is wrong, what was told, and a look by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program.app import answer, command, context_of, done
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.alert import PAGES_AT, SECRET_FROM, Sent
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.doors.alerting import LookedAndSent
    from core.records.alert import AlertRow, AlertsSeen, WebhookRow


@command(
    examples=[
        "alert list",
        "alert add https://hooks.example/armscope",
        "alert add http://127.0.0.1:9000/ --private --in support --pages https://desk.example",
        "alert test webhook-1",
        "alert look",
        "alert remove webhook-1",
    ],
    words="List alerts and who is told of them, tell an address, test it, look now, or tell it no more.",
)
def alert(
    line: typer.Context,
    action: Annotated[
        Literal["list", "add", "test", "look", "remove"],
        typer.Argument(help="list, add URL, test ID, look, or remove ID."),
    ] = "list",
    webhook: Annotated[str | None, typer.Argument(metavar="URL|ID", help="A webhook.")] = None,
    place: Annotated[
        str | None, typer.Option("--in", metavar="LEARNER", help=words("add_webhook", "learner"))
    ] = None,
    pages: Annotated[
        str, typer.Option("--pages", metavar="URL", help=words("add_webhook", "pages"))
    ] = PAGES_AT,
    secret_from: Annotated[
        str, typer.Option("--secret-from", metavar="VARIABLE", help=words("add_webhook", "secret_from"))
    ] = SECRET_FROM,
    private: Annotated[bool, typer.Option("--private", help=words("add_webhook", "private"))] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help=words("alerts", "limit"))] = 50,
) -> None:
    """`serve` and `api` look every minute, and sign what they send with the secret in ARMSCOPE_WEBHOOK_SECRET."""
    context = context_of(line, create=action == "add", whole=True)
    if action == "list":
        seen: AlertsSeen = verb("alerts").call(context, limit=limit)
        answer(line, seen, lambda: _say_seen(seen))
        return
    if action == "look":
        from core.doors.alerting import look_and_send

        looked = look_and_send(context)
        done(line, looked, lambda: say(*_of_look(looked)))
        return
    if webhook is None:
        raise typer.BadParameter(f"{action} takes a webhook, for example: alert {action} webhook-1")
    if action == "test":
        from core.doors.alerting import send_test

        sent = send_test(context, webhook)
        answer(line, sent, lambda: say(_of_try(sent)))
        if not sent.ok:
            raise typer.Exit(1)
        return
    made: WebhookRow
    if action == "add":
        made = verb("add_webhook").call(
            context, url=webhook, learner=place, pages=pages, secret_from=secret_from, private=private
        )
        told = f"{made.id} is told of alerts {_about(made)}. Try it: armscope alert test {made.id}"
    else:
        made = verb("remove_webhook").call(context, webhook=webhook)
        told = f"{made.id} is told nothing any more; alert add with its URL brings it back."
    done(line, made, lambda: say(told))


def _about(one: WebhookRow) -> str:
    return "of every learner" if one.learner is None else f"of {one.learner}"


def _of_try(sent: Sent) -> str:
    return f"{sent.webhook} {'took' if sent.ok else 'did not take'} {sent.message}: {sent.result}."


def _of_look(both: LookedAndSent) -> list[str]:
    told = [
        f"Raised: {', '.join(both.raised) or 'nothing'}; cleared: {', '.join(both.cleared) or 'nothing'}."
    ]
    return told + [_of_try(sent) for sent in both.sent]


def _say_seen(seen: AlertsSeen) -> None:
    if not seen.webhooks:
        say("Nobody is told, so nothing is looked for: armscope alert add URL")
    else:
        say_table(
            ("webhook", "URL", "about", "last tried", "result", "waiting", "given up"),
            [_webhook(one) for one in seen.webhooks],
            numbers=(5, 6),
        )
    if seen.alerts:
        say_table(
            ("alert", "kind", "learner", "object", "count", "raised", "cleared"),
            _alerts(seen.alerts),
            numbers=(4,),
        )


def _webhook(one: WebhookRow) -> tuple[str, ...]:
    return (
        one.id,
        one.url,
        one.learner or "everything",
        iso(one.last_ms) or "never",
        one.last_result or "",
        f"{one.n_waiting:,}",
        f"{one.n_given_up:,}",
    )


def _alerts(rows: Sequence[AlertRow]) -> list[tuple[str, ...]]:
    return [
        (
            one.id,
            one.kind,
            one.learner,
            one.object,
            f"{one.count:,}",
            iso(one.raised_ms) or "",
            iso(one.cleared_ms) or "",
        )
        for one in rows
    ]
