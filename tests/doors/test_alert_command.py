"""The command `alert`: an address added, tried, told by a look by hand, listed and removed."""

from __future__ import annotations

import re
from pathlib import Path

from core.flows.context import utc_now_ms
from core.flows.identity import note_denied
from core.store.store import Store
from tests.doors.test_cli import Shell, document, shell
from tests.doors.test_webhook import SECRET, failing, receiving, secret

__all__ = ["secret", "shell"]


def test_from_the_first_address_to_the_last_message(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell("alert")
    assert (code, "No webhook receives alerts" in out) == (0, True)
    with receiving() as (port, received):
        made = document(shell("alert", "add", f"http://127.0.0.1:{port}/", "--private", "--json"))
        assert (made["id"], made["learner"], made["private"]) == ("webhook-1", None, True)
        sent = document(shell("alert", "test", "webhook-1", "--json"))
        assert (sent["result"], sent["ok"]) == ("204", True)
        store = Store(tmp_path / "a.db")
        for _ in range(20):
            note_denied(store, None, "identify", utc_now_ms())
        store.refusals.flush(store)
        store.close()
        looked = document(shell("alert", "look", "--json"))
        assert (looked["raised"], len(looked["sent"]), len(received)) == (["alert-1"], 1, 2)
        code, out, _ = shell("alert", "look")
        assert (code, "Raised: nothing; cleared: nothing." in out) == (0, True)
    code, out, _ = shell("alert", "list")
    assert re.search(r"webhook-1\s+http://127\.0\.0\.1:\d+/\s+everything\s+\S+\s+204\s+0\s+0", out)
    assert re.search(r"alert-1\s+\S+\s+denials\s+20", out)
    gone = document(shell("alert", "remove", "webhook-1", "--json"))
    assert gone["removed_ms"] is not None
    assert document(shell("alert", "list", "--json"))["webhooks"] == []


def test_what_fails_says_so_and_ends_with_one(shell: Shell) -> None:
    with receiving(failing) as (port, _):
        assert shell("alert", "add", f"http://127.0.0.1:{port}/", "--private")[0] == 0
        code, out, _ = shell("alert", "test", "webhook-1")
        assert (code, "did not take" in out, "500" in out) == (1, True, True)
        assert document(shell("alert", "test", "webhook-1", "--json"), 1)["ok"] is False
    assert SECRET not in out
