"""Previewed items of a queue or batch: counted and digested before a user confirms them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.errors import Conflict, InvalidInput
from core.records.ledger_lines import digest_text
from core.records.observation import digest
from core.records.review import ORDERS, QueueAsks, QueueProposal
from core.store.experiments import named_experiment
from core.store.queues import Placed
from core.store.reads.experiments import lot, runs_to_judge
from core.store.reads.reviewable import Candidate, named_item, reviewable, session_keys
from core.store.transaction import Snapshot

_SHOWN: Final = 20
_AT_ONCE: Final = 8_192
_LAST: Final = 1 << 62
_AT_RANDOM: Final = "drawn at random"
Clock = Callable[[], int]
_numbers: Final = attrgetter("layer_no", "execution_no", "run_no", "arm_no")


class FrozenItem(NamedTuple):
    """One future item and the reason for it."""

    about: Placed
    why: str


class Frozen(NamedTuple):
    """Future items, and their query with the chance that a random order gave each session."""

    items: list[FrozenItem]
    asks: QueueAsks


def seeded(asks: QueueAsks, entropy: Callable[[], int], token: str | None = None) -> QueueAsks:
    """Return the query with the seed of its random order: its own, else that of the token, else a new one."""
    if asks.order != "random" or asks.seed is not None:
        return asks
    return replace(asks, seed=token.rpartition("-")[0] or "0" if token else str(entropy()))


def frozen(snapshot: Snapshot, asks: QueueAsks, *, blind: bool = False, clock: Clock | None = None) -> Frozen:
    """Return the present items of a query in order. With ``blind``, reasons reveal no judgements of others.

    Without a ``clock`` it is of a batch, which draws no sample of an experiment.
    """
    if asks.source == "experiment":
        return _of_experiment(snapshot, asks, clock)
    if asks.order == "random":
        return _at_random(snapshot, asks)
    return Frozen(_in_order(snapshot, asks, blind=blind), asks)


def _at_random(snapshot: Snapshot, asks: QueueAsks) -> Frozen:
    """Return the items of sessions in a random order, as long as all items of a session fit.

    Of a queue of unused arms a session has one run, and those whose run used the arm are only counted.
    """
    candidates = list(reviewable(snapshot, asks))
    sessions = session_keys(snapshot, [one.run_no for one in candidates])
    units: dict[object, list[Candidate]] = defaultdict(list)
    for one in candidates:
        units[sessions.get(one.run_no, one.about)].append(one)
    if asks.source == "unused":
        one_each = {
            key: min(unit, key=lambda one: digest((asks.seed, one.about))) for key, unit in units.items()
        }
        units = {key: [one] for key, one in one_each.items() if not one.was_used}
        asks = replace(asks, used=len(one_each) - len(units))
    ranked = [units[key] for key in sorted(units, key=lambda key: digest((asks.seed, key)))]
    totals = accumulate(map(len, ranked))
    n_units = max(sum(total <= asks.limit for total in totals), min(1, len(ranked)))
    items = [FrozenItem(one.about, _AT_RANDOM) for unit in ranked[:n_units] for one in sorted(unit, key=_age)]
    return Frozen(items, replace(asks, chance=n_units / max(len(ranked), 1)))


def _of_experiment(snapshot: Snapshot, asks: QueueAsks, clock: Clock | None) -> Frozen:
    """Return one run of each sampled session, in an order that says nothing of the side.

    Each side has up to half of the limit: the sessions of its lowest lots. The next lot is the chance of the side.
    """
    start = named_experiment(snapshot, asks.experiment)
    if clock is None or start.plan.source != "person":
        raise InvalidInput(
            f"A sample of {start.fact.id} must be a queue, and its outcomes must come from people, got "
            f"{'a batch' if clock is None else f'the source {start.plan.source}'}.",
            next_step="Start an experiment whose outcomes come from people: its source is person.",
        )
    units: dict[tuple[float, bool], list[int]] = defaultdict(list)
    for name, with_arm, run_no in runs_to_judge(snapshot, start.fact.number, start.plan, clock()):
        units[lot(asks, name), with_arm].append(run_no)
    ours, theirs = (
        next(islice(sorted(one for one, with_arm in units if with_arm == side), asks.limit // 2, None), 1.0)
        for side in (True, False)
    )
    items = [
        FrozenItem(Placed(0, 0, min(run_nos, key=lambda one: digest((asks.seed, one))), 0), _AT_RANDOM)
        for (one, with_arm), run_nos in sorted(units.items())
        if one < (ours if with_arm else theirs)
    ]
    return Frozen(items, replace(asks, experiment=start.fact.line_id, chances=(ours, theirs)))


def _in_order(snapshot: Snapshot, asks: QueueAsks, *, blind: bool) -> list[FrozenItem]:
    """Return the items by age, score or disagreement."""
    candidates = _filtered(reviewable(snapshot, asks), asks)
    if asks.order == "oldest":
        # Only named runs come in another order.
        oldest = (
            _first(candidates, asks.limit, _age) if asks.source == "runs" else islice(candidates, asks.limit)
        )
        return [FrozenItem(one.about, _reason(one, asks, blind=blind)) for one in sorted(oldest, key=_age)]
    if asks.order not in ORDERS:
        raise InvalidInput(
            f"order must be one of {', '.join(ORDERS)}, got {asks.order}.",
            next_step="Choose one of those: queues are no longer ordered by information.",
        )
    first = _first(candidates, asks.limit, _lowest if asks.order == "lowest" else _most_divided)
    return [FrozenItem(one.about, _reason(one, asks, blind=blind)) for one in first]


def proposed(snapshot: Snapshot, asks: QueueAsks, clock: Clock | None = None) -> QueueProposal:
    """Return the count and the token of the present items of a query."""
    items = frozen(snapshot, asks, clock=clock).items
    first = tuple(named_item(snapshot, one.about).subject for one in items[:_SHOWN])
    return QueueProposal(n=len(items), token=token_of(asks, items), first=first)


def token_of(asks: QueueAsks, items: Sequence[FrozenItem]) -> str:
    """Return the token of these items, independent of their order; it begins with the seed of a random order."""
    seed = f"{asks.seed}-" if asks.order == "random" else ""
    return seed + digest_text(digest((asks, sorted(one.about for one in items))))


def check_token(asks: QueueAsks, items: Sequence[FrozenItem], token: str | None) -> None:
    """Raise `InvalidInput` without items, and `Conflict` if the token is of other items (None: unchecked)."""
    if not items:
        raise InvalidInput(
            f"There must be items to judge, got none of the source {asks.source} that pass the filter.",
            next_step="Widen the filter, or choose another source.",
        )
    if token is not None and token != token_of(asks, items):
        raise Conflict(
            f"The items must be those that were confirmed, got {len(items):,} items that are not all the same.",
            next_step="Review them again, and confirm the new count.",
        )


def _first(
    candidates: Iterator[Candidate], n: int, key: Callable[[Candidate], tuple[float, ...]]
) -> list[Candidate]:
    """Return the first ``n`` by a key. The input has long sorted runs, which sorting exploits and a heap does not."""
    best: list[Candidate] = []
    while part := list(islice(candidates, max(n, _AT_ONCE))):
        best = sorted(best + part, key=key)[:n]
    return best


def _lowest(one: Candidate) -> tuple[float, ...]:
    score, at_ms = one.score, one.at_ms
    return (score is None, score or 0.0, _LAST if at_ms is None else at_ms, *_numbers(one))


def _most_divided(one: Candidate) -> tuple[float, ...]:
    return (-one.minority, *_age(one))


def _age(one: Candidate) -> tuple[int, ...]:
    return (_LAST if one.at_ms is None else one.at_ms), *_numbers(one)


def _filtered(candidates: Iterator[Candidate], asks: QueueAsks) -> Iterator[Candidate]:
    if asks.source == "unjudged":
        return (one for one in candidates if one.n_people == 0)
    if asks.source == "low":
        return (one for one in candidates if one.score is not None and one.score <= asks.below)
    return (one for one in candidates if one.minority > 0) if asks.source == "disagree" else candidates


def _reason(one: Candidate, asks: QueueAsks, *, blind: bool) -> str:
    """Return the reason as text that pages show unchanged."""
    if asks.source == "unjudged":
        return "no person has judged it"
    if asks.source == "low":
        return "it got little" if blind else f"it got {one.score:.2g}"
    if asks.source == "disagree":
        return "raters disagree" if blind else f"{one.minority:.0%} of {one.n_judged} judgements differ"
    return "picked by hand" if asks.source == "runs" else "it passes the filter"
