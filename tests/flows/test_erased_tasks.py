"""The task of an erased episode becomes a number everywhere, and no import brings it back; ids and keys are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, redo, undo
from core.flows.credit import credit_episode
from core.flows.episode import record_step
from core.flows.erase import erase, preview_erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.rollouts import settle_all_rollouts, take_events
from core.records.episode import Episode, Step
from tests.engine import content
from tests.flows.test_episodes import file_of
from tests.worlds import HOUR_MS, START_MS, a_run, context_at
from tests.worlds.events import PLAYED, START, UPDATE, message

TASK, OTHER_TASK = "What is PLANTED plus 1?", "What is 2 plus 1?"
STEPS = tuple(Step(number=number, name="look", reward=0.5) for number in range(3))
WHOLE = Episode(uid="sums/1", environment="sums", task=TASK, model="large", at_ms=START_MS, steps=STEPS)


def imported(context: Context, folder: Path, name: str, *lines: Episode) -> str | None:
    return import_files(context, [file_of(folder, f"{name}.episodes", *lines)]).id


def holds(context: Context) -> bool:
    """Whether a byte of the task is in the database's files."""
    return b"PLANTED" in content(context.store)


def tasks(context: Context) -> dict[str, str | None]:
    return {one.uid: one.task for one in queries.episode_list(context).rows}


def test_it_goes_in_every_version_and_no_import_brings_it_back(context: Context, tmp_path: Path) -> None:
    short = with_fields(WHOLE, steps=STEPS[:2])
    first = imported(context, tmp_path, "short", short)
    imported(context, tmp_path, "whole", WHOLE, with_fields(WHOLE, uid="other"))
    export_file(context, tmp_path / "before.jsonl")
    assert holds(context)
    preview = preview_erase(context, episode="sums/1")
    answer = erase(context, episode="sums/1")
    assert (answer.places, answer.places["episode.task"]) == (preview.places, 2)
    names = tasks(context)
    assert names["other"] == TASK, "an episode that was not erased keeps its task"
    assert str(names["sums/1"]).startswith("erased-task-")
    erase(context, episode="other")
    assert not holds(context)
    assert set(tasks(context).values()) == {names["sums/1"]}, "one task is one number"
    for _ in range(2):
        assert queries.verify(context).differences == ()
        for name in ("short.episodes", "whole.episodes", "before.jsonl"):
            import_files(context, [tmp_path / name])
        redo(context, undo(context, str(first)).undone)
    assert not holds(context)
    assert tasks(context) == {"sums/1": names["sums/1"], "other": names["sums/1"]}
    export_file(context, tmp_path / "after.jsonl")
    elsewhere = context_at(tmp_path / "b.db")
    import_files(elsewhere, [tmp_path / "after.jsonl"])
    assert tasks(elsewhere) == tasks(context)
    assert queries.verify(elsewhere).differences == ()


def test_a_run_takes_the_tasks_of_its_episodes_along(context: Context) -> None:
    record(context, a_run("r"))
    record_step(context, "sums/1", environment="sums", task=TASK, reward=0.5, run="r")
    credit_episode(context, "sums/1", "equal")
    erase(context, run="r")
    assert not holds(context)
    record_step(context, "sums/1", environment="sums", task=TASK, reward=0.5, run="r")
    record_step(context, "sums/2", environment="sums", task=TASK, reward=0.5, run="r")
    assert not holds(context), "what comes of an erased run later comes without its task"
    assert queries.verify(context).differences == ()


def test_a_rollout_that_waits_has_it_no_more(context: Context) -> None:
    take_events(context, [{**START, "task_spec": {"id": TASK}}, *PLAYED])
    settle_all_rollouts(context)
    assert holds(context)
    ((uid, task),) = tasks(context).items()
    assert task == TASK
    erase(context, episode=uid)
    assert not holds(context)
    started = {**START, "task_spec": {"id": TASK}}
    taken = take_events(context, [started, UPDATE, message(5, "assistant_message", content="done")])
    assert taken.refused == (), "what was sent before is known again"
    assert taken.known == 1
    settle_all_rollouts(replace(context, clock=lambda: START_MS + 30 * 24 * HOUR_MS))
    assert str(tasks(context)[uid]).startswith("erased-task-")
    assert not holds(context)
    assert queries.verify(context).differences == ()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_episodes_can_be_erased_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    context = context_at(folder / "a.db")
    uids = ["one", "two", "three"]
    for number in range(data.draw(st.integers(1, 3))):
        lines = [
            with_fields(
                WHOLE,
                uid=uid,
                task=data.draw(st.sampled_from([TASK, OTHER_TASK, None])),
                steps=STEPS[: data.draw(st.integers(1, 3))],
            )
            for uid in data.draw(st.lists(st.sampled_from(uids), unique=True, min_size=1))
        ]
        imported(context, folder, str(number), *lines)
    known = tasks(context)
    erased = data.draw(st.lists(st.sampled_from(sorted(known)), unique=True))
    for uid in erased:
        erase(context, episode=uid)
    now = tasks(context)
    assert {uid: now[uid] for uid in known if uid not in erased} == {
        uid: task for uid, task in known.items() if uid not in erased
    }
    assert not {now[uid] for uid in erased} & {TASK, OTHER_TASK}
    assert queries.verify(context).differences == ()


def test_ids_and_keys_that_stay_are_named(context: Context) -> None:
    record(context, a_run("run of PLANTED"))
    record_step(context, "sums/PLANTED", environment="sums", reward=0.5, run="run of PLANTED")
    reward(context, "tool:other:a", 0.5, run="run of PLANTED", key="key of PLANTED")
    note(context, "tool:other:a", "fine", key="another key of PLANTED")
    answer = erase(context, episode="sums/PLANTED")
    assert holds(context)
    assert {"the ids of runs, executions and episodes", "the keys of requests"} <= {*answer.not_reached}
    with context.store.reading(context.learner) as snapshot:
        of_keys = snapshot.connection.rows("SELECT key FROM reply ORDER BY key")
    assert [key for (key,) in of_keys] == ["another key of PLANTED", "key of PLANTED"]
