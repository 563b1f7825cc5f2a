"""Streamed answers of SDKs as their objects, in own environments: "Let me see.", then ``search``; 25 tokens."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from core.doors.running import RunUnderWay

TEXTS = ("Let me ", "see.")
PIECES = ('{"q": ', '"news"}')


def chat_chunks(kind: Any) -> list[Any]:
    """Chunks of a chat completion."""

    def chunk(delta: Any, end: str | None = None, usage: Any = None) -> Any:
        choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": end}]
        about = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "large"}
        return kind(**about, choices=choices, usage=usage)

    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "search", "arguments": PIECES[0]}}
    more = {"index": 0, "function": {"arguments": PIECES[1]}}
    used = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    return [
        *(chunk({"content": text}) for text in TEXTS),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [more]}),
        chunk({}, "tool_calls"),
        chunk(None, None, used),
    ]


def openai() -> list[Any]:
    kind = import_module("openai.types.chat").ChatCompletionChunk
    return chat_chunks(lambda **values: kind.model_validate(values))


def litellm() -> list[Any]:
    return chat_chunks(import_module("litellm").ModelResponseStream)


def responses() -> list[Any]:
    module = import_module("openai.types.responses")
    call = {"type": "function_call", "call_id": "1", "name": "search", "id": "f", "status": "completed"}
    text = {"type": "output_text", "text": "".join(TEXTS), "annotations": [], "logprobs": []}
    items = [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]},
        {**call, "arguments": "".join(PIECES)},
    ]
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25, **details}
    whole = {
        **{"id": "r", "object": "response", "created_at": 0, "model": "large", "output": items},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
        "usage": {**usage, "output_tokens_details": {"reasoning_tokens": 0}},
    }
    events = [
        module.ResponseOutputItemDoneEvent.model_validate(
            {"type": "response.output_item.done", "output_index": at, "item": item, "sequence_number": at}
        )
        for at, item in enumerate(items)
    ]
    end = {"type": "response.completed", "response": whole, "sequence_number": 2}
    return [*events, module.ResponseCompletedEvent.model_validate(end)]


def anthropic() -> list[Any]:
    types = import_module("anthropic.types")
    message = {
        **{"id": "m", "type": "message", "role": "assistant", "model": "large", "content": []},
        **{"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 1}},
    }
    start, delta = types.RawContentBlockStartEvent, types.RawContentBlockDeltaEvent

    def piece(at: int, **values: Any) -> Any:
        return delta.model_validate({"type": "content_block_delta", "index": at, "delta": values})

    def block(at: int, **values: Any) -> Any:
        return start.model_validate({"type": "content_block_start", "index": at, "content_block": values})

    end = {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 5}}
    return [
        types.RawMessageStartEvent.model_validate({"type": "message_start", "message": message}),
        block(0, type="text", text=""),
        *(piece(0, type="text_delta", text=text) for text in TEXTS),
        block(1, type="tool_use", id="1", name="search", input={}),
        *(piece(1, type="input_json_delta", partial_json=one) for one in PIECES),
        types.RawMessageDeltaEvent.model_validate({"type": "message_delta", **end}),
        types.RawMessageStopEvent.model_validate({"type": "message_stop"}),
    ]


def langchain() -> list[Any]:
    chunk = import_module("langchain_core.messages").AIMessageChunk
    about = {"id": "run-1", "response_metadata": {"model_name": "large"}}
    calls = [
        {"name": name, "args": piece, "id": identity, "index": 0}
        for name, piece, identity in (("search", PIECES[0], "1"), (None, PIECES[1], None))
    ]
    usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
    return [
        *(chunk(content=text, id="run-1") for text in TEXTS),
        *(chunk(content="", tool_call_chunks=[call], id="run-1") for call in calls),
        chunk(content="", usage_metadata=usage, **about),
    ]


def google() -> list[Any]:
    kind = import_module("google.genai.types").GenerateContentResponse
    parts = [
        {"text": TEXTS[0]},
        {"text": TEXTS[1]},
        {"function_call": {"name": "search", "args": {"q": "news"}}},
    ]
    usage = {"prompt_token_count": 20, "total_token_count": 25}
    identity = {"response_id": "g"} if "response_id" in kind.model_fields else {}
    return [
        kind.model_validate(
            {
                **identity,
                "model_version": "large",
                "candidates": [
                    {"content": {"role": "model", "parts": [part]}, "finish_reason": end},
                ],
                "usage_metadata": usage | {"candidates_token_count": 2 if end is None else 5},
            }
        )
        for part, end in zip(parts, (None, None, "STOP"), strict=True)
    ]


def adk() -> list[Any]:
    kind = import_module("google.adk.events").Event
    whole = [
        {"text": "".join(TEXTS)},
        {"function_call": {"name": "search", "args": {"q": "news"}, "id": "1"}},
    ]
    used = {"prompt_token_count": 20, "candidates_token_count": 5, "total_token_count": 25}
    partial = {"content": {"role": "model", "parts": [{"text": TEXTS[0]}]}, "partial": True}
    content = {"content": {"role": "model", "parts": whole}, "model_version": "large", "usage_metadata": used}
    return [kind(author="agent", **partial), kind(author="agent", **content)]


def claude() -> list[Any]:
    sdk = import_module("claude_agent_sdk")
    call = sdk.ToolUseBlock(id="1", name="search", input={"q": "news"})
    usage = {"usage": {"input_tokens": 20, "output_tokens": 5}, "model_usage": {"large": {}}}
    facts = {"duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1, "session_id": "s"}
    inner = sdk.ToolUseBlock(id="2", name="inner", input={})
    return [
        sdk.SystemMessage(subtype="init", data={}),
        sdk.AssistantMessage(content=[sdk.TextBlock(text="".join(TEXTS)), call], model="large"),
        sdk.AssistantMessage(content=[inner], model="small", parent_tool_use_id="1"),
        sdk.ResultMessage(subtype="success", **facts, **usage),
    ]


def pydantic_ai() -> list[Any]:
    m = import_module("pydantic_ai.messages")
    call = m.ToolCallPart("search", "".join(PIECES), "1")
    return [
        m.PartStartEvent(index=0, part=m.TextPart(TEXTS[0])),
        m.PartDeltaEvent(index=0, delta=m.TextPartDelta(content_delta=TEXTS[1])),
        m.PartStartEvent(index=1, part=m.ToolCallPart("search", PIECES[0], "1")),
        m.PartDeltaEvent(index=1, delta=m.ToolCallPartDelta(args_delta=PIECES[1], tool_call_id="1")),
        m.FunctionToolCallEvent(call),
    ]


PACKAGES = {
    openai: "openai",
    responses: "openai",
    anthropic: "anthropic",
    litellm: "litellm",
    langchain: "langchain_core",
    google: "google.genai",
    adk: "google.adk",
    claude: "claude_agent_sdk",
    pydantic_ai: "pydantic_ai",
}


def installed() -> list[Callable[[], list[Any]]]:
    """The SDKs of this environment."""
    here = []
    for sdk, package in PACKAGES.items():
        try:
            import_module(package)
        except ImportError:
            continue
        here.append(sdk)
    return here


def a_run() -> RunUnderWay[str]:
    run = RunUnderWay[str](None, uid="r", begin=lambda _: None, end=lambda *_: (None, "recorded"))  # type: ignore[arg-type,return-value]
    run._on_bad = lambda *_: None
    return run


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("sdk", installed(), ids=lambda sdk: str(sdk.__name__))
def test_a_stream_is_one_answer(sdk: Callable[[], list[Any]], *, one_by_one: bool) -> None:
    run, chunks = a_run(), sdk()
    with run:
        for chunk in chunks if one_by_one else [chunks]:
            run.from_messages(chunk)
        run.from_messages(chunks)  # a chunk counts once
    assert [(call.name, "news" in call.metadata) for call in run.calls] == [("search", True)]
    assert run.texts == ["".join(TEXTS)]
    assert run.ignored == 0
    if sdk is not pydantic_ai:  # its events have no usage
        assert run.usage is not None
        assert (run.usage.tokens, [row.model for row in run.spent]) == (25, ["large"])


@pytest.mark.parametrize("sdk", installed(), ids=lambda sdk: str(sdk.__name__))
def test_a_stream_that_is_left_has_what_came(sdk: Callable[[], list[Any]]) -> None:
    """A call that began is one, wherever its caller leaves; nothing counts twice."""
    n_calls = []
    for n in range(len(sdk()) + 1):
        run = a_run()
        with run:
            for chunk in sdk()[:n]:
                run.from_messages(chunk)
        n_calls.append(len(run.calls))
        assert len(run.texts) <= 1
        assert run.ignored == 0
    assert n_calls == sorted(n_calls)
    assert (n_calls[0], n_calls[-1], set(n_calls)) == (0, 1, {0, 1})


def test_a_message_that_repeats_a_stream_counts_once() -> None:
    for sdk in set(installed()) & {openai, litellm, langchain}:
        run, chunks = a_run(), sdk()
        with run:
            for chunk in chunks:
                run.from_messages(chunk)
            call = {"id": "1", "function": {"name": "search", "arguments": "".join(PIECES)}}
            again: Any = {"role": "assistant", "content": "".join(TEXTS), "tool_calls": [call]}
            if sdk is langchain:
                again = chunks[0]
                for chunk in chunks[1:]:
                    again = again + chunk
            run.from_messages([again])
        assert (len(run.calls), len(run.texts), len(run.spent)) == (1, 1, 1)
