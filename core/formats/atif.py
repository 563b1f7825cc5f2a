"""ATIF trajectories 1.x: one document ``{schema_version, agent, steps, …}``, one run per trajectory or turn.

A step of source ``agent`` is a reply with its calls and its metrics. Its input contains the cached tokens. A step
that is copied from another trajectory (``is_copied_context``) counts only there. The calls of a step without a model
(``llm_call_count`` 0) are not the model's. ``final_metrics`` count if no step has metrics. ``tool_definitions``
declare the inventory.

Some programs write one answer as several steps, each with the usage of the answer: adjacent steps with equal metrics
count once. After a call's result they are two answers, unless ``extra`` has the usage of the API. ``extra`` has the
cache writes, and what Anthropic's API bills apart. In some programs the input includes the cache writes. An input too
small for that does not.

A sub-agent's steps (``is_sidechain``) and trajectories, inside the document or in a file that it refers to, hold no
calls of the agent. Their tokens are in the bill.

Harbor writes ``result.json`` next to the trajectory, one folder above, or for a step of a trial above its ``steps``.
Its reward makes the episode: the one named ``reward``, else the only one. Harbor averages several others one by one,
so they are parts of an unpaid episode. An exception breaks the episode if there is no reward, or Harbor counts none
with this exception. The identity is job and trial, because some agents have one session id in all trials. Without a
result the identity includes the beginning. A session below a trajectory is the same work with the same id and
no fewer calls, or with calls that contain the trajectory's. Its runs count then, and the trajectory adds the reward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from core.errors import UnreadableSource
from core.formats.chat import Message, Part, Record, ToolCall, read
from core.formats.claude_code import Used
from core.formats.entries import Entry, Limits, Outside, Progress, Remark, Skipped
from core.formats.prompts import is_part, readable, split, usage_of
from core.formats.reading import Format, Head, Reading
from core.formats.stream import Bytes
from core.formats.strict import (
    UNDECODABLE,
    Flaw,
    check,
    decoded,
    digest_of,
    named,
    plain,
    utc_ms_of,
    with_nulls,
)
from core.formats.sub_agents import alone, parted
from core.formats.tools import DeclaredLists
from core.formats.unknown import Unknown
from core.records.bill import Owner, Spent, heaviest, merged
from core.records.counts import number_of
from core.records.episode import Episode
from core.records.episode import Part as RewardPart
from core.records.limits import Label, Tokens
from core.records.run import Run

NAME: Final = "atif"

_ROLES: Final = {"agent": "assistant", "user": "user", "system": "system"}
RESULT: Final = "result.json"
_TRAJECTORY_FILE: Final = "trajectory.json"
_AGENT: Final = "agent"
_STEPS: Final = "steps"
USER_AGENT: Final = "user-agent"
_OF_TRIAL: Final = (RESULT, "config.json", f"{_AGENT}/{_TRAJECTORY_FILE}")
_WITHOUT_REWARD: Final = """
EnvironmentStartTimeoutError SandboxBuildFailedError AgentSetupTimeoutError HealthcheckError
SandboxLikelyOutOfMemoryError MemoryLimitExceededError SSHAccessError GKEExecStreamClosedError GKEPodNotFoundError
RuntimeRequestError AddTestsDirError DownloadVerifierDirError ApiError ApiRateLimitError ApiInternalServerError
ApiOverloadedError ApiConnectionClosedError ApiResponseStalledError UnknownApiError NetworkConnectionError
ApiConnectionError ApiUsageLimitError RateLimitError InternalServerError ServiceUnavailableError
APIConnectionError APIError Timeout UnsupportedModelParametersError BadRequestError UnprocessableEntityError
UnsupportedParamsError APIResponseValidationError BudgetExceededError VerifierTimeoutError RewardFileNotFoundError
RewardFileEmptyError VerifierOutputParseError AgentAuthenticationError ModelNotFoundError
ApiProviderResourceNotFoundError AuthenticationError PermissionDeniedError NotFoundError
ServiceOperationsUnsupportedError VercelScopeError DspyImportError MissingExtraError RegradeError CancelledError
"""
"""Exceptions of Harbor 0.26 that do not come from the agent's work; it counts no reward with them."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_APART: Final = frozenset(("cache_creation", "server_tool_use"))

_POLICY: Final = msgspec.json.Decoder(dict[str, bool])


class _Call(msgspec.Struct):
    function_name: Label
    arguments: msgspec.Raw = msgspec.Raw(b"")


class _Written(msgspec.Struct):
    """Cache writes, under one of the names of agents' APIs."""

    cache_creation_input_tokens: Tokens | None = None
    cache_creation_tokens: Tokens | None = None
    cache_write_input_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None

    @property
    def tokens(self) -> int:
        return next(filter(None, msgspec.structs.astuple(self)), 0)


class _Metrics(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    cached_tokens: Tokens | None = None
    extra: msgspec.Raw = msgspec.Raw(b"null")

    def spent(self, model: str | None, owner: Owner, unknown: Unknown, *, is_one: bool) -> tuple[Spent, ...]:
        """Return the disjoint counts of one request (``is_one``) or several, with the parts that are billed apart."""
        written = decoded(_WRITTEN, self.extra) or _Written()
        read, cached, stored = self.prompt_tokens or 0, self.cached_tokens or 0, written.tokens
        if cached <= read < cached + stored:
            read += stored
        row = split(model, owner, (read, cached, stored, self.completion_tokens or 0))
        extra = decoded(_MEMBERS, self.extra) or {}
        usage = {name: one for name, one in extra.items() if name in _APART or not is_part(name)} | {
            "input_tokens": row.input,
            "cache_read_input_tokens": row.cache_read,
            "cache_creation_input_tokens": row.cache_write_5m,
            "output_tokens": row.output,
        }
        rest = Spent(model=model, owner=owner, total=row.total)
        rows = (*Used(msgspec.json.encode(usage)).billed(model, owner, unknown), rest)
        return rows if is_one else tuple(replace(one, context=0) for one in rows)


class _Totals(msgspec.Struct):
    total_prompt_tokens: Tokens | None = None
    total_completion_tokens: Tokens | None = None
    total_cached_tokens: Tokens | None = None

    @property
    def metrics(self) -> _Metrics:
        return _Metrics(self.total_prompt_tokens, self.total_completion_tokens, self.total_cached_tokens)


class _SubAgentRef(msgspec.Struct):
    """A reference to a sub-agent's trajectory."""

    trajectory_path: str | None = None


class _Answer(msgspec.Struct):
    content: str | list[Part] | None = None
    subagent_trajectory_ref: list[_SubAgentRef] | None = None


class _Observation(msgspec.Struct):
    results: list[_Answer] = []


class _StepExtra(msgspec.Struct):
    is_sidechain: bool | None = None
    agent_id: msgspec.Raw = msgspec.Raw(b"")
    message_id: msgspec.Raw = msgspec.Raw(b"")


class _Step(msgspec.Struct):
    source: str
    message: str | list[Part] | None = None
    timestamp: str | None = None
    model_name: Label | None = None
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None
    metrics: msgspec.Raw = msgspec.Raw(b"null")
    extra: msgspec.Raw = msgspec.Raw(b"null")
    is_copied_context: bool | None = None
    llm_call_count: int | None = None

    @property
    def agent(self) -> tuple[bool, bytes]:
        """Return whether a sub-agent made the step, and which one."""
        return bool(self._more.is_sidechain), bytes(self._more.agent_id)

    @property
    def _more(self) -> _StepExtra:
        return decoded(_STEP_EXTRA, self.extra) or _StepExtra()

    def goes_on_with(self, before: _Step | None) -> bool:
        """Return whether this step and the one before it are parts of one answer, whose usage both have.

        A new answer follows the result of a call, except in programs that write each call as a step with the usage of
        the API in ``extra``.
        """
        if before is None or bytes(before.metrics) != bytes(self.metrics):
            return False
        metrics = readable(_METRICS, self.metrics)[0] or _Metrics()
        has_api_usage = bytes(metrics.extra) not in {b"null", b"{}"}
        is_answered = before.observation is not None and bool(before.observation.results)
        is_same = bytes(before._more.message_id) == bytes(self._more.message_id)
        return is_same and (has_api_usage or not is_answered)

    def messages(self) -> Iterator[Message]:
        """Yield the step as messages of a chat: its own message, and the results of its calls."""
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


class _AgentExtra(msgspec.Struct):
    parent_session_id: str | None = None


class _Agent(msgspec.Struct):
    model_name: Label | None = None
    tool_definitions: msgspec.Raw = msgspec.Raw(b"null")
    extra: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_sub_agent(self) -> bool:
        """Return whether another session started it, so that its trajectory is a sub-agent's."""
        return bool((decoded(_AGENT_EXTRA, self.extra) or _AgentExtra()).parent_session_id)


class _Trajectory(msgspec.Struct):
    schema_version: str
    steps: list[_Step]
    agent: _Agent = msgspec.field(default_factory=_Agent)
    session_id: str | None = None
    trajectory_id: str | None = None
    final_metrics: msgspec.Raw = msgspec.Raw(b"")
    subagent_trajectories: list[_Trajectory] | None = None

    @property
    def uncopied_steps(self) -> list[_Step]:
        return [step for step in self.steps if not step.is_copied_context]

    @property
    def sub_agent_files(self) -> set[str]:
        """Return the names of files with trajectories of sub-agents."""
        answers = [one for step in self.steps if step.observation for one in step.observation.results]
        paths = [ref.trajectory_path for one in answers for ref in one.subagent_trajectory_ref or ()]
        return {PurePosixPath(path).name for path in paths if path}

    def used(self, unknown: Unknown, owner: Owner = "agent") -> Iterator[_ReplyUsage]:
        """Yield the usage of each reply, then those of sub-agents; a step of the same answer is a repeat."""
        latest: dict[tuple[bool, bytes], _Step] = {}
        n_used = 0
        for step in self.uncopied_steps:
            agent = step.agent
            metrics, wrong = readable(_METRICS, step.metrics if step.source == "agent" else b"")
            if metrics is not None:
                by: Owner = "sub-agent" if agent[0] else owner
                if step.goes_on_with(latest.get(agent)):
                    yield _ReplyUsage((), is_repeat=True)
                else:
                    is_one = step.llm_call_count in {None, 1}
                    model = step.model_name or self.agent.model_name
                    missed = Spent(owner=by, unread=unknown.spend(wrong))
                    yield _ReplyUsage((*metrics.spent(model, by, unknown, is_one=is_one), missed))
                n_used += 1
                latest[agent] = step
            elif step.source == "user":
                latest.pop(agent, None)
        totals, wrong = readable(_TOTALS, self.final_metrics)
        if totals is not None and not n_used:
            model = self.agent.model_name
            missed = Spent(owner=owner, unread=unknown.spend(wrong))
            yield _ReplyUsage((*totals.metrics.spent(model, owner, unknown, is_one=False), missed))
        for one in self.subagent_trajectories or ():
            yield from one.used(unknown, "sub-agent")


class _ReplyUsage(NamedTuple):
    rows: tuple[Spent, ...]
    is_repeat: bool = False


class _Rewards(msgspec.Struct):
    rewards: dict[str, float | None] | None = None


class _Exception(msgspec.Struct):
    exception_type: str = "error"
    policy: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def has_valid_reward(self) -> bool:
        """Return whether Harbor counts a reward with it; older versions do not record that."""
        decided = decoded(_POLICY, self.policy) or {}
        return decided.get("has_valid_reward", self.exception_type not in _WITHOUT_REWARD.split())


class _Findings(msgspec.Struct, kw_only=True):
    """Findings of the verifier about a trial, or about one of its steps."""

    step_name: str | None = None
    verifier_result: _Rewards | None = None
    exception_info: _Exception | None = None
    agent_result: msgspec.Raw = msgspec.Raw(b"")

    @property
    def parts(self) -> dict[str, float]:
        rewards = {} if self.verifier_result is None else self.verifier_result.rewards or {}
        return {name: value for name, value in rewards.items() if value is not None}

    @property
    def reward(self) -> float | None:
        """The reward named ``reward``, else the only one; several others have no sum."""
        only = next(iter(self.parts.values())) if len(self.parts) == 1 else None
        return self.parts.get("reward", only)

    @property
    def exceptions(self) -> list[_Exception]:
        return [] if self.exception_info is None else [self.exception_info]

    @property
    def broken(self) -> str | None:
        """The type of the first exception with which no reward counts."""
        breaking = (one for one in self.exceptions if not (self.parts and one.has_valid_reward))
        return next((one.exception_type for one in breaking), None)


class _Config(msgspec.Struct):
    job_id: str | None = None
    trials_dir: str | None = None


class TrialResult(_Findings, kw_only=True):
    """The result of one run of Harbor, which it calls a trial."""

    trial_name: str
    id: str | None = None
    task_name: str | None = None
    source: str | None = None
    config: msgspec.Raw = msgspec.Raw(b"")
    step_results: list[_Findings] | None = None

    @property
    def exceptions(self) -> list[_Exception]:
        return [*super().exceptions, *(one for step in self.step_results or () for one in step.exceptions)]

    def names(self, step: str | None) -> list[str]:
        """Return the job, the trial, and the step of it."""
        config = decoded(_CONFIG, self.config) or _Config()
        job = config.job_id or PurePosixPath(config.trials_dir or "").name
        return [name for name in (job, self.trial_name, self.id, step) if name]

    def of(self, step: str | None) -> _Findings:
        """Return the findings about a step; None = about the trial."""
        steps = self.step_results or ()
        return next((one for one in steps if step and one.step_name == step), self)


_TRAJECTORY: Final = msgspec.json.Decoder(_Trajectory)
_METRICS: Final = msgspec.json.Decoder(_Metrics | None)
_TOTALS: Final = msgspec.json.Decoder(_Totals | None)
_WRITTEN: Final = msgspec.json.Decoder(_Written)
_STEP_EXTRA: Final = msgspec.json.Decoder(_StepExtra)
_AGENT_EXTRA: Final = msgspec.json.Decoder(_AgentExtra)
_RESULT_OF: Final = msgspec.json.Decoder(TrialResult)
_CONFIG: Final = msgspec.json.Decoder(_Config)


def _claims(head: Head) -> bool:
    return {"schema_version", "steps"} <= head.keys and b'"ATIF-v' in head.start


def trajectory_of(path: Path) -> Path | None:
    """Return the trajectory that a trial's result belongs to, or None for another file."""
    if path.name != RESULT:
        return None
    trial = path.parent
    steps = sorted(trial.glob(f"{_STEPS}/*/{_AGENT}/{_TRAJECTORY_FILE}"))
    paths = (trial / _TRAJECTORY_FILE, trial / _AGENT / _TRAJECTORY_FILE, *steps)
    return next((path for path in paths if path.is_file()), None)


def is_of_trial(trajectory: Path) -> bool:
    """Return whether the folder of a trajectory is that of one trial's agent."""
    return trajectory.parent.name == _AGENT or any(path.is_file() for path in _result_paths(trajectory))


def refuse_simulated_user(path: Path, file: str) -> None:
    """Raise `UnreadableSource` for a file of a trial's simulated user, whose calls are not the agent's."""
    trial = next((one.parent for one in path.parents if one.name == USER_AGENT), None)
    if trial is not None and any((trial / name).is_file() for name in _OF_TRIAL):
        raise UnreadableSource(
            f"A simulated user's file holds no runs: its prompts and calls are not the agent's ({file}).",
            next_step="Import the trial: what the agent did is read there.",
        )


def left_out(file: str) -> Skipped:
    """Return why a trajectory makes no run."""
    return Skipped(
        file=file,
        reason="The trajectory is the same work as the agent's own session, whose runs count.",
        next_step="Nothing is missing: its task and its reward were read.",
    )


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    files = _Trajectories(reading)
    entries = [*read(NAME, reading, progress, files.record)]
    own, others = files.sessions_of([one for one in entries if isinstance(one, Run)])
    if own:
        yield left_out(reading.file)
    for entry in entries:
        if isinstance(entry, Episode) and own:
            yield replace(entry, runs=own)
        elif not isinstance(entry, Run | Outside) or not (own or files.is_sub_agent):
            yield entry
    yield from files.remarks(has_runs=not own)
    if others:
        what = f"{number_of(len(others), 'run')} may count twice: the sessions below the trajectory are not its own"
        yield Remark(file=reading.file, text=f"{what} ({reading.file}).")


class _Trajectories:
    """Trajectories of one file, with the result and the other files that belong to them."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._lists = DeclaredLists()
        self._step = _step_of(reading.path)
        self._result = _result(reading.path, reading.limits)
        self._repeats: dict[str, int] = {}
        self._unknown = Unknown()
        self.is_sub_agent = False

    def sessions_of(self, runs: Sequence[Run]) -> tuple[tuple[str, ...], set[str]]:
        """Return the runs of the agent's own sessions below a trial's trajectory, and those of other ids."""
        path = self._reading.path
        is_compared = is_of_trial(path) and runs and not self.is_sub_agent
        sources = self._reading.sessions.get(path.parent.resolve(), ()) if is_compared else ()
        sessions: dict[tuple[str, str | None], list[Run]] = {}
        for source in sources:
            for run in source.entries():
                if isinstance(run, Run) and not run.empty:
                    sessions.setdefault((source.file, run.session), []).append(run)
        own, others = parted(sessions.values(), lambda session: not _contains(session, runs))
        uids = dict.fromkeys(run.uid for session in own for run in session)
        apart = {one.uid for session in others for one in session if one.session != runs[0].session}
        return tuple(uids), apart - uids.keys()

    def remarks(self, *, has_runs: bool) -> Iterator[Skipped | Remark]:
        yield from self._unknown.remarks(self._reading.file) if has_runs else ()
        file, n_repeats = self._reading.file, sum(self._repeats.values())
        if self.is_sub_agent:
            yield alone(file)
        elif n_repeats and has_runs:
            repeats = number_of(n_repeats, "step")
            yield Remark(
                file=file, text=f"{repeats} with the usage of the step before counted once ({file})."
            )

    def record(self, raw: bytes) -> Record:
        trajectory = self._decoded(raw)
        own, others = parted(trajectory.uncopied_steps, lambda step: step.agent[0])
        self._unknown.spends.clear()
        used = [*trajectory.used(self._unknown), *self._used_by_sub_agents(trajectory)]
        rows = merged(row for one in used for row in one.rows)
        own_rows = [row for row in rows if row.owner == "agent"]
        times = [step.timestamp for step in own if step.timestamp is not None]
        began, ended = (utc_ms_of(time)[0] for time in (times[0], times[-1])) if times else (None, None)
        names = [] if self._result is None else self._result.names(self._step)
        ids = [one for one in (*names, trajectory.session_id, trajectory.trajectory_id) if one]
        if ids and not names:
            ids.append(_beginning(own))
        self._repeats["/".join(ids)] = sum(one.is_repeat for one in used)
        self.is_sub_agent |= trajectory.agent.is_sub_agent
        tools = bytes(trajectory.agent.tool_definitions)
        record = Record(
            messages=[message for step in own for message in step.messages()],
            declared=None if tools in {b"null", b"[]"} else self._lists.inventory(tools),
            identity=plain("/".join(ids)),
            rank=len(own) + len(others),
            session=plain(trajectory.session_id),
            model=heaviest(own_rows) or trajectory.agent.model_name,
            usage=usage_of(own_rows),
            spent=rows,
            duration_ms=None if began is None or ended is None or ended < began else ended - began,
            ended_at=times[-1] if times else None,
        )
        return record if trajectory.agent.is_sub_agent else self._judged(record)

    def _judged(self, record: Record) -> Record:
        """Return a record with the findings of its trial."""
        result = self._result
        if result is None:
            return record
        judged = result.of(self._step)
        task = "/".join(name for name in (result.task_name, self._step) if name)
        return dataclasses.replace(
            record,
            reward=judged.reward,
            environment="/".join([NAME, *filter(None, [named(result.source)])]),
            broken=judged.broken,
            task=named(task),
            parts=tuple(
                RewardPart(name=name, value=value) for name, value in judged.parts.items() if name != "reward"
            ),
            is_divided=judged.reward is None and bool(judged.parts),
            status="error" if judged.exceptions else "completed",
        )

    def _used_by_sub_agents(self, trajectory: _Trajectory) -> Iterator[_ReplyUsage]:
        """Yield the usage in those files of sub-agents that are in the trajectory's folder."""
        path, known = self._reading.path, {self._reading.path.name}
        waiting = [trajectory]
        while waiting:
            names = waiting.pop().sub_agent_files - known
            known |= names
            for file in sorted(path.with_name(name) for name in names):
                with suppress(OSError, UnreadableSource, *UNDECODABLE):  # its own import reports the problem
                    with Bytes(file, file.name, self._reading.limits) as content:
                        child = self._decoded(content.document())
                    yield from child.used(self._unknown, "sub-agent")
                    waiting.append(child)

    def _decoded(self, raw: bytes) -> _Trajectory:
        check(raw, self._reading.limits.depth)
        trajectory = _TRAJECTORY.decode(raw)
        if not trajectory.schema_version.startswith("ATIF-v1."):
            raise Flaw(f"is of version {trajectory.schema_version[:20]!a}, and versions ATIF-v1.x are read")
        return trajectory


def _contains(session: Sequence[Run], trajectory: Sequence[Run]) -> bool:
    """Return whether a session has all calls of a trajectory; under its id they may have other names."""
    calls, needed = ([call.name for run in runs for call in run.calls] for runs in (session, trajectory))
    if session[0].session == trajectory[0].session:
        return len(calls) >= len(needed)
    left = iter(calls)
    return bool(needed) and all(name in left for name in needed)


def _beginning(steps: Iterable[_Step]) -> str:
    """Return a digest of the steps up to the first reply: some programs give each trajectory the same ids."""
    start: list[object] = []
    for step in steps:
        message = next(step.messages())
        calls = [(call.name, call.metadata) for call in message.calls]
        start.append((step.source, step.timestamp, message.text, calls))
        if step.source == "agent":
            break
    return digest_of(msgspec.json.encode(start))[:16]


def _step_of(path: Path) -> str | None:
    """Return the step of a trial that a trajectory belongs to, by its folders."""
    return path.parents[1].name if len(path.parents) > 3 and path.parents[2].name == _STEPS else None


def _result_paths(path: Path) -> list[Path]:
    """Return the possible paths of a trajectory's result."""
    folders = [*path.parents[:2], *(path.parents[3:4] if _step_of(path) is not None else ())]
    return [folder / RESULT for folder in folders if folder / RESULT != path]


def _result(path: Path, limits: Limits) -> TrialResult | None:
    """Return the result of a trajectory's trial, or None without such a file or for one of another program."""
    file = next((one for one in _result_paths(path) if one.is_file()), None)
    if file is None:
        return None
    try:
        with Bytes(file, RESULT, limits) as content:
            document = with_nulls(content.document())
        check(document, limits.depth)
        return _RESULT_OF.decode(document)
    except msgspec.ValidationError:
        return None
    except (*UNDECODABLE, OSError) as error:
        raise UnreadableSource(
            f"What lies beside a trajectory must be its result, but {file.name} can't be read ({path.name}).",
            next_step="Copy both files again; without the result the trajectory has no reward.",
        ) from error


FORMAT: Final = Format(
    name=NAME, units=("episode", "turn"), claims=_claims, read=_read, is_document=True, takes_nan=True
)
