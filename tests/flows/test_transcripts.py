"""Transcripts: what a run shows where texts are kept, and that nothing of them is left where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields

from core.doors.python import Learner
from core.errors import ArmscopeError, NotFound
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.erase import erase, preview_erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.importing.files import import_in_steps
from core.flows.learn import record
from core.flows.maintenance import backup
from core.formats import open_sources
from core.records.bill import merged
from core.records.transcript import MAX_TRANSCRIPT_CHARS
from core.secrecy import secrets_in
from tests.engine import content
from tests.flows.test_masked_texts import SECRETS
from tests.formats.agents import AGENTS, CALLS, made_up
from tests.formats.builders import Session, lines, put, reply, text, trajectory, use, user
from tests.waiting import memory_folder
from tests.worlds import IN_PARTS, a_run, acting, keeping

CANARY = "PLANTED-7f3"

EXPECTED = [
    ("user", "", "prompt 0", None),
    ("agent", "", "Let me look", None),
    ("call", "Bash", '{"command":"ls"}', f"{CANARY} a.txt"),
    ("agent", "", "done", None),
]


def spoken(context: Context, run: str) -> list[tuple[str, str, str, str | None]]:
    messages = queries.transcript(context, run).messages or ()
    return [(one.kind, one.name, one.text, one.result) for one in messages]


def of_claude(n_prompts: int = 1) -> bytes:
    session = Session()
    for number in range(n_prompts):
        session.prompt(f"prompt {number}")
        session.reply(text("Let me look"), use("Bash", f"t{number}", command="ls"), id=f"m{number}")
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{CANARY} a.txt"}
        session.line("user", message={"role": "user", "content": [answer]})
        session.reply(text("done"), id=f"n{number}")
    return session.bytes()


def test_an_import_brings_messages_calls_and_results_in_order(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    import_files(context, [put(tmp_path, of_claude(), "s.jsonl")])
    assert spoken(context, "1") == EXPECTED
    again = import_files(context, [put(tmp_path, of_claude(), "s.jsonl")])
    assert (again.updated, spoken(context, "1")) == (0, EXPECTED)
    assert queries.verify(context).clean


def test_the_steps_spend_together_what_the_run_is_billed(tmp_path: Path) -> None:
    context, session = keeping(tmp_path), Session().prompt("go")
    for number in range(1, 4):
        usage = {"input_tokens": number, "cache_read_input_tokens": 90, "output_tokens": 7 * number}
        session.reply(text("Look"), use("Bash", f"t{number}", command="ls"), id=f"m{number}", usage=usage)
    import_files(context, [put(tmp_path, session.bytes(), "s.jsonl")])
    messages = queries.transcript(context, "1").messages or ()
    assert [one.tokens for one in messages] == [0, 98, 0, 106, 0, 114, 0]
    rows = [replace_fields(row, model=None) for one in messages for row in one.spent]
    assert merged(rows) == merged(
        replace_fields(row, model=None) for row in queries.run(context, "1").facts.bill
    )


def test_a_benchmark_record_brings_them_too(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    answer = {"role": "tool", "tool_call_id": "c1", "content": "two"}
    other = {"role": "tool", "tool_call_id": "c0", "content": "one"}
    record_of = trajectory([user("Go"), reply("Well", "find", "book"), answer, other, reply("Done")])
    import_files(context, [put(tmp_path, lines([record_of]), "t.jsonl")])
    assert spoken(context, "1") == [
        ("user", "", "Go", None),
        ("agent", "", "Well", None),
        ("call", "find", '{"q": 1}', "one"),
        ("call", "book", '{"q": 1}', "two"),
        ("agent", "", "Done", None),
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agents_calls_are_in_its_transcript(tmp_path: Path, agent: str) -> None:
    context = keeping(tmp_path)
    import_files(
        context, [put(tmp_path, one, f"{number}.jsonl") for number, one in enumerate(made_up(agent))]
    )
    called = sorted(
        tuple(one[1] for one in spoken(context, run.uid) if one[0] == "call") for run in queries.runs(context)
    )
    assert called == sorted(tuple(tools) for session in CALLS for tools in session)


def test_a_run_under_way_brings_what_its_messages_say(tmp_path: Path) -> None:
    learner = Learner(keeping(tmp_path))
    call = {"id": "c1", "function": {"name": "a", "arguments": '{"q": 1}'}}
    with learner.run(["tool:other:a"], uid="live") as run:
        run.from_messages(
            [
                {"role": "user", "content": "2 + 2?"},
                {"role": "assistant", "content": "Let me see", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "4"},
                {"role": "assistant", "content": "It is 4."},
            ]
        )
        run.called("b", {"x": 1})
    assert spoken(learner._context, "live") == [
        ("user", "", "2 + 2?", None),
        ("agent", "", "Let me see", None),
        ("call", "a", '{"q": 1}', "4"),
        ("agent", "", "It is 4.", None),
        ("call", "b", '{"x": 1}', None),
    ]
    learner.record("told", arms=["tool:other:a"], calls=["a"], texts=["first", "last"], prompt="Why?")
    assert [one[:3:2] for one in spoken(learner._context, "told")] == [
        ("user", "Why?"),
        ("call", ""),
        ("agent", "first"),
        ("agent", "last"),
    ]
    learner.record("left", arms=["tool:other:a"], calls=["a"], texts=["x"], prompt="Why?", keep=False)
    assert queries.transcript(learner._context, "left").messages is None


def test_off_no_byte_is_kept(context: Context, tmp_path: Path) -> None:
    import_files(context, [put(tmp_path, of_claude(), "s.jsonl")])
    assert queries.transcript(context, "1").messages is None
    assert CANARY.encode() not in content(context.store)


def test_secrets_are_masked_before_they_are_stored(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    session = Session().prompt(f"use {SECRETS[0]}")
    for number, secret in enumerate(SECRETS):
        session.reply(use("Bash", f"t{number}", command=secret), id=f"m{number}")
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"found {secret} here"}
        session.line("user", message={"role": "user", "content": [answer]})
    import_files(context, [put(tmp_path, session.bytes(), "s.jsonl")])
    told = spoken(context, "1")
    assert len(told) == 1 + len(SECRETS)
    assert [secrets_in(f"{one[2]} {one[3]}") for one in told] == [()] * len(told)
    held = content(context.store)
    assert [secret for secret in SECRETS if secret.encode() in held] == []


def test_what_is_kept_of_a_run_is_bounded(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    session = Session().prompt("begin")
    for number in range(300):
        session.reply(use("Bash", f"t{number}", command="x" * 300), id=f"m{number}")
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "y" * 50_000}
        session.line("user", message={"role": "user", "content": [answer]})
    session.reply(text("the end"), id="end")
    import_files(context, [put(tmp_path, session.bytes(), "s.jsonl")])
    told = spoken(context, "1")
    assert sum(len(one[2]) + len(one[3] or "") for one in told) <= MAX_TRANSCRIPT_CHARS
    assert (told[0][2], told[-1][2]) == ("begin", "the end")
    assert [int(one[2]) + len(told) - 1 for one in told if one[0] == "left out"] == [302]


def test_a_run_that_grows_shows_its_newest_messages_and_the_older_after_an_undo(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    whole = of_claude()
    shorter = b"".join(whole.splitlines(keepends=True)[:3])
    import_files(context, [put(tmp_path, shorter, "short.jsonl")])
    assert spoken(context, "1") == EXPECTED[:3]
    grown = import_files(context, [put(tmp_path, whole, "long.jsonl")])
    assert spoken(context, "1") == EXPECTED
    undo(context, grown.id)
    assert spoken(context, "1") == EXPECTED[:3]
    import_files(context, [put(tmp_path, whole, "long.jsonl")])
    assert spoken(context, "1") == EXPECTED


def test_erasing_leaves_no_byte_in_file_log_or_fresh_backup(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    file = put(tmp_path, of_claude(2), "s.jsonl")
    import_files(context, [file])
    import_files(context, [put(tmp_path, of_claude(2)[: len(of_claude(2)) // 2], "half.jsonl")])
    assert CANARY.encode() in content(context.store)
    preview = preview_erase(context, session="s1")
    answer = erase(context, session="s1")
    assert answer.places == preview.places
    assert answer.places["run_text"] == 2
    for _ in range(2):
        assert CANARY.encode() not in content(context.store)
        assert queries.transcript(context, "1").messages is None
        import_files(context, [file])
    backup(context, tmp_path / "copy.db")
    assert CANARY.encode() not in (tmp_path / "copy.db").read_bytes()
    assert queries.verify(context).clean


def test_an_export_holds_no_transcript(tmp_path: Path) -> None:
    """It goes to other programs and people; a backup holds it."""
    context = keeping(tmp_path)
    import_files(context, [put(tmp_path, of_claude(), "s.jsonl")])
    export_file(context, tmp_path / "out.jsonl")
    assert CANARY.encode() not in (tmp_path / "out.jsonl").read_bytes()


def test_who_may_not_read_texts_gets_none(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    record(context, a_run("r"))
    import_files(context, [put(tmp_path, of_claude(), "s.jsonl")])
    viewer = acting(context, "viewer")
    assert (queries.transcript(viewer, "2").messages, queries.transcript(viewer, "2").may_read) == (
        None,
        False,
    )
    assert queries.transcript(context, "2").messages is not None


LINES: Final = of_claude(3).splitlines(keepends=True)


def _imported(context: Context, folder: Path, n_lines: int, meanwhile: Sequence[int | str]) -> None:
    """Import the session so far: at once, or in parts with other acts between them, of which one may end it."""
    files = [put(folder, b"".join(LINES[:n_lines]), f"{n_lines}.jsonl")]
    if not meanwhile:
        import_files(context, files)
        return
    acts = iter(meanwhile)
    steps = import_in_steps(replace(context, pace=IN_PARTS), open_sources(files))
    for _ in steps:
        act = next(acts, None)
        if act == "stop":
            steps.close()
        elif act == "erase":
            erase(context, session="s1")
        elif act == "undo":
            with suppress(ArmscopeError):
                undo(context, "import-1")  # the first import, which may not exist yet
        elif isinstance(act, int):
            _imported(context, folder, act, ())


@given(
    st.lists(
        st.tuples(
            st.integers(3, len(LINES)),
            st.lists(st.integers(3, len(LINES)) | st.sampled_from(("stop", "erase", "undo")), max_size=3),
        ),
        min_size=1,
        max_size=3,
    )
)
@example([(10, []), (9, ["undo", 3, "stop"])])
def test_the_chain_follows_each_transcript(imports: list[tuple[int, list[int | str]]]) -> None:
    """The checksums cover each transcript: `verify` is clean after any acts, and finds a changed text."""
    with TemporaryDirectory(dir=memory_folder()) as folder:
        context = keeping(Path(folder))
        with closing(context.store):
            for n_lines, meanwhile in imports:
                with suppress(NotFound):  # no finished import has the session to erase
                    _imported(context, Path(folder), n_lines, meanwhile)
            assert queries.verify(context).clean
            context.store.database.write(lambda one: one.run("UPDATE run_text SET messages = '[]'"))
            with context.reading() as snapshot:
                # Rows of an unfinished import have a later revision than the snapshot.
                n_settled = snapshot.connection.rows(
                    "SELECT count(*) FROM run_text WHERE revision <= ?", [snapshot.revision]
                )[0][0]
            assert queries.verify(context).clean is (n_settled == 0)
