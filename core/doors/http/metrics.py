"""Metrics: ``GET /metrics`` for Prometheus: qortex's seven names, ours beside them.

Only of learners that whoever asks may read. At most 500 arms have labels of their own, those with the most pulls:
each is four series, and a monitor keeps every one it ever saw; the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from core.doors.desk import Desk
from core.doors.exchange import Answer, Call
from core.doors.http.routes import Route
from core.flows.context import Context
from core.flows.names import learner_names
from core.flows.queries import BUCKETS, Budgets, Measures, Monitor, n_denials
from core.permissions import may
from core.records.actor import Actor
from core.records.posterior import BANDS
from core.store.store import Store
from core.version import __version__

MOST_ARMS: Final = 500
_monitors: Final[WeakKeyDictionary[Store, Monitor]] = WeakKeyDictionary()
_Found = Iterator[Metric]


class _Seen(Collector):
    """What is told at one look."""

    def __init__(
        self, learners: Sequence[Measures], budgets: Sequence[Budgets], n_refused: int | None
    ) -> None:
        self._learners = learners
        self._budgets = budgets
        self._n_refused = n_refused

    def collect(self) -> Iterable[Metric]:
        yield from self._of_qortex()
        yield from _arms(self._learners)
        yield _budget(self._budgets)
        yield from _ours(self._learners)
        if self._n_refused is not None:
            yield CounterMetricFamily(
                "armscope_denials", "What was refused to anybody", value=self._n_refused
            )
        told = GaugeMetricFamily("armscope_build_info", "Which version answers", labels=["version"])
        told.add_metric([__version__], 1)
        yield told

    def _of_qortex(self) -> _Found:
        selections = CounterMetricFamily(
            "qortex_learning_selections", "Runs that were chosen for", labels=["learner", "baseline"]
        )
        observations = CounterMetricFamily(
            "qortex_learning_observations",
            "Observations; one between 0 and 1 counts on either side for its part",
            labels=["learner", "outcome"],
        )
        for one in self._learners:
            for label, name in (("True", "baseline"), ("False", "selected")):
                selections.add_metric([one.learner, label], one.counted.runs.get(name, 0))
            observations.add_metric([one.learner, "accepted"], one.counted.success)
            observations.add_metric([one.learner, "rejected"], one.counted.failure)
        yield from (selections, observations)


def _arms(learners: Sequence[Measures]) -> _Found:
    """Of the arms with the most pulls, wherever they are; how many there are beside them."""
    labels = ["learner", "arm_id"]
    mean = GaugeMetricFamily("qortex_learning_posterior_mean", "Posterior mean", labels=labels)
    pulls = CounterMetricFamily("qortex_learning_arm_pulls", "Pulls in the present epoch", labels=labels)
    alpha = GaugeMetricFamily("qortex_learning_arm_alpha", "Alpha, with the prior", labels=labels)
    beta = GaugeMetricFamily("qortex_learning_arm_beta", "Beta, with the prior", labels=labels)
    others = GaugeMetricFamily(
        "armscope_arms_unlabelled", f"Arms beyond the {MOST_ARMS} that have labels", labels=["learner"]
    )
    chosen = _labelled([one.columns.pulls for one in learners])
    for one, places in zip(learners, chosen, strict=True):
        for place in places:
            named = [one.learner, one.columns.keys[place]]
            mean.add_metric(named, float(one.summary.mean[place]))
            pulls.add_metric(named, float(one.columns.pulls_micro[place]) / 1e6)
            alpha.add_metric(named, float(one.summary.alpha[place]))
            beta.add_metric(named, float(one.summary.beta[place]))
        others.add_metric([one.learner], len(one.columns) - len(places))
    yield from (mean, pulls, alpha, beta, others)


def _labelled(pulls: Sequence[np.typing.NDArray[np.int64]]) -> list[list[int]]:
    """Which arms of each learner have labels, in their order.

    >>> _labelled([np.array([3, 9]), np.array([5])])
    [[0, 1], [0]]
    """
    of = np.repeat(np.arange(len(pulls)), [len(some) for some in pulls])
    place = (
        np.concatenate([np.arange(len(some)) for some in pulls]) if pulls else np.array([], dtype=np.int64)
    )
    most = np.argsort(-np.concatenate(pulls), kind="stable")[:MOST_ARMS] if pulls else place
    return [sorted(place[most[of[most] == number]].tolist()) for number in range(len(pulls))]


def _budget(budgets: Iterable[Budgets]) -> Metric:
    """Of all learners together, as qortex counts them: it has no labels."""
    every = list(budgets)
    counts = [sum(one.n[place] for one in every) for place in range(len(BUCKETS) + 1)]
    limits = [*(str(float(limit)) for limit in BUCKETS), "+Inf"]
    told = HistogramMetricFamily(
        "qortex_learning_token_budget_used",
        "Tokens in the prompt of runs chosen within a budget, since this process was first asked",
    )
    told.add_metric(
        [],
        list(zip(limits, map(float, accumulate(counts)), strict=True)),
        sum_value=float(sum(one.tokens for one in every)),
    )
    return told


def _ours(learners: Iterable[Measures]) -> _Found:
    runs = CounterMetricFamily("armscope_runs", "Runs that stand", labels=["learner", "class"])
    arms = GaugeMetricFamily("armscope_arms", "Arms by band of confidence", labels=["learner", "band"])
    need = GaugeMetricFamily(
        "armscope_attention",
        "What needs a look, as the overview says it",
        labels=["learner", "kind", "severity"],
    )
    saved = GaugeMetricFamily(
        "armscope_savings_ratio",
        "Share of tokens that selecting saves, capped, and its 95 % interval; none where none can be given",
        labels=["learner", "bound"],
    )
    revision = GaugeMetricFamily("armscope_revision", "Changes to a learner", labels=["learner"])
    for one in learners:
        for name, n in one.counted.runs.items():
            runs.add_metric([one.learner, name], n)
        for band, n in zip(BANDS, one.overview.bands, strict=True):
            arms.add_metric([one.learner, band], n)
        for (kind, severity), n in _attention(one).items():
            need.add_metric([one.learner, kind, severity], n)
        shown = one.overview.savings.capped_percent
        for bound, value in (("value", shown.value), ("lower", shown.lower), ("upper", shown.upper)):
            if value is not None:
                saved.add_metric([one.learner, bound], value / 100)
        revision.add_metric([one.learner], one.revision)
    yield from (runs, arms, need, saved, revision)


def _attention(one: Measures) -> dict[tuple[str, str], int]:
    """What is concerned, by kind: an overview may have several rows of one."""
    found: dict[tuple[str, str], int] = {}
    for item in one.overview.attention:
        place = (item.kind, item.severity)
        found[place] = found.get(place, 0) + item.count
    return found


def metrics(desk: Desk, actor: Actor, call: Call) -> Answer:
    """Everything, in the text format, or in OpenMetrics where that is asked for."""
    monitor = _monitors.setdefault(desk.store, Monitor())
    whole = desk.whole(actor)
    places: list[Context] = [whole.of(name) for name in learner_names(whole)]
    registry = CollectorRegistry()
    registry.register(
        _Seen(
            [monitor.measures(place) for place in places],
            [monitor.budgets(place) for place in places],
            n_denials(whole) if may(actor, "read", None) else None,
        )
    )
    encode, kind = choose_encoder(call.headers.get("accept", ""))
    return Answer(200, encode(registry), {"content-type": kind, "vary": "Accept, Authorization"})


ROUTES: Final[tuple[Route, ...]] = (Route(("GET",), "/metrics", "read", metrics),)
