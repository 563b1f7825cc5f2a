"""Build: a seed → a database file with its world, complete or not at all.

The world is played in a folder beside the file and moved into its path when it is complete. So an interruption leaves
the old file unchanged. A database that holds anything but a demo is never replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from core.demo.agent import run_id
from core.demo.play import Progress, play, play_on
from core.demo.world import LEARNER, N_RUNS
from core.errors import ArmscopeError, Conflict, SchemaMismatch, StoreBusy, StoreUnusable
from core.flows.context import Context
from core.flows.maintenance import upgrade
from core.flows.queries import DEMO_ORIGIN, frame
from core.flows.restore import copy_database
from core.records.actor import Actor
from core.settings import Located, Server
from core.store.engine.sqlite import Database
from core.store.files import make_folder
from core.store.reads import find_run, learners
from core.store.store import Store
from core.store.transaction import Snapshot

DEFAULT_SEED: Final = 7

_COPIES: Final = Actor(name="demo")


class DemoAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Location and size of the demo; ``built`` False: it existed already and was left unchanged.

    ``played_on`` is the number of runs that were added after the thirty days.
    """

    database: str
    learner: str
    seed: int
    runs: int
    arms: int
    built: bool
    played_on: int = 0


def build(
    location: Located,
    *,
    seed: int = DEFAULT_SEED,
    fresh: bool = False,
    n_runs: int = N_RUNS,
    more: int = 0,
    progress: Progress | None = None,
) -> DemoAnswer:
    """Make the demo's database, or reuse the existing one.

    A complete world of the same seed, size and version is reused, with everything done in it since. Any other demo is
    replaced, and with ``fresh`` that one too. Two builds with one seed give the same posteriors, bit for bit.

    Parameters
    ----------
    location
        The database; one of its own, never the one of real runs. A server's is empty, or holds the demo.
    seed
        The world's seed.
    fresh
        Build it even where it is complete.
    n_runs
        Number of runs in the thirty days.
    more
        Number of runs to add, after the last one. They depend on the seed and on the time of the last one.
    progress
        Called with the number of runs so far and of all.

    Raises
    ------
    Conflict
        The file to be replaced holds learners beside the demo's.
    StoreBusy
        The file to be replaced is open elsewhere.
    StoreUnusable
        The folder can't be written, or the file is no database of ours.
    """
    if isinstance(location, Server):
        is_new = _build_on(location, seed, n_runs, progress)
    else:
        _bring_up_to_date(location)
        is_new = fresh or not _is_complete(location, seed, n_runs)
        if is_new:
            _refuse_loss(location)
            _build(location, seed, n_runs, progress)
    with closing(Store(location)) as store:
        context = Context(store=store, learner=LEARNER, actor=_COPIES)
        if more:
            play_on(context, more, progress=progress)
        state = frame(context)
    return DemoAnswer(
        database=str(location),
        learner=LEARNER,
        seed=seed,
        runs=state.n_runs,
        arms=state.n_arms,
        built=is_new,
        played_on=more,
    )


def _build_on(server: Server, seed: int, n_runs: int, progress: Progress | None) -> bool:
    """Play the world in a file and copy that, unless it is there. Return whether it was not."""
    with closing(Store(server)) as store, store.reading(LEARNER) as snapshot:
        is_there = snapshot.origin == f"{DEMO_ORIGIN}{seed}"
    if not is_there:
        with TemporaryDirectory() as folder:
            built = Path(folder) / "demo.db"
            build(built, seed=seed, n_runs=n_runs, progress=progress)
            copy_database(built, server, actor=_COPIES)
    return not is_there


def _bring_up_to_date(path: Path) -> None:
    """Upgrade a demo of an older armscope like any database, with everything done in it."""
    if not path.exists():
        return
    try:
        Store(path).close()
    except SchemaMismatch:
        upgrade(path)


def _build(path: Path, seed: int, n_runs: int, progress: Progress | None) -> None:
    try:
        make_folder(path.parent)
        with TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
            built = Path(folder) / path.name
            with closing(Store(built)) as store:  # closing folds the log back, so the one file is all of it
                play(store, seed=seed, n_runs=n_runs, progress=progress)
            with _without_people(path):
                if path.exists():
                    shutil.copymode(path, built)  # its readers keep their permission
                built.replace(path)
    except ArmscopeError:
        raise
    except OSError as problem:
        raise StoreUnusable(
            f"The demo can't be built as {path}: {problem.strerror or problem}.",
            next_step="Name a file in a folder you can write to with --database.",
        ) from problem


def _is_complete(path: Path, seed: int, n_runs: int) -> bool:
    """Return whether the file holds this world: its last run, which names the version, was recorded last."""
    with _opened(path) as snapshot:
        return (
            snapshot is not None
            and snapshot.origin == f"{DEMO_ORIGIN}{seed}"
            and find_run(snapshot, run_id(n_runs)) is not None
            and find_run(snapshot, run_id(n_runs + 1)) is None
        )


def _refuse_loss(path: Path) -> None:
    """Raise unless nothing but a demo would be lost with the file."""
    with _opened(path) as snapshot:
        if snapshot is None:
            return
        others = [name for name in learners(snapshot) if name != LEARNER]
        if snapshot.exists and not snapshot.origin.startswith(DEMO_ORIGIN):
            others.append(LEARNER)
    if others:
        raise Conflict(
            f"The demo's database must hold nothing but a demo, got {path} with learner {others[0]!r}.",
            next_step="Name another file for the demo with --database; nothing was replaced.",
        )


@contextmanager
def _opened(path: Path) -> Iterator[Snapshot | None]:
    """The demo's learner in the file, None where there is no file."""
    if not path.exists():
        yield None
        return
    with closing(Store(path)) as store, store.reading(LEARNER) as snapshot:
        yield snapshot


@contextmanager
def _without_people(path: Path) -> Iterator[None]:
    """Keep writers out of the file.

    The last connection to close folds the log back and removes it. A log that remains belongs to another process;
    beside a new file it would destroy that file.
    """
    database = Database(path)
    with database.locked():
        if path.exists():
            database.write(lambda _: None)
            database.close()
            if Path(f"{path}-wal").exists():
                raise StoreBusy(
                    f"{path.name} is open in another armscope, so it can't be replaced.",
                    next_step="Stop that one first (armscope serve, or another demo).",
                )
        yield
