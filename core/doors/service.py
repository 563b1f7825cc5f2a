"""Service: one open store for every door of a process, with a context for each caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from core.doors.exchange import ENTRY_HERE
from core.errors import Denied, InvalidInput
from core.flows.context import Context, fresh_identity, fresh_seed, listed, unlimited, utc_now_ms
from core.records.actor import Action, Actor
from core.records.learner import Sticky
from core.settings import DEFAULT_LEARNER, check_learner
from core.store import fleet
from core.store.store import Store

OPENCLAW: Final = "openclaw"
"""Learner that OpenClaw's client reports to."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """Store of a process behind its doors.

    ``learner`` is the default of callers with several learners. None: it is found for each request among the learners
    that the database then has. Clock and entropy are those of `Context`.
    """

    store: Store
    learner: str | None = None
    clock: Callable[[], int] = utc_now_ms
    entropy: Callable[[], int] = fresh_seed
    identity: Callable[[], str] = fresh_identity
    new_layers: Callable[[Actor, int], None] = unlimited

    @classmethod
    def of(cls, context: Context) -> Service:
        """Return the service of a context, for its learner if that is named."""
        return cls(
            store=context.store,
            learner=context.learner if context.is_named else None,
            clock=context.clock,
        )

    def context(
        self,
        actor: Actor,
        learner: str | None = None,
        action: Action | None = None,
        *,
        sticky: Sticky = "run",
        preferred: str = DEFAULT_LEARNER,
    ) -> Context:
        """Return the context of an actor in a learner: the named one, else the actor's only one, else the default.

        Without a default the only learner is meant, else the ``preferred`` one. ``sticky`` is that setting of a
        learner that the context creates. With ``action`` the action is authorised, and the context does not authorise
        it again. Raises `InvalidSetting` for an invalid name, `InvalidInput` if
        the learner is ambiguous, and `Denied` for an actor without a role.
        """
        name = self._meant(actor, preferred) if learner is None else check_learner(learner)
        entry = ENTRY_HERE.get()
        if entry is not None:
            entry["learner"] = name
        context = self._at(actor, name, sticky)
        if action is not None:
            context.permit(action)
        elif not actor.roles(name):
            raise Denied(
                f"{actor.name} has no role in learner {name!r}.",
                next_step="Ask an operator for one, or name a learner that is yours.",
            )
        return context

    def whole(self, actor: Actor) -> Context:
        """Return the context of an actor for the full database."""
        context = self._at(actor, DEFAULT_LEARNER if self.learner is None else self.learner)
        return replace(context, may_be_empty=True).of_own_door()

    def _at(self, actor: Actor, learner: str, sticky: Sticky = "run") -> Context:
        return Context(
            store=self.store,
            learner=learner,
            actor=actor,
            clock=self.clock,
            entropy=self.entropy,
            identity=self.identity,
            on_new_layers=self.new_layers,
            sticky=sticky,
        )

    def _meant(self, actor: Actor, preferred: str) -> str:
        own = {grant.learner for grant in actor.grants}
        (only,) = own if len(own) == 1 and actor.role is None else {self.learner}
        return only or self.learner or self._found(actor, preferred)

    def _found(self, actor: Actor, preferred: str) -> str:
        """Return the only learner of the actor, else the preferred one, else the default one."""
        known = [name for name in fleet.names(self.store) if actor.roles(name)]
        if len(known) < 2:
            return known[0] if known else DEFAULT_LEARNER
        for name in (preferred, DEFAULT_LEARNER):
            if name in known:
                return name
        raise InvalidInput(
            f"A learner must be named where there are several, got none; there are {listed(known)}.",
            next_step="Name one in the call, or start the server with --learner NAME.",
        )
