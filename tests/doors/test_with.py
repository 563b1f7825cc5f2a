"""The loop closed for Claude Code: each session starts with a selection of its own, and is imported once."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.flows.launch import prepare
from core.flows.learn import record
from core.flows.queries import posteriors
from core.flows.queries.run import run as run_story
from core.flows.settings import change
from core.installed.launch import LEFT_OUT
from core.records.arm import Arm, skill_key
from core.records.run import Call, Inventory, Run
from tests.doors.claude_world import SKILLS, World
from tests.waiting import until

LEFT_OUT_BY = ("k", "budget")
DEATHS = ("before start", "after start", "in turn", "before end", "after end")

FRESH = ("new", "clear", "compact", "die")
KINDS = (*FRESH, "resume", "continue", "fork", "plain")

SETTINGS = (
    b'{\r\n\t"model": "opus",\r\n\t"hooks": {"SessionEnd": [ ]},\r\n\t"env": {"TOKEN": "s3cret"}\r\n}',
    None,
    b"",
    b"{}",
    b'{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}], "Stop": []}, "z": 1}\n\n',
    '{\n  // a comment\n  "ünknown": [1, 2,], /* another */\n}\n'.encode(),
)
OFTEN, *RARELY = SETTINGS


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return World(tmp_path)


@pytest.fixture
def chosen(world: World) -> World:
    """A world whose learner puts two of four skills into a session, every second by coin."""
    world.settle(k=2, baseline_rate=0.3)
    return world


def starts(world: World) -> list[dict[str, Any]]:
    return [line for line in world.lines if "arguments" in line]


# A start


def test_all_but_the_settings_passes_through(chosen: World) -> None:
    before = chosen.files()
    done = chosen.run("with", "claude", "--", "--echo", "-x", "a b", "--flag=1", input=b"words")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"WORDS", b"to standard error")
    arguments = starts(chosen)[0]["arguments"]
    assert arguments[0] == "--settings"
    assert arguments[2] == "--session-id"
    assert arguments[4:] == ["--echo", "-x", "a b", "--flag=1"]
    assert chosen.files() == before


@pytest.mark.parametrize(
    "damage", ["nothing", "no database", "not a database", "broken selections", "a folder in their place"]
)
def test_an_agent_starts_as_it_is_where_nothing_can_be_read(world: World, damage: str) -> None:
    if damage != "no database":
        world.settle(k=2)
    if damage == "nothing":
        world.folder.discard()
    elif damage == "not a database":
        world.database.write_bytes(b"not a database")
        world.folder.discard()
    elif damage == "broken selections":
        for path in world.launches.rglob("*.json"):
            path.write_text('{"id": 1')
    elif damage == "a folder in their place":
        (world.launches / "unnamed").unlink()
        (world.launches / "unnamed").mkdir()
    done = world.run("with", "claude", "--", "--echo", "word", input=b"x")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"X", b"to standard error")
    assert starts(world)[0]["arguments"] == ["--echo", "word"]


@pytest.mark.parametrize(
    "own",
    [
        ["--settings", "own.json"],
        ["--settings=own.json"],
        ["mcp", "list"],
        ["--version"],
        ["--bare", "-p", "x"],
        ["-w", "branch"],
    ],
)
def test_a_start_that_is_no_plain_session_is_left_alone(chosen: World, own: list[str]) -> None:
    (chosen.project / "own.json").write_text("{}")
    n_waiting = chosen.waiting
    chosen.run("with", "claude", "--", "--echo", *own, input=b"")
    assert starts(chosen)[0]["arguments"] == ["--echo", *own]
    assert chosen.waiting == n_waiting


def test_an_agent_that_is_not_there_and_one_that_is_unknown_are_named(world: World) -> None:
    done = world.run("with", "claude", "--", "x", PATH="/nowhere")
    assert (done.returncode, b"must be on the PATH" in done.stderr) == (127, True)
    done = world.run("with", "codex", "--", "x")
    assert (done.returncode, b"must be claude" in done.stderr) == (1, True)


def test_a_setting_of_the_user_stays_in_force(chosen: World) -> None:
    (chosen.config / "settings.json").write_text(json.dumps({"skillOverrides": {"alpha": "off"}}))
    (chosen.project / ".claude").mkdir()
    local = chosen.project / ".claude" / "settings.local.json"
    local.write_text(json.dumps({"skillOverrides": {"beta": "name-only", "gone": "off"}}))
    chosen.settle()
    for merges in ("0", "1"):
        chosen.run("with", "claude", "--", "use beta", FAKE_MERGES=merges)
        shown = [set(line["skills"]) for line in chosen.lines if "skills" in line][-1]
        assert "alpha" not in shown
        assert "beta" in shown
        private = {**dict.fromkeys({"gamma", "delta"} - shown, LEFT_OUT)}
        assert private.keys() == {"gamma", "delta"} - shown


def test_another_set_of_skills_waits_for_its_own_selections(chosen: World) -> None:
    chosen.add_skill(chosen.project / ".claude", "extra")
    chosen.run("with", "claude", "--", "--echo", input=b"")
    assert starts(chosen)[0]["arguments"] == ["--echo"]
    chosen.settle()
    chosen.run("with", "claude", "--", "use extra")
    assert starts(chosen)[1]["arguments"][0] == "--settings"


def test_an_option_of_the_agent_before_the_dashes_is_named(world: World) -> None:
    done = world.run("with", "claude", "--model", "opus")
    assert done.returncode == 2
    assert b"armscope with claude -- --model opus" in done.stderr


def test_a_passive_learner_chooses_nothing(world: World) -> None:
    world.settle(phase="passive")
    assert world.waiting == 0


def test_skills_in_use_stay_before_those_that_no_session_loads(world: World) -> None:
    """Fifty skills are listed in 40 runs, which load two of them: one without a pull is no new one."""
    unused = [f"idle{number}" for number in range(46)]
    for name in unused:
        world.add_skill(world.config, name)
    context = world.context()
    arms = tuple(Arm(key=skill_key(name)) for name in sorted([*SKILLS, *unused]))
    for number in range(40):
        loaded = (skill_key("beta" if number % 2 else "gamma"),)
        inventory = Inventory(kind="declared", arms=(), named=arms)
        record(
            context, Run(uid=f"r{number}", inventory=inventory, loaded=loaded, calls=(Call(name="Skill"),))
        )
    before = posteriors(context)
    change(context, "k", 12)
    n_left_out = dict.fromkeys([*SKILLS, *unused], 0)
    for _ in range(25):
        prepare(context, world.config, world.project)
        for document in (world.folder.path / "prepared").rglob("*.json"):
            for name in json.loads(document.read_bytes())["out"]:
                n_left_out[name] += 1
    assert n_left_out["beta"] == n_left_out["gamma"] == 0
    assert min(n_left_out[name] for name in unused) > 25, "and all others have the same chance"
    assert max(n_left_out[name] for name in unused) < 100
    assert posteriors(context) == before, "the posterior holds no run by name"
    context.store.close()


# Kills


def steps(
    world: World, *words: str, input: bytes | None = None, every: int = 1, where: str = "/launches/"
) -> Iterator[int]:
    """Kill a command at its first access to files, then at a later one, until it is through."""
    for number in range(1, 100, every):
        if world.run(*words, kill_at=number, input=input, where=where).returncode != -9:
            return
        yield number
    raise AssertionError("it never ends")


@pytest.mark.long
def test_a_start_that_is_killed_at_any_step_leaves_every_file_whole(chosen: World) -> None:
    before, n_steps = chosen.files(), 0
    for number in steps(chosen, "with", "claude", "--", "--echo", input=b""):
        n_steps = number
        assert chosen.files() == before
        for path in chosen.launches.rglob("*.json"):
            assert json.loads(path.read_bytes()), "whole"
        if not chosen.waiting:
            chosen.settle()
    assert n_steps >= 5
    assert starts(chosen)[-1]["arguments"][0] == "--settings"


@pytest.mark.long
def test_a_hook_and_an_import_that_are_killed_at_any_step_lose_nothing(chosen: World) -> None:
    done = chosen.run("with", "claude", "--", "use alpha; die")
    assert done.returncode == -9
    private = next((chosen.folder.path / "settings").glob("*.json"))
    launch = json.loads(private.read_bytes())["hooks"]["SessionEnd"][0]["hooks"][0]["command"].split()[-1]
    line = starts(chosen)[0]["arguments"]
    transcript = next((chosen.config / "projects").glob(f"*/{line[3]}.jsonl"))
    event = {
        "session_id": line[3],
        "transcript_path": str(transcript),
        "cwd": str(chosen.project),
        "hook_event_name": "SessionEnd",
        "reason": "other",
    }
    told = json.dumps(event).encode()
    n_hook = max(steps(chosen, "hook", "run", "--launch", launch, input=told))
    words = ("hook", "import", "--transcript", str(transcript))
    n_import = max(steps(chosen, *words, every=8))
    assert (n_hook >= 2, n_import >= 1) == (True, True)
    chosen.prepare()
    assert not private.exists()
    check_sessions(chosen)


# Sessions


class Prompt(NamedTuple):
    """A prompt with an answer, as its transcript has it: the skills on offer then, and the one in use."""

    uid: str
    session: str
    pid: int
    skills: tuple[str, ...]
    loaded: tuple[str, ...]


def is_prompt(line: dict[str, Any]) -> bool:
    return line["type"] == "user" and isinstance(line["message"]["content"], str)


def prompts(world: World) -> Iterator[Prompt]:
    """An independent recount: prompts with answers, each under the newest list of skills before it."""
    for path in sorted((world.config / "projects").glob("*/*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        skills: tuple[str, ...] = ()
        loaded: list[str] = []
        for number, line in enumerate(lines):
            if line["type"] == "attachment":
                skills = tuple(line["attachment"]["names"])
            elif line["type"] == "assistant":
                blocks = line["message"]["content"]
                loaded += [one["input"]["skill"] for one in blocks if one.get("name") == "Skill"]
            elif is_prompt(line):
                later = (one for one in lines[number + 1 :] if one["type"] == "assistant" or is_prompt(one))
                if next(later, line)["type"] == "assistant":
                    uid = f"claude-code/prompt/{line['uuid']}"
                    yield Prompt(uid, path.stem, line["pid"], skills, tuple(loaded))


def exported(world: World) -> list[dict[str, Any]]:
    path = world.project.parent / "export.jsonl"
    path.unlink(missing_ok=True)
    done = world.run("export", str(path))
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # A prompt without an answer, before one that has some, is a row of its own.
    return [line for line in lines if line["kind"] == "run" and not line.get("empty")]


def skills_of(run: dict[str, Any]) -> tuple[str, ...]:
    keys = [arm if isinstance(arm, str) else arm["key"] for arm in (*run["arms"], *run.get("named", ()))]
    return tuple(sorted(key.split(":")[1] for key in keys if key.startswith("skill:")))


def check_sessions(world: World) -> None:
    """Every session is imported exactly once, with the choice that was in force in it."""
    expected = {prompt.uid: prompt for prompt in prompts(world)}
    runs = exported(world)
    assert sorted(run["uid"] for run in runs) == sorted(expected)
    launched = {line["pid"] for line in starts(world) if line["settings"] is not None}
    as_chosen = ""
    plain = {line["pid"] for line in starts(world)} - launched
    for run in runs:
        prompt = expected[run["uid"]]
        assert run["session"] == prompt.session
        if prompt.pid in plain:
            assert ("class" in run, "selection" in run) == (False, False)
            continue
        assert run["class"] in {"baseline", "selected"}, run
        decisions = run["selection"]["decisions"]
        included = {one["arm"].split(":")[1] for one in decisions if one["reason"] not in LEFT_OUT_BY}
        assert tuple(sorted(included)) == prompt.skills
        # The text of a skill that was loaded before stays in the session.
        assert set(skills_of(run)) == {*prompt.skills, *prompt.loaded}
        out = {key.split(":")[1] for key in run.get("excluded", ())}
        assert out == set(SKILLS) - set(skills_of(run))
        assert len(prompt.skills) == (4 if run["class"] == "baseline" else 2)
        if {*prompt.loaded} <= {*prompt.skills}:
            as_chosen = run["uid"]
    context = world.context()
    assert run_story(context, as_chosen).differs == ()
    context.store.close()


def play(world: World, rng: random.Random, number: int, kinds: Sequence[str] = KINDS) -> None:
    kind = rng.choice(kinds)
    script = f"use {rng.choice(SKILLS)}; use {rng.choice(SKILLS)}"
    arguments: list[str] = []
    sessions = sorted(path.stem for path in (world.config / "projects").glob("*/*.jsonl"))
    if kind in {"clear", "compact"}:
        script = f"{script}; {kind}; use {rng.choice(SKILLS)}"
    elif sessions and kind == "resume":
        arguments = ["--resume", rng.choice(sessions)]
    elif sessions and kind in {"continue", "fork"}:
        arguments = ["--continue", *(["--fork-session"] if kind == "fork" else [])]
    elif sessions and kind == "plain":
        world.prepare()  # after a kill, the end of a session is known from the next import on
        world.claude("--resume", rng.choice(sessions), script)
        return
    dies = rng.choice(DEATHS) if kind == "die" else ""
    words = ("with", "claude", "--", *arguments, script)
    done = world.run(*words, FAKE_MERGES=f"{number % 2}", FAKE_DIES=dies)
    assert done.returncode == (-9 if dies else 0), done.stderr.decode()


@pytest.mark.parametrize("n_sessions", [10, pytest.param(200, marks=pytest.mark.long)])
def test_the_choice_is_in_force_in_each_session_and_each_is_imported_once(
    chosen: World, n_sessions: int
) -> None:
    rng = random.Random(39)
    before = chosen.files()
    for number in range(n_sessions):
        if number % 4 == 3:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda n: play(chosen, random.Random(n), n, FRESH), (number, number + 999)))
        else:
            play(chosen, rng, number)
        if number % 4 == 2 or chosen.waiting < 2:
            chosen.prepare()
    chosen.prepare()
    check_sessions(chosen)
    n_chosen = sum(line["settings"] is not None for line in starts(chosen))
    assert n_chosen > n_sessions / 2
    hooks = [line for line in chosen.lines if "hook" in line]
    assert hooks
    assert all((line["code"], line["out"]) == (0, "") for line in hooks)
    assert chosen.files() == before
    assert list((chosen.folder.path / "settings").iterdir()) == [], "private settings are removed"
    assert chosen.run("verify").returncode == 0


# Hooks


@pytest.mark.parametrize("content", [OFTEN, *(pytest.param(one, marks=pytest.mark.long) for one in RARELY)])
def test_a_hook_is_installed_and_removed_byte_by_byte(world: World, content: bytes | None) -> None:
    path = world.config / "settings.json"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o640)
    before = world.files()
    done = world.run("hook", "install", "claude-code")
    assert done.returncode == 0, done.stderr.decode()
    first = path.read_bytes()
    assert first.count(b"hook run") == 2
    assert b"s3cret" not in done.stdout + b"".join(one.read_bytes() for one in records_of(world))
    assert world.run("hook", "install", "claude-code").returncode == 0
    assert path.read_bytes() == first, "once"
    assert world.run("hook", "remove", "claude-code").returncode == 0
    assert world.files() == before
    assert content is None or path.stat().st_mode & 0o777 == 0o640
    assert world.run("hook", "remove", "claude-code").returncode == 1


def records_of(world: World) -> list[Path]:
    return [path for path in (world.home / ".local").rglob("*.json") if path.is_file()]


def test_changes_by_others_stay_when_a_hook_is_removed(world: World) -> None:
    path = world.config / "settings.json"
    path.write_text('{\n  "model": "opus"\n}\n')
    assert world.run("hook", "install", "claude-code").returncode == 0
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    done = world.run("hook", "remove", "claude-code")
    assert path.read_text() == '{\n  "model": "haiku"\n}\n'
    assert b"Kept: model was changed" in done.stdout


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.long)])
def test_a_hook_that_is_killed_at_any_step_leaves_the_settings_whole(world: World, every: int) -> None:
    path = world.config / "settings.json"
    path.write_text('{"model": "opus"}\n')
    world.settle()
    before = path.read_bytes()
    seen = set()
    for words in (("install", "claude-code"), ("remove", "claude-code")):
        for _ in steps(world, "hook", *words, where="settings.json", every=every):
            seen.add(path.read_bytes())
    assert path.read_bytes() == before
    assert 1 <= len(seen) <= 2, "the old content, or the new one"
    assert [one.name for one in world.config.iterdir() if one.name.startswith(".settings")] == []


def test_an_installed_hook_imports_a_session_when_it_ends_and_a_missed_one_at_the_next_start(
    world: World,
) -> None:
    world.settle()
    assert world.run("hook", "install", "claude-code").returncode == 0
    (world.database).rename(world.database.with_suffix(".away"))
    world.claude("use alpha")  # no database: missed
    world.database.with_suffix(".away").rename(world.database)
    world.claude("use beta", FAKE_DIES="before end")  # killed: missed
    world.claude("use gamma")
    until(lambda: n_runs(world) == 3)
    until(lambda: n_machines(world) == 1)
    assert {run.get("class") for run in exported(world)} == {None}
    uid = str(exported(world)[0]["uid"])
    assert world.run("outcome", uid, "0").returncode == 0
    (shown,) = json.loads(world.run("runs", "--achieved", "unsolved", "--json").stdout)
    assert (shown["uid"], shown["achieved"], shown["achieved_by"]) == (uid, 0, "program")
    hooks = [line for line in world.lines if "hook" in line]
    assert [(line["code"], line["out"]) for line in hooks] == [(0, "")] * 5


def n_machines(world: World) -> int:
    """Return how many inventories of machines are stored."""
    done = world.run("inventory", "--stored", "--json")
    return len(json.loads(done.stdout)["machines"])


def n_runs(world: World) -> int:
    with closing(sqlite3.connect(world.database)) as connection:
        row = connection.execute("SELECT count(*) FROM run").fetchone()
    return int(row[0])


def test_a_hook_holds_no_password(world: World) -> None:
    done = world.run("hook", "install", "claude-code", "--database", "postgresql://mara:s3cret@db.example/a")
    assert (done.returncode, b"without password" in done.stderr) == (1, True)
    assert not (world.config / "settings.json").exists()
