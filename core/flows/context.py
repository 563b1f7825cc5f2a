"""Context of every flow: the open store, the learner, the actor, the clock and the random source.

A pace has the sizes of the transactions of imports. Requests repeat under a key; names of learners are listed without
statistics.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec.structs import replace as replace_settings

from core.errors import InvalidSetting, NotApplicable, StoreError, UnknownArm, UnknownLearner
from core.records.actor import OF_INSTALLATION, Action, Actor, authorise, may
from core.records.learner import INSTALLATION, Sticky
from core.settings import (
    DEFAULT_LEARNER,
    Located,
    Server,
    Settings,
    check_learner,
    default_database,
    launches_folder,
)
from core.store import fleet, reads
from core.store.reads import near_keys
from core.store.reads.runs import blind_runs
from core.store.replies import Reply, reply_of, taken
from core.store.review import hidden_evaluations
from core.store.staging import Part, Stage
from core.store.store import Store
from core.store.transaction import Facts, Snapshot, Transaction, has_others, unknown_learner

_T = TypeVar("_T")
_MOST_LISTED: Final = 10
_A = TypeVar("_A")
_SHOWN_CHARS: Final = 80
USE_A_LISTED_ARM: Final = "Use an id that armscope arms lists."
OR_MAKE_IT: Final = "Use an id that armscope arms lists, or --create to make one on purpose."


@dataclass(frozen=True, kw_only=True)
class ImportPace:
    """Limits of one transaction of an import.

    An import of at most ``at_once`` runs, read within ``at_once_s`` seconds, is one transaction. A longer one is
    written in parts. The first part has ``fewest`` runs. Each later part, up to ``most`` runs, keeps other writers
    waiting for about ``hold_s`` seconds. ``clock`` returns seconds.
    """

    at_once_s: float = 1.0
    at_once: int = 10_000
    fewest: int = 500
    most: int = 5_000
    hold_s: float = 0.2
    clock: Callable[[], float] = time.monotonic

    def next_part(self, n_runs: int, held_s: float) -> int:
        """Return the size of the next part, after a part of ``n_runs`` that took ``held_s`` seconds.

        >>> ImportPace().next_part(500, 0.05), ImportPace().next_part(500, 1.0)
        (2000, 500)
        """
        n_target = round(n_runs * self.hold_s / max(held_s, 1e-6))
        return min(max(n_target, self.fewest), self.most, 4 * n_runs)


USUAL_PACE: Final = ImportPace()


def utc_now_ms() -> int:
    """Return the machine's clock in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def fresh_seed() -> int:
    """Return an unpredictable seed."""
    return secrets.randbits(64)


def fresh_identity() -> str:
    """Return a globally unique identity for a learner."""
    return str(uuid.uuid4())


def unlimited(actor: Actor, n_layers: int) -> None:
    """Allow any number of new layers (default)."""


class _RollBack(Exception):
    """Signal that rolls the transaction of a rehearsal back."""


def _rehearsed(
    write: Callable[[Callable[[Transaction], None]], None], work: Callable[[Transaction], _T]
) -> _T:
    """Run ``work`` in a write transaction, roll it back, and return the answer."""
    answers: list[_T] = []

    def rehearsed(txn: Transaction) -> None:
        answers.append(work(txn))
        raise _RollBack

    with suppress(_RollBack):
        write(rehearsed)
    return answers[-1]


@dataclass(frozen=True, kw_only=True)
class Context:
    """Context of a flow: the store, the learner, the actor, the clock and the random source.

    ``clock`` returns UTC milliseconds, ``entropy`` a seed for each selection, and ``identity`` the lasting identity
    of a new learner. ``pace`` sets the batch sizes of imports. ``is_named`` False: the caller named no learner, so
    ``learner`` is the only existing one, and no other is created implicitly. ``may_be_empty``: a read before the
    first write sees an empty learner. ``on_new_layers`` receives how many layers an actor creates by judging unknown
    ones. It may refuse before anything is written. ``sticky`` is that setting of learners that the context creates:
    our own doors let selections hold within a session. ``on_act`` runs each act where acts are logged: it gets the
    context, the action and the work. ``launches`` is the folder of agents that this machine started with a selection.
    """

    store: Store
    learner: str = DEFAULT_LEARNER
    is_named: bool = True
    may_be_empty: bool = False
    actor: Actor
    clock: Callable[[], int] = utc_now_ms
    entropy: Callable[[], int] = fresh_seed
    identity: Callable[[], str] = fresh_identity
    pace: ImportPace = USUAL_PACE
    is_rehearsal: bool = False
    on_new_layers: Callable[[Actor, int], None] = unlimited
    sticky: Sticky = "run"
    on_act: Callable[[Context, Action, Callable[[], Any]], Any] | None = None
    launches: Path | None = None
    _permitted: set[Action] = field(default_factory=set, init=False, repr=False, compare=False)
    """Actions that were authorised: a request is authorised once, and every flow may ask again."""

    def __post_init__(self) -> None:
        if self.learner == INSTALLATION:
            check_learner(self.learner)  # no name leads to what belongs to the installation

    def of(self, learner: str) -> Context:
        """Return the context of another learner."""
        return replace(self, learner=learner, is_named=True)

    def of_own_door(self) -> Context:
        """Return the context of a door of our own: in learners that it creates, selections hold within a session."""
        if self.sticky == "session":
            return self
        own = replace(self, sticky="session")
        own._permitted.update(self._permitted)
        return own

    def for_pages(self) -> Context:
        """Return a context whose reads may be stale: they use the replica, if there is one."""
        return self if self.store.standby is None else replace(self, store=self.store.for_pages())

    def write(self, action: Action, work: Callable[[Transaction], _T], *, create: bool = False) -> _T:
        """Authorise, run ``work`` in one transaction, and return its answer once it is on disk.

        The default learner is created on its first write. ``work`` may run again after a failed attempt (see
        `Store.write`). Time and identity are therefore taken here, before the first attempt. Raises `UnknownLearner`
        if a learner would be created (``create``) next to an existing one without being named.
        """
        self.permit(action, create=create)
        origin = self.identity() if create or self.learner == DEFAULT_LEARNER else None
        write = partial(
            self.store.write,
            self.learner,
            work,
            actor=self.actor,
            now_ms=self.clock(),
            origin=origin,
            only=not self.is_named,
            sticky=self.sticky,
        )
        return write() if self.on_act is None else cast("_T", self.on_act(self, action, write))

    def stage(self, stage: Stage, work: Callable[[Part], _T]) -> tuple[_T, Stage]:
        """Write one part of an import. Return the answer of ``work`` and the next stage."""
        self.permit("ingest", create=True)
        return self.store.stage(self.learner, stage, work, actor=self.actor)

    def may(self, action: Action) -> bool:
        """Return whether the actor may do it: in this learner, or for installation actions in every learner."""
        return may(self.actor, action, None if action in OF_INSTALLATION else self.learner)

    def keeps_texts(self) -> bool:
        """Return whether the learner keeps texts; one that the first write creates does not."""
        with self.store.reading(self.learner) as snapshot:
            return snapshot.settings.keep_texts

    def for_rehearsal(self) -> Context:
        """Return a context whose installation acts and imports are rolled back after they ran."""
        return replace(self, is_rehearsal=True)

    def permit(self, action: Action, *, create: bool = False) -> None:
        """Authorise an action in this learner, or for installation actions in every learner.

        Refuses to create a learner (``create``) next to an existing one without a name from the caller.
        """
        if action not in self._permitted:
            authorise(self.actor, action, None if action in OF_INSTALLATION else self.learner)
            self._permitted.add(action)
        if create and not self.is_named and self.learner != DEFAULT_LEARNER:
            raise _no_learner_named(self)

    def write_admin(self, work: Callable[[Transaction], _T], action: Action = "members") -> _T:
        """Run ``work`` in one transaction on the installation (members, tokens, alerts), as an operator of it all."""
        authorise(self.actor, action, None)
        now_ms = self.clock()
        if self.is_rehearsal:
            return _rehearsed(
                lambda rehearsed: self.store.write(INSTALLATION, rehearsed, actor=self.actor, now_ms=now_ms),
                work,
            )
        write = partial(self.store.write, INSTALLATION, work, actor=self.actor, now_ms=now_ms)
        return write() if self.on_act is None else cast("_T", self.on_act(self, action, write))

    @contextmanager
    def reading_admin(self, action: Action = "members") -> Iterator[Snapshot]:
        """Yield a snapshot of the installation, for an operator of all learners."""
        authorise(self.actor, action, None)
        with self.store.reading(INSTALLATION) as snapshot:
            yield snapshot

    def rehearse(self, action: Action, work: Callable[[Transaction], _T], *, create: bool = False) -> _T:
        """Run ``work`` like `write`, roll it back, and return its answer.

        Other writers wait meanwhile, as for any write.
        """
        unlogged = self if self.on_act is None else replace(self, on_act=None)
        return _rehearsed(lambda rehearsed: unlogged.write(action, rehearsed, create=create), work)

    @contextmanager
    def reading(self, action: Action = "read") -> Iterator[Snapshot]:
        """Authorise, and yield a snapshot of the learner, without texts if the actor may not read them.

        Raises `UnknownLearner` for a learner without any record, except with ``may_be_empty``, and except the default
        one of a database without learners.
        """
        self.permit(action)
        with self.store.reading(self.learner) as snapshot:
            if not snapshot.exists:
                is_first = self.learner == DEFAULT_LEARNER and not has_others(snapshot)
                if not (self.may_be_empty or is_first):
                    raise unknown_learner(snapshot)
                snapshot.settings = replace_settings(snapshot.settings, sticky=self.sticky)
            snapshot.shows_words = self.may("read_words")
            snapshot.shows_texts = self.may("read_texts")
            if snapshot.has_experiments and snapshot.has_holds and action not in {"select", "ingest"}:
                snapshot.look_up_blind = lambda: blind_runs(snapshot, self.actor.name)
            yield snapshot

    @contextmanager
    def reading_for_export(self, action: Action = "read") -> Iterator[Snapshot]:
        """Yield a snapshot for a file, without evaluations by others that a blind queue hides from the actor.

        Raises `NotApplicable` for the reviewer of an open item of an experiment, because a file has arms and side.
        """
        with self.reading(action) as snapshot:
            if snapshot.blind:
                raise NotApplicable(
                    f"A file would show arms and side of {len(snapshot.blind):,} runs that are open to you.",
                    next_step="Judge or skip the item of the experiment's queue, and export again.",
                )
            snapshot.hidden = self.hidden_from(snapshot)
            yield snapshot

    def hidden_from(self, facts: Facts) -> frozenset[int]:
        """Return the numbers of the evaluations that no read of the caller may show. Nothing else decides this."""
        return hidden_evaluations(facts, self.actor.name)


def open_context(settings: Settings, *, create: bool = True, whole: bool = False) -> Context:
    """Open the database of the settings for a door of our own; with ``create``, create an empty one if there is none.

    Without a learner in the settings, the default learner is used if it exists or no other does, else the only one.
    Raises `NoDatabase` where none may be created, and `InvalidSetting` for a database to create in a missing folder,
    but for the default one. Raises `UnknownLearner` where there are several and none was named; callers that concern
    the ``whole`` database need none.
    """
    if create:
        _check_folder(settings.database)
    store = Store(settings.database, create=create, read_location=settings.read_database)
    launches = launches_folder(settings.database)
    if settings.learner is not None:
        named = Context(store=store, learner=settings.learner, actor=settings.actor, launches=launches)
        return named.of_own_door()
    try:
        name = _only(store, whole=whole)
    except BaseException:
        store.close()
        raise
    return Context(
        store=store,
        learner=name,
        is_named=False,
        may_be_empty=whole,
        actor=settings.actor,
        launches=launches,
    ).of_own_door()


def _check_folder(database: Located) -> None:
    """Refuse a database in a folder that is missing: its name may be mistyped."""
    if isinstance(database, Server) or os.path.lexists(folder := database.parent):
        return
    if folder != default_database().parent:
        raise InvalidSetting(
            f"The database's folder must exist, got {folder}.",
            next_step=f"Correct the path, or make the folder: mkdir -p {shlex.quote(str(folder))}",
        )


def default_learner(store: Store) -> str | None:
    """Return the learner to use if none is named: the default one if it exists or no other does, else the only one.

    None if there are several others.
    """
    names = fleet.names(store)
    if not names or DEFAULT_LEARNER in names:
        return DEFAULT_LEARNER
    return names[0] if len(names) == 1 else None


def _only(store: Store, *, whole: bool) -> str:
    name = default_learner(store)
    if name is None and not whole:
        names = fleet.names(store)
        raise UnknownLearner(
            f"A learner must be named where there are several, got none; {store.location.name} has {listed(names)}.",
            next_step=f"Name one, for example: --learner {shlex.quote(names[0])}",
        )
    return name or DEFAULT_LEARNER


def _no_learner_named(context: Context) -> UnknownLearner:
    name = shlex.quote(context.learner)
    return UnknownLearner(
        f"The learner of these runs must be named: {context.store.location.name} has learner {context.learner!r} "
        "only. Nothing was recorded.",
        next_step=f"Add --learner {name} to record them there, or --learner {DEFAULT_LEARNER} to make another one.",
    )


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(repr(name) for name in names[:_MOST_LISTED]) + more


def unknown_arm(facts: Transaction | Snapshot, key: str, next_step: str = USE_A_LISTED_ARM) -> UnknownArm:
    """Return the error for an unknown arm, with near matches; ``next_step`` is `OR_MAKE_IT` if it may be created."""
    near = near_keys(facts, key)
    meant = f" Did you mean {', '.join(near)}?" if near else ""
    return UnknownArm(
        f"There is no arm {key[:_SHOWN_CHARS]!r} in learner {facts.name!r}.{meant}", next_step=next_step
    )


def in_rounds(keys: Sequence[str | None], answered: Callable[[Sequence[int]], Mapping[int, _A]]) -> list[_A]:
    """Return the answers of ``answered`` by index; a repeat of a key is answered in a later round than the first."""
    answers: dict[int, _A] = {}
    rest = list(range(len(keys)))
    while rest:
        first: dict[str, int] = {}
        later = {
            index
            for index in rest
            if (key := keys[index]) is not None and first.setdefault(key, index) != index
        }
        answers |= answered([index for index in rest if index not in later])
        rest = sorted(later)
    return [answers[index] for index in range(len(keys))]


def repeated(txn: Transaction, key: str, payload: int, answer: type[_A]) -> _A | None:
    """Return the first answer of a key, or None; raises `Conflict` if its request had another digest."""
    reply = reply_of(txn, key)
    return None if reply is None else repeated_of(reply, key, payload, answer)


def repeated_of(reply: Reply, key: str, payload: int, answer: type[_A]) -> _A:
    """Return the stored answer of a key; raises `Conflict` if its request had another digest."""
    if reply.payload != payload:
        raise taken(key, reply)
    return msgspec.json.decode(reply.answer, type=answer)


def arm_ids(context: Context) -> tuple[str, ...]:
    """List the ids of all arms, sorted."""
    with context.reading() as snapshot:
        return reads.arm_columns(snapshot).keys


def learner_names(context: Context) -> tuple[str, ...]:
    """List the names of all learners that the actor may read, sorted.

    Raises `Denied` for an actor without any role.
    """
    actor = context.actor
    if not actor.grants:
        authorise(actor, "read", None)
    return readable(actor, fleet.names(context.store))


def settle_learners(context: Context, settle: Callable[[Context], object]) -> None:
    """Settle what was sent to each learner. One with a store error is settled next time."""
    authorise(context.actor, "ingest", None)
    with context.store.reading(context.learner) as snapshot:
        names = reads.learners(snapshot)
    for name in names:
        with suppress(StoreError):
            settle(context.of(name))


def readable(actor: Actor, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of learners that the actor may read, in their order."""
    return tuple(name for name in names if may(actor, "read", name))
