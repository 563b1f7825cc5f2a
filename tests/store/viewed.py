"""Views for SQL programs, held against the answers of the flows about the same learner."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

from core.flows import queries
from core.flows.context import Context
from core.flows.queries.evaluations import evaluations
from core.flows.queries.ledger import rewards
from core.records.arm import MICRO
from core.records.evaluation_page import EvaluationFilter
from core.records.observation import SOURCE_OF
from core.records.times import iso
from core.store.views import VIEWS

COLUMNS: Final = {view.name: [one.name for one in view.columns] for view in VIEWS}
_EVERY: Final = EvaluationFilter(counting=False)
_MANY: Final = 10_000
_AS_RUNS: Final = {
    "uid": "run",
    "run_class": "class",
    **{
        name: name
        for name in ("run_no", "at_ms", "model", "channel", "status", "outcome", "tokens", "n_arms")
    },
    **{name: name for name in ("n_referenced", "duration_ms", "n_calls")},
}
"""Fields of the flows' answer, and columns."""
_AS_ARMS: Final = ("arm", "type", "alpha", "beta", "pulls", "inclusions", "epoch")
_AS_EPISODES: Final = ("environment", "task", "model", "split", "status", "n_steps", "total", "final")


def rows_of(context: Context, view: str) -> list[dict[str, Any]]:
    """Rows of this learner, by the names of the columns."""
    with context.reading() as snapshot:
        rows = snapshot.connection.rows(f"SELECT * FROM {view} WHERE learner_id = ?", [snapshot.learner_id])
    return [dict(zip(COLUMNS[view], row, strict=True)) for row in rows]


def check_views(context: Context) -> Counter[str]:
    """Compare every view with the flows; return how many rows each has."""
    arms, runs = rows_of(context, "v_arms"), rows_of(context, "v_runs")
    observations, episodes = rows_of(context, "v_observations"), rows_of(context, "v_episodes")
    _check_arms(context, arms)
    answered = [
        {_AS_RUNS[name]: value for name, value in row._asdict().items() if name in _AS_RUNS}
        for row in queries.runs(context, limit=_MANY)
    ]
    stated = {
        row.run_no: row.achieved for row in queries.runs(context, limit=_MANY) if row.achieved_by == "program"
    }
    assert {
        row["run_no"]: row["program_outcome"] for row in runs if row["program_outcome"] is not None
    } == stated
    shown = [{name: row[name] for name in _AS_RUNS.values()} for row in runs]
    assert sorted(shown, key=_by_no) == sorted(answered, key=_by_no)
    _check_observations(context, arms, observations)
    listed = queries.episode_list(context, limit=_MANY).rows
    assert {row["episode"]: tuple(row[name] for name in _AS_EPISODES) for row in episodes} == {
        one.uid: tuple(getattr(one, name) for name in _AS_EPISODES) for one in listed
    }
    judged = rows_of(context, "v_evaluations")
    _check_evaluations(context, judged)
    everything = [*arms, *runs, *observations, *episodes, *judged]
    assert {row["learner"] for row in everything} <= {context.learner}
    return Counter(
        v_arms=len(arms),
        v_runs=len(runs),
        v_observations=len(observations),
        v_episodes=len(episodes),
        v_evaluations=len(judged),
    )


def _by_no(row: dict[str, Any]) -> int:
    return int(row["run_no"])


def _check_arms(context: Context, arms: list[dict[str, Any]]) -> None:
    costs = {one.arm: one.token_cost for one in queries.arms(context)}
    expected = [
        (*(getattr(one, name) for name in _AS_ARMS), costs[one.arm], one.last_updated)
        for one in queries.posteriors(context)
    ]
    shown = [(*(row[name] for name in _AS_ARMS), row["token_cost"], iso(row["last_at_ms"])) for row in arms]
    assert sorted(shown) == sorted(expected)
    means = {one.arm: one.mean for one in queries.posteriors(context)}
    assert all(math.isclose(row["mean"], means[row["arm"]]) for row in arms)
    exact = {one.arm: one.pulls_exact for one in queries.posteriors(context)}
    for row in arms:
        assert row["pulls_micro"] / MICRO == (
            row["pulls"] if exact[row["arm"]] is None else exact[row["arm"]]
        )


def _check_observations(
    context: Context, arms: list[dict[str, Any]], observations: list[dict[str, Any]]
) -> None:
    sums: Counter[tuple[str, str]] = Counter()
    for row in observations:
        for name in ("success_micro", "failure_micro"):
            sums[row["arm"], name] += row[name] * row["in_epoch"]
    for row in arms:
        for name in ("success_micro", "failure_micro"):
            assert sums.pop((row["arm"], name), 0) == row[name], (row["arm"], name)
    assert not any(sums.values()), "rows of an arm that is not listed"
    by_hand = {row["observation_no"]: row for row in observations if row["kind"] != "automatic"}
    counting = {one.row_no: one for one in rewards(context, limit=_MANY) if one.counts}
    assert by_hand.keys() == counting.keys()
    for number, one in counting.items():
        row = by_hand[number]
        assert (row["arm"], row["run"], row["kind"], row["at_ms"]) == (one.arm, one.run, one.kind, one.at_ms)
        assert row["source"] == SOURCE_OF[one.kind]
        assert abs(row["reward"] - one.reward) < 1e-5 / max(one.weight, 1e-6)
    assert {row["source"] for row in observations if row["kind"] == "automatic"} <= {"detector"}


def _check_evaluations(context: Context, judged: list[dict[str, Any]]) -> None:
    subjects = ("layer", "execution", "run", "arm")
    assert {
        row["evaluation"]: (
            *(row[name] or "" for name in subjects),
            *(row[name] for name in ("grader_kind", "model", "rubric", "outcome", "score", "state", "at_ms")),
        )
        for row in judged
    } == {
        one.id: (
            *(getattr(one.subject, name) for name in subjects),
            one.grader.kind,
            one.model or None,
            one.rubric or None,
            one.outcome,
            one.score,
            one.state,
            one.at_ms,
        )
        for one in evaluations(context, _EVERY, limit=_MANY)
    }
