from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.posterior.bands import TYPICAL_WIDTHS, band_index, pulls_to_next, typical_width_below
from core.records.arm import BAND_FLOORS, BANDS


@given(st.integers(min_value=0, max_value=10**12))
def test_the_floor_of_the_next_band_is_where_pulls_to_next_points(pulls: int) -> None:
    band = int(band_index(np.array([pulls]))[0])
    missing = int(pulls_to_next(np.array([pulls]))[0])
    assert pulls >= BAND_FLOORS[band]
    if band == len(BANDS) - 1:
        assert missing == 0
    else:
        assert pulls + missing == BAND_FLOORS[band + 1]
        assert int(band_index(np.array([pulls + missing]))[0]) == band + 1


def test_every_band_names_its_width() -> None:
    assert tuple(TYPICAL_WIDTHS) == BANDS
    assert typical_width_below(np.arange(5)).tolist() == [np.inf, np.inf, 0.40, 0.15, 0.08]


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pulls must be 0 or more, got -1"):
        band_index(np.array([3, -1]))
    assert band_index(np.array([], dtype=np.int64)).tolist() == []
