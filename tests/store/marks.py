"""A mark of every column: whether a change of it is found, by other rows or by the chain of acts.

A new column needs one. `plain` are columns that no act records: work in progress, and what nothing reads.
"""

from __future__ import annotations

from typing import NamedTuple

_BYLINE = "actor at_ms import_no revision standing undone"


class Marks(NamedTuple):
    """Columns of a table: those of which a change is found, and those that no act records."""

    contradicted: str
    plain: str = ""


MARKS: dict[str, Marks] = {
    "adapter": Marks("learner_id adapter_no uri name version"),
    "agent_session": Marks("learner_id agent_session_no", "uid name started_ms ended_ms"),
    "alert": Marks("learner_id alert_no", "learner kind object count ids raised_ms quiet_ms cleared_ms"),
    "alert_message": Marks(
        "learner_id alert_message_no",
        "webhook_no alert_no uid state at_ms due_ms tries tried_ms result done_ms",
    ),
    "arm": Marks("learner_id arm_no key type label token_cost declared prior_alpha_micro prior_beta_micro"),
    "arm_day": Marks(
        "learner_id arm_no epoch day inclusions pulls success_micro failure_micro part_micro n_named n_loaded"
    ),
    "arm_hour": Marks(
        "learner_id hour arm_no epoch inclusions pulls success_micro failure_micro part_micro n_named n_loaded"
    ),
    "audit": Marks("learner_id audit_no actor action act detail at_ms revision"),
    "bridge_sender": Marks("learner_id channel sender member_no by at_ms"),
    "browser": Marks(
        "learner_id browser_no uid browser named actor at_ms import_no revision standing undone"
    ),
    "choice": Marks(
        "learner_id choice_no uid layer_no first_no second_no chosen rater rubric feedback actor "
        "at_ms import_no revision standing undone"
    ),
    "credit": Marks("learner_id evaluation_no arm_no weight_micro"),
    "decision": Marks("learner_id run_no arm_no reason rank token_cost draw budget_left chance"),
    "denial": Marks("learner_id", "minute actor action n"),
    "environment": Marks("learner_id environment_no name"),
    "environment_day": Marks(
        "learner_id environment_no day split variant model n n_paid n_finished successes "
        "reward_sum reward_squares"
    ),
    "environment_task": Marks(
        "learner_id environment_no digest split task variant model finished total_text final_text n"
    ),
    "episode": Marks(
        (
            "learner_id episode_no uid format environment_no split task variant model at_ms n_steps "
            "n_paid finished status total_text final_text total final digest revision standing"
        ),
        "changed",
    ),
    "episode_credit": Marks(
        "learner_id episode_credit_no uid episode rule reward actor at_ms import_no revision standing undone"
    ),
    "episode_part": Marks("learner_id episode_no name value kind"),
    "episode_run": Marks("learner_id episode_no run_no"),
    "erased": Marks("learner_id digest at_ms"),
    "evaluation": Marks(
        (
            "learner_id evaluation_no uid layer_no execution_no run_no arm_no rater model rubric "
            "blank outcome score feedback claimed_by mover supersedes counts actor at_ms import_no "
            "revision standing undone"
        ),
        "changed",
    ),
    "evidence": Marks("learner_id run_no arm_no place excerpt"),
    "execution": Marks("learner_id execution_no uid adapter_no run_no session at_ms bare standing"),
    "hold": Marks("", "learner_id session began_ms used_ms class prob_micro seed revision choice"),
    "import": Marks("learner_id import_no actor summary at_ms revision undone"),
    "compacted": Marks("learner_id uid_high uid_low compaction_no trace"),
    "compacted_import": Marks("learner_id import_no compaction_no n_runs"),
    "compaction": Marks(
        "learner_id compaction_no revision at_ms until_ms first_ms last_ms n_runs digest sums"
    ),
    "judged_in": Marks("learner_id evaluation_no browser named person"),
    "layer": Marks(
        "learner_id layer_no uid adapter_no layer_index label task type domain tags bare standing"
    ),
    "layer_quality": Marks("learner_id layer_no retrievals successes failures bonus last_no"),
    "learner": Marks(
        (
            "learner_id name origin created_at_ms settings sticky revision digest_key chain_key "
            "chain_sum chain_head chain_held chain_at next_arm_no next_run_no next_observation_no next_reset_no "
            "next_import_no next_setting_no next_undo_no next_note_no next_audit_no next_adapter_no "
            "next_layer_no next_execution_no next_rubric_no next_evaluation_no next_choice_no "
            "next_review_queue_no next_review_aside_no next_member_no next_token_no next_offer_no "
            "next_agent_session_no next_webhook_no next_alert_no next_alert_message_no "
            "next_environment_no next_scale_no next_episode_no next_episode_credit_no next_link_no "
            "staged_import_no staged_revision staged_parts next_repair_no next_browser_no "
            "next_compaction_no next_achieved_no next_trial_no next_experiment_no next_assignment_no"
        ),
        "token staged_sum",
    ),
    "learner_name": Marks("learner_id name"),
    "link": Marks("learner_id link_no encoding revision at_ms sum head"),
    "member": Marks(
        "learner_id member_no issuer subject email name invited_until_ms not_before_ms removed_ms by at_ms"
    ),
    "member_role": Marks("learner_id member_no learner role"),
    "machine": Marks("", "learner_id actor name at_ms import_no content"),
    "mended": Marks("learner_id link_no revision at_ms explained difference"),
    "model_history": Marks("learner_id layer_no model rank attempts successes"),
    "note": Marks("learner_id note_no uid arm_no text actor at_ms import_no revision standing undone"),
    "observation": Marks(
        (
            "learner_id observation_no uid kind arm_no run_no success_micro failure_micro pulls actor "
            "reason at_ms import_no revision standing evaluation_no episode_credit_no undone"
        ),
        "changed",
    ),
    "offer": Marks("learner_id offer_no", "session at_ms class choice run_no"),
    "offer_arm": Marks("learner_id", "arm_no offer_no"),
    "outcome": Marks("learner_id run_no arm_no flags token_cost"),
    "posterior": Marks(
        (
            "learner_id arm_no base_alpha_micro base_beta_micro success_micro failure_micro pulls "
            "inclusions seen epoch last_at_ms part_micro n_named n_loaded"
        ),
        "changed",
    ),
    "provenance": Marks("learner_id kind no import_no revision rank trace digest said"),
    "whole_reward": Marks("learner_id observation_no"),
    "achieved": Marks(f"learner_id achieved_no uid run value {_BYLINE}"),
    "trial": Marks(f"learner_id trial_no uid form plan content {_BYLINE}"),
    "trial_session": Marks("learner_id session trial_no"),
    "experiment": Marks(f"learner_id experiment_no uid form start_no content secret {_BYLINE}"),
    "assignment": Marks(
        f"learner_id assignment_no uid experiment_no session run side chance_micro n_fitting {_BYLINE}"
    ),
    "reply": Marks("learner_id kind no key payload answer"),
    "reset": Marks(
        "learner_id reset_no uid target scope actor reason n_arms at_ms import_no revision standing undone"
    ),
    "repair": Marks(
        "learner_id repair_no uid since_ms until_ms actor reason n_arms n_observations at_ms import_no "
        "revision standing undone"
    ),
    "retraction": Marks("learner_id run_no arm_no observation_no repair_no referenced"),
    "reset_arm": Marks("learner_id reset_no arm_no"),
    "review_aside": Marks(
        "learner_id review_aside_no uid queue item_no reason final actor at_ms import_no revision "
        "standing undone"
    ),
    "review_draft": Marks("review_queue_no", "learner_id item_no actor fields until_ms"),
    "review_hold": Marks("review_queue_no learner_id", "item_no actor until_ms repeats"),
    "review_item": Marks(
        "learner_id review_queue_no item_no layer_no execution_no run_no arm_no why control assigned_to"
    ),
    "review_queue": Marks(
        "learner_id review_queue_no uid name asks n_reviewers blind rubric control_micro due_ms "
        "actor at_ms import_no revision standing undone"
    ),
    "review_repeat": Marks("", "learner_id review_queue_no item_no actor first_no second_no"),
    "review_skip": Marks("review_queue_no", "learner_id item_no actor later at_ms"),
    "rollout": Marks("learner_id", "uid started updated said n_events n_told last_ms"),
    "rollout_message": Marks("", "learner_id rollout place content"),
    "rubric": Marks(
        "learner_id rubric_no uid version content actor at_ms import_no revision standing undone"
    ),
    "run": Marks(
        (
            "learner_id run_no uid format unit rank trace digest session at_ms naive_time provider "
            "model channel class phase status outcome tokens input_tokens output_tokens "
            "cache_read_tokens cache_write_tokens duration_ms prompt_chars n_calls n_real_calls "
            "reward inventory not_offered choice import_no revision standing session_key bill_pico "
            "bill_marks"
        ),
        "changed",
    ),
    "run_text": Marks("learner_id run_no trace messages", "revision"),
    "scale": Marks(
        "learner_id scale_no uid environment_no step_lo step_hi lo hi threshold base gamma actor "
        "at_ms import_no revision standing undone"
    ),
    "setting": Marks("learner_id setting_no name value before actor at_ms revision undone"),
    "span": Marks("", "learner_id trace uid content"),
    "defined": Marks("learner_id run_no set_key"),
    "history": Marks("learner_id run_no history_key marks"),
    "definition": Marks("learner_id set_key arm_no version"),
    "spent": Marks(
        "learner_id run_no by_sub_agent model input_tokens cache_read_tokens "
        "cache_write_5m_tokens cache_write_1h_tokens output_tokens unsplit_tokens assumed"
    ),
    "spent_apart": Marks(
        "learner_id run_no by_sub_agent model tier region context input_tokens cache_read_tokens "
        "cache_write_5m_tokens cache_write_1h_tokens output_tokens unsplit_tokens assumed searches unread"
    ),
    "staged_arm": Marks("learner_id arm_no", "key"),
    "staged_day": Marks(
        "learner_id",
        "epoch arm_no day inclusions pulls success_micro failure_micro part_micro n_named n_loaded",
    ),
    "staged_hour": Marks(
        "learner_id",
        "epoch hour arm_no inclusions pulls success_micro failure_micro part_micro n_named n_loaded",
    ),
    "staged_provenance": Marks("learner_id", "run_no stretch rank trace digest counted"),
    "staged_usage": Marks(
        "",
        (
            "learner_id hour class model channel status outcome prob_micro bucket n n_truncated "
            "tokens tokens_squared_high tokens_squared_low log_micro log_squared_micro n_timed "
            "duration_ms duration_squared_high duration_squared_low"
        ),
    ),
    "step": Marks(
        "learner_id episode_no step_no kind name reward finished refused at_ms n_chars_in "
        "n_chars_out args_digest meta_digest note extra"
    ),
    "step_text": Marks("learner_id episode_no step_no digest asked answered"),
    "token": Marks(
        (
            "learner_id token_no digest name scopes learners member_no by at_ms expires_ms revoked_ms "
            "is_bridge"
        ),
        "used_hour",
    ),
    "trace": Marks("learner_id", "uid session said is_rooted n_spans n_bytes n_told last_ms"),
    "training_pair": Marks("learner_id execution_no layer_no layer_index digest instruction response"),
    "undo": Marks("learner_id undo_no kind no actor at_ms revision undone"),
    "usage_day": Marks(
        "learner_id day class model channel status outcome prob_micro bucket n n_truncated tokens "
        "tokens_squared_high tokens_squared_low log_micro log_squared_micro n_timed duration_ms "
        "duration_squared_high duration_squared_low"
    ),
    "usage_hour": Marks(
        "learner_id hour class model channel status outcome prob_micro bucket n n_truncated "
        "tokens tokens_squared_high tokens_squared_low log_micro log_squared_micro n_timed "
        "duration_ms duration_squared_high duration_squared_low"
    ),
    "version": Marks("learner_id run_no digest payload"),
    "webhook": Marks("learner_id webhook_no url learner pages secret_from private by at_ms removed_ms"),
}
