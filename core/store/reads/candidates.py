"""Candidates: the arms that the latest runs offered, for chances of inclusion in runs as they come.

An agent rarely offers every known arm: some are gone, some are new, some belong to one kind of request. Packing all
of them makes arms compete with absent ones, and every chance comes out too small. So an arm's chance is the mean over
the candidate sets of the latest runs that offered it. Each set is packed as offered, with the present beliefs, costs
and settings:

- **Runs that armscope chose** (baseline or selected), because the next choice resembles them. Without any, the latest
  of any class (imports have their inventory, passive runs everything available). Without runs, all arms.
- **A mean over the sets, not their union**: in the union arms compete that never met. **Only runs that offered the
  arm**: the agent decides the offer, we decide the inclusion. A new arm is not unlikely because older runs lacked it.
- **The latest 25**: enough that one odd request does not decide, few enough to follow a changing agent.

In the demo's 26 days of choosing (``demo.play``, seed 7), each segment of two hours was predicted from the state
before it, for every arm of every run that it then offered. The mean squared error is .049, against .073 with all arms
as candidates and .057 with the union of 25 runs; 10 or 50 runs also give .049. All arms as candidates predict a share
of .61 in the prompt, the mean over the sets .66; the true share was .65.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from core.columns import UNKNOWN, ArmColumns, CandidateSets, Ints
from core.records.run import RunClass
from core.records.view import RunFilter
from core.store.engine.words import TEXTS_JOINED
from core.store.reads.arms import places_by_number
from core.store.reads.run_pages import newest_runs
from core.store.transaction import Snapshot

LATEST_RUNS: Final = 25

_CHOSEN: Final[tuple[RunClass, ...]] = ("baseline", "selected")
_SETS: Final = (  # as text: one value a run to fetch instead of one a candidate, and equal sets are equal texts
    f"SELECT run_no, {TEXTS_JOINED}(CAST(arm_no AS text), ',') FROM (SELECT run_no, arm_no FROM outcome"
    " WHERE learner_id = ? AND run_no IN ({}) ORDER BY run_no, arm_no) AS parts GROUP BY run_no"
)


def candidates(snapshot: Snapshot, columns: ArmColumns) -> CandidateSets:
    """The candidate sets of the latest runs that armscope chose; of the latest of any class where it chose none.

    ``columns`` are of the same moment. Every arm is a candidate where there is no run.
    """
    chosen = newest_runs(snapshot, RunFilter(classes=_CHOSEN), limit=LATEST_RUNS)
    latest = chosen or newest_runs(snapshot, RunFilter(), limit=LATEST_RUNS)
    if not latest:
        return CandidateSets.everything(len(columns))
    rows = snapshot.connection.rows_in(_SETS, [snapshot.learner_id], latest)
    counted = Counter(text for _, text in rows)
    counted[""] += len(latest) - len(rows)  # runs without any candidate
    sets = sorted((text, n_runs) for text, n_runs in counted.items() if n_runs)
    at = places_by_number(snapshot, columns)
    return CandidateSets(
        places=tuple(_places(text, at) for text, _ in sets),
        n_runs=tuple(n_runs for _, n_runs in sets),
        of="chosen" if chosen else "latest",
    )


def _places(text: str, at: Ints) -> Ints:
    """Places of the arms whose numbers a text lists; those that are not among the columns are left out."""
    places = at[np.array([int(number) for number in text.split(",") if number], dtype=np.int64)]
    return np.sort(places[places != UNKNOWN])
