"""Rollouts: every event once, whatever order it comes in; what waits is listed, and nothing else is kept back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from core.errors import StoreBusy
from core.flows import queries
from core.flows.context import Context
from core.flows.erase import erase
from core.flows.importing import import_files
from core.flows.rollouts import rollouts, settle_all_rollouts, settle_rollouts, take_events
from core.flows.settings import change
from core.formats.openreward import Rollouts
from core.records.episode import Episode
from core.store import rollouts as store
from core.store.episodes import find_episode
from tests.flows.test_episodes import held
from tests.formats.builders import lines, put
from tests.worlds import START_MS, context_at, is_clean
from tests.worlds.events import EVERY, PLAYED, START, UPDATE, Event, message


def episode_of(events: list[Event]) -> Episode:
    """What the events come to at once."""
    found = Rollouts()
    for event in events:
        found.take(json.dumps(event).encode())
    (one,) = found.episodes()
    assert isinstance(one, Episode)
    return one


def without_digests(one: Episode) -> Episode:
    """As exports have it, where no texts are kept."""
    nothing = dict.fromkeys(("args_digest", "meta_digest", "asked", "answered"))
    return structs.replace(one, steps=tuple(structs.replace(step, **nothing) for step in one.steps))


@given(data=st.data())
@settings(max_examples=30)
def test_order_repeats_and_batches_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    context = context_at(tmp_path_factory.mktemp("a") / "a.db")
    rest = data.draw(st.permutations([*EVERY, *data.draw(st.lists(st.sampled_from(EVERY), max_size=4))]))
    n_kept = 0
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:n], rest[n:]
        answer = take_events(context, batch)
        n_kept += answer.kept
        assert (answer.refused, answer.kept + answer.known) == ((), len(batch))
        assert (rollouts(context) == []) == (context_has_started(context))
    settle_rollouts(context)
    assert n_kept == len(EVERY)
    assert list(held(context).values()) == [without_digests(episode_of(EVERY))]
    assert is_clean(context)
    context.store.close()


def context_has_started(context: Context) -> bool:
    with context.reading() as snapshot:
        return bool(store.rollouts_of(snapshot, ["r1"])["r1"].started)


def test_it_is_the_episode_that_an_import_makes(tmp_path: Path, context: Context) -> None:
    """Also what tells equal arguments: telling it a second time, by a file, changes nothing."""
    take_events(context, EVERY)
    with context.reading() as snapshot:
        first = find_episode(snapshot, "own/sums/r1")
    answer = import_files(context, [put(tmp_path, lines(EVERY), "events.jsonl")])
    assert (answer.episodes, answer.episode_duplicates, answer.rejected_count) == (1, 1, 0)
    with context.reading() as snapshot:
        second = find_episode(snapshot, "own/sums/r1")
    assert second == first
    assert first is not None
    assert first[0].steps[-1].args_digest is not None
    assert is_clean(context)


@given(data=st.data())
@settings(max_examples=20)
def test_files_are_held_as_uploads_are(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Events in files, in any order and more than once: when the start has come, it is the episode of all."""
    folder = tmp_path_factory.mktemp("a")
    context = context_at(folder / "a.db")
    order = data.draw(st.permutations([UPDATE, *PLAYED]))
    parts = [order[:3], order[2:5], order[4:]]
    for number, part in enumerate(parts):
        answer = import_files(context, [put(folder, lines(part), f"{number}.jsonl")])
        assert (answer.id, answer.rejected_count, held(context)) == (None, 0, {})
        assert ["'r1' has not started" in one for one in answer.notes] == [True]
        assert [row.rollout for row in rollouts(context)] == ["r1"]
    if data.draw(st.booleans()):
        take_events(context, [START])
    else:
        import_files(context, [put(folder, lines([START]), "start.jsonl")])
    assert rollouts(context) == []
    assert list(held(context).values()) == [without_digests(episode_of(EVERY))]
    again = import_files(context, [put(folder, lines(parts[0]), "again.jsonl")])
    assert (again.id, list(held(context).values())) == (None, [without_digests(episode_of(EVERY))])
    assert is_clean(context)
    context.store.close()


@pytest.mark.parametrize("is_file", [False, True])
def test_texts_are_kept_where_texts_are_and_erased_with_their_episode(
    tmp_path: Path, context: Context, *, is_file: bool
) -> None:
    """Those that wait, too; and what was erased is not kept again."""

    def send(events: list[Event]) -> None:
        if is_file:
            import_files(context, [put(tmp_path, lines(events), "events.jsonl")])
        else:
            take_events(context, events)

    take_events(context, [message(9, eventId="w9", rolloutEventId="w", content="unkept")])
    change(context, "keep_texts", value=True)
    send(PLAYED)
    send([START, UPDATE])
    texts = [(step.asked, step.answered) for step in queries.episode(context, "own/sums/r1").steps]
    assert texts == [('{"a": 1}', None), ('{"a": 1}', "seen"), ("{}", "Correct!")]
    assert b"Correct!" in kept_messages(context)
    assert b"unkept" not in kept_messages(context)
    erase(context, episode="own/sums/r1")
    send(EVERY)
    take_events(context, [message(5, content="once more", reward=0.0)])
    texts = [(step.asked, step.answered) for step in queries.episode(context, "own/sums/r1").steps]
    assert texts == [(None, None)] * 4
    assert b"Correct!" not in kept_messages(context)
    assert b"once more" not in kept_messages(context)
    assert is_clean(context)


def kept_messages(context: Context) -> bytes:
    with context.reading() as snapshot:
        found = snapshot.connection.rows("SELECT content FROM rollout_message WHERE learner_id = 1")
    return "\n".join(content for (content,) in found).encode()


def test_hostile_names_are_names(context: Context) -> None:
    hostile = "<script>\0\ud800" + "x" * 5_000
    events = [
        {**START, "eventId": hostile, "environment": hostile, "variant": hostile, "split": hostile},
        message(0, name=hostile, content=hostile, metadata={hostile: hostile}, rolloutEventId=hostile),
    ]
    answer = take_events(context, events)
    assert (answer.kept, answer.refused, len(answer.episodes)) == (2, (), 1)
    (one,) = held(context).values()
    assert one.steps[0].n_chars_out == len(hostile)
    assert is_clean(context)


def test_there_is_an_end_to_what_is_kept(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_EVENTS", 8)
    monkeypatch.setattr(store.keep_rollouts, "__kwdefaults__", {"at_most": 8})
    take_events(context, EVERY)
    waiting = [message(n, eventId=f"w{n}", rolloutEventId="w") for n in range(8)]
    take_events(context, waiting)  # what is told makes room
    with pytest.raises(StoreBusy, match="at most 8"):
        take_events(context, [message(9, eventId="w9", rolloutEventId="w")])
    assert [row.rollout for row in rollouts(context)] == ["w"]
    assert len(held(context)) == 1
    late = replace(context, clock=lambda: context.clock() + 2 * store.LIFETIME_MS)
    settle_all_rollouts(late)
    assert rollouts(context) == []
    assert take_events(context, EVERY).kept == len(EVERY), "it is told as before"
    assert len(held(context)) == 1
    assert is_clean(context)


def test_a_long_rollout_is_told_now_and_then_and_in_the_end(context: Context) -> None:
    """In time that grows with its length, not with its square."""
    n_told = 0
    whole = [message(n, reward=0.01, metadata={"n": n}, timestamp=START_MS) for n in range(6_000)]
    take_events(context, [START])
    at = replace(context, clock=lambda: START_MS)
    for start in range(0, len(whole), 128):
        n_told += len(take_events(at, whole[start : start + 128]).episodes)
    assert n_told < 30 < len(whole) // 128
    settle_all_rollouts(replace(context, clock=lambda: START_MS + store.PAUSE_MS))
    (one,) = held(context).values()
    assert len(one.steps) == len(whole)
    assert queries.episode(context, "own/sums/r1").total == 60
    assert is_clean(context)


def test_tasks_are_as_hard_as_their_episodes_say(context: Context) -> None:
    for number, (task, reward, variant) in enumerate(
        [("0", 1.0, None), ("0", 0.0, None), ("1", None, None), ("t", 0.5, "v1")]
    ):
        start = {**START, "eventId": f"e{number}", "variant": variant, "task_spec": {"id": task}}
        call = message(0, "tool_call", name="look", callId="c", content="x" * (number + 1))
        paid = message(1, callId="c", reward=reward)
        events = [{**one, "rolloutEventId": f"e{number}"} for one in (call, paid)]
        take_events(context, [start, *events])
    found = queries.task_difficulty(context, "own/sums")
    assert [(one.task, one.variant, one.n, one.average, one.lowest) for one in found] == [
        ("0", None, 2, 0.5, 0.0),
        ("t", "v1", 1, 0.5, 0.5),
    ]
    assert found[0].response_chars["mean"] == found[0].response_chars["p50"] == 1.5
    assert queries.variants(context, "own/sums") == ["v1"]
    assert [one.task for one in queries.task_difficulty(context, "own/sums", variant="v1")] == ["t"]
    assert queries.task_difficulty(context, "own/sums", split="test", model="m") == []
