"""A world in which the example of every verb makes sense, as the README's commands do."""

from __future__ import annotations

from pathlib import Path

from core.doors.verbs import Verb
from core.flows import learn
from core.flows.context import Context
from core.flows.reward import reward
from core.flows.undo import undo
from core.records.arm import Arm
from core.records.run import Inventory
from tests.flows.world import context_at, run_of
from tests.formats.builders import lines

ARM = "tool:web:search"
RUN = "request-1"
FILE = "runs.jsonl"
TABLE = "rewards.csv"


def example_world(folder: Path) -> Context:
    """A run, a reward that stands, one that is undone, all by mara, and beside the database a file to import."""
    context = context_at(folder / "a.db")
    prompt = Inventory(kind="declared", arms=(Arm(key=ARM), Arm(key="tool:fs:Read")))
    learn.record(context, run_of(RUN, inventory=prompt, calls=["search"]))
    reward(context, ARM, 0.5)
    undo(context, reward(context, ARM, 0.5).id)
    (folder / FILE).write_bytes(lines([{"kind": "run", "uid": "q", "arms": [ARM], "calls": ["search"]}]))
    (folder / TABLE).write_text(
        f"arm,value,run,reason\n{ARM},0.5,{RUN},\ntool:fs:Read,rejected,,wrong file\n"
    )
    return context


def arguments(one: Verb) -> dict[str, object]:
    """What a verb's flow is called with by its example."""
    given = one.decode(one.example)
    return {name: getattr(given, name) for name in one.input.__struct_fields__}
