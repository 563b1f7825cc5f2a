"""KAIROS's calls: the bytes of its ``reward`` → one evaluation → the bytes of the answer; of its ``export`` → rows.

A call says what it says of a layer that nobody has named here as of any other: the layer, and its execution, are made
bare. What is wrong is raised as everywhere, so that whoever is not allowed is told before anything is read;
`answered` puts it into KAIROS's words.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from core.errors import ArmscopeError, InvalidEvaluation, InvalidInput
from core.evaluate import grade
from core.flows.context import Context
from core.flows.evaluate import evaluated
from core.flows.training import training_into
from core.formats.kairos import ROOT, RewardInput, read_reward, refusal, reward_output
from core.formats.kairos_export import export_output, read_export
from core.records.actor import Actor
from core.records.judging import EvaluationOrder
from core.records.training import TrainingFormat, TrainingQuery
from core.store.transaction import Transaction

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_CONTENT_BYTES: Final = 64 << 20


class Answer(NamedTuple):
    """What a caller is sent: an HTTP status and a body of JSON."""

    status: int
    body: bytes


def answered(call: Callable[[], bytes]) -> Answer:
    """What a call comes to, also where it is refused.

    >>> answered(lambda: b"{}")
    Answer(status=200, body=b'{}')
    >>> from core.errors import StoreBusy
    >>> def busy() -> bytes:
    ...     raise StoreBusy("Another program writes.", next_step="Try again.")
    >>> answered(busy)
    Answer(status=503, body=b'{"error":"REWARD_FAILED","message":"Another program writes. Try again."}')
    """
    try:
        return Answer(200, call())
    except ArmscopeError as error:
        told = refusal(error)
        return Answer(told.status, told.body())


def reward_call(context: Context, body: bytes) -> bytes:
    """Record what a ``reward`` call says; it is on disk when this returns its answer.

    Parameters
    ----------
    body
        A JSON object as KAIROS's input schema has it: ``uri`` and ``outcome``, and what else is said.

    Returns
    -------
    bytes
        KAIROS's answer: one result, graded by the thresholds in force.

    Raises
    ------
    Denied
        Who asks may not evaluate.
    InvalidEvaluation
        The body, or a member of it, is not as the schema has it; ``fields`` names which. Nothing was recorded.
    """
    context.permit("evaluate")
    return reward_given(context, read_reward(body))


def reward_given(context: Context, given: RewardInput) -> bytes:
    """The same of a call that was read, by whichever door.

    Names and feedback that are longer than ours may be (200 and 5,000 characters) are refused: KAIROS sets no limit.
    """
    order = _order(given)
    return context.write("evaluate", lambda txn: _rewarded(txn, given, order, context.new_layers))


def _order(given: RewardInput) -> EvaluationOrder:
    try:
        return EvaluationOrder(
            outcome=given.outcome,
            layer=given.layer.uid,
            execution=given.layer.execution,
            score=given.score,
            feedback=given.feedback,
            rater=given.rater,
            model=given.llm_model_id,
            rubric=given.rubric_version,
            create=True,
        )
    except InvalidEvaluation as problem:  # without fields it would be told as one of the URI
        raise InvalidEvaluation(problem.problem, next_step=problem.next_step, fields=(ROOT,)) from problem


def _rewarded(
    txn: Transaction, given: RewardInput, order: EvaluationOrder, new_layers: Callable[[Actor, int], None]
) -> bytes:
    evaluated(txn, [order], new_layers)
    graded = grade(
        given.outcome,
        given.score,
        rater=given.rater,
        model=given.llm_model_id,
        rubric=given.rubric_version,
        thresholds=txn.settings.thresholds,
    )
    return reward_output(given, graded, txn.now_ms)


def export_call(context: Context, body: bytes) -> bytes:
    """The answer to an ``export`` call: rows to train on, as `core.flows.training` writes them.

    Rows that seem to hold a secret are held back. Of KAIROS's formats those to train on are known, of its deliveries
    the one within the answer, which may hold 64 MiB.

    Raises
    ------
    Denied
        Who asks may not export for training.
    InvalidEvaluation
        The body, or a member of it, is not as the schema has it, or asks for what is not exported here; ``fields``
        names which.
    InvalidInput
        There is more than an answer may hold.
    """
    context.permit("export_training")
    call = read_export(body)
    layer = call.layer
    query = TrainingQuery(
        format=cast("TrainingFormat", call.format),
        pairing="layer",
        include_reward=call.include_reward,
        adapters=call.adapters,
        layers=() if layer is None else (layer.key,),
        executions=() if layer is None or layer.execution_key is None else (layer.execution_key,),
    )
    content = _Bounded()
    made = training_into(context, content, "content", query)
    return export_output(call, content.getvalue(), made.rows)


class _Bounded(BytesIO):
    """What an answer may hold."""

    def write(self, content: ReadableBuffer, /) -> int:
        n_bytes = super().write(content)
        if self.tell() > MAX_CONTENT_BYTES:
            raise InvalidInput(
                f"An export within an answer must have at most {MAX_CONTENT_BYTES:,} bytes, got more.",
                next_step="Name a layer or fewer adapters, or use armscope export FILE --format sft_jsonl.",
            )
        return n_bytes
