"""A Thompson-sampling learner of the components of an agent's prompt, with reasons.

>>> from core import open_learner

Its names are imported at their first use: a client needs no NumPy, and the command's help none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from core.deprecation import replacement_of
from core.version import __version__

if TYPE_CHECKING:
    from core.adapters.decorator import with_run
    from core.client import AsyncClient, Client, Unreachable
    from core.doors.asynchronous import AsyncLearnerProtocol, AsyncRun
    from core.doors.protocol import LearnerProtocol
    from core.doors.python import AsyncLearner, Learner, learners, open_learner, restore
    from core.doors.recorder import record_episodes
    from core.doors.running import RunUnderWay
    from core.errors import ArmscopeError
    from core.frames import RowList, RowTuple
    from core.installed.answer import inventory
    from core.records.agreement import AgreementReport
    from core.records.answers import (
        BackupAnswer,
        CompactAnswer,
        EpisodeMarked,
        EraseAnswer,
        ExportAnswer,
        RecordAnswer,
        RepairAnswer,
        ResetAnswer,
        RestoreAnswer,
        ScaleAnswer,
        SettingAnswer,
        StepAnswer,
        UndoAnswer,
    )
    from core.records.arm import Arm, Prior
    from core.records.arm_summary import ArmVersion, ArmVersions, JudgedArm
    from core.records.audit import AuditEntry
    from core.records.batch import BatchAnswer, BatchLine, RunRewardAnswer
    from core.records.browser import BrowserAnswer, BrowserRow
    from core.records.candidate import (
        file_candidate,
        memory_candidate,
        section_candidate,
        skill_candidate,
        tool_candidate,
    )
    from core.records.environment import EnvironmentDesign, EnvironmentSummary, ModelComparison
    from core.records.episode import Episode, Finding, Part, Scale, Step
    from core.records.episode_credit import CreditAnswer
    from core.records.episode_page import EpisodeView
    from core.records.evaluation_page import Evaluation, EvaluationFilter
    from core.records.import_answer import ImportAnswer
    from core.records.inventory import (
        CarriedAnswer,
        CarriedItem,
        InstalledItem,
        ItemUse,
        MachineInventory,
        StoredInventory,
    )
    from core.records.judgement import JudgedPosterior, Judgement
    from core.records.judging import EvaluationAnswer
    from core.records.learner import LearnerSettings, LearnerSummary
    from core.records.note import NoteAnswer
    from core.records.observation import Observation
    from core.records.posterior import Posterior
    from core.records.reward import RewardAnswer
    from core.records.run import Call, Inventory, Run, Usage
    from core.records.run_page import RunRow, RunsOfSession, SessionRow
    from core.records.run_query import RunSide
    from core.records.run_story import RunStory
    from core.records.search import SearchAnswer, SearchHit
    from core.records.selection import Selection
    from core.records.sides import ComparedSides
    from core.records.status import Status
    from core.records.training import TrainingAnswer
    from core.records.verification import Verification
    from core.records.view import View
    from core.rewards import binary, continuous, dense, penalty, shaped, sparse
    from core.statistics.rewards.lint import lint
    from core.statistics.savings import Savings
else:
    _HOMES = {
        "core.adapters.decorator": ("with_run",),
        "core.client": (
            "AsyncClient",
            "Client",
            "Unreachable",
        ),
        "core.doors.asynchronous": (
            "AsyncLearnerProtocol",
            "AsyncRun",
        ),
        "core.doors.protocol": ("LearnerProtocol",),
        "core.doors.python": (
            "AsyncLearner",
            "Learner",
            "learners",
            "open_learner",
            "restore",
        ),
        "core.doors.recorder": ("record_episodes",),
        "core.doors.running": ("RunUnderWay",),
        "core.errors": ("ArmscopeError",),
        "core.frames": (
            "RowList",
            "RowTuple",
        ),
        "core.records.agreement": ("AgreementReport",),
        "core.records.answers": (
            "BackupAnswer",
            "CompactAnswer",
            "EpisodeMarked",
            "EraseAnswer",
            "ExportAnswer",
            "RecordAnswer",
            "RepairAnswer",
            "ResetAnswer",
            "RestoreAnswer",
            "ScaleAnswer",
            "SettingAnswer",
            "StepAnswer",
            "UndoAnswer",
        ),
        "core.records.arm": (
            "Arm",
            "Prior",
        ),
        "core.records.arm_summary": ("ArmVersion", "ArmVersions", "JudgedArm"),
        "core.records.audit": ("AuditEntry",),
        "core.records.batch": (
            "BatchAnswer",
            "BatchLine",
            "RunRewardAnswer",
        ),
        "core.records.candidate": (
            "file_candidate",
            "memory_candidate",
            "section_candidate",
            "skill_candidate",
            "tool_candidate",
        ),
        "core.records.environment": (
            "EnvironmentDesign",
            "EnvironmentSummary",
            "ModelComparison",
        ),
        "core.records.episode": (
            "Episode",
            "Finding",
            "Part",
            "Scale",
            "Step",
        ),
        "core.records.episode_credit": ("CreditAnswer",),
        "core.records.episode_page": ("EpisodeView",),
        "core.records.evaluation_page": (
            "Evaluation",
            "EvaluationFilter",
        ),
        "core.records.import_answer": ("ImportAnswer",),
        "core.installed.answer": ("inventory",),
        "core.records.inventory": (
            "CarriedAnswer",
            "CarriedItem",
            "InstalledItem",
            "ItemUse",
            "MachineInventory",
            "StoredInventory",
        ),
        "core.records.browser": ("BrowserAnswer", "BrowserRow"),
        "core.records.judgement": (
            "JudgedPosterior",
            "Judgement",
        ),
        "core.records.judging": ("EvaluationAnswer",),
        "core.records.learner": (
            "LearnerSettings",
            "LearnerSummary",
        ),
        "core.records.note": ("NoteAnswer",),
        "core.records.observation": ("Observation",),
        "core.records.posterior": ("Posterior",),
        "core.records.reward": ("RewardAnswer",),
        "core.records.run": (
            "Call",
            "Inventory",
            "Run",
            "Usage",
        ),
        "core.records.run_page": ("RunRow", "RunsOfSession", "SessionRow"),
        "core.records.run_query": ("RunSide",),
        "core.records.run_story": ("RunStory",),
        "core.records.search": ("SearchAnswer", "SearchHit"),
        "core.records.sides": ("ComparedSides",),
        "core.records.selection": ("Selection",),
        "core.records.status": ("Status",),
        "core.records.training": ("TrainingAnswer",),
        "core.records.verification": ("Verification",),
        "core.records.view": ("View",),
        "core.rewards": (
            "binary",
            "continuous",
            "dense",
            "penalty",
            "shaped",
            "sparse",
        ),
        "core.statistics.rewards.lint": ("lint",),
        "core.statistics.savings": ("Savings",),
    }
    _OF_EXTRA = {"alembic", "filelock", "numpy", "scipy", "sqlalchemy", "yaml"}
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> object:
        name = replacement_of(name)
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = globals()[name] = getattr(import_module(home), name)
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] not in _OF_EXTRA:
                raise
            package = "armscope" if missing.name == "yaml" else "'armscope-core[learner]'"
            raise ImportError(
                f"{name} needs the package {missing.name}, which is not installed. "
                f"Install it with: pip install {package}"
            ) from missing
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AgreementReport",
    "Arm",
    "ArmVersion",
    "ArmVersions",
    "ArmscopeError",
    "AsyncClient",
    "AsyncLearner",
    "AsyncLearnerProtocol",
    "AsyncRun",
    "AuditEntry",
    "BackupAnswer",
    "BatchAnswer",
    "BatchLine",
    "BrowserAnswer",
    "BrowserRow",
    "Call",
    "CarriedAnswer",
    "CarriedItem",
    "Client",
    "CompactAnswer",
    "ComparedSides",
    "CreditAnswer",
    "EnvironmentDesign",
    "EnvironmentSummary",
    "Episode",
    "EpisodeMarked",
    "EpisodeView",
    "EraseAnswer",
    "Evaluation",
    "EvaluationAnswer",
    "EvaluationFilter",
    "ExportAnswer",
    "Finding",
    "ImportAnswer",
    "InstalledItem",
    "Inventory",
    "ItemUse",
    "JudgedArm",
    "JudgedPosterior",
    "Judgement",
    "Learner",
    "LearnerProtocol",
    "LearnerSettings",
    "LearnerSummary",
    "MachineInventory",
    "ModelComparison",
    "NoteAnswer",
    "Observation",
    "Part",
    "Posterior",
    "Prior",
    "RecordAnswer",
    "RepairAnswer",
    "ResetAnswer",
    "RestoreAnswer",
    "RewardAnswer",
    "RowList",
    "RowTuple",
    "Run",
    "RunRewardAnswer",
    "RunRow",
    "RunSide",
    "RunStory",
    "RunUnderWay",
    "RunsOfSession",
    "Savings",
    "Scale",
    "ScaleAnswer",
    "SearchAnswer",
    "SearchHit",
    "Selection",
    "SessionRow",
    "SettingAnswer",
    "Status",
    "Step",
    "StepAnswer",
    "StoredInventory",
    "TrainingAnswer",
    "UndoAnswer",
    "Unreachable",
    "Usage",
    "Verification",
    "View",
    "__version__",
    "binary",
    "continuous",
    "dense",
    "file_candidate",
    "inventory",
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
    "with_run",
]
