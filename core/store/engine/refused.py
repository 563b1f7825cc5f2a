"""Refused operations of a PostgreSQL server or network → our errors, each with the next step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

import msgspec
import psycopg
from psycopg import errors

from core.errors import (
    ArmscopeError,
    InvalidInput,
    StoreAway,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from core.settings import Server
from core.store.engine.file_faults import as_invalid

GOING: Final = "57P"
"""Prefixes of codes for a server or connection that ends."""
_PASSING: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_HAS_NONE: Final = (
    "too many clients",
    "remaining connection slots",
    "too many connections",
    "no more connections allowed",
)
_STARTS: Final = (
    "is starting up",
    "is in recovery mode",
    "is not yet accepting connections",
    "(server_login_retry)",
)
"""In what words a server says, to who has no connection yet, that it may have one for them soon: when another lets
one go, and when it has started, or recovered from a crash. The last of each are a pooler's words.
"""


_OF_ANOTHER: Final = (
    "SSL SYSCALL error",
    "server closed the connection unexpectedly",
    "connection not open",
    "remote node",
)
"""Words of a cluster's server for the loss of another one, with codes of all kinds."""

_RESTORE: Final = "Put the server's backup back (pg_basebackup, pg_dump), or an export of ours."

_NODE: Final = re.compile(r"remote node (?:\S+@)?(\S+:\d+)")
"""Pattern of a cluster's name for another server."""
_Refusal = tuple[type[StoreError], str, str]
_TOO_MANY: Final = (errors.TooManyConnections,)
_TOO_LONG: Final = "25P04"
"""The code for a transaction that took longer than it may, which not every driver knows by a name."""
_STOPPED: Final[_Refusal] = (
    StoreBusy,
    "The server of {place} stopped this before it was done: {words}.",
    "Try again; if it lasts, see whom it waits for, or let it take longer (statement_timeout, transaction_timeout).",
)
_REFUSALS: Final[dict[tuple[type[psycopg.Error], ...], _Refusal]] = {
    (errors.DiskFull, errors.OutOfMemory): (
        StoreFull,
        "The server of {place} has no room for more ({words}); nothing of this was written.",
        "Free some space and send it again: what is already stored is recognised.",
    ),
    (errors.LockNotAvailable,): (
        StoreBusy,
        "Another process has been writing to {place} for too long.",
        "Try again; if it lasts, look for an armscope process that hangs.",
    ),
    (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout): _STOPPED,
    _TOO_MANY: (
        StoreBusy,
        "{place} has had no connection free for 10 seconds.",
        "Try again; if it lasts, let the server have more (max_connections).",
    ),
    (errors.ReadOnlySqlTransaction,): (
        StoreReadOnly,
        "{place} can only be read: it is a standby, or set to be read only.",
        "Name the primary, for example postgresql://a,b/armscope?target_session_attrs=read-write.",
    ),
    (errors.SerializationFailure,): (
        StoreBusy,
        "{place} took back what was being asked of it: {words}.",
        "Try again; of a standby that does it often, set hot_standby_feedback = on.",
    ),
    (errors.InsufficientPrivilege,): (
        StoreReadOnly,
        "This user may not {doing} in {place}: {words}.",
        "Let the database's owner grant it, or name another user.",
    ),
    (errors.DataCorrupted, errors.IndexCorrupted): (StoreDamaged, "{place} is damaged: {words}.", _RESTORE),
}
_UNKNOWN: Final[_Refusal] = (
    StoreUnusable,
    "{place} can't be used: {words}.",
    "Name another with --database.",
)


def is_of_another(problem: psycopg.Error) -> bool:
    """Return whether a server reports the loss of another server of its cluster.

    A pooler reports the loss of its server by the same code, and closes the connection.
    """
    if problem.diag.severity == "FATAL":
        return False
    message = problem.diag.message_primary or ""
    return (problem.sqlstate or "").startswith("08") or any(words in message for words in _OF_ANOTHER)


def is_lost(problem: BaseException) -> bool:
    """Return whether a connection is gone, its own or one behind it, or none is free."""
    if isinstance(problem, psycopg.Error) and is_of_another(problem):
        return True
    if not isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = problem.sqlstate or ""
    return not state or state.startswith(("08", GOING))


def is_passing(problem: BaseException) -> bool:
    """Return whether a retry may succeed."""
    return isinstance(problem, _PASSING) or is_lost(problem)


def is_refused_for_now(problem: psycopg.Error) -> bool:
    """Return whether the server has no free connection now."""
    return any(words in str(problem) for words in (*_HAS_NONE, *_STARTS))


@contextmanager
def translated(
    location: Server,
    doing: Literal["read", "write"],
    *,
    unless: Callable[[psycopg.Error], bool] = lambda _: False,
) -> Iterator[None]:
    """Turn the driver's errors into ours; ``unless`` another handler takes them."""
    try:
        yield
    except ArmscopeError:
        raise
    except psycopg.Error as problem:
        if unless(problem):
            raise
        raise _error_for(problem, location, doing) from problem
    except (UnicodeEncodeError, OverflowError) as problem:
        raise as_invalid(problem) from problem
    except (UnicodeDecodeError, msgspec.DecodeError) as problem:
        raise StoreDamaged(
            f"{location} is damaged: it holds a value that can't be read ({problem}).", next_step=_RESTORE
        ) from problem


def _error_for(problem: psycopg.Error, location: Server, doing: str) -> StoreError | InvalidInput:
    if isinstance(problem, errors.NumericValueOutOfRange):
        return as_invalid(problem)
    if isinstance(problem, psycopg.DataError) and "NUL" in str(problem):
        return InvalidInput(
            "A text may not hold the character U+0000; nothing was recorded.",
            next_step="Leave it out and send it again.",
        )
    if is_lost(problem):
        return _unreached(problem, location)
    kind, message, step = next(
        (refusal for kinds, refusal in _REFUSALS.items() if isinstance(problem, kinds)),
        _STOPPED if problem.diag.sqlstate == _TOO_LONG else _UNKNOWN,
    )
    return kind(message.format(place=location, doing=doing, words=_words(problem)), next_step=step)


def _unreached(problem: psycopg.Error, location: Server) -> StoreError:
    """Return why there is no connection, by the server's words: before sign-in it sends no code."""
    message = str(problem)
    if (away := _NODE.search(message)) is not None:
        return StoreAway(
            f"The server {away[1]}, which keeps some learners of {location}, doesn't answer.",
            next_step="Start it again; learners that other servers keep go on meanwhile.",
        )
    if any(words in message for words in _STARTS):
        return StoreBusy(
            f"The server of {location} accepts no connection yet: {_words(problem)}.",
            next_step="Try again; if it lasts, its log says what it is at.",
        )
    if is_refused_for_now(problem):
        kind, busy, step = _REFUSALS[_TOO_MANY]
        return kind(busy.format(place=location), next_step=step)
    if "authentication failed" in message or "no password supplied" in message:
        step = "Give the right password: in PGPASSWORD, in ~/.pgpass, or in the address."
        return StoreUnusable(
            f"{location} can't be opened: the server refuses this user or password.", next_step=step
        )
    if "does not exist" in message:
        return StoreUnusable(
            f"{location} can't be opened: {_words(problem)}.",
            next_step=f"Make it (createdb {location.name}), or name another with --database.",
        )
    return StoreUnusable(
        f"{location} can't be reached: {_words(problem)}.",
        next_step="Start the server, or correct host and port in --database.",
    )


def _words(problem: psycopg.Error) -> str:
    """Return the first line of the server's message, without its position.

    >>> _words(psycopg.OperationalError('connection failed: FATAL:  database "x" does not exist'))
    'database "x" does not exist'
    """
    message = problem.diag.message_primary or str(problem).strip().partition("\n")[0]
    return message.rpartition("FATAL:  ")[2].rstrip(".") or type(problem).__name__
