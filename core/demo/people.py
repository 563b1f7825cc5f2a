"""People: acts of operators and raters, and their times. Some are written here, some follow from the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Final

import numpy as np

from core.demo.agent import DemoRun
from core.demo.world import (
    ACTIVE_FROM_MS,
    BASELINE_RATE,
    BASELINE_RATE_FIRST,
    BUDGET_TOKENS,
    END_MS,
    LEARNER,
    MAX_ARMS,
    PRICES,
    RATE_RAISED_MS,
    START_MS,
    TESTED,
    TOOLS_RESET_MS,
    at,
)
from core.errors import NotApplicable, UnknownAct, UnknownArm
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.experiments import start_experiment, stop_experiment
from core.flows.settings import change
from core.flows.upload import ReceivedFile, import_uploaded
from core.records.actor import Actor
from core.records.arm import ArmType, arm_type
from core.records.evaluation import EvaluationOrder, EvaluationOutcome
from core.records.observation import RewardOutcome
from core.records.times import DAY_MS, HOUR_MS, MINUTE_MS

AGENT: Final = Actor(name=LEARNER, role="ingest")
MARA: Final = Actor(name="Mara", role="operator")
JON: Final = Actor(name="Jon", role="operator")
PRIYA: Final = Actor(name="Priya", role="reviewer")

_BOTCHED: Final = "half an answer"

_PROB_JUDGED: Final = 0.055
_PROB_CORRECTS: Final = 0.08
_PROB_PARTIAL: Final = 0.1
_TYPICAL_LAG_MS: Final = 4 * HOUR_MS
_LAG_SPREAD: Final = 1.6
_LAG_LIMITS_MS: Final = (4 * MINUTE_MS, 4 * DAY_MS)
_RATERS: Final = ((MARA, 0.45), (PRIYA, 0.35), (JON, 0.20))
_CARELESS: Final = JON
_OFFHAND: Final = ("ok", "fine", "+1", "no", "meh", None)

_WORDS: Final[dict[tuple[ArmType, bool], tuple[str, ...]]] = {
    ("tool", True): (
        "Right tool, right moment.",
        "Without this call the answer would have been a guess.",
        "It checked before it changed anything.",
    ),
    ("tool", False): (
        "Offered, and not needed.",
        "A plain question; no call was called for.",
        "Would only have slowed this down.",
    ),
    ("skill", True): (
        "Followed the checklist to the end.",
        "Found what two of us had overlooked.",
        "The customer got exactly the format we agreed on.",
    ),
    ("skill", False): (
        "Not what this ticket was about.",
        "It ignored the second half of the instructions.",
        "We do this by hand since the spring.",
    ),
    ("file", True): (
        "The line it quoted settled the question.",
        "Saved me looking it up.",
        "The right section, and still current.",
    ),
    ("file", False): (
        "Out of date, and long.",
        "Has nothing to do with this customer.",
        "It was never opened.",
    ),
    ("memory", True): (
        "Good that it remembered.",
        "The customer noticed, and was pleased.",
        "Exactly the exception we keep forgetting.",
    ),
    ("memory", False): (
        "Retried a 429 that was a quota error, cost 40 s.",
        "True once, not any more.",
        "Correct, and beside the point.",
    ),
    ("section", True): ("The answer kept to it.", "Short and in the agreed order."),
    ("section", False): ("The answer did not keep to it.",),
}
TRIALS: Final = (
    (JON, "skill:code-review:main", 0.45),
    (MARA, "memory:preference:reply-in-german", -0.45),
)
"""Person, arm, and what it adds to the share of runs that solve a task; they change nothing in the story's runs."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Reward an arm by hand: in ``run``, else in the latest observed run with this ``was_used``, else in no run.

    ``correct`` replaces the observation of the detector.
    """

    arm: str
    reason: str | None
    outcome: RewardOutcome
    run: str | None = None
    was_used: bool | None = None
    correct: bool = False
    name: str | None = None
    """For an undo to refer to."""


@dataclass(frozen=True, kw_only=True)
class InRun:
    """Judge an arm in the latest observed run that did (or didn't) use it, or that run as a whole."""

    arm: str
    outcome: EvaluationOutcome
    score: float
    was_used: bool = True
    is_whole: bool = False
    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Judge several things at once; in runs by a ``rubric``."""

    orders: tuple[EvaluationOrder, ...] = ()
    in_runs: tuple[InRun, ...] = ()
    rubric: str | None = None
    name: str | None = None
    """For an undo to refer to, which takes back the last."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """An act of a person at a time: a flow, what needs the runs before it, or the name of what is undone."""

    at_ms: int
    actor: Actor
    does: Callable[[Context], object] | Judge | Evaluate | str


def brought(name: str, content: bytes) -> Callable[[Context], object]:
    """Return the import of a file."""
    file = ReceivedFile(name=name, size_bytes=len(content), content=BytesIO(content))
    return partial(import_uploaded, files=[file], at_most_bytes=len(content))


def _in_a_full_world(flow: Callable[[Context], object]) -> Callable[[Context], object]:
    """Return the act of an experiment, which a world of few runs leaves out."""

    def does(context: Context) -> None:
        with suppress(NotApplicable, UnknownAct, UnknownArm):
            flow(context)

    return does


STORY: Final = (
    Act(at_ms=START_MS, actor=JON, does=partial(change, name="phase", value="passive")),
    Act(at_ms=START_MS, actor=JON, does=partial(change, name="prices", value=PRICES)),
    Act(
        at_ms=ACTIVE_FROM_MS,
        actor=JON,
        does=partial(reset, types=(), target="prior", reason="Start of the active phase"),
    ),
    Act(
        at_ms=ACTIVE_FROM_MS, actor=JON, does=partial(change, name="baseline_rate", value=BASELINE_RATE_FIRST)
    ),
    Act(at_ms=ACTIVE_FROM_MS, actor=JON, does=partial(change, name="budget_tokens", value=BUDGET_TOKENS)),
    Act(at_ms=ACTIVE_FROM_MS, actor=JON, does=partial(change, name="k", value=MAX_ARMS)),
    Act(at_ms=ACTIVE_FROM_MS, actor=JON, does=partial(change, name="phase", value="active")),
    Act(at_ms=RATE_RAISED_MS, actor=JON, does=partial(change, name="baseline_rate", value=BASELINE_RATE)),
    *(
        Act(
            at_ms=at(3, hour, 40),
            actor=MARA,
            does=Judge(
                arm=arm,
                outcome="accepted",
                was_used=True,
                correct=True,
                reason="The call is in the log; the detector missed it.",
            ),
        )
        for hour, arm in ((9, "tool:fs:Read"), (10, "tool:exec:Bash"), (15, "tool:fs:Grep"))
    ),
    Act(
        at_ms=TOOLS_RESET_MS,
        actor=MARA,
        does=partial(
            reset,
            types=("tool",),
            target="uniform",
            reason="The new gateway prefixed tool names, so the detector saw no call for two days",
        ),
    ),
    Act(
        at_ms=at(2, 9, 30),
        actor=MARA,
        does=_in_a_full_world(partial(start_experiment, arm=TESTED, smallest=25.0)),
    ),
    Act(
        at_ms=at(18, 14, 3),
        actor=MARA,
        does=Judge(arm="file:workspace:CHANGELOG.md", outcome="rejected", reason="stale since August"),
    ),
    Act(
        at_ms=at(18, 15),
        actor=MARA,
        does=_in_a_full_world(partial(stop_experiment, experiment=TESTED, decision="keep")),
    ),
    Act(
        at_ms=at(19, 17, 20),
        actor=PRIYA,
        does=Judge(arm="tool:web:web_search", outcome="partial", reason=_BOTCHED, name=_BOTCHED),
    ),
    Act(at_ms=at(19, 17, 24), actor=PRIYA, does=_BOTCHED),
    Act(
        at_ms=at(19, 17, 55),
        actor=PRIYA,
        does=Judge(
            arm="tool:web:web_search",
            outcome="accepted",
            was_used=False,
            correct=True,
            reason="It did search, through a link that the detector can't follow.",
        ),
    ),
    Act(
        at_ms=at(20, 9, 12),
        actor=MARA,
        does=Judge(
            arm="skill:code-review:main", outcome="accepted", was_used=True, reason="caught the off-by-one"
        ),
    ),
)


def later_judgements(runs: Sequence[DemoRun], rng: np.random.Generator) -> list[Act]:
    """Return the raters' judgements of observed runs, minutes to days later."""
    acts = []
    for one in runs:
        if rng.random() < _PROB_JUDGED:
            act = _judgement(one, rng)
            if act.at_ms < END_MS:
                acts.append(act)
    return acts


def _judgement(run: DemoRun, rng: np.random.Generator) -> Act:
    """One rater on one arm. The careless one doesn't look; the others saw whether it was used, and hold it
    useful or not accordingly, now and then half useful. A correction says the opposite of what was recorded.
    """
    keys = [arm.key for arm in run.run.inventory.arms if arm_type(arm.key) != "section" or rng.random() < 0.3]
    arm = keys[int(rng.integers(len(keys)))]
    actor = _RATERS[int(rng.choice(len(_RATERS), p=[share for _, share in _RATERS]))][0]
    ended_at_ms = run.run.ended_at_ms or START_MS
    acted_at_ms = ended_at_ms + _lag_ms(rng)
    if actor is _CARELESS:
        outcomes: tuple[RewardOutcome, ...] = ("accepted", "partial", "rejected")
        outcome = outcomes[int(rng.integers(len(outcomes)))]
        reason = _OFFHAND[int(rng.integers(len(_OFFHAND)))]
        return Act(
            at_ms=acted_at_ms,
            actor=actor,
            does=Judge(arm=arm, outcome=outcome, reason=reason, run=run.run.uid),
        )
    is_correction = bool(rng.random() < _PROB_CORRECTS)
    is_useful = (arm in run.used) != is_correction
    is_partial = not is_correction and rng.random() < _PROB_PARTIAL
    words = _WORDS[arm_type(arm), is_useful]
    judged = Judge(
        arm=arm,
        outcome="partial" if is_partial else "accepted" if is_useful else "rejected",
        reason=words[int(rng.integers(len(words)))],
        run=run.run.uid,
        correct=is_correction,
    )
    return Act(at_ms=acted_at_ms, actor=actor, does=judged)


def _lag_ms(rng: np.random.Generator) -> int:
    shortest, longest = _LAG_LIMITS_MS
    lag = _TYPICAL_LAG_MS * float(rng.lognormal(0.0, _LAG_SPREAD))
    return int(min(max(lag, shortest), longest))
