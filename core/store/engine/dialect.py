"""Words in which the SQL of two engines differs. All other SQL of the store is one text.

A text holds a word's mark, which an f-string inserts (``f"… FROM observation {BY_RUN} WHERE …"``). A connection
replaces the mark by its engine's word, once for each text. So a text is made without knowing its engine, and one
process may use two engines. The mark of a hint is SQLite's own hint in braces, and other engines leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

BY_SESSION: Final = "{INDEXED BY ix_run_session}"
BY_TIME: Final = "{INDEXED BY ix_run_time}"
BY_NAME: Final = "{INDEXED BY ix_run_named}"
"""Hint of a query that searches runs by session, by time, or by the name of their session."""

BY_RUN: Final = "{INDEXED BY ix_observation_run}"
BY_ARM: Final = "{INDEXED BY ix_observation_arm}"
"""Hint for a query's path into the ledger. SQLite has no row counts. It assumes ten rows per learner and would read
all of them in key order. The index on runs has no row about none, so its queries need ``run_no <> 0``. As ``> 0``
that would become the search bound.
"""

EXECUTIONS_BY_RUN: Final = "{INDEXED BY ix_execution_run}"
EVALUATIONS_BY_RUN: Final = "{INDEXED BY ix_evaluation_run}"
EVALUATIONS_BY_LAYER: Final = "{INDEXED BY ix_evaluation_layer}"
EVALUATIONS_BY_KEY: Final = "{INDEXED BY uq_evaluation_key}"
"""The same of executions and evaluations; those by run hold no row that is about none, and the one by key
those that count: it says ``counts = 1 AND (execution_no <> 0 OR run_no <> 0)``.
"""

RUNS_BY_UID: Final = "{INDEXED BY sqlite_autoindex_run_2}"  # what it calls the second thing that is unique
OUTCOMES_BY_RUN: Final = "{INDEXED BY ix_achieved_run}"
LAYERS_BY_UID: Final = "{INDEXED BY sqlite_autoindex_layer_2}"
EXECUTIONS_BY_UID: Final = "{INDEXED BY sqlite_autoindex_execution_2}"
EPISODES_BY_UID: Final = "{INDEXED BY sqlite_autoindex_episode_2}"
EPISODES_BY_TIME: Final = "{INDEXED BY ix_episode_environment}"
ARMS_BY_KEY: Final = "{INDEXED BY sqlite_autoindex_arm_2}"
REPLIES_BY_KEY: Final = "{INDEXED BY ix_reply_key}"
LAYERS_BY_ADAPTER: Final = "{INDEXED BY ix_layer_adapter}"
ASSIGNMENTS_BY_EXPERIMENT: Final = "{INDEXED BY ix_assignment_experiment}"
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


_HINT: Final = re.compile(r"\{(INDEXED BY \w+)\}")


class Words(NamedTuple):
    """An engine's word for each mark, and what it reads of a hint: SQLite all of it."""

    by_mark: Mapping[str, str]
    hint: str


SQLITE: Final = Words(
    {
        GREATEST: "max",
        POSITION: "instr",
        WORDS_BEGIN: "text_index MATCH replace(replace(",
        WORDS_END: ", ':*', '*'), ' & ', ' ')",
        WORD_LIST: "text",
        NEWEST_WORDS: "rowid",
        MESSAGES_DIGEST: "sha256(CAST(t.messages AS blob))",
        TEXTS_JOINED: "group_concat",  # string_agg from 3.44 on
    },
    hint=r"\1",
)
POSTGRESQL: Final = Words(
    {
        GREATEST: "greatest",
        POSITION: "strpos",
        WORDS_BEGIN: "words @@ CAST(",
        WORDS_END: " AS tsquery)",
        WORD_LIST: "tsvector",
        MESSAGES_DIGEST: "sha256(convert_to(t.messages, 'UTF8'))",
        NEWEST_WORDS: "no",
        TEXTS_JOINED: "string_agg",
    },
    hint="",  # it counts the rows, and needs none
)


def speaker(words: Words) -> Callable[[str], str]:
    """Return a function that replaces the marks by an engine's words, with a cache by text."""

    @lru_cache(maxsize=1_024)
    def spoken(sql: str) -> str:
        for mark, word in words.by_mark.items():
            sql = sql.replace(mark, word)
        return _HINT.sub(words.hint, sql)

    return spoken
