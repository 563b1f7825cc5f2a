"""What was acknowledged is there, once, whoever is killed; a backup under load is a whole beginning."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import pytest

from core.flows import keep, look
from core.flows.desk import Desk
from core.flows.learn import record
from core.flows.reward import RewardAnswer, reward
from tests.flows.world import desk_at, run_of
from tests.store.child import order_of, start

ENDLESS = 10**6


@dataclass
class Writer:
    """A writing process, and everything it said was on disk."""

    path: Path
    seed: int
    n_batches: int
    runs: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] = field(init=False)
    _listener: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.process = start("write", self.path, str(self.seed), str(self.n_batches))
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            kind, *told = line.split()
            if kind == "runs":
                self.runs.update(f"run-{number}" for number in told)
            else:
                self.keys.update(told)

    def wait_for_words(self) -> None:
        """Until something was acknowledged; starting takes a while on a busy machine."""
        while not self.runs and self.process.poll() is None:
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        self.process.wait(timeout=120)
        self._listener.join()
        assert self.process.stderr is not None
        problem = self.process.stderr.read()
        if problem:
            self.problems.append(problem)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def storm(path: Path, *, n_writers: int, n_kills: int, n_batches: int, seed: int) -> list[Writer]:
    """Writers on one file, of which some are killed at random moments and start again from their beginning."""
    random = Random(seed)
    working = [Writer(path, number, n_batches) for number in range(n_writers)]
    all_of_them = list(working)
    for _ in range(n_kills):
        victim = random.choice(working)
        victim.wait_for_words()
        time.sleep(random.random() * 0.3)
        victim.kill()
        working.remove(victim)
        working.append(Writer(path, victim.seed, n_batches))
        all_of_them.append(working[-1])
    for writer in working:
        writer.end()
        assert writer.process.returncode == 0, writer.problems
    return all_of_them


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    driver = sqlite3.connect(path)
    found = driver.execute(sql).fetchall()
    driver.close()
    return found


def check_whole(path: Path, writers: list[Writer]) -> None:
    assert [problem for writer in writers for problem in writer.problems] == []
    desk = desk_at(path)
    uids = Counter(uid for (uid,) in rows(path, "SELECT uid FROM run"))
    keys = Counter(key for (key,) in rows(path, "SELECT key FROM reply"))
    assert set(uids.values()) | set(keys.values()) == {1}, "nothing is there twice"
    assert set().union(*[writer.runs for writer in writers]) <= uids.keys(), "nothing is lost"
    assert set().union(*[writer.keys for writer in writers]) <= keys.keys()
    assert rows(path, "SELECT count(*) FROM observation") == [(len(keys),)]
    assert alphas(desk) == expected_alphas(len(uids), [str(key) for key in keys])
    verification = look.verify(desk)
    assert verification.clean, verification.found


def alphas(desk: Desk) -> dict[str, tuple[float, float, int]]:
    return {one.arm: (one.alpha, one.beta, one.pulls) for one in look.posteriors(desk)}


def expected_alphas(n_runs: int, keys: list[str]) -> dict[str, tuple[float, float, int]]:
    """Every run calls a and leaves b and c unused; every key adds what it says."""
    micro = {f"tool:other:{name}": [3_000_000, 1_000_000, n_runs] for name in "abc"}
    for arm, sums in micro.items():
        sums[0 if arm.endswith("a") else 1] += n_runs * 1_000_000
    for key in keys:
        order = order_of(key)
        success = round(order.reward * 1_000_000)
        sums = micro[order.arm]
        sums[0] += success
        sums[1] += 1_000_000 - success
        sums[2] += 1
    return {arm: (alpha / 1e6, beta / 1e6, pulls) for arm, (alpha, beta, pulls) in micro.items()}


def test_four_writers_of_which_some_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """They also make the database at the same moment."""
    path = tmp_path / "storm.db"
    check_whole(path, storm(path, n_writers=4, n_kills=3, n_batches=12, seed=1))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_eight_writers_of_which_many_are_killed(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "storm.db"
    check_whole(path, storm(path, n_writers=8, n_kills=24, n_batches=120, seed=seed))


def test_a_kill_in_the_middle_of_a_large_batch_leaves_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    desk = desk_at(path)
    record(desk, run_of("first"))
    desk.store.close()
    for delay in (0.0, 0.05, 0.15):
        writer = Writer(path, 5, ENDLESS)
        writer.wait_for_words()
        time.sleep(delay)
        writer.kill()
        assert writer.problems == []
        told = {str(uid) for (uid,) in rows(path, "SELECT uid FROM run")}
        assert writer.runs | {"first"} <= told
        assert look.verify(desk_at(path)).clean


def test_two_people_who_send_one_form_at_once_are_answered_alike(tmp_path: Path) -> None:
    path = tmp_path / "forms.db"
    people = [desk_at(path, name=name) for name in ("mara", "jo")]
    record(people[0], run_of("r"))
    for number in count():
        answers: list[RewardAnswer] = []
        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=_send, args=[desk, number, barrier, answers]) for desk in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 2
        assert answers[0] == answers[1]
        if number == 7:
            break
    assert alphas(people[0])["tool:other:b"] == (3 + 8 * 0.25, 2 + 8 * 0.75, 9)
    assert look.verify(people[0]).clean


def _send(desk: Desk, number: int, barrier: threading.Barrier, answers: list[RewardAnswer]) -> None:
    barrier.wait()
    answers.append(reward(desk, "tool:other:b", 0.25, key=f"form-{number}"))


FACTS = {
    "run": "SELECT * FROM run WHERE revision <= {} ORDER BY run_no",
    "outcome": "SELECT o.* FROM outcome o JOIN run r USING (learner_id, run_no) WHERE r.revision <= {}"
    " ORDER BY o.run_no, o.arm_no",
    "observation": "SELECT * FROM observation WHERE revision <= {} ORDER BY observation_no",
    "audit": "SELECT * FROM audit WHERE revision <= {} ORDER BY audit_no",
}


def test_a_backup_under_load_is_a_whole_beginning_of_what_came(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    writers = [Writer(path, seed, ENDLESS) for seed in (1, 2)]
    for writer in writers:
        writer.wait_for_words()
    desk = desk_at(path)
    copies = []
    for number in range(3):
        copies.append(tmp_path / "copies" / f"{number}.db")
        answer = keep.backup(desk, copies[-1])
        assert answer.size_bytes == copies[-1].stat().st_size
        time.sleep(0.1)
    for writer in writers:
        writer.kill()
    revisions = []
    for copy in copies:
        assert look.verify(desk_at(copy)).clean
        ((revision,),) = rows(copy, "SELECT revision FROM learner")
        revisions.append(int(str(revision)))
        for sql in FACTS.values():
            assert rows(copy, sql.replace("{}", "9e18")) == rows(path, sql.replace("{}", str(revision)))
    assert revisions == sorted(set(revisions)), "each later one holds more"
    check_whole(path, writers)


def test_a_restored_copy_goes_on_by_itself(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    record(desk, run_of("r"))
    answer = keep.backup(desk, tmp_path / "copy.db")
    record(desk, run_of("later"))
    copy = desk_at(Path(answer.file))
    assert look.status(copy).runs == 1
    assert record(copy, run_of("r")).told == "duplicate"
    record(copy, run_of("other"))
    assert [one.uid for one in look.runs(copy)] == ["other", "r"]
    assert [one.uid for one in look.runs(desk)] == ["later", "r"]
    assert look.verify(copy).clean
