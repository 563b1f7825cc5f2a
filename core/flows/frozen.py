"""Frozen: what a queue or a batch would hold at this moment, counted and digested before anybody confirms it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from core.errors import Conflict, InvalidInput
from core.flows.worth import label_worth
from core.records.ledger_lines import digest_text
from core.records.request import digest
from core.records.review import QueueAsks, QueueProposal
from core.store.queues import Placed
from core.store.reads.reviewable import Candidate, named_item, reviewable
from core.store.transaction import Snapshot

_SHOWN: Final = 20
_AT_ONCE: Final = 8_192
_LAST: Final = 1 << 62
_numbers: Final = attrgetter("layer_no", "execution_no", "run_no", "arm_no")


class Frozen(NamedTuple):
    """One item to be, and why it is one."""

    about: Placed
    why: str


def frozen(snapshot: Snapshot, asks: QueueAsks, *, blind: bool = False) -> list[Frozen]:
    """What is asked for at this moment, in order; ``blind``: why it is tells nothing of others' judgements."""
    wanted = _wanted(reviewable(snapshot, asks), asks)
    if asks.order == "oldest":  # they come like that
        found = list(islice(wanted, asks.limit))
        return [Frozen(one.about, _why(one, asks, blind=blind)) for one in sorted(found, key=_age)]
    return _ordered(snapshot, wanted, asks, blind=blind)


def proposed(snapshot: Snapshot, asks: QueueAsks) -> QueueProposal:
    """What is asked for at this moment, counted, with the token that stands for all of it."""
    found = frozen(snapshot, asks)
    first = tuple(named_item(snapshot, one.about).subject for one in found[:_SHOWN])
    return QueueProposal(n=len(found), token=token_of(asks, found), first=first)


def token_of(asks: QueueAsks, found: Sequence[Frozen]) -> str:
    """What stands for these items, whatever order they are given out in."""
    return digest_text(digest((asks, sorted(one.about for one in found))))


def check_token(asks: QueueAsks, found: Sequence[Frozen], token: str | None) -> None:
    """Raise `InvalidInput` where there is nothing, `Conflict` where it isn't what was confirmed (None = nothing)."""
    if not found:
        raise InvalidInput(
            f"There must be something to judge, got nothing of the source {asks.source} that passes.",
            next_step="Widen the filter, or choose another source.",
        )
    if token is not None and token != token_of(asks, found):
        raise Conflict(
            f"What was counted has changed since: it is {len(found):,} items now, and not all the same ones.",
            next_step="Look at them again, and confirm that.",
        )


def _ordered(snapshot: Snapshot, found: Iterator[Candidate], asks: QueueAsks, *, blind: bool) -> list[Frozen]:
    if asks.order == "information":
        return list(_by_worth(snapshot, list(found), asks, blind=blind))
    first = _first(found, asks.limit, _lowest if asks.order == "lowest" else _most_divided)
    return [Frozen(one.about, _why(one, asks, blind=blind)) for one in first]


def _first(
    found: Iterator[Candidate], n: int, key: Callable[[Candidate], tuple[float, ...]]
) -> list[Candidate]:
    """The first ``n`` by a key. They come in runs of one direction, which sorting finds and a heap does not."""
    kept: list[Candidate] = []
    while part := list(islice(found, max(n, _AT_ONCE))):
        kept = sorted(kept + part, key=key)[:n]
    return kept


def _lowest(one: Candidate) -> tuple[float, ...]:
    score, at_ms = one.score, one.at_ms
    return (score is None, score or 0.0, _LAST if at_ms is None else at_ms, *_numbers(one))


def _most_divided(one: Candidate) -> tuple[float, ...]:
    return (-one.minority, *_age(one))


def _by_worth(
    snapshot: Snapshot, found: list[Candidate], asks: QueueAsks, *, blind: bool
) -> Iterator[Frozen]:
    worth = label_worth(snapshot, found)
    order = sorted(range(len(found)), key=lambda place: (-worth[place], _age(found[place])))
    for place in order[: asks.limit]:
        said = f"; a label could change about {worth[place]:,.0f} tokens of the next prompt"
        yield Frozen(found[place].about, _why(found[place], asks, blind=blind) + said)


def _age(one: Candidate) -> tuple[int, ...]:
    return (_LAST if one.at_ms is None else one.at_ms), *_numbers(one)


def _wanted(found: Iterator[Candidate], asks: QueueAsks) -> Iterator[Candidate]:
    if asks.source == "unjudged":
        return (one for one in found if one.n_people == 0)
    if asks.source == "low":
        return (one for one in found if one.score is not None and one.score <= asks.below)
    return (one for one in found if one.minority > 0) if asks.source == "disagree" else found


def _why(one: Candidate, asks: QueueAsks, *, blind: bool) -> str:
    """In words that a page shows as they are."""
    if asks.source == "unjudged":
        return "no person has judged it"
    if asks.source == "low":
        return "it got little" if blind else f"it got {one.score:.2g}"
    if asks.source == "disagree":
        return "raters disagree" if blind else f"{one.minority:.0%} of {one.n_judged} judgements differ"
    return "picked by hand" if asks.source == "runs" else "it passes the filter"
