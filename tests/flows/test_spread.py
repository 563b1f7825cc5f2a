"""Files of many learners: each to the one that its path names, by several processes, whichever of them is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import Denied, InvalidInput, InvalidSetting, UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.importing.spread import LearnerPattern, SpreadAnswer, import_spread
from core.flows.learners import learners
from tests.engine import address_of
from tests.worlds import acting, context_at, lines_file, run_line

PATTERN = "*/{learner}/*.jsonl"
NAMES = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/"), min_size=1, max_size=20
).filter(lambda name: name not in {".", ".."})


@settings(max_examples=50)
@given(before=NAMES, learner=NAMES, after=NAMES, deep=st.lists(NAMES, max_size=3))
@example(before="a", learner="(?P<x>.)*", after="b", deep=[])
@example(before="{x}", learner="{learner}", after="**", deep=["*"])
def test_the_name_is_what_stands_in_its_place(before: str, learner: str, after: str, deep: list[str]) -> None:
    assert LearnerPattern(PATTERN).learner_of(f"{before}/{learner}/{after}.jsonl") == learner
    assert LearnerPattern("**/of-{learner}.x").learner_of("/".join([*deep, f"of-{learner}.x"])) == learner
    assert LearnerPattern("{learner}/**").learner_of("/".join([learner, *deep, after])) == learner
    assert LearnerPattern(PATTERN).learner_of(f"{before}/{learner}.jsonl") is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("*.jsonl", "once"),
        ("{learner}/{learner}", "once"),
        ("{learner}/{session}", "no other braces"),
        ("/{learner}/x", "empty parts"),
        ("../{learner}/x", r"\. or \.\."),
        ("{learner}-*.jsonl", r"no \*"),
        ("**/{learner}/**", "once at most"),
        ("a**/{learner}", "whole part"),
        ("", "once"),
    ],
)
def test_a_pattern_that_leaves_room_for_guessing_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        LearnerPattern(pattern)
    assert repr(pattern) in str(refused.value)


def test_a_name_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidSetting):
        LearnerPattern("{learner}.jsonl").learner_of("a\u202eb.jsonl")


def tree(folder: Path, n_learners: int = 4, n_files: int = 3, n_runs: int = 5) -> Path:
    """Sessions of some learners."""
    for learner in range(n_learners):
        place = folder / "2026" / f"agent {learner}"
        place.mkdir(parents=True)
        for file in range(n_files):
            lines_file(place / f"{file}.jsonl", *(run_line(f"r{file}.{number}") for number in range(n_runs)))
    return folder


def state(context: Context) -> dict[str, int | None]:
    return {one.name: one.runs for one in learners(context)}


def test_each_file_goes_to_its_learner_once_and_again_changes_nothing(
    context: Context, tmp_path: Path
) -> None:
    folder = tree(tmp_path / "in")
    seen: list[tuple[str, int, int]] = []
    told = import_spread(
        context, [folder], PATTERN, workers=3, progress=lambda one, n, of: seen.append((one.learner, n, of))
    )
    assert state(context) == {f"agent {number}": 15 for number in range(4)}
    assert [(one.learner, one.files, one.problems) for one in told.learners] == [
        (f"agent {number}", 3, ()) for number in range(4)
    ]
    assert sorted(n for _, n, _ in seen) == [1, 2, 3, 4]
    for number in range(4):
        (one,) = queries.imports(context.of(f"agent {number}"))  # one act for each
        assert one.answer.runs == 15
    again = import_spread(context, [folder], PATTERN, workers=2)
    assert [one.answer and (one.answer.id, one.answer.duplicates) for one in again.learners] == [
        (None, 15)
    ] * 4
    assert queries.verify(context).clean


def test_what_belongs_to_nobody_is_named_and_a_bad_file_holds_up_nobody(
    context: Context, tmp_path: Path
) -> None:
    folder = tree(tmp_path / "in", 2, 1)
    lines_file(folder / "beside.jsonl", run_line("nobody"))
    (folder / "2026" / "agent 0" / "notes.jsonl").write_text("no transcript\n")
    hostile = folder / "2026" / "\u202e"
    hostile.mkdir()
    lines_file(hostile / "0.jsonl", run_line("hostile"))
    undecodable = Path(os.fsdecode(os.fsencode(folder / "2026") + b"/\xff"))
    undecodable.mkdir()
    lines_file(undecodable / "0.jsonl", run_line("undecodable"))
    quoted = folder / "2026" / "'; DROP TABLE run; --"
    quoted.mkdir()
    lines_file(quoted / "0.jsonl", run_line("quoted"))
    told = import_spread(context, [folder], PATTERN, workers=2)
    assert state(context) == {"agent 0": 5, "agent 1": 5, "'; DROP TABLE run; --": 1}
    assert told.left_out_count == len(told.left_out) == 4
    assert sum("fit" in one.reason for one in told.left_out) == 1
    assert sum("printable" in one.reason for one in told.left_out) == 2
    json.dumps([one.file for one in told.left_out]).encode()


def test_what_cannot_be_done_is_said_before_anything_is(context: Context, tmp_path: Path) -> None:
    folder = tree(tmp_path / "in", 1, 1)
    with pytest.raises(InvalidInput, match="must be a folder"):
        import_spread(context, [folder / "nowhere"], PATTERN)
    with pytest.raises(UnreadableSource, match="fit"):
        import_spread(context, [folder], "{learner}.txt")
    with pytest.raises(InvalidInput, match="workers"):
        import_spread(context, [folder], PATTERN, workers=0)
    with pytest.raises(Denied):
        import_spread(acting(context, "viewer"), [folder], PATTERN)
    assert state(context) == {}


def _begun(database: Path, folder: Path) -> subprocess.Popen[bytes]:
    words = ["--database", address_of(database), "--json", "import", str(folder)]
    words += ["--learner-from", PATTERN, "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-c", "from dashboard.launch import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _workers(process: subprocess.Popen[bytes]) -> list[int]:
    """Processes of it that import, once there are some."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        found = [int(one) for one in children.read_text().split()]
        found = [one for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
        if len(found) == 2:
            return found
        time.sleep(0.01)
    return []


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    context = context_at(tmp_path / "spread.db")
    folder = tree(tmp_path / "in", 6, 2, 400)
    process = _begun(tmp_path / "spread.db", folder)
    killed = _workers(process)[:1]
    for one in killed:
        time.sleep(0.3)
        os.kill(one, signal.SIGKILL)
    out, problem = process.communicate(timeout=300)
    assert process.returncode == 0, problem
    assert killed
    assert [one["problems"] for one in json.loads(out)["learners"]] == [[]] * 6
    assert state(context) == {f"agent {number}": 800 for number in range(6)}
    assert queries.verify(context).clean


@pytest.mark.long  # ten starts of a process
def test_whatever_ends_in_the_middle_the_same_again_brings_the_rest(tmp_path: Path) -> None:
    context = context_at(tmp_path / "spread.db")
    folder = tree(tmp_path / "in", 6, 2, 400)
    for end in (signal.SIGINT, signal.SIGKILL):
        process = _begun(tmp_path / "spread.db", folder)
        workers = _workers(process)
        assert workers
        os.killpg(process.pid, end)
        process.communicate(timeout=300)
        assert process.returncode != 0
    told: SpreadAnswer = import_spread(context, [folder], PATTERN, workers=2)
    assert {one.problems for one in told.learners} == {()}
    assert state(context) == {f"agent {number}": 800 for number in range(6)}
    again = import_spread(context, [folder], PATTERN, workers=2)
    assert {one.answer and one.answer.id for one in again.learners} == {None}
    assert queries.verify(context).clean


def test_an_error_says_how_to_say_it() -> None:
    with pytest.raises(InvalidInput) as refused:
        LearnerPattern("x")
    assert re.search(r"\*/\{learner\}/\*\.jsonl", refused.value.next_step)
