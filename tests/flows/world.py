"""Small learners for tests: a context on a fresh file with a clock that ticks, and runs made from flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from core.flows.context import USUAL_PACE, Context, ImportPace
from core.records.actor import Actor, Role
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, RunClass, Status, Usage
from core.settings import Located
from core.store.seen import Note, leave_note, look_at
from core.store.store import Store
from tests.engine import running

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


@cache
def empty_database() -> bytes:
    """A new database as a file: hundreds of tests need one, and making the schema takes a tenth of a second."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Store(path).close()
        return path.read_bytes()


def put_empty_database(path: Path) -> None:
    """Have a new database where there is nothing, as armscope makes its own."""
    if cluster := running():
        cluster.put_empty(path)
        return
    if not path.exists() and path.parent.is_dir():
        path.touch(0o600)
        path.write_bytes(empty_database())
        lock = Path(f"{path}.lock")
        lock.touch(0o600)
        # As its first writer leaves it: thousands of empty files needn't be looked over.
        identity = look_at(str(path), f"{path}-wal")
        leave_note(str(lock), Note(identity=identity, looked_over_ms=START_MS))


IN_PARTS = ImportPace(at_once=1, fewest=2, most=2)
"""Imports of more than a run are told in parts of two."""

_PACE: ContextVar[ImportPace] = ContextVar("_PACE", default=USUAL_PACE)


@contextmanager
def paced(pace: ImportPace) -> Iterator[None]:
    """Whoever makes a context meanwhile imports at this pace."""
    before = _PACE.set(pace)
    try:
        yield
    finally:
        _PACE.reset(before)


def context_at(
    path: Located, *, learner: str = "default", name: str = "mara", role: Role = "operator"
) -> Context:
    """A context whose clock moves 20 minutes with every act, and whose dice are seeded."""
    if isinstance(path, Path):
        put_empty_database(path)
    ticks = count()
    seeds = count(1)
    return Context(
        store=Store(path),
        learner=learner,
        actor=Actor(name=name, role=role),
        clock=lambda: START_MS + next(ticks) * HOUR_MS // 3,
        entropy=lambda: next(seeds),
        identity=lambda: f"test:{path.name}",
        pace=_PACE.get(),
    )


def tools(*names: str) -> Inventory:
    """An inventory of tools."""
    return Inventory(kind="declared", arms=tuple(Arm(key=f"tool:other:{name}") for name in names))


def run_of(
    uid: str,
    arms: Sequence[str] = ("a", "b", "c"),
    calls: Iterable[str] = ("a",),
    *,
    at_ms: int | None = START_MS,
    status: Status = "completed",
    rank: int = 0,
    tokens: int | None = 100,
    run_class: RunClass = "imported",
    model: str | None = None,
    inventory: Inventory | None = None,
) -> Run:
    """A run with tools in the prompt, some of which were called."""
    return Run(
        uid=uid,
        inventory=tools(*arms) if inventory is None else inventory,
        calls=tuple(Call(name=name) for name in calls),
        ended_at_ms=at_ms,
        status=status,
        rank=rank,
        usage=None if tokens is None else Usage(total=tokens),
        run_class=run_class,
        model=model,
    )
