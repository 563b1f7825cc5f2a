"""Edits of made-up settings files in TOML and JSON5: nothing is lost, nothing leaks, undo brings back each byte."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.errors import InvalidInput, NotApplicable
from core.installed import json_text, toml_text
from core.installed.json_text import Edit
from core.installed.settings_file import Plan, make, planned, records, take_back, undone, write
from tests.test_settings_files import (
    REFUSED_JSON,
    Settings,
    by_name,
    check_edit_and_undo,
    check_undo_after_others,
    is_killed,
    worlds,
    write_file,
)

FILES = 1000
SERVERS = ("docs", "my server", "a.b", 'quo"te', "日本", "git-hub")
SKILLS = ("/home/me/.codex/skills/pdf/SKILL.md", '/home/me/.codex/skills/odd "name"/SKILL.md')

CODEX = """# mine
model = "gpt"

[mcp_servers.docs]  # the documents
command = "npx"
args = [
  "-y",
]
  # in between

[mcp_servers.docs.env]
TOKEN = "ghp_x"
"""

REFUSED = {
    **{("settings.json", text): words for text, words in REFUSED_JSON.items()},
    ("config.toml", "[mcp_servers.docs]\ncommand = \n"): "must be TOML; line 2 is not",
    ("config.toml", "[a]\n[a]\n"): "must be TOML; line 2 is not",
    ("config.toml", '[mcp_servers.docs]\nenabled = "ghp_secret"\n'): "and has something else",
    ("config.toml", "mcp_servers = 1\n"): "in the form that the file gives it",
    ("config.toml", "[[mcp_servers.docs]]\ncommand = 1\n"): "in the form that the file gives it",
    ("openclaw.json", '{mcp: {servers: {docs: {enabled: "ghp_secret"}}}}'): "and has something else",
    ("openclaw.json", "{mcp: {servers: {$include: './ghp_secret.json5'}}}"): "$include names others",
    ("openclaw.json", "{mcp: {}, 'm\\x63p': {}}"): 'once, got "mcp" twice',
    ("openclaw.json", "{a: 010}"): "must be JSON5; line 1 is not",
    ("openclaw.json", "{a: 'x\ny'}"): "must be JSON5; line 1 is not",
    ("openclaw.json", "{a-b: 1}"): "must be JSON5; line 1 is not",
    ("openclaw.json", "{a: '\\1'}"): "must be JSON5; line 1 is not",
}


def off(*keys: str) -> Edit:
    return Edit(action="set", keys=keys, value=False, over=(True,))


EDITED = {
    "config.toml": off("mcp_servers", "docs", "enabled"),
    "openclaw.json": off("mcp", "servers", "docs", "enabled"),
    "settings.json": by_name("pdf"),
}


@dataclass
class TomlSettings(Settings):
    """A settings file of Codex CLI of one draw."""

    def __post_init__(self) -> None:
        rng = self.rng
        self.newline = rng.choice(("\n", "\n", "\r\n"))
        self.is_dotted = rng.random() < 0.15
        self.servers = rng.sample(SERVERS, rng.randrange(4))
        self.skills = rng.sample(SKILLS, rng.randrange(3))
        top = [*self._pairs(("model", '"gpt"'), ("tools.web_search", "true"), ("notify", self._list()))]
        if self.is_dotted:
            for name in self.servers:
                top += self._server(f"mcp_servers.{self._key(name)}.")
        tables = [self._table(["[projects.", '"/home/me/work"', "]"], [("trust_level", "'trusted'")])]
        tables.append(self._table(["[tui]"], [("text", self._long()), ("at", "1979-05-27T07:32:00Z")]))
        tables += [self._skill(path) for path in self.skills]
        if not self.is_dotted:
            tables += self._servers()
        rng.shuffle(tables)
        lines = [*top, *(line for table in tables for line in table)]
        text = self.newline.join(lines) + (self.newline if lines and rng.random() < 0.8 else "")
        self.text = rng.choice(("", "", "", "\ufeff")) + ("" if rng.random() < 0.05 else text)
        self.values = tomllib.loads(self.text.removeprefix("\ufeff"))

    def _key(self, name: str) -> str:
        if re.fullmatch(r"[A-Za-z0-9_-]+", name) and self.rng.random() < 0.8:
            return name
        return f"'{name}'" if self.rng.random() < 0.4 else json.dumps(name, ensure_ascii=False)

    def _list(self) -> str:
        rng, line = self.rng, self.newline
        if rng.random() < 0.5:
            return f'["--token", "{self.secret()}"]'
        return f'[{line}  "a]", # {self.secret()} ]{line}  {{ x = "}}" }},{line}  [1, [2]],{line}]'

    def _long(self) -> str:
        line = self.newline
        inner = f"{line}[mcp_servers.docs]{line}enabled = true # {self.secret()}{line}"
        return self.rng.choice(
            (f'"""{inner}\\""" said ""it"""""', f"'''{inner} ''it'''''", '"# none"', "'\\'")
        )

    def _comment(self) -> str:
        return f"  # {self.secret()} = [1" if self.rng.random() < 0.25 else ""

    def _pairs(self, *pairs: tuple[str, str]) -> list[str]:
        rng = self.rng
        lines = []
        for key, value in pairs:
            gap = rng.choice((" ", " ", "", "\t"))
            lines.append(f"{key}{gap}={gap}{value}{self._comment()}")
            if rng.random() < 0.2:
                lines.append(rng.choice(("", "# enabled = true", "   ", "#")))
        return lines

    def _table(self, head: list[str], pairs: list[tuple[str, str]]) -> list[str]:
        indent = self.rng.choice(("", "", "  ", "\t"))
        lines = [f"{''.join(head)}{self._comment()}", *self._pairs(*pairs)]
        return [f"{indent}{line}" for line in lines] + [""] * self.rng.randrange(3)

    def _members(self) -> list[tuple[str, str]]:
        rng = self.rng
        members = [("command", '"npx"'), ("args", self._list()), ('"env.x"', f'"{self.secret()}"')]
        members += [("enabled", rng.choice(("true", "false")))] * (rng.random() < 0.4)
        rng.shuffle(members)
        return members

    def _server(self, above: str) -> list[str]:
        return self._pairs(*((f"{above}{key}", value) for key, value in self._members()))

    def _servers(self) -> list[list[str]]:
        rng = self.rng
        tables, inner = [], []
        for name in self.servers:
            key = self._key(name)
            style = rng.choice(("header", "header", "inline", "dotted", "below"))
            if style == "header":
                tables.append(self._table(["[mcp_servers.", key, "]"], self._members()))
                if rng.random() < 0.5:
                    env = ["[ mcp_servers . ", key, " . env ]"]
                    tables.append(self._table(env, [("K", f'"{self.secret()}"')]))
            elif style == "inline":
                pairs = [f"{one} = {value}" for one, value in self._members() if "\n" not in value]
                space = rng.choice(("", " "))
                inner += self._pairs((key, f"{{{space}{', '.join(pairs)}{space}}}"))
            elif style == "dotted":
                inner += self._server(f"{key}.")
            else:
                tables.append(self._table(["[mcp_servers.", key, ".env]"], [("K", f'"{self.secret()}"')]))
        if inner:
            tables.append([f"[mcp_servers]{self._comment()}", *inner])
        return tables

    def _skill(self, path: str) -> list[str]:
        pairs = [("path", json.dumps(path)), ("enabled", self.rng.choice(("true", "false")))]
        return self._table(["[[", "skills.config", "]]"], pairs)

    def edits(self) -> list[Edit]:
        rng = self.rng
        drawn = [off("mcp_servers", name, "enabled") for name in rng.sample(SERVERS, rng.randrange(1, 4))]
        drawn += [
            Edit(action="add", keys=("skills", "config"), value={"path": path, "enabled": False})
            for path in rng.sample(SKILLS, rng.randrange(2))
        ]
        return drawn

    def changed(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return a text as others have changed it, and the values that they gave."""
        line = self.newline
        end = "" if not text.strip("\ufeff") or text.endswith("\n") else line
        theirs = f'{end}{line}[theirs]{line}key = "{self.secret()}"  # {self.secret()}{line}'
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        head = f"# {self.secret()}{line}"
        return f"{mark}{head}{text.removeprefix(mark)}{theirs}", {"theirs": {"key": self.secrets[-3]}}


class Json5Settings(Settings):
    """A settings file of OpenClaw of one draw."""

    commas = True

    def _drawn(self) -> dict[str, Any]:
        rng = self.rng
        skill = {"apiKey": self.secret(), "env": {"API_KEY": self.secret()}}
        server = {"command": "npx", "args": ["--token", self.secret()], "nested": [[1, {"a": 2}]]}
        entries: dict[str, Any] = {
            name: {**skill, **({"enabled": rng.choice((True, False))} if rng.random() < 0.5 else {})}
            for name in rng.sample(SERVERS, rng.randrange(4))
        }
        every: dict[str, Any] = {
            "agents": {"list": [{"id": "main"}, {}], "$odd_1": [255, 0.5, -7, None, True, 1000.0]},
            "skills": {"load": {"watch": True}, **({"entries": entries} if rng.random() < 0.8 else {})},
            "mcp": {"servers": {name: dict(server) for name in rng.sample(SERVERS, rng.randrange(3))}},
            "it's": 'it\'s "so" \u2028 \\ \t // no comment',
            self.secret(): {"unknown": self.secret()},
        }
        chosen = rng.sample(sorted(every), rng.randrange(len(every) + 1))
        return {name: every[name] for name in chosen}

    def _key(self, name: str) -> str:
        is_plain = re.fullmatch(r"[A-Za-z_$][\w$]*", name) is not None
        return name if is_plain and self.rng.random() < 0.7 else self._scalar(name)

    def _scalar(self, value: object) -> str:
        rng = self.rng
        if isinstance(value, str):
            if rng.random() < 0.5:
                return json.dumps(value, ensure_ascii=rng.random() < 0.5)
            plain = value.replace("\\", "\\\\").replace("'", rng.choice(("\\'", "\\x27")))
            middle = rng.randrange(len(plain) + 1)
            if rng.random() < 0.3 and "\\" not in plain[:middle]:
                plain = f"{plain[:middle]}\\{self.newline}{plain[middle:]}"
            return f"'{plain}'"
        if value == 255 and rng.random() < 0.5:
            return rng.choice(("0xff", "+0XFF", "255."))
        if value == 0.5 and rng.random() < 0.5:
            return rng.choice((".5", "+.5", "5e-1"))
        return json.dumps(value)

    def edits(self) -> list[Edit]:
        rng = self.rng
        drawn = [
            off("skills", "entries", name, "enabled") for name in rng.sample(SERVERS, rng.randrange(1, 4))
        ]
        return [*drawn, *(off("mcp", "servers", name, "enabled") for name in rng.sample(SERVERS, 1))]

    def changed(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return a text as others have changed it, and the values that they gave."""
        at = text.index("{") + 1 if "{" in text and not text.lstrip("\ufeff").startswith("//") else None
        if at is None or not json_text.parsed(text, is_json5=True):
            return f"{text}{self.newline}// {self.secret()}", {}
        new = f"/* {self.secret()} */ 'theirs': {{ key: '{self.secret()}', }},"
        return f"{text[:at]}{new}{text[at:]}", {"theirs": {"key": self.secrets[-1]}}


FORMS: dict[str, tuple[str, type[TomlSettings | Json5Settings]]] = {
    "toml": ("config.toml", TomlSettings),
    "json5": ("openclaw.json", Json5Settings),
}


def values_of(form: str, text: str) -> dict[str, Any]:
    return (
        tomllib.loads(text.removeprefix("\ufeff"))
        if form == "toml"
        else json_text.parsed(text, is_json5=True)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", worlds("forms", FILES))
def test_an_edit_touches_its_own_keys_and_its_undo_brings_back_each_byte(
    form: str, numbers: range, tmp_path: Path
) -> None:
    name, kind = FORMS[form]
    for number in numbers:
        settings = kind(Random(f"{form} {number}"))
        check_edit_and_undo(
            settings, tmp_path / str(number) / name, number, partial(values_of, form), ["true"]
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", worlds("others", FILES))
def test_an_undo_keeps_the_changes_of_others_and_names_them(
    form: str, numbers: range, tmp_path: Path
) -> None:
    name, kind = FORMS[form]
    for number in numbers:
        settings, theirs = kind(Random(f"{form} {number}")), set[str]()

        def change(
            now: str, settings: TomlSettings | Json5Settings = settings, theirs: set[str] = theirs
        ) -> tuple[str, dict[str, Any]]:
            changed, values = settings.changed(now)
            theirs.update(values)
            return changed, {**settings.values, **values}

        path = tmp_path / str(number) / name
        plans = check_undo_after_others(settings, path, partial(values_of, form), change)
        unnamed = ("comments, white space or the order changed",)
        assert plans is None or plans[1].others == (("theirs was added",) if theirs else unnamed)


def plans_of(edits: dict[Path, list[Edit]]) -> list[Plan]:
    return [plan for path, own in edits.items() if (plan := planned(path, own)) is not None]


def take_all_back(folder: Path) -> None:
    for record in records(folder):
        backs = [back for change in record.changes if (back := undone(change)) is not None]
        take_back(record, backs, folder, 2)


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("is_undo", [False, True])
def test_a_kill_at_any_step_leaves_whole_files_and_an_undo(is_undo: bool, step: int, tmp_path: Path) -> None:
    """One prune edits a file of each form. Then a skill that an edit names by its path gets another name."""
    kinds = {"settings.json": Settings, "config.toml": TomlSettings, "openclaw.json": Json5Settings}
    drawn = {name: kind(Random("killed 18")) for name, kind in kinds.items()}
    drawn_edits = {name: settings.edits() for name, settings in drawn.items()}
    assert all(mark in one.text for mark, one in zip(("//", "#", "//"), drawn.values(), strict=True))
    n_lines, was_killed, outcomes = 1, True, set()
    while was_killed:
        home = tmp_path / str(n_lines)
        skill, folder = home / "skills" / "pdf" / "SKILL.md", home / "edits"
        edits = {home / name.partition(".")[0] / name: [*own] for name, own in drawn_edits.items()}
        for path, settings in zip((*edits, skill), (*drawn.values(), drawn["settings.json"]), strict=True):
            path.parent.mkdir(parents=True)
            write_file(path, settings)
        value = {"path": str(skill), "enabled": False}
        edits[home / "config" / "config.toml"].append(
            Edit(action="add", keys=("skills", "config"), value=value)
        )
        before, plans = [path.read_bytes() for path in edits], plans_of(edits)
        after = [(plan.text or "").encode() for plan in plans]
        work = partial(make, plans, "test", folder, 1)
        if is_undo:
            work()
        was_killed = is_killed(partial(take_all_back, folder) if is_undo else work, n_lines)
        now = [path.read_bytes() for path in edits]
        assert all(one in pair for one, *pair in zip(now, before, after, strict=True))
        outcomes.add(tuple(one == old for one, old in zip(now, before, strict=True)))
        skill.parent.rename(home / "skills" / "moved")
        take_all_back(folder)
        assert [path.read_bytes() for path in edits] == before
        make(plans_of(edits), "test", folder, 3)
        assert [one for path in edits for one in path.parent.iterdir()] == [*edits]
        assert (home / "skills" / "moved" / "SKILL.md").read_bytes() == before[0]
        n_lines += step
    assert outcomes == {tuple((n < number) is not is_undo for number in (1, 2, 3)) for n in range(4)}


# Examples


def test_a_documented_file_keeps_its_form(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CODEX)
    skill = {"path": SKILLS[0], "enabled": False}
    edits = [
        off("mcp_servers", "docs", "enabled"),
        Edit(action="add", keys=("skills", "config"), value=skill),
    ]
    plan = planned(path, edits)
    assert plan is not None
    assert plan.shown == (
        "+ mcp_servers.docs.enabled = false",
        f'+ skills.config has {{"enabled":false,"path":"{SKILLS[0]}"}}',
    )
    skills = f'\n[[skills.config]]\npath = "{SKILLS[0]}"\nenabled = false\n'
    expected = CODEX.replace("]\n  # in", "]\nenabled = false\n  # in") + skills
    assert plan.text == expected


@pytest.mark.parametrize("case", REFUSED)
def test_a_text_that_leaves_doubt_is_refused_without_its_values(
    case: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / case[0]
    path.write_text(case[1])
    with pytest.raises((InvalidInput, NotApplicable)) as refused:
        planned(path, [EDITED[case[0]]])
    assert REFUSED[case] in str(refused.value)
    assert "ghp_secret" not in str(refused.value)
    assert path.read_text() == case[1]


def test_a_list_in_one_line_of_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('skills = { config = [{ path = "/a", enabled = false }] }\n')
    with pytest.raises(NotApplicable):
        planned(path, [Edit(action="add", keys=("skills", "config"), value={"path": "/b", "enabled": False})])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 'x\\\ny'}", "xy"),
        ("{a: '\\x41\\u0042\\v\\0'}", "AB\v\0"),
        ("{a: -Infinity}", float("-inf")),
        ("{a: +0x1F}", 31),
        ("{a: 5.}", 5.0),
        ("\ufeff{\u00a0a\u2028:\u3000// note\u20281}", 1),
        ('{"\\u0061": "\\ud83d\\ude00"}', "\U0001f600"),
    ],
)
def test_the_forms_of_json5_are_read(text: str, value: object) -> None:
    assert json_text.parsed(text, is_json5=True) == {"a": value}


def test_an_undo_of_a_tables_file_leaves_our_key_where_others_changed_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CODEX)
    plan = planned(path, [off("mcp_servers", "docs", "enabled")])
    assert plan is not None
    assert plan.change is not None
    write(plan)
    path.write_text(path.read_text().replace("enabled = false", "enabled = true"))
    back = undone(plan.change)
    assert back is not None
    assert (back.left, back.shown) == (("mcp_servers.docs.enabled",), ())


def test_a_line_of_ours_with_a_comment_of_others_keeps_the_comment() -> None:
    edits = [Edit(action="unset", keys=("a", "on"), value=False)]
    text = "[a]\non = false # why\n"
    assert toml_text.edited(text, edits).text == text.replace("on = false", "")
