"""Compacted runs: the sums that are left of deleted runs, and the digests of their uids.

`core.store.compacting` deletes the runs. Their sums are kept by arm, segment and hour. A segment lies between two
resets, active or undone, of any arm. So a reset can be undone and redone: each segment joins the epoch that its facts
would be in. All sums come from the detector, because runs with rewards of people, graders or episodes stay.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np

from core.columns import UNKNOWN, Ints
from core.errors import NotApplicable, StoreUnusable
from core.records.arm import MICRO
from core.records.status import Compacted
from core.records.times import HOUR_MS, iso
from core.store.engine import Connection
from core.store.rollup import USAGE_SUMS, Rollup
from core.store.transaction import Epochs, Facts

Columns = list[list[int]]
Kind = tuple[str, str, str, str, str, int]
"""Class, model, channel, status, outcome, and baseline probability in millionths, as of `rollup.UsageHour`."""

_LEVEL: Final = 9
_KEYS: Final = 3
"""Columns of an arm's row that are its key: arm, segment, hour."""
_SIGN: Final = 1 << 63
_UIDS: Final = (
    "SELECT uid_high, uid_low, compaction_no, trace FROM compacted WHERE learner_id = ? AND uid_high IN ({})"
)
_SUMS: Final = "SELECT sums FROM compaction WHERE learner_id = ?"
_LOCKED: Final = (
    "SELECT sum(c.n_runs), max(k.at_ms) FROM compacted_import c JOIN compaction k"
    " ON k.learner_id = c.learner_id AND k.compaction_no = c.compaction_no"
    " WHERE c.learner_id = ? AND c.import_no = ?"
)

_NOTHING: Final = msgspec.Raw(b"\xc0")
"""Packed rows of a compaction from before they were stored."""

_ENCODER: Final = msgspec.msgpack.Encoder()

_COLUMNS: Final = msgspec.msgpack.Decoder(Columns)
_OBSERVED_KEYS: Final = 4
_DECIDED_KEYS: Final = 2
_CHANCE_KEYS: Final = 3
"""Columns that are stored as differences."""


class DecidedRun(NamedTuple):
    """A deleted run whose class a coin decided: its session, draw and hour, and what it took; -1 is unknown.

    ``draw`` is the number that `caches.coin_draw_of` gives. ``stated`` is the outcome, 0 or 1, from the reward that
    its source stated.
    """

    session_key: int
    hour: int
    draw: int
    kind: Kind
    tokens: int
    duration_ms: int
    bill_pico: int
    bill_marks: int
    stated: int = UNKNOWN

    @property
    def columns(self) -> tuple[int | str, ...]:
        """Return the fields with those of the kind in its position, without the outcome, and no number of a run."""
        *named, _, prob = self.kind
        return (*self[:3], *named, prob, *self[4:], 0)


class ObservedRow(NamedTuple):
    """Automatic observations of an arm by the runs of a session that ended in an hour.

    ``session_key`` is 0 for runs without a session. ``known`` and ``used`` count observations of runs whose inventory
    is known, and those that referenced the arm. ``inferred`` counts observations of the other runs.
    """

    session_key: int
    hour: int
    segment: int
    arm_no: int
    known: int
    used: int
    inferred: int


class DecidedArm(NamedTuple):
    """An arm that the selection of a deleted run decided: its session and hour, its chance, and whether it was in.

    ``session_key`` is 0 without a session. ``decided`` is twice the chance in millionths, and 1 more where it was in.
    """

    session_key: int
    hour: int
    arm_no: int
    decided: int


class Sums(msgspec.Struct, frozen=True, array_like=True):
    """Sums of the runs of one compaction, by column.

    ``arms``: arm, segment, hour, inclusions, pulls, successes, runs by name, of these those that loaded it.
    ``newest``: arm, segment, time of the newest counted observation. ``kinds``: the kinds of runs. ``usage``: hour,
    number of the kind, bucket, and the sums of a usage row. ``older``: empty now.
    ``observed``: the fields of `ObservedRow`, packed, because few questions read them. ``last_revision``: the latest
    revision of a run. ``decided``: the fields of `DecidedRun`, packed, with the number of the kind. ``chances``: the
    fields of `DecidedArm`, packed.
    """

    arms: Columns
    newest: Columns
    kinds: list[Kind]
    usage: Columns
    older: Columns = []
    observed: msgspec.Raw = _NOTHING
    last_revision: int | None = None
    decided: msgspec.Raw = _NOTHING
    chances: msgspec.Raw = _NOTHING

    @classmethod
    def of(
        cls,
        rollup: Rollup,
        observed: Iterable[ObservedRow],
        decided: Iterable[DecidedRun],
        last_revision: int,
        chances: Sequence[DecidedArm] = (),
    ) -> Sums:
        """Return the sums of a rollup whose epochs are segments."""
        used = sorted(rollup.usage)
        kinds = sorted({key[1:7] for key in used})
        numbers = {kind: number for number, kind in enumerate(kinds)}
        arms = sorted(
            ((arm_no, segment, hour), sums) for (hour, arm_no, segment), sums in rollup.arms.items()
        )
        return cls(
            arms=_turned([(*key, *_counts(sums)) for key, sums in arms], _KEYS + 5),
            newest=_turned([(*key, rollup.last[key]) for key in sorted(rollup.last)], 3),
            kinds=kinds,
            usage=_turned(
                [(key[0], numbers[key[1:7]], key[7], *rollup.usage[key]) for key in used], 3 + len(USAGE_SUMS)
            ),
            observed=_packed(sorted(observed), _OBSERVED_KEYS, len(ObservedRow._fields)),
            last_revision=last_revision,
            decided=_packed(
                [(*one[:3], numbers[one.kind], *one[4:]) for one in sorted(decided)],
                _DECIDED_KEYS,
                len(DecidedRun._fields),
            ),
            chances=_packed(sorted(chances), _CHANCE_KEYS, len(DecidedArm._fields)) if chances else _NOTHING,
        )

    @classmethod
    def unpacked(cls, stored: bytes) -> Sums:
        """Return stored sums. Raises `StoreUnusable` where their bytes were changed."""
        try:
            one = _DECODER.decode(zlib.decompress(stored))
        except (zlib.error, msgspec.MsgspecError) as problem:
            raise StoreUnusable(
                f"The sums of a compaction can't be read: {problem}.",
                next_step="Restore a backup from before the damage; armscope verify names what differs.",
            ) from problem
        return msgspec.structs.replace(
            one, arms=[*(list(accumulate(key)) for key in one.arms[:_KEYS]), *one.arms[_KEYS:]]
        )

    def packed(self) -> bytes:
        """Return the sums as they are stored: keys as differences, because those of neighbours are small."""
        arms = [*(_differences(key) for key in self.arms[:_KEYS]), *self.arms[_KEYS:]]
        return zlib.compress(_ENCODER.encode(msgspec.structs.replace(self, arms=arms)), _LEVEL)

    @property
    def n_runs(self) -> int:
        """Number of runs, by the usage."""
        return sum(self.usage[3])

    def observed_rows(self) -> Ints:
        """Return the fields of `ObservedRow`, one row each.

        Where they were not stored, all runs count as runs of inferred inventory. So judgements read only other runs.
        """
        if bytes(self.observed) == bytes(_NOTHING):
            arm_no, segment, hour, _, pulls, *_ = np.array(self.arms, dtype=np.int64)
            none = np.zeros_like(pulls)
            return np.stack([none, hour, segment, arm_no, none, none, pulls])
        return _rows_of(self.observed, _OBSERVED_KEYS)

    def decided_runs(self, limit: int, hours: range) -> Iterator[DecidedRun]:
        """Yield the runs of some hours whose session keys are up to a limit; none where they were not stored."""
        if bytes(self.decided) == bytes(_NOTHING):
            return
        rows = _rows_of(self.decided, _DECIDED_KEYS)
        for key, hour, draw, kind, *rest in rows[:, rows[0] <= limit].T.tolist():
            if hour in hours:
                yield DecidedRun(key, hour, draw, self.kinds[kind], *rest)

    def decided_arms(self) -> list[DecidedArm]:
        """Return the arms of selections, sorted; none where their chances were not stored."""
        if bytes(self.chances) == bytes(_NOTHING):
            return []
        return list(map(DecidedArm._make, _rows_of(self.chances, _CHANCE_KEYS).T.tolist()))

    def rollup(self, epochs: Epochs) -> Rollup:
        """Return the rollup of the runs, in the epochs of now."""
        rollup = Rollup()
        epochs.load(self.arms[0])
        for arm_no, segment, hour, n_in, pulls, successes, named, loaded in zip(*self.arms, strict=True):
            amounts = (n_in, pulls, 0, successes * MICRO, (pulls - successes) * MICRO, named, loaded)
            rollup.add((hour, arm_no, epochs.of(arm_no, segment + 1)), *amounts)
        for arm_no, segment, at_ms in zip(*self.newest, strict=True):
            rollup.saw(arm_no, epochs.of(arm_no, segment + 1), at_ms)
        for hour, kind, bucket, *sums in zip(*self.usage, strict=True):
            rollup.usage[(hour, *self.kinds[kind], bucket)] = sums
        return rollup


_DECODER: Final = msgspec.msgpack.Decoder(Sums)


def _packed(rows: Sequence[Sequence[int]], n_keys: int, width: int) -> msgspec.Raw:
    columns = _turned(rows, width)
    return msgspec.Raw(_ENCODER.encode([*map(_differences, columns[:n_keys]), *columns[n_keys:]]))


def _rows_of(packed: msgspec.Raw, n_keys: int) -> Ints:
    columns = np.array(_COLUMNS.decode(packed), dtype=np.int64)
    columns[:n_keys] = columns[:n_keys].cumsum(axis=1)
    return columns


def _turned(rows: Sequence[Sequence[int]], width: int) -> Columns:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _differences(column: Sequence[int]) -> list[int]:
    return [*column[:1], *(later - earlier for earlier, later in pairwise(column))]


def _counts(sums: Sequence[int]) -> tuple[int, ...]:
    """Return the counts of an arm's sums; raises `ValueError` for sums that are not the detector's alone."""
    n_in, pulls, part, success, failure, named, loaded = sums
    successes, rest = divmod(success, MICRO)
    if rest or part or failure != (pulls - successes) * MICRO:
        raise ValueError(f"Sums of the detector must be whole pulls, got {sums}.")
    return n_in, pulls, successes, named, loaded


class Segments(Epochs):
    """Segments in the role of epochs: the number of one is the revision of the latest reset of any arm before it.

    Resets count with every revision that one of their sources gives them.
    """

    def __init__(self, connection: Connection, learner_id: int) -> None:
        self._revisions = sorted(
            revision
            for (revision,) in connection.rows(
                "SELECT revision FROM reset WHERE learner_id = ?1"
                " UNION SELECT revision FROM provenance WHERE learner_id = ?1 AND kind = 'reset'",
                [learner_id],
            )
        )

    def load(self, arm_nos: Iterable[int]) -> None:
        """Do nothing: there is nothing to read."""

    def of(self, arm_no: int, revision: int) -> int:  # noqa: ARG002 - it is the same for all arms
        """Return the segment of a revision."""
        index = bisect_left(self._revisions, revision)
        return self._revisions[index - 1] if index else 0


# Sums


def compacted_ends(facts: Facts) -> tuple[int, ...]:
    """Return the ends of the first and the last compacted run that was answered; nothing where there is none."""
    if not facts.is_compacted:
        return ()
    row = facts.row("SELECT min(first_ms), max(last_ms) FROM compaction WHERE learner_id = ?")
    return () if row is None or row[0] is None else (int(row[0]), int(row[1]))


def all_compacted(facts: Facts) -> Compacted | None:
    """Return the number and ends of all compacted runs, and the time of the last compaction; None without any."""
    if not facts.is_compacted:
        return None
    row = facts.row(
        "SELECT sum(n_runs), min(first_ms), max(last_ms), max(at_ms) FROM compaction WHERE learner_id = ?"
    )
    if row is None or not row[0]:
        return None
    n_runs, first, last, at = row
    return Compacted(runs=int(n_runs), first=iso(first), last=iso(last), at=iso(at))


def compacted_rollups(facts: Facts, since: int = 0, *, damaged: bool = False) -> Iterator[Rollup]:
    """Yield the rollups of compactions after a revision; with ``damaged``, of those that can be read."""
    if not facts.is_compacted:
        return
    for sums in facts.column(f"{_SUMS} AND revision > ? AND revision <= ?", [since, facts.revision]):
        with suppress(*((StoreUnusable,) if damaged else ())):
            yield Sums.unpacked(sums).rollup(facts.epochs)


def compacted_observations(facts: Facts) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield arm, segment, revision of the latest run, successes and failures in millionths, of each compaction."""
    if not facts.is_compacted:
        return
    for revision, stored in facts.rows(
        "SELECT revision, sums FROM compaction WHERE learner_id = ? AND revision <= ?", [facts.revision]
    ):
        sums = Sums.unpacked(stored)
        last = revision if sums.last_revision is None else sums.last_revision
        counts: Counter[tuple[int, int]] = Counter()
        successes: Counter[tuple[int, int]] = Counter()
        for arm_no, segment, _, _, pulls, n_used, *_ in zip(*sums.arms, strict=True):
            counts[arm_no, segment] += pulls
            successes[arm_no, segment] += n_used
        for key, n in counts.items():
            yield *key, last, successes[key] * MICRO, (n - successes[key]) * MICRO


def newest_compacted(facts: Facts, arm_nos: Collection[int], hours: Collection[int]) -> dict[int, int]:
    """Return the time of each arm's newest observation in its present epoch, of compactions that reach some hours."""
    newest: dict[int, int] = {}
    if not facts.is_compacted or not hours:
        return newest
    for sums in facts.column(
        f"{_SUMS} AND first_ms < ? AND last_ms >= ?", [(max(hours) + 1) * HOUR_MS, min(hours) * HOUR_MS]
    ):
        for (arm_no, epoch), at_ms in Sums.unpacked(sums).rollup(facts.epochs).last.items():
            if arm_no in arm_nos and epoch == facts.epochs.current(arm_no):
                newest[arm_no] = max(at_ms, newest.get(arm_no, at_ms))
    return newest


def observed_rows(facts: Facts, n_runs: int, until_ms: int) -> Ints:
    """Return the `ObservedRow` columns of the newest compactions with so many runs, which ended before a time."""
    parts = [sums.observed_rows() for sums in _newest(facts, n_runs, until_ms)]
    return np.concatenate([np.empty((len(ObservedRow._fields), 0), dtype=np.int64), *parts], axis=1)


def decided_runs(facts: Facts, n_runs: int, limit: int, hours: range) -> list[DecidedRun]:
    """Return decided runs of hours, up to a session key, of the newest compactions with at most so many runs."""
    newest = _newest(facts, n_runs, hours.stop * HOUR_MS)
    return [run for sums in newest for run in sums.decided_runs(limit, hours)]


def _newest(facts: Facts, n_runs: int, until_ms: int) -> Iterator[Sums]:
    """Yield the newest compactions with runs before a time, while they have at most so many runs."""
    if not facts.is_compacted or n_runs <= 0:
        return
    rows = facts.rows(
        "SELECT compaction_no, n_runs FROM compaction WHERE learner_id = ? AND first_ms < ? AND revision <= ?"
        " ORDER BY last_ms DESC, compaction_no DESC",
        [until_ms, facts.revision],
    )
    sums_of = zip(rows, accumulate(n for _, n in rows), strict=True)
    numbers = [number for (number, _), n_so_far in sums_of if n_so_far <= n_runs]
    for (sums,) in facts.rows_in(f"{_SUMS} AND compaction_no IN ({{}})", numbers):
        yield Sums.unpacked(sums)


def unlike_compactions(facts: Facts) -> Iterator[tuple[str, object, object]]:
    """Return compactions whose parts differ in the number of runs: the number, the stored one, those of the parts."""
    if not facts.is_compacted:
        return
    uids: dict[int, int] = dict(
        facts.rows(
            "SELECT compaction_no, count(*) FROM compacted WHERE learner_id = ? AND trace <> 0"
            " GROUP BY compaction_no"
        )
    )
    for number, n_runs, stored in facts.rows(
        "SELECT compaction_no, n_runs, sums FROM compaction WHERE learner_id = ?"
    ):
        try:
            sums = Sums.unpacked(stored)
        except StoreUnusable:
            yield str(number), n_runs, ()
            continue
        parts = sums.n_runs, uids.pop(number, 0)
        if {*parts} != {n_runs}:
            yield str(number), n_runs, parts
    for number, n_uids in uids.items():
        yield str(number), "nothing", n_uids


# Uids


def uid_key(uid: str, *, is_source: bool = False) -> tuple[int, int]:
    """Return the 128-bit digest of a run's uid, or of a source's, as two numbers."""
    data = uid.encode("utf-8", "surrogatepass")
    digest = int.from_bytes(
        blake2b(data, digest_size=16, person=b"source" if is_source else b"run").digest(), "big"
    )
    return (digest >> 64) - _SIGN, (digest & (1 << 64) - 1) - _SIGN


def sources_of(uid: str) -> Iterator[str]:
    """Yield the uid's beginnings that may name its source: ``format/unit/identity`` and longer ones.

    >>> list(sources_of("pi/turn/a/b/0"))
    ['pi/turn/a', 'pi/turn/a/b']
    """
    parts = uid.split("/")
    yield from ("/".join(parts[:end]) for end in range(3, len(parts)))


class CompactedRun(NamedTuple):
    """A deleted run: its compaction, and the digest of its content."""

    compaction_no: int
    trace: int


def compacted_runs(facts: Facts, uids: Collection[str]) -> dict[str, CompactedRun]:
    """Return those of the runs, by uid, that were compacted."""
    return _compacted(facts, {uid_key(uid): uid for uid in uids})


def compacted_sources(facts: Facts, sources: Collection[str]) -> set[str]:
    """Return those of the sources that a compacted run came from, or is."""
    begun = _compacted(facts, {uid_key(one, is_source=True): one for one in sources})
    return {*begun, *compacted_runs(facts, sources)}


def _compacted(facts: Facts, keys: dict[tuple[int, int], str]) -> dict[str, CompactedRun]:
    if not facts.is_compacted or not keys:
        return {}
    rows = facts.rows_in(_UIDS, sorted({high for high, _ in keys}))
    return {keys[high, low]: CompactedRun(*rest) for high, low, *rest in rows if (high, low) in keys}


# Refusals


def refuse_compacted_import(facts: Facts, import_no: int) -> None:
    """Raise `NotApplicable` for an import that lost runs to a compaction."""
    if not facts.is_compacted:
        return
    row = facts.row(_LOCKED, [import_no])
    if row is not None and row[0]:
        raise NotApplicable(
            f"import-{import_no} must have all its runs to be undone or redone, but compact deleted {row[0]:,} of"
            f" them on {iso(row[1])}; nothing was changed.",
            next_step="Restore a backup from before the compaction into another file, and undo it there.",
        )


def refuse_compacted_span(facts: Facts, arm_nos: Collection[int], since_ms: int, until_ms: int) -> None:
    """Raise `NotApplicable` for a span in which compacted runs observed some of the arms."""
    if not facts.is_compacted:
        return
    since, until = since_ms // HOUR_MS, -(-until_ms // HOUR_MS)
    for number, at_ms, last_ms, sums in facts.rows(
        "SELECT compaction_no, at_ms, last_ms, sums FROM compaction WHERE learner_id = ? AND first_ms < ?"
        " AND last_ms >= ? ORDER BY compaction_no",
        [until_ms, since_ms],
    ):
        arms = Sums.unpacked(sums).arms
        if any(
            arm_no in arm_nos and pulls and since <= hour < until
            for arm_no, _, hour, _, pulls, *_ in zip(*arms, strict=True)
        ):
            raise NotApplicable(
                f"The span of a repair must have all its runs, but compaction {number} deleted runs of it on"
                f" {iso(at_ms)}; nothing was taken back.",
                next_step=f"Begin the span after {iso(last_ms)}, the end of the last deleted run.",
            )
