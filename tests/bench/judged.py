"""Judged: evaluations, each on disk when it returns, against the driver alone; and files to train on.

What an evaluation changes is read off a database that armscope wrote, table by table, and put on disk again by the
driver: new facts, and the rows of the caches as they are afterwards.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from core.flows.context import Context
from core.flows.evaluate import evaluate_all
from core.flows.learn import record_all
from core.flows.settings import change
from core.flows.training import export_training
from core.records.evaluation import EvaluationOrder, EvaluationOutcome
from core.store.texts import instruction_digest
from tests.bench import bare
from tests.bench.harness import Pairs, Row, Scale, pairs
from tests.bench.importing import peak_mb
from tests.bench.worlds import START_MS, context_at, runs
from tests.conftest import ROOT

Changes = list[tuple[str, list[bare.Row]]]
"""Statements, each with its rows."""

_WARM: Final = 20
_N_LAYERS: Final = 12
_FACTS: Final = ("evaluation", "credit", "observation", "audit")
_CACHES: Final = ("layer_quality", "model_history", "posterior", "arm_hour", "arm_day")
_SAID: Final = "the agent was asked to look for what a service said when it failed"
_WORDS: Final = f"{_SAID} and found that it had been out of room".split()

_LEARNER: Final = (
    "UPDATE learner SET revision = ?, next_evaluation_no = ?, next_observation_no = ?, next_audit_no = ?"
    " WHERE learner_id = ?"
)


def one_evaluation(scale: Scale, folder: Path) -> list[Row]:
    """Of a layer in an execution of a run: its quality, its adapter's head, and the reward of an arm."""
    n = scale.n_durable_pairs + 1
    orders = [[_order(number)] for number in range(n)]
    timed = _against_driver(folder, orders, n_executions=n, collect=False)
    return [timed.row("one evaluation, durable, audited", "the same rows as driver statements", 2.0)]


def batch_of_evaluations(scale: Scale, folder: Path) -> list[Row]:
    """Many in one transaction, each with its audit entry and its answer."""
    n, n_batches = scale.n_batch_rewards, scale.n_batch_pairs + 1
    orders = [[_order(number * n + one) for one in range(n)] for number in range(n_batches)]
    timed = _against_driver(folder, orders, n_executions=n * n_batches, collect=True)
    base = "the same rows as driver statements, one batch"
    return [timed.row(f"{n:,} evaluations in one batch", base, 3.0)]


def _against_driver(
    folder: Path, acts: Sequence[Sequence[EvaluationOrder]], *, n_executions: int, collect: bool
) -> Pairs:
    warm = _warmed(folder / "warm.db", n_executions)
    twin = context_at(bare.copied(warm, folder / "twin.db"))
    changes = list(_changes(twin, acts, folder / "twin.db"))
    twin.store.close()
    context = context_at(bare.copied(warm, folder / "ours.db"))
    driver = bare.connect(bare.copied(warm, folder / "base.db"))
    timed = pairs(
        lambda number: _put(driver, changes[number]),
        lambda number: evaluate_all(context, acts[number]),
        len(acts) - 1,
        collect=collect,
    )
    context.store.close()
    driver.close()
    _check(folder)
    return timed


def _warmed(path: Path, n_executions: int) -> Path:
    """Runs of which one arm each was referenced, an execution of each, and an adapter with some layers."""
    context = context_at(path)
    record_all(context, list(runs(n_executions + _WARM, n_called=1)))
    change(context, "evaluation_credit", "referenced")
    context.store.close()
    with sqlite3.connect(path) as driver:
        _insert_subjects(driver, n_executions + _WARM)
        driver.execute("UPDATE execution SET run_no = execution_no")
    driver.close()
    context = context_at(path)
    evaluate_all(context, [_order(number) for number in range(n_executions, n_executions + _WARM)])
    context.store.close()
    return path


def _insert_subjects(driver: sqlite3.Connection, n_executions: int) -> None:
    driver.execute(
        "INSERT INTO adapter (learner_id, adapter_no, uri) VALUES (1, 1, 'kairos://adapter/review')"
    )
    driver.executemany(
        "INSERT INTO layer (learner_id, layer_no, uid, adapter_no, layer_index, tags, bare, standing)"
        " VALUES (1, ?, ?, 1, ?, '[]', 0, 1)",
        [(number, _layer(number), number) for number in range(1, _N_LAYERS + 1)],
    )
    driver.executemany(
        "INSERT INTO execution (learner_id, execution_no, uid, adapter_no, run_no, session, at_ms, bare, standing)"
        " VALUES (1, ?, ?, 1, 0, ?, ?, 0, 1)",
        [
            (number + 1, _execution(number), f"session-{number // 20}", START_MS + number)
            for number in range(n_executions)
        ],
    )
    driver.executemany(
        "INSERT INTO provenance (learner_id, kind, no, import_no, revision, said) VALUES (1, ?, ?, 0, 1, ?)",
        [
            *(
                ("layer", number, _json(uid=_layer(number), adapter="kairos://adapter/review", index=number))
                for number in range(1, _N_LAYERS + 1)
            ),
            *(("execution", number + 1, "described") for number in range(n_executions)),
        ],
    )
    driver.execute(
        "UPDATE learner SET next_layer_no = ?, next_execution_no = ?, next_adapter_no = 2",
        [_N_LAYERS + 1, n_executions + 1],
    )


def _layer(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _execution(number: int) -> str:
    return f"11111111-1111-4111-8111-{number:012x}"


def _order(number: int) -> EvaluationOrder:
    random = Random(number)
    outcome: EvaluationOutcome = "failure" if random.random() < 0.2 else "success"
    return EvaluationOrder(
        layer=_layer(number % _N_LAYERS + 1),
        execution=_execution(number),
        outcome=outcome,
        score=random.randrange(50, 101) / 100,
        rater=("mara", "bob", "kim")[number % 3],
        rubric="v1",
        feedback="seen in review",
    )


def _changes(context: Context, acts: Sequence[Sequence[EvaluationOrder]], path: Path) -> Iterator[Changes]:
    """What each act leaves behind that was not there before."""
    with sqlite3.connect(path) as driver:
        before = {table: _rows(driver, table) for table in (*_FACTS, *_CACHES)}
        newest = {table: max((row[1] for row in before[table]), default=0) for table in _FACTS}
        for act in acts:
            evaluate_all(context, act)
            made: Changes = []
            for table in _FACTS:
                fresh = sorted(_rows(driver, table, newest[table]))
                newest[table] = max((row[1] for row in fresh), default=newest[table])
                made.append((_insert(table, fresh), fresh))
            for table in _CACHES:
                now = _rows(driver, table)
                made.append((_replace(table, now), sorted(now - before[table])))
                before[table] = now
            (row,) = driver.execute(
                "SELECT revision, next_evaluation_no, next_observation_no, next_audit_no, learner_id FROM learner"
                " WHERE learner_id = 1"  # not the installation, which is one too
            ).fetchall()
            made.append((_LEARNER, [row]))
            yield made
    driver.close()


def _rows(driver: sqlite3.Connection, table: str, after: int = -1) -> set[bare.Row]:
    number = "evaluation_no" if table == "credit" else f"{table}_no"
    beyond = f" WHERE {number} > {after}" if table in _FACTS else ""
    return set(driver.execute(f"SELECT * FROM {table}{beyond}").fetchall())


def _insert(table: str, rows: Sequence[bare.Row]) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})" if rows else "SELECT 1"


def _replace(table: str, rows: set[bare.Row]) -> str:
    return f"REPLACE INTO {table} VALUES ({', '.join('?' * len(next(iter(rows))))})" if rows else "SELECT 1"


def _put(driver: sqlite3.Connection, changes: Changes) -> None:
    driver.execute("BEGIN IMMEDIATE")
    for sql, rows in changes:
        if rows:
            driver.executemany(sql, rows)
    driver.execute("COMMIT")


def _check(folder: Path) -> None:
    with sqlite3.connect(folder / "base.db") as base, sqlite3.connect(folder / "ours.db") as ours:
        for table in (*_FACTS, *_CACHES):
            if _rows(base, table) != _rows(ours, table):
                raise AssertionError(f"base and ours must write the same, but differ in {table}")
    base.close()
    ours.close()


# To train on


def training_rows(scale: Scale, folder: Path) -> list[Row]:
    """Eligible samples, written with their manifest, against decoding and writing the same lines; and its memory."""
    n = scale.n_training_rows
    path = _judged(folder / "judged.db", n)
    context = context_at(path)
    made = export_training(context, folder / "first.jsonl", "sft_jsonl").rows
    if made != n:
        raise AssertionError(f"all {n} rows must be eligible, got {made}")
    lines = (folder / "first.jsonl").read_bytes().splitlines()

    def ours(number: int) -> None:
        export_training(context, folder / f"{number}.jsonl", "sft_jsonl")
        (folder / f"{number}.jsonl").unlink()

    timed = pairs(lambda _: _rewrite(lines, folder / "base.jsonl"), ours, scale.n_training_pairs)
    context.store.close()
    told = json.loads(
        subprocess.run(
            [sys.executable, "-m", "tests.bench.judged", str(path), str(folder / "child.jsonl")],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
    )
    return [
        timed.row(f"sft_jsonl of {n:,} rows", "decoding and writing the same dictionaries", 2.5),
        Row(
            name=f"sft_jsonl of {n:,} rows, memory above start",
            base="none",
            figure=max(told["peak_mb"] - told["start_mb"], 0.01),
            unit="MB",
            goal=100,
            n=1,
        ),
    ]


def _rewrite(lines: Sequence[bytes], target: Path) -> None:
    with target.open("wb") as file:
        for line in lines:
            file.write(msgspec.json.encode(msgspec.json.decode(line)) + b"\n")


def _judged(path: Path, n: int) -> Path:
    """A pair for each of many executions, with an eligible success."""
    context = context_at(path)
    change(context, "keep_texts", True)
    context.store.close()
    with sqlite3.connect(path) as driver:
        _insert_subjects(driver, n)
        driver.executemany(
            "INSERT INTO training_pair"
            " (learner_id, execution_no, layer_no, layer_index, digest, instruction, response)"
            " VALUES (1, ?, ?, ?, ?, ?, ?)",
            _pairs(n),
        )
        driver.executemany(
            "INSERT INTO evaluation (learner_id, evaluation_no, uid, layer_no, execution_no, run_no, arm_no, rater,"
            " model, rubric, blank, outcome, score, mover, supersedes, counts, actor, at_ms, import_no, revision,"
            " standing, undone) VALUES (1, ?, '', ?, ?, 0, 0, ?, '', 'v1', 0, 'success', ?, 'all', 0, 1, 'bench', ?,"
            " 0, 3, 1, 0)",
            [
                (
                    number + 1,
                    number % _N_LAYERS + 1,
                    number + 1,
                    ("mara", "bob", "kim")[number % 3],
                    0.7 + number % 31 / 100,
                    START_MS + number,
                )
                for number in range(n)
            ],
        )
        driver.execute("UPDATE learner SET next_evaluation_no = ?", [n + 1])
    driver.close()
    return path


def _pairs(n: int) -> Iterator[bare.Row]:
    random = Random(1)
    for number in range(n):
        instruction = _json(
            tensor_in={},
            layer_instructions=_text(random, 40),
            activation_query=f"{number // 2}: {_text(random, 3)}",
        )
        response = _json(trace=_text(random, 60), raw_solution=_text(random, 120))
        layer_no = number % _N_LAYERS + 1
        yield number + 1, layer_no, layer_no, instruction_digest(instruction), instruction, response


def _text(random: Random, n_words: int) -> str:
    return " ".join(random.choices(_WORDS, k=n_words))


def _json(**members: object) -> str:
    return msgspec.json.encode(members).decode()


def _as_child(database: str, target: str) -> None:
    context = context_at(Path(database))
    with context.reading():
        start_mb = peak_mb()
    export_training(context, Path(target), "sft_jsonl")
    sys.stdout.write(json.dumps({"start_mb": start_mb, "peak_mb": peak_mb()}) + "\n")


if __name__ == "__main__":
    _as_child(*sys.argv[1:])
