"""Reset of arms; nothing is deleted, and the facts stay readable in the ended epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from core.columns import ArmColumns
from core.errors import Conflict, InvalidInput, NotApplicable
from core.flows.context import Context
from core.flows.requests import repeated, unknown_arm
from core.records.answers import ResetAnswer
from core.records.arm import ARM_TYPES, ArmType, check_key
from core.records.observation import check_reason, check_request_key
from core.records.parameters import Reason, RequestKey
from core.records.reset import Target, reset_payload
from core.store.reads import arm_columns, hidden_arm_nos
from core.store.replies import keep_reply, reply_to
from core.store.resets import add_reset
from core.store.transaction import Facts, Transaction


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
    payload = reset_payload(scope.arms, scope.types, target, reason)

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
