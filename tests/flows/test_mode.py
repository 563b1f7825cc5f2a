"""The detection mode of a learner: a setting like any other, with its own seed arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidSetting
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change, change_all, in_force
from core.records.arm import Arm, skill_key
from core.records.candidate import file_candidate, skill_candidate, tool_candidate
from core.records.learner import DEFAULT_SEEDS, OPENCLAW_SEEDS, LearnerSettings
from core.records.run import Call, Inventory, Run
from tests.worlds import a_run, context_at


def test_seeds_that_nobody_chose_follow_the_mode(context: Context) -> None:
    answer = change(context, "mode", "openclaw")
    assert answer.id is not None
    assert queries.frame(context).settings == LearnerSettings(mode="openclaw", seed_arms=OPENCLAW_SEEDS)
    assert [entry.action for entry in queries.changes(context)] == ["setting"]
    undo(context, answer.id)
    assert queries.frame(context).settings == LearnerSettings(seed_arms=DEFAULT_SEEDS)


def test_seeds_that_somebody_chose_stay(context: Context) -> None:
    change(context, "seed_arms", ["tool:fs:Read"])
    change(context, "mode", "openclaw")
    assert queries.frame(context).settings.seed_arms == ("tool:fs:Read",)


def test_an_excluded_arm_stays_out_where_it_becomes_a_seed(context: Context) -> None:
    """A change to both is refused. An undo or a mode may bring both together."""
    late = OPENCLAW_SEEDS[-1]
    with pytest.raises(InvalidSetting, match="excluded_arms must name no arm of seed_arms, got") as raised:
        change(context, "excluded_arms", ["tool:x:a", DEFAULT_SEEDS[0]])
    assert raised.value.next_step is not None
    assert "Take it out" in raised.value.next_step
    assert in_force(context).excluded_arms == ()
    change(context, "excluded_arms", [late])
    change(context, "mode", "openclaw")
    assert late in in_force(context).seed_arms
    change(context, "k", 5)
    offered = [Arm(key=late), Arm(key="tool:x:b")]
    assert late not in select(context, offered).included
    with pytest.raises(InvalidSetting):
        change(context, "seed_arms", [late])
    moved = change_all(context, {"seed_arms": [late], "excluded_arms": ["tool:x:b"]})
    assert select(context, offered).included == (late,)
    undo(context, moved[1].id or "")
    assert late not in select(context, offered).included
    assert queries.verify(context).clean
    change(context, "phase", "passive")
    assert set(select(context, offered).included) == {late, "tool:x:b"}, "nothing is left out"
    document = LearnerSettings(excluded_arms=("tool:x:b",)).document()
    assert document["excluded_arms"] == ("tool:x:b",)
    assert "excluded_arms" not in LearnerSettings().document(), "older versions read the file"


@pytest.mark.parametrize("seeds", [None, list(DEFAULT_SEEDS), ["tool:web:WebFetch"]])
def test_mode_and_seeds_go_along_with_an_export(
    context: Context, tmp_path: Path, seeds: list[str] | None
) -> None:
    change(context, "mode", "openclaw")
    if seeds is not None:
        change(context, "seed_arms", seeds)
    record(context, a_run("one"))
    export_file(context, tmp_path / "runs.jsonl")
    other = context_at(tmp_path / "other.db", learner="copy")
    import_files(other, [tmp_path / "runs.jsonl"])
    assert queries.frame(other).settings == queries.frame(context).settings


def test_openclaws_seeds_are_selected_from_its_candidates(context: Context) -> None:
    change(context, "mode", "openclaw")
    change(context, "baseline_rate", 0.0)
    offered = [
        tool_candidate({"name": "WebFetch", "parameters": {}}),
        skill_candidate("coding", 4_000),
        file_candidate("README.md", "x" * 4_000),
    ]
    chosen = select(context, offered, budget_tokens=1_000)
    assert [(one.arm, one.reason) for one in chosen.decisions if one.reason in {"seed", "budget"}] == [
        ("tool:web:WebFetch", "seed"),
        *[(one.arm, "budget") for one in chosen.decisions[1:]],
    ]
    assert chosen.tokens == offered[0].token_cost


def test_a_run_is_judged_by_the_mode_in_force(context: Context) -> None:
    inventory = Inventory(kind="declared", arms=(Arm(key=skill_key("go")),))

    def told(uid: str) -> Run:
        return Run(uid=uid, inventory=inventory, calls=(Call(name="Read"),), texts=("categories",))

    record(context, told("one"))
    change(context, "mode", "openclaw")
    record(context, told("two"))
    (posterior,) = queries.posteriors(context)
    assert (posterior.alpha, posterior.beta) == (4.0, 2.0)
