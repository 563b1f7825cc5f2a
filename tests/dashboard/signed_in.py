"""People who sign in, for tests of pages and of the gate: a secrets file, members, what a provider says of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from core.flows.context import Context
from core.flows.members import add_member
from core.records.actor import PersonRole
from core.records.member import MemberRow

ISSUER: Final = "https://id.example.com"
SECRET: Final = "only-for-tests-and-long-enough-for-all-of-them"
ORIGIN: Final = "https://armscope.example.com"


def auth_file(folder: Path, **changed: str | None) -> Path:
    """A secrets file that is complete, but for what is changed, or (None) left out."""
    said: Mapping[str, str | None] = {
        "redirect_uri": f"{ORIGIN}/oauth2callback",
        "cookie_secret": SECRET,
        "client_id": "armscope",
        "client_secret": "told by the provider",
        "server_metadata_url": f"{ISSUER}/.well-known/openid-configuration",
        **changed,
    }
    lines = [f'{name} = "{value}"' for name, value in said.items() if value is not None]
    path = folder / "auth.toml"
    path.write_text("\n".join(["[auth]", *lines, ""]), "utf-8")
    return path


def claims(subject: str, *, ago_s: float = 0, **more: object) -> dict[str, object]:
    """What Streamlit knows of who signed in so long ago."""
    issued = int(time.time() - ago_s)
    return {
        "is_logged_in": True,
        "provider": "default",
        "iss": ISSUER,
        "sub": subject,
        "iat": issued,
        **more,
    }


def let_in(context: Context, name: str, role: PersonRole, learner: str | None = None) -> MemberRow:
    """A member whom the provider knows as ``u-`` and their name."""
    return add_member(context, ISSUER, f"u-{name}", name, role=role, learner=learner).member
