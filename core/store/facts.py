"""Facts: one record for each kind of act. Generic code loops over this table.

A new kind is a table (`core.store.tables`), a line (`core.records.ledger_lines`) and a record here. Then it is
numbered, audited, undone, redone, exported and imported with its sources, and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from core.records.achieved import OutcomeLine, outcome_payload
from core.records.corrections import note_payload
from core.records.episode import Scale, ScaleLine
from core.records.episode_credit import CreditLine
from core.records.evaluation_lines import BrowserLine, ChoiceLine, EvaluationLine, RubricLine
from core.records.experiment import AssignmentLine, ExperimentLine, ExperimentPlan
from core.records.ledger_lines import FactLine, NoteLine, PlacedLine, RepairLine, ResetLine, RewardLine
from core.records.queue_lines import ItemLine, QueueLine, SkippedLine
from core.records.review import Rubric
from core.records.trial import Cell, TrialLine, TrialResults
from core.store import tables
from core.store.achieved import add_outcome, outcome_reply, settle_outcomes
from core.store.browsers import add_browser, settle_browsers
from core.store.environments import scale_lines
from core.store.episode_credits import (
    credit_lines,
    read_credit,
    read_scale,
    settle_credits,
    settle_scales,
)
from core.store.evaluations import (
    alike_evaluation,
    evaluation_again,
    evaluation_lines,
    evaluation_reply,
    evaluation_request,
    read_evaluation,
    settle_evaluations,
)
from core.store.experiments import (
    add_assignment,
    add_experiment,
    assignment_lines,
    experiment_lines,
    settle_assignments,
)
from core.store.ledger import moving_reward, read_reward, reward_lines, reward_payload, reward_reply
from core.store.notes import (
    add_choice,
    add_note,
    add_rubric,
    choice_again,
    note_text,
    reply_to_note,
    rubric_lines,
)
from core.store.queues import add_skip, queue_lines, read_queue
from core.store.repairs import moving_repair, read_repair, repair_lines
from core.store.replies import HOLDS, Reply
from core.store.resets import moving_boundary, read_reset, reset_lines
from core.store.settings import moving_setting
from core.store.transaction import Byline, Snapshot, Transaction
from core.store.trials import add_trial, moving_trial, trial_lines

Moving = Callable[[Transaction, int, int], AbstractContextManager[None]]
Settling = Callable[[Transaction, Sequence[int]], None]
Repeating = Callable[[Transaction, int, int], None]
Reading = Callable[[Transaction, Any, int], int]
Listing = Callable[[Snapshot], Iterator[PlacedLine]]
_HEAD: Final = ("id", "by", "at_ms", "revision", "undone")
"""Fields that the lines of all facts have."""

_ARM: Final = "tool:web:search"
_CELL: Final = Cell(task="sums", repeat=1, side="with", grade=1, session="session-1")
_LAYER: Final = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
_FIRST: Final = "11111111-2222-4333-8444-555555555555"
_SECOND: Final = "22222222-3333-4444-8555-666666666666"


def _keyed(act: str) -> str:
    """Return SQL that joins the reply whose key an act ``t`` holds."""
    return (
        f" LEFT JOIN reply p ON p.learner_id = t.learner_id AND p.kind = '{act}'"
        f" AND p.no = t.{tables.KEYED_ACTS[act]}_no AND {HOLDS}"
    )


def _read_by(add: Callable[[Transaction, Any, Byline], int]) -> Reading:
    """Return what appends a line of an import, given what appends one by a byline."""
    return lambda txn, line, import_no: add(txn, line, txn.imported(line, import_no))


def _lines_of(line: type[Any], table: str, joined: str = "", **members: str) -> Listing:
    """Return what lists the acts of a table as lines: a field is the column of its name, or a named expression."""
    given = {*_HEAD, *members}
    columns = [one.name for one in msgspec.structs.fields(line) if one.name not in given]
    flags = [one.name for one in msgspec.structs.fields(line) if one.type is bool and one.name not in _HEAD]

    def lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
        for _, one in snapshot.acts(table, *columns, joined=joined, **members):
            yield one["revision"], line(**one | {flag: bool(one[flag]) for flag in flags})

    return lines


@dataclass(frozen=True, kw_only=True)
class Request:
    """A kind's use of idempotency keys: the digest of a line's request, and the answer (None if unknown)."""

    payload: Callable[[Any], int]
    reply: Callable[[Transaction, Any, int], Reply | None]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One kind of act: its table, and an ``example`` of its ids.

    ``moving`` updates caches around a change of state; ``since`` is the lower of its revisions before and after.
    ``settled`` is called once the state of all changed facts is known. Facts that name an act of a table in
    ``follows`` by its number follow from that act, and are undone with it. Those of a table in ``belongs_to`` are
    not undone by themselves.
    """

    table: str
    example: str
    moving: Moving = lambda *_: nullcontext()
    settled: Settling = lambda *_: None
    follows: tuple[str, ...] = ()
    belongs_to: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name in ids and in the audit."""
        return str(tables.metadata.tables[self.table].info[tables.ACT])

    @property
    def column(self) -> str:
        """The column of its numbers, in its own table."""
        return f"{self.table}_no"


@dataclass(frozen=True, kw_only=True)
class Exchanged(Fact):
    """A kind whose facts are exported and imported.

    It has the type of its ``line``, a function from rows to lines in order of revisions, and one that appends a new
    line as a row and returns its number. ``again`` is called for a line with a known row, for the names in it.
    ``is_boundary``: facts before and after it must keep different revisions. ``alike`` finds a fact with the content
    of a line without an id.
    """

    line: FactLine
    lines: Listing
    read: Reading
    request: Request | None = None
    is_boundary: bool = False
    again: Repeating = lambda *_: None
    alike: Callable[[Transaction, Any], int | None] | None = None


_ALL: Final = (
    Exchanged(
        table="observation",
        example="reward-12",
        moving=moving_reward,
        follows=("evaluation", "episode_credit"),
        line=RewardLine(id="elsewhere/reward-1", arm=_ARM, observation="feedback", reward=0.5),
        lines=reward_lines,
        read=read_reward,
        request=Request(payload=reward_payload, reply=reward_reply),
    ),
    Exchanged(
        table="reset",
        example="reset-3",
        moving=moving_boundary,
        line=ResetLine(id="elsewhere/reset-1", arms=(_ARM,), target="prior"),
        lines=reset_lines,
        read=read_reset,
        is_boundary=True,
    ),
    Exchanged(
        table="repair",
        example="repair-1",
        moving=moving_repair,
        line=RepairLine(id="elsewhere/repair-1", arms=(_ARM,), since_ms=0, until_ms=1),
        lines=repair_lines,
        read=read_repair,
    ),
    Fact(table="import", example="import-1"),
    Fact(table="setting", example="setting-2", moving=moving_setting),
    Exchanged(
        table="note",
        example="note-1",
        line=NoteLine(id="elsewhere/note-1", arm=_ARM, text="slow on Mondays"),
        lines=_lines_of(
            NoteLine,
            "note",
            "JOIN arm a ON a.learner_id = t.learner_id AND a.arm_no = t.arm_no" + _keyed("note"),
            arm="a.key",
            key="p.key",
            text="nullif(t.text, '')",
        ),
        read=_read_by(
            lambda txn, line, byline: add_note(txn, txn.arm_no_of(line.arm), note_text(line), byline)
        ),
        request=Request(
            payload=lambda line: note_payload(line.arm, note_text(line)),
            reply=lambda _, line, number: reply_to_note(number, line.arm, note_text(line)),
        ),
    ),
    Exchanged(
        table="rubric",
        example="rubric-1",
        line=RubricLine(id="elsewhere/rubric-1", rubric=Rubric(version="v1", title="Answers")),
        lines=rubric_lines,
        read=_read_by(lambda txn, line, byline: add_rubric(txn, line.rubric, byline)),
    ),
    Exchanged(
        table="browser",
        example="browser-1",
        settled=settle_browsers,
        line=BrowserLine(id="elsewhere/browser-1", browser="3f2a91", named="kim"),
        lines=_lines_of(BrowserLine, "browser"),
        read=_read_by(lambda txn, line, byline: add_browser(txn, line.browser, line.named, byline)),
    ),
    Exchanged(
        table="evaluation",
        example="evaluation-7",
        settled=settle_evaluations,
        line=EvaluationLine(
            id="elsewhere/evaluation-1", layer=_LAYER, execution=_FIRST, outcome="success", rater="mara"
        ),
        lines=evaluation_lines,
        read=read_evaluation,
        again=evaluation_again,
        request=Request(payload=evaluation_request, reply=evaluation_reply),
        alike=alike_evaluation,
    ),
    Exchanged(
        table="choice",
        example="choice-2",
        line=ChoiceLine(
            id="elsewhere/choice-1", layer=_LAYER, first=_FIRST, second=_SECOND, chosen="second", rater="mara"
        ),
        lines=_lines_of(
            ChoiceLine,
            "choice",
            "JOIN layer l ON l.learner_id = t.learner_id AND l.layer_no = t.layer_no"
            " JOIN execution f ON f.learner_id = t.learner_id AND f.execution_no = t.first_no"
            " JOIN execution s ON s.learner_id = t.learner_id AND s.execution_no = t.second_no",
            layer="l.uid",
            first="f.uid",
            second="s.uid",
        ),
        read=_read_by(add_choice),
        again=choice_again,
    ),
    Exchanged(
        table="review_queue",
        example="queue-1",
        line=QueueLine(
            id="elsewhere/queue-1", name="Week 12", items=(ItemLine(no=1, layer=_LAYER, execution=_FIRST),)
        ),
        lines=queue_lines,
        read=read_queue,
    ),
    Exchanged(
        table="review_aside",
        example="aside-1",
        line=SkippedLine(id="elsewhere/aside-1", queue="elsewhere/queue-1", item=1, reason="cut off"),
        lines=_lines_of(SkippedLine, "review_aside", item="t.item_no"),
        read=_read_by(add_skip),
    ),
    Exchanged(
        table="scale",
        example="scale-1",
        settled=settle_scales,
        line=ScaleLine(id="elsewhere/scale-1", environment="sums", scale=Scale(hi=2)),
        lines=scale_lines,
        read=read_scale,
    ),
    Exchanged(
        table="episode_credit",
        example="credit-1",
        settled=settle_credits,
        line=CreditLine(id="elsewhere/credit-1", episode="sums/1", rule="off"),
        lines=credit_lines,
        read=read_credit,
    ),
    Exchanged(
        table="achieved",
        example="outcome-5",
        settled=settle_outcomes,
        line=OutcomeLine(id="elsewhere/outcome-1", run="request-1", value=0.5),
        lines=_lines_of(OutcomeLine, "achieved", _keyed("outcome"), key="p.key"),
        read=_read_by(lambda txn, line, byline: add_outcome(txn, line.run, line.value, byline)),
        request=Request(payload=lambda line: outcome_payload(line.run, line.value), reply=outcome_reply),
    ),
    Exchanged(
        table="trial",
        example="trial-1",
        moving=moving_trial,
        line=TrialLine(id="elsewhere/trial-1", results=TrialResults(source="lines", cells=(_CELL,))),
        lines=trial_lines,
        read=_read_by(add_trial),
    ),
    Exchanged(
        table="experiment",
        example="experiment-1",
        line=ExperimentLine(
            id="elsewhere/experiment-1",
            form="start",
            plan=ExperimentPlan(arm=_ARM, metric="tokens", ends_ms=0, n_planned=1),
        ),
        lines=experiment_lines,
        read=_read_by(add_experiment),
    ),
    Exchanged(
        table="assignment",
        example="assignment-1",
        settled=settle_assignments,
        belongs_to=("experiment",),
        line=AssignmentLine(
            id="elsewhere/assignment-1",
            of="elsewhere/experiment-1",
            side="with",
            chance_micro=500_000,
            session="session-1",
        ),
        lines=assignment_lines,
        read=_read_by(add_assignment),
    ),
    Fact(table="undo", example="undo-4"),
)
FACTS: Final[Mapping[str, Fact]] = {fact.name: fact for fact in _ALL}
"""All kinds, by name; facts of one revision are exported in this order."""
EXCHANGED: Final[Mapping[type[FactLine], Exchanged]] = {
    type(fact.line): fact for fact in _ALL if isinstance(fact, Exchanged)
}
"""Those that go from one learner to another, by their lines."""
