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

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.flows import queries
from core.flows.experiments import stop_experiment
from core.flows.importing import import_files
from core.flows.launch import begin_imports, discard_prepared, import_ended, prepare
from core.flows.settings import change
from core.installed.launch import Launch, SessionRequest, note_end, note_start, requested, visible_skills
from core.records.times import HOUR_MS, iso
from core.records.trial import TrialSide
from tests.doors.claude_world import SKILLS, World
from tests.doors.test_with import exported, starts, steps, world
from tests.worlds import START_MS
from tests.worlds.experiments import SIDES, assigned_rows, carried, check_sides, sides_of, start_experiment

__all__ = ["world"]
pytestmark = pytest.mark.of_file

ALPHA = "skill:alpha:main"
KINDS = ("new", "new", "named", "resume", "continue", "fork", "clear", "inside", "die", "plain", "import")
ACTS = ("stop", "start", "exclude", "include")


class Machine:
    """A machine with a clock of its own, on which an agent works as Claude Code does, in this process."""

    def __init__(self, world: World) -> None:
        chance = random.Random(59)
        self.world, self.now_ms = world, START_MS
        self.shown: dict[str, list[bool]] = defaultdict(list)
        self.context = replace(
            world.context(), clock=lambda: self.now_ms, entropy=lambda: chance.getrandbits(64)
        )
        change(self.context, "k", 2)
        change(self.context, "baseline_rate", 0.3)
        begin_imports(self.context)

    def experiment(self) -> None:
        start_experiment(self.context, ALPHA)
        self.prepare()

    def prepare(self) -> None:
        self.now_ms += 30_000
        import_ended(self.context, self.world.config)
        prepare(self.context, self.world.config, self.world.project)

    def transcript(self, session: str | None) -> Path:
        return self.world.config / "projects" / "p" / f"{session}.jsonl"

    def files(self, session: str) -> list[Path]:
        return sorted((self.world.folder.path / "sessions" / session).glob("*.json"))

    @property
    def sessions(self) -> list[str]:
        """Return the sessions with a transcript, the newest last."""
        files = (self.world.config / "projects").glob("*/*.jsonl")
        return [path.stem for path in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.stem))]

    def launch(self, request: SessionRequest) -> Launch | None:
        self.now_ms += 30_000
        old = self.transcript(request.session)
        used_ms = old.stat().st_mtime_ns // 1_000_000 if old.exists() else None
        skills = visible_skills(self.world.config, self.world.project)
        return self.world.folder.begin(request, skills, used_ms, self.now_ms)

    def claude(self, *arguments: str, then: str = "", dies: bool = False, is_launched: bool = True) -> str:
        """Work in a session that starts with some arguments, ``then`` in a new or another one; return its name."""
        request = requested(arguments)
        assert request is not None
        launch = self.launch(request) if is_launched else None
        session = request.session or ("" if launch is None or not launch.is_new else launch.session)
        if "--fork-session" in arguments or (not session and request.is_new):
            session = str(uuid.uuid4())
        session = session or self.sessions[-1]
        for name in (session, then.replace("clear", str(uuid.uuid4())))[: 1 + bool(then)]:
            self.now_ms += 30_000
            if launch is not None:
                note_start(launch.file, name, self.now_ms)
            self.work(name, [one for one in SKILLS if launch is None or one not in launch.out])
            if launch is not None and not dies:
                note_end(launch.file, name, self.now_ms)
        return session

    def work(self, session: str, skills: list[str]) -> None:
        self.now_ms += 30_000
        self.shown[session].append("alpha" in skills)
        path = self.transcript(session)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = [{"type": "text", "text": "done"}]
        usage = {"input_tokens": 100, "output_tokens": 10}
        said = {"id": str(uuid.uuid4()), "role": "assistant", "content": content, "usage": usage}
        for line in (
            {"type": "attachment", "attachment": {"type": "skill_listing", "names": skills, "skillCount": 9}},
            {"type": "user", "message": {"role": "user", "content": "please"}},
            {"type": "assistant", "message": {**said, "model": "m"}},
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

    def own_sides(self, session: str) -> list[tuple[TrialSide, bool] | None]:
        """Return the side that the selection of each of a session's runs has, and whether it is in force."""
        rows = [row for row in queries.runs(self.context, limit=1_000) if row.session == session]
        sides = [carried(queries.run(self.context, row.uid).selection) for row in reversed(rows)]
        return [None if one is None else (one.side, one.in_force) for one in sides]

    def check(self) -> dict[str, TrialSide]:
        """Return the sides: those of first files, which all runs of a session have."""
        self.prepare()
        sides = check_sides(self.context)
        for session in self.sessions:
            known = {one for one in self.own_sides(session) if one is not None and one[1]}
            assert known == ({(sides[session], True)} if session in sides else set())
        for row in assigned_rows(self.context):
            first = self.files(row.session)[0]
            document = json.loads(first.read_bytes())
            assert first.name == f"{row.at_ms:014d}.{row.session}.json"
            assert document["selection"]["experiment"]["side"] == row.side
        return sides


@pytest.fixture
def agent_machine(world: World) -> Iterator[Machine]:
    """A machine whose learner puts two of four skills into a session."""
    built = Machine(world)
    with closing(built.context.store):
        built.prepare()
        yield built


@pytest.fixture
def assigning(agent_machine: Machine) -> Machine:
    """A machine with an experiment on one of the skills."""
    agent_machine.experiment()
    return agent_machine


def test_a_start_is_the_assignment_with_or_without_a_transcript(assigning: Machine) -> None:
    expected = {}
    for _ in range(5):
        assigning.claude()
        lost = assigning.launch(SessionRequest(None, is_new=True))
        assert lost is not None
        expected[lost.session] = SIDES["alpha" in lost.out]
        assigning.prepare()
    own = str(uuid.uuid4())
    assert assigning.claude("--session-id", own) == own
    import_files(assigning.context, [assigning.transcript(own)])
    assert own in sides_of(assigning.context), "an import by hand assigns first, too"
    expected |= {session: SIDES[not has] for session, (has,) in assigning.shown.items()}
    assert assigning.check() == expected
    assert all(assigning.own_sides(one) == [(expected[one], True)] for one in assigning.shown)


def test_a_resumed_session_keeps_the_side_of_its_first_file_whatever_its_age(assigning: Machine) -> None:
    sessions = [assigning.claude() for _ in range(4)]

    def resumed() -> list[bool]:
        for session in sessions:
            assigning.claude("--resume", session)
        assigning.prepare()
        return [assigning.shown[one][-1] for one in sessions]

    first = [assigning.shown[one][0] for one in sessions]
    for hours in (0.05, 70, 2_000):
        assigning.now_ms += round(hours * HOUR_MS)
        assigning.world.folder.discard()  # none is needed
        assert resumed() == first
    for out in ([ALPHA], []):
        change(assigning.context, "excluded_arms", out)
        discard_prepared(assigning.context)
        assert resumed() == ([False] * 4 if out else first), "an excluded arm leaves assigned sessions too"
    assert assigning.check() == {one: SIDES[not has] for one, has in zip(sessions, first, strict=True)}


def test_sessions_that_a_start_does_not_know_or_that_ran_before_are_not_assigned(
    agent_machine: Machine,
) -> None:
    before = [agent_machine.claude(), agent_machine.claude(is_launched=False)]
    agent_machine.experiment()
    agent_machine.now_ms += 60 * HOUR_MS
    for session in before:
        for more in ([], ["--fork-session"]):
            agent_machine.claude("--resume", session, *more)
            agent_machine.prepare()
    agent_machine.claude("--resume", "a word")
    agent_machine.claude("--continue", "--fork-session")
    assert agent_machine.check() == {}
    assert {one for session in agent_machine.sessions for one in agent_machine.own_sides(session)} == {None}
    assigned = agent_machine.claude()
    assert agent_machine.claude("--continue") == assigned, "which that start did not know"
    sides = agent_machine.check()
    assert agent_machine.own_sides(assigned) == [(sides.pop(assigned), True)] * 2
    assert not sides


def test_a_session_that_begins_within_the_process_of_another_has_no_row(assigning: Machine) -> None:
    first = [assigning.claude(then="clear") for _ in range(2)]
    assert assigning.check().keys() == {*first}
    for session in assigning.sessions:
        assert [one and one[1] for one in assigning.own_sides(session)] == [session in first]
    assigning.claude(then=first[0])
    assigning.check()


def test_a_stop_discards_what_waits_and_later_starts_are_not_assigned(assigning: Machine) -> None:
    waiting = assigning.world.folder.path / "prepared"
    before = assigning.claude()
    contents = {path: path.read_bytes() for path in waiting.rglob("*.json")}
    document = json.loads(next(iter(contents.values())))
    assert document["selection"]["seed"] == document["plain"]["selection"]["seed"]
    stop_experiment(assigning.context, "experiment-1")
    assert not [*waiting.rglob("*.json")]
    for path, content in contents.items():  # as on another agent_machine, which no stop reaches
        path.write_bytes(content)
    stale = assigning.claude()
    assert assigning.check().keys() == {before}
    assert [one and one[1] for one in assigning.own_sides(stale)] == [False]
    assert not any("plain" in json.loads(path.read_bytes()) for path in waiting.rglob("*.json"))
    assigning.experiment()
    for path in waiting.rglob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "until_ms": assigning.now_ms}))
    late = assigning.claude()
    assert assigning.check().keys() == {before}
    assert assigning.own_sides(late) == [None]


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(KINDS + ACTS), st.integers(0, 9), st.sampled_from([0, 0.1, 9, 40])),
        min_size=5,
        max_size=20,
    )
)
def test_no_session_of_many_changes_its_side(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, float]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("many")
        patch.setenv("HOME", str(folder / "home"))
        patch.delenv("XDG_STATE_HOME", raising=False)
        built = Machine(World(folder))
        with closing(built.context.store):
            built.experiment()
            for kind, which, hours in steps:
                built.now_ms += round(hours * HOUR_MS)
                _do(built, kind, which)
            built.check()


def _do(agent_machine: Machine, kind: str, which: int) -> None:
    known = agent_machine.sessions
    session = known[which % len(known)] if known else ""
    if kind in {"exclude", "include"}:
        change(agent_machine.context, "excluded_arms", [ALPHA] if kind == "exclude" else [])
    elif kind == "stop" and not any(
        row.action == "experiment" for row in queries.changes(agent_machine.context)
    ):
        stop_experiment(agent_machine.context, "experiment-1")
    elif kind == "start":
        agent_machine.experiment()
    if kind in {"import", *ACTS}:
        agent_machine.prepare()
    elif known or kind not in {"resume", "continue", "fork", "inside"}:
        words = {
            "named": ["--session-id", str(uuid.uuid4())],
            "resume": ["--resume", session],
            "continue": ["--continue"],
            "fork": ["--resume", session, "--fork-session"],
        }
        then = {"clear": "clear", "inside": session}.get(kind, "")
        agent_machine.claude(*words.get(kind, []), then=then, dies=kind == "die", is_launched=kind != "plain")


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_starts_and_imports_of_the_program_assign_a_session_once(world: World, is_killed: bool) -> None:
    world.settle(k=2)
    context = world.context()
    with closing(context.store):
        start_experiment(context, ALPHA)
        world.settle()
        for words in ("with claude -- --echo", "with claude -- use", "hook import")[: 3 if is_killed else 1]:
            for _ in steps(world, *words.split(), input=b"", every=4) if is_killed else ():
                if world.waiting < 2:
                    world.settle()
        for script in ("use beta", "--echo"):
            assert world.run("with", "claude", "--", script, input=b"").returncode in {0, 7}
        world.prepare()
        sides = check_sides(context)
        own = [line["arguments"] for line in starts(world)]
        assert {words[words.index("--session-id") + 1] for words in own} <= sides.keys()
        shown = {
            one["session"]: SIDES["alpha" not in one["skills"]] for one in world.lines if "skills" in one
        }
        own_sides = {run["session"]: run["selection"]["experiment"]["side"] for run in exported(world)}
        assert own_sides
        assert own_sides.items() <= shown.items() <= sides.items()
