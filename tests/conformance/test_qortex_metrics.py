"""The metrics that qortex's boards read, by their names, kinds, labels and buckets."""

from __future__ import annotations

import json

from core.flows import queries
from tests.conftest import VECTORS
from tests.doors.http.test_metrics import SEVEN

CONTRACT = VECTORS.parent / "contracts" / "qortex_metrics.json"


def test_the_seven_are_the_contracts() -> None:
    """That each of them is told so is tested beside the door."""
    said = json.loads(CONTRACT.read_text(encoding="utf-8"))["metrics"]
    assert {
        one["name"]: (one["type"].removeprefix("MetricType.").lower(), tuple(one["labels"])) for one in said
    } == SEVEN
    (buckets,) = [one["buckets"] for one in said if one["buckets"]]
    assert list(queries.BUCKETS) == buckets
