"""Evaluations and credits are there with all that follows from them, or not at all, whoever is killed in between."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from core.flows import queries
from tests.store import judging
from tests.store.child import answer, crowd, say
from tests.store.judging import ALL, held
from tests.store.storm import rows
from tests.waiting import memory_folder
from tests.worlds import context_at

pytestmark = pytest.mark.of_file  # by processes that are told a path

KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def base() -> Iterator[bytes]:
    """A database in which there is something to judge, as a file."""
    with TemporaryDirectory(dir=memory_folder()) as folder:
        yield judging.judged_database(Path(folder)).read_bytes()


class Sending:
    """What is sent in a case: how many statements that takes, and what the database holds before and afterwards."""

    def __init__(self, folder: Path, base: bytes, case: str) -> None:
        self.folder, self.base, self.case = folder, base, case
        path = self.fresh()
        self.before = held(context_at(path))
        code, said = answer("judge_until", path, case, "0")
        assert code == 0
        self.n_statements = int(said)
        self.after = held(context_at(path))

    def fresh(self) -> Path:
        """Files as they were before anything was sent."""
        for file in self.folder.glob("judged.db*"):
            file.unlink()
        path = self.folder / "judged.db"
        path.write_bytes(self.base)
        return path

    def kill_before(self, number: int, random: Random | None = None) -> bool:
        """Kill whoever sends it before a statement, or after the last; then send it again, once more killed
        somewhere if ``random`` is given, and again. Whether the first time it was already on disk.
        """
        path = self.fresh()
        assert answer("judge_until", path, self.case, str(number))[0] == KILLED
        found = self._sound(path)
        assert found in {self.before, self.after}, f"half of it is there, killed before statement {number}"
        if random is not None:
            again = random.randint(1, self.n_statements + 1)
            assert answer("judge_until", path, self.case, str(again))[0] == KILLED
            assert self._sound(path) in {found, self.after}
        context = context_at(path)
        answers = judging.send(context, self.case)
        assert self._sound(path) == self.after
        assert judging.send(context, self.case) == answers
        context.store.close()
        assert self._sound(path) == self.after
        return found == self.after

    @staticmethod
    def _sound(path: Path) -> str:
        """What it holds; verify finds nothing."""
        context = context_at(path)
        assert queries.verify(context).clean
        found = held(context)
        context.store.close()
        return found


@pytest.fixture(params=ALL)
def sending(request: pytest.FixtureRequest, base: bytes) -> Iterator[Sending]:
    with TemporaryDirectory(
        dir=memory_folder()
    ) as folder:  # that what is not synced may be lost is test_power's
        yield Sending(Path(folder), base, request.param)


def test_killed_at_some_statement_all_or_nothing_is_there(sending: Sending) -> None:
    """At the first, at the last before it is on disk, just after that, and at two in between."""
    last = sending.n_statements
    assert last >= 10
    kept = [sending.kill_before(number) for number in (1, last // 3, 2 * last // 3, last, last + 1)]
    assert kept == [False, False, False, False, True]


@pytest.mark.long
def test_killed_between_any_two_statements_five_hundred_times(
    base: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every statement of every case in turn, each time once more killed while it is sent again."""
    random, n_kept, places = Random(1), 0, []
    with TemporaryDirectory(dir=memory_folder()) as folder:
        for case in ALL:
            sending = Sending(Path(folder), base, case)
            places += [(case, number) for number in range(1, sending.n_statements + 2)]
        for place in islice((places[number % len(places)] for number in count()), max(500, len(places))):
            sending = sending if sending.case == place[0] else Sending(Path(folder), base, place[0])
            n_kept += sending.kill_before(place[1], random)
    with capsys.disabled():
        say(
            f"\n{len(places)} places, {max(500, len(places))} kills twice each, {n_kept} after it was on disk"
        )


def test_two_processes_that_send_one_key_make_one_row(tmp_path: Path, base: bytes) -> None:
    path = tmp_path / "judged.db"
    path.write_bytes(base)
    (before,) = rows(path, "SELECT count(*) FROM evaluation")[0]
    keys = [f"key-{number}" for number in range(20)]
    mine, theirs = crowd(path, ["judge", path, "mara", *keys], ["judge", path, "mara", *keys])
    assert mine == theirs == (0, mine[1])
    assert len(mine[1].splitlines()) == 1 + len(keys)
    assert rows(path, "SELECT count(*) FROM evaluation") == [(int(str(before)) + len(keys),)]
    assert queries.verify(context_at(path)).clean


def test_eight_who_judge_at_once_lose_nothing(tmp_path: Path, base: bytes) -> None:
    """They judge the same runs, arms and layers, so that each moves what the others have made of them."""
    path = tmp_path / "judged.db"
    path.write_bytes(base)
    sent = {f"rater-{who}": [f"key-{who}-{number}" for number in range(12)] for who in range(8)}
    told = crowd(path, *(["judge", str(path), rater, *keys] for rater, keys in sent.items()))
    assert {code for code, _ in told} == {0}
    answered = [line.split()[1] for _, said in told for line in said.splitlines() if line != "ready"]
    stored = rows(
        path,
        "SELECT q.key, e.rater, 'evaluation-' || e.evaluation_no FROM reply q JOIN evaluation e"
        " ON e.learner_id = q.learner_id AND q.kind = 'evaluation' AND e.evaluation_no = q.no",
    )
    assert {(key, rater) for key, rater, _ in stored} == {
        (key, who) for who, keys in sent.items() for key in keys
    }
    assert sorted(answered) == sorted(str(number) for *_, number in stored)
    assert queries.verify(context_at(path)).clean
