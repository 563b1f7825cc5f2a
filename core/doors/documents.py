"""Documents: what a flow answered → what programs are told of it, the same JSON behind every door.

A verb names the one it answers with; each takes the context and the flow's own answer. A run's is in `story`: its
words need more than most commands do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.doors.terminal import as_plain
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows import queries
    from core.flows.context import Context
    from core.records.run_page import RunRow


def plain(context: Context, answer: object) -> object:  # noqa: ARG001 - all documents are asked for alike
    """The answer as it is."""
    return as_plain(answer)


def act(context: Context, answer: object) -> object:
    """What was done, and to whose learner."""
    told = as_plain(answer)
    return {**told, "learner": told.get("learner", context.learner)} if isinstance(told, dict) else told


def one(context: Context, answer: object) -> list[object]:
    """A list of one, where many are listed by the same command."""
    return [plain(context, answer)]


def runs(context: Context, answer: Sequence[RunRow]) -> list[dict[str, object]]:  # noqa: ARG001
    """Runs of a list, with the names that people use of them."""
    return [
        {
            "run": row.run_no,
            "uid": row.uid,
            "ended_at": iso(row.at_ms),
            "model": row.model,
            "channel": row.channel,
            "class": row.run_class,
            "status": row.status,
            "outcome": row.outcome,
            "tokens": row.tokens,
            "arms": row.n_arms,
            "referenced": row.n_referenced,
        }
        for row in answer
    ]


def verification(context: Context, answer: queries.Verification) -> dict[str, object]:
    """Whether all is well; where it isn't, the one error and the first differences."""
    return {
        "ok": answer.clean,
        **({} if answer.clean else answer.problem(context.store.path).as_answer()),
        "learners": answer.learners,
        "differences_count": answer.n_differences,
        "differences": [{"learner": name, **found._asdict()} for name, found in answer.found],
    }
