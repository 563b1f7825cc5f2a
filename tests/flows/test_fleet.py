"""Many learners at a glance: as each one's own pages say it, in a few statements, whoever can't be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Denied
from core.flows import alerts, queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.learn import record_all
from core.flows.learners import LearnerCache, create_learner, fleet_version, learners
from core.flows.queries.savings import usage_in
from core.flows.settings import change
from core.flows.webhooks import add_webhook
from core.maths.statistics.savings import saved_percent_of
from core.records.actor import Actor, Grant
from core.records.alert import Alarm
from core.records.run import Run, RunClass
from core.records.run_query import View
from core.records.times import DAY_MS, iso
from core.store.engine import Connection
from tests.store.said import listening
from tests.waiting import memory_folder
from tests.worlds import START_MS, a_run, acting, context_at

NAMES = ("a", "b", "c")
LATER = START_MS + 9 * DAY_MS

RUNS = st.lists(
    st.builds(
        lambda day, run_class, model, tokens, status: (day, run_class, model, tokens, status),
        st.one_of(st.none(), st.integers(0, 30)),
        st.sampled_from(["baseline", "selected", "imported"]),
        st.sampled_from([None, "m", "n"]),
        st.one_of(st.none(), st.integers(0, 900)),
        st.sampled_from(["completed", "completed", "completed", "error"]),
    ),
    max_size=25,
)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return replace(context_at(tmp_path / "fleet.db"), clock=lambda: LATER)


def fill(context: Context, name: str, n_runs: int = 40, *, days: int = 3) -> Context:
    """A learner with baseline and selected runs of two models."""
    one = context.of(name)
    record_all(one, [_run(number, n_runs, days) for number in range(n_runs)])
    return one


def _run(number: int, n_runs: int, days: int) -> Run:
    run_class: RunClass = "baseline" if number % 3 == 0 else "selected"
    return a_run(
        f"r{number}",
        at_ms=START_MS + number * days * DAY_MS // n_runs,
        tokens=100 + 7 * number if run_class == "selected" else 300 + number,
        run_class=run_class,
        model=("small", "large")[number % 2],
    )


def expected(context: Context) -> dict[str, object]:
    """The same of one learner, by what its own pages ask."""
    frame, seen = queries.frame(context), queries.overview(context)
    with context.reading() as snapshot:
        saved = saved_percent_of(usage_in(snapshot, View()))
    return {
        "runs": frame.n_runs,
        "arms": frame.n_arms,
        "revision": frame.revision,
        "phase": frame.phase,
        "last_run": iso(frame.last_at_ms),
        "saved_percent": None if saved is None else pytest.approx(saved, rel=1e-9),
        "silent": any(one.kind == "silent" for one in seen.attention),
    }


@settings(max_examples=25)
@given(worlds=st.lists(RUNS, min_size=1, max_size=3), quiet_days=st.integers(0, 40))
def test_each_is_as_its_own_pages_say(worlds: list[list[tuple]], quiet_days: int) -> None:  # type: ignore[type-arg]
    with TemporaryDirectory(dir=memory_folder()) as place:
        now_ms = START_MS + (30 + quiet_days) * DAY_MS
        context = replace(context_at(Path(place) / "fleet.db"), clock=lambda: now_ms)
        for name, world in zip(NAMES, worlds, strict=False):
            create_learner(context, name)
            record_all(
                context.of(name),
                [
                    a_run(
                        f"r{number}",
                        at_ms=None if day is None else START_MS + day * DAY_MS + number,
                        run_class=run_class,
                        model=model,
                        tokens=tokens,
                        status=status,
                    )
                    for number, (day, run_class, model, tokens, status) in enumerate(world)
                ],
            )
        found = learners(context)
        assert [one.name for one in found] == list(NAMES[: len(worlds)])
        for one in found:
            assert {
                **{name: getattr(one, name) for name in ("runs", "arms", "revision", "phase", "last_run")},
                "saved_percent": one.saved_percent,
                "silent": "silent" in one.alarms,
            } == expected(context.of(one.name))
        context.store.close()


def test_tokens_saved_are_those_of_the_savings_page(context: Context) -> None:
    one = fill(context, "a")
    (found,) = learners(context)
    assert found.tokens_saved == round(queries.savings(one).tokens.saved.value or 0)


def test_states(context: Context) -> None:
    fill(context, "selects", days=9)
    change(fill(context, "watches", days=9), "phase", "passive")
    create_learner(context, "new")
    fill(context, "quiet", days=1)
    found = {one.name: one for one in learners(context)}
    assert {name: one.state for name, one in found.items()} == {
        "new": "empty",
        "quiet": "alarmed",
        "selects": "selecting",
        "watches": "passive",
    }
    assert found["quiet"].alarms == ("silent",)
    assert [name for name, one in found.items() if one.needs_attention] == ["quiet"]


def test_alerts_that_stand_are_told_to_whoever_may_read_the_learner(context: Context) -> None:
    for name in ("a", "b"):
        fill(context, name, days=9)
    add_webhook(context, "https://hooks.example/")
    holds = [Alarm(learner="a", kind="poisoned", object="tool", count=2)]
    alerts.look(context, find=lambda one: [alarm for alarm in holds if alarm.learner == one.learner])
    assert {one.name: one.alarms for one in learners(context)} == {"a": ("poisoned",), "b": ()}
    only_b = Actor(name="v", grants=(Grant(role="viewer", learner="b"),), role=None)
    assert [(one.name, one.state) for one in learners(replace(context, actor=only_b))] == [("b", "selecting")]


def test_whoever_may_read_none_is_told_nothing(context: Context) -> None:
    fill(context, "a")
    nobody = acting(context, None)
    for ask in (learners, fleet_version):
        with pytest.raises(Denied):
            ask(nobody)


def test_the_installation_is_no_learner(context: Context) -> None:
    add_webhook(context, "https://hooks.example/")
    assert learners(context) == []


def _statements(ask: Callable[[], object]) -> set[str]:
    with listening() as said:
        ask()
    return set(said.statements)


def test_as_many_statements_for_many_as_for_one(context: Context) -> None:
    fill(context, "a")
    learners(context)  # whose number is looked up only once
    few = _statements(lambda: learners(context))
    for number in range(12):
        fill(context, f"more {number}", 6)
    assert _statements(lambda: learners(context)) == few
    assert len(few) <= 10


def _spoil(context: Context, name: str, sql: str) -> None:
    def spoil(connection: Connection) -> None:
        ((number,),) = connection.rows("SELECT learner_id FROM learner WHERE name = ?", [name])
        connection.run(sql, [number])

    context.store.database.write(spoil)


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(  # what a server adds up may be larger than any of it
            f"UPDATE usage_day SET n = {(1 << 63) - 1} WHERE learner_id = ?", marks=pytest.mark.of_file
        ),
        "UPDATE learner SET settings = '{' WHERE learner_id = ?",
        "UPDATE learner SET settings = '{\"phase\": 7}' WHERE learner_id = ?",
    ],
)
def test_one_that_cannot_be_read_is_named_and_the_others_are_shown(context: Context, sql: str) -> None:
    for number in range(7):
        fill(context, f"agent {number}", days=9)
    before = {one.name: one for one in learners(context)}
    _spoil(context, "agent 3", sql)
    found = {one.name: one for one in learners(context)}
    spoiled = found.pop("agent 3")
    assert spoiled.state == "unreadable"
    assert spoiled.needs_attention
    assert spoiled.problem
    assert (spoiled.runs, spoiled.last_run) == (None, None)
    before.pop("agent 3")
    assert found == before


def test_what_is_kept_is_what_would_be_read(context: Context) -> None:
    """After every act the list is the same with and without what was kept, and only who changed is read."""
    for name in NAMES:
        fill(context, name)
    kept: LearnerCache = {}
    moments = set()
    acts: list[Callable[[], object]] = [
        lambda: None,
        lambda: record_all(context.of("a"), [a_run("new", at_ms=LATER)]),
        lambda: change(context.of("b"), "phase", "passive"),
        lambda: undo(context.of("b"), "setting-1"),
        lambda: create_learner(context, "d"),
    ]
    for act in acts:
        act()
        moments.add(fleet_version(context))
        assert learners(context, cache=kept) == learners(context)
        assert len(kept) == len(learners(context))
    assert len(moments) == len(acts)
    assert not any("usage_day" in sql for sql in _statements(lambda: learners(context, cache=kept)))
