"""Open files: closed pages keep no more than the system allows, and a lack of handles is logged once a minute."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import resource
import threading
import weakref
from types import SimpleNamespace
from typing import Any, cast

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.memory_session_storage import MemorySessionStorage

from core.doors.http.connections import raise_limit
from dashboard.open_files import DRAWING, OncePerMinute, Owners, Person, give_back, keep_sessions


def record_of(problem: BaseException | None, said: str = "accept failed") -> logging.LogRecord:
    found = None if problem is None else (type(problem), problem, None)
    return logging.LogRecord("asyncio", logging.ERROR, __file__, 1, said, (), found)


def test_streamlit_keeps_no_more_sessions_than_it_is_told() -> None:
    """Should Streamlit keep them otherwise some day, this says that nothing bounds them any more."""
    storage = MemorySessionStorage()
    kept = storage._cache
    keep_sessions(storage, 128)  # Streamlit's own number, so the cache stays
    assert storage._cache is kept
    keep_sessions(storage, 3)
    assert getattr(storage._cache, "maxsize", None) == 3
    assert getattr(storage._cache, "ttl", None) == getattr(kept, "ttl", 0)
    keep_sessions(object(), 3)


def test_a_lack_of_file_handles_is_logged_once_a_minute_with_its_number() -> None:
    now_s = 0.0
    quiet = OncePerMinute(clock=lambda: now_s)
    told = []
    for second in range(0, 130, 10):
        now_s = float(second)
        wrapped = RuntimeError("no page")
        wrapped.__cause__ = OSError(errno.EMFILE, "Too many open files")
        for problem in (OSError(errno.EMFILE, "Too many open files"), wrapped):
            record = record_of(problem)
            if quiet.filter(record):
                told.append((second, record.getMessage().partition(" times")[0], record.exc_info))
    assert told == [
        (0, "no file handles are left (1", None),
        (60, "no file handles are left (12", None),
        (120, "no file handles are left (12", None),
    ]


@pytest.mark.parametrize("problem", [None, ValueError("bad"), OSError(errno.ECONNRESET, "gone")])
def test_everything_else_is_logged_as_before(problem: BaseException | None) -> None:
    quiet = OncePerMinute()
    assert all(quiet.filter(record_of(problem)) for _ in range(3))


def test_the_soft_limit_becomes_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 200), before[1]))
        assert raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_closed_session_goes_when_its_time_is_up_with_no_other_page_to_close() -> None:
    class Session:
        """A session in a reference cycle, as Streamlit's are."""

        def __init__(self) -> None:
            self.id, self.own = "s", self

    async def gone() -> None:
        storage, session = MemorySessionStorage(ttl_seconds=0), Session()
        ended = threading.Event()
        weakref.finalize(session, ended.set)
        storage._cache = type(storage._cache)(maxsize=9, ttl=0.05)  # type: ignore[call-arg]
        storage.save(cast("Any", SimpleNamespace(session=session)))
        del session
        giving_back = asyncio.create_task(give_back(storage, 0.02))
        while not ended.is_set():
            await asyncio.sleep(0.01)
        giving_back.cancel()

    asyncio.run(asyncio.wait_for(gone(), 20))


def test_streamlits_files_are_those_of_the_page_that_made_them() -> None:
    """Should Streamlit make files otherwise some day, this says that nothing guards them any more."""
    ada, bo = ("https://id.example", "ada"), ("https://id.example", "bo")
    here: list[Person | None] = [ada]
    owners, manager = Owners(), MediaFileManager(MemoryMediaFileStorage("/media"))
    owners.watch(manager, lambda: here[0])
    drawn = manager.add(b"drawn", "text/plain", "1")
    offered = manager.add_deferred(lambda: io.BytesIO(b"made"), "text/plain", "2")
    here[0] = None  # it is made in a thread that draws no page
    made = manager.execute_deferred(offered)
    assert [owners.has(file, ada) for file in (drawn, made)] == [True, True]
    assert [owners.has(file, bo) for file in (drawn, made, "/media/x.txt", "")] == [False] * 4
    here[0] = bo
    assert manager.add(b"drawn", "text/plain", "3") == drawn
    assert [owners.has(drawn, one) for one in (ada, bo, None)] == [True, True, False]


def test_few_pages_are_drawn_at_one_time() -> None:
    taken = [DRAWING.acquire(blocking=False) for _ in range(20)]
    for one in taken:
        if one:
            DRAWING.release()
    assert sum(taken) == 8  # the pages that `DRAWING` lets through; no other test may draw meanwhile
