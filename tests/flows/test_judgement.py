"""One judgement of each arm: what needs a look, the status and the doors say the same of the same arms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.settings import change
from core.records.arm import Arm
from core.records.judgement import ALARMS, Judgement
from core.records.run import Call, Inventory, Run
from core.records.run_query import View
from core.records.times import DAY_MS
from tests.worlds import START_MS, a_run, context_at

_RARE = "other:update_reservation_passengers"
DAY_0 = START_MS - START_MS % DAY_MS
RATES = {
    "tool:other:useful": (0.9, 0.9, 250),
    "tool:other:useless": (0.02, 0.02, 2_000),
    "tool:other:drifts": (0.85, 0.35, 50),
    "tool:other:rises": (0.3, 0.8, 50),
    "tool:other:never": (0.0, 0.0, 50),
    "file:workspace:one.md": (0.6, 0.0, 50),
    "file:workspace:two.md": (0.7, 0.0, 50),
    "section:system:Safety": (1.0, 1.0, 50),
    "tool:other:new": (0.5, 0.5, 50),
    "tool:fs:Read": (0.9, 0.9, 50),
}
"""Of each arm how often it is used before and after day 20, and what it costs."""


def planted(n_days: int = 30, a_day: int = 12) -> list[Run]:
    """Runs over thirty days; the newest arm is in the last eight only."""
    rng = np.random.default_rng(7)
    found = []
    for number in range(n_days * a_day):
        day = number // a_day
        offered = [key for key in RATES if key != "tool:other:new" or number >= n_days * a_day - 8]
        used = [key for key in offered if rng.random() < RATES[key][day >= 20]]
        calls = [Call(name="Bash"), *(Call(name=key.split(":")[2]) for key in used if key.startswith("tool"))]
        said = " ".join(key.split(":", 2)[2] for key in used if key.startswith("file"))
        found.append(
            Run(
                uid=f"r{number}",
                inventory=Inventory(
                    kind="declared", arms=tuple(Arm(key=key, token_cost=RATES[key][2]) for key in offered)
                ),
                calls=tuple(calls),
                texts=(said,),
                ended_at_ms=DAY_0 + number * DAY_MS // a_day,
            )
        )
    return found


@pytest.fixture
def context(context: Context) -> Context:
    record_all(context, planted())
    change(context, "budget_tokens", 400)
    return context


def test_every_arm_is_judged_as_it_was_planted(context: Context) -> None:
    found = {arm: one.name for arm, one in queries.judgements(context).items()}
    assert found == {
        "file:workspace:one.md": "poisoned",
        "file:workspace:two.md": "poisoned",
        "section:system:Safety": "section",
        "tool:fs:Read": "seed",
        "tool:other:drifts": "drifting",
        "tool:other:never": "never_referenced",
        "tool:other:new": "too_early",
        "tool:other:rises": "rising",
        "tool:other:useful": "worth",
        "tool:other:useless": "not_worth",
    }


def test_the_overview_and_the_status_name_the_arms_that_are_judged_to_need_a_look(context: Context) -> None:
    judged = queries.judgements(context)
    alarmed = {arm: one.name for arm, one in judged.items() if one.name in ALARMS}
    listed = {
        arm: item.kind
        for item in queries.overview(context).attention
        for arm in item.arms
        if item.kind in ALARMS
    }
    assert listed == alarmed
    counted = {name: list(alarmed.values()).count(name) for name in alarmed.values()}
    assert queries.status(context).judged == counted


def test_what_a_door_hands_out_is_the_judgement_with_its_evidence(context: Context) -> None:
    judged = queries.judgements(context)
    for told in queries.judged_posteriors(context):
        one = judged[told.arm]
        assert (told.judgement, told.chance, told.chance_error) == (one.name, one.chance, one.chance_error)
        assert (told.mean_since is None) == (one.recent is None)
        said = explained.judgement(one, since="then")
        assert said
        assert ("then" in said) == (one.recent is not None)
    (drifts,) = [one for one in queries.judged_posteriors(context) if one.arm == "tool:other:drifts"]
    assert drifts.mean_since is not None
    assert drifts.mean_before is not None
    assert drifts.mean_since < drifts.mean < drifts.mean_before
    assert [one.arm for one in queries.judged_posteriors(context, View(types=("file",)))] == [
        "file:workspace:one.md",
        "file:workspace:two.md",
    ]


def test_as_of_an_earlier_day_nothing_had_changed_yet(context: Context) -> None:
    found = queries.judgements(context, View(until_ms=DAY_0 + 20 * DAY_MS))
    assert not {one.name for one in found.values()} & {"poisoned", "drifting", "rising"}
    assert "tool:other:new" not in found


def test_an_arm_has_one_chance_whoever_asks(context: Context) -> None:
    seen = queries.inclusion(context)
    for one in queries.judgements(context).values():
        assert (one.chance, one.break_even) == (seen.arms[one.arm].chance, seen.arms[one.arm].break_even_mean)
    assert queries.judgements(context, inclusion=seen) == queries.judgements(context)


# Real transcripts: arms with a known inventory are judged, those known by their calls alone are not


def imported(shared_data: Path, folder: Path) -> Context:
    """Import runs of two benchmarks."""
    context, airline = context_at(folder / "a.db"), shared_data / "tau-bench"
    import_files(
        context, [airline / "gpt-4o-airline.trials-0-1.json.gz"], tools_file=airline / "airline-tools.json"
    )
    import_files(context, sorted((shared_data / "verifiers").glob("wiki-search--*.gz")))
    return context


@pytest.fixture(scope="module")
def judged(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    context = imported(shared_data, tmp_path_factory.mktemp("real"))
    import_files(context, [shared_data / "claude-code"])
    return queries.judgements(context)


def test_two_arms_of_old_runs_get_opposite_judgements(judged: dict[str, Judgement]) -> None:
    """The latest 25 runs are another program's. In their own, everything fits, so that no break-even exists."""
    often, rarely = judged["tool:web:search_pages"], judged["tool:other:update_reservation_passengers"]
    assert (often.name, rarely.name) == ("used_often", "used_seldom")
    assert (often.pulls, often.chance, often.no_break_even) == (387, 1.0, "always_in")
    assert explained.picked(often) in explained.judgement(often, since="")
    assert often.judged_by is not None
    assert rarely.judged_by is not None
    assert rarely.judged_by.upper < 0.12
    assert often.judged_by.lower > 0.98


def test_arms_that_the_agent_no_longer_offers_are_judged_by_belief(shared_data: Path, tmp_path: Path) -> None:
    """Selection runs for another program alone, so no break-even exists."""
    context = imported(shared_data, tmp_path)
    record_all(context, [a_run(f"own-{number}", "ab", run_class="selected") for number in range(25)])
    found = queries.judgements(context)
    words = [explained.judgement(found[f"tool:{arm}"], since="") for arm in ("web:search_pages", _RARE)]
    shares = ["used in at least 99 of 100 runs", "used in at most 8 of 100 runs"]
    assert words == [f"{share}; {explained.NOT_WEIGHED}" for share in shares]


def test_arms_of_inferred_inventories_are_not_judged(judged: dict[str, Judgement]) -> None:
    """A session without a list of its tools shows only those that it called."""
    bash = judged["tool:exec:Bash"]
    assert (bash.name, bash.called_only, bash.effective_pulls) == ("called_only", True, None)
    assert explained.judgement(bash, since="then") == (
        "called in 31 of 33 runs, last then; only called tools are known"
    )
    called = {arm for arm, one in judged.items() if one.called_only}
    assert len(called) == 19
    assert not {judged[arm].name for arm in called} & {
        "worth",
        "not_worth",
        "used_often",
        "used_seldom",
        "open",
    }
