"""Tables of environments, their episodes and steps, and models that are compared by what environments paid them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from core.explained.table import Field, Table, count, number, text
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.environment import EnvironmentSummary, ModelPair, ModelSummary, SuccessRate
    from core.records.episode_page import EpisodeRow, StepView
    from core.records.estimate import Estimate

_UNPAID: Final = "none paid"
_SUCCESS: Final = {True: "yes", False: "no", None: "not known"}

EPISODES: Final[Table[EpisodeRow]] = Table(
    uid=text("episode", lambda one: one.uid),
    environment=text("environment", lambda one: one.environment),
    task=text("task", lambda one: one.task),
    model=text("model", lambda one: one.model),
    at=text("began, UTC", lambda one: (iso(one.place.at_ms) or "")[:16].replace("T", " ")),
    status=text("status", lambda one: one.status),
    n_steps=count("steps", lambda one: one.n_steps),
    total=number("total", lambda one: one.total, missing=_UNPAID),
    success=text("success", lambda one: _SUCCESS[one.success]),
)


def _between(estimate: Estimate) -> str:
    if estimate.lower is None or estimate.upper is None:
        return ""
    return f"{estimate.lower:.4g} to {estimate.upper:.4g}"


def _rate(rate: SuccessRate | None) -> float | None:
    return None if rate is None else rate.rate


def _rate_between(rate: SuccessRate | None) -> str:
    if rate is None or rate.lower is None or rate.upper is None:
        return ""
    return f"{rate.lower:.0%} to {rate.upper:.0%}"


ENVIRONMENTS: Final[Table[EnvironmentSummary]] = Table(
    environment=text("environment", lambda one: one.environment),
    n=count("episodes", lambda one: one.n),
    without_reward=count("unpaid", lambda one: one.without_reward),
    broken=count("broken", lambda one: one.broken),
    average=number("average", lambda one: one.average.value, ".4g", _UNPAID),
    average_interval=text("95% of average", lambda one: _between(one.average)),
    success=number("success", lambda one: _rate(one.success), ".0%"),
    success_interval=text("95% interval", lambda one: _rate_between(one.success)),
    threshold=text("above", lambda one: f"{one.scale.threshold:g} ({one.scale.base})"),
    scale=text(
        "scale",
        lambda one: f"{one.scale.lo:g} to {one.scale.hi:g}{'' if one.declared else ' (usual)'}",
    ),
    pattern=text("pattern", lambda one: ", ".join(one.pattern)),
)


def _notes(step: StepView) -> Iterator[str]:
    if step.finished:
        yield "finished"
    if step.refused:
        yield "refused"
    if step.out_of_scale:
        yield "out of scale"
    if step.same_as is not None:
        yield f"same action as step {step.same_as}"
    if step.note is not None:
        yield step.note


STEPS: Final[Table[StepView]] = Table(
    number=Field("step", lambda one: str(one.number), "count"),
    name=text("what", lambda one: one.name or one.kind),
    reward=number("reward", lambda one: one.reward, missing="none"),
    running=number("so far", lambda one: one.running),
    notes=text("", lambda one: ", ".join(_notes(one))),
)
MODELS: Final[Table[ModelSummary]] = Table(
    model=text("model", lambda one: one.model),
    n=count("episodes", lambda one: one.n),
    n_tasks=count("tasks", lambda one: one.n_tasks),
    average=number("average", lambda one: one.average.value, ".4g", _UNPAID),
    average_interval=text("95% of average", lambda one: _between(one.average)),
    success=number("success", lambda one: _rate(one.success), ".0%"),
)


def model_pairs(compared: str) -> Table[ModelPair]:
    """Return the table of pairs of models, compared by reward or success."""
    return Table(
        pair=text(f"difference in {compared}", lambda one: f"{one.one} - {one.other}"),
        n_tasks=count("common tasks", lambda one: one.n_tasks),
        difference=number("difference", lambda one: one.difference.value, "+.4g"),
        difference_interval=text("95% interval", lambda one: _between(one.difference)),
        adjusted=number("p (Holm)", lambda one: one.adjusted, ".3g"),
        verdict=text("", lambda one: one.verdict),
    )
