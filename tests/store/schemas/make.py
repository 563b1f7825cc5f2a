"""Maker of the tiny database for the test of the next migration: ``python -m tests.store.schemas.make`` before it."""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from core.flows import maintenance, queries
from core.flows.corrections import undo
from core.flows.episode import declare, record_step
from core.flows.evaluate import evaluate
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.settings import change
from core.records.arm import Arm
from core.records.run import Inventory
from core.records.transcript import Message
from core.store.schema import HEAD
from tests.worlds import a_run, lines_file
from tests.worlds.lively import choose_in_sessions, lively_context, tell_parts, tell_twice

FOLDER = Path(__file__).parent


def make(target: Path) -> None:
    """A learner that has seen everything; arms with costs and labels, said directly, by imports, and taken
    back; runs chosen in sessions at two baseline rates; observations of weight below 1; evaluations, one undone; an
    episode on a declared scale; a run with its transcript."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        context = lively_context(folder)
        tell_twice(context, folder)
        tell_parts(context, folder)
        cost = Arm(key="tool:other:priced", token_cost=70)
        record(context, a_run("priced", inventory=Inventory(kind="declared", arms=(cost,)), calls=["priced"]))
        named = {"kind": "arm", "key": "tool:other:named", "label": "Named", "token_cost": 30}
        import_files(context, [lines_file(folder / "named.jsonl", named)], format="armscope")
        left = {"kind": "arm", "key": "tool:other:left", "label": "Left", "token_cost": 20}
        undo(context, import_files(context, [lines_file(folder / "left.jsonl", left)], format="armscope").id)
        choose_in_sessions(context)
        evaluate(context, "priced", "success", score=0.7, rater="mara", rubric="v1")
        evaluate(context, "priced", "failure", rater="kim", arm=cost.key)
        undo(context, evaluate(context, "priced", "failure", score=0.9, rater="mara", rubric="v1").id)
        record_step(
            context, "sums/1", environment="sums", name="priced", reward=0.5, finished=True, run="priced"
        )
        declare(context, "sums", hi=2)
        change(context, "keep_texts", True)
        words = (Message(kind="user", text="count the rows"), Message(kind="agent", text="there are 3"))
        record(context, replace(a_run("spoken"), messages=words, prompt="count the rows"))
        assert queries.verify(context).clean
        maintenance.backup(context, folder / "copy.db")
        context.store.close()
        target.write_bytes(gzip.compress((folder / "copy.db").read_bytes(), mtime=0))


if __name__ == "__main__":
    make(FOLDER / f"{HEAD}.db.gz")
