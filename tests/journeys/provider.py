"""A real identity provider: Canaille from the package index, in an environment of its own, with one account."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joserfc.jwk import RSAKey

from tests.bench.servers import free_port
from tests.conftest import ROOT

PACKAGE: Final = "canaille[sqlite,front,oidc,server]==0.3.6"
CLIENT: Final = "armscope"
CLIENT_SECRET: Final = "told by the provider"
USER: Final = "jo"
PASSWORD: Final = "correct-horse-9"
_PLACE: Final = ROOT / ".pytest_cache" / "canaille-0.3.6"
_PATIENCE_S: Final = 120
_RUN: Final = """
import json, sys
from canaille.commands import cli
for command in json.loads(sys.argv[1]):
    try:
        cli(command, standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise
"""
"""Its commands in one process: starting it takes longer than any of them."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Where it answers, once it does."""

    issuer: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def metadata(self) -> str:
        """Where it says all else about itself."""
        return f"{self.issuer}/.well-known/openid-configuration"

    def answers(self) -> None:
        """Wait until it does."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.metadata, timeout=5) as answer:
                    assert answer.status == 200
            except OSError:
                time.sleep(0.2)
                continue
            return
        raise AssertionError(self.log.read_text("utf-8", "replace"))


def installed() -> Path | None:
    """The Python that has it, installed once for all runs in this folder; None where it can't be had."""
    python = _PLACE / "bin" / "python"
    if (_PLACE / "ready").exists():
        return python
    shutil.rmtree(_PLACE, ignore_errors=True)
    for command in (
        ["venv", "--quiet", str(_PLACE)],
        ["pip", "install", "--quiet", "--python", str(python), PACKAGE],
    ):
        uv = Path(sys.executable).with_name("uv")
        if subprocess.run([str(uv), *command], capture_output=True, check=False).returncode:
            return None
    (_PLACE / "ready").touch()
    return python


@contextmanager
def providing(folder: Path, python: Path, redirect: str) -> Iterator[Provider]:
    """It starts, knows one person, and sends whoever signs in back to this address."""
    port = free_port()
    (folder / "canaille.toml").write_text(_settings(folder), "utf-8")
    client = {
        "client-id": CLIENT,
        "client-secret": CLIENT_SECRET,
        "client-name": "armscope",
        "redirect-uris": redirect,
        "post-logout-redirect-uris": redirect,
        "grant-types": "authorization_code",
        "response-types": "code",
        "token-endpoint-auth-method": "client_secret_basic",
    }
    person = {"user-name": USER, "password": PASSWORD, "family-name": "Jo", "emails": "jo@example.com"}
    scopes = [part for scope in ("openid", "email", "profile") for part in ("--scope", scope)]
    commands = [
        ["install"],
        ["create", "user", "--quiet", *_options(person)],
        ["create", "client", "--quiet", *_options(client), *scopes],
        ["run", "--bind", f"127.0.0.1:{port}"],
    ]
    log = folder / "provider.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(python), "-c", _RUN, json.dumps(commands)],
            cwd=folder,
            env={**os.environ, "CANAILLE_CONFIG": str(folder / "canaille.toml")},
            stdout=out,
            stderr=out,
        )
    try:
        yield Provider(issuer=f"http://localhost:{port}", process=process, log=log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _settings(folder: Path) -> str:
    key = RSAKey.generate_key(2048, private=True).as_dict(private=True)
    written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in {**key, "kid": "1"}.items())
    return "\n".join(
        [
            'SECRET_KEY = "only for a test"',
            'DATABASE = "sql"',
            "[CANAILLE_SQL]",
            f'DATABASE_URI = "sqlite:///{folder}/provider.db"',
            "[CANAILLE_OIDC]",
            f"ACTIVE_JWKS = [{{{written}}}]",
        ]
    )


def _options(named: dict[str, str]) -> list[str]:
    return [part for name, value in named.items() for part in (f"--{name}", value)]
