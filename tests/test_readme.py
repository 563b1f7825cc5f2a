"""The README: its lines run, and what it says of installing and testing is so."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from core import guide, open_learner
from dashboard import commands
from tests.conftest import ROOT
from tests.installed import slim_packages
from tests.language import sources
from tests.test_architecture import imports_of, is_within, module_of
from tests.test_guide import Block, assert_shows, outputs_of

README = (ROOT / "README.md").read_text(encoding="utf-8")

SERVED = {"mcp": "core.doors.mcp", "opentelemetry-proto": "core.formats.otlp", "pyyaml": "core.installed"}
"""Packages that a process which only selects and records does without, by the module that needs them."""

OF_EXTRAS = (
    *("core.store.engine.postgres", "core.store.engine.refused", "core.frames"),
    *("core.adapters.langchain", "core.adapters.langgraph", "core.adapters.openai_agents"),
    "core.adapters.pydantic_ai",
)
"""What an extra is for, which is asked for where it is missing."""


def blocks(language: str) -> list[str]:
    """Code blocks of a language in the README and then in the guide, in order."""
    texts = [README, *(guide.read(topic.name) for topic in guide.topics())]
    found = [
        re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL) for text in texts
    ]
    return [block for of_text in found for block in of_text]


def test_the_lines_of_python_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks("python")[0]
    for n_times in (1, 2):  # a first experiment is run twice
        exec(compile(code, "README.md", "exec"), {})
        with open_learner("runs.db") as learner:
            assert learner.status().runs == n_times
        if n_times == 1:
            assert_shows(outputs_of([Block("python", False, code)]), capsys.readouterr().out)
    with open_learner("runs.db") as learner:
        assert learner.verify().clean


def test_the_check_anyone_runs_takes_its_command_from_here() -> None:
    """`.ci/run` reads the one line under "Run the tests": it must stay one line of parts, the tests the last."""
    tests = README.split("## Run the tests", 1)[1]
    command = re.findall(r"^```sh\n(.*?)\n```$", tests, flags=re.MULTILINE | re.DOTALL)[0]
    assert command.count("\n") == 0
    assert command.split(" && ")[-1].startswith(".venv/bin/python -m pytest")


def test_the_slim_install_is_what_core_imports() -> None:
    """Names as imported; the dashboard's own, which three commands ask for, are the rest of what is declared."""
    outside = {
        found.imported.split(".")[0]
        for path in sources("core")
        if not is_within(module_of(path), (*SERVED.values(), *OF_EXTRAS))
        for found in imports_of(path)
        if found.imported.split(".")[0] not in {*sys.stdlib_module_names, "core", "_typeshed"}
    }
    assert set(slim_packages()) == outside
    declared = {
        re.split(r"[<>=~!]", requirement)[0]
        for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "dependencies"
        ]
    }
    assert declared == outside | set(commands.NEEDED.values()) | SERVED.keys()
