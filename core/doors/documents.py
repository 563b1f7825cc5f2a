"""Documents of answers: the same JSON behind every door.

A verb names its document, a function of the context and the flow's answer. Its return type describes the JSON to
clients; values may be records. Those of a run and of savings are in `story`, which imports more than most commands
need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

import msgspec

from core.doors.terminal import json_form
from core.errors import ArmscopeError
from core.records.achieved import OutcomeSource
from core.records.agreement import Metric, NoAgreement, Reliability
from core.records.audit import AuditEntry, AuditPage, Denial, DenialPage
from core.records.estimate import Estimate
from core.records.evaluation import Blocker, EvaluationOutcome, GraderKind, Label
from core.records.evaluation_page import EvaluationState
from core.records.evidence import Outcome
from core.records.run import RunClass, Status
from core.records.run_page import RowState
from core.records.times import Moment, iso
from core.records.transcript import Message

if TYPE_CHECKING:
    from core.flows import queries
    from core.flows.context import Context
    from core.maths.statistics.agreement import Agreement
    from core.records.evaluation_page import Evaluation, Grader
    from core.records.run_page import RunRow, RunsOfSession, SessionRow
    from core.records.verification import Verification

_Item = TypeVar("_Item")

RunItem = TypedDict(
    "RunItem",
    {
        "run": int,
        "uid": str,
        "ended_at": Moment | None,
        "model": str | None,
        "channel": str | None,
        "class": RunClass,
        "status": Status,
        "outcome": Outcome,
        "tokens": int | None,
        "arms": int,
        "referenced": int,
        "session": str | None,
        "revision": int,
        "state": RowState,
        "erased": bool,
        "mark": str | None,
        "achieved": float | None,
        "achieved_by": OutcomeSource | None,
    },
)
RunItem.__doc__ = "A run of a list."


class SessionItem(TypedDict):
    """A session of a list: its runs in the view, and their outcomes.

    ``tokens`` and ``cost_pico`` (10⁻¹² of ``currency``) are sums over ``runs_with_tokens`` and ``runs_with_cost``.
    ``model`` and ``channel`` are None where its runs have several.
    """

    session: str
    runs: int
    started_at: Moment | None
    ended_at: Moment | None
    observed: int
    unfinished: int
    tokens: int | None
    runs_with_tokens: int
    cost_pico: int | None
    runs_with_cost: int
    currency: str
    model: str | None
    channel: str | None


class SessionArm(TypedDict):
    """An arm of a session: prompts with it in full, and runs that referenced it."""

    arm: str
    prompts: int
    referenced: int


class SessionDocument(TypedDict):
    """A session with its first runs in order, and the arms in them, the most referenced first.

    ``transcripts`` are the kept messages by a run's uid, as far as the caller may read texts; None where they were
    not asked for.
    """

    session: SessionItem
    runs: list[RunItem]
    arms: list[SessionArm]
    transcripts: Mapping[str, tuple[Message, ...]] | None


class EvaluationItem(TypedDict):
    """An evaluation of a list; a name is null where none was sent."""

    id: str
    uri: str
    state: EvaluationState
    outcome: EvaluationOutcome
    score: float | None
    signed_score: float
    grader_kind: GraderKind
    rater: str | None
    model: str | None
    rubric: str | None
    feedback: str | None
    label: Label
    exportable_for_sft: bool
    exportable_for_preference: bool
    sft_blockers: list[Blocker]
    preference_blockers: list[Blocker]
    supersedes: str | None
    arms: int
    by: str
    claimed_by: str | None
    browser: str | None
    rated_at: Moment | None
    revision: int
    mark: str | None


class AgreementItem(TypedDict):
    """An agreement with its word."""

    metric: Metric
    alpha: float | None
    lower: float | None
    upper: float | None
    prob: float
    word: Reliability | None
    missing: NoAgreement | None
    raw_agreement: float | None
    items: int
    pairs: int


class GraderItem(TypedDict):
    """A grader; an empty name is an unknown one."""

    kind: GraderKind
    grader: str


class GraderAgreementItem(GraderItem, AgreementItem):
    """Agreement of one grader with all others."""

    weight: float | None


class PairAgreementItem(AgreementItem):
    """Agreement of two graders."""

    graders: list[GraderItem]


class ModelAgreementItem(GraderItem, AgreementItem):
    """Agreement of a model with the majority of people."""

    hits: Estimate
    counts: tuple[tuple[int, int], tuple[int, int]]
    ties: int
    judged_alone: int


class AgreementDocument(TypedDict):
    """Agreement on outcome, label and score, and by grader."""

    evaluations: int
    compared: int
    items: int
    graders: int
    outcome: AgreementItem
    label: AgreementItem
    score: AgreementItem
    by_grader: list[GraderAgreementItem]
    pairs: list[PairAgreementItem]
    models_against_people: list[ModelAgreementItem]


class DifferenceItem(TypedDict):
    """A difference between what is stored and what its facts give."""

    learner: str
    table: str
    key: str
    stored: str
    recomputed: str


class ProblemItem(TypedDict, total=False):
    """An error, where there is one."""

    error: str
    code: str
    next: str


class VerificationDocument(ProblemItem):
    """Verification: whether every cache equals its facts; else the error and the first differences."""

    ok: bool
    learners: tuple[str, ...]
    differences_count: int
    differences: list[DifferenceItem]
    servers: tuple[str, ...]
    replayed: int
    not_replayed: int
    heads: dict[str, str]


def fields_from(kind: type[_Item], source: object, own: Mapping[str, object]) -> _Item:
    """Return a document of a kind: its fields are ``own``, else those of the source with the same name."""
    names = kind.__annotations__
    return cast("_Item", {name: own[name] if name in own else getattr(source, name) for name in names})


def act(context: Context, answer: object) -> object:
    """Return the answer of an act, with its learner."""
    document = msgspec.to_builtins(answer, enc_hook=json_form)
    if not isinstance(document, dict):
        return document
    return {**document, "learner": document.get("learner", context.learner)}


def one(context: Context, answer: object) -> list[object]:  # noqa: ARG001 - all documents have one signature
    """Return a list of one, for a command that also lists many."""
    return [answer]


def runs(context: Context, answer: Sequence[RunRow]) -> list[RunItem]:  # noqa: ARG001
    """Return the runs of a list, with the field names that people use."""
    return [
        fields_from(
            RunItem,
            row,
            {
                "run": row.run_no,
                "ended_at": iso(row.at_ms),
                "class": row.run_class,
                "arms": row.n_arms,
                "referenced": row.n_referenced,
            },
        )
        for row in answer
    ]


def sessions(context: Context, answer: Sequence[SessionRow]) -> list[SessionItem]:  # noqa: ARG001
    """Return the sessions of a list, with the field names that people use."""
    return [
        {
            "session": row.session,
            "runs": row.n_runs,
            "started_at": iso(row.first_ms),
            "ended_at": iso(row.last_ms),
            "observed": row.n_observed,
            "unfinished": row.n_unfinished,
            "tokens": row.tokens if row.n_tokens else None,
            "runs_with_tokens": row.n_tokens,
            "cost_pico": row.cost_pico if row.n_costs else None,
            "runs_with_cost": row.n_costs,
            "currency": row.currency,
            "model": row.model if row.n_models == 1 else None,
            "channel": row.channel if row.n_channels == 1 else None,
        }
        for row in answer
    ]


def session(context: Context, answer: RunsOfSession) -> SessionDocument:
    """Return one session, with the field names that people use."""
    return {
        "session": sessions(context, [answer.row])[0],
        "runs": runs(context, answer.rows),
        "arms": [{"arm": arm, "prompts": n_in, "referenced": n_used} for arm, n_in, n_used in answer.arms],
        "transcripts": answer.transcripts,
    }


def evaluations(context: Context, answer: Sequence[Evaluation]) -> list[EvaluationItem]:  # noqa: ARG001
    """Return the evaluations of a list, with the field names of `evaluate`."""
    return [
        fields_from(
            EvaluationItem,
            one,
            {
                "uri": one.subject.uri,
                "grader_kind": one.grader.kind,
                "exportable_for_sft": not one.sft_blockers,
                "exportable_for_preference": not one.preference_blockers,
                "sft_blockers": list(one.sft_blockers),
                "preference_blockers": list(one.preference_blockers),
                "by": one.actor,
                "rated_at": iso(one.at_ms),
            },
        )
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
                for name in ("actor", "action", "act", "undone", "revision", "n", "detail", "mark")
                if hasattr(row, name)
            },
        }
        for row in rows
    ]


def agreement(context: Context, answer: queries.AgreementReport) -> AgreementDocument:  # noqa: ARG001
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
                "hits": one.result.hits,
                "counts": one.result.counts,
                "ties": one.result.n_ties,
                "judged_alone": one.result.n_alone,
            }
            for one in answer.models
        ],
    }


def _grader(one: Grader) -> GraderItem:
    return {"kind": one.kind, "grader": one.name}


def _agreed(result: Agreement) -> AgreementItem:
    counts = {"raw_agreement": result.raw, "items": result.n_items, "pairs": result.n_pairs}
    return fields_from(AgreementItem, result, counts)


def verification(context: Context, answer: queries.Verification) -> VerificationDocument:
    """Return whether the caches match; else the error and the first differences."""
    problem: ProblemItem = {} if answer.clean else _problem(context, answer)
    return {
        "ok": answer.clean,
        **problem,
        "learners": answer.learners,
        "differences_count": answer.n_differences,
        "differences": [
            fields_from(DifferenceItem, one, {"learner": name}) for name, one in answer.differences
        ],
        "servers": answer.servers,
        "replayed": answer.replayed,
        "not_replayed": answer.not_replayed,
        "heads": answer.heads,
    }


def _problem(context: Context, answer: Verification) -> ProblemItem:
    problem_of: Callable[..., ArmscopeError] = resolve_name("core.flows.queries.verify:problem_of")
    return cast("ProblemItem", problem_of(answer, context.store.location).as_answer())
