"""A world in which the example of every verb makes sense, as the README's commands do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.doors.verbs import Verb
from core.flows import learn
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.episode import record_step
from core.flows.evaluate import evaluate
from core.flows.experiments import start_experiment
from core.flows.learn import reward
from core.flows.members import add_member, add_sender
from core.flows.queues import add_queue
from core.flows.review import next_item
from core.flows.settings import change
from core.flows.tokens import create_token
from core.flows.trials.plan import plan_trial
from core.flows.webhooks import add_webhook
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.evaluation import EvaluationOutcome
from core.records.run import Inventory
from core.records.trial import TrialTask
from tests.formats.builders import lines
from tests.worlds import a_run, context_at

ARM = "tool:web:search"
RUN = "request-1"
SESSION = "chat-3004"
LAYER = "kairos://layer/aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
FILE = "runs.jsonl"
TABLE = "rewards.csv"
OUTCOME_TABLE = "outcomes.csv"
TASKS = "tasks.txt"
OTHER_ARM = "tool:fs:Read"
RESULTS = "results.jsonl"


def example_world(folder: Path) -> Context:
    """A run, two rewards, one undone, a queue, a browser, a member, a token, a webhook, a plan; and files."""
    context = context_at(folder / "a.db")
    prompt = Inventory(kind="declared", arms=(Arm(key=ARM), Arm(key=OTHER_ARM)))
    learn.record(context, replace(a_run(RUN, inventory=prompt, calls=["search"]), session=SESSION))
    change(context, "prices", {"large": 3})
    reward(context, ARM, 0.5)
    undo(context, reward(context, ARM, 0.5).id)
    add_queue(context, "Week 12")
    judge(context)
    next_item(dataclasses.replace(context, actor=Actor(name="mara", browser="kim 3f2a91")), "queue-1")
    add_member(context, "https://id.example.com", "u-1", "ann", role="operator", learner="default")
    create_token(context, "old", ("read",))
    add_webhook(context, "https://hooks.example/old")
    add_sender(context, "ann", "slack", "U017")
    for uid, model in (("sums/1", "large"), ("sums/0", "small")):
        record_step(context, uid, environment="sums", task="t", model=model, name="look", reward=0.1, run=RUN)
    plan_trial(context, ARM, [TrialTask(name="sums")])
    start_experiment(context, OTHER_ARM, metric="tokens", seed=True)
    (folder / TASKS).write_text("sums\ndates\n", encoding="utf-8")
    sides = [
        {"task": "sums", "repeat": 1, "side": side, "grade": side == "with"} for side in ("with", "without")
    ]
    header: dict[str, object] = {"armscope_trial": 1, "arm": ARM}
    (folder / RESULTS).write_bytes(
        lines([header, *({**one, "grade": float(bool(one["grade"]))} for one in sides)])
    )
    (folder / FILE).write_bytes(lines([{"kind": "run", "uid": "q", "arms": [ARM], "calls": ["search"]}]))
    (folder / OUTCOME_TABLE).write_text(f"run,value\n{RUN},0.5\n", encoding="utf-8")
    (folder / TABLE).write_text(
        f"arm,value,run,reason\n{ARM},0.5,{RUN},\ntool:fs:Read,rejected,,wrong file\n"
    )
    return context


def judge(context: Context) -> None:
    """Two people and a model, of the run, of the arm in it and of a layer; one of them again."""
    said: tuple[tuple[str, EvaluationOutcome, float], ...] = (
        ("mara", "success", 0.7),
        ("kim", "failure", 1.0),
        ("mara", "success", 0.8),
    )
    for rater, outcome, score in said:
        evaluate(context, RUN, outcome, rater=rater, score=score, rubric="v2", feedback="to the point")
    evaluate(context, RUN, "success", model="judge-1", arm=ARM)
    evaluate(context, LAYER, "success", rater="mara", create=True)


def arguments(one: Verb[..., Any]) -> dict[str, object]:
    """What a verb's flow is called with by its example."""
    given = one.decode(one.example)
    return {name: getattr(given, name) for name in one.input.__struct_fields__}
