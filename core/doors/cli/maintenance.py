"""Maintenance: verify, doctor, backup, restore, upgrade: is it right, a copy of it, the next schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, asked, command, context_of, done, following
from core.doors.cli.program.spelling import words
from core.doors.progress import counted
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import verb
from core.records.counts import number_of
from core.settings import database_at

if TYPE_CHECKING:
    from core.flows import queries
    from core.flows.doctor import Examination
    from core.flows.restore import RestorePlan
    from core.records.answers import BackupAnswer


@command(examples=["verify", "verify --quiet || echo damaged"])
def verify(line: typer.Context) -> None:
    """Exits with 1 and the differences, if there are any."""
    asked_for, context = verb("verify"), context_of(line, whole=True)
    with following(line) as bar:
        found: queries.Verification = asked_for.call(context, progress=counted(bar, "runs"))

    def tell() -> None:
        if found.clean:
            where = f", on {', '.join(found.servers)}" if found.servers else ""
            say(
                f"Everything equals the fold of the facts ({number_of(len(found.learners), 'learner')}{where})."
            )
            return
        say(f"{found.n_differences:,} differences:")
        heads = ("learner", "table", "key", "stored", "recomputed")
        say_table(heads, [[name, *map(str, difference)] for name, difference in found.differences])

    give = done if found.clean else answer
    give(line, asked_for.plain(context, found), tell)
    if not found.clean:
        raise typer.Exit(1)


@command(examples=["doctor", "doctor --json > report.json"])
def doctor(line: typer.Context) -> None:
    """Report the state of the installation, for a first check.

    Version, database, the present writer, learners, and what the last imports could not read. Makes nothing;
    exits with 1 where the database can't be opened.
    """
    from core.flows.doctor import examine

    found = examine(asked(line).settings())
    answer(line, found, lambda: _say_examined(found))
    if found.problem is not None:
        raise typer.Exit(1)


def _say_examined(found: Examination) -> None:
    schema = "none" if found.schema is None else found.schema
    free = "unknown" if found.free_bytes is None else f"{found.free_bytes / 1e9:,.1f} GB"
    rows = [
        ("armscope", f"{found.armscope} (Python {found.python}, SQLite {found.sqlite}, {found.system})"),
        ("database", f"{found.database} ({found.size_bytes / 1e6:,.1f} MB, schema {schema})"),
        ("free on its disk", free),
        ("writing now", found.writer or "nobody"),
        (
            "learners",
            ", ".join(
                f"{one.name} ({one.state if one.runs is None else number_of(one.runs, 'run')})"
                for one in found.learners
            )
            or "none",
        ),
    ]
    for last in found.imports:
        calls = ", ".join(last.calls_without_an_arm[:5])
        rows.append(
            (
                f"last import into {last.learner}",
                f"{last.id}, {last.at or 'time unknown'}: {number_of(last.runs, 'run')}, "
                f"{last.lines_rejected:,} lines rejected, "
                f"{last.files_unread:,} files not read, calls without an arm: {calls or 'none'}",
            )
        )
    if found.problem is not None:
        rows.append(("problem", f"{found.problem['error']} {found.problem['next']}"))
    say_facts(rows)


@command(examples=["backup /backups/armscope-2026-11-22.db"])
def backup(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help=words("backup", "target"))],
) -> None:
    context = context_of(line, whole=True)
    with following(line) as bar:
        found: BackupAnswer = verb("backup").call(context, target=file, progress=counted(bar, "pages"))
    told = f"{found.size_bytes:,} bytes written to {found.file}; open it with --database {found.file}."
    done(line, found, lambda: say(told))


@command(examples=["restore /backups/armscope-2026-11-22.db", "restore copy.db --yes --json"])
def restore(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="The backup.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Replace the database by a backup, even while it is in use.

    The backup is checked first, and what it replaces is kept.
    """
    from core.flows.restore import restore as restore_backup

    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("a restore without a terminal to ask on needs --yes; nothing was restored")

    def confirm(plan: RestorePlan) -> None:
        say(*_cost(plan))
        typer.confirm("Go on?", abort=True)

    database = asked(line).settings().database
    found = restore_backup(database, file, confirm=None if yes else confirm)
    kept = (
        "" if found.kept is None else f" What it replaced is kept in {found.kept}; restore that to go back."
    )
    done(
        line,
        found,
        lambda: say(f"{found.database} holds {found.file} again: {number_of(found.runs, 'run')}.{kept}"),
    )


def _cost(plan: RestorePlan) -> list[str]:
    """Return what a restore would replace, in words."""
    said = [f"{plan.file} is sound and holds {number_of(plan.runs, 'run')}."]
    if plan.runs_lost is None or plan.acts_lost is None:
        return [
            *said,
            f"{plan.database} is damaged: what it holds beyond them can't be told. It will be kept.",
        ]
    return [
        *said,
        f"{plan.database} holds {number_of(plan.runs_lost, 'run')} and "
        f"{number_of(plan.acts_lost, 'act')} that the backup does not: "
        "they will be gone from it, and kept in a file of their own.",
    ]


@command(
    examples=[
        "copy runs.db postgresql://db.example/armscope",
        "copy postgresql://db.example/armscope runs.db",
    ]
)
def copy(
    line: typer.Context,
    source: Annotated[str, typer.Argument(help="The database: a file, or the URL of a server's.")],
    target: Annotated[str, typer.Argument(help="The one it is copied into, which is new or empty.")],
) -> None:
    """Copy a whole database into another, in a file or on a server.

    The first may be used meanwhile. Both are checked afterwards.
    """
    from core.flows.copy import copy as copy_database

    with following(line) as bar:
        found = copy_database(database_at(source), database_at(target), progress=counted(bar, "tables"))
    told = f"{found.target} holds what {found.source} holds ({number_of(len(found.learners), 'learner')})."
    done(line, found, lambda: say(told))


@command(
    examples=[
        "upgrade",
        "upgrade --database old.db",
        "upgrade --distribute --database postgresql://db/armscope",
    ]
)
def upgrade(
    line: typer.Context,
    distribute: Annotated[
        bool,
        typer.Option(
            "--distribute", help="Spread its tables by learner over the workers of a Citus cluster, too."
        ),
    ] = False,
) -> None:
    """Bring a database of an older armscope up to date."""
    from core.flows import maintenance

    found = maintenance.upgrade(asked(line).settings().database, distribute=distribute)
    told = [f"{found.database} has schema {found.after} (it had {found.before or 'none'})."]
    if found.servers:
        moved = number_of(found.tables_distributed, "table") if found.tables_distributed else "nothing"
        told.append(
            f"Its tables are distributed by learner over {number_of(len(found.servers), 'server')}"
            f" ({', '.join(found.servers)}); {moved} had to be moved."
        )
    done(line, found, lambda: say(*told))
