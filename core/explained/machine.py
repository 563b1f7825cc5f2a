"""Tables of a machine and its database: items, edits, spools, files, learners, differences; its server in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.explained.table import Field, Table, count, minute, number, text, time_words
from core.records.status import ServerState
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows.bundle import PackedFile
    from core.flows.importing.spread import LearnerImport
    from core.flows.watch import AgentSessions
    from core.installed.prune import FixedItem, PrunedItem
    from core.records.inventory import CarriedItem
    from core.records.learner import LearnerSummary
    from core.records.rollout import RolloutRow, TraceRow
    from core.records.verification import Difference

_UNKNOWN: Final = "unknown"
_MB: Final = 1e6
_SMALL_BYTES: Final = 10_000_000
_LEVEL_S: Final = 0.05
"""Lag below which a standby counts as level."""

EDITS: Final[Table[PrunedItem]] = Table(
    agent=text("agent", lambda one: one.agent),
    kind=text("kind", lambda one: one.kind),
    name=text("name", lambda one: one.name),
    parts=count("parts", lambda one: one.parts),
    saves=count("tokens", lambda one: one.saves, _UNKNOWN),
)
FIXED: Final[Table[FixedItem]] = Table(
    agent=text("agent", lambda one: one.agent),
    kind=text("kind", lambda one: one.kind),
    name=text("name", lambda one: one.name),
    why=text("why", lambda one: one.why),
)
ROLLOUTS: Final[Table[RolloutRow]] = Table(
    rollout=text("rollout", lambda one: one.rollout),
    events=count("events", lambda one: one.events),
    last=text("last event", lambda one: one.last_at),
    why=text("why it is no episode", lambda one: one.said, "it has not started"),
)
TRACES: Final[Table[TraceRow]] = Table(
    trace=text("trace", lambda one: one.trace),
    session=text("session", lambda one: one.session),
    state=text("state", lambda one: one.state),
    spans=count("spans", lambda one: one.spans),
    last=text("last span", lambda one: one.last_at),
    run=text("run, or why there is none", lambda one: one.said or one.run),
)
PACKED: Final[Table[PackedFile]] = Table(
    name=text("file", lambda one: one.name),
    size_bytes=Field("bytes", lambda one: f"{one.size_bytes:,}"),
    sha256=text("SHA-256", lambda one: one.sha256),
)
DIFFERENCES: Final[Table[tuple[str, Difference]]] = Table(
    learner=text("learner", lambda one: one[0]),
    table=text("table", lambda one: one[1].table),
    key=text("key", lambda one: str(one[1].key)),
    stored=text("stored", lambda one: str(one[1].stored)),
    recomputed=text("recomputed", lambda one: str(one[1].recomputed)),
)
LEARNERS: Final[Table[LearnerSummary]] = Table(
    state=text("state", lambda one: one.state, width=140),
    name=text("learner", lambda one: one.name, width=220),
    alarms=text("alarms", lambda one: ", ".join(one.alarms), width=240),
    saved=number("saved %", lambda one: one.saved_percent, ".1f"),
    tokens_saved=count("tokens saved", lambda one: one.tokens_saved, width=110),
    runs=count("runs", lambda one: one.runs, width=84),
    arms=count("arms", lambda one: one.arms),
    last=Field(
        "last run", lambda one: "" if one.runs is None else one.last_run or "none dated", "time", width=130
    ),
)
IMPORTS: Final[Table[LearnerImport]] = Table(
    learner=text("learner", lambda one: one.learner),
    files=count("files", lambda one: one.files),
    runs=count("runs", lambda one: None if one.answer is None else one.answer.runs),
    duplicates=count("known", lambda one: None if one.answer is None else one.answer.duplicates),
    rejected=count("lines rejected", lambda one: None if one.answer is None else one.answer.rejected_count),
    act=text("act", lambda one: "not read" if one.answer is None else one.answer.id or "nothing new"),
)


def _last_use(one: CarriedItem) -> str:
    if one.use is None:
        return _UNKNOWN
    return "never" if one.use.last_ms is None else time_words(one.use.last_ms)


CARRIED: Final[Table[CarriedItem]] = Table(
    agent=text("agent", lambda one: one.item.agent),
    kind=text("kind", lambda one: one.item.kind),
    name=text("name", lambda one: one.item.name),
    state=text("state", lambda one: one.item.state),
    carried=count("tokens", lambda one: one.item.carried, _UNKNOWN),
    offered=count("on offer", lambda one: None if one.use is None else one.use.offered, _UNKNOWN),
    uses=count("used", lambda one: None if one.use is None else one.use.uses, _UNKNOWN),
    last=text("last use", _last_use),
    changed=minute("changed", lambda one: one.item.changed_ms or None),
    why=text("why", lambda one: one.why if one.proposal is None else f"propose {one.proposal}: {one.why}"),
)


def megabytes(n_bytes: int) -> str:
    """Return a size in megabytes.

    >>> megabytes(4_123_000), megabytes(16_000_000)
    ('4.1', '16')
    """
    return f"{n_bytes / _MB:,.1f}" if n_bytes < _SMALL_BYTES else f"{n_bytes / _MB:,.0f}"


SESSIONS: Final[Table[AgentSessions]] = Table(
    agent=text("agent", lambda one: one.agent),
    format=text("format", lambda one: one.format),
    files=count("files", lambda one: one.files),
    size=Field("MB", lambda one: megabytes(one.size_bytes), "number"),
    newest=text("newest", lambda one: (iso(one.newest_ms) or _UNKNOWN)[:16].replace("T", " ")),
    folder=text("folder", lambda one: one.folder),
)


def server(state: ServerState) -> str:
    """Return the role, mode, standbys and lag of a server.

    >>> server(ServerState(role="standby", lag_s=0.0)), server(ServerState(role="standby", lag_s=75.25))
    ('standby, level with the primary', 'standby, 75.2 s behind')
    >>> server(ServerState(role="primary", synchronous=True, standbys=2, lag_s=0.4))
    'primary, synchronous, 2 standbys, up to 0.4 s behind'
    >>> server(ServerState(role="primary", synchronous=False, standbys=0))
    'primary, no standby'
    """
    if state.role == "standby":
        return f"standby, {_lag(state.lag_s, 'level with the primary', '')}"
    if not state.standbys:
        alone = "synchronous, but no standby answers: acts wait" if state.synchronous else "no standby"
        return f"primary, {alone}"
    several = state.standbys > 1
    followers = f"{state.standbys} standby{'s' if several else ''}"
    lag = _lag(state.lag_s, "level", "up to " if several else "")
    return f"primary, {'synchronous' if state.synchronous else 'asynchronous'}, {followers}, {lag}"


def _lag(lag_s: float | None, level: str, up_to: str) -> str:
    if lag_s is None:
        return "delay unknown"
    return level if lag_s < _LEVEL_S else f"{up_to}{lag_s:,.1f} s behind"
