"""Two states of one record: the later one by the source's own order is in force, in any order and split of files."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace as with_fields
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.export import lines
from core.flows.importing import import_files
from core.flows.maintenance import backup
from core.flows.restore import restore
from core.formats import Rejected, open_sources
from core.records.episode import Episode
from core.records.import_answer import ImportAnswer
from core.records.ledger_lines import RunLine
from core.records.run import FIRST, Rollout, Run, sampled
from core.store.subjects import layer_lines
from tests.formats.builders import Json, put, reply, tool
from tests.formats.builders import lines as json_lines
from tests.formats.test_inspect_log import archive, log, sample
from tests.formats.test_tau2 import TALK, results, simulation
from tests.worlds import IN_PARTS, START_MS, context_at
from tests.worlds.history import described

REWARDS: Final = (0.0, 1.0, 0.5)
"""Rewards of the first, the second and the third state."""
Made = Callable[[int, str], bytes]
"""Makes a file that holds a state of a record, by the number of the state and the uid."""


def _own(number: int, uid: str, **fields: object) -> bytes:
    return json_lines([{"kind": "episode", "uid": uid, "environment": "v", "format": "f", **fields}])


def _run(number: int, uid: str, **fields: object) -> bytes:
    arms = ["tool:a:x", f"tool:a:x{number}"]
    one = {"kind": "run", "uid": uid, "arms": arms, "calls": arms[1:], "reward": REWARDS[number], **fields}
    return json_lines([one])


def _step(number: int, **fields: object) -> Json:
    return {"number": 0, "reward": REWARDS[number], **fields}


def _sample(number: int, uid: str, **fields: object) -> Json:
    value = {0.0: "I", 1.0: "C", 0.5: "P"}[REWARDS[number]]
    return sample(uid, scores={"match": {"value": value}}, completed_at="2026-01-01T00:00:00Z", **fields)


def _edited(number: int, uid: str) -> Json:
    made = _sample(number, uid)
    edits = [
        {"value": "x", "provenance": {"timestamp": f"2026-01-0{n + 2}T00:00:00Z"}} for n in range(number)
    ]
    return {**made, "scores": {"match": {**made["scores"]["match"], "history": edits}}}  # type: ignore[index]


def _scored(number: int, uid: str) -> Json:
    """A sample that was scored again: an event of each scoring."""
    return _sample(number, uid, events=[{"event": "score"}] * (number + 1))


ORDERED: Final[dict[str, Made]] = {
    "own, by the time of the step": lambda n, uid: _own(n, uid, steps=[_step(n, at_ms=START_MS + n)]),
    "own, by the time of the episode": lambda n, uid: _own(n, uid, at_ms=START_MS + n, steps=[_step(n)]),
    "own, by rank": lambda n, uid: _own(n, uid, rank=n + 1, steps=[_step(n)]),
    "own, by the number of parts": lambda n, uid: _own(
        n, uid, steps=[_step(n)], parts=[{"name": f"p{at}", "value": 1.0} for at in range(n)]
    ),
    "own, broken before": lambda n, uid: _own(
        n, uid, broken=n == 0, at_ms=START_MS + max(n, 1), steps=[_step(n)]
    ),
    "own run, by its time": lambda n, uid: _run(n, uid, ended_at_ms=START_MS + n),
    "own run, by its bill": lambda n, uid: _run(
        n, uid, usage={"tokens": 9}, bill=[{"owner": "sub-agent", "model": "m", "input": n + 1}]
    ),
    "own run, by rank": lambda n, uid: _run(n, uid, rank=n),
    "inspect, by the time of the sample": lambda n, uid: log(
        {**_sample(n, uid), "completed_at": f"2026-01-0{n + 1}T00:00:00Z"}
    ),
    "inspect, by edits": lambda n, uid: log(_edited(n, uid)),
    "inspect, by scorings": lambda n, uid: log(_scored(n, uid)),
    "inspect, an archive": lambda n, uid: archive(_scored(n, uid)),
    "tau2, by the time of its end": lambda n, uid: results(
        simulation(TALK, uid, end_time=f"2025-08-01T1{n}:00:00", reward_info={"reward": REWARDS[n]})
    ),
}


def _rewards(context: Context) -> list[float | None]:
    """Return the rewards in force: of episodes, else of runs, which must agree."""
    episodes, runs = [one.total for one in _held(context)], [line.run.reward for line in _runs(context)]
    assert not episodes or not runs or episodes == runs
    return episodes or runs


def _held(context: Context) -> list[Episode]:
    with context.reading() as snapshot:
        return [line for line in lines(snapshot) if isinstance(line, Episode)]


def _runs(context: Context) -> list[RunLine]:
    with context.reading() as snapshot:
        return [line for line in lines(snapshot) if isinstance(line, RunLine)]


def _import(context: Context, *files: Path, replace: bool = False) -> ImportAnswer:
    answer = import_files(context, files, replace=replace)
    assert queries.verify(context).clean
    _adds_up(answer)
    return answer


def _adds_up(answer: ImportAnswer) -> None:
    assert answer.runs == answer.observed + answer.skipped
    assert min(answer.new_runs, answer.new_episodes) >= 0
    assert answer.new_runs + answer.duplicates + answer.updated + answer.left_out_runs == answer.runs
    parts = (
        answer.new_episodes,
        answer.episode_duplicates,
        answer.episodes_updated,
        answer.left_out_episodes,
    )
    assert sum(parts) == answer.episodes


@settings(max_examples=20)
@given(
    made=st.sampled_from(sorted(ORDERED)),
    order=st.permutations(range(3)),
    cuts=st.sets(st.integers(1, 2)),
    n_first=st.integers(1, 3),
    in_parts=st.booleans(),
)
def test_the_later_state_is_in_force_in_any_order_and_split(
    made: str, order: Sequence[int], cuts: set[int], n_first: int, *, in_parts: bool
) -> None:
    with TemporaryDirectory() as folder:
        context, files = context_at(Path(folder) / "a.db"), []
        context = with_fields(context, pace=IN_PARTS) if in_parts else context
        for number in order:
            contents = [ORDERED[made](number, f"e{at}") for at in range(n_first)]
            files.append([put(Path(folder), one, f"{number}-{at}") for at, one in enumerate(contents)])
        bounds = [0, *sorted(cuts), 3]
        answers = [
            _import(context, *itertools.chain.from_iterable(files[start:end]))
            for start, end in itertools.pairwise(bounds)
        ]
        assert _rewards(context) == [REWARDS[2]] * n_first
        assert sum(answer.left_out for answer in answers) == 0, "the source orders its states"
        again = _import(context, *itertools.chain.from_iterable(files))
        assert (again.id, again.new_runs, again.new_episodes) == (None, 0, 0)
        if len(answers) > 1 and answers[-1].id is not None:
            undo(context, answers[-1].id)
            assert _rewards(context) == [REWARDS[max(order[: bounds[-2]])]] * n_first
            redo(context, answers[-1].id)
            assert _rewards(context) == [REWARDS[2]] * n_first
            assert queries.verify(context).clean


UNORDERED: Final[dict[str, Made]] = {
    "own": lambda n, uid: _own(n, uid, steps=[_step(n)]),
    "own, longer but otherwise": lambda n, uid: _own(
        n, uid, steps=[_step(n), *({"number": at + 1} for at in range(n))]
    ),
    "own run": _run,
    "inspect": lambda n, uid: log(_sample(n, uid)),
    "tau2": lambda n, uid: results(simulation(TALK, uid, reward_info={"reward": REWARDS[n]})),
}


@pytest.mark.parametrize("made", UNORDERED)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("at_once", [False, True])
def test_without_an_order_the_first_stays_and_replace_takes_the_other(
    context: Context, tmp_path: Path, made: str, order: tuple[int, int], *, at_once: bool
) -> None:
    first, second = (put(tmp_path, UNORDERED[made](number, "e"), str(number)) for number in order)
    if at_once:
        answer = _import(context, first, second)
    else:
        _import(context, first)
        answer = _import(context, second)
        assert answer.id is None
    assert _rewards(context) == [REWARDS[order[0]]]
    known = {one.uid for one in _held(context)} | {line.run.uid for line in _runs(context)}
    assert answer.left_out == len(known)
    assert {*answer.left_out_names} == known
    assert "1 record" in str(answer.left_out_words) or "2 records" in str(answer.left_out_words)
    taken = _import(context, second, replace=True)
    assert (taken.episodes_updated + taken.updated, taken.left_out) == (len(known), 0)
    assert _rewards(context) == [REWARDS[order[1]]]
    assert _import(context, first).left_out == len(known), "what a person took stays"
    restored = context_at(tmp_path / "b.db")
    backup(context, tmp_path / "backup.db")
    restore(restored.store.location, tmp_path / "backup.db")
    assert _rewards(context_at(tmp_path / "b.db")) == [REWARDS[order[1]]]
    undo(context, taken.id)
    assert queries.verify(context).clean
    assert _rewards(context) == [REWARDS[order[0]]]
    redo(context, taken.id)
    assert queries.verify(context).clean
    assert _rewards(context) == [REWARDS[order[1]]]


@pytest.mark.parametrize("kind", UNORDERED)
def test_a_file_that_comes_again_changes_nothing_where_its_state_was_left_out(
    context: Context, tmp_path: Path, kind: str
) -> None:
    """Also while the state that came first is undone, and after it is in force again."""
    first = _import(context, put(tmp_path, UNORDERED[kind](0, "e"), "0"))
    files = [put(tmp_path, UNORDERED[kind](1, uid), uid) for uid in "ef"]
    assert _import(context, *files).left_out > 0
    for change, rewards in ((undo, [1, 1]), (redo, [0, 1])):
        change(context, first.id)
        assert _import(context, *files).id is None
        assert _rewards(context) == [REWARDS[number] for number in rewards]


def _priced(number: int, label: str) -> bytes:
    """Lines of armscope: an arm, a layer, and a run whose prompt gives the arm another cost."""
    arm: Json = {"key": "tool:a:x", "token_cost": 9 * number, "label": label}
    run = {"kind": "run", "uid": f"r{number}", "arms": [{**arm, "token_cost": number}], "calls": ["x"]}
    layer = {"kind": "layer", "uid": "tool:a:x/layer", "label": label}
    return json_lines([{"kind": "arm", **arm}, layer, run])


def _event(text: str) -> Json:
    return {"event": "model", "tools": [{"name": "go", "description": text, "parameters": {}}]}


PRICED: Final[dict[str, Callable[[int, str], bytes]]] = {
    "own": _priced,
    "inspect": lambda n, text: log(sample(str(n), events=[_event(text)])),
    "chat": lambda n, text: json_lines(
        [{"messages": [{"role": "user", "content": f"{n}"}, reply("ok", "go")], "tools": [tool("go", text)]}]
    ),
}
"""Files of a record each, of which all name one arm, with a cost by the length of a text."""


@settings(max_examples=12)
@given(
    made=st.sampled_from(sorted(PRICED)),
    texts=st.lists(st.sampled_from(["", "a" * 40, "b" * 80]), min_size=2, max_size=4),
    n_first=st.integers(1, 2),
    again=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=3),
    in_parts=st.booleans(),
)
def test_files_that_come_again_in_any_order_change_nothing(
    made: str, texts: list[str], n_first: int, again: list[set[int]], *, in_parts: bool
) -> None:
    """Also of costs: an undone import leaves those before it, and of several lines of one act the last counts."""
    n_first = 1 if made == "own" else n_first
    with TemporaryDirectory() as folder:
        context = context_at(Path(folder) / "a.db")
        context = with_fields(context, pace=IN_PARTS) if in_parts else context
        files = [put(Path(folder), PRICED[made](n, text), f"{n}.json") for n, text in enumerate(texts, 1)]
        acts, states = list[str | None](), list[object]()
        for at in [files[:n_first], *([one] for one in files[n_first:])]:
            states.append(_known(context))
            acts.append(_import(context, *at).id)
        known, head = _known(context), queries.status(context).head
        for picked in again:
            answer = _import(context, *[files[n % len(files)] for n in picked])
            assert (answer.id, answer.new_runs) == (None, 0)
            assert (_known(context), queries.status(context).head) == (known, head)
        for act, state in zip(reversed(acts), reversed(states), strict=True):
            undo(context, act)
            assert _known(context) == state
        for act in acts:
            redo(context, act)
        assert _known(context) == known


def _known(context: Context) -> object:
    with context.reading() as snapshot:
        layers = list(layer_lines(snapshot))
    return (
        described(context),
        layers,
        [(one.arm, one.alpha, one.pulls) for one in queries.posteriors(context)],
    )


def _rollouts(folder: Path, name: str, *made: Json, **metadata: object) -> Path:
    (folder / name).mkdir()
    (folder / name / "metadata.json").write_bytes(json_lines([metadata]))
    return put(folder / name, json_lines(made), "results.jsonl")


def _rollout(task: int, reward: object, **fields: object) -> Json:
    prompt, completion = ([{"role": role, "content": "x"}] for role in ("user", "assistant"))
    return {"example_id": task, "prompt": prompt, "completion": completion, "reward": reward} | fields


def test_equal_lines_of_two_models_are_two_and_one_file_twice_is_one(
    context: Context, tmp_path: Path
) -> None:
    lines_of = [_rollout(1, 1.0), _rollout(1, 1.0), _rollout(2, 0.0)]
    files = [
        _rollouts(tmp_path, f"{env}-{model}", *lines_of, env_id=env, model=model, avg_reward=float("nan"))
        for env in ("a", "b")
        for model in ("m1", "m2")
    ]
    _import(context, *files)
    found = [(one.environment, one.model) for one in _held(context)]
    assert sorted(found) == sorted(
        3 * [(f"verifiers/{env}", model) for env in "ab" for model in ("m1", "m2")]
    )
    assert _import(context, *files).id is None


def _played_rollout(task: int, tool: str, text: str, *, failed: bool, empty: bool) -> Json:
    """A rollout that called a tool, or one that failed, perhaps before its first answer."""
    call = {"id": "1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    completion = [] if failed and empty else [{"role": "assistant", "content": text, "tool_calls": [call]}]
    ended: dict[str, object] = {"error": {"error": "ModelError", "text": text}} if failed else {}
    return _rollout(task, 0.0 if failed else 1.0, **{"completion": completion, **ended})


@st.composite
def _resumed(draw: st.DrawFn, name: str) -> list[list[Json]]:
    """States of an evaluation: later ones do failed rollouts again, after a good one that shows which it is."""
    n_tasks, n_each = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    places = [(task, at) for task in range(n_tasks) for at in range(n_each)]
    flags = st.lists(st.booleans(), min_size=len(places), max_size=len(places))
    failed, empty = [False, *draw(flags)[1:]], draw(flags)
    version, states = [0] * len(places), list[list[Json]]()
    for stage in range(draw(st.integers(1, 3))):
        again = (
            [was and one for was, one in zip(failed, draw(flags), strict=True)]
            if stage
            else [False] * len(places)
        )
        version = [stage if one else known for one, known in zip(again, version, strict=True)]
        now = [one and fails for one, fails in zip(again, draw(flags), strict=True)]
        failed = [one if redone else was for one, redone, was in zip(now, again, failed, strict=True)]
        made = [
            _played_rollout(
                task,
                "bad" if failed[n] else "good",
                f"{name}{n}.{version[n]}",
                failed=failed[n],
                empty=empty[n],
            )
            for n, (task, _) in enumerate(places)
        ]
        states.append(draw(st.permutations(made)))
    return states


def _apart() -> list[list[Json]]:
    """States of an evaluation of which two rollouts of one task are done again one after the other."""
    return [
        [
            _played_rollout(0, "bad" if "!" in text else "good", text, failed="!" in text, empty=False)
            for text in made
        ]
        for made in (("a", "b!", "c!"), ("a", "b!", "c!!"), ("c!!", "b", "a"))
    ]


@settings(max_examples=60)
@example(evaluations=(_apart(),), order=Random(5), calls=3, in_parts=False)
@example(evaluations=(_apart(),), order=Random(5), calls=2, in_parts=False)
@given(
    evaluations=st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).flatmap(
        lambda names: st.tuples(*map(_resumed, names))
    ),
    order=st.randoms(use_true_random=False),
    calls=st.integers(1, 3),
    in_parts=st.booleans(),
)
def test_a_resumed_evaluation_replaces_its_failed_rollouts(
    evaluations: tuple[list[list[Json]], ...], order: Random, calls: int, *, in_parts: bool
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        context = context_at(folder / "a.db")
        context = with_fields(context, pace=IN_PARTS) if in_parts else context
        files = [
            _rollouts(folder, f"{at}-{stage}", *made, env_id="v", model="m")
            for at, states in enumerate(evaluations)
            for stage, made in enumerate(states)
        ]
        order.shuffle(files)
        answers = [_import(context, *files[at::calls]) for at in range(calls) if files[at::calls]]
        last = [line for states in evaluations for line in states[-1]]
        held = _held(context)
        assert len(held) == len(last)
        assert sum(one.broken for one in held) == sum("error" in line for line in last)
        observed = Counter(line.run.status for line in _runs(context) if line.outcome != "empty")
        assert observed["completed"] == sum("error" not in line for line in last)
        assert observed["error"] <= sum("error" in line for line in last)
        assert _import(context, *files).id is None
        if answers[-1].id is not None:
            undo(context, answers[-1].id)
            redo(context, answers[-1].id)
            assert queries.verify(context).clean
            assert sorted(_held(context), key=_uid) == sorted(held, key=_uid)


@given(
    n_good=st.sampled_from([1, 2, 8, 63, 64, 200]),
    times=st.sampled_from([1, 100, 5_000]),
    seed=st.integers(0, 1 << 32),
    is_prefix=st.booleans(),
)
@settings(max_examples=25)
def test_a_much_larger_file_is_known_by_the_lines_that_it_begins_with(
    n_good: int, times: int, seed: int, *, is_prefix: bool
) -> None:
    random = Random(seed)
    good = [random.getrandbits(32) for _ in range(n_good)]
    more = [random.getrandbits(32) for _ in range(min(n_good * times, 50_000))]
    later = [*good[: len(good) * is_prefix], *more]
    earlier = Rollout(0, failed=True, good=sampled(good, good[:FIRST]), beside=())
    resumed = Rollout(1, failed=False, good=sampled(later, later[:FIRST]), beside=())
    assert resumed.is_state_of(earlier) == is_prefix
    assert not earlier._replace(failed=False).is_state_of(resumed), "nothing failed"


def _uid(one: Episode) -> str:
    return one.uid


@given(order=st.permutations(range(3)), calls=st.integers(1, 3), empty=st.booleans())
@settings(max_examples=20)
def test_a_sample_that_was_run_again_replaces_the_failed_one(
    order: Sequence[int], calls: int, *, empty: bool
) -> None:
    with TemporaryDirectory() as folder:
        context = context_at(Path(folder) / "a.db")
        failed: Json = {"error": {"message": "x"}, "scores": None, **({"messages": []} if empty else {})}
        logs = [
            log(
                sample("b"),
                {
                    **sample("a", completed_at=f"2026-01-0{at + 1}T00:00:00Z"),
                    **({} if at == 2 else failed),
                    "uuid": f"again{at}",
                },
            )
            for at in range(3)
        ]
        files = [put(Path(folder), logs[at], str(at)) for at in order]
        for at in range(calls):
            if files[at::calls]:
                _import(context, *files[at::calls])
        assert [one.status for one in _held(context)] == ["finished", "finished"]
        assert [line.run.status for line in _runs(context)] == ["completed", "completed"]
        assert _import(context, *files).id is None


def _trace(text: str) -> Json:
    nodes = [{"message": {"role": "assistant", "content": text}, "sampled": True}]
    return {"id": "t", "task": {}, "agent": {}, "nodes": nodes, "rewards": {}, "ok": True}


SHARED: Final[dict[str, Callable[[Sequence[str]], bytes]]] = {
    "inspect": lambda texts: log(*({**sample(text), "uuid": "constant"} for text in texts)),
    "tau2": lambda texts: results(
        *(simulation([{"role": "assistant", "content": text}], "constant") for text in texts)
    ),
    "traces": lambda texts: json_lines([_trace(text) for text in texts]),
}


@settings(max_examples=20)
@given(made=st.sampled_from(sorted(SHARED)), texts=st.lists(st.sampled_from("abcd"), min_size=2, max_size=5))
def test_records_of_one_id_and_other_content_stay_apart_in_one_document(made: str, texts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        context = context_at(Path(folder) / "a.db")
        file = put(Path(folder), SHARED[made](texts), "a")
        answer = _import(context, file)
        assert answer.left_out == 0
        assert len(_runs(context)) == len(_held(context)) == len({*texts})
        assert any("share an id" in note for note in answer.notes) == (len({*texts}) > 1)
        assert _import(context, file).id is None


@pytest.mark.parametrize("none", [float("nan"), float("inf"), None])
def test_a_value_that_is_none_leaves_one_record_unpaid_and_the_others_paid(
    tmp_path: Path, none: object
) -> None:
    bad, good = sample("a", scores={"match": {"value": none}}), sample("b")
    simulations = [simulation(TALK, str(value), reward_info={"reward": value}) for value in (none, 1.0)]
    trace = {"id": "t1", "task": {}, "agent": {}, "nodes": [], "rewards": {"r": {"score": none}}, "ok": True}
    files = {
        "a log": log(bad, good),
        "an archive": archive(bad, good),
        "tau2": results(*simulations),
        "verifiers": json_lines([_rollout(1, none, correct=none), _rollout(2, 1.0, correct=none)]),
        "traces": json_lines(
            [trace, {**trace, "id": "t2", "rewards": {"r": {"score": 1.0}}, "metrics": {"m": none}}]
        ),
    }
    for name, content in files.items():
        context = context_at(tmp_path / f"{name}.db")
        answer = _import(context, put(tmp_path, content, name))
        assert (answer.rejected_count, answer.episodes) == (0, 2), name
        assert sorted(map(str, _rewards(context))) == ["1.0", "None"], name


def test_an_invalidated_sample_pays_nothing_and_is_broken_by_name(context: Context, tmp_path: Path) -> None:
    mark = {"author": "a", "reason": "contaminated", "timestamp": "2026-01-01T00:00:00Z"}
    _import(context, put(tmp_path, log(sample("a"), sample("b")), "before"))
    answer = _import(context, put(tmp_path, log(sample("a", invalidation=mark), sample("b")), "after"))
    assert answer.episodes_updated == 1
    assert {one.uid: (one.status, one.steps[-1].name) for one in _held(context)} == {
        "inspect-ai/ua": ("broken", "invalidated"),
        "inspect-ai/ub": ("finished", ""),
    }


@pytest.mark.parametrize(
    "kind",
    [
        *("claude-code", "gemini-cli", "inspect-ai", "langfuse-trace", "openclaw-session", "pi-session"),
        *("tau-bench", "tau2-results", "verifiers"),
    ],
)
def test_each_record_of_real_files_is_in_the_sums(shared_data: Path, tmp_path: Path, kind: str) -> None:
    folder = shared_data / kind
    with open_sources([folder]) as opened:
        read = Counter(type(entry) for source in opened.sources for entry in source.entries())
    answer = import_files(context_at(tmp_path / "a.db"), [folder])
    _adds_up(answer)
    assert (answer.runs + answer.empty, answer.episodes, answer.rejected_count) == (
        read[Run],
        read[Episode],
        read[Rejected],
    )
