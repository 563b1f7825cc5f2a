"""ATIF trajectories: steps, tokens, copied steps, sub-agents, and Harbor's result beside them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import UnreadableSource
from core.flows.context import Context
from core.flows.importing import import_files
from core.formats import recognise
from core.formats.entries import Remark, Skipped
from core.records.episode import Episode
from core.store.check import differences
from tests.formats.agents import AGENTS
from tests.formats.builders import (
    Json,
    Session,
    lines,
    names,
    offered,
    put,
    read,
    rejected,
    runs,
    tool,
    use,
)
from tests.formats.test_bills_of_files import by_usage
from tests.worlds import context_at

REWARDS: list[tuple[dict[str, float | None] | None, float | None, dict[str, float]]] = [
    ({"reward": 0.0}, 0.0, {}),
    ({"reward": 0.5, "style": 1.0, "lost": None}, 0.5, {"style": 1.0}),
    ({"tests": 1.0}, 1.0, {"tests": 1.0}),
    ({"a": 1.0, "b": 0.0}, None, {"a": 1.0, "b": 0.0}),
    (None, None, {}),
]

OWN: Json = {"exception_type": "AgentTimeoutError"}
FOREIGN: Json = {"exception_type": "ApiRateLimitError"}
UNKNOWN: Json = {"exception_type": "ValueError"}

TOOLS = st.lists(st.sampled_from(["read", "write", "exec"]), min_size=1, max_size=4)
TRIALS = st.lists(st.tuples(TOOLS, st.sampled_from([0.0, 1.0])), min_size=1, max_size=5)

PLACES: dict[str, str] = {
    "claude-code": "sessions/projects/-app/s1.jsonl",
    "qwen-code": "sessions/projects/-app/s1.jsonl",
    "codex-cli": "sessions/2026/01/02/rollout-1.jsonl",
    "pi-session": "openclaw.session.jsonl",
    "gemini-cli": "gemini-cli.trajectory.jsonl",
    "factory-droid": "droid/s1.jsonl",
}
"""Where Harbor's agents keep their own sessions, below the folder of the trajectory."""
CODEX: list[Json] = [
    {"type": "session_meta", "payload": {"id": "s1"}},
    {"type": "event_msg", "payload": {"type": "user_message", "message": "go"}},
    {"type": "response_item", "payload": {"type": "function_call", "name": "Read", "call_id": "c"}},
]

CALLED = st.lists(st.sampled_from(["Read", "Bash", "Edit"]), min_size=1, max_size=3)

USAGES = st.tuples(st.integers(0, 900), st.integers(0, 90), st.integers(1, 9), st.integers(0, 99))
ANSWERS = st.lists(st.tuples(USAGES, st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=6)

WRITES: list[tuple[dict[str, object], int, tuple[int, int, int, int]]] = [
    ({"cache_creation_input_tokens": 300}, 1000, (300, 400, 300, 0)),
    ({"cache_write_tokens": 300}, 1000, (300, 400, 300, 0)),
    ({"cache_write_input_tokens": 300}, 410, (10, 400, 300, 0)),
    (
        {"cache_creation_tokens": 300, "cache_creation": {"ephemeral_1h_input_tokens": 200}},
        1000,
        (300, 400, 100, 200),
    ),
    ({"other": 1}, 1000, (600, 400, 0, 0)),
]


def agent(*calls: str, text: str = "", tokens: tuple[int, int, int] | None = None, **fields: object) -> Json:
    step: Json = {"source": "agent", "message": text, **fields}
    if calls:
        step["tool_calls"] = [
            {"tool_call_id": f"c{place}", "function_name": name, "arguments": {"q": place}}
            for place, name in enumerate(calls)
        ]
        step["observation"] = {
            "results": [{"source_call_id": f"c{n}", "content": "ok"} for n in range(len(calls))]
        }
    if tokens is not None:
        step["metrics"] = dict(
            zip(("prompt_tokens", "cached_tokens", "completion_tokens"), tokens, strict=True)
        )
    return step


STEPS: list[Json] = [
    {"source": "system", "message": "be brief"},
    {"source": "user", "message": [{"type": "text", "text": "go"}, {"type": "image", "source": {}}]},
    agent("read", "read", text="I look", tokens=(100, 60, 5)),
    agent("write", tokens=(200, 150, 10), model_name="mini"),
    {"source": "user", "message": "and now"},
    agent(text="done", tokens=(30, 0, 2)),
]


def trajectory(steps: list[Json] = STEPS, version: str = "1.7", **fields: object) -> Json:
    timed = [
        {"step_id": place + 1, "timestamp": f"2026-01-02T03:04:{place:02}Z", **step}
        for place, step in enumerate(steps)
    ]
    return {
        "schema_version": f"ATIF-v{version}",
        "session_id": "s1",
        "agent": {"name": "a", "version": "1", "model_name": "large"},
        "steps": timed,
        **fields,
    }


def trial(folder: Path, document: Json, **result: object) -> Path:
    """A trial's folder with a trajectory and its result."""
    (folder / "agent").mkdir(exist_ok=True)
    result = {"trial_name": "t__1", "task_name": "t", "source": "bench", **result}
    put(folder, json.dumps(result).encode(), "result.json")
    return put(folder / "agent", json.dumps(document, indent=1).encode(), "trajectory.json")


@pytest.mark.parametrize("version", ["1.2", "1.4", "1.6", "1.7", "1.12"])
def test_a_trajectory_is_a_run(tmp_path: Path, version: str) -> None:
    path = put(tmp_path, json.dumps(trajectory(version=version)).encode())
    (run,) = runs(read(path))
    assert recognise(path) == "atif"
    assert (names(run), run.texts, run.prompt, run.model) == (
        ["read", "read", "write"],
        ("I look", "done"),
        "go",
        "mini",
    )
    assert run.usage is not None
    assert (run.usage.input, run.usage.cache_read, run.usage.output, run.tokens) == (120, 210, 17, 347)
    assert {row.model: row.tokens for row in run.bill} == {"large": 137, "mini": 210}
    assert (run.uid[:16], run.session, run.duration_ms) == ("atif/episode/s1/", "s1", 5000)
    assert (offered(run), run.inventory.kind) == (["read", "write"], "inferred")
    first, second = runs(read(path, unit="turn"))
    assert (names(first), names(second), first.usage, second.reply) == (
        ["read", "read", "write"],
        [],
        None,
        "done",
    )


def test_declared_tools_are_the_inventory(tmp_path: Path) -> None:
    declared = {"name": "a", "tool_definitions": [tool("read"), tool("never")]}
    (run,) = runs(read(put(tmp_path, json.dumps(trajectory(agent=declared)).encode())))
    assert (offered(run), run.inventory.kind) == (["read", "never"], "declared")


def test_copied_steps_and_steps_without_a_model_are_not_the_agent_s(tmp_path: Path) -> None:
    steps: list[Json] = [
        *({**step, "is_copied_context": True} for step in STEPS),
        {"source": "user", "message": "more"},
        agent("setup", llm_call_count=0),
        agent("x", tokens=(7, 0, 1)),
    ]
    (run,) = runs(read(put(tmp_path, json.dumps(trajectory(steps)).encode())))
    assert (names(run), run.prompt, run.tokens) == (["x"], "more", 8)


def test_tokens_of_sub_agents_are_in_the_bill_alone(tmp_path: Path) -> None:
    inner = trajectory(
        [agent("grep", tokens=(1000, 0, 50))], session_id="s2", subagent_trajectories=[trajectory()]
    )
    (run,) = runs(read(put(tmp_path, json.dumps(trajectory(subagent_trajectories=[inner])).encode())))
    assert (names(run), run.tokens) == (["read", "read", "write"], 347)
    assert sum(row.tokens for row in run.bill if row.owner == "sub-agent") == 1050 + 347


def test_metrics_of_the_whole_count_where_no_step_has_any(tmp_path: Path) -> None:
    totals = {"total_prompt_tokens": 90, "total_cached_tokens": 40, "total_completion_tokens": 9}
    bare: list[Json] = [{key: value for key, value in step.items() if key != "metrics"} for step in STEPS]
    for steps, tokens in ((bare, 99), (STEPS, 347)):
        (run,) = runs(read(put(tmp_path, json.dumps(trajectory(steps, final_metrics=totals)).encode())))
        assert run.tokens == tokens


@pytest.mark.parametrize(("rewards", "reward", "parts"), REWARDS)
def test_the_result_beside_a_trajectory_makes_its_episode(
    tmp_path: Path, rewards: object, reward: float | None, parts: dict[str, float]
) -> None:
    found = read(trial(tmp_path, trajectory(), verifier_result=rewards and {"rewards": rewards}))
    (episode,) = (one for one in found if isinstance(one, Episode))
    assert (episode.task, episode.environment, episode.broken) == ("t", "atif/bench", False)
    assert {part.name: part.value for part in episode.parts} == parts
    assert (episode.steps[-1].reward, [step.answered for step in episode.steps[:-1]]) == (reward, ["ok"] * 3)
    assert runs(found)[0].reward == reward


@pytest.mark.parametrize("rewards", [None, {}, {"reward": None}, {"reward": 0.5}, {"a": 1.0, "b": 0.0}])
@pytest.mark.parametrize(
    ("exception", "counts"),
    [
        (OWN, True),
        (UNKNOWN, True),
        (FOREIGN, False),
        (OWN | {"policy": {"has_valid_reward": False}}, False),
        (FOREIGN | {"policy": {"has_valid_reward": True}}, True),
        (FOREIGN | {"policy": "x"}, False),
    ],
)
@pytest.mark.parametrize("at_step", [False, True])
def test_an_exception_breaks_the_episode_where_harbor_counts_no_reward(
    tmp_path: Path, rewards: Json | None, exception: Json, counts: bool, at_step: bool
) -> None:
    raised = {"step_results": [{"exception_info": exception}]} if at_step else {"exception_info": exception}
    found = read(trial(tmp_path, trajectory(), verifier_result=rewards and {"rewards": rewards}, **raised))
    (episode,) = (one for one in found if isinstance(one, Episode))
    is_broken = not counts or all(value is None for value in (rewards or {}).values())
    assert (episode.broken, runs(found)[0].status) == (is_broken, "error")
    assert episode.steps[-1].name == (exception["exception_type"] if is_broken else "")
    divided = [one.text for one in found if isinstance(one, Remark) and "none of the whole" in one.text]
    assert len(divided) == (len(rewards or {}) > 1 and not is_broken)


def test_another_result_beside_it_is_none(tmp_path: Path) -> None:
    path = trial(tmp_path, trajectory())
    put(tmp_path, b'{"score": 1}', "result.json")
    assert [one for one in read(path) if isinstance(one, Episode)] == []
    put(tmp_path, b'{"trial_name": ', "result.json")
    with pytest.raises(UnreadableSource, match="must be its result"):
        read(path)


HOSTILE = {
    "another version": trajectory(version="2.0"),
    "no steps": {**trajectory(), "steps": None},
    "a call without a name": trajectory([{"source": "agent", "tool_calls": [{}]}]),
    "a call in a source of an unknown kind": trajectory(
        [{"source": "user", "message": "x"}, {**agent("x"), "source": "m"}]
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_document_of_another_shape_is_refused(tmp_path: Path, what: str) -> None:
    entries = read(put(tmp_path, json.dumps(HOSTILE[what]).encode()))
    assert (runs(entries), len(rejected(entries))) == ([], 1)


# --- trials of Harbor -------------------------------------------------------------------------------------


def job(folder: Path, trials: Sequence[tuple[Sequence[str], float]], **fields: object) -> Path:
    """A job whose agent has one session id in all trials, and the same first prompt without a time."""
    for number, (calls, reward) in enumerate(trials):
        steps = [{"source": "user", "message": "go"}, *(agent(name) for name in calls)]
        document: Json = {"schema_version": "ATIF-v1.2", "session_id": "harbor", "steps": steps}
        path = folder / f"T{number}__x"
        path.mkdir(parents=True)
        rewards = {"rewards": {"reward": reward}}
        trial(path, document, trial_name=path.name, verifier_result=rewards, **fields)
    return folder


def packed(folder: Path, kind: str) -> Path:
    return Path(shutil.make_archive(str(folder.parent / kind), kind, folder.parent, folder.name))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TRIALS, st.sampled_from(["folder", "tar", "zip", "one by one"]))
def test_trials_are_as_many_as_there_are(
    tmp_path_factory: pytest.TempPathFactory, trials: list[tuple[list[str], float]], way: str
) -> None:
    folder = tmp_path_factory.mktemp("job")
    whole = job(folder / "job", trials)
    paths = sorted(whole.iterdir()) if way == "one by one" else [whole]
    context = context_at(folder / "a.db")
    answers = [import_files(context, [packed(one, way) if way in {"tar", "zip"} else one]) for one in paths]
    assert sum(one.runs for one in answers) == sum(one.episodes for one in answers) == len(trials)
    assert not any(one.ignored or one.duplicates or one.updated for one in answers)
    found = [one for path in paths for one in read(path)]
    assert Counter(tuple(names(run)) for run in runs(found)) == Counter(tuple(calls) for calls, _ in trials)
    paid = [one.steps[-1].reward for one in found if isinstance(one, Episode)]
    assert paid == [reward for _, reward in trials]
    assert import_files(context, [whole]).id is None
    with context.store.reading(context.learner) as snapshot:
        assert list(differences(snapshot)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["go", "stop"]), TOOLS, st.sampled_from("ab")), unique_by=str, max_size=5
    )
)
def test_trajectories_with_one_id_and_other_beginnings_are_as_many(
    histories: list[tuple[str, list[str], str]],
) -> None:
    """The prompt, the first call and the times decide; a longer state of a trajectory is the same run."""
    with TemporaryDirectory() as folder:
        uids = []
        for number, (prompt, calls, day) in enumerate(histories):
            steps: list[Json] = [{"source": "user", "message": prompt}, *(agent(name) for name in calls)]
            timed: list[Json] = [
                {**step, "timestamp": f"2026-01-0{1 + 'ab'.index(day)}T00:00:00Z"} for step in steps
            ]
            states = [timed, [*timed, agent("more", timestamp="2026-01-09T00:00:00Z")]]
            documents = [json.dumps({**trajectory(one), "session_id": "harbor"}) for one in states]
            found = [
                runs(read(put(Path(folder), one.encode(), f"{number}-{place}")))[0].uid
                for place, one in enumerate(documents)
            ]
            assert found[0] == found[1]
            uids.append(found[0])
    assert len({*uids}) == len({(prompt, calls[0], day) for prompt, calls, day in histories})


def test_one_trial_of_two_jobs_is_two(tmp_path: Path) -> None:
    jobs = [
        job(tmp_path / name, [(["read"], 1.0)], config={"job_id": name, "trials_dir": "jobs/x"})
        for name in ("a", "b")
    ]
    assert len({run.uid for run in runs(read(*jobs))}) == 2
    jobs = [job(tmp_path / f"x{n}", [(["read"], 1.0)], config={"trials_dir": f"jobs/{n}"}) for n in "cd"]
    assert len({run.uid for run in runs(read(*jobs))}) == 2


def test_each_step_of_a_trial_has_its_own_reward(tmp_path: Path) -> None:
    found = [
        {"step_name": name, "verifier_result": {"rewards": {"reward": n}}} for n, name in enumerate("ab")
    ]
    put(
        tmp_path,
        json.dumps({"trial_name": "t", "task_name": "k", "step_results": found}).encode(),
        "result.json",
    )
    for name in "ab":
        folder = tmp_path / "steps" / name / "agent"
        folder.mkdir(parents=True)
        put(folder, json.dumps(trajectory()).encode(), "trajectory.json")
    episodes = [one for one in read(tmp_path) if isinstance(one, Episode)]
    assert [(one.task, one.steps[-1].reward) for one in episodes] == [("k/a", 0.0), ("k/b", 1.0)]
    assert len({one.uid for one in episodes}) == 2


def own_session(format: str) -> bytes:
    return lines(CODEX if format == "codex-cli" else AGENTS[format](1, [["Read"]]))


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
@pytest.mark.parametrize("format", ["atif", *PLACES])
def test_a_simulated_user_s_files_hold_no_run(tmp_path: Path, format: str, kind: str) -> None:
    whole = job(tmp_path / "job", [(["write"], 1.0)])
    (folder,) = whole.iterdir()
    other = folder / "user-agent" / PLACES.get(format, "trajectory.json")
    other.parent.mkdir(parents=True)
    document = json.dumps(trajectory([agent("Read")])).encode()
    other.write_bytes(document if format == "atif" else own_session(format))
    context = context_at(tmp_path / "a.db")
    answer = import_files(context, [whole if kind == "folder" else packed(whole, kind)])
    assert [one.reason[:22] for one in answer.ignored] == ["A simulated user's fil"]
    assert (answer.runs, answer.episodes, [names(run) for run in runs(read(whole))]) == (1, 1, [["write"]])
    with pytest.raises(UnreadableSource, match="holds no runs"):
        import_files(context, [other])
    elsewhere = tmp_path / "packages" / "user-agent" / other.name
    (tmp_path / "packages" / "agent").mkdir(parents=True)
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(other.read_bytes())
    assert len(runs(read(elsewhere))) == 1, "a folder of this name, and no trial"


@pytest.mark.parametrize("format", PLACES)
@pytest.mark.parametrize("order", list(permutations(["trajectory", "session", "folder"])))
def test_a_trajectory_and_the_agent_s_own_session_are_one_run(
    context: Context, tmp_path: Path, format: str, order: Sequence[str]
) -> None:
    folder = tmp_path / "t__1"
    folder.mkdir()
    rewards = {"rewards": {"reward": 1.0}}
    steps: list[Json] = [{"source": "user", "message": "go"}, agent("Read", tokens=(100, 0, 10))]
    document = trial(folder, trajectory(steps), verifier_result=rewards)
    session = document.parent / PLACES[format]
    session.parent.mkdir(parents=True, exist_ok=True)
    session.write_bytes(own_session(format))
    alone = runs(read(session))
    assert (recognise(session), len(alone), names(alone[0])) == (format, 1, ["Read"])
    places = {"trajectory": document, "session": session, "folder": folder}
    answers = [import_files(context, [places[name]]) for name in order]
    assert sum(one.runs - one.duplicates - one.updated for one in answers) == 1
    assert sum(one.episodes - one.episode_duplicates for one in answers) == 1
    left_out = [one.file for answer in answers for one in answer.ignored]
    assert left_out == [str(document)] * (len(order) - 1)
    (episode,) = (one for one in read(folder) if isinstance(one, Episode))
    assert (episode.runs, episode.steps[-1].reward) == ((alone[0].uid,), 1.0)
    archive = read(packed(folder, "tar"))
    assert [run.uid for run in runs(archive)] == [alone[0].uid]
    with context.store.reading(context.learner) as snapshot:
        assert list(differences(snapshot)) == []


@given(CALLED, CALLED, st.sampled_from(["s1", "zz"]))
def test_a_session_below_a_trial_has_its_reward_only_as_its_work(
    calls: list[str], others: list[str], session: str
) -> None:
    """A session of the trajectory's id has no fewer calls. Another has its calls, in their order."""
    own = Session(session).prompt("go")
    for number, name in enumerate(others):
        own.reply(use(name, f"c{number}"), id=f"m{number}")
    is_same = (
        len(others) >= len(calls) if session == "s1" else tuple(calls) in combinations(others, len(calls))
    )
    with TemporaryDirectory() as folder:
        document = trajectory([STEPS[1], agent(*calls)])
        path = trial(Path(folder), document, verifier_result={"rewards": {"reward": 1.0}})
        (path.parent / "workspace").mkdir()
        put(path.parent / "workspace", own.bytes(), "old.jsonl")
        found = read(Path(folder))
        answer = import_files(context_at(Path(folder) / "a.db"), [Path(folder)])
    (episode,) = (one for one in found if isinstance(one, Episode))
    (paid,) = (run for run in runs(found) if run.uid in episode.runs)
    assert (paid.format, names(paid)) == (("claude-code", others) if is_same else ("atif", calls))
    n_counted = 0 if is_same else 2 if session == "s1" else 1
    notes = [note.split()[0] for note in answer.notes if "may count twice" in note]
    assert (answer.runs, notes) == (2 - is_same, [str(n_counted)] * (not is_same))


def test_a_session_without_an_answer_does_not_replace_a_trajectory(tmp_path: Path) -> None:
    path = trial(tmp_path, trajectory())
    put(path.parent, Session().prompt("go").bytes(), "s1.jsonl")
    assert [run.format for run in runs(read(tmp_path)) if not run.empty] == ["atif"]


# --- usage ------------------------------------------------------------------------------------------------


@given(ANSWERS)
def test_the_usage_of_an_answer_counts_once_at_its_owner(
    answers: list[tuple[tuple[int, int, int, int], int, bool, bool]],
) -> None:
    """An answer is one to three steps; a sub-agent may have given it, and a prompt may be before it."""
    steps: list[Json] = []
    bill: Counter[tuple[str, str]] = Counter()
    n_repeats, last = 0, dict[bool, object]()
    for usage, n_steps, is_sidechain, has_prompt in answers:
        if has_prompt:
            steps.append({"source": "user", "message": "more"})
            last.pop(False, None)
        fresh, cached, written, output = usage
        extra = {"cache_creation_input_tokens": written}
        metrics = {
            "prompt_tokens": fresh + cached + written,
            "cached_tokens": cached,
            "completion_tokens": output,
            "extra": extra,
        }
        is_same = last.get(is_sidechain) == metrics
        last[is_sidechain] = metrics
        n_repeats += n_steps - (not is_same)
        owner = "sub-agent" if is_sidechain else "agent"
        if not is_same:
            for part, count in zip(("input", "cache_read", "cache_write_5m", "output"), usage, strict=True):
                bill[owner, part] += count
        name = "theirs" if is_sidechain else "own"
        steps += [agent(name, metrics=metrics, extra={"is_sidechain": is_sidechain})] * n_steps
    with TemporaryDirectory() as folder:
        entries = read(put(Path(folder), json.dumps(trajectory(steps)).encode()))
    found = Counter[tuple[str, str]]()
    for run in runs(entries):
        assert "theirs" not in names(run)
        for row in run.bill or by_usage(run):
            for part in ("input", "cache_read", "cache_write_5m", "output"):
                found[row.owner, part] += getattr(row, part)
    assert +found == +bill
    remarks = [one.text for one in entries if isinstance(one, Remark)]
    assert [int(one.split()[0]) for one in remarks if "step before" in one] == [n_repeats] * bool(n_repeats)


@pytest.mark.parametrize(("extra", "prompt", "parts"), WRITES)
def test_cache_writes_are_read_in_the_input_or_beside_it(
    tmp_path: Path, extra: dict[str, object], prompt: int, parts: tuple[int, int, int, int]
) -> None:
    metrics = {"prompt_tokens": prompt, "cached_tokens": 400, "completion_tokens": 50, "extra": extra}
    document = trajectory([{"source": "user", "message": "go"}, agent("x", metrics=metrics)])
    (run,) = runs(read(put(tmp_path, json.dumps(document).encode())))
    (row,) = run.bill or by_usage(run)
    assert (row.input, row.cache_read, row.cache_write_5m, row.cache_write_1h) == parts
    assert (row.output, run.tokens) == (50, sum(parts) + 50)


def test_a_sub_agent_s_file_is_in_the_bill_of_the_trajectory_that_refers_to_it(tmp_path: Path) -> None:
    ref = {"session_id": "s1-sub", "trajectory_path": "trajectory.sub.json"}
    steps: list[Json] = [
        {"source": "user", "message": "go"},
        {
            "source": "system",
            "message": "x",
            "observation": {"results": [{"subagent_trajectory_ref": [ref]}]},
        },
        agent("read", tokens=(10, 0, 1)),
    ]
    child = trajectory(
        [agent("grep", tokens=(1000, 0, 50))],
        session_id="s1-sub",
        agent={"name": "sub", "extra": {"parent_session_id": "s1"}},
    )
    put(tmp_path, json.dumps(trajectory(steps)).encode(), "trajectory.json")
    path = put(tmp_path, json.dumps(child).encode(), "trajectory.sub.json")
    entries = read(tmp_path)
    (run,) = runs(entries)
    assert (names(run), run.tokens, {row.owner: row.tokens for row in run.bill}) == (
        ["read"],
        11,
        {"agent": 11, "sub-agent": 1050},
    )
    assert [one.file for one in entries if isinstance(one, Skipped)] == [str(path)]


def test_a_trajectory_apart_from_the_session_of_its_id_is_the_same_run_or_counted(tmp_path: Path) -> None:
    """In one import, or after the session; before it, or with other calls, the answer counts the session's runs."""
    session = put(tmp_path, lines(AGENTS["claude-code"](1, [["Read"], ["Bash"]])), "session")
    same, other = (
        put(tmp_path, json.dumps(trajectory([STEPS[1], agent(*calls)], session_id="s1")).encode(), name)
        for name, calls in (("same", ["Read", "Bash"]), ("other", ["Read"] * 3))
    )
    for paths, n_runs, n_counted in (
        ([[same, session]], 2, 0),
        ([[same], [session]], 3, 2),
        ([[session], [other]], 3, 1),
        ([[other, session]], 3, 3),
    ):
        context = context_at(tmp_path / f"{len(list(tmp_path.iterdir()))}.db")
        answers = [import_files(context, one) for one in paths]
        counted = [note for note in answers[-1].notes if "may count twice" in note]
        assert sum(one.runs for one in answers) == n_runs
        assert [int(note.split()[0]) for note in counted] == [n_counted] * bool(n_counted)
        assert len(answers[-1].ignored) == (not n_counted)
    context = context_at(tmp_path / "after.db")
    import_files(context, [session])
    with pytest.raises(UnreadableSource, match="the same work as the agent's own session"):
        import_files(context, [same])
