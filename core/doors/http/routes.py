"""Routes: what can be asked at which path, and what whoever asks must be allowed; every door has a table of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call
from core.permissions import Action
from core.records.actor import Actor

Handler = Callable[[Desk, Actor, Call], Answer]
"""A plain function, called in a worker thread: it parses, calls one flow, and formats."""


class Route(NamedTuple):
    """``action`` is what the caller needs at least, in the learner that is meant; flows decide again.

    ``path`` holds ``{name}`` where any one segment may stand, which comes as ``call.path_values``. ``public``: no
    identity is asked.
    """

    methods: tuple[str, ...]
    path: str
    action: Action
    handler: Handler
    public: bool = False
