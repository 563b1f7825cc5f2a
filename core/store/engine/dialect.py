"""Words in which the SQL of two engines differs. All other SQL of the store is one text.

A text holds a word's mark, which an f-string inserts (``f"… FROM observation {BY_RUN} WHERE …"``). A connection
replaces the mark by its engine's word, once for each text. So a text is made without knowing its engine, and one
process may use two engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

BY_SESSION: Final = "{by_session}"
BY_TIME: Final = "{by_time}"
BY_NAME: Final = "{by_name}"
"""Hint of a query that searches runs by session, by time, or by the name of their session."""

BY_RUN: Final = "{by_run}"
BY_ARM: Final = "{by_arm}"
"""Hint for a query's path into the ledger. SQLite has no row counts. It assumes ten rows per learner and would read
all of them in key order. The index on runs has no row about none, so its queries need ``run_no <> 0``. As ``> 0``
that would become the search bound.
"""

EXECUTIONS_BY_RUN: Final = "{executions_by_run}"
EVALUATIONS_BY_RUN: Final = "{evaluations_by_run}"
EVALUATIONS_BY_LAYER: Final = "{evaluations_by_layer}"
EVALUATIONS_BY_KEY: Final = "{evaluations_by_key}"
"""The same of executions and evaluations; those by run hold no row that is about none, and the one by key
those that count: it says ``counts = 1 AND (execution_no <> 0 OR run_no <> 0)``.
"""

RUNS_BY_UID: Final = "{runs_by_uid}"
OUTCOMES_BY_RUN: Final = "{outcomes_by_run}"
LAYERS_BY_UID: Final = "{layers_by_uid}"
EXECUTIONS_BY_UID: Final = "{executions_by_uid}"
EPISODES_BY_UID: Final = "{episodes_by_uid}"
EPISODES_BY_TIME: Final = "{episodes_by_time}"
ARMS_BY_KEY: Final = "{arms_by_key}"
REPLIES_BY_KEY: Final = "{replies_by_key}"
LAYERS_BY_ADAPTER: Final = "{layers_by_adapter}"
ASSIGNMENTS_BY_EXPERIMENT: Final = "{assignments_by_experiment}"
"""The same where many are asked for by name at once: for more than a few SQLite would rather read all there are."""

GREATEST: Final = "{greatest}"
"""The larger of two values, as a function."""

POSITION: Final = "{position}"
"""Position of a second text in a first, from 1 on, as a function; 0: it is not there."""

WORDS_BEGIN: Final = "{words_begin}"
WORDS_END: Final = "{words_end}"
WORD_LIST: Final = "{word_list}"
NEWEST_WORDS: Final = "{newest_words}"
"""Of the index of texts: the condition that a row has the words of the value between; its type of words, its order.
The value is as PostgreSQL has it: ``a & b & c:*``.
"""

MESSAGES_DIGEST: Final = "{messages_digest}"
"""SHA-256 of the transcript in row ``t``, as the engine computes it: no text travels."""

TEXTS_JOINED: Final = "{texts_joined}"
"""Texts of a group with something between them, as an aggregate function, in the order in which the rows come."""

ACTIVE: Final = "standing = 1"
"""SQL condition: the row is active, because its imports or its act are not undone."""

OF_TRIAL: Final = "standing = 2"
"""SQL condition: the run is active, and of a trial: it teaches nothing and counts nowhere."""

PRESENT: Final = "standing > 0"
"""SQL condition: the run is active, of a trial or not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """An engine's word for each mark, which is the field's name in braces."""

    by_session: str
    by_time: str
    by_name: str
    by_run: str
    by_arm: str
    executions_by_run: str
    evaluations_by_run: str
    evaluations_by_layer: str
    evaluations_by_key: str
    runs_by_uid: str
    outcomes_by_run: str
    layers_by_uid: str
    executions_by_uid: str
    episodes_by_uid: str
    episodes_by_time: str
    arms_by_key: str
    replies_by_key: str
    layers_by_adapter: str
    assignments_by_experiment: str
    greatest: str
    position: str
    words_begin: str
    words_end: str
    word_list: str
    newest_words: str
    messages_digest: str
    texts_joined: str


SQLITE: Final = Words(
    by_session="INDEXED BY ix_run_session",
    by_time="INDEXED BY ix_run_time",
    by_name="INDEXED BY ix_run_named",
    by_run="INDEXED BY ix_observation_run",
    by_arm="INDEXED BY ix_observation_arm",
    executions_by_run="INDEXED BY ix_execution_run",
    evaluations_by_run="INDEXED BY ix_evaluation_run",
    evaluations_by_layer="INDEXED BY ix_evaluation_layer",
    evaluations_by_key="INDEXED BY uq_evaluation_key",
    runs_by_uid="INDEXED BY sqlite_autoindex_run_2",  # what it calls the second thing that is unique
    outcomes_by_run="INDEXED BY ix_achieved_run",
    layers_by_uid="INDEXED BY sqlite_autoindex_layer_2",
    executions_by_uid="INDEXED BY sqlite_autoindex_execution_2",
    episodes_by_uid="INDEXED BY sqlite_autoindex_episode_2",
    episodes_by_time="INDEXED BY ix_episode_environment",
    arms_by_key="INDEXED BY sqlite_autoindex_arm_2",
    replies_by_key="INDEXED BY ix_reply_key",
    layers_by_adapter="INDEXED BY ix_layer_adapter",
    assignments_by_experiment="INDEXED BY ix_assignment_experiment",
    greatest="max",
    position="instr",
    words_begin="text_index MATCH replace(replace(",
    words_end=", ':*', '*'), ' & ', ' ')",
    word_list="text",
    newest_words="rowid",
    messages_digest="sha256(CAST(t.messages AS blob))",
    texts_joined="group_concat",  # string_agg from 3.44 on
)
POSTGRESQL: Final = Words(
    by_session="",  # it counts the rows, and needs no hint
    by_time="",
    by_name="",
    by_run="",
    by_arm="",
    executions_by_run="",
    evaluations_by_run="",
    evaluations_by_layer="",
    evaluations_by_key="",
    runs_by_uid="",
    outcomes_by_run="",
    layers_by_uid="",
    executions_by_uid="",
    episodes_by_uid="",
    episodes_by_time="",
    arms_by_key="",
    replies_by_key="",
    layers_by_adapter="",
    assignments_by_experiment="",
    greatest="greatest",
    position="strpos",
    words_begin="words @@ CAST(",
    words_end=" AS tsquery)",
    word_list="tsvector",
    messages_digest="sha256(convert_to(t.messages, 'UTF8'))",
    newest_words="no",
    texts_joined="string_agg",
)


def speaker(words: Words) -> Callable[[str], str]:
    """Return a function that replaces the marks by an engine's words, with a cache by text."""
    by_mark = {f"{{{name}}}": word for name, word in asdict(words).items()}

    @lru_cache(maxsize=1_024)
    def spoken(sql: str) -> str:
        for mark, word in by_mark.items():
            sql = sql.replace(mark, word)
        return sql

    return spoken
