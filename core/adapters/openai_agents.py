"""Agents of the OpenAI Agents SDK: ``ArmscopeRunner(learner).run(agent, input)`` chooses tools and records runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Final, NamedTuple, Unpack

from agents import Agent, FunctionTool, Handoff, RunConfig, RunHooks, Runner

from core.adapters.request import AnyLearner, Ending, Request, Requests
from core.doors.protocol import RunOptions

_CURRENT: Final[ContextVar[_RunHooks | None]] = ContextVar("armscope_run", default=None)


class ArmscopeRunner:
    """Runs agents as `agents.Runner` does. The session is that of the run, else its conversation or group.

    A tool gets an ``is_enabled`` that asks the run under way. Other runs are as before. A streamed run is recorded
    when its events end.
    """

    def __init__(self, learner: AnyLearner, **options: Unpack[RunOptions]) -> None:
        self._requests = Requests(learner, options)

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        with self._current(starting_agent, input, options) as run:
            async with Ending(run.request, last=True):
                return await Runner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        with self._current(starting_agent, input, options) as run, Ending(run.request, last=True):
            return Runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        with self._current(starting_agent, input, options) as run:
            result: Any = Runner.run_streamed(starting_agent, input, **options)
        events = result.stream_events
        result.stream_events = lambda: run.request.ending_with(events())
        return result

    @contextmanager
    def _current(self, agent: Agent[Any], input: Any, options: dict[str, Any]) -> Iterator[_RunHooks]:
        """Begin a run, with our hooks and filter around those of the caller."""
        config = options.get("run_config") or RunConfig()
        named = config if isinstance(config, dict) else vars(config)
        session = getattr(options.get("session"), "session_id", None) or options.get("conversation_id")
        request = Request(self._requests, session=session or named.get("group_id"), only_known=False)
        run = options["hooks"] = _RunHooks(request, input, named, options.get("hooks"))
        changed: dict[str, Any] = {"call_model_input_filter": run.filter}
        options["run_config"] = {**named, **changed} if named is config else replace(config, **changed)
        for tool in agent.tools:
            if isinstance(tool, FunctionTool) and not isinstance(tool.is_enabled, _Enabled):
                tool.is_enabled = _Enabled(tool, tool.is_enabled)
        token = _CURRENT.set(run)
        try:
            yield run
        finally:
            _CURRENT.reset(token)


class _Enabled(NamedTuple):
    """``is_enabled`` of a tool, and what it was before."""

    tool: FunctionTool
    before: Any

    async def __call__(self, context: Any, agent: Any) -> bool:
        is_enabled, run = bool(await _value(self.before, context, agent)), _CURRENT.get()
        return is_enabled and (run is None or await run.has(self.tool, context, agent))


class _RunHooks(RunHooks[Any]):
    """One run of an agent, as its hooks."""

    def __init__(self, request: Request, input: Any, config: dict[str, Any], hooks: Any) -> None:
        self.request = request
        self._input = input if isinstance(input, list) else [input]
        self._config, self._hooks = config, hooks or RunHooks()
        self._lock = asyncio.Lock()
        for name in {name for name in dir(RunHooks) if name.startswith("on_")} - {"on_llm_end"}:
            setattr(self, name, getattr(self._hooks, name))

    async def has(self, tool: FunctionTool, context: Any, agent: Any) -> bool:
        """Return whether a tool is in the prompt; the first question selects among all of the agent."""
        async with self._lock:
            if not self.request.has_begun:
                ours = [one for one in agent.tools if isinstance(getattr(one, "is_enabled", None), _Enabled)]
                enabled = [one for one in ours if await _value(one.is_enabled.before, context, agent)]
                await self.request.awaited_tools(enabled)
        return bool(self.request.tools([tool], always=(str(agent.model_settings.tool_choice),)))

    async def filter(self, data: Any) -> Any:
        """Return the input of the model, with the text about left-out tools."""
        if not self.request.has_begun:  # an agent without tools
            await self.request.awaited_tools([])
        theirs = self._config.get("call_model_input_filter")
        prepared = data.model_data if theirs is None else await _value(theirs, data)
        if (guidance := self.request.guidance) is None:
            return prepared
        return replace(prepared, instructions="\n\n".join(filter(None, (prepared.instructions, guidance))))

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Read an answer of the model; a handoff is no call of a tool."""
        model = self._config.get("model") or agent.model
        name = model if isinstance(model, str) else getattr(model, "model", None)
        handoffs = [getattr(one, "tool_name", "") or Handoff.default_tool_name(one) for one in agent.handoffs]
        items = [item for item in response.output if getattr(item, "name", None) not in handoffs]
        self.request.read([*self._input, {"output": items, "usage": response.usage}], model=name)
        await self._hooks.on_llm_end(context, agent, response)


async def _value(source: Any, *arguments: Any) -> Any:
    value = source(*arguments) if callable(source) else source
    return await value if isawaitable(value) else value
