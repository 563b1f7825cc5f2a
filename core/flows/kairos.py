"""KAIROS calls: ``reward`` records one evaluation, ``export`` returns training rows; both take and return bytes.

A call may name an unknown layer: the layer and its execution are created as bare ones. Errors are raised as
everywhere, so a caller without permission is refused before the body is parsed. `answered` converts them to KAIROS's
format.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from core.errors import ArmscopeError, InvalidEvaluation, InvalidInput
from core.flows.context import Context
from core.flows.evaluate import evaluated
from core.flows.training import training_into
from core.formats.kairos import ROOT, RewardInput, read_reward, refusal, reward_output
from core.formats.kairos_export import export_output, read_export
from core.maths.evaluate import known_grade
from core.records.actor import Actor
from core.records.evaluation import EvaluationOrder
from core.records.training import TrainingFormat, TrainingQuery
from core.store.transaction import Transaction

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_CONTENT_BYTES: Final = 64 << 20


class KairosAnswer(NamedTuple):
    """HTTP status and JSON body of an answer."""

    status: int
    body: bytes


def answered(call: Callable[[], bytes]) -> KairosAnswer:
    """Return the answer of a call, also for a refusal.

    >>> answered(lambda: b"{}")
    KairosAnswer(status=200, body=b'{}')
    >>> from core.errors import StoreBusy
    >>> def busy() -> bytes:
    ...     raise StoreBusy("Another program writes.", next_step="Try again.")
    >>> answered(busy)
    KairosAnswer(status=503, body=b'{"error":"REWARD_FAILED","message":"Another program writes. Try again."}')
    """
    try:
        return KairosAnswer(200, call())
    except ArmscopeError as error:
        failure = refusal(error)
        return KairosAnswer(failure.status, failure.body())


def reward_call(context: Context, body: bytes) -> bytes:
    """Record a ``reward`` call, and return KAIROS's answer: one result, graded by the active thresholds.

    ``body`` is a JSON object by KAIROS's input schema. The reward is on disk when this returns. Raises `Denied` for
    an actor who may not evaluate, and `InvalidEvaluation`, whose ``fields`` name what does not match; nothing was
    recorded.
    """
    context.permit("evaluate")
    return record_reward(context, read_reward(body))


def record_reward(context: Context, call: RewardInput) -> bytes:
    """Record a ``reward`` call; names over 200 characters and feedback over 5,000 are refused, unlike in KAIROS."""
    order = _order(call)
    return context.write("evaluate", lambda txn: _rewarded(txn, call, order, context.on_new_layers))


def _order(call: RewardInput) -> EvaluationOrder:
    try:
        return EvaluationOrder(
            outcome=call.outcome,
            layer=call.layer.uid,
            execution=call.layer.execution,
            score=call.score,
            feedback=call.feedback,
            rater=call.rater,
            model=call.llm_model_id,
            rubric=call.rubric_version,
            create=True,
        )
    except InvalidEvaluation as problem:  # without fields the error would be attributed to the URI
        raise InvalidEvaluation(problem.problem, next_step=problem.next_step, fields=(ROOT,)) from problem


def _rewarded(
    txn: Transaction, call: RewardInput, order: EvaluationOrder, new_layers: Callable[[Actor, int], None]
) -> bytes:
    evaluated(txn, [order], new_layers)
    graded = known_grade(
        call.outcome,
        call.score,
        call.rater,
        call.llm_model_id,
        call.rubric_version,
        thresholds=txn.settings.thresholds,
    )
    return reward_output(call, graded, txn.now_ms)


def export_call(context: Context, body: bytes) -> bytes:
    """Return the answer to an ``export`` call: the training rows of `core.flows.training`.

    Rows that may hold a secret are left out. Of KAIROS's formats the training ones are supported, and of its
    deliveries the inline one, with at most 64 MiB. Raises `Denied` for an actor who may not export for training, and
    `InvalidInput` for more than that size. Raises `InvalidEvaluation`, whose ``fields`` name what does not match the
    schema, or is an unsupported export.
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
    content = _BoundedBuffer()
    content_answer = training_into(context, content, "content", query)
    return export_output(call, content.getvalue(), content_answer.rows)


class _BoundedBuffer(BytesIO):
    """Buffer with the maximum size of an answer."""

    def write(self, content: ReadableBuffer, /) -> int:
        n_bytes = super().write(content)
        if self.tell() > MAX_CONTENT_BYTES:
            raise InvalidInput(
                f"An export within an answer must have at most {MAX_CONTENT_BYTES:,} bytes, got more.",
                next_step="Name a layer or fewer adapters, or use armscope export FILE --format sft_jsonl.",
            )
        return n_bytes
