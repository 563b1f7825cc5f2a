"""What KAIROS's rules come to, said anew from the rules and not by asking the code under test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

_BLANK: Final = re.compile("[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*")


def is_said(text: str | None) -> bool:
    """Whether there is more in a text than JavaScript's white space."""
    return text is not None and _BLANK.fullmatch(text) is None


def score_of(reward: Mapping[str, Any]) -> float:
    """The score that counts: clamped, and by the outcome where none was given."""
    score = reward.get("score")
    if score is None:
        return 1.0 if reward["outcome"] == "success" else 0.0
    return sorted((0.0, score, 1.0))[1] if math.isfinite(score) else 0.0


def flags(reward: Mapping[str, Any]) -> dict[str, bool]:
    """What a stored reward may be exported for, whatever it says of that itself."""
    is_known = is_said(reward.get("rubric_version")) and (
        is_said(reward.get("rater")) or is_said(reward.get("llm_model_id"))
    )
    score = score_of(reward)
    return {
        "exportable_for_sft": is_known and reward["outcome"] == "success" and score >= 0.65,
        "exportable_for_preference": is_known and score >= 0.7,
    }
