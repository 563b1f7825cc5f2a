"""Tables of arms: their cost and prior, versions, posteriors, those of a selection, and savings by model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from core.explained.arm import chance_of, judgement, loads
from core.explained.table import Field, Table, count, mean, minute, number, text, time_words
from core.records.savings_words import SHORT_VERDICTS, figure

if TYPE_CHECKING:
    from core.flows.queries import JudgedArm
    from core.maths.statistics.savings import Comparison
    from core.records.arm_summary import ArmVersion
    from core.records.judgement import JudgedPosterior, Judgement
    from core.records.selection import Decision


JUDGED: Final = (
    "The first that applies: poisoned, gave way to a rival, drifting, rising, stale, never referenced, always in, "
    "too early, or its interval against its break-even"
)
EFFECTIVE: Final = "Pulls after a discount for runs of one session, which resemble each other"
CHANCE: Final = "How likely the arm is picked, simulated on the latest runs with the packer that selects"

VERSIONS: Final[Table[ArmVersion]] = Table(
    version=text("version", lambda one: one.version),
    first=minute("first run", lambda one: one.first_ms),
    mean=mean("mean", lambda one: one.mean),
    interval=text("95% interval", lambda one: f"{one.interval.lower:.3f} to {one.interval.upper:.3f}"),
    runs=count("runs in full", lambda one: one.runs),
    referenced=count("used in", lambda one: one.referenced),
    named=count("by name", lambda one: one.named),
    pulls=count("pulls", lambda one: one.pulls),
    last=minute("last run", lambda one: one.last_ms),
)
DECISIONS: Final[Table[Decision]] = Table(
    included=text("", lambda one: "in" if one.included else "out"),
    arm=text("arm", lambda one: one.arm),
    reason=text("why", lambda one: one.reason.replace("_", " ")),
    rank=Field("rank", lambda one: str(one.rank), "count"),
    draw=number("draw", lambda one: one.draw, ".3f"),
    chance=number(
        "chance", lambda one: one.chance if isinstance(one.chance, float) else None, ".2%", "unknown"
    ),
    token_cost=count("tokens", lambda one: one.token_cost),
)
SAVINGS: Final[Table[Comparison]] = Table(
    model=text("model", lambda one: one.model, "unknown"),
    n_baseline=count("baseline", lambda one: one.n_compared[0]),
    n_selected=count("selected", lambda one: one.n_compared[1]),
    saved=text("savings", lambda one: figure(one.shown)),
    verdict=text("verdict", lambda one: SHORT_VERDICTS[one.verdict]),
)


def _effective(pulls: float | None) -> int | None:
    return None if pulls is None else round(pulls)


def _judged(judged: Judgement | None) -> str:
    """Return the judgement of an arm; None: it is no longer listed."""
    return "no longer listed" if judged is None else judgement(judged, since=time_words(judged.since_ms))


def arms(judged: Mapping[str, Judgement]) -> Table[JudgedArm]:
    """Return the table of arms with their judgements."""
    return Table(
        arm=text("arm", lambda one: one.arm),
        token_cost=count("tokens", lambda one: one.token_cost, "unknown"),
        prior=text("prior", lambda one: f"{one.prior.alpha:g}, {one.prior.beta:g}"),
        pulls=count("pulls", lambda one: one.pulls),
        effective=count("effective", lambda one: _effective(one.effective_pulls), "-"),
        loads=text("skill use", lambda one: loads(one.loaded_sessions, one.typed_sessions)),
        judgement=text("judgement", lambda one: _judged(judged.get(one.arm))),
    )


def posteriors(judged: Mapping[str, Judgement]) -> Table[JudgedPosterior]:
    """Return the table of posteriors with their judgements."""
    return Table(
        arm=Field("arm", lambda one: one.arm, "arm", width=182),
        mean=mean("mean", lambda one: one.mean, width=64),
        interval=Field(
            "95% interval",
            lambda one: f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            "number",
            width=88,
        ),
        judgement=text("judgement", lambda one: _judged(judged.get(one.arm)), width=252, explained=JUDGED),
        confidence=text("confidence", lambda one: one.confidence.replace("_", " "), width=104),
        pulls=count("pulls", lambda one: one.pulls, width=64),
        effective=count(
            "effective", lambda one: _effective(one.effective_pulls), "-", width=72, explained=EFFECTIVE
        ),
        inclusions=count("in runs", lambda one: one.inclusions, width=68),
        chance=Field("chance", chance_of, "share", width=76, explained=CHANCE),
    )
