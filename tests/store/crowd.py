"""A crowd: many processes that give keyed rewards at the same time, on whichever engine, all sent twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Final

from core.flows.context import Context
from core.flows.learn import reward
from core.flows.select import select
from core.records.actor import Actor
from core.records.arm import Arm
from core.settings import Located
from core.store.store import Store
from tests.store.forking import FORKING

_PATIENCE_S: Final = 120


@dataclass(frozen=True)
class Writer:
    """What one process is to do: so many rewards of an arm, each under a key of its own and sent ``n_sent`` times."""

    place: Located
    learner: str
    arm: str
    name: str
    n_rewards: int
    n_sent: int = 1


@dataclass(frozen=True)
class Told:
    """What it heard: the ids of its rewards, in the order of its keys, how long each took, and what went wrong."""

    ids: list[str]
    waits_ms: list[float]
    problem: str = ""


def all_write(writers: Sequence[Writer]) -> list[Told]:
    """Let them all write, beginning at the same moment."""
    begun: Barrier = FORKING.Barrier(len(writers))
    told: Queue[tuple[int, Told]] = FORKING.Queue()
    started = [
        FORKING.Process(target=_write, args=(number, writer, begun, told), daemon=True)
        for number, writer in enumerate(writers)
    ]
    for process in started:
        process.start()
    heard = dict(told.get(timeout=_PATIENCE_S) for _ in writers)
    for process in started:
        process.join()
    return [heard[number] for number in range(len(writers))]


def all_select(place: Located, session: str, arms: Sequence[Arm], n_processes: int) -> list[str]:
    """The first selections of one session by so many processes at the same moment, each as JSON or its error."""
    begun: Barrier = FORKING.Barrier(n_processes)
    answers: Queue[str] = FORKING.Queue()
    started = [
        FORKING.Process(target=_select, args=(place, session, arms, begun, answers), daemon=True)
        for _ in range(n_processes)
    ]
    for process in started:
        process.start()
    found = [answers.get(timeout=_PATIENCE_S) for _ in started]
    for process in started:
        process.join()
    return found


def _select(place: Located, session: str, arms: Sequence[Arm], begun: Barrier, answers: Queue[str]) -> None:
    answer = ""
    try:
        store = Store(place)
        context = Context(store=store, actor=Actor(name="agent")).of_own_door()
        with closing(store):
            begun.wait(_PATIENCE_S)
            answer = select(context, arms, session=session, budget_tokens=40).to_json()
    except Exception as failed:  # whatever it is, the parent process compares it
        begun.abort()
        answer = repr(failed)
    answers.put(answer)


def _write(number: int, writer: Writer, begun: Barrier, told: Queue[tuple[int, Told]]) -> None:
    ids: list[str] = []
    waits: list[float] = []
    problem = ""
    try:
        store = Store(writer.place)
        context = Context(store=store, learner=writer.learner, actor=Actor(name=writer.name))
        with closing(store):
            reward(context, writer.arm, 1.0, key=f"{writer.name} begins")  # opens what a process opens once
            begun.wait(_PATIENCE_S)
            for at in range(writer.n_rewards):
                for _ in range(writer.n_sent):
                    since = time.perf_counter()
                    answer = reward(context, writer.arm, at % 101 / 100, key=f"{writer.name} {at}")
                    waits.append((time.perf_counter() - since) * 1_000)
                    ids.append(answer.id)
    except Exception as failed:  # whatever it is, it is told to who waits
        begun.abort()
        problem = repr(failed)
    told.put((number, Told(ids, waits, problem)))
