"""What stored rows say of one another, beyond the caches: digests, numbers of other rows, the log of acts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from core.records.arm import arm_type
from core.records.layer import adapter_uri, layer_uid
from core.records.verification import Difference
from core.store.caches import CHUNK
from core.store.erased import Erased
from core.store.reads import numbered_runs
from core.store.tables import ACTS, metadata
from core.store.transaction import TEXTS_OF_DETAILS, Facts, Snapshot
from core.store.version import COLUMNS, NO_SOURCE, Version, load, version_rows

_SESSION: Final = COLUMNS.index("session")
_DESCRIBES: Final = "p.said > ''"

_PARENTS: Final[Mapping[str, str]] = {
    **{
        f"{name}_no": name
        for name in (
            *("adapter", "layer", "execution", "evaluation", "episode", "episode_credit", "environment"),
            *("reset", "repair", "review_queue", "compaction", "trial", "experiment"),
        )
    },
    "start_no": "experiment",
    "first_no": "execution",
    "second_no": "execution",
}
"""Columns that name a row of another table by its number; `core.store.damage` knows those of runs and arms."""
_OTHER_PARENTS: Final[Mapping[str, str]] = {
    "review_repeat.first_no": "evaluation",
    "review_repeat.second_no": "evaluation",
    "evaluation.supersedes": "evaluation",
    "layer_quality.last_no": "evaluation",
    "retraction.observation_no": "observation",
    "whole_reward.observation_no": "observation",
}

_NAMES: Final = (
    ("layer", "evaluation", "layer_no"),
    ("execution", "evaluation", "execution_no"),
    ("layer", "choice", "layer_no"),
    ("execution", "choice", "first_no"),
    ("execution", "choice", "second_no"),
)
"""Facts that name a layer or execution: its kind, their table and column."""
_NAMINGS: Final = " UNION ALL ".join(
    f"SELECT '{kind}' AS kind, t.{column} AS no, coalesce(s.import_no, t.import_no) AS import_no,"
    f" coalesce(s.revision, t.revision) AS revision FROM {table} t LEFT JOIN provenance s"
    f" ON s.learner_id = t.learner_id AND s.kind = '{table}' AND s.no = t.{table}_no"
    f" WHERE t.learner_id = ?1 AND t.{column} <> 0"
    for kind, table, column in _NAMES
)
_PAIRED: Final = (
    "SELECT 'layer' AS kind, t.layer_no AS no, p.import_no AS import_no, p.revision AS revision"
    " FROM training_pair t JOIN provenance p"
    " ON p.learner_id = t.learner_id AND p.kind = 'execution' AND p.no = t.execution_no AND p.import_no > 0"
    " JOIN layer l ON l.learner_id = t.learner_id AND l.layer_no = t.layer_no"
    f" WHERE t.learner_id = ?1 AND {_DESCRIBES} AND l.uid <> ?"
)
"""Layers of pairs that imports brought; the learner's own layer has none of them as its source."""
_QUEUED: Final = " UNION ALL ".join(
    f"SELECT '{kind}' AS kind, i.{kind}_no AS no, q.import_no AS import_no,"
    " coalesce(p.revision, q.revision) AS revision FROM review_item i"
    " JOIN review_queue q ON q.learner_id = i.learner_id AND q.review_queue_no = i.review_queue_no"
    " LEFT JOIN provenance p ON p.learner_id = q.learner_id AND p.kind = 'review_queue'"
    " AND p.no = q.review_queue_no AND p.import_no = q.import_no WHERE i.learner_id = ?1 AND q.import_no > 0"
    for kind in ("layer", "execution")
)
"""Items of a queue, which the import that made it names. Another import of the queue doesn't."""
Naming = tuple[str, int, int]
"""Kind and number of a layer or execution, and the import that names it (0 = none)."""

_SAID: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "observation": (
        "SELECT b.observation_no, a.key, r.uid, b.run_no, b.kind, b.reason FROM observation b"
        " JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no"
        " LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no"
        " WHERE b.learner_id = ? AND b.observation_no IN ({})",
        ("arm", "run", "run_no", "kind", "reason"),
    ),
    "note": (
        "SELECT n.note_no, a.key, n.text FROM note n"
        " JOIN arm a ON a.learner_id = n.learner_id AND a.arm_no = n.arm_no"
        " WHERE n.learner_id = ? AND n.note_no IN ({})",
        ("arm", "text"),
    ),
    "achieved": (
        "SELECT achieved_no, run, value FROM achieved WHERE learner_id = ? AND achieved_no IN ({})",
        ("run", "value"),
    ),
    "trial": ("SELECT trial_no, form FROM trial WHERE learner_id = ? AND trial_no IN ({})", ("form",)),
    "experiment": (
        "SELECT experiment_no, form FROM experiment WHERE learner_id = ? AND experiment_no IN ({})",
        ("form",),
    ),
    "assignment": (
        "SELECT assignment_no, side FROM assignment WHERE learner_id = ? AND assignment_no IN ({})",
        ("side",),
    ),
    "evaluation": (
        "SELECT evaluation_no, outcome, score, rater, model, rubric FROM evaluation"
        " WHERE learner_id = ? AND evaluation_no IN ({})",
        ("outcome", "score", "rater", "model", "rubric"),
    ),
    "browser": (
        "SELECT browser_no, named || ' ' || browser FROM browser WHERE learner_id = ? AND browser_no IN ({})",
        ("browser",),
    ),
    "choice": (
        "SELECT c.choice_no, l.uid, f.uid, s.uid, c.chosen FROM choice c"
        " JOIN layer l ON l.learner_id = c.learner_id AND l.layer_no = c.layer_no"
        " JOIN execution f ON f.learner_id = c.learner_id AND f.execution_no = c.first_no"
        " JOIN execution s ON s.learner_id = c.learner_id AND s.execution_no = c.second_no"
        " WHERE c.learner_id = ? AND c.choice_no IN ({})",
        ("layer", "first", "second", "chosen"),
    ),
    "reset": (
        "SELECT reset_no, n_arms, scope, target, reason FROM reset WHERE learner_id = ? AND reset_no IN ({})",
        ("arms", "scope", "to", "reason"),
    ),
    "repair": (
        "SELECT repair_no, n_arms, n_observations, reason FROM repair WHERE learner_id = ? AND repair_no IN ({})",
        ("arms", "observations", "reason"),
    ),
    "rubric": (
        "SELECT rubric_no, version FROM rubric WHERE learner_id = ? AND rubric_no IN ({})",
        ("version",),
    ),
    "scale": (
        "SELECT s.scale_no, e.name, s.lo, s.hi FROM scale s"
        " JOIN environment e ON e.learner_id = s.learner_id AND e.environment_no = s.environment_no"
        " WHERE s.learner_id = ? AND s.scale_no IN ({})",
        ("environment", "lo", "hi"),
    ),
    "episode_credit": (
        "SELECT episode_credit_no, episode, rule, reward FROM episode_credit"
        " WHERE learner_id = ? AND episode_credit_no IN ({})",
        ("episode", "rule", "reward"),
    ),
    "review_queue": (
        "SELECT review_queue_no, name FROM review_queue WHERE learner_id = ? AND review_queue_no IN ({})",
        ("name",),
    ),
    "review_aside": (
        "SELECT review_aside_no, item_no, reason FROM review_aside"
        " WHERE learner_id = ? AND review_aside_no IN ({})",
        ("item", "reason"),
    ),
    "setting": (
        "SELECT setting_no, name FROM setting WHERE learner_id = ? AND setting_no IN ({})",
        ("name",),
    ),
}
"""What the log also says of an act: how to read its row, and the names in the log."""
_TEXTS: Final = TEXTS_OF_DETAILS | {"name"}
"""Members that are empty where they were erased."""

_BY: Final = "{} at {}, revision {}"

_RATER: Final = re.compile(r"rater-\d+")
_DETAIL: Final = msgspec.json.Decoder(dict[str, Any])


# Digests


def unlike_digests(snapshot: Snapshot, taken: Callable[[int], None]) -> Iterator[Difference]:
    """Check that runs and their inactive versions have the digests of what they say.

    Erasing leaves the digest of the erased text, so that an import finds the same version, and names what is left.
    """
    erased = Erased.of(snapshot.connection, snapshot.learner_id)
    for run_nos in numbered_runs(snapshot, CHUNK):
        for one in contents(snapshot, run_nos):
            if not one.is_whole and not _is_erased(erased, one):
                table = "run" if one.trace is not None else "version"
                yield Difference(table, f"run {one.run_no}", f"digest {one.digest}", str(one.stored))
        taken(len(run_nos))


class StoredVersion(NamedTuple):
    """A run's version as it is stored, with the digests of its source's content. No ``trace``: it is inactive."""

    run_no: int
    uid: str
    trace: int | None
    digest: int
    version: Version

    @property
    def stored(self) -> tuple[int, int]:
        return self.version.digests()

    @property
    def is_whole(self) -> bool:
        """True if everything of the source's content is stored."""
        trace, digest = self.stored
        return digest == self.digest and self.trace in {None, trace}


def contents(facts: Facts, run_nos: Sequence[int]) -> Iterator[StoredVersion]:
    """Yield the versions of runs, active and inactive."""
    for head, values in version_rows(facts, run_nos):
        yield StoredVersion._make((*head, Version(*values)))
    for run_no, digest, uid in facts.rows_in(
        "SELECT v.run_no, v.digest, r.uid FROM version v"
        " JOIN run r ON r.learner_id = v.learner_id AND r.run_no = v.run_no"
        " WHERE v.learner_id = ? AND v.run_no IN ({})",
        run_nos,
    ):
        yield StoredVersion(run_no, uid, None, digest, load(facts, run_no, digest))


def unlike_sources(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that each source of a run has its version, in the run's rows or kept, and each kept version a source."""
    for run_no, import_no, digest in snapshot.rows(
        "SELECT p.no, p.import_no, p.digest FROM provenance p"
        " JOIN run r ON r.learner_id = p.learner_id AND r.run_no = p.no"
        " LEFT JOIN version v ON v.learner_id = p.learner_id AND v.run_no = p.no AND v.digest = p.digest"
        " WHERE p.learner_id = ? AND p.kind = 'run'"
        f" AND ({_DESCRIBES} OR (r.digest <> p.digest AND v.run_no IS NULL)) LIMIT 100"
    ):
        yield Difference("provenance", f"run {run_no}, import {import_no}", f"digest {digest}", "its version")
    for run_no, digest in snapshot.rows(
        f"SELECT run_no, digest FROM version WHERE learner_id = ?1{NO_SOURCE} AND NOT EXISTS (SELECT 1 FROM learner l"
        " WHERE l.learner_id = ?1 AND l.staged_import_no > 0) LIMIT 100"
    ):
        yield Difference(
            "version", f"run {run_no}", f"digest {digest}", "a source of this run with this digest"
        )
    for kind, number in snapshot.rows(
        "SELECT kind, no FROM provenance WHERE learner_id = ? AND kind IN ('layer', 'execution')"
        " AND (rank <> 0 OR trace <> 0 OR digest <> 0) LIMIT 100"
    ):
        yield Difference(
            "provenance", f"{kind} {number}", "a version", "none: only runs and episodes have any"
        )

    for run_no, stored, first in snapshot.rows(
        "SELECT r.run_no, r.import_no, p.import_no FROM run r"
        " JOIN provenance p ON p.learner_id = r.learner_id AND p.kind = 'run' AND p.no = r.run_no"
        " WHERE r.learner_id = ?1 AND r.import_no <> p.import_no AND NOT EXISTS (SELECT 1 FROM provenance s"
        " WHERE s.learner_id = ?1 AND s.kind = 'run' AND s.no = p.no AND s.revision < p.revision) LIMIT 100"
    ):
        yield Difference("run", str(run_no), f"import {stored}", f"import {first}, its first source")


def _is_erased(erased: Erased, one: StoredVersion) -> bool:
    session = one.version.columns[_SESSION]
    is_named = erased.has("run", one.uid) or (isinstance(session, str) and erased.is_number(session))
    return is_named and erased.is_left(one.uid, one.digest, one.stored)


# Numbers of other rows


@cache
def _references() -> tuple[tuple[str, str, str], ...]:
    """Tables, columns, and the tables that these name rows of."""
    return tuple(
        (str(table.name), column.name, parent)
        for table in metadata.sorted_tables
        for column in table.columns
        if (
            parent := _OTHER_PARENTS.get(f"{table.name}.{column.name}", _PARENTS.get(column.name, table.name))
        )
        != table.name
        or f"{table.name}.{column.name}" in _OTHER_PARENTS
    )


def unknown_numbers(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that rows that are named by their numbers are there."""
    for table, column, parent in _references():
        for number in snapshot.column(
            f'SELECT DISTINCT c.{column} FROM "{table}" c LEFT JOIN {parent} p'
            f" ON p.learner_id = c.learner_id AND p.{parent}_no = c.{column}"
            f" WHERE c.learner_id = ? AND c.{column} <> 0 AND p.{parent}_no IS NULL LIMIT 100"
        ):
            yield Difference(table, column, f"{parent} {number}", "an existing row")


# Sources that only name a layer or execution


def unlike_namings(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that a source that only names a layer or execution has a fact that names it, and no fact lacks one.

    A line of a file that names nothing more leaves no other trace.
    """
    named: dict[Naming, set[int]] = defaultdict(set)
    queued: dict[Naming, set[int]] = defaultdict(set)
    own_layer = layer_uid(adapter_uri(snapshot.name))
    for revisions, sql, values in (
        (named, _NAMINGS, ()),
        (named, _PAIRED, (own_layer,)),
        (queued, _QUEUED, ()),
    ):
        for kind, no, import_no, revision in snapshot.rows(sql, values):
            revisions[kind, no, import_no].add(revision)
    begun: dict[int, int] = dict(snapshot.rows("SELECT import_no, revision FROM import WHERE learner_id = ?"))
    known: set[Naming] = set()
    for kind, no, import_no, revision, is_described in snapshot.rows(
        f"SELECT kind, no, import_no, revision, CASE WHEN {_DESCRIBES} THEN 1 ELSE 0 END FROM provenance p"
        " WHERE learner_id = ? AND kind IN ('layer', 'execution')"
    ):
        naming = kind, no, import_no
        known.add(naming)
        facts = named.get(naming, set()) | queued.get(naming, set())
        if import_no == 0:
            fits = bool(facts) and revision == min(facts)
        else:
            fits = revision in facts if facts else revision >= begun.get(import_no, revision + 1)
        if not is_described and not fits:
            yield Difference("provenance", _shown(naming), f"revision {revision}", "that of its fact")
    for naming in named.keys() - known:
        yield Difference("provenance", _shown(naming), "nothing", "a source")


def _shown(naming: Naming) -> str:
    kind, no, import_no = naming
    return f"{kind} {no}, " + (f"import {import_no}" if import_no else "recorded directly")


# Small facts that follow from others


def unlike_facts(snapshot: Snapshot) -> Iterator[Difference]:
    """Check types of arms, kinds of observations, and that resets count no more arms than they list."""
    learner_key = [snapshot.learner_id]
    for number, key, stored in snapshot.connection.rows(
        "SELECT arm_no, key, type FROM arm WHERE learner_id = ?", learner_key
    ):
        if stored != arm_type(key):
            yield Difference("arm", str(number), f"type {stored}", f"type {arm_type(key)}")
    for number, stored, counted in snapshot.connection.rows(
        "SELECT r.reset_no, r.n_arms, count(a.arm_no) FROM reset r"
        " LEFT JOIN reset_arm a ON a.learner_id = r.learner_id AND a.reset_no = r.reset_no"
        " WHERE r.learner_id = ? GROUP BY r.reset_no, r.n_arms HAVING r.n_arms > count(a.arm_no)",
        learner_key,
    ):
        # A reset of all also covers arms that nothing lists any more, and doesn't count them.
        yield Difference("reset", str(number), f"{stored} arms", f"{counted} arms at most")
    for number, kind in snapshot.connection.rows(
        "SELECT observation_no, kind FROM observation WHERE learner_id = ?"
        " AND ((evaluation_no <> 0 AND kind <> 'evaluation') OR (episode_credit_no <> 0 AND kind <> 'episode'))",
        learner_key,
    ):
        yield Difference("observation", str(number), f"kind {kind}", "that of what it follows from")


# The log of acts


class _Entry(NamedTuple):
    """An entry of the log about an act."""

    number: int
    act: str
    actor: str
    at_ms: int
    revision: int
    detail: str


def unlike_log(snapshot: Snapshot) -> Iterator[Difference]:
    """Check that acts in the log are there, by the same person at the same time, and as the log says."""
    entries = snapshot.each(
        "SELECT act, actor, at_ms, revision, detail FROM audit WHERE learner_id = ? AND act IS NOT NULL"
    )
    while chunk := list(islice(entries, CHUNK)):
        by_kind: dict[str, list[_Entry]] = defaultdict(list)
        for act, *rest in chunk:
            kind, _, act_no = act.rpartition("-")
            if kind in ACTS and act_no.isdecimal():
                by_kind[ACTS[kind]].append(_Entry(int(act_no), act, *rest))
            else:
                yield Difference("audit", act, "an unknown act", "the id of an act")
        for table, named in by_kind.items():
            yield from _unlike_acts(snapshot, table, named)
            yield from _unlike_details(snapshot, table, named)


def _unlike_acts(snapshot: Snapshot, table: str, named: Sequence[_Entry]) -> Iterator[Difference]:
    # An import may go on; its row has the revision of its beginning.
    revision = "0" if table == "import" else "revision"
    known: dict[int, tuple[str, int, int]] = {
        number: (actor, at_ms, revision)
        for number, actor, at_ms, revision in snapshot.rows_in(
            f'SELECT {table}_no, actor, at_ms, {revision} FROM "{table}"'
            f" WHERE learner_id = ? AND {table}_no IN ({{}})",
            [one.number for one in named],
        )
    }
    for one in named:
        stored, logged = known.get(one.number), (one.actor, one.at_ms, one.revision * (table != "import"))
        if stored != logged:
            words = "nothing" if stored is None else _BY.format(*stored)
            yield Difference(table, one.act, words, f"{_BY.format(*logged)}, as the log says")


def _unlike_details(snapshot: Snapshot, table: str, named: Sequence[_Entry]) -> Iterator[Difference]:
    if table not in _SAID:
        return
    sql, members = _SAID[table]
    numbers = [one.number for one in named]
    rows: dict[int, dict[str, object]] = {
        number: dict(zip(members, row, strict=True)) for number, *row in snapshot.rows_in(sql, numbers)
    }
    for one in named:
        detail, row = _DETAIL.decode(one.detail), rows.get(one.number, {})
        name_of_run = str(detail.get("run")).removeprefix("#").replace(",", "")
        if "run_no" in row and name_of_run == str(row["run_no"]):  # a request may name a run by its number
            detail["run"] = row["run"]
        for name, stored in row.items():
            logged = detail.get(name)
            # An erased person's name may have been part of a longer one.
            is_renamed = isinstance(logged, str) and _RATER.search(logged) is not None
            if name not in detail or (name in _TEXTS and not logged) or is_renamed:
                continue  # erased
            if logged != stored and {logged, stored} != {None, ""}:
                yield Difference(table, one.act, f"{name} {stored}", f"{logged}, as the log says")
