"""Reads: what a page asks the flows, once per moment of the learner.

Each rerun reads the learner's frame (and with it the moment) first. Every answer is then kept under database,
learner, moment, question and view, so thirty people on one page cost one read; a write makes a new moment
and with it new keys. The shelf is bounded, the oldest answers go first.
"""

from dashboard.loading.arm import (
    arm_ledger,
    arm_notes,
    arm_path,
    arm_runs,
    as_of,
    near_arms,
)
from dashboard.loading.confidence_page import pulls_needed, unread
from dashboard.loading.data_page import imports, place, preview_undo
from dashboard.loading.questions import (
    belief,
    changes,
    confidence,
    everything,
    inclusion,
    judgements,
    overview,
    preview_reset,
    preview_reward,
    resets,
    rewards,
    savings,
    truth,
    undoers,
)
from dashboard.loading.reading import (
    Reading,
    begin,
    begun_here,
    context_of,
    drawn_once,
    frame_of,
    pictured_once,
    pulse,
    reading,
    settings,
)
from dashboard.loading.runs import run, seen_runs
from dashboard.loading.settings_page import preview_settings, problem_with, setting_changes
from dashboard.loading.shelf import Answer, Shelf

__all__ = [
    "Answer",
    "Reading",
    "Shelf",
    "arm_ledger",
    "arm_notes",
    "arm_path",
    "arm_runs",
    "as_of",
    "begin",
    "begun_here",
    "belief",
    "changes",
    "confidence",
    "context_of",
    "drawn_once",
    "everything",
    "frame_of",
    "imports",
    "inclusion",
    "judgements",
    "near_arms",
    "overview",
    "pictured_once",
    "place",
    "preview_reset",
    "preview_reward",
    "preview_settings",
    "preview_undo",
    "problem_with",
    "pulls_needed",
    "pulse",
    "reading",
    "resets",
    "rewards",
    "run",
    "savings",
    "seen_runs",
    "setting_changes",
    "settings",
    "truth",
    "undoers",
    "unread",
]
