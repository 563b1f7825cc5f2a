"""The loss of a server: what was acknowledged is there once, and whoever writes goes on by themselves.

Of two servers on one machine the standby never lags, so its receiver is taken away a second before the primary is
killed: with an answer that doesn't wait for the standby the same test has to lose something, or it proves nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from core.store.store import Store
from tests.store.counting import count, ledger
from tests.store.standby import Pair, pair
from tests.store.steady import Said
from tests.store.storm import Companion

pytestmark = [pytest.mark.own_engines, pytest.mark.long]

N_WRITERS = 6
LEARNERS = ("one", "two", "three")
BEFORE_S, STOPPED_S, AFTER_S = 3.0, 1.0, 6.0
"""How long is written before the standby's receiver is stopped, from then until the kill, and after the promotion."""


@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
def test_a_failover(synchronous: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pair(synchronous=synchronous) as servers:
        server = servers.server("armscope")
        servers.ask_primary("CREATE DATABASE armscope TEMPLATE template0")
        Store(server).close()
        writers = [
            Companion(("act", server.url, LEARNERS[number % len(LEARNERS)], str(number)))
            for number in range(N_WRITERS)
        ]
        promoted_s = failed_over(servers, writers)
        for writer in writers:
            writer.end()
        told = [[Said.of(line) for line in writer.lines] for writer in writers]
        found = count(told, ledger(server, LEARNERS, tmp_path))
    on_again_s = max(min(one.at_s for one in each if one.at_s > promoted_s) for each in told) - promoted_s
    with capsys.disabled():
        sys.stdout.write(
            f"\n{'synchronous' if synchronous else 'asynchronous'}: {found}; all on again {on_again_s:.2f} s after"
            " the promotion\n"
        )
    assert [writer.process.returncode for writer in writers] == [0] * N_WRITERS, [
        writer.problems for writer in writers
    ]
    assert found.refused.total() == 0
    assert found.broken.keys() <= {"lost"}
    assert (found.lost == 0 and found.missed == 0) == synchronous


def failed_over(servers: Pair, writers: Iterable[Companion]) -> float:
    """When the standby had been promoted."""
    for writer in writers:
        writer.wait_for("run")
    time.sleep(BEFORE_S)
    servers.receive_nothing()
    time.sleep(STOPPED_S)
    servers.kill_primary()
    servers.promote()
    promoted_s = time.monotonic()
    time.sleep(AFTER_S)
    return promoted_s
