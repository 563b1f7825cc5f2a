"""Log of a server on standard error: a line for each request, act and fault.

A line holds names that the program or its operator chose, and numbers. It holds no texts, arms, ids of runs, queries
or secrets. So of an exception it has the type and the code path, and of a message the constant part. A thread of its
own writes, because a terminal or pipe that takes nothing would stop every request. Lines beyond `MOST_WAITING` are
dropped and counted.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from queue import Queue
from threading import Event, Thread
from typing import Any, Final, TypeVar

from core.errors import ArmscopeError
from core.flows.context import Context
from core.records.actor import OF_INSTALLATION, Action
from core.records.times import iso
from core.settings import LogFormat, LogLevel

Fields = Mapping[str, str | int | float | None]
MOST_WAITING: Final = 10_000
"""Lines that wait to be written."""
_LAST_S: Final = 1.0
"""Seconds in which the lines that wait are written at the end."""
_PAUSE_S: Final = 0.05
_MOST_FRAMES: Final = 12
_LOG: Final = logging.getLogger("armscope")
_OURS: Final = re.compile(r"(armscope|dashboard)(\..*)?")
_CONSTANT: Final = re.compile(r"(armscope|dashboard|uvicorn)(\..*)?")
"""Loggers whose messages are constants before their arguments are filled in."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./{}:*+-]+")
_T = TypeVar("_T")


class LogWriter(logging.Handler):
    """Writes records to a file descriptor (None: nowhere), in a thread of its own."""

    def __init__(self, descriptor: int | None, *, form: LogFormat) -> None:
        super().__init__()
        self.n_lost = 0
        self._descriptor = descriptor
        self._as_line = _as_json if form == "json" else _as_text
        self._lines: Queue[str] = Queue(MOST_WAITING)
        self._pause = Event()
        self._n_reported = 0
        if descriptor is not None:
            Thread(target=self._run, args=[descriptor], name="armscope-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record; a line that can't be made or queued is counted."""
        is_heard = record.levelno >= logging.WARNING or _OURS.fullmatch(record.name)
        if self._descriptor is None or not is_heard:
            return
        try:
            self._lines.put_nowait(self._as_line(fields_of(record)))
        except Exception:  # a log must stop nothing
            self.n_lost += 1

    def close(self) -> None:
        """Wait for the lines that were queued, for a second at most."""
        deadline = time.monotonic() + _LAST_S
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(_PAUSE_S / 10)
        super().close()

    def _run(self, descriptor: int) -> None:
        while True:
            self._write(descriptor, self._lines.get())
            if self.n_lost > self._n_reported and self._lines.empty():
                n_lost, self._n_reported = self.n_lost - self._n_reported, self.n_lost
                fields = _head(time.time(), "warning", "lines lost") | {"lines": n_lost}
                self._write(descriptor, self._as_line(fields))
            self._lines.task_done()

    def _write(self, descriptor: int, line: str) -> None:
        rest = f"{line}\n".encode("ascii", "backslashreplace")
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                self._pause.wait(_PAUSE_S)
            except OSError:
                self.n_lost += 1
                return


def start_log(form: LogFormat, level: LogLevel) -> LogWriter:
    """Send the log of this process to standard error, and return what writes it."""
    try:
        # A copy, because a later file could get the number of a closed one.
        descriptor = None if sys.stderr is None else os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        descriptor = None
    writer = LogWriter(descriptor, form=form)
    logging.root.handlers[:] = [writer]
    logging.root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()]))
    _LOG.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    return writer


def n_lost_lines() -> int:
    """Return how many lines this process could not write."""
    return sum(one.n_lost for one in logging.root.handlers if isinstance(one, LogWriter))


def log(level: int, event: str, fields: Fields) -> None:
    """Log an event with its fields; None = left out."""
    if _LOG.isEnabledFor(level):
        _LOG.log(level, event, extra={"fields": fields})


def acting(source: str) -> Callable[[Context, Action, Callable[[], _T]], _T]:
    """Return a `Context.on_act` that logs each act of a source, such as pages."""

    def act(context: Context, action: Action, work: Callable[[], _T]) -> _T:
        began, result, level = time.perf_counter(), "ok", logging.INFO
        try:
            return work()
        except BaseException as problem:
            result, level = getattr(problem, "code", "fault"), logging.WARNING
            raise
        finally:
            ms = round((time.perf_counter() - began) * 1000, 1)
            learner = None if action in OF_INSTALLATION else context.learner
            log(
                level,
                "act",
                {"act": action, "source": source, "result": result, "ms": ms, "learner": learner},
            )

    return act


# Lines


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record's line."""
    fields: dict[str, Any] = _head(record.created, record.levelname.lower(), "message")
    own = getattr(record, "fields", None)
    if own is not None:
        fields |= {"event": record.msg, **{name: value for name, value in own.items() if value is not None}}
    else:
        is_constant = _CONSTANT.fullmatch(record.name) is not None
        fields |= {"logger": record.name, "at": f"{_short(record.pathname)}:{record.lineno}"}
        fields |= {"message": str(record.msg).partition("\n")[0]} if is_constant else {}
    if record.exc_info and record.exc_info[1] is not None:
        fields |= _of_problem(record.exc_info[1])
    return fields


def _head(seconds: float, level: str, event: str) -> dict[str, Any]:
    return {"time": iso(int(seconds * 1000)), "level": level, "event": event}


def _of_problem(problem: BaseException) -> dict[str, Any]:
    """Return the types of an exception and of its causes, and the code path; its message may hold texts."""
    kinds: list[str] = []
    one: BaseException | None = problem
    while one is not None and len(kinds) < _MOST_FRAMES:
        kinds.append(one.code if isinstance(one, ArmscopeError) else type(one).__qualname__)
        one = one.__cause__ or one.__context__
    frames = traceback.extract_tb(problem.__traceback__)[-_MOST_FRAMES:]
    path = (f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)
    return {"error": " < ".join(kinds), "path": " > ".join(path)}


def _short(path: str) -> str:
    return "/".join(path.replace(os.sep, "/").split("/")[-3:])


def _as_json(fields: Mapping[str, Any]) -> str:
    """Return a line of JSON; other characters than printable ASCII are escaped."""
    return json.dumps(fields).replace("\x7f", "\\u007f")


def _as_text(fields: Mapping[str, Any]) -> str:
    r"""Return a line of time, level and event, then the others by name; values with other characters are escaped.

    >>> _as_text({"time": "T", "level": "info", "event": "lines lost", "learner": "a\nb", "ms": 2})
    'T info lines_lost learner="a\\nb" ms=2'
    """
    (_, at), (_, level), (_, event), *rest = fields.items()
    named = (f"{name}={_plain(str(value))}" for name, value in rest)
    return " ".join([at, level, _plain(event.replace(" ", "_")), *named])


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text).replace("\x7f", "\\u007f")
