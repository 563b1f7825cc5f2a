"""What files tell besides runs waits as it was read, and beyond some of it in a file: in its order either way."""

from __future__ import annotations

from contextlib import closing

import pytest

from core.flows.importing.reading import LineQueue, QueuedLine
from core.records.episode import Episode, Step


def line(number: int) -> QueuedLine:
    steps = (Step(number=0, name="look", reward=0.1), Step(number=1, reward=1.0, finished=True))
    return QueuedLine("a.jsonl", number // 4, Episode(uid=f"e{number}", environment="sums", steps=steps))


@pytest.mark.parametrize("as_read_bytes", [0, 300, 1 << 20])
def test_lines_come_out_as_they_went_in_as_often_as_they_are_told(as_read_bytes: int) -> None:
    """None of them, some and all of them stay as they were read."""
    told = [line(number) for number in range(10)]
    with closing(LineQueue(as_read_bytes=as_read_bytes)) as lines:
        for one in told:
            lines.add(one)
        for _ in range(2):
            lines.rewind()
            assert [one for stretch in range(3) for one in lines.of(stretch)] == told
