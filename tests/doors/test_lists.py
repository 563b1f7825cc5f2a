"""Lists: every door takes the filters of the pages, and lists what the page shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from core import AsyncClient, AsyncLearner, Client, Learner
from core.demo import LEARNER, build
from core.doors.cli import main
from core.doors.http import api
from core.doors.http.app import Api
from core.doors.http.guard import Listener
from core.doors.mcp.tools import call
from core.doors.service import Service
from core.doors.verbs import outside, verb
from core.errors import InvalidInput, NotApplicable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, undo
from core.flows.learn import reward
from core.records.actor import Actor
from core.records.episode_page import EpisodeFilter
from core.records.evaluation_page import EvaluationFilter
from core.records.run import RUN_CLASSES
from core.records.run_query import OUTCOMES, SPANS, STATUSES, RunFilter, View
from core.records.times import DAY_MS, HOUR_MS, iso
from core.store.reads.log import after_of
from core.store.store import Store
from tests.doors.examples import ARM, RUN, example_world
from tests.doors.http.asking import Asking
from tests.doors.http.test_served import served

pytestmark = pytest.mark.of_file
N_RUNS = 240
MANY = 1_000
MARA = Actor(name="mara")
Query = dict[str, Any]
Listed = Callable[[Query], list[str]]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    path = tmp_path_factory.mktemp("lists") / "demo.db"
    build(path, n_runs=N_RUNS, seed=3)
    with closing(Store(path)) as store:
        yield Context(store=store, learner=LEARNER, actor=MARA)


@pytest.fixture(scope="module")
def doors(context: Context) -> Iterator[dict[str, Listed]]:
    """What each door lists for a query of runs: their uids."""
    service = Service(store=context.store, learner=LEARNER, clock=context.clock, entropy=context.entropy)
    asking = Asking(app=Api(service, api.ROUTES, listener=Listener(local=MARA)))

    def over_http(query: Query) -> list[str]:
        fields = {outside(name): value for name, value in query.items()}
        return [one["uid"] for one in asking.items(f"/api/v1/learners/{LEARNER}/runs", 100, fields)]

    def over_mcp(query: Query) -> list[str]:
        fields = {outside(name): value for name, value in query.items()}
        document = call(service, MARA, "runs", {"limit": MANY, **fields}).document
        assert document is not None
        return [one["uid"] for one in document["runs"]]

    with served(context, learner=LEARNER) as url:
        client = Client(url, learner=LEARNER)
        yield {
            "Learner": lambda query: [one.uid for one in Learner(context).runs(MANY, **query)],
            "AsyncLearner": lambda query: _awaited(AsyncLearner(Learner(context)), query),
            "Client": lambda query: [one.uid for one in client.runs(MANY, **query)],
            "AsyncClient": lambda query: _awaited(AsyncClient(url, learner=LEARNER), query),
            "HTTP": over_http,
            "MCP": over_mcp,
        }
        client.close()
        asking.close()


def _awaited(learner: AsyncLearner | AsyncClient, query: Query) -> list[str]:
    return [one.uid for one in asyncio.run(learner.runs(MANY, **query))]


def queries_of(context: Context) -> list[tuple[Query, RunFilter, View]]:
    """Every value of every filter, with the filters that the page of runs makes of it."""
    frame = queries.frame(context)
    assert frame.first_at_ms is not None
    assert frame.last_at_ms is not None
    middle = (frame.first_at_ms + frame.last_at_ms) // 2 // DAY_MS * DAY_MS
    day, hour = str(iso(middle))[:10], str(iso(middle + 9 * HOUR_MS))
    arms = [row.arm for row in queries.arms(context)]
    every: list[tuple[Query, RunFilter, View]] = [({}, RunFilter(), View())]
    every += [({"model": one}, RunFilter(), View(models=(one,))) for one in frame.models]
    every += [({"channel": one}, RunFilter(), View(channels=(one,))) for one in frame.channels]
    every += [({"class_": one}, RunFilter(classes=(one,)), View()) for one in RUN_CLASSES]
    every += [({"status": one}, RunFilter(statuses=(one,)), View()) for one in STATUSES]
    every += [({"outcome": one}, RunFilter(outcomes=(one,)), View()) for one in OUTCOMES]
    for arm in (arms[0], arms[-1], "tool:none:none"):
        every.append(({"arm": arm}, RunFilter(arm=arm), View()))
        every.append(({"arm": arm, "part": "in"}, RunFilter(arm=arm, part="in"), View()))
        every.append(({"arm": arm, "part": "out"}, RunFilter(arm=arm, part="out"), View()))
    for span in SPANS:
        days = int(span.split()[0]) if span[0].isdigit() else None
        since = None if days is None else (frame.last_at_ms - days * DAY_MS) // HOUR_MS * HOUR_MS
        every.append(({"span": span}, RunFilter(), View(since_ms=since)))
    every += [
        ({"from_": day}, RunFilter(), View(since_ms=middle)),
        ({"from_": hour}, RunFilter(), View(since_ms=middle + 9 * HOUR_MS)),
        ({"to": hour}, RunFilter(), View(until_ms=middle + 9 * HOUR_MS)),
        (
            {"span": "dates", "from_": day, "to": day},
            RunFilter(),
            View(since_ms=middle, until_ms=middle + DAY_MS),
        ),
        (
            {"model": list(frame.models[:2]), "class_": ["baseline", "selected"], "status": "completed"},
            RunFilter(classes=("baseline", "selected"), statuses=("completed",)),
            View(models=frame.models[:2]),
        ),
    ]
    return every


def of_page(context: Context, run_filter: RunFilter, view: View) -> list[str]:
    return [row.uid for row in queries.runs_view(context, run_filter, view, limit=MANY).page.rows]


def test_each_filter_lists_at_every_door_what_the_page_shows(
    context: Context, doors: dict[str, Listed]
) -> None:
    asked = queries_of(context)
    shown = [of_page(context, run_filter, view) for _, run_filter, view in asked]
    assert sum(0 < len(one) < N_RUNS for one in shown) > 20
    for name, listed in doors.items():
        for (query, _, _), expected in zip(asked, shown, strict=True):
            assert listed(query) == expected, (name, query)


def test_the_command_lists_what_the_page_shows(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    query = {"class": ["baseline", "selected"], "status": ["completed", "error"], "span": ["90 days"]}
    words = [word for name, values in query.items() for one in values for word in (f"--{name}", one)]
    path = str(context.store.location)
    with pytest.raises(SystemExit):
        main(["--database", path, "--learner", LEARNER, "runs", "--limit", "1000", "--json", *words])
    (days,) = [view for one, _, view in queries_of(context) if one == {"span": "90 days"}]
    expected = RunFilter(classes=("baseline", "selected"), statuses=("completed", "error"))
    assert [one["uid"] for one in json.loads(capsys.readouterr().out)] == of_page(context, expected, days)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"class_": "control"}, "baseline, selected, passive, fallback, imported"),
        ({"status": ["completed", "failed"]}, "completed, aborted, error"),
        ({"part": "in"}, "arm"),
        ({"span": "a week"}, ", ".join(SPANS)),
        ({"from_": "Monday"}, "2026-01-31"),
        ({"to": "2026-01-31T08:30Z"}, "full hour"),
        ({"span": "7 days", "from_": "2026-01-31"}, "span"),
        ({"from_": "2026-02-01", "to": "2026-01-31"}, "before"),
    ],
)
def test_a_wrong_value_names_what_is_allowed(
    context: Context, doors: dict[str, Listed], wrong: Query, named: str
) -> None:
    for name in ("Learner", "Client", "AsyncClient"):
        with pytest.raises(InvalidInput, match=named):
            doors[name](wrong)
    service = Service(store=context.store, learner=LEARNER, clock=context.clock, entropy=context.entropy)
    fields = {outside(name): value for name, value in wrong.items()}
    assert named in json.loads(call(service, MARA, "runs", fields).text)["error"]


def test_an_unknown_filter_is_refused_with_those_that_are_known(
    context: Context, doors: dict[str, Listed]
) -> None:
    for name in ("Learner", "Client"):
        with pytest.raises(TypeError, match="model, channel"):
            doors[name]({"modle": "large"})
    with pytest.raises(InvalidInput, match="model, channel"):
        verb("runs").decode({"modle": "large"})
    with Learner(context) as learner:
        for name in ("ledger", "acts", "evaluations"):
            with pytest.raises(TypeError, match="since"):
                getattr(learner, name)(modle="large")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    """A world in which every list has rows."""
    context = example_world(tmp_path_factory.mktemp("judged"))
    note(context, ARM, "slow")
    reward(context, ARM, 0.25, run=RUN, reason="half")
    undo(context, reward(context, ARM, 0.5).id)
    yield context
    context.store.close()


LISTS: dict[str, tuple[str, Query, Callable[[Context, Query], object]]] = {
    "ledger": ("row_no", {"arm": ARM}, lambda context, query: queries.rewards(context, limit=MANY, **query)),
    "acts": ("mark", {"action": "note"}, lambda context, query: queries.changes(context, MANY, **query)),
    "audit": ("mark", {"action": "note"}, lambda context, query: queries.changes(context, MANY, **query)),
    "evaluations": (
        "id",
        {"outcome": "success"},
        lambda context, query: queries.evaluations(
            context,
            EvaluationFilter(**{name: value for name, value in query.items() if name != "since"}),
            limit=MANY,
            since=query.get("since"),
        ),
    ),
    "episodes": (
        "uid",
        {"environment": "sums"},
        lambda context, query: (
            queries.episode_list(
                context,
                EpisodeFilter(**{name: value for name, value in query.items() if name != "since"}),
                since=query.get("since"),
            ).rows
        ),
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_other_lists_take_their_filters_over_http_and_go_on_from_a_mark(judged: Context, name: str) -> None:
    key, chosen, listed = LISTS[name]
    service = Service(store=judged.store, learner="default", clock=judged.clock, entropy=judged.entropy)
    asking = Asking(app=Api(service, api.ROUTES, listener=Listener(local=MARA)))
    for query in ({}, chosen, {"since": "0"}, {**chosen, "since": "0"}):
        expected = [getattr(row, key) for row in cast("Any", listed(judged, query))]
        items = asking.items(f"/api/v1/learners/default/{name}", 2, query)
        assert [one[key] for one in items] == expected, query
        assert expected
    unknown = asking.get(f"/api/v1/learners/default/{name}?modle=large")
    assert (unknown.status, "since" in unknown.document["error"]) == (400, True)
    wrong = asking.get(f"/api/v1/learners/default/{name}?since=9:{'0' * 16}")
    assert (wrong.status, "another database" in wrong.document["next"]) == (400, True)
    asking.close()


def test_the_audit_command_goes_on_from_a_mark(judged: Context, capsys: pytest.CaptureFixture[str]) -> None:
    def audit(*words: str) -> Any:  # noqa: ANN401
        with pytest.raises(SystemExit):
            main(["--database", str(judged.store.location), "audit", "--json", *words])
        return json.loads(capsys.readouterr().out)

    every = audit("--all")["entries"]
    marks = [one["mark"] for one in every[::-1]]
    assert len(marks) > 3
    assert [one["mark"] for one in audit("--since", "0", "--limit", "2")["entries"]] == marks[:2]
    assert [one["mark"] for one in audit("--since", marks[1], "--all")["entries"]] == marks[2:]
    assert audit("--since", marks[-1])["entries"] == []
    assert [one["mark"] for one in audit("--since", "2000-01-01")["entries"]] == marks[::-1]
    assert "--since" in audit("--since", "Monday")["error"]
    assert "/1." in audit("--since", "1")["next"], "a revision alone"
    assert "2026-01-31" in audit("--since", "0", "--denials")["error"]


def test_the_ledger_takes_the_filters_of_the_runs_that_rewards_are_about(judged: Context) -> None:
    def of(**query: Any) -> set[int]:  # noqa: ANN401
        return {row.row_no for row in queries.rewards(judged, limit=MANY, **query)}

    every = queries.rewards(judged, limit=MANY)
    about = {row.row_no for row in every if row.run == RUN}
    assert about
    assert about < {row.row_no for row in every}
    (run,) = [one for one in queries.runs(judged, MANY) if one.uid == RUN]
    assert of(run=RUN) == about
    assert of(class_=run.run_class) >= about
    assert of(class_=run.run_class, run=RUN) == of(status=[run.status], run=RUN) == about
    assert of(model="none") == of(session="none") == of(run="none") == set()
    assert of(kind="correction") == {row.row_no for row in every if row.kind == "correction"}
    assert of(actor="nobody") == set()
    day = str(iso(every[0].at_ms))[:10]
    assert of(from_=day, to=day) | of(to="2000-01-01") == {
        row.row_no for row in every if str(iso(row.at_ms))[:10] == day
    }


def test_a_hidden_evaluation_is_never_left_out_of_what_changed(judged: Context) -> None:
    with judged.reading() as snapshot:
        assert after_of(snapshot, None, [1]) is None
        with pytest.raises(NotApplicable, match="hidden"):
            after_of(snapshot, "0", [1])
