"""Launch: ``armscope with`` and ``armscope hook run``, which load nothing that they can do without.

Both must not delay or disturb an agent. Whatever fails, the agent starts as it is, and a hook ends with 0.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from core.errors import ArmscopeError
from core.installed.launch import (
    Launch,
    LaunchFolder,
    SessionRequest,
    ends_process,
    note_end,
    note_start,
    remove_settings,
    requested,
    utc_ms,
    visible_skills,
)
from core.settings import Server, Settings, claude_folder, database_at, launches_folder

AGENT: Final = "claude"
_FEW: Final = 2
"""So few selections that more are prepared in the background."""
_LONGEST_INPUT: Final = 1 << 20
_OPTIONS: Final = ("--database", "--learner")
_NOT_FOUND: Final = 127


class DataOptions(NamedTuple):
    database: str | None = None
    learner: str | None = None

    def settings(self) -> Settings:
        return Settings.from_environment(database=self.database, learner=self.learner)

    def words(self) -> list[str]:
        """Return the options that name the same data."""
        where = self.database
        if where is not None and not isinstance(place := database_at(where), Server):
            where = str(place.absolute())  # hooks run in other folders
        named = zip(_OPTIONS, (where, self.learner), strict=True)
        return [word for option, value in named if value is not None for word in (option, value)]


def run_at_once(words: Sequence[str]) -> None:
    """Run ``with`` or ``hook run`` and exit; return where the words need the whole program, for help or an error."""
    mine, theirs = list(words), []
    if "--" in mine:
        at = mine.index("--")
        mine, theirs = mine[:at], mine[at + 1 :]
    is_hook = mine[:1] == ["hook"]
    rest = mine[2 if is_hook else 1 :]
    values: dict[str, str] = {}
    while len(rest) > 1 and rest[0] in {*_OPTIONS, "--launch"}:
        values[rest[0].removeprefix("--")] = rest[1]
        rest = rest[2:]
    file = values.pop("launch", None)
    options = DataOptions(**values)
    if is_hook and not rest and not theirs:
        run_hook(sys.stdin.buffer.read(_LONGEST_INPUT), options, None if file is None else Path(file))
        sys.exit(0)
    if not is_hook and rest[:1] == [AGENT] and len(rest) == 1 and file is None:
        start(theirs, options)


def start(arguments: Sequence[str], options: DataOptions) -> None:
    """Become the agent: its arguments, streams, signals and exit code are its own."""
    program = shutil.which(AGENT)
    if program is None:
        sys.stderr.write(
            f"The command {AGENT} must be on the PATH, got none. Install it, or check the PATH.\n"
        )
        sys.exit(_NOT_FOUND)
    added: list[str] = []
    try:
        added = chosen(arguments, options)
    except (OSError, ValueError, TypeError, LookupError, ArmscopeError) as problem:
        _note(f"{type(problem).__name__}. The session starts as it is.")
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and the agent would inherit that
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(program, [AGENT, *added, *arguments])  # noqa: S606 - the agent that the user named


def chosen(arguments: Sequence[str], options: DataOptions) -> list[str]:
    """Return the arguments by which the agent starts with a selection; none where it starts as it is."""
    request = requested(arguments)
    if request is None:
        return []
    folder, config = _folder(options), claude_folder()
    skills = visible_skills(config, Path.cwd())
    launch = None
    if folder is not None:
        folder.sweep_settings(utc_ms())
        launch = folder.begin(request, skills, _used_ms(config, request), utc_ms())
    if folder is None or folder.waiting(skills.key) < _FEW:
        run_behind(["hook", "import", *options.words(), "--prepare", str(Path.cwd())])
    if folder is None or launch is None:
        _note("No selection is prepared for the skills of this folder. The session starts as it is.")
        return []
    file = folder.write_settings(launch, hook_command(options, launch))
    return ["--settings", str(file), *(["--session-id", launch.session] if launch.is_new else [])]


def _used_ms(config: Path, request: SessionRequest) -> int | None:
    """Return the time of the last line of a session's transcript."""
    if request.session is None:
        return None
    files = (config / "projects").glob(f"*/{request.session}.jsonl")
    return max((file.stat().st_mtime_ns // 1_000_000 for file in files), default=None)


def _note(words: str) -> None:
    """Report on a terminal why a session starts as it is; a program's standard error stays empty."""
    if sys.stderr.isatty():
        sys.stderr.write(f"armscope: {words}\n")


# Hooks


def hook_command(options: DataOptions, launch: Launch | None = None) -> str:
    """Return the command that a session of the agent runs at its start and its end."""
    named = [] if launch is None else ["--launch", str(launch.file)]
    return shlex.join([*_program(), "hook", "run", *options.words(), *named])


def run_hook(content: bytes, options: DataOptions, file: Path | None) -> None:
    """Answer a hook at once: note which session begins or ends, and leave the import to a process behind.

    ``file`` is that of the launch whose settings have the hook. Standard output stays empty, because the agent reads
    it into the prompt.
    """
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError, ArmscopeError):
        event = json.loads(content)
        session, kind = event.get("session_id"), event.get("hook_event_name")
        if kind == "SessionStart" and (folder := _folder(options)) is not None:
            folder.sweep_settings(utc_ms())
        if file is not None and isinstance(session, str):
            if kind == "SessionStart":
                note_start(file, session, utc_ms())
            elif kind == "SessionEnd":
                note_end(file, session, utc_ms())
                if ends_process(event.get("reason")):
                    remove_settings(file)
        if kind == "SessionEnd" or _is_behind(options, event, is_launched=file is not None):
            prepared = _named(event, "cwd", "--prepare")
            transcript = _named(event, "transcript_path", "--transcript") if kind == "SessionEnd" else []
            run_behind(["hook", "import", *options.words(), *prepared, *transcript])


def _is_behind(options: DataOptions, event: dict[str, Any], *, is_launched: bool) -> bool:
    """Return whether a session was missed, or few selections wait for the next ones."""
    folder, config = _folder(options), claude_folder()
    if folder is None:
        return False
    cwd = event.get("cwd")
    is_low = (
        is_launched and isinstance(cwd, str) and folder.waiting(visible_skills(config, Path(cwd)).key) < _FEW
    )
    return is_low or folder.has_missed(config)


def _folder(options: DataOptions) -> LaunchFolder | None:
    settings = options.settings()
    return LaunchFolder.named(launches_folder(settings.database), settings.learner)


def _named(event: dict[str, Any], member: str, option: str) -> list[str]:
    value = event.get(member)
    return [option, value] if isinstance(value, str) and Path(value).is_absolute() else []


def run_behind(words: Sequence[str]) -> None:
    """Start a command of armscope that outlives this process and its terminal."""
    with suppress(OSError):
        subprocess.Popen(  # noqa: S603 - our own program
            [*_program(), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
        )


def _program() -> list[str]:
    """Return the words that run armscope with this Python, in any folder."""
    script = Path(sys.executable).with_name("armscope")
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-P", "-m", "dashboard.launch"]
