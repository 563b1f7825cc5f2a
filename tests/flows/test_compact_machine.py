"""The machine of all acts with compacting: the model keeps every run, and acts on a compacted one are refused."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, multiple, precondition, rule

from core.errors import ArmscopeError, Conflict, NotApplicable, UnknownRun
from core.flows import queries
from core.flows.corrections import redo, repair, undo
from core.flows.learn import record
from core.records.limits import LAST_MS
from core.records.run_query import View
from core.records.times import HOUR_MS, iso
from tests.flows.model import Model
from tests.flows.test_machine import RANKS, UIDS, Machine, Made, Words, tell
from tests.store.compacting import compact_until
from tests.worlds import START_MS
from tests.worlds.history import ARMS, beliefs_by_arm, folded, made_of, time_of, told_as, told_by
from tests.worlds.machines import run_machine

HOURS = [START_MS + number * HOUR_MS for number in range(0, 12, 2)]


class Compacting(Machine):
    """The machine whose old runs are compacted from time to time."""

    def __init__(self) -> None:
        super().__init__()
        self.compacted: set[str] = set()
        self.locked: set[int] = set()

    @precondition(lambda self: self.model.tellings.keys() - self.compacted)
    @rule(until=st.sampled_from(["run-2", "run-3", "run-9"]))
    def compact(self, until: str) -> None:
        """Runs that nothing else is about; a second time there are none."""
        until_ms = time_of(until) or LAST_MS
        named = {given.run for given in self.model.rewards} | {
            uid for made in self.model.repairs for uid, _ in made.read
        }
        free = {
            uid
            for uid in self.model.tellings.keys() - named - self.compacted
            if (at_ms := time_of(uid)) is not None and at_ms < until_ms and self.model.standing(uid)
        }
        before = self._answers()
        assert compact_until(self.context, until_ms) == len(free)
        assert self._answers() == before
        assert compact_until(self.context, until_ms) == 0
        self.compacted |= free
        self.locked |= {one.import_no for uid in free for one in self.model.tellings[uid]}

    def _answers(self) -> list[object]:
        """What is believed now and was believed at each hour, and the counts of runs."""
        past = [queries.belief(self.context, View(until_ms=hour)).columns for hour in HOURS]
        believed = [(one.keys, one.alpha.tolist(), one.beta.tolist(), one.pulls.tolist()) for one in past]
        status = queries.status(self.context)
        counts = (status.runs, status.observed, status.tokens, status.first_run, status.last_run)
        return [beliefs_by_arm(self.context), believed, counts, queries.posteriors(self.context)]

    # Runs

    @rule(uid=UIDS, rank=RANKS)
    def record(self, uid: str, rank: int) -> None:
        """A compacted run is a repeat if it has the same content, else it is refused."""
        standing = self.model.standing(uid)
        if uid not in self.compacted or standing is None:
            super().record(uid, rank)
        elif told_by(standing[0]) == told_as(uid, rank):
            assert record(self.context, made_of(uid, rank)).told == "duplicate"
        else:
            with pytest.raises(Conflict, match="compaction"):
                record(self.context, made_of(uid, rank))

    def _tell(
        self,
        model: Model,
        told: list[tuple[str, int]],
        named: list[Words],
        *,
        import_no: int,
        revision: int | None = None,
    ) -> None:
        """A compacted run that is told again says nothing."""
        now = queries.revision(self.context).revision if revision is None else revision
        told = [one for one in told if one[0] not in self.compacted]
        tell(model, told, named, import_no=import_no, revision=now)

    def _can_go_on(self, act: str) -> bool:
        return super()._can_go_on(act) and self.imports[act] not in self.locked

    # Rewards and repairs

    def _said(self) -> list[tuple[str, str]]:
        return [(arm, uid) for arm, uid in super()._said() if uid not in self.compacted]

    def _refused(self, arm: str, run: str | None, *, correct: bool) -> type[ArmscopeError] | None:
        refused = super()._refused(arm, run, correct=correct)
        return UnknownRun if run in self.compacted and refused in {None, NotApplicable} else refused

    @rule(
        target=Machine.acts,
        arms=st.sets(st.sampled_from(ARMS), min_size=1),
        first=UIDS,
        last=st.none() | UIDS,
    )
    def repair(self, arms: set[str], first: str, last: str | None) -> Made:
        """A span with a compacted run that observed one of the arms is refused; one of the same hour may be."""
        since, until = (None if one is None else time_of(one) for one in (first, last))
        since, until = since or START_MS, until or LAST_MS
        observed = self.model.observed(arms, self.compacted)
        times = [time_of(uid) or 0 for uid, _ in observed]
        hours = range(since // HOUR_MS, -(-until // HOUR_MS))
        if since >= until or not arms <= self.model.posteriors().keys() or not observed:
            return super().repair(arms, first, last)
        if any(since <= at_ms < until for at_ms in times):
            with pytest.raises(NotApplicable, match="compaction"):
                repair(self.context, arms=sorted(arms), since=iso(since) or "", until=iso(until))
            return multiple()
        return (
            multiple()
            if any(at_ms // HOUR_MS in hours for at_ms in times)
            else super().repair(arms, first, last)
        )

    # Undos

    def _is_locked(self, act: str) -> bool:
        while act in self.undos.targets:
            act = self.undos.targets[act]
        return self.imports.get(act) in self.locked

    @rule(target=Machine.acts, act=Machine.acts)
    def undo(self, act: str) -> Made:
        """An import that lost runs is refused, and so is an undo of its undo."""
        if not self._is_locked(act) or self.undos.standing(act):
            return super().undo(act)
        with pytest.raises(NotApplicable, match="compact"):
            undo(self.context, act)
        return multiple()

    @rule(act=Machine.acts)
    def redo(self, act: str) -> None:
        """The same of what is redone."""
        if not self._is_locked(act) or not self.undos.standing(act):
            super().redo(act)
            return
        with pytest.raises(NotApplicable, match="compact"):
            redo(self.context, act)

    @invariant()
    def every_posterior_is_what_the_rules_say(self) -> None:
        assert beliefs_by_arm(self.context) == folded(self.model)

    def _check_copies(self) -> None:
        """Views and an export lack the runs that are compacted."""
        if not self.compacted:
            super()._check_copies()


def test_compacting_changes_no_belief_and_is_proven() -> None:
    run_machine(Compacting, 30, 30, derandomize=True)


@pytest.mark.long
def test_compacting_at_length() -> None:
    run_machine(Compacting, 800, 50)
