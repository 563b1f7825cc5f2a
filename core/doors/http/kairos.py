"""KAIROS over HTTP: its ``reward`` and ``export`` calls at the paths its clients know, in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.doors.desk import Desk
from core.doors.exchange import JSON, Answer, Call
from core.doors.http.body import document
from core.doors.http.refusals import TooMany, refused
from core.doors.http.routes import Route
from core.errors import InvalidEvaluation, InvalidInput
from core.flows.context import Context
from core.flows.kairos import answered, export_call, reward_call
from core.formats.kairos import ROOT
from core.permissions import Action
from core.records.actor import Actor


def reward(desk: Desk, actor: Actor, call: Call) -> Answer:
    """One evaluation, graded."""
    return _told(desk.context(actor), "evaluate", call, reward_call)


def export(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Rows to train on, within the answer."""
    return _told(desk.context(actor), "export_training", call, export_call)


def _told(context: Context, action: Action, call: Call, flow: Callable[[Context, bytes], bytes]) -> Answer:
    context.permit(action)  # who isn't allowed is told so, and counted, as everywhere

    late: list[TooMany] = []

    def done() -> bytes:
        _check(call.body)
        try:
            return flow(context, call.body)
        except TooMany as problem:
            late.append(problem)
            raise

    found = answered(done)
    if late:  # in KAIROS's words, but not as a store that failed
        return refused(late[0])._replace(body=found.body)
    return Answer(found.status, found.body, {"content-type": JSON})


def _check(body: bytes) -> None:
    """Refuse what not every reader reads alike, such as a key that stands twice."""
    try:
        document(body)
    except InvalidInput as problem:
        raise InvalidEvaluation(problem.problem, next_step=problem.next_step, fields=(ROOT,)) from problem


ROUTES: Final = (
    Route(("POST",), "/api/reward", "evaluate", reward),
    Route(("POST",), "/api/export", "export_training", export),
)
