"""A machine that judges, revises, undoes, redoes, resets and imports in any order, beside a plain model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    initialize,
    invariant,
    rule,
)

from core.errors import Conflict
from core.flows import queries
from core.flows.corrections import redo, reset, undo
from core.flows.evaluate import evaluate_all
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.settings import change
from core.maths.quality import total, updates
from core.records.evaluation import EvaluationOrder, EvaluationOutcome, Rated
from core.store.quality import stored_quality
from core.store.subjects import subject_no
from tests.flows.sources import check_sources
from tests.worlds import a_run, context_at, lines_file
from tests.worlds.machines import LearnerMachine, run_machine

ARMS = {"r1": ("a", "b", "c"), "r2": ("b", "c")}
USED = {"r1": ("a",), "r2": ("b", "c")}
LAYERS = ("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", "bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee")
EXECUTIONS = ("11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555")
MICRO = 1_000_000

Subject = tuple[str | None, str | None, str | None, str | None]
SUBJECTS: st.SearchStrategy[Subject] = st.sampled_from(
    [
        *((None, None, run, None) for run in ARMS),
        *((None, None, run, f"tool:other:{arm}") for run, arms in ARMS.items() for arm in arms),
        *((layer, None, None, None) for layer in LAYERS),
        *((layer, execution, None, None) for layer in LAYERS for execution in EXECUTIONS),
    ]
)
NAMES = st.sampled_from([("mara", None), ("bob", None), (None, "judge-1"), ("mara", "judge-1"), (None, None)])
OUTCOMES: st.SearchStrategy[EvaluationOutcome] = st.sampled_from(["success", "failure"])
KEYS = st.none() | st.sampled_from(["k1", "k2"])
SCORES = st.none() | st.sampled_from([0.0, 1.0, 0.5, 0.7, 1 / 3])


@dataclass
class Judged:
    """An evaluation as the model keeps it: ``told`` names the imports that told it, None: made here."""

    subject: Subject
    names: tuple[str | None, str | None]
    outcome: EvaluationOutcome
    score: float | None
    mover: str
    credit: dict[str, int]
    told: set[str] | None = None

    @property
    def grader(self) -> str:
        rater, model = self.names
        return "model" if model else "human" if rater else "unknown"


@dataclass
class Model:
    """Facts in the order of their revisions, and what is undone."""

    judged: dict[str, Judged] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    resets: dict[str, str] = field(default_factory=dict)
    keys: dict[str, tuple[EvaluationOrder, str]] = field(default_factory=dict)

    def stands(self, act: str) -> bool:
        told = self.judged[act].told
        return act not in self.undone and (told is None or bool(told - self.undone))

    def counting(self) -> dict[str, Judged]:
        """Those that stand, and are the latest of their key."""
        latest: dict[object, str] = {}
        for act, one in self.judged.items():
            if self.stands(act):
                layer, execution, run, arm = one.subject
                key = act if execution is None and run is None else (layer, execution, run, arm, one.names)
                latest[key] = act
        kept = set(latest.values())
        return {act: one for act, one in self.judged.items() if act in kept}

    def beliefs(self) -> dict[str, tuple[int, int]]:
        """Successes and failures of each arm, without its base."""
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for run, arms in ARMS.items():
            for arm in arms:
                sums[f"tool:other:{arm}"][arm not in USED[run]] += MICRO
        for arm, success, failure in self.given():
            sums[arm][0] += success
            sums[arm][1] += failure
        started_again = {arm for act, arm in self.resets.items() if act not in self.undone}
        return {arm: (0, 0) if arm in started_again else (one[0], one[1]) for arm, one in sums.items()}

    def given(self) -> list[tuple[str, int, int]]:
        """What each arm gets in each run from each that moves it."""
        groups: dict[tuple[str | None, str], list[Judged]] = defaultdict(list)
        for one in self.counting().values():
            for arm in one.credit:
                groups[one.subject[2], arm].append(one)
        found = []
        for (_, arm), group in groups.items():
            moving = movers(group)
            for one, weight in zip(moving, dealt([one.credit[arm] for one in moving]), strict=True):
                worth = (
                    Fraction(repr(1.0 if one.score is None else one.score)) if one.outcome == "success" else 0
                )
                success = round(worth * weight)  # half to even, as decimals
                found.append((arm, success, weight - success))
        return found


def movers(group: list[Judged]) -> list[Judged]:
    """Those that move an arm, by what the setting was when each came."""
    moving: list[Judged] = []
    for one in group:
        chosen = [other for other in moving if other.grader == one.mover]
        if one.mover == "all" or (one.grader != one.mover and not chosen):
            moving.append(one)
        elif one.grader == one.mover:
            moving = [*chosen, one]
    return moving


def dealt(weights: list[int]) -> list[int]:
    """By largest remainder, so that they add up to their mean in whole millionths."""
    if not weights:
        return []
    whole = sum(weights) // len(weights)
    exact = [Fraction(whole * weight, sum(weights)) for weight in weights]
    parts = [floor(share) for share in exact]
    order = sorted(range(len(parts)), key=lambda place: (parts[place] - exact[place], place))
    for place in order[: whole - sum(parts)]:
        parts[place] += 1
    return parts


class Machine(LearnerMachine):
    """A learner and the model."""

    acts = Bundle[str]("acts")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.n_files = 0

    @initialize()
    def begin(self) -> None:
        for run, arms in ARMS.items():
            record(self.context, a_run(run, arms=arms, calls=USED[run]))

    @rule(target=acts, subject=SUBJECTS, names=NAMES, outcome=OUTCOMES, score=SCORES, key=KEYS)
    def judge(
        self,
        subject: Subject,
        names: tuple[str | None, str | None],
        outcome: EvaluationOutcome,
        score: float | None,
        key: str | None,
    ) -> str:
        layer, execution, run, arm = subject
        order = EvaluationOrder(
            layer=layer,
            execution=execution,
            run=run,
            arm=arm,
            outcome=outcome,
            score=score,
            rater=names[0],
            model=names[1],
            key=key,
            create=True,
        )
        if key in self.model.keys:
            return self.judge_under_a_known_key(order, *self.model.keys[key])
        (answer,) = evaluate_all(self.context, [order])
        if key is not None:
            self.model.keys[key] = order, answer.id
        in_force = self.settings()
        credit: dict[str, int] = {}
        if arm is not None:
            credit = {arm: MICRO}
        elif run is not None and in_force[1] != "none":
            named = ARMS[run] if in_force[1] == "equal" else USED[run]
            credit = dict(zip([f"tool:other:{name}" for name in named], shared(len(named)), strict=True))
        self.model.judged[answer.id] = Judged(subject, names, outcome, score, in_force[0], credit)
        return answer.id

    def judge_under_a_known_key(self, order: EvaluationOrder, first: EvaluationOrder, act: str) -> str:
        """The same request is answered as the first time, whether that is undone or not; another is refused, and
        whatever is sent with it.
        """
        if order == first:
            assert [one.id for one in evaluate_all(self.context, [order, order])] == [act, act]
            return act
        beside = EvaluationOrder(run="r1", outcome="success", rater="nobody")
        with pytest.raises(Conflict, match=f"belongs to {act}"):
            evaluate_all(self.context, [beside, order])
        return act

    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        """All that was sent under keys, at once and in any order."""
        sent = data.draw(st.permutations(list(self.model.keys.values())))
        if sent:
            answers = evaluate_all(self.context, [order for order, _ in sent])
            assert [one.id for one in answers] == [act for _, act in sent]

    def settings(self) -> tuple[str, str]:
        with self.context.reading() as snapshot:
            return snapshot.settings.graders, snapshot.settings.evaluation_credit

    @rule(target=acts, name=st.sampled_from(["graders", "evaluation_credit"]), data=st.data())
    def choose(self, name: str, data: st.DataObject) -> str:
        allowed = ["all", "human", "model"] if name == "graders" else ["none", "equal", "referenced"]
        act = change(self.context, name, data.draw(st.sampled_from(allowed))).id
        return act or "setting-0"

    @rule(target=acts, arm=st.sampled_from("abc"))
    def start_again(self, arm: str) -> str:
        act = reset(self.context, arms=[f"tool:other:{arm}"], target="prior").id
        self.model.resets[act] = f"tool:other:{arm}"
        return act

    @rule(target=acts, subject=SUBJECTS, outcome=OUTCOMES, number=st.integers(0, 2))
    def tell(self, subject: Subject, outcome: EvaluationOutcome, number: int) -> str:
        """An evaluation that a file tells, which other files may tell as well."""
        layer, execution, run, arm = subject
        said = {"layer": layer, "execution": execution, "run": run, "arm": arm}
        uid = f"elsewhere/{number}"
        known = next(
            (act for act, one in self.model.judged.items() if one.told is not None and one.names[0] == uid),
            None,
        )
        line: dict[str, object] = {
            "kind": "evaluation",
            "id": uid,
            "outcome": outcome,
            "rater": uid,
            **{name: value for name, value in said.items() if value is not None},
            "credit": [{"arm": arm}] if arm else [],
        }
        self.n_files += 1
        beside: dict[str, object] = {"kind": "arm", "key": f"tool:other:beside{self.n_files}"}
        made = import_files(self.context, [lines_file(self.place / f"{self.n_files}.jsonl", beside, line)])
        assert made.id is not None
        if known is None:
            number = 1 + max([int(act.rpartition("-")[2]) for act in self.model.judged], default=0)
            self.model.judged[f"evaluation-{number}"] = Judged(
                subject, (uid, None), outcome, None, "all", {arm: MICRO} if arm else {}, {made.id}
            )
        else:
            one = self.model.judged[known]
            assert one.told is not None
            if not one.told - self.model.undone:  # it stands again, later than all
                self.model.judged[known] = self.model.judged.pop(known)
            one.told.add(made.id)
        return made.id

    @rule(act=acts)
    def take_back(self, act: str) -> None:
        if act != "setting-0":
            undo(self.context, act)
            self.model.undone.add(act)

    @rule(act=acts)
    def let_stand(self, act: str) -> None:
        if act != "setting-0":
            redo(self.context, act)
            self.model.undone.discard(act)

    @invariant()
    def believes_what_the_model_does(self) -> None:
        wanted = self.model.beliefs()
        for one in queries.posteriors(self.context):
            if one.arm in wanted:
                base = one.prior
                found = (round((one.alpha - base.alpha) * MICRO), round((one.beta - base.beta) * MICRO))
                assert found == wanted[one.arm], one.arm
        check_sources(self.context)

    @invariant()
    def layers_are_worth_what_the_model_says(self) -> None:
        counting = self.model.counting().values()
        with self.context.reading() as snapshot:
            stored = stored_quality(snapshot)
            for layer in LAYERS:
                number = subject_no(snapshot, "layer", layer)
                rated = [
                    Rated(
                        outcome=one.outcome, score=one.score, rater=one.names[0], model=one.names[1], at_ms=0
                    )
                    for one in counting
                    if one.subject[0] == layer
                ]
                expected = total(updates(rated))
                found = None if number is None else stored.get(number)
                assert (found or (0, 0, 0, 0.0))[:4] == (
                    expected.retrievals,
                    expected.successes,
                    expected.failures,
                    expected.bonus,
                )

    def teardown(self) -> None:
        assert queries.verify(self.context).clean
        export_file(self.context, self.place / "all.jsonl")
        other = context_at(self.place / "other.db", name="bob")
        assert import_files(other, [self.place / "all.jsonl"]).rejected_count == 0
        mine, theirs = (
            {one.arm: (one.alpha, one.beta) for one in queries.posteriors(each)}
            for each in (self.context, other)
        )
        assert {arm: theirs[arm] for arm in mine} == mine
        assert queries.verify(other).clean
        other.store.close()
        self.context.store.close()
        self.folder.cleanup()


def shared(n_arms: int) -> list[int]:
    return [MICRO // n_arms + (place < MICRO % n_arms) for place in range(n_arms)]


@pytest.mark.parametrize("examples", [20, pytest.param(2_000, marks=pytest.mark.long)])
def test_whatever_is_judged_and_taken_back_the_sums_are_the_facts(examples: int) -> None:
    run_machine(Machine, examples, 15)
