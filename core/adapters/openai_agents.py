"""Agents of the OpenAI Agents SDK: ``ArmscopeRunner(learner).run(agent, input)`` chooses tools and records runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Unpack
from weakref import finalize

from agents import Agent, FunctionTool, Handoff, RunConfig, RunHooks, Runner
from agents.models.interface import Model

from core.adapters.request import AnyLearner, Request, Requests
from core.doors.chunks import ENDS
from core.doors.protocol import RunOptions

_CURRENT: Final[ContextVar[_RunHooks | None]] = ContextVar("armscope_run", default=None)
_MARK: Final = "armscope_patched"
_PARAMETERS: Final = ("system_instructions", "input", "model_settings", "tools")
"""The first parameters of a model's methods."""


class ArmscopeRunner:
    """Runs agents as `agents.Runner` does. The session is that of the run, else its conversation or group.

    The choice is made where a model is sent a request of the first agent. So a tool stays known to its agent, and to
    every other agent and run. A streamed run is recorded when its events end.
    """

    def __init__(self, learner: AnyLearner, **options: Unpack[RunOptions]) -> None:
        self._requests = Requests(learner, options)

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        with self._current(starting_agent, input, options) as run:
            async with run.request:
                return await Runner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        with self._current(starting_agent, input, options) as run, run.request:
            return Runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        with self._current(starting_agent, input, options) as run:
            result: Any = Runner.run_streamed(starting_agent, input, **options)
        events, cancel = result.stream_events, result.cancel

        def cancelled(*arguments: Any, **how: Any) -> Any:
            run.is_cancelled = True
            return cancel(*arguments, **how)

        result.stream_events, result.cancel = lambda: run.ending_with(events(), result), cancelled
        finalize(result, _leave, run.request, asyncio.get_running_loop()).atexit = False
        return result

    @contextmanager
    def _current(self, agent: Agent[Any], input: Any, options: dict[str, Any]) -> Iterator[_RunHooks]:
        """Begin a run, with our hooks around those of the caller."""
        config = options.get("run_config") or RunConfig()
        named = config if isinstance(config, dict) else vars(config)
        session = getattr(options.get("session"), "session_id", None) or options.get("conversation_id")
        request = Request(self._requests, session=session or named.get("group_id"), only_known=False)
        run = options["hooks"] = _RunHooks(request, agent, input, named, options.get("hooks"))
        provider = named.get("model_provider") or RunConfig().model_provider
        _patch(provider, "get_model", _observing)
        is_dict = named is config
        options["run_config"] = {**named, "model_provider": provider} if is_dict else config
        token = _CURRENT.set(run)
        try:
            yield run
        finally:
            _CURRENT.reset(token)


class _RunHooks(RunHooks[Any]):
    """One run of an agent, as its hooks."""

    def __init__(
        self, request: Request, agent: Agent[Any], input: Any, config: dict[str, Any], hooks: Any
    ) -> None:
        self.request = request
        self.is_cancelled = False
        self._agent = agent
        self._input = input if isinstance(input, list) else [input]
        self._config, self._hooks = config, hooks or RunHooks()
        self._next: tuple[Any, Any] = (None, None)
        self._is_answered = False
        self._tools: list[Any] = []
        for name in {name for name in dir(RunHooks) if name.startswith("on_")} - {
            "on_llm_start",
            "on_llm_end",
        }:
            setattr(self, name, getattr(self._hooks, name))

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Note which agent asks next; a run within this one has hooks of its own."""
        self._next, self._is_answered = (agent, input_items), False
        for model in (self._config.get("model"), agent.model):
            if isinstance(model, Model):
                _observe(model)
        await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def prepared(self, values: dict[str, Any]) -> bool:
        """Change the arguments of a request to a model; return whether it is one of this run."""
        agent, input = self._next
        if values.get("input") is not input or agent is None:
            return False
        self._tools = list(values["tools"])
        is_first = agent is self._agent
        own = [
            one
            for one in self._tools
            if isinstance(one, FunctionTool) and any(one is tool for tool in agent.tools)
        ]
        if is_first or not self.request.has_begun:
            forced = str(values["model_settings"].tool_choice)
            chosen = await self.request.awaited_tools(own if is_first else [], always=(forced,))
        if is_first:
            others = [one for one in self._tools if not any(one is tool for tool in own)]
            values["tools"] = [*others, *chosen]
            texts = [values["system_instructions"] or "", self.request.guidance or ""]
            if texts[1] not in texts[0]:
                values["system_instructions"] = "\n\n".join(filter(None, texts))
        self.request.shows([one for one in values["tools"] if isinstance(one, FunctionTool)])
        return True

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.answered(response)
        await self._hooks.on_llm_end(context, agent, response)

    def answered(self, response: Any) -> None:
        """Read an answer of the model, also one that the SDK refuses; a handoff is no call of a tool."""
        if self._is_answered:
            return
        self._is_answered, agent = True, self._next[0]
        model = self._config.get("model") or agent.model
        name = model if isinstance(model, str) else getattr(model, "model", None)
        handoffs = [getattr(one, "tool_name", "") or Handoff.default_tool_name(one) for one in agent.handoffs]
        items = [item for item in response.output if getattr(item, "name", None) not in handoffs]
        self.request.read([*self._input, {"output": items, "usage": response.usage}], model=name)
        called = {getattr(item, "name", None) for item in items}
        for tool in self._tools:
            if isinstance(tool, FunctionTool) and tool.name in called and self.request.refusal(tool.name):
                _patch(tool, "on_invoke_tool", partial(_refusing, tool.name))

    async def ending_with(self, events: Any, result: Any) -> AsyncIterator[Any]:
        """Yield events, and record the run at their end."""
        async with self.request, aclosing(events):
            async for event in events:
                yield event
            if self.is_cancelled and result.final_output is None:
                await self.request.awaited_end(asyncio.CancelledError())


def _leave(request: Request, loop: asyncio.AbstractEventLoop) -> None:
    """Record a run whose events were never read; a collector of garbage may call it, so it only asks for that."""
    if not request.is_recorded:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: loop.create_task(request.awaited_end(GeneratorExit())))


def _patch(target: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    """Wrap a method of one object, once; an object that takes none is as before."""
    before = getattr(target, name)
    if not hasattr(before, _MARK):
        after = wrapped(before)
        setattr(after, _MARK, True)
        with suppress(AttributeError):
            setattr(target, name, after)


def _refusing(name: str, invoke: Any) -> Any:
    """Return a function of a tool that a run may refuse."""

    async def invoked(context: Any, arguments: str) -> Any:
        run = _CURRENT.get()
        refused = None if run is None else run.request.refusal(name)
        return await invoke(context, arguments) if refused is None else refused

    return invoked


def _observing(get_model: Any) -> Any:
    """Return ``get_model`` of a provider whose models are observed."""

    def observed(name: str | None) -> Any:
        model = get_model(name)
        _observe(model)
        return model

    return observed


def _observe(model: Any) -> None:
    """Let the run under way change what a model is sent; other runs are as before."""
    _patch(model, "get_response", _choosing)
    _patch(model, "stream_response", _choosing_streamed)


def _choosing(respond: Any) -> Any:
    async def get_response(*arguments: Any, **options: Any) -> Any:
        arguments, options, run = await _prepared(arguments, options)
        response = await respond(*arguments, **options)
        if run is not None:
            run.answered(response)
        return response

    return get_response


def _choosing_streamed(respond: Any) -> Any:
    async def stream_response(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        arguments, options, run = await _prepared(arguments, options)
        async with aclosing(respond(*arguments, **options)) as events:
            async for event in events:
                if run is not None and getattr(event, "type", None) in ENDS:
                    run.answered(event.response)
                yield event

    return stream_response


async def _prepared(arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any, _RunHooks | None]:
    """Return the arguments of a request as the run under way wants them, and that run if it is the one that asks."""
    if (run := _CURRENT.get()) is None:
        return arguments, options, None
    values = {**dict(zip(_PARAMETERS, arguments, strict=False)), **options}
    is_of_run = await run.prepared(values)
    n_placed = min(len(arguments), len(_PARAMETERS))
    placed = [values.pop(name) for name in _PARAMETERS[:n_placed]]
    return (*placed, *arguments[n_placed:]), values, run if is_of_run else None
