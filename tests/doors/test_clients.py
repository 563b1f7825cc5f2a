"""Clients: a file and a server, called and awaited: the same operations, parameters, answers and errors."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, chdir
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pandas as pd
import pytest

import core
from core import AsyncClient, AsyncLearner, Client, Learner, TrialRun, Unreachable
from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.protocol import LearnerProtocol
from core.doors.verbs import REPORTS, VERBS, verb
from core.errors import (
    ArmscopeError,
    Closed,
    Conflict,
    InvalidBatch,
    InvalidInput,
    NotApplicable,
    NotFound,
    UnreadableSource,
)
from core.maths.statistics.savings import Savings
from core.records.arm import Arm
from core.records.run import Inventory, Run
from core.records.run_query import View
from core.records.times import DAY_MS
from tests.bench.servers import free_port
from tests.conftest import ROOT
from tests.doors.examples import ARM, FILE, RUN
from tests.doors.http.test_served import served
from tests.doors.test_webhook import receiving
from tests.terminal import warm
from tests.worlds import START_MS, context_at

CLIENTS = ("Learner", "Client", "AsyncLearner", "AsyncClient")
OWN = {"context", "learner", "in_thread", "open"}
"""Public names of one kind of client: where its operations happen."""

Operation = Callable[[Any], Any]

_HEAD = re.compile(r"\d+:[0-9a-f]{16,64}|arms_\w+|'sha256': '\w+'|'size_bytes': \d+")
"""A head or a secret, and a zip that has one: each learner's chain has a key of its own."""

PROGRAM = "import sys; from tests.doors.program import main; main(sys.argv[1])"


METHODS = ("GET", "POST", "PUT", "DELETE")
FOREIGN = (b"<html>Sign in</html>", b"", b"{}", b"[1]", b'{"record": 5}', b'"up"', b"\xff\xfe")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - OWN


OPERATIONS = sorted(public(LearnerProtocol) - {"name", "close"})


def of_example(name: str) -> Operation:
    """Call a verb with the fields of its example."""
    example = verb(name).decode(verb(name).example)
    fields = {field: getattr(example, field) for field in example.__struct_fields__}
    return lambda one: getattr(one, name)(**fields)


def new_run(uid: str) -> Run:
    return Run(uid=uid, inventory=Inventory(kind="declared", arms=(Arm(key=ARM),)))


ANSWERS: dict[str, Operation] = {
    "settings": lambda one: one.settings() if isinstance(one, AsyncLearner | AsyncClient) else one.settings,
    "select": lambda one: one.select([ARM, {"name": "fetch", "input_schema": {}}], budget_tokens=50),
    "record": lambda one: one.record(
        "c1",
        arms=[Arm(key=ARM, token_cost=3)],
        named=[{"name": "fetch", "description": "Fetch a page"}, "skill:pdf:main"],
        loaded=["skill:pdf:main"],
        calls=["search"],
    ),
    "record_runs": lambda one: one.record_runs([new_run("c2"), new_run("c3")]),
    "record_step": lambda one: one.record_step("sums/9", environment="sums", number=0, reward=0.5, run=RUN),
    "declare": lambda one: one.declare("sums", hi=2),
    "credit_episode": lambda one: one.credit_episode("sums/9", "equal"),
    "reward": lambda one: one.reward(ARM, 0.5, key="one", reason="late"),
    "reward_batch": lambda one: one.reward_batch([{"arm": ARM, "value": 0.25, "run": RUN}]),
    "reward_run": lambda one: one.reward_run(RUN, outcome="partial"),
    "evaluate": lambda one: one.evaluate(RUN, "success", rater="zoe", rubric="v2", score=0.5),
    "repair": lambda one: one.repair(arms=[ARM], since="2020-01-31", reason="detector broken"),
    "reset": lambda one: one.reset(arms=[ARM], reason="detector repaired"),
    "undo": lambda one: one.undo("reset-1"),
    "redo": lambda one: one.redo("reset-1"),
    "change": lambda one: one.change("k", 2),
    "import_files": lambda one: one.import_files(
        FILE, format="armscope", max_inflated_bytes=1 << 20, max_rejected=10, each_event=True
    ),
    "run": lambda one: one.run(RUN),
    "why": lambda one: one.why("c1"),
    "sessions": lambda one: one.sessions(3, model=None),
    "runs": lambda one: one.runs(3),
    "posteriors": lambda one: one.posteriors(View(types=("tool",))),
    "acts": lambda one: one.acts(5),
    "ledger": lambda one: one.ledger(50),
    "status": lambda one: one.status(),
    "episodes": lambda one: one.episodes(environment="sums", split=None, task="t", model="large"),
    "trial": lambda one: first_run(one.trial("tool:web:search", tasks=["easy", "hard"])),
    "compare": lambda one: one.compare("sums", "large", "small", compared="success", paired=False),
    "export": lambda one: one.export("out.csv", "csv"),
    "export_training": lambda one: one.export_training("train.jsonl", "reward_jsonl", raters=("mara",)),
    "backup": lambda one: one.backup("copy.db"),
    "erase": lambda one: one.erase(rater="zoe"),
}
"""One call of each operation, in the order in which they are done on one world."""
OTHERS = [one for one in (*VERBS, *REPORTS) if one.name in OPERATIONS and one.name not in ANSWERS]
LOCAL = {one.name for one in OTHERS if not one.route}
"""Verbs that no server offers."""
CALLS = {
    **{one.name: of_example(one.name) for one in OTHERS if one.route},
    **ANSWERS,
    **{one.name: of_example(one.name) for one in OTHERS if not one.route},
}

ERRORS: tuple[tuple[type[ArmscopeError], Operation], ...] = (
    (InvalidInput, lambda one: one.compare("sums", "large")),
    (InvalidInput, lambda one: one.reset(arms=[])),
    (InvalidInput, lambda one: one.reward_batch([{"arm": ARM, "loud": True}])),
    (InvalidBatch, lambda one: one.reward_batch([{"arm": "tool:no:arm", "value": 1}])),
    (InvalidBatch, lambda one: one.record_runs([new_run("c4"), new_run(RUN)])),
    (Conflict, lambda one: one.record(RUN, arms=["tool:no:other"])),
    (InvalidInput, lambda one: one.record("c5")),
    (UnreadableSource, lambda one: one.import_files("none.jsonl")),
    (InvalidInput, lambda one: one.export(FILE)),
    (NotFound, lambda one: one.erase(rater="nobody-here")),
    (InvalidInput, lambda one: one.compact()),
)


def first_run(loop: Any) -> Any:  # noqa: ANN401 - a loop, or its awaitable
    """Return the first run of a trial's loop; its session follows from the whole plan."""

    def shown(runs: Generator[TrialRun[str], None, None]) -> tuple[str, str | None, str]:
        run = next(runs)
        runs.close()  # it stores the block that is left, and garbage is collected at any time
        return run.task, run.hidden, run.session

    async def later() -> tuple[str, str | None, str]:
        return shown(await loop)

    return later() if inspect.isawaitable(loop) else shown(loop)


def test_the_suite_calls_every_operation() -> None:
    assert sorted(CALLS) == OPERATIONS


def test_every_verb_is_a_method() -> None:
    assert {one.name for one in (*VERBS, *REPORTS)} - {"import"} <= {*OPERATIONS}


@pytest.mark.parametrize("kind", [Learner, Client, AsyncLearner, AsyncClient], ids=lambda kind: kind.__name__)
def test_every_client_has_every_operation_with_its_parameters_and_its_answer(kind: type) -> None:
    assert public(kind) == public(LearnerProtocol)
    for name in OPERATIONS:
        declared = getattr(LearnerProtocol, name)
        own = getattr(kind, name)
        if isinstance(declared, property):  # an awaited one is a method
            assert isinstance(own, property) or inspect.iscoroutinefunction(own)
            continue
        assert inspect.signature(own) == inspect.signature(declared) or name == "run", name
        if kind in {AsyncLearner, AsyncClient} and name != "run":
            assert inspect.iscoroutinefunction(own), name
        if name not in {"run", "savings"}:  # of overloads, and of a type with arrays
            assert get_type_hints(own)["return"] == get_type_hints(declared)["return"], name


def test_all_clients_follow_a_protocol() -> None:
    assert LearnerProtocol in Learner.__mro__
    assert LearnerProtocol in Client.__mro__
    assert AsyncLearnerProtocol in AsyncLearner.__mro__
    assert AsyncLearnerProtocol in AsyncClient.__mro__


def test_answers_of_operations_are_public() -> None:
    hints = [
        hint
        for name in OPERATIONS
        if name not in {"run", "savings", "settings"}
        for hint in [get_type_hints(getattr(LearnerProtocol, name))["return"]]
    ]
    kinds = {
        part for hint in hints for part in (*getattr(hint, "__args__", ()), hint) if isinstance(part, type)
    }
    ours = {kind.__name__ for kind in kinds if kind.__module__.startswith("core.")} | {Savings.__name__}
    assert ours - set(core.__all__) == set()


# One world


class Worlds:
    """Clients of every kind, each on a fresh copy of one world at one path, with one clock and one seed."""

    def __init__(self, template: Path, folder: Path) -> None:
        self._template = template
        self._folder = folder

    def results(self, name: str, operations: list[Operation]) -> list[object]:
        """Call operations in a row and return their answers; an error is an answer, too."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._template, self._folder)
        context = context_at(self._folder / "a.db")
        context = replace(context, clock=lambda: START_MS + DAY_MS, entropy=lambda: 3)
        with ExitStack() as opened:
            opened.callback(context.store.close)
            opened.enter_context(chdir(self._folder))
            client: Any
            if name in {"Client", "AsyncClient"}:
                url = opened.enter_context(served(context))
                client = Client(url) if name == "Client" else AsyncClient(url)
            else:
                client = Learner(context) if name == "Learner" else AsyncLearner(Learner(context))
            if name.startswith("Async"):
                return asyncio.run(_awaited(client, operations))
            opened.enter_context(client)
            return [_answer(one, client) for one in operations]


@pytest.fixture
def worlds(world: Path, tmp_path: Path) -> Worlds:
    return Worlds(world, tmp_path / "here")


def _answer(operation: Operation, client: object) -> object:
    try:
        return operation(client)
    except ArmscopeError as problem:
        return problem


async def _awaited(client: AsyncLearner | AsyncClient, operations: list[Operation]) -> list[object]:
    async with client:
        return [await _awaited_answer(one, client) for one in operations]


async def _awaited_answer(operation: Operation, client: object) -> object:
    try:
        return await operation(client)
    except ArmscopeError as problem:
        return problem


def comparable(answer: object) -> object:
    """Return an answer with arrays as lists, which NaN does not keep from being equal."""
    return _HEAD.sub("head", repr(msgspec.to_builtins(answer, enc_hook=_in_lists)))


def _in_lists(value: object) -> object:
    if isinstance(value, ArmscopeError):
        lines = getattr(value, "lines", {})
        return [
            type(value).__name__,
            value.problem,
            {number: _in_lists(one) for number, one in lines.items()},
        ]
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", CLIENTS[1:])
def test_every_operation_has_the_answer_of_a_learner(worlds: Worlds, name: str) -> None:
    operations = list(CALLS.values())
    expected = dict(zip(CALLS, worlds.results("Learner", operations), strict=True))
    answers = dict(zip(CALLS, worlds.results(name, operations), strict=True))
    for operation, answer in answers.items():
        if "Client" in name and operation in LOCAL:
            assert isinstance(answer, NotApplicable), operation
            continue
        assert not isinstance(expected[operation], ArmscopeError), (operation, expected[operation])
        assert type(answer) is type(expected[operation]), operation
        assert comparable(answer) == comparable(expected[operation]), operation


def test_lists_are_the_same_tables_for_every_client(worlds: Worlds) -> None:
    names = ("acts", "arms", "episodes", "evaluations", "ledger", "lint", "posteriors", "runs")
    answers = [worlds.results(name, [CALLS[one] for one in names]) for name in CLIENTS]
    for lists in zip(*answers, strict=True):
        first, *others = [one.to_pandas() for one in lists]
        assert len(first) == len(lists[0]) > 0
        for other in others:
            pd.testing.assert_frame_equal(first, other)
        assert lists[0].to_arrow().num_rows == len(first)


@pytest.mark.parametrize("name", CLIENTS[1:])
def test_every_error_is_that_of_a_learner(worlds: Worlds, name: str) -> None:
    operations = [operation for _, operation in ERRORS]
    expected, answers = worlds.results("Learner", operations), worlds.results(name, operations)
    for (kind, _), theirs, ours in zip(ERRORS, answers, expected, strict=True):
        assert type(ours) is kind, ours
        assert type(theirs) is kind, theirs
        assert theirs.code == ours.code
        numbers = [sorted(getattr(one, "lines", {})) for one in (ours, theirs)]
        assert numbers[0] == numbers[1]


def test_closed_means_closed_for_every_client(worlds: Worlds) -> None:
    for name in CLIENTS:
        _, *answers = worlds.results(name, [lambda one: one.close(), *CALLS.values()])
        for operation, answer in zip(CALLS, answers, strict=True):
            refusal = NotApplicable if "Client" in name and operation in LOCAL else Closed
            assert isinstance(answer, refusal), (name, operation)


def test_a_run_is_selected_and_recorded_by_every_client(worlds: Worlds) -> None:
    def request(one: Learner) -> object:
        with one.run([ARM], uid="w1", session="s") as run:
            run.called("search")
            run.used(input=3, output=4)
        return run.answer

    async def awaited(one: AsyncLearner) -> object:
        async with one.run([ARM], uid="w1", session="s") as run:
            run.called("search")
            run.used(input=3, output=4)
        return run.answer

    answers = [worlds.results(name, [awaited if name.startswith("Async") else request]) for name in CLIENTS]
    assert answers == [answers[0]] * len(CLIENTS)


# Types and costs


def run_program(folder: Path, *arguments: str, program: Sequence[str] = (sys.executable,)) -> str:
    done = subprocess.run(
        [*program, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_program_runs_on_a_file_and_on_a_server(tmp_path: Path) -> None:
    """With the types of `LearnerProtocol`: `program.py` is among the files that mypy checks."""
    of_file = run_program(tmp_path, "-c", PROGRAM, "new.db", program=warm())
    context = context_at(tmp_path / "served.db")
    with served(context) as url:
        assert run_program(tmp_path, "-c", PROGRAM, url, program=warm()) == of_file
    context.store.close()


def test_a_client_imports_neither_numpy_nor_scipy_nor_sqlalchemy(tmp_path: Path) -> None:
    context = context_at(tmp_path / "served.db")
    code = (
        "import sys\nfrom core import Client\nwith Client(sys.argv[1]) as client:\n"
        "    client.record('r1', arms=['tool:web:search'], calls=['search'])\n"
        "    client.reward('tool:web:search', 0.5), client.posteriors(), client.status(), client.why('r1')\n"
        "    client.episodes(), client.agreement(), client.verify()\n"
        "kib = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'scipy', 'sqlalchemy'}\n"
        "print(*sorted(heavy & set(sys.modules)), int(kib) >> 10)"
    )
    with served(context) as url:
        *heavy, mib = run_program(tmp_path, "-c", code, url).split()
    context.store.close()
    assert heavy == []
    assert int(mib) <= 60


def test_another_package_named_core_is_refused_by_name(tmp_path: Path) -> None:
    """Its project goes on, and knows why; a package of that name inside a package of the project does no harm."""
    for folder in ("core", "project/core"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text("own = True")
    package = str(ROOT / "core" / "package")
    beside = (
        f"import sys; sys.path.append({package!r})\n"
        "import core\ntry: import armscope\nexcept ImportError as problem: print(core.own, problem)"
    )
    told = run_program(tmp_path, "-c", beside)
    assert told.startswith("True armscope needs")
    assert str(tmp_path / "core") in told
    inside = (
        f"import sys; sys.path.insert(0, {package!r})\n"
        "import armscope, project.core\nwith armscope.open_learner('a.db') as learner:\n"
        "    learner.record('r1', arms=['tool:fs:Read'], calls=['Read'])\n"
        "    print(learner.status().runs, project.core.own)"
    )
    shutil.rmtree(tmp_path / "core")
    assert run_program(tmp_path, "-c", inside) == "1 True\n"


@pytest.mark.parametrize("body", FOREIGN)
def test_an_answer_of_another_program_is_refused_with_its_address(
    body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation, whatever answers in armscope's place with status 200 or 404."""
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_bytes(b"{}\n")
    statuses = [200]

    def answered(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(statuses[-1])
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with (
        receiving(answered, methods=METHODS) as (port, _),
        Client(f"http://127.0.0.1:{port}", spool=tmp_path) as client,
    ):
        for status in (200, 404):
            statuses.append(status)
            for name in sorted({*CALLS} - LOCAL - {"trial", "erase"}):
                with pytest.raises(Unreachable, match=f":{port} must be armscope") as problem:
                    CALLS[name](client)
                assert problem.value.next_step, name


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8501", "localhost", "ftp://a.example", "https://", "//a.example", "", "ftp://me:SECRET@a"],
)
def test_an_address_without_its_scheme_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="must begin with http") as problem:
        Client(url)
    assert "SECRET" not in str(problem.value)


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_proxy_carries_every_request_and_no_proxy_leaves_a_server_out(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answered(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        handler.send_error(502)

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with receiving(answered, methods=METHODS) as (port, _):
        proxy = f"http://127.0.0.1:{port}"
        if by == "variable":
            monkeypatch.setenv("HTTP_PROXY", proxy)
        named = Client("http://armscope.invalid", spool=tmp_path, proxy=None if by == "variable" else proxy)
        with named as client, pytest.raises(Unreachable):
            client.change("k", 2)
        assert asked[0].startswith("http://armscope.invalid/api/v1/")
        n_asked = len(asked)
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("NO_PROXY", "armscope.invalid")
        for direct in (None, ""):
            alone = Client("http://armscope.invalid", spool=tmp_path, proxy=direct, read_s=1)
            with alone as client, pytest.raises(Unreachable):
                client.status()
        monkeypatch.delenv("NO_PROXY")
        for here in (f"http://127.0.0.1:{free_port()}", f"http://[::1]:{free_port()}", "http://localhost:9"):
            alone = Client(here, spool=tmp_path, read_s=1)
            with alone as client, pytest.raises(Unreachable):
                client.status()
        assert len(asked) == n_asked, "a server of this machine is asked directly"
    with pytest.raises(InvalidInput, match="proxy must begin"):
        Client("http://armscope.invalid", proxy="socks5://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="file of certificates"):
        Client("http://armscope.invalid", ca=tmp_path / "none.pem")


def test_certificates_of_a_network_of_its_own_are_trusted_by_name(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ``ca`` or ``SSL_CERT_FILE``; else the connection is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answered(handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(404)

    with receiving(answered, context, METHODS) as (port, _):
        for ca, variable, why in (
            (None, "", "certificate"),
            (certificate, "", "404"),
            (None, str(certificate), "404"),
        ):
            with monkeypatch.context() as patch:
                if variable:
                    patch.setenv("SSL_CERT_FILE", variable)
                client = Client(f"https://127.0.0.1:{port}", spool=tmp_path, ca=ca)
                with client, pytest.raises(Unreachable, match=why):
                    client.status()
