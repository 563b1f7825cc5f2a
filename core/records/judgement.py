"""Judgement: what is to be said of an arm, by a closed set of names, and the evidence it stands on."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.records.posterior import Interval, Posterior

JudgementName = Literal[
    "poisoned",
    "rival",
    "drifting",
    "rising",
    "stale",
    "never_referenced",
    "section",
    "seed",
    "too_early",
    "worth",
    "not_worth",
    "open",
    "unopposed",
    "unknown",
]
"""The first that holds is said:

- ``poisoned``: fell to nothing together with others of its type, as a broken detector makes them
- ``rival``: referenced less since an arm joined the prompt and took its work
- ``drifting``: referenced less for some time; ``rising``: more
- ``stale``: still put in, and not observed for long
- ``never_referenced``: in at least 20 observations
- ``section``: counted as used whenever it is in, which says nothing
- ``seed``: always in by rule
- ``too_early``: fewer than 20 pulls, or not more than its prior weighs
- ``worth``, ``not_worth``: its whole interval lies above, below the mean at which it breaks even at its cost;
  ``open``: it holds that mean
- ``unopposed``: it goes in whatever it is worth
- ``unknown``: no run offered it lately
"""

JUDGEMENTS: Final[tuple[JudgementName, ...]] = get_args(JudgementName)

ALARMS: Final[frozenset[JudgementName]] = frozenset(
    {"poisoned", "rival", "drifting", "rising", "stale", "never_referenced"}
)
"""Those that the list of what needs a look names."""

ENOUGH_PULLS: Final = 20
"""An arm with fewer is not judged by what it is worth."""

NoBreakEven = Literal["always_in", "never_in", "not_offered"]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """How an arm does since a time (UTC milliseconds), over ``n`` observations, and did over ``n_before`` earlier
    ones of the same epoch.
    """

    since_ms: int
    mean: float
    n: int
    mean_before: float
    n_before: int


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said of one arm.

    ``mean`` and ``interval`` are of its whole epoch: the highest-density interval where the mean is near 0 or 1,
    since equal tails leave out what is likeliest there. ``prior_weight`` is its prior's in pulls, ``missing_pulls``
    are needed until it is judged by its worth. ``recent`` is there where it changed, ``others`` are the arms poisoned
    with it or the rivals that took its work. ``pulls_exact`` is the sum of its pulls where that isn't whole.
    ``chance`` of inclusion stands with its standard error, ``break_even`` where it has one.
    """

    arm: str
    name: JudgementName
    mean: float
    interval: Interval
    pulls: int
    inclusions: int
    prior_weight: float
    missing_pulls: int = 0
    recent: Stretch | None = None
    others: tuple[str, ...] = ()
    last_at_ms: int | None = None
    pulls_exact: float | None = None
    chance: float | None = None
    chance_error: float | None = None
    break_even: float | None = None
    no_break_even: NoBreakEven | None = None

    @property
    def since_ms(self) -> int | None:
        """The time that matters to what is said: since when it changed, or was last observed."""
        return self.last_at_ms if self.recent is None else self.recent.since_ms


class JudgedPosterior(Posterior, frozen=True, kw_only=True):
    """One arm's belief with what is to be said of it, flat, as a door hands it out; see `Judgement`.

    ``others`` are the arms poisoned with it or its rivals. ``since`` (ISO 8601, UTC) to ``mean_before`` are there
    where it changed, over ``n_since`` observations since then and ``n_before`` earlier ones.
    """

    judgement: JudgementName
    judged_by: Interval
    missing_pulls: int
    break_even: float | None
    no_break_even: NoBreakEven | None
    chance: float | None
    chance_error: float | None
    others: tuple[str, ...]
    since: str | None
    n_since: int | None
    mean_since: float | None
    n_before: int | None
    mean_before: float | None
