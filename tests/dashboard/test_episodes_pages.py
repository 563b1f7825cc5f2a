"""Episodes and environment, as a browser would open them: none, one, many, filters, findings, scales, contests."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from core.demo.environments import ENVIRONMENTS, episodes
from core.flows import queries
from core.flows.context import Context
from core.flows.settings import change
from core.maths.statistics.rewards.paid import columns_of
from core.records.actor import Actor
from core.records.episode import Episode, Scale, Step
from core.records.times import DAY_MS
from core.store.episodes import tell_episodes
from dashboard import wording
from dashboard.figures.rewards import distribution, pairs, progress
from dashboard.figures.theme import THEMES, Tokens
from dashboard.sentences.rewards import certainty_words, contest, critical_finding, environments_table
from dashboard.sentences.transcript import how_to_keep
from dashboard.wording import Words
from tests.dashboard.conftest import Open, check, heads, texts, unfold
from tests.dashboard.worlds import NOON_MS, keys, world

JUNK = "<script>alert(1)</script>"


def attempt(number: int, *, wins: bool, model: str = "large", task: str | None = None) -> Episode:
    """Four steps, the last of which pays 1 or 0."""
    return Episode(
        uid=f"sums/{model}/{number}",
        environment="sums",
        model=model,
        at_ms=NOON_MS + number * DAY_MS // 4,
        task=f"task {number % 20}" if task is None else task,
        steps=tuple(
            Step(number=place, name="look", reward=None if place < 3 else float(wins), finished=place == 3)
            for place in range(4)
        ),
    )


def hacked(number: int) -> Episode:
    """One action paid eight times over, and no success at the end."""
    again = tuple(Step(number=place, name="echo", args_digest="e" * 32, reward=0.1) for place in range(8))
    steps = (*again, Step(number=8, name="submit", reward=0.0, finished=True))
    return Episode(uid=f"shell/{number}", environment="shell", at_ms=NOON_MS + number, steps=steps)


def tell(path: Path, *episodes: Episode) -> Context:
    context = world(path, keys(3), 2)
    context.write("ingest", lambda txn: tell_episodes(txn, episodes))
    return context


def sums(n: int = 40, *, model: str = "large", every: int = 2) -> list[Episode]:
    return [attempt(number, wins=number % every == 0, model=model) for number in range(n)]


def said(page: AppTest) -> str:
    return " ".join(texts(page)).replace("\\", "")


def title(page: AppTest) -> str:
    return str(page.title[0].value).replace("\\", "")


def listed(page: AppTest) -> list[str]:
    found = [frame.value for frame in page.dataframe if "came to" in frame.value]
    return found[0]["episode"].tolist() if found else []


# Episodes


def test_without_episodes_it_says_what_brings_them(open_page: Open, database: Path) -> None:
    world(database, keys(3), 3)
    page = open_page("episodes")
    assert title(page) == "No episode is recorded yet."
    assert page.code[0].value.startswith("armscope ")


def test_one_environment_is_told_in_a_sentence_with_its_interval(open_page: Open, database: Path) -> None:
    tell(database, *sums())
    page = open_page("episodes")
    assert "Of 40 episodes " in title(page)
    assert "50% succeed" in title(page)
    assert "95% interval); the reward of sums is sparse and binary." in title(page)
    assert "Average total 0.500, 95% interval" in said(page)
    assert {"Environments", "Success over time", "The episodes"} <= set(heads(page))
    assert len(listed(page)) == 40


def test_several_environments_are_counted_with_what_needs_a_look(open_page: Open, database: Path) -> None:
    tell(database, *sums(), *(hacked(number) for number in range(20)))
    page = open_page("episodes")
    assert "60 episodes of two environments" in title(page)
    assert "one of them pays" in title(page)
    (table,) = [frame.value for frame in page.dataframe if "found" in frame.value]
    assert dict(zip(table["environment"], table["state"], strict=True)) == {
        "shell": "✕ critical",
        "sums": "○ notice",
    }
    assert "looks hacked" in table["found"].tolist()[0]


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ({"episodes_of": "shell"}, 20),
        ({"episodes_of": "sums", "came_to": "success"}, 20),
        ({"paid_model": "mini"}, 10),
        ({"task": "task 3"}, 3),
        ({"split": "nowhere"}, 0),
        ({"came_to": "unfinished"}, 0),
        ({"episodes_of": JUNK, "came_to": JUNK, "paid_model": JUNK, "episodes_before": JUNK}, 50),
    ],
)
def test_filters_are_in_the_address(open_page: Open, database: Path, query: dict[str, str], n: int) -> None:
    mini = [attempt(number, wins=False, model="mini") for number in range(10)]
    tell(database, *sums(), *mini, *(hacked(number) for number in range(20)))
    page = open_page("episodes", **query)
    assert len(listed(page)) == n
    if not n:
        assert "No episode" in title(page)
        assert "None passes the filters." in said(page)


def test_older_and_newer_are_places_in_the_address(open_page: Open, database: Path) -> None:
    tell(database, *sums(120))
    page = open_page("episodes")
    first = listed(page)
    page.button(key="older episodes").click().run()
    check(page)
    second = listed(page)
    assert len(first) == len(second) == 50
    assert not set(first) & set(second)
    assert listed(open_page("episodes", episodes_before=page.query_params["episodes_before"])) == second
    page.button(key="newer episodes").click().run()
    assert listed(page) == first
    page.button(key="older episodes").click().run()
    unfold(page, "episode filter popover").selectbox(key="came_to").set_value("success").run()
    check(page)
    assert "episodes_before" not in page.query_params


def test_nothing_paid_is_no_rate(open_page: Open, database: Path) -> None:
    tell(
        database,
        *(Episode(uid=str(number), environment="walk", steps=(Step(number=0),)) for number in range(3)),
    )
    page = open_page("episodes")
    assert "Nothing was paid" in title(page)
    assert "there is no rate of success" in title(page)
    page = open_page("environment", environment="walk")
    assert "No episode was paid, so there are no totals to show." in said(page)
    assert "A pattern needs 10 episodes with a reward on; there are 0." in said(page)


def test_broken_episodes_are_none_with_a_reward(open_page: Open, database: Path) -> None:
    broken = [replace(one, uid=f"broken {one.uid}", broken=True) for one in sums(4)]
    tell(database, *sums(8), *broken)
    assert "there are 8." in said(open_page("environment", environment="sums"))


def test_one_episode_alone(open_page: Open, database: Path) -> None:
    tell(database, attempt(0, wins=True))
    for name, told in (("episodes", {}), ("environment", {"environment": "sums"})):
        page = open_page(name, **told)
        assert "Of 1 episode " in title(page)
        assert "100% succeeds" in title(page)
        assert "too few" in title(page)


def test_one_step_episodes_have_no_line(open_page: Open, database: Path) -> None:
    tell(
        database,
        *(
            Episode(uid=f"{n}", environment="walk", steps=(Step(number=0, reward=1.0, finished=True),))
            for n in range(3)
        ),
    )
    (table,) = [frame.value for frame in open_page("episodes").dataframe if "came to" in frame.value]
    assert "running total" not in table
    tell(database, *sums(3))
    (table,) = [frame.value for frame in open_page("episodes").dataframe if "came to" in frame.value]
    assert {len(line) for line in table["running total"]} == {0, 4}


# Environment


def test_an_environment_has_its_figures_pattern_findings_and_scale(open_page: Open, database: Path) -> None:
    tell(database, *sums(60))
    page = open_page("environment", environment="sums")
    assert "50% succeed" in title(page)
    assert {
        "Totals of the episodes",
        "Success over time",
        "What may be wrong",
        "By task",
    } <= set(heads(page))
    labels = [one.label for one in page.expander]
    assert labels[0] == "Pattern: sparse and binary"
    assert labels[-1].startswith("Scale: 0 to 1")
    charts = page.get("plotly_chart")
    assert len(charts) == 2
    assert all(chart.proto.alt for chart in charts)
    (told,) = [table.value for table in page.table if "the reward is" in table.value]
    assert told["the reward is"].tolist() == ["**sparse**", "**binary**"]
    assert "**Pays only at the end.**" in said(page)


def test_findings_lead_to_the_steps_that_show_them(open_page: Open, database: Path) -> None:
    context = tell(database, *(hacked(number) for number in range(20)))
    page = open_page("environment", environment="shell")
    assert "**Looks hacked.** In 20 of 20 episodes" in said(page)
    assert "[In 20 of 20" in title(page)
    steps = [link.proto for link in page.get("page_link") if ", step" in link.proto.label]
    assert len(steps) == 20
    assert all("episode=shell%2F" in one.query_string and "step=" in one.query_string for one in steps)
    finding = critical_finding(queries.environment(context, "shell"))
    assert finding is not None
    assert certainty_words(finding) in said(page)
    (example,) = [table.value for table in page.table if "asked" in table.value]
    assert example["step"].tolist() == ["0", "1", "2", "3", "4"]
    assert example["what"].tolist() == ["echo"] * 5
    assert [text.endswith("as step 0") for text in example["asked"]] == [False, *[True] * 4]
    assert set(example["reward"]) == {"0.10"}


def test_an_example_of_the_demo_shows_what_was_asked(open_page: Open, database: Path) -> None:
    context = world(database, keys(3), 2)
    change(context, "keep_texts", True)
    generated = episodes(ENVIRONMENTS["shell/scavenger"], 100, 5)
    context.write("ingest", lambda txn: tell_episodes(txn, generated))
    page = open_page("environment", environment="shell/scavenger")
    (example,) = [table.value for table in page.table if "asked" in table.value]
    assert set(example["asked"]) == {wording.literal('{"command": "echo ok"}')}


def test_an_episode_of_a_finding_names_it(open_page: Open, database: Path) -> None:
    tell(database, *(hacked(number) for number in range(20)), *sums())
    page = open_page("episode", episode="shell/3")
    assert "one of them: In" in said(page)
    assert how_to_keep(keeps=False, of=Words("episode")) in said(page)
    (table,) = [frame.value for frame in page.dataframe if "so far" in frame.value]
    repeated = ["same action as step 0" in state for state in table["state"]]
    assert repeated == [False, *[True] * 7, False]
    assert "one of them" not in said(open_page("episode", episode="sums/large/3"))


def test_of_many_steps_the_first_of_each_episode_are_named() -> None:
    paid = columns_of([hacked(number) for number in range(20)], Scale())
    shown = paid.shown(np.arange(len(paid.reward)), 25)
    assert len(shown) == 25
    assert len({uid for uid, _ in shown}) == 20


def test_a_scale_is_offered_previewed_declared_and_taken_back(open_page: Open, database: Path) -> None:
    rich = [
        Episode(
            uid=f"rich/{number}",
            environment="rich",
            steps=(Step(number=0, reward=number / 10, finished=True),),
        )
        for number in range(16)
    ]
    context = tell(database, *rich)
    page = open_page("environment", environment="rich")
    assert "5 of 16 rewards are " in title(page)
    assert "outside 0–1" in title(page)
    assert "5 of 16 episodes with a reward lie outside: they reach from 0.00 to 1.50." in said(page)
    assert page.button(key="declare scale").disabled
    page.number_input(key="scale hi rich").set_value(2.0).run()
    assert "still above 0.9" in said(page)
    page.button(key="fill in the guess").click().run()
    assert page.number_input(key="scale threshold rich").value == 1.8
    page.number_input(key="scale threshold rich").set_value(1.2).run()
    check(page)
    effect = "3 of 16 episodes** now. By a total above 0.90 on 0–1 success is unknown."
    assert effect in said(page), "as the title says"
    assert not queries.environment(context, "rich").summary.declared
    page.button(key="declare scale").click().run()
    check(page)
    assert "19% succeed" in title(page)
    assert queries.environment(context, "rich").summary.declared
    page.button(key="undo last scale-1").click().run()
    check(page)
    assert not queries.environment(context, "rich").summary.declared
    assert page.number_input(key="scale hi rich").value == 1.0


def test_a_scale_that_is_none_says_why(open_page: Open, database: Path) -> None:
    tell(database, *sums(12))
    page = open_page("environment", environment="sums")
    page.number_input(key="scale lo sums").set_value(3.0).run()
    check(page)
    assert "A scale's lo must be below its hi" in said(page)
    assert page.button(key="declare scale").disabled


def test_who_may_not_change_settings_sees_no_form(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(database, *sums(12))
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role="viewer"))
    page = open_page("environment", environment="sums")
    assert "Scale: 0 to 1" in said(page)
    assert not page.number_input


def test_models_are_compared_on_the_same_tasks(open_page: Open, database: Path) -> None:
    context = tell(
        database, *sums(40), *sums(40, model="mini", every=4), attempt(99, wins=True, model="alone", task="x")
    )
    page = open_page("environment", environment="sums", compared=["large", "mini"])
    assert "Models on the same tasks" in heads(page)
    (chart,) = [one.proto for one in page.get("plotly_chart") if "same tasks" in one.proto.alt]
    assert "large less mini +0.250" in chart.alt
    told = said(page)
    assert "**large** earns 0.250 more" in told
    (between,) = re.findall(r"\(95% interval (\S+)–(\S+)\)", told)
    assert " to ".join(between) in chart.alt, "the sentence and the figure round alike"
    assert "No difference is shown" not in told
    page = open_page("environment", environment="sums", compared=["large", "alone"])
    assert "Two models must have a task in common to be compared, got none." in said(page)
    page = open_page("environment", environment="sums", compared="large")
    assert "Choose two models or more." in said(page)
    assert queries.compare(context, "sums", models=["large", "mini"]).pairs[0].n_tasks == 20


def test_models_without_a_difference_are_named_or_counted(open_page: Open, database: Path) -> None:
    wins = {"a": (0, 2), "b": (1, 3), "c": (0, 1), "d": (2, 3)}
    context = tell(
        database, *(attempt(n, wins=n % 4 in wins[name], model=name) for name in wins for n in range(20))
    )
    page = open_page("environment", environment="sums", compared=["a", "b"])
    (line,) = contest(queries.compare(context, "sums", models=["a", "b"]))
    assert line.startswith("No difference")
    assert re.search(r"interval −?0\.\d{3} to 0\.\d{3}\)", line)
    assert line in texts(page)
    comparison = queries.compare(context, "sums", models=list(wins))
    (line,) = contest(comparison)
    assert line.endswith("6 of 6 pairs.")


@pytest.mark.parametrize("name", ["nope", JUNK, "x" * 600])
def test_an_unknown_environment_tells_what_to_do(open_page: Open, database: Path, name: str) -> None:
    tell(database, *sums(2))
    page = open_page("environment", environment=name)
    assert title(page) == "There is no such environment."
    assert page.code[0].value.startswith("armscope ")
    assert JUNK not in said(page)


@pytest.mark.parametrize("look", THEMES.values(), ids=lambda look: look.name)
@pytest.mark.parametrize("compact", [False, True])
def test_figures_are_the_same_each_time_and_have_words(database: Path, look: Tokens, compact: bool) -> None:
    context = tell(database, *sums(40), *sums(40, model="mini", every=4))
    story = queries.environment(context, "sums")
    compared = queries.compare(context, "sums", models=["large", "mini"])
    once, again = (
        (
            distribution(story, look, compact=compact),
            progress(story, look, compact=compact),
            pairs(compared, look, compact=compact),
        )
        for _ in range(2)
    )
    for one, other in zip(once, again, strict=True):
        assert one.figure.to_json() == other.figure.to_json()
        assert one.alt.endswith(".")
        assert len({len(column) for column in one.table.values()}) == 1


def test_what_was_planted_stands_beside_what_is_found(database: Path) -> None:
    context = tell(database, *episodes(ENVIRONMENTS["shell/scavenger"], 30, 5), *sums(3))
    seen = queries.episodes(context)
    table = environments_table(ENVIRONMENTS).only("environment", "planted")
    assert {*table.cells(seen)} == {("shell/scavenger", "looks hacked"), ("sums", "")}
    assert "planted" not in environments_table().fields


# Overview


def test_the_overview_names_a_reward_that_looks_hacked_and_success_that_fell(
    open_page: Open, database: Path
) -> None:
    falling = [attempt(number, wins=number < 60) for number in range(120)]
    context = tell(database, *falling, *(hacked(number) for number in range(20)))
    page = open_page()
    assert "**The reward of shell looks hacked**" in said(page)
    assert "**Success in sums fell**" in said(page)
    assert "from 100% of the first episodes to 0% of the last, of 120 episodes" in said(page)
    led = "\n".join(link.proto.query_string for link in page.get("page_link"))
    assert "finding=reward_hacked&finding_of=shell" in led
    assert "finding=success_fell&finding_of=sums" in led
    told = {(one.kind, one.object) for one in queries.alarms(context)}
    assert {("reward_hacked", "shell"), ("success_fell", "sums")} <= told


def test_steady_environments_need_no_look(open_page: Open, database: Path) -> None:
    tell(database, *sums(120))
    assert "needs a look.**" not in said(open_page())
    assert "fell" not in said(open_page())


def test_what_all_episodes_came_to_adds_up(open_page: Open, database: Path) -> None:
    broken = [replace(one, uid=f"broken {one.uid}", broken=True) for one in sums(3)]
    off = [replace(one, uid=f"off {one.uid}", environment="off", steps=one.steps[3:]) for one in sums(8)]
    off = [replace(one, steps=(replace(one.steps[0], reward=7.0),)) for one in off]
    silent = [replace(one, uid=f"none {one.uid}", environment="none", steps=one.steps[:3]) for one in sums(4)]
    tell(database, *sums(20), *broken, *off, *silent, *(hacked(number) for number in range(9)))
    line = next(text for text in texts(open_page("episodes")) if "They came to: " in text)
    *came, unfinished = map(int, re.findall(r"(\d+) [a-z]", line))
    assert (came, sum(came), unfinished) == ([10, 19, 4, 3, 8], 44, 4)
    assert "10 success" in line
    assert "3 broken" in line
