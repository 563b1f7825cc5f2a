"""LangChain: ``create_agent(…, middleware=[ArmscopeMiddleware(learner)])`` chooses its tools and records its runs."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, NotRequired, Unpack

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import OmitFromInput
from langchain_core.messages import SystemMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from core.adapters.request import AnyLearner, Ending, Request, Requests, name_of
from core.doors.protocol import RunOptions

_KEY: Final = "armscope_run"
_MOST: Final = 10_000  # a graph may stop where no middleware sees it


class _State(AgentState[Any]):
    """State of the graph: the uid of the request's run."""

    armscope_run: NotRequired[Annotated[str, OmitFromInput]]  # type: ignore[valid-type]


class ArmscopeMiddleware(AgentMiddleware[Any, Any]):
    """Middleware of `create_agent`. Put it first: then it sees what other middleware could not repair.

    The agent's result has the uid of its run as ``armscope_run``. The session is LangGraph's ``thread_id``.
    """

    state_schema = _State

    def __init__(self, learner: AnyLearner, **options: Unpack[RunOptions]) -> None:
        super().__init__()
        self.tools: list[Any] = []
        self._requests = Requests(learner, options)
        self._open: dict[str | None, Request] = {}

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002
        """Give the request a uid, which stays the same over an interrupt."""
        return {_KEY: str(uuid.uuid4())}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with the chosen tools."""
        ours, is_new = self._request(request.state)
        tools = ours.tools(request.tools, always=_forced(request))
        with Ending(ours, GraphBubbleUp):
            answer = handler(_with(request, tools, ours.guidance))
        ours.read([*(request.messages if is_new else ()), *_messages(answer)])
        return answer

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        ours, is_new = self._request(request.state)
        tools = await ours.awaited_tools(request.tools, always=_forced(request))
        async with Ending(ours, GraphBubbleUp):
            answer = await handler(_with(request, tools, ours.guidance))
        ours.read([*(request.messages if is_new else ()), *_messages(answer)])
        return answer

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call a tool; what it raises ends the request, unless it is an interrupt."""
        with Ending(self._request(request.state)[0], GraphBubbleUp):
            return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        async with Ending(self._request(request.state)[0], GraphBubbleUp):
            return await handler(request)

    def after_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002
        """Record the run."""
        self._request(state)[0].end()
        self._open.pop(state.get(_KEY), None)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002
        await self._request(state)[0].awaited_end()
        self._open.pop(state.get(_KEY), None)

    def _request(self, state: Any) -> tuple[Request, bool]:
        """Return the request of a graph's state, and whether it is new: also where it began in another process."""
        uid = state.get(_KEY) if isinstance(state, Mapping) else None
        if (ours := self._open.get(uid)) is not None:
            return ours, not ours.has_begun
        thread = get_config().get("configurable", {}).get("thread_id")
        ours = Request(self._requests, uid=uid, session=thread)
        if uid is not None:
            self._open[uid] = ours
            if len(self._open) > _MOST:
                self._open.pop(next(iter(self._open)), None)
        return ours, True


def _forced(request: Any) -> tuple[str, ...]:
    """Return the name of the tool that the model must call, if it must call one."""
    choice = request.tool_choice
    return (choice if isinstance(choice, str) else name_of(choice or {}),)


def _with(request: Any, tools: list[Any], guidance: str | None) -> Any:
    """Return a request with other tools, and with the guidance behind its system prompt."""
    if guidance is None:
        return request.override(tools=tools)
    if not hasattr(request, "system_message"):  # before langchain 1.1
        prompt = f"{request.system_prompt}\n\n{guidance}" if request.system_prompt else guidance
        return request.override(tools=tools, system_prompt=prompt)
    content = request.system_message.content if request.system_message else ""
    if isinstance(content, str):
        content = f"{content}\n\n{guidance}" if content else guidance
    else:
        content = [*content, {"type": "text", "text": guidance}]
    return request.override(tools=tools, system_message=SystemMessage(content=content))


def _messages(answer: Any) -> list[Any]:
    """Return the messages of an answer."""
    answer = getattr(answer, "model_response", answer)
    return list(getattr(answer, "result", [answer]))
