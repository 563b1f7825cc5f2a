"""Columns of planted runs → the same runs in a learner, as an agent would select and record them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace

from core.columns import HELD_COIN, UNKNOWN, SessionRuns, plain_prob
from core.doors.python import Learner
from core.records.arm import MICRO, Arm
from core.records.run import Inventory, Run, Usage
from core.records.selection import Selection
from core.records.times import HOUR_MS
from tests.worlds import START_MS

_ARMS: Final = tuple(Arm(key=f"tool:other:t{number}", token_cost=500) for number in range(4))


class _Templates:
    """Selections of a learner by class, under the settings of a run: the learner draws until both classes came."""

    def __init__(self, learner: Learner) -> None:
        self._learner, self._now, self._known = learner, (0, 0, 0, False), dict[str, Selection]()

    def of(self, run_class: str, now: tuple[int, int, int, bool]) -> Selection:
        """Return a selection of a class; ``now``: the rate in millionths, number of settings, limit, and if held."""
        prob, settings, k, is_held = now
        if now != self._now:
            changed = {
                "baseline_rate": prob / MICRO,
                "sticky": "session" if is_held else None,
                **({"k": k} if settings != UNKNOWN else {}),
            }
            for name, value in changed.items():
                if value is not None:
                    self._learner.change(name, value)
            self._known.clear()
            self._now = now
        while run_class not in self._known:
            session = f"before {self._learner.status().revision}" if is_held else None
            chosen = self._learner.select(_ARMS, session=session, k=k)
            self._known.setdefault(chosen.run_class, chosen)
        return self._known[run_class]


def record_planted(learner: Learner, runs: SessionRuns, *, by_settings: bool = False) -> Iterator[None]:
    """Record planted runs in their order, a half at a time, and yield after each."""
    templates, n = _Templates(learner), len(runs)
    for part in np.array_split(np.arange(n), 2):
        learner.record_runs([_run(templates, runs, at, by_settings=by_settings) for at in part.tolist()])
        yield


def _run(templates: _Templates, runs: SessionRuns, at: int, *, by_settings: bool) -> Run:
    prob, session = int(runs.prob_micro[at]), int(runs.session[at])
    is_held, tokens = prob >= HELD_COIN, int(runs.tokens[at])
    settings = int(runs.settings[at]) if by_settings else UNKNOWN
    now = (int(plain_prob(runs.prob_micro[at : at + 1])[0]), settings, int(runs.k[at]), is_held)
    chosen = replace(templates.of(runs.run_class[at], now), seed=str(1 + (session if is_held else at)))
    prompt = set(chosen.included)
    achieved = float(runs.achieved[at])
    return Run(
        uid=f"r{at}",
        inventory=Inventory(kind="declared", arms=tuple(one for one in _ARMS if one.key in prompt)),
        excluded=chosen.excluded,
        selection=chosen,
        run_class=chosen.run_class,
        usage=None if tokens == UNKNOWN else Usage(input=tokens),
        status="error" if runs.status[at] == "error" else "completed",
        achieved=None if np.isnan(achieved) else achieved,
        model=runs.model[at],
        session=f"s{session}",
        ended_at_ms=START_MS + int(runs.hour[at]) * HOUR_MS + at,
    )
