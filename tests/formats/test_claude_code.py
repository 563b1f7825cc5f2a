"""Every oddity of Claude Code sessions, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.detect import detect
from core.errors import InvalidInput
from core.formats import open_sources
from core.maths.observe import guard
from core.records.run import Run
from tests.formats.builders import Session, lines, names, offered, put, read, rejected, runs, text, tool, use

ODD_WORDS: list[object] = [
    "<local-command-stdout>ok</local-command-stdout>",
    "<local-command-caveat>x",
    "<bash-input>ls</bash-input>",
    "[Request interrupted by user]",
    "  \n",
    "",
    [],
    None,
    [{"type": "image", "source": {}}],
]
ODD: list[dict[str, Any]] = [
    *({"content": words} for words in ODD_WORDS),
    *({"content": "other", flag: True} for flag in ("isMeta", "isCompactSummary", "isSidechain")),
]


def only_run(folder: Path, session: Session) -> Run:
    (run,) = runs(read(put(folder, session.bytes())))
    return run


def usage(n_output: int) -> dict[str, object]:
    return {
        "input_tokens": 1,
        "output_tokens": n_output,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": None,
    }


def test_the_inventory_is_what_the_session_calls_or_what_is_supplied(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(use("Read", "t1")).prompt("two").reply(use("Bash", "t2"))
    path = put(tmp_path, session.bytes())
    found = runs(read(path))
    assert [offered(run) for run in found] == [["Bash", "Read"]] * 2
    assert found[0].inventory is found[1].inventory
    assert found[0].inventory.kind == "inferred"
    tools_file = put(tmp_path, lines([[tool("Read")]]), "tools")
    supplied = runs(read(path, tools_file=tools_file))
    assert supplied[0].inventory.kind == "supplied"
    assert detect(supplied[1]).not_offered == ("Bash",)


def test_usage_counts_once_for_repeated_lines_and_zero_everywhere_is_unknown(tmp_path: Path) -> None:
    session = (
        Session()
        .prompt("go")
        .reply(text("a"), id="m1", usage=usage(1))
        .reply(use("Read", "t1"), id="m1", usage=usage(1))
        .reply(use("Read", "t2"), id="m1", usage=usage(40))
        .reply(text("b"), id="m2", usage=usage(2))
    )
    run = only_run(tmp_path, session)
    assert run.usage is not None
    assert (run.usage.input, run.usage.output, run.usage.cache_read, run.usage.tokens) == (2, 42, 20, 64)
    assert names(run) == ["Read", "Read"]
    nothing = {"input_tokens": 0, "output_tokens": 0}
    assert only_run(tmp_path, Session().prompt("go").reply(text("a"), usage=nothing)).usage is None


def test_a_line_or_call_that_stands_twice_counts_once(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(use("Read", "t1")).reply(use("Read", "t1"), text("x"))
    session.made.extend(session.made[:])
    run = only_run(tmp_path, session)
    assert (names(run), run.texts, run.rank) == (["Read"], ("x",), 3)


@pytest.mark.parametrize("odd", ODD)
def test_lines_that_open_no_run(tmp_path: Path, odd: dict[str, Any]) -> None:
    session = Session().prompt("go").reply(text("a")).prompt(**odd).reply(text("b"))
    assert only_run(tmp_path, session).texts == ("a", "b")


def test_a_prompt_may_be_a_list_of_texts_or_have_no_answer(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a")).prompt([text("and"), text("more")]).reply(text("b"))
    assert [run.texts for run in runs(read(put(tmp_path, session.bytes())))] == [("a",), ("b",)]
    session = Session().prompt("/clear").prompt("go").reply(text("a"))
    assert [run.empty for run in runs(read(put(tmp_path, session.bytes())))] == [True, False]


def test_notices_of_the_program_are_not_replies(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("No response requested."), model="<synthetic>")
    run = only_run(tmp_path, session)
    assert (run.empty, run.model, run.texts, run.status) == (True, None, (), "completed")


def test_an_api_error_marks_the_run_until_a_reply_comes(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a"))
    session.reply(text("API Error"), model="<synthetic>", isApiErrorMessage=True)
    failed = only_run(tmp_path, session)
    assert (failed.status, failed.texts, guard(failed, detect(failed)).outcome) == ("error", ("a",), "error")
    assert only_run(tmp_path, session.reply(text("b"), id="m3")).status == "completed"


def test_an_interrupted_run_is_aborted_and_the_next_is_not(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a")).prompt([text("[Request interrupted by user]")])
    session.prompt("again").reply(text("b"))
    first, second = runs(read(put(tmp_path, session.bytes())))
    assert (first.status, second.status) == ("aborted", "completed")
    assert guard(first, detect(first)).outcome == "aborted"


def test_replies_before_the_first_prompt_are_a_run_of_their_own(tmp_path: Path) -> None:
    session = Session().line("system", subtype="turn_duration", durationMs=9).result().reply(text("a"))
    session.prompt("go").reply(text("b"))
    first, second = runs(read(put(tmp_path, session.bytes())))
    assert (first.uid, first.texts, first.duration_ms) == ("claude-code/prompt/s1-u2", ("a",), None)
    assert second.texts == ("b",)


def test_turn_durations_add_up(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a")).line("system", subtype="turn_duration", durationMs=9)
    session.line("system", subtype="turn_duration", durationMs=0.6)
    session.line("system", subtype="local_command", content="x")
    run = only_run(tmp_path, session)
    assert run.duration_ms == 10
    assert run.ended_at_ms == 1767322803000


def test_a_skill_call_names_the_skill_and_metadata_is_cut(tmp_path: Path) -> None:
    run = only_run(tmp_path, Session().prompt("go").reply(use("Skill", "t1", skill="pdf")))
    assert (names(run), run.calls[0].metadata) == (["Skill"], '{"skill": "pdf"}')
    assert offered(run) == ["Skill"]
    run = only_run(tmp_path, Session().prompt("go").reply(use("Write", "t1", path="é" * 500)))
    assert run.calls[0].metadata == '{"path":"' + "é" * 191


def test_other_lines_may_have_any_shape_and_a_conversation_line_is_rejected(tmp_path: Path) -> None:
    session = Session().line("attachment", message="text", durationMs="x").prompt("go").reply(text("a"))
    session.line("file-history-snapshot", snapshot={}).line("queue-operation", content="x")
    entries = read(put(tmp_path, session.bytes()))
    assert (len(runs(entries)), rejected(entries)) == (1, [])
    session = Session().prompt("go").line("assistant", message={"content": 7}).reply(text("a"))
    entries = read(put(tmp_path, session.bytes()))
    (line,) = rejected(entries)
    assert line.line == 2
    assert "content" in line.reason
    assert len(runs(entries)) == 1


def test_counts_that_no_run_can_have_reject_the_run_alone(tmp_path: Path) -> None:
    huge = {"input_tokens": 10**12, "output_tokens": 0}
    session = (
        Session().prompt("go").reply(text("a"), id="m1", usage=huge).reply(text("b"), id="m2", usage=huge)
    )
    session.prompt("next").reply(text("c"), id="m3", usage=usage(1))
    entries = read(put(tmp_path, session.bytes()))
    assert [run.texts for run in runs(entries)] == [("c",)]
    assert "usage" in rejected(entries)[0].reason


def test_a_call_that_can_be_no_arm_still_makes_the_run_real(tmp_path: Path) -> None:
    run = only_run(tmp_path, Session().prompt("go").reply(use("bad\nname", "t1"), use("Read", "t2")))
    evidence = detect(run)
    assert offered(run) == ["Read"]
    assert (evidence.n_real_calls, evidence.not_offered) == (2, ("bad\nname",))


def test_hostile_identities_are_hashed(tmp_path: Path) -> None:
    hostile: dict[str, Any] = {"sessionId": "a\u202eb"}
    session = Session().prompt("go", uuid="u" * 600, **hostile).reply(text("a"), **hostile)
    run = only_run(tmp_path, session)
    assert len(run.uid) == len("claude-code/prompt/") + 32
    assert run.session is not None
    assert run.session.isalnum()


def test_times_without_a_zone_are_flagged_and_broken_ones_unknown(tmp_path: Path) -> None:
    naive = only_run(tmp_path, Session().prompt("go").reply(text("a"), timestamp="2026-01-02T04:00:00"))
    assert (naive.ended_at_ms, naive.naive_time) == (1767326400000, True)
    broken = only_run(tmp_path, Session().prompt("go").reply(text("a"), timestamp="soon"))
    assert (broken.ended_at_ms, broken.naive_time) == (None, False)


def test_a_last_line_that_is_still_being_written_is_rejected(tmp_path: Path) -> None:
    content = Session().prompt("go").reply(text("a")).reply(text("b")).bytes()
    entries = read(put(tmp_path, content[:-20]))
    assert [run.texts for run in runs(entries)] == [("a",)]
    (line,) = rejected(entries)
    assert line.line == 3
    assert "import the file again once it is complete" in line.reason


def test_a_file_that_begins_with_other_lines_is_recognised(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a"))
    summaries = lines([{"type": "summary", "summary": "x", "leafUuid": "u"}] * 30)
    path = put(tmp_path, b"{broken\n" + summaries + session.bytes())
    assert open_sources([path]).sources[0].format == "claude-code"
    assert len(runs(read(path))) == 1


def test_units_of_sessions(tmp_path: Path) -> None:
    path = put(tmp_path, Session().prompt("go").bytes())
    assert open_sources([path], unit="turn").sources[0].unit == "prompt"
    with pytest.raises(InvalidInput, match="unit must be prompt for claude-code files, got episode"):
        open_sources([path], unit="episode")
