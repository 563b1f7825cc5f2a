"""Explained: a run's story and an arm's judgement in plain words, the same for every client.

The text is neither Markdown nor escaped. The caller escapes the ids and excerpts in it.
"""

from core.explained.arm import (
    EFFECT,
    EXCLUDED,
    NOT_OFFERED,
    NOT_USED,
    NOT_WEIGHED,
    ONLY_CALLED,
    by_name,
    chance_of,
    chance_words,
    is_excluded,
    judgement,
    limits_words,
    loads,
    measured,
    missing_noun,
    of_hundred,
    picked,
    skill_use,
    used_in,
    versions,
)
from core.explained.machine import server
from core.explained.run import (
    NONE,
    NOT_RECORDED,
    Decided,
    achieved,
    bill,
    evidence,
    flip,
    ledger_row,
    not_decided,
    not_offered,
    observed,
    recognised,
    recorded,
    replaced,
    side,
    sources,
    state,
    verdict,
    why,
)
