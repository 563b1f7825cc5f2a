"""Tools, skills and other components of an agent, as arms with their cost.

A cost is a quarter of the characters, rounded up, as OpenClaw counts. Characters are UTF-16 units. A tool counts
with its full definition as JavaScript writes it. `Learner.select` takes these arms as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from core.errors import InvalidArm
from core.records.arm import Arm, check_key, definition_version, file_key, quarter_up, skill_key, tool_key
from core.records.javascript import json_units, units

_WRAPPERS: Final = ("function", "toolSpec")
"""Keys that wrap a definition: OpenAI's chat completions, Bedrock's Converse."""
_SCHEMAS: Final = (
    *("tool_call_schema", "args_schema"),
    "parameters_json_schema",
    "params_json_schema",
    "input_schema",
    "inputSchema",
)
"""Members with the schema of the arguments: LangChain (as sent, else in full), pydantic-ai, OpenAI's agents, MCP."""


def tool_candidate(tool: object) -> Arm:
    """The arm of a tool, from its definition as the SDK at hand has it.

    Parameters
    ----------
    tool
        A definition read from JSON: flat (``{"name", "parameters" | "input_schema" | "inputSchema"}``, as OpenAI's
        responses, Anthropic and MCP have it) or wrapped (``{"type": "function", "function": {…}}``); or a tool as
        MCP, LangChain, pydantic-ai and OpenAI's agents make it; or a plain function.

    Raises
    ------
    InvalidArm
        It has no name, or its name can't be part of an arm's id.

    >>> tool_candidate({"name": "exec_cmd", "parameters": {"type": "object"}})
    Arm(key='tool:exec:exec_cmd', label=None, token_cost=13, content=None, prior=None, version='6d9724b982b05480')
    >>> tool_candidate({"type": "function", "function": {"name": "search"}}).key
    'tool:web:search'
    """
    definition = _definition(tool)
    try:
        n_units = json_units(definition)
        text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    except (AssertionError, TypeError, ValueError, RecursionError):
        raise InvalidArm(
            f"A tool's definition must be what JSON knows, got something else in that of {tool_name(tool)!r}.",
            next_step="Pass the definition as it is sent to the model.",
        ) from None
    return Arm(
        key=tool_key(tool_name(tool)), token_cost=quarter_up(n_units), version=definition_version(text)
    )


def tool_name(tool: object) -> str:
    """The name a tool is called by; raises `InvalidArm` where it has none.

    >>> tool_name({"type": "function", "function": {"name": "search"}})
    'search'
    """
    name = _definition(tool).get("name")
    if not isinstance(name, str):
        raise InvalidArm(
            f"A tool's name must be text, got {str(name)[:40]!r}.",
            next_step='Write the definition like {"name": "Read", "parameters": {...}}, or '
            '{"type": "function", "function": {"name": "Read", ...}}.',
        )
    return name


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


def memory_candidate(name: str, content: str, *, category: str = "fact") -> Arm:
    """The arm of a memory, which is recognised by its content; that is read for it and not stored.

    >>> memory_candidate("sla", "answer within four hours")
    Arm(key='memory:fact:sla', label=None, token_cost=6, content='answer within four hours', prior=None, version=None)
    """
    return Arm(
        key=check_key(f"memory:{category}:{name}"), token_cost=quarter_up(units(content)), content=content
    )


def section_candidate(name: str, content: str, *, category: str = "system") -> Arm:
    """The arm of a section of the prompt.

    >>> section_candidate("safety", "Never delete anything.").key
    'section:system:safety'
    """
    return Arm(key=check_key(f"section:{category}:{name}"), token_cost=quarter_up(units(content)))


def _definition(tool: object) -> Mapping[str, object]:
    """Return the part of a tool's definition that the model reads: name, description and arguments."""
    if isinstance(tool, Mapping):
        wrapped = (tool.get(name) for name in _WRAPPERS if "name" not in tool)
        return next((inner for inner in wrapped if isinstance(inner, Mapping)), tool)
    source = getattr(tool, "tool_def", tool)
    name = getattr(source, "name", None) or getattr(source, "__name__", None)
    about = getattr(source, "description", None) or getattr(source, "__doc__", None)
    schemas = (_schema(getattr(source, name, None)) for name in _SCHEMAS)
    definition = {
        "name": name,
        "description": about,
        "parameters": next((one for one in schemas if one), None),
    }
    return {part: value for part, value in definition.items() if value is not None}


def _schema(schema: object) -> Mapping[str, object] | None:
    """A JSON schema as it is, or the one that a model class writes."""
    if isinstance(schema, Mapping):
        return schema
    write = getattr(schema, "model_json_schema", None)
    written = write() if callable(write) else None
    return written if isinstance(written, Mapping) else None
