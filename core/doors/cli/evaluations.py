"""Evaluations: record one, list them, and report how far graders agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or, written
from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import KEY, Options, words
from core.doors.documents import evaluations as evaluations_document
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.evaluation import Blocker, EvaluationOutcome, GraderKind, Label
from core.records.evaluation_page import EvaluationFilter, Grader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.flows import queries
    from core.records.evaluation_page import Evaluation
    from core.records.judging import EvaluationAnswer
    from core.statistics.agreement import Agreement, NoAgreement

_WHY: dict[NoAgreement, str] = {
    "no_pairs": "nothing was judged by two",
    "no_variation": "undefined: all say the same",
    "few_items": "",
}


class EvaluationOptions(Options, frozen=True, kw_only=True):
    """Options that filter evaluations by their grader and their subject."""

    rater: Annotated[
        str | None, typer.Option("--rater", metavar="NAME", help="By this person or model grader.")
    ] = None
    kind: Annotated[GraderKind | None, typer.Option("--kind", help="By people, by model graders.")] = None
    rubric: Annotated[
        str | None, typer.Option("--rubric", metavar="VERSION", help="By this version of a rubric.")
    ] = None
    layer: Annotated[
        str | None, typer.Option("--layer", metavar="URI", help="Of this layer: uid or URI.")
    ] = None
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Of this run: uid or number.")] = None
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="ARM", help="Of this arm.", autocompletion=arm_ids)
    ] = None


@command(
    examples=[
        "evaluate request-1 success --score 0.9 --rubric v2",
        "evaluate kairos://layer/11111111-2222-4333-8444-555555555555 failure --model judge-1 --create",
    ],
    options={
        "subject": typer.Argument(metavar="SUBJECT"),
        "feedback": typer.Option("--feedback", metavar="TEXT"),
        "rater": typer.Option("--rater", metavar="NAME"),
        "model": typer.Option("--model", metavar="NAME"),
        "rubric": typer.Option("--rubric", metavar="VERSION"),
        "arm": typer.Option("--arm", metavar="ARM", autocompletion=arm_ids),
        "key": KEY,
    },
)
def evaluate(line: typer.Context, values: Fields) -> None:
    context = context_of(line)
    result: EvaluationAnswer = verb("evaluate").call(context, **values)
    ready = [
        use
        for use, is_ready in (
            ("fine-tuning", result.exportable_for_sft),
            ("preference pairs", result.exportable_for_preference),
        )
        if is_ready
    ]
    blocked = sorted({*result.sft_blockers, *result.preference_blockers})
    parts = [
        f"{result.uri} judged a {result.outcome}: {result.label}, signed score {result.signed_score:g}.",
        f"Ready for {' and '.join(ready)}." if ready else "Ready for no training export.",
        f"Blocked by {', '.join(blocked)}." if blocked else "",
        f"It takes the place of {result.supersedes}." if result.supersedes else "",
        f"It moves {result.arms:,} arm{'' if result.arms == 1 else 's'}." if result.arms else "",
        *result.warnings,
    ]
    written(line, context, result, " ".join(part for part in parts if part), act=result.id)


@command(
    examples=["evaluations --limit 10", "evaluations --blocker missing_rubric_version --format csv"],
)
def evaluations(
    line: typer.Context,
    options: EvaluationOptions,
    outcome: Annotated[EvaluationOutcome | None, typer.Option("--outcome", help="With this outcome.")] = None,
    label: Annotated[Label | None, typer.Option("--label", help="With this label.")] = None,
    blocker: Annotated[
        Blocker | None, typer.Option("--blocker", help="Not in training for this reason.")
    ] = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Also those that were superseded or taken back.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help=words("evaluations", "limit"))
    ] = 50,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help=words("evaluations", "from_"))
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help=words("evaluations", "to"))] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="MARK", help=words("evaluations", "since"))
    ] = None,
    format_name: Format = None,
) -> None:
    context = context_of(line)
    evaluation_filter = EvaluationFilter(
        outcome=outcome,
        label=label,
        blocker=blocker,
        counting=not all_of_them,
        **msgspec.structs.asdict(options),
    )
    page: Sequence[Evaluation] = verb("evaluations").call(
        context, wanted=evaluation_filter, limit=limit, from_=from_, to=to, since=since
    )
    heads = ("evaluation", "of", "outcome", "score", "label", "grader", "rubric", "ready for", "state")
    rows = [
        (
            one.id.rpartition("-")[2],
            one.subject.uri,
            one.outcome,
            "none" if one.score is None else f"{one.score:g}",
            one.label,
            _name(one.grader),
            one.rubric or "none",
            _ready(one),
            one.state,
        )
        for one in page
    ]
    document = evaluations_document(context, page)
    rows_or(line, format_name, document, lambda: say_table(heads, rows, numbers=(0, 3)))


def _ready(one: Evaluation) -> str:
    uses = [
        name
        for name, blockers in (("sft", one.sft_blockers), ("preference", one.preference_blockers))
        if not blockers
    ]
    return ", ".join(uses) or "nothing"


def _name(grader: Grader) -> str:
    if grader.kind == "unknown":
        return "not named"
    return f"{grader.name} (model)" if grader.kind == "model" else grader.name


@command(examples=["agreement", "agreement --rubric v2 --json"])
def agreement(line: typer.Context, options: EvaluationOptions) -> None:
    """Reliable is an interval from .800 on, tentative from .667 on (Krippendorff); 1 is perfect, 0 is chance."""
    one, context = verb("agreement"), context_of(line)
    evaluation_filter = EvaluationFilter(**msgspec.structs.asdict(options))
    report: queries.AgreementReport = one.call(context, wanted=evaluation_filter)
    answer(line, one.plain(context, report), lambda: _say(report))


def _say(report: queries.AgreementReport) -> None:
    say(
        f"{report.n:,} evaluations; "
        f"{report.n_items:,} items were judged by two or more of {report.n_graders:,} graders."
    )
    heads = ("on", "alpha", "95% interval", "in words", "same answer")
    parts = (("outcome", report.outcome), ("label", report.label), ("score", report.score))
    say("")
    say_table(heads, [(name, *_cells(part)) for name, part in parts], numbers=(1, 4))
    if report.graders:
        say("", "Each grader beside all others, by outcome:")
        rows = [
            (
                _name(one.grader),
                *_cells(one.agreement),
                "unknown" if one.weight is None else f"{one.weight:.2f}",
            )
            for one in report.graders
        ]
        say_table(("grader", *heads[1:], "weight"), rows, numbers=(1, 4, 5))


def _cells(one: Agreement) -> tuple[str, str, str, str]:
    interval = (
        "too few items" if one.lower is None or one.upper is None else f"{one.lower:.2f} to {one.upper:.2f}"
    )
    raw = "none" if one.raw is None else f"{one.raw:.0%}"
    if one.alpha is None:
        return "none", "none", _WHY[one.missing or "no_pairs"], raw
    return f"{one.alpha:.2f}", interval, one.word or "too few to say", raw
