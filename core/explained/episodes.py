"""Tables of environments, their episodes and steps, and models that are compared by what environments paid them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from core.explained.table import Field, Table, count, minute, number, text

if TYPE_CHECKING:
    from core.records.environment import EnvironmentSummary, ModelPair, ModelSummary, SuccessRate
    from core.records.episode_page import EpisodeRow, StepView
    from core.records.estimate import Estimate

_UNPAID: Final = "none paid"
_SUCCESS: Final = {True: "✓ success", False: "× no success", None: "– unknown"}


def _between(one: Estimate | SuccessRate | None, form: str = ".4g") -> str:
    if one is None or one.lower is None or one.upper is None:
        return ""
    return f"{one.lower:{form}} to {one.upper:{form}}"


def _rate(rate: SuccessRate | None) -> float | None:
    return None if rate is None else rate.rate


ENVIRONMENTS: Final[Table[EnvironmentSummary]] = Table(
    environment=text("environment", lambda one: one.environment, width=158),
    n=count("episodes", lambda one: one.n, width=74),
    without_reward=count("unpaid", lambda one: one.without_reward),
    broken=count("broken", lambda one: one.broken),
    success=number("success", lambda one: _rate(one.success), ".0%", width=72),
    success_interval=text("95% interval", lambda one: _between(one.success, ".0%"), width=96),
    average=number("average", lambda one: one.average.value, ".4g", _UNPAID, width=76),
    average_interval=text("95% of average", lambda one: _between(one.average), width=124),
    pattern=text("reward", lambda one: ", ".join(one.pattern), width=182),
    threshold=text("above", lambda one: f"{one.scale.threshold:g} ({one.scale.base})"),
    scale=text(
        "scale",
        lambda one: f"{one.scale.lo:g} to {one.scale.hi:g}{'' if one.declared else ' (usual)'}",
        width=100,
    ),
)


def _outcome(one: EpisodeRow) -> str:
    words = _SUCCESS[one.success]
    return words if one.status == "finished" else f"{words}, {one.status}"


EPISODES: Final[Table[EpisodeRow]] = Table(
    at=minute("began", lambda one: one.place.at_ms, "", width=122),
    uid=text("episode", lambda one: one.uid, width=214),
    environment=text("environment", lambda one: one.environment, width=150),
    task=text("task", lambda one: one.task, width=90),
    model=text("model", lambda one: one.model, width=120),
    n_steps=count("steps", lambda one: one.n_steps, width=62),
    total=number("total", lambda one: one.total, missing=_UNPAID, width=76),
    outcome=text("came to", _outcome, width=156),
    split=text("split", lambda one: one.split, width=80),
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


def _line(words: str | None) -> str:
    return " ".join((words or "")[:200].split())


STEPS: Final[Table[StepView]] = Table(
    number=Field("step", lambda one: str(one.number), "count", width=70),
    name=text("what", lambda one: one.name or one.kind, width=210),
    kind=text("answered", lambda one: one.kind, width=128),
    reward=number("reward", lambda one: one.reward, missing="none", width=84),
    running=number("so far", lambda one: one.running, width=84),
    notes=text("state", lambda one: ", ".join(_notes(one)), width=226),
    request=text("asked", lambda one: _line(one.asked), width=200),
    answered=text("answered with", lambda one: _line(one.answered), width=200),
    at=Field("at", lambda one: one.at or "", "time", width=112),
    n_chars_in=count("characters in", lambda one: one.n_chars_in, width=104),
    n_chars_out=count("characters out", lambda one: one.n_chars_out, width=108),
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
