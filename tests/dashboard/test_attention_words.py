"""Rows of the attention list about several arms and about feeds, in words."""

from __future__ import annotations

from typing import Final

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.maths.statistics.change import Cause, CauseKind, Shift
from core.maths.statistics.overview import Attention, SilentFeed, attention_of_causes
from core.records.times import DAY_MS
from dashboard.sentences import overview as sentences
from tests.worlds import a_run

AT_MS: Final = 20_500 * DAY_MS
"""16 February 2026."""

SLACK: Final = SilentFeed(kind="channel", name="slack", days=12, expected=192.4, since_ms=AT_MS)
MARA: Final = SilentFeed(kind="importer", name="mara", days=12, expected=1.2, since_ms=AT_MS)


def shift(name: str, *, fell: bool = True) -> Shift:
    before, after = (0.6, 0.3) if fell else (0.3, 0.6)
    return Shift(
        arm=f"tool:other:{name}",
        since_ms=AT_MS,
        mean_before=before,
        mean_after=after,
        n_before=100,
        n_after=50,
        prob=1e-6,
    )


FELL: Final = tuple(shift(name) for name in "abc")


def cause(kind: CauseKind, shifts: tuple[Shift, ...] = FELL, name: str = "") -> Attention:
    made = Cause(
        kind=kind,
        shifts=shifts,
        since_ms=AT_MS,
        of="" if not name else "model" if kind == "new_model" else "channel",
        name=name,
        before=0.1,
        after=0.6,
    )
    (row,) = attention_of_causes([made])
    return row


def stopped(*feeds: SilentFeed) -> Attention:
    return Attention(kind="feed_silent", severity="warning", count=12, since_ms=AT_MS, feeds=feeds)


ROWS: Final = {
    "one day, all fell": (
        cause("fell_together"),
        "3 arms fell on one day, 16 Feb",
        "the work, the agent or a detector changed; mean 0.30 since, 0.60 before: a, b and c",
    ),
    "one day, some rose": (
        cause("fell_together", (*FELL, shift("d", fell=False))),
        "4 arms changed on one day, 16 Feb",
        "the work, the agent or a detector changed; 3 fell and 1 rose: a, b, c and 1 more",
    ),
    "a new model": (
        cause("new_model", name="m2"),
        "Model m2 is new since 16 Feb",
        "60% of the runs; of 3 arms, 3 fell: a, b and c",
    ),
    "another mix": (
        cause("mix_changed", name="chat"),
        "The mix changed: channel chat 10% → 60% of the runs",
        "since 16 Feb; 3 arms moved with it, but not within a channel or model: a, b and c",
    ),
    "a mix with runs of no channel": (
        cause("mix_changed", FELL[:1], name=""),
        "The mix changed: channel unknown 10% → 60% of the runs",
        "since 16 Feb; 1 arm moved with it, but not within a channel or model: a",
    ),
    "a channel that stopped": (
        stopped(SLACK),
        "No run of channel slack for 12 days",
        "192 runs were expected since 16 Feb; others still arrive",
    ),
    "an importer that stopped": (
        stopped(MARA),
        "No import of importer mara for 12 days",
        "1 import was expected since 16 Feb; others still arrive",
    ),
    "an importer with two imports due": (
        stopped(SilentFeed(kind="importer", name="jo", days=12, expected=2.4, since_ms=AT_MS)),
        "No import of importer jo for 12 days",
        "2 imports were expected since 16 Feb; others still arrive",
    ),
    "no run at all": (
        Attention(kind="silent", severity="warning", count=252, since_ms=AT_MS),
        "No run for 252 days",
        "the newest ended 16 Feb 2026 00:00; do data still arrive?",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_happened_and_how_it_is_known(name: str, context: Context) -> None:
    row, claim, evidence = ROWS[name]
    record_all(context, [a_run("r0")])
    words = sentences.attention(row, queries.savings(context), min_pulls=5, year_of_ms=AT_MS)
    assert (words.claim, words.evidence) == (claim, evidence)
