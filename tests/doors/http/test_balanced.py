"""Two servers on one PostgreSQL behind a balancer: programs notice nothing, and a page lives in one process."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final

import pytest
import urllib3

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record
from core.flows.tokens import create_token, revoke_token
from core.records.selection import Selection
from tests.bench.visitor import Visitor
from tests.doors.http.slow import AT, Running, running
from tests.engine import Cluster
from tests.worlds import a_run, context_at

pytestmark = [pytest.mark.long, pytest.mark.own_engines]
_PATIENCE_S: Final = 30.0


class Balancer(ThreadingTCPServer):
    """Copies bytes between a client and the next server."""

    daemon_threads = True

    def __init__(self, ports: Sequence[int]) -> None:
        self._next = cycle(ports)
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Copying)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def next_port(self) -> int:
        with self._lock:
            return next(self._next)


class _Copying(BaseRequestHandler):
    server: Balancer

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.next_port()), _PATIENCE_S) as far:
            there = threading.Thread(target=_copy, args=[self.request, far], daemon=True)
            there.start()
            _copy(far, self.request)


def _copy(a: socket.socket, b: socket.socket) -> None:
    with suppress(OSError):
        while piece := a.recv(1 << 16):
            b.sendall(piece)
    with suppress(OSError):
        b.shutdown(socket.SHUT_WR)


class Behind:
    """A client of the balancer; each request has a connection, and so a server, of its own."""

    def __init__(self, port: int, secret: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._bearer = {"Authorization": f"Bearer {secret}"} if secret else {}

    def ask(
        self, method: str, path: str, document: object = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        answer = urllib3.request(
            method,
            self.url + path,
            body=None if document is None else json.dumps(document).encode(),
            headers={"Content-Type": "application/json", "Connection": "close", **self._bearer, **headers},
            retries=False,
            timeout=_PATIENCE_S,
        )
        body = answer.data.decode()
        found = (
            json.loads(body)
            if answer.headers.get("Content-Type", "").startswith("application/json")
            else body
        )
        return answer.status, found, dict(answer.headers)

    def both(self, method: str, path: str, document: object = None) -> list[tuple[int, Any, dict[str, str]]]:
        """The answers of both servers."""
        return [self.ask(method, path, document) for _ in range(2)]


@contextmanager
def balanced(context: Context, *command: str) -> Iterator[tuple[Behind, list[Running]]]:
    with ExitStack() as ending:
        servers = [
            ending.enter_context(running(context, command=command, token=f"{command[0]}-{number}"))
            for number in range(2)
        ]
        balancer = ending.enter_context(Balancer([one.port for one in servers]))
        threading.Thread(target=balancer.serve_forever, daemon=True).start()
        yield Behind(balancer.port, servers[0].secret), servers
        balancer.shutdown()


@pytest.fixture
def context(cluster: Cluster, tmp_path: Path) -> Iterator[Context]:
    context = context_at(cluster.fresh(tmp_path / "balanced.db"))
    record(context, a_run("first", arms=["search"], calls=["search"]))
    yield context
    assert queries.verify(context).clean
    context.store.close()


@pytest.mark.parametrize("command", [("api",), ("serve", "--no-browser")])
def test_programs_notice_no_difference(command: tuple[str, ...], context: Context) -> None:
    arm = queries.posteriors(context)[0].arm
    with balanced(context, *command) as (client, servers):
        # A key counts once, wherever and however often it is sent.
        keyed = {"arm": arm, "value": 1.0, "key": "k-1"}
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda _: client.ask("POST", f"{AT}/rewards", keyed), range(24)))
        assert {status for status, _, _ in told} == {200}
        assert len({answer["id"] for _, answer, _ in told}) == 1
        assert client.ask("POST", f"{AT}/rewards", {**keyed, "value": 0.0})[0] == 409
        # What one server wrote, the other reads at once; both have one tag for it.
        for number in range(10):
            status, note, _ = client.ask("POST", f"{AT}/notes", {"arm": arm, "text": f"n{number}"})
            assert status == 200, note
            tags = {headers["etag"] for _, _, headers in client.both("GET", f"{AT}/posteriors")}
            assert len(tags) == 1
            assert client.ask("GET", f"{AT}/posteriors", **{"If-None-Match": tags.pop()})[0] == 304
        # A selection of one server is that of a run that the other records.
        for number in range(10):
            _, chosen, _ = client.ask("POST", f"{AT}/select", {"arms": [{"key": arm}]})
            selection = {name: chosen[name] for name in Selection.__struct_fields__ if name in chosen}
            inventory = {"kind": "declared", "arms": [{"key": arm}]}
            run = {"uid": f"chosen-{number}", "inventory": inventory, "selection": selection}
            run["run_class"] = chosen["run_class"]
            status, answer, _ = client.ask("POST", f"{AT}/runs", {"run": run})
            assert status == 200, answer
        # Pages of a list go on at the other server.
        seen: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            _, page, _ = client.ask("GET", f"{AT}/runs?limit=2{cursor and '&cursor='}{cursor}")
            seen += [one["uid"] for one in page["items"]]
            cursor = page["next"]
        assert len(seen) == len({*seen}) == 11
        # An undo through one is one, and a revoked token is none at both.
        assert [
            answer["undone"] for _, answer, _ in client.both("POST", f"{AT}/undo", {"act_id": "reward-1"})
        ] == ["reward-1", "reward-1"]
        token = create_token(context, "short", ("read",))
        other = Behind(int(client.url.rpartition(":")[2]), token.secret)
        assert [status for status, _, _ in other.both("GET", f"{AT}/status")] == [200, 200]
        revoke_token(context, token.token.id)
        assert [status for status, _, _ in other.both("GET", f"{AT}/status")] == [401, 401]
        # A server that ends takes nothing with it.
        assert len({one.pid for one in servers}) == 2


def test_limits_of_a_token_are_those_of_each_server(context: Context) -> None:
    with ExitStack() as ending:
        servers = [
            ending.enter_context(running(context, "--rate", "5", token=f"api-{number}"))
            for number in range(2)
        ]
        statuses = [[one.ask(f"{AT}/status", **servers[0].bearer)[0] for _ in range(8)] for one in servers]
    assert [each.count(200) for each in statuses] == [5, 5]
    assert {*statuses[0], *statuses[1]} == {200, 429}


def test_a_page_and_its_files_belong_to_one_server(context: Context) -> None:
    """Documents and scripts of pages come from either; a session, its uploads and downloads do not."""
    with balanced(context, "serve", "--no-browser") as (client, servers):
        plain = Behind(int(client.url.rpartition(":")[2]), "")
        documents = plain.both("GET", "/runs")
        assert [status for status, _, _ in documents] == [200, 200]
        assert documents[0][1] == documents[1][1]
        assert [status for status, _, _ in plain.both("GET", "/_stcore/health")] == [200, 200]
        # Pages are drawn over web sockets of both servers, also after an act at the other one.
        arm = queries.posteriors(context)[0].arm
        with Visitor(plain.url) as one, Visitor(plain.url, "runs") as other:
            for number in range(2):
                status, _, _ = client.ask("POST", f"{AT}/notes", {"arm": arm, "text": f"n{number}"})
                assert status == 200
                assert min(one.rerun(), other.rerun()) > 0
        # Neither server knows a session or a file of the other one.
        assert {status for status, _, _ in plain.both("GET", "/media/0123456789abcdef.csv")} == {404}
        at = time.monotonic()
        origin = {"Origin": f"http://127.0.0.1:{plain.url.rpartition(':')[2]}"}
        refused = plain.ask("PUT", "/_stcore/upload_file/unknown/1", **origin)[0]
        assert refused in {400, 403, 404, 411}
        assert time.monotonic() - at < _PATIENCE_S
        assert len(servers) == 2
