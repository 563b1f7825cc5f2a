"""Judgement: what is to be said of each arm, the same wherever it is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from core.columns import ArmColumns, Ints
from core.flows.context import Context
from core.flows.queries.arms import ArmSummary, arms
from core.flows.queries.belief import belief_in, posteriors
from core.flows.queries.chances import Inclusion, inclusion_in
from core.flows.queries.change import changes_in
from core.records.judgement import JudgedPosterior, Judgement, JudgementName
from core.records.posterior import Posterior
from core.records.times import DAY_MS, HOUR_MS, iso
from core.records.view import View
from core.statistics.change import Changes
from core.statistics.judgement import STALE_DAYS, judge, stale_arms
from core.store import reads
from core.store.transaction import Snapshot

_RECENT_MS: Final = STALE_DAYS * DAY_MS
"""An arm that was in a prompt so lately is still put in."""


class JudgedArm(ArmSummary, frozen=True, kw_only=True):
    """An arm in one line with the mean at which it breaks even at its cost, and what is to be said of it."""

    break_even: float | None
    judgement: JudgementName


@dataclass(frozen=True, kw_only=True)
class Lately:
    """What happened to all arms of a moment: where the data end, how often each was in a prompt in the last 14 days
    of them, and which changed.
    """

    columns: ArmColumns
    end_ms: int | None
    inclusions: Ints
    changes: Changes


def judgements(
    context: Context,
    view: View = View(),  # noqa: B008 - frozen
    *,
    inclusion: Inclusion | None = None,
) -> dict[str, Judgement]:
    """Every arm's judgement by id, as of the view's end; what an arm breaks even at is that of now.

    ``inclusion`` is every arm's chance, where somebody has it already: it takes longer than all the rest.
    """
    with context.reading() as snapshot:
        seen = belief_in(snapshot, View(until_ms=view.until_ms))
        lately = lately_in(snapshot, seen.columns, view)
        now = seen.columns if view.until_ms is None else reads.arm_columns(snapshot)
        chances = inclusion_in(snapshot, now) if inclusion is None else inclusion
        found = judge(
            seen.columns,
            seen.summary,
            frozenset(snapshot.settings.seed_arms),
            changes=lately.changes,
            stale=stale_arms(seen.columns, lately.inclusions, lately.end_ms),
            chances=chances.arms,
        )
    wanted = view.types or seen.columns.types
    return {one.arm: one for one, of in zip(found, seen.columns.types, strict=True) if of in wanted}


def judged_posteriors(
    context: Context,
    view: View = View(),  # noqa: B008 - frozen
    *,
    judged: Mapping[str, Judgement] | None = None,
) -> list[JudgedPosterior]:
    """Every arm's posterior with what is to be said of it (``judged``, where that is known already), sorted by id."""
    judged = judgements(context, view) if judged is None else judged
    return [_told(one, judged[one.arm]) for one in posteriors(context, view) if one.arm in judged]


def judged_arms(context: Context, *, judged: Mapping[str, Judgement] | None = None) -> list[JudgedArm]:
    """Every arm that is listed with what it costs and what is to be said of it (``judged``, where that is known
    already), sorted by id.
    """
    judged = judgements(context) if judged is None else judged
    return [
        JudgedArm(
            **msgspec.structs.asdict(one),
            break_even=judged[one.arm].break_even,
            judgement=judged[one.arm].name,
        )
        for one in arms(context)
        if one.arm in judged
    ]


def _told(believed: Posterior, judged: Judgement) -> JudgedPosterior:
    seen = judged.recent
    return JudgedPosterior(
        **msgspec.structs.asdict(believed),
        judgement=judged.name,
        judged_by=judged.interval,
        missing_pulls=judged.missing_pulls,
        break_even=judged.break_even,
        no_break_even=judged.no_break_even,
        chance=judged.chance,
        chance_error=judged.chance_error,
        others=judged.others,
        since=None if seen is None else iso(seen.since_ms),
        n_since=None if seen is None else seen.n,
        mean_since=None if seen is None else seen.mean,
        n_before=None if seen is None else seen.n_before,
        mean_before=None if seen is None else seen.mean_before,
    )


def lately_in(snapshot: Snapshot, columns: ArmColumns, view: View) -> Lately:
    """What happened to all arms by the view's end; ``columns`` are of all of them by then."""
    end_ms = reads.totals(snapshot).last_at_ms if view.until_ms is None else view.until_ms
    recent: dict[str, int] = {}
    if end_ms is not None:  # the newest hour counts where the view has no end of its own
        until_ms = end_ms + HOUR_MS if view.until_ms is None else end_ms
        recent = reads.inclusions_between(snapshot, end_ms - _RECENT_MS, until_ms)
    return Lately(
        columns=columns,
        end_ms=end_ms,
        inclusions=np.array([recent.get(key, 0) for key in columns.keys], dtype=np.int64),
        changes=changes_in(snapshot, columns, view, end_ms),
    )
