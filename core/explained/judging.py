"""Tables of judging: evaluations and the agreement of graders, queues, levels of a rubric, rubrics and browsers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from core.explained.table import Field, Row, Table, count, number, text, time
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows.queries import GraderAgainstRest
    from core.maths.statistics.agreement import Agreement, NoAgreement
    from core.records.browser import BrowserRow
    from core.records.evaluation_page import Evaluation, Grader
    from core.records.review import Level, QueueRow, RubricRow

_WHY: Final[dict[NoAgreement, str]] = {
    "no_pairs": "nothing was judged by two",
    "no_variation": "undefined: all say the same",
    "few_items": "",
}

QUEUES: Final[Table[QueueRow]] = Table(
    id=text("queue", lambda one: one.progress.queue),
    name=text("name", lambda one: one.progress.name),
    done=Field("done", lambda one: f"{one.progress.done:,} of {one.progress.total:,}", "count"),
    open=count("open", lambda one: one.progress.open),
    skipped=count("skipped", lambda one: one.progress.set_aside),
    held=count("held", lambda one: one.progress.held_by_others),
    left=count("left for you", lambda one: one.progress.left_for_me),
    rubric=text("rubric", lambda one: one.rubric, "none"),
    due=text("due", lambda one: "overdue" if one.overdue else iso(one.due_ms), "no date"),
)
LEVELS: Final[Table[tuple[int, Level]]] = Table(
    number=count("level", lambda one: one[0]),
    words=text("words", lambda one: one[1].words),
    outcome=text("outcome", lambda one: one[1].outcome),
    score=number("score", lambda one: one[1].score),
)
RUBRICS: Final[Table[RubricRow]] = Table(
    id=text("rubric", lambda one: one.id),
    version=text("version", lambda one: one.rubric.version, width=96),
    title=text("title", lambda one: one.rubric.title, width=250),
    levels=text(
        "levels",
        lambda one: ", ".join(f"{n} {level.words}" for n, level in enumerate(one.rubric.levels, 1)),
        width=370,
    ),
    n_judged=count("judged by it", lambda one: one.n_judged, width=86),
)
DEFINED_RUBRICS: Final[Table[RubricRow]] = RUBRICS.plus(
    at=time("when", lambda one: one.at_ms, width=112),
    by=text("by", lambda one: one.by, width=90),
    criteria=count("criteria", lambda one: len(one.rubric.criteria), width=66),
).only("at", "by", "version", "title", "levels", "criteria", "n_judged")
BROWSERS: Final[Table[BrowserRow]] = Table(
    browser=text("browser", lambda one: one.browser),
    name=text("counts as", lambda one: one.name if one.id else f"{one.person}, not signed in"),
    confirmed=text("confirmed by", lambda one: None if one.id is None else f"{one.by} ({one.id})"),
    n_judged=count("judgements", lambda one: one.n_judged),
    last=time("latest", lambda one: one.last_ms),
)


def grader_name(grader: Grader) -> str:
    """Return the name of a grader, and whether it is a model."""
    if grader.kind == "unknown":
        return "not named"
    return f"{grader.name} (model)" if grader.kind == "model" else grader.name


def _ready(one: Evaluation) -> str:
    uses = (("sft", one.sft_blockers), ("preference", one.preference_blockers))
    return ", ".join(name for name, blockers in uses if not blockers) or "nothing"


EVALUATIONS: Final[Table[Evaluation]] = Table(
    id=Field("evaluation", lambda one: one.id.rpartition("-")[2], "count"),
    subject=text("of", lambda one: one.subject.uri),
    outcome=text("outcome", lambda one: one.outcome),
    score=number("score", lambda one: one.score, missing="none"),
    label=text("label", lambda one: one.label),
    grader=text("grader", lambda one: grader_name(one.grader)),
    rubric=text("rubric", lambda one: one.rubric, "none"),
    ready=text("ready for", _ready),
    state=text("state", lambda one: one.state),
)


def _interval(one: Agreement) -> str:
    if one.alpha is None:
        return "none"
    return (
        "too few items" if one.lower is None or one.upper is None else f"{one.lower:.2f} to {one.upper:.2f}"
    )


def _word(one: Agreement) -> str:
    return _WHY[one.missing or "no_pairs"] if one.alpha is None else one.word or "too few to say"


def _agreed(of: Callable[[Row], Agreement]) -> dict[str, Field[Row]]:
    return {
        "alpha": number("alpha", lambda one: of(one).alpha, ".2f", "none"),
        "interval": text("95% interval", lambda one: _interval(of(one))),
        "word": text("in words", lambda one: _word(of(one))),
        "raw": number("same answer", lambda one: of(one).raw, ".0%", "none"),
    }


AGREEMENTS: Final[Table[tuple[str, Agreement]]] = Table(
    name=text("on", lambda one: one[0]), **_agreed(lambda one: one[1])
)
GRADERS: Final[Table[GraderAgainstRest]] = Table(
    grader=text("grader", lambda one: grader_name(one.grader)),
    **_agreed(lambda one: one.agreement),
    weight=number("weight", lambda one: one.weight, ".2f", "unknown"),
)
