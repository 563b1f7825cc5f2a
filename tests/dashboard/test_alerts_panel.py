"""The page of alerts: added, tried, removed and brought back by who governs all learners."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.doors.alerting import deliver
from core.flows.alerts import alerts, look
from core.flows.context import Context
from core.maths.statistics.overview import AttentionKind
from core.records.actor import Actor, Role
from core.records.alert import ALERT_KINDS, Alarm, AlertRow, page_url
from dashboard.pages import PAGES
from dashboard.sentences import alerts as said
from dashboard.widgets import address
from dashboard.widgets.findings import KINDS
from tests.dashboard.conftest import Open, check, heads, is_text_only, texts
from tests.dashboard.worlds import keys, world
from tests.doors.test_webhook import SECRET, failing, receiving

HOSTILE_URL = "https://hooks.example/%3Cscript%3E:material/home:/**x**/[a](javascript:b)"


@pytest.fixture
def context(database: Path) -> Context:
    return world(database, keys(5), 12)


def press(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    check(page)
    return page


def add(page: AppTest, url: str, *, private: bool = True) -> AppTest:
    page.text_input(key="webhook url").set_value(url)
    page.checkbox(key="webhook private").set_value(private)
    return press(page, "add webhook")


def test_where_each_is_seen_is_where_the_overview_leads() -> None:
    """One table in core, which knows no pages, and one here."""
    shared: dict[str, AttentionKind] = {kind: kind for kind in KINDS}
    names = {page.name for page in PAGES}
    for kind in ALERT_KINDS:
        row = AlertRow(
            id="alert-1", kind=kind, learner="a b&c", object="queue-1", count=1, ids=(), raised_ms=0
        )
        path, _, query = (
            page_url("https://desk.example", row).removeprefix("https://desk.example/").partition("?")
        )
        assert path in names
        assert query.startswith("learner=a%20b%26c")
        if kind in shared:
            assert path == "evidence"
            assert query.endswith(f"&{address.FINDING}={kind}&{address.FINDING_OF}=queue-1")
        assert said.WHAT[kind]


def test_an_address_is_told_tried_removed_and_told_again(
    context: Context, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET", SECRET)
    page = open_page("alerts")
    assert "Alerts" in heads(page)
    assert "No webhook receives" in page.title[0].value
    with receiving() as (port, received):
        add(page, f"http://127.0.0.1:{port}/hook")
        (made,) = alerts(context).webhooks
        assert (made.private, made.learner) == (True, None)
        assert page.text_input(key="webhook url").value == ""
        press(page, "test webhook-1")
        assert len(received) == 1
        assert any("taken (204)" in text for text in texts(page))
        press(page, "remove webhook-1")
        assert alerts(context).webhooks == ()
        press(page, "bring back webhook-1")
        assert [one.id for one in alerts(context).webhooks] == ["webhook-1"]
        assert "bring back webhook-1" not in {one.key for one in page.button}
        look(context, find=lambda _: [Alarm(learner="default", kind="poisoned", object="tool", count=3)])
        deliver(context)
        assert len(received) == 2
    page.run()
    (table,) = [one for one in page.dataframe if "what" in one.value.columns]
    assert list(table.value["what"]) == ["arms look poisoned: tool"]
    assert list(table.value["how much"]) == ["3 arms"]
    context.store.close()


def test_what_goes_wrong_is_said_beside_it(
    context: Context, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARMSCOPE_WEBHOOK_SECRET", raising=False)
    page = open_page("alerts")
    add(page, "hooks.example")
    assert any("No webhook was added" in text for text in texts(page))
    assert page.text_input(key="webhook url").value == "hooks.example", "what was typed stays"
    add(page, HOSTILE_URL, private=False)
    assert any("has no secret in" in text for text in texts(page))
    assert is_text_only(page)
    press(page, "test webhook-1")
    assert any("the server has no secret" in text for text in texts(page))
    monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET", SECRET)
    with receiving(failing) as (port, _):
        add(page, f"http://127.0.0.1:{port}/")
        press(page, "test webhook-2")
    assert any("refused (500)" in text for text in texts(page))
    assert SECRET not in repr(texts(page))
    context.store.close()


@pytest.mark.parametrize("role", ["viewer", "reviewer"])
def test_nobody_else_sees_them(
    role: Role, context: Context, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="jo", role=role))
    with pytest.raises(ValueError, match="registered"):
        open_page("alerts")
    assert "Alerts have" not in "".join(link.proto.label for link in open_page("settings").get("page_link"))
    context.store.close()
