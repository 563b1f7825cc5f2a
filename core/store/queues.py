"""Queues of items to judge, and skipped items, append-only; as rows, and as lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from core.errors import NotFound, UnreadableSource
from core.records.alike import alike
from core.records.ledger_lines import PlacedLine
from core.records.queue_lines import ItemLine, QueueLine, SkippedLine
from core.records.review import QueueAsks
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE
from core.store.mapped import FLAG, Mapped, StoredAs, json_of
from core.store.reads import run_of_uid
from core.store.subjects import name_subject
from core.store.tables import insert_into
from core.store.transaction import Byline, Facts, Snapshot, Transaction

_ADD_ITEM: Final = insert_into("review_item")


class Placed(NamedTuple):
    """The subject of an item, by number; 0 = none."""

    layer_no: int
    execution_no: int
    run_no: int
    arm_no: int


class Item(NamedTuple):
    """A new or stored item; ``assigned_to`` '' = anyone. ``control`` is the known outcome that an earlier version
    stored, '' = none.
    """

    item_no: int
    about: Placed
    why: str
    assigned_to: str = ""
    control: str = ""


class Queue(NamedTuple):
    """One queue as it is stored; ``uid`` is its id in lines."""

    queue_no: int
    uid: str
    name: str
    asks: QueueAsks
    n_reviewers: int
    blind: bool
    rubric: str
    control_micro: int
    due_ms: int | None
    actor: str
    at_ms: int
    import_no: int
    revision: int
    undone: bool

    @property
    def id(self) -> str:
        return f"queue-{self.queue_no}"


_QUEUES: Final = Mapped(
    Queue,
    "review_queue",
    queue_no=StoredAs("review_queue_no"),
    asks=json_of(QueueAsks),
    blind=FLAG,
    undone=FLAG,
)


def add_queue(txn: Transaction, line: QueueLine, items: Sequence[Item], byline: Byline) -> int:
    """Append the queue of a line with these items, and return its number."""
    number = txn.append_fact(
        "review_queue",
        byline,
        name=line.name,
        asks=msgspec.json.encode(line.asks).decode(),
        n_reviewers=line.n_reviewers,
        blind=int(line.blind),
        rubric=line.rubric,
        control_micro=line.control_micro,
        due_ms=line.due_ms,
    )
    txn.connection.many(
        _ADD_ITEM,
        [
            (txn.learner_id, number, one.item_no, *one.about, one.why, one.control, one.assigned_to)
            for one in items
        ],
    )
    return number


def find_queue(facts: Facts, name: str) -> Queue:
    """The queue that an id such as ``queue-3``, or a name that only one has, names; raises `NotFound`."""
    known = active_queues(facts)
    matches = [one for one in known if one.id == name] or [one for one in known if one.name == name]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(one.id for one in (matches or known)[:5]) or "none"
    what = f"There are {len(matches)} queues" if matches else "There is no queue"
    raise NotFound(
        f"{what} {name[:80]!r} in learner {facts.name!r}, got it for {listed}.",
        next_step="Name one by an id that armscope queue list lists.",
    )


def active_queues(facts: Facts, *, undone: bool = False) -> list[Queue]:
    """Return active queues, by number; with ``undone`` also undone ones."""
    known = _QUEUES.rows(facts, f"AND {ACTIVE} AND undone <= ? ORDER BY review_queue_no", [int(undone)])
    return [one if one.uid else one._replace(uid=f"{facts.origin}/{one.id}") for one in known]


def items_of(facts: Facts, queue_no: int) -> list[Item]:
    """Return a queue's items in order, without those of inactive runs or executions.

    Items with a known outcome, of an earlier version, are for no review any more.
    """
    rows = facts.rows(
        "SELECT i.item_no, i.layer_no, i.execution_no, i.run_no, i.arm_no, i.why, i.assigned_to"
        " FROM review_item i"
        " LEFT JOIN execution x ON x.learner_id = i.learner_id AND x.execution_no = i.execution_no"
        " LEFT JOIN run r ON r.learner_id = i.learner_id AND r.run_no = i.run_no"
        " WHERE i.learner_id = ? AND i.review_queue_no = ? AND i.control = ''"
        " AND coalesce(r.standing, 1) = 1 AND coalesce(x.standing, 1) = 1 ORDER BY i.item_no",
        [queue_no],
    )
    return [Item(row[0], Placed(*row[1:5]), *row[5:]) for row in rows]


def assign_items(txn: Transaction, queue_no: int, numbers: Sequence[int], to: str) -> int:
    """Assign items to a reviewer ('' = anyone); return how many changed."""
    return txn.connection.n_changed(
        "UPDATE review_item SET assigned_to = ? WHERE learner_id = ? AND review_queue_no = ? AND item_no = ?"
        " AND assigned_to <> ?",
        [(to, txn.learner_id, queue_no, number, to) for number in numbers],
    )


# Queues ↔ lines


def queue_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone queues as lines, never before their runs."""
    lines = [_queue_line(snapshot, queue) for queue in active_queues(snapshot, undone=True)]
    yield from sorted(lines, key=lambda one: one[0])


def _queue_line(snapshot: Snapshot, queue: Queue) -> PlacedLine:
    rows = snapshot.rows(
        "SELECT i.item_no, l.uid, x.uid, r.uid, a.key, i.why, i.control, i.assigned_to, coalesce(r.revision, 0)"
        " FROM review_item i"
        " LEFT JOIN layer l ON l.learner_id = i.learner_id AND l.layer_no = i.layer_no"
        " LEFT JOIN execution x ON x.learner_id = i.learner_id AND x.execution_no = i.execution_no"
        " LEFT JOIN run r ON r.learner_id = i.learner_id AND r.run_no = i.run_no"
        " LEFT JOIN arm a ON a.learner_id = i.learner_id AND a.arm_no = i.arm_no"
        " WHERE i.learner_id = ? AND i.review_queue_no = ? AND coalesce(r.standing, 1) > 0"
        " AND coalesce(x.standing, 1) = 1 ORDER BY i.item_no",
        [queue.queue_no],
    )
    line = alike(QueueLine, queue, id=queue.uid, items=tuple(_item_line(row) for row in rows), by=queue.actor)
    return max([queue.revision, *(row[-1] for row in rows)]), line


def _item_line(row: Row) -> ItemLine:
    number, layer, execution, run, arm, why, control, assigned_to, _ = row
    return ItemLine(
        no=number,
        layer=layer,
        execution=execution,
        run=run,
        arm=arm,
        why=why,
        control=control or None,
        assigned_to=assigned_to or None,
    )


def read_queue(txn: Transaction, line: QueueLine, import_no: int) -> int:
    """Append an imported queue; return its number."""
    items = [
        Item(one.no, _placed(txn, line, one, import_no), one.why, one.assigned_to or "", one.control or "")
        for one in line.items
    ]
    return add_queue(txn, line, items, txn.imported(line, import_no))


def _placed(txn: Transaction, line: QueueLine, item: ItemLine, import_no: int) -> Placed:
    run_no = 0
    if item.run is not None:
        run = run_of_uid(txn, item.run)
        if run is None:
            raise UnreadableSource(
                f"Item {item.no} of queue {line.name[:60]!r} names run {item.run[:60]!r}, which is not here.",
                next_step="Import the runs first, or in the same file.",
            )
        run_no = run.run_no
    return Placed(
        0 if item.layer is None else name_subject(txn, "layer", item.layer, import_no),
        0 if item.execution is None else name_subject(txn, "execution", item.execution, import_no),
        run_no,
        0 if item.arm is None else txn.arm_no_of(item.arm),
    )


# Skipped items


def add_skip(txn: Transaction, line: SkippedLine, byline: Byline) -> int:
    """Append the skipped item of a line, and return its number."""
    return txn.append_fact(
        "review_aside",
        byline,
        queue=line.queue,
        item_no=line.item,
        reason=line.reason,
        final=int(line.final),
    )


def skips_of_queue(facts: Facts, queue: Queue) -> Mapping[int, list[tuple[str, bool, str]]]:
    """Return, by item, who skipped it, whether as operator, and why; active ones only."""
    skips: dict[int, list[tuple[str, bool, str]]] = defaultdict(list)
    for item_no, actor, final, reason in facts.rows(
        "SELECT item_no, actor, final, reason FROM review_aside WHERE learner_id = ? AND queue = ?"
        f" AND {ACTIVE} AND undone = 0 ORDER BY review_aside_no",
        [queue.uid],
    ):
        skips[item_no].append((actor, bool(final), reason))
    return skips
