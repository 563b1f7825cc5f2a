"""Files with both sides of a trial: our own lines, results of Claude Code's plugin eval, and of skill-creator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput, UnreadableSource
from core.flows.trials.results import read_results
from core.formats.trial_files import OWN_LINES, PLUGIN_EVAL, SKILL_CREATOR, Collected, TrialHeader
from core.records.trial import MOST_CELLS, TRIAL_SIDES, Cell, TrialResults
from tests.formats.builders import Json, lines, put

HEADER = TrialHeader(armscope_trial=1, plan=3, arm="skill:own:pdf", harness="claude")
LABELS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9)
CELLS = st.builds(
    Cell,
    task=LABELS,
    repeat=st.integers(1, 100),
    side=st.sampled_from(TRIAL_SIDES),
    attempt=st.integers(1, 3),
    grade=st.none() | st.floats(0, 1),
    checks=st.dictionaries(LABELS, st.floats(0, 1), max_size=2),
    end=st.sampled_from(["ended", "limit", "fault"]),
    error=LABELS,
    tokens=st.none() | st.integers(0, 10**12),
    money_pico=st.none() | st.integers(0, 10**15),
    presence=st.sampled_from(["called", "loaded", "listed", "absent", "unknown"]),
    used=st.none() | st.integers(0, 9),
    at_ms=st.none() | st.integers(0, 10**12),
)
DISTINCT = st.lists(CELLS, min_size=1, max_size=6, unique_by=lambda one: one.key)
Arms = Mapping[str, Sequence[Json]]
SCORES = st.lists(st.integers(0, 4).map(lambda n: n / 4), max_size=4)
PRIVATE = "the words of a person"

BAD_LINES = {
    "no JSON": b"hello {",
    "too deep": b'{"task": "u", "repeat": 1, "side": "with", "checks": ' + b"[" * 70 + b"]" * 70 + b"}",
    "too large a grade": b'{"task": "u", "repeat": 1, "side": "with", "grade": 1.5}',
    "not a side": b'{"task": "u", "repeat": 1, "side": "left"}',
    "repeat 0": b'{"task": "u", "repeat": 0, "side": "with"}',
    "an answer": b'{"task": "u", "repeat": 1, "side": "with", "answer": "text"}',
    "another type": b'{"task": "u", "repeat": 1, "side": "with", "tokens": "many"}',
    "no object": b"[1]",
    "no amount": b'{"task": "u", "repeat": 1, "side": "with", "money_pico": -5}',
    "more than a store holds": b'{"task": "u", "repeat": 1, "side": "with", "money_pico": 18446744073709551616}',
    "NUL": b'{"task": "u\\u0000", "repeat": 1, "side": "with"}',
    "too long a name": b'{"task": "' + b"u" * 600 + b'", "repeat": 1, "side": "with"}',
    "not UTF-8": b'{"task": "\xff", "repeat": 1, "side": "with"}',
}


def trial_line(one: TrialHeader | Cell) -> bytes:
    return msgspec.json.encode(one) + b"\n"


def trial_lines(cells: Sequence[Cell], header: TrialHeader = HEADER) -> bytes:
    return trial_line(header) + b"".join(trial_line(cell) for cell in cells)


def read_content(content: bytes, name: str = "data") -> TrialResults:
    with TemporaryDirectory() as folder:
        return read_results(put(Path(folder), content, name))


def read_document(content: Json) -> TrialResults:
    return read_content(json.dumps(content, indent=1).encode())


def grades_of(cells: Iterable[Cell]) -> dict[tuple[str, str], list[float | None]]:
    """The grades of each task and side."""
    table: dict[tuple[str, str], list[float | None]] = {}
    for cell in cells:
        table.setdefault((cell.task, cell.side), []).append(cell.grade)
    return table


def plugin_run(score: float | None = 1.0, **more: object) -> Json:
    """A run of plugin eval, with a grader for its outcome and one for the skill."""
    graders = [
        {"name": "outcome", "passed": bool(score), "explanation": PRIVATE, "withOnly": False, "scored": True},
        {"name": "fired", "passed": True, "explanation": "called 1x", "withOnly": True, "scored": False},
    ]
    return {"score": score, "costUsd": 0.3, "judgeCostUsd": 0.1, "error": None, "graders": graders, **more}


def case(arms: Arms, name: str = "greet", prompt: str = PRIVATE, most: int | None = None) -> Json:
    config: Json = {"tool": "Skill", "input_match": PRIVATE} | ({} if most is None else {"max": most})
    graders = [{"name": "outcome", "type": "regex"}, {"name": "fired", "type": "tool_used", "config": config}]
    return {"name": name, "dir": "evals/x", "promptMarkdown": prompt, "graders": graders, "arms": arms}


def suite(*cases: Json, plugin: Mapping[str, object] | None = None, **more: object) -> Json:
    plugins = [{"name": "polite", "path": "/home/x", **(plugin or {})}]
    of_suite = {"root": "/home/x", "ablation": "with-without", "plugins": plugins}
    return {"schemaVersion": 1, "claudeVersion": "2.1.269", "suite": of_suite, "cases": [*cases], **more}


def evaluated(task: int, side: str, number: int = 1, rate: float = 1.0, **more: object) -> Json:
    """A run of skill-creator."""
    result = {"pass_rate": rate, "passed": 1, "total": 2, "tokens": 812, "time_seconds": 3.5, "errors": 0}
    checks = [{"text": PRIVATE, "passed": rate > 0, "evidence": PRIVATE}]
    return {
        "eval_id": task,
        "configuration": side,
        "run_number": number,
        "result": result,
        "expectations": checks,
        "notes": [PRIVATE],
        **more,
    }


def benchmark(*runs: Json, **metadata: object) -> Json:
    about = {"skill_name": "pdf", "skill_path": "/home/x", "executor_model": "large", **metadata}
    return {"metadata": about, "runs": [*runs], "run_summary": {}, "notes": [PRIVATE]}


# --- our own lines ----------------------------------------------------------------------------------------


@given(DISTINCT)
def test_lines_are_read_as_they_were_written(cells: list[Cell]) -> None:
    content = read_content(trial_lines(cells))
    assert (content.source, content.plan, content.arm, content.harness, content.notes) == (
        OWN_LINES,
        3,
        "skill:own:pdf",
        "claude",
        (),
    )
    assert list(content.cells) == cells


@given(DISTINCT, st.data())
@settings(max_examples=30)
def test_a_file_that_grows_keeps_its_earlier_cells(cells: list[Cell], data: st.DataObject) -> None:
    whole = trial_lines(cells)
    start = len(trial_line(HEADER)) + len(trial_line(cells[0]))
    cut = data.draw(st.integers(start, len(whole)))
    content = read_content(whole[:cut])
    assert list(content.cells) == cells[: len(content.cells)]
    n_lines = whole[:cut].count(b"\n") + (whole[cut:].startswith(b"\n"))
    assert len(content.cells) == n_lines - 1
    is_half = not whole[:cut].endswith(b"\n") and not whole[cut:].startswith(b"\n")
    assert [note.split(" left")[0] for note in content.notes] == (["1 record"] if is_half else [])


@pytest.mark.parametrize("what", BAD_LINES)
def test_a_line_that_can_t_be_read_is_left_out_and_counted(tmp_path: Path, what: str) -> None:
    cells = [Cell(task="t", repeat=1, side=side, grade=1.0) for side in TRIAL_SIDES]
    path = put(tmp_path, trial_lines(cells[:1]) + BAD_LINES[what] + b"\n" + trial_line(cells[1]))
    content = read_results(path)
    assert list(content.cells) == cells
    (note,) = content.notes
    assert "number 3 of data:" in note


def test_the_first_line_of_a_cell_counts() -> None:
    first = Cell(task="t", repeat=1, side="with", grade=1.0)
    later = msgspec.structs.replace(first, grade=0.0)
    assert read_content(trial_lines([first, first])).notes == ()
    content = read_content(trial_lines([first, later, first]))
    assert list(content.cells) == [first]
    assert "1 cell came again" in content.notes[0]
    again = read_content(trial_lines([first, msgspec.structs.replace(later, attempt=2)]))
    assert [cell.grade for cell in again.cells] == [1.0, 0.0]


def test_too_many_runs_name_their_file() -> None:
    collected = Collected(file="large.jsonl")
    for number in range(MOST_CELLS + 1):
        collected.add(Cell(task=f"t{number // 50}", repeat=number % 50 + 1, side="with"))
    with pytest.raises(UnreadableSource, match=r"got 100,001 \(large\.jsonl\)\. Name a file of fewer runs"):
        collected.results(OWN_LINES, HEADER)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (trial_line(HEADER), "Results must hold 1 to 100,000 runs, got 0"),
        (trial_line(HEADER) + b"{\n", "got 0 .*The first record left out: It is"),
        (trial_line(HEADER)[:20], "one header line, got 0 .*: The last line is cut off"),
        (
            b'{"armscope_trial": 1, "x": 2}\n' + trial_line(Cell(task="t", repeat=1, side="with")),
            "one header line, got 0 .*: It has",
        ),
        (b'{"armscope_trial": 2}\n', "one header line, got 0 .*armscope_trial"),
        (trial_line(Cell(task="t", repeat=1, side="with")), "one header line, and it is missing"),
        (trial_line(HEADER) + trial_line(TrialHeader(armscope_trial=1, plan=4)), "one header line, got 2"),
        (b'{"armscope_trial": 1, "plan": 1%s}\n' % (b"0" * 30), "one header line, got 0"),
        (b"", "got an empty one"),
        (b"\x00\x01\x02", "binary data"),
        (lines([{"role": "user", "content": "a"}]), "one file with both sides, got 0"),
    ],
)
def test_what_is_no_file_of_results_is_refused(content: bytes, error: str) -> None:
    with pytest.raises(UnreadableSource, match=error) as refused:
        read_content(content)
    assert refused.value.next_step


@pytest.mark.parametrize("name", ["tokens", "money_pico", "used", "at_ms"])
def test_results_have_only_so_many_cells_and_cells_numbers_that_a_store_holds(name: str) -> None:
    for value in (-1, 10**19):
        with pytest.raises(InvalidInput, match=f"{name} must be a whole number"):
            msgspec.structs.replace(Cell(task="t", repeat=1, side="with"), **{name: value})
    cells = (Cell(task="t", repeat=1, side="with"),) * (MOST_CELLS + 1)
    with pytest.raises(InvalidInput, match="cells must be a whole number from 0 to"):
        TrialResults(source="lines", cells=cells)


def test_a_folder_with_one_file_of_results_is_that_file(tmp_path: Path) -> None:
    cell = Cell(task="t", repeat=1, side="with")
    put(tmp_path, b"# notes", "README.md")
    (tmp_path / "run").mkdir()
    put(tmp_path / "run", trial_lines([cell]), "cells.jsonl")
    assert read_results(tmp_path).cells == (cell,)
    put(tmp_path, json.dumps(benchmark(evaluated(1, "with_skill"))).encode(), "b.json")
    with pytest.raises(UnreadableSource, match="one file with both sides, got 2"):
        read_results(tmp_path)


# --- plugin eval ------------------------------------------------------------------------------------------


def test_a_plugin_eval_is_its_runs_without_any_text() -> None:
    started = "2026-09-12T01:06:04.203Z"
    greet = case(
        {
            "with": [plugin_run(1.0, startedAt=started), plugin_run(0.5)],
            "without": [plugin_run(0.0, graders=[])],
        }
    )
    content = read_document(suite(greet))
    assert (content.source, content.about, content.alone, content.notes) == (PLUGIN_EVAL, "polite", True, ())
    first, second, without = content.cells
    assert [cell.repeat for cell in content.cells] == [1, 2, 1]
    assert (first.grade, first.money_pico, first.at_ms, first.version, first.tokens) == (
        1.0,
        200_000_000_000,
        1789175164203,
        "2.1.269",
        None,
    )
    assert (first.presence, second.checks, without.presence) == (
        "called",
        {"outcome": 1.0},
        "absent",
    )
    stored = msgspec.json.encode(content).decode()
    assert PRIVATE not in stored
    assert "/home" not in stored


RUNS: dict[str, tuple[Json, str, float | None]] = {
    "ended": (plugin_run(0.5), "ended", 0.5),
    "time": (plugin_run(0.5, error="timed out after 120s"), "limit", 0.5),
    "turns": (plugin_run(0.25, error="reached max turns (10)"), "limit", 0.25),
    "crash": (plugin_run(0.5, error="exit 1: something"), "ended", 0.5),
    "setup": (plugin_run(0, error="scaffold failed (exit 1): x", graders=[]), "fault", None),
    "no grader": (plugin_run(0, error="exit 1", graders=[]), "fault", None),
    "interrupted": (plugin_run(0.5, error="interrupted"), "fault", None),
    "rate": (plugin_run(0, error="API Error: 429 rate_limit_error"), "fault", None),
    "skipped": (plugin_run(1, skippedPaidGraders=True), "fault", None),
    "without a score": (plugin_run(None, passed=True), "ended", 1.0),
}


@pytest.mark.parametrize("what", RUNS)
def test_a_run_ends_by_itself_by_its_limit_or_by_a_fault(what: str) -> None:
    one, end, grade = RUNS[what]
    (cell,) = read_document(suite(case({"with": [one]}))).cells
    assert (cell.end, cell.grade) == (end, grade)
    assert bool(cell.error) == bool(one["error"] or one.get("skippedPaidGraders"))


@pytest.mark.parametrize(
    ("plugin", "most", "passed", "presence"),
    [
        ({}, None, True, "called"),
        ({}, None, False, "listed"),
        ({}, 0, True, "listed"),
        ({}, 0, False, "called"),
        ({"problem": "will_not_load"}, None, False, "absent"),
        ({"problem": "identity_unverified"}, None, False, "unknown"),
        ({"problem": "archive_not_probed"}, None, False, "listed"),
    ],
)
def test_the_graders_and_the_suite_say_if_the_plugin_was_there(
    plugin: Json, most: int | None, passed: bool, presence: str
) -> None:
    one = plugin_run(1.0, graders=[{"name": "fired", "passed": passed}])
    (cell,) = read_document(suite(case({"with": [one]}, most=most), plugin=plugin)).cells
    assert cell.presence == presence


def test_a_case_with_another_text_is_another_task() -> None:
    arms = {"with": [plugin_run()], "without": [plugin_run(0.0)]}
    content = read_document(suite(case(arms, "a", "x"), case(arms, "b", "x"), case(arms, "a", "y")))
    first, second, third = dict.fromkeys(cell.task for cell in content.cells)
    assert (first, second) == ("a", "b")
    assert re.fullmatch(r"a \([0-9a-f]{8}\)", third)
    assert "has another digest, too" in content.notes[0]
    assert len({cell.key for cell in content.cells}) == 6


@pytest.mark.parametrize("make", [suite, benchmark])
def test_a_cut_document_is_refused(make: Callable[..., Json]) -> None:
    parts = [case({"with": [plugin_run()]})] if make is suite else [evaluated(1, "with_skill")]
    whole = json.dumps(make(*parts)).encode()
    for cut in range(1, len(whole), 37):
        with pytest.raises(UnreadableSource) as refused:
            read_content(whole[:cut])
        assert refused.value.next_step


@pytest.mark.parametrize(
    "part",
    [
        {"name": 5},
        {"arms": {"with": "many"}},
        {"arms": {"with": [plugin_run(7.0)]}},
        {"arms": {"with": [{"score": 1, "graders": [{"name": "x" * 600, "passed": True}]}]}},
        {"arms": {"with": [plugin_run()] * 101}},
    ],
)
def test_a_case_that_can_t_be_read_is_left_out_and_counted(part: Json) -> None:
    good = case({"with": [plugin_run()]}, "good")
    content = read_document(suite({**case({}, "bad"), **part}, good))
    assert [cell.task for cell in content.cells] == ["good"]
    assert "1 record left out" in content.notes[0]


def test_odd_graders_and_sums_do_not_matter() -> None:
    odd = {
        **case(
            {
                "with": [
                    plugin_run(1.0, costUsd=-1),
                    plugin_run(1.0, costUsd=1e300),
                    plugin_run(1.0, costUsd=None),
                ]
            }
        ),
        "graders": 7,
    }
    content = read_document(suite(odd))
    assert [(cell.money_pico, cell.presence) for cell in content.cells] == [(None, "listed")] * 3


def test_a_suite_that_did_not_finish_and_another_schema_are_named() -> None:
    one = case({"with": [plugin_run()]})
    assert "did not finish" in read_document(suite(one, partial=True)).notes[0]
    with pytest.raises(UnreadableSource, match="schemaVersion must be 1, got 2"):
        read_document(suite(one, schemaVersion=2))
    deep = json.dumps(suite(one)).encode()[:-1] + b', "x": ' + b"[" * 90 + b"]" * 90 + b"}"
    with pytest.raises(UnreadableSource, match="deeper than 64"):
        read_content(deep)


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(SCORES, SCORES), min_size=1))
@settings(max_examples=40)
def test_a_recount_of_a_plugin_eval_gives_the_same_means(
    tasks: dict[str, tuple[list[float], list[float]]],
) -> None:
    cases = [
        case(
            {"with": [plugin_run(one) for one in on], "without": [plugin_run(one) for one in off]}, name, name
        )
        for name, (on, off) in tasks.items()
    ]
    whole = json.loads(json.dumps(suite(*cases)))
    counted = {
        (one["name"], side): [each["score"] for each in one["arms"][side]]
        for one in whole["cases"]
        for side in TRIAL_SIDES
        if one["arms"][side]
    }
    if counted:
        assert grades_of(read_document(whole).cells) == counted


# --- skill-creator ----------------------------------------------------------------------------------------


def test_a_benchmark_is_its_runs_without_texts_or_its_tokens() -> None:
    content = read_document(
        benchmark(
            evaluated(0, "with_skill", 1, 0.5),
            evaluated(0, "with_skill", 2),
            evaluated(0, "without_skill", 1, 0.0),
            evaluated(1, "without_skill", 1, eval_name="ocean"),
            evaluated(1, "without_skill", 2, 0.0, eval_name="ocean"),
        )
    )
    assert (content.source, content.about, content.alone) == (SKILL_CREATOR, "pdf", False)
    assert [(cell.task, cell.side, cell.repeat, cell.grade) for cell in content.cells] == [
        ("eval-0", "with", 1, 0.5),
        ("eval-0", "with", 2, 1.0),
        ("eval-0", "without", 1, 0.0),
        ("ocean", "without", 1, 1.0),
        ("ocean", "without", 2, 0.0),
    ]
    assert {(cell.tokens, cell.model, cell.presence) for cell in content.cells} == {
        (None, "large", "unknown")
    }
    assert not any(cell.checks for cell in content.cells)
    assert PRIVATE not in msgspec.json.encode(content).decode()


def test_a_run_without_expectations_has_no_grade_and_placeholders_no_names() -> None:
    empty = evaluated(1, "with_skill", 1, 0.0, result={"pass_rate": 0.0, "total": 0}, expectations=[])
    content = read_document(benchmark(empty, skill_name="<skill-name>", executor_model="<model-name>"))
    (cell,) = content.cells
    assert (cell.grade, cell.end, cell.error, cell.model, content.about) == (
        None,
        "fault",
        "not graded",
        "",
        "",
    )


def test_two_versions_of_a_skill_are_no_trial() -> None:
    old, new = (evaluated(1, f"{age}_skill") for age in ("old", "new"))
    with pytest.raises(
        UnreadableSource, match="is of 'old_skill', and with_skill and without_skill are read"
    ):
        read_document(benchmark(old, new))
    content = read_document(benchmark(evaluated(1, "with_skill"), old, evaluated(2, "with_skill", 1, 80.0)))
    assert [cell.task for cell in content.cells] == ["eval-1"]
    assert content.notes[0].startswith("2 records left out")


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["with_skill", "without_skill"]), st.floats(0, 1)))
)
@settings(max_examples=40)
def test_a_recount_of_a_benchmark_gives_the_same_means(rows: list[tuple[int, str, float]]) -> None:
    numbers: dict[tuple[int, str], list[float]] = {}
    runs = []
    for task, side, rate in rows:
        numbers.setdefault((task, side), []).append(rate)
        runs.append(evaluated(task, side, len(numbers[task, side]), rate))
    if rows:
        counted = {
            (f"eval-{task}", side.split("_")[0]): mean(rates) for (task, side), rates in numbers.items()
        }
        read = grades_of(read_document(benchmark(*runs)).cells)
        assert {key: mean(one or 0.0 for one in grades) for key, grades in read.items()} == counted
