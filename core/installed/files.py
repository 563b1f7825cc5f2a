"""FileReader of agents: settings with comments, front matter of skills, and texts, none of them trusted."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from core.installed.json_text import JSON5_FILES, parsed
from core.records.arm import definition_version, quarter_up
from core.records.inventory import InstalledItem, ItemState

_MOST_BYTES: Final = 4 << 20
_MOST_FILES: Final = 10_000
Shown = Literal["on", "name-only", "user-invocable-only", "off"]
"""How a skill is listed, in the words of Claude Code's settings."""
_STATES: Final[Mapping[Shown, ItemState]] = {
    "on": "by name",
    "name-only": "by name",
    "user-invocable-only": "user only",
    "off": "out",
}
_FRONT: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)


class UnreadFile(NamedTuple):
    """A file that can't be read, and the reason."""

    path: Path
    reason: str


class Skill(NamedTuple):
    """A skill's own words: its name, description, text, and who may call it.

    ``title`` is the name in its front matter, "" for none. ``key`` is the name that OpenClaw's settings have for it.
    """

    path: Path
    name: str
    description: str
    text: str
    is_for_users: bool
    changed_ms: int
    title: str = ""
    key: str = ""

    @property
    def line(self) -> str:
        """Return its line in the list that each session starts with."""
        return f"- {self.name}: {self.description}" if self.description else f"- {self.name}"


class FileReader:
    """Reader of small files; it remembers those that it could not read."""

    def __init__(self) -> None:
        self.unread: list[UnreadFile] = []

    def text(self, path: Path, *, is_strict: bool = False) -> str | None:
        """Return the text of a file; None if it is absent, no plain file or too large.

        Bytes that are no UTF-8 are replaced, as agents do. A ``is_strict`` file with such bytes has no text.
        """
        try:
            if not path.is_file():
                return None
            if path.stat().st_size > _MOST_BYTES:
                self.unread.append(UnreadFile(path, f"larger than {_MOST_BYTES >> 20} MiB"))
                return None
            return path.read_text(encoding="utf-8", errors="strict" if is_strict else "replace")
        except (OSError, UnicodeDecodeError) as problem:
            self.unread.append(UnreadFile(path, type(problem).__name__))
            return None

    def settings(self, path: Path) -> dict[str, Any]:
        """Return an object of JSON, JSON with comments, JSON5 or TOML; empty if there is none."""
        text = self.text(path, is_strict=True)
        if text is None:
            return {}
        try:
            if path.suffix == ".toml":
                value: object = tomllib.loads(text.removeprefix("\ufeff"))
            else:
                value = _json(text, is_json5=path.name in JSON5_FILES)
        except (ValueError, RecursionError):
            self.unread.append(UnreadFile(path, "not the JSON or TOML that it should be"))
            return {}
        return value if isinstance(value, dict) else {}

    def skills(self, folder: Path) -> Iterator[Skill]:
        """Yield the skills of a folder: one folder each, with a SKILL.md."""
        for path in listed(folder, "*/SKILL.md"):
            skill = self.skill(path, clean(path.parent.name))
            if skill is not None:
                yield skill

    def skill(self, path: Path, name: str) -> Skill | None:
        """Return the skill of a file, under the name that the agent gives it."""
        text = self.text(path)
        if text is None:
            return None
        front = _front_matter(text)
        return Skill(
            path,
            name,
            _words(front.get("description")),
            text,
            front.get("disable-model-invocation") is True,
            changed_ms(path),
            title := _words(front.get("name")),
            _words(member(front, "metadata", "openclaw").get("skillKey")) or title or name,
        )


def clean(text: str) -> str:
    """Return text that is whole Unicode; a name on disk or in JSON need not be."""
    return text.encode("utf-8", "surrogateescape").decode(errors="replace") if _is_broken(text) else text


def _is_broken(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def listed(folder: Path, pattern: str) -> list[Path]:
    """Return the files below a folder that match a pattern, sorted; none where it can't be read."""
    try:
        return sorted(folder.glob(pattern))[:_MOST_FILES] if folder.is_dir() else []
    except OSError:
        return []


def changed_ms(path: Path) -> int:
    """Return the time of a file's last change; 0 for a file that is gone."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
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
        name=name,
        path=clean(str(path)),
        state="in full" if is_on else "out",
        carried=None,
        changed_ms=changed_ms(path),
        server=name,
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
        used=quarter_up(len(skill.text)),
        version=definition_version(skill.text),
        changed_ms=skill.changed_ms,
        project=project,
        plugin=plugin,
        also=skill.title if skill.title not in {"", skill.name} else None,
    )


def _json(text: str, *, is_json5: bool) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return parsed(text, is_json5=is_json5)


def _front_matter(text: str) -> dict[str, Any]:
    match = _FRONT.match(text)
    if match is None:
        return {}
    try:
        import yaml  # noqa: PLC0415 - the process of an agent does without it
    except ImportError:
        return dict(_plain_members(match[1]))
    try:
        value = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError):  # a tag may raise any
        return dict(_plain_members(match[1]))
    return value if isinstance(value, dict) else {}


def _plain_members(front: str) -> Iterator[tuple[str, object]]:
    """Yield ``name: value`` of each line: agents read front matter that is no YAML, such as a colon in a text."""
    for line in front.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() and not name.startswith((" ", "\t", "#")):
            yield name.strip(), True if value.strip() == "true" else value.strip()


def _words(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""
