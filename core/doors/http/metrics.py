"""Metrics for Prometheus, ``GET /metrics``: the seven names of qortex, and armscope's own.

They cover the learners that the caller may read. Only the 500 arms with the most pulls have labels, because each adds
four series, and a monitor stores every series it ever read. The other arms are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.routes import Route
from core.doors.service import Service
from core.flows.context import Context
from core.flows.names import learner_names
from core.flows.queries import BUCKETS, Budgets, Measures, Monitor, n_denials
from core.permissions import may
from core.records.actor import Actor
from core.records.estimate import Estimate
from core.records.posterior import BANDS
from core.store.store import Store
from core.version import __version__

MOST_ARMS: Final = 500
_monitors: Final[WeakKeyDictionary[Store, Monitor]] = WeakKeyDictionary()
_Metrics = Iterator[Metric]


class _Snapshot(Collector):
    """Metrics of one request."""

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
            yield CounterMetricFamily("armscope_denials", "Denied requests", value=self._n_refused)
        metric = GaugeMetricFamily("armscope_build_info", "Which version answers", labels=["version"])
        metric.add_metric([__version__], 1)
        yield metric

    def _of_qortex(self) -> _Metrics:
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


def _arms(learners: Sequence[Measures]) -> _Metrics:
    """Yield the metrics of the arms with the most pulls in all learners, and the number of the others."""
    labels = ["learner", "arm_id"]
    mean = GaugeMetricFamily("qortex_learning_posterior_mean", "Posterior mean", labels=labels)
    pulls = CounterMetricFamily("qortex_learning_arm_pulls", "Pulls in the present epoch", labels=labels)
    alpha = GaugeMetricFamily("qortex_learning_arm_alpha", "Alpha, with the prior", labels=labels)
    beta = GaugeMetricFamily("qortex_learning_arm_beta", "Beta, with the prior", labels=labels)
    others = GaugeMetricFamily(
        "armscope_arms_unlabelled", f"Arms beyond the {MOST_ARMS} that have labels", labels=["learner"]
    )
    chosen = _labelled([one.columns.pulls for one in learners])
    for one, indexes in zip(learners, chosen, strict=True):
        for index in indexes:
            named = [one.learner, one.columns.keys[index]]
            mean.add_metric(named, float(one.summary.mean[index]))
            pulls.add_metric(named, float(one.columns.pulls_micro[index]) / 1e6)
            alpha.add_metric(named, float(one.summary.alpha[index]))
            beta.add_metric(named, float(one.summary.beta[index]))
        others.add_metric([one.learner], len(one.columns) - len(indexes))
    yield from (mean, pulls, alpha, beta, others)


def _labelled(pulls: Sequence[np.typing.NDArray[np.int64]]) -> list[list[int]]:
    """Return the indexes of the arms of each learner that have labels, in their order.

    >>> _labelled([np.array([3, 9]), np.array([5])])
    [[0, 1], [0]]
    """
    of = np.repeat(np.arange(len(pulls)), [len(some) for some in pulls])
    index = (
        np.concatenate([np.arange(len(some)) for some in pulls]) if pulls else np.array([], dtype=np.int64)
    )
    most = np.argsort(-np.concatenate(pulls), kind="stable")[:MOST_ARMS] if pulls else index
    return [sorted(index[most[of[most] == number]].tolist()) for number in range(len(pulls))]


def _budget(budgets: Iterable[Budgets]) -> Metric:
    """Return the token budgets of all learners together: qortex's metric has no labels."""
    every = list(budgets)
    counts = [sum(one.n[bucket] for one in every) for bucket in range(len(BUCKETS) + 1)]
    limits = [*(str(float(limit)) for limit in BUCKETS), "+Inf"]
    metric = HistogramMetricFamily(
        "qortex_learning_token_budget_used",
        "Tokens in the prompt of runs chosen within a budget, since this process was first asked",
    )
    metric.add_metric(
        [],
        list(zip(limits, map(float, accumulate(counts)), strict=True)),
        sum_value=float(sum(one.tokens for one in every)),
    )
    return metric


def _ours(learners: Iterable[Measures]) -> _Metrics:
    runs = CounterMetricFamily("armscope_runs", "Active runs", labels=["learner", "class"])
    arms = GaugeMetricFamily("armscope_arms", "Arms by band of confidence", labels=["learner", "band"])
    need = GaugeMetricFamily(
        "armscope_attention",
        "Rows of the attention list, as on the overview",
        labels=["learner", "kind", "severity"],
    )
    saved = GaugeMetricFamily(
        "armscope_savings_ratio",
        "Share of tokens that selecting saves, the figure that pages name first, and its 95 % interval",
        labels=["learner", "bound"],
    )
    money = GaugeMetricFamily(
        "armscope_money_saved_ratio",
        "Share of the money that selecting saves, by the bills of runs, and its 95 % interval",
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
        bills = one.overview.money
        _estimate(saved, one.learner, one.overview.savings.shown)
        if bills is not None:
            _estimate(money, one.learner, bills.shown)
        revision.add_metric([one.learner], one.revision)
    yield from (runs, arms, need, saved, money, revision)


def _estimate(metric: GaugeMetricFamily, learner: str, shown: Estimate) -> None:
    """Add a figure with its interval; without an interval, nothing."""
    for bound, value in (("value", shown.value), ("lower", shown.lower), ("upper", shown.upper)):
        if value is not None and shown.lower is not None:
            metric.add_metric([learner, bound], value / 100)


def _attention(one: Measures) -> Mapping[tuple[str, str], int]:
    """Return the number of rows by kind and severity."""
    return Counter((item.kind, item.severity) for item in one.overview.attention)


def metrics(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    """Return all metrics in the text format, or in OpenMetrics if the client accepts it."""
    monitor = _monitors.setdefault(service.store, Monitor())
    whole = service.whole(actor)
    contexts: list[Context] = [whole.of(name) for name in learner_names(whole)]
    registry = CollectorRegistry()
    registry.register(
        _Snapshot(
            [monitor.measures(context) for context in contexts],
            [monitor.budgets(context) for context in contexts],
            n_denials(whole) if may(actor, "read", None) else None,
        )
    )
    encode, kind = choose_encoder(call.headers.get("accept", ""))
    return HttpAnswer(200, encode(registry), {"content-type": kind, "vary": "Accept, Authorization"})


ROUTES: Final[tuple[Route, ...]] = (Route(("GET",), "/metrics", "read", metrics),)
