"""Answers of the SDKs of OpenAI and Anthropic as objects, run by `test_frameworks` in environments of their own."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from core.doors.messages import parts_of, spent_of
from tests.adapters.stub import anthropic, chat, response

TOOL = {"name": "search"}
ANSWERS: dict[Any, tuple[Any, dict[str, Any]]] = {
    ChatCompletion: (chat, {"messages": [{"role": "user"}], "tools": [{"function": TOOL}]}),
    Response: (response, {"input": [{"role": "user"}], "tools": [TOOL]}),
    Message: (anthropic, {"messages": [{"content": "Hi"}], "tools": [TOOL]}),
}


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: str(kind.__name__))
def test_an_object_is_read_as_its_json(kind: Any) -> None:
    answer, body = ANSWERS[kind]
    document = answer({"model": "large", **body})
    as_object = kind.model_validate(document)
    for read in (document, as_object):
        call, usage = parts_of(read)
        assert call.call is not None
        assert (call.call.name, usage.model) == ("search", "large")
        _, row = spent_of(usage.usage)
        assert (row.input, row.output, row.tokens) == (20, 5, 25)
