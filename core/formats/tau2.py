"""Results of tau2: one document ``{timestamp, info, tasks, simulations}``, a run per simulation or per turn.

Newer programs write a folder: ``results.json`` without simulations, and ``simulations/<id>.json``. It is one source,
whichever of its files is named. A simulation by voice has ``ticks`` in place of messages, and no turns.

Only role ``assistant`` is the agent: the simulated user calls tools too. Calls are flat, their arguments an object.
Each message has its usage (null on canned greetings), ``reward_info`` the reward. The duration is in seconds; times
are local without a zone. ``info`` names model and domain. The tools of a domain come from ``--tools``, unless
``environment_info.tool_defs`` declares them. A simulation that the infrastructure or a full context window ended is
broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import msgspec

from core.errors import UnreadableSource
from core.formats.chat import Message, Record, ToolCall, read
from core.formats.entries import Entry, Progress, Rejected
from core.formats.prompts import counts_of, summed
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.stream import Bytes, Damage
from core.formats.strict import UNDECODABLE, Flaw, named, plain
from core.formats.tools import inventory_of
from core.records.limits import Label, Tokens
from core.records.run import Inventory, Status

NAME: Final = "tau2"

_ENDED_NORMALLY: Final = frozenset(("user_stop", "agent_stop"))
_BROKEN: Final = frozenset(("infrastructure_error", "context_window_exceeded"))
_RESULTS: Final = "results.json"
_SIMULATIONS: Final = "simulations"
_ONE: Final = frozenset(("task_id", "termination_reason", "duration"))
_HEAD_BYTES: Final = 128 << 10

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=10**9)]

_NULL: Final = msgspec.Raw(b"null")

_DEFINED: Final = msgspec.json.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw] | None)


class _Usage(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


_USAGE: Final = msgspec.json.Decoder(_Usage | None)


class _Message(Message):
    usage: msgspec.Raw = msgspec.Raw(b"null")
    timestamp: str | None = None

    @property
    def sent_at(self) -> str | None:
        return self.timestamp


class _Reward(msgspec.Struct):
    reward: float | None = None


class _Chunk(msgspec.Struct):
    content: str | None = None
    contains_speech: bool | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Tick(msgspec.Struct):
    """Words and calls of both sides in a fraction of a second."""

    timestamp: str | None = None
    agent_chunk: _Chunk | None = None
    user_chunk: _Chunk | None = None
    agent_tool_calls: list[ToolCall] = []
    agent_tool_results: list[_Chunk] = []

    def messages(self) -> Iterator[_Message]:
        spoken, heard = self.agent_chunk or _Chunk(), self.user_chunk or _Chunk()
        if heard.content:
            yield _Message(role="user", content=heard.content, timestamp=self.timestamp)
        if spoken.content or spoken.contains_speech or spoken.usage != _NULL or self.agent_tool_calls:
            yield _Message(
                role="assistant",
                content=spoken.content,
                tool_calls=self.agent_tool_calls,
                usage=spoken.usage,
                timestamp=self.timestamp,
            )
        yield from (_Message(role="tool", content=result.content) for result in self.agent_tool_results)


class _Simulation(msgspec.Struct):
    id: str
    messages: list[_Message] | None = None
    ticks: list[_Tick] | None = None
    task_id: msgspec.Raw = msgspec.Raw(b"null")
    reward_info: _Reward | None = None
    duration: _Seconds | None = None
    termination_reason: str | None = None
    end_time: str | None = None

    def spoken(self, reading: Reading) -> list[_Message]:
        """The messages, those of a conversation by voice from its ticks."""
        if self.messages is None and self.ticks is None:
            raise Flaw("has neither messages nor ticks")
        if self.messages is None and reading.unit != "episode":
            raise Flaw("is a simulation by voice, which has no turns; it can be read by episode")
        if self.messages is not None:
            return self.messages
        return [message for tick in self.ticks or () for message in tick.messages()]


class _Indexed(msgspec.Struct):
    id: str


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
_INDEX: Final = msgspec.json.Decoder(list[_Indexed] | None)


def _claims(head: Head) -> bool:
    """Return whether a file is tau2's: results, whose tasks may fill the head, or a single simulation."""
    is_results = "info" in head.keys and ("simulations" in head.keys or "tasks" in head.keys)
    is_one = head.keys >= _ONE and (b'"ticks"' in head.start or b'"messages"' in head.start)
    return is_one or (is_results and b'"environment_info"' in head.start)


def results_of(path: Path) -> Path | None:
    """Return the results of the folder that a simulation lies in, None for another file."""
    results = path.parent.parent / _RESULTS
    if path.parent.name != _SIMULATIONS or path.suffix != ".json" or not results.is_file():
        return None
    with results.open("rb") as file:
        return results if b'"environment_info"' in file.read(_HEAD_BYTES) else None


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    document = reading.document(_SIMULATIONS, progress)
    fields = document.fields()
    if fields.keys() >= _ONE:
        raise UnreadableSource(
            f"This is a single simulation of tau2, and its tools and domain are in {_RESULTS} ({reading.file}).",
            next_step=f"Name the folder that holds {_RESULTS} and {_SIMULATIONS}.",
        )
    folder = reading.path.parent / _SIMULATIONS
    files = {} if _SIMULATIONS in fields else {one.stem: one for one in sorted(folder.glob("*.json"))}
    yield from _missing(reading, fields.get("simulation_index", msgspec.Raw(b"null")), files)
    raw = bytes(fields.get("info", b"null"))
    try:
        info = _INFO.decode(raw)
        declared = _declared(info)
    except UNDECODABLE as error:
        raise reading.damaged(error, raw) from None

    def simulations(_: Progress | None) -> Iterator[Piece]:
        if files:
            return _pieces(reading, files.values())
        return document.elements(fields)

    def decode(raw: bytes) -> Record:
        simulation = _SIMULATION.decode(raw)
        messages, reason = simulation.spoken(reading), simulation.termination_reason
        seconds = simulation.duration
        counts = [counts_of(_USAGE, one.usage) for one in messages if one.role == "assistant"]
        return Record(
            messages=messages,
            declared=declared,
            identity=plain(simulation.id),
            model=None if info.agent_info is None else info.agent_info.llm,
            reward=None if simulation.reward_info is None else simulation.reward_info.reward,
            environment=f"{NAME}/{named(info.environment_info.domain_name)}",
            task=named(simulation.task_id),
            broken=reason if reason in _BROKEN else None,
            usage=summed(
                (one.prompt_tokens or 0, one.completion_tokens or 0, 0, 0, 0) for one, _ in counts if one
            ),
            unread=[name for _, names in counts for name in names],
            duration_ms=None if seconds is None else round(seconds * 1000),
            ended_at=simulation.end_time,
            status=_status(reason),
        )

    with_tools = replace(reading, supplied=_supplied(info, reading))
    yield from read(NAME, with_tools, progress, decode, pieces=simulations)


def _pieces(reading: Reading, files: Iterable[Path]) -> Iterator[Piece]:
    """Yield the content of each simulation's file; its number is its position by name."""
    for number, path in enumerate(files, start=1):
        try:
            with Bytes(path, path.name, reading.limits) as content:
                yield number, content.document()
        except (UnreadableSource, OSError) as error:
            why = error.problem if isinstance(error, UnreadableSource) else error.strerror
            yield number, Damage(f"{path.name} can't be read: {why}")


def _missing(reading: Reading, index: msgspec.Raw, files: Mapping[str, Path]) -> Iterator[Rejected]:
    """Yield a rejection for each indexed simulation without a file."""
    try:
        indexed = _INDEX.decode(index) if files else None
    except UNDECODABLE as error:
        raise reading.damaged(error, bytes(index)) from None
    for one in indexed or ():
        if one.id not in files:
            reason = f"The index names simulation {one.id[:60]!a}, and {_SIMULATIONS} holds no file of it."
            yield Rejected(file=reading.file, line=None, reason=reason)


def _status(reason: str | None) -> Status:
    """Return the status; running out of steps or of allowed errors is no normal end and no interruption."""
    return "completed" if reason is None or reason in _ENDED_NORMALLY else "error"


def _declared(info: _Info) -> Inventory | None:
    """Return the declared tools, which are the environment's; an agent without a user also has the user's."""
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
    return info.user_info is not None and info.user_info.implementation == "dummy_user"


FORMAT: Final = Format(
    name=NAME,
    units=("episode", "turn"),
    claims=_claims,
    read=_read,
    names_domain=True,
    is_document=True,
    takes_nan=True,
)
