"""Facts of a report: every answer of one revision, with its question and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from core.errors import StoreBusy
from core.flows import queries
from core.flows.context import Context
from core.maths.statistics.confidence import Confidence
from core.maths.statistics.overview import Overview
from core.maths.statistics.savings import Savings
from core.records.audit import AuditEntry
from core.records.judgement import Judgement
from core.records.run_query import View
from dashboard import wording

Answer = TypeVar("Answer")

_TRIES: Final = 5
_CHANGES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question to the learner; ``number`` is how the report refers to it.

    ``expression`` answers it in Python, after what `opening` says; ``command`` at the command line, if one does.
    """

    number: int
    question: str
    expression: str
    command: str
    queried_at_ms: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The answers of a report, all of the same revision; ``questions`` has them by the name of the answer."""

    frame: queries.Frame
    view: View
    overview: Overview
    savings: Savings
    confidence: Confidence
    belief: queries.Belief
    judgements: Mapping[str, Judgement]
    changes: tuple[AuditEntry, ...]
    created_at_ms: int
    questions: dict[str, Query]


def gather(context: Context, view: View) -> Facts:
    """Run every query, again after a write meanwhile. Raises `StoreBusy` if that never ends."""
    for _ in range(_TRIES):
        before = queries.visibility(context)
        facts = _answers(context, view)
        if queries.visibility(context) == before:
            return facts
    raise StoreBusy(
        f"The report must be of one revision, but {wording.plain(context.learner)!r} changed in each of"
        f" {_TRIES} tries.",
        next_step="Make it again in a quieter moment, or of a backup: armscope backup FILE.",
    )


def _answers(context: Context, view: View) -> Facts:
    questions: dict[str, Query] = {}

    is_present = view.until_ms is None and not view.types

    def ask(question: str, answer: Callable[..., Answer], *of: View | int) -> Answer:
        name = answer.__name__
        arguments = ["context", *(view_arguments(one) if isinstance(one, View) else str(one) for one in of)]
        questions[name] = Query(
            number=len(questions) + 1,
            question=question,
            expression=f"queries.{name}({', '.join(arguments)})",
            command="armscope posteriors" if is_present and name in {"belief", "judgements"} else "",
            queried_at_ms=context.clock(),
        )
        return answer(context, *of)

    return Facts(
        frame=ask("What is there?", queries.frame),
        view=view,
        overview=ask("Key figures, most and least used arms, what needs a look", queries.overview, view),
        savings=ask("Baseline against selected runs", queries.savings, view),
        confidence=ask("How much is known of each arm", queries.confidence, view),
        belief=ask("What is believed of every arm", queries.belief, view),
        judgements=ask("Judgement of every arm", queries.judgements, view),
        changes=ask(f"The last {_CHANGES} changes", queries.changes, _CHANGES),
        created_at_ms=context.clock(),
        questions=questions,
    )


def opening(learner: str) -> str:
    """Return the Python lines before the expressions; ``file`` is the path of the database."""
    return "\n".join(
        (
            "from core import View, open_learner",
            "from core.flows import queries",
            f"context = open_learner(file, {learner!a}).context",
        )
    )


def view_arguments(view: View) -> str:
    """Return a view as Python has it, with the filters that are set, in ASCII."""
    unset = View()
    chosen = ((name, getattr(view, name)) for name in View.__struct_fields__)
    return (
        f"View({', '.join(f'{name}={value!a}' for name, value in chosen if value != getattr(unset, name))})"
    )
