"""A machine and random histories of whatever can be done: beliefs are those of a plain model, bit for bit."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from core.errors import ArmscopeError, Conflict, InvalidInput, NotApplicable, UnknownArm, UnknownRun
from core.flows import queries
from core.flows.corrections import redo, repair, reset, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.records.arm import Posterior
from core.records.corrections import Target
from core.records.limits import LAST_MS
from core.records.observation import OUTCOME_REWARDS, RewardAnswer, RewardOutcome
from core.records.times import iso
from tests.flows.model import Model, Repair, Reset, Reward, Saying, Telling, Undos, in_millionths
from tests.flows.sources import check_sources
from tests.store.viewed import check_views
from tests.worlds import START_MS, context_at, lines_file
from tests.worlds.history import (
    ARMS,
    History,
    beliefs_by_arm,
    described,
    folded,
    line_of,
    made_of,
    sayings_of,
    time_of,
    told_as,
    told_by,
)
from tests.worlds.lively import THIRDS, part_line
from tests.worlds.machines import LearnerMachine, run_machine

UIDS = st.sampled_from([f"run-{number}" for number in range(5)])
RANKS = st.integers(0, 3)
KEYS = st.none() | st.sampled_from(["k1", "k2", "k3"])
VALUES = st.none() | st.sampled_from([0.0, 1.0, 0.5, 0.0000005, 0.0000015]) | st.floats(0, 1)
OUTCOMES: st.SearchStrategy[RewardOutcome | None] = st.none() | st.sampled_from(sorted(OUTCOME_REWARDS))
WEIGHTS = (*THIRDS, 1, 500_000, 999_999)
TARGETS: st.SearchStrategy[Target] = st.sampled_from(["uniform", "prior"])

Words = tuple[str, int | None, str | None]
WORDS: st.SearchStrategy[Words] = st.tuples(
    st.sampled_from(ARMS), st.none() | st.sampled_from([10, 30]), st.none() | st.sampled_from(["One", "Name"])
)
TOLD_RUNS = st.lists(st.tuples(UIDS, RANKS), min_size=1, max_size=4)

Content = tuple[str, float | None, RewardOutcome | None, str | None, bool]

Made = str | MultipleResults[str]
"""The act that a rule made; none where it was refused, or a repeat."""


def tell(
    model: Model, told: list[tuple[str, int]], named: list[Words], *, import_no: int, revision: int
) -> None:
    """Let the model know what runs, and lines about arms before them, tell together."""
    for uid, rank in told:
        model.tell(uid, Telling(import_no, revision, rank, *told_as(uid, rank)), sayings_of(uid, rank))
    model.sayings += [Saying(import_no, *words, revision=revision, named=True) for words in named]


def arm_line(words: Words) -> bytes:
    """An arm's own line, with its cost and label."""
    arm, cost, label = words
    return msgspec.json.encode({"kind": "arm", "key": arm, "token_cost": cost, "label": label}) + b"\n"


class Machine(LearnerMachine):
    """A learner and the model; every rule does the same to both, and expects of one what the other says."""

    acts = Bundle[str]("acts")

    def __init__(self) -> None:
        super().__init__()
        self.model, self.undos = Model(), Undos()
        self.rewards: dict[str, Reward] = {}
        self.resets: dict[str, Reset] = {}
        self.repairs: dict[str, Repair] = {}
        self.imports: dict[str, int] = {}
        self.n_files = 0
        self.files: dict[Path, str] = {}
        self.answers: dict[str, tuple[Content, RewardAnswer]] = {}

    # Runs

    @initialize(ranks=st.tuples(RANKS, RANKS, RANKS))
    def begin(self, ranks: tuple[int, int, int]) -> None:
        """A few runs, or most of what could be done at first would be refused."""
        for number, rank in enumerate(ranks):
            self.record(f"run-{number}", rank)

    @rule(uid=UIDS, rank=RANKS)
    def record(self, uid: str, rank: int) -> None:
        """A run that is new, known, longer, shorter, or told otherwise before: then it is refused."""
        standing = self.model.standing(uid)
        clashes = (
            standing is not None and rank <= standing[0].rank and told_by(standing[0]) != told_as(uid, rank)
        )
        run = made_of(uid, rank)
        if clashes:
            with pytest.raises(Conflict):
                record(self.context, run)
            return
        record(self.context, run)
        self._tell(self.model, [(uid, rank)], [], import_no=0)

    def _tell(
        self,
        model: Model,
        told: list[tuple[str, int]],
        named: list[Words],
        *,
        import_no: int,
        revision: int | None = None,
    ) -> None:
        """Let a model know what was told, at the learner's revision or another."""
        now = queries.revision(self.context).revision if revision is None else revision
        tell(model, told, named, import_no=import_no, revision=now)

    def _can_go_on(self, act: str) -> bool:
        return not self.undos.is_undone(act)

    @precondition(lambda self: self.model.tellings)
    @rule(data=st.data(), more=st.integers(1, 2))
    def grow(self, data: st.DataObject, more: int) -> None:
        """A run that stands, longer."""
        uid = data.draw(st.sampled_from(sorted(self.model.tellings)))
        standing = self.model.standing(uid)
        if standing is not None:
            self.record(uid, standing[0].rank + more)

    @rule(target=acts, told=TOLD_RUNS, named=st.lists(WORDS, max_size=2), goes_on=st.booleans())
    def import_runs(self, told: list[tuple[str, int]], named: list[Words], goes_on: bool) -> Made:
        """Runs, after lines about arms, which count before what the runs say of them."""
        self.n_files += 1
        file = self.place / f"{self.n_files}.jsonl"
        file.write_bytes(b"".join([*map(arm_line, named), *(line_of(uid, rank) for uid, rank in told)]))
        latest = next(reversed(self.imports), None) if goes_on else None
        goes_on = latest is not None and self._can_go_on(latest)
        revision = queries.revision(self.context).revision
        act = import_files(self.context, [file], continuing=latest).id
        if queries.revision(self.context).revision == revision:
            assert act == (latest if goes_on else None), "what changes nothing makes no act"
            told_more = deepcopy(self.model)
            number = self.imports[latest] if goes_on and latest else 1 + max(self.imports.values(), default=0)
            self._tell(told_more, told, [], import_no=number, revision=revision + 1)
            if not told_more.has_said(named):
                self._tell(told_more, [], named, import_no=number, revision=revision + 1)
            assert told_more.posteriors() == self.model.posteriors()
            assert told_more.descriptions() == self.model.descriptions()
            return multiple()
        assert act is not None
        assert (act == latest) == goes_on
        number = self.imports[act] = int(act.removeprefix("import-"))
        self._tell(self.model, told, named, import_no=number)
        if not named:
            self.files[file] = act
        return multiple() if act == latest else act

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def import_again(self, data: st.DataObject) -> None:
        """A file whose import is active, after whatever came since: each run is known, and nothing changes."""
        file, act = data.draw(st.sampled_from(sorted(self.files.items())))
        revision = queries.revision(self.context).revision
        if not self.undos.is_undone(act):
            assert import_files(self.context, [file]).id is None
            assert queries.revision(self.context).revision == revision

    # Rewards

    @rule(target=acts, arm=st.sampled_from(ARMS), value=VALUES, outcome=OUTCOMES, key=KEYS)
    def reward(self, arm: str, value: float | None, outcome: RewardOutcome | None, key: str | None) -> Made:
        return self._reward(arm, value, outcome, None, key, correct=False)

    @precondition(lambda self: self._said())
    @rule(target=acts, data=st.data(), value=VALUES, key=KEYS, correct=st.booleans())
    def reward_in_a_run(
        self, data: st.DataObject, value: float | None, key: str | None, correct: bool
    ) -> Made:
        """Feedback or a correction, where a run says something of the arm."""
        arm, run = data.draw(st.sampled_from(self._said()))
        return self._reward(arm, value, None, run, key, correct=correct)

    @precondition(lambda self: self.model.rewards)
    @rule(target=acts, data=st.data(), value=VALUES)
    def reward_once_more(self, data: st.DataObject, value: float | None) -> Made:
        """Another reward of what was rewarded before: of corrections the latest that stands counts."""
        corrections = [one for one in self.model.rewards if one.correct]
        one = data.draw(st.sampled_from(corrections or self.model.rewards))
        return self._reward(one.arm, value, None, one.run, None, correct=one.correct)

    @rule(target=acts, arm=st.sampled_from(ARMS), run=UIDS, correct=st.booleans())
    def reward_anything(self, arm: str, run: str, correct: bool) -> Made:
        """An arm and a run that may not be there, or have nothing to do with each other."""
        return self._reward(arm, 1.0, None, run, None, correct=correct)

    @rule(target=acts, data=st.data(), value=VALUES, weight=st.sampled_from(WEIGHTS))
    def be_told_a_part(self, data: st.DataObject, value: float | None, weight: int) -> Made:
        """An observation of weight below 1, of a run or of none; it lists an arm that no one knew."""
        arm, run = data.draw(st.sampled_from([*((arm, None) for arm in ARMS), *self._said()]))
        self.n_files += 1
        reward = 1.0 if value is None else value
        line = part_line(f"part {self.n_files}", arm, weight, run=run, reward=reward)
        act = import_files(self.context, [lines_file(self.place / f"{self.n_files}.jsonl", line)]).id
        assert act is not None
        success = Fraction(round(Fraction(repr(reward)) * weight), 1_000_000)
        revision = queries.revision(self.context).revision
        told = Reward(arm, run, success, correct=False, revision=revision, weight=Fraction(weight, 1_000_000))
        self.rewards[act] = told
        self.model.rewards.append(told)
        return act

    def _said(self) -> list[tuple[str, str]]:
        standing = {uid: self.model.standing(uid) for uid in self.model.tellings}
        return [(arm, uid) for uid, told in standing.items() if told for arm in sorted(told[0].included)]

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """The same key and content: the first answer, and nothing else happens, no matter what came between."""
        key = data.draw(st.sampled_from(sorted(self.answers)))
        content, first = self.answers[key]
        arm, value, outcome, run, correct = content
        again = reward(self.context, arm, value, outcome=outcome, run=run, key=key, correct=correct)
        assert again == first

    def _reward(
        self,
        arm: str,
        value: float | None,
        outcome: RewardOutcome | None,
        run: str | None,
        key: str | None,
        *,
        correct: bool,
    ) -> Made:
        content = (arm, value, outcome, run, correct)

        def give() -> RewardAnswer:
            return reward(self.context, arm, value, outcome=outcome, run=run, key=key, correct=correct)

        if key in self.answers:
            said, first = self.answers[key]
            if said == content:
                assert give() == first
            else:
                with pytest.raises(Conflict):
                    give()
            return multiple()
        refused = self._refused(arm, run, correct=correct)
        if refused is not None:
            with pytest.raises(refused):
                give()
            return multiple()
        answer = give()
        number = value if value is not None else OUTCOME_REWARDS[outcome or "accepted"]
        revision = queries.revision(self.context).revision
        self.rewards[answer.id] = Reward(arm, run, in_millionths(number), correct, revision)
        self.model.rewards.append(self.rewards[answer.id])
        if key is not None:
            self.answers[key] = (content, answer)
        return answer.id

    def _refused(self, arm: str, run: str | None, *, correct: bool) -> type[ArmscopeError] | None:
        if arm not in self.model.posteriors():
            return UnknownArm
        if run is None:
            return None
        standing = self.model.standing(run)
        if standing is None:
            return UnknownRun
        admits = arm in standing[0].included and (standing[0].observed or not correct)
        return None if admits else NotApplicable

    # Resets and undos

    @rule(target=acts, arms=st.sets(st.sampled_from(ARMS), min_size=1), to=TARGETS)
    def reset_arms(self, arms: set[str], to: Target) -> Made:
        if not arms <= self.model.posteriors().keys():
            with pytest.raises(UnknownArm):
                reset(self.context, arms=sorted(arms), target=to)
            return multiple()
        return self._was_reset(reset(self.context, arms=sorted(arms), target=to).id, arms, to)

    @rule(target=acts, to=TARGETS)
    def reset_all(self, to: Target) -> Made:
        """Arms that are known, but of which nothing stands now, start again with the others."""
        if not self.model.posteriors():
            with pytest.raises(NotApplicable):
                reset(self.context, target=to)
            return multiple()
        known = {arm for told in self.model.tellings.values() for one in told for arm in one.included}
        known |= {said.arm for said in self.model.sayings} | {given.arm for given in self.model.rewards}
        return self._was_reset(reset(self.context, target=to).id, known, to)

    def _was_reset(self, act: str, arms: set[str], to: Target) -> str:
        self.resets[act] = Reset(frozenset(arms), to, queries.revision(self.context).revision)
        self.model.resets.append(self.resets[act])
        return act

    @rule(target=acts, arms=st.sets(st.sampled_from(ARMS), min_size=1), first=UIDS, last=st.none() | UIDS)
    def repair(self, arms: set[str], first: str, last: str | None) -> Made:
        """Runs that ended between two others; a run without a time is in no span."""
        since, until = (None if one is None else time_of(one) for one in (first, last))
        since, until = since or START_MS, until or LAST_MS
        begin, end = iso(since) or "", iso(until)
        times = {uid: time_of(uid) for uid in self.model.tellings}
        inside = {uid for uid, at_ms in times.items() if at_ms is not None and since <= at_ms < until}
        read = self.model.observed(arms, inside)
        if since >= until:
            refused: type[ArmscopeError] | None = InvalidInput
        elif not arms <= self.model.posteriors().keys():
            refused = UnknownArm
        else:
            counted = [one for one in read if self.model.counts_by_itself(*one)]
            refused = None if counted else NotApplicable
        if refused is not None:
            with pytest.raises(refused):
                repair(self.context, arms=sorted(arms), since=begin, until=end)
            return multiple()
        answer = repair(self.context, arms=sorted(arms), since=begin, until=end)
        assert answer.observation_count == len(counted)
        self.repairs[answer.id] = Repair(read)
        self.model.repairs.append(self.repairs[answer.id])
        return answer.id

    @rule(target=acts, act=acts)
    def undo(self, act: str) -> Made:
        """Anything, an undo too; what is undone already is answered as it was."""
        standing = self.undos.standing(act)
        answer = undo(self.context, act)
        if standing:
            assert answer.id == standing[-1]
            return multiple()
        self.undos.targets[answer.id] = act
        self._settle()
        return answer.id

    @precondition(lambda self: self.undos.targets)
    @rule(target=acts, data=st.data())
    def undo_again(self, data: st.DataObject) -> Made:
        """An undo, or what it took back: several undos of one act may stand, and be taken back in any order."""
        undone = data.draw(st.sampled_from(sorted(self.undos.targets.items())))
        return self.undo(data.draw(st.sampled_from(undone)))

    @rule(act=acts)
    def redo(self, act: str) -> None:
        """Whatever keeps it undone is taken back, the newest first."""
        standing = self.undos.standing(act)
        answer = redo(self.context, act)
        first = len(self.undos.targets) + 1
        for number, taken in enumerate(reversed(standing), first):
            self.undos.targets[f"undo-{number}"] = taken
        assert answer.id == (f"undo-{len(self.undos.targets)}" if standing else act)
        self._settle()
        assert not self.undos.is_undone(act)

    def _settle(self) -> None:
        for act, given in self.rewards.items():
            given.undone = self.undos.is_undone(act)
        for act, made in self.resets.items():
            made.undone = self.undos.is_undone(act)
        for act, one in self.repairs.items():
            one.undone = self.undos.is_undone(act)
        self.model.undone_imports = {no for act, no in self.imports.items() if self.undos.is_undone(act)}

    # What always holds

    @invariant()
    def every_posterior_is_what_the_rules_say(self) -> None:
        assert beliefs_by_arm(self.context) == folded(self.model)
        check_sources(self.context)

    @invariant()
    def every_arm_is_described_as_those_say_who_stand(self) -> None:
        assert described(self.context) == self.model.descriptions()

    def teardown(self) -> None:
        verification = queries.verify(self.context)
        self._check_copies()
        self.context.store.close()
        self.folder.cleanup()
        assert verification.clean, verification.differences

    def _check_copies(self) -> None:
        """Views and an export say the same as the learner."""
        check_views(self.context)
        self._read_its_export()

    def _read_its_export(self) -> None:
        """A learner that reads what this one writes says the same of every arm."""
        if not self.model.posteriors():
            return
        export_file(self.context, self.place / "export")
        other = context_at(self.place / "other.db")
        import_files(other, [self.place / "export"])
        told, here = described(other), described(self.context)
        believed, here_believed = beliefs_by_arm(other), beliefs_by_arm(self.context)
        verification = queries.verify(other)
        other.store.close()
        assert told == here
        assert believed == here_believed
        assert verification.clean, verification.differences


def test_whatever_is_done_the_posteriors_are_what_the_rules_say() -> None:
    run_machine(Machine, 25, 25, derandomize=True)


@pytest.mark.long
def test_whatever_is_done_at_length() -> None:
    run_machine(Machine, 800, 50)


def shuffled(lines: list[bytes], random: Random) -> list[bytes]:
    """Exported lines in another order that means the same: anything between two resets may change places,
    but a run comes before what is stated about it, and corrections of one run and arm keep their order.
    """
    head = [line for line in lines if _field(line, "kind") in {"learner", "arm"}]
    stretches: list[list[bytes]] = [[]]
    for line in lines[len(head) :]:
        if _field(line, "kind") == "reset":
            stretches += [[line], []]
        else:
            stretches[-1].append(line)
    return head + [line for stretch in stretches for line in _shuffled_stretch(stretch, random)]


def _shuffled_stretch(lines: list[bytes], random: Random) -> list[bytes]:
    runs = [line for line in lines if _field(line, "kind") == "run"]
    rewards = [line for line in lines if _field(line, "kind") == "reward"]
    corrections = [line for line in rewards if _field(line, "observation") == "correction"]
    others = [line for line in lines if line not in runs and line not in corrections]
    random.shuffle(runs)
    random.shuffle(others)
    return runs + others + corrections


def _field(line: bytes, name: str) -> object:
    return msgspec.json.decode(line).get(name)


def _same_belief(posterior: Posterior) -> Posterior:
    return msgspec.structs.replace(posterior, epoch=0)  # epochs are named by each learner's own revisions


def _check_history(folder: Path, seed: int) -> None:
    history = History(folder, seed)
    for _ in range(5):
        history.play(7)
        history.check()
    exported = folder / "export.jsonl"
    export_file(history.context, exported)
    lines = exported.read_bytes().splitlines(keepends=True)
    for name, told in {"same": lines, "shuffled": shuffled(lines, Random(seed))}.items():
        file = folder / f"{name}.jsonl"
        file.write_bytes(b"".join(told))
        other = context_at(folder / f"{name}.db")
        import_files(other, [file])
        mine = [_same_belief(one) for one in queries.posteriors(history.context)]
        assert [_same_belief(one) for one in queries.posteriors(other)] == mine
        assert queries.verify(other).clean


@pytest.mark.parametrize("seed", range(30))
def test_random_histories_fold_to_what_the_rules_say(tmp_path: Path, seed: int) -> None:
    _check_history(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 2_000))
def test_a_thousand_random_histories(tmp_path: Path, seed: int) -> None:
    _check_history(tmp_path, seed)
