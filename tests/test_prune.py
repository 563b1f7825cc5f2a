"""Prune: its edits are those of the proposals and have the named effect. An undo brings back each byte."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from core.errors import ArmscopeError, InvalidInput, NotApplicable
from core.flows.trials.plan import read_trial
from core.installed.answer import machine_inventory
from core.installed.prune import WAYS, Prune, Wish, pruned
from core.installed.settings_file import make, records, take_back, undone, values_of
from tests.doors.conftest import Shell, document, error, shell
from tests.flows.test_trials import results_of
from tests.test_inventory import DAY_MS, NOW_MS, PlannedSession, put, quarter, write_session, write_skill
from tests.test_settings_files import Settings, write_file
from tests.worlds import context_at

__all__ = ["shell"]

OLD_MS = NOW_MS - 100 * DAY_MS
HOMES = 200

CODEX_SKILL = {"path": ".codex/skills/draw/SKILL.md", "enabled": False}
"""Entry by which a skill of Codex CLI goes out, with the path below the home folder."""
OUT = {
    "skill-0": ("home/.claude/settings.json", ("skillOverrides", "skill-0"), "off"),
    "deploy": ("work/.claude/settings.local.json", ("skillOverrides", "deploy"), "off"),
    "kit@market": ("home/.claude/settings.json", ("enabledPlugins", "kit@market"), False),
    "kit": ("home/.claude/settings.json", ("enabledPlugins", "kit@market"), False),
    "kit:a": ("home/.claude/settings.json", ("enabledPlugins", "kit@market"), False),
    "gh": ("work/.claude/settings.local.json", ("disabledMcpjsonServers",), ["gh"]),
    "web": ("home/.claude/settings.json", ("permissions", "deny"), ["mcp__web__*"]),
    "mcp__web__a": ("home/.claude/settings.json", ("permissions", "deny"), ["mcp__web__a"]),
    "gem": ("home/.gemini/settings.json", ("mcp", "excluded"), ["gem"]),
    "sparkle": ("home/.gemini/settings.json", ("skills", "disabled"), ["sparkle"]),
    "oc": ("home/.config/opencode/opencode.jsonc", ("mcp", "oc", "enabled"), False),
    "docs": ("home/.codex/config.toml", ("mcp_servers", "docs", "enabled"), False),
    "draw": ("home/.codex/config.toml", ("skills", "config"), [CODEX_SKILL]),
    "claw": ("home/.openclaw/openclaw.json", ("mcp", "servers", "claw", "enabled"), False),
    "lobster": ("home/.openclaw/openclaw.json", ("skills", "entries", "Red Lobster", "enabled"), False),
    "shrimp": ("home/.openclaw/openclaw.json", ("skills", "entries", "shrimp-key", "enabled"), False),
}
"""Names, and the file, path of keys and value by which each of them goes out."""

SHRIMP = 'name: prawn\nmetadata: {"openclaw": {"skillKey": "shrimp-key"}}'

REFUSED = {
    ("docs", "by name"): "no documented setting of Codex CLI puts a server by name",
    ("draw", "user only"): "no documented setting of Codex CLI puts a skill user only",
    ("lobster", "by name"): "no documented setting of OpenClaw puts a skill by name",
    ("ext", "out"): "it belongs to an extension",
    ("CLAUDE.md", "out"): "does not switch a file",
    ("kit", "by name"): "goes out only as a whole",
    ("web", "user only"): "no documented setting",
    ("sparkle", "by name"): "no documented setting",
}

SAVING = {
    "gh": ["Without 1 item, a session carries less. By how much is unknown: no file gives the size."],
    "deploy": ["Without 1 item, a session in {work} carries about 5 tokens less."],
    "deploy skill-0 gh": [
        "Without 3 items, a session carries about {own} tokens less.",
        "Without 3 items, a session in {work} carries about {all} tokens less.",
        "No file gives the size of 1 item, so this saving is a lower bound.",
    ],
}


class Home:
    """A home folder of one draw: skills, a plugin, servers, and settings with secrets."""

    def __init__(self, folder: Path, seed: object) -> None:
        self.dice = Random(str(seed))
        self.path, self.project = folder / "home", folder / "work"
        self.secrets: list[str] = []
        self.skills = {f"skill-{number}": f"does {number} " * self.dice.randint(1, 9) for number in range(5)}
        self.used = self.dice.sample(sorted(self.skills), 2)
        for name, words in self.skills.items():
            write_skill(self.path / ".claude" / "skills", name, words, changed_ms=OLD_MS)
        write_skill(self.project / ".claude" / "skills", "deploy", "sends it", changed_ms=OLD_MS)
        root = self.path / ".claude" / "plugins" / "kit"
        for name in ("a", "b"):
            write_skill(root / "skills", name, f"does {name}", changed_ms=OLD_MS)
        plugins = {"kit@market": [{"scope": "user", "installPath": str(root)}]}
        put(self.path / ".claude" / "plugins" / "installed_plugins.json", {"plugins": plugins})
        self._servers(self.project / ".mcp.json", "gh")
        self._servers(self.path / ".claude.json", "web")
        for file in (".claude/settings.json", ".gemini/settings.json", ".config/opencode/opencode.jsonc"):
            (self.path / file).parent.mkdir(parents=True, exist_ok=True)
            self._settings(self.path / file)
        offered = [*self.skills, "deploy", "kit:a", "kit:b"]
        for number in range(31):
            loads = [self.dice.choice(self.used)] if number else self.used
            session = PlannedSession(f"s{number}", self.project, NOW_MS - number * DAY_MS * 2, offered)
            session.tools, session.loads = ["mcp__web__a", "mcp__web__b"], loads
            write_session(self.path, session)

    def _servers(self, path: Path, name: str) -> None:
        secret = f"ghp_{self.dice.getrandbits(180):036x}"[:40]
        self.secrets.append(secret)
        put(path, {"mcpServers": {name: {"command": "x", "args": [secret], "env": {"TOKEN": secret}}}})
        os.utime(path, (OLD_MS / 1000, OLD_MS / 1000))

    def _settings(self, path: Path) -> None:
        settings = Settings(self.dice)
        while any(one in settings.values for one in ("skillOverrides", "enabledPlugins", "permissions")):
            self.secrets += settings.secrets
            settings = Settings(self.dice)
        self.secrets += settings.secrets
        write_file(path, settings)

    def content(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.path.parent)): path.read_bytes()
            for path in sorted(self.path.parent.rglob("*"))
            if path.is_file() and "edits" not in path.parts
        }

    def prune(self, *wishes: Wish, days: int = 0) -> Prune:
        now_ms = NOW_MS + days * DAY_MS
        earlier = records(self.path.parent / "edits")
        return pruned(self.path, machine_inventory(self.path, now_ms), wishes, now_ms, earlier)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(1, HOMES, 20), id="part"),
        *(pytest.param(range(n, n + 50), id=str(n), marks=pytest.mark.long) for n in range(0, HOMES, 50)),
    ],
)
def test_the_edits_have_the_effect_that_is_named_and_an_undo(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        home = Home(tmp_path / str(seed), seed)
        folder = tmp_path / str(seed) / "edits"
        before, inventory = home.content(), machine_inventory(home.path, NOW_MS)
        result = home.prune()
        assert home.content() == before, "a preview wrote something"
        unused = sorted(home.skills.keys() - home.used)
        assert sorted(one.name for one in result.answer.items) == ["deploy", *unused]
        lines = {name: f"- {name}: {' '.join(words.split())}" for name, words in home.skills.items()}
        assert result.answer.saves == sum(quarter(lines[name]) - quarter(f"- {name}") for name in unused)
        names = {one.name: (one.parts, one.saves) for one in result.answer.only_out}
        assert names["kit@market"] == (2, quarter("- kit:a: does a") + quarter("- kit:b: does b"))
        assert names["web"] == (2, 2 * quarter("mcp__web__a")), "its tools are by name"
        assert names["gh"] == (1, None)
        assert names.keys() == {"kit@market", "web", "gh"}
        record = make(result.plans, "prune", folder, NOW_MS)
        after = machine_inventory(home.path, NOW_MS)
        saved = (result.answer.saves, *result.answer.saves_in.values())
        assert inventory.carried - after.carried == sum(filter(None, saved))
        assert {name for name, content in home.content().items() if before.get(name) != content} == {
            "home/.claude/settings.json",
            "work/.claude/settings.local.json",
        }
        assert home.prune().answer.items == ()
        later = {one.name: one.state for one in home.prune(days=31).answer.items}
        assert later == dict.fromkeys(["deploy", *unused], "user only")
        seen = msgspec.json.encode(result.answer) + b"".join(path.read_bytes() for path in folder.iterdir())
        assert not [secret for secret in home.secrets if secret.encode() in seen]
        backs = [back for change in record.changes if (back := undone(change)) is not None]
        take_back(record, backs, folder, NOW_MS)
        assert home.content() == before


def _others(home: Home) -> None:
    put(home.path / ".gemini" / "settings.json", {"mcpServers": {"gem": {"command": "x"}}})
    put(home.path / ".gemini" / "extensions" / "e" / "gemini-extension.json", {"mcpServers": {"ext": {}}})
    write_skill(home.path / ".gemini" / "skills", "sparkle", "shines", changed_ms=OLD_MS)
    opencode = home.path / ".config" / "opencode" / "opencode.jsonc"
    opencode.write_text(
        '{\n  // servers\n  "mcp": {"oc": {"type": "local", "environment": {"K": "V"}},},\n}\n'
    )
    write_skill(home.path / ".codex" / "skills", "draw", "draws", changed_ms=OLD_MS)
    (home.path / ".codex" / "config.toml").write_text('[mcp_servers.docs] # mine\ncommand = "x"\n')
    for name, front in (("lobster", "name: Red Lobster"), ("shrimp", SHRIMP)):
        path = home.path / ".openclaw" / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\n{front}\ndescription: cooks\n---\n")
    openclaw = "{\n  // mine\n  mcp: { servers: { claw: { command: 'x', env: { K: 'V' } } } },\n}\n"
    (home.path / ".openclaw" / "openclaw.json").write_text(openclaw)
    (home.path / ".claude" / "CLAUDE.md").write_text("Be brief.")


@pytest.mark.parametrize("name", OUT)
def test_each_kind_goes_out_by_its_own_setting(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path, "out")
    _others(home)
    before = home.content()
    result = home.prune(Wish(name, "out"))
    assert len(result.answer.items) == 1
    record = make(result.plans, "prune", tmp_path / "edits", NOW_MS)
    file, keys, value = OUT[name]
    assert [file] == [one for one, content in home.content().items() if before.get(one) != content]
    values: Any = values_of(tmp_path / file, (tmp_path / file).read_text(encoding="utf-8"))
    for key in keys:
        values = values[key]
    if value == [CODEX_SKILL]:
        value = [{**CODEX_SKILL, "path": str(home.path / str(CODEX_SKILL["path"]))}]
    assert values == value
    agent = result.answer.items[0].agent
    after = {
        one.item.name: one.item
        for one in machine_inventory(home.path, NOW_MS).items
        if one.item.agent == agent
    }
    if name in after and agent in {"Codex CLI", "opencode", "OpenClaw"}:
        assert (after[name].state, home.prune(Wish(name, "out")).plans) == ("out", ())
    back = undone(record.changes[0])
    assert back is not None
    take_back(record, [back], tmp_path / "edits", NOW_MS)
    assert home.content() == before


@pytest.mark.parametrize("wish", REFUSED)
def test_a_state_without_a_documented_setting_is_refused(wish: tuple[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path, "refused")
    _others(home)
    name, state = msgspec.convert(wish, tuple[str, object])
    with pytest.raises(NotApplicable) as refused:
        home.prune(Wish(*msgspec.convert((name, state), Wish)))
    assert REFUSED[wish] in str(refused.value)


def test_an_unknown_name_gets_near_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="skill-0"):
        Home(tmp_path, "names").prune(Wish("skil-0", "out"))


def test_a_plugin_with_a_use_is_not_offered(tmp_path: Path) -> None:
    home = Home(tmp_path, "plugin")
    session = PlannedSession("s", home.project, NOW_MS, loads=["kit:b"])
    write_session(home.path, session)
    answer = home.prune().answer
    assert "kit@market" not in [one.name for one in answer.only_out]


@pytest.mark.parametrize("version", [2, 4])
def test_a_project_file_that_git_tracks_is_not_edited(version: int, tmp_path: Path) -> None:
    home = Home(tmp_path, "git")
    local = home.project / ".claude" / "settings.local.json"
    local.write_text("{}")

    def git(*arguments: str) -> None:
        command = ["git", "-c", f"index.version={version}", "-C", str(home.project), *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init")
    put(home.project / ".claude" / "settings.json", {})
    git("add", "-A", "--", ".mcp.json", ".claude/settings.json", ".claude/skills")
    assert "deploy" in [one.name for one in home.prune().answer.items]
    git("add", "-A", "-f")
    answer = home.prune().answer
    assert "deploy" not in [one.name for one in answer.items]
    assert [str(local) in one for one in answer.refused] == [True]
    assert answer.items
    with pytest.raises(NotApplicable):
        home.prune(Wish("deploy", "out"))
    assert local.read_text() == "{}"


def test_a_setting_with_an_unknown_value_stays(tmp_path: Path) -> None:
    home = Home(tmp_path, "unknown")
    (home.path / ".claude" / "settings.json").write_text('{"skillOverrides": {"skill-0": {"key": "ghp_x"}}}')
    with pytest.raises(ArmscopeError) as refused:
        home.prune(Wish("skill-0", "out"))
    assert "ghp_x" not in str(refused.value)


def test_each_row_cites_the_documentation() -> None:
    for way in WAYS:
        assert bool(way.setting) == way.address.startswith("https://") == bool(way.sentence)


# The command


def test_the_command_shows_writes_and_takes_back(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "world", "command")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    before = home.content()
    options = ("--home", home.path, "--out", "skill-0")
    read_trial(context_at(tmp_path / "a.db"), results_of(arm="skill:own:skill-0"))
    preview = document(shell("prune", *options, "--database", tmp_path / "a.db", "--json"))
    assert (preview["number"], home.content()) == (None, before)
    assert [one.split(". ")[0] for one in preview["verdicts"]] == ["skill:own:skill-0: helps"]
    assert preview["files"][0]["lines"] == ['+ skillOverrides.skill-0 = "off"']
    code, _, err = shell("prune", *options)
    assert (code, err) == (0, "")
    assert document(shell("prune", *options, "--yes", "--json"))["number"] == 1
    assert home.content() != before
    undo = document(shell("prune", "--undo", "--json"))
    assert (undo["is_done"], undo["left"], undo["others"]) == (False, [], [])
    assert document(shell("prune", "--undo", "--yes", "--json"))["is_done"] is True
    assert home.content() == before
    error(shell("prune", "--undo", "--json"), 1, "unknown_act")
    again = document(shell("prune", "--undo", "--number", "1", "--yes", "--json"))
    assert (again["files"], home.content()) == ([], before)
    assert [one.number for one in records(tmp_path / "data" / "armscope" / "edits")] == [1]
    assert len(document(shell("prune", "--ways", "--json"))) == len(WAYS)
    for wrong in (("--undo", "--out", "x"), ("--number", "1")):
        assert shell("prune", *wrong)[0] == 2


@pytest.mark.parametrize(
    "options",
    ["", "--by-name skill-0", "--user-only skill-1 --out skill-2", "--out kit --out web --by-name skill-3"],
)
def test_the_printed_command_makes_the_edits_that_were_shown(
    options: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "a world", "printed")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    named = [*options.split(), "--home", home.path]
    shown = document(shell("prune", *named, "--json"))["files"]
    assert shown
    _, out, _ = shell("prune", *named)
    command = shlex.split(out.splitlines()[-1].partition("edits: ")[2])
    assert command[0] == "armscope"
    made = document(shell(*command[1:], "--json"))
    assert (made["files"], made["number"]) == (shown, 1)
    _, out, _ = shell("prune", "--home", home.path)
    assert [
        shlex.split(one.partition("why: armscope ")[2]) for one in out.splitlines() if "See why" in one
    ] == ([] if options else [["inventory", "--home", str(home.path)]])
    _, out, _ = shell("inventory", "--home", home.path)
    for line in (one for one in out.splitlines() if one.startswith("Take out")):
        again = shlex.split(line.partition(": armscope ")[2])
        assert again == ["prune", "--home", str(home.path)]


def test_what_was_used_is_named_before_it_goes_out(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "world", "used")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    known = document(shell("inventory", "--home", home.path, "--all", "--json"))["items"]
    use = {one["item"]["name"]: one["use"] for one in known if one["use"] is not None}
    for name in home.skills:
        used = use[name]
        (item,) = document(shell("prune", "--out", name, "--home", home.path, "--json"))["items"]
        figures = ("sessions", "offered", "last_ms")
        assert [item[one] for one in figures] == [used[one] for one in figures]
        _, out, _ = shell("prune", "--out", name, "--home", home.path)
        assert (f"{name} was used in {used['sessions']} of 31 sessions, last " in out) == (name in home.used)


@pytest.mark.parametrize("seed", range(4))
def test_the_time_of_a_file_is_no_reason_where_sessions_list_the_item(seed: int, tmp_path: Path) -> None:
    """Dotfiles that were cloned today are as old as the first session that had them on offer."""
    home = Home(tmp_path / "world", seed)
    before = home.prune().answer
    for path in home.path.parent.rglob("SKILL.md"):
        os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    assert before.items
    assert home.prune().answer == before


@pytest.mark.parametrize("names", SAVING)
def test_the_saving_is_in_words_and_unknown_stays_unknown(
    names: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "world", "command")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    own = quarter(f"- skill-0: {' '.join(home.skills['skill-0'].split())}")
    wishes = [word for name in names.split() for word in ("--out", name)]
    code, out, err = shell("prune", "--home", home.path, *wishes)
    assert (code, err) == (0, "")
    figures = {"work": home.project, "own": own, "all": own + quarter("- deploy: sends it")}
    expected = " ".join(SAVING[names]).format(**figures)
    assert expected in " ".join(out.split())


def test_a_person_is_asked_and_a_change_since_is_refused(tmp_path: Path) -> None:
    """On a terminal, with a real file that changes while the question waits."""
    home = Home(tmp_path / "world", "asked")
    path = home.path / ".claude" / "settings.json"
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(HOME=str(home.path), XDG_DATA_HOME=str(tmp_path / "data"))
        program = "from dashboard.launch import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", program, "prune", "--out", "skill-0"])
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(terminal, 4096)
    path.write_bytes(path.read_bytes() + b" ")
    changed = path.read_bytes()
    os.write(terminal, b"y\n")
    try:
        while part := os.read(terminal, 4096):
            seen += part
    except OSError:  # the other end has closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert b"changed since" in b" ".join(seen.split())
    assert path.read_bytes() == changed
