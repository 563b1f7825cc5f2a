"""Credits of episodes: dealt by a rule as decided then, one in force, taken back whole, and never too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, invariant, multiple, rule

from core.errors import InvalidInput, NotApplicable, NotFound
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.credit import credit_episode
from core.flows.episode import declare, record_step
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.records.arm import Arm
from core.records.episode import Episode, Step
from core.records.episode_credit import CREDIT_RULES, CreditLine, CreditRule, CreditShare
from core.records.episode_page import EpisodeFilter
from core.records.ledger_lines import LedgerLine
from core.records.run import Inventory, Run
from tests.flows.test_episodes import file_of
from tests.worlds import START_MS, a_run, beliefs, context_at, is_clean
from tests.worlds.machines import LearnerMachine, run_machine

MICRO: Final = 1_000_000
A, B, C = (f"tool:other:{name}" for name in "abc")

RUN = a_run("r", calls=("a", "b"))

SHARE = CreditShare(run="r", arm=A, weight_micro=MICRO)
LINE = CreditLine(id="x/credit-1", episode="e", rule="equal", reward=0.5, shares=(SHARE,))

GROWN = a_run("r", arms=("a", "c", "d"), calls=("d",), rank=9)


def paid(*steps: tuple[str, float | None], uid: str = "e", runs: Sequence[str] = ("r",)) -> Episode:
    return Episode(
        uid=uid,
        environment="sums",
        at_ms=START_MS,
        steps=tuple(Step(number=n, name=name, reward=reward) for n, (name, reward) in enumerate(steps)),
        runs=tuple(runs),
    )


def learner_of(folder: Path, *lines: LedgerLine | Run) -> Context:
    """A learner that has read these lines."""
    context = context_at(folder / "a.db")
    assert import_files(context, [file_of(folder, "told.jsonl", *lines)]).rejected_count == 0
    return context


def weights(context: Context, rule: CreditRule) -> dict[tuple[str, str], int]:
    found = credit_episode(context, "e", rule)
    assert is_clean(context)
    return {(share.run, share.arm): share.weight_micro for share in found.shares}


def test_each_rule_deals_one_observation_to_those_it_names(tmp_path: Path) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 0.1), ("b", 0.3), ("b", None), ("strange", 0.4)))
    before = beliefs(context)
    assert weights(context, "equal") == {("r", A): 333_334, ("r", B): 333_333, ("r", C): 333_333}
    assert weights(context, "referenced") == {("r", A): 500_000, ("r", B): 500_000}
    assert weights(context, "step") == {("r", A): 250_000, ("r", B): 750_000}
    after = beliefs(context)
    assert after[A] == (before[A][0] + 0.2, before[A][1] + 0.05), "worth 0.8, of which a quarter"
    assert after[B] == pytest.approx((before[B][0] + 0.6, before[B][1] + 0.15))
    assert after[C] == before[C]
    (one, *_) = [row for row in queries.rewards(context) if row.counts]
    assert (one.kind, one.reward, one.id) == ("episode", 0.8, "credit-3")
    assert weights(context, "off") == {}
    assert beliefs(context) == before


def test_tools_of_one_name_share_and_what_is_no_tool_is_called_by_no_step(tmp_path: Path) -> None:
    arms = ("tool:web:look", "tool:fs:look", "skill:look:main", "section:x:look")
    prompt = Inventory(kind="declared", arms=tuple(Arm(key=key) for key in arms))
    context = learner_of(tmp_path, a_run("r", inventory=prompt, calls=("look",)), paid(("look", 1.0)))
    assert weights(context, "step") == {("r", "tool:web:look"): 500_000, ("r", "tool:fs:look"): 500_000}


@pytest.mark.parametrize(
    ("episode", "rule", "why"),
    [
        (paid(("a", None)), "equal", "Nothing was paid"),
        (paid(("a", 0.5), runs=()), "equal", "None of its runs is here"),
        (paid(("c", 0.0)), "step", "No step that was paid other than 0"),
        (paid(("strange", 0.5)), "step", "No step that was paid other than 0"),
        (paid(("a", 0.5)), "off", "No credit of it is in force"),
    ],
)
def test_where_there_is_nothing_to_credit_that_is_said_and_nothing_is_recorded(
    tmp_path: Path, episode: Episode, rule: CreditRule, why: str
) -> None:
    context = learner_of(tmp_path, RUN, episode)
    before = beliefs(context)
    found = credit_episode(context, "e", rule)
    assert (found.id, found.shares) == (None, ())
    assert why in str(found.why)
    assert beliefs(context) == before
    assert [entry for entry in queries.changes(context) if entry.action == "credit"] == []


def test_a_reward_of_zero_is_credited_and_none_is_not(tmp_path: Path) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 0.0)))
    before = beliefs(context)
    assert credit_episode(context, "e", "referenced").reward == 0.0
    assert beliefs(context)[A] == (before[A][0], before[A][1] + 0.5)


def test_off_its_scale_it_is_refused_until_one_is_declared(tmp_path: Path) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 1.0), ("a", 0.5)))
    with pytest.raises(NotApplicable, match=r"within 0 to 1.*got 1\.5") as refused:
        credit_episode(context, "e", "equal")
    assert "Declare the scale" in str(refused.value.next_step)
    declare(context, "sums", hi=2)
    assert credit_episode(context, "e", "equal").reward == 0.75
    declare(context, "sums", lo=-2)
    seen = queries.episode(context, "e").credit
    assert seen is not None
    assert (seen.reward, seen.fits) == (0.75, False), "what was decided then stays, and is told apart"
    assert credit_episode(context, "e", "equal").reward == 0.875


def test_an_environment_that_is_left_out_gives_no_average_and_no_credit_until_it_is_back(
    tmp_path: Path,
) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 1.0)))
    before = beliefs(context)
    credit_episode(context, "e", "equal")
    credited = beliefs(context)
    assert queries.preview_left_out(context, "sums").n_moved == 3
    out = declare(context, "sums", base="none")
    assert (beliefs(context), is_clean(context)) == (before, True)
    assert "left out" in str(credit_episode(context, "e", "referenced").why)
    (row,) = queries.episodes(context)
    assert (row.average.value, row.success, row.without_reward) == (None, None, 1)
    assert queries.episode_list(context, EpisodeFilter(outcome="success")).rows == ()
    again = context_at(tmp_path / "again.db")
    export_file(context, tmp_path / "all.jsonl")
    import_files(again, [tmp_path / "all.jsonl"])
    assert (beliefs(again), is_clean(again)) == (before, True)
    undo(context, out.id or "")
    assert (beliefs(context), is_clean(context)) == (credited, True)


def test_a_second_takes_the_place_of_the_first_in_one_act_and_undo_gives_it_back(tmp_path: Path) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 0.5)))
    never = beliefs(context)
    credit_episode(context, "e", "equal")
    first = beliefs(context)
    again = credit_episode(context, "e", "equal")
    assert (again.id, again.repeated) == ("credit-1", True)
    second = credit_episode(context, "e", "step")
    assert (second.id, second.replaces) == ("credit-2", "credit-1")
    other = beliefs(context)
    undo(context, "credit-2")
    assert beliefs(context) == first
    redo(context, "credit-2")
    assert beliefs(context) == other
    undo(context, "credit-1")
    assert beliefs(context) == other, "it was not in force"
    undo(context, "credit-2")
    assert beliefs(context) == never
    assert is_clean(context)
    with pytest.raises(NotApplicable, match="follows from credit-1"):
        undo(context, "reward-1")


def test_a_preview_is_what_is_done_and_leaves_nothing(tmp_path: Path) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 0.5)))
    credit_episode(context, "e", "equal")
    before = beliefs(context), queries.revision(context)
    preview = queries.preview_credit(context, "e", "step")
    assert (beliefs(context), queries.revision(context)) == before
    made = credit_episode(context, "e", "step")
    assert preview.answer == made
    now = beliefs(context)
    assert preview.n_moved == 3
    assert {one.arm: (one.after.alpha, one.after.beta) for one in preview.effects} == dict(now)


def test_recorded_as_it_goes_it_can_be_credited(context: Context) -> None:
    record(context, RUN)
    record_step(context, "e", environment="sums", name="a", reward=0.5, run="r")
    assert weights(context, "step") == {("r", A): MICRO}
    seen = [one for one in queries.posteriors(context) if one.arm == A]
    assert [one.pulls for one in seen] == [2], "one that weighs a whole observation is a pull"


@pytest.mark.parametrize(
    ("shares", "what"),
    [
        ((CreditShare(run="unknown", arm=A, weight_micro=1),), "not made here in episode 'e'"),
        ((CreditShare(run="s", arm=A, weight_micro=1),), "not made here in episode 'e'"),
        ((CreditShare(run="r", arm="tool:other:z", weight_micro=1),), "not in the prompt"),
    ],
)
def test_a_line_that_credits_what_was_not_there_is_refused(
    tmp_path: Path, shares: tuple[CreditShare, ...], what: str
) -> None:
    context = learner_of(tmp_path, RUN, a_run("s"), paid(("a", 0.5)))
    before = beliefs(context)
    line = CreditLine(id="x/credit-1", episode="e", rule="equal", reward=0.5, shares=shares)
    answer = import_files(context, [file_of(tmp_path, "c.jsonl", RUN, line)])
    assert [what in rejected.reason for rejected in answer.rejected] == [True]
    assert beliefs(context) == before
    assert is_clean(context)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"reward": None}, "must have a reward"),
        ({"reward": 1.5}, "1.5"),
        ({"rule": "off"}, "no shares"),
        ({"shares": (SHARE, SHARE)}, "one twice"),
        ({"shares": (SHARE, CreditShare(run="r", arm=B, weight_micro=1))}, "add up to at most"),
        ({"episode": ""}, "uid"),
    ],
)
def test_a_line_that_says_what_cannot_be_is_refused(wrong: dict[str, object], what: str) -> None:
    said = {"id": "c", "episode": "e", "rule": "equal", "reward": 0.5, "shares": (SHARE,)}
    with pytest.raises(InvalidInput, match=what):
        CreditLine(**(said | wrong))  # type: ignore[arg-type]


def test_who_credited_can_be_a_number_and_the_credit_stays(tmp_path: Path) -> None:
    context = learner_of(tmp_path, RUN, paid(("a", 0.5)))
    credit_episode(context, "e", "equal")
    before = beliefs(context)
    erase(context, rater="mara")
    seen = queries.episode(context, "e").credit
    assert seen is not None
    assert seen.by != "mara"
    assert beliefs(context) == before
    assert is_clean(context)


# Whatever is told, credited and taken back

SHORT, LONG = paid(("a", 0.25), uid="e"), paid(("a", 0.25), ("b", 0.5), uid="e", runs=("r", "s"))
FILES: Final[Mapping[str, tuple[LedgerLine | Run, ...]]] = {
    "short": (RUN, SHORT),
    "long": (RUN, a_run("s", arms=("b", "c"), calls=("b",)), LONG),
    "grown run": (GROWN, paid(("d", -0.5), ("d", 1.0), uid="f")),
    "credited": (RUN, SHORT, LINE),
}
"""Each tells the runs that its episodes name, so that they are linked."""


@dataclass
class Made:
    """A credit as the model keeps it: ``told`` are the imports that told it, by when they came; none: made here."""

    episode: str
    reward: float | None
    shares: Mapping[tuple[str, str], int]
    at: int
    told: list[str] = field(default_factory=list)


@dataclass
class Model:
    """What happened, in order; what stands is found from the beginning each time."""

    imports: dict[str, str] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    credits: dict[str, Made] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    links: set[tuple[str, str]] = field(default_factory=set)
    order: dict[str, int] = field(default_factory=dict)
    """When each import came."""

    def lines(self) -> list[LedgerLine | Run]:
        """What imports tell that stand."""
        return [line for act, name in self.imports.items() if act not in self.undone for line in FILES[name]]

    def runs(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for line in self.lines():
            if isinstance(line, Run) and (line.uid not in found or line.rank > found[line.uid].rank):
                found[line.uid] = line
        return found

    def episodes(self) -> dict[str, Episode]:
        found: dict[str, Episode] = {}
        for line in self.lines():
            if isinstance(line, Episode) and (
                line.uid not in found or len(line.steps) > len(found[line.uid].steps)
            ):
                found[line.uid] = line
        return found

    def scale(self) -> float:
        return next((hi for act, hi in reversed(self.scales.items()) if act not in self.undone), 1.0)

    def in_force(self) -> dict[str, str]:
        """The credit in force of each episode that stands."""
        found: dict[str, tuple[int, str]] = {}
        for act, one in self.credits.items():
            tellers = [self.order[teller] for teller in one.told if teller not in self.undone]
            if act in self.undone or (one.told and not tellers) or one.episode not in self.episodes():
                continue
            since = min(tellers, default=one.at)
            found[one.episode] = max(found.get(one.episode, (-1, "")), (since, act))
        return {episode: act for episode, (_, act) in found.items()}

    def beliefs(self) -> dict[str, tuple[int, int]]:
        """Successes and failures of each arm, in millionths, without its prior."""
        runs = self.runs()
        sums: dict[str, list[int]] = {}
        prompts = {uid: {arm.key for arm in one.inventory.arms} for uid, one in runs.items()}
        for uid, one in runs.items():
            called = {f"tool:other:{call.name}" for call in one.calls}
            for key in prompts[uid]:
                sums.setdefault(key, [0, 0])[key not in called] += MICRO
        for act in self.in_force().values():
            made = self.credits[act]
            for (uid, key), weight in made.shares.items():
                if key in prompts.get(uid, ()):
                    success = round(Fraction(repr(made.reward)) * weight)  # half to even, as decimals
                    sums[key][0] += success
                    sums[key][1] += weight - success
        return {key: (success, failure) for key, (success, failure) in sums.items()}

    def parts(self, uid: str, rule: CreditRule) -> dict[tuple[str, str], Fraction]:
        """Who shares an episode by a rule, and in what proportion."""
        episode, runs = self.episodes()[uid], self.runs()
        made_in = [runs[run] for run in sorted(runs) if (uid, run) in self.links]
        called = {(one.uid, f"tool:other:{call.name}") for one in made_in for call in one.calls}
        prompted = {(one.uid, arm.key) for one in made_in for arm in one.inventory.arms}
        if rule == "equal":
            return dict.fromkeys(prompted, Fraction(1))
        if rule == "referenced":
            return dict.fromkeys(prompted & called, Fraction(1))
        found: dict[tuple[str, str], Fraction] = {}
        for step in episode.steps:
            named = {place for place in prompted if place[1] == f"tool:other:{step.name}"}
            sharing = named & called or named
            for place in sharing:
                size = abs(Fraction(repr(step.reward))) / len(sharing)
                found[place] = found.get(place, Fraction(0)) + size
        return found


class Machine(LearnerMachine):
    """A learner and the model."""

    acts = Bundle[str]("acts")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.n = 0

    @rule(target=acts, name=st.sampled_from(sorted(FILES)))
    def bring(self, name: str) -> str | MultipleResults[str]:
        self.n += 1
        answer = import_files(self.context, [file_of(self.place, f"{self.n}.jsonl", *FILES[name])])
        assert answer.rejected_count == 0
        if answer.id is None:
            return multiple()
        model = self.model
        model.imports[answer.id], model.order[answer.id] = name, self.n
        for line in FILES[name]:
            if isinstance(line, Episode):
                model.links |= {(line.uid, run) for run in line.runs}
            if isinstance(line, CreditLine):
                self.told(line, answer.id)
        return answer.id

    def told(self, line: CreditLine, act: str) -> None:
        known = next((one for one in self.model.credits.values() if one.told), None)
        if known is None:
            shares = {(share.run, share.arm): share.weight_micro for share in line.shares}
            known = self.model.credits[f"credit-{len(self.model.credits) + 1}"] = Made(
                line.episode, line.reward, shares, self.n
            )
        known.told.append(act)

    @rule(target=acts, uid=st.sampled_from("ef"), by=st.sampled_from(CREDIT_RULES))
    def credit(self, uid: str, by: CreditRule) -> str | MultipleResults[str]:
        model, context = self.model, self.context
        self.n += 1
        if uid not in model.episodes():
            with pytest.raises(NotFound):
                credit_episode(context, uid, by)
            return multiple()
        before = model.in_force().get(uid)
        answer = credit_episode(context, uid, by)
        total = sum(Fraction(repr(step.reward)) for step in model.episodes()[uid].steps)
        parts = {} if by == "off" else model.parts(uid, by)
        whole = sum(parts.values())
        shares = {(share.run, share.arm): share.weight_micro for share in answer.shares}
        assert sum(shares.values()) == (MICRO if whole else 0)
        assert all(abs(shares.get(place, 0) - part * MICRO / whole) < 1 for place, part in parts.items())
        if by != "off":
            assert answer.reward == float(total) / model.scale()
        if answer.id is None:
            assert not whole
            return multiple()
        if answer.repeated:
            assert answer.id == before
            return multiple()
        assert answer.replaces == before
        model.credits[answer.id] = Made(uid, answer.reward, shares, self.n)
        return answer.id

    @rule(target=acts, hi=st.sampled_from([1.0, 2.0]))
    def scale(self, hi: float) -> str | MultipleResults[str]:
        if not self.model.imports or not (act := declare(self.context, "sums", hi=hi).id):
            return multiple()
        self.model.scales[act] = hi
        return act

    @rule(act=acts)
    def take_back(self, act: str) -> None:
        undo(self.context, act)
        self.model.undone.add(act)

    @rule(act=acts)
    def let_stand(self, act: str) -> None:
        redo(self.context, act)
        self.model.undone.discard(act)

    @invariant()
    def believes_what_the_model_does(self) -> None:
        found = {
            one.arm: (round((one.alpha - 3) * MICRO), round((one.beta - 1) * MICRO))
            for one in queries.posteriors(self.context)
        }
        assert found == self.model.beliefs()

    @invariant()
    def one_credit_of_each_episode_is_in_force(self) -> None:
        for uid in self.model.episodes():
            seen = queries.episode(self.context, uid).credit
            assert (None if seen is None else seen.id) == self.model.in_force().get(uid)

    @invariant()
    def verify_finds_nothing(self) -> None:
        assert is_clean(self.context)

    def teardown(self) -> None:
        export_file(self.context, self.place / "all.jsonl")
        other = context_at(self.place / "other.db", name="bob")
        for _ in range(2 if self.model.lines() else 0):
            assert import_files(other, [self.place / "all.jsonl"]).rejected_count == 0
            assert beliefs(other) == beliefs(self.context)
        assert is_clean(other)
        for act in self.model.imports:
            undo(self.context, act)
        assert beliefs(self.context) == {}, "as if nothing had ever been read, nor credited"
        assert is_clean(self.context)
        other.store.close()
        self.context.store.close()
        self.folder.cleanup()


@pytest.mark.parametrize("examples", [12, pytest.param(1_000, marks=pytest.mark.long)])
def test_whatever_is_told_credited_and_taken_back_the_sums_are_what_stands(examples: int) -> None:
    run_machine(Machine, examples, 15)
