"""Own: ``/api/v1``: what the table of verbs and the queries say, as routes; bodies are as the commands' ``--json``.

Lists are ``{items, next}`` with ``?limit=&cursor=``; a cursor is where the next page begins, never a count of rows.
Whatever is of one moment of a learner has that moment as its ETag.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, NamedTuple, cast

import msgspec
import orjson

from core.doors import documents
from core.doors.desk import Desk
from core.doors.exchange import JSON, Answer, Call
from core.doors.http.batches import reward_lines, run_lines
from core.doors.http.body import document, lines_of
from core.doors.http.refusals import document_bytes
from core.doors.http.routes import NDJSON, Handler, Route
from core.doors.http.schemas import Row, Told
from core.doors.terminal import as_plain
from core.doors.verbs import Input, Verb, verb
from core.errors import InvalidInput
from core.flows import queries
from core.flows.audit import audit
from core.flows.context import Context
from core.flows.export import EXPORT_FORMATS, ExportFormat, export_into
from core.flows.rollouts import rollouts
from core.flows.traces import traces
from core.formats.armscope import SentRuns
from core.permissions import Action, authorise
from core.records.actor import Actor
from core.records.audit import AuditPage
from core.records.episode_page import EpisodeCursor
from core.records.evaluation_page import EvaluationFilter
from core.records.observation import MAX_REQUEST_KEY_CHARS
from core.records.run_page import Cursor
from core.version import __version__

ROOT: Final = "/api/v1"
AT_LEARNER: Final = f"{ROOT}/learners/{{name}}"
MOST: Final = 1_000
USUAL: Final = 50
_SPOOLED: Final = 1 << 20
_PIECE: Final = 1 << 16
_MEDIA: Final[Mapping[ExportFormat, str]] = {"jsonl": NDJSON, "json": JSON, "csv": "text/csv; charset=utf-8"}


# What a body asks for


def asked_with(asked: Verb, call: Call, **bound: object) -> Input:
    """A verb's input from a body, what the path says (``bound``), and the Idempotency-Key, which is our key."""
    sent = document(call.body)
    if not isinstance(sent, dict):
        raise InvalidInput(
            "The body must be one object, got something else.",
            next_step=f"Send it like {msgspec.json.encode(_example(asked, bound)).decode()}; nothing was done.",
        )
    for name in bound:
        if name in sent:
            raise InvalidInput(
                f"{name} must be said by the path alone, got it in the body, too.",
                next_step="Leave it out of the body.",
            )
    return asked.decode({**sent, **bound, **_key(asked, call, sent)})


def _example(asked: Verb, bound: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in asked.example.items() if name not in bound}


def _key(asked: Verb, call: Call, sent: Mapping[str, object]) -> dict[str, str]:
    key = call.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= MAX_REQUEST_KEY_CHARS:
        raise InvalidInput(
            f"The Idempotency-Key must be 1 to {MAX_REQUEST_KEY_CHARS} characters, got {len(key)}.",
            next_step="Leave the header out, or send a key of your own; nothing was done.",
        )
    if key is None or "key" not in asked.input.__struct_fields__:
        return {}  # what takes no key changes nothing by being sent again
    if sent.get("key", key) != key:
        raise InvalidInput(
            "The Idempotency-Key and the key of the body must be one, got two.",
            next_step="Leave one of them out.",
        )
    return {"key": key}


def _said_by_path(bound: Mapping[str, str], call: Call) -> dict[str, object]:
    return {field: call.path_values[place] for field, place in bound.items()}


# What is answered


def told(status: int, plain: object, **headers: str) -> Answer:
    """A document as an answer, whatever its texts hold."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, document_bytes(plain), {"content-type": JSON} | named)


def of_moment(context: Context, call: Call, tell: Callable[[], object]) -> Answer:
    """What is of one moment of a learner, and of what whoever asks may see of it: 304 for whoever has it already.

    The moment is asked for first: should somebody write meanwhile, the answer is newer than its tag says.
    """
    tag = _tag(queries.sight(context))
    known = {one.strip().removeprefix("W/") for one in call.headers.get("if-none-match", "").split(",")}
    if tag in known:
        return Answer(304, b"", {"etag": tag, "cache-control": "private, no-cache", "vary": "Authorization"})
    return told(200, tell(), etag=tag, cache_control="private, no-cache", vary="Authorization")


def _tag(seen: queries.Sight) -> str:
    """The revision, and what tells it from the same revision of other facts, or as others see it."""
    rest = (seen.moment, sorted(seen.roles), sorted(seen.hidden))
    return f'"{seen.moment.revision}-{blake2b(repr(rest).encode(), digest_size=8).hexdigest()}"'


def _of_verb(name: str, bound: Mapping[str, str] = {}) -> Handler:
    """A handler that does a verb with what the body says."""

    def handler(desk: Desk, actor: Actor, call: Call) -> Answer:
        asked, context = verb(name), desk.context(actor, call.path_values["name"])
        context.permit(asked.action)
        found = asked.call(context, asked_with(asked, call, **_said_by_path(bound, call)))
        return told(200, asked.plain(context, found))

    return handler


def _shown(name: str, bound: Mapping[str, str] = {}) -> Handler:
    """A handler that answers with a verb that only looks."""

    def handler(desk: Desk, actor: Actor, call: Call) -> Answer:
        known_fields(call)
        asked, context = verb(name), desk.context(actor, call.path_values["name"])
        given = asked.decode(_said_by_path(bound, call))
        return of_moment(context, call, lambda: asked.plain(context, asked.call(context, given)))

    return handler


# Lists


class Page(NamedTuple):
    """Part of a list, and where it goes on (None at the end)."""

    items: Sequence[object]
    onward: Sequence[object] | None


def _listed(page: Callable[[Context, Any, int], Page], *shape: type | tuple[type, ...]) -> Handler:
    """A handler that answers with a page of a list; ``shape`` is of what its cursors are."""

    def handler(desk: Desk, actor: Actor, call: Call) -> Answer:
        known_fields(call, "limit", "cursor")
        context = desk.context(actor, call.path_values["name"])
        cursor, limit = _cursor(call, shape), _limit(call)
        return of_moment(context, call, lambda: _told_page(page(context, cursor, limit)))

    return handler


def _told_page(page: Page) -> dict[str, object]:
    onward = None if page.onward is None else urlsafe_b64encode(orjson.dumps(page.onward)).decode()
    return {"items": page.items, "next": onward}


def _cursor(call: Call, shape: Sequence[type | tuple[type, ...]]) -> list[Any] | None:
    sent = call.query.get("cursor")
    if sent is None:
        return None
    try:
        found = orjson.loads(urlsafe_b64decode(sent.encode()))
    except ValueError:
        found = None
    if (
        not isinstance(found, list)
        or len(found) != len(shape)
        or not all(
            isinstance(part, kind) and not isinstance(part, bool)
            for part, kind in zip(found, shape, strict=True)
        )
        or any(isinstance(part, int) and abs(part) > 1 << 62 for part in found)
    ):
        raise InvalidInput(
            "A cursor must be the next of a page of this list, got something else.",
            next_step="Leave it out to begin at the beginning.",
        )
    return found


def _limit(call: Call) -> int:
    sent = call.query.get("limit", str(USUAL))
    if not re.fullmatch("[0-9]{1,4}", sent) or not 1 <= int(sent) <= MOST:
        raise InvalidInput(
            f"limit must be a whole number from 1 to {MOST:,}, got something else.",
            next_step=f"Leave it out for {USUAL}.",
        )
    return int(sent)


def known_fields(call: Call, *names: str) -> None:
    """Refuse fields of a query that nothing is asked by: a misspelt one must not pass in silence."""
    for name in call.query:
        if name not in names:
            raise InvalidInput(
                f"The query's fields must be of {', '.join(names) or 'none'}, got another.",
                next_step="Leave it out, or correct its name.",
            )


def _by_arm(name: str) -> Callable[[Context, Any, int], Page]:
    """Pages of a verb's list that is sorted by the ids of arms."""

    def page(context: Context, cursor: list[str] | None, limit: int) -> Page:
        asked = verb(name)
        every = asked.call(context, asked.decode({}))
        rest = [one for one in every if cursor is None or one.arm > cursor[0]]
        items = asked.plain(context, rest[:limit])
        return Page(cast("list[object]", items), [rest[limit - 1].arm] if len(rest) > limit else None)

    return page


def _environments(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Environments by name, of one name or model where the query says so."""
    known_fields(call, "limit", "cursor", "environment", "model")
    asked, context = verb("episodes"), desk.context(actor, call.path_values["name"])
    cursor, limit = _cursor(call, (str,)), _limit(call)
    wanted = asked.decode({name: call.query[name] for name in ("environment", "model") if name in call.query})

    def page() -> object:
        every = asked.call(context, wanted)
        rest = [one for one in every if cursor is None or one.environment > cursor[0]]
        onward = [rest[limit - 1].environment] if len(rest) > limit else None
        return _told_page(Page(cast("list[object]", asked.plain(context, rest[:limit])), onward))

    return of_moment(context, call, page)


def _findings(desk: Desk, actor: Actor, call: Call) -> Answer:
    """How an environment pays, and what may be wrong with it: a list of one."""
    known_fields(call, "limit", "cursor")
    asked, context = verb("lint"), desk.context(actor, call.path_values["name"])
    cursor, limit = _cursor(call, (str,)), _limit(call)
    wanted = asked.decode({"environment": call.path_values["environment"]})

    def page() -> object:
        found = asked.plain(context, asked.call(context, wanted))
        return _told_page(Page(cast("list[object]", found)[: limit if cursor is None else 0], None))

    return of_moment(context, call, page)


def _models(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Models on the same tasks, or by all their episodes."""
    known_fields(call, "paired")
    asked, context = verb("compare"), desk.context(actor, call.path_values["name"])
    paired = call.query.get("paired", "true")
    if paired not in {"true", "false"}:
        raise InvalidInput(
            "paired must be true or false, got something else.", next_step="Leave it out for true."
        )
    wanted = asked.decode({"environment": call.path_values["environment"], "paired": paired == "true"})
    return of_moment(context, call, lambda: asked.plain(context, asked.call(context, wanted)))


def _runs(context: Context, cursor: list[Any] | None, limit: int) -> Page:
    found = queries.listed_runs(context, cursor=None if cursor is None else Cursor(*cursor), limit=limit)
    onward = None if found.onward is None else list(found.onward)
    return Page(documents.runs(context, found.rows), onward)


def _episodes(context: Context, cursor: list[Any] | None, limit: int) -> Page:
    place = None if cursor is None else EpisodeCursor(*cursor)
    found = queries.episode_list(context, cursor=place, limit=limit)
    onward = None if found.onward is None else list(found.onward)
    return Page([as_plain(row) for row in found.rows], onward)


def _evaluations(context: Context, cursor: list[int] | None, limit: int) -> Page:
    before = None if cursor is None else cursor[0]
    found = queries.seen_evaluations(context, EvaluationFilter(), before=before, limit=limit)
    onward = None if found.onward is None else [found.onward]
    return Page(documents.evaluations(context, found.rows), onward)


def _acts(context: Context, cursor: list[int] | None, limit: int) -> Page:
    return _entries(queries.acts(context, before=None if cursor is None else cursor[0], limit=limit))


def _audit(context: Context, cursor: list[int] | None, limit: int) -> Page:
    return _entries(audit(context, before=None if cursor is None else cursor[0], limit=limit))


def _traces(context: Context, cursor: list[str] | None, limit: int) -> Page:
    every = traces(context)
    known = [one.trace for one in every]
    begin = known.index(cursor[0]) + 1 if cursor is not None and cursor[0] in known else 0
    rows = every[begin : begin + limit]
    onward = [rows[-1].trace] if begin + limit < len(every) else None
    return Page([as_plain(one) for one in rows], onward)


def _rollouts(context: Context, cursor: list[str] | None, limit: int) -> Page:
    every = rollouts(context)
    known = [one.rollout for one in every]
    begin = known.index(cursor[0]) + 1 if cursor is not None and cursor[0] in known else 0
    rows = every[begin : begin + limit]
    return Page([as_plain(one) for one in rows], [rows[-1].rollout] if begin + limit < len(every) else None)


def _entries(found: AuditPage) -> Page:
    return Page([as_plain(entry) for entry in found.entries], None if found.next is None else [found.next])


def _learners(desk: Desk, actor: Actor, call: Call) -> Answer:
    known_fields(call, "limit", "cursor")
    asked, cursor, limit = verb("learners"), _cursor(call, (str,)), _limit(call)
    context = desk.whole(actor)
    rest = [one for one in asked.call(context, Input()) if cursor is None or one.name > cursor[0]]
    onward = [rest[limit - 1].name] if len(rest) > limit else None
    return told(200, _told_page(Page(cast("list[object]", asked.plain(context, rest[:limit])), onward)))


# What is no verb, or more than one


def _version(desk: Desk, actor: Actor, call: Call) -> Answer:  # noqa: ARG001 - a handler
    return told(200, {"name": "armscope", "version": __version__})


def _health(desk: Desk, actor: Actor, call: Call) -> Answer:  # noqa: ARG001 - a handler
    """Whether the database can be read; raises what keeps it from that."""
    with desk.store.reading(desk.whole(actor).learner):
        return told(200, {"ok": True, "version": __version__})


def _record(desk: Desk, actor: Actor, call: Call) -> Answer:
    """A run as the verb has it, or as our own lines have it."""
    sent = document(call.body)
    asked, context = verb("record"), desk.context(actor, call.path_values["name"])
    if isinstance(sent, dict) and sent.get("kind") == "run":
        given = asked.input(run=SentRuns().run(call.body))
    else:
        given = asked_with(asked, call)
    return told(200, asked.plain(context, asked.call(context, given)))


def _reward(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Of one arm; without one, of every arm of the run."""
    sent = document(call.body)
    is_whole = isinstance(sent, dict) and "arm" not in sent and "run" in sent
    return _of_verb("reward_run" if is_whole else "reward")(desk, actor, call)


def _reward_batch(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Rewards line by line, each by itself."""
    context = desk.context(actor, call.path_values["name"])
    return _told_lines(reward_lines(context, lines_of(call.pieces), call.headers.get("idempotency-key")))


def _run_batch(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Runs line by line, each by itself."""
    context = desk.context(actor, call.path_values["name"])
    return _told_lines(run_lines(context, lines_of(call.pieces)))


def _told_lines(results: Iterator[Mapping[str, object]]) -> Answer:
    """Results, a line each; told when all was heard, for who reads nothing before all is sent would wait for ever."""
    spooled = SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115 - closed when it was sent
    try:
        for result in results:
            spooled.write(document_bytes(result) + b"\n")
    except BaseException:
        spooled.close()
        raise
    return Answer(207, b"", {"content-type": NDJSON}, pieces=_pieces(spooled))


def _pieces(spooled: SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    with spooled:
        spooled.seek(0)
        while piece := spooled.read(_PIECE):
            yield piece


def _export(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Everything, all of one moment."""
    known_fields(call, "format")
    form = call.query.get("format", "jsonl")
    if form not in EXPORT_FORMATS:
        raise InvalidInput(
            f"format must be one of {', '.join(EXPORT_FORMATS)}, got another.",
            next_step="Choose one of them.",
        )
    spooled = SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115 - closed when it was sent
    try:
        context = desk.context(actor, call.path_values["name"])
        export_into(context, cast("IO[bytes]", spooled), "-", form)
    except BaseException:
        spooled.close()
        raise
    return Answer(200, b"", {"content-type": _MEDIA[form]}, pieces=_pieces(spooled))


def _timeseries(desk: Desk, actor: Actor, call: Call) -> Answer:
    known_fields(call, "metric", "window")
    context = desk.context(actor, call.path_values["name"])
    metric, window = call.query.get("metric", "tokens"), call.query.get("window", "1d")

    def points() -> object:
        found = queries.timeseries(context, cast("queries.Metric", metric), cast("queries.Window", window))
        return {"metric": metric, "window": window, "points": as_plain(found)}

    return of_moment(context, call, points)


def _savings(desk: Desk, actor: Actor, call: Call) -> Answer:
    known_fields(call)
    context = desk.context(actor, call.path_values["name"])
    return of_moment(context, call, lambda: documents.savings(context, queries.savings(context)))


def _verify(desk: Desk, actor: Actor, call: Call) -> Answer:
    known_fields(call)
    asked, context = verb("verify"), desk.whole(actor)
    authorise(actor, asked.action, None)  # it names every learner there is
    return told(200, asked.plain(context, asked.call(context, asked.decode({}))))


def _preview_reset(desk: Desk, actor: Actor, call: Call) -> Answer:
    """What a reset would change."""
    asked, context = verb("reset"), desk.context(actor, call.path_values["name"])
    context.permit(asked.action)
    given = cast("Any", asked_with(asked, call))
    found = queries.preview_reset(context, arms=given.arms, types=given.types, target=given.target)
    return told(
        200,
        {
            "learner": context.learner,
            "scope": found.scope,
            "to": found.target,
            "reset_count": len(found.columns),
            "arm_ids": found.columns.keys,
            "pulls": found.columns.n_pulls,
        },
    )


def _preview_credit(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Whom an episode's credit would move, those that move most first."""
    asked, context = verb("credit_episode"), desk.context(actor, call.path_values["name"])
    context.permit(asked.action)
    given = cast("Any", asked_with(asked, call))
    return told(200, as_plain(queries.preview_credit(context, given.uid, given.rule)))


# The table


def _row(method: str, path: str, handler: Handler, told: Told, *, action: Action | None = None) -> Row:
    """A route under a learner; it needs what its verb needs, where it is of one."""
    needs = action or ("read" if told.verb is None else told.verb.action)
    streams = path.endswith(":batch")
    takes = (NDJSON, "application/jsonl") if streams else (JSON,)
    return Row(Route((method,), f"{AT_LEARNER}/{path}", needs, handler, takes=takes, streams=streams), told)


def _act(path: str, name: str, method: str = "POST", bound: Mapping[str, str] = {}) -> Row:
    """A verb that is asked by a body; ``bound`` are its fields that the path says, by the path's names."""
    return _row(method, path, _of_verb(name, bound), Told(verb=verb(name), unsaid=frozenset(bound)))


def _look(path: str, name: str, bound: Mapping[str, str] = {}) -> Row:
    """A verb that only looks, and is asked with nothing but what the path says."""
    return _row("GET", path, _shown(name, bound), _said(name))


def _list(path: str, handler: Handler, words: str) -> Row:
    return _row("GET", path, handler, Told(words=words, is_list=True), action="read")


def _said(name: str) -> Told:
    """A verb's words without its input, which is no body here."""
    return Told(words=verb(name).words)


def _plain(path: str, handler: Handler, words: str, *, public: bool = False, is_list: bool = False) -> Row:
    return Row(Route(("GET",), path, "read", handler, public=public), Told(words=words, is_list=is_list))


_FORMAT: Final = {"format": {"type": "string", "enum": list(EXPORT_FORMATS), "default": "jsonl"}}
_SERIES: Final = {
    "metric": {"type": "string", "enum": list(queries.METRICS), "default": "tokens"},
    "window": {"type": "string", "enum": list(queries.WINDOWS), "default": "1d"},
}
_PAIRED: Final = {"paired": {"type": "boolean", "default": True}}
_PAID: Final = {"environment": {"type": "string"}, "model": {"type": "string"}}
ROWS: Final = (
    _plain("/healthz", _health, "Whether the database can be read.", public=True),
    _plain(f"{ROOT}/health", _health, "Whether the database can be read."),
    _plain(f"{ROOT}/version", _version, "Which version answers."),
    _plain(f"{ROOT}/verify", _verify, verb("verify").words),
    _plain(f"{ROOT}/learners", _learners, verb("learners").words, is_list=True),
    _look("status", "status"),
    _look("settings", "settings"),
    _list("traces", _listed(_traces, str), verb("traces").words),
    _list("rollouts", _listed(_rollouts, str), verb("rollouts").words),
    _look("agreement", "agreement"),
    _look("runs/{uid}", "run", {"name": "uid"}),
    _list("environments/{environment}/findings", _findings, verb("lint").words),
    _row(
        "GET", "environments/{environment}/models", _models, Told(words=verb("compare").words, query=_PAIRED)
    ),
    _look("episodes/{episode}", "episode", {"uid": "episode"}),
    _list("episodes", _listed(_episodes, (int, type(None)), int), verb("episode_list").words),
    _list("posteriors", _listed(_by_arm("posteriors"), str), verb("posteriors").words),
    _list("arms", _listed(_by_arm("arms"), str), verb("arms").words),
    _list("runs", _listed(_runs, (int, type(None)), int), verb("runs").words),
    _list("evaluations", _listed(_evaluations, int), verb("evaluations").words),
    _list("acts", _listed(_acts, int), "Who changed what, the latest first."),
    _row("GET", "audit", _listed(_audit, int), Told(words="Who did what.", is_list=True), action="members"),
    _row("GET", "environments", _environments, Told(words=verb("episodes").words, is_list=True, query=_PAID)),
    _row("GET", "timeseries", _timeseries, Told(words="A figure window by window.", query=_SERIES)),
    _row("GET", "savings", _savings, Told(words="Baseline against selected runs.")),
    _row(
        "GET",
        "export",
        _export,
        Told(words=verb("export").words, query=_FORMAT, answers=tuple(_MEDIA.values())),
    ),
    _act("select", "select"),
    _row("POST", "runs", _record, Told(verb=verb("record"))),
    _row("POST", "runs:batch", _run_batch, Told(words="Record runs, a line each."), action="ingest"),
    _act("steps", "record_step"),
    _act("episodes:incomplete", "mark_incomplete"),
    _act("scales", "declare"),
    _act("credits", "credit_episode"),
    _row(
        "POST",
        "credits:preview",
        _preview_credit,
        Told(verb=verb("credit_episode"), words="Whom an episode's credit would move; it moves nobody."),
    ),
    _row("POST", "rewards", _reward, Told(verb=verb("reward"))),
    _row("POST", "rewards:batch", _reward_batch, Told(words="Give rewards, a line each."), action="reward"),
    _act("rewards:together", "reward_batch"),
    _act("notes", "note"),
    _act("evaluations", "evaluate"),
    _act("resets", "reset"),
    _row(
        "POST",
        "resets:preview",
        _preview_reset,
        Told(verb=verb("reset"), words="What a reset would change; nothing is."),
    ),
    _act("undo", "undo"),
    _act("redo", "redo"),
    _act("settings/{setting}", "change", "PUT", {"name": "setting"}),
)
