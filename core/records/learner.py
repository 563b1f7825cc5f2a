"""A learner: the named owner of settings, arms, epochs and observations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from core.errors import InvalidSetting
from core.records.achieved import OUTCOME_SOURCES, OutcomeSource
from core.records.alert import AlertKind
from core.records.arm import CURATED, UNIFORM, ArmType, Prior, check_key
from core.records.bill import MAX_PRICE, PRICE_EXAMPLE, ModelPrices
from core.records.currency import DOLLAR, check_currency
from core.records.evaluation import MAX_NAME_CHARS, Crediting, Graders, Thresholds
from core.records.run import Phase
from core.records.times import Moment

INSTALLATION: Final = ""
"""The hidden learner, of number 0 and without a name, under which lies what belongs to the installation: members,
tokens, and the audit of what is done to them. It is in no list, and no name leads to it.
"""
Mode = Literal["standard", "openclaw"]
"""The way that detection recognises skills, files and memories."""

Sticky = Literal["run", "session"]
"""How long a selection holds: for its run, or for its session until that was idle."""
MAX_HOLD_MINUTES: Final = 1_440
_NEWER: Final = frozenset(
    {
        "sticky",
        "hold_minutes",
        "personal_numbers",
        "keep_runs_days",
        "excluded_arms",
        "currency",
        "outcome_from",
        "worse_by",
    }
)
"""Settings that versions up to 0.2.0 do not know."""
SELECTS: Final = (
    "phase",
    "mode",
    "budget_tokens",
    "k",
    "min_pulls",
    "seed_arms",
    "priors",
    "sticky",
    "excluded_arms",
)
"""Settings that decide which arms a selection picks; the baseline rate only decides how often it picks."""

DEFAULT_SEEDS: Final = (
    "tool:fs:Read",
    "tool:fs:Write",
    "tool:fs:Edit",
    "tool:fs:Glob",
    "tool:fs:Grep",
    "tool:exec:Bash",
)
OPENCLAW_SEEDS: Final = (*DEFAULT_SEEDS, "tool:web:web_search", "tool:web:WebFetch")
SEEDS: Final[dict[Mode, tuple[str, ...]]] = {"standard": DEFAULT_SEEDS, "openclaw": OPENCLAW_SEEDS}
"""Default seed arms by mode."""

MAX_WORSE_BY: Final = 50.0
MAX_KEEP_DAYS: Final = 18_250
"""50 years: more would reach back before 1970, and no run ended then."""
MAX_PRICES: Final = 1_000
MAX_WEIGHTS: Final = 1_000
_MAX_MODEL_CHARS: Final = 200

LearnerState = Literal["unreadable", "alarmed", "empty", "passive", "selecting"]
"""Unreadable data; an active alert; no run yet; passive phase; selecting."""


class Priors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prior of each arm type: curated types start optimistic, learned ones neutral."""

    tool: Prior = CURATED
    skill: Prior = CURATED
    file: Prior = UNIFORM
    memory: Prior = CURATED
    section: Prior = UNIFORM

    def of(self, arm_type: ArmType) -> Prior:
        prior = getattr(self, arm_type)
        assert isinstance(prior, Prior)  # noqa: S101 - narrows getattr for the type checker
        return prior


class LearnerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a learner; every change is recorded and can be undone.

    ``budget_tokens`` and ``k``: 0 = unlimited. ``baseline_rate`` is a probability. ``meta_tools`` are tools whose
    calls are no real tool use. Without ``seed_arms`` the learner uses those of its ``mode`` in `SEEDS`.
    ``thresholds`` decide from which score an evaluation is good enough for training. ``graders`` selects whose
    evaluations move an arm. ``evaluation_credit`` selects the arms that share an evaluation of a full run.
    ``weight_by_agreement`` is the weight, 0 to 1, of a rater or model; others have 1. ``keep_texts`` stores requests
    and answers. These four apply to later input only. ``trusted_graders`` names tokens whose claims about raters may
    be trained on. ``prices`` has the prices of a million tokens per model: the input price, or prices by part from a
    time on (`core.records.bill.Price`). Selection ignores them. ``currency`` is theirs, shown at every sum.
    ``sticky`` says how long a selection holds. With ``session`` it holds in its session until it was not used for
    ``hold_minutes``, as long as the provider keeps its cache. With ``personal_numbers`` exports to train on hold back
    rows with numbers of cards, bank accounts and social security. ``keep_runs_days`` is how long `compact` keeps the
    rows of runs; 0 = off. Nothing is compacted without that command. ``excluded_arms`` are in no prompt of the active
    phase, even as seeds. ``outcome_from`` are the sources of outcomes: a run shows that of the first known one.
    Outcomes of selected runs may be worse by ``worse_by`` points, and still count as "as much".

    >>> LearnerSettings().baseline_rate
    0.1
    """

    phase: Phase = "active"
    mode: Mode = "standard"
    baseline_rate: float = 0.1
    budget_tokens: int = 0
    k: int = 0
    min_pulls: int = 5
    seed_arms: tuple[str, ...] = DEFAULT_SEEDS
    meta_tools: tuple[str, ...] = ("message",)
    priors: Priors = Priors()
    prices: dict[str, ModelPrices] = {}
    thresholds: Thresholds = Thresholds()
    graders: Graders = "all"
    evaluation_credit: Crediting = "none"
    weight_by_agreement: dict[str, float] = {}
    keep_texts: bool = False
    trusted_graders: tuple[str, ...] = ()
    sticky: Sticky = "run"
    hold_minutes: int = 5
    personal_numbers: bool = False
    keep_runs_days: int = 0
    excluded_arms: tuple[str, ...] = ()
    currency: str = DOLLAR
    outcome_from: tuple[OutcomeSource, ...] = OUTCOME_SOURCES
    worse_by: float = 5.0

    def document(self) -> dict[str, object]:
        """Return the settings for a file: newer ones only where they were changed, so that older versions read it.

        >>> "sticky" in LearnerSettings().document(), LearnerSettings(sticky="session").document()["sticky"]
        (False, 'session')
        """
        plain: dict[str, object] = msgspec.to_builtins(self)
        unchanged = LearnerSettings()
        return {
            name: value
            for name, value in plain.items()
            if name not in _NEWER or getattr(self, name) != getattr(unchanged, name)
        }

    @property
    def left_out(self) -> frozenset[str]:
        """Arms that no prompt of the present phase includes."""
        return frozenset() if self.phase == "passive" else frozenset(self.excluded_arms)

    @property
    def always_in(self) -> frozenset[str]:
        """Seeds that no setting excludes."""
        return frozenset(self.seed_arms) - self.left_out

    def __post_init__(self) -> None:
        if not 0 <= self.baseline_rate <= 1:
            raise InvalidSetting(
                f"baseline_rate must be within 0 to 1, got {self.baseline_rate:g}.",
                next_step="10 % is written 0.1.",
            )
        for name in ("budget_tokens", "k", "min_pulls"):
            value = getattr(self, name)
            if not 0 <= value <= 10**12:
                raise InvalidSetting(
                    f"{name} must be a whole number from 0 to 10^12, got {value}.",
                    next_step="Use for example 20. 0 means unlimited for budget_tokens and k.",
                )
        if not 1 <= self.hold_minutes <= MAX_HOLD_MINUTES:
            raise InvalidSetting(
                f"hold_minutes must be a whole number from 1 to {MAX_HOLD_MINUTES:,}, got {self.hold_minutes}.",
                next_step="Use the minutes that the provider keeps its cache, for example 5 or 60.",
            )
        if not 0 <= self.keep_runs_days <= MAX_KEEP_DAYS:
            raise InvalidSetting(
                f"keep_runs_days must be a whole number from 0 to {MAX_KEEP_DAYS:,}, got {self.keep_runs_days}.",
                next_step="0 keeps every run; 365 lets armscope compact delete runs that ended a year ago.",
            )
        for key in (*self.seed_arms, *self.excluded_arms):
            check_key(key)
        _check_prices(self.prices)
        check_currency(self.currency)
        _check_weights(self.weight_by_agreement)
        _check_trusted(self.trusted_graders)
        _check_sources(self.outcome_from)
        if not 0 < self.worse_by <= MAX_WORSE_BY:
            raise InvalidSetting(
                f"worse_by must be above 0 and at most {MAX_WORSE_BY:g} points, got {self.worse_by:g}.",
                next_step="5 lets outcomes of selected runs be 5 points worse, and still count as as much.",
            )


def _check_sources(sources: Sequence[OutcomeSource]) -> None:
    """Refuse an order without a source, or with one twice."""
    if not sources or len({*sources}) < len(sources):
        raise InvalidSetting(
            f"outcome_from must name one or more of {', '.join(OUTCOME_SOURCES)}, each once, got"
            f" {', '.join(sources) or 'none'}.",
            next_step="Put the source first that knows best, for example: armscope settings set outcome_from"
            ' \'["person", "program", "environment"]\'.',
        )


def _check_trusted(names: Sequence[str]) -> None:
    """Refuse what no token can be called."""
    if len(names) > MAX_WEIGHTS:
        raise InvalidSetting(
            f"trusted_graders must name at most {MAX_WEIGHTS:,} tokens, got {len(names):,}.",
            next_step="Name those that bring evaluations.",
        )
    for name in names:
        if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
            raise InvalidSetting(
                f"A token in trusted_graders must be 1 to {MAX_NAME_CHARS} printable characters, got {name[:60]!r}.",
                next_step="Write it as armscope token list names it.",
            )


def _check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights of a rater without a name, or outside 0 to 1."""
    if len(weights) > MAX_WEIGHTS:
        raise InvalidSetting(
            f"weight_by_agreement must name at most {MAX_WEIGHTS:,} raters, got {len(weights):,}.",
            next_step="Name those who are to weigh less than 1.",
        )
    for rater, weight in weights.items():
        if not 0 < len(rater) <= MAX_NAME_CHARS or "\0" in rater:
            raise InvalidSetting(
                f"A rater in weight_by_agreement must have 1 to {MAX_NAME_CHARS} characters, got {rater[:60]!r}.",
                next_step="Write the rater, or the model, as evaluations name them.",
            )
        if not 0 <= weight <= 1:
            raise InvalidSetting(
                f"The weight of {rater[:60]!r} must be within 0 to 1, got {weight:g}.",
                next_step="For example: armscope settings set weight_by_agreement '{\"bob\": 0}'.",
            )


def _check_prices(prices: Mapping[str, ModelPrices]) -> None:
    """Refuse prices of a model without a name, below 0, not finite, or twice from one time on."""
    if len(prices) > MAX_PRICES:
        raise InvalidSetting(
            f"prices must name at most {MAX_PRICES:,} models, got {len(prices):,}.",
            next_step="Name the models your runs use.",
        )
    for model, price in prices.items():
        if not 0 < len(model) <= _MAX_MODEL_CHARS or not model.isprintable():
            raise InvalidSetting(
                f"A model in prices must be 1 to {_MAX_MODEL_CHARS} printable characters, got {model[:60]!r}.",
                next_step="Write the model as your runs name it.",
            )
        if isinstance(price, (int, float)) and not (math.isfinite(price) and 0 <= price <= MAX_PRICE):
            raise InvalidSetting(
                f"The price of {model[:60]!r} must be 0 to {MAX_PRICE:,.0f} per million tokens, got {price:g}.",
                next_step=PRICE_EXAMPLE,
            )
        if isinstance(price, tuple):
            starts = [one.valid_from_ms for one in price]
            if not starts or len(set(starts)) < len(starts):
                raise InvalidSetting(
                    f"The prices of {model[:60]!r} must each have a valid_from of their own, "
                    f"got {len(starts)} prices with {len(set(starts))} times.",
                    next_step="List one price for each day on which a price changed.",
                )


class LearnerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A learner in one line, from its rollups.

    ``alarms`` are its active alerts, and ``silent`` if runs are missing, whether or not a webhook gets it.
    ``saved_percent`` is the plain figure without an interval, and ``tokens_saved`` the total of selected runs. Both
    are None without a comparison. ``last_run`` is ISO 8601 UTC, None = no run with a time. An ``unreadable`` learner
    has only its name and the ``problem``.
    """

    name: str
    state: LearnerState
    alarms: tuple[AlertKind, ...] = ()
    phase: Phase | None = None
    runs: int | None = None
    arms: int | None = None
    revision: int | None = None
    saved_percent: float | None = None
    tokens_saved: int | None = None
    last_run: Moment | None = None
    problem: str | None = None

    @property
    def needs_attention(self) -> bool:
        """True if a user should look at the learner."""
        return self.state in {"unreadable", "alarmed"}
