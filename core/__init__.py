"""A Thompson-sampling learner of the components of an agent's prompt, with reasons.

>>> from core import open_learner

Its names are imported at their first use: a client needs no NumPy, and the command's help none of them.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from core.names import homes_in, replacement_of
from core.version import __version__

if TYPE_CHECKING:
    from core.adapters.decorator import with_run
    from core.client import AsyncClient, Client, Unreachable
    from core.doors.asynchronous import AsyncLearnerProtocol, AsyncRun
    from core.doors.protocol import LearnerProtocol
    from core.doors.python import AsyncLearner, Learner, learners, open_learner, restore
    from core.doors.recorder import record_episodes
    from core.doors.running import RunUnderWay, TrialRun
    from core.errors import ArmscopeError
    from core.flows.bundle import BundleAnswer
    from core.frames import RowList, RowTuple
    from core.installed.answer import inventory
    from core.maths.rewards import binary, continuous, dense, penalty, shaped, sparse
    from core.maths.statistics.rewards.lint import lint
    from core.maths.statistics.savings import Savings
    from core.records.achieved import OutcomeAnswer, OutcomeOrder, OutcomesAnswer
    from core.records.agreement import AgreementReport
    from core.records.alert import AlertsView, WebhookRow
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
    from core.records.arm import Arm, Posterior, Prior
    from core.records.arm_summary import ArmVersion, ArmVersions, JudgedArm
    from core.records.audit import AuditEntry, AuditFilter, AuditPage, DenialPage
    from core.records.batch import BatchAnswer, BatchLine, RunRewardAnswer
    from core.records.browser import BrowserAnswer, BrowserRow
    from core.records.candidate import (
        file_candidate,
        memory_candidate,
        section_candidate,
        skill_candidate,
        tool_candidate,
    )
    from core.records.corrections import NoteAnswer
    from core.records.environment import EnvironmentDesign, EnvironmentSummary, ModelComparison
    from core.records.episode import Episode, Finding, Part, Scale, Step
    from core.records.episode_credit import CreditAnswer
    from core.records.episode_page import EpisodeFilter, EpisodePage, EpisodeView
    from core.records.evaluation import EvaluationAnswer
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
    from core.records.learner import LearnerSettings, LearnerSummary
    from core.records.member import MemberAnswer, MemberRow, NewToken, SenderRow, TokenRow
    from core.records.observation import Observation, RewardAnswer
    from core.records.review import (
        NextItem,
        QueueAnswer,
        QueueAsks,
        QueueRow,
        Rubric,
        RubricAnswer,
        RubricRow,
    )
    from core.records.rollout import RolloutRow, TraceRow
    from core.records.run import Call, Inventory, Run, Usage
    from core.records.run_page import RunRow, RunsOfSession, SessionRow
    from core.records.run_query import RunSide, View
    from core.records.run_story import RunStory
    from core.records.search import SearchAnswer, SearchHit
    from core.records.selection import Selection
    from core.records.sides import ComparedSides
    from core.records.status import Status
    from core.records.training import TrainingAnswer
    from core.records.trial import TrialPlanned, TrialRead, TrialRow, TrialStory
    from core.records.verification import Verification
else:
    _OF_EXTRA = {"alembic", "filelock", "numpy", "scipy", "sqlalchemy", "yaml"}

    @cache
    def _homes() -> dict[str, tuple[str, str]]:
        """Return the homes of names, from the imports above."""
        return homes_in(Path(__file__).read_text(encoding="utf-8"))

    def __getattr__(name: str) -> object:
        name = replacement_of(name)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = globals()[name] = getattr(import_module(_homes()[name][0]), name)
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
    "AlertsView",
    "Arm",
    "ArmVersion",
    "ArmVersions",
    "ArmscopeError",
    "AsyncClient",
    "AsyncLearner",
    "AsyncLearnerProtocol",
    "AsyncRun",
    "AuditEntry",
    "AuditFilter",
    "AuditPage",
    "BackupAnswer",
    "BatchAnswer",
    "BatchLine",
    "BrowserAnswer",
    "BrowserRow",
    "BundleAnswer",
    "Call",
    "CarriedAnswer",
    "CarriedItem",
    "Client",
    "CompactAnswer",
    "ComparedSides",
    "CreditAnswer",
    "DenialPage",
    "EnvironmentDesign",
    "EnvironmentSummary",
    "Episode",
    "EpisodeFilter",
    "EpisodeMarked",
    "EpisodePage",
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
    "MemberAnswer",
    "MemberRow",
    "ModelComparison",
    "NewToken",
    "NextItem",
    "NoteAnswer",
    "Observation",
    "OutcomeAnswer",
    "OutcomeOrder",
    "OutcomesAnswer",
    "Part",
    "Posterior",
    "Prior",
    "QueueAnswer",
    "QueueAsks",
    "QueueRow",
    "RecordAnswer",
    "RepairAnswer",
    "ResetAnswer",
    "RestoreAnswer",
    "RewardAnswer",
    "RolloutRow",
    "RowList",
    "RowTuple",
    "Rubric",
    "RubricAnswer",
    "RubricRow",
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
    "SenderRow",
    "SessionRow",
    "SettingAnswer",
    "Status",
    "Step",
    "StepAnswer",
    "StoredInventory",
    "TokenRow",
    "TraceRow",
    "TrainingAnswer",
    "TrialPlanned",
    "TrialRead",
    "TrialRow",
    "TrialRun",
    "TrialStory",
    "UndoAnswer",
    "Unreachable",
    "Usage",
    "Verification",
    "View",
    "WebhookRow",
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
