"""Our own format: what is written is read back, equal; what people write by hand is read kindly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import guide, open_learner
from core.detect import detect
from core.errors import InvalidInput, UnreadableSource
from core.flows import queries
from core.formats import Entry, armscope, open_sources, recognise
from core.formats.armscope import write
from core.records.arm import ARM_TYPES, Arm, Prior
from core.records.evidence import Outcome, Reference
from core.records.learner import LearnerSettings
from core.records.ledger_lines import (
    ArmLine,
    LearnerLine,
    NoteLine,
    ResetLine,
    RewardContext,
    RewardLine,
    RewardReply,
    RunLine,
)
from core.records.observation import Kind
from core.records.run import RUN_CLASSES, Call, Inventory, InventoryKind, Run, RunClass, Status, Unit, Usage
from core.records.selection import REASONS, Decision, Selection
from tests.formats.builders import lines, offered, put, read, rejected, runs

# --- anything a learner can hold --------------------------------------------------------------------------

kept = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
words = st.text(kept, max_size=8)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
keys = st.builds(
    "{}:{}:{}".format, st.sampled_from(ARM_TYPES), names.map(lambda n: n.replace(":", "-")), names
)
counts = st.integers(0, 10**12)
finite = st.floats(allow_nan=False, allow_infinity=False)
rewards = st.floats(0, 1)


T = TypeVar("T")

priors = st.builds(Prior, alpha_micro=st.integers(1, 10**9), beta_micro=st.integers(1, 10**9))

HEADER = LearnerLine(armscope=1, name="default", origin="here", settings=LearnerSettings(baseline_rate=0.25))

READ = {"arm": "tool:fs:Read", "included": True, "reason": "draw", "rank": 1, "token_cost": 0}
CHOSEN = {
    "run_class": "selected",
    "decisions": [READ],
    "seed": "1",
    "baseline_prob": 0.1,
    "settings_hash": "h",
    "revision": 0,
}

NOTE = {"kind": "note", "id": "n1", "arm": "tool:fs:Read", "text": "slow on Mondays"}
SEEN = {"arm": "tool:fs:Read", "where": "text", "excerpt": "a"}


def maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | strategy


def tuples_of(strategy: st.SearchStrategy[T], highest: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, max_size=highest).map(tuple)


arms = st.builds(
    Arm, key=keys, label=maybe(words), token_cost=maybe(counts), content=maybe(words), prior=maybe(priors)
)
usages = st.builds(
    Usage, input=counts, output=counts, cache_read=counts, cache_write=counts, total=maybe(counts)
)


def decided(arm: str, *, included: bool) -> st.SearchStrategy[Decision]:
    return st.builds(
        Decision,
        arm=st.just(arm),
        included=st.just(included),
        reason=st.sampled_from(REASONS),
        rank=counts,
        token_cost=counts,
        draw=maybe(rewards),
        budget_left=maybe(counts),
        chance=rewards | st.just(msgspec.UNSET),
    )


def selections(run_class: RunClass, present: list[str], left_out: list[str]) -> st.SearchStrategy[Selection]:
    decisions = [decided(arm, included=True) for arm in present]
    decisions += [decided(arm, included=False) for arm in left_out]
    return st.builds(
        Selection,
        run_class=st.just(run_class),
        decisions=st.tuples(*decisions),
        seed=st.integers(0, 2**128 - 1).map(str),
        baseline_prob=rewards,
        settings_hash=words,
        revision=counts,
        budget_tokens=counts,
        k=st.just(msgspec.UNSET) | counts,
        min_pulls=st.just(msgspec.UNSET) | counts,
        over_budget=st.booleans(),
        guidance=maybe(words),
    )


@st.composite
def made_runs(draw: st.DrawFn) -> Run:
    present = draw(st.lists(arms, max_size=4, unique_by=lambda arm: arm.key))
    here = [arm.key for arm in present]
    left_out = [key for key in draw(st.lists(keys, max_size=3, unique=True)) if key not in here]
    run_class = draw(st.sampled_from(RUN_CLASSES))
    return draw(
        st.builds(
            Run,
            uid=st.text(kept, min_size=1, max_size=20),
            inventory=st.just(
                Inventory(kind=draw(st.sampled_from(get_args(InventoryKind))), arms=tuple(present))
            ),
            format=words,
            unit=st.sampled_from(get_args(Unit)),
            source=maybe(words),
            rank=counts,
            session=maybe(words),
            ended_at_ms=maybe(st.integers(0, 253_402_300_799_999)),
            naive_time=st.booleans(),
            provider=maybe(words),
            model=maybe(words),
            channel=maybe(words),
            run_class=st.just(run_class),
            status=st.sampled_from(get_args(Status)),
            usage=maybe(usages),
            duration_ms=maybe(counts),
            prompt_chars=maybe(counts),
            reward=maybe(finite),
            calls=tuples_of(st.builds(Call, name=words, metadata=words)),
            texts=tuples_of(words),
            excluded=st.just(tuple(left_out)),
            referenced=maybe(tuples_of(keys)),
            not_offered=tuples_of(words),
            empty=st.booleans(),
            selection=st.none()
            if run_class in {"imported", "trial"}
            else maybe(selections(run_class, here, left_out)),
        )
    )


@st.composite
def run_lines(draw: st.DrawFn) -> RunLine:
    run = draw(made_runs())
    recognised = [arm.key for arm in run.inventory.arms if draw(st.booleans())]
    places = st.sampled_from(["text", "metadata", "given"])
    return draw(
        st.builds(
            RunLine,
            run=st.just(run),
            outcome=st.sampled_from(get_args(Outcome)),
            phase=st.sampled_from(["active", "passive"]),
            references=st.tuples(
                *[
                    st.builds(Reference, arm=st.just(arm), where=places, excerpt=maybe(words))
                    for arm in recognised
                ]
            ),
            n_calls=counts,
            n_real_calls=counts,
            revision=maybe(counts),
        )
    )


contexts = st.builds(
    RewardContext, lagged=st.booleans(), reason=maybe(words), by=maybe(words), run=maybe(words)
)
moments = maybe(st.integers(0, 253_402_300_799_999))
replies = st.builds(
    RewardReply,
    asked=st.integers(0, 2**64 - 1).map("{:016x}".format),
    alpha=st.floats(1e-6, 1e12),
    beta=st.floats(1e-6, 1e12),
    mean=rewards,
    pulls=counts,
    run=maybe(words),
    rounded=st.booleans(),
)


@st.composite
def rewards_given(draw: st.DrawFn) -> RewardLine:
    kind = draw(st.sampled_from([kind for kind in get_args(Kind) if kind != "carried"]))
    key = draw(maybe(names)) if kind in {"feedback", "correction"} else None
    return draw(
        st.builds(
            RewardLine,
            id=names,
            arm=keys,
            observation=st.just(kind),
            reward=rewards,
            weight_micro=st.integers(1, 10**9),
            at_ms=moments,
            revision=maybe(counts),
            key=st.just(key),
            reply=st.none() if key is None else maybe(replies),
            undone=st.booleans(),
            context=contexts,
        )
    )


reward_lines = rewards_given() | st.builds(
    RewardLine,
    id=names,
    arm=keys,
    observation=st.just("carried"),
    success_micro=counts,
    failure_micro=counts,
    pulls=counts,
)
reset_lines = st.builds(
    ResetLine,
    id=names,
    arms=tuples_of(keys),
    target=st.sampled_from(["uniform", "prior"]),
    reason=maybe(words),
    scope=maybe(words),
    by=maybe(words),
    at_ms=moments,
    revision=maybe(counts),
    undone=st.booleans(),
)
arm_lines = st.builds(ArmLine, key=keys, label=maybe(words), token_cost=maybe(counts), prior=maybe(priors))
note_lines = st.builds(
    NoteLine,
    id=names,
    arm=keys,
    text=names.filter(str.strip),
    by=maybe(words),
    at_ms=moments,
    revision=maybe(counts),
    key=maybe(names),
    undone=st.booleans(),
)
any_line = made_runs() | run_lines() | reward_lines | reset_lines | arm_lines | note_lines


@pytest.fixture(scope="module")
def round_trip(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[Entry]], list[Entry]]:
    folder = tmp_path_factory.mktemp("lines")

    def there_and_back(made: list[Entry]) -> list[Entry]:
        return read(put(folder, b"".join(write(made))))  # type: ignore[arg-type]  # all but rejections

    return there_and_back


@given(made=st.lists(any_line, max_size=4))
def test_what_is_written_is_read_back_equal_and_in_order(
    round_trip: Callable[[list[Entry]], list[Entry]], made: list[Entry]
) -> None:
    assert round_trip([HEADER, *made]) == [HEADER, *made]


def test_inventories_are_shared_also_where_there_are_more_than_are_remembered(tmp_path: Path) -> None:
    inventory = Inventory(kind="declared", arms=(Arm(key="tool:fs:Read", token_cost=3),))
    made = [Run(uid=f"r{number}", inventory=inventory) for number in range(3)]
    found = runs(read(put(tmp_path, b"".join(write(made)))))
    assert len({id(run.inventory) for run in found}) == 1
    made = [
        Run(uid="r", inventory=Inventory(kind="declared", arms=(Arm(key=f"tool:fs:t{number}"),)))
        for number in range(5000)
    ]
    assert runs(read(put(tmp_path, b"".join(write(made))))) == made


# --- by hand ----------------------------------------------------------------------------------------------


def by_hand(folder: Path, **fields: object) -> list[Entry]:
    record = {"kind": "run", "uid": "r1", "arms": ["tool:fs:Read", "skill:pdf:main"], **fields}
    return read(put(folder, lines([record])))


def test_a_run_by_hand_needs_an_id_arms_and_calls_and_takes_a_selection(tmp_path: Path) -> None:
    (run,) = runs(by_hand(tmp_path, calls=["Read"], texts=["using pdf"]))
    assert (run.uid, run.format, run.unit, run.status) == ("r1", "armscope", "prompt", "completed")
    assert offered(run) == ["Read", "main"]
    assert detect(run).referenced == (True, True)
    entries = by_hand(tmp_path, selection=CHOSEN, **{"class": "selected"})
    assert [run.selection is not None for run in runs(entries)] == [True]


def test_a_time_may_be_written_as_people_do(tmp_path: Path) -> None:
    (run,) = runs(by_hand(tmp_path, ended_at="2026-01-02T03:00:00+01:00"))
    assert (run.ended_at_ms, run.naive_time) == (1767319200000, False)
    (naive,) = runs(by_hand(tmp_path, ended_at="2026-01-02"))
    assert (naive.ended_at_ms, naive.naive_time) == (1767312000000, True)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"arms": ["tool:fs"]}, "type:category:name"),
        ({"arms": ["gadget:fs:x"]}, "tool, skill, file, memory, section"),
        ({"arms": ["tool:fs:x", "tool:fs:x"]}, "twice"),
        ({"arms": [{"key": "tool:fs:x", "token_cost": -1}]}, "token_cost"),
        ({"arms": "tool:fs:x"}, "must be a list, got text"),
        ({"excluded": ["tool:fs:Read"]}, "in a run's prompt or left out"),
        ({"excluded": ["tool:fs:a", "tool:fs:a"]}, "excluded once"),
        ({"excluded": ["nonsense"]}, "type:category:name"),
        ({"uid": ""}, "uid"),
        ({"uid": 7}, "uid must be text"),
        ({"status": "fine"}, "status"),
        ({"token_cots": 7}, "token_cots"),
        ({"usage": {"input": -5}}, "usage.input"),
        ({"usage": {"input": 1e30}}, "usage.input"),
        ({"duration_ms": 10**30}, "duration_ms"),
        ({"ended_at": "yesterday"}, "ISO 8601"),
        ({"ended_at_ms": -1}, "ended_at_ms"),
        ({"reward": "high"}, "reward"),
        ({"calls": ["x" * 513]}, "at most 512 characters"),
        ({"calls": [{"name": "x" * 513}]}, "at most 512 characters"),
        ({"not_offered": ["x" * 513]}, "at most 512 characters"),
        ({"model": "x" * 513}, "at most 512 characters"),
    ],
)
def test_what_cannot_be_is_rejected_with_its_line_and_reason(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    (line,) = rejected(by_hand(tmp_path, **fields))
    assert line.line == 1
    assert reason in line.reason


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "reward", "id": "o", "arm": "tool:fs:x", "observation": "feedback", "reward": 1.7},
        {"kind": "reward", "id": "o", "arm": "tool:fs:x", "observation": "feedback"},
        {"kind": "reward", "id": "o", "arm": "tool:fs:x", "observation": "carried", "reward": 1.0},
        {"kind": "reward", "id": "", "arm": "tool:fs:x", "observation": "feedback", "reward": 1.0},
        {"kind": "reward", "id": "o", "arm": "x", "observation": "feedback", "reward": 1.0},
        {"kind": "reset", "id": "x", "arms": ["x"]},
        {"kind": "arm", "key": "tool:fs:x", "token_cost": -1},
        {**NOTE, "text": " "},
        {**NOTE, "text": "x" * 2001},
        {**NOTE, "arm": "no id"},
        {**NOTE, "id": ""},
        {**NOTE, "who": "x"},
        {"kind": "else"},
        {"uid": "r", "arms": []},
        [],
        7,
        {"kind": "arm", "key": "tool:a:b", "retired": False},  # documented once, and never kept
    ],
)
def test_other_lines_are_checked_too(tmp_path: Path, record: object) -> None:
    entries = read(put(tmp_path, b"".join(write([HEADER])) + lines([record])))
    assert entries[0] == HEADER
    assert [line.line for line in rejected(entries)] == [2]


def test_numbers_beyond_a_database_are_refused_when_made_too() -> None:
    with pytest.raises(InvalidInput, match="10\\^15"):
        RewardLine(
            id="o", arm="tool:fs:x", observation="carried", success_micro=10**18, failure_micro=0, pulls=0
        )
    with pytest.raises(InvalidInput, match="token_cost must be 0 or more"):
        ArmLine(key="tool:fs:x", token_cost=-1)
    with pytest.raises(InvalidInput, match="key must have"):
        RewardLine(id="o", arm="tool:fs:x", observation="feedback", reward=1.0, key="k" * 201)
    with pytest.raises(InvalidInput, match="key must have"):
        NoteLine(id="n", arm="tool:fs:x", text="slow", key="k" * 201)
    with pytest.raises(InvalidInput, match="feedback or a correction, got episode"):
        RewardLine(id="o", arm="tool:fs:x", observation="episode", reward=1.0, key="k")


def amid_sound_lines(folder: Path, **fields: object) -> str:
    """Why a line is rejected; the one before it and the one after it count."""
    sound = {"kind": "run", "arms": ["tool:fs:Read"], "calls": ["Read"]}
    told = [{**sound, "uid": "a"}, {**sound, "uid": "wrong", **fields}, {**sound, "uid": "b"}]
    database = folder / "runs.db"
    with open_learner(database) as learner:
        answer = learner.import_files(put(folder, lines(told)))
        assert answer.runs == 2
        assert [row.uid for row in queries.runs(learner.context)] == ["b", "a"]
    (line,) = answer.rejected
    assert line.line == 2
    return line.reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"revision": 10**18}, "selection.revision"),
        ({"budget_tokens": -1}, "budget_tokens"),
        ({"baseline_prob": 1e300}, "baseline_prob"),
        ({"baseline_prob": 7}, "baseline_prob"),
        ({"baseline_prob": -3}, "baseline_prob"),
        ({"seed": "abc"}, "seed must be a whole number"),
        ({"seed": str(2**128)}, "2^128 - 1"),
        ({"seed": "9" * 5_000}, "2^128 - 1"),
        ({"run_class": "baseline"}, "class must be its selection's"),
        ({"decisions": [{**READ, "arm": "tool:web:x"}]}, "'tool:web:x', which is neither"),
        ({"decisions": [READ, {**READ, "rank": 2}]}, "decide an arm once"),
        ({"decisions": [READ, {**READ, "arm": "bad key", "included": False}]}, "type:category:name"),
        ({"decisions": [{**READ, "token_cost": -5}]}, "token_cost"),
        ({"decisions": [{**READ, "token_cost": 10**13}]}, "token_cost"),
        ({"decisions": [{**READ, "draw": 55.5}]}, "draw"),
        ({"decisions": [{**READ, "rank": -1}]}, "rank"),
        ({"decisions": [{**READ, "budget_left": 10**16}]}, "budget_left"),
    ],
)
def test_a_selection_that_cannot_be_is_one_rejected_line(
    tmp_path: Path, changed: dict[str, object], reason: str
) -> None:
    fields = {"class": "selected", "selection": {**CHOSEN, **changed}}
    assert reason in amid_sound_lines(tmp_path, **fields)


@pytest.mark.parametrize(
    ("references", "reason"),
    [
        ([{**SEEN, "arm": "skill:x:main"}], "not in the prompt, 'skill:x:main'"),
        ([SEEN, {**SEEN, "excerpt": "b"}], "two references to the same arm"),
        ([{**SEEN, "excerpt": "x" * 161}], "at most 160 characters"),
    ],
)
def test_a_reference_that_cannot_be_is_one_rejected_line(
    tmp_path: Path, references: list[object], reason: str
) -> None:
    fields = {"outcome": "observed", "referenced": ["tool:fs:Read"], "references": references}
    assert reason in amid_sound_lines(tmp_path, **fields)


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "reward", "id": "o1", "arm": "tool:fs:Read", "observation": "feedback", "reward": 1.0},
        {"kind": "reward", "id": "o1", "arm": "tool:fs:Read", "observation": "feedback", "reward": 1.7},
        {"kind": "reset", "id": "x1", "arms": ["tool:fs:Read"]},
        NOTE,
        {"kind": "arm", "key": "tool:fs:Read"},
        {"kind": "learner", "armscope": 1, "name": "default"},
    ],
    ids=["reward", "reward that is wrong", "reset", "note", "arm", "learner"],
)
def test_a_file_without_a_run_is_recognised_by_any_kind_of_line(
    tmp_path: Path, record: dict[str, object]
) -> None:
    assert recognise(put(tmp_path, lines([record]))) == "armscope"


def test_many_arms_before_the_first_run_are_recognised(tmp_path: Path) -> None:
    declared = [{"kind": "arm", "key": f"tool:fs:t{number}"} for number in range(100)]
    run = {"kind": "run", "uid": "r", "arms": ["tool:fs:t1"]}
    assert len(runs(read(put(tmp_path, lines([*declared, run]))))) == 1


@pytest.mark.parametrize(
    "record", [{"kind": "arm", "id": 7}, {"kind": "event", "id": "x", "arms": []}, {"id": "o", "arm": "x"}]
)
def test_another_kind_of_line_is_not_claimed(tmp_path: Path, record: dict[str, object]) -> None:
    assert recognise(put(tmp_path, lines([record]))) is None


def test_a_newer_version_is_refused_with_the_next_step(tmp_path: Path) -> None:
    path = put(tmp_path, lines([{"armscope": 2, "kind": "learner", "name": "x", "new": 1}]))
    with pytest.raises(UnreadableSource, match="must be of version 1, got 2"):
        read(path)


def test_our_files_name_their_own_units(tmp_path: Path) -> None:
    path = put(tmp_path, b"".join(write([HEADER])))
    assert open_sources([path]).sources[0].unit is None
    with pytest.raises(InvalidInput, match="unit must be left out"):
        open_sources([path], unit="turn")


def _documentation() -> str:
    text = guide.path_of("import").read_text(encoding="utf-8")
    return text[text.index("## Our own lines") : text.index("## Reward tables")]


def test_the_documentation_names_every_field() -> None:
    text = _documentation()
    own = (armscope._Run, ArmLine, RewardLine, RewardReply, ResetLine, NoteLine, LearnerLine, RewardContext)
    for record in own:
        for field in msgspec.structs.fields(record):
            assert f"`{field.encode_name}`" in text or f'"{field.encode_name}"' in text, field.encode_name


def test_the_examples_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    examples = re.findall(r'^\{.*"kind".*\}$', _documentation(), re.MULTILINE)
    entries = read(put(tmp_path, lines(json.loads(example) for example in examples)))
    assert len(entries) == 14
    assert rejected(entries) == []
