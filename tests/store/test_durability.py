"""What was acknowledged is there, once, whoever is killed; a backup under load is a whole beginning."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path
from random import Random

import msgspec
import pytest

from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.learn import record, reward
from core.records.observation import RewardAnswer
from tests.store.child import say
from tests.store.storm import ENDLESS, Storm, compactor, reader, rows, writer
from tests.worlds import a_run, context_at

pytestmark = pytest.mark.of_file  # by processes that are told a path

FACTS = {
    "run": "SELECT * FROM run WHERE revision <= {} ORDER BY run_no",
    "outcome": "SELECT o.* FROM outcome o JOIN run r USING (learner_id, run_no) WHERE r.revision <= {}"
    " ORDER BY o.run_no, o.arm_no",
    "observation": "SELECT * FROM observation WHERE revision <= {} ORDER BY observation_no",
    "audit": "SELECT * FROM audit WHERE revision <= {} ORDER BY audit_no",
}


def storm(
    path: Path, *, n_writers: int, n_readers: int, n_kills: int, n_batches: int, n_runs: int = 3, seed: int
) -> Storm:
    """Writers and readers on one file, of which some are killed at random moments and start again."""
    raging = Storm(path)
    writers = [writer(path, number, n_batches, n_runs) for number in range(n_writers)]
    readers = [reader(path) for _ in range(n_readers)]
    raging.rage(writers, readers, n_kills=n_kills, random=Random(seed))
    return raging


def test_four_writers_of_which_some_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """They also make the database at the same moment; a reader looks on, and is killed too."""
    raged = storm(tmp_path / "storm.db", n_writers=4, n_readers=1, n_kills=4, n_batches=12, seed=1)
    raged.check()
    found = raged.figures()
    assert (found.writers, found.readers, found.kills, found.verified) == (4, 2, 4, 5)
    assert found.sent > found.acknowledged > 0
    assert found.moments > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_eight_writers_of_which_many_are_killed(tmp_path: Path, seed: int) -> None:
    storm(tmp_path / "storm.db", n_writers=8, n_readers=2, n_kills=24, n_batches=120, seed=seed).check()


@pytest.mark.long
def test_a_hundred_thousand_observations_under_kills(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``pytest -m long tests/store -k hundred_thousand`` prints what came of it."""
    raged = storm(
        tmp_path / "storm.db", n_writers=8, n_readers=2, n_kills=40, n_batches=450, n_runs=20, seed=2
    )
    with capsys.disabled():
        say(f"\nunder kills: {msgspec.json.encode(raged.figures()).decode()}")
    raged.check()
    assert raged.figures().acknowledged >= 100_000


def compacting_storm(
    path: Path, *, n_writers: int, n_kills: int, n_compactions: int, n_batches: int, seed: int
) -> Storm:
    """The same beside a process that compacts their runs, and that is killed more often than they are."""
    raging, random = Storm(path), Random(seed)
    writers = [writer(path, number, n_batches) for number in range(n_writers)]
    compacting = compactor(path)
    for _ in range(n_compactions):
        compacting.wait_for("saw")
        time.sleep(random.random() * 0.2)
        compacting.kill()
        raging.n_kills += 1
        raging.readers.append(compacting)
        compacting = compacting.again()
        raging.verify()
    raging.rage(writers, [compacting, reader(path)], n_kills=n_kills, random=random)
    return raging


def test_a_compaction_that_is_killed_beside_writers_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """A writer that was killed sends its compacted runs again, and they are known."""
    raged = compacting_storm(
        tmp_path / "storm.db", n_writers=2, n_kills=4, n_compactions=4, n_batches=20, seed=5
    )
    raged.check()
    assert raged.n_compacted() > 20
    assert raged.figures().kills == 8


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_compactions_that_are_killed_many_times(tmp_path: Path, seed: int) -> None:
    compacting_storm(
        tmp_path / "storm.db", n_writers=6, n_kills=24, n_compactions=40, n_batches=150, seed=seed
    ).check()


def test_a_kill_in_the_middle_of_a_large_batch_leaves_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    context = context_at(path)
    record(context, a_run("first"))
    context.store.close()
    for delay in (0.0, 0.05, 0.15):
        victim = writer(path, 5, ENDLESS)
        victim.wait_for("runs")
        time.sleep(delay)
        victim.kill()
        assert victim.problems == [""]
        told = {str(uid) for (uid,) in rows(path, "SELECT uid FROM run")}
        assert {f"run-{number}" for number in victim.said("runs")} | {"first"} <= told
        assert queries.verify(context_at(path)).clean


def test_two_people_who_send_one_form_at_once_are_answered_alike(tmp_path: Path) -> None:
    path = tmp_path / "forms.db"
    people = [context_at(path, name=name) for name in ("mara", "jo")]
    record(people[0], a_run("r"))
    for number in count():
        answers: list[RewardAnswer] = []
        barrier = threading.Barrier(2)
        threads = [
            threading.Thread(target=_send, args=[context, number, barrier, answers]) for context in people
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 2
        assert answers[0] == answers[1]
        if number == 7:
            break
    (belief,) = [one for one in queries.posteriors(people[0]) if one.arm == "tool:other:b"]
    assert (belief.alpha, belief.beta, belief.pulls) == (3 + 8 * 0.25, 2 + 8 * 0.75, 9)
    assert queries.verify(people[0]).clean


def _send(context: Context, number: int, barrier: threading.Barrier, answers: list[RewardAnswer]) -> None:
    barrier.wait()
    answers.append(reward(context, "tool:other:b", 0.25, key=f"form-{number}"))


def test_a_backup_under_load_is_a_whole_beginning_of_what_came(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    busy = Storm(path, writers=[writer(path, seed, ENDLESS) for seed in (1, 2)])
    for one in busy.writers:
        one.wait_for("runs")
    context = context_at(path)
    copies = []
    for number in range(3):
        copies.append(tmp_path / "copies" / f"{number}.db")
        answer = maintenance.backup(context, copies[-1])
        assert answer.size_bytes == copies[-1].stat().st_size
        time.sleep(0.1)
    for one in busy.writers:
        one.kill()
    revisions = []
    for copy in copies:
        assert queries.verify(context_at(copy)).clean
        ((revision,),) = rows(copy, "SELECT revision FROM learner WHERE learner_id <> 0")
        revisions.append(int(str(revision)))
        for sql in FACTS.values():
            assert rows(copy, sql.replace("{}", "9e18")) == rows(path, sql.replace("{}", str(revision)))
    assert revisions == sorted(set(revisions)), "each later one holds more"
    busy.check()


def test_a_restored_copy_goes_on_by_itself(context: Context, tmp_path: Path) -> None:
    record(context, a_run("r"))
    answer = maintenance.backup(context, tmp_path / "copy.db")
    record(context, a_run("later"))
    copy = context_at(Path(answer.file))
    assert queries.status(copy).runs == 1
    assert record(copy, a_run("r")).told == "duplicate"
    record(copy, a_run("other"))
    assert [one.uid for one in queries.runs(copy)] == ["other", "r"]
    assert [one.uid for one in queries.runs(context)] == ["later", "r"]
    assert queries.verify(copy).clean
