"""SWE-agent trajectories with function calls, one run per file.

A file is a document ``{trajectory, history, info}``, or mini-SWE-agent's ``{messages, info, trajectory_format}``. The
history holds chat messages. Those marked ``is_demo`` were shown to the agent, and another ``agent``'s are not its
own. A file may hold nothing but the history. The offered tools are not in it.

A trajectory whose commands are text only is refused. No tool was called by name, so it would count as conversation.
The first word of a command is not the tool. Of 187 commands in the 17 such trajectories of the public project, 110
begin with a tool of the agent and 77 with a program (python, curl, ls). With function calls those 77 are one tool,
``bash``. The file does not name the tools.

A trajectory is written again at every step and has no id: its first step identifies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from core.formats.chat import Message, Record, lists_messages, read
from core.formats.openai_chat import CHAT_USAGE, ChatUsage
from core.formats.prompts import counts_of, summed
from core.formats.reading import Format, Head
from core.formats.strict import Flaw, decoded, digest_of
from core.records.bill import merged
from core.records.limits import Label, Tokens
from core.records.run import Status, rows_of_usage

NAME: Final = "swe-agent"

_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Message(Message):
    is_demo: bool | None = None
    agent: str | None = None
    extra: msgspec.Raw = msgspec.Raw(b"")

    @property
    def counts(self) -> tuple[ChatUsage | None, list[str]]:
        """The usage of the response that mini-SWE-agent keeps, and the names of amounts that are not understood."""
        response = (decoded(_MEMBERS, self.extra) or {}).get("response", b"")
        return counts_of(CHAT_USAGE, (decoded(_MEMBERS, response) or {}).get("usage", b""))


class _FirstStep(msgspec.Struct):
    role: str
    is_demo: bool | None = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


class _Stats(msgspec.Struct):
    tokens_sent: Tokens | None = None
    tokens_received: Tokens | None = None


class _Model(msgspec.Struct):
    name: Label | None = None
    model_name: Label | None = None


class _Agent(msgspec.Struct):
    model: _Model | None = None


class _Config(msgspec.Struct):
    agent: _Agent | None = None
    model: _Model | None = None


class _Info(msgspec.Struct):
    exit_status: str | None = None
    model_stats: msgspec.Raw = msgspec.Raw(b"null")
    config: _Config | None = None


class _File(msgspec.Struct):
    history: list[msgspec.Raw] | None = None
    messages: list[msgspec.Raw] | None = None
    trajectory: list[msgspec.Raw] | None = None
    info: _Info | None = None
    environment: str | None = None
    replay_config: object = None


_STATS: Final = msgspec.json.Decoder(_Stats | None)
_FILE: Final = msgspec.json.Decoder(_File)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_FIRST_STEP: Final = msgspec.json.Decoder(_FirstStep)
_CONFIG: Final = msgspec.json.Decoder(_Config)


def _claims(head: Head) -> bool:
    """The steps come first and may fill the head."""
    if {"messages", "trajectory_format"} <= head.keys:
        return True
    if "history" in head.keys and lists_messages(head, "history"):
        return True
    return "trajectory" in head.keys and b'"observation"' in head.start and b'"action"' in head.start


def _record(raw: bytes) -> Record:
    file = _FILE.decode(raw)
    history = file.messages if file.history is None else file.history
    if history is None:
        raise Flaw("holds neither a history nor messages")
    messages = _own([_MESSAGE.decode(message) for message in history])
    replies = [message for message in messages if message.role == "assistant"]
    if replies and not any(message.calls for message in replies) and b"function_calling" not in raw:
        raise Flaw("holds commands as text only, so the called tools are unknown")
    info = file.info or _Info()
    model, (stats, unread) = _model(file, info), counts_of(_STATS, info.model_stats)
    counts = [message.counts for message in messages]
    replied = [one.parts for one, _ in counts if one is not None]
    stats = stats or _Stats()
    usage = summed([(stats.tokens_sent or 0, stats.tokens_received or 0, 0, 0, 0)])
    requests = [row for one in replied if usage is None for row in rows_of_usage(summed([one]))]
    return Record(
        messages=messages,
        identity=_identity(file, history),
        rank=len(messages),
        model=model,
        usage=usage or summed(replied),
        spent=merged(replace(row, model=model).as_request for row in requests),
        unread=[*unread, *(name for _, names in counts for name in names)],
        status=_status(info.exit_status),
    )


def _own(messages: Sequence[_Message]) -> list[_Message]:
    """Return the messages without demonstrations and without replies of other agents than the first."""
    shown = [message for message in messages if not message.is_demo]
    first = next((message.agent for message in shown if message.role == "assistant"), None)
    return [message for message in shown if message.role != "assistant" or message.agent == first]


def _identity(file: _File, history: Sequence[msgspec.Raw]) -> str:
    """Return the constant part of a growing file: its first step, and the calls of the first reply with their ids."""
    messages = [_FIRST_STEP.decode(message) for message in history]
    own = (index for index, one in enumerate(messages) if one.role == "assistant" and not one.is_demo)
    first = next(own, len(history) - 1)
    beginning = file.trajectory[:1] if file.trajectory else history[: first + 1]
    calls = bytes(messages[first].tool_calls) if history else b"null"
    parts = [msgspec.json.decode(part) for part in (*beginning, calls)]
    return digest_of(_CANONICAL.encode([file.environment, *parts]))


def _model(file: _File, info: _Info) -> str | None:
    config = info.config
    if isinstance(file.replay_config, str):
        config = _CONFIG.decode(file.replay_config)
    models = () if config is None else (config.model, config.agent.model if config.agent else None)
    return next((model.name or model.model_name for model in models if model is not None), None)


def _status(exit_status: str | None) -> Status:
    """Return the status; a submission because of a limit is no normal end."""
    return "completed" if exit_status is None or exit_status.lower() == "submitted" else "error"


_READ: Final = partial(read, NAME, decode=_record)
FORMAT: Final = Format(name=NAME, units=("episode",), claims=_claims, read=_READ, is_document=True)
