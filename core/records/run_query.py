"""Run query: the filters of a list of runs, by the names in addresses of pages; and the view of a page.

A name that Python keeps for itself ends in an underscore here. Every other door has it without. A view is the part of
a learner's history that a page shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from core.errors import InvalidInput
from core.records.achieved import SOLVED_WORDS, Solved
from core.records.arm import ARM_TYPES, ArmType
from core.records.evidence import Outcome
from core.records.limits import MAX_LABEL_CHARS, one_of, shown, text
from core.records.observation import KINDS, Kind
from core.records.parameters import completed
from core.records.run import RUN_CLASSES, RunClass, Status
from core.records.times import DAY_MS, HOUR_MS

Span = Literal["all", "7 days", "30 days", "90 days", "dates"]
SPANS: Final[tuple[Span, ...]] = get_args(Span)
SPAN_DAYS: Final[Mapping[Span, int]] = {"7 days": 7, "30 days": 30, "90 days": 90}
Part = Literal["any", "in", "named", "out"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
Listed = Literal["observed", "conversational", "aborted", "error", "passive"]
OUTCOMES: Final[tuple[Listed, ...]] = get_args(Listed)
"""Verdicts of listed runs: empty ones are in no list."""
Names: TypeAlias = str | Sequence[str] | None
Since: TypeAlias = str | int | None
_EXAMPLE: Final = "2026-01-31 or 2026-01-31T08:00Z"


class RunQuery(TypedDict, total=False):
    """Filters of a list of runs; None = any. Of several values of one filter any may hold."""

    model: Annotated[Names, Meta(description="Only runs of this model, or of these.")]
    channel: Annotated[Names, Meta(description="Only runs of this channel, or of these.")]
    session: Annotated[str | None, Meta(description="Only runs of this session.")]
    class_: Annotated[
        RunClass | Sequence[RunClass] | None, Meta(description="Only runs of this class, or of these.")
    ]
    status: Annotated[Status | Sequence[Status] | None, Meta(description="Only runs that ended so.")]
    outcome: Annotated[Listed | Sequence[Listed] | None, Meta(description="Only runs with this verdict.")]
    achieved: Annotated[
        Solved | Sequence[Solved] | None,
        Meta(description="Only runs of this outcome: solved (above 0.9), unsolved or unknown."),
    ]
    arm: Annotated[str | None, Meta(description="Only runs with this arm, in the prompt or left out.")]
    part: Annotated[
        Part | None, Meta(description="The arm's part: in the prompt in full, by name, or left out.")
    ]
    span: Annotated[
        Span | None, Meta(description="Only runs of the days before the newest one, or of the dates named.")
    ]
    from_: Annotated[str | None, Meta(description="Only runs from this day or full hour on, UTC.")]
    to: Annotated[
        str | None, Meta(description="Only runs up to this day, inclusive, or before this full hour, UTC.")
    ]
    since: Annotated[
        Since, Meta(description="Only runs changed since, oldest change first: 0, a row's mark, or a head.")
    ]


class SessionQuery(TypedDict, total=False):
    """Filters of the list of sessions, by their runs; None = any."""

    model: Annotated[Names, Meta(description="Only runs of this model, or of these, count.")]
    channel: Annotated[Names, Meta(description="Only runs of this channel, or of these, count.")]
    span: Annotated[
        Span | None,
        Meta(description="Only runs of the days before the newest one, or of the dates named, count."),
    ]
    from_: Annotated[str | None, Meta(description="Only runs from this day or full hour on count, UTC.")]
    to: Annotated[
        str | None,
        Meta(description="Only runs up to this day, inclusive, or before this full hour count, UTC."),
    ]


class RunSide(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=lambda name: name.rstrip("_")
):
    """One side of a comparison: the filters of a list of runs with these names, or one run by uid or number.

    >>> side_of(RunSide(run="r1", model="large"))
    Traceback (most recent call last):
    core.errors.InvalidInput: A side must have a run or filters, got run 'r1' beside model. Leave one of them out.
    """

    run: str | None = None
    model: Names = None
    channel: Names = None
    session: str | None = None
    class_: RunClass | Sequence[RunClass] | None = None
    span: Span | None = None
    from_: str | None = None
    to: str | None = None

    @property
    def filters(self) -> dict[str, Any]:
        """The filters that are there, by their names in `RunQuery`."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "run"}


ALL_RUNS: Final = RunSide()


class Dates(TypedDict, total=False):
    """Filters of a list by time, and the position that it goes on from; None = any."""

    from_: Annotated[str | None, Meta(description="Only rows from this day or full hour on, UTC.")]
    to: Annotated[
        str | None, Meta(description="Only rows up to this day, inclusive, or before this full hour, UTC.")
    ]
    since: Annotated[
        Since, Meta(description="Only rows changed since, oldest change first: 0, a row's mark, or a head.")
    ]


class ArmQuery(TypedDict, total=False):
    """Filters of the lists of arms; None = any."""

    type: Annotated[
        ArmType | Sequence[ArmType] | None, Meta(description="Only arms of this type, or of these.")
    ]
    since: Annotated[
        Since,
        Meta(description="Only arms whose belief, prior or cost changed since: 0, a row's mark, or a head."),
    ]


class RewardQuery(Dates, total=False):
    """Filters of the ledger; those of runs are for rewards about a run."""

    arm: Annotated[str | None, Meta(description="Only rewards of this arm.")]
    run: Annotated[str | None, Meta(description="Only rewards about this run, by uid or number.")]
    kind: Annotated[Kind | Sequence[Kind] | None, Meta(description="Only rewards of this kind.")]
    model: Annotated[Names, Meta(description="Only rewards about runs of this model, or of these.")]
    channel: Annotated[Names, Meta(description="Only rewards about runs of this channel, or of these.")]
    session: Annotated[str | None, Meta(description="Only rewards about runs of this session.")]
    class_: Annotated[
        RunClass | Sequence[RunClass] | None, Meta(description="Only rewards about runs of this class.")
    ]
    status: Annotated[
        Status | Sequence[Status] | None, Meta(description="Only rewards about runs that ended so.")
    ]


class ChangeQuery(Dates, total=False):
    """Filters of the changes of a learner."""

    actor: Annotated[str | None, Meta(description="Only changes by this actor.")]
    action: Annotated[str | None, Meta(description="Only changes of this kind.")]


class ArmScope(NamedTuple):
    """Checked filters of a list of arms."""

    types: tuple[ArmType, ...]
    since: object


class RewardScope(NamedTuple):
    """Checked filters of the ledger: ``columns`` are the allowed values of a row's or its run's columns."""

    arm: str | None
    run: str | None
    columns: tuple[tuple[str, tuple[str, ...]], ...]
    since_ms: int | None
    until_ms: int | None


EVERY_REWARD: Final = RewardScope(None, None, (), None, None)


class RunScope(NamedTuple):
    """Checked filters of a list of runs."""

    filters: RunFilter
    view: View
    session: str | None
    since: object


def scope_of(query: Mapping[str, Any], newest_ms: Callable[[], int | None]) -> RunScope:
    """Return the checked filters of a query; ``newest_ms`` is the time that spans count back from.

    >>> scope_of({"model": "large", "from_": "1970-01-02"}, lambda: None).view
    View(since_ms=86400000, until_ms=None, models=('large',), channels=(), types=())
    """
    one = completed(RunQuery, query)
    if one["arm"] is None and one["part"] not in {None, "any"}:
        raise InvalidInput(
            f"part must come with an arm, got {shown(one['part'])} alone.", next_step="Name the arm, too."
        )
    filters = RunFilter(
        arm=None if one["arm"] is None else text("arm", one["arm"], MAX_LABEL_CHARS),
        part=None if _one("part", one["part"], PARTS) in {None, "any"} else one["part"],
        outcomes=_several("outcome", one["outcome"], OUTCOMES),
        classes=_several("class", one["class_"], RUN_CLASSES),
        statuses=_several("status", one["status"], STATUSES),
        achieved=_several("achieved", one["achieved"], SOLVED_WORDS),
    )
    since_ms, until_ms = _span(one["span"], one["from_"], one["to"], newest_ms)
    view = View(
        since_ms=since_ms,
        until_ms=until_ms,
        models=_several("model", one["model"]),
        channels=_several("channel", one["channel"]),
    )
    session = one["session"]
    return RunScope(
        filters, view, None if session is None else text("session", session, MAX_LABEL_CHARS), one["since"]
    )


def side_words() -> dict[str, str]:
    """Return the filters of a side by name, each with the words of the same filter of a list of runs."""
    hints = get_type_hints(RunQuery, include_extras=True)
    words = {name: meta.description or "" for name, hint in hints.items() for meta in get_args(hint)[1:]}
    own = {"run": "This one run, by uid or number, without filters."}
    return {name.rstrip("_"): (own | words)[name] for name in RunSide.__struct_fields__}


def side_of(side: RunSide, newest_ms: Callable[[], int | None] = lambda: None) -> RunScope:
    """Return the checked filters of a side; with a run it has none."""
    if side.run is not None and side.filters:
        raise InvalidInput(
            f"A side must have a run or filters, got run {shown(side.run)} beside"
            f" {', '.join(name.rstrip('_') for name in side.filters)}.",
            next_step="Leave one of them out.",
        )
    return scope_of(side.filters, newest_ms)


def arms_of(query: Mapping[str, Any], view: View) -> ArmScope:
    """Return the checked filters of a list of arms in a view."""
    one = completed(ArmQuery, query)
    if one["since"] is not None and view.until_ms is not None:
        raise InvalidInput(
            f"since must come without a view that ends, got until_ms {view.until_ms} beside it: beliefs of then"
            " no longer change.",
            next_step="Leave until_ms or since out.",
        )
    return ArmScope(_several("type", one["type"], ARM_TYPES) or view.types, one["since"])


def rewards_of(query: Mapping[str, Any]) -> RewardScope:
    """Return the checked filters of a query of the ledger."""
    one = completed(RewardQuery, query)
    chosen = (
        ("b.kind", _several("kind", one["kind"], KINDS)),
        ("r.model", _several("model", one["model"])),
        ("r.channel", _several("channel", one["channel"])),
        ("r.session", _several("session", one["session"])),
        ("r.class", _several("class", one["class_"], RUN_CLASSES)),
        ("r.status", _several("status", one["status"], STATUSES)),
    )
    arm, run = (
        None if one[name] is None else text(name, one[name], MAX_LABEL_CHARS) for name in ("arm", "run")
    )
    columns = tuple((column, values) for column, values in chosen if values)
    return RewardScope(arm, run, columns, *dates_of(query))


def dates_of(query: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the start and end of the times that a query names."""
    return _span(None, query.get("from_"), query.get("to"), lambda: None)


def _one(name: str, value: object, allowed: Sequence[str]) -> object:
    if value is not None:
        one_of(name, value, allowed)
    return value


def _several(name: str, value: object, allowed: Sequence[str] = ()) -> Any:  # noqa: ANN401 - names or literals
    values = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(values, Sequence):
        raise InvalidInput(
            f"{name} must be a name or a list of names, got {shown(value)}.", next_step="Write names as text."
        )
    for each in values:
        text(name, each, MAX_LABEL_CHARS)
        if allowed:
            one_of(name, each, allowed)
    return tuple(values)


def _span(
    span: Span | None, first: object, last: object, newest_ms: Callable[[], int | None]
) -> tuple[int | None, int | None]:
    """Return the start and the end of the runs' times, both at full hours."""
    _one("span", span, SPANS)
    if span not in {None, "dates"} and not (first is None and last is None):
        raise InvalidInput(
            f"from and to must come without a span, or with dates, got span {shown(span)} beside them.",
            next_step="Leave span out.",
        )
    if span is not None and span in SPAN_DAYS:
        return days_before(newest_ms(), SPAN_DAYS[span]), None
    since_ms = None if first is None else _at_ms("from", first, of_day=0)
    until_ms = None if last is None else _at_ms("to", last, of_day=DAY_MS)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise InvalidInput(
            f"from must be before to, got {shown(first)} and {shown(last)}.", next_step="Exchange them."
        )
    return since_ms, until_ms


def days_before(newest_ms: int | None, days: int) -> int | None:
    """Return the full hour so many days before a time; None without one."""
    return None if newest_ms is None else (newest_ms - days * DAY_MS) // HOUR_MS * HOUR_MS


def _at_ms(name: str, value: object, *, of_day: int) -> int:
    """Return the time of a bound, a text, `date` or `datetime`; a day has ``of_day`` milliseconds added."""
    moment = value
    if isinstance(value, str):
        try:
            moment = (date if len(value) <= len("2026-01-31") else datetime).fromisoformat(value)
        except ValueError:
            moment = None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        at_ms = round(moment.timestamp() * 1000)
        if at_ms >= 0 and at_ms % HOUR_MS == 0:
            return at_ms
    elif isinstance(moment, date) and moment.year >= 1970:
        return int(datetime(moment.year, moment.month, moment.day, tzinfo=UTC).timestamp()) * 1000 + of_day
    raise InvalidInput(
        f"{name} must be a day or a full hour such as {_EXAMPLE}, got {shown(value)}.",
        next_step="Lists go by full hours in UTC; round it.",
    )


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Time span and filters; empty = all. Times are UTC milliseconds, ``until_ms`` is "as of", exclusive.

    Models, channels and the start of the span choose runs. There is one posterior per arm, so beliefs heed
    only ``until_ms`` (by full hours) and ``types``.

    >>> View(types=("tool",)).until_ms is None
    True
    """

    since_ms: int | None = None
    until_ms: int | None = None
    models: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    types: tuple[ArmType, ...] = ()


EVERYTHING: Final = View()


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of the runs in a view, beside span, models and channels; empty = all.

    ``arm`` selects runs that had it in the prompt in full, by name or left out, or (None) any. ``achieved`` has words
    of outcomes.
    """

    arm: str | None = None
    part: Literal["in", "named", "out"] | None = None
    outcomes: tuple[Outcome, ...] = ()
    achieved: tuple[Solved, ...] = ()
    classes: tuple[RunClass, ...] = ()
    statuses: tuple[Status, ...] = ()
