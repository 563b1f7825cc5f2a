"""Calls of other programs over HTTP, each in its own words: KAIROS, OpenReward and qortex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from core.doors.exchange import JSON, HttpAnswer, HttpCall, json_answer
from core.doors.http.own import check_fields
from core.doors.http.refusals import TooMany, refused
from core.doors.http.routes import Handler, LearnerHandler, Route
from core.doors.qortex import TOOLS, call
from core.doors.service import Service
from core.doors.terminal import as_plain
from core.errors import InvalidEvaluation, InvalidInput
from core.flows.context import Context
from core.flows.kairos import answered, export_call, reward_call
from core.flows.queries import TaskDifficulty, environment_no, task_difficulty, variants
from core.flows.rollouts import take_events
from core.formats.kairos import ROOT
from core.formats.strict import json_body
from core.formats.tool_output import lenient
from core.records.actor import Actor
from core.records.limits import shown
from core.version import __version__

_AT: Final = "/v1/environments/{owner}/{env}"
_ROOT: Final = "/v1/learning"
_MAX_DIGITS: Final = 18


def _kairos_handler(flow: Callable[[Context, bytes], bytes]) -> LearnerHandler:
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


KAIROS_ROUTES: Final = (
    Route(("POST",), "/api/reward", "evaluate", of_learner=_kairos_handler(reward_call)),
    Route(("POST",), "/api/export", "export_training", of_learner=_kairos_handler(export_call)),
)


def _rollouts(context: Context, call: HttpCall) -> HttpAnswer:
    """Record the events of an upload; the answer lists those that can't be recorded.

    Events may contain NaN, which Python's JSON writes: such a step has no reward, and a note.
    """
    return json_answer(200, as_plain(take_events(context, _events(call.body))))


def _events(body: bytes) -> list[object]:
    try:
        document = lenient(body.decode())
    except ValueError:  # invalid UTF-8, too
        document = None
    events = document.get("events") if isinstance(document, dict) else None
    if not isinstance(events, list) or len(document) > 1:
        raise InvalidInput(
            'The body must be JSON with a list of events, {"events": […]}, and nothing else, got something else.',
            next_step="Send it as OpenReward's client does; nothing was recorded.",
        )
    return events


def _environment(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call)
    return json_answer(200, {"id": _id(environment_no(context, _name(call)))})


def _variants(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call)
    name = _name(call)
    own = _id(environment_no(context, name))
    return json_answer(200, [{"name": one, "id": f"{own}/{one}"} for one in variants(context, name)])


def _difficulty(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "split", "variant", "model_name")
    split, variant, model = (call.query.get(name) for name in ("split", "variant", "model_name"))
    document = task_difficulty(context, _name(call), split=split, variant=variant, model=model)
    return json_answer(200, {"tasks": [_task(one) for one in document]})


def _task(one: TaskDifficulty) -> dict[str, object]:
    """Return a task in OpenReward's words. Its client needs split and variant, so they are sent as null too."""
    return {
        "task_index": int(one.task) if one.task.isdecimal() and len(one.task) < 10 else one.task,
        "avg_reward": one.average,
        "min_reward": one.lowest,
        "max_reward": one.highest,
        "num_rollouts": one.n,
        "response_chars": dict(one.response_chars),
        "split": one.split,
        "variant": one.variant,
    }


def _name(call: HttpCall) -> str:
    return f"{call.path_values['owner']}/{call.path_values['env']}"


def _id(number: int) -> str:
    return f"environment-{number}"


_OPENREWARD_ROUTES: Final[tuple[Route, ...]] = (
    Route(("POST",), "/v1/rollouts", "ingest", of_learner=_rollouts),
    Route(("GET",), _AT, "read", of_learner=_environment),
    Route(("GET",), f"{_AT}/variants", "read", of_learner=_variants),
    Route(("GET",), f"{_AT}/task-difficulty", "read", of_learner=_difficulty),
)


def _health(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:  # noqa: ARG001 - as every handler
    return json_answer(200, {"status": "ok", "version": __version__})


def _by_body(name: str, *, may_be_empty: bool = False) -> Handler:
    """Return the handler of a call whose arguments are the body."""

    def handle(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
        is_empty = may_be_empty and not request.body
        return json_answer(200, call(service, actor, name, {} if is_empty else json_body(request.body)))

    return handle


def _by_path(name: str) -> Handler:
    """Return the handler of a call about the learner in the path."""

    def handle(service: Service, actor: Actor, request: HttpCall) -> HttpAnswer:
        arguments: dict[str, Any] = {"learner": request.path_values["learner"]}
        return json_answer(200, call(service, actor, name, arguments | _window(request.query)))

    return handle


def _window(query: Mapping[str, str]) -> dict[str, int]:
    """Return the window that qortex's clients send; it is checked and not used."""
    text = query.get("window")
    if text is None:
        return {}
    if len(text) > _MAX_DIGITS or not text.isascii() or not text.removeprefix("-").isdigit():
        raise InvalidInput(
            f"window must be a whole number, got {shown(text)}.",
            next_step="Use for example 10, or leave it out.",
        )
    return {"window": int(text)}


_QORTEX_ROUTES: Final[tuple[Route, ...]] = (
    Route(("GET",), "/v1/health", "read", _health, public=True, probe="loop"),
    *(
        Route(("POST",), f"{_ROOT}/{path}", TOOLS[name].action, _by_body(name, may_be_empty=name == "reset"))
        for path, name in (
            ("select", "select"),
            ("observe", "observe"),
            ("reset", "reset"),
            ("sessions/start", "session_start"),
            ("sessions/end", "session_end"),
        )
    ),
    *(
        Route(("GET",), f"{_ROOT}/{{learner}}/{name}", TOOLS[name].action, _by_path(name))
        for name in ("posteriors", "metrics")
    ),
)

ROUTES: Final = (*KAIROS_ROUTES, *_OPENREWARD_ROUTES, *_QORTEX_ROUTES)
