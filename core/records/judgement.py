"""Judgement of an arm: one of a closed set of names, and its evidence."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.records.arm import Interval, Posterior
from core.records.observation import Source
from core.records.times import Moment

JudgementName = Literal[
    "poisoned",
    "rival",
    "drifting",
    "rising",
    "stale",
    "never_referenced",
    "section",
    "called_only",
    "seed",
    "too_early",
    "few_sessions",
    "worth",
    "not_worth",
    "open",
    "unopposed",
    "used_often",
    "used_seldom",
]
"""Names of judgements. The first that holds is reported:

- ``poisoned``: fell together with others of its type, to nothing or by one factor, as with a broken detector
- ``rival``: referenced less since another arm joined the prompt, where that one is in it
- ``drifting``: referenced less for some time; ``rising``: more
- ``stale``: still included, and not observed for long
- ``never_referenced``: referenced in none of at least 20 observed runs
- ``section``: counted as used whenever it is included, which proves nothing
- ``called_only``: its inventory was inferred from calls, so runs that did not call it are unknown
- ``seed``: always included by rule
- ``too_early``: fewer than 20 effective pulls, or not more than its prior weighs
- ``few_sessions``: observed in fewer than 10 sessions
- ``worth``, ``not_worth``: its full interval lies above, below the mean at which it breaks even at its cost;
  ``open``: it holds that mean, or one half where there is none
- ``unopposed``: it is included at any use, and its interval holds one half
- ``used_often``, ``used_seldom``: no break-even exists, and its full interval lies above, below one half
"""

JUDGEMENTS: Final[tuple[JudgementName, ...]] = get_args(JudgementName)

ALARMS: Final[frozenset[JudgementName]] = frozenset(
    {"poisoned", "rival", "drifting", "rising", "stale", "never_referenced"}
)
"""Those that the list of what needs a look names."""

ENOUGH_PULLS: Final = 20
"""An arm with fewer effective pulls is not judged by what it is worth."""

ENOUGH_SESSIONS: Final = 10
"""With fewer, how far runs of one session resemble each other can't be measured."""

NoBreakEven = Literal["always_in", "never_in", "not_offered", "unknown_cost", "excluded"]

Listing = Literal["listed", "unlisted"]
"""A list of all arms has the arm; or it has it no more, because an undo took back everything about it."""


class LimitInForce(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits of a selection, 0 = unlimited. ``share`` of the latest runs of a program had them."""

    budget_tokens: int
    k: int
    share: float


class RecentMean(msgspec.Struct, frozen=True, kw_only=True):
    """Mean of an arm since a time (UTC milliseconds) over ``n`` observations, and over ``n_before`` earlier ones of
    its epoch.
    """

    since_ms: int
    mean: float
    n: int
    mean_before: float
    n_before: int


class SourceSum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Part of a belief that one source gave: ``n`` observations, and what they add to alpha and beta in millionths.

    The parts of an arm, its prior included, add up to its alpha and beta exactly.
    """

    source: Source
    n: int
    alpha_micro: int
    beta_micro: int

    @property
    def mean(self) -> float | None:
        """Mean of its observations, or of the prior."""
        weight = self.alpha_micro + self.beta_micro
        return self.alpha_micro / weight if weight else None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one arm.

    ``mean`` and ``interval`` belong to its full epoch. The interval is the highest-density one where the mean is near
    0 or 1, because equal tails leave out the likeliest values there. ``prior_weight`` is the weight of its prior in
    pulls. ``effective_pulls`` are its pulls over the design effect of its ``n_sessions`` sessions; the rate that
    they measure, without the prior, lies in ``judged_by``. Both are None with fewer than 10 sessions.
    ``called_only``: its runs have inventories inferred from calls. ``missing_pulls``, effective ones where they are
    known, are needed before it is judged by its value. ``recent`` exists where the arm changed.
    ``others`` are the arms poisoned with it, its rivals, or arms that joined on the day it fell. ``pulls_exact`` is
    the sum of pulls where it is no whole number. ``chance`` of inclusion comes with its standard error,
    ``break_even`` where it exists. ``n_observed`` runs were observed in its epoch, and ``n_referenced`` of them
    referenced it, corrected ones included. ``sources`` are the parts of its belief, without empty ones. ``n_named``
    runs had it by name, and ``n_loaded`` of them found it.
    ``limits`` are those of the latest runs of its program, which its chance and break-even assume.
    """

    arm: str
    name: JudgementName
    mean: float
    interval: Interval
    pulls: int
    inclusions: int
    prior_weight: float
    missing_pulls: int = 0
    recent: RecentMean | None = None
    others: tuple[str, ...] = ()
    last_at_ms: int | None = None
    pulls_exact: float | None = None
    chance: float | None = None
    chance_error: float | None = None
    break_even: float | None = None
    no_break_even: NoBreakEven | None = None
    n_observed: int = 0
    n_referenced: int = 0
    sources: tuple[SourceSum, ...] = ()
    n_sessions: int = 0
    effective_pulls: float | None = None
    judged_by: Interval | None = None
    called_only: bool = False
    n_named: int = 0
    n_loaded: int = 0
    limits: tuple[LimitInForce, ...] = ()

    @property
    def change(self) -> RecentMean | None:
        """The change that its title names."""
        return None if self.name == "too_early" else self.recent

    @property
    def since_ms(self) -> int | None:
        """The time of the change, or else of the last observation, in UTC milliseconds."""
        return self.last_at_ms if self.recent is None else self.recent.since_ms


class JudgedPosterior(Posterior, frozen=True, kw_only=True):
    """One arm's belief and judgement in one flat record (see `Judgement`).

    ``others`` are as in `Judgement`. ``since`` (ISO 8601, UTC) to ``mean_before`` exist where
    it changed. They cover ``n_since`` observations since then and ``n_before`` earlier ones. ``sources`` add up to
    alpha and beta exactly. ``mark`` is the position of the arm's last change, from which a list with ``since``
    goes on. It is None in a view that ends. Other arms and time can change a judgement without a change of its arm.
    """

    judgement: JudgementName
    judged_by: Interval | None
    effective_pulls: float | None
    n_sessions: int
    called_only: bool
    missing_pulls: int
    break_even: float | None
    no_break_even: NoBreakEven | None
    chance: float | None
    chance_error: float | None
    others: tuple[str, ...]
    since: Moment | None
    n_since: int | None
    mean_since: float | None
    n_before: int | None
    mean_before: float | None
    n_observed: int
    n_referenced: int
    sources: tuple[SourceSum, ...]
    limits: tuple[LimitInForce, ...]
    state: Listing = "listed"
    mark: str | None = None
