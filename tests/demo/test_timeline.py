"""When requests come: in order, between the world's ends, in conversations of one model and channel."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.demo.agent import Request, later_requests, requests
from core.demo.world import CHANNELS, END_MS, MODELS, START_MS
from core.records.times import DAY_MS, HOUR_MS


@given(st.integers(min_value=2, max_value=200), st.integers(min_value=0, max_value=2**32))
def test_as_many_as_asked_for_in_the_order_of_time(n_runs: int, seed: int) -> None:
    found = requests(n_runs, np.random.default_rng(seed))
    times = [request.at_ms for request in found]
    assert [request.number for request in found] == list(range(1, n_runs + 1))
    assert times == sorted(times)
    assert START_MS < times[0] <= times[-1] < END_MS
    assert [request.is_farewell for request in found] == [False] * (n_runs - 1) + [True]


@given(st.integers(min_value=1, max_value=400), st.integers(min_value=0, max_value=2**32))
def test_later_requests_follow_at_the_same_pace_with_numbers_of_their_own(n_runs: int, seed: int) -> None:
    since_ms = END_MS + seed
    later = later_requests(n_runs, np.random.default_rng(seed), since_ms)
    times, numbers = [request.at_ms for request in later], [request.number for request in later]
    assert times == sorted(set(times))
    assert numbers == sorted(set(numbers))
    assert since_ms < times[0]
    assert times[-1] - since_ms < (n_runs / 100 + 1 / 4) * DAY_MS
    assert not any(request.is_farewell for request in later)


def test_all_models_and_channels_occur_and_conversations_keep_theirs() -> None:
    found = requests(1_000, np.random.default_rng(0))
    assert {one.model for one in found} == set(MODELS)
    assert {one.channel for one in found} == set(CHANNELS)
    sessions: dict[str, list[Request]] = defaultdict(list)
    for request in requests(1_000, np.random.default_rng(0)):
        sessions[request.session].append(request)
    assert max(map(len, sessions.values())) > 2
    assert all(len({(one.model, one.channel) for one in session}) == 1 for session in sessions.values())


def test_days_are_busier_than_nights() -> None:
    hours = [request.at_ms // HOUR_MS % 24 for request in requests(2_000, np.random.default_rng(0))]
    assert sum(8 <= hour < 18 for hour in hours) > 4 * sum(hour < 6 for hour in hours)
