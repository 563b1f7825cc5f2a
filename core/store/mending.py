"""Mending of a chain whose sum exceeds that of the rows: replaced rows explain it exactly, or a person accepts it.

Earlier versions counted a source of an episode twice if one act stored it and replaced it. The sum then also contains
the digest of the replaced row. A changed fact looks different: it also removes a digest from the sum.

Mending leaves every link as it is. An act of its own subtracts the difference from the sum, and records it in a row.
The candidates for a replaced row follow from the stored states of the episode, or from the file of the import.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, combinations
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from core.errors import Conflict, InvalidInput, StoreDamaged, StoreUnusable
from core.records.episode import Episode
from core.store.caches import chunks
from core.store.chain import STATE, SUM_BYTES, State, added, facts_of, packed, sum_of
from core.store.covered import Row, columns_of
from core.store.damage import UNREADABLE
from core.store.episodes import episode_digest, read_episodes, step_digest
from core.store.links import Subject, beyond_rows, unlike_links
from core.store.transaction import Facts, Transaction

Explained = Literal["rows", "source", ""]
"""Explanation of a difference; "" = none, and a person accepted it."""
_ALL: Final = 1 << 8 * SUM_BYTES
_MAX_SUMS: Final = 1 << 17
"""Maximum number of sums of one half of the candidates."""
_MAX_IN_THREES: Final = 1_000
"""Maximum number of candidates of which choices of three are tried."""
_MAX_CANDIDATES: Final = 1 << 20
"""Maximum number of candidates; the search stops at the first episode that exceeds it."""
_MAX_OTHERS: Final = 2_000
"""Maximum number of episodes of a source whose states are tried under other ids."""
_WORD: Final = 1 << 64
_LINE: Final = columns_of("provenance")[-1]
"""The column of a state that is not in the rows."""
_SOURCES: Final = (
    "SELECT p.no, p.import_no, p.revision, p.rank, p.digest, e.uid, e.format, i.summary FROM provenance p"
    " JOIN episode e ON e.learner_id = p.learner_id AND e.episode_no = p.no"
    " LEFT JOIN import i ON i.learner_id = p.learner_id AND i.import_no = p.import_no"
    " WHERE p.learner_id = ?1 AND p.kind = 'episode' AND NOT EXISTS (SELECT 1 FROM provenance s"
    " WHERE s.learner_id = ?1 AND s.kind = 'episode' AND s.no = p.no AND s.revision < p.revision)"
)
"""First source of each episode: the act that stored it created the episode."""


class Replaced(NamedTuple):
    """A row that was replaced in the act that stored it; ``rank`` is the number of steps of its state."""

    rank: int
    digest: int


class _Candidates(NamedTuple):
    """Rows of one episode, of which at most one was replaced, by their digests in the chain.

    ``expected`` is the digest of the state that the source stores first, or 0 if that state was not replaced. None =
    the source does not have the episode.
    """

    import_no: int
    sums: tuple[int, ...]
    expected: int | None


class SourceStates:
    """States of the episodes of a source, in the order of an import."""

    def __init__(self, episodes: Iterable[Episode] = ()) -> None:
        self._heads: list[tuple[Episode, int, int]] = []
        self._by_uid: dict[str, list[Replaced]] = defaultdict(list)
        for line in episodes:
            head, steps_sum = replace(line, steps=()), sum(map(step_digest, line.steps))
            self._by_uid[line.uid].append(_episode_state(head, len(line.steps), steps_sum))
            if len(self._heads) < _MAX_OTHERS:
                self._heads.append((head, len(line.steps), steps_sum))

    @property
    def are_none(self) -> bool:
        return not self._heads

    def of(self, uid: str, format_name: str, stored: Container[str]) -> list[Replaced]:
        """Return the states of an episode that the source has.

        A later version may read other ids from a file. So an unknown episode gets the states of all episodes of its
        format that are not stored.
        """
        if uid in self._by_uid:
            return self._by_uid[uid]
        return [
            _episode_state(replace(head, uid=uid), n_steps, steps_sum)
            for head, n_steps, steps_sum in self._heads
            if head.format == format_name and head.uid not in stored
        ]

    def first(self, uid: str) -> Replaced | None:
        """Return the state that an import stores first."""
        return self._by_uid[uid][0] if uid in self._by_uid else None


def _episode_state(head: Episode, n_steps: int, steps_sum: int) -> Replaced:
    """Return the state of an episode: its digest is the signed sum of the digests of its head and its steps."""
    digest = (episode_digest(head) + steps_sum + (_WORD >> 1)) % _WORD
    return Replaced(n_steps, digest - (_WORD >> 1))


def beyond(facts: Facts) -> int:
    """Return the difference between a learner's sum and that of its rows; 0 = they are equal."""
    state = _chain_state(facts)
    plain = facts.plain if isinstance(facts, Transaction) else facts.connection
    subject = Subject(facts.learner_id, facts.name, state.key or b"", facts.revision)
    return beyond_rows(plain, subject, state.sum)


def _chain_state(facts: Facts) -> State:
    row = facts.row(f"SELECT {', '.join(STATE)} FROM learner WHERE learner_id = ?")
    return State(*(row or [None] * len(STATE)))


def explanation(facts: Facts, difference: int, states: SourceStates) -> Explained | None:
    """Return what explains a difference exactly, or None, such as after a change of any other fact."""
    with suppress(StoreUnusable, *UNREADABLE):  # an episode that can't be read explains nothing
        if _adds_up(difference, [one.sums for one in _candidates(facts, SourceStates())]):
            return "rows"
        with_source = [] if states.are_none else list(_candidates(facts, states))
        for groups in (_by_import(with_source), [one.sums for one in with_source]):
            if _adds_up(difference, groups):
                return "source"
    return None


def mend(txn: Transaction, difference: int, explained: Explained) -> int:
    """Subtract a difference from the sum, and record it in a row; return the last link that it covers."""
    state = _chain_state(txn)
    before = txn.last_link_no
    for unlike in unlike_links(txn.plain, txn.learner_id, state, before + 1):
        raise StoreDamaged(
            f"The links of learner {txn.name!r} must follow from each other, got: {unlike.key}, {unlike.stored}.",
            next_step="Restore a backup: armscope restore FILE.",
        )
    if beyond(txn) != difference:
        raise Conflict(
            f"The facts of learner {txn.name!r} must stay the same meanwhile, but they changed.",
            next_step="Run armscope upgrade again.",
        )
    txn.add_row(
        "mended",
        link_no=before,
        revision=txn.revision,
        at_ms=txn.now_ms,
        explained=explained,
        difference=packed(difference),
    )
    txn.chain.move(-difference)
    txn.audit("mend", None, {"explained": explained or None, "until": before})
    return before


def unprovable_until(facts: Facts) -> int | None:
    """Return the link up to which nothing proves the facts, or None if all are provable."""
    return facts.scalar(int, "SELECT max(link_no) FROM mended WHERE learner_id = ? AND explained = ''")


# Candidates


def _candidates(facts: Facts, states: SourceStates) -> Iterator[_Candidates]:
    """Yield the rows that may have been replaced, episode by episode, at most `_MAX_CANDIDATES`."""
    key = _chain_state(facts).key or b""
    rows = [row for row in facts.rows(_SOURCES) if _may_replace(row[1], row[7])]
    left, uids = _MAX_CANDIDATES, {row[5] for row in rows}
    for part in chunks(rows):
        for one in _candidates_of(facts, states, key, part, uids):
            left -= len(one.sums)
            if left < 0:
                return
            yield one


def _candidates_of(
    facts: Facts, states: SourceStates, key: bytes, rows: Sequence[Row], uids: Container[str]
) -> Iterator[_Candidates]:
    stored = _stored_states(facts, [number for number, *_ in rows])
    for number, import_no, revision, rank, digest, uid, format_name, _ in rows:
        of_source = {*states.of(uid, format_name, uids)}
        first = states.first(uid)
        known = {*stored[number], *of_source} if import_no else {Replaced(0, 0)}
        other = sorted(known - ({Replaced(rank, digest)} if import_no else set()))

        def sum_in_chain(one: Replaced, begun: tuple[int, int, int] = (number, import_no, revision)) -> int:
            row = ("episode", *begun, one.rank, 0, one.digest, None)
            return sum_of(key, "provenance", facts_of("provenance", [row], facts.name))

        expected = None if first is None else sum_in_chain(first) if first in other else 0
        if other:
            yield _Candidates(import_no, tuple(map(sum_in_chain, other)), expected)


class _Updates(msgspec.Struct):
    """Number of episodes that an import replaced, from its summary; None: an older one has no number."""

    episodes_updated: int | None = None


def _may_replace(import_no: int, summary: str | None) -> bool:
    if import_no == 0 or summary is None:
        return True
    updates = msgspec.json.decode(summary, type=_Updates).episodes_updated
    return updates is None or updates > 0


def _stored_states(facts: Facts, numbers: Sequence[int]) -> dict[int, set[Replaced]]:
    """Return the earlier states of stored episodes: with fewer steps, without parts, incomplete or broken."""
    states: dict[int, set[Replaced]] = defaultdict(set)
    for number, episode in zip(sorted(numbers), read_episodes(facts, numbers), strict=True):
        states[number].update(_earlier(episode))
    for number, rank, digest, line in facts.rows_in(
        f"SELECT no, rank, digest, {_LINE} FROM provenance"
        " WHERE learner_id = ? AND kind = 'episode' AND no IN ({})",
        numbers,
    ):
        states[number].add(Replaced(rank, digest))
        if line is not None:
            states[number].update(_earlier(msgspec.json.decode(line, type=Episode)))
    return states


def _earlier(line: Episode) -> Iterator[Replaced]:
    for parts in {line.parts, ()}:
        for incomplete, broken in ((False, False), (True, False), (False, True)):
            try:
                head = replace(line, steps=(), parts=parts, incomplete=incomplete, broken=broken)
            except InvalidInput:
                continue
            for n_steps, steps_sum in enumerate(accumulate(map(step_digest, line.steps), initial=0)):
                yield _episode_state(head, n_steps, steps_sum)


# Sums


def _by_import(candidates: Sequence[_Candidates]) -> list[tuple[int, ...]]:
    """Return one group for each import, the sum of its expected rows, and one for each other episode."""
    together: dict[int, int] = defaultdict(int)
    for one in candidates:
        if one.expected is not None:
            together[one.import_no] = added(together[one.import_no], one.expected)
    return [
        *((whole,) for whole in together.values()),
        *(one.sums for one in candidates if one.expected is None),
    ]


def _adds_up(difference: int, groups: Sequence[tuple[int, ...]]) -> bool:
    """Return whether sums, at most one of each group, add up to a difference; of many groups at most three."""
    halves: tuple[set[int], set[int]] = ({0}, {0})
    for group in sorted(groups, key=len):
        half = min(halves, key=len)
        if len(half) * (1 + len(group)) > _MAX_SUMS:
            return _is_total_of_few(difference, groups)
        half |= {added(one, other) for one in half for other in group}
    return any((difference - one) % _ALL in halves[1] for one in halves[0])


def _is_total_of_few(difference: int, groups: Sequence[tuple[int, ...]]) -> bool:
    by_sum = {one: at for at, group in enumerate(groups) for one in group}
    if difference in by_sum:
        return True
    if any(by_sum.get((difference - one) % _ALL, at) != at for one, at in by_sum.items()):
        return True
    few = [*by_sum.items()] if len(by_sum) <= _MAX_IN_THREES else []
    return any(
        by_sum.get((difference - one - other) % _ALL, at) not in {at, other_at}
        for (one, at), (other, other_at) in combinations(few, 2)
        if at != other_at
    )
