"""LangGraph: `ArmscopeTools` chooses the tools for each run of a graph of your own, and records the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, Unpack
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from core.adapters.request import AnyLearner, Request, Requests, name_of
from core.doors.protocol import RunOptions
from core.records.limits import listed

_T = TypeVar("_T")


class _Step(NamedTuple):
    request: Request
    in_tool: bool = False
    is_outermost: bool = False


class ArmscopeTools(BaseCallbackHandler, Generic[_T]):
    """The tools of a graph. The session is LangGraph's ``thread_id``.

    A step belongs to the request of the step that started it. A model that a tool asks is a sub-agent: only its
    tokens count. A tool object answers by itself where a person excluded it, in a run of a watched graph only.
    """

    def __init__(self, learner: AnyLearner, tools: Iterable[_T], **options: Unpack[RunOptions]) -> None:
        self._requests = Requests(learner, options)
        self._tools = listed("tools", tools)
        self._steps: dict[UUID | None, _Step] = {}
        for tool in self._tools:
            if isinstance(tool, BaseTool):
                self._guard(tool)

    def watch(self, graph: Any) -> Any:
        """Return the graph with its runs recorded."""
        return graph.with_config(callbacks=[self])

    def chosen(self) -> list[_T]:
        """Return the tools of the request under way; all of them outside a watched graph."""
        request = self._here()
        return self._tools if request is None else request.tools(self._tools)

    async def achosen(self) -> list[_T]:
        """Return the tools, without keeping the event loop waiting."""
        request = self._here()
        return self._tools if request is None else await request.awaited_tools(self._tools)

    def guidance(self) -> str | None:
        """Return the text about left-out tools, for the system prompt."""
        request = self._here()
        return None if request is None else request.guidance

    def _guard(self, tool: BaseTool) -> None:
        """Let a tool refuse calls that the request under way does not offer."""
        invoke, ainvoke = tool.invoke, tool.ainvoke

        def guarded(call: Any, config: Any = None, **options: Any) -> Any:
            refused = self._refused(tool, call, config)
            return invoke(call, config, **options) if refused is None else refused

        async def aguarded(call: Any, config: Any = None, **options: Any) -> Any:
            refused = self._refused(tool, call, config)
            return await ainvoke(call, config, **options) if refused is None else refused

        object.__setattr__(tool, "invoke", guarded)
        object.__setattr__(tool, "ainvoke", aguarded)

    def _refused(self, tool: BaseTool, call: Any, config: Any) -> Any:
        request = self._here(config)
        if request is None or (answer := request.refusal(tool.name)) is None:
            return None
        is_call = isinstance(call, Mapping) and call.get("type") == "tool_call"
        return ToolMessage(answer, tool_call_id=call["id"], name=tool.name) if is_call else answer

    def _here(self, config: Any = None) -> Request | None:
        """Return the request of the step that runs here."""
        try:
            config = config or get_config()
        except RuntimeError:  # outside a graph
            return None
        step = self._steps.get(getattr(config.get("callbacks"), "parent_run_id", None))
        if step is not None:
            step.request.session = config.get("configurable", {}).get("thread_id")
        return None if step is None else step.request

    # Callbacks of LangChain

    def on_chain_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **_options: Any
    ) -> None:
        """Begin a step; the outermost one begins a request."""
        parent = self._steps.get(parent_run_id)
        self._steps[run_id] = (
            _Step(Request(self._requests), is_outermost=True)
            if parent is None
            else _Step(parent.request, parent.in_tool)
        )

    def on_tool_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **_options: Any
    ) -> None:
        if (parent := self._steps.get(parent_run_id)) is not None:
            self._steps[run_id] = _Step(parent.request, in_tool=True)

    def on_chat_model_start(
        self,
        _: Any,
        messages: Any,
        *,
        parent_run_id: UUID | None = None,
        invocation_params: Any = None,
        **_options: Any,
    ) -> None:
        """Note the tools of a model of the agent.

        A model that must call a tool may have one for its structured output, which is none of ours.
        """
        if (step := self._steps.get(parent_run_id)) is not None and not step.in_tool:
            step.request.read([one for one in messages[0] if one.type == "human"])
            params = invocation_params or {}
            is_free = params.get("tool_choice") in (None, "auto", {"type": "auto"})
            ours = {name_of(tool) for tool in self._tools}
            if (tools := params.get("tools")) is not None:
                step.request.shows([tool for tool in tools if is_free or name_of(tool) in ours])

    def on_llm_end(self, response: Any, *, parent_run_id: UUID | None = None, **_options: Any) -> None:
        if (step := self._steps.get(parent_run_id)) is not None:
            message = getattr(response.generations[0][0], "message", None)
            step.request.read(message, owner="sub-agent" if step.in_tool else "agent")

    def on_chain_end(self, *_: Any, run_id: UUID, **_options: Any) -> None:
        """End a step; the outermost one records the run."""
        self._end(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_options: Any) -> None:
        """End a step that failed; an interrupt is no failure."""
        self._end(run_id, None if isinstance(error, GraphBubbleUp) else error)

    def on_tool_end(self, *_: Any, run_id: UUID, **_options: Any) -> None:
        self._steps.pop(run_id, None)

    on_tool_error = on_tool_end

    def _end(self, run_id: UUID, problem: BaseException | None) -> None:
        step = self._steps.pop(run_id, None)
        if step is not None and step.is_outermost:
            step.request.end(problem)
            for left in [one for one, other in list(self._steps.items()) if other.request is step.request]:
                self._steps.pop(left, None)
