"""Worth its tokens: what an arm would have to be worth at its cost, beside what it is."""

from __future__ import annotations

from core.flows.queries import Belief
from core.records.judgement import Judgement
from dashboard import queries, sentences, wording
from dashboard.reading import reading
from dashboard.widgets.arm.head import token_cost
from dashboard.widgets.words import gray, paragraphs, section


def worth(judged: Judgement, known: Belief, place: int) -> None:
    """What it costs, breaks even at and stands at, and how that was found."""
    here, seen = reading(), queries.inclusion()
    section("Worth its tokens", "in the next run that offers it, with the settings in force")
    rank, n_arms = wording.count(int(known.summary.rank[place])), wording.count(len(known.columns))
    paragraphs(
        sentences.worth(judged, token_cost(known, place), year_of_ms=here.frame.last_at_ms),
        f"By its mean it is number **{rank}** of {n_arms} arms.",
        gray(sentences.worth_note(seen.arms[judged.arm], seen)),
    )
