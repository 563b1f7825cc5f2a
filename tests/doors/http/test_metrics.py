"""What a monitor is told: in formats that its own parsers read, the queries' numbers, and only what it may see."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families
from prometheus_client.samples import Sample

from core import Learner
from core.doors.alerting import Watch
from core.doors.http import metrics
from core.doors.http.app import Api
from core.doors.http.guard import Listener
from core.doors.http.serving import ROUTES
from core.errors import ArmscopeError, StoreBusy
from core.flows import maintenance, queries
from core.flows.context import Context, utc_now_ms
from core.flows.corrections import note, redo, reset, undo
from core.flows.identity import note_denied
from core.flows.learn import record, record_all, reward
from core.flows.learners import create_learner
from core.flows.queries.status import Measures
from core.flows.select import select
from core.flows.settings import change
from core.records.actor import Actor, Grant
from core.records.arm import Arm
from core.records.run import RUN_CLASSES, Inventory, RunClass
from core.spool import Spool
from core.store.engine import sqlite
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import LOCAL, Asked, at_desk
from tests.doors.http.test_log import observed
from tests.engine import kept_in
from tests.worlds import a_run, context_at

SEVEN: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "qortex_learning_selections": ("counter", ("learner", "baseline")),
    "qortex_learning_observations": ("counter", ("learner", "outcome")),
    "qortex_learning_posterior_mean": ("gauge", ("learner", "arm_id")),
    "qortex_learning_arm_pulls": ("counter", ("learner", "arm_id")),
    "qortex_learning_token_budget_used": ("histogram", ()),
    "qortex_learning_arm_alpha": ("gauge", ("learner", "arm_id")),
    "qortex_learning_arm_beta": ("gauge", ("learner", "arm_id")),
}
OPEN = "application/openmetrics-text;version=1.0.0"


def told(asking: Asking, **headers: str) -> dict[str, Metric]:
    """Families by name, as a monitor reads them, once all are of the present revision."""
    while True:
        found = asking.get("/metrics", **headers)
        assert found.status == 200, found.body
        kind, text = found.headers["content-type"], found.body.decode()
        if kind.startswith("application/openmetrics-text"):
            families = by_name(open_families(text))  # type: ignore[no-untyped-call]
        else:
            assert kind.startswith("text/plain; version=0.0.4")
            families = by_name(plain_families(text))
        if all(sample.value for sample in families["armscope_learner_metrics_fresh"].samples):
            return families


def by_name(families: Iterable[Metric]) -> dict[str, Metric]:
    return {family.name: family for family in families}


def value(families: Mapping[str, Metric], name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return float(found)


@pytest.mark.parametrize("accept", ["", "text/plain", OPEN])
def test_qortexs_seven_names_are_there_to_the_letter(asking: Asking, accept: str) -> None:
    families = told(asking, accept=accept)
    for name, (kind, labels) in SEVEN.items():
        assert families[name].type == kind
        assert {frozenset(sample.labels) - {"le"} for sample in families[name].samples} == {frozenset(labels)}
    limits = [
        sample.labels["le"]
        for sample in families["qortex_learning_token_budget_used"].samples
        if "le" in sample.labels
    ]
    assert limits == [*(f"{n}.0" for n in (100, 500, 1000, 2000, 4000, 8000, 16000)), "+Inf"]


def test_the_numbers_are_those_of_the_queries(context: Context, asking: Asking) -> None:
    at = {"learner": "default", "arm_id": "tool:fs:Read"}
    before = value(told(asking), "qortex_learning_arm_pulls_total", **at)
    assert before > 0
    reset(context, arms=["tool:fs:Read"])
    told(asking)
    reward(context, "tool:fs:Read", 0.25)
    families, seen = told(asking), queries.overview(context)
    for one in queries.posteriors(context):
        at = {"learner": "default", "arm_id": one.arm}
        assert value(families, "qortex_learning_posterior_mean", **at) == one.mean
        assert value(families, "qortex_learning_arm_alpha", **at) == one.alpha
        assert value(families, "qortex_learning_arm_beta", **at) == one.beta
        was_reset = one.arm == "tool:fs:Read"
        assert value(families, "qortex_learning_arm_pulls_total", **at) == one.pulls + was_reset * before
    given = [
        value(families, "qortex_learning_observations_total", learner="default", outcome=outcome)
        for outcome in ("accepted", "rejected")
    ]
    assert given[1] > 0.75
    assert sum(given) == seen.n_pulls + 1, "the epoch before the reset counts as well"
    kinds = [item.kind for item in seen.attention]
    assert kinds
    for item in seen.attention:
        place = {"learner": "default", "kind": item.kind, "severity": item.severity}
        assert value(families, "armscope_attention", **place) == kinds.count(item.kind)
    revision = queries.revision(context).revision
    assert value(families, "armscope_revision", learner="default") == revision


def test_budgets_are_counted_from_the_first_look_on(context: Context, asking: Asking) -> None:
    name = "qortex_learning_token_budget_used"
    change(context, "baseline_rate", 0.0)

    def choose(uid: str, budget: int) -> None:
        arms = [Arm(key="tool:web:search", token_cost=90), Arm(key="tool:x:dear", token_cost=700)]
        chosen = select(context, arms, budget_tokens=budget)
        Learner(context).record(uid, selection=chosen, calls=["search"])

    choose("before", 1_000)
    assert value(told(asking), f"{name}_count") == 0
    choose("small", 100)
    choose("large", 1_000)
    choose("without", 0)
    for _ in range(2):
        families = told(asking)
        assert value(families, f"{name}_count") == 2
        assert value(families, f"{name}_sum") == 90 + 790
        assert value(families, f"{name}_bucket", le="100.0") == 1
        assert value(families, f"{name}_bucket", le="500.0") == 1
        assert value(families, f"{name}_bucket", le="1000.0") == 2
        assert value(families, f"{name}_bucket", le="+Inf") == 2
    chosen = value(told(asking), "qortex_learning_selections_total", learner="default", baseline="False")
    assert chosen == 4


def test_the_arms_with_most_pulls_have_labels_and_the_others_are_counted(
    context: Context, asking: Asking
) -> None:
    other = context.of("sales")
    create_learner(context, "sales")
    many = Inventory(kind="declared", arms=tuple(Arm(key=f"tool:many:{n:03}") for n in range(600)))
    record(other, a_run("all", inventory=many, calls=["000"]))
    record_all(other, [a_run(f"r{n}", inventory=replace_arms(many, n), calls=["000"]) for n in range(5)])
    families = told(asking)
    labelled = [
        (sample.labels["learner"], sample.labels["arm_id"])
        for sample in families["qortex_learning_arm_alpha"].samples
    ]
    assert len(labelled) == len(set(labelled)) == metrics.MOST_ARMS
    left = [value(families, "armscope_arms_unlabelled", learner=name) for name in ("default", "sales")]
    n_arms = len(queries.posteriors(context)) + len(queries.posteriors(other))
    assert sum(left) == n_arms - metrics.MOST_ARMS
    pulls = {("sales", one.arm): one.pulls for one in queries.posteriors(other)}
    pulls |= {("default", one.arm): one.pulls for one in queries.posteriors(context)}
    fewest = min(pulls[place] for place in labelled)
    assert all(n <= fewest for place, n in pulls.items() if place not in labelled)


def replace_arms(inventory: Inventory, first: int) -> Inventory:
    """Some of its arms."""
    return Inventory(kind="declared", arms=inventory.arms[first * 50 : first * 50 + 50])


def test_a_token_sees_the_learners_that_are_its_own(context: Context, ask_as: Asked) -> None:
    create_learner(context, "sales")
    note_denied(context.store, None, "identify", context.clock())
    one = Actor(name="token:one", role=None, grants=(Grant(role="read", learner="sales"),), token=3)
    every = Actor(name="token:all", role=None, grants=(Grant(role="read"),), token=4)
    blind = Actor(name="token:in", role=None, grants=(Grant(role="ingest"),), token=5)
    asking = ask_as(Listener(), one=one, every=every, blind=blind)
    families = told(asking, authorization="Bearer one")
    assert learners(families) == {"sales"}
    assert "armscope_denials" not in families
    assert not {"process_cpu_seconds", "armscope_http_request_duration_seconds"} & families.keys()
    families = told(asking, authorization="Bearer every")
    assert learners(families) == {"default", "sales"}
    assert value(families, "armscope_denials_total") == 1
    assert asking.get("/metrics", authorization="Bearer blind").status == 403
    assert asking.get("/metrics").status == 401


def learners(families: Mapping[str, Metric]) -> set[str]:
    return {
        sample.labels["learner"]
        for family in families.values()
        for sample in family.samples
        if "learner" in sample.labels
    }


def test_nothing_is_computed_again_while_nothing_is_recorded(context: Context) -> None:
    still = replace(context, clock=lambda: 1_800_000_000_000)
    monitor = queries.Monitor()
    first = monitor.measures(still)
    assert monitor.measures(still) is first
    note(still, "tool:web:search", "x")
    second = monitor.measures(still)
    assert second is not first
    assert second.revision == first.revision + 1
    later = replace(context, clock=lambda: 1_800_000_600_000)
    assert monitor.measures(later) is not second, "what goes by the clock"


def test_hostile_ids_are_labels_and_nothing_else(context: Context, asking: Asking) -> None:
    keys = ['tool:x:"} 1\n# HELP', "tool:x:\\", "tool:x:<b>%{x}</b>", "file:workspace:\u202ea"]
    sound = [key for key in keys if "\n" not in key]
    for n, key in enumerate(sound):
        record(
            context, a_run(f"h{n}", inventory=Inventory(kind="declared", arms=(Arm(key=key),)), calls=["x"])
        )
    for accept in ("", OPEN):
        samples = told(asking, accept=accept)["qortex_learning_arm_beta"].samples
        assert {*sound} <= {sample.labels["arm_id"] for sample in samples}


def test_no_learner_is_no_error(ask_as: Asked) -> None:
    empty = Actor(name="token:none", role=None, grants=(Grant(role="read", learner="nobody"),), token=3)
    families = told(ask_as(Listener(), none=empty), authorization="Bearer none")
    assert learners(families) == set()
    assert np.isfinite(value(families, "qortex_learning_token_budget_used_count"))


# The server itself


def test_requests_are_counted_by_method_template_and_status(context: Context) -> None:
    asking = observed(context)
    name = "armscope_http_request_duration_seconds"
    before = told(asking)[name].samples
    for path in ("/api/v1/learners/default/status", "/api/v1/learners/canary/status", "/canary?canary"):
        asking.get(path)
    asking.ask("CANARY", "/livez")
    after = told(asking)[name].samples
    asking.close()
    assert "canary" not in str(after).lower()

    def counted(samples: list[Sample]) -> Counter[tuple[str, ...]]:
        here = [one for one in samples if one.name.endswith("_count")]
        return Counter({tuple(one.labels.values()): int(one.value) for one in here})

    new = counted(after) - counted(before)
    del new["GET", "/metrics", "200"]
    status = "/api/v1/learners/{name}/status"
    assert new == {
        **{("GET", status, "200"): 1, ("GET", status, "404"): 1, ("GET", "other", "404"): 1},
        **{("other", "/livez", "405"): 1},
    }


@pytest.mark.of_file
def test_a_wait_for_the_write_lock_is_counted(context: Context, asking: Asking) -> None:
    at = {"resource": "write_lock"}
    before = value(told(asking), "armscope_wait_seconds_sum", **at)
    database = context.store.database
    assert isinstance(database, sqlite.Database)
    with database.locked():
        writer = threading.Thread(target=reward, args=[context, "tool:fs:Read", 1.0])
        writer.start()
        time.sleep(0.1)
    writer.join()
    assert value(told(asking), "armscope_wait_seconds_sum", **at) - before >= 0.05


def test_size_upkeep_spool_and_imports_are_there(context: Context, asking: Asking, tmp_path: Path) -> None:
    earlier = told(asking)
    n_before = value(earlier, "armscope_imports_in_progress")
    assert earlier["armscope_last_success_timestamp_seconds"].samples == []
    maintenance.backup(context, tmp_path / "backup.db")
    assert queries.verify(context).clean
    Spool.of_database(context.store.location, "default").add("u", b"{}", now_ms=utc_now_ms())
    with context.store.importing():
        families = told(asking)
        assert value(families, "armscope_imports_in_progress") == n_before + 1
    assert value(told(asking), "armscope_imports_in_progress") == n_before
    for task in ("backup", "verify"):
        at_s = value(families, "armscope_last_success_timestamp_seconds", task=task)
        assert at_s == pytest.approx(context.clock() / 1000, abs=86_400)
    assert sum(one.value for one in families["armscope_database_size_bytes"].samples) > 10_000
    assert value(families, "armscope_spool_runs", state="waiting") >= 1
    (newest,) = queries.runs(context, limit=1)
    at_s = value(families, "armscope_last_timestamp_seconds", learner="default", kind="run")
    assert round(at_s * 1000) == newest.at_ms


def test_failed_alerts_and_messages_are_counted(context: Context, asking: Asking) -> None:
    def fail() -> Context:
        raise StoreBusy("It is busy.", next_step="Wait.")

    before = value(told(asking), "armscope_alert_checks_failed_total")
    watch = Watch(fail, every_s=0.01).start()
    while value(told(asking), "armscope_alert_checks_failed_total") < before + 2:
        time.sleep(0.01)
    watch.stop()


@pytest.mark.of_file
def test_a_server_without_its_database_tells_of_itself(context: Context, asking: Asking) -> None:
    assert value(told(asking), "armscope_database_up") == 1
    path = kept_in(context.store)
    path.rename(path.with_suffix(".away"))
    families = by_name(plain_families(asking.get("/metrics").body.decode()))
    path.with_suffix(".away").rename(path)
    assert value(families, "armscope_database_up") == 0
    assert "process_resident_memory_bytes" in families
    assert learners(families) == set()


def test_what_takes_long_is_left_to_the_next_scrape(
    context: Context, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, compute = threading.Event(), queries.Monitor.measures

    def slowly(self: queries.Monitor, context: Context) -> Measures:
        may_go_on.wait(60)
        return compute(self, context)

    monkeypatch.setattr(queries.Monitor, "measures", slowly)
    monkeypatch.setattr(metrics, "WAIT_S", 0.05)
    first = by_name(plain_families(asking.get("/metrics").body.decode()))
    assert value(first, "armscope_learner_metrics_fresh", learner="default") == 0
    assert not first["armscope_revision"].samples
    assert "process_cpu_seconds" in first
    may_go_on.set()
    revision = value(told(asking), "armscope_revision", learner="default")
    may_go_on.clear()
    note(context, "tool:web:search", "x")
    stale = by_name(plain_families(asking.get("/metrics").body.decode()))
    assert value(stale, "armscope_learner_metrics_fresh", learner="default") == 0
    assert value(stale, "armscope_revision", learner="default") == revision
    may_go_on.set()
    assert value(told(asking), "armscope_revision", learner="default") == revision + 1


def test_every_family_has_words_and_promtool_finds_no_fault(asking: Asking) -> None:
    """Where Prometheus is installed, its own check reads them, too."""
    families = told(asking)
    assert [name for name, family in families.items() if not family.documentation.strip()] == []
    assert [name for name, family in families.items() if family.type == "unknown"] == []
    if promtool := shutil.which("promtool"):
        text = asking.get("/metrics").body
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, b"")


# Counters


class Counters(RuleBasedStateMachine):
    """Any acts, undone and redone, with a scrape after each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.context = context_at(Path(self.folder.name) / "a.db")
        self.asking = Asking(app=Api(at_desk(self.context), ROUTES, listener=LOCAL))
        self.acts: list[str] = []
        self.n = 0
        self.known: dict[object, float] = {}

    @rule(
        calls=st.lists(st.sampled_from(("a", "b", "c")), max_size=2), run_class=st.sampled_from(RUN_CLASSES)
    )
    def run(self, calls: list[str], run_class: RunClass) -> None:
        self.n += 1
        record(self.context, a_run(f"r{self.n}", calls=calls, run_class=run_class))

    @rule(value=st.floats(0, 1))
    def reward(self, value: float) -> None:
        arms = queries.posteriors(self.context)
        if arms:
            self.acts.append(reward(self.context, arms[0].arm, value).id)

    @rule(everything=st.booleans())
    def reset(self, everything: bool) -> None:
        arms = [one.arm for one in queries.posteriors(self.context)]
        if arms:
            self.acts.append(reset(self.context, arms=() if everything else arms[:1]).id)

    @rule(pick=st.integers(0, 99))
    def undo(self, pick: int) -> None:
        if self.acts:
            undo(self.context, self.acts[pick % len(self.acts)])

    @rule(pick=st.integers(0, 99))
    def redo(self, pick: int) -> None:
        with suppress(ArmscopeError):
            redo(self.context, self.acts[pick % len(self.acts)] if self.acts else "reward-1")

    @invariant()
    def no_counter_falls(self) -> None:
        for family in told(self.asking).values():
            if family.type in {"counter", "histogram"}:
                for sample in family.samples:
                    key = (sample.name, *sorted(sample.labels.items()))
                    assert sample.value >= self.known.get(key, 0.0), key
                    self.known[key] = sample.value

    def teardown(self) -> None:
        self.asking.close()
        self.context.store.close()
        self.folder.cleanup()


TestCounters = Counters.TestCase
TestCounters.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
