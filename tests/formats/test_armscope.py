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

from core.detect import detect
from core.errors import InvalidInput, UnreadableSource
from core.formats import Entry, open_sources
from core.formats.armscope import write
from core.records.arm import ARM_TYPES, Arm, Prior
from core.records.evidence import Reference
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
from core.records.run import RUN_CLASSES, Call, Inventory, InventoryKind, Run, Status, Unit, Usage
from core.records.selection import REASONS, Decision, Selection
from core.records.verdict import Outcome
from tests.formats.builders import lines, offered, put, read, rejected, runs

# --- anything a learner can hold --------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
keys = st.builds(
    "{}:{}:{}".format, st.sampled_from(ARM_TYPES), names.map(lambda n: n.replace(":", "-")), names
)
counts = st.integers(0, 10**12)
finite = st.floats(allow_nan=False, allow_infinity=False)
rewards = st.floats(0, 1)


T = TypeVar("T")


def maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | strategy


def tuples_of(strategy: st.SearchStrategy[T], highest: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, max_size=highest).map(tuple)


priors = st.builds(Prior, alpha_micro=st.integers(1, 10**9), beta_micro=st.integers(1, 10**9))
arms = st.builds(
    Arm, key=keys, label=maybe(words), token_cost=maybe(counts), content=maybe(words), prior=maybe(priors)
)
usages = st.builds(
    Usage, input=counts, output=counts, cache_read=counts, cache_write=counts, total=maybe(counts)
)
decisions = st.builds(
    Decision,
    arm=keys,
    included=st.booleans(),
    reason=st.sampled_from(REASONS),
    rank=counts,
    token_cost=counts,
    draw=maybe(rewards),
    budget_left=maybe(counts),
)
selections = st.builds(
    Selection,
    run_class=st.sampled_from(["baseline", "selected", "passive", "fallback"]),
    decisions=tuples_of(decisions),
    seed=words,
    baseline_prob=rewards,
    settings_hash=words,
    revision=counts,
    budget_tokens=counts,
    over_budget=st.booleans(),
    guidance=maybe(words),
)


@st.composite
def made_runs(draw: st.DrawFn) -> Run:
    present = draw(st.lists(arms, max_size=4, unique_by=lambda arm: arm.key))
    left_out = draw(st.lists(keys, max_size=3, unique=True))
    here = {arm.key for arm in present}
    return draw(
        st.builds(
            Run,
            uid=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
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
            run_class=st.sampled_from(RUN_CLASSES),
            status=st.sampled_from(get_args(Status)),
            usage=maybe(usages),
            duration_ms=maybe(counts),
            prompt_chars=maybe(counts),
            reward=maybe(finite),
            calls=tuples_of(st.builds(Call, name=words, metadata=words)),
            texts=tuples_of(words),
            excluded=st.just(tuple(key for key in left_out if key not in here)),
            referenced=maybe(tuples_of(keys)),
            not_offered=tuples_of(words),
            empty=st.booleans(),
            selection=maybe(selections),
        )
    )


run_lines = st.builds(
    RunLine,
    run=made_runs(),
    outcome=st.sampled_from(get_args(Outcome)),
    phase=st.sampled_from(["active", "passive"]),
    references=tuples_of(
        st.builds(
            Reference, arm=keys, where=st.sampled_from(["text", "metadata", "given"]), excerpt=maybe(words)
        )
    ),
    n_calls=counts,
    n_real_calls=counts,
    revision=maybe(counts),
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
arm_lines = st.builds(
    ArmLine,
    key=keys,
    label=maybe(words),
    token_cost=maybe(counts),
    prior=maybe(priors),
)
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
any_line = made_runs() | run_lines | reward_lines | reset_lines | arm_lines | note_lines

HEADER = LearnerLine(armscope=1, name="default", origin="here", settings=LearnerSettings(baseline_rate=0.25))


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


def test_runs_of_one_inventory_share_it(tmp_path: Path) -> None:
    inventory = Inventory(kind="declared", arms=(Arm(key="tool:fs:Read", token_cost=3),))
    made = [Run(uid=f"r{number}", inventory=inventory) for number in range(3)]
    found = runs(read(put(tmp_path, b"".join(write(made)))))
    assert len({id(run.inventory) for run in found}) == 1


def test_more_inventories_than_are_remembered(tmp_path: Path) -> None:
    made = [
        Run(uid="r", inventory=Inventory(kind="declared", arms=(Arm(key=f"tool:fs:t{number}"),)))
        for number in range(5000)
    ]
    assert runs(read(put(tmp_path, b"".join(write(made))))) == made


# --- by hand ----------------------------------------------------------------------------------------------


def by_hand(folder: Path, **fields: object) -> list[Entry]:
    record = {"kind": "run", "uid": "r1", "arms": ["tool:fs:Read", "skill:pdf:main"], **fields}
    return read(put(folder, lines([record])))


def test_a_run_by_hand_needs_an_id_arms_and_calls(tmp_path: Path) -> None:
    (run,) = runs(by_hand(tmp_path, calls=["Read"], texts=["using pdf"]))
    assert (run.uid, run.format, run.unit, run.status) == ("r1", "armscope", "prompt", "completed")
    assert offered(run) == ["Read", "main"]
    assert detect(run).referenced == (True, True)


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
        ({"arms": "tool:fs:x"}, "Expected `array`"),
        ({"excluded": ["tool:fs:Read"]}, "both in the prompt and excluded"),
        ({"excluded": ["tool:fs:a", "tool:fs:a"]}, "excluded arm twice"),
        ({"excluded": ["nonsense"]}, "type:category:name"),
        ({"uid": ""}, "uid"),
        ({"uid": 7}, "Expected `str`"),
        ({"status": "fine"}, "status"),
        ({"token_cots": 7}, "token_cots"),
        ({"usage": {"input": -5}}, "usage.input"),
        ({"usage": {"input": 1e30}}, "usage.input"),
        ({"duration_ms": 10**30}, "duration_ms"),
        ({"ended_at": "yesterday"}, "ISO 8601"),
        ({"ended_at_ms": -1}, "ended_at_ms"),
        ({"reward": "high"}, "reward"),
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


def test_a_selection_of_impossible_size_is_rejected(tmp_path: Path) -> None:
    selection = Selection(
        run_class="baseline", decisions=(), seed="1", baseline_prob=0.1, settings_hash="h", revision=10**18
    )
    (line,) = rejected(by_hand(tmp_path, selection=msgspec.to_builtins(selection)))
    assert "10^15" in line.reason


def test_a_newer_version_is_refused_with_the_next_step(tmp_path: Path) -> None:
    path = put(tmp_path, lines([{"armscope": 2, "kind": "learner", "name": "x", "new": 1}]))
    with pytest.raises(UnreadableSource, match="must be of version 1, got 2"):
        read(path)


def test_our_files_name_their_own_units(tmp_path: Path) -> None:
    path = put(tmp_path, b"".join(write([HEADER])))
    assert open_sources([path]).sources[0].unit is None
    with pytest.raises(InvalidInput, match="unit must be left out"):
        open_sources([path], unit="turn")


def test_the_documentation_names_every_field() -> None:
    from core.formats import armscope  # noqa: PLC0415 - only its text is read

    text = armscope.__doc__ or ""
    own = (armscope._Run, ArmLine, RewardLine, RewardReply, ResetLine, NoteLine, LearnerLine, RewardContext)
    for record in own:
        for field in msgspec.structs.fields(record):
            assert f"``{field.encode_name}``" in text or f'"{field.encode_name}"' in text, field.encode_name


def test_the_examples_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    from core.formats import armscope  # noqa: PLC0415 - only its text is read

    examples = re.findall(r'``(\{[^`]*"kind".*?\})``', " ".join((armscope.__doc__ or "").split("\n")))
    entries = read(put(tmp_path, lines(json.loads(example) for example in examples)))
    assert len(entries) == 6
    assert rejected(entries) == []
