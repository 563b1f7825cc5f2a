"""Webhooks: add and remove them, and hand their messages to a sender.

Adding a removed webhook again restores it with its pending messages.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from core.errors import NotApplicable, NotFound
from core.flows.context import Context
from core.records.alert import (
    MAX_WEBHOOKS,
    PAGES_AT,
    SECRET_FROM,
    Message,
    SendResult,
    WebhookRow,
    check_pages,
    check_secret_from,
    check_webhook,
)
from core.records.counts import number_in
from core.settings import base_path, check_learner
from core.store.alerts import (
    due_message,
    put_webhook,
    settle_message,
    take_message,
    take_webhook_away,
    tell,
    webhook_row,
    webhook_rows,
)
from core.store.transaction import Facts, Transaction


def add_webhook(
    context: Context,
    url: Annotated[str, Meta(description="Where to send, by https.")],
    *,
    learner: Annotated[
        str | None, Meta(description="Alerts of this learner only; default: every one, and the installation.")
    ] = None,
    pages: Annotated[str, Meta(description="URL of the pages for its readers.")] = PAGES_AT,
    secret_from: Annotated[
        str, Meta(description="The environment variable that holds its secret.")
    ] = SECRET_FROM,
    private: Annotated[bool, Meta(description="Allow http, and addresses of this network.")] = False,
) -> WebhookRow:
    """Add a webhook, which sends alerts to an address.

    A removed webhook returns under its earlier id. Raises `NotApplicable` where there are 20 already.
    """
    url = check_webhook(url, private=private)
    pages = f"{pages}{base_path()}" if pages == PAGES_AT else pages
    pages, secret_from = check_pages(pages), check_secret_from(secret_from)
    scope = None if learner is None else check_learner(learner)

    def work(txn: Transaction) -> WebhookRow:
        number = put_webhook(txn, url, scope, pages, secret_from, private)
        if len(webhook_rows(txn)) > MAX_WEBHOOKS:
            raise NotApplicable(
                f"There must be at most {MAX_WEBHOOKS} webhooks, got one more.",
                next_step="Remove one first: armscope alert remove ID",
            )
        row = webhook_row(txn, number)
        assert row is not None  # noqa: S101 - it was written just now
        txn.audit("webhook_add", None, {"webhook": row.id, "host": _host(url), "learner": scope})
        return row

    return context.write_admin(work, "alerts")


def remove_webhook(
    context: Context, webhook: Annotated[str, Meta(description="Its id or URL.")]
) -> WebhookRow:
    """Remove a webhook.

    Raises `NotFound` for an unknown webhook.
    """

    def work(txn: Transaction) -> WebhookRow:
        row = _webhook(txn, webhook)
        number = number_in(row.id)
        take_webhook_away(txn, number)
        txn.audit("webhook_remove", None, {"webhook": row.id, "host": _host(row.url)})
        return webhook_row(txn, number) or row

    return context.write_admin(work, "alerts")


def take_test(context: Context, webhook: str) -> Message:
    """Return a test message for the webhook of an id or URL. It is sent at once, and tried only once."""
    origin = context.identity()

    def work(txn: Transaction) -> Message:
        number = number_in(_webhook(txn, webhook).id)
        taken = take_message(txn, tell(txn, number, 0, "test", origin))
        assert taken is not None  # noqa: S101 - it was written just now
        return taken

    return context.write_admin(work, "alerts")


def take_due(context: Context, *, skipped: Collection[str] = ()) -> Message | None:
    """Claim the oldest due message for one sender, or return None.

    ``skipped`` are webhooks that are left alone for now.
    """
    with context.reading_admin("alerts") as snapshot:
        if _due(snapshot, context.clock(), skipped) is None:
            return None

    def work(txn: Transaction) -> Message | None:
        number = _due(txn, txn.now_ms, skipped)
        return None if number is None else take_message(txn, number)

    return context.write_admin(work, "alerts")


def settle(context: Context, message: Message, result: SendResult) -> None:
    """Store the result of an attempt. A failed message is retried after a pause, at most ten times."""
    context.write_admin(lambda txn: settle_message(txn, message, result.result, ok=result.ok), "alerts")


def _due(facts: Facts, now_ms: int, skipped: Collection[str]) -> int | None:
    numbers = [number_in(one.id) for one in webhook_rows(facts) if one.id not in skipped]
    return due_message(facts, now_ms, numbers)


def _webhook(facts: Facts, id_or_url: str) -> WebhookRow:
    row = next((one for one in webhook_rows(facts) if id_or_url in {one.id, one.url}), None)
    if row is None:
        raise NotFound(
            "There is no webhook of that id or URL.", next_step="List them with: armscope alert list"
        )
    return row


def _host(url: str) -> str:
    """Return the part of a URL that the log stores: its path may hold a secret."""
    return urlsplit(url).hostname or ""
