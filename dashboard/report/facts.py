"""Facts: every answer of one revision, each with the question that led to it and when it was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from core.errors import StoreBusy
from core.flows import look
from core.flows.desk import Desk
from core.records.audit import AuditEntry
from core.records.judgement import Judgement
from core.records.view import View
from core.statistics.confidence import Confidence
from core.statistics.overview import Overview
from core.statistics.savings import Savings
from dashboard import wording

Answer = TypeVar("Answer")

_TRIES: Final = 5
_CHANGES: Final = 20
_COMMAND: Final = "armscope posteriors"


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question to the learner; ``number`` is how the report refers to it.

    ``expression`` answers it in Python, after what `opening` says; ``command`` at the command line, if one does.
    """

    number: int
    question: str
    expression: str
    command: str
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
    judgements: Mapping[str, Judgement]
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

    def ask(
        name: str, question: str, expression: str, answer: Callable[[], Answer], command: str = ""
    ) -> Answer:
        queries[name] = Query(
            number=len(queries) + 1,
            question=question,
            expression=expression,
            command=command,
            asked_at_ms=desk.clock(),
        )
        return answer()

    told = told_view(view)
    is_present = view.until_ms is None and not view.types
    return Facts(
        frame=ask("frame", "What is there?", "look.frame(desk)", lambda: look.frame(desk)),
        view=view,
        overview=ask(
            "overview",
            "Key figures, best and worst arms, what needs a look",
            f"look.overview(desk, {told})",
            lambda: look.overview(desk, view),
        ),
        savings=ask(
            "savings",
            "Baseline against selected runs",
            f"look.savings(desk, {told})",
            lambda: look.savings(desk, view),
        ),
        confidence=ask(
            "confidence",
            "How much is known of each arm",
            f"look.confidence(desk, {told})",
            lambda: look.confidence(desk, view),
        ),
        belief=ask(
            "belief",
            "What is believed of every arm",
            f"look.belief(desk, {told})",
            lambda: look.belief(desk, view),
            _COMMAND if is_present else "",
        ),
        judgements=ask(
            "judgements",
            "What is to be said of every arm",
            f"look.judgements(desk, {told})",
            lambda: look.judgements(desk, view),
            _COMMAND if is_present else "",
        ),
        changes=ask(
            "changes",
            f"The last {_CHANGES} changes",
            f"look.changes(desk, {_CHANGES})",
            lambda: look.changes(desk, _CHANGES),
        ),
        made_at_ms=desk.clock(),
        queries=queries,
    )


def opening(learner: str) -> str:
    """What precedes the expressions in Python, where ``file`` is the path of the database.

    >>> print(opening("support-agent"))
    from core import View, open_learner
    from core.flows import look
    desk = open_learner(file, 'support-agent').desk
    """
    return "\n".join(
        (
            "from core import View, open_learner",
            "from core.flows import look",
            f"desk = open_learner(file, {learner!a}).desk",
        )
    )


def told_view(view: View) -> str:
    """A view as Python has it, with the filters that are set, in ASCII.

    >>> told_view(View(since_ms=0, models=("large",)))
    "View(since_ms=0, models=('large',))"
    """
    unset = View()
    chosen = ((name, getattr(view, name)) for name in View.__struct_fields__)
    return (
        f"View({', '.join(f'{name}={value!a}' for name, value in chosen if value != getattr(unset, name))})"
    )
