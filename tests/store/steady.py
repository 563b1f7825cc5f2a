"""Steady writers: processes that act on learners of a server, no matter what befalls it, and say what they were told.

Some of what they do has a uid or a key, some has neither, and one kind of it is the same whoever does it. What has a
uid or a key is sent again as long as no one knows whether it stands. What was refused is always sent again: a refusal
says that nothing of it was written.

Started as ``python -m tests.store.steady SERVER HOW_MANY LEARNER ...`` from the project's root; they act until
standard input ends.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from core.errors import NotFound, StoreError, StoreUnsure
from core.flows.context import Context
from core.flows.corrections import note, reset
from core.flows.learn import record, reward
from core.records.actor import Actor
from core.settings import Server
from core.store.store import Store
from tests.worlds import a_run

Outcome = Literal["kept", "unsure", "again", "refused", "missed"]
"""What came of an act: it is on disk; no one knows, and it had no key; no one knows, and it is sent again under its
key; it was refused, and is sent again; what it is about is not there.
"""
SAME: Final = "tool:other:same"
"""An arm of which everybody says the same, without a key."""
_KEYED: Final = ("run", "reward")
_PAUSE_S: Final = 0.05


class Said(NamedTuple):
    """What a writer was told: of what, when (in s of the machine's own clock), and by which error."""

    outcome: Outcome
    kind: str
    name: str
    at_s: float
    code: str = ""

    @property
    def act(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def line(self) -> str:
        """As a process says it: what was kept, or else what became of it, comes first."""
        first = self.kind if self.outcome == "kept" else self.outcome
        return " ".join((first, quote(self.name), str(self.at_s), self.outcome, self.kind, self.code))

    @classmethod
    def of(cls, line: Sequence[str]) -> Said:
        """From the words of such a line."""
        _, name, at_s, outcome, kind, *code = line
        return cls(msgspec.convert(outcome, Outcome), kind, unquote(name), float(at_s), *code)


def own_arm(name: str) -> str:
    """The arm that is made for the acts of this name, and is in none of any other's."""
    return f"tool:other:own-{name}"


def keep_acting(
    context: Context, seed: str, is_over: Callable[[], bool], tell: Callable[[Said], None]
) -> None:
    """Act until it is over: a run with an arm of its own, what is said of that arm under a key, without one and as a
    note, what everybody says, now and then a reset. Tell each answer.
    """
    number = 0
    while not is_over():
        number += 1
        name = f"{seed}-{number}"
        arm = own_arm(name)
        run = a_run(name, arms=("a", "same", f"own-{name}"), calls=[f"own-{name}"])
        acts: dict[str, Callable[[], object]] = {
            "run": partial(record, context, run),
            "reward": partial(reward, context, arm, 0.5, run=name, key=name),
            "feedback": partial(reward, context, arm, 0.5, reason=name),
            "note": partial(note, context, arm, name),
            "same": partial(reward, context, SAME, 1.0),
        }
        if number % 5 == 0:
            acts["reset"] = partial(reset, context, arms=[arm], reason=name)
        for kind, act in acts.items():
            while (said := _outcome_of(act, kind, context.learner if kind == "same" else name)).outcome in {
                "again",
                "refused",
            }:
                tell(said)
                if said.outcome == "refused":
                    time.sleep(_PAUSE_S)
            tell(said)


def _outcome_of(act: Callable[[], object], kind: str, name: str) -> Said:
    outcome: Outcome = "kept"
    code = ""
    try:
        act()
    except StoreUnsure as problem:
        outcome, code = "again" if kind in _KEYED else "unsure", problem.code
    except StoreError as problem:
        outcome, code = "refused", problem.code
    except NotFound as problem:  # it was lost with a server
        outcome, code = "missed", problem.code
    return Said(outcome, kind, name, time.monotonic(), code)


def is_over() -> bool:
    """Whether standard input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _write(number: int, url: str, learner: str) -> None:
    def tell(said: Said) -> None:
        os.write(
            sys.stdout.fileno(), f"{number} {said.line}\n".encode()
        )  # at once, whoever else writes there

    with closing(Store(Server(url))) as store:
        # All of one name, as agents that share a token.
        keep_acting(
            Context(store=store, learner=learner, actor=Actor(name="agent")), str(number), is_over, tell
        )


def main(url: str, n_writers: str, *learners: str) -> int:
    """Fork so many writers, who write to the learners in turn; 0 if all of them ended as they should."""
    children = []
    for number in range(int(n_writers)):
        child = os.fork()
        if not child:
            _write(number, url, learners[number % len(learners)])
            return 0
        children.append(child)
    return int(max(os.waitpid(child, 0)[1] for child in children) > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
