"""Layers: judged ones with their quality, and bare ones, of which only the name is known."""

from __future__ import annotations

from collections.abc import Sequence

from core.records.layer_quality import BareLayer, JudgedLayer
from core.store.browsers import RATER
from core.store.engine import Row
from core.store.engine.words import ACTIVE
from core.store.quality import heads_of
from core.store.transaction import Facts


def judged_layers(facts: Facts, *, limit: int) -> tuple[JudgedLayer, ...]:
    """Return active layers that have quality, the best first."""
    rows = facts.connection.rows(
        "SELECT l.layer_no, l.uid, a.uri, a.name, l.layer_index, l.label, l.bare, q.retrievals, q.successes,"
        " q.failures, q.bonus, q.last_no FROM layer_quality q"
        " JOIN layer l ON l.learner_id = q.learner_id AND l.layer_no = q.layer_no"
        " LEFT JOIN adapter a ON a.learner_id = l.learner_id AND a.adapter_no = l.adapter_no"
        f" WHERE q.learner_id = ? AND l.{ACTIVE} ORDER BY q.bonus DESC, l.uid LIMIT ?",
        [facts.learner_id, limit],
    )
    heads = heads_of(facts, [row[0] for row in rows])
    uids = _uids(facts, sorted(set(heads.values())))
    rated = _rated(facts, [row[11] for row in rows])
    return tuple(_layer(row, uids.get(heads.get(row[0], 0)), rated.get(row[11])) for row in rows)


def n_judged_layers(facts: Facts) -> int:
    """Return the number of active layers that have quality."""
    row = facts.connection.row(
        "SELECT count(*) FROM layer_quality q JOIN layer l ON l.learner_id = q.learner_id"
        f" AND l.layer_no = q.layer_no WHERE q.learner_id = ? AND l.{ACTIVE}",
        [facts.learner_id],
    )
    return 0 if row is None else int(row[0])


def bare_layers(facts: Facts, *, limit: int) -> tuple[BareLayer, ...]:
    """Return active layers of which only the name is known, those judged most often first."""
    rows = facts.connection.rows(
        "SELECT l.uid, coalesce(q.retrievals, 0) AS judged FROM layer l LEFT JOIN layer_quality q"
        " ON q.learner_id = l.learner_id AND q.layer_no = l.layer_no"
        f" WHERE l.learner_id = ? AND l.{ACTIVE} AND l.bare = 1 ORDER BY judged DESC, l.uid LIMIT ?",
        [facts.learner_id, limit],
    )
    return tuple(BareLayer(uid=uid, n_judged=judged) for uid, judged in rows)


def n_bare_layers(facts: Facts) -> int:
    """Return the number of bare layers."""
    row = facts.connection.row(
        f"SELECT count(*) FROM layer WHERE learner_id = ? AND {ACTIVE} AND bare = 1", [facts.learner_id]
    )
    return 0 if row is None else int(row[0])


def _uids(facts: Facts, layer_nos: Sequence[int]) -> dict[int, str]:
    rows = facts.connection.rows_in(
        "SELECT layer_no, uid FROM layer WHERE learner_id = ? AND layer_no IN ({})",
        [facts.learner_id],
        layer_nos,
    )
    return dict(rows)


def _rated(facts: Facts, numbers: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Return times and authors of evaluations."""
    rows = facts.connection.rows_in(
        f"SELECT e.evaluation_no, e.at_ms, CASE WHEN e.model <> '' THEN e.model ELSE {RATER} END FROM evaluation e"
        " WHERE e.learner_id = ? AND e.evaluation_no IN ({})",
        [facts.learner_id],
        sorted(set(numbers)),
    )
    return {number: (at_ms, name) for number, at_ms, name in rows}


def _layer(row: Row, head: str | None, rated: tuple[int, str] | None) -> JudgedLayer:
    _, uid, adapter, adapter_name, index, label, bare, n_judged, successes, failures, bonus, _ = row
    return JudgedLayer(
        uid=uid,
        adapter=adapter,
        adapter_name=adapter_name,
        index=index,
        label=label,
        bare=bool(bare),
        head=head,
        n_judged=n_judged,
        successes=successes,
        failures=failures,
        quality=bonus,
        rated_ms=None if rated is None else rated[0],
        rater=None if rated is None else rated[1] or None,
    )
