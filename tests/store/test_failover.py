"""The loss of a server: what was acknowledged is there once, and whoever writes goes on by themselves.

Of two servers on one machine the standby never lags, so its receiver is taken away a second before the primary is
killed: with an answer that doesn't wait for the standby the same test has to lose something, or it proves nothing.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_file
from core.records.actor import Actor
from core.settings import Server
from core.store.store import Store
from tests.flows.world import START_MS
from tests.store.child import own_arm
from tests.store.standby import Pair, pair
from tests.store.storm import Companion

pytestmark = [pytest.mark.of_file, pytest.mark.long]  # it brings servers of its own

N_WRITERS = 6
LEARNERS = ("one", "two", "three")
BEFORE_S, STOPPED_S, AFTER_S = 3.0, 1.0, 6.0
"""How long is written before the standby's receiver is stopped, from then until the kill, and after the promotion."""


@dataclass(frozen=True)
class Said:
    """What a writer was told: of what, and when (in s of the machine's own clock)."""

    kind: str
    name: str
    at_s: float


@dataclass(frozen=True)
class Outcome:
    """What came of a failover, in acts."""

    acknowledged: int
    unsure: int
    refused: int
    lost: int
    double: int
    miscredited: int
    unclean: int
    longest_pause_s: float
    on_again_s: float
    """From the promotion to the first answer of the last writer that got one."""


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
        outcome = looked_over(server, writers, promoted_s, tmp_path)
    with capsys.disabled():
        sys.stdout.write(f"\n{'synchronous' if synchronous else 'asynchronous'}: {outcome}\n")
    assert [writer.process.returncode for writer in writers] == [0] * N_WRITERS, [
        writer.problems for writer in writers
    ]
    assert (outcome.double, outcome.miscredited, outcome.unclean) == (0, 0, 0)
    assert (outcome.lost == 0 and outcome.refused == 0) == synchronous


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


def looked_over(server: Server, writers: list[Companion], promoted_s: float, folder: Path) -> Outcome:
    told = [list(said(writer)) for writer in writers]
    kinds = Counter(one.kind for each in told for one in each)
    acknowledged = {
        (one.kind, one.name) for each in told for one in each if one.kind not in {"unsure", "refused"}
    }
    there: Counter[tuple[str, str]] = Counter()
    miscredited = unclean = 0
    for learner in LEARNERS:
        context = Context(
            store=Store(server), learner=learner, actor=Actor(name="mara"), clock=lambda: START_MS
        )
        with closing(context.store):
            unclean += not queries.verify(context).clean
            export_file(context, file := folder / f"{learner}.jsonl")
        facts = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        there.update(filter(None, map(named, facts)))
        miscredited += sum(not is_its_own(fact) for fact in facts)
    return Outcome(
        acknowledged=len(acknowledged),
        unsure=kinds["unsure"],
        refused=kinds["refused"],
        lost=sum(one not in there for one in acknowledged),
        double=sum(n > 1 for n in there.values()),
        miscredited=miscredited,
        unclean=unclean,
        longest_pause_s=max(b.at_s - a.at_s for each in told for a, b in pairwise(each)),
        on_again_s=max(min(one.at_s for one in each if one.at_s > promoted_s) for each in told) - promoted_s,
    )


def said(writer: Companion) -> Iterator[Said]:
    for kind, name, at_s in writer.lines:
        yield Said(kind, name, float(at_s))


def named(fact: dict[str, str]) -> tuple[str, str] | None:
    """Which act a fact is of: its uid, its key, or the text that only one act has."""
    match fact["kind"]:
        case "run":
            return "run", fact["uid"]
        case "reward":
            return "reward", fact["key"]
        case "note":
            return "note", fact["text"]
        case "reset":
            return "reset", fact["reason"]
        case _:
            return None


def is_its_own(fact: dict[str, str]) -> bool:
    """Whether a fact is about the arm that was made for it, and about no other's."""
    act = named(fact)
    if act is None:
        return True
    arms = fact.get("referenced") or fact.get("arms") or [fact["arm"]]
    return arms == [own_arm(act[1])]
