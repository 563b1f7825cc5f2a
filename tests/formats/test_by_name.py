"""Arms that a session has by name, and how they come into its prompt in full."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records.arm import skill_key, tool_key
from core.records.run import Run
from tests.formats.builders import Json, Session, put, read, runs, text, use

Offered = tuple[list[str], list[str]]


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


NAMES = ("Bash", "Read", "far", "near")
_steps = st.lists(
    st.one_of(
        st.just(("prompt", "")), st.tuples(st.sampled_from(["call", "add", "remove"]), st.sampled_from(NAMES))
    ),
    max_size=14,
)


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
