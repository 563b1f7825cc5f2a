"""Slow clients: probes and rewards beside creeping, unknown and idle clients, and the memory that these cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from core.formats.strict import MAX_BODY_BYTES
from tests.bench.harness import Row, Scale
from tests.doors.examples import ARM, example_world
from tests.doors.http.slow import AT, STREAMING, Crowd, Running, crowds, head_of, running

_WRONG: Final = head_of(
    f"{AT}/rewards", "application/json", "Authorization: Bearer nonsense", n_bytes=MAX_BODY_BYTES
)
_MOST_MB: Final = 64.0


def slow_clients(scale: Scale, folder: Path) -> list[Row]:
    """48 creeping bodies on each streaming route, 200 nearly complete ones with a wrong token, idle connections."""
    context = example_world(folder)
    n_idle = 5_000 if scale.crowd_s >= 1 else 100
    # All in the first minute of the server. Then it looks for alerts, and the imports for that take memory, too.
    for_s = min(scale.crowd_s, 20) / 4
    rows = []
    with running(context) as server:
        quiet = _seconds(server, for_s, lambda: None)
        for n_creeping in (16, 48):
            with crowds(server.port, len(STREAMING)) as creeping:
                before = server.forget_peak()
                for crowd, (path, media) in zip(creeping, STREAMING.items(), strict=True):
                    crowd.connect(n_creeping, head_of(path, media))
                busy = _seconds(server, for_s, partial(_creep, creeping))
                what = f"among {n_creeping} creeping bodies on each of {len(STREAMING)} routes"
                rows += _rows(what, quiet, busy, server.memory_mib("VmHWM") - before)
        with crowds(server.port) as (unknown,):
            before = server.forget_peak()
            unknown.connect(200, _WRONG)
            unknown.pour(b"x" * (MAX_BODY_BYTES - 10), at_most_s=for_s)
            busy = _seconds(server, for_s, lambda: unknown.send(b"x"))
            rows += _rows(
                "among 200 bodies with a wrong token", quiet, busy, server.memory_mib("VmHWM") - before
            )
        with crowds(server.port) as (idle,):
            before = server.forget_peak()
            busy = _seconds(server, for_s, lambda: idle.connect(max(n_idle // 50, 1)))
            idle.connect(max(0, n_idle - len(idle.open)))
            busy += _seconds(server, for_s, lambda: None)
            rows += _rows(
                f"among {n_idle:,} idle connections", quiet, busy, server.memory_mib("VmHWM") - before
            )
    context.store.close()
    return rows


def _creep(crowds_of_routes: Iterable[Crowd]) -> None:
    for crowd in crowds_of_routes:
        crowd.send(b"1\r\n \r\n")


def _seconds(server: Running, for_s: float, between: Callable[[], object]) -> list[float]:
    """How long probes and rewards take, for a while."""
    took: list[float] = []
    until = time.monotonic() + for_s
    while time.monotonic() < until or not took:
        between()
        took += [server.ask("/healthz")[2], server.ask("/livez")[2]]
        took.append(server.ask(f"{AT}/rewards", {"arm": ARM, "value": 0.5}, **server.bearer)[2])
        time.sleep(0.05)
    return took


def _rows(what: str, quiet: list[float], busy: list[float], grown_mb: float) -> list[Row]:
    slowest = Row(
        name=f"slowest answer {what}",
        base="one second",
        figure=max(busy),
        unit="share",
        goal=1.0,
        base_ms=statistics.median(quiet) * 1e3,
        ours_ms=statistics.median(busy) * 1e3,
        n=len(busy),
        note="probes and rewards; medians in quiet and now",
    )
    memory = Row(
        name=f"memory {what}", base="before", figure=max(grown_mb, 0.01), unit="MB", goal=_MOST_MB, n=1
    )
    return [slowest, memory]
