"""The world in which the example of every verb makes sense, made once for all doors; and commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.doors.cli import main
from tests.doors.examples import example_world
from tests.formats.builders import lines
from tests.worlds import empty_database

A = "tool:other:a"
RUN = {
    "kind": "run",
    "uid": "r1",
    "arms": [A, "tool:other:b"],
    "calls": ["a"],
    "ended_at_ms": 1_790_000_000_000,
}

_HERE: Final = IPv4Address("127.0.0.1")
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to copy."""
    folder = tmp_path_factory.mktemp("examples")
    example_world(folder).store.close()
    return folder


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A command in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARMSCOPE_DATABASE", str(tmp_path / "a.db"))
    monkeypatch.setenv("HOME", str(tmp_path))  # whatever agents keep on this machine
    monkeypatch.delenv("ARMSCOPE_LEARNER", raising=False)
    (tmp_path / "a.db").write_bytes(empty_database())

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run


@pytest.fixture
def filled(shell: Shell, tmp_path: Path) -> Shell:
    (tmp_path / "runs.jsonl").write_bytes(lines([RUN, {**RUN, "uid": "r2", "calls": []}]))
    assert shell("import", tmp_path / "runs.jsonl")[0] == 0
    return shell


def document(found: tuple[int, str, str], code: int = 0) -> Any:  # noqa: ANN401 - whatever JSON it is
    """The one JSON document of an answer, and nothing beside it."""
    got, out, err = found
    assert (got, err) == (code, ""), found
    return json.loads(out)


def error(found: tuple[int, str, str], code: int, kind: str) -> dict[str, Any]:
    answer: dict[str, Any] = document(found, code)
    assert list(answer) == ["ok", "error", "code", "next"]
    assert answer["ok"] is False
    assert answer["code"] == kind
    assert answer["error"]
    assert answer["next"]
    return answer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of hooks.invalid and this machine, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.invalid")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("hooks.invalid"), x509.IPAddress(_HERE)]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file
