"""Episodes: rewards of environments → rows, and rows → lines of an export.

**Versions.** An episode grows while it is recorded, so several imports can bring it with different numbers of steps.
Undoing an import must restore the episode of the other imports, so no version may be lost. Each source (one per
import, 0 = recorded directly) is a row of ``provenance`` with its place (``trace``), its number of steps (rank) and
the version's digest.

**Version in force.** It is the active source's version with the highest place, then with the most steps, then the
first. A later state (`core.maths.episodes.is_later`) is placed above the version in force when it comes, any
other state below. So is a state that nothing orders, unless the import replaces. Sources from before places (0) are
ordered by steps and digest. Only the steps of the version in force are rows of ``step``. The others are JSON in
``provenance.said``. `recompute_episodes` chooses again after an import, undo or redo. `_exchange` swaps the two.

**Writes.** `tell_episodes` stores full episodes: `_insert` the new ones, `_again` another source of known ones.
`add_step` appends one step without reading the others. Links to runs belong to no version, and exist for known runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from secrets import token_hex
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from core.errors import Conflict, InvalidInput, StoreUnusable
from core.maths.episodes import EpisodeTotals, after, is_later, totals_of
from core.records.answers import Imported
from core.records.episode import MAX_MEMBERS, MAX_STEPS, Digest, Episode, MetaDigest, Part, Scale, Step
from core.records.limits import shown
from core.records.verification import Difference
from core.store.caches import chunks, mark_runs, mark_runs_of
from core.store.engine.dialect import ACTIVE, EPISODES_BY_UID, RUNS_BY_UID
from core.store.environments import (
    Changes,
    Stored,
    count_on,
    counted_episodes,
    declared_scales,
    environment_nos,
)
from core.store.episode_credits import settle_episodes
from core.store.provenance import undone_imports
from core.store.texts import is_erased_episode, keep_step_texts, with_step_texts
from core.store.transaction import Facts, Snapshot, Transaction

_RUNS_OF: Final = "SELECT run_no FROM episode_run WHERE learner_id = ? AND episode_no IN ({})"
_NAMES: Final = ("split", "task", "variant", "model", "at_ms")
_COLUMNS: Final = (
    "format",
    "environment_no",
    *_NAMES,
    "n_steps",
    "n_paid",
    "finished",
    "total_text",
    "final_text",
    "status",
    "total",
    "final",
    "digest",
)
"""Columns of the version in force."""
_ROW: Final = ("episode_no", "uid", "revision", "standing", "changed", *_COLUMNS)
_STEP: Final = (
    "episode_no",
    "step_no",
    "kind",
    "name",
    "reward",
    "finished",
    "refused",
    "at_ms",
    "n_chars_in",
    "n_chars_out",
    "note",
    "extra",
    "args_digest",
    "meta_digest",
)
_PART: Final = ("episode_no", "name", "value", "kind")
_RUN: Final = ("episode_no", "run_no")
_SOURCE: Final = ("kind", "no", "import_no", "revision", "trace", "rank", "digest", "said")
_PLACES: Final = 9
"""Bits of a place for later states of one rank; the rank that the source gives is above them."""
_REPLACED: Final = 1 << 60
"""Places from here on were given by a person; only growth comes after them."""
_BELOW: Final = (0, -1)
"""Place and rank below every version in force."""
_DIGEST_BYTES: Final = 8
_NEVER: Final = 1 << 62
"""Number above that of every episode."""
_KEY_BYTES: Final = 32
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Episode)
_number: Final = int.from_bytes

_NO_DIGESTS: Final = [None, None]


class _Digests(NamedTuple):
    """Digests of a step's arguments and metadata."""

    args: Digest | None
    meta: MetaDigest | None


class Source(NamedTuple):
    """One import's version (0 = direct): revision, place, number of steps, digest; the line, unless in the rows."""

    import_no: int
    revision: int
    place: int
    rank: int
    digest: int
    line: str | None

    @property
    def order(self) -> tuple[int, int, int]:
        """The active source with the highest one is in force."""
        has_no_place = self.place == 0 <= self.rank
        return self.place, self.rank, self.digest if has_no_place else -self.revision


class Plan(NamedTuple):
    """The required content of an episode's row."""

    is_active: int
    revision: int
    digest: int


class _EpisodeVersion(NamedTuple):
    """Version to store: its line, its steps as rows without digests of arguments, and its digest."""

    line: Episode
    steps: Sequence[tuple[object, ...]]
    digest: int

    @classmethod
    def of(cls, line: Episode) -> _EpisodeVersion:
        steps = [_values(step) for step in line.steps]
        return cls(line, steps, _digest_of(line, steps))

    @property
    def rank(self) -> int:
        return len(self.line.steps)

    @property
    def place(self) -> int:
        return (1 + self.line.rank) << _PLACES


def tell_episodes(txn: Transaction, lines: Sequence[Episode], *, import_no: int = 0) -> list[Imported]:
    """Store episodes; return for each whether it was new, known, later than before, or another one that stays out.

    ``import_no`` 0 = recorded directly: then a known one with other content raises `Conflict`, unless it grew.
    """
    results: dict[int, Imported] = {}
    versions = [_EpisodeVersion.of(line) for line in _keyed(txn, lines)]
    rest = list(range(len(versions)))
    while rest:
        first: dict[str, int] = {}
        later = [index for index in rest if first.setdefault(versions[index].line.uid, index) != index]
        distinct = [versions[index] for index in first.values()]
        results |= dict(zip(first.values(), _tell_distinct(txn, distinct, import_no), strict=True))
        rest = later
    return [results[index] for index in range(len(versions))]


def retell_episodes(txn: Transaction, lines: Sequence[Episode]) -> None:
    """Overwrite directly recorded episodes with their present version.

    Digests of arguments and metadata have the learner's key already, and each uid occurs once.
    """
    if lines:
        _tell_distinct(txn, [_EpisodeVersion.of(line) for line in lines], 0, replaces=True)


def _tell_distinct(
    txn: Transaction, versions: Sequence[_EpisodeVersion], import_no: int, *, replaces: bool = False
) -> list[Imported]:
    known: dict[str, int] = dict(
        txn.rows_in(
            f"SELECT uid, episode_no FROM episode {EPISODES_BY_UID} WHERE learner_id = ? AND uid IN ({{}})",
            [version.line.uid for version in versions],
        )
    )
    fresh = [version for version in versions if version.line.uid not in known]
    first = txn.number("episode", len(fresh))
    numbers = known | {version.line.uid: number for number, version in enumerate(fresh, first)}
    if fresh:
        _insert(txn, {numbers[version.line.uid]: version for version in fresh}, import_no)
    again = [(numbers[one.line.uid], one) for one in versions if one.line.uid in known]
    changed = _again(txn, again, import_no, replaces=replaces)
    for line in (version.line for version in versions):
        number = numbers[line.uid]
        keep_step_texts(txn, number, line.steps, uid=line.uid, runs=line.runs, digest=step_digest)
    _link(txn, {numbers[version.line.uid]: version.line.runs for version in versions})
    return [changed.get(numbers[version.line.uid], "new") for version in versions]


def _insert(txn: Transaction, fresh: Mapping[int, _EpisodeVersion], import_no: int) -> None:
    txn.note_news()
    environments = environment_nos(txn, {version.line.environment for version in fresh.values()})
    rows = (
        (number, version.line.uid, txn.revision, 1, txn.revision, *_columns(version, environments))
        for number, version in fresh.items()
    )
    txn.connection.insert("episode", _ROW, txn.learner_id, chain.from_iterable(rows))
    sources = (
        ("episode", number, import_no, txn.revision, version.place, version.rank, version.digest, None)
        for number, version in fresh.items()
    )
    txn.connection.insert("provenance", _SOURCE, txn.learner_id, chain.from_iterable(sources))
    _write_parts(txn, fresh)
    changes = Changes()
    changes.add(counted_episodes(txn, list(fresh)))
    changes.write(txn)
    settle_episodes(txn, list(fresh))  # a file can hold the credit before the episode


def _again(
    txn: Transaction, again: Sequence[tuple[int, _EpisodeVersion]], import_no: int, *, replaces: bool
) -> dict[int, Imported]:
    """Record another source of known episodes, and activate the latest version."""
    numbers = [number for number, _ in again]
    sources, now = _sources(txn, numbers), _rows(txn, numbers)
    noted, left_out = [], set()
    differing = sorted(number for number, version in again if version.digest != now[number].digest)
    in_force = dict(zip(differing, read_episodes(txn, differing), strict=True))
    for number, version in again:
        own = next((one for one in sources[number] if one.import_no == import_no), None)
        is_direct = import_no == 0 and not replaces
        if is_direct and now[number].is_active and _is_other(txn, number, version, now[number].digest):
            raise _conflict(version.line.uid)
        order = max(
            (one.order[:2] for one in sources[number] if one.digest == now[number].digest), default=_BELOW
        )
        place, rank, is_left_out = _placed(version, in_force.get(number), order, replaces=txn.replaces)
        if replaces:
            place, rank = version.place if own is None else own.place, version.rank
        if is_left_out and now[number].is_active:
            left_out.add(number)
        if replaces or own is None or (place, rank) > (own.place, own.rank):
            line = None if version.digest == now[number].digest else _encoded(version.line)
            source = (place, rank, version.digest, line)
            noted.append((txn.learner_id, "episode", number, import_no, txn.revision, *source))
    txn.connection.many(
        f"INSERT INTO provenance (learner_id, {', '.join(_SOURCE)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (learner_id, kind, no, import_no) DO UPDATE"
        " SET trace = excluded.trace, rank = excluded.rank, digest = excluded.digest, said = excluded.said",
        noted,
    )
    changed = recompute_episodes(txn, [row[2] for row in noted])
    rest: Imported
    results: dict[int, Imported] = {}
    for number in numbers:
        rest = "other" if number in left_out else "duplicate"
        results[number] = ("updated" if now[number].is_active else "new") if number in changed else rest
    return results


def _placed(
    version: _EpisodeVersion, known: Episode | None, order: tuple[int, int], *, replaces: bool
) -> tuple[int, int, bool]:
    """Return place and rank of another source beside the ``known`` version in force, and if nothing orders them."""
    usual, (place, rank) = (version.place, version.rank), order
    if known is None:
        return *max(usual, order), False
    is_chosen, has_grown = place >= _REPLACED, version.rank > rank
    stated = 0 if is_chosen else max((place >> _PLACES) - 1, 0)
    later = is_later(replace(known, rank=stated), version.line)
    if later and is_chosen and not has_grown:
        later = None
    if later:
        return max(version.place, place + (not has_grown)), version.rank, False
    if later is None and replaces:
        return max(place + 1, _REPLACED), version.rank, False
    return *(usual if usual < order else _BELOW), later is None


def _is_other(txn: Transaction, number: int, version: _EpisodeVersion, digest_now: int) -> bool:
    """Return whether this is neither the known version nor a longer or shorter copy of it."""
    if version.digest == digest_now:
        return False
    known, other_steps = read_episode(txn, number).steps, version.line.steps
    both = min(len(known), len(other_steps))
    return len(known) == len(other_steps) or _exported_steps(known[:both]) != _exported_steps(
        other_steps[:both]
    )


def _exported_steps(steps: Sequence[Step]) -> list[Step]:
    return [replace(step, args_digest=None, meta_digest=None, asked=None, answered=None) for step in steps]


def _conflict(uid: str) -> Conflict:
    return Conflict(
        f"Episode {shown(uid)} is already recorded with other content.",
        next_step="Give every episode a uid of its own; send one that grew with all its steps.",
    )


# Versions


def episode_digest(line: Episode) -> int:
    """Return a signed 64-bit digest of a version, without runs and digests of arguments.

    It is the sum of the digests of its head and of its steps: one more step adds its own.
    """
    return _EpisodeVersion.of(line).digest


def _digest_of(line: Episode, steps: Iterable[tuple[object, ...]]) -> int:
    # Value by value: what a record leaves out as its default goes by identity, which a row does not keep.
    parts = [(part.name, part.value, part.kind) for part in line.parts]
    head = [getattr(line, name) for name in ("uid", "environment", "format", *_NAMES, "incomplete")] + [parts]
    if line.broken:  # digests of earlier versions stay as they were
        head.append("broken")
    lines = _ENCODER.encode_lines([head, *steps]).splitlines()  # one call: there may be a hundred thousand
    return _signed(sum([_number(blake2b(line, digest_size=_DIGEST_BYTES).digest(), "big") for line in lines]))


def step_digest(step: Step) -> int:
    """Return a signed 64-bit digest of a step without its texts."""
    return _signed(_digest(_ENCODER.encode(_values(step))))


def _signed(whole: int) -> int:
    return int.from_bytes((whole % (1 << 64)).to_bytes(_DIGEST_BYTES, "big"), "big", signed=True)


def _digest(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=_DIGEST_BYTES).digest(), "big")


def _values(step: Step) -> tuple[object, ...]:
    """Return a step's row without the episode's number and unexported columns."""
    return (
        step.number,
        step.kind,
        step.name,
        step.reward,
        1 if step.finished else 0,
        1 if step.refused else 0,
        step.at_ms,
        step.n_chars_in,
        step.n_chars_out,
        step.note,
        _ENCODER.encode(step.extra).decode() if step.extra else None,
    )


def _columns(version: _EpisodeVersion, environments: Mapping[str, int]) -> tuple[object, ...]:
    line = version.line
    totals = totals_of(line.steps, broken=line.broken)
    return (
        line.format,
        environments[line.environment],
        *(getattr(line, name) for name in _NAMES),
        *Stored.of(totals),
        line.status,
        None if totals.total is None else float(totals.total),
        None if totals.final is None else float(totals.final),
        version.digest,
    )


def _write_parts(txn: Transaction, versions: Mapping[int, _EpisodeVersion]) -> None:
    steps = [
        (number, *values, step.args_digest, step.meta_digest)
        for number, version in versions.items()
        for values, step in zip(version.steps, version.line.steps, strict=True)
    ]
    # The driver needs more time for a NULL than for a number, and most columns are empty.
    used = [at for at in range(len(_STEP)) if any(step[at] is not None for step in steps)]
    if used:
        columns, values_of = [_STEP[at] for at in used], itemgetter(*used)
        txn.connection.insert("step", columns, txn.learner_id, chain.from_iterable(map(values_of, steps)))
    parts = (
        (number, part.name, part.value, part.kind)
        for number, version in versions.items()
        for part in version.line.parts
    )
    txn.connection.insert("episode_part", _PART, txn.learner_id, chain.from_iterable(parts))


def _link(txn: Transaction, named: Mapping[int, Sequence[str]]) -> None:
    """Link episodes to those of the runs made in them that are here."""
    if not any(named.values()):
        return
    run_nos: dict[str, int] = dict(
        txn.rows_in(
            f"SELECT uid, run_no FROM run {RUNS_BY_UID} WHERE learner_id = ? AND uid IN ({{}}) AND revision <= ?",
            sorted({uid for uids in named.values() for uid in uids}),
            [txn.revision],
        )
    )
    links = {(number, run_nos[uid]): None for number, uids in named.items() for uid in uids if uid in run_nos}
    values = chain.from_iterable(links)
    txn.connection.insert("episode_run", _RUN, txn.learner_id, values, upsert="ON CONFLICT DO NOTHING")
    mark_runs(txn, {run_no for _, run_no in links})


def _exchange(txn: Transaction, number: int, plan: Plan, digest_now: int) -> None:
    """Write the planned version into the rows, and store the earlier one with its sources."""
    learner = txn.learner_id
    row = txn.connection.row(
        "SELECT said FROM provenance WHERE learner_id = ? AND kind = 'episode' AND no = ? AND digest = ?"
        " AND said IS NOT NULL LIMIT 1",
        [learner, number, plan.digest],
    )
    assert row is not None  # noqa: S101 - a source of another version has it as a line
    before = _encoded(read_episode(txn, number))
    for digest, line in ((digest_now, before), (plan.digest, None)):
        txn.connection.run(
            "UPDATE provenance SET said = ? WHERE learner_id = ? AND kind = 'episode' AND no = ? AND digest = ?",
            [line, learner, number, digest],
        )
    for table in ("step", "episode_part"):
        txn.connection.run(f"DELETE FROM {table} WHERE learner_id = ? AND episode_no = ?", [learner, number])
    version = _EpisodeVersion.of(_DECODER.decode(row[0]))
    environments = environment_nos(txn, [version.line.environment])
    txn.connection.run(
        f"UPDATE episode SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE learner_id = ? AND episode_no = ?",
        [*_columns(version, environments), learner, number],
    )
    _write_parts(txn, {number: version})


def _encoded(line: Episode) -> str:
    return _ENCODER.encode(replace(line.without_texts(), runs=(), revision=None, rank=0)).decode()


# Sources


def recompute_episodes(txn: Transaction, numbers: Sequence[int]) -> set[int]:
    """Recompute state and version of episodes from their active sources; return the changed ones."""
    return {number for part in chunks(numbers) for number in _recompute_chunk(txn, part)}


def _recompute_chunk(txn: Transaction, numbers: Sequence[int]) -> set[int]:
    now, plans = _rows(txn, numbers), episode_plans(txn, numbers)
    moved = {number: plan for number, plan in plans.items() if plan != now[number]}
    if not moved:
        return set()
    txn.note_news()
    changes = Changes()
    changes.take(counted_episodes(txn, list(moved)))
    for number, plan in moved.items():
        if plan.digest != now[number].digest:
            _exchange(txn, number, plan, now[number].digest)
    txn.connection.many(
        "UPDATE episode SET standing = ?, revision = ?, changed = ? WHERE learner_id = ? AND episode_no = ?",
        [
            (plan.is_active, plan.revision, txn.revision, txn.learner_id, number)
            for number, plan in moved.items()
        ],
    )
    changes.add(counted_episodes(txn, list(moved)))
    changes.write(txn)
    settle_episodes(txn, list(moved))
    mark_runs_of(txn, _RUNS_OF, moved)
    return {
        number
        for number, plan in moved.items()
        if (plan.is_active, plan.digest) != (now[number].is_active, now[number].digest)
    }


def episode_plans(facts: Facts, numbers: Sequence[int]) -> dict[int, Plan]:
    """Return the content of episodes by their active sources; one without any keeps its version."""
    undone = undone_imports(facts)
    sources, now = _sources(facts, numbers), _rows(facts, numbers)
    plans = {}
    for number in now:
        active = [one for one in sources[number] if one.import_no not in undone]
        if active:
            best = max(active, key=lambda one: one.order)
            plans[number] = Plan(1, min(one.revision for one in active), best.digest)
        else:
            plans[number] = now[number]._replace(is_active=0)
    return plans


def _rows(facts: Facts, numbers: Sequence[int]) -> dict[int, Plan]:
    return {
        number: Plan(*row)
        for number, *row in facts.rows_in(
            "SELECT episode_no, standing, revision, digest FROM episode WHERE learner_id = ? AND episode_no IN ({})",
            numbers,
        )
    }


def _sources(facts: Facts, numbers: Sequence[int]) -> dict[int, list[Source]]:
    sources: dict[int, list[Source]] = defaultdict(list)
    for number, *source in facts.rows_in(
        "SELECT no, import_no, revision, trace, rank, digest, said FROM provenance"
        " WHERE learner_id = ? AND kind = 'episode' AND no IN ({})",
        numbers,
    ):
        sources[number].append(Source(*source))
    return sources


def unlike_recorded(facts: Facts) -> Iterator[Difference]:
    """Check that directly recorded versions of episodes have the number and digest of their steps."""
    for number, rank, digest, line, *expected_version in facts.connection.rows(
        f"SELECT p.no, p.rank, p.digest, p.{_SOURCE[-1]}, (SELECT count(*) FROM step s"
        " WHERE s.learner_id = ? AND s.episode_no = p.no), e.digest FROM provenance p"
        " JOIN episode e ON e.learner_id = p.learner_id AND e.episode_no = p.no"
        " WHERE p.learner_id = ? AND p.kind = 'episode' AND p.import_no = 0",
        [facts.learner_id] * 2,
    ):
        version = None if line is None else _EpisodeVersion.of(_DECODER.decode(line))
        expected = tuple(expected_version) if version is None else (version.rank, version.digest)
        if (rank, digest) != expected:
            stored = f"steps and digest {(rank, digest)}"
            yield Difference("provenance", f"episode {number}", stored, str(expected))


# Reading


def read_episode(facts: Facts, number: int) -> Episode:
    """Return the version in force without its runs; raises `LookupError` for an unknown number."""
    for line in read_episodes(facts, [number]):
        return line
    raise LookupError(f"there is no row of episode number {number}")


def read_episodes(facts: Facts, numbers: Sequence[int]) -> Iterator[Episode]:
    """Yield the versions in force of several episodes, by number; raises `StoreUnusable` for rows that are none."""
    try:
        yield from _stored_episodes(facts, numbers)
    except InvalidInput as problem:
        raise StoreUnusable(
            f"A stored episode can't be read: {problem.problem}",
            next_step="Run armscope verify, and restore a backup if it finds differences.",
        ) from problem


def _stored_episodes(facts: Facts, numbers: Sequence[int]) -> Iterator[Episode]:
    key = [facts.learner_id]
    steps: dict[int, list[Step]] = defaultdict(list)
    for number, *step in sorted(
        facts.connection.rows_in(
            f"SELECT {', '.join(_STEP)} FROM step WHERE learner_id = ? AND episode_no IN ({{}})",
            key,
            numbers,
        ),
        key=lambda row: row[:2],
    ):
        steps[number].append(_step(step))
    parts: dict[int, list[Part]] = defaultdict(list)
    for number, name, value, kind in sorted(
        facts.connection.rows_in(
            f"SELECT {', '.join(_PART)} FROM episode_part WHERE learner_id = ? AND episode_no IN ({{}})",
            key,
            numbers,
        )
    ):
        parts[number].append(Part(name=name, value=value, kind=kind))
    for number, uid, environment, status, format_name, *names in sorted(
        facts.connection.rows_in(
            "SELECT e.episode_no, e.uid, v.name, e.status, e.format,"
            f" {', '.join(f'e.{name}' for name in _NAMES)} FROM episode e"
            " JOIN environment v ON v.learner_id = e.learner_id AND v.environment_no = e.environment_no"
            " WHERE e.learner_id = ? AND e.episode_no IN ({})",
            key,
            numbers,
        )
    ):
        yield Episode(
            uid=uid,
            environment=environment,
            format=format_name,
            **dict(zip(_NAMES, names, strict=True)),
            incomplete=status == "incomplete",
            broken=status == "broken",
            steps=tuple(steps[number]),
            parts=tuple(parts[number]),
        )


def _step(row: Sequence[Any]) -> Step:
    """Return a row as a step; the form of its digests is checked here, the rest by `Step`."""
    number, kind, name, reward, finished, refused, at_ms, n_in, n_out, note, extra, *digests = row
    args_digest, meta_digest = digests if digests == _NO_DIGESTS else msgspec.convert(digests, _Digests)
    return Step(
        number=number,
        kind=kind,
        name=name,
        reward=reward,
        finished=bool(finished),
        refused=bool(refused),
        at_ms=at_ms,
        n_chars_in=n_in,
        n_chars_out=n_out,
        note=note,
        extra=tuple(msgspec.json.decode(extra)) if extra else (),
        args_digest=args_digest,
        meta_digest=meta_digest,
    )


def episode_lines(snapshot: Snapshot) -> Iterator[tuple[int, Episode]]:
    """Return active episodes as lines, never before their runs and without digests of arguments."""
    runs: dict[int, list[str]] = defaultdict(list)
    exported: dict[int, int] = {}
    for number, uid, revision in snapshot.each(
        "SELECT l.episode_no, r.uid, r.revision FROM episode_run l"
        " JOIN run r ON r.learner_id = l.learner_id AND r.run_no = l.run_no"
        f" WHERE l.learner_id = ? AND r.{ACTIVE} AND r.revision <= ? ORDER BY l.episode_no, l.run_no",
        [snapshot.revision],
    ):
        runs[number].append(uid)
        exported[number] = max(exported.get(number, 0), revision)
    rows = snapshot.rows(f"SELECT revision, episode_no FROM episode WHERE learner_id = ? AND {ACTIVE}")
    order = sorted((max(revision, exported.get(number, 0)), number, revision) for revision, number in rows)
    for position, number, revision in order:
        line = read_episode(snapshot, number)
        steps = with_step_texts(snapshot, number, _exported_steps(line.steps), step_digest)
        yield position, replace(line, steps=tuple(steps), runs=tuple(runs[number]), revision=revision)


# Keys


def _keyed(txn: Transaction, lines: Iterable[Episode]) -> Iterator[Episode]:
    """Yield lines with digests of arguments and metadata under the learner's key, and without erased tasks."""
    for one in lines:
        is_erased = one.task is not None and is_erased_episode(txn, one.uid, one.runs)
        line = replace(one, task=txn.erased.task(one.task)) if is_erased else one
        steps = _keyed_steps(txn, line.steps)
        yield line if steps is line.steps else replace(line, steps=tuple(steps))


def _keyed_steps(txn: Transaction, steps: Sequence[Step]) -> Sequence[Step]:
    if all(step.args_digest is None and step.meta_digest is None for step in steps):
        return steps
    keyed_digests = iter(
        keyed(txn, *chain.from_iterable((step.args_digest, step.meta_digest) for step in steps))
    )
    return [replace(step, args_digest=next(keyed_digests), meta_digest=next(keyed_digests)) for step in steps]


def keyed(txn: Transaction, *digests: str | None) -> list[str | None]:
    """Return digests of arguments or metadata under the learner's key, which no export has."""
    known = txn.scalar(str, "SELECT digest_key FROM learner WHERE learner_id = ?") or ""
    if not known:
        known = token_hex(_KEY_BYTES)
        txn.connection.run("UPDATE learner SET digest_key = ? WHERE learner_id = ?", [known, txn.learner_id])
    key = bytes.fromhex(known)

    def under_key(digest: str) -> str:
        return blake2b(digest.encode(), key=key, digest_size=16).hexdigest()

    def of(digest: str) -> str:
        whole, *members = digest.split(" ")[: 1 + MAX_MEMBERS]
        return " ".join(
            [under_key(whole), *(under_key(one[:8])[:8] + under_key(one)[:24] for one in members)]
        )

    return [None if one is None else under_key(one) if len(one) == 32 else of(one) for one in digests]


# Erasing


def drop_tasks(txn: Transaction, numbers: Sequence[int]) -> int:
    """Replace the tasks of episodes by numbers, in every version; return how many rows changed."""
    beside = txn.rows_in(
        "SELECT no, import_no, said FROM provenance WHERE learner_id = ? AND kind = 'episode'"
        " AND said IS NOT NULL AND no IN ({})",
        numbers,
    )
    changes = Changes()
    changes.take(counted_episodes(txn, numbers))
    n_renamed = 0
    for number, line in zip(sorted(numbers), read_episodes(txn, numbers), strict=True):
        renamed = replace(line, task=txn.erased.task(line.task))
        if renamed.task != line.task:
            n_renamed += 1
            digest, same = (
                episode_digest(renamed),
                "kind = 'episode' AND no = ? AND digest = ? AND said IS NULL",
            )
            txn.set_row("episode", "episode_no = ?", [number], task=renamed.task, digest=digest)
            txn.set_row("provenance", same, [number, episode_digest(line)], digest=digest)
    for number, import_no, encoded in beside:
        line = _DECODER.decode(encoded)
        renamed = replace(line, task=txn.erased.task(line.task))
        if renamed.task != line.task:
            n_renamed += 1
            txn.connection.run(
                "UPDATE provenance SET digest = ?, said = ? WHERE learner_id = ? AND kind = 'episode' AND no = ?"
                " AND import_no = ?",
                [episode_digest(renamed), _encoded(renamed), txn.learner_id, number, import_no],
            )
    changes.add(counted_episodes(txn, numbers))
    changes.write(txn)
    recompute_episodes(txn, numbers)  # of two versions of one rank, the digests choose, and these are new
    return n_renamed


# Step by step


class Added(NamedTuple):
    """Recorded step, and the totals of its episode."""

    number: int
    refused: bool
    totals: EpisodeTotals


def add_step(
    txn: Transaction, uid: str, step: Step, *, is_numbered: bool, runs: Sequence[str] = ()
) -> Added | None:
    """Append a step to a directly recorded episode; None if there is no such episode yet.

    Without ``is_numbered`` it is the next step. A known number must have the same content, or raises `Conflict`. Only
    the sums and the last step of the episode are read.
    """
    row = txn.row(
        "SELECT e.episode_no, e.digest, p.digest, e.standing, e.n_steps, e.n_paid, e.finished, e.total_text,"
        " e.final_text, (SELECT max(s.step_no) FROM step s"
        " WHERE s.learner_id = ?1 AND s.episode_no = e.episode_no), EXISTS (SELECT 1 FROM episode_run l"
        " WHERE l.learner_id = ?1 AND l.episode_no = e.episode_no),"
        " e.environment_no, e.at_ms, e.split, e.variant, e.model, e.task"
        " FROM episode e LEFT JOIN provenance p ON p.learner_id = e.learner_id AND p.kind = 'episode'"
        " AND p.no = e.episode_no AND p.import_no = 0 WHERE e.learner_id = ?1 AND e.uid = ?",
        [uid],
    )
    if row is None or (row[2] is None and not row[3]):
        return None
    episode_no, digest, own, is_active = row[:4]
    stored, last, has_runs, head = row[4:9], row[9], row[10], row[11:]
    if digest != own:
        raise _conflict(uid)
    before = Stored(*stored)
    totals, following = before.totals, -1 if last is None else last
    number = step.number if is_numbered else following + 1
    if runs:
        _link(txn, {episode_no: runs})
    if number <= following:
        return Added(number, _same_step(txn, uid, episode_no, replace(step, number=number)), totals)
    if number > following + 1 or number >= MAX_STEPS:
        raise InvalidInput(
            f"The next step must be number {following + 1:,}, below {MAX_STEPS:,}, got {number:,}"
            f" (episode {shown(uid)}).",
            next_step="Send the steps in their order, or leave the number out.",
        )
    refused = step.refused or totals.finished
    if (number, refused) != (step.number, step.refused):
        step = replace(step, number=number, refused=refused)
    (added,) = _keyed_steps(txn, [step])
    now = after(totals, added)
    grown = Stored.of(now)
    _append(txn, episode_no, added, grown, now, digest=digest)
    if has_runs:
        mark_runs_of(txn, _RUNS_OF, [episode_no])
    if is_active:
        count_on(txn, head, (before, totals), (grown, now))
    if txn.settings.keep_texts:
        keep_step_texts(txn, episode_no, [added], uid=uid, runs=runs, digest=step_digest)
    return Added(number, added.refused, now)


def _same_step(txn: Transaction, uid: str, episode_no: int, step: Step) -> bool:
    """Return whether an equal known step was refused; raises `Conflict` for another one. Times are ignored."""
    row = txn.row(
        f"SELECT {', '.join(_STEP[1:])} FROM step WHERE learner_id = ? AND episode_no = ? AND step_no = ?",
        [episode_no, step.number],
    )
    known = None if row is None else _step(row)
    if known is None or (known.name, known.reward, known.finished) != (step.name, step.reward, step.finished):
        raise Conflict(
            f"Step {step.number} of episode {shown(uid)} is already recorded with other content.",
            next_step="Give every step a number of its own, or leave the number out.",
        )
    return known.refused


def _append(
    txn: Transaction, number: int, step: Step, stored: Stored, totals: EpisodeTotals, *, digest: int
) -> None:
    txn.note_news()
    values = [number, *_values(step), step.args_digest, step.meta_digest]
    txn.connection.insert("step", _STEP, txn.learner_id, values)
    grown = _signed(digest + _digest(_ENCODER.encode(_values(step))))
    total, final = (None if one is None else float(one) for one in (totals.total, totals.final))
    txn.connection.run(
        "UPDATE episode SET n_steps = ?, n_paid = ?, finished = ?, total_text = ?, final_text = ?, total = ?,"
        " final = ?, digest = ?, changed = ?, status = CASE WHEN status = 'unfinished' THEN ? ELSE status END"
        " WHERE learner_id = ? AND episode_no = ?",
        [
            *stored,
            total,
            final,
            grown,
            txn.revision,
            "finished" if totals.finished else "unfinished",
            txn.learner_id,
            number,
        ],
    )
    txn.connection.run(
        "UPDATE provenance SET rank = rank + 1, digest = ? WHERE learner_id = ? AND kind = 'episode' AND no = ?"
        " AND import_no = 0",
        [grown, txn.learner_id, number],
    )


def set_incomplete(txn: Transaction, uid: str) -> bool:
    """Mark an episode as incompletely recorded; return False for an unknown one. Imported versions stay unchanged."""
    row = txn.row(
        "SELECT e.episode_no, e.digest, p.digest FROM episode e JOIN provenance p ON p.learner_id = e.learner_id"
        " AND p.kind = 'episode' AND p.no = e.episode_no AND p.import_no = 0 WHERE e.learner_id = ?1 AND e.uid = ?",
        [uid],
    )
    if row is None:
        return False
    number, digest, own = row
    line = read_episode(txn, number)
    if digest != own or line.incomplete:
        return True
    txn.note_news()
    marked = episode_digest(replace(line, incomplete=True))
    txn.set_row("episode", "episode_no = ?", [number], status="incomplete", digest=marked)
    txn.set_row("provenance", "kind = 'episode' AND no = ? AND import_no = 0", [number], digest=marked)
    return True


def find_episode(facts: Facts, uid: str) -> tuple[Episode, Scale | None] | None:
    """Return an active episode with its runs and declared scale, and texts of steps for permitted callers."""
    row = facts.row(
        f"SELECT episode_no, environment_no FROM episode WHERE learner_id = ? AND uid = ? AND {ACTIVE}", [uid]
    )
    if row is None:
        return None
    runs = facts.column(
        "SELECT r.uid FROM episode_run l JOIN run r ON r.learner_id = l.learner_id AND r.run_no = l.run_no"
        f" WHERE l.learner_id = ? AND l.episode_no = ? AND r.{ACTIVE} ORDER BY l.run_no",
        [row[0]],
    )
    line = read_episode(facts, row[0])
    steps = tuple(with_step_texts(facts, row[0], line.steps, step_digest))
    return replace(line, steps=steps, runs=tuple(runs)), declared_scales(facts).get(row[1])


# Neighbours


def episodes_of_run(facts: Facts, run_no: int) -> tuple[str, ...]:
    """Return the active episodes of a run, by number."""
    rows = facts.column(
        "SELECT e.uid FROM episode_run l JOIN episode e ON e.learner_id = l.learner_id"
        f" AND e.episode_no = l.episode_no WHERE l.learner_id = ? AND l.run_no = ? AND e.{ACTIVE}"
        " ORDER BY l.episode_no",
        [run_no],
    )
    return tuple(rows)


def runs_of_episode(facts: Facts, uid: str) -> tuple[int, ...]:
    """Return numbers of an episode's active runs, the latest first."""
    rows = facts.column(
        "SELECT r.run_no FROM episode e JOIN episode_run l ON l.learner_id = e.learner_id"
        " AND l.episode_no = e.episode_no JOIN run r ON r.learner_id = l.learner_id AND r.run_no = l.run_no"
        f" WHERE e.learner_id = ? AND e.uid = ? AND r.{ACTIVE} ORDER BY r.run_no DESC",
        [uid],
    )
    return tuple(rows)


def episodes_beside(facts: Facts, uid: str) -> tuple[str | None, str | None]:
    """Return the previous and next episode of the environment in time; unknown times come first."""
    row = facts.row(
        "SELECT environment_no, at_ms, episode_no FROM episode WHERE learner_id = ? AND uid = ?", [uid]
    )
    if row is None:
        return None, None
    environment_no, at_ms, number = row
    if at_ms is None:
        newer = _next(facts, environment_no, "at_ms IS NULL AND episode_no > ?", [number], "ASC")
        return (
            _next(facts, environment_no, "at_ms IS NULL AND episode_no < ?", [number], "DESC"),
            newer or _next(facts, environment_no, "at_ms >= ?", [0], "ASC"),
        )
    older = _next(facts, environment_no, "(at_ms, episode_no) < (?, ?)", [at_ms, number], "DESC")
    return (
        older or _next(facts, environment_no, "at_ms IS NULL AND episode_no < ?", [_NEVER], "DESC"),
        _next(facts, environment_no, "(at_ms, episode_no) > (?, ?)", [at_ms, number], "ASC"),
    )


def _next(
    facts: Facts, environment_no: int, beyond: str, cursor: Sequence[int], way: Literal["ASC", "DESC"]
) -> str | None:
    return facts.scalar(
        str,
        f"SELECT uid FROM episode WHERE learner_id = ? AND environment_no = ? AND {ACTIVE}"
        f" AND {beyond} ORDER BY at_ms {way}, episode_no {way} LIMIT 1",
        [environment_no, *cursor],
    )
