"""Restore of a backup over the database in use, verified before and after; the replaced database is stored as a file.

Processes with the open database can continue. The token of each write invalidates their caches. If the file was
replaced, they open the one at the path.

Copy of a full database to another file or server, both verified.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from core.errors import ArmscopeError, InvalidInput, SchemaMismatch, StoreUnusable
from core.files import check_file
from core.flows.context import Context, utc_now_ms
from core.flows.maintenance import mend_chains
from core.flows.progress import ProgressCallback
from core.flows.queries.verify import problem_of, verify
from core.records.actor import Actor, authorise
from core.records.alike import alike
from core.records.answers import MendedChain, RestoreAnswer
from core.records.times import instant
from core.records.verification import Verification
from core.settings import Located, Server, local_operator
from core.store.engine.sqlite import Database, copy_file, is_empty
from core.store.files import make_file, make_folder
from core.store.reads.runs import n_acts_beyond, n_compacted, n_runs, n_runs_beyond
from core.store.schema import upgrade
from core.store.store import Store

_ANOTHER: Final = "Use a sound backup that armscope made; nothing was changed."
_EXPLAINED: Final = (
    "Explain a copy of it with the file that was imported: armscope --database {} upgrade --explain SOURCE; "
    "nothing was changed."
)


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a restore: runs and acts that the database has and the backup lacks.

    None = the database is damaged and they can't be counted. ``runs`` are those of the backup, without its
    ``compacted`` ones.
    """

    file: str
    database: str
    runs: int
    runs_lost: int | None
    acts_lost: int | None
    compacted: int = 0


def restore(
    database: Located,
    file: Path,
    *,
    actor: Actor | None = None,
    clock: Callable[[], int] = utc_now_ms,
    confirm: Callable[[RestorePlan], object] | None = None,
) -> RestoreAnswer:
    """Replace the database, which may be in use, by a backup.

    Nothing changes before the backup is verified. The replaced database is stored in a file of its own. ``confirm``
    receives the plan before the change, and raises to cancel it. Raises `InvalidInput` for the database itself or a
    file that can't be read, `StoreDamaged` for a damaged backup, and `SchemaMismatch` for one of a newer armscope.
    """
    operator = actor or local_operator()
    authorise(operator, "settings", None)
    check_file(file, "A backup")
    if isinstance(database, Server):
        raise InvalidInput(
            f"The database to restore must be a file, got {database}; nothing was changed.",
            next_step=f"Copy it into an empty database of the server: armscope copy {file} {database}",
        )
    if os.path.lexists(database) and file.samefile(database):
        raise InvalidInput(
            f"A backup must be another file than the database, got {file}.", next_step="Name the backup."
        )
    make_folder(database.parent)
    with TemporaryDirectory(prefix=f".{database.name}-", dir=database.parent) as folder:
        copy = Path(folder) / "restored.db"
        mended = _copy_soundly(file, copy, operator, clock())
        with closing(Database(database)) as live, closing(Database(copy)) as restored:
            plan = _plan(file, live, restored)
            if confirm is not None:
                confirm(plan)
            with live.locked():
                replaced = _replace(live, copy, clock())
    with closing(Store(database)) as store:
        _refuse_unsound(store, operator)
    before = None if replaced is None else str(replaced)
    return alike(RestoreAnswer, plan, file=str(file), database=str(database), kept=before, mended=mended)


def _copy_soundly(file: Path, copy: Path, actor: Actor, now_ms: int) -> tuple[MendedChain, ...]:
    """Copy a backup, upgrade, mend and verify the copy. The backup itself is only read."""
    next_step = _ANOTHER
    make_file(copy)
    copy_file(file, copy)
    try:
        with closing(Database(copy)) as database:
            before = upgrade(database).before
        with closing(Store(copy)) as store:
            mended, broken = mend_chains(store, actor=actor, now_ms=now_ms)
            next_step = _EXPLAINED.format(file) if broken else _ANOTHER
            _refuse_unsound(store, actor)
    except ArmscopeError as problem:
        copied, own = os.path.realpath(copy), isinstance(problem, SchemaMismatch)
        raise type(problem)(
            problem.problem.replace(copied, str(file)),
            next_step=problem.next_step.replace(copied, str(file)) if own else next_step,
        ) from problem
    if before is None:
        raise InvalidInput(
            f"A backup must hold a database, got {file}, which is empty.",
            next_step=_ANOTHER,
        )
    return mended


def _refuse_unsound(store: Store, actor: Actor) -> Verification:
    verification = verify(Context(store=store, actor=actor), limit=1)
    if not verification.clean:
        raise problem_of(verification, store.location)
    return verification


def _plan(file: Path, live: Database, restored: Database) -> RestorePlan:
    with restored.reading() as theirs:
        plan = RestorePlan(
            file=str(file),
            database=str(live.path),
            runs=n_runs(theirs),
            runs_lost=0,
            acts_lost=0,
            compacted=n_compacted(theirs),
        )
        if is_empty(live.path):
            return plan
        runs_lost: int | None = None
        acts_lost: int | None = None
        with suppress(StoreUnusable), live.reading() as ours:
            runs_lost, acts_lost = n_runs_beyond(ours, theirs), n_acts_beyond(ours, theirs)
    return msgspec.structs.replace(plan, runs_lost=runs_lost, acts_lost=acts_lost)


def _replace(live: Database, copy: Path, now_ms: int) -> Path | None:
    """Store the present database, then overwrite it with the copy. An unreadable database is moved away as a file."""
    if is_empty(live.path):
        live.give_way(copy, None)
        return None
    replaced = _free_name(live.path, now_ms)
    try:
        make_file(replaced, like=live.path)
        live.copy_into(replaced)
        live.replace_by(copy)
    except StoreUnusable:
        replaced.unlink(missing_ok=True)
        live.give_way(copy, replaced)
    except BaseException:
        replaced.unlink(missing_ok=True)
        raise
    return replaced


def _free_name(path: Path, now_ms: int) -> Path:
    stamp = f"{instant(now_ms):%Y%m%dT%H%M%S}"
    names = (
        f"{path.stem}.replaced-{stamp}{more}{path.suffix}"
        for more in ("", *(f"-{n}" for n in range(2, 1_000)))
    )
    return next(candidate for name in names if not os.path.lexists(candidate := path.with_name(name)))


class CopyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Source, target and learners of a copy. Both databases passed verification."""

    source: str
    target: str
    learners: tuple[str, ...]


def copy_database(
    source: Located, target: Located, *, actor: Actor | None = None, progress: ProgressCallback | None = None
) -> CopyAnswer:
    """Copy one snapshot of a database with its history into an empty one, and verify both.

    The source is only read and may be in use. ``progress`` counts tables. Raises `InvalidInput` where both are the
    same, `NoDatabase` without a source, and `Conflict` for a target that is not empty; nothing was copied then.
    Raises `StoreDamaged` where the caches of one database do not match its facts.
    """
    operator = actor or local_operator()
    authorise(operator, "settings", None)
    if source == target:
        raise InvalidInput(
            f"Source and target must be different databases, got {source} twice; nothing was copied.",
            next_step="Name a new database.",
        )
    with closing(Store(source, create=False)) as ours, closing(Store(target)) as theirs:
        ours.copy_to(theirs.database, progress)
        _refuse_unsound(ours, operator)
        learners = _refuse_unsound(theirs, operator).learners
    return CopyAnswer(source=str(source), target=str(target), learners=learners)
