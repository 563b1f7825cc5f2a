"""Runner for the OpenAI Agents SDK: `armscope help openai-agents` shows it."""

from core.adapters.openai_agents import ArmscopeRunner

__all__ = ["ArmscopeRunner"]
