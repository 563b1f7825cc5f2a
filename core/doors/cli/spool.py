"""Spool: runs of agents on this machine that wait to be recorded, and traces and rollouts that are no run yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from core.doors.cli.program.app import (
    GlobalOptions,
    Yes,
    answer,
    check_terminal,
    command,
    context_of,
    done,
    global_options,
    group,
    reads,
)
from core.doors.terminal import say, say_table
from core.explained import machine
from core.explained.table import Table, count, text
from core.records.counts import number_of
from core.records.status import SpoolCounts
from core.settings import secret
from core.spool import Header, Spool, spools

if TYPE_CHECKING:
    from core.doors.protocol import LearnerProtocol

SPOOL = group("spool", words="List the runs that wait to be recorded, send them, or clear rejected ones.")
_SHOWN: Final = 3


class SpoolRow(msgspec.Struct, frozen=True, kw_only=True):
    """Spool of a learner; ``codes`` counts its rejected runs by error code, ``reasons`` are examples by uid."""

    address: str
    learner: str
    folder: str
    counts: SpoolCounts
    codes: dict[str, int]
    reasons: dict[str, str]


SPOOLS: Final[Table[SpoolRow]] = Table(
    address=text("address", lambda one: one.address),
    learner=text("learner", lambda one: one.learner),
    waiting=count("waiting", lambda one: one.counts.waiting),
    rejected=count("rejected", lambda one: one.counts.rejected),
    dropped=count("dropped", lambda one: one.counts.dropped),
)


@command(
    "list", inside=SPOOL, words="List the spools of this user, by address.", examples=["spool", "spool list"]
)
def list_spools(line: typer.Context) -> None:
    """A run waits in a spool when its agent could not reach the database or server."""
    rows = [_row(one) for one in spools()]
    answer(line, rows, lambda: _say(rows))


@command(
    "send",
    inside=SPOOL,
    words="Send the runs that wait for a database or server.",
    examples=["spool send", "spool send --server http://127.0.0.1:8502 --rejected"],
)
def send(
    line: typer.Context,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Server to send to; the token is in ARMSCOPE_TOKEN."),
    ] = None,
    rejected: Annotated[bool, typer.Option("--rejected", help="Send rejected runs once more.")] = False,
) -> None:
    """Without --learner it sends those of every learner. A run without an answer waits on; a repeat counts once."""
    number, counts = 0, list[SpoolCounts]()
    for learner in _senders(line, server):
        try:
            number += learner._attempts.send_all(rejected=rejected)  # each keeps the time of its request
        finally:
            learner._attempts.close()
        counts.append(learner._attempts.counts())
    names = SpoolCounts.__struct_fields__
    left = SpoolCounts(**{name: sum(getattr(one, name) for one in counts) for name in names})
    words = f"{number_of(number, 'run')} sent; {spool_words(left)}."
    done(line, {"sent": number, "left": left}, lambda: say(words))


@command(
    inside=SPOOL,
    words="Remove rejected runs for good; they count as dropped.",
    examples=["spool clear", "spool clear --server http://127.0.0.1:8502 --learner support --yes"],
)
def clear(
    line: typer.Context,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Only those of this server.")
    ] = None,
    yes: Yes = False,
) -> None:
    """--database and --learner name those of one database or learner. Runs that wait are kept."""
    chosen = _chosen(global_options(line), server)
    number = sum(one.counts().rejected for one in chosen)
    if number and not yes:
        check_terminal("a removal", "removed")
        say(f"Remove {number_of(number, 'rejected run')} for good. They can't be sent again.")
        typer.confirm("Go on?", abort=True)
    cleared = sum(one.clear() for one in chosen)
    done(line, {"cleared": cleared}, lambda: say(f"{number_of(cleared, 'rejected run')} removed."))


def _chosen(options: GlobalOptions, server: str | None) -> list[Spool]:
    chosen = spools()
    if server is not None:
        address = Spool.of_server(server, "").about.address  # it is the same for every learner
        chosen = [one for one in chosen if one.about.address == address]
    elif options.database is not None:
        location = options.settings().database
        address = Spool.of_database(location, "").about.address
        chosen = [one for one in chosen if one.about.address == address]
    return [one for one in chosen if options.learner in {None, one.about.learner}]


def _senders(line: typer.Context, server: str | None) -> Iterator[LearnerProtocol]:
    """Yield the learners that have a spool at a database or server; only the one that the options name, if any."""
    named = global_options(line).settings().learner
    if server is None:
        kind: Any = resolve_name("core.doors.python:Learner")
        context = context_of(line, whole=True)
        for name in _learners(Spool.of_database(context.store.location, ""), named):
            yield kind(context.of(name))
    else:
        client: Any = resolve_name("core.client:Client")
        for name in _learners(Spool.of_server(server, ""), named):
            with client(server, secret("ARMSCOPE_TOKEN"), learner=name) as learner:
                yield learner


def _learners(there: Spool, named: str | None) -> list[str]:
    known = [one.about.learner for one in spools() if one.about.address == there.about.address]
    return known if named is None else [named]


def spool_words(counts: SpoolCounts) -> str:
    """Return the numbers of a spool in words.

    >>> spool_words(SpoolCounts(waiting=2, dropped=1))
    '2 runs wait, 0 rejected, 1 dropped'
    """
    waiting = "1 run waits" if counts.waiting == 1 else f"{counts.waiting:,} runs wait"
    return f"{waiting}, {counts.rejected:,} rejected, {counts.dropped:,} dropped"


def _row(spool: Spool) -> SpoolRow:
    latest: dict[str, Header] = {}
    counter: Counter[str] = Counter()
    for item in map(spool.read, spool.rejected()):
        if item is not None:
            code = item.header.code or "error"
            latest[code] = item.header
            counter[code] += 1
    codes = dict(counter.most_common())
    return SpoolRow(
        address=spool.about.address,
        learner=spool.about.learner,
        folder=str(spool.folder),
        counts=spool.counts(),
        codes=codes,
        reasons={latest[code].uid: latest[code].reason or "" for code in list(codes)[:_SHOWN]},
    )


def _say(rows: list[SpoolRow]) -> None:
    say_table(SPOOLS, rows)
    codes: Counter[str] = sum((Counter(one.codes) for one in rows), Counter())
    if not codes:
        return
    say("Rejected: " + ", ".join(f"{number:,} {code}" for code, number in codes.most_common()) + ".")
    for uid, reason in [pair for one in rows for pair in one.reasons.items()][:_SHOWN]:
        say(f"{uid}: {reason}")
    say("Send them once more: armscope spool send --rejected. Remove them: armscope spool clear.")


reads("rollouts", empty="Every rollout that was sent is an episode.", examples=["rollouts"])(machine.ROLLOUTS)
reads("traces", empty="Every trace that was sent is a run.", examples=["traces"])(machine.TRACES)
