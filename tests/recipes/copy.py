"""A copy of the project in which someone follows a recipe of the guide to the letter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.conftest import ROOT, bytecode_of

_PARTS: Final = (".streamlit", "README.md", "core", "dashboard", "pyproject.toml", "tests")
_PACKAGES: Final = ("core", "dashboard")
_OURS: Final = ("ARMSCOPE_", "PYTEST_", "PYTHONDONTWRITEBYTECODE", "STREAMLIT_")
_PATIENCE_S: Final = 900
_being_made = shutil.ignore_patterns("*.pyc.*")
"""Bytecode that another process is writing."""


def recipe(name: str) -> str:
    """The guide's recipe of that name ("A page"), as it is printed."""
    text = (ROOT / "core" / "guide" / "recipes.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return str(found)


class Copy:
    """The project's source in a folder of its own; what was done to it is read from the files, not remembered."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "copy"
        self.root.mkdir()
        for part in _PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, self.root / part, ignore=_being_made)
            else:
                shutil.copy(ROOT / part, self.root / part)
            # What is compiled of these very sources, which is as old as they are, needn't be compiled once more.
            if sys.pycache_prefix and part in _PACKAGES and bytecode_of(ROOT / part).is_dir():
                shutil.copytree(bytecode_of(ROOT / part), bytecode_of(self.root / part), ignore=_being_made)

    def add(self, path: str, text: str) -> None:
        """Write a file that is not there yet."""
        new = self.root / path
        assert not new.exists(), path
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")

    def insert(self, path: str, text: str, *, after: str) -> None:
        """Put text behind what stands in a file exactly once."""
        file = self.root / path
        whole = file.read_text(encoding="utf-8")
        assert whole.count(after) == 1, (path, after)
        file.write_text(whole.replace(after, after + text), encoding="utf-8")

    def write_guide(self) -> None:
        """Write the generated tables of the guide again."""
        self.run(sys.executable, "-m", "tests.guide", "--write")

    def new(self) -> set[str]:
        """Files that the project doesn't have."""
        return {path for path in self._files() if not (ROOT / path).exists()}

    def changed(self) -> set[str]:
        """Files of the project that are not as they were."""
        return {
            path
            for path in self._files() - self.new()
            if (ROOT / path).read_bytes() != (self.root / path).read_bytes()
        }

    def _files(self) -> set[str]:
        found = (path for path in self.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(self.root).as_posix() for path in found}

    def environment(self) -> dict[str, str]:
        """Of processes that run the copy's sources, and not ours; packages are compiled already."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return {**kept, "PYTHONPATH": str(self.root)}

    def passes(self, *tests: str) -> None:
        """Run tests of the copy in a process of their own, against its sources and not against ours."""
        self.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests)

    def run(self, *command: str) -> None:
        """Run a command in the copy, and see that it succeeds."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
