"""Quality of a layer: a fold of its evaluations in the order of their revisions.

Promises: pure folds. Folding one by one from stored state gives the same numbers as folding all at once, bit for
bit, and those of KAIROS where it keeps its model history. A layer's quality depends on the order: what a success
earns depends on how the layer's evaluators did before.

**Heads.** An update is what one evaluation *adds*. It is added to the evaluation's own layer and, the same one, to
the head of the layer's adapter (its layer of index 1), unless the layer is the head: that gains once. So a head's
quality is `total` over the updates of all layers of its adapter, its own among them, in the order of their
revisions; sums of doubles depend on that order, too. A head's histories are of its own evaluations only. When a layer
is folded again (undo, revision, late import) its head is summed up again from the updates, which need not be made
again for the other layers: those don't change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from core.records.evaluation import (
    EvaluationOutcome,
    ImplementationBonus,
    ModelHistory,
    Quality,
    QualityScore,
    QualityWord,
    Rated,
    StepOutcome,
    StepQuality,
    StepQualityWord,
    Update,
)
from core.records.javascript import index_first
from core.records.layer import Layer

UNNAMED_RATER: Final = "reward"
"""Name of an unnamed rater."""
_Z: Final = 1.96
_BASIC: Final[Mapping[EvaluationOutcome, float]] = {"success": 1.0, "failure": -0.2}
_BASE: Final[Mapping[StepOutcome, int]] = {"success": 5, "partial": 2, "failure": 0}

Improvement = Literal["clarify", "correct", "enhance", "protocol_add"]
_HEALED: Final[Mapping[str, int]] = {"clarify": 3, "correct": 5, "enhance": 4, "protocol_add": 6}
_HEALED_OTHERWISE: Final = 3

# KAIROS looks for two more specific words, in upper case, in a description in lower case: they are never found.
_SPECIFIC: Final = ("healthcheck", "strict mode", "middleware")
_EXPERT_DOMAINS: Final = ("security", "docker", "kubernetes", "typescript", "postgresql")
_EXPERT_TASKS: Final = ("optimization", "security", "troubleshooting", "error-handling")
_EXPERT_TAGS: Final = ("timing-attack", "race-condition", "performance", "null-safety")
_UNIVERSAL: Final = ("typescript", "javascript", "docker", "postgresql")
_USEFUL: Final = ("configuration", "error-handling", "best-practices")
_LASTING: Final = ("typescript", "docker", "postgresql")
_FLEETING: Final = ("experimental", "beta")

_FACTORS: Final[Mapping[StepOutcome | None, float]] = {
    None: 1.0,
    "success": 3.0,
    "partial": 1.5,
    "failure": 0.5,
}


def step(histories: Iterable[ModelHistory], rated: Rated) -> Update:
    """Return the update that one more evaluation adds to a layer.

    ``histories`` has one for each evaluator that rated the layer before, in any order. Their number is what this
    takes time for; how many evaluations there were does not matter. The ``history`` of the update replaces the
    evaluator's, or joins them. ``bonus = basic + implementation + signed score``, where basic is 1 for a success and
    -0.2 for a failure (seed document 001, "Metrics Application and Reward Propagation").

    >>> first = step([], Rated(outcome="success", score=0.5, rater="mara", model="judge-1", at_ms=0))
    >>> first.bonus, first.rater
    (5.5, 'judge-1')
    """
    name = evaluator(rated.rater, rated.model)
    earned, history = implementation_bonus(histories, name, rated.outcome)
    signed = signed_score(rated.outcome, rated.score)
    basic = _BASIC[rated.outcome]
    return Update(
        outcome=rated.outcome,
        bonus=basic + earned.final + signed,
        basic=basic,
        implementation=earned.final,
        signed_score=signed,
        rated_ms=rated.at_ms,
        rater=name,
        usage_context=f"{rated.outcome} reward" if rated.feedback is None else rated.feedback,
        history=history,
    )


def signed_score(outcome: EvaluationOutcome, score: float | None) -> float:
    """Return a score, or its default, negated for a failure."""
    from_0 = normalized(outcome, score)
    return from_0 if outcome == "success" else -from_0


def normalized(outcome: EvaluationOutcome, score: float | None) -> float:
    """Return a score from 0 to 1, or the default of its outcome."""
    if score is None:
        return 1.0 if outcome == "success" else 0.0
    if not math.isfinite(score) or score <= 0:
        return 0.0  # a negative zero is a zero, too
    return min(1.0, float(score))


def gained(quality: Quality, update: Update) -> Quality:
    """Return a layer's quality, or a head's, with one more update."""
    return total([update], quality)


def total(updates: Iterable[Update], start: Quality | None = None) -> Quality:
    """Add up updates in their order: a layer's quality by its own, a head's by those of its adapter.

    >>> total([]) == Quality()
    True
    """
    before = Quality() if start is None else start
    retrievals, successes, bonus = before.retrievals, before.successes, before.bonus
    rated_ms, rater, context = before.last_rated_ms, before.last_rater, before.usage_context
    for update in updates:
        retrievals += 1
        successes += update.outcome == "success"
        bonus += update.bonus
        rated_ms, rater = update.rated_ms, update.rater
        context = update.usage_context or context
    return Quality(
        retrievals=retrievals,
        successes=successes,
        failures=before.failures + (retrievals - before.retrievals) - (successes - before.successes),
        bonus=bonus,
        last_rated_ms=rated_ms,
        last_rater=rater,
        usage_context=context,
    )


def updates(rated: Iterable[Rated]) -> list[Update]:
    """Return the update of each active evaluation of a layer, in the order of their revisions.

    >>> both = [Rated(outcome="success", score=1.0, rater=None, model="m", at_ms=at) for at in (1, 2)]
    >>> [update.bonus for update in updates(both)], total(updates(both)).bonus
    ([6.0, 6.0], 12.0)
    """
    histories: dict[str, ModelHistory] = {}
    results: list[Update] = []
    for each in rated:
        update = step(histories.values(), each)
        histories[update.rater] = update.history
        results.append(update)
    return results


def histories(applied: Iterable[Update]) -> list[ModelHistory]:
    """Return a layer's model histories after its updates, by rank.

    >>> rated = Rated(outcome="failure", score=None, rater="mara", model=None, at_ms=0)
    >>> histories(updates([rated, rated]))
    [ModelHistory(model='mara', rank=0, attempts=2, successes=0)]
    """
    latest = {update.rater: update.history for update in applied}
    return sorted(latest.values(), key=lambda history: history.rank)


def evaluator(rater: str | None, model: str | None) -> str:
    """Return the name under which an evaluation counts: the model if one is named, else the rater, else the default.

    >>> evaluator("mara", "judge-1"), evaluator("mara", None), evaluator("mara", ""), evaluator(None, None)
    ('judge-1', 'mara', 'reward', 'reward')
    """
    return (rater if model is None else model) or UNNAMED_RATER


def implementation_bonus(
    histories: Iterable[ModelHistory], model: str, outcome: StepOutcome
) -> tuple[ImplementationBonus, ModelHistory]:
    """Return the bonus of an evaluator's attempt on a layer, and its history after it.

    ``histories`` are those of all who rated the layer before, in any order. A success is worth 5 points, a partial
    one 2; a failure earns none. With ``p`` the share of successes among all attempts, this one counted:
    ``final = min(25, round(w * min(3, rarity) * (base + comparative)))``, where ``w`` is `wilson_adjustment`,
    ``rarity = 1 / max(0.1, p)``, and ``comparative = min(10, 20 * (own rate - mean rate of the others))`` where those
    succeed in less than half and less often. Facts of KAIROS, ``kairos_stats`` of the conformance vectors.
    """
    known = list(histories)
    mine = _attempted(known, model, outcome)
    if outcome == "failure":
        return ImplementationBonus(final=0, comparative=0.0, rarity=1.0, rare_success=False), mine
    others = [history for history in known if history.model != model]
    if len(others) > 2:  # two add up to the same either way
        others.sort(key=_order)
    comparative = _comparative(mine.rate, others)
    rarity = _rarity(mine, others)
    points = (_BASE[outcome] + comparative) * wilson_adjustment(mine.attempts, mine.successes)
    earned = ImplementationBonus(
        final=min(25, _rounded(points * min(3.0, rarity))),
        comparative=comparative,
        rarity=rarity,
        rare_success=comparative > 0 and outcome == "success",
    )
    return earned, mine


def _attempted(known: Sequence[ModelHistory], model: str, outcome: StepOutcome) -> ModelHistory:
    is_success = outcome == "success"
    for before in known:
        if before.model == model:
            return ModelHistory(
                model=model,
                rank=before.rank,
                attempts=before.attempts + 1,
                successes=before.successes + is_success,
            )
    rank = 1 + max((history.rank for history in known), default=-1)
    return ModelHistory(model=model, rank=rank, attempts=1, successes=int(is_success))


def _order(history: ModelHistory) -> tuple[tuple[bool, int], int]:
    """Return the sort key in which rates are added up: that of the members of a JavaScript object."""
    return index_first(history.model), history.rank


def _comparative(mine: float, others: Sequence[ModelHistory]) -> float:
    if not others:
        return 0.0
    sum_of_rates = 0.0
    for history in others:  # one by one: Python's sum of floats is exacter than that of KAIROS from 3.12 on
        sum_of_rates += history.rate
    mean = sum_of_rates / len(others)
    return min(10.0, (mine - mean) * 20) if mean < 0.5 and mine > mean else 0.0


def _rarity(mine: ModelHistory, others: Iterable[ModelHistory]) -> float:
    n_attempts, n_successes = mine.attempts, mine.successes
    for history in others:
        n_attempts += history.attempts
        n_successes += history.successes
    return max(1.0, 1 / max(0.1, n_successes / n_attempts))


def wilson_adjustment(attempts: int, successes: int) -> float:
    """Return one half plus the lower end of Wilson's 95 % interval of a success rate; from 0.5 to 1.5.

    E. B. Wilson, 1927, https://doi.org/10.1080/01621459.1927.10502953, with z = 1.96.
    """
    if attempts == 0:
        return 0.5
    rate = successes / attempts
    width = _Z * math.sqrt(rate * (1 - rate) / attempts + _Z * _Z / (4 * attempts * attempts))
    lower = (rate + _Z * _Z / (2 * attempts) - width) / (1 + _Z * _Z / attempts)
    return 0.5 + max(0.0, lower)


def healer_bonus(improvements: int | None, n_healers: int, kind: str) -> int:
    """Return the points for improving a layer, 0 to 15. Each earlier improvement adds a tenth, up to twice as many.
    The only healer gets half as many again.

    ``improvements`` None = the healer is not known. Of another ``kind`` than `Improvement` it earns as a
    clarification does.
    """
    if improvements is None:
        return 0
    points = _HEALED.get(kind, _HEALED_OTHERWISE) * min(2, 1 + improvements * 0.1)
    return min(15, _rounded(points * 1.5 if n_healers == 1 else points))


def quality_score(description: str, task: str, type_: str, tags: Sequence[str]) -> QualityScore:
    """Score a layer by its words: four parts of at most 10 points."""
    described, requested = description.lower(), task.lower()
    is_error = "error" in described and "troubleshooting" in requested
    is_pattern = type_ == "pattern" and "configuration" in requested
    is_domain = _names(requested, _EXPERT_DOMAINS) or _names(tags, _EXPERT_DOMAINS)
    is_universal = _names(requested, _UNIVERSAL) or _names(tags, _UNIVERSAL)
    lasts = 2 * _names(described, _LASTING) + (type_ in {"rule", "pattern"})
    parts = (
        5 + 2 * _names(described, _SPECIFIC) + is_error + is_pattern,
        5 + 2 * is_domain + _names(requested, _EXPERT_TASKS) + _names(tags, _EXPERT_TAGS),
        5 + 2 * is_universal + _names(requested, _USEFUL) + _names(tags, _USEFUL),
        5 + lasts - 2 * _names(described, _FLEETING),
    )
    return QualityScore(
        specificity=parts[0],
        expert_value=parts[1],
        broad_utility=parts[2],
        longevity=parts[3],
        total=sum(parts),
        quality=quality_word(sum(parts)),
    )


def _names(text_or_tags: Sequence[str], words: Iterable[str]) -> bool:
    return any(word in text_or_tags for word in words)


def quality_word(total: float) -> QualityWord:
    """Return the word for the points of `quality_score`."""
    if total >= 30:
        return "excellent"
    if total >= 25:
        return "high"
    if total >= 20:
        return "standard"
    return "basic" if total >= 15 else "below_threshold"


def step_quality(
    description: str, task: str, type_: str, tags: Sequence[str], outcome: StepOutcome | None
) -> StepQuality:
    """Return a layer's points and their word after an execution; ``outcome`` None = it was not executed."""
    points = quality_score(description, task, type_, tags).total
    factor = _FACTORS[outcome]
    base = max(1, _rounded(points / 10))
    return StepQuality(
        score=_rounded(base * factor), quality=_step_word(points * factor, is_success=outcome == "success")
    )


def layer_quality(layer: Layer, outcome: StepOutcome | None) -> StepQuality:
    """Return `step_quality` of a layer, with KAIROS's words for what it doesn't say of itself."""
    return step_quality(
        layer.label or "Knowledge step", layer.task or "general", layer.type or "context", layer.tags, outcome
    )


def _step_word(points: float, *, is_success: bool) -> StepQualityWord:
    if points >= (40 if is_success else 60):
        return "excellent"
    if points >= (25 if is_success else 35):
        return "high"
    return "standard" if points >= 20 else "basic"


def _rounded(value: float) -> int:
    """Round to the nearest whole number, of two the higher, as JavaScript does."""
    below = math.floor(value)
    return below + (value - below >= 0.5)
