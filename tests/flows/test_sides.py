"""Two sides: shifts by source are the rows of the ledger, and two halves add up to the belief."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from core.columns import ArmColumns
from core.errors import InvalidInput, UnknownRun
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.evaluate import evaluate
from core.flows.learn import record_all, reward
from core.flows.queries.belief import belief_in
from core.records.run_query import RunQuery, RunSide, View, side_of
from core.records.sides import ComparedSides, SideArm
from core.records.times import HOUR_MS, iso
from core.settings import Located
from tests.flows.sources import recounted
from tests.store.test_every_engine import context_of, lively
from tests.worlds import START_MS, a_run
from tests.worlds.history import History

EVERYTHING = RunSide()
pytestmark = pytest.mark.own_engines


def halves(at_ms: int) -> tuple[RunSide, RunSide]:
    at = iso(at_ms // HOUR_MS * HOUR_MS)
    return RunSide(to=at), RunSide(from_=at)


def compared(context: Context, a: RunSide, b: RunSide = EVERYTHING) -> ComparedSides:
    return queries.compare_sides(context, a, b, limit=10_000)


def parts(side: SideArm) -> dict[str, tuple[int, int]]:
    return {one.source: (one.alpha_micro, one.beta_micro) for one in side.shifts}


def columns_of(context: Context) -> ArmColumns:
    with context.reading() as snapshot:
        return belief_in(snapshot, View()).columns


def check_halves(context: Context, at_ms: int) -> None:
    """What was learned before a time and since adds up to what the belief holds, to the millionth."""
    columns = columns_of(context)
    answer = compared(context, *halves(at_ms))
    sums = {
        one.arm: (one.a.alpha_micro + one.b.alpha_micro, one.a.beta_micro + one.b.beta_micro)
        for one in answer.arms
    }
    for index, arm in enumerate(columns.keys):
        believed = int(columns.success_micro[index]), int(columns.failure_micro[index])
        assert sums.get(arm, (0, 0)) == believed, arm
    for one in answer.arms:
        for side in (one.a, one.b):
            totals = tuple(map(sum, zip(*parts(side).values(), strict=True))) or (0, 0)
            assert totals == (side.alpha_micro, side.beta_micro)


def check_rows(context: Context, side: RunSide, wanted: Callable[[int, int | None], bool]) -> None:
    """The shifts of a side are a fold over the plain rows of its runs."""
    answer = compared(context, side)
    with context.reading() as snapshot:
        expected = recounted(snapshot, wanted=wanted)
    for one in answer.arms:
        plain = {name: part[1:] for name, part in expected[one.arm].sums.items() if any(part[1:])}
        assert parts(one.a) == plain, (side, one.arm)
    assert {arm for arm in expected if any(map(any, expected[arm].sums.values()))} <= {
        one.arm for one in answer.arms
    }


def check_world(context: Context) -> None:
    runs = {row.run_no: row for row in queries.runs(context, limit=10_000)}
    dated = sorted(row.at_ms for row in runs.values() if row.at_ms is not None)
    middle_ms = dated[len(dated) // 2] // HOUR_MS * HOUR_MS
    check_halves(context, middle_ms)
    before, since = halves(middle_ms)
    check_rows(context, EVERYTHING, lambda _run_no, _at_ms: True)
    check_rows(context, before, lambda _, at_ms: at_ms is None or at_ms < middle_ms)
    check_rows(context, since, lambda _, at_ms: at_ms is not None and at_ms >= middle_ms)
    sides = [
        (RunSide(model=model or ""), {number for number, row in runs.items() if row.model == model})
        for model in {row.model for row in runs.values()}
    ]
    for side, numbers in [*sides, *((RunSide(run=str(number)), {number}) for number in list(runs)[:3])]:
        check_rows(context, side, partial(is_among, numbers))


def is_among(numbers: set[int], run_no: int, _at_ms: int | None) -> bool:
    return run_no in numbers


def test_sides_are_the_rows_of_a_lively_learner_and_halves_add_up(place: Located, tmp_path: Path) -> None:
    context = context_of(place)
    lively(context, tmp_path)
    models = [a_run(f"m{n}", model=("large", "small")[n % 2], at_ms=START_MS + n * HOUR_MS) for n in range(8)]
    record_all(context, models)
    reward(context, "tool:other:a", 0.3, run="m1")
    reward(context, "tool:other:a", 0.4, run="m2", correct=True)
    reward(context, "tool:other:b", 1.0)
    evaluate(context, "m3", "failure", rater="mara", arm="tool:other:c")
    check_world(context)
    reset(context, arms=["tool:other:b"])
    check_world(context)
    context.store.close()


@pytest.mark.parametrize("seed", range(6))
def test_sides_are_the_rows_of_any_history(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(4):
        history.play(9)
        if any(row.at_ms is not None for row in queries.runs(history.context, limit=100)):
            check_world(history.context)


def test_failures_have_an_interval_and_sessions_of_alike_runs_widen_it(context: Context) -> None:

    def runs(model: str, sessions: int) -> None:
        record_all(
            context,
            [
                msgspec.structs.replace(
                    a_run(f"{model}{n}", model=model, status="error" if n % sessions == 0 else "completed"),
                    session=f"{model}-{n % sessions}",
                )
                for n in range(200)
            ],
        )

    for model, sessions in (("alone", 200), ("other", 200), ("shared", 20), ("few", 4)):
        runs(model, sessions)
    apart = compared(context, RunSide(model="alone"), RunSide(model="other")).failures
    together = compared(context, RunSide(model="alone"), RunSide(model="shared"))
    assert (together.a.n_failed, together.b.n_failed, together.b.n_sessions) == (1, 10, 20)
    assert together.failures.value == pytest.approx(4.5)
    assert apart.limits is not None
    assert together.failures.limits is not None
    assert together.failures.limits[0] < 0, "ten failures of one session show nothing"
    few = compared(context, RunSide(model="alone"), RunSide(model="few")).failures
    assert (few.limits, few.missing) == (None, "few_sessions")
    nobody = compared(context, RunSide(model="alone"), RunSide(model="nobody"))
    assert (nobody.b.n_runs, nobody.failures.value) == (0, None)


def test_arms_come_by_their_evidence_up_to_a_limit(context: Context) -> None:
    record_all(context, [a_run(f"a{n}", calls=("a", "b"), model="one") for n in range(9)])
    record_all(context, [a_run(f"b{n}", calls=("b",), model="two") for n in range(9)])
    reward(context, "tool:other:c", 0.0, run="a1", correct=True)
    answer = queries.compare_sides(context, RunSide(model="one"), RunSide(model="two"), limit=2)
    assert [one.arm for one in answer.arms] == ["tool:other:a", "tool:other:b"]
    assert (answer.n_arms, answer.n_compared, answer.n_different) == (3, 3, 1)
    first = answer.arms[0]
    assert (first.a.n_in, first.a.n_used, first.b.n_in, first.b.n_used) == (9, 9, 9, 0)
    assert (first.a.alpha_micro, first.b.beta_micro) == (9_000_000, 9_000_000)
    means, errors = [first.b.mean, first.a.mean], []
    for side, mean in ((first.a, first.a.mean), (first.b, first.b.mean)):
        assert side.lower < mean < side.upper
        n = int(columns_of(context).base_alpha_micro[0] + columns_of(context).base_beta_micro[0]) / 10**6 + 9
        errors.append(mean * (1 - mean) / (n + 1))
    assert first.evidence == pytest.approx((means[0] - means[1]) / sum(errors) ** 0.5)


def test_an_arm_without_observations_on_one_side_is_not_compared(context: Context) -> None:
    record_all(context, [a_run(f"a{n}", calls=("a",), model="one") for n in range(40)])
    record_all(context, [a_run(f"b{n}", arms=("b", "c"), calls=("b",), model="two") for n in range(40)])
    answer = compared(context, RunSide(model="one"), RunSide(model="two"))
    assert [one.arm for one in answer.arms] == ["tool:other:b", "tool:other:c", "tool:other:a"]
    assert answer.arms[-1].evidence is None
    assert (answer.n_compared, answer.n_different) == (2, 1)


def test_a_side_has_the_filters_of_runs_and_refuses_the_same(context: Context) -> None:
    own = set(RunSide.__struct_fields__) - {"run"}
    assert own <= RunQuery.__annotations__.keys()
    record_all(context, [a_run("r")])
    with pytest.raises(InvalidInput, match="beside model"):
        side_of(RunSide(run="r", model="large"))
    with pytest.raises(UnknownRun, match="There is no run"):
        compared(context, RunSide(run="nobody"))
    with pytest.raises(InvalidInput, match="from must be before to"):
        compared(context, RunSide(from_="2026-02-01", to="2026-01-01"))
