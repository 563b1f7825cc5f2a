"""Importing is learning facts: growing, repeated and undone imports come to the same as one or none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec
import pytest

from core.errors import UnreadableSource
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import ImportAnswer, import_files
from core.flows.learn import record, reward
from core.flows.settings import change
from core.formats import Opened, Source
from core.records.arm import Arm
from core.records.run import Inventory, Unit
from tests.formats.builders import Session, lines, reply, text, tool, trajectory, use, user
from tests.waiting import memory_folder
from tests.worlds import START_MS, a_run, context_at
from tests.worlds.history import described
from tests.worlds.lively import part_line

A = "tool:other:a"

Seen = tuple[bytes, dict[str, object], dict[str, tuple[int | None, str | None]], list[tuple[object, ...]]]

TABLES = (
    *("tau-bench.episode", "tau-bench.turn", "tau2-sft-openai.episode", "tau2-sft-openai.turn"),
    *(
        "claude-code.prompt",
        "tau2-results.episode",
        "tau2-results.turn",
        "gemini-cli.prompt",
        "inspect-ai.sample",
    ),
)
"""Folders of real files with their units."""


@dataclass(frozen=True)
class Growing:
    """One source at several lengths; ``at(i)`` writes the i-th, always under a name of its own."""

    name: str
    stages: tuple[bytes, ...]
    unit: Unit | None = None
    tools: Path | None = None

    def into(self, context: Context, folder: Path, stage: int) -> ImportAnswer:
        file = folder / f"{self.name}-{stage}"
        file.write_bytes(self.stages[stage])
        return import_files(context, [file], unit=self.unit, tools_file=self.tools)


def known_to(context: Context) -> Seen:
    """Everything the learner says of what it knows.

    How often it was written to is not part of that: neither its revision nor the revisions epochs are named by, and
    no rows about rejected lines of imports and about the time since.
    """
    verification = queries.verify(context)
    assert verification.clean, verification.differences
    status = msgspec.to_builtins(queries.status(context))
    del status["revision"], status["database"], status["head"]
    beliefs = [msgspec.structs.replace(one, epoch=min(one.epoch, 1)) for one in queries.posteriors(context)]
    return msgspec.json.encode(beliefs), status, described(context), bills_of(context)


def bills_of(context: Context) -> list[tuple[object, ...]]:
    """Rows of the bills of active runs, by uid."""
    with context.reading() as snapshot:
        return snapshot.connection.rows(
            "SELECT r.uid, s.by_sub_agent, s.model, s.input_tokens, s.cache_read_tokens, s.cache_write_5m_tokens,"
            " s.cache_write_1h_tokens, s.output_tokens, s.unsplit_tokens, s.assumed FROM spent s JOIN run r"
            " ON r.learner_id = s.learner_id AND r.run_no = s.run_no WHERE s.learner_id = ? AND r.standing = 1"
            " ORDER BY r.uid, s.by_sub_agent, s.model",
            [snapshot.learner_id],
        )


# Sources


def tau_bench(records: list[Any]) -> bytes:
    return json.dumps(records).encode()


def reward_line(uid: str, observation: str, arm: str = A, **more: object) -> dict[str, object]:
    return {"kind": "reward", "id": uid, "arm": arm, "observation": observation, **more}


def synthetic() -> Iterator[Growing]:
    records = [
        trajectory([user("hi"), reply("ok", "find"), user("go"), reply("done", *"book"[:n])], task=n)
        for n in range(4)
    ]
    for unit in ("episode", "turn"):
        yield Growing(f"tau-bench-{unit}", tuple(tau_bench(records[:n]) for n in (1, 3, 4)), unit)
        chats = [
            {
                "messages": [reply("hello"), user(f"hi {n}"), reply(None, "find"), user("go"), reply("done")],
                "tools": [tool("find"), tool("book")],
            }
            for n in range(4)
        ]
        yield Growing(f"openai-chat-{unit}", tuple(lines(chats[:n]) for n in (1, 3, 4)), unit)
        bare = [{"messages": record["messages"]} for record in chats]
        bare[3]["messages"] = [user("hi"), reply(None, "book")]
        yield Growing(f"openai-inferred-{unit}", tuple(lines(bare[:n]) for n in (1, 3, 4)), unit)
    session = Session()
    usage = {"input_tokens": 10, "output_tokens": 5}
    session.prompt("find it").reply(text("looking"), id="m1", usage=usage).reply(
        use("Read", "t1"), id="m1", usage=usage
    )
    session.result().reply(use("Bash", "t2"), id="m2", usage=usage).result().reply(
        text("found"), id="m3", usage=usage
    )
    session.prompt("thanks").reply(text("welcome"), id="m4", usage=usage)
    session.prompt("again").reply(use("mcp__x__find", "t3"), id="m5", usage=usage).result().prompt(
        "unanswered"
    )
    n_lines = len(session.made)
    yield Growing("claude-code", tuple(session.bytes(n) for n in range(1, n_lines + 1)))
    ours: list[dict[str, object]] = [
        {"kind": "run", "uid": f"r{n}", "arms": ["tool:other:a", "skill:b:main"], "calls": ["a"][: n % 2]}
        for n in range(5)
    ]
    ours[1]["bill"] = [{"model": "m", "input": 5, "output": 7}, {"owner": "sub-agent", "total": 9}]
    ours[2]["bill"] = [{"cache_write_5m": 3, "assumed": True}, {"model": "n", "cache_write_1h": 2}]
    ours[2]["rank"] = 4
    ledger: list[dict[str, object]] = [
        {
            "kind": "arm",
            "key": "memory:main:m",
            "token_cost": 9,
            "prior": {"alpha_micro": 5, "beta_micro": 7},
        },
        reward_line("x1", "feedback", reward=0.25, at_ms=START_MS),
        {"kind": "reset", "id": "x2", "arms": ["tool:other:a"], "target": "prior"},
        reward_line("x3", "correction", reward=0.5, context={"run": "r1"}, at_ms=START_MS + 5),
        reward_line("x4", "carried", arm="file:workspace:n", at_ms=START_MS + 9)
        | {"success_micro": 2_500_000, "failure_micro": 500_000, "pulls": 3},
        reward_line("x5", "feedback", reward=0, undone=True),
        {"kind": "reset", "id": "x6", "arms": ["skill:b:main"], "undone": True},
        part_line("x7", "tool:other:a", 700_000),
        part_line("x8", "tool:other:a", 400_000, run="r1"),
        part_line("x9", "skill:c:main", 1, undone=True),
        part_line("x10", "skill:c:main", 250_000),
    ]
    told = [ledger[0], *ours[:3], ledger[1], ours[3], ledger[2], ledger[3], ours[4], *ledger[4:]]
    yield Growing("armscope", tuple(lines(told[:n]) for n in range(1, len(told) + 1)))
    grown: list[dict[str, object]] = [
        {"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": [], "rank": 0}
    ]
    grown.append({**grown[0], "calls": ["a"], "rank": 1})
    yield Growing("armscope-grown", tuple(lines(grown[:n]) for n in (1, 2)))


def _inflated(folder: Path) -> list[bytes]:
    return [gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("*.gz"))]


def real(data: Path) -> Iterator[Growing]:
    (records,) = [json.loads(content) for content in _inflated(data / "tau-bench")]
    (chats,) = [content.splitlines(keepends=True) for content in _inflated(data / "tau2-sft-openai")]
    tools = data / "tau-bench" / "airline-tools.json"
    for unit in ("episode", "turn"):
        stages = tuple(tau_bench(records[:n]) for n in (1, 40, len(records)))
        yield Growing(f"tau-bench-{unit}", stages, unit, tools)
        yield Growing(f"tau-bench-inferred-{unit}", stages, unit)
        yield Growing(f"openai-chat-{unit}", tuple(b"".join(chats[:n]) for n in (1, 20, len(chats))), unit)
    for number, content in enumerate(_inflated(data / "claude-code")):
        session = content.splitlines(keepends=True)
        middle, end = len(session) // 2, len(session)
        cut = [b"".join(session[:n]) for n in sorted({middle // 2, middle, end - 1} - {0})]
        half_a_line = content[: -len(session[-1]) // 2]
        yield Growing(f"claude-code-{number}", (*cut, half_a_line, content))


# Laws


def check(growing: Growing, folder: Path) -> None:
    """It grows as if it had always been as long as it is, and what was told of it can go."""
    direct = [_only(growing, stage) for stage in range(len(growing.stages))]
    _check_growth(growing, folder, direct)
    _check_undo(growing, folder, direct)


def _check_growth(growing: Growing, folder: Path, direct: Sequence[Seen]) -> None:
    """From any stage to any later one, and back again."""
    steps = context_at(folder / f"{growing.name}-steps.db")
    for stage, alone in enumerate(direct):
        _into(growing, steps, folder, stage)
        assert known_to(steps) == alone, f"{growing.name} after stage {stage}"
    last = len(direct) - 1
    again = growing.into(steps, folder, last)
    assert (again.duplicates, again.updated) == (again.runs, 0)
    growing.into(steps, folder, len(direct) // 2)
    assert known_to(steps) == direct[last], "a shorter copy takes nothing away"


def _check_undo(growing: Growing, folder: Path, direct: Sequence[Seen]) -> None:
    """Of two imports of one growing source either can go, and both."""
    last = len(direct) - 1
    short, whole = direct[last // 2], direct[last]
    context = context_at(folder / f"{growing.name}-undo.db")
    nothing = known_to(context)
    first = _into(growing, context, folder, last // 2)
    second = growing.into(context, folder, last)
    if first is not None and second.id is None:
        assert whole == short, "what changes nothing is no act, and nothing else is none"
        undo(context, first.id)
        assert known_to(context) == nothing
        return
    for act, left in (
        (second.id, short if first else nothing),
        (None if first is None else first.id, nothing),
    ):
        if act is not None:
            undo(context, act)
        assert known_to(context) == left
    redo(context, second.id)
    assert known_to(context) == whole, "undoing the first of two leaves what the second says"
    if first is not None:
        redo(context, first.id)
        assert known_to(context) == whole
        undo(context, second.id)
        assert known_to(context) == short


def _into(growing: Growing, context: Context, folder: Path, stage: int) -> ImportAnswer | None:
    """The import's answer; None where so little of the source holds no run yet."""
    try:
        return growing.into(context, folder, stage)
    except UnreadableSource:
        return None


@cache
def _only(growing: Growing, stage: int) -> Seen:
    with TemporaryDirectory(dir=memory_folder()) as folder:
        context = context_at(Path(folder) / "only.db")
        _into(growing, context, Path(folder), stage)
        found = known_to(context)
        context.store.close()
    return found


@pytest.mark.parametrize("growing", list(synthetic()), ids=lambda growing: growing.name)
def test_made_up_sources(growing: Growing, tmp_path: Path) -> None:
    check(growing, tmp_path)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["tau-bench-", "openai-chat-", "claude-code-"])
def test_real_sources(shared_data: Path, kind: str, tmp_path: Path, *, every: bool) -> None:
    sources = of_kind(real(shared_data), kind, every=every)
    assert sources
    for growing in sources:
        check(growing, tmp_path)


def of_kind(sources: Iterator[Growing], kind: str, *, every: bool) -> list[Growing]:
    """Those of one format: all, or each third of them."""
    return [growing for growing in sources if growing.name.startswith(kind)][:: 1 if every else 3]


def test_real_runs_through_our_own_lines(shared_data: Path, context: Context, tmp_path: Path) -> None:
    import_files(
        context,
        [shared_data / "tau-bench"],
        unit="turn",
        tools_file=shared_data / "tau-bench" / "airline-tools.json",
    )
    import_files(context, [shared_data / "claude-code"])
    arm = queries.posteriors(context)[0].arm
    reward(context, arm, 0.25)
    reset(context, types=["tool"])
    reward(context, arm, 0.75)
    export_file(context, tmp_path / "a.jsonl")
    told = (tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    stages = tuple(b"".join(told[:n]) for n in (len(told) // 3, len(told) - 1, len(told)))
    growing = Growing("export", stages)
    check(growing, tmp_path)


# Answers on the real files


@pytest.mark.parametrize("table", TABLES)
def test_counts_and_posteriors_equal_what_was_computed(shared_data: Path, tmp_path: Path, table: str) -> None:
    wanted = json.loads((shared_data / "EXPECTED" / f"{table}.json").read_bytes())
    name, _, unit = table.replace("sample", "episode").rpartition(".")
    tools = next((shared_data / name).glob("*tools*.json"), None)
    context = context_at(tmp_path / "a.db")
    nothing = known_to(context)

    def imported() -> ImportAnswer:
        return import_files(context, [shared_data / name], unit=cast("Unit", unit), tools_file=tools)

    answer = imported()
    assert (answer.runs, answer.observed, answer.skipped, answer.empty) == (
        wanted["runs"],
        wanted["observed"],
        wanted["skipped_conversational"],
        wanted["empty_dropped"],
    )
    assert (answer.duplicates, answer.updated, answer.rejected_count, answer.unit) == (0, 0, 0, unit)
    assert answer.runs == answer.observed + answer.skipped
    # Where an inventory is inferred, an arm that no observed run included keeps its prior.
    stored = {
        one.arm: [one.alpha, one.beta, one.pulls, one.inclusions]
        for one in queries.posteriors(context)
        if one.inclusions
    }
    assert stored == {
        arm["arm"]: [arm["alpha"], arm["beta"], arm["included"], arm["offered_runs"]]
        for arm in wanted["arms"].values()
    }
    status = queries.status(context)
    assert (status.runs, status.observed, status.empty) == (answer.runs, answer.observed, answer.empty)
    assert sum(status.skipped.values()) == answer.skipped
    assert answer.not_offered == 0
    once, again = known_to(context), imported()
    assert (again.duplicates, again.updated) == (again.runs, 0)
    assert again.id is None, "what changes nothing is no act"
    assert known_to(context) == once
    undo(context, answer.id)
    assert known_to(context) == nothing
    redo(context, answer.id)
    assert known_to(context) == once


@pytest.mark.parametrize("name", ["tau-bench", "tau2-sft-openai"])
def test_a_source_that_is_here_in_another_unit_is_refused(
    shared_data: Path, context: Context, name: str
) -> None:
    first = import_files(context, [shared_data / name], unit="turn")
    before = known_to(context)
    with pytest.raises(UnreadableSource, match=r"by turn.*would count twice"):
        import_files(context, [shared_data / name], unit="episode")
    assert known_to(context) == before
    undo(context, first.id)
    second = import_files(context, [shared_data / name], unit="episode")
    assert (second.runs, second.rejected_count) == ({"tau-bench": 100, "tau2-sft-openai": 37}[name], 0)
    redo(context, second.id)


def test_a_tools_file_in_a_folder_is_named_and_not_read(shared_data: Path, tmp_path: Path) -> None:
    answer = import_files(context_at(tmp_path / "a.db"), [shared_data / "tau-bench"])
    (ignored,) = answer.ignored
    assert ignored.file.endswith("airline-tools.json")
    assert "tools" in ignored.reason
    with pytest.raises(UnreadableSource, match="lists tools") as refused:
        import_files(context_at(tmp_path / "b.db"), [shared_data / "tau-bench" / "airline-tools.json"])
    assert "--tools" in refused.value.next_step


# Other ways to tell


def test_growth_within_one_import_is_growth(context: Context, tmp_path: Path) -> None:
    session = (
        Session().prompt("go").reply(use("Read", "t1"), id="m1").result().reply(use("Bash", "t2"), id="m2")
    )
    folder = tmp_path / "copies"
    folder.mkdir()
    for n_lines in (4, 2):
        (folder / f"{9 - n_lines}").write_bytes(session.bytes(n_lines))
    answer = import_files(context, [folder])
    assert (answer.files, answer.runs, answer.duplicates, answer.updated) == (2, 2, 1, 0)
    other = context_at(tmp_path / "b.db")
    import_files(other, [folder / "5"])
    assert known_to(context) == known_to(other)


def test_the_same_file_named_twice_or_linked_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_bytes(lines([{"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"]}]))
    (tmp_path / "link").symlink_to(file)
    answer = import_files(context_at(tmp_path / "a.db"), [file, file, tmp_path / "link"])
    assert (answer.files, answer.runs) == (1, 1)


def test_a_passive_import_records_and_moves_nothing(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_bytes(lines([{"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"]}]))
    answer = import_files(context, [file], phase="passive")
    assert (answer.observed, answer.skipped) == (0, 1)
    (one,) = queries.posteriors(context)
    assert (one.alpha, one.beta, one.pulls, one.inclusions) == (3, 1, 0, 1)
    assert queries.status(context).skipped["passive"] == 1
    assert queries.verify(context).clean


def test_an_import_of_several_formats_is_one_act(shared_data: Path, context: Context) -> None:
    before = known_to(context)
    answer = import_files(context, [shared_data / "claude-code", shared_data / "tau2-sft-openai"])
    assert answer.format == "claude-code, openai-chat"
    assert answer.runs == 39 + 37
    undo(context, answer.id)
    assert known_to(context) == before


def test_what_a_direct_run_says_again_is_not_written_again(context: Context, tmp_path: Path) -> None:

    def say(uid: str, cost: int) -> list[tuple[int, str, int]]:
        priced = Inventory(kind="declared", arms=(Arm(key=A, token_cost=cost),))
        record(context, a_run(uid, calls="a", inventory=priced))
        with context.reading() as snapshot:
            return snapshot.connection.rows(
                "SELECT import_no, said, revision FROM provenance WHERE kind = 'cost' ORDER BY import_no"
            )

    first = say("r1", 5)
    assert first == say("r2", 5) != say("r3", 6)
    (tmp_path / "told").write_bytes(lines([{"kind": "arm", "key": A, "token_cost": 7}]))
    act = import_files(context, [tmp_path / "told"], format="armscope").id
    assert [row[:2] for row in say("r4", 6)] == [(0, "6"), (1, "7")]
    undo(context, act)
    assert say("r5", 6) == say("r6", 6)
    assert described(context) == {A: (6, None)}


def test_settings_come_and_go_with_the_import_that_made_the_learner(context: Context, tmp_path: Path) -> None:
    change(context, "min_pulls", 9)
    change(context, "priors", {"tool": {"alpha_micro": 7_000_000, "beta_micro": 1_000_000}})
    growing_lines = [
        {"kind": "run", "uid": f"r{n}", "arms": ["tool:other:a"], "calls": ["a"]} for n in range(2)
    ]
    (tmp_path / "runs").write_bytes(lines(growing_lines))
    import_files(context, [tmp_path / "runs"])
    export_file(context, tmp_path / "all")
    told = (tmp_path / "all").read_bytes().splitlines(keepends=True)
    growing = Growing("settings", (b"".join(told[:-1]), b"".join(told)))
    check(growing, tmp_path)
    other = context_at(tmp_path / "b.db")
    first = growing.into(other, tmp_path, 0)
    second = growing.into(other, tmp_path, 1)
    for acts, min_pulls in (([first.id], 9), ([first.id, second.id], 5), ([], 9)):
        for act in acts:
            undo(other, act)
        if not acts:
            redo(other, second.id)
        assert queries.frame(other).settings.min_pulls == min_pulls
        assert queries.verify(other).clean


def test_calls_that_match_no_arm_are_named_most_frequent_first(context: Context, tmp_path: Path) -> None:
    def run(uid: str, *calls: str) -> dict[str, object]:
        return {"kind": "run", "uid": uid, "arms": ["tool:github:create_issue"], "calls": list(calls)}

    told = [run("r1", "b", "a"), run("r2", "a", "a"), run("r3", "github/create_issue"), run("r4", "c")]
    (tmp_path / "runs").write_bytes(lines(told))
    answer = import_files(context, [tmp_path / "runs"])
    assert answer.not_offered == 4
    assert [(one.tool, one.runs) for one in answer.not_offered_calls] == [("a", 2), ("b", 1), ("c", 1)]
    (one,) = queries.posteriors(context)
    assert (one.alpha, one.beta) == (4, 4)
    (tmp_path / "more").write_bytes(lines([run("r5", "c", "d"), run("r6", "c")]))
    more = import_files(context, [tmp_path / "more"]).after(answer)
    assert [(one.tool, one.runs) for one in more.not_offered_calls] == [
        ("c", 3),
        ("a", 2),
        ("b", 1),
        ("d", 1),
    ]


def test_files_that_were_not_read_are_counted_by_reason_and_ending(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "runs").write_bytes(lines([{"kind": "run", "uid": "r", "arms": [A], "calls": ["a"]}]))
    for number in range(30):
        (folder / f"{number}.json").write_bytes(b'{"a": %d}' % number)
    for name, content in (("a.md", b"# words"), ("b.md", b"words"), ("c.json", b""), (".hidden", b"{}")):
        (folder / name).write_bytes(content)
    answer = import_files(context_at(tmp_path / "a.db"), [folder])
    assert len(answer.ignored) == 34
    counted = [(one.files, one.ending, one.first.rsplit("/", 1)[-1]) for one in answer.unread]
    assert counted == [
        (30, ".json", "0.json"),
        (2, ".md", "a.md"),
        (1, "", ".hidden"),
        (1, ".json", "c.json"),
    ]
    assert all(one.reason.endswith(".") and str(tmp_path) not in one.reason for one in answer.unread)
    assert [line for line in answer.unread[0].next_step.split() if line.startswith("claude-code")]


def test_what_a_person_chose_here_is_not_overruled_by_a_file(context: Context, tmp_path: Path) -> None:
    change(context, "min_pulls", 9)
    export_file(context, tmp_path / "all")
    (tmp_path / "all").write_bytes(
        (tmp_path / "all").read_bytes()
        + lines([{"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"]}])
    )
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "all"])
    change(other, "min_pulls", 2)
    import_files(other, [tmp_path / "all"])
    assert queries.frame(other).settings.min_pulls == 2


def test_bad_lines_among_good_ones_are_listed_with_number_and_reason(tmp_path: Path) -> None:
    good = {"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"]}
    bad = [
        json.dumps({**good, "uid": "q", "reward": "x"}).encode(),
        b"{",
        json.dumps({**good, "arms": ["nonsense"]}).encode(),
        b'{"kind": "run", "uid": "\\ud800", "arms": []}',
        json.dumps({**good, "surprise": 1}).encode(),
        b'{"kind": "run", "uid": "n", "arms": [], "duration_ms": NaN}',
    ]
    (tmp_path / "mixed").write_bytes(b"\n".join([json.dumps(good).encode(), *bad, b""]))
    answer = import_files(context_at(tmp_path / "a.db"), [tmp_path / "mixed"])
    assert (answer.runs, answer.rejected_count) == (1, len(bad))
    assert [line.line for line in answer.rejected] == [2, 3, 4, 5, 6, 7]
    assert all(line.reason and line.file.endswith("mixed") for line in answer.rejected)


def test_a_reward_of_an_arm_its_run_was_without_is_rejected_by_that_reason(tmp_path: Path) -> None:
    run = {"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"], "excluded": ["tool:other:b"]}
    told = {"kind": "reward", "observation": "feedback", "reward": 1.0}
    rewards = [
        {**told, "id": "1", "arm": "tool:other:b", "context": {"run": "r"}},
        {**told, "id": "2", "arm": "tool:other:a", "context": {"run": "gone"}},
    ]
    (tmp_path / "mixed").write_bytes(lines([{"kind": "arm", "key": "tool:other:b"}, run, *rewards]))
    answer = import_files(context_at(tmp_path / "a.db"), [tmp_path / "mixed"])
    assert [line.reason for line in answer.rejected] == [
        "tool:other:b was not in the prompt of run 1, so that run says nothing about it.",
        "Reward '2' names run 'gone', which is not here.",
    ]


def test_an_import_under_way_is_seen_by_nobody_and_one_cut_short_never_was(tmp_path: Path) -> None:
    run = {"kind": "run", "arms": ["tool:other:a"], "calls": ["a"]}
    (tmp_path / "long").write_bytes(lines([{**run, "uid": f"r{number}"} for number in range(5_000)]))
    context, other = context_at(tmp_path / "a.db"), context_at(tmp_path / "a.db")
    n_bytes = (tmp_path / "long").stat().st_size
    at: list[int] = []

    def stop_half_way(_: Opened, __: Source, n_read: int) -> None:
        assert queries.imports(other) == ()
        at.append(n_read)
        if n_read > n_bytes / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files(context, [tmp_path / "long"], progress=stop_half_way)
    assert 0 < at[-1] < n_bytes
    assert queries.imports(context) == ()
    assert queries.status(context).runs == 0


def test_only_the_first_hundred_rejected_lines_are_listed(tmp_path: Path) -> None:
    good = {"kind": "run", "uid": "r", "arms": ["tool:other:a"], "calls": ["a"]}
    (tmp_path / "mixed").write_bytes(lines([good]) + b"{\n" * 150)
    answer = import_files(context_at(tmp_path / "a.db"), [tmp_path / "mixed"])
    assert (len(answer.rejected), answer.rejected_count) == (100, 150)


def test_a_rejected_line_is_named_as_it_is_written_but_for_what_can_not_be_printed(tmp_path: Path) -> None:
    run = {"kind": "run", "uid": "r", "calls": ["a"]}
    told = [{**run, "arms": [name]} for name in ("обзор", "חיפוש", "a\u202eb")]
    (tmp_path / "names").write_bytes(lines([{**run, "arms": ["tool:other:a"]}, *told]))
    answer = import_files(context_at(tmp_path / "a.db"), [tmp_path / "names"])
    assert [line.reason.split("got ")[1].split(" ")[0].rstrip(".") for line in answer.rejected] == [
        "'обзор'",
        "'חיפוש'",
        "'a\\u202eb'",
    ]


@pytest.mark.parametrize("growing", list(synthetic()), ids=lambda growing: growing.name)
@pytest.mark.parametrize("seed", range(2))
def test_what_stands_is_what_the_longest_standing_import_says(
    growing: Growing, seed: int, tmp_path: Path
) -> None:
    """However imports of one growing source are made, undone and redone."""
    random = Random(seed)
    n_stages = len(growing.stages)
    direct = [_only(growing, stage) for stage in range(n_stages)]
    nothing = known_to(context_at(tmp_path / "nothing.db"))
    context = context_at(tmp_path / "walk.db")
    told: dict[str, int] = {}
    standing: set[str] = set()
    for _ in range(16):
        if not told or random.random() < 0.4:
            stage = random.randrange(n_stages)
            answer = _into(growing, context, tmp_path, stage)
            if answer is not None and answer.id is not None:
                told[answer.id] = stage
                standing.add(answer.id)
        else:
            act = random.choice(list(told))
            if act in standing:
                undo(context, act)
            else:
                redo(context, act)
            standing ^= {act}
        longest = max((told[act] for act in standing), default=None)
        assert known_to(context) == (nothing if longest is None else direct[longest])
