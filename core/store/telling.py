"""PlacedLine: rows → the lines another learner can be told. Each stream comes by revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from core.columns import UNKNOWN
from core.records.arm import MICRO, Arm, Prior
from core.records.judged import INCLUDED, REFERENCED
from core.records.ledger_lines import (
    ArmLine,
    LedgerLine,
    NoteLine,
    ResetLine,
    RewardContext,
    RewardLine,
    RewardReply,
    RunLine,
    digest_text,
)
from core.records.run import Inventory, Run, Usage
from core.store.engine import Row
from core.store.reads import arm_columns
from core.store.replies import HOLDS
from core.store.transaction import Snapshot
from core.store.version import COLUMNS, Version, read_version, recorded_selection

Columns = dict[str, Any]
"""What the columns of a run hold, by name."""

PlacedLine = tuple[tuple[int, int], LedgerLine]
"""A line and its place, (revision, kind): of one revision runs come before rewards, these before resets, and notes
last.
"""


def told_arms(snapshot: Snapshot) -> Iterator[ArmLine]:
    """Listed arms, sorted by id; the prior only where it is the arm's own."""
    listed = set(arm_columns(snapshot).keys)
    for key, label, cost, alpha, beta in snapshot.link.each(
        "SELECT key, label, token_cost, prior_alpha_micro, prior_beta_micro FROM arm WHERE learner_id = ?"
        " ORDER BY key",
        [snapshot.learner_id],
    ):
        if key in listed:
            prior = None if alpha is None else Prior(alpha_micro=alpha, beta_micro=beta)
            yield ArmLine(key=key, label=label, token_cost=cost, prior=prior)


def told_runs(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Standing runs with what was recorded of them."""
    tell = _Runs(snapshot)
    for run_no, uid, rank, revision in snapshot.link.each(
        "SELECT run_no, uid, rank, revision FROM run WHERE learner_id = ? AND revision <= ? AND standing = 1"
        " ORDER BY revision, run_no",
        [snapshot.learner_id, snapshot.revision],
    ):
        yield (revision, 0), tell.line(run_no, uid, rank, revision)


def told_rewards(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Ledger rows that stand or are undone, never before their run; with the keys they hold."""
    for row in snapshot.link.each(
        "SELECT max(b.revision, coalesce(r.revision, 0)) AS told, b.observation_no, b.uid, a.key, b.kind,"
        " b.success_micro, b.failure_micro, b.pulls, b.at_ms, b.undone, b.reason, b.actor, r.uid, b.revision,"
        " p.key, p.payload, p.answer"
        " FROM observation b JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no"
        " LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0"
        " LEFT JOIN reply p ON p.learner_id = b.learner_id AND p.kind = 'reward' AND p.no = b.observation_no"
        f" AND {HOLDS}"
        " WHERE b.learner_id = ? AND b.standing = 1 AND coalesce(r.standing, 1) = 1"
        " ORDER BY told, b.observation_no",
        [snapshot.learner_id],
    ):
        yield (row[0], 1), _reward_line(snapshot, row[1:])


def told_resets(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Resets that stand or are undone."""
    for number, uid, revision, target, scope, actor, reason, at_ms, undone in snapshot.link.rows(
        "SELECT reset_no, uid, revision, target, scope, actor, reason, at_ms, undone FROM reset"
        " WHERE learner_id = ? AND standing = 1 ORDER BY revision",
        [snapshot.learner_id],
    ):
        arms = snapshot.link.rows(
            "SELECT a.key FROM reset_arm x JOIN arm a ON a.learner_id = x.learner_id AND a.arm_no = x.arm_no"
            " WHERE x.learner_id = ? AND x.reset_no = ? ORDER BY a.key",
            [snapshot.learner_id, number],
        )
        line = ResetLine(
            id=uid or f"{snapshot.origin}/reset-{number}",
            arms=tuple(key for (key,) in arms),
            target=target,
            scope=scope,
            reason=reason or None,
            by=actor,
            at_ms=at_ms,
            revision=revision,
            undone=bool(undone),
        )
        yield (revision, 2), line


def told_notes(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Notes that stand or are undone."""
    for number, uid, revision, arm, text, actor, at_ms, undone, key in snapshot.link.rows(
        "SELECT n.note_no, n.uid, n.revision, a.key, n.text, n.actor, n.at_ms, n.undone, p.key FROM note n"
        " JOIN arm a ON a.learner_id = n.learner_id AND a.arm_no = n.arm_no"
        " LEFT JOIN reply p ON p.learner_id = n.learner_id AND p.kind = 'note' AND p.no = n.note_no"
        f" AND {HOLDS}"
        " WHERE n.learner_id = ? AND n.standing = 1 ORDER BY n.revision, n.note_no",
        [snapshot.learner_id],
    ):
        line = NoteLine(
            id=uid or f"{snapshot.origin}/note-{number}",
            arm=arm,
            text=text,
            by=actor,
            at_ms=at_ms,
            revision=revision,
            key=key,
            undone=bool(undone),
        )
        yield (revision, 3), line


def _reward_line(snapshot: Snapshot, row: Row) -> RewardLine:
    number, uid, arm, kind, success, failure, pulls, at_ms, undone, reason, actor, run, revision = row[:13]
    key, payload, answer = row[13:]
    weight = success + failure
    carried = kind == "carried"
    return RewardLine(
        id=uid or f"{snapshot.origin}/reward-{number}",
        arm=arm,
        observation=kind,
        reward=None if carried else success / weight,
        weight_micro=MICRO if carried else weight,
        success_micro=success if carried else None,
        failure_micro=failure if carried else None,
        pulls=pulls if carried else None,
        at_ms=at_ms,
        undone=bool(undone),
        revision=revision,
        key=key,
        reply=None if key is None else _reward_reply(payload, answer),
        context=RewardContext(lagged=True, reason=reason or None, by=actor, run=run),
    )


def _reward_reply(payload: int, answer: str) -> RewardReply:
    said = msgspec.json.decode(answer)
    known = {name: said[name] for name in RewardReply.__struct_fields__ if name in said}
    return msgspec.convert({**known, "asked": digest_text(payload)}, RewardReply)


class _Runs:
    """Rows of runs → run lines; runs with the same arms share one inventory."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._keys: dict[int, str] = dict(
            snapshot.link.rows("SELECT arm_no, key FROM arm WHERE learner_id = ?", [snapshot.learner_id])
        )

    def line(self, run_no: int, uid: str, rank: int, revision: int) -> RunLine:
        version = read_version(self._snapshot, run_no)
        columns = dict(zip(COLUMNS, version.columns, strict=True))
        return msgspec.convert(
            {
                "run": self._run(uid, rank, version, columns),
                "outcome": columns["outcome"],
                "phase": columns["phase"],
                "references": [
                    {"arm": self._keys[arm_no], "where": place, "excerpt": excerpt}
                    for arm_no, place, excerpt in version.evidence
                ],
                "n_calls": columns["n_calls"],
                "n_real_calls": columns["n_real_calls"],
                "revision": revision,
            },
            RunLine,
        )

    def _run(self, uid: str, rank: int, version: Version, columns: Columns) -> Run:
        keys = [self._keys[arm_no] for arm_no in version.arm_nos]
        outcomes = list(zip(keys, version.flags, version.costs, strict=True))
        plain = {name: columns[name] for name in _PLAIN}
        arms = [
            Arm(key=key, token_cost=None if cost == UNKNOWN else cost)
            for key, flags, cost in outcomes
            if flags & INCLUDED
        ]
        return msgspec.convert(
            {
                **plain,
                "uid": uid,
                "rank": rank,
                "inventory": msgspec.convert({"kind": columns["inventory"], "arms": arms}, Inventory),
                "ended_at_ms": columns["at_ms"],
                "naive_time": bool(columns["naive_time"]),
                "run_class": columns["class"],
                "usage": _usage(columns),
                "excluded": [key for key, flags, _ in outcomes if not flags & INCLUDED],
                "referenced": [key for key, flags, _ in outcomes if flags & REFERENCED],
                "not_offered": msgspec.json.decode(str(columns["not_offered"] or "[]")),
                "empty": columns["outcome"] == "empty",
                "selection": recorded_selection(version, self._keys, {arm.key for arm in arms}),
            },
            Run,
        )


_PLAIN: Final = (
    "format",
    "unit",
    "session",
    "provider",
    "model",
    "channel",
    "status",
    "duration_ms",
    "prompt_chars",
    "reward",
)


def _usage(columns: Columns) -> Usage | None:
    if columns["tokens"] is None:
        return None
    parts = {name: columns[f"{name}_tokens"] for name in ("input", "output", "cache_read", "cache_write")}
    return msgspec.convert({**parts, "total": columns["tokens"]}, Usage)
