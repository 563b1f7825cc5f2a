"""Rollout events as OpenReward's client uploads them: in any order, twice, block by block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.flows import queries
from core.flows.importing import import_files
from core.formats import Remark, RolloutEvents, open_sources, recognise
from core.formats.openreward import Rollouts
from core.formats.strict import Flaw
from core.maths.episodes import decimal_text, totals_of
from core.records.episode import Episode
from tests.conftest import VECTORS
from tests.flows.test_episodes import held
from tests.formats.builders import lines, put, read, rejected
from tests.worlds import START_MS, context_at

Event = dict[str, Any]

START: Event = {"eventId": "r", "timestamp": START_MS, "runName": "r", "eventType": "rollout"}


def rollouts() -> dict[str, list[Event]]:
    """The recorded events, with times a few milliseconds apart in the place of what stands for them."""
    path = VECTORS / "openreward_rollouts.json"
    told = json.loads(path.read_text(encoding="utf-8"))["rollouts"]
    return {
        name: [{**event, "timestamp": START_MS + 3 * place} for place, event in enumerate(one["events"])]
        for name, one in told.items()
    }


NAMES = sorted(rollouts())


def episode_of(events: list[Event], *, each_event: bool = False) -> Episode:
    found = Rollouts(each_event=each_event)
    for event in events:
        found.take(json.dumps(event).encode())
    (one,) = found.episodes()
    assert isinstance(one, Episode)
    return one


@pytest.mark.parametrize("name", NAMES)
def test_it_comes_to_what_was_logged(name: str) -> None:
    events = rollouts()[name]
    one = episode_of(events)
    recorded = json.loads((VECTORS / "openreward_rollouts.json").read_bytes())["rollouts"][name]
    created, calls = recorded["create"], recorded["calls"]
    environment = created.get("environment", "openreward")
    assert (one.environment, one.task) == (environment, _task(created, calls))
    assert [step.reward for step in one.steps if step.reward is not None] == [
        call["reward"] for call in calls if call.get("reward") is not None
    ]
    assert len(one.steps) == sum(max(_n_results(call["message"]), _is_paid(call)) for call in calls)
    assert one.finished == any(call.get("is_finished", False) for call in calls)
    assert one.uid == f"{environment}/{events[0]['eventId']}"


def _task(created: Event, calls: list[Event]) -> str | None:
    """The id of the task, else its index."""
    spec = created.get("task_spec") or {}
    index = next((call["rollout_info"].get("task_index") for call in calls if "rollout_info" in call), None)
    named = spec.get("id", index)
    return None if named is None else str(named)


def _is_paid(call: Event) -> bool:
    return call.get("reward") is not None


def _n_results(message: Event) -> int:
    """Results of tools in a message, in the three forms in which clients log one."""
    blocks = message.get("content")
    if message.get("role") == "tool" or message.get("class") == "ToolResult":
        return 1
    return sum(one.get("type") == "tool_result" for one in blocks) if isinstance(blocks, list) else 0


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_order_and_repeats_change_nothing(name: str, data: st.DataObject) -> None:
    events = rollouts()[name]
    again = data.draw(st.permutations([*events, *events[: data.draw(st.integers(0, len(events)))]]))
    assert episode_of(again) == episode_of(events)


def test_every_recorded_event_is_accepted(tmp_path: Path) -> None:
    """All of them in one file, as events, as batches and as documents."""
    told = rollouts()
    apart = [
        {
            **event,
            "eventId": f"{name}{event['eventId']}",
            "rolloutEventId": f"{name}{event.get('rolloutEventId')}",
        }
        for name, events in told.items()
        for event in events
    ]
    files = [
        put(tmp_path, lines(apart), "events.jsonl"),
        put(
            tmp_path, lines({"events": apart[at : at + 5]} for at in range(0, len(apart), 5)), "batches.jsonl"
        ),
        put(tmp_path, json.dumps({"events": apart}, indent=1).encode(), "batch.json"),
        put(tmp_path, json.dumps(apart).encode(), "array.json"),
    ]
    recorded = json.loads((VECTORS / "openreward_rollouts.json").read_bytes())["rollouts"].values()
    n_paid = sum(_is_paid(call) for one in recorded for call in one["calls"])
    is_in_blocks = sum(map(_is_paid, apart)) > n_paid
    found = []
    for file in files:
        assert recognise(file) == "openreward"
        context = context_at(file.with_suffix(".db"))
        answer = import_files(context, [file])
        assert (answer.episodes, answer.rejected_count) == (len(told), 0)
        assert len(answer.notes) == is_in_blocks, "one message was logged block by block"
        assert import_files(context, [file]).id is None
        assert queries.verify(context).clean
        found.append(held(context))
    assert all(one == found[0] for one in found)
    counted = import_files(context_at(tmp_path / "each.db"), files[:1], each_event=True)
    assert (counted.episodes, counted.notes) == (len(told), ())


def test_a_document_of_recordings_is_recognised(tmp_path: Path) -> None:
    told = {"rollouts": {name: {"events": events} for name, events in rollouts().items()}}
    found = read(put(tmp_path, json.dumps(told).encode(), "rollouts.json"))
    uids = [one.uid for one in found if isinstance(one, Episode)]
    assert len(set(uids)) == len(uids) == len(NAMES)


# Blocks of one message


def message(index: int, kind: str, **more: object) -> Event:
    said = {
        "eventId": f"m{index}",
        "timestamp": START_MS,
        "index": index,
        "rolloutEventId": "r",
        "type": kind,
    }
    return {**said, "eventType": "message", **more}


def paid(events: list[Event], *, each_event: bool = False) -> tuple[int, str | None]:
    """Steps with a reward, and what they add up to."""
    sums = totals_of(episode_of([START, *events], each_event=each_event).steps)
    return sums.n_paid, None if sums.total is None else decimal_text(sums.total)


BLOCKS = [message(0, "assistant_message", reward=0.5), message(1, "tool_call", reward=0.5, name="look")]


@pytest.mark.parametrize(
    ("change", "n_paid"),
    [
        ({}, 1),
        ({"timestamp": START_MS + 50}, 1),
        ({"timestamp": START_MS + 51}, 2),
        ({"reward": 0.25}, 2),
        ({"metadata": {"x": 1}}, 2),
        ({"index": 2}, 2),
        ({"type": "tool_result"}, 2),
        ({"type": "system_message"}, 2),
        ({"metadata": {}, "isFinished": False}, 1),
    ],
)
def test_blocks_of_one_message_are_paid_once(change: Event, n_paid: int) -> None:
    events = [BLOCKS[0], {**BLOCKS[1], **change}]
    assert paid(events)[0] == n_paid
    assert paid(events, each_event=True)[0] == 2


def test_results_of_one_message_stay_steps_and_are_paid_once_at_the_end() -> None:
    calls = [message(n, "tool_call", name=f"t{n}", callId=f"c{n}", content="{}") for n in range(3)]
    results = [
        message(3 + n, "tool_result", callId=f"c{n}", content="ok", reward=1.0, isFinished=True)
        for n in range(3)
    ]
    one = episode_of([START, *calls, *results])
    assert [(step.name, step.reward, step.finished, step.refused) for step in one.steps] == [
        ("t0", None, False, False),
        ("t1", None, False, False),
        ("t2", 1.0, True, False),
    ]
    assert [(step.n_chars_in, step.n_chars_out) for step in one.steps] == [(2, 2)] * 3


def test_what_comes_after_the_end_is_refused() -> None:
    later = message(2, "tool_result", reward=1.0)
    one = episode_of(
        [START, message(1, "tool_result", reward=1.0, isFinished=True), {**later, "timestamp": START_MS + 99}]
    )
    assert [step.refused for step in one.steps] == [False, True]
    assert totals_of(one.steps).total == 1


def test_what_contradicts_is_a_conflict_and_loses_nothing(tmp_path: Path) -> None:
    told = [START, *BLOCKS]
    wrong: list[Event] = [
        {**BLOCKS[0], "reward": 0.6},
        {**BLOCKS[0], "eventId": "another"},
        {**START, "runName": "another", "split": "test"},
        {**BLOCKS[0], "eventId": "x", "index": None},
        {**BLOCKS[0], "eventId": "y", "index": -1},
        {**BLOCKS[0], "eventId": "z", "timestamp": "soon"},
    ]
    for one in wrong[:4]:
        found = Rollouts()
        for event in told:
            found.take(json.dumps(event).encode())
        with pytest.raises(Flaw):
            found.take(json.dumps(one).encode())
    entries = read(put(tmp_path, lines([*told, *wrong]), "events.jsonl"))
    assert [one.line for one in rejected(entries)] == [4, 5, 6, 7, 8, 9]
    assert [one for one in entries if isinstance(one, Episode)] == [episode_of(told)]


def test_a_rollout_that_never_started_is_listed_and_an_unknown_event_counted(tmp_path: Path) -> None:
    orphan = message(0, "tool_result", rolloutEventId="nobody", eventId="o")
    other = {"eventId": "u", "timestamp": START_MS, "eventType": "heartbeat"}
    entries = read(put(tmp_path, lines([START, *BLOCKS, orphan, other]), "events.jsonl"))
    waiting = [one for one in entries if isinstance(one, RolloutEvents) and not one.has_started]
    assert [(one.rollout, len(one.events)) for one in waiting] == [("nobody", 1)]
    assert ["unknown type" in one.text for one in entries if isinstance(one, Remark)] == [False, True]
    answer = import_files(context_at(tmp_path / "a.db"), [put(tmp_path, lines([orphan]), "orphan.jsonl")])
    assert (answer.id, ["'nobody' has not started" in one for one in answer.notes]) == (None, [True])


def test_an_update_may_come_before_its_start() -> None:
    update = {
        "eventId": "r",
        "timestamp": START_MS,
        "rollout_info": {"task_index": 7},
        "eventType": "rollout_update",
    }
    for events in ([update, START, *BLOCKS], [START, *BLOCKS, update]):
        assert episode_of(events).task == "7"


def test_a_recording_that_grew_updates_its_episode(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    end = message(2, "tool_result", reward=1.0, isFinished=True, name="submit")
    for name, events in (("short", [START, *BLOCKS]), ("long", [START, *BLOCKS, end])):
        path = put(tmp_path, lines(events), f"{name}.jsonl")
        import_files(context, [path])
        assert len(open_sources([path]).sources) == 1
    (one,) = held(context).values()
    assert [step.reward for step in one.steps] == [0.5, 1.0]
    assert queries.verify(context).clean
