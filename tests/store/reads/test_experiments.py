"""Sessions of experiments: counted as plain Python counts exported lines, and bit-equal wherever the lines go."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.columns import ExperimentSessions
from core.errors import NotApplicable
from core.flows.bundle import export_bundle
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.erase import erase
from core.flows.experiments import experiments
from core.flows.export import export_file, lines
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.outcome import outcome
from core.flows.select import select
from core.flows.settings import change
from core.formats.armscope import write
from core.records.achieved import OUTCOME_SOURCES, OutcomeLine, OutcomeSource
from core.records.arm import Arm
from core.records.episode import Episode, Step
from core.records.evaluation_lines import EvaluationLine
from core.records.experiment import Assigned, AssignmentLine, ExperimentLine, ExperimentPlan
from core.records.ledger_lines import LedgerLine, RewardContext, RewardLine, RunLine
from core.records.run import RUN_CLASSES, Call, Inventory, Run, RunClass, Usage
from core.records.selection import Selection
from core.records.times import DAY_MS, HOUR_MS
from core.records.trial import TRIAL_SIDES, TrialSide
from core.settings import Located
from core.store.experiments import started
from core.store.reads.experiments import experiment_sessions, past_sessions
from tests.engine import named
from tests.store.compacting import compact_until
from tests.worlds import START_MS, a_run, context_at, is_clean
from tests.worlds.experiments import ARM, KEY, OFFERED, OTHER, assigned_run, start_experiment

pytestmark = pytest.mark.own_engines

NAN = math.nan
MEASURES = ("success", "known", "failures", "tokens", "money_pico", "duration_ms")
HOURS, DAYS = 24, 7
ENDS_MS = START_MS + 60 * DAY_MS
OFFSETS = (-HOUR_MS, 0, HOUR_MS, HOURS * HOUR_MS, HOURS * HOUR_MS + 1, 90 * HOUR_MS)
KNOWN_AT = (0, HOUR_MS, HOURS * HOUR_MS + DAYS * DAY_MS, HOURS * HOUR_MS + DAYS * DAY_MS + 1, 30 * DAY_MS)
PICO = 3_000_000
_SELECTED: tuple[RunClass, ...] = ("selected",) * 5


@cache
def chosen() -> Selection:
    """A selection of both arms, whose experiment and class a run takes from elsewhere."""
    with TemporaryDirectory() as folder, closing(context_at(Path(folder) / "a.db").store) as store:
        return select(context_at(named(store)), OFFERED)


@dataclass
class World:
    """Lines of a learner with an experiment, whose sessions live in all ways at once."""

    dice: Random
    name: str = "elsewhere"
    source: OutcomeSource = "program"
    n: int = 0
    own: list[LedgerLine | Run] = field(default_factory=list)
    later: list[LedgerLine | Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = self.dice.choice(OUTCOME_SOURCES)
        plan = ExperimentPlan(
            arm=ARM,
            metric="success",
            source=self.source,
            ends_ms=ENDS_MS,
            n_planned=9,
            hours=HOURS,
            days=DAYS,
        )
        self.own.append(ExperimentLine(id=self.start, form="start", plan=plan, at_ms=START_MS))
        units = [(f"{self.name}-s{number}", "") for number in range(6)]
        units += [("", f"{self.name}-alone{number}") for number in range(2)]
        for number, (session, run) in enumerate(units):
            side: TrialSide = self.dice.choice(TRIAL_SIDES)
            at_ms = START_MS + number * HOUR_MS
            self.own.append(
                AssignmentLine(
                    id=f"{self.name}/assignment-{number}",
                    of=self.start,
                    side=side,
                    chance_micro=self.dice.choice((500_000, 300_000)),
                    session=session,
                    run=run,
                    at_ms=at_ms,
                )
            )
            for which in range(1 if run else self.dice.randrange(4)):
                self.add_run(run or f"{session}/{which}", session or None, side, at_ms)
        self.later.insert(0, Run(uid=f"{self.name}-other", inventory=Inventory(kind="declared", arms=())))

    @property
    def start(self) -> str:
        return f"{self.name}/experiment-1"

    def id(self, kind: str) -> str:
        self.n += 1
        return f"{self.name}/{kind}-{self.n}"

    def add_run(self, uid: str, session: str | None, side: TrialSide, at_ms: int) -> None:
        draw = self.dice.choice
        other: TrialSide = "without" if side == "with" else "with"
        run_class: RunClass = draw((*RUN_CLASSES, *_SELECTED))
        carried = draw([*[(self.start, side)] * 6, (self.start, other), ("x/experiment-1", side), None])
        assigned = carried and Assigned(experiment=carried[0], arm=ARM, side=carried[1], chance_micro=500_000)
        is_chosen = run_class not in {"imported", "trial"}
        selection = (
            replace(chosen(), decisions=(), experiment=assigned or msgspec.UNSET) if is_chosen else None
        )
        state = draw([*["in" if side == "with" else "out"] * 5, "in", "named", "out", "missing"])
        arm, is_empty, n_tokens = (
            (Arm(key=ARM, token_cost=10),),
            draw(range(9)) == 0,
            draw((100, 50, 7, None)),
        )
        run = Run(
            uid=uid,
            session=session,
            run_class=run_class,
            selection=selection and replace(selection, run_class=run_class),
            inventory=Inventory(
                kind="declared",
                arms=(*(arm if state == "in" else ()), Arm(key=OTHER)),
                named=arm if state == "named" else (),
            ),
            excluded=(ARM,) if state == "out" else (),
            calls=tuple(Call(name=one) for one in draw((("usual",), ("usual", "assigned"))) if not is_empty),
            empty=is_empty,
            status=draw(("completed", "completed", "error")),
            ended_at_ms=draw((None, *(at_ms + one for one in OFFSETS))),
            usage=None if is_empty or n_tokens is None else Usage(input=n_tokens),
            duration_ms=draw((None, 1_500, 2_000, 40)),
            model=draw(("small", "small", "small", None)),
            reward=draw((None, None, 0.0, 1.0)),
        )
        (self.later if draw(range(5)) == 0 else self.own).append(run)
        for _ in range(0 if is_empty or run_class == "trial" else draw(range(5))):
            self.later.append(self.outcome(uid, at_ms + draw(KNOWN_AT)))

    def outcome(self, run: str, at_ms: int) -> LedgerLine:
        """Return the line of a fact that says what a run achieved, from any source."""
        draw = self.dice.choice
        source, value, undone = (
            draw((*OUTCOME_SOURCES, *[self.source] * 5)),
            draw((0.0, 0.3, 1.0)),
            draw(range(9)) == 0,
        )
        if source == "program":
            return OutcomeLine(id=self.id("outcome"), run=run, value=value, at_ms=at_ms, undone=undone)
        if source == "environment":
            last = Step(number=1, reward=value, finished=True, at_ms=at_ms)
            steps = (Step(number=0, at_ms=START_MS), last)
            return Episode(
                uid=self.id("episode"), environment="sums", runs=(run,), at_ms=START_MS, steps=steps
            )
        if source == "thumb":
            return RewardLine(
                id=self.id("reward"),
                arm=OTHER,
                observation="feedback",
                reward=value,
                at_ms=at_ms,
                undone=undone,
                whole=True,
                context=RewardContext(run=run, by=draw(("ann", "bob"))),
            )
        return EvaluationLine(
            id=self.id("evaluation"),
            run=run,
            outcome="success",
            score=value,
            rater=draw(("ann", "bob")) if source == "person" else None,
            model="gpt" if source == "grader" else None,
            at_ms=at_ms,
            undone=undone,
        )


def file_of(path: Path, told: Iterable[LedgerLine | Run]) -> Path:
    path.write_bytes(b"".join(write(told)))
    return path


def made(folder: Path, worlds: Sequence[World], place: Located | None = None) -> Context:
    """Return a learner with worlds: the later lines of each are an import of its own."""
    context = context_at(place or folder / "a.db")
    change(context, "prices", {"small": 3.0})
    for world in worlds:
        for which in (world.own, world.later):
            answer = import_files(context, [file_of(folder / "world.jsonl", which)])
            assert answer.rejected == (), answer.rejected
    return context


def columns_of(sessions: ExperimentSessions) -> dict[str, list[str]]:
    """Return columns as texts, which tell every bit apart, and no unknown value from another."""
    return {name: [str(one) for one in getattr(sessions, name).tolist()] for name in vars(sessions)}


def figures(context: Context, now_ms: int = ENDS_MS) -> list[object]:
    """Return all that is counted of each experiment, without numbers of rows."""
    with context.reading() as snapshot:
        rows = [
            (one, experiment_sessions(snapshot, one.fact.number, one.plan, now_ms))
            for one in started(snapshot)
        ]
    return [(one.fact.line_id, columns_of(sessions), n_late) for one, (sessions, n_late) in rows]


# The same by plain Python


def recounted(told: Sequence[LedgerLine], now_ms: int) -> tuple[list[dict[str, float]], int]:
    """Return the sessions of the only experiment in exported lines, and the number of late runs."""
    (plan,) = [one.plan for one in told if isinstance(one, ExperimentLine)]
    assert plan is not None
    rows, n_late = [], 0
    for line in (one for one in told if isinstance(one, AssignmentLine)):
        end = (line.at_ms or 0) + HOURS * HOUR_MS
        until, runs = end + DAYS * DAY_MS, counted_runs(told)
        mine = [one for one in runs if (one.session == line.session if line.session else one.uid == line.run)]
        in_time = [one for one in mine if (one.ended_at_ms or 0) <= end]
        n_late += len(mine) - len(in_time)
        measures = measured(told, in_time, plan.source, until)
        sided = {
            "with_arm": line.side == "with",
            "chance": line.chance_micro / 1_000_000,
            "has_ended": now_ms > end,
            "is_settled": now_ms > end and (now_ms > until or measures["known"] == 1),
            "has_run": bool(in_time),
            "followed": all(follows(one, line) for one in in_time),
        }
        rows.append(sided | measures)
    return rows, n_late


def counted_runs(told: Sequence[LedgerLine]) -> list[Run]:
    runs = [one.run for one in told if isinstance(one, RunLine) and one.outcome != "empty"]
    return [one for one in runs if one.run_class != "trial"]


def measured(
    told: Sequence[LedgerLine], runs: Sequence[Run], source: str | None, until: int
) -> dict[str, float]:
    known = [value for one in runs if (value := achieved(told, one, source, until)) is not None]
    n = len(runs) or NAN
    return {
        "success": math.fsum(known) / len(known) if known else NAN,
        "known": len(known) / n,
        "failures": sum(one.status == "error" for one in runs) / n,
        "tokens": total(one.tokens for one in runs),
        "money_pico": total(
            None if one.model is None or not one.tokens else one.tokens * PICO for one in runs
        ),
        "duration_ms": total(one.duration_ms for one in runs),
    }


def total(amounts: Iterable[int | None]) -> float:
    known = list(amounts)
    return NAN if None in known or not known else float(sum(one or 0 for one in known))


def follows(run: Run, line: AssignmentLine) -> bool:
    carried = None if run.selection is None else run.selection.experiment or None
    if (carried and (carried.experiment, carried.side)) != (line.of, line.side) and not (
        run.run_class == "imported" and not carried
    ):
        return False
    offered = {one.key for one in run.inventory.offered}
    if line.side == "with":
        return ARM in offered
    return ARM not in offered and "assigned" not in run.not_offered


def achieved(told: Sequence[LedgerLine], run: Run, source: str | None, until: int) -> float | None:
    """Return the outcome of a run as it was known at a time."""
    latest: dict[object, float] = {}
    own = float(run.reward > 0.9) if source == "environment" and run.reward is not None else None
    for one in told:
        if isinstance(one, Episode) and source == "environment" and run.uid in one.runs:
            if (one.steps[-1].at_ms or 0) <= until:
                latest[one.uid] = float((one.total or 0) > 0.9)
        elif (
            not isinstance(one, OutcomeLine | EvaluationLine | RewardLine)
            or one.undone
            or (one.at_ms or 0) > until
        ):
            continue
        elif isinstance(one, OutcomeLine) and source == "program" and one.run == run.uid:
            latest[""] = one.value
        elif isinstance(one, EvaluationLine) and one.run == run.uid:
            if source == ("person" if one.model is None else "grader"):
                latest[one.rater] = one.score or 0.0
        elif isinstance(one, RewardLine) and one.whole and source == "thumb" and one.context.run == run.uid:
            latest[one.context.by] = one.reward or 0.0
    return math.fsum(latest.values()) / len(latest) if latest else own


def recounted_past(told: Sequence[LedgerLine], source: str | None, now_ms: int) -> list[tuple[float, ...]]:
    """Return the measures of recent sessions that offered the arm."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in counted_runs(told):
        if run.ended_at_ms is not None and run.ended_at_ms <= now_ms:
            groups[run.session or run.uid].append(run)
    rows = []
    for runs in groups.values():
        offering = [
            one for one in runs if ARM in {*(arm.key for arm in one.inventory.offered), *one.excluded}
        ]
        if offering:
            end = min((one.ended_at_ms or 0) - (one.duration_ms or 0) for one in offering) + HOURS * HOUR_MS
            mine = [one for one in runs if (one.ended_at_ms or 0) <= end]
            used = any(ARM in (one.referenced or ()) for one in mine)
            rows.append((used, *measured(told, mine, source, end + DAYS * DAY_MS).values()))
    return rows


@settings(max_examples=30, deadline=None)
@given(dice=st.randoms(use_true_random=False), is_undone=st.booleans(), days=st.integers(0, 12))
def test_sessions_are_those_of_the_exported_lines(dice: Random, is_undone: bool, days: int) -> None:
    with TemporaryDirectory() as folder:
        context = made(Path(folder), [World(dice)])
        if is_undone:
            undo(context, "import-2")
        now_ms = START_MS + days * DAY_MS
        with context.reading() as snapshot, closing(context.store):
            (start,) = started(snapshot)
            sessions, n_late = experiment_sessions(snapshot, start.fact.number, start.plan, now_ms)
            source = start.plan.source
            past = past_sessions(snapshot, ARM, hours=HOURS, days=DAYS, source=source, now_ms=now_ms)
            told = list(lines(snapshot))
        rows, n_recounted = recounted(told, now_ms)
        assert n_late == n_recounted
        for name in rows[0]:
            own, other = getattr(sessions, name), np.array([row[name] for row in rows])
            np.testing.assert_allclose(own, other, rtol=1e-15 if name == "success" else 0, err_msg=name)
        mine = sorted(zip(past.used, *(getattr(past, name) for name in MEASURES), strict=True), key=repr)
        rest = sorted(recounted_past(told, source, now_ms), key=repr)
        np.testing.assert_allclose(np.array(mine).reshape(-1, 7), np.array(rest).reshape(-1, 7), rtol=1e-15)


# Wherever the lines go


def lived(place: Located, folder: Path) -> Context:
    """Return a learner with an experiment of its own and an imported one."""
    context = made(folder, [World(Random(5))], place)
    start_experiment(context, ARM)
    for number in range(8):
        for which in range(1 + number % 2):
            session = f"own {number}" if number % 4 else None
            at_ms = START_MS + (number + 30) * HOUR_MS
            record(
                context,
                assigned_run(context, f"own {number}/{which}", session, ended_at_ms=at_ms, model="small"),
            )
        outcome(context, f"own {number}/0", number % 3 / 2)
    return context


def copied(folder: Path, *files: Path) -> Context:
    context = context_at(folder / "copy.db")
    change(context, "prices", {"small": 3.0})
    for file in files:
        assert import_files(context, [file]).rejected == ()
    return context


def exported(context: Context, folder: Path) -> Context:
    export_file(context, folder / "out.jsonl")
    assert KEY not in (folder / "out.jsonl").read_text()
    return copied(folder, folder / "out.jsonl")


def bundled(context: Context, folder: Path) -> Context:
    export_bundle(context, folder / "out.zip")
    return copied(folder, folder / "out.zip")


def restarted(context: Context, folder: Path) -> Context:
    """Take the start, and the import with runs, back and again."""
    before = figures(context)
    undo(context, "experiment-2")
    assert figures(context) == before, "an undone start keeps its rows"
    assert {one.state for one in experiments(context)} == {"undone", "read_only"}
    undo(context, "import-2")
    assert figures(context) != before
    undo(context, "import-1")
    assert len(figures(context)) == 1, "the import takes its experiment back"
    for act in ("import-1", "import-2", "experiment-2"):
        redo(context, act)
    return context


def compacted(context: Context, folder: Path) -> Context:
    record(context, a_run("old"))
    assert compact_until(context, ENDS_MS) == 1, "runs of assigned sessions stay"
    return context


def erased(context: Context, folder: Path) -> Context:
    for session in ("own 1", "elsewhere-s1"):
        erase(context, session=session)
    return context


WAYS = (exported, bundled, restarted, compacted, erased)


@pytest.mark.parametrize("way", WAYS)
def test_results_are_bit_equal(
    place: Located, tmp_path: Path, way: Callable[[Context, Path], Context]
) -> None:
    context = lived(place, tmp_path)
    before = figures(context)
    after = way(context, tmp_path)
    assert figures(after) == before
    states = {one.experiment: one.state for one in experiments(after)}
    assert states == {
        "experiment-1": "read_only",
        "experiment-2": "running" if after is context else "read_only",
    }
    assert is_clean(after)
    with pytest.raises(NotApplicable, match="assignment-1 follows from experiment-1"):
        undo(after, "assignment-1")


def test_merged_learners_keep_the_results_of_both(tmp_path: Path) -> None:
    worlds = [World(Random(number), name=f"learner{number}") for number in (1, 2)]
    parts = [made(tmp_path, [world], tmp_path / f"{world.name}.db") for world in worlds]
    files = [tmp_path / f"{world.name}.jsonl" for world in worlds]
    for part, file in zip(parts, files, strict=True):
        export_file(part, file)
    merged = copied(tmp_path, *files)
    assert figures(merged) == [one for part in parts for one in figures(part)]
    undo(merged, "import-1")
    assert figures(merged) == figures(parts[1])
    assert is_clean(merged)
