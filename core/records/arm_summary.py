"""Arm summary: an arm in one line, with its judgement."""

from __future__ import annotations

import msgspec

from core.records.arm import ArmType, BetaPair, Interval
from core.records.judgement import JudgementName, Listing


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An arm in one line; ``token_cost`` None = unknown.

    ``n_named`` runs had it by name, and ``n_loaded`` of them found it: they are no inclusions and no pulls. In
    ``loaded_sessions`` sessions the agent loaded a skill, in ``typed_sessions`` a person typed it.
    """

    arm: str
    type: ArmType
    token_cost: int | None
    prior: BetaPair
    pulls: int
    inclusions: int
    n_named: int = 0
    n_loaded: int = 0
    loaded_sessions: int = 0
    typed_sessions: int = 0


class SkillUse(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a skill's use: sessions that loaded it, sessions where a person typed it, and its other names.

    ``by_text``: in some run its name in a text counted. ``spellings`` are skills with the same short name.
    """

    loaded_sessions: int = 0
    typed_sessions: int = 0
    by_text: bool = False
    spellings: tuple[str, ...] = ()


class ArmVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an arm's definition: when runs had it, and what they alone come to.

    ``runs`` had the arm in full, ``referenced`` of them used it, and ``named`` had it by name. ``mean`` and
    ``interval`` are the arm's prior with the ``pulls`` of these runs. Resets and rewards by people are left out.
    Times are those of the first and the last run in UTC milliseconds; None = no run has a time.
    """

    version: str
    first_ms: int | None
    last_ms: int | None
    runs: int
    named: int
    referenced: int
    pulls: int
    mean: float
    interval: Interval


class ArmVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of an arm's definition, the first one first; ``without`` counts runs without any on record."""

    arm: str
    versions: tuple[ArmVersion, ...]
    without: int


class JudgedArm(ArmSummary, frozen=True, kw_only=True):
    """An arm in one line, with its judgement and the mean at which it breaks even at its cost.

    ``effective_pulls`` are its pulls over the design effect of its sessions; None with fewer than 10 sessions.
    ``called_only``: its inventory was inferred from calls, so its mean is too high. ``mark`` is the position of its
    last change, from which a list with ``since`` goes on.
    """

    effective_pulls: float | None
    called_only: bool
    break_even: float | None
    judgement: JudgementName
    state: Listing = "listed"
    mark: str | None = None
