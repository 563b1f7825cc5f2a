"""Commands: what a terminal costs an import that shows its progress there, and how soon help is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import write_session
from tests.terminal import COMMAND, on_pty

_PROMPTS = 6


def progress(scale: Scale, folder: Path) -> list[Row]:
    """An import of many files on a terminal, and the same piped."""
    sessions = folder / "sessions"
    sessions.mkdir()
    for number in range(scale.n_progress_files):
        write_session(sessions / f"{number}.jsonl", _PROMPTS)
    shown: list[int] = []

    def on_terminal(number: int) -> None:
        said = on_pty(["--database", f"ours-{number}.db", "import", str(sessions)], folder, COMMAND)
        shown.append(len(said))

    timed = pairs(
        lambda number: subprocess.run(
            [*COMMAND, "--database", f"base-{number}.db", "import", str(sessions)],
            cwd=folder,
            capture_output=True,
            check=True,
        ),
        on_terminal,
        scale.n_progress_pairs,
    )
    size_mb = sum(path.stat().st_size for path in sessions.iterdir()) / 1e6
    note = f"{scale.n_progress_files:,} files, {size_mb:.0f} MB; at most {max(shown):,} bytes written to the terminal"
    return [timed.row("import with its progress on a terminal", "the same, piped", goal=1.1, note=note)]


def help_and_version(scale: Scale, folder: Path) -> list[Row]:
    """``--help`` and ``--version``, each a process."""

    def asked(*arguments: str) -> None:
        subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, check=True)

    def nothing(_: int) -> None:
        subprocess.run([sys.executable, "-c", "pass"], cwd=folder, check=True)

    return [
        pairs(nothing, lambda _, option=option: asked(option), scale.n_number_pairs).row(  # type: ignore[misc]
            f"armscope {option}", "python -c pass", goal=None, note="not checked: 300 ms on a quiet machine"
        )
        for option in ("--help", "--version")
    ]
