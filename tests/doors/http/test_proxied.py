"""A server of programs behind a proxy: the named proxy's headers are accepted, those of others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from core.doors.http.proxied import Proxied, check_proxies
from core.doors.http.serving import doors
from core.doors.service import Service
from core.errors import InvalidInput
from core.flows.tokens import create_token
from tests.worlds import context_at

FORWARDED = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https", "Host": "localhost"}


def test_a_named_proxy_passes_requests_on_and_each_still_needs_a_token(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    secret = create_token(context, "agent", scopes=["read"]).secret
    app = Proxied(
        doors(Service(store=context.store, learner=None), asks_tokens=True), ["127.0.0.1"], is_strict=True
    )
    signed = {**FORWARDED, "Authorization": f"Bearer {secret}"}
    named, other = (TestClient(app, client=(address, 1)) for address in ("127.0.0.1", "127.0.0.2"))
    assert named.get("/api/v1/learners", headers=signed).status_code == 200
    assert named.get("/api/v1/learners", headers=FORWARDED).status_code == 401
    refused = other.get("/api/v1/learners", headers=signed)
    assert refused.status_code == 403
    assert "--proxy" in refused.text
    assert "nginx.conf" in refused.text
    context.store.close()


def test_a_proxy_is_named_by_its_address() -> None:
    check_proxies(["10.0.0.7", "::1"])
    with pytest.raises(InvalidInput, match="by its address"):
        check_proxies(["proxy.example"])
