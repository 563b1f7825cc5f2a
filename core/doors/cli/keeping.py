"""Keeping: is it right, a copy of it, the next schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.doors.cli.line import Json, answer, app, desk_of
from core.doors.terminal import say, say_table
from core.flows import keep, look


@app.command()
def verify(context: typer.Context, as_json: Json = False) -> None:
    """Recompute every cache from the recorded facts; exit 1 with the differences if there are any."""
    found = look.verify(desk_of(context))
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

    answer(result, as_json=as_json, words=words)
    if not found.clean:
        raise typer.Exit(1)


@app.command()
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A new file.")],
    as_json: Json = False,
) -> None:
    """Copy the database as it is at this moment, while it is in use."""
    found = keep.backup(desk_of(context), file)
    words = f"{found.size_bytes:,} bytes written to {found.file}; open it with --database {found.file}."
    answer(found, as_json=as_json, words=lambda: say(words))


@app.command()
def upgrade(context: typer.Context, as_json: Json = False) -> None:
    """Bring a database of an older armscope up to date."""
    found = keep.upgrade(context.obj.settings().database)
    words = f"{found.database} has schema {found.after} (it had {found.before or 'none'})."
    answer(found, as_json=as_json, words=lambda: say(words))
