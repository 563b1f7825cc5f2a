"""Keeping: is it right, a copy of it, the next schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.doors.cli.line import answer, asked, command, desk_of, done, following
from core.doors.progress import counted
from core.doors.terminal import say, say_table


@command(examples=["verify", "verify --quiet || echo damaged"])
def verify(context: typer.Context) -> None:
    """Recompute every cache from the recorded facts, and compare.

    Exits with 1 and the differences, if there are any.
    """
    from core.flows import look

    desk = desk_of(context, whole=True)
    with following(context) as bar:
        found = look.verify(desk, progress=counted(bar, "runs"))
    listed = [{"learner": name, **difference._asdict()} for name, difference in found.found]
    result = {
        "ok": found.clean,
        "learners": found.learners,
        "differences_count": found.n_differences,
        "differences": listed,
    }

    def words() -> None:
        if found.clean:
            say(f"Everything equals the fold of the facts ({len(found.learners):,} learners).")
            return
        say(f"{found.n_differences:,} differences:")
        heads = ("learner", "table", "key", "stored", "recomputed")
        say_table(heads, [[str(value) for value in one.values()] for one in listed])

    tell = done if found.clean else answer
    tell(context, result, words)
    if not found.clean:
        raise typer.Exit(1)


@command(examples=["backup /backups/armscope-2026-11-22.db"])
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file.")],
) -> None:
    """Copy the database as it is at this moment, while it is in use."""
    from core.flows import keep

    desk = desk_of(context, whole=True)
    with following(context) as bar:
        found = keep.backup(desk, file, progress=counted(bar, "pages"))
    words = f"{found.size_bytes:,} bytes written to {found.file}; open it with --database {found.file}."
    done(context, found, lambda: say(words))


@command(examples=["upgrade", "upgrade --database old.db"])
def upgrade(context: typer.Context) -> None:
    """Bring a database of an older armscope up to date."""
    from core.flows import keep

    found = keep.upgrade(asked(context).settings().database)
    words = f"{found.database} has schema {found.after} (it had {found.before or 'none'})."
    done(context, found, lambda: say(words))
