"""Evaluations and credits of every shape: what the processes of the durability tests send, once and again."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.credit import credit_episode
from core.flows.episode import declare, record_step
from core.flows.evaluate import evaluate_all
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.rollouts import take_events
from core.flows.settings import change
from core.records.evaluation import EvaluationOrder
from core.store.store import Store
from core.store.tables import metadata
from tests.engine import kept_in
from tests.worlds import a_run, context_at, lines_file
from tests.worlds.events import EVERY, PLAYED

LAYERS: Final = ("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", "bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee")
"""The head of an adapter, and another layer of it."""
NEW_LAYER: Final = "cccccccc-bbbb-4ccc-8ddd-eeeeeeeeeeee"
EXECUTION: Final = "11111111-2222-4333-8444-555555555555"
ARM: Final = "tool:other:a"

_NEW: Final = EvaluationOrder(layer=NEW_LAYER, outcome="success", rater="mara", create=True, key="new layer")
_EXECUTED: Final = EvaluationOrder(
    layer=LAYERS[1], execution=EXECUTION, outcome="success", score=0.7, model="judge-1", key="executed"
)
_WHOLE: Final = EvaluationOrder(run="r1", outcome="failure", score=0.7, rater="bob", key="run as a whole")
_REVISED: Final = EvaluationOrder(run="r2", arm=ARM, outcome="failure", rater="mara", key="revised")
_SHARED: Final = EvaluationOrder(run="r2", arm=ARM, outcome="success", score=0.25, rater="bob", key="shared")
_MOVING: Final = ("revision", "token")
CASES: Final[dict[str, tuple[EvaluationOrder, ...]]] = {
    "a layer nobody has named": (_NEW,),
    "a layer in an execution": (_EXECUTED,),
    "a run as a whole": (_WHOLE,),
    "a revision": (_REVISED,),
    "a second rater": (_SHARED,),
    "all at once": (_NEW, _EXECUTED, _WHOLE, _REVISED, _SHARED, _NEW),
}
"""Keys make that what is sent again is known."""
ACTS: Final[dict[str, Callable[[Context], str | None]]] = {
    "an episode's credit": lambda context: credit_episode(context, "paid", "equal").id,
    "a credit in the place of another": lambda context: credit_episode(context, "credited", "step").id,
    "an import undone with what was credited": lambda context: undo(context, "import-2").id,
    "an import of episodes": lambda context: _imported(context, _episode("new", 3), _episode("newer", 1)),
    "a longer copy of a credited episode": lambda context: _imported(context, _credited(4)),
    "a scale": lambda context: f"{declare(context, 'sums', hi=2.0).scale}",
    "a rollout": lambda context: f"{take_events(context, EVERY).refused}",
    "events that wait": lambda context: _imported(context, *PLAYED),
}
"""Which are answered as the first time by themselves."""
ALL: Final = (*CASES, *ACTS)


def _episode(uid: str, n_steps: int) -> dict[str, object]:
    steps = [{"number": number, "name": "a", "reward": 0.25} for number in range(n_steps)]
    return {"kind": "episode", "uid": uid, "environment": "sums", "runs": ["r1"], "steps": steps}


def _credited(n_steps: int) -> dict[str, object]:
    """Return the line of the credited episode up to this step."""
    steps = [{"number": number, "name": "ab"[number % 2], "reward": 0.25} for number in range(n_steps)]
    return {"kind": "episode", "uid": "credited", "environment": "sums", "runs": ["r3"], "steps": steps}


def _imported(context: Context, *told: dict[str, object]) -> str:
    """What it told of, since only the first time is an act."""
    with TemporaryDirectory() as folder:
        found = import_files(context, [lines_file(Path(folder) / "told.jsonl", *told)])
    return f"{found.episodes} {found.notes}"


def judged_database(folder: Path) -> Path:
    """A closed database with runs, an adapter's layers, an evaluation to revise, and episodes, one credited."""
    context = context_at(folder / "judged.db")
    record_all(context, [a_run("r1"), a_run("r2", calls=("a", "b"))])
    change(context, "evaluation_credit", "equal")
    layers: list[dict[str, object]] = [
        {"kind": "layer", "uid": uid, "adapter": "kairos://adapter/review", "index": place}
        for place, uid in enumerate(LAYERS, 1)
    ]
    execution: dict[str, object] = {"kind": "execution", "uid": EXECUTION, "session": "s"}
    import_files(context, [lines_file(folder / "subjects.jsonl", *layers, execution)])
    evaluate_all(context, [EvaluationOrder(run="r2", arm=ARM, outcome="success", rater="mara")])
    record_step(
        context, "paid", environment="sums", name="a", reward=0.5, run="r1", args_digest="a" * 32
    )  # draws the key
    run: dict[str, object] = {"kind": "run", "uid": "r3", "arms": [ARM, "tool:other:b"], "calls": ["a"]}
    import_files(context, [lines_file(folder / "credited.jsonl", run, _credited(2))])
    credit_episode(context, "credited", "equal")
    context.store.close()
    Store(kept_in(context.store)).close()
    return kept_in(context.store)


def send(context: Context, case: str) -> list[str | None]:
    """Send what a case holds; the ids of the answers."""
    if case in ACTS:
        return [ACTS[case](context)]
    return [one.id for one in evaluate_all(context, CASES[case])]


def held(context: Context) -> str:
    """What the database holds, but what each write moves: the number of writes, and what each draws."""
    told = blake2b(digest_size=12)
    with context.store.database.reading() as link:
        for table in metadata.sorted_tables:
            moving = _MOVING if table.name == "learner" else ()
            columns = ", ".join(f'"{one.name}"' for one in table.columns if one.name not in moving)
            rows = sorted(link.rows(f'SELECT {columns} FROM "{table.name}"'), key=repr)
            told.update(f"{table.name} {rows}".encode())
    return told.hexdigest()


def order_under(key: str, rater: str) -> EvaluationOrder:
    """A key and a rater always say the same; what is judged goes by the key."""
    place = sum(map(ord, key))
    layer, execution, run, arm = (
        (None, None, "r1", ARM),
        (None, None, "r2", None),
        (LAYERS[1], None, None, None),
        (LAYERS[0], EXECUTION, None, None),
    )[place % 4]
    return EvaluationOrder(
        outcome="failure" if place % 3 else "success",
        score=place % 11 / 10,
        rater=rater,
        key=key,
        layer=layer,
        execution=execution,
        run=run,
        arm=arm,
    )
