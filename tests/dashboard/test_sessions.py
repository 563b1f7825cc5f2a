"""Several people at one process: no one is shown an answer of other rights, or one that was overtaken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows.evaluate import evaluate
from core.flows.learners import create_learner
from core.flows.queues import add_queue
from core.flows.review import next_item
from core.records.actor import Actor, Grant
from core.records.review import QueueAsks
from dashboard.reading import Cache
from tests.dashboard.conftest import Open, texts, unfold
from tests.dashboard.worlds import keys, world

OPERATOR = Actor(name="olga")
VIEWER = Actor(name="vi", role="viewer")
REVIEWER = Actor(name="jo", role=None, grants=(Grant(role="reviewer", learner="default"),))


def shown(page: AppTest) -> str:
    return " ".join([*texts(page), *(frame.value.to_string() for frame in page.dataframe)])


def test_what_is_kept_for_one_is_not_shown_to_another(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = world(database, keys(3), 6)
    for run in ("run-3", "run-4"):
        evaluate(context, run, "success", rater="bob", feedback=f"on {run}")
    queue = add_queue(context, "Blind", QueueAsks(source="runs", runs=("run-3",)), n_reviewers=2, blind=True)
    assert next_item(replace(context, actor=REVIEWER), queue.id).item is not None
    remarks = []
    for actor in (OPERATOR, VIEWER, REVIEWER, OPERATOR):
        monkeypatch.setattr("core.settings.local_operator", lambda actor=actor: actor)
        page = shown(open_page("evaluations"))
        remarks.append([run for run in ("run-3", "run-4") if f"on {run}" in page])
    assert remarks == [["run-3", "run-4"], [], ["run-4"], ["run-3", "run-4"]]


def test_a_learner_that_is_not_ones_own_is_not_named(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_learner(world(database, keys(3), 2), "secret")
    offered = []
    for actor in (OPERATOR, REVIEWER):
        monkeypatch.setattr("core.settings.local_operator", lambda actor=actor: actor)
        offered.append("secret" in unfold(open_page(), "learner popover").selectbox(key="learner").options)
    assert offered == [True, False]


def test_a_role_that_was_taken_away_is_gone_in_the_next_rerun(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(database, keys(3), 2)
    monkeypatch.setattr("core.settings.local_operator", lambda: REVIEWER)
    page = open_page("posteriors")
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="jo", role=None, grants=()))
    page.run()
    assert "tool:fs:t0" not in shown(page)
    assert any("needs one of the roles" in text for text in texts(page))


def test_an_answer_that_was_overtaken_is_given_but_not_kept() -> None:
    cache, revision = Cache(bound=4), [1]

    def ask() -> str:
        revision[0] += 1  # someone writes while the question is asked
        return f"of revision {revision[0]}"

    assert cache.get(1, ask, still=lambda: revision[0] == 1) == "of revision 2"
    assert len(cache) == 0
    assert cache.get(1, lambda: "of revision 1") == "of revision 1"
    assert cache.get(1, lambda: "another") == "of revision 1"
