"""Repair of a span: automatic observations of named arms are taken back; nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from core.errors import InvalidInput, NotApplicable
from core.flows.context import Context
from core.flows.requests import repeated, unknown_arm
from core.formats.scalars import utc_ms_of
from core.records.answers import RepairAnswer
from core.records.arm import check_key
from core.records.limits import LAST_MS, listed, shown
from core.records.observation import check_reason, check_request_key
from core.records.parameters import Reason, RequestKey
from core.records.repair import repair_payload
from core.store.reads import listed_arms
from core.store.repairs import ObservedSpan, add_repair, observed_in
from core.store.replies import keep_reply, reply_to
from core.store.transaction import Snapshot, Transaction

_MOST: Final = 250_000
"""Observations of one repair: each is a row, and a line of an export names all of them."""


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
        """Return the numbers of the arms, and their automatic observations in the span.

        Raises `UnknownArm` for an arm that is not listed, and `InvalidInput` for too many observations.
        """
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
    payload = repair_payload(scope.arms, since, until, reason)

    def work(txn: Transaction) -> RepairAnswer:
        stored = None if key is None else repeated(txn, key, payload, RepairAnswer)
        if stored is not None:
            return stored
        numbers, span = scope.observed(txn)
        counted = span.counted
        if not counted:
            raise NotApplicable(
                f"There must be an automatic observation of {_named(scope.arms)} in the span, got none that counts.",
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


def _named(arms: Sequence[str]) -> str:
    return arms[0] if len(arms) == 1 else f"{len(arms)} arms"
