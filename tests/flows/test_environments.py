"""Environments as they are asked about: filtered, paged, told how they pay, and models held against each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.columns import UNKNOWN, EpisodeColumns
from core.errors import InvalidInput, NotFound
from core.flows import queries
from core.flows.context import Context
from core.flows.episode import declare
from core.flows.importing import import_files
from core.flows.queries.environments import paid_wrong
from core.maths.statistics.rewards.lint import lint
from core.records.episode import Episode, Scale, Step
from core.records.episode_page import EPISODE_OUTCOMES, EpisodeCursor, EpisodeFilter, EpisodeRow
from core.store.reads.episodes import alike_columns, environment_names, episode_columns
from tests.flows.test_episodes import file_of
from tests.statistics.rewards.planted import FAULTS, GOOD
from tests.worlds import START_MS, a_run, context_at

MINUTE_MS = 60_000

FILTERS = st.builds(
    EpisodeFilter,
    environment=st.sampled_from([None, "maze", "sums"]),
    split=st.sampled_from([None, "train"]),
    task=st.sampled_from([None, "t3"]),
    model=st.sampled_from([None, "small"]),
    outcome=st.sampled_from([None, *EPISODE_OUTCOMES]),
)


def played(number: int, dice: np.random.Generator) -> Episode:
    """Of one of two environments, by one of two models, with or without a time, a reward, an end, and an error."""
    ends = bool(dice.random() < 0.8)
    steps = [Step(number=at, name="look", reward=None if at % 2 else 0.0) for at in range(3)]
    reward = None if dice.random() < 0.1 else float(dice.random() < 0.6)
    return Episode(
        uid=f"e{number}",
        environment=str(dice.choice(["maze", "sums"])),
        split=str(dice.choice(["train", "test"])),
        task=f"t{dice.integers(8)}",
        model=str(dice.choice(["large", "small"])),
        at_ms=None if dice.random() < 0.2 else START_MS + int(dice.integers(40)) * MINUTE_MS,
        steps=(*steps, Step(number=3, name="submit", reward=reward, finished=ends)),
        broken=bool(dice.random() < 0.1),
    )


PLAYED = [played(number, np.random.default_rng([5, number])) for number in range(120)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("environments")
    context = context_at(folder / "a.db")
    import_files(context, [file_of(folder, "played.jsonl", *PLAYED)])
    return context


def passes(one: Episode, wanted: EpisodeFilter) -> bool:
    """The same by plain code."""
    paid = [] if one.broken else [step.reward for step in one.steps if step.reward is not None]
    kinds = {
        "success": bool(paid) and sum(paid) > 0.9,
        "no_success": bool(paid) and sum(paid) <= 0.9,
        "unpaid": not paid and not one.broken,
        "broken": one.broken,
        "unfinished": not one.finished and not one.broken,
        None: True,
    }
    named = all(
        getattr(wanted, name) in {None, getattr(one, name)}
        for name in ("environment", "split", "task", "model")
    )
    return named and kinds[wanted.outcome]


def test_what_is_alike_counts_as_each_by_itself(world: Context) -> None:
    """A list of environments reads how many episodes are alike, a page of one each of them."""
    with world.reading() as snapshot:
        each = sorted(_episode_names(episode_columns(snapshot)))
        alike = sorted(_episode_names(alike_columns(snapshot, environment_names(snapshot))))
    assert each == alike
    assert len(each) == len(PLAYED)


def _episode_names(columns: EpisodeColumns) -> Iterator[str]:
    for place in range(len(columns)):
        names = [
            None if code[place] == UNKNOWN else known[code[place]]
            for code, known in (
                (columns.environment, columns.environments),
                (columns.split, columns.splits),
                (columns.task, columns.tasks),
                (columns.model, columns.models),
            )
        ]
        yield repr((names, columns.finished[place], columns.total[place], columns.final[place]))


@settings(max_examples=40)
@given(wanted=FILTERS, limit=st.integers(1, 50))
def test_pages_hold_every_episode_that_passes_once_and_in_order(
    world: Context, wanted: EpisodeFilter, limit: int
) -> None:
    found: list[EpisodeRow] = []
    cursor: EpisodeCursor | None = None
    while True:
        page = queries.episode_list(world, wanted, cursor=cursor, limit=limit)
        found += page.rows
        if page.onward is None:
            break
        cursor = page.onward
    assert sorted(row.uid for row in found) == sorted(one.uid for one in PLAYED if passes(one, wanted))
    order = [(-1 if row.place.at_ms is None else row.place.at_ms, row.place.episode_no) for row in found]
    assert order == sorted(order, reverse=True)
    back: list[EpisodeRow] = []
    cursor = None
    while True:
        page = queries.episode_list(world, wanted, cursor=cursor, direction="newer", limit=limit)
        back = [*page.rows, *back]
        if page.onward is None:
            break
        cursor = page.onward
    assert back == found


@settings(max_examples=40)
@given(wanted=FILTERS)
def test_what_is_counted_is_what_is_listed(world: Context, wanted: EpisodeFilter) -> None:
    asked = {name: getattr(wanted, name) for name in EpisodeFilter.__struct_fields__}
    rows = queries.episodes(world, **asked, with_design=False)
    for row in rows:
        of = [one for one in PLAYED if passes(one, wanted) and one.environment == row.environment]
        whole = [one for one in of if not one.broken]
        paid = [one for one in whole if any(step.reward is not None for step in one.steps)]
        assert (row.n, row.broken, row.without_reward) == (
            len(of),
            len(of) - len(whole),
            len(whole) - len(paid),
        )
        assert row.n_finished == sum(one.finished or one.broken for one in of)
        assert row.models == tuple(sorted({str(one.model) for one in of}))
    assert sum(row.n for row in rows) == sum(passes(one, wanted) for one in PLAYED)


def test_a_line_shows_what_had_been_paid_and_gaps_before_it(world: Context) -> None:
    whole = next(one for one in PLAYED if not one.broken)
    (row,) = (row for row in queries.episode_list(world, limit=500).rows if row.uid == whole.uid)
    assert row.running is not None
    assert row.running[:3] == (0.0, 0.0, 0.0)
    assert (row.n_steps, len(row.running), row.total) == (4, 4, row.running[-1])


def test_an_environment_tells_how_it_pays_and_what_was_left_out(world: Context) -> None:
    story = queries.environment(world, "sums")
    of = [one for one in PLAYED if one.environment == "sums"]
    assert story.summary.n == len(of)
    assert [one.pattern for one in story.design.patterns] == ["sparse", "binary"]
    assert [one.kind for one in story.design.findings] == ["delayed"]
    assert story.design.looked_at == sum(not one.broken for one in of)
    assert [(bar.lo, bar.normalised_hi) for bar in story.distribution] == [(0.0, 0.0), (1.0, 1.0)]
    assert (
        sum(bar.n for bar in story.distribution)
        == len(of) - story.left_out.without_reward - story.left_out.broken
    )
    assert story.left_out.untimed == sum(one.at_ms is None for one in of) == story.progress.untimed
    assert sum(one.n for one in story.progress.stretches) == len(of) - story.left_out.untimed
    for kind in ("split", "task", "model"):
        groups = [one for one in story.groups if one.kind == kind]
        assert sum(one.n for one in groups) == len(of)
    assert {one.name for one in story.groups if one.kind == "model"} == {"large", "small"}
    assert story.summary.n_tasks is not None, "several attempts at one task are clustered"


def test_an_unknown_environment_is_asked_back(world: Context) -> None:
    for ask in (
        lambda: queries.episodes(world, environment="sumz"),
        lambda: queries.environment(world, "sumz"),
        lambda: queries.episode_list(world, EpisodeFilter(environment="sumz")),
        lambda: queries.compare(world, "sumz", models=["large", "small"]),
    ):
        with pytest.raises(NotFound, match=r"sumz[\s\S]*Did you mean sums"):
            ask()


def test_models_are_compared_on_the_tasks_of_both(context: Context, tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    told = [
        Episode(
            uid=f"{model}/{task}",
            environment="quiz",
            task=f"t{task}",
            model=model,
            steps=(Step(number=0, reward=float(dice.random() < share), finished=True),),
        )
        for model, share, tasks in (
            ("a", 0.9, range(40)),
            ("b", 0.4, range(5, 40)),
            ("c", 0.5, range(50, 55)),
        )
        for task in tasks
    ]
    import_files(context, [file_of(tmp_path, "quiz.jsonl", *told)])
    found = queries.compare(context, "quiz", models=["a", "b"])
    (pair,) = found.pairs
    values = {one.uid: one.steps[0].reward or 0.0 for one in told}
    differences = [values[f"a/{task}"] - values[f"b/{task}"] for task in range(5, 40)]
    assert (pair.n_tasks, pair.one_alone, pair.other_alone, pair.apart) == (35, 5, 0, True)
    assert pair.difference.value == pytest.approx(np.mean(differences))
    assert [(one.model, one.n, one.n_tasks) for one in found.models] == [("a", 40, 40), ("b", 35, 35)]
    with pytest.raises(InvalidInput, match="task in common"):
        queries.compare(context, "quiz", models=["a", "c"])
    apart = queries.compare(context, "quiz", models=["a", "b", "c"], paired=False)
    assert (found.paired, apart.paired) == (True, False)
    means = {model: np.mean([values[uid] for uid in values if uid[0] == model]) for model in "abc"}
    assert [one.n_tasks for one in apart.pairs] == [35, 0, 0]
    expected = [means[one] - means[other] for one, other in ("ab", "ac", "bc")]
    assert [one.difference.value for one in apart.pairs] == pytest.approx(expected)
    assert [one.difference.missing for one in apart.pairs] == [None, "few_for_interval", "few_for_interval"]
    with pytest.raises(InvalidInput, match="got 'z'"):
        queries.compare(context, "quiz", models=["a", "z"])
    with pytest.raises(InvalidInput, match="Two models"):
        queries.compare(context, "quiz", models=["a", "a"])


def test_totals_off_the_usual_scale_are_no_success_until_one_is_declared(tmp_path: Path) -> None:
    told = [
        Episode(uid=f"w/{n}", environment="wide", steps=(Step(number=0, reward=n / 10, finished=True),))
        for n in range(20)
    ]
    context = context_at(tmp_path / "a.db")
    import_files(context, [file_of(tmp_path, "wide.jsonl", *told)])
    (seen,) = queries.episodes(context)
    assert (seen.n_off_scale, seen.success) == (9, None)
    assert seen.guess is not None
    assert (seen.guess.lo, seen.guess.hi, seen.guess.n_outside) == (0.0, 2.0, 9)
    assert "out_of_scale" in seen.findings
    declare(context, "wide", lo=seen.guess.lo, hi=seen.guess.hi, step_hi=seen.guess.hi)
    (seen,) = queries.episodes(context)
    assert (seen.n_off_scale, seen.guess, seen.findings) == (0, None, ())
    assert seen.success is not None
    assert seen.success.rate == 0.5


def test_runs_that_were_paid_and_have_no_episode_are_counted(context: Context, tmp_path: Path) -> None:
    paid, linked = (
        replace(a_run(uid, at_ms=START_MS, calls=["a"]), reward=1.0) for uid in ("paid", "linked")
    )
    one = Episode(uid="e", environment="sums", runs=("linked",), steps=(Step(number=0, reward=1.0),))
    import_files(context, [file_of(tmp_path, "runs.jsonl", paid, linked, a_run("unpaid", calls=["a"]), one)])
    found = queries.without_episode(context)
    assert (found.n, found.formats, found.command) == (1, ("armscope",), "armscope import SOURCE")


def test_every_hacked_reward_and_fall_needs_a_look_and_no_other(context: Context, tmp_path: Path) -> None:
    """The counts of the database leave out no environment in which the steps would show hacking."""
    planted = [
        replace(one, uid=f"{world.name}/{one.uid}", environment=world.name)
        for world in (*FAULTS, *GOOD)
        for one in world.episodes(40, 3)
    ]
    planted += [
        Episode(
            uid=f"falling/{n}",
            environment="falling",
            at_ms=START_MS + 360 * n * MINUTE_MS,
            steps=(Step(number=0, reward=float(n < 60), finished=True),),
        )
        for n in range(120)
    ]
    import_files(context, [file_of(tmp_path, "planted.jsonl", *planted)])
    with context.reading() as snapshot:
        wrong = paid_wrong(snapshot)
    found = {one.environment: one.evidence for one in wrong if one.after is None}
    designs = queries.lint(context)
    for world in (*FAULTS, *GOOD):
        (design,) = (one for one in designs if one.environment == world.name)
        expected = lint(world.episodes(40, 3), Scale())
        assert [(one.kind, one.certainty) for one in design.findings] == [
            (one.kind, one.certainty) for one in expected
        ], world.name
    assert found == {
        one.environment: each.seen for one in designs for each in one.findings if each.kind == "hacking"
    }
    assert found.keys() >= {world.name for world in FAULTS if world.kind == "hacking"}
    assert found.keys().isdisjoint({world.name for world in GOOD})
    fell = [one.environment for one in wrong if one.after is not None]
    assert "falling" in fell
    assert {queries.environment(context, name).progress.way for name in fell} == {"falls"}
