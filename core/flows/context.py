"""Context: where every verb happens: an open store, the learner in question, who asks, and whose clock and dice."""

from __future__ import annotations

import secrets
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from core.errors import UnknownLearner
from core.flows.pace import USUAL, Pace
from core.permissions import OF_INSTALLATION, Action, authorise, may
from core.records.actor import Actor
from core.records.learner import INSTALLATION
from core.settings import DEFAULT_LEARNER, Settings, check_learner
from core.store import fleet
from core.store.review import hidden_evaluations
from core.store.staging import Part, Stage
from core.store.store import Store
from core.store.transaction import Snapshot, Transaction, unknown_learner

_T = TypeVar("_T")
_MOST_LISTED: Final = 10


def utc_now_ms() -> int:
    """The machine's clock, in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def fresh_seed() -> int:
    """A seed nobody can foretell."""
    return secrets.randbits(64)


def fresh_identity() -> str:
    """A name no other learner anywhere has."""
    return str(uuid.uuid4())


def unlimited(actor: Actor, n_layers: int) -> None:
    """Where nobody counts how many layers somebody makes by judging them."""


class _Rehearsed(Exception):
    """The rehearsal is over."""


def _rehearsed(
    write: Callable[[Callable[[Transaction], None]], None], work: Callable[[Transaction], _T]
) -> _T:
    """What ``work`` answers in a write of which nothing stays."""
    answers: list[_T] = []

    def rehearsed(txn: Transaction) -> None:
        answers.append(work(txn))
        raise _Rehearsed

    with suppress(_Rehearsed):
        write(rehearsed)
    return answers[-1]


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a flow needs. ``clock`` gives UTC milliseconds, ``entropy`` a seed for each selection, ``identity`` the
    lasting name of a learner that is made, ``pace`` says how much an import does at once. ``is_named`` False:
    nobody said which learner; it is the one there was, and no second one is made by guessing. ``is_awaited``: a
    client of this learner may look before anything was recorded, and sees that there is nothing yet. ``new_layers``
    is told how many layers somebody made by judging what nobody had named; it may refuse, and nothing was done then.
    """

    store: Store
    learner: str = DEFAULT_LEARNER
    is_named: bool = True
    is_awaited: bool = False
    actor: Actor
    clock: Callable[[], int] = utc_now_ms
    entropy: Callable[[], int] = fresh_seed
    identity: Callable[[], str] = fresh_identity
    pace: Pace = USUAL
    rehearses: bool = False
    new_layers: Callable[[Actor, int], None] = unlimited

    def __post_init__(self) -> None:
        if self.learner == INSTALLATION:
            check_learner(self.learner)  # no name leads to what belongs to the installation

    def of(self, learner: str) -> Context:
        """The same for another learner."""
        return replace(self, learner=learner, is_named=True)

    def for_pages(self) -> Context:
        """The same, to look at: what may be a moment old comes from the standby, where there is one."""
        return self if self.store.standby is None else replace(self, store=self.store.for_pages())

    def write(self, action: Action, work: Callable[[Transaction], _T], *, create: bool = False) -> _T:
        """Authorise, then one transaction: what ``work`` returns, once it is on disk. The default learner is made
        when first written to.

        ``work`` may be called again after a call that came to nothing (`Store.write` says what it has to bear), so
        what all its calls have in common is drawn here, before the first: the time, and who a new learner is.
        Raises `UnknownLearner` where a learner would be made (``create``) beside another that nobody named.
        """
        self.permit(action, create=create)
        origin = self.identity() if create or self.learner == DEFAULT_LEARNER else None
        return self.store.write(
            self.learner, work, actor=self.actor, now_ms=self.clock(), origin=origin, only=not self.is_named
        )

    def stage(self, stage: Stage, work: Callable[[Part], _T]) -> tuple[_T, Stage]:
        """One part of an import, into the learner or one that the import makes, and the stage after it."""
        self.permit("ingest", create=True)
        return self.store.stage(self.learner, stage, work, actor=self.actor)

    def may(self, action: Action) -> bool:
        """Whether who asks may do it here; what is about the installation: in every learner."""
        return may(self.actor, action, self._place(action))

    def _place(self, action: Action) -> str | None:
        return None if action in OF_INSTALLATION else self.learner

    def rehearsing(self) -> Context:
        """The same, of whose acts about the installation nothing stays: each is done by the code that does it, looked
        at, and taken back.
        """
        return replace(self, rehearses=True)

    def permit(self, action: Action, *, create: bool = False) -> None:
        """Authorise for this learner (what is about the installation: for every one), and refuse to make a learner
        (``create``) beside another that nobody named.
        """
        authorise(self.actor, action, self._place(action))
        if create and not self.is_named and self.learner != DEFAULT_LEARNER:
            raise _whose(self)

    def govern(self, work: Callable[[Transaction], _T], action: Action = "members") -> _T:
        """One transaction about the installation: its members, tokens and alerts, for who is an operator of all
        learners.
        """
        authorise(self.actor, action, None)
        now_ms = self.clock()
        if self.rehearses:
            return _rehearsed(
                lambda rehearsed: self.store.write(INSTALLATION, rehearsed, actor=self.actor, now_ms=now_ms),
                work,
            )
        return self.store.write(INSTALLATION, work, actor=self.actor, now_ms=now_ms)

    @contextmanager
    def governing(self, action: Action = "members") -> Iterator[Snapshot]:
        """One moment of the installation, for the same."""
        authorise(self.actor, action, None)
        with self.store.reading(INSTALLATION) as snapshot:
            yield snapshot

    def rehearse(self, action: Action, work: Callable[[Transaction], _T], *, create: bool = False) -> _T:
        """A write of which nothing stays: an act is done by the code that does it, looked at, and taken back.

        Other writers wait meanwhile, as for any write.
        """
        return _rehearsed(lambda rehearsed: self.write(action, rehearsed, create=create), work)

    @contextmanager
    def reading(self, action: Action = "read") -> Iterator[Snapshot]:
        """Authorise, then one moment of the learner, without texts for who may not read them.

        Raises `UnknownLearner` for a name nothing was ever recorded under; the default learner may be empty, and so
        may one that ``is_awaited``.
        """
        self.permit(action)
        with self.store.reading(self.learner) as snapshot:
            if not snapshot.exists and self.learner != DEFAULT_LEARNER and not self.is_awaited:
                raise unknown_learner(snapshot)
            snapshot.shows_texts = self.may("read_texts")
            yield snapshot

    @contextmanager
    def taking_out(self, action: Action = "read") -> Iterator[Snapshot]:
        """The same for a file that goes out: without others' evaluations of what is open to whoever asks in a queue
        that is blind.
        """
        with self.reading(action) as snapshot:
            snapshot.hidden = hidden_evaluations(snapshot, self.actor.name)
            yield snapshot


def open_context(settings: Settings, *, create: bool = True, whole: bool = False) -> Context:
    """Open the database the settings name; with ``create`` an empty one is made where there is none.

    Where they name no learner it is the default one, if there is one or nobody else, or the only one there is.

    Raises
    ------
    NoDatabase
        There is none, and none is to be made.
    UnknownLearner
        Nobody said which of several learners; what is about the ``whole`` database does not ask.
    """
    store = Store(settings.database, create=create, read_place=settings.read_database)
    if settings.learner is not None:
        return Context(store=store, learner=settings.learner, actor=settings.actor)
    try:
        name = _only(store, whole=whole)
    except BaseException:
        store.close()
        raise
    return Context(store=store, learner=name, is_named=False, actor=settings.actor)


def meant(store: Store) -> str | None:
    """The learner that is meant where nobody names one: the default one, if there is one or nobody else, or the only
    one there is; None where it could be any of several.
    """
    names = fleet.names(store)
    if not names or DEFAULT_LEARNER in names:
        return DEFAULT_LEARNER
    return names[0] if len(names) == 1 else None


def _only(store: Store, *, whole: bool) -> str:
    name = meant(store)
    if name is None and not whole:
        names = fleet.names(store)
        raise UnknownLearner(
            f"A learner must be named where there are several, got none; {store.place.name} has {_listed(names)}.",
            next_step=f"Name one, for example: --learner {shlex.quote(names[0])}",
        )
    return name or DEFAULT_LEARNER


def _whose(context: Context) -> UnknownLearner:
    name = shlex.quote(context.learner)
    return UnknownLearner(
        f"Whose runs these are must be said: {context.store.place.name} has learner {context.learner!r} only, and "
        "none was named; nothing was recorded.",
        next_step=f"Add --learner {name} to record them there, or --learner {DEFAULT_LEARNER} to make another one.",
    )


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a", "b"])
    "'a', 'b'"
    """
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(repr(name) for name in names[:_MOST_LISTED]) + more
