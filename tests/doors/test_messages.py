"""Messages and answers of every provider and framework: the same calls, texts and tokens from each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import Learner, open_learner
from core.doors.messages import parts_of, spent_of
from core.doors.running import RunUnderWay
from core.errors import InvalidInput
from core.records.bill import Spent
from tests.worlds import put_empty_database

ARGUMENTS = {"q": "cats"}
_STORED = st.characters(exclude_characters="\0", codec="utf-8")
"""Characters that are stored as they come."""
SEARCH = {"name": "search", "description": "Search the web", "input_schema": {"type": "object"}}

CHAT = {
    "model": "large-2026-01-31",
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "1",
                        "type": "function",
                        "function": {"name": "search", "arguments": json.dumps(ARGUMENTS)},
                    }
                ],
            }
        }
    ],
    "usage": {
        "prompt_tokens": 130,
        "completion_tokens": 7,
        "total_tokens": 137,
        "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 4},
    },
}
RESPONSE = {
    "model": "large-2026-01-31",
    "output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "1", "name": "search", "arguments": json.dumps(ARGUMENTS)},
    ],
    "usage": {
        "input_tokens": 130,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 137,
    },
}
ANTHROPIC = {
    "type": "message",
    "role": "assistant",
    "model": "large-2026-01-31",
    "content": [
        {"type": "thinking", "thinking": "Which one?"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "1", "name": "search", "input": ARGUMENTS},
    ],
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 7,
    },
}

MEMBERS = [
    *("role", "type", "kind", "content", "tool_calls", "function", "name", "parts", "output", "choices"),
    *("message", "usage", "text", "part_kind", "args", "input_tokens"),
]


@dataclass
class LangChainMessage:
    """As ``langchain_core.messages.AIMessage`` of Anthropic's model, which names a call twice."""

    type: str = "ai"
    content: Any = field(default_factory=lambda: ANTHROPIC["content"])
    tool_calls: list[Any] = field(default_factory=lambda: [{"name": "search", "args": ARGUMENTS, "id": "1"}])
    usage_metadata: Any = field(
        default_factory=lambda: {
            "input_tokens": 130,
            "output_tokens": 7,
            "total_tokens": 137,
            "input_token_details": {"cache_read": 100, "cache_creation": 20},
            "output_token_details": {"reasoning": 4},
        }
    )
    response_metadata: Any = field(default_factory=lambda: {"model_name": "large-2026-01-31"})


@dataclass
class PydanticPart:
    """As ``pydantic_ai.messages.TextPart`` and ``ToolCallPart``."""

    part_kind: str
    content: str | None = None
    tool_name: str | None = None
    args: object = None


@dataclass
class PydanticUsage:
    """As ``pydantic_ai.usage.RequestUsage``, whose input contains the cached tokens."""

    input_tokens: int = 130
    output_tokens: int = 7
    cache_read_tokens: int = 100
    cache_write_tokens: int = 20
    total_tokens: int = 137


@dataclass
class PydanticResponse:
    """As ``pydantic_ai.messages.ModelResponse``."""

    kind: str = "response"
    model_name: str = "large-2026-01-31"
    usage: PydanticUsage = field(default_factory=PydanticUsage)
    parts: list[PydanticPart] = field(
        default_factory=lambda: [
            PydanticPart("thinking", "Which one?"),
            PydanticPart("text", "Let me see."),
            PydanticPart("tool-call", tool_name="search", args=ARGUMENTS),
        ]
    )


@dataclass
class Plain:
    """An SDK's object: members instead of keys."""

    def __init__(self, **members: object) -> None:
        self.__dict__.update(members)


def as_objects(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        # The arguments of a call are a plain value in every SDK.
        return Plain(**{name: one if name == "input" else as_objects(one) for name, one in value.items()})
    return [as_objects(one) for one in value] if isinstance(value, list) else value


ANSWERS: dict[str, Any] = {
    "chat": CHAT,
    "response": RESPONSE,
    "anthropic": ANTHROPIC,
    "chat object": as_objects(CHAT),
    "response object": as_objects(RESPONSE),
    "anthropic object": as_objects(ANTHROPIC),
    "langchain": LangChainMessage(),
    "pydantic-ai": PydanticResponse(),
}


def a_run(**options: Any) -> RunUnderWay[str]:  # noqa: ANN401 - any option of a run
    return RunUnderWay[str](None, uid="r", begin=lambda _: None, end=lambda *_: (None, "recorded"), **options)  # type: ignore[arg-type,return-value]


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    put_empty_database(tmp_path / "a.db")
    return open_learner(tmp_path / "a.db", entropy=lambda: 1)


@pytest.mark.parametrize("shape", ANSWERS)
def test_an_answer_is_read_the_same_in_every_shape_and_counts_once(shape: str) -> None:
    run, answer = a_run(), ANSWERS[shape]
    run.from_messages(answer)
    assert [(call.name, json.loads(call.metadata)) for call in run.calls] == [("search", ARGUMENTS)]
    assert run.texts == ["Let me see."]
    (row,) = run.spent
    assert (row.input, row.cache_read, row.cache_write_5m + row.cache_write_1h, row.output) == (
        10,
        100,
        20,
        7,
    ), "disjoint, and what was thought is part of the output"
    assert row.model == "large-2026-01-31"
    assert run.usage is not None
    assert run.usage.tokens == 137
    # It counts once, also where it comes alone and then in the list of messages.
    run.from_messages([answer])
    run.from_messages([{"role": "user", "content": "And dogs?"}, answer])
    assert (len(run.calls), len(run.texts), len(run.spent)) == (1, 1, 1)


def test_only_the_last_turn_is_read() -> None:
    """A result of a tool is no text of the user, wherever a provider puts it."""
    old = {"role": "assistant", "content": "Cats.", "tool_calls": [{"function": {"name": "old"}}]}
    now = {"role": "assistant", "content": [{"type": "tool_use", "name": "search", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "content": "3 hits"}]}
    last = {"role": "assistant", "content": "Three."}
    run = a_run()
    run.from_messages(
        [{"role": "user", "content": "Hi"}, old, {"role": "user", "content": "Dogs?"}, now, result, last]
    )
    assert run.prompt == "Dogs?"
    assert [call.name for call in run.calls] == ["search"]
    assert run.texts == ["Three."]


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ({"type": "function_call", "name": "search", "arguments": "{}"}, "search"),
        ({"type": "custom_tool_call", "name": "patch", "input": "*** Begin"}, "patch"),
        ({"type": "mcp_call", "name": "read", "server_label": "files", "arguments": "{}"}, "read"),
        ({"type": "web_search_call", "id": "ws", "status": "completed"}, "web_search"),
        ({"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}}, "old"),
        (
            {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "c", "input": ""}}]},
            "c",
        ),
        ({"role": "assistant", "content": [{"type": "server_tool_use", "name": "web", "input": {}}]}, "web"),
    ],
)
def test_every_kind_of_call_is_one(item: object, name: str) -> None:
    assert [part.call.name for part in parts_of([item]) if part.call] == [name]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(MEMBERS) | st.text(max_size=3),
                inner
                | st.sampled_from(["assistant", "user", "ai", "response", "text", "tool_use", "x_call"]),
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_other_messages_are_passed_over(value: object) -> None:
    """The block that reads them is an agent's: only a bad count raises, and only on request."""
    refused: list[Exception] = []
    run = a_run(ignore=lambda _, problem: refused.append(problem))
    run.from_messages(value)
    assert all(isinstance(problem, InvalidInput) for problem in refused)


@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=5),
    st.lists(st.lists(st.text(_STORED), max_size=5), min_size=1, max_size=3),
    st.data(),
)
def test_any_split_of_a_stream_is_the_same_answer(
    texts: list[str], pieces: list[list[str]], data: st.DataObject
) -> None:
    """Chunks of chat completions, given one by one and in lists of any length; some servers count no calls."""

    def chunk(**delta: object) -> object:
        return {"id": "c", "object": "chat.completion.chunk", "choices": [{"delta": delta}]}

    chunks = [chunk(content=text) for text in texts]
    for identity, arguments in enumerate(pieces):
        begun = {"index": 0, "id": f"{identity}", "function": {"name": f"t{identity}", "arguments": ""}}
        more = [{"index": 0, "function": {"arguments": piece}} for piece in arguments]
        chunks += [chunk(tool_calls=[call]) for call in (begun, *more)]
    run = a_run()
    with run:
        n_alone = data.draw(st.integers(0, len(chunks)))
        for one in chunks[:n_alone]:
            run.from_messages(one)
        run.from_messages(chunks[n_alone:])
    assert [(call.name, call.metadata) for call in run.calls] == [
        (f"t{identity}", "".join(arguments)[:200]) for identity, arguments in enumerate(pieces)
    ]
    assert len(run.texts) == 1


class Foreign:
    """An object of no SDK that is read."""


def test_an_object_without_a_readable_call_is_counted_and_named() -> None:
    where: list[str] = []
    run = a_run(ignore=lambda place, _: where.append(place))
    run.from_messages([Foreign(), CHAT])
    run.from_messages(Foreign())
    run.from_messages(7)
    assert run.ignored == 3
    assert where == [f"run.from_messages ({name})" for name in ("Foreign", "Foreign", "int")]
    assert [call.name for call in run.calls] == ["search"]
    silent: list[object] = [
        *({"role": "system", "content": "Be kind."}, {"role": "assistant", "content": ""}),
        *({"type": "reasoning", "summary": []}, {"choices": []}, None),
    ]
    run.from_messages(silent)
    assert run.ignored == 3


# Usage


@pytest.mark.parametrize(
    ("usage", "row"),
    [
        ({"input_tokens": 9, "output_tokens": 1}, Spent(input=9, output=1)),
        (
            {
                "input_tokens": 9,
                "cache_creation_input_tokens": 50,
                "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
            },
            Spent(input=9, cache_write_5m=20, cache_write_1h=30),
        ),
        (
            {"input_tokens": 9, "cache_creation_input_tokens": 50},
            Spent(input=9, cache_write_5m=50, assumed=True),
        ),
        (
            {
                "input_tokens": 59,
                "output_tokens": 1,
                "input_token_details": {
                    "cache_creation": 0,
                    "ephemeral_5m_input_tokens": 20,
                    "ephemeral_1h_input_tokens": 30,
                },
            },
            Spent(input=9, output=1, cache_write_5m=20, cache_write_1h=30),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": None},
            },
            Spent(input=9, output=1, total=5),
        ),
        ({"total_tokens": 15}, Spent(total=15)),
    ],
)
def test_counts_are_disjoint(usage: dict[str, Any], row: Spent) -> None:
    for given_usage in (usage, as_objects(usage)):
        named, spent = spent_of(given_usage)
        assert spent == row
        assert named.tokens == (row.tokens + row.total or None)


@pytest.mark.parametrize("usage", [{}, {"tokens": 3}, object(), "5", 7])
def test_a_usage_without_tokens_is_refused_and_a_message_without_them_read(usage: object) -> None:
    run = a_run()
    for wrong in (usage, {"input_tokens": -1}):
        with pytest.raises(InvalidInput):
            run.used(wrong)
    run.from_messages({"role": "assistant", "content": "Hi", "usage": usage})
    assert (run.texts, run.usage) == (["Hi"], None)


@given(
    st.lists(
        st.tuples(st.sampled_from(["m", "n"]), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
        max_size=4,
    )
)
def test_the_usage_is_the_sum_of_the_bill(answers: list[tuple[str, int, int, int]]) -> None:
    run = a_run()
    for model, read, cached, output in answers:
        details = {"cached_tokens": cached}
        run.used(
            {"input_tokens": read + cached, "output_tokens": output, "input_tokens_details": details},
            model=model,
        )
    total = sum(row.tokens for row in run.spent)
    assert total == sum(read + cached + output for _, read, cached, output in answers)
    assert ((run.usage.tokens if run.usage else None) or 0) == total


# A run


def test_a_loop_is_recorded_with_the_tokens_of_each_model(learner: Learner) -> None:
    """The run is of the model that used most, and each pays its own price."""
    more = {**ANTHROPIC["usage"], "output_tokens": 8}  # type: ignore[dict-item]
    with learner:
        with learner.run([SEARCH], uid="r1") as run:
            run.from_messages(CHAT)
            run.from_messages({**ANTHROPIC, "model": "small", "usage": more, "content": "Done."})
        facts = learner.why("r1").facts
        assert (facts.model, facts.tokens, facts.n_calls, facts.cache_read_tokens) == ("small", 275, 1, 200)
        assert [(row.model, row.tokens) for row in facts.bill] == [("large-2026-01-31", 137), ("small", 138)]
        assert learner.verify().clean


def test_a_version_of_the_model_pays_its_price(learner: Learner) -> None:
    with learner:
        learner.change("prices", {"large": 1_000_000})
        with learner.run([SEARCH], uid="r1", model="large") as run:
            run.from_messages(CHAT)
        facts = learner.why("r1").facts
        assert (facts.model, facts.cost_pico is not None) == ("large", True)


def test_an_answer_that_is_none_leaves_the_run_alone(learner: Learner) -> None:
    with learner:
        with learner.run([SEARCH], uid="r1") as run:
            others: tuple[object, ...] = (
                None,
                "text",
                7,
                [],
                {},
                {"choices": []},
                {"role": "assistant", "usage": 3},
            )
            for answer in others:
                run.from_messages(answer)
        assert run.outcome == "recorded"
        assert learner.why("r1").facts.n_calls == 0
