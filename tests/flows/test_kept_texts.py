"""Texts of runs: kept where the setting is on as they come, with the version that tells them, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from core.doors.python import Learner
from core.flows import queries
from core.flows.context import USUAL_PACE, Context, ImportPace
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.importing.files import import_in_steps
from core.flows.learn import record
from core.flows.settings import change
from core.formats import open_sources
from core.records.run import Run, Unit
from core.store.reads import run_of_uid
from core.store.subjects import execution_lines
from core.store.texts import MAX_TEXT_CHARS, StoredTexts, execution_uid, pair_of, read_texts
from tests.engine import content
from tests.formats.agents import AGENTS, made_up
from tests.formats.builders import lines
from tests.worlds import IN_PARTS, a_run, context_at, keeping

PACES = pytest.mark.parametrize("pace", [USUAL_PACE, IN_PARTS], ids=["at once", "in parts"])
OTHERS = tuple(f"o{number}" for number in range(4))

TALK = [
    {"role": "system", "content": "You are."},
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": "second"},
    {"role": "assistant", "content": "two"},
]


def run_with_texts(uid: str, prompt: str | None = None, reply: str | None = None, *, rank: int = 0) -> Run:
    run = a_run(uid, calls=("a",) * (rank + 1), rank=rank)
    return msgspec.structs.replace(run, prompt=prompt, reply=reply)


def file_of(folder: Path, name: str, *told: tuple[str, str | None, int]) -> Path:
    """Runs by uid, answer and rank, and some more, so that there are parts."""
    file = folder / name
    file.write_bytes(
        lines(
            {
                "kind": "run",
                "uid": uid,
                "arms": ["tool:other:a"],
                "calls": ["a"] * (rank + 1),
                "rank": rank,
                **({} if reply is None else {"prompt": f"ask {uid}", "reply": reply}),
            }
            for uid, reply, rank in (*told, *((uid, f"said {uid}", 0) for uid in OTHERS))
        )
    )
    return file


def texts(context: Context, uid: str) -> StoredTexts | None:
    """What anyone who reads is shown: the pair of the execution as an export tells it."""
    with context.store.reading(context.learner) as snapshot:
        for _, line in execution_lines(snapshot):
            if getattr(line, "uid", None) == execution_uid(uid):
                pair = line.pairs[0]  # type: ignore[union-attr]
                found = StoredTexts(pair.instruction, pair.response)
                return None if found == (None, None) else found
    return None


def response_of(context: Context, uid: str) -> str | None:
    found = texts(context, uid)
    if found is None or found.response is None:
        return None
    answer: str = msgspec.json.decode(found.response)["raw_solution"]
    return answer


def is_sound(context: Context) -> bool:
    return queries.verify(context).differences == ()


def bytes_of(context: Context) -> bytes:
    return content(context.store)


def test_a_recorded_run_is_an_execution_of_its_own(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    record(context, run_with_texts("r", "Why?", "Because."))
    assert texts(context, "r") == pair_of("Why?", "Because.")
    assert evaluate(context, execution_uid("r"), "success").uri == f"execution:{execution_uid('r')}"
    assert is_sound(context)


def test_off_nothing_of_it_touches_the_disk(context: Context, tmp_path: Path) -> None:
    record(context, run_with_texts("r", "PLANTED prompt", "PLANTED reply"))
    import_files(context, [file_of(tmp_path, "f.jsonl", ("s", "PLANTED too", 0))])
    other = keeping(tmp_path, name="b.db")
    record(other, run_with_texts("t", "PLANTED prompt", "PLANTED reply"))
    export_file(other, tmp_path / "b.jsonl")
    change(other, "keep_texts", False)
    import_files(context, [tmp_path / "b.jsonl"])
    context.store.close()
    assert b"PLANTED" not in bytes_of(context)


def test_one_run_can_be_left_out(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    learner = Learner(context)
    learner.record("kept", arms=["tool:other:a"], calls=["a"], texts=["first", "last"], prompt="Why?")
    learner.record(
        "left", arms=["tool:other:a"], calls=["a"], texts=["first", "last"], prompt="Why?", keep=False
    )
    with learner.run(["tool:other:a"], uid="under way") as run:
        run.asked("Who?")
        run.said("You.")
        run.called("a")
    assert texts(context, "kept") == pair_of("Why?", "last")
    assert texts(context, "left") is None
    assert texts(context, "under way") == pair_of("Who?", "You.")


@PACES
def test_a_run_that_grows_has_its_newest_texts_and_the_older_after_an_undo(
    tmp_path: Path, pace: ImportPace
) -> None:
    context = keeping(tmp_path, pace)
    import_files(context, [file_of(tmp_path, "short", ("r", "short", 0))])
    grown = import_files(context, [file_of(tmp_path, "long", ("r", "long", 1))])
    assert grown.updated == 1
    assert response_of(context, "r") == "long"
    undo(context, grown.id)
    assert response_of(context, "r") == "short"
    redo(context, grown.id)
    assert response_of(context, "r") == "long"
    assert is_sound(context)


@PACES
def test_told_again_what_was_not_kept_can_be(tmp_path: Path, pace: ImportPace) -> None:
    context = replace(context_at(tmp_path / "a.db"), pace=pace)
    file = file_of(tmp_path, "f", ("r", "late", 0))
    import_files(context, [file])
    change(context, "keep_texts", True)
    again = import_files(context, [file])
    assert (again.updated, response_of(context, "r")) == (0, "late")
    assert import_files(context, [file]).id is None, "a third time there is nothing new"
    undo(context, again.id)
    assert response_of(context, "r") is None, "as if it had never been read again"
    assert is_sound(context)


def test_an_import_that_comes_to_nothing_leaves_no_texts(tmp_path: Path) -> None:
    context = keeping(tmp_path, IN_PARTS)
    file = file_of(tmp_path, "f", ("r", "PLANTED", 0))
    with open_sources([file]) as opened:
        steps = import_in_steps(context, opened)
        next(steps)
        record(context, run_with_texts("o1", "mine", "mine"))  # told by others meanwhile
        assert response_of(context, "r") is None
        assert response_of(context, "o1") == "mine"
        steps.close()
    assert is_sound(context)
    import_files(context, [file_of(tmp_path, "g", ("s", "another", 0))])
    assert (response_of(context, "r"), response_of(context, "s")) == (None, "another")
    with context.store.reading(context.learner) as snapshot:
        assert run_of_uid(snapshot, "r") is None
    assert is_sound(context)


def test_a_learner_that_an_import_was_making_goes_with_it(tmp_path: Path) -> None:
    context = replace(keeping(tmp_path), learner="other", pace=IN_PARTS)
    head = lines([{"armscope": 1, "kind": "learner", "name": "other", "settings": {"keep_texts": True}}])
    file = tmp_path / "head.jsonl"
    file.write_bytes(head + file_of(tmp_path, "f", ("r", "x", 0)).read_bytes())
    with open_sources([file]) as opened:
        steps = import_in_steps(context, opened)
        next(steps)
        steps.close()
    context.store.sweep()
    assert import_files(context, [file]).runs == 5
    assert is_sound(context)


@PACES
def test_exports_carry_texts_to_who_keeps_them(tmp_path: Path, pace: ImportPace) -> None:
    context = keeping(tmp_path)
    record(context, run_with_texts("r", "Why?", "Because."))
    import_files(context, [file_of(tmp_path, "f", ("s", "said", 0))])
    export_file(context, tmp_path / "all.jsonl")
    other = replace(context_at(tmp_path / "b.db"), pace=pace)
    told = import_files(other, [tmp_path / "all.jsonl"])  # the learner is new, so it takes the settings over
    assert told.rejected == ()
    assert texts(other, "r") == pair_of("Why?", "Because.")
    export_file(other, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes().count(b"Because.") == 1
    assert import_files(other, [tmp_path / "all.jsonl"]).id is None
    record(other, run_with_texts("r", "Why?", "Because, in the end.", rank=1))
    again = import_files(other, [tmp_path / "all.jsonl"])
    assert (again.rejected, response_of(other, "r")) == ((), "Because, in the end.")
    assert is_sound(other)


def test_a_text_beyond_the_limit_is_cut_with_a_mark(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    record(context, run_with_texts("r", "x" * (MAX_TEXT_CHARS + 1), "y" * MAX_TEXT_CHARS))
    found = texts(context, "r")
    assert found is not None
    assert "more characters …]" in (found.instruction or "")
    assert found.response == f'{{"raw_solution":"{"y" * MAX_TEXT_CHARS}"}}'


def test_a_prompt_is_no_part_of_what_tells_a_run_from_another(tmp_path: Path) -> None:
    context = keeping(tmp_path)
    record(context, run_with_texts("r", "Why?", "Because."))
    assert record(context, run_with_texts("r", "Why, then?", "So.")).told == "duplicate"
    with context.store.reading(context.learner) as snapshot:
        assert read_texts(snapshot, 1) == pair_of("Why?", "Because.")


@pytest.mark.parametrize("agent", AGENTS)
def test_session_files_hand_on_what_was_asked_and_said(tmp_path: Path, agent: str) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(made_up(agent)[0])
    with open_sources([file]) as opened:
        runs = [entry for entry in opened.sources[0].entries(None) if isinstance(entry, Run)]
    assert [(run.prompt, run.reply) for run in runs] == [(f"prompt {place}", "done") for place in range(3)]


@pytest.mark.parametrize(
    ("unit", "told"), [("turn", [("first", "one"), ("second", "two")]), ("episode", [("first", "two")])]
)
@pytest.mark.parametrize("told_as", [{"messages": TALK}, {"task_id": 1, "trial": 0, "traj": TALK}])
def test_records_of_messages_hand_on_the_first_prompt_and_the_last_answer(
    tmp_path: Path, told_as: dict[str, object], unit: Unit, told: list[tuple[str, str]]
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_bytes(lines([told_as]))
    with open_sources([file], unit=unit) as opened:
        runs = [entry for entry in opened.sources[0].entries(None) if isinstance(entry, Run)]
    assert [(run.prompt, run.reply) for run in runs] == told


@pytest.mark.parametrize(
    "said",
    [
        {"input": [{"role": "user", "content": "old"}, {"role": "user", "content": "Why?"}]},
        {"input": {"messages": [{"role": "user", "parts": [{"type": "text", "text": "Why?"}]}]}},
        {"input": "Why?"},
        {
            "metadata": {
                "attributes": {
                    "llm.input_messages.0.message.role": "system",
                    "llm.input_messages.0.message.content": "You are.",
                    "llm.input_messages.1.message.role": "user",
                    "llm.input_messages.1.message.content": "Why?",
                }
            }
        },
    ],
    ids=["messages", "parts", "text", "flat"],
)
def test_a_trace_hands_on_what_its_first_reply_answers(tmp_path: Path, said: dict[str, object]) -> None:
    reply = {
        "id": "g",
        "type": "GENERATION",
        "startTime": "2026-01-02T03:04:05Z",
        "output": "Because.",
        **said,
    }
    file = tmp_path / "trace.json"
    file.write_bytes(msgspec.json.encode({"trace": {"id": "t"}, "observations": [reply]}))
    with open_sources([file], format="langfuse") as opened:
        runs = [entry for entry in opened.sources[0].entries(None) if isinstance(entry, Run)]
    assert [(run.prompt, run.reply) for run in runs] == [("Why?", "Because.")]
