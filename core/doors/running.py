"""Running: one request to the agent, from the selection of its prompt to its record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, Literal, NoReturn, ParamSpec, Self, TypeVar

from msgspec import convert
from msgspec.structs import replace

from core.doors.attempts import RunOutcome
from core.doors.chunks import Chunks
from core.doors.messages import MessagePart, parts_of, spent_of, text_of
from core.errors import ArmscopeError, InvalidInput
from core.flows.trials.program import Slot, blocks, pending, session_of
from core.guidance import guidance, quoted
from core.records.achieved import check_achieved
from core.records.answers import RecordAnswer
from core.records.arm import Arm, tool_key
from core.records.bill import Spent
from core.records.candidate import tool_candidate, tool_name
from core.records.limits import MAX_LABEL_CHARS, MAX_TOKENS, keepable, listed, shown, whole
from core.records.limits import text as as_text
from core.records.run import METADATA_CHARS, Call, Status, Usage
from core.records.selection import Selection
from core.records.transcript import Talk
from core.records.trial import Cell, TrialPlan, TrialResults, session_prefix

_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R", bound="RunUnderWay[Any]")

_LOG: Final = logging.getLogger("armscope")
_ATTEMPTS: Final = 3
"""Attempts of a trial's block that has a fault, or whose loop was left."""


def _harmless(method: Callable[Concatenate[_R, _P], None]) -> Callable[Concatenate[_R, _P], None]:
    """Return a method of the block that leaves a bad value out of the run instead of raising."""

    @wraps(method)
    def guarded(self: _R, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as problem:
            self._ignore(f"run.{method.__name__.lstrip('_')}", problem)

    return guarded


def _raised(where: str, problem: Exception) -> NoReturn:  # noqa: ARG001 - as any way to ignore
    raise problem


class RunUnderWay(Generic[_T]):
    """A request while it is answered; `Learner.run` makes it, and the end of its ``with`` block records it.

    Inside the block ``selection`` has the decisions, ``tools`` the included definitions of the caller, and ``arms``
    the ids of all included arms. ``guidance`` describes left-out tools for the model (None = no text). After the
    block, ``outcome`` is ``recorded``, ``spooled`` (it waits on disk, and is sent later), ``rejected`` (it is kept on
    disk with the reason) or ``dropped`` (it is lost). ``answer`` is the answer of the record, if there was one.

    A method that gets None adds nothing. A bad value is left out, logged once and counted in ``ignored``. It raises
    only with ``on_error`` "raise".
    """

    def __init__(
        self,
        offered: Iterable[_T] | None,
        *,
        uid: str,
        begin: Callable[[Sequence[_T] | None], Selection],
        end: Callable[[RunUnderWay[_T], Status], tuple[RecordAnswer | None, RunOutcome]],
        named: Collection[str] = (),
        ignore: Callable[[str, Exception], None] = _raised,
    ) -> None:
        self.uid = uid
        self.calls: list[Call] = []
        self.loads: list[str] = []
        self.texts: list[str] = []
        self.talk = Talk()
        self.prompt: str | None = None
        self.usage: Usage | None = None
        self.stated: float | None = None
        self.spent: list[Spent] = []
        self.answer: RecordAnswer | None = None
        self.outcome: RunOutcome | None = None
        self.later: list[Callable[[], None]] = []
        self.ignored = 0
        self.shown_arms: dict[str, Arm] | None = None
        self.always: Collection[str] = ()
        self._read: dict[int, object] = {}
        self._chunks = Chunks()
        self._streamed: set[tuple[str, str]] = set()
        self._offered = None if offered is None else list(offered)
        self._begin = begin
        self._end = end
        self._named = named
        self._on_bad = ignore
        self._selection: Selection | None = None

    def __enter__(self) -> Self:
        if self._selection is not None:
            raise InvalidInput(
                "A run must be entered once, got a second time.",
                next_step="Make another run: learner.run(…).",
            )
        self._selection = self._begin(self._offered)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        self.from_messages([])  # what is left of a stream
        try:
            self.answer, self.outcome = self._end(self, _status(kind))
        except Exception as own:
            if problem is None:
                raise
            # The exception of the block is the one that its caller must see.
            _LOG.warning("Run %r is not recorded: %s", self.uid, own)
        return False

    @property
    def selection(self) -> Selection:
        """The selection."""
        if self._selection is None:
            raise InvalidInput(
                "A run must be under way before it has a selection, got one that is not.",
                next_step="Use it in a with block: with learner.run(…) as run: …",
            )
        return self._selection

    @property
    def arms(self) -> tuple[str, ...]:
        """Ids of the included arms."""
        return self.selection.included

    @property
    def tools(self) -> list[_T]:
        """Included arms as the caller offered them; empty where every known arm was offered.

        A tool that was left out is among them once the model has called it.
        """
        return [] if self._offered is None else self.selection.keep(self._offered, called=self._called)

    @property
    def _called(self) -> set[str]:
        return {call.name for call in self.calls}

    @property
    def guidance(self) -> str | None:
        """Text about left-out tools for the system prompt; one that the model called is left out no more."""
        back = self.selection.recalled({*self._called, *self.always})
        left = [arm for arm in self.selection.nameable if arm not in back]
        return guidance(left) if back else self.selection.guidance

    @_harmless
    def shows(self, tools: Iterable[object] | None) -> None:
        """Note the tools of one request as the model received it, if they may differ from ``run.tools``.

        Then the run has those that some request had. A tool that was in none is left out.

        >>> import tempfile
        >>> from core import open_learner
        >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
        ...     with learner.run(["tool:web:search", "tool:web:fetch"], uid="r1") as run:
        ...         run.shows(["tool:web:search"])
        ...     sorted((one.arm, one.state) for one in learner.run("r1").arms)
        [('tool:web:fetch', 'out'), ('tool:web:search', 'in full')]
        """
        if tools is None:
            return
        decided = self.selection.tools
        recalled = self.selection.recalled(self._called)
        self.shown_arms = {} if self.shown_arms is None else self.shown_arms
        for arm in (_shown_arm(tool) for tool in listed("tools", tools)):
            key = decided[arm.name].arm if arm.type == "tool" and arm.name in decided else arm.key
            if key not in recalled:  # it came by its name
                self.shown_arms.setdefault(key, replace(arm, key=key))

    def refusal(self, name: str) -> str | None:
        """Return the answer to a call of a tool that a person excluded; None for every other tool."""
        decision = self.selection.tools.get(name)
        if decision is None or decision.reason != "excluded" or decision.arm in (self.shown_arms or ()):
            return None
        return f"The tool {quoted(name)} is not offered."

    def _ignore(self, where: str, problem: Exception) -> None:
        self.ignored += 1
        self._on_bad(where, problem)

    @_harmless
    def afterwards(self, work: Callable[[], None] | None) -> None:
        """Call a function after the run is recorded; if that is later, in the background."""
        if work is None:
            return
        if not callable(work):
            raise InvalidInput(
                f"Work after a run must be a function, got {shown(work)}.",
                next_step="Pass a function without parameters.",
            )
        self.later.append(work)

    @_harmless
    def called(self, name: str | None, arguments: object = "") -> None:
        """Add a tool call by the tool's name or arm; detectors read the first 200 characters of its arguments.

        They are stored with the transcript, only with the setting ``keep_texts``. An arm of another type than a tool
        is added as by `loaded`.
        """
        if name is None:
            return
        decisions = () if self._selection is None else self._selection.decisions
        arms = (Arm(key=one) for one in (*self._named, *(one.arm for one in decisions)) if one == name)
        arm = next(arms, None)
        if arm is not None and arm.type != "tool":
            self.loaded(name)
        else:
            self._call(name if arm is None else arm.name, "" if arguments is None else text_of(arguments))

    def _call(self, name: str, arguments: str, identity: str = "") -> None:
        known = keepable(as_text("A call's name", name, MAX_LABEL_CHARS))
        written = keepable(arguments)
        self.calls.append(Call(name=known, metadata=written[:METADATA_CHARS]))
        self.talk.call(known, written, identity)

    @_harmless
    def loaded(self, arm: str | None) -> None:
        """Add an arm of ``named`` that the agent loaded otherwise than by a call of its name, such as a skill."""
        if arm is None:
            return
        if (key := as_text("A loaded arm", arm)) not in self._named:
            raise InvalidInput(
                f"A loaded arm must have been in the prompt by name, got {shown(key)}.",
                next_step="Name it in named=[…] of learner.run.",
            )
        if key not in self.loads:
            self.loads.append(key)

    @_harmless
    def asked(self, text: str | None) -> None:
        """Set the text of the request; it is stored, up to 100,000 characters, only with the setting ``keep_texts``.

        >>> run = RunUnderWay(None, uid="r", begin=lambda _: None, end=lambda *_: None)
        >>> run.asked("Sum it up")
        >>> run.prompt
        'Sum it up'
        """
        if text is not None:
            self.prompt = keepable(as_text("A request", text))
            self.talk.add("user", self.prompt)

    @_harmless
    def said(self, text: str | None) -> None:
        """Add a text of the agent; detectors read it for skills, files and memories.

        The last text is stored as the answer, up to 100,000 characters, only with the setting ``keep_texts``.
        """
        if text is not None:
            written = keepable(as_text("A text of the agent", text))
            self.texts.append(written)
            self.talk.add("agent", written)

    @_harmless
    def achieved(self, value: float | None) -> None:
        """Set what the run achieved, from 0 to 1; the last value counts.

        >>> run = RunUnderWay(None, uid="r", begin=lambda _: None, end=lambda *_: None)
        >>> run.achieved(0)
        >>> run.stated
        0.0
        """
        if value is not None:
            self.stated = check_achieved(value)

    @_harmless
    def used(self, /, usage: object = None, *, model: str | None = None, **parts: int | None) -> None:
        """Add the usage of one answer of a model: a `Usage`, an SDK's usage, or its parts by name.

        ``model`` is the model that answered, where it is not the run's.

        >>> run = RunUnderWay(None, uid="r", begin=lambda _: None, end=lambda *_: None)
        >>> run.used({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
        >>> run.used(input=1, output=1)
        >>> run.usage.tokens
        17
        """
        if usage is not None or any(part is not None for part in parts.values()):
            self._use(parts if usage is None else usage, model)

    def _use(self, usage: object, model: str | None) -> None:
        added, row = spent_of(usage, None if model is None else keepable(as_text("A model", model)))
        total = added if self.usage is None else _sum(self.usage, added)
        self.spend(row)
        self.usage = total

    def spend(self, row: Spent) -> None:
        """Add tokens to the bill alone; raises `InvalidInput` where a run can't have that many."""
        whole("A run's tokens", sum(sum(one.counts) for one in (*self.spent, row)), MAX_TOKENS)
        self.spent.append(row)

    @_harmless
    def from_messages(self, messages: object) -> None:
        """Add the calls, texts and usage of an answer of the model, or of a list of messages.

        Understood are answers and messages of OpenAI (chat completions and Responses), litellm, Anthropic, LangChain,
        pydantic-ai, google-genai, ADK and the Claude Agent SDK, and the chunks or events of their streams. Of a list
        only messages since the user's last text are read. A message object counts once, and so does a chunk. An
        object of another form is left out, and its type logged once.

        >>> run = RunUnderWay(None, uid="r", begin=lambda _: None, end=lambda *_: None)
        >>> reply = {"role": "assistant", "content": [{"type": "tool_use", "name": "add", "input": {"a": 2}}]}
        >>> run.from_messages([{"role": "user", "content": "2 + 2?"}, {**reply, "usage": {"output_tokens": 7}}])
        >>> run.prompt, [call.name for call in run.calls], run.usage.output
        ('2 + 2?', ['add'], 7)
        """
        if messages is None:
            return
        parts = parts_of(messages, self._chunks)
        for part in parts:
            if id(part.owner) in self._read or self._repeats(part):
                continue
            self._from_messages(part)
        self._read |= {id(part.owner): part.owner for part in parts}

    def _repeats(self, part: MessagePart) -> bool:
        """Return whether a message repeats a call or a text that came in chunks."""
        key = (part.kind, part.identity or part.text)
        if self._chunks.is_joined(part.owner):
            self._streamed.add(key)
            return False
        return part.kind in {"call", "text"} and bool(key[1]) and key in self._streamed

    @_harmless
    def _from_messages(self, part: MessagePart) -> None:
        if part.problem is not None:
            self._ignore(f"run.from_messages ({type(part.owner).__name__})", part.problem)
            return
        if part.call is not None:
            self._call(part.call.name, part.arguments, part.identity)
        elif part.kind == "request":
            self.asked(part.text)
        elif part.kind == "text":
            self.said(part.text)
        elif part.kind == "result":
            self.talk.result(keepable(part.text), part.identity)
        else:
            self._use(part.usage, part.model)


def arm_of(arm: object) -> Arm:
    """Return an offered arm: an arm, an id, or a tool as an SDK defines it."""
    if isinstance(arm, Arm):
        return arm
    return Arm(key=arm) if isinstance(arm, str) else tool_candidate(arm)


def _shown_arm(tool: object) -> Arm:
    """Return the arm of a tool in a request; its cost is unknown where JSON can't hold its definition."""
    try:
        return arm_of(tool)
    except ArmscopeError:
        return Arm(key=tool_key(tool_name(tool)))


def _status(kind: type[BaseException] | None) -> Status:
    """Return the status of a block: an `Exception` is an error, another end from outside is not."""
    if kind is None:
        return "completed"
    return "error" if issubclass(kind, Exception) else "aborted"


def _sum(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages; a total that only one of them has is the sum of their known tokens."""
    totals = [usage.tokens for usage in (one, other) if usage.tokens is not None]
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        total=sum(totals) if totals else None,
    )


class TrialRun(Generic[_T]):
    """One run of a trial's loop: its task, and the arm that it leaves out (``hidden``, None = none).

    Give ``session`` to the agent as its session: so its recorded runs are known to be of the trial.
    """

    def __init__(self, task: _T, hidden: str | None, cell: dict[str, Any]) -> None:
        self.task, self.hidden = task, hidden
        self.repeat: int = cell["repeat"]
        self.session: str = cell["session"]
        self._cell = cell
        self.failed("no outcome was stated")

    def achieved(self, value: float) -> None:
        """State the grade of the run, from 0 to 1; True is 1."""
        grade = check_achieved(int(value) if isinstance(value, bool) else value)
        self._cell |= {"end": "ended", "error": "", "grade": grade}

    def used(self, usage: Usage) -> None:
        """State the tokens of the run."""
        self._cell["tokens"] = usage.tokens

    def called(self, n_calls: int = 1, *, listed: bool | None = None) -> None:
        """Add calls of the arm; with none, ``listed`` states whether the agent had it."""
        used = self._cell.get("used", 0) + n_calls
        words = {None: "unknown", True: "listed", False: "absent"}
        self._cell |= {"used": used, "presence": "called" if used else words[listed]}

    def failed(self, why: str) -> None:
        """Mark a fault outside the agent, such as a rate limit: the block runs again on both sides."""
        self._cell |= {"end": "fault", "error": why[:MAX_LABEL_CHARS], "grade": None}


def missing_runs(
    plan: TrialPlan,
    tasks: Mapping[str, _T],
    done: Collection[str],
    tried: Mapping[str, int],
    *,
    read: Callable[[TrialResults], object],
    now_ms: Callable[[], int],
) -> Iterator[TrialRun[_T]]:
    """Yield the runs of a trial whose tasks aren't done; read each block that is whole or has no attempt left.

    ``tried`` has the attempts that tasks had before. A block whose loop is left is read too, and its run is a fault:
    so it runs again as a whole, and a failure can't be tried until it succeeds.
    """
    prefix, arm = session_prefix(plan), plan.arms[0]
    every = blocks([one.name for one in plan.tasks], plan.arms, plan.repeats, plan.seed)
    for block in [one for one in every if one[0].task not in done]:
        cells: dict[Slot, dict[str, Any]] = {}
        attempts = range(tried.get(block[0].task, 0) + 1, _ATTEMPTS + 1)
        try:
            while slots := pending([block], cells, attempts):
                for slot in slots:
                    own = {"session": session_of(prefix, slot), "model": plan.model, "at_ms": now_ms()}
                    cell = slot._asdict() | own
                    run = TrialRun(tasks[slot.task], arm if slot.side == "without" else None, cell)
                    cells[slot] = cell
                    yield run
        except GeneratorExit:
            run.failed("stopped")
            raise
        finally:
            if cells:
                known = tuple(convert(one, Cell) for one in cells.values())
                read(TrialResults(source="python", cells=known, arm=arm, harness=plan.harness))
