"""Evaluations of an arm: in runs, and of runs as a whole that credit it, each with its way back."""

from __future__ import annotations

from core.records.evaluation_page import EvaluationFilter
from dashboard import queries
from dashboard.widgets.evaluation_table import listed


def of_arm(arm: str) -> None:
    """Show the evaluations of the arm, latest first; nothing without any."""
    of_this_arm = EvaluationFilter(arm=arm, counting=False)
    if queries.evaluations(of_this_arm).rows:
        listed(of_this_arm, name="arm_evaluations", nothing="")
