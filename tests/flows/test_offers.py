"""Offers: what is selected through a door and told arm by arm becomes a run; nothing is lost, nothing guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidArm, NotApplicable, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import reward
from core.flows.offers import arm_states, finish_session, offer, report, start_session
from core.flows.settings import change
from core.records.arm import UNIFORM, Arm
from core.records.observation import RewardOutcome
from core.records.offer import ArmState, Report, Reported, SelectionOptions
from core.records.selection import Selection
from tests.engine import content
from tests.worlds import HOUR_MS, START_MS, context_at, lines_file, run_line

NAMES = "abcdef"
KEYS = [f"tool:other:{name}" for name in NAMES]
ARMS = [Arm(key=key, token_cost=place) for place, key in enumerate(KEYS)]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A learner whose clock goes a second with every act."""
    return ticking(tmp_path / "a.db")


def ticking(path: Path, start_ms: int = START_MS) -> Context:
    return replace(context_at(path), clock=count(start_ms, 1_000).__next__)


def offered(context: Context, k: int = 3, session: str | None = None) -> Selection:
    chosen = offer(context, ARMS, SelectionOptions(k=k), session=session).selection
    assert chosen is not None
    return chosen


def reported(context: Context, arm: str, value: float | None = None, **said: Any) -> Reported:  # noqa: ANN401
    answer = report(context, Report(arm=arm, value=value, **said))
    assert queries.verify(context).clean
    return answer


def state(context: Context, arm: str) -> ArmState:
    (found,) = arm_states(context, [arm]).arms
    return found


def test_what_is_told_of_an_offer_is_one_run(context: Context) -> None:
    chosen = offered(context)
    first, second, third = chosen.included
    assert reported(context, first, 1.0).run == reported(context, second, 0.0).run
    assert queries.status(context).runs == 1
    story = queries.run(context, "1")
    rewards = {arm.arm: arm.reward for arm in story.arms}
    assert rewards == dict.fromkeys(KEYS) | {first: 1.0, second: 0.0}
    assert (story.facts.run_class, sorted(arm.arm for arm in story.arms if not arm.in_prompt)) == (
        "selected",
        sorted(chosen.excluded),
    )
    half = reported(context, third, 0.5)
    assert (half.id, half.run, half.pulls) == ("reward-1", story.facts.uid, 1)
    (row,) = queries.rewards(context)
    assert (row.kind, row.run, row.reward, row.counts) == ("reported", story.facts.uid, 0.5, True)
    status = queries.status(context)
    assert (status.offers, status.offers_unobserved, status.pulls) == (1, 0, 3)


def test_what_a_run_was_observed_to_be_can_be_corrected(context: Context) -> None:
    first, second, _ = offered(context).included
    run = reported(context, first, 1.0).run
    before = state(context, first)
    given = reward(context, first, 0.0, run=run, correct=True)
    assert state(context, first).total_reward == 0
    assert state(context, first).pulls == before.pulls == 1
    undo(context, given.id)
    assert state(context, first) == before
    with pytest.raises(NotApplicable, match="not observed"):
        reward(context, second, 0.0, run=run, correct=True)


def test_a_reported_row_is_taken_back_and_given_again(context: Context) -> None:
    before = reported(context, KEYS[0], 0.25)
    given = reported(context, KEYS[0], 0.75, reason="half of it")
    undo(context, given.id)
    assert (state(context, KEYS[0]).alpha, state(context, KEYS[0]).pulls) == (before.alpha, 1)
    redo(context, given.id)
    assert (state(context, KEYS[0]).alpha, state(context, KEYS[0]).pulls) == (given.alpha, 2)
    assert [row.reason for row in queries.rewards(context)] == ["half of it", None]


@pytest.mark.parametrize(
    ("value", "outcome", "counts"),
    [
        (0.0, "accepted", 0),
        (None, "accepted", 1),
        (None, "partial", 0.5),
        (None, "rejected", 0),
        (None, None, 1),
    ],
)
def test_a_number_wins_and_absent_is_not_zero(
    context: Context, value: float | None, outcome: RewardOutcome | None, counts: float
) -> None:
    for is_offered in (False, True):
        if is_offered:
            offered(context, k=0)
        before = state(context, KEYS[0]).total_reward if is_offered else 0
        reported(context, KEYS[0], value, outcome=outcome)
        assert state(context, KEYS[0]).total_reward - before == counts


def test_each_observation_belongs_to_the_latest_offer_that_waits_for_it(context: Context) -> None:
    offered(context, k=0)
    offered(context, k=0)
    runs = [reported(context, KEYS[0], 1.0).run for _ in range(3)]
    assert runs[0] != runs[1] is not None
    assert runs[2] is None
    assert reported(context, KEYS[1], 0.0).run == runs[0], "the latest"
    status = queries.status(context)
    assert (status.offers, status.offers_unobserved, status.runs) == (2, 0, 2)


def test_a_session_is_told_of_its_own_offers_only(context: Context) -> None:
    offered(context, k=0, session="one")
    offered(context, k=0, session="other")
    run = reported(context, KEYS[0], 1.0, session="one").run
    assert run is not None
    assert queries.run(context, run).facts.session == "one"
    assert reported(context, KEYS[0], 1.0, session="a third").run is None
    assert reported(context, KEYS[0], 1.0).run not in {None, run}


def test_an_offer_waits_for_an_hour(tmp_path: Path) -> None:
    for late, is_run in ((HOUR_MS - 1, True), (HOUR_MS, False)):
        context = ticking(tmp_path / f"{late}.db")
        arms = [Arm(key=KEYS[0])]
        offer(replace(context, clock=lambda: START_MS), arms)
        answer = report(replace(context, clock=partial(int, START_MS + late)), Report(arm=KEYS[0]))
        assert (answer.run is not None) is is_run
        offer(replace(context, clock=lambda: START_MS + 2 * HOUR_MS), arms)
        status = queries.status(context)
        assert (status.offers, status.offers_unobserved) == (2, 1 if is_run else 2)


def test_what_nobody_tells_of_counts_against_no_arm(context: Context) -> None:
    before = arm_states(context)
    for _ in range(3):
        offered(context)
    assert arm_states(context) == before
    assert [one.pulls for one in queries.posteriors(context)] == [0] * len(KEYS)
    assert queries.status(context).offers_unobserved == 3
    assert queries.status(context).runs == 0


def test_arms_on_offer_are_known_and_those_left_out_learn_nothing(context: Context) -> None:
    left_out = offered(context).excluded[0]
    assert reward(context, left_out, 1.0).pulls == 1
    answer = reported(context, left_out, 1.0)
    assert (answer.run, answer.pulls) == (None, 2)


def test_what_a_person_says_afterwards_stands_for_itself(context: Context) -> None:
    offered(context, k=0)
    assert reported(context, KEYS[0], 1.0, is_lagged=True).run is None
    assert queries.status(context).offers_unobserved == 1


def test_a_passive_learner_records_and_learns_nothing_of_its_offers(context: Context) -> None:
    change(context, "phase", "passive")
    offered(context)
    reported(context, KEYS[0], 1.0)
    answer = reported(context, KEYS[1], 0.0)
    assert answer.run is not None
    assert answer.pulls == 0
    assert queries.status(context).skipped["passive"] == 1


def test_seeds_boost_and_limits_hold_for_one_call(context: Context) -> None:
    reported(context, KEYS[0], 1.0)
    asked = SelectionOptions(k=2, seed_arms=(KEYS[0], KEYS[5]), seed_boost=5.0, min_pulls=0)
    first = offer(context, ARMS, asked).selection
    assert first is not None
    assert set(first.included) == {KEYS[0], KEYS[5]}
    alphas = {one.arm: one.prior.alpha for one in queries.posteriors(context)}
    assert alphas == dict.fromkeys(KEYS, 3.0) | {KEYS[5]: 5.0}, "of those seen first"
    fits = offer(context, ARMS, SelectionOptions(k=0, budget_tokens=4, seed_arms=())).selection
    assert fits is not None
    assert fits.tokens <= 4
    assert fits.k == 0
    assert offer(context, [], asked).number is None


def test_a_learner_that_is_made_by_being_asked_begins_with_settings(context: Context) -> None:
    fresh = {"priors": {"tool": UNIFORM}, "seed_arms": ()}
    answer = report(context.of("new"), Report(arm=KEYS[0], value=1.0), fresh=fresh)
    assert (answer.alpha, answer.beta) == (2.0, 1.0)
    assert [one.action for one in queries.changes(context.of("new"))] == [
        "reward",
        "setting",
        "setting",
        "create",
    ]
    assert report(context.of("new"), Report(arm=KEYS[1], value=1.0), fresh={"k": 3}).alpha == 2.0
    assert queries.frame(context.of("new")).settings.k == 0


def test_an_id_that_is_none_is_refused_and_makes_nothing(context: Context) -> None:
    with pytest.raises(InvalidArm):
        report(context, Report(arm="a"))
    assert arm_states(context).arms == ()


def test_an_export_tells_runs_that_are_not_told_wholly_and_goes_on_with_them(tmp_path: Path) -> None:
    context, other = ticking(tmp_path / "a.db"), context_at(tmp_path / "b.db")
    first, second, third = offered(context).included
    reported(context, first, 1.0)
    (before,) = exported(context, other, tmp_path)
    reported(context, second, 0.0)
    reported(context, third, 0.5)
    reported(context, KEYS[0], 0.25)
    (act,) = exported(context, other, tmp_path)
    undo(other, act)
    assert len(arm_states(other).arms) == 1
    redo(other, act)
    assert arm_states(other) == arm_states(context)
    undo(other, before)
    assert arm_states(other) == arm_states(context), "the later import says it, too"
    assert queries.verify(other).clean


def exported(context: Context, other: Context, folder: Path) -> Sequence[str]:
    """What one learner tells another, who then believes the same; the act of it."""
    file = folder / f"{queries.revision(context)}.jsonl"
    export_file(context, file)
    answer = import_files(other, [file])
    assert arm_states(other) == arm_states(context)
    assert queries.verify(other).clean
    assert answer.id is not None
    return [answer.id]


def test_a_run_that_an_import_tells_too_takes_no_more(context: Context, tmp_path: Path) -> None:
    first, second, _ = offered(context).included
    reported(context, first, 1.0)
    export_file(context, tmp_path / "e.jsonl")
    news = lines_file(tmp_path / "news.jsonl", run_line("another"))
    act = import_files(context, [tmp_path / "e.jsonl", news], format="armscope")
    answer = reported(context, second, 0.0)
    assert (answer.id, answer.pulls) == ("reward-1", 1)
    undo(context, act.id)
    assert queries.verify(context).clean
    assert state(context, second).pulls == 1


@pytest.mark.parametrize(
    "more",
    [{"unobserved": [KEYS[0]]}, {"unobserved": [KEYS[1]], "format": "offer"}],
)
def test_unobserved_arms_are_of_an_offers_prompt(
    context: Context, tmp_path: Path, more: dict[str, object]
) -> None:
    line = {"kind": "run", "uid": "r", "arms": [KEYS[0]], "outcome": "observed", **more}
    file = lines_file(tmp_path / "r.jsonl", line)
    with pytest.raises(UnreadableSource, match="nobserved arm"):
        import_files(context, [file], format="armscope")


def test_a_reset_and_what_comes_after(context: Context) -> None:
    offered(context, k=0)
    reported(context, KEYS[0], 1.0)
    done = reset(context, arms=[KEYS[0]])
    assert (state(context, KEYS[0]).alpha, state(context, KEYS[0]).pulls) == (1.0, 0)
    offered(context, k=0)
    assert reported(context, KEYS[0], 1.0).alpha == 2.0
    undo(context, done.id)
    assert state(context, KEYS[0]).pulls == 2
    assert queries.verify(context).clean


def test_what_is_told_after_a_reset_counts_after_it(context: Context) -> None:
    """As with qortex: whoever reports is answered with one pull more, no matter what was selected when."""
    offered(context, k=0)
    run = reported(context, KEYS[0], 1.0).run
    done = reset(context)
    assert (reported(context, KEYS[1], 1.0).run, state(context, KEYS[1]).pulls) == (None, 1)
    undo(context, done.id)
    assert reported(context, KEYS[2], 1.0).run == run, "the run goes on where no boundary is drawn"
    offered(context, k=0)
    reset(context)
    after = reported(context, KEYS[1], 1.0)
    assert (after.run is None, after.pulls) == (False, 1), "nothing was told of this one before"


def test_sessions_begin_and_end_once(context: Context) -> None:
    begun = start_session(context.of("elsewhere"), "chat 1")
    assert begun.ended_at is None
    ended = finish_session(context, begun.uid)
    assert ended is not None
    assert (ended.learner, ended.name) == ("elsewhere", "chat 1")
    assert ended.ended_at is not None
    assert finish_session(context, begun.uid) == ended
    assert finish_session(context, "nobody's") is None


def test_a_session_that_is_erased_is_erased_where_it_was_offered(context: Context) -> None:
    offered(context, session="Mara's chat")
    start_session(context, "Mara's chat")
    assert erase(context, session="Mara's chat").places
    offered(context, session="Mara's chat")
    assert b"Mara's chat" not in content(context.store)


def test_a_transcript_of_what_was_observed_through_a_door_is_not_told_twice(
    context: Context, tmp_path: Path
) -> None:
    reported(context, offered(context, session="chat 1").included[0], 1.0, session="chat 1")
    before = arm_states(context), queries.revision(context)
    lines = [run_line("a", session=session, calls=["a"]) for session in ("chat 2", "chat 1")]
    files = [lines_file(tmp_path / f"{number}.jsonl", line) for number, line in enumerate(lines)]
    with pytest.raises(NotApplicable, match=r"chat 1.*1\.jsonl") as refused:
        import_files(context, files)
    assert "--phase passive" in refused.value.next_step
    assert (arm_states(context), queries.revision(context)) == before
    assert import_files(context, files[1:], phase="passive").runs == 1
    assert arm_states(context) == before[0]
    export_file(context, tmp_path / "own.jsonl")
    assert import_files(context_at(tmp_path / "b.db"), [tmp_path / "own.jsonl"]).runs == 2
