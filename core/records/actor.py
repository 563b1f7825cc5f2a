"""A person or token that does something, its roles, and what they permit; `authorise` decides once for every door."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.errors import Denied, InvalidInput
from core.records.limits import storable

PersonRole = Literal["viewer", "reviewer", "operator"]
"""Roles of a person."""
Scope = Literal["read", "ingest", "review", "operate", "texts"]
"""Scopes of a token."""
Role = Literal[PersonRole, Scope]
PERSON_ROLES: tuple[Role, ...] = get_args(PersonRole)
SCOPES: tuple[Role, ...] = get_args(Scope)
TOKENS: Final = "token:"
"""Prefix of the names of tokens. No person's name may begin so: acts are recorded by name."""
IN_BROWSER: Final = " · "
"""Separator of the name of an actor and that of a browser, in the name of a holder."""
NOT_SIGNED_IN: Final = ", not signed in"
"""End of a holder's name that no operator confirmed."""

Action = Literal[
    "read",
    "read_words",
    "read_texts",
    "reward",
    "evaluate",
    "judge",
    "queue",
    "undo_own",
    "undo",
    "reset",
    "settings",
    "credit",
    "ingest",
    "select",
    "export_training",
    "erase",
    "members",
    "alerts",
    "connect",
]

_ALLOWED: Final[dict[Action, frozenset[Role]]] = {
    "read": frozenset({"viewer", "reviewer", "operator", "read", "review", "operate"}),
    "read_words": frozenset({"reviewer", "operator", "texts"}),  # of people: notes, reasons, feedback
    "read_texts": frozenset({"operator", "texts"}),  # of agents; a reviewer reads those of items to judge
    "reward": frozenset({"reviewer", "operator", "review", "operate"}),
    "evaluate": frozenset({"reviewer", "operator", "review", "operate"}),
    "judge": frozenset({"reviewer", "operator"}),
    "queue": frozenset({"operator", "operate"}),
    "undo_own": frozenset({"reviewer", "operator", "review", "operate"}),
    "undo": frozenset({"operator", "operate"}),
    "reset": frozenset({"operator", "operate"}),
    "settings": frozenset({"operator", "operate"}),
    "credit": frozenset({"operator", "operate"}),
    "ingest": frozenset({"operator", "ingest"}),
    "select": frozenset({"operator", "ingest"}),
    "export_training": frozenset({"operator", "texts"}),
    "erase": frozenset({"operator"}),
    "members": frozenset({"operator"}),
    "alerts": frozenset({"operator"}),
    "connect": frozenset(get_args(Role)),  # what is asked over a connection has an action of its own
}
OF_INSTALLATION: Final[frozenset[Action]] = frozenset({"members", "alerts"})
"""Actions on the whole database: they need a role that holds in every learner."""


def highest(roles: frozenset[Role]) -> str:
    """Return the person's role that includes the others, or ``none``.

    >>> highest(frozenset({"viewer", "operator"}))
    'operator'
    """
    return max((role for role in roles if role in PERSON_ROLES), key=PERSON_ROLES.index, default="none")


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A role in one learner, or (None) in every one."""

    role: Role
    learner: str | None = None


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """A person or token; locally the machine's user in the role of operator.

    ``role`` holds in every learner; None: the actor has only what ``grants`` say. ``token`` is the number of the
    token that acts, 0 where it is a person; ``member`` that of the person who signed in, 0 on the machine itself.
    ``browser`` is the browser where sign-in is off, with the name that it gave itself: it holds items of review.
    ``person`` is the machine's user where an operator confirmed that name; ``name`` is then the browser's own.
    """

    name: str
    role: Role | None = "operator"
    grants: tuple[Grant, ...] = ()
    token: int = 0
    member: int = 0
    browser: str = ""
    person: str = ""

    def __post_init__(self) -> None:
        storable("An actor's name", self.name)
        storable("The name of a browser", self.browser)
        if self.name.startswith(TOKENS) != (self.token > 0):
            raise InvalidInput(
                f"An actor's name must begin with {TOKENS} where it is a token, and nowhere else, got "
                f"{self.name[:60]!r} with token number {self.token}.",
                next_step="Give a person a name that begins otherwise.",
            )

    @property
    def token_name(self) -> str:
        """The name of the token that acts; '' where it is a person.

        >>> Actor(name="token:ci", role=None, token=3).token_name
        'ci'
        """
        return self.name.removeprefix(TOKENS) if self.token else ""

    @property
    def holder(self) -> str:
        """The name under which the actor holds items: each browser has its own, where no person signed in.

        >>> Actor(name="mara").holder, Actor(name="mara", browser="kim 3f2a").holder
        ('mara', 'mara · kim 3f2a, not signed in')
        >>> Actor(name="kim", browser="kim 3f2a", person="mara").holder
        'kim · kim 3f2a'
        """
        if not self.browser:
            return self.name
        shown = self.browser if " " in self.browser else f"a browser {self.browser}"
        return f"{self.name}{IN_BROWSER}{shown}{'' if self.person else NOT_SIGNED_IN}"

    def roles(self, learner: str | None) -> frozenset[Role]:
        """Return the roles that hold in a learner; None: those that hold in all learners.

        >>> bot = Actor(name="bot", role=None, grants=(Grant(role="ingest", learner="support"),))
        >>> sorted(bot.roles("support")), sorted(bot.roles("sales")), sorted(bot.roles(None))
        (['ingest'], [], [])
        """
        granted = {grant.role for grant in self.grants if grant.learner in {None, learner}}
        return frozenset(granted if self.role is None else granted | {self.role})


def authorise(actor: Actor, action: Action, learner: str | None) -> None:
    """Raise `Denied` unless a role that the actor has in the learner includes the action.

    ``learner`` None: it is about all of the database, which needs a role that holds in every learner.

    >>> authorise(Actor(name="mara", role="operator"), "reset", "support")
    """
    roles = actor.roles(learner)
    if _ALLOWED[action].isdisjoint(roles):
        has = ", ".join(sorted(roles)) or "none"
        where = "every learner" if learner is None else repr(learner)
        raise Denied(
            f"{action.replace('_', ' ')} needs one of the roles {', '.join(sorted(_ALLOWED[action]))} in {where}, "
            f"got {has}.",
            next_step="Ask an operator.",
            action=action,
        )


def may(actor: Actor, action: Action, learner: str | None) -> bool:
    """Return whether a role of the actor in the learner includes the action, to decide what a page offers.

    >>> may(Actor(name="v", role="viewer"), "reward", "support")
    False
    """
    return not _ALLOWED[action].isdisjoint(actor.roles(learner))


def may_give(actor: Actor, grant: Grant) -> bool:
    """Return whether an actor holds all that a role includes in a learner (None: in every one), and so may give it.

    >>> mara = Actor(name="mara", role=None, grants=(Grant(role="operator", learner="support"),))
    >>> may_give(mara, Grant(role="viewer", learner="support")), may_give(mara, Grant(role="viewer"))
    (True, False)
    """
    return all(may(actor, action, grant.learner) for action, roles in _ALLOWED.items() if grant.role in roles)
