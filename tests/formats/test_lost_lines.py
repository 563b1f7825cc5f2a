"""Lines out of order, too long or broken: put in order or named; runs around them keep their calls and tokens."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import UnreadableSource
from core.flows.context import Context
from core.flows.importing import import_files
from core.formats import Entry, Limits, Remark, open_sources, recognise
from core.formats.stream import shortened
from tests.formats.agents import AGENTS, CALLS, made_up
from tests.formats.builders import Json, Session, lines, names, put, read, rejected, runs, text, use, user

LIMITS = Limits(line_bytes=4096)
LONG = b"x" * 9000
BROKEN = {
    "too long": LONG,
    "half a pair": b"\\ud800",
    "no UTF-8": b"\xff",
    "a pair at the cut": b"\\ud83d\\ude00" * 900,
}
AS_LINES = [agent for agent in AGENTS if "without ids" not in agent]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=30)
    | st.text('\\"\ud83d\ue000é😀u', max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)

HIDDEN = {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {}}}]}
GEMINI = [{"role": "user", "parts": [{"text": "hi"}]}, HIDDEN]


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("agent", AS_LINES)
def test_a_broken_prompt_is_named_and_still_opens_its_run(tmp_path: Path, agent: str, what: str) -> None:
    whole = lines(AGENTS[agent](0, CALLS[0]))
    broken = whole.replace(b"prompt 1", b"prompt 1 " + BROKEN[what])
    fine = runs(read(put(tmp_path, whole)))
    entries = read(put(tmp_path, broken), limits=LIMITS)
    assert [one.line for one in rejected(entries)] == [
        number for number, line in enumerate(broken.splitlines(), start=1) if b"prompt 1 " in line
    ]
    assert [(run.uid, names(run), run.tokens) for run in runs(entries)] == [
        (run.uid, names(run), run.tokens) for run in fine
    ]


def test_a_first_line_that_is_too_long_hides_no_format(tmp_path: Path) -> None:
    limits = Limits(line_bytes=160 << 10)
    session = Session().prompt("x" * 400_000).reply(use("Read", "t1"))
    path = put(tmp_path, session.bytes())
    assert recognise(path, limits) == "claude-code"
    assert [names(run) for run in runs(read(path, limits=limits))] == [["Read"]]
    with pytest.raises(UnreadableSource, match="its first line is too long"):
        open_sources([put(tmp_path, lines([{"a": "x" * 400_000}]))], limits=limits)


def test_a_long_answer_of_a_tool_opens_no_run(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(use("Read", "t1"))
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 9000}}
    session.line(
        "user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}]}
    )
    session.reply(text("done"), id="m2")
    entries = read(put(tmp_path, session.bytes()), limits=LIMITS)
    assert ([one.line for one in rejected(entries)], [names(run) for run in runs(entries)]) == (
        [3],
        [["Read"]],
    )


def cut_as(value: object, whole: object) -> bool:
    """Return whether a value is the whole one with its long texts cut."""
    if isinstance(whole, str):
        is_long = len(json.dumps(whole)) > 130
        return isinstance(value, str) and whole.startswith(value) and (value == whole or is_long)
    if isinstance(whole, list):
        return isinstance(value, list) and len(value) == len(whole) and all(map(cut_as, value, whole))
    if isinstance(whole, dict):
        return (
            isinstance(value, dict)
            and list(value) == list(whole)
            and all(map(cut_as, value.values(), whole.values()))
        )
    return value == whole


@given(value=VALUES, size=st.integers(1, 40), escaped=st.booleans())
@example(value=["😀" * 30], size=7, escaped=True)
@example(value=["\\" * 70], size=1, escaped=False)
@example(value=["\x1f" * 12 + "😀" * 5], size=1, escaped=True)
def test_a_shortened_line_is_the_line_with_its_long_texts_cut(
    value: object, size: int, escaped: bool
) -> None:
    try:
        line = json.dumps(value, ensure_ascii=escaped).encode()
    except UnicodeEncodeError:
        return
    most = 8 * 130  # texts of up to 130 bytes
    pieces = [line[at : at + size] for at in range(0, len(line), size)]
    short = shortened(pieces, most)
    if short:
        assert cut_as(json.loads(short), value)
        assert len(short) <= most


# Prompts that wait while the agent works


def queued(**fields: object) -> Session:
    session = Session().prompt("go").reply(use("Read", "t1")).result()
    attachment = {"type": "queued_command", "prompt": "and two", "commandMode": "prompt", **fields}
    session.line("attachment", attachment=attachment)
    return session.reply(use("Grep", "t2"), id="m2").result().reply(text("done"), id="m3")


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": {"kind": "human"}},
        {},
        {"prompt": [{"type": "image", "source": {}}, {"type": "text", "text": "and two"}]},
    ],
)
def test_a_prompt_typed_while_the_agent_works_opens_a_run(tmp_path: Path, fields: dict[str, object]) -> None:
    first, second = runs(read(put(tmp_path, queued(**fields).bytes())))
    assert (names(first), names(second), second.prompt) == (["Read"], ["Grep"], "and two")
    again = queued(**fields)
    twice = runs(read(put(tmp_path, again.bytes() + again.bytes())))
    assert [run.uid for run in twice] == [first.uid, second.uid]


@pytest.mark.parametrize(
    "fields",
    [
        {"commandMode": "task-notification"},
        {"commandMode": "bash"},
        {"origin": {"kind": "coordinator"}},
        {"isMeta": True},
        {"prompt": "<local-command-stdout>ok"},
        {"prompt": []},
        {"prompt": 7},
    ],
)
def test_other_commands_that_waited_open_no_run(tmp_path: Path, fields: dict[str, object]) -> None:
    (run,) = runs(read(put(tmp_path, queued(**fields).bytes())))
    assert names(run) == ["Read", "Grep"]


# Envelopes


@pytest.mark.parametrize("name", ["history", "messages"])
def test_an_envelope_with_other_content_is_not_claimed(tmp_path: Path, name: str) -> None:
    assert recognise(put(tmp_path, lines([{name: GEMINI, "meta": {}}]))) is None


@pytest.mark.parametrize("unit", ["episode", "turn"])
def test_a_message_of_an_unknown_role_hides_its_calls_loudly(tmp_path: Path, unit: str) -> None:
    path = put(tmp_path, lines([{"messages": [user("hi"), HIDDEN]}]))
    entries = read(path, unit=unit)  # type: ignore[arg-type]
    assert (runs(entries), len(rejected(entries))) == ([], 1)


def test_an_import_that_brings_nothing_makes_no_act(context: Context, tmp_path: Path) -> None:
    waiting = put(tmp_path, Session().prompt("go").bytes(), "waiting")
    assert (import_files(context, [waiting]).id, import_files(context, [waiting]).empty) == (None, 1)
    answered = put(tmp_path, Session().prompt("go").reply(use("Read", "t1")).bytes(), "answered")
    assert import_files(context, [waiting, answered]).id == "import-1"
    mixed = put(tmp_path, lines([{"messages": [user("hi")]}, *[{"event": "x"}] * 5]), "mixed")
    with pytest.raises(UnreadableSource, match="Nothing could be read; 5 rejected"):
        import_files(context, [mixed])


def remarks(entries: list[Entry]) -> list[str]:
    return [entry.text for entry in entries if isinstance(entry, Remark)]


def shuffled(content: bytes, seed: int, *, n_kept: int = 0) -> bytes:
    """Lines in another order but for the first ones."""
    told = content.splitlines(keepends=True)
    rest = told[n_kept:]
    Random(seed).shuffle(rest)
    return b"".join([*told[:n_kept], *rest])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_in_any_order_gives_the_same_runs(tmp_path: Path, agent: str) -> None:
    # Where lines name neither their session nor the line they follow, the header must come before them.
    n_kept = int(agent == "pi-session without ids")
    for content in made_up(agent):
        wanted = read(put(tmp_path, content))
        assert remarks(wanted) == []
        for seed in range(6):
            found = read(put(tmp_path, shuffled(content, seed, n_kept=n_kept)))
            assert runs(found) == runs(wanted)


def test_real_sessions_in_any_order_give_the_same_runs(shared_data: Path, tmp_path: Path) -> None:
    """So the order that is made is the one in which a program writes."""
    for path in sorted((shared_data / "claude-code").glob("*.gz")):
        content = gzip.decompress(path.read_bytes())
        wanted = read(path)
        assert remarks(wanted) == []
        for seed in range(3):
            content = content if content.endswith(b"\n") else content + b"\n"
            found = read(put(tmp_path, shuffled(content, seed)))
            assert runs(found) == runs(wanted), path.name
            assert ["put in order" in remark for remark in remarks(found)] == [True]


def test_what_was_put_in_order_is_said_once(tmp_path: Path) -> None:
    parts = [shuffled(part, 1) for part in made_up("claude-code")]
    found = read(put(tmp_path, b"".join(parts)))
    (remark,) = remarks(found)
    assert remark.startswith("The lines of 4 sessions were not in order of time, and were put in order (")


def test_a_clock_that_was_set_back_changes_nothing_where_lines_name_the_one_they_follow(
    tmp_path: Path,
) -> None:
    made = json.loads(b"[" + made_up("claude-code")[0].rstrip().replace(b"\n", b",") + b"]")
    wanted = runs(read(put(tmp_path, lines(made))))
    made[3]["timestamp"] = "2026-01-02T02:59:00.000Z"
    found = read(put(tmp_path, lines(made)))
    assert remarks(found) == []
    assert [(run.uid, run.calls) for run in runs(found)] == [(run.uid, run.calls) for run in wanted]


def test_lines_that_name_none_are_ordered_by_time(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(use("Read", "t1")).prompt("two").reply(text("b"), id="m2")
    late, *rest = session.made
    found = read(put(tmp_path, lines([*rest, late])))
    assert runs(found) == runs(read(put(tmp_path, session.bytes())))
    assert len(remarks(found)) == 1


def test_lines_that_follow_each_other_in_a_ring_or_nothing_known_are_kept(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(use("Read", "t1")).reply(text("b"), id="m2")
    first, second, third = session.made
    ring: list[Json] = [
        {**first, "parentUuid": third["uuid"]},
        {**second, "parentUuid": first["uuid"]},
        {**third, "parentUuid": second["uuid"]},
    ]
    (run,) = runs(read(put(tmp_path, lines(ring))))
    assert ([call.name for call in run.calls], run.texts) == (["Read"], ("b",))
    orphans = [{**line, "parentUuid": "elsewhere"} for line in session.made]
    assert runs(read(put(tmp_path, lines(orphans)))) == runs(read(put(tmp_path, session.bytes())))


@pytest.mark.parametrize("agent", ["claude-code", "pi-session"])
def test_what_is_too_much_to_be_put_in_order_is_read_as_it_stands(tmp_path: Path, agent: str) -> None:
    content = shuffled(made_up(agent)[0], 2)
    entries = read(put(tmp_path, content), limits=Limits(document_bytes=100))
    assert runs(entries)
    assert all("too many to be put in order" in remark for remark in remarks(entries))
    assert remarks(entries)
