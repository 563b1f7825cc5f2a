"""Credits of episodes as acts, and the observations of arms that follow in the same transaction.

One credit of an episode is in force: the latest active one, while the episode is active. Its observations are active,
and those of other credits are not. All keep their rows and numbers: a credit records a decision at its time, at any
later state of the episode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

from core.errors import UnreadableSource
from core.records.episode import ScaleLine
from core.records.episode_credit import CreditLine, CreditRule, CreditShare
from core.records.evidence import INCLUDED, REFERENCED
from core.records.ledger_lines import PlacedLine
from core.records.limits import shown
from core.records.observation import Amount, not_in_prompt, whole_pulls
from core.store.caches import chunks, shifting
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, PRESENT
from core.store.environments import add_scale, declared_scales, recount
from core.store.tables import OBSERVATION_COLUMNS, leaving_out
from core.store.transaction import Byline, Facts, Snapshot, Transaction

_COLUMNS: Final = (*OBSERVATION_COLUMNS[:-2], "episode_credit_no", *OBSERVATION_COLUMNS[-2:])
RunArm = tuple[int, int]
"""A run, and an arm in its prompt, by number."""


class Prompted(NamedTuple):
    """An arm in the prompt of a run that was made in an episode, and whether it was referenced."""

    run_no: int
    run: str
    arm_no: int
    arm: str
    referenced: bool

    @property
    def key(self) -> RunArm:
        return self.run_no, self.arm_no


def prompted(facts: Facts, episode: str) -> list[Prompted]:
    """Return all arms in the prompts of an episode's active runs."""
    return [
        Prompted(run_no, run, arm_no, arm, bool(flags & REFERENCED))
        for run_no, run, arm_no, arm, flags in facts.rows(
            "SELECT r.run_no, r.uid, a.arm_no, a.key, o.flags FROM episode e"
            " JOIN episode_run l ON l.learner_id = e.learner_id AND l.episode_no = e.episode_no"
            f" JOIN run r ON r.learner_id = l.learner_id AND r.run_no = l.run_no AND r.{ACTIVE}"
            " JOIN outcome o ON o.learner_id = r.learner_id AND o.run_no = r.run_no"
            " JOIN arm a ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no"
            f" WHERE e.learner_id = ? AND e.uid = ? AND r.revision <= ? AND o.flags & {INCLUDED} <> 0"
            " ORDER BY r.run_no, a.arm_no",
            [episode, facts.revision],
        )
    ]


def add_credit(
    txn: Transaction,
    byline: Byline,
    episode: str,
    rule: CreditRule,
    *,
    reward: float | None,
    shares: Sequence[tuple[RunArm, int]],
) -> int:
    """Append a credit, whose ``shares`` are in millionths, and put it in force; return its number."""
    number = txn.append_fact("episode_credit", byline, episode=episode, rule=rule, reward=reward)
    first = txn.number("observation", len(shares))
    inactive = [txn.revision, 0, number, 0, txn.revision]  # it is inactive yet
    rows = (
        (
            observation_no,
            "",
            "episode",
            arm_no,
            run_no,
            *_amounts(reward or 0.0, weight),
            byline.actor,
            "",
            byline.at_ms,
            0,
            *inactive,
        )
        for observation_no, ((run_no, arm_no), weight) in enumerate(shares, first)
    )
    txn.connection.insert("observation", _COLUMNS, txn.learner_id, chain.from_iterable(rows))
    _settle(txn, [episode])
    return number


def _amounts(reward: float, weight: int) -> tuple[int, int, int]:
    """Success and failure in millionths, and whole pulls."""
    amount = Amount.of(reward, weight)
    return amount.success_micro, amount.failure_micro, whole_pulls("episode", weight)


# What is in force


def settle_credits(txn: Transaction, numbers: Sequence[int]) -> None:
    """Activate the latest active credit of each episode after a change of credits."""
    rows = txn.distinct_in(
        "SELECT DISTINCT episode FROM episode_credit WHERE learner_id = ? AND episode_credit_no IN ({})",
        sorted({*numbers}),
    )
    _settle(txn, sorted(rows))


def settle_episodes(txn: Transaction, numbers: Sequence[int]) -> None:
    """Do the same after a change of episodes."""
    rows = txn.distinct_in(
        "SELECT DISTINCT c.episode FROM episode e JOIN episode_credit c"
        " ON c.learner_id = e.learner_id AND c.episode = e.uid WHERE e.learner_id = ? AND e.episode_no IN ({})",
        sorted({*numbers}),
    )
    _settle(txn, sorted(rows))


def settle_scales(txn: Transaction, numbers: Sequence[int]) -> None:
    """Recount the environments whose declarations changed, and activate the credits of what is not left out."""
    recount(txn, numbers)
    rows = txn.distinct_in(
        "SELECT DISTINCT c.episode FROM scale s JOIN episode e ON e.learner_id = s.learner_id"
        " AND e.environment_no = s.environment_no JOIN episode_credit c ON c.learner_id = e.learner_id"
        " AND c.episode = e.uid WHERE s.learner_id = ? AND s.scale_no IN ({})",
        numbers,
    )
    _settle(txn, sorted(rows))


def read_scale(txn: Transaction, line: ScaleLine, import_no: int) -> int:
    """Append an imported declaration; return its number."""
    number = add_scale(txn, line.environment, line.scale, txn.imported(line, import_no))
    settle_scales(txn, [number])
    return number


def _settle(txn: Transaction, episodes: Sequence[str]) -> None:
    for part in chunks(episodes):
        in_force = set(credits_in_force(txn, part).values())
        credit_nos = txn.distinct_in(
            "SELECT episode_credit_no FROM episode_credit WHERE learner_id = ? AND episode IN ({})", part
        )
        followed = txn.rows_in(
            "SELECT observation_no, run_no, standing, episode_credit_no FROM observation"
            " WHERE learner_id = ? AND episode_credit_no <> 0 AND episode_credit_no IN ({})",
            sorted(credit_nos),
        )
        moved = [
            (number, run_no, int(credit_no in in_force))
            for number, run_no, is_active, credit_no in followed
            if is_active != (credit_no in in_force)
        ]
        with shifting(txn, sorted({run_no for _, run_no, _ in moved})):
            txn.connection.many(
                "UPDATE observation SET standing = ? WHERE learner_id = ? AND observation_no = ?",
                [(is_active, txn.learner_id, number) for number, _, is_active in moved],
            )


def credits_in_force(facts: Facts, episodes: Collection[str] | None = None) -> dict[str, int]:
    """The credit in force of each of some episodes that has one and is not left out; None = of all."""
    sql = (
        "SELECT c.revision, c.episode_credit_no, c.episode, e.environment_no FROM episode_credit c"
        " JOIN episode e ON e.learner_id = c.learner_id AND e.uid = c.episode"
        f" WHERE c.learner_id = ? AND c.{ACTIVE} AND c.undone = 0 AND e.{ACTIVE}"
    )
    of = f"{sql} AND c.episode IN ({{}})"
    rows = facts.rows(sql) if episodes is None else facts.rows_in(of, sorted(episodes))
    left_out = {number for number, scale in declared_scales(facts).items() if scale.base == "none"}
    return {episode: number for _, number, episode, of in sorted(rows) if of not in left_out}


def followed_credits(facts: Facts) -> Iterator[Row]:
    """Return the observations of credits: number, the credit's number, and whether it is active."""
    return facts.each(
        "SELECT observation_no, episode_credit_no, standing FROM observation"
        " WHERE learner_id = ? AND episode_credit_no <> 0"
    )


class InForce(NamedTuple):
    """An episode's credit in force, and the shares of its arms in active runs."""

    number: int
    rule: CreditRule
    reward: float | None
    actor: str
    at_ms: int
    shares: tuple[CreditShare, ...]


def credit_of(facts: Facts, episode: str) -> InForce | None:
    """The credit in force of an episode."""
    number = credits_in_force(facts, [episode]).get(episode)
    row = facts.row(
        "SELECT rule, reward, actor, at_ms FROM episode_credit WHERE learner_id = ? AND episode_credit_no = ?",
        [number or 0],
    )
    if number is None or row is None:
        return None
    rule, reward, actor, at_ms = row
    return InForce(number, rule, reward, actor, at_ms, _shares(facts, number))


def _shares(facts: Facts, number: int) -> tuple[CreditShare, ...]:
    """Return a credit's shares for arms in prompts of active runs."""
    unless, left_out = leaving_out("b.run_no", facts.blind)
    rows = facts.rows(
        "SELECT r.uid, a.key, b.success_micro + b.failure_micro FROM observation b"
        f" JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND r.{ACTIVE}"
        " JOIN outcome o ON o.learner_id = b.learner_id AND o.run_no = b.run_no AND o.arm_no = b.arm_no"
        " JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no"
        " WHERE b.learner_id = ? AND b.episode_credit_no <> 0 AND b.episode_credit_no = ?"
        f" AND o.flags & {INCLUDED} <> 0{unless} ORDER BY b.observation_no",
        [number, *left_out],
    )
    return tuple(CreditShare(run=run, arm=arm, weight_micro=weight) for run, arm, weight in rows)


# Lines


def credit_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone credits of active episodes as lines, never before their episode and its runs."""
    exported: dict[str, int] = defaultdict(int)
    for episode, revision, latest in snapshot.each(
        "SELECT e.uid, e.revision, max(coalesce(r.revision, 0)) FROM episode e"
        " LEFT JOIN episode_run l ON l.learner_id = ?1 AND l.episode_no = e.episode_no"
        f" LEFT JOIN run r ON r.learner_id = l.learner_id AND r.run_no = l.run_no AND r.{PRESENT}"
        " AND r.revision <= ? WHERE e.learner_id = ?1 AND e.uid IN"
        " (SELECT c.episode FROM episode_credit c WHERE c.learner_id = ?1)"
        " GROUP BY e.uid, e.revision",
        [snapshot.revision],
    ):
        exported[episode] = max(revision, latest)
    joined = "LEFT JOIN episode e ON e.learner_id = t.learner_id AND e.uid = t.episode"
    acts = snapshot.acts(
        "episode_credit",
        *("episode", "rule", "reward"),
        joined=joined,
        where=" AND coalesce(e.standing, 1) = 1",
    )
    placed = [(max(one["revision"], exported[one["episode"]]), number, one) for number, one in acts]
    for position, number, one in sorted(placed, key=itemgetter(0)):
        yield position, CreditLine(shares=_shares(snapshot, number), **one)


def read_credit(txn: Transaction, line: CreditLine, import_no: int) -> int:
    """Append an imported credit; return its number."""
    known = {(one.run, one.arm): one.key for one in prompted(txn, line.episode)} if line.shares else {}
    runs = {run: run_no for (run, _), (run_no, _) in known.items()}
    for share in line.shares:
        if share.run not in runs:
            raise UnreadableSource(
                f"Credit {shown(line.id)} names run {shown(share.run)}, which was not made here in episode "
                f"{shown(line.episode)}.",
                next_step="Import the runs and the episode first, or in the same file.",
            )
        if (share.run, share.arm) not in known:
            raise not_in_prompt(share.arm, runs[share.run])
    return add_credit(
        txn,
        txn.imported(line, import_no),
        line.episode,
        line.rule,
        reward=line.reward,
        shares=[(known[share.run, share.arm], share.weight_micro) for share in line.shares],
    )
