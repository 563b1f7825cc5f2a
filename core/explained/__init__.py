"""Explained: a run's story, and what an arm is judged to be → plain words, the same behind every door.

Nothing here is Markdown and nothing is escaped: whoever shows it does that for the ids and excerpts in it.
"""

from core.explained.arm import NOT_OFFERED, chance_words, judgement, of_hundred
from core.explained.run import (
    NONE,
    Decided,
    evidence,
    flip,
    ledger_row,
    not_decided,
    not_offered,
    observed,
    recognised,
    recorded,
    replaced,
    standing,
    verdict,
    why,
)
from core.explained.server import server
