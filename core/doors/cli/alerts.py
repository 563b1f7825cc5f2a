"""Alerts: webhooks that receive them, alerts so far, and a check by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import Fields, answer, command, context_of, done, group
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.doors.alerting import CheckResult
    from core.records.alert import AlertRow, AlertsView, SendResult, WebhookRow


ALERTS = group("alert", words="List alerts and webhooks, or add, test, remove a webhook.")
NO_WEBHOOK = "No webhook receives alerts, so nothing is checked. Add one: armscope alert add URL"
ADDED = "{id} receives alerts {about}. Try it: armscope alert test {id}"
REMOVED = "{id} receives no more alerts. To restore it, run alert add with its URL."
Id = Annotated[str, typer.Argument(metavar="ID", help=words("remove_webhook", "webhook"))]


@command("list", inside=ALERTS, takes="alerts", examples=["alert", "alert list --limit 10"])
def list_alerts(
    line: typer.Context,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help=words("alerts", "limit"))] = 50,
) -> None:
    view: AlertsView = verb("alerts").call(context_of(line, whole=True), limit=limit)
    answer(line, view, lambda: _say_view(view))


@command(
    "add",
    inside=ALERTS,
    takes="add_webhook",
    examples=[
        "alert add https://hooks.example/armscope",
        "alert add http://127.0.0.1:9000/ --private --in support --pages https://armscope.example",
    ],
    options={
        "url": typer.Argument(metavar="URL"),
        "pages": typer.Option("--pages", metavar="URL"),
        "secret_from": typer.Option("--secret-from", metavar="VARIABLE"),
        "private": typer.Option("--private"),
    },
)
def add_webhook(
    line: typer.Context,
    values: Fields,
    about: Annotated[
        str | None, typer.Option("--in", metavar="LEARNER", help=words("add_webhook", "learner"))
    ] = None,
) -> None:
    """`serve` and `api` check every minute. They sign requests with the secret in ARMSCOPE_WEBHOOK_SECRET."""
    row: WebhookRow = verb("add_webhook").call(
        context_of(line, create=True, whole=True), learner=about, **values
    )
    done(line, row, lambda: say(ADDED.format(id=row.id, about=_about(row))))


@command("test", inside=ALERTS, words="Send a test message to a webhook.", examples=["alert test webhook-1"])
def test_webhook(line: typer.Context, webhook: Id) -> None:
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


@command("remove", inside=ALERTS, takes="remove_webhook", examples=["alert remove webhook-1"])
def remove_webhook(line: typer.Context, webhook: Id) -> None:
    row: WebhookRow = verb("remove_webhook").call(context_of(line, whole=True), webhook=webhook)
    done(line, row, lambda: say(REMOVED.format(id=row.id)))


def _about(one: WebhookRow) -> str:
    return "of every learner" if one.learner is None else f"of {one.learner}"


def _result_words(one: SendResult) -> str:
    return f"{one.webhook} {'took' if one.ok else 'did not take'} {one.message}: {one.result}."


def _look_words(both: CheckResult) -> list[str]:
    lines = [
        f"Raised: {', '.join(both.raised) or 'nothing'}; cleared: {', '.join(both.cleared) or 'nothing'}."
    ]
    return lines + [_result_words(one) for one in both.sent]


def _say_view(view: AlertsView) -> None:
    if not view.webhooks:
        say(NO_WEBHOOK)
    else:
        say_table(
            ("webhook", "URL", "about", "last tried", "result", "waiting", "given up"),
            [_webhook(one) for one in view.webhooks],
            numbers=(5, 6),
        )
    if view.alerts:
        say_table(
            ("alert", "kind", "learner", "object", "count", "raised", "cleared"),
            _alerts(view.alerts),
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
