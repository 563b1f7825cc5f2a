"""Arms → marks at their tokens and their use, with the line at which they break even."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from core.columns import ArmColumns, Floats
from core.records.arm import ARM_TYPES, ArmType
from core.records.judgement import Judgement, JudgementName
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of, scatter
from dashboard.figures.theme import Tokens

MAY_GO: Final[frozenset[JudgementName]] = frozenset({"not_worth", "used_seldom", "never_referenced"})
"""Judgements of arms that are used too seldom for their tokens, or hardly where no cost is weighed."""
_HALF: Final = 50.0
"""The line where nothing has a break-even."""
_AROUND: Final = 4
"""Neighbours on each side of an arm, whose middle break-even is that of the line."""
_HEIGHT_PX: Final = 318
_NAMED: Final = 3
_APART: Final = 7
_WIDE: Final = 1.0
"""Names are more than so many uses, or powers of ten, apart."""
_MARGIN: Final = 0.12
_ROOM: Final = 0.6
"""Room for names beside the dearest arms, in powers of ten."""
_COLUMN: Final = 0.25
"""Distance of the arms without known tokens from the others, in powers of ten."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """An arm: its uses in 100 runs, its tokens, and the uses at which it breaks even. None = unknown.

    ``n`` observed runs used it, and had it. ``verdict`` is *helps* or *harms* by a trial or an experiment, else ''.
    """

    key: str
    type: ArmType
    n: tuple[int, int]
    tokens: int | None
    break_even: float | None
    may_go: bool
    chance: float | None
    verdict: str = ""

    @property
    def uses(self) -> float:
        """Uses in 100 runs."""
        return 100 * self.n[0] / self.n[1]

    @property
    def wasted(self) -> int:
        """Tokens in the runs that did not use it, or these runs where its tokens are unknown."""
        return (1 if self.tokens is None else self.tokens) * (self.n[1] - self.n[0])


def worths(
    columns: ArmColumns,
    judged: Mapping[str, Judgement],
    left_out: Sequence[str] = (),
    verdicts: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Worth, ...]:
    """Return the arms with a measured use, by tokens; those that are known by their calls alone have none."""
    costs = dict(zip(columns.keys, columns.token_cost.tolist(), strict=True))
    rows = [
        Worth(
            key=one.arm,
            type=wording.type_of(one.arm),
            n=(one.n_referenced, one.n_observed),
            tokens=costs[one.arm] if costs.get(one.arm, -1) >= 0 else None,
            break_even=None if one.break_even is None else 100 * one.break_even,
            may_go=one.name in MAY_GO,
            chance=one.chance,
            verdict=verdicts.get(one.arm, ""),
        )
        for one in judged.values()
        if one.n_observed and not one.called_only and one.name != "section" and one.arm not in {*left_out}
    ]
    return tuple(sorted(rows, key=lambda row: (-(row.tokens or 0), row.key)))


def worth(rows: Sequence[Worth], look: Tokens, *, compact: bool = False) -> Chart:
    """Return the picture; arms that may go out have the colour of their type and names, the others are grey."""
    known = np.array([row.tokens for row in rows if row.tokens is not None], dtype=np.float64)
    low, high = (float(np.log10(max(one, 1.0))) for one in (known.min(initial=1e9), known.max(initial=1.0)))
    low = min(low, high)
    at = [low - _COLUMN if row.tokens is None else float(np.log10(max(row.tokens, 1))) for row in rows]
    traces = [_line(rows, at, look)]
    for may_go in (False, True):
        traces += [_marks(rows, at, kind, look, may_go=may_go) for kind in ARM_TYPES]
    shown = _ticks(low, high, has_unknown=len(known) < len(rows))
    left = low - (_COLUMN if len(known) < len(rows) else 0.0) - _MARGIN
    traces.append(_rings(rows, at, look))
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(34, 8, 16, 58),
        xaxis=theme.axis(
            look,
            title=f"tokens in a prompt<br>{_legend(rows, look, compact=compact)}",
            range=[left, high + (_MARGIN if compact else _ROOM)],
            **theme.ticks(*shown),
        ),
        yaxis=theme.axis(
            look,
            grid=True,
            range=[-4, 106],
            **theme.ticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100"]),
        ),
        annotations=[*_words(rows, look), *(() if compact else _names(rows, at, look))],
    )
    return chart_of([one for one in traces if len(one["x"])], layout, alt=_alt(rows), table=_table(rows))


def _line(rows: Sequence[Worth], at: Sequence[float], look: Tokens) -> Trace:
    """Return the line of the middle break-even of arms with about the same tokens."""
    pairs = sorted((x, row.break_even) for x, row in zip(at, rows, strict=True) if row.break_even is not None)
    x: Floats = np.array([one for one, _ in pairs] or [min(at, default=0.0), max(at, default=1.0)])
    values = np.array([value for _, value in pairs] or [_HALF, _HALF])
    middle = [
        float(np.median(values[max(place - _AROUND, 0) : place + _AROUND + 1]))
        for place in range(len(values))
    ]
    return scatter("lines", x, middle, line={"color": look.guide, "width": 1.5, "dash": "dash"})


def _marks(rows: Sequence[Worth], at: Sequence[float], kind: ArmType, look: Tokens, *, may_go: bool) -> Trace:
    own = [
        (place, x, row)
        for place, (x, row) in enumerate(zip(at, rows, strict=True))
        if row.type == kind and row.may_go == may_go
    ]
    token = look.types[kind]
    return scatter(
        "markers",
        [x for _, x, _ in own],
        [row.uses for _, _, row in own],
        hover=[_hover(row) for _, _, row in own],
        customdata=[place for place, _, _ in own],
        marker=theme.mark(look, token.symbol, token.size, token.mark if may_go else look.other_arms),
    )


def _rings(rows: Sequence[Worth], at: Sequence[float], look: Tokens) -> Trace:
    """Return a ring around each arm that helps or harms."""
    own = [(x, row) for x, row in zip(at, rows, strict=True) if row.verdict]
    colours = [look.red if row.verdict == "harms" else look.chart_accent for _, row in own]
    marker = {"symbol": "circle-open", "size": 20, "color": colours, "line": {"width": 2}}
    return scatter("markers", [x for x, _ in own], [row.uses for _, row in own], marker=marker)


def _hover(row: Worth) -> str:
    name = wording.plot_literal(wording.short_name(row.key))
    verdict = f"<br>{row.verdict}, by a trial or an experiment" if row.verdict else ""
    return f"<b>{name}</b><br>used in {wording.count(row.uses)} of 100 runs<br>{_tokens(row)}{verdict}"


def _tokens(row: Worth) -> str:
    return "tokens unknown" if row.tokens is None else wording.things(row.tokens, "token")


def _ticks(low: float, high: float, *, has_unknown: bool) -> tuple[list[float], list[str]]:
    """Return ticks at powers of ten and their halves, and one of the arms without known tokens."""
    values = [base * 10**power for power in range(8) for base in (1, 3)]
    inside = [one for one in values if low - _MARGIN / 2 <= np.log10(one) <= high + _MARGIN / 2]
    unknown = ([low - _COLUMN], ["unknown"]) if has_unknown else ([], [])
    return (
        [*unknown[0], *(float(np.log10(one)) for one in inside)],
        [*unknown[1], *(wording.count(one) for one in inside)],
    )


def _legend(rows: Sequence[Worth], look: Tokens, *, compact: bool) -> str:
    """Return the marks of the types, and what their colour means."""
    kinds = [kind for kind in ARM_TYPES if any(row.type == kind for row in rows)]
    marks = " ".join(f"{look.types[kind].glyph} {kind}" for kind in kinds)
    words = f"in colour: may go out{'' if compact else ' · in grey: kept, or too early to tell'}"
    return f"{marks} · {words}" if any(row.may_go for row in rows) else marks


def _words(rows: Sequence[Worth], look: Tokens) -> list[dict[str, Any]]:
    """Return what the height means, and what the line is."""
    breaks_even = any(row.break_even is not None for row in rows)
    line = "dashed: use at which an arm breaks even" if breaks_even else "dashed: half of the runs"
    top = {"xref": "paper", "y": 101, "yanchor": "bottom", "size": theme.AXIS_PX, "color": look.muted}
    return [
        theme.label(look, "used in 100 runs", x=0, xanchor="left", **top),
        theme.label(look, line, x=1, xanchor="right", **top),
    ]


def _names(rows: Sequence[Worth], at: Sequence[float], look: Tokens) -> list[dict[str, Any]]:
    """Return the names of the arms that help or harm, and of those that may go out and have most tokens."""
    own: list[tuple[float, Worth]] = []
    for x, row in sorted(zip(at, rows, strict=True), key=lambda pair: not pair[1].verdict):
        is_due = row.verdict or (row.may_go and len(own) < _NAMED and not _is_covered(x, row, at, rows))
        if is_due and all(abs(row.uses - one.uses) > _APART or abs(x - other) > _WIDE for other, one in own):
            own.append((x, row))
    return [
        theme.label(
            look,
            _name(row),
            x=x,
            y=row.uses,
            xanchor="left",
            yanchor="middle",
            xshift=13 if row.verdict else 9,
            size=theme.AXIS_PX,
        )
        for x, row in own
    ]


def _is_covered(x: float, row: Worth, at: Sequence[float], rows: Sequence[Worth]) -> bool:
    """Return whether the name of an arm would lie over the mark of another one."""
    return any(
        0 < other - x < _ROOM and abs(one.uses - row.uses) < _APART / 2
        for other, one in zip(at, rows, strict=True)
    )


def _name(row: Worth) -> str:
    name = wording.plot_literal(wording.cut_middle(wording.short_name(row.key), 26))
    return f"{name}: <b>{row.verdict}</b>" if row.verdict else name


def _alt(rows: Sequence[Worth]) -> str:
    going = [wording.short_name(row.key) for row in rows if row.may_go]
    of = wording.things(len(rows), "arm")
    named = f": {', '.join(going[:_NAMED])}" if going else ""
    more = f" and {wording.count(len(going) - _NAMED)} more" if len(going) > _NAMED else ""
    return (
        f"Tokens of {of} against their uses in 100 runs; {wording.count(len(going))} may go out{named}{more}."
    )


def _table(rows: Sequence[Worth]) -> dict[str, list[str | int | float]]:
    missing = wording.MISSING
    return {
        "arm": [wording.plain(row.key) for row in rows],
        "tokens": [missing if row.tokens is None else wording.count(row.tokens) for row in rows],
        "used in 100 runs": [wording.count(row.uses) for row in rows],
        "runs": [f"{wording.count(row.n[0])} of {wording.count(row.n[1])}" for row in rows],
        "breaks even at": [
            missing if row.break_even is None else wording.count(row.break_even) for row in rows
        ],
        "may go out": ["yes" if row.may_go else "no" for row in rows],
        "by trials": [row.verdict or missing for row in rows],
    }
