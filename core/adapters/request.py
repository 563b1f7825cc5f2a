"""Request: one request to the agent of a framework, from its first list of tools to its end.

The learner selects from the first list. Tools of later lists and tools without a name stay in the prompt. A left-out
tool returns to it once the model has called it. `Request.shows` notes the tools that the model received.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.messages import parts_of, spent_of
from core.doors.protocol import LearnerProtocol, RunOptions
from core.doors.running import RunUnderWay
from core.errors import ArmscopeError, InvalidInput
from core.records.arm import Arm, tool_key
from core.records.bill import Owner
from core.records.candidate import tool_candidate
from core.records.limits import MAX_LABEL_CHARS, keepable, text

_T = TypeVar("_T")

AnyLearner = LearnerProtocol | AsyncLearnerProtocol
"""A `Learner`, a `Client`, or one of their asynchronous forms."""

_LOG: Final = logging.getLogger("armscope")


class Requests:
    """The learner and the options of all requests of an agent. Wrong options raise here."""

    def __init__(self, learner: AnyLearner, options: RunOptions) -> None:
        if options.get("uid") is not None:
            raise InvalidInput(
                f"A uid must be of one request, got {options['uid']!r} for all of them.",
                next_step="Leave it out: each request gets its own.",
            )
        source: Any = learner  # isinstance does not know the protocols
        self.blocking: LearnerProtocol = getattr(source, "learner", source)
        is_blocking = self.blocking is source
        self.awaited: AsyncLearnerProtocol = AsyncLearnerProtocol(source) if is_blocking else source
        self.options = options
        self.blocking.run([], **options)


class Request:
    """One request; ``session`` is the framework's thread, unless the options name one.

    ``only_known`` drops calls of tools that no list had, such as a framework's own tool for the output.
    """

    def __init__(
        self, requests: Requests, *, uid: str | None = None, session: object = None, only_known: bool = True
    ) -> None:
        self.session = session
        self.has_begun = False
        self._uid = uid
        self._requests = requests
        self._only_known = only_known
        self._lock = threading.Lock()
        self._run: RunUnderWay[Any] | None = None
        self._keys: dict[str, str] = {}
        self._names_shown: set[str] = set()
        self._ranks: dict[str, int] = {}
        self._is_held = False

    @property
    def is_recorded(self) -> bool:
        return self.has_begun and self._run is None

    @property
    def guidance(self) -> str | None:
        """Text about left-out tools for the system prompt."""
        return None if self._run is None else self._run.guidance

    def tools(self, offered: Sequence[_T], *, always: Collection[str] = ()) -> list[_T]:
        """Return the tools of the prompt, the same objects; those named in ``always`` stay."""
        try:
            with self._lock:
                if not self.has_begun:
                    self._begin(offered)
                if self._run is not None:
                    self._run.always = always
            always = {*always, *self._called()}
            ranked = [(self._rank(name_of(tool)), tool) for tool in offered]
            unknown = len(self._ranks)
            included = [(rank, tool) for rank, tool in ranked if rank <= unknown or name_of(tool) in always]
            if self._is_held:
                included.sort(key=lambda pair: pair[0])
            return [tool for _, tool in included]
        except Exception as problem:
            self._log(problem)
            return list(offered)

    async def awaited_tools(self, offered: Sequence[_T], *, always: Collection[str] = ()) -> list[_T]:
        """Return the tools of the prompt, like `tools`; the selection does not block the event loop."""
        work = partial(self.tools, offered, always=always)
        return work() if self.has_begun else await self._requests.awaited.in_thread(work, of_run=True)

    def _called(self) -> Iterator[str]:
        """Yield the names of tools that were left out and called."""
        if (run := self._run) is not None:
            recalled = run.selection.recalled({call.name for call in run.calls})
            yield from (name for name, key in list(self._keys.items()) if key in recalled)

    def shows(self, tools: Iterable[object]) -> None:
        """Note the tools that the model received, except those without a name."""
        if (run := self._run) is None:
            return
        try:
            new = {name: tool for tool in tools if (name := name_of(tool)) and name not in self._names_shown}
            self._names_shown |= new.keys()
            for name in new:
                self._keys.setdefault(name, "")
            run.shows(new.values())
        except Exception as problem:
            self._log(problem)

    def refusal(self, name: str) -> str | None:
        """Return the answer to a call of a tool that a person excluded."""
        return None if self._run is None else self._run.refusal(name)

    def _begin(self, offered: Sequence[object]) -> None:
        self.has_begun = True
        arms: dict[str, Arm] = {}
        for tool in offered:
            if (arm := _arm(tool)) is not None:
                arms.setdefault(arm.key, arm)
                self._keys[name_of(tool)] = arm.key
        options: RunOptions = {**self._requests.options, "uid": self._uid}
        if self.session is not None and (session := self._thread()) is not None:
            options.setdefault("session", session)
        run = self._requests.blocking.run(list(arms.values()), **options)
        selection = run.__enter__().selection
        ranked, left_out = enumerate(selection.decisions), len(selection.decisions) + 1
        self._ranks = {one.arm: rank if one.included else left_out for rank, one in ranked}
        self._is_held = selection.held_since_ms is not msgspec.UNSET
        self._run = run

    def _thread(self) -> str | None:
        """Return the framework's thread as a session, or None if it can't be one."""
        try:
            return keepable(text("session", str(self.session), MAX_LABEL_CHARS))
        except Exception as problem:
            self._log(problem)
            return None

    def _rank(self, name: str) -> int:
        """Return the rank of a tool; unknown tools come after all included ones, and left-out tools last."""
        return self._ranks.get(self._keys.setdefault(name, ""), len(self._ranks))

    def read(self, messages: object, *, model: str | None = None, owner: Owner = "agent") -> None:
        """Add the calls, texts and usage of messages; ``model`` is the model of those that name none.

        Messages of a sub-agent add only their tokens, and only to the bill.
        """
        if (run := self._run) is None:
            return
        try:
            if owner == "agent":
                run.from_messages(messages if isinstance(messages, list) else [messages])
            else:
                for one in parts_of(messages):
                    if one.kind == "usage":
                        run.spend(replace(spent_of(one.usage, one.model)[1], owner=owner))
            run.spent = [replace(row, model=row.model or model) for row in run.spent]
        except Exception as problem:
            self._log(problem)

    def end(self, problem: BaseException | None = None) -> None:
        """Record the run, once; with a ``problem`` as a failed one. Without any list the run has no tools."""
        if not self.has_begun:
            self.tools([])
        with self._lock:
            run, self._run = self._run, None
        if run is not None:
            run.from_messages([])
            if self._only_known:
                run.calls = [call for call in run.calls if call.name in self._keys]
            run.__exit__(None if problem is None else type(problem), problem, None)

    async def awaited_end(self, problem: BaseException | None = None) -> None:
        """Record the run; a task that is cancelled meanwhile does not stop it."""
        await asyncio.shield(self._requests.awaited.in_thread(partial(self.end, problem), of_run=True))

    # As a block it ends with the block, as a failed one after an exception.

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, problem: BaseException | None, _trace: object) -> None:
        self.end(problem)

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, _: object, problem: BaseException | None, _trace: object) -> None:
        await self.awaited_end(problem)

    def _log(self, problem: Exception) -> None:
        if self._requests.options.get("on_error") == "raise":
            raise problem
        _LOG.warning("A request continues without armscope: %r", problem)


def name_of(tool: object) -> str:
    """Return the name of a tool, "" if it has none."""
    source: Any = tool.get("function", tool) if isinstance(tool, Mapping) else tool
    is_json = isinstance(source, Mapping)
    name = source.get("name") if is_json else getattr(source, "name", getattr(source, "__name__", None))
    return name if isinstance(name, str) else ""


def _arm(tool: object) -> Arm | None:
    """Return the arm of a tool, or None without a name, such as for a provider's own tool."""
    try:
        return tool_candidate(tool)
    except ArmscopeError:
        return None
    except Exception:  # a schema that can't be written as JSON; then its cost is unknown
        return Arm(key=tool_key(name_of(tool)))
