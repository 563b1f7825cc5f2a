"""Maintenance of the database: its state, backup while it is in use, and upgrade of older versions.

The doctor only opens existing databases. An error on opening is part of its answer.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import ArmscopeError, InvalidInput, StoreFull
from core.flows import queries
from core.flows.context import Context, open_context, utc_now_ms
from core.flows.learners import learners
from core.flows.progress import ProgressCallback
from core.flows.queries.verify import damage_in
from core.formats import open_sources
from core.records.actor import Actor, authorise
from core.records.answers import BackupAnswer, MendedChain
from core.records.episode import Episode
from core.records.learner import INSTALLATION, LearnerSummary
from core.records.times import iso
from core.settings import Located, Server, Settings, local_operator
from core.store import reads
from core.store.engine.sqlite import SQLITE
from core.store.files import appearing
from core.store.lock import holder_of
from core.store.mending import SourceStates, beyond, explanation, mend, unprovable_until
from core.store.reads.log import names_of
from core.store.schema import HEAD
from core.store.schema import upgrade as upgrade_schema
from core.store.store import Store, open_database
from core.upkeep import known_damage, note_upkeep
from core.version import __version__


class UpgradeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an upgrade; ``before`` None = the database was empty.

    ``servers`` holds the tables of a distributed database; this upgrade moved ``tables_distributed`` of them.
    ``covered_from`` is the head by learner from which on the chain covers facts that it did not cover before.
    ``mended`` are learners whose chain was mended, and ``broken`` those whose difference nothing explains.
    """

    database: str
    before: str | None
    after: str
    tables_distributed: int = 0
    servers: tuple[str, ...] = ()
    covered_from: dict[str, str] = {}
    mended: tuple[MendedChain, ...] = ()
    broken: tuple[str, ...] = ()


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Location, size and schema of the database. ``size_bytes`` includes the write-ahead log."""

    file: str
    size_bytes: int
    schema: str


def database_facts(context: Context) -> DatabaseFacts:
    """Return location, size and schema of the database."""
    context.permit("read")
    return DatabaseFacts(file=str(context.store.location), size_bytes=context.store.size(), schema=HEAD)


def backup(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    *,
    progress: ProgressCallback | None = None,
) -> BackupAnswer:
    """Copy the database into a new file, while it is in use.

    The copy is one snapshot. It appears under its name only when it is complete and on disk. The answer names damage
    that was copied. Raises `InvalidInput` for an existing file.
    """
    authorise(context.actor, "settings", None)
    if os.path.lexists(target):
        raise InvalidInput(
            f"The backup's file must not exist yet, got {target}.",
            next_step="Choose another name; nothing was overwritten.",
        )
    with context.reading() as snapshot:
        revision, heads = snapshot.revision, reads.heads(snapshot)
    try:
        with appearing(target) as partial:
            context.store.copy_into(partial, progress)
    except (OSError, StoreFull) as problem:
        reason = "there is no room for it" if isinstance(problem, StoreFull) else problem.strerror or problem
        raise InvalidInput(
            f"The backup can't be written to {target}: {reason}.",
            next_step="Choose a folder you can write to, with room for the whole database.",
        ) from problem
    note_upkeep(context.store.location, "backup", context.clock())
    return BackupAnswer(
        file=str(target),
        size_bytes=target.stat().st_size,
        revision=revision,
        heads=heads,
        damage=damage_in(context),
    )


def upgrade(
    location: Located,
    *,
    distribute: bool = False,
    explain: Sequence[Path] = (),
    accept_unprovable: bool = False,
    clock: Callable[[], int] = utc_now_ms,
) -> UpgradeAnswer:
    """Upgrade a database of an older armscope. A current one is left alone, and an empty one gets its tables.

    Chains that have more than the rows are mended where the rows explain it to the bit, or the files ``explain``,
    which were imported. Otherwise they stay as they are, or ``accept_unprovable`` accepts them for good.

    ``distribute`` then spreads its tables by learner over the workers of a Citus cluster, in one transaction. A
    repeat changes nothing. Raises `NoDatabase` for a path without a file, and `InvalidInput` if the database has no
    Citus or no worker.
    """
    database = open_database(location)
    try:
        done = upgrade_schema(database, distribute=distribute)
    finally:
        database.close()
    actor = local_operator()
    with closing(Store(location, create=False)) as store:
        mended, broken = mend_chains(
            store, explain, accept_unprovable=accept_unprovable, actor=actor, now_ms=clock()
        )
        if mended or broken:
            damage_in(Context(store=store, actor=actor, clock=clock))  # notes what is left
    spread = done.distribution
    return UpgradeAnswer(
        database=str(location),
        before=done.before,
        after=done.after,
        tables_distributed=0 if spread is None else spread.n_moved,
        servers=() if spread is None else spread.servers,
        covered_from={one.learner: one.head for one in done.covered if one.head is not None},
        mended=mended,
        broken=broken,
    )


def mend_chains(
    store: Store, sources: Sequence[Path] = (), *, accept_unprovable: bool = False, actor: Actor, now_ms: int
) -> tuple[tuple[MendedChain, ...], tuple[str, ...]]:
    """Mend chains that have more than the rows; return what was mended, and the learners that stay broken."""
    with store.reading_all() as connection:
        names = names_of(connection)
    mended, broken, states = [], [], None
    for name in (INSTALLATION, *names):
        with store.reading(name) as snapshot:
            difference = beyond(snapshot) if snapshot.exists else 0
            if not difference:
                continue
            states = _states(sources) if states is None else states
            explained = explanation(snapshot, difference, states)
        if explained is None and not accept_unprovable:
            broken.append(name)
            continue
        act = partial(mend, difference=difference, explained=explained or "")
        until = store.write(name, act, actor=actor, now_ms=now_ms)
        mended.append(MendedChain(learner=name, until=until, explained=explained or None))
    return tuple(mended), tuple(broken)


def _states(sources: Sequence[Path]) -> SourceStates:
    """Return the states of episodes in files, in the order of an import."""
    if not sources:
        return SourceStates()
    with open_sources(sources) as opened:
        entries = chain.from_iterable(source.entries(None) for source in opened.sources)
        return SourceStates(entry for entry in entries if isinstance(entry, Episode))


class LastImport(msgspec.Struct, frozen=True, kw_only=True):
    """Newest active import of a learner: its unread lines and files, and calls without an arm."""

    learner: str
    id: str
    at: str | None
    runs: int
    lines_rejected: int
    files_unread: int
    calls_without_an_arm: tuple[str, ...]


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """State of the installation.

    ``schema`` None: no database could be opened, and ``problem`` holds the reason. ``writer`` is the process that
    holds the file's write lock now. ``free_bytes`` None = unknown. ``unprovable`` holds, by learner, the last act up
    to which nothing proves the facts. ``damage`` is what the last check on this machine found, None without any.
    """

    armscope: str
    python: str
    sqlite: str
    system: str
    database: str
    schema: str | None
    schema_needed: str
    size_bytes: int
    free_bytes: int | None
    writer: str | None
    learners: tuple[LearnerSummary, ...] = ()
    imports: tuple[LastImport, ...] = ()
    problem: dict[str, object] | None = None
    unprovable: dict[str, int] = {}
    damage: str | None = None


def examine(settings: Settings) -> Examination:
    """Report the state of the database and of its environment."""
    authorise(settings.actor, "read", None)
    path = settings.database
    report = Examination(
        armscope=__version__,
        python=platform.python_version(),
        sqlite=SQLITE,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        database=str(path),
        schema=None,
        schema_needed=HEAD,
        size_bytes=0,
        free_bytes=None,
        writer=None,
    )
    if not isinstance(path, Server):
        report = msgspec.structs.replace(
            report,
            size_bytes=path.stat().st_size if path.is_file() else 0,
            free_bytes=_free(path),
            writer=holder_of(f"{path}.lock"),
        )
    try:
        context = open_context(settings, create=False, whole=True)
        with closing(context.store):
            return _with_content(report, context)
    except ArmscopeError as problem:
        return msgspec.structs.replace(report, problem=problem.as_answer())


def _with_content(report: Examination, context: Context) -> Examination:
    database, known = database_facts(context), learners(context)
    imports = (_last_import(context.of(one.name)) for one in known)
    with context.reading() as snapshot:
        until = {
            name: unprovable_until(snapshot.of(name)) for name in (INSTALLATION, *(one.name for one in known))
        }
    return msgspec.structs.replace(
        report,
        schema=database.schema,
        size_bytes=database.size_bytes,
        learners=tuple(known),
        imports=tuple(one for one in imports if one is not None),
        unprovable={name: number for name, number in until.items() if number is not None},
        damage=known_damage(context.store.location),
    )


def _last_import(context: Context) -> LastImport | None:
    last = next((one for one in queries.imports(context) if not one.undone), None)
    if last is None:
        return None
    answer = last.answer
    return LastImport(
        learner=context.learner,
        id=last.id,
        at=iso(last.at_ms),
        runs=answer.runs,
        lines_rejected=answer.rejected_count,
        files_unread=len(answer.ignored),
        calls_without_an_arm=tuple(one.tool for one in answer.not_offered_calls),
    )


def _free(path: Path) -> int | None:
    """Return the free bytes of the disk of an existing or future path."""
    for folder in (path, *path.absolute().parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
