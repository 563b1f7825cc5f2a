"""Findings: each kind of attention row opens a page with its own numbers, and the act that fits or why none does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, get_args

import msgspec
import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context, utc_now_ms
from core.flows.experiments import start_experiment
from core.flows.importing.files import import_files
from core.flows.learn import record, record_all, reward_all
from core.flows.queues import add_queue
from core.flows.settings import change
from core.maths.statistics.overview import AttentionKind
from core.records.actor import Actor
from core.records.observation import RewardOrder
from core.records.run import Run, RunClass
from core.records.times import DAY_MS, HOUR_MS
from dashboard.sentences import evidence as sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.widgets.evidence import CHANGES
from dashboard.widgets.findings import KINDS
from dashboard.widgets.overview.attention import finding_address
from tests.dashboard.conftest import Open, check, press, rendered, texts
from tests.dashboard.test_episodes_pages import attempt, hacked, tell
from tests.dashboard.test_overview_page import FILES, SEARCH, sick
from tests.dashboard.worlds import NOON_MS, context_at
from tests.flows.test_changes import left_out, searched
from tests.flows.test_evaluations_read import panel
from tests.flows.test_experiments import ARM, Clock, always, live
from tests.flows.test_sources import month as rewarded
from tests.worlds import START_MS, a_run, lines_file, run_line
from tests.worlds.months import FIRST_MS, PLANTED, Played

ACTS: Final = ("do ", "take all back", "set ", "leave out")
"""Beginnings of the keys of buttons that act."""
OPERATOR: Final = Actor(name="rita", role="operator")


def broken(path: Path) -> Context:
    """Poison and a drift, arms of old and in vain, a new one, a queue, a burst of rewards and a bad line."""
    context = sick(path)
    for n in range(30):
        for days, arms, calls in ((20, ["old"], ["old"]), (1, ["old"], []), (1, ["busy", "idle"], ["busy"])):
            record(context, a_run(f"{days} {arms} {n}", arms, calls, at_ms=NOON_MS - days * DAY_MS + n))
    record(context, a_run("new", ("new",), at_ms=NOON_MS))
    add_queue(context, "late", due_days=0)
    at_noon = replace(context, clock=lambda: NOON_MS, actor=OPERATOR)
    reward_all(at_noon, [RewardOrder(arm="tool:fs:Read", value=0.0)] * 60)
    lines = run_line("good", ended_at_ms=NOON_MS), {"kind": "run", "uid": 3}
    import_files(context, [lines_file(path.with_name("bad.jsonl"), *lines)])
    return context


def runs_of(path: Path, runs: Iterable[Run]) -> Context:
    context = context_at(path)
    record_all(context, list(runs))
    return context


def month(path: Path, name: str, n_days: int, seed: int) -> Context:
    """Days of a planted month, the last of which ends today."""
    later_ms = (utc_now_ms() // DAY_MS - n_days) * DAY_MS - FIRST_MS
    runs = [run for day in Played(PLANTED[name], seed).days(n_days) for run in day]
    later = [msgspec.structs.replace(run, ended_at_ms=(run.ended_at_ms or 0) + later_ms) for run in runs]
    return runs_of(path, later)


def rejecting(path: Path) -> Context:
    context = context_at(path)
    rewarded(context)
    for day in range(5, 30):
        at_day = replace(context, clock=partial(int, START_MS + day * DAY_MS), actor=OPERATOR)
        reward_all(at_day, [RewardOrder(arm="tool:other:a", value=0.0)] * 3)
    return context


def harmed(path: Path) -> Context:
    clock = Clock()
    context = replace(context_at(path), clock=clock)
    live(context, clock, 150, always(0.5, 0.5))
    n = start_experiment(context, ARM, smallest=40, hours=1, days=0).plan.n_planned
    live(context, clock, 3 * n, always(0.05, 0.95), first=1_000)
    return context


def dear(
    path: Path, *, factors: tuple[float, float] = (1.4, 1.4), prob: float = 0.2, n_rare: int = 0
) -> Context:
    """Runs of two models, with other tokens where selected; one in five is a baseline run."""
    chance = np.random.default_rng(8)
    runs = []
    for number in range(700 + n_rare):
        is_baseline = number < 700 and number % 5 == 0
        model = "ab"[number % 2] if number < 700 else "rare"
        factor = 1.0 if is_baseline else factors[number % 2]
        tokens = None if number % 50 == 7 else round(20_000 * chance.lognormal(0, 0.1) * factor)
        run = a_run(f"r{number}", at_ms=START_MS + number * HOUR_MS, tokens=tokens, model=model)
        chosen = left_out(run, "tool:other:z").selection
        kind: RunClass = "baseline" if is_baseline else "selected"
        coin = None if chosen is None else msgspec.structs.replace(chosen, run_class=kind, baseline_prob=prob)
        runs.append(msgspec.structs.replace(run, run_class=kind, selection=coin, excluded=("tool:other:z",)))
    return runs_of(path, runs)


def passive(path: Path) -> Context:
    context = dear(path)
    change(context, "phase", "passive")
    return context


WORLDS: Final[Mapping[str, tuple[Callable[[Path], Context], set[AttentionKind]]]] = {
    "broken": (
        broken,
        {
            *("poisoned", "drifting", "silent", "stale_arms", "never_referenced", "under_explored"),
            *("queue_overdue", "reward_burst", "rejected_lines", "no_baseline_runs"),
        },
    ),
    "rival": (lambda path: runs_of(path, searched(share=0.5)), {"rival"}),
    "rising": (lambda path: runs_of(path, searched(joins=False, becomes=0.98)), {"rising"}),
    "mix": (lambda path: month(path, "mixabrupt", 57, 31), {"mix_changed", "savings_not_proven"}),
    "model": (lambda path: month(path, "modelswitch", 54, 34), {"new_model"}),
    "month's end": (lambda path: month(path, "monthend", 28, 41), {"fell_together"}),
    "feed": (lambda path: month(path, "feedstop", 60, 38), {"feed_silent"}),
    "raters": (lambda path: panel(path).context, {"raters_part"}),
    "rejecting": (rejecting, {"rewards_apart"}),
    "harmed": (harmed, {"experiment_harms"}),
    "environments": (
        lambda path: tell(path, *(attempt(n, wins=n < 60) for n in range(120)), *map(hacked, range(20))),
        {"reward_hacked", "success_fell"},
    ),
    "dear": (dear, {"costs_more", "unknown_usage"}),
    "unfair": (lambda path: dear(path, prob=0.5), {"baseline_share_off"}),
    "dear in part": (
        lambda path: dear(path, factors=(0.4, 1.4), n_rare=250, prob=0.147),
        {"part_costs_more", "uncompared"},
    ),
    "passive": (passive, {"passive"}),
}


def test_every_kind_is_planted_and_has_a_page_with_an_act_or_the_reason() -> None:
    assert set(KINDS) == set(sentences.WHY) == set(get_args(AttentionKind))
    assert set[str]().union(*(kinds for _, kinds in WORLDS.values())) == set(KINDS)
    repaired = CHANGES - {"mix_changed"}
    without = [kind for kind, one in KINDS.items() if one.act is None and kind not in repaired]
    assert [kind for kind in without if not sentences.WHY[kind].startswith("No act")] == []


def plain(words: str) -> str:
    """Return text without Markdown's escapes and word joiners, in small letters."""
    return re.sub(r"[\\\u2060*]", "", words).casefold()


@pytest.mark.parametrize("name", WORLDS)
def test_a_row_leads_to_its_numbers_and_to_its_act(open_page: Open, database: Path, name: str) -> None:
    plant, kinds = WORLDS[name]
    context = plant(database)
    rows, saved = queries.overview(context).attention, queries.savings(context)
    last_ms = queries.frame(context).last_at_ms
    assert kinds <= {row.kind for row in rows}
    for row in (one for one in rows if one.kind in kinds):
        claim = overview_sentences.attention(row, saved, min_pulls=5, year_of_ms=last_ms)
        page = open_page("evidence", **finding_address(row))
        words = plain("\n".join(rendered(page)))
        assert plain(claim.claim) in words
        assert {*re.findall(r"\d[\d,.]*\d|\d", plain(claim.evidence))} <= {
            *re.findall(r"\d[\d,.]*\d|\d", words)
        }
        assert plain(sentences.WHY[row.kind]) in words
        acts: list[object] = [
            one for one in page.button if str(one.key).startswith(ACTS) and not one.disabled
        ]
        acts += [*page.code, *(one for one in page.get("button_group") if "act on" in str(one))]
        assert bool(acts) or sentences.WHY[row.kind].startswith("No act"), row.kind
        assert page.dataframe or page.table or page.get("plotly_chart"), row.kind


def at(context: Context, arm: str) -> float:
    return {one.arm: one.mean for one in queries.posteriors(context)}[arm]


def gone_and_back(page: AppTest, context: Context, kind: AttentionKind, label: str) -> None:
    """Press the act; the row is gone, the page shows the result, and its undo brings the row back."""
    before = queries.overview(context).attention
    press(page, label)
    assert kind not in {row.kind for row in queries.overview(context).attention}
    assert any("finding is" in text for text in texts(page))
    next(button for button in page.button if str(button.key).startswith("undo result")).click().run()
    check(page)
    assert queries.overview(context).attention == before
    assert label in " ".join(button.label for button in page.button)
    assert queries.verify(context).clean


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("broken", "stale_arms", "Exclude this arm"),
        ("raters", "raters_part", "Take back 60 evaluations"),
        ("rejecting", "rewards_apart", "Take back 75 rewards"),
        ("environments", "reward_hacked", "Leave its episodes out"),
        ("passive", "passive", "Make it active"),
    ],
)
def test_an_act_ends_the_finding_and_its_undo_brings_it_back(
    open_page: Open, database: Path, name: str, kind: AttentionKind, label: str
) -> None:
    context = WORLDS[name][0](database)
    (row,) = [one for one in queries.overview(context).attention if one.kind == kind]
    gone_and_back(open_page("evidence", **finding_address(row)), context, kind, label)


def test_the_main_button_moves_the_means_towards_the_truth(open_page: Open, database: Path) -> None:
    """The truth of the searching tool fell from .9 to .5. That of the files stays .8; their detector broke."""
    context = sick(database)
    for arms, truth in (((SEARCH,), 0.5), (FILES, 0.8)):
        (row,) = [one for one in queries.overview(context).attention if one.arms == arms]
        before = [abs(at(context, arm) - truth) for arm in arms]
        page = open_page("evidence", **finding_address(row))
        assert any("may be real" in text for text in texts(page)) == (row.kind == "drifting")
        page.button(key="do repair").click().run()
        check(page)
        after = [abs(at(context, arm) - truth) for arm in arms]
        assert all(now < 0.03 < was for now, was in zip(after, before, strict=True))
        assert row.kind not in {one.kind for one in queries.overview(context).attention}
