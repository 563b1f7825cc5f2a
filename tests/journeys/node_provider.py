"""A real identity provider: ``oidc-provider`` from npm, installed once in a folder of its own, in Node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import httpx

from tests.bench.servers import free_port
from tests.conftest import ROOT
from tests.journeys.provider import CLIENT, CLIENT_SECRET

PACKAGE: Final = "oidc-provider@9.13.3"
_FOLDER: Final = ROOT / ".pytest_cache" / PACKAGE.replace("@", "-")
_PATIENCE_S: Final = 60
_INSTALL_S: Final = 300
_MOST_STEPS: Final = 20
_PROGRAM: Final = """
import Provider from 'oidc-provider';
const { port, redirect, client, secret, people } = JSON.parse(process.argv[2]);
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{
    client_id: client,
    client_secret: secret,
    redirect_uris: [redirect],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  pkce: { required: () => true },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['only for a test'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: id, ...people[id] }) }),
});
provider.listen(port, '127.0.0.1');
"""


def installed() -> str | None:
    """None once it is installed in this folder, else what is missing."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return f"needs Node and npm, and from its registry {PACKAGE}: apt-get install nodejs npm"
    if (_FOLDER / "ready").exists():
        return None
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    (_FOLDER / "package.json").write_text('{"private": true, "type": "module"}', "utf-8")
    line = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
    done = subprocess.run(line, cwd=_FOLDER, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode:
        return f"needs {PACKAGE} from npm's registry: {done.stderr.strip()[-200:]}"
    (_FOLDER / "program.js").write_text(_PROGRAM, "utf-8")
    (_FOLDER / "ready").touch()
    return None


@dataclass(frozen=True, kw_only=True)
class NodeProvider:
    """Where it answers."""

    issuer: str
    redirect: str

    @property
    def metadata(self) -> str:
        return f"{self.issuer}/.well-known/openid-configuration"

    def approve(self, request: str, person: str) -> str:
        """The address to which a person is sent back who signs in and consents for this request."""
        with httpx.Client(timeout=_PATIENCE_S) as browser:
            answer = browser.get(request)
            for _ in range(_MOST_STEPS):
                here = str(answer.url)
                if answer.is_redirect:
                    onward = urljoin(here, answer.headers["location"])
                    if onward.startswith(self.redirect):
                        return onward
                    answer = browser.get(onward)
                    continue
                found = re.search(r'<form[^>]* action="([^"]+)"', answer.text)
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
                assert found, answer.text
                assert prompt, answer.text
                form = {"prompt": prompt[1], "login": person, "password": "any"}
                answer = browser.post(urljoin(here, found[1]), data=form)
        raise AssertionError(f"{person} was not sent back")


@contextmanager
def providing(
    folder: Path, redirect: str, people: Mapping[str, Mapping[str, object]]
) -> Iterator[NodeProvider]:
    """It starts, takes any name as an account, and sends whoever signs in back to this address."""
    port = free_port()
    told = {"port": port, "redirect": redirect, "client": CLIENT, "secret": CLIENT_SECRET, "people": people}
    log = folder / "provider.log"
    with log.open("wb") as out:
        line = [str(shutil.which("node")), "program.js", json.dumps(told)]
        process = subprocess.Popen(line, cwd=_FOLDER, stdout=out, stderr=out)
    provider = NodeProvider(issuer=f"http://localhost:{port}", redirect=redirect)
    try:
        end = time.monotonic() + _PATIENCE_S
        while not _answers(provider):
            assert process.poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < end, log.read_text("utf-8", "replace")
            time.sleep(0.1)
        yield provider
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def _answers(provider: NodeProvider) -> bool:
    try:
        return httpx.get(provider.metadata, timeout=5).status_code == 200
    except httpx.TransportError:
        return False
