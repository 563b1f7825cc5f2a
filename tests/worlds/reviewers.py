"""Reviewers for tests: several people at one database, by one clock that only the test moves."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.maintenance import upgrade
from core.flows.queues import progress
from core.flows.review import next_item, submit
from core.flows.settings import change
from core.records.actor import Actor, Role
from core.records.run import Run
from tests.worlds import START_MS, a_run, context_at, lines_file

MINUTE_MS = 60_000
LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
QUEUE = "queue-1"


REVIEWED = Path(__file__).parent / "reviewed.db.gz"
"""Queues with three known answers, two repeated judgements and an order by information, of version 0.2.0."""


def reviewed_before(file: Path) -> Path:
    """Return a database at this path that an earlier version reviewed, upgraded."""
    file.write_bytes(gzip.decompress(REVIEWED.read_bytes()))
    upgrade(file)
    return file


@dataclass(kw_only=True)
class Desk:
    """One database; ``now_ms`` is everybody's time."""

    context: Context
    now_ms: int = field(default=START_MS)

    def of(self, name: str, role: Role = "reviewer") -> Context:
        """Someone at the database."""
        return replace(self.context, actor=Actor(name=name, role=role))

    def pass_minutes(self, minutes: float) -> None:
        self.now_ms += round(minutes * MINUTE_MS)


def desk_at(path: Path, runs: Sequence[Run] = ()) -> Desk:
    """A database with these runs; by default thirty, a minute apart."""
    desk = Desk(context=context_at(path))
    desk.context = replace(desk.context, clock=lambda: desk.now_ms)
    record_all(desk.context, runs or thirty())
    return desk


def thirty() -> list[Run]:
    return [a_run(f"r{number}", at_ms=START_MS + number * MINUTE_MS) for number in range(30)]


def judge_all(context: Context, queue: str = QUEUE, level: int = 3) -> list[int]:
    """Judge whatever is left; the numbers of the items."""
    found = []
    given = next_item(context, queue)
    while given.item is not None:
        found.append(given.item.item)
        given = submit(context, queue, given.item.item, level=level, seen=given.item.seen).next
    return found


def n_done(context: Context, queue: str = QUEUE) -> int:
    return progress(context, queue).done


def executed(desk: Desk, folder: Path, *answers: str, ask: str = "x", first: int = 1) -> list[str]:
    """Executions of one layer that answered the same instruction, with texts; their uids."""
    change(desk.context, "keep_texts", True)
    uids = [f"{number:08}-1111-4222-8333-444444444444" for number in range(first, first + len(answers))]
    lines: list[dict[str, object]] = [
        {
            "kind": "execution",
            "uid": uid,
            "at_ms": START_MS,
            "pairs": [
                {
                    "layer": LAYER,
                    "index": 1,
                    "instruction": f'{{"ask": "{ask}"}}',
                    "response": f'{{"say": "{say}"}}',
                }
            ],
        }
        for uid, say in zip(uids, answers, strict=True)
    ]
    import_files(desk.context, [lines_file(folder / f"executed {first}.jsonl", *lines)])
    return uids
