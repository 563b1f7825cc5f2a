"""LangChain's agents and graphs of LangGraph, run by `test_frameworks` in environments of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from core import Learner
from core.adapters.langchain import ArmscopeMiddleware
from core.adapters.langgraph import ArmscopeTools
from tests.adapters.contract import CACHED, INPUT, MODEL, NAMES, OUTPUT, Contract, Shown, facts_of

USAGE = {
    "input_tokens": INPUT,
    "output_tokens": OUTPUT,
    "total_tokens": INPUT + OUTPUT,
    "input_token_details": {"cache_read": CACHED},
}


def tool_json(tool: Any) -> Any:
    """The definition that a provider gets."""
    return convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool


class ScriptedModel(BaseChatModel):
    """LangChain's own fake models can't be bound to tools."""

    shown: Any
    names: bool = False
    bound: list[Any] = []  # noqa: RUF012 - a field

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Without a word to callbacks; a bound model names its tools to them."""
        copied = self.model_copy(update={"bound": list(tools)})
        return copied.bind(tools=[tool_json(tool) for tool in tools]) if self.names else copied

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        question = str(next(one.content for one in reversed(messages) if one.type == "human"))
        names = [one.name if isinstance(one, BaseTool) else str(one.get("name")) for one in self.bound]
        system = str(messages[0].content) if messages[0].type == "system" else ""
        last = messages[-1]
        name = self.shown.step(question, names, system, has_result=last.type == "tool", result=last.content)
        calls = [] if name is None else [{"name": name, "args": {"q": "x"}, "id": "1"}]
        answer = AIMessage(
            content="done" if name is None else "",
            tool_calls=calls,
            usage_metadata=USAGE,
            response_metadata={"model_name": MODEL},
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def a_tool(shown: Shown, name: str) -> BaseTool:
    def run(q: str) -> str:
        return shown.run(name, q)

    async def arun(q: str) -> str:
        return shown.run(name, q)

    return StructuredTool.from_function(run, arun, name=name, description=f"The tool {name}")


def tools_of(shown: Shown) -> list[BaseTool]:
    return [a_tool(shown, name) for name in NAMES]


def in_thread(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def asked(question: str) -> Any:
    return {"messages": [("user", question)]}


def without(name: str) -> Any:
    """Middleware that takes a tool out of each request."""

    class Without(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tools=[tool for tool in request.tools if tool.name != name]))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(
                request.override(tools=[tool for tool in request.tools if tool.name != name])
            )

    return Without()


class Retry(AgentMiddleware[Any, Any]):
    """Middleware that asks once more, and looks at its own request afterwards."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        try:
            answer = handler(request)
        except KeyError:
            answer = handler(request.override(model=ScriptedModel(shown=request.model.shown)))
        return answer if request.model else None


class TestLangChain(Contract):
    @asynccontextmanager
    async def events(
        self, learner: Any, shown: Shown, question: str, **options: Any
    ) -> AsyncIterator[AsyncIterator[Any]]:
        ours = ArmscopeMiddleware(learner, **options)
        agent = create_agent(ScriptedModel(shown=shown), tools_of(shown), middleware=[ours])
        async with aclosing(agent.astream(asked(question))) as events:
            yield events

    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize("other", [without("write"), Retry()], ids=["without", "retry"])
    def test_any_order_of_middleware_records_what_was_received(
        self, learner: Learner, other: Any, *, is_first: bool
    ) -> None:
        shown, ours = Shown(), ArmscopeMiddleware(learner)
        middleware = [ours, other] if is_first else [other, ours]
        agent = create_agent(ScriptedModel(shown=shown), tools_of(shown), middleware=middleware)
        agent.invoke(asked("call read"))
        received = set(shown.tools[0])
        assert (received == set(NAMES)) == isinstance(other, Retry)
        story = learner.why(learner.runs()[0].uid)
        rewards = {one.arm.split(":")[2]: one.reward for one in story.arms}
        assert {name for name, reward in rewards.items() if reward is not None} == received
        assert "tool:other:write" not in {one.arm for one in story.arms if one.in_prompt} - received

    @pytest.mark.parametrize("is_first", [True, False])
    def test_an_answer_that_other_middleware_gives_shows_no_tool(
        self, learner: Learner, *, is_first: bool
    ) -> None:
        class Cached(AgentMiddleware[Any, Any]):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                return AIMessage("from a cache")

        shown, ours = Shown(), ArmscopeMiddleware(learner)
        middleware: list[Any] = [ours, Cached()] if is_first else [Cached(), ours]
        create_agent(ScriptedModel(shown=shown), tools_of(shown), middleware=middleware).invoke(asked("hi"))
        assert [(run.status, run.n_in) for run in facts_of(learner)] == [("completed", 0)]

    def test_a_sync_stream_is_aborted_wherever_it_is_left(self, learner: Learner) -> None:
        agent = create_agent(
            ScriptedModel(shown=Shown()), tools_of(Shown()), middleware=[ArmscopeMiddleware(learner)]
        )
        n_events = sum(1 for _ in agent.stream(asked("call read")))
        for n in range(1, n_events + 1):
            for at, _ in enumerate(agent.stream(asked("call read")), 1):
                if at == n:
                    break
        assert [run.status for run in facts_of(learner)] == ["completed"] + ["aborted"] * n_events

    async def ask(
        self, learner: Any, shown: Shown, questions: list[tuple[str, str]], **options: Any
    ) -> list[Any]:
        agent = create_agent(
            ScriptedModel(shown=shown),
            tools_of(shown),
            system_prompt="Be kind.",
            middleware=[ArmscopeMiddleware(learner, **options)],
            checkpointer=InMemorySaver(),
        )
        results = await asyncio.gather(
            *(agent.ainvoke(asked(question), in_thread(thread)) for question, thread in questions)
        )
        return [result["messages"][-1].content for result in results]

    def test_without_an_event_loop(self, learner: Learner) -> None:
        shown = Shown()
        agent = create_agent(
            ScriptedModel(shown=shown), tools_of(shown), middleware=[ArmscopeMiddleware(learner, k=3)]
        )
        result = agent.invoke(asked("hello"))
        assert len(shown.tools[0]) == 3
        assert learner.why(result["armscope_run"]).facts.status == "completed"
        with pytest.raises(KeyError, match="model"):
            agent.invoke(asked("fail"))
        agent = create_agent(
            ScriptedModel(shown=shown), tools_of(shown), middleware=[ArmscopeMiddleware(learner)]
        )
        with pytest.raises(ZeroDivisionError):
            agent.invoke(asked("call broken"))
        assert [run.status for run in facts_of(learner)] == ["completed", "error", "error"]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_request_goes_on_after_an_interrupt(self, learner: Learner, *, restarted: bool) -> None:
        """One run, also where another process goes on."""

        def confirm(q: str) -> str:
            """Ask a person."""
            return str(interrupt(q))

        kept, shown = InMemorySaver(), Shown()

        def agent() -> Any:
            tools = [StructuredTool.from_function(confirm), a_tool(shown, "read")]
            return create_agent(
                ScriptedModel(shown=shown), tools, middleware=[ArmscopeMiddleware(learner)], checkpointer=kept
            )

        first = agent()
        assert "__interrupt__" in first.invoke(asked("call confirm"), in_thread("t"))
        assert facts_of(learner) == []
        result = (agent() if restarted else first).invoke(Command(resume="yes"), in_thread("t"))
        assert result["messages"][-1].content == "done"
        (run,) = facts_of(learner)
        assert (run.status, run.calls, run.tokens, run.session) == ("completed", 1, 2 * (INPUT + OUTPUT), "t")
        first.invoke(asked("hello"), in_thread("t"))
        assert [(run.calls, run.tokens) for run in facts_of(learner)][1:] == [(0, INPUT + OUTPUT)]

    def test_a_providers_own_tool_stays(self, learner: Learner) -> None:
        shown = Shown()
        agent = create_agent(
            ScriptedModel(shown=shown),
            [*tools_of(shown), {"type": "web_search"}],
            middleware=[ArmscopeMiddleware(learner, k=1)],
        )
        agent.invoke(asked("hello"))
        assert len(shown.tools[0]) == 2
        assert shown.tools[0][-1] == "None"

    def test_a_structured_output_is_no_call(self, learner: Learner) -> None:
        class Search(BaseModel):
            """A city."""

            q: str

        shown = Shown()
        agent = create_agent(
            ScriptedModel(shown=shown),
            tools_of(shown),
            response_format=ToolStrategy(Search),
            middleware=[ArmscopeMiddleware(learner)],
        )
        result = agent.invoke(asked("call Search"))
        assert result["structured_response"] == Search(q="x")
        (run,) = facts_of(learner)
        assert run.calls == 0


class TestLangGraph(Contract):
    guides = False

    @asynccontextmanager
    async def events(
        self, learner: Any, shown: Shown, question: str, **options: Any
    ) -> AsyncIterator[AsyncIterator[Any]]:
        graph, _ = self.graph(learner, shown, **options)
        async with aclosing(graph.astream(asked(question), in_thread("t"))) as events:
            yield events

    @pytest.mark.parametrize("is_dynamic", [True, False])
    def test_what_a_node_binds_is_what_was_received(self, learner: Learner, *, is_dynamic: bool) -> None:
        """A tool less, or one more than were chosen."""
        shown = Shown()
        tools = tools_of(shown)
        ours = ArmscopeTools(learner, tools[:3] if is_dynamic else tools)
        model = ScriptedModel(shown=shown, names=True)

        def answer(state: Any) -> Any:
            chosen = [tool for tool in ours.chosen() if is_dynamic or tool.name != "broken"]
            bound = model.bind_tools([*chosen, *(tools[3:] if is_dynamic else [])])
            return {"messages": [bound.invoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", answer)
        builder.add_node("tools", ToolNode(tools))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        ours.watch(builder.compile()).invoke(asked("call read"))
        story = learner.why(learner.runs()[0].uid)
        observed = {one.arm.split(":")[2] for one in story.arms if one.reward is not None}
        assert observed == set(shown.tools[0]) == (set(NAMES) if is_dynamic else set(NAMES[:3]))

    async def ask(
        self, learner: Any, shown: Shown, questions: list[tuple[str, str]], **options: Any
    ) -> list[Any]:
        graph, _ = self.graph(learner, shown, **options)
        results = await asyncio.gather(
            *(graph.ainvoke(asked(question), in_thread(thread)) for question, thread in questions)
        )
        return [result["messages"][-1].content for result in results]

    def graph(self, learner: Any, shown: Shown, **options: Any) -> Any:
        model, tools = ScriptedModel(shown=shown), tools_of(shown)
        ours = ArmscopeTools(learner, tools, **options)

        def answer(state: Any) -> Any:
            system = ("system", "Be kind.")
            return {"messages": [model.bind_tools(ours.chosen()).invoke([system, *state["messages"]])]}

        async def aanswer(state: Any) -> Any:
            chosen = await ours.achosen()
            system = ("system", "Be kind.")
            return {"messages": [await model.bind_tools(chosen).ainvoke([system, *state["messages"]])]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", RunnableLambda(answer, aanswer))
        builder.add_node("tools", ToolNode(tools, handle_tool_errors=False))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        return ours.watch(builder.compile(checkpointer=InMemorySaver())), ours

    @pytest.mark.parametrize(
        ("question", "limit", "status"),
        [("call read", 9, "completed"), ("call read", 2, "error"), ("fail", 9, "error")],
    )
    def test_every_end_is_recorded(self, learner: Learner, question: str, limit: int, status: str) -> None:
        graph, ours = self.graph(learner, Shown())
        try:
            graph.invoke(asked(question), {**in_thread("t"), "recursion_limit": limit})
        except (GraphRecursionError, KeyError):
            assert status == "error"
        (run,) = facts_of(learner)
        assert run.status == status
        assert ours._steps == {}

    def test_a_stream_that_is_left_is_aborted(self, learner: Learner) -> None:
        graph, ours = self.graph(learner, Shown())
        for _ in graph.stream(asked("call read"), in_thread("t")):
            break
        assert ours._steps == {}
        assert [run.status for run in facts_of(learner)] == ["aborted"]

    def test_outside_a_watched_graph_all_tools_are_in(self, learner: Learner) -> None:
        _, ours = self.graph(learner, Shown(), k=1)
        assert len(ours.chosen()) == len(NAMES)
        assert ours.guidance() is None

    def test_tokens_of_a_model_in_a_tool_are_a_sub_agents(self, learner: Learner) -> None:
        shown = Shown()
        model = ScriptedModel(shown=shown)

        def sub(q: str) -> str:
            """Ask another model."""
            return str(model.invoke(q).content)

        tools = [StructuredTool.from_function(sub)]
        ours = ArmscopeTools(learner, tools)
        builder = StateGraph(MessagesState)
        builder.add_node(
            "model", lambda state: {"messages": [model.bind_tools(ours.chosen()).invoke(state["messages"])]}
        )
        builder.add_node("tools", ToolNode(tools))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        ours.watch(builder.compile()).invoke(asked("call sub"))
        (row,) = learner.runs()
        bill = learner.why(row.uid).facts.bill
        assert [(one.owner, one.tokens) for one in bill] == [
            ("agent", 2 * (INPUT + OUTPUT)),
            ("sub-agent", INPUT + OUTPUT),
        ]
        assert (row.tokens, row.n_calls) == (2 * (INPUT + OUTPUT), 1)
