"""Patterns and findings: what is planted is found, and nothing where nothing is."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.demo.environments import PATTERNS, WIDE, WRONG, World, approaching, encouraging, ending, episodes
from core.maths.statistics.rewards.lint import findings_in, lint
from core.maths.statistics.rewards.paid import bootstrap_share, columns_of
from core.maths.statistics.rewards.pattern import is_potential, patterns, penalties
from core.records.episode import FINDING_KINDS, Episode, Pattern, Scale, Step
from tests.statistics.rewards.many import columns
from tests.statistics.rewards.planted import PATTERNS as PLANTED
from tests.statistics.rewards.planted import Planted
from tests.statistics.rewards.strangers import BAD, GOOD

CLEAN = (
    World(name="dense", episode=ending(encouraging)),
    World(name="shaped", episode=ending(approaching)),
    World(name="dense and graded", episode=ending(encouraging, graded=True)),
)
SAMPLED = {"per_step", "unrelated", "decided_by_tool", "narrow", "gives_up", "retried"}
"""Kinds that `test_hacks` draws."""
ALSO = {"crumbs": frozenset({"hacking"})}
"""What else is wrong: thirty steps that pay 0.1 each outweigh the end, and each command is paid."""
SHORT = [(100, range(6))]
LONG = [(10, range(200)), (30, range(200)), (100, range(200)), (1_000, range(200))]


def shown(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"{words}\n")


@pytest.mark.parametrize(
    "sizes", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)]
)
def test_planted_patterns_are_told(
    sizes: Sequence[tuple[int, range]], capsys: pytest.CaptureFixture[str]
) -> None:
    for n, seeds in sizes:
        hits, misses, extra = Counter[str](), Counter[str](), Counter[str]()
        for world in PATTERNS:
            for seed in seeds:
                told = {one.pattern for one in patterns(columns(world, n, seed))}
                hits.update(told & world.patterns)
                misses.update(world.patterns - told)
                extra.update(told - world.patterns)
        for kind in sorted({*hits, *misses, *extra}):
            recall, precision = (
                hits[kind] / (hits[kind] + misses[kind]),
                hits[kind] / (hits[kind] + extra[kind]),
            )
            shown(capsys, f"{n} episodes, {kind}: precision {precision:.3f}, recall {recall:.3f}")
            assert n < 100 or min(recall, precision) >= 0.9


@pytest.mark.parametrize(
    "sizes", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    ("wrong", "clean"), [pytest.param(WRONG, CLEAN, id="planted"), pytest.param(BAD, GOOD, id="strange")]
)
def test_planted_faults_are_found_and_no_others(
    wrong: Sequence[World],
    clean: Sequence[World],
    sizes: Sequence[tuple[int, range]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In environments that the findings were written against, and in others."""
    planted = {world.wrong for world in wrong}
    assert planted >= set(FINDING_KINDS) - {"length", "constant"} - SAMPLED
    for n, seeds in sizes:
        hits, extra, false = Counter[str](), Counter[str](), 0
        for world in (*wrong, *clean):
            for seed in seeds:
                told = {one.kind for one in findings_in(columns(world, n, seed))}
                hits.update(told & {world.wrong})
                extra.update(told - {world.wrong} - ALSO.get(world.name, frozenset()))
                false += world.wrong is None and bool(told)
        for kind in FINDING_KINDS:
            recall = hits[kind] / len(seeds) if kind in planted else 1.0
            precision = hits[kind] / (hits[kind] + extra[kind]) if hits[kind] + extra[kind] else 1.0
            shown(capsys, f"{n} episodes, {kind}: precision {precision:.3f}, recall {recall:.3f}")
            assert n < 100 or min(recall, precision) >= 0.9
        share = false / (len(seeds) * len(clean))
        shown(capsys, f"{n} episodes: {share:.1%} of clean environments have a finding")
        assert share <= 0.05


@pytest.mark.parametrize("world", WRONG, ids=lambda world: world.name)
def test_a_finding_shows_its_steps_and_says_what_to_do(world: World) -> None:
    planted = episodes(world, 100, 7)
    found = next(one for one in lint(planted, world.scale) if one.kind == world.wrong)
    steps = {(one.uid, step.number) for one in planted for step in one.steps}
    assert found.steps
    assert set(found.steps) <= steps
    assert found.seen.endswith(".")
    assert found.advice.endswith(".")
    assert 0.5 <= found.certainty <= 1


@pytest.mark.parametrize(("planted", "expected"), PLANTED, ids=lambda one: getattr(one, "name", ""))
def test_potentials_noise_and_rare_events_have_their_patterns(
    planted: Planted, expected: frozenset[Pattern]
) -> None:
    for n, seeds in ((30, range(6)), (100, range(20)), (300, range(3))):
        right = 0
        for seed in seeds:
            episodes_ = planted.episodes(n, seed)
            is_penalised = any(one.steps[-1].reward == -1 for one in episodes_)
            there = expected if is_penalised else expected - {"penalty"}
            right += there == {one.pattern for one in patterns(columns_of(episodes_, planted.scale))}
            assert {one.kind for one in lint(episodes_, planted.scale)} <= {"delayed", "constant"}
        assert right >= 0.95 * len(seeds)


def test_a_rare_penalty_is_reported_with_its_count() -> None:
    """One in a thousand episodes was ended by -1: certain, and rare."""
    ends = [Step(number=1, name="rm", reward=-1.0, finished=True)]
    ends += [Step(number=1, name="submit", reward=float(n % 2), finished=True) for n in range(999)]
    planted = [
        Episode(uid=f"e{n}", environment="x", steps=(Step(number=0, reward=0.0), end))
        for n, end in enumerate(ends)
    ]
    result = next(one for one in patterns(columns_of(planted, WIDE)) if one.pattern == "penalty")
    assert (result.n_showing, result.n) == (1, 1_000)


@pytest.mark.parametrize(("mean", "deviation"), [(0.08, 0.04), (0.03, 0.03), (0.01, 0.03), (0.0, 0.02)])
def test_noise_is_no_potential_and_no_penalty(mean: float, deviation: float) -> None:
    dice = np.random.default_rng(4)
    steps = [
        tuple(Step(number=at, reward=float(dice.normal(mean, deviation))) for at in range(8))
        for _ in range(60)
    ]
    columns = columns_of(
        [Episode(uid=f"e{n}", environment="x", steps=one) for n, one in enumerate(steps)], WIDE
    )
    assert not is_potential(columns)
    assert not penalties(columns).any()


def test_where_nothing_was_paid_or_little_is_known_nothing_is_told() -> None:
    steps = tuple(Step(number=number, finished=number == 5) for number in range(6))
    planted = [Episode(uid=f"e{n}", environment="none", steps=steps) for n in range(40)]
    columns = columns_of(planted, WIDE)
    assert (patterns(columns), findings_in(columns)) == ((), ())
    assert findings_in(columns_of([Episode(uid="e", environment="none")], WIDE)) == ()
    for world in PATTERNS:
        assert patterns(columns_of(episodes(world, 9, 0), world.scale)) == ()


def test_a_reward_of_zero_is_a_payment_and_none_is_not() -> None:
    """The same environment, one saying 0 and one nothing: both are silent on the way, and neither pays."""
    for reward in (0.0, None):
        steps = tuple(Step(number=number, reward=reward) for number in range(5))
        ends = [Step(number=5, reward=float(n % 2), finished=True) for n in range(30)]
        planted = [Episode(uid=f"e{n}", environment="x", steps=(*steps, end)) for n, end in enumerate(ends)]
        columns = columns_of(planted, Scale())
        assert [one.pattern for one in patterns(columns)] == ["sparse", "binary"]
        assert [one.kind for one in findings_in(columns)] == ["delayed"]


@settings(max_examples=20)
@given(st.permutations(range(60)), st.integers(0, len(WRONG) - 1))
def test_the_order_of_episodes_is_nothing(order: list[int], at: int) -> None:
    planted = episodes(WRONG[at], 60, 3)
    columns, mixed = (
        columns_of(one, WRONG[at].scale) for one in (planted, [planted[place] for place in order])
    )
    assert patterns(columns) == patterns(mixed)
    assert [(one.kind, one.certainty, one.seen) for one in findings_in(columns)] == [
        (one.kind, one.certainty, one.seen) for one in findings_in(mixed)
    ]


def test_a_refused_step_is_in_nothing_but_its_own_finding() -> None:
    """What came after the end tells no pattern, and no other fault."""
    for world in (*PATTERNS, *WRONG[:-1]):
        planted = episodes(world, 50, 5)
        more = [
            replace(one, steps=(*one.steps, Step(number=len(one.steps), reward=1e6, refused=True)))
            for one in planted
        ]
        before, after = columns_of(planted, world.scale), columns_of(more, world.scale)
        assert patterns(before) == patterns(after)
        assert findings_in(before) == findings_in(after)[:-1]


@pytest.mark.parametrize(
    ("hits", "n", "least"), [(50, 100, 0.5), (7, 100, 0.05), (95, 100, 0.9), (3, 10, 0.5)]
)
def test_agreement_is_what_samples_come_near_to(hits: int, n: int, least: float) -> None:
    dice = np.random.default_rng(1)
    drawn = dice.integers(0, n, (20_000, n)) < hits
    assert bootstrap_share(hits, n, least) == pytest.approx(
        (drawn.sum(axis=1) >= least * n - 1e-9).mean(), abs=0.015
    )
