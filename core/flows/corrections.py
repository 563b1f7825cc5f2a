"""Corrections: notes, repairs and resets of arms, and the undo of any act. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from core.columns import ArmColumns
from core.errors import Conflict, InvalidInput, NotApplicable
from core.flows.context import Context, repeated, unknown_arm
from core.formats.strict import utc_ms_of
from core.records.actor import Actor, authorise
from core.records.answers import RepairAnswer, ResetAnswer, UndoAnswer
from core.records.arm import ARM_TYPES, ArmType, check_key
from core.records.corrections import NoteAnswer, Target, check_text, note_payload
from core.records.limits import LAST_MS, listed, shown
from core.records.observation import check_reason, check_request_key, digest
from core.records.parameters import ActId, ArmKey, Reason, RequestKey
from core.store.experiments import check_running
from core.store.facts import FACTS
from core.store.notes import add_note, reply_to_note
from core.store.reads import arm_columns, hidden_arm_nos, listed_arm, listed_arms
from core.store.repairs import ObservedSpan, add_repair, observed_in
from core.store.replies import keep_reply, reply_to
from core.store.resets import add_reset
from core.store.transaction import Detail, Facts, Snapshot, Transaction
from core.store.undoing import (
    Act,
    active_undos,
    add_undos,
    find_act,
    find_batch,
    left_out,
    undos_of,
)
from core.store.undoing import undo as undo_act

_MOST: Final = 250_000
"""Observations of one repair: each is a row, and a line of an export names all of them."""


def note(
    context: Context,
    arm: ArmKey,
    text: Annotated[str, Meta(description="Text of the note, up to 2,000 characters.")],
    *,
    key: RequestKey = None,
) -> NoteAnswer:
    """Write a note about an arm; it moves no number.

    The note is on disk when this returns, and `undo` reverts it. Raises `InvalidInput` for an empty or too long
    text, `UnknownArm` (with near matches), `Conflict` for a key with other content.
    """
    body = check_text(text)
    check_request_key(key)

    def work(txn: Transaction) -> NoteAnswer:
        stored = None if key is None else repeated(txn, key, note_payload(arm, body), NoteAnswer)
        if stored is not None:
            return stored
        arm_no = listed_arm(txn, arm)
        if arm_no is None:
            raise unknown_arm(txn, arm)
        number = add_note(txn, arm_no, body, txn.own)
        answer = NoteAnswer(id=f"note-{number}", arm=arm, text=body)
        txn.audit("note", answer.id, {"arm": arm, "text": body})
        if key is not None:
            keep_reply(txn, key, reply_to_note(number, arm, body))
        return answer

    return context.write("reward", work)


class RepairScope(NamedTuple):
    """Checked scope of a repair: its arms, and its span in UTC milliseconds."""

    arms: tuple[str, ...]
    since_ms: int
    until_ms: int

    @classmethod
    def of(cls, arms: Sequence[str], since: str, until: str | None) -> RepairScope:
        """Return the scope of a request; raises `InvalidInput`."""
        if not arms:
            raise InvalidInput(
                "arms must name at least one, got none; nothing was taken back.",
                next_step="Name the arms of the repair.",
            )
        for key in listed("arms", arms):
            check_key(key)
        since_ms = _at_ms("since", since)
        until_ms = LAST_MS if until is None else _at_ms("until", until)
        if since_ms >= until_ms:
            raise InvalidInput(
                f"since must be before until, got {shown(since)} and {shown(until)}.",
                next_step="Exchange them; nothing was taken back.",
            )
        return cls(tuple(dict.fromkeys(arms)), since_ms, until_ms)

    def observed(self, facts: Transaction | Snapshot) -> tuple[dict[str, int], ObservedSpan]:
        """Return the numbers of the listed arms, and their automatic observations in the span, up to a limit."""
        numbers = listed_arms(facts, self.arms)
        for key in self.arms:
            if key not in numbers:
                raise unknown_arm(facts, key)
        span = observed_in(facts, list(numbers.values()), self.since_ms, self.until_ms)
        if len(span.observed) > _MOST:
            raise InvalidInput(
                f"A repair must take back at most {_MOST:,} observations, got {len(span.observed):,}.",
                next_step="Split the span, or name fewer arms; nothing was taken back.",
            )
        return numbers, span


def repair(
    context: Context,
    *,
    arms: Annotated[Sequence[str], Meta(description="These arms.", min_length=1)],
    since: Annotated[str, Meta(description="First time of the span (ISO 8601, UTC), by the end of runs.")],
    until: Annotated[
        str | None, Meta(description="The span ends before this time (ISO 8601, UTC). Default: no end.")
    ] = None,
    reason: Reason = None,
    key: RequestKey = None,
) -> RepairAnswer:
    """Take back every automatic observation of arms in a span.

    Observations by people, graders and episode credits are kept, and `undo` reverts it. A later import of the same
    run stays taken back while its outcome is the same; another outcome counts. A repeat under the same ``key``
    returns the first answer. Raises `UnknownArm` for an arm that is not listed, and `NotApplicable` where nothing in
    the span counts. Raises `Conflict` where ``key`` was used for other content; then nothing is taken back.
    """
    scope = RepairScope.of(arms, since, until)
    check_reason(reason)
    check_request_key(key)
    payload = digest(("repair", tuple(sorted(scope.arms)), since, until, reason))

    def work(txn: Transaction) -> RepairAnswer:
        stored = None if key is None else repeated(txn, key, payload, RepairAnswer)
        if stored is not None:
            return stored
        numbers, span = scope.observed(txn)
        counted = span.counted
        if not counted:
            named = scope.arms[0] if len(scope.arms) == 1 else f"{len(scope.arms)} arms"
            raise NotApplicable(
                f"There must be an automatic observation of {named} in the span, got none that counts.",
                next_step="Choose another span, or look at the arm's ledger; nothing was taken back.",
            )
        keys = {number: arm for arm, number in numbers.items()}
        concerned = sorted({keys[one.arm_no] for one in counted})
        number = add_repair(
            txn,
            span.observed,
            txn.own,
            since_ms=scope.since_ms,
            until_ms=scope.until_ms,
            n_arms=len(concerned),
            n_observations=len(counted),
            reason=reason or "",
        )
        act = f"repair-{number}"
        txn.audit("repair", act, {"arms": len(concerned), "observations": len(counted), "reason": reason})
        answer = RepairAnswer(
            id=act,
            learner=context.learner,
            since_ms=scope.since_ms,
            until_ms=None if scope.until_ms == LAST_MS else scope.until_ms,
            observation_count=len(counted),
            referenced=sum(one.success_micro > 0 for one in counted),
            corrected=span.n_corrected,
            arm_ids=tuple(concerned),
        )
        if key is not None:
            keep_reply(txn, key, reply_to("repair", number, payload, answer))
        return answer

    return context.write("reset", work)


def _at_ms(name: str, text: str) -> int:
    at_ms, _ = utc_ms_of(text)
    if at_ms is None:
        raise InvalidInput(
            f"{name} must be a time such as 2026-01-31T08:00:00Z, got {shown(text)}.",
            next_step="Write it in ISO 8601; nothing was taken back.",
        )
    return at_ms


class ResetScope(msgspec.Struct, frozen=True, kw_only=True):
    """Arms of a reset: named ones, whole types, or (without both) all.

    >>> ResetScope().words, ResetScope(types=("tool",)).words, ResetScope(arms=("tool:fs:Read",)).words
    ('all arms', 'tools', 'tool:fs:Read')
    """

    arms: tuple[str, ...] = ()
    types: tuple[ArmType, ...] = ()

    def __post_init__(self) -> None:
        for key in self.arms:
            check_key(key)
        for name in self.types:
            if name not in ARM_TYPES:
                raise InvalidInput(
                    f"A type must be one of {', '.join(ARM_TYPES)}, got {str(name)[:40]!r}.",
                    next_step="Correct the type; nothing was reset.",
                )

    @property
    def words(self) -> str:
        plural = {"memory": "memories"}
        parts = [plural.get(name, f"{name}s") for name in self.types]
        if self.arms:
            parts.append(self.arms[0] if len(self.arms) == 1 else f"{len(self.arms)} named arms")
        return " and ".join(parts) or "all arms"

    def keys(self, facts: Facts, columns: ArmColumns) -> list[str]:
        """Return the listed arms in scope; raise `UnknownArm` for a named one that is not listed."""
        listed = set(columns.keys)
        for key in self.arms:
            if key not in listed:
                raise unknown_arm(facts, key)
        named = set(self.arms)
        everything = not self.arms and not self.types
        return [
            key
            for key, of in zip(columns.keys, columns.types, strict=True)
            if everything or of in self.types or key in named
        ]


def reset(
    context: Context,
    *,
    arms: Annotated[Sequence[str], Meta(description="These arms.", min_length=1)] = (),
    types: Annotated[Sequence[ArmType], Meta(description="All arms of these types.", min_length=1)] = (),
    target: Annotated[Target, Meta(description="Beta(1, 1), or each own prior.")] = "uniform",
    reason: Reason = None,
    seen: Annotated[
        int | None, Meta(description="The revision that the caller has read; a later one refuses the reset.")
    ] = None,
    key: RequestKey = None,
) -> ResetAnswer:
    """Reset arms to their start; nothing is deleted.

    Arms start at Beta(1, 1) or at their own prior, with zero pulls; `undo` reverts it. A repeat under the same
    ``key`` returns the first answer. Raises `UnknownArm` for an arm that is not listed, and `NotApplicable` where no
    arm is in scope. Raises `Conflict` where the learner changed after the revision in ``seen``, or where ``key`` was
    used for other content; then no arm is reset.
    """
    scope = ResetScope(arms=tuple(dict.fromkeys(arms)), types=tuple(dict.fromkeys(types)))
    _check(target, reason)
    check_request_key(key)
    payload = digest(("reset", tuple(sorted(scope.arms)), tuple(sorted(scope.types)), target, reason))

    def work(txn: Transaction) -> ResetAnswer:
        stored = None if key is None else repeated(txn, key, payload, ResetAnswer)
        if stored is not None:
            return stored
        if seen is not None and txn.revision != seen + 1:
            raise Conflict(
                f"The learner must be at revision {seen:,}, got {txn.revision - 1:,}.",
                next_step="Read it again, and confirm the new revision; nothing was reset.",
            )
        keys = scope.keys(txn, arm_columns(txn))
        if not keys:
            raise NotApplicable(
                f"There is no arm to reset in scope ({scope.words}) of learner {txn.name!r}.",
                next_step="Import runs first, or widen the scope.",
            )
        arm_nos = set(txn.arm_nos(keys).values())
        if not scope.arms:
            arm_nos |= hidden_arm_nos(txn, scope.types)  # should their import be redone, they restart too
        number = add_reset(
            txn,
            sorted(arm_nos),
            txn.own,
            target=target,
            scope=scope.words,
            reason=reason or "",
            n_arms=len(keys),
        )
        act = f"reset-{number}"
        txn.audit("reset", act, {"arms": len(keys), "scope": scope.words, "to": target, "reason": reason})
        answer = ResetAnswer(
            id=act, learner=context.learner, reset_count=len(keys), arm_ids=tuple(keys), to=target
        )
        if key is not None:
            keep_reply(txn, key, reply_to("reset", number, payload, answer))
        return answer

    return context.write("reset", work)


def _check(target: str, reason: str | None) -> None:
    if target not in {"uniform", "prior"}:
        raise InvalidInput(
            f"A reset's target must be uniform or prior, got {target[:40]!r}.",
            next_step="uniform is Beta(1, 1), prior is each arm's own; nothing was reset.",
        )
    check_reason(reason)


def undo(context: Context, act_id: ActId) -> UndoAnswer:
    """Undo an act by its id, for example a reward, reset, import or setting.

    A repeat returns the first answer and changes nothing. ``act_id`` None is the id of an import without changes.
    The id of a batch of rewards, such as ``rewards-12``, undoes all of them: each reward gets an undo of its own
    under one id. Raises `UnknownAct`; reviewers may undo only their own acts.
    """
    return context.write("undo_own", lambda txn: undo_in(txn, context.actor, act_id))


def undo_in(txn: Transaction, actor: Actor, act_id: str | None) -> UndoAnswer:
    """Undo an act inside an open transaction, like `undo`."""
    batch = find_batch(txn, act_id)
    if batch is not None:
        _permit(txn, actor, batch.acts)
        active = [act for act in batch.acts if not act.undone]
        if active:
            numbers = add_undos(txn, FACTS[batch.kind], [act.number for act in active])
            details: list[Detail] = [{"undone": act.id, "kind": act.kind} for act in active]
            _audit(txn, numbers, details)
        newest = next(iter(undos_of(txn, batch)))
        return UndoAnswer(id=_batch_of(txn, newest), undone=batch.id, kind=batch.kind, count=len(batch.acts))
    act = find_act(txn, act_id)
    _permit(txn, actor, [act])
    undo_id = undo_act(txn, act)
    if not act.undone:
        txn.audit("undo", undo_id, {"undone": act.id, "kind": act.kind})
        check_running(txn)
    return UndoAnswer(id=undo_id, undone=act.id, kind=act.kind, left_out=_left_out(txn, act))


def redo(context: Context, act_id: ActId) -> UndoAnswer:
    """Redo an undone act, by undoing its undo.

    An active act is left alone. ``undone`` of the answer names the undo that was undone, or the active act.
    """
    return context.write("undo_own", lambda txn: redo_in(txn, context.actor, act_id))


def redo_in(txn: Transaction, actor: Actor, act_id: str | None) -> UndoAnswer:
    """Redo an act inside an open transaction, like `redo`."""
    batch = find_batch(txn, act_id)
    if batch is not None:
        undos = undos_of(txn, batch)
        if not undos:
            return UndoAnswer(id=batch.id, undone=batch.id, kind=batch.kind, count=len(batch.acts))
        _permit(txn, actor, list(undos))
        undone = _batch_of(txn, next(iter(undos)))
        numbers = add_undos(txn, FACTS["undo"], [act.number for act in undos])
        details: list[Detail] = [
            {"undone": act.id, "kind": "undo", "redone": taken} for act, taken in undos.items()
        ]
        _audit(txn, numbers, details)
        return UndoAnswer(id=f"undos-{numbers[0]}", undone=undone, kind="undo", count=len(undos))
    act = find_act(txn, act_id)
    answer = UndoAnswer(id=act.id, undone=act.id, kind=act.kind)
    for active in active_undos(txn, act):
        _permit(txn, actor, [active])
        undo_id = undo_act(txn, active)
        txn.audit("undo", undo_id, {"undone": active.id, "kind": "undo", "redone": act.id})
        answer = UndoAnswer(id=undo_id, undone=active.id, kind="undo", left_out=_left_out(txn, active))
    check_running(txn)
    return answer


def _permit(txn: Transaction, actor: Actor, acts: Sequence[Act]) -> None:
    if any(act.actor != actor.name for act in acts):
        authorise(actor, "undo", txn.name)


def _audit(txn: Transaction, numbers: Sequence[int], details: Sequence[Detail]) -> None:
    """Write an audit entry for each undo."""
    changes = [(f"undo-{number}", detail) for number, detail in zip(numbers, details, strict=True)]
    txn.audit_all("undo", changes)


def _batch_of(txn: Transaction, undo: Act) -> str:
    """Return the id of the batch of an undo."""
    batch = find_batch(txn, f"undos-{undo.number}")
    return undo.id if batch is None else batch.id


def _left_out(txn: Transaction, act: Act) -> int:
    return left_out(txn, act) if act.kind == "undo" else 0
