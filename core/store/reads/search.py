"""Search by names and ids: each word must occur in them, at any position, whatever the case of A to Z.

No index beside those of the tables is needed: at 100,000 runs their names are read in a fraction of a second. So no
write pays for a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.records.counts import number_of
from core.records.search import lowered
from core.records.times import DAY_MS
from core.store.caches import chunks
from core.store.engine.dialect import ACTIVE, BY_NAME, POSITION
from core.store.reads.runs import named_run
from core.store.reads.usage import strata
from core.store.tables import LISTED
from core.store.text_index import IndexedText, TextKind, find_indexed, has_beginnings, stored_texts
from core.store.transaction import Snapshot

_BETWEEN: Final = "' / '"
"""SQL between two names, so that only a word with this spans them."""
_TEXTS_READ: Final = 200
"""Texts of one search that are looked at."""
_TEXTS_AT_ONCE: Final = 20
_SESSIONS_READ: Final = 200
"""Names of sessions of one search."""
_ACTIVE_RUN: Final = f"{ACTIVE} AND outcome <> 'empty' AND revision <= ?"

_RUN: Final = "uid, session, model, channel, at_ms"

_EPISODE_NAMES: Final = f" || {_BETWEEN} || ".join(
    ("e.uid", "coalesce(e.task, '')", "coalesce(e.model, '')", "v.name")
)

_SUBJECTS: Final[dict[TextKind, str]] = {
    "run": f"SELECT run_no, uid, at_ms FROM run WHERE learner_id = ? AND {_ACTIVE_RUN} AND run_no IN ({{}})",
    "episode": (
        f"SELECT episode_no, uid, at_ms FROM episode WHERE learner_id = ? AND {ACTIVE} AND revision <= ?"
        " AND episode_no IN ({})"
    ),
}


class NameMatch(NamedTuple):
    """A hit: its id, its other names, the newest time known of it, and its title ("" = the id)."""

    id: str
    about: str
    at_ms: int | None
    title: str = ""


def _having(names: str, words: Sequence[str]) -> str:
    """Return the SQL condition that each word occurs in some names; its values are the words."""
    return " AND ".join(f"{POSITION}(lower({names}), ?) > 0" for _ in words)


def matching_arms(snapshot: Snapshot, words: Sequence[str], limit: int) -> list[NameMatch]:
    """Return listed arms by id, those first that begin with the first word, or have it as their name."""
    rows = snapshot.rows(
        "SELECT a.key, p.last_at_ms FROM arm a JOIN posterior p ON p.learner_id = a.learner_id"
        f" AND p.arm_no = a.arm_no WHERE a.learner_id = ? AND {LISTED} AND {_having('a.key', words)} ORDER BY"
        f" CASE WHEN lower(a.key) = ? THEN 0 WHEN {POSITION}(lower(a.key), ?) = 1 THEN 1"
        f" WHEN {POSITION}(lower(a.key), ?) > 0 THEN 2 ELSE 3 END, a.key LIMIT ?",
        [*words, words[0], words[0], f":{words[0]}", limit],
    )
    return [NameMatch(key, "", None if at_ms < 0 else at_ms) for key, at_ms in rows]


class SessionName(NamedTuple):
    """A name of a session in which some of the words occur."""

    name: str
    at_ms: int | None
    run_no: int


def session_names(snapshot: Snapshot, words: Sequence[str]) -> list[SessionName]:
    """Return names of sessions in which words occur, those with the most words first, then those with the newest run.

    Undone imports are not left out: only the index is read.
    """
    occurs = [f"CASE WHEN {POSITION}(lower(session), ?) > 0 THEN 1 ELSE 0 END" for _ in words]
    rows = snapshot.rows(
        f"SELECT session, max(at_ms), max(run_no) FROM run {BY_NAME} WHERE learner_id = ? AND session IS NOT NULL"
        f" AND ({' OR '.join(f'{POSITION}(lower(session), ?) > 0' for _ in words)}) GROUP BY session"
        f" ORDER BY {' + '.join(occurs)} DESC, coalesce(max(at_ms), -1) DESC, max(run_no) DESC LIMIT ?",
        [*words, *words, _SESSIONS_READ],
    )
    return [SessionName(*row) for row in rows]


def matching_runs(
    snapshot: Snapshot, text: str, words: Sequence[str], sessions: Sequence[SessionName], limit: int
) -> list[NameMatch]:
    """Return active runs by uid, session, model and channel, the newest first; before them that of a uid or number.

    Models, channels and ``sessions`` are few names, so that of each run the uid alone is searched.
    """
    columns = dict(zip(("model", "channel"), strata(snapshot), strict=True))
    columns["session"] = tuple(one.name for one in sessions)
    conditions, values = [], list[str]()
    for word in words:
        every, chosen = [f"{POSITION}(lower(uid), ?) > 0"], [word]
        for column, names in columns.items():
            if matching := [name for name in names if word in lowered(name)]:
                every.append(f"{column} IN ({','.join('?' * len(matching))})")
                chosen += matching
        conditions.append(f"({' OR '.join(every)})")
        values += chosen
    named, rows = snapshot.together(
        lambda: named_run(snapshot, text, _RUN, f"{ACTIVE} AND outcome <> 'empty'"),
        lambda: snapshot.rows(
            f"SELECT {_RUN} FROM run WHERE learner_id = ? AND {_ACTIVE_RUN} AND {' AND '.join(conditions)}"
            " ORDER BY run_no DESC LIMIT ?",
            [snapshot.revision, *values, limit],
        ),
    )
    every_row = dict.fromkeys([*([] if named is None else [named]), *rows])
    return [_of(uid, at_ms, *names) for uid, *names, at_ms in every_row][:limit]


def matching_sessions(
    snapshot: Snapshot, words: Sequence[str], sessions: Sequence[SessionName], limit: int
) -> list[NameMatch]:
    """Return ``sessions`` of active runs in which all words occur."""
    names = [one.name for one in sessions if all(word in lowered(one.name) for word in words)]
    rows = snapshot.connection.rows_in(
        f"SELECT session, count(*), max(at_ms) FROM run {BY_NAME} WHERE learner_id = ? AND {_ACTIVE_RUN}"
        " AND session IS NOT NULL AND session IN ({}) GROUP BY session",
        [snapshot.learner_id, snapshot.revision],
        names,
    )
    active = {name: rest for name, *rest in rows}
    shown = [name for name in names if name in active][:limit]
    return [NameMatch(name, number_of(active[name][0], "run"), active[name][1]) for name in shown]


def matching_episodes(snapshot: Snapshot, words: Sequence[str], limit: int) -> list[NameMatch]:
    """Return active episodes by uid, task, model and environment, the latest recorded first."""
    rows = snapshot.rows(
        "SELECT e.uid, v.name, e.task, e.model, e.at_ms FROM episode e JOIN environment v"
        " ON v.learner_id = e.learner_id AND v.environment_no = e.environment_no"
        f" WHERE e.learner_id = ? AND e.{ACTIVE} AND e.revision <= ? AND {_having(_EPISODE_NAMES, words)}"
        " ORDER BY e.episode_no DESC LIMIT ?",
        [snapshot.revision, *words, limit],
    )
    return [_of(uid, at_ms, *names) for uid, *names, at_ms in rows]


def matching_environments(snapshot: Snapshot, words: Sequence[str], limit: int) -> list[NameMatch]:
    """Return environments with active episodes by name; the time is the day of the newest episode."""
    rows = snapshot.rows(
        "SELECT v.name, max(d.day) FROM environment v JOIN environment_day d ON d.learner_id = v.learner_id"
        f" AND d.environment_no = v.environment_no AND d.n > 0 WHERE v.learner_id = ? AND {_having('v.name', words)}"
        " GROUP BY v.name ORDER BY v.name LIMIT ?",
        [*words, limit],
    )
    return [NameMatch(name, "", None if day < 0 else day * DAY_MS) for name, day in rows]


def matching_queues(snapshot: Snapshot, words: Sequence[str], limit: int) -> list[NameMatch]:
    """Return queues that are not undone, by name and id, the newest first."""
    names = f"name || {_BETWEEN} || 'queue-' || CAST(review_queue_no AS text)"
    rows = snapshot.rows(
        f"SELECT review_queue_no, name, at_ms FROM review_queue WHERE learner_id = ? AND {ACTIVE} AND undone = 0"
        f" AND {_having(names, words)} ORDER BY review_queue_no DESC LIMIT ?",
        [*words, limit],
    )
    return [NameMatch(f"queue-{number}", "", at_ms, name) for number, name, at_ms in rows]


class NoteMatch(NamedTuple):
    """A note by its text."""

    id: str
    arm: str
    at_ms: int
    text: str


def matching_notes(snapshot: Snapshot, words: Sequence[str], limit: int) -> list[NoteMatch]:
    """Return notes that are not undone, by text and arm, the newest first; none for a reader without texts."""
    if not snapshot.shows_words:
        return []
    rows = snapshot.rows(
        "SELECT n.note_no, a.key, n.at_ms, n.text FROM note n JOIN arm a ON a.learner_id = n.learner_id"
        f" AND a.arm_no = n.arm_no WHERE n.learner_id = ? AND n.{ACTIVE} AND n.undone = 0 AND n.text <> ''"
        f" AND {_having(f'n.text || {_BETWEEN} || a.key', words)} ORDER BY n.note_no DESC LIMIT ?",
        [*words, limit],
    )
    return [NoteMatch(f"note-{number}", *row) for number, *row in rows]


def _of(id: str, at_ms: int | None, *names: str | None) -> NameMatch:
    return NameMatch(id, " · ".join(one for one in names if one), at_ms)


class TextMatch(NamedTuple):
    """A run or an episode by its kept texts."""

    kind: TextKind
    id: str
    at_ms: int | None
    text: str


def matching_texts(
    snapshot: Snapshot, words: Sequence[str], limit: int, *, among: Sequence[int] | None = None
) -> list[TextMatch]:
    """Return active runs and episodes whose kept texts have all words, the newest first.

    None is read for a reader without texts, or while texts are not kept. A reader who may see the texts of some runs
    gets those ``among`` them. No other text and no index is read then, so that time depends on them alone.
    """
    if not snapshot.settings.keep_texts or not (snapshot.shows_texts or among):
        return []
    matches: list[TextMatch] = []
    indexed = (
        [IndexedText("run", run_no) for run_no in among or ()]
        if not snapshot.shows_texts
        else find_indexed(snapshot.connection, snapshot.learner_id, words, _TEXTS_READ)
    )
    for part in chunks(indexed, _TEXTS_AT_ONCE):
        matches += _having_words(snapshot, part, words)
        if len(matches) >= limit:
            break
    return sorted(matches[:limit], key=lambda one: -1 if one.at_ms is None else one.at_ms, reverse=True)


def _having_words(
    snapshot: Snapshot, indexed: Sequence[IndexedText], words: Sequence[str]
) -> list[TextMatch]:
    """Return those of some runs and episodes that are active and have all words as they are written."""
    known: dict[IndexedText, TextMatch] = {}
    for kind, sql in _SUBJECTS.items():
        numbers = [one.number for one in indexed if one.kind == kind]
        rows = snapshot.connection.rows_in(sql, [snapshot.learner_id, snapshot.revision], numbers)
        texts = stored_texts(snapshot.connection, snapshot.learner_id, kind, [number for number, *_ in rows])
        for number, uid, at_ms in rows:
            text = texts.get(number, "")
            is_indexed = snapshot.shows_texts or has_beginnings(text, words)
            if is_indexed and all(word.lower() in text.lower() for word in words):
                known[IndexedText(kind, number)] = TextMatch(kind, uid, at_ms, text)
    return [known[one] for one in indexed if one in known]
