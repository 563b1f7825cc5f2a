"""The page of evaluations: nothing, one rater, nothing that varies, a panel; who sees what; others' text is text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.evaluate import evaluate, evaluate_all
from core.flows.settings import change
from core.records.actor import Actor, Role
from core.records.evaluation import EvaluationOrder, Subject
from core.records.evaluation_page import EvaluationFilter
from dashboard.figures import spreads as spreads_figure
from dashboard.figures.agreement import agreement as agreement_figure
from dashboard.figures.theme import DARK, LIGHT
from dashboard.sentences import judging
from dashboard.widgets import evaluation_table
from tests.dashboard.conftest import Open, check, heads, texts, unfold
from tests.dashboard.worlds import keys, world

ARM = keys(3)[0]
MARKUP = (
    "<b>bold</b> <script>alert(1)</script> $\\alpha$ :smile: :red[x] [a](javascript:alert(1)) :material/home:"
)
PLACES: tuple[tuple[str, dict[str, str]], ...] = (
    ("evaluations", {}),
    ("arm", {"arm": ARM}),
    ("run", {"run": "run-3"}),
)
LAYER = "kairos://layer/aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"


def judged(path: Path, raters: Sequence[str], *, differ: bool = True, careless: str | None = None) -> Context:
    """Forty runs that each of them judged; every second one is a failure, and each rater is wrong now and then."""
    context = world(path, keys(3), 40)
    orders = []
    for number in range(40):
        for place, rater in enumerate(raters):
            good = number % 2 == 0 or not differ
            if differ and (number + 13 * place) % 17 == 0:
                good = not good
            if rater == careless:
                good = True
            orders.append(
                EvaluationOrder(
                    run=f"run-{number}",
                    outcome="success" if good else "failure",
                    score=0.8,
                    rater=rater,
                    rubric="v1",
                )
            )
    evaluate_all(context, orders)
    return context


def title(page: AppTest) -> str:
    return str(page.title[0].value)


def test_an_empty_page_says_how_evaluations_come(open_page: Open, database: Path) -> None:
    world(database, keys(3), 5)
    page = open_page("evaluations")
    assert title(page) == "Nothing was judged yet."
    assert "evaluate RUN success" in page.code[0].value


def px(text: str) -> float:
    """The width of a cell's text, as measured of the longest, with the room at its sides."""
    return 5.2 * len(text) + 16


def test_every_cell_of_the_table_fits_its_column(database: Path) -> None:
    for blocker in judging.BLOCKER_WORDS.values():
        assert px(f"{blocker} +1") <= evaluation_table.EVALUATIONS.fields["blocked"].width
    one = queries.evaluations(judged(database, ["mara"]))[0]
    long = "file:workspace:tests/fixtures/imports/legacy_customers_of_last_year.csv"
    for subject in (Subject(run="r", arm=long), Subject(layer=LAYER[-36:], execution=LAYER[-36:])):
        words = judging.judged(
            msgspec.structs.replace(one, subject=subject), {LAYER[-36:]: "Draft the reply to a customer"}
        )
        assert px(words) <= evaluation_table.EVALUATIONS.fields["what"].width
    stranger = msgspec.structs.replace(one, browser="Bartholomew of Bologna 3f2a91")
    assert judging.rater_name(stranger).startswith("Ba…ogna,")
    assert px(judging.rater_name(stranger)) <= evaluation_table.EVALUATIONS.fields["by"].width
    assert px("x" * evaluation_table.FEEDBACK_CHARS) <= evaluation_table.EVALUATIONS.fields["feedback"].width


def test_long_feedback_is_cut_in_its_cell_and_whole_behind_the_button(
    open_page: Open, database: Path
) -> None:
    context = judged(database, ["mara"])
    said = "The answer names a table that was dropped last week, so nobody could use it."
    evaluate(context, "run-1", "failure", rater="mara", rubric="v1", feedback=said)
    page = open_page("evaluations")
    table = next(frame.value for frame in page.dataframe if "feedback" in frame.value)
    shown, dots, rest = table["feedback"][0].partition("…")
    assert (said.startswith(shown), dots, rest) == (True, "…", "")
    assert not any(said in text for text in texts(page))
    page.session_state["evaluations feedback"] = True
    page.run()
    check(page)
    assert any(one.value == said for one in page.text)


def test_one_rater_is_no_agreement_and_a_row_taken_back_stays(open_page: Open, database: Path) -> None:
    context = judged(database, ["mara"])
    page = open_page("evaluations")
    assert "40 evaluations" in title(page)
    assert "agreement is not known" in title(page)
    assert any("once two raters have judged the same items" in text for text in texts(page))
    assert heads(page) == [
        "Do they agree?",
        "What blocks training",
        "Who judges, and how",
        "By rubric version",
        "The evaluations",
    ]
    (fold,) = [one for one in page.expander if one.label.startswith("Layers: ")]
    assert not fold.proto.expanded
    assert heads(unfold(page, "layers fold"))[5:] == ["Layers by quality", "Layers without a description"]
    undo(context, "evaluation-40")
    page = open_page("evaluations", past="true")
    table = next(frame.value for frame in page.dataframe if "not in training because" in frame.value)
    assert (table["not in training because"][0], table["act"][0]) == ("undone", "Redo")
    assert table["act"][1] == "Undo"


def test_where_nothing_varies_agreement_is_undefined(open_page: Open, database: Path) -> None:
    judged(database, ["mara", "kim"], differ=False)
    page = open_page("evaluations")
    assert "agreement is undefined" in title(page)


def test_a_panel_is_told_in_words_and_figures_and_who_parts_by_name(open_page: Open, database: Path) -> None:
    context = judged(database, ["mara", "kim", "bob", "lee"], careless="lee")
    page = open_page("evaluations")
    seen = queries.agreement(context)
    assert seen.outcome.word == "low"
    assert "four rater" in title(page)
    assert ":color[low]" in title(page)
    assert any(
        "**lee says success more often than the others**: 100% against" in text for text in texts(page)
    )
    charts = page.get("plotly_chart")
    assert len(charts) == 3
    assert all(chart.proto.alt for chart in charts)
    page = open_page("overview")
    assert any("**lee says success more often than the others**" in text for text in texts(page))


def test_in_a_narrow_window_no_line_runs_through_a_name_or_a_number(database: Path) -> None:
    report = queries.agreement(judged(database, ["mara", "kim", "bob"]))
    narrow, wide = (agreement_figure(report, LIGHT, compact=compact) for compact in (True, False))
    layout = narrow.figure.to_dict()["layout"]
    named = [one["y"] for one in layout["annotations"] if one.get("yref") == "y"]
    lines = [(one["y0"], one["y1"]) for one in layout["shapes"]]
    assert len(lines) == 3 * len(wide.figure.to_dict()["layout"]["shapes"]) > 0
    for start, end in lines:
        assert -0.1 < start - round(start) < end - round(start) < 0.5, "beside its bar, below its name"
    assert named
    assert {layout["xaxis"]["ticktext"][0], layout["xaxis"]["ticktext"][-1]} >= {"1"}


def test_a_blocker_and_an_address_choose_the_rows(open_page: Open, database: Path) -> None:
    context = judged(database, ["mara", "kim"])
    evaluate(context, "run-3", "success", rater="no rubric")
    page = open_page("evaluations")
    page.button(key="show missing_rubric_version").click().run()
    check(page)
    table = next(frame.value for frame in page.dataframe if "not in training because" in frame.value)
    assert table["by"].tolist() == ["no rubric"]
    page = open_page("evaluations", judged_by="kim", judged_as="failure")
    table = next(frame.value for frame in page.dataframe if "not in training because" in frame.value)
    assert set(table["by"]) == {"kim"}
    assert set(table["outcome"]) == {"failure"}


@pytest.mark.parametrize("role", ["viewer", "reviewer", "operator"])
def test_every_role_sees_the_page_and_a_viewer_no_texts(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    context = judged(database, ["mara", "kim"])
    evaluate(context, "run-3", "success", rater="bob", feedback="a secret remark")
    evaluate(context, "run-3", "success", rater="bob", arm=ARM, feedback="a secret remark")
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="jo", role=role))
    for name, more in PLACES:
        page = open_page(name, **more)
        tables = [frame.value for frame in page.dataframe if "not in training because" in frame.value]
        assert tables
        assert any("feedback" in table for table in tables) == (role != "viewer")
        assert any("act" in table for table in tables) == (role == "operator")
        shown = " ".join([*texts(page), *(table.to_string() for table in tables)])
        assert ("a secret remark" in shown) == (role != "viewer")


def test_arms_and_runs_list_what_was_judged_of_them(open_page: Open, database: Path) -> None:
    context = judged(database, ["mara"])
    given = evaluate(context, "run-3", "success", arm=ARM, score=0.5, rater="kim")
    for name, more in (("arm", {"arm": ARM}), ("run", {"run": "run-3"})):
        page = open_page(name, **more)
        assert "Evaluations" in heads(page)
        table = next(frame.value for frame in page.dataframe if "not in training because" in frame.value)
        assert table["by"][0] == "kim"
    undo(context, given.id)
    page = open_page("arm", arm=ARM)
    table = next(frame.value for frame in page.dataframe if "not in training because" in frame.value)
    assert table["not in training because"][0] == "undone"
    ledger = next(frame.value for frame in page.dataframe if "source" in frame.value)
    assert ledger["source"][0] == "undone: evaluation"


def test_the_figures_say_the_same_in_words_and_in_their_tables(database: Path) -> None:
    context = judged(database, ["mara", "kim", MARKUP])
    seen, watch = queries.agreement(context), queries.bias_watch(context)
    for look in (LIGHT, DARK):
        for compact in (False, True):
            drawn = agreement_figure(seen, look, compact=compact)
            assert drawn.table["in words"] == [one.word for one in (seen.outcome, seen.label, seen.score)]
            assert "outcome" in drawn.alt
            rows = [
                spreads_figure.SpreadRow(name=judging.grader_name(one.grader), spread=one.spread)
                for one in watch.by_grader
            ]
            spread = spreads_figure.spreads(rows, look, of="raters", compact=compact)
            assert spread.table["judged"] == [40, 40, 40]
            assert "<script>" not in str(spread.figure.to_dict())
    nothing = queries.agreement(context, EvaluationFilter(rater="mara"))
    assert agreement_figure(nothing, LIGHT).table["alpha"] == ["–", "–", "–"]


def test_thresholds_are_previewed_before_they_hold(open_page: Open, database: Path) -> None:
    context = judged(database, ["mara"])
    assert (
        queries.preview_settings(context, {"thresholds": {"sft": 0.9, "preference": 0.9}}).ready is not None
    )
    page = open_page("settings", part="Judging")
    page.number_input(key="setting default/thresholds sft").set_value(0.9).run()
    check(page)
    assert any("**0** would be ready for fine-tuning instead of" in text for text in texts(page))
    page.button(key="send settings").click().run()
    check(page)
    assert queries.frame(context).settings.thresholds.sft == 0.9
    assert any(one.label.startswith("Rubrics") for one in page.expander)


def test_raters_and_credit_say_from_when_they_hold(open_page: Open, database: Path) -> None:
    context = judged(database, ["mara"])
    change(context, "weight_by_agreement", {"mara": 0.5})
    page = open_page("settings", part="Judging")
    page.button_group(key="setting default/graders").set_value("human").run()
    check(page)
    assert any("stored ones keep their weight" in text for text in texts(page))
    assert page.text_area(key="setting default/weight_by_agreement").value == "mara = 0.5"
