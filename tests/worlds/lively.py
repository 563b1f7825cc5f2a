"""A small learner that has seen everything: imports, growth, selections, rewards, resets, settings, undos."""

from __future__ import annotations

from pathlib import Path

from core.flows.context import Context
from core.flows.corrections import note, repair, reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.run import Call, Run, Usage
from core.records.times import iso
from tests.worlds import HOUR_MS, START_MS, a_run, chosen_among, context_at, lines_file, run_line

THIRDS = (333_334, 333_333, 333_333)


def lively_context(folder: Path) -> Context:
    """Everything that verify looks after occurs at least once."""
    context = context_at(folder / "lively.db")
    _record(context)
    first = lines_file(folder / "first.jsonl", run_line("grows"), run_line("stays", "b"))
    second = lines_file(folder / "second.jsonl", run_line("grows", "ac", rank=3), run_line("goes"))
    import_files(context, [first])
    told = import_files(context, [second])
    reset(context, arms=["tool:other:a"], target="prior")
    reward(context, "tool:other:a", 0.25, reason="half right")
    reward(context, "tool:other:b", 0.0, run="run-1", correct=True)
    reward(context, "tool:other:b", 0.75, run="run-1", correct=True)
    taken = reward(context, "tool:other:c", 0.5, key="k")
    undo(context, taken.id)
    change(context, "priors", {"skill": {"alpha_micro": 2_000_000, "beta_micro": 1_000_000}})
    change(context, "min_pulls", 2)
    reset(context, types=["tool"])
    record(context, a_run("after", at_ms=START_MS + 3 * HOUR_MS))
    undo(context, undo(context, told.id).id)
    undo(context, import_files(context, [lines_file(folder / "third.jsonl", run_line("gone"))]).id)
    undo(context, reset(context, arms=["tool:other:b"]).id)
    note(context, "tool:other:a", "half right, and slow")
    undo(context, note(context, "tool:other:b", "wrong arm").id)
    return context


def told_context(folder: Path) -> Context:
    """The same context, with imports as well: one twice, one in parts, and some in sessions."""
    context = lively_context(folder)
    tell_twice(context, folder)
    tell_parts(context, folder)
    repair_some(context, folder)
    choose_in_sessions(context)
    return context


def repair_some(context: Context, folder: Path) -> None:
    """Repairs of runs and of a report: active, undone, and one whose run came again with another outcome."""
    report = part_line(
        "report", "tool:other:c", 1_000_000, observation="reported", at_ms=START_MS + 9 * HOUR_MS
    )
    import_files(context, [lines_file(folder / "before.jsonl", run_line("changes"), report)])
    repair(context, arms=["tool:other:c"], since=iso(START_MS) or "", reason="broken detector")
    undo(context, repair(context, arms=["tool:other:a"], since=iso(START_MS) or "").id)
    import_files(context, [lines_file(folder / "changed.jsonl", run_line("changes", "abc", rank=5))])


def tell_twice(context: Context, folder: Path) -> None:
    """A reward, a reset and a note that two imports tell, and such that an import told that is undone."""
    lines = [*_ledger_lines("told", undone=False), *_ledger_lines("taken back", undone=True)]
    for name in ("told", "again"):
        import_files(context, [lines_file(folder / f"{name}.jsonl", run_line(f"apart {name}"), *lines)])
    wrong = lines_file(folder / "wrong.jsonl", run_line("apart"), *_ledger_lines("wrong", undone=True))
    undo(context, import_files(context, [wrong]).id)


def _ledger_lines(name: str, *, undone: bool) -> list[dict[str, object]]:
    same = {"at_ms": START_MS, "undone": undone}
    arm = "tool:other:c"
    return [
        {
            "kind": "reward",
            "id": f"reward {name}",
            "arm": arm,
            "observation": "feedback",
            "reward": 0.5,
            **same,
        },
        {"kind": "reset", "id": f"reset {name}", "arms": [arm], "target": "prior", **same},
        {"kind": "note", "id": f"note {name}", "arm": arm, "text": name, **same},
    ]


def tell_parts(context: Context, folder: Path) -> None:
    """Observations of weight below 1: three that are one pull, of a run, in an epoch that a reset closed, taken back;
    and such a correction, whose pull is the automatic observation's.
    """
    arm, other = "tool:other:b", "tool:other:c"
    lines = [
        *(part_line(f"third {place}", arm, weight) for place, weight in enumerate(THIRDS)),
        part_line("of a run", arm, 500_000, run="run-1"),
        part_line("correction", other, 400_000, run="run-2", observation="correction"),
        part_line("taken back", arm, 250_000, undone=True),
        part_line("before", other, 900_000),
        {"kind": "reset", "id": "reset of parts", "arms": [other], "target": "prior", "at_ms": START_MS},
        part_line("after", other, 1),
        part_line("newest", other, 700_000, at_ms=START_MS + 9 * HOUR_MS),
    ]
    import_files(context, [lines_file(folder / "parts of pulls.jsonl", *lines)])


def part_line(
    uid: str, arm: str, weight_micro: int, run: str | None = None, **fields: object
) -> dict[str, object]:
    """A reward of this weight, as a file tells it."""
    return {
        "kind": "reward",
        "id": uid,
        "arm": arm,
        "observation": "evaluation",
        "reward": 0.75,
        "weight_micro": weight_micro,
        "at_ms": START_MS,
        "context": {"reason": "dealt", "run": run},
        **fields,
    }


def _record(context: Context) -> None:
    for number in range(4):
        record(context, a_run(f"run-{number}", calls="ab"[: number % 3], at_ms=START_MS + number * HOUR_MS))
    record(context, a_run("timeless", at_ms=None, tokens=None))
    record(context, a_run("aborted", calls=(), status="aborted", run_class="baseline"))
    record(context, chosen_run(context, "chosen"))


def chosen_run(context: Context, uid: str, *, session: str | None = None, model: str | None = None) -> Run:
    """A run whose arms armscope chose under a budget that not all of them fit."""
    offered = [Arm(key=f"skill:{name}:main", token_cost=50 * place) for place, name in enumerate("xyz", 1)]
    chosen = select(context, offered, budget_tokens=160)
    return chosen_among(
        uid,
        chosen,
        offered,
        calls=(Call(name="Skill", metadata='{"skill": "x"}'),),
        texts=("x and y were useful",),
        usage=Usage(input=900, output=100),
        duration_ms=1_500,
        ended_at_ms=START_MS,
        session=session,
        model=model,
    )


def choose_in_sessions(context: Context) -> None:
    """Runs of three sessions and of none, at a baseline rate that changes, baseline runs truncated among them."""
    for rate in (0.5, 0.25):
        change(context, "baseline_rate", rate)
        for number in range(12):
            session = None if number % 4 == 0 else f"session {number % 4}"
            record(context, chosen_run(context, f"at {rate}, {number}", session=session, model="large"))
