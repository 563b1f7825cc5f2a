"""Selection of the arms of the next prompt, with reasons. It only reads: the recorded run stores the selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import UNKNOWN, ArmColumns
from core.flows.context import Context
from core.guidance import guidance
from core.policy import select as select_arms
from core.records.arm import Arm, Prior
from core.records.learner import LearnerSettings
from core.records.selection import Selection
from core.store.reads import arm_columns


def select(
    context: Context,
    arms: Annotated[Sequence[Arm] | None, Meta(description="Arms on offer; default: all known arms.")] = None,
    *,
    budget_tokens: Annotated[int | None, Meta(description="Token budget; 0 = unlimited.")] = None,
    k: Annotated[int | None, Meta(description="Maximum number of arms; 0 = unlimited.")] = None,
) -> Selection:
    """Choose the arms of the next prompt.

    The answer's ``guidance`` names the arms that are left out. A new arm competes with its prior. ``budget_tokens``
    and ``k`` override the settings for this selection; 0 = unlimited. Raises `UnknownLearner` where no arm is
    offered and none is known.
    """
    context.permit("select")
    # With arms on offer the learner may be new. Its first recorded run creates it.
    with context.reading("select") if arms is None else context.store.reading(context.learner) as snapshot:
        columns = arm_columns(snapshot)
        settings, revision = snapshot.settings, snapshot.revision
    if arms is not None:
        columns = offered(columns, arms, settings)
    effective = overridden(settings, budget_tokens, k)
    return with_guidance(select_arms(columns, effective, seed=context.entropy(), revision=revision))


def with_guidance(chosen: Selection) -> Selection:
    """Return the selection with the guidance text for its excluded arms."""
    return msgspec.structs.replace(chosen, guidance=guidance(chosen.excluded))


def overridden(settings: LearnerSettings, budget_tokens: int | None, k: int | None) -> LearnerSettings:
    """Return the settings with this call's own budget and count."""
    changes = {"budget_tokens": budget_tokens, "k": k}
    overrides = {name: value for name, value in changes.items() if value is not None}
    return msgspec.structs.replace(settings, **overrides)


def offered(columns: ArmColumns, arms: Sequence[Arm], settings: LearnerSettings) -> ArmColumns:
    """Return the columns of the arms on offer, sorted by id. Unknown values start at the arm's prior."""
    by_key = {arm.key: arm for arm in arms}
    known = columns.where(np.array([key in by_key for key in columns.keys], dtype=np.bool_))
    fresh = [arm for key, arm in by_key.items() if key not in set(known.keys)]
    whole = _joined(known, _at_prior(fresh, settings))
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
