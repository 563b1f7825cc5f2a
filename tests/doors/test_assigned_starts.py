"""Starts of Claude Code in an experiment: the file of a start is the assignment, and a resumed session keeps it."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.flows import queries
from core.flows.context import Context
from core.flows.experiments import stop_experiment
from core.flows.importing import import_files
from core.flows.launch import begin_imports, discard_prepared, import_ended, prepare
from core.flows.settings import change
from core.installed.launch import note_end, note_start, requested, utc_ms, visible_skills
from core.records.experiment import Assigned
from core.records.selection import Selection
from core.records.times import DAY_MS, HOUR_MS, iso
from core.records.trial import TrialSide
from tests.doors.claude_world import SKILLS, World
from tests.doors.test_with import exported, starts, steps, world
from tests.worlds import START_MS
from tests.worlds.experiments import assigned_rows, sides_of, start_experiment

__all__ = ["world"]
ALPHA = "skill:alpha:main"
SIDES: tuple[TrialSide, ...] = ("with", "without")


class Machine:
    """A machine with a clock of its own, on which an agent works as Claude Code does, in this process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now_ms = START_MS
        self.shown: dict[str, list[bool]] = defaultdict(list)
        chance = random.Random(59)
        self.context = replace(
            world.context(), clock=lambda: self.now_ms, entropy=lambda: chance.getrandbits(64)
        )
        change(self.context, "k", 2)
        change(self.context, "baseline_rate", 0.3)
        begin_imports(self.context)

    def pass_hours(self, hours: float) -> None:
        self.now_ms += round(hours * HOUR_MS)

    def experiment(self) -> int:
        return start_experiment(self.context, ALPHA, ends_ms=self.now_ms + 60 * DAY_MS)

    def prepare(self) -> None:
        self.pass_hours(0.01)
        import_ended(self.context, self.world.config)
        prepare(self.context, self.world.config, self.world.project)

    def transcript(self, session: str) -> Path:
        return self.world.config / "projects" / "p" / f"{session}.jsonl"

    @property
    def sessions(self) -> list[str]:
        """Return the sessions with a transcript, the newest last."""
        files = (self.world.config / "projects").glob("*/*.jsonl")
        return [path.stem for path in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.stem))]

    def claude(self, *arguments: str, then: str = "", dies: bool = False, is_launched: bool = True) -> str:
        """Work in a session that starts with some arguments, ``then`` clear it or resume another; return its name."""
        self.pass_hours(0.01)
        request = requested(arguments)
        assert request is not None
        folder, skills = self.world.folder, visible_skills(self.world.config, self.world.project)
        old = self.transcript(request.session or "-")
        used_ms = old.stat().st_mtime_ns // 1_000_000 if old.exists() else None
        launch = folder.begin(request, skills, used_ms, self.now_ms) if is_launched else None
        session = request.session or ("" if launch is None or not launch.is_new else launch.session)
        if "--fork-session" in arguments or (not session and request.is_new):
            session = str(uuid.uuid4())
        session = session or self.sessions[-1]
        names = [session, *([] if not then else [then.replace("clear", str(uuid.uuid4()))])]
        for name in names:
            self.pass_hours(0.01)
            if launch is not None:
                note_start(launch.file, name, self.now_ms)
            self.work(name, [one for one in SKILLS if launch is None or one not in launch.out])
            if launch is not None and not dies:
                note_end(launch.file, name, self.now_ms)
        return session

    def work(self, session: str, skills: list[str]) -> None:
        self.pass_hours(0.01)
        self.shown[session].append("alpha" in skills)
        path = self.transcript(session)
        path.parent.mkdir(parents=True, exist_ok=True)
        usage = {"input_tokens": 100, "output_tokens": 10}
        text = {
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "done"}],
            "usage": usage,
        }
        for line in (
            {"type": "attachment", "attachment": {"type": "skill_listing", "names": skills, "skillCount": 9}},
            {"type": "user", "message": {"role": "user", "content": "please"}},
            {"type": "assistant", "message": text | {"id": str(uuid.uuid4())}},
        ):
            fixed = {
                "uuid": str(uuid.uuid4()),
                "sessionId": session,
                "timestamp": iso(self.now_ms),
                "cwd": "/p",
            }
            with path.open("a") as file:
                file.write(json.dumps(fixed | line) + "\n")
        os.utime(path, (self.now_ms / 1000, self.now_ms / 1000))

    @property
    def sides(self) -> dict[str, TrialSide]:
        return sides_of(self.context)

    def carried(self, session: str) -> list[Assigned | None]:
        """Return the sides that the selections of a session's runs have, oldest first; None = none."""
        rows = [row for row in queries.runs(self.context, limit=1_000) if row.session == session]
        stories = [queries.run(self.context, row.uid).selection for row in reversed(rows)]
        return [None if one is None else one.experiment or None for one in stories]

    def check(self) -> None:
        """No session has two sides, each selection replays, and the store is as it says."""
        self.prepare()
        assert queries.verify(self.context).clean
        for session in self.sessions:
            carried_sides = {one.side for one in self.carried(session) if one is not None and one.in_force}
            assert carried_sides == ({self.sides[session]} if session in self.sides else set())
        for row in queries.runs(self.context, limit=1_000):
            assert queries.run(self.context, row.uid).replays is not False


@pytest.fixture
def machine(world: World) -> Iterator[Machine]:
    """A machine whose learner puts two of four skills into a session."""
    machine = Machine(world)
    with closing(machine.context.store):
        machine.prepare()
        yield machine


@pytest.fixture
def assigning(machine: Machine) -> Machine:
    """A machine with an experiment on one of the skills."""
    machine.experiment()
    machine.prepare()
    return machine


def test_a_start_is_the_assignment_with_or_without_a_transcript(assigning: Machine) -> None:
    for _ in range(6):
        assigning.claude()
        skills = visible_skills(assigning.world.config, assigning.world.project)
        lost = assigning.world.folder.begin(requested([]), skills, None, assigning.now_ms)  # type: ignore[arg-type]
        assert lost is not None
        assert lost.session not in assigning.sides
        assigning.prepare()
        assert assigning.sides[lost.session] == SIDES["alpha" in lost.out]
    own = str(uuid.uuid4())
    assert assigning.claude("--session-id", own) == own
    assigning.prepare()
    assert len(assigning.sides) == 13
    for session, (has,) in assigning.shown.items():
        assert assigning.sides[session] == SIDES[not has]
        assert [one.side for one in assigning.carried(session) if one] == [SIDES[not has]]
    for row in assigned_rows(assigning.context):
        (file, *_) = sorted((assigning.world.folder.path / "sessions" / row.session).glob("*.json"))
        assert row.at_ms == int(file.name.split(".")[0])
    assigning.check()


def test_an_import_by_hand_assigns_the_session_at_its_start(assigning: Machine) -> None:
    session = assigning.claude()
    import_files(assigning.context, [assigning.transcript(session)])
    (row,) = assigned_rows(assigning.context)
    (first, *_) = sorted((assigning.world.folder.path / "sessions" / session).glob("*.json"))
    assert (row.session, row.at_ms) == (session, int(first.name.split(".")[0]))
    assigning.check()
    assert len(assigning.sides) == 1


def test_a_resumed_session_keeps_the_side_of_its_first_file_whatever_its_age(assigning: Machine) -> None:
    sessions = []
    for _ in range(4):
        sessions.append(assigning.claude())
        assigning.prepare()
    for hours in (0.05, 70, 2_000):
        assigning.pass_hours(hours)
        assigning.world.folder.discard()  # none is needed
        for session in sessions:
            assigning.claude("--resume", session)
        assigning.prepare()
    assert {len(set(assigning.shown[one])) for one in sessions} == {1}
    assert assigning.sides == {one: SIDES[not assigning.shown[one][0]] for one in sessions}
    change(assigning.context, "excluded_arms", [ALPHA])
    discard_prepared(assigning.context)
    for session in sessions:
        assigning.claude("--resume", session)
        assert assigning.shown[session][-1] is False, "an excluded arm leaves assigned sessions too"
    assigning.prepare()
    change(assigning.context, "excluded_arms", [])
    discard_prepared(assigning.context)
    for session in sessions:
        assigning.claude("--resume", session)
        assert assigning.shown[session][-1] is assigning.shown[session][0]
    assigning.check()


def test_sessions_that_a_start_does_not_know_or_that_ran_before_are_not_assigned(machine: Machine) -> None:
    before = [machine.claude(), machine.claude(is_launched=False)]
    machine.prepare()
    machine.experiment()
    machine.prepare()
    machine.pass_hours(60)
    for session in before:
        machine.claude("--resume", session)
        machine.claude("--resume", session, "--fork-session")
        machine.claude("--resume", "a word")
        machine.prepare()
    machine.claude("--continue", "--fork-session")
    assert machine.sides == {}
    assert {one for session in machine.sessions for one in machine.carried(session)} == {None}
    assigned = machine.claude()
    assert machine.claude("--continue") == assigned, "which that start did not know"
    machine.check()
    assert machine.sides.keys() == {assigned}
    assert [one.side for one in machine.carried(assigned) if one] == [machine.sides[assigned]] * 2


def test_a_session_that_begins_within_the_process_of_another_has_no_row(assigning: Machine) -> None:
    first = [assigning.claude(then="clear"), assigning.claude(then="clear")]
    assigning.prepare()
    for other in assigning.sessions:
        carried_sides = [None if one is None else one.in_force for one in assigning.carried(other)]
        assert carried_sides == [other in first]
    assert assigning.sides.keys() == {*first}
    assigning.claude(then=first[0])
    assigning.check()
    assert {one.side for one in assigning.carried(first[0]) if one} == {assigning.sides[first[0]]}


def test_a_stop_discards_what_waits_and_an_end_has_the_plain_selections_taken(assigning: Machine) -> None:
    waiting = assigning.world.folder.path / "prepared"
    assert len([*waiting.rglob("*.json")]) == 4
    stop_experiment(assigning.context, "experiment-1")
    assert not [*waiting.rglob("*.json")]
    assigning.prepare()
    assert not any("plain" in json.loads(one.read_bytes()) for one in waiting.rglob("*.json"))
    assigning.experiment()
    assigning.prepare()
    documents = [json.loads(one.read_bytes()) for one in waiting.rglob("*.json")]
    for document in documents:
        selections = [msgspec.convert(one["selection"], Selection) for one in (document, document["plain"])]
        assert [one.seed for one in selections] == [selections[0].seed] * 2
        assert selections[1].experiment is msgspec.UNSET
    assigning.now_ms = documents[0]["until_ms"]
    session = assigning.claude()
    assigning.check()
    assert (assigning.sides, assigning.carried(session)) == ({}, [None])


def test_a_selection_that_another_machine_had_prepared_assigns_nothing_after_a_stop(
    assigning: Machine,
) -> None:
    """That machine's folder is not discarded."""
    before = assigning.claude()
    paths = (assigning.world.folder.path / "prepared").rglob("*.json")
    contents = {path: path.read_bytes() for path in paths}
    stop_experiment(assigning.context, "experiment-1")
    for path, content in contents.items():
        path.write_bytes(content)
    after = assigning.claude()
    assigning.check()
    assert assigning.sides.keys() == {before}
    assert [one.in_force for one in assigning.carried(after) if one] == [False]


KINDS = ("new", "new", "named", "resume", "continue", "fork", "clear", "inside", "die", "plain", "import")
ACTS = ("stop", "start", "exclude", "include")


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    kinds=st.lists(
        st.tuples(st.sampled_from([*KINDS, *ACTS]), st.integers(0, 9), st.sampled_from([0, 0.1, 9, 40])),
        min_size=5,
        max_size=20,
    )
)
def test_no_session_of_many_changes_its_side(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[tuple[str, int, float]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("many")
        patch.setenv("HOME", str(folder / "home"))
        patch.delenv("XDG_STATE_HOME", raising=False)
        machine = Machine(World(folder))
        with closing(machine.context.store):
            machine.experiment()
            machine.prepare()
            for kind, which, hours in kinds:
                machine.pass_hours(hours)
                _do(machine, kind, which)
            machine.check()
            first = dict(_first_sides(machine.world.folder.path / "sessions"))
            assert {name: side for name, side in machine.sides.items() if name in first} == machine.sides
            assert {first[name] == side for name, side in machine.sides.items()} <= {True}


def _do(machine: Machine, kind: str, which: int) -> None:
    known = machine.sessions
    session = known[which % len(known)] if known else ""
    words = {
        "named": ["--session-id", str(uuid.uuid4())],
        "resume": ["--resume", session],
        "continue": ["--continue"],
        "fork": ["--resume", session, "--fork-session"],
    }
    if kind in {"exclude", "include"}:
        change(machine.context, "excluded_arms", [ALPHA] if kind == "exclude" else [])
        machine.prepare()
    elif kind in {"stop", "start"}:
        number = machine.experiment() if kind == "start" else 1
        if kind == "start":
            machine.prepare()
        elif number == 1 and not [
            row for row in queries.changes(machine.context) if row.action == "experiment"
        ]:
            stop_experiment(machine.context, "experiment-1")
    elif kind == "import":
        machine.prepare()
    elif known or kind not in {"resume", "continue", "fork", "inside"}:
        machine.claude(
            *words.get(kind, []),
            then={"clear": "clear", "inside": session}.get(kind, ""),
            dies=kind == "die",
            is_launched=kind != "plain",
        )


def _first_sides(folder: Path) -> Iterator[tuple[str, Any]]:
    for one in folder.iterdir() if folder.is_dir() else ():
        first = min(one.glob("*.json"))
        if first.name.split(".")[1] == one.name:
            chosen = json.loads(first.read_bytes())["selection"]
            if "experiment" in chosen:
                yield one.name, chosen["experiment"]["side"]


# By processes


def test_a_start_of_the_program_is_the_assignment(world: World) -> None:
    world.settle(k=2)
    context: Context = world.context()
    with closing(context.store):
        start_experiment(context, ALPHA, ends_ms=utc_ms() + 60 * DAY_MS)
        world.settle()
        for script in ("use beta", "--echo"):
            assert world.run("with", "claude", "--", script, input=b"").returncode in {0, 7}
        world.prepare()
        sides = sides_of(context)
        names = [line["arguments"][line["arguments"].index("--session-id") + 1] for line in starts(world)]
        assert [*sides] == sorted(names, key=[*sides].index)
        (has,) = ("alpha" in line["skills"] for line in world.lines if "skills" in line)
        assert sides[names[0]] == SIDES[not has]
        assert {run["selection"]["experiment"]["side"] for run in exported(world)} == {sides[names[0]]}
        assert queries.verify(context).clean


@pytest.mark.long
def test_a_start_and_an_import_that_are_killed_at_any_step_assign_a_session_once(world: World) -> None:
    world.settle(k=2)
    context: Context = world.context()
    with closing(context.store):
        start_experiment(context, ALPHA, ends_ms=utc_ms() + 60 * DAY_MS)
        world.settle()
        for _ in steps(world, "with", "claude", "--", "use beta"):
            if not world.waiting:
                world.prepare()
        for _ in steps(world, "hook", "import", every=4):
            assert queries.verify(context).clean
        world.prepare()
        first = dict(_first_sides(world.folder.path / "sessions"))
        assert sides_of(context) == first
        carried_sides = [(run["session"], run["selection"]["experiment"]["side"]) for run in exported(world)]
        assert dict(carried_sides).items() <= first.items()
