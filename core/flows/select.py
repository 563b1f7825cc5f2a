"""Selection of the arms of the next prompt, with reasons.

A selection for one run only reads: the recorded run stores it. A selection that holds in a session is written first.
OpenClaw draws on each request. A hold departs from that, so that a provider's cache keeps the prompt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from pkgutil import resolve_name
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import force_setattr

from core.columns import UNKNOWN, ArmColumns
from core.flows.context import Context
from core.guidance import guidance
from core.maths.policy import extended, on_offer
from core.maths.policy import select as select_arms
from core.records.arm import Arm, Prior
from core.records.learner import LearnerSettings
from core.records.limits import MAX_LABEL_CHARS, text
from core.records.selection import Selection
from core.records.times import MINUTE_MS
from core.store.experiments import Sided, assign, due_experiments, side_of
from core.store.offers import begin_hold, extend_hold, open_hold, use_hold
from core.store.reads import arm_columns
from core.store.transaction import Facts, Snapshot, Transaction

_USES_PER_IDLE_TIME: Final = 20
"""A hold's use is written at most so often per idle time. Other selections only read."""


def select(
    context: Context,
    arms: Annotated[Sequence[Arm] | None, Meta(description="Arms on offer; default: all known arms.")] = None,
    *,
    session: Annotated[
        str | None, Meta(description="Session of the request; a selection may hold in it.")
    ] = None,
    budget_tokens: Annotated[int | None, Meta(description="Token budget; 0 = unlimited.")] = None,
    k: Annotated[int | None, Meta(description="Maximum number of arms; 0 = unlimited.")] = None,
) -> Selection:
    """Choose the arms of the next prompt.

    The answer's ``guidance`` names the arms that are left out. A new arm competes with its prior. ``budget_tokens``
    and ``k`` override the settings for this selection; 0 = unlimited. With the setting ``sticky`` at ``session``, the
    first selection of a ``session`` is on disk when this returns. It holds until the session was idle for
    ``hold_minutes``. Raises `UnknownLearner` where no arm is offered and none is known.
    """
    context.permit("select")
    call, seed = _Call(arms, budget_tokens, k), context.entropy()
    # With arms on offer the learner may be new. Its first recorded run creates it.
    with context.reading("select") if arms is None else context.store.reading(context.learner) as snapshot:
        columns = arm_columns(snapshot)
        settings, revision = snapshot.settings, snapshot.revision
        is_new = not snapshot.exists
        sticky = context.sticky if is_new else settings.sticky
        holds = bool(session) and sticky == "session" and settings.phase == "active"
        holds &= not is_new or arms is not None
        held = _read(snapshot, call, session, columns, context.clock()) if holds and session else None
        sided = None if held else call.side(snapshot, session, columns, seed=seed, now_ms=context.clock())
    if session and held is None and (holds or (sided is not None and sided.is_new)):
        return _write(context, call, text("A session", session, MAX_LABEL_CHARS), seed)
    return held or with_guidance(call.chosen(columns, settings, seed, revision, sided))


class _Call(NamedTuple):
    """One request: the arms on offer, and limits of its own."""

    arms: Sequence[Arm] | None
    budget_tokens: int | None
    k: int | None

    def chosen(
        self,
        columns: ArmColumns,
        settings: LearnerSettings,
        seed: int,
        revision: int,
        sided: Sided | None = None,
    ) -> Selection:
        """Return a new selection."""
        return select_arms(
            self.offered(columns, settings),
            self.limits(settings),
            seed=seed,
            revision=revision,
            assigned=None if sided is None else sided.assigned,
        )

    def side(
        self, facts: Facts, session: str | None, columns: ArmColumns, *, seed: int, now_ms: int
    ) -> Sided | None:
        """Return the side of the session in an experiment on one of the offered arms."""
        offered = columns.keys if self.arms is None else [arm.key for arm in self.arms]
        return session_side(facts, session, offered, seed=seed, now_ms=now_ms)

    def offered(self, columns: ArmColumns, settings: LearnerSettings) -> ArmColumns:
        return columns if self.arms is None else offered(columns, self.arms, settings)

    def limits(self, settings: LearnerSettings) -> LearnerSettings:
        return overridden(settings, budget_tokens=self.budget_tokens, k=self.k)

    def of_hold(self, hold: Selection, columns: ArmColumns, settings: LearnerSettings) -> Selection:
        """Return what a hold says of the arms on offer, all of which it has decided."""
        costs = dict(zip(columns.keys, columns.token_cost.tolist(), strict=True))
        return on_offer(hold, costs, self.limits(settings))


def _read(
    snapshot: Snapshot, call: _Call, session: str, columns: ArmColumns, now_ms: int
) -> Selection | None:
    """Return the selection that holds; None where something is to be written first."""
    settings = snapshot.settings
    idle_ms = settings.hold_minutes * MINUTE_MS
    hold = open_hold(snapshot, session, now_ms, idle_ms=idle_ms)
    if hold is None or now_ms - hold.used_ms > idle_ms // _USES_PER_IDLE_TIME:
        return None
    candidates = call.offered(columns, settings)
    if len(_undecided(hold.selection, candidates)):
        return None
    return with_guidance(call.of_hold(hold.selection, candidates, settings))


def _write(context: Context, call: _Call, session: str, seed: int) -> Selection:
    """Assign a session, and begin its hold, or add new candidates to it, or note its use."""

    def work(txn: Transaction) -> Selection:
        settings, columns = txn.settings, arm_columns(txn)
        holds, idle_ms = settings.sticky == "session", settings.hold_minutes * MINUTE_MS
        hold = open_hold(txn, session, txn.now_ms, idle_ms=idle_ms) if holds else None
        if settings.phase == "passive" or hold is None:
            sided = call.side(txn, session, columns, seed=seed, now_ms=txn.now_ms)
            fresh = call.chosen(columns, settings, seed, txn.revision, sided)
            if sided is not None and sided.is_new:
                assign(txn, sided, session=session)
                stop_harmful(txn)
            if not holds or settings.phase == "passive":  # perhaps changed meanwhile
                return fresh
            return begin_hold(txn, session, fresh, idle_ms=idle_ms)
        selection, candidates = hold.selection, call.offered(columns, settings)
        later = _undecided(selection, candidates)
        if len(later):
            selection = extended(selection, later, call.limits(settings), seed=seed, revision=txn.revision)
            extend_hold(txn, session, selection)
        else:
            use_hold(txn, session)
        return call.of_hold(selection, candidates, settings)

    return with_guidance(context.write("select", work, create=call.arms is not None))


def stop_harmful(txn: Transaction) -> None:
    """Stop experiments whose harm is proven, if a look is due after the assignments of this write."""
    for number in due_experiments(txn):
        resolve_name("core.flows.experiments:stop_if_harmful")(
            txn, number
        )  # statistics load with the first look


def _undecided(hold: Selection, columns: ArmColumns) -> ArmColumns:
    """Return the candidates that a hold has not decided on."""
    decided = {one.arm for one in hold.decisions}
    return columns.where(np.array([key not in decided for key in columns.keys], dtype=np.bool_))


def session_side(
    facts: Facts, session: str | None, offered: Collection[str], *, seed: int, now_ms: int
) -> Sided | None:
    """Return the side of a session, or of a selection without one; a passive learner's prompts have everything."""
    if not facts.has_experiments or facts.settings.phase == "passive":
        return None
    out = facts.settings.left_out
    return side_of(facts, session, offered, seed=seed, now_ms=now_ms, left_out=out)


def with_guidance(chosen: Selection) -> Selection:
    """Return the selection with the guidance text for its excluded arms."""
    named = copy(chosen)  # to replace a field would check all others again
    force_setattr(named, "guidance", guidance(chosen.nameable))
    return named


def overridden(settings: LearnerSettings, **own: object) -> LearnerSettings:
    """Return the settings with a call's own values; None leaves the setting."""
    return msgspec.structs.replace(
        settings, **{name: value for name, value in own.items() if value is not None}
    )


def offered(columns: ArmColumns, arms: Sequence[Arm], settings: LearnerSettings) -> ArmColumns:
    """Return the columns of the arms on offer, sorted by id. Unknown values start at the arm's prior."""
    by_key = {arm.key: arm for arm in arms}
    known = columns.where(np.array([key in by_key for key in columns.keys], dtype=np.bool_))
    fresh = [arm for key, arm in by_key.items() if key not in set(known.keys)]
    whole = _joined(known, _at_prior(fresh, settings)) if fresh else known
    costs = [by_key[key].token_cost for key in whole.keys]
    stated = np.array([UNKNOWN if cost is None else cost for cost in costs], dtype=np.int64)
    return replace(whole, token_cost=np.where(stated == UNKNOWN, whole.token_cost, stated))


def _at_prior(arms: Sequence[Arm], settings: LearnerSettings) -> ArmColumns:
    priors: list[Prior] = [arm.prior or settings.priors.of(arm.type) for arm in arms]
    alpha = np.array([prior.alpha_micro for prior in priors], dtype=np.int64)
    beta = np.array([prior.beta_micro for prior in priors], dtype=np.int64)
    nothing = np.zeros(len(arms), dtype=np.int64)
    return ArmColumns(
        keys=tuple(arm.key for arm in arms),
        types=tuple(arm.type for arm in arms),
        prior_alpha_micro=alpha,
        prior_beta_micro=beta,
        base_alpha_micro=alpha,
        base_beta_micro=beta,
        success_micro=nothing,
        failure_micro=nothing,
        pulls=nothing,
        part_micro=nothing,
        inclusions=nothing,
        token_cost=nothing + UNKNOWN,
        epoch=nothing,
        last_at_ms=nothing + UNKNOWN,
    )


def _joined(left: ArmColumns, right: ArmColumns) -> ArmColumns:
    keys = left.keys + right.keys
    order = sorted(range(len(keys)), key=keys.__getitem__)
    values: dict[str, Any] = {}
    for name in ArmColumns.__dataclass_fields__:
        one, other = getattr(left, name), getattr(right, name)
        if isinstance(one, tuple):
            both = one + other
            values[name] = tuple(both[index] for index in order)
        else:
            values[name] = np.concatenate([one, other])[order]
    return ArmColumns(**values)
