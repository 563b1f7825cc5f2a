"""Records check themselves when made: ids, priors, rewards, usage, runs; and what they say of a wrong one."""

from __future__ import annotations

import math
from fractions import Fraction
from math import nextafter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ArmscopeError, InvalidArm, InvalidInput, InvalidReward, InvalidSetting
from core.records.arm import ARM_TYPES, MAX_KEY_CHARS, MICRO, Arm, Prior, check_key, token_cost_of, tool_key
from core.records.learner import LearnerSettings, Priors
from core.records.observation import Amount, RewardOutcome, check_reward, reward_of
from core.records.run import Call, Inventory, Run, Usage
from core.records.selection import Decision, Selection

NOTHING = Inventory(kind="declared", arms=())

# Arm ids

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
heads = st.sampled_from(ARM_TYPES)

CATEGORIES = {
    "exec": "bash Shell run_tests execute",
    "fs": "ReadFile WRITE edit globber grep",
    "memory": "memory_add remember Recall",
    "web": "web fetch_url browse search_direct_flight",
    "messaging": "send_mail reply message",
    "other": "think prune mcp__fs__read",
}

BESIDE_MILLIONTHS = st.builds(
    lambda micro, towards: nextafter(micro / MICRO, towards),
    st.integers(1, MICRO - 1),
    st.sampled_from([0, 1]),
)

FS = Inventory(kind="declared", arms=(Arm(key="tool:fs:Read"),))


@given(heads, names.filter(lambda name: ":" not in name), names)
def test_an_id_keeps_its_three_parts(kind: str, category: str, name: str) -> None:
    arm = Arm(key=f"{kind}:{category}:{name}")
    assert (arm.type, arm.category, arm.name) == (kind, category, name)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "tool",
        "tool:fs",
        "tool::Read",
        "tool:fs:",
        "Tool:fs:Read",
        "agent:fs:Read",
        ":fs:Read",
        " tool:fs:Read",
        "tool:fs:a\nb",
        "tool:fs:a\x00b",
        "tool:fs:a\x1b[31m",
        "tool:fs:a\x7f",
        "tool:fs:a\x85b",
        "tool:fs:\ud800",
        "tool:f\ts:Read",
    ],
)
def test_what_is_no_id_is_refused_with_the_way_to_write_one(key: str) -> None:
    with pytest.raises(InvalidArm) as refused:
        check_key(key)
    assert refused.value.next_step
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "%{x}",
        ":material/x:",
        r"$\alpha$",
        "O'Brien",
        '"',
        "a:b:c",
        "../../etc",
        "日本",
    ],
)
def test_a_strange_name_is_a_name(name: str) -> None:
    assert Arm(key=f"file:workspace:{name}").name == name


def test_messages_about_an_id_are_bounded_and_its_length_counts_characters() -> None:
    longest = "tool:fs:" + "é" * (MAX_KEY_CHARS - 8)
    assert check_key(longest) == longest
    with pytest.raises(InvalidArm, match="got 513"):
        check_key(longest + "é")
    with pytest.raises(InvalidArm) as refused:
        check_key("agent:" + "x" * 100_000)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_tools_category_follows_the_start_of_its_name(category: str) -> None:
    for name in CATEGORIES[category].split():
        assert tool_key(name) == f"tool:{category}:{name}"


@given(st.text(max_size=200))
def test_four_characters_are_a_token_rounded_up(text: str) -> None:
    assert token_cost_of(text) == math.ceil(Fraction(len(text), 4))


@pytest.mark.parametrize("cost", [-1, 10**12 + 1])
def test_a_cost_is_a_count(cost: int) -> None:
    with pytest.raises(InvalidArm):
        Arm(key="tool:fs:Read", token_cost=cost)


def test_a_cost_of_zero_is_known_to_be_zero() -> None:
    assert Arm(key="tool:fs:Read", token_cost=0).token_cost == 0


# Priors


@pytest.mark.parametrize("parts", [(0, MICRO), (MICRO, 0), (-1, 1), (10**15 + 1, 1), (1, 10**30)])
def test_a_priors_parts_are_above_zero_and_fit(parts: tuple[int, int]) -> None:
    with pytest.raises(InvalidArm):
        Prior(alpha_micro=parts[0], beta_micro=parts[1])


def test_each_type_starts_where_the_rules_say() -> None:
    priors = Priors()
    assert {name: (priors.of(name).alpha, priors.of(name).beta) for name in ARM_TYPES} == {
        "tool": (3, 1),
        "skill": (3, 1),
        "memory": (3, 1),
        "file": (1, 1),
        "section": (1, 1),
    }


# Rewards


@given(st.integers(0, MICRO))
def test_millionths_are_exact(micro: int) -> None:
    amount = Amount.of(micro / MICRO)
    assert (amount.success_micro, amount.failure_micro, amount.rounded) == (micro, MICRO - micro, False)


@given(st.floats(0, 1) | BESIDE_MILLIONTHS, st.just(MICRO) | st.integers(1, 10**12))
def test_finer_rewards_are_rounded_half_even_as_the_decimals_they_were_written_as(
    reward: float, weight: int
) -> None:
    amount = Amount.of(reward, weight)
    exact = Fraction(repr(reward)) * weight
    assert amount.success_micro == round(exact)  # Python rounds a Fraction half to even
    assert amount.success_micro + amount.failure_micro == weight
    assert amount.rounded == (exact != amount.success_micro)


@pytest.mark.parametrize(
    ("reward", "success"),
    [
        (0, 0),
        (-0.0, 0),
        (1, MICRO),
        (0.0000005, 0),
        (0.0000015, 2),
        (0.0000025, 2),
        (0.0000035, 4),
        (5e-324, 0),
        (1 - 2**-53, MICRO),
        (1 / 3, 333_333),
        (2 / 3, 666_667),
    ],
)
def test_ties_go_to_the_even_millionth(reward: float, success: int) -> None:
    assert Amount.of(reward).success_micro == success


@pytest.mark.parametrize(
    "reward",
    [1.7, -0.1, 1 + 2**-52, -5e-324, math.nan, math.inf, -math.inf, 5, 10**400],
    ids=["1.7", "-0.1", "just above", "just below", "nan", "inf", "-inf", "5", "huge"],
)
def test_a_reward_outside_is_refused(reward: float) -> None:
    with pytest.raises(InvalidReward, match="0 to 1") as refused:
        check_reward(reward)
    assert refused.value.code == "invalid_reward"


@pytest.mark.parametrize("reward", [True, False, "0.5", None, 1j, [1]])
def test_what_is_no_number_is_no_reward(reward: object) -> None:
    with pytest.raises(InvalidReward):
        check_reward(reward)


@given(st.sampled_from(["accepted", "partial", "rejected", None]), st.floats(0, 1))
def test_a_number_wins_over_the_outcome_zero_too(outcome: RewardOutcome | None, value: float) -> None:
    assert reward_of(value, outcome) == value
    assert reward_of(0.0, outcome) == 0
    assert not math.copysign(1, reward_of(-0.0, outcome)) < 0


def test_outcomes_are_worth_what_the_rules_say() -> None:
    outcomes: list[RewardOutcome | None] = ["accepted", "partial", "rejected", None]
    assert [reward_of(None, outcome) for outcome in outcomes] == [1, 0.5, 0, 1]


# Usage and runs


@given(*[st.integers(0, 10**9)] * 4)
def test_parts_add_up_unless_the_source_says_a_total(
    first: int, second: int, third: int, fourth: int
) -> None:
    parts = {"input": first, "output": second, "cache_read": third, "cache_write": fourth}
    assert Usage(**parts).tokens == (sum(parts.values()) or None)
    assert Usage(**parts, total=7).tokens == 7


def test_nothing_but_zeros_is_unknown() -> None:
    assert Usage().tokens is None
    assert Usage(total=0).tokens is None
    assert Usage(input=3, total=0).tokens == 3
    assert Run(uid="r", inventory=NOTHING).tokens is None
    assert Run(uid="r", inventory=NOTHING, usage=Usage()).tokens is None


@pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write", "total"])
@pytest.mark.parametrize("value", [-1, 10**12 + 1])
def test_a_part_of_the_usage_is_a_count(name: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=f"usage.{name}"):
        Usage(**{name: value})


@pytest.mark.parametrize("reward", [-17.5, 0.0])
def test_an_environments_reward_has_any_scale(reward: float) -> None:
    assert Run(uid="r", inventory=NOTHING, reward=reward).reward == reward


def test_an_arm_stands_once_in_a_prompt_or_outside_it() -> None:
    arm = Arm(key="tool:fs:Read")
    with pytest.raises(InvalidInput, match="twice"):
        Inventory(kind="declared", arms=(arm, arm))
    with pytest.raises(InvalidInput, match="both"):
        Run(uid="r", inventory=Inventory(kind="declared", arms=(arm,)), excluded=("tool:fs:Read",))
    with pytest.raises(InvalidArm):
        Run(uid="r", inventory=NOTHING, excluded=("nonsense",))


def test_records_cannot_be_changed() -> None:
    for record, name in (
        (Arm(key="tool:fs:Read"), "key"),
        (Run(uid="r", inventory=NOTHING), "uid"),
        (Call(name="Read"), "name"),
        (LearnerSettings(), "baseline_rate"),
    ):
        with pytest.raises(AttributeError):
            setattr(record, name, getattr(record, name))


# Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("baseline_rate", -0.1),
        ("baseline_rate", 1.1),
        ("baseline_rate", math.nan),
        ("budget_tokens", -1),
        ("budget_tokens", 10**12 + 1),
        ("k", -1),
        ("min_pulls", -1),
        ("seed_arms", ["Read"]),
        ("phase", "sleeping"),
        ("mode", "other"),
        ("priors", {"tool": {"alpha_micro": 0, "beta_micro": 1}}),
        ("prices", {"": 3.0}),
        ("prices", {"a\nb": 3.0}),
        ("prices", {"m" * 201: 3.0}),
        ("prices", {"large": -0.01}),
        ("prices", {"large": math.inf}),
        ("prices", {f"m{number}": 1.0 for number in range(1_001)}),
        ("unheard_of", 1),
    ],
)
def test_a_setting_outside_what_is_allowed_is_refused(name: str, value: object) -> None:
    with pytest.raises((ArmscopeError, msgspec.ValidationError)):
        msgspec.convert({name: value}, LearnerSettings)


def test_zero_is_a_setting() -> None:
    settings = LearnerSettings(baseline_rate=0, budget_tokens=0, k=0, min_pulls=0)
    assert (settings.baseline_rate, settings.min_pulls) == (0, 0)
    assert msgspec.convert({"prices": {"own": 0, "large": 2.5}}, LearnerSettings).prices == {
        "own": 0,
        "large": 2.5,
    }
    with pytest.raises(InvalidSetting, match="baseline_rate"):
        LearnerSettings(baseline_rate=2)


# Selections


def test_a_selection_tells_what_is_in_what_is_out_and_what_it_costs() -> None:
    chosen = Selection(
        run_class="selected",
        seed="0",
        baseline_prob=0.1,
        settings_hash="h",
        revision=0,
        decisions=(
            Decision(arm="tool:a:a", included=True, reason="seed", rank=1, token_cost=0),
            Decision(arm="tool:a:b", included=False, reason="budget", rank=2, token_cost=500, draw=0.0),
            Decision(arm="tool:a:c", included=True, reason="draw", rank=3, token_cost=7, draw=0.5),
        ),
    )
    assert (chosen.included, chosen.excluded, chosen.tokens) == (("tool:a:a", "tool:a:c"), ("tool:a:b",), 7)
    assert chosen.decisions[1].draw == 0, "a draw of zero is a draw"


# What callers make is checked as lines are


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("uid", 5, "text"),
        ("uid", "", "1 to 512"),
        ("uid", "x" * 513, "1 to 512"),
        ("inventory", ["tool:fs:Read"], "Inventory"),
        ("format", None, "text"),
        ("format", "x" * 513, "512 characters"),
        ("unit", "day", "prompt, turn, episode"),
        ("unit", [], "prompt, turn, episode"),
        ("source", "x" * 513, "512 characters"),
        ("rank", None, "whole number"),
        ("rank", -1, "0 to 10\\^15"),
        ("session", 7, "text"),
        ("session", "x" * 513, "512 characters"),
        ("ended_at_ms", -1, "whole number from 0"),
        ("ended_at_ms", 253_402_300_800_000, "to 253402300799999"),
        ("ended_at_ms", 5.0, "got 5.0"),
        ("naive_time", 1, "True or False"),
        ("provider", b"x", "text"),
        ("model", 0, "got 0"),
        ("model", "x" * 513, "512 characters"),
        ("channel", "x" * 513, "512 characters"),
        ("run_class", "chosen", "baseline, selected"),
        ("status", "failed", "completed, aborted, error, got 'failed'"),
        ("status", None, "completed, aborted, error"),
        ("usage", {"input": 5}, "Usage"),
        ("duration_ms", -1, "duration_ms"),
        ("duration_ms", 10**12 + 1, "duration_ms"),
        ("duration_ms", 1.5, "whole number from 0 to 10\\^12, got 1.5"),
        ("duration_ms", True, "whole number"),
        ("duration_ms", "5", "whole number"),
        ("duration_ms", 10**4_000, "a huge whole number"),
        ("prompt_chars", 10**15 + 1, "10\\^15"),
        ("reward", "high", "finite number"),
        ("reward", math.nan, "finite"),
        ("reward", math.inf, "finite"),
        ("reward", -math.inf, "finite"),
        ("reward", 10**400, "a huge whole number"),
        ("calls", "Read", "tuple of Call"),
        ("calls", ("Read",), "of type Call"),
        ("calls", None, "tuple of Call"),
        ("calls", (Call(name="x" * 513),), "512 characters"),
        ("calls", (Call(name=5),), "text"),  # type: ignore[arg-type]
        ("calls", (Call(name="a", metadata=5),), "text"),  # type: ignore[arg-type]
        ("texts", "hello", "tuple of str"),
        ("texts", None, "tuple of str"),
        ("excluded", "tool:fs:Read", "tuple of str"),
        ("excluded", ("tool:a:b", "tool:a:b"), "twice"),
        ("referenced", (5,), "tuple of str"),
        ("not_offered", ("x" * 513,), "512 characters"),
        ("empty", 0, "True or False"),
        ("selection", "all", "Selection"),
    ],
)
def test_a_run_that_no_line_could_tell_is_refused(name: str, value: object, allowed: str) -> None:
    with pytest.raises(InvalidInput, match=allowed):
        Run(**{"uid": "r", "inventory": FS, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token_cost", 1.5),
        ("token_cost", True),
        ("label", 5),
        ("content", b"x"),
        ("prior", 3.0),
        ("key", None),
    ],
)
def test_an_arm_that_no_line_could_tell_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        Arm(**{"key": "tool:fs:Read", name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [12.0, "12", True, math.nan])
def test_usage_is_counted_in_whole_tokens(value: float) -> None:
    with pytest.raises(InvalidInput, match=r"usage.total must be a whole number"):
        Usage(total=value)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"usage.input must be a whole number"):
        Usage(input=None)  # type: ignore[arg-type]


def test_a_priors_parts_are_whole_millionths() -> None:
    with pytest.raises(InvalidArm, match=r"alpha_micro must be a whole number from 1 to 10\^15, got 1.5"):
        Prior(alpha_micro=1.5, beta_micro=1)  # type: ignore[arg-type]


def test_an_inventory_has_a_known_kind_and_arms() -> None:
    with pytest.raises(InvalidInput, match="declared, supplied, inferred"):
        Inventory(kind="guessed", arms=())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="tuple of Arm"):
        Inventory(kind="declared", arms=("tool:fs:Read",))  # type: ignore[arg-type]


def test_whole_numbers_and_texts_of_other_classes_become_plain_ones() -> None:
    run = Run(
        uid=np.str_("r"),
        inventory=Inventory(kind="declared", arms=[Arm(key="tool:fs:Read", token_cost=np.int64(7))]),  # type: ignore[arg-type]
        ended_at_ms=np.int64(5),  # type: ignore[arg-type]
        duration_ms=np.uint8(6),  # type: ignore[arg-type]
        model=np.str_("large"),
        reward=np.float32(0.5),  # type: ignore[arg-type]
        usage=Usage(input=np.int32(3), total=np.int64(4)),  # type: ignore[arg-type]
        calls=[Call(name=np.str_("Read"))],  # type: ignore[arg-type]
        texts=["hello"],  # type: ignore[arg-type]
    )
    plain = Run(
        uid="r",
        inventory=Inventory(kind="declared", arms=(Arm(key="tool:fs:Read", token_cost=7),)),
        ended_at_ms=5,
        duration_ms=6,
        model="large",
        reward=0.5,
        usage=Usage(input=3, total=4),
        calls=(Call(name="Read"),),
        texts=("hello",),
    )
    assert msgspec.json.encode(run) == msgspec.json.encode(plain)


def chosen_with(**changed: object) -> Selection:
    sound = {"run_class": "selected", "decisions": (), "seed": "1", "baseline_prob": 0.1}
    return Selection(**{**sound, "settings_hash": "h", "revision": 0, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_class", "imported"),
        ("decisions", ("tool:fs:Read",)),
        ("seed", 7),
        ("seed", "٣"),
        ("baseline_prob", math.nan),
        ("settings_hash", None),
        ("revision", 0.0),
        ("budget_tokens", 8000.0),
        ("k", -1),
        ("k", None),
        ("min_pulls", 5.0),
        ("over_budget", None),
        ("guidance", 5),
    ],
)
def test_a_selection_that_no_line_could_tell_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"A selection's {name} must"):
        chosen_with(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("arm", 5),
        ("included", 1),
        ("reason", "luck"),
        ("rank", 1.0),
        ("token_cost", None),
        ("draw", 1.5),
        ("budget_left", 0.5),
        ("chance", -0.1),
    ],
)
def test_a_decision_that_no_line_could_tell_is_refused_with_its_run(name: str, value: object) -> None:
    sound = {"arm": "tool:fs:Read", "included": True, "reason": "draw", "rank": 1, "token_cost": 0}
    decision = Decision(**{**sound, name: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="must"):
        Run(uid="r", inventory=FS, run_class="selected", selection=chosen_with(decisions=(decision,)))


def test_a_decisions_numbers_become_plain_ones() -> None:
    decision = Decision(
        arm="tool:fs:Read",
        included=True,
        reason="draw",
        rank=np.int64(1),  # type: ignore[arg-type]
        token_cost=0,
        draw=np.float32(0.5),  # type: ignore[arg-type]
    )
    run = Run(uid="r", inventory=FS, run_class="selected", selection=chosen_with(decisions=(decision,)))
    assert b'"rank":1,"token_cost":0,"draw":0.5' in msgspec.json.encode(run)
