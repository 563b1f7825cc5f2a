"""Candidate: what OpenClaw has at hand for a prompt → the arm it offers for selection, with what it costs.

Costs are a quarter of the characters, rounded up, counted as OpenClaw counts them: in UTF-16 units, a tool's
over its whole definition as JavaScript writes it. `Learner.select` takes the arms as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.errors import InvalidArm
from core.records.arm import Arm, file_key, quarter_up, skill_key, tool_key
from core.records.javascript import json_units, units


def tool_candidate(definition: Mapping[str, object]) -> Arm:
    """The arm of a tool, from its definition as read from JSON.

    >>> tool_candidate({"name": "exec_cmd", "parameters": {"type": "object"}})
    Arm(key='tool:exec:exec_cmd', label=None, token_cost=13, content=None, prior=None)
    """
    name = definition.get("name")
    if not isinstance(name, str):
        raise InvalidArm(
            f"A tool's name must be text, got {str(name)[:40]!a}.",
            next_step='Write the definition like {"name": "Read", "parameters": {...}}.',
        )
    return Arm(key=tool_key(name), token_cost=quarter_up(json_units(definition)))


def skill_candidate(name: str, prompt_units: int) -> Arm:
    """The arm of a skill, from the length of its prompt.

    >>> skill_candidate("coding", 5).token_cost
    2
    """
    return Arm(key=skill_key(name), token_cost=quarter_up(prompt_units))


def file_candidate(path: str, content: str) -> Arm:
    """The arm of a workspace file.

    >>> file_candidate("README.md", "🎯🎯🎯").token_cost
    2
    """
    return Arm(key=file_key(path), token_cost=quarter_up(units(content)))
