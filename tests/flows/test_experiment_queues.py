"""Experiments judged by people: a random sample of each side, whose reviewer sees neither arms nor side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import scipy.stats
from msgspec.structs import replace as with_fields

from core import Client, Learner
from core.doors.cli import main
from core.doors.mcp.tools import call
from core.doors.service import Service
from core.errors import ArmscopeError, InvalidInput, NotApplicable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.credit import credit_episode
from core.flows.episode import record_step
from core.flows.erase import erase
from core.flows.evaluate import evaluate
from core.flows.experiments import experiment_result, start_experiment
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.queues import add_queue, propose_queue, queues
from core.flows.review import hold, propose_batch, submit, view_item
from core.flows.select import select
from core.records.arm import Arm
from core.records.experiment import ExperimentRow
from core.records.review import QueueAsks
from core.records.run import Inventory
from core.records.run_query import RunSide
from core.records.times import DAY_MS, HOUR_MS, MINUTE_MS
from tests.doors.examples import ARM, OTHER_ARM, RUN, SESSION, judge
from tests.doors.http.test_served import served
from tests.flows.test_authorisation import FLOWS
from tests.worlds import START_MS, a_run, acting, context_at, is_clean

ARMS: Final = (Arm(key=ARM, token_cost=100), Arm(key=OTHER_ARM, token_cost=100))
ASKS: Final = QueueAsks(source="experiment", experiment=ARM, limit=60)


class World:
    """An experiment that people judge, with sessions of two runs, ten minutes apart."""

    def __init__(self, path: Path, n: int, share: float = 0.4) -> None:
        self.now_ms = START_MS
        self.context = replace(context_at(path, name="ops"), clock=lambda: self.now_ms)
        record(self.context, a_run("old", inventory=Inventory(kind="declared", arms=ARMS)))
        start_experiment(self.context, ARM, source="person", share=share)
        self.sides = {f"s{number}": self.live(f"s{number}") for number in range(n)}

    def live(self, session: str) -> bool:
        """Live through a session, and return whether it has the arm."""
        for number in range(2):
            self.now_ms += 10 * MINUTE_MS
            chosen = select(self.context, ARMS, session=session)
            prompt = Inventory(kind="declared", arms=tuple(Arm(key=one) for one in chosen.included))
            run = a_run(RUN if session == SESSION and not number else f"{session}-{number}", inventory=prompt)
            run = with_fields(run, session=session, ended_at_ms=self.now_ms, excluded=chosen.excluded)
            record(self.context, with_fields(run, selection=chosen, run_class=chosen.run_class))
        return ARM in chosen.included

    def queued(self, asks: QueueAsks = ASKS) -> list[str]:
        """Return the runs of a new queue."""
        queue = add_queue(self.context, "Sample", asks, token=propose_queue(self.context, asks).token)
        return [view_item(self.context, queue.id, one + 1).subject.run for one in range(queue.n_items)]

    def result(self, context: Context | None = None) -> ExperimentRow:
        return experiment_result(
            replace(context or self.context, clock=lambda: self.now_ms + 9 * DAY_MS), "1"
        )


def test_a_judged_sample_of_each_side_is_the_outcome(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", 160)
    world.now_ms += 25 * HOUR_MS
    runs = world.queued()
    (row,) = queues(world.context)
    sides = [world.sides[one[:-2]] for one in runs]
    assert (len({one[:-2] for one in runs}), sides.count(True), sides.count(False)) == (60, 30, 30)
    assert row.asks.chances == pytest.approx([30 / (n := sum(world.sides.values())), 30 / (160 - n)], rel=0.3)
    assert (row.asks.sampled, row.asks.chance) == ((), None), "no sample of all runs"
    with pytest.raises(InvalidInput, match="There must be items to judge"):
        world.queued()  # a session has one chance
    assert world.result().figures.is_bounded
    for run, has_arm in zip(runs, sides, strict=True):
        evaluate(world.context, run, "success" if has_arm else "failure")
    known = world.result().figures
    assert (known.is_sampled, known.is_bounded, known.word) == (True, False, "helps")
    assert (known.metric.means, known.metric.n.with_arm, known.metric.n.without) == ((1.0, 0.0), 30, 30)
    export_file(world.context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "b.db")
    assert import_files(other, [tmp_path / "all.jsonl"]).rejected == ()
    erase(world.context, session=runs[0][:-2])
    for context in (other, world.context):
        assert (world.result(context).figures, is_clean(context)) == (known, True)
    undo(world.context, "queue-1")
    assert (world.result().figures.is_sampled, world.result().figures.is_bounded) == (False, True)


def test_each_session_has_the_chance_of_its_side_and_other_samples_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", 30)
    world.now_ms += 25 * HOUR_MS
    counts = dict.fromkeys(world.sides, 0)
    for seed in range(200):
        for one in propose_queue(world.context, with_fields(ASKS, limit=10, seed=str(seed))).first:
            counts[one.run[:-2]] += 1
    for side in (True, False):
        of_side = [n for session, n in counts.items() if world.sides[session] == side]
        assert sum(of_side) == pytest.approx(1_000)
        assert scipy.stats.chisquare(of_side).pvalue > 1e-4
    with pytest.raises(InvalidInput, match="must be a queue"):
        propose_batch(world.context, ASKS)
    start_experiment(world.context, OTHER_ARM, metric="tokens", seed=True)
    with pytest.raises(InvalidInput, match="must come from people"):
        propose_queue(world.context, with_fields(ASKS, experiment="2"))
    with pytest.raises(InvalidInput, match="experiment must be named"):
        QueueAsks(source="experiment")
    world.now_ms += 8 * DAY_MS
    assert propose_queue(world.context, ASKS).n == 0, "their outcomes could not count"


# What its reviewer sees


def fields_of(answer: object) -> dict[str, object] | None:
    """Return the fields of a record."""
    kinds = ("__struct_fields__", "_fields", "__dataclass_fields__")
    names = next((getattr(answer, one) for one in kinds if hasattr(answer, one)), None)
    if names is None:
        return dict(answer) if isinstance(answer, Mapping) else None
    return {name: getattr(answer, name) for name in names}


def revealing(answer: object) -> Iterator[object]:
    """Yield the smallest records that name the session or a run of it beside an arm or an experiment."""
    own = fields_of(answer)
    if own is None:
        for one in answer if isinstance(answer, (list, tuple)) else ():
            yield from revealing(one)
        return
    values = [one for value in own.values() for one in (fields_of(value) or {"": value}).values()]
    if not any(isinstance(one, str) and (RUN in one or SESSION in one) for one in values):
        for value in own.values():
            yield from revealing(value)
    elif any(word in repr(answer) for word in (ARM, OTHER_ARM, "experiment-1", "side='with")):
        yield answer


def revealed_to(reader: Context, folder: Path) -> set[str]:
    """Return the reads that show arms or the side of the session or of a run of it."""
    reads: dict[str, Callable[[], object]] = {
        name: partial(flow, reader, folder) for name, (action, flow) in FLOWS.items() if action == "read"
    }
    reads["credit"] = partial(queries.preview_credit, reader, "sums/1", "equal")
    for arm in (ARM, OTHER_ARM):
        reads[f"runs {arm}"] = partial(queries.listed_runs, reader, arm=arm)
        reads[f"arm runs {arm}"] = partial(queries.arm_runs, reader, arm)
        reads[f"arm ledger {arm}"] = partial(queries.arm_ledger, reader, arm)
    names = (
        {"sides"} if queries.compare_sides(reader, RunSide(run=RUN), RunSide(session=SESSION)).arms else set()
    )
    for name, read in reads.items():
        with suppress(ArmscopeError):
            answer = read()
            if RUN in repr(answer) if ARM in name or OTHER_ARM in name else any(revealing(answer)):
                names.add(name)
    return names


def texts_at_doors(reader: Context, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what each door answers about the run and its session."""
    learner, service = Learner(reader), Service(store=reader.store, learner="default", clock=reader.clock)
    answers: list[object] = [learner.why(RUN), learner.session(SESSION)]
    with served(reader) as url, Client(url) as client:
        answers += [client.why(RUN), client.session(SESSION)]
    for name, own in (("why_in_prompt", {"run": RUN}), ("session", {"session": SESSION})):
        answers.append(call(service, reader.actor, name, own).text)
    for words in (["run", RUN], ["run", RUN, "--json"], ["session", SESSION]):
        with pytest.raises(SystemExit):
            main(words)
        answers.append(capsys.readouterr().out)
    return repr(answers)


def test_while_an_item_is_open_no_door_shows_its_arms_or_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path / "a.db", 5, 0.95)
    context, mara = world.context, acting(world.context, "operator", "mara")
    world.sides[SESSION] = world.live(SESSION)
    reward(context, ARM, 0.5, run=RUN)
    judge(context)
    record_step(context, "sums/1", environment="sums", task="t", name="look", reward=1.0, run=RUN)
    credit_episode(context, "sums/1", "equal")
    world.now_ms += 25 * HOUR_MS
    item = next(at for at, run in enumerate(world.queued(), 1) if run in {RUN, f"{SESSION}-1"})
    for name, value in (("ARMSCOPE_DATABASE", "a.db"), ("LOGNAME", "mara")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    before = revealed_to(mara, tmp_path)
    assert {"verb run", "verb session", "verb evaluations", "credit", "sides", f"runs {ARM}"} <= before
    hold(mara, "queue-1", item)
    assert revealed_to(mara, tmp_path) == set()
    assert not any(
        word in texts_at_doors(mara, capsys) for word in (ARM, OTHER_ARM, "experiment-1", "fs:Read")
    )
    for act, reason in (
        (partial(export_file, mara, tmp_path / "mara.jsonl"), "would show arms and side"),
        (partial(queries.listed_runs, mara, since="0"), "since lists changes only"),
        (partial(reward, mara, ARM, 0.5, run=RUN), "An act about an arm"),
        (partial(evaluate, mara, RUN, "success", arm=ARM), "An act about an arm"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            act()
    assert queries.visibility(mara).blind != queries.visibility(context).blind == frozenset()
    submit(mara, "queue-1", item, level=3)
    assert revealed_to(mara, tmp_path) == before
    assert all(one in texts_at_doors(mara, capsys) for one in (ARM, OTHER_ARM, "experiment-1"))
