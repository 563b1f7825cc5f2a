"""Webhooks: added and taken away by operators of all learners; their messages, handed out to whoever sends them.

Taking away is undone by adding again, which brings the same webhook back with what it had not been told yet; adding
is undone by taking away.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from core.errors import NotApplicable, NotFound
from core.flows.alerts import number_of
from core.flows.context import Context
from core.records.alert import (
    MAX_WEBHOOKS,
    PAGES_AT,
    SECRET_FROM,
    Message,
    Sent,
    WebhookRow,
    check_pages,
    check_secret_from,
    check_webhook,
)
from core.settings import check_learner
from core.store.transaction import Facts, Transaction
from core.store.webhooks import (
    due_message,
    put_webhook,
    settle_message,
    take_message,
    take_webhook_away,
    tell,
    webhook_row,
    webhook_rows,
)


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
    pages, secret_from = check_pages(pages), check_secret_from(secret_from)
    place = None if learner is None else check_learner(learner)

    def work(txn: Transaction) -> WebhookRow:
        number = put_webhook(txn, url, place, pages, secret_from, private)
        if len(webhook_rows(txn)) > MAX_WEBHOOKS:
            raise NotApplicable(
                f"There may be {MAX_WEBHOOKS} webhooks, and there are as many.",
                next_step="Take one away first: armscope alert remove ID",
            )
        made = webhook_row(txn, number)
        assert made is not None  # noqa: S101 - it was written just now
        txn.audit("webhook_add", None, {"webhook": made.id, "host": _host(url), "learner": place})
        return made

    return context.govern(work, "alerts")


def remove_webhook(
    context: Context, webhook: Annotated[str, Meta(description="Its id or URL.")]
) -> WebhookRow:
    """Remove a webhook.

    Raises `NotFound` for an unknown webhook.
    """

    def work(txn: Transaction) -> WebhookRow:
        found = _webhook(txn, webhook)
        number = number_of(found.id)
        take_webhook_away(txn, number)
        txn.audit("webhook_remove", None, {"webhook": found.id, "host": _host(found.url)})
        return webhook_row(txn, number) or found

    return context.govern(work, "alerts")


def take_test(context: Context, webhook: str) -> Message:
    """A message that tells nothing, to be sent at once to the webhook of an id or URL; it is tried once."""
    origin = context.identity()

    def work(txn: Transaction) -> Message:
        number = number_of(_webhook(txn, webhook).id)
        taken = take_message(txn, tell(txn, number, 0, "test", origin))
        assert taken is not None  # noqa: S101 - it was written just now
        return taken

    return context.govern(work, "alerts")


def take_due(context: Context, *, but: Collection[str] = ()) -> Message | None:
    """The message that has waited longest, to be sent by whoever gets it and by nobody else; None: there is none.

    ``but`` are webhooks that are left alone for now.
    """
    with context.governing("alerts") as snapshot:
        if _due(snapshot, context.clock(), but) is None:
            return None

    def work(txn: Transaction) -> Message | None:
        number = _due(txn, txn.now_ms, but)
        return None if number is None else take_message(txn, number)

    return context.govern(work, "alerts")


def settle(context: Context, message: Message, sent: Sent) -> None:
    """Note what came of a try: one that failed is made again after a pause, ten times at most."""
    context.govern(lambda txn: settle_message(txn, message, sent.result, ok=sent.ok), "alerts")


def _due(facts: Facts, now_ms: int, but: Collection[str]) -> int | None:
    told = [number_of(one.id) for one in webhook_rows(facts) if one.id not in but]
    return due_message(facts, now_ms, told)


def _webhook(facts: Facts, wanted: str) -> WebhookRow:
    found = next((one for one in webhook_rows(facts) if wanted in {one.id, one.url}), None)
    if found is None:
        raise NotFound(
            "There is no webhook of that id or URL.", next_step="List them with: armscope alert list"
        )
    return found


def _host(url: str) -> str:
    """What the log keeps of a URL: its path may hold a secret."""
    return urlsplit(url).hostname or ""
