"""Episode, as a browser would open it: what was paid step by step, gaps, refusals, thousands of steps, its runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.settings import change
from core.records.actor import Actor
from core.records.episode import Episode, Part, Step
from core.store.episodes import tell_episodes
from dashboard.figures.episode import MAX_COLUMNS, columns_of, episode
from dashboard.figures.theme import LIGHT
from tests.dashboard.conftest import Open, check, heads, is_text_only, steps
from tests.dashboard.test_episodes_pages import said, title
from tests.dashboard.worlds import NOON_MS, keys, world

JUNK = "<script>alert(1)</script>"
MIXED = (0.0, 0.05, None, 0.1, None, None, -0.05, 1.0)


def steps_of(rewards: tuple[float | None, ...], *, finished: bool = True) -> tuple[Step, ...]:
    last = len(rewards) - 1
    return tuple(
        Step(number=number, name="look", reward=reward, finished=finished and number == last, at_ms=NOON_MS)
        for number, reward in enumerate(rewards)
    )


def told(path: Path, *episodes: Episode) -> Context:
    """A learner of three runs, and these episodes."""
    context = world(path, keys(3), 3)
    context.write("ingest", lambda txn: tell_episodes(txn, episodes))
    return context


def one(uid: str = "sums/1", rewards: tuple[float | None, ...] = MIXED, **more: object) -> Episode:
    return Episode(uid=uid, environment="sums", at_ms=NOON_MS, steps=steps_of(rewards), **more)  # type: ignore[arg-type]


def steps_shown(page: AppTest) -> list[dict[str, str]]:
    (table,) = [frame.value for frame in page.dataframe if "so far" in frame.value]
    return [{str(head): str(cell) for head, cell in row.items()} for row in table.to_dict("records")]


def test_it_is_told_in_a_sentence_a_picture_and_a_table(open_page: Open, database: Path) -> None:
    refused = Step(number=8, name="submit", reward=1.0, refused=True, note="episode_finished")
    parts = (Part(name="judge", value=0.5), Part(name="calls", value=3.0, kind="measure"))
    told(
        database,
        Episode(
            uid="sums/1",
            environment="sums",
            task="1 + 2",
            model="large",
            at_ms=NOON_MS,
            steps=(*steps_of(MIXED), refused),
            parts=parts,
        ),
    )
    page = open_page("episode", episode="sums/1")
    sentence = title(page)
    assert sentence.startswith("Episode sums/1 reached ")
    assert "1.10 in 8 steps" in sentence
    assert sentence.endswith(" and finished; three steps sent no reward, which is not a zero.")
    assert [metric.value for metric in page.metric][:2] == ["1.10", "1.00"]
    (chart,) = page.get("plotly_chart")
    assert (
        "5 paid, 3 without a reward, 1 refused; the running total ends at 1.10, finished" in chart.proto.alt
    )
    rows = steps_shown(page)
    assert [row["reward"] for row in rows] == [
        "0.00",
        "0.05",
        "none",
        "0.10",
        "none",
        "none",
        "−0.05",
        "1.00",
        "1.00",
    ]
    assert [row["so far"] for row in rows][-3:] == ["0.10", "1.10", "1.10"]
    assert "outside the scale" in rows[6]["state"]
    assert rows[7]["state"] == "finished"
    assert rows[8]["state"] == "refused, adds nothing; nothing was run: it had finished"
    assert "Parts" in heads(page)
    assert "environment sums" in said(page)


def test_where_nothing_was_paid_there_is_no_total(open_page: Open, database: Path) -> None:
    told(database, Episode(uid="e", environment="sums", steps=steps_of((None, None), finished=False)))
    page = open_page("episode", episode="e")
    assert "was paid " in title(page)
    assert "nothing in 2 steps" in title(page)
    assert "has not finished; no reward is not a zero." in title(page)
    assert page.metric[0].value == "none"
    assert {row["so far"] for row in steps_shown(page)} == {"–"}
    assert "without any reward" in said(page)


def test_an_episode_without_steps_says_so(open_page: Open, database: Path) -> None:
    told(database, Episode(uid="e", environment="sums"))
    page = open_page("episode", episode="e")
    assert title(page) == "Episode e has no step that counts."
    assert "No step was recorded." in said(page)


def test_thousands_of_steps_are_paged_and_drawn_several_to_a_column(open_page: Open, database: Path) -> None:
    rewards = tuple(None if 1_000 <= number < 1_400 else number % 3 / 1_000 for number in range(3_000))
    context = told(database, one(rewards=rewards))
    page = open_page("episode", episode="sums/1")
    assert len(steps_shown(page)) == 100
    assert "a column is 13 steps, from the lowest payment to the highest" in said(page)
    page.button(key="Later steps").click().run()
    check(page)
    assert page.query_params["step"] == "100"
    assert steps_shown(page)[0]["step"].endswith("100")
    pointed = open_page("episode", episode="sums/1", step="2345")
    assert [row["step"] for row in steps_shown(pointed) if row["step"].startswith("→")] == ["→ 2,345"]
    shown = [int(row["step"].strip("→ ").replace(",", "")) for row in steps_shown(pointed)]
    assert shown == list(range(2_300, 2_400))
    seen = queries.episode(context, "sums/1")
    columns = columns_of(seen.steps, MAX_COLUMNS)
    assert len(columns) <= MAX_COLUMNS + 1
    assert sum(len(column.steps) for column in columns) == 3_000
    drawn = episode(seen, LIGHT)
    assert max(len(trace["x"]) for trace in drawn.figure.to_dict()["data"]) <= 4 * MAX_COLUMNS
    assert "Each column covers 13 steps." in drawn.alt


@pytest.mark.parametrize("step", ["-1", "9" * 30, JUNK, "1.5", "99"])
def test_a_step_that_is_none_points_nowhere(open_page: Open, database: Path, step: str) -> None:
    told(database, one())
    page = open_page("episode", episode="sums/1", step=step)
    assert not [row for row in steps_shown(page) if row["step"].startswith("→")]


@pytest.mark.parametrize("name", ["nope", JUNK, "x" * 600])
def test_an_unknown_episode_tells_what_to_do(open_page: Open, database: Path, name: str) -> None:
    told(database, one())
    page = open_page("episode", episode=name)
    assert page.title[0].value == "There is no such episode."
    assert page.code[0].value.startswith("armscope ")
    assert JUNK not in said(page)


def test_previous_and_next_write_the_address(open_page: Open, database: Path) -> None:
    told(database, one("a"), one("b"), one("c"))
    page = open_page("episode", episode="b", step="3")
    page.button(key="Previous episode").click().run()
    check(page)
    assert (page.query_params["episode"], "step" in page.query_params) == ("a", False)
    assert page.button(key="Previous episode").disabled
    for expected in ("b", "c"):
        page.button(key="Next episode").click().run()
        assert page.query_params["episode"] == expected
    assert page.button(key="Next episode").disabled


def test_a_run_leads_to_its_episode_and_back(open_page: Open, database: Path) -> None:
    told(database, one(runs=("run-1", "run-2")), one("lonely"))
    page = open_page("run", run="run-1")
    (link,) = [link.proto for link in page.get("page_link") if link.proto.label == "Its episode"]
    assert "episode=sums%2F1" in link.query_string
    page = open_page("episode", episode="sums/1")
    assert "Runs made in it" in heads(page)
    (made,) = [frame.value for frame in page.dataframe if "verdict" in frame.value]
    assert made["run"].tolist() == [3, 2]
    (arms,) = [frame.value for frame in page.dataframe if "used in" in frame.value]
    assert arms["id"].tolist()
    assert set(arms["prompts"]) == {2}
    page = open_page("episode", episode="lonely")
    assert "This episode has no active run" in said(page)
    assert not [link for link in page.get("page_link") if link.proto.label == "Its run"]


def test_texts_of_steps_are_text_and_hidden_from_viewers(
    open_page: Open, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(context, "keep_texts", True)
    step = Step(number=0, name="look", reward=1.0, finished=True, asked=f"find {JUNK}", answered="**found**")
    line = Episode(uid="e", environment="sums", steps=(step,))
    context.write("ingest", lambda txn: tell_episodes(txn, [line]), create=True)
    page = open_page("episode", episode="e", step="0")
    assert f"find {JUNK}" in steps(page)
    assert "Answered\nfound" in steps(page)
    assert is_text_only(page)
    assert steps_shown(page)[0]["asked"] == f"find {JUNK}"
    assert JUNK not in said(page)
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role="viewer"))
    page = open_page("episode", episode="e", step="0")
    assert steps(page) == ""
    assert "asked" not in steps_shown(page)[0]
