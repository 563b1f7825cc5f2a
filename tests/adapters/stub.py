"""A server that answers as the APIs of OpenAI and Anthropic do: first a call of the first tool, then "done"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = self.path.rpartition("/")[2]
        answer = {"completions": chat, "responses": response, "messages": anthropic}[kind](body)
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def chat(body: Any) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if body["messages"][-1]["role"] != "tool":
        function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"q": "news"}'}
        call = {"id": "c1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "a1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None, "message": message}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }


def response(body: Any) -> Any:
    text = {"type": "output_text", "text": "done", "annotations": []}
    item: dict[str, Any] = {"type": "message", "id": "m1", "role": "assistant", "content": [text]}
    if body["input"][-1].get("type") != "function_call_output":
        name = body["tools"][0]["name"]
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name, "arguments": '{"q": "n"}'}
    return {
        "id": "r1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": body["model"],
        "output": [{**item, "status": "completed"}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 20,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 25,
        },
    }


def anthropic(body: Any) -> Any:
    block: dict[str, Any] = {"type": "text", "text": "done"}
    if isinstance(body["messages"][-1]["content"], str):
        block = {"type": "tool_use", "id": "t1", "name": body["tools"][0]["name"], "input": {"q": "news"}}
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 5},
    }
