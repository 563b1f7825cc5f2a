"""Detection in mode ``openclaw``: every rule, whether or not the vectors are at hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.detect import detect
from core.detect.mentions import PREFIX_UNITS, SHORT_UNITS
from core.maths.observe import guard, observe, reward_of_flag
from core.records.arm import Arm, file_key, tool_key
from core.records.evidence import EXCERPT_CHARS
from core.records.run import Call
from tests.test_detect import run_with, skill

LONG = "The release of the billing service waits for a second pair of eyes on Fridays."


def sees(arm: Arm, *texts: str, metadata: str = "") -> bool:
    calls = (Call(name="x", metadata=metadata),) if metadata else ()
    return detect(run_with(arm, texts=texts, calls=calls), "openclaw").referenced == (True,)


def memory(content: str) -> Arm:
    return Arm(key="memory:notes:one", content=content)


def test_a_tool_is_recognised_by_a_call_of_exactly_its_name() -> None:
    arms = (Arm(key=tool_key("Bash")), Arm(key=tool_key("mcp:do")), Arm(key=tool_key("bash")))
    run = run_with(*arms, calls=(Call(name="Bash"), Call(name="mcp:do")), texts=("bash",))
    assert detect(run, "openclaw").referenced == (True, True, False)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("go", "two CATEGORIES", True),
        ("tea", "a steam engine", True),
        ("a b", "a b", True),
        ("a b", "a  b", False),
        ("STRASSE", "straße", False),
        ("ΟΔΟΣ", "ΟΔΟΣ", True),
        ("ΟΔΟΣ", "οδοσ", False),
        ("İzmir", "i̇zmir", True),
        ("go", "nothing", False),
    ],
)
def test_a_skill_is_recognised_inside_other_words(name: str, text: str, expected: bool) -> None:
    assert sees(skill(name), text) is expected
    assert sees(skill(name), metadata=text) is expected


def test_a_skill_is_not_recognised_by_the_name_of_a_tool_or_across_texts() -> None:
    assert detect(run_with(skill("go"), calls=(Call(name="go"),)), "openclaw").referenced == (False,)
    assert not sees(skill("ab"), "a", "b")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/a.md", "open DOCS/A.MD:3", True),
        ("a.md", "data.mdx", True),
        ("docs/a.md", "open a.md", False),
        ("docs\\a.md", "docs/a.md", False),
        ("ä.md", "a\u0308.md", False),
    ],
)
def test_a_file_is_recognised_by_its_full_label(path: str, text: str, expected: bool) -> None:
    assert sees(Arm(key=file_key(path)), text) is expected
    assert not sees(Arm(key=file_key(path)), metadata=text)


@pytest.mark.parametrize(
    ("content", "text", "expected"),
    [
        ("Likes tea", "She likes tea", False),
        ("Likes tea", "She Likes tea.", True),
        ("Likes tea", "She Likes  tea.", False),
        ("x" * (SHORT_UNITS - 1), "X" * SHORT_UNITS, False),
        ("x" * SHORT_UNITS, "X" * SHORT_UNITS, True),
        ("🎯" * 9 + "x", "🎯" * 9 + "X", False),
        ("🎯" * 9 + "xy", "🎯" * 9 + "XY", True),
        (LONG, LONG.upper(), True),
        (LONG, f"{LONG[:PREFIX_UNITS]} and so on", True),
        (LONG, LONG[: PREFIX_UNITS - 1], False),
        (LONG, LONG[1:], False),
        (LONG, LONG.replace(" ", "\n"), False),
        ("", "anything", True),
    ],
)
def test_a_memory_is_recognised_by_its_beginning(content: str, text: str, expected: bool) -> None:
    assert sees(memory(content), text) is expected
    assert not sees(memory(content), metadata=text)


def test_a_memory_is_recognised_within_one_text() -> None:
    assert not sees(memory(LONG), LONG[:30], LONG[30:])
    assert sees(memory(LONG), "no", LONG)
    assert not sees(memory(""))


def test_half_a_character_at_the_cut_stands_for_all_that_begin_with_it() -> None:
    content = "a" + "🎯" * 30  # the cut leaves the first half of the last target
    assert sees(memory(content), "a" + "🎯" * 29 + "🌍")
    assert not sees(memory(content), "a" + "🎯" * 29 + "📖")
    assert not sees(memory(content), "a" + "🎯" * 29)


def test_memories_without_content_go_by_their_name_and_sections_always() -> None:
    assert sees(Arm(key="memory:project:ask before deploying"), "I will ask before deploying.")
    assert sees(Arm(key="memory:project:tea", content="coffee"), "coffee")
    assert sees(Arm(key="section:core:identity"))


@given(st.text("abcäé ", min_size=SHORT_UNITS, max_size=90), st.text("abcäé ", max_size=10))
def test_a_quoted_beginning_is_found_wherever_it_stands(content: str, before: str) -> None:
    text = f"{before}{content[:PREFIX_UNITS].swapcase()}{before}"
    assert sees(memory(content), text)


def test_a_reference_says_where_it_was_and_keeps_its_surroundings() -> None:
    arms = (skill("go"), memory(LONG), Arm(key=file_key("a.md")))
    texts = ("İİİ " + "x" * 200 + f" {LONG.upper()} " + "y" * 200, "see A.MD")
    run = run_with(*arms, texts=texts, calls=(Call(name="Read", metadata="src/gopher.txt"),))
    references = detect(run, "openclaw").references
    assert [(one.arm, one.where) for one in references] == [
        (arms[0].key, "metadata"),
        (arms[1].key, "text"),
        (arms[2].key, "text"),
    ]
    excerpts = [one.excerpt or "" for one in references]
    assert excerpts[0] == "src/gopher.txt"
    assert LONG[:PREFIX_UNITS].upper() in excerpts[1]
    assert len(excerpts[1]) == EXCERPT_CHARS
    assert excerpts[2] == "see A.MD"


def test_the_modes_part_where_their_rules_do() -> None:
    run = run_with(skill("go"), Arm(key=file_key("docs/a.md")), texts=("categories of a.md",))
    assert detect(run).referenced == (False, True)
    assert detect(run, "openclaw").referenced == (True, False)
    assert detect(run).referenced == (False, True)


@pytest.mark.parametrize(
    ("name", "outcome", "rewards"),
    [("Message", "observed", [0.0, 1.0]), ("message", "conversational", [None, None])],
)
def test_a_meta_tool_matches_exactly(name: str, outcome: str, rewards: list[float | None]) -> None:
    run = run_with(Arm(key=tool_key("message")), skill("go"), calls=(Call(name=name),), texts=("going",))
    evidence = detect(run, "openclaw")
    verdict = guard(run, evidence)
    assert verdict.outcome == outcome
    assert [reward_of_flag(flag) for flag in observe(run, evidence, verdict)] == rewards
