"""Story of a run: why each arm was in the prompt or left out, as a document."""

from __future__ import annotations

import msgspec

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.records.times import iso


def document(context: Context, answer: queries.RunStory) -> dict[str, object]:  # noqa: ARG001
    """Return a run's story with the words of its page."""
    chosen = answer.selection
    return {
        **msgspec.to_builtins(answer.facts),
        "ended_at": iso(answer.facts.at_ms),
        "verdict": explained.verdict(answer),
        "selection": None
        if chosen is None
        else {
            name: getattr(chosen, name)
            for name in ("seed", "budget_tokens", "baseline_prob", "settings_hash")
        }
        | ({} if chosen.held_since_ms is msgspec.UNSET else {"held_since": iso(chosen.held_since_ms)}),
        "replays": answer.replays,
        "arms": [
            {
                "arm": arm.arm,
                "in_prompt": arm.in_prompt,
                "reason": arm.reason,
                "why": explained.why(arm),
                "rank": arm.rank,
                "draw": arm.draw,
                "token_cost": arm.token_cost,
                "budget_left": arm.budget_left,
                "referenced": arm.referenced,
                "where": arm.where,
                "excerpt": arm.excerpt,
                "reward": arm.reward,
                "by_hand": [msgspec.to_builtins(row) for row in arm.by_hand],
                "flip": explained.flip(arm, answer),
            }
            for arm in answer.arms
        ],
        "guidance": answer.guidance,
        "older": answer.older,
        "newer": answer.newer,
    }
