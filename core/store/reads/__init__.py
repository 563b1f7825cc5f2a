"""Reads: rows → records and arrays, one file per subject. Never a row leaves this package."""

from core.store.reads.arms import (
    arm_columns,
    arm_columns_until,
    arm_counts,
    arm_number,
    arm_path,
    arm_row,
    hidden_arm_nos,
    listed_arm,
    near_keys,
)
from core.store.reads.candidates import candidates
from core.store.reads.imports import ImportRow, SettingRow, import_rows, setting_rows
from core.store.reads.ledger import (
    ledger_of_arm,
    newest_about,
    observations,
    resets,
    standing_correction,
)
from core.store.reads.log import audit_entries, learners
from core.store.reads.notes import notes
from core.store.reads.recent import arm_hours, recent_days
from core.store.reads.runs import (
    FoundRun,
    find_run,
    numbered_runs,
    outcome_of,
    run_count,
    run_of_uid,
    run_rows,
)
from core.store.reads.session_runs import session_runs
from core.store.reads.sessions import RUNS_READ, arm_sessions, joined_arms
from core.store.reads.unread import REWARDS_READ, PullsHeld, RewardsRead, pulls_held, rewards_read
from core.store.reads.usage import (
    Totals,
    calls_per_run,
    counts_by_day,
    inclusions_between,
    strata,
    totals,
    usage_columns,
)

__all__ = [
    "REWARDS_READ",
    "RUNS_READ",
    "FoundRun",
    "ImportRow",
    "PullsHeld",
    "RewardsRead",
    "SettingRow",
    "Totals",
    "arm_columns",
    "arm_columns_until",
    "arm_counts",
    "arm_hours",
    "arm_number",
    "arm_path",
    "arm_row",
    "arm_sessions",
    "audit_entries",
    "calls_per_run",
    "candidates",
    "counts_by_day",
    "find_run",
    "hidden_arm_nos",
    "import_rows",
    "inclusions_between",
    "joined_arms",
    "learners",
    "ledger_of_arm",
    "listed_arm",
    "near_keys",
    "newest_about",
    "notes",
    "numbered_runs",
    "observations",
    "outcome_of",
    "pulls_held",
    "recent_days",
    "resets",
    "rewards_read",
    "run_count",
    "run_of_uid",
    "run_rows",
    "session_runs",
    "setting_rows",
    "standing_correction",
    "strata",
    "totals",
    "usage_columns",
]
