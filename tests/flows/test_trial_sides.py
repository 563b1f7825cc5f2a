"""Trials from two folders: Harbor jobs, Inspect logs, verifiers results, and our own export."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput, UnreadableSource
from core.flows.trials.results import read_results, read_sides
from core.records.trial import TRIAL_SIDES, Cell, TrialResults
from tests.formats.builders import Json, lines, put, tool
from tests.formats.test_atif import agent, trajectory
from tests.formats.test_inspect_log import archive, log, model_event, sample
from tests.formats.test_trial_files import grades_of
from tests.formats.test_verifiers import results as verifiers_results
from tests.formats.test_verifiers import rollout

ARM = "tool:other:search"
SECRET = "a person's words"
RUNS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=6)
ENDS: dict[str, tuple[str | None, float | None, str, float | None]] = {
    "ended": (None, 0.5, "ended", 0.5),
    "time, graded": ("AgentTimeoutError", 1.0, "limit", 1.0),
    "time, not graded": ("AgentTimeoutError", None, "limit", None),
    "context": ("ContextLengthExceededError", None, "limit", None),
    "crash, graded": ("NonZeroAgentExitCodeError", 0.0, "ended", 0.0),
    "rate limit": ("ApiRateLimitError", 1.0, "fault", None),
    "container": ("EnvironmentStartTimeoutError", None, "fault", None),
    "grader's time": ("VerifierTimeoutError", None, "fault", None),
    "money": ("BudgetExceededError", None, "fault", None),
    "not graded": (None, None, "fault", None),
    "beyond the scale": (None, 2.0, "fault", None),
}


def stamp(second: int) -> str:
    return f"2026-01-02T03:{second // 60:02}:{second % 60:02}"


def harbor(job: Path, task: str, number: int, reward: float | None = 1.0, **more: object) -> Path:
    """The folder of one run of Harbor, which finished in the second ``number``."""
    folder = job / f"{task}__{number:03}"
    folder.mkdir(parents=True)
    result = {
        "task_name": task,
        "trial_name": folder.name,
        "task_checksum": f"sum of {task}",
        "agent_info": {"name": "a", "version": "1.2", "model_info": {"name": "large", "provider": "maker"}},
        "agent_result": {"n_input_tokens": 90, "n_cache_tokens": 40, "n_output_tokens": 9, "cost_usd": 0.25},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": None,
        "finished_at": stamp(number),
        **more,
    }
    put(folder, json.dumps(result).encode(), "result.json")
    return folder


def excepted(name: str) -> Json:
    return {"exception_type": name, "exception_message": SECRET, "exception_traceback": SECRET}


def with_trajectory(folder: Path, tools: Sequence[str], *calls: str) -> None:
    (folder / "agent").mkdir()
    steps: list[Json] = [{"source": "user", "message": f"task {folder.name}"}, agent(*calls)]
    of_agent = {"name": "a", "version": "1", "tool_definitions": [tool(name) for name in tools]}
    document = trajectory(steps, session_id=folder.name, agent=of_agent)
    put(folder / "agent", json.dumps(document).encode(), "trajectory.json")


def read_both(folder: Path, arm: str = "") -> TrialResults:
    return read_sides(folder / "with", folder / "without", arm=arm)


def in_short(cells: Iterable[Cell]) -> list[tuple[str, str, int, float | None]]:
    return [(cell.task, cell.side, cell.repeat, cell.grade) for cell in cells]


def folders(folder: Path) -> tuple[Path, Path]:
    sides = folder / "with", folder / "without"
    for side in sides:
        side.mkdir(exist_ok=True)
    return sides


def test_two_jobs_of_harbor_are_paired_by_task_and_time(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    harbor(on, "b", 5, 0.5)
    harbor(on, "a", 9, 0.0)
    harbor(on, "a", 3)
    harbor(off, "a", 4, 0.0)
    put(on, json.dumps({"n_total_trials": 3, "stats": {}}).encode(), "result.json")
    content = read_both(tmp_path)
    assert in_short(content.cells) == [
        ("a", "with", 1, 1.0),
        ("b", "with", 1, 0.5),
        ("a", "with", 2, 0.0),
        ("a", "without", 1, 0.0),
    ]
    first = content.cells[0]
    assert (first.tokens, first.money_pico, first.model, first.version, first.at_ms) == (
        99,
        250_000_000_000,
        "large",
        "1.2",
        1_767_322_803_000,
    )
    assert (content.source, content.notes, content.alone) == ("harbor", (), True)


@pytest.mark.parametrize("what", ENDS)
def test_a_limit_is_an_end_and_a_fault_is_missing(tmp_path: Path, what: str) -> None:
    name, reward, end, grade = ENDS[what]
    on, off = folders(tmp_path)
    harbor(on, "a", 1, reward, exception_info=None if name is None else excepted(name))
    harbor(on, "a", 2)
    harbor(off, "a", 1)
    content = read_both(tmp_path)
    assert (content.cells[0].end, content.cells[0].grade) == (end, grade)
    assert content.cells[0].error == name or name is None
    assert SECRET not in msgspec.json.encode(content).decode()


def test_transcripts_show_if_the_arm_was_there(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    with_trajectory(harbor(on, "called", 1), ["search", "read"], "search", "read", "search")
    with_trajectory(harbor(on, "listed", 2), ["search", "read"], "read")
    with_trajectory(harbor(on, "lost", 3), ["read"], "read")
    harbor(on, "unknown", 4)
    with_trajectory(harbor(off, "called", 1), ["read"], "read")
    with_trajectory(harbor(off, "listed", 2), ["search", "read"], "search")
    content = read_both(tmp_path, ARM)
    assert content.arm == ARM
    assert [(cell.task, cell.side, cell.presence, cell.used) for cell in content.cells] == [
        ("called", "with", "called", 2),
        ("listed", "with", "listed", 0),
        ("lost", "with", "absent", 0),
        ("unknown", "with", "unknown", None),
        ("called", "without", "absent", 0),
        ("listed", "without", "called", 1),
    ]
    assert [cell.session for cell in content.cells[:2]] == ["called__001", "listed__002"]
    assert {cell.presence for cell in read_both(tmp_path).cells} == {"unknown"}


def test_a_folder_with_other_content_is_another_task(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    harbor(on, "a", 1, task_checksum="1" * 64)
    harbor(off, "a", 1, 0.0, task_checksum="2" * 64)
    content = read_both(tmp_path)  # all differ: the arm lies in the folder
    assert in_short(content.cells) == [("a", "with", 1, 1.0), ("a", "without", 1, 0.0)]
    assert "digest on each side" in content.notes[0]
    harbor(off, "a", 2, 0.5, task_checksum="1" * 64)
    content = read_both(tmp_path)
    assert in_short(content.cells)[1:] == [("a (22222222)", "without", 1, 0.0), ("a", "without", 1, 0.5)]
    assert "has another digest, too" in content.notes[0]


def test_a_skill_s_load_is_its_use_and_steps_add_up(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    usage: Json = {"n_input_tokens": 5, "n_output_tokens": 2, "cost_usd": 0.5}
    steps: list[Json] = [{"step_name": name, "agent_result": usage} for name in ("a", "b")]
    for side, skill in ((on, "pdf"), (off, "office:pdf"), (off, "my-pdf")):
        folder = harbor(side, "a", len(skill), agent_result=None, step_results=steps)
        (folder / "agent").mkdir()
        step = agent("Skill")
        step["tool_calls"] = [{"tool_call_id": "c", "function_name": "Skill", "arguments": {"skill": skill}}]
        document = trajectory([{"source": "user", "message": "go"}, step], session_id=skill)
        put(folder / "agent", json.dumps(document).encode(), "trajectory.json")
    cells = read_both(tmp_path, "skill:pdf:main").cells
    assert [cell.presence for cell in cells] == ["called", "unknown", "called"]
    assert {(cell.tokens, cell.money_pico) for cell in cells} == {(14, 10**12)}


def test_each_model_has_repeats_of_its_own(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    for side in (on, off):
        for number, model in enumerate(["large", "small", "large"]):
            harbor(side, "a", number, agent_info={"model_info": {"name": model}, "version": "unknown"})
    cells = read_both(tmp_path).cells
    assert [(cell.model, cell.repeat, cell.version) for cell in cells] == [
        ("large", 1, ""),
        ("small", 1, ""),
        ("large", 2, ""),
    ] * 2


@given(RUNS, RUNS, st.data())
@settings(max_examples=25, deadline=None)
def test_a_job_that_grows_keeps_its_cells_and_a_recount_agrees(
    on: list[tuple[str, float]], off: list[tuple[str, float]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as name:
        sides = dict(zip(TRIAL_SIDES, folders(Path(name)), strict=True))
        plan = [(side, *one) for side, runs in zip(TRIAL_SIDES, (on, off), strict=True) for one in runs]
        plan = [*(("with", "z", 1.0), ("without", "z", 0.0)), *data.draw(st.permutations(plan))]
        cut = data.draw(st.integers(2, len(plan)))
        for number, (side, task, grade) in enumerate(plan[:cut]):
            harbor(sides["with" if side == "with" else "without"], task, number, grade)
        before = read_both(Path(name)).cells
        for number, (side, task, grade) in enumerate(plan[cut:], start=cut):
            harbor(sides["with" if side == "with" else "without"], task, number, grade)
        after = {cell.key: cell for cell in read_both(Path(name)).cells}
        counted: dict[tuple[str, str], list[float]] = {}
        for side, folder in sides.items():
            for file in folder.glob("*/result.json"):
                result = json.loads(file.read_text())
                counted.setdefault((result["task_name"], side), []).append(
                    result["verifier_result"]["rewards"]["reward"]
                )
    assert all(after[cell.key] == cell for cell in before)
    grades = grades_of(after.values())
    assert {key: Counter(one) for key, one in grades.items()} == {
        key: Counter(one) for key, one in counted.items()
    }


def test_inspect_logs_are_paired_by_sample(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    tools = {"events": [model_event("search", "go")]}
    failed = sample(3, error={"message": SECRET}, uuid="f")
    limited = sample(2, limit={"type": "token", "limit": 9}, scores={"s": {"value": "I"}}, uuid="l")
    put(on, archive(sample(1, uuid="x", **tools), limited, failed), "a.eval")
    put(off, log(sample(2, uuid="y"), sample(1, scores={"s": {"value": 0.25}}, uuid="z")), "b.json")
    content = read_both(tmp_path, ARM)
    assert [(*row, cell.end) for row, cell in zip(in_short(content.cells), content.cells, strict=True)] == [
        ("1", "with", 1, 1.0, "ended"),
        ("2", "with", 1, 0.0, "limit"),
        ("3", "with", 1, None, "fault"),
        ("2", "without", 1, 1.0, "ended"),
        ("1", "without", 1, 0.25, "ended"),
    ]
    assert [cell.presence for cell in content.cells[:2]] == ["listed", "absent"]
    assert content.source == "inspect-ai"
    assert SECRET not in msgspec.json.encode(content).decode()


def test_verifiers_results_are_paired_by_example_and_order(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    rollouts = [rollout(7), rollout(7, 0.5), rollout(8, 0.0, error={"error": "ModelError"}), rollout(9, 1.0)]
    verifiers_results(on, rollouts, {"env_id": "wiki", "model": "large"})
    verifiers_results(off, [rollout(7, 0.25), rollout(9, None)], {"env_id": "wiki", "model": "large"})
    content = read_both(tmp_path, ARM)
    assert in_short(content.cells) == [
        ("7", "with", 1, 1.0),
        ("7", "with", 2, 0.5),
        ("8", "with", 1, None),
        ("9", "with", 1, 1.0),
        ("7", "without", 1, 0.25),
        ("9", "without", 1, None),
    ]
    assert Counter(cell.end for cell in content.cells) == {"ended": 4, "fault": 2}
    assert {cell.presence for cell in content.cells} == {"called"}


def test_tasks_of_several_environments_are_apart(tmp_path: Path) -> None:
    for side in folders(tmp_path):
        for name in ("wiki", "maths"):
            verifiers_results(side, [rollout(7)], {"env_id": name}, f"{name}.results.jsonl")
    assert sorted({cell.task for cell in read_both(tmp_path).cells}) == ["maths/7", "wiki/7"]


def exported(uid: str, prompt: str | None, **more: object) -> Json:
    asked = {} if prompt is None else {"prompt": prompt}
    return {"kind": "run", "uid": uid, "arms": ["tool:other:search"], "calls": ["search"], **asked, **more}


def test_runs_of_our_own_are_paired_by_their_prompt(tmp_path: Path) -> None:
    one, two = exported("1", SECRET, achieved=1.0), exported("2", SECRET, achieved=0.0, status="aborted")
    put(tmp_path, lines([one, two, exported("3", None), exported("4", "other")]), "on.jsonl")
    outcome: Json = {"kind": "outcome", "id": "o1", "run": "5", "value": 0.5}
    put(tmp_path, lines([exported("5", SECRET), outcome]), "off.jsonl")
    content = read_sides(tmp_path / "on.jsonl", tmp_path / "off.jsonl", arm=ARM)
    assert [(cell.side, cell.repeat, cell.grade, cell.end) for cell in content.cells] == [
        ("with", 1, 1.0, "ended"),
        ("with", 2, None, "fault"),
        ("with", 1, None, "fault"),
        ("without", 1, 0.5, "ended"),
    ]
    assert content.cells[0].task == content.cells[3].task != content.cells[2].task
    assert ["no task or end" in note for note in content.notes] == [True]
    assert SECRET not in msgspec.json.encode(content).decode()


def test_sides_that_are_none_are_refused(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    harbor(on, "a", 1)
    for pair in ((on, on), (tmp_path, on), (on / "a__001", on)):
        with pytest.raises(InvalidInput, match="must lie apart"):
            read_sides(*pair)
    with pytest.raises(UnreadableSource, match="graded runs, got 0 runs without a grade"):
        read_both(tmp_path)
    harbor(off, "a", 1, None)
    with pytest.raises(UnreadableSource, match="graded runs, got 1 run without a grade"):
        read_both(tmp_path)
    with pytest.raises(UnreadableSource, match="task in common, got 'a' of 1 task and 'b' of 1"):
        read_sides(on, harbor(tmp_path / "other", "b", 1))
    with pytest.raises(UnreadableSource, match="readable, got No such file"):
        read_sides(on, tmp_path / "none")
    with pytest.raises(UnreadableSource, match=r"got 0 .* --with FOLDER --without FOLDER"):
        read_results(on)
    with pytest.raises(UnreadableSource, match="one file with both sides, got 0"):
        read_results(put(tmp_path, log(sample())))


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 90, b'{"trial_name": "t", "task_name": NaN', b"\xff"])
def test_a_damaged_result_is_left_out_and_counted(tmp_path: Path, content: bytes) -> None:
    on, off = folders(tmp_path)
    for side in (on, off):
        harbor(side, "a", 1)
    put(harbor(on, "a", 2), content, "result.json")
    content_of_both = read_both(tmp_path)
    assert in_short(content_of_both.cells) == [("a", "with", 1, 1.0), ("a", "without", 1, 1.0)]
    assert content_of_both.notes[0].startswith("1 record left out.")


def test_odd_members_of_a_result_change_nothing_else(tmp_path: Path) -> None:
    on, off = folders(tmp_path)
    odd: dict[str, Any] = {"agent_info": None, "agent_result": [1], "finished_at": "soon"}
    harbor(on, "a", 1, **odd)
    harbor(off, "a", 1, verifier_result={"rewards": {"reward": 1.0, "x" * 900: 1.0, "style": 0.5}})
    first, second = read_both(tmp_path).cells
    assert (first.grade, first.tokens, first.model, first.at_ms) == (1.0, None, "", None)
    assert (second.grade, second.checks) == (1.0, {})


@pytest.mark.parametrize("pair", [("gpt-4.1", "gpt-4.1-mini"), ("gpt-5-mini", "qwen3-4b-instruct")])
def test_a_recount_of_recorded_evaluations_gives_the_same_pairs(
    shared_data: Path, pair: tuple[str, str]
) -> None:
    names = [shared_data / "verifiers" / f"wiki-search--{model}.results.jsonl.gz" for model in pair]
    cells = read_sides(names[0], names[1], arm="tool:other:search_pages").cells
    grades = grades_of(cells)
    counted: dict[tuple[str, str], list[float | None]] = {}
    for side, name in zip(TRIAL_SIDES, names, strict=True):
        for line in gzip.decompress(name.read_bytes()).splitlines():
            row = json.loads(line)
            ended = 0 <= row["reward"] <= 1 and not row.get("error")
            counted.setdefault((str(row["example_id"]), side), []).append(row["reward"] if ended else None)
    assert grades == counted
    assert {cell.presence for cell in cells} <= {"called", "listed"}
    assert {task for task, side in grades if side == "with"} & {
        task for task, side in grades if side != "with"
    }
