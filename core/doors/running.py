"""Running: one request to the agent, from what goes into its prompt to what is recorded of it at its end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar

from core.errors import InvalidInput
from core.records.answers import RecordAnswer
from core.records.run import METADATA_CHARS, Call, Status, Usage
from core.records.selection import Selection

_T = TypeVar("_T")

_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "input": ("input", "input_tokens", "prompt_tokens"),
    "output": ("output", "output_tokens", "completion_tokens"),
    "cache_read": ("cache_read", "cache_read_input_tokens", "cache_read_tokens"),
    "cache_write": ("cache_write", "cache_creation_input_tokens", "cache_write_tokens"),
    "total": ("total", "total_tokens"),
}
"""How SDKs call the parts of a usage."""


class RunUnderWay(Generic[_T]):
    """A request while it is answered. `Learner.run` makes it; it is recorded when its ``with`` block ends.

    Inside the block ``selection`` is what was chosen, ``tools`` are those of the caller's own definitions that are
    in, ``arms`` the ids of all that is in, ``guidance`` what to tell the model of tools left out (None = nothing).
    After it, ``answer`` is what the record came to.
    """

    def __init__(
        self,
        offered: Iterable[_T] | None,
        *,
        uid: str | None,
        begin: Callable[[Sequence[_T] | None], Selection],
        end: Callable[[RunUnderWay[_T], Status], RecordAnswer],
    ) -> None:
        self.uid = str(uuid.uuid4()) if uid is None else uid
        self.calls: list[Call] = []
        self.texts: list[str] = []
        self.prompt: str | None = None
        self.usage: Usage | None = None
        self.answer: RecordAnswer | None = None
        self._offered = None if offered is None else list(offered)
        self._begin = begin
        self._end = end
        self._selection: Selection | None = None
        self._later: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        if self._selection is not None:
            raise InvalidInput(
                "A run must be entered once, got a second time.", next_step="Make another: learner.run(…)."
            )
        self._selection = self._begin(self._offered)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        self.answer = self._end(self, _status(kind))
        for work in self._later:
            work()
        return False

    @property
    def selection(self) -> Selection:
        """What was chosen."""
        if self._selection is None:
            raise InvalidInput(
                "A run must be under way before it says what was chosen.",
                next_step="Use it in a with block: with learner.run(…) as run: …",
            )
        return self._selection

    @property
    def arms(self) -> tuple[str, ...]:
        """Ids of the arms that are in."""
        return self.selection.included

    @property
    def tools(self) -> list[_T]:
        """Of what was offered, what is in, as the caller offered it; nothing where every known arm was."""
        return [] if self._offered is None else self.selection.keep(self._offered)

    @property
    def guidance(self) -> str | None:
        """What the system prompt should say of tools left out."""
        return self.selection.guidance

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do something once the run is recorded."""
        self._later.append(work)

    def called(self, name: str, arguments: object = "") -> None:
        """The agent called a tool; of its arguments the first 200 characters are read, and not stored."""
        said = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        self.calls.append(Call(name=name, metadata=said[:METADATA_CHARS]))

    def asked(self, text: str) -> None:
        """The person asked this; it is kept, up to 100,000 characters, only where the setting ``keep_texts`` is on.

        >>> run = RunUnderWay(None, uid="r", begin=lambda _: None, end=lambda *_: None)
        >>> run.asked("Sum it up")
        >>> run.prompt
        'Sum it up'
        """
        self.prompt = text

    def said(self, text: str) -> None:
        """The agent wrote something; it is read for skills, files and memories. What it wrote last is kept as its
        answer, up to 100,000 characters, only where the setting ``keep_texts`` is on.
        """
        self.texts.append(text)

    def used(self, usage: object = None, **parts: int) -> None:
        """Add the usage of one answer of the model: a `Usage`, what an SDK calls one, or its parts by name.

        >>> run = RunUnderWay(None, uid="r", begin=lambda _: None, end=lambda *_: None)
        >>> run.used({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
        >>> run.used(input=1, output=1)
        >>> run.usage.tokens
        17
        """
        more = usage if isinstance(usage, Usage) else _usage(parts if usage is None else usage)
        self.usage = more if self.usage is None else _sum(self.usage, more)


def _status(kind: type[BaseException] | None) -> Status:
    """How a block ended: an exception is an error, being stopped from outside is not."""
    if kind is None:
        return "completed"
    return "error" if issubclass(kind, Exception) else "aborted"


def _usage(told: object) -> Usage:
    found: dict[str, Any] = {}
    for part, names in _PARTS.items():
        values = (
            told.get(name) if isinstance(told, Mapping) else getattr(told, name, None) for name in names
        )
        value = next((one for one in values if one is not None), None)
        if value is not None:
            found[part] = value
    if not found:
        raise InvalidInput(
            f"A usage must name its tokens (input, output, cache_read, cache_write, total), got {str(told)[:80]!r}.",
            next_step="Write it like run.used(input=900, output=120).",
        )
    return Usage(**found)


def _sum(one: Usage, other: Usage) -> Usage:
    """Both; a total that only one of them names is the sum of what is known of each."""
    totals = [usage.tokens for usage in (one, other) if usage.tokens is not None]
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        total=sum(totals) if totals else None,
    )
