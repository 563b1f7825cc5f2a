"""Arms with cost, prior, pulls and inclusions."""

from __future__ import annotations

from collections.abc import Sequence

from core.flows.context import Context
from core.records.arm import ArmType
from core.records.arm_summary import ArmSummary
from core.records.posterior import BetaPair
from core.store.reads import arm_columns


def arms(context: Context, *, types: Sequence[ArmType] = (), listed: bool = True) -> list[ArmSummary]:
    """List every arm, sorted by id; not ``listed``: those that an undo left nothing of."""
    with context.reading() as snapshot:
        columns = arm_columns(snapshot, types=types, listed=listed)
    numbers = (
        columns.token_cost,
        columns.prior_alpha_micro,
        columns.prior_beta_micro,
        columns.pulls,
        columns.inclusions,
        columns.n_named,
        columns.n_loaded,
    )
    return [
        ArmSummary(
            arm=key,
            type=kind,
            token_cost=None if cost < 0 else cost,
            prior=BetaPair(alpha=alpha / 1e6, beta=beta / 1e6),
            pulls=pulls,
            inclusions=inclusions,
            n_named=named,
            n_loaded=loaded,
        )
        for key, kind, cost, alpha, beta, pulls, inclusions, named, loaded in zip(
            columns.keys, columns.types, *[one.tolist() for one in numbers], strict=True
        )
    ]
