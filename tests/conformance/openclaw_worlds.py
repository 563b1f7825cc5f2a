"""Desks like OpenClaw's recorded backends: the same arms and settings in a real store, whole or broken."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from core.doors.service import Service
from core.errors import StoreError
from core.flows.corrections import reset
from core.flows.importing import import_files
from core.flows.learn import reward
from core.flows.queries import openclaw_posteriors, openclaw_summary
from core.flows.settings import change_all
from core.records.arm import MICRO
from core.records.observation import OUTCOME_REWARDS
from tests.worlds import context_at

Json = dict[str, Any]

LEARNER: Final = "openclaw"
_FEWEST: Final = 1 / MICRO
_SETTINGS: Final = {
    "phase": "phase",
    "tokenBudget": "budget_tokens",
    "baselineRate": "baseline_rate",
    "minPulls": "min_pulls",
}
_worlds = count()

Tell = Callable[[Mapping[str, Any]], list[object]]
"""What a flow was called with → the call in someone else's words."""


@contextmanager
def desk_of(
    folder: Path,
    states: Mapping[str, Mapping[str, Any]],
    config: Mapping[str, Any] | None,
    *,
    fate: str = "ok",
) -> Iterator[Service]:
    """A desk with arms of these ``states`` (alpha, beta, pulls, total_reward).

    Its ``fate``: ``ok``; ``fail``, what is stored of the arms is gone; ``noclient``, the file is; ``unavailable``, it
    is another; ``reward_not_ok``, the record takes no more.
    """
    path = folder / f"{next(_worlds)}.db"
    context = context_at(path, learner=LEARNER)
    lines = path.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps(line) + "\n" for line in _lines(states)), encoding="utf-8")
    if states:
        import_files(context, [lines])
    told = {_SETTINGS[name]: value for name, value in (config or {}).items() if name in _SETTINGS}
    change_all(context, {**told, "seed_arms": ()})
    _befall(path, fate)
    try:
        yield Service(store=context.store, learner=LEARNER, clock=context.clock)
    finally:
        with suppress(StoreError):
            context.store.close()


def _befall(path: Path, fate: str) -> None:
    broken = {"fail": "posterior", "reward_not_ok": "audit"}
    if fate == "noclient":
        path.rename(path.with_suffix(".away"))
    elif fate == "unavailable":
        path.write_bytes(b"another program's file" * 400)
    elif fate in broken:
        connection = sqlite3.connect(path)
        connection.execute(f"ALTER TABLE {broken[fate]} RENAME TO nowhere")
        connection.commit()
        connection.close()


def _lines(states: Mapping[str, Mapping[str, Any]]) -> Iterator[Json]:
    """Each arm with the prior it must have had, and what it has learned since."""
    for arm, state in states.items():
        success, pulls = state["total_reward"], state["pulls"]
        priors = {"alpha_micro": state["alpha"] - success, "beta_micro": state["beta"] - (pulls - success)}
        yield {
            "kind": "arm",
            "key": arm,
            "prior": {name: round(MICRO * value) for name, value in priors.items()},
        }
        if pulls:
            yield {
                "kind": "reward",
                "id": f"carried:{arm}",
                "arm": arm,
                "observation": "carried",
                "success_micro": round(MICRO * success),
                "failure_micro": round(MICRO * (pulls - success)),
                "pulls": pulls,
                "at_ms": state.get("at_ms"),
            }


def before(alpha: float, beta: float, observed: float) -> Json:
    """The state of an arm that one observation makes Beta(alpha, beta); the least there is where it can't be."""
    return {
        "alpha": max(alpha - observed, _FEWEST),
        "beta": max(beta - (1 - observed), _FEWEST),
        "pulls": 0,
        "total_reward": 0,
    }


@contextmanager
def overheard(tell: Mapping[Callable[..., object], Tell]) -> Iterator[list[list[object]]]:
    """Which of some flows are called meanwhile, each as it is told."""
    calls: list[list[object]] = []
    by_code: dict[object, Tell] = {getattr(flow, "__code__"): told for flow, told in tell.items()}  # noqa: B009

    def hear(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in by_code:
            calls.append(by_code[frame.f_code](frame.f_locals))

    sys.setprofile(hear)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def observed(given: Mapping[str, Any]) -> list[object]:
    """A reward as OpenClaw's client asks its backend for it."""
    outcome = given["outcome"] or ("accepted" if given["outcome"] is None else "")
    rewards: Mapping[str, float] = OUTCOME_REWARDS  # type: ignore[assignment]  # asked with any word
    value = rewards.get(outcome) if given["value"] is None else given["value"]
    context: Json = {"lagged": True}
    if given["reason"] is not None:
        context["reason"] = given["reason"]
    return ["observe", given["arm"], outcome, {"reward": value, "context": context}]


BACKEND: Final[Mapping[Callable[..., object], Tell]] = {
    openclaw_summary: lambda _: ["metrics"],
    openclaw_posteriors: lambda _: ["posteriors"],
    reset: lambda given: [
        "reset",
        {"arm_ids": list(given["arms"])} if given["arms"] or given["types"] else None,
    ],
    reward: observed,
}
"""Flows in the words of OpenClaw's client."""


def plain(body: bytes) -> object:
    """A body as JSON, or the text that it is."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode()
