"""No one waits for an import: not while it reads, not while it writes; and one that is killed leaves nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.importing.files import import_in_steps
from core.flows.learn import record, record_all, reward
from core.flows.select import select
from core.formats import Opened, Source, open_sources
from core.store.store import Store
from tests.bench import worlds
from tests.conftest import ROOT
from tests.engine import named
from tests.flows.test_in_parts import said_by
from tests.store.child import Living, say
from tests.worlds import IN_PARTS, a_run, context_at
from tests.worlds.history import line_of, made_of

ARM = "tool:other:a"


def patient_for(context: Context, seconds: float) -> Context:
    """The same context for someone who waits only so long for other writers."""
    return replace(context, store=Store(named(context.store), lock_timeout_s=seconds))


def test_a_reward_is_answered_while_an_import_reads(context: Context, tmp_path: Path) -> None:
    """The reader stands still until the reward was answered: who held the lock while reading would never end."""
    file = tmp_path / "runs.jsonl"
    file.write_bytes(b"".join(line_of(f"run-{number}", 0) for number in range(2_000)))
    record(context, a_run("first"))
    is_reading, may_go_on = threading.Event(), threading.Event()

    def stand_still(_opened: Opened, _source: Source, _n_bytes: int) -> None:
        is_reading.set()
        may_go_on.wait()

    importer = threading.Thread(target=import_files, args=(context, [file]), kwargs={"progress": stand_still})
    importer.start()
    is_reading.wait()
    try:
        assert reward(patient_for(context, 0.1), ARM, 1.0).id == "reward-1"
        select(patient_for(context, 0.1))
        assert queries.status(context).runs == 1
    finally:
        may_go_on.set()
        importer.join()
    assert queries.status(context).runs == 2_001
    assert queries.verify(context).clean


def test_a_reward_is_answered_between_the_parts(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_bytes(b"".join(line_of(f"run-{number}", 0) for number in range(40)))
    record(context, a_run("first"))
    other, n_parts = patient_for(context, 0.1), 0
    with closing(import_in_steps(replace(context, pace=IN_PARTS), open_sources([file]))) as steps:
        for _ in steps:
            n_parts += 1
            assert reward(other, ARM, 1.0).id == f"reward-{n_parts}"
            assert queries.status(other).runs == 1
    assert n_parts > 10
    assert queries.status(other).runs == 41
    assert queries.verify(other).clean


def test_killed_imports_leave_nothing_that_stands(tmp_path: Path) -> None:
    """One after the other, each killed in some part of it; the next one sweeps."""
    random, database = Random(1), tmp_path / "a.db"
    context = context_at(database)
    record(context, made_of("run-3", 1))
    before = said_by(context, in_order=True)
    for number in range(4):
        file = tmp_path / f"{number}.jsonl"
        uids = [
            "run-3",
            *(f"run-{random.randrange(8)}" for _ in range(5)),
            *(f"run-{n}" for n in range(8, 60)),
        ]
        file.write_bytes(b"".join(line_of(uid, random.randrange(4)) for uid in uids))
        child = Living("in_parts", database, file)
        for _ in range(random.randrange(1, 12)):
            assert child.stdout.readline() == "part\n"
            say("on", child.stdin)
        child.kill()  # somewhere in the next part
        child.end()
        assert said_by(context, in_order=True) == before
        assert queries.verify(context).clean
    file = tmp_path / "last.jsonl"
    file.write_bytes(b"".join(line_of(f"run-{number}", 1) for number in range(6)))
    answer = import_files(replace(context, pace=IN_PARTS), [file])
    assert (answer.id, answer.runs, answer.duplicates) == ("import-1", 6, 1)
    with context.reading() as snapshot:
        assert snapshot.staged.import_no == 0
        ((n_runs,),) = snapshot.connection.rows("SELECT count(*) FROM run")
        assert n_runs == 6
        for table in ("staged_arm", "staged_hour", "staged_day", "staged_usage", "staged_provenance"):
            assert snapshot.connection.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    (tmp_path / "once").mkdir()
    once = context_at(tmp_path / "once" / "a.db")
    record(once, made_of("run-3", 1))
    import_files(once, [file])
    assert [one for one in said_by(context, in_order=True) if one["kind"] == "run"] == [
        one for one in said_by(once, in_order=True) if one["kind"] == "run"
    ]


@pytest.mark.long
def test_how_long_a_reward_and_a_selection_wait_for_a_gigabyte(tmp_path: Path) -> None:
    """Prints the longest waits: ``pytest -m long -s -k gigabyte tests/flows/test_waits.py``."""
    source, database = tmp_path / "runs.jsonl", tmp_path / "a.db"
    n_runs = worlds.write_lines(source, 1, n_bytes=10**9)
    context = worlds.context_at(database)
    record_all(context, list(worlds.runs(2_000, first=90_000_000)))
    importer = subprocess.Popen([sys.executable, "-m", "tests.bench.importing", source, database], cwd=ROOT)
    rewards: list[float] = []
    selections: list[float] = []
    while importer.poll() is None:
        began = perf_counter()
        reward(context, "tool:other:tool_00001", 1.0)
        rewarded = perf_counter()
        select(context)
        rewards.append(rewarded - began)
        selections.append(perf_counter() - rewarded)
    assert importer.returncode == 0
    assert queries.status(context).runs == n_runs + 2_000
    before_the_end = sorted(rewards)[-2]
    sys.stdout.write(
        f"\n{n_runs:,} runs; longest reward {before_the_end:.2f} s, in the last step {max(rewards):.2f} s;"
        f" longest selection {max(selections):.3f} s\n"
    )
