"""Facts: every answer of one revision, each with the question that led to it and when it was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from core.errors import StoreBusy
from core.flows import look
from core.flows.desk import Desk
from core.records.audit import AuditEntry
from core.records.times import iso
from core.records.view import View
from core.statistics.confidence import Confidence
from core.statistics.overview import Overview
from core.statistics.savings import Savings
from dashboard import wording

Answer = TypeVar("Answer")

_TRIES: Final = 5
_CHANGES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question to the learner; ``number`` is how the report refers to it."""

    number: int
    question: str
    reads: str
    again: str
    asked_at_ms: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The answers a report stands on, all of the same revision; ``queries`` by the name of the answer."""

    frame: look.Frame
    view: View
    overview: Overview
    savings: Savings
    confidence: Confidence
    belief: look.Belief
    changes: tuple[AuditEntry, ...]
    made_at_ms: int
    queries: dict[str, Query]


def gather(desk: Desk, view: View) -> Facts:
    """Ask everything; again if somebody wrote meanwhile. Raises `StoreBusy` where that never ends."""
    for _ in range(_TRIES):
        before = look.moment(desk)
        facts = _asked(desk, view)
        if look.moment(desk) == before:
            return facts
    raise StoreBusy(
        f"The report must be of one revision, but {wording.plain(desk.learner)!r} changed in each of {_TRIES} tries.",
        next_step="Make it again in a quieter moment, or of a backup: armscope backup FILE.",
    )


def _asked(desk: Desk, view: View) -> Facts:
    queries: dict[str, Query] = {}

    def ask(name: str, question: str, reads: str, again: str, answer: Callable[[], Answer]) -> Answer:
        queries[name] = Query(
            number=len(queries) + 1, question=question, reads=reads, again=again, asked_at_ms=desk.clock()
        )
        return answer()

    return Facts(
        frame=ask("frame", "What is there?", "look.frame()", "armscope status", lambda: look.frame(desk)),
        view=view,
        overview=ask(
            "overview",
            "Key figures, best and worst arms, what needs a look",
            f"look.overview({_told(view)})",
            "armscope status",
            lambda: look.overview(desk, view),
        ),
        savings=ask(
            "savings",
            "Baseline against selected runs",
            f"look.savings({_told(view)})",
            "armscope status",
            lambda: look.savings(desk, view),
        ),
        confidence=ask(
            "confidence",
            "How much is known of each arm",
            f"look.confidence({_told(view)})",
            "armscope posteriors",
            lambda: look.confidence(desk, view),
        ),
        belief=ask(
            "belief",
            "What is believed of every arm",
            f"look.belief({_told(view)})",
            "armscope posteriors",
            lambda: look.belief(desk, view),
        ),
        changes=ask(
            "changes",
            f"The last {_CHANGES} changes",
            f"look.changes(limit={_CHANGES})",
            "armscope export - --format jsonl",
            lambda: look.changes(desk, limit=_CHANGES),
        ),
        made_at_ms=desk.clock(),
        queries=queries,
    )


def _told(view: View) -> str:
    """The filters that are set, as one would pass them on.

    >>> _told(View(since_ms=0, models=("large",)))
    "since=1970-01-01T00:00:00.000Z, models=('large',)"
    """
    parts = {
        "since": iso(view.since_ms),
        "until": iso(view.until_ms),
        "models": view.models,
        "channels": view.channels,
        "types": view.types,
    }
    return ", ".join(f"{name}={wording.plain(str(value))}" for name, value in parts.items() if value)
