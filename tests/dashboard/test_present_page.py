"""Slides for an audience: each has one claim and an address, and neither they nor the report name a person."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from hypothesis import given
from hypothesis import strategies as st

from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import evaluate_all
from core.flows.learn import record_all, reward
from core.maths.statistics.manual import ManualFinding
from core.maths.statistics.overview import Attention
from core.maths.statistics.parting import Parting, PartingGrader, PartingWay
from core.records.actor import Actor
from core.records.evaluation import EvaluationOrder
from core.records.evaluation_page import Grader
from core.records.run_query import View
from dashboard.report import gather, rendered, report
from dashboard.sentences import overview as sentences
from tests.dashboard.conftest import Open, is_said, labels
from tests.dashboard.conftest import rendered as all_of
from tests.dashboard.worlds import context_at, keys, runs, world

_RATERS: Final = ("Wilhelmina Quist", "Ottokar Zeisig", "Ludowika Brandt", "Kreszentia Vogl")


def _judged(path: Path) -> Context:
    """A world in which one of four raters calls everything a success, and another gives many rewards at once."""
    context, rng = world(path, keys(5), 120), random.Random(5)
    orders = []
    for number in range(60):
        is_good = rng.random() < 0.55
        for rater in _RATERS:
            says = rater == _RATERS[0] or (is_good if rng.random() < 0.9 else not is_good)
            orders.append(
                EvaluationOrder(run=f"run-{number}", outcome="success" if says else "failure", rater=rater)
            )
    evaluate_all(context, orders)
    hasty = replace(context, actor=Actor(name=_RATERS[1], role="operator"))
    for _ in range(40):
        reward(hasty, keys(5)[1], 0.0)
    return context


def test_neither_slides_nor_the_report_name_a_person(open_page: Open, database: Path) -> None:
    context = _judged(database)
    assert {"raters_part", "reward_burst"} <= {one.kind for one in queries.overview(context).attention}
    slides = ["\n".join(all_of(open_page("present", slide=f"{slide}"))) for slide in (1, 2, 3)]
    document = rendered(report(gather(context, View()))).decode()
    for text in (*slides, document):
        assert not [name for name in _RATERS if name in text]
    for text in (slides[2], document):
        assert "One rater says success more often" in text
        assert "by one person" in text


@given(st.text(), st.text(), st.sampled_from(get_args(PartingWay)))
def test_an_audience_reads_the_same_by_any_name(one: str, other: str, way: PartingWay) -> None:
    assert sentences.unnamed(_finding(one, way)) == sentences.unnamed(_finding(other, way))


def _finding(name: str, way: PartingWay) -> Attention:
    parting = Parting(rater=0, way=way, share=0.9, others=0.5, n_items=20, prob=0.001, divided=False)
    manual = ManualFinding(
        actor=name,
        arms=("tool:fs:Read",),
        n=9,
        mean=0.0,
        since_ms=0,
        until_ms=1,
        before=0.6,
        after=0.4,
        detector=None,
        acts=(),
    )
    grader = PartingGrader(grader=Grader(kind="human", name=name), parting=parting)
    return Attention(kind="raters_part", severity="warning", count=1, parting=grader, manual=manual)


def test_each_slide_has_an_address_and_the_buttons_turn_it(open_page: Open, database: Path) -> None:
    world(database, keys(12), 120)
    page = open_page("present", slide="2")
    assert "earn their place" in page.title[0].value
    (picture,) = page.get("plotly_chart")
    assert "Tokens of 10 arms" in picture.proto.alt, "two sections are judged by no use"
    assert {*labels(page)} == {"Previous", "Next", "Close"}, "no search, no undo, no keys"
    page.button("turn Right").click().run()
    assert "3" in page.query_params["slide"]
    assert page.title[0].value.endswith("a decision.")
    assert page.button("turn Right").disabled
    page.button("turn PageUp").click().run()
    page.button("turn Left").click().run()
    assert is_said(page, sentences.PROVEN)
    assert is_said(page, "of runs with chosen arms failed")
    for junk in ("0", "9", "x"):
        assert open_page("present", slide=junk).title


def test_slides_of_imported_runs_alone_and_of_nothing_claim_no_saving(
    open_page: Open, database: Path
) -> None:
    context_at(database).store.close()
    assert open_page("present", slide="3").title[0].value == "Nothing is recorded yet."
    record_all(context_at(database), runs(keys(5), 60, classes=("imported",)))
    assert "no saving can be named" in open_page("present").title[0].value
    assert len(open_page("present", slide="2").get("plotly_chart")) == 1


def test_the_first_slide_has_the_means_of_both_groups(open_page: Open, database: Path) -> None:
    context = context_at(database)
    record_all(context, runs(keys(8), 400))
    saved = queries.savings(context)
    baseline, selected = saved.overall.columns.tokens
    text = "\n".join(all_of(open_page("present"))).replace("\\", "")
    assert f"{selected:,.0f} tokens with chosen arms, {baseline:,.0f} tokens in the others" in text
