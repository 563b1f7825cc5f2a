"""LangGraph: `armscope help langgraph` shows it."""

from core.adapters.langgraph import ArmscopeTools

__all__ = ["ArmscopeTools"]
