"""Edits of made-up settings files: nothing is lost, nothing leaks, and an undo brings back each byte."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import string
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec
import pytest

from core.errors import Conflict, InvalidInput, NotApplicable
from core.installed import settings_file
from core.installed.json_text import Edit, edited, parsed, reverted
from core.installed.settings_file import Plan, make, planned, records, take_back, undone, write

if TYPE_CHECKING:
    from _typeshed import TraceFunction

SHOWN = ("on", "name-only", "user-invocable-only", "off")
HOOK = {"hooks": [{"type": "command", "command": "armscope hook session-end", "timeout": 5}]}
NAMES = ("pdf", "naïve ünï", "a.b", 'quo"te', "日本", "back\\slash", "deploy", "")
WORLDS = 1000
PART = 20

Read = Callable[[str], dict[str, Any]]

DUPLICATE = '{"skillOverrides": {"pdf": "on", "\\u0070df": "off"}}'
REFUSED_JSON = {
    '{"a": 1, "a": 2}': 'once, got "a" twice',
    DUPLICATE: 'once, got "pdf" twice',
    "[1]": "must hold a JSON object",
    '{"a": 1': "line 1 is not",
    '{"a": 1,\n "b" 2}': "line 2 is not",
    '{"a": 1}}': "line 1 is not",
    '{"a": 01}': "line 1 is not",
    '{"a": tru}': "line 1 is not",
    "{'a': 1}": "line 1 is not",
    '{"a": "x\ny"}': "line 1 is not",
    '{"a": 1 /* open }': "line 1 is not",
    '{"a": ' + "[" * 300 + "]" * 300 + "}": "nest 200 levels",
    '{"a": ' + "9" * 5000 + "}": "line 1 is not",
    '{"skillOverrides": ["pdf"]}': "skillOverrides must be an object",
    '{"skillOverrides": null}': "skillOverrides must be an object",
    '{"skillOverrides": {"pdf": {"token": "ghp_secret"}}}': "and has something else",
    '{"skillOverrides": {"pdf": "ghp_secret"}}': "and has something else",
    "{,}": "line 1 is not",
    '{"a": [1,,2]}': "line 1 is not",
}

DOCUMENTED = """{
  // What this machine's agent may do.
  "permissions": {
    "deny": ["Read(./.env)", "Bash(curl *)"],
  },
  "env": {"HTTP_PROXY": "http://proxy.example:3128"},
  "enabledPlugins": {
    "formatter@team-tools": true,
    "deployer@team-tools": true, // since May
  },
  "skillOverrides": {
    "legacy-context": "name-only" // rarely
  }
}
"""
CHANGED = """{
  // What this machine's agent may do.
  "permissions": {
    "deny": ["Read(./.env)", "Bash(curl *)", "Skill(x)"],
  },
  "env": {"HTTP_PROXY": "http://proxy.example:3128"},
  "enabledPlugins": {
    "formatter@team-tools": true,
    "deployer@team-tools": false, // since May
  },
  "skillOverrides": {
    "legacy-context": "name-only", // rarely
    "deploy": "name-only"
  },
  "disabledMcpjsonServers": [
    "github"
  ]
}
"""


class Drawn(Protocol):
    """A settings file of one draw, in any form."""

    rng: Random
    values: dict[str, Any]
    secrets: list[str]
    text: str

    def edits(self) -> list[Edit]: ...


@dataclass
class Settings:
    """A settings file of one draw: its text, its values, and the secrets in it."""

    rng: Random
    values: dict[str, Any] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    text: str = ""
    commas: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rng = self.rng
        self.newline = rng.choice(("\n", "\n", "\r\n"))
        self.unit = rng.choice(("  ", "    ", "\t", " ", ""))
        self.comments = rng.random() < 0.5
        self.is_wild = rng.random() < 0.3
        self.is_one_line = rng.random() < 0.2
        self.values = self._drawn()
        head = rng.choice(("", "", "\ufeff", f"// {self.secret()}{self.newline}" if self.comments else ""))
        self.text = head + self._rendered(self.values, 0) + rng.choice(("", self.newline, f" {self.newline}"))
        if rng.random() < 0.05:
            self.values, self.text = {}, rng.choice(("", "\n", "\ufeff", "// only a comment"))

    def secret(self) -> str:
        drawn = "".join(self.rng.choices(string.ascii_letters + string.digits, k=36))
        self.secrets.append(f"ghp_{drawn}")
        return self.secrets[-1]

    def _drawn(self) -> dict[str, Any]:
        rng = self.rng
        server = {
            "command": "npx",
            "args": ["--token", self.secret()],
            "env": {"API_KEY": self.secret()},
            "headers": {"Authorization": f"Bearer {self.secret()}"},
        }
        entries: dict[str, Any] = {
            "env": {
                "TOKEN": self.secret(),
                "N": rng.choice(("1", 'a"b', "\\", "// no comment", "/* none */")),
            },
            "mcpServers": {"github": server, "empty": {}},
            "permissions": {
                "deny": rng.choice(([], ["Read(./.env)"], ["Bash", "Skill(x)"])),
                "allow": ["A, B"],
            },
            "model": "opus",
            "numbers": [0, -1.5, 1e9, None, True, [], {}, [[1, {"a": 2}]]],
            "skillOverrides": {name: rng.choice(SHOWN) for name in rng.sample(NAMES, rng.randrange(4))},
            "enabledPlugins": {"kit@shop": rng.choice((True, False))},
            "hooks": {"SessionEnd": rng.choice(([], [{"hooks": [{"command": self.secret()}]}]))},
            self.secret(): {"unknown": self.secret()},
            "odd key : {": "x",
        }
        chosen = rng.sample(sorted(entries), rng.randrange(len(entries) + 1))
        return {name: entries[name] for name in chosen}

    def _gap(self, usual: str) -> str:
        """Return white space and comments where they are allowed."""
        rng = self.rng
        if not self.is_wild and (not self.comments or rng.random() < 0.85):
            return usual
        pieces = [usual]
        if self.is_wild:
            pieces.append("".join(rng.choices((" ", "\t", self.newline), k=rng.randrange(3))))
        if self.comments and rng.random() < 0.3:
            text = rng.choice((self.secret(), "note, {", 'say "hi"', "a * b"))
            pieces.append(
                rng.choice((f"/* {text} */", f" // {text}{self.newline}", f"/*{self.newline}{text}*/"))
            )
        rng.shuffle(pieces)
        return "".join(pieces)

    def _key(self, name: str) -> str:
        return json.dumps(name)

    def _scalar(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=self.rng.random() < 0.5)

    def _rendered(self, value: object, depth: int) -> str:
        if not isinstance(value, (dict, list)):
            return self._scalar(value)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        inner = "" if self.is_one_line else self.newline + self.unit * (depth + 1)
        parts = []
        for one in value:
            part = self._gap(inner or " " * self.rng.randrange(2))
            if isinstance(value, dict):
                part += (
                    f"{self._key(one)}{self._gap('')}:{self._gap(' ')}{self._rendered(value[one], depth + 1)}"
                )
            else:
                part += self._rendered(one, depth + 1)
            parts.append(part + self._gap(""))
        comma = "," if parts and (self.comments or self.commas) and self.rng.random() < 0.4 else ""
        end = "" if self.is_one_line or not parts else self.newline + self.unit * depth
        return opening + ",".join(parts) + comma + self._gap(end) + closing

    def edits(self) -> list[Edit]:
        rng = self.rng
        drawn = [
            *(
                Edit(action="set", keys=("skillOverrides", name), value=rng.choice(SHOWN), over=SHOWN)
                for name in rng.sample(NAMES, rng.randrange(1, 4))
            ),
            Edit(action="set", keys=("enabledPlugins", "kit@shop"), value=False, over=(True,)),
            Edit(action="set", keys=("enabledPlugins", "new@shop"), value=False, over=(True,)),
            Edit(action="add", keys=("permissions", "deny"), value="Skill(x)"),
            Edit(action="add", keys=("hooks", "SessionEnd"), value=HOOK),
            Edit(action="add", keys=("disabledMcpjsonServers",), value="github"),
        ]
        return rng.sample(drawn, rng.randrange(1, len(drawn) + 1))


def applied(values: dict[str, Any], edits: list[Edit]) -> dict[str, Any]:
    result = copy.deepcopy(values)
    for edit in edits:
        box: Any = result
        for key in edit.keys[:-1]:
            box = box.setdefault(key, {})
        if edit.action == "set":
            box[edit.keys[-1]] = edit.value
        elif edit.value not in (items := box.setdefault(edit.keys[-1], [])):
            items.append(edit.value)
    return result


def is_within(part: str, whole: str) -> bool:
    """Return whether all characters of a text are in another one, in their order."""
    rest = iter(whole)
    return all(letter in rest for letter in part)


def write_file(path: Path, settings: Drawn) -> None:
    path.write_bytes(settings.text.encode())
    path.chmod(settings.rng.choice((0o600, 0o644, 0o640)))


def texts_of(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


def worlds(name: str, n: int) -> list[Any]:
    """Return the numbers of all worlds: one of twenty is in the ordinary run."""
    marks = [pytest.mark.long]
    return [
        pytest.param(range(1, n, PART), id=f"{name}-part"),
        *(
            pytest.param(range(start, start + n // 5), id=f"{name}-{start}", marks=marks)
            for start in range(0, n, n // 5)
        ),
    ]


def check_edit_and_undo(
    settings: Drawn, path: Path, number: int, read: Read, replaceable: Collection[str]
) -> None:
    """An edit touches its own keys, replaces only values that are ours to change, and its undo restores each byte."""
    folder = path.parent / "edits"
    path.parent.mkdir()
    write_file(path, settings)
    mode = path.stat().st_mode
    assert read(settings.text) == settings.values
    edits = settings.edits()
    plan = planned(path, edits)
    expected = applied(settings.values, edits)
    if plan is None:
        assert expected == settings.values
        return
    assert path.read_bytes() == settings.text.encode()
    record = make([plan], "test", folder, number)
    written = path.read_bytes().decode()
    assert read(written) == expected
    replaced = [old for one in record.changes for _, old, _ in map(msgspec.to_builtins, one.spans) if old]
    assert set(replaced) <= set(replaceable)
    assert replaced or is_within(settings.text, written)
    assert planned(path, edits) is None
    assert path.stat().st_mode == mode
    back = undone(record.changes[0])
    assert back is not None
    assert (back.left, back.others) == ((), ())
    take_back(record, [back], folder, number)
    assert path.read_bytes() == settings.text.encode()
    assert path.stat().st_mode == mode
    assert undone(record.changes[0]) is None
    assert [one.undone_ms for one in records(folder)] == [number]
    seen = texts_of(folder) + "".join((*plan.shown, *back.shown))
    assert not [secret for secret in settings.secrets if secret in seen]
    assert {one.name for one in path.parent.iterdir()} == {"edits", path.name}
    assert not {one.stat().st_mode & 0o077 for one in (folder, *folder.iterdir())} - {0}


def check_undo_after_others(
    settings: Drawn, path: Path, read: Read, change: Callable[[str], tuple[str, dict[str, Any]]]
) -> tuple[Plan, Plan] | None:
    """An undo keeps what others changed meanwhile. Returns plan and undo, None where there was nothing to edit."""
    path.parent.mkdir(exist_ok=True)
    write_file(path, settings)
    plan = planned(path, settings.edits())
    if plan is None:
        return None
    assert plan.change is not None
    write(plan)
    changed, values = change(path.read_bytes().decode())
    path.write_bytes(changed.encode())
    back = undone(plan.change)
    assert back is not None
    write(back)
    after = path.read_bytes().decode()
    assert without_empty(read(after)) == without_empty(values)
    assert back.left == ()
    assert comments_of(after) == comments_of(changed)
    seen = "".join((*back.shown, *back.others)) + msgspec.json.encode(plan.change).decode()
    assert not [secret for secret in settings.secrets if secret in seen]
    return plan, back


@pytest.mark.parametrize("numbers", worlds("files", WORLDS))
def test_an_edit_touches_its_own_keys_and_its_undo_brings_back_each_byte(
    numbers: range, tmp_path: Path
) -> None:
    for number in numbers:
        settings = Settings(Random(f"files {number}"))
        path = tmp_path / str(number) / "settings.json"
        check_edit_and_undo(settings, path, number, parsed, [*map(json.dumps, SHOWN), "true"])


@pytest.mark.parametrize("numbers", worlds("others", WORLDS))
def test_an_undo_keeps_the_changes_of_others_and_names_them(numbers: range, tmp_path: Path) -> None:
    for number in numbers:
        rng = Random(f"others {number}")
        settings = Settings(Random(f"files {number}"))

        def change(now: str, settings: Settings = settings, rng: Random = rng) -> tuple[str, dict[str, Any]]:
            theirs = [
                Edit(action="set", keys=("theirs", "key"), value={"token": settings.secret()}),
                Edit(action="set", keys=("skillOverrides", "other"), value="off"),
            ]
            comment = f"{settings.newline}// {settings.secret()}" if rng.random() < 0.3 else ""
            return edited(now, theirs).text + comment, applied(settings.values, theirs)

        plans = check_undo_after_others(settings, tmp_path / f"{number}.json", parsed, change)
        if plans is None:
            continue
        plan, back = plans
        assert plan.change is not None
        is_ours = any(one.keys[0] == "skillOverrides" for one in plan.change.back)
        is_old = "skillOverrides" in settings.values and not is_ours
        names = f"skillOverrides{'.other' if is_ours else ''} was {'changed' if is_old else 'added'}"
        assert {"theirs was added", names} == set(back.others)


def without_empty(value: object) -> object:
    """Return a value without its empty objects and lists: an undo may leave one that others have used."""
    if isinstance(value, list):
        return [without_empty(one) for one in value]
    if not isinstance(value, dict):
        return value
    small = {key: without_empty(one) for key, one in value.items()}
    return {key: one for key, one in small.items() if one not in ({}, [])}


def comments_of(text: str) -> list[str]:
    """Return the comments and the texts of several lines, which may hold the sign of a comment."""
    strings = r"'''.*?'''+|\"\"\".*?(?<!\\)\"\"\"+|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    found = re.findall(rf"{strings}|(//[^\r\n]*|/\*.*?\*/|#[^\r\n]*)", text, re.DOTALL)
    return [one for one in found if one]


def test_an_undo_leaves_our_key_where_others_changed_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"skillOverrides": {"pdf": "on", "doc": "on"}}')
    plan = planned(path, [by_name("pdf"), by_name("doc"), by_name("new")])
    assert plan is not None
    assert plan.change is not None
    write(plan)
    path.write_text('{"skillOverrides": {"pdf": "off", "doc": "name-only"}}')
    back = undone(plan.change)
    assert back is not None
    assert back.left == ("skillOverrides.new", "skillOverrides.pdf")
    lines = ('- skillOverrides.doc = "name-only"', '+ skillOverrides.doc = "on"')
    assert back.shown == lines
    write(back)
    rest = '{"skillOverrides": {"pdf": "off", "doc": "on"}}'
    assert path.read_text() == rest


def by_name(name: str) -> Edit:
    return Edit(action="set", keys=("skillOverrides", name), value="name-only", over=SHOWN)


def test_a_file_that_an_edit_made_goes_with_its_undo(tmp_path: Path) -> None:
    path = tmp_path / "settings.local.json"
    plan = planned(path, [by_name("pdf")])
    assert plan is not None
    record = make([plan], "test", tmp_path / "edits", 1)
    new = '{\n  "skillOverrides": {\n    "pdf": "name-only"\n  }\n}\n'
    assert path.read_text() == new
    assert path.stat().st_mode & 0o777 == 0o600
    back = undone(record.changes[0])
    assert back is not None
    take_back(record, [back], tmp_path / "edits", 2)
    assert not path.exists()


# Refusals


def test_bytes_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InvalidInput, match="byte 7"):
        planned(path, [by_name("pdf")])
    path.write_bytes(b"{}")
    with pytest.raises(InvalidInput, match="Unicode"):
        planned(path, [by_name("bad\udcff")])


def test_links_pipes_folders_and_shared_files_are_refused(tmp_path: Path) -> None:
    real = tmp_path / "real" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    link = tmp_path / "link.json"
    link.symlink_to(real)
    folder = tmp_path / "folder"
    folder.symlink_to(real.parent)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    second = tmp_path / "second.json"
    second.write_text("{}")
    os.link(second, tmp_path / "third.json")
    locked = tmp_path / "locked.json"
    locked.write_text("{}")
    locked.chmod(0o444)
    for path in (
        link,
        folder / "settings.json",
        pipe,
        second,
        locked,
        real.parent,
        tmp_path / "no" / "file.json",
    ):
        with pytest.raises(NotApplicable):
            planned(path, [by_name("pdf")])
    assert real.read_text() == second.read_text() == locked.read_text() == "{}"


def test_a_file_that_changed_since_the_preview_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text("{}")
    two.write_text("{}")
    plans = [plan for path in (one, two) if (plan := planned(path, [by_name("pdf")])) is not None]
    two.write_text("{ }")
    with pytest.raises(Conflict, match="changed since the preview"):
        make(plans, "test", tmp_path / "edits", 1)
    assert (one.read_text(), two.read_text()) == ("{}", "{ }")
    assert records(tmp_path / "edits") == []


def test_a_file_that_fails_takes_back_those_before_it(tmp_path: Path) -> None:
    paths = [tmp_path / name / "settings.json" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("{ }")
    plans = [plan for path in paths if (plan := planned(path, [by_name("pdf")])) is not None]
    (paths[1].parent / ".settings.json.armscope").mkdir()  # the temporary file's name is taken
    with pytest.raises(NotApplicable):
        make(plans, "test", tmp_path / "edits", 1)
    assert [path.read_text() for path in paths] == ["{ }", "{ }"]
    assert records(tmp_path / "edits") == []


# Kills


def is_killed(work: Callable[[], object], n_lines: int) -> bool:
    """Work in a child that is killed at its n-th line of the module; return whether it was."""
    child = os.fork()
    if child == 0:
        left = n_lines

        def step(frame: FrameType, event: str, _: object) -> TraceFunction | None:
            nonlocal left
            if frame.f_code.co_filename != settings_file.__file__:
                return None
            left -= event == "line"
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step

        try:
            sys.settrace(step)
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


# Examples


def test_a_file_as_the_documentation_has_it_keeps_its_style() -> None:
    edits = [
        Edit(action="set", keys=("skillOverrides", "deploy"), value="name-only"),
        Edit(action="set", keys=("enabledPlugins", "deployer@team-tools"), value=False, over=(True,)),
        Edit(action="add", keys=("permissions", "deny"), value="Skill(x)"),
        Edit(action="add", keys=("disabledMcpjsonServers",), value="github"),
    ]
    result = edited(DOCUMENTED, edits)
    assert result.text == CHANGED
    assert edited(result.text, result.back).text == reverted(result.text, result.spans) == DOCUMENTED
