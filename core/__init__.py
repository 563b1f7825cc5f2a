"""armscope: what a Thompson-sampling learner believes of the components of an agent's prompt, and why.

>>> from core import open_learner
"""

from core.doors.python import Learner, open_learner
from core.errors import ArmscopeError
from core.records.arm import Arm, Prior
from core.records.candidate import file_candidate, skill_candidate, tool_candidate
from core.records.posterior import Posterior
from core.records.run import Call, Inventory, Run, Usage
from core.records.selection import Selection
from core.records.view import View

__all__ = [
    "Arm",
    "ArmscopeError",
    "Call",
    "Inventory",
    "Learner",
    "Posterior",
    "Prior",
    "Run",
    "Selection",
    "Usage",
    "View",
    "file_candidate",
    "open_learner",
    "skill_candidate",
    "tool_candidate",
]
