"""A run: one request to the agent, with the arms of its prompt and its outcome.

A format or caller makes a `Run`. Detectors read its texts and call metadata, which are not stored. Its prompt and
last reply are stored where the learner keeps texts. Everything else is stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Final, Literal, NamedTuple, get_args
from zlib import crc32

import msgspec
from msgspec.structs import force_setattr, replace

from core.errors import InvalidInput
from core.records.achieved import check_achieved
from core.records.arm import Arm, check_key, token_cost_of
from core.records.bill import Spent, checked_rows, disjoint
from core.records.limits import (
    LAST_MS,
    MAX_COUNT,
    MAX_DURATION_MS,
    MAX_LABEL_CHARS,
    MAX_TOKENS,
    NUL,
    Count,
    Duration,
    Label,
    Millis,
    flag,
    number,
    one,
    one_of,
    several,
    shown,
    text,
    texts,
    whole,
)
from core.records.selection import Selection
from core.records.transcript import Message, Talk

Unit = Literal["prompt", "turn", "episode"]
OTHER_UNITS: Final[dict[Unit, tuple[Unit, ...]]] = {
    "prompt": ("episode",),
    "turn": ("episode",),
    "episode": ("turn", "prompt"),
}
"""Units in which a source can't be here beside this one: its calls would count twice."""
RunClass = Literal["baseline", "selected", "passive", "fallback", "imported", "trial"]
Status = Literal["completed", "aborted", "error"]
InventoryKind = Literal["declared", "supplied", "inferred"]
Phase = Literal["active", "passive"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
RUN_CLASSES: Final[tuple[RunClass, ...]] = get_args(RunClass)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
INVENTORY_KINDS: Final[tuple[InventoryKind, ...]] = get_args(InventoryKind)

METADATA_CHARS: Final = 200
OFFERED: Final = "offer"
"""Format of runs that arrive arm by arm: a selection through a door, and its reports."""

MESSAGES: Final = b"\x01"
MARKED_BYTES: Final = 4_000
PLACE: Final = b"\x02"
_ROLLOUT: Final = b"\x03"
_STEPS: Final = b"\x04"
_HEAD_BYTES: Final = 3
_MARK_BYTES: Final = 4
_SAMPLED: Final = 64
FIRST: Final = 8
"""Number of first lines in the sample of a file: a much larger one begins with them, and has other lowest lines."""

_LABELS: Final = ("source", "session", "provider", "model", "channel")
_WORDS: Final = (("unit", UNITS), ("run_class", RUN_CLASSES), ("status", STATUSES))
_COUNTS: Final = (("ended_at_ms", LAST_MS), ("duration_ms", MAX_DURATION_MS), ("prompt_chars", MAX_COUNT))

_TEXTS: Final = (
    ("texts", None),
    ("excluded", None),
    ("referenced", None),
    ("unobserved", None),
    ("loaded", None),
    ("typed", None),
    ("not_offered", MAX_LABEL_CHARS),
)


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call: its exact name and at most 200 characters of its arguments; checked with its run."""

    name: Label
    metadata: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of a run, as its source counts them; a part the source does not name is 0.

    >>> Usage(input=10, output=5, cache_read=100).tokens
    115
    >>> Usage(input=10, output=5, total=20).tokens
    20
    >>> Usage().tokens is None  # all zero means unknown, never 0
    True
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write", "total"):
            value = getattr(self, name)
            if (type(value) is not int or not 0 <= value <= MAX_TOKENS) and not (
                value is None and name == "total"
            ):
                force_setattr(self, name, whole(f"usage.{name}", value, MAX_TOKENS))

    @property
    def tokens(self) -> int | None:
        """The source's total, else the sum of the parts; None = unknown."""
        parts = self.input + self.output + self.cache_read + self.cache_write
        return self.total or parts or None


def beyond(usage: Usage | None, rows: tuple[Spent, ...], model: str | None) -> tuple[Spent, ...]:
    """Return the rows of a bill; () where the usage alone gives the same row.

    >>> beyond(Usage(input=9, output=1), (Spent(model="m", input=9, output=1),), "m")
    ()
    """
    if len(rows) != 1 or rows[0].owner != "agent" or rows[0].model not in {None, model}:
        return rows
    return () if (replace(rows[0], model=None),) == rows_of_usage(usage) and not rows[0].total else rows


def rows_of_usage(usage: Usage | None) -> tuple[Spent, ...]:
    """Return a usage as the row of a bill; a total with another split is a lower bound."""
    if usage is None or usage.tokens is None:
        return ()
    row = disjoint(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.tokens)
    return (Spent(total=usage.tokens) if row is None else row,)


def received(run: Run, shown_arms: Mapping[str, Arm] | None = None) -> Run:
    """Return a run of a selection with the arms that the model received.

    Of the tools ``shown_arms`` were in full; None = as the selection chose. One that was left out and called was
    there by name. One that a person excluded stays out.
    """
    if (selection := run.selection) is None:
        return run
    refused = {one.arm for one in selection.decisions if one.reason == "excluded"}
    arms = {arm.key: arm for arm in run.inventory.arms}
    if shown_arms is not None:
        arms = {key: arm for key, arm in arms.items() if arm.type != "tool" or key in shown_arms}
        arms |= {key: arms.get(key, arm) for key, arm in shown_arms.items() if key not in refused}
    recalled = selection.recalled([call.name for call in run.calls])
    named = {arm.key: arm for arm in run.inventory.named} | {key: _by_name(key) for key in recalled}
    named = {key: arm for key, arm in named.items() if key not in arms}
    out = tuple([one.arm for one in selection.decisions if one.arm not in arms and one.arm not in named])
    if out == run.excluded and len(arms) == len(run.inventory.arms):
        return run
    inventory = Inventory(kind="declared", arms=tuple(arms.values()), named=tuple(named.values()))
    return replace(run, inventory=inventory, excluded=out)


def _by_name(key: str) -> Arm:
    arm = Arm(key=key)
    return replace(arm, token_cost=token_cost_of(arm.name))


class Inventory(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The arms that were in the prompt in full, and how that is known; ``named`` were there by name.

    The cost of an arm by name is that of its name or line. Runs of one source share one Inventory object, so its ids
    are checked and looked up once.
    """

    kind: InventoryKind
    arms: tuple[Arm, ...]
    named: tuple[Arm, ...] = ()

    @property
    def offered(self) -> tuple[Arm, ...]:
        """The arms in full, then those by name."""
        return self.arms + self.named if self.named else self.arms

    def __post_init__(self) -> None:
        force_setattr(self, "kind", one_of("An inventory's kind", self.kind, INVENTORY_KINDS))
        force_setattr(self, "arms", several("An inventory's arms", self.arms, Arm))
        if self.named != ():
            force_setattr(self, "named", several("An inventory's named arms", self.named, Arm))
        keys = [arm.key for arm in self.offered]
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidInput(
                f"An arm must occur once in an inventory, got {twice!r} twice.",
                next_step="List every arm once.",
            )


class History(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Digests of a run, which know it again under other ids.

    ``key`` is that of the program, of its session's messages up to its prompt and of their times; 0 without times.
    ``marks`` begin with their form. In form 1 four bytes follow for each message, its prompt first. In form 2
    (`PLACE`) they name the run's place in its evaluation, and in form 3 they are those of a `Rollout`. In form 4 they
    are steps without an order.
    """

    key: int = 0
    marks: bytes = b""

    def is_of_one(self, marks: bytes) -> bool:
        """Return whether one of two runs begins the other, as far as they can be compared."""
        if marks[:1] == self.marks[:1] == _STEPS:
            return _are_nested(marks, self.marks)
        return marks[:1] != self.marks[:1] or marks.startswith(self.marks) or self.marks.startswith(marks)

    @classmethod
    def of_steps(cls, digests: Iterable[int]) -> History:
        """Return the history of a run whose steps may come in any order."""
        lowest = sampled(digests)
        return cls(marks=_STEPS + struct.pack(f">{len(lowest)}I", *lowest))


def _are_nested(one: bytes, other: bytes) -> bool:
    """Return whether the steps of one run are among those of the other, as far as both are sampled."""
    both = [struct.unpack(f">{len(marks) // _MARK_BYTES}I", marks[1:]) for marks in (one, other)]
    bound = min((steps[-1] for steps in both if len(steps) == _SAMPLED), default=1 << 32)
    first, second = ({step for step in steps if step <= bound} for steps in both)
    return first <= second or second <= first


class Rollout(NamedTuple):
    """A rollout without an id in its file, as digests of lines.

    ``good`` is a sample of the file's lines that did not fail: the lowest, then the first ones among the others.
    ``beside`` are lines of the same task.
    """

    own: int
    failed: bool
    good: tuple[int, ...]
    beside: tuple[int, ...]

    @classmethod
    def of(cls, history: History | None) -> Rollout | None:
        """Return the rollout that marks describe; None for marks of another form."""
        marks = b"" if history is None else history.marks
        n_digests, rest = divmod(len(marks) - _HEAD_BYTES, _MARK_BYTES)
        if marks[:1] != _ROLLOUT or rest or n_digests < 1:
            return None
        failed, n_good, *digests = struct.unpack(f">?B{n_digests}I", marks[1:])
        return cls(digests[0], failed, tuple(digests[1 : 1 + n_good]), tuple(digests[1 + n_good :]))

    def history(self, key: int) -> History:
        """Return the same as marks."""
        digests = (self.own, *self.good, *self.beside)
        packed = struct.pack(f">?B{len(digests)}I", self.failed, len(self.good), *digests)
        return History(key=key, marks=_ROLLOUT + packed)

    def is_state_of(self, other: Rollout) -> bool:
        """Return whether a resumed evaluation has one of two rollouts of a task in place of the other.

        The later file holds all good lines of the earlier one. The failed rollout is in the earlier one alone.
        """
        if self.own in other.beside or other.own in self.beside:
            return False
        return self.replaces(other) or other.replaces(self)

    def replaces(self, earlier: Rollout) -> bool:
        """Return whether the earlier rollout failed, and the file of this one holds all good lines of its file."""
        bounds = [one.good[_SAMPLED - 1] for one in (self, earlier) if len(one.good) >= _SAMPLED]
        before = [digest for digest in earlier.good if digest <= min(bounds, default=digest)]
        has_evidence = {*earlier.good} & {*self.good} if earlier.good else self.good
        return earlier.failed and bool(has_evidence) and {*before} <= {*self.good}


def digest_of_uid(uid: str) -> int:
    """Return the digest of a line of an evaluation."""
    return crc32(uid.encode())


def sampled(digests: Iterable[int], first: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the lowest of some digests, in order, then those of the first ones that are not among them."""
    lowest = nsmallest(_SAMPLED, digests)
    return (*lowest, *(one for one in first if one not in lowest))


_PARTS: Final = (("inventory", Inventory), ("usage", Usage), ("selection", Selection), ("history", History))


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request to the agent.

    ``uid`` is unique per learner and never a path. ``source`` names its origin (a session, a benchmark record).
    ``rank`` is the length of that source; of two versions the higher rank is active. Times are milliseconds since
    1970 UTC. ``reward`` is the environment's own, on its own scale. ``achieved`` is the outcome from 0 to 1 that the
    program states; it is stored as a fact of its own. ``referenced`` None = run the detectors; else the
    ids that the source reports as referenced. ``unobserved`` are included arms without a report of their use yet;
    only an offer (`OFFERED`) has any, and nothing is learned of them. ``loaded`` are arms that the run found, but not
    by a call of their name: skills that the agent loaded. ``typed`` are skills that a person typed. ``loads_known``:
    the source says which skills were loaded or typed, so a word of a text is no use of one. ``empty`` marks a prompt
    without any answer. ``prompt`` and ``reply`` are the request and the last message (None = the last of ``texts``,
    "" = not to be stored), ``messages`` the transcript where its source gives an order. Versions that differ only in
    these three are the same. ``bill`` has the tokens by model and owner where the source names more than ``usage``
    does; else the usage is the only row.
    """

    uid: str
    inventory: Inventory
    format: Label = "armscope"
    unit: Unit = "prompt"
    source: Label | None = None
    rank: Count = 0
    session: Label | None = None
    ended_at_ms: Millis | None = None
    naive_time: bool = False
    provider: Label | None = None
    model: Label | None = None
    channel: Label | None = None
    run_class: RunClass = "imported"
    status: Status = "completed"
    usage: Usage | None = None
    duration_ms: Duration | None = None
    prompt_chars: Count | None = None
    reward: float | None = None
    achieved: float | None = None
    calls: tuple[Call, ...] = ()
    texts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    referenced: tuple[str, ...] | None = None
    not_offered: tuple[Label, ...] = ()
    unobserved: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    loads_known: bool = False
    empty: bool = False
    selection: Selection | None = None
    prompt: str | None = None
    reply: str | None = None
    bill: tuple[Spent, ...] = ()
    messages: tuple[Message, ...] = ()
    history: History | None = None

    def __post_init__(self) -> None:
        self._check_names()
        self._check_numbers()
        self._check_parts()
        if self.excluded or self.selection is not None:
            self._check_arms()
        if self.unobserved:
            self._check_unobserved()
        if self.loaded or self.typed:
            foreign = {*self.loaded, *self.typed}.difference(arm.key for arm in self.inventory.offered)
            if foreign:
                raise InvalidInput(
                    f"A loaded arm must have been in the prompt, got {shown(min(foreign))}{self._where}.",
                    next_step="Name it among the arms or the arms by name, or leave it out.",
                )

    # Three methods, one pass: each value is asked for its exact type and limits, and only what is out of the
    # ordinary goes through a check, for there may be hundreds of thousands of runs.

    def _check_names(self) -> None:
        if type(self.uid) is not str or not 1 <= len(self.uid) <= MAX_LABEL_CHARS or NUL in self.uid:
            force_setattr(self, "uid", text("A run's uid", self.uid, MAX_LABEL_CHARS, lowest=1))
        for name in _LABELS:
            value = getattr(self, name)
            if value is not None and (type(value) is not str or len(value) > MAX_LABEL_CHARS or NUL in value):
                force_setattr(self, name, text(name, value, MAX_LABEL_CHARS, where=self._where))
        if type(self.format) is not str or len(self.format) > MAX_LABEL_CHARS or NUL in self.format:
            force_setattr(self, "format", text("format", self.format, MAX_LABEL_CHARS, where=self._where))
        for name, allowed in _WORDS:
            value = getattr(self, name)
            if type(value) is not str or value not in allowed:
                force_setattr(self, name, one_of(name, value, allowed, where=self._where))

    def _check_numbers(self) -> None:
        for name, highest in _COUNTS:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value <= highest):
                force_setattr(self, name, whole(name, value, highest, where=self._where))
        if type(self.rank) is not int or not 0 <= self.rank <= MAX_COUNT:
            force_setattr(self, "rank", whole("rank", self.rank, MAX_COUNT, where=self._where))
        if self.reward is not None:
            force_setattr(self, "reward", number("A run's reward", self.reward, where=self._where))
        if self.achieved is not None:
            force_setattr(self, "achieved", check_achieved(self.achieved))
        for name in ("naive_time", "loads_known", "empty"):
            value = getattr(self, name)
            if type(value) is not bool:
                flag(name, value, where=self._where)

    def _check_parts(self) -> None:
        for name, kind in _PARTS:
            value = getattr(self, name)
            if type(value) is not kind and not (value is None and name != "inventory"):
                one(name, value, kind, where=self._where)
        for name in ("prompt", "reply"):
            value = getattr(self, name)
            if value is not None and type(value) is not str:
                force_setattr(self, name, text(name, value, where=self._where))
        if self.calls != ():
            self._check_calls()
        if self.bill != ():
            force_setattr(self, "bill", several("bill", self.bill, Spent, where=self._where))
            checked_rows(self.bill, self._where)
        if self.messages != ():
            force_setattr(self, "messages", several("messages", self.messages, Message, where=self._where))
        for name, highest in _TEXTS:
            value = getattr(self, name)
            if value != () and not (value is None and name == "referenced"):
                force_setattr(self, name, texts(name, value, highest, where=self._where))

    def _check_calls(self) -> None:
        if type(self.calls) is not tuple:
            force_setattr(self, "calls", several("calls", self.calls, Call, where=self._where))
        for call in self.calls:
            if type(call) is not Call:
                one("A call", call, Call, where=self._where)
            name = call.name
            if type(name) is not str or len(name) > MAX_LABEL_CHARS or NUL in name:
                force_setattr(call, "name", text("A call's name", name, MAX_LABEL_CHARS, where=self._where))
            if type(call.metadata) is not str:
                force_setattr(call, "metadata", text("A call's metadata", call.metadata, where=self._where))

    @property
    def _where(self) -> str:
        return f" (run {shown(self.uid)})"

    def _check_arms(self) -> None:
        included = {arm.key for arm in self.inventory.offered}
        for key in self.excluded:
            check_key(key)
            if key in included:
                raise InvalidInput(
                    f"An arm must be in a run's prompt or left out, got both for {key!r} (run {shown(self.uid)}).",
                    next_step="Name it once.",
                )
        if len(set(self.excluded)) != len(self.excluded):
            raise InvalidInput(
                f"An arm must be excluded once, got one twice (run {shown(self.uid)}).",
                next_step="Name it once.",
            )
        if self.selection is not None:
            self._check_selection(self.selection, included.union(self.excluded))

    def _check_unobserved(self) -> None:
        if self.format != OFFERED:
            raise InvalidInput(
                f"Only a run of format {OFFERED} may have unobserved arms, got format {shown(self.format)}"
                f"{self._where}.",
                next_step="Leave them out: every arm of another run's prompt is observed, or none.",
            )
        foreign = set(self.unobserved).difference(arm.key for arm in self.inventory.arms)
        if foreign:
            raise InvalidInput(
                f"An unobserved arm must have been in the prompt, got {shown(min(foreign))}{self._where}.",
                next_step="Name it among the arms, or leave it out.",
            )

    def _check_selection(self, selection: Selection, known: set[str]) -> None:
        if selection.run_class != self.run_class:
            raise InvalidInput(
                f"A run's class must be its selection's, {selection.run_class}, got {self.run_class} "
                f"(run {shown(self.uid)}).",
                next_step=f"Give it class {selection.run_class}, or leave the selection out.",
            )
        selection.check_decisions(known)

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages; of a source without their order the request, then the calls, then the texts.

        >>> run = Run(uid="r", inventory=Inventory(kind="declared", arms=()), prompt="2 + 2?", texts=("4",))
        >>> [(one.kind, one.text) for one in run.transcript]
        [('user', '2 + 2?'), ('agent', '4')]
        """
        if self.messages:
            return self.messages
        talk = Talk()
        talk.add("user", self.prompt or "")
        for call in self.calls:
            talk.call(call.name, call.metadata)
        for one_text in self.texts or (self.reply or "",):
            talk.add("agent", one_text)
        return talk.messages

    @property
    def tokens(self) -> int | None:
        """Total tokens of the run; None = unknown."""
        return None if self.usage is None else self.usage.tokens
