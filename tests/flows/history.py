"""Random histories: everything that can be done, done to a learner and to the plain model of the rules alike."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random

import msgspec

from core.errors import Conflict, NotApplicable
from core.flows import look
from core.flows.desk import Desk
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.reset import reset
from core.flows.reward import reward
from core.flows.undo import redo, undo
from core.records.reset import Target
from core.store.tables import ActKind
from tests.flows.model import Model, Reset, Reward, Telling
from tests.flows.world import START_MS, desk_at, run_of

ARMS = [f"tool:other:{letter}" for letter in "abcdef"]
REWARDS = [Fraction(0), Fraction(1), Fraction(1, 2), Fraction(1, 8), Fraction(37, 100)]


class History:
    """Does the same thing to a learner and to the model, step by step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.desk = desk_at(folder / "history.db")
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
        included, used = shape_of(uid, rank)
        standing = self.model.standing(uid)
        clashes = (
            standing is not None and rank <= standing[0].rank and (included, used) != told_by(standing[0])
        )
        try:
            record(
                self.desk,
                run_of(uid, names_of(included), names_of(used), rank=rank, at_ms=time_of(uid), tokens=None),
            )
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
        answer = import_files(self.desk, [file])
        self.imports.append(answer.id)
        for uid, rank in told:
            self._tell(uid, len(self.imports), rank)

    def give_reward(self) -> None:
        columns = look.belief(self.desk).columns
        if not columns.keys:
            return
        arm, value = self.random.choice(columns.keys), self.random.choice(REWARDS)
        run = self.random.choice([None, None, *self.model.tellings])
        correct = run is not None and self.random.random() < 0.6
        standing = None if run is None else self.model.standing(run)
        admits = run is None or (
            standing is not None and arm in standing[0].included and (standing[0].observed or not correct)
        )
        if run is not None and standing is None:
            return
        try:
            answer = reward(self.desk, arm, float(value), run=run, correct=correct)
        except NotApplicable:
            assert not admits
            return
        assert admits
        made = Reward(arm, run, value, correct, look.pulse(self.desk).revision)
        self.model.rewards.append(made)
        self.rewards[answer.id] = made

    def reset_arms(self) -> None:
        columns = look.belief(self.desk).columns
        if not columns.keys:
            return
        arms = self._some(list(columns.keys), at_least=1)
        target: Target = self.random.choice(["uniform", "prior"])
        answer = reset(self.desk, arms=arms, target=target)
        made = Reset(frozenset(arms), target, look.pulse(self.desk).revision)
        self.model.resets.append(made)
        self.resets[answer.id] = made

    def undo_something(self) -> None:
        act = self._any_act()
        if act is not None:
            undo(self.desk, act)
            self._mark(act, undone=True)

    def redo_something(self) -> None:
        act = self._any_act()
        if act is not None:
            redo(self.desk, act)
            self._mark(act, undone=False)

    def check(self) -> None:
        expected = {
            arm: (float(alpha), float(beta), pulls, inclusions)
            for arm, (alpha, beta, pulls, inclusions) in self.model.posteriors().items()
        }
        assert said(self.desk) == expected
        verification = look.verify(self.desk)
        assert verification.clean, verification.found

    def _any_act(self) -> str | None:
        acts = [*self.rewards, *self.resets, *self.imports]
        return self.random.choice(acts) if acts else None

    def _mark(self, act: str, *, undone: bool) -> None:
        kind: ActKind = "import" if act in self.imports else "reset" if act in self.resets else "reward"
        if kind == "import":
            number = int(act.removeprefix("import-"))
            (self.model.undone_imports.add if undone else self.model.undone_imports.discard)(number)
        elif kind == "reset":
            self.resets[act].undone = undone
        else:
            self.rewards[act].undone = undone

    def _tell(self, uid: str, import_no: int, rank: int) -> None:
        included, used = shape_of(uid, rank)
        revision = look.pulse(self.desk).revision
        telling = Telling(import_no, revision, rank, frozenset(included), frozenset(used))
        self.model.tellings.setdefault(uid, []).append(telling)

    def _some(self, values: list[str], at_least: int = 0) -> list[str]:
        return sorted(self.random.sample(values, self.random.randrange(at_least, len(values) + 1)))


def shape_of(uid: str, rank: int) -> tuple[list[str], list[str]]:
    """Arms in a run's prompt and those it used: the same run at the same length always says the same."""
    shape = Random(f"{uid} {rank}")
    included = sorted(shape.sample(ARMS, shape.randrange(1, len(ARMS))))
    return included, sorted(shape.sample(included, shape.randrange(len(included) + 1)))


def time_of(uid: str) -> int | None:
    """When a run ended; every fourth doesn't say."""
    number = int(uid.removeprefix("run-"))
    return None if number % 4 == 0 else START_MS + number * 5_000_000


def said(desk: Desk) -> dict[str, tuple[float, float, int, int]]:
    return {one.arm: (one.alpha, one.beta, one.pulls, one.inclusions) for one in look.posteriors(desk)}


def told_by(telling: Telling) -> tuple[list[str], list[str]]:
    return sorted(telling.included), sorted(telling.referenced)


def names_of(arms: list[str]) -> list[str]:
    return [arm.rsplit(":", 1)[1] for arm in arms]


def line_of(uid: str, rank: int) -> bytes:
    included, used = shape_of(uid, rank)
    line = {"kind": "run", "uid": uid, "arms": included, "calls": names_of(used), "rank": rank}
    if time_of(uid) is not None:
        line |= {"ended_at_ms": time_of(uid)}
    return msgspec.json.encode(line) + b"\n"
