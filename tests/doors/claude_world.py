"""A home folder with skills, a database, and the fake agent on the path; every program in it is a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from core.flows.context import Context, open_context
from core.flows.launch import prepare
from core.flows.settings import change
from core.installed.launch import LaunchFolder, visible_skills
from core.records.actor import Actor
from core.settings import Settings, launches_folder
from tests.conftest import ROOT
from tests.terminal import script, warm

PROGRAM: Final = "from dashboard.launch import main; main()"
BESIDE: Final = f"import sys; sys.executable = {{!r}}; {PROGRAM}"
"""Start of a program that finds the command armscope beside this Python."""
SKILLS: Final = ("alpha", "beta", "gamma", "delta")
KILLED_AT: Final = """
import os, sys
left = [{number}]
of_interest = {{"open", "os.rename", "os.link", "os.remove", "os.mkdir", "subprocess.Popen", "os.exec"}}
def killed(event, arguments):
    if event in of_interest and (event == "os.exec" or "{where}" in str(arguments)):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(killed)
"""
"""Start of a program that kills itself at its so many-th access to files whose path has some words."""


class World:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = self.home / ".claude"
        self.project = folder / "project"
        self.log = folder / "log"
        self.database = folder / "armscope.db"
        self.project.mkdir(parents=True)
        for name in SKILLS:
            self.add_skill(self.config, name)
        self.commands = folder / "bin"
        self.commands.mkdir()
        script(self.commands / "claude", sys.executable, "-S", f"{ROOT}/tests/doors/fake_claude.py")
        script(self.commands / "armscope", *warm(), "-c", BESIDE.format(f"{self.commands}/python"))
        self.environment = {
            "PATH": f"{self.commands}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX", ""),
            "ARMSCOPE_DATABASE": str(self.database),
            "FAKE_LOG": str(self.log),
        }

    def add_skill(self, folder: Path, name: str) -> None:
        path = folder / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\nname: {name}\ndescription: Work with {name}.\n---\nAll about {name}.\n")

    def context(self) -> Context:
        return open_context(Settings(database=self.database, actor=Actor(name="mara")))

    @property
    def launches(self) -> Path:
        return launches_folder(self.database)

    def settle(self, **settings: object) -> None:
        """Make the database, with settings, and prepare the next sessions."""
        context = self.context()
        for name, value in settings.items():
            change(context, name, value)
        prepare(context, self.config, self.project)
        context.store.close()

    def run(
        self,
        *words: str,
        kill_at: int = 0,
        where: str = "/launches/",
        input: bytes | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command, or kill it at its so many-th access to files below ``where``."""
        code = (KILLED_AT.format(number=kill_at, where=where) if kill_at else "") + PROGRAM
        return subprocess.run(
            [*warm(), "-c", code, *words] if kill_at else [self.commands / "armscope", *words],
            cwd=self.project,
            env=self.environment | environment,
            input=input,
            capture_output=True,
            timeout=120,
            check=False,
        )

    def claude(self, *words: str, **environment: str) -> None:
        """Start the agent without armscope."""
        done = subprocess.run(
            ["claude", *words],
            cwd=self.project,
            env=self.environment | environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == (-9 if environment else 0), done.stderr.decode()

    def prepare(self) -> None:
        """Import the sessions that ended, after those that do so behind, and prepare the next ones."""
        done = self.run("hook", "import", "--prepare", str(self.project))
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def folder(self) -> LaunchFolder:
        return LaunchFolder(self.launches, "default")

    @property
    def waiting(self) -> int:
        return self.folder.waiting(visible_skills(self.config, self.project).key)

    def files(self) -> dict[str, bytes]:
        """Every file of the user that armscope must leave as it is."""
        folders = (self.config, self.project)
        return {
            str(path): path.read_bytes()
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "projects" not in path.relative_to(folder).parts
        }
