"""Results of tau2: one document ``{timestamp, info, tasks, simulations}``, a run per simulation or per turn.

Only role ``assistant`` is the agent: the simulated user calls tools too. Calls are flat, their arguments an object.
Each message has its usage (null on canned greetings), ``reward_info`` the reward. The duration is in seconds; times
are local without a zone. ``info`` names model and domain. The tools of a domain come from ``--tools``, unless
``environment_info.tool_defs`` declares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Final

import msgspec

from core.formats.chat import Message, Record, read
from core.formats.entries import Entry, Progress
from core.formats.identity import named, plain
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.strict import UNDECODABLE
from core.formats.tools import inventory_of
from core.records.limits import Label, Tokens
from core.records.run import Inventory, Status, Usage

NAME: Final = "tau2"

_WITHOUT_USER: Final = "dummy_user"
_ENDED_NORMALLY: Final = frozenset(("user_stop", "agent_stop"))

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=10**9)]


class _Usage(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class _Message(Message):
    usage: _Usage | None = None
    timestamp: str | None = None

    @property
    def sent_at(self) -> str | None:
        return self.timestamp


class _Reward(msgspec.Struct):
    reward: float | None = None


class _Simulation(msgspec.Struct):
    id: str
    messages: list[_Message]
    task_id: msgspec.Raw = msgspec.Raw(b"null")
    reward_info: _Reward | None = None
    duration: _Seconds | None = None
    termination_reason: str | None = None
    end_time: str | None = None


class _User(msgspec.Struct):
    implementation: str | None = None


class _Agent(msgspec.Struct):
    llm: Label | None = None


class _Environment(msgspec.Struct):
    domain_name: str
    tool_defs: msgspec.Raw = msgspec.Raw(b"null")


class _Info(msgspec.Struct):
    environment_info: _Environment
    agent_info: _Agent | None = None
    user_info: _User | None = None


_INFO: Final = msgspec.json.Decoder(_Info)
_SIMULATION: Final = msgspec.json.Decoder(_Simulation)
_DEFINED: Final = msgspec.json.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw] | None)


def _claims(head: Head) -> bool:
    """Tasks come before the simulations and may fill the head."""
    is_results = "info" in head.keys and ("simulations" in head.keys or "tasks" in head.keys)
    return is_results and b'"environment_info"' in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    fields = reading.fields("simulations", progress)
    info, declared = _info(reading, bytes(fields.get("info", b"null")))

    def simulations(_: Progress | None) -> Iterator[Piece]:
        return reading.elements(fields.get("simulations", b"null"))

    def decode(raw: bytes) -> Record:
        simulation = _SIMULATION.decode(raw)
        seconds = simulation.duration
        return Record(
            messages=simulation.messages,
            declared=declared,
            identity=plain(simulation.id),
            model=None if info.agent_info is None else info.agent_info.llm,
            reward=None if simulation.reward_info is None else simulation.reward_info.reward,
            environment=f"{NAME}/{named(info.environment_info.domain_name)}",
            task=named(simulation.task_id),
            usage=_usage(simulation.messages),
            duration_ms=None if seconds is None else round(seconds * 1000),
            ended_at=simulation.end_time,
            status=_status(simulation.termination_reason),
        )

    with_tools = replace(reading, supplied=_supplied(info, reading))
    return read(NAME, with_tools, progress, decode, pieces=simulations)


def _info(reading: Reading, raw: bytes) -> tuple[_Info, Inventory | None]:
    """Return what holds for all simulations of a file, and their declared tools."""
    try:
        info = _INFO.decode(raw)
        return info, _declared(info)
    except UNDECODABLE as error:
        raise reading.damaged(error, raw) from None


def _status(reason: str | None) -> Status:
    """Return the status; running out of steps or of allowed errors is no normal end and no interruption."""
    return "completed" if reason is None or reason in _ENDED_NORMALLY else "error"


def _usage(messages: list[_Message]) -> Usage | None:
    usages = [
        message.usage for message in messages if message.role == "assistant" and message.usage is not None
    ]
    total = Usage(
        input=sum(usage.prompt_tokens or 0 for usage in usages),
        output=sum(usage.completion_tokens or 0 for usage in usages),
    )
    return None if total.tokens is None else total


def _declared(info: _Info) -> Inventory | None:
    """Return the declared tools, those of the environment.

    An agent without a user also has the user's tools; only a supplied list names them.
    """
    defined = _DEFINED.decode(info.environment_info.tool_defs)
    if not defined or _is_without_user(info):
        return None
    return inventory_of(
        msgspec.json.encode(defined if isinstance(defined, list) else list(defined)), "declared"
    )


def _supplied(info: _Info, reading: Reading) -> Inventory | None:
    if reading.by_domain is None:
        return None
    domain = info.environment_info.domain_name
    return reading.by_domain.of_domain(domain, is_without_user=_is_without_user(info))


def _is_without_user(info: _Info) -> bool:
    return info.user_info is not None and info.user_info.implementation == _WITHOUT_USER


FORMAT: Final = Format(
    name=NAME,
    units=("episode", "turn"),
    claims=_claims,
    read=_read,
    names_domain=True,
    is_document=True,
)
