"""Agents of pydantic-ai: ``ArmscopeAgent(agent, learner)`` chooses the tools of each run and records it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Final, Unpack, cast

import pydantic_ai
from pydantic_ai import RunContext
from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, WrapperToolset

from core.adapters.request import AnyLearner, Request, Requests
from core.doors.protocol import RunOptions

_HAS_CAPABILITIES: Final = "capabilities" in signature(WrapperAgent.iter).parameters
"""Older versions have none."""
_Capability: Any = pydantic_ai.capabilities.AbstractCapability if _HAS_CAPABILITIES else object

_WRAPS_MODELS: Final = hasattr(_Capability, "get_wrapper_model")

Thread = Callable[[RunContext[Any]], str | None]


@dataclass
class _Streamed:
    """A note whether a streamed answer was read to its end."""

    is_complete: bool = False


_STREAMED: Final[ContextVar[_Streamed | None]] = ContextVar("armscope_streamed", default=None)


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
        run, streamed = _RunUse(Request(self._requests), self._thread), _STREAMED.get() or _Streamed()
        async with run.request, AsyncExitStack() as stack:
            stack.callback(run.read)
            with self._choosing(run, options):
                running = await stack.enter_async_context(self.wrapped.iter(user_prompt, **options))
            try:
                yield running
            finally:
                if running.result is not None:  # what its caller does afterwards is not the run's
                    run.read()
                    await run.request.awaited_end()
            if running.result is None and not streamed.is_complete:  # its caller has left
                run.read()
                await run.request.awaited_end(GeneratorExit())

    @asynccontextmanager
    async def run_stream(self, user_prompt: Any = None, **options: Any) -> AsyncGenerator[Any]:
        """Run the agent with a streamed answer; one that is not read to its end is aborted."""
        streamed = _Streamed()
        token = _STREAMED.set(streamed)
        stack = AsyncExitStack()
        try:
            response = await stack.enter_async_context(super().run_stream(user_prompt, **options))
        finally:
            _STREAMED.reset(token)
        async with stack:
            yield response
            streamed.is_complete = response.is_complete

    def _choosing(self, run: _RunUse, options: dict[str, Any]) -> AbstractContextManager[None]:
        """Put the toolset that chooses around all others, and the model that sends them around the model."""
        if _HAS_CAPABILITIES:
            options["capabilities"] = [*(options.get("capabilities") or ()), _Choosing(run)]
            changes: dict[str, Any] = {}
        else:
            toolsets = [*self.wrapped.toolsets, *(options.pop("toolsets", None) or ())]
            changes = {"tools": [], "toolsets": [ArmscopeToolset(CombinedToolset(toolsets), run)]}
        if not _WRAPS_MODELS and (model := self._model(options)) is not None:
            changes["model"] = ArmscopeModel(model, run)
        return cast("AbstractContextManager[None]", self.wrapped.override(**changes))

    def _model(self, options: dict[str, Any]) -> Any:
        agent: Any = self.wrapped
        while isinstance(agent, WrapperAgent):
            agent = agent.wrapped
        overriding = agent._override_model.get()
        return (options.get("model") or agent.model) if overriding is None else overriding.value


class _RunUse:
    def __init__(self, request: Request, thread: Thread | None) -> None:
        self.request = request
        self._thread = thread
        self._messages: list[Any] = []

    async def begin(self, tools: dict[str, Any], context: RunContext[Any]) -> None:
        """Choose among the tools of the next step."""
        usual = getattr(context, "conversation_id", None)
        self.request.session = usual if self._thread is None else self._thread(context)
        self._messages = context.messages
        self.read()
        await self.request.awaited_tools([tool.tool_def for tool in tools.values()])

    def send(self, parameters: Any) -> Any:
        """Return the parameters of a request with the chosen tools, which are noted."""
        tools = self.request.tools(parameters.function_tools)
        self.request.shows(tools)
        return replace(parameters, function_tools=tools)

    def read(self) -> None:
        self.request.read(self._messages)


class ArmscopeModel(WrapperModel):
    """A model that is sent the chosen tools only."""

    def __init__(self, wrapped: Any, run: _RunUse) -> None:
        super().__init__(wrapped)
        self._run = run

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> Any:
        return await super().request(messages, model_settings, self._run.send(model_request_parameters))

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, *context: Any, **options: Any
    ) -> AsyncGenerator[Any]:
        changed = self._run.send(model_request_parameters)
        async with super().request_stream(messages, model_settings, changed, *context, **options) as response:
            yield response


@dataclass
class ArmscopeToolset(WrapperToolset[Any]):
    """The tools of a toolset, all of which may be called but those that a person excluded."""

    run: _RunUse

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, Any]:
        tools: dict[str, Any] = await super().get_tools(ctx)
        await self.run.begin(tools, ctx)
        return tools

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        refused = self.run.request.refusal(name)
        return await super().call_tool(name, tool_args, ctx, tool) if refused is None else refused

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

    def get_wrapper_model(self, model: Any) -> ArmscopeModel:
        return ArmscopeModel(model, self._run)
