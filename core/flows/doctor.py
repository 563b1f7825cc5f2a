"""Doctor: what is asked first when something is odd: which version, which file, who writes, what was not read.

It opens what there is and makes nothing; what stands in the way of opening it is part of the answer.
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
from core.flows.learners import LearnerSummary, learners
from core.permissions import authorise
from core.records.times import iso
from core.settings import Server, Settings
from core.store.engine.sqlite import SQLITE
from core.store.lock import holder_of
from core.store.schema import HEAD
from core.version import __version__


class LastImport(msgspec.Struct, frozen=True, kw_only=True):
    """A learner's newest import that stands: what of it could not be read, and which calls met no arm."""

    learner: str
    id: str
    at: str | None
    runs: int
    lines_rejected: int
    files_unread: int
    calls_without_an_arm: tuple[str, ...]


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """How things are. ``schema`` None = there is no database that could be opened, and ``problem`` says why;
    ``writer`` = the process that holds the writers' lock of a file at this moment; ``free_bytes`` None = unknown.
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


def examine(settings: Settings) -> Examined:
    """Look at the database that the settings name, and at what surrounds it."""
    authorise(settings.actor, "read", None)
    path = settings.database
    found = Examined(
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
        found = msgspec.structs.replace(
            found,
            size_bytes=path.stat().st_size if path.is_file() else 0,
            free_bytes=_free(path),
            writer=holder_of(f"{path}.lock"),
        )
    try:
        context = open_context(settings, create=False, whole=True)
        with closing(context.store):
            return _with_content(found, context)
    except ArmscopeError as problem:
        return msgspec.structs.replace(found, problem=problem.as_answer())


def _with_content(found: Examined, context: Context) -> Examined:
    place, known = maintenance.place(context), learners(context)
    imports = (_last_import(context.of(one.name)) for one in known)
    return msgspec.structs.replace(
        found,
        schema=place.schema,
        size_bytes=place.size_bytes,
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
    """Room on the disk that holds a path, or would."""
    for place in (path, *path.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None
