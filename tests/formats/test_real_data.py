"""Real agent runs against results that were computed independently."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.detect import detect
from core.formats import Outside, Rejected, open_sources, recognise
from core.formats.armscope import write
from core.maths.observe import guard
from core.records.episode import Episode
from core.records.evidence import Evidence, Verdict
from core.records.run import Run, Unit
from tests.formats.builders import put, read, runs

CASES: list[tuple[str, Unit]] = [
    ("tau-bench", "episode"),
    ("tau-bench", "turn"),
    ("tau2-results", "episode"),
    ("tau2-results", "turn"),
    ("tau2-sft-openai", "episode"),
    ("tau2-sft-openai", "turn"),
    ("claude-code", "prompt"),
    ("gemini-cli", "prompt"),
    ("inspect-ai", "episode"),
]


TOOLS = {"airline-tools.json", "tools-by-domain.json"}

FORMAT_OF = {
    "tau-bench": "tau-bench",
    "tau2-results": "tau2",
    "tau2-sft-openai": "openai-chat",
    "claude-code": "claude-code",
    "gemini-cli": "gemini-cli",
    "inspect-ai": "inspect-ai",
    "langfuse-trace": "langfuse",
}


@dataclass
class Read:
    """All that a folder yields, judged."""

    judged: list[tuple[Run, Evidence, Verdict]] = field(default_factory=list)
    outside: list[Outside] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)

    def add(self, run: Run) -> None:
        evidence = detect(run)
        self.judged.append((run, evidence, guard(run, evidence)))


def tools_of(folder: Path) -> Path | None:
    return next((path for path in folder.iterdir() if path.name in TOOLS), None)


def read_folder(folder: Path, unit: Unit) -> Read:
    found = Read()
    for source in open_sources([folder], unit=unit, tools_file=tools_of(folder)).sources:
        for entry in source.entries():
            if isinstance(entry, Run):
                found.add(entry)
            elif isinstance(entry, Outside):
                found.outside.append(entry)
            elif isinstance(entry, Episode):
                found.episodes.append(entry)
            else:
                assert isinstance(entry, Rejected)
                found.rejected.append(entry)
    return found


def table_of(name: str, unit: Unit) -> str:
    """What the tables call a source's unit: an episode of an evaluation is a sample."""
    return f"{name}.{'sample' if name == 'inspect-ai' else unit}"


def expected(data: Path, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((data / "EXPECTED" / f"{name}.json").read_bytes())
    return answer


def expected_rows(data: Path, name: str) -> list[dict[str, Any]]:
    text = (data / "EXPECTED" / f"{name}.runs.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_each_run_equals_what_was_computed_and_has_an_identity_free_of_paths(
    shared_data: Path, name: str, unit: Unit
) -> None:
    """Counts and beliefs are compared where the folders are imported (`tests.flows.test_import_laws`)."""
    found = read_folder(shared_data / name, unit)
    wanted = expected(shared_data, table_of(name, unit))
    assert sum(run.status == "aborted" for run, _, _ in found.judged) == wanted["runs_aborted"]
    assert found.rejected == []
    assert not any(evidence.not_offered for _, evidence, _ in found.judged)
    rows = expected_rows(shared_data, table_of(name, unit))
    assert len(rows) == len(found.judged)
    for row, (run, evidence, verdict) in zip(rows, found.judged, strict=True):
        if row["status"] == "empty":
            assert verdict.outcome == "empty"
            continue
        assert verdict.observed is (row["status"] == "observed")
        assert sorted({call.name for call in run.calls}) == row["tools"]
        assert evidence.n_calls == row["calls"]
        assert usage_of(run) == (row["usage"] and {name: n for name, n in row["usage"].items() if n})
        assert run.duration_ms == rounded(row["durationMs"])
        assert run.reward == reward_of(row["reward"])
        if name != "tau-bench":  # there only the file's name tells the model
            assert run.model == row["model"]
    uids = [run.uid for run, _, _ in found.judged]
    assert len(set(uids)) == len(uids)
    assert all(
        uid.startswith(f"{run.format}/{unit}/") for uid, (run, _, _) in zip(uids, found.judged, strict=True)
    )
    files = {path.name.split(".")[0] for path in (shared_data / name).iterdir()}
    sessions = {run.session for run, _, _ in found.judged}
    assert not [uid for uid in uids for file in files - sessions if file in uid]


@pytest.mark.parametrize("name", ["tau-bench", "tau2-results"])
def test_what_was_paid_is_an_episode_whatever_a_run_is(shared_data: Path, name: str) -> None:
    """Every record once, its reward on its last step; by turn and by episode the same, but for the runs in it."""
    by_episode = read_folder(shared_data / name, "episode")
    by_turn = read_folder(shared_data / name, "turn")
    assert [replace(one, runs=()) for one in by_episode.episodes] == [
        replace(one, runs=()) for one in by_turn.episodes
    ]
    assert [uid for one in by_turn.episodes for uid in one.runs] == [run.uid for run, _, _ in by_turn.judged]
    for one, (run, evidence, _) in zip(by_episode.episodes, by_episode.judged, strict=True):
        assert one.runs == (run.uid,)
        assert (one.steps[-1].reward, one.steps[-1].finished) == (run.reward, True)
        assert [step.name for step in one.steps[:-1]] == [call.name for call in run.calls]
        assert {step.reward for step in one.steps[:-1]} <= {None}
        assert len(one.steps) == evidence.n_calls + 1


def rounded(duration_ms: float | None) -> int | None:
    return None if duration_ms is None else round(duration_ms)


def reward_of(told: dict[str, str] | float | None) -> float | None:
    """A number, or grades by scorer in letters."""
    if not isinstance(told, dict):
        return told
    (grade,) = told.values()
    return {"C": 1.0, "I": 0.0}[grade]


def usage_of(run: Run) -> dict[str, int] | None:
    usage = run.usage
    if usage is None:
        return None
    parts = {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
    }
    return {name: tokens for name, tokens in parts.items() if tokens}


def test_greetings_are_outside_and_runs_of_a_record_share_their_inventory(shared_data: Path) -> None:
    found = read_folder(shared_data / "tau2-sft-openai", "turn")
    assert len(found.outside) == 37
    assert all((one.n_replies, one.n_calls, one.no_user_text) == (1, 0, False) for one in found.outside)
    assert read_folder(shared_data / "tau-bench", "turn").outside == []
    inventories = {id(run.inventory) for run, _, _ in found.judged}
    assert len(inventories) == 3  # three domains, thirty-seven records
    assert all(arm.token_cost for run, _, _ in found.judged for arm in run.inventory.arms)


def test_a_session_cut_off_anywhere_is_the_beginning_of_the_whole(shared_data: Path, tmp_path: Path) -> None:
    """Same identities, and every run holds at least what it held before."""
    path = min((shared_data / "claude-code").iterdir(), key=lambda file: file.stat().st_size)
    content = gzip.decompress(path.read_bytes())
    whole = {run.uid: run for run in runs(read(put(tmp_path, content)))}
    for end in itertools.chain(range(2000, len(content), 9001), (len(content) - 1,)):
        for run in runs(read(put(tmp_path, content[:end]))):
            grown = whole[run.uid]
            assert grown.calls[: len(run.calls)] == run.calls
            assert grown.texts[: len(run.texts)] == run.texts
            assert grown.source == run.source
            assert grown.rank >= run.rank


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_real_runs_come_back_equal_through_our_own_lines(
    shared_data: Path, tmp_path: Path, name: str, unit: Unit
) -> None:
    found = [run for run, _, _ in read_folder(shared_data / name, unit).judged]
    assert runs(read(put(tmp_path, b"".join(write(found))))) == found


def test_without_a_tools_file_the_inventory_is_what_the_file_calls(shared_data: Path) -> None:
    (source,) = open_sources([shared_data / "tau-bench"]).sources
    found = runs(source.entries())
    assert {run.inventory.kind for run in found} == {"inferred"}
    assert len({id(run.inventory) for run in found}) == 1
    assert {arm.name for arm in found[0].inventory.arms} == {call.name for run in found for call in run.calls}
    assert {run.rank for run in found} == {100}


@pytest.mark.parametrize("name", FORMAT_OF)
def test_every_file_is_recognised_as_what_it_is(shared_data: Path, tmp_path: Path, name: str) -> None:
    for path in (shared_data / name).iterdir():
        wanted = "tools" if path.name in TOOLS else FORMAT_OF[name]
        assert recognise(path) == wanted
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            inflated = gzip.decompress(content)
            assert recognise(put(tmp_path, inflated)) == wanted
            if wanted not in {"openai-chat", "claude-code"}:
                assert recognise(put(tmp_path, json.dumps(json.loads(inflated)).encode())) == wanted
