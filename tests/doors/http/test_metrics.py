"""What a monitor is told: in formats that its own parsers read, the queries' numbers, and only what it may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from core.doors.http import metrics
from core.doors.http.guard import Listener
from core.flows import queries
from core.flows.context import Context
from core.flows.identity import note_denied
from core.flows.learn import record, record_all
from core.flows.learners import create_learner
from core.flows.note import note
from core.flows.reset import reset
from core.flows.reward import reward
from core.flows.select import select
from core.flows.settings import change
from core.records.actor import Actor, Grant
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import Asked
from tests.flows.world import run_of

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
    """Families by name, as a monitor reads them."""
    found = asking.get("/metrics", **headers)
    assert found.status == 200, found.body
    kind, text = found.headers["content-type"], found.body.decode()
    if not kind.startswith("application/openmetrics-text"):
        assert kind.startswith("text/plain; version=0.0.4")
        return by_name(plain_families(text))
    return by_name(open_families(text))  # type: ignore[no-untyped-call]


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
    reset(context, arms=["tool:fs:Read"])
    reward(context, "tool:fs:Read", 0.25)
    families, seen = told(asking), queries.overview(context)
    for one in queries.posteriors(context):
        at = {"learner": "default", "arm_id": one.arm}
        assert value(families, "qortex_learning_posterior_mean", **at) == one.mean
        assert value(families, "qortex_learning_arm_alpha", **at) == one.alpha
        assert value(families, "qortex_learning_arm_beta", **at) == one.beta
        assert value(families, "qortex_learning_arm_pulls_total", **at) == one.pulls
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
        kept = tuple(arm for arm in arms if arm.key in chosen.included)
        record(
            context,
            Run(
                uid=uid,
                inventory=Inventory(kind="declared", arms=kept),
                excluded=tuple(arm.key for arm in arms if arm not in kept),
                selection=chosen,
                calls=(Call(name="search"),),
                run_class=chosen.run_class,
            ),
        )

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
    context: Context, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = context.of("sales")
    create_learner(context, "sales")
    many = Inventory(kind="declared", arms=tuple(Arm(key=f"tool:many:{n:03}") for n in range(600)))
    record(other, run_of("all", inventory=many, calls=["000"]))
    record_all(
        other,
        [run_of(f"r{n}", inventory=replace_arms(many, n), calls=["000"]) for n in range(5)],
    )
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
            context, run_of(f"h{n}", inventory=Inventory(kind="declared", arms=(Arm(key=key),)), calls=["x"])
        )
    for accept in ("", OPEN):
        samples = told(asking, accept=accept)["qortex_learning_arm_beta"].samples
        assert {*sound} <= {sample.labels["arm_id"] for sample in samples}


def test_no_learner_is_no_error(ask_as: Asked) -> None:
    empty = Actor(name="token:none", role=None, grants=(Grant(role="read", learner="nobody"),), token=3)
    families = told(ask_as(Listener(), none=empty), authorization="Bearer none")
    assert learners(families) == set()
    assert np.isfinite(value(families, "qortex_learning_token_budget_used_count"))
