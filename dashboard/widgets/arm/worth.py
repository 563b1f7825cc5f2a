"""Worth its tokens: what an arm would have to be worth at its cost, beside what it is."""

from __future__ import annotations

from core.columns import UNKNOWN
from core.flows.look import Belief
from dashboard import loading, sentences, wording
from dashboard.figures.arms import ArmRow
from dashboard.widgets.words import gray, paragraphs, section


def worth(row: ArmRow, known: Belief, place: int) -> None:
    """What it costs, breaks even at and stands at, and how that was found."""
    seen = loading.inclusion()
    chance = seen.arms[row.key]
    cost = int(known.columns.token_cost[place])
    section("Worth its tokens", "in the next run that offers it, with the settings in force")
    rank, n_arms = wording.count(int(known.summary.rank[place])), wording.count(len(known.columns))
    paragraphs(
        sentences.worth(chance, row.mean, None if cost == UNKNOWN else cost),
        f"By its mean it is number **{rank}** of {n_arms} arms.",
        gray(sentences.worth_note(chance, seen)),
    )
