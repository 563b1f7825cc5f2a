CREATE TABLE learner_name (
    learner_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    CONSTRAINT pk_learner_name PRIMARY KEY (learner_id),
    CONSTRAINT uq_learner_name_name UNIQUE (name)
);

CREATE TABLE learner (
    learner_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    settings TEXT NOT NULL,
    revision BIGINT DEFAULT 0 NOT NULL,
    token BIGINT DEFAULT 0 NOT NULL,
    staged_import_no BIGINT DEFAULT 0 NOT NULL,
    staged_revision BIGINT DEFAULT 0 NOT NULL,
    staged_parts BIGINT DEFAULT 0 NOT NULL,
    digest_key TEXT DEFAULT '' NOT NULL,
    next_arm_no BIGINT DEFAULT 1 NOT NULL,
    next_run_no BIGINT DEFAULT 1 NOT NULL,
    next_observation_no BIGINT DEFAULT 1 NOT NULL,
    next_reset_no BIGINT DEFAULT 1 NOT NULL,
    next_import_no BIGINT DEFAULT 1 NOT NULL,
    next_setting_no BIGINT DEFAULT 1 NOT NULL,
    next_undo_no BIGINT DEFAULT 1 NOT NULL,
    next_note_no BIGINT DEFAULT 1 NOT NULL,
    next_audit_no BIGINT DEFAULT 1 NOT NULL,
    next_adapter_no BIGINT DEFAULT 1 NOT NULL,
    next_layer_no BIGINT DEFAULT 1 NOT NULL,
    next_execution_no BIGINT DEFAULT 1 NOT NULL,
    next_rubric_no BIGINT DEFAULT 1 NOT NULL,
    next_evaluation_no BIGINT DEFAULT 1 NOT NULL,
    next_choice_no BIGINT DEFAULT 1 NOT NULL,
    next_review_queue_no BIGINT DEFAULT 1 NOT NULL,
    next_review_aside_no BIGINT DEFAULT 1 NOT NULL,
    next_member_no BIGINT DEFAULT 1 NOT NULL,
    next_token_no BIGINT DEFAULT 1 NOT NULL,
    next_offer_no BIGINT DEFAULT 1 NOT NULL,
    next_agent_session_no BIGINT DEFAULT 1 NOT NULL,
    next_webhook_no BIGINT DEFAULT 1 NOT NULL,
    next_alert_no BIGINT DEFAULT 1 NOT NULL,
    next_alert_message_no BIGINT DEFAULT 1 NOT NULL,
    next_environment_no BIGINT DEFAULT 1 NOT NULL,
    next_scale_no BIGINT DEFAULT 1 NOT NULL,
    next_episode_no BIGINT DEFAULT 1 NOT NULL,
    next_episode_credit_no BIGINT DEFAULT 1 NOT NULL,
    CONSTRAINT pk_learner PRIMARY KEY (learner_id),
    CONSTRAINT uq_learner_name UNIQUE (name)
);

CREATE TABLE run (
    learner_id INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    format TEXT NOT NULL,
    unit TEXT NOT NULL,
    rank BIGINT NOT NULL,
    trace BIGINT NOT NULL,
    digest BIGINT NOT NULL,
    session TEXT,
    at_ms BIGINT,
    naive_time BIGINT NOT NULL,
    provider TEXT,
    model TEXT,
    channel TEXT,
    class TEXT NOT NULL,
    phase TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    tokens BIGINT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cache_read_tokens BIGINT,
    cache_write_tokens BIGINT,
    duration_ms BIGINT,
    prompt_chars BIGINT,
    n_calls BIGINT NOT NULL,
    n_real_calls BIGINT NOT NULL,
    reward FLOAT,
    inventory TEXT NOT NULL,
    not_offered TEXT,
    choice TEXT,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    session_key BIGINT,
    CONSTRAINT pk_run PRIMARY KEY (learner_id, run_no),
    CONSTRAINT uq_run_learner_id_uid UNIQUE (learner_id, uid)
)
 WITHOUT ROWID;

CREATE INDEX ix_run_session ON run (learner_id, session_key) WHERE session_key IS NOT NULL;

CREATE INDEX ix_run_time ON run (learner_id, at_ms);

CREATE TABLE outcome (
    learner_id INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    flags BIGINT NOT NULL,
    token_cost BIGINT NOT NULL,
    CONSTRAINT pk_outcome PRIMARY KEY (learner_id, run_no, arm_no)
)
 WITHOUT ROWID;

CREATE TABLE decision (
    learner_id INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    reason TEXT NOT NULL,
    rank BIGINT NOT NULL,
    token_cost BIGINT NOT NULL,
    draw FLOAT,
    budget_left BIGINT,
    CONSTRAINT pk_decision PRIMARY KEY (learner_id, run_no, arm_no)
)
 WITHOUT ROWID;

CREATE TABLE evidence (
    learner_id INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    place TEXT NOT NULL,
    excerpt TEXT,
    CONSTRAINT pk_evidence PRIMARY KEY (learner_id, run_no, arm_no)
)
 WITHOUT ROWID;

CREATE TABLE observation (
    learner_id INTEGER NOT NULL,
    observation_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    arm_no BIGINT NOT NULL,
    run_no BIGINT NOT NULL,
    success_micro BIGINT NOT NULL,
    failure_micro BIGINT NOT NULL,
    pulls BIGINT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    evaluation_no BIGINT DEFAULT 0 NOT NULL,
    episode_credit_no BIGINT DEFAULT 0 NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_observation PRIMARY KEY (learner_id, observation_no),
    CONSTRAINT ck_observation_amounts CHECK (success_micro >= 0 AND failure_micro >= 0 AND pulls >= 0)
)
 WITHOUT ROWID;

CREATE INDEX ix_observation_credit ON observation (learner_id, episode_credit_no) WHERE episode_credit_no <> 0;

CREATE INDEX ix_observation_arm ON observation (learner_id, arm_no, at_ms);

CREATE UNIQUE INDEX uq_observation_uid ON observation (learner_id, uid) WHERE uid <> '';

CREATE INDEX ix_observation_run ON observation (learner_id, run_no) WHERE run_no <> 0;

CREATE TABLE training_pair (
    learner_id INTEGER NOT NULL,
    execution_no BIGINT NOT NULL,
    layer_no BIGINT NOT NULL,
    layer_index BIGINT NOT NULL,
    digest TEXT NOT NULL,
    instruction TEXT,
    response TEXT,
    CONSTRAINT pk_training_pair PRIMARY KEY (learner_id, execution_no, layer_no)
)
 WITHOUT ROWID;

CREATE INDEX ix_training_pair_digest ON training_pair (learner_id, digest) WHERE digest <> '';

CREATE INDEX ix_training_pair_layer ON training_pair (learner_id, layer_no);

CREATE TABLE credit (
    learner_id INTEGER NOT NULL,
    evaluation_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    weight_micro BIGINT NOT NULL,
    CONSTRAINT pk_credit PRIMARY KEY (learner_id, evaluation_no, arm_no)
)
 WITHOUT ROWID;

CREATE TABLE review_item (
    learner_id INTEGER NOT NULL,
    review_queue_no BIGINT NOT NULL,
    item_no BIGINT NOT NULL,
    layer_no BIGINT NOT NULL,
    execution_no BIGINT NOT NULL,
    run_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    why TEXT NOT NULL,
    control TEXT NOT NULL,
    assigned_to TEXT NOT NULL,
    CONSTRAINT pk_review_item PRIMARY KEY (learner_id, review_queue_no, item_no)
)
 WITHOUT ROWID;

CREATE INDEX ix_review_item_subject ON review_item (learner_id, execution_no, run_no, arm_no);

CREATE TABLE review_hold (
    learner_id INTEGER NOT NULL,
    review_queue_no BIGINT NOT NULL,
    item_no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    until_ms BIGINT NOT NULL,
    repeats BIGINT NOT NULL,
    CONSTRAINT pk_review_hold PRIMARY KEY (learner_id, review_queue_no, item_no, actor)
)
 WITHOUT ROWID;

CREATE TABLE review_skip (
    learner_id INTEGER NOT NULL,
    review_queue_no BIGINT NOT NULL,
    item_no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    later BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    CONSTRAINT pk_review_skip PRIMARY KEY (learner_id, review_queue_no, item_no, actor)
)
 WITHOUT ROWID;

CREATE TABLE review_draft (
    learner_id INTEGER NOT NULL,
    review_queue_no BIGINT NOT NULL,
    item_no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    fields TEXT NOT NULL,
    until_ms BIGINT NOT NULL,
    CONSTRAINT pk_review_draft PRIMARY KEY (learner_id, review_queue_no, item_no, actor)
)
 WITHOUT ROWID;

CREATE TABLE review_repeat (
    learner_id INTEGER NOT NULL,
    review_queue_no BIGINT NOT NULL,
    item_no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    first_no BIGINT NOT NULL,
    second_no BIGINT NOT NULL,
    CONSTRAINT pk_review_repeat PRIMARY KEY (learner_id, review_queue_no, item_no, actor)
)
 WITHOUT ROWID;

CREATE TABLE offer_arm (
    learner_id INTEGER NOT NULL,
    arm_no BIGINT NOT NULL,
    offer_no BIGINT NOT NULL,
    CONSTRAINT pk_offer_arm PRIMARY KEY (learner_id, arm_no, offer_no)
)
 WITHOUT ROWID;

CREATE INDEX ix_offer_arm_offer ON offer_arm (learner_id, offer_no);

CREATE TABLE span (
    learner_id INTEGER NOT NULL,
    trace TEXT NOT NULL,
    uid TEXT NOT NULL,
    content BLOB NOT NULL,
    CONSTRAINT pk_span PRIMARY KEY (learner_id, trace, uid)
)
 WITHOUT ROWID;

CREATE TABLE rollout_message (
    learner_id INTEGER NOT NULL,
    rollout TEXT NOT NULL,
    place BIGINT NOT NULL,
    content TEXT NOT NULL,
    CONSTRAINT pk_rollout_message PRIMARY KEY (learner_id, rollout, place)
)
 WITHOUT ROWID;

CREATE TABLE step (
    learner_id INTEGER NOT NULL,
    episode_no BIGINT NOT NULL,
    step_no BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    reward FLOAT,
    finished BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    at_ms BIGINT,
    n_chars_in BIGINT,
    n_chars_out BIGINT,
    args_digest TEXT,
    meta_digest TEXT,
    note TEXT,
    extra TEXT,
    CONSTRAINT pk_step PRIMARY KEY (learner_id, episode_no, step_no)
)
 WITHOUT ROWID;

CREATE TABLE step_text (
    learner_id INTEGER NOT NULL,
    episode_no BIGINT NOT NULL,
    step_no BIGINT NOT NULL,
    digest BIGINT NOT NULL,
    asked TEXT,
    answered TEXT,
    CONSTRAINT pk_step_text PRIMARY KEY (learner_id, episode_no, step_no, digest)
)
 WITHOUT ROWID;

CREATE TABLE episode_part (
    learner_id INTEGER NOT NULL,
    episode_no BIGINT NOT NULL,
    name TEXT NOT NULL,
    value FLOAT NOT NULL,
    kind TEXT NOT NULL,
    CONSTRAINT pk_episode_part PRIMARY KEY (learner_id, episode_no, name)
)
 WITHOUT ROWID;

CREATE TABLE episode_run (
    learner_id INTEGER NOT NULL,
    episode_no BIGINT NOT NULL,
    run_no BIGINT NOT NULL,
    CONSTRAINT pk_episode_run PRIMARY KEY (learner_id, episode_no, run_no)
)
 WITHOUT ROWID;

CREATE INDEX ix_episode_run ON episode_run (learner_id, run_no);

CREATE TABLE environment_day (
    learner_id INTEGER NOT NULL,
    environment_no BIGINT NOT NULL,
    day BIGINT NOT NULL,
    split TEXT NOT NULL,
    variant TEXT NOT NULL,
    model TEXT NOT NULL,
    n BIGINT NOT NULL,
    n_paid BIGINT NOT NULL,
    n_finished BIGINT NOT NULL,
    successes BIGINT NOT NULL,
    reward_sum TEXT NOT NULL,
    reward_squares TEXT NOT NULL,
    CONSTRAINT pk_environment_day PRIMARY KEY (learner_id, environment_no, day, split, variant, model)
)
 WITHOUT ROWID;

CREATE TABLE environment_task (
    learner_id INTEGER NOT NULL,
    environment_no BIGINT NOT NULL,
    digest TEXT NOT NULL,
    split TEXT,
    task TEXT,
    variant TEXT,
    model TEXT,
    finished BIGINT NOT NULL,
    total_text TEXT,
    final_text TEXT,
    n BIGINT NOT NULL,
    CONSTRAINT pk_environment_task PRIMARY KEY (learner_id, environment_no, digest)
)
 WITHOUT ROWID;

CREATE TABLE audit (
    learner_id INTEGER NOT NULL,
    audit_no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    act TEXT,
    detail TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (learner_id, audit_no)
)
 WITHOUT ROWID;

CREATE TABLE arm_hour (
    learner_id INTEGER NOT NULL,
    hour BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    inclusions BIGINT NOT NULL,
    pulls BIGINT NOT NULL,
    success_micro BIGINT NOT NULL,
    failure_micro BIGINT NOT NULL,
    part_micro BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_arm_hour PRIMARY KEY (learner_id, hour, arm_no, epoch)
)
 WITHOUT ROWID;

CREATE TABLE arm_day (
    learner_id INTEGER NOT NULL,
    arm_no BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    day BIGINT NOT NULL,
    inclusions BIGINT NOT NULL,
    pulls BIGINT NOT NULL,
    success_micro BIGINT NOT NULL,
    failure_micro BIGINT NOT NULL,
    part_micro BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_arm_day PRIMARY KEY (learner_id, arm_no, epoch, day)
)
 WITHOUT ROWID;

CREATE TABLE usage_hour (
    learner_id INTEGER NOT NULL,
    hour BIGINT NOT NULL,
    class TEXT NOT NULL,
    model TEXT NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    prob_micro BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    n BIGINT NOT NULL,
    n_truncated BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    tokens_squared_high BIGINT NOT NULL,
    tokens_squared_low BIGINT NOT NULL,
    log_micro BIGINT NOT NULL,
    log_squared_micro BIGINT NOT NULL,
    n_timed BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    duration_squared_high BIGINT NOT NULL,
    duration_squared_low BIGINT NOT NULL,
    CONSTRAINT pk_usage_hour PRIMARY KEY (learner_id, hour, class, model, channel, status, outcome, prob_micro, bucket)
)
 WITHOUT ROWID;

CREATE TABLE usage_day (
    learner_id INTEGER NOT NULL,
    day BIGINT NOT NULL,
    class TEXT NOT NULL,
    model TEXT NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    prob_micro BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    n BIGINT NOT NULL,
    n_truncated BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    tokens_squared_high BIGINT NOT NULL,
    tokens_squared_low BIGINT NOT NULL,
    log_micro BIGINT NOT NULL,
    log_squared_micro BIGINT NOT NULL,
    n_timed BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    duration_squared_high BIGINT NOT NULL,
    duration_squared_low BIGINT NOT NULL,
    CONSTRAINT pk_usage_day PRIMARY KEY (learner_id, day, class, model, channel, status, outcome, prob_micro, bucket)
)
 WITHOUT ROWID;

CREATE TABLE staged_hour (
    learner_id INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    inclusions BIGINT NOT NULL,
    pulls BIGINT NOT NULL,
    success_micro BIGINT NOT NULL,
    failure_micro BIGINT NOT NULL,
    part_micro BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_staged_hour PRIMARY KEY (learner_id, epoch, hour, arm_no)
)
 WITHOUT ROWID;

CREATE TABLE staged_day (
    learner_id INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    day BIGINT NOT NULL,
    inclusions BIGINT NOT NULL,
    pulls BIGINT NOT NULL,
    success_micro BIGINT NOT NULL,
    failure_micro BIGINT NOT NULL,
    part_micro BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_staged_day PRIMARY KEY (learner_id, epoch, arm_no, day)
)
 WITHOUT ROWID;

CREATE TABLE staged_usage (
    learner_id INTEGER NOT NULL,
    hour BIGINT NOT NULL,
    class TEXT NOT NULL,
    model TEXT NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    prob_micro BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    n BIGINT NOT NULL,
    n_truncated BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    tokens_squared_high BIGINT NOT NULL,
    tokens_squared_low BIGINT NOT NULL,
    log_micro BIGINT NOT NULL,
    log_squared_micro BIGINT NOT NULL,
    n_timed BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    duration_squared_high BIGINT NOT NULL,
    duration_squared_low BIGINT NOT NULL,
    CONSTRAINT pk_staged_usage PRIMARY KEY (learner_id, hour, class, model, channel, status, outcome, prob_micro, bucket)
)
 WITHOUT ROWID;

CREATE TABLE arm (
    learner_id INTEGER NOT NULL,
    arm_no BIGINT NOT NULL,
    "key" TEXT NOT NULL,
    type TEXT NOT NULL,
    label TEXT,
    token_cost BIGINT,
    declared BIGINT NOT NULL,
    prior_alpha_micro BIGINT,
    prior_beta_micro BIGINT,
    CONSTRAINT pk_arm PRIMARY KEY (learner_id, arm_no),
    CONSTRAINT uq_arm_learner_id_key UNIQUE (learner_id, "key"),
    CONSTRAINT ck_arm_prior_pair CHECK ((prior_alpha_micro IS NULL) = (prior_beta_micro IS NULL)),
    CONSTRAINT fk_arm_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE provenance (
    learner_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    no BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    rank BIGINT DEFAULT 0 NOT NULL,
    trace BIGINT DEFAULT 0 NOT NULL,
    digest BIGINT DEFAULT 0 NOT NULL,
    said TEXT,
    CONSTRAINT pk_provenance PRIMARY KEY (learner_id, kind, no, import_no),
    CONSTRAINT fk_provenance_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE version (
    learner_id INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    digest BIGINT NOT NULL,
    payload BLOB NOT NULL,
    CONSTRAINT pk_version PRIMARY KEY (learner_id, run_no, digest),
    CONSTRAINT fk_version_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE adapter (
    learner_id INTEGER NOT NULL,
    adapter_no BIGINT NOT NULL,
    uri TEXT NOT NULL,
    name TEXT,
    version TEXT,
    CONSTRAINT pk_adapter PRIMARY KEY (learner_id, adapter_no),
    CONSTRAINT uq_adapter_learner_id_uri UNIQUE (learner_id, uri),
    CONSTRAINT fk_adapter_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE layer (
    learner_id INTEGER NOT NULL,
    layer_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    adapter_no BIGINT NOT NULL,
    layer_index BIGINT NOT NULL,
    label TEXT,
    task TEXT,
    type TEXT,
    domain TEXT,
    tags TEXT NOT NULL,
    bare BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    CONSTRAINT pk_layer PRIMARY KEY (learner_id, layer_no),
    CONSTRAINT uq_layer_learner_id_uid UNIQUE (learner_id, uid),
    CONSTRAINT fk_layer_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_layer_adapter ON layer (learner_id, adapter_no, layer_index);

CREATE TABLE execution (
    learner_id INTEGER NOT NULL,
    execution_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    adapter_no BIGINT NOT NULL,
    run_no BIGINT NOT NULL,
    session TEXT,
    at_ms BIGINT,
    bare BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    CONSTRAINT pk_execution PRIMARY KEY (learner_id, execution_no),
    CONSTRAINT uq_execution_learner_id_uid UNIQUE (learner_id, uid),
    CONSTRAINT fk_execution_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_execution_run ON execution (learner_id, run_no) WHERE run_no <> 0;

CREATE TABLE rubric (
    learner_id INTEGER NOT NULL,
    rubric_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    version TEXT NOT NULL,
    content TEXT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_rubric PRIMARY KEY (learner_id, rubric_no),
    CONSTRAINT fk_rubric_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_rubric_version ON rubric (learner_id, version);

CREATE TABLE evaluation (
    learner_id INTEGER NOT NULL,
    evaluation_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    layer_no BIGINT NOT NULL,
    execution_no BIGINT NOT NULL,
    run_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    rater TEXT NOT NULL,
    model TEXT NOT NULL,
    rubric TEXT NOT NULL,
    blank BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    score FLOAT,
    feedback TEXT,
    claimed_by TEXT DEFAULT '' NOT NULL,
    mover TEXT NOT NULL,
    supersedes BIGINT NOT NULL,
    counts BIGINT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_evaluation PRIMARY KEY (learner_id, evaluation_no),
    CONSTRAINT ck_evaluation_outcome CHECK (outcome IN ('success', 'failure')),
    CONSTRAINT fk_evaluation_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX uq_evaluation_uid ON evaluation (learner_id, uid) WHERE uid <> '';

CREATE UNIQUE INDEX uq_evaluation_key ON evaluation (learner_id, layer_no, execution_no, run_no, arm_no, rater, model, rubric, claimed_by) WHERE counts = 1 AND (execution_no <> 0 OR run_no <> 0);

CREATE INDEX ix_evaluation_layer ON evaluation (learner_id, layer_no, revision);

CREATE INDEX ix_evaluation_run ON evaluation (learner_id, run_no) WHERE run_no <> 0;

CREATE TABLE choice (
    learner_id INTEGER NOT NULL,
    choice_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    layer_no BIGINT NOT NULL,
    first_no BIGINT NOT NULL,
    second_no BIGINT NOT NULL,
    chosen TEXT NOT NULL,
    rater TEXT NOT NULL,
    rubric TEXT NOT NULL,
    feedback TEXT,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_choice PRIMARY KEY (learner_id, choice_no),
    CONSTRAINT fk_choice_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE layer_quality (
    learner_id INTEGER NOT NULL,
    layer_no BIGINT NOT NULL,
    retrievals BIGINT NOT NULL,
    successes BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    bonus FLOAT NOT NULL,
    last_no BIGINT NOT NULL,
    CONSTRAINT pk_layer_quality PRIMARY KEY (learner_id, layer_no),
    CONSTRAINT fk_layer_quality_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE model_history (
    learner_id INTEGER NOT NULL,
    layer_no BIGINT NOT NULL,
    model TEXT NOT NULL,
    rank BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    successes BIGINT NOT NULL,
    CONSTRAINT pk_model_history PRIMARY KEY (learner_id, layer_no, model),
    CONSTRAINT fk_model_history_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE review_queue (
    learner_id INTEGER NOT NULL,
    review_queue_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    name TEXT NOT NULL,
    asks TEXT NOT NULL,
    n_reviewers BIGINT NOT NULL,
    blind BIGINT NOT NULL,
    rubric TEXT NOT NULL,
    control_micro BIGINT NOT NULL,
    due_ms BIGINT,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_review_queue PRIMARY KEY (learner_id, review_queue_no),
    CONSTRAINT fk_review_queue_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE review_aside (
    learner_id INTEGER NOT NULL,
    review_aside_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    queue TEXT NOT NULL,
    item_no BIGINT NOT NULL,
    reason TEXT NOT NULL,
    final BIGINT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_review_aside PRIMARY KEY (learner_id, review_aside_no),
    CONSTRAINT fk_review_aside_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_review_aside_queue ON review_aside (learner_id, queue, item_no);

CREATE TABLE offer (
    learner_id INTEGER NOT NULL,
    offer_no BIGINT NOT NULL,
    session TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    class TEXT NOT NULL,
    choice TEXT NOT NULL,
    run_no BIGINT NOT NULL,
    CONSTRAINT pk_offer PRIMARY KEY (learner_id, offer_no),
    CONSTRAINT fk_offer_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_offer_open ON offer (learner_id, at_ms) WHERE choice <> '';

CREATE TABLE agent_session (
    learner_id INTEGER NOT NULL,
    agent_session_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    name TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    CONSTRAINT pk_agent_session PRIMARY KEY (learner_id, agent_session_no),
    CONSTRAINT uq_agent_session_learner_id_uid UNIQUE (learner_id, uid),
    CONSTRAINT fk_agent_session_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE trace (
    learner_id INTEGER NOT NULL,
    uid TEXT NOT NULL,
    session TEXT NOT NULL,
    said TEXT NOT NULL,
    is_rooted BIGINT NOT NULL,
    n_spans BIGINT NOT NULL,
    n_bytes BIGINT NOT NULL,
    n_told BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    CONSTRAINT pk_trace PRIMARY KEY (learner_id, uid),
    CONSTRAINT fk_trace_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_trace_due ON trace (learner_id, last_ms) WHERE n_told < n_spans;

CREATE TABLE rollout (
    learner_id INTEGER NOT NULL,
    uid TEXT NOT NULL,
    started TEXT NOT NULL,
    updated TEXT NOT NULL,
    said TEXT NOT NULL,
    n_events BIGINT NOT NULL,
    n_told BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    CONSTRAINT pk_rollout PRIMARY KEY (learner_id, uid),
    CONSTRAINT fk_rollout_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE environment (
    learner_id INTEGER NOT NULL,
    environment_no BIGINT NOT NULL,
    name TEXT NOT NULL,
    CONSTRAINT pk_environment PRIMARY KEY (learner_id, environment_no),
    CONSTRAINT uq_environment_learner_id_name UNIQUE (learner_id, name),
    CONSTRAINT fk_environment_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE scale (
    learner_id INTEGER NOT NULL,
    scale_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    environment_no BIGINT NOT NULL,
    step_lo FLOAT NOT NULL,
    step_hi FLOAT NOT NULL,
    lo FLOAT NOT NULL,
    hi FLOAT NOT NULL,
    threshold FLOAT NOT NULL,
    base TEXT NOT NULL,
    gamma FLOAT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_scale PRIMARY KEY (learner_id, scale_no),
    CONSTRAINT fk_scale_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_scale_environment ON scale (learner_id, environment_no);

CREATE TABLE episode (
    learner_id INTEGER NOT NULL,
    episode_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    format TEXT NOT NULL,
    environment_no BIGINT NOT NULL,
    split TEXT,
    task TEXT,
    variant TEXT,
    model TEXT,
    at_ms BIGINT,
    n_steps BIGINT NOT NULL,
    n_paid BIGINT NOT NULL,
    finished BIGINT NOT NULL,
    status TEXT NOT NULL,
    total_text TEXT,
    final_text TEXT,
    total FLOAT,
    final FLOAT,
    digest BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    CONSTRAINT pk_episode PRIMARY KEY (learner_id, episode_no),
    CONSTRAINT uq_episode_learner_id_uid UNIQUE (learner_id, uid),
    CONSTRAINT fk_episode_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_episode_environment ON episode (learner_id, environment_no, at_ms);

CREATE TABLE episode_credit (
    learner_id INTEGER NOT NULL,
    episode_credit_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    episode TEXT NOT NULL,
    rule TEXT NOT NULL,
    reward FLOAT,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_episode_credit PRIMARY KEY (learner_id, episode_credit_no),
    CONSTRAINT fk_episode_credit_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_episode_credit_episode ON episode_credit (learner_id, episode);

CREATE TABLE erased (
    learner_id INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    CONSTRAINT pk_erased PRIMARY KEY (learner_id, digest),
    CONSTRAINT fk_erased_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE note (
    learner_id INTEGER NOT NULL,
    note_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    arm_no BIGINT NOT NULL,
    text TEXT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_note PRIMARY KEY (learner_id, note_no),
    CONSTRAINT fk_note_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_note_arm ON note (learner_id, arm_no);

CREATE TABLE reply (
    learner_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    no BIGINT NOT NULL,
    "key" TEXT NOT NULL,
    payload BIGINT NOT NULL,
    answer TEXT NOT NULL,
    CONSTRAINT pk_reply PRIMARY KEY (learner_id, kind, no),
    CONSTRAINT fk_reply_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_reply_key ON reply (learner_id, "key");

CREATE TABLE reset (
    learner_id INTEGER NOT NULL,
    reset_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    target TEXT NOT NULL,
    scope TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    n_arms BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    import_no BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_reset PRIMARY KEY (learner_id, reset_no),
    CONSTRAINT fk_reset_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE reset_arm (
    learner_id INTEGER NOT NULL,
    reset_no BIGINT NOT NULL,
    arm_no BIGINT NOT NULL,
    CONSTRAINT pk_reset_arm PRIMARY KEY (learner_id, reset_no, arm_no),
    CONSTRAINT fk_reset_arm_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE setting (
    learner_id INTEGER NOT NULL,
    setting_no BIGINT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    "before" TEXT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_setting PRIMARY KEY (learner_id, setting_no),
    CONSTRAINT fk_setting_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE import (
    learner_id INTEGER NOT NULL,
    import_no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    summary TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_import PRIMARY KEY (learner_id, import_no),
    CONSTRAINT fk_import_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE undo (
    learner_id INTEGER NOT NULL,
    undo_no BIGINT NOT NULL,
    kind TEXT NOT NULL,
    no BIGINT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    undone BIGINT NOT NULL,
    CONSTRAINT pk_undo PRIMARY KEY (learner_id, undo_no),
    CONSTRAINT fk_undo_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE member (
    learner_id INTEGER NOT NULL,
    member_no BIGINT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    invited_until_ms BIGINT NOT NULL,
    not_before_ms BIGINT NOT NULL,
    removed_ms BIGINT NOT NULL,
    "by" TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    CONSTRAINT pk_member PRIMARY KEY (learner_id, member_no),
    CONSTRAINT uq_member_learner_id_name UNIQUE (learner_id, name),
    CONSTRAINT fk_member_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX uq_member_subject ON member (learner_id, issuer, subject) WHERE subject <> '';

CREATE TABLE member_role (
    learner_id INTEGER NOT NULL,
    member_no BIGINT NOT NULL,
    learner TEXT NOT NULL,
    role TEXT NOT NULL,
    CONSTRAINT pk_member_role PRIMARY KEY (learner_id, member_no, learner),
    CONSTRAINT fk_member_role_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE token (
    learner_id INTEGER NOT NULL,
    token_no BIGINT NOT NULL,
    digest TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    learners TEXT NOT NULL,
    member_no BIGINT NOT NULL,
    "by" TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    used_hour BIGINT NOT NULL,
    revoked_ms BIGINT NOT NULL,
    is_bridge BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_token PRIMARY KEY (learner_id, token_no),
    CONSTRAINT uq_token_learner_id_digest UNIQUE (learner_id, digest),
    CONSTRAINT uq_token_learner_id_name UNIQUE (learner_id, name),
    CONSTRAINT fk_token_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE bridge_sender (
    learner_id INTEGER NOT NULL,
    channel TEXT NOT NULL,
    sender TEXT NOT NULL,
    member_no BIGINT NOT NULL,
    "by" TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    CONSTRAINT pk_bridge_sender PRIMARY KEY (learner_id, channel, sender),
    CONSTRAINT fk_bridge_sender_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE denial (
    learner_id INTEGER NOT NULL,
    minute BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    n BIGINT NOT NULL,
    CONSTRAINT pk_denial PRIMARY KEY (learner_id, minute, actor, action),
    CONSTRAINT fk_denial_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE webhook (
    learner_id INTEGER NOT NULL,
    webhook_no BIGINT NOT NULL,
    url TEXT NOT NULL,
    learner TEXT NOT NULL,
    pages TEXT NOT NULL,
    secret_from TEXT NOT NULL,
    private BIGINT NOT NULL,
    "by" TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    removed_ms BIGINT NOT NULL,
    CONSTRAINT pk_webhook PRIMARY KEY (learner_id, webhook_no),
    CONSTRAINT uq_webhook_learner_id_url_learner UNIQUE (learner_id, url, learner),
    CONSTRAINT fk_webhook_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE alert (
    learner_id INTEGER NOT NULL,
    alert_no BIGINT NOT NULL,
    learner TEXT NOT NULL,
    kind TEXT NOT NULL,
    object TEXT NOT NULL,
    count BIGINT NOT NULL,
    ids TEXT NOT NULL,
    raised_ms BIGINT NOT NULL,
    quiet_ms BIGINT NOT NULL,
    cleared_ms BIGINT NOT NULL,
    CONSTRAINT pk_alert PRIMARY KEY (learner_id, alert_no),
    CONSTRAINT fk_alert_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX uq_alert_standing ON alert (learner_id, learner, kind, object) WHERE cleared_ms = 0;

CREATE TABLE alert_message (
    learner_id INTEGER NOT NULL,
    alert_message_no BIGINT NOT NULL,
    webhook_no BIGINT NOT NULL,
    alert_no BIGINT NOT NULL,
    uid TEXT NOT NULL,
    state TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    due_ms BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    tried_ms BIGINT NOT NULL,
    result TEXT NOT NULL,
    done_ms BIGINT NOT NULL,
    CONSTRAINT pk_alert_message PRIMARY KEY (learner_id, alert_message_no),
    CONSTRAINT fk_alert_message_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE INDEX ix_alert_message_webhook ON alert_message (learner_id, webhook_no, tried_ms);

CREATE INDEX ix_alert_message_due ON alert_message (learner_id, due_ms) WHERE done_ms = 0;

CREATE TABLE posterior (
    learner_id INTEGER NOT NULL,
    arm_no BIGINT NOT NULL,
    base_alpha_micro BIGINT NOT NULL,
    base_beta_micro BIGINT NOT NULL,
    success_micro BIGINT DEFAULT 0 NOT NULL,
    failure_micro BIGINT DEFAULT 0 NOT NULL,
    pulls BIGINT DEFAULT 0 NOT NULL,
    inclusions BIGINT DEFAULT 0 NOT NULL,
    seen BIGINT DEFAULT 0 NOT NULL,
    epoch BIGINT DEFAULT 0 NOT NULL,
    last_at_ms BIGINT DEFAULT (-1) NOT NULL,
    part_micro BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_posterior PRIMARY KEY (learner_id, arm_no),
    CONSTRAINT ck_posterior_counts CHECK (base_alpha_micro > 0 AND base_beta_micro > 0 AND success_micro >= 0 AND failure_micro >= 0 AND pulls >= 0 AND inclusions >= 0 AND seen >= 0),
    CONSTRAINT ck_posterior_part CHECK (part_micro >= 0),
    CONSTRAINT fk_posterior_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE staged_arm (
    learner_id INTEGER NOT NULL,
    arm_no BIGINT NOT NULL,
    "key" TEXT NOT NULL,
    CONSTRAINT pk_staged_arm PRIMARY KEY (learner_id, arm_no),
    CONSTRAINT uq_staged_arm_learner_id_key UNIQUE (learner_id, "key"),
    CONSTRAINT fk_staged_arm_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

CREATE TABLE staged_provenance (
    learner_id INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    stretch BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    trace BIGINT NOT NULL,
    digest BIGINT NOT NULL,
    counted TEXT NOT NULL,
    CONSTRAINT pk_staged_provenance PRIMARY KEY (learner_id, run_no),
    CONSTRAINT fk_staged_provenance_learner_id FOREIGN KEY(learner_id) REFERENCES learner (learner_id)
)
 WITHOUT ROWID;

INSERT INTO learner_name (learner_id, name) VALUES (0, '');

INSERT INTO learner (learner_id, name, origin, created_at_ms, settings, revision)
VALUES (0, '', '', 0, '{}', 1)
