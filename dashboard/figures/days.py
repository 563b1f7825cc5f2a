"""The axis of days that figures over time share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from core.columns import Ints
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.theme import Tokens

_TICKS: Final = 4
SELECTS: Final[Mapping[str, str]] = {"dragmode": "select", "selectdirection": "h"}
"""Layout of figures over days, where a horizontal selection sets the span."""


def day_axis(look: Tokens, days: Ints) -> dict[str, Any]:
    """Return an axis from the first day to the last, as days since 1970, in UTC; with room at its ends, or bare.

    >>> axis = day_axis(theme.LIGHT, np.array([20_000, 20_001], dtype=np.int64))
    >>> axis["tickvals"], axis["ticktext"]
    ([20000, 20001], ['4 Oct', '5 Oct'])
    """
    if not len(days):
        return theme.axis(look, title="day, UTC")
    first, last = int(days[0]), int(days[-1])
    ticks = np.unique(np.linspace(first, last, min(_TICKS, last - first + 1)).astype(np.int64))
    room = 0.02 * (last - first) + 0.5
    return theme.axis(
        look,
        title="day, UTC",
        range=[first - room, last + room],
        tickmode="array",
        tickvals=[int(tick) for tick in ticks],
        ticktext=[wording.day(int(tick) * DAY_MS, year_of_ms=last * DAY_MS) for tick in ticks],
    )
