"""Arms that a session has by name, and how they come into its prompt in full."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.detect import detect
from core.formats import Remark
from core.records.arm import Arm, skill_key, tool_key
from core.records.run import Inventory, Run
from tests.formats import test_pi_session
from tests.formats.builders import Json, Session, lines, put, read, runs, text, use

Offered = tuple[list[str], list[str]]

NAMES = ("Bash", "Read", "far", "near")
_steps = st.lists(
    st.one_of(
        st.just(("prompt", "")), st.tuples(st.sampled_from(["call", "add", "remove"]), st.sampled_from(NAMES))
    ),
    max_size=14,
)

_SKILLS = ("review", "kit:review", "mp:tests", "go", "kit:go", "own:go")
_ASKED = ("review", "kit:review", "tests", "go", "mp:tests", "kit:go", "nothing")
_uses = st.lists(
    st.tuples(
        st.sampled_from(["load", "type", "attributed", "word", "file"]), st.lists(st.sampled_from(_ASKED))
    ),
    min_size=1,
    max_size=5,
)

PRINTS = (
    "sed -n 1,9p /s/{}/SKILL.md",
    "Get-Content -Raw C:\\s\\{}\\SKILL.md",
    "ls\ncat /s/{}/SKILL.md",
    "cmd /c type C:\\s\\{}\\SKILL.md",
)
"""Commands that print the file of a skill."""

_ENDINGS: tuple[tuple[bool, str] | None, ...] = (
    None,
    (False, "Exit code: 0\nOutput:\nExit code: 1\n"),
    (False, '{"output": "\\"exit_code\\": 1", "metadata": {"exit_code": 0}}'),
    (True, "Exit code: 1\nWall time: 1 s\nOutput:\nno file"),
    (True, "Chunk ID: a\nProcess exited with code 127\nOutput:\n"),
    (True, '{"output": "no file", "metadata": {"exit_code": 2}}'),
)
"""Results of a call, if any: whether it failed, and its output in Codex CLI."""
_LOAD = re.compile(r"SKILL\.md|'skill'")
Loads = list[tuple[str, tuple[bool, str] | None]]
loads = st.lists(st.tuples(st.sampled_from(["review", "go"]), st.sampled_from(_ENDINGS)), max_size=3)


def delta(session: Session, *added: str, removed: tuple[str, ...] = (), **fields: object) -> Session:
    attachment = {"type": "deferred_tools_delta", "addedNames": list(added), "removedNames": list(removed)}
    return session.line("attachment", attachment={**attachment, **fields})


def skills(session: Session, *names: str, content: str = "") -> Session:
    listing: Json = {"type": "skill_listing", "names": list(names), "content": content, "isInitial": True}
    return session.line("attachment", attachment=listing)


def offered(session: Session, folder: Path, tools_file: Path | None = None) -> list[Offered]:
    """The names in full and those by name, of each run."""
    return [
        ([arm.name for arm in run.inventory.arms], [arm.key.split(":")[-1] for arm in run.inventory.named])
        for run in runs(read(put(folder, session.bytes()), tools_file=tools_file))
    ]


def test_a_deferred_tool_is_there_by_name_until_a_call_finds_it(tmp_path: Path) -> None:
    session = delta(Session().prompt("go"), "Bash", "mcp__x__a", "mcp__x__b").reply(use("Bash", "t1"))
    session.prompt("more").reply(use("Read", "t2"), use("mcp__x__a", "t3"), id="m2")
    session.prompt("again").reply(text("done"), id="m3")
    assert offered(session, tmp_path) == [
        (["Read"], ["Bash", "mcp__x__a", "mcp__x__b"]),
        (["Bash", "Read"], ["mcp__x__a", "mcp__x__b"]),
        (["Bash", "Read", "mcp__x__a"], ["mcp__x__b"]),
    ]
    first = runs(read(put(tmp_path, session.bytes())))[0]
    assert first.inventory.kind == "inferred"
    assert [arm.token_cost for arm in first.inventory.offered] == [None, 1, 3, 3]


def test_a_tool_that_is_taken_away_is_out_and_comes_back_by_name(tmp_path: Path) -> None:
    session = delta(Session().prompt("go"), "far").reply(use("far", "t1"))
    delta(session.prompt("two"), removed=("far",)).reply(text("ok"), id="m2")
    delta(session.prompt("three"), "far").reply(use("far", "t2"), id="m3")
    session.prompt("four").reply(text("ok"), id="m4")
    assert offered(session, tmp_path) == [([], ["far"]), ([], []), ([], ["far"]), (["far"], [])]


def test_a_tool_that_was_called_before_a_line_listed_it_was_in_full_from_the_start(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(use("near", "t1"))
    delta(session.prompt("two"), "near", "late").reply(use("late", "t2"), id="m2")
    delta(session.prompt("three"), removed=("near",)).reply(text("ok"), id="m3")
    assert offered(session, tmp_path) == [(["near"], []), (["near"], ["late"]), (["late"], [])]


def test_a_listed_skill_costs_its_line_and_is_found_by_a_load_alone(tmp_path: Path) -> None:
    content = "- pdf: Makes a PDF,\n  with care\n- kit:tests: Runs tests\n- bare"
    session = skills(Session().prompt("pdf?"), "pdf", "kit:tests", "bare", "new", content=content)
    session.reply(text("pdf, kit:tests"), use("Read", "t1", path="pdf"))
    session.prompt("go").reply(use("Skill", "t2", skill="pdf"), id="m2").prompt("on").reply(
        text("ok"), id="m3"
    )
    first, second, third = runs(read(put(tmp_path, session.bytes())))
    costs = {arm.key: arm.token_cost for arm in first.inventory.named}
    lines = ("- bare", "- kit:tests: Runs tests", "- new", "- pdf: Makes a PDF,\n  with care")
    keys = [skill_key(name) for name in ("bare", "kit:tests", "new", "pdf")]
    assert costs == {key: -(-len(line) // 4) for key, line in zip(keys, lines, strict=True)}
    assert (first.loaded, second.loaded, third.loaded) == ((), (skill_key("pdf"),), ())
    assert skill_key("pdf") in [arm.key for arm in third.inventory.arms]


def test_a_list_without_names_gives_those_of_its_text(tmp_path: Path) -> None:
    listing = {
        "type": "skill_listing",
        "content": "- pdf: Read a file.\n- review: Look\nat it.",
        "isInitial": True,
    }
    session = Session().prompt("one").line("attachment", attachment=listing)
    session.reply(use("Skill", "t1", skill="pdf"))
    (run,) = runs(read(put(tmp_path, session.bytes())))
    assert [arm.key for arm in run.inventory.named] == [skill_key("pdf"), skill_key("review")]
    assert run.loaded == (skill_key("pdf"),)


@pytest.mark.parametrize("is_listed_first", [True, False])
def test_a_command_that_a_person_typed_puts_its_skill_in_full(tmp_path: Path, is_listed_first: bool) -> None:
    typed = "<command-message>pdf</command-message>\n<command-name>/pdf</command-name>"
    session = Session()
    if is_listed_first:
        skills(session, "pdf").prompt(typed)
    else:
        skills(session.prompt(typed), "pdf")
    (run,) = runs(read(put(tmp_path, session.reply(use("Read", "t1")).bytes())))
    assert [arm.key for arm in run.inventory.offered] == [tool_key("Read"), skill_key("pdf")]
    assert not run.inventory.named


def test_a_supplied_list_is_in_full_but_for_what_is_deferred(tmp_path: Path) -> None:
    tools_file = put(tmp_path, b'["Read", "far", {"name": "near", "token_cost": 9}]', "tools.json")
    session = delta(Session().prompt("go"), "far", "other").reply(use("far", "t1"))
    session.prompt("on").reply(text("ok"), id="m2")
    assert offered(session, tmp_path, tools_file) == [
        (["Read", "near"], ["far", "other"]),
        (["Read", "far", "near"], ["other"]),
    ]


@pytest.mark.parametrize("wrong", [{"addedNames": 7}, {"addedNames": ["no\nname"]}])
def test_a_list_without_a_readable_name_names_nothing(tmp_path: Path, wrong: Json) -> None:
    session = (
        Session()
        .prompt("go")
        .line("attachment", attachment={"type": "deferred_tools_delta", **wrong})
        .reply(use("Read", "t1"))
    )
    assert offered(session, tmp_path) == [(["Read"], [])]


def played(steps: list[tuple[str, str]]) -> Session:
    session = Session().prompt("go")
    for at, (kind, name) in enumerate(steps):
        if kind == "prompt":
            session.prompt(f"p{at}")
        elif kind == "call":
            session.reply(use(name, f"t{at}"), id=f"m{at}")
        else:
            delta(session, *([name] if kind == "add" else []), removed=(name,) if kind == "remove" else ())
    return session


@given(steps=_steps)
def test_an_arm_in_full_stays_so_in_its_session_until_it_is_removed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    """And an arm is in one state in a run; one that was listed and never called is in full in none."""
    made = runs(read(put(tmp_path_factory.mktemp("s"), played(steps).bytes())))
    removed = {name for kind, name in steps if kind == "remove"}
    called = {name for kind, name in steps if kind == "call"}
    for name in NAMES:
        states = [state_of(run, name) for run in made]
        if name not in removed and "in full" in states:
            assert set(states[states.index("in full") :]) == {"in full"}
        if name not in called:
            assert "in full" not in states


def state_of(run: Run, name: str) -> str:
    key = tool_key(name)
    named = [arm.key for arm in run.inventory.named]
    full = [arm.key for arm in run.inventory.arms]
    assert (named + full).count(key) <= 1
    return "in full" if key in full else "by name" if key in named else "out"


# Evidence of skills: loads and typed commands, and nothing else


def meant(name: str, listed: Collection[str]) -> str | None:
    """The listed skill that a name means: of this name, else the only one that ends with it."""
    ends = [one for one in listed if one.endswith(f":{name}")]
    return name if name in listed else ends[0] if len(ends) == 1 else None


def claude(listed: Collection[str], steps: list[tuple[str, list[str]]]) -> bytes:
    session = Session()
    for at, (kind, names) in enumerate(steps):
        typed = "".join(f"<command-name>/{name}</command-name>" for name in names)
        session.prompt(typed if kind == "type" and names else "go")
        if not at:
            skills(session, *listed)
        calls = [use("Skill", f"t{at}-{n}", skill=name) for n, name in enumerate(names) if kind == "load"]
        words = " ".join(f"I will {name} it" for name in names)
        session.reply(text(words), use("Read", f"r{at}", path=words), *calls, id=f"m{at}")
        for name in names if kind == "attributed" else ():
            session.reply(text("ok"), id=f"a{at}", attributionSkill=name)
    return session.bytes()


def codex(listed: Collection[str], steps: list[tuple[str, list[str]]]) -> bytes:
    def line(kind: str, **payload: object) -> Json:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}

    def message(role: str, words: str) -> Json:
        content = [{"type": "input_text", "text": words}]
        return line("response_item", type="message", role=role, content=content)

    entries = "\n".join(f"- {name}: Does it. (file: /s/{name}/SKILL.md)" for name in listed)
    made = [line("session_meta", id="s1"), message("developer", f"### Available skills\n{entries}\n")]
    for at, (kind, names) in enumerate(steps):
        made.append(line("event_msg", type="user_message", message="go"))
        made += [message("user", f"<skill>\n<name>{name}</name>\n") for name in names if kind == "type"]
        reads = (PRINTS[(at + n) % len(PRINTS)].format(one) for n, one in enumerate(names))
        for n, name in enumerate(["ls", *reads]):
            if not n or kind == "load":
                arguments = json.dumps({"command": ["bash", "-lc", name]})
                call = {
                    "type": "function_call",
                    "name": "shell",
                    "call_id": f"c{at}-{n}",
                    "arguments": arguments,
                }
                made.append(line("response_item", **call))
        made.append(message("assistant", " ".join(f"I will {name} it" for name in names)))
    return lines(made)


def pi(listed: Collection[str], steps: list[tuple[str, list[str]]]) -> bytes:
    """A session, which lists no skill; a prompt types one at most."""
    session = test_pi_session.Session()
    for kind, names in steps:
        typed = [f'<skill name="{name}" location="/s/{name}/SKILL.md">\nDo.\n</skill>\n\n' for name in names]
        session.prompt("".join([*typed[: kind == "type"], "go"]))
        reads = [test_pi_session.call("read", path=f"/s/{name}/SKILL.md") for name in names if kind == "load"]
        words = f"I will do {' '.join(typed)}"
        session.reply(text(words), test_pi_session.call("bash", command=words.replace("SKILL", "x")), *reads)
    return session.bytes()


@given(
    st.lists(st.sampled_from(_SKILLS), unique=True, min_size=1), _uses, st.sampled_from([claude, codex, pi])
)
def test_a_skill_is_used_by_a_load_or_a_typed_command_alone(
    listed: list[str], steps: list[tuple[str, list[str]]], make: Callable[..., bytes]
) -> None:
    if make is pi:
        steps = [(kind, names[:1] if kind == "type" else names) for kind, names in steps]
        listed = sorted({name for kind, names in steps if kind in {"load", "type"} for name in names})
    known = {"load": "loaded", "type": "typed"} | ({"attributed": "loaded"} if make is claude else {})
    with TemporaryDirectory() as folder:
        found = read(put(Path(folder), make(listed, steps)))
    so_far = set[str]()
    assert len(runs(found)) == len(steps)
    for (kind, names), run in zip(steps, runs(found), strict=True):
        keys = {skill_key(one) for name in names if (one := meant(name, listed))} if kind in known else set()
        evidence = detect(run)
        seen = {one.arm: one.where for one in evidence.references}
        assert seen == dict.fromkeys(keys, "typed" if known.get(kind) == "typed" else "call")
        flags = zip(run.inventory.offered, evidence.referenced, strict=True)
        assert {arm.key for arm, flag in flags if flag and arm.type == "skill"} == keys
        in_full = so_far | (keys if kind == "type" else set())
        assert {arm.key for arm in run.inventory.arms if arm.type == "skill"} == in_full
        so_far |= keys
    lost = [
        name
        for kind, names in steps
        for name in sorted(set(names))
        if kind in known and kind != "type"
        if meant(name, listed) is None
    ]
    several = [name for name in lost if sum(one.endswith(f":{name}") for one in listed) > 1]
    remarks = [one.text for one in found if isinstance(one, Remark)]
    for names, means in (
        (several, "several"),
        ([one for one in lost if one not in several], "is not listed"),
    ):
        counted = [int(one.split()[0]) for one in remarks if means in one]
        assert counted == ([len(names)] if names else [])


def ended(make: Callable[..., bytes], prompts: list[Loads]) -> bytes:
    """A session that loads skills, with the results of its calls."""
    endings = iter(enumerate(ending for one in prompts for _, ending in one))
    made: list[Json] = []
    steps = [("load", [name for name, _ in one]) for one in prompts]
    for line in map(json.loads, make(["review", "go"], steps).splitlines()):
        made.append(line)
        content = line.get("message", {}).get("content", ())
        calls = [line.get("payload", {}), *(one for one in content if isinstance(one, dict))]
        for call in (one for one in calls if _LOAD.search(str(one.get("arguments", one.get("input"))))):
            number, ending = next(endings)
            call["call_id" if make is codex else "id"] = key = f"call-{number}"
            failed, output = ending or (False, "")
            block = {"type": "tool_result", "tool_use_id": key, "is_error": failed}
            results: dict[Callable[..., bytes], Json] = {
                claude: {"type": "user", "uuid": key, "message": {"content": [block]}},
                codex: {"payload": {"type": "function_call_output", "call_id": key, "output": output}},
                pi: {"id": key, "message": {"role": "toolResult", "toolCallId": key, "isError": failed}},
            }
            made += [] if ending is None else [{**line, **results[make]}]
    return lines(made)


@given(st.lists(loads, min_size=1, max_size=4), st.sampled_from([claude, codex, pi]))
def test_a_load_that_failed_is_none(prompts: list[Loads], make: Callable[..., bytes]) -> None:
    with TemporaryDirectory() as folder:
        made = runs(read(put(Path(folder), ended(make, prompts))))
    so_far = set[str]()
    for asked, run in zip(prompts, made, strict=True):
        loaded = {skill_key(name) for name, ending in asked if ending is None or not ending[0]}
        assert set(run.loaded) == loaded
        assert {arm.key for arm in run.inventory.arms if arm.type == "skill"} == so_far
        so_far |= loaded


@given(
    st.text(st.sampled_from("go$*?{}()`[%."), min_size=1, max_size=4).filter(
        re.compile(r"[$*?{}()`\[%]").search
    ),
    st.integers(0, 2),
    st.sampled_from([codex, pi]),
)
def test_a_load_that_names_no_certain_skill_is_counted(
    pattern: str, n: int, make: Callable[..., bytes]
) -> None:
    with TemporaryDirectory() as folder:
        found = read(put(Path(folder), make(["go"], [("load", ["go", pattern][: n + 1])])))
    (run,) = runs(found)
    assert run.loaded == (skill_key("go"),)
    remarks = [one.text for one in found if isinstance(one, Remark)]
    assert [one.partition(" of a skill")[0] for one in remarks] == ["1 load"][:n]


def test_openclaw_finds_a_word_as_before(tmp_path: Path) -> None:
    (run,) = runs(read(put(tmp_path, claude(["go"], [("word", ["go"])]))))
    full = msgspec.structs.replace(
        run, inventory=Inventory(kind="declared", arms=(Arm(key=skill_key("go")),))
    )
    assert (detect(full).referenced, detect(full, "openclaw").referenced) == ((False,), (True,))


@given(st.lists(st.sampled_from(["far", "near", "Read"]), unique=True), st.booleans())
def test_a_tool_that_a_search_returned_is_in_full_from_the_next_run_on(
    found: list[str], is_codex: bool
) -> None:
    if is_codex:
        head: Json = {
            "id": "s",
            "dynamic_tools": [{"name": name, "deferLoading": True} for name in ("far", "near")],
        }
        search: Json = {
            "type": "tool_search_output",
            "call_id": "c",
            "tools": [{"type": "function", "name": name} for name in found],
        }
        asked: Json = {"type": "tool_search_call", "call_id": "c", "arguments": {}}
        made: list[tuple[str, Json]] = [("session_meta", head)]
        for items in ((asked, search), (asked,)):
            made.append(("event_msg", {"type": "user_message", "message": "go"}))
            made += [("response_item", item) for item in items]
        content = lines(
            {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": one} for kind, one in made
        )
    else:
        references = [{"type": "tool_reference", "tool_name": name} for name in found]
        session = delta(Session().prompt("go"), "far", "near").reply(use("ToolSearch", "t1"))
        block = {"type": "tool_result", "tool_use_id": "t1", "content": references}
        session.line("user", message={"role": "user", "content": [block]})
        content = session.prompt("more").reply(text("ok"), id="m2").bytes()
    with TemporaryDirectory() as folder:
        first, second = runs(read(put(Path(folder), content)))
    in_full = {arm.name for arm in second.inventory.arms} & {"far", "near"}
    assert {arm.name for arm in first.inventory.named} == {"far", "near"}
    assert in_full == {*found} & {"far", "near"}
    assert {arm.name for arm in second.inventory.named} == {"far", "near"} - in_full
