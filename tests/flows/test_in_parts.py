"""Imports in parts, between whatever else can be done: no one sees them until they are whole, then as if at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, multiple, precondition, rule

from core.errors import ArmscopeError, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import ImportAnswer, import_files
from core.flows.importing.files import ImportSteps, import_in_steps
from core.flows.importing.reading import LineQueue, QueuedLine
from core.flows.learn import record, reward
from core.flows.settings import change
from core.formats import open_sources
from core.records.episode import Episode, Step
from core.records.run import Unit
from core.records.times import HOUR_MS
from tests.engine import named
from tests.flows.test_import_laws import Growing, synthetic
from tests.flows.test_machine import UIDS, WORDS, Machine, Made, Words, arm_line, tell
from tests.store.viewed import check_views
from tests.worlds import IN_PARTS, START_MS, context_at
from tests.worlds.history import ARMS, History, line_of, made_of
from tests.worlds.machines import run_machine

REAL: list[tuple[str, Unit | None]] = [
    ("claude-code", None),
    ("gemini-cli", None),
    ("inspect-ai", None),
    ("openclaw-session", None),
    ("pi-session", None),
    ("tau-bench", "turn"),
    ("tau2-results", None),
    ("tau2-sft-openai", "turn"),
]


class InParts(Machine):
    """The same, and one import that takes its time while everything else is done."""

    acts = Bundle[str]("acts")

    def __init__(self) -> None:
        super().__init__()
        self.slow = replace(self.context, pace=IN_PARTS)
        self.steps: ImportSteps | None = None
        self.told: list[tuple[str, int]] = []
        self.named: list[Words] = []
        self.latest: str | None = None

    @precondition(lambda self: self.steps is None)
    @rule(
        target=acts,
        told=st.lists(st.tuples(UIDS, st.integers(0, 3)), min_size=2, max_size=7),
        named=st.lists(WORDS, max_size=2),
        goes_on=st.booleans(),
    )
    def begin_import(self, told: list[tuple[str, int]], named: list[Words], goes_on: bool) -> Made:
        """An import of some runs is begun, or one that there is goes on with them."""
        self.n_files += 1
        file = self.place / f"{self.n_files}.jsonl"
        file.write_bytes(b"".join([*map(arm_line, named), *(line_of(uid, rank) for uid, rank in told)]))
        self.told, self.named = told, named
        self.latest = next(reversed(self.imports), None) if goes_on else None
        self.steps = import_in_steps(self.slow, open_sources([file]), continuing=self.latest)
        return self.go_on()

    @precondition(lambda self: self.steps is not None)
    @rule(target=acts)
    def go_on(self) -> Made:
        """Another part; after the last it stands."""
        assert self.steps is not None
        revision = queries.revision(self.context).revision
        try:
            next(self.steps)
        except StopIteration as end:
            self.steps = None
            return self._stands(end.value.id, revision)
        assert queries.revision(self.context).revision == revision
        assert queries.verify(self.context).clean
        check_views(self.context)
        return multiple()

    @precondition(lambda self: self.steps is not None)
    @rule()
    def die(self) -> None:
        """What was told so far stays where it is, and no one ever sees it."""
        assert self.steps is not None
        self.steps.close()
        self.steps = None

    def _stands(self, act: str | None, revision: int) -> Made:
        goes_on = self.latest is not None and not self.undos.is_undone(self.latest)
        if queries.revision(self.context).revision == revision:
            assert act == (self.latest if goes_on else None), "what changes nothing makes no act"
            return multiple()
        assert act is not None
        assert (act == self.latest) == goes_on
        number = self.imports[act] = int(act.removeprefix("import-"))
        revision = queries.revision(self.context).revision
        tell(self.model, self.told, self.named, import_no=number, revision=revision)
        return multiple() if act == self.latest else act

    def teardown(self) -> None:
        if self.steps is not None:
            self.steps.close()
        super().teardown()


@pytest.mark.parametrize(
    ("examples", "n_steps", "derandomize"),
    [(25, 25, True), pytest.param(1_000, 50, False, marks=pytest.mark.long)],
)
def test_whatever_is_done_between_the_parts(examples: int, n_steps: int, derandomize: bool) -> None:
    run_machine(InParts, examples, n_steps, derandomize=derandomize)


# As if told at once


class Twins:
    """One learner that is told imports in parts, and one that is told the same at once and afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("parts", "once"):
            (folder / name).mkdir()
        self.n_done = 0
        self.parts, self.once = [
            replace(context_at(folder / name / "a.db"), clock=lambda: START_MS + self.n_done * HOUR_MS // 3)
            for name in ("parts", "once")
        ]
        self.parts = replace(self.parts, pace=IN_PARTS)
        self.were_busy = False

    def do(self, act: Callable[[Context], object]) -> None:
        """The same to both, with the same answer."""
        self.n_done += 1
        assert _answered(self.once, act) == _answered(self.parts, act)

    def take(
        self, file: Path, unit: Unit | None = None, between: Iterable[Callable[[Context], object]] = ()
    ) -> None:
        """An import, and what is done between its parts."""
        with closing(import_in_steps(self.parts, open_sources([file], unit=unit))) as steps:
            answer = self._go_through(steps, iter(between))
        assert _without_numbers(answer) == _without_numbers(import_files(self.once, [file], unit=unit))
        self.check()

    def _go_through(self, steps: ImportSteps, between: Iterator[Callable[[Context], object]]) -> ImportAnswer:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: ImportAnswer = end.value
                return answer
            for act in islice(between, 1):
                self.were_busy = True
                self.do(act)
                self.check()

    def check(self) -> None:
        """Both say the same, to the letter; arms that were met in another order are listed in another order."""
        assert queries.verify(self.parts).clean
        in_order = not self.were_busy
        assert said_by(self.parts, in_order=in_order) == said_by(self.once, in_order=in_order)


def _answered(context: Context, act: Callable[[Context], object]) -> object:
    try:
        return _without_numbers(act(context))
    except ArmscopeError as problem:
        return type(problem), _without_numbers(problem.problem)


def _without_numbers(answer: object) -> str:
    """An answer, without the numbers that runs and revisions have in one of the twins."""
    return re.sub(r"\b(run |epoch\":)[0-9,]+", r"\1", msgspec.json.encode(answer).decode())


def said_by(context: Context, *, in_order: bool) -> list[dict[str, object]]:
    """Its export. Revisions are only what they put in order; so are the numbers that arms are listed by."""
    file = named(context.store).with_suffix(".jsonl")
    export_file(context, file)
    told = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    file.unlink()
    places = {place: n for n, place in enumerate(sorted({one.get("revision", 0) for one in told}))}
    for one in told:
        one["revision"] = places[one.get("revision", 0)]
        one.pop("head", None)
        if not in_order:
            one |= {name: sorted(value, key=str) for name, value in one.items() if isinstance(value, list)}
    return told


@pytest.mark.parametrize("growing", list(synthetic()), ids=lambda growing: growing.name)
def test_what_grows_and_is_undone_is_the_same_in_parts(growing: Growing, tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    for stage in (len(growing.stages) // 2, len(growing.stages) - 1, 0):
        file = tmp_path / f"{growing.name}-{stage}"
        file.write_bytes(growing.stages[stage])
        with suppress(UnreadableSource):
            twins.take(file, growing.unit)
    for act in ("import-2", "import-1", "undo-1"):
        twins.do(partial(undo, act_id=act))
        twins.check()


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1_000, 1_500))]
)
def test_what_is_done_meanwhile_comes_before(seed: int, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    random = Random(seed)
    other = History(tmp_path / "other", seed)
    other.play(25)
    change(other.context, "meta_tools", ["message", "a"])
    twins = Twins(tmp_path)
    for length in (10, 25):
        other.play(length)
        file = tmp_path / f"{length}.jsonl"
        export_file(other.context, file)
        for act in [_act(random) for _ in range(3)]:
            twins.do(act)
        twins.take(file, between=iter(lambda: _act(random), None))


def _act(random: Random) -> Callable[[Context], object]:
    """Something that is done to both twins alike."""
    arm, number, uid = random.choice(ARMS), random.randrange(1, 4), f"run-{random.randrange(8)}"
    rank, value = random.randrange(4), random.choice([0.0, 0.25, 1.0])
    acts: list[Callable[[Context], object]] = [
        lambda context: record(context, made_of(uid, rank)),
        lambda context: record(context, made_of(uid, rank)),
        lambda context: reward(context, arm, value),
        lambda context: reward(context, arm, value, run=uid, correct=number == 1, key=f"{arm} {number}"),
        lambda context: reset(context, arms=[arm]),
        lambda context: note(context, arm, "seen"),
        lambda context: change(context, "mode", "standard" if number == 1 else "openclaw"),
        lambda context: undo(context, f"reward-{number}"),
        lambda context: undo(context, f"reset-{number}"),
        lambda context: redo(context, f"reset-{number}"),
        lambda context: undo(context, f"setting-{number}"),
    ]
    return random.choice(acts)


@pytest.mark.parametrize(("name", "unit"), REAL)
def test_real_runs_are_the_same_in_parts(
    shared_data: Path, name: str, unit: Unit | None, tmp_path: Path
) -> None:
    twins = Twins(tmp_path)
    twins.parts = replace(twins.parts, pace=replace(IN_PARTS, fewest=20, most=20))
    twins.take(shared_data / name, unit)
    twins.do(lambda context: undo(context, "import-1"))
    twins.check()


def line(number: int) -> QueuedLine:
    steps = (Step(number=0, name="look", reward=0.1), Step(number=1, reward=1.0, finished=True))
    return QueuedLine("a.jsonl", number // 4, Episode(uid=f"e{number}", environment="sums", steps=steps))


@pytest.mark.parametrize("as_read_bytes", [0, 300, 1 << 20])
def test_lines_come_out_as_they_went_in_as_often_as_they_are_told(as_read_bytes: int) -> None:
    """None of them, some and all of them stay as they were read."""
    told = [line(number) for number in range(10)]
    with closing(LineQueue(as_read_bytes=as_read_bytes)) as lines:
        for one in told:
            lines.add(one)
        for _ in range(2):
            lines.rewind()
            assert [one for stretch in range(3) for one in lines.of(stretch)] == told
