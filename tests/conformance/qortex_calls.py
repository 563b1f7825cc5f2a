"""qortex's protocol played on a desk of ours: what every call must come to, and where that isn't what qortex said.

Twice over: as it was recorded, where ids are none of ours and are refused; and with each id made one
(``tool:other:…``), where the arithmetic must be equal. `Model` says by the rules alone what ours must be.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from core.doors.service import Service
from core.records.actor import Actor
from core.records.observation import OUTCOME_REWARDS
from core.store.store import Store
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id
from tests.conformance.vectors import close
from tests.worlds import START_MS, empty_database

RULES: Final[Mapping[str, str]] = {
    "ids": rules.NO_ARM,
    "contexts": rules.CONTEXT_WRITTEN,
    "zero": rules.NUMBER_FIRST,
    "neither": rules.ACCEPTED,
    "range": rules.WITHIN_0_1,
    "outcome": rules.OUTCOMES,
    "kept": rules.STAYS_LISTED,
    "shape": rules.BOTH_SHAPES,
    "5xx": rules.NO_5XX,
    "baseline": rules.BASELINE,
    "forgotten": rules.NOTHING_DELETED,
    "nothing": rules.NOTHING_OFFERED,
    "seeds": rules.SEEDS_OFFERED,
}
TOLERANCE: Final = 1e-9
OPERATOR: Final = Actor(name="mara", role="operator")
Document = dict[str, Any]
Args = Mapping[str, Any]
same: Final = close(TOLERANCE)

_NEEDED: Final = {
    "select": {"candidates"},
    "observe": {"arm_id"},
    "session_start": {"session_name"},
    "session_end": {"session_id"},
}
LAST: Final = "$last"
NOWHERE: Final = {"error": "Session <uuid> not found in any learner"}
"""Stands for the session that began last, wherever it is."""


@contextmanager
def desk_at(folder: Path) -> Iterator[Service]:
    """A desk over a fresh file whose clock goes a second with every act; its coin never falls on baseline."""
    path = folder / "qortex.db"
    path.touch(0o600)
    path.write_bytes(empty_database())
    ticks, numbers = count(), count(1)
    store = Store(path)
    yield Service(
        store=store,
        clock=lambda: START_MS + next(ticks) * 1_000,
        entropy=lambda: 1,
        identity=lambda: f"identity-{next(numbers)}",
    )
    store.close()


@dataclass
class Refused:
    """A call that was not taken."""

    status: int = 400


Answer = Document | Refused
Ask = Callable[[str, Args], Answer]
"""Plays one call, by its name and arguments."""


@dataclass
class State:
    """What the rules make of an arm."""

    alpha: float = 1.0
    beta: float = 1.0
    pulls: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    def told(self, arm: str) -> Document:
        return {
            "arm_id": arm,
            "alpha": round(self.alpha, 4),
            "beta": round(self.beta, 4),
            "mean": round(self.mean, 4),
            "pulls": self.pulls,
        }

    def listed(self) -> Document:
        return {
            **{name: held for name, held in self.told("").items() if name != "arm_id"},
            "total_reward": round(self.total, 4),
            "last_updated": "<ts>",
        }


@dataclass
class Model:
    """What ours must answer, and by which rule that may differ from theirs.

    ``taints`` names, by arm, the rule by which its counts are others than qortex's. What was ``offered`` is known,
    and is reset with the rest, before anyone observed it.
    """

    arms: dict[str, State] = field(default_factory=dict)
    taints: dict[str, str] = field(default_factory=dict)
    offered: set[str] = field(default_factory=set)
    is_poisoned: bool = False
    """A reward outside 0 to 1 left qortex a parameter that is not positive, with which it draws no more."""

    def expect(self, name: str, args: Args) -> tuple[Answer | None, str | None]:
        """What ours must be (None: of that only the shape is known), and the rule by which it may differ."""
        found: tuple[Answer | None, str | None] = getattr(self, f"_{name}")(args)
        return found

    def _observe(self, args: Args) -> tuple[Answer, str | None]:
        arm = args["arm_id"]
        reason = _otherwise(args)
        if reason is not None:
            self.taints.setdefault(arm, reason)
        self.is_poisoned |= reason == "range"
        if reason in {"ids", "range", "outcome"}:
            return Refused(), reason
        reward = _reward(args)
        state = self.arms.setdefault(arm, State())
        state.alpha += reward
        state.beta += 1 - reward
        state.pulls += 1
        state.total += reward
        return state.told(arm), self.taints.get(arm)

    def _posteriors(self, args: Args) -> tuple[Answer, str | None]:
        wanted = args.get("arm_ids")
        listed = {arm: state.listed() for arm, state in self.arms.items() if wanted is None or arm in wanted}
        reason = "contexts" if args.get("context") else self._any_taint()
        return {"learner": args["learner"], "posteriors": listed}, reason

    def _metrics(self, args: Args) -> tuple[Answer, str | None]:
        if not isinstance(args.get("window", 0), int | None):
            return Refused(), "5xx"
        pulls = sum(state.pulls for state in self.arms.values())
        total = sum(state.total for state in self.arms.values())
        return {
            "learner": args["learner"],
            "total_pulls": pulls,
            "total_reward": total,
            "accuracy": round(total / max(pulls, 1), 4),
            "arm_count": len(self.arms),
            "explore_ratio": 0.1,
        }, self._any_taint()

    def _reset(self, args: Args) -> tuple[Answer, str | None]:
        named = args.get("arm_ids")
        if any(not is_arm_id(arm) for arm in named or ()):
            return Refused(), "ids"
        known = self.arms.keys() | self.offered
        done = sorted(known if named is None else known & set(named))
        for arm in done:
            self.arms[arm] = State()
            self.taints[arm] = "kept"
        self.is_poisoned &= named is not None or bool(args.get("context"))
        counts = {"reset_count": len(done), "deleted": len(done), "arm_ids": done}
        return {"learner": args["learner"], "status": "reset", **counts}, "shape"

    def _select(self, args: Args) -> tuple[Answer | None, str | None]:
        ids = [one["id"] for one in args["candidates"]]
        seeds, boost = args.get("seed_arms") or (), args.get("seed_boost")
        boosted = ids if boost is not None and not seeds else seeds
        self.taints |= {arm: "seeds" for arm in boosted if arm not in self.taints}
        if not all(map(is_arm_id, ids)):
            return Refused(), "ids"
        for arm in set(boosted).intersection(ids) - self.offered - self.arms.keys():
            if boost is not None and boost != 1:  # else it is as any other
                self.arms[arm] = State(alpha=boost)
        self.offered.update(ids)
        reasons = {"nothing": not ids, "range": self.is_poisoned, "seeds": bool(seeds)}
        return None, next((reason for reason, applies in reasons.items() if applies), None)

    def _session_start(self, args: Args) -> tuple[Answer | None, str | None]:
        return ({"error": "'learner' and 'session_name' are required"} if len(args) < 2 else None), None

    def _session_end(self, args: Args) -> tuple[Answer | None, str | None]:
        return None, None

    def _any_taint(self) -> str | None:
        return next(iter(self.taints.values()), None)


@dataclass
class Sequence:
    """What calls on one server must come to, learner by learner."""

    models: defaultdict[object, Model] = field(default_factory=lambda: defaultdict(Model))
    is_over: bool = False

    def expect(self, name: str, args: Args) -> tuple[Answer | None, str | None]:
        """What ours must be, as of `Model`. Both an end and a reset make qortex forget its sessions."""
        must, reason = self.models[args.get("learner")].expect(name, args)
        if name == "session_end" and self.is_over:
            reason = "forgotten"
        self.is_over = name in {"reset", "session_end"} or (self.is_over and name != "session_start")
        return must, reason


def is_malformed(name: str, args: object) -> bool:
    """Whether the schema itself refuses the arguments, or no one could know what is on offer."""
    if not isinstance(args, Mapping) or not _NEEDED.get(name, set()) <= args.keys():
        return True
    if name != "session_end" and not args.get("learner"):
        return True
    candidates = args.get("candidates", ())
    is_listed = isinstance(candidates, list | tuple) and all(isinstance(one, Mapping) for one in candidates)
    return not is_listed or any("id" not in one for one in candidates) or isinstance(args.get("reward"), str)


def with_last(value: Any, session: str) -> Any:  # noqa: ANN401 - JSON
    """The same with the id of the last session wherever a recording names it."""
    if isinstance(value, list):
        return [with_last(one, session) for one in value]
    if isinstance(value, dict):
        return {name: with_last(held, session) for name, held in value.items()}
    return value.replace(LAST, session) if isinstance(value, str) else value


def _otherwise(args: Args) -> str | None:
    """By which rule an observation comes to something else."""
    outcome = args.get("outcome") or None
    if not is_arm_id(args["arm_id"]):
        return "ids"
    if "reward" not in args:
        if outcome is not None and outcome not in OUTCOME_REWARDS:
            return "outcome"
        if outcome is None:
            return "neither"
    elif not 0 <= args["reward"] <= 1:
        return "range"
    elif args["reward"] == 0 and outcome in {"accepted", "partial"}:
        return "zero"
    return "contexts" if args.get("context") else None


def _reward(args: Args) -> float:
    if "reward" in args:
        return float(args["reward"])
    found: float = {**OUTCOME_REWARDS}[args.get("outcome") or "accepted"]
    return found


# Comparing


def hold(ours: Answer, must: Answer | None, theirs: Answer, reason: str | None, where: str) -> str | None:
    """Hold an answer against the rules and against theirs; the rule by which it differs from theirs."""
    if must is not None:
        assert _alike(ours, must), f"{where}: ours is {ours!r}, by the rules {must!r}"
    if _alike(ours, theirs):
        return None
    assert reason is not None, f"{where}: ours is {ours!r}, theirs {theirs!r}"
    return reason


def _alike(one: Answer, other: Answer) -> bool:
    if isinstance(one, Refused) or isinstance(other, Refused):
        return isinstance(one, Refused) and isinstance(other, Refused)
    return same(one, other)


def scrubbed(answer: Document) -> Document:
    """An answer without its times, its ids, and the warning about an unknown learner."""
    found = {name: held for name, held in answer.items() if name != "warning"}
    if "session_id" in found:
        found["session_id"] = "<uuid>"
    found |= {at: "<ts>" for at in ("started_at", "ended_at") if at in found}
    if isinstance(found.get("posteriors"), dict):
        found["posteriors"] = {
            arm: {**state, "last_updated": "<ts>"} for arm, state in found["posteriors"].items()
        }
    return found


def as_recorded(answer: Document) -> Document:
    """What of a selection was recorded: its shape."""
    entries = [*answer["selected_arms"], *answer["excluded_arms"]]
    ids = [one["id"] for one in entries]
    chosen = answer["selected_arms"]
    return {
        "keys": sorted(answer),
        "selected_entry_keys": sorted(chosen[0]) if chosen else None,
        "n_selected": len(chosen),
        "partition": len(set(ids)) == len(ids),
        "token_budget": answer["token_budget"],
    }


# Ids


def renamed(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same with every arm's id made one of ours, wherever it stands."""
    if isinstance(value, list):
        return [renamed(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: renamed(held) for name, held in value.items()}
    for name in ("arm_id", "id"):
        if isinstance(found.get(name), str):
            found[name] = _key(found[name])
    for name in ("arm_ids", "seed_arms"):
        if isinstance(found.get(name), list):
            found[name] = [_key(one) if isinstance(one, str) else one for one in found[name]]
    if isinstance(found.get("posteriors"), dict):
        found["posteriors"] = {_key(arm): held for arm, held in found["posteriors"].items()}
    return found


def _key(arm: str) -> str:
    return arm if is_arm_id(arm) else f"tool:other:{arm}"


def observed_as(alpha: float, beta: float, mean: float, pulls: int) -> Document:
    """Return qortex's answer to an observation of the arm ``a``."""
    return {"arm_id": "a", "alpha": alpha, "beta": beta, "mean": mean, "pulls": pulls}


def end_of(learner: str) -> Document:
    """Return qortex's answer to the end of a session in which nothing was selected."""
    return {
        **{"session_id": "<uuid>", "learner": learner, "selected_arms": [], "outcomes": {}},
        **{"started_at": "<ts>", "ended_at": "<ts>"},
    }


def print_tally(tally: Counter[str], what: str) -> None:
    """Say by which rules answers differ, and how often."""
    told = [f"  {count:4}  {name}: {RULES[name]}" for name, count in sorted(tally.items()) if count]
    sys.stdout.write("\n".join(["", f"{what}: answers that differ from qortex's, by rule", *told, ""]))
