"""ATIF trajectories 1.x: one document ``{schema_version, agent, steps, …}``, one run per trajectory or turn.

A step of source ``agent`` is a reply with its calls and its metrics; its input contains the cached tokens. Steps that
are copied from another trajectory (``is_copied_context``) count there. A step without a model (``llm_call_count`` 0)
holds no choice of the model. Metrics of the whole count where no step has any. Trajectories of sub-agents inside the
document hold no calls of the agent; their tokens are in the bill. ``tool_definitions`` declare the inventory.

Harbor writes ``result.json`` beside the trajectory or one folder above. Its reward makes the episode, and an
exception there breaks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats.chat import Message, Part, Record, ToolCall, read
from core.formats.entries import Entry, Limits, Progress
from core.formats.prompts import split, usage_of
from core.formats.reading import Format, Head, Reading
from core.formats.scalars import named, plain, utc_ms_of
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, Flaw, check
from core.formats.tools import DeclaredLists
from core.records.bill import Owner, Spent, heaviest, merged
from core.records.episode import Part as RewardPart
from core.records.limits import Label, Tokens

NAME: Final = "atif"

_ROLES: Final = {"agent": "assistant", "user": "user", "system": "system"}
_RESULT: Final = "result.json"


class _Call(msgspec.Struct):
    function_name: Label
    arguments: msgspec.Raw = msgspec.Raw(b"")


class _Metrics(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    cached_tokens: Tokens | None = None

    def spent(self, model: str | None, owner: Owner) -> Spent:
        return split(
            model, owner, (self.prompt_tokens or 0, self.cached_tokens or 0, 0, self.completion_tokens or 0)
        )


class _Totals(msgspec.Struct):
    total_prompt_tokens: Tokens | None = None
    total_completion_tokens: Tokens | None = None
    total_cached_tokens: Tokens | None = None


class _Answer(msgspec.Struct):
    content: str | list[Part] | None = None


class _Observation(msgspec.Struct):
    results: list[_Answer] = []


class _Step(msgspec.Struct):
    source: str
    message: str | list[Part] | None = None
    timestamp: str | None = None
    model_name: Label | None = None
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None

    def messages(self) -> Iterator[Message]:
        """The step as messages of a chat: what was written, and the answers to its calls."""
        calls = None if self.llm_call_count == 0 else self.tool_calls
        yield _Message(
            role=_ROLES.get(self.source, self.source),
            content=self.message,
            tool_calls=[ToolCall(name=one.function_name, arguments=one.arguments) for one in calls or ()],
            at=self.timestamp,
        )
        if calls and self.observation is not None:
            yield from (Message(role="tool", content=one.content) for one in self.observation.results)


class _Message(Message):
    at: str | None = None

    @property
    def sent_at(self) -> str | None:
        return self.at


class _Agent(msgspec.Struct):
    model_name: Label | None = None
    tool_definitions: msgspec.Raw = msgspec.Raw(b"null")


class _Trajectory(msgspec.Struct):
    schema_version: str
    steps: list[_Step]
    agent: _Agent = msgspec.field(default_factory=_Agent)
    session_id: str | None = None
    trajectory_id: str | None = None
    final_metrics: _Totals | None = None
    subagent_trajectories: list[_Trajectory] | None = None

    @property
    def own(self) -> list[_Step]:
        return [step for step in self.steps if not step.is_copied_context]

    def spent(self, owner: Owner = "agent") -> Iterator[Spent]:
        """Yield the tokens of each reply, then those of sub-agents."""
        replies = [step for step in self.own if step.metrics is not None and step.source == "agent"]
        for step in replies:
            if step.metrics is not None:
                yield step.metrics.spent(step.model_name or self.agent.model_name, owner)
        whole = self.final_metrics
        if whole is not None and not replies:
            metrics = _Metrics(
                whole.total_prompt_tokens, whole.total_completion_tokens, whole.total_cached_tokens
            )
            yield metrics.spent(self.agent.model_name, owner)
        for one in self.subagent_trajectories or ():
            yield from one.spent("sub-agent")


class _Rewards(msgspec.Struct):
    rewards: dict[str, float | None] | None = None


class _Exception(msgspec.Struct):
    exception_type: str = "error"


class _Result(msgspec.Struct):
    """The result of a trial."""

    trial_name: str
    task_name: str | None = None
    source: str | None = None
    verifier_result: _Rewards | None = None
    exception_info: _Exception | None = None

    @property
    def parts(self) -> dict[str, float]:
        rewards = {} if self.verifier_result is None else self.verifier_result.rewards or {}
        return {name: value for name, value in rewards.items() if value is not None}

    @property
    def reward(self) -> float | None:
        """The one named reward, else the only one; several others have no sum."""
        only = next(iter(self.parts.values())) if len(self.parts) == 1 else None
        return self.parts.get("reward", only)


_TRAJECTORY: Final = msgspec.json.Decoder(_Trajectory)
_RESULT_OF: Final = msgspec.json.Decoder(_Result)


def _claims(head: Head) -> bool:
    return {"schema_version", "steps"} <= head.keys and b'"ATIF-v' in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    result = _result(reading.path, reading.limits)
    return read(NAME, reading, progress, partial(_record, DeclaredLists(), result))


def _record(lists: DeclaredLists, result: _Result | None, raw: bytes) -> Record:
    trajectory = _TRAJECTORY.decode(raw)
    if not trajectory.schema_version.startswith("ATIF-v1."):
        raise Flaw(f"is of version {trajectory.schema_version[:20]!a}, and versions ATIF-v1.x are read")
    steps, tools = trajectory.own, bytes(trajectory.agent.tool_definitions)
    rows = merged(trajectory.spent())
    own = [row for row in rows if row.owner == "agent"]
    times = [step.timestamp for step in steps if step.timestamp is not None]
    began, ended = (utc_ms_of(time)[0] for time in (times[0], times[-1])) if times else (None, None)
    broken = None if result is None or result.exception_info is None else result.exception_info.exception_type
    ids = [one for one in (trajectory.session_id, trajectory.trajectory_id) if one]
    return Record(
        messages=[message for step in steps for message in step.messages()],
        declared=None if tools in {b"null", b"[]"} else lists.inventory(tools),
        identity=plain("/".join(ids)),
        rank=len(steps),
        session=plain(trajectory.session_id),
        model=heaviest(own) or trajectory.agent.model_name,
        reward=None if result is None else result.reward,
        environment=None if result is None else "/".join([NAME, *filter(None, [named(result.source)])]),
        broken=broken,
        task=None if result is None else named(result.task_name),
        parts=() if result is None else _parts(result),
        usage=usage_of(own),
        spent=rows,
        duration_ms=None if began is None or ended is None or ended < began else ended - began,
        ended_at=times[-1] if times else None,
        status="completed" if broken is None else "error",
    )


def _parts(result: _Result) -> tuple[RewardPart, ...]:
    return tuple(
        RewardPart(name=name, value=value) for name, value in result.parts.items() if name != "reward"
    )


def _result(path: Path, limits: Limits) -> _Result | None:
    """Return the result of the trial that a trajectory belongs to; None where none lies there, or another's."""
    places = (folder / _RESULT for folder in (path.parent, path.parent.parent))
    beside = next((place for place in places if place != path and place.is_file()), None)
    if beside is None:
        return None
    try:
        with Bytes(beside, _RESULT, limits) as content:
            document = content.document()
        check(document, limits.depth)
        return _RESULT_OF.decode(document)
    except msgspec.ValidationError:
        return None
    except (*UNDECODABLE, OSError) as error:
        raise UnreadableSource(
            f"What lies beside a trajectory must be its result, but {beside.name} can't be read ({path.name}).",
            next_step="Copy both files again; without the result the trajectory has no reward.",
        ) from error


FORMAT: Final = Format(name=NAME, units=("episode", "turn"), claims=_claims, read=_read, is_document=True)
