"""LangChain: ``create_agent(…, middleware=[ArmscopeMiddleware(learner)])`` chooses its tools and records its runs."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Annotated, Any, Final, NotRequired, Unpack
from uuid import UUID

from langchain.agents import factory
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import OmitFromInput
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.tracers.context import register_configure_hook
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from core.adapters.request import AnyLearner, Request, Requests, name_of
from core.doors.protocol import RunOptions

_KEY: Final = "armscope_run"
_MOST: Final = 10_000  # a graph may stop where no middleware sees it

_STARTED: Final[ContextVar[list[Any] | None]] = ContextVar("armscope_started", default=None)


class _Graphs(BaseCallbackHandler):
    """Callbacks of all graphs, of which a middleware sees neither the end nor the start of a model."""

    def __init__(self) -> None:
        self._parents: dict[UUID | None, UUID | None] = {}
        self._ends: dict[UUID, Callable[[BaseException | None], None]] = {}

    def watch(self, config: Any, end: Callable[[BaseException | None], None]) -> bool:
        """Call ``end`` when the graph of a node ends, fails or is left; return False for an unknown graph."""
        node = getattr(config.get("callbacks"), "parent_run_id", None)
        if (graph := self._parents.get(node)) is None:
            return False
        self._ends[graph] = end
        return True

    def on_chain_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **_options: Any
    ) -> None:
        self._parents[run_id] = parent_run_id

    def on_chain_end(self, *_: Any, run_id: UUID, **_options: Any) -> None:
        if (end := self._forget(run_id)) is not None:
            end(None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_options: Any) -> None:
        """End the request of a graph that failed or was left; an interrupt is no failure."""
        end = self._forget(run_id)
        if end is not None and not isinstance(error, GraphBubbleUp):
            end(error)

    def on_chat_model_start(self, *_: Any, invocation_params: Any = None, **_options: Any) -> None:
        """Note the tools of a model that begins, as far as it names them."""
        if (started := _STARTED.get()) is not None:
            started.append((invocation_params or {}).get("tools"))

    def _forget(self, run_id: UUID) -> Callable[[BaseException | None], None] | None:
        self._parents.pop(run_id, None)
        return self._ends.pop(run_id, None)


_GRAPHS: Final = _Graphs()
_EVERYWHERE: Final[ContextVar[BaseCallbackHandler | None]] = ContextVar("armscope_graphs", default=_GRAPHS)
register_configure_hook(_EVERYWHERE, inheritable=True)


class _State(AgentState[Any]):
    """State of the graph: the uid of the request's run."""

    armscope_run: NotRequired[Annotated[str, OmitFromInput]]  # type: ignore[valid-type]


class _GraphRequest(Request):
    """A request of a graph. ``is_over``: all of its nodes ran. ``is_watched``: the end of its graph is reported."""

    is_over = False
    is_watched = False


class ArmscopeMiddleware(AgentMiddleware[Any, Any]):
    """Middleware of `create_agent`, at any place in its list.

    The agent's result has the uid of its run as ``armscope_run``. The session is LangGraph's ``thread_id``.
    """

    state_schema = _State

    def __init__(self, learner: AnyLearner, **options: Unpack[RunOptions]) -> None:
        super().__init__()
        self.tools: list[Any] = []
        self._requests = Requests(learner, options)
        self._open: dict[str | None, _GraphRequest] = {}

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002
        """Give the request a uid, which stays the same over an interrupt."""
        uid = str(uuid.uuid4())
        self._request({_KEY: uid})
        return {_KEY: uid}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with the chosen tools."""
        ours, is_new = self._request(request.state)
        ours.tools(request.tools, always=_forced(request))
        with _sending(request, ours, is_new=is_new) as last:
            answer = handler(last)
        ours.read(_messages(answer))
        return answer

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        ours, is_new = self._request(request.state)
        await ours.awaited_tools(request.tools, always=_forced(request))
        with _sending(request, ours, is_new=is_new) as last:
            answer = await handler(last)
        ours.read(_messages(answer))
        return answer

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call a tool, unless a person excluded it."""
        refused = self._refused(request)
        return handler(request) if refused is None else refused

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        refused = self._refused(request)
        return await handler(request) if refused is None else refused

    def after_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002
        """Let the end of the graph record the run: its caller may leave the last event."""
        ours, _ = self._request(state)
        ours.is_over = True
        if not ours.is_watched:
            ours.end()
            self._open.pop(state.get(_KEY), None)

    def _refused(self, request: Any) -> ToolMessage | None:
        call = request.tool_call
        answer = self._request(request.state)[0].refusal(call["name"])
        return None if answer is None else ToolMessage(answer, tool_call_id=call["id"], name=call["name"])

    def _request(self, state: Any) -> tuple[_GraphRequest, bool]:
        """Return the request of a graph's state, and whether it is new: also where it began in another process."""
        uid = state.get(_KEY) if isinstance(state, Mapping) else None
        ours = self._open.get(uid) or _GraphRequest(self._requests, uid=uid)

        def end(problem: BaseException | None) -> None:
            if problem is not None or ours.is_over:  # else it is interrupted
                self._open.pop(uid, None)
                ours.end(problem)

        config: Any = get_config()
        ours.is_watched = _GRAPHS.watch(config, end)
        if not ours.has_begun:
            ours.session = config.get("configurable", {}).get("thread_id")
        if uid is not None:
            self._open[uid] = ours
            if len(self._open) > _MOST:
                self._open.pop(next(iter(self._open)), None)
        return ours, not ours.has_begun


@contextmanager
def _sending(request: Any, ours: Request, *, is_new: bool) -> Iterator[Any]:
    """Give a request that notes its tools where LangChain takes its model, which is after all middleware."""
    if is_new:
        ours.read(request.messages)
    request = _with(request, ours.tools(request.tools, always=_forced(request)), ours.guidance)
    noted: list[Any] = []

    class Last(type(request)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name == "model" and sys._getframe(1).f_globals.get("__name__") == factory.__name__:
                noted.append(list(self.tools))
                ours.shows(noted[-1])
            return super().__getattribute__(name)

    last = copy(request)
    object.__setattr__(last, "__class__", Last)
    started: list[Any] = []
    token = _STARTED.set(started)
    try:
        yield last
    finally:
        _STARTED.reset(token)
        if not noted:  # other middleware gave the answer, or made a request of its own
            ours.shows([] if not started else request.tools if started[-1] is None else started[-1])


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
    answer = getattr(answer, "model_response", answer)
    return list(getattr(answer, "result", [answer]))
