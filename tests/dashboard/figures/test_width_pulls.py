"""Width against pulls: the boxes, the curves and the median behind the drawing."""

from __future__ import annotations

import numpy as np
import pytest

from core.maths.statistics.confidence import Confidence, confidence
from core.maths.statistics.summary import summarise
from dashboard.figures.theme import LIGHT
from dashboard.figures.width_pulls import medians, width_pulls
from tests.worlds.columns import arms


def known(pulls: list[int]) -> Confidence:
    keys = [f"tool:other:t{at:03d}" for at in range(len(pulls))]
    columns = arms(keys, successes=[n // 3 for n in pulls], failures=[n - n // 3 for n in pulls])
    return confidence(columns, summarise(columns))


def test_the_median_is_that_of_the_arms_with_about_as_many_pulls() -> None:
    seen = known([0, 1, 1, 6, 5, 60, 55, 52, 2_000])
    pulls, width = medians(seen)
    assert len(pulls) == len(width) == 4, "no arm without pulls is on a log axis"
    assert width[1] == pytest.approx(np.median(seen.width[[3, 4]]))
    assert width[2] == pytest.approx(np.median(seen.width[[5, 6, 7]]))
    assert (pulls[0], 5 <= pulls[1] <= 6, 50 <= pulls[2] <= 69) == (1.0, True, True)
    assert pulls[3] <= 2_000
    drawn = width_pulls(seen, LIGHT)
    assert "Their median falls from 0.83 at 1 to 0.04 at" in drawn.alt
    dotted = [trace for trace in drawn.figure.data if trace["line"]["dash"] == "dot"]
    np.testing.assert_allclose(dotted[0]["y"], width, rtol=1e-6)


def test_one_class_of_pulls_has_no_path_to_tell() -> None:
    assert "median" not in width_pulls(known([4, 4]), LIGHT).alt
    assert "median" not in width_pulls(known([0]), LIGHT).alt


def test_the_boxes_are_the_documented_widths() -> None:
    shapes = width_pulls(known([1, 30]), LIGHT).figure.layout["shapes"]
    boxes = [(shape["y0"], shape["y1"]) for shape in shapes if shape["type"] == "rect"]
    assert boxes == [(0.40, 0.95), (0.15, 0.40), (0.08, 0.15), (0.0, 0.08)]
