"""Metrics of the server itself: requests, waits, size, failures, and times of the last backup and check.

Counters begin at 0 with the process and never fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from core.doors.alerting import COUNTS
from core.doors.logs import n_lost_lines
from core.errors import StoreError
from core.spool import spools
from core.store.engine.waits import BUCKETS_S, WAITS, Waited
from core.store.store import Store
from core.upkeep import upkeep_of

disable_created_metrics()  # type: ignore[no-untyped-call]
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
ProcessCollector(registry=SERVER)


class _Process(Collector):
    """Counts of this process outside of requests."""

    def collect(self) -> Iterable[Metric]:
        waits = HistogramMetricFamily(
            "armscope_wait_seconds",
            "Waits of 10 ms or more for the write lock of a file, for the row of a learner or for a connection",
            labels=["resource"],
        )
        for resource, waited in WAITS.read().items():
            waits.add_metric([resource], _buckets(waited), sum_value=waited.seconds)
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


def _buckets(waited: Waited) -> list[tuple[str, float]]:
    limits = [*(str(limit) for limit in BUCKETS_S), "+Inf"]
    return list(zip(limits, map(float, accumulate(waited.n)), strict=True))


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
