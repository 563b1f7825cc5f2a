"""Writes: one flow per act, its answer or its error as a flash that the next rerun shows as text; one file per act.

Acts run in callbacks, before the page is drawn again, so the page that follows already shows the effect.
"""

from dashboard.acting.exports import MadeExport, drop_export, made_export, make_export
from dashboard.acting.flashes import Flash, flashes, last_act
from dashboard.acting.imports import ImportForm, ImportJob, hear_import, running_import, start_import
from dashboard.acting.keeping import back_up, verify
from dashboard.acting.learners import new_learner
from dashboard.acting.notes import send_note
from dashboard.acting.resets import send_reset
from dashboard.acting.rewards import RewardForm, send_reward
from dashboard.acting.settings import send_settings
from dashboard.acting.undoing import page_is_drawn, take_back

__all__ = [
    "Flash",
    "ImportForm",
    "ImportJob",
    "MadeExport",
    "RewardForm",
    "back_up",
    "drop_export",
    "flashes",
    "hear_import",
    "last_act",
    "made_export",
    "make_export",
    "new_learner",
    "page_is_drawn",
    "running_import",
    "send_note",
    "send_reset",
    "send_reward",
    "send_settings",
    "start_import",
    "take_back",
    "verify",
]
