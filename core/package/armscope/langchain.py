"""LangChain: `armscope help langchain` shows it."""

from core.adapters.langchain import ArmscopeMiddleware

__all__ = ["ArmscopeMiddleware"]
