"""The power fails: a recorded history is cut anywhere, and the disk keeps of what was not synced what chance says.

What is synced is on disk. Of the rest each piece of a sector may be there, be torn, or be missing, in any order;
sizes and names in the folder likewise. Shared memory is gone. What the database then holds must be exactly what
it held when the last answer was given, or what it held after the act that was on its way; and it goes on working.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record, record_all
from core.store.engine import sqlite as engine
from core.store.store import Store
from tests.engine import file_database
from tests.store.forking import FORKING
from tests.store.recording import FileNo, Name, Recorder, Step, Sync, SyncFolder, Told, Truncate, Write
from tests.waiting import memory_folder
from tests.worlds import START_MS, a_run, context_at
from tests.worlds.history import History

SECTOR_BYTES = 512
_CHANCES = (0.0, 0.1, 0.5, 0.9, 1.0)
_FOLDED_AT_BYTES = (64 << 10, 512 << 10, engine._CHECKPOINT_BYTES)
"""Logs are folded back earlier than they usually are, for a short history to see it often."""


class Figures(msgspec.Struct):
    """What came of the losses; ``again`` struck a database that was recovering from another one."""

    losses: int = 0
    again: int = 0
    synced: int = 0
    acts: int = 0
    lost: int = 0
    halves: int = 0
    unusable: int = 0
    unclean: int = 0
    unexplained: list[str] = []

    def __add__(self, other: Figures) -> Figures:
        """Figures of both."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)
        return Figures(*(left + right for left, right in pairs))


@dataclass
class Drive:
    """A disk with a cache that forgets."""

    contents: dict[FileNo, bytes]
    names: dict[str, FileNo]
    changes: dict[FileNo, list[Write | Truncate]] = field(default_factory=dict)
    renames: list[Name] = field(default_factory=list)

    @classmethod
    def of(cls, files: dict[str, tuple[FileNo, bytes]]) -> Drive:
        """Everything that is there is on disk."""
        return cls(dict(files.values()), {name: number for name, (number, _) in files.items()})

    def take(self, step: Step) -> None:
        if isinstance(step, Write | Truncate):
            self.changes.setdefault(step.file, []).append(step)
        elif isinstance(step, Sync):
            self.contents[step.file] = changed(
                self.contents.get(step.file, b""), self.changes.pop(step.file, [])
            )
        elif isinstance(step, Name):
            self.renames.append(step)
        elif isinstance(step, SyncFolder):
            self._rename(self.renames, self.names)
            self.renames = []

    def after_a_power_loss(self, random: Random) -> dict[str, bytes]:
        """The files as they may be found."""
        names = dict(self.names)
        self._rename([one for one in self.renames if random.random() < 0.5], names)
        return {name: self._found(file, random) for name, file in names.items()}

    def _found(self, file: FileNo, random: Random) -> bytes:
        chance, torn = random.choice(_CHANCES), random.choice((0.0, 0.2))
        pieces = [piece for change in self.changes.get(file, []) for piece in sectors(change)]
        random.shuffle(pieces)
        kept = [tear(piece, torn, random) for piece in pieces if random.random() < chance]
        found = changed(self.contents.get(file, b""), kept)
        if random.random() < 0.7:
            return found
        # A size may be on disk before what it is the size of.
        ends = [piece.offset + len(piece.data) for piece in pieces if isinstance(piece, Write)]
        return found.ljust(max(ends, default=0), b"\0")

    @staticmethod
    def _rename(renames: list[Name], names: dict[str, FileNo]) -> None:
        for name, file in renames:
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file


def sectors(change: Write | Truncate) -> Iterator[Write | Truncate]:
    """The parts of a change that a disk may do or leave by themselves."""
    if isinstance(change, Truncate):
        yield change
        return
    at = change.offset
    end = at + len(change.data)
    while at < end:
        stop = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield Write(change.file, at, change.data[at - change.offset : stop - change.offset])
        at = stop


def tear(piece: Write | Truncate, chance: float, random: Random) -> Write | Truncate:
    """Sometimes only the beginning or the end of a sector."""
    if isinstance(piece, Truncate) or random.random() >= chance:
        return piece
    at = random.randrange(len(piece.data) + 1)
    if random.random() < 0.5:
        return Write(piece.file, piece.offset, piece.data[:at])
    return Write(piece.file, piece.offset + at, piece.data[at:])


def changed(content: bytes, changes: list[Write | Truncate]) -> bytes:
    """A file after changes; what was never written reads as zeros."""
    now = bytearray(content)
    for change in changes:
        if isinstance(change, Truncate):
            del now[change.size :]
            now.extend(bytes(change.size - len(now)))
        elif change.data:
            now.extend(bytes(max(0, change.offset - len(now))))
            now[change.offset : change.offset + len(change.data)] = change.data
    return bytes(now)


@dataclass
class Lives:
    """One history, recorded once, and lost as often as one likes."""

    seed: int
    folder: Path
    synchronous: str
    recorder: Recorder = field(default_factory=Recorder)
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def live(self, n_acts: int) -> list[Step]:
        """Everything that can be done, from the making of the database on; each answer is noted."""
        engine._CHECKPOINT_BYTES = self.random.choice(_FOLDED_AT_BYTES)  # type: ignore[misc]  # final elsewhere
        self.folder.mkdir()
        self.recorder.begin(self.folder)
        Store(self.folder / "history.db").close()
        history = History(self.folder, self.seed)
        self.recorder.tell(digest(history.context))
        for number in range(n_acts):
            self._relax(history.context)
            self._act(history, number)
            self.recorder.tell(digest(history.context))
        history.context.store.close()
        self.figures.acts += n_acts
        self.figures.synced += sum(isinstance(step, Sync) for step in self.recorder.steps)
        return self.recorder.steps

    def _act(self, history: History, number: int) -> None:
        dice = self.random.random()
        if dice < 0.1:
            history.context.store.close()
        elif dice < 0.2:
            sizes = self.random.choice((3, 40, 200))
            batch = [
                a_run(f"batch-{number}-{n}", at_ms=START_MS + n * 7_000_000, tokens=n) for n in range(sizes)
            ]
            record_all(history.context, batch)
        else:
            history.play(1)

    def _relax(self, context: Context) -> None:
        """Sync less than the product does, to see whether the simulation notices."""
        if self.synchronous != "FULL":
            file_database(context.store)._open_writer().execute(f"PRAGMA synchronous={self.synchronous}")

    def lose(self, steps: list[Step], n_losses: int) -> None:
        drive, told = Drive({}, {}), [str(step.answer) for step in steps if isinstance(step, Told)]
        n_told = position = 0
        for cut in sorted(self.random.randrange(len(steps) + 1) for _ in range(n_losses)):
            for step in steps[position:cut]:
                drive.take(step)
                n_told += isinstance(step, Told)
            position = cut
            self.figures.losses += 1
            found = self._found(drive, told, n_told, f"at step {cut}")
            if found is not None:
                self._lose_again(found, f"at step {cut}, then")

    def _found(self, drive: Drive, told: list[str], n_told: int, where: str) -> Drive | None:
        """Open what a loss left: the disk that it started from, or None if it held something else than it must."""
        with TemporaryDirectory(dir=self.folder) as place:
            folder = Path(place)
            for name, content in drive.after_a_power_loss(self.random).items():
                (folder / name).write_bytes(content)
            before = Drive.of(self.recorder.begin(folder))
            try:
                return self._judge(folder, before, told, n_told, where)
            except ArmscopeError as problem:
                self.figures.unusable += 1
                self.figures.unexplained.append(f"{where}: {problem.problem}")
                return None

    def _judge(self, folder: Path, before: Drive, told: list[str], n_told: int, where: str) -> Drive | None:
        Store(folder / "history.db").close()
        context = context_at(folder / "history.db")
        found = digest(context)
        if found not in told[max(0, n_told - 1) : n_told + 1]:
            is_older = found in told[:n_told]
            self.figures.lost += is_older
            self.figures.halves += not is_older
            self.figures.unexplained.append(f"{where}: not what answer {n_told} of {len(told)} promised")
            context.store.close()
            return None
        seen = queries.verify(context)
        if not seen.clean:
            self.figures.unclean += 1
            self.figures.unexplained.append(f"{where}: verify found {seen.differences}")
        self.recorder.tell(found)
        record(context, a_run("goes on"))
        self.recorder.tell(digest(context))
        context.store.close()
        return before

    def _lose_again(self, drive: Drive, where: str) -> None:
        """The power fails again while the database recovers, or at the first write after that."""
        steps = list(self.recorder.steps)
        told = [str(step.answer) for step in steps if isinstance(step, Told)]
        cut = self.random.randrange(len(steps) + 1)
        for step in steps[:cut]:
            drive.take(step)
        n_told = sum(isinstance(step, Told) for step in steps[:cut])
        self.figures.losses += 1
        self.figures.again += 1
        self._found(drive, told, n_told, f"{where} at step {cut}")


def digest(context: Context) -> str:
    """Everything the database holds, in few characters."""
    told = blake2b(digest_size=12)
    with context.store.database.reading() as link:
        for (table,) in link.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
            told.update(f"{table} {link.rows(f'SELECT * FROM {table}')}".encode())
    return told.hexdigest()


def figures(seed: int, *, n_acts: int, n_losses: int, synchronous: str = "FULL") -> Figures:
    """Return what came of losses in a process of its own, which keeps the noting file system to itself."""
    answer, answering = FORKING.Pipe(duplex=False)
    process = FORKING.Process(target=_lose, args=[answering, seed, n_acts, n_losses, synchronous])
    process.start()
    answering.close()
    result: Figures = answer.recv()
    process.join()
    return result


def _lose(answering: Connection, seed: int, n_acts: int, n_losses: int, synchronous: str) -> None:
    with TemporaryDirectory(dir=memory_folder()) as place:  # what is on disk is up to the simulation
        lives = Lives(seed, Path(place) / "history", synchronous)
        lives.lose(lives.live(n_acts), n_losses)
    answering.send(lives.figures)
