"""Server: the role of a database's server and its lag, in words."""

from __future__ import annotations

from typing import Final

from core.records.status import ServerState

_LEVEL_S: Final = 0.05
"""Lag below which a standby counts as level."""


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
