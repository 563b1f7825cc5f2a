"""Sentences of the pages, one file per page: first sentences and the notes beside pictures.

A sentence is a tuple of parts. A `Phrase` is one of its one or two key phrases, which the page colours. Every part is
Markdown already: foreign text has passed `wording.literal`.
"""

from dashboard.sentences.acts import (
    batch,
    consequence,
    effect,
    effect_table,
    replaced_reward,
    reset,
    rewarded_by_hand,
)
from dashboard.sentences.arm import (
    arm_facts,
    in_or_out,
    lately,
    learned_by,
    marks_line,
    mean_moved,
    source,
    source_table,
    version_table,
)
from dashboard.sentences.carried import (
    carried,
    carried_cells,
    carried_groups,
    carried_money,
    carried_note,
    carried_read,
    chosen,
    group_of,
)
from dashboard.sentences.changes import act, change, folded, many_changes
from dashboard.sentences.compare import (
    SHIFT_HELP,
    arms_bound,
    compared,
    compared_line,
    side_rows,
    side_savings,
)
from dashboard.sentences.confidence import (
    NEXT_SHOWN,
    bands_measured,
    confidence,
    narrow,
    next_band_note,
    to_explore,
    to_narrow,
    to_reach,
    unread,
    unread_counts,
    unread_table,
    wider,
)
from dashboard.sentences.data import (
    calls_not_offered,
    data,
    differences_table,
    ignored_table,
    import_line,
    left_behind,
    moved_table,
    rejected_table,
    report,
    undo_effect,
)
from dashboard.sentences.episode import (
    ends,
    episode,
    episode_facts,
    episode_verdict,
    picture_note,
    short,
    step_kind,
    step_name,
    step_state,
    steps_note,
)
from dashboard.sentences.evidence import (
    evidence,
    evidence_line,
    exclusion_effect,
    repair_effect,
    reset_warning,
)
from dashboard.sentences.gain import failures, method, pending, proof
from dashboard.sentences.inclusion import chances_note, error_words, worth, worth_note
from dashboard.sentences.judgement import arm, judgement, only_called, posteriors
from dashboard.sentences.judging import evaluations, evaluations_numbers, parting_claim
from dashboard.sentences.money import month, months_table
from dashboard.sentences.overview import (
    attention,
    bands,
    by_day,
    figure_card,
    is_imported,
    overview,
)
from dashboard.sentences.phrase import Phrase, Sentence
from dashboard.sentences.rewards import averages_line, environment, episodes
from dashboard.sentences.runs import (
    run,
    run_differs,
    run_facts,
    run_tokens,
    runs,
    runs_counted,
    runs_rest,
    selection_note,
    session,
    session_cost,
    session_facts,
    sessions,
)
from dashboard.sentences.savings import (
    amount_limits,
    comparison_table,
    counting_note,
    counting_table,
    left_out_table,
    limits,
    money_line,
    need_words,
    path_note,
    proof_words,
    savings,
    savings_numbers,
    share,
    share_test,
    share_words,
    source_formula,
    unfinished_words,
)
from dashboard.sentences.search import hits_table, search, searched
from dashboard.sentences.settings import (
    SETTING_GROUPS,
    SETTING_WORDS,
    allowed,
    movers_table,
    price_text,
    priors_of,
    setting_effects,
    setting_text,
    setting_value,
    settings,
)
