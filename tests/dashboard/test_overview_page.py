"""The overview: its first sentence and number, learners in which something is wrong, and its change log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset, undo
from core.flows.learn import record_all, reward
from core.flows.queues import add_queue
from core.flows.settings import change
from core.maths.statistics.savings import Savings, savings
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, RunClass, Usage
from core.records.run_query import View
from dashboard import wording
from dashboard.figures.worth import Worth
from dashboard.report import gather, rendered, report
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from dashboard.widgets import address
from tests.dashboard.conftest import Open, check, said, texts, unfold
from tests.dashboard.worlds import NOON_MS, context_at, keys, runs, world
from tests.worlds.usage import Counted, usage_of

FILES = ("file:workspace:a.md", "file:workspace:b.md")
SEARCH = "tool:web:web_search"
HOSTILE_FILES = ("file:workspace::material/home:<script>", "file:workspace:$\\alpha$**b**")
HOUR_MS = 3_600_000
N_HOURS = 400
ARMS: Final = keys(8)


def run(number: int, arms: tuple[str, ...], referenced: tuple[str, ...], run_class: RunClass) -> Run:
    return Run(
        uid=f"run-{number}",
        inventory=Inventory(kind="declared", arms=tuple(Arm(key=key, token_cost=100) for key in arms)),
        ended_at_ms=NOON_MS - (N_HOURS - number) * HOUR_MS,
        run_class=run_class,
        status="completed",
        usage=Usage(input=9_000 + number % 7),
        calls=(Call(name="Read"),),
        referenced=referenced,
    )


def sick(
    path: Path, *, files: tuple[str, ...] = FILES, ill_for: int = 60, run_class: RunClass = "selected"
) -> Context:
    """Arms that four of five runs reference, until the files fall to nothing in the last hours; a tool drifts."""
    context = context_at(path)
    runs = []
    for number in range(N_HOURS):
        is_ill = number >= N_HOURS - ill_for
        used = () if is_ill else tuple(key for at, key in enumerate(files) if (number + at) % 5)
        searched = number % 2 == 0 if number > N_HOURS - 180 else number % 10 > 0
        used += (SEARCH,) if searched else ()
        runs.append(run(number, (*files, SEARCH, "tool:fs:Read"), (*used, "tool:fs:Read"), run_class))
    record_all(context, runs)
    return context


def test_poison_is_named_with_its_evidence_and_its_cure_and_drift_too(
    open_page: Open, database: Path
) -> None:
    sick(database)
    words = said(open_page())
    assert "**2 files look poisoned**" in words
    assert "120 of 120 observations since " in words
    assert f"{wording.literal('web:web_search')} is drifting" in words
    assert words.count("is drifting") == 2, "as a claim, and with its evidence"
    page = open_page("reset", **address.reset(FILES))
    assert "2 files" in said(page)
    assert any("reset 2 arms" in one.label for one in page.text_input)


def test_what_was_reset_is_not_named_again(open_page: Open, database: Path) -> None:
    context = sick(database)
    answer = reset(context, arms=FILES, reason="detector bug")
    assert "look poisoned**" not in said(open_page())
    undo(context, answer.id)
    assert "look poisoned**" in said(open_page())


def test_hostile_names_stay_text(open_page: Open, database: Path) -> None:
    sick(database, files=HOSTILE_FILES)
    words = said(open_page())
    assert "2 files look poisoned" in words
    assert "<script>" not in words


def test_a_healthy_learner_needs_no_look_for_its_arms(open_page: Open, database: Path) -> None:
    sick(database, ill_for=0)
    words = said(open_page())
    assert "look poisoned**" not in words
    assert "never referenced" not in words


def test_arms_nobody_referenced_are_named_with_their_cost(open_page: Open, database: Path) -> None:
    sick(database, ill_for=N_HOURS)
    words = said(open_page())
    assert "**2 arms were never referenced**" in words
    assert "800 of 800 observations were 0; 200 tokens a prompt" in words


def test_imported_runs_alone_say_what_is_known_and_claim_nothing(open_page: Open, database: Path) -> None:
    sick(database, run_class="imported")
    title = open_page().title[0].value
    assert "4 of 4 arms" in title
    assert "armscope chose no run yet" in title


def test_a_change_is_undone_and_done_again_from_the_log(open_page: Open, database: Path) -> None:
    context = sick(database)
    reward(context, SEARCH, 1.0, reason="found it")
    page = open_page()
    assert "rewarded **" in said(page)
    page.button(key="take back reward-1").click().run()
    check(page)
    assert "by hand; undone" in said(page)
    assert "took back a reward" in said(page)
    page.button(key="take back undo-1").click().run()
    check(page)
    assert "restored a reward" in said(page) or "took back an undo" in said(page)
    assert "by hand; undone" not in said(page)


def test_thirty_rewards_are_one_line_and_the_log_is_narrowed_to_a_kind(
    open_page: Open, database: Path
) -> None:
    context = sick(database)
    reset(context, arms=FILES)
    change(context, "k", 3)
    given = [reward(context, SEARCH, 1.0) for _ in range(30)]
    undo(context, given[0].id)
    page = open_page()
    assert "gave **30 rewards**; 1 undone" in said(page)
    for words in ("reset 2 arms", "changed k", "took back a reward"):
        assert words in said(page)  # not pushed out
    each = unfold(page, f"each {queries.changes(context, 99)[-3].revision}")
    table = next(one.value for one in each.dataframe if "what" in one.value)
    assert list(table["act"]) == [*["Undo"] * 29, "Redo"]
    for kind, words in (
        ("Resets", "reset 2 arms to Beta(1, 1)"),
        ("Settings", "changed k 0 → 3"),
        ("Imports", ""),
    ):
        page = open_page(changes_of=kind)
        tables = [one.value for one in page.dataframe if "what" in one.value]
        assert [list(table["what"]) for table in tables] == ([[words]] if words else [])


def test_an_overdue_queue_leads_to_its_review(open_page: Open, database: Path) -> None:
    context = world(database, ("tool:fs:Read",), 4)
    add_queue(context, "<b>late</b>", due_days=0)
    page = open_page()
    assert any("A review queue is overdue" in text for text in texts(page))
    assert any("4 items wait to be judged" in text and "<b>" not in text for text in texts(page))


def recorded(path: Path, n_runs: int, *classes: RunClass) -> Context:
    context = context_at(path)
    record_all(context, runs(ARMS, n_runs, classes=classes))
    return context


@pytest.mark.parametrize(
    ("n_runs", "classes", "words"),
    [
        (40, ("imported",), ("In 40 runs ", "carried and hardly used")),
        (40, ("selected",), ("No baseline runs yet, so ", "so far 0 baseline runs and 0 selected runs")),
        (24, ("baseline", "selected"), ("Too early to name a saving: ", "an interval takes 10 of each")),
        (400, ("baseline", "selected"), ("choosing arms ", "Outcome: **:color[")),
    ],
    ids=["imported", "no baseline", "no interval", "savings"],
)
def test_the_data_choose_the_first_sentence(
    open_page: Open, database: Path, n_runs: int, classes: tuple[RunClass, ...], words: tuple[str, str]
) -> None:
    recorded(database, n_runs, *classes)
    page = open_page()
    title = re.sub(r":color\[([^\]]*)\]\{[^}]*\}", r"\1", page.title[0].value)
    assert words[0].lower() in title.lower()
    assert words[1].lower() in "\n".join([title, *texts(page)]).lower()
    (picture,) = [chart.proto.alt for chart in page.get("plotly_chart")]
    assert picture.startswith("Tokens of ")


def test_calls_alone_draw_no_picture_and_name_what_was_called(open_page: Open, database: Path) -> None:
    inferred = Inventory(kind="inferred", arms=tuple(Arm(key=key) for key in ARMS[:2]))
    imported = [
        replace(one, inventory=inferred, referenced=ARMS[: 1 + number % 2])
        for number, one in enumerate(runs(ARMS, 40, classes=("imported",)))
    ]
    record_all(context_at(database), imported)
    page = open_page()
    assert not page.get("plotly_chart")
    assert "no arm can be" in page.title[0].value
    assert re.search(r"t0 in 40.*s1 in", said(page))


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 99), st.booleans()), max_size=6))
def test_the_most_wasteful_arm_may_go_and_none_wasted_more(drawn: list[tuple[int, int | None, bool]]) -> None:
    rows = [
        Worth(
            key=f"tool:a:x{at}y",
            type="tool",
            n=(used, 9),
            tokens=tokens,
            break_even=None,
            may_go=goes,
            chance=None,
        )
        for at, (used, tokens, goes) in enumerate(drawn)
    ]
    going = [row for row in rows if row.may_go]
    words = overview_sentences.most_wasted(rows)
    named = [row for row in rows if f"{wording.literal(wording.short_name(row.key))}," in words]
    assert len(named) == bool(going)
    for row in named:
        assert row.may_go
        assert f"used in {row.n[0]} of 9 runs" in words
        wasted = [(one.tokens or 0) * (one.n[1] - one.n[0]) for one in going]
        assert (row.tokens or 0) * (row.n[1] - row.n[0]) == max(wasted)


def test_a_month_is_named_in_tokens_and_in_money_where_priced(open_page: Open, database: Path) -> None:
    context = recorded(database, 400, "baseline", "selected")
    for priced in (False, True):
        if priced:
            change(context, "prices", {"large": 3, "mini": 1})
        page = open_page()
        (line,) = [one for one in texts(page) if "November 20" in one]
        assert ("tokens" in line) != priced
        labels = {str(link.proto.label) for link in page.get("page_link")}
        assert ("Set prices" in labels) != priced


def shown(page: AppTest) -> str:
    """All texts of a page: also alternative texts, cards and tables."""
    charts = [chart.proto.alt for chart in page.get("plotly_chart")]
    tables = [str(cell) for table in page.table for cell in table.value.to_numpy().flat]
    cards = [part for card in page.metric for part in (card.value, card.delta)]
    return "\n".join([*texts(page), *charts, *tables, *cards])


def other_roundings(value: float) -> set[str]:
    """Return the ways to write a number of per cent that are not ours."""
    return {format(abs(value), form) for form in (".0f", ".2f")} - {format(abs(value), ".1f")}


def test_one_estimate_has_one_rounding_and_the_same_runs_on_each_page(
    open_page: Open, database: Path
) -> None:
    context = recorded(database, 400, "baseline", "selected")
    shown_first = queries.savings(context).overall.shown
    assert shown_first.value is not None
    assert shown_first.limits is not None
    report_text = rendered(report(gather(context, View()))).decode()
    named = []
    for words in (shown(open_page()), shown(open_page("savings")), report_text):
        named += pairs(words)
        assert f"{abs(shown_first.value):.1f}%" in words
        for number in (shown_first.value, *shown_first.limits):
            for other in other_roundings(number):
                assert not re.search(rf"(?<![\d.]){re.escape(other)}%", words), other
    assert {sum(pair) for pair in named} == {compared_row(queries.savings(context))}


def pairs(words: str) -> list[tuple[int, int]]:
    """Return the numbers of baseline and selected runs that are named together."""
    found = re.findall(r"([\d,]+) baseline runs?(?: \([^)]*\))? and ([\d,]+) selected runs?", words)
    return [(int(a.replace(",", "")), int(b.replace(",", ""))) for a, b in found]


def compared_row(saved: Savings) -> int:
    table = sentences.left_out_table(saved)
    return int(str(table["number"][list(table["runs"]).index("Compared")]))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["baseline", "selected", "passive", "imported"]),
            st.sampled_from(["m", "rare"]),
            st.sampled_from(["completed", "error"]),
            st.one_of(st.none(), st.integers(900, 9_000)),
        ),
        max_size=90,
    )
)
def test_the_runs_beside_an_estimate_add_up_to_those_compared(
    drawn: Sequence[tuple[RunClass, str, str, int | None]],
) -> None:
    counted = [
        Counted(
            run_class=kind, model=model, status="error" if status == "error" else "completed", tokens=tokens
        )
        for kind, model, status, tokens in drawn
    ]
    saved = savings(usage_of(counted), baseline_rate=0.1, n_arms=8)
    total = compared_row(saved)
    words = "\n".join([sentences.savings_numbers(saved), gain_sentences.pending(saved.overall, rate=0.1)])
    assert [sum(pair) for pair in pairs(words)] == [total, total]
    assert total + saved.left_out.total == len(counted)
