"""The rules once more, plain and slow: every answer folds all facts from the beginning, and no look at the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

PRIOR = (Fraction(3), Fraction(1))
UNIFORM = (Fraction(1), Fraction(1))


@dataclass
class Telling:
    """One version of a run as one import (0 = recorded directly) told it."""

    import_no: int
    revision: int
    rank: int
    included: frozenset[str]
    referenced: frozenset[str]
    costs: frozenset[tuple[str, int]] = frozenset()

    @property
    def content(self) -> tuple[frozenset[object], ...]:
        return self.included, self.referenced, self.costs

    @property
    def observed(self) -> bool:
        return bool(self.referenced)


@dataclass
class Reward:
    """What someone gave: ``reward`` of ``weight``, which only an import tells to be below 1."""

    arm: str
    run: str | None
    reward: Fraction
    correct: bool
    revision: int
    undone: bool = False
    weight: Fraction = Fraction(1)


@dataclass
class Reset:
    arms: frozenset[str]
    target: str
    revision: int
    undone: bool = False


@dataclass
class Repair:
    """What it read: each observation, by run and arm, and whether it was of use."""

    read: dict[tuple[str, str], bool]
    undone: bool = False


@dataclass
class Saying:
    """What an import (0 = recorded directly) said of an arm; None = nothing. By a line of its own it is named."""

    import_no: int
    arm: str
    token_cost: int | None
    label: str | None
    revision: int
    named: bool = False


@dataclass
class Model:
    """All facts, in the order they were recorded."""

    tellings: dict[str, list[Telling]] = field(default_factory=dict)
    rewards: list[Reward] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    sayings: list[Saying] = field(default_factory=list)
    undone_imports: set[int] = field(default_factory=set)

    def descriptions(self) -> dict[str, tuple[int | None, str | None]]:
        """Cost and label of every arm that something stands for: each as said last by those that stand."""
        found: dict[str, tuple[int | None, str | None]] = dict.fromkeys(self.posteriors(), (None, None))
        for said in sorted(self._standing_sayings(), key=lambda one: (one.revision, -one.import_no)):
            if said.arm in found:
                cost, label = found[said.arm]
                found[said.arm] = (
                    cost if said.token_cost is None else said.token_cost,
                    label if said.label is None else said.label,
                )
        return found

    def tell(self, uid: str, telling: Telling, words: Iterable[tuple[str, int | None, str | None]]) -> None:
        """Add a run, and what it says of its arms: a known one adds what is missing."""
        since = self._told_since(uid, telling)
        for arm, cost, label in words:
            for saying in (
                Saying(telling.import_no, arm, cost, None, revision=since),
                Saying(telling.import_no, arm, None, label, revision=since),
            ):
                self.sayings.append(saying if since == telling.revision else self._below(saying))
        self.tellings.setdefault(uid, []).append(telling)

    def _told_since(self, uid: str, telling: Telling) -> int:
        """A run is known since the source that has its content, else since any; what an import repeats, below all."""
        standing = self.standing(uid)
        if standing is None or (telling.rank > standing[0].rank and telling.content != standing[0].content):
            return telling.revision
        sources: dict[int, Telling] = {}
        for one in self.tellings[uid]:
            if one.import_no not in self.undone_imports:
                known = sources.setdefault(one.import_no, one)
                if one.rank > known.rank:
                    sources[one.import_no] = replace(one, revision=known.revision)
        same = [one for one in sources.values() if one.content == telling.content] or [*sources.values()]
        is_own = telling.import_no in {one.import_no for one in same}
        return 0 if is_own else min(one.revision for one in same)

    def _below(self, saying: Saying) -> Saying:
        """The same, below the saying in force of the arm: of one revision the first import's counts."""
        has_cost = saying.token_cost is not None
        active = [
            (one.revision, -one.import_no)
            for one in self._standing_sayings()
            if one.arm == saying.arm and (one.token_cost if has_cost else one.label) is not None
        ]
        if not active:
            return saying
        revision, earliest = max(active)
        return replace(saying, revision=min(saying.revision, revision - (saying.import_no <= -earliest)))

    def has_said(self, named: Iterable[tuple[str, int | None, str | None]]) -> bool:
        """Whether those that stand say the last cost and label of each arm, by whatever line."""
        said: dict[object, object] = {}
        for one in sorted(self._standing_sayings(), key=lambda one: one.revision):
            words = (("cost", one.token_cost), ("label", one.label))
            said |= {(one.import_no, one.arm, kind): value for kind, value in words if value is not None}
        known = {(*key[1:], value) for key, value in said.items()}  # type: ignore[index]
        last = {
            (arm, kind): value
            for arm, *words in named
            for kind, value in zip(("cost", "label"), words, strict=True)
            if value is not None
        }
        return known >= {(*key, value) for key, value in last.items()}

    def _standing_sayings(self) -> list[Saying]:
        return [said for said in self.sayings if said.import_no not in self.undone_imports]

    def standing(self, uid: str) -> tuple[Telling, int] | None:
        """The version that stands and the revision the run counts from."""
        told = [one for one in self.tellings.get(uid, []) if one.import_no not in self.undone_imports]
        if not told:
            return None
        longest = max(one.rank for one in told)
        return next(one for one in told if one.rank == longest), min(one.revision for one in told)

    def epoch(self, arm: str, revision: int) -> int:
        """Revision of the reset a fact comes after, 0 = none."""
        return max(
            (
                reset.revision
                for reset in self.resets
                if not reset.undone and arm in reset.arms and reset.revision < revision
            ),
            default=0,
        )

    def posteriors(self) -> dict[str, tuple[Fraction, Fraction, Fraction, int]]:
        """alpha, beta, the exact sum of pulls, and inclusions of every arm that something stands for."""
        arms = {arm for uid in self.tellings for arm in self._included(uid)}
        arms |= {reward.arm for reward in self.rewards if self._counts(reward)}
        arms |= {said.arm for said in self._standing_sayings() if said.named}
        return {arm: self._posterior(arm) for arm in sorted(arms)}

    def _included(self, uid: str) -> frozenset[str]:
        standing = self.standing(uid)
        return frozenset() if standing is None else standing[0].included

    def _counts(self, reward: Reward) -> bool:
        if reward.undone:
            return False
        if reward.run is None:
            return True
        return reward.arm in self._included(reward.run)

    def _posterior(self, arm: str) -> tuple[Fraction, Fraction, Fraction, int]:
        now = self.epoch(arm, 10**9)
        alpha, beta = self._base(now)
        pulls, inclusions = Fraction(0), 0
        for uid in self.tellings:
            standing = self.standing(uid)
            if standing is None or arm not in standing[0].included or self.epoch(arm, standing[1]) != now:
                continue
            inclusions += 1
            if standing[0].observed and not self._is_taken_back(uid, arm, standing[0]):
                value = self._value(uid, arm, standing[0])
                alpha, beta, pulls = alpha + value, beta + 1 - value, pulls + 1
        for reward in self.rewards:
            if reward.arm == arm and not reward.correct and self._counts(reward):
                since = reward.revision if reward.run is None else self._since(reward.run)
                if self.epoch(arm, since) == now:
                    alpha, beta = alpha + reward.reward, beta + reward.weight - reward.reward
                    pulls += reward.weight
        return alpha, beta, pulls, inclusions

    def _since(self, uid: str) -> int:
        standing = self.standing(uid)
        return 0 if standing is None else standing[1]

    def observed(self, arms: set[str], uids: set[str]) -> dict[tuple[str, str], bool]:
        """What runs that stand observed of arms, by hand or not, counted or not."""
        told = {uid: self.standing(uid) for uid in uids}
        return {
            (uid, arm): arm in one[0].referenced
            for uid, one in told.items()
            if one and one[0].observed
            for arm in arms & one[0].included
        }

    def counts_by_itself(self, uid: str, arm: str) -> bool:
        """Whether the run's own observation of an arm counts: no one corrected it, no repair took it back."""
        standing = self.standing(uid)
        return (
            standing is not None
            and not self._corrections(uid, arm)
            and not self._is_taken_back(uid, arm, standing[0])
        )

    def _is_taken_back(self, uid: str, arm: str, telling: Telling) -> bool:
        """A correction counts anyway; a repair takes back what it read, and nothing else."""
        used = arm in telling.referenced
        read = (one.read.get((uid, arm)) for one in self.repairs if not one.undone)
        return used in read and not self._corrections(uid, arm)

    def _corrections(self, uid: str, arm: str) -> list[Fraction]:
        return [
            one.reward
            for one in self.rewards
            if one.correct and not one.undone and (one.run, one.arm) == (uid, arm)
        ]

    def _value(self, uid: str, arm: str, telling: Telling) -> Fraction:
        """What the arm earned in the run: by hand if corrected, else whether it was used."""
        corrections = self._corrections(uid, arm)
        return corrections[-1] if corrections else Fraction(arm in telling.referenced)

    def _base(self, epoch: int) -> tuple[Fraction, Fraction]:
        targets = {reset.revision: reset.target for reset in self.resets}
        return UNIFORM if targets.get(epoch) == "uniform" else PRIOR


@dataclass
class Undos:
    """What each undo took back, by ids; an undo is an act like any other and can be taken back itself."""

    targets: dict[str, str] = field(default_factory=dict)

    def is_undone(self, act: str) -> bool:
        return bool(self.standing(act))

    def standing(self, act: str) -> list[str]:
        """The undos that keep an act undone, oldest first."""
        return [undo for undo, target in self.targets.items() if target == act and not self.is_undone(undo)]


def in_millionths(reward: float) -> Fraction:
    """A reward as it counts: its shortest decimal, rounded to six places, halves to even."""
    return Fraction(round(Fraction(repr(reward)) * 1_000_000), 1_000_000)
