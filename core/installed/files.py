"""Reader of agents' settings, front matter of skills and texts, none of them trusted."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from core.installed import toml_text
from core.installed.json_text import JSON5_FILES, parsed
from core.records.arm import definition_version, quarter_up
from core.records.inventory import InstalledItem, ItemState

_MOST_BYTES: Final = 4 << 20
_MOST_TOGETHER: Final = 256 << 20
_MOST_FILES: Final = 10_000
_MOST_WALKED: Final = 100_000
"""Names of files and folders that a search below a folder looks at."""
_MOST_SLOW: Final = 512 << 10
"""Characters of TOML and JSON with comments. Their parsers take seconds for more."""
_MOST_FRONT: Final = 16 << 10
_MOST_MARKS: Final = 200_000
"""Commas, colons and lines of all front matter that is parsed as YAML; a parser takes seconds for more."""
_MOST_NESTED: Final = 64
_MOST_ENTRIES: Final = 1_000
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""A pipe that takes the place of a file would block another open."""
Shown = Literal["on", "name-only", "user-invocable-only", "off"]
"""How a skill is listed, in the words of Claude Code's settings."""
_STATES: Final[Mapping[Shown, ItemState]] = {
    "on": "by name",
    "name-only": "by name",
    "user-invocable-only": "user only",
    "off": "out",
}
_FRONT: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_ABSENT: Final = frozenset((errno.ENOENT, errno.ENOTDIR))
_HALF: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of surrogate pairs, without those that Python puts for bytes in a file's name."""


class UnreadFile(NamedTuple):
    path: Path
    reason: str


class Skill(NamedTuple):
    """A skill's own words: its name, description, and who may call it; the size and digest of its text.

    ``title`` is the name in its front matter, "" for none. ``key`` is the name that OpenClaw's settings have for it.
    """

    path: Path
    name: str
    description: str
    n_chars: int
    version: str
    is_for_users: bool
    changed_ms: int
    title: str = ""
    key: str = ""

    @property
    def line(self) -> str:
        """Return its line in the list that each session starts with."""
        return f"- {self.name}: {self.description}" if self.description else f"- {self.name}"


class FileReader:
    """Reader of the small files of one inventory; it remembers those that it could not read.

    Each skill is read once, and each unread file is named once, also where links or several agents lead to it.
    """

    def __init__(self) -> None:
        self._unread: dict[str, UnreadFile] = {}
        self._skills: dict[tuple[int, int], Skill | None] = {}
        self._bytes_left = _MOST_TOGETHER
        self._slow_left = _MOST_SLOW
        self._marks_left = _MOST_MARKS

    @property
    def unread(self) -> tuple[UnreadFile, ...]:
        return tuple(self._unread.values())

    def skip(self, path: Path, reason: str) -> None:
        """Remember a file that was not read, with the first reason."""
        self._unread.setdefault(os.path.realpath(path), UnreadFile(path, reason))

    def text(self, path: Path, *, is_strict: bool = False) -> str | None:
        """Return the text of a file; None if it is absent, no plain file or too large.

        Bytes that are no UTF-8 are replaced, as agents do. A ``is_strict`` file with such bytes has no text.
        """
        content = self._content(path)
        if content is None:
            return None
        try:
            text = content.decode(errors="strict" if is_strict else "replace")
        except UnicodeDecodeError as problem:
            self.skip(path, f"byte {problem.start} is not UTF-8")
            return None
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def _content(self, path: Path) -> bytes | None:
        try:
            content = _read(path, self._bytes_left)
        except ValueError:  # no file can have this name
            return None
        except OSError as problem:
            if problem.errno not in _ABSENT:
                self.skip(path, problem.strerror or type(problem).__name__)
            return None
        self._bytes_left -= len(content or b"")
        return content

    def settings(self, path: Path) -> dict[str, Any]:
        """Return an object of JSON, JSON with comments, JSON5 or TOML; empty if there is none."""
        text = self.text(path, is_strict=True)
        if text is None:
            return {}
        try:
            value = self._values(path, text)
        except (ValueError, RecursionError):
            self.skip(path, "not the JSON or TOML that it should be")
            return {}
        return value if isinstance(value, dict) else {}

    def _values(self, path: Path, text: str) -> object:
        if path.suffix != ".toml":
            with suppress(ValueError):
                return json.loads(text.removeprefix("\ufeff"))
        if len(text) > self._slow_left:
            self.skip(path, f"more than {_MOST_SLOW >> 10} KiB of TOML, or of JSON with comments or errors")
            return {}
        self._slow_left -= len(text)
        return (
            toml_text.parsed(text)
            if path.suffix == ".toml"
            else parsed(text, is_json5=path.name in JSON5_FILES)
        )

    def entries(self, path: Path, members: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the members of an object of a settings file, sorted; the first 1,000 of more."""
        if len(members) > _MOST_ENTRIES:
            self.skip(path, f"it has more than {_MOST_ENTRIES:,} entries, and the others are left out")
        return sorted(members.items())[:_MOST_ENTRIES]

    def skills(self, folder: Path) -> Iterator[Skill]:
        """Yield the skills of a folder: one folder each, with a SKILL.md."""
        for path in self.skill_files(folder):
            skill = self.skill(path, clean(path.parent.name))
            if skill is not None:
                yield skill

    def skill(self, path: Path, name: str) -> Skill | None:
        """Return the skill of a file, under the name that the agent gives it."""
        try:
            status = path.stat()
        except (OSError, ValueError):
            skill = self._skill(path)
        else:
            key = status.st_dev, status.st_ino
            if key not in self._skills:
                self._skills[key] = self._skill(path)
            skill = self._skills[key]
        return None if skill is None else skill._replace(path=path, name=name, key=skill.key or name)

    def _skill(self, path: Path) -> Skill | None:
        text = self.text(path)
        if text is None:
            return None
        front = self.front(path, text)
        if front is None:
            return None
        title = _words(front.get("name"))
        return Skill(
            path,
            "",
            _words(front.get("description")),
            len(text),
            definition_version(text),
            front.get("disable-model-invocation") is True,
            changed_ms(path),
            title,
            _words(member(front, "metadata", "openclaw").get("skillKey")) or title,
        )

    def front(self, path: Path, text: str) -> dict[str, Any] | None:
        """Return the front matter of a text, empty if there is none; None for one that is too large."""
        match = _FRONT.match(text, 0, _MOST_FRONT)
        if match is None:
            if not text.startswith(("---", "\ufeff---")) or "\n---" not in text[_MOST_FRONT - 4 :]:
                return {}
            self.skip(path, f"front matter larger than {_MOST_FRONT >> 10} KiB")
            return None
        front = match[1]
        self._marks_left -= sum(map(front.count, ",:\n"))
        # A merge (<<) of merges may have more members than a machine has bytes.
        is_nested = front.count("[") + front.count("{") > _MOST_NESTED
        if is_nested or "<<" in front or self._marks_left < 0:
            return dict(_plain_members(front))
        return _front_members(front)

    def skill_files(self, folder: Path) -> list[Path]:
        """Return the paths of the SKILL.md in each folder of a folder, sorted; a file need not be there."""
        return self._sorted(folder, lambda: (one / "SKILL.md" for one in folder.iterdir()))

    def listed(self, folder: Path, pattern: str) -> list[Path]:
        """Return the files below a folder that match a pattern, sorted; none where it can't be read."""
        if "*" not in pattern:
            return [folder / pattern]
        return self._sorted(folder, lambda: matches_below(folder, pattern, self.skip))

    def _sorted(self, folder: Path, paths_of: Callable[[], Iterator[Path]]) -> list[Path]:
        try:
            if not folder.is_dir():
                return []
            paths = [*islice(paths_of(), _MOST_FILES + 1)]
        except OSError as problem:
            self.skip(folder, problem.strerror or type(problem).__name__)
            return []
        if len(paths) > _MOST_FILES:
            self.skip(folder, f"it has more than {_MOST_FILES:,} files, and the others are left out")
        return sorted(paths[:_MOST_FILES])


def _read(path: Path, bytes_left: int) -> bytes | None:
    """Return the content of a file; None for what is no plain file."""
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    with os.fdopen(os.open(path, _OPEN), "rb") as file:
        status = os.fstat(file.fileno())
        content = file.read(_MOST_BYTES + 1) if status.st_size <= min(_MOST_BYTES, bytes_left) else None
    if content is not None and len(content) <= _MOST_BYTES:
        return content if stat.S_ISREG(status.st_mode) else None
    if status.st_size <= _MOST_BYTES and content is None:
        raise OSError(errno.EFBIG, f"the files together are larger than {_MOST_TOGETHER >> 20} MiB")
    raise OSError(errno.EFBIG, f"larger than {_MOST_BYTES >> 20} MiB")


def matches_below(folder: Path, pattern: str, skip: Callable[[Path, str], None]) -> Iterator[Path]:
    """Yield the files below a folder that match a pattern. Links to folders are not followed below ``**``.

    ``skip`` takes a folder that is not read, or not as a whole, and the reason.
    """
    head, is_deep, tail = pattern.partition("**/")
    if not is_deep:
        yield from folder.glob(pattern)
        return
    for root in folder.glob(head.rstrip("/")) if head else [folder]:
        folders, n_left = [root], _MOST_WALKED
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in islice(entries, n_left + 1):
                        n_left -= 1
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(Path(entry.path))
                        elif fnmatchcase(entry.name, tail):
                            yield Path(entry.path)
            except OSError as problem:
                if problem.errno not in _ABSENT:
                    skip(folder, problem.strerror or type(problem).__name__)
            if n_left < 0:
                skip(root, f"it has more than {_MOST_WALKED:,} files, and the others are left out")
                break


def clean(text: str) -> str:
    """Return text that is whole Unicode; a name on disk or in JSON need not be."""
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return _HALF.sub("\ufffd", text).encode("utf-8", "surrogateescape").decode(errors="replace")


def changed_ms(path: Path) -> int:
    """Return the time of a file's last change; 0 for no file."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except (OSError, ValueError):  # ValueError: no file can have this name
        return 0


def member(value: object, *names: str) -> dict[str, Any]:
    """Return the object at a path of names; empty where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def texts(value: object) -> Sequence[str]:
    """Return the texts of a list; none for anything else."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def context_file(
    files: FileReader, agent: str, path: Path, project: str | None = None
) -> Iterator[InstalledItem]:
    """Yield a file that each session carries as a whole."""
    text = files.text(path)
    if text and text.strip():
        yield InstalledItem(
            agent=agent,
            kind="file",
            name=clean(path.name),
            path=clean(str(path)),
            state="in full",
            carried=quarter_up(len(text)),
            used=0,
            version=definition_version(text),
            changed_ms=changed_ms(path),
            project=project,
        )


def server(
    agent: str, name: str, path: Path, *, is_on: bool, project: str | None = None, plugin: str | None = None
) -> InstalledItem:
    """Return a server of a settings file, which has nothing about the size of its tools."""
    return InstalledItem(
        agent=agent,
        kind="server",
        name=clean(name),
        path=clean(str(path)),
        state="in full" if is_on else "out",
        carried=None,
        changed_ms=changed_ms(path),
        server=clean(name),
        plugin=plugin,
        project=project,
    )


def listed_skill(
    agent: str, skill: Skill, shown: Shown, *, project: str | None = None, plugin: str | None = None
) -> InstalledItem:
    """Return a skill: its line is carried while it is listed, its text comes with each use."""
    n_carried = {"on": len(skill.line), "name-only": len(f"- {skill.name}")}.get(shown, 0)
    return InstalledItem(
        agent=agent,
        kind="skill",
        name=skill.name,
        path=clean(str(skill.path)),
        state=_STATES[shown],
        carried=quarter_up(n_carried),
        used=quarter_up(skill.n_chars),
        version=skill.version,
        changed_ms=skill.changed_ms,
        project=project,
        plugin=plugin,
        also=skill.title if skill.title not in {"", skill.name} else None,
    )


def _front_members(front: str) -> dict[str, Any]:
    try:
        import yaml  # noqa: PLC0415 - the process of an agent does without it

        value = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(front).get_single_data()
    except Exception:  # YAML is not installed, or a tag raises any error
        return dict(_plain_members(front))
    return value if isinstance(value, dict) else {}


def _plain_members(front: str) -> Iterator[tuple[str, object]]:
    """Yield ``name: value`` of each line: agents read front matter that is no YAML, such as a colon in a text."""
    for line in front.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() and not name.startswith((" ", "\t", "#")):
            yield name.strip(), True if value.strip() == "true" else value.strip()


def _words(value: object) -> str:
    """Return a text or number in one line; "" for anything else."""
    if not isinstance(value, (str, int, float)):
        return ""
    try:
        return " ".join(clean(str(value)).split())
    except ValueError:  # a number of thousands of digits
        return ""
