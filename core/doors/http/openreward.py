"""OpenReward's paths: its client uploads rollouts and reads environments, answered from armscope's episodes.

Events may contain NaN, which Python's JSON writes: such a step has no reward, and a note. The answer lists the events
that can't be recorded; the others are.
"""

from __future__ import annotations

from typing import Final

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.own import check_fields, document_answer
from core.doors.http.routes import Route
from core.doors.terminal import as_plain
from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.queries import TaskDifficulty, environment_no, task_difficulty, variants
from core.flows.rollouts import take_events
from core.formats.tool_output import lenient

_AT: Final = "/v1/environments/{owner}/{env}"


def _rollouts(context: Context, call: HttpCall) -> HttpAnswer:
    return document_answer(as_plain(take_events(context, _events(call.body))))


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
    return document_answer({"id": _id(environment_no(context, _name(call)))})


def _variants(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call)
    name = _name(call)
    own = _id(environment_no(context, name))
    return document_answer([{"name": one, "id": f"{own}/{one}"} for one in variants(context, name)])


def _difficulty(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "split", "variant", "model_name")
    split, variant, model = (call.query.get(name) for name in ("split", "variant", "model_name"))
    document = task_difficulty(context, _name(call), split=split, variant=variant, model=model)
    return document_answer({"tasks": [_task(one) for one in document]})


def _task(one: TaskDifficulty) -> dict[str, object]:
    """Return a task in OpenReward's words; split and variant may be null, because its client reads them."""
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


ROUTES: Final[tuple[Route, ...]] = (
    Route(("POST",), "/v1/rollouts", "ingest", of_learner=_rollouts),
    Route(("GET",), _AT, "read", of_learner=_environment),
    Route(("GET",), f"{_AT}/variants", "read", of_learner=_variants),
    Route(("GET",), f"{_AT}/task-difficulty", "read", of_learner=_difficulty),
)
