"""Own routes, ``/api/v1``: the table of verbs and the queries over HTTP, with the JSON of the commands' ``--json``.

Lists are ``{items, next}`` with ``?limit=&cursor=``; a cursor is where the next page begins, never a count of rows.
Answers that depend on one revision of a learner have an ETag.

Batches are many runs or rewards, a line each, with a result for each line, in order. Lines are recorded in parts,
each on disk before the next is read. A rejected line does not stop the others. If the disk is full, the results show
which lines are recorded.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import IO, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, cast

import msgspec
import orjson

from core.doors import documents
from core.doors.exchange import JSON, HttpAnswer, HttpCall
from core.doors.http.bodies import file_answer
from core.doors.http.refusals import http_error
from core.doors.http.routes import MOST_BYTES, NDJSON, Handler, LearnerHandler, Route
from core.doors.http.schemas import ApiRoute, Form, RouteText, choice
from core.doors.service import Service
from core.doors.terminal import as_plain, json_bytes
from core.doors.verbs import PAGING, RECORDS, Input, Verb, Verbs, grouped, query_fields
from core.errors import ArmscopeError, InvalidInput, StoreError
from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_into
from core.flows.learn import record_all, reward_all
from core.flows.queries.previews import CreditPreview
from core.flows.queries.timeseries import Point
from core.formats.armscope import RunDecoder
from core.formats.strict import MAX_BODY_BYTES, json_body
from core.records.actor import Action, Actor, authorise
from core.records.answers import ExportAnswer, RecordAnswer
from core.records.audit import AuditEntry
from core.records.batch import answers_of, key_of_line
from core.records.corrections import Target
from core.records.episode_page import EpisodeCursor, EpisodeRow
from core.records.evaluation_page import EvaluationPage
from core.records.observation import MAX_REQUEST_KEY_CHARS, RewardAnswer, RewardOrder
from core.records.parameters import EXPORT_FORMATS, ExportFormat
from core.records.run import Run
from core.records.run_page import Cursor, SessionCursor
from core.records.run_query import side_words
from core.upkeep import known_damage
from core.version import __version__

ROOT: Final = "/api/v1"
AT_LEARNER: Final = f"{ROOT}/learners/{{name}}"
MAX_LIMIT: Final = 1_000
DEFAULT_LIMIT: Final = 50
_KEY: Final = "idempotency-key"
_COMPACTED: Final = "armscope-compacted-runs"
_MEDIA: Final[Mapping[ExportFormat, str]] = {
    "jsonl": NDJSON,
    "json": JSON,
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_REWARD: Final = Verbs.reward  # read once: each request would read the table
RUN_LINE: Final = '{"kind": "run", "uid": "r9", "arms": ["tool:web:search"], "calls": ["search"]}'
FORMAT: Final = {"format": choice("Form of the file.", EXPORT_FORMATS)}
_SERIES: Final = {
    "metric": choice("The figure.", queries.METRICS),
    "window": choice("An hour or a day.", queries.WINDOWS, "1d"),
}
_PAIRED: Final = {"paired": {"type": "boolean", "default": True, "description": "Only tasks that both had."}}
_READABLE: Final = "Whether the database can be read."
_HEAD: Final = {"head": {"type": "string", "description": "A head that a chain must still have."}}
_PART: Final = 1_000
"""Lines in one transaction."""
_ORDER = TypeVar("_ORDER")
_ANSWER = TypeVar("_ANSWER")

_COMPARED: Final[Mapping[str, Mapping[str, object]]] = {
    **{
        f"{side}.{name}": {"type": "string", "description": f"Side {side}: {words}"}
        for side in ("a", "b")
        for name, words in side_words().items()
    },
    "limit": Verbs.compare_sides.fields["limit"],
}

_AT_NUMBER: Final = ((int, type(None)), int)
"""Shape of a cursor: a time, which may be missing, and a number."""


# Bodies


def parsed_input(
    operation: Verb[..., Any], call: HttpCall, body: object, bound: Mapping[str, str] = {}
) -> Input:
    """Return a verb's input from a parsed body, the path and the Idempotency-Key header.

    ``bound`` are fields of the verb that the path has, by the path's names.
    """
    if not isinstance(body, dict):
        raise InvalidInput(
            "The body must be one object, got something else.",
            next_step=f"Send it like {msgspec.json.encode(_example(operation, bound)).decode()}; nothing was done.",
        )
    for name in bound:
        if name in body:
            raise InvalidInput(
                f"{name} must be in the path alone, got it in the body, too.",
                next_step="Leave it out of the body.",
            )
    if bound:
        body = body | {field: call.path_values[name] for field, name in bound.items()}
    return operation.decode(_keyed(operation, call.headers[_KEY], body) if _KEY in call.headers else body)


def _example(operation: Verb[..., Any], bound: Mapping[str, str]) -> dict[str, object]:
    return {name: value for name, value in operation.example.items() if name not in bound}


def _keyed(operation: Verb[..., Any], key: str, body: dict[str, object]) -> dict[str, object]:
    if not 1 <= len(key) <= MAX_REQUEST_KEY_CHARS:
        raise InvalidInput(
            f"The Idempotency-Key must be 1 to {MAX_REQUEST_KEY_CHARS} characters, got {len(key)}.",
            next_step="Leave the header out, or send a key of your own; nothing was done.",
        )
    if "key" not in operation.input.__struct_fields__:
        return body  # a verb without a key changes nothing when it is repeated
    if body.get("key", key) != key:
        raise InvalidInput(
            "The Idempotency-Key and the key of the body must be one, got two.",
            next_step="Leave one of them out.",
        )
    return {**body, "key": key}


# Answers


def document_answer(plain: object, headers: Mapping[str, str] = {}) -> HttpAnswer:
    """Return a document as an answer."""
    try:
        body = orjson.dumps(plain)
    except orjson.JSONEncodeError:
        body = json_bytes(plain)
    return HttpAnswer(200, body, {"content-type": JSON, **headers})


def tagged_answer(context: Context, call: HttpCall, read: Callable[[], object]) -> HttpAnswer:
    """Return what ``read`` returns, with an ETag of the learner's revision and the caller's roles; 304 if it matches.

    The tag is read first: after a write in between, the answer is newer than its tag.
    """
    tag = _tag(queries.visibility(context))
    cached = {one.strip().removeprefix("W/") for one in call.headers.get("if-none-match", "").split(",")}
    headers = {"etag": tag, "cache-control": "private, no-cache", "vary": "Authorization"}
    return HttpAnswer(304, b"", headers) if tag in cached else document_answer(read(), headers)


def _tag(view: queries.Visibility) -> str:
    """Return an ETag of the revision, the facts behind it, and the roles that read them."""
    rest = (view.snapshot_key, sorted(view.roles), sorted(view.hidden), sorted(view.blind))
    return f'"{view.snapshot_key.revision}-{blake2b(repr(rest).encode(), digest_size=8).hexdigest()}"'


def _acted(operation: Verb[..., Any], context: Context, request: Input) -> HttpAnswer:
    return document_answer(operation.plain(context, operation.respond(context, request)))


def _of_verb(operation: Verb[..., Any]) -> LearnerHandler:
    bound = operation.bound

    def handler(context: Context, call: HttpCall) -> HttpAnswer:
        return _acted(operation, context, parsed_input(operation, call, json_body(call.body), bound))

    return handler


def _query_of(operation: Verb[..., Any], query: Mapping[str, Mapping[str, object]]) -> LearnerHandler:
    """Return a handler that answers with a verb that only reads; a repeated field of the query is a list."""
    bound = operation.bound

    def handler(context: Context, call: HttpCall) -> HttpAnswer:
        check_fields(call, *query)
        lists: dict[str, list[str]] = {
            name: [] for name, schema in query.items() if schema.get("type") == "array"
        }
        for name, value in call.pairs:
            lists.get(name, []).append(value)
        fields = {name: call.path_values[at] for name, at in bound.items()}
        request = operation.decode({**call.query, **lists, **fields}, strict=False)
        return tagged_answer(
            context, call, lambda: operation.plain(context, operation.respond(context, request))
        )

    return handler


# Lists


class ListPage(NamedTuple):
    """Records of a part of a list, and the position of the next part (None at the end)."""

    items: Sequence[Any]
    onward: Sequence[object] | None


_Page = Callable[[Context, Any, int, Mapping[str, Any]], ListPage]


def _filtered(
    operation: Verb[..., Any],
    page: _Page,
    *shape: type | tuple[type, ...],
) -> LearnerHandler:
    """Return a handler that answers with a page of a verb's list; the fields of its input filter the list.

    A list of what changed goes on after the mark of its last row.
    """

    def handler(context: Context, call: HttpCall) -> HttpAnswer:
        names = [field for part in query_fields(operation.input) for field in part]
        check_fields(call, "limit", "cursor", *names)
        fields = grouped((name, value) for name in names for field, value in call.pairs if field == name)
        request = operation.filtered(fields, strict=False)
        query = {one: getattr(request, one) for one in request.__struct_fields__ if one not in PAGING}
        limit, is_since = _limit(call), query.get("since") is not None
        cursor = _cursor(call, (str,) if is_since else shape)
        if is_since and cursor is not None:
            query["since"] = cursor[0]

        def read() -> object:
            part = page(context, None if is_since else cursor, limit, query)
            if is_since:
                marks = [one.mark for one in part.items]
                part = part._replace(onward=marks[-1:] if len(marks) == limit else None)
            return _page_document(operation, context, part)

        return tagged_answer(context, call, read)

    return handler


def _page_document(operation: Verb[..., Any], context: Context, page: ListPage) -> dict[str, object]:
    onward = None if page.onward is None else urlsafe_b64encode(orjson.dumps(list(page.onward))).decode()
    return {"items": operation.plain(context, page.items), "next": onward}


def _cursor(call: HttpCall, shape: Sequence[type | tuple[type, ...]]) -> list[Any] | None:
    text = call.query.get("cursor")
    if text is None:
        return None
    try:
        parts = orjson.loads(urlsafe_b64decode(text.encode()))
    except ValueError:
        parts = None
    if (
        not isinstance(parts, list)
        or len(parts) != len(shape)
        or not all(
            isinstance(part, kind) and not isinstance(part, bool)
            for part, kind in zip(parts, shape, strict=True)
        )
        or any(isinstance(part, int) and abs(part) > 1 << 62 for part in parts)
    ):
        raise InvalidInput(
            "A cursor must be the next of a page of this list, got something else.",
            next_step="Leave it out to begin at the beginning.",
        )
    return parts


def _limit(call: HttpCall) -> int:
    text = call.query.get("limit", str(DEFAULT_LIMIT))
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidInput(
            f"limit must be a whole number from 1 to {MAX_LIMIT:,}, got something else.",
            next_step=f"Use for example 10, or leave it out for {DEFAULT_LIMIT}.",
        )
    return int(text)


def check_fields(call: HttpCall, *names: str) -> None:
    """Refuse fields of a query that the route does not have, such as a misspelt one."""
    for name in call.query:
        if name not in names:
            raise InvalidInput(
                f"The query's fields must be of {', '.join(names) or 'none'}, got another.",
                next_step="Leave it out, or correct its name.",
            )


def _after(operation: Verb[..., Any], field: str, *, is_sorted: bool = True) -> _Page:
    """Return pages of a verb's rows after the one whose field the cursor has; it may be gone from sorted rows."""

    def page(context: Context, cursor: list[str] | None, limit: int, query: Mapping[str, Any]) -> ListPage:
        rows = operation.call(context, **query)
        names = [getattr(one, field) for one in rows]
        begin = 0
        if cursor is not None and is_sorted:
            begin = bisect_right(names, cursor[0])
        elif cursor is not None and cursor[0] in names:
            begin = names.index(cursor[0]) + 1
        end = begin + limit
        return ListPage(rows[begin:end], [names[end - 1]] if end < len(rows) else None)

    return page


def _findings(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "limit", "cursor")
    operation, cursor, limit = Verbs.lint, _cursor(call, (str,)), _limit(call)
    request = operation.decode({"environment": call.path_values["environment"]})

    def page() -> object:
        rows = operation.respond(context, request)[: limit if cursor is None else 0]
        return _page_document(operation, context, ListPage(rows, None))

    return tagged_answer(context, call, page)


def _models(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "paired")
    operation, paired = Verbs.compare, call.query.get("paired", "true")
    if paired not in {"true", "false"}:
        raise InvalidInput(
            "paired must be true or false, got something else.", next_step="Leave it out for true."
        )
    request = operation.decode({"environment": call.path_values["environment"], "paired": paired == "true"})
    return tagged_answer(context, call, lambda: operation.plain(context, operation.respond(context, request)))


def _onward(read: Callable[..., Any], field: str = "before", position: Callable[..., object] = int) -> _Page:
    """Return pages of a query, whose ``field`` takes the position that the cursor has."""

    def page(context: Context, cursor: list[Any] | None, limit: int, query: Mapping[str, Any]) -> ListPage:
        place = None if cursor is None else position(*cursor)
        part = read(context, limit=limit, **{field: place}, **query)
        return ListPage(part.rows, [part.onward] if isinstance(part.onward, int) else part.onward)

    return page


def _evaluations(context: Context, **query: Any) -> EvaluationPage:  # noqa: ANN401 - the fields of its verb
    return queries.page_of_evaluations(context, query.pop("wanted"), **query)


def _acts(context: Context, cursor: list[int] | None, limit: int, query: Mapping[str, Any]) -> ListPage:
    before = None if cursor is None else cursor[0]
    page = queries.acts(context, before=before, limit=limit, **query)
    return ListPage(page.entries, None if page.next is None else [page.next])


def _ledger(context: Context, cursor: list[int] | None, limit: int, query: Mapping[str, Any]) -> ListPage:
    before = None if cursor is None else cursor[0]
    rows = queries.rewards(context, before=before, limit=limit + 1, **query)
    onward = [rows[limit - 1].row_no] if len(rows) > limit else None
    return ListPage(rows[:limit], onward)


def _learners(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    check_fields(call, "limit", "cursor")
    operation, context = Verbs.learners, service.whole(actor)
    page = _after(operation, "name")(context, _cursor(call, (str,)), _limit(call), {})
    return document_answer(_page_document(operation, context, page))


def _sides(context: Context, call: HttpCall) -> HttpAnswer:
    """Return two sets of runs side by side; a repeated filter names several values."""
    check_fields(call, *_COMPARED)
    operation = Verbs.compare_sides
    sides = {
        side: grouped((name[2:], value) for name, value in call.pairs if name.startswith(f"{side}."))
        for side in ("a", "b")
    }
    limit = {"limit": call.query["limit"]} if "limit" in call.query else {}
    request = operation.decode({**sides, **limit}, strict=False)
    return tagged_answer(context, call, lambda: operation.plain(context, operation.respond(context, request)))


# Routes without a verb, or with several


class ServerVersion(TypedDict):
    """Name and version of the server."""

    name: str
    version: str


class Health(TypedDict):
    """State of the server; it is an error where the database can't be read.

    ``damage`` is what the last check or backup on this machine found.
    """

    ok: bool
    version: str
    damage: NotRequired[str]


class Series(TypedDict):
    """A figure window by window, the earliest first."""

    metric: queries.SeriesMetric
    window: queries.Window
    points: tuple[Point, ...]


class ArmEffectOfRepair(TypedDict):
    """One arm in a repair's preview: observations that it would take back, and the belief now and afterwards."""

    arm: str
    observations: int
    referenced: int
    mean: float
    mean_after: float
    pulls: int
    pulls_after: int
    chance: float | None
    chance_after: float | None


class RepairEffect(TypedDict):
    """Effect of a repair: the observations that it would take back, arm by arm."""

    learner: str
    observation_count: int
    corrected: int
    arms: tuple[ArmEffectOfRepair, ...]


class ResetEffect(TypedDict):
    """Effect of a reset: the arms that it would reset, each with its pulls."""

    learner: str
    scope: str
    to: Target
    reset_count: int
    arm_ids: tuple[str, ...]
    pulls: int


def _version(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    return document_answer(ServerVersion(name="armscope", version=__version__))


def _alive(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    return document_answer(Health(ok=True, version=__version__))


def _health(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    """Return whether the database is readable; raise the error that prevents it."""
    with service.store.reading(service.whole(actor).learner):
        health, damage = Health(ok=True, version=__version__), known_damage(service.store.location)
        return document_answer(health if damage is None else Health(**health, damage=damage))


def _record(context: Context, call: HttpCall) -> HttpAnswer:
    """Record a run: the verb's input, or a line of armscope's own format."""
    body = json_body(call.body)
    if isinstance(body, dict) and body.get("kind") == "run":
        return _acted(Verbs.record, context, cast("Any", Verbs.record.input)(run=RunDecoder().run(call.body)))
    return _acted(Verbs.record, context, parsed_input(Verbs.record, call, body))


def _reward(context: Context, call: HttpCall) -> HttpAnswer:
    """Reward one arm, or without one every arm of the run."""
    body = json_body(call.body)
    is_whole = isinstance(body, dict) and "arm" not in body and "run" in body
    operation = Verbs.reward_run if is_whole else _REWARD
    return _acted(operation, context, parsed_input(operation, call, body))


def _line_answers(results: Iterator[Mapping[str, object]]) -> HttpAnswer:
    """Return one result for each line, after the last line: a client may read nothing before it has sent all."""

    def write(target: IO[bytes]) -> None:
        for result in results:
            target.write(json_bytes(result) + b"\n")

    return file_answer(207, NDJSON, write)


def _export(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "format")
    form = call.query.get("format", "jsonl")
    if form not in EXPORT_FORMATS:
        raise InvalidInput(
            f"format must be one of {', '.join(EXPORT_FORMATS)}, got another.",
            next_step="Choose one of them.",
        )
    results: list[ExportAnswer] = []
    answer = file_answer(
        200, _MEDIA[form], lambda target: results.append(export_into(context, target, "-", form))
    )
    return answer._replace(headers={**answer.headers, _COMPACTED: str(results[0].compacted)})


def _timeseries(context: Context, call: HttpCall) -> HttpAnswer:
    check_fields(call, "metric", "window")
    metric = cast("queries.SeriesMetric", call.query.get("metric", "tokens"))
    window = cast("queries.Window", call.query.get("window", "1d"))

    def series() -> object:
        points = queries.timeseries(context, metric, window)
        return as_plain(Series(metric=metric, window=window, points=points))

    return tagged_answer(context, call, series)


def _verify(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    check_fields(call, "head")
    operation, context = Verbs.verify, service.whole(actor)
    authorise(actor, operation.action, None)  # the answer names every learner
    return _acted(operation, context, operation.decode({**call.query}))


def _preview_reset(context: Context, call: HttpCall) -> HttpAnswer:
    request = cast("Any", parsed_input(Verbs.reset, call, json_body(call.body)))
    preview = queries.preview_reset(context, arms=request.arms, types=request.types, target=request.target)
    effect = ResetEffect(
        learner=context.learner,
        scope=preview.scope,
        to=preview.target,
        reset_count=len(preview.columns),
        arm_ids=preview.columns.keys,
        pulls=preview.columns.n_pulls,
    )
    return document_answer(effect)


def _preview_repair(context: Context, call: HttpCall) -> HttpAnswer:
    request = cast("Any", parsed_input(Verbs.repair, call, json_body(call.body)))
    preview = queries.preview_repair(context, request.arms, request.since, request.until)
    arms = tuple(
        ArmEffectOfRepair(
            arm=one.arm,
            observations=one.n,
            referenced=one.n_referenced,
            mean=one.now.mean,
            mean_after=one.after.mean,
            pulls=one.now.pulls,
            pulls_after=one.after.pulls,
            chance=one.now.chance,
            chance_after=one.after.chance,
        )
        for one in preview.arms
    )
    effect = RepairEffect(
        learner=context.learner, observation_count=preview.n, corrected=preview.n_corrected, arms=arms
    )
    return document_answer(effect)


def _preview_credit(context: Context, call: HttpCall) -> HttpAnswer:
    """Return the arms that an episode's credit would move, the largest change first."""
    request = cast("Any", parsed_input(Verbs.credit_episode, call, json_body(call.body)))
    return document_answer(as_plain(queries.preview_credit(context, request.uid, request.rule)))


# The table


def _row(
    method: str, path: str, handler: LearnerHandler, text: RouteText, *, action: Action | None = None
) -> ApiRoute:
    """Return a route of a learner; its action is that of its verb, else reading."""
    needed = action or ("read" if text.verb is None else text.verb.action)
    streams = MOST_BYTES if path.endswith(":batch") else 0
    takes = (NDJSON, "application/jsonl") if streams else (JSON,)
    route = Route((method,), f"{AT_LEARNER}/{path}", needed, takes=takes, streams=streams, of_learner=handler)
    return ApiRoute(route, text)


def _act(operation: Verb[..., Any]) -> ApiRoute:
    """Return the route of a verb whose input is the body; a field in the path is put there."""
    text = RouteText(verb=operation, bound=frozenset(operation.bound))
    return _row("PUT" if operation.bound else "POST", operation.route, _of_verb(operation), text)


def _look(operation: Verb[..., Any], id: str = "", *, whole: bool = False) -> ApiRoute:
    """Return the route of a verb that only reads; its input is in the path, and the ``whole`` rest in the query."""
    query = {name: one for name, one in operation.fields.items() if whole and name not in operation.bound}
    text = RouteText(id=id or f"get_{operation.name}", answer=operation, tagged=True, query=query)
    return _row("GET", operation.route.removeprefix(RECORDS), _query_of(operation, query), text)


def _list(
    path: str,
    operation: Verb[..., Any],
    page: _Page,
    *shape: type | tuple[type, ...],
    of: type | None = None,
    words: str = "",
    action: Action = "read",
) -> ApiRoute:
    """Return the route of a verb's list, with its fields as the query; ``of`` is the type of the items."""
    text = RouteText(
        id=f"list_{path}", answer=of or operation, form="list", tagged=True, words=words, verb=operation
    )
    return _row("GET", path, _filtered(operation, page, *shape), text, action=action)


def _plain(
    path: str,
    handler: Handler,
    id: str,
    answer: Verb[..., Any] | type,
    words: str = "",
    *,
    probe: Literal["no", "thread", "loop"] = "no",
) -> ApiRoute:
    """Return a route of the server; a probe needs no identity."""
    form: Form = "list" if id.startswith("list_") else "document"
    text = RouteText(id=id, answer=answer, form=form, words=words, query=_HEAD if id == "verify" else {})
    return ApiRoute(Route(("GET",), path, "read", handler, public=probe != "no", probe=probe), text)


def _preview(operation: Verb[..., Any], handler: LearnerHandler, answer: type, words: str) -> ApiRoute:
    id = f"preview_{operation.name.partition('_')[0]}"
    text = RouteText(id=id, verb=operation, answer=answer, words=words)
    return _row("POST", f"{operation.route}:preview", handler, text)


ROWS: Final = (
    _plain("/healthz", _health, "probe_health", Health, _READABLE, probe="thread"),
    _plain("/livez", _alive, "probe_life", Health, "Whether the server answers.", probe="loop"),
    _plain("/readyz", _health, "probe_readiness", Health, _READABLE, probe="thread"),
    _plain(f"{ROOT}/health", _health, "get_health", Health, _READABLE),
    _plain(f"{ROOT}/version", _version, "get_version", ServerVersion, "Which version answers."),
    _plain(f"{ROOT}/verify", _verify, "verify", Verbs.verify),
    _plain(f"{ROOT}/learners", _learners, "list_learners", Verbs.learners),
    _look(Verbs.status),
    _look(Verbs.settings),
    _list("traces", Verbs.traces, _after(Verbs.traces, "trace", is_sorted=False), str),
    _list("rollouts", Verbs.rollouts, _after(Verbs.rollouts, "rollout", is_sorted=False), str),
    _look(Verbs.agreement),
    _look(Verbs.carried),
    _look(Verbs.search, "search", whole=True),
    _row(
        "GET",
        "sides",
        _sides,
        RouteText(id="compare_sides", answer=Verbs.compare_sides, tagged=True, query=_COMPARED),
    ),
    _look(Verbs.run),
    _look(Verbs.session, whole=True),
    _row(
        "GET",
        "environments/{environment}/findings",
        _findings,
        RouteText(id="list_findings", answer=Verbs.lint, form="list", tagged=True),
    ),
    _row(
        "GET",
        "environments/{environment}/models",
        _models,
        RouteText(id="compare_models", answer=Verbs.compare, tagged=True, query=_PAIRED),
    ),
    _look(Verbs.episode),
    _list(
        "episodes",
        Verbs.episode_list,
        _onward(queries.episode_list, "cursor", EpisodeCursor),
        *_AT_NUMBER,
        of=EpisodeRow,
        words=Verbs.episode_list.words,
    ),
    _list("posteriors", Verbs.posteriors, _after(Verbs.posteriors, "arm"), str),
    _list("arms", Verbs.arms, _after(Verbs.arms, "arm"), str),
    _look(Verbs.versions),
    _list(
        "sessions",
        Verbs.sessions,
        _onward(queries.listed_sessions, "after", SessionCursor),
        *((int, type(None)), str),
    ),
    _list("runs", Verbs.runs, _onward(queries.listed_runs, "cursor", Cursor), *_AT_NUMBER),
    _list("evaluations", Verbs.evaluations, _onward(_evaluations), int),
    _list("ledger", Verbs.ledger, _ledger, int),
    _list("acts", Verbs.acts, _acts, int, of=AuditEntry, words="Who changed what, the latest first."),
    _list("audit", Verbs.acts, _acts, int, of=AuditEntry, words="Who did what.", action="members"),
    _list("environments", Verbs.episodes, _after(Verbs.episodes, "environment"), str),
    _row(
        "GET",
        "timeseries",
        _timeseries,
        RouteText(
            id="get_timeseries", answer=Series, tagged=True, words="A figure window by window.", query=_SERIES
        ),
    ),
    _look(Verbs.savings),
    _row(
        "GET",
        "export",
        _export,
        RouteText(
            id="export",
            words=Verbs.export.words,
            query=FORMAT,
            answers=tuple(_MEDIA.values()),
            headers={_COMPACTED: "Number of compacted runs, which the file lacks: only their sums are left."},
        ),
    ),
    _act(Verbs.select),
    _row("POST", "runs", _record, RouteText(verb=Verbs.record)),
    _row(
        "POST",
        "runs:batch",
        lambda context, call: _line_answers(run_lines(context, lines_of(call.pieces))),
        RouteText(id="record_runs", answer=Verbs.record, words="Record runs, a line each.", lines=RUN_LINE),
        action="ingest",
    ),
    _act(Verbs.record_step),
    _act(Verbs.mark_incomplete),
    _act(Verbs.declare),
    _act(Verbs.credit_episode),
    _preview(
        Verbs.credit_episode,
        _preview_credit,
        CreditPreview,
        "Whom an episode's credit would move, as a preview.",
    ),
    _row("POST", "rewards", _reward, RouteText(verb=Verbs.reward, other=Verbs.reward_run)),
    _row(
        "POST",
        "rewards:batch",
        lambda context, call: _line_answers(
            reward_lines(context, lines_of(call.pieces), call.headers.get(_KEY))
        ),
        RouteText(
            id="reward_lines",
            answer=Verbs.reward,
            words="Give rewards, a line each.",
            lines='{"arm": "tool:web:search", "value": 0.5}',
        ),
        action="reward",
    ),
    _act(Verbs.reward_batch),
    _act(Verbs.outcome),
    _act(Verbs.outcomes),
    _act(Verbs.plan_trial),
    _act(Verbs.read_trial),
    _act(Verbs.start_experiment),
    _act(Verbs.share_experiment),
    _act(Verbs.stop_experiment),
    _act(Verbs.note),
    _act(Verbs.evaluate),
    _act(Verbs.confirm_browser),
    _act(Verbs.repair),
    _preview(
        Verbs.repair, _preview_repair, RepairEffect, "What a repair would take back, arm by arm; nothing is."
    ),
    _act(Verbs.reset),
    _preview(Verbs.reset, _preview_reset, ResetEffect, "What a reset would change; nothing is."),
    _act(Verbs.undo),
    _act(Verbs.redo),
    _act(Verbs.accept_price),
    _act(Verbs.change),
)


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends; a longer line than `MAX_BODY_BYTES` is cut one byte after that."""
    rest = b""
    for piece in pieces:
        whole, end, tail = piece.rpartition(b"\n")
        if not end:
            rest = (rest + tail)[: MAX_BODY_BYTES + 1]
            continue
        first, *others = whole.split(b"\n")
        yield (rest + first)[: MAX_BODY_BYTES + 1]
        yield from others
        rest = tail
    if rest:
        yield rest


def run_lines(context: Context, lines: Iterator[bytes]) -> Iterator[Mapping[str, object]]:
    """Record runs: lines as the verb ``record`` is asked, or as our own format has them."""
    context.permit("ingest", create=True)
    runs_of_lines = RunDecoder()

    def read(line: bytes) -> tuple[Run, bool]:
        document = json_body(line)
        if isinstance(document, dict) and document.get("kind") == "run":
            return runs_of_lines.run(line), False
        request = cast("Any", Verbs.record.decode(document))
        return request.run, request.ended_now

    def done(orders: Sequence[tuple[Run, bool]]) -> list[RecordAnswer]:
        ended_now = {run.uid for run, has_ended_now in orders if has_ended_now}
        return record_all(context, [run for run, _ in orders], ended_now=ended_now)

    return _results(lines, read, done, as_plain)


def reward_lines(context: Context, lines: Iterator[bytes], key: str | None) -> Iterator[Mapping[str, object]]:
    """Yield the result of each line, an input of the verb ``reward``; each line's key follows from ``key``."""
    context.permit("reward")
    index = 0

    def read(line: bytes) -> RewardOrder:
        nonlocal index
        index += 1
        request = Verbs.reward.decode(json_body(line))
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        if fields["key"] is None:
            fields["key"] = key_of_line(key, index)
        return RewardOrder(**fields)

    def done(orders: Sequence[RewardOrder]) -> list[RewardAnswer]:
        return reward_all(context, orders)

    return _results(lines, read, done, lambda answer: documents.act(context, answer))


def _results(
    lines: Iterator[bytes],
    read: Callable[[bytes], _ORDER],
    done: Callable[[Sequence[_ORDER]], Sequence[_ANSWER]],
    formatted: Callable[[_ANSWER], object],
) -> Iterator[Mapping[str, object]]:
    number = 0
    broken: StoreError | None = None
    while part := list(islice(lines, _PART)):
        parsed = [_or_error(read, line) if line.strip() else None for line in part]
        orders = [one for one in parsed if one is not None and not isinstance(one, ArmscopeError)]
        answers = iter(answers_of(orders, done, broken))
        for one in parsed:
            number += 1
            if one is None:  # an empty line asks for nothing
                continue
            answer = one if isinstance(one, ArmscopeError) else next(answers)
            if isinstance(answer, StoreError):
                broken = answer  # what failed once is not tried again for every line
            yield {"line": number, **_result(answer, formatted)}


def _or_error(read: Callable[[bytes], _ORDER], line: bytes) -> _ORDER | ArmscopeError:
    try:
        return read(line)
    except ArmscopeError as problem:
        return problem


def _result(answer: object, formatted: Callable[[Any], object]) -> dict[str, object]:
    if isinstance(answer, ArmscopeError):
        return http_error(answer)
    plain = formatted(answer)
    return {"ok": True, **(plain if isinstance(plain, dict) else {})}
