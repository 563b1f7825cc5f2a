"""Worlds for training exports, and an oracle of what may be trained on, written from the rules alone."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

from core.flows.context import Context
from core.flows.evaluate import evaluate_all
from core.flows.importing import import_files
from core.flows.settings import change
from core.records.evaluation import EvaluationOrder, EvaluationOutcome
from tests.engine import database_rows
from tests.worlds import START_MS, context_at, lines_file

ADAPTER: Final = "kairos://adapter/review"
RATERS: Final = ("mara", "bob", "careless", "", " ")
MODELS: Final = ("judge-1", "")
RUBRICS: Final = ("v1", "v2", "", "\u00a0")
SCORES: Final = (None, 0.0, 0.3, 0.649999, 0.65, 0.7, 0.7 - 1e-16, 0.8499999, 0.85, 1.0)
Json = dict[str, Any]


def layer_uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def execution_uid(number: int) -> str:
    return f"11111111-1111-4111-8111-{number:012x}"


def execution_line(
    number: int, *, layer: int = 1, ask: str = "", say: str = "", session: str | None = None
) -> Json:
    """An execution with one pair."""
    instruction = {
        "tensor_in": {},
        "layer_instructions": "Do it.",
        "activation_query": ask or f"ask {number}",
    }
    pair = {
        "layer": layer_uid(layer),
        "index": layer,
        "instruction": json.dumps(instruction, separators=(",", ":")),
        "response": json.dumps({"trace": say or f"say {number}"}, separators=(",", ":")),
    }
    return {
        "kind": "execution",
        "uid": execution_uid(number),
        "adapter": ADAPTER,
        "at_ms": START_MS + number,
        "session": session,
        "pairs": [pair],
    }


def store_unmasked(path: Path, number: int, say: str) -> None:
    """Store an answer with its secrets, as earlier versions did."""
    response = json.dumps({"trace": say})
    database_rows(
        path,
        f"UPDATE training_pair SET response = '{response}' WHERE execution_no ="
        f" (SELECT execution_no FROM execution WHERE uid = '{execution_uid(number)}')",
    )


def layer_line(number: int) -> Json:
    return {"kind": "layer", "uid": layer_uid(number), "adapter": ADAPTER, "index": number}


def executed(folder: Path, *lines: Json, keep_texts: bool = True) -> Context:
    """A learner that was told of executions."""
    context = context_at(folder / "a.db")
    change(context, "keep_texts", keep_texts)
    import_files(context, [lines_file(folder / "told.jsonl", *lines)])
    return context


def order(number: int, outcome: EvaluationOutcome, *, layer: int = 1, **said: Any) -> EvaluationOrder:  # noqa: ANN401
    return EvaluationOrder(layer=layer_uid(layer), execution=execution_uid(number), outcome=outcome, **said)


def judged(folder: Path, n: int = 300, seed: int = 1) -> Context:
    """Answers to some dozens of instructions by three layers, judged by everybody, with every score that matters."""
    random = Random(seed)
    context = executed(
        folder,
        *(layer_line(number) for number in (1, 2, 3)),
        *(
            execution_line(
                number,
                layer=number % 3 + 1,
                ask=f"ask {random.randrange(max(n // 5, 1))}",
                session=f"session {random.randrange(max(n // 4, 1))}",
            )
            for number in range(n)
        ),
    )
    orders = [
        order(
            number,
            random.choice(("success", "success", "failure")),
            layer=number % 3 + 1,
            score=random.choice(SCORES),
            rater=random.choice(RATERS),
            model=random.choice(MODELS),
            rubric=random.choice(RUBRICS),
        )
        for number in range(n)
        for _ in range(random.randrange(4))
    ]
    evaluate_all(context, orders)
    return context


def blockers_of(reward: Json, *, sft: float = 0.65, preference: float = 0.7) -> tuple[list[str], list[str]]:
    """Why a reward may not be trained on, by its record alone: nothing else that a row says of it is looked at."""
    blank = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    blank += "\u202f\u205f\u3000\ufeff"
    said = {
        name: (reward.get(name) or "").strip(blank) for name in ("rater", "llm_model_id", "rubric_version")
    }
    score = reward.get("score")
    is_success = reward["outcome"] == "success"
    if score is None:
        score = 1.0 if is_success else 0.0
    shared = [] if said["rubric_version"] else ["missing_rubric_version"]
    shared += [] if said["rater"] or said["llm_model_id"] else ["missing_evaluator_identity"]
    of_sft = [] if is_success else ["outcome_not_success"]
    of_sft += [] if score >= sft else ["score_below_sft_threshold"]
    return shared + of_sft, shared + ([] if score >= preference else ["score_below_preference_threshold"])
