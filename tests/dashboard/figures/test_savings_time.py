"""Savings over time, and width against pulls: the data behind the drawing."""

from __future__ import annotations

import numpy as np
import pytest

from core.maths.statistics.savings import Savings, savings
from dashboard.figures.chart import Chart
from dashboard.figures.savings_time import money_time, savings_time, tokens_time
from dashboard.figures.theme import LIGHT
from tests.worlds.usage import Counted, billed, sessions_of, usage_of


def saved(*, selected: int = 6_000, n_days: int = 40) -> Savings:
    runs = [
        Counted(run_class=group, tokens=tokens + 37 * (day % 11), hour=24 * (20_000 + day), model="m")
        for day in range(n_days)
        for group, tokens in (("baseline", 9_000), ("selected", selected), ("selected", selected + 100))
    ]
    runs = billed(runs, 3.0)
    sessions = sessions_of(runs) if n_days <= 40 else None
    return savings(usage_of(runs), sessions, baseline_rate=0.1, n_arms=5, priced=("m",))


def line(drawn: Chart) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.asarray(drawn.figure.data[2]["y"])


def test_each_unit_draws_its_own_path() -> None:
    found = saved()
    assert found.money is not None
    percent, tokens, money = (
        savings_time(found.over_time, LIGHT),
        tokens_time(found.tokens, found.over_time, LIGHT),
        money_time(found.money, found.over_time, LIGHT, compact=True),
    )
    assert line(percent)[-1] == pytest.approx(found.overall.saved_percent.value, rel=1e-5)
    assert line(tokens)[-1] == pytest.approx(found.tokens.saved.value, rel=1e-5)
    assert line(money)[-1] == pytest.approx((found.tokens.saved.value or 0) * 3e-6, rel=1e-5)
    for drawn, words, path in (
        (percent, "savings", found.over_time.saved_percent),
        (tokens, "tokens saved", found.tokens.path),
        (money, "money saved", found.money.total.path),
    ):
        assert list(drawn.table)[:3] == ["day, UTC", words, "95% interval"]
        assert f"Cumulative {words} from " in drawn.alt
        np.testing.assert_allclose(line(drawn), path, rtol=1e-6)
        _, _, drawn_line, end = drawn.figure.data
        assert (end["x"].tolist(), end["y"].tolist()) == ([drawn_line["x"][-1]], [drawn_line["y"][-1]])
        (label,) = drawn.figure.layout.annotations
        assert (label.x, label.y) == pytest.approx((end["x"][0], end["y"][0]), rel=1e-6)
    assert tokens.table["tokens saved"][-1] == f"{found.tokens.saved.value:,.0f}"


def test_a_loss_keeps_zero_and_itself_in_the_frame() -> None:
    found = saved(selected=12_000)
    for drawn in (savings_time(found.over_time, LIGHT), tokens_time(found.tokens, found.over_time, LIGHT)):
        low, high = drawn.figure.to_dict()["layout"]["yaxis"]["range"]
        assert low < float(line(drawn)[-1]) < 0 <= high
        ticks = drawn.figure.to_dict()["layout"]["yaxis"]["tickvals"]
        assert 3 <= len(ticks) <= 7
        assert 0 in ticks


@pytest.mark.parametrize("n_days", [0, 1, 900])
def test_any_number_of_days_can_be_drawn(n_days: int) -> None:
    found = saved(n_days=n_days)
    drawn = tokens_time(found.tokens, found.over_time, LIGHT)
    assert len(line(drawn)) == min(n_days, 400)
    assert len(drawn.table["day, UTC"]) == min(n_days, 400)
