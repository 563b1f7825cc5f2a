"""Client: a learner of a server over HTTP, with the operations, answers and errors of `Learner`.

>>> client = Client("http://127.0.0.1:8502", token="arms_…", learner="support")
>>> client.name
'support'
>>> client.close()
"""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from random import SystemRandom
from tempfile import TemporaryFile
from typing import IO, Any, Final, ParamSpec, TypeVar
from urllib.parse import quote, unquote, urlencode
from urllib.request import getproxies, proxy_bypass

import msgspec
import urllib3
from msgspec import NODEFAULT
from urllib3.util import Retry, Timeout, parse_url

from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.attempts import Limits
from core.doors.flow_parameters import parameters_of
from core.doors.http.address import is_loopback
from core.doors.http.refusals import TooMany
from core.doors.protocol import ImportOptions, LearnerProtocol, TrainingRequest, recorded
from core.doors.threads import Threads
from core.doors.verbs import RECORDS, Verb, Verbs, outside
from core.errors import (
    ArmscopeError,
    Closed,
    InvalidBatch,
    InvalidInput,
    NotApplicable,
    StoreError,
    TimedOut,
    UnreadableSource,
)
from core.flows.new_file import new_file, observations_file
from core.records.answers import BackupAnswer, ExportAnswer, RecordAnswer
from core.records.import_answer import ImportAnswer
from core.records.parameters import ExportFormat
from core.records.run import Run
from core.records.training import MANIFEST_END, TrainingAnswer, TrainingManifest
from core.settings import DEFAULT_LEARNER, seconds
from core.spool import Spool

_P = ParamSpec("_P")
_T = TypeVar("_T")
_RETRIES: Final = 5
_READ_CONNECTS: Final = 3
"""Repeats of a read that gets no connection: enough for a restart, and soon over."""
_BACKOFF_S: Final = 0.2
_RANDOM: Final = SystemRandom()
_RETRIED: Final = (429, 502, 503, 504)
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 120.0
_FILE_S: Final = 3_600.0
"""Timeout of an import, and of the start of an answer that is a file."""
_PIECE_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 32 << 20
_MOST_S: Final = 30.0
"""Limits of an answer that an agent waits for."""
_NDJSON: Final = "application/x-ndjson"


class Unreachable(StoreError):
    """Error: no server answers, or the server is not armscope."""

    code = "unreachable"


class Client(LearnerProtocol):
    """A learner of a server, with the operations of `LearnerProtocol`. Safe to share between threads.

    The client sends a failed request again, up to five times, with pauses. Each time the request has the same uid or
    key, so the server counts it once. If the caller gives no key, the client makes one.

    A request of `run` has three limits in seconds: ``connect_s`` (default .3) for the connection, ``select_s`` (1)
    for the selection and ``record_s`` (.5) for the record. A run that can't be recorded waits in the folder
    ``spool``. A method that reads, such as `status`, raises `Unreachable` after ``read_s`` (120) seconds. If the
    server refuses connections, it raises within 3 seconds.

    ``proxy`` is the address of an HTTP proxy, "" = none. Without it the usual variables ``HTTPS_PROXY``,
    ``HTTP_PROXY`` and ``NO_PROXY`` hold. ``ca`` is a file of certificates to trust in place of the system's.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        learner: str = DEFAULT_LEARNER,
        connect_s: float | None = None,
        select_s: float | None = None,
        record_s: float | None = None,
        read_s: float | None = None,
        spool: str | Path | None = None,
        proxy: str | None = None,
        ca: str | Path | None = None,
    ) -> None:
        limits = Limits.of(connect_s=connect_s, select_s=select_s, record_s=record_s)
        _check_address(url)
        self._read_s = seconds("ARMSCOPE_READ_S", read_s, _ANSWER_S)
        self._readers = Threads()
        kept = Spool.of_server(url, learner, parent=None if spool is None else Path(spool))
        super().__init__(learner, limits, kept)
        self._limited = threading.local()
        self._root = f"{url.rstrip('/')}/api/v1"
        self._base = f"{self._root}/learners/{quote(learner, safe='')}"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._proxy = _proxy_to(self._root) if proxy is None else proxy
        self._ca = _certificates(ca)
        self._connect()

    def _connect(self) -> None:
        timeout = Timeout(connect=_CONNECT_S, read=_ANSWER_S)
        if self._proxy:
            self._pool: urllib3.PoolManager = _through(self._proxy, timeout, self._ca)
        else:
            self._pool = urllib3.PoolManager(maxsize=16, timeout=timeout, ca_certs=self._ca)
        self._process = os.getpid()

    def _release(self) -> None:
        self._pool.clear()

    def _location(self) -> str:
        return parse_url(self._root.removesuffix("/api/v1"))._replace(auth=None).url

    def _call(self, operation: Verb[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not operation.route:
            raise NotApplicable(
                f"A verb must have a route at the server, got {operation.name} without one; nothing was done.",
                next_step="Call it where the database is: open_learner(PATH), or its command.",
            )
        parameters = parameters_of(operation.address)
        values: dict[str, object] = {**dict(zip(parameters, args, strict=False)), **kwargs}
        if "key" in parameters and values.get("key") is None:
            values["key"] = str(uuid.uuid4())
        path = operation.route
        for name, at in operation.bound.items():
            path = path.replace(f"{{{at}}}", quote(str(values.pop(name)), safe=""))
        fields = {
            outside(name): value
            for name, value in values.items()
            if value is not None or parameters[name].default is NODEFAULT
        }
        if path.startswith(RECORDS):
            query = f"?{urlencode({'input': msgspec.json.encode(fields).decode()})}" if fields else ""
            return self._decoded(self._read(path + query), operation.answer, of_record=True)
        method = "PUT" if operation.bound else "POST"
        return self._decoded(self._answer(method, path, msgspec.json.encode(fields)), operation.answer)

    def _decoded(self, answer: bytes, kind: type[_T], *, of_record: bool = False) -> _T:
        with self._of_armscope():
            held = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])["record"] if of_record else answer
            return msgspec.json.decode(held, type=kind, dec_hook=_array)

    @contextmanager
    def _of_armscope(self) -> Iterator[None]:
        """Raise `Unreachable` where an answer can't be armscope's."""
        try:
            yield
        except ArmscopeError:
            raise
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as problem:
            raise Unreachable(
                f"The server at {self._location()} must be armscope, got an answer of another program.",
                next_step="Check its address, and whether a proxy answers in its place.",
            ) from problem

    def _read(self, path: str) -> bytes:
        """Return the answer of a report, in limited time also where it arrives byte by byte."""
        if self._is_closed or getattr(self._limited, "timeout", None) is not None:
            return self._answer("GET", path)
        try:
            return self._readers.call(lambda: self._answer("GET", path), self._read_s)
        except TimedOut:
            raise Unreachable(
                f"The server at {self._location()} must answer within {self._read_s:g} s, got no answer in time.",
                next_step="Check that it runs, or allow more time with read_s.",
            ) from None

    @contextmanager
    def _within(self, connect_s: float, answer_s: float) -> Iterator[None]:
        self._limited.timeout = Timeout(connect=connect_s, read=answer_s)
        try:
            yield
        finally:
            self._limited.timeout = None

    def _send(self, body: bytes) -> RecordAnswer:
        return self._decoded(self._answer("POST", Verbs.record.route, body), RecordAnswer)

    def _record_runs(self, runs: Sequence[Run]) -> list[RecordAnswer]:
        body = b"".join(msgspec.json.encode({"run": run}) + b"\n" for run in runs)
        answer = self._answer("POST", "runs:batch", body, content_type=_NDJSON)
        with self._of_armscope():
            lines = [msgspec.json.decode(line) for line in answer.splitlines()]
            bad = {line["line"]: error_of(line) for line in lines if not line["ok"]}
            answers = [bad.get(line["line"]) or msgspec.convert(line, RecordAnswer) for line in lines]
            if len(answers) != len(runs):
                raise ValueError(len(answers))
        return recorded(answers, bad)

    # Files, which are here and not at the server

    def _import(self, paths: Sequence[Path], options: ImportOptions) -> ImportAnswer:
        tools_file = options["tools_file"]
        with TemporaryFile() as body:
            n_tools = 0 if tools_file is None else body.write(_content(tools_file))
            fields: dict[str, object] = {
                **options,
                "file": _pack(paths, body),
                "tools_bytes": n_tools or None,
                "tools_file": None,
                **{name: "true" if options[name] else None for name in ("each_event", "replace", "preview")},
            }
            query = urlencode({key: value for key, value in fields.items() if value is not None})
            length = body.tell()
            body.seek(0)
            answer = self._answer(
                "POST",
                f"imports?{query}",
                body,
                content_type="application/octet-stream",
                length=length,
                answer_s=_FILE_S,
            )
        return self._decoded(answer, ImportAnswer)

    def _export(self, file: Path, format: ExportFormat) -> ExportAnswer:
        beside = observations_file(file) if format == "csv" else None
        with self._of_armscope(), ExitStack() as files:
            opened = files.enter_context(new_file(file))
            second = None if beside is None else files.enter_context(new_file(beside))
            url = f"{self._base}/records/export?{urlencode({'format': format})}"
            response = files.enter_context(self._streamed("GET", url))
            answer = msgspec.json.decode(_first(response, "first"), type=ExportAnswer)
            if second is not None:
                second.write(_first(response, "second"))
            shutil.copyfileobj(response, opened, _PIECE_BYTES)
        return msgspec.structs.replace(
            answer, file=str(file), observations_file=None if beside is None else str(beside)
        )

    def _train(self, file: Path, request: TrainingRequest, *, manifest: bool) -> TrainingAnswer:
        beside = file.with_name(file.name + MANIFEST_END) if manifest else None
        body = msgspec.json.encode({**request, "manifest": True})
        with self._of_armscope(), ExitStack() as files:
            second = None if beside is None else files.enter_context(new_file(beside))
            opened = files.enter_context(new_file(file))
            response = files.enter_context(self._streamed("POST", f"{self._base}/training", body))
            content = msgspec.json.decode(_first(response, "first"), type=TrainingManifest)
            content = msgspec.structs.replace(content, file=file.name)
            shutil.copyfileobj(response, opened, _PIECE_BYTES)
            if second is not None:
                second.write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        name = None if beside is None else str(beside)
        return TrainingAnswer(file=str(file), rows=content.rows, manifest_file=name, manifest=content)

    def _backup(self, file: Path) -> BackupAnswer:
        backup = self._streamed("GET", f"{self._root}/backup")
        with self._of_armscope(), new_file(file) as opened, backup as response:
            shutil.copyfileobj(response, opened, _PIECE_BYTES)
            revision = int(response.headers["etag"].strip('"'))
            heads = msgspec.json.decode(
                unquote(response.headers.get("armscope-heads", "{}")), type=dict[str, str]
            )
            damage = response.headers.get("armscope-damage")
        return BackupAnswer(
            file=str(file),
            size_bytes=file.stat().st_size,
            revision=revision,
            heads=heads,
            damage=None if damage is None else unquote(damage),
        )

    # Requests

    def _answer(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None = None,
        *,
        content_type: str = "application/json",
        length: int | None = None,
        answer_s: float = _ANSWER_S,
    ) -> bytes:
        headers = {} if body is None else {"Content-Type": content_type}
        if length is not None:
            headers["Content-Length"] = str(length)
        url = f"{self._base}/{path}"
        if getattr(self._limited, "timeout", None) is None:
            answer = self._response(method, url, body, headers, preload=True, answer_s=answer_s)
            content = answer.data
        else:  # an agent waits no longer after its limit, so the answer itself must end, too
            headers["Accept-Encoding"] = "identity"
            answer = self._response(method, url, body, headers, preload=False, answer_s=answer_s)
            content = self._bounded(answer)
        _check(answer.status, answer.headers.get("content-type"), content, self._location())
        return content

    def _bounded(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        """Return the content of an answer, without decompressing it; a connection that sends too much is closed."""
        content = bytearray()
        until = time.monotonic() + _MOST_S
        try:
            while piece := answer.read(_PIECE_BYTES, decode_content=False):
                content += piece
                if len(content) > _MOST_BYTES or time.monotonic() > until:
                    answer.close()
                    raise Unreachable(
                        f"An answer must end within {_MOST_BYTES >> 20} MiB and {_MOST_S:g} s, got a longer one.",
                        next_step=f"Check that {self._location()} is the address of armscope.",
                    )
        except urllib3.exceptions.HTTPError as problem:
            raise Unreachable(
                f"The answer must be complete, got a part of it: {type(problem).__name__}.",
                next_step="A repeat under the same uid or key counts once.",
            ) from problem
        answer.release_conn()
        return bytes(content)

    @contextmanager
    def _streamed(
        self, method: str, url: str, body: bytes | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Yield an answer that is read in pieces."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        answer = self._response(method, url, body, headers, preload=False, answer_s=_FILE_S)
        try:
            error = answer.data if answer.status != 200 else b""
            _check(answer.status, answer.headers.get("content-type"), error, self._location())
            yield answer
        except urllib3.exceptions.HTTPError as problem:
            raise Unreachable(
                f"The answer must be complete, got a part of it: {type(problem).__name__}.",
                next_step="Send the request again; no part of the answer was kept.",
            ) from problem
        finally:
            answer.release_conn()

    def _response(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes] | None,
        headers: Mapping[str, str],
        *,
        preload: bool,
        answer_s: float,
    ) -> urllib3.BaseHTTPResponse:
        if self._is_closed:
            raise Closed(
                f"Client of learner {self._name!r} is closed; nothing was done.",
                next_step="Make another Client, or do this inside its with block.",
            )
        if self._process != os.getpid():  # in a child made by fork, where the sockets are still the parent's
            self._connect()
        limited: Timeout | None = getattr(self._limited, "timeout", None)
        retry = _Retry(
            total=_RETRIES if limited is None else 0,
            connect=_READ_CONNECTS if method == "GET" else None,
            redirect=False,
            status_forcelist=_RETRIED,
            allowed_methods=None,
            backoff_factor=_BACKOFF_S,
            raise_on_status=False,
        )
        try:
            return self._pool.request(
                method,
                url,
                body=body,
                headers={**self._headers, **headers},
                retries=retry,
                redirect=False,
                preload_content=preload,
                timeout=limited or Timeout(connect=_CONNECT_S, read=answer_s),
            )
        except urllib3.exceptions.HTTPError as problem:
            raise Unreachable(
                f"The server at {self._location()} must answer, got no answer: {_cause(problem)}.",
                next_step="Check its address, and that it runs; a repeat under the same uid or key counts once.",
            ) from problem


class _Retry(Retry):
    """Repeats after pauses that vary. Their random numbers are not the agent's, which may have seeded Python's."""

    def get_backoff_time(self) -> float:
        pause_s = super().get_backoff_time()
        return pause_s + _BACKOFF_S * _RANDOM.random() if pause_s else 0.0


class AsyncClient(AsyncLearnerProtocol):
    """`Client` with every operation awaited: the same parameters, answers and errors.

    >>> import asyncio
    >>> async def name():
    ...     async with AsyncClient("http://127.0.0.1:8502", token="arms_…", learner="support") as client:
    ...         return client.name
    >>> asyncio.run(name())
    'support'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        learner: str = DEFAULT_LEARNER,
        connect_s: float | None = None,
        select_s: float | None = None,
        record_s: float | None = None,
        read_s: float | None = None,
        spool: str | Path | None = None,
        proxy: str | None = None,
        ca: str | Path | None = None,
    ) -> None:
        client = Client(
            url,
            token,
            learner=learner,
            connect_s=connect_s,
            select_s=select_s,
            record_s=record_s,
            read_s=read_s,
            spool=spool,
            proxy=proxy,
            ca=ca,
        )
        super().__init__(client)


def _check_address(url: str) -> None:
    try:
        parts = parse_url(url)
    except urllib3.exceptions.LocationParseError:
        parts = parse_url("")
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise InvalidInput(
            f"The address of a server must begin with http:// or https:// and name a host, got "
            f"{url.rpartition('@')[2]!r}.",
            next_step="Write it as https://armscope.example.com or http://127.0.0.1:8501.",
        )


def _proxy_to(url: str) -> str:
    """Return the proxy that the usual variables name for an address; "" = none, as for this machine itself."""
    parts = parse_url(url)
    host = (parts.host or "").strip("[]")
    if is_loopback(host) or proxy_bypass(host):
        return ""
    known = getproxies()
    return known.get(parts.scheme or "") or known.get("all", "")


def _certificates(ca: str | Path | None) -> str | None:
    if ca is None or Path(ca).is_file():
        return None if ca is None else str(ca)
    raise InvalidInput(
        f"ca must be a file of certificates (PEM), got {str(ca)!r}.",
        next_step="Name the file of your network's root certificate.",
    )


def _through(proxy: str, timeout: Timeout, ca: str | None) -> urllib3.ProxyManager:
    """Return connections through a proxy; a user and password in its address are sent to it."""
    try:
        auth = parse_url(proxy).auth
        headers = None if auth is None else urllib3.make_headers(proxy_basic_auth=unquote(auth))
        return urllib3.ProxyManager(proxy, maxsize=16, timeout=timeout, ca_certs=ca, proxy_headers=headers)
    except (urllib3.exceptions.ProxySchemeUnknown, urllib3.exceptions.LocationParseError, ValueError):
        raise InvalidInput(
            "The address of a proxy must begin with http:// or https://, got another one.",
            next_step="Correct proxy, or the variable HTTPS_PROXY or HTTP_PROXY; NO_PROXY leaves servers out.",
        ) from None


def _cause(problem: urllib3.exceptions.HTTPError) -> str:
    """Return in plain words why a request got no answer."""
    reason: BaseException = getattr(problem, "reason", None) or problem
    if isinstance(reason, urllib3.exceptions.NameResolutionError):
        return "the name of the server is unknown"
    if isinstance(reason, urllib3.exceptions.SSLError):
        return "its certificate is not trusted, or it speaks no TLS"
    system = reason.__cause__
    if isinstance(system, OSError) and system.strerror:
        return system.strerror.lower()
    is_late = isinstance(reason, urllib3.exceptions.TimeoutError)
    return "it took too long" if is_late else "the connection broke"


def _array(kind: type, value: object) -> object:
    """Return an array for its JSON, a list; null is NaN. Only `Client.savings` returns arrays, and needs NumPy."""
    if kind is object:
        return value
    array: object = resolve_name("core.columns:array_of")(kind, value)
    return array


def _first(response: urllib3.BaseHTTPResponse, part: str) -> bytes:
    """Read a part of an answer whose length is in a header."""
    return response.read(int(response.headers[f"armscope-{part}-bytes"]))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise _unreadable(file, problem) from problem


def _pack(paths: Sequence[Path], body: IO[bytes]) -> str:
    """Write a file, or an archive of several files and folders, and return its name."""
    try:
        if len(paths) == 1 and paths[0].is_file():
            with paths[0].open("rb") as opened:
                shutil.copyfileobj(opened, body)
            return paths[0].name
        with tarfile.open(fileobj=body, mode="w|") as archive:
            for number, path in enumerate(paths):
                archive.add(path, arcname=f"{number}/{path.name}")
    except OSError as problem:
        raise _unreadable(Path(problem.filename or paths[0]), problem) from problem
    return "files.tar"


def _unreadable(file: Path, problem: OSError) -> UnreadableSource:
    return UnreadableSource(
        f"A file must be readable, got {problem.strerror} ({file.name}).",
        next_step="Check its name; nothing was sent.",
    )


def _check(status: int, kind: str | None, body: bytes, address: str) -> None:
    if status < 300:
        return
    try:
        problem = error_of(msgspec.json.decode(body))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        raise Unreachable(
            f"The server at {address} must be armscope, got status {status} and {kind or 'no type'}.",
            next_step="Check its address, and whether a proxy answers in its place.",
        ) from None
    problem.is_answer = True
    raise problem


def error_of(answer: Mapping[str, Any]) -> ArmscopeError:
    """Return the error in a server's answer, of the class with its code.

    >>> answer = {"ok": False, "error": "There is no arm 'x'.", "code": "unknown_arm", "next": "Use another."}
    >>> error_of(answer)
    UnknownArm("There is no arm 'x'.", 'Use another.')
    """
    kind = _by_code(ArmscopeError).get(answer["code"], ArmscopeError)
    problem, next_step = str(answer["error"]), str(answer["next"])
    if issubclass(kind, TooMany):
        return TooMany(problem, next_step=next_step, wait_s=1)
    if issubclass(kind, InvalidBatch):
        lines = {line["line"]: error_of(line) for line in answer.get("lines", ())}
        return InvalidBatch(problem, next_step=next_step, lines=lines)
    return kind(problem, next_step=next_step)


def _by_code(kind: type[ArmscopeError]) -> dict[str, type[ArmscopeError]]:
    kinds = {kind.code: kind}
    for inner in kind.__subclasses__():
        kinds |= _by_code(inner)
    return kinds
