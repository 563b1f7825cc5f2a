"""Erasing of texts of a run, session, execution, episode or act, or of a person's name; every number stays.

The history records it, and it can't be undone. A stored digest prevents imports from restoring erased texts.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Final, get_args

import msgspec
from msgspec import Meta

from core.errors import InvalidInput, NotFound, StoreBusy
from core.flows.context import Context
from core.records.answers import Erasable, EraseAnswer
from core.settings import Located, Server
from core.spool import Spool, spools
from core.store.erasing import (
    erase_act,
    erase_rater,
    erase_words,
    scope_of_episode,
    scope_of_execution,
    scope_of_run,
    scope_of_session,
)
from core.store.files import files_of
from core.store.transaction import Transaction

_ELSEWHERE: Final = (
    "backups made before",
    "exports and reports made before",
    "runs that wait on other machines to be recorded",
    "the names of members and tokens",
    "the ids of runs, executions and episodes",
    "names of what is counted, such as arms, models and environments",
    "the keys of requests",
)


_SCOPES: Final = {
    "run": scope_of_run,
    "session": scope_of_session,
    "execution": scope_of_execution,
    "episode": scope_of_episode,
}


def erase(
    context: Context,
    *,
    run: Annotated[str | None, Meta(description="A run, by uid or number.")] = None,
    session: Annotated[str | None, Meta(description="All runs of a session, by its name.")] = None,
    execution: Annotated[str | None, Meta(description="An execution, by uid.")] = None,
    episode: Annotated[str | None, Meta(description="An episode, by uid.")] = None,
    act: Annotated[
        str | None, Meta(description="The words of a note, reward or other act, by its id.")
    ] = None,
    rater: Annotated[str | None, Meta(description="A person's name, which becomes a number.")] = None,
) -> EraseAnswer:
    """Erase the texts of a run, session, execution, episode or act, or a person's name, for good.

    When this returns, no byte of them is left in the database's files.

    Parameters
    ----------
    run, session, execution, episode
        A run by uid or number (with its own execution), all runs of a session by its name, an execution or an episode
        by uid. Erased are instruction and response, excerpts, texts of steps of the run's episodes, feedback, drafts,
        and the notes and reasons that are about it or name it. Its session's name becomes a number in all runs, and
        so does the task of each erased episode.
    act
        The id of a note, reward, reset, repair, evaluation, choice, aside, queue or rubric: the words of that act.
    rater
        A person's name, which becomes a number wherever it is a name, and as a whole word in what people wrote, in
        labels of arms and in descriptions of layers.

    Raises `InvalidInput` unless exactly one of the six is named, and `UnknownRun`, `UnknownExecution` or `NotFound`
    for an unknown name. Raises `StoreBusy` or `StoreFull` where the texts are erased, but a long read kept the log
    from being emptied, or the disk has no room to rewrite the file: erase again.
    """
    of, name = _named(run=run, session=session, execution=execution, episode=episode, act=act, rater=rater)
    context.permit("erase")
    spool = Spool.of_database(context.store.location, context.learner)
    n_waiting = spool.erase(run=run, session=session)
    others = [
        f"{one.about.address} (runs for it wait in {one.folder}; use erase of that server's Client)"
        for one in (spools() if run or session else ())
        if one.about.learner == context.learner
        and one.folder != spool.folder
        and one.holds(run=run, session=session)
    ]
    try:
        counts = context.write("erase", lambda txn: _erased(txn, of, name))
    except NotFound:
        if not n_waiting and not others:
            raise
        counts = Counter()
    if not context.store.database.scour():
        raise StoreBusy(
            "The text is erased, but a long read kept it in the file's log.",
            next_step="Close the programs that read the database, and erase again.",
        )
    answer = _answer(context, of, counts).with_spool(n_waiting, str(spool.folder))
    for other in others:
        answer = answer.with_spool(None, other)
    return answer


def preview_erase(
    context: Context,
    *,
    run: str | None = None,
    session: str | None = None,
    execution: str | None = None,
    episode: str | None = None,
    act: str | None = None,
    rater: str | None = None,
) -> EraseAnswer:
    """Return what `erase` would remove; nothing is changed."""
    of, name = _named(run=run, session=session, execution=execution, episode=episode, act=act, rater=rater)
    counts = context.rehearse("erase", lambda txn: _erased(txn, of, name))
    return msgspec.structs.replace(_answer(context, of, counts), is_preview=True)


def _named(**subjects: str | None) -> tuple[Erasable, str]:
    options: list[tuple[Erasable, str | None]] = [(of, subjects.get(of)) for of in get_args(Erasable)]
    named = [(of, name) for of, name in options if name]
    if len(named) != 1:
        raise InvalidInput(
            f"Exactly one subject must be named to be erased, got {len(named)}.",
            next_step="Name a run, a session, an execution, an episode, an act or a rater; nothing was erased.",
        )
    return named[0]


def _erased(txn: Transaction, of: Erasable, name: str) -> Counter[str]:
    if of == "rater":  # audited first, because the person's own erasure would contain the name
        txn.audit("erase", None, {"of": of})
        return erase_rater(txn, name)
    counts = erase_act(txn, name) if of == "act" else erase_words(txn, _SCOPES[of](txn, name))
    txn.audit("erase", None, {"of": of, "texts": counts.total()})
    return counts


def _answer(context: Context, of: Erasable, counts: Counter[str]) -> EraseAnswer:
    return EraseAnswer(
        of=of,
        texts=counts.total(),
        places=dict(sorted(counts.items())),
        not_reached=(*_ELSEWHERE, *_elsewhere(context.store.location)),
    )


def _elsewhere(database: Located) -> list[str]:
    if isinstance(database, Server):
        return ["the server's log of writes, and its own backups"]
    return [str(path) for path in _related_files(database)]


def _related_files(path: Path) -> list[Path]:
    """Return files next to the database with its name in theirs, such as replaced databases and superseded logs."""
    own = {*files_of(path), Path(f"{path}.import.lock"), Path(f"{path}.import.lock.turn")}
    return sorted(
        one
        for one in path.parent.iterdir()
        if one not in own and (one.name.startswith((f"{path.name}", f"{path.stem}.")) and one.is_file())
    )
