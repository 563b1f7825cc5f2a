"""Quality: counted evaluations of layers → each layer's sums and those of its adapter's head.

New evaluations are only added. After any other change (a revision, an undo, a description that moves a layer to
another adapter) the layer is folded again in the order of revisions, and of the other layers only its head.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from core.maths.quality import histories, step, total, updates
from core.records.evaluation import ModelHistory, Quality, Rated, Update
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, EVALUATIONS_BY_LAYER, LAYERS_BY_ADAPTER
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

_QUALITY: Final = (
    insert_into("layer_quality")
    + " ON CONFLICT (learner_id, layer_no) DO UPDATE SET retrievals = excluded.retrievals,"
    " successes = excluded.successes, failures = excluded.failures, bonus = excluded.bonus,"
    " last_no = excluded.last_no"
)
_HISTORY: Final = (
    insert_into("model_history", "learner_id", "layer_no", "model", "rank", "attempts", "successes")
    + " ON CONFLICT (learner_id, layer_no, model) DO UPDATE SET rank = excluded.rank,"
    " attempts = excluded.attempts, successes = excluded.successes"
)
_RATED: Final = (
    "e.evaluation_no, e.revision, e.layer_no, e.outcome, e.score, e.rater, e.model, e.blank, e.at_ms"
)


class Sums(NamedTuple):
    """A row of ``layer_quality`` without its layer; ``last_no`` says when, by whom and of what it was rated last."""

    retrievals: int
    successes: int
    failures: int
    bonus: float
    last_no: int


_STORED: Final = f"SELECT layer_no, {', '.join(Sums._fields)} FROM layer_quality WHERE learner_id = ?"


class Placed(msgspec.Struct, frozen=True, gc=False):
    """An evaluation of a layer, and its place among all."""

    revision: int
    number: int
    layer_no: int
    rated: Rated


def gain(txn: Transaction, placed: Sequence[Placed]) -> None:
    """Add new evaluations that count, in their order, each later than all before, to their layers and heads."""
    if not placed:
        return
    layer_nos = sorted({one.layer_no for one in placed})
    heads = heads_of(txn, layer_nos)
    sums = _stored(txn, sorted({*layer_nos, *heads.values()}))
    known = stored_histories(txn, layer_nos)
    by_layer: dict[int, list[Update]] = defaultdict(list)
    last: dict[int, int] = {}
    for one in placed:
        of_layer = known.setdefault(one.layer_no, {})
        update = step(of_layer.values(), one.rated)
        of_layer[update.rater] = update.history
        for layer_no in {one.layer_no, heads.get(one.layer_no, one.layer_no)}:
            by_layer[layer_no].append(update)
            last[layer_no] = one.number
    _write(
        txn,
        {layer_no: _plus(sums.get(layer_no), by_layer[layer_no], last[layer_no]) for layer_no in by_layer},
    )
    _write_histories(txn, {layer_no: list(known[layer_no].values()) for layer_no in layer_nos})


def fold_again(txn: Transaction, layer_nos: Sequence[int]) -> None:
    """Fold layers again, and of the other layers their heads."""
    if not layer_nos:
        return
    concerned = sorted({*layer_nos, *heads_of(txn, layer_nos).values()})
    of_layers = {layer_no: list(_counting(txn, layer_no)) for layer_no in layer_nos}
    rows = {layer_no: folded(txn, layer_no) for layer_no in concerned}
    txn.run_in("DELETE FROM layer_quality WHERE learner_id = ? AND layer_no IN ({})", concerned)
    txn.run_in("DELETE FROM model_history WHERE learner_id = ? AND layer_no IN ({})", layer_nos)
    _write(txn, {layer_no: sums for layer_no, sums in rows.items() if sums is not None})
    _write_histories(
        txn,
        {layer_no: histories(updates(one.rated for one in placed)) for layer_no, placed in of_layers.items()},
    )


def folded(facts: Facts, layer_no: int) -> Sums | None:
    """Return a layer's row by its evaluations and, for the head, those of the other layers; None = none."""
    layers = [layer_no, *_below(facts, layer_no)]
    ordered: list[tuple[int, int, Update]] = []
    for one in layers:
        placed = list(_counting(facts, one))
        for each, update in zip(placed, updates(each.rated for each in placed), strict=True):
            ordered.append((each.revision, each.number, update))
    ordered.sort(key=itemgetter(0, 1))
    return _plus(None, [update for *_, update in ordered], ordered[-1][1]) if ordered else None


def stored_quality(facts: Facts) -> dict[int, Sums]:
    """All rows, by layer."""
    return {number: Sums._make(rest) for number, *rest in facts.rows(_STORED)}


def folded_histories(facts: Facts, layer_no: int) -> dict[str, ModelHistory]:
    """Return each model's history at a layer, by its evaluations."""
    changes = updates(one.rated for one in _counting(facts, layer_no))
    return {history.model: history for history in histories(changes)}


def rated_layers(facts: Facts) -> list[int]:
    """Layers that have evaluations that count, and the heads of their adapters."""
    layer_nos = facts.column(
        "SELECT DISTINCT layer_no FROM evaluation WHERE learner_id = ? AND counts = 1 AND layer_no <> 0"
        " ORDER BY layer_no"
    )
    return sorted({*layer_nos, *heads_of(facts, layer_nos).values()})


def heads_of(facts: Facts, layer_nos: Sequence[int]) -> dict[int, int]:
    """Return the head of each layer's adapter, if any: its active layer of index 1, the first made."""
    rows = facts.connection.rows_in(
        f"SELECT l.layer_no, min(h.layer_no) FROM layer l CROSS JOIN layer h {LAYERS_BY_ADAPTER}"
        f" WHERE h.learner_id = l.learner_id AND h.adapter_no = l.adapter_no AND h.layer_index = 1 AND h.{ACTIVE}"
        " AND l.learner_id = ? AND l.adapter_no <> 0 AND l.layer_no IN ({}) GROUP BY l.layer_no",
        [facts.learner_id],
        layer_nos,
    )
    return dict(rows)


def _below(facts: Facts, layer_no: int) -> list[int]:
    """The other layers of the adapter that a layer is the head of."""
    if heads_of(facts, [layer_no]).get(layer_no) != layer_no:
        return []
    return facts.column(
        f"SELECT o.layer_no FROM layer l CROSS JOIN layer o {LAYERS_BY_ADAPTER}"
        " WHERE o.learner_id = l.learner_id AND o.adapter_no = l.adapter_no"
        " AND l.learner_id = ? AND l.layer_no = ? AND o.layer_no <> l.layer_no ORDER BY o.layer_no",
        [layer_no],
    )


def _counting(facts: Facts, layer_no: int) -> Iterator[Placed]:
    rows = facts.rows(
        f"SELECT {_RATED} FROM evaluation e {EVALUATIONS_BY_LAYER} WHERE e.learner_id = ? AND e.layer_no = ?"
        " AND e.counts = 1"
        " ORDER BY e.revision, e.evaluation_no",
        [layer_no],
    )
    return map(_placed, rows)


def _placed(row: Row) -> Placed:
    number, revision, layer_no, outcome, score, rater, model, blank, at_ms = row
    return Placed(
        revision,
        number,
        layer_no,
        Rated(
            outcome=outcome,
            score=score,
            rater=rater or ("" if blank & 1 else None),
            model=model or ("" if blank & 2 else None),
            at_ms=at_ms,
        ),
    )


def _plus(sums: Sums | None, changes: Sequence[Update], last_no: int) -> Sums:
    """A row, or none, with what evaluations add, in their order; ``last_no`` is the number of the last of them."""
    before = (
        Quality()
        if sums is None
        else Quality(
            retrievals=sums.retrievals, successes=sums.successes, failures=sums.failures, bonus=sums.bonus
        )
    )
    after = total(changes, before)
    return Sums(after.retrievals, after.successes, after.failures, after.bonus, last_no)


def _stored(facts: Facts, layer_nos: Sequence[int]) -> dict[int, Sums]:
    rows = facts.connection.rows_in(f"{_STORED} AND layer_no IN ({{}})", [facts.learner_id], layer_nos)
    return {number: Sums._make(rest) for number, *rest in rows}


def stored_histories(facts: Facts, layer_nos: Sequence[int]) -> dict[int, dict[str, ModelHistory]]:
    """Return each model's stored history at some layers."""
    histories: dict[int, dict[str, ModelHistory]] = {}
    for layer_no, model, rank, attempts, successes in facts.connection.rows_in(
        "SELECT layer_no, model, rank, attempts, successes FROM model_history"
        " WHERE learner_id = ? AND layer_no IN ({})",
        [facts.learner_id],
        layer_nos,
    ):
        history = ModelHistory(model=model, rank=rank, attempts=attempts, successes=successes)
        histories.setdefault(layer_no, {})[model] = history
    return histories


def _write(txn: Transaction, sums: dict[int, Sums]) -> None:
    txn.connection.many(_QUALITY, [(txn.learner_id, layer_no, *sums[layer_no]) for layer_no in sorted(sums)])


def _write_histories(txn: Transaction, known: dict[int, list[ModelHistory]]) -> None:
    txn.connection.many(
        _HISTORY,
        [
            (txn.learner_id, layer_no, one.model, one.rank, one.attempts, one.successes)
            for layer_no in sorted(known)
            for one in known[layer_no]
        ],
    )
