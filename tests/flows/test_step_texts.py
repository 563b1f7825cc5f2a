"""Texts of steps: kept only where the setting says so, shown to who may read them, gone for good when erased."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace as with_fields

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.episode import record_step
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.settings import change
from core.records.episode import Episode, Step
from core.store.episodes import episode_digest
from core.store.texts import MAX_TEXT_CHARS
from tests.engine import content, named
from tests.flows.test_episodes import file_of, held
from tests.formats.builders import reply, trajectory, user
from tests.worlds import a_run, acting, context_at

SECRET = "what nobody else may read"
STEPS = (
    Step(number=0, name="look", reward=0.5, asked=f'{{"at": "{SECRET}"}}', answered=f"saw {SECRET}"),
    Step(number=1, name="idle"),
    Step(number=2, name="submit", reward=0.25, finished=True, asked=""),
)
WHOLE = Episode(uid="sums/1", environment="sums", steps=STEPS, runs=("r",))
SHORT = with_fields(WHOLE, steps=STEPS[:2])
SILENT = WHOLE.without_texts()

SAID = [(step.asked, step.answered) for step in STEPS]
NOTHING = [(None, None)] * 3


@pytest.fixture
def context(context: Context) -> Context:
    change(context, "keep_texts", value=True)
    record(context, a_run("r"))
    return context


def import_episodes(context: Context, *lines: Episode, replace: bool = False) -> str | None:
    path = named(context.store)
    file = file_of(path.parent, f"{queries.revision(context).revision}.jsonl", *lines)
    answer = import_files(context, [file], replace=replace)
    assert queries.verify(context).clean
    return answer.id


def texts(context: Context, uid: str = "sums/1") -> list[tuple[str | None, str | None]]:
    return [(step.asked, step.answered) for step in queries.episode(context, uid).steps]


def in_file(context: Context) -> bool:
    """Whether a byte of it is in the database's files."""
    return SECRET.encode() in content(context.store)


def test_they_are_kept_where_the_setting_says_so_and_left_out_elsewhere(
    tmp_path: Path, context: Context
) -> None:
    import_episodes(context, WHOLE)
    assert texts(context) == SAID
    other = context_at(tmp_path / "b.db")
    import_episodes(other, WHOLE)
    assert texts(other) == NOTHING
    assert not in_file(other)
    change(other, "keep_texts", value=True)
    assert import_episodes(other, WHOLE) is not None, "what is imported again brings them"
    assert import_episodes(other, WHOLE) is None, "and once is enough"
    assert texts(other) == SAID


def test_they_make_no_other_episode(context: Context) -> None:
    assert episode_digest(WHOLE) == episode_digest(SILENT)
    import_episodes(context, SILENT)
    import_episodes(context, WHOLE)
    assert texts(context) == SAID
    assert import_episodes(context, SILENT) is None
    assert texts(context) == SAID


def test_a_longer_telling_shares_them_with_the_shorter_and_undone_leaves_them(context: Context) -> None:
    import_episodes(context, SHORT)
    longer = import_episodes(context, WHOLE)
    assert texts(context) == SAID
    undo(context, longer)
    assert texts(context) == SAID[:2]
    redo(context, longer)
    assert texts(context) == SAID


def test_a_step_that_says_something_else_has_no_share_in_them(context: Context) -> None:
    import_episodes(context, SHORT)
    other = with_fields(WHOLE, steps=(Step(number=0, name="peek", reward=0.5), *STEPS[1:]))
    import_episodes(context, other)
    assert texts(context) == SAID[:2], "the first one stays"
    import_episodes(context, other, replace=True)
    assert texts(context) == [(None, None), *SAID[1:]]


def test_long_ones_are_cut_as_other_kept_texts_are(context: Context) -> None:
    step = Step(number=0, asked="x" * (MAX_TEXT_CHARS + 1), answered="y" * MAX_TEXT_CHARS)
    import_episodes(context, Episode(uid="long", environment="sums", steps=(step,)))
    ((asked, answered),) = texts(context, "long")
    assert asked is not None
    assert len(asked) <= MAX_TEXT_CHARS
    assert "more characters" in asked
    assert answered == "y" * MAX_TEXT_CHARS


def test_who_may_not_read_texts_is_given_none(tmp_path: Path, context: Context) -> None:
    import_episodes(context, WHOLE)
    viewer = acting(context, "viewer")
    assert texts(viewer) == NOTHING
    for who, name in ((context, "all.jsonl"), (viewer, "without.jsonl")):
        export_file(who, tmp_path / name)
        assert (SECRET in (tmp_path / name).read_text()) == (who is context)
    other = context_at(tmp_path / "b.db")
    change(other, "keep_texts", value=True)
    assert import_files(other, [tmp_path / "all.jsonl"]).rejected_count == 0
    assert texts(other) == SAID
    assert import_episodes(context, WHOLE) is None


@pytest.mark.parametrize("of", [{"run": "r"}, {"episode": "sums/1"}])
def test_erased_they_are_gone_from_the_file_and_no_import_brings_them_back(
    context: Context, of: dict[str, str]
) -> None:
    import_episodes(context, SHORT)
    longer = import_episodes(context, WHOLE)
    undo(context, longer)
    assert in_file(context)
    found = erase(context, **of)
    assert found.places["step_text"] == 2, "those with texts, in every version"
    assert not in_file(context)
    redo(context, longer)
    assert texts(context) == NOTHING
    import_episodes(context, WHOLE)
    assert texts(context) == NOTHING
    assert not in_file(context)
    assert queries.episode(context, "sums/1").total == 0.75, "numbers stay"


def imported(context: Context, name: str, *told: object) -> list[tuple[str | None, str | None]]:
    """Texts of the one episode that a file of these documents, a line each, tells."""
    file = named(context.store).parent / name
    file.write_text("".join(f"{json.dumps(one)}\n" for one in told))
    import_files(context, [file])
    assert queries.verify(context).clean
    with context.reading() as snapshot:
        ((uid,),) = snapshot.connection.rows(
            "SELECT uid FROM episode WHERE learner_id = ?", [snapshot.learner_id]
        )
    return texts(context, uid)


def called(path: str, body: object, answer: object) -> dict[str, object]:
    """An exchange with an environment."""
    stream = [{"event": "end", "data": json.dumps(answer)}]
    head = {"method": "POST", "path": path, "status": 200, "request_headers": {"X-Session-ID": "s-1"}}
    return {**head, "request_body": body, "events": stream}


def test_recorded_exchanges_bring_arguments_and_blocks(context: Context) -> None:
    blocks = [{"type": "text", "text": "one, "}, {"type": "image"}, {"type": "text", "text": "t\0wo \ud83d"}]
    found = imported(
        context,
        "exchanges.jsonl",
        called("/create", {"env_name": "sums"}, {}),
        called(
            "/sums/call", {"name": "look", "input": {"at": 3}}, {"ok": True, "output": {"blocks": blocks}}
        ),
        called("/sums/call", {"name": "look"}, {"ok": False}),
    )
    assert found == [('{"at": 3}', "one, t\ufffdwo ?"), (None, None)]


def test_rollout_events_bring_calls_and_what_was_said(context: Context) -> None:
    def message(index: int, kind: str, **more: object) -> dict[str, object]:
        said = {"eventType": "message", "type": kind, "index": index, "rolloutEventId": "r-1"}
        return {"eventId": f"m{index}", "timestamp": index * 1_000, **said, **more}

    found = imported(
        context,
        "events.jsonl",
        {"eventId": "r-1", "eventType": "rollout", "timestamp": 0, "environment": "sums"},
        message(0, "tool_call", name="look", callId="c1", content='{"at": 3}'),
        message(1, "tool_result", callId="c1", content="seen", reward=0.5),
        message(2, "assistant_message", content="done", reward=1.0, isFinished=True),
    )
    assert found == [('{"at": 3}', "seen"), ("done", None)]


@pytest.mark.parametrize(("answers", "seen"), [(["found 3"], "found 3"), ([], None), (["a", "b"], None)])
def test_benchmark_records_bring_calls_with_answers_that_are_theirs_for_sure(
    context: Context, answers: list[str], seen: str | None
) -> None:
    talk: list[Mapping[str, object]] = [
        user("Find"),
        reply(None, "search"),
        *({"role": "tool", "content": one} for one in answers),
        reply("3"),
    ]
    file = named(context.store).parent / "records.json"
    file.write_text(json.dumps([trajectory(talk, 7, 0.25)]))
    import_files(context, [file])
    (uid,) = held(context)
    assert texts(context, uid) == [('{"q": 1}', seen), ("3", None)]


def test_recorded_directly_they_come_with_the_step(context: Context) -> None:
    for number in (0, 0, 1):
        record_step(
            context, "e", environment="sums", number=number, run="r", asked=f"{number}?", answered="!"
        )
    assert texts(context, "e") == [("0?", "!"), ("1?", "!")]
    erase(context, run="r")
    record_step(context, "e", asked="2?")
    assert texts(context, "e") == NOTHING
    assert queries.verify(context).clean
