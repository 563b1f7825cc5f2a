"""Homes with the files of strangers: none stops an inventory or a prune, and each unread file is named once."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from core.doors.terminal import printable
from core.errors import ArmscopeError, NotApplicable
from core.installed.answer import is_own, machine_inventory
from core.installed.files import FileReader, clean
from core.installed.launch import visible_skills
from core.installed.prune import Wish, pruned
from core.records.inventory import MachineInventory
from tests.test_inventory import (
    LONG_AGO_MS,
    NOW_MS,
    by_name,
    claude_home,
    put,
    write_lines,
    write_skill,
)

HUGE = "f" * 5_000
HALF = "\\ud800"
UNREAD = "{} was not read: {}."
AGENTS = (".claude", ".codex", ".gemini", ".config/opencode", ".openclaw", ".pi/agent")
FRONTS = {
    "hexadecimal": f"description: 0x{HUGE}",
    "binary": f"description: 0b{'1' * 15_000}",
    "sixties": f"description: 1{':59' * 4_000}",
    "sixties with a fraction": f"description: 1{':1' * 300}.5",
    "name": f"name: 0x{HUGE}",
    "key": f"metadata: {{openclaw: {{skillKey: 0x{HUGE}}}}}",
    "cycle": "description: &a [*a]\nmetadata: &b {openclaw: *b}",
    "cycle of keys": "metadata: &a {? *a : 1}",
    "laughs": "\n".join([f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(12)]).replace(
        "*a0", "lol"
    ),
    "merges": "a0: &a0 {x: 1}\n"
    + "\n".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}" for n in range(12)),
    "brackets": f"description: {'[' * 4_000}",
    "braces": f"description: {'{a: ' * 2_000}",
    "dashes": f"description:\n  {'- ' * 5_000}",
    "marks": "? " * 5_000,
    "date": "description: 2024-02-31\nname: 0000-00-00",
    "time zone": "description: 0001-01-01 00:00:00 +23:59\nname: 2001-01-01 00:00:00 +99:99",
    "not a number": "description: .nan\nname: -.inf",
    "half": f'description: "{HALF}"\nname: "\\udfff"',
    "bytes": "description: !!binary aGk=\nname: !!binary '%'",
    "set": "--- !!set {description, name}",
    "pairs": "description: !!omap [a: 1]\nname: !!pairs [a: 1]",
    "keys": "1: a\n[1, 2]: b\n? {c: d}\n: e\nnull: f\ntrue: g",
    "list": "- description\n- name",
    "python": "description: !!python/object/apply:os.system [false]",
    "documents": "a: 1\n---b\n... \nc",
    "unknown anchor": "description: *gone",
    "tabs": "\tdescription:\t\t- x\n\t\t: y",
    "control characters": "description: a\x00b\x1b[31mc\x7f\x85\u2028\u202e",
    "directive": "%YAML 9.9",
    "empty": "",
}

scalars = st.one_of(
    st.text(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.just("HUGE"),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(scalars, inner) | st.sets(scalars), max_leaves=8
)
KEYS = ("name", "description", "disable-model-invocation", "metadata", "openclaw", "skillKey")

JSON_SETTINGS = {
    "digits": f'{{"mcpServers": {{"a": {"9" * 5_000}}}}}',
    "deep": '{"mcpServers": ' * 5_000,
    "deep lists": '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
    "not a number": '{"mcpServers": {"a": NaN}, "skillOverrides": {"a": -Infinity}, "permission": 1e999}',
    "halves": f'{{"mcpServers": {{"{HALF}": {{}}, "\\udcff": {{}}}}, '
    f'"plugins": {{"{HALF}": [{{"installPath": "/"}}]}}}}',
    "keys twice": '{"mcpServers": {"a": {}, "a": 1}, "mcpServers": {"b": {}}}',
    "other kinds": '{"mcpServers": [], "mcp": "x", "skillOverrides": {"a": {}}, "permission": [1]}',
    "other kinds within": '{"permissions": [1, null, {"action": 1}], "agent": {"build": 1}, "default_agent": {}}',
    "paths": '{"plugins": {"a": {"installPath": "/a\\u0000b", "projectPath": "\\u0000"},'
    ' "b": [{"installPath": "/%s"}], "c": {"installPath": "/\\ud800"}, "d": {"installPath": 1}},'
    ' "default_agent": "../../x\\u0000"}' % ("x" * 5_000),
    "many": json.dumps(
        {"mcpServers": {f"s{n}": {} for n in range(3_000)}, "plugins": {f"p{n}": {} for n in range(3_000)}}
    ),
    "rules": json.dumps({"permission": {"skill": {f"{'*a' * 50}{n}": "deny" for n in range(3_000)}}}),
    "names": json.dumps(
        {"mcpServers": {"a\nb": {}, "\x1b[31m": {}, "\u202e": {}, "": {}, "x" * 100_000: {}}}
    ),
    "comments": '{"a": 1 ' + "// x\n" * 20_000 + "/* " * 20_000,
    "commas": '{"a": [' + "1," * 20_000 + "]} //",
    "mark": '\ufeff{"mcpServers": {"a": {}}}',
    "empty": "",
    "blank": " \r\n",
    "null": "null",
    "text": '"x"',
}
TOML_SETTINGS = {
    "digits": f"mcp_servers.a = 0x{HUGE}",
    "number": f"a = {'9' * 5_000}",
    "long key": f"{'a.' * 50_000}a = 1",
    "long head": f"[{'a.' * 50_000}a]",
    "quoted head": '[["a"' + ' . "a"' * 20_000 + "]]",
    "deep": f"[{'a.' * 150}a]\n{'b.' * 150}b = 1",
    "deep lists": f"a = {'[' * 5_000}",
    "deep tables": f"a = {'{a = ' * 5_000}",
    "dates": "a = 2024-02-31",
    "not a number": "a = nan\n[mcp_servers.b]\nenabled = inf",
    "many": "\n".join(f"[mcp_servers.s{n}]" for n in range(3_000)),
    "mark": "\ufeff[mcp_servers.a]",
    "bare carriage return": "a = 1\rb = 2",
}
JSON_FILES = (
    ".claude/settings.json",
    ".claude.json",
    ".claude/plugins/installed_plugins.json",
    ".gemini/settings.json",
    ".config/opencode/opencode.json",
    ".config/opencode/opencode.jsonc",
    ".openclaw/openclaw.json",
)

NAMES = (
    "a\nb",
    "\x1b[31m",
    "\u202ecod.exe",
    "\x7f",
    "\x85",
    "é",
    "e\u0301",
    "A",
    "a",
    "-rf",
    "%s",
    "x" * 200,
)

VALUES = (
    "9" * 5_000,
    "-1e999",
    "1e308",
    "NaN",
    "99999999999999999",
    f'"{HALF}"',
    '"\\ud83d\\ude00\\u0000\\u202e"',
    "[" * 5_000,
    "[" * 900 + "]" * 900,
    '{"a": ' * 900 + "1" + "}" * 900,
    "null",
    "true",
    "[]",
    "{}",
    '"0000-00-00T00:00:00Z"',
    '"9999-12-31T23:59:59+23:59"',
    '"<skill><name> </name>"',
    '"/SKILL.md \\\\SKILL.md a//SKILL.md"',
)
SESSIONS = {
    ".claude/projects/p/s.jsonl": (
        '{"type": "user", "sessionId": %s, "cwd": %s, "timestamp": %s, "message": {"content": %s}}',
        '{"type": "assistant", "uuid": %s, "message": {"id": %s, "model": %s, "content":'
        ' [{"type": "tool_use", "id": %s, "name": "Skill", "input": {"skill": %s}}], "usage": %s}}',
        '{"type": "attachment", "attachment": {"type": "skill_listing", "names": [%s], "content": %s}}',
        '{"type": "attachment", "attachment": {"type": "mcp_instructions_delta", "addedNames": [%s],'
        ' "addedBlocks": %s}}',
    ),
    ".codex/sessions/s.jsonl": (
        '{"type": "session_meta", "timestamp": %s, "payload": {"id": %s, "cwd": %s, "source": %s,'
        ' "dynamic_tools": [{"name": "a", "inputSchema": %s}]}}',
        '{"type": "response_item", "payload": {"type": "function_call", "name": %s, "arguments": %s, "call_id": %s}}',
        '{"type": "response_item", "payload": {"type": "message", "role": "user", "content": %s, "x": "<skill>"}}',
    ),
    ".gemini/tmp/h/chats/s.json": (
        '{"sessionId": %s, "startTime": %s, "messages": [{"toolCalls": [{"args": %s}]}]}',
    ),
    ".openclaw/agents/main/sessions/s.jsonl": (
        '{"type": "session", "id": %s, "timestamp": %s, "cwd": %s}',
        '{"type": "message", "id": %s, "timestamp": %s, "message": {"role": "assistant", "content":'
        ' [{"type": "toolCall", "name": "a", "arguments": %s}]}}',
    ),
}

FORMS = {
    "line ends": "---\r\ndescription: does it\r\n---\r\nBody\r\n",
    "mark": "\ufeff---\ndescription: does it\n---\nBody\n",
    "spaces": "---  \ndescription:   does   it  \n---\t\n",
    "no end": "---\ndescription: does it\n---",
    "colon": "---\ndescription: does it\nother: a: b\n---\n",
    "number": "---\ndescription: does it\nversion: 1.0\n---\n---\nname: y\n---\n",
    "folded": "---\ndescription: >\n  does\n  it\n---\n",
    "quoted": "---\n'description': \"does it\"\n---\n",
    "merge": "---\ndescription: does it\n<<: {a: 1}\n---\n",
}


def answered(home: Path) -> MachineInventory:
    """Return the inventory, after every door's use of it: JSON, words and prune."""
    answer = machine_inventory(home, NOW_MS)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=MachineInventory) == answer
    for text in (*answer.unread, *answer.notes, *(one.item.name for one in answer.items)):
        assert printable(text).isprintable()
        text.encode()
    assert len({*answer.unread}) == len(answer.unread)
    names = [one.split(" was not read: ")[0] for one in answer.unread]
    assert len({*names}) == len(names), "a file is named twice"
    pruned(home, answer, (), NOW_MS)
    return answer


@pytest.mark.parametrize("name", FRONTS)
def test_no_front_matter_stops_an_inventory(name: str, tmp_path: Path) -> None:
    text = f"---\n{FRONTS[name]}\n---\nBody\n"
    for path in (
        *(tmp_path / agent / "skills" / "odd" / "SKILL.md" for agent in AGENTS),
        tmp_path / ".claude" / "commands" / "sub" / "do.md",
        tmp_path / ".config" / "opencode" / "agent" / "build.md",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_skill(tmp_path / ".claude" / "skills", "plain", "does it", changed_ms=LONG_AGO_MS)
    begun = time.monotonic()
    found = by_name(answered(tmp_path))
    assert time.monotonic() - begun < 20
    assert {*found} == {"odd", "plain", "do"}
    assert found["plain"].item.carried == 4


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS) | scalars, values, max_size=6))
def test_any_value_of_front_matter_is_read_or_left_out(front: dict[object, object]) -> None:
    text = yaml.dump(front, allow_unicode=True).replace("HUGE", f"0x{HUGE}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "SKILL.md"
        path.write_text(f"---\n{text}\n---\n", encoding="utf-8", errors="surrogatepass")
        reader = FileReader()
        skill = reader.skill(path, "odd")
        assert (skill is None) == bool(reader.unread) == (len(text) >= 16 << 10)
        if skill is not None:
            assert "\n" not in skill.line
            skill.line.encode()


# Settings


@pytest.mark.parametrize("form", [*JSON_SETTINGS, *(f"toml {name}" for name in TOML_SETTINGS)])
def test_no_settings_stop_an_inventory_or_a_prune(form: str, tmp_path: Path) -> None:
    is_toml = form.startswith("toml ")
    text = TOML_SETTINGS[form.removeprefix("toml ")] if is_toml else JSON_SETTINGS[form]
    for path in [".codex/config.toml"] if is_toml else JSON_FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8", newline="")
    for agent in AGENTS:
        write_skill(tmp_path / agent / "skills", "plain", "does it", changed_ms=LONG_AGO_MS)
    begun = time.monotonic()
    answer = answered(tmp_path)
    assert len([one for one in answer.items if one.item.name == "plain"]) >= len(AGENTS)
    for name in ("plain", "a", "b"):
        if any(one.item.name == name for one in answer.items):
            with suppress(ArmscopeError):
                pruned(tmp_path, answer, [Wish(name, "out")], NOW_MS)
    assert time.monotonic() - begun < 60


# Kinds of files


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


def _utf_16(path: Path) -> None:
    path.write_text("---\nname: x\ndescription: does it\n---\n", encoding="utf-16")


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 50 << 20)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to the kernel's file": lambda path: path.symlink_to("/proc/self/mem"),
    "link to the kernel's messages": lambda path: path.symlink_to("/proc/kmsg"),
    "empty": Path.touch,
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "nothing but zeros": lambda path: path.write_bytes(bytes(5_000)),
    "wide characters": _utf_16,
    "open front matter": lambda path: path.write_text("---\n" + "a: 1\n" * 50_000),
    "only marks": lambda path: path.write_text("---\n" * 50_000),
    "one line": lambda path: path.write_text("x" * 4_000_000),
    "huge": _huge,
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_file_stops_an_inventory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        *JSON_FILES,
        ".codex/config.toml",
        ".codex/AGENTS.md",
        ".claude/CLAUDE.md",
        ".agents/skills/odd/SKILL.md",
        ".claude/skills/odd/SKILL.md",
        ".claude/commands/do.md",
        ".claude/projects/p/s.jsonl",
        ".codex/sessions/2026/a.jsonl",
        ".config/opencode/agents/build.md",
        ".local/share/opencode/opencode.db",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        KINDS[kind](path)
    write_skill(tmp_path / ".codex" / "skills", "plain", "does it", changed_ms=LONG_AGO_MS)
    begun = time.monotonic()
    answer = answered(tmp_path)
    assert time.monotonic() - begun < 60
    assert "plain" in by_name(answer)
    if kind == "huge":
        skills = [one for one in answer.unread if ".agents" in one]
        assert skills == [UNREAD.format(tmp_path / ".agents/skills/odd/SKILL.md", "larger than 4 MiB")]


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_file_stops_a_start(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's start reads the same settings and skills."""
    monkeypatch.chdir(tmp_path)
    for name in ("settings.json", "skills/odd/SKILL.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        KINDS[kind](tmp_path / name)
    assert {*visible_skills(tmp_path, tmp_path).files} <= {"odd"}


def test_any_name_on_disk_is_answered(tmp_path: Path) -> None:
    names = [*NAMES, os.fsdecode(b"\xff"), os.fsdecode(b"\xed\xa0\x80")]
    for name in names:
        path = tmp_path / ".codex" / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text("does it")
    answer = answered(tmp_path)
    assert sorted(one.item.name for one in answer.items) == sorted(map(clean, names))
    for one in answer.items:
        wish = [Wish(one.item.name, "out")]
        if "\ufffd" in one.item.name:
            with pytest.raises(NotApplicable, match="is not Unicode"):
                pruned(tmp_path, answer, wish, NOW_MS)
        else:
            made = pruned(tmp_path, answer, wish, NOW_MS)
            assert all(printable(line).isprintable() for file in made.answer.files for line in file.lines)


@pytest.mark.parametrize("text", ["\ud800", "\udfffa", "a\udc80", "\udce9\udca9", "é\ud83d"])
def test_a_cleaned_name_is_unicode(text: str) -> None:
    clean(text).encode()


# Folders


@contextmanager
def as_another_user(folder: Path) -> Iterator[None]:
    """Act as a user who may read what the folder's modes allow: root may read everything."""
    if os.geteuid():
        yield
        return
    for one in (folder, *folder.rglob("*")):
        os.chown(one, 65_534, 65_534)
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read_is_named_once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name in (
            ".claude/skills/closed",
            ".agents/skills/closed",
            ".codex/skills",
            ".gemini/skills/open",
        ):
            (home / name).mkdir(parents=True)
            (home / name / "SKILL.md").write_text("x")
        closed = [
            home / ".claude/skills/closed",
            home / ".agents/skills/closed/SKILL.md",
            home / ".codex/skills",
        ]
        put(home / ".claude" / "settings.json", {})
        closed.append(home / ".claude" / "settings.json")
        with as_another_user(home):
            for path in closed:
                path.chmod(0)
            answer = answered(home)
            for path in closed:
                path.chmod(0o700)
        closed[0] /= "SKILL.md"
        assert sorted(answer.unread) == sorted(UNREAD.format(path, "Permission denied") for path in closed)
        assert {*by_name(answer)} == {"open"}


def test_loops_and_depths_of_folders_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, _ = claude_home(tmp_path, 2)
    write_skill(home / ".claude" / "skills", "plain", "does it", changed_ms=LONG_AGO_MS)
    for agent in (".codex", ".pi", ".gemini"):
        (home / agent).symlink_to(home / agent)
    (home / ".openclaw").symlink_to(home)
    (home / ".claude" / "commands").symlink_to("/")
    (home / ".claude" / "skills" / "home").symlink_to(home)
    monkeypatch.chdir(home / ".claude" / "projects")
    for _ in range(1_500):
        Path("d").mkdir()
        os.chdir("d")
    begun = time.monotonic()
    answer = answered(home)
    assert time.monotonic() - begun < 60
    for _ in range(1_500):  # the library's removal of a tree is recursive
        os.chdir("..")
        Path("d").rmdir()
    assert answer.sessions == 2
    assert "plain" in by_name(answer)
    assert is_own(home / ".claude" / "projects", home)
    assert not is_own(home / ".codex", tmp_path / "other")


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_no_value_in_a_session_stops_an_inventory(value: str, tmp_path: Path) -> None:
    """Each place of a line has the value alone, and then all of them."""
    for name, lines in SESSIONS.items():
        texts = [
            line.replace("%s", "\0", number).replace("%s", value, 1).replace("%s", '"x"').replace("\0", '"x"')
            for line in lines
            for number in range(line.count("%s"))
        ]
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("\n".join([line.replace("%s", value) for line in lines] + texts))
    answered(tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_a_description_is_read_in_each_form(form: str, tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "skills" / "odd" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(FORMS[form], encoding="utf-8", newline="")
    (one,) = answered(tmp_path).items
    assert one.item.carried == 4
    assert one.item.used == -(-len(FORMS[form].replace("\r", "")) // 4)


def test_a_file_that_changes_while_it_is_read_does_no_harm(tmp_path: Path) -> None:
    """Another thread writes, truncates and replaces a skill and settings while they are read."""
    skill, own = tmp_path / ".agents" / "skills" / "odd" / "SKILL.md", tmp_path / ".claude" / "settings.json"
    for agent in AGENTS:
        (tmp_path / agent / "skills").mkdir(parents=True)
    skill.parent.mkdir(parents=True)
    is_over = threading.Event()

    def change() -> None:
        for number in count():
            new = skill.with_name("new")
            new.write_text(f"---\ndescription: does it {number}\n---\n" * (1 + number % 500))
            new.replace(skill)
            own.write_text("{" * (number % 50))
            skill.unlink(missing_ok=True)
            if number % 3:
                os.mkfifo(skill)
                skill.unlink()
            if is_over.is_set():
                return

    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(100):
            assert {one.item.name for one in answered(tmp_path).items} <= {"odd"}
    finally:
        is_over.set()
        writer.join()


def test_a_folder_of_a_session_may_be_any_text(tmp_path: Path) -> None:
    folders = (
        "/" + "a/" * 500_000,
        "/\0",
        "relative",
        "",
        "/dev/null",
        "/proc/self/fd",
        "/" + "x" * 5_000,
        "//",
    )
    lines = [
        {"type": "user", "sessionId": f"s{number}", "cwd": cwd, "message": {"content": "go"}}
        for number, cwd in enumerate(folders)
    ]
    for number, line in enumerate(lines):
        write_lines(tmp_path / ".claude" / "projects" / "p" / f"{number}.jsonl", line)
    assert answered(tmp_path).sessions == len(folders)


def test_a_call_with_a_long_argument_is_read_in_time(tmp_path: Path) -> None:
    call = {
        "type": "function_call",
        "name": "read",
        "call_id": "c" * 20,
        "arguments": "a" * 12_000_000 + " b/SKILL.md",
    }
    head = {"type": "session_meta", "payload": {"id": "s"}}
    write_lines(
        tmp_path / ".codex" / "sessions" / "a.jsonl", head, {"type": "response_item", "payload": call}
    )
    write_skill(tmp_path / ".codex" / "skills", "b", "does it", changed_ms=LONG_AGO_MS)
    begun = time.monotonic()
    use = by_name(answered(tmp_path))["b"].use
    assert time.monotonic() - begun < 20
    assert use is not None
    assert use.uses == 1


def test_a_home_of_many_hostile_files_is_answered_in_time(tmp_path: Path) -> None:
    """Each limit is for all files together: a hundred files at the limit of one would take minutes."""
    front = "a: [" + "1," * 8_000 + "]"
    for number in range(100):
        folder = tmp_path / ".agents" / "skills" / f"s{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\n{front}\ndescription: does it\n---\n")
        put(tmp_path / ".gemini" / "extensions" / f"e{number}" / "gemini-extension.json", {})
        (tmp_path / ".gemini" / "extensions" / f"e{number}" / "gemini-extension.json").write_text(
            '{"a": [' + "[]," * 60_000 + "]} //"
        )
    write_skill(tmp_path / ".agents" / "skills", "lines", "does it", changed_ms=0, front="k: v\n" * 150_000)
    for agent in AGENTS:
        (tmp_path / agent / "skills").mkdir(parents=True)
    begun = time.monotonic()
    answer = answered(tmp_path)
    assert time.monotonic() - begun < 40
    assert {one.item.carried for one in answer.items if one.item.agent == "pi"} == {4}
    assert sum("front matter" in one for one in answer.unread) == 1
    assert sum("512 KiB" in one for one in answer.unread) == 98


def test_a_prune_of_two_thousand_skills_is_answered_in_time(tmp_path: Path) -> None:
    """The file of the edits is read once, and not for each skill that can go out."""
    for number in range(2_000):
        write_skill(tmp_path / ".codex" / "skills", f"s{number}", "does it", changed_ms=LONG_AGO_MS)
    for number in range(40):
        head = {"timestamp": "2026-06-01T00:00:00Z", "type": "session_meta", "payload": {"id": f"s{number}"}}
        write_lines(tmp_path / ".codex" / "sessions" / f"{number}.jsonl", head)
    gone = tmp_path / ".codex" / "skills" / "s7" / "SKILL.md"
    entry = f'[[skills.config]]\npath = "{gone}"\nenabled = false\n'
    servers = "".join(f'[mcp_servers.m{number}]\ncommand = "x"\n' for number in range(300))
    (tmp_path / ".codex" / "config.toml").write_text(servers + entry)
    begun = time.monotonic()
    only_out = pruned(tmp_path, machine_inventory(tmp_path, NOW_MS), (), NOW_MS).answer.only_out
    assert time.monotonic() - begun < 20
    assert len([one for one in only_out if one.kind == "skill"]) == 1_999


def test_ten_thousand_skills_are_answered_in_time(tmp_path: Path) -> None:
    skills = tmp_path / ".claude" / "skills"
    for number in range(10_001):
        folder = skills / f"s{number:05d}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\ndescription: does it\n---\n")
    for number in range(100):
        line = {"type": "user", "sessionId": f"s{number}", "cwd": str(tmp_path), "message": {"content": "go"}}
        write_lines(tmp_path / ".claude" / "projects" / "p" / f"{number}.jsonl", line)
    begun = time.monotonic()
    answer = answered(tmp_path)
    assert time.monotonic() - begun < 60
    assert len(answer.items) == 10_000
    (unread,) = answer.unread
    assert "10,000" in unread
