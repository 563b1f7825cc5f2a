"""The wheel as a stranger has it: ``python -m tests.installed [VERSIONS]``.

It is built, installed with the lowest versions that pyproject.toml declares into an environment of its own for
each Python that is found (of these versions), and used there in an empty folder, far from the sources: demo, import,
verify, the usual mistakes, every page of the dashboard, and the server over HTTP. Once more it is installed as the
guide says for an agent's process, without what draws the dashboard, and what it tells a type checker is looked at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.conftest import ROOT

PYTHONS: Final = ("3.11", "3.12", "3.13")
_RUN: Final = (
    '{"kind": "run", "uid": "r1", "arms": ["tool:fs:Read", "tool:fs:Edit"], "calls": ["Read"],'
    ' "ended_at_ms": 1790000000000, "usage": {"total": 1200}}\n'
)
_PAGES: Final = """
from pathlib import Path
import dashboard
from streamlit.testing.v1 import AppTest
package = Path(dashboard.__file__).parent
app = AppTest.from_file(str(package / "app.py"), default_timeout=900).run()
for page in sorted((package / "app_pages").glob("[!_]*.py")):
    app.switch_page(f"app_pages/{page.name}").run()
    assert not app.exception, (page, app.exception)
    assert not [one.value for one in app.markdown if "could not be shown" in one.value], page
print(app.title[0].value)
"""
_ONE_AFTER_THE_OTHER: Final = """
import json, sys
from dashboard.launch import main
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    code = None
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.write(f"\\f{code}\\f")
    sys.stdout.flush()
"""
"""Starting the command takes longer than what most do: these are given in one start."""
_SMALL_DEMO: Final = """
from pathlib import Path
from core.demo import build
print(build(Path("small.db"), n_runs=40).runs)
"""
"""All runs of it take as long to make as all else that is done with one Python."""
_OF_CORE: Final = {
    "import armscope; print(armscope.Client('http://127.0.0.1:9', token='t').name)": "default\n",
    "import armscope, sys; armscope.Client; print({'numpy', 'scipy', 'sqlalchemy'} & {*sys.modules})": "set()\n",
    "import armscope\ntry: armscope.open_learner\nexcept ImportError as problem: print(problem)": (
        "open_learner needs the package numpy, which is not installed. "
        "Install it with: pip install 'armscope-core[learner]'\n"
    ),
}
"""What the plain armscope-core prints: `Client` works alone, and a missing package names the extra."""
_LEARNS: Final = """
import armscope
from pathlib import Path
with armscope.open_learner("both.db") as learner:
    learner.record(f"run-{learner.status().runs}", arms=["tool:fs:Read"], calls=["Read"])
    print(learner.status().runs, Path(armscope.__file__).parents[1].name.removeprefix("_armscope_"))
"""
"""Records one run; prints the number of runs, and the folder that holds the package."""
_MISTAKES: Final = (
    (("nonsense",), 2, "usage"),
    (("status", "--nonsense"), 2, "usage"),
    (("reward", "tool:fs:Raed", "1"), 1, "unknown_arm"),
    (("reward", "tool:fs:Read", "much"), 2, "usage"),
    (("import", "nowhere.jsonl"), 1, "unreadable_source"),
    (("--learner", "nobody", "status"), 1, "unknown_learner"),
)
_TYPED: Final = """
from core import Arm, open_learner
with open_learner("typed.db") as learner:
    chosen = learner.select([Arm(key="tool:fs:Read")])
    reveal_type(chosen.included)
"""
_PATIENCE_S: Final = 900


def main() -> None:
    """Build, install and use it under every Python there is; say which they were."""
    asked = sys.argv[1:] or PYTHONS
    found = {version: python for version in asked if (python := find_python(version)) is not None}
    with TemporaryDirectory(prefix="armscope-installed-") as folder, ThreadPoolExecutor(2) as two:
        wheel, core_wheel = built(Path(folder), ROOT), built(Path(folder) / "core", ROOT / "core")
        works = [
            partial(used, wheel, Path(folder), version, python, draws=version == min(found))
            for version, python in found.items()
        ]
        both = partial(used_together, wheel, core_wheel, Path(folder))
        for said in two.map(lambda work: work(), [*works, partial(used_slim, wheel, Path(folder)), both]):
            _say(said)
    for version in asked:
        if version not in found:
            _say(f"Python {version}: not found here, so not tried")


def find_python(version: str) -> str | None:
    """An interpreter of this version that runs: on the path, or one that pyenv keeps."""
    named = f"python{version}"
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    places = [shutil.which(named), *map(str, sorted(kept.glob(f"{version}.*/bin/{named}"), reverse=True))]
    if sys.version.startswith(f"{version}."):
        places.insert(0, sys.executable)
    return next((place for place in places if place is not None and _is_python(place, version)), None)


def _is_python(place: str, version: str) -> bool:
    """A name on the path may be a stand-in for one that is not installed."""
    done = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.startswith(f"Python {version}.")


def built(folder: Path, project: Path) -> Path:
    """Build the wheel of a project by way of its source distribution."""
    _uv("build", "--quiet", "--out-dir", str(folder), str(project))
    (wheel,) = folder.glob("*.whl")
    return wheel


def used(wheel: Path, folder: Path, version: str, python: str, *, draws: bool) -> str:
    """Install the wheel with its lowest versions, use it (``draws``: every page, too), and say how that went."""
    began = time.monotonic()
    environment = folder / version
    floors = folder / f"floors-{version}.txt"
    # A floor that has no wheel for this Python gives way to the lowest version that has one.
    lowest = ("--resolution", "lowest-direct", "--no-build", "--python", python)
    _uv("pip", "compile", "--quiet", *lowest, "--output-file", str(floors), str(ROOT / "pyproject.toml"))
    _uv("venv", "--quiet", "--python", python, str(environment))
    into = ("pip", "install", "--quiet", "--no-deps", "--python", str(environment / "bin" / "python"))
    _uv(*into, "--requirement", str(floors), str(wheel))
    installed_s = time.monotonic() - began
    empty = folder / f"empty-{version}"
    empty.mkdir()
    installed = Installed(environment, empty)
    installed.check()
    if draws:
        installed.check_pages()
    used_s = time.monotonic() - began - installed_s
    return f"Python {version}: lowest versions installed in {installed_s:.0f} s, used for {used_s:.0f} s, all well"


def used_slim(wheel: Path, folder: Path) -> str:
    """Install the wheel as an agent's process needs it, use that, and say how it went."""
    environment, empty = folder / "slim", folder / "empty-slim"
    empty.mkdir()
    _uv("venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    _uv("pip", "install", "--quiet", "--no-deps", "--python", python, str(wheel))
    _uv("pip", "install", "--quiet", "--no-build", "--python", python, *slim_packages())
    Installed(environment, empty).check_slim()
    size_mb = _size_mb(environment, r"takes about (\d+) MB")
    return f"Slim install: {size_mb:.0f} MB, used without what draws the dashboard, all well"


def used_together(wheel: Path, core_wheel: Path, folder: Path) -> str:
    """Install armscope-core plain, with its extra, beside armscope, and remove either; use each state."""
    environment, empty = folder / "both", folder / "empty-both"
    empty.mkdir()
    _uv("venv", "--quiet", "--python", sys.executable, str(environment))
    python = ("--python", str(environment / "bin" / "python"))
    installed = Installed(environment, empty)
    _uv("pip", "install", "--quiet", "--no-build", *python, str(core_wheel))
    for code, expected in _OF_CORE.items():
        assert installed.run([installed.python, "-c", code]) == expected, code
    _uv("pip", "install", "--quiet", "--no-build", *python, f"{core_wheel}[learner]")
    assert installed.run([installed.python, "-c", _LEARNS]) == "1 core\n"
    _size_mb(environment, r"MB and (\d+) MB")
    _uv("pip", "install", "--quiet", "--no-deps", *python, str(wheel))
    assert installed.run([installed.python, "-c", _LEARNS]) == "2 site-packages\n"
    _uv("pip", "uninstall", "--quiet", *python, "armscope-core")
    assert installed.run([installed.python, "-c", _LEARNS]) == "3 site-packages\n"
    _uv("pip", "install", "--quiet", "--no-deps", *python, str(core_wheel))
    _uv("pip", "uninstall", "--quiet", *python, "armscope")
    assert installed.run([installed.python, "-c", _LEARNS]) == "4 core\n"
    return "armscope-core: plain, with its extra, beside armscope, and each of the two removed, all well"


def slim_packages() -> list[str]:
    """The packages that the guide names for it."""
    return _of_guide(r"--no-deps -e \. && \S+ install -q (.+)").split()


def _of_guide(pattern: str) -> str:
    start = (ROOT / "core" / "guide" / "start.md").read_text(encoding="utf-8")
    match = re.search(pattern, start)
    assert match is not None, pattern
    return match[1]


def _size_mb(environment: Path, pattern: str) -> float:
    """The size of an environment, which the guide gives to a fifth."""
    size_mb = sum(file.stat().st_size for file in environment.rglob("*") if file.is_file()) / 1e6
    assert abs(size_mb / int(_of_guide(pattern)) - 1) < 0.2, size_mb
    return size_mb


@dataclass(frozen=True)
class Installed:
    """An environment with armscope in it, and the empty folder it is used in."""

    environment: Path
    folder: Path

    def check(self) -> None:
        """Do what people do first, and what they do wrong."""
        (self.folder / "runs.jsonl").write_text(_RUN + _RUN.replace("r1", "r2"), encoding="utf-8")
        assert self.run([self.python, "-c", _SMALL_DEMO]) == "40\n"
        firsts = [
            ("import", "runs.jsonl"),
            ("verify",),
            ("status",),
            ("posteriors",),
        ]
        mistakes = [arguments for arguments, _, _ in _MISTAKES]
        imported, verified, status, known, *wrong = self.answers(*firsts, *mistakes)
        assert [code for code, _ in (imported, verified, status, known)] == [0] * len(firsts)
        assert imported[1]["runs"] == 2
        assert verified[1]["ok"] is True
        assert status[1]["runs"] == 2
        assert "tool:fs:Read" in [one["arm"] for one in known[1]]
        assert [(code, told["code"]) for code, told in wrong] == [(code, kind) for _, code, kind in _MISTAKES]
        assert "tool:fs:Read" in self.said("posteriors")
        assert "Usage" in self.said("--help")
        assert self.said("help", "start").startswith("# Start\n")
        with self.serving() as url, urllib.request.urlopen(url, timeout=_PATIENCE_S) as page:
            assert page.status == 200
            assert b"<!doctype html>" in page.read().lower()

    def check_pages(self) -> None:
        """Draw whatever can be drawn, once: it takes as long as all the rest."""
        assert json.loads(self.said("report", "report.html", "--json"))["size_bytes"] > 0
        assert self.run([self.python, "-c", _PAGES])

    def check_slim(self) -> None:
        """Everything but the three commands that draw, and those say what to install."""
        (self.folder / "runs.jsonl").write_text(_RUN, encoding="utf-8")
        works = (("import", "runs.jsonl"), ("verify",), ("status",))
        draws = (("serve",), ("demo",), ("report", "report.html"))
        imported, verified, status, *refused = self.answers(*works, *draws)
        assert [code for code, _ in (imported, verified, status, *refused)] == [0] * 3 + [1] * 3
        assert imported[1]["runs"] == status[1]["runs"] == 1
        assert verified[1]["ok"] is True
        for _, told in refused:
            assert told["code"] == "not_installed"
            assert "pip install streamlit plotly" in told["next"]
        example = re.findall(r"^```python\n(.*?)^```$", _readme(), flags=re.MULTILINE | re.DOTALL)[0]
        self.run([self.python, "-c", example])
        (self.folder / "agent.py").write_text(_TYPED, encoding="utf-8")
        said = self.run(
            [sys.executable, "-m", "mypy", "--strict", "--python-executable", self.python, "agent.py"]
        )
        assert 'Revealed type is "tuple[str, ...]"' in said

    def answers(self, *commands: Sequence[str]) -> list[tuple[int, Any]]:
        """Exit code and JSON document of each command, one after the other."""
        given = json.dumps([[*command, "--json"] for command in commands])
        *told, rest = self.run([self.python, "-c", _ONE_AFTER_THE_OTHER, given]).split("\f")
        assert (rest, len(told)) == ("", 2 * len(commands)), told
        return [
            (int(code), json.loads(document)) for document, code in zip(told[::2], told[1::2], strict=True)
        ]

    def said(self, *arguments: str) -> str:
        """What a command says to a person."""
        return self.run([self._command, *arguments])

    def run(self, command: Sequence[str]) -> str:
        """Run it to its end, which must be a good one."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (command, done)
        assert "Traceback" not in done.stderr, (command, done)
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The dashboard's address, once it answers."""
        command = [self._command, "serve", "--port", "0", "--no-browser"]
        with (
            (self.folder / "serve.log").open("w+b") as log,
            subprocess.Popen(command, cwd=self.folder, env=self._variables, stdout=log, stderr=log) as server,
        ):
            try:
                yield self._address(server, self.folder / "serve.log")
            finally:
                server.terminate()

    def _address(self, server: subprocess.Popen[bytes], log: Path) -> str:
        end = time.monotonic() + _PATIENCE_S
        while server.poll() is None and time.monotonic() < end:
            at = re.search(r"http://127\.0\.0\.1:\d+", log.read_text(errors="replace"))
            if at is not None and _answers(at[0]):
                return at[0]
            time.sleep(0.1)
        raise AssertionError(log.read_text(errors="replace"))

    @property
    def _command(self) -> str:
        return str(self.environment / "bin" / "armscope")

    @property
    def python(self) -> str:
        return str(self.environment / "bin" / "python")

    @property
    def _variables(self) -> dict[str, str]:
        """Nothing of the sources, and a home of its own."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ARMSCOPE_", "STREAMLIT_", "PYTHON", "XDG_", "VIRTUAL_ENV"))
        }
        return {**kept, "HOME": str(self.folder), "PYTHONWARNINGS": "default"}


def _readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", *arguments]
    done = subprocess.run(
        command,
        # Beside other work it may wait long for its turn.
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_TIMEOUT": str(_PATIENCE_S)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stderr)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
