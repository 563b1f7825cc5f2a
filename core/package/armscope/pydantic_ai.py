"""Agents of pydantic-ai: `armscope help pydantic-ai` shows it."""

from core.adapters.pydantic_ai import ArmscopeAgent

__all__ = ["ArmscopeAgent"]
