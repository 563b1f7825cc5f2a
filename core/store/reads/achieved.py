"""Outcomes of runs, derived at each read from what programs, environments, evaluations and rewards say of them.

Sets of runs are read at once, so that a page or a comparison asks each table once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np

from core.columns import Bools, Floats, Ints
from core.maths.achieved import in_order, judge_source, judged, mean, paid, source_to_compare, stated
from core.records.achieved import Achieved, OutcomeSource
from core.records.layer import adapter_uri, layer_uid
from core.records.observation import plain_reward
from core.records.review import QueueAsks
from core.store.engine.dialect import ACTIVE, BY_RUN, EVALUATIONS_BY_RUN, OUTCOMES_BY_RUN
from core.store.environments import BROKEN, declared_scales
from core.store.tables import leaving_out
from core.store.transaction import Facts, Snapshot

Values = Mapping[int, float]
"""Outcomes by the number of the run."""
Until = Mapping[int, int]
"""Times by the number of the run: what became known later is left out."""
Sample = tuple[int, int, Sequence[str]]
"""A random sample: the number of its queue, its revision, and the classes of its runs."""

_PROGRAM: Final = (
    f"SELECT r.run_no, a.revision, a.achieved_no, a.value, a.at_ms FROM run r CROSS JOIN achieved a {OUTCOMES_BY_RUN}"
    f" WHERE r.learner_id = ? AND r.run_no IN ({{}}) AND a.learner_id = r.learner_id AND a.run = r.uid"
    f" AND a.{ACTIVE} AND a.undone = 0"
)
_EPISODES: Final = (
    "SELECT l.run_no, e.environment_no, e.total_text, e.final_text, e.episode_no, e.at_ms FROM episode_run l"
    " CROSS JOIN episode e WHERE l.learner_id = ? AND l.run_no IN ({}) AND e.learner_id = l.learner_id"
    f" AND e.episode_no = l.episode_no AND e.{ACTIVE} AND e.finished <> {BROKEN}"
)
_LAST_STEPS: Final = (
    "SELECT episode_no, max(at_ms) FROM step WHERE learner_id = ? AND at_ms IS NOT NULL AND episode_no IN ({})"
    " GROUP BY episode_no"
)
_STATED: Final = (
    "SELECT run_no, reward FROM run WHERE learner_id = ? AND reward IS NOT NULL AND run_no IN ({})"
)
_JUDGED: Final = (
    "SELECT e.run_no, e.layer_no, e.execution_no, e.rater, e.model, e.rubric, e.claimed_by, e.outcome, e.score,"
    f" e.revision, e.evaluation_no, e.at_ms FROM evaluation e {EVALUATIONS_BY_RUN}"
    " WHERE e.learner_id = ? AND e.run_no <> 0 AND e.run_no IN ({}) AND e.arm_no = 0"
)
_ACTIVE_EVALUATIONS: Final = f" AND e.undone = 0 AND e.{ACTIVE}"
_THUMBS: Final = (
    "SELECT b.run_no, b.actor, b.revision, b.observation_no, b.success_micro, b.failure_micro, b.at_ms"
    f" FROM observation b {BY_RUN} CROSS JOIN whole_reward w"
    " WHERE b.learner_id = ? AND b.run_no <> 0 AND b.run_no IN ({})"
    f" AND b.undone = 0 AND b.{ACTIVE} AND w.learner_id = b.learner_id AND w.observation_no = b.observation_no"
)

_FILLED: Final = "SELECT " + ", ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE learner_id = ?1)"
    for table in ("achieved", "episode_run", "evaluation", "whole_reward")
)
_QUEUES: Final = (
    f"SELECT review_queue_no, revision, asks FROM review_queue WHERE learner_id = ? AND {ACTIVE} AND undone = 0"
    " ORDER BY review_queue_no"
)
_LAST_RUN: Final = "SELECT coalesce(max(run_no), 0) FROM run WHERE learner_id = ? AND revision <= ?"
_ITEMS: Final = "SELECT run_no FROM review_item WHERE learner_id = ? AND review_queue_no = ?"


def outcomes_by_source(
    facts: Facts,
    run_nos: Sequence[int],
    sources: Sequence[object] = (True,) * 5,
    until: Until | None = None,
) -> dict[OutcomeSource, Values]:
    """Return the outcomes of runs from each source; all is asked at once.

    ``sources``: whether to ask for those of programs, stated rewards, episodes, evaluations and rewards. With
    ``until`` the outcomes are those of that time: an episode is known at its last step. Undone ones are left out.
    """
    by_program, by_source, by_episode, by_judge, by_reward = (run_nos if one else () for one in sources)
    (program, environment), (evaluated, thumb) = facts.together(
        lambda: facts.together(
            lambda: _programs(facts, by_program, until), lambda: _paid(facts, by_source, by_episode, until)
        ),
        lambda: facts.together(
            lambda: _judged(facts, by_judge, until), lambda: _thumbs(facts, by_reward, until)
        ),
    )
    return {"program": program, "environment": environment, **evaluated, "thumb": thumb}


def achieved_of(facts: Facts, run_nos: Sequence[int]) -> dict[int, Achieved]:
    """Return the outcomes that runs show, by the order of sources in force; unknown ones are left out."""
    by_source = outcomes_by_source(facts, run_nos)
    order = [source for source in facts.settings.outcome_from if by_source[source]]
    by_run: dict[int, dict[OutcomeSource, float]] = defaultdict(dict)
    for source in order:
        for run_no, value in by_source[source].items():
            by_run[run_no][source] = value
    shown = {run_no: in_order(values, order) for run_no, values in by_run.items()}
    return {run_no: one for run_no, one in shown.items() if one is not None}


def program_outcome(facts: Facts, run_no: int) -> float | None:
    """Return the outcome of a run that its program stated last; None without one."""
    return _programs(facts, [run_no]).get(run_no)


def _known(until: Until | None, run_no: int, at_ms: int | None) -> bool:
    return until is None or at_ms is None or at_ms <= until[run_no]


def _programs(facts: Facts, run_nos: Sequence[int], until: Until | None = None) -> Values:
    rows = sorted(facts.rows_in(_PROGRAM, run_nos))
    return {run_no: value for run_no, _, _, value, at_ms in rows if _known(until, run_no, at_ms)}


def _paid(
    facts: Facts, run_nos: Sequence[int], in_episodes: Sequence[int], until: Until | None = None
) -> Values:
    """Return the mean of a run's episodes; without one the reward that the run's source states."""
    rewards, rows, scales = facts.together(
        lambda: facts.rows_in(_STATED, run_nos),
        lambda: facts.rows_in(_EPISODES, in_episodes),
        lambda: declared_scales(facts),
    )
    of_source = {run_no: float(stated(reward)) for run_no, reward in rewards}
    ends: dict[int, int] = {}
    if until is not None:
        ends = dict(facts.rows_in(_LAST_STEPS, sorted({row[-2] for row in rows})))
    episodes: dict[int, list[float]] = defaultdict(list)
    for run_no, environment_no, total, final, episode_no, at_ms in rows:
        scale = scales.get(environment_no)
        reached = total if scale is None else scale.reached(total, final)
        if scale is not None and scale.base == "none":  # left out, with what its source states
            of_source.pop(run_no, None)
        value = None if reached is None else paid(Decimal(reached), scale)
        if value is not None and _known(until, run_no, ends.get(episode_no, at_ms)):
            episodes[run_no].append(value)
    return of_source | {run_no: mean(values) for run_no, values in episodes.items()}


def _judged(facts: Facts, run_nos: Sequence[int], until: Until | None = None) -> dict[OutcomeSource, Values]:
    """Return the means of the evaluations of full runs, by people and by models, that the caller may read."""
    unless, left_out = leaving_out("e.evaluation_no", facts.hidden if isinstance(facts, Snapshot) else ())
    sql = _JUDGED + (" AND e.counts = 1" if until is None else _ACTIVE_EVALUATIONS) + unless
    rows, own_layer = facts.together(lambda: facts.rows_in(sql, run_nos, left_out), lambda: _own_layer(facts))
    latest = {
        row[:7]: row
        for row in sorted(rows, key=lambda row: row[9:11])
        if row[1] in {0, own_layer} and _known(until, row[0], row[11])
    }
    values: dict[OutcomeSource, dict[int, list[float]]] = {
        "person": defaultdict(list),
        "grader": defaultdict(list),
    }
    for run_no, _, _, rater, model, _, _, outcome, score, *_ in latest.values():
        values[judge_source(rater, model)][run_no].append(judged(outcome, score))
    return {
        source: {run_no: mean(one) for run_no, one in by_run.items()} for source, by_run in values.items()
    }


def _own_layer(facts: Facts) -> int:
    """Return the layer that is the learner itself: an evaluation of it in an execution is one of the full run."""
    uid = layer_uid(adapter_uri(facts.name))
    return facts.count_of("SELECT layer_no FROM layer WHERE learner_id = ? AND uid = ?", [uid])


def _thumbs(facts: Facts, run_nos: Sequence[int], until: Until | None = None) -> Values:
    """Return the mean over people of the latest active reward that each gave to the full run."""
    latest: dict[int, dict[str, float]] = defaultdict(dict)
    for run_no, actor, _, _, success, failure, at_ms in sorted(
        facts.rows_in(_THUMBS, run_nos), key=lambda row: row[2:4]
    ):
        if _known(until, run_no, at_ms):
            latest[run_no][actor] = plain_reward(success, success + failure)
    return {run_no: mean(by_actor.values()) for run_no, by_actor in latest.items()}


# Columns


def outcomes_there_are(facts: Facts) -> tuple[Sequence[object], list[Sample]]:
    """Return which tables of outcomes have rows, and the random samples: queues in random order over full classes."""
    (filled,), queues = facts.together(lambda: facts.rows(_FILLED, []), lambda: facts.rows(_QUEUES, []))
    samples = [(*row, msgspec.json.decode(asks, type=QueueAsks).sampled) for *row, asks in queues]
    return filled, [sample for sample in samples if sample[-1]]


def sampled_runs(facts: Facts, samples: Sequence[Sample], numbers: Ints, is_baseline: Bools) -> Ints:
    """Return the part of each run in the latest random sample of its class, as `SessionRuns` has it."""
    sampled = np.zeros(len(numbers), dtype=np.int64)
    for name, side in (("baseline", is_baseline), ("selected", ~is_baseline)):
        latest = [(queue_no, revision) for queue_no, revision, classes in samples if name in classes][-1:]
        for queue_no, revision in latest:
            last = facts.count_of(_LAST_RUN, [revision])
            items = [run_no for (run_no,) in facts.rows(_ITEMS, [queue_no])]
            sampled[side] = (numbers[side] <= last).astype(np.int64) + np.isin(numbers[side], items)
    return np.where(numbers > 0, sampled, 0)


def compared_outcomes(
    facts: Facts,
    run_nos: Sequence[int],
    paid_once: Ints,
    is_baseline: Bools,
    is_by_coin: Bools,
    *,
    in_sample: Bools,
    filled: Sequence[object],
    order: Sequence[OutcomeSource] | None = None,
    until: Until | None = None,
) -> tuple[Floats, OutcomeSource | None]:
    """Return the outcomes of runs from the one source that a comparison of two classes uses, and the source.

    The choice is that of `source_to_compare`; NaN is an unknown outcome. A compacted run has the number 0.
    ``paid_once`` are the outcomes from the rewards that sources state; -1 is none.
    Tables that are ``filled`` are asked. ``order`` None is the order of sources in force.
    """
    known, (by_program, *others) = [run_no for run_no in run_nos if run_no], filled
    by_source = outcomes_by_source(facts, known, (by_program, False, *others), until)
    numbers = np.array(run_nos, dtype=np.int64)
    columns = {source: _column(values, numbers) for source, values in by_source.items()}
    paid_by = columns["environment"]
    columns["environment"] = np.where(np.isnan(paid_by) & (paid_once >= 0), paid_once, paid_by)
    allowed = facts.settings.outcome_from if order is None else order
    source = source_to_compare(columns, allowed, is_baseline, is_by_coin, in_sample)
    return (np.full(len(numbers), np.nan), None) if source is None else (columns[source], source)


def _column(values: Values, run_nos: Ints) -> Floats:
    column = np.full(len(run_nos), np.nan)
    known = np.array(sorted(values), dtype=np.int64)
    places = np.searchsorted(known, run_nos)
    is_known = places < len(known)
    is_known[is_known] = known[places[is_known]] == run_nos[is_known]
    column[is_known] = np.array([values[number] for number in known.tolist()])[places[is_known]]
    return column
