"""Arms as charts and small tables take them: one row per arm, in the order to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, Ints
from core.explained.arms import posteriors
from core.maths.posterior import beta
from core.maths.statistics.summary import Summary
from core.records.arm import ARM_TYPES, BANDS, MICRO, ArmType, Band
from core.records.judgement import ALARMS, ENOUGH_PULLS, JUDGEMENTS, Judgement
from dashboard import wording

Method = Literal["exact", "highest-density", "normal"]
METHODS: Final[tuple[Method, ...]] = ("exact", "highest-density", "normal")
METHOD_WORDS: Final[dict[Method | Literal["effective"], str]] = {
    "exact": "exact, equal tails",
    "highest-density": "highest density",
    "normal": "normal approximation",
    "effective": "by effective pulls",
}
Order = Literal["mean", "width", "pulls", "type"]
ORDERS: Final[tuple[Order, ...]] = ("mean", "width", "pulls", "type")


_MOST_FLAGGED: Final = 4
"""Arms that need a look, of those drawn first."""


@dataclass(frozen=True, kw_only=True)
class ArmRow:
    """One arm of a ladder; ``alpha`` and ``beta`` include the prior, ``truth`` is a demo's planted value."""

    key: str
    type: ArmType
    mean: float
    lower: float
    upper: float
    pulls: int
    band: Band
    alpha: float = 1.0
    beta: float = 1.0
    prior_alpha: float = 1.0
    prior_beta: float = 1.0
    truth: float | None = None

    @property
    def words(self) -> str:
        """Mean, interval and pulls in one line, as hovers and alternative texts say them."""
        span = wording.interval(self.lower, self.upper)
        return f"mean {wording.mean(self.mean)}, 95% interval {span}"


def rows(
    columns: ArmColumns,
    summary: Summary,
    places: Sequence[int] | Ints,
    *,
    method: Method = "exact",
    truth: Mapping[str, float] = MappingProxyType({}),
) -> tuple[ArmRow, ...]:
    """Return rows of the arms at these places of the columns, with limits by the chosen method.

    ``truth`` holds a demo's planted values by arm.
    """
    plain = tuple(_row(columns, summary, int(index), truth) for index in places)
    if method == "highest-density" and plain:
        lower, upper = beta.highest_density(
            np.array([row.alpha for row in plain]), np.array([row.beta for row in plain])
        )
        return tuple(
            replace(row, lower=float(low), upper=float(high))
            for row, low, high in zip(plain, np.atleast_1d(lower), np.atleast_1d(upper), strict=True)
        )
    if method == "normal":
        return tuple(
            replace(row, lower=float(summary.normal_lower[index]), upper=float(summary.normal_upper[index]))
            for row, index in zip(plain, places, strict=True)
        )
    return plain


def _row(columns: ArmColumns, summary: Summary, index: int, truth: Mapping[str, float]) -> ArmRow:
    return ArmRow(
        key=columns.keys[index],
        type=columns.types[index],
        mean=float(summary.mean[index]),
        lower=float(summary.lower[index]),
        upper=float(summary.upper[index]),
        pulls=int(columns.pulls[index]),
        band=BANDS[int(summary.band[index])],
        alpha=float(summary.alpha[index]),
        beta=float(summary.beta[index]),
        prior_alpha=int(columns.base_alpha_micro[index]) / MICRO,
        prior_beta=int(columns.base_beta_micro[index]) / MICRO,
        truth=truth.get(columns.keys[index]),
    )


def ordered(columns: ArmColumns, summary: Summary, places: Ints, order: Order) -> Ints:
    """Return the row indexes sorted for display; ties by id, the order of the columns."""
    by_mean = -summary.mean[places]
    if order == "type":
        types = np.array([ARM_TYPES.index(columns.types[int(index)]) for index in places], dtype=np.int64)
        return places[np.lexsort((places, by_mean, types))]
    first = {"mean": by_mean, "width": summary.width[places], "pulls": -columns.pulls[places].astype(float)}
    return places[np.lexsort((places, first[order]))]


def notable(columns: ArmColumns, summary: Summary, flagged: Sequence[str] = (), n_arms: int = 9) -> Ints:
    """Places of the arms to show first: those that need a look, then the best with 20 pulls or more, then the rest.

    ``flagged`` are those that need a look, the gravest first. Sections and arms without pulls come in only when
    nothing else is left. Deterministic.
    """
    first = [columns.places[key] for key in flagged[:_MOST_FLAGGED] if key in columns.places]
    order = np.argsort(summary.rank, kind="stable")
    order = order[~np.isin(order, first)]
    is_section = np.array([columns.types[int(at)] == "section" for at in order], dtype=np.bool_)
    pulls = columns.pulls[order]
    group = np.select([~is_section & (pulls >= ENOUGH_PULLS), ~is_section & (pulls > 0)], [0, 1], 2)
    by_group = np.argsort(group, kind="stable")[: n_arms - len(first)]
    known = by_group[group[by_group] < 2]
    rest = order[known if len(known) or first else by_group]
    return np.concatenate([np.array(first, dtype=np.int64), rest.astype(np.int64)])


def alarmed(judged: Mapping[str, Judgement]) -> tuple[str, ...]:
    """Return the arms that need a look, the gravest first."""
    found = [(JUDGEMENTS.index(one.name), arm) for arm, one in judged.items() if one.name in ALARMS]
    return tuple(arm for _, arm in sorted(found))


def hover(row: ArmRow) -> str:
    """Return the hover text of a mark; the name is escaped for Plotly."""
    name = wording.plot_literal(wording.short_name(row.key))
    pulls = wording.things(row.pulls, "pull")
    lines = [f"<b>{name}</b>", row.words, f"{pulls}, confidence {wording.BAND_WORDS[row.band]}"]
    if row.truth is not None:
        lines.append(f"planted value {wording.mean(row.truth)}")
    return "<br>".join(lines)


def table(arms: Sequence[ArmRow]) -> dict[str, list[str | int | float]]:
    """Return the rows as a plain table."""
    fields = posteriors({}).fields
    return {
        "type": [row.type for row in arms],
        fields["arm"].head: [wording.plain(row.key) for row in arms],
        fields["mean"].head: [wording.mean(row.mean, 3) for row in arms],
        fields["interval"].head: [wording.interval(row.lower, row.upper, 3) for row in arms],
        fields["pulls"].head: [row.pulls for row in arms],
        fields["confidence"].head: [wording.band(row.band) for row in arms],
    }


def spoken(arms: Sequence[ArmRow], at_most: int = 3) -> str:
    """Return the first rows in words, for alternative texts."""
    first = [f"{wording.short_name(row.key)} {row.words}" for row in arms[:at_most]]
    more = len(arms) - at_most
    return "; ".join(first) + (f"; and {wording.things(more, 'more arm')}" if more > 0 else "")
