"""Desk: one open store for all who come through a door, and for each of them a context of their own over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.errors import Denied, InvalidInput
from core.flows.context import Context, fresh_identity, fresh_seed, unlimited, utc_now_ms
from core.permissions import Action
from core.records.actor import Actor
from core.settings import DEFAULT_LEARNER, check_learner
from core.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What every door of a process works at. ``learner`` is the one that is meant where a caller names none and may
    be at more than one; None: then it has to be said. Clock and dice are as in `Context`.
    """

    store: Store
    learner: str | None = None
    clock: Callable[[], int] = utc_now_ms
    entropy: Callable[[], int] = fresh_seed
    identity: Callable[[], str] = fresh_identity
    new_layers: Callable[[Actor, int], None] = unlimited

    def context(self, actor: Actor, learner: str | None = None, action: Action | None = None) -> Context:
        """Where an actor works at a learner: the one that is named, else the only one that is theirs, else the
        desk's own.

        Raises
        ------
        InvalidSetting
            A name that none can have.
        InvalidInput
            None was named, and it can't be told which is meant.
        Denied
            The actor has nothing to do there, whatever it is.
        """
        name = self._meant(actor) if learner is None else check_learner(learner)
        context = self._at(actor, name)
        if action is not None:
            context.permit(action)
        elif not actor.roles(name):
            raise Denied(
                f"{actor.name} has no role in learner {name!r}.",
                next_step="Ask an operator for one, or name a learner that is yours.",
            )
        return context

    def whole(self, actor: Actor) -> Context:
        """Where an actor works at what is about all of the database."""
        return self._at(actor, DEFAULT_LEARNER if self.learner is None else self.learner)

    def _at(self, actor: Actor, learner: str) -> Context:
        return Context(
            store=self.store,
            learner=learner,
            actor=actor,
            clock=self.clock,
            entropy=self.entropy,
            identity=self.identity,
            new_layers=self.new_layers,
        )

    def _meant(self, actor: Actor) -> str:
        own = {grant.learner for grant in actor.grants}
        (only,) = own if len(own) == 1 and actor.role is None else {self.learner}
        if only is None and self.learner is not None:
            return self.learner
        if only is None:
            raise InvalidInput(
                "A learner must be named, got none.",
                next_step="Name one in the call, or start the server with --learner NAME.",
            )
        return only
