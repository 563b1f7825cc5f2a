"""Appending: processes that append to lists and read them through the product, whatever happens to it meanwhile.

A list is an arm of a learner, or its runs. A value is a reward of that arm, by its reason, or a run, by its uid. Each
process writes its history into a file. A process that was killed is started again with what it began last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

import msgspec

from core import Client, open_learner
from core.doors.protocol import LearnerProtocol
from core.errors import StoreError, UnknownLearner
from tests.store.forking import FORKING
from tests.store.histories import Operation

ACTS_PER_LEARNER: Final = 30
"""Acts of one writer on a learner: it then goes on to the next one, so that lists stay short."""
_ACTS_PER_READ: Final = 5
_VALUES_PER_BATCH: Final = 6
_ARMS: Final = ("a", "b")
_FIRST: Final = "first"
_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 1_200
_LIMIT: Final = 10_000
_NUMBERS: Final = count()

Strike = Callable[[], object]


class Act(NamedTuple):
    """What is appended in one transaction: lists and values."""

    name: str
    kind: Literal["run", "reward", "batch"]
    appends: tuple[tuple[str, str], ...]


class Event(msgspec.Struct, array_like=True):
    """A line of a history file: an operation begins, or ends with what it read."""

    name: str
    at: float
    has_ended: bool
    appends: Sequence[tuple[str, str]] = ()
    reads: dict[str, list[str]] = {}


def learner_of(number: int) -> str:
    return f"learner-{number // ACTS_PER_LEARNER}"


def act_of(writer: str, number: int) -> Act:
    """What a writer appends with an act of this number: the same whenever it is asked."""
    learner, name = learner_of(number), f"{writer}-{number}"
    if number % 3 == 0:
        return Act(name, "run", ((f"{learner} runs", name),))
    if number % 3 == 1:
        return Act(name, "reward", ((f"{learner} {_ARMS[number % len(_ARMS)]}", name),))
    values = [(f"{learner} {_ARMS[at % len(_ARMS)]}", f"{name}.{at}") for at in range(_VALUES_PER_BATCH)]
    return Act(name, "batch", tuple(values))


class Lists:
    """The lists of one learner, through the product: a file, a PostgreSQL server, or a server of ours over HTTP."""

    def __init__(self, address: str, learner: str) -> None:
        is_served = address.startswith("http")
        self.learner: LearnerProtocol = (
            Client(address, learner=learner) if is_served else open_learner(address, learner)
        )

    def create(self) -> None:
        """Make the learner and its arms, unless they are there."""
        self.learner.record(_FIRST, arms=[_arm(f" {name}") for name in _ARMS])

    def append(self, act: Act) -> None:
        """Append under the act's own uid or key, so that a repeat counts once."""
        match act.kind:
            case "run":
                self.learner.record(act.name, arms=[_arm(" a")])
            case "reward":
                ((name, value),) = act.appends
                self.learner.reward(_arm(name), 0.5, reason=value, key=act.name)
            case "batch":
                lines = [{"arm": _arm(name), "value": 0.5, "reason": value} for name, value in act.appends]
                self.learner.reward_batch(lines, key=act.name)

    def read_rewards(self) -> dict[str, list[str]]:
        lists: dict[str, list[str]] = {f"{self.learner.name} {name}": [] for name in _ARMS}
        for one in sorted(self.learner.ledger(_LIMIT), key=lambda one: one.row_no):
            lists[f"{self.learner.name} {one.arm.rpartition(':')[2]}"].append(str(one.reason))
        return lists

    def read_runs(self) -> dict[str, list[str]]:
        runs = sorted(self.learner.runs(_LIMIT), key=lambda one: one.run_no)
        return {f"{self.learner.name} runs": [one.uid for one in runs if one.uid != _FIRST]}


def _arm(name: str) -> str:
    return f"tool:other:{name.rpartition(' ')[2]}"


class History:
    """The file of one process's operations; a line is written before and after each."""

    def __init__(self, file: Path) -> None:
        self._handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._handle, b"\n")  # a line that a kill cut short ends here

    def append(self, lists: Lists, act: Act) -> None:
        self._write(Event(act.name, time.monotonic(), has_ended=False, appends=act.appends))
        _repeated(lambda: lists.append(act))
        self._write(Event(act.name, time.monotonic(), has_ended=True))

    def read(self, lists: Lists) -> bool:
        """Read all lists of a learner; return whether they could be read."""
        for read in (lists.read_rewards, lists.read_runs):
            name, began = f"read-{os.getpid()}-{next(_NUMBERS)}", time.monotonic()
            try:
                found = read()
            except (StoreError, UnknownLearner):
                return False
            self._write(Event(name, began, has_ended=False))
            self._write(Event(name, time.monotonic(), has_ended=True, reads=found))
        return True

    def _write(self, event: Event) -> None:
        os.write(self._handle, msgspec.json.encode(event) + b"\n")


def _repeated(work: Callable[[], None]) -> None:
    """Do what a client does with an error of the store: send the same again."""
    while True:
        try:
            work()
        except StoreError:
            time.sleep(_PAUSE_S)
        else:
            return


def write(address: str, file: Path, writer: str, numbers: range) -> None:
    """Append the acts of these numbers, and read now and then."""
    history = History(file)
    for number in numbers:
        if number == numbers.start or number % ACTS_PER_LEARNER == 0:
            lists = _opened(address, learner_of(number))
            _repeated(lists.create)
        history.append(lists, act_of(writer, number))
        if number % _ACTS_PER_READ == 0:
            history.read(lists)


def look(address: str, file: Path) -> None:
    """Read the newest learner again and again, until the process is killed."""
    history, number = History(file), 0
    lists, later = (_opened(address, learner_of(n * ACTS_PER_LEARNER)) for n in (number, number + 1))
    while True:
        history.read(lists)
        if history.read(later):
            number += 1
            lists.learner.close()
            lists, later = later, _opened(address, learner_of((number + 1) * ACTS_PER_LEARNER))
        time.sleep(_PAUSE_S)


def _opened(address: str, learner: str) -> Lists:
    while True:
        try:
            return Lists(address, learner)
        except StoreError:
            time.sleep(_PAUSE_S)


# Those who start the processes


@dataclass
class Way:
    """How processes reach the lists, and what can happen on the way."""

    address: str
    strikes: Sequence[Strike] = ()


@dataclass
class Storm:
    """Writers and readers of a way, of which some are killed, and the way itself is struck."""

    way: Way
    folder: Path
    n_writers: int
    n_readers: int
    n_acts: int
    random: Random
    n_kills: int = 0
    n_strikes: int = 0
    is_clean: bool = True
    """Whether verify found nothing in the end."""
    _processes: dict[str, ForkServerProcess] = field(default_factory=dict)

    def rage(self, *, pause_s: float) -> list[Operation]:
        """Strike every so often until all is written; return all operations, and a last read of each list."""
        for name in self._names("writer", self.n_writers) + self._names("reader", self.n_readers):
            self._start(name)
        deadline = time.monotonic() + _PATIENCE_S
        while any(self._is_at_work(name) for name in self._names("writer", self.n_writers)):
            assert time.monotonic() < deadline
            time.sleep(pause_s * self.random.uniform(0.5, 1.5))
            self._strike()
        for process in self._processes.values():
            process.kill()
            process.join()
        return self.read()

    def read(self) -> list[Operation]:
        """Read each list once more; return all operations so far."""
        history = History(self._file("last"))
        for learner in dict.fromkeys(map(learner_of, range(self.n_acts))):
            lists = _opened(self.way.address, learner)
            assert history.read(lists)
            lists.learner.close()
        with _opened(self.way.address, learner).learner as last:
            self.is_clean = last.verify().clean  # of all learners
        return [one for file in self.folder.glob("*.history") for one in _operations(file)]

    def _names(self, kind: str, n: int) -> list[str]:
        return [f"{kind}{number}" for number in range(n)]

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.history"

    def _start(self, name: str) -> None:
        if name.startswith("reader"):
            arguments: tuple[object, ...] = (self.way.address, self._file(name))
        else:
            # What it began last may have been done, or not: it is sent again.
            begun = [one.name for one in _events(self._file(name)) if one.appends]
            first = int(begun[-1].rpartition("-")[2]) if begun else 0
            arguments = (self.way.address, self._file(name), name, range(first, self.n_acts))
        target = look if name.startswith("reader") else write
        self._processes[name] = FORKING.Process(target=target, args=arguments, daemon=True)
        self._processes[name].start()

    def _is_at_work(self, name: str) -> bool:
        """A process that ends by itself has written all."""
        process = self._processes[name]
        assert process.exitcode in {None, 0}, f"{name} failed"
        return process.is_alive()

    def _strike(self) -> None:
        names = [name for name in self._processes if self._is_at_work(name)]
        if self.way.strikes and self.random.random() < 0.5:
            self.n_strikes += 1
            self.random.choice(self.way.strikes)()
        elif names:
            name = self.random.choice(names)
            self.n_kills += 1
            self._processes[name].kill()
            self._processes[name].join()
            self._start(name)


def _events(file: Path) -> list[Event]:
    """The lines of a history; one that a kill cut short is left out."""
    found = []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        with suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(line, type=Event))
    return found


def _operations(file: Path) -> Iterator[Operation]:
    """The operations of a history: one that was sent again began the first time, and ended the first time."""
    began: dict[str, Event] = {}
    ended: dict[str, Event] = {}
    for event in _events(file):
        (ended if event.has_ended else began).setdefault(event.name, event)
    for name, event in began.items():
        end = ended.get(name)
        yield Operation(
            name=name,
            began=event.at,
            ended=None if end is None else end.at,
            appends=event.appends,
            reads={} if end is None else end.reads,
        )
