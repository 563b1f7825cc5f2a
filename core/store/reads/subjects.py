"""Subjects of evaluations: layers, executions and the arms of runs."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final, Literal

from core.errors import InvalidEvaluation
from core.records.layer import LayerUri, parse_uri
from core.store.engine.words import ACTIVE
from core.store.transaction import Facts

_SEARCHED: Final = 5_000
_NEAR: Final = 3


def near_uids(facts: Facts, kind: Literal["layer", "execution"], uid: str) -> list[str]:
    """Uids that may have been meant, of the first 5,000 in their order."""
    known = facts.connection.rows(
        f"SELECT uid FROM {kind} WHERE learner_id = ? AND {ACTIVE} ORDER BY uid LIMIT {_SEARCHED}",
        [facts.learner_id],
    )
    return get_close_matches(uid.lower(), [known_uid for (known_uid,) in known], n=_NEAR, cutoff=0.7)


def layer_number(facts: Facts, named: str) -> int | None:
    """Return the number of an active layer, by its uid or URI; None if unknown."""
    uid = named
    if named.strip().lower().startswith("kairos:"):
        try:
            uri = parse_uri(named)
        except InvalidEvaluation:
            return None
        uid = uri.key if isinstance(uri, LayerUri) else named
    row = facts.connection.row(
        f"SELECT layer_no FROM layer WHERE learner_id = ? AND uid = ? AND {ACTIVE}",
        [facts.learner_id, uid.lower()],
    )
    return None if row is None else int(row[0])


def arms_of_runs(facts: Facts, run_nos: Collection[int], flags: int) -> dict[int, list[int]]:
    """Return, per run, the arms that have all of these flags."""
    arms: dict[int, list[int]] = {}
    for run_no, arm_no in facts.connection.rows_in(
        f"SELECT run_no, arm_no FROM outcome WHERE learner_id = ? AND flags & {flags} = {flags} AND run_no IN ({{}})",
        [facts.learner_id],
        sorted(run_nos),
    ):
        arms.setdefault(run_no, []).append(arm_no)
    return arms
