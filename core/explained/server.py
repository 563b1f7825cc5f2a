"""Server: the role of a database's server and its lag, in words."""

from __future__ import annotations

from typing import Final

from core.records.status import Standing

_LEVEL_S: Final = 0.05
"""Lag below which a standby counts as level."""


def server(standing: Standing) -> str:
    """Return the role, mode, standbys and lag of a server.
    >>> server(Standing(role="standby", lag_s=0.0)), server(Standing(role="standby", lag_s=75.25))
    ('standby, level with the primary', 'standby, 75.2 s behind')
    >>> server(Standing(role="primary", synchronous=True, standbys=2, lag_s=0.4))
    'primary, synchronous, 2 standbys, up to 0.4 s behind'
    >>> server(Standing(role="primary", synchronous=False, standbys=0))
    'primary, no standby'
    """
    if standing.role == "standby":
        return f"standby, {_lag(standing.lag_s, 'level with the primary', '')}"
    if not standing.standbys:
        alone = "synchronous, but no standby answers: acts wait" if standing.synchronous else "no standby"
        return f"primary, {alone}"
    several = standing.standbys > 1
    followers = f"{standing.standbys} standby{'s' if several else ''}"
    lag = _lag(standing.lag_s, "level", "up to " if several else "")
    return f"primary, {'synchronous' if standing.synchronous else 'asynchronous'}, {followers}, {lag}"


def _lag(lag_s: float | None, level: str, up_to: str) -> str:
    if lag_s is None:
        return "delay unknown"
    return level if lag_s < _LEVEL_S else f"{up_to}{lag_s:,.1f} s behind"
