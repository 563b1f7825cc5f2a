"""Builders of tests: a context on a fresh file with a clock that ticks, and one per noun, with defaults for all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from core.flows import queries
from core.flows.context import USUAL_PACE, Context, ImportPace
from core.flows.settings import change
from core.records.actor import Actor, Grant, Role
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, RunClass, Status, Usage
from core.records.selection import Selection
from core.settings import Located
from core.store.engine.file_faults import Note, leave_note
from core.store.engine.sqlite import look_at
from core.store.store import Store
from tests.engine import running

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000

IN_PARTS = ImportPace(at_once=1, fewest=2, most=2)
"""Imports of more than one run come in parts of two."""

_PACE: ContextVar[ImportPace] = ContextVar("_PACE", default=USUAL_PACE)


@cache
def empty_database() -> bytes:
    """Return a new database as a file. Hundreds of tests need one, and to make its schema takes 0.1 s."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Store(path).close()
        return path.read_bytes()


def put_empty_database(path: Path) -> None:
    """Put a new database where there is no file, as armscope makes its own."""
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


@contextmanager
def paced(pace: ImportPace) -> Iterator[None]:
    """Let contexts that are made meanwhile import at this pace."""
    before = _PACE.set(pace)
    try:
        yield
    finally:
        _PACE.reset(before)


def context_at(
    path: Located, *, learner: str = "default", name: str = "mara", role: Role = "operator"
) -> Context:
    """Return a context whose clock moves 20 minutes with every act, and whose dice are seeded."""
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


def acting(context: Context, role: Role | None = "reviewer", name: str = "jo") -> Context:
    """Return the context of another person at the same database."""
    return replace(context, actor=Actor(name=name, role=role))


def granted(context: Context, *grants: Grant, name: str = "jo", token: int = 0) -> Context:
    """Return the context of a person, or a token, with these grants and no role for all learners."""
    return replace(context, actor=Actor(name=name, role=None, grants=grants, token=token))


def beliefs(context: Context) -> dict[str, tuple[float, float]]:
    """Return alpha and beta of each arm."""
    return {one.arm: (one.alpha, one.beta) for one in queries.posteriors(context)}


def is_clean(context: Context) -> bool:
    """Return whether every stored sum equals its facts."""
    return queries.verify(context).clean


def tools(*names: str) -> Inventory:
    """Return an inventory of tools."""
    return Inventory(kind="declared", arms=tuple(Arm(key=f"tool:other:{name}") for name in names))


def a_run(
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
    """Return a run with tools in the prompt, some of which were called."""
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


def keeping(folder: Path, pace: ImportPace = USUAL_PACE, name: str = "a.db") -> Context:
    """Return the context of a new learner that keeps texts."""
    context = context_at(folder / name)
    change(context, "keep_texts", True)
    return replace(context, pace=pace)


def chosen_among(
    uid: str,
    chosen: Selection,
    offered: Iterable[Arm] | None = None,
    **fields: Any,  # noqa: ANN401 - fields of a run
) -> Run:
    """Return a run with what was selected among arms; if none are given, they have ids alone."""
    among = [Arm(key=key) for key in chosen.included] if offered is None else offered
    inside = tuple(arm for arm in among if arm.key in chosen.included)
    return Run(
        uid=uid,
        inventory=Inventory(kind="declared", arms=inside),
        excluded=chosen.excluded,
        selection=chosen,
        run_class=chosen.run_class,
        **fields,
    )


def lines_file(path: Path, *lines: dict[str, object]) -> Path:
    """Write a file with a JSON document in each line, and return its path."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def run_line(uid: str, calls: Iterable[str] = ("a",), **fields: object) -> dict[str, object]:
    """Return the line of a run, as an import reads it."""
    arms = [f"tool:other:{name}" for name in "abc"]
    return {"kind": "run", "uid": uid, "arms": arms, "calls": list(calls), "ended_at_ms": START_MS, **fields}
