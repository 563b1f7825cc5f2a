"""Explained: a run's story and an arm's judgement in plain words, the same for every client.

The text is neither Markdown nor escaped. The caller escapes the ids and excerpts in it.
"""

from core.explained.arm import (
    EXCLUDED,
    NOT_OFFERED,
    NOT_WEIGHED,
    ONLY_CALLED,
    PICKED,
    by_name,
    chance_of,
    chance_words,
    is_excluded,
    judgement,
    loads,
    missing_noun,
    of_hundred,
    skill_use,
    used_in,
    versions,
)
from core.explained.run import (
    NONE,
    Decided,
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
    sources,
    state,
    verdict,
    why,
)
from core.explained.server import server
