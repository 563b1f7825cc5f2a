"""Page of alerts: webhooks with their state and a test, a field for another, and the latest alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.doors.webhook import has_secret
from core.explained import people
from core.records.alert import AlertRow, WebhookRow
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.sentences import alerts as sentences
from dashboard.widgets.parts import muted, panel, section, sentence, small
from dashboard.widgets.results import result
from dashboard.widgets.tables import record_table

_URL: Final = "webhook url"
_PRIVATE: Final = "webhook private"
_GONE: Final = "armscope webhook removed"
_URL_CHARS: Final = 60
_PHONE: Final = {"kind": 200, "state": 140}


def webhooks(rows: Sequence[WebhookRow]) -> None:
    """Draw webhooks with their last result, and a field for another."""
    section("Webhooks", "for alarms of any learner")
    for one in rows:
        _webhook(one)
    _removed(rows)
    _field()


def latest(rows: Sequence[AlertRow]) -> None:
    """Draw the latest alerts."""
    section("Alerts", "newest first")
    if not rows:
        muted("No alert yet. Alarms are looked for while a webhook is here.")
        return
    year = reading().frame.last_at_ms
    shown = people.ALERTS.only("raised", "kind", "count", "learner", "state").but(
        kind=sentences.condition,
        count=sentences.size,
        state=lambda one: sentences.state(one, year_of_ms=year),
    )
    alt = "The latest alerts, newest first"
    record_table(shown, rows, key="alerts", alt=alt, phone=_PHONE, year_of_ms=year)


def _webhook(one: WebhookRow) -> None:
    how = sentences.webhook(
        one, has_secret=has_secret(one.secret_from), year_of_ms=reading().frame.last_at_ms
    )
    key = f"webhook {one.id}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=key):
        with st.container(gap=None):
            # As text, which copies as it is: what breaks links up in Markdown would be copied with it.
            st.text(wording.plain(wording.cut_middle(one.url, _URL_CHARS)))
            st.markdown(small(how))
        st.button("Test", type="tertiary", key=f"test {one.id}", on_click=actions.try_webhook, args=(one.id,))
        st.button("Remove", type="tertiary", key=f"remove {one.id}", on_click=_remove, args=(one,))


def _remove(one: WebhookRow) -> None:
    if actions.remove_webhook(one.id):
        st.session_state[_GONE] = one


def _removed(webhooks: Sequence[WebhookRow]) -> None:
    """Draw the way back for the last that was removed here."""
    gone: WebhookRow | None = st.session_state.get(_GONE)
    if gone is None or gone.id in {one.id for one in webhooks}:
        return
    url = wording.short(gone.url, _URL_CHARS)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        muted(f"{url} no longer receives alerts.")
        st.button(
            "Undo", type="tertiary", key=f"bring back {gone.id}", on_click=actions.bring_back, args=(gone,)
        )


def _field() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.text_input(
            "Webhook’s URL", key=_URL, placeholder="https://hooks.example/armscope", max_chars=2_000
        )
        st.checkbox(
            "In this network", key=_PRIVATE, help="Allow http, and addresses that only this network reaches."
        )
        st.button("Add", key="add webhook", on_click=_add, width="content")
    result("webhook")


def _add() -> None:
    """Send what the fields hold now; links lead to where this page was opened."""
    url = str(st.session_state.get(_URL) or "").strip()
    if actions.add_webhook(url, private=bool(st.session_state.get(_PRIVATE)), opened_at=st.context.url):
        st.session_state[_URL] = ""
        st.session_state[_PRIVATE] = False


def page() -> None:
    view = queries.alerts()
    sentence(sentences.alerts(view), reading().tokens)
    muted(
        "Notified are poisoned arms, a selection that costs more, overdue queues, hacked rewards, silence and many "
        "refusals. A message holds ids and counts, no texts."
    )
    st.space("xsmall")
    with panel("Webhooks", still="the other panels still work"):
        webhooks(view.webhooks)
    st.space("small")
    with panel("Alerts", still="the form still works"):
        latest(view.alerts)


page()
