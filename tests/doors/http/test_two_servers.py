"""Two servers on one file, and a restore under their load: nothing acknowledged is in neither of the databases."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.flows import maintenance, queries
from core.flows.restore import restore
from tests.doors.examples import ARM, example_world
from tests.doors.http.slow import AT, Running, running
from tests.engine import kept_in
from tests.worlds import context_at

pytestmark = pytest.mark.of_file


@dataclass
class Client:
    """Rewards under keys of its own, each sent again until it is answered; at once also to the other server."""

    name: str
    servers: tuple[Running, Running]
    told: dict[str, float] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def send(self, over: threading.Event) -> None:
        number = 0
        while not over.is_set():
            key, began = f"{self.name}-{number}", time.monotonic()
            status, answer, _ = self.servers[number % 2].ask(
                f"{AT}/rewards", {"arm": ARM, "value": 0.5, "reason": key}, **{"Idempotency-Key": key}
            )
            if status == 200:
                self.told[key] = began
                number += 1
            else:
                self.refused[answer["code"]] += 1


def reasons(path: Path) -> Counter[str]:
    with closing(context_at(path).store) as store:
        with store.reading("default") as snapshot:
            rows = snapshot.connection.rows("SELECT reason FROM observation WHERE reason <> ''")
        assert queries.verify(context_at(path)).clean
    return Counter(reason for (reason,) in rows)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.6, 10])
def test_a_restore_under_two_servers_loses_nothing_that_came_after(seconds: float, tmp_path: Path) -> None:
    context = example_world(tmp_path)
    path = kept_in(context.store)
    with running(context) as api, running(context, command=("serve", "--no-browser"), token="other") as pages:
        over = threading.Event()
        clients = [Client(name, (api, pages)) for name in "abcd"]
        threads = [threading.Thread(target=one.send, args=[over]) for one in clients]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        maintenance.backup(context, tmp_path / "copy.db")
        time.sleep(seconds)
        answer = restore(path, tmp_path / "copy.db")
        restored = time.monotonic()
        time.sleep(seconds)
        over.set()
        for thread in threads:
            thread.join()
    context.store.close()
    assert answer.kept is not None
    now, before = reasons(path), reasons(Path(answer.kept))
    told = {key: at for one in clients for key, at in one.told.items()}
    assert sum(map(len, (one.told for one in clients))) == len(told) > 20
    assert [one.refused for one in clients if one.refused] == []
    assert {n for each in (now, before) for key, n in each.items() if key in told} == {1}, (
        "none is there twice"
    )
    assert [key for key in told if key not in now and key not in before] == []
    assert [key for key, at in told.items() if at > restored and key not in now] == []
    assert before.keys() - now.keys(), "else the restore took nothing back"
