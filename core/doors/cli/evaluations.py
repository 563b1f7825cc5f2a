"""Evaluations: judge something, list what was judged, and say how far those who judge agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or, written
from core.doors.cli.program.arguments import KEY
from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import words
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
Rater = Annotated[str | None, typer.Option("--rater", metavar="NAME", help="By this person or model grader.")]
Kind = Annotated[GraderKind | None, typer.Option("--kind", help="By people, by model graders.")]
Rubric = Annotated[
    str | None, typer.Option("--rubric", metavar="VERSION", help="By this version of a rubric.")
]
Outcome = Annotated[EvaluationOutcome | None, typer.Option("--outcome", help="With this outcome.")]
Of = Annotated[str | None, typer.Option("--layer", metavar="URI", help="Of this layer: uid or URI.")]
Run = Annotated[str | None, typer.Option("--run", metavar="ID", help="Of this run: uid or number.")]
OfArm = Annotated[
    str | None, typer.Option("--arm", metavar="ARM", help="Of this arm.", autocompletion=arm_ids)
]


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
def evaluate(line: typer.Context, given: Fields) -> None:
    context = context_of(line)
    found: EvaluationAnswer = verb("evaluate").call(context, **given)
    ready = [
        use
        for use, is_ready in (
            ("fine-tuning", found.exportable_for_sft),
            ("preference pairs", found.exportable_for_preference),
        )
        if is_ready
    ]
    blocked = sorted({*found.sft_blockers, *found.preference_blockers})
    said = [
        f"{found.uri} judged a {found.outcome}: {found.label}, signed score {found.signed_score:g}.",
        f"Ready for {' and '.join(ready)}." if ready else "Ready for no training export.",
        f"Blocked by {', '.join(blocked)}." if blocked else "",
        f"It takes the place of {found.supersedes}." if found.supersedes else "",
        f"It moves {found.arms:,} arm{'' if found.arms == 1 else 's'}." if found.arms else "",
        *found.warnings,
    ]
    written(line, context, found, " ".join(part for part in said if part), act=found.id)


@command(
    examples=["evaluations --limit 10", "evaluations --blocker missing_rubric_version --format csv"],
    options={},
)
def evaluations(
    line: typer.Context,
    rater: Rater = None,
    kind: Kind = None,
    rubric: Rubric = None,
    outcome: Outcome = None,
    label: Annotated[Label | None, typer.Option("--label", help="With this label.")] = None,
    blocker: Annotated[Blocker | None, typer.Option("--blocker", help="Held back by this.")] = None,
    layer: Of = None,
    run: Run = None,
    arm: OfArm = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Also those that were superseded or taken back.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help=words("evaluations", "limit"))
    ] = 50,
    format_name: Format = None,
) -> None:
    context = context_of(line)
    wanted = EvaluationFilter(
        rater=rater,
        kind=kind,
        rubric=rubric,
        outcome=outcome,
        label=label,
        blocker=blocker,
        layer=layer,
        run=run,
        arm=arm,
        counting=not all_of_them,
    )
    seen: Sequence[Evaluation] = verb("evaluations").call(context, wanted=wanted, limit=limit)
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
        for one in seen
    ]
    found = evaluations_document(context, seen)
    rows_or(line, format_name, found, lambda: say_table(heads, rows, numbers=(0, 3)))


def _ready(one: Evaluation) -> str:
    uses = [
        name
        for name, blockers in (("sft", one.sft_blockers), ("preference", one.preference_blockers))
        if not blockers
    ]
    return ", ".join(uses) or "nothing"


def _name(grader: Grader) -> str:
    if grader.kind == "unknown":
        return "nobody named"
    return f"{grader.name} (model)" if grader.kind == "model" else grader.name


@command(examples=["agreement", "agreement --rubric v2 --json"])
def agreement(
    line: typer.Context,
    rater: Rater = None,
    kind: Kind = None,
    rubric: Rubric = None,
    layer: Of = None,
    run: Run = None,
    arm: OfArm = None,
) -> None:
    """Reliable is an interval from .800 on, tentative from .667 on (Krippendorff); 1 is perfect, 0 is chance."""
    asked, context = verb("agreement"), context_of(line)
    wanted = EvaluationFilter(rater=rater, kind=kind, rubric=rubric, layer=layer, run=run, arm=arm)
    seen: queries.AgreementReport = asked.call(context, wanted=wanted)
    answer(line, asked.plain(context, seen), lambda: _say(seen))


def _say(seen: queries.AgreementReport) -> None:
    say(
        f"{seen.n:,} evaluations; {seen.n_items:,} things were judged by two or more of {seen.n_graders:,} graders."
    )
    heads = ("on", "alpha", "95% interval", "in words", "same answer")
    parts = (("outcome", seen.outcome), ("label", seen.label), ("score", seen.score))
    say("")
    say_table(heads, [(name, *_cells(found)) for name, found in parts], numbers=(1, 4))
    if seen.graders:
        say("", "Each grader beside all others, by outcome:")
        beside = [
            (
                _name(one.grader),
                *_cells(one.agreement),
                "unknown" if one.weight is None else f"{one.weight:.2f}",
            )
            for one in seen.graders
        ]
        say_table(("grader", *heads[1:], "weight"), beside, numbers=(1, 4, 5))


def _cells(found: Agreement) -> tuple[str, str, str, str]:
    interval = (
        "too few things"
        if found.lower is None or found.upper is None
        else f"{found.lower:.2f} to {found.upper:.2f}"
    )
    raw = "none" if found.raw is None else f"{found.raw:.0%}"
    if found.alpha is None:
        return "none", "none", _WHY[found.missing or "no_pairs"], raw
    return f"{found.alpha:.2f}", interval, found.word or "too few to say", raw
