"""KAIROS over HTTP: its ``reward`` and ``export`` calls at the paths that its clients know, in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.doors.exchange import JSON, HttpAnswer, HttpCall
from core.doors.http.refusals import TooMany, refused
from core.doors.http.routes import LearnerHandler, Route
from core.errors import InvalidEvaluation, InvalidInput
from core.flows.context import Context
from core.flows.kairos import answered, export_call, reward_call
from core.formats.kairos import ROOT
from core.formats.strict import json_body


def _handler(flow: Callable[[Context, bytes], bytes]) -> LearnerHandler:
    """Return a handler that answers with a flow's bytes."""

    def handle(context: Context, call: HttpCall) -> HttpAnswer:
        limits: list[TooMany] = []

        def work() -> bytes:
            _check(call.body)
            try:
                return flow(context, call.body)
            except TooMany as problem:
                limits.append(problem)
                raise

        answer = answered(work)
        if limits:  # `answered` would answer 503; a limit answers 429 with KAIROS's body
            return refused(limits[0])._replace(body=answer.body)
        return HttpAnswer(answer.status, answer.body, {"content-type": JSON})

    return handle


def _check(body: bytes) -> None:
    """Refuse JSON that parsers read differently, such as a key twice in one object."""
    try:
        json_body(body)
    except InvalidInput as problem:
        raise InvalidEvaluation(problem.problem, next_step=problem.next_step, fields=(ROOT,)) from problem


ROUTES: Final = (
    Route(("POST",), "/api/reward", "evaluate", of_learner=_handler(reward_call)),
    Route(("POST",), "/api/export", "export_training", of_learner=_handler(export_call)),
)
