"""Reads: rows → records and arrays, one file per subject. No row leaves this package."""

from core.store.reads.arms import (
    ROWS_BY_KEY,
    ArmRow,
    arm_changes,
    arm_columns,
    arm_columns_until,
    arm_counts,
    arm_hours,
    arm_number,
    arm_path,
    arm_row,
    arm_rows,
    hidden_arm_nos,
    history_days,
    listed_arm,
    listed_arms,
    near_keys,
    recent_days,
    sessions_of_loads,
)
from core.store.reads.candidates import candidates
from core.store.reads.ledger import (
    Correction,
    given,
    ledger_of_arm,
    ledger_sums,
    manual_rewards,
    newest_about,
    notes,
    observations,
    resets,
    standing_corrections,
    taken_back,
)
from core.store.reads.log import (
    ImportRow,
    LearnerStateKey,
    SettingRow,
    audit_page,
    heads,
    import_days,
    import_rows,
    learner_moments,
    learners,
    servers,
    setting_rows,
    standing,
)
from core.store.reads.measured import REWARDS_READ, PullsHeld, RewardsRead, pulls_held, rewards_read
from core.store.reads.runs import (
    RunMatch,
    find_run,
    find_runs,
    flags_of,
    included_arms,
    missing_run,
    numbered_runs,
    outcome_of,
    run_count,
    run_of_uid,
)
from core.store.reads.session_moments import RUNS_READ, has_inferred, session_sums
from core.store.reads.sessions import (
    Walk,
    arm_sessions,
    first_days,
    joined_arms,
    latest_in_sessions,
    session_runs,
    walk,
)
from core.store.reads.usage import (
    Totals,
    calls_per_run,
    counts_by_day,
    inclusions_between,
    last_run_ms,
    mix_days,
    pulls_series,
    strata,
    totals,
    unpriced_models,
    usage_columns,
    usage_series,
)
