"""Events of one rollout, for tests and for the processes they start, which load no test to have them."""

from __future__ import annotations

from typing import Any

from tests.worlds import START_MS

Event = dict[str, Any]

START: Event = {
    "eventId": "r1",
    "timestamp": START_MS,
    "runName": "r",
    "environment": "own/sums",
    "split": "train",
    "eventType": "rollout",
}
UPDATE: Event = {
    "eventId": "r1",
    "timestamp": START_MS + 5,
    "rollout_info": {"task_index": 7},
    "eventType": "rollout_update",
}


def message(index: int, kind: str = "tool_result", **more: object) -> Event:
    said = {"eventId": f"m{index}", "timestamp": START_MS + 3 * index, "index": index, "rolloutEventId": "r1"}
    return {**said, "type": kind, "eventType": "message", **more}


PLAYED: list[Event] = [
    message(0, "assistant_message", content="let me look", reward=0.5),
    message(1, "tool_call", name="look", callId="c", content='{"a": 1}', reward=0.5),
    message(2, callId="c", content="seen", reward=0.25, metadata={"x": 1}),
    message(3, "tool_call", name="submit", callId="d", content="{}"),
    message(4, callId="d", content="Correct!", reward=1.0, isFinished=True),
]
EVERY = [START, UPDATE, *PLAYED]
