"""armscope: what a Thompson-sampling learner believes of the components of an agent's prompt, and why.

>>> from core import open_learner

Its names are imported when they are first asked for: the command's help needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from core.version import __version__

if TYPE_CHECKING:
    from core.client import Client
    from core.doors.asynchronous import AsyncLearner
    from core.doors.python import Learner, learners, open_learner, restore
    from core.doors.recorder import record_episodes
    from core.doors.running import RunUnderWay
    from core.errors import ArmscopeError
    from core.records.arm import Arm, Prior
    from core.records.candidate import (
        file_candidate,
        memory_candidate,
        section_candidate,
        skill_candidate,
        tool_candidate,
    )
    from core.records.episode import Episode, Finding, Part, Scale, Step
    from core.records.evaluation_page import Evaluation, EvaluationFilter
    from core.records.judgement import Judgement
    from core.records.posterior import Posterior
    from core.records.run import Call, Inventory, Run, Usage
    from core.records.selection import Selection
    from core.records.view import View
    from core.rewards import binary, continuous, dense, penalty, shaped, sparse
    from core.statistics.rewards.lint import lint
else:
    _HOMES = {
        "core.client": ("Client",),
        "core.doors.asynchronous": ("AsyncLearner",),
        "core.doors.python": ("Learner", "learners", "open_learner", "restore"),
        "core.doors.recorder": ("record_episodes",),
        "core.doors.running": ("RunUnderWay",),
        "core.errors": ("ArmscopeError",),
        "core.records.arm": ("Arm", "Prior"),
        "core.records.candidate": (
            "file_candidate",
            "memory_candidate",
            "section_candidate",
            "skill_candidate",
            "tool_candidate",
        ),
        "core.records.episode": ("Episode", "Finding", "Part", "Scale", "Step"),
        "core.records.evaluation_page": ("Evaluation", "EvaluationFilter"),
        "core.records.judgement": ("Judgement",),
        "core.records.posterior": ("Posterior",),
        "core.records.run": ("Call", "Inventory", "Run", "Usage"),
        "core.records.selection": ("Selection",),
        "core.records.view": ("View",),
        "core.rewards": ("binary", "continuous", "dense", "penalty", "shaped", "sparse"),
        "core.statistics.rewards.lint": ("lint",),
    }
    _OF_EXTRA = {"alembic", "filelock", "numpy", "scipy", "sqlalchemy"}
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = globals()[name] = getattr(import_module(home), name)
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] not in _OF_EXTRA:
                raise
            raise ImportError(
                f"{name} needs the package {missing.name}, which is not installed. "
                "Install it with: pip install 'armscope-core[learner]'"
            ) from missing
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Arm",
    "ArmscopeError",
    "AsyncLearner",
    "Call",
    "Client",
    "Episode",
    "Evaluation",
    "EvaluationFilter",
    "Finding",
    "Inventory",
    "Judgement",
    "Learner",
    "Part",
    "Posterior",
    "Prior",
    "Run",
    "RunUnderWay",
    "Scale",
    "Selection",
    "Step",
    "Usage",
    "View",
    "__version__",
    "binary",
    "continuous",
    "dense",
    "file_candidate",
    "learners",
    "lint",
    "memory_candidate",
    "open_learner",
    "penalty",
    "record_episodes",
    "restore",
    "section_candidate",
    "shaped",
    "skill_candidate",
    "sparse",
    "tool_candidate",
]
