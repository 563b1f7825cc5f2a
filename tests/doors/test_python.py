"""The Python door: what a stranger writes in ten lines, and what is stated when it is wrong."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from core import Arm, Prior, Usage, open_learner
from core.columns import UNKNOWN
from core.errors import InvalidInput, UnknownLearner
from core.flows import queries
from core.records.arm import MICRO
from core.records.run_query import View
from tests.worlds import put_empty_database

READ, SEARCH = "tool:fs:Read", "tool:web:search"


@pytest.fixture(autouse=True)
def new_database(tmp_path: Path) -> None:
    """Made in a moment; that one is made where there is none, the README's lines show."""
    put_empty_database(tmp_path / "a.db")


def test_what_was_called_under_a_name_no_arm_has_is_answered(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        arms = [READ, "tool:github:create_issue"]
        calls = ["Reed", "mcp__github__create_issue", "Grep", "Reed"]
        told = learner.record("r", arms=arms, calls=["Grep", *calls, "Reed"])
        assert (told.outcome, told.observed, told.not_offered) == ("observed", 2, ("Reed", "Grep"))
        assert learner.record("r", arms=arms, calls=["Grep", *calls, "Reed"]).not_offered == ("Reed", "Grep")
        assert learner.record("s", arms=arms, calls=["Read"]).not_offered == ()
        believed = {one.arm: (one.alpha, one.beta) for one in learner.posteriors()}
        assert believed == {READ: (4, 2), "tool:github:create_issue": (4, 2)}


def test_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    arms = [f"skill:s{number}:main" for number in range(30)]
    with open_learner(tmp_path / "a.db", entropy=lambda: 7) as learner:
        assert learner.select(arms, k=5) == learner.select(arms, k=5)
        assert learner.select(arms, k=0).excluded == ()
        assert learner.select([]).decisions == ()


def test_a_learner_is_made_when_first_written_to(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db", "support") as learner:
        with pytest.raises(UnknownLearner):
            learner.posteriors()
        chosen = learner.select([READ])
        learner.record("r", selection=chosen, calls=["Read"])
        assert [one.pulls for one in learner.posteriors()] == [1]
    with open_learner(tmp_path / "a.db") as other, pytest.raises(UnknownLearner, match="known are support"):
        other.posteriors()
    with open_learner(tmp_path / "b.db") as only:
        assert only.posteriors() == []


def test_times_are_aware_and_neither_before_1970_nor_beyond_reason(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        naive = datetime(2026, 1, 1)  # noqa: DTZ001 - on purpose
        with pytest.raises(InvalidInput, match="without a zone"):
            learner.record("r", arms=[READ], ended_at=naive)
        east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
        learner.record("r", arms=[READ], ended_at=east)
        learner.record("q", arms=[READ], ended_at=datetime(2026, 1, 1, tzinfo=UTC))
        status = learner.status()
        assert status.first_run == status.last_run == "2026-01-01T00:00:00.000Z"
        for moment in (datetime(1969, 12, 31, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)):
            with pytest.raises(InvalidInput, match="ended_at_ms"):
                learner.record("wrong", arms=[READ], calls=["Read"], ended_at=moment)
        for number, moment in enumerate(
            (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
        ):
            learner.record(f"r{number}", arms=[READ], calls=["Read"], ended_at=moment)
        assert learner.status().runs == 4
        assert learner.verify().clean


def test_an_arms_own_prior_and_a_memorys_content(tmp_path: Path) -> None:
    own = Prior(alpha_micro=MICRO // 2, beta_micro=MICRO // 4)
    note = Arm(key="memory:main:note", content="the customer prefers tea over coffee", prior=own)
    with open_learner(tmp_path / "a.db") as learner:
        learner.record(
            "r", arms=[note, READ], calls=["Read"], texts=["I know the customer prefers TEA over coffee"]
        )
        (one,) = [one for one in learner.posteriors() if one.arm == note.key]
        assert (one.alpha, one.beta, one.prior.alpha) == (1.5, 0.25, 0.5)
    assert b"prefers tea" not in (tmp_path / "a.db").read_bytes(), "content is read and never stored"


def test_threads_share_a_learner(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        learner.record("r", arms=[READ], calls=["Read"])

        def work(name: str) -> None:
            for number in range(10):
                learner.reward(READ, 0.5, key=f"{name}{number}")
                learner.select([READ])

        threads = [threading.Thread(target=work, args=[name]) for name in "aabb"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (one,) = learner.posteriors()
        assert (one.alpha, one.beta, one.pulls) == (4 + 10, 1 + 10, 21), "every key counts once"
        assert learner.verify().clean


def test_what_was_said_of_an_arm_on_offer_is_known_when_its_run_is_recorded(tmp_path: Path) -> None:
    fact = Arm(
        key="memory:fact:sla",
        label="Acme",
        content="Acme's contract promises an answer within four hours.",
        prior=Prior(alpha_micro=2 * MICRO, beta_micro=2 * MICRO),
    )
    told = "As Acme's contract promises an answer within four hours, I escalate now."
    with open_learner(tmp_path / "a.db") as learner:
        chosen = learner.select([READ, fact])
        learner.record("r1", selection=chosen, calls=["Read"], texts=[told])
        known = {one.arm: one for one in learner.posteriors()}[fact.key]
        assert (known.alpha, known.beta, known.prior.alpha) == (3, 2, 2)
    with open_learner(tmp_path / "a.db") as elsewhere:  # selected in one process, recorded in another
        elsewhere.record("r2", selection=chosen, arms=[fact], calls=["Read"], texts=[told])
        assert {one.arm: one.alpha for one in elsewhere.posteriors()}[fact.key] == 4
        with pytest.raises(
            InvalidInput, match="of those that the selection decided on, got 'tool:web:search'"
        ):
            elsewhere.record("r3", selection=chosen, arms=[SEARCH])


def test_a_cost_nobody_knows_stays_unknown(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        learner.record("r", selection=learner.select([READ]), calls=["Read"])
        assert queries.belief(learner.context).columns.token_cost.tolist() == [UNKNOWN]
        chosen = learner.select([Arm(key=SEARCH, token_cost=120)])
        learner.record("q", selection=chosen, calls=["Read"])
        assert queries.belief(learner.context).columns.token_cost.tolist() == [UNKNOWN, 120]


def test_a_reward_of_a_file_is_about_the_run_of_that_uid_and_no_other(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as here:
        here.record("1", arms=[READ], calls=["Read"])
        here.record("2", arms=[READ], calls=["Read"])
        here.reward(READ, 0, run="2", correct=True)
        here.export(tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "some.jsonl").write_text(
        "".join(line for line in lines if '"kind":"run"' not in line or '"uid":"1"' in line)
    )
    with open_learner(tmp_path / "b.db") as there:
        for uid in ("alpha", "beta"):  # runs number 1 and 2
            there.record(uid, arms=[READ], calls=["Read"])
        told = there.import_files(tmp_path / "some.jsonl")
        assert [one.reason for one in told.rejected] == [
            "Reward " + told.rejected[0].reason.split()[1] + " names run '2', which is not here."
        ]
        assert [one.alpha for one in there.posteriors()] == [6]  # 3 + three runs


def test_a_view_of_the_past_knows_nothing_of_what_came_after(tmp_path: Path) -> None:
    day = timedelta(days=1)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with open_learner(tmp_path / "a.db") as learner:
        learner.record("r0", arms=[SEARCH], calls=["search"], ended_at=start)
        learner.record("r1", arms=[READ], calls=["Read"], ended_at=start + 25 * day)
        then = View(until_ms=round((start + 26 * day).timestamp() * 1000))
        before = queries.overview(learner.context, then).attention
        learner.record("r2", arms=[SEARCH, READ], calls=["Read"], ended_at=start + 40 * day)
        assert queries.overview(learner.context, then).attention == before
        assert "stale_arms" not in {item.kind for item in before}


def test_whatever_may_be_recorded_can_be_exported_and_imported(tmp_path: Path) -> None:
    """The largest values that records take are ones that lines take."""
    longest = "x" * 512
    largest = Usage(input=10**12, output=10**12, cache_read=10**12, cache_write=10**12, total=10**12)
    arm = Arm(key=f"tool:fs:{'x' * 504}", token_cost=10**12, label="x" * 9_999)
    with open_learner(tmp_path / "a.db") as learner:
        for wrong in ({"duration_ms": 1.5}, {"status": "failed"}, {"model": longest + "x"}):
            with pytest.raises(InvalidInput):
                learner.record("wrong", arms=[READ], calls=["Read"], **wrong)
        learner.record(
            longest,
            arms=[arm],
            calls=["Read", longest],
            usage=largest,
            duration_ms=10**12,
            session=longest,
            model=longest,
            channel=longest,
            ended_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        )
        learner.export(tmp_path / "a.jsonl")
    with open_learner(tmp_path / "b.db") as other:
        answer = other.import_files(tmp_path / "a.jsonl")
        assert (answer.runs, answer.rejected) == (1, ())
        assert other.status().last_run == "9999-12-31T23:59:59.000Z"
        assert other.verify().clean
