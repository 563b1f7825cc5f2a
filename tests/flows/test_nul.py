"""U+0000 comes in on no way: other programs cut a text there, and PostgreSQL keeps none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import InvalidInput, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, reset
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.learners import create_learner
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run
from tests.worlds import a_run, lines_file, run_line, tools

A = "tool:other:a"

LINES: list[dict[str, object]] = [
    run_line("a\0b"),
    run_line("r", session="a\0b"),
    run_line("r", model="a\0b"),
    run_line("r", calls=["a\0b"]),
    {"kind": "arm", "key": A, "label": "a\0b"},
    {"kind": "reward", "id": "a\0b", "arm": A, "observation": "feedback", "reward": 1.0},
    {"kind": "reward", "id": "o", "arm": A, "observation": "feedback", "reward": 1.0, "key": "a\0b"},
    {
        "kind": "reward",
        "id": "o",
        "arm": A,
        "observation": "feedback",
        "reward": 1.0,
        "context": {"by": "a\0b", "reason": None, "run": None, "lagged": True},
    },
    {"kind": "reset", "id": "z", "arms": [A], "reason": "a\0b"},
    {"kind": "reset", "id": "z", "arms": [A], "scope": "a\0b"},
    {"kind": "note", "id": "n", "arm": A, "text": "a\0b"},
    {"kind": "note", "id": "n", "arm": A, "text": "text", "by": "a\0b"},
]


def run_with(**fields: object) -> Run:
    return Run(**{"uid": "r", "inventory": tools("a"), **fields})  # type: ignore[arg-type]  # one of them is wrong


WAYS: dict[str, Callable[[Context], object]] = {
    "A run's uid": lambda context: record(context, a_run("a\0b")),
    "session": lambda _: run_with(session="a\0b"),
    "source": lambda _: run_with(source="a\0b"),
    "model": lambda _: run_with(model="a\0b"),
    "provider": lambda _: run_with(provider="a\0b"),
    "channel": lambda _: run_with(channel="a\0b"),
    "format": lambda _: run_with(format="a\0b"),
    "A call's name": lambda _: run_with(calls=(Call(name="a\0b"),)),
    "not_offered": lambda _: run_with(not_offered=("a\0b",)),
    "label": lambda _: Inventory(kind="declared", arms=(Arm(key=A, label="a\0b"),)),
    "arm id": lambda context: reward(context, "tool:other:a\0b", 1.0, create=True),
    "A reason": lambda context: reward(context, A, 1.0, reason="a\0b"),
    "An idempotency key": lambda context: reward(context, A, 1.0, key="a\0b"),
    "A note": lambda context: note(context, A, "a\0b"),
    "An idempotency key ": lambda context: note(context, A, "text", key="a\0b"),
    "A reason ": lambda context: reset(context, arms=[A], reason="a\0b"),
    "learner's name": lambda context: create_learner(context, "a\0b"),
    "An actor's name": lambda _: Actor(name="a\0b"),
}


@pytest.mark.parametrize("name", WAYS)
def test_it_is_refused_with_the_name_of_the_field(context: Context, name: str) -> None:
    record(context, a_run("first"))
    before = queries.changes(context), queries.status(context).runs
    with pytest.raises(InvalidInput, match=name.strip()) as refused:
        WAYS[name](context)
    assert "\\x00" in refused.value.problem
    assert "\0" not in str(refused.value)
    assert (queries.changes(context), queries.status(context).runs) == before


@pytest.mark.parametrize("line", LINES, ids=lambda line: str(line)[:70])
def test_a_line_with_it_is_rejected_and_the_others_are_read(
    context: Context, tmp_path: Path, line: dict[str, object]
) -> None:
    told = import_files(
        context, [lines_file(tmp_path / "some.jsonl", run_line("sound"), line)], format="armscope"
    )
    assert (told.runs, told.rejected_count) == (1, 1)
    assert "U+0000" in told.rejected[0].reason
    with pytest.raises(UnreadableSource):
        import_files(context, [lines_file(tmp_path / "none.jsonl", line)], format="armscope")
    for table in ("run", "arm", "observation", "reset", "note", "evidence"):
        with context.reading() as snapshot:
            for row in snapshot.connection.rows(f'SELECT * FROM "{table}"'):
                assert not [value for value in row if isinstance(value, str) and "\0" in value]


def test_what_an_agent_wrote_around_a_place_is_kept_without_it(context: Context) -> None:
    arms = (Arm(key="skill:review:main"), Arm(key="memory:fact:m", content="the build takes nine minutes"))
    said = ("now\0 review it\0", "\0 so the build takes nine minutes \0 there")
    record(
        context,
        Run(uid="r", inventory=Inventory(kind="declared", arms=arms), calls=(Call(name="x"),), texts=said),
    )
    seen = [arm.excerpt for arm in queries.run(context, "r").arms if arm.referenced]
    assert len(seen) == 2
    assert not [excerpt for excerpt in seen if excerpt is None or "\0" in excerpt]
