"""Sequences of calls on one qortex learner, played on a context of ours.

qortex keeps a posterior per context and can decay one; we do neither. So what is asked of a context is left
out of the play, and everything asked without one is compared: `Expected` follows the questions, not the
answers, and says for each where ours must differ, or can't be compared because an earlier difference is still
in that arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from core.errors import InvalidReward, NotApplicable, UnknownArm
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.learn import reward
from core.flows.settings import change
from core.records.arm import ARM_TYPES, MICRO, Arm, Prior
from core.records.observation import OUTCOME_REWARDS
from core.store.store import Store
from core.store.transaction import DECLARED
from tests.conformance import rules
from tests.conformance.arm_ids import is_arm_id
from tests.conformance.vectors import ABSENT, Deviation, Vector, close, compare, load
from tests.worlds import context_at

TOLERANCE: Final = 1e-9
SEED_BOOST: Final = 2.0
TOP: Final = 10
"""So many arms qortex lists unless told how many."""

Op = Mapping[str, Any]
State = dict[str, float]
Answer = Any  # whatever JSON can hold

RULES: Final = {
    "contexts": (rules.ONE_POSTERIOR, "A reward given with a context would go where nobody reads."),
    "decay": (rules.ANY_ORDER, "A posterior that decays depends on when each fact came."),
    "credit": (
        rules.OBSERVED_ONLY,
        "Parameters are moved by observations only, never by a difference that may be negative.",
    ),
    "range": (
        rules.WITHIN_0_1,
        "One reward of 2 or -1 leaves a parameter of 0, which breaks every later selection.",
    ),
    "zero": (rules.NUMBER_FIRST, "qortex takes a reward of 0 for a missing one."),
    "neither": (rules.ACCEPTED, "qortex takes silence for a rejection."),
    "outcome": (rules.OUTCOMES, "Another word is refused, where qortex takes it for a rejection."),
    "unknown": (rules.KNOWN_ARMS, "So is a reset of one; qortex counts 0."),
    "nothing": (rules.NO_SILENT_RESET, "A reset with no arm in scope is refused; qortex answers 0."),
    "kept": (
        rules.NOTHING_DELETED,
        "An arm that was reset stays listed, at Beta(1,1) and zero pulls; qortex forgets it.",
    ),
    "ties": (rules.RANKS, "qortex ranks equal means as they came."),
}

_OURS: Final = "tool:qortex:"


@dataclass
class Expected:
    """Which answers must differ and why (`reasons`), and which an earlier difference makes incomparable."""

    reasons: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)
    elsewhere: set[tuple[str, str]] = field(default_factory=set)

    def follow(self, number: int, op: Op) -> None:
        if _context(op):
            self._in_context(number, op)
        else:
            getattr(self, f"_{op['op']}", lambda *_: None)(number, op)

    def _in_context(self, number: int, op: Op) -> None:
        self.reasons[f"{number} {op['op']}"] = "contexts"
        where = repr(_context(op))
        if op["op"] in {"observe", "decay"}:
            self.elsewhere.add((where, op["arm_id"]))
        elif op["op"] == "reset":
            named = op.get("arm_ids")
            self.elsewhere -= {
                (place, arm)
                for place, arm in self.elsewhere
                if place == where and (named is None or arm in named)
            }

    def _observe(self, number: int, op: Op) -> None:
        arm, name = op["arm_id"], f"{number} observe"
        reason = _observed_otherwise(op)
        if arm in self.differing:
            self.unsure.add(name)
        elif reason is not None:
            self.reasons[name] = reason
        if reason is not None:
            self.differing.add(arm)
        if reason not in {"range", "outcome"}:
            self.listed.add(arm)
            self.emptied.discard(arm)

    def _decay(self, number: int, op: Op) -> None:
        self.reasons[f"{number} decay"] = "decay"
        self.differing.add(op["arm_id"])

    def _credit(self, number: int, op: Op) -> None:
        self.reasons[f"{number} credit"] = "credit"
        self.differing |= set(op["deltas"])

    def _contexts(self, number: int, _op: Op) -> None:
        self.reasons[f"{number} contexts"] = "contexts"

    def _posteriors(self, number: int, _op: Op) -> None:
        self.unsure |= {f"{number} posteriors {arm}" for arm in self.differing}
        for arm in self.emptied - self.differing:
            self.reasons[f"{number} posteriors {arm}"] = "kept"

    def _metrics(self, number: int, _op: Op) -> None:
        sums = {f"{number} {name}" for name in ("total_pulls", "total_reward", "accuracy")}
        count = f"{number} arm_count"
        if self.differing or self.elsewhere:
            self.unsure |= sums
        if self.differing or (self.elsewhere and self.emptied):
            self.unsure.add(count)
        elif self.elsewhere or self.emptied:
            self.reasons[count] = "contexts" if self.elsewhere else "kept"

    def _top(self, number: int, _op: Op) -> None:
        if self.differing:
            self.unsure.add(f"{number} top")
        elif self.emptied:
            self.reasons[f"{number} top"] = "kept"

    def settle(self, number: int, ranked: Sequence[str]) -> None:
        """An arm that was reset is missing from theirs only where it is among the ``ranked``, ours."""
        if self.emptied.isdisjoint(ranked) and self.reasons.get(f"{number} top") == "kept":
            del self.reasons[f"{number} top"]

    def _reset(self, number: int, op: Op) -> None:
        named, name = op.get("arm_ids"), f"{number} reset"
        if named == []:
            return
        scope = set(self.listed if named is None else named)
        if not scope <= self.listed or not scope:
            self.reasons[name] = "unknown" if scope else "nothing"
            self.differing |= scope & self.listed
            return
        if self.differing or (self.emptied & scope and self.elsewhere):
            self.unsure.add(name)
        elif self.emptied & scope:
            self.reasons[name] = "kept"
        elif named is None and "context" not in op and self.elsewhere:
            self.reasons[name] = "contexts"
        self.emptied |= scope
        self.differing = set() if named is None else self.differing - scope
        if named is None and "context" not in op:
            self.elsewhere.clear()


def _context(op: Op) -> Mapping[str, Any]:
    """The context an operation is in; an empty one is the default's."""
    given = op.get("context", op.get("outcome_context"))
    return given if given is not None else {}


def _observed_otherwise(op: Op) -> str | None:
    outcome = op.get("outcome") or None
    if "reward" not in op:
        return "neither" if outcome is None else None if outcome in OUTCOME_REWARDS else "outcome"
    if not 0 <= op["reward"] <= 1:
        return "range"
    return "zero" if op["reward"] == 0 and outcome in {"accepted", "partial"} else None


@pytest.mark.parametrize("vector", load("qortex_learner"))
def test_a_learner_answers_as_qortexs_does(vector: Vector, tmp_path: Path) -> None:
    ops, config = vector.input["ops"], vector.input["config"]
    expected = Expected(listed=set(config.get("seed_arms", ())))
    learner = Player.of(tmp_path / "learner.db", config)
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for number, (op, told) in enumerate(zip(ops, vector.output, strict=True)):
        expected.follow(number, op)
        answer: Answer = ABSENT if _context(op) else learner.play(op)
        if op["op"] == "top" and not _context(op):
            expected.settle(number, [arm for arm, _ in answer])
        ours |= _named(number, op, answer)
        theirs |= _named(number, op, told)
    learner.context.store.close()
    expected.reasons |= {
        name: "ties"
        for name, told in theirs.items()
        if name.endswith(" top") and isinstance(told, list) and _is_tied(ours.get(name, ABSENT), told)
    }
    deviations = [_deviation(kind, expected.reasons) for kind in RULES]
    for answers in (ours, theirs):
        for name in expected.unsure:
            answers.pop(name, None)
    compare(vector, ours, theirs, deviations, close(TOLERANCE))


def _deviation(kind: str, reasons: Mapping[str, str]) -> Deviation:
    rule, reason = RULES[kind]
    return Deviation(rule, reason, lambda case: reasons.get(case.name) == kind)


def _named(number: int, op: Op, answer: Answer) -> dict[str, Any]:
    """An answer by name; of posteriors each arm's, of metrics each number."""
    kind = op["op"]
    if answer is ABSENT or _context(op):
        return {f"{number} {kind}": answer}
    if kind == "posteriors":
        return {f"{number} posteriors {arm}": _state(state) for arm, state in answer.items()}
    if kind == "metrics":
        return {f"{number} {name}": value for name, value in answer.items() if name != "learner"}
    if kind == "top":
        return {f"{number} top": [(arm, _state(state)) for arm, state in answer]}
    return {f"{number} {kind}": _state(answer) if kind == "observe" else answer}


def _state(state: Mapping[str, Any]) -> State:
    return {name: value for name, value in state.items() if name != "last_updated"}


def _is_tied(ours: Answer, theirs: list[tuple[str, State]]) -> bool:
    """Whether they differ in nothing but which of several arms of equal mean comes first, or at all."""
    if not isinstance(ours, list) or [arm for arm, _ in ours] == [arm for arm, _ in theirs]:
        return False
    same = close(TOLERANCE)
    return same([state["mean"] for _, state in ours], [state["mean"] for _, state in theirs])


@dataclass
class Player:
    """A context that is asked what qortex was asked; arms go by ids of ours, every prior is uniform."""

    context: Context
    path: Path

    @classmethod
    def of(cls, path: Path, config: Mapping[str, Any]) -> Player:
        context = context_at(path)
        uniform = {"alpha_micro": MICRO, "beta_micro": MICRO}
        change(context, "priors", dict.fromkeys(ARM_TYPES, uniform))
        boost = round(config.get("seed_boost", SEED_BOOST) * MICRO)
        prior = Prior(alpha_micro=boost, beta_micro=MICRO)
        seeds = [Arm(key=_key(arm), prior=prior) for arm in config.get("seed_arms", ())]
        context.write("ingest", lambda txn: txn.ensure_arms(seeds, declared=DECLARED), create=True)
        return cls(context, path)

    def play(self, op: Op) -> Answer:
        return getattr(self, f"_{op['op']}", lambda _: ABSENT)(op)

    def _observe(self, op: Op) -> Answer:
        # An explicit number wins, so the word beside it need not be one of ours.
        outcome = op.get("outcome") or None
        value = op.get("reward")
        try:
            reward(
                self.context,
                _key(op["arm_id"]),
                value,
                outcome=outcome if value is None else None,
                create=True,
            )
        except InvalidReward:
            return ABSENT
        return self._states()[op["arm_id"]]

    def _reset(self, op: Op) -> Answer:
        named = op.get("arm_ids")
        if named == []:  # none are named: that is not all of them
            return 0
        try:
            return reset(self.context, arms=[_key(arm) for arm in named or ()]).reset_count
        except (NotApplicable, UnknownArm):
            return ABSENT

    def _posteriors(self, op: Op) -> dict[str, State]:
        named = op.get("arm_ids")
        return {arm: state for arm, state in self._states().items() if named is None or arm in named}

    def _top(self, op: Op) -> list[tuple[str, State]]:
        """The first of the ranking; how many, ours leaves to whoever reads it."""
        believed = queries.belief(self.context)
        order = believed.summary.rank.argsort()
        states = self._states()
        ranked = [_name(believed.columns.keys[place]) for place in order]
        return [(arm, states[arm]) for arm in ranked[: op.get("k", TOP)]]

    def _metrics(self, _op: Op) -> dict[str, float]:
        states = self._states().values()
        pulls, total = sum(state["pulls"] for state in states), sum(state["total_reward"] for state in states)
        return {
            "total_pulls": pulls,
            "total_reward": total,
            "accuracy": round(total / pulls, 4) if pulls else 0.0,
            "arm_count": len(states),
            "explore_ratio": queries.frame(self.context).settings.baseline_rate,
        }

    def _reopen(self, _op: Op) -> str:
        self.context.store.close()
        self.context = replace(self.context, store=Store(self.path))
        return "ok"

    def _states(self) -> dict[str, State]:
        believed = queries.belief(self.context)
        columns, summary = believed.columns, believed.summary
        return {
            _name(key): {
                "alpha": float(summary.alpha[place]),
                "beta": float(summary.beta[place]),
                "pulls": int(columns.pulls[place]),
                "total_reward": int(columns.success_micro[place]) / MICRO,
                "mean": float(summary.mean[place]),
            }
            for place, key in enumerate(columns.keys)
        }


def _key(arm: str) -> str:
    """qortex takes any text for an arm's id."""
    return arm if is_arm_id(arm) else f"{_OURS}{arm}"


def _name(key: str) -> str:
    return key.removeprefix(_OURS)


# What no vector shows


def _told(*arms: tuple[str, float]) -> list[tuple[str, State]]:
    return [(arm, {"alpha": alpha, "beta": 1.0, "mean": alpha / (alpha + 1)}) for arm, alpha in arms]


@pytest.mark.parametrize(("k", "n_listed"), [(0, 0), (1, 1), (2, 2), (9, 3), (None, 3), (-1, 2)])
def test_a_ranking_ends_after_k(tmp_path: Path, k: int | None, n_listed: int) -> None:
    learner = Player.of(tmp_path / "learner.db", {})
    for arm in "abc":
        learner.play({"op": "observe", "arm_id": arm, "reward": 1})
    listed = learner.play({"op": "top", "k": k})
    assert [arm for arm, _ in listed] == list("abc")[:n_listed]
    learner.context.store.close()


def test_a_ranking_without_the_arms_that_were_reset_is_the_same_as_theirs() -> None:
    expected = Expected(emptied={"c"})
    for ranked, is_kept in (("ab", False), ("abc", True)):
        expected.follow(0, {"op": "top"})
        expected.settle(0, ranked)
        assert ("0 top" in expected.reasons) is is_kept


@pytest.mark.parametrize(
    ("theirs", "is_tied"),
    [
        (_told(("b", 2), ("a", 2)), True),
        (_told(("a", 2), ("c", 2)), True),
        (_told(("a", 2), ("b", 2)), False),
        (_told(("a", 2), ("c", 1)), False),
        (_told(("b", 2)), False),
    ],
)
def test_rankings_are_tied_where_only_names_differ(theirs: list[tuple[str, State]], is_tied: bool) -> None:
    assert _is_tied(_told(("a", 2), ("b", 2)), theirs) is is_tied
