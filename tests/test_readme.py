"""What the README shows is run, so that it can't lie."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import __version__, open_learner
from core.formats import FORMATS
from dashboard import launch
from tests.conftest import ROOT
from tests.installed import slim_packages
from tests.test_architecture import imports_of, is_within, module_of, source_files

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_the_ten_lines_of_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks("python")[0]
    for n_times in (1, 2):  # a first experiment is run twice
        exec(compile(code, "README.md", "exec"), {})
        with open_learner("runs.db") as learner:
            assert learner.status().runs == n_times
    with open_learner("runs.db") as learner:
        assert learner.verify().clean


def test_the_example_line_is_read(tmp_path: Path) -> None:
    (line,) = blocks("json")
    file = tmp_path / "runs.jsonl"
    file.write_text(line, encoding="utf-8")
    with open_learner(tmp_path / "runs.db") as learner:
        answer = learner.import_files(file)
        assert (answer.runs, answer.observed, answer.rejected_count) == (1, 1, 0)


def test_the_check_anyone_runs_takes_its_command_from_here() -> None:
    """`.ci/run` reads the one line under "Run the tests": it must stay one line of parts, the tests the last."""
    tests = README.split("## Run the tests", 1)[1]
    command = re.findall(r"^```sh\n(.*?)\n```$", tests, flags=re.MULTILINE | re.DOTALL)[0]
    assert command.count("\n") == 0
    assert command.split(" && ")[-1].startswith(".venv/bin/python -m pytest")


def rows_of_formats() -> Iterator[tuple[str, str, str]]:
    """Each format of the table with what a run of it is, and where its inventory comes from."""
    for line in README.split("| format | what |", 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            return
        names, _what, run, inventory = (cell.strip() for cell in line.strip("|").split(" | "))
        for name in re.findall(r"`([^`]+)`", names):
            yield name, run, inventory


def test_the_table_of_formats_is_the_registry() -> None:
    """Names, units and whether a list of tools is taken: what is added, or learns something, is told here."""
    rows = list(rows_of_formats())
    assert sorted(name for name, _, _ in rows) == sorted(FORMATS)
    wrong = []
    for name, run, inventory in rows:
        format = FORMATS[name]
        if format.units[:1] and format.units[0] not in run:
            wrong.append(f"{name}: a run is {format.units[0]}, not {run}")
        if re.findall(r"--unit (\w+)", run) != list(format.units[1:]):
            wrong.append(f"{name}: units are {format.units}, not {run}")
        if ("--tools FILE" in inventory) != format.takes_tools:
            wrong.append(f"{name}: takes tools is {format.takes_tools}, not {inventory!r}")
    assert wrong == []


def test_the_map_names_what_is_there() -> None:
    tree = next(
        block for block in re.findall(r"^```\n(.*?)^```$", README, flags=re.M | re.S) if "core/" in block
    )
    for name in re.findall(r"([a-z_]+(?:/|\.py))(?=\s)", tree):
        places = [ROOT / name, ROOT / "core" / name, ROOT / "dashboard" / name]
        assert any(place.exists() for place in places), name


SERVED = {"mcp": "core.doors.mcp", "opentelemetry-proto": "core.formats.otlp"}
"""What is needed only where a process serves others, by what needs it: one that selects and records does without."""


OF_EXTRAS = ("core.store.engine.postgres", "core.store.engine.refused")
"""What an extra is for, which is asked for where it is missing."""


def test_the_slim_install_is_what_core_imports() -> None:
    """Names as imported; the dashboard's own, which three commands ask for, are the rest of what is declared."""
    outside = {
        found.imported.split(".")[0]
        for path in source_files("core")
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
    assert declared == outside | set(launch.NEEDED.values()) | SERVED.keys()


def test_the_changelog_begins_with_this_version() -> None:
    told = (ROOT / "core" / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", told, flags=re.MULTILINE)[0] == __version__
