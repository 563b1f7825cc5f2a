"""Drafts of forms, stored in this server's memory for a person and their browser.

The address must not hold texts about people. The database must not hold anything that was not sent. A draft ends when
it is sent or discarded, when the server stops, or when newer ones need its room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from dashboard.reading import reading
from dashboard.who import browser

Fields = TypeVar("Fields")


@dataclass(frozen=True, kw_only=True)
class Draft(Generic[Fields]):
    """A form that was begun; ``key`` is its own, under which it is sent once."""

    key: str
    fields: Fields


@dataclass(frozen=True)
class DraftKey:
    """Key of drafts: learner, browser and person; several people may share a browser."""

    database: str
    learner: str
    browser: str
    person: str = ""


class Drafts(Generic[Fields]):
    """Drafts by key, the oldest dropped beyond a bound; safe for several sessions at once.

    >>> here, drafts = DraftKey("a.db", "default", "x"), Drafts[str](bound=2)
    >>> for key in ("1", "2", "3"):
    ...     drafts.keep(here, Draft(key=key, fields=f"of run {key}"))
    >>> [drafts.newest(here, lambda fields: fields[-1] == run) is not None for run in ("1", "2", "3")]
    [False, True, True]
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._drafts: OrderedDict[tuple[DraftKey, str], Fields] = OrderedDict()
        self._lock = Lock()

    def keep(self, owner: DraftKey, draft: Draft[Fields]) -> None:
        """Keep a draft as it is now, as the newest."""
        with self._lock:
            self._drafts[owner, draft.key] = draft.fields
            self._drafts.move_to_end((owner, draft.key))
            while len(self._drafts) > self._bound:
                self._drafts.popitem(last=False)

    def drop(self, owner: DraftKey, key: str) -> None:
        """Forget a draft, if it is there."""
        with self._lock:
            self._drafts.pop((owner, key), None)

    def newest(self, owner: DraftKey, fits: Callable[[Fields], bool]) -> Draft[Fields] | None:
        """Return the newest draft of a key that fits, or None."""
        with self._lock:
            for (whose, key), fields in reversed(self._drafts.items()):
                if whose == owner and fits(fields):
                    return Draft(key=key, fields=fields)
        return None


def here() -> DraftKey:
    """Return the place of this browser and this page's learner."""
    context = reading().context
    return DraftKey(str(context.store.location), context.learner, browser(), context.actor.name)
