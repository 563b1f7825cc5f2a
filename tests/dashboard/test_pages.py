"""Every page: empty, one run, many arms, hostile ids, hostile addresses."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import msgspec
import numpy as np
import pytest

from core import explained
from core.flows import queries
from core.flows.corrections import note
from core.flows.evaluate import evaluate
from core.flows.identity import note_denied
from core.flows.learn import record_all, reward
from core.flows.learners import create_learner
from core.flows.members import add_member
from core.flows.queues import add_queue, add_rubric
from core.flows.settings import change, change_all
from core.flows.tokens import create_token
from core.records.actor import Actor
from core.records.episode import Episode, Part, Step
from core.records.review import Criterion, Level, QueueAsks, Rubric
from core.records.times import DAY_MS
from core.store.episodes import tell_episodes
from dashboard.pages import PAGES
from dashboard.sentences import inclusion as sentences
from tests.dashboard.conftest import Open, is_text_only, said, texts
from tests.dashboard.worlds import HOSTILE, NOON_MS, context_at, keys, runs, world

EVERY: Final = tuple(page.name for page in PAGES)
OF_RUNS: Final = tuple(
    name for name in EVERY if name not in {"data", "settings", "alerts", "people", "tokens", "audit", "help"}
)
"""The others are of use to an empty learner."""

MORE: Final = (
    ("people", {"people_do": "Remove"}),
    ("tokens", {"tokens_do": "Revoke"}),
    *(("audit", {"audit_of": of, "audit_by": HOSTILE[0]}) for of in ("Installation", "Refused")),
    ("review", {"review_as": "Queues"}),
)
"""Pages that show more at another address."""


@pytest.mark.parametrize("name", OF_RUNS)
def test_an_empty_learner_gets_a_sentence_and_a_command(open_page: Open, name: str) -> None:
    page = open_page(name)
    assert page.title[0].value.startswith(
        (
            "Nothing is recorded yet",
            "Nothing was judged yet",
            "No run was",
            "No session was",
            "No arm was",
            "No episode",
            "No environment",
        )
    )
    assert page.code[0].value.startswith("armscope ")


@pytest.mark.parametrize("name", EVERY)
def test_one_run(open_page: Open, database: Path, name: str) -> None:
    world(database, keys(3), 1)
    page = open_page(name)
    assert len(page.title) == 1


@pytest.mark.parametrize("name", EVERY)
def test_many_arms(open_page: Open, database: Path, name: str) -> None:
    world(database, keys(450), 12)
    open_page(name)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which every name and text of others is hostile."""
    path = tmp_path_factory.mktemp("hostile") / "a.db"
    context = world(path, HOSTILE, 60)
    more = [
        msgspec.structs.replace(run, uid=name[:100], session=name[:100], model=name, channel=name)
        for run, name in zip(runs(HOSTILE, len(HOSTILE)), HOSTILE, strict=True)
    ]
    record_all(context, more)
    for name in HOSTILE:
        note(context, name, name)
        reward(context, name, 0.0, reason=name)
        said = name[:100]
        evaluate(context, "run-3", "success", arm=name, rater=said, model=said, rubric=said, feedback=name)
        printable = name[:90].replace("\u202e", "")
        add_member(context, "https://id.example.com", f"of {printable}", printable)
        create_token(context, printable, ("read",))
        note_denied(context.store, Actor(name=name, role="viewer"), "reset", context.clock())
    level = Level(words=HOSTILE[5], outcome="success", score=1.0, example=HOSTILE[4])
    criterion = Criterion(name=HOSTILE[0], words=HOSTILE[4], example=HOSTILE[5])
    rubric = Rubric(version=HOSTILE[0], title=HOSTILE[5], criteria=(criterion,), levels=(level, level))
    add_rubric(context, rubric)
    add_queue(context, HOSTILE[4], QueueAsks(about="arm"), rubric=HOSTILE[0], n_reviewers=2)
    change(context, "seed_arms", list(HOSTILE[:6]))
    change(context, "prices", {HOSTILE[0]: 2})
    context.write("ingest", lambda txn: tell_episodes(txn, _hostile_episodes()))
    for name in HOSTILE[:4]:
        create_learner(context, name)
    context.store.close()
    with closing(sqlite3.connect(path)) as driver, driver:
        driver.execute("UPDATE learner SET settings = '{' WHERE name = ?", [HOSTILE[0]])  # can't be read
    return path


def _hostile_episodes() -> list[Episode]:
    return [
        Episode(
            uid=name[:100] if number == 0 else f"{number} {name[:300]}",
            environment=name,
            task=name,
            split=name,
            variant=name,
            model=f"{name[:300]} {number % 2}",
            at_ms=NOON_MS + number,
            steps=tuple(
                Step(number=at, name=name, reward=0.5, args_digest="e" * 32, finished=at == 5)
                for at in range(6)
            ),
            parts=(Part(name=name, value=float(number % 2)),),
        )
        for name in HOSTILE
        for number in range(24)
    ]


@pytest.mark.parametrize(("name", "more"), [*((name, {}) for name in EVERY), *MORE])
def test_what_is_hostile_is_text(
    open_page: Open, database: Path, hostile: Path, name: str, more: dict[str, str]
) -> None:
    shutil.copy(hostile, database)
    (kinds,) = (page.names for page in PAGES if page.name == name)
    for text in HOSTILE if kinds else HOSTILE[:1]:
        whole = {"arm", "environment", "trial", "topic"}
        asked = {parameter: text if kind in whole else text[:100] for parameter, kind in kinds.items()}
        page = open_page(name, learner="default", **asked, **more)
        assert is_text_only(page)
        assert not any("<script" in str(chart.proto.spec) for chart in page.get("plotly_chart"))


@pytest.mark.parametrize("name", EVERY)
def test_a_hostile_address_shows_the_page_without_its_filters(
    open_page: Open, database: Path, name: str
) -> None:
    world(database, keys(6), 40)
    junk = "<script>alert(1)</script>"
    page = open_page(
        name,
        learner=junk,
        span=junk,
        type=[junk, "tool"],
        model="'; DROP TABLE run; --",
        sort="%{x}",
        arms=[junk, "tool:fs:t0"],
        of_arm=junk,
        reward_arm=junk,
        scope=junk,
        compact="maybe",
        slide="\ud800".encode("utf-8", "replace").decode(),
    )
    assert all("alert(1)" not in text for text in texts(page))


def test_deep_links_choose_arms_order_and_types(open_page: Open, database: Path) -> None:
    world(database, keys(10), 40)
    page = open_page("posteriors", sort="Pulls", type="tool", arms=["tool:fs:t0", "tool:fs:t5"])
    assert page.button_group(key="sort").value == "pulls"
    assert page.multiselect(key="arms").value == ["tool:fs:t0", "tool:fs:t5"]
    assert page.multiselect(key="type").value == ["tool"]


def test_the_table_has_one_row_per_arm_and_the_whole_id(open_page: Open, database: Path) -> None:
    world(database, HOSTILE, 20)
    page = open_page("posteriors")
    table = page.dataframe[0].value
    assert len(table) == len(HOSTILE)
    assert max(len(name) for name in table["arm"]) <= 40
    assert set(table["id"]) == {key.replace("\u202e", "") for key in HOSTILE}


def test_a_database_that_cannot_be_opened_says_so(open_page: Open, database: Path) -> None:
    database.write_bytes(b"this is no database" * 100)
    page = open_page()
    assert page.title[0].value == "The data cannot be opened."
    assert [button.label for button in page.button] == ["Retry"]


def test_every_chart_has_words(open_page: Open, database: Path) -> None:
    world(database, keys(8), 80)
    for name in ("overview", "posteriors", "confidence", "savings"):
        page = open_page(name)
        charts = page.get("plotly_chart")
        assert charts
        assert all(chart.proto.alt for chart in charts)


def offered_and_not(path: Path) -> tuple[str, str]:
    """An arm that the last runs offered, and one that only older runs did, as the pages will show them."""
    arms = keys(8)
    context = context_at(path)
    now = [msgspec.structs.replace(run, uid=f"now {run.uid}") for run in runs(arms[:6], 30)]
    before = [msgspec.structs.replace(run, ended_at_ms=NOON_MS - 90 * DAY_MS) for run in runs(arms, 3)]
    record_all(context, [*before, *now])
    change_all(context, {"k": 3, "seed_arms": ()})
    return arms[0], arms[7]


def test_a_class_in_the_title_links_to_its_arms(open_page: Open, database: Path) -> None:
    world(database, keys(15), 20)
    title = open_page("posteriors").title[0].value
    links = re.findall(r"\[(\d+) [^\]]*\]\(\?(\S+?)\)", title)
    assert links
    for number, query in links[:2]:
        page = open_page("posteriors", **dict(parse_qsl(query)))
        (table,) = [one.value for one in page.dataframe if "judgement" in one.value]
        assert len(table) == int(number)
        assert page.button_group(key="judged").value is not None


def test_of_very_many_arms_the_first_open_on_a_click(open_page: Open, database: Path) -> None:
    world(database, keys(2_010), 2)
    page = open_page("posteriors")
    (table,) = [one for one in page.dataframe if "judgement" in one.value]
    assert len(table.value) == 2_000
    assert [*table.proto.selection_mode]
    assert any("first 2,000 of 2,010" in text for text in texts(page))
    assert "all arms csv" in {button.key for button in page.get("download_button")}


def test_pages_give_a_chance_or_say_that_recent_runs_did_not_offer_the_arm(
    open_page: Open, database: Path
) -> None:
    offered, forgotten = offered_and_not(database)
    told = queries.inclusion(context_at(database))
    page = open_page("posteriors")
    (table,) = [one for one in page.dataframe if "chance" in one.value]
    chance = dict(zip(table.value["id"], table.value["chance"], strict=True))
    assert chance[offered] == round(100 * told.chances[offered])
    assert np.isnan(chance[forgotten])
    assert table.proto.placeholder == "–"
    notes = (
        "simulated on the latest 25 runs that armscope chose for.",
        "No bar: not offered in these runs (2 arms).",
    )
    assert all(note in said(page) for note in notes)
    one = told.arms[offered]
    words, error = explained.chance_words(one.chance), sentences.error_words(one.standard_error)
    stated = f"**{words}** (standard error {error})" if one.standard_error else f"**{words}**."
    shown = said(open_page("arm", arm=offered))
    assert f"Chance of inclusion {words}." in shown
    assert f"chance of inclusion is {stated}" in shown
    assert "25 of the latest 25 runs that armscope chose for offered it." in shown
    shown = said(open_page("arm", arm=forgotten))
    assert "Chance of inclusion: not in the last 25 runs." in shown
    assert "**Not in the latest 25 runs " in shown
    assert "None of the latest 25 runs that armscope chose for offered it." in shown
    page = open_page("reset", scope="All arms", target="Each arm’s prior")
    (table,) = [one for one in page.dataframe if "chance of inclusion" in one.value]
    chance = dict(zip(table.value["id"], table.value["chance of inclusion"], strict=True))
    assert chance[forgotten] == "not in the last 25 runs"
    assert "%" in chance[offered]
    page = open_page("rewards", reward_arm=forgotten, reward_outcome="Accepted")
    (change,) = [table.value for table in page.table if "change" in table.value]
    row = ["chance of inclusion", *["not in the last 25 runs"] * 2, "none"]
    assert change.iloc[-1].tolist() == row
