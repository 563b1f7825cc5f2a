"""Review state: the state of each queue item, its holder, and what a reviewer may not see meanwhile.

An item has no state of its own. It follows from counted evaluations (by distinct people, with the queue's rubric,
since the queue was made) and from skips with a reason. Undoing either opens the item again. Holds, drafts
and what a reviewer put off belong to the work of a reviewer; they are no facts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

import msgspec

from core.records.actor import IN_BROWSER, Actor
from core.records.evaluation import EvaluationOutcome
from core.records.review import DRAFT_MS, HOLD_MINUTES, SKIP_RATERS, Draft, Holder, ItemState, Progress
from core.store.browsers import RATER
from core.store.engine.dialect import ACTIVE, EVALUATIONS_BY_KEY, EVALUATIONS_BY_RUN
from core.store.queues import Item, Queue, items_of, skips_of_queue
from core.store.reads.runs import BY_PERSON, OPEN_ITEMS
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

# A judgement counts for an item if a person made it since the queue, of the item's subject, by the queue's rubric.
_COUNTING: Final = "e.counts = 1 AND (e.execution_no <> 0 OR e.run_no <> 0)"
_SAME: Final = (
    "e.learner_id = i.learner_id AND e.layer_no = i.layer_no AND e.execution_no = i.execution_no"
    " AND e.arm_no = i.arm_no"
)
_SINCE: Final = (  # a clock that was set back changes nothing here; imported rows can be compared by time only
    "((e.import_no = 0 AND e.revision > ?) OR ((e.import_no <> 0 OR ? <> 0) AND e.at_ms >= ?))"
)
_JUDGED: Final = (
    f"SELECT i.item_no, {RATER}, e.evaluation_no, e.outcome, e.score, e.at_ms FROM review_item i"
    " CROSS JOIN evaluation e {by} WHERE i.learner_id = ? AND i.review_queue_no = ? AND {kind} AND {same}"
    f" AND {_COUNTING} AND e.model = '' AND e.rater <> '' AND e.claimed_by = '' AND e.rubric = ?"
    f" AND {_SINCE}"
)
# CROSS JOIN reads the items first: SQLite would else go through all evaluations there are. An execution may have got
# its run since, so only an item without an execution is compared by its run.
_ITEMS_JUDGED: Final = " UNION ALL ".join(
    (
        _JUDGED.format(
            by=EVALUATIONS_BY_KEY, same=f"{_SAME} AND e.run_no = i.run_no", kind="i.execution_no = 0"
        ),
        _JUDGED.format(by=EVALUATIONS_BY_KEY, same=_SAME, kind="i.execution_no <> 0"),
    )
)
_OF_ITEM: Final = "learner_id = ? AND review_queue_no = ? AND item_no = ? AND actor = ?"
_ITEM_KEY: Final = ("learner_id", "review_queue_no", "item_no", "actor")
_ON_ITEM: Final = " ON CONFLICT (learner_id, review_queue_no, item_no, actor) DO UPDATE SET "
_HOLD: Final = (
    insert_into("review_hold", *_ITEM_KEY, "until_ms", "repeats")
    + f"{_ON_ITEM}until_ms = excluded.until_ms, repeats = 0"
)
_PUT_OFF: Final = (
    insert_into("review_skip", *_ITEM_KEY, "later", "at_ms")
    + f"{_ON_ITEM}later = excluded.later, at_ms = excluded.at_ms"
)
_DRAFT: Final = (
    insert_into("review_draft", *_ITEM_KEY, "fields", "until_ms")
    + f"{_ON_ITEM}fields = excluded.fields, until_ms = excluded.until_ms"
)
_FEWEST_GAPS: Final = 3

_OPEN_BLIND: Final = OPEN_ITEMS.replace("q.undone", "q.blind = 1 AND q.undone")
_OF_ARMS: Final = (
    "SELECT e.evaluation_no FROM evaluation e LEFT JOIN execution x ON x.learner_id = e.learner_id"
    " AND x.execution_no = e.execution_no WHERE e.learner_id = ? AND e.arm_no <> 0"
    " AND CASE WHEN e.run_no <> 0 THEN e.run_no ELSE coalesce(x.run_no, 0) END IN ({})"
)


class Judged(NamedTuple):
    """One person's judgement of an item that counts."""

    number: int
    outcome: EvaluationOutcome
    score: float | None
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Board:
    """A queue at one moment: its items, and by their numbers who judged, skipped and holds them."""

    queue: Queue
    items: Mapping[int, Item]
    judged: Mapping[int, Mapping[str, Judged]]
    skips: Mapping[int, Sequence[tuple[str, bool, str]]]
    holds: Mapping[int, Mapping[str, int]]
    now_ms: int

    @cached_property
    def states(self) -> Mapping[int, ItemState]:
        """The state of each item."""
        return {number: self.state(number) for number in self.items}

    def state(self, item_no: int) -> ItemState:
        """Return the state of an item."""
        raters = self.judged.get(item_no, {})
        if len(raters) >= self.queue.n_reviewers:
            return "done"
        by = self.skips.get(item_no, ())
        if any(final for _, final, _ in by) or len({actor for actor, _, _ in by}) >= SKIP_RATERS:
            return "set_aside"
        return "needs_another" if raters else "needs_review"

    def is_open(self, item_no: int) -> bool:
        """Return whether it still needs a judgement."""
        return self.states[item_no] in {"needs_review", "needs_another"}

    def has_room(self, item_no: int, actor: str) -> bool:
        """Return whether an item takes one judgement more than those recorded and in progress."""
        raters = self.judged.get(item_no, {})
        holds = self.holds.get(item_no)
        if holds is None:
            return len(raters) < self.queue.n_reviewers
        others = {name for name, until_ms in holds.items() if until_ms > self.now_ms} - {actor, *raters}
        if any(name.startswith(f"{actor}{IN_BROWSER}") for name in others):
            return False  # another browser of the same person: they are one rater
        return len(raters) + len(others) < self.queue.n_reviewers

    def is_for(self, item: Item, actor: str) -> bool:
        """Return whether a reviewer may get an item, put off or not."""
        number = item.item_no
        return (
            item.assigned_to in {"", actor}
            and self.is_open(number)
            and actor not in self.judged.get(number, {})
            and all(actor != name for name, _, _ in self.skips.get(number, ()))
            and self.has_room(number, actor)
        )

    def held_by(self, actor: str) -> dict[int, int]:
        """Return the end of a reviewer's hold by item; expired holds are included."""
        return {number: holds[actor] for number, holds in self.holds.items() if actor in holds}

    def of(self, actor: str) -> list[tuple[int, Judged]]:
        """Return a reviewer's judgements here, oldest first."""
        own = [(number, raters[actor]) for number, raters in self.judged.items() if actor in raters]
        return sorted(own, key=lambda one: one[1].number)

    def progress(self, actor: str, off: Mapping[int, int]) -> Progress:
        """Return the progress; ``off`` are the items that the caller put off."""
        states = list(self.states.values())
        done, skipped = states.count("done"), states.count("set_aside")
        mine = self.of(actor)
        mine_of = {number for number, _ in mine}
        left = [one.item_no for one in self.items.values() if self.is_for(one, actor)]
        holders = self._holders(actor)
        return Progress(
            queue=self.queue.id,
            name=self.queue.name,
            total=len(states),
            done=done,
            set_aside=skipped,
            open=len(states) - done - skipped,
            held_by_others=len({one.item for one in holders}),
            holders=holders,
            judged_by_me=len(mine),
            left_for_me=sum(off.get(number, 1) == 1 for number in left),
            skipped_by_me=sum(off.get(number) == 0 for number in left),
            assigned_to_me=sum(
                one.assigned_to == actor and self.is_open(one.item_no) and one.item_no not in mine_of
                for one in self.items.values()
            ),
            seconds_each=_pace([judged.at_ms for _, judged in mine]),
        )

    def _holders(self, actor: str) -> tuple[Holder, ...]:
        return tuple(
            Holder(actor=name, item=number, until_ms=until_ms)
            for number, holds in sorted(self.holds.items())
            for name, until_ms in sorted(holds.items())
            if name != actor and until_ms > self.now_ms and number in self.items
        )


def _pace(times: Sequence[int]) -> float | None:
    """Median seconds from one judgement to the next, pauses longer than a hold left out; None for fewer than three.

    >>> _pace([0, 9_000, 20_000, 30_000])
    10.0
    """
    ordered = sorted(times)
    gaps = [after - before for before, after in pairwise(ordered)]
    gaps = [gap for gap in gaps if 0 < gap <= HOLD_MINUTES * 60_000]
    return median(gaps) / 1000 if len(gaps) >= _FEWEST_GAPS else None


def board_of(facts: Facts, queue: Queue, now_ms: int, viewer: Actor | None = None) -> Board:
    """A queue as it is at this moment. Holds of the viewer's browser are the viewer's, those of others are not."""
    about = [
        *(facts.learner_id, queue.queue_no, queue.rubric),
        *(queue.revision, queue.import_no, queue.at_ms),
    ]
    items = {one.item_no: one for one in items_of(facts, queue.queue_no)}
    judged: dict[int, dict[str, Judged]] = defaultdict(dict)
    for number, rater, *values in facts.connection.rows(_ITEMS_JUDGED, about * 2):
        if number in items:
            judged[number][rater] = Judged(*values)
    holds: dict[int, dict[str, int]] = defaultdict(dict)
    for number, actor, until_ms in facts.rows(
        "SELECT item_no, actor, until_ms FROM review_hold"
        " WHERE learner_id = ? AND review_queue_no = ? AND repeats = 0",
        [queue.queue_no],
    ):
        name = actor if viewer is None else _holder(actor, viewer)
        holds[number][name] = until_ms if until_ms <= now_ms + 2 * queue.asks.hold_ms else now_ms
    return Board(
        queue=queue,
        items=items,
        judged=dict(judged),
        skips=skips_of_queue(facts, queue),
        holds=dict(holds),
        now_ms=now_ms,
    )


def _holder(stored: str, viewer: Actor) -> str:
    """Return the name of a holder as the viewer sees it: the own name for the own browser, and for no other.

    >>> kim = Actor(name="kim", browser="b")
    >>> _holder(kim.holder, kim), _holder("kim", kim), _holder("lee", kim)
    ('kim', 'kim · elsewhere', 'lee')
    """
    if stored == viewer.holder:
        return viewer.name
    return f"{stored}{IN_BROWSER}elsewhere" if stored == viewer.name else stored


# Holds, later items, drafts


def hold_item(txn: Transaction, queue: Queue, item_no: int) -> int:
    """Hold an item for the actor as long as the queue says; return its end."""
    until_ms = txn.now_ms + queue.asks.hold_ms
    txn.run(_HOLD, [queue.queue_no, item_no, txn.actor.holder, until_ms, 0])
    return until_ms


def let_go(txn: Transaction, queue_no: int, item_no: int) -> None:
    """End the actor's hold of an item."""
    txn.run(f"DELETE FROM review_hold WHERE {_OF_ITEM}", [queue_no, item_no, txn.actor.holder])


def let_go_of_others(txn: Transaction, queue_no: int, item_no: int) -> None:
    """End the actor's holds of a queue's other items."""
    txn.run(
        "DELETE FROM review_hold WHERE learner_id = ? AND review_queue_no = ? AND item_no <> ? AND actor = ?",
        [queue_no, item_no, txn.actor.holder],
    )


def put_off_item(txn: Transaction, queue_no: int, item_no: int, *, returns: bool) -> None:
    """Record that the actor puts an item off."""
    key = [txn.learner_id, queue_no, item_no, txn.actor.name]
    txn.connection.run(_PUT_OFF, [*key, int(returns), txn.now_ms])


def bring_back_items(txn: Transaction, queue_no: int, item_no: int | None) -> int:
    """Offer items again that the actor put off (None = all); return how many."""
    return txn.connection.n_changed(
        "DELETE FROM review_skip WHERE learner_id = ? AND review_queue_no = ? AND actor = ? AND item_no >= ?"
        " AND item_no <= ?",
        [(txn.learner_id, queue_no, txn.actor.name, item_no or 0, item_no or 1 << 62)],
    )


def put_off_by(facts: Facts, queue_no: int, actor: str) -> dict[int, int]:
    """Return the items that a reviewer put off, in order; 1 = until all others are judged, 0 = until they ask."""
    return dict(
        facts.rows(
            "SELECT item_no, later FROM review_skip WHERE learner_id = ? AND review_queue_no = ? AND actor = ?"
            " ORDER BY at_ms, item_no",
            [queue_no, actor],
        )
    )


def write_draft(txn: Transaction, queue_no: int, item_no: int, draft: Draft | None) -> None:
    """Store or delete the actor's draft; expired drafts are deleted too, and none lasts longer than usual."""
    key = [txn.learner_id, queue_no, item_no, txn.actor.name]
    until_ms = txn.now_ms + DRAFT_MS
    txn.set_row("review_draft", "until_ms > ?", [until_ms + DRAFT_MS], until_ms=until_ms)
    txn.run("DELETE FROM review_draft WHERE learner_id = ? AND until_ms <= ?", [txn.now_ms])
    if draft is None or draft == Draft():
        txn.connection.run(f"DELETE FROM review_draft WHERE {_OF_ITEM}", key)
    else:
        fields = msgspec.json.encode(draft).decode()
        txn.connection.run(_DRAFT, [*key, fields, until_ms])


def draft_of(facts: Facts, queue_no: int, item_no: int, actor: str, now_ms: int) -> Draft | None:
    """Return a reviewer's draft."""
    row = facts.row(
        f"SELECT fields FROM review_draft WHERE {_OF_ITEM} AND until_ms > ?",
        [queue_no, item_no, actor, now_ms],
    )
    return None if row is None else msgspec.json.decode(row[0], type=Draft)


# What may not be seen


def is_open_item(facts: Facts, actor: str, run_no: int) -> bool:
    """Return whether a run is to be judged in an active queue, by this reviewer or by anyone."""
    return facts.has_row(
        "SELECT 1 FROM review_item i JOIN review_queue q ON q.learner_id = i.learner_id"
        f" AND q.review_queue_no = i.review_queue_no AND q.{ACTIVE} AND q.undone = 0"
        " LEFT JOIN execution x ON x.learner_id = i.learner_id AND x.execution_no = i.execution_no"
        " WHERE i.learner_id = ? AND (i.run_no = ? OR x.run_no = ?) AND i.assigned_to IN ('', ?) LIMIT 1",
        [run_no, run_no, actor],
    )


def open_runs(facts: Facts, actor: str, limit: int) -> list[int]:
    """Return the newest runs that `is_open_item` names for a reviewer."""
    return facts.column(
        "SELECT run_no FROM (SELECT CASE WHEN i.run_no <> 0 THEN i.run_no ELSE coalesce(x.run_no, 0) END AS run_no"
        " FROM review_item i JOIN review_queue q ON q.learner_id = i.learner_id"
        f" AND q.review_queue_no = i.review_queue_no AND q.{ACTIVE} AND q.undone = 0"
        " LEFT JOIN execution x ON x.learner_id = i.learner_id AND x.execution_no = i.execution_no"
        " WHERE i.learner_id = ? AND i.assigned_to IN ('', ?)) u WHERE run_no <> 0 GROUP BY run_no"
        " ORDER BY run_no DESC LIMIT ?",
        [actor, limit],
    )


def hidden_evaluations(facts: Facts, actor: str) -> frozenset[int]:
    """Return the evaluations, by number, that a reviewer may not see now.

    These are others' evaluations, counted or not, of what the reviewer holds in blind queues, and all of arms in
    runs to which the reviewer is blind.
    """
    in_browser = f"{actor}{IN_BROWSER}"
    rows = facts.connection.rows(
        f"SELECT e.evaluation_no{_OPEN_BLIND} CROSS JOIN evaluation e {EVALUATIONS_BY_RUN}"
        f" WHERE {_SAME} AND e.run_no = i.run_no AND e.run_no <> 0"
        f" AND h.learner_id = ? AND {BY_PERSON} AND (e.rater <> ? OR e.claimed_by <> '')"
        f" UNION SELECT e.evaluation_no{_OPEN_BLIND} JOIN evaluation e ON {_SAME}"
        f" WHERE h.learner_id = ? AND {BY_PERSON} AND i.execution_no <> 0"
        " AND (e.rater <> ? OR e.claimed_by <> '')",
        [facts.learner_id, actor, in_browser, in_browser, actor] * 2,
    )
    of_arms = facts.rows_in(_OF_ARMS, sorted(facts.blind)) if facts.blind else []
    return frozenset(number for (number,) in (*rows, *of_arms))
