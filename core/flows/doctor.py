"""Doctor: versions, database, writer, and the latest import of each learner.

It only opens existing databases. An error on opening is part of the answer.
"""

from __future__ import annotations

import platform
import shutil
from contextlib import closing
from pathlib import Path

import msgspec

from core.errors import ArmscopeError
from core.flows import maintenance, queries
from core.flows.context import Context, open_context
from core.flows.learners import learners
from core.permissions import authorise
from core.records.learner import LearnerSummary
from core.records.times import iso
from core.settings import Server, Settings
from core.store.engine.sqlite import SQLITE
from core.store.lock import holder_of
from core.store.schema import HEAD
from core.version import __version__


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
    holds the file's write lock now. ``free_bytes`` None = unknown.
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
    database, known = maintenance.database_facts(context), learners(context)
    imports = (_last_import(context.of(one.name)) for one in known)
    return msgspec.structs.replace(
        report,
        schema=database.schema,
        size_bytes=database.size_bytes,
        learners=tuple(known),
        imports=tuple(one for one in imports if one is not None),
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
