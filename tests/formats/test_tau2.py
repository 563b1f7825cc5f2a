"""tau2 results: whose calls count, tools by domain, how a simulation ended."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from core.detect import detect
from core.errors import UnreadableSource
from core.formats import Entry, Limits, Outside, open_sources, recognise
from core.records.episode import Episode
from core.records.run import Unit
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, runs, tool

GREETING: Json = {"role": "assistant", "content": "Hi!", "tool_calls": None, "usage": None}


def call(name: str, role: str = "assistant") -> Json:
    return {
        "role": role,
        "content": None,
        "tool_calls": [{"id": "c", "name": name, "arguments": {"city": "Rome"}, "requestor": role}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        "timestamp": "2025-08-01T10:00:05",
    }


def a_message(role: str, words: str) -> Json:
    return {"role": role, "content": words, "usage": None, "timestamp": "2025-08-01T10:00:09"}


TALK = [
    GREETING,
    a_message("user", "book it"),
    call("book"),
    call("toggle_wifi", "user"),
    a_message("assistant", "done"),
    a_message("user", "###STOP###"),
]


def simulation(messages: list[Json], id: str = "s1", **fields: object) -> Json:
    return {
        "id": id,
        "messages": messages,
        "reward_info": {"reward": 1.0},
        "duration": 12.3456,
        "termination_reason": "user_stop",
        "end_time": "2025-08-01T10:00:10.5",
        **fields,
    }


def results(
    *simulations: Json, domain: str = "air", user: str = "user_simulator", **environment: object
) -> bytes:
    info = {
        "agent_info": {"llm": "m-1"},
        "user_info": {"implementation": user},
        "environment_info": {"domain_name": domain, **environment},
    }
    return json.dumps({"info": info, "tasks": [{}], "simulations": simulations}, indent=2).encode()


def test_a_simulation_is_an_episode(tmp_path: Path) -> None:
    path = put(tmp_path, results(simulation(TALK), simulation([], id="s2", reward_info=None)))
    run, empty = runs(read(path))
    assert recognise(path) == "tau2"
    assert names(run) == ["book"], "the simulated user's calls are not the agent's"
    assert run.calls[0].metadata == '{"city":"Rome"}'
    assert run.usage is not None
    assert (run.usage.input, run.usage.output) == (10, 2)
    assert (run.uid, run.source, run.model) == ("tau2/episode/s1", "s1", "m-1")
    assert (run.reward, run.duration_ms, run.naive_time, run.status) == (1.0, 12346, True, "completed")
    assert run.ended_at_ms == 1754042410500
    assert (empty.empty, empty.reward, empty.usage) == (True, None, None)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("user_stop", "completed"),
        ("agent_stop", "completed"),
        (None, "completed"),
        ("max_steps", "error"),
        ("too_many_errors", "error"),
    ],
)
def test_how_it_ended_is_how_its_last_turn_did(tmp_path: Path, reason: str | None, status: str) -> None:
    path = put(tmp_path, results(simulation(TALK, termination_reason=reason)))
    assert [run.status for run in runs(read(path))] == [status]
    assert [run.status for run in runs(read(path, unit="turn"))] == ["completed", status]


def test_a_reward_of_zero_is_a_reward(tmp_path: Path) -> None:
    (run,) = runs(read(put(tmp_path, results(simulation(TALK, reward_info={"reward": 0.0})))))
    assert run.reward == 0.0


# --- tools by domain --------------------------------------------------------------------------------------


def by_domain(folder: Path) -> Path:
    lists = {
        "domains": {"air": [tool("book")], "telecom": [tool("refuel"), tool("shared")]},
        "telecom_user_tools_added_in_no_user_mode": ["toggle_wifi", "shared"],
    }
    return put(folder, lines([lists]), "tools")


def test_tools_are_those_of_the_domain_or_of_a_plain_list(tmp_path: Path) -> None:
    path = put(tmp_path, results(simulation(TALK), simulation(TALK, id="s2")))
    first, second = runs(read(path, tools_file=by_domain(tmp_path)))
    assert (offered(first), first.inventory.kind) == (["book"], "supplied")
    assert first.inventory is second.inventory
    tools_file = put(tmp_path, lines([[tool("any")]]), "list")
    assert offered(runs(read(put(tmp_path, results(simulation(TALK))), tools_file=tools_file))[0]) == ["any"]


def test_an_agent_without_a_user_has_the_user_s_tools_as_well(tmp_path: Path) -> None:
    tools_file = by_domain(tmp_path)
    alone, with_user = (
        runs(
            read(put(tmp_path, results(simulation(TALK), domain="telecom", user=user)), tools_file=tools_file)
        )
        for user in ("dummy_user", "user_simulator")
    )
    assert offered(alone[0]) == ["refuel", "shared", "toggle_wifi"]
    assert alone[0].inventory.arms[1].token_cost is not None, "the list with the schema tells the cost"
    assert offered(with_user[0]) == ["refuel", "shared"]
    assert detect(alone[0]).not_offered == ("book",)


def test_a_domain_that_is_not_listed_is_refused_by_name(tmp_path: Path) -> None:
    path = put(tmp_path, results(simulation(TALK), domain="sea"))
    with pytest.raises(
        UnreadableSource, match="must list the one of the records, 'sea', got 'air', 'telecom'"
    ):
        read(path, tools_file=by_domain(tmp_path))


def test_declared_tools_beat_supplied_ones_unless_the_agent_has_more(tmp_path: Path) -> None:
    declared = {"defined": {"doc": "..."}}
    for defined in (declared, [tool("defined")]):
        path = put(tmp_path, results(simulation(TALK), tool_defs=defined))
        (run,) = runs(read(path, tools_file=by_domain(tmp_path)))
        assert (offered(run), run.inventory.kind) == (["defined"], "declared")
    alone = put(tmp_path, results(simulation(TALK), domain="telecom", user="dummy_user", tool_defs=declared))
    (run,) = runs(read(alone, tools_file=by_domain(tmp_path)))
    assert run.inventory.kind == "supplied"


def test_without_any_list_the_file_s_calls_are_the_inventory(tmp_path: Path) -> None:
    other = simulation([a_message("user", "x"), call("cancel")], id="s2")
    short, long = (runs(read(put(tmp_path, results(*some)))) for some in ([other], [other, simulation(TALK)]))
    assert offered(short[0]) == ["cancel"]
    assert [offered(run) for run in long] == [["book", "cancel"]] * 2
    assert long[0].rank > short[0].rank


# --- hostile files ----------------------------------------------------------------------------------------


def test_a_simulation_of_another_shape_is_rejected_alone(tmp_path: Path) -> None:
    bad: list[Json] = [
        {"id": "b1"},
        simulation(TALK, duration=-1),
        simulation([call("n" * 600)]),
        {"id": "b3", "messages": [], "more": json.loads("[" * 70 + "]" * 70)},
    ]
    entries = read(put(tmp_path, results(*bad, simulation(TALK, id="good"))))
    assert [run.source for run in runs(entries)] == ["good"]
    assert [one.line for one in rejected(entries)] == [1, 2, 3, 4]
    assert "deeper" in rejected(entries)[3].reason


@pytest.mark.parametrize(
    "content",
    [
        results(simulation(TALK))[:-40],
        results(simulation(TALK)).replace(b"12.3456", b"None"),
        results(simulation(TALK)).replace(b'"air"', b"7"),
        results(simulation(TALK)).replace(b'"tasks": [', b'"tasks": [' + b"[" * 99_000),
        results(simulation(TALK)).replace(b'"m-1"', b'"\\ud800"'),
        results(simulation(TALK)).replace(b'"simulations": [', b'"simulations": 7, "rest": ['),
        results(simulation(TALK)).replace(b'"simulations"', b'"simulation"'),
    ],
)
def test_a_document_that_is_not_whole_is_refused(tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path, content)
    assert recognise(path) == "tau2"
    with pytest.raises(UnreadableSource, match="must be whole"):
        read(path)


def test_ids_that_could_not_stand_in_ours_are_hashed(tmp_path: Path) -> None:
    hostile = ["x" * 9_000, "a\x00b", "\n"]
    found = runs(read(put(tmp_path, results(*[simulation(TALK, id=id) for id in hostile]))))
    assert len({run.uid for run in found}) == 3
    assert all(run.uid.isprintable() and len(run.uid) < 100 for run in found)


def test_what_only_looks_like_results_is_not_recognised(tmp_path: Path) -> None:
    alikes: list[Json] = [{"info": {}, "simulations": []}, {"environment_info": 1}, {"simulations": []}]
    for alike in alikes:
        assert recognise(put(tmp_path, lines([alike]))) is None


def test_one_line_or_many_and_the_limit_of_a_document(tmp_path: Path) -> None:
    (compact,) = runs(read(put(tmp_path, lines([json.loads(results(simulation(TALK)))]))))
    (spread,) = runs(read(put(tmp_path, results(simulation(TALK)))))
    assert (compact.uid, names(compact), compact.usage) == (spread.uid, names(spread), spread.usage)
    with pytest.raises(UnreadableSource, match="must be at most"):
        read(put(tmp_path, results(simulation(TALK))), limits=Limits(document_bytes=300))
    assert open_sources([put(tmp_path, results())]).sources[0].unit == "episode"


# --- a folder in place of one document --------------------------------------------------------------------


def folder_of(folder: Path, *simulations: Json, index: object = None, **more: object) -> Path:
    """The folder that newer programs write, of the same simulations."""
    document = json.loads(results(domain="air"))
    del document["simulations"]
    (folder / "simulations").mkdir(parents=True)
    for one in simulations:
        put(folder / "simulations", json.dumps({**one, **more}, indent=1).encode(), f"{one['id']}.json")
    listed = [{"id": one["id"]} for one in simulations] if index is None else index
    document["simulation_index"] = listed
    put(folder, json.dumps(document, indent=1).encode(), "results.json")
    return folder


def opened_of(*paths: Path, unit: Unit | None = None) -> list[Entry]:
    with open_sources(paths, unit=unit) as opened:
        return [entry for source in opened.sources for entry in source.entries()]


@pytest.mark.parametrize("unit", ["episode", "turn"])
def test_a_folder_is_the_document_that_it_replaces_whichever_file_is_named(
    tmp_path: Path, unit: Unit
) -> None:
    some = [
        simulation(TALK, task_id=1, trial=0),
        simulation([a_message("user", "x"), call("cancel")], id="s2", task_id=2),
    ]
    folder = folder_of(tmp_path / "run", *some)
    whole = opened_of(put(tmp_path, results(*some)), unit=unit)
    named = [
        (folder,),
        (folder / "results.json",),
        (folder / "simulations" / "s2.json",),
        tuple(sorted(folder.rglob("*.json"))),
    ]
    for paths in named:
        found = opened_of(*paths, unit=unit)
        assert [one for one in found if not isinstance(one, Outside)] == [
            one for one in whole if not isinstance(one, Outside)
        ]


def test_simulations_without_a_file_and_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", simulation(TALK), index=[{"id": "s1"}, {"id": "lost"}])
    put(folder / "simulations", b'{"id": "cut', "s0.json")
    put(folder / "simulations", json.dumps(simulation(TALK, id="new")).encode(), "new.json")
    entries = opened_of(folder)
    assert sorted(run.source or "" for run in runs(entries)) == ["new", "s1"]
    assert ["lost" in one.reason for one in rejected(entries)] == [True, False]


def test_a_simulation_alone_is_refused_by_name(tmp_path: Path) -> None:
    path = put(tmp_path, json.dumps(simulation(TALK, task_id="7", tools=[tool("x")])).encode(), "a.json")
    assert recognise(path) == "tau2"
    with pytest.raises(UnreadableSource, match="single simulation of tau2"):
        read(path)


def test_a_simulation_by_voice_is_read_from_its_ticks(tmp_path: Path) -> None:
    booked = [{"id": "c", "name": "book", "arguments": {"city": "Rome"}}]
    ticks = [
        {
            "tick_id": 0,
            "timestamp": "2025-08-01T10:00:01",
            "user_chunk": {"role": "user", "content": "book it"},
        },
        {
            "tick_id": 1,
            "agent_chunk": {"role": "assistant", "contains_speech": True, "audio_content": "AAAA"},
        },
        {"tick_id": 2, "agent_tool_calls": booked, "agent_tool_results": [{"role": "tool", "content": "ok"}]},
        {"tick_id": 3, "user_tool_calls": [{"id": "u", "name": "wifi", "arguments": {}}]},
        {
            "tick_id": 4,
            "agent_chunk": {"content": "done", "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
        },
    ]
    spoken = {key: value for key, value in simulation([], ticks=ticks).items() if key != "messages"}
    path = put(tmp_path, results(spoken))
    (run,) = runs(read(path))
    assert (names(run), run.texts, run.tokens, run.prompt, run.empty) == (
        ["book"],
        ("done",),
        10,
        "book it",
        False,
    )
    assert [one.line for one in rejected(read(path, unit="turn"))] == [1]


def test_what_the_infrastructure_ended_is_broken_and_in_no_average(tmp_path: Path) -> None:
    path = put(tmp_path, results(simulation(TALK, termination_reason="infrastructure_error", task_id=3)))
    (episode,) = (one for one in read(path) if isinstance(one, Episode))
    assert (episode.broken, episode.steps[-1].name) == (True, "infrastructure_error")


def test_real_results_split_into_a_folder_are_equal(tmp_path: Path, shared_data: Path) -> None:
    source = next(path for path in sorted((shared_data / "tau2-results").glob("*airline*.gz")))
    document = json.loads(gzip.decompress(source.read_bytes()))
    simulations = document.pop("simulations")
    put(tmp_path, json.dumps(document).encode(), "results.json")
    (tmp_path / "simulations").mkdir()
    for one in simulations:
        put(tmp_path / "simulations", json.dumps(one, indent=1).encode(), f"{one['id']}.json")
    key = str
    assert sorted(opened_of(tmp_path), key=key) == sorted(opened_of(source), key=key)
