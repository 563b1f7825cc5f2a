"""Documents of answers: the same JSON behind every door.

A verb names its document, a function of the context and the flow's answer. That of a run is in `story`, which imports
more than most commands need.
"""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import msgspec

from core.doors.terminal import as_plain, json_form
from core.records.audit import AuditEntry, AuditPage, Denial, DenialPage
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows import queries
    from core.flows.context import Context
    from core.records.evaluation_page import Evaluation, Grader
    from core.records.run_page import RunRow
    from core.records.verification import Verification
    from core.statistics.agreement import Agreement
    from core.statistics.savings import Savings


def plain(context: Context, answer: object) -> object:  # noqa: ARG001 - all documents have one signature
    """Return the answer as it is."""
    return msgspec.to_builtins(answer, enc_hook=json_form)


def act(context: Context, answer: object) -> object:
    """Return the answer of an act, with its learner."""
    document = msgspec.to_builtins(answer, enc_hook=json_form)
    if not isinstance(document, dict):
        return document
    return {**document, "learner": document.get("learner", context.learner)}


def one(context: Context, answer: object) -> list[object]:
    """Return a list of one, for a command that also lists many."""
    return [plain(context, answer)]


def runs(context: Context, answer: Sequence[RunRow]) -> list[dict[str, object]]:  # noqa: ARG001
    """Return the runs of a list, with the field names that people use."""
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


def evaluations(context: Context, answer: Sequence[Evaluation]) -> list[dict[str, object]]:  # noqa: ARG001
    """Return the evaluations of a list, with the field names of `evaluate`."""
    return [
        {
            "id": one.id,
            "uri": one.subject.uri,
            "state": one.state,
            "outcome": one.outcome,
            "score": one.score,
            "signed_score": one.signed_score,
            "grader_kind": one.grader.kind,
            "rater": one.rater,
            "model": one.model,
            "rubric": one.rubric,
            "feedback": one.feedback,
            "label": one.label,
            "exportable_for_sft": not one.sft_blockers,
            "exportable_for_preference": not one.preference_blockers,
            "sft_blockers": list(one.sft_blockers),
            "preference_blockers": list(one.preference_blockers),
            "supersedes": one.supersedes,
            "arms": one.arms,
            "by": one.actor,
            "claimed_by": one.claimed_by,
            "rated_at": iso(one.at_ms),
        }
        for one in answer
    ]


def audit_rows(answer: AuditPage | DenialPage) -> list[dict[str, object]]:
    """Return the entries of an audit, or denials, as rows of a table with readable times."""
    rows: tuple[AuditEntry, ...] | tuple[Denial, ...]
    rows = answer.denials if isinstance(answer, DenialPage) else answer.entries
    return [
        {
            "at": iso(row.at_ms),
            **{
                name: getattr(row, name)
                for name in ("actor", "action", "act", "undone", "revision", "n", "detail")
                if hasattr(row, name)
            },
        }
        for row in rows
    ]


def savings(context: Context, answer: Savings) -> dict[str, object]:  # noqa: ARG001
    """Return baseline against selected runs: in all, by model and channel, and the runs left out."""
    money = None if answer.money is None else answer.money.record
    return {"money": as_plain(money)} | {
        name: as_plain(getattr(answer, name))
        for name in (
            "overall",
            "unfinished_too",
            "by_model",
            "by_channel",
            "left_out",
            "share",
            "need",
            "proof",
            "recommended_rate",
        )
    }


def agreement(context: Context, answer: queries.AgreementReport) -> dict[str, object]:  # noqa: ARG001
    """Return the agreement on outcome, label and score, each with its word, and by grader."""
    return {
        "evaluations": answer.n,
        "compared": answer.n_panel,
        "items": answer.n_items,
        "graders": answer.n_graders,
        "outcome": _agreed(answer.outcome),
        "label": _agreed(answer.label),
        "score": _agreed(answer.score),
        "by_grader": [
            {**_grader(one.grader), **_agreed(one.agreement), "weight": one.weight} for one in answer.graders
        ],
        "pairs": [
            {"graders": [_grader(one.grader), _grader(one.other)], **_agreed(one.agreement)}
            for one in answer.pairs
        ],
        "models_against_people": [
            {
                **_grader(one.grader),
                **_agreed(one.result.agreement),
                "hits": as_plain(one.result.hits),
                "counts": as_plain(one.result.counts),
                "ties": one.result.n_ties,
                "judged_alone": one.result.n_alone,
            }
            for one in answer.models
        ],
    }


def _grader(one: Grader) -> dict[str, object]:
    return {"kind": one.kind, "grader": one.name}


def _agreed(result: Agreement) -> dict[str, object]:
    """Return an agreement with its word."""
    return {
        "metric": result.metric,
        "alpha": result.alpha,
        "lower": result.lower,
        "upper": result.upper,
        "prob": result.prob,
        "word": result.word,
        "missing": result.missing,
        "raw_agreement": result.raw,
        "items": result.n_items,
        "pairs": result.n_pairs,
    }


def verification(context: Context, answer: queries.Verification) -> dict[str, object]:
    """Return whether the caches match; else the error and the first differences."""
    return {
        "ok": answer.clean,
        **({} if answer.clean else _problem(context, answer)),
        "learners": answer.learners,
        "differences_count": answer.n_differences,
        "differences": [{"learner": name, **result._asdict()} for name, result in answer.differences],
        "servers": answer.servers,
        "replayed": answer.replayed,
        "not_replayed": answer.not_replayed,
        "heads": answer.heads,
    }


def _problem(context: Context, answer: Verification) -> dict[str, Any]:
    document: dict[str, Any] = resolve_name("core.flows.queries.verify:problem_of")(
        answer, context.store.location
    ).as_answer()
    return document
