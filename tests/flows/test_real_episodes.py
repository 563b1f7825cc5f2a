"""Real evaluations: what is stated of their episodes, beside what plain code reads out of the files."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from scipy import stats

from core.flows import queries
from core.flows.context import Context
from core.flows.episode import declare
from core.flows.importing import import_files
from core.records.import_answer import ImportAnswer
from core.records.run import Unit
from tests.worlds import context_at

WIKI = "verifiers/wiki-search"
MODELS = {"gpt-4.1": 0.88, "gpt-4.1-mini": 0.78, "gpt-5-mini": 0.92, "qwen/qwen3-4b-instruct-2507": 0.55}


@pytest.fixture(scope="module")
def verifiers(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Context, ImportAnswer]:
    context = context_at(tmp_path_factory.mktemp("real") / "a.db")
    return context, import_files(context, [shared_data / "verifiers"])


def rewards_in(shared_data: Path) -> dict[str, dict[int, float]]:
    """Of each model what it was paid for each task, as the files say."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for path in sorted((shared_data / "verifiers").glob("wiki-search--*.results.jsonl.gz")):
        named = path.with_name(path.name.replace(".results.jsonl.gz", ".metadata.json"))
        model = json.loads(named.read_bytes())["model"]
        for row in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
            found[model][row["example_id"]] = row["reward"]
    return found


def test_environments_are_told_as_the_files_have_them(
    verifiers: tuple[Context, ImportAnswer], shared_data: Path
) -> None:
    seen = {one.environment: one for one in queries.episodes(verifiers[0])}
    expected = json.loads((shared_data / "EXPECTED" / "verifiers.json").read_bytes())
    by_environment: dict[str, list[dict[str, dict[str, float]]]] = defaultdict(list)
    for name, told in expected.items():
        by_environment[f"verifiers/{name.partition('--')[0]}"].append(told)
    assert sum(one.n for one in seen.values()) == 448
    assert seen.keys() == by_environment.keys()
    for name, one in seen.items():
        files = by_environment[name]
        n = sum(int(str(told["episodes"])) for told in files)
        mean = sum(told["reward"]["mean"] * int(str(told["episodes"])) for told in files) / n
        assert (one.n, one.without_reward) == (n, 0)
        assert one.average.value == pytest.approx(mean, abs=1e-8)
        if name != "verifiers/wordle":
            assert one.success is not None
            hits = sum(told["reward"]["at_least_1"] for told in files)
            assert one.success.rate == pytest.approx(hits / n), "rewards are 0 or 1"
    assert seen[WIKI].n_tasks == 100
    assert seen[WIKI].models == tuple(sorted(MODELS))
    assert (seen[WIKI].pattern, seen["verifiers/math-python"].n_tasks) == (("sparse", "binary"), 5)


def _both_ways(one: dict[int, float], other: dict[int, float]) -> list[tuple[list[float], list[float]]]:
    sides = list(one.values()), [other[task] for task in one]
    return [sides, (sides[1], sides[0])]


def test_models_on_the_same_tasks_are_held_against_each_other(
    verifiers: tuple[Context, ImportAnswer], shared_data: Path
) -> None:
    found = queries.compare(verifiers[0], WIKI, models=list(MODELS))
    assert {one.model: one.average.value for one in found.models} == MODELS
    told = rewards_in(shared_data)
    assert [(pair.one, pair.other) for pair in found.pairs] == list(combinations(MODELS, 2))
    chances = []
    for pair in found.pairs:
        one, other = (told[name] for name in (pair.one, pair.other))
        expected = stats.ttest_rel(list(one.values()), [other[task] for task in one])
        interval = expected.confidence_interval(0.95)
        assert (pair.n_tasks, pair.one_alone, pair.other_alone) == (100, 0, 0)
        assert pair.difference.value == pytest.approx(MODELS[pair.one] - MODELS[pair.other])
        assert (pair.difference.lower, pair.difference.upper) == pytest.approx((interval.low, interval.high))
        # Of rewards that are 0 or 1, the flipped signs are the exact test of McNemar.
        better, worse = (sum(a > b for a, b in zip(*sides, strict=True)) for sides in _both_ways(one, other))
        chances.append(float(stats.binomtest(better, better + worse).pvalue))
    highest, holm = 0.0, {}
    for rank, place in enumerate(sorted(range(6), key=chances.__getitem__)):
        holm[place] = highest = max(highest, min(1.0, (6 - rank) * chances[place]))
    assert [pair.adjusted for pair in found.pairs] == pytest.approx([holm[place] for place in range(6)])


def test_wordle_has_no_success_until_its_scale_is_declared(verifiers: tuple[Context, ImportAnswer]) -> None:
    context, _ = verifiers
    (seen,) = queries.episodes(context, environment="verifiers/wordle")
    assert (seen.n, seen.n_off_scale, seen.success) == (15, 11, None)
    assert "out_of_scale" in seen.findings
    assert seen.guess is not None
    assert (seen.guess.lo, seen.guess.hi) == (0.0, 2.0)
    declare(context, "verifiers/wordle", hi=2, step_hi=2, threshold=1)
    (seen,) = queries.episodes(context, environment="verifiers/wordle")
    assert seen.success is not None
    assert seen.success.rate == pytest.approx(11 / 15)
    assert (seen.n_off_scale, seen.findings) == (0, ())


def test_what_could_not_be_read_is_said_in_words(verifiers: tuple[Context, ImportAnswer]) -> None:
    _, answer = verifiers
    assert (answer.episodes, answer.files) == (448, 8)
    assert any("Git LFS" in one.reason for one in answer.unread)
    assert any("tool-test" in note and "in which step is not" in note for note in answer.notes)


@pytest.mark.parametrize("unit", ["episode", "turn"])
@pytest.mark.parametrize(
    ("folder", "n", "average", "successes"),
    [("tau-bench", 100, 0.43, 43), ("tau2-results", 140, 94 / 140, 94)],
)
def test_averages_and_successes_of_whole_folders(
    shared_data: Path, context: Context, *, unit: Unit, folder: str, n: int, average: float, successes: int
) -> None:
    import_files(context, [shared_data / folder], unit=unit)
    rows = queries.episodes(context)
    assert sum(one.n for one in rows) == n
    total = sum((one.average.value or 0.0) * (one.n - one.without_reward) for one in rows)
    assert total / n == pytest.approx(average)
    rates = [one.success for one in rows]
    assert all(one is not None for one in rates)
    assert round(sum(seen.n * rate.rate for seen, rate in zip(rows, rates, strict=True) if rate)) == successes
