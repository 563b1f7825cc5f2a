"""Queries: each returns a frozen result, computed from a snapshot.

Previews run a write that is rolled back, so other writers wait meanwhile. `verify` notes its time in a file.
"""

from core.flows.queries.arm import (
    ArmInRun,
    ArmLedger,
    ArmObservation,
    ArmPath,
    ArmRuns,
    HistoryMark,
    LedgerCursor,
    arm_ledger,
    arm_path,
    arm_runs,
    arm_versions,
    near_arms,
)
from core.flows.queries.belief import Belief, belief, posteriors
from core.flows.queries.chances import Inclusion, inclusion
from core.flows.queries.environments import (
    EnvironmentStory,
    GroupKind,
    TaskDifficulty,
    compare,
    environment,
    environment_no,
    lint,
    task_difficulty,
    variants,
)
from core.flows.queries.episodes import (
    episode,
    episode_list,
    episode_runs,
    episodes,
    without_episode,
)
from core.flows.queries.evaluations import (
    BiasWatch,
    agreement,
    bias_watch,
    evaluated,
    evaluations,
    page_of_evaluations,
)
from core.flows.queries.evidence import (
    MAX_EVIDENCE_ARMS,
    ChangeEvidence,
    DayShare,
    EvidenceArm,
    Hit,
    Share,
    evidence,
)
from core.flows.queries.frame import DEMO_ORIGIN, Frame, Revision, Visibility, frame, revision, visibility
from core.flows.queries.judgement import (
    LayersView,
    UnreadArm,
    UnreadReport,
    arms,
    confidence,
    judged_arms,
    judged_posteriors,
    judgements,
    layers,
    pulls_needed,
    unread,
)
from core.flows.queries.ledger import acts, changes, notes, repairs, resets, rewards
from core.flows.queries.openclaw import (
    openclaw_config,
    openclaw_posteriors,
    openclaw_summary,
    openclaw_traces,
)
from core.flows.queries.overview import PastImport, alarms, imports, overview, refused
from core.flows.queries.previews import (
    ArmBelief,
    BatchPreview,
    CreditPreview,
    EvaluationPreview,
    LineEffect,
    RepairPreview,
    ResetPreview,
    RewardPreview,
    UndoEffect,
    UndoPreview,
    preview_batch,
    preview_credit,
    preview_evaluation,
    preview_left_out,
    preview_repair,
    preview_reset,
    preview_reward,
    preview_undo,
)
from core.flows.queries.run import run, transcript
from core.flows.queries.runs import (
    SESSIONS,
    RunsView,
    listed_runs,
    listed_sessions,
    runs,
    runs_view,
    runs_without_tokens,
    session,
    sessions,
    sessions_in,
)
from core.flows.queries.savings import savings
from core.flows.queries.search import search
from core.flows.queries.settings import SettingChange, SettingsPreview, preview_settings, setting_changes
from core.flows.queries.sides import compare_sides
from core.flows.queries.status import (
    BUCKETS,
    Budgets,
    Measures,
    Monitor,
    n_denials,
    status,
)
from core.flows.queries.timeseries import METRICS, WINDOWS, Point, SeriesMetric, Window, timeseries
from core.flows.queries.verify import verify
from core.records.agreement import AgreementReport, GraderAgainstRest
from core.records.arm_summary import JudgedArm
from core.records.environment import (
    EnvironmentDesign,
    EnvironmentSummary,
    ModelComparison,
    ModelPair,
    SuccessRate,
)
from core.records.episode_page import CreditView, EpisodeView, StepView
from core.records.parameters import Compared
from core.records.run_story import ArmFlip, RunArm, RunStory
from core.records.status import Status
from core.records.verification import Verification
