"""`armscope config`: every variable with its value and source, and no secret."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from core.doors.cli.config import VARIABLES
from tests.doors.conftest import Shell, document
from tests.guide import command_tree


def options(command: str) -> dict[str, Any]:
    return {option.opts[0]: option for option in command_tree()[command].params if option.opts[0][0] == "-"}


def rows(found: tuple[int, str, str]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document(found)}


@pytest.mark.parametrize("command", ["serve", "api"])
def test_each_option_of_a_server_has_a_variable(command: str) -> None:
    by_option = {one.option: one for one in VARIABLES if one.option}
    for name, option in options(command).items():
        if name in {"--json", "--quiet", "--help"}:
            continue
        known = by_option.get(name) or by_option[option.secondary_opts[0]]
        assert option.envvar == known.name or f"[{known.name}]" in option.help, name
        if option.default not in {None, True, False} and command == "api" and name != "--port":
            assert str(option.default) == known.default, name


def test_each_value_has_its_source(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_PORT", "9000")
    monkeypatch.setenv("ARMSCOPE_RATE", "")
    found = rows(shell("--database", tmp_path / "b.db", "config", "--json"))
    assert (found["ARMSCOPE_PORT"]["value"], found["ARMSCOPE_PORT"]["source"]) == ("9000", "variable")
    assert (found["ARMSCOPE_RATE"]["value"], found["ARMSCOPE_RATE"]["source"]) == ("600", "default")
    assert found["ARMSCOPE_HOST"]["value"] is None
    database = found["ARMSCOPE_DATABASE"]
    assert (database["value"], database["source"]) == (str(tmp_path / "b.db"), "option")
    assert not (tmp_path / "b.db").exists()


def test_no_secret_is_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = secrets.token_hex(16)
    monkeypatch.setenv("ARMSCOPE_DATABASE", f"postgresql://mara:{hidden}@db.example/armscope")
    monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET", hidden)
    monkeypatch.setenv("PGPASSWORD", hidden)
    for form in ((), ("--json",)):
        code, out, err = shell("config", *form)
        assert (code, err) == (0, "")
        assert hidden not in out
    found = rows(shell("config", "--json"))
    assert [found[name]["value"] for name in ("ARMSCOPE_WEBHOOK_SECRET", "PGPASSWORD")] == ["set", "set"]
    assert re.search(
        r"armscope.* on db\.example|postgresql://", json.dumps(found["ARMSCOPE_DATABASE"]["value"])
    )


def test_a_variable_is_read_as_the_option(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_PORT", "none")
    code, _, err = shell("api")
    assert code == 2
    assert "ARMSCOPE_PORT" in err
