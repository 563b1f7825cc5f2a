"""Arm summary: an arm in one line, with its judgement."""

from __future__ import annotations

import msgspec

from core.records.arm import ArmType
from core.records.judgement import JudgementName, Listing
from core.records.posterior import BetaPair


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An arm in one line; ``token_cost`` None = unknown.

    ``n_named`` runs had it by name, and ``n_loaded`` of them found it: they are no inclusions and no pulls.
    """

    arm: str
    type: ArmType
    token_cost: int | None
    prior: BetaPair
    pulls: int
    inclusions: int
    n_named: int = 0
    n_loaded: int = 0


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
