"""Agents of pydantic-ai: ``ArmscopeAgent(agent, learner)`` chooses the tools of each run and records it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final, Unpack, cast

import pydantic_ai
from pydantic_ai import RunContext
from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, WrapperToolset

from core.adapters.request import AnyLearner, Ending, Request, Requests
from core.doors.protocol import RunOptions

_HAS_CAPABILITIES: Final = "capabilities" in signature(WrapperAgent.iter).parameters
"""Older versions have none."""
_Capability: Any = pydantic_ai.capabilities.AbstractCapability if _HAS_CAPABILITIES else object

Thread = Callable[[RunContext[Any]], str | None]


class ArmscopeAgent(WrapperAgent[Any, Any]):
    """An agent that records each run, and offers the model only the chosen tools.

    ``thread`` returns the session of a run; the default is pydantic-ai's ``conversation_id``.
    """

    def __init__(
        self,
        wrapped: AbstractAgent[Any, Any],
        learner: AnyLearner,
        *,
        thread: Thread | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        super().__init__(wrapped)
        self._requests = Requests(learner, options)
        self._thread = thread

    @asynccontextmanager
    async def iter(self, user_prompt: Any = None, **options: Any) -> AsyncGenerator[Any]:
        """Iterate over a run, as `Agent.iter`; every other way to run an agent goes through it."""
        run = _RunUse(Request(self._requests), self._thread)
        async with Ending(run.request, last=True), AsyncExitStack() as stack:
            stack.callback(run.read)
            with self._choosing(run, options):
                running = await stack.enter_async_context(self.wrapped.iter(user_prompt, **options))
            yield running

    def _choosing(self, run: _RunUse, options: dict[str, Any]) -> AbstractContextManager[None]:
        """Put the toolset that chooses around all others."""
        if _HAS_CAPABILITIES:
            options["capabilities"] = [*(options.get("capabilities") or ()), _Choosing(run)]
            return nullcontext()
        toolsets = [*self.wrapped.toolsets, *(options.pop("toolsets", None) or ())]
        choosing = ArmscopeToolset(CombinedToolset(toolsets), run)
        return cast("AbstractContextManager[None]", self.wrapped.override(tools=[], toolsets=[choosing]))


class _RunUse:
    """One run of the agent."""

    def __init__(self, request: Request, thread: Thread | None) -> None:
        self.request = request
        self._thread = thread
        self._messages: list[Any] = []

    async def tools(self, tools: dict[str, Any], context: RunContext[Any]) -> dict[str, Any]:
        """Return the tools of the next step."""
        usual = getattr(context, "conversation_id", None)
        self.request.session = usual if self._thread is None else self._thread(context)
        self._messages = context.messages
        included = await self.request.awaited_tools([tool.tool_def for tool in tools.values()])
        return {one.name: tools[one.name] for one in included}

    def read(self) -> None:
        self.request.read(self._messages)


@dataclass
class ArmscopeToolset(WrapperToolset[Any]):
    """The chosen tools of a toolset."""

    run: _RunUse

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, Any]:
        return await self.run.tools(await super().get_tools(ctx), ctx)

    async def get_instructions(self, ctx: RunContext[Any]) -> Any:
        """Return the instructions of the toolset, with the text about left-out tools."""
        theirs = await super().get_instructions(ctx) or ()
        texts = theirs if isinstance(theirs, list | tuple) else [theirs]
        return [*texts, *filter(None, [self.run.request.guidance])] or None


class _Choosing(_Capability):
    """Capability of one run, in the versions that have them."""

    def __init__(self, run: _RunUse) -> None:
        self._run = run

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return ArmscopeToolset(toolset, self._run)
