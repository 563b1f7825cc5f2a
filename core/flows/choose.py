"""Choices between two answers to one instruction, shown in a random order that is stored."""

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
from core.store.notes import add_choice
from core.store.reads.reviewable import Answer, answer_in, pairs_left
from core.store.subjects import subject_no
from core.store.transaction import Transaction


def next_pair(context: Context, *, layer: str | None = None) -> Pair | None:
    """Return two answers to one instruction that the actor has not compared yet, or None.

    The oldest pair (of a ``layer`` by uid or URI, or of all) comes first. The order of the two is random. Raises
    `UnknownLayer`.
    """
    seed = context.entropy()
    with context.reading("judge") as snapshot:
        layer_no = 0
        if layer is not None:
            known_no = subject_no(snapshot, "layer", _uid(layer))
            if known_no is None:
                raise UnknownLayer(
                    f"There is no layer {layer[:80]!r} in learner {snapshot.name!r}.",
                    next_step="Leave it out to get answers of any layer.",
                )
            layer_no = known_no
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
    """Record which of two answers is better, in the order they were shown; `undo` reverts it.

    Raises `UnknownExecution`. Raises `NotApplicable` for answers to different instructions. Raises `InvalidInput` for
    an unknown choice or the same answer twice, and `InvalidEvaluation` for feedback without 1 to 5,000 characters.
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
                f"Executions {line.first} and {line.second} must answer the same instruction.",
                next_step="Use a pair of `next_pair`; instructions are known only with the setting keep_texts.",
            )
        number = add_choice(txn, line, txn.own)
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
    answer = answer_in(txn, layer, execution)
    if answer is None:
        raise UnknownExecution(
            f"There is no execution {execution[:80]!r} of layer {layer[:80]!r} in learner {txn.name!r}.",
            next_step="Use a pair of `next_pair`.",
        )
    return answer
