"""Starts of Claude Code sessions with a selection, from files that were prepared beforehand.

Each file of ``prepared`` has one selection, drawn for the skills that a folder shows. A start renames it to the file
of its session, so no two sessions share a draw. A start therefore needs no database and no NumPy. The agent reads a
settings file of its own (``--settings``), which lists as "user only" the skills that the selection left out.

A selection may have the side of its session in an experiment. The file of a new session is then its assignment. Where
the session is unknown, or ran before, the start takes the file's ``plain`` selection, which has no side.

Documentation of Claude Code, read in August 2026, states what this module relies on: values of ``--settings`` go
before the user's, the project's and the local settings, and hooks of all of them run; ``--session-id`` names a new
session; ``skillOverrides`` does not concern skills of plugins; a resumed session does not keep the ``--settings`` of
its first start. It does not state what two ``--settings`` options do, nor whether the members of ``skillOverrides``
are merged. So a start with an own ``--settings`` is left alone, and the file repeats the user's members.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

if sys.platform != "win32":
    import fcntl
else:
    fcntl = None

LEFT_OUT: Final = "user-invocable-only"
"""State of a skill that the selection left out: hidden from the model, and the user can still type its name."""
_PLAIN: Final = "-plain"
"""End of the id of a start that has the selection without a side."""
_STATE: Final = "state.json"
"""File with what the learner's settings and experiments were when selections were prepared last."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ALONE: Final = frozenset(
    "--settings --bare --safe-mode --bg --background --worktree -w --teleport --remote --cloud"  # noqa: SIM905
    " --help -h --version -v --init-only".split()
)
"""Options that start no session here, or one whose skills or settings are not those of this folder."""
_SUBCOMMANDS: Final = frozenset(
    "agents attach auth auto-mode daemon doctor gateway install kill logs mcp plugin plugins project"  # noqa: SIM905
    " remote-control respawn rm setup-token stop ultrareview update upgrade".split()
)
_LONGEST_FILE: Final = 4 << 20
_KEPT_MS: Final = 400 * 86_400_000
"""Sessions that are older are forgotten: their transcripts are long gone."""
_WITHIN_PROCESS: Final = frozenset(("clear", "resume"))
"""Reasons for which a session ends while its process goes on."""


class SessionRequest(NamedTuple):
    """The session that arguments name, or None for a new one or one that only the agent knows.

    ``is_new``: the arguments resume nothing.
    """

    session: str | None
    is_new: bool


class VisibleSkills(NamedTuple):
    """Own skills that a folder shows, by name, and the user's settings of how they are listed."""

    files: Mapping[str, Path]
    overrides: Mapping[str, str]

    @property
    def key(self) -> str:
        """Return the name of the selections that are prepared for exactly these skills."""
        names = sorted((name, str(path)) for name, path in self.files.items())
        return digest(json.dumps([names, sorted(self.overrides.items())]))


class Launch(NamedTuple):
    """A start with a selection: the file of its session, the skills left out, and the user's own settings.

    ``is_new``: the session gets its name from this start.
    """

    file: Path
    out: Sequence[str]
    overrides: Mapping[str, str]
    is_new: bool

    @property
    def session(self) -> str:
        """The name of the session, if the start knows it."""
        return self.file.parent.name


class StartedSession(NamedTuple):
    """A session that a start assigned: its time, and the document of its selection."""

    session: str
    at_ms: int
    document: Mapping[str, Any]


def digest(text: str) -> str:
    """Return the name of a folder for any text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def utc_ms() -> int:
    """Return the machine's clock in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


# Skills and arguments


def visible_skills(config: Path, folder: Path) -> VisibleSkills:
    """Return the skills of a user and of the project in a folder; the user's go before the project's.

    Parameters
    ----------
    config
        Folder of Claude Code's settings.
    folder
        Folder in which the agent starts. Its parents count up to the root of the repository.
    """
    files: dict[str, Path] = {}
    for one in (*(parent / ".claude" for parent in _project(config, folder)), config):
        files |= _skills(one / "skills")
    overrides: dict[str, str] = {}
    within = folder / ".claude"
    for path in (config / "settings.json", within / "settings.json", within / "settings.local.json"):
        members = read_object(path).get("skillOverrides")
        if isinstance(members, dict):
            overrides |= {name: value for name, value in members.items() if isinstance(value, str)}
    return VisibleSkills(files, overrides)


def _project(config: Path, folder: Path) -> list[Path]:
    """Return a folder and those above it within its repository, the outermost first."""
    parents = [folder, *folder.parents]
    root = next((number for number, one in enumerate(parents) if (one / ".git").exists()), 0)
    return [one for one in reversed(parents[: root + 1]) if one / ".claude" != config]


def _skills(folder: Path) -> Iterator[tuple[str, Path]]:
    for name in _names(folder, ""):
        path = folder / name / "SKILL.md"
        if path.is_file() and not (folder / name / ".claude-plugin").exists():
            yield name, path


def requested(arguments: Sequence[str]) -> SessionRequest | None:
    """Return the session that arguments of the agent ask for; None where they start none that can be chosen for.

    >>> requested(["-p", "hello"])
    SessionRequest(session=None, is_new=True)
    >>> requested(["--resume", "8c1f"]), requested(["--continue"]), requested(["--session-id", "8c1f"]).is_new
    (SessionRequest(session='8c1f', is_new=False), SessionRequest(session=None, is_new=False), True)
    >>> requested(["mcp", "list"]) is None, requested(["--settings", "own.json"]) is None
    (True, True)
    """
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    names = {word.partition("=")[0] for word in words if word.startswith("--")}
    letters = {f"-{letter}" for word in words if re.fullmatch("-[A-Za-z]+", word) for letter in word[1:]}
    if _ALONE & (names | letters) or _SUBCOMMANDS.intersection(words):
        return None
    is_resumed = bool({"--resume", "--continue", "--from-pr"} & names or {"-r", "-c"} & letters)
    if session := _value(words, "--session-id"):
        return SessionRequest(session, is_new=not is_resumed)
    if "--fork-session" in names or not is_resumed:
        return SessionRequest(None, is_new=not is_resumed)
    return SessionRequest(_value(words, "--resume", "-r"), is_new=False)


def _value(words: Sequence[str], *options: str) -> str | None:
    """Return the value of an option, if it can be a session's id."""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options:
            value = value if equals else words[number + 1] if number + 1 < len(words) else ""
            return value if _NAME.fullmatch(value) else None
    return None


# Prepared selections


class LaunchFolder:
    """Folder of a learner: selections that are prepared, those of sessions, and private settings of agents."""

    def __init__(self, database: Path, learner: str) -> None:
        self.path = database / digest(learner)

    @classmethod
    def named(cls, database: Path, learner: str | None) -> LaunchFolder | None:
        """Return the folder of a learner; None is the learner that was prepared last without a name."""
        if learner is None:
            try:
                learner = (database / "unnamed").read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                return None
        return cls(database, learner)

    def write_unnamed(self, learner: str) -> None:
        """Note the learner that starts without a name use."""
        write_private(self.path.parent / "unnamed", learner)

    def prepare(self, key: str, documents: Sequence[Mapping[str, object]]) -> None:
        """Replace the selections that wait for a set of skills."""
        folder = self.path / "prepared" / key
        old = _names(folder)
        for document in documents:
            write_private(folder / f"{document['id']}.json", json.dumps(document))
        for name in old:
            (folder / name).unlink(missing_ok=True)

    def waiting(self, key: str) -> int:
        return len(_names(self.path / "prepared" / key))

    def discard(self) -> None:
        for folder in _names(self.path / "prepared", ""):
            self.prepare(folder, ())

    def begin(
        self, request: SessionRequest, skills: VisibleSkills, used_ms: int | None, now_ms: int
    ) -> Launch | None:
        """Return a launch for a session, or None if nothing is prepared for its skills.

        A session that was used within its hold keeps its selection, and an assigned one its first. ``used_ms`` is
        the time of its last use.
        """
        files = self._files(request.session or "")
        file = self._repeated(files, now_ms, used_ms)
        if file is not None:
            note_start(file, file.parent.name, now_ms)
            return Launch(file, document_of(file)["out"], skills.overrides, is_new=False)
        is_known = request.is_new and not files and used_ms is None
        folder = self.path / "prepared" / skills.key
        for name in _names(folder):
            document = read_object(folder / name)
            identity = name.removesuffix(".json")
            session = request.session or identity
            if "plain" in document:  # the name of the file states which selection the session has
                has_side = is_known and now_ms < document["until_ms"]
                identity = session if has_side else f"{identity}{_PLAIN}"
            file = self.path / "sessions" / session / f"{now_ms:014d}.{identity}.json"
            _make_folder(file.parent)
            try:
                (folder / name).rename(file)
            except FileNotFoundError:  # another start took it
                continue
            if "out" in document:
                is_named_here = request.is_new and request.session is None
                return Launch(file, document_of(file)["out"], skills.overrides, is_named_here)
            file.unlink(missing_ok=True)
        return None

    def _repeated(self, files: Sequence[Path], now_ms: int, used_ms: int | None) -> Path | None:
        """Return the file with the selection that a resumed session keeps; None = it gets another one.

        Skills that a setting excludes by now leave an assigned session. A hold ends, so others need no such care.
        """
        if not files:
            return None
        if (first := started_by(files[0])) is None:
            document = read_object(files[-1])
            holds = bool(document) and used_ms is not None and now_ms - used_ms <= document["hold_ms"]
            return files[-1] if holds else None
        out = {*read_object(self.path / _STATE).get("out", ())} - {*first.document["out"]}
        if not out:
            return files[0]
        file = files[0].with_name(f"{now_ms:014d}.{first.session}.json")
        write_private(file, json.dumps(_without(first.document, out, f"{first.document['id']}-{now_ms}")))
        return file

    def write_settings(self, launch: Launch, hook: str) -> Path:
        """Write the settings of one agent. ``hook`` is the command that its sessions run at start and end."""
        overrides = dict.fromkeys(launch.out, LEFT_OUT) | dict(launch.overrides)
        settings: dict[str, object] = {"hooks": hooks(hook)}
        if overrides:
            settings["skillOverrides"] = overrides
        path = self.path / "settings" / f"{_identity(launch.file)}.{process_name(os.getpid())}.json"
        write_private(path, json.dumps(settings))
        return path

    # Sessions

    def chosen_at(self, session: str, at_ms: int | None) -> dict[str, Any] | None:
        """Return the document that was in force in a session at a time; None outside every launch."""
        files = self._files(session)
        if at_ms is None:
            return document_of(files[0]) if len(files) == 1 else None
        # A session that a selection opened has the id of that selection.
        begun = [
            file
            for number, file in enumerate(files)
            if _ms(file.name) <= at_ms or (not number and _identity(file).removesuffix(_PLAIN) == session)
        ]
        if not begun:
            return None
        names = _names(begun[-1].parent, "")
        ended = [_ms(name, -1) for name in names if name.startswith(f"{begun[-1].name}.end.")]
        return document_of(begun[-1]) if not ended or at_ms <= max(ended) else None

    def sessions(self) -> frozenset[str]:
        return frozenset(_names(self.path / "sessions", ""))

    def started(self, session: str) -> StartedSession | None:
        """Return a session as its first start assigned it; None = it has no side."""
        files = self._files(session)
        return started_by(files[0]) if files else None

    def started_since(self, since_ms: int) -> Iterator[StartedSession]:
        """Yield the assigned sessions that started since a time."""
        for session in sorted(self.sessions()):
            files = self._files(session)
            if files and _ms(files[0].name) >= since_ms and (one := started_by(files[0])) is not None:
                yield one

    def note(self, excluded: Sequence[str], assigning: Sequence[str]) -> bool:
        """Note what settings exclude, for resumed sessions, and the experiments that assign new sessions.

        If those are others than before, remove all selections that wait, and return True.
        """
        state = {"out": excluded, "assigning": assigning}
        before = read_object(self.path / _STATE)
        if before == state or not self.path.is_dir():
            return False
        write_private(self.path / _STATE, json.dumps(state))
        is_other: bool = before.get("assigning", []) != assigning
        if is_other:
            self.discard()
        return is_other

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process imports ended sessions."""
        _make_folder(self.path)
        with (self.path / "lock").open("ab") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @property
    def imported_ms(self) -> int | None:
        """Time since which changed transcripts are not imported yet; None = no import was asked for."""
        try:
            return int((self.path / "imported").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @imported_ms.setter
    def imported_ms(self, value: int) -> None:
        write_private(self.path / "imported", str(value))

    def has_missed(self, config: Path) -> bool:
        """Return whether a transcript changed since the last import of ended sessions."""
        since_ms = self.imported_ms
        return since_ms is not None and next(changed(config, since_ms), None) is not None

    def sweep(self, now_ms: int) -> None:
        """Do what `sweep_settings` does, and forget old sessions."""
        self.sweep_settings(now_ms)
        for session in self.sessions():
            folder = self.path / "sessions" / session
            with suppress(OSError):
                if folder.stat().st_mtime_ns // 1_000_000 < now_ms - _KEPT_MS:
                    for name in _names(folder, ""):
                        (folder / name).unlink(missing_ok=True)
                    folder.rmdir()

    def sweep_settings(self, now_ms: int) -> None:
        """Remove the settings of agents that were killed, and note that their sessions ended."""
        for name in _names(self.path / "settings"):
            identity, process = name.split(".")[:2]
            if not _is_alive(process):
                (self.path / "settings" / name).unlink(missing_ok=True)
                for file in (self.path / "sessions").glob(f"*/*.{identity}.json"):
                    note_end(file, file.parent.name, now_ms)

    def _files(self, session: str) -> list[Path]:
        """Return the files of a session's starts, the first one first."""
        folder = self.path / "sessions" / session
        return [folder / name for name in _names(folder)] if _NAME.fullmatch(session) else []


def document_of(file: Path) -> dict[str, Any]:
    """Return the document of a start, with the selection that its session has."""
    document = read_object(file)
    return document | document.get("plain", {}) if _identity(file).endswith(_PLAIN) else document


def started_by(file: Path) -> StartedSession | None:
    """Return the session whose first file this is, if the start assigned it.

    Such a file is named like its session. A session that began in the process of another one has the other's file.
    """
    if _identity(file) != file.parent.name:
        return None
    document = read_object(file)
    selection = document.get("selection")
    is_assigned = "plain" in document and isinstance(selection, dict) and "experiment" in selection
    return StartedSession(file.parent.name, _ms(file.name), document) if is_assigned else None


def _without(document: Mapping[str, Any], skills: Collection[str], identity: str) -> dict[str, Any]:
    """Return a document without skills that a setting excludes; they come last, as in every selection."""
    selection = document["selection"]
    decisions = selection["decisions"]
    leave = [
        one | {"included": False, "reason": "excluded"}
        for one in decisions
        if one["arm"].split(":")[1] in skills
    ]
    stay = [one for one in decisions if one["arm"].split(":")[1] not in skills]
    ranked = [one | {"rank": rank} for rank, one in enumerate([*stay, *leave], 1)]
    out = [*document["out"], *(one["arm"].split(":")[1] for one in leave)]
    return {**document, "id": identity, "out": out, "selection": {**selection, "decisions": ranked}}


def _identity(file: Path) -> str:
    """Return the id of the start of a file, which its copies in other sessions keep."""
    return file.name.split(".")[1]


def _ms(name: str, part: int = 0) -> int:
    digits = name.split(".")[part]
    return int(digits) if digits.isdigit() else 0


def note_start(file: Path, session: str, now_ms: int) -> None:
    """Note that the process of a launch works in a session now."""
    if not _NAME.fullmatch(session):
        return
    folder = file.parent.parent / session
    identity = _identity(file)
    for name in _names(folder):
        is_open = not any(one.startswith(f"{name}.end.") for one in _names(folder, ""))
        if name.split(".")[1] == identity and is_open:
            return
    _make_folder(folder)
    with suppress(FileExistsError):
        os.link(file, folder / f"{now_ms:014d}.{identity}.json")


def note_end(file: Path, session: str, now_ms: int) -> None:
    """Note that the process of a launch left a session."""
    if not _NAME.fullmatch(session):
        return
    folder = file.parent.parent / session
    identity = _identity(file)
    names = [name for name in _names(folder) if name.split(".")[1] == identity]
    if names and not any(one.startswith(f"{names[-1]}.end.") for one in _names(folder, "")):
        (folder / f"{names[-1]}.end.{now_ms}").touch(0o600)


def remove_settings(file: Path) -> None:
    """Remove the private settings of a launch."""
    folder = file.parent.parent.parent / "settings"
    identity = _identity(file)
    for name in _names(folder):
        if name.startswith(f"{identity}."):
            (folder / name).unlink(missing_ok=True)


def ends_process(reason: object) -> bool:
    """Return whether a session ended with its process."""
    return reason not in _WITHIN_PROCESS


def hooks(command: str, timeout_s: int = 5) -> dict[str, list[dict[str, object]]]:
    """Return the settings by which a session runs a command at its start and its end."""
    entry: dict[str, object] = {"hooks": [{"type": "command", "command": command, "timeout": timeout_s}]}
    return {"SessionStart": [entry], "SessionEnd": [entry]}


# Files


def changed(config: Path, since_ms: int) -> Iterator[Path]:
    """Yield the transcripts that changed since a time; those of sub-agents come with their session."""
    for path in (config / "projects").glob("*/*.jsonl"):
        with suppress(OSError):
            if path.stat().st_mtime_ns // 1_000_000 >= since_ms:
                yield path


def process_name(pid: int) -> str:
    """Return a process's number and the time of its start, which no later process of that number has."""
    try:
        began = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError, UnicodeDecodeError):
        began = "0"
    return f"{pid}-{began}"


def _is_alive(process: str) -> bool:
    number = process.partition("-")[0]
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return process_name(int(number)) == process


def read_object(path: Path) -> dict[str, Any]:
    """Return an object of a JSON file; empty where there is none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _LONGEST_FILE:
            return {}  # a file of the kernel has no size, and may block
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_private(path: Path, text: str) -> None:
    """Write a file that its user alone can read; another process sees all of it or nothing."""
    _make_folder(path.parent)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _names(folder: Path, ending: str = ".json") -> list[str]:
    """Return the sorted names of files in a folder; those that are still being written begin with a dot."""
    try:
        return sorted(
            one.name for one in folder.iterdir() if one.name.endswith(ending) and not one.name.startswith(".")
        )
    except OSError:
        return []
