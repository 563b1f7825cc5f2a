"""Erasing of texts by people and agents; every number stays. One table defines for every text how it is erased.

A new column of texts is named there or on the page *promises*; a test finds a forgotten one. Rows stay: judgements,
rewards and skips continue to count, without their words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import msgspec

from core.columns import ASSIGNED
from core.errors import NotFound, UnknownAct, UnknownExecution
from core.records.actor import IN_BROWSER
from core.records.ledger_lines import LEFT_OUT
from core.store.caches import chunks, mark_runs
from core.store.contradicted import contents
from core.store.covered import DESCRIPTION, key_of
from core.store.episodes import drop_tasks
from core.store.erased import REMEMBER, Erased, Remembered, new_key
from core.store.experiments import rename_sessions_of_experiments
from core.store.quality import fold_again
from core.store.reads.runs import missing_run, named_run
from core.store.rollouts import drop_rollout_tasks, drop_rollout_texts
from core.store.settings import enforce_settings
from core.store.staging import spoil
from core.store.tables import ACTS, marking, metadata
from core.store.text_index import drop_indexed
from core.store.texts import drop_step_texts, drop_transcripts, execution_uid
from core.store.traces import TRACES, drop_traces
from core.store.transaction import TEXTS_OF_DETAILS, Transaction, mark_arms
from core.store.trials import rename_sessions_of_trials
from core.store.version import Version, renamed, session_key, stripped

Reached = Literal[
    "words",
    "described",
    "weights",
    "said",
    "session",
    "task",
    "name",
    "names in words",
    "JSON",
    "version",
    "folded",
]
REACHED: Final[Mapping[str, Reached]] = {
    # what people wrote: goes with what it is about, or that it names; a person's name in it becomes a number
    "observation.reason": "words",
    "reset.reason": "words",
    "repair.reason": "words",
    "note.text": "words",
    "evaluation.feedback": "words",
    "choice.feedback": "words",
    "review_aside.reason": "words",
    "review_item.why": "words",
    "review_queue.name": "names in words",
    "rubric.content": "names in words",
    **dict.fromkeys(("arm.label", "adapter.name", "adapter.version"), "names in words"),
    **dict.fromkeys(("layer.label", "layer.task", "layer.type", "layer.domain"), "names in words"),
    "layer.tags": "JSON",
    "model_history.model": "folded",  # of evaluations: a model, or the person who rated without one
    # weights of raters, by name
    **dict.fromkeys(("setting.value", "setting.before", "learner.settings"), "weights"),
    # texts of agents
    "evidence.excerpt": "said",
    "training_pair.instruction": "said",
    "training_pair.response": "said",
    "training_pair.digest": "said",
    "run_text.messages": "said",
    "history.marks": "said",
    "step_text.asked": "said",
    "step_text.answered": "said",
    "rollout_message.content": "said",
    # inactive versions: both, packed
    "version.payload": "version",
    "run.session": "session",
    "execution.session": "session",
    "offer.session": "session",
    "hold.session": "session",
    "agent_session.name": "session",
    "trace.session": "session",
    "trial.content": "session",
    "trial_session.session": "session",
    "assignment.session": "session",
    # tasks of erased episodes become numbers, in every version and in rollouts that wait
    "episode.task": "task",
    "environment_task.task": "task",
    "provenance.said": "described",  # labels and descriptions, too
    "rollout.started": "task",
    "rollout.updated": "task",
    # spans that wait to become runs: they go with their trace
    "span.content": "said",
    # persons
    **{
        f"{name}.actor": "name"
        for name, table in metadata.tables.items()
        if "actor" in table.columns and name != "denial"  # a refused request is no fact of a learner
    },
    "evaluation.rater": "name",
    "choice.rater": "name",
    "review_item.assigned_to": "name",
    "browser.named": "name",
    "judged_in.named": "name",
    "judged_in.person": "name",
    # answers and logs: the words in them go, persons become numbers
    "reply.answer": "JSON",
    "audit.detail": "JSON",
    "import.summary": "JSON",
    "review_draft.fields": "JSON",
    "review_queue.asks": "JSON",
}
"""Columns of text or bytes that erasing reaches: ``table.column`` → how. The page *promises* lists all others."""

_EMPTY: Final[Mapping[str, str | None]] = {
    "evaluation.feedback": None,
    "choice.feedback": None,
    "review_aside.reason": LEFT_OUT,
    "review_queue.name": LEFT_OUT,
}
"""Replacement of a text; "" where there is none."""
_WORDS: Final = [place for place, how in REACHED.items() if how == "words"]
_NAMED_IN: Final = [place for place, how in REACHED.items() if how in {"words", "names in words"}]
_ACTS: Final[Mapping[str, str]] = {table: act for act, table in ACTS.items()}
"""Names of acts in replies and in the audit."""
_TEXTS: Final = TEXTS_OF_DETAILS | {"excerpt", "instruction", "response", "title", "name"}
_OF_FILES: Final[Mapping[str, object]] = {
    "rejected": [],
    "ignored": [],
    "unread": [],
    "notes": [],
    "hint": None,
}
"""Members of an import's answer that quote its files."""
_MOST_DIGITS: Final = 19
_SHORTEST_NAME: Final = 3
"""Shorter names would be found in words that mean something else."""
Rows = Sequence[tuple[Any, ...]]

_ABOUT: Final[Mapping[str, tuple[str | None, tuple[str, ...]]]] = {
    "observation": ("run_no", ()),
    "evaluation": ("run_no", ("execution_no",)),
    "choice": (None, ("first_no", "second_no")),
    "review_item": ("run_no", ("execution_no",)),
}
"""Tables with words about a run or execution: the columns of their numbers."""


_WORDS_OF_LAYERS: Final = ("label", "task", "type", "domain", "tags", "adapter_name", "adapter_version")


class Scope(NamedTuple):
    """The content to erase: runs, executions and episodes with their uids, by number, and sessions by name."""

    runs: dict[int, str]
    executions: dict[int, str]
    sessions: tuple[str, ...] = ()
    is_whole_session: bool = False
    episodes: Mapping[int, str] = MappingProxyType({})

    @property
    def names(self) -> tuple[str, ...]:
        uids = (*self.runs.values(), *self.executions.values(), *self.episodes.values())
        return (*uids, *self.sessions)


# What is meant


def scope_of_run(txn: Transaction, name: str) -> Scope:
    """A run, by uid or number, with its executions and its session's name; raises `UnknownRun`."""
    row = named_run(txn, name, "run_no, uid, session")
    if row is None:
        raise missing_run(txn, name, "Use a uid or number that armscope runs lists; nothing was erased.")
    run_no, uid, session = row
    sessions = (session,) if session else ()
    return Scope({run_no: uid}, _executions_of(txn, [run_no]), sessions, episodes=_episodes_of(txn, [run_no]))


def scope_of_execution(txn: Transaction, uid: str) -> Scope:
    """An execution, with its run where it is the run's own; raises `UnknownExecution`."""
    row = txn.row(
        "SELECT e.execution_no, e.session, r.uid FROM execution e"
        " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no AND e.run_no <> 0"
        " WHERE e.learner_id = ? AND e.uid = ?",
        [uid.lower()],
    )
    if row is None:
        raise UnknownExecution(
            f"There is no execution {uid[:80]!r} in learner {txn.name!r}.",
            next_step="Use the uid of one that armscope evaluations lists; nothing was erased.",
        )
    number, session, run = row
    if run is not None and execution_uid(run) == uid.lower():
        return scope_of_run(txn, run)
    return Scope({}, {number: uid.lower()}, (session,) if session else ())


def scope_of_episode(txn: Transaction, uid: str) -> Scope:
    """An episode alone, by uid; raises `NotFound`."""
    row = txn.row("SELECT episode_no FROM episode WHERE learner_id = ? AND uid = ?", [uid])
    if row is None:
        raise NotFound(
            f"There is no episode {uid[:80]!r} in learner {txn.name!r}.",
            next_step="Use the uid that its recording names; nothing was erased.",
        )
    return Scope({}, {}, episodes={int(row[0]): uid})


def scope_of_session(txn: Transaction, name: str) -> Scope:
    """All runs and executions of a session, by its name or by the number that took its place; raises `NotFound`."""
    key = [txn.learner_id, txn.erased.session(name)]
    runs, executions = (
        dict[int, str](
            txn.rows(f"SELECT {table}_no, uid FROM {table} WHERE learner_id = ? AND session = ?", key[1:])
        )
        for table in ("run", "execution")
    )
    if not (runs or executions or _was_offered(txn, key)):
        raise NotFound(
            f"There is no session {name[:80]!r} in learner {txn.name!r}.",
            next_step="Use the name that a run's page shows; nothing was erased.",
        )
    executions = _executions_of(txn, list(runs)) | executions
    return Scope(runs, executions, (str(key[1]),), True, _episodes_of(txn, list(runs)))


def _was_offered(txn: Transaction, key: Sequence[Any]) -> bool:
    """Return whether a session name is known from offers, holds, trials or spans alone."""
    return txn.has_row(
        "SELECT 1 FROM offer WHERE learner_id = ? AND session = ?"
        " UNION ALL SELECT 1 FROM hold WHERE learner_id = ? AND session = ?"
        " UNION ALL SELECT 1 FROM agent_session WHERE learner_id = ? AND name = ?"
        " UNION ALL SELECT 1 FROM trial_session WHERE learner_id = ? AND session = ?"
        " UNION ALL SELECT 1 FROM assignment WHERE learner_id = ? AND session = ?"
        " UNION ALL SELECT 1 FROM trace WHERE learner_id = ? AND session = ? LIMIT 1",
        [key[1], *key, *key, *key, *key, *key],
    )


def _executions_of(txn: Transaction, run_nos: Sequence[int]) -> dict[int, str]:
    return dict(
        txn.rows_in(
            "SELECT execution_no, uid FROM execution WHERE learner_id = ? AND run_no <> 0 AND run_no IN ({})",
            run_nos,
        )
    )


def _episodes_of(txn: Transaction, run_nos: Sequence[int]) -> dict[int, str]:
    """Episodes in which some of the runs were made."""
    return dict(
        txn.rows_in(
            "SELECT e.episode_no, e.uid FROM episode_run l JOIN episode e"
            " ON e.learner_id = l.learner_id AND e.episode_no = l.episode_no"
            " WHERE l.learner_id = ? AND l.run_no IN ({})",
            run_nos,
        )
    )


# Words


def erase_words(txn: Transaction, scope: Scope) -> Counter[str]:
    """Erase the texts of a scope; return how many, by column."""
    spoil(txn)
    counts: Counter[str] = Counter()
    txn.rewrite(lambda: counts.update(_words_erased(txn, scope)))
    return +counts


def erase_act(txn: Transaction, act: str) -> Counter[str]:
    """Erase the words of an act by its id, and return how many. Raises `UnknownAct` for an act without words."""
    kind, _, number = act.partition("-")
    table = next((table for table, name in _ACTS.items() if name == kind), "")
    place = next((one for one in _NAMED_IN if table and one.startswith(f"{table}.")), "")
    column = place.partition(".")[2]
    row = (
        txn.row(f'SELECT {column} FROM "{table}" WHERE learner_id = ? AND {table}_no = ?', [int(number)])
        if place and number.isdecimal() and len(number) < _MOST_DIGITS
        else None
    )
    if row is None or row[0] in {None, "", LEFT_OUT}:
        raise UnknownAct(
            f"There is no act {act[:80]!r} with words in learner {txn.name!r}.",
            next_step="Use an id that armscope changes lists; nothing was erased.",
        )
    spoil(txn)
    concerned = {table: {(int(number),)}}
    counts: Counter[str] = Counter({place: 1})

    def empty() -> None:
        _empty(txn, table, concerned[table])
        counts["audit.detail"] += _unsay(txn, concerned)

    txn.rewrite(empty)
    return +counts


def _words_erased(txn: Transaction, scope: Scope) -> Counter[str]:
    before = txn.erased
    session: Remembered = "session" if scope.is_whole_session else "name"
    names = [one for one in scope.sessions if scope.is_whole_session or not before.is_number(one)]
    erased = _remember(
        txn,
        [
            *(("run", uid) for uid in scope.runs.values()),
            *(("execution", uid) for uid in scope.executions.values()),
            *(("episode", uid) for uid in scope.episodes.values()),
            *((session, name) for name in names),
        ],
    )
    n_erased: Counter[str] = Counter()
    concerned = _concerned(txn, scope)
    for table, rows in concerned.items():
        n_erased[_column_of(table)] += len(rows)
        _empty(txn, table, rows)
    n_erased["audit.detail"] += _unsay(txn, concerned)
    n_erased["evidence.excerpt"] += _drop_excerpts(txn, scope)
    n_erased["training_pair"] += _drop_pairs(txn, scope)
    n_erased["run_text"] += drop_transcripts(txn, list(scope.runs))
    n_erased["step_text"] += drop_step_texts(txn, list(scope.episodes))
    n_erased["step_text"] += drop_rollout_texts(txn, list(scope.episodes.values()))
    n_erased["episode.task"] += drop_tasks(txn, list(scope.episodes))
    n_erased["episode.task"] += drop_rollout_tasks(txn, list(scope.episodes.values()))
    n_erased["review_draft.fields"] += _drop_drafts(txn, scope)
    trace_uids = [uid.removeprefix(TRACES) for uid in scope.runs.values() if uid.startswith(TRACES)]
    n_erased["span.content"] += drop_traces(txn, trace_uids, scope.sessions)
    n_erased["import.summary"] += _drop_quotes(txn, scope)
    sessions = {
        name: erased.number_for("name", name) for name in scope.sessions if not before.is_number(name)
    }
    n_erased["session"] += _rename_sessions(txn, scope, sessions)
    mark_runs(txn, scope.runs)
    _name_what_is_left(txn, scope, sessions)
    return n_erased


def _name_what_is_left(txn: Transaction, scope: Scope, sessions: Mapping[str, str]) -> None:
    """Name what is left of each version that lost its words, so that a later change of it is found."""
    renamed_runs = txn.distinct_in(
        "SELECT run_no FROM run WHERE learner_id = ? AND session IN ({})", sorted(sessions.values())
    )
    rename_sessions_of_trials(txn, sessions)
    rename_sessions_of_experiments(txn, sessions)
    archived = txn.column("SELECT DISTINCT run_no FROM version WHERE learner_id = ?")
    concerned = {*scope.runs, *renamed_runs, *(archived if sessions else ())}
    for run_nos in chunks(sorted(concerned)):
        left = [one for one in contents(txn, run_nos) if not one.is_whole]
        rows = [txn.erased.left_of(one.uid, one.digest, one.stored) for one in left]
        txn.connection.many(REMEMBER, [(txn.learner_id, row, txn.now_ms) for row in rows])


def _remember(txn: Transaction, named: Iterable[tuple[Remembered, str]]) -> Erased:
    if txn.erased.key is None:
        txn.run(REMEMBER, [new_key(), txn.now_ms])
        txn.erased = Erased.of(txn.connection, txn.learner_id)
    rows = [(txn.learner_id, txn.erased.digest(kind, name), txn.now_ms) for kind, name in named]
    txn.connection.many(REMEMBER, rows)
    txn.erased = Erased.of(txn.connection, txn.learner_id)
    return txn.erased


def _column_of(table: str) -> str:
    return next(column for column in _NAMED_IN if column.startswith(f"{table}."))


def _concerned(txn: Transaction, scope: Scope) -> dict[str, set[tuple[Any, ...]]]:
    """Rows with words about the scope, or that name it, by table and key."""
    concerned: dict[str, set[tuple[Any, ...]]] = {}
    names = [name for name in scope.names if len(name) >= _SHORTEST_NAME]
    for text_column in _WORDS:
        table, column = text_column.split(".")
        held = [(name, row) for name in names for row in _holding(txn, table, column, name)]
        concerned[table] = {tuple(key) for name, (*key, text) in held if _whole(name).search(text)}
        run_no, executions = _ABOUT.get(table, (None, ()))
        requests = [(one, list(scope.executions)) for one in executions]
        if run_no is not None:
            requests.append((run_no, list(scope.runs)))
        for about, numbers in requests:
            concerned[table].update(
                txn.rows_in(
                    f'SELECT {", ".join(key_of(table))} FROM "{table}" WHERE learner_id = ? AND {about} <> 0'
                    f" AND {column} <> '' AND {about} IN ({{}})",
                    numbers,
                )
            )
    concerned["review_aside"].update(_asides_of(txn, scope))
    return concerned


def _holding(txn: Transaction, table: str, column: str, name: str) -> Rows:
    """Keys and words of rows that hold a name somewhere, in capitals or not."""
    escaped = name.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return txn.rows(
        f'SELECT {", ".join(key_of(table))}, {column} FROM "{table}" WHERE learner_id = ? AND {column} LIKE ?'
        " ESCAPE '!'",
        [f"%{escaped}%"],
    )


def _whole(name: str) -> re.Pattern[str]:
    """A name as a whole word."""
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


def _asides_of(txn: Transaction, scope: Scope) -> Rows:
    items = {
        row
        for column, numbers in (("run_no", scope.runs), ("execution_no", scope.executions))
        for row in txn.rows_in(
            f"SELECT q.uid, q.review_queue_no, i.item_no FROM review_item i JOIN review_queue q"
            " ON q.learner_id = i.learner_id AND q.review_queue_no = i.review_queue_no"
            f" WHERE i.learner_id = ? AND i.{column} <> 0 AND i.{column} IN ({{}})",
            list(numbers),
        )
    }
    return [
        row
        for uid, number, item_no in items
        for row in txn.rows(
            "SELECT review_aside_no FROM review_aside WHERE learner_id = ? AND queue = ? AND item_no = ?"
            " AND reason <> ?",
            [uid or f"{txn.origin}/queue-{number}", item_no, LEFT_OUT],
        )
    ]


def _empty(txn: Transaction, table: str, rows: set[tuple[Any, ...]]) -> None:
    """Take the words out of rows, and out of what their requests were answered with."""
    text_column = _column_of(table)
    column = text_column.split(".")[1]
    if table == "rubric":
        read = "SELECT rubric_no, content FROM rubric WHERE learner_id = ? AND rubric_no IN ({})"
        _rewrite(txn, table, column, txn.rows_in(read, [key for (key,) in rows]), _unworded)
        return
    _put(txn, table, column, [(_EMPTY.get(text_column, ""), *key) for key in sorted(rows)])
    act = _ACTS.get(table)
    if act is not None:
        _rewrite(
            txn,
            "reply",
            "answer",
            txn.connection.rows_in(
                "SELECT kind, no, answer FROM reply WHERE learner_id = ? AND kind = ? AND no IN ({})",
                [txn.learner_id, act],
                [key[0] for key in sorted(rows)],
            ),
            _wordless,
        )


def _unworded(rubric: dict[str, Any]) -> dict[str, Any]:
    """Return a rubric's version and the outcomes of its levels, without its words."""
    levels = [{**level, "words": LEFT_OUT, "example": ""} for level in rubric.get("levels", ())]
    return {"version": rubric["version"]} | ({"levels": levels} if levels else {})


def _unsay(txn: Transaction, concerned: Mapping[str, set[tuple[Any, ...]]]) -> int:
    """Take the words out of the audit of acts; of how many entries."""
    acts = [f"{_ACTS[table]}-{key[0]}" for table, rows in concerned.items() if table in _ACTS for key in rows]
    rows = txn.rows_in("SELECT audit_no, detail FROM audit WHERE learner_id = ? AND act IN ({})", acts)
    return _rewrite(txn, "audit", "detail", rows, _wordless)


def _rewrite(txn: Transaction, table: str, column: str, rows: Rows, change: Callable[[Any], Any]) -> int:
    """Put JSON that is changed into its place; how many texts did change. Each row ends with the text."""
    changes = []
    for *key, text in rows:
        before = msgspec.json.decode(text)
        after = change(before)
        if after != before:
            changes.append((msgspec.json.encode(after).decode(), *key))
    _put(txn, table, column, changes)
    return len(changes)


def _put(txn: Transaction, table: str, column: str, changes: Rows) -> None:
    """Write texts, each before the key of its row, and mark the rows as changed."""
    where = " AND ".join(f"{key} = ?" for key in key_of(table))
    txn.connection.many(
        f'UPDATE "{table}" SET {column} = ?{marking(table)} WHERE learner_id = ? AND {where}',
        [(text, *txn.marks(table), txn.learner_id, *key) for text, *key in changes],
    )


def _wordless(document: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON without what people wrote; texts stay texts, so that answers are still read."""
    if isinstance(document, dict):
        return {name: _blank(held) if name in _TEXTS else _wordless(held) for name, held in document.items()}
    return [_wordless(one) for one in document] if isinstance(document, list) else document


def _blank(held: object) -> object:
    return "" if isinstance(held, str) else held


# Texts of agents


def _drop_excerpts(txn: Transaction, scope: Scope) -> int:
    rows = txn.rows_in(
        "SELECT run_no, arm_no FROM evidence WHERE learner_id = ? AND excerpt IS NOT NULL AND run_no IN ({})",
        list(scope.runs),
    )
    txn.run_in("UPDATE evidence SET excerpt = NULL WHERE learner_id = ? AND run_no IN ({})", list(scope.runs))
    txn.run_in("DELETE FROM history WHERE learner_id = ? AND run_no IN ({})", list(scope.runs))
    _rewrite_versions(txn, list(scope.runs), stripped)
    return len(rows)


def _rewrite_versions(txn: Transaction, run_nos: Sequence[int], change: Callable[[Version], Version]) -> None:
    """Change inactive versions of runs, under the digests of their sources' content."""
    rows = txn.rows_in(
        "SELECT run_no, digest, payload FROM version WHERE learner_id = ? AND run_no IN ({})", run_nos
    )
    decode = msgspec.msgpack.Decoder(Version).decode
    txn.connection.many(
        "UPDATE version SET payload = ? WHERE learner_id = ? AND run_no = ? AND digest = ?",
        [
            (change(decode(payload)).encode(), txn.learner_id, run_no, digest)
            for run_no, digest, payload in rows
        ],
    )


def _drop_pairs(txn: Transaction, scope: Scope) -> int:
    numbers = list(scope.executions)
    rows = txn.rows_in(
        "SELECT execution_no FROM training_pair WHERE learner_id = ?"
        " AND coalesce(instruction, response) IS NOT NULL AND execution_no IN ({})",
        numbers,
    )
    txn.run_in(
        "UPDATE training_pair SET digest = '', instruction = NULL, response = NULL"
        " WHERE learner_id = ? AND execution_no IN ({})",
        numbers,
    )
    drop_indexed(txn.connection, txn.learner_id, "run", list(scope.runs))
    return len(rows)


def _drop_drafts(txn: Transaction, scope: Scope) -> int:
    """Delete drafts about it."""
    n_dropped = 0
    for column, numbers in (("run_no", scope.runs), ("execution_no", scope.executions)):
        rows = txn.rows_in(
            "SELECT d.review_queue_no, d.item_no, d.actor FROM review_draft d JOIN review_item i"
            " ON i.learner_id = d.learner_id AND i.review_queue_no = d.review_queue_no AND i.item_no = d.item_no"
            f" WHERE d.learner_id = ? AND i.{column} <> 0 AND i.{column} IN ({{}})",
            list(numbers),
        )
        txn.connection.many(
            "DELETE FROM review_draft WHERE learner_id = ? AND review_queue_no = ? AND item_no = ? AND actor = ?",
            [(txn.learner_id, *row) for row in rows],
        )
        n_dropped += len(rows)
    return n_dropped


def _drop_quotes(txn: Transaction, scope: Scope) -> int:
    """Remove quotes of their files from the answers of its imports."""
    run_nos = list(scope.runs)
    stripped = {
        number
        for sql in (
            "SELECT import_no FROM run WHERE learner_id = ? AND import_no > 0 AND run_no IN ({})",
            "SELECT import_no FROM provenance WHERE learner_id = ? AND kind = 'run' AND import_no > 0 AND no IN ({})",
        )
        for number in txn.distinct_in(sql, run_nos)
    } | {
        number
        for kind, numbers in (("execution", scope.executions), ("episode", scope.episodes))
        for number in txn.distinct_in(
            f"SELECT import_no FROM provenance WHERE learner_id = ? AND kind = '{kind}' AND import_no > 0"
            " AND no IN ({})",
            list(numbers),
        )
    }
    rows = txn.rows_in(
        "SELECT import_no, summary FROM import WHERE learner_id = ? AND import_no IN ({})", sorted(stripped)
    )
    return _rewrite(
        txn, "import", "summary", rows, lambda one: {name: _OF_FILES.get(name, one[name]) for name in one}
    )


def _rename_sessions(txn: Transaction, scope: Scope, sessions: Mapping[str, str]) -> int:
    """Replace names of sessions by numbers in every table; clusters stay the same."""
    n_renamed = 0
    for name, number in sessions.items():
        runs = txn.rows(
            "SELECT run_no, class, session_key FROM run WHERE learner_id = ? AND session = ?", [name]
        )
        txn.connection.many(
            "UPDATE run SET session = ?, session_key = ?, changed = ? WHERE learner_id = ? AND run_no = ?",
            [
                (
                    number,
                    session_key(run_no, run_class, number, is_assigned=key == ASSIGNED),
                    txn.revision,
                    txn.learner_id,
                    run_no,
                )
                for run_no, run_class, key in runs
            ],
        )
        txn.set_row("execution", "session = ?", [name], session=number)
        n_renamed += len(runs)
        for table, column in (("offer", "session"), ("hold", "session"), ("agent_session", "name")):
            n_renamed += txn.connection.n_changed(
                f"UPDATE {table} SET {column} = ? WHERE learner_id = ? AND {column} = ?",
                [(number, txn.learner_id, name)],
            )
    archived = txn.column("SELECT DISTINCT run_no FROM version WHERE learner_id = ?")
    if sessions:
        _rewrite_versions(
            txn,
            sorted({*scope.runs, *archived}),
            lambda version: renamed(version, lambda name: sessions.get(name or "", name)),
        )
    return n_renamed


# Persons


def erase_rater(txn: Transaction, name: str) -> Counter[str]:
    """Replace a person's name by a number in every table; return how often, by column.

    Raises `NotFound` for a name that occurs nowhere.
    """
    spoil(txn)
    places = [name_column.split(".") for name_column, how in REACHED.items() if how == "name"]
    occurs = 'SELECT count(*) FROM "{}" WHERE learner_id = ? AND {} = ?'
    counts = Counter({".".join(one): txn.count_of(occurs.format(*one), [name]) for one in places})
    is_known = any(counts.values()) or txn.erased.has("rater", name)

    def rename() -> None:
        number = _remember(txn, [("rater", name)]).number_for("rater", name)
        for table, column in places:
            txn.set_row(table, f"{column} = ?", [name], **{column: number})
        # Holds of browsers that the name is in end; it is no value of its own there.
        holders = txn.rows("SELECT DISTINCT actor FROM review_hold WHERE learner_id = ?")
        txn.connection.many(
            "DELETE FROM review_hold WHERE learner_id = ? AND actor = ?",
            [(txn.learner_id, one) for (one,) in holders if IN_BROWSER in one and _whole(name).search(one)],
        )
        counts.update(_rename_in_words(txn, name, number))
        counts["provenance.said"] += _rename_in_descriptions(txn, name, number)
        counts["setting.value"] += _rename_weights(txn, name, number)
        if not is_known and (len(name) < _SHORTEST_NAME or not any(counts.values())):
            raise NotFound(
                f"No person named {name[:80]!r} occurs in learner {txn.name!r}.",
                next_step="Write the name as the history shows it; nothing was erased.",
            )
        rows = txn.column(
            "SELECT DISTINCT layer_no FROM evaluation WHERE learner_id = ? AND layer_no <> 0 AND rater = ?"
            " ORDER BY layer_no",
            [number],
        )
        fold_again(txn, rows)

    txn.rewrite(rename)
    return +counts


def _rename_in_words(txn: Transaction, name: str, number: str) -> Counter[str]:
    """A person's name in what people wrote, as a whole word, and in answers and logs."""
    whole = _whole(name)
    renamed: Counter[str] = Counter()
    for column_name in _NAMED_IN:
        table, column = column_name.split(".")
        changes = [
            (after, *key)
            for *key, text in _holding(txn, table, column, name)
            if (after := whole.sub(number, text)) != text
        ]
        _put(txn, table, column, changes)
        renamed[column_name] += len(changes)
    for column_name in [column_name for column_name, how in REACHED.items() if how == "JSON"]:
        table, column = column_name.split(".")
        rows = txn.rows(f'SELECT {", ".join(key_of(table))}, {column} FROM "{table}" WHERE learner_id = ?')
        renamed[column_name] += _rewrite(
            txn, table, column, rows, lambda words: _renamed(words, whole, number)
        )
    return renamed


def _rename_in_descriptions(txn: Transaction, name: str, number: str) -> int:
    """A person's name in labels of arms, and in what describes layers."""
    whole = _whole(name)
    changes = []
    for kind, no, import_no, described in txn.rows(
        f"SELECT kind, no, import_no, {DESCRIPTION} FROM provenance WHERE learner_id = ?"
        f" AND kind IN ('label', 'layer') AND {DESCRIPTION} IS NOT NULL"
    ):
        after = whole.sub(number, described)
        if kind == "layer":
            fields = msgspec.json.decode(described)
            words = {one: _renamed(fields[one], whole, number) for one in _WORDS_OF_LAYERS if one in fields}
            after = msgspec.json.encode(fields | words).decode()
        if after != described:
            changes.append((after, txn.learner_id, kind, no, import_no))
    txn.connection.many(
        f"UPDATE provenance SET {DESCRIPTION} = ? WHERE learner_id = ? AND kind = ? AND no = ? AND import_no = ?",
        changes,
    )
    mark_arms(txn, {no for _, _, kind, no, _ in changes if kind == "label"})
    return len(changes)


def _rename_weights(txn: Transaction, name: str, number: str) -> int:
    """A person's name in the weights of raters, in each change of that setting and in the settings in force."""
    changes = []
    for setting_no, *values in txn.rows(
        "SELECT setting_no, value, before FROM setting WHERE learner_id = ? AND name = 'weight_by_agreement'"
    ):
        weights = [msgspec.json.decode(value) for value in values]
        after = [{number if one == name else one: held[one] for one in held} for held in weights]
        if after != weights:
            texts = [msgspec.json.encode(one).decode() for one in after]
            changes.append((*texts, txn.learner_id, setting_no))
    txn.connection.many(
        "UPDATE setting SET value = ?, before = ? WHERE learner_id = ? AND setting_no = ?", changes
    )
    if changes:
        enforce_settings(txn)
    return len(changes)


def _renamed(document: Any, whole: re.Pattern[str], number: str) -> Any:  # noqa: ANN401 - JSON
    if isinstance(document, str):
        return whole.sub(number, document)
    if isinstance(document, dict):
        return {name: _renamed(held, whole, number) for name, held in document.items()}
    return [_renamed(one, whole, number) for one in document] if isinstance(document, list) else document
