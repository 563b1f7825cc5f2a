"""The detectors against a slow, plain reading of the rules, and the cases that rules alone don't show."""

from __future__ import annotations

import gc
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core import detect as detect_module
from core.detect import detect
from core.detect import mentions as quotations_module
from core.detect.mentions import find_word
from core.records.arm import Arm, file_key, skill_key, skill_name, tool_key
from core.records.evidence import EXCERPT_CHARS
from core.records.run import Call, Inventory, Run

SPELLED = ["mcp__github__create_issue", "github.create_issue", "github/create_issue"]

ALPHABET = "abß.-_/ éA1編\u0301\n"


def run_with(
    *arms: Arm,
    calls: tuple[Call, ...] = (),
    texts: tuple[str, ...] = (),
    referenced: tuple[str, ...] | None = None,
    not_offered: tuple[str, ...] = (),
) -> Run:
    inventory = Inventory(kind="declared", arms=arms)
    return Run(
        uid="r", inventory=inventory, calls=calls, texts=texts, referenced=referenced, not_offered=not_offered
    )


def sees(arm: Arm, *texts: str, metadata: str = "") -> bool:
    calls = (Call(name="x", metadata=metadata),) if metadata else ()
    return detect(run_with(arm, texts=texts, calls=calls)).referenced == (True,)


def skill(name: str) -> Arm:
    return Arm(key=skill_key(name))


def file(path: str) -> Arm:
    return Arm(key=file_key(path))


def memory(content: str | None) -> Arm:
    return Arm(key="memory:notes:one", content=content)


def named_memory(content: str) -> Arm:
    return Arm(key=f"memory:notes:{content[0]}", content=content)


# --- tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPELLED)
@pytest.mark.parametrize("arm", ["tool:github:create_issue", *(f"tool:other:{name}" for name in SPELLED)])
def test_a_tool_with_its_server_is_one_tool_however_it_is_spelled(arm: str, name: str) -> None:
    arms = (Arm(key="tool:github:close_issue"), Arm(key=arm), Arm(key="tool:gitlab:create_issue"))
    run = run_with(*arms, calls=(Call(name=name), Call(name="Read")))
    evidence = detect(run)
    assert (evidence.referenced, evidence.not_offered) == ((False, True, False), ("Read",))
    by_name = detect(run, mode="openclaw")
    is_exact = arm == f"tool:other:{name}"
    assert by_name.referenced == (False, is_exact, False), "OpenClaw knows a tool by its very name"
    assert by_name.not_offered == (("Read",) if is_exact else (name, "Read"))
    told = detect(run_with(*arms, calls=(Call(name=name),), referenced=(arm,)))
    assert told.not_offered == ()


def test_a_name_that_some_arm_has_is_that_arms_alone() -> None:
    arms = (Arm(key="tool:github:create_issue"), Arm(key="tool:other:github.create_issue"))
    assert detect(run_with(*arms, calls=(Call(name="github.create_issue"),))).referenced == (False, True)
    assert detect(run_with(*arms, calls=(Call(name="create_issue"),))).referenced == (True, False)
    assert detect(run_with(*arms, calls=(Call(name="mcp__github__create_issue"),))).referenced == (True, True)


@pytest.mark.parametrize(
    "name",
    [
        "create_issue ",
        "Github.create_issue",
        "github:create_issue",
        "mcp__create_issue",
        "github__create_issue",
        "mcp__github__create",
        "x.github.create_issue",
        ".create_issue",
        "/",
        "mcp____create_issue",
        "create.issue",
    ],
)
def test_what_is_no_such_spelling_is_another_tool(name: str) -> None:
    arms = (Arm(key="tool:github:create_issue"), Arm(key="tool:other:create"))
    evidence = detect(run_with(*arms, calls=(Call(name=name),)))
    assert (evidence.referenced, evidence.not_offered) == ((False, False), (name,))


def test_a_tool_is_recognised_by_a_call_of_exactly_its_name_and_not_in_a_text() -> None:
    arms = (Arm(key=tool_key("Read")), Arm(key=tool_key("read_file")), Arm(key="tool:mcp:Read"))
    evidence = detect(run_with(*arms, calls=(Call(name="Read"), Call(name="READ_FILE"), Call(name="Read"))))
    assert evidence.referenced == (True, False, True)
    assert evidence.n_calls == evidence.n_real_calls == 3
    assert evidence.not_offered == ("READ_FILE",)
    assert evidence.references == ()
    assert not sees(Arm(key=tool_key("Read")), "I would Read the file")


def test_a_meta_tool_is_an_ordinary_arm_but_makes_no_real_call() -> None:
    message = Arm(key=tool_key("message"))
    evidence = detect(run_with(message, calls=(Call(name="message"),)))
    assert (evidence.referenced, evidence.n_calls, evidence.n_real_calls) == ((True,), 1, 0)
    assert detect(run_with(message, calls=(Call(name="message"),)), meta_tools=()).n_real_calls == 1
    assert detect(run_with(message, referenced=(message.key,))).n_real_calls == 0
    assert detect(run_with(message, referenced=())).n_calls == 0
    calls = (Call(name="message"), Call(name="Bash"))
    evidence = detect(run_with(message, referenced=(), calls=calls))
    assert (evidence.referenced, evidence.n_real_calls, evidence.not_offered) == ((False,), 1, ("Bash",))


def test_tools_outside_the_inventory_are_named_once_in_their_order() -> None:
    calls = tuple(Call(name=name) for name in ("b", "a", "Read", "b"))
    evidence = detect(run_with(Arm(key=tool_key("Read")), calls=calls, not_offered=("z",)))
    assert evidence.not_offered == ("z", "b", "a")


# --- words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("coding", "Use CODING here", True),
        ("coding", "encoding", False),
        ("coding", "codings", False),
        ("coding", "coding_helper", False),
        ("coding", "(coding)", True),
        ("coding", "coding's", True),
        ("coding", "encoding, then coding.", True),
        ("code-review", "a code-review.", True),
        ("code", "a code-review", False),
        ("review", "a code-review", False),
        ("code", "a-code", False),
        ("code", "code - review", True),
        ("code", "code-", True),
        ("c++", "c++ and more", True),
        ("c++", "c++11", False),
        ("a.b", "a.b", True),
        ("a.b", "axb", False),
        ("straße", "die STRASSE.", True),
        ("cafe", "cafe\u0301", False),
        ("pdf", "pdfを開く", True),
        ("pdf", "pdf를 열다", True),
        ("pdf", "pdfя", False),
        ("x y", "x y", True),
    ],
)
def test_a_skill_is_recognised_as_a_whole_word(name: str, text: str, expected: bool) -> None:
    assert sees(skill(name), text) is expected
    assert sees(skill(name), metadata=text) is expected


def test_a_skill_is_not_sought_across_texts() -> None:
    assert not sees(skill("x y"), "x", "y")
    assert sees(skill("coding"), "nothing", "coding")


def test_the_name_of_a_skill() -> None:
    assert skill_name("skill:a:b:main") == "a:b"
    assert skill_name("skill:main:x") == "x"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/README.md", "see docs/README.md", True),
        ("docs/README.md", "see README.md.", True),
        ("docs/README.md", "see other/readme.MD", True),
        ("README.md", "README.mdx", False),
        ("README.md", "README.md.bak", False),
        ("README.md", "OLD-README.md", False),
        ("README.md", "README_md", False),
        ("README.md", "`README.md`", True),
        ("README.md", "- README.md", True),
        ("README.md", "README.mdを読む", True),
        ("app.py", "my.app.py", False),
        (".env", "a .env file", True),
        (".env", "prod.env", False),
        ("src\\main.rs", "src\\main.rs", True),
        ("docs/", "in docs/ you find", True),
        ("notes", "nothing", False),
        ("Makefile", "the Makefile...", True),
    ],
)
def test_a_file_is_recognised_by_its_path_or_name(path: str, text: str, expected: bool) -> None:
    assert sees(file(path), text) is expected


def test_a_file_in_metadata_alone_is_not_recognised() -> None:
    assert not sees(file("README.md"), metadata='{"path": "README.md"}')


def test_names_that_begin_or_overlap_each_other_are_all_found() -> None:
    arms = (file("README.md"), file("docs/README.md"), skill("code"), skill("code-review"), skill("a.b"))
    evidence = detect(run_with(*arms, texts=("docs/README.md and code-review of a.b.c, a.b",)))
    assert evidence.referenced == (True, True, False, True, True)


def naive_joins(char: str) -> bool:
    """A character that makes a name beside it part of a longer word; a Chinese one, such as 編, does not."""
    return (char == "_" or char.isalnum() or unicodedata.category(char).startswith("M")) and char != "編"


def naive_word(text: str, name: str, ties: str) -> bool:
    for start in range(len(text) - len(name) + 1):
        if text[start : start + len(name)] != name:
            continue
        before, after = text[:start][::-1], text[start + len(name) :]
        if not any(
            side[:1] and (naive_joins(side[0]) or (side[0] in ties and side[1:2] and naive_joins(side[1])))
            for side in (before, after)
        ):
            return True
    return False


@given(st.text(ALPHABET, max_size=30), st.text(ALPHABET, min_size=1, max_size=5))
@example("a-", "a")
def test_words_are_found_where_the_plain_reading_finds_them(text: str, name: str) -> None:
    assert (find_word(text, name, "-") >= 0) is naive_word(text, name, "-")
    assert (find_word(text, name, ".-") >= 0) is naive_word(text, name, ".-")


@given(st.text(ALPHABET, max_size=30), st.text("ab.-_/é1", min_size=1, max_size=8))
def test_looking_for_the_file_name_finds_the_path_too(text: str, path: str) -> None:
    name = path.rstrip("/").rsplit("/", 1)[-1]
    if not name:
        return
    folded = text.casefold()
    expected = any(naive_word(folded, one.casefold(), ".-") for one in (path.rstrip("/"), name))
    assert sees(file(path), text) is expected


# --- memories ---------------------------------------------------------------------------------------------


def naive_memory(content: str, text: str) -> bool:
    content, text = (" ".join(one.casefold().split()) for one in (content, text))
    if len(content) < 20:
        return bool(content) and content in text
    return any(content[at : at + 20] in text for at in range(len(content) - 19))


@st.composite
def quotations(draw: st.DrawFn) -> tuple[str, str]:
    """A content and a text that quotes about 20 characters of it."""
    content = draw(st.text("abßA \n1", min_size=15, max_size=60))
    start = draw(st.integers(0, len(content)))
    quoted = content[start : start + draw(st.integers(17, 24))]
    around = st.text("ab \t1", max_size=15)
    return content, draw(around) + quoted.upper() + draw(around)


@given(quotations(), st.booleans())
def test_a_memory_is_recognised_by_any_twenty_of_its_characters(
    pair: tuple[str, str], is_sparse: bool
) -> None:
    content, text = pair
    with pytest.MonkeyPatch.context() as patch:
        if is_sparse:  # long contents keep every 11th 10-gram only
            patch.setattr(quotations_module, "_DENSE_CONTENT_CHARS", 0)
        assert sees(memory(content), text) is naive_memory(content, text)


def test_a_memory_without_content_or_in_pieces_is_not_recognised() -> None:
    assert not sees(memory(None), "anything")
    assert not sees(memory(" \n"), "anything")
    assert sees(memory("Likes  tea"), "She LIKES\ntea.")
    assert not sees(memory("Likes tea"), "likes te")
    assert not sees(memory("the deploy needs a second person"), "the deploy needs", "a second person")


# --- evidence ---------------------------------------------------------------------------------------------


def test_references_say_where_and_keep_the_surroundings() -> None:
    long = "x " * 200
    arms = (skill("coding"), file("docs/plan.md"), memory("remember the milk, and the bread"), skill("pdf"))
    evidence = detect(
        run_with(
            *arms,
            texts=(f"{long}CODING {long}", f"docs/Plan.md {long}", "Remember  the\nmilk, and the bread"),
            calls=(Call(name="Skill", metadata='{"skill":"pdf"}'),),
        )
    )
    assert [reference.arm for reference in evidence.references] == [arm.key for arm in arms]
    assert [reference.where for reference in evidence.references] == ["text", "text", "text", "metadata"]
    excerpts = [reference.excerpt or "" for reference in evidence.references]
    assert all(len(excerpt) <= EXCERPT_CHARS for excerpt in excerpts)
    assert "CODING" in excerpts[0]
    assert len(excerpts[0]) == EXCERPT_CHARS
    assert excerpts[1].startswith("docs/Plan.md")
    assert "Remember  the\nmilk" in excerpts[2]
    assert excerpts[3] == '{"skill":"pdf"}'


@pytest.mark.parametrize("gap", [" ", " \n\t "])
@pytest.mark.parametrize("letter", ["x", "ß"])
def test_each_of_several_memories_in_a_text_keeps_its_own_surroundings(gap: str, letter: str) -> None:
    contents = [f"{name * 12} and {name * 12}" for name in "abc"]
    far = letter * 200
    text = far.join(content.replace(" ", gap) for content in contents)
    references = detect(run_with(*map(named_memory, contents), texts=(text,))).references
    assert [reference.arm[-1] for reference in references] == ["a", "b", "c"]
    for content, reference in zip(contents, references, strict=True):
        assert content[:14].replace(" ", gap) in (reference.excerpt or "")


@pytest.mark.parametrize("gap", [" " * 400, "\n" * 400])
def test_an_excerpt_behind_a_long_gap_shows_the_memory(gap: str) -> None:
    content = "the deploy key lives in the vault"
    (reference,) = detect(run_with(memory(content), texts=(f"First.{gap}{content}",))).references
    assert content[:20] in (reference.excerpt or "")


def test_an_excerpt_stays_within_its_text_and_survives_letters_that_fold_into_two() -> None:
    evidence = detect(run_with(skill("coding"), texts=("secret", "ßßßßßß Coding!", "secret")))
    assert [reference.excerpt for reference in evidence.references] == ["ßßßßßß Coding!"]


def test_a_section_is_always_referenced_and_unfindable_names_never() -> None:
    evidence = detect(run_with(Arm(key="section:prompt:rules"), file("/"), skill(" ")))
    assert evidence.referenced == (True, False, False)
    assert evidence.references == ()


def test_what_the_source_says_is_taken_as_it_is() -> None:
    arms = (Arm(key=tool_key("Read")), Arm(key=tool_key("Edit")), skill("coding"))
    run = run_with(*arms, texts=("coding",), referenced=(arms[1].key, "tool:other:gone"), not_offered=("g",))
    evidence = detect(run)
    assert evidence.referenced == (False, True, False)
    # Without calls, each tool that the source names counts as one call.
    assert (evidence.n_calls, evidence.n_real_calls, evidence.not_offered) == (2, 2, ("g",))
    assert evidence.references == ()


def test_what_is_worked_out_for_an_inventory_goes_with_it() -> None:
    gc.collect()
    before = len(detect_module._PLANS)
    run = run_with(Arm(key=tool_key("Read")))
    detect(run)
    assert len(detect_module._PLANS) == before + 1
    del run
    gc.collect()
    assert len(detect_module._PLANS) == before
