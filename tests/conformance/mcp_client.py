"""An agent: the SDK's client over standard input and output, against a server that it starts as a process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import Tool

from tests.conftest import ROOT

Document = dict[str, Any]


@dataclass
class Agent:
    """What an agent can do with the server that it started."""

    client: Client
    portal: BlockingPortal

    def tools(self) -> dict[str, Tool]:
        """What is listed, by name."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[Document, bool]:
        """What a call is answered with, and whether it was refused; one block of text says the same."""
        result = self.portal.call(self.client.call_tool, name, dict(arguments))
        (block,) = result.content
        if result.is_error and not block.text.startswith("{"):
            return {"error": block.text}, True  # words alone, as others refuse
        said: Document = json.loads(block.text)
        if not result.is_error:
            assert result.structured_content == said
        return said, result.is_error


def agent_at(database: Path, *options: str) -> AbstractContextManager[Agent]:
    """An agent that started our server on a file, with nothing of ours in its environment."""
    arguments = ["-m", "core.doors.mcp", "--database", str(database), *options]
    return agent_of(StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT))


@contextmanager
def agent_of(server: StdioServerParameters) -> Iterator[Agent]:
    """An agent that started a server."""
    with (
        start_blocking_portal() as portal,
        TemporaryFile("w+") as log,
        portal.wrap_async_context_manager(Client(stdio_client(server, log))) as client,
    ):
        yield Agent(client, portal)
