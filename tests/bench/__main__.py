"""The benchmarks: ``python -m tests.bench [--full] [--only NAME] [--json FILE]``.

Quick by default (about two minutes); ``--full`` measures a million runs and a gigabyte. Nothing here is a
test: a figure that misses its goal is printed, and judged by people.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.bench import (
    claims,
    commands,
    durable,
    engines,
    experiment,
    fleet,
    growth,
    holds,
    ingest,
    judged,
    judgements,
    numbers,
    pages,
    searching,
    served,
    settled,
    starts,
    trial,
    value,
    whole,
    writers,
)
from tests.bench.harness import FULL, QUICK, Benchmark, Row, Scale, machine

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "records": ingest.from_records,
    "lines": ingest.from_lines,
    "transcripts": ingest.from_transcripts,
    "progress": commands.progress,
    "help": commands.help_and_version,
    "run": durable.one_run,
    "reward": durable.one_reward,
    "batch": durable.batch_of_rewards,
    "evaluation": judged.one_evaluation,
    "evaluations": judged.batch_of_evaluations,
    "training": judged.training_rows,
    "writers": writers.many_writers,
    "summary": numbers.summary,
    "selection": numbers.selection,
    "inclusion": numbers.inclusion,
    "judgements": judgements.judgements,
    "false-proof": claims.false_proof,
    "balance": claims.balance,
    "power": claims.power,
    "coverage": claims.coverage,
    "value": value.misjudged,
    "trial": trial.misjudged,
    "experiment": experiment.misjudged_sessions,
    "assigned": experiment.assigned_selections,
    "holds": holds.prompts,
    "data": pages.data,
    "search": searching.searches,
    "fleet": fleet.data,
    "engines": engines.side_by_side,
    "growth": growth.grown,
    "disk": ingest.disk,
    "reruns": served.reruns,
    "crowd": served.crowd,
    "settled": settled.settled,
    "agent-starts": starts.agent_starts,
    "import-memory": whole.import_memory,
    "bounds": whole.bounds,
    "dashboard-memory": whole.dashboard_memory,
}
LONG: Final = frozenset({"experiment", "growth", "trial", "value"})
"""Asked for by name, or with ``--full``: two databases of a million runs; planted worlds at many looks."""

_HEAD: Final = f"{'work':46} {'figure':>9} {'goal':>9} {'':7} {'base ms':>10} {'ours ms':>10}  base; note"


def measured(names: Sequence[str], scale: Scale) -> list[Row]:
    """Rows of these benchmarks, each in a folder of its own; each is shown when it is known."""
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="armscope-bench-") as folder:
            for row in BENCHMARKS[name](scale, Path(folder)):
                _say(_shown(row))
                rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write it as JSON where asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks of armscope.")
    parser.add_argument("--full", action="store_true", help="all sizes; takes half an hour")
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="may be given again")
    parser.add_argument("--json", type=Path, help="write machine and figures here")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="armscope-bench-") as folder:
        known = machine(Path(folder))
    _say(", ".join(f"{name} {value}" for name, value in known.items()))
    _say(_HEAD)
    usual = [name for name in BENCHMARKS if chosen.full or name not in LONG]
    rows = measured(chosen.only or usual, FULL if chosen.full else QUICK)
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(_told(known, rows))))


def _told(known: dict[str, str | float | int], rows: Sequence[Row]) -> dict[str, object]:
    told = [{**msgspec.structs.asdict(row), "verdict": row.verdict} for row in rows]
    return {"machine": known, "rows": told}


def _shown(row: Row) -> str:
    goal = "-" if row.goal is None else f"{row.goal:g} {row.unit}"
    times = [f"{'-' if ms is None else format(ms, '.2f'):>10}" for ms in (row.base_ms, row.ours_ms)]
    figure = f"{row.figure:.2f} {row.unit}"
    rest = f"{row.base}; {row.note}" if row.note else row.base
    return f"{row.name:46} {figure:>9} {goal:>9} {row.verdict:7} {' '.join(times)}  {rest} (n {row.n})"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
