"""Counting: what steady writers were told against what there is of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

import msgspec

from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_file
from core.records.actor import Actor
from core.settings import Server
from core.store.store import Store
from tests.conftest import ROOT
from tests.store.steady import SAME, Outcome, Said, own_arm

_PATIENCE_S: Final = 120


@dataclass
class Writers:
    """Steady writers at work, and what each was told so far."""

    learners: Sequence[str]
    told: list[list[Said]]
    process: subprocess.Popen[str]
    _heard: Condition = field(default_factory=Condition)
    _listener: Thread = field(init=False)

    def __post_init__(self) -> None:
        self._listener = Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            number, *said = line.split()
            with self._heard:
                self.told[int(number)].append(Said.of(said))
                self._heard.notify_all()

    def wait_for(self, n_more: int, *outcomes: Outcome) -> None:
        """Wait until each writer has ``n_more`` further answers with these outcomes (default: kept)."""
        wanted = outcomes or ("kept",)

        def n_told() -> list[int]:
            return [sum(one.outcome in wanted for one in each) for each in self.told]

        with self._heard:
            enough = [n + n_more for n in n_told()]
            is_told = self._heard.wait_for(
                lambda: (
                    all(n >= most for n, most in zip(n_told(), enough, strict=True))
                    or self.process.poll() is not None
                ),
                _PATIENCE_S,
            )
        assert is_told
        assert self.process.poll() is None, "they ended before they were told to"

    def end(self) -> list[list[Said]]:
        """All that each was told, once they have ended by themselves."""
        if self.process.returncode is not None:
            return self.told
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        problems = self.process.stderr.read()
        assert self.process.wait(_PATIENCE_S) == 0, problems
        self._listener.join()
        return self.told


@contextmanager
def writing(server: Server, learners: Sequence[str], n_writers: int) -> Iterator[Writers]:
    """So many processes that write to these learners in turn, from when each has got an answer."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.steady", server.url, str(n_writers), *learners],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        writers = Writers(learners, [[] for _ in range(n_writers)], process)
        try:
            writers.wait_for(1)
            yield writers
            writers.end()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Ledger(NamedTuple):
    """What there is of acts, how many facts are about another arm than their own, and learners that don't fit."""

    there: Counter[tuple[str, str]]
    n_miscredited: int
    n_unclean: int


def ledger(server: Server, learners: Iterable[str], folder: Path) -> Ledger:
    """What the exports of these learners say, and verify."""
    there: Counter[tuple[str, str]] = Counter()
    n_miscredited = n_unclean = 0
    for learner in learners:
        context = Context(store=Store(server), learner=learner, actor=Actor(name="mara"))
        with closing(context.store):
            n_unclean += not queries.verify(context).clean
            export_file(context, file := folder / f"{learner}.jsonl")
        facts = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        there.update(act for fact in facts if (act := _act_of(fact, learner)) is not None)
        n_miscredited += sum(not _is_its_own(fact, learner) for fact in facts)
    return Ledger(there, n_miscredited, n_unclean)


def _act_of(fact: dict[str, Any], learner: str) -> tuple[str, str] | None:
    """Which act a fact is of: its uid, its key, or the text that only one act has."""
    match fact:
        case {"kind": "run", "uid": name} | {"kind": "reward", "key": name}:
            return fact["kind"], name
        case {"kind": "reward", "arm": arm, "context": {"reason": reason}}:
            return ("same", learner) if arm == SAME else ("feedback", reason)
        case {"kind": "note", "text": name} | {"kind": "reset", "reason": name}:
            return fact["kind"], name
        case _:
            return None


def _is_its_own(fact: dict[str, Any], learner: str) -> bool:
    """Whether a fact is about the arm that was made for it, and about no other's."""
    act = _act_of(fact, learner)
    if act is None or act[0] == "same":
        return True
    arms = fact.get("referenced") or fact.get("arms") or [fact["arm"]]
    return arms == [own_arm(act[1])]


@dataclass(frozen=True)
class Count:
    """Numbers of acts of all writers, by their result."""

    acknowledged: int
    unsure: int
    """Acts without a key and without an answer."""
    unsure_there: int
    """Those of them that the store has."""
    asked_again: int
    """Requests with a key that were sent again, because no answer came."""
    refused: Counter[str]
    """Requests that were refused and sent again, by the error's code."""
    missed: int
    """Acts about something that was not there."""
    lost: int
    double: int
    miscredited: int
    unclean: int
    longest_pause_s: float

    @property
    def broken(self) -> dict[str, int]:
        """Which promises were not kept, how often."""
        kept = ("lost", "double", "miscredited", "unclean")
        return {name: n for name in kept if (n := getattr(self, name))}


def count(told: Sequence[Sequence[Said]], found: Ledger) -> Count:
    """What writers were told against what there is."""
    outcomes = Counter(one.outcome for each in told for one in each)
    kept, unsure = (
        Counter(one.act for each in told for one in each if one.outcome == outcome)
        for outcome in ("kept", "unsure")
    )
    there = found.there
    return Count(
        acknowledged=kept.total(),
        unsure=unsure.total(),
        unsure_there=sum(min(there[act] - kept[act], n) for act, n in unsure.items()),
        asked_again=outcomes["again"],
        refused=Counter(one.code for each in told for one in each if one.outcome == "refused"),
        missed=outcomes["missed"],
        lost=(kept - there).total(),
        double=sum(max(n - max(kept[act] + unsure[act], 1), 0) for act, n in there.items()),
        miscredited=found.n_miscredited,
        unclean=found.n_unclean,
        longest_pause_s=max(b.at_s - a.at_s for each in told for a, b in pairwise(each)),
    )
