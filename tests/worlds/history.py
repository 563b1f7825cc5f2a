"""Random histories: everything that can be done, done to a learner and to the plain model of the rules alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from random import Random

import msgspec

from core.errors import Conflict, NotApplicable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.records.arm import Arm
from core.records.corrections import Target
from core.records.run import Inventory, Run
from core.store.lines import arm_lines
from tests.flows.model import Model, Reset, Reward, Telling
from tests.flows.sources import check_sources
from tests.worlds import START_MS, a_run, context_at

ARMS = [f"tool:other:{letter}" for letter in "abcdef"]
REWARDS = [Fraction(0), Fraction(1), Fraction(1, 2), Fraction(1, 8), Fraction(37, 100)]

Believed = dict[str, tuple[float, float, int, float, int]]
"""Of each arm: alpha, beta, whole pulls, the exact sum of them, and inclusions."""

Content = tuple[frozenset[str], frozenset[str], frozenset[tuple[str, int]]]


class History:
    """Does the same thing to a learner and to the model, step by step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.context = context_at(folder / "history.db")
        self.model = Model()
        self.rewards: dict[str, Reward] = {}
        self.resets: dict[str, Reset] = {}
        self.imports: list[str] = []

    def play(self, n_steps: int) -> None:
        for _ in range(n_steps):
            self.random.choice(self._moves())()

    def _moves(self) -> list[Callable[[], None]]:
        return [
            self.record_run,
            self.record_run,
            self.import_runs,
            self.import_runs,
            self.give_reward,
            self.give_reward,
            self.give_reward,
            self.reset_arms,
            self.undo_something,
            self.undo_something,
            self.redo_something,
        ]

    def record_run(self) -> None:
        """Record a run directly; it may be one that an import told, or will tell."""
        uid, rank = f"run-{self.random.randrange(8)}", self.random.randrange(4)
        standing = self.model.standing(uid)
        clashes = (
            standing is not None and rank <= standing[0].rank and told_as(uid, rank) != told_by(standing[0])
        )
        try:
            record(self.context, made_of(uid, rank))
        except Conflict:
            assert clashes
            return
        assert not clashes
        self._tell(uid, 0, rank)

    def import_runs(self) -> None:
        """A file that tells a few runs, some of them again and longer."""
        told = [
            (f"run-{number}", self.random.randrange(4))
            for number in self._some([str(number) for number in range(8)], at_least=1)
        ]
        file = self.folder / f"import-{len(self.imports) + 1}.jsonl"
        file.write_bytes(b"".join(line_of(uid, rank) for uid, rank in told))
        act = import_files(self.context, [file]).id
        if act is None:  # nothing new
            return
        self.imports.append(act)
        for uid, rank in told:
            self._tell(uid, len(self.imports), rank)

    def give_reward(self) -> None:
        columns = queries.belief(self.context).columns
        if not columns.keys:
            return
        arm, run, correct = self._about(columns.keys)
        value = self.random.choice(REWARDS)
        standing = None if run is None else self.model.standing(run)
        admits = run is None or (
            standing is not None and arm in standing[0].included and (standing[0].observed or not correct)
        )
        if run is not None and standing is None:
            return
        try:
            answer = reward(self.context, arm, float(value), run=run, correct=correct)
        except NotApplicable:
            assert not admits
            return
        assert admits
        made = Reward(arm, run, value, correct, queries.revision(self.context).revision)
        self.model.rewards.append(made)
        self.rewards[answer.id] = made

    def _about(self, arms: Sequence[str]) -> tuple[str, str | None, bool]:
        """Return arm, run and whether to correct; some corrections correct an earlier one."""
        corrected = [(one.arm, one.run) for one in self.model.rewards if one.correct]
        if corrected and self.random.random() < 0.3:
            return *self.random.choice(corrected), True
        run = self.random.choice([None, None, *self.model.tellings])
        return self.random.choice(arms), run, run is not None and self.random.random() < 0.6

    def reset_arms(self) -> None:
        columns = queries.belief(self.context).columns
        if not columns.keys:
            return
        arms = self._some(list(columns.keys), at_least=1)
        target: Target = self.random.choice(["uniform", "prior"])
        answer = reset(self.context, arms=arms, target=target)
        made = Reset(frozenset(arms), target, queries.revision(self.context).revision)
        self.model.resets.append(made)
        self.resets[answer.id] = made

    def undo_something(self) -> None:
        act = self._any_act()
        if act is not None:
            undo(self.context, act)
            self._mark(act, undone=True)

    def redo_something(self) -> None:
        act = self._any_act()
        if act is not None:
            redo(self.context, act)
            self._mark(act, undone=False)

    def check(self) -> None:
        assert beliefs_by_arm(self.context) == folded(self.model)
        check_sources(self.context)
        check_sources(self.context, START_MS + self.random.randrange(40) * 1_000_000)
        assert described(self.context) == self.model.descriptions()
        verification = queries.verify(self.context)
        assert verification.clean, verification.differences

    def _any_act(self) -> str | None:
        acts = [*self.rewards, *self.resets, *self.imports]
        return self.random.choice(acts) if acts else None

    def _mark(self, act: str, *, undone: bool) -> None:
        kind: str = "import" if act in self.imports else "reset" if act in self.resets else "reward"
        if kind == "import":
            number = int(act.removeprefix("import-"))
            (self.model.undone_imports.add if undone else self.model.undone_imports.discard)(number)
        elif kind == "reset":
            self.resets[act].undone = undone
        else:
            self.rewards[act].undone = undone

    def _tell(self, uid: str, import_no: int, rank: int) -> None:
        revision = queries.revision(self.context).revision
        self.model.tell(uid, Telling(import_no, revision, rank, *told_as(uid, rank)), sayings_of(uid, rank))

    def _some(self, values: list[str], at_least: int = 0) -> list[str]:
        return sorted(self.random.sample(values, self.random.randrange(at_least, len(values) + 1)))


def shape_of(uid: str, rank: int) -> tuple[list[str], list[str]]:
    """Arms in a run's prompt and those it used: the same run at the same length always says the same."""
    shape = Random(f"{uid} {rank}")
    included = sorted(shape.sample(ARMS, shape.randrange(1, len(ARMS))))
    return included, sorted(shape.sample(included, shape.randrange(len(included) + 1)))


def words_of(uid: str, rank: int, arm: str) -> tuple[int | None, str | None]:
    """Cost and label that a run says of an arm, or says nothing of."""
    words = Random(f"{uid} {rank} {arm}")
    return words.choice([None, 10, 20]), words.choice([None, None, "One", "Other"])


def arms_of(uid: str, rank: int) -> tuple[Arm, ...]:
    """The arms in a run's prompt, as it describes them."""
    words = {arm: words_of(uid, rank, arm) for arm in shape_of(uid, rank)[0]}
    return tuple(Arm(key=arm, token_cost=cost, label=label) for arm, (cost, label) in words.items())


def made_of(uid: str, rank: int) -> Run:
    """The run of that id and length."""
    inventory = Inventory(kind="declared", arms=arms_of(uid, rank))
    calls = names_of(shape_of(uid, rank)[1])
    return a_run(uid, calls=calls, rank=rank, at_ms=time_of(uid), tokens=None, inventory=inventory)


def sayings_of(uid: str, rank: int) -> list[tuple[str, int | None, str | None]]:
    """What a run says of its arms."""
    return [(arm.key, arm.token_cost, arm.label) for arm in arms_of(uid, rank)]


def time_of(uid: str) -> int | None:
    """When a run ended; every fourth doesn't say."""
    number = int(uid.removeprefix("run-"))
    return None if number % 4 == 0 else START_MS + number * 5_000_000


def beliefs_by_arm(context: Context) -> Believed:
    """What a learner believes."""
    return {
        one.arm: (
            one.alpha,
            one.beta,
            one.pulls,
            one.pulls if one.pulls_exact is None else one.pulls_exact,
            one.inclusions,
        )
        for one in queries.posteriors(context)
    }


def folded(model: Model) -> Believed:
    """The same of the model."""
    return {
        arm: (float(alpha), float(beta), int(pulls), float(pulls), inclusions)
        for arm, (alpha, beta, pulls, inclusions) in model.posteriors().items()
    }


def described(context: Context) -> dict[str, tuple[int | None, str | None]]:
    """Cost and label of every listed arm."""
    with context.reading() as snapshot:
        return {line.key: (line.token_cost, line.label) for line in arm_lines(snapshot)}


def told_as(uid: str, rank: int) -> Content:
    """What is remembered of a run: the arms it had in, those it used, and what they cost."""
    included, used = shape_of(uid, rank)
    costs = [(arm.key, arm.token_cost) for arm in arms_of(uid, rank) if arm.token_cost is not None]
    return frozenset(included), frozenset(used), frozenset(costs)


def told_by(telling: Telling) -> Content:
    return telling.included, telling.referenced, telling.costs


def names_of(arms: list[str]) -> list[str]:
    return [arm.rsplit(":", 1)[1] for arm in arms]


def line_of(uid: str, rank: int) -> bytes:
    arms = [{"key": arm.key, "token_cost": arm.token_cost, "label": arm.label} for arm in arms_of(uid, rank)]
    line = {"kind": "run", "uid": uid, "arms": arms, "calls": names_of(shape_of(uid, rank)[1]), "rank": rank}
    if time_of(uid) is not None:
        line |= {"ended_at_ms": time_of(uid)}
    return msgspec.json.encode(line) + b"\n"
