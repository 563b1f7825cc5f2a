"""Belief: the posterior of every arm."""

from __future__ import annotations

from dataclasses import dataclass

from core.columns import ArmColumns, Floats, Ints
from core.flows.context import Context
from core.maths.statistics.summary import Summary, summarise
from core.records.arm import BANDS, MICRO, BetaPair, Interval, NormalInterval, Posterior
from core.records.run_query import View
from core.records.times import iso
from core.store import reads
from core.store.transaction import Snapshot


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Arms and the summaries of their posteriors, aligned."""

    columns: ArmColumns
    summary: Summary


def belief(context: Context, view: View = View()) -> Belief:  # noqa: B008 - frozen
    """Return every arm's posterior as of the view's end."""
    with context.reading() as snapshot:
        return belief_in(snapshot, view)


def posteriors(
    context: Context,
    view: View = View(),  # noqa: B008 - frozen
    *,
    listed: bool = True,
) -> list[Posterior]:
    """List every arm's posterior as a record, sorted by id; not ``listed``: of those that an undo left nothing of."""
    with context.reading() as snapshot:
        beliefs = belief_in(snapshot, view, listed=listed)
    columns, summary = beliefs.columns, beliefs.summary
    return [_posterior(columns, summary, index) for index in range(len(columns))]


def belief_in(snapshot: Snapshot, view: View, *, listed: bool = True) -> Belief:
    """Return every arm's posterior in a snapshot as of the view's end."""
    if view.until_ms is None:
        columns = reads.arm_columns(snapshot, types=view.types, listed=listed)
    else:
        columns = reads.arm_columns_until(snapshot, view.until_ms, types=view.types)
    return Belief(columns=columns, summary=summarise(columns))


def _posterior(columns: ArmColumns, summary: Summary, index: int) -> Posterior:
    def at(values: Floats | Ints) -> float:
        return float(values[index])

    return Posterior(
        arm=columns.keys[index],
        type=columns.types[index],
        alpha=at(summary.alpha),
        beta=at(summary.beta),
        mean=at(summary.mean),
        variance=at(summary.variance),
        pulls=int(columns.pulls[index]),
        pulls_exact=columns.exact_pulls(index),
        inclusions=int(columns.inclusions[index]),
        confidence=BANDS[summary.band[index]],
        interval=Interval(lower=at(summary.lower), upper=at(summary.upper), prob=summary.prob),
        normal=NormalInterval(lower=at(summary.normal_lower), upper=at(summary.normal_upper)),
        prior=BetaPair(
            alpha=at(columns.prior_alpha_micro) / MICRO, beta=at(columns.prior_beta_micro) / MICRO
        ),
        epoch=int(columns.epoch[index]),
        last_updated=iso(int(columns.last_at_ms[index])),
    )
