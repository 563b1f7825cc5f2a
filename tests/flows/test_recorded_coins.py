"""Recorded coins: which runs our own selection drew, behind the public doors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.restore import copy_database, restore
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.run import Usage
from tests.engine import kept_in
from tests.worlds import chosen_among, context_at

pytestmark = pytest.mark.of_file
ARMS = tuple(Arm(key=f"tool:other:t{number}") for number in range(4))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """A database of 200 runs that our own selection drew, and that saves two fifths of the tokens."""
    chance, seeds = np.random.default_rng(8), iter(range(10**6))
    context = replace(context_at(tmp_path_factory.mktemp("drawn") / "a.db"), entropy=lambda: next(seeds))
    change(context, "baseline_rate", 0.4)
    change(context, "k", 2)
    runs = []
    for number in range(200):
        chosen = select(context, ARMS)
        tokens = (10_000 if chosen.run_class == "baseline" else 6_000) * chance.lognormal(0, 0.2)
        runs.append(
            chosen_among(
                f"run-{number}",
                chosen,
                ARMS,
                usage=Usage(input=round(tokens), output=0),
                ended_at_ms=number * 3_600_000,
            )
        )
    record_all(context, runs)
    return context


def claim(context: Context) -> tuple[str, str]:
    overall = queries.savings(context).overall
    return overall.verdict, overall.reason


def test_runs_that_our_selection_drew_prove_a_saving(drawn: Context) -> None:
    assert claim(drawn) == ("proven", "interval_above_zero")
    assert queries.savings(drawn).balance.n_draws == 200


def test_a_copy_and_a_restored_backup_keep_the_draws(drawn: Context, tmp_path: Path) -> None:
    copy_database(drawn.store.location, tmp_path / "copy.db")
    assert claim(context_at(tmp_path / "copy.db")) == ("proven", "interval_above_zero")
    maintenance.backup(drawn, tmp_path / "backup.db")
    empty = context_at(tmp_path / "other.db")
    change(empty, "k", 3)
    restore(kept_in(empty.store), tmp_path / "backup.db", clock=lambda: 0)
    assert claim(empty) == ("proven", "interval_above_zero")


def test_an_export_that_another_learner_reads_is_declared(drawn: Context, tmp_path: Path) -> None:
    export_file(drawn, tmp_path / "runs.jsonl", "jsonl")
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "runs.jsonl"])
    assert claim(other) == ("not_proven", "declared_coin")
    ours, theirs = queries.savings(drawn).overall, queries.savings(other).overall
    assert theirs.capped_percent == ours.capped_percent
    assert queries.verify(other).clean


def test_classes_that_a_file_only_names_have_no_coin(drawn: Context, tmp_path: Path) -> None:
    export_file(drawn, tmp_path / "runs.jsonl", "jsonl")
    lines = [msgspec.json.decode(line) for line in (tmp_path / "runs.jsonl").read_bytes().splitlines()]
    bare = [{name: part for name, part in line.items() if name != "selection"} for line in lines]
    (tmp_path / "bare.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, bare)))
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "bare.jsonl"])
    overall = queries.savings(other).overall
    assert sum(overall.n_compared) == 200
    assert claim(other) == ("not_proven", "no_coin")
