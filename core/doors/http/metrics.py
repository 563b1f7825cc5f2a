"""Metrics for Prometheus, ``GET /metrics``: the seven names of qortex, and armscope's own.

They cover the learners that the caller may read, and the server itself for a caller who may read all of them. Only
the 500 arms with the most pulls have labels, because each adds four series, and a monitor stores every series it ever
read. The other arms are counted.

A monitor gives up after seconds. So a thread computes the measures of learners, and a scrape waits `WAIT_S` for them.
Then it has the last known ones, and `armscope_learner_metrics_fresh` is 0.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from core.doors.alerting import COUNTS
from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http.routes import Route
from core.doors.logs import n_lost_lines
from core.doors.service import Service
from core.errors import StoreError
from core.flows.context import Context, learner_names
from core.flows.queries import BUCKETS, Budgets, Measures, Monitor, n_denials
from core.records.actor import Actor, may
from core.records.arm import BANDS, MICRO
from core.records.estimate import Estimate
from core.spool import spools
from core.store.engine.port import BUCKETS_S, WAITS
from core.store.store import Store
from core.upkeep import upkeep_of
from core.version import __version__

MOST_ARMS: Final = 500
WAIT_S: Final = 0.3
"""Seconds for which a scrape waits for the measures of all learners."""
_MOST_KNOWN: Final = 256
_databases: Final[WeakKeyDictionary[Store, _Computing]] = WeakKeyDictionary()
_Metrics = Iterator[Metric]

SERVER: Final = CollectorRegistry()
REQUESTS: Final = Histogram(
    "armscope_http_request_duration_seconds",
    "Duration of requests, by method, template of the route and status",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
    registry=SERVER,
)
IN_PROGRESS: Final = Gauge(
    "armscope_http_requests_in_progress",
    "Requests, and web sockets of open pages, that are not over",
    ["kind"],
    registry=SERVER,
)


class Totals:
    """Totals that never fall, of values that may: the first value, and each rise since."""

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}
        self._total: dict[Hashable, float] = {}

    def add(self, values: Mapping[Hashable, float]) -> None:
        """Add the rises since the values before.

        >>> totals = Totals()
        >>> for value in (5, 2, 4):
        ...     totals.add({"pulls": value})
        >>> totals.of("pulls")
        7.0
        """
        for name, value in values.items():
            if (rise := value - self._last.get(name, 0)) > 0:
                self._total[name] = self._total.get(name, 0) + rise
            self._last[name] = value

    def of(self, name: Hashable) -> float:
        return float(self._total.get(name, 0))


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Measures of a learner as a scrape shows them, and its totals; not ``is_fresh``: there is a newer revision."""

    measures: Measures
    totals: Totals
    is_fresh: bool


class _Computing:
    def __init__(self) -> None:
        self.monitor = Monitor()
        self.denials = Totals()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="armscope-metrics")
        self._lock = Lock()
        self._running: dict[Hashable, Future[Measures]] = {}
        self._last: dict[Hashable, Measures] = {}
        self._totals: defaultdict[str, Totals] = defaultdict(Totals)

    def shown(self, contexts: Iterable[Context]) -> tuple[list[Shown], list[str]]:
        """Return the measures that are known in time, and the learners without any."""
        running = [(one.learner, self._begun(one)) for one in contexts]
        deadline, shown = time.monotonic() + WAIT_S, []
        for learner, (key, future) in running:
            current, is_fresh = self._last.get(key), True
            try:
                computed = future.result(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                is_fresh = False
            else:
                with self._lock:
                    if computed is not current:
                        current = self._last[key] = computed
                        self._totals[learner].add(_values(computed))
            if current is not None:
                shown.append(Shown(measures=current, totals=self._totals[learner], is_fresh=is_fresh))
        names = {one.measures.learner for one in shown}
        return shown, [learner for learner, _ in running if learner not in names]

    def _begun(self, context: Context) -> tuple[Hashable, Future[Measures]]:
        key = (context.learner, context.actor)
        with self._lock:
            future = self._running.get(key)
            if future is None or future.done():
                if len(self._running) >= _MOST_KNOWN:
                    self._running.clear()
                    self._last.clear()
                future = self._running[key] = self._thread.submit(self.monitor.measures, context)
        return key, future


def _values(one: Measures) -> dict[Hashable, float]:
    """Return the values whose totals must not fall, by name; those of arms in millionths."""
    pulls = zip(one.columns.keys, one.columns.pulls_micro.tolist(), strict=True)
    return {
        **{("arm", key): value for key, value in pulls},
        **{("runs", name): n for name, n in one.counted.runs.items()},
        "success": one.counted.success,
        "failure": one.counted.failure,
    }


def _learners(learners: Sequence[Shown], missing: Sequence[str]) -> _Metrics:
    selections = CounterMetricFamily(
        "qortex_learning_selections", "Runs that were chosen for", labels=["learner", "baseline"]
    )
    observations = CounterMetricFamily(
        "qortex_learning_observations",
        "Observations; one between 0 and 1 counts on either side for its part",
        labels=["learner", "outcome"],
    )
    fresh = GaugeMetricFamily(
        "armscope_learner_metrics_fresh",
        "0: the learner's metrics are missing or of an earlier revision, the present ones are being computed",
        labels=["learner"],
    )
    for name in missing:
        fresh.add_metric([name], 0.0)
    for one in learners:
        name, totals = one.measures.learner, one.totals
        for label, kind in (("True", "baseline"), ("False", "selected")):
            selections.add_metric([name, label], totals.of(("runs", kind)))
        observations.add_metric([name, "accepted"], totals.of("success"))
        observations.add_metric([name, "rejected"], totals.of("failure"))
        fresh.add_metric([name], float(one.is_fresh))
    yield from (selections, observations, fresh)


def _arms(learners: Sequence[Shown]) -> _Metrics:
    """Yield the metrics of the arms with the most pulls in all learners, and the number of the others."""
    labels = ["learner", "arm_id"]
    mean = GaugeMetricFamily("qortex_learning_posterior_mean", "Posterior mean", labels=labels)
    pulls = CounterMetricFamily("qortex_learning_arm_pulls", "Pulls in all epochs", labels=labels)
    alpha = GaugeMetricFamily("qortex_learning_arm_alpha", "Alpha, with the prior", labels=labels)
    beta = GaugeMetricFamily("qortex_learning_arm_beta", "Beta, with the prior", labels=labels)
    others = GaugeMetricFamily(
        "armscope_arms_unlabelled", f"Arms beyond the {MOST_ARMS} that have labels", labels=["learner"]
    )
    chosen = _labelled([one.measures.columns.pulls for one in learners])
    for shown, indexes in zip(learners, chosen, strict=True):
        one = shown.measures
        for index in indexes:
            key = one.columns.keys[index]
            named = [one.learner, key]
            mean.add_metric(named, float(one.summary.mean[index]))
            pulls.add_metric(named, shown.totals.of(("arm", key)) / MICRO)
            alpha.add_metric(named, float(one.summary.alpha[index]))
            beta.add_metric(named, float(one.summary.beta[index]))
        others.add_metric([one.learner], len(one.columns) - len(indexes))
    yield from (mean, pulls, alpha, beta, others)


def _labelled(pulls: Sequence[np.typing.NDArray[np.int64]]) -> list[list[int]]:
    """Return the indexes of the arms of each learner that have labels, in their order."""
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
    metric = HistogramMetricFamily(
        "qortex_learning_token_budget_used",
        "Tokens in the prompt of runs chosen within a budget, since this process was first asked",
    )
    metric.add_metric([], _buckets(BUCKETS, counts), sum_value=float(sum(one.tokens for one in every)))
    return metric


def _buckets(limits: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    names = [*(str(float(limit)) for limit in limits), "+Inf"]
    return list(zip(names, map(float, accumulate(counts)), strict=True))


def _ours(learners: Iterable[Shown]) -> _Metrics:
    runs = CounterMetricFamily("armscope_runs", "Recorded runs", labels=["learner", "class"])
    last = GaugeMetricFamily(
        "armscope_last_timestamp_seconds",
        "Time at which the newest run ended, and of the last import",
        labels=["learner", "kind"],
    )
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
    for shown in learners:
        one = shown.measures
        for name in one.counted.runs:
            runs.add_metric([one.learner, name], shown.totals.of(("runs", name)))
        for kind, at_ms in (("run", one.counted.last_run_ms), ("import", one.counted.last_import_ms)):
            if at_ms is not None:
                last.add_metric([one.learner, kind], at_ms / 1000)
        for band, n in zip(BANDS, one.overview.bands, strict=True):
            arms.add_metric([one.learner, band], n)
        rows = Counter((item.kind, item.severity) for item in one.overview.attention)
        for (kind, severity), n in rows.items():
            need.add_metric([one.learner, kind, severity], n)
        bills = one.overview.money
        _estimate(saved, one.learner, one.overview.savings.shown)
        if bills is not None:
            _estimate(money, one.learner, bills.shown)
        revision.add_metric([one.learner], one.revision)
    yield from (runs, last, arms, need, saved, money, revision)


def _estimate(metric: GaugeMetricFamily, learner: str, shown: Estimate) -> None:
    for bound, value in (("value", shown.value), ("lower", shown.lower), ("upper", shown.upper)):
        if value is not None and shown.lower is not None:
            metric.add_metric([learner, bound], value / 100)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scrape(Collector):
    """Metrics of one request; ``store`` None: the caller may not see the server as a whole."""

    learners: Sequence[Shown] = ()
    missing: Sequence[str] = ()
    budgets: Sequence[Budgets] = ()
    store: Store | None = None
    is_up: bool = True
    n_denials: float = 0.0

    def collect(self) -> Iterable[Metric]:
        yield from _learners(self.learners, self.missing)
        yield from _arms(self.learners)
        yield _budget(self.budgets)
        yield from _ours(self.learners)
        version = GaugeMetricFamily("armscope_build_info", "Which version answers", labels=["version"])
        version.add_metric([__version__], 1)
        yield version
        if self.store is not None:
            yield from of_database(self.store, is_up=self.is_up, n_denials=self.n_denials)
            yield from SERVER.collect()


def families() -> list[Metric]:
    """Return all metrics without samples, for the guide."""
    return [*_Scrape().collect(), *of_database(None, is_up=True), *SERVER.collect()]


def metrics(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:
    """Return all metrics in the text format, or in OpenMetrics if the client accepts it.

    Those of the server are there even if the database can't be read.
    """
    computing = _databases.setdefault(service.store, _Computing())
    is_whole = may(actor, "read", None)
    store = service.store if is_whole else None
    try:
        whole = service.whole(actor)
        contexts = [whole.of(name) for name in learner_names(whole)]
        budgets = [computing.monitor.budgets(one) for one in contexts]
        if is_whole:
            computing.denials.add({"": n_denials(whole)})
        shown, missing = computing.shown(contexts)  # last, because its thread slows the others
        scrape = _Scrape(
            learners=shown, missing=missing, budgets=budgets, store=store, n_denials=computing.denials.of("")
        )
    except StoreError:
        if store is None:
            raise
        scrape = _Scrape(store=store, is_up=False, n_denials=computing.denials.of(""))
    registry = CollectorRegistry()
    registry.register(scrape)
    encode, kind = choose_encoder(call.headers.get("accept", ""))
    return HttpAnswer(200, encode(registry), {"content-type": kind, "vary": "Accept, Authorization"})


ROUTES: Final[tuple[Route, ...]] = (Route(("GET",), "/metrics", "read", metrics),)


# The server itself. Counters begin at 0 with the process and never fall.

disable_created_metrics()  # type: ignore[no-untyped-call]
ProcessCollector(registry=SERVER)


class _Process(Collector):
    def collect(self) -> Iterable[Metric]:
        waits = HistogramMetricFamily(
            "armscope_wait_seconds",
            "Waits of 10 ms or more for the write lock of a file, for the row of a learner or for a connection",
            labels=["resource"],
        )
        for resource, waited in WAITS.read().items():
            waits.add_metric([resource], _buckets(BUCKETS_S, waited.n), sum_value=waited.seconds)
        yield waits
        for name, words, value in (
            ("armscope_alert_checks_failed", "Checks for alerts that failed", COUNTS["checks_failed"]),
            ("armscope_log_lines_lost", "Lines of the log that could not be written", n_lost_lines()),
        ):
            yield CounterMetricFamily(name, words, value=value)
        messages = CounterMetricFamily("armscope_webhook_messages", "Messages to webhooks", labels=["result"])
        for result in ("sent", "failed"):
            messages.add_metric([result], COUNTS[result])
        yield messages
        yield GaugeMetricFamily(
            "armscope_imports_in_progress",
            "Imports in parts that this process does, or waits with",
            value=WAITS.n_importing,
        )


SERVER.register(_Process())


def of_database(store: Store | None, *, is_up: bool, n_denials: float = 0.0) -> Iterator[Metric]:
    """Yield the metrics of the database as a whole, and of what this machine keeps about it."""
    yield CounterMetricFamily("armscope_denials", "Denied requests", value=n_denials)
    yield GaugeMetricFamily("armscope_database_up", "1: the database could be read", value=float(is_up))
    size = GaugeMetricFamily(
        "armscope_database_size_bytes",
        "Bytes of the file and of its write-ahead log, or of the database at a server",
        labels=["part"],
    )
    done = GaugeMetricFamily(
        "armscope_last_success_timestamp_seconds",
        "Time of the last backup and of the last check without a difference by this user of this machine",
        labels=["task"],
    )
    spooled = GaugeMetricFamily(
        "armscope_spool_runs", "Runs in the spool of this user of this machine", labels=["state"]
    )
    if store is not None:
        try:
            for part, n_bytes in store.sizes().items() if is_up else ():
                size.add_metric([part], n_bytes)
        except (OSError, StoreError):  # moved away just now
            size.samples.clear()
        for kind, at_ms in upkeep_of(store.location).items():
            done.add_metric([kind], at_ms / 1000)
        counts = [spool.counts() for spool in spools()]
        for state in ("waiting", "rejected", "dropped"):
            spooled.add_metric([state], sum(getattr(one, state) for one in counts))
    yield from (size, done, spooled)
