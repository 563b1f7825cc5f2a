"""Heat map: every cell says what its flags say; grouped by type; what isn't shown is counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.maths.statistics.heatmap import CELL_STATES, CellState, Heatmap, chosen_rows, grouped, heatmap
from core.records.arm import ARM_TYPES, ArmType
from core.records.evidence import INCLUDED, OBSERVED, REFERENCED

KEYS = ("tool:a:a", "tool:a:b", "file:a:c")
KINDS: tuple[ArmType, ...] = ("tool", "tool", "file")
RUNS = (11, 12, 15)
EXPECTED: dict[int | None, CellState] = {
    None: "absent",
    0: "left_out",
    INCLUDED: "unjudged",
    INCLUDED | REFERENCED: "unjudged",
    INCLUDED | OBSERVED: "penalised",
    INCLUDED | OBSERVED | REFERENCED: "rewarded",
}

PLACES = st.tuples(st.integers(0, 2), st.integers(0, 2))


def mapped(cells: dict[tuple[int, int], int], hand: list[tuple[int, int, float]]) -> Heatmap:
    """A map of three arms in three runs; cells by (arm, run)."""
    return heatmap(
        KEYS,
        KINDS,
        RUNS,
        run=np.array([run for _, run in cells], dtype=np.int64),
        arm=np.array([arm for arm, _ in cells], dtype=np.int64),
        flags=np.array(list(cells.values()), dtype=np.int64),
        hand_run=np.array([run for _, run, _ in hand], dtype=np.int64),
        hand_arm=np.array([arm for arm, _, _ in hand], dtype=np.int64),
        hand_reward_micro=np.array([round(value * 1e6) for _, _, value in hand], dtype=np.int64),
    )


@given(st.dictionaries(PLACES, st.sampled_from([flag for flag in EXPECTED if flag is not None])))
def test_every_cell_says_what_its_flags_say(cells: dict[tuple[int, int], int]) -> None:
    made = mapped(cells, [])
    for arm in range(3):
        for run in range(3):
            assert CELL_STATES[made.state[arm, run]] == EXPECTED[cells.get((arm, run))]
    assert sum(made.count(state) for state in CELL_STATES) == 9
    assert np.isnan(made.by_hand).all()


def test_of_several_rewards_by_hand_the_latest_shows() -> None:
    made = mapped({(0, 1): 7}, [(0, 1, 0.25), (2, 0, 0.0), (0, 1, 0.75)])
    assert made.by_hand[0, 1] == 0.75
    assert made.by_hand[2, 0] == 0, "0 is a reward"
    assert int((~np.isnan(made.by_hand)).sum()) == 2


def test_the_newest_runs_are_the_last_columns() -> None:
    made = mapped({(0, 0): 7, (1, 2): 5}, [(1, 2, 1.0)])
    last = made.newest(2)
    assert last.run_nos == (12, 15)
    assert np.array_equal(last.state, made.state[:, 1:])
    assert np.array_equal(last.by_hand, made.by_hand[:, 1:], equal_nan=True)
    assert made.newest(9).run_nos == RUNS


def test_nothing_is_a_map_too() -> None:
    none = np.array([], dtype=np.int64)
    made = heatmap(
        (), (), (), run=none, arm=none, flags=none, hand_run=none, hand_arm=none, hand_reward_micro=none
    )
    assert made.state.shape == (0, 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(-1, 49), st.integers(0, 50), st.sampled_from(ARM_TYPES)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 30),
)
def test_rows_are_the_most_included_or_the_last_used(
    arms: list[tuple[int, int, int, ArmType]], at_most: int
) -> None:
    n_in, last, used = (np.array(column) for column in list(zip(*arms, strict=True))[:3])
    most = chosen_rows(n_in, last, used, by="most in", at_most=at_most)
    latest = chosen_rows(n_in, last, used, by="last used", at_most=at_most)
    for places, value in ((most, n_in), (latest, last)):
        assert len(set(places.tolist())) == min(at_most, len(arms))
        out = np.setdiff1d(np.arange(len(arms)), places)
        assert len(out) == 0 or value[places].min() >= value[out].max()
    kinds = tuple(kind for *_, kind in arms)
    order = grouped(kinds, n_in)
    ranks = [(ARM_TYPES.index(kinds[place]), -int(n_in[place])) for place in order.tolist()]
    assert ranks == sorted(ranks)
