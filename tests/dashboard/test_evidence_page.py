"""The page of evidence: the finding with its counts, the repair and its way back, and what it says without data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import repair, undo
from core.flows.learn import record
from core.flows.queries.previews import ArmBelief, RepairedArm, RepairPreview
from core.flows.select import select
from core.flows.settings import change, in_force
from core.records.arm import Arm
from core.records.run import Inventory
from core.records.times import iso
from dashboard import wording
from dashboard.sentences import evidence as sentences
from dashboard.widgets import address
from dashboard.widgets.run.story import WHY_FOLD
from tests.dashboard.conftest import Open, said, unfold
from tests.dashboard.test_overview_page import FILES, HOSTILE_FILES, N_HOURS, sick
from tests.dashboard.worlds import NOON_MS
from tests.worlds import HOUR_MS, a_run

BREAK_MS = NOON_MS - 60 * HOUR_MS


def shown(open_page: Open, files: tuple[str, ...] = FILES, since_ms: int = BREAK_MS) -> AppTest:
    return open_page("evidence", **address.evidence(files, since_ms))


def pulls(context: Context) -> dict[str, int]:
    return {one.arm: one.pulls for one in queries.posteriors(context)}


def test_the_finding_has_its_counts_and_a_picture_and_too_few_make_no_claim(
    open_page: Open, database: Path
) -> None:
    sick(database)
    page = shown(open_page)
    title = page.title[0].value
    assert "2 files" in title
    assert "0 of 100 runs" in title
    assert "(before: 80 of 100)" in title
    assert any("120 of 120 observations" in str(one.value) for one in page.markdown)
    (chart,) = page.get("plotly_chart")
    assert "0 of 60 since" in chart.proto.alt
    assert "0 of 100 runs" in open_page("evidence", evidence_arm=FILES).title[0].value
    title = shown(open_page, since_ms=NOON_MS - HOUR_MS).title[0].value
    assert title.startswith("There are too few")


def test_the_counts_are_those_of_the_runs(database: Path) -> None:
    found = queries.evidence(sick(database), FILES, BREAK_MS)
    assert [(one.before.n, one.after) for one in found.arms] == [(N_HOURS - 60, (60, 0))] * 2
    assert sum(day.share.n for day in found.arms[0].days) == N_HOURS
    assert [(one.name, one.after) for one in found.hits["source"]] == [("recorded", (120, 0))]
    assert {one.used for one in found.examples} == {True, False}


def test_a_new_definition_near_the_change_is_named(open_page: Open, database: Path) -> None:
    context = sick(database)
    for number, hours in enumerate((-3, 3, 90)):
        arms = tuple(Arm(key=key, version=f"digest {number}") for key in FILES[:1])
        inventory = Inventory(kind="declared", arms=arms)
        record(context, a_run(f"defined {number}", at_ms=BREAK_MS + hours * HOUR_MS, inventory=inventory))
    page = said(shown(open_page)).replace("\\", "").replace("\u2060", "")
    assert f"first of 1 run with version digest 1 of {FILES[0]}" in page
    assert "digest 0" not in page, "the first one is no change"
    assert "digest 2" not in page, "days later"


def test_the_repair_is_one_click_and_one_back(open_page: Open, database: Path) -> None:
    context = sick(database)
    before = pulls(context)
    page = shown(open_page)
    page.button(key="do repair").click().run()
    assert not page.exception
    after = pulls(context)
    assert {arm: before[arm] - after[arm] for arm in before} == {
        arm: 60 if arm in FILES else 0 for arm in before
    }
    assert "120 observations taken back" in said(page)
    page.button(key="undo repair").click().run()
    assert pulls(context) == before
    assert "Take back 120 observations" in [one.label for one in page.button]
    assert queries.verify(context).clean


def test_a_refused_repair_says_so_at_its_button(open_page: Open, database: Path) -> None:
    context = sick(database)
    page = shown(open_page)
    repair(context, arms=FILES, since=iso(BREAK_MS) or "")
    page.button(key="do repair").click().run()
    assert not page.exception
    shown_now = [str(one.value) for one in page.markdown]
    (at,) = [at for at, text in enumerate(shown_now) if ":material/error:" in text]
    assert at > next(at for at, text in enumerate(shown_now) if "✓" in text)


def test_the_arms_are_excluded_with_one_click_and_let_back_in(open_page: Open, database: Path) -> None:
    context = sick(database)
    page = shown(open_page)
    page.button(key="do exclusion").click().run()
    assert not page.exception
    assert in_force(context).excluded_arms == FILES
    assert not {*FILES} & {*select(context).included}
    assert "2 arms excluded from" in said(page)
    assert "No prompt includes them" in said(page)
    undo_now = next(one for one in page.button if str(one.key).startswith("undo result setting-"))
    undo_now.click().run()
    assert in_force(context).excluded_arms == ()
    change(context, "excluded_arms", ["tool:x:other", FILES[0]])
    page = shown(open_page)
    assert "1 of 2 arms" in said(page)
    page.button(key="do exclusion").click().run()
    assert in_force(context).excluded_arms == ("tool:x:other", *FILES)
    for name in ("posteriors", "arm"):
        assert explained.EXCLUDED in said(open_page(name, arm=FILES[0]))
    page = shown(open_page)
    assert page.button(key="do exclusion").label.startswith("Let these arms")
    page.button(key="do exclusion").click().run()
    assert in_force(context).excluded_arms == ("tool:x:other",)
    assert "2 arms may be" in said(page)
    assert queries.verify(context).clean


def test_a_refused_exclusion_says_so_at_its_button(open_page: Open, database: Path) -> None:
    context = sick(database)
    change(context, "seed_arms", list(FILES[:1]))
    page = shown(open_page)
    page.button(key="do exclusion").click().run()
    assert not page.exception
    assert "Nothing was excluded. excluded" in said(page).replace("\\", "")
    page = shown(open_page)
    change(context, "excluded_arms", ["tool:x:other"])
    page.button(key="do exclusion").click().run()
    assert in_force(context).excluded_arms == ("tool:x:other",), "another user changed it meanwhile"


def test_pages_name_the_repair_of_an_observation(open_page: Open, database: Path) -> None:
    context = sick(database)
    taken = repair(context, arms=FILES, since=iso(BREAK_MS) or "").id
    newest, older = (queries.arm_ledger(context, FILES[0]).rows[0], queries.run(context, "run-100"))
    assert (newest.taken_back_by, newest.counts, newest.mean_moved) == (taken, False, 0)
    assert not older.repairs
    story = queries.run(context, newest.run or "")
    assert {one.arm for one in story.arms if one.taken_back_by == taken} == {*FILES}
    page = unfold(open_page("run", run=newest.run or ""), WHY_FOLD)
    observed = page.dataframe[0].value.set_index("arm")["observed"]
    assert sorted(observed) == sorted(["● 1.0", "× 0.0", *[f"not judged: {taken} took back 0.0"] * 2])
    verdict = explained.verdict(story)
    assert taken.capitalize() in verdict
    assert wording.literal(verdict) in said(page)
    assert see(page, taken) == 1
    page = open_page("arm", arm=FILES[0])
    assert {*page.dataframe[-1].value["source"]} == {f"not judged: {taken}"}
    assert see(page, taken) == 2
    undo(context, taken)
    page = unfold(open_page("run", run=newest.run or ""), WHY_FOLD)
    assert see(page, taken) == 0


def test_a_taken_back_one_shows_its_reward(database: Path) -> None:
    context = sick(database, ill_for=0)
    repair(context, arms=FILES, since=iso(BREAK_MS) or "")
    rewards = [one.reward for one in queries.arm_ledger(context, FILES[0]).rows]
    assert set(rewards) == {0.0, 1.0}


def see(page: AppTest, taken: str) -> int:
    """Return the number of links to a repair."""
    return [str(link.proto.label) for link in page.get("page_link")].count(f"See {wording.literal(taken)}")


def test_an_address_without_a_change_says_what_to_do(open_page: Open, database: Path) -> None:
    sick(database)
    for arms in ((), ("tool:other:missing",), ("tool:fs:Read",)):
        page = open_page("evidence", evidence_arm=arms)
        assert not page.exception
        assert not page.get("plotly_chart"), arms
        assert any("Overview" in str(link.proto.label) for link in page.get("page_link")), arms


def test_hostile_names_stay_text(open_page: Open, database: Path) -> None:
    sick(database, files=HOSTILE_FILES)
    page = shown(open_page, HOSTILE_FILES)
    assert not page.exception
    assert "<script>" not in said(page)


@given(st.integers(1, 90), st.integers(0, 90), st.integers(0, 9))
def test_a_repair_s_numbers_add_up(n_pulls: int, n_light: int, n_earlier: int) -> None:
    """Observations of an arm = its pulls, those that weigh less, and those of an ended epoch."""
    now = ArmBelief(
        alpha=1.0,
        beta=1.0,
        mean=0.5,
        lower=0.0,
        upper=1.0,
        pulls=100,
        band="very_high",
        rank=1,
        chance=None,
        chance_error=None,
    )
    n = n_pulls + n_light + n_earlier
    arm = RepairedArm("tool:a:b", n, 0, n_earlier, now, replace(now, pulls=100 - n_pulls))
    words = sentences.repair_effect(RepairPreview(0, 1, n, 0, (arm,)), starts_then=True)
    assert (f" {n_light} of them weigh" in words) == bool(n_light)
    assert (f" {n_earlier} of them were" in words) == bool(n_earlier)
