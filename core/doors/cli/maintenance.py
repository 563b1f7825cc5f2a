"""Maintenance: verify, doctor, backup, restore and upgrade; erased texts and compacted runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.doors.cli.program.app import (
    Asking,
    Fields,
    Yes,
    answer,
    check_terminal,
    command,
    confirm,
    context_of,
    done,
    following,
    global_options,
    writes,
    written,
)
from core.doors.documents import act as act_document
from core.doors.terminal import counted, say, say_facts, say_table
from core.doors.verbs import Verbs
from core.explained import machine
from core.explained.table import Field, Table, text
from core.records.counts import number_of
from core.records.verification import unprovable_words
from core.settings import database_at

if TYPE_CHECKING:
    from core.flows import queries
    from core.flows.context import Context
    from core.flows.maintenance import Examination
    from core.flows.restore import RestorePlan
    from core.records.answers import BackupAnswer, CompactAnswer, EraseAnswer, RestoreAnswer

TEXTS: Final[Table[tuple[str, int]]] = Table(
    column=text("where", lambda one: one[0]), n=Field("texts", lambda one: f"{one[1]:,}")
)
AMOUNTS: Final[Table[tuple[str, int]]] = Table(
    what=text("what", lambda one: one[0]), n=Field("number", lambda one: f"{one[1]:,}")
)
_MEND: Final = (
    "Next: armscope upgrade explains such a chain where an import counted replaced states of episodes."
)
_REFUSED: Final = (
    "A restore of it is refused. Mend the database first: armscope upgrade, then back it up again."
)
_BROKEN: Final = (
    "The chain of {} has other facts than its rows, and nothing explains the difference. Give the file that was "
    "imported: armscope upgrade --explain FILE. If no backup is sound, accept it for good: armscope upgrade "
    "--accept-unprovable."
)


@command(examples=["verify", "verify --quiet || echo damaged", "verify --head 120:5f0c…"], omit=("limit",))
def verify(line: typer.Context, values: Fields) -> None:
    """Exits with 1 and the differences, if there are any."""
    one_verb, context = Verbs.verify, context_of(line, whole=True)
    with following(line) as bar:
        result: queries.Verification = one_verb.call(context, **values, progress=counted(bar, "runs"))

    def tell() -> None:
        if result.replayed or result.not_replayed:
            say(f"Draws replayed: {result.replayed:,}; not replayed: {result.not_replayed:,}.")
        if result.clean:
            where = f", on {', '.join(result.servers)}" if result.servers else ""
            say(
                f"Everything equals the fold of the facts ({number_of(len(result.learners), 'learner')}{where})."
            )
            say(*(f"Head of {name}: {one}" for name, one in result.heads.items()))
            say(*_unprovable(result.unprovable))
            return
        say(f"{number_of(result.n_differences, 'difference')}:")
        say_table(machine.DIFFERENCES, result.differences)
        say(*_unprovable(result.unprovable))
        if ("link", "the last") in {one[:2] for _, one in result.differences}:
            say(_MEND)

    give = done if result.clean else answer
    give(line, one_verb.plain(context, result), tell)
    if not result.clean:
        raise typer.Exit(1)


def _unprovable(until: Mapping[str, int]) -> list[str]:
    return [f"{name or 'The installation'}: {unprovable_words(number)}." for name, number in until.items()]


@command(examples=["doctor", "doctor --json > report.json"])
def doctor(line: typer.Context) -> None:
    """Report the state of the installation, for a first check.

    Version, database, the present writer, learners, and what the last imports could not read. Makes nothing;
    exits with 1 where the database can't be opened.
    """
    from core.flows.maintenance import examine

    result = examine(global_options(line).settings())
    answer(line, result, lambda: _say_examined(result))
    if result.problem is not None:
        raise typer.Exit(1)


def _say_examined(result: Examination) -> None:
    schema = "none" if result.schema is None else result.schema
    free = "unknown" if result.free_bytes is None else f"{result.free_bytes / 1e9:,.1f} GB"
    rows = [
        ("armscope", f"{result.armscope} (Python {result.python}, SQLite {result.sqlite}, {result.system})"),
        ("database", f"{result.database} ({result.size_bytes / 1e6:,.1f} MB, schema {schema})"),
        ("free on its disk", free),
        ("writing now", result.writer or "no process"),
        (
            "learners",
            ", ".join(
                f"{one.name} ({one.state if one.runs is None else number_of(one.runs, 'run')})"
                for one in result.learners
            )
            or "none",
        ),
    ]
    for last in result.imports:
        calls = ", ".join(last.calls_without_an_arm[:5])
        rows.append(
            (
                f"last import into {last.learner}",
                f"{last.id}, {last.at or 'time unknown'}: {number_of(last.runs, 'run')}, "
                f"{last.lines_rejected:,} lines rejected, "
                f"{last.files_unread:,} files not read, calls without an arm: {calls or 'none'}",
            )
        )
    rows += [("chain", one) for one in _unprovable(result.unprovable)]
    if result.damage is not None:
        rows.append(("damage", f"{result.damage}; list it with: armscope verify"))
    if result.problem is not None:
        rows.append(("problem", f"{result.problem['error']} {result.problem['next']}"))
    say_facts(rows)


@command(examples=["backup /backups/armscope-2026-11-22.db"], options={"target": "file"})
def backup(line: typer.Context, values: Fields) -> None:
    context = context_of(line, whole=True)
    with following(line) as bar:
        result: BackupAnswer = Verbs.backup.call(context, **values, progress=counted(bar, "pages"))
    text = f"{result.size_bytes:,} bytes written to {result.file}; open it with --database {result.file}."
    damage = (
        [] if result.damage is None else [f"The copy has the database's damage: {result.damage}.", _REFUSED]
    )
    heads = [f"Head of {name}: {head}" for name, head in result.heads.items()]
    done(line, result, lambda: say(text, *heads, *damage))


@command(examples=["restore /backups/armscope-2026-11-22.db", "restore copy.db --yes --json"])
def restore(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="The backup.")],
    yes: Yes = False,
) -> None:
    """Replace the database by a backup, even while it is in use.

    The backup is checked first, and what it replaces is kept.
    """
    from core.flows.restore import restore as restore_backup

    if not yes:
        check_terminal("a restore", "restored")

    def confirm(plan: RestorePlan) -> None:
        say(*_cost(plan))
        typer.confirm("Go on?", abort=True)

    database = global_options(line).settings().database
    result = restore_backup(database, file, confirm=None if yes else confirm)
    backup_note = (
        "" if result.kept is None else f" What it replaced is kept in {result.kept}; restore that to go back."
    )
    done(
        line,
        result,
        lambda: say(
            f"{result.database} holds {result.file} again: {_runs(result)}.{backup_note}",
            *(one.words for one in result.mended),
        ),
    )


def _runs(restored: RestorePlan | RestoreAnswer) -> str:
    more = f" and the sums of {number_of(restored.compacted, 'compacted run')}" if restored.compacted else ""
    return f"{number_of(restored.runs, 'run')}{more}"


def _cost(plan: RestorePlan) -> list[str]:
    lines = [f"{plan.file} is sound and holds {_runs(plan)}."]
    if plan.runs_lost is None or plan.acts_lost is None:
        return [
            *lines,
            f"{plan.database} is damaged: what it holds beyond them can't be text. It will be kept.",
        ]
    return [
        *lines,
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
    from core.flows.restore import copy_database

    with following(line) as bar:
        result = copy_database(database_at(source), database_at(target), progress=counted(bar, "tables"))
    text = f"{result.target} holds what {result.source} holds ({number_of(len(result.learners), 'learner')})."
    done(line, result, lambda: say(text))


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
    explain: Annotated[
        list[Path] | None,
        typer.Option(help="A file that was imported: it explains why a chain has more than the rows."),
    ] = None,
    accept_unprovable: Annotated[
        bool,
        typer.Option(
            "--accept-unprovable", help="Accept for good a chain whose difference nothing explains."
        ),
    ] = False,
) -> None:
    """Bring a database of an older armscope up to date, and mend chains that an import broke.

    Exits with 1 where nothing explains the difference between a chain and its rows.
    """
    from core.flows import maintenance

    result = maintenance.upgrade(
        global_options(line).settings().database,
        distribute=distribute,
        explain=explain or (),
        accept_unprovable=accept_unprovable,
    )
    text = [f"{result.database} has schema {result.after} (it had {result.before or 'none'})."]
    if result.servers:
        moved = number_of(result.tables_distributed, "table") if result.tables_distributed else "nothing"
        text.append(
            f"Its tables are distributed by learner over {number_of(len(result.servers), 'server')}"
            f" ({', '.join(result.servers)}); {moved} had to be moved."
        )
    text += [
        f"The chain of learner {learner} covers all its facts, transcripts too, as of link {head}."
        for learner, head in result.covered_from.items()
    ]
    text += [one.words for one in result.mended]
    text += [_BROKEN.format(f"learner {name}" if name else "the installation") for name in result.broken]
    (answer if result.broken else done)(line, result, lambda: say(*text))
    if result.broken:
        raise typer.Exit(1)


def _preview_erase(context: Context, values: Fields) -> None:
    from core.flows.erase import preview_erase

    preview = preview_erase(context, **values)
    say_table(TEXTS, preview.places.items())
    say("They are erased for good: this can't be undone. Numbers stay.")
    say(f"Not reached: {', '.join(preview.not_reached)}.")


@writes(
    "erase",
    asks=Asking("erasing", "erased", _preview_erase),
    examples=["erase --run request-1", "erase --session s-42 --yes", "erase --act note-3"],
    options={
        **dict.fromkeys(("run", "execution", "episode"), "UID"),
        **{"session": "NAME", "act": "ID", "rater": "NAME"},
    },
)
def _erased(result: EraseAnswer) -> str:
    """Keep counts and scores. No import brings the texts back."""
    return f"{number_of(result.texts, 'text')} erased. Not reached: {', '.join(result.not_reached)}."


def _preview_compact(context: Context, values: Fields) -> None:
    from core.flows.compact import preview_compact

    preview = preview_compact(context, keep_days=values["keep_days"])
    rows = (
        (f"runs to delete, which ended before {preview.until}", preview.runs),
        ("older runs that stay, as feedback or another fact is about them", preview.left),
        ("imports that can't be undone afterwards", preview.imports),
    )
    say_table(AMOUNTS, rows)
    say(*preview.lost, "The rows are deleted for good: this can't be undone. Sums stay.")


_COMPACT: Final = Asking("compacting", "deleted", _preview_compact)


@command(examples=["compact --keep-days 365", "compact --shrink --yes"], options={"keep_days": "N"})
def compact(line: typer.Context, values: Fields, yes: Yes = False) -> None:
    """Delete the rows of old runs, and keep their sums. It can't be undone, and an import knows the deleted runs."""
    context = context_of(line)
    if not yes:
        confirm(_COMPACT, context, values)
    result: CompactAnswer = Verbs.compact.call(context, **values)
    if result.runs:
        message = (
            f"{number_of(result.runs, 'run')} deleted that ended before {result.until}. Their sums stay."
        )
        written(line, context, result, message, act=None)
        return
    rewritten = " The file was rewritten." if values["shrink"] else ""
    message = f"Nothing to delete: no run without feedback ended before {result.until}.{rewritten}"
    done(line, act_document(context, result), lambda: say(message))
