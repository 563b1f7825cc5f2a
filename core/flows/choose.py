"""Choose: which of two answers to one instruction is better; the order they are shown in is drawn and stored."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from core.errors import InvalidInput, NotApplicable, UnknownExecution, UnknownLayer
from core.flows.context import Context
from core.records.evaluation_lines import ChoiceLine
from core.records.layer import LayerUri
from core.records.limits import shown
from core.records.review import ChoiceAnswer, Pair
from core.store.choices import add_choice
from core.store.reads.pairs import Answer, answer_in, pairs_left
from core.store.subjects import subject_no
from core.store.transaction import Transaction


def next_pair(context: Context, *, layer: str | None = None) -> Pair | None:
    """Two answers to one instruction that whoever asks has not compared yet; None where there are none left.

    Of what is left (of a ``layer``, its uid or URI, or of all) the oldest comes first; which of the two is shown
    first is drawn. Raises `UnknownLayer`.
    """
    seed = context.entropy()
    with context.reading("judge") as snapshot:
        layer_no = 0
        if layer is not None:
            found = subject_no(snapshot, "layer", _uid(layer))
            if found is None:
                raise UnknownLayer(
                    f"There is no layer {layer[:80]!r} in learner {snapshot.name!r}.",
                    next_step="Leave it out to be given answers of any.",
                )
            layer_no = found
        left = pairs_left(snapshot, context.actor.name, layer_no)
        if not left.n:
            return None
        first, second = left.oldest
        if np.random.default_rng(seed).random() < 0.5:
            first, second = second, first
        return Pair(
            layer=first.layer,
            first=first.execution,
            second=second.execution,
            instruction=first.instruction,
            first_response=first.response,
            second_response=second.response,
            n_left=left.n,
        )


def choose(
    context: Context,
    layer: str,
    first: str,
    second: str,
    chosen: Literal["first", "second", "equal"],
    *,
    rubric: str | None = None,
    feedback: str | None = None,
) -> ChoiceAnswer:
    """Record which of two answers is better, in the order they were shown; `undo` takes it back.

    Raises `UnknownExecution`, `NotApplicable` where they don't answer the same instruction, `InvalidInput` for
    another choice or twice the same answer, `InvalidEvaluation` for feedback that hasn't 1 to 5,000 characters.
    """
    if chosen not in {"first", "second", "equal"}:
        raise InvalidInput(
            f"chosen must be first, second or equal, got {shown(chosen)}.", next_step="Choose one of those."
        )
    if first.lower() == second.lower():
        raise InvalidInput(
            f"Two answers must be compared, got {first[:60]!r} twice.", next_step="Name the other one."
        )
    line = ChoiceLine(
        id="new",
        layer=_uid(layer),
        first=first.lower(),
        second=second.lower(),
        chosen=chosen,
        rater=context.actor.name,
        rubric=rubric or "",
        feedback=feedback,
    )

    def work(txn: Transaction) -> ChoiceAnswer:
        one, other = (_answer(txn, line.layer, uid) for uid in (line.first, line.second))
        if not one.digest or one.digest != other.digest:
            raise NotApplicable(
                f"Executions {line.first} and {line.second} must answer the same instruction, and are not known to.",
                next_step="Take a pair that was given; instructions are known where texts are kept.",
            )
        number = add_choice(txn, line, actor=txn.actor.name, at_ms=txn.now_ms)
        answer = ChoiceAnswer(
            id=f"choice-{number}", layer=line.layer, first=line.first, second=line.second, chosen=chosen
        )
        detail = msgspec.to_builtins(answer)
        del detail["id"]
        txn.audit("choice", answer.id, detail)
        return answer

    return context.write("judge", work)


def _uid(layer: str) -> str:
    return LayerUri.parse(layer).key if layer.lower().startswith("kairos:") else layer.lower()


def _answer(txn: Transaction, layer: str, execution: str) -> Answer:
    found = answer_in(txn, layer, execution)
    if found is None:
        raise UnknownExecution(
            f"There is no execution {execution[:80]!r} of layer {layer[:80]!r} in learner {txn.name!r}.",
            next_step="Take a pair that was given.",
        )
    return found
