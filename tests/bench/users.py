"""Users: memory and connections of a server by its open pages and busy programs: ``python -m tests.bench.users``."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from core.flows.learn import record_all
from tests.bench.visitor import Visitor
from tests.bench.worlds import runs
from tests.doors.http.slow import AT, Running, running
from tests.engine import Cluster
from tests.store.postgres import address
from tests.worlds import context_at

_RUNS: Final = 2_000
_PAGES: Final = (1, 8, 32)
_CLIENTS: Final = (1, 8, 32)
_REQUESTS: Final = 320


def main() -> None:
    """Print the figures of `serve` with open pages, then of `api` with clients at one time."""
    with address() as place, closing(Cluster(place)) as cluster, TemporaryDirectory() as folder:
        server = cluster.fresh(Path(folder) / "users.db")
        context = context_at(server)
        with closing(context.store):
            record_all(context, [*runs(_RUNS)])
            sql = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{server.name}'"
            before = int(cluster.ask(sql)[0][0])

            def say(what: str, one: Running) -> None:
                n = int(cluster.ask(sql)[0][0]) - before
                sys.stdout.write(f"{what}: {one.memory_mib():,.0f} MiB, {n} connections\n")

            with (
                running(context, "--no-browser", command=("serve",), token="pages") as one,
                ExitStack() as open,
            ):
                say("serve", one)
                for number in range(max(_PAGES)):
                    open.enter_context(Visitor(f"http://localhost:{one.port}"))
                    if number + 1 in _PAGES:
                        say(f"serve, {number + 1} open pages", one)
            with running(context, token="programs") as one:
                say("api", one)
                for n_clients in _CLIENTS:
                    with ThreadPoolExecutor(n_clients) as pool:
                        list(pool.map(lambda _: one.ask(f"{AT}/status"), range(_REQUESTS)))
                    say(f"api, {n_clients} clients", one)


if __name__ == "__main__":
    main()
