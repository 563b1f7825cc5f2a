"""Subjects: layers, executions and the arms of runs, as judging asks for them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, Literal

from core.errors import InvalidEvaluation
from core.records.layer import LayerUri, parse_uri
from core.store.transaction import Facts

_SEARCHED: Final = 5_000
_NEAR: Final = 3


def near_uids(facts: Facts, kind: Literal["layer", "execution"], uid: str) -> list[str]:
    """Uids that may have been meant, of the first 5,000 in their order."""
    known = facts.connection.rows(
        f"SELECT uid FROM {kind} WHERE learner_id = ? AND standing = 1 ORDER BY uid LIMIT {_SEARCHED}",
        [facts.learner_id],
    )
    return get_close_matches(uid.lower(), [found for (found,) in known], n=_NEAR, cutoff=0.7)


def layer_number(facts: Facts, named: str) -> int | None:
    """The number of a standing layer, by its uid or URI; None where nobody has named it."""
    uid = named
    if named.strip().lower().startswith("kairos:"):
        try:
            found = parse_uri(named)
        except InvalidEvaluation:
            return None
        uid = found.key if isinstance(found, LayerUri) else named
    row = facts.connection.row(
        "SELECT layer_no FROM layer WHERE learner_id = ? AND uid = ? AND standing = 1",
        [facts.learner_id, uid.lower()],
    )
    return None if row is None else int(row[0])


def run_of_execution(facts: Facts, execution_no: int) -> tuple[int, str]:
    """Number and uid of the standing run that an execution is of; (0, "") where it is of none."""
    row = facts.connection.row(
        "SELECT r.run_no, r.uid FROM execution e JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no"
        " WHERE e.learner_id = ? AND e.execution_no = ? AND e.run_no <> 0 AND r.standing = 1",
        [facts.learner_id, execution_no],
    )
    return (0, "") if row is None else (row[0], row[1])


def arms_of_run(facts: Facts, run_no: int) -> list[tuple[int, int]]:
    """(arm, flags) of a run."""
    return [
        (arm_no, flags)
        for arm_no, flags in facts.connection.rows(
            "SELECT arm_no, flags FROM outcome WHERE learner_id = ? AND run_no = ? ORDER BY arm_no",
            [facts.learner_id, run_no],
        )
    ]
