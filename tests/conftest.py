"""What every test can ask for."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from _pytest.doctest import DoctestModule
from filelock import FileLock, Timeout
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from core.flows.context import Context
from core.settings import Located
from tests.engine import Cluster, interrupted, is_asked, redirected, running
from tests.store.postgres import address
from tests.store.recording import shared_library
from tests.turns import N_TURNS, divided, is_of_all, turn_of_commit
from tests.waiting import memory_folder
from tests.worlds import context_at
from tests.worlds.reviewers import Desk, desk_at

# How long an example takes is no law. Fifty a test keep the check short.
settings.register_profile("check", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1_000)
settings.load_profile("check")

ROOT = Path(__file__).resolve().parent.parent
if sys.dont_write_bytecode:
    # Tests start the program hundreds of times, and compiled again each time it takes thrice as long to start. What
    # must not lie beside the sources lies in pytest's own cache, also for the processes that are started.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(ROOT / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SHARED = ROOT.parent / "shared"
VECTORS = Path(os.environ.get("ARMSCOPE_CONFORMANCE") or SHARED) / "vectors"
"""The recorded behaviour of the original systems."""

_COMPILES: Final = "armscope compiles"
_TURN: Final = "armscope turn"
_JOURNEYS: Final = "tests/journeys"
_TOGETHER: Final = {
    _JOURNEYS: _JOURNEYS,
    **dict.fromkeys(("tests/store/test_distribution.py", "tests/store/test_two_engines.py"), "statements"),
    **dict.fromkeys(
        (f"tests/test_{name}.py" for name in ("architecture", "language", "readme", "wording")), "sources"
    ),
}
"""Tests by the beginning of their ids, with the group that one worker runs."""
_PROGRAM: Final = sys.modules["__main__"]
_ORDER: Final = (
    "tests/store",
    _JOURNEYS,
    "tests/doors",
    "tests/demo",
    "tests/recipes",
    "tests/bench",
    "tests/test_",
    "tests/dashboard",
)
"""What takes long goes first, so that no worker is left alone with it at the end."""


class _Doctests:
    """Leaves out files without examples: to look through them took a seventh of finding the tests."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[object], list[object]]:
        nodes = yield
        has_examples = ">>>" in file_path.read_text(encoding="utf-8", errors="replace")
        return [node for node in nodes if has_examples or not isinstance(node, DoctestModule)]


def bytecode_of(folder: Path) -> Path:
    """Where what is compiled of the sources in a folder lies, if it doesn't lie beside them."""
    assert sys.pycache_prefix is not None
    return Path(sys.pycache_prefix, *folder.resolve().parts[1:])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=("sqlite", "postgres", "pooler", "citus"),
        default="sqlite",
        help="what keeps the databases that tests name; a cluster is named by ARMSCOPE_TEST_CITUS",
    )
    parser.addoption(
        "--every-test",
        action="store_true",
        help="run the slow tests of all turns; a folder or file that is named runs all of its tests anyway",
    )


@pytest.fixture(autouse=True, scope="session")
def engine_asked(request: pytest.FixtureRequest) -> Iterator[None]:
    """With ``--engine postgres`` every path names a database of a server."""
    with redirected(request.config) if is_asked(request.config) else nullcontext():
        yield


@pytest.fixture(autouse=True, scope="module")
def databases(request: pytest.FixtureRequest, engine_asked: None) -> Iterator[None]:
    """What a module made on the server goes with it."""
    with interrupted() if request.node.get_closest_marker("own_engines") else nullcontext():
        yield
    if cluster := running():
        cluster.forget()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server, which the modules share."""
    with address() as place:
        yield place


@pytest.fixture(scope="session")
def shared_cluster(postgres: str) -> Iterator[Cluster]:
    with closing(Cluster(postgres)) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Databases of the module's own on the server that is shared."""
    yield shared_cluster
    shared_cluster.forget()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Located:
    """The place of a new database, on each engine."""
    if request.param == "sqlite":
        return tmp_path / "a.db"
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.fresh(tmp_path / "a.db")


@pytest.fixture(autouse=True, scope="module")
def own_garbage() -> None:
    """Keep what the modules before have left: to look through it took five sixths of a benchmark's time."""
    keep_what_there_is()


@pytest.fixture(autouse=True)
def own_program() -> Iterator[None]:
    """Streamlit leaves a page it ran in the program's place, where processes that are started later would run it."""
    yield
    sys.modules["__main__"] = _PROGRAM


@pytest.fixture(autouse=True)
def folders_in_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Temporary folders lie in memory, too; those of `tests/store` stay on the disk whose promises it tries."""
    on_disk = "tests/store/" in request.node.nodeid
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", None if on_disk else memory_folder())
        yield


def pytest_configure(config: pytest.Config) -> None:
    """What tests write lies in memory where there is room: most of them wait for no disk (`tests/store` does).

    It is gone afterwards; ``--basetemp FOLDER`` keeps it.
    """
    # A loaded machine takes longer than an agent waits, and what a test leaves in the spool is no user's.
    os.environ.update(dict.fromkeys(("ARMSCOPE_CONNECT_S", "ARMSCOPE_SELECT_S", "ARMSCOPE_RECORD_S"), "60"))
    folder = memory_folder()
    spool = TemporaryDirectory(prefix="armscope-spool-", dir=folder, ignore_cleanup_errors=True)
    os.environ["ARMSCOPE_SPOOL"] = spool.name
    config.add_cleanup(spool.cleanup)
    config.pluginmanager.register(_Doctests())  # hooks of this file are for the files beside it
    config.option.loadscopereorder = False  # the order below instead of the number of tests in a file
    if config.option.basetemp is None and folder:
        base = TemporaryDirectory(prefix="armscope-tests-", dir=folder, ignore_cleanup_errors=True)
        config.option.basetemp = base.name
        config.add_cleanup(base.cleanup)
        if sys.pycache_prefix:  # of the sources that tests wrote there
            config.add_cleanup(lambda: shutil.rmtree(bytecode_of(Path(base.name)), ignore_errors=True))


def _turn(config: pytest.Config) -> int | None:
    """Return the turn whose slow tests run; None: all run."""
    if workerinput := getattr(config, "workerinput", None):
        found: int | None = workerinput[_TURN]
        return found
    return turn_of_commit() if is_of_all(config) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the slow tests that ran."""
    if (turn := _turn(config)) is not None:
        terminalreporter.write_line(f"slow tests: turn {turn + 1} of {N_TURNS}; --every-test runs all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In `_ORDER`; within a folder as they are. Tests of a file are left out where a server keeps everything."""
    items.sort(key=lambda item: _place(item.nodeid))
    if (turn := _turn(config)) is not None:
        items[:], left = divided(items, turn)
        config.hook.pytest_deselected(items=left)
    if items and is_asked(items[0].config):
        of_file = [item for item in items if item.get_closest_marker("of_file")]
        items[0].config.hook.pytest_deselected(items=of_file)
        items[:] = [item for item in items if item not in of_file]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """A file to a worker. Files that share a browser, dashboards, statements or syntax trees go to one."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduling = LoadFileScheduling(config, log)
    file_of = scheduling._split_scope
    scheduling._split_scope = lambda test: next(
        (_TOGETHER[start] for start in _TOGETHER if test.startswith(start)), file_of(test)
    )
    return scheduling


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Pass the turn to the workers, and whether nothing is compiled yet: asked before they begin."""
    node.workerinput[_TURN] = _turn(node.config)
    node.workerinput[_COMPILES] = not Path(cache_from_source(str(ROOT / "dashboard" / "launch.py"))).exists()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Finding tests makes much and drops little: to look for garbage meanwhile took a tenth of its time."""
    gc.disable()
    try:
        with _compiled_once(session.config):
            return (yield)
    finally:
        gc.enable()


@contextmanager
def _compiled_once(config: pytest.Config) -> Iterator[None]:
    """Let one worker find the tests first if nothing is compiled: two thirds of that is compiling imports."""
    if not getattr(config, "workerinput", {}).get(_COMPILES):
        yield
        return
    lock = FileLock(ROOT / ".pytest_cache" / "compiling.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        with lock:
            pass  # who has waited needn't let the next one wait
        yield
        return
    try:
        yield
    finally:
        lock.release()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What thousands of tests are made of stays until the end, and is not looked through for garbage any more.

    Each rerun of a page and each pair of a benchmark collects garbage, which would take half a second each time. What
    is made since is looked through a thirtieth as often as by itself.
    """
    keep_what_there_is()
    gc.set_threshold(20_000, 10, 10)
    # pytest listens to the root, and in each test again to all that keep what they say to themselves: Streamlit's do,
    # each of its modules' own.
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("streamlit") and isinstance(logger, logging.Logger):
            logger.propagate = True


def keep_what_there_is() -> None:
    """But for garbage it is not looked through again, and goes when the last one forgets it."""
    gc.collect()
    gc.freeze()


def _place(nodeid: str) -> int:
    return next((place for place, folder in enumerate(_ORDER) if nodeid.startswith(folder)), len(_ORDER))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A learner on an empty database."""
    return context_at(tmp_path / "a.db")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Reviewers of runs that are recorded."""
    made = desk_at(tmp_path / "a.db")
    with closing(made.context.store):
        yield made


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real agent runs with expected results; they are not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("needs the real agent runs: a folder 'shared/data' beside the project's root")
    return folder


@pytest.fixture(scope="session")
def vectors() -> Path:
    """What the original systems were asked and answered; it is not part of the project either."""
    if not VECTORS.is_dir():
        pytest.skip(
            f"needs the conformance vectors: ARMSCOPE_CONFORMANCE, a folder with {VECTORS.name}/ in it"
        )
    return VECTORS


@pytest.fixture(scope="session")
def noted_sqlite() -> None:
    """A Python whose SQLite can be listened to, as that of Debian; some others have it built in."""
    try:
        shared_library()
    except LookupError as problem:
        pytest.skip(f"needs a Python whose sqlite3 loads SQLite as a shared library: {problem}")
