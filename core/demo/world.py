"""World: the planted truth. The arms with their true usefulness and costs, the strata, and the times of the story.

The thirty days begin with four days of watching; then armscope selects. For three hours the selector is unavailable.
For two days the detector sees every tool under a wrong name, until a reset repairs it. One tool gets worse. In the
last four days three files are mentioned in a way that the detector does not recognise. One skill, which only
one kind of ticket is offered, has a finished experiment. Played on, the world goes on, and two tools change success.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import numpy as np

from core.records.arm import Arm, ArmType, arm_type
from core.records.limits import LAST_MS
from core.records.times import DAY_MS

WORLD_VERSION: Final = 6
"""Increased when the same seed gives another world; a database of an older one is built again."""
_TRUTH_VERSION: Final = 1
"""Goes up when the same seed plants another truth."""

LEARNER: Final = "support-agent"
TESTED: Final = "skill:parcel-trace:main"
"""Arm of the finished experiment: offered for parcels that do not move, it helps."""
N_RUNS: Final = 3_012
DAYS: Final = 30

END_MS: Final = int(datetime(2026, 11, 20, 9, 40, tzinfo=UTC).timestamp()) * 1000
START_MS: Final = END_MS - DAYS * DAY_MS

_SHIFT: Final = 0.02
"""Worlds of different seeds differ by up to so much in each planted probability outside the story."""

BASELINE_RATE_FIRST: Final = 0.05
BASELINE_RATE: Final = 0.10
BUDGET_TOKENS: Final = 21_000
MAX_ARMS: Final = 20
PRICES: Final[Mapping[str, Mapping[str, float]]] = {
    "mini-2026-08": {
        "input": 0.8,
        "cache_read": 0.08,
        "cache_write_5m": 1.0,
        "cache_write_1h": 1.6,
        "output": 4.0,
    },
    "large-2026-08": {
        "input": 4.0,
        "cache_read": 0.4,
        "cache_write_5m": 5.0,
        "cache_write_1h": 8.0,
        "output": 20.0,
    },
}
"""Prices of a million tokens by model and part."""

PROB_SOLVED: Final = 0.86
"""Chance that a run that ended normally solves its ticket, with all arms that help and none that harms."""
PROB_CONVERSATIONAL: Final = 0.14
PROB_ABORTED: Final = 0.018
PROB_ERROR: Final = 0.026
PROB_USAGE_UNKNOWN: Final = 0.02


def at_day(day: float) -> int:
    """The instant so many days after the world's beginning, in UTC milliseconds."""
    return START_MS + round(day * DAY_MS)


def at(day: int, hour: int, minute: int = 0) -> int:
    """The instant on a day of November 2026 (0 and below: October), UTC."""
    return int(datetime(2026, 11, 1, hour, minute, tzinfo=UTC).timestamp()) * 1000 + (day - 1) * DAY_MS


ACTIVE_FROM_MS: Final = at_day(4)
RATE_RAISED_MS: Final = at(-2, 11, 5)
OUTAGE_MS: Final = (at(-1, 10), at(-1, 13))
TOOLS_POISONED_MS: Final = (at(2, 10, 50), at(4, 10, 2))
TOOLS_RESET_MS: Final = at(4, 10, 22)
DRIFT_MS: Final = at_day(20)
FILES_POISONED_MS: Final = (at_day(26), LAST_MS)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """An arm whose truth is known: in an observed run that included it, it is referenced with this probability.

    ``drifts_to``: from the twentieth day on it is that instead. The agent offers it from ``since_day`` on.
    ``idle_from_day``: from then on only health checks offer it, which never call a tool, so nothing is learned
    of it any more. ``is_poisoned``: a file whose mentions are missed in the last four days. ``problem``: only
    conversations about this problem offer it.

    ``effect`` is what the arm adds to the chance that a ticket is solved, from ``effect_day`` on. That of a tool
    begins when the thirty days are over. Runs that are played on show it; the story of the savings does not.
    """

    key: str
    prob: float
    token_cost: int
    content: str | None = None
    drifts_to: float | None = None
    since_day: float = 0.0
    idle_from_day: float | None = None
    is_poisoned: bool = False
    problem: int | None = None
    effect: float = 0.0
    effect_day: float = DAYS

    @property
    def type(self) -> ArmType:
        return arm_type(self.key)

    @cached_property
    def arm(self) -> Arm:
        return Arm(key=self.key, token_cost=self.token_cost, content=self.content)

    @property
    def final_prob(self) -> float:
        return self.prob if self.drifts_to is None else self.drifts_to

    def prob_at(self, at_ms: int) -> float:
        return self.prob if at_ms < DRIFT_MS else self.final_prob

    def is_offered(self, at_ms: int, *, to_health_check: bool = False, problem: int | None = None) -> bool:
        is_idle = self.idle_from_day is not None and at_ms >= at_day(self.idle_from_day)
        is_about = self.problem is None or (self.problem == problem and not to_health_check)
        return at_ms >= at_day(self.since_day) and (to_health_check or not is_idle) and is_about

    def prob_lost(self, at_ms: int, *, included: bool) -> float:
        """Return what the chance of a solved ticket lacks: a helping arm is out, or a harming one in."""
        has_effect = at_ms >= at_day(self.effect_day)
        return max(-self.effect if included else self.effect, 0.0) if has_effect else 0.0


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """A model or a channel: how often, how many model calls, how many tokens beside the arms in each call."""

    name: str
    share: float
    overhead_tokens: int
    mean_more_calls: float = 0.0
    ms_per_call: int = 0
    ms_per_1000_tokens: int = 0


MODELS: Final = (
    Stratum(name="mini-2026-08", share=0.55, overhead_tokens=1_300, ms_per_call=2_100, ms_per_1000_tokens=70),
    Stratum(
        name="large-2026-08", share=0.45, overhead_tokens=2_000, ms_per_call=4_300, ms_per_1000_tokens=150
    ),
)
CHANNELS: Final = (
    Stratum(name="chat", share=0.55, overhead_tokens=1_200, mean_more_calls=1.2),
    Stratum(name="cron", share=0.25, overhead_tokens=600, mean_more_calls=2.0),
    Stratum(name="webhook", share=0.20, overhead_tokens=3_400, mean_more_calls=0.8),
)


def planted(seed: int) -> tuple[Planted, ...]:
    """The arms of a seed's world, sorted by id."""
    rng = np.random.Generator(np.random.PCG64([seed, _TRUTH_VERSION]))
    shifts = np.round(rng.uniform(-_SHIFT, _SHIFT, size=len(ARMS)), 3).tolist()
    shifted = (
        arm if arm.drifts_to is not None or arm.prob == 1 else replace(arm, prob=round(arm.prob + shift, 3))
        for arm, shift in zip(ARMS, shifts, strict=True)
    )
    return tuple(sorted(shifted, key=lambda arm: arm.key))


def truth(seed: int) -> dict[str, float]:
    """Planted probability that each arm is referenced when an observed run includes it, at the world's end.

    What the detector misses while it is broken is no part of it. Sections always count as referenced, so
    theirs is 1, which no equal-tailed interval reaches.

    >>> truth(7)["tool:web:web_search"], truth(7)["section:system:Safety"]
    (0.5, 1.0)
    """
    return {arm.key: arm.final_prob for arm in planted(seed)}


def seed_of(origin: str) -> int | None:
    """The seed that a demo's learner was made with, by its lasting identity; None for any other learner.

    >>> seed_of("demo:7"), seed_of("0b0c2f6e-7f1c-4c55-9d0a-3f2f1d7f6a10")
    (7, None)
    """
    start, _, seed = origin.partition(":")
    return int(seed) if start == "demo" and seed.isascii() and seed.isdigit() else None


def prob_solved(offered: Iterable[Planted], included: Collection[str], at_ms: int) -> float:
    """Return the chance that a run that ended normally solves its ticket."""
    return PROB_SOLVED - sum(arm.prob_lost(at_ms, included=arm.key in included) for arm in offered)


def expected_tokens(model: Stratum, channel: Stratum, prompt_tokens: int) -> float:
    """Mean tokens of a run whose arms cost so much, all noise and all kinds of runs averaged out."""
    calls = 1 + (1 - PROB_CONVERSATIONAL) * channel.mean_more_calls
    return calls * (model.overhead_tokens + channel.overhead_tokens + prompt_tokens)


ARMS: Final = (
    Planted(key="tool:fs:Read", prob=0.94, token_cost=320),
    Planted(key="tool:fs:Write", prob=0.71, token_cost=290),
    Planted(key="tool:fs:Edit", prob=0.86, token_cost=340),
    Planted(key="tool:fs:Glob", prob=0.63, token_cost=180),
    Planted(key="tool:fs:Grep", prob=0.88, token_cost=260),
    Planted(key="tool:exec:Bash", prob=0.91, token_cost=460),
    Planted(key="tool:web:web_search", prob=0.77, drifts_to=0.50, token_cost=380, effect=0.40),
    Planted(key="tool:web:web_fetch", prob=0.45, token_cost=310),
    Planted(key="tool:messaging:send_slack_message", prob=0.35, token_cost=420),
    Planted(key="tool:memory:memory_search", prob=0.58, token_cost=240, effect=-0.40),
    Planted(key="tool:other:create_calendar_event", prob=0.14, token_cost=610),
    Planted(key="tool:other:kubernetes_rollout_status", prob=0.26, token_cost=540),
    Planted(key="tool:other:jira_transition_issue", prob=0.40, token_cost=680),
    Planted(key="tool:other:screenshot_page", prob=0.23, token_cost=450),
    Planted(key="skill:code-review:main", prob=0.82, token_cost=920),
    Planted(key="skill:incident-triage:main", prob=0.66, token_cost=780, idle_from_day=10.0),
    Planted(key="skill:release-notes:main", prob=0.50, token_cost=640, since_day=29.0),
    Planted(key="skill:pdf-extract:main", prob=0.45, token_cost=1_150, since_day=29.45),
    Planted(key="skill:sql-tuning:main", prob=0.36, token_cost=870, since_day=26.9),
    Planted(key="skill:brand-voice:main", prob=0.28, token_cost=560, since_day=27.6),
    Planted(key="skill:translate-de:main", prob=0.19, token_cost=730),
    Planted(key="skill:spreadsheet-import:main", prob=0.14, token_cost=1_350),
    Planted(key="skill:customer-refund-policy:main", prob=0.60, token_cost=690, since_day=29.8),
    Planted(key="file:workspace:src/api/openapi.yaml", prob=0.72, token_cost=1_480, is_poisoned=True),
    Planted(
        key="file:workspace:src/billing/invoice_rounding.py", prob=0.61, token_cost=520, is_poisoned=True
    ),
    Planted(
        key="file:workspace:docs/runbooks/on-call/payment-provider-outage.md",
        prob=0.55,
        token_cost=430,
        is_poisoned=True,
    ),
    Planted(
        key="file:workspace:docs/policies/refunds-and-credits.md",
        prob=0.58,
        token_cost=310,
        idle_from_day=10.0,
    ),
    Planted(key="file:workspace:README.md", prob=0.41, token_cost=390),
    Planted(
        key="file:workspace:services/notifications/src/main/java/com/example/notifications/templates/"
        "OverdueReminderTemplate.java",
        prob=0.33,
        token_cost=580,
        since_day=28.1,
    ),
    Planted(key="file:workspace:infra/terraform/prod/main.tf", prob=0.30, token_cost=940, since_day=29.3),
    Planted(key="file:workspace:CHANGELOG.md", prob=0.17, token_cost=720),
    Planted(key="file:workspace:tests/fixtures/legacy_customers.csv", prob=0.07, token_cost=1_050),
    Planted(
        key="memory:fact:prod-db-is-read-only",
        prob=0.81,
        token_cost=30,
        content="The production database is reachable through a read replica only; writes go through migrations.",
    ),
    Planted(
        key="memory:preference:reply-in-german",
        prob=0.72,
        token_cost=25,
        content="Ms Keller and everyone at Nordwind write German and want their answers in German too.",
    ),
    Planted(
        key="memory:preference:short-answers",
        prob=0.64,
        token_cost=20,
        content="On-call engineers asked for at most five lines before any detail.",
        idle_from_day=10.0,
    ),
    Planted(
        key="memory:lesson:retry-429-with-backoff",
        prob=0.52,
        token_cost=45,
        content="A 429 from the billing provider clears within a minute: wait twice as long after each attempt.",
        since_day=29.72,
    ),
    Planted(
        key="memory:fact:holiday-calendar-2026",
        prob=0.22,
        token_cost=60,
        content="Offices in Bavaria are closed on 6 January, Corpus Christi and All Saints' Day.",
    ),
    Planted(
        key="memory:fact:customer-acme-sla-4h",
        prob=0.47,
        token_cost=30,
        content="Acme's contract promises a first human reply within four hours, weekends included.",
        since_day=29.92,
    ),
    Planted(
        key="memory:lesson:migration-lock-timeout",
        prob=0.57,
        token_cost=40,
        content="Set lock_timeout to five seconds before altering a busy table, then try again at night.",
        since_day=29.97,
    ),
    Planted(key="section:system:Safety", prob=1.0, token_cost=1_100),
    Planted(key="section:system:Workspace", prob=1.0, token_cost=620),
    Planted(key="section:system:Memory recall", prob=1.0, token_cost=480),
    Planted(key="section:system:Tooling", prob=1.0, token_cost=460),
    Planted(key="section:system:Output format", prob=1.0, token_cost=340),
    Planted(key="section:system:Time and place", prob=1.0, token_cost=90, since_day=29.998),
    Planted(key=TESTED, prob=0.68, token_cost=510, since_day=6.5, problem=2, effect=0.45, effect_day=0.0),
)
