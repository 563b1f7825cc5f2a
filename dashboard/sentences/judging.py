"""Sentences about evaluations: numbers, agreement, outlier raters, and blockers of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from core.explained.table import Field, Table, count, text, time
from core.flows.queries import AgreementReport, BiasWatch, LayersView
from core.maths.statistics.agreement import Agreement
from core.maths.statistics.parting import Parting, PartingGrader
from core.records.evaluation import GRADER_KINDS, Blocker, GraderKind
from core.records.evaluation_page import Evaluation, EvaluationState, Grader
from core.records.layer import JudgedLayer
from dashboard import wording
from dashboard.figures.agreement import alpha_words, figure, span
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

BLOCKER_WORDS: Final[dict[Blocker, str]] = {
    "missing_rubric_version": "no rubric version",
    "missing_evaluator_identity": "no evaluator is named",
    "outcome_not_success": "not a success",
    "score_below_sft_threshold": "score too low for fine-tuning",
    "score_below_preference_threshold": "score too low for pairs",
}
"""Words for blockers, short enough for a cell."""
KIND_WORDS: Final[dict[GraderKind, str]] = {"human": "people", "model": "models", "unknown": "unnamed raters"}
STATE_WORDS: Final[dict[EvaluationState, str]] = {
    "counts": "",
    "superseded": "superseded",
    "undone": "undone",
}
UNNAMED: Final = "not named"
NO_RUBRIC: Final = "no rubric"
_BROWSER_CHARS: Final = 7


def grader_name(one: Grader) -> str:
    """Return the grader's name as plain text."""
    if one.kind == "unknown":
        return UNNAMED
    name = one.name if one.name.strip() else "a blank name"
    return f"{name} (model)" if one.kind == "model" else name


def rater_name(one: Evaluation) -> str:
    """Return who judged, as plain text, short enough for a cell: a browser by its own name, marked until an operator
    confirms it.
    """
    if one.browser is None:
        return grader_name(one.grader)
    return f"{wording.cut_middle(one.browser.rpartition(' ')[0], _BROWSER_CHARS)}, not signed in"


def rubric_name(version: str) -> str:
    """Return a version of a rubric, as plain text.

    >>> rubric_name("v1"), rubric_name(""), rubric_name(" ")
    ('v1', 'no rubric', 'a blank rubric')
    """
    return version if version.strip() else "a blank rubric" if version else NO_RUBRIC


def evaluations(watch: BiasWatch, report: AgreementReport) -> Sentence:
    """Return the number of evaluations, and the agreement of raters on outcomes."""
    start: Sentence = composed(Phrase(wording.things(watch.n, "evaluation")), f" by {_graders(watch)}")
    outcome = report.outcome
    if watch.n == 0:
        return composed("No evaluation ", Phrase("passes the filters"), ".")
    if outcome.missing == "no_pairs":
        return composed(*start, "; no item was judged by two, so ", Phrase("agreement is not known"), ".")
    if outcome.missing == "no_variation":
        return composed(*start, "; all gave the same outcome, so ", Phrase("agreement is undefined"), ".")
    if outcome.word is None:
        return composed(*start, "; too few items were judged by two to measure agreement.")
    return composed(*start, "; on the outcome their agreement is ", Phrase(outcome.word), ".")


def _graders(watch: BiasWatch) -> Words:
    n = sum(one.grader.kind != "unknown" for one in watch.by_grader)
    return Words("unnamed raters" if n == 0 else f"{wording.number_word(n)} rater{'' if n == 1 else 's'}")


def evaluations_numbers(watch: BiasWatch, report: AgreementReport) -> Words:
    """Return the numbers of that sentence, and whose evaluations they are, in Markdown."""
    parts = [_alpha(report.outcome)]
    shares = watch.kinds.shares
    if shares is not None:
        kinds = [
            f"{wording.percent(share, 0)} by {KIND_WORDS[kind]}"
            for kind, share in zip(GRADER_KINDS, shares, strict=True)
            if share
        ]
        parts.append(f"{wording.capital(wording.listed(kinds))}.")
    return " ".join(part for part in parts if part)


def _alpha(agreement: Agreement) -> Words:
    if agreement.alpha is None:
        return Words("")
    same = (
        "" if agreement.raw is None else f"; the same outcome in {wording.percent(agreement.raw, 0)} of pairs"
    )
    items = wording.things(agreement.n_items, "item")
    return f"Krippendorff’s alpha {figure(agreement.alpha)} on {items} judged by two or more{same}."


def agreement_note(report: AgreementReport) -> Words:
    """Return what takes part in the comparison, as Markdown."""
    if report.n_panel == report.n:
        return Words("")
    left = report.n - report.n_panel
    return (
        f"{wording.things(left, 'evaluation')} {'is' if left == 1 else 'are'} left out: no rater, no run, or a "
        "repeat."
    )


def parting(one: PartingGrader) -> Markdown:
    """Return a sentence about one outlier rater, with direction and size, as Markdown."""
    outlier, name = one.parting, wording.literal(grader_name(one.grader))
    either = " Two raters can’t show which of them is off." if outlier.divided else ""
    return f"**{name} {_way(outlier)}**: {parting_numbers(outlier)}.{either}"


def _way(outlier: Parting) -> Words:
    if outlier.way == "stands_alone":
        return Words("often disagrees with the other raters")
    return f"says success {'more' if outlier.way == 'more_success' else 'less'} often than the others"


def parting_numbers(outlier: Parting) -> Words:
    """Return the shares behind a claim about a rater."""
    mine, others = wording.percent(outlier.share, 0), wording.percent(outlier.others, 0)
    things = wording.things(outlier.n_items, "item")
    if outlier.way == "stands_alone":
        return f"in the minority on {mine} of {things} with different outcomes, {others} if all were alike"
    return f"{mine} against {others} on the same {things}"


def parting_claim(first: PartingGrader, n: int) -> tuple[Markdown, Markdown]:
    """Return the same for the list of what needs a look: claim and evidence, in Markdown."""
    name = wording.literal(grader_name(first.grader))
    many = f"{wording.capital(wording.number_word(n))} raters often disagree with the others"
    claim = Markdown(f"{name} {_way(first.parting)}" if n == 1 else many)
    who = "" if n == 1 else f"{name}: "
    return claim, f"{who}{parting_numbers(first.parting)}"


def no_outliers(report: AgreementReport) -> Words:
    """Return the sentence where no rater is an outlier, as Markdown."""
    if report.n_items == 0:
        return Words("Outlier raters show once two raters have judged the same items.")
    return Words("No rater is known to differ from the others on the same items.")


def ready(watch: BiasWatch) -> Words:
    """Return how many are good enough for training, as Markdown."""
    readiness = watch.readiness
    return (
        f"**{wording.count(readiness.n_sft)} of {wording.things(readiness.n, 'evaluation')}** are ready for "
        f"fine-tuning, {wording.count(readiness.n_preference)} for preference pairs."
    )


def blockers(watch: BiasWatch) -> dict[Blocker, tuple[int, int]]:
    """Return, by blocker, how many evaluations it holds back, and how many of these no other blocker does.

    The second number is for fine-tuning where a blocker holds back both uses.
    """
    readiness = watch.readiness
    counted = {
        one.name: (one.n, one.n_alone) for one in (*readiness.preference_blockers, *readiness.sft_blockers)
    }
    return {name: counted[name] for name in BLOCKER_WORDS if counted.get(name, (0, 0))[0]}


def blocked_by(one: Evaluation) -> str:
    """Return the first blocker of an evaluation and the number of others as plain text; "ready" without any."""
    names = dict.fromkeys((*one.sft_blockers, *one.preference_blockers))
    if not names:
        return "ready"
    first, *others = (BLOCKER_WORDS[name] for name in names)
    return f"{first} +{len(others)}" if others else first


def judged(one: Evaluation, layers: Mapping[str, str]) -> str:
    """Return the judged object as plain text; ``layers`` are the known names of layers by their uid."""
    subject = one.subject
    if subject.layer:
        name = wording.cut_middle(wording.plain(layers.get(subject.layer, "a layer without a name")), 22)
        return f"an answer of {name}" if subject.execution else name
    if subject.execution and not subject.run:
        return "one execution"
    if subject.arm:
        return wording.short_name(subject.arm)
    return "the run as a whole"


def layer_names(report: LayersView) -> dict[str, str]:
    """Return the names of layers that a description gave, by uid."""
    return {one.uid: one.label for one in report.judged if one.label}


def _short(uid: str) -> str:
    """
    >>> _short("00000dd0-1111-4222-8333-000001ab4530"), _short("short")
    ('00000dd0…4530', 'short')
    """
    return uid if len(uid) <= 14 else f"{uid[:8]}…{uid[-4:]}"


def beside_rest(report: AgreementReport) -> dict[str, list[object]]:
    """Return each grader beside the others, as a table of plain text."""
    rows = report.graders
    hits = {one.grader: one.result for one in report.models}
    return {
        "rater": [wording.plain(grader_name(one.grader)) for one in rows],
        "items shared": [one.agreement.n_items for one in rows],
        "alpha": [figure(one.agreement.alpha) for one in rows],
        "95% interval": [span(one.agreement) for one in rows],
        "in words": [one.agreement.word or alpha_words(one.agreement) for one in rows],
        "weight": [figure(one.weight) for one in rows],
        "as people say": [
            wording.percent(hits[one.grader].hits.value if one.grader in hits else None, 0) for one in rows
        ],
    }


def each_two(report: AgreementReport) -> dict[str, list[object]]:
    """Return each two graders, as a table of plain text."""
    return {
        "rater": [wording.plain(grader_name(one.grader)) for one in report.pairs],
        "and": [wording.plain(grader_name(one.other)) for one in report.pairs],
        "items shared": [one.agreement.n_items for one in report.pairs],
        "alpha": [figure(one.agreement.alpha) for one in report.pairs],
        "95% interval": [span(one.agreement) for one in report.pairs],
        "same outcome": [wording.percent(one.agreement.raw, 0) for one in report.pairs],
    }


LAYERS: Final[Table[JudgedLayer]] = Table(
    layer=text("layer", lambda one: one.label or _short(one.uid), width=130),
    quality=Field(
        "quality",
        lambda one: wording.signed_minus(f"{one.quality:,.1f}"),
        "number",
        width=76,
        explained="The sum of the layer's judgements: successes add to it, failures take from it",
    ),
    judged=count("judged", lambda one: one.n_judged, width=66),
    success=Field(
        "success",
        lambda one: wording.percent(one.successes / one.n_judged if one.n_judged else None, 0),
        "number",
        width=70,
    ),
    head=text(
        "head",
        lambda one: "itself" if one.is_head else _short(one.head) if one.head else "none",
        width=116,
        explained="The layer that a judgement of this one is passed on to",
    ),
    adapter=text(
        "adapter",
        lambda one: one.adapter_name or one.adapter,
        width=110,
        explained="The adapter that the layer belongs to",
    ),
    last=time("last judged", lambda one: one.rated_ms, wording.MISSING, width=128),
    by=text("by", lambda one: one.rater, UNNAMED, width=100, explained="Who judged it last"),
    id=text("id", lambda one: one.uid, width=280),
)


def shown_of(n_shown: int, n_all: int) -> Words:
    """Return how much of a list is shown; empty for all of it."""
    return Words("" if n_shown == n_all else f"the first {wording.count(n_shown)} of {wording.count(n_all)}")


def names(listed: Sequence[str]) -> str:
    """Return foreign names as a list in Markdown."""
    return wording.listed([wording.literal(one) for one in listed])
