"""Results and traces of verifiers: reward, parts, calls and offers of each rollout, and the metadata beside them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.errors import UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.formats import Remark, open_sources, recognise
from core.records.episode import Episode, Scale
from core.records.episode_page import EpisodeFilter
from core.records.run import Run
from tests.flows.test_episodes import held
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, runs
from tests.worlds import context_at

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("search", "read")]

ERROR = {"error": "ModelError", "error_chain_str": "ModelError -> TimeoutError"}
USED = [
    {
        "node": 3,
        "model": "m",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "cached_input_tokens": 20},
    },
    {"node": 5, "model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
    {"node": 6, "model": "m", "error": {"type": "Retry", "message": "x"}},
]
FAILED = {"type": "SandboxError", "message": "gone"}
STATES: list[tuple[Json, str | None, float | None]] = [
    ({"rewards": {"correct": None}}, None, None),
    ({"rewards": {}}, None, None),
    ({"rewards": {"correct": None, "style": {"score": 0.0}}}, None, 0.0),
    ({"ok": False, "errors": [FAILED]}, "SandboxError", 1.25),
    ({"ok": True, "errors": [FAILED]}, None, 1.25),
    ({"ok": False, "stop_condition": "max_turns"}, "max_turns", 1.25),
    ({"ok": None, "errors": [FAILED]}, "SandboxError", 1.25),
    ({"ok": None, "is_completed": False}, "not completed", 1.25),
]
HOSTILE: list[Json] = [
    {"nodes": [{"message": 7}]},
    {"rewards": {"x": {"score": "high"}}},
    {"rewards": {"x": {"score": 1e308, "weight": 1e308}}},
    {"tools": [{"name": "no\nname"}]},
]


def rollout(task: int = 0, reward: object = 1.0, **more: object) -> Json:
    """A line as verifiers writes it, with one call."""
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [json.dumps(CALL)]},
        {"role": "tool", "content": "found"},
        {"role": "assistant", "content": "the answer"},
    ]
    prompt = [{"role": "system", "content": "be good"}, {"role": "user", "content": "find it"}]
    said = {
        "example_id": task,
        "task": "default",
        "prompt": prompt,
        "completion": completion,
        "reward": reward,
    }
    return {**said, "total_ms": 12.6, "answer": "7", "info": {"oai_tools": TOOLS}, **more}


def episodes(entries: list[Any]) -> list[Episode]:
    return [one for one in entries if isinstance(one, Episode)]


def results(
    folder: Path, rows: list[Json], metadata: Json | None = None, name: str = "a.results.jsonl"
) -> Path:
    path = put(folder, lines(rows), name)
    if metadata is not None:
        put(folder, json.dumps(metadata).encode(), name.replace(".results.jsonl", ".metadata.json"))
    return path


def test_a_transcript_that_is_kept_has_the_calls_with_their_results(tmp_path: Path) -> None:
    with open_sources([results(tmp_path, [rollout()])], keeps_texts=True) as opened:
        (run,) = runs(opened.sources[0].entries())
    assert [(one.kind, one.name, one.result) for one in run.messages] == [
        ("user", "", None),
        ("call", "search", "found"),
        ("agent", "", None),
    ]


def test_a_line_is_a_run_and_its_episode(tmp_path: Path) -> None:
    row = rollout(7, 0.5, judge_reward=0.5, search_calls=1.0, total_tool_calls=1.0, generation_ms=3.5)
    path = results(tmp_path, [row], {"env_id": "wiki", "model": "large"})
    assert recognise(path) == "verifiers"
    entries = read(path)
    (run,), (one,) = runs(entries), episodes(entries)
    assert (names(run), sorted(offered(run)), run.reward, run.model) == (
        ["search"],
        ["read", "search"],
        0.5,
        "large",
    )
    assert (run.duration_ms, run.prompt, run.reply) == (13, "find it", "the answer")
    assert (one.environment, one.task, one.model, one.runs) == ("verifiers/wiki", "7", "large", (run.uid,))
    assert [(step.kind, step.name, step.reward) for step in one.steps] == [
        ("call", "search", None),
        ("outcome", "", 0.5),
    ]
    assert {part.name: (part.value, part.kind) for part in one.parts} == {
        "generation_ms": (3.5, "measure"),
        "judge_reward": (0.5, "reward"),
        "search_calls": (1.0, "measure"),
        "total_ms": (12.6, "measure"),
        "total_tool_calls": (1.0, "measure"),
    }


@pytest.mark.parametrize(
    "calls", [[CALL], [json.dumps(CALL)], json.dumps([CALL]), json.dumps([json.dumps(CALL)])], ids=range(4)
)
def test_calls_are_objects_or_texts(tmp_path: Path, calls: object) -> None:
    told = [{"role": "assistant", "content": None, "tool_calls": calls}]
    (run,) = runs(read(results(tmp_path, [rollout(completion=told)])))
    assert names(run) == ["search"]


def test_info_may_be_a_text_and_a_completion_too(tmp_path: Path) -> None:
    rows = [
        rollout(info=json.dumps({"oai_tools": TOOLS})),
        rollout(1, completion="said", info={}),
        rollout(2, info=None),
    ]
    found = runs(read(results(tmp_path, rows)))
    assert sorted(offered(found[0])) == ["read", "search"]
    assert [run.inventory.kind for run in found] == ["declared", "inferred", "inferred"]
    assert found[1].texts == ("said",)


def test_no_reward_is_unpaid_and_zero_is_paid(tmp_path: Path) -> None:
    entries = read(results(tmp_path, [rollout(0, None), rollout(1, 0)]))
    assert [run.reward for run in runs(entries)] == [None, 0.0]
    assert [one.steps[-1].reward for one in episodes(entries)] == [None, 0.0]


def test_identical_rollouts_of_a_task_are_several(tmp_path: Path) -> None:
    found = episodes(read(results(tmp_path, [rollout(), rollout(), rollout()])))
    assert len({one.uid for one in found}) == 3
    assert {one.task for one in found} == {"0"}


def test_calls_that_are_counted_and_not_shown_are_told_in_words(tmp_path: Path) -> None:
    rows = [rollout(completion=[], total_tool_calls=2.0), rollout(1, completion=[], total_tool_calls=0.0)]
    entries = read(results(tmp_path, rows))
    (told,) = [one.text for one in entries if isinstance(one, Remark)]
    assert told.startswith("1 episode ")
    assert [len(one.steps) for one in episodes(entries)] == [1, 1]
    assert {run.empty for run in runs(entries)} == {True}


def test_metadata_lead_to_their_results_and_are_no_source_of_their_own(tmp_path: Path) -> None:
    path = results(tmp_path, [rollout()], {"env": "old-name", "model": "small"})
    for named in ([tmp_path], [path], [tmp_path / "a.metadata.json"]):
        with open_sources(named) as opened:
            assert [(source.file, source.format) for source in opened.sources] == [(str(path), "verifiers")]
            assert opened.skipped == ()
            (one,) = [entry for entry in opened.sources[0].entries() if isinstance(entry, Episode)]
            assert one.environment == "verifiers/old-name"
    put(tmp_path, b"{", "a.metadata.json")
    with pytest.raises(UnreadableSource, match="metadata"):
        read(path)


def test_a_pointer_of_git_lfs_is_told_in_words(tmp_path: Path) -> None:
    pointer = put(
        tmp_path, b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "b.results.jsonl"
    )
    with pytest.raises(UnreadableSource, match="Git LFS") as refused:
        open_sources([pointer])
    assert "git lfs pull" in refused.value.next_step


@pytest.mark.parametrize("wrong", [{"reward": "1.0"}, {"reward": True}, {"completion": 7}, {"prompt": {}}])
def test_a_line_of_another_shape_is_rejected_alone(tmp_path: Path, wrong: Json) -> None:
    entries = read(results(tmp_path, [rollout(), rollout(1, **{"reward": 1.0, **wrong}), rollout(2)]))
    assert [one.line for one in rejected(entries)] == [2]
    assert [one.task for one in episodes(entries)] == ["0", "2"]


def test_real_results_equal_what_was_computed(shared_data: Path, context: Context) -> None:
    """Rewards, parts, calls, offers and rollouts of all files; then all of them in one learner."""
    folder = shared_data / "verifiers"
    wanted: dict[str, Any] = json.loads((shared_data / "EXPECTED" / "verifiers.json").read_bytes())
    with open_sources([folder]) as opened:
        assert [Path(one.file).name for one in opened.skipped] == ["lfs-pointer.results.jsonl"]
        assert "Git LFS" in opened.skipped[0].reason
        found = {Path(source.file).name: list(source.entries()) for source in opened.sources}
    assert found.keys() == wanted.keys()
    for name, said in wanted.items():
        _compare(
            found[name],
            said,
            json.loads((folder / name.replace("results.jsonl.gz", "metadata.json")).read_bytes()),
        )
        rows = [json.loads(row) for row in gzip.decompress((folder / name).read_bytes()).splitlines()]
        assert [one.steps[-1].reward for one in episodes(found[name])] == [row["reward"] for row in rows]
    answer = import_files(context, [folder])
    told = held(context)
    assert (answer.episodes, len(told), answer.rejected_count) == (448, 448, 0)
    assert sum("report calls and show none" in note for note in answer.notes) == 1
    assert Counter(
        one.model for one in told.values() if one.environment == "verifiers/wiki-search"
    ) == dict.fromkeys(("gpt-4.1", "gpt-4.1-mini", "gpt-5-mini", "qwen/qwen3-4b-instruct-2507"), 100)
    outside = {
        one.environment for one in told.values() if Scale().normalised(one.steps[-1].reward or 0.0) is None
    }
    assert outside == {"verifiers/wordle"}
    assert queries.verify(context).clean
    assert import_files(context, [folder]).id is None


def _compare(entries: list[Any], said: dict[str, Any], metadata: dict[str, Any]) -> None:
    made: list[Run] = runs(entries)
    told = episodes(entries)
    rewards = [one.steps[-1].reward or 0.0 for one in told]
    assert {one.model for one in told} == {metadata["model"]}
    assert len(told) == len(made) == said["episodes"]
    assert len({one.task for one in told}) == said["tasks"]
    assert sorted({*Counter(one.task for one in told).values()}) == said["rollouts_per_task"]
    assert sum(rewards) / len(rewards) == pytest.approx(said["reward"]["mean"], abs=1e-9)
    assert (min(rewards), max(rewards)) == pytest.approx((said["reward"]["min"], said["reward"]["max"]))
    assert sum(reward >= 1 for reward in rewards) == said["reward"]["at_least_1"]
    assert rewards.count(0.0) == said["reward"]["zero"]
    assert (
        Counter(step.name for one in told for step in one.steps if step.kind == "call") == said["tool_calls"]
    )
    assert (
        Counter(name for one in told for name in {step.name for step in one.steps[:-1]})
        == said["episodes_calling"]
    )
    declared = [offered(run) for run in made if run.inventory.kind == "declared"]
    assert Counter(name for tools in declared for name in {*tools}) == said["episodes_offering"]
    parts = [{part.name: part.value for part in one.parts if not part.name.endswith("_ms")} for one in told]
    means = {name: sum(each[name] for each in parts) / len(parts) for name in parts[0]}
    assert means == pytest.approx(said["metrics_mean"], abs=1e-9)


def test_each_rollout_is_counted_once(context: Context, tmp_path: Path) -> None:
    rows = [rollout(1, 1.0), rollout(2, None), rollout(3, None, error=ERROR)]
    import_files(context, [results(tmp_path, rows, {"env_id": "wiki"})])
    (one,) = queries.episodes(context)
    assert (one.n, one.without_reward, one.broken, one.average.value) == (3, 1, 1, 1.0)
    assert one.success is not None
    assert one.success.rate == 1.0
    page = queries.episode_list(context, EpisodeFilter(outcome="broken"))
    assert [(row.task, row.status) for row in page.rows] == [("3", "broken")]
    unpaid = queries.episode_list(context, EpisodeFilter(outcome="unpaid"))
    assert [row.task for row in unpaid.rows] == ["2"]
    seen = queries.episode(context, page.rows[0].uid)
    assert (seen.status, seen.total, seen.success) == ("broken", None, None)
    assert (seen.steps[-1].name, seen.steps[-1].note) == ("ModelError", "error")
    assert queries.verify(context).clean


@pytest.mark.parametrize("more", [{"error": ERROR}, {"is_completed": False}, {"error": "Timeout: 30 s"}])
def test_a_broken_rollout_is_no_honest_nothing(context: Context, tmp_path: Path, more: Json) -> None:
    import_files(context, [results(tmp_path, [rollout(1, 1.0), rollout(2, 0.0, **more)])])
    (one,) = queries.episodes(context)
    assert (one.n, one.without_reward, one.broken, one.average.value) == (2, 0, 1, 1.0)
    assert one.success is not None
    assert one.success.rate == 1.0


def test_a_broken_rollout_survives_the_export(context: Context, tmp_path: Path) -> None:
    import_files(context, [results(tmp_path, [rollout(1, 1.0), rollout(2, 0.0, error=ERROR)])])
    export_file(context, tmp_path / "whole.jsonl")

    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "whole.jsonl"])
    (one,) = queries.episodes(other)
    assert (one.n, one.broken, one.average.value) == (2, 1, 1.0)
    assert queries.verify(other).clean


def node(role: str, content: str, *calls: str, sampled: bool = False, parent: int | None = None) -> Json:
    message: Json = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{n}", "name": name, "arguments": "{}"} for n, name in enumerate(calls)
        ]
    return {
        "message": message,
        "sampled": sampled,
        "parent": parent,
        "token_ids": [1, 2],
        "mask": [True, False],
    }


NODES = [
    node("system", "be brief"),
    node("user", "solve it", parent=0),
    node("assistant", "an example", "shown", parent=1),
    node("assistant", "", "search", "search", sampled=True, parent=1),
    node("tool", "found", parent=3),
    node("assistant", "left", "read", sampled=True, parent=4),
    node("assistant", "right", sampled=True, parent=4),
]


def trace(number: int = 0, **fields: object) -> Json:
    return {
        "version": 1,
        "id": f"t{number}",
        "task": {"type": "T", "data": {"answer": 7}, "key": "k1", "hash": "h1"},
        "agent": {"config": {"model": "m"}, "name": "agent", "trainable": True},
        "tools": [
            {"name": name, "description": "d", "parameters": {}} for name in ("search", "read", "never")
        ],
        "nodes": NODES,
        "calls": USED,
        "rewards": {"correct": {"score": 0.5, "weight": 2.0}, "style": {"score": 1.0, "weight": 0.25}},
        "metrics": {"turns": 2.0},
        "extra_usage": [{"prompt_tokens": 90, "completion_tokens": 9}],
        "is_completed": True,
        "ok": True,
        "timing": {"agent": {"start": 1767323045.0, "end": 1767323046.5}},
        **fields,
    }


def episode(*traces: Json, **fields: object) -> Json:
    return {
        "id": "e1",
        "env": {"id": "solve+judge"},
        "task": trace()["task"],
        "ok": True,
        "traces": traces,
        **fields,
    }


def paid(path: Path) -> list[Episode]:
    return [one for one in read(path) if isinstance(one, Episode)]


@pytest.mark.parametrize("line", [trace(), episode(trace())])
def test_a_trace_is_a_run_and_its_episode(tmp_path: Path, line: Json) -> None:
    path = put(tmp_path, lines([line]))
    (run,) = runs(read(path))
    (one,) = paid(path)
    assert recognise(path) == "verifiers"
    assert (names(run), run.texts, run.prompt, run.model) == (
        ["search", "search", "read"],
        ("left", "right"),
        "solve it",
        "m",
    )
    assert (offered(run), run.inventory.kind) == (["search", "read", "never"], "declared")
    assert (run.tokens, run.usage and run.usage.cache_read, run.duration_ms, run.ended_at_ms) == (
        43,
        20,
        1500,
        1767323046500,
    )
    assert (run.reward, one.task, one.broken, run.uid) == (1.25, "k1", False, "verifiers/episode/t0")
    assert [(part.name, part.value, part.kind) for part in one.parts] == [
        ("correct", 1.0, "reward"),
        ("extra_tokens", 99.0, "measure"),
        ("style", 0.25, "reward"),
        ("turns", 2.0, "measure"),
    ]


def test_environment_and_agent_separate_the_traces_of_an_episode(tmp_path: Path) -> None:
    judge = trace(1, agent={"config": {}, "name": "judge"})
    found = paid(put(tmp_path, lines([episode(trace(), judge)])))
    assert [one.environment for one in found] == ["verifiers/solve+judge", "verifiers/solve+judge/judge"]
    assert [one.environment for one in paid(put(tmp_path, lines([trace()])))] == ["verifiers"]


@pytest.mark.parametrize(("fields", "broken", "reward"), STATES)
def test_a_missing_score_is_no_zero_and_an_error_breaks(
    tmp_path: Path, fields: Json, broken: str | None, reward: float | None
) -> None:
    (one,) = paid(put(tmp_path, lines([episode(trace() | fields)])))
    assert (one.steps[-1].name or None, one.broken, one.steps[-1].reward) == (
        broken,
        broken is not None,
        reward,
    )


def test_an_episode_that_failed_before_any_trace_is_kept_as_broken(tmp_path: Path) -> None:
    (one,) = paid(put(tmp_path, lines([episode(ok=False, errors=[FAILED])])))
    assert (one.broken, one.steps[-1].name, one.task) == (True, "SandboxError", "k1")


def test_old_lines_and_traces_may_lie_in_one_file(context: Context, tmp_path: Path) -> None:
    old = {
        "example_id": 1,
        "prompt": [],
        "completion": [{"role": "assistant", "content": "a"}],
        "reward": 1.0,
    }
    path = put(tmp_path, lines([episode(trace()), {**old, "info": {"nodes": 1}}, {"nodes": 7}, trace(1)]))
    answer = import_files(context, [path])
    assert (answer.runs, answer.episodes, [one.line for one in answer.rejected]) == (3, 3, [3])
    assert import_files(context, [path]).id is None


@pytest.mark.parametrize("fields", HOSTILE)
def test_a_trace_of_another_shape_is_rejected_with_its_line(tmp_path: Path, fields: Json) -> None:
    entries = read(put(tmp_path, lines([trace(), episode(trace(1) | fields), trace(2)])))
    assert ([one.line for one in rejected(entries)], len(runs(entries))) == ([2], 2)
